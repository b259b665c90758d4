"""Authenticate with OAuth 2.0: one token for many requests, and a new one if it is refused.

The servers are on loopback, in this program:

    python examples/signing_in.py
"""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp


class Service(BaseHTTPRequestHandler):
    """A token server at /token, and a page at /hello that requires the latest token."""

    protocol_version = "HTTP/1.1"
    tokens = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Service.tokens += 1
        answer = {"access_token": f"t{Service.tokens}", "token_type": "Bearer", "expires_in": 3600}
        self.reply(200, json.dumps(answer).encode())

    def do_GET(self) -> None:
        good = self.headers["Authorization"] == f"Bearer t{Service.tokens}"
        self.reply(200 if good else 401, b"hello" if good else b"")

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def main(url: str) -> None:
    auth = curlhttp.OAuth2ClientCredentials(f"{url}/token", "my-service", "secret", scope="read")
    async with curlhttp.AsyncClient(base_url=url, auth=auth) as client:
        answers = await asyncio.gather(*(client.get("/hello") for _ in range(20)))
        good = sum(answer.ok for answer in answers)
        print(f"20 at once     {good} answers, {Service.tokens} token")
        Service.tokens += 1  # the server revokes the token
        answer = await client.get("/hello")
        print(f"a 401 between  {answer.status_code} after {answer.history}")
    with curlhttp.Client(base_url=url, auth=auth) as client:
        print(f"blocking       {client.get('/hello').status_code}, with the same token")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        asyncio.run(main(f"http://127.0.0.1:{server.server_address[1]}"))
    finally:
        server.shutdown()
        server.server_close()
