"""A server in a process of its own, pinned to a core: nginx where it is installed, else asyncio."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SIZES = {"200": 200, "1k": 1024, "10k": 10_240, "128k": 131_072, "1m": 1_048_576}
_PATH = re.compile(rb"[A-Z]+ /(\w+)")

_NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 8192; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
    types {{}} default_type application/octet-stream;
    server {{ listen 127.0.0.1:{port} backlog=4096; root {folder}/files; }}
}}
"""


@contextmanager
def serve(core: int = 0) -> Iterator[str]:
    """Give the base URL of a server that answers /200, /1k, ... with bodies of these sizes."""
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        process = subprocess.Popen(_command(Path(folder), port), preexec_fn=lambda: _pin(core))
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def pin(core: int) -> None:
    """Keep this process on one core, where the system can do that."""
    _pin(core)


def _pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def _command(folder: Path, port: int) -> list[str]:
    nginx = shutil.which("nginx")
    if nginx is None:
        return [sys.executable, "-m", "benchmarks.server", str(port)]
    files = folder / "files"
    files.mkdir()
    folder.chmod(0o755)  # the worker runs as another user
    for name, size in SIZES.items():
        (files / name).write_bytes(b"a" * size)
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, port=port))
    return [nginx, "-c", str(configuration)]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the benchmark's server did not start")


class _Static(asyncio.Protocol):
    """Answer each request head with a prepared response."""

    responses = {
        name.encode(): b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
        b"Content-Length: %d\r\n\r\n" % size + b"a" * size
        for name, size in SIZES.items()
    }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.received = b""

    def data_received(self, data: bytes) -> None:
        *heads, self.received = (self.received + data).split(b"\r\n\r\n")
        for head in heads:
            match = _PATH.match(head)
            self.transport.write(self.responses[match.group(1) if match else b"200"])


async def _main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Static, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(int(sys.argv[1])))
