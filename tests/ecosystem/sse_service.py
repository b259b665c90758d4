"""A service for LaunchDarkly's sse-contract-tests: it reads streams of events on request.

    python -m tests.ecosystem.sse_service --client blocking|asyncio|uvloop|trio

It prints its port. Callbacks of a stream are sent by one thread, in their order.
"""

from __future__ import annotations

import argparse
import itertools
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio

import curlhttp
from tests.support.colours import BACKENDS, AnyClient

CAPABILITIES = (
    "bom",
    "headers",
    "last-event-id",
    "post",
    "read-timeout",
    "report",
    "server-directed-shutdown-request",
)


class Stream:
    """One stream of events, read in its own thread."""

    def __init__(self, colour: str, wanted: dict[str, Any]) -> None:
        self._colour = colour
        self._wanted = wanted
        self._numbers = itertools.count(1)
        self._callbacks = curlhttp.Client(timeout=10)
        self.is_closed = False
        threading.Thread(target=self._run, daemon=True).start()

    def _tell(self, kind: str, **what: Any) -> None:
        url = f"{self._wanted['callbackUrl']}/{next(self._numbers)}"
        # The one that is called may be gone with its test.
        with suppress(curlhttp.RequestException):
            self._callbacks.post(url, json={"kind": kind, **what})

    async def _send(self, request: curlhttp.ClientRequest, send: curlhttp.types.Send) -> Any:
        if self.is_closed:
            raise curlhttp.ClientClosed("the stream was closed")
        return await send(request)

    def _run(self) -> None:
        backend = BACKENDS[self._colour]
        name, options = (backend, {}) if isinstance(backend, str) else backend
        try:
            anyio.run(self._read, backend=name, backend_options=options)
        except curlhttp.RequestException as error:
            if not self.is_closed:
                self._tell("error", error=str(error))

    async def _read(self) -> None:
        hooks, middleware = {"before_sleep": self._heard}, [self._send]
        async with AnyClient(self._colour, hooks=hooks, middleware=middleware) as client:
            async with client.sse(self._wanted["streamUrl"], **self._options()) as events:
                async for event in events:
                    found = {"type": event.event, "data": event.data, "id": event.id}
                    self._tell("event", event=found)

    def _heard(self, wait: curlhttp.types.AttemptEvent) -> None:
        if wait.error is not None:
            self._tell("error", error=wait.error)

    def _options(self) -> dict[str, Any]:
        wanted = self._wanted
        delay = wanted.get("initialDelayMs") or 0
        backoff = curlhttp.ExponentialBackoff(base=delay / 1000)
        options: dict[str, Any] = {
            "method": wanted.get("method") or "GET",
            "last_event_id": wanted.get("lastEventId"),
            "headers": wanted.get("headers"),
            "content": wanted.get("body"),
            "max_event_size": 16 << 20,
            "retry": curlhttp.RetryPolicy(0, backoff_strategy=backoff, retry_non_idempotent=True),
        }
        if wanted.get("readTimeoutMs"):
            options["timeout"] = curlhttp.Timeout(read=wanted["readTimeoutMs"] / 1000)
        return options


class Handler(BaseHTTPRequestHandler):
    """The service's own interface."""

    colour = "blocking"
    streams: dict[str, Stream] = {}
    numbers = itertools.count(1)

    def do_GET(self) -> None:
        self._answer(200, {"name": "curlhttp", "capabilities": CAPABILITIES})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/":
            return self._answer(400, None)
        path = f"/streams/{next(self.numbers)}"
        self.streams[path] = Stream(self.colour, body)
        return self._answer(201, None, path)

    def do_DELETE(self) -> None:
        found = self.streams.get(self.path)
        if found is not None:
            found.is_closed = True
        self._answer(204 if found else 404, None)

    def _answer(self, status: int, body: Any, location: str = "") -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=sorted(BACKENDS), default="blocking")
    Handler.colour = parser.parse_args().client
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)  # noqa: T201  # for the program that started it
    server.serve_forever()


if __name__ == "__main__":
    main()
