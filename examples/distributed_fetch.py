"""Fetch a list of URLs in several processes, kill one of them, and continue: run it.

It starts its own server on loopback, so it needs no network.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from curlhttp import distributed

# --- what this example shows ---


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with tempfile.TemporaryDirectory() as folder, running_server() as (url, asked):
        urls = [f"{url}/item/{number}" for number in range(400)]
        out = Path(folder, "items")
        threading.Thread(target=kill_a_worker, args=(asked,)).start()
        settings: dict[str, Any] = {"format": "jsonl", "processes": 2, "partition": 50}
        summary = distributed.fetch(urls, out, **settings, per_host=8, progress=False)
        rows = Counter(
            json.loads(line)["row"]
            for part in (out / "parts").iterdir()
            for line in part.read_text().splitlines()
        )
        print(f"rows       {summary.rows}, each once: {rows == Counter(range(400))}")
        print(f"statuses   {dict(summary.statuses)}")
        before = asked.total
        again = distributed.fetch(urls, out, **settings, per_host=8, progress=False)
        print(f"again      {again.rows} rows, {asked.total - before} requests")


def kill_a_worker(asked: Asked) -> None:
    asked.some.wait()
    worker = multiprocessing.active_children()[0]
    if worker.pid is not None:
        os.kill(worker.pid, signal.SIGKILL)


# --- the server ---


class Asked:
    """Count requests."""

    def __init__(self) -> None:
        self.total = 0
        self.some = threading.Event()

    def note(self) -> None:
        self.total += 1
        if self.total >= 100:
            self.some.set()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        """Log nothing about the connections that the killed worker leaves behind."""


@contextmanager
def running_server() -> Iterator[tuple[str, Asked]]:
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.note()
            body = self.path.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
