"""A run of the fuzzer: blocks of cases, each through one sender, and what leaks until the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.adversary.findings import Findings, print_line
from tests.adversary.leaks import Holdings, find_leaks, use_one_arena
from tests.adversary.server_process import ServerProcess
from tests.adversary.unraisable import catch_unraisable
from tests.adversary.watchdog import Watchdog
from tests.fuzz import senders_async, senders_blocking, senders_events, senders_session
from tests.fuzz.case import Case
from tests.fuzz.checker import Checker
from tests.fuzz.senders import Sender

_BLOCK = 25  # cases in a row through one sender
_HANGS = 90.0  # seconds, far beyond any time limit
_WARM = 0.3  # of a run: by then caches are full
_GROWTH = 24 << 20  # bytes
_OBJECTS = 3000  # of one type: jars and caches of bounded size

_WEIGHTS = {"h1": 4, "h2": 3, "connect": 1, "proxied": 1, "socks": 1}

_Make = Callable[[Checker, str], Sender]
_BLOCKING: dict[str, _Make] = {
    "client.request": senders_blocking.Request,
    "client.stream": senders_blocking.Stream,
    "client.map": senders_blocking.Map,
}
_ASYNC: dict[str, _Make] = {
    f"{loop}.{name}": partial(kind, loop=loop)
    for loop in ("asyncio", "uvloop", "trio")
    for name, kind in (
        ("request", senders_async.AsyncRequest),
        ("stream", senders_async.AsyncStream),
        ("map", senders_async.AsyncMap),
    )
}
_SESSION: dict[str, _Make] = {
    "session.request": senders_session.SessionRequest,
    "session.stream": senders_session.SessionStream,
}
_DOWNLOADS: dict[str, _Make] = {
    "client.download": senders_blocking.Download,
    "fetch": senders_blocking.Fetch,
    **{
        f"{loop}.download": partial(senders_async.AsyncDownload, loop=loop)
        for loop in ("asyncio", "trio")
    },
}
_LIVE: dict[str, _Make] = {
    "client.sse": senders_events.Events,
    "asyncio.sse": partial(senders_events.AsyncEvents, loop="asyncio"),
    "trio.sse": partial(senders_events.AsyncEvents, loop="trio"),
    "client.request.har": senders_events.Recorded,
    "client.stream.har": senders_events.RecordedStream,
    "trio.request.har": partial(senders_events.AsyncRecorded, loop="trio"),
}
_CONNECT = [
    *_SESSION,
    "client.request",
    "client.map",
    "asyncio.request",
    "uvloop.stream",
    "trio.request",
]

_HEDGED: dict[str, _Make] = {
    "client.request": partial(senders_blocking.Request, hedges=True),
    "client.stream": partial(senders_blocking.Stream, hedges=True),
    "client.map": partial(senders_blocking.Map, hedges=True),
    "asyncio.request": partial(senders_async.AsyncRequest, loop="asyncio", hedges=True),
    "trio.stream": partial(senders_async.AsyncStream, loop="trio", hedges=True),
}
_SOCKS = ["client.request", "client.stream", "client.map", "asyncio.request", "trio.stream"]
_ALL = {**_BLOCKING, **_ASYNC, **_SESSION}

SENDERS: dict[str, tuple[str, _Make]] = {
    **{
        name: ("h1", make)
        for name, make in {**_BLOCKING, **_ASYNC, **_SESSION, **_DOWNLOADS, **_LIVE}.items()
    },
    **{f"h2.{name}": ("h2", make) for name, make in {**_BLOCKING, **_ASYNC, **_LIVE}.items()},
    **{f"{kind}.hedged.{name}": (kind, _HEDGED[name]) for kind in ("h1", "h2") for name in _HEDGED},
    **{f"connect.{name}": ("connect", _ALL[name]) for name in _CONNECT},
    **{f"proxied.{name}": ("proxied", _ALL[name]) for name in [*_CONNECT, "client.stream"]},
    **{f"socks.{name}": ("socks", _ALL[name]) for name in _SOCKS},
}


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        seed: what all follows from.
        cases: how many.
        first: the number of the first.
        senders: names of senders, or prefixes of them; empty for all.
        quiet: show no progress.
    """

    seed: int
    cases: int
    first: int = 0
    senders: tuple[str, ...] = ()
    quiet: bool = False

    def chosen(self) -> list[str]:
        """Return the names of the chosen senders."""
        return [name for name in SENDERS if not self.senders or name.startswith(self.senders)]

    def blocks(self) -> Iterator[tuple[str, range]]:
        """Yield blocks of numbers, each with the name of its sender."""
        chosen = self.chosen()
        weights = [_WEIGHTS[SENDERS[name][0]] for name in chosen]
        end = self.first + self.cases
        for start in range(self.first - self.first % _BLOCK, end, _BLOCK):
            (sender,) = Random(f"{self.seed}/{start}/way").choices(chosen, weights)
            yield sender, range(max(start, self.first), min(start + _BLOCK, end))


def run(plan: Plan) -> Findings:
    """Run a plan and return what was found."""
    use_one_arena()
    findings = Findings()
    with ExitStack() as stack:
        child = stack.enter_context(ServerProcess("tests.fuzz.server", plan.seed))
        watchdog = stack.enter_context(Watchdog(_HANGS))
        checker = Checker(child, findings, watchdog)
        stack.enter_context(catch_unraisable(findings))
        _Run(plan, checker, findings).go()
    return findings


class _Run:
    def __init__(self, plan: Plan, checker: Checker, findings: Findings) -> None:
        self._plan = plan
        self._checker = checker
        self._findings = findings
        self._begun = self._shown = time.monotonic()

    def go(self) -> None:
        """Warm up with a part of the cases, then see whether the rest leaves anything over."""
        # What stays after the first use of everything is no leak: caches, loops' own pipes.
        blocks = list(self._plan.blocks())
        warm = max(1, int(len(blocks) * _WARM)) if len(blocks) > 1 else 0
        for part, is_counted in ((blocks[:warm], False), (blocks[warm:], True)):
            before = Holdings.now()
            self._run_blocks(part)
            if is_counted and warm:
                for left in find_leaks(before, objects=_OBJECTS, memory=_GROWTH):
                    self._findings.add(f"left over: {left.split(',')[0]}", left)
        self._show(force=True)

    def _run_blocks(self, blocks: list[tuple[str, range]]) -> None:
        senders: dict[str, Sender] = {}
        for name, numbers in blocks:
            kind, make = SENDERS[name]
            sender = senders.get(name) or senders.setdefault(name, make(self._checker, kind))
            self._checker.sender = name
            cases = [Case(self._plan.seed, number, kind, self._checker.port) for number in numbers]
            cases = [case for case in cases if sender.may_stall or not case.stalls]
            if cases:
                sender.run(cases)
            self._show()
        for sender in senders.values():
            sender.close()

    def _show(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._plan.quiet or (now - self._shown < 5 and not force):
            return
        self._shown = now
        checker, seconds = self._checker, now - self._begun
        done = checker.responses + checker.errors
        print_line(
            f"{seconds:6.1f} s  {done} cases, {done / seconds:.0f}/s: "
            f"{checker.responses} responses, {checker.errors} errors, "
            f"{checker.controls} controls, {checker.races} races, "
            f"{len(self._findings)} findings of {len(self._findings.counts)} kinds"
        )
