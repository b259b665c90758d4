"""Statistics of a client: what is open, waiting and limited right now, and what it has done."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from curlhttp._http.origin_stats import OriginStats, TimeStats, merge_origins
from curlhttp._runtime.engine import COUNTED, ReportingEngine, Totals

if TYPE_CHECKING:
    import curlhttp


@dataclass(frozen=True)
class ConnectionStats:
    """The open connections to one origin with one protocol.

    Attributes:
        origin: "scheme://host:port".
        protocol: "HTTP/1.1", "HTTP/2" or "HTTP/3".
        open: how many are open.
        idle: how many of them carry no request.
        active: how many of them carry requests.
    """

    origin: str
    protocol: str
    open: int
    idle: int
    active: int


@dataclass(frozen=True)
class LimitStats:
    """The state of a concurrency limit, for one origin or for all origins together.

    Attributes:
        limit: how many attempts may be under way; for an AdaptiveLimit, this changes.
        in_use: how many are under way.
        waiting: how many requests wait.
    """

    limit: int
    in_use: int
    waiting: int


@dataclass(frozen=True)
class ClientStats:
    """Describe what a client is doing and has done; returned by `client.stats()`.

    Attributes:
        connections: the open connections, by origin and protocol.
        waiting: requests that wait for a connection, because max_connections are in use.
        longest_wait: seconds that the first of them has waited, 0.0 if there are none.
        attempts: attempts that were started, including retries, hedges and each hop of a redirect.
            An attempt that is sent again, because a kept connection had ended, counts once.
        retries: attempts after the first one of a request.
        hedges: attempts that a Hedge has sent while another one was under way.
        fallbacks: failures that the fallback has replaced.
        bytes_sent: bytes of request bodies. A body in memory counts in full when its attempt
            starts.
        bytes_received: bytes of response bodies, as they were received (coded).
        cache_hits: responses from the cache.
        cache_misses: requests that may be cached, but that the cache could not answer.
        breakers: the state of each circuit by origin: "closed", "open", "half_open",
            "forced_open" or "forced_closed".
        limits: the concurrency limits by origin; the key is "" if all origins share one.
        budgets: by origin, the number of retries that are left.
        endpoints: the endpoints of base_url, if there are several.
        origins: how attempts have ended and where their time went, by origin. The first 100 have
            their own numbers, and "other" has those of all further ones.
    """

    connections: tuple[ConnectionStats, ...] = ()
    waiting: int = 0
    longest_wait: float = 0.0
    attempts: int = 0
    retries: int = 0
    hedges: int = 0
    fallbacks: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    breakers: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, LimitStats] = field(default_factory=dict)
    budgets: Mapping[str, float] = field(default_factory=dict)
    endpoints: tuple[curlhttp.types.EndpointState, ...] = ()
    origins: Mapping[str, OriginStats] = field(default_factory=dict)

    def as_prometheus(
        self, *, prefix: str = "curlhttp", labels: Mapping[str, str] | None = None
    ) -> str:
        """Return the statistics in the text format of Prometheus, version 0.0.4.

        Args:
            prefix: the prefix of the metrics' names.
            labels: added to all metrics, such as {"client": "billing"}.

        Raises:
            ValueError: Prometheus does not allow the prefix, or the name of a label.

        Source: https://prometheus.io/docs/instrumenting/exposition_formats/
        """
        if not re.fullmatch(_NAME, prefix):
            raise ValueError(f"prefix must have letters, digits and '_' only, not {prefix!r}")
        for name in labels or {}:
            if not re.fullmatch(_NAME, name) or name in _OWN_LABELS:
                raise ValueError(
                    f"a label must have letters, digits and '_' only, and be none of "
                    f"{', '.join(_OWN_LABELS)}, not {name!r}"
                )
        return "".join(_write(self, prefix, labels or {}))


# --- The text format of Prometheus ---


_NAME = "(?a:[A-Za-z_][A-Za-z0-9_]*)"
_OWN_LABELS = (
    *("origin", "protocol", "state", "endpoint"),
    *("status", "error", "phase", "reason", "le", "quantile"),
)


class _Metric(NamedTuple):
    name: str
    kind: str
    help: str
    samples: Iterable[tuple[dict[str, str], float]]


_SUFFIX = " suffix"  # no label: what follows the name in a sample of a histogram or a summary


def _write(stats: ClientStats, prefix: str, labels: Mapping[str, str]) -> Iterator[str]:
    for metric in _metrics(stats):
        name = f"{prefix}_{metric.name}"
        samples = list(metric.samples)
        if samples:
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
        for own, value in samples:
            suffix = own.pop(_SUFFIX, "")
            shown = ",".join(f'{key}="{_escape(text)}"' for key, text in {**labels, **own}.items())
            shown = f"{{{shown}}}" if shown else ""
            yield f"{name}{suffix}{shown} {value!r}\n"


def _escape(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(stats: ClientStats) -> Iterator[_Metric]:
    yield _Metric(
        "connections",
        "gauge",
        "Open connections.",
        [
            ({"origin": each.origin, "protocol": each.protocol, "state": state}, number)
            for each in stats.connections
            for state, number in (("idle", each.idle), ("active", each.active))
        ],
    )
    for name, attribute, what in _OF_WAITS:
        yield _Metric(name, "gauge", what, [({}, getattr(stats, attribute))])
    for name, attribute, what in _COUNTERS:
        yield _Metric(f"{name}_total", "counter", what, [({}, getattr(stats, attribute))])
    states = ("closed", "open", "half_open", "forced_open", "forced_closed")
    yield _Metric(
        "breaker_state",
        "gauge",
        "1 for the state of the circuit.",
        [
            ({"origin": origin, "state": state}, int(state == now))
            for origin, now in stats.breakers.items()
            for state in states
        ],
    )
    for name, attribute, what in _OF_LIMITS:
        limits = [({"origin": key}, getattr(each, attribute)) for key, each in stats.limits.items()]
        yield _Metric(name, "gauge", what, limits)
    budgets = [({"origin": origin}, balance) for origin, balance in stats.budgets.items()]
    yield _Metric("retry_budget", "gauge", "Retries that are left.", budgets)
    for name, attribute, what in _OF_ENDPOINTS:
        samples = [({"endpoint": each.url}, getattr(each, attribute)) for each in stats.endpoints]
        yield _Metric(name, "gauge", what, samples)
    yield from _metrics_of_origins(stats.origins)


def _metrics_of_origins(origins: Mapping[str, OriginStats]) -> Iterator[_Metric]:
    for name, label, what in (
        ("responses", "status", "Responses by class of their status."),
        ("errors", "error", "Failed attempts by exception."),
        ("timeouts", "phase", "Attempts that a time limit ended, by what they were busy with."),
    ):
        yield _Metric(f"{name}_total", "counter", what, _find(origins, name, label))
    for name, what in (
        ("refusals", "Attempts that the breaker refused."),
        ("openings", "How often the circuit has opened."),
    ):
        counts = [(origin, getattr(each, name)) for origin, each in origins.items()]
        samples = [({"origin": origin}, number) for origin, number in counts if number]
        yield _Metric(f"breaker_{name}_total", "counter", what, samples)
    buckets = [_buckets({"origin": origin}, each) for origin, each in origins.items()]
    what = "Durations of attempts, without the waits before them."
    yield _Metric("attempt_duration_seconds", "histogram", what, chain.from_iterable(buckets))
    for name, times, label, what in (
        ("phase", "phases", "phase", "Where the time of attempts went."),
        ("wait", "waits", "reason", "What requests waited for before an attempt."),
    ):
        found = _find(origins, times, label)
        sums = [_sums(labels, cast("TimeStats", spent)) for labels, spent in found]
        yield _Metric(f"{name}_seconds", "summary", what, chain.from_iterable(sums))


def _find(
    origins: Mapping[str, OriginStats], attribute: str, label: str
) -> Iterator[tuple[dict[str, str], float]]:
    """Yield what a mapping of each origin has, with its labels."""
    for origin, each in origins.items():
        for key, value in getattr(each, attribute).items():
            yield {"origin": origin, label: key}, value


def _buckets(labels: dict[str, str], each: OriginStats) -> Iterator[tuple[dict[str, str], float]]:
    if each.buckets:
        numbers = {f"{bound:g}": number for bound, number in each.buckets.items()}
        for bound, number in {**numbers, "+Inf": each.durations.count}.items():
            yield {_SUFFIX: "_bucket", **labels, "le": bound}, number
        yield from _sums(labels, each.durations)


def _sums(labels: dict[str, str], spent: TimeStats) -> Iterator[tuple[dict[str, str], float]]:
    yield {_SUFFIX: "_sum", **labels}, spent.seconds
    yield {_SUFFIX: "_count", **labels}, spent.count


# Name of the metric, attribute, and help.
_OF_WAITS = (
    ("waiting", "waiting", "Requests that wait for a connection."),
    ("longest_wait_seconds", "longest_wait", "Seconds that the first of them has waited."),
)
_COUNTERS = (
    ("attempts", "attempts", "Attempts that were started."),
    ("retries", "retries", "Attempts after the first one of a request."),
    ("hedges", "hedges", "Attempts sent while another one was under way."),
    ("fallbacks", "fallbacks", "Failures that the fallback has replaced."),
    ("sent_bytes", "bytes_sent", "Bytes of request bodies."),
    ("received_bytes", "bytes_received", "Bytes of response bodies as received."),
    ("cache_hits", "cache_hits", "Responses from the cache."),
    ("cache_misses", "cache_misses", "Requests that the cache could not answer."),
)
_OF_LIMITS = (
    ("limit", "limit", "Attempts that may be under way."),
    ("limit_in_use", "in_use", "Attempts that are under way."),
    ("limit_waiting", "waiting", "Requests that wait for the limit."),
)
_OF_ENDPOINTS = (
    ("endpoint_pending", "pending", "Attempts under way at the endpoint."),
    ("endpoint_failures", "failures", "Failures in a row at the endpoint."),
    ("endpoint_ejected_seconds", "ejected_for", "Seconds until the endpoint is used again."),
)


# --- Collect them ---


class Sources(NamedTuple):
    """The objects of a client that statistics are read from; None for what it does not use."""

    totals: Totals
    engines: Sequence[ReportingEngine]
    breaker: curlhttp.CircuitBreaker | None = None
    concurrency_limit: curlhttp.ConcurrencyLimit | None = None
    budget: curlhttp.RetryBudget | None = None
    endpoints: curlhttp.Endpoints | None = None


def collect(sources: Sources, now: float = 0.0) -> ClientStats:
    """Return the statistics of a client; any thread may call this.

    Args:
        sources: of the client.
        now: on the client's clock, in seconds, for its policies.
    """
    connections: Counter[tuple[str, str, bool]] = Counter()
    waits: list[float] = []
    for engine in sources.engines:
        state = engine.tell_state()
        connections += state.connections
        waits += state.waits
    # Any: fields of different types
    found: dict[str, Any] = dict(
        sources.totals.read(
            lambda: [each for engine in sources.engines for each in engine.transfers()]
        )
    )
    found["origins"] = sources.totals.outcomes.read()
    if sources.breaker is not None:
        found["breakers"] = sources.breaker._states()
    if (limit := sources.concurrency_limit) is not None:
        found["limits"] = {key: LimitStats(*state) for key, state in limit._states().items()}
    if sources.budget is not None:
        found["budgets"] = sources.budget._balances(now)
    if sources.endpoints is not None:
        found["endpoints"] = sources.endpoints.states(now)
    return ClientStats(
        connections=tuple(_sum_up(connections)),
        waiting=len(waits),
        longest_wait=max(waits, default=0.0),
        **found,
    )


def merge(found: Sequence[ClientStats]) -> ClientStats:
    """Return the sum of the statistics of several adapters, which have no policies."""
    connections: Counter[tuple[str, str, bool]] = Counter()
    for each in found:
        for some in each.connections:
            connections[some.origin, some.protocol, False] += some.idle
            connections[some.origin, some.protocol, True] += some.active
    sums = {name: sum(getattr(each, name) for each in found) for name in ("waiting", *COUNTED)}
    return ClientStats(
        connections=tuple(_sum_up(connections)),
        longest_wait=max((each.longest_wait for each in found), default=0.0),
        origins=merge_origins(each.origins for each in found),
        **sums,
    )


def _sum_up(counts: Counter[tuple[str, str, bool]]) -> Iterator[ConnectionStats]:
    for origin, protocol in sorted({(origin, protocol) for origin, protocol, _ in counts}):
        idle, active = (counts[origin, protocol, is_active] for is_active in (False, True))
        yield ConnectionStats(origin, protocol, idle + active, idle, active)
