"""Stay logged in from one run of a program to the next, with cookies in a file: run it.

The file has the format of curl and of browsers' exports (cookies.txt). The server is on loopback,
in this program.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import MozillaCookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import curlhttp

# --- what this example shows ---


@contextmanager
def signed_in(base_url: str, path: Path) -> Iterator[curlhttp.Client]:
    """Yield a client that starts with the cookies in a file, and saves its cookies there."""
    file = MozillaCookieJar(path)
    if path.exists():
        file.load(ignore_discard=True)
    jar = curlhttp.Cookies(file)  # a copy, because curlhttp's jar is stricter
    with curlhttp.Client(base_url=base_url, cookies=jar) as client:
        yield client
    file.clear()
    for cookie in jar:
        file.set_cookie(cookie)
    path.touch(mode=0o600)  # anyone who can read this file is logged in
    file.save(ignore_discard=True)  # also session cookies, which browsers drop at exit


def main(url: str, path: Path) -> None:
    with signed_in(url, path) as client:
        print("first run  ", client.get("/").text)
        client.post("/login", data={"user": "ada", "password": "secret"})
        print("signed in  ", client.get("/").text)
    with signed_in(url, path) as client:
        print("second run ", client.get("/").text)
    print("the file   ", path.read_text().count("session"), "cookie")


# --- the server ---


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        known = "session=s3cret" in self.headers.get("Cookie", "")
        self.reply(b"hello, Ada" if known else b"who are you?")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(b"", "session=s3cret; Path=/; HttpOnly")

    def reply(self, body: bytes, cookie: str = "") -> None:
        self.send_response(200)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadingHTTPServer(("127.0.0.1", 0), Site) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main(f"http://127.0.0.1:{server.server_port}", Path(folder) / "cookies.txt")
        server.shutdown()
