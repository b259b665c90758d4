"""A million GETs: wall time, CPU, memory and sockets over time, errors; next to aiohttp."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import curlhttp
from benchmarks.clients import ASYNC, BULK
from benchmarks.clients.base import Settings
from benchmarks.compare import frame
from benchmarks.crew import Contender, Failed, Options, Worker, contenders
from benchmarks.machine import cores
from benchmarks.server import Server, serve

__all__ = ["measure"]

_SIZE = 200  # bytes
_INTERVAL = 0.5  # seconds between two looks at memory and sockets
_SILENCE = 120.0  # seconds without progress after which a worker is given up


@dataclass(frozen=True)
class _Run:
    contender: Contender
    connections: int

    @property
    def title(self) -> str:
        return f"{self.contender.title}, {self.connections} connections"


def measure(requests: int, concurrency: int, options: Options) -> dict[str, Any]:
    """Return what became of so many requests, client after client.

    Tasks are made as a semaphore lets them start. 100 connections are the default of both clients;
    on uvloop both run once more with as many as there are requests at once.
    """
    skipped: dict[str, str] = {}
    runs = _runs(concurrency, options, skipped)
    with serve([_SIZE], core=cores()[0], kind=options.server) as server:
        results = frame("million", server, options, [run.contender for run in runs])
        results["settings"] |= {"requests": requests, "concurrency": concurrency, "size": _SIZE}
        results |= {"skipped": skipped, "versions": {}, "rows": []}
        for run in runs:
            try:
                results["rows"].append(_measure(run, requests, concurrency, server, results))
            except Failed as error:
                skipped[run.title] = str(error)
    return results


def _runs(concurrency: int, options: Options, skipped: dict[str, str]) -> list[_Run]:
    registry = {name: ASYNC[name] for name in ("curlhttp", "aiohttp")}
    if hasattr(curlhttp.Client, "map"):
        registry |= BULK
    chosen = [one for one in contenders(registry, options, skipped) if one.loop != "trio"]
    more = [one for one in chosen if one.loop == "uvloop"] if concurrency > 100 else []
    return [_Run(one, 100) for one in chosen] + [_Run(one, concurrency) for one in more]


def _measure(
    run: _Run, requests: int, concurrency: int, server: Server, results: dict[str, Any]
) -> dict[str, Any]:
    command = {
        "url": f"{server.urls['http']}/{_SIZE}",
        "size": _SIZE,
        "concurrency": concurrency,
        "window": True,
    }
    settings = Settings(connections=run.connections)
    with Worker(run.contender, settings, cores()[1]) as worker:
        results["versions"].update(worker.answer()["versions"])
        worker.ask(**command, count=min(requests, 2 * concurrency))
        with _watch(worker.pid) as looks:
            worker.tell({**command, "count": requests, "progress": max(1, requests // 200)})
            figures = worker.answer(_SILENCE)
            while "wall" not in figures:
                _show(run.title, figures["done"], requests)
                figures = worker.answer(_SILENCE)
    print(f"\r{run.title}: done", file=sys.stderr)
    return {
        "client": run.contender.name,
        "loop": run.contender.loop,
        "connections": run.connections,
        **figures,
        "looks": looks,
    }


@contextmanager
def _watch(process: int) -> Iterator[list[tuple[float, int, int]]]:
    """Note seconds, bytes of memory and number of sockets of a process while the block runs."""
    looks: list[tuple[float, int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        started = time.monotonic()
        while True:
            with suppress(OSError):
                looks.append((round(time.monotonic() - started, 2), _rss(process), _open(process)))
            if ended.wait(_INTERVAL):
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield looks
    finally:
        ended.set()
        thread.join()


def _rss(process: int) -> int:
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _open(process: int) -> int:
    """Return how many sockets a process has open."""
    folder = f"/proc/{process}/fd"
    found = 0
    for name in os.listdir(folder):
        with suppress(OSError):
            found += os.readlink(f"{folder}/{name}").startswith("socket:")
    return found


def _show(title: str, done: int, requests: int) -> None:
    if sys.stderr.isatty():
        bar = "#" * (40 * done // requests)
        print(f"\r{title:45} [{bar:40}] {done:,}", end="", file=sys.stderr, flush=True)
