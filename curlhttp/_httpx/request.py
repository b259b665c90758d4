"""Convert an httpx.Request to the core's: URL, headers, timeouts and body, all unchanged.

Also report the events of httpx's trace extension, as far as libcurl reveals them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from curlhttp._httpx.settings import Binding, RequestLike, URLLike
from curlhttp._models.body import AsyncIterBody, BytesBody, IterBody
from curlhttp._models.config import Transport, varied
from curlhttp._models.headers import Headers, check_method
from curlhttp._models.request import Request, pack_fields
from curlhttp._models.timeout import Timeout
from curlhttp._models.url import URL, bracketed, parse_url
from curlhttp.exceptions import InvalidHeader, InvalidMethod, InvalidSchema, RequestException

if TYPE_CHECKING:
    from curlhttp._httpx.network_stream import NetworkStream
    from curlhttp._models.body import Body

__all__ = [
    "Event",
    "Trace",
    "UpgradeRequest",
    "body_events",
    "core_request",
    "failure_events",
    "head_events",
    "trace_of",
]


_LEAST = 0.001  # seconds: httpx takes 0 for a timeout, which here is none


class UpgradeRequest(Request):
    """A request that asks for another protocol on its connection, by Upgrade or CONNECT."""

    __slots__ = ()


def core_request(
    binding: Binding, request: RequestLike, transport: Transport, *, awaits: bool
) -> Request:
    """Return what the engine sends for a request of httpx: an UpgradeRequest if it asks for that.

    Args:
        binding: of the library that the request is of.
        request: complete, as its client made it.
        transport: how it travels.
        awaits: an async engine will send it, and await its body.

    Raises:
        RequestException: it cannot be sent as it is.
    """
    extensions = request.extensions
    method = check_method(request.method)
    url = _url_of(request.url)
    raw = request.headers.raw
    stream = request.stream
    body: Body | None
    if type(stream) is binding.bytes_kind:
        data = b"".join(stream)
        body = BytesBody(data) if data else None
    else:
        body = _streamed(stream, raw, awaits)
    if body is not None and method == "HEAD":
        raise InvalidMethod("a HEAD request cannot have a body")
    target = extensions.get("target")
    if target is not None:
        url = url.with_target(_target_of(cast(bytes, target)))
    name = extensions.get("sni_hostname")
    if name and url.scheme == "https":
        url, transport = _checked_for(cast(str, name), url, transport)
    headers, upgrades = _headers_of(tuple(raw))
    fields = pack_fields(
        headers,
        _timeout_of(cast("Mapping[str, float | None]", extensions.get("timeout") or {})),
        transport,
        body=body,
        stream=True,
        follow_redirects=False,  # httpx follows, and wants their bodies
        decode=False,
    )
    # HTTP/2 has no Upgrade (RFC 9113, section 8.6), and where it is spoken at once nothing else is.
    upgrades = (upgrades or method == "CONNECT") and body is None
    kind = UpgradeRequest if upgrades and transport.http2 != "prior-knowledge" else Request
    return kind.__new__(kind).fill(method, url, fields)


def _url_of(url: URLLike) -> URL:
    return _known_url(url.raw_scheme, url.raw_host, url.port, url.raw_path)


@lru_cache(maxsize=1024)
def _known_url(scheme: bytes, host: bytes, port: int | None, target: bytes) -> URL:
    if scheme not in (b"http", b"https"):
        if not scheme:
            raise InvalidSchema("Request URL is missing an 'http://' or 'https://' protocol.")
        raise InvalidSchema(f"Request URL has an unsupported protocol '{scheme.decode()}://'.")
    name = host.decode("ascii")
    suffix = "" if port is None else f":{port}"
    return parse_url(f"{scheme.decode()}://{bracketed(name)}{suffix}/").with_target(
        _target_of(target)
    )


def _target_of(target: bytes) -> str:
    text = target.decode("latin-1")
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise RequestException("the request target has blanks, controls or bytes beyond ASCII")
    return text


def _checked_for(name: str, url: URL, transport: Transport) -> tuple[URL, Transport]:
    """Return what makes libcurl ask for a name in TLS, and check for it, and connect as before."""
    other = parse_url(f"https://{bracketed(name)}:{url.port}/").with_target(url.target)
    return other, varied(transport, connect_to=(f"::{bracketed(url.host)}:{url.port}",))


@lru_cache(maxsize=64)
def _headers_of(raw: tuple[tuple[bytes, bytes], ...]) -> tuple[Headers, bool]:
    """Return headers as they go to the engine, which compares their lines by identity.

    And whether they ask for another protocol.
    """
    headers = Headers(raw)
    return headers, "upgrade" in headers


def _timeout_of(timeout: Mapping[str, float | None]) -> Timeout:
    get = timeout.get
    return _known_timeout(get("connect"), get("read"), get("write"), get("pool"))


@lru_cache(maxsize=64)
def _known_timeout(*limits: float | None) -> Timeout:
    connect, read, write, pool = map(_least, limits)
    return Timeout(connect=connect, read=read, write=write, pool=pool)


def _least(seconds: float | None) -> float | None:
    return None if seconds is None else max(float(seconds), _LEAST)


def _streamed(stream: object, raw: list[tuple[bytes, bytes]], awaits: bool) -> Body:
    """Return a body that is read while it is sent, with the length that its header says."""
    length = None
    for name, value in raw:
        if name.lower() == b"content-length":
            if not value.isdigit():
                raise InvalidHeader("Content-Length must be a number")
            length = int(value)
    if awaits:
        return AsyncIterBody(cast("AsyncIterable[bytes]", stream), length)
    return IterBody(cast("Iterable[bytes]", stream), length)


# --- The events of httpx's trace extension, as far as libcurl lets them be known ---
#
# What happens up to the head of a response is told when that is in, in its order: libcurl does not
# say meanwhile. How long each step took, the timings of the network stream say.

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
