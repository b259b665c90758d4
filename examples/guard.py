"""Fetch URLs that strangers give, and stay out of one's own network: run it.

It starts a server of its own on this machine, which is what must not be reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp

# --- what it shows ---


def preview(client: curlhttp.Client, url: str) -> str:
    """Return what a stranger's URL has, or why it was not asked for."""
    try:
        return client.get(url, timeout=5).text
    except curlhttp.BlockedAddress as refusal:
        return f"refused: {refusal.address} is {refusal.reason}"


def show(port: int) -> None:
    """Try some of the ways in which strangers write the address of this machine."""
    with curlhttp.Client(guard=curlhttp.PublicOnly(), trust_env=False) as client:
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
            print(f"{host:20} {preview(client, f'http://{host}:{port}/')}")
    # One's own service, by name, is an exception to the rule.
    guard = curlhttp.PublicOnly(allow=["localhost"])
    with curlhttp.Client(guard=guard, trust_env=False) as client:
        print(f"{'localhost, allowed':20} {preview(client, f'http://localhost:{port}/')}")
        # It redirects to itself, under a name that is not allowed.
        moved = preview(client, f"http://localhost:{port}/moved")
        print(f"{'and where it leads':20} {moved}")


# --- the server ---


class Secret(BaseHTTPRequestHandler):
    """Tell a secret, or redirect to it."""

    def do_GET(self) -> None:
        """Answer."""
        body = b"the secret"
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/")  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    """Serve in a thread."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Run it."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Secret)) as port:
        show(port)


if __name__ == "__main__":
    main()
