"""What `response.raw` is: the body as a file, and the head in urllib3's terms.

Code written for requests reads bodies from here, and looks up what the response itself does not
say: repeated headers, the peer's address. It also puts something of its own in place: a file around
`_fp`, another read(). All of it is made when it is asked for.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

from curlhttp._engine.run import run_sync
from curlhttp._models.decoding import CODECS, ContentDecoder, parse_codings
from curlhttp._models.response import read_json
from curlhttp.exceptions import ContentDecodingError, RequestException
from curlhttp.requests._response_head import Head

if TYPE_CHECKING:
    import socket

    import urllib3

    from curlhttp.requests._original_response import Connection, Socket
    from curlhttp.requests._types import AnyRetry

__all__ = ["ForeignDecoder", "RawHead", "RawResponse"]


# --- The head of a response in the terms of http.client and urllib3, made when it is asked for ---
#
# What is an attribute there is one here once somebody has asked for it: it may be changed and set.

_REDIRECTS = (301, 302, 303, 307, 308)


_COPIED = frozenset({"headers", "reason", "status"})  # by what builds a requests' Response


class RawHead(Head):
    """Show a response's head as urllib3 does; the base of RawResponse."""

    _retries: Any = None

    @property
    def is_as_received(self) -> bool:
        """Return whether nobody can have changed what a response is built from."""
        return _COPIED.isdisjoint(self.__dict__)

    @cached_property
    def version_string(self) -> str:
        """Return the version as it was received, such as "HTTP/1.1"."""
        return self.received.http_version

    @cached_property
    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields, repeated ones apart (getlist)."""
        from urllib3 import HTTPHeaderDict

        headers = HTTPHeaderDict()
        for name, value in self.received.headers.multi_items():
            headers.add(name, value)
        return headers

    def getheaders(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a field, joined where repeated, or the default."""
        return self.headers.get(name, default)

    def info(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    @cached_property
    def _request_url(self) -> str:
        return self.received.request.url.target

    @property
    def url(self) -> str:
        """Return the request target."""
        return self._request_url

    @url.setter
    def url(self, url: str) -> None:
        self._request_url = url

    def geturl(self) -> str:
        """Return the request target."""
        return self.url

    @property
    def retries(self) -> AnyRetry:
        """Return the Retry as it stood after this response."""
        if self._retries is None:
            from curlhttp.requests._retries import as_retries

            self._retries = as_retries(0)
        return self._retries

    @retries.setter
    def retries(self, retries: AnyRetry) -> None:
        self._retries = retries

    @property
    def sets_cookies(self) -> bool:
        """Return whether there is a Set-Cookie, without reading the fields."""
        return self.received.sets_cookies

    def get_redirect_location(self) -> str | bool | None:
        """Return where a redirect leads, or None; False for what is no redirect."""
        return self.headers.get("location") if self.status in _REDIRECTS else False


PIECE = 64 * 1024  # bytes
_READING = frozenset({"read", "read1", "read_chunked", "stream"})


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
    _file: Any = None  # what was put in place of the wire
    _body: bytes | None = None  # what `data` keeps
    _decoder: ContentDecoder | ForeignDecoder | None = None
    _is_finished = False
    _is_spent = False  # whole() gave it away
    _fp_bytes_read = 0
    _length: int | None = None  # as it was set, and not told by the header

    # the body

    @cached_property
    def _wire(self) -> Any:
        from curlhttp.requests._original_response import Wire

        file = getattr(self.received, "file", None)  # on a socket, after an upgrade
        return file or Wire(self.received, self._is_spent)

    @cached_property
    def _original_response(self) -> Any:
        return self._wire

    @property
    def _fp(self) -> Any:
        """Return the file that the bytes come from; caches put one of their own around it."""
        return self._wire if self._file is None else self._file

    @_fp.setter
    def _fp(self, body: Any) -> None:
        self._file = body
        self._decoder, self._is_finished = None, False

    def whole(self) -> bytes | None:
        """Return what is left of the body if it is in memory, and has no coding to undo; else None.

        It counts as read then. It is not for who put something of their own in the bytes' way.
        """
        received, own = self.received, self.__dict__
        content: bytes | None = received._content
        if content is None or "\ncontent-encoding" in received._head.lower:
            return None
        if len(own) > 1:
            if self._file is not None or not _READING.isdisjoint(own):
                return None
            if "_wire" in own or self._is_spent:
                content = self._wire.read()
                self._fp_bytes_read += len(content)
        self._is_spent = True
        return content

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
            self._body = data
        return data

    def _decodes(self, decode_content: bool | None) -> bool:
        return self.decode_content if decode_content is None else decode_content

    def _read(self, amt: int | None, decodes: bool) -> bytes:
        if not decodes or not self._set_decoder():
            return self._as_it_came(amt)
        body = io.BytesIO()
        while (amt is None or body.tell() < amt) and (
            piece := self._next(PIECE if amt is None else amt - body.tell())
        ):
            body.write(piece)
        return body.getvalue()

    def _as_it_came(self, amt: int | None, some: bool = False) -> bytes:
        """Return the next amt bytes of the file, or some of them; at its end it is closed."""
        file = self._fp
        if getattr(file, "closed", False):
            return b""
        if some:
            from curlhttp.requests._original_response import read_some

            data = read_some(file, amt or PIECE)
        else:
            data = file.read() if amt is None else file.read(amt)
        if not data and amt != 0:
            file.close()
        self._fp_bytes_read += len(data)
        return data

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
        elif not hasattr(self._decoder, "take"):  # a user put it there
            self._decoder = ForeignDecoder(self._decoder)
        return True

    def _name_request(self, error: RequestException) -> None:
        error.request, error.request_sent = self.received.request, True

    def _next(self, limit: int) -> bytes:
        """Return up to limit decoded bytes, b"" at the end."""
        decoder = self._decoder
        assert decoder is not None
        try:
            while not (piece := decoder.take(limit)) and not self._is_finished:
                data = self._as_it_came(PIECE, some=True)
                if data:
                    decoder.feed(data)
                else:
                    self._is_finished = True
                    decoder.finish()
        except RequestException as error:
            self._name_request(error)
            raise
        return piece

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
        if amt is not None and amt <= 0:
            amt = None
        if self.chunked or (amt is None and "read" not in self.__dict__):
            yield from self.read_chunked(amt, decode_content=decode_content)
            return
        # By the method that users may have put something in place of, and that may swallow a piece.
        while (piece := self.read(amt=amt, decode_content=decode_content)) or not self.closed:
            if piece:
                yield piece

    def read_chunked(
        self, amt: int | None = None, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        """Give the body in pieces as they come, of amt bytes at most.

        Raises:
            RequestException: the body broke off, is corrupt or too late.
        """
        decodes = self._decodes(decode_content)
        while piece := self._read_some(amt, decodes):
            yield piece

    def _read_some(self, amt: int | None, decodes: bool) -> bytes:
        if decodes and self._set_decoder():
            return self._next(amt or PIECE)
        return self._as_it_came(amt, some=True)

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        """Return what is there next, at most amt bytes unless that is None or negative."""
        if amt == 0:
            return b""
        wanted = None if amt is None or amt < 0 else amt
        return self._read_some(wanted, self._decodes(decode_content))

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
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        """Give the lines, with their ends and the content coding undone."""
        begun: list[bytes] = []  # of a line that may be long
        for piece in self.stream(None, decode_content=True):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                yield b"".join((*begun, end, b"\n"))
                begun.clear()
            begun.append(rest)
        if line := b"".join(begun):
            yield line

    @property
    def data(self) -> bytes:
        """Return the body, read as the attribute decode_content says."""
        return self.read(cache_content=True) if self._body is None else self._body

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
        if self._is_spent and self._file is None and not self._fp_bytes_read:
            return len(self.received._content or b"")  # not counted: few ask
        return self._fp_bytes_read

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

        length = content_length(self.received.headers) if self._length is None else self._length
        return None if length is None else length - self.tell()

    @length_remaining.setter
    def length_remaining(self, length: int | None) -> None:
        """Take what caches say of a body that they put in place; it is read to its end anyway."""
        self._length = None if length is None else length + self.tell()

    # the end

    @property
    def closed(self) -> bool:
        """Return whether the body was read to its end or given up."""
        from curlhttp.requests._original_response import is_closed

        return is_closed(self._fp)

    def isclosed(self) -> bool:
        """Return whether the body was read to its end or given up."""
        return self.closed

    def close(self) -> None:
        """Give up the rest of the body."""
        self._decoder, self._is_finished = None, True
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
        from curlhttp.requests._original_response import Connection

        return None if self.closed else Connection(self.received)

    connection = _connection

    @property
    def sock(self) -> socket.socket | Socket:
        """Return what answers getpeername() and getsockname()."""
        from curlhttp.requests._original_response import socket_of

        return socket_of(self.received)


io.IOBase.register(RawResponse)  # its __del__ would cost more than the rest of it


# --- Decoders that users put in place of `raw._decoder`, as Google does to hash what came coded ---

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
