"""Use an SDK built on httpx2 with libcurl: run it, and read it from the bottom up.

It starts its own service on loopback, which responds word by word like a language model. The SDK is
a small version of openai or anthropic, which take an http_client in the same way. It needs httpx2:
pip install 'curlhttp[httpx2]'.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import httpx2

import curlhttp

WORDS = ["libcurl", " carries", " each", " word"]


# --- the SDK: it uses httpx2 and knows nothing about curlhttp ---


class SDK:
    def __init__(self, base_url: str, http_client: httpx2.Client) -> None:
        self._url = base_url
        self._http = http_client

    def words(self, question: str) -> Iterator[str]:
        """Ask, and yield the words of the response as they arrive; retry if the service is busy."""
        while True:
            with self._http.stream("POST", f"{self._url}/chat", json={"ask": question}) as response:
                if response.status_code == 503:
                    continue
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line.removeprefix("data: "))
                return


# --- the program ---


def ask(url: str) -> None:
    with httpx2.Client(transport=curlhttp.httpx2.Transport()) as http:
        show("streaming", "".join(SDK(url, http).words("who?")))


def tell_the_connection(url: str) -> None:
    with httpx2.Client(transport=curlhttp.httpx2.Transport()) as http:
        for _ in range(2):
            stream = http.get(url).extensions["network_stream"]
            reused = stream.get_extra_info("timings").reused
            show("connection", "kept from before" if reused else "new")


def fail() -> None:
    with httpx2.Client(transport=curlhttp.httpx2.Transport()) as http:
        try:
            http.get("http://127.0.0.1:1/")
        except httpx2.ConnectError as error:
            cause = error.__cause__
            assert isinstance(cause, curlhttp.RequestException)
            show("error", f"{type(error).__name__}, request_sent={cause.request_sent}")


async def ask_many(url: str) -> None:
    transport = curlhttp.httpx2.AsyncTransport(limits=httpx2.Limits(max_connections=10))
    answers: list[int] = []

    async def ask_one() -> None:
        answers.append((await http.get(url)).status_code)

    async with httpx2.AsyncClient(transport=transport) as http, anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(ask_one)
    show("async", f"{answers.count(200)} answers")


def main() -> None:
    with service() as url:
        ask(url)
        tell_the_connection(url)
        fail()
        anyio.run(ask_many, url)


def show(what: str, result: str) -> None:
    print(f"{what:<11} {result}")


# --- the service ---


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    is_busy = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        busy, Service.is_busy = Service.is_busy, False
        self.send_response(503 if busy else 200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for word in [] if busy else WORDS:
            event = f"data: {json.dumps(word)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.daemon_threads = True
        server.socket.listen(100)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    main()
