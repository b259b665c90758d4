"""Check each case, whichever sender sent it, and report what is wrong."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from curlhttp.exceptions import ConnectTimeout, ReadTimeout, RequestException
from tests.adversary.findings import Findings, find_place
from tests.adversary.server_process import ServerProcess
from tests.adversary.stamps import find_owners
from tests.adversary.watchdog import Watchdog
from tests.fuzz.case import Case
from tests.fuzz.heads import Expected
from tests.fuzz.inspection import Surprise, bytes_of, look_at_error, look_at_response
from tests.support.internals import decode_as

_LINE_END = re.compile(r"\r\n|\r|\n")
_FRAMING = ("content-length", "transfer-encoding")


class Checker:
    """Check the outcome of cases, in any thread.

    Args:
        child: the server.
        findings: what was found.
        watchdog: ends what hangs.

    Attributes:
        sender: name of the sender that runs.
        responses: how many there were.
        errors: how many RequestExceptions there were.
        races: wrong responses that arrived too late to be distinguished from right ones.
    """

    def __init__(self, child: ServerProcess, findings: Findings, watchdog: Watchdog) -> None:
        self.sender = ""
        self.responses = self.errors = self.controls = self.races = 0
        self._child = child
        self._findings = findings
        self._watchdog = watchdog
        self._lock = Lock()

    @property
    def port(self) -> int:
        """Return the server's port."""
        return int(self._child.hello["port"])

    @contextmanager
    def checking(self, case: Case) -> Iterator[float]:
        """Check what the block raises; it gets the time at which it began."""
        begun = time.monotonic()
        with self._watchdog.watching(self._name(case)):
            try:
                yield begun
            except Surprise as surprise:
                self._report(case, str(surprise), surprise.__cause__ or surprise)
            except RequestException as error:
                self.failed(case, error)
            except Exception as error:
                self._report(case, f"raises {type(error).__name__}", error)

    def failed(self, case: Case, error: BaseException) -> None:
        """Check the error that a case ended with."""
        if not isinstance(error, RequestException):
            return self._report(case, f"raises {type(error).__name__}", error)
        with self._lock:
            self.errors += 1
        if type(error) is RequestException:
            self._report(case, "raises an error without a kind", error)
        if isinstance(error, (ReadTimeout, ConnectTimeout)) and not case.stalls:
            self._report(
                case,
                "waits for a timeout after the server closed",
                error,
                self._history(case.owner),
            )
        try:
            look_at_error(error)
        except Surprise as surprise:
            self._report(case, str(surprise), surprise.__cause__ or surprise)
        return None

    def answered(self, case: Case, response: Any, began: float) -> None:
        """Check the response, read to its end, that a case ended with.

        Args:
            case: what was asked.
            response: what came.
            began: when the call began.
        """
        if case.kind == "connect":
            return self._report(case, "a proxy's answer passes for the origin's", None)
        try:
            look_at_response(response)
        except Surprise as surprise:
            self._report(case, str(surprise), surprise.__cause__ or surprise)
        if self.read(case, bytes_of(response), began):
            self._compare(case, response, began)
        return None

    def iterated(
        self, case: Case, response: Any, how: str, pieces: list[Any], began: float, *, ended: bool
    ) -> None:
        """Check what iterating over a streamed response gave.

        Args:
            case: what was asked.
            response: what was read.
            how: what was iterated over: "text" and "lines" give str, all else gives bytes.
            pieces: what came.
            began: when the call began.
            ended: whether that was all.
        """
        kind = str if how in ("text", "lines") else bytes
        if not all(isinstance(piece, kind) for piece in pieces):
            self._report(case, f"iterating over {how} gives other things", None)
        joined = kind().join(pieces)
        data = joined if isinstance(joined, bytes) else joined.encode("utf-8", "replace")
        self.read(case, data, began)
        expected = self._expected(case, response)
        if not ended or how == "raw" or expected is None:
            return
        body = b"" if response.request.method == "HEAD" else expected.body
        right: Any = body
        if kind is str:
            right = decode_as(response, body)
        if how == "lines":
            right = _LINE_END.sub("", right)
        if joined != right:
            self._mismatch(case, f"other {how} than were sent", f"{joined!r}", f"{right!r}", began)

    def saved(self, case: Case, response: Any, content: bytes, began: float) -> None:
        """Check a file that a download of the whole left."""
        if not self.read(case, content, began):
            return  # checked already; the server may never have seen the request itself
        expected = self._expected(case, response)
        if expected is not None and response.status_code == 200 and content != expected.body:
            self._mismatch(case, "another file than was sent", f"{content!r}", f"{expected}", began)

    def _expected(self, case: Case, response: Any) -> Expected | None:
        hop = case.hop_of(response.url)
        return None if hop is None else case.answer(hop).expected

    def _compare(self, case: Case, response: Any, began: float) -> None:
        """Compare a response with what was sent, where the response leaves no doubt."""
        expected = self._expected(case, response)
        if expected is None:
            return
        body = b"" if response.request.method == "HEAD" else expected.body
        fields = _fields(response)
        if response.status_code != expected.status or response.content != body:
            text = f"{bytes_of(response)!r}"
            self._mismatch(case, "another answer than was sent", text, f"{expected}", began)
        elif fields is not None and fields != expected.fields:
            self._mismatch(case, "other fields than were sent", f"{fields}", f"{expected}", began)

    def _mismatch(self, case: Case, what: str, got: str, right: str, began: float) -> None:
        """Report another response than was sent, unless one before it may have come too late."""
        history = self._child.ask(case.owner)
        if any(late >= began for owner, *_, late in history if owner != case.owner):
            with self._lock:
                self.races += 1
            return
        text = f"{got:.900}, not {right:.900}\nits connection carried {history}, asked at {began}"
        self._report(case, what, None, text)

    def read(self, case: Case, data: bytes, began: float) -> bool:
        """Check bytes that a case got, and return whether nobody else's stamp is in them."""
        with self._lock:
            self.responses += 1
        strangers = find_owners(data) - {case.owner}
        if strangers:
            self._wrong(case, next(iter(strangers)), data, began)
        return not strangers

    def controlled(
        self, case: Case, name: str, got: bytes | RequestException, began: float
    ) -> None:
        """Check the response to a control request: it is good, and must have been its own.

        Args:
            case: the one before.
            name: what the control was called.
            got: its body, or what it failed with at last.
            began: when the call began.
        """
        with self._lock:
            self.controls += 1
        owners = set() if isinstance(got, RequestException) else find_owners(got)
        if isinstance(got, RequestException) or not owners:
            history = self._history(case.owner)
            self._report(case, "a control gets no answer of its own", None, f"{got!r}\n{history}")
        elif owners != {name}:
            self._wrong(case, owners.pop(), got, began)

    def _wrong(self, case: Case, stranger: str, data: bytes, began: float) -> None:
        """Report a foreign response, unless it arrived after the call began, which is a race."""
        history = self._child.ask(stranger)
        lates = [late for owner, *_, late in history if owner == stranger]
        if lates and max(lates) >= began:
            with self._lock:
                self.races += 1
            return
        text = f"got the answer of {stranger}: {data[:300]!r}\nits connection carried {history}"
        self._report(case, "a wrong body", None, text)

    def _history(self, owner: str) -> str:
        return f"its connection carried {self._child.ask(owner)}"

    def _report(self, case: Case, what: str, error: BaseException | None, more: str = "") -> None:
        place = f" in {find_place(error)}" if error is not None else ""
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self._findings.add(
            f"{case.kind}: {what}{place}",
            f"{self._name(case)}\n{more}\n{trace}{case.wire()}",
        )

    def _name(self, case: Case) -> str:
        command = f"python -m tests.fuzz --seed {case.seed} --case {case.number}"
        return f"reproduce: {command} --sender {self.sender}"


def _fields(response: Any) -> list[tuple[str, bytes]] | None:
    """Return the fields but for those of framing, or None where they were joined."""
    if not hasattr(response.headers, "multi_items"):
        return None
    return [
        (name.lower(), value.encode("latin-1"))
        for name, value in response.headers.multi_items()
        if name.lower() not in _FRAMING
    ]
