"""Instructions per request in user space, by valgrind: the same on a busy machine."""

from __future__ import annotations

import importlib.util
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from benchmarks.crew import Options, environment
from benchmarks.progress import Progress
from benchmarks.server import serve

__all__ = ["run"]

_SIZE = 200  # bytes of a body
_THINKS = 0.005  # seconds that the slow server takes; most requests wait for their response
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % _SIZE + bytes(_SIZE)

_MANY = 64  # requests at once
_BLOCKING = """
for _ in range(count):
    client.get(url).content
"""
_ASYNC = f"""
async def main():
    async with curlhttp.AsyncClient(verify=ca) as client:
        left = iter(range(count))
        async def lane():
            for _ in left:
                (await client.get(url)).content
        await asyncio.gather(*[lane() for _ in range({_MANY})])
"""
_MAP = f"""
for response in curlhttp.Client().map((url for _ in range(count)), concurrency={_MANY}):
    response.content
"""


@dataclass(frozen=True)
class _Row:
    """A kind of request, and the program that sends `count` of them to `url`.

    `few` and `many` are two counts. Their difference leaves out the start of the process. Without
    `few`, the whole process is meant.
    """

    name: str
    code: str
    server: str = "http"
    few: int = 50
    many: int = 150


_ROWS = (
    _Row("blocking", f"import curlhttp\nclient = curlhttp.Client()\n{_BLOCKING}"),
    _Row(
        f"blocking, the server takes {_THINKS * 1000:.0f} ms",
        f"import curlhttp\nclient = curlhttp.Client()\n{_BLOCKING}",
        "slow",
    ),
    _Row(
        "Session of the drop-in",
        f"from curlhttp import requests\nclient = requests.Session()\n{_BLOCKING}",
    ),
    _Row(
        f"async, {_MANY} at once, asyncio",
        f"import asyncio, curlhttp\n{_ASYNC}\nasyncio.run(main())",
        few=320,
        many=960,
    ),
    _Row(
        f"async, {_MANY} at once, uvloop",
        f"import asyncio, curlhttp, uvloop\n{_ASYNC}\nuvloop.run(main())",
        few=320,
        many=960,
    ),
    _Row(
        f"async, HTTP/2 on TLS, {_MANY} at once, asyncio",
        f"import asyncio, curlhttp\n{_ASYNC}\nasyncio.run(main())",
        "h2",
        few=320,
        many=960,
    ),
    _Row(f"Client.map, {_MANY} at once", f"import curlhttp\n{_MAP}", few=320, many=960),
)
_FIRST = _Row(
    "import curlhttp and the first get, whole process",
    f"import curlhttp\nclient = curlhttp\n{_BLOCKING}",
    few=0,
    many=1,
)

_AGREE = 0.1  # by how much two measurements of a row may differ


def run(options: Options) -> None:
    """Print how many instructions a request takes, and a process that sends only one.

    Raises:
        SystemExit: there is no valgrind.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit(
            "valgrind counts the instructions, and is not installed (Linux: apt install valgrind); "
            "`python -m benchmarks cpu` measures the time that a request takes"
        )
    found: dict[str, str] = {}
    with (
        serve([_SIZE], kind=options.server) as server,
        _slow_server() as slow,
        Progress("instructions") as progress,
    ):
        urls = {**server.urls, "slow": slow}
        rows = [row for row in _ROWS if row.server in urls and _can_run(row)]
        for number, row in enumerate([*rows, _FIRST]):
            progress.show(row.name, number, len(rows) + 1)
            code = f"url, ca = {urls[row.server]!r} + '/{_SIZE}', {server.ca!r}\n{row.code}"
            _run(f"count = 1\n{code}")  # compiles the modules that have changed
            found[row.name] = _show(*_measure(row, partial(_count, valgrind, code)))
    print(f"instructions in user space, GET of {_SIZE} B, {server.name}\n")
    print("| request | thousands |")
    print("| --- | --: |")
    for name, shown in found.items():
        print(f"| {name} | {shown} |")


def _measure(row: _Row, count: Callable[[int], int]) -> tuple[float, float]:
    """Return the instructions per request of a row, measured twice."""
    if not row.few:
        return count(row.many), count(row.many)
    middle = (row.few + row.many) // 2
    few, some, many = count(row.few), count(middle), count(row.many)
    return (some - few) / (middle - row.few), (many - some) / (row.many - middle)


def _show(first: float, second: float) -> str:
    """Return the mean in thousands, or say that both measurements of a row disagree."""
    mean = (first + second) / 2
    if abs(first - second) > _AGREE * mean:
        return f"not measured: {first / 1000:,.0f}, then {second / 1000:,.0f}; run it again"
    return f"{mean / 1000:,.0f}"


def _can_run(row: _Row) -> bool:
    return "uvloop" not in row.code or importlib.util.find_spec("uvloop") is not None


def _count(valgrind: str, code: str, count: int) -> int:
    """Return how many instructions a process takes that sends `count` requests."""
    callgrind = (valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null")
    log = _run(f"count = {count}\n{code}", *callgrind)
    counted = re.search(r"Collected : (\d+)", log)
    if counted is None:
        raise SystemExit(f"valgrind failed: {log[-2000:]}")
    return int(counted[1])


def _run(program: str, *command: str) -> str:
    """Run a Python program, in a command if there is one; return what it printed as errors."""
    # Always in the same order, or the same program takes another number.
    environ = {**environment(), "PYTHONHASHSEED": "0"}
    # Without compiled modules, each process would compile them, and be counted doing that.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    run = [*command, sys.executable, "-c", program]
    ended = subprocess.run(run, env=environ, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"a measured program failed: {ended.stderr.strip()[-2000:]}")
    return ended.stderr


@contextmanager
def _slow_server() -> Iterator[str]:
    """Run a server in a thread that takes some milliseconds, as most real ones do."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=_accept, args=(listening,), daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()


def _accept(listening: socket.socket) -> None:
    with suppress(OSError):  # it was shut down
        while True:
            sock, _ = listening.accept()
            threading.Thread(target=_answer, args=(sock,), daemon=True).start()


def _answer(sock: socket.socket) -> None:
    with sock, suppress(OSError):
        while sock.recv(65536):
            time.sleep(_THINKS)
            sock.sendall(_ANSWER)
