"""See what a client sends and receives, and send the same request with curl: run it.

It starts its own server on loopback, so it needs no network.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp

# --- what this example shows ---


class _Short(logging.Formatter):
    """Remove what differs in each run: ports, times and numbers of requests."""

    def format(self, record: logging.LogRecord) -> str:
        text = re.sub(r"^#\d+ (\+[\d.]+ )?", "", super().format(record))
        return f"{record.levelname:<6} {re.sub(r'127.0.0.1:[0-9]+', 'HOST', text)}"


def show(url: str) -> None:
    logger = logging.getLogger("curlhttp")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Short())
    handler.addFilter(lambda record: not re.search(r" \* |^.\d+ times", record.getMessage()))
    logger.addHandler(handler)
    with curlhttp.Client(headers={"User-Agent": "me", "Accept-Encoding": "identity"}) as client:
        logger.setLevel(logging.INFO)
        client.get(f"{url}/name?token=abc")
        logger.setLevel(logging.DEBUG)
        response = client.post(f"{url}/login", data={"user": "ada", "password": "lovelace"})
        logger.setLevel(logging.WARNING)
    print("sent  ", response.request.sent_headers["content-length"], response.request.body)
    print("curl  ", re.sub(r"127.0.0.1:[0-9]+", "HOST", response.to_curl()))


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with server() as url:
        show(url)


# --- the server ---


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response_only(200)
        self.send_header("Set-Cookie", "session=secret")
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"Ada")

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


if __name__ == "__main__":
    main()
