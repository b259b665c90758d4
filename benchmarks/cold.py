"""The first request of a process, from its start: `curlhttp.get`, requests, commands."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

from benchmarks.crew import Options, environment
from benchmarks.machine import cores, describe, pin
from benchmarks.progress import Progress
from benchmarks.server import serve

__all__ = ["measure"]

_PYTHON = [sys.executable, "-c"]
_PROGRAMS = {
    "interpreter": [*_PYTHON, "pass"],
    "curlhttp.get": [*_PYTHON, "import curlhttp; curlhttp.get({url!r})"],
    "curlhttp.Client().get": [*_PYTHON, "import curlhttp; curlhttp.Client().get({url!r})"],
    "requests.get": [*_PYTHON, "import requests; requests.get({url!r})"],
}
_COMMANDS = {
    "curlhttp get": [sys.executable, "-m", "curlhttp", "get", "{url}"],
    "http (httpie)": [sys.executable, "-m", "httpie", "--ignore-stdin", "{url}"],
    "curl": ["curl", "--silent", "{url}"],
}


def measure(options: Options) -> dict[str, Any]:
    """Return CPU and wall time; programs without the interpreter's start in each round."""
    server_core, core = cores()
    chosen, missing = {**_PROGRAMS, **_COMMANDS}, dict[str, str]()
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
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
            for name, command in list(chosen.items()):
                arguments = [part.format(url=f"{server.urls['http']}/200") for part in command]
                try:
                    taken = _run(arguments, environ, core)
                except (subprocess.CalledProcessError, FileNotFoundError) as error:
                    missing[name] = _last_line(error)
                    del chosen[name], samples[name]
                    continue
                if name in _COMMANDS:
                    start = {"wall": 0.0, "cpu": 0.0}
                figures = {key: taken[key] - start[key] for key in taken}
                start = start if any(start.values()) or name in _COMMANDS else taken
                if number:  # the first run compiles
                    samples[name].append({**figures, "requests": 1, "errors": 0})
    rows = {name: {"client": name, "loop": "none", "samples": samples[name]} for name in samples}
    cases = {"200 B": _PROGRAMS, "commands, 200 B": _COMMANDS}
    return {
        "benchmark": "cold",
        "machine": describe(),
        "server": server.name,
        "settings": {"rounds": options.rounds, "client_core": core, "server_core": server_core},
        "cases": [
            {
                "group": "HTTP",
                "name": title,
                "rows": [rows[name] for name in names if name in rows],
                "missing": {name: missing[name] for name in names if name in missing},
            }
            for title, names in cases.items()
        ],
    }


def _last_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr.decode().strip().rpartition("\n")[2])
    return str(error)


def _run(arguments: list[str], environ: dict[str, str], core: int | None) -> dict[str, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        arguments,
        check=True,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=partial(pin, core),
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": spent}
