"""The parts of a simulation outside curlhttp: the server, the callers, and the counters."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.simulation.clock import ScriptedNetwork
from curlhttp import AsyncClient, CircuitBreakerOpen, RequestException
from curlhttp._http.request import ClientRequest
from curlhttp.testing import Answer, refused
from curlhttp.testing._scripted import Step

__all__ = ["LATENCY", "URL", "Phase", "Server", "Tally", "call", "calls"]

URL = "http://shop.test/"
_FEW = 10  # clients that are also counted separately
LATENCY = 0.01  # seconds of a response in addition to the queue and the work


@dataclass(frozen=True)
class Phase:
    """The capacity of the server from a moment on.

    Args:
        since: seconds.
        capacity: requests that it handles per second; 0 refuses connections.
    """

    since: float
    capacity: float


@dataclass
class Tally:
    """Counts per time slice.

    Attributes:
        slice: seconds.
        counts: by name, the count of each slice.
        times: by name, moments and the seconds that something took which ended then.
    """

    slice: float = 1.0
    counts: dict[str, Counter[int]] = field(default_factory=dict)
    times: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, now: float) -> None:
        """Count one."""
        self.counts.setdefault(name, Counter())[int(now / self.slice)] += 1

    def time(self, name: str, now: float, seconds: float) -> None:
        """Note how long something took."""
        self.times.setdefault(name, []).append((now, seconds))

    def percentile(
        self, name: str, percent: float, begin: float = 0.0, end: float = float("inf")
    ) -> float:
        """Return a percentile of the times between two moments (nearest rank); 0 without any."""
        found = sorted(time for now, time in self.times.get(name, ()) if begin <= now < end)
        return found[math.ceil(len(found) * percent / 100) - 1] if found else 0.0

    def series(self, name: str, seconds: float) -> list[int]:
        """Return the count of each slice."""
        found = self.counts.get(name, Counter())
        return [found[number] for number in range(round(seconds / self.slice))]

    def sum(self, name: str, begin: float = 0.0, end: float = float("inf")) -> int:
        """Return the count between two moments."""
        found = self.counts.get(name, Counter())
        return sum(count for number, count in found.items() if begin <= number * self.slice < end)


class Server:
    """Handle one request after another, including those that nobody waits for any more.

    Args:
        phases: its capacity; the first begins at 0.
        queue: requests that may wait; further ones get a 503 at once.
        tally: counts what arrives.
        retry_after: the Retry-After of a 503, in seconds.
        latency: seconds of a response in addition to the queue and the work.
    """

    def __init__(
        self,
        phases: Iterable[Phase],
        queue: float,
        tally: Tally,
        retry_after: int | None = None,
        latency: float = LATENCY,
    ) -> None:
        self._phases = list(phases)
        self._queue, self._tally, self._latency = queue, tally, latency
        self._refusal = Answer(
            503,
            {} if retry_after is None else {"Retry-After": str(retry_after)},
            delay=latency,
        )
        self._taken = 0.0  # the work up to the end of its queue, in requests since 0
        self.network = ScriptedNetwork(self.step)

    def step(self, request: ClientRequest) -> Step:
        """Return what happens to a request."""
        now = self.network.now()
        self._tally.add("attempts", now)
        self._tally.add(f"attempts at {request.url.host}", now)
        if self._capacity(now) == 0:
            return refused()
        done = self._work(now)
        if self._taken - done > self._queue:
            self._tally.add("503", now)
            return self._refusal
        self._taken = max(self._taken, done) + 1
        delay = self._when(self._taken) - now + self._latency
        self._tally.time("attempt", now + delay, delay)
        return Answer(delay=delay)

    def _capacity(self, now: float) -> float:
        return [phase.capacity for phase in self._phases if phase.since <= now][-1]

    def _work(self, now: float) -> float:
        """Return how many requests it can have handled by a moment."""
        ends = [phase.since for phase in self._phases[1:]] + [float("inf")]
        return sum(
            phase.capacity * (min(now, end) - phase.since)
            for phase, end in zip(self._phases, ends, strict=True)
            if phase.since < now
        )

    def _when(self, work: float) -> float:
        """Return when it will have handled this many requests."""
        ends = [phase.since for phase in self._phases[1:]] + [float("inf")]
        for phase, end in zip(self._phases, ends, strict=True):
            room = phase.capacity * (end - phase.since) if phase.capacity else 0.0
            if work <= room:
                return phase.since + work / phase.capacity
            work -= room
        return float("inf")


async def call(
    client: AsyncClient, tally: Tally, now: Callable[[], float], number: int | None = None
) -> None:
    """Send one request, and count its result; with a number of the client, also for that."""
    begun = now()
    tally.add("calls", begun)
    try:
        response = await client.get(URL)
    except CircuitBreakerOpen:
        outcome = "refused"
    except RequestException:
        outcome = "failed"
    else:
        outcome = "good" if response.status_code == 200 else "failed"
        if response.is_fallback:
            outcome = "fallback"
    tally.add(outcome, now())
    if number is not None:
        tally.add(f"{outcome} {number}", now())
        if outcome == "good":
            tally.time("call", now(), now() - begun)


async def calls(
    clients: list[AsyncClient],
    rate: float,
    seconds: float,
    tally: Tally,
    chance: Random,
    joins: float = 0.0,
) -> None:
    """Let clients call at random moments, however long the responses take.

    Args:
        clients: one of them is chosen for each call.
        rate: calls per second in total.
        seconds: how long.
        tally: counts the calls.
        chance: the random source.
        joins: when the clients after the first begin; the first one's rate is the same before.
    """
    few = len(clients) <= _FEW
    loop = asyncio.get_running_loop()
    running: set[asyncio.Task[Any]] = set()
    while (wait := chance.expovariate(rate)) + loop.time() < seconds:
        await asyncio.sleep(wait)
        number = chance.randrange(len(clients))
        if number and loop.time() < joins:
            continue
        work = call(clients[number], tally, loop.time, number if few else None)
        task = loop.create_task(work)
        running.add(task)
        task.add_done_callback(running.discard)
    while running:
        await asyncio.wait(running)
