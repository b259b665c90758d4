"""client.websocket, for both clients: the handshake, and what looks after the result.

Nothing here loads the package `websockets`: where it is missing, the handshake says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING

from curlhttp._engine import Engine
from curlhttp._models.errors import Unpicklable
from curlhttp._models.url import URL
from curlhttp._run import run_sync
from curlhttp._websocket.handshake import Settings, Wanted, shake_hands
from curlhttp._websocket.keeper import Keeper
from curlhttp._websocket.websocket import AsyncWebSocket, WebSocket

if TYPE_CHECKING:
    from websockets.client import ClientProtocol

    from curlhttp._building import DownloadOptions
    from curlhttp._core import Core
    from curlhttp._flow.upgrade import Upgraded
    from curlhttp._websocket.connection import WebSocketConnection

__all__ = ["OpeningWebSocket", "open_async", "open_blocking"]


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
        new = Keeper(core.clock.now, core.gate, _start_thread)
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
    from curlhttp._background import background_tasks
    from curlhttp._loops import running_loop

    loop = running_loop()
    keeper = core.keepers.get(loop)
    if keeper is None:
        for other, idle in tuple(core.keepers.items()):
            if not idle.runs:  # its loop may have ended
                del core.keepers[other]
        tasks = background_tasks(loop, Context())
        keeper = core.keepers[loop] = Keeper(core.clock.now, tasks.gate, tasks.spawn)
    return AsyncWebSocket(_connected(core, response, protocol, settings, keeper, nullcontext()))


def _connected(
    core: Core,
    response: Upgraded,
    protocol: ClientProtocol,
    settings: Settings,
    keeper: Keeper,
    lock: AbstractContextManager[object],
) -> WebSocketConnection:
    from curlhttp._websocket.connection import WebSocketConnection

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
