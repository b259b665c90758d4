"""Time of `import curlhttp`, next to that of `import pycurl`, each in fresh interpreters."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

_STATEMENTS = ("pass", "import pycurl", "import curlhttp", "import curlhttp; curlhttp.Client")


def run(rounds: int) -> None:
    """Print the medians, with the start of the interpreter taken off."""
    samples: dict[str, list[float]] = {statement: [] for statement in _STATEMENTS}
    for _ in range(rounds):
        for statement in _STATEMENTS:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            samples[statement].append((time.perf_counter() - started) * 1000)
    start = statistics.median(samples["pass"])
    print("| statement | ms |\n| --- | --: |")
    for statement in _STATEMENTS[1:]:
        print(f"| `{statement}` | {statistics.median(samples[statement]) - start:.1f} |")
