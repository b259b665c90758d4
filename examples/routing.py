"""Send requests to a Unix socket, and to a host that DNS does not know: run it.

It starts its own servers, so it needs no network.
"""

from __future__ import annotations

import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import curlhttp

# --- what this example shows ---


def version_of(daemon: Path) -> str:
    """Send a request to a daemon on a Unix socket, such as Docker's."""
    with curlhttp.Client(uds=daemon) as client:
        return client.get("http://docker/version").text


def staging(port: int) -> str:
    """Send a request to one machine under the name of another, as before a migration."""
    with curlhttp.Client(trust_env=False) as client:
        url = f"http://www.example.org:{port}/"
        return client.get(url, resolve={"www.example.org": "127.0.0.1"}).text


# --- the servers ---


class Hello(BaseHTTPRequestHandler):
    """Return the host and path of the request."""

    def do_GET(self) -> None:
        """Send a response."""
        body = f"{self.headers['Host'].partition(':')[0]}{self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Run both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "docker.sock")
        with serving(socketserver.UnixStreamServer(str(path), Hello)):
            print("the daemon ", version_of(path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    with serving(server):
        print("the machine", staging(server.server_port))


if __name__ == "__main__":
    main()
