"""A run of the fuzzer: blocks of cases, each by one way in, and what is left over at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.adversary.child import Child
from tests.adversary.findings import Findings, tell
from tests.adversary.leftovers import Holdings, leftovers, use_one_arena
from tests.adversary.unheard import listening
from tests.adversary.watchdog import Watchdog
from tests.fuzz import ways_async, ways_blocking, ways_live, ways_session
from tests.fuzz.case import Case
from tests.fuzz.judge import Judge
from tests.fuzz.ways import Way

__all__ = ["WAYS", "Plan", "run"]

_BLOCK = 25  # cases that go the same way
_HANGS = 90.0  # seconds, far beyond any time limit
_WARM = 0.3  # of a run: by then caches are full
_GROWTH = 24 << 20  # bytes
_OBJECTS = 3000  # of one type: jars and caches of bounded size

_WEIGHTS = {"h1": 4, "h2": 3, "connect": 1, "proxied": 1, "socks": 1}

_Make = Callable[[Judge, str], Way]
_BLOCKING: dict[str, _Make] = {
    "client.request": ways_blocking.Request,
    "client.stream": ways_blocking.Stream,
    "client.map": ways_blocking.Map,
}
_ASYNC: dict[str, _Make] = {
    f"{loop}.{name}": partial(kind, loop=loop)
    for loop in ("asyncio", "uvloop", "trio")
    for name, kind in (
        ("request", ways_async.AsyncRequest),
        ("stream", ways_async.AsyncStream),
        ("map", ways_async.AsyncMap),
    )
}
_SESSION: dict[str, _Make] = {
    "session.request": ways_session.SessionRequest,
    "session.stream": ways_session.SessionStream,
}
_DOWNLOADS: dict[str, _Make] = {
    "client.download": ways_blocking.Download,
    "fetch": ways_blocking.Fetch,
    **{
        f"{loop}.download": partial(ways_async.AsyncDownload, loop=loop)
        for loop in ("asyncio", "trio")
    },
}
_LIVE: dict[str, _Make] = {
    "client.sse": ways_live.Events,
    "asyncio.sse": partial(ways_live.AsyncEvents, loop="asyncio"),
    "trio.sse": partial(ways_live.AsyncEvents, loop="trio"),
    "client.request.har": ways_live.Recorded,
    "client.stream.har": ways_live.RecordedStream,
    "trio.request.har": partial(ways_live.AsyncRecorded, loop="trio"),
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
    "client.request": partial(ways_blocking.Request, hedges=True),
    "client.stream": partial(ways_blocking.Stream, hedges=True),
    "client.map": partial(ways_blocking.Map, hedges=True),
    "asyncio.request": partial(ways_async.AsyncRequest, loop="asyncio", hedges=True),
    "trio.stream": partial(ways_async.AsyncStream, loop="trio", hedges=True),
}
_SOCKS = ["client.request", "client.stream", "client.map", "asyncio.request", "trio.stream"]
_ALL = {**_BLOCKING, **_ASYNC, **_SESSION}

WAYS: dict[str, tuple[str, _Make]] = {
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
        ways: names, or the beginnings of names, of the ways to take; all if there are none.
        quiet: show no progress.
    """

    seed: int
    cases: int
    first: int = 0
    ways: tuple[str, ...] = ()
    quiet: bool = False

    def chosen(self) -> list[str]:
        """Return the names of the ways to take."""
        return [name for name in WAYS if not self.ways or name.startswith(self.ways)]

    def blocks(self) -> Iterator[tuple[str, range]]:
        """Give blocks of numbers and the way that each takes; of the numbers alone."""
        chosen = self.chosen()
        weights = [_WEIGHTS[WAYS[name][0]] for name in chosen]
        end = self.first + self.cases
        for start in range(self.first - self.first % _BLOCK, end, _BLOCK):
            (way,) = Random(f"{self.seed}/{start}/way").choices(chosen, weights)
            yield way, range(max(start, self.first), min(start + _BLOCK, end))


def run(plan: Plan) -> Findings:
    """Run a plan and return what was found."""
    use_one_arena()
    findings = Findings()
    with ExitStack() as stack:
        child = stack.enter_context(Child("tests.fuzz.server", plan.seed))
        watchdog = stack.enter_context(Watchdog(_HANGS))
        judge = Judge(child, findings, watchdog)
        stack.enter_context(listening(findings))
        _Run(plan, judge, findings).go()
    return findings


class _Run:
    def __init__(self, plan: Plan, judge: Judge, findings: Findings) -> None:
        self._plan = plan
        self._judge = judge
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
                for left in leftovers(before, objects=_OBJECTS, memory=_GROWTH):
                    self._findings.add(f"left over: {left.split(',')[0]}", left)
        self._show(force=True)

    def _run_blocks(self, blocks: list[tuple[str, range]]) -> None:
        ways: dict[str, Way] = {}
        for name, numbers in blocks:
            kind, make = WAYS[name]
            way = ways.get(name) or ways.setdefault(name, make(self._judge, kind))
            self._judge.way = name
            cases = [Case(self._plan.seed, number, kind, self._judge.port) for number in numbers]
            cases = [case for case in cases if way.may_stall or not case.stalls]
            if cases:
                way.run(cases)
            self._show()
        for way in ways.values():
            way.close()

    def _show(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._plan.quiet or (now - self._shown < 5 and not force):
            return
        self._shown = now
        judge, seconds = self._judge, now - self._begun
        done = judge.responses + judge.errors
        tell(
            f"{seconds:6.1f} s  {done} cases, {done / seconds:.0f}/s: {judge.responses} responses, "
            f"{judge.errors} errors, {judge.controls} controls, {judge.races} races, "
            f"{len(self._findings)} findings of {len(self._findings.counts)} kinds"
        )
