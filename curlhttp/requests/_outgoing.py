"""From a prepared request to the core's: URL, headers, time limits and body."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from curlhttp._engine.network import now
from curlhttp._models.body import BytesBody, open_body
from curlhttp._models.config import Transport, varied
from curlhttp._models.headers import Headers, check_method, without_userinfo
from curlhttp._models.request import Request as CoreRequest
from curlhttp._models.request import pack_fields
from curlhttp._models.timeout import Timeout
from curlhttp._models.url import PATH_SAFE, URL, bracketed, parse_url, quoted
from curlhttp.exceptions import InvalidHeader, InvalidMethod
from curlhttp.requests._aside import goes_on

if TYPE_CHECKING:
    from curlhttp._models.body import Body
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests._types import TimeoutInput

__all__ = [
    "check_for",
    "core_request",
    "header_text",
    "tell_proxy",
    "timeout_of",
    "url_of",
    "with_target",
]


def core_request(
    request: PreparedRequest, url: URL, transport: Transport, timeout: TimeoutInput, stream: bool
) -> CoreRequest:
    """Return the core's request for a prepared one.

    Raises:
        InvalidHeader, InvalidMethod: it cannot be sent as it is.
        ValueError: the timeout is none.
    """
    method = check_method(request.method)  # type: ignore[arg-type]
    headers = _headers_of(request.headers)
    body = None if request.body is None else _body_of(request)
    limits = timeout_of(timeout)
    # Redirects, cookies, credentials, retries and content codings are the facade's business; it is
    # enough for the engine to know that a redirect's body is not wanted.
    fields = pack_fields(
        headers,
        limits,
        transport,
        body=body,
        stream=stream,
        follow_redirects=goes_on(),
        decode=False,
        deadline=None if limits.total is None else now() + limits.total,
    )
    return CoreRequest.__new__(CoreRequest).fill(method, url, fields)


def url_of(request: PreparedRequest) -> URL:
    """Return where a request goes, without credentials."""
    text = str(request.url)
    url = parse_url(text)
    if url.username is not None:
        url = url.without_userinfo()
    # Nothing is folded any more: what the request's URL shows is what is asked for.
    return _with_dots(url, request) if "/." in text else url


def _with_dots(url: URL, request: PreparedRequest) -> URL:
    path = quoted(request.path_url.partition("?")[0], PATH_SAFE)
    return url._with(f"{path}?{url.query}" if url.query else path, url.fragment)


def with_target(url: URL, target: str) -> URL:
    """Return the URL with the request target that a subclass made up."""
    if target.startswith("/"):
        return url._with(target, url.fragment)
    return parse_url(target).without_userinfo() if "://" in target else url


def check_for(name: str, sent: CoreRequest) -> None:
    """Let the certificate be checked for another name: ask for that host, where the URL's is."""
    url = sent.url
    if sent.get_header("host") is None:
        sent._shared_headers = sent._shared_headers.copy()
        sent._shared_headers["Host"] = url.authority
    sent.transport = varied(sent.transport, connect_to=(f"::{bracketed(url.host)}:{url.port}",))
    sent.url = parse_url(f"https://{bracketed(name)}:{url.port}{url.target}")


def tell_proxy(credentials: object, sent: CoreRequest) -> None:
    """Send credentials that stand in the request's headers to the proxy, and to nobody else."""
    assert sent.transport.proxy is not None
    headers = (("Proxy-Authorization", header_text(credentials)),)
    proxy = replace(sent.transport.proxy, headers=headers)
    sent.transport = varied(sent.transport, proxy=proxy)


@lru_cache(maxsize=64)
def _known_headers(fields: tuple[tuple[str, str], ...]) -> Headers:
    """Return headers as they go to the engine, which compares their lines by identity.

    They were checked when the request was prepared, by requests' rules: those of the core are
    stricter. What came in since then is checked here.
    """
    headers = Headers()
    headers._replace(
        [_field(name, value) for name, value in fields if not _is_left_out(name, value)]
    )
    return headers


# urllib3's SKIP_HEADER, and the names of what is sent without being asked for.
_LEFT_OUT = "@@@SKIP_HEADER@@@"
_SKIPPABLE = {"accept-encoding", "host", "user-agent"}


def _is_left_out(name: object, value: object) -> bool:
    if value != _LEFT_OUT:
        return False
    if header_text(name).lower() not in _SKIPPABLE:
        raise ValueError(
            "urllib3.util.SKIP_HEADER is for Accept-Encoding, Host and User-Agent, "
            f"not for {header_text(name)}"
        )
    return True


def _field(name: object, value: object) -> tuple[str, str]:
    # Blanks at the end are no part of a value (RFC 9110, section 5.5): HTTP/2 must not have them,
    # and libcurl takes a line of nothing else for its removal.
    name, text = header_text(name), header_text(value).rstrip(" \t")
    return name, without_userinfo(name, text) if "@" in text else text


def header_text(text: object) -> str:
    """Return a name or a value as text that cannot end its line.

    Raises:
        InvalidHeader: it would break the header block.
    """
    found = text.decode("latin-1") if isinstance(text, bytes) else text
    if not isinstance(found, str):
        raise InvalidHeader(f"A header must be str or bytes, not {type(text)}")
    if not found.isascii() and max(found) > "\xff":  # no message shows it: it may be a secret
        raise InvalidHeader("A header must be latin-1 text; encode it to bytes first")
    if any(char in found for char in "\r\n\0"):
        raise InvalidHeader("A header must not contain CR, LF or NUL")
    return found


def _headers_of(headers: Any) -> Headers:
    store = getattr(headers, "_store", None)
    fields = tuple(headers.items() if store is None else store.values())
    return _known_headers(fields)


@lru_cache(maxsize=64)
def _known_timeout(timeout: TimeoutInput) -> Timeout:
    if timeout is None:
        return Timeout()
    if isinstance(timeout, Timeout):
        return timeout
    from curlhttp.requests._timeouts import as_pair

    connect, read, total = as_pair(timeout)
    return Timeout(connect=connect, read=read, total=total)


def timeout_of(timeout: TimeoutInput) -> Timeout:
    """Return the core's time limits.

    Raises:
        ValueError: it is none, or a limit is not positive.
    """
    try:
        return _known_timeout(timeout)
    except TypeError:  # cannot be hashed
        return _known_timeout.__wrapped__(timeout)


def _body_of(request: PreparedRequest) -> Body | None:
    """Return the body in the core's terms.

    Raises:
        InvalidHeader: its length is no number.
        InvalidMethod: the method cannot have a body.
    """
    body = request.body
    if isinstance(body, str):
        body = body.encode()
    if request.method == "HEAD" and body:
        raise InvalidMethod("a HEAD request cannot have a body")
    if isinstance(body, bytes):
        return BytesBody(body) if body or request.method != "GET" else None
    length = header_text(request.headers.get("Content-Length", ""))
    if length and not (length.isascii() and length.isdigit()):
        raise InvalidHeader(f"Content-Length must be a number, not {length!r:.50}")
    opened = open_body(_in_bytes(body), int(length or 0))
    if not length:
        opened.length = None  # chunked
    return opened


def _in_bytes(body: Any) -> Any:
    """Return a body whose pieces are bytes; text is sent as UTF-8."""
    if isinstance(body, (io.TextIOBase,)):
        return _Encoded(body)
    if hasattr(body, "read") or isinstance(body, (bytearray, memoryview)):
        return body
    return (piece.encode() if isinstance(piece, str) else piece for piece in body)


class _Encoded:
    """A text file, read as UTF-8."""

    def __init__(self, file: io.TextIOBase) -> None:
        self._file = file
        self.tell, self.seek = file.tell, file.seek

    def read(self, size: int = -1) -> bytes:
        """Return the next piece."""
        text: str = self._file.read(size if size < 0 else max(1, size // 4))
        return text.encode()
