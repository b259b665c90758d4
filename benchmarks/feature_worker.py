"""A process that does one thing for benchmarks.features, and prints its figures as JSON."""

from __future__ import annotations

import json
import os
import pickle
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

_WARM = 100  # messages, or rows, before anything is timed
_CONCURRENCY = 50
_MEBIBYTES = 100  # of a file


class Clock:
    """Measure wall and CPU time from its creation on.

    Args:
        who: resource.RUSAGE_SELF or RUSAGE_CHILDREN.
    """

    def __init__(self, who: int = resource.RUSAGE_SELF) -> None:
        self._who = who
        self._wall, self._cpu = time.perf_counter(), self._used()

    def _used(self) -> float:
        usage = resource.getrusage(self._who)
        return usage.ru_utime + usage.ru_stime

    def figures(self, requests: int, errors: int = 0) -> dict[str, Any]:
        """Return what a sample of the results has."""
        wall, cpu = time.perf_counter() - self._wall, self._used() - self._cpu
        return {"requests": requests, "wall": wall, "cpu": cpu, "errors": errors}


# --- files ---


def download(url: str, folder: str) -> dict[str, Any]:
    import curlhttp

    path = Path(folder, "curlhttp")
    path.unlink(missing_ok=True)
    with curlhttp.Client() as client:
        clock = Clock()
        client.download(url, path)
        return clock.figures(_MEBIBYTES)


def upload(url: str, path: str) -> dict[str, Any]:
    import curlhttp

    with curlhttp.Client() as client, Path(path).open("rb") as file:
        clock = Clock()
        client.put(url, content=file).raise_for_status()
        return clock.figures(_MEBIBYTES)


def curl(arguments: list[str]) -> dict[str, Any]:
    """Run the curl command; its wall time is its own, without the start of the process."""
    clock = Clock(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--fail", "-w", "\n%{time_total}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return {**clock.figures(_MEBIBYTES), "wall": float(done.stdout.rpartition("\n")[2])}


# --- WebSocket messages ---


async def _exchange(
    send: Callable[[bytes], Awaitable[object]],
    receive: Callable[[], Awaitable[object]],
    size: int,
    count: int,
    window: int,
) -> dict[str, Any]:
    message = bytes(size)
    for _ in range(_WARM):
        await send(message)
        await receive()
    clock = Clock()
    for _ in range(count // window):
        for _ in range(window):
            await send(message)
        for _ in range(window):
            await receive()
    return clock.figures(count)


def curlhttp_messages(url: str, **messages: int) -> dict[str, Any]:
    import curlhttp

    async def run() -> dict[str, Any]:
        async with (
            curlhttp.AsyncClient() as client,
            client.websocket(url, compression=None, max_size=None) as ws,
        ):
            return await _exchange(ws.send, ws.recv, **messages)

    return _run_loop(run())


def aiohttp_messages(url: str, **messages: int) -> dict[str, Any]:
    import aiohttp

    async def run() -> dict[str, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, max_msg_size=0) as ws,
        ):
            return await _exchange(ws.send_bytes, ws.receive_bytes, **messages)

    return _run_loop(run())


def _run_loop(main: Any) -> dict[str, Any]:
    import uvloop

    found: dict[str, Any] = uvloop.run(main)
    return found


# --- rows of a partition ---


def partition(
    url: str, count: int, folder: str, format: Literal["parquet", "jsonl"]
) -> dict[str, Any]:
    _fetch_partition(url, _WARM, folder, format)
    return _fetch_partition(url, count, folder, format)


def _fetch_partition(
    url: str, count: int, folder: str, format: Literal["parquet", "jsonl"]
) -> dict[str, Any]:
    from curlhttp.distributed.partition import Partition, TextLines
    from curlhttp.distributed.worker import WorkerConfig, run_partition

    urls = Path(folder, "urls")
    urls.write_text("".join(f"{url}?{number}\n" for number in range(count)))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        config = WorkerConfig(
            out=out,
            format=format,
            concurrency=_CONCURRENCY,
            inline=65_536,
            bodies=True,
            settings=pickle.dumps({}),
        )
        lines = TextLines(str(urls), 0, urls.stat().st_size, 0)
        clock = Clock()
        result = run_partition(config, Partition(0, lines, "x"))
        return clock.figures(count, count - result.statuses.get("200", 0))


def map_urls(url: str, count: int, folder: str) -> dict[str, Any]:
    _map_urls(url, _WARM)
    return _map_urls(url, count)


def _map_urls(url: str, count: int) -> dict[str, Any]:
    import curlhttp

    urls = [f"{url}?{number}" for number in range(count)]
    errors = 0
    clock = Clock()
    with curlhttp.Client(max_connections=_CONCURRENCY) as client:
        for response in client.map(urls, concurrency=_CONCURRENCY):
            errors += isinstance(response, Exception) or response.status_code != 200
    return clock.figures(count, errors)


# --- servers ---


def sink() -> None:
    """Read the body of each request to its end, without keeping it, and reply with 200."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
        buffer = bytearray(1 << 20)
        while True:
            connection = listener.accept()[0]
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65_536)
                head, _, body = head.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                left = int(length[1]) - len(body) if length else 0
                while left > 0:
                    left -= connection.recv_into(buffer)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )


def echo() -> None:
    """Send each WebSocket message back."""
    import uvloop
    from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

    class Echo(WSListener):  # type: ignore[misc]
        def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
            if frame.msg_type == WSMsgType.CLOSE:
                transport.send_close(frame.get_close_code())
                transport.disconnect()
            else:
                transport.send(frame.msg_type, frame.get_payload_as_bytes())

    async def main() -> None:
        server = await ws_create_server(lambda _: Echo(), "127.0.0.1", 0, enable_auto_ping=False)
        print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()

    uvloop.run(main())


_RUNS: dict[str, Callable[..., dict[str, Any] | None]] = {
    run.__name__: run
    for run in (
        *(download, upload, curl, curlhttp_messages, aiohttp_messages, partition, map_urls),
        *(sink, echo),
    )
}


def main() -> None:
    order = json.loads(sys.argv[1])
    core = order.pop("core")
    if core is not None:
        os.sched_setaffinity(0, {core})
    found = _RUNS[order.pop("run")](**order)
    if found is not None:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
