"""Let equal GETs that are under way at the same time share one transfer, as Go's singleflight does.

In AsyncClient, the transfer runs in a task of its own, so that a cancelled request ends only its
wait; the last one ends the transfer. In Client, the first thread sends, and the others wait for it.

The layer is above the cache and all layers of attempts, so retries happen once, and below
authentication and cookies, so that only requests with the same credentials are equal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

from curlhttp._client.chain import Host, LayerContext, Settings, Spawn, SpawnedTask
from curlhttp._features.error_copies import copy_error
from curlhttp._features.waits import Waits
from curlhttp._http.errors import Unpicklable
from curlhttp._http.fork import register
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Runtime, Send, Totals, Waiter
from curlhttp.exceptions import DeadlineExceeded

E = TypeVar("E", bound=BaseException)


def start(settings: Settings, host: Host) -> None:
    """Keep what starts the tasks of this client."""
    settings["coalesce"] = host.spawn, host.where


class _Shared:
    """A transfer that several requests wait for.

    Args:
        begun: the request that began it.
    """

    def __init__(self, begun: ClientRequest) -> None:
        self.extensions = begun.extensions or {}
        self.waiters: set[Waiter] = set()
        self.task: SpawnedTask | None = None
        self.is_done = False
        self.result: Response | BaseException | None = None  # None: it was abandoned


class Coalescing(Unpicklable):
    """The transfers that are under way in one chain of layers.

    Args:
        runtime: of the engine.
        spawn: starts a task; None to send in the caller.
        where: returns what requests must have in common to share, such as the event loop.
        totals: of the client, which count the waits.
    """

    def __init__(
        self,
        runtime: Runtime,
        spawn: Spawn | None,
        where: Callable[[], Hashable] | None,
        totals: Totals,
    ) -> None:
        self._now = runtime.now
        self._waits = Waits(runtime.now, totals.outcomes)
        self._make_waiter = runtime.make_waiter
        self._spawn = spawn
        self._where = where
        self._forget()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Forget the transfers of the parent, whose threads do not exist here."""
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._transfers: dict[Hashable, _Shared] = {}

    def layer(self, send: Send) -> Send:
        """Return the layer; see the module."""

        async def through(request: ClientRequest) -> Response:
            if not _may_share(request):
                return await send(request)
            key = _make_key(request)
            if self._where is not None:
                key = (self._where(), key)
            while True:
                own = _Shared(request)
                try:
                    shared, waiter = self._join(key, own)
                    if shared is own:
                        if self._spawn is None:
                            return await self._send_here(own, key, request, send)
                        self._start(own, key, request, send, self._spawn)
                except BaseException:  # such as Ctrl-C, after which nobody else would end it
                    self._end(own, key, None)
                    raise
                begun = self._now()
                try:
                    result = await self._wait(shared, key, waiter, request, is_first=shared is own)
                except BaseException as error:
                    if shared is not own:
                        self._waits.fail(request, "coalesce", begun, error)
                    raise
                waited = 0.0
                if shared is not own:
                    waited = self._waits.count(request, "coalesce", begun)
                if isinstance(result, Response):
                    response = _copy(result, shared, request)
                    response._times = response.timings._replace(coalesce=waited)
                    return response
                if result is None or self._has_time(request, result):
                    continue  # the request that began it was interrupted, or had less time
                raise _copy_error(result, shared, request)

        return through

    def _join(self, key: Hashable, own: _Shared) -> tuple[_Shared, Waiter]:
        """Return the transfer to wait for, which is `own` if there was none, and its waiter."""
        waiter = self._make_waiter()
        with self._lock:
            shared = self._transfers.setdefault(key, own)
            if shared is not own or self._spawn is not None:
                shared.waiters.add(waiter)
        return shared, waiter

    def _has_time(self, request: ClientRequest, error: BaseException) -> bool:
        return (
            isinstance(error, DeadlineExceeded)
            and request.deadline is not None
            and not request.is_late(self._now())
        )

    async def _send_here(
        self, shared: _Shared, key: Hashable, request: ClientRequest, send: Send
    ) -> Response:
        result: Response | Exception | None = None
        try:
            response = await send(request)
            # A copy, because the caller and the layers above change the response.
            result = _copy(response, shared, request)
        except Exception as error:
            result = _copy_error(error, shared, request)
            raise
        finally:
            self._end(shared, key, result)
            del result  # otherwise the error's traceback and this frame would hold each other
        return response

    def _start(
        self, shared: _Shared, key: Hashable, request: ClientRequest, send: Send, spawn: Spawn
    ) -> None:
        own = request.copy()  # the caller may leave and use its request again

        async def run() -> None:
            result: Response | BaseException | None = None
            try:
                result = await send(own)
            except BaseException as error:
                if shared.task is not None and shared.task.was_cancelled(error):
                    raise
                # Those that wait raise it. In the task, it would be lost, or end the event loop.
                result = error
            finally:
                self._end(shared, key, result)
                del result  # see _send_here

        shared.task = spawn(run)

    async def _wait(
        self,
        shared: _Shared,
        key: Hashable,
        waiter: Waiter,
        request: ClientRequest,
        *,
        is_first: bool,
    ) -> Response | BaseException | None:
        """Return the result of a transfer, None if it was abandoned."""
        # The transfer has the deadline of the first request, and its error says more.
        deadline = None if is_first else request.deadline
        try:
            if not shared.is_done:
                # Only once, because a waiter whose time is over cannot wait again.
                left = None if deadline is None else max(0.0, deadline - self._now())
                await waiter.wait(left)
            if not shared.is_done:
                raise DeadlineExceeded(
                    f"{request}: the total timeout of {request.timeout.total} s ran out while it "
                    "shared the transfer of an equal request",
                    request=request,
                    request_sent=True,
                )
            return shared.result
        finally:
            with self._lock:
                shared.waiters.discard(waiter)
                is_last = not shared.waiters
            if is_last and shared.is_done:
                shared.result = None  # otherwise an error's traceback would hold this for longer
            elif is_last and shared.task is not None:
                self._end(shared, key, None)
                shared.task.cancel()

    def _end(self, shared: _Shared, key: Hashable, result: Response | BaseException | None) -> None:
        """End a transfer, unless it has ended; repeat what an interrupted call may have omitted."""
        with self._lock:
            if self._transfers.get(key) is shared:
                del self._transfers[key]
            waiters = tuple(shared.waiters)
            if not shared.is_done:
                shared.result, shared.is_done = result if waiters else None, True
        for waiter in waiters:
            waiter.wake()


def _may_share(request: ClientRequest) -> bool:
    if request.method != "GET" or request.stream or request.body is not None:
        return False
    control = request.get_header("cache-control")
    return control is None or "no-store" not in control.lower()


def _make_key(request: ClientRequest) -> Hashable:
    """Return what is equal for requests that may share; all else is not visible in the result."""
    timeout = request.timeout
    return (
        request.url.wire,
        tuple(request.header_lines()),
        id(request.route),
        id(request.choose_route),
        id(request.retry),
        (timeout.connect, timeout.read, timeout.write, timeout.pool, timeout.total),
        request.max_response_size,
        request.decode,
        request.follow_redirects,
    )


def _copy(response: Response, shared: _Shared, request: ClientRequest) -> Response:
    """Return a response to another request, which shares only bytes with the first one."""
    attempts = response.attempts  # which the first look at a response works out
    made = object.__new__(type(response))
    made.__dict__.update(response.__dict__)
    made.attempts = attempts
    made.request = _copy_request(response.request, shared, request)
    made._cookies = None
    if response._headers is not None:
        made._headers = response._headers.copy()
    if response._history is not None:
        made._history = response._history.copy()
    return made


def _copy_request(sent: ClientRequest, shared: _Shared, request: ClientRequest) -> ClientRequest:
    """Return what was sent, with that of the caller's request which is not part of the key."""
    made = sent.copy()
    if made.url.wire == request.url.wire:
        made.url = request.url  # with its own fragment
    made.deadline = request.deadline
    added = {
        name: value
        for name, value in (sent.extensions or {}).items()
        if name not in shared.extensions
    }
    made.extensions = {**(request.extensions or {}), **added} or None
    return made


def _copy_error(error: E, shared: _Shared, request: ClientRequest) -> E:
    """Return an error for one caller, which adds to its traceback and its notes."""
    made = copy_error(error)
    sent = getattr(error, "request", None)
    if made is not error and isinstance(sent, ClientRequest):
        vars(made)["request"] = _copy_request(sent, shared, request)
    return made


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that lets equal requests share one transfer; see Coalescing."""
    spawn, where = context.settings["coalesce"]
    return Coalescing(context.runtime, spawn, where, context.host.totals).layer
