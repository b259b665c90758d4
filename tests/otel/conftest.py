"""An instrumentation whose spans and metrics stay in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Telemetry:
    """Providers, and their exported data."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def providers(self) -> dict[str, Any]:
        return {"tracer_provider": self.tracers, "meter_provider": self.meters}

    @property
    def spans(self) -> list[ReadableSpan]:
        """Return the spans that have ended, in the order of their beginning."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def values(self, name: str) -> list[Any]:
        """Return an attribute of all spans."""
        return [(span.attributes or {}).get(name) for span in self.spans]

    def points(self, name: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Return what spans and metrics end up in; nothing is instrumented yet."""
    made = Telemetry()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


@pytest.fixture
def traced(telemetry: Telemetry) -> Iterator[Telemetry]:
    """Return what the spans and metrics of every client end up in."""
    from curlhttp.otel import CurlhttpInstrumentor

    instrumentor = CurlhttpInstrumentor()
    instrumentor.instrument(**telemetry.providers)
    yield telemetry
    instrumentor.uninstrument()
