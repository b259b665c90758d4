"""Resume downloads after a broken connection: run it, and read it from the bottom up.

It starts its own server on loopback, which cuts the connection, so it needs no network. On a
terminal, and with rich (pip install 'curlhttp[cli]'), it shows a progress bar.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import curlhttp

MEBIBYTE = 1024 * 1024
DATA = random.Random(1).randbytes(8 * MEBIBYTE)
CHECKSUM = "sha256:" + hashlib.sha256(DATA).hexdigest()


# --- what this example shows ---


def interrupted(url: str, path: Path) -> None:
    """Run two programs, one after the other: the second continues where the first had to stop."""
    try:
        with curlhttp.Client() as client:
            client.download(url, path)
    except curlhttp.RequestException as error:
        kept = path.with_name(path.name + ".part").stat().st_size
        show("first", f"{type(error).__name__} after {mebibytes(kept)}")
    with curlhttp.Client() as client, progress("second") as tell:
        response = client.download(url, path, checksum=CHECKSUM, progress=tell)
    show("second", f"{response.status_code} {response.headers['content-range']}")


async def retried(url: str, path: Path) -> None:
    """Make one call: with a retry policy, it resumes automatically."""
    async with curlhttp.AsyncClient(retry=3) as client:
        with progress("retried") as tell:
            response = await client.download(url, path, checksum=CHECKSUM, progress=tell)
    attempts = [
        attempt.status_code or type(attempt.error).__name__ for attempt in response.attempts
    ]
    show("retried", f"{attempts}")


def mismatch(url: str, path: Path) -> None:
    path.write_text("what was there before")
    try:
        with curlhttp.Client(retry=3) as client:
            client.download(url, path, checksum="sha256:" + "0" * 64)
    except curlhttp.ChecksumMismatch:
        show("checksum", f"it is another file; here is still {path.read_text()!r}")


def uploaded(url: str, path: Path) -> None:
    with curlhttp.Client() as client, path.open("rb") as file, progress("upload") as tell:
        response = client.put(url, content=file, progress=tell)
    show("upload", f"{response.status_code} {response.text}")


def show(what: str, result: str) -> None:
    print(f"{what:<10} {result}")


def mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:.0f} MiB"


# --- showing the progress ---

Tell = Callable[[int, "int | None"], object]


def progress(what: str) -> AbstractContextManager[Tell]:
    if sys.stderr.isatty():
        try:
            return curlhttp.progress.bar(what)
        except ImportError:
            pass
    return plain(what)


@contextmanager
def plain(what: str) -> Iterator[Tell]:
    """Print only the start and the end, because the steps between depend on timing."""

    def tell(done: int, total: int | None) -> None:
        told.append(f"{mebibytes(done)} of {mebibytes(total or 0)}")

    told: list[str] = []
    yield tell
    show(what, f"from {told[0]} to {told[-1]}")


# --- the server ---


class Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close() waits for them
    cuts = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the file, or the rest of it; every second response is cut off after 3 MiB."""
        wanted = self.headers["Range"]
        start = 0
        if wanted and self.headers["If-Range"] == '"v1"':
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Length", str(len(DATA) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        self.end_headers()
        self.server.cuts += 1
        if self.server.cuts % 2:
            self.wfile.write(DATA[start : start + 3 * MEBIBYTE])
            self.close_connection = True
        else:
            self.wfile.write(DATA[start:])

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = b"it is the same" if body == DATA else b"it is another"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[str]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/file"
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with running_server() as url, tempfile.TemporaryDirectory() as folder:
        interrupted(url, Path(folder, "interrupted"))
        asyncio.run(retried(url, Path(folder, "retried")))
        mismatch(url, Path(folder, "mismatch"))
        uploaded(url, Path(folder, "retried"))


if __name__ == "__main__":
    main()
