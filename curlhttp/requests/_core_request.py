"""Convert the URL, headers, body and time limits of a prepared request to the core's types.

Files in a body are measured and rewound here, too.
"""

from __future__ import annotations

import io
import math
import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from curlhttp._features.attempt_numbers import get_attempt_numbers, share_attempt_numbers
from curlhttp._http.body import BytesBody, open_body
from curlhttp._http.config import NetworkRoute, derive_route
from curlhttp._http.headers import Headers, check_method, parse_length, without_userinfo
from curlhttp._http.request import ClientRequest, pack_fields
from curlhttp._http.timeout import Timeout
from curlhttp._http.url import PATH_SAFE, URL, bracketed, parse_url, quoted
from curlhttp._runtime.network import now
from curlhttp.exceptions import (
    FileModeWarning,
    InvalidHeader,
    InvalidMethod,
    UnrewindableBodyError,
)
from curlhttp.requests._unread_bodies import follows_redirects
from curlhttp.requests._url import escape_percents, has_bare_percent

if TYPE_CHECKING:
    import urllib3

    from curlhttp._http.body import Body
    from curlhttp._http.timings import Timings
    from curlhttp.requests._types import TimeoutInput
    from curlhttp.requests.models import PreparedRequest, Response

_MIN_SECONDS = 1e-3  # seconds: no limit can be 0
_NUMBERS = "_numbers"  # the attribute of a PreparedRequest
# urllib3's SKIP_HEADER, and the headers that it may remove.
_SKIP_HEADER = "@@@SKIP_HEADER@@@"
_SKIPPABLE = {"accept-encoding", "host", "user-agent"}
_URLLIB3 = "urllib3.util.connection"
_VERSIONS: dict[int, Literal[4, 6]] = {2: 4, 10: 6, 30: 6, 23: 6}  # by address family


def make_core_request(
    request: PreparedRequest, url: URL, route: NetworkRoute, timeout: TimeoutInput, stream: bool
) -> ClientRequest:
    """Return the core's request for a prepared one.

    Raises:
        InvalidHeader, InvalidMethod: the request cannot be sent like this.
        ValueError: the timeout is invalid.
    """
    method = check_method(request.method)  # type: ignore[arg-type]
    headers = _to_headers(request.headers)
    body = None if request.body is None else _to_body(request)
    limits = to_timeout(timeout)
    # The drop-in handles redirects, cookies, credentials, retries and content codings. The engine
    # only needs to know that a redirect's body is not wanted.
    fields = pack_fields(
        headers,
        limits,
        route,
        body=body,
        stream=stream,
        follow_redirects=follows_redirects(),
        decode=False,
        deadline=None if limits.total is None else now() + limits.total,
    )
    return ClientRequest.__new__(ClientRequest).fill(method, url, fields)


def get_url(request: PreparedRequest) -> URL:
    """Return where a request goes, without credentials."""
    text = str(request.url)
    if "%" in text and has_bare_percent(text):  # set on the prepared request: others have none
        text = escape_percents(text)
    url = parse_url(text)
    if url.username is not None:
        url = url.without_userinfo()
    if "/." not in text:
        return url
    # Keep dot segments, so that the path that is sent is the one in the request's URL.
    path = quoted(urlsplit(text).path or "/", PATH_SAFE)
    return url._with(f"{path}?{url.query}" if url.query else path, url.fragment)


def replace_target(url: URL, target: str) -> URL:
    """Return the URL with the request target that a subclass chose."""
    if target.startswith("/"):
        return url._with(target, url.fragment)
    return parse_url(target).without_userinfo() if "://" in target else url


def set_certificate_name(name: str, sent: ClientRequest) -> None:
    """Check the certificate for this name: put it in the URL, and connect to the URL's old host."""
    url = sent.url
    if sent.get_header("host") is None:
        sent._shared_headers = sent._shared_headers.copy()
        sent._shared_headers["Host"] = url.authority
    sent.route = derive_route(sent.route, connect_to=(f"::{bracketed(url.host)}:{url.port}",))
    sent.url = parse_url(f"https://{bracketed(name)}:{url.port}{url.target}")


def set_proxy_authorization(credentials: object, sent: ClientRequest) -> None:
    """Send the credentials in the request's headers to the proxy alone."""
    from dataclasses import replace

    assert sent.route.proxy is not None
    headers = (("Proxy-Authorization", to_header_text(credentials)),)
    proxy = replace(sent.route.proxy, headers=headers)
    sent.route = derive_route(sent.route, proxy=proxy)


# --- headers ---


@lru_cache(maxsize=64)
def _make_headers(fields: tuple[tuple[str, str], ...]) -> Headers:
    """Return the core's headers, cached because the engine compares header lines by identity.

    They were checked by requests' rules when the request was prepared. The core's rules are
    stricter, and a program may have added headers later, so all are checked here.
    """
    headers = Headers()
    headers._replace(
        [_make_field(name, value) for name, value in fields if not _is_skipped(name, value)]
    )
    return headers


def _is_skipped(name: object, value: object) -> bool:
    if value != _SKIP_HEADER:
        return False
    if to_header_text(name).lower() not in _SKIPPABLE:
        raise ValueError(
            "urllib3.util.SKIP_HEADER is for Accept-Encoding, Host and User-Agent, "
            f"not for {to_header_text(name)}"
        )
    return True


def _make_field(name: object, value: object) -> tuple[str, str]:
    # Trailing blanks are not part of a value (RFC 9110, section 5.5). HTTP/2 forbids them, and
    # libcurl removes a header whose value is blank.
    name, text = to_header_text(name), to_header_text(value).rstrip(" \t")
    return name, without_userinfo(name, text) if "@" in text else text


def to_header_text(text: object) -> str:
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


def _to_headers(headers: Any) -> Headers:
    store = getattr(headers, "_store", None)
    fields = tuple(headers.items() if store is None else store.values())
    return _make_headers(fields)


# --- the body ---


def _to_body(request: PreparedRequest) -> Body | None:
    """Return the body in the core's terms.

    Raises:
        InvalidHeader: its Content-Length is not a number.
        InvalidMethod: the method cannot have a body.
    """
    body = request.body
    if isinstance(body, str):
        body = body.encode()
    if request.method == "HEAD" and body:
        raise InvalidMethod("a HEAD request cannot have a body")
    if isinstance(body, bytes):
        return BytesBody(body) if body or request.method != "GET" else None
    value = to_header_text(request.headers.get("Content-Length", ""))
    length = parse_length(value)
    if value and length is None:
        raise InvalidHeader(f"Content-Length must be a number of bytes, not {value!r:.50}")
    opened = open_body(_to_bytes_body(body), length or 0)
    if length is None:
        opened.length = None  # chunked
    return opened


def _to_bytes_body(body: Any) -> Any:
    """Return a body whose pieces are bytes; text is sent as UTF-8."""
    if isinstance(body, (io.TextIOBase,)):
        return _UTF8Reader(body)
    if hasattr(body, "read") or isinstance(body, (bytearray, memoryview)):
        return body
    return (piece.encode() if isinstance(piece, str) else piece for piece in body)


class _UTF8Reader:
    """A text file, read as UTF-8."""

    def __init__(self, file: io.TextIOBase) -> None:
        self._file = file
        self.tell, self.seek = file.tell, file.seek

    def read(self, size: int = -1) -> bytes:
        """Return the next piece."""
        text: str = self._file.read(size if size < 0 else max(1, size // 4))
        return text.encode()


# --- the files in a body; `utils` exposes these functions ---


def super_len(o: Any) -> int:
    """Return how many bytes of a body are left to read, or 0 if that is unknown.

    A string counts as UTF-8. For other objects, it is the first of len(), `.len`, the file size and
    the position of the end that they have, minus the current position.
    """
    total: int | None = None
    position = 0
    if isinstance(o, str):
        o = o.encode()
    if hasattr(o, "__len__"):
        total = len(o)
    elif hasattr(o, "len"):
        total = o.len
    elif hasattr(o, "fileno"):
        total = _get_file_size(o)
    if hasattr(o, "tell"):
        try:
            position = o.tell()
        except OSError:  # a pipe: what is left is unknown
            position = total or 0
        else:
            if total is None and hasattr(o, "seek"):
                total = _get_end(o, position)
    return 0 if total is None else max(0, total - position)


def _get_file_size(file: Any) -> int | None:
    try:
        descriptor = file.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return None
    size = os.fstat(descriptor).st_size
    if "b" not in file.mode:
        warnings.warn(
            "The file is open in text mode, and its length in bytes may not be that of its text. "
            "Open it in binary mode.",
            FileModeWarning,
            stacklevel=3,
        )
    return size


def _get_end(file: Any, position: int) -> int:
    try:
        file.seek(0, os.SEEK_END)
        end = cast(int, file.tell())
        file.seek(position or 0)
    except OSError:
        return 0
    return end


def guess_filename(obj: object) -> str | None:
    """Return the last part of an object's `name`, unless it is a placeholder such as <stdin>."""
    name = getattr(obj, "name", None)
    if not name or not isinstance(name, (str, bytes)):
        return None
    marks = ("<", ">") if isinstance(name, str) else (b"<", b">")
    if name[:1] == marks[0] or name[-1:] == marks[1]:
        return None
    return cast(str, os.path.basename(name))


def rewind_body(prepared_request: PreparedRequest) -> None:
    """Seek a body back to its position before it was sent.

    Raises:
        UnrewindableBodyError: it cannot seek, or that position is unknown.
    """
    seek = getattr(prepared_request.body, "seek", None)
    position = prepared_request._body_position
    if seek is None or not isinstance(position, int):
        raise UnrewindableBodyError("Unable to rewind request body for redirect.")
    try:
        seek(position)
    except OSError as error:
        raise UnrewindableBodyError(
            "An error occurred when rewinding request body for redirect."
        ) from error


# --- time limits ---


def to_timeout(timeout: TimeoutInput) -> Timeout:
    """Return the core's time limits; the defaults for None.

    urllib3's total does not limit the whole exchange: it limits connecting and each wait for bytes.
    It is translated into these two limits.

    Raises:
        ValueError: it is not a timeout, or a limit is not positive.
    """
    try:
        if type(timeout) is tuple:  # because True is no timeout, but equals 1
            return _make_timeout(timeout, *map(type, timeout))
        return _make_timeout(timeout)
    except TypeError:  # cannot be hashed
        return _make_timeout.__wrapped__(timeout)


@lru_cache(maxsize=64, typed=True)
def _make_timeout(timeout: TimeoutInput, *types: type) -> Timeout:
    if timeout is None:
        return Timeout()
    if isinstance(timeout, Timeout):
        return timeout
    if isinstance(timeout, tuple):
        try:
            connect, read = timeout
            return Timeout(
                connect=check_seconds("connect", connect), read=check_seconds("read", read)
            )
        except ValueError:
            raise ValueError(
                f"Invalid timeout {timeout}. Pass a (connect, read) timeout tuple, "
                "or a single float to set both timeouts to the same value."
            ) from None
    if hasattr(timeout, "_connect"):
        return _from_urllib3(cast("urllib3.Timeout", timeout))
    seconds = check_seconds("connect", timeout)
    return Timeout(connect=seconds, read=seconds)


def start_countdown(timeout: TimeoutInput, spent: Timings | None) -> Callable[[], TimeoutInput]:
    """Return a function that returns the next hop's limits: all hops share one total."""
    if not isinstance(timeout, Timeout) or timeout.total is None:
        return lambda: timeout
    from dataclasses import replace

    end = monotonic() + timeout.total - (0 if spent is None else spent.queue + spent.total)
    return lambda: replace(timeout, total=max(end - monotonic(), _MIN_SECONDS))


def check_seconds(name: str, value: Any) -> float | None:
    """Return a limit as a number.

    Raises:
        ValueError: it is not a positive, finite number.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("Timeout cannot be a boolean value. It must be an int, float or None.")
    try:
        seconds = float(value)
        is_positive = value > 0
    except (OverflowError, TypeError, ValueError):
        raise ValueError(
            f"Timeout value {name} was {value}, but it must be an int, float or None."
        ) from None
    if not math.isfinite(seconds):
        raise ValueError(f"Timeout value {name} was {value}, but it must be a finite number.")
    if not is_positive:
        raise ValueError(
            f"Attempted to set {name} timeout to {value}, but the timeout cannot be set to a "
            "value less than or equal to 0."
        )
    return seconds


def _from_urllib3(timeout: urllib3.Timeout) -> Timeout:
    total = _to_seconds(timeout.total)
    connect = _to_seconds(timeout._connect)
    read = _to_seconds(timeout._read)  # the property read_timeout needs an open connection
    return Timeout(connect=_get_smaller(connect, total), read=_get_smaller(read, total))


def _to_seconds(value: object) -> float | None:
    if value is None:
        return None
    import socket

    # urllib3 has a sentinel for the default.
    return float(value) if isinstance(value, (int, float)) else socket.getdefaulttimeout()


def _get_smaller(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


# --- transports and numbers ---


def get_ip_version() -> Literal[4, 6] | None:
    """Return 4 when the program has switched IPv6 off in urllib3, as many do, else None."""
    module = sys.modules.get(_URLLIB3)
    if module is None:
        return None
    if not getattr(module, "HAS_IPV6", True):
        return 4
    family = getattr(module, "allowed_gai_family", None)
    # Call it only if the program has replaced it.
    if family is not None and getattr(family, "__module__", _URLLIB3) != _URLLIB3:
        return _VERSIONS.get(int(family()))
    return None


def pass_numbers_on(response: Response, following: PreparedRequest) -> None:
    """Pass the attempt numbers of a response to the request for its redirect."""
    received = getattr(response.raw, "received", None)  # None for another library's pool
    if received is not None:
        following.__dict__[_NUMBERS] = get_attempt_numbers(received.request)


def continue_numbering(request: PreparedRequest, sent: ClientRequest) -> None:
    """Continue the attempt numbers of the earlier hops; sending the request again restarts them."""
    numbers = request.__dict__.pop(_NUMBERS, None)
    if numbers is not None:
        share_attempt_numbers(sent, numbers)
