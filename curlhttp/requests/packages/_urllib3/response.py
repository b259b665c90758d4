"""urllib3.response: a response around any file, for tests, mocks and caches that build one."""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from curlhttp._models.codecs import CODECS
from curlhttp._models.decoders import ContentDecoder, codings
from curlhttp.exceptions import ContentDecodingError
from curlhttp.requests.packages._urllib3._collections import HTTPHeaderDict
from curlhttp.requests.packages._urllib3.exceptions import (
    BodyNotHttplibCompatible,
    DecodeError,
    HTTPError,
    IncompleteRead,
    InvalidHeader,
    ProtocolError,
    ReadTimeoutError,
    ResponseNotChunked,
)
from curlhttp.requests.packages._urllib3.util.response import is_fp_closed

__all__ = ["BaseHTTPResponse", "HTTPResponse"]

_PIECE = 64 * 1024  # bytes


class BaseHTTPResponse(io.IOBase):
    """Hold the head of a response.

    Args:
        headers: a mapping, pairs or HTTPHeaderDict.
        status: the status code.
        version: 10, 11 or 20.
        version_string: such as "HTTP/1.1".
        reason: the reason phrase.
        decode_content: undo the content coding when the body is read.
        request_url: what was asked.
        retries: the Retry as it stood.
    """

    CONTENT_DECODERS = ["gzip", "x-gzip", "deflate", *sorted({"br", "zstd"} & CODECS.keys())]
    REDIRECT_STATUSES = [301, 302, 303, 307, 308]

    def __init__(
        self,
        *,
        headers: Any = None,
        status: int,
        version: int,
        version_string: str,
        reason: str | None,
        decode_content: bool,
        request_url: str | None,
        retries: Any = None,
    ) -> None:
        is_made = isinstance(headers, HTTPHeaderDict)
        self.headers: HTTPHeaderDict = headers if is_made else HTTPHeaderDict(headers)
        self.status = status
        self.version = version
        self.version_string = version_string
        self.reason = reason
        self.decode_content = decode_content
        self.retries = retries
        self._request_url = request_url
        self.chunked = "chunked" in self.headers.get("transfer-encoding", "").lower().split(",")

    def get_redirect_location(self) -> Any:
        """Return where the response redirects to, None if it does not say, False if it does not."""
        if self.status in self.REDIRECT_STATUSES:
            return self.headers.get("location")
        return False

    @property
    def url(self) -> str | None:
        """Return what was asked."""
        return self._request_url

    @url.setter
    def url(self, url: str | None) -> None:
        self._request_url = url

    def geturl(self) -> str | None:
        """Return what was asked."""
        return self.url

    def getheaders(self) -> HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    info = getheaders

    def getheader(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, joined where repeated, or the default."""
        return self.headers.get(name, default)


class HTTPResponse(BaseHTTPResponse):
    """Read a body from a file, undoing its content coding.

    Args:
        body: a file; text and bytes are all there is to read, by `data`.
        headers: see BaseHTTPResponse, for this and the others.
        status: the status code.
        version: 10, 11 or 20.
        version_string: such as "HTTP/1.1".
        reason: the reason phrase.
        preload_content: read the body now.
        decode_content: undo the content coding when the body is read.
        original_response: http.client's.
        pool: where the connection goes back to.
        connection: what the body comes from.
        msg: http.client's header fields.
        retries: the Retry as it stood.
        enforce_content_length: raise for a body that is shorter than announced.
        request_method: what was asked; a HEAD has no body.
        request_url: what was asked.
        auto_close: count as closed as soon as the file does.
        sock_shutdown: called by shutdown().

    Raises:
        InvalidHeader: there are two Content-Length that differ.
    """

    _fp: Any = None
    _body: Any = None
    _connection: Any = None
    _decoder: ContentDecoder | None = None
    _is_spent = False
    _told = 0
    auto_close = True

    def __init__(
        self,
        body: Any = "",
        headers: Any = None,
        status: int = 0,
        version: int = 0,
        version_string: str = "HTTP/?",
        reason: str | None = None,
        preload_content: bool = True,
        decode_content: bool = True,
        original_response: Any = None,
        pool: Any = None,
        connection: Any = None,
        msg: Any = None,
        retries: Any = None,
        enforce_content_length: bool = True,
        request_method: str | None = None,
        request_url: str | None = None,
        auto_close: bool = True,
        sock_shutdown: Any = None,
    ) -> None:
        super().__init__(
            headers=headers,
            status=status,
            version=version,
            version_string=version_string,
            reason=reason,
            decode_content=decode_content,
            request_url=request_url,
            retries=retries,
        )
        self.enforce_content_length = enforce_content_length
        self.auto_close = auto_close
        self.msg = msg
        self._original_response = original_response
        self._pool = pool
        self._connection = connection
        self._sock_shutdown = sock_shutdown
        if isinstance(body, (str, bytes)):
            self._body = body or None
        elif hasattr(body, "read"):
            self._fp = body
        self.length_remaining = self._announced(request_method)
        if preload_content and self._body is None:
            self._body = self.read(decode_content=decode_content)

    def _announced(self, request_method: str | None) -> int | None:
        """Return how long the body is to be, or None."""
        if request_method == "HEAD" or self.status in (204, 304) or 100 <= int(self.status) < 200:
            return 0
        text = self.headers.get("content-length")
        if text is None or self.chunked:
            return None
        lengths = {part.strip() for part in text.split(",")}
        if len(lengths) > 1:
            raise InvalidHeader(f"Content-Length contained multiple unmatching values ({text})")
        length = lengths.pop()
        return int(length) if re.fullmatch("[0-9]+", length) else None

    # --- reading ---

    def read(
        self,
        amt: int | None = None,
        decode_content: bool | None = None,
        cache_content: bool = False,
    ) -> Any:
        """Return the next amt bytes, fewer at the end; all of them for None.

        Args:
            amt: bytes.
            decode_content: undo the content coding; None for what the attribute says.
            cache_content: keep it for `data`.

        Raises:
            DecodeError: the body is corrupt.
            ProtocolError: it broke off.
        """
        if self._fp is None:
            return None
        if amt is not None and amt < 0:
            amt = None
        if amt == 0:
            return b""
        take = self._decoded if self._decodes(decode_content) else self._raw
        if amt is None and take == self._raw:
            data = self._raw(None)
        else:
            pieces, size = [], 0
            while (amt is None or size < amt) and (
                piece := take(_PIECE if amt is None else amt - size)
            ):
                pieces.append(piece)
                size += len(piece)
            data = b"".join(pieces)
        if cache_content:
            self._body = data
        return data

    def _decodes(self, decode_content: bool | None) -> bool:
        wanted = self.decode_content if decode_content is None else decode_content
        if self._decoder is None and wanted:
            try:
                named = codings(self.headers.getlist("content-encoding"))
            except ContentDecodingError as error:
                raise DecodeError(str(error)) from error
            self._decoder = ContentDecoder(named) if named else None
        if self._decoder is not None and not wanted and self._told:
            raise RuntimeError(
                "Calling read(decode_content=False) is not supported after "
                "read(decode_content=True) was called."
            )
        return self._decoder is not None and wanted

    def _decoded(self, limit: int) -> bytes:
        """Return up to limit decoded bytes, b"" at the end."""
        decoder = self._decoder
        assert decoder is not None
        try:
            while not (piece := decoder.take(limit)) and not self._is_spent:
                data = self._raw(_PIECE)
                decoder.feed(data)
                self._is_spent = not data
        except ContentDecodingError as error:
            coding = self.headers.get("content-encoding", "").lower()
            raise DecodeError(
                f"Received response with content-encoding: {coding}, but failed to decode it.",
                error,
            ) from error
        return piece

    def _raw(self, amt: int | None) -> bytes:
        if getattr(self._fp, "closed", False):
            return b""
        with self._errors_in_urllib3s_words():
            data: bytes = self._fp.read() if amt is None else self._fp.read(amt)
            self._told += len(data)
            if self.length_remaining is not None:
                self.length_remaining -= len(data)
            if not data and amt is not None:
                if hasattr(self._fp, "close"):
                    self._fp.close()
                if self.enforce_content_length and self.length_remaining not in (0, None):
                    raise IncompleteRead(self._told, self.length_remaining)
        return data

    @contextmanager
    def _errors_in_urllib3s_words(self) -> Iterator[None]:
        try:
            yield
        except socket.timeout as error:  # noqa: UP041  the builtin's name is taken in 3.10
            raise ReadTimeoutError(self._pool, None, "Read timed out.") from error
        except (HTTPException, OSError) as error:  # IncompleteRead is among the first
            raise ProtocolError(f"Connection broken: {error!r}", error) from error
        finally:
            original = self._original_response
            if original is not None and original.isclosed():
                self.release_conn()

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        """Return what is there next, at most amt bytes."""
        if self._fp is None or amt == 0:
            return b""
        limit = _PIECE if amt is None or amt < 0 else amt
        return self._decoded(limit) if self._decodes(decode_content) else self._raw(limit)

    def stream(
        self, amt: int | None = _PIECE, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        """Give the body in pieces of amt bytes, the last one shorter."""
        while data := self.read(amt, decode_content):
            yield data

    def read_chunked(
        self, amt: int | None = None, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        """Give the body chunk by chunk; a file gives none of its own.

        Raises:
            ResponseNotChunked: the header fields announce no chunks.
            BodyNotHttplibCompatible: the body is not http.client's.
        """
        if not self.chunked:
            raise ResponseNotChunked(
                "Response is not chunked. Header 'transfer-encoding: chunked' is missing."
            )
        if not self.supports_chunked_reads():
            raise BodyNotHttplibCompatible("Body should be http.client.HTTPResponse like.")
        yield from self.stream(amt or _PIECE, decode_content)

    def supports_chunked_reads(self) -> bool:
        """Tell whether the body is http.client's."""
        return hasattr(self._fp, "fp")

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return how many bytes that took."""
        data = self.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    @property
    def data(self) -> Any:
        """Return the whole body."""
        if self._body is None and self._fp is not None:
            return self.read(cache_content=True)
        return self._body

    def json(self) -> Any:
        """Return the body read as JSON."""
        import json

        return json.loads(self.data.decode("utf-8"))

    def tell(self) -> int:
        """Return how many bytes of the body, as it is on the wire, were read."""
        return self._told

    def readable(self) -> bool:
        """Return True."""
        return True

    # --- the end ---

    @property
    def connection(self) -> Any:
        """Return what the body comes from."""
        return self._connection

    def isclosed(self) -> bool:
        """Tell whether the file is closed."""
        return is_fp_closed(self._fp)

    @property
    def closed(self) -> bool:
        """Tell whether there is nothing to read any more."""
        if not self.auto_close:
            return bool(io.IOBase.closed.__get__(self))
        fp = self._fp
        if callable(getattr(fp, "isclosed", None)):
            return bool(fp.isclosed())
        return bool(getattr(fp, "closed", True))

    def fileno(self) -> int:
        """Return the file's descriptor.

        Raises:
            OSError: it has none.
        """
        if self._fp is None:
            raise OSError("HTTPResponse has no file to get a fileno from")
        return int(self._fp.fileno())

    def flush(self) -> None:
        """Flush the file, if it can be."""
        if hasattr(self._fp, "flush") and not getattr(self._fp, "closed", False):
            self._fp.flush()

    def release_conn(self) -> None:
        """Give the connection back to its pool."""
        if self._pool is not None and self._connection is not None:
            self._pool._put_conn(self._connection)
            self._connection = None

    def drain_conn(self) -> None:
        """Read what is left, so that the connection can be used again."""
        try:
            self.read()
        except (HTTPError, OSError, HTTPException):
            return

    def shutdown(self) -> None:
        """Cut the connection.

        Raises:
            ValueError: there is none.
        """
        if not self._sock_shutdown:
            raise ValueError("Cannot shutdown socket as self._sock_shutdown is not set")
        self._sock_shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Close the file and the connection."""
        if not self.closed and self._fp is not None:
            self._fp.close()
        if self._connection is not None:
            self._connection.close()
        if not self.auto_close:
            io.IOBase.close(self)
