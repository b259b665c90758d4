"""Senders of the drop-in for requests: a Session for each thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from curlhttp import requests
from curlhttp.exceptions import RequestException
from tests.fuzz.case import Case
from tests.fuzz.checker import Checker
from tests.fuzz.inspection import Surprise
from tests.fuzz.senders import (
    TIMEOUT,
    Sender,
    control_name,
    in_threads,
    is_followed_by_control,
    persist,
)


class SessionRequest(Sender):
    """Session.request."""

    def __init__(self, checker: Checker, kind: str) -> None:
        super().__init__(checker, kind)
        self._sessions: dict[int, Any] = {}
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    def run(self, cases: Sequence[Case]) -> None:
        in_threads(cases, self._send_and_control)
        with self._lock:  # the threads have ended, and the next ones take their sessions over
            self._idle += self._sessions.values()
            self._sessions.clear()

    def _session(self) -> Any:
        me = threading.get_ident()
        with self._lock:
            session = self._sessions.get(me)
            if session is None:
                session = self._idle.pop() if self._idle else self._make()
                self._sessions[me] = session
        return session

    def _make(self) -> Any:
        session = requests.Session()
        session.trust_env = False
        if self.kind in ("connect", "proxied"):
            proxy = f"http://user:pr0xy-w0rd@127.0.0.1:{self.checker.port}"
            session.proxies = {"http": proxy, "https": proxy}
        return session

    def _send_and_control(self, case: Case) -> None:
        session = self._session()
        with self.checker.checking(case) as began:
            self.send(session, case, began)
        if is_followed_by_control(case):
            with self.checker.checking(case) as began:
                name = control_name(case)
                data = persist(lambda: self.control(session, case, self.good(name)))
                self.checker.controlled(case, name, data, began)

    def send(self, session: Any, case: Case, began: float) -> None:
        """Send a case and check its outcome."""
        response = session.request(case.method, case.url, **case.session_options())
        self.checker.answered(case, response, began)

    def control(self, session: Any, case: Case, url: str) -> bytes:
        """Return the body that a control gets."""
        if case.number % 8 == 0:
            return bytes(session.post(url, data=b"x", timeout=TIMEOUT).content)
        return bytes(session.get(url, timeout=TIMEOUT).content)

    def close(self) -> None:
        for session in self._idle:
            session.close()


class SessionStream(SessionRequest):
    """Session.request with stream=True, read by any of its methods, sometimes only in part."""

    def send(self, session: Any, case: Case, began: float) -> None:
        response = session.request(case.method, case.url, stream=True, **case.session_options())
        how = case.random.choice(list(_HOW))
        if how == "drop":
            return
        with response:
            try:
                pieces = _HOW[how](response)
            except requests.packages.urllib3.exceptions.HTTPError:
                if how.startswith("raw"):  # which speaks in urllib3's words
                    return
                raise
            if how in ("content", "text", "json"):
                self.checker.answered(case, response, began)
                return
        if not all(isinstance(piece, (str, bytes)) for piece in pieces):
            raise Surprise(f"{how} gives other things")
        data = [
            piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")
            for piece in pieces
        ]
        self.checker.read(case, b"".join(data), began)


def _read_json(response: Any) -> Any:
    try:
        response.json()
    except RequestException as error:
        if not isinstance(error, ValueError):
            raise
    return []


_HOW: dict[str, Any] = {
    "content": lambda response: [response.content],
    "text": lambda response: [response.text],
    "json": _read_json,
    "iter_content": lambda response: list(response.iter_content(100)),
    "decoded content": lambda response: list(response.iter_content(None, decode_unicode=True)),
    "one byte": lambda response: [next(response.iter_content(1), b"")],
    "lines": lambda response: list(response.iter_lines()),
    "decoded lines": lambda response: list(response.iter_lines(decode_unicode=True)),
    "raw": lambda response: [response.raw.read()],
    "raw pieces": lambda response: list(response.raw.stream(50)),
    "raw decoded": lambda response: [response.raw.read(decode_content=True)],
    "drop": None,
}
