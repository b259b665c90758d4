"""A million GETs: wall time, CPU, memory and sockets over time, errors; compared with aiohttp."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import curlhttp
from benchmarks.clients import ASYNC, BULK
from benchmarks.clients.base import Settings
from benchmarks.compare import frame
from benchmarks.crew import Contender, Failed, Options, Worker, contenders
from benchmarks.machine import cores
from benchmarks.progress import Progress
from benchmarks.server import serve

__all__ = ["measure"]

_SIZE = 200  # bytes
_SUMS = ("requests", "wall", "cpu", "errors")
_INTERVAL = 0.5  # seconds between two samples of memory and sockets
_SILENCE = 120.0  # seconds without progress after which a worker counts as failed


@dataclass
class _Run:
    """A client that sends its requests in several rounds, all in one process."""

    contender: Contender
    connections: int
    samples: list[dict[str, Any]] = field(default_factory=list)
    looks: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.contender.title}, {self.connections} connections"

    def result(self) -> dict[str, Any]:
        """Return the run for JSON: sums, the rounds, and the samples of memory and sockets."""
        errors = (sample["error"] for sample in self.samples if sample["error"])
        return {
            "client": self.contender.name,
            "loop": self.contender.loop,
            "connections": self.connections,
            **{name: sum(sample[name] for sample in self.samples) for name in _SUMS},
            "error": next(errors, ""),
            "peak_rss": max(sample["peak_rss"] for sample in self.samples),
            "samples": self.samples,
            "looks": self.looks,
        }


def measure(requests: int, concurrency: int, options: Options) -> dict[str, Any]:
    """Return the results of this many requests of each client, in interleaved rounds.

    A semaphore limits how many tasks are started. 100 connections are the default of both clients.
    On uvloop both run once more with as many connections as concurrent requests, unless clients
    are selected by name.
    """
    skipped: dict[str, str] = {}
    runs = _runs(concurrency, options, skipped)
    share = max(1, requests // options.rounds)
    core, kind = cores()[0], options.server
    with serve([_SIZE], core=core, kind=kind) as server, Progress("million") as progress:
        results = frame("million", server, options, [run.contender for run in runs])
        results["settings"] |= {"requests": requests, "concurrency": concurrency, "size": _SIZE}
        results |= {"skipped": skipped, "versions": {}}
        command = {
            "url": f"{server.urls['http']}/{_SIZE}",
            "size": _SIZE,
            "concurrency": concurrency,
            "window": True,
        }
        with ExitStack() as stack:
            workers: dict[str, Worker] = {}
            for run in runs:
                settings = Settings(connections=run.connections)
                worker = stack.enter_context(Worker(run.contender, settings, cores()[1]))
                workers[run.title] = worker
                try:
                    results["versions"].update(worker.answer()["versions"])
                    worker.ask(**command, count=min(requests, 2 * concurrency))
                except Failed as error:
                    skipped[run.title] = str(error)
            for number in range(options.rounds):
                for place, run in enumerate(runs):
                    if run.title in skipped:
                        continue
                    step = number * len(runs) + place
                    progress.show(run.title, step, options.rounds * len(runs))
                    try:
                        _measure(run, workers[run.title], {**command, "count": share})
                    except Failed as error:
                        skipped[run.title] = str(error)
    return results | {"rows": [run.result() for run in runs if run.title not in skipped]}


def _runs(concurrency: int, options: Options, skipped: dict[str, str]) -> list[_Run]:
    registry = {name: ASYNC[name] for name in ("curlhttp", "aiohttp")}
    if hasattr(curlhttp.Client, "map"):
        registry |= BULK
    chosen = [one for one in contenders(registry, options, skipped) if one.loop != "trio"]
    more = [one for one in chosen if one.loop == "uvloop"]
    if concurrency <= 100 or any("/" in name for name in options.clients):
        more = []
    return [_Run(one, 100) for one in chosen] + [_Run(one, concurrency) for one in more]


def _measure(run: _Run, worker: Worker, command: dict[str, Any]) -> None:
    """Run a round, and record seconds, bytes of memory and number of sockets meanwhile."""
    before = run.looks[-1][0] if run.looks else 0.0
    started, ended = time.monotonic(), threading.Event()

    def watch() -> None:
        while True:
            with suppress(OSError):
                seconds = round(before + time.monotonic() - started, 2)
                run.looks.append((seconds, _rss(worker.pid), _open(worker.pid)))
            if ended.wait(_INTERVAL):
                return

    worker.tell({**command, "progress": max(1, command["count"] // 100)})
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        figures = worker.answer(_SILENCE)
        while "wall" not in figures:
            figures = worker.answer(_SILENCE)
    finally:
        ended.set()
        thread.join()
    run.samples.append(figures)


def _rss(process: int) -> int:
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _open(process: int) -> int:
    """Return the number of open sockets of a process."""
    folder = f"/proc/{process}/fd"
    found = 0
    for name in os.listdir(folder):
        with suppress(OSError):
            found += os.readlink(f"{folder}/{name}").startswith("socket:")
    return found
