"""Files, WebSocket messages and rows of a partition, next to curl, aiohttp and Client.map."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.crew import Options, environment
from benchmarks.machine import cores, describe
from benchmarks.progress import Progress
from benchmarks.server import serve

__all__ = ["measure"]

_FILE = 100 << 20  # bytes
_BODY = 200  # bytes of a response that becomes a row
_URLS = 5000
# Messages per round: bytes, how many, and how many are sent before one is read.
_MESSAGES = {
    "64 B": (64, 4000, 1),
    "64 B, 100 at once": (64, 16_000, 100),
    "100 kB": (100_000, 600, 1),
}
_FORMATS = {"JSON Lines": "jsonl", "Parquet": "parquet"}


def measure(options: Options) -> dict[str, Any]:
    """Return wall and CPU time of each client in each round; a round is one new process."""
    server_core, core = cores()
    with (
        tempfile.TemporaryDirectory() as folder,
        serve([_FILE, _BODY], core=server_core, kind=options.server) as server,
        _server("sink", server_core) as sink,
        _server("echo", server_core) as echo,
        Progress("features") as progress,
    ):
        url = server.urls["http"]
        upload = Path(folder) / "upload"
        upload.write_bytes(bytes(_FILE))
        cases = [
            _measure_case(group, name, clients, options.rounds, core, progress)
            for (group, name), clients in _cases(url, sink, echo, upload).items()
        ]
    return {
        "benchmark": "features",
        "machine": describe(),
        "server": server.name,
        "settings": {"rounds": options.rounds, "client_core": core, "server_core": server_core},
        "cases": cases,
    }


_Orders = dict[str, dict[str, Any]]


def _cases(url: str, sink: str, echo: str, upload: Path) -> dict[tuple[str, str], _Orders]:
    """Return what each client has to do, by group and name of the case.

    Args:
        url: of nginx.
        sink: address of the server that reads uploads.
        echo: address of the server for WebSockets.
        upload: the file to upload.
    """
    folder, file, target = str(upload.parent), f"{url}/{_FILE}", f"http://{sink}/"
    cases: dict[tuple[str, str], _Orders] = {
        ("download", "MiB of 100"): {
            "curlhttp": {"run": "download", "url": file, "folder": folder},
            "curl": {"run": "curl", "arguments": ["-o", f"{folder}/curl", file]},
        },
        ("upload", "MiB of 100"): {
            "curlhttp": {"run": "upload", "url": target, "path": str(upload)},
            "curl": {"run": "curl", "arguments": ["-H", "Expect:", "-T", str(upload), target]},
        },
    }
    for name, (size, count, window) in _MESSAGES.items():
        messages = {"url": f"ws://{echo}/", "size": size, "count": count, "window": window}
        cases["WebSocket echo", name] = {
            "curlhttp": {"run": "curlhttp_messages", **messages},
            "aiohttp": {"run": "aiohttp_messages", **messages},
        }
    for name, kind in _FORMATS.items():
        urls = {"url": f"{url}/{_BODY}", "count": _URLS, "folder": folder}
        cases["rows", name] = {
            "run_partition": {"run": "partition", "format": kind, **urls},
            "Client.map": {"run": "map_urls", **urls},
        }
    return cases


def _measure_case(
    group: str,
    name: str,
    clients: _Orders,
    rounds: int,
    core: int | None,
    progress: Progress,
) -> dict[str, Any]:
    samples: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
    missing: dict[str, str] = {}
    for number in range(rounds):
        progress.show(f"{group}, {name}", number, rounds)
        for client, order in clients.items():
            if client in missing:
                continue
            try:
                samples[client].append(_run({**order, "core": core}))
            except subprocess.CalledProcessError as error:
                missing[client] = error.stderr.decode().strip().rpartition("\n")[2]
    rows = [
        {"client": client, "loop": "none", "samples": found}
        for client, found in samples.items()
        if found
    ]
    return {"group": group, "name": name, "rows": rows, "missing": missing}


def _run(order: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.feature_worker", json.dumps(order)],
        check=True,
        capture_output=True,
        env=environment(),
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def _server(kind: str, core: int | None) -> Iterator[str]:
    """Run one of the worker's servers; yield its address."""
    order = json.dumps({"run": kind, "core": core})
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.feature_worker", order],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
