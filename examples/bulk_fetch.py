"""Thousands of requests in a few lines, with both clients and from a shell.

Run it, and read it from the bottom up. It starts its own server on loopback, so it needs no
network. Some pages are missing and one is truncated: the result of a failed request is its error,
and the other requests continue.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import curlhttp

PAGES = 2000

# --- what this example shows ---


def urls(base: str) -> Iterator[str]:
    """Yield the URLs one by one: a map takes a URL when it has room, so there may be millions."""
    for number in range(1, PAGES + 1):
        yield f"{base}/page/{number}"


def outcome_of(result: curlhttp.Response | curlhttp.RequestException) -> str:
    if isinstance(result, curlhttp.RequestException):
        return type(result).__name__
    return str(result.status_code)


def plain_code(base: str) -> None:
    with curlhttp.Client() as client:
        counts = Counter(outcome_of(result) for result in client.map(urls(base), concurrency=16))
    show("plain code", counts)


async def async_code(base: str) -> None:
    counts: Counter[str] = Counter()
    async with curlhttp.AsyncClient() as client:
        async for result in client.map(urls(base), concurrency=16):
            counts[outcome_of(result)] += 1
    show("async code", counts)


def in_order(base: str) -> None:
    with curlhttp.Client() as client, client.map(urls(base), ordered=True) as results:
        first = [outcome_of(result) for _, result in zip(range(8), results, strict=False)]
    print(f"in order    {' '.join(first)}, and the rest is not fetched")


def shell(base: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "urls.txt")
        file.write_text("\n".join(urls(base)))
        command = [sys.executable, "-m", "curlhttp", "fetch", file.name, "-o", "pages.db"]
        for more in ([], ["--resume"]):
            done = subprocess.run([*command, *more], cwd=folder, stderr=subprocess.PIPE, text=True)
            said = dict(line.split(maxsplit=1) for line in done.stderr.splitlines())
            again = said.get("skipped", "none recorded before")
            print(f"the shell   {said['fetched'].split()[0]} fetched, {again}")


def show(name: str, counts: Counter[str]) -> None:
    print(f"{name}  {', '.join(f'{count} x {what}' for what, count in sorted(counts.items()))}")


def main() -> None:
    with server() as base:
        plain_code(base)
        asyncio.run(async_code(base))
        in_order(base)
        if find_spec("click") and find_spec("rich"):
            shell(base)
        else:
            print("the shell   needs: pip install 'curlhttp[cli]'")


# --- the server ---


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # send head and body in one packet

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2])
        self.send_response(404 if number % 5 == 0 else 200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"cut"[:2] if number == 7 else b"page")
        self.close_connection = number == 7

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Log nothing, because a client that has seen enough disconnects."""


@contextmanager
def server() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Pages) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()


if __name__ == "__main__":
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]  # the server is on this machine
    main()
