"""Store responses, revalidate them, and use them without the server: run it.

It starts its own server on loopback, so it needs no network.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import curlhttp

# --- what this example shows ---


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with tempfile.TemporaryDirectory() as folder, curlhttp.Cache(Path(folder, "http.db")) as cache:
        with running_server() as url, curlhttp.Client(cache=cache) as client:
            show("first", client.get(url))
            show("again", client.get(url))
            show("confirmed", client.get(url, headers={"Cache-Control": "no-cache"}))
            with client.stream("GET", url) as stream:
                print(f"streamed   {stream.read().decode()}, from the cache: {stream.from_cache}")
            client.post(url)
            show("changed", client.get(url))
        # The server is stopped.
        with curlhttp.Client(cache=cache) as client:
            show("without", client.get(url))
            asked = {"Cache-Control": "no-cache, stale-if-error=60"}
            show("in need", client.get(url, headers=asked))


def show(when: str, response: curlhttp.Response) -> None:
    print(f"{when:<10} {response.text}: {response.cache_status}")


# --- the server ---


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    version = 1

    def do_GET(self) -> None:
        tag = f'"{Handler.version}"'
        known = self.headers.get("If-None-Match") == tag
        body = b"" if known else f"version {Handler.version}".encode()
        self.send_response(304 if known else 200)
        self.send_header("Cache-Control", "max-age=60")
        self.send_header("ETag", tag)
        if not known:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        Handler.version += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    main()
