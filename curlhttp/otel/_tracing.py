"""A span and a duration for each attempt, by OpenTelemetry's stable conventions for HTTP.

It is a middleware for attempts and does not depend on an engine. The result of an attempt is a
Response, or an Incoming whose head was received.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter, time_ns
from typing import TypeAlias, TypeVar

from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled
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
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)

from curlhttp._features.attempt_numbers import ensure_numbered, next_attempt_number
from curlhttp._http.redaction import redact_text
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, Response
from curlhttp._http.timings import (
    Timings,
    get_waits,
    make_timings,
)
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Incoming
from curlhttp._runtime.log import ERROR, log
from curlhttp._runtime.race import is_beaten
from curlhttp._version import __version__
from curlhttp.exceptions import RequestException

RequestHook: TypeAlias = Callable[[Span, ClientRequest], object]
ResponseHook: TypeAlias = Callable[[Span, ClientRequest, Response], object]

T = TypeVar("T", bound="Response | Incoming")

# The methods that the convention allows in span names; others are _OTHER, to limit their number.
# The variable of this name replaces them.
_KNOWN_METHODS = "OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS"
_METHODS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
_OTHER = "_OTHER"
# The buckets that the convention advises for http.client.request.duration.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
# The convention has no names for these.
_WAIT_DURATION = "curlhttp.client.wait.duration"
_REFUSALS = "curlhttp.client.refusals"
_WAIT_REASON = "curlhttp.wait.reason"
_WAIT_PREFIX = "curlhttp.wait."
_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
_REDACTED = "REDACTED"
_NANO = 1_000_000_000

_Attributes: TypeAlias = "dict[str, str | int | float]"


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
        self._waits = self.meter.create_histogram(
            _WAIT_DURATION,
            unit="s",
            description="Duration of waits before an attempt, by what was waited for.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._refusals = self.meter.create_counter(
            _REFUSALS,
            unit="{request}",
            description="Number of attempts that a circuit breaker or a limit did not admit.",
        )
        self._request_hook = request_hook
        self._response_hook = response_hook
        known = os.environ.get(_KNOWN_METHODS)
        self._methods = frozenset(map(str.strip, known.split(","))) if known else _METHODS

    async def trace(
        self, request: ClientRequest, send: Callable[[ClientRequest], Awaitable[T]]
    ) -> T:
        """Send one attempt in a span, which ends with the head, or with the body if that is read.

        Args:
            request: of the attempt; the headers of the context are added to a copy.
            send: sends it.
        """
        if not is_http_instrumentation_enabled():
            return await send(request)
        ensure_numbered(request)
        request = request.copy()
        attempt = self.begin(request)
        try:
            result = await send(request)
        except BaseException as error:  # also a cancellation
            attempt.fail(error)
            raise
        attempt.end(result)
        return result

    def begin(self, request: ClientRequest) -> TracedAttempt:
        """Start a span for an attempt, and add its context to the request's headers."""
        started = time_ns()
        span, shared = self._start_span(request, started)
        number = next_attempt_number(request)
        if span.is_recording():
            if number:
                span.set_attribute(http_attributes.HTTP_REQUEST_RESEND_COUNT, number)
            if self._request_hook is not None:
                _call(self._request_hook, span, request)
        _call(partial(inject, context=set_span_in_context(span)), request.headers)
        return TracedAttempt(self, request, span, shared, started)

    def _start_span(self, request: ClientRequest, started: int) -> tuple[Span, _Attributes]:
        """Return a new span, and those of its attributes that metrics have, too."""
        method = request.method if request.method in self._methods else _OTHER
        url = request.url
        shared: _Attributes = {
            http_attributes.HTTP_REQUEST_METHOD: method,
            server_attributes.SERVER_ADDRESS: url.host,
            server_attributes.SERVER_PORT: url.port,
        }
        span = self._tracer.start_span(
            "HTTP" if method == _OTHER else method,
            kind=SpanKind.CLIENT,
            attributes={**shared, url_attributes.URL_FULL: _to_full_url(url)},
            start_time=started,
        )
        if method == _OTHER:
            span.set_attribute(http_attributes.HTTP_REQUEST_METHOD_ORIGINAL, request.method)
        return span, shared

    def note_refusal(self, request: ClientRequest, error: RequestException) -> None:
        """Make a span for an attempt that a breaker or a limit did not admit, and count it."""
        if not is_http_instrumentation_enabled():
            return
        waits = collect_waits(request, None, error)
        started = time_ns() - int((0.0 if error._waited is None else error._waited[1]) * _NANO)
        span, shared = self._start_span(request, started)
        shared[error_attributes.ERROR_TYPE] = _name_error(error)
        if span.is_recording():
            if self._request_hook is not None:
                _call(self._request_hook, span, request)
            set_waits(span, waits)
            span.set_attribute(error_attributes.ERROR_TYPE, _name_error(error))
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()
        self._refusals.add(1, shared)
        self.record_waits(request, waits)

    def record_waits(self, request: ClientRequest, waits: Mapping[str, float]) -> None:
        """Record what a request has waited for before an attempt."""
        for reason, seconds in waits.items():
            self._waits.record(
                seconds,
                {
                    server_attributes.SERVER_ADDRESS: request.url.host,
                    server_attributes.SERVER_PORT: request.url.port,
                    _WAIT_REASON: reason,
                },
            )

    def note_fallback(self, request: ClientRequest, failure: Response | Exception) -> None:
        """Make a span that says that a fallback replaced a failure."""
        attributes = {
            url_attributes.URL_FULL: _to_full_url(request.url),
            error_attributes.ERROR_TYPE: str(failure.status_code)
            if isinstance(failure, Response)
            else _name_error(failure),
        }
        self._tracer.start_span("fallback", attributes=attributes).end()

    def record(self, seconds: float, attributes: _Attributes) -> None:
        """Record the duration of an attempt."""
        self._durations.record(seconds, attributes)

    def call_response_hook(
        self, span: Span, request: ClientRequest, head: Head, times: Timings
    ) -> None:
        """Call the response hook."""
        if self._response_hook is not None:
            _call(self._response_hook, span, request, Response(request, head, b"", times))


class TracedAttempt:
    """One attempt and its span.

    Args:
        tracing: records the duration.
        request: the request of this attempt.
        span: its span.
        shared: attributes of both the span and the metric.
        started: when it started, in nanoseconds since the epoch.
    """

    __slots__ = ("_attributes", "_perf_start", "_request", "_span", "_started", "_tracing")

    def __init__(
        self,
        tracing: Tracing,
        request: ClientRequest,
        span: Span,
        shared: _Attributes,
        started: int,
    ) -> None:
        self._tracing = tracing
        self._request = request
        self._span = span
        self._attributes = shared
        self._started = started
        self._perf_start = perf_counter()

    def end(self, result: Response | Incoming) -> None:
        """End the attempt with a response."""
        if isinstance(result, Response):
            self.end_with_head(result._head, result.timings)
            return
        times = result.timings()
        assert result.head is not None
        times = times if isinstance(times, Timings) else make_timings(times)
        self.end_with_head(result.head, times)

    def end_with_head(self, head: Head, times: Timings) -> None:
        """End the attempt with the head of its response."""
        attributes = self._get_head_attributes(head)
        if head.status_code >= 400:
            attributes[error_attributes.ERROR_TYPE] = str(head.status_code)
        span = self._span
        if span.is_recording():
            span.set_attributes(attributes)
            if head.status_code >= 400:
                span.set_status(Status(StatusCode.ERROR))
            self._add_timings(times)
            self._tracing.call_response_hook(span, self._request, head, times)
        self._finish(attributes, times, collect_waits(self._request, times))

    def fail(self, error: BaseException) -> None:
        """End the attempt with an error or a cancellation.

        An attempt of a hedge that another one has beaten is no error.
        """
        attributes: _Attributes = {}
        times = None
        text = None  # the text of other errors may contain secrets
        if isinstance(error, RequestException):
            text, times = str(error), error.timings
            if isinstance(error.response, Response):
                attributes = self._get_head_attributes(error.response._head)
        is_cancelled = is_beaten(self._request, error)
        if not is_cancelled:
            attributes[error_attributes.ERROR_TYPE] = _name_error(error)
        span = self._span
        if span.is_recording():
            span.set_attributes(attributes)
            if is_cancelled:
                span.add_event("cancelled")
            else:
                span.set_status(Status(StatusCode.ERROR, text))
            if times is not None:
                self._add_timings(times)
        self._finish(attributes, times, collect_waits(self._request, times, error))

    def _get_head_attributes(self, head: Head) -> _Attributes:
        return {
            http_attributes.HTTP_RESPONSE_STATUS_CODE: head.status_code,
            network_attributes.NETWORK_PROTOCOL_VERSION: head.http_version[5:],
        }

    def _add_timings(self, times: Timings) -> None:
        """Add an event for each phase to the span, at the time when it ended."""
        span = self._span
        if times.peer is not None:
            span.set_attribute(network_attributes.NETWORK_PEER_ADDRESS, times.peer[0])
            span.set_attribute(network_attributes.NETWORK_PEER_PORT, times.peer[1])
        sent = self._started + int(times.queue * _NANO)
        if times.queue:
            span.add_event("pool", timestamp=sent)
        moment = sent
        for name in ("dns", "connect", "tls"):
            if seconds := getattr(times, name):
                moment += int(seconds * _NANO)
                span.add_event(name, timestamp=moment)
        if times.first_byte:
            span.add_event("first_byte", timestamp=sent + int(times.first_byte * _NANO))

    def _finish(
        self, attributes: _Attributes, times: Timings | None, waits: dict[str, float]
    ) -> None:
        seconds = perf_counter() - self._perf_start
        if times is not None and times.total:
            seconds = min(seconds, times.queue + times.total)
        self._attributes.update(attributes)
        self._tracing.record(seconds, self._attributes)
        if waits:
            set_waits(self._span, waits)
            self._tracing.record_waits(self._request, waits)
        self._span.end(self._started + int(seconds * _NANO))


def collect_waits(
    request: ClientRequest, times: Timings | None, error: BaseException | None = None
) -> dict[str, float]:
    """Return what a request has waited for before an attempt, in seconds by reason.

    Args:
        request: of the attempt.
        times: of the attempt, or None.
        error: of the attempt, or of the wait itself; or None.
    """
    waits = dict(get_waits(request))
    if times is not None and times.queue:
        waits["pool"] = times.queue
    waited = getattr(error, "_waited", None)
    if waited is not None:
        waits[waited[0]] = waited[1]
    return waits


def set_waits(span: Span, waits: Mapping[str, float]) -> None:
    """Set an attribute for each wait, in seconds."""
    for reason, seconds in waits.items():
        span.set_attribute(_WAIT_PREFIX + reason, seconds)


def _to_full_url(url: URL) -> str:
    """Return url.full: with the fragment, and with REDACTED instead of credentials."""
    has_userinfo = url._had_userinfo or url.username is not None
    userinfo = f"{_REDACTED}:{_REDACTED}@" if has_userinfo else ""
    rest = "#".join(filter(None, (url.target, url.fragment)))
    return f"{url.scheme}://{userinfo}{url.authority}{redact_text(rest, _REDACTED)}"


def _name_error(error: BaseException) -> str:
    """Return the qualified name of an error's class."""
    kind = type(error)
    within = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return within + kind.__qualname__


def _call(hook: Callable[..., object], *args: object) -> None:
    try:
        hook(*args)
    except Exception as error:  # tracing must not make a request fail
        log.write(ERROR, "%r, called by the instrumentation, raised", hook, error=error)
