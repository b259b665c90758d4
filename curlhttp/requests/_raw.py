"""`response.raw`: the body as a file, and the head with urllib3's attributes.

Code written for requests reads bodies from here, and looks up what the response itself does not
have: repeated headers, the peer's address. It also replaces parts: it wraps `_fp`, or sets another
read(). Attributes are computed on first use.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from curlhttp._http.decoding import CODECS, ContentDecoder, parse_codings
from curlhttp._http.exiting import check_running
from curlhttp._http.json_reading import read_json
from curlhttp._http.response import PARTIAL_CONTENT, REDIRECT_STATUSES
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import ContentDecodingError, RequestException
from curlhttp.requests._cached import cached_property
from curlhttp.requests._headers import Head

if TYPE_CHECKING:
    import socket

    import urllib3

    from curlhttp.requests._original_response import Connection, Socket
    from curlhttp.requests._types import AnyRetry

_CHUNK = 64 * 1024  # bytes
_COPIED = frozenset({"headers", "reason", "status"})  # into a requests' Response
_READING = frozenset({"read", "read1", "read_chunked", "stream"})


class RawResponse(Head):
    """Stand in for urllib3's HTTPResponse.

    Args:
        received: the core's response, not decoded; buffered or streamed.

    Attributes:
        decode_content: whether read() and stream() decode by default.
    """

    auto_close = True
    decode_content = False
    enforce_content_length = True
    strict = 0
    _file: Any = None  # a replacement of the body
    _body: bytes | None = None  # cached by `data`
    _decoder: ContentDecoder | DecoderAdapter | None = None
    _is_finished = False
    _is_consumed = False  # read_buffered() returned it
    _fp_bytes_read = 0
    _length: int | None = None  # if set; else the header counts

    # --- the head ---

    @property
    def is_unchanged(self) -> bool:
        """Return whether the attributes that a response is built from are unchanged."""
        return _COPIED.isdisjoint(self.__dict__)

    @cached_property
    def version_string(self) -> str:
        """Return the version as it was received, such as "HTTP/1.1"."""
        return self.received.http_version

    @cached_property
    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields; getlist() returns repeated ones separately."""
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
    def _request_url(self) -> str:  # urllib3's name, which requests-cache reads
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

    @cached_property
    def retries(self) -> AnyRetry:
        """Return the Retry as it stood after this response."""
        from curlhttp.requests._retries import to_retry

        return to_retry(0)

    @property
    def sets_cookies(self) -> bool:
        """Return whether there is a Set-Cookie, without reading the fields."""
        return self.received.sets_cookies

    def get_redirect_location(self) -> str | bool | None:
        """Return the Location of a redirect, or None; False for other statuses."""
        return self.headers.get("location") if self.status in REDIRECT_STATUSES else False

    # --- the body ---

    @cached_property
    def _wire(self) -> Any:
        check_running()
        from curlhttp.requests._original_response import OriginalResponse

        file = getattr(self.received, "file", None)  # on a socket, after an upgrade
        return file or OriginalResponse(self.received, self._is_consumed)

    @cached_property
    def _original_response(self) -> Any:
        return self._wire

    @property
    def _fp(self) -> Any:
        """Return the file that the bytes are read from; caches replace it with a wrapper."""
        return self._wire if self._file is None else self._file

    @_fp.setter
    def _fp(self, body: Any) -> None:
        self._file = body
        self._decoder, self._is_finished = None, False

    def read_buffered(self) -> bytes | None:
        """Return the rest of a body that is in memory and not encoded; else None.

        Afterwards the body counts as read. None, too, if a program replaced a reading method.
        """
        received, own = self.received, self.__dict__
        content: bytes | None = received._content
        if content is None or "\ncontent-encoding" in received._head.lower:
            return None
        if len(own) > 1:
            if self._file is not None or not _READING.isdisjoint(own):
                return None
            if "_wire" in own or self._is_consumed:
                content = self._wire.read()
                self._fp_bytes_read += len(content)
        self._is_consumed = True
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
            decode_content: decode the body; None for the attribute's value.
            cache_content: keep all of it for `data`.

        Raises:
            RequestException: the body broke off, is corrupt, or took too long.
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
            return self._read_coded(amt)
        body = io.BytesIO()
        while (amt is None or body.tell() < amt) and (
            piece := self._read_decoded(_CHUNK if amt is None else amt - body.tell())
        ):
            body.write(piece)
        return body.getvalue()

    def _read_coded(self, amt: int | None, some: bool = False) -> bytes:
        """Return the next amt bytes of the file, or some of them; close it at its end."""
        file = self._fp
        if getattr(file, "closed", False):
            return b""
        if some:
            from curlhttp.requests._original_response import read_some

            data = read_some(file, amt or _CHUNK)
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
                self._set_request(error)
                raise
            if not coded:
                return False
            self._decoder = ContentDecoder(coded)
        elif not hasattr(self._decoder, "take"):  # set by the program
            self._decoder = DecoderAdapter(self._decoder)
        return True

    def _set_request(self, error: RequestException) -> None:
        error.request, error.request_sent = self.received.request, True

    def _read_decoded(self, limit: int) -> bytes:
        """Return up to limit decoded bytes, b"" at the end."""
        decoder = self._decoder
        assert decoder is not None
        try:
            while not (piece := decoder.take(limit)) and not self._is_finished:
                data = self._read_coded(_CHUNK, some=True)
                if data:
                    decoder.feed(data)
                else:
                    self._is_finished = True
                    if self.status != PARTIAL_CONTENT:  # a part ends anywhere, as in requests
                        decoder.finish()
        except RequestException as error:
            self._set_request(error)
            raise
        return piece

    def stream(
        self, amt: int | None = _CHUNK, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        """Yield the body in pieces of amt bytes; a chunked one as it arrives, at most amt at once.

        Args:
            amt: bytes; None for pieces as they arrive.
            decode_content: decode the body; None for the attribute's value.

        Raises:
            RequestException: the body broke off, is corrupt, or took too long.
        """
        if amt is not None and amt <= 0:
            amt = None
        if self.chunked or (amt is None and "read" not in self.__dict__):
            yield from self.read_chunked(amt, decode_content=decode_content)
            return
        # By read(), which a program may have replaced, and which may return b"" before the end.
        while (piece := self.read(amt=amt, decode_content=decode_content)) or not self.closed:
            if piece:
                yield piece

    def read_chunked(
        self, amt: int | None = None, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        """Yield the body as it arrives, at most amt bytes at once.

        Raises:
            RequestException: the body broke off, is corrupt, or took too long.
        """
        decodes = self._decodes(decode_content)
        while piece := self._read_some(amt, decodes):
            yield piece

    def _read_some(self, amt: int | None, decodes: bool) -> bytes:
        if decodes and self._set_decoder():
            return self._read_decoded(amt or _CHUNK)
        return self._read_coded(amt, some=True)

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        """Return the bytes that are available, at most amt unless that is None or negative."""
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
        """Yield the decoded lines, with their ends."""
        begun: list[bytes] = []  # a list, because a line may be long
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
        """Return the body, decoded if decode_content is set."""
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
        """Return how many undecoded bytes of the body were read."""
        if self._is_consumed and self._file is None and not self._fp_bytes_read:
            return len(self.received._content or b"")  # not counted on the fast path
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
        """Do nothing, because libcurl removes the chunks. CacheControl replaces this method."""

    @property
    def length_remaining(self) -> int | None:
        """Return how many bytes are left, or None if unknown."""
        from curlhttp._features.download.resume import content_length

        length = content_length(self.received.headers) if self._length is None else self._length
        return None if length is None else length - self.tell()

    @length_remaining.setter
    def length_remaining(self, length: int | None) -> None:
        """Set the length of a replaced body, as caches do; it is read to its end in any case."""
        self._length = None if length is None else length + self.tell()

    # --- the end ---

    @property
    def closed(self) -> bool:
        """Return whether the body was read to its end or discarded."""
        from curlhttp.requests._original_response import is_closed

        return is_closed(self._fp)

    def isclosed(self) -> bool:
        """Return whether the body was read to its end or discarded."""
        return self.closed

    def close(self) -> None:
        """Discard the rest of the body."""
        self._decoder, self._is_finished = None, True
        self._fp.close()
        self.received.close()  # a wrapper may not forward close()

    def release_conn(self) -> None:
        """Do nothing: a connection returns to the pool automatically when its body was read."""

    def drain_conn(self) -> None:
        """Discard the rest of the body: read a little to keep the connection, else close it."""
        with suppress(RequestException):  # the body is not wanted
            run_sync(self.received.discard)
        self.close()

    # --- the connection ---

    @property
    def _connection(self) -> Connection | None:
        from curlhttp.requests._original_response import Connection

        return None if self.closed else Connection(self.received)

    connection = _connection

    @property
    def sock(self) -> socket.socket | Socket:
        """Return the socket or its stand-in: getpeername(), getsockname()."""
        from curlhttp.requests._original_response import get_socket

        return get_socket(self.received)


io.IOBase.register(RawResponse)  # registered, because inheriting its __del__ is slow


class DecoderAdapter:
    """Adapt a decoder with urllib3's interface to a ContentDecoder.

    Programs set one as `raw._decoder`, as Google's do to hash the encoded body.

    Args:
        decoder: has `decompress` and `flush`; with `has_unconsumed_tail`, as of
            urllib3 2.6, `decompress` takes a `max_length`.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._fed = b""
        self._ready = io.BytesIO()

    def feed(self, data: bytes) -> None:
        """Accept the next encoded bytes, after take() has returned all earlier output."""
        self._fed = data

    def take(self, limit: int) -> bytes:
        """Return at most `limit` decoded bytes, b"" if it needs more input or is at the end."""
        piece = self._ready.read(limit)
        if not piece:
            self._ready = io.BytesIO(self._step(max(limit, _CHUNK)))
            piece = self._ready.read(limit)
        return piece

    def _step(self, limit: int) -> bytes:
        data, self._fed = self._fed, b""
        has_more = getattr(self._decoder, "has_unconsumed_tail", None)
        if not data and not has_more:
            return b""
        return self._call("decompress", data, **({} if has_more is None else {"max_length": limit}))

    def finish(self) -> None:
        """Decode the rest of the decoder's output."""
        # Brotli's accepts all input while it still has output.
        self._ready = io.BytesIO(self._call("decompress", b"") + self._call("flush"))

    def _call(self, name: str, *args: Any, **kwargs: Any) -> bytes:
        try:
            data: bytes = getattr(self._decoder, name)(*args, **kwargs)
        except tuple(codec().error for codec in CODECS.values()) as error:
            raise ContentDecodingError(f"the body is corrupt: {error}") from error
        return data
