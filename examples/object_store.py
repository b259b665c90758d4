"""Keys that are not paths, live streams, and streams as files: run it.

The object store is on loopback, in this program. Its keys are text: "a/./b" and "a/b" are two
objects.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import curlhttp

# --- what this example shows ---


def store(client: curlhttp.Client) -> None:
    """Store objects; the base URL is raw, so each key is sent as it is."""
    for key in ("team/../admin", "a/./b", "a/b", "50%"):
        client.put(quote(key), content=key.encode())
    print("keys     ", client.get("").json())
    print("canonical", curlhttp.URL("https://store.example.org/team/../admin"))
    print("raw      ", curlhttp.URL("https://store.example.org/team/../admin", raw=True))


def follow(client: curlhttp.Client) -> None:
    """Print what a slow server sends as it arrives: a size is a maximum."""
    with client.stream("GET", "?ticks") as response:
        print("live     ", [chunk.decode() for chunk in response.iter_bytes(4096)])


def read(client: curlhttp.Client) -> None:
    """Pass a stream to libraries that read files."""
    with client.stream("GET", "?table") as response:
        rows = list(csv.reader(io.TextIOWrapper(response, "utf-8", newline="")))
        print("csv      ", rows)
    with (
        client.stream("GET", "?archive") as response,
        tarfile.open(fileobj=response, mode="r|*") as archive,
    ):
        print("tar      ", [member.name for member in archive])
    file = io.BytesIO()
    client.download("a/./b", file)
    print("download ", file.getvalue())


async def aread(url: curlhttp.URL) -> None:
    """Do the same in async code: read() is that of async files."""
    async with (
        curlhttp.AsyncClient(base_url=url) as client,
        client.stream("GET", "?table") as response,
    ):
        print("async    ", await response.read(4), await response.readline())


def main(address: str) -> None:
    url = curlhttp.URL(address, raw=True)
    with curlhttp.Client(base_url=url) as client:
        store(client)
        follow(client)
        read(client)
    asyncio.run(aread(url))


# --- the server ---


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"")

    def do_GET(self) -> None:
        if self.path == "/?ticks":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            for tick in (b"one", b"two", b"six"):
                self.wfile.write(tick)
                time.sleep(0.1)
        elif self.path == "/":
            self.answer(json.dumps(sorted(self.objects)).encode())
        else:
            self.answer(self.objects.get(self.path) or SAMPLES[self.path])

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def make_archive() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in ("first", "second"):
            archive.addfile(tarfile.TarInfo(name))
    return made.getvalue()


SAMPLES = {"/?table": b"id,name\n1,Ada\n", "/?archive": make_archive()}


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    Store.objects = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main(f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
