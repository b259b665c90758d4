"""Cope with a failing server without overloading it: run it, and read it from the bottom up.

It starts its own flaky server on loopback, so it needs no network. Each chapter is written once and
run twice, with the blocking client and with the async one. Both must print the same.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import curlhttp

REQUESTS = 100  # in each row of the table

# --- the chapters: each gets a client factory, the server, and a print function ---

Make = Callable[..., Any]
Say = Callable[[str], None]


async def retries_with_jitter(make: Make, server: Server, say: Say) -> None:
    policy = curlhttp.RetryPolicy(
        max_retries=3,
        backoff_strategy=curlhttp.DecorrelatedJitterBackoff(base=0.01, max_backoff=0.1),
        random=random.Random(42),  # makes the output the same every time; leave it out otherwise
    )
    server.answers = [503, 503]
    async with make(base_url=server.url, retry=policy) as client:
        response = await client.get("/")
    for attempt in response.attempts:
        wait = "" if attempt.delay is None else f", the next one in {attempt.delay * 1000:.0f} ms"
        say(f"attempt {attempt.number}: {attempt.status_code}{wait}")


async def breaker(make: Make, server: Server, say: Say) -> None:
    circuits = curlhttp.CircuitBreaker(failure_threshold=3, recovery_timeout=0.3)

    def hear(change: curlhttp.types.Transition) -> None:
        say(f"  {change.old} -> {change.new}")

    server.is_down = True
    hooks = {"breaker_transition": hear}
    async with make(base_url=server.url, breaker=circuits, hooks=hooks) as client:
        for _ in range(3):
            say(f"answer: {(await client.get('/')).status_code}")
        seen = server.seen
        try:
            await client.get("/")
        except curlhttp.CircuitBreakerOpen as error:
            again = math.ceil(error.retry_after * 10) / 10
            say(f"{type(error).__name__}: come back in {again} s; {server.seen - seen} were sent")
            server.is_down = False
            await asyncio.sleep(error.retry_after)
        say(f"answer: {(await client.get('/')).status_code}")


async def hedge(make: Make, server: Server, say: Say) -> None:
    server.stalls = 1  # hold the first request until its client disconnects
    seen = server.seen
    async with make(base_url=server.url, hedge=curlhttp.Hedge(after=0.05)) as client:
        response = await client.get("/")
    say(f"answer: {response.status_code}, of attempt {server.seen - seen}; the first was cancelled")


async def load_on_a_server_that_is_down(make: Make, server: Server, say: Say) -> None:
    backoff = curlhttp.FullJitterBackoff(base=0.0001, max_backoff=0.001)

    def retry(budget: curlhttp.RetryBudget | None) -> curlhttp.RetryPolicy:
        return curlhttp.RetryPolicy(max_retries=3, backoff_strategy=backoff, budget=budget)

    rows: dict[str, dict[str, Any]] = {
        "no retries": {},
        "3 retries, no budget": {"retry": retry(None)},
        "3 retries, a budget": {"retry": retry(curlhttp.RetryBudget(ratio=0.2, reserve=0.5))},
        "the same and a breaker": {
            "retry": retry(curlhttp.RetryBudget(ratio=0.2, reserve=0.5)),
            "breaker": curlhttp.CircuitBreaker(failure_threshold=5),
        },
    }
    server.is_down = True
    say(f"{'':<24}{'requests':>8}{'attempts':>10}{'load':>8}")
    for name, settings in rows.items():
        attempts = await attempts_seen(make, server, settings)
        say(f"{name:<24}{REQUESTS:>8}{attempts:>10}{attempts / REQUESTS:>7.2f}x")
    server.is_down = False


async def attempts_seen(make: Make, server: Server, settings: dict[str, Any]) -> int:
    """Send many requests, and return how many attempts the server saw."""
    before = server.seen
    async with make(base_url=server.url, **settings) as client:
        for _ in range(REQUESTS):
            with suppress(curlhttp.CircuitBreakerOpen):
                await client.get("/")
    return server.seen - before


CHAPTERS = (retries_with_jitter, breaker, hedge, load_on_a_server_that_is_down)


# --- run the chapters with both clients ---


class BlockingClient:
    """A Client with the interface of AsyncClient, so that no chapter has to be written twice."""

    def __init__(self, **settings: Any) -> None:
        self.client = curlhttp.Client(**settings)

    async def get(self, url: str) -> curlhttp.Response:
        return self.client.get(url)

    async def __aenter__(self) -> BlockingClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.client.close()


async def story(make: Make) -> list[str]:
    lines: list[str] = []
    with running_server() as server:
        for chapter in CHAPTERS:
            lines.append(f"--- {chapter.__name__.replace('_', ' ')}")
            await chapter(make, server, lines.append)
    return lines


# --- the server ---


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False  # so that server_close() waits for them
    is_down = False
    stalls = 0  # requests that get no response
    seen = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int] = []
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"  # so that connections are kept alive
    disable_nagle_algorithm = True
    wbufsize = -1  # send head and body in one packet

    def do_GET(self) -> None:
        server = self.server
        server.seen += 1
        if server.stalls:
            server.stalls -= 1
            self.rfile.read(1)  # wait until the client closes the connection
            self.close_connection = True
            return
        status = server.answers.pop(0) if server.answers else 503 if server.is_down else 200
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    blocking = asyncio.run(story(BlockingClient))
    concurrent = asyncio.run(story(curlhttp.AsyncClient))
    print(*blocking, sep="\n")
    print("--- and now the async client")
    print("the same, word for word" if concurrent == blocking else "\n".join(concurrent))


if __name__ == "__main__":
    main()
