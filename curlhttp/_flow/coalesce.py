"""Let equal GETs that are under way at the same time share one transfer, as Go's singleflight does.

In AsyncClient, the transfer runs in a task of its own, so that a cancelled request ends only its
wait; the last one ends the transfer. In Client, the first thread sends, and the others wait for it.

The layer is above the cache and all layers of attempts, so retries happen once, and below
authentication and cookies, so that only requests with the same credentials are equal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Hashable
from typing import TypeAlias

from curlhttp._engine.engine import Clock, Layer, MakeWaiter, Send, Waiter
from curlhttp._models.errors import Unpicklable
from curlhttp._models.fork import register
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import DeadlineExceeded

Spawn: TypeAlias = Callable[[Callable[[], Coroutine[object, None, None]]], Callable[[], None]]
"""Starts a task, and returns a function that cancels it."""


class _Shared:
    """A transfer that several requests wait for."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self.cancel: Callable[[], None] | None = None
        self.is_done = False
        self.result: Response | Exception | None = None  # None: it was abandoned


class Coalescing(Unpicklable):
    """The transfers that are under way in one chain of layers.

    Args:
        clock: of the engine.
        make_waiter: makes a waiter of the engine.
        spawn: starts a task; None to send in the caller.
        where: returns what requests must have in common to share, such as the event loop.
    """

    def __init__(
        self,
        clock: Clock,
        make_waiter: MakeWaiter,
        spawn: Spawn | None,
        where: Callable[[], Hashable] | None,
    ) -> None:
        self._now = clock.now
        self._make_waiter = make_waiter
        self._spawn = spawn
        self._where = where
        self._forget()
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget the transfers of the parent, whose threads do not exist here."""
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._transfers: dict[Hashable, _Shared] = {}

    def layer(self, send: Send) -> Send:
        """Return the layer; see the module."""

        async def through(request: Request) -> Response:
            if not _may_share(request):
                return await send(request)
            key = _make_key(request)
            if self._where is not None:
                key = (self._where(), key)
            while True:
                with self._lock:
                    shared = self._transfers.get(key)
                    is_first = shared is None
                    if shared is None:
                        shared = self._transfers[key] = _Shared()
                    elif self._spawn is None:
                        waiter = self._make_waiter()
                        shared.waiters.add(waiter)
                if is_first and self._spawn is None:
                    return await self._send_here(shared, key, request, send)
                if self._spawn is not None:
                    waiter = self._make_waiter()
                    shared.waiters.add(waiter)
                    if is_first:
                        self._start(shared, key, request, send, self._spawn)
                await self._wait(shared, key, waiter, request)
                result = shared.result
                if isinstance(result, Response):
                    return _copy(result)
                if result is None or self._has_time(request, result):
                    continue  # the request that began it was interrupted, or had less time
                raise _copy_error(result)

        return through

    def _has_time(self, request: Request, error: Exception) -> bool:
        return (
            isinstance(error, DeadlineExceeded)
            and request.deadline is not None
            and not request.is_late(self._now())
        )

    async def _send_here(
        self, shared: _Shared, key: Hashable, request: Request, send: Send
    ) -> Response:
        result: Response | Exception | None = None
        try:
            response = result = await send(request)
        except Exception as error:
            result = _copy_error(error)
            raise
        finally:
            self._end(shared, key, result)
        return response

    def _start(
        self, shared: _Shared, key: Hashable, request: Request, send: Send, spawn: Spawn
    ) -> None:
        own = request.copy()  # the caller may leave and use its request again

        async def run() -> None:
            result: Response | Exception | None = None
            try:
                result = await send(own)
            except Exception as error:
                result = error
            finally:
                self._end(shared, key, result)

        shared.cancel = spawn(run)

    async def _wait(self, shared: _Shared, key: Hashable, waiter: Waiter, request: Request) -> None:
        try:
            if not shared.is_done:
                # Only once, because a waiter whose time is over cannot wait again.
                deadline = request.deadline
                left = None if deadline is None else max(0.0, deadline - self._now())
                await waiter.wait(left)
            if not shared.is_done:
                raise DeadlineExceeded(
                    f"{request}: the total of {request.timeout.total} s ran out while it shared "
                    "the transfer of an equal request",
                    request=request,
                    request_sent=True,
                )
        finally:
            shared.waiters.discard(waiter)
            if not shared.waiters and not shared.is_done and shared.cancel is not None:
                self._end(shared, key, None)
                shared.cancel()

    def _end(self, shared: _Shared, key: Hashable, result: Response | Exception | None) -> None:
        with self._lock:
            if self._transfers.get(key) is shared:
                del self._transfers[key]
            if shared.is_done:
                return
            shared.result, shared.is_done = result, True
            waiters = tuple(shared.waiters)
        for waiter in waiters:
            waiter.wake()


def _may_share(request: Request) -> bool:
    if request.method != "GET" or request.stream or request.body is not None:
        return False
    control = request.get_header("cache-control")
    return control is None or "no-store" not in control.lower()


def _make_key(request: Request) -> Hashable:
    """Return what is equal for requests that may share; all else is not visible in the result."""
    timeout = request.timeout
    return (
        request.url.wire,
        tuple(request.header_lines()),
        id(request.transport),
        id(request.route),
        id(request.retry),
        (timeout.connect, timeout.read, timeout.write, timeout.pool, timeout.total),
        request.max_response_size,
        request.decode,
        request.follow_redirects,
    )


def _copy(response: Response) -> Response:
    """Return a response that only shares bytes with another one."""
    made = Response(response.request.copy(), response._head, response._content, response._times)
    made.attempts = response.attempts
    made.from_cache, made.cache_status = response.from_cache, response.cache_status
    made._coded, made._certificate = response._coded, response._certificate
    made.history = [*response.history]
    return made


def _copy_error(error: Exception) -> Exception:
    """Return an error of its own for each caller, which adds its own traceback."""
    made = type(error).__new__(type(error), *error.args)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    made.__cause__ = error.__cause__
    made.__suppress_context__ = error.__suppress_context__
    return made


def coalesce(
    clock: Clock,
    make_waiter: MakeWaiter,
    *,
    spawn: Spawn | None = None,
    where: Callable[[], Hashable] | None = None,
) -> Layer:
    """Return the layer that lets equal requests share one transfer; see Coalescing."""
    return Coalescing(clock, make_waiter, spawn, where).layer
