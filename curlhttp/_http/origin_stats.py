"""What statistics say about the attempts at an origin. Only programs that read them load this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K", str, float)


@dataclass(frozen=True)
class TimeStats:
    """How often something took time, and how long.

    Attributes:
        count: how often.
        seconds: the sum.
    """

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class OriginStats:
    """How the attempts at one origin have ended, and where their time went.

    A buffered response is complete. A streamed one counts when its head arrives, with the time
    until then; if its body fails, the error counts, too.

    Attributes:
        responses: how many there were by class of their status: "1xx" to "5xx".
        errors: failed attempts by the name of the exception, "Cancelled" for those that the caller
            cancelled, and "other" for exceptions that are not a RequestException.
        timeouts: those of them that a time limit ended, by what the attempt was busy with: one of
            the phases, "send" for the request's body, or what it waited for.
        refusals: attempts that a breaker refused.
        openings: how often the circuit has opened.
        phases: what attempts spent on "dns", "connect", "tls", "server" (from the connection to the
            first byte of the response) and "body" (from there to the end).
        waits: what requests waited for before an attempt: "pool" (a connection), "limit" (a
            ConcurrencyLimit or AdaptiveLimit), "rate" (a RateLimit), "backoff" (before a retry),
            "retry_after" (before a retry, because the server asked for it), "reconnect" (before
            `sse` connects again) and "coalesce" (the transfer of an equal request).
        durations: the seconds of attempts without these waits.
        buckets: how many attempts took at most so many seconds.
    """

    responses: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    timeouts: Mapping[str, int] = field(default_factory=dict)
    refusals: int = 0
    openings: int = 0
    phases: Mapping[str, TimeStats] = field(default_factory=dict)
    waits: Mapping[str, TimeStats] = field(default_factory=dict)
    durations: TimeStats = TimeStats()
    buckets: Mapping[float, int] = field(default_factory=dict)


def merge_origins(found: Iterable[Mapping[str, OriginStats]]) -> dict[str, OriginStats]:
    """Return the sums of several counts by origin, sorted."""
    by_origin: dict[str, list[OriginStats]] = {}
    for counts in found:
        for origin, stats in counts.items():
            by_origin.setdefault(origin, []).append(stats)
    return {origin: _merge(stats) for origin, stats in sorted(by_origin.items())}


def _merge(found: list[OriginStats]) -> OriginStats:
    return OriginStats(
        _add_numbers(each.responses for each in found),
        _add_numbers(each.errors for each in found),
        _add_numbers(each.timeouts for each in found),
        sum(each.refusals for each in found),
        sum(each.openings for each in found),
        _add_times(each.phases for each in found),
        _add_times(each.waits for each in found),
        _add_time(each.durations for each in found),
        _add_numbers(each.buckets for each in found),
    )


def _add_numbers(found: Iterable[Mapping[K, int]]) -> dict[K, int]:
    total: Counter[K] = Counter()
    for each in found:
        total.update(each)
    return dict(total)


def _add_times(found: Iterable[Mapping[str, TimeStats]]) -> dict[str, TimeStats]:
    by_name: dict[str, list[TimeStats]] = {}
    for each in found:
        for name, spent in each.items():
            by_name.setdefault(name, []).append(spent)
    return {name: _add_time(spent) for name, spent in by_name.items()}


def _add_time(found: Iterable[TimeStats]) -> TimeStats:
    counts, seconds = zip(*((each.count, each.seconds) for each in found), strict=True)
    return TimeStats(sum(counts), sum(seconds))
