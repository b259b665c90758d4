"""Decoders that users put in place of `raw._decoder`, as Google does to hash what came coded."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from curlhttp._models.decoding import CODECS
from curlhttp.exceptions import ContentDecodingError

__all__ = ["ForeignDecoder"]

_STEP = 64 * 1024  # bytes that one step may give, however few are asked for


class ForeignDecoder:
    """Let a decoder of urllib3's kind do what a ContentDecoder does.

    Args:
        decoder: has `decompress` and `flush`; if it has `has_unconsumed_tail` too, as since
            urllib3 2.6, `decompress` takes a `max_length`.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._fed = b""
        self._ready = BytesIO()

    def feed(self, data: bytes) -> None:
        """Give the next wire bytes, when take() has given all of those before."""
        self._fed = data

    def take(self, limit: int) -> bytes:
        """Give at most `limit` decoded bytes, b"" when more input is needed or none is left."""
        piece = self._ready.read(limit)
        if not piece:
            self._ready = BytesIO(self._step(max(limit, _STEP)))
            piece = self._ready.read(limit)
        return piece

    def _step(self, limit: int) -> bytes:
        data, self._fed = self._fed, b""
        has_more = getattr(self._decoder, "has_unconsumed_tail", None)
        if not data and not has_more:
            return b""
        return self._call("decompress", data, **({} if has_more is None else {"max_length": limit}))

    def finish(self) -> None:
        """Fetch what the decoder kept back until the end."""
        # Brotli's takes all input while it still has output.
        self._ready = BytesIO(self._call("decompress", b"") + self._call("flush"))

    def _call(self, name: str, *args: Any, **kwargs: Any) -> bytes:
        try:
            data: bytes = getattr(self._decoder, name)(*args, **kwargs)
        except tuple(codec().error for codec in CODECS.values()) as error:
            raise ContentDecodingError(f"the body is corrupt: {error}") from error
        return data
