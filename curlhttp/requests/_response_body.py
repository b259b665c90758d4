"""How the body of requests' response is read: whole, in pieces, by lines, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from curlhttp._models import response as _core
from curlhttp._models.decoding import decode_text
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    ContentDecodingError,
    ReadTimeout,
    RequestException,
    SSLError,
    StreamConsumedError,
)
from curlhttp.requests._raw import RawResponse

__all__ = ["CONTENT_CHUNK_SIZE", "ITER_CHUNK_SIZE", "ResponseBody"]

CONTENT_CHUNK_SIZE = 10 * 1024
ITER_CHUNK_SIZE = 512


class ResponseBody(_core.Response):
    """Read a body from `raw`, once, and keep it."""

    if TYPE_CHECKING:  # what Response has
        raw: Any
        request: Any
        status_code: Any
        encoding: Any
        headers: Any

    # On the class what most responses never set.
    _content: Any = False  # False: not read yet
    _content_consumed = False
    _has_failed = False  # while the body was read
    _is_passing = False  # a redirect that the session follows: its body is bounded
    _aside: bytes | None = None  # what was kept of such a body, as it came

    @property
    def content(self) -> Any:
        """Return the body, with its content coding undone; None when there is nothing to read.

        Raises:
            RuntimeError: it was iterated over before.
            RequestException: the body broke off or is corrupt.
        """
        if self._content is False:
            if self._is_passing or self._aside is not None:
                from curlhttp.requests._aside import content_of

                self._content = content_of(self)
            elif self._content_consumed:
                raise RuntimeError("The content for this response was already consumed")
            elif self.raw is None or self.status_code == 0:
                self._content = None
            else:
                self._content = self._read_content()
        self._content_consumed = True
        return self._content

    def _read_content(self) -> bytes:
        if type(self.raw) is RawResponse:
            whole = self.raw.whole()
            if whole is not None:
                return whole
        body = BytesIO()  # a list of small pieces would take a multiple of their memory
        body.writelines(self.iter_content(CONTENT_CHUNK_SIZE))
        return body.getvalue()

    @property
    def text(self) -> str:
        """Return the body as text; what does not decode is replaced."""
        content = self.content
        if not content:
            return ""
        from curlhttp.requests._text import charset_of

        encoding = self.encoding
        if encoding is None:
            encoding = self.apparent_encoding
        return decode_text(content, charset_of(encoding, self.headers) or "utf_8")

    @property
    def apparent_encoding(self) -> Any:
        """Return the charset that the body looks like."""
        from curlhttp.requests.compat import chardet

        return "utf-8" if chardet is None else chardet.detect(self.content)["encoding"]

    def json(self, **kwargs: Any) -> Any:
        """Return the body read as JSON.

        Args:
            kwargs: passed on to json.loads.

        Raises:
            JSONDecodeError: the body is not JSON.
        """
        content = self.content
        if self.encoding is None and content and len(content) > 3:
            from curlhttp.requests._text import guess_json_utf

            encoding = guess_json_utf(content)
            if encoding is not None:
                try:
                    return _core.read_json(content.decode(encoding), kwargs, self)
                except UnicodeDecodeError:
                    pass  # then text may know better
        return _core.read_json(self.text, kwargs, self)

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Any:
        """Give the body in pieces, with its content coding undone.

        Args:
            chunk_size: bytes per piece; None for pieces as they come.
            decode_unicode: give str, where the encoding is known.

        Raises:
            StreamConsumedError: it was iterated over before.
            TypeError: chunk_size is no number.
        """
        if self._is_passing or self._aside is not None:
            _ = self.content
        if self._content_consumed and self._content is False:
            raise StreamConsumedError(
                "The content for this response was already consumed", response=self
            )
        if chunk_size is not None and not isinstance(chunk_size, int):
            raise TypeError(f"chunk_size must be an int, it is instead a {type(chunk_size)}.")
        pieces: Iterator[Any]
        if self._content_consumed:
            from curlhttp.requests._text import iter_slices

            pieces = iter_slices(self._content, chunk_size)
        else:
            pieces = self._pieces(chunk_size)
        if decode_unicode:
            from curlhttp.requests._text import stream_decode_response_unicode

            return stream_decode_response_unicode(pieces, self)
        return pieces

    def _pieces(self, chunk_size: int | None, decodes: bool = True) -> Iterator[bytes]:
        raw = self.raw
        try:
            if hasattr(raw, "stream"):
                yield from raw.stream(chunk_size, decode_content=decodes)
            else:
                while piece := raw.read(chunk_size):
                    yield piece
        except Exception as error:
            found = self._error_of(error)
            if found is error:
                raise
            raise found from error
        self._content_consumed = True

    def _error_of(self, error: Exception) -> Exception:
        """Return requests' exception for what reading a body raised."""
        self._has_failed = True
        cause = error.__cause__
        if isinstance(cause, RequestException):  # ours, in urllib3's words
            cause.args, error.__cause__ = (error,), None
            error = cause
        if isinstance(error, RequestException):
            error.request, error.response = self.request, self
            if isinstance(error, ReadTimeout):  # as requests has it, once the head is in
                return ConnectionError(
                    *error.args,
                    request=self.request,
                    response=self,
                    curl_code=error.curl_code,
                    request_sent=True,
                    timings=error.timings,
                )
            return error
        kinds = {kind.__name__ for kind in type(error).__mro__ if "urllib3" in kind.__module__}
        for name, kind in _OF_URLLIB3.items():
            if name in kinds:
                return kind(error, request=self.request, response=self)
        return error

    def iter_lines(
        self,
        chunk_size: int | None = ITER_CHUNK_SIZE,
        decode_unicode: bool = False,
        delimiter: Any = None,
    ) -> Iterator[Any]:
        """Give the body line by line, without the line ends.

        Args:
            chunk_size: bytes read at once.
            decode_unicode: give str, where the encoding is known.
            delimiter: what ends a line, instead of what splitlines() takes for one.
        """
        from curlhttp.requests._text import split_lines

        yield from split_lines(self.iter_content(chunk_size, decode_unicode), delimiter)

    def __iter__(self) -> Iterator[bytes]:
        return cast("Iterator[bytes]", self.iter_content(128))

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Give the body in pieces, as iter_content(chunk_size) does."""
        return cast("Iterator[bytes]", self.iter_content(chunk_size))

    def close(self) -> None:
        """Give up the rest of the body, and its connection unless all was read."""
        if self.raw is None:
            return
        if not self._content_consumed:
            self.raw.close()
        release = getattr(self.raw, "release_conn", None)
        if release is not None:
            release()


# What third-party bodies raise: urllib3's exceptions by name, since it need not be loaded.
_OF_URLLIB3: dict[str, type[RequestException]] = {
    "ProtocolError": ChunkedEncodingError,
    "DecodeError": ContentDecodingError,
    "ReadTimeoutError": ConnectionError,
    "SSLError": SSLError,
}
