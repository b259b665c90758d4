"""A web service that calls another one, with one AsyncClient for its whole lifetime: run it.

A small Starlette application, a server that it calls (the upstream), which fails on demand, and the
requests, all in one process. It needs starlette, but no network. With FastAPI, the lifespan is the
same.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import curlhttp

# --- the service ---


def make_app(upstream: str) -> Starlette:
    """Return the application. It creates the client when it starts, and closes it when it ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with curlhttp.AsyncClient(
            base_url=upstream,
            retry=curlhttp.RetryPolicy(
                max_retries=2, backoff_strategy=curlhttp.FullJitterBackoff(base=0.01)
            ),
            breaker=curlhttp.CircuitBreaker(failure_threshold=5, recovery_timeout=0.9),
            timeout=curlhttp.Timeout(total=0.8),  # so that our own callers do not wait forever
        ) as client:
            yield {"client": client}

    return Starlette(
        routes=[Route("/greet/{number:int}", greet)],
        lifespan=lifespan,
        exception_handlers={
            curlhttp.CircuitBreakerOpen: unavailable,
            curlhttp.TimeoutException: too_slow,
            curlhttp.RequestException: bad_gateway,
        },
    )


async def greet(request: Request) -> Response:
    client: curlhttp.AsyncClient = request.state.client
    answer = await client.get(f"/users/{request.path_params['number']}")
    user = answer.raise_for_status().json()
    return JSONResponse({"hello": user["name"], "attempts": len(answer.attempts)})


async def unavailable(request: Request, error: Exception) -> Response:
    assert isinstance(error, curlhttp.CircuitBreakerOpen)
    wait = {"Retry-After": str(math.ceil(error.retry_after))}
    return JSONResponse({"error": "the upstream is down"}, 503, headers=wait)


async def too_slow(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the upstream is too slow"}, 504)


async def bad_gateway(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the upstream failed"}, 502)


# --- requests to the service, while the upstream works and fails ---


async def story(upstream: Upstream) -> None:
    app = make_app(upstream.url)
    async with app.router.lifespan_context(app) as state:

        async def tell(what: str) -> None:
            status, headers, body = await call(app, "/greet/1", state)
            wait = headers.get("retry-after")
            print(f"{what:<18}{status} {body}" + (f", come back in {wait} s" if wait else ""))

        await tell("healthy")
        answers = await asyncio.gather(*(call(app, f"/greet/{n}", state) for n in range(1, 21)))
        print(f"{'20 at once':<18}{sum(status == 200 for status, _, _ in answers)} answers")

        upstream.failures = 2
        await tell("fails twice")
        upstream.is_slow = True
        await tell("too slow")
        upstream.is_slow = False

        upstream.failures = 5
        await tell("down")
        await tell("still down")
        seen = upstream.seen
        await tell("breaker is open")
        print(f"{'':<18}{upstream.seen - seen} requests reached the upstream")
        await asyncio.sleep(0.95)
        await tell("healthy again")


async def call(app: Any, path: str, state: Any) -> tuple[int, dict[str, str], Any]:
    """Call the application as a server would, following the ASGI specification."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await app({**scope, "asgi": {"version": "3.0"}, "state": dict(state)}, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], headers, json.loads(body)


# --- the upstream ---


class Upstream(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False  # so that server_close() waits for them
    failures = 0  # the next responses are 503
    is_slow = False
    seen = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"  # so that connections are kept alive
    disable_nagle_algorithm = True
    wbufsize = -1  # send head and body in one packet

    def do_GET(self) -> None:
        upstream = self.server
        upstream.seen += 1
        if upstream.is_slow:
            self.rfile.read(1)  # wait until the client closes the connection
            self.close_connection = True
            return
        fails = upstream.failures > 0
        upstream.failures -= fails
        body = b"" if fails else json.dumps({"name": "Ada"}).encode()
        self.send_response(503 if fails else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        thread = threading.Thread(target=upstream.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield upstream
        finally:
            upstream.shutdown()
            thread.join()


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with running_upstream() as upstream:
        asyncio.run(story(upstream))


if __name__ == "__main__":
    main()
