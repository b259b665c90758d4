"""Async clients: 64 concurrent requests, small and big bodies, HTTP/1.1 and HTTP/2, on each loop.

All of them are forced to use the same version of HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.clients import ASYNC
from benchmarks.compare import Case, Group, compare
from benchmarks.crew import Options

__all__ = ["measure", "measure_tasks"]

_CONCURRENCY = 64
_KIB = 1024

_GROUPS = (
    Group("HTTP/1.1", (Case("200 B", 200, _CONCURRENCY),)),
    Group("HTTP/1.1, a server that takes 5 ms", (Case("200 B", 200, _CONCURRENCY),), "http, 5 ms"),
    Group("HTTP/1.1", (Case("10 KiB", 10 * _KIB, _CONCURRENCY),)),
    Group("HTTP/1.1", (Case("1 MiB, 32 at once", _KIB * _KIB, 32),)),
    Group("HTTP/2 over TLS", (Case("200 B", 200, _CONCURRENCY),), scheme="h2"),
    Group("HTTP/2 over TLS", (Case("10 KiB", 10 * _KIB, _CONCURRENCY),), scheme="h2"),
)


def measure(options: Options) -> dict[str, Any]:
    """Return the results of all cases. Each case has its own workers, so that RSS is per case."""
    return compare("async", _GROUPS, ASYNC, options)


def measure_tasks(tasks: Sequence[int], options: Options) -> dict[str, Any]:
    """Return the cost of a request with so many concurrent tasks on one client, and with 64.

    The clients keep their default of 100 connections, and each task beyond 64 sends one request.
    """
    groups = [
        Group(
            f"{number:,} tasks",
            (Case("200 B", 200),),
            clients=(
                f"curlhttp/uvloop/{_CONCURRENCY}",
                f"curlhttp/uvloop/{number}",
                f"aiohttp/uvloop/{number}",
            ),
        )
        for number in tasks
    ]
    return compare("tasks", groups, ASYNC, options)
