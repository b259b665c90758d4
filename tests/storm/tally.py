"""What must hold of every request of a storm, and how many there were of what."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from curlhttp.exceptions import ReadTimeout, RequestException
from tests.adversary.child import Child
from tests.adversary.findings import Findings, place_of
from tests.adversary.stamps import owners_in, stamp
from tests.adversary.watchdog import Watchdog
from tests.storm.fate import CHAOS_STATUS, Fate

__all__ = ["Tally"]


class Tally:
    """Judge what came of requests, in any thread or task.

    Args:
        child: the server.
        findings: what was found.
        watchdog: ends what hangs.
        seed: of the run.

    Attributes:
        counts: how many there were of what.
        once: names of requests that the server must have seen once at most.
        unsent: names of those that are said not to have been sent.
        colour: who sends just now.
        seed: of the run.
    """

    def __init__(self, child: Child, findings: Findings, watchdog: Watchdog, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.once: list[str] = []
        self.unsent: list[str] = []
        self._outcomes: dict[str, str] = {}  # of this block
        self.colour = ""
        self.seed = seed
        self._child = child
        self._findings = findings
        self._watchdog = watchdog
        self._lock = Lock()

    @property
    def port(self) -> int:
        """Return the server's port, of HTTP/2 for the colours of that name."""
        return int(self._child.hello["http2" if self.colour.startswith("h2") else "http1"])

    def url(self, fate: Fate) -> str:
        """Return where a request goes."""
        return f"http://127.0.0.1:{self.port}/s/{fate.number}"

    def count(self, what: str) -> None:
        """Count one more of something."""
        with self._lock:
            self.counts[what] += 1

    @contextmanager
    def judging(self, fate: Fate) -> Iterator[float]:
        """Judge what the block raises; it gets the time at which it began."""
        if fate.once:
            self.once.append(fate.name)
        began = time.monotonic()
        with self._watchdog.watching(f"{self.colour}: {fate}"):
            try:
                yield began
            except RequestException as error:
                self._failed(fate, error)
            except Exception as error:
                self.report(fate, f"raises {type(error).__name__}", error)

    def _failed(self, fate: Fate, error: RequestException) -> None:
        self.count(type(error).__name__)
        self._outcomes[fate.name] = repr(error)
        if not error.request_sent:
            self.unsent.append(fate.name)
        if type(error) is RequestException:
            self.report(fate, "raises an error without a kind", error)
        if isinstance(error, ReadTimeout) and not fate.stalls:
            self.report(fate, "waits for the read timeout, though the server goes on", error)

    def whole(self, fate: Fate, status: int, body: bytes, began: float) -> None:
        """Judge a body that was read to its end."""
        if status == CHAOS_STATUS:
            self.count("injected statuses")
            return
        mark = stamp(fate.name)
        copies = 1 if status == 413 else fate.size // len(mark) + 1
        self._outcomes[fate.name] = f"{status}, {len(body)} bytes"
        if body == mark * copies:
            self.count("whole")
        elif self.part(fate, body, began):
            # What the end of the connection ends may be cut, and nobody can tell.
            if fate.framing != "close":
                self.report(fate, f"a cut body passes for a whole one, after {status}", None)
            self.count("cut")

    def part(self, fate: Fate, body: bytes, began: float) -> bool:
        """Judge the beginning of a body; return whether it is the request's own."""
        mark = stamp(fate.name)
        if (mark * (len(body) // len(mark) + 1)).startswith(body):
            return True
        told = self._told_of_strangers(body, fate.name)
        if not self._is_race(told, began):
            outcomes = {name: self._outcomes.get(name) for name in told}
            text = f"{body[:200]!r}\nof these, with what else their connections carried: {told}\n"
            text += f"which ended with {outcomes}\nasked at {began}; {self._child.ask(fate.name)}"
            self.report(fate, "a wrong body", None, text)
        return False

    def _told_of_strangers(self, body: bytes, name: str) -> dict[str, list[Any]]:
        """Return what the server tells of the other requests that a body is the answer to."""
        return {stranger: self._child.ask(stranger) for stranger in owners_in(body) - {name}}

    def _is_race(self, told: dict[str, list[Any]], began: float) -> bool:
        """Return whether nobody could tell the strangers' answers from right ones; count that."""
        found = any(_came_too_late(stranger, came, began) for stranger, came in told.items())
        if found:
            self.count("races")
        return found

    def controlled(self, name: str, body: bytes, began: float) -> None:
        """Judge the answer to a request that is answered properly."""
        self.count("controls")
        if body == stamp(name):
            return
        told = self._told_of_strangers(body, name)
        if not self._is_race(told, began):
            text = (
                f"{name} got {body[:200]!r}\nof these, with what their connections carried: {told}"
            )
            self._findings.add(f"{self.colour}: a control gets a wrong body", text)

    def report(self, fate: Fate, what: str, error: BaseException | None, more: str = "") -> None:
        """Make a finding."""
        place = f" in {place_of(error)}" if error is not None else ""
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self._findings.add(
            f"{self.colour}: {what}{place}", f"seed {self.seed}, {fate}\n{more}\n{trace}"
        )

    def left(self, what: str) -> None:
        """Report what a colour leaves over."""
        self._findings.add(f"{self.colour}: {what}", f"seed {self.seed}")

    def settle(self) -> None:
        """Ask the server what it saw, once all requests have ended."""
        with self._lock:
            once, self.once = self.once, []
            unsent, self.unsent = self.unsent, []
            self._outcomes.clear()
        for name, times in self._seen(once).items():
            if times > 1:
                self._findings.add(f"{self.colour}: sent {times} times", self._about(name))
        for name in self._seen(unsent):
            kind = f"{self.colour}: the server saw what is said not to have been sent"
            self._findings.add(kind, self._about(name))

    def _about(self, name: str) -> str:
        from tests.storm.fate import fate_of

        return f"seed {self.seed}, {fate_of(self.seed, int(name[1:]))}"

    def _seen(self, names: list[str]) -> dict[str, int]:
        seen: dict[str, int] = self._child.ask(names)
        return seen

    def faults(self) -> Any:
        """Return how often the server did what."""
        return self._child.ask(None)


def _came_too_late(stranger: str, came: list[Any], began: float) -> bool:
    """Return whether a stranger's answer could not be told from a right one.

    It was sent after the call began, on a connection where something was sent out of turn: if
    that came right after a request, it was taken for its answer, and each answer for the next's.
    """
    spoke = False
    for _, name, fault, sent in came:
        spoke = spoke or fault == "stray"
        if name == stranger and spoke and sent >= began:
            return True
    return False
