"""A run of the storm: blocks of requests, each of one colour, and what leaks until the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.adversary.findings import Findings, print_line
from tests.adversary.leaks import Holdings, find_leaks, use_one_arena
from tests.adversary.server_process import ServerProcess
from tests.adversary.unraisable import catch_unraisable
from tests.adversary.watchdog import Watchdog
from tests.storm import tasks, threads
from tests.storm.checker import Checker
from tests.storm.fate import Fate, fate_of

_BLOCK = 500  # requests from one colour
_HANGS = 120.0  # seconds, far beyond any time limit
_WARM = 0.3  # of a run: by then caches are full
_GROWTH = 24 << 20  # bytes
_OBJECTS = 4200  # of one type: 4096 parsed URLs are cached

COLOURS: dict[str, tuple[int, Callable[[Checker, Sequence[Fate]], None]]] = {  # with weights
    "threads": (3, threads.run_client),
    "sessions": (2, threads.run_sessions),
    "asyncio": (5, partial(tasks.run_tasks, colour="asyncio")),
    "uvloop": (5, partial(tasks.run_tasks, colour="uvloop")),
    "trio": (5, partial(tasks.run_tasks, colour="trio")),
    "chaos.threads": (1, partial(threads.run_client, chaos=True)),
    "chaos.asyncio": (1, partial(tasks.run_tasks, colour="asyncio", chaos=True)),
    "chaos.uvloop": (1, partial(tasks.run_tasks, colour="uvloop", chaos=True)),
    "chaos.trio": (1, partial(tasks.run_tasks, colour="trio", chaos=True)),
    "h2.threads": (1, partial(threads.run_client, http2="prior-knowledge")),
    "h2.asyncio": (2, partial(tasks.run_tasks, colour="asyncio", http2="prior-knowledge")),
    "h2.uvloop": (2, partial(tasks.run_tasks, colour="uvloop", http2="prior-knowledge")),
    "h2.trio": (2, partial(tasks.run_tasks, colour="trio", http2="prior-knowledge")),
    "h2.chaos": (
        1,
        partial(tasks.run_tasks, colour="asyncio", http2="prior-knowledge", chaos=True),
    ),
}


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        seed: what all follows from.
        requests: how many.
        colours: who sends; all if there are none.
        quiet: show no progress.
    """

    seed: int
    requests: int
    colours: tuple[str, ...] = ()
    quiet: bool = False

    def blocks(self) -> list[tuple[str, range]]:
        """Return blocks of numbers, and who sends them."""
        names = [name for name in COLOURS if not self.colours or name in self.colours]
        weights = [COLOURS[name][0] for name in names]
        blocks = []
        size = min(_BLOCK, max(50, self.requests // 12))
        for start in range(0, self.requests, size):
            (colour,) = Random(f"{self.seed}/{start}/colour").choices(names, weights)
            blocks.append((colour, range(start, min(start + size, self.requests))))
        return blocks


def run(plan: Plan) -> Findings:
    """Run a plan and return what was found."""
    use_one_arena()
    findings = Findings()
    with ExitStack() as stack:
        child = stack.enter_context(ServerProcess("tests.storm.server", plan.seed))
        watchdog = stack.enter_context(Watchdog(_HANGS))
        stack.enter_context(catch_unraisable(findings))
        checker = Checker(child, findings, watchdog, plan.seed)
        _Run(plan, checker, findings).go()
    return findings


class _Run:
    def __init__(self, plan: Plan, checker: Checker, findings: Findings) -> None:
        self._plan = plan
        self._checker = checker
        self._findings = findings
        self._done = 0
        self._begun = self._shown = time.monotonic()

    def go(self) -> None:
        """Warm up with a part of the requests, then see whether the rest leaves anything over."""
        blocks = self._plan.blocks()
        warm = max(1, int(len(blocks) * _WARM))
        self._run_blocks(blocks[:warm])
        before = Holdings.now()
        self._run_blocks(blocks[warm:])
        for left in find_leaks(before, objects=_OBJECTS, memory=_GROWTH):
            self._findings.add(f"left over: {left.split(',')[0]}", left)
        self._show(force=True)

    def _run_blocks(self, blocks: Sequence[tuple[str, range]]) -> None:
        for colour, numbers in blocks:
            self._checker.colour = colour
            COLOURS[colour][1](
                self._checker, [fate_of(self._plan.seed, number) for number in numbers]
            )
            self._checker.settle()
            self._done += len(numbers)
            self._show()

    def _show(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._plan.quiet or (now - self._shown < 5 and not force):
            return
        self._shown = now
        seconds, counts = now - self._begun, self._checker.counts
        summary = ", ".join(f"{number} {what}" for what, number in counts.most_common())
        print_line(
            f"{seconds:6.1f} s  {self._done} requests, {self._done / seconds:.0f}/s: {summary}"
        )
