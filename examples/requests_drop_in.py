"""A program written for requests, running on curlhttp: run it, and read it from the bottom up.

It starts its own server on loopback, so it needs no network. It imports requests, but requests does
not have to be installed.
"""

from __future__ import annotations

import curlhttp

curlhttp.alias_requests()  # at the top of the main module, before anything imports requests

import io  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # noqa: E402
from typing import Any  # noqa: E402

import requests  # noqa: E402
from requests.adapters import HTTPAdapter  # noqa: E402
from requests.packages.urllib3.util.retry import Retry  # noqa: E402

MEBIBYTE = 1024 * 1024


# --- what works as before ---


def the_module() -> None:
    show("import", f"requests is {requests.__name__}")


def hook(url: str) -> None:
    def note(response: requests.Response, *args: Any, **kwargs: Any) -> None:
        show("hook", f"{response.request.method} {response.request.path_url} {response!r}")

    with requests.Session() as session:
        session.auth = ("me", "secret")
        session.hooks["response"].append(note)
        session.get(f"{url}/hello", params={"page": 1})


def upload(url: str) -> None:
    report = io.BytesIO(bytes(MEBIBYTE))
    files = {"report": ("report.csv", report, "text/csv")}
    response = requests.post(f"{url}/upload", data={"year": 2026}, files=files, timeout=(3, 30))
    show("upload", str(response.json()))


def retries(url: str) -> None:
    with requests.Session() as session:
        retry = Retry(total=3, status_forcelist=[503])
        session.mount("http://", HTTPAdapter(max_retries=retry))
        response = session.get(f"{url}/unsteady")
    before = [attempt.status for attempt in response.raw.retries.history]
    show("retries", f"{response.status_code} after {before}")


def streaming(url: str) -> None:
    with (
        tempfile.TemporaryFile() as file,
        requests.get(f"{url}/big", stream=True, timeout=5) as response,
    ):
        for piece in response.iter_content(64 * 1024):
            file.write(piece)
        show("streaming", f"{file.tell() // MEBIBYTE} MiB in a file")


# --- what differs ---


def timeout(url: str) -> None:
    # Default: 10 s to connect, 60 s without data. requests would wait forever.
    with curlhttp.Session(timeout=0.3) as session:  # your own default for this session
        try:
            session.get(f"{url}/stalled")
        except curlhttp.ReadTimeout as error:  # the same class as requests.ReadTimeout
            show("timeout", f"{type(error).__name__}, request_sent={error.request_sent}")


def show(what: str, result: str) -> None:
    print(f"{what:<10} {result}")


# --- the server ---


class Server(ThreadingHTTPServer):
    daemon_threads = True  # do not wait for them, because requests.get() keeps its connection open

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stopping = threading.Event()
        self.refusals = 2


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"  # so that connections are kept alive
    disable_nagle_algorithm = True
    wbufsize = -1  # send head and body in one packet

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/big":
            self.answer(200, bytes(8 * MEBIBYTE))
        elif path == "/stalled":
            self.server.stopping.wait()
            self.close_connection = True
        elif path == "/unsteady" and self.server.refusals:
            self.server.refusals -= 1
            self.answer(503, b"")
        else:
            self.answer(200, b"hello")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content_type = self.headers["Content-Type"].partition(";")[0]
        found = {"type": content_type, "named": b'filename="report.csv"' in body}
        self.answer(200, json.dumps(found).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[str]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    the_module()
    with running_server() as url:
        hook(url)
        upload(url)
        retries(url)
        streaming(url)
        timeout(url)


if __name__ == "__main__":
    main()
