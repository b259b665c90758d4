"""Record requests to a server, and replay them without the server: run it.

It starts its own server on loopback, so it needs no network.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import curlhttp

# --- what this example shows ---


def log_in_and_ask(record: curlhttp.Record, url: str) -> str:
    """Do what a program does: log in, then send a request with the token."""
    with curlhttp.Client(transport=record) as client:
        login = client.post(f"{url}/login", json={"user": "ada", "password": "lovelace"})
        token = login.json()["access_token"]
        return client.get(f"{url}/name", auth=curlhttp.BearerAuth(token)).text


def phases(path: Path) -> None:
    for entry in json.loads(path.read_text())["log"]["entries"]:
        request, spent = entry["request"], entry["timings"]
        kind = "reused" if spent["connect"] == -1 else "opened"
        print(f"har        {request['method']} {request['url'].rpartition('/')[2]}: {kind}")


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with tempfile.TemporaryDirectory() as folder:
        cassette, har = Path(folder, "login.har"), Path(folder, "all.har")
        with running_server() as url:
            print(f"recorded   {log_in_and_ask(curlhttp.Record(cassette), url)}")
            with curlhttp.Client() as client, client.har(har):
                client.post(f"{url}/login")
                client.get(f"{url}/name")
        # The server is stopped.
        print(f"played     {log_in_and_ask(curlhttp.Record(cassette, 'none'), url)}")
        text = cassette.read_text()
        print(f"secrets    {'lovelace' in text or 't0ken' in text}")
        phases(har)
        with curlhttp.Client(transport=curlhttp.Record(cassette, "none")) as client:
            try:
                client.get(f"{url}/names")
            except AssertionError as error:
                print(f"unmatched  {str(error).splitlines()[1].partition(',')[0]}")


# --- the server ---


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b'{"access_token": "t0ken", "expires_in": 3600}', "application/json")

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == "Bearer t0ken"
        self.answer(b"Ada Lovelace" if known else b"nobody", "text/plain")

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
