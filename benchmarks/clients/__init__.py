"""The clients that are compared, by their names.

Each is set up as its own documentation calls fastest, reads every body to its end, and verifies
certificates. Peers are imported when they are made: a client that is not installed can be listed.
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
}
BULK = {"curlhttp Client.map": "ours.Bulk"}
VARIANTS = {  # of clients above, for what they are compared with themselves
    "curlhttp, streamed": "ours.Streamed",
    "bare pycurl, no Ctrl-C": "bare.Plain",
    "bare pycurl, no Ctrl-C, no NOSIGNAL": "bare.Signalling",
    "bare pycurl, one multi": "bare.OneMulti",
    "requests, defaults": "python.TrustingRequests",
}


def find(place: str) -> type[Peer]:
    """Return the class at a place such as "python.Aiohttp"."""
    module, name = place.split(".")
    found = getattr(importlib.import_module(f"benchmarks.clients.{module}"), name)
    return cast("type[Peer]", found)
