"""The core of the async client: its methods are coroutines, and each event loop has an engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from sys import get_asyncgen_hooks
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, cast, overload

from curlhttp._client.base import BaseClient
from curlhttp._client.exchange import exchange_async
from curlhttp._client.request_builder import (
    disable_redirects,
    refuse_options,
    set_signatures,
)
from curlhttp._client.straight import go_on, is_final
from curlhttp._client.stream import AsyncStreamedResponse
from curlhttp._http.errors import client_closed
from curlhttp._http.request import ClientRequest, StreamedRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Engine, Runtime
from curlhttp._runtime.network import now, wall
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from collections.abc import Hashable

    from typing_extensions import Unpack

    from curlhttp._client.base import Self
    from curlhttp._client.chain import Spawn, SpawnedTask
    from curlhttp._client.options import RequestOptions
    from curlhttp._client.transport import WrapsTransport
    from curlhttp._http.inputs import UserRequest
    from curlhttp._libcurl.engines.event_loop import EventLoopEngine
    from curlhttp._runtime.engine import Send
    from curlhttp._runtime.loops import Loop

_NO_ENGINE = object(), None


def _no_loop() -> None:
    """Return what is no loop, so that no engine of libcurl is found."""


class _Streaming:
    """The result of AsyncClient.stream: await it, or use it in `async with`."""

    def __init__(self, sent: Coroutine[object, None, Response]) -> None:
        self._sent = cast("Coroutine[object, None, AsyncStreamedResponse]", sent)
        self._response: AsyncStreamedResponse | None = None

    def __await__(self) -> Generator[object, None, AsyncStreamedResponse]:
        return self._sent.__await__()

    if not TYPE_CHECKING:  # type checkers reject both

        def __enter__(self):
            self._sent.close()
            raise TypeError("stream() of AsyncClient needs `async with`, not `with`")

        __exit__ = __enter__

        def __aiter__(self):
            self._sent.close()
            raise TypeError(
                "write `async with client.stream(method, url) as response:`, and in it "
                "`async for line in response.aiter_lines():`"
            )

        def __getattr__(self, name):
            raise AttributeError(
                f"there is no {name!r} until the response has arrived; write "
                "`async with client.stream(method, url) as response:`"
            )

    async def __aenter__(self) -> AsyncStreamedResponse:
        response = await self._sent
        self._response = response
        return response

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._response is not None:
            await self._response.aclose()


class LoopClient(BaseClient):
    """Send requests from tasks of an event loop; `AsyncClient` adds the methods of features."""

    _http2 = True
    _streamed = AsyncStreamedResponse
    _awaits_hooks = True

    def _set_engine(self, transport: object) -> None:
        from curlhttp._libcurl.engines import loops as _loops
        from curlhttp._runtime import loops as _runtime

        self._loops = _loops
        self._loop_functions = _runtime
        self._running_loop = _runtime.running_loop
        self._find_running_loop = _runtime.find_running_loop
        self._run_blocking = _runtime.in_thread_or_leave
        self._engines: dict[Loop, EventLoopEngine] = {}
        # Of the last request: the hook of its loop, and the engine. One tuple, because other
        # threads may have other loops.
        self._last_engine: tuple[object, EventLoopEngine | None] = _NO_ENGINE
        self.is_closed: bool = False  # not on the class, where Python finds it more slowly
        self._uses_libcurl = transport is None or hasattr(transport, "wrap")
        given = self._given_transport = None if transport is None else self._to_engine(transport)
        if given is not None:
            self._find_running_loop = cast("Callable[[], Loop]", _no_loop)
        clock = now, wall
        if given is not None and not self._uses_libcurl:
            clock = given.runtime.now, given.runtime.wall
        self._runtime: Runtime = Runtime(  # of the loop that runs when it is used
            *clock,
            lambda seconds: self._timer().runtime.sleep(seconds),
            lambda: self._timer().runtime.make_waiter(),
            lambda: self._timer().runtime.make_race(),
        )
        self._exchange: Send = self._make_exchange()

    def _to_engine(self, transport: object) -> Engine:
        """Return the engine that uses a transport."""
        from curlhttp._client.transport import AsyncEngineTransport, to_engine

        if not self._uses_libcurl:
            return to_engine(transport, "AsyncClient")
        inner = AsyncEngineTransport(self._libcurl, self._routing.check)
        return to_engine(cast("WrapsTransport", transport).wrap(inner), "AsyncClient")

    def _make_bare_exchange(self) -> Send:
        return exchange_async(self._choose_engine, self._runtime.now, AsyncStreamedResponse)

    def _tasks(self) -> tuple[Spawn | None, Callable[[], Hashable] | None]:
        return self._spawn, self._running_loop

    def _spawn(self, run: Callable[[], Coroutine[object, None, None]]) -> SpawnedTask:
        """Start a task of the running loop; see Spawn."""
        tasks = self._loop_functions.background_tasks(self._running_loop(), copy_context())
        tasks.spawn(run)
        return tasks

    def _choose_engine(self) -> Engine:
        """Return the engine of the running event loop."""
        # A loop sets a hook when it begins to run. Nothing else of it is found as fast.
        hook, engine = self._last_engine
        if (
            engine is None
            or get_asyncgen_hooks()[0] is not hook
            or engine.is_closed
            or self.is_closed
        ):
            return self._find_engine()
        return engine

    def _find_engine(self) -> Engine:
        loop = self._find_running_loop()
        engine = self._engines.get(loop)
        if engine is None or engine.is_closed or self.is_closed:
            return self._make_engine()
        hook = get_asyncgen_hooks()[0]
        if getattr(hook, "__self__", None) is loop:
            self._last_engine = hook, engine
        return engine

    def _make_engine(self) -> Engine:
        if self.is_closed:
            raise client_closed()
        return self._libcurl() if self._given_transport is None else self._given_transport

    def _timer(self) -> Engine:
        """Return the engine that provides the time: libcurl's, if it is used."""
        return self._libcurl() if self._uses_libcurl else self._choose_engine()

    def _libcurl(self) -> Engine:
        """Return libcurl's engine of the running event loop, a new one if there is none."""
        loop = self._running_loop()
        if self.is_closed:
            raise client_closed()
        engine = self._engines.get(loop)
        if engine is None or engine.is_closed:
            make_engine = self._loops.make_engine
            engine = make_engine(self._engines, loop, self._limits, multiplexes=self._multiplexes)
            self._add_engine(engine)
        return engine

    async def request(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        built = self._build_any_request(method, url, options)
        return await self._flow(built)

    @overload
    async def send(
        self, request: StreamedRequest, **options: NoReturn
    ) -> AsyncStreamedResponse: ...
    @overload
    async def send(self, request: ClientRequest | UserRequest, **options: NoReturn) -> Response: ...
    async def send(self, request: ClientRequest | UserRequest, **options: NoReturn) -> Response:
        """Send a request from build_request, or another one with the client's settings added.

        Args:
            request: has all settings.
            options: none; build_request takes them.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        if options:
            refuse_options(options)
        built = self._complete(request)
        return await self._flow(built)

    def stream(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> _Streaming:
        """Send a request and return when the response head arrives; use it in `async with`.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        options["stream"] = True
        return _Streaming(self.request(method, url, **options))

    async def get(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send GET; see request."""
        straight = self._build_straight(url, options)
        if straight is not None:
            flow = self._flow  # another task may replace it
            try:
                engine = self._choose_engine()
            except RequestException as error:
                error.request = straight
                raise
            response = await engine.perform(straight)
            if is_final(response):
                return response
            return await go_on(flow, straight, response)
        built = self._build_verb_request("GET", url, options)
        return await self._flow(built)

    async def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._build_verb_request("OPTIONS", url, options)
        return await self._flow(built)

    async def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. As in requests, redirects are not followed by default."""
        built = self._build_verb_request("HEAD", url, disable_redirects(options))
        return await self._flow(built)

    async def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._build_verb_request("POST", url, options)
        return await self._flow(built)

    async def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._build_verb_request("PUT", url, options)
        return await self._flow(built)

    async def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._build_verb_request("PATCH", url, options)
        return await self._flow(built)

    async def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._build_verb_request("DELETE", url, options)
        return await self._flow(built)

    async def aclose(self) -> None:
        """Close all connections of the running event loop without blocking it.

        Connections of ended loops are closed as well. Later requests raise ClientClosed.
        """
        self.is_closed = True
        self._last_engine = _NO_ENGINE
        for each in tuple(self._attached):
            if hasattr(each, "_aend_with_client"):
                await each._aend_with_client()
        given = self._given_transport
        if given is not None and hasattr(given, "aclose"):
            await given.aclose()
        elif given is not None:
            given.close()
        try:
            await self._loops.close_engines(self._engines, self._running_loop())
        finally:
            self._close_wrappers()

    def close(self) -> None:
        """Close the client from code without an event loop, such as after the loop has ended.

        What could not be closed here is told in a RuntimeWarning. Later requests raise
        ClientClosed.

        Raises:
            RuntimeError: this thread runs an event loop, in which aclose() closes everything;
                nothing was closed.
        """
        try:
            self._running_loop()
        except RuntimeError:  # as it should be
            pass
        else:
            raise RuntimeError(
                "close() is for code without an event loop, and closed nothing; write "
                "`await client.aclose()`"
            )
        self.is_closed = True
        self._last_engine = _NO_ENGINE
        left = self._loops.close_from_outside(self._engines)
        given = self._given_transport
        if given is not None and hasattr(given, "aclose"):
            left.append("the transport, whose aclose() needs an event loop")
        elif given is not None:
            given.close()
        self._close_wrappers()
        if left:
            warnings.warn(
                f"AsyncClient.close() could not end {' and '.join(left)}; write `await "
                "client.aclose()` in the event loop",
                RuntimeWarning,
                stacklevel=2,
            )

    async def __aenter__(self: Self) -> Self:
        given = cast("LoopClient", self)._given_transport
        if given is not None and hasattr(given, "astart"):
            await given.astart()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


set_signatures(LoopClient)
