"""How a load test goes: a closed loop, or an open one at a given rate; and what it found."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from curlhttp._async_client import AsyncClient
from curlhttp._client import Client
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.cli.latency import Latencies
from curlhttp.exceptions import RequestException

__all__ = ["PERCENTILES", "Load", "Plan", "run_closed", "run_open"]

PERCENTILES = (50, 75, 90, 95, 99, 99.9)
_ROUNDS = 10  # of each URL, where there are two
_UNDER_WAY = 100_000  # tasks of an open loop at most; beyond that the next one starts late


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is sent.

    Args:
        urls: one, or two to compare.
        method: a token.
        content: the body, or None.
        concurrency: requests at once.
        requests: to each URL, or None for no bound.
        seconds: begin no request after that, for all URLs together; or None.
        rate: requests a second, for an open loop; or None.
    """

    urls: tuple[str, ...]
    method: str
    content: bytes | None
    concurrency: int
    requests: int | None
    seconds: float | None
    rate: float | None

    def built(self, client: Client | AsyncClient, url: str) -> Request:
        """Return the request; one for all, as no attempt leaves anything in it to the next."""
        request = client.build_request(self.method, url, content=self.content)
        request.jar = None
        return request


class Load:
    """What a load test found out."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.latencies: Latencies = Latencies()
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.size: int = 0
        self.ok: int = 0
        self.seconds: float = 0.0

    def add(self, outcome: Response | RequestException, took: float | None = None) -> None:
        """Count what came of a request.

        Args:
            outcome: its response, or why there is none.
            took: seconds since it was due; None for those of its transfer.
        """
        if isinstance(outcome, RequestException):
            self.errors[type(outcome).__name__] += 1
            return
        self.statuses[str(outcome.status_code)] += 1
        self.ok += outcome.status_code < 400
        self.size += len(outcome.content)
        self.latencies.add(outcome.timings.total if took is None else took)

    @property
    def done(self) -> int:
        """Return how many requests there were."""
        return self.latencies.count + sum(self.errors.values())

    def as_json(self) -> dict[str, object]:
        """Return what --json shows; seconds and bytes."""
        found = self.latencies
        percentiles = {f"p{part:g}": round(found.percentile(part), 6) for part in PERCENTILES}
        spent = max(self.seconds, 1e-9)
        return {
            "url": self.url,
            "requests": self.done,
            "ok": self.ok,
            "statuses": dict(self.statuses.most_common()),
            "errors": dict(self.errors.most_common()),
            "seconds": round(self.seconds, 3),
            "rate": round(self.done / spent, 1),
            "bytes": self.size,
            "bytes_per_second": round(self.size / spent),
            "latency": {
                "min": round(found.least, 6) if found.count else 0.0,
                "mean": round(found.mean, 6),
                **percentiles,
                "max": round(found.most, 6),
            },
        }


def run_closed(client: Client, plan: Plan, loads: list[Load]) -> None:
    """Keep so many requests under way; each begins when another has ended.

    Two URLs take turns, so that both see what else the machine does.

    Args:
        client: sends them.
        plan: what is sent.
        loads: of each URL; they are filled while it runs.
    """
    sent = [plan.built(client, url) for url in plan.urls]
    for request in sent:
        for outcome in client.map([request] * plan.concurrency, concurrency=plan.concurrency):
            _check_there(outcome)
    rounds = _ROUNDS if len(sent) > 1 else 1
    until = None if plan.seconds is None else plan.seconds / rounds / len(sent)
    for number in range(rounds):
        for request, load in zip(sent, loads, strict=True):
            count = plan.requests
            if count is not None:  # the first rounds take what cannot be divided
                count = count // rounds + (number < count % rounds)
            _run_round(client, request, load, (count, until, plan.concurrency))


def _run_round(
    client: Client, request: Request, load: Load, bounds: tuple[int | None, float | None, int]
) -> None:
    count, until, concurrency = bounds
    begun, before = time.monotonic(), load.seconds

    def requests() -> Iterator[Request]:
        done = 0
        while done != count and (until is None or time.monotonic() - begun < until):
            yield request
            done += 1

    with client.map(requests(), concurrency=concurrency) as outcomes:
        for outcome in outcomes:
            load.add(outcome)
            load.seconds = before + time.monotonic() - begun


def _check_there(outcome: Response | RequestException) -> None:
    if isinstance(outcome, RequestException) and not outcome.request_sent:
        raise outcome  # nobody is there: that need not be tried a thousand times


def run_open(make: Callable[[], AsyncClient], plan: Plan, loads: list[Load]) -> None:
    """Begin so many requests a second, whether or not others have ended.

    A latency counts from when the request was due, the wait for a connection included: a server
    that stalls for a second shows in all requests that were due in that second. A closed loop
    would have left these out ("coordinated omission").

    Args:
        make: makes the client.
        plan: what is sent, at which rate; two URLs take turns.
        loads: of each URL; they are filled while it runs.
    """
    asyncio.run(_at_rate(make, plan, loads))


async def _at_rate(make: Callable[[], AsyncClient], plan: Plan, loads: list[Load]) -> None:
    async with make() as client:
        sent = [plan.built(client, url) for url in plan.urls]
        for request in sent:
            warm = min(plan.concurrency, 16)
            for outcome in await asyncio.gather(*(_outcome(client, request) for _ in range(warm))):
                _check_there(outcome)
        begun = time.monotonic()
        tasks: set[asyncio.Task[None]] = set()

        async def send(turn: int, due: float) -> None:
            outcome = await _outcome(client, sent[turn])
            ended = time.monotonic()
            loads[turn].add(outcome, ended - due)
            loads[turn].seconds = ended - begun

        for turn, due in _due(plan, begun):
            if len(tasks) >= _UNDER_WAY:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # Late: those under way must have their turn all the same.
            await asyncio.sleep(max(due - time.monotonic(), 0))
            task = asyncio.create_task(send(turn, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)


def _due(plan: Plan, begun: float) -> Iterator[tuple[int, float]]:
    """Give whose turn it is, and when."""
    assert plan.rate is not None
    number = 0
    while plan.requests is None or number < plan.requests * len(plan.urls):
        after = number / plan.rate
        if plan.seconds is not None and after >= plan.seconds:
            return
        yield number % len(plan.urls), begun + after
        number += 1


async def _outcome(client: AsyncClient, request: Request) -> Response | RequestException:
    try:
        return await client.send(request)
    except RequestException as error:
        return error
