"""The clients to compare, by name.

Each client has the configuration that its documentation calls fastest, reads every body to its end,
and verifies certificates. A peer is imported when it is created, so you can list clients that are
not installed.
"""

from __future__ import annotations

import importlib
from typing import cast

from benchmarks.clients.base import Peer

__all__ = ["ASYNC", "BLOCKING", "BULK", "VARIANTS", "find"]

ASYNC = {
    "curlhttp": "ours.Async",
    "bare pycurl multi loop": "bare.MultiLoop",
    "pycurl AsyncCurlMulti": "bare.AsyncMulti",
    "aiohttp": "python.Aiohttp",
    "hyperhttp": "python.Hyperhttp",
    "httpx": "python.AsyncHttpx",
    "niquests": "python.AsyncNiquests",
    "pyreqwest": "native.AsyncPyreqwest",
    "wreq": "native.AsyncWreq",
    "primp": "native.AsyncPrimp",
    "curl_cffi": "native.AsyncCurlCffi",
    "redc": "native.AsyncRedc",
    "pyqwest": "native.AsyncPyqwest",
    "httpr": "native.AsyncHttpr",
}
BLOCKING = {
    "curlhttp": "ours.Blocking",
    "curlhttp.Session": "ours.DropIn",
    "bare pycurl": "bare.Easy",
    "requests": "python.Requests",
    "urllib3": "python.Urllib3",
    "httpx": "python.Httpx",
    "niquests": "python.Niquests",
    "pyreqwest": "native.Pyreqwest",
    "wreq": "native.Wreq",
    "primp": "native.Primp",
    "curl_cffi": "native.CurlCffi",
    "pyqwest": "native.Pyqwest",
    "httpr": "native.Httpr",
}
BULK = {"curlhttp Client.map": "ours.Bulk"}
VARIANTS = {  # of the clients above, for comparing a client with itself
    "curlhttp, streamed": "ours.Streamed",
    "bare pycurl, hears Ctrl-C": "bare.Interruptible",
    "bare pycurl, no NOSIGNAL": "bare.Signalling",
    "bare pycurl, one multi": "bare.OneMulti",
    "httpx, curlhttp's transport": "ours.HttpxTransport",
    "requests, defaults": "python.TrustingRequests",
}


def find(place: str) -> type[Peer]:
    """Return the class with a path such as "python.Aiohttp"."""
    module, name = place.split(".")
    found = getattr(importlib.import_module(f"benchmarks.clients.{module}"), name)
    return cast("type[Peer]", found)
