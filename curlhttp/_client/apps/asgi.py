"""An ASGI app in place of the network: an engine for AsyncClient."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel

from curlhttp._client.apps.call import asgi_scope, check_asgi
from curlhttp._client.apps.exchange import AppExchange
from curlhttp._client.apps.lifespan import Lifespan
from curlhttp._client.apps.websocket import AppSocket
from curlhttp._curl.engines.event_loop import SharedGate
from curlhttp._curl.engines.loops import BackgroundTasks, Loop, background_tasks, running_loop
from curlhttp._engine.engine import HedgePlan
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp._models.timings import Timings
from curlhttp.exceptions import ClientClosed, RequestException

__all__ = ["ASGITransport", "race"]


# --- Several attempts of one request to an app at once: the plan decides, this waits ---


async def race(
    first: AppExchange, plan: HedgePlan, begin: Callable[[Request, AppExchange], AppExchange]
) -> AppExchange:
    """Return the attempt that surfaces: the first good, or the last; the others are aborted.

    Args:
        first: the first attempt, begun.
        plan: see _flow/hedge.py.
        begin: begins one more, given its request and the first attempt, whose changes it shares.
    """
    running, left, latest = [first], plan.most, first.begun
    try:
        while (winner := _winner(running, plan)) is None:
            after = plan.after if left else None
            due = None if after is None else max(0.0, latest + after - monotonic())
            patience = min(
                (each for each in (due, *(one.patience() for one in running)) if each is not None),
                default=None,
            )
            await first.changes.wait(patience)
            for exchange in running:
                await exchange.give_up_late(partial(_is_over, exchange))
            if after is None or monotonic() < latest + after:
                continue
            again = None if any(one.head for one in running) else await plan.again()
            if again is None:
                left = 0
                continue
            left, latest = left - 1, monotonic()
            running.append(begin(again, first))
    except BaseException:
        for exchange in running:
            exchange.abort()
        raise
    if first in running and (first is not winner or first.head is not None):
        plan.timed(monotonic() - first.begun if first.head is None else first.first_byte)
    plan.surfaces(winner.request)
    for exchange in running:
        if exchange is not winner:
            plan.dropped(exchange.request, None, monotonic() - exchange.begun, True)
            exchange.abort()
    return winner


def _winner(running: list[AppExchange], plan: HedgePlan) -> AppExchange | None:
    for exchange in tuple(running):
        if not _is_over(exchange):
            continue
        head, failed = exchange.head, exchange.failed
        if len(running) == 1 or (failed is None and head and plan.is_good(head.status_code)):
            return exchange
        if failed is not None and not isinstance(failed, Exception):
            return exchange  # Ctrl-C ends everything
        running.remove(exchange)
        result = failed if failed is not None or head is None else _beaten(exchange, head)
        plan.dropped(exchange.request, result, monotonic() - exchange.begun, True)
        exchange.abort()
    return None


def _beaten(exchange: AppExchange, head: Head) -> Response:
    seconds = exchange.first_byte
    times = Timings(0.0, 0.0, 0.0, 0.0, seconds, seconds, False, None)
    return Response(exchange.request, head, b"", times)


def _is_over(exchange: AppExchange) -> bool:
    # The head decides a race of streams: a body may last for hours.
    return exchange.done or (exchange.request.stream and exchange.head is not None)


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
        from curlhttp._client.apps.websocket import AppSocket

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


# --- The client's side of a WebSocket to an app: a connection in memory ---


class AppStream:
    """The client's side: a connection on which the app is the server.

    Args:
        socket: the app's side.
    """

    def __init__(self, socket: AppSocket) -> None:
        self._socket = socket

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end of what the app sends, None for none in time.

        Args:
            seconds: how long to wait; None for as long as it takes.

        Raises:
            RequestException: the connection was given up.
            Exception: the app's own.
        """
        data = self._socket.give_bytes()
        if data is None:
            await self._wait(seconds, self._socket.has_bytes)
            data = self._socket.give_bytes()
        return data

    async def _wait(self, seconds: float | None, is_so: Callable[[], bool]) -> None:
        with anyio.move_on_after(seconds):
            while not is_so():
                await self._socket.changes.wait()

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""
        return self._socket.give_bytes()

    def write(self, data: bytes) -> None:
        """Take bytes for the app; never waits.

        Raises:
            RequestException: the connection was given up.
        """
        if self._socket.is_gone and isinstance(self._socket.failed, RequestException):
            raise self._socket.failed
        self._socket.take_bytes(data)

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until the app has taken most of what was written; False if it has not in time.

        Args:
            seconds: how long to wait; None for as long as it takes.
        """
        await self._wait(seconds, self._socket.has_room)
        return self._socket.has_room()

    def unsent(self) -> int:
        """Return how many bytes wait for the app, 0 if there is room for more."""
        return self._socket.unsent()

    def abort(self, error: Exception | None = None) -> None:
        """End the connection at once, from any thread; never waits, may be called twice.

        Args:
            error: what whoever waits for it gets, and whoever uses it afterwards; or None.
        """
        socket = self._socket
        socket.call_soon(lambda: socket.abort(error))

    def timings(self) -> Timings:
        """Return that no time went by."""
        return Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, None)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.abort()
