"""The events of httpx's trace extension, as far as libcurl lets them be known.

What happens up to the head of a response is told when that is in, in its order: libcurl does not
say meanwhile. How long each step took, the timings of the network stream say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from curlhttp._httpx.binding import RequestLike
    from curlhttp._httpx.incoming import NetworkStream
    from curlhttp._models.request import Request
    from curlhttp.exceptions import RequestException

__all__ = ["Event", "Trace", "body_events", "failure_events", "head_events", "trace_of"]

Event: TypeAlias = "tuple[str, dict[str, object]]"
Trace: TypeAlias = "Callable[[str, dict[str, object]], object]"


def trace_of(request: RequestLike) -> Trace | None:
    """Return the function that wants to hear of a request, or None."""
    return cast("Trace | None", request.extensions.get("trace"))


def _step(name: str, result: object = None, **facts: object) -> list[Event]:
    return [(f"{name}.started", facts), (f"{name}.complete", {"return_value": result})]


class TracedRequest(NamedTuple):
    """What is told of a request, in the form that functions of httpx's users expect."""

    method: bytes
    url: TracedURL
    headers: list[tuple[bytes, bytes]]


class TracedURL(NamedTuple):
    """Where a request goes."""

    scheme: bytes
    host: bytes
    port: int | None
    target: bytes


def _traced(request: RequestLike) -> TracedRequest:
    url = request.url
    where = TracedURL(url.raw_scheme, url.raw_host, url.port, url.raw_path)
    return TracedRequest(request.method.encode(), where, request.headers.raw)


def _connecting(sent: Request) -> dict[str, object]:
    url = sent.url
    return {"host": url.host, "port": url.port, "timeout": sent.timeout.connect}


def head_events(
    sent: Request,
    request: RequestLike,
    extensions: Mapping[str, object],
    answer: tuple[object, ...],
) -> list[Event]:
    """Return the events up to the head of a response.

    Args:
        sent: what went out.
        request: what httpx asked for.
        extensions: of the response.
        answer: status and fields.
    """
    stream = cast("NetworkStream", extensions["network_stream"])
    version = cast(bytes, extensions["http_version"])
    events: list[Event] = []
    if not stream.timings.reused:
        events += _step("connection.connect_tcp", stream, **_connecting(sent))
    http, told = "http2" if version == b"HTTP/2" else "http11", _traced(request)
    events += _step(f"{http}.send_request_headers", request=told)
    events += _step(f"{http}.send_request_body", request=told)
    status, fields = answer
    reason = extensions.get("reason_phrase", b"")
    result = (version, status, reason, fields) if http == "http11" else (status, fields)
    return events + _step(f"{http}.receive_response_headers", result, request=told)


def failure_events(sent: Request, request: RequestLike, error: RequestException) -> list[Event]:
    """Return the events of a request that has no response.

    Args:
        sent: what should have gone out.
        request: what httpx asked for.
        error: why there is none.
    """
    name, facts = "connection.connect_tcp", _connecting(sent)
    if error.request_sent:
        name, facts = "http11.receive_response_headers", {"request": _traced(request)}
    return [(f"{name}.started", facts), (f"{name}.failed", {"exception": error})]


def body_events(version: object, request: RequestLike, error: BaseException | None) -> list[Event]:
    """Return the events of a body that has ended.

    Args:
        version: the http_version of the response.
        request: what httpx asked for.
        error: what cut it short, or None.
    """
    http = "http2" if version == b"HTTP/2" else "http11"
    name = f"{http}.receive_response_body"
    events = _step(name, request=_traced(request))
    if error is not None:
        events[1] = (f"{name}.failed", {"exception": error})
    return [*events, *_step(f"{http}.response_closed")]
