"""Convert an httpx.Request to ours, with its URL, headers, timeouts and body unchanged.

Also make the events of httpx's trace extension, as far as libcurl reveals them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from curlhttp._http.body import AsyncIterBody, BytesBody, IterBody
from curlhttp._http.config import NetworkRoute, derive_route
from curlhttp._http.headers import Headers, check_method, parse_length
from curlhttp._http.request import ClientRequest, pack_fields
from curlhttp._http.timeout import Timeout
from curlhttp._http.url import URL, bracketed, parse_url
from curlhttp._httpx.settings import Library, RequestLike
from curlhttp.exceptions import InvalidHeader, InvalidMethod, InvalidSchema, RequestException

if TYPE_CHECKING:
    from curlhttp._http.body import Body
    from curlhttp._httpx.network_stream import NetworkStream

_LEAST = 0.001  # seconds; httpx accepts a timeout of 0, which would be no limit here


class UpgradeRequest(ClientRequest):
    """A request for another protocol on its connection, by Upgrade or CONNECT."""

    __slots__ = ()


def make_core_request(
    library: Library, request: RequestLike, route: NetworkRoute, *, is_async: bool
) -> ClientRequest:
    """Convert a request of httpx to ours; an UpgradeRequest if it requests another protocol.

    Args:
        library: the library of the request.
        request: complete, as its client built it.
        route: how to connect.
        is_async: whether an async engine sends it, and awaits its body.

    Raises:
        RequestException: it cannot be sent unchanged.
    """
    extensions = request.extensions
    method = check_method(request.method)
    source = request.url
    url = _make_url(source.raw_scheme, source.raw_host, source.port, source.raw_path)
    raw = request.headers.raw
    stream = request.stream
    body: Body | None
    if type(stream) is library.byte_stream_class:
        data = b"".join(stream)
        body = BytesBody(data) if data else None
    else:
        body = _make_streamed_body(stream, raw, is_async)
    if body is not None and method == "HEAD":
        raise InvalidMethod("a HEAD request cannot have a body")
    target = extensions.get("target")
    if target is not None:
        url = url.with_target(_decode_target(cast(bytes, target)))
    name = extensions.get("sni_hostname")
    if name and url.scheme == "https":
        url, route = _use_sni_hostname(cast(str, name), url, route)
    headers, upgrades = _to_headers(tuple(raw))
    limits = cast("Mapping[str, float | None]", extensions.get("timeout") or {})
    fields = pack_fields(
        headers,
        _make_timeout(*map(limits.get, ("connect", "read", "write", "pool"))),
        route,
        body=body,
        stream=True,
        follow_redirects=False,  # httpx follows them, and reads their bodies
        decode=False,
    )
    # HTTP/2 has no Upgrade (RFC 9113, section 8.6); with prior knowledge, there is only HTTP/2.
    upgrades = (upgrades or method == "CONNECT") and body is None
    kind = UpgradeRequest if upgrades and route.http2 != "prior-knowledge" else ClientRequest
    return kind.__new__(kind).fill(method, url, fields)


@lru_cache(maxsize=1024)
def _make_url(scheme: bytes, host: bytes, port: int | None, target: bytes) -> URL:
    if scheme not in (b"http", b"https"):
        if not scheme:
            raise InvalidSchema("Request URL is missing an 'http://' or 'https://' protocol.")
        raise InvalidSchema(f"Request URL has an unsupported protocol '{scheme.decode()}://'.")
    name = host.decode("ascii")
    suffix = "" if port is None else f":{port}"
    return parse_url(f"{scheme.decode()}://{bracketed(name)}{suffix}/").with_target(
        _decode_target(target)
    )


def _decode_target(target: bytes) -> str:
    text = target.decode("latin-1")
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise RequestException("the request target has blanks, controls or bytes beyond ASCII")
    return text


def _use_sni_hostname(name: str, url: URL, route: NetworkRoute) -> tuple[URL, NetworkRoute]:
    """Make libcurl send and verify another name in TLS, and connect to the same host."""
    other = parse_url(f"https://{bracketed(name)}:{url.port}/").with_target(url.target)
    return other, derive_route(route, connect_to=(f"::{bracketed(url.host)}:{url.port}",))


@lru_cache(maxsize=64)
def _to_headers(raw: tuple[tuple[bytes, bytes], ...]) -> tuple[Headers, bool]:
    """Return the headers, and whether they request another protocol.

    Cached, because the engine compares the lines of headers by identity.
    """
    headers = Headers(raw)
    return headers, "upgrade" in headers


@lru_cache(maxsize=64)
def _make_timeout(*limits: float | None) -> Timeout:
    connect, read, write, pool = map(_raise_to_least, limits)
    return Timeout(connect=connect, read=read, write=write, pool=pool)


def _raise_to_least(seconds: float | None) -> float | None:
    return None if seconds is None else max(float(seconds), _LEAST)


def _make_streamed_body(stream: object, raw: list[tuple[bytes, bytes]], is_async: bool) -> Body:
    """Return a body that is read while it is sent, with the length from its header."""
    length = None
    for name, value in raw:
        if name.lower() == b"content-length":
            length = parse_length(value.decode("latin-1"))
            if length is None:
                raise InvalidHeader("Content-Length must be a number of bytes")
    if is_async:
        return AsyncIterBody(cast("AsyncIterable[bytes]", stream), length)
    return IterBody(cast("Iterable[bytes]", stream), length)


# --- The events of httpx's trace extension, as far as libcurl reveals them ---
#
# The events up to the head of a response are reported together once it is received, because libcurl
# reports no progress before. The timings of the network stream have the duration of each step.

Event: TypeAlias = "tuple[str, dict[str, object]]"
Trace: TypeAlias = "Callable[[str, dict[str, object]], object]"


def get_trace(request: RequestLike) -> Trace | None:
    """Return the trace function of a request, or None."""
    return cast("Trace | None", request.extensions.get("trace"))


def _make_step(name: str, result: object = None, **info: object) -> list[Event]:
    return [(f"{name}.started", info), (f"{name}.complete", {"return_value": result})]


class TracedRequest(NamedTuple):
    """A request, in the form that trace functions of httpx expect."""

    method: bytes
    url: TracedURL
    headers: list[tuple[bytes, bytes]]


class TracedURL(NamedTuple):
    """Its URL, likewise."""

    scheme: bytes
    host: bytes
    port: int | None
    target: bytes


def _to_traced_request(request: RequestLike) -> TracedRequest:
    url = request.url
    where = TracedURL(url.raw_scheme, url.raw_host, url.port, url.raw_path)
    return TracedRequest(request.method.encode(), where, request.headers.raw)


def _get_connect_info(sent: ClientRequest) -> dict[str, object]:
    url = sent.url
    return {"host": url.host, "port": url.port, "timeout": sent.timeout.connect}


def make_head_events(
    sent: ClientRequest,
    request: RequestLike,
    extensions: Mapping[str, object],
    head: tuple[object, ...],
) -> list[Event]:
    """Return the events up to the head of a response.

    Args:
        sent: the request that was sent.
        request: the library's request.
        extensions: those of the response.
        head: status and fields.
    """
    stream = cast("NetworkStream", extensions["network_stream"])
    version = cast(bytes, extensions["http_version"])
    events: list[Event] = []
    if not stream.timings.reused:
        events += _make_step("connection.connect_tcp", stream, **_get_connect_info(sent))
    http, traced = "http2" if version == b"HTTP/2" else "http11", _to_traced_request(request)
    events += _make_step(f"{http}.send_request_headers", request=traced)
    events += _make_step(f"{http}.send_request_body", request=traced)
    status, fields = head
    reason = extensions.get("reason_phrase", b"")
    result = (version, status, reason, fields) if http == "http11" else (status, fields)
    return events + _make_step(f"{http}.receive_response_headers", result, request=traced)


def make_error_events(
    sent: ClientRequest, request: RequestLike, error: RequestException
) -> list[Event]:
    """Return the events of a request that has no response.

    Args:
        sent: the request that was to be sent.
        request: the library's request.
        error: the reason.
    """
    name, info = "connection.connect_tcp", _get_connect_info(sent)
    if error.request_sent:
        name, info = "http11.receive_response_headers", {"request": _to_traced_request(request)}
    return [(f"{name}.started", info), (f"{name}.failed", {"exception": error})]


def make_body_events(
    version: object, request: RequestLike, error: BaseException | None
) -> list[Event]:
    """Return the events at the end of a body.

    Args:
        version: the http_version of the response.
        request: the library's request.
        error: the reason if the body ended early, or None.
    """
    http = "http2" if version == b"HTTP/2" else "http11"
    name = f"{http}.receive_response_body"
    events = _make_step(name, request=_to_traced_request(request))
    if error is not None:
        events[1] = (f"{name}.failed", {"exception": error})
    return [*events, *_make_step(f"{http}.response_closed")]
