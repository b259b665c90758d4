"""curlhttp compared with bare pycurl and with itself; the version of HTTP is forced."""

from __future__ import annotations

from typing import Any

from benchmarks.clients import BLOCKING, VARIANTS
from benchmarks.compare import Case, Group, compare
from benchmarks.crew import Options

__all__ = ["measure"]

_SMALL = (Case("1 KiB", 1024),)
_ORIGINS = 200
_NEW = ("curlhttp", "bare pycurl", "bare pycurl, hears Ctrl-C")

_GROUPS = (
    Group(
        "kept",
        _SMALL,
        clients=(
            "curlhttp",
            "bare pycurl",
            "bare pycurl, hears Ctrl-C",
            "bare pycurl, no NOSIGNAL",
            "requests",
            "requests, defaults",
        ),
    ),
    Group(
        "a server that takes 5 ms",
        _SMALL,
        scheme="http, 5 ms",
        clients=("curlhttp", "bare pycurl", "bare pycurl, hears Ctrl-C"),
    ),
    Group("streamed", _SMALL, clients=("curlhttp", "curlhttp, streamed")),
    Group("httpx", _SMALL, clients=("httpx", "httpx, curlhttp's transport")),
    Group("threads", _SMALL, clients=("curlhttp/1", "curlhttp/16")),
    Group("new connections", _SMALL, reuse=False, clients=_NEW),
    Group("new TLS connections, resumed", _SMALL, scheme="https", reuse=False, clients=_NEW),
    Group(
        "new TLS connections, full handshakes",
        _SMALL,
        scheme="https, full handshakes",
        reuse=False,
        clients=_NEW,
    ),
    Group(
        "first requests to TLS origins",
        _SMALL,
        scheme="https",
        clients=("curlhttp", "bare pycurl, one multi"),
        origins=_ORIGINS,
    ),
)


def measure(options: Options) -> dict[str, Any]:
    """Return the results of all cases."""
    return compare("pairs", _GROUPS, BLOCKING | VARIANTS, options)
