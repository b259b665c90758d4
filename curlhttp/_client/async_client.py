"""The async client. Its methods are coroutines, and each event loop has its own engine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Coroutine, Generator, Iterable, Sequence
from contextvars import copy_context
from sys import get_asyncgen_hooks
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, cast, overload

from curlhttp._client.base import BaseClient, Self, wrap_all
from curlhttp._client.request_builder import (
    MAX_EVENT_SIZE,
    DownloadOptions,
    RequestOptions,
    disable_redirects,
    refuse_options,
    set_verb_signatures,
)
from curlhttp._client.stream import AsyncStreamedResponse
from curlhttp._engine.engine import Clock, Engine
from curlhttp._engine.network import now, wall
from curlhttp._flow.exchange import count_attempts, exchange_async
from curlhttp._flow.straight import go_on, is_final
from curlhttp._models.errors import client_closed
from curlhttp._models.exiting import check_running
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.url import URL
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from collections.abc import Hashable

    from typing_extensions import Unpack

    from curlhttp._client.event_stream import AsyncEventStream
    from curlhttp._client.map.async_results import AsyncResults
    from curlhttp._client.map.scheduler import Item
    from curlhttp._client.transport import WrapsTransport
    from curlhttp._client.websocket.websocket import OpeningWebSocket
    from curlhttp._curl.engines.event_loop import EventLoopEngine
    from curlhttp._engine.engine import MakeRace, MakeWaiter, Send
    from curlhttp._flow.chain import Spawn, SpawnedTask
    from curlhttp._models.body import Body
    from curlhttp._models.inputs import UserRequest
    from curlhttp._models.progress import Progress, ProgressMeter
    from curlhttp._runtime.loops import Loop

_NO_ENGINE = object(), None
_BATCH = 1024 * 1024  # bytes of a download to collect before a thread writes them to disk


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


class AsyncClient(BaseClient):
    """Send requests from tasks on asyncio, uvloop or trio.

    One client may serve several event loops, one after another or in threads. Each loop has its
    own connections. The arguments are those of Client, but http2 is on by default: over TLS,
    concurrent requests share one connection if the server supports HTTP/2.
    """

    _http2 = True
    _streamed = AsyncStreamedResponse
    _awaits_hooks = True

    def _set_engine(self, transport: object) -> None:
        from curlhttp._curl.engines import loops as _loops
        from curlhttp._runtime import loops as _runtime

        self._loops = _loops
        self._runtime = _runtime
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
        self.clock: Clock = Clock(*clock, lambda seconds: self._timer().runtime.sleep(seconds))
        self.make_waiter: MakeWaiter = lambda: self._timer().runtime.make_waiter()
        self.make_race: MakeRace = lambda: self._timer().runtime.make_race()
        self.exchange: Send = self._make_exchange()

    def _to_engine(self, transport: object) -> Engine:
        """Return the engine that uses a transport."""
        from curlhttp._client.transport import AsyncEngineTransport, to_engine

        if not self._uses_libcurl:
            return to_engine(transport, "AsyncClient")
        wrappers, self._wrappers, self._inner_wrappers = self._wrappers, (), self._wrappers
        inner = AsyncEngineTransport(lambda: wrap_all(self._libcurl(), wrappers))
        return to_engine(cast("WrapsTransport", transport).wrap(inner), "AsyncClient")

    def _make_exchange(self) -> Send:
        engine = self._engine if not self._wrappers else lambda: self.wrap(self._engine())
        last = exchange_async(engine, self.clock.now, AsyncStreamedResponse)
        # The engines of libcurl count what they send.
        return last if self._uses_libcurl else count_attempts(last, self.totals)

    def _tasks(self) -> tuple[Spawn | None, Callable[[], Hashable] | None]:
        return self._spawn, self._running_loop

    def _spawn(self, run: Callable[[], Coroutine[object, None, None]]) -> SpawnedTask:
        """Start a task of the running loop; see Spawn."""
        tasks = self._runtime.background_tasks(self._running_loop(), copy_context())
        tasks.spawn(run)
        return tasks

    def _make_progress_body(self, body: Body, meter: ProgressMeter) -> Body:
        from curlhttp._models.progress import AsyncProgressBody

        return AsyncProgressBody(body, meter, self._runtime.in_thread_or_leave)

    def _engine(self) -> Engine:
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
        return self._libcurl() if self._uses_libcurl else self._engine()

    def _libcurl(self) -> Engine:
        """Return libcurl's engine of the running event loop, a new one if there is none."""
        loop = self._running_loop()
        if self.is_closed:
            raise client_closed()
        engine = self._engines.get(loop)
        if engine is None or engine.is_closed:
            make_engine = self._loops.make_engine
            engine = make_engine(self._engines, loop, self._limits, multiplexes=self.multiplexes)
            self.add_engine(engine)
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
        return await self.flow(built)

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
        built = self.complete(request)
        return await self.flow(built)

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
            flow = self.flow  # another task may replace it
            try:
                engine = self._engine()
            except RequestException as error:
                error.request = straight
                raise
            response = await engine.perform(straight)
            if is_final(response):
                return response
            return await go_on(flow, straight, response)
        built = self._build_verb_request("GET", url, options)
        return await self.flow(built)

    async def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._build_verb_request("OPTIONS", url, options)
        return await self.flow(built)

    async def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. As in requests, redirects are not followed by default."""
        built = self._build_verb_request("HEAD", url, disable_redirects(options))
        return await self.flow(built)

    async def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._build_verb_request("POST", url, options)
        return await self.flow(built)

    async def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._build_verb_request("PUT", url, options)
        return await self.flow(built)

    async def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._build_verb_request("PATCH", url, options)
        return await self.flow(built)

    async def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._build_verb_request("DELETE", url, options)
        return await self.flow(built)

    async def download(
        self,
        url: str | bytes | URL,
        path: str | os.PathLike[str],
        *,
        resume: bool = True,
        checksum: str | None = None,
        progress: Progress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> Response:
        """Download a file to disk and return the last response, whose body is in the file.

        Arguments and exceptions are those of Client.download. Files are written in threads.
        `progress` is called in the event loop and must not be a coroutine function.
        """
        check_running()
        from curlhttp._client.download import download

        downloading = download(
            self,
            url,
            path,
            resume=resume,
            checksum=checksum,
            progress=progress,
            options=options,
            run_blocking=self._runtime.in_thread,
            batch=_BATCH,
        )
        return await downloading

    def websocket(
        self,
        url: str | bytes | URL,
        *,
        subprotocols: Sequence[str] = (),
        compression: Literal["deflate"] | None = "deflate",
        max_size: int | None = 2**20,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float | None = 10,
        **options: Unpack[DownloadOptions],
    ) -> OpeningWebSocket:
        """Open a WebSocket (RFC 6455) with `async with` or `await`; needs the extra `ws`.

            async with client.websocket("wss://api.example.org/feed") as ws:
                await ws.send("hello")
                async for message in ws:
                    print(message)

        Arguments and exceptions are those of Client.websocket, with tasks instead of threads.
        """
        check_running()
        from curlhttp._client.websocket.handshake import Settings
        from curlhttp._client.websocket.websocket import OpeningWebSocket, open_async

        settings = Settings.of(
            subprotocols, compression, max_size, ping_interval, ping_timeout, close_timeout
        )
        return OpeningWebSocket(
            open_async(self, lambda: self.wrap(self._engine()), url, settings, options)
        )

    def sse(
        self,
        url: str | bytes | URL,
        *,
        method: str = "GET",
        last_event_id: str | None = None,
        reconnect: bool | int = True,
        max_event_size: int | None = MAX_EVENT_SIZE,
        **options: Unpack[RequestOptions],
    ) -> AsyncEventStream:
        """Return the server-sent events of a URL for `async for`; use them in `async with`.

        Arguments and exceptions are those of Client.sse. Cancelling a task while it waits for an
        event ends the stream. To continue, open another one with its last_event_id.
        """
        check_running()
        from curlhttp._client.event_stream import AsyncEventStream, open_event_stream

        return open_event_stream(
            AsyncEventStream,
            self,
            method,
            url,
            options,
            last_event_id=last_event_id,
            reconnect=reconnect,
            max_event_size=max_event_size,
        )

    @overload
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: Literal[False],
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults[Response]: ...
    @overload
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults: ...
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults:
        """Send many requests concurrently and return their results for `async for`.

        Arguments and exceptions are those of Client.map, but `requests` may also be an async
        iterable, and a plain iterable must not block. Requests run in separate tasks while you
        process results, as long as there is room for more results. They use the connections of this
        client, and see the context variables of this call. Leaving the loop early cancels the other
        requests. Use the results in `async with` to control when this happens.

            async for result in client.map(urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)
        """
        check_running()
        from curlhttp._client.map.async_results import AsyncResults
        from curlhttp._client.map.scheduler import MapScheduler

        source = aiter(requests) if isinstance(requests, AsyncIterable) else None
        scheduler = MapScheduler(
            self,
            self._build_verb_request,
            cast("Iterable[Item]", requests),
            queued=source is not None,
            concurrency=concurrency,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        return AsyncResults(self, scheduler, source)

    async def aclose(self) -> None:
        """Close all connections of the running event loop without blocking it.

        Connections of ended loops are closed as well. Later requests raise ClientClosed.
        """
        self.is_closed = True
        self._last_engine = _NO_ENGINE
        if self._caching is not None:
            await self._caching.aclose()
        given = self._given_transport
        if given is not None and hasattr(given, "aclose"):
            await given.aclose()
        elif given is not None:
            given.close()
        try:
            await self._loops.close_engines(self._engines, self._running_loop())
        finally:
            self._close_wrappers()

    async def __aenter__(self: Self) -> Self:
        given = cast("AsyncClient", self)._given_transport
        if given is not None and hasattr(given, "astart"):
            await given.astart()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


set_verb_signatures(AsyncClient)
