"""From a prepared request to the core's: URL, headers, time limits and body."""

from __future__ import annotations

import io
import math
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, cast

from curlhttp._engine.network import now
from curlhttp._models.body import BytesBody, open_body
from curlhttp._models.config import Transport, varied
from curlhttp._models.headers import Headers, check_method, without_userinfo
from curlhttp._models.request import Request as CoreRequest
from curlhttp._models.request import pack_fields
from curlhttp._models.timeout import Timeout
from curlhttp._models.timings import get_attempt_numbers, share_attempt_numbers
from curlhttp._models.url import PATH_SAFE, URL, bracketed, parse_url, quoted
from curlhttp.exceptions import InvalidHeader, InvalidMethod, InvalidProxyURL
from curlhttp.requests._unread_bodies import goes_on

if TYPE_CHECKING:
    import urllib3

    from curlhttp._models.body import Body
    from curlhttp._models.timings import Timings
    from curlhttp.requests import _types as t
    from curlhttp.requests._types import TimeoutInput
    from curlhttp.requests.models import PreparedRequest, Response

__all__ = [
    "as_pair",
    "ca_paths",
    "check_for",
    "check_seconds",
    "core_request",
    "go_on_numbering",
    "hand_numbers_on",
    "header_text",
    "ip_version",
    "proxy_url",
    "tell_proxy",
    "timeout_of",
    "url_of",
    "what_is_left",
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


# --- What requests takes as `timeout=`, in numbers ---

_NOTHING = 1e-3  # seconds: no limit can be 0


def as_pair(timeout: TimeoutInput) -> tuple[float | None, float | None, float | None]:
    """Return (connect, read, total) in seconds, None for no limit.

    urllib3's total is none of the whole exchange: it bounds the wait for the connection and each
    wait for bytes, so that is what becomes of it here.

    Raises:
        ValueError: it is none of these, or a limit is not positive.
    """
    if timeout is None:
        return None, None, None
    if isinstance(timeout, tuple):
        try:
            connect, read = timeout
            return check_seconds("connect", connect), check_seconds("read", read), None
        except ValueError:
            raise ValueError(
                f"Invalid timeout {timeout}. Pass a (connect, read) timeout tuple, "
                "or a single float to set both timeouts to the same value."
            ) from None
    if isinstance(timeout, Timeout):
        return timeout.connect, timeout.read, timeout.total
    if hasattr(timeout, "_connect"):
        return _of_urllib3(cast("urllib3.Timeout", timeout))
    seconds = check_seconds("connect", timeout)
    return seconds, seconds, None


def what_is_left(timeout: TimeoutInput, spent: Timings | None) -> Callable[[], TimeoutInput]:
    """Return what tells the limits of the next hop: a total is one of all hops together."""
    if not isinstance(timeout, Timeout) or timeout.total is None:
        return lambda: timeout
    end = monotonic() + timeout.total - (0 if spent is None else spent.queue + spent.total)
    return lambda: replace(timeout, total=max(end - monotonic(), _NOTHING))


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


def _of_urllib3(timeout: urllib3.Timeout) -> tuple[float | None, float | None, None]:
    total = _given(timeout.total)
    connect = _given(timeout._connect)
    read = _given(timeout._read)  # the property read_timeout is for connections that are there
    return _least(connect, total), _least(read, total), None


def _given(value: object) -> float | None:
    if value is None:
        return None
    # An object of its own stands for the default.
    return float(value) if isinstance(value, (int, float)) else socket.getdefaulttimeout()


def _least(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


# --- From requests' settings (verify, cert, proxy) to the core's ---


def proxy_url(url: str) -> str:
    """Return a proxy's URL with a scheme and a host.

    Raises:
        InvalidProxyURL: it has none.
    """
    text = url if "://" in url else f"http://{url}"
    host = text.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if not host or host.startswith(":") or host.endswith(":"):
        raise InvalidProxyURL(
            "Please check proxy URL. It is malformed and could be missing the host."
        )
    return text


def ip_version() -> Literal[4, 6] | None:
    """Return 4 when the program has switched IPv6 off in urllib3, as many do, else None."""
    module = sys.modules.get(_URLLIB3)
    if module is None:
        return None
    if not getattr(module, "HAS_IPV6", True):
        return 4
    family = getattr(module, "allowed_gai_family", None)
    # Only one that was put there by the program says something.
    if family is not None and getattr(family, "__module__", _URLLIB3) != _URLLIB3:
        return _VERSIONS.get(int(family()))
    return None


_URLLIB3 = "urllib3.util.connection"
_VERSIONS: dict[int, Literal[4, 6]] = {2: 4, 10: 6, 30: 6, 23: 6}  # by address family


def ca_paths(verify: t.VerifyInput) -> tuple[str | None, str | None]:
    """Return the file and the folder of authorities that verify= stands for.

    Raises:
        OSError: there is neither at that path.
    """
    if verify is True:
        import certifi

        return certifi.where(), None
    path = os.fspath(cast("str", verify))
    if not os.path.exists(path):
        raise OSError(f"Could not find a suitable TLS CA certificate bundle, invalid path: {path}")
    return (None, path) if os.path.isdir(path) else (path, None)


# --- Continue the attempt numbers of a request over the redirects of a Session ---

_NAME = "_numbers"


def hand_numbers_on(response: Response, following: PreparedRequest) -> None:
    """Let a hop know the numbers of the response that leads to it."""
    received = getattr(response.raw, "received", None)  # of another library's pool, there is none
    if received is not None:
        following.__dict__[_NAME] = get_attempt_numbers(received.request)


def go_on_numbering(request: PreparedRequest, sent: CoreRequest) -> None:
    """Number a hop's attempts after those before it; whoever sends it once more starts again."""
    numbers = request.__dict__.pop(_NAME, None)
    if numbers is not None:
        share_attempt_numbers(sent, numbers)
