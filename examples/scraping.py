"""Fetch many pages from several hosts without overloading any of them: run it.

Each host gets at most two concurrent requests and twenty per second. Requests are retried, and
hosts that are down get no more requests. The hosts are on loopback, in this program.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import curlhttp

# --- what this example shows ---


def main(hosts: list[str]) -> None:
    urls = [f"{host}/page/{number}" for number in range(20) for host in hosts]
    seen: Counter[str] = Counter()
    with curlhttp.Client(
        headers={"User-Agent": "my-robot/1.0 (+https://example.org/robot)"},
        concurrency_limit=curlhttp.ConcurrencyLimit(2),  # concurrent requests to each host
        rate_limit=curlhttp.RateLimit(20, burst=5),  # per second, to each host
        retry=2,
        breaker=curlhttp.CircuitBreaker(failure_threshold=5),
        max_response_size=1 << 20,
        timeout=curlhttp.Timeout(read=10, total=60),
    ) as client:
        begun = time.monotonic()
        for result in client.map(urls, concurrency=50):
            if isinstance(result, curlhttp.CircuitBreakerOpen):
                seen["left out: the host is down"] += 1
            elif isinstance(result, curlhttp.RequestException):
                seen[type(result).__name__] += 1
            else:
                seen[f"status {result.status_code}"] += 1
        seconds = time.monotonic() - begun
    print("results      ", dict(sorted(seen.items())))
    print("at once      ", "kept" if max(Host.most.values()) <= 2 else "too many")
    print("rate         ", "kept" if seconds > (20 - 5) / 20 else "too fast")


# --- the hosts ---


class Host(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    now: Counter[int] = Counter()
    most: Counter[int] = Counter()

    def do_GET(self) -> None:
        port = self.server.server_port  # type: ignore[attr-defined]
        with Host.lock:
            Host.now[port] += 1
            Host.most[port] = max(Host.most[port], Host.now[port])
        time.sleep(0.02)  # the time that a page takes
        body = f"<title>{self.path}</title>".encode()
        with Host.lock:
            Host.now[port] -= 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with ExitStack() as stack:
        servers = [
            stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Host)) for _ in range(3)
        ]
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        main([f"http://127.0.0.1:{server.server_port}" for server in servers])
        for server in servers:
            server.shutdown()
