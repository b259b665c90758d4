"""What must hold of each case, whichever way it took; and what is reported when it does not."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from curlhttp.exceptions import ConnectTimeout, ReadTimeout, RequestException
from tests.adversary.child import Child
from tests.adversary.findings import Findings, place_of
from tests.adversary.stamps import owners_in
from tests.adversary.watchdog import Watchdog
from tests.fuzz.case import Case
from tests.fuzz.looks import Surprise, bytes_of, look_at_error, look_at_response

__all__ = ["Judge"]

_FRAMING = ("content-length", "transfer-encoding")


class Judge:
    """Judge what came of cases, in any thread.

    Args:
        child: the server.
        findings: what was found.
        watchdog: ends what hangs.

    Attributes:
        way: the name of the way that is under way.
        responses: how many there were.
        errors: how many RequestExceptions there were.
        races: wrong answers that came too late to be told from right ones.
    """

    def __init__(self, child: Child, findings: Findings, watchdog: Watchdog) -> None:
        self.way = ""
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
    def judging(self, case: Case) -> Iterator[float]:
        """Judge what the block raises; it gets the time at which it began."""
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
        """Judge the error that a case ended with."""
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
        """Judge the response, read to its end, that a case ended with.

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
        self.read(case, bytes_of(response), began)
        self._compare(case, response, began)
        return None

    def _compare(self, case: Case, response: Any, began: float) -> None:
        """Compare a response with what was sent, where the answer leaves no doubt."""
        hop = case.hop_of(response.url)
        expected = None if hop is None else case.answer(hop).expected
        if expected is None:
            return
        body = b"" if response.request.method == "HEAD" else expected.body
        if response.status_code != expected.status or response.content != body:
            what, wrong = "another answer than was sent", bytes_of(response)[:900]
        elif (got := _fields(response)) is not None and got != expected.fields:
            what, wrong = "other fields than were sent", repr(got).encode()
        else:
            return
        history = self._child.ask(case.owner)
        if any(late >= began for owner, *_, late in history if owner != case.owner):
            with self._lock:
                self.races += 1
            return
        text = (
            f"{wrong!r}, not {expected!r:.900}\nits connection carried {history}, asked at {began}"
        )
        self._report(case, what, None, text)

    def read(self, case: Case, data: bytes, began: float) -> None:
        """Judge bytes that a case got: nobody else's stamp may be in them."""
        with self._lock:
            self.responses += 1
        strangers = owners_in(data) - {case.owner}
        if strangers:
            self._wrong(case, strangers.pop(), data, began)

    def controlled(
        self, case: Case, name: str, got: bytes | RequestException, began: float
    ) -> None:
        """Judge the answer to a control request: it is good, and must have been its own.

        Args:
            case: the one before.
            name: what the control was called.
            got: its body, or what it failed with at last.
            began: when the call began.
        """
        with self._lock:
            self.controls += 1
        owners = set() if isinstance(got, RequestException) else owners_in(got)
        if isinstance(got, RequestException) or not owners:
            history = self._history(case.owner)
            self._report(case, "a control gets no answer of its own", None, f"{got!r}\n{history}")
        elif owners != {name}:
            self._wrong(case, owners.pop(), got, began)

    def _wrong(self, case: Case, stranger: str, data: bytes, began: float) -> None:
        """Report a stranger's answer, unless it came after the call, when nobody can tell."""
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
        place = f" in {place_of(error)}" if error is not None else ""
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self._findings.add(
            f"{case.kind}: {what}{place}",
            f"{self._name(case)}\n{more}\n{trace}{case.wire()}",
        )

    def _name(self, case: Case) -> str:
        command = f"python -m tests.fuzz --seed {case.seed} --case {case.number}"
        return f"reproduce: {command} --way {self.way}"


def _fields(response: Any) -> list[tuple[str, bytes]] | None:
    """Return the fields but for those of framing, or None where they were joined."""
    if not hasattr(response.headers, "multi_items"):
        return None
    return [
        (name.lower(), value.encode("latin-1"))
        for name, value in response.headers.multi_items()
        if name.lower() not in _FRAMING
    ]
