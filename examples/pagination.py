"""Read all pages of an API, by the Link header and by a cursor in the body: run it.

The server is on loopback, in this program. One page fails once, and is retried.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import curlhttp

# --- what this example shows ---


def by_link(client: curlhttp.Client, url: str) -> Iterator[dict[str, Any]]:
    """Follow `Link: <...>; rel="next"`, as in GitHub's API (RFC 8288)."""
    while url:
        response = client.get(url).raise_for_status()
        yield from response.json()
        url = response.links.get("next", {}).get("url", "")


def by_cursor(client: curlhttp.Client, url: str) -> Iterator[dict[str, Any]]:
    """Request the items after the cursor of the previous page."""
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(url, params={"after": cursor}).raise_for_status().json()
        yield from page["items"]
        cursor = page["next"]


def main(base_url: str) -> None:
    with curlhttp.Client(base_url=base_url, retry=3) as client:
        print("by link    ", [user["id"] for user in by_link(client, "/linked")])
        print("by cursor  ", [user["id"] for user in by_cursor(client, "/cursor")])
        for user in by_link(client, "/linked"):  # the other pages are not requested
            if user["id"] == 2:
                print("stop early ", user)
                break


# --- the server: seven users, three per page ---


class Users(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    failed = False

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        start = int(parse_qs(url.query).get("after", ["0"])[0])
        if start == 3 and not Users.failed:
            Users.failed = True
            return self.answer(503, b"")
        users = [{"id": number} for number in range(start + 1, min(start + 3, 7) + 1)]
        more = start + 3 if start + 3 < 7 else None
        if url.path == "/linked":
            link = f'<{url.path}?after={more}>; rel="next"' if more else ""
            return self.answer(200, json.dumps(users).encode(), link)
        cursor = None if more is None else str(more)
        return self.answer(200, json.dumps({"items": users, "next": cursor}).encode())

    def answer(self, status: int, body: bytes, link: str = "") -> None:
        self.send_response(status)
        if link:
            self.send_header("Link", link)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with ThreadingHTTPServer(("127.0.0.1", 0), Users) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
