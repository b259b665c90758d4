"""Check every request of a storm, and count outcomes."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from curlhttp.exceptions import ReadTimeout, RequestException
from tests.adversary.findings import Findings, find_place
from tests.adversary.server_process import ServerProcess
from tests.adversary.stamps import find_cut_owner, find_owners, stamp
from tests.adversary.watchdog import Watchdog
from tests.storm.fate import CHAOS_STATUS, Fate


class Checker:
    """Check the outcome of requests, in any thread or task.

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

    def __init__(
        self, child: ServerProcess, findings: Findings, watchdog: Watchdog, seed: int
    ) -> None:
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
    def checking(self, fate: Fate) -> Iterator[float]:
        """Check what the block raises; yields the time at which it began."""
        if fate.once:
            self.once.append(fate.name)
        began = time.monotonic()
        with self._watchdog.watching(f"{self.colour}: {fate}"):
            try:
                yield began
            except RequestException as error:
                self._failed(fate, error, began)
            except Exception as error:
                self.report(fate, f"raises {type(error).__name__}", error)

    def _failed(self, fate: Fate, error: RequestException, began: float) -> None:
        self.count(type(error).__name__)
        self._outcomes[fate.name] = repr(error)
        if not error.request_sent:
            self.unsent.append(fate.name)
        if type(error) is RequestException:
            self.report(fate, "raises an error without a kind", error)
        waited = isinstance(error, ReadTimeout) and not fate.stalls
        if waited and not self._is_race(fate.name, {}, began):
            what = "waits for the read timeout, though the server goes on"
            self.report(fate, what, error, self._asked(fate.name, began))

    def whole(self, fate: Fate, status: int, body: bytes, began: float) -> None:
        """Check a body that was read to its end."""
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
            if fate.framing != "close" and not self._is_race(fate.name, {}, began):
                what = f"a cut body passes for a whole one, after {status}"
                self.report(fate, what, None, f"{body!r}\n{self._asked(fate.name, began)}")
            self.count("cut")

    def part(self, fate: Fate, body: bytes, began: float) -> bool:
        """Check the beginning of a body; return whether it is the request's own."""
        mark = stamp(fate.name)
        if (mark * (len(body) // len(mark) + 1)).startswith(body):
            return True
        foreign = self._find_foreign(body, fate.name)
        if not self._is_race(fate.name, foreign, began):
            outcomes = {name: self._outcomes.get(name) for name in foreign}
            text = f"{body[:200]!r}\nof these, with their connections: {foreign}\n"
            text += f"which ended with {outcomes}\n{self._asked(fate.name, began)}"
            self.report(fate, "a wrong body", None, text)
        return False

    def _find_foreign(self, body: bytes, name: str) -> dict[str, list[Any]]:
        """Return the server's records of other requests whose stamps are in a body."""
        owners = (find_owners(body) | find_cut_owner(body)) - {name}
        return {stranger: self._child.ask(stranger) for stranger in owners}

    def _asked(self, name: str, began: float) -> str:
        return f"asked at {began}; {self._child.ask(name)}"

    def _is_race(self, name: str, foreign: dict[str, list[Any]], began: float) -> bool:
        """Return whether unsolicited bytes came too late to be distinguished; count that.

        Args:
            name: of the request that did not get its response.
            foreign: the server's records of the requests whose responses it got, as far as known.
            began: when it was asked.
        """
        found = any(_came_too_late(stranger, came, began) for stranger, came in foreign.items())
        if found or _is_behind_late(name, self._child.ask(name), began):
            self.count("races")
            return True
        return False

    def controlled(self, name: str, body: bytes, began: float) -> None:
        """Check the response to a request that gets a proper response."""
        self.count("controls")
        if body == stamp(name):
            return
        foreign = self._find_foreign(body, name)
        if not self._is_race(name, foreign, began):
            text = f"{name} got {body[:200]!r}\nof these, with their connections: {foreign}"
            self._findings.add(f"{self.colour}: a control gets a wrong body", text)

    def report(self, fate: Fate, what: str, error: BaseException | None, more: str = "") -> None:
        """Make a finding."""
        place = f" in {find_place(error)}" if error is not None else ""
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
    """Return whether a foreign response could not be distinguished from the right one.

    It was sent after the call began, on a connection with unsolicited bytes: if those came right
    after a request, they were taken for its response, and each response for the next one's.
    """
    spoke = False
    for _, name, fault, sent in came:
        spoke = spoke or fault == "stray"
        if name == stranger and spoke and sent >= began:
            return True
    return False


def _is_behind_late(name: str, came: list[Any], began: float) -> bool:
    """Return whether the request before one, on its connection, took unsolicited bytes as response.

    That ended its call, and the connection went on to the next one, while the server was still
    busy with it, or stalled.
    """
    for index in {entry[0] for entry in came if entry[1] == name}:
        spoke, busy = False, False
        for _, whose, fault, sent in (entry for entry in came if entry[0] == index):
            if whose == name:
                if spoke and busy:
                    return True
                break
            spoke = spoke or fault == "stray"
            busy = sent >= began
    return False
