"""An ASGI app in place of the network: an engine for AsyncClient."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from curlhttp._apps.check import check_asgi
from curlhttp._apps.exchange import AppExchange
from curlhttp._apps.lifespan import Lifespan
from curlhttp._apps.race import race
from curlhttp._apps.scope import asgi_scope
from curlhttp._background import BackgroundTasks, background_tasks
from curlhttp._curl.engines.event_loop import SharedGate
from curlhttp._engine import HedgePlan
from curlhttp._loops import Loop, running_loop
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import ClientClosed

if TYPE_CHECKING:
    from curlhttp._apps.stream import AppStream
    from curlhttp._apps.websocket import AppSocket

__all__ = ["ASGITransport"]


class ASGITransport:
    """Send an AsyncClient's requests to an ASGI app: `AsyncClient(transport=ASGITransport(app))`.

    All that is above the network works as ever, WebSockets included. Each request is a task of its
    own, which ends before the client; a response is there when the app has ended, its background
    tasks included.

    Args:
        app: of ASGI 3.
        lifespan: start the app with `async with client`, or the first request, and stop it with
            the client, in each event loop in which the client is used. An app that knows no
            lifespan works, too.
        client: address and port that the app sees, or None.
        root_path: where the app is mounted.
        raise_app_exceptions: what the app raises is raised by the client; else it is a response of
            500, or a body that breaks off.

    Raises:
        TypeError: the app is none of ASGI.
    """

    needs_client = "AsyncClient"

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
        self._places: dict[Loop, _Place] = {}
        self._is_closed = False

    # exchanges

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Call the app and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to call it again while it is busy; None for never.

        Raises:
            RequestException: no response came of it.
            Exception: the app's own.
        """
        exchange = await self._start(request, plan)
        try:
            await exchange.wait(lambda: exchange.done)
            return exchange.response()
        except BaseException as error:
            exchange.abort()
            exchange.told(error)
            raise

    async def open(self, request: Request, plan: HedgePlan | None = None) -> AppExchange:
        """Call the app and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: no response came of it.
            Exception: the app's own.
        """
        exchange = await self._start(request, plan)
        try:
            await exchange.wait(lambda: exchange.head is not None or exchange.done)
            if exchange.head is None:
                exchange.raise_failure()
        except BaseException as error:
            exchange.abort()
            exchange.told(error)
            raise
        return exchange

    async def _start(self, request: Request, plan: HedgePlan | None) -> AppExchange:
        place = await self._started()
        first = self._begin(place, request)
        if plan is None:
            return first
        return await race(first, plan, partial(self._begin, place))

    def _begin(
        self, place: _Place, request: Request, first: AppExchange | None = None
    ) -> AppExchange:
        if self._is_closed:
            raise client_closed(request)
        exchange = AppExchange(
            self._app,
            self._scope("http", place, request),
            request,
            background_tasks(place.loop, copy_context()),
            self,
            raises=self._raises,
        )
        if first is not None:
            exchange.changes = first.changes
        place.running.add(exchange)
        exchange.start(place.running.discard)
        return exchange

    async def connect(self, request: Request) -> AppStream:
        """Return a connection on which the app speaks WebSocket.

        Args:
            request: complete.

        Raises:
            ImportError: the extra ws is missing.
        """
        from curlhttp._apps.stream import AppStream
        from curlhttp._apps.websocket import AppSocket

        place = await self._started()
        if self._is_closed:
            raise client_closed(request)

        def scope(fields: list[tuple[bytes, bytes]]) -> dict[str, object]:
            return {**self._scope("websocket", place, request), "headers": fields}

        tasks = background_tasks(place.loop, copy_context())
        ended = place.running.discard
        socket = AppSocket(self._app, scope, request, tasks, raises=self._raises, ended=ended)
        place.running.add(socket)
        return AppStream(socket)

    def _scope(self, kind: str, place: _Place, request: Request) -> dict[str, object]:
        state = None if place.lifespan is None else place.lifespan.state
        return asgi_scope(
            kind, request, client=self._client, root_path=self._root_path, state=state
        )

    async def read(self, incoming: AppExchange) -> bytes:
        """Return the next piece of the body as it came, b"" at the end.

        Raises:
            RequestException: the body broke off.
            Exception: the app's own.
        """
        try:
            return await incoming.read()
        except BaseException as error:
            incoming.abort()
            incoming.told(error)
            raise

    def abort(self, incoming: AppExchange) -> None:
        """Let go of a response: the app is told that the client has gone."""
        incoming.abort()

    def abort_from_finalizer(self, incoming: AppExchange) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""
        incoming.abort_from_finalizer()

    # waits

    @staticmethod
    def now() -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    @staticmethod
    def wall() -> float:
        """Return the time of day in seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)

    def gate(self) -> SharedGate:
        """Return a closed gate, for a caller to wait at."""
        tasks = self._place().tasks
        return SharedGate(tasks.gate(), tasks.call_soon)

    # the beginning and the end

    def _place(self) -> _Place:
        """Return what belongs to the running event loop."""
        loop = running_loop()
        place = self._places.get(loop)
        if place is None:
            for ended in [each for each in self._places.values() if each.has_ended()]:
                self._places.pop(ended.loop, None)
            place = self._places[loop] = _Place(loop, self._app if self._has_lifespan else None)
        return place

    async def astart(self) -> None:
        """Start the app in this event loop.

        Raises:
            RuntimeError: the app says that it failed to start.
        """
        await self._started()

    async def _started(self) -> _Place:
        if self._is_closed:
            raise client_closed()
        place = self._place()
        if place.lifespan is not None:
            await place.lifespan.start()
        return place

    def close(self) -> None:
        """Send no more requests, and cancel what other event loops run."""
        self._is_closed = True
        try:
            here = running_loop()
        except RuntimeError:  # none runs
            here = None
        for place in list(self._places.values()):
            if place.loop != here:
                place.cancel_from_elsewhere()

    async def aclose(self) -> None:
        """End all requests, then stop the app in this event loop.

        Raises:
            RuntimeError: the app says that it failed to stop.
        """
        self.close()
        place = self._places.pop(running_loop(), None)
        if place is not None:
            await place.aclose()


class _Place:
    """What a transport has in one event loop.

    Args:
        loop: see _loops.
        app: with a lifespan, or None.

    Attributes:
        loop: see there.
        lifespan: of the app, or None.
        running: exchanges whose apps have not ended.
        tasks: makes gates of the loop.
    """

    def __init__(self, loop: Loop, app: Any) -> None:  # Any: see ASGITransport
        self.loop: Loop = loop
        self.tasks: BackgroundTasks = background_tasks(loop, copy_context())
        self.lifespan: Lifespan | None = None if app is None else Lifespan(app, self.tasks)
        self.running: set[AppExchange | AppSocket] = set()

    def has_ended(self) -> bool:
        """Return whether the event loop runs no more, for good."""
        if isinstance(self.loop, asyncio.AbstractEventLoop):
            return self.loop.is_closed()
        try:
            self.tasks.call_soon(_nothing)
        except RuntimeError:
            return True
        return False

    def cancel_from_elsewhere(self) -> None:
        """Cancel all tasks, from another event loop."""
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
            await anyio.lowlevel.checkpoint()  # an app that is told may end by itself
            for exchange in running:
                exchange.cancel()
            for exchange in running:
                await exchange.wait_until_ended()
        if self.lifespan is not None:
            await self.lifespan.stop()


def _nothing() -> None:
    """Do nothing: only whether it could be called matters."""
