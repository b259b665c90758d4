"""Blocking senders: threads that share a Client, and threads with a Session each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import curlhttp
from curlhttp import requests
from curlhttp.types import HTTP2
from tests.storm.checker import Checker
from tests.storm.fate import Fate, make_chaos

_THREADS = 12
READS = 20.0
_STALLED = 0.05


def run_client(
    checker: Checker, fates: Sequence[Fate], *, http2: HTTP2 = False, chaos: bool = False
) -> None:
    """Send all from threads that share a client; close it while some are running."""
    client = curlhttp.Client(
        trust_env=False,
        max_connections=_THREADS - 2,
        http2=http2,
        transport=make_chaos(checker.seed) if chaos else None,
    )

    def send(fate: Fate) -> None:
        with checker.checking(fate) as began:
            _Request(checker, fate, began).by_client(client)

    _in_threads(_THREADS, fates[:-_THREADS], send)
    _control(checker, fates, lambda url: client.get(url, timeout=READS).content)
    _close_amid(fates[-_THREADS:], send, client.close)


def run_sessions(checker: Checker, fates: Sequence[Fate]) -> None:
    """Send all from threads with a session each."""
    local = threading.local()
    sessions: list[Any] = []

    def session() -> Any:
        if not hasattr(local, "session"):
            local.session = requests.Session()
            local.session.trust_env = False
            sessions.append(local.session)
        return local.session

    def send(fate: Fate) -> None:
        with checker.checking(fate) as began:
            _Request(checker, fate, began).by_session(session())

    _in_threads(_THREADS, fates, send)
    _control(checker, fates, lambda url: bytes(session().get(url, timeout=READS).content))
    for made in sessions:
        made.close()


def _in_threads(count: int, fates: Sequence[Fate], send: Callable[[Fate], None]) -> None:
    todo = iter(fates)
    lock = threading.Lock()

    def take() -> Iterator[Fate]:
        while True:
            with lock:
                fate = next(todo, None)
            if fate is None:
                return
            yield fate

    def work() -> None:
        for fate in take():
            send(fate)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _control(checker: Checker, fates: Sequence[Fate], get: Callable[[str], bytes]) -> None:
    for number in range(3):
        name = f"control-{fates[0].number}-{number}"
        began = time.monotonic()
        checker.controlled(name, get(f"http://127.0.0.1:{checker.port}/good/{name}"), began)


def _close_amid(
    fates: Sequence[Fate], send: Callable[[Fate], None], close: Callable[[], None]
) -> None:
    threads = [threading.Thread(target=send, args=[fate]) for fate in fates]
    for thread in threads[:-1]:
        thread.start()
    close()
    threads[-1].start()
    for thread in threads:
        thread.join()


class _Request:
    def __init__(self, checker: Checker, fate: Fate, began: float) -> None:
        self._checker = checker
        self._fate = fate
        self._began = began

    def by_client(self, client: curlhttp.Client) -> None:
        fate = self._fate
        options: dict[str, Any] = {"timeout": self._timeout()}
        if fate.upload is not None:
            options["content"] = fate.pieces() if fate.streams else b"u" * fate.upload
        url = self._checker.url(fate)
        if not fate.deed.startswith("stream"):
            response = client.request(fate.method, url, **options)
            self._checker.whole(fate, response.status_code, response.content, self._began)
            return
        streamed = client.stream(fate.method, url, **options)
        if fate.deed == "stream and drop":
            return
        with streamed:
            self._read(streamed.status_code, streamed.iter_bytes())

    def by_session(self, session: Any) -> None:
        fate = self._fate
        options: dict[str, Any] = {"timeout": _STALLED if fate.stalls else READS}
        if fate.upload is not None:
            options["data"] = fate.pieces() if fate.streams else b"u" * fate.upload
        streams = fate.deed.startswith("stream")
        response = session.request(fate.method, self._checker.url(fate), stream=streams, **options)
        if not streams:
            self._checker.whole(fate, response.status_code, response.content, self._began)
        elif fate.deed != "stream and drop":
            with response:
                self._read(response.status_code, response.iter_content(4096))

    def _timeout(self) -> curlhttp.Timeout:
        fate = self._fate
        reads = _STALLED if fate.stalls else READS
        if fate.deed in ("deadline", "cancel"):
            self._checker.count("cancels")
            return curlhttp.Timeout(total=max(fate.moment, 1e-3), read=reads)
        return curlhttp.Timeout(read=reads)

    def _read(self, status: int, pieces: Iterator[bytes]) -> None:
        fate, body = self._fate, b""
        for piece in pieces:
            body += piece
            if fate.deed == "stream slowly":
                time.sleep(fate.moment)
            elif fate.deed != "stream":
                self._checker.count("cancels")
                self._checker.part(fate, body, self._began)
                return
        self._checker.whole(fate, status, body, self._began)
