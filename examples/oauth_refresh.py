"""Authenticate as a user with OAuth 2.0, with a rotating refresh token in a file: run it.

The servers are on loopback, in this program. examples/signing_in.py shows a program with
its own credentials.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import curlhttp

# --- what this example shows ---


class TokenFile:
    """Keep the refresh token in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> str:
        return self.path.read_text()

    def save(self, token: str) -> None:
        """Replace the file atomically: after a crash it has either the old token or the new one."""
        part = self.path.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(token)
        part.replace(self.path)


def main(url: str, file: TokenFile) -> None:
    for run in ("first run ", "second run"):  # as if the program were started twice
        auth = curlhttp.OAuth2RefreshToken(
            f"{url}/token", file.load(), "my-app", save=file.save, scope="mail"
        )
        with curlhttp.Client(base_url=url, auth=auth) as client:
            print(run, client.get("/mail").text, client.get("/mail").text)
            Service.expire()  # the server revokes the token early
            print(run, client.get("/mail").text, "with a new token; the file has", file.load())


# --- the servers: tokens at /token, mail at /mail ---


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    access = ""
    refresh = "r0"
    count = 0

    @classmethod
    def expire(cls) -> None:
        cls.access = ""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if form.get("refresh_token") != [Service.refresh]:
            return self.reply(400, {"error": "invalid_grant"})
        Service.count += 1
        Service.access, Service.refresh = f"a{Service.count}", f"r{Service.count}"
        return self.reply(
            200,
            {
                "access_token": Service.access,
                "refresh_token": Service.refresh,
                "token_type": "Bearer",
                "expires_in": 3600,
            },
        )

    def do_GET(self) -> None:
        good = Service.access and self.headers["Authorization"] == f"Bearer {Service.access}"
        self.reply(200 if good else 401, "welcome" if good else "")

    def reply(self, status: int, value: object) -> None:
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadingHTTPServer(("127.0.0.1", 0), Service) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tokens = TokenFile(Path(folder) / "refresh-token")
        tokens.save("r0")  # the result of the user's first login in a browser
        main(f"http://127.0.0.1:{server.server_port}", tokens)
        server.shutdown()
