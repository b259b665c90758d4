"""The WebSocket classes of both clients, and the keepalive of open WebSockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import WeakSet

from curlhttp._features.websocket.handshake import Settings, shake_hands
from curlhttp._http.body_arguments import encode_json
from curlhttp._http.errors import Unpicklable
from curlhttp._http.exiting import check_running, start_thread
from curlhttp._http.fork import register
from curlhttp._http.json_reading import convert_json, read_json
from curlhttp._http.request import DECODE_JSON, ENCODE_JSON
from curlhttp._http.response import Response
from curlhttp._http.suggestions import without_attributes
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Engine, MakeWaiter, Waiter
from curlhttp._runtime.run import run_sync, send_sync
from curlhttp.exceptions import JSONDecodeError, JSONTypeError, WebSocketClosed

if TYPE_CHECKING:
    from websockets.client import ClientProtocol

    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import DownloadOptions
    from curlhttp._features.upgrade import Upgraded
    from curlhttp._features.websocket.connection import WebSocketConnection
    from curlhttp._features.websocket.heartbeat import SentPing
    from curlhttp._features.websocket.messages import Message
    from curlhttp._http.inputs import JSONInput

T = TypeVar("T")

# --- Answer pings on WebSockets that nobody reads, and send keepalive pings ---

_MIN_ROUND, _MAX_ROUND = 0.01, 1.0  # seconds between two rounds


class WebSocketRegistry:
    """The open WebSockets of one client, or of one event loop.

    About once a second, each WebSocket without a receiver reads what has arrived, which answers
    pings and detects the end, and each sends the keepalive pings that are due.

    Args:
        now: returns monotonic seconds.
        make_waiter: makes a waiter of the engine.
        start: runs a coroutine function in a new thread or task.

    Attributes:
        make_waiter: makes a waiter of the engine.
        is_running: whether the thread or task runs, because some WebSockets are registered.
    """

    def __init__(
        self,
        now: Callable[[], float],
        make_waiter: MakeWaiter,
        start: Callable[[Callable[[], Coroutine[object, None, None]]], object],
    ) -> None:
        self._now = now
        self.make_waiter = make_waiter
        self._start = start
        self._connections: WeakSet[WebSocketConnection] = WeakSet()
        self._waiter: Waiter | None = None
        self.is_running = False
        self._lock = threading.Lock()
        register(self)

    def add(self, connection: WebSocketConnection) -> None:
        """Register a WebSocket."""
        with self._lock:
            self._connections.add(connection)
            starts, self.is_running = not self.is_running, True
        if starts:
            try:
                self._start(self._run)
            except BaseException:
                self.is_running = False
                raise
        else:
            self._wake()

    def remove(self, connection: WebSocketConnection) -> None:
        """Remove a WebSocket."""
        self._connections.discard(connection)
        if not self._connections:
            self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    async def _run(self) -> None:
        try:
            while True:
                waiter = self._waiter = self.make_waiter()
                seconds = self._attend_all()
                with self._lock:
                    if not self._connections:
                        self.is_running = False
                        return
                await waiter.wait(seconds)
        except BaseException:  # the event loop has ended
            self.is_running = False
            raise

    def _attend_all(self) -> float:
        """Call attend() of each WebSocket, and return the seconds until the next round."""
        now = self._now()
        due = now + _MAX_ROUND
        for connection in tuple(self._connections):
            due = min(due, connection.attend(now))
        return max(_MIN_ROUND, due - self._now())

    def _after_fork_in_child(self) -> None:
        """Forget the WebSockets: they are the parent's, and so is the thread."""
        self._connections = WeakSet()
        self._lock = threading.Lock()
        self.is_running, self._waiter = False, None


_NORMAL, _GONE, _FAILED = 1000, 1001, 1011


@without_attributes(
    "websocket_object",
    "closed compress exception get_extra_info local_address open pong protocol receive "
    "receive_bytes receive_str receive_text remote_address send_bytes send_frame send_json_bytes "
    "send_str send_text state wait_closed",
)
class BaseWebSocket(Unpicklable):
    """The properties of both WebSocket classes."""

    _why_not = "it holds a connection; open a new one where it is needed"

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    @property
    def response(self) -> Response:
        """Return the response of the opening handshake, with its headers and timings."""
        return self._connection.response

    @property
    def subprotocol(self) -> str | None:
        """Return the subprotocol that the server chose, or None."""
        return self._connection.protocol.subprotocol

    @property
    def close_code(self) -> int | None:
        """Return the close code: the server's, or ours, or 1006; None while it is open."""
        return self._connection.code if self._connection.has_ended else None

    @property
    def close_reason(self) -> str | None:
        """Return the reason sent with the close code; None while it is open."""
        return self._connection.reason if self._connection.has_ended else None

    @property
    def latency(self) -> float | None:
        """Return the seconds from the last keepalive ping to its pong; None before the first."""
        return self._connection.heartbeat.latency

    def _encode_json(self, value: JSONInput) -> str:
        extensions = self.response.request.extensions
        encode = None if extensions is None else extensions.get(ENCODE_JSON)
        try:
            return str(encode_json(value, encode), "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"dumps must return UTF-8: {error}") from None

    def _decode_json(self, message: Message, to: object, options: dict[str, object]) -> object:
        response = self.response
        request = response.request
        loads = None if request.extensions is None else request.extensions.get(DECODE_JSON)
        where = f"; a message of {request}"
        try:
            value = read_json(message, options, None, loads or json.loads)
            return value if to is None else convert_json(value, to, where)
        except (JSONDecodeError, JSONTypeError) as error:
            error.request, error.response, error.request_sent = request, response, True
            if isinstance(error, JSONDecodeError):
                error._detail = where
            raise

    def __repr__(self) -> str:
        state = "open" if self.close_code is None else f"closed: {self.close_code}"
        return f"<curlhttp.{type(self).__name__} {self.response.request} [{state}]>"


class BasePong(Unpicklable):
    """The properties of both kinds of pongs."""

    _why_not = "its WebSocket holds a connection"

    def __init__(self, connection: WebSocketConnection, ping: SentPing) -> None:
        self._connection = connection
        self._ping = ping

    @property
    def data(self) -> bytes:
        """Return the payload of the ping, which its pong has, too."""
        return self._ping.data

    @property
    def latency(self) -> float | None:
        """Return the seconds from the ping to the pong; None while it has not arrived."""
        return self._ping.latency

    def __repr__(self) -> str:
        state = "expected" if self.latency is None else f"after {self.latency:.3f} s"
        return f"<curlhttp.{type(self).__name__} {self.data!r} [{state}]>"


class Pong(BasePong):
    """The pong of a `WebSocket.ping`: the server's answer, or that to a later ping."""

    def wait(self, timeout: float | None = None) -> float:
        """Wait until the pong has arrived, and return the seconds from the ping to it.

        Another thread may receive meanwhile. If none does, messages that arrive first are kept for
        `recv`: up to 64 KiB of them, because a pong behind more of them is not looked for.

        Args:
            timeout: seconds to wait, or None for no limit. You may wait again after a timeout.

        Raises:
            ReadTimeout: the pong did not arrive in time.
            WebSocketClosed: the WebSocket was closed before.
        """
        return run_sync(lambda: self._connection.wait_for_pong(self._ping, timeout))


class AsyncPong(BasePong):
    """The pong of an `AsyncWebSocket.ping`: the server's answer, or that to a later ping.

    `await pong` is the same as `await pong.wait()`.
    """

    async def wait(self, timeout: float | None = None) -> float:
        """Wait until the pong has arrived, and return the seconds from the ping to it.

        Another task may receive meanwhile. If none does, messages that arrive first are kept for
        `recv`: up to 64 KiB of them, because a pong behind more of them is not looked for.

        Args:
            timeout: seconds to wait, or None for no limit. You may wait again after a timeout, or
                after a cancellation.

        Raises:
            ReadTimeout: the pong did not arrive in time.
            WebSocketClosed: the WebSocket was closed before.
        """
        return await self._connection.wait_for_pong(self._ping, timeout)

    def __await__(self) -> Generator[object, None, float]:
        return self.wait().__await__()


class WebSocket(BaseWebSocket):
    """A WebSocket of `Client`; use it in `with`. One thread may receive, any number may send."""

    def send(self, message: str | bytes) -> None:
        """Send a message: str as text, bytes as binary.

        It waits while the server does not read.

        Args:
            message: str, bytes, bytearray or memoryview.

        Raises:
            TypeError: the message has another type.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        check_running()
        if self._connection.send(message):
            run_sync(self._connection.drain)

    def recv(self, timeout: float | None = None) -> Message:
        """Return the next message: str for text, bytes for binary.

        Args:
            timeout: seconds to wait, or None for no limit. A timeout loses no message.

        Raises:
            ReadTimeout: no message arrived in time.
            WebSocketClosed: no more messages will arrive.
            RuntimeError: another thread is receiving.
        """
        check_running()
        return send_sync(self._connection.receive, timeout)

    def send_json(self, value: JSONInput) -> None:
        """Send a value as JSON, in a text message, written by the client's `json` if it has one.

        Args:
            value: any value that JSON can express, None too.

        Raises:
            InvalidJSONError: the value holds NaN, an infinity, or itself.
            TypeError: JSON cannot express the value.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        self.send(self._encode_json(value))

    @overload
    def receive_json(
        self, timeout: float | None = None, *, type: type[T], **options: object
    ) -> T: ...
    @overload
    def receive_json(
        self, timeout: float | None = None, *, type: object = None, **options: object
    ) -> Any: ...
    def receive_json(
        self, timeout: float | None = None, *, type: object = None, **options: object
    ) -> Any:  # Any: as of json.loads
        """Return the next message read as JSON, by the client's `json` if it has one.

        Args:
            timeout: seconds to wait, or None for no limit.
            type: the type of the result; see `Response.json`.
            options: passed on to json.loads, or to the `loads` of the client's JSON.

        Raises:
            JSONDecodeError: the message is not JSON. The WebSocket stays open.
            JSONTypeError: the value does not fit the type.
            ReadTimeout, WebSocketClosed, RuntimeError: see `recv`.
        """
        return self._decode_json(self.recv(timeout), type, options)

    def ping(self, data: bytes | None = None) -> Pong:
        """Send a ping, and return its pong without waiting for it.

            seconds = ws.ping(b"are you there?").wait(timeout=5)

        Args:
            data: at most 125 bytes, which the pong has, too; None for random ones.
        """
        ping = run_sync(lambda: self._connection.ping(data))
        return Pong(self._connection, ping)

    def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close the WebSocket, and wait up to close_timeout for the server's close frame.

        Args:
            code: 1000 to 1003, 1007 to 1014, or 3000 to 4999 (RFC 6455, section 7.4).
            reason: at most 123 bytes of UTF-8.

        Raises:
            ValueError: the code or the reason is invalid.
        """
        run_sync(lambda: self._connection.close(code, reason))

    def __iter__(self) -> WebSocket:
        return self

    def __next__(self) -> Message:
        try:
            return self.recv()
        except WebSocketClosed:
            if self._connection.is_normal_end:
                raise StopIteration from None
            raise

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            self.close(_NORMAL if kind is None else _FAILED)
        else:
            self._connection.abort(_GONE)  # Ctrl-C does not wait for the server


class AsyncWebSocket(BaseWebSocket):
    """A WebSocket of `AsyncClient`; use it in `async with`. One task may receive, any may send."""

    async def send(self, message: str | bytes) -> None:
        """Send a message: str as text, bytes as binary.

        It waits while the server does not read. If you cancel it then, the message is sent anyway,
        because a part of it may have been sent.

        Args:
            message: str, bytes, bytearray or memoryview.

        Raises:
            TypeError: the message has another type.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        if self._connection.send(message):
            await self._connection.drain()

    async def recv(self, timeout: float | None = None) -> Message:
        """Return the next message: str for text, bytes for binary.

        Args:
            timeout: seconds to wait, or None for no limit. Neither a timeout nor a cancellation
                loses a message.

        Raises:
            ReadTimeout: no message arrived in time.
            WebSocketClosed: no more messages will arrive.
            RuntimeError: another task is receiving.
        """
        return await self._connection.receive(timeout)

    async def send_json(self, value: JSONInput) -> None:
        """Send a value as JSON, in a text message, written by the client's `json` if it has one.

        Args:
            value: any value that JSON can express, None too.

        Raises:
            InvalidJSONError: the value holds NaN, an infinity, or itself.
            TypeError: JSON cannot express the value.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        await self.send(self._encode_json(value))

    @overload
    async def receive_json(
        self, timeout: float | None = None, *, type: type[T], **options: object
    ) -> T: ...
    @overload
    async def receive_json(
        self, timeout: float | None = None, *, type: object = None, **options: object
    ) -> Any: ...
    async def receive_json(
        self, timeout: float | None = None, *, type: object = None, **options: object
    ) -> Any:  # Any: as of json.loads
        """Return the next message read as JSON, by the client's `json` if it has one.

        Args:
            timeout: seconds to wait, or None for no limit.
            type: the type of the result; see `Response.json`.
            options: passed on to json.loads, or to the `loads` of the client's JSON.

        Raises:
            JSONDecodeError: the message is not JSON. The WebSocket stays open.
            JSONTypeError: the value does not fit the type.
            ReadTimeout, WebSocketClosed, RuntimeError: see `recv`.
        """
        return self._decode_json(await self.recv(timeout), type, options)

    async def ping(self, data: bytes | None = None) -> AsyncPong:
        """Send a ping, and return its pong without waiting for it.

            pong = await ws.ping(b"are you there?")
            seconds = await pong.wait(timeout=5)

        Args:
            data: at most 125 bytes, which the pong has, too; None for random ones.
        """
        return AsyncPong(self._connection, await self._connection.ping(data))

    async def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close the WebSocket, and wait up to close_timeout for the server's close frame.

        Args:
            code: 1000 to 1003, 1007 to 1014, or 3000 to 4999 (RFC 6455, section 7.4).
            reason: at most 123 bytes of UTF-8.

        Raises:
            ValueError: the code or the reason is invalid.
        """
        await self._connection.close(code, reason)

    def __aiter__(self) -> AsyncWebSocket:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.recv()
        except WebSocketClosed:
            if self._connection.is_normal_end:
                raise StopAsyncIteration from None
            raise

    async def __aenter__(self) -> AsyncWebSocket:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            await self.close(_NORMAL if kind is None else _FAILED)
        else:
            self._connection.abort(_GONE)  # a cancelled task does not wait for the server


# --- The method websocket of both clients ---
#
# Nothing here loads the package `websockets`. If it is missing, the handshake raises ImportError.


class OpeningWebSocket(Unpicklable):
    """The result of AsyncClient.websocket: await it, or use it in `async with`."""

    def __init__(self, opened: Coroutine[object, None, AsyncWebSocket]) -> None:
        self._opened = opened
        self._websocket: AsyncWebSocket | None = None

    def __await__(self) -> Generator[object, None, AsyncWebSocket]:
        return self._opened.__await__()

    async def __aenter__(self) -> AsyncWebSocket:
        websocket = self._websocket = await self._opened
        return websocket

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._websocket is not None:
            await self._websocket.__aexit__(kind, error, traceback)


def open_blocking(
    client: BaseClient,
    engine: Engine,
    url: str | bytes | URL,
    settings: Settings,
    options: DownloadOptions,
) -> WebSocket:
    """Open a WebSocket of a blocking client; the arguments are those of shake_hands."""
    response, protocol = run_sync(
        lambda: shake_hands(client, lambda: engine, url, settings, options)
    )
    registry = client._websocket_registries.get(engine)
    if registry is None:
        # setdefault is atomic: another thread may make a registry at the same time.
        new = WebSocketRegistry(client._runtime.now, client._runtime.make_waiter, _start_thread)
        registry = client._websocket_registries.setdefault(engine, new)
    return WebSocket(_make_connection(client, response, protocol, settings, registry))


def _start_thread(run: Callable[[], Coroutine[object, None, None]]) -> None:
    start_thread(lambda: run_sync(run), "curlhttp-websockets")


async def open_async(
    client: BaseClient,
    get_engine: Callable[[], Engine],
    url: str | bytes | URL,
    settings: Settings,
    options: DownloadOptions,
) -> AsyncWebSocket:
    """Open a WebSocket of an async client; the arguments are those of shake_hands."""
    response, protocol = await shake_hands(client, get_engine, url, settings, options)
    from curlhttp._runtime.loops import background_tasks, running_loop

    loop = running_loop()
    registry = client._websocket_registries.get(loop)
    if registry is None:
        for other, idle in tuple(client._websocket_registries.items()):
            if not idle.is_running:  # its loop may have ended
                del client._websocket_registries[other]
        tasks = background_tasks(loop, Context())
        registry = client._websocket_registries[loop] = WebSocketRegistry(
            client._runtime.now, tasks.make_waiter, tasks.spawn
        )
    return AsyncWebSocket(_make_connection(client, response, protocol, settings, registry))


def _make_connection(
    client: BaseClient,
    response: Upgraded,
    protocol: ClientProtocol,
    settings: Settings,
    registry: WebSocketRegistry,
) -> WebSocketConnection:
    from curlhttp._features.websocket.connection import WebSocketConnection

    connection = WebSocketConnection(
        response,
        protocol,
        settings,
        now=client._runtime.now,
        make_waiter=registry.make_waiter,
        on_end=registry.remove,
    )
    if settings.ping_interval is not None:
        registry.add(connection)
    return connection
