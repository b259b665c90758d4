"""Time of `import curlhttp`, next to that of pycurl and of other clients, in fresh interpreters."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.crew import Options
from benchmarks.machine import describe

__all__ = ["measure"]

_STATEMENTS = ("import pycurl", "import curlhttp", "import curlhttp; curlhttp.Client")
_PEERS = ("requests", "httpx", "aiohttp")


def measure(options: Options) -> dict[str, Any]:
    """Return medians in ms, with the start of the interpreter taken off."""
    peers = [f"import {name}" for name in _PEERS if importlib.util.find_spec(name)]
    statements = ("pass", *_STATEMENTS, *peers)
    samples: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(options.rounds):
        for statement in statements:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
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
