"""Blocking clients: one request after another, several sizes, with and without TLS and reuse."""

from __future__ import annotations

from typing import Any

from benchmarks.clients import BLOCKING
from benchmarks.compare import Case, Group, compare
from benchmarks.crew import Options

__all__ = ["measure"]

_SIZES = {
    "4 B": 4,
    "64 B": 64,
    "1 KiB": 1024,
    "8 KiB": 8192,
    "32 KiB": 32_768,
    "128 KiB": 131_072,
    "1 MiB": 1_048_576,
}
_CASES = tuple(Case(name, size) for name, size in _SIZES.items())

_GROUPS = (
    Group("HTTP, connections kept", _CASES),
    Group("HTTP, a server that takes 5 ms", _CASES[2:3], scheme="http, 5 ms"),
    Group("HTTPS, connections kept", _CASES, scheme="https"),
    Group("HTTP, a connection for each request", _CASES, reuse=False),
    Group("HTTPS, a connection for each request", _CASES, scheme="https", reuse=False),
)


def measure(options: Options) -> dict[str, Any]:
    """Return the results of all cases."""
    return compare("sync", _GROUPS, BLOCKING, options)
