"""Follow server-sent events even if the connection breaks: run it, and read it from the bottom up.

It starts its own server on loopback, so it needs no network.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp

# --- what this example shows ---


def blocking(url: str) -> None:
    with curlhttp.Client() as client, client.sse(url) as events:
        for event in events:
            print(f"blocking  {event.id} {event.event}: {event.json()}")


async def many(url: str) -> None:
    async with curlhttp.AsyncClient() as client:

        async def follow(name: str) -> int:
            async with client.sse(url, headers={"X-Name": name}) as events:
                return len([event async for event in events])

        counts = await asyncio.gather(*(follow(f"follower {number}") for number in range(20)))
    print(f"asyncio   {sum(counts)} events to {len(counts)} followers at once")


# --- the server ---


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        last = int(self.headers.get("Last-Event-ID", "0"))
        if last >= 4:
            self.send_response(204)  # there are no more events: the client must not reconnect
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"retry: 20\n\n")
        for number in (last + 1, last + 2):
            self.wfile.write(b'event: tick\nid: %d\ndata: {"n": %d}\n\n' % (number, number))
        self.close_connection = True  # cut the body in the middle

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with running_server() as url:
        blocking(url)
        asyncio.run(many(url))


if __name__ == "__main__":
    main()
