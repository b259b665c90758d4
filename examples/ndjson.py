"""Read and write lines of JSON (NDJSON, JSON Lines) as streams: run it.

Both sides have only a few lines in memory. The server is on loopback, in this program.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import curlhttp

# --- what this example shows ---


def rows(client: curlhttp.Client, url: str) -> Iterator[dict[str, Any]]:
    """Yield each line of a response as soon as it arrives."""
    with client.stream("GET", url) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line:  # some servers send empty lines to keep a connection alive
                yield json.loads(line)


async def arows(client: curlhttp.AsyncClient, url: str) -> AsyncIterator[dict[str, Any]]:
    """Do the same in async code."""
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line:
                yield json.loads(line)


def lines(count: int) -> Iterator[bytes]:
    """Yield a body with this number of lines, one after the other."""
    for number in range(count):
        yield json.dumps({"n": number}).encode() + b"\n"


async def watch(url: str) -> None:
    async with curlhttp.AsyncClient(base_url=url) as client:
        print("async    ", sum([row["n"] async for row in arows(client, "/rows?count=1000")]))


def main(url: str) -> None:
    with curlhttp.Client(base_url=url) as client:
        print("blocking ", sum(row["n"] for row in rows(client, "/rows?count=1000")))
        for row in rows(client, "/rows?count=100000000"):  # leaving the loop ends the stream
            if row["n"] == 5:
                print("early end", row)
                break
        headers = {"Content-Type": "application/x-ndjson"}
        response = client.post("/rows", content=lines(1000), headers=headers)
        print("upload   ", response.json())
    asyncio.run(watch(url))


# --- the server ---


class Rows(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for line in lines(int(self.path.partition("=")[2])):
                self.wfile.write(line)
        except OSError:  # the client has disconnected
            self.close_connection = True

    def do_POST(self) -> None:
        body = b""
        while size := int(self.rfile.readline(), 16):  # read the chunks of a body without a length
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        answer = json.dumps({"lines": body.count(b"\n")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with ThreadingHTTPServer(("127.0.0.1", 0), Rows) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
