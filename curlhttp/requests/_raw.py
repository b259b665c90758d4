"""What `response.raw` is: the body as a file, and the head in urllib3's terms.

Code written for requests reads bodies from here, and looks up what the response itself does not
say: repeated headers, the peer's address. All of it is made when it is asked for.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from curlhttp._models.decoding import ContentDecoder, parse_codings
from curlhttp._models.response import read_json
from curlhttp._run import run_sync
from curlhttp.exceptions import RequestException
from curlhttp.requests._raw_head import RawHead

if TYPE_CHECKING:
    from curlhttp.requests._wire import Connection, OriginalResponse, Socket

__all__ = ["RawResponse"]

PIECE = 64 * 1024  # bytes


class RawResponse(RawHead):
    """Stand in for urllib3's HTTPResponse.

    Args:
        received: the response that the engine gave, its content coding not undone; whole, or
            streamed with its body on the wire.

    Attributes:
        decode_content: what read() and stream() do unless they are told: undo the content coding.
    """

    auto_close = True
    decode_content = False
    enforce_content_length = True
    strict = 0
    _body: Any = None
    _decoder: ContentDecoder | None = None
    _ready = b""  # decoded, and not asked for yet
    _is_finished = False
    _is_spent = False  # whole() gave it away
    _told = 0

    # the body

    @property
    def _fp(self) -> Any:
        """Return the file that the bytes come from; caches put one of their own around it."""
        if self._body is None:
            from curlhttp.requests._wire import Wire

            self._body = Wire(self.received, self._is_spent)
        return self._body

    @_fp.setter
    def _fp(self, body: Any) -> None:
        self._body = body
        self._decoder, self._is_finished = None, False

    def whole(self) -> bytes | None:
        """Return the body if it is in memory, untouched, and has no coding to undo; else None.

        It counts as read then.
        """
        received = self.received
        if (
            self._body is not None
            or self._is_spent
            or received._content is None
            or "\ncontent-encoding" in received._head.lower
        ):
            return None
        self._is_spent = True
        return received._content

    def read(
        self,
        amt: int | None = None,
        decode_content: bool | None = None,
        cache_content: bool = False,
    ) -> bytes:
        """Return the next amt bytes, fewer at the end; all of them for None.

        Args:
            amt: bytes.
            decode_content: undo the content coding; None for what the attribute says.
            cache_content: keep all of it for `data`.

        Raises:
            RequestException: the body broke off, is corrupt or too late.
        """
        if amt is not None and amt < 0:
            amt = None
        data = self._read(amt, self._decodes(decode_content))
        if cache_content:
            self._data = data
        return data

    def _decodes(self, decode_content: bool | None) -> bool:
        return self.decode_content if decode_content is None else decode_content

    def _read(self, amt: int | None, decodes: bool) -> bytes:
        if not decodes or not self._set_decoder():
            data: bytes = self._fp.read() if amt is None else self._fp.read(amt)
            self._told += len(data)
            return data
        body = io.BytesIO()
        while (amt is None or body.tell() < amt) and (
            piece := self._next(PIECE if amt is None else amt - body.tell())
        ):
            body.write(piece)
        return body.getvalue()

    def _set_decoder(self) -> bool:
        if self._decoder is None:
            try:
                coded = parse_codings(self.received.headers.get_list("content-encoding"))
            except RequestException as error:
                self._name_request(error)
                raise
            if not coded:
                return False
            self._decoder = ContentDecoder(coded)
        return True

    def _name_request(self, error: RequestException) -> None:
        error.request, error.request_sent = self.received.request, True

    def _next(self, limit: int) -> bytes:
        """Return up to limit decoded bytes, b"" at the end."""
        from curlhttp.requests._wire import read_some

        decoder = self._decoder
        assert decoder is not None
        try:
            while not self._is_finished:
                if piece := decoder.take(limit):
                    return piece
                data = read_some(self._fp, PIECE)
                if not data:
                    self._is_finished = True
                    decoder.finish()
                    break
                self._told += len(data)
                decoder.feed(data)
        except RequestException as error:
            self._name_request(error)
            raise
        return b""

    def stream(
        self, amt: int | None = PIECE, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        """Give the body in pieces of amt bytes; a chunked one as it comes, at most amt at once.

        Args:
            amt: bytes; None for pieces as they come.
            decode_content: undo the content coding; None for what the attribute says.

        Raises:
            RequestException: the body broke off, is corrupt or too late.
        """
        decodes = self._decodes(decode_content)
        if amt is not None and amt <= 0:
            amt = None
        as_it_comes = amt is None or self.chunked
        while piece := self._read_some(amt, decodes) if as_it_comes else self._read(amt, decodes):
            yield piece

    read_chunked = stream

    def _read_some(self, amt: int | None, decodes: bool) -> bytes:
        if decodes and self._set_decoder():
            return self._next(amt or PIECE)
        from curlhttp.requests._wire import read_some

        data = read_some(self._fp, amt or PIECE)
        self._told += len(data)
        return data

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        """Return what is there next, at most amt bytes."""
        return self._read_some(amt, self._decodes(decode_content))

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill a buffer, and return how many bytes that took."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readline(self, size: int = -1) -> bytes:
        """Return the next line, with its end."""
        line = bytearray()
        while (size < 0 or len(line) < size) and (char := self.read(1)):
            line += char
            if char == b"\n":
                break
        return bytes(line)

    def readlines(self, hint: int = -1) -> list[bytes]:
        """Return the lines that are left."""
        return list(iter(self.readline, b""))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    @property
    def data(self) -> bytes:
        """Return the body, read as the attribute decode_content says."""
        if not hasattr(self, "_data"):
            self._data = self.read()
        return self._data

    def json(self) -> Any:
        """Return the body read as JSON.

        Raises:
            JSONDecodeError: it is not JSON.
        """
        return read_json(self.data, {}, self)

    @property
    def text(self) -> str:
        """Return the body as text, read as UTF-8."""
        return self.data.decode("utf-8", "replace")

    def tell(self) -> int:
        """Return how many bytes of the body, as it is on the wire, were read."""
        return self._told

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False

    def supports_chunked_reads(self) -> bool:
        """Return True."""
        return True

    def flush(self) -> None:
        """Do nothing."""

    def _update_chunk_length(self) -> None:
        """Do nothing: libcurl has the chunks. CacheControl wants to put its own in place."""

    @property
    def length_remaining(self) -> int | None:
        """Return how many bytes are to come, or None when that is not known."""
        from curlhttp._policy.resume import content_length

        length = content_length(self.received.headers)
        return None if length is None else length - self._told

    @length_remaining.setter
    def length_remaining(self, length: int | None) -> None:
        """Take what caches say of a body that they put in place; it is read to its end anyway."""

    # the end

    @property
    def closed(self) -> bool:
        """Return whether the body was read to its end or given up."""
        return bool(self._fp.closed)

    def isclosed(self) -> bool:
        """Return whether the body was read to its end or given up."""
        return self.closed

    def close(self) -> None:
        """Give up the rest of the body."""
        self._is_finished = True
        self._fp.close()
        self.received.close()  # what is around it may not pass that on

    def release_conn(self) -> None:
        """Do nothing: a connection goes back by itself, when its body was read."""

    def drain_conn(self) -> None:
        """Do without the rest of the body: read a little to save the connection, else close it."""
        with suppress(RequestException):  # nobody wanted it
            run_sync(self.received.discard)
        self.close()

    # the connection

    @property
    def _connection(self) -> Connection | None:
        from curlhttp.requests._wire import Connection

        return None if self.closed else Connection(self.received)

    connection = _connection

    @property
    def _original_response(self) -> OriginalResponse:
        from curlhttp.requests._wire import OriginalResponse

        return OriginalResponse(self)

    @property
    def sock(self) -> Socket:
        """Return what answers getpeername() and getsockname()."""
        from curlhttp.requests._wire import Socket

        return Socket(self.received)


io.IOBase.register(RawResponse)  # its __del__ would cost more than the rest of it
