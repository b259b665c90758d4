"""The instrumentation of OpenTelemetry: wraps `Session.send`, tells of it in spans."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.servers import AppServer, refused_port


def makes_a_span_and_sends_its_name(app: AppServer) -> None:
    spans = InMemorySpanExporter()
    hooked: list[Any] = []
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    def request_hook(span: Any, request: Any) -> None:
        hooked.append((type(request).__name__, request.method, request.path_url))

    def response_hook(span: Any, request: Any, response: Any) -> None:
        hooked.append((type(response).__name__, response.status_code))

    instrumentor: Any = RequestsInstrumentor()
    instrumentor.instrument(
        tracer_provider=provider, request_hook=request_hook, response_hook=response_hook
    )
    try:
        assert requests.get(app.url + "/json?a=1", timeout=3).json()["hello"] == "world"
        assert requests.Session().get(app.url + "/status/404").status_code == 404
        with refused_port() as port:
            with pytest.raises(requests.exceptions.ConnectionError):
                requests.get(f"http://127.0.0.1:{port}/", timeout=3)
    finally:
        instrumentor.uninstrument()
    requests.get(app.url, timeout=3)

    good, missing, failed = spans.get_finished_spans()
    assert good.name == "GET"
    assert good.kind is SpanKind.CLIENT
    attributes: Any = good.attributes
    assert attributes["http.method"] == "GET"
    assert attributes["http.url"] == app.url + "/json?a=1"
    assert attributes["http.status_code"] == 200
    context: Any = good.context
    trace = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert app.requests[0].values("traceparent") == [trace]
    assert app.requests[2].header("traceparent") is None  # after uninstrument
    assert missing.status.status_code is StatusCode.ERROR
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.events[0].name == "exception"
    assert hooked[:3] == [
        ("PreparedRequest", "GET", "/json?a=1"),
        ("Response", 200),
        ("PreparedRequest", "GET", "/status/404"),
    ]


def tells_of_each_redirect_hop(app: AppServer) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor: Any = RequestsInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        assert requests.get(app.url + "/redirect/2", timeout=3).text == "hello"
    finally:
        instrumentor.uninstrument()
    urls = sorted(str((span.attributes or {})["http.url"]) for span in spans.get_finished_spans())
    assert len(app.requests) == 3
    assert urls[-1] == app.url + "/redirect/2"
