"""An ASGI app instead of the network: an engine for AsyncClient."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel

from curlhttp._client.stream import AsyncStreamedResponse
from curlhttp._client.transport import AsyncTransport
from curlhttp._features.apps.app_call import (
    ERROR,
    AppCall,
    Condition,
    UnexpectedMessage,
    check_asgi,
    make_scope,
    parse_asgi_head,
)
from curlhttp._features.apps.lifespan import Lifespan
from curlhttp._features.apps.websocket import AppSocket
from curlhttp._http.errors import client_closed, closed_while_reading
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, has_body
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.timeout import EARLY
from curlhttp._http.timings import Timings
from curlhttp._libcurl.engines.body_feed import next_piece
from curlhttp._libcurl.errors import body_length_error, too_large_error
from curlhttp._libcurl.head import contradicts_length
from curlhttp._runtime.loops import BackgroundTasks, Loop, background_tasks, running_loop
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ClientClosed,
    ConnectionError,
    RemoteProtocolError,
    RequestException,
)

# --- One request to an ASGI app: the app's side, in a separate task, and the client's side ---

_MAX_UNREAD = 64 * 1024  # bytes that a streamed response may be ahead of its reader
_LATE_TURNS = 8  # turns of the loop in which a late app may still send something

_Message = dict[str, Any]  # Any: what a message holds depends on its type


class AppExchange(AppCall):
    """A request to an app and its outcome; also the Incoming while the body is read.

    Args:
        app: the ASGI app.
        scope: of the request.
        request: complete.
        tasks: background tasks for this exchange only.
        raises: whether the app's exceptions are raised to the caller.

    Attributes:
        failed: the exception with which it failed, or None.
        changed: notifies the client's and the app's tasks.
    """

    def __init__(
        self,
        app: Any,  # Any: an app of the user's
        scope: dict[str, object],
        request: ClientRequest,
        tasks: BackgroundTasks,
        *,
        raises: bool,
    ) -> None:
        super().__init__(request, raises=raises)
        self.failed: BaseException | None = None
        self.changed: Condition = Condition(tasks.make_waiter)
        self._app = app
        self._scope = scope
        self._tasks = tasks
        self._pieces: deque[bytes] = deque()
        self._unread_size = 0  # bytes in the pieces
        self._size = 0
        self._pending_head: Head | None = None  # becomes the head when the body begins
        self._is_complete = False  # of the response
        self._is_disconnected = False  # the client
        self._has_read_body = False  # the request's body
        self._is_reading_body = False
        self._has_ended = False  # the app's task
        self._last_activity = self.begun

    # the app's side

    def start(self, on_end: Callable[[AppExchange], object]) -> None:
        """Call the app in a separate task.

        Args:
            on_end: called when the task has ended.
        """
        self._tasks.spawn(self._run, on_end)

    async def _run(self, on_end: Callable[[AppExchange], object]) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
            self._finish()
        except Exception as error:
            self._fail(error)
        except BaseException as error:
            # A cancelled task or Ctrl-C is not a response of the app.
            if self._tasks.was_cancelled(error) or isinstance(error, GeneratorExit):
                self._fail(ConnectionError(f"{self.request}: the app was cancelled"))
                raise
            self._fail(error)
        finally:
            self._has_ended = True
            self._total = monotonic() - self.begun
            on_end(self)
            self.changed.notify_all()
            if self.request.body is not None:
                with suppress(Exception):  # nobody waits for errors of the caller's generator
                    await self.request.body.aclose()

    def _finish(self) -> None:
        """Check what the app has sent, after it returned."""
        if self._is_disconnected or self.failed is not None:
            return
        if self._pending_head is None:
            what = f"{self.request}: the app ended without a response"
            self._fail(RemoteProtocolError(what))
        elif not self._is_complete:
            self.failed = ChunkedEncodingError(
                f"{self.request}: the app ended within the response body"
            )

    def _fail(self, error: BaseException) -> None:
        if self._is_disconnected or self.failed is not None:
            return
        if self._raises or not isinstance(error, Exception):
            self.failed = error
        elif self._pending_head is None or self.head is None:
            self._respond(500, ERROR)
        elif not self._is_complete:
            self.failed = ChunkedEncodingError(
                f"{self.request}: the app failed within the response body"
            )

    def _respond(self, status: int, body: bytes) -> None:
        fields = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        self._pending_head = parse_asgi_head({"status": status, "headers": fields})
        self._pieces.clear()
        self._size = self._unread_size = 0
        self._add_piece(body, more=False)

    async def _receive(self) -> _Message:
        await self.changed.checkpoint()
        if not (self._has_read_body or self._is_disconnected):
            return await self._receive_body()
        while not (self._is_disconnected or self._is_complete):
            await self.changed.wait()
        return {"type": "http.disconnect"}

    async def _receive_body(self) -> _Message:
        body = self.request.body
        if body is None or body.data is not None:
            self._has_read_body = True
            data = b"" if body is None else body.data
            return {"type": "http.request", "body": data, "more_body": False}
        self._is_reading_body = True
        try:
            piece = await next_piece(body)
        except Exception as error:  # raised by the caller's generator
            self.failed, self._is_disconnected = error, True
            self.changed.notify_all()
            return {"type": "http.disconnect"}
        finally:
            self._is_reading_body = False
        self._has_read_body = not piece
        self._last_activity = monotonic()
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    async def _send(self, message: _Message) -> None:
        await self.changed.checkpoint()
        if self._is_disconnected:
            raise OSError("the client has disconnected")  # an OSError: ASGI 2.4
        kind = message["type"]
        self._last_activity = monotonic()
        if kind == "http.response.start" and self._pending_head is None:
            self._pending_head = parse_asgi_head(message)
        elif kind == "http.response.body" and self._pending_head and not self._is_complete:
            self._add_piece(bytes(message.get("body", b"")), more=bool(message.get("more_body")))
            is_limited = self.request.stream
            while is_limited and self._unread_size >= _MAX_UNREAD and not self._is_disconnected:
                await self.changed.wait()
        else:
            raise UnexpectedMessage(kind)

    def _add_piece(self, piece: bytes, *, more: bool) -> None:
        head, request = self._pending_head, self.request
        assert head is not None
        if piece and has_body(request.method, head.status_code):
            self._pieces.append(piece)
            self._unread_size += len(piece)
            self._size += len(piece)
        if self.head is None:
            self.set_head(head)
        limit = request.max_response_size
        if limit is not None and self._size > limit:
            self.failed, self._is_disconnected = too_large_error(request), True
        elif not more:
            self._is_complete = True
            if contradicts_length(head, request.method, self._size):
                self.failed, self._is_disconnected = body_length_error(request, self._size), True
        self.changed.notify_all()

    # the client's side

    @property
    def done(self) -> bool:
        """Return whether the app has ended, or the exchange failed."""
        return self._has_ended or self.failed is not None

    async def wait(self, is_over: Callable[[], object]) -> None:
        """Wait for the app.

        Args:
            is_over: returns whether to stop waiting.

        Raises:
            RequestException: a timeout expired.
        """
        while not is_over():
            await self.changed.wait(self.get_time_left())
            await self._check_timeouts(is_over)

    async def _check_timeouts(self, is_over: Callable[[], object]) -> None:
        """Raise if a timeout has expired, unless the app sends something in the next turns.

        If the loop was late, it wakes both sides at once and in any order. Then this process is
        late, and not the app.
        """
        for _ in range(_LATE_TURNS):
            time_left = self.get_time_left()
            if is_over() or time_left is None or time_left > EARLY:
                return
            await anyio.lowlevel.checkpoint()
        if not is_over():
            self.check_time(self._last_activity, EARLY)

    def get_time_left(self) -> float | None:
        """Return the seconds until the next timeout, or None if there are no timeouts."""
        request, now = self.request, monotonic()
        limits = []
        if request.timeout.read is not None:
            limits.append(self._last_activity + request.timeout.read - now)
        if request.deadline is not None:
            limits.append(request.deadline - now)
        return max(0.0, min(limits)) if limits else None

    def raise_failure(self) -> None:
        """Raise the exception with which the exchange failed, if it did.

        Raises:
            BaseException: from the app or the request's body, or a RequestException.
        """
        failed = self.failed
        if failed is None:
            return
        try:
            raise self.add_context(failed)
        finally:
            del failed  # otherwise the error and its traceback form a reference cycle

    async def read(self) -> bytes:
        """Return the next piece of the body, b"" at the end.

        Raises:
            RequestException: the body is incomplete.
            Exception: the app raised it.
        """
        try:
            return await self._read()
        except BaseException as error:
            self.abort()
            self.add_context(error)
            raise

    async def _read(self) -> bytes:
        # Checked here as well, because there is no wait while the app is ahead.
        if not (self._is_complete or self.done):
            self.check_deadline()
        if not self._pieces:
            self._last_activity = monotonic()  # the read timeout starts with this wait
            await self.wait(lambda: self._pieces or self.done)
        if self._pieces:
            piece = self._pieces.popleft()
            self._unread_size -= len(piece)
            self.changed.notify_all()
            return piece
        self.raise_failure()
        return b""

    def abort(self, error: RequestException | None = None) -> None:
        """Notify the app that the client has disconnected.

        Args:
            error: raised in callers that wait for the response; or None.
        """
        if self.failed is None and not self._has_ended:
            self.failed = error or closed_while_reading(self.request)
        self._is_disconnected = True
        self._pieces.clear()
        if self._is_reading_body:  # which may never return
            self._tasks.cancel()
        self.changed.notify_all()

    def abort_from_finalizer(self) -> None:
        """Abort from a finalizer, which may run in any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._tasks.call_soon(self.abort)

    def cancel(self) -> None:
        """Cancel the app's task."""
        self._tasks.cancel()

    async def wait_until_ended(self) -> None:
        """Wait until the app's task has ended."""
        await self._tasks.wait_until_done()


@with_suggestions("ASGITransport")
class ASGITransport(AsyncTransport):
    """Send an AsyncClient's requests to an ASGI app: `AsyncClient(transport=ASGITransport(app))`.

    Everything above the network works as usual, including WebSockets. Each request runs in a
    separate task, which ends before the client does. A response is complete when the app has
    ended, including its background tasks.

    Args:
        app: an ASGI 3 application.
        lifespan: start the app with `async with client` or with the first request, and stop it with
            the client, in each event loop that uses the client. Apps that do not support lifespan
            work, too.
        client: the address and port of the client that the app sees, or None.
        root_path: the path where the app is mounted.
        raise_app_exceptions: raise the app's exceptions from the client. If False, they become a
            response with status 500, or an incomplete body.

    Raises:
        TypeError: `app` is not an ASGI app.
    """

    def __init__(
        self,
        app: Any,  # Any: the frameworks do not agree on its type
        *,
        lifespan: bool = True,
        client: tuple[str, int] | None = ("127.0.0.1", 123),
        root_path: str = "",
        raise_app_exceptions: bool = True,
    ) -> None:
        check_asgi(app)
        self._app = app
        self._has_lifespan = lifespan
        self._client = client
        self._root_path = root_path
        self._raises = raise_app_exceptions
        self._loop_states: dict[Loop, _LoopState] = {}
        self._is_closed = False

    # exchanges

    async def send(self, request: ClientRequest) -> AsyncStreamedResponse:
        """Call the app and return the response once its head is known.

        Raises:
            RequestException: no response was received.
            Exception: the app raised it.
        """
        exchange = self._start_exchange(await self._ensure_started(), request)
        try:
            await exchange.wait(lambda: exchange.head is not None or exchange.done)
            if exchange.head is None:
                exchange.raise_failure()
        except BaseException as error:
            exchange.abort()
            exchange.add_context(error)
            raise
        return AsyncStreamedResponse(request, exchange)

    def _start_exchange(self, loop_state: _LoopState, request: ClientRequest) -> AppExchange:
        if self._is_closed:
            raise client_closed(request)
        exchange = AppExchange(
            self._app,
            self._make_scope("http", loop_state, request),
            request,
            background_tasks(loop_state.loop, copy_context()),
            raises=self._raises,
        )
        loop_state.running.add(exchange)
        exchange.start(loop_state.running.discard)
        return exchange

    async def connect(self, request: ClientRequest) -> AppStream:
        """Return a connection on which the app speaks WebSocket.

        Args:
            request: complete.

        Raises:
            ImportError: the extra ws is missing.
        """
        from curlhttp._features.apps.websocket import AppSocket

        loop_state = await self._ensure_started()
        if self._is_closed:
            raise client_closed(request)

        def make_socket_scope(fields: list[tuple[bytes, bytes]]) -> dict[str, object]:
            return {**self._make_scope("websocket", loop_state, request), "headers": fields}

        tasks = background_tasks(loop_state.loop, copy_context())
        on_end = loop_state.running.discard
        socket = AppSocket(
            self._app, make_socket_scope, request, tasks, raises=self._raises, on_end=on_end
        )
        loop_state.running.add(socket)
        return AppStream(socket)

    def _make_scope(
        self, kind: str, loop_state: _LoopState, request: ClientRequest
    ) -> dict[str, object]:
        state = None if loop_state.lifespan is None else loop_state.lifespan.state
        return make_scope(
            kind, request, client=self._client, root_path=self._root_path, state=state
        )

    # the beginning and the end

    def _loop_state(self) -> _LoopState:
        """Return the state of the transport in the running event loop."""
        loop = running_loop()
        loop_state = self._loop_states.get(loop)
        if loop_state is None:
            for ended in [each for each in self._loop_states.values() if each.has_ended()]:
                self._loop_states.pop(ended.loop, None)
            loop_state = self._loop_states[loop] = _LoopState(
                loop, self._app if self._has_lifespan else None
            )
        return loop_state

    async def astart(self) -> None:
        """Start the app in this event loop.

        Raises:
            RuntimeError: the app reports that it failed to start.
        """
        await self._ensure_started()

    async def _ensure_started(self) -> _LoopState:
        if self._is_closed:
            raise client_closed()
        loop_state = self._loop_state()
        if loop_state.lifespan is not None:
            await loop_state.lifespan.start()
        return loop_state

    def close(self) -> None:
        """Reject later requests, and cancel those of other event loops."""
        self._is_closed = True
        try:
            here = running_loop()
        except RuntimeError:  # no loop is running
            here = None
        for loop_state in list(self._loop_states.values()):
            if loop_state.loop != here:
                loop_state.cancel_threadsafe()

    async def aclose(self) -> None:
        """End all requests, then stop the app in this event loop.

        Raises:
            RuntimeError: the app reports that it failed to stop.
        """
        self.close()
        loop_state = self._loop_states.pop(running_loop(), None)
        if loop_state is not None:
            await loop_state.aclose()


class _LoopState:
    """The state of a transport in one event loop.

    Args:
        loop: see _runtime/loops.py.
        app: the app if it has a lifespan, else None.

    Attributes:
        loop: see there.
        lifespan: the lifespan of the app, or None.
        running: exchanges whose app has not ended.
        tasks: background tasks of the loop.
    """

    def __init__(self, loop: Loop, app: Any) -> None:  # Any: see ASGITransport
        self.loop: Loop = loop
        self.tasks: BackgroundTasks = background_tasks(loop, copy_context())
        self.lifespan: Lifespan | None = None if app is None else Lifespan(app, self.tasks)
        self.running: set[AppExchange | AppSocket] = set()

    def has_ended(self) -> bool:
        """Return whether the event loop has ended."""
        if isinstance(self.loop, asyncio.AbstractEventLoop):
            return self.loop.is_closed()
        try:
            self.tasks.call_soon(_do_nothing)
        except RuntimeError:
            return True
        return False

    def cancel_threadsafe(self) -> None:
        """Cancel all tasks, from another thread or event loop."""
        try:
            self.tasks.call_soon(self._cancel)
        except RuntimeError:  # the loop has ended, and the tasks with it
            return

    def _cancel(self) -> None:
        for exchange in tuple(self.running):
            exchange.abort(ClientClosed("the client was closed during this request"))
            exchange.cancel()
        if self.lifespan is not None:
            self.lifespan.cancel()

    async def aclose(self) -> None:
        """End all requests, then the lifespan."""
        running = tuple(self.running)
        for exchange in running:
            exchange.abort(ClientClosed("the client was closed during this request"))
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()  # lets an app end after the disconnect
            for exchange in running:
                exchange.cancel()
            for exchange in running:
                await exchange.wait_until_ended()
        if self.lifespan is not None:
            await self.lifespan.stop()


def _do_nothing() -> None:
    """Do nothing. call_soon raises if the loop has ended."""


# --- The client's side of a WebSocket to an app ---


class AppStream:
    """A connection in memory on which the app is the server; implements ByteStream.

    Args:
        socket: the app's side.
    """

    def __init__(self, socket: AppSocket) -> None:
        self._socket = socket

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, or None if none arrived in time.

        Args:
            seconds: how long to wait; None for no limit.

        Raises:
            RequestException: the connection was aborted.
            Exception: the app raised it.
        """
        data = self._socket.read_bytes()
        if data is None:
            await self._wait(seconds, self._socket.can_read)
            data = self._socket.read_bytes()
        return data

    async def _wait(self, seconds: float | None, is_done: Callable[[], bool]) -> None:
        with anyio.move_on_after(seconds):
            while not is_done():
                await self._socket.changed.wait()

    def receive_now(self) -> bytes | None:
        """Return what `receive` would return, or None if it would have to wait."""
        return self._socket.read_bytes()

    def write(self, data: bytes) -> bool:
        """Send bytes to the app. Never blocks; returns whether there is no room for more.

        Raises:
            RequestException: the connection was aborted.
        """
        if self._socket.is_disconnected and isinstance(self._socket.failed, RequestException):
            raise self._socket.failed
        self._socket.feed_bytes(data)
        return not self._socket.has_room()

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until the app has received most of the messages; return False if time ran out.

        Args:
            seconds: how long to wait; None for no limit.
        """
        await self._wait(seconds, self._socket.has_room)
        return self._socket.has_room()

    def unsent(self) -> int:
        """Return the bytes that wait for the app, or 0 if there is room for more."""
        return self._socket.unsent()

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection at once, from any thread. Never blocks, and may be called twice.

        Args:
            error: raised in callers that wait for the connection or use it later; or None.
        """
        socket = self._socket
        socket.call_soon(lambda: socket.abort(error))

    def timings(self) -> Timings:
        """Return zero for all times."""
        return Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, None)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.abort()
