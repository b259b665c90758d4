"""Upload a file with a form, and show the progress: run it.

The server is on loopback, in this program. In your own terminal programs, `curlhttp.progress.bar`
(extra cli) draws a bar instead.
"""

from __future__ import annotations

import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import curlhttp

MEBIBYTE = 1 << 20

# --- what this example shows ---


def show(done: int, total: int | None) -> None:
    """Print the progress; called at the start, at the end, and from time to time in between."""
    if total and (done == 0 or done == total):
        print(f"progress  {100 * done // total} %")


def main(url: str, video: Path) -> None:
    with curlhttp.Client(base_url=url) as client:
        with video.open("rb") as file:  # read in chunks, so it may exceed the memory
            response = client.post(
                "/videos",
                data={"title": "A walk"},
                files={"video": (video.name, file, "video/mp4")},
                progress=show,
            )
        print("answer   ", response.status_code, response.text)

        with video.open("rb") as file:  # only the file, without a form
            response = client.put("/videos/7", content=file, progress=show)
        print("answer   ", response.status_code, response.text)


# --- the server ---


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, MEBIBYTE)))
        kind = self.headers.get("Content-Type", "no type").partition(";")[0]
        body = f"{int(self.headers['Content-Length']) // MEBIBYTE} MiB, {kind}".encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadingHTTPServer(("127.0.0.1", 0), Store) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = Path(folder) / "walk.mp4"
        path.write_bytes(bytes(8 * MEBIBYTE))
        main(f"http://127.0.0.1:{server.server_port}", path)
        server.shutdown()
