"""Time to import and to create each client, compared with pycurl, in fresh interpreters."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.crew import Options, environment
from benchmarks.machine import describe
from benchmarks.progress import Progress

__all__ = ["measure"]

_STATEMENTS = ("import pycurl", "import curlhttp", "import curlhttp; curlhttp.Client()")
_PEERS = {
    "requests": ("import requests", "import requests; requests.Session()"),
    "httpx": ("import httpx", "import httpx; httpx.Client()"),
    "aiohttp": ("import aiohttp",),
}


def measure(options: Options) -> dict[str, Any]:
    """Return medians in ms, without the interpreter's start-up."""
    peers = [one for name in _PEERS if importlib.util.find_spec(name) for one in _PEERS[name]]
    statements = ("pass", *_STATEMENTS, *peers)
    samples: dict[str, list[float]] = {statement: [] for statement in statements}
    # Installed packages have bytecode; a checkout may not.
    with tempfile.TemporaryDirectory() as folder, Progress("import") as progress:
        environ = {**environment(), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        for number in range(options.rounds + 1):
            progress.show("fresh interpreters", number, options.rounds)
            for statement in statements:
                started = time.perf_counter()
                subprocess.run([sys.executable, "-c", statement], check=True, env=environ)
                if number:  # the first run compiles
                    samples[statement].append((time.perf_counter() - started) * 1000)
    start = statistics.median(samples.pop("pass"))
    return {
        "benchmark": "import",
        "machine": describe(),
        "settings": {"rounds": options.rounds},
        "rows": {
            statement: [found - start for found in (statistics.median(all_), min(all_), max(all_))]
            for statement, all_ in samples.items()
        },
    }
