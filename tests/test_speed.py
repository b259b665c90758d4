"""A guard against slow changes, on what no noise can move: how many bytecodes a request runs.

What that costs in CPU, and how many times that of bare pycurl, `python -m benchmarks cpu` measures.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

import pytest

import curlhttp
import curlhttp.requests as requests
from tests.servers import RawServer
from tests.servers.websocket import echo, speaking
from tests.support.cli import listed, run
from tests.support.internals import forget_failed_names

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 200\r\n\r\n" + bytes(200)
_THINKS = 0.005  # seconds for which the server waits: a request that waits once is what users have
_TRACED = 30  # requests, of which the middle one counts: some look for silence as well

# Above the most of 3.10, 3.11 and 3.13, which 3.11 has: 1,317, 1,744 and 2,166.
_BLOCKING_BYTECODES = 1_400
_ASYNC_BYTECODES = 1_800
_SESSION_BYTECODES = 2_300
# A line for the command fetch, from the list to the record; on 3.11, 4,486.
_FETCH_BYTECODES = 5_000
# A message of 64 B there and back; on 3.11, 798.
_MESSAGE_BYTECODES = 900
# Four of them are the task's; before 3.11 each of the three coroutines has a separate frame.
_WAITING_OBJECTS = 12.5 if sys.version_info >= (3, 11) else 15.5


@pytest.fixture(autouse=True)
def _no_name_has_failed() -> None:
    forget_failed_names()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Yield the URL of a server in this process, each of whose responses takes one wait."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=_serve, args=(listening,), daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()


def _serve(listening: socket.socket) -> None:
    with suppress(OSError):  # it was shut down
        while True:
            sock, _ = listening.accept()
            threading.Thread(target=_answer, args=(sock,), daemon=True).start()


def _answer(sock: socket.socket) -> None:
    with sock, suppress(OSError):
        while sock.recv(65536):
            time.sleep(_THINKS)
            sock.sendall(_ANSWER)


class _Bytecodes:
    """Counts the bytecodes that this thread runs, but for those of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> _Bytecodes:
        self._others = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 reports none at all
        sys.settrace(self._trace)
        return self

    def __exit__(self, *details: object) -> None:
        sys.settrace(self._others)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name == __file__ or "/asyncio/" in name:
            return None
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self._trace


def _hint(found: int, limit: int) -> str:
    return (
        f"{found:,} bytecodes, the limit is {limit:,}: look at what the change costs with "
        "`python -m benchmarks cpu`; if it is worth it, raise the limit in tests/test_speed.py"
    )


def test_a_blocking_get_runs_no_more_bytecodes_than_it_did(url: str) -> None:
    with curlhttp.Client() as client:
        found = _traced(partial(client.get, url))
    assert 0 < found <= _BLOCKING_BYTECODES, _hint(found, _BLOCKING_BYTECODES)


def test_a_get_of_the_drop_in_runs_no_more_bytecodes_than_it_did(url: str) -> None:
    with requests.Session() as session:
        found = _traced(partial(session.get, url))
    assert 0 < found <= _SESSION_BYTECODES, _hint(found, _SESSION_BYTECODES)


def test_a_websocket_message_runs_no_more_bytecodes_than_it_did() -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    message = bytes(64)

    async def count(url: str) -> int:
        counts = []
        async with curlhttp.AsyncClient() as client, client.websocket(url, compression=None) as ws:
            for _ in range(_TRACED):
                with _Bytecodes() as bytecodes:
                    await ws.send(message)
                    assert await ws.recv() == message
                counts.append(bytecodes.count)
        return median_low(counts)

    with RawServer(speaking(echo)) as server:
        url = server.url.replace("http", "ws", 1)
        with curlhttp.Client() as client, client.websocket(url, compression=None) as ws:

            def exchange() -> None:
                ws.send(message)
                assert ws.recv() == message

            blocking = _traced(exchange)
        found = max(blocking, asyncio.run(count(url)))
    assert 0 < found <= _MESSAGE_BYTECODES, _hint(found, _MESSAGE_BYTECODES)


def _traced(get: Callable[[], object]) -> int:
    """Return how many bytecodes a call runs mostly."""
    counts = []
    get()
    for _ in range(_TRACED):
        with _Bytecodes() as bytecodes:
            get()
        counts.append(bytecodes.count)
    return median_low(counts)


def test_an_async_get_runs_no_more_bytecodes_than_it_did(url: str) -> None:
    async def count() -> int:
        counts = []
        async with curlhttp.AsyncClient() as client:
            await client.get(url)
            for _ in range(_TRACED):
                with _Bytecodes() as bytecodes:
                    await asyncio.create_task(client.get(url))
                counts.append(bytecodes.count)
        return median_low(counts)

    found = asyncio.run(count())
    assert 0 < found <= _ASYNC_BYTECODES, _hint(found, _ASYNC_BYTECODES)


@pytest.mark.slow
def test_a_line_of_fetch_runs_no_more_bytecodes_than_it_did(url: str, tmp_path: Path) -> None:
    def count(lines: int) -> int:
        file = listed(tmp_path, *[url] * lines)
        with _Bytecodes() as bytecodes:
            assert run("fetch", file, "-o", tmp_path / "out.jsonl", "--overwrite", "-q").status == 0
        return bytecodes.count

    count(10)
    found = (count(400) - count(100)) // 300
    assert 0 < found <= _FETCH_BYTECODES, _hint(found, _FETCH_BYTECODES)


def test_a_queued_request_is_few_objects_to_the_garbage_collector(url: str) -> None:
    """What thousands at once cost beyond the same number one after another is mostly that."""
    count = 1000

    async def tracked() -> int:
        async with curlhttp.AsyncClient(max_connections=1) as client:
            await client.get(url)
            gc.collect()
            gc.disable()
            try:
                before = len(gc.get_objects())
                tasks = [asyncio.create_task(client.get(url)) for _ in range(count)]
                await asyncio.sleep(0)
                found = len(gc.get_objects()) - before
            finally:
                gc.enable()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found

    assert asyncio.run(tracked()) / count <= _WAITING_OBJECTS
