"""One request to a WSGI app, and its response as long as it is on its way (PEP 3333)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from types import TracebackType
from typing import Any, TypeAlias

from curlhttp._apps.call import ERROR, AppCall
from curlhttp._apps.messages import head_of_wsgi
from curlhttp._curl.head import contradicts
from curlhttp._curl.rejections import body_differs, too_large
from curlhttp._engine import Engine
from curlhttp._models.errors import closed_while_reading
from curlhttp._models.request import Request
from curlhttp._models.response import Head, has_body
from curlhttp.exceptions import (
    ChunkedEncodingError,
    RemoteProtocolError,
    RequestException,
)

__all__ = ["WSGICall"]

_ERROR_FIELDS = [("Content-Type", "text/plain"), ("Content-Length", str(len(ERROR)))]

_ExcInfo: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | None"


class WSGICall(AppCall):
    """One call of an app; see AppCall."""

    def __init__(self, request: Request, engine: Engine, *, raises: bool) -> None:
        super().__init__(request, engine, raises=raises)
        self._start: Head | None = None  # until some of the body is there
        self._ready: deque[bytes] = deque()  # what was given to write(), and not read yet
        self._returned: Iterable[bytes] = ()
        self._iterator: Iterator[bytes] = iter(())
        self._size = 0
        self._failed: BaseException | None = None  # of the request's own body
        self._is_closed = False
        self._is_read = False
        self._is_given_up = False
        # What the app sets of context variables is its own affair.
        self._run = copy_context().run

    # the app's side

    def start(self, app: Any, environ: dict[str, Any]) -> None:  # Any: an app of the user's
        """Call the app, up to the first piece of its body.

        Raises:
            BaseException: no response came of it.
        """
        try:
            self._run(self._call, app, environ)
            piece = self._next(self.begun)
            if self._start is None:
                what = f"{self.request}: the app ended without a response"
                raise RemoteProtocolError(what)
        except BaseException as error:
            failed = self._closed_for(error)
            if self._raises or self._is_own(failed):
                raise failed from failed.__cause__
            self._start, piece = head_of_wsgi("500 Internal Server Error", _ERROR_FIELDS), ERROR
            self._ready.clear()
        if piece:
            self._ready.appendleft(piece)
        self.begin_answer(self._start)

    def _call(self, app: Any, environ: dict[str, Any]) -> None:
        self._returned = app(environ, self._start_response)
        self._iterator = iter(self._returned)

    def _start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: _ExcInfo = None
    ) -> Callable[[bytes], None]:
        try:
            if exc_info is not None:
                if self.head is not None or self._ready:
                    raise exc_info[1].with_traceback(exc_info[2])
            elif self._start is not None:
                raise RuntimeError("the app called start_response twice")
            self._start = head_of_wsgi(status, headers)
        finally:
            exc_info = None  # or it would hold its own frame, in a circle
        return self._write

    def _write(self, data: bytes) -> None:
        if data:
            self._ready.append(bytes(data))

    def body_failed(self, error: BaseException) -> None:
        """Note what the request's own body raised, whatever the app makes of that."""
        self._failed = error

    # the client's side

    @property
    def done(self) -> bool:
        """Return whether the app gives no more."""
        return self._is_closed

    def read(self) -> bytes:
        """Return the next piece, b"" at the end.

        Raises:
            BaseException: the body broke off.
            StreamConsumedError: another thread has closed the response.
        """
        self._is_read = True
        try:
            piece = self._read()
        finally:
            self._is_read = False
            if self._is_given_up:
                with suppress(Exception):
                    self.close()
        if self._is_given_up:
            raise closed_while_reading(self.request)
        return piece

    def _read(self) -> bytes:
        begun = monotonic()
        try:
            while piece := self._next(begun):
                if self._has_body():
                    self._count(len(piece))
                    return piece
            assert self.head is not None
            if contradicts(self.head, self.request.method, self._size):
                raise body_differs(self.request, self._size)
            self.close()
        except BaseException as error:
            failed = self._closed_for(error)
            if not (self._raises or self._is_own(failed)):
                what = f"{self.request}: the app failed within the response body"
                failed = self._closed_for(ChunkedEncodingError(what))
            raise failed from failed.__cause__
        return b""

    def _has_body(self) -> bool:
        head = self.head
        assert head is not None
        return has_body(self.request.method, head.status_code)

    def _count(self, size: int) -> None:
        self._size += size
        limit = self.request.max_response_size
        if limit is not None and self._size > limit:
            raise too_large(self.request)

    def _next(self, begun: float) -> bytes:
        """Return the next piece that has anything in it, b"" at the end."""
        while not self._ready:
            try:
                piece = self._run(next, self._iterator)
            except StopIteration:
                self._check(begun)
                break
            self._check(begun)
            begun = monotonic()
            if not isinstance(piece, bytes):
                raise TypeError(f"the app gave {type(piece).__name__} for its body, not bytes")
            if self._start is None:
                raise RemoteProtocolError(f"{self.request}: the app gave a body before a head")
            self._write(piece)
        return self._ready.popleft() if self._ready else b""

    def _check(self, begun: float) -> None:
        if self._failed is not None:
            raise self._failed
        self.check_time(begun)

    # the end

    def _closed_for(self, error: BaseException) -> BaseException:
        """Close what the app returned, and return the error that is the reason."""
        with suppress(Exception):  # the first error counts
            self.close()
        return self.told(self._failed or error)

    def _is_own(self, error: BaseException) -> bool:
        """Return whether an error is none of the app's."""
        is_ours = isinstance(error, RequestException) and error.request is self.request
        return is_ours or error is self._failed or not isinstance(error, Exception)

    def give_up(self) -> None:
        """Close what the app returned; where another thread runs the app, that will."""
        self._is_given_up = True
        if not self._is_read:
            self.close()

    def close(self) -> None:
        """Close what the app returned, once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._total = monotonic() - self.begun
        self._iterator = iter(())
        close = getattr(self._returned, "close", None)
        if close is not None:
            self._run(close)
