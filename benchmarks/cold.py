"""The first request of a process: `curlhttp.get` next to a client and requests, import included."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.crew import Options, environment
from benchmarks.machine import cores, describe
from benchmarks.progress import Progress
from benchmarks.server import serve

__all__ = ["measure"]

_STATEMENTS = {
    "interpreter": "pass",
    "curlhttp.get": "import curlhttp; curlhttp.get({url!r})",
    "curlhttp.Client().get": "import curlhttp; curlhttp.Client().get({url!r})",
    "requests.get": "import requests; requests.get({url!r})",
}
_PIN = "import os; os.sched_setaffinity(0, {{{core}}}); "


def measure(options: Options) -> dict[str, Any]:
    """Return CPU and wall time, without the interpreter's start-up in each round."""
    server_core, core = cores()
    chosen, missing = dict(_STATEMENTS), dict[str, str]()
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    pin = "" if core is None else _PIN.format(core=core)
    # Installed packages have bytecode; a checkout may not.
    with (
        serve([200], core=server_core, kind=options.server) as server,
        tempfile.TemporaryDirectory() as folder,
        Progress("cold") as progress,
    ):
        environ = {**environment(), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        for number in range(options.rounds + 1):
            progress.show("first requests", number, options.rounds)
            start = {"wall": 0.0, "cpu": 0.0}
            for name, statement in list(chosen.items()):
                code = pin + statement.format(url=f"{server.urls['http']}/200")
                try:
                    taken = _run(code, environ)
                except subprocess.CalledProcessError as error:
                    missing[name] = error.stderr.decode().strip().rpartition("\n")[2]
                    del chosen[name], samples[name]
                    continue
                figures = {key: taken[key] - start[key] for key in taken}
                start = start if any(start.values()) else taken
                if number:  # the first run compiles
                    samples[name].append({**figures, "requests": 1, "errors": 0})
    rows = [{"client": name, "loop": "none", "samples": samples[name]} for name in samples]
    return {
        "benchmark": "cold",
        "machine": describe(),
        "server": server.name,
        "settings": {"rounds": options.rounds, "client_core": core, "server_core": server_core},
        "cases": [{"group": "HTTP", "name": "200 B", "rows": rows, "missing": missing}],
    }


def _run(code: str, environ: dict[str, str]) -> dict[str, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, stderr=subprocess.PIPE)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": spent}
