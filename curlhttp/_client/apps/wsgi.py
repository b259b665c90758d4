"""A WSGI app in place of the network: an engine for Client, in the calling thread (PEP 3333)."""

from __future__ import annotations

import io
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from curlhttp._client.apps.app_call import (
    ERROR,
    AppCall,
    check_wsgi,
    get_request_fields,
    parse_wsgi_head,
)
from curlhttp._curl.errors import body_length_error, too_large_error
from curlhttp._curl.head import contradicts_length
from curlhttp._curl.result import decode_body
from curlhttp._engine.engine import Engine, HedgePlan
from curlhttp._engine.run import ThreadWaiter
from curlhttp._models.body import Body
from curlhttp._models.errors import client_closed, closed_while_reading
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response, has_body
from curlhttp.exceptions import ChunkedEncodingError, RemoteProtocolError, RequestException

# --- From a request to what a WSGI app is told of it (PEP 3333) ---

_PIECE = 64 * 1024
_BARE = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def make_environ(
    request: Request,
    *,
    client: tuple[str, int] | None,
    root_path: str,
    failed: Callable[[BaseException], object],
) -> dict[str, Any]:  # Any: texts, and what begins with "wsgi."
    """Return the environ of a request.

    Args:
        request: complete.
        client: address and port on the client's side, or None.
        root_path: where the app is mounted: SCRIPT_NAME for the paths below it.
        failed: called with what the request's body raises.
    """
    url = request.url
    script, path = "", url.path
    root_path = root_path.rstrip("/")
    if root_path and (path == root_path or path.startswith(f"{root_path}/")):
        script, path = root_path, path[len(root_path) :]
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": _native(script),
        "PATH_INFO": _native(path),
        "QUERY_STRING": url.query,
        "REQUEST_URI": url.target,  # as it was, which PATH_INFO does not tell
        "RAW_URI": url.target,
        "SERVER_NAME": url.host,
        "SERVER_PORT": str(url.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": _input(request.body, failed),
        "wsgi.input_terminated": True,  # it ends where the body does, whatever its length
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if client is not None:
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = client[0], str(client[1])
    for name, value in get_request_fields(request):
        key = name.upper().replace("-", "_")
        key = key if key in _BARE else f"HTTP_{key}"
        if key in environ:
            value = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ', '}{value}"
        environ[key] = value
    return environ


def _native(path: str) -> str:
    """Return a path without its escapes, each byte as a character of latin-1."""
    return unquote_to_bytes(path).decode("latin-1")


def _input(body: Body | None, failed: Callable[[BaseException], object]) -> io.BufferedIOBase:
    if body is None or body.data is not None:
        return io.BytesIO(b"" if body is None or body.data is None else body.data)
    return io.BufferedReader(_BodyReader(body, failed))


class _BodyReader(io.RawIOBase):
    """A request's body as a file, read when the app asks for it."""

    def __init__(self, body: Body, failed: Callable[[BaseException], object]) -> None:
        self._body = body
        self._failed = failed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: typeshed's name for buffers is no type here
        try:
            piece = self._body.read(min(len(buffer), _PIECE))
        except BaseException as error:
            self._failed(error)
            raise
        buffer[: len(piece)] = piece
        return len(piece)


# --- One request to a WSGI app, and its response as long as it is on its way (PEP 3333) ---

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
            BaseException: no response was received.
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
            self._start, piece = parse_wsgi_head("500 Internal Server Error", _ERROR_FIELDS), ERROR
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
            self._start = parse_wsgi_head(status, headers)
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
            if contradicts_length(self.head, self.request.method, self._size):
                raise body_length_error(self.request, self._size)
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
            raise too_large_error(self.request)

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


class WSGITransport:
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

    needs_client = "Client"

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
        self._dropped: deque[WSGICall] = deque()  # by finalizers, which must not run an app

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Call the app and return the response with its body in memory.

        Args:
            request: complete.
            plan: is told how long it took.

        Raises:
            RequestException: no response was received.
            Exception: the app raised it.
        """
        call = await self.open(request, plan)
        pieces = []
        while piece := call.read():
            pieces.append(piece)
        assert call.head is not None
        response = Response(request, call.head, b"".join(pieces), call.timings())
        if request.decode and response.content:
            decode_body(response, request)
        return response

    async def open(self, request: Request, plan: HedgePlan | None = None) -> WSGICall:
        """Call the app and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: no response was received.
            Exception: the app raised it.
        """
        self._release_dropped()
        if self._is_closed:
            raise client_closed(request)
        call = WSGICall(request, self, raises=self._raises)
        environ = make_environ(
            request, client=self._client, root_path=self._root_path, failed=call.body_failed
        )
        call.start(self._app, environ)
        if plan is not None:
            plan.timed(call.first_byte)
        return call

    async def read(self, incoming: WSGICall) -> bytes:
        """Return the next piece of the body as it came, b"" at the end.

        Raises:
            RequestException: the body is incomplete.
            Exception: the app raised it.
        """
        return incoming.read()

    def abort(self, incoming: WSGICall) -> None:
        """Abort a response, and close the iterable that the app returned."""
        incoming.give_up()

    def abort_from_finalizer(self, incoming: WSGICall) -> None:
        """Abort a response from a finalizer; the app's iterable is closed later."""
        self._dropped.append(incoming)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251  # there is no loop to block

    @staticmethod
    def now() -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    @staticmethod
    def wall() -> float:
        """Return the time of day in seconds since the epoch."""
        return time.time()

    def make_waiter(self) -> ThreadWaiter:
        """Return a new waiter for the caller."""
        return ThreadWaiter()

    def close(self) -> None:
        """Reject later requests."""
        self._is_closed = True
        self._release_dropped()

    def _release_dropped(self) -> None:
        while self._dropped:
            with suppress(IndexError):  # another thread was faster
                self._dropped.popleft().close()
