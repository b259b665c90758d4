"""A WSGI app instead of the network: a transport for Client, in the calling thread (PEP 3333)."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from curlhttp._client.stream import StreamedResponse
from curlhttp._client.transport import Transport
from curlhttp._features.apps.app_call import (
    ERROR,
    AppCall,
    check_wsgi,
    get_request_fields,
    parse_wsgi_head,
)
from curlhttp._http.body import Body
from curlhttp._http.errors import client_closed, closed_while_reading
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, has_body
from curlhttp._http.suggestions import with_suggestions
from curlhttp._libcurl.errors import body_length_error, too_large_error
from curlhttp._libcurl.head import contradicts_length
from curlhttp.exceptions import ChunkedEncodingError, RemoteProtocolError, RequestException

# --- Make the environ of a request (PEP 3333) ---

_MAX_READ = 64 * 1024
_UNPREFIXED = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def make_environ(
    request: ClientRequest,
    *,
    client: tuple[str, int] | None,
    root_path: str,
    on_error: Callable[[BaseException], object],
) -> dict[str, Any]:  # Any: strings, and the objects of "wsgi." keys
    """Return the environ of a request.

    Args:
        request: complete.
        client: the address and port of the client, or None.
        root_path: the path where the app is mounted: SCRIPT_NAME for URLs below it.
        on_error: called with exceptions of the request's body.
    """
    url = request.url
    script, path = "", url.path
    root_path = root_path.rstrip("/")
    if root_path and (path == root_path or path.startswith(f"{root_path}/")):
        script, path = root_path, path[len(root_path) :]
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": _to_native(script),
        "PATH_INFO": _to_native(path),
        "QUERY_STRING": url.query,
        "REQUEST_URI": url.target,  # undecoded, unlike PATH_INFO
        "RAW_URI": url.target,
        "SERVER_NAME": url.host,
        "SERVER_PORT": str(url.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": _make_input(request.body, on_error),
        "wsgi.input_terminated": True,  # it ends with the body, also without Content-Length
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if client is not None:
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = client[0], str(client[1])
    for name, value in get_request_fields(request):
        key = name.upper().replace("-", "_")
        key = key if key in _UNPREFIXED else f"HTTP_{key}"
        if key in environ:
            value = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ', '}{value}"
        environ[key] = value
    return environ


def _to_native(path: str) -> str:
    """Return a percent-decoded path, with each byte as a latin-1 character."""
    return unquote_to_bytes(path).decode("latin-1")


def _make_input(
    body: Body | None, on_error: Callable[[BaseException], object]
) -> io.BufferedIOBase:
    if body is None or body.data is not None:
        return io.BytesIO(b"" if body is None or body.data is None else body.data)
    return io.BufferedReader(_BodyReader(body, on_error))


class _BodyReader(io.RawIOBase):
    """A request's body as a file, read when the app reads."""

    def __init__(self, body: Body, on_error: Callable[[BaseException], object]) -> None:
        self._body = body
        self._on_error = on_error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: a buffer, which has no type at run time
        try:
            piece = self._body.read(min(len(buffer), _MAX_READ))
        except BaseException as error:
            self._on_error(error)
            raise
        buffer[: len(piece)] = piece
        return len(piece)


# --- Call a WSGI app with one request, and read its response (PEP 3333) ---

_ERROR_FIELDS = [("Content-Type", "text/plain"), ("Content-Length", str(len(ERROR)))]

_ExcInfo: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | None"


class WSGICall(AppCall):
    """One call of an app; see AppCall.

    Args:
        request: complete.
        dropped: gets calls that a finalizer abandons, because it must not run code of the app.
        raises: see AppCall.
    """

    def __init__(self, request: ClientRequest, dropped: deque[WSGICall], *, raises: bool) -> None:
        super().__init__(request, raises=raises)
        self._dropped = dropped
        self._pending_head: Head | None = None  # becomes the head when the body begins
        self._ready: deque[bytes] = deque()  # passed to write(), or iterated over, and not read
        self._returned: Iterable[bytes] = ()
        self._iterator: Iterator[bytes] = iter(())
        self._size = 0
        self._body_error: BaseException | None = None  # raised by the request's body
        self._is_closed = False
        self._is_reading = False
        self._is_aborted = False
        # The caller does not see context variables that the app sets.
        self._run = copy_context().run

    # the app's side

    def start(self, app: Any, environ: dict[str, Any]) -> None:  # Any: an app of the user's
        """Call the app, and read up to the first piece of its body.

        Raises:
            BaseException: no response was received.
        """
        try:
            self._run(self._call, app, environ)
            piece = self._next(self.begun)
            if self._pending_head is None:
                what = f"{self.request}: the app ended without a response"
                raise RemoteProtocolError(what)
        except BaseException as error:
            failed = self._close_after(error)
            if self._raises or self._is_our_error(failed):
                raise failed from failed.__cause__
            self._pending_head, piece = (
                parse_wsgi_head("500 Internal Server Error", _ERROR_FIELDS),
                ERROR,
            )
            self._ready.clear()
        if piece:
            self._ready.appendleft(piece)
        self.set_head(self._pending_head)

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
            elif self._pending_head is not None:
                raise RuntimeError("the app called start_response twice")
            self._pending_head = parse_wsgi_head(status, headers)
        finally:
            exc_info = None  # otherwise it and this frame form a reference cycle
        return self._write

    def _write(self, data: bytes) -> None:
        if data:
            self._ready.append(bytes(data))

    def set_body_error(self, error: BaseException) -> None:
        """Note an exception of the request's body. It is raised even if the app suppresses it."""
        self._body_error = error

    # the client's side

    @property
    def done(self) -> bool:
        """Return whether the app will return no more data."""
        return self._is_closed

    async def read(self) -> bytes:
        """Return the next piece, b"" at the end.

        Raises:
            BaseException: the body is incomplete.
            StreamConsumedError: another thread has closed the response.
        """
        self._is_reading = True
        try:
            piece = self._read()
        finally:
            self._is_reading = False
            if self._is_aborted:
                with suppress(Exception):
                    self.close()
        if self._is_aborted:
            raise closed_while_reading(self.request)
        return piece

    def _read(self) -> bytes:
        begun = monotonic()
        try:
            while piece := self._next(begun):
                if self._has_body():
                    self._check_size(len(piece))
                    return piece
            assert self.head is not None
            if contradicts_length(self.head, self.request.method, self._size):
                raise body_length_error(self.request, self._size)
            self.close()
        except BaseException as error:
            failed = self._close_after(error)
            if not (self._raises or self._is_our_error(failed)):
                what = f"{self.request}: the app failed within the response body"
                failed = self._close_after(ChunkedEncodingError(what))
            raise failed from failed.__cause__
        return b""

    def _has_body(self) -> bool:
        head = self.head
        assert head is not None
        return has_body(self.request.method, head.status_code)

    def _check_size(self, size: int) -> None:
        self._size += size
        limit = self.request.max_response_size
        if limit is not None and self._size > limit:
            raise too_large_error(self.request)

    def _next(self, begun: float) -> bytes:
        """Return the next piece that is not empty, b"" at the end."""
        while not self._ready:
            try:
                piece = self._run(next, self._iterator)
            except StopIteration:
                self._check(begun)
                break
            self._check(begun)
            begun = monotonic()
            if not isinstance(piece, bytes):
                raise TypeError(f"the app returned {type(piece).__name__} in its body, not bytes")
            if self._pending_head is None:
                raise RemoteProtocolError(f"{self.request}: the app sent a body before a head")
            self._write(piece)
        return self._ready.popleft() if self._ready else b""

    def _check(self, begun: float) -> None:
        if self._body_error is not None:
            raise self._body_error
        self.check_time(begun)

    # the end

    def _close_after(self, error: BaseException) -> BaseException:
        """Close the app's iterable, and return the error to raise."""
        with suppress(Exception):  # the first error matters more
            self.close()
        return self.add_context(self._body_error or error)

    def _is_our_error(self, error: BaseException) -> bool:
        """Return whether an error does not come from the app."""
        is_ours = isinstance(error, RequestException) and error.request is self.request
        return is_ours or error is self._body_error or not isinstance(error, Exception)

    def abort(self) -> None:
        """Close the app's iterable; if another thread is reading, it does so afterwards."""
        self._is_aborted = True
        if not self._is_reading:
            self.close()

    def abort_from_finalizer(self) -> None:
        """Let the transport close the app's iterable later."""
        self._dropped.append(self)

    def close(self) -> None:
        """Close the app's iterable, once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._total = monotonic() - self.begun
        self._iterator = iter(())
        close = getattr(self._returned, "close", None)
        if close is not None:
            self._run(close)


@with_suggestions("WSGITransport")
class WSGITransport(Transport):
    """Send a Client's requests to a WSGI app: `Client(transport=WSGITransport(app))`.

    Everything above the network works as usual. The app runs in the thread that sends the request,
    so it shares thread-local state, such as a database connection, with your test. Nothing can
    interrupt it: timeouts are checked when it returns data, and hedges are not sent.

    Args:
        app: a WSGI application (PEP 3333).
        client: the address and port of the client that the app sees, or None.
        root_path: the path where the app is mounted (SCRIPT_NAME).
        raise_app_exceptions: raise the app's exceptions from the client. If False, they become a
            response with status 500, or an incomplete body.

    Raises:
        TypeError: `app` is not a WSGI app.
    """

    def __init__(
        self,
        app: Any,  # Any: the frameworks do not agree on its type
        *,
        client: tuple[str, int] | None = ("127.0.0.1", 123),
        root_path: str = "",
        raise_app_exceptions: bool = True,
    ) -> None:
        check_wsgi(app)
        self._app = app
        self._client = client
        self._root_path = root_path
        self._raises = raise_app_exceptions
        self._is_closed = False
        self._dropped: deque[WSGICall] = deque()  # see WSGICall

    def send(self, request: ClientRequest) -> StreamedResponse:
        """Call the app and return the response once its head is known.

        Raises:
            RequestException: no response was received.
            Exception: the app raised it.
        """
        self._release_dropped()
        if self._is_closed:
            raise client_closed(request)
        call = WSGICall(request, self._dropped, raises=self._raises)
        environ = make_environ(
            request, client=self._client, root_path=self._root_path, on_error=call.set_body_error
        )
        call.start(self._app, environ)
        return StreamedResponse(request, call)

    def close(self) -> None:
        """Reject later requests."""
        self._is_closed = True
        self._release_dropped()

    def _release_dropped(self) -> None:
        while self._dropped:
            with suppress(IndexError):  # another thread was faster
                self._dropped.popleft().close()
