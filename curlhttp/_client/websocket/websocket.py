"""What users hold of a WebSocket: one class for plain code, one for tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING

from curlhttp._client.websocket.handshake import Settings, Wanted, shake_hands
from curlhttp._client.websocket.registry import WebSocketRegistry
from curlhttp._engine.engine import Engine
from curlhttp._engine.run import run_sync
from curlhttp._models.errors import Unpicklable
from curlhttp._models.response import Response
from curlhttp._models.url import URL
from curlhttp.exceptions import WebSocketClosed

if TYPE_CHECKING:
    from websockets.client import ClientProtocol

    from curlhttp._client.base import Core
    from curlhttp._client.building import DownloadOptions
    from curlhttp._client.websocket.connection import Message, WebSocketConnection
    from curlhttp._flow.upgrade import Upgraded

__all__ = ["AsyncWebSocket", "OpeningWebSocket", "WebSocket", "open_async", "open_blocking"]


_NORMAL, _GONE, _FAILED = 1000, 1001, 1011


class _WebSocket(Unpicklable):
    """What both have in common."""

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
        """Return the close code: the server's, else ours, else 1006; None while it is open."""
        return self._connection.code if self._connection.has_ended else None

    @property
    def close_reason(self) -> str | None:
        """Return the reason that belongs to the close code; None while it is open."""
        return self._connection.reason if self._connection.has_ended else None

    @property
    def latency(self) -> float | None:
        """Return the seconds from the last keepalive ping to its pong; None before the first."""
        return self._connection.heartbeat.latency

    def __repr__(self) -> str:
        state = "open" if self.close_code is None else f"closed: {self.close_code}"
        return f"<curlhttp.{type(self).__name__} {self.response.request} [{state}]>"


class WebSocket(_WebSocket):
    """A WebSocket of `Client`; use it in `with`. One thread receives, any number may send."""

    def send(self, message: str | bytes) -> None:
        """Send a message: str as text, bytes as binary.

        It waits while the server does not read.

        Args:
            message: what to send; bytearray and memoryview are bytes, too.

        Raises:
            TypeError: it is something else.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        run_sync(lambda: self._connection.send(message))

    def recv(self, timeout: float | None = None) -> Message:
        """Return the next message: str of text, bytes of binary.

        Args:
            timeout: seconds to wait; None for as long as it takes. Nothing is lost by it.

        Raises:
            ReadTimeout: no message came in time.
            WebSocketClosed: there are no more.
            RuntimeError: another thread receives on it.
        """
        return run_sync(lambda: self._connection.receive(timeout))

    def ping(self, data: bytes = b"") -> None:
        """Send a ping, and do not wait for its pong; see `latency` for those of the keepalive.

        Args:
            data: at most 125 bytes.
        """
        run_sync(lambda: self._connection.ping(data))

    def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close it, and wait up to close_timeout for the server to agree; may be called twice.

        Args:
            code: 1000 to 1003, 1007 to 1014, or 3000 to 4999 (RFC 6455, section 7.4).
            reason: at most 123 bytes of UTF-8.

        Raises:
            ValueError: code or reason cannot be sent.
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


class AsyncWebSocket(_WebSocket):
    """A WebSocket of `AsyncClient`; use it in `async with`. One task receives, any may send."""

    async def send(self, message: str | bytes) -> None:
        """Send a message: str as text, bytes as binary.

        It waits while the server does not read. A message whose sender is cancelled then goes out
        all the same, since a part of it may have gone.

        Args:
            message: what to send; bytearray and memoryview are bytes, too.

        Raises:
            TypeError: it is something else.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        await self._connection.send(message)

    async def recv(self, timeout: float | None = None) -> Message:
        """Return the next message: str of text, bytes of binary.

        Args:
            timeout: seconds to wait; None for as long as it takes. Nothing is lost by it, nor by
                the cancellation of this task.

        Raises:
            ReadTimeout: no message came in time.
            WebSocketClosed: there are no more.
            RuntimeError: another task receives on it.
        """
        return await self._connection.receive(timeout)

    async def ping(self, data: bytes = b"") -> None:
        """Send a ping, and do not wait for its pong; see `latency` for those of the keepalive.

        Args:
            data: at most 125 bytes.
        """
        await self._connection.ping(data)

    async def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close it, and wait up to close_timeout for the server to agree; may be called twice.

        Args:
            code: 1000 to 1003, 1007 to 1014, or 3000 to 4999 (RFC 6455, section 7.4).
            reason: at most 123 bytes of UTF-8.

        Raises:
            ValueError: code or reason cannot be sent.
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
            self._connection.abort(_GONE)  # who is cancelled does not wait for the server


# --- client.websocket, for both clients: the handshake, and what looks after the result ---
#
# Nothing here loads the package `websockets`: where it is missing, the handshake says so.


class OpeningWebSocket(Unpicklable):
    """What AsyncClient.websocket returns: await it, or use it in `async with`."""

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
    core: Core,
    engine: Engine,
    url: str | bytes | URL,
    wanted: Wanted,
    options: DownloadOptions,
) -> WebSocket:
    """Open a WebSocket of a blocking client; the arguments are those of shake_hands."""
    settings = Settings.of(*wanted)
    response, protocol = run_sync(lambda: shake_hands(core, lambda: engine, url, settings, options))
    keeper = core.keepers.get(engine)
    if keeper is None:
        # In one step, as another thread may be here too.
        new = WebSocketRegistry(core.clock.now, core.gate, _start_thread)
        keeper = core.keepers.setdefault(engine, new)
    return WebSocket(_connected(core, response, protocol, settings, keeper, threading.RLock()))


def _start_thread(run: Callable[[], Coroutine[object, None, None]]) -> None:
    # A daemon: it must not keep a program from ending that left a WebSocket open.
    name = "curlhttp-websockets"
    threading.Thread(target=lambda: run_sync(run), daemon=True, name=name).start()


def open_async(
    core: Core,
    choose: Callable[[], Engine],
    url: str | bytes | URL,
    wanted: Wanted,
    options: DownloadOptions,
) -> OpeningWebSocket:
    """Open a WebSocket of an async client; the arguments are those of shake_hands."""
    return OpeningWebSocket(_open(core, choose, url, Settings.of(*wanted), options))


async def _open(
    core: Core,
    choose: Callable[[], Engine],
    url: str | bytes | URL,
    settings: Settings,
    options: DownloadOptions,
) -> AsyncWebSocket:
    response, protocol = await shake_hands(core, choose, url, settings, options)
    from curlhttp._curl.engines.background import background_tasks
    from curlhttp._curl.engines.loops import running_loop

    loop = running_loop()
    keeper = core.keepers.get(loop)
    if keeper is None:
        for other, idle in tuple(core.keepers.items()):
            if not idle.runs:  # its loop may have ended
                del core.keepers[other]
        tasks = background_tasks(loop, Context())
        keeper = core.keepers[loop] = WebSocketRegistry(core.clock.now, tasks.gate, tasks.spawn)
    return AsyncWebSocket(_connected(core, response, protocol, settings, keeper, threading.RLock()))


def _connected(
    core: Core,
    response: Upgraded,
    protocol: ClientProtocol,
    settings: Settings,
    keeper: WebSocketRegistry,
    lock: AbstractContextManager[object],
) -> WebSocketConnection:
    from curlhttp._client.websocket.connection import WebSocketConnection

    connection = WebSocketConnection(
        response,
        protocol,
        settings,
        now=core.clock.now,
        gate=keeper.gate,
        lock=lock,
        on_end=keeper.remove,
    )
    if settings.ping_interval is not None:
        keeper.add(connection)
    return connection
