"""A process that runs one client on one loop, and nothing else, as its parent commands.

Commands arrive as lines of JSON on standard input. Between them, the process and its event loop
sleep in this read, so that clients that are not measured take no CPU. curlhttp does not have to be
installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TextIO

from benchmarks.clients import find
from benchmarks.clients.base import AsyncPeer, BlockingPeer, Settings, WholeRound

Command = dict[str, Any]
Tasks = Callable[[list[Callable[[], Awaitable[None]]]], Awaitable[Any]]

_MORE_CONNECTIONS = 16_384  # descriptors


class Round:
    """The requests of one command, and their results."""

    def __init__(self, command: Command, tell: Callable[[dict[str, Any]], None]) -> None:
        self.url: str = command["url"]
        self.urls: list[str] = command.get("urls") or [self.url]
        self.count: int = command["count"]
        self.concurrency: int = command["concurrency"]
        self._size: int = command["size"]
        self._step: int = command.get("progress", 0)
        self._tell = tell
        self._done = 0
        self._latencies = array("d")
        self._errors = 0
        self._error = ""

    def add(self, outcome: int | Exception, seconds: float) -> None:
        """Count a request that ended with a body of this length, or with an error."""
        self._done += 1
        if outcome == self._size:
            if not self._step:  # in a long run, only the client's memory may grow
                self._latencies.append(seconds)
        else:
            self._errors += 1
            self._error = self._error or f"{outcome!r}, not {self._size} bytes"
        if self._step and self._done % self._step == 0:
            self._tell({"done": self._done})

    def start(self) -> None:
        """Start the clocks; reset the peak of memory, if Linux allows it."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def result(self) -> dict[str, Any]:
        """Stop the clocks; return the figures."""
        wall, cpu = time.perf_counter() - self._wall, _cpu() - self._cpu
        figures: dict[str, Any] = {
            "requests": self._done,
            "wall": wall,
            "cpu": cpu,
            "errors": self._errors,
            "error": self._error,
            "peak_rss": _peak_rss(),
        }
        if not self._step:
            figures["latencies"] = [round(seconds * 1e6) for seconds in self._latencies]
        return figures


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)  # all threads, including those in Rust
    return usage.ru_utime + usage.ru_stime


def _peak_rss() -> int:
    """Return the peak RSS in bytes."""
    with suppress(OSError):
        # ru_maxrss starts with the parent's value.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# --- rounds ---


async def _lanes(client: AsyncPeer, part: Round, run_all: Tasks) -> None:
    """Run as many tasks as concurrent requests; each sends one request after another."""
    left = iter(range(part.count))

    async def lane() -> None:
        for _ in left:
            await _one(client, part)

    await run_all([lane] * min(part.concurrency, part.count))


async def _one(client: AsyncPeer, part: Round) -> None:
    started = time.perf_counter()
    try:
        outcome: int | Exception = await client.get(part.url)
    except Exception as error:
        outcome = error
    part.add(outcome, time.perf_counter() - started)


async def _window(client: AsyncPeer, part: Round) -> None:
    """Run a task for each request; a semaphore limits how many are started."""
    places = asyncio.Semaphore(part.concurrency)
    tasks: set[asyncio.Task[None]] = set()

    async def task() -> None:
        try:
            await _one(client, part)
        finally:
            places.release()

    for _ in range(part.count):
        await places.acquire()
        running = asyncio.create_task(task())
        tasks.add(running)
        running.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def _sequence(
    client: BlockingPeer, urls: Iterable[str], done: Callable[[int | Exception, float], None]
) -> None:
    for url in urls:
        started = time.perf_counter()
        try:
            outcome: int | Exception = client.get(url)
        except Exception as error:
            outcome = error
        done(outcome, time.perf_counter() - started)


def _threads(client: BlockingPeer, part: Round) -> None:
    """Run threads on one client; count their results when all have ended."""
    ended: list[tuple[int | Exception, float]] = []

    def note(outcome: int | Exception, seconds: float) -> None:
        ended.append((outcome, seconds))

    share = -(-part.count // part.concurrency)
    threads = [
        threading.Thread(target=_sequence, args=(client, [part.url] * share, note))
        for _ in range(part.concurrency)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome, seconds in ended:
        part.add(outcome, seconds)


# --- the loops ---


async def _gather(functions: list[Callable[[], Awaitable[None]]]) -> None:
    await asyncio.gather(*[function() for function in functions])


async def _nursery(functions: list[Callable[[], Awaitable[None]]]) -> None:
    import trio

    async with trio.open_nursery() as nursery:
        for function in functions:
            nursery.start_soon(function)


class Worker:
    """Execute the commands of the parent.

    Args:
        client: the path of the client, as in benchmarks.clients.
        settings: the fields of Settings.
        output: where replies are written.
    """

    def __init__(self, client: str, settings: Command, output: TextIO) -> None:
        self._type = find(client)
        self._settings = Settings(**settings)
        self._output = output

    def run(self, loop: str) -> None:
        """Run until standard input ends.

        Args:
            loop: "none", "asyncio", "uvloop" or "trio".
        """
        if loop == "none":
            self._serve()
        elif loop == "asyncio":
            asyncio.run(self._serve_async(_gather))
        elif loop == "uvloop":
            import uvloop

            uvloop.run(self._serve_async(_gather))
        else:
            import trio

            trio.run(self._serve_async, _nursery)

    def _serve(self) -> None:
        client = self._type(self._settings)
        assert isinstance(client, BlockingPeer | WholeRound)
        for command in self._commands():
            part = Round(command, self._tell)
            part.start()
            if isinstance(client, WholeRound):
                client.run(part.url, part.count, part.concurrency, part.add)
            elif part.concurrency > 1:
                _threads(client, part)
            else:
                _sequence(client, islice(cycle(part.urls), part.count), part.add)
            self._tell(part.result())
        client.close()

    async def _serve_async(self, run_all: Tasks) -> None:
        client = self._type(self._settings)
        assert isinstance(client, AsyncPeer)
        for command in self._commands():
            part = Round(command, self._tell)
            part.start()
            if command.get("window"):
                await _window(client, part)
            else:
                await _lanes(client, part, run_all)
            self._tell(part.result())
        await client.close()

    def _commands(self) -> Iterator[Command]:
        self._tell({"versions": {name: _version(name) for name in self._type.modules}})
        for line in sys.stdin:
            yield json.loads(line)

    def _tell(self, answer: dict[str, Any]) -> None:
        self._output.write(json.dumps(answer) + "\n")
        self._output.flush()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _allow_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MORE_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, _MORE_CONNECTIONS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    orders = json.loads(sys.argv[1])
    if orders["core"] is not None:
        os.sched_setaffinity(0, {orders["core"]})
    _allow_descriptors()
    # Output that libraries print must not mix with the replies.
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        Worker(orders["client"], orders["settings"], output).run(orders["loop"])


if __name__ == "__main__":
    main()
