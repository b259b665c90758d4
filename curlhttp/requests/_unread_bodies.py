"""Keep the start of bodies that nobody asked for: of followed redirects and of challenges.

A little of such a body is kept, as it came. It is decoded when somebody looks, and no further than
that: a few hundred bytes may decode to gigabytes, and some bodies never end.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from curlhttp._models.decoding import ContentDecoder, parse_codings
from curlhttp.exceptions import ChunkedEncodingError, ContentDecodingError

if TYPE_CHECKING:
    from curlhttp.requests.models import ResponseBody

__all__ = ["content_of", "expect", "expect_hop", "expect_no_more", "goes_on", "set_aside", "use_up"]


_KEPT = 64 * 1024  # bytes, on the wire and decoded; the engine stops there, too

# --- what is expected ---

_STAYS, _GOES_ON, _HOP = range(3)
# Past the adapters: they have requests' arguments, which do not say whether redirects are followed.
_expected: ContextVar[int] = ContextVar("expected", default=_STAYS)
expect_no_more = _expected.reset


def expect(follows: bool) -> Token[int]:
    """Say that redirects will be followed, or not, until expect_no_more."""
    is_followed = follows or _expected.get() == _HOP
    return _expected.set(_GOES_ON if is_followed else _STAYS)


def expect_hop() -> Token[int]:
    """Say that the next send is for a hop, until expect_no_more."""
    return _expected.set(_HOP)


def goes_on() -> bool:
    """Return whether the response of the adapter at work is followed if it redirects."""
    return _expected.get() == _GOES_ON


# --- what becomes of the body ---


def set_aside(response: ResponseBody) -> None:
    """Keep a little of a body, as it came, and let go of the connection.

    Where the response leads is known, whatever becomes of its body: that may be broken.

    Raises:
        RequestException: the server is silent for too long.
    """
    if not hasattr(response, "_aside"):
        use_up(response)
        response.close()
        return
    if response._content is False and response._aside is None and not response._content_consumed:
        pieces: list[bytes] = []
        with suppress(ChunkedEncodingError, ContentDecodingError):
            _read(response, pieces)
        response._has_failed = False
        _keep(response, pieces)
    response.close()


def use_up(response: ResponseBody) -> None:
    """Read a body to its end, and keep it, as far as that goes."""
    with suppress(ChunkedEncodingError, ContentDecodingError, RuntimeError):
        _ = response.content


def content_of(response: ResponseBody) -> bytes:
    """Return what is known of a body that is set aside, or is to be, decoded.

    Raises:
        RequestException: it is read now, and is broken.
    """
    reads_now = response._aside is None
    if reads_now:
        pieces: list[bytes] = []
        _read(response, pieces)
        _keep(response, pieces)
    data: bytes = response._aside or b""
    if not hasattr(response.raw, "stream"):  # as in iter_content: then it is what it is
        return data
    decoded = bytearray()
    try:
        _decode(data, str(response.headers.get("content-encoding", "")), decoded)
    except ContentDecodingError as error:
        if reads_now and len(data) < _KEPT:
            raise response._error_of(error) from None
    return bytes(decoded)


def _read(response: ResponseBody, pieces: list[bytes]) -> None:
    if response.raw is None:
        return
    size = 0
    for piece in response._pieces(_KEPT, decodes=False):
        pieces.append(piece)
        size += len(piece)
        if size >= _KEPT:
            break


def _keep(response: ResponseBody, pieces: list[bytes]) -> None:
    response._aside = b"".join(pieces)[:_KEPT]
    response.close()
    response._content_consumed = False  # it can be asked for


def _decode(data: bytes, coding: str, decoded: bytearray) -> None:
    """Undo a coding, and stop when there is enough.

    Raises:
        ContentDecodingError: it is cut or corrupt; what came before that is there.
    """
    names = parse_codings([coding])
    if not names:
        decoded += data
        return
    decoder = ContentDecoder(names)
    decoder.feed(data)
    while len(decoded) < _KEPT and (piece := decoder.take(_KEPT - len(decoded))):
        decoded += piece
    if len(decoded) < _KEPT:
        decoder.finish()
