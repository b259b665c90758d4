"""The scenarios: the server, the callers, and the settings of their clients.

The policies are curlhttp's own, in clients that run their whole pipeline. A "shared" policy is one
object for all clients, which acts like a store that answers at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from benchmarks.simulation.clock import ScriptedNetwork, run
from benchmarks.simulation.world import LATENCY, Phase, Server, Tally, call, calls
from curlhttp import (
    AdaptiveLimit,
    AsyncClient,
    CircuitBreaker,
    ConcurrencyLimit,
    Endpoints,
    ExponentialBackoff,
    RateLimit,
    RetryBudget,
    RetryPolicy,
    Timeout,
)
from curlhttp._features.hook_events import Transition

__all__ = ["SCENARIOS", "Scenario", "Variant"]

_SIZES = {10: 1, 1_000: 40, 100_000: 4_000}  # calls per second: processes

Settings: TypeAlias = dict[str, Any]  # of AsyncClient
Tell: TypeAlias = Callable[[Transition], object]
Figures: TypeAlias = dict[str, float | int | None]


@dataclass(frozen=True)
class Variant:
    """The settings of the clients.

    Args:
        name: a few words.
        settings: of a client, given the random source, a hook for a breaker's transitions, and the
            share of the scenario's size.
        is_shared: all clients share one set of policies; otherwise each has its own.
    """

    name: str
    settings: Callable[[Random, Tell, float], Settings]
    is_shared: bool = False


@dataclass(frozen=True)
class Scenario:
    """A server in trouble, and thousands of clients.

    Args:
        name: a few words.
        about: what happens, in one sentence.
        phases: the server's capacity; the second phase is the trouble, the third its end, if any.
        variants: the variants to compare.
        figures: the figures to report.
        clients: how many processes, each with its own client.
        rate: calls per second in total; 0: each client calls once, at the beginning.
        seconds: how long calls are made.
        queue: requests that may wait at the server.
        timeout: seconds for each step of an attempt, and for the concurrency limit.
        slice: seconds per time slice.
        share: of the full size.
        latency: seconds of a response in addition to the queue and the work.
        joins: when the clients after the first begin to call.
        others: the phases of further servers, at shop1.test, shop2.test and so on.
        connections: of the pool of each client; None for no limit.
    """

    name: str
    about: str
    phases: tuple[Phase, ...]
    variants: tuple[Variant, ...]
    figures: Callable[[Scenario, Tally], Figures]
    clients: int
    rate: float
    seconds: float
    queue: float
    timeout: float = 1.0
    slice: float = 1.0
    share: float = 1.0
    latency: float = LATENCY
    joins: float = 0.0
    others: tuple[tuple[Phase, ...], ...] = ()
    connections: int | None = None

    @property
    def trouble(self) -> tuple[float, float]:
        """Return when the trouble begins and ends."""
        troubles = [phase for phase in self.phases if phase.capacity < self.most]
        ends = [phase.since for phase in self.phases if phase.since > troubles[0].since]
        return troubles[0].since, min(ends, default=self.seconds)

    @property
    def most(self) -> float:
        """Return the requests per second that a healthy server handles."""
        return max(phase.capacity for phase in self.phases)

    def of_size(self, share: float) -> Scenario:
        """Return the scenario with a share of the clients, calls and server capacity."""
        phases, *others = (
            tuple(replace(phase, capacity=phase.capacity * share) for phase in each)
            for each in (self.phases, *self.others)
        )
        clients = max(1, round(self.clients * share))
        rate, queue = self.rate * share, self.queue * share
        return replace(
            self,
            phases=phases,
            others=tuple(others),
            clients=clients,
            rate=rate,
            queue=queue,
            share=share,
        )

    def play(self, variant: Variant, seed: int) -> Tally:
        """Return the results of a variant.

        Args:
            variant: the settings of the clients.
            seed: of everything random.
        """
        chance, tally = Random(seed), Tally(self.slice)
        servers = {
            f"shop{number or ''}.test": Server(phases, self.queue, tally, latency=self.latency)
            for number, phases in enumerate((self.phases, *self.others))
        }

        def make_network() -> ScriptedNetwork:
            script = lambda request: servers[request.url.host].step(request)  # noqa: E731
            return ScriptedNetwork(script, self.connections)

        network = make_network()
        for server in servers.values():
            server.network = network
        now = network.now

        def tell(transition: Transition) -> None:
            tally.add(transition.new, now())

        def settings() -> Settings:
            return variant.settings(chance, tell, self.share)

        async def once(client: AsyncClient) -> None:
            await asyncio.sleep(chance.uniform(0, 0.05))
            await call(client, tally, now)

        async def play() -> None:
            timeout = Timeout(read=self.timeout, pool=self.timeout)
            common = settings()
            clients = [
                AsyncClient(
                    transport=make_network() if self.connections else network,
                    trust_env=False,
                    **{"timeout": timeout, **(common if variant.is_shared else settings())},
                )
                for _ in range(self.clients)
            ]
            if self.rate:
                await calls(clients, self.rate, self.seconds, tally, chance, self.joins)
            else:
                await asyncio.gather(*[once(client) for client in clients])

        run(play())
        return tally


# --- a retry storm ---


def _retries(budget: Callable[[], RetryBudget | None], **more: Any) -> Any:
    def settings(chance: Random, tell: Tell, share: float) -> Settings:
        return {"retry": RetryPolicy(3, budget=budget(), random=chance, **more)}

    return settings


def _storm_figures(scenario: Scenario, seen: Tally) -> Figures:
    begin, end = scenario.trouble
    calls = seen.sum("calls", begin, end)
    after = seen.sum("calls", end)
    return {
        "attempts per call during the trouble": round(seen.sum("attempts", begin, end) / calls, 2),
        "attempts per call afterwards": round(seen.sum("attempts", end) / after, 2),
        "good answers afterwards, %": round(100 * seen.sum("good", end) / after, 1),
        "recovered after, s": _recovery(scenario, seen),
    }


def _recovery(scenario: Scenario, seen: Tally) -> float | None:
    """Return the seconds after which nine of ten calls succeed from then on, or None."""
    end = scenario.trouble[1]
    good = seen.series("good", scenario.seconds)
    bad = [
        number
        for number, count in enumerate(seen.series("calls", scenario.seconds))
        if good[number] < 0.9 * count
    ]
    latest = (max(bad, default=-1) + 1) * scenario.slice
    return None if latest >= scenario.seconds else max(0.0, latest - end)


_STORM = Scenario(
    name="retry storm",
    about="A server for 600 requests/s gets 400 calls/s. For 20 s it works at a tenth of its "
    "speed, and what waits there is worked off although its callers have given up.",
    phases=(Phase(0, 600), Phase(20, 60), Phase(40, 600)),
    variants=(
        Variant("no retries", lambda chance, tell, share: {}),
        Variant("3 retries, no budget", _retries(lambda: None)),
        Variant("3 retries, a budget in each process", _retries(RetryBudget)),
        Variant(
            "3 retries, a budget without reserve in each process",
            _retries(lambda: RetryBudget(reserve=0)),
        ),
        Variant("3 retries, one budget for all", _retries(RetryBudget), is_shared=True),
    ),
    figures=_storm_figures,
    clients=2000,
    rate=400,
    seconds=120,
    queue=3000,
)


# --- a breaker ---


def _breaker(**rules: Any) -> Any:
    def settings(chance: Random, tell: Tell, share: float) -> Settings:
        return {"breaker": CircuitBreaker(recovery_timeout=5, on_transition=tell, **rules)}

    return settings


def _outage_figures(scenario: Scenario, seen: Tally) -> Figures:
    return {
        "calls during the outage": seen.sum("calls", *scenario.trouble),
        "attempts that fail": seen.sum("attempts", *scenario.trouble),
        "refused at once": seen.sum("refused", *scenario.trouble),
        "answered by the fallback": seen.sum("fallback", *scenario.trouble),
        "openings": seen.sum("open"),
        "recovered after, s": _recovery(scenario, seen),
    }


def _with_fallback(chance: Random, tell: Tell, share: float) -> Settings:
    settings: Settings = _breaker()(chance, tell, share)
    return {**settings, "fallback": lambda request, outcome: request.respond(200, json=[])}


_OUTAGE = Scenario(
    name="outage",
    about="The server refuses all connections for 60 s; a breaker opens at 5 failures in a row, "
    "and lets one call through after 5 s.",
    phases=(Phase(0, 600), Phase(20, 0), Phase(80, 600)),
    variants=(
        Variant("no breaker", lambda chance, tell, share: {}),
        Variant("a breaker in each process", _breaker()),
        Variant("one breaker for all", _breaker(), is_shared=True),
        Variant("a fallback, one breaker for all", _with_fallback, is_shared=True),
    ),
    figures=_outage_figures,
    clients=1000,
    rate=400,
    seconds=120,
    queue=300,
)


def _limited(chance: Random, tell: Tell, share: float) -> Settings:
    return {"concurrency_limit": ConcurrencyLimit(max(1, round(50 * share)))}


def _flapping_figures(scenario: Scenario, seen: Tally) -> Figures:
    begin, end = scenario.trouble
    good = seen.sum("good", begin, end)
    weak = min(phase.capacity for phase in scenario.phases)
    return {
        "good answers/s": round(good / (end - begin), 1),
        "of the capacity, %": round(100 * good / (end - begin) / weak, 1),
        "failed/s": round(seen.sum("failed", begin, end) / (end - begin), 1),
        "openings": seen.sum("open"),
    }


_FLAPPING = Scenario(
    name="flapping",
    about="For 60 s the server can answer half of the 400 calls/s: one call alone goes well, all "
    "of them do not, and breakers open and close.",
    phases=(Phase(0, 600), Phase(20, 200), Phase(80, 600)),
    variants=(
        Variant("nothing", lambda chance, tell, share: {}),
        Variant("one breaker for all: 5 in a row", _breaker(), is_shared=True),
        Variant("one breaker for all: 5 in a row, growth=2", _breaker(growth=2.0), is_shared=True),
        Variant(
            "one breaker for all: half of 100, 10 probes",
            _breaker(failure_rate=0.5, half_open_permits=10),
            is_shared=True,
        ),
        Variant("50 at once in each process", _limited),
        Variant("50 at once over all processes", _limited, is_shared=True),
    ),
    figures=_flapping_figures,
    clients=1000,
    rate=400,
    seconds=120,
    queue=300,
)


# --- a thundering herd ---


def _until_it_works(rate: float | None = None, **more: Any) -> Any:
    def settings(chance: Random, tell: Tell, share: float) -> Settings:
        limit = None if rate is None else RateLimit(rate * share)
        retry = RetryPolicy(1000, budget=None, random=chance, **more)
        return {"retry": retry, "rate_limit": limit}

    return settings


def _herd_figures(scenario: Scenario, seen: Tally) -> Figures:
    end = scenario.trouble[1]
    last = max(seen.counts["good"])
    after = [count for number, count in seen.counts["attempts"].items() if number >= end * 10]
    return {
        "attempts during the outage": seen.sum("attempts", 0, end),
        "most attempts in 0.1 s afterwards": max(after),
        "503": seen.sum("503"),
        "all answered after, s": round(last * scenario.slice - end, 1),
    }


_HERD = Scenario(
    name="thundering herd",
    about="A server for 1,000 requests/s is down for 60 s. 5,000 clients lost it at the same "
    "moment and try until they are answered, 10 s apart at most.",
    phases=(Phase(0, 0), Phase(60, 1000)),
    variants=(
        Variant("no jitter", _until_it_works(backoff_strategy=ExponentialBackoff())),
        Variant("full jitter (the default)", _until_it_works()),
        Variant(
            "no jitter, RateLimit(800) for all",
            _until_it_works(800, backoff_strategy=ExponentialBackoff()),
            is_shared=True,
        ),
        Variant("full jitter, RateLimit(800) for all", _until_it_works(800), is_shared=True),
    ),
    figures=_herd_figures,
    clients=5000,
    rate=0,
    seconds=120,
    queue=1000,
    timeout=30,
    slice=0.1,
)


# --- sizes ---


def _size_figures(scenario: Scenario, seen: Tally) -> Figures:
    return {
        "processes": scenario.clients,
        "calls in 2 s of an outage": seen.sum("calls", scenario.trouble[0]),
        "attempts that fail": seen.sum("attempts", scenario.trouble[0]),
        "openings": seen.sum("open"),
    }


def _of_rate(rate: int, clients: int) -> Scenario:
    return Scenario(
        name=f"{rate:,} calls/s",
        about="The server goes down; what fails before the breakers are open.",
        phases=(Phase(0, 2.0 * rate), Phase(0.5, 0)),
        variants=_OUTAGE.variants[1:3],
        figures=_size_figures,
        clients=clients,
        rate=rate,
        seconds=2.5,
        queue=rate,
        slice=0.1,
    )


# --- a limit that adapts ---

_SETTLED = 5.0  # seconds after which the limits are compared, at the beginning


def _fixed(limit: int) -> Variant:
    def settings(chance: Random, tell: Tell, share: float) -> Settings:
        return {"concurrency_limit": ConcurrencyLimit(max(1, round(limit * share)))}

    return Variant(f"{limit} at once", settings)


_ADAPTIVE = Variant(
    "AdaptiveLimit()", lambda chance, tell, share: {"concurrency_limit": AdaptiveLimit()}
)


def _halved_figures(scenario: Scenario, seen: Tally) -> Figures:
    begin, end = scenario.trouble
    spans = {
        "before": (_SETTLED, begin),
        "halved": (begin, end),
        "after": (end, scenario.seconds),
    }
    return {
        **{
            f"good/s, {name}": round(seen.sum("good", since, until) / (until - since), 1)
            for name, (since, until) in spans.items()
        },
        **{
            f"p99 of an attempt, {name}, ms": round(
                1000 * seen.percentile("attempt", 99, since, until)
            )
            for name, (since, until) in spans.items()
        },
    }


_HALVED = Scenario(
    name="half the capacity",
    about="A server for 300 requests/s, 0.1 s away, gets 360 calls/s. For 30 s it has half of its "
    "capacity.",
    phases=(Phase(0, 300), Phase(30, 150), Phase(60, 300)),
    variants=(*map(_fixed, (10, 20, 30, 40, 60, 100)), _ADAPTIVE),
    figures=_halved_figures,
    clients=1,
    rate=360,
    seconds=90,
    queue=300,
    latency=0.1,
)


def _fairness_figures(scenario: Scenario, seen: Tally) -> Figures:
    begin, end = scenario.joins + _SETTLED, scenario.seconds
    good = [seen.sum(f"good {number}", begin, end) for number in range(scenario.clients)]
    squares = sum(count * count for count in good)
    return {
        "good/s, the first client": round(good[0] / (end - begin), 1),
        "good/s, the second": round(good[-1] / (end - begin), 1),
        "fairness (Jain)": round(sum(good) ** 2 / (len(good) * squares), 3) if squares else None,
        "of the capacity, %": round(100 * sum(good) / (end - begin) / scenario.most, 1),
        "p99 of an attempt, ms": round(1000 * seen.percentile("attempt", 99, begin, end)),
    }


_TWO = Scenario(
    name="two clients",
    about="A server for 300 requests/s, 0.1 s away. One client makes 360 calls/s; after 30 s, "
    "another one does as well.",
    phases=(Phase(0, 300),),
    variants=(*map(_fixed, (15, 30, 60)), _ADAPTIVE),
    figures=_fairness_figures,
    clients=2,
    rate=720,
    seconds=90,
    queue=300,
    latency=0.1,
    joins=30,
)

# --- overload ---


def _patient(name: str, *, more: Callable[[], Settings] = dict, **seconds: float) -> Variant:
    def settings(chance: Random, tell: Tell, share: float) -> Settings:
        return {"timeout": Timeout(**{"connect": 10.0, **seconds}), **more()}

    return Variant(name, settings)


def _overload_figures(scenario: Scenario, seen: Tally) -> Figures:
    begin, end = scenario.trouble
    ended = ("good", "failed", "refused")
    running = most = 0
    for second, begun in enumerate(seen.series("calls", scenario.seconds)):
        running += begun - sum(seen.counts[name][second] for name in ended if name in seen.counts)
        most = max(most, running)
    calls = seen.sum("calls", end)
    return {
        "good/s, halved": round(seen.sum("good", begin, end) / (end - begin), 1),
        "good, after, %": round(100 * min(1.0, seen.sum("good", end) / calls), 1),
        "most calls in progress": most,
        "p50 of a call, after, s": round(seen.percentile("call", 50, end), 2),
        "recovered after, s": _recovery(scenario, seen),
    }


def _limit_adaptively() -> Settings:
    return {"concurrency_limit": AdaptiveLimit()}


_OVERLOAD = Scenario(
    name="overload",
    about="A server for 220 requests/s gets 200 calls/s from a client with 100 connections. For "
    "20 s it has half of its capacity.",
    phases=(Phase(0, 220), Phase(5, 110), Phase(25, 220)),
    variants=(
        _patient("the defaults"),
        _patient("total=2", total=2.0),
        _patient("pool=1", pool=1.0),
        _patient("pool=1, total=2", pool=1.0, total=2.0),
        _patient(
            "read=0.8, a breaker that opens for 30 s",
            more=lambda: {"breaker": CircuitBreaker(recovery_timeout=30)},
            read=0.8,
        ),
        _patient(
            "read=0.8, CircuitBreaker()", more=lambda: {"breaker": CircuitBreaker()}, read=0.8
        ),
        _patient("pool=1, AdaptiveLimit()", more=_limit_adaptively, pool=1.0),
        _patient("total=2, AdaptiveLimit()", more=_limit_adaptively, total=2.0),
    ),
    figures=_overload_figures,
    clients=1,
    rate=200,
    seconds=60,
    queue=10_000,
    latency=0.02,
    connections=100,
)

# --- several endpoints ---


def _spread(choose: Any, *, ejects: bool = True, retries: int = 0) -> Variant:
    def settings(chance: Random, tell: Tell, share: float) -> Settings:
        names = ["http://shop.test", "http://shop1.test", "http://shop2.test"]
        endpoints = Endpoints(names, choose=choose, eject_for=5, max_ejected=0.5 if ejects else 0)
        endpoints._random = chance
        policy = RetryPolicy(retries, budget=RetryBudget(), random=chance) if retries else None
        return {"base_url": endpoints, "retry": policy}

    name = choose + ("" if ejects else ", nothing ejected") + (", retry=1" if retries else "")
    return Variant(name, settings)


def _endpoint_figures(scenario: Scenario, seen: Tally) -> Figures:
    begin, end = scenario.trouble
    calls = seen.sum("calls", begin, end)
    return {
        "calls during the trouble": calls,
        "good, %": round(100 * seen.sum("good", begin, end) / calls, 1),
        "attempts at the failing server": seen.sum("attempts at shop.test", begin, end),
        "p99 of a call, ms": round(1000 * seen.percentile("call", 99, begin, end)),
        "its share 10 s later, %": round(
            100
            * seen.sum("attempts at shop.test", end + 10, scenario.seconds)
            / max(1, seen.sum("attempts", end + 10, scenario.seconds)),
            1,
        ),
    }


_ENDPOINTS = tuple(
    Scenario(
        name=f"one of three endpoints {what}",
        about=f"Three servers for 200 requests/s each get 360 calls/s from one process. From 20 s "
        f"to 50 s, one of them {does}. An ejection takes 5 s at first.",
        phases=(Phase(0, 200), Phase(20, capacity), Phase(50, 200)),
        others=((Phase(0, 200),), (Phase(0, 200),)),
        variants=(
            Variant("one base_url", lambda chance, tell, share: {}),
            _spread("round_robin", ejects=False),
            _spread("least_pending", ejects=False),
            _spread("round_robin"),
            _spread("least_pending"),
            _spread("p2c"),
            _spread("least_pending", retries=1),
        ),
        figures=_endpoint_figures,
        clients=1,
        rate=360,
        seconds=80,
        queue=300,
        timeout=1.0,
    )
    for what, does, capacity in (
        ("is down", "refuses connections", 0),
        ("is slow", "handles 10 requests/s", 10),
    )
)

# --- equal requests ---


def _popular_figures(scenario: Scenario, seen: Tally) -> Figures:
    return {
        "calls": seen.sum("calls"),
        "attempts": seen.sum("attempts"),
        "good, %": round(100 * seen.sum("good") / seen.sum("calls"), 1),
        "p99 of a call, ms": round(1000 * seen.percentile("call", 99)),
    }


_POPULAR = Scenario(
    name="equal requests",
    about="One process makes 1,000 calls/s for the same page of a server for 300 requests/s, 0.1 s "
    "away.",
    phases=(Phase(0, 300), Phase(20, 299)),
    variants=(
        Variant("coalesce=False", lambda chance, tell, share: {}),
        Variant("coalesce=True", lambda chance, tell, share: {"coalesce": True}),
    ),
    figures=_popular_figures,
    clients=1,
    rate=1000,
    seconds=30,
    queue=300,
    latency=0.1,
)

SCENARIOS = (
    _STORM,
    _OUTAGE,
    _FLAPPING,
    _HERD,
    _HALVED,
    _TWO,
    _OVERLOAD,
    *_ENDPOINTS,
    _POPULAR,
    *(_of_rate(rate, clients) for rate, clients in _SIZES.items()),
)
