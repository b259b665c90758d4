"""Four processes that share one rate limit in Redis: run it.

It starts its own redis-server and web server on loopback, so it needs no network. Without a
redis-server, each process continues with its own rate limit.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp
from curlhttp.redis import RedisStore

PROCESSES, EACH, RATE = 4, 15, 50

# --- what this example shows ---


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with redis_server() as redis, web_server() as url:
        command = [sys.executable, __file__, redis, url]
        for process in [subprocess.Popen(command) for _ in range(PROCESSES)]:
            process.wait()
    seconds = Handler.times[-1] - Handler.times[0]
    print(f"{len(Handler.times)} requests of {PROCESSES} processes in {seconds:.1f} s")
    print(f"at most {RATE} a second were to be sent: {len(Handler.times) / seconds <= RATE * 1.1}")


def one_process(redis: str, url: str) -> None:
    with RedisStore(redis, timeout=5.0) as store:
        rate = curlhttp.RateLimit(RATE, store=store)
        with curlhttp.Client(rate_limit=rate) as client:
            for _ in range(EACH):
                client.get(url)


# --- the servers ---


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    times: list[float] = []

    def do_GET(self) -> None:
        Handler.times.append(time.monotonic())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def web_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def redis_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    binary = shutil.which("redis-server")
    if binary is None:
        print("there is no redis-server: each process continues on its own")
        yield f"redis://127.0.0.1:{port}/0"
        return
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.01)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one_process(*sys.argv[1:])
    else:
        main()
