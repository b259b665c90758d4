"""Trace each attempt with OpenTelemetry, and run a function around each attempt: run it.

It starts its own server on loopback, so it needs no network. It needs the extra `otel` and
opentelemetry-sdk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import curlhttp
from curlhttp.otel import CurlhttpInstrumentor

# --- what this example shows ---


async def numbered(request: curlhttp.ClientRequest, send: curlhttp.types.Send) -> curlhttp.Response:
    """Number the requests for the server; retries and hops count too."""
    Handler.asked += 1
    request.headers["X-Attempt"] = str(Handler.asked)
    return await send(request)


def shown(span: ReadableSpan) -> str:
    found = span.attributes or {}
    path = str(found["url.full"]).rpartition(":")[2].partition("/")[2]
    kind = "opened" if any(event.name == "connect" for event in span.events) else "reused"
    again = found.get("http.request.resend_count", 0)
    return f"{span.name} /{path}: {found['http.response.status_code']}, resent {again}, {kind}"


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    spans, tracers, reader = InMemorySpanExporter(), TracerProvider(), InMemoryMetricReader()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    CurlhttpInstrumentor().instrument(
        tracer_provider=tracers, meter_provider=MeterProvider([reader])
    )
    quickly = curlhttp.RetryPolicy(2, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001))
    client = curlhttp.Client(retry=quickly, attempt_middleware=[numbered])
    with running_server() as url, client:
        client.get(f"{url}/moved?token=s3cret")
    CurlhttpInstrumentor().uninstrument()
    for span in spans.get_finished_spans():
        print(f"span       {shown(span)}")
    print(f"attempts   {Handler.seen}")
    ids = [f"{each.context.span_id:016x}" for each in spans.get_finished_spans()]
    print(f"parents    {Handler.parents == ids}")


# --- the server ---


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0
    seen: list[str] = []
    parents: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers["X-Attempt"])
        self.parents.append(self.headers["traceparent"].split("-")[2])
        # The first request fails, the second one is redirected.
        self.send_response({1: 503, 2: 302}.get(len(self.seen), 200))
        self.send_header("Location", "/here")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *message: object) -> None:
        """Log nothing."""


@contextmanager
def running_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    main()
