"""Async clients: 64 requests at once, small and big bodies, HTTP/1.1 and HTTP/2, on each loop."""

from __future__ import annotations

from typing import Any

from benchmarks.clients import ASYNC
from benchmarks.compare import Case, Group, compare
from benchmarks.crew import Options

__all__ = ["measure", "measure_tasks"]

_CONCURRENCY = 64
_KIB = 1024

_GROUPS = (
    Group("HTTP/1.1", (Case("200 B", 200, _CONCURRENCY),)),
    Group("HTTP/1.1", (Case("10 KiB", 10 * _KIB, _CONCURRENCY),)),
    Group("HTTP/1.1", (Case("1 MiB", _KIB * _KIB, _CONCURRENCY),)),
    Group("HTTP/2 over TLS", (Case("200 B", 200, _CONCURRENCY),), scheme="h2"),
    Group("HTTP/2 over TLS", (Case("10 KiB", 10 * _KIB, _CONCURRENCY),), scheme="h2"),
)


def measure(options: Options) -> dict[str, Any]:
    """Return the results of all cases. Each has workers of its own, so that RSS is the case's."""
    return compare("async", _GROUPS, ASYNC, options)


def measure_tasks(tasks: int, options: Options) -> dict[str, Any]:
    """Return what a request costs with so many tasks at once on one client, next to 64."""
    names = ("curlhttp", "aiohttp")
    cases = [Case(f"200 B, {number} tasks", 200, number) for number in (_CONCURRENCY, tasks)]
    groups = [Group("HTTP/1.1", tuple(cases))]
    return compare("tasks", groups, {name: ASYNC[name] for name in names}, options)
