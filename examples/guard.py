"""Fetch URLs that strangers provide, but never from your own network: run it.

It starts its own server on this machine, which must not be reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp

# --- what this example shows ---


def preview(client: curlhttp.Client, url: str) -> str:
    """Return the content of a stranger's URL, or the reason why it was not fetched."""
    try:
        return client.get(url, timeout=5).text
    except curlhttp.BlockedAddress as refusal:
        return f"refused: {refusal.address} is {refusal.reason}"


def show(port: int) -> None:
    """Try some of the ways to write the address of this machine."""
    with curlhttp.Client(guard=curlhttp.PublicOnly(), trust_env=False) as client:
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
            print(f"{host:20} {preview(client, f'http://{host}:{port}/')}")
    # Your own service is allowed by its name, as an exception.
    guard = curlhttp.PublicOnly(allow=["localhost"])
    with curlhttp.Client(guard=guard, trust_env=False) as client:
        print(f"{'localhost, allowed':20} {preview(client, f'http://localhost:{port}/')}")
        # The service redirects to itself, with a name that is not allowed.
        moved = preview(client, f"http://localhost:{port}/moved")
        print(f"{'and where it leads':20} {moved}")


# --- the server ---


class Secret(BaseHTTPRequestHandler):
    """Return a secret, or redirect to it."""

    def do_GET(self) -> None:
        """Send a response."""
        body = b"the secret"
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/")  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Run the example."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Secret)) as port:
        show(port)


if __name__ == "__main__":
    main()
