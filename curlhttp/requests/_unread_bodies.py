"""Keep the start of bodies that the program may never read: of followed redirects and challenges.

Up to 64 KiB of such a body are kept undecoded. They are decoded on first use, again up to 64 KiB,
because a few hundred bytes may decode to gigabytes, and some bodies never end.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from curlhttp._http.decoding import ContentDecoder, parse_codings
from curlhttp.exceptions import ChunkedEncodingError, ContentDecodingError

if TYPE_CHECKING:
    from curlhttp.requests.models import Response

_KEPT = 64 * 1024  # bytes, encoded and decoded; the engine stops there, too

# --- whether redirects are followed ---

_NOT_FOLLOWED, _FOLLOWED, _HOP = range(3)
# A context variable, because adapters have requests' arguments, which do not include this.
_expected: ContextVar[int] = ContextVar("expected", default=_NOT_FOLLOWED)
reset_expected = _expected.reset


def expect_redirects(follows: bool) -> Token[int]:
    """Note whether redirects will be followed, until reset_expected."""
    is_followed = follows or _expected.get() == _HOP
    return _expected.set(_FOLLOWED if is_followed else _NOT_FOLLOWED)


def expect_hop() -> Token[int]:
    """Note that the next send is for a hop, until reset_expected."""
    return _expected.set(_HOP)


def follows_redirects() -> bool:
    """Return whether the current response is followed if it redirects."""
    return _expected.get() == _FOLLOWED


# --- the body ---


def keep_start(response: Response) -> None:
    """Keep the start of a body undecoded, and release the connection.

    A broken body is not an error here, because only the head is needed.

    Raises:
        RequestException: a time limit ran out.
    """
    if not hasattr(response, "_kept_start"):
        read_to_end(response)
        response.close()
        return
    if (
        response._content is False
        and response._kept_start is None
        and not response._content_consumed
    ):
        pieces: list[bytes] = []
        with suppress(ChunkedEncodingError, ContentDecodingError):
            _read(response, pieces)
        response._has_failed = False
        _keep(response, pieces)
    response.close()


def read_to_end(response: Response) -> None:
    """Read a body to its end and keep it, unless it is broken."""
    with suppress(ChunkedEncodingError, ContentDecodingError, RuntimeError):
        _ = response.content


def read_unfollowed(response: Response) -> None:
    """Read the body of a redirect that is not followed, and release the connection.

    As in requests, the body is empty if its coding is corrupt.

    Args:
        response: buffered.

    Raises:
        ChunkedEncodingError: the body broke off.
        ContentDecodingError: its coding is truncated.
    """
    try:
        with suppress(RuntimeError):  # a hook has read it
            _ = response.content
    except ContentDecodingError:
        if getattr(response.raw, "_is_finished", False):  # truncated
            raise
    finally:
        response.close()


def decode_start(response: Response) -> bytes:
    """Return the kept start of a body, decoded; read it now if it was not kept yet.

    Raises:
        RequestException: it was read now, and is broken.
    """
    reads_now = response._kept_start is None
    if reads_now:
        pieces: list[bytes] = []
        _read(response, pieces)
        _keep(response, pieces)
    data: bytes = response._kept_start or b""
    if not hasattr(response.raw, "stream"):  # as in iter_content: not decoded
        return data
    decoded = bytearray()
    try:
        _decode(data, str(response.headers.get("content-encoding", "")), decoded)
    except ContentDecodingError as error:
        if reads_now and len(data) < _KEPT:
            raise response._to_requests_error(error) from None
    return bytes(decoded)


def _read(response: Response, pieces: list[bytes]) -> None:
    if response.raw is None:
        return
    size = 0
    for piece in response._pieces(_KEPT, decodes=False):
        pieces.append(piece)
        size += len(piece)
        if size >= _KEPT:
            break


def _keep(response: Response, pieces: list[bytes]) -> None:
    response._kept_start = b"".join(pieces)[:_KEPT]
    response.close()
    response._content_consumed = False  # it can still be read


def _decode(data: bytes, coding: str, decoded: bytearray) -> None:
    """Append the decoded data to `decoded`, up to the limit.

    Raises:
        ContentDecodingError: the data is truncated or corrupt; `decoded` has the part before that.
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
