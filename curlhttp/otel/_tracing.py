"""A span and a duration for each attempt, by the stable conventions of OpenTelemetry for HTTP.

Knows no engine: it is a middleware around attempts, whose result may be a head that is in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter, time_ns
from typing import TypeAlias, TypeVar

from opentelemetry.metrics import Meter, MeterProvider, get_meter
from opentelemetry.propagate import inject
from opentelemetry.semconv.attributes import (
    error_attributes,
    http_attributes,
    network_attributes,
    server_attributes,
    url_attributes,
)
from opentelemetry.semconv.metrics.http_metrics import HTTP_CLIENT_REQUEST_DURATION
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)

from curlhttp._engine.engine import Incoming
from curlhttp._flow.hooks import log
from curlhttp._models.redaction import redact_url
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp._models.timings import Timings, make_timings, next_attempt_number
from curlhttp._version import __version__
from curlhttp.exceptions import RequestException

__all__ = ["RequestHook", "ResponseHook", "TracedAttempt", "Tracing"]

RequestHook: TypeAlias = Callable[[Span, Request], object]
ResponseHook: TypeAlias = Callable[[Span, Request, Response], object]

T = TypeVar("T", bound="Response | Incoming")

# The convention's: all others are _OTHER, so that nobody makes a thousand names of spans.
_METHODS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
_OTHER = "_OTHER"
# As the convention advises for http.client.request.duration.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_SCHEMA = Schemas.V1_36_0.value
_NANO = 1_000_000_000

_Attributes: TypeAlias = "dict[str, str | int]"


class Tracing:
    """Trace and measure attempts.

    Args:
        tracer_provider: None for the global one.
        meter_provider: None for the global one.
        request_hook: called with the span and the request before it is sent, or None.
        response_hook: called with the span, the request and the response, or None.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        request_hook: RequestHook | None = None,
        response_hook: ResponseHook | None = None,
    ) -> None:
        self._tracer = get_tracer("curlhttp", __version__, tracer_provider, _SCHEMA)
        self.meter: Meter = get_meter("curlhttp", __version__, meter_provider, _SCHEMA)
        self._durations = self.meter.create_histogram(
            HTTP_CLIENT_REQUEST_DURATION,
            unit="s",
            description="Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._request_hook = request_hook
        self._response_hook = response_hook

    async def around(self, request: Request, send: Callable[[Request], Awaitable[T]]) -> T:
        """Send one attempt, with a span of its own up to its head, or its body where that is read.

        Args:
            request: of this attempt alone; gets the headers that carry the context.
            send: sends it.
        """
        under = self.begin(request)
        try:
            result = await send(request)
        # A cancellation ends the attempt, too.
        except BaseException as error:
            under.fail(error)
            raise
        under.end(result)
        return result

    def begin(self, request: Request) -> TracedAttempt:
        """Return what an attempt is under way with; its context is in the request's headers."""
        method = request.method if request.method in _METHODS else _OTHER
        url = request.url
        shared: _Attributes = {
            http_attributes.HTTP_REQUEST_METHOD: method,
            server_attributes.SERVER_ADDRESS: url.host,
            server_attributes.SERVER_PORT: url.port,
        }
        begun = time_ns()
        span = self._tracer.start_span(
            "HTTP" if method == _OTHER else method,
            kind=SpanKind.CLIENT,
            attributes={**shared, url_attributes.URL_FULL: redact_url(url)},
            start_time=begun,
        )
        number = next_attempt_number(request)
        if span.is_recording():
            if method == _OTHER:
                span.set_attribute(http_attributes.HTTP_REQUEST_METHOD_ORIGINAL, request.method)
            if number:
                span.set_attribute(http_attributes.HTTP_REQUEST_RESEND_COUNT, number)
            if self._request_hook is not None:
                _call(self._request_hook, span, request)
        _call(partial(inject, context=set_span_in_context(span)), request.headers)
        return TracedAttempt(self, request, span, shared, begun)

    def record(self, seconds: float, attributes: _Attributes) -> None:
        """Count how long an attempt took."""
        self._durations.record(seconds, attributes)

    def respond(self, span: Span, request: Request, head: Head, times: Timings) -> None:
        """Call the hook for a response."""
        if self._response_hook is not None:
            _call(self._response_hook, span, request, Response(request, head, b"", times))


class TracedAttempt:
    """One attempt under way.

    Args:
        tracing: counts it.
        request: of it.
        span: of it.
        shared: attributes of span and metric.
        begun: nanoseconds since the epoch.
    """

    __slots__ = ("_attributes", "_begun", "_request", "_since", "_span", "_tracing")

    def __init__(
        self, tracing: Tracing, request: Request, span: Span, shared: _Attributes, begun: int
    ) -> None:
        self._tracing = tracing
        self._request = request
        self._span = span
        self._attributes = shared
        self._begun = begun
        self._since = perf_counter()

    def end(self, result: Response | Incoming) -> None:
        """End an attempt that was answered."""
        if isinstance(result, Response):
            self.answer(result._head, result.timings)
            return
        times = result.timings()
        assert result.head is not None
        head = result.head
        self.answer(head, times if isinstance(times, Timings) else make_timings(times))

    def answer(self, head: Head, times: Timings) -> None:
        """End an attempt whose head is in."""
        found = self._of_head(head)
        if head.status_code >= 400:
            found[error_attributes.ERROR_TYPE] = str(head.status_code)
        span = self._span
        if span.is_recording():
            span.set_attributes(found)
            if head.status_code >= 400:
                span.set_status(Status(StatusCode.ERROR))
            self._tell_times(times)
            self._tracing.respond(span, self._request, head, times)
        self._finish(found, times)

    def fail(self, error: BaseException) -> None:
        """End an attempt that failed, or was cancelled."""
        found: _Attributes = {}
        times = None
        text = None  # of any other, nobody knows what it holds
        if isinstance(error, RequestException):
            text, times = str(error), error.timings
            if isinstance(error.response, Response):
                found = self._of_head(error.response._head)
        found[error_attributes.ERROR_TYPE] = type(error).__qualname__
        span = self._span
        if span.is_recording():
            span.set_attributes(found)
            span.set_status(Status(StatusCode.ERROR, text))
            if times is not None:
                self._tell_times(times)
        self._finish(found, times)

    def _of_head(self, head: Head) -> _Attributes:
        return {
            http_attributes.HTTP_RESPONSE_STATUS_CODE: head.status_code,
            network_attributes.NETWORK_PROTOCOL_VERSION: head.http_version[5:],
        }

    def _tell_times(self, times: Timings) -> None:
        """Have the phases in the span, each with the moment of its end."""
        span = self._span
        if times.peer is not None:
            span.set_attribute(network_attributes.NETWORK_PEER_ADDRESS, times.peer[0])
            span.set_attribute(network_attributes.NETWORK_PEER_PORT, times.peer[1])
        sent = self._begun + int(times.queue * _NANO)
        moment = sent
        for name in ("dns", "connect", "tls"):
            if seconds := getattr(times, name):
                moment += int(seconds * _NANO)
                span.add_event(name, timestamp=moment)
        if times.first_byte:
            span.add_event("first_byte", timestamp=sent + int(times.first_byte * _NANO))

    def _finish(self, found: _Attributes, times: Timings | None) -> None:
        seconds = perf_counter() - self._since
        if times is not None and times.total:
            # One that another attempt has beaten is told of its end when the race is decided.
            seconds = min(seconds, times.queue + times.total)
        self._attributes.update(found)
        self._tracing.record(seconds, self._attributes)
        self._span.end(self._begun + int(seconds * _NANO))


def _call(hook: Callable[..., object], *what: object) -> None:
    try:
        hook(*what)
    except Exception:  # who only watches must not end a request that goes well
        log().exception("%r raised, which the instrumentation has called", hook)
