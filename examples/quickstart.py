"""The first five minutes with curlhttp: run it, and read it from the bottom up.

It starts its own server on loopback, so it needs no network.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp

MEBIBYTE = 1024 * 1024


# --- what this example shows ---


def blocking_get(url: str) -> None:
    with curlhttp.Client(base_url=url) as client:
        response = client.get("/hello")
    show("blocking get", f"{response.status_code} {response.json()}")


async def thousand_gets(server: Server, url: str) -> None:
    before = server.connections
    begun = time.perf_counter()
    async with curlhttp.AsyncClient(base_url=url, max_connections=20) as client:
        responses = await asyncio.gather(*(client.get("/hello") for _ in range(1000)))
    seconds = time.perf_counter() - begun
    answers = sum(response.ok for response in responses)
    used = server.connections - before
    show("async gets", f"{answers} answers over {used} connections in {seconds:.2f} s")


def streaming(url: str) -> None:
    size = pieces = 0
    with (
        curlhttp.Client(base_url=url) as client,
        client.stream("GET", "/big") as response,
    ):
        for piece in response.iter_bytes(64 * 1024):
            size += len(piece)
            pieces += 1
    show("streaming", f"{size // MEBIBYTE} MiB in {pieces} pieces, never all in memory")


def timeout(url: str) -> None:
    with curlhttp.Client(base_url=url) as client:
        try:
            client.get("/stalled", timeout=0.3)
        except curlhttp.ReadTimeout as error:
            show("timeout", f"{type(error).__name__}: {error}")


def error_status(url: str) -> None:
    with curlhttp.Client(base_url=url) as client:
        try:
            client.get("/missing").raise_for_status()
        except curlhttp.HTTPError as error:
            show("error status", f"{type(error).__name__}: {error}")


def refused_connection() -> None:
    try:
        with curlhttp.Client() as client:
            client.get(f"http://127.0.0.1:{unused_port()}/")
    except curlhttp.ConnectionError as error:
        show("no server", f"{type(error).__name__}: {error}")
        show("", f"request_sent={error.request_sent}, so it is safe to send again")


def show(what: str, result: str) -> None:
    print(f"{what:<13} {result}")


# --- the server ---


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False  # so that server_close() waits for them
    connections = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stopping = threading.Event()

    def process_request(self, request: object, client_address: object) -> None:
        self.connections += 1
        super().process_request(request, client_address)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"  # so that connections are kept alive
    disable_nagle_algorithm = True
    wbufsize = -1  # send head and body in one packet

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/hello":
            self.answer(200, b'{"hello": "world"}', "application/json")
        elif path == "/big":
            self.answer(200, bytes(8 * MEBIBYTE), "application/octet-stream")
        elif path == "/stalled":
            self.server.stopping.wait()
            self.close_connection = True
        else:
            self.answer(404, b"there is no such page", "text/plain")

    def answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


def unused_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with running_server() as server:
        url = f"http://127.0.0.1:{server.server_port}"
        blocking_get(url)
        asyncio.run(thousand_gets(server, url))
        streaming(url)
        timeout(url)
        error_status(url)
    refused_connection()


if __name__ == "__main__":
    main()
