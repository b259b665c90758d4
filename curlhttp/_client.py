"""The two clients: one way to build a request and one flow; two engines."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from curlhttp._core import Core, DownloadOptions, RequestOptions, Self
from curlhttp._engine import Clock, Engine
from curlhttp._flow.deadline import LEAST
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url.url import URL
from curlhttp._run import run_sync
from curlhttp._stream import AsyncStreamedResponse, StreamedResponse
from curlhttp.exceptions import DeadlineExceeded, UnrewindableBodyError, client_closed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._map.blocking import Results
    from curlhttp._map.senders import Lanes
    from curlhttp._map.tasks import AsyncResults
    from curlhttp._map.work import Item
    from curlhttp._models.body.body import Body
    from curlhttp._models.progress import Meter, Progress
    from curlhttp.requests import Request as UserRequest

__all__ = ["AsyncClient", "Client"]

_BATCH = 1024 * 1024  # bytes of a download that are worth the way to another thread


class Client(Core):
    """Send requests from plain code; safe to use from many threads.

    Args:
        base_url: what relative URLs are joined to.
        headers: go with every request, on top of User-Agent, Accept-Encoding and Accept.
        params: go into every query.
        cookies: a CookieJar to use, a mapping or pairs.
        auth: (user, password), an Auth, or a function of the request.
        timeout: the default of all requests: connect 10 s, read 60 s, no total.
        limits: a Limits, or its fields as keywords of their own, which beat it.
        max_connections: see Limits.
        max_connections_per_host: see Limits.
        max_keepalive_connections: see Limits.
        keepalive_expiry: see Limits; seconds.
        max_connection_lifetime: see Limits; seconds.
        dns_ttl: see Limits; seconds.
        http2: see Transport; off by default: one request at a time is faster on HTTP/1.1.
        http3: see Transport.
        verify: see TLS; it beats REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and SSL_CERT_FILE.
        cert: see TLS.
        proxies: a proxy URL or requests' mapping; it beats the environment.
        trust_env: heed proxy variables, NO_PROXY, CA variables and netrc, as they are when the
            client is made. It has no say in SSLKEYLOGFILE, to which libcurl writes the keys of
            TLS: libcurl reads it itself, once a process, when the first client is made.
        follow_redirects: the default of all requests.
        max_redirects: how many to follow.
        max_response_size: bytes a body may have, on the wire and decoded.
        sensitive_headers: names that must not follow a redirect to another origin, nor be shown
            or pickled.
        middleware: `async def middleware(request, send)`, outermost first; each hop of a
            redirect goes through them.
        hooks: functions by event. "request" gets the Request and "response" the Response; what
            they return takes its place. "before_attempt", "after_attempt", "before_sleep" and
            "on_give_up" get an AttemptEvent, "breaker_transition" a Transition; what they return
            or raise changes nothing.
        retry: a RetryPolicy, or a number of retries; None to send each request once.
        rate_limit: how many attempts may begin in a second.
        concurrency_limit: how many attempts may be under way at once.
        breaker: refuses requests to origins that fail; several clients may share one.
        hedge: sends slow idempotent requests a second time.
        transport: what takes the place of libcurl, such as curlhttp.testing.ScriptedEngine.
    """

    _lanes: Lanes | None = None  # of map, once there was one

    def _set_engine(self, transport: Engine | None) -> None:
        self._is_given = transport is not None
        if transport is None:
            from curlhttp._curl.engines.blocking import BlockingEngine

            transport = BlockingEngine(self._limits)
        self._engine: Engine = transport
        self._clock = Clock(transport.now, transport.wall, transport.sleep)
        self._gate = transport.gate

    def _exchange(self, request: Request, plan: Any = None, *, engine: Engine | None = None) -> Any:
        if request.route is not None or request.body is not None or request.deadline is not None:
            if request.body is not None and request.body.is_async:
                raise TypeError("an async body needs AsyncClient")
            _ready(request, self._clock)
        if request.stream:
            return _open(self._engine, request, StreamedResponse, plan)
        if engine is None:
            engine = self._engine
        if plan is not None:
            return engine.perform(request, plan)
        return engine.perform(request)

    def request(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: it could not be sent, or no response came of it.
        """
        built = self.build_request(method, url, **options)
        return run_sync(self._send(built))

    def send(self, request: Request | UserRequest) -> Response:
        """Send a request that build_request made, or a Request with the client's settings.

        Raises:
            RequestException: no response came of it.
        """
        built = self._complete(request)
        return run_sync(self._send(built))

    def stream(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> StreamedResponse:
        """Send a request and return once the head is in; use the response in `with`.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: it could not be sent, or no response came of it.
        """
        options["stream"] = True
        return cast(StreamedResponse, self.request(method, url, **options))

    def get(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send GET; see request."""
        built = self._request("GET", url, options)
        return run_sync(self._send(built))

    def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._request("OPTIONS", url, options)
        return run_sync(self._send(built))

    def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. Redirects are not followed unless asked to, as in requests."""
        built = self._request("HEAD", url, _unfollowed(options))
        return run_sync(self._send(built))

    def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._request("POST", url, options)
        return run_sync(self._send(built))

    def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._request("PUT", url, options)
        return run_sync(self._send(built))

    def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._request("PATCH", url, options)
        return run_sync(self._send(built))

    def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._request("DELETE", url, options)
        return run_sync(self._send(built))

    def download(
        self,
        url: str | bytes | URL,
        path: str | os.PathLike[str],
        *,
        resume: bool = True,
        checksum: str | None = None,
        progress: Progress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> Response:
        """Download a file to disk, and return the last response, whose body is in the file.

        The body goes to `<path>.part`, which takes the place of the file when it is complete and
        on disk: until then, and after any error, the old file is as it was. An interrupted download
        goes on where it stopped, with Range and If-Range, if the server's validator is strong:
        within this call as often as the retry policy allows, and in a later call or process from
        `<path>.part` and `<path>.part.json`, which are kept for that. Where the rest does not
        surely belong to what is there, it starts over. It asks for no content coding; one that is
        sent all the same is undone, and then there is no going on later.

        Args:
            url: absolute, or relative to base_url.
            path: the file. Its folder must exist; a symbolic link stays, and its target is
                replaced; an existing file keeps its mode.
            resume: go on where an earlier call stopped, and keep what a later one needs.
            checksum: "sha256:<hex>", or any other algorithm of hashlib.
            progress: called with the bytes that are there and those of the whole file, or None: at
                the beginning, at the end, and 20 times a second between. What it raises ends the
                download.
            options: those of build_request, without the body's.

        Raises:
            HTTPError: the status is neither 200 nor 206.
            ChecksumMismatch: the file has another checksum, and was removed.
            RequestException: it could not be sent, or the body broke off.
            OSError: the file cannot be written; that another download to it is under way is a
                BlockingIOError.
            ValueError: the checksum has a form that cannot be read; nothing was sent.
        """
        from curlhttp._download.download import download, here

        downloading = download(
            self,
            url,
            path,
            resume=resume,
            checksum=checksum,
            progress=progress,
            options=options,
            apart=here,
            batch=1,
        )
        return run_sync(downloading)

    def map(
        self,
        requests: Iterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> Results:
        """Send many requests, so many at a time, and return their results one by one.

        All happens in the calling thread, without others and without an event loop, while the
        next result is waited for. Items are taken when there is room for them, so that there may
        be millions. Leaving the loop early cancels the rest; to be sure when, use the results in
        `with`.

            for result in client.map(urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)

        A map has connections of its own, up to max_connections, which the next map uses again.
        Requests that wait for one, for a limit or for a retry count as under way.

        Args:
            requests: URLs, which are sent by GET, and requests as send takes them; not streamed.
                What it raises is raised again after the results of all items before. A generator
                is closed when the map ends.
            concurrency: how many are under way at once. Results ahead of the consumer and
                requests under way are twice as many at most.
            ordered: give the results in the order of the items, not as they come.
            return_exceptions: a request that fails gives its RequestException, whose `request` is
                the item at least; if False it is raised, and the rest cancelled. Other exceptions,
                such as those of a middleware, are always raised.
            options: those of build_request, for items that are URLs, without the body's.

        Raises:
            TypeError: the requests cannot be iterated over here.
            ValueError: the concurrency is below one.
            RequestException: the options cannot be sent as they are.
        """
        from curlhttp._map.blocking import Results
        from curlhttp._map.work import Work

        if hasattr(requests, "__aiter__") and not hasattr(requests, "__iter__"):
            raise TypeError("an async iterable of requests needs AsyncClient")
        work = Work(
            self,
            requests,
            concurrency=concurrency,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        return Results(self._open_lanes(), work)

    def _open_lanes(self) -> Lanes:
        if self._lanes is None:
            from curlhttp._map.senders import Lanes

            # In one step, as another thread may be here too.
            lanes: Lanes = self.__dict__.setdefault("_lanes", Lanes(self, inline=self._is_given))
            return lanes
        return self._lanes

    def close(self) -> None:
        """Close all connections; further requests raise ClientClosed."""
        self._is_closed = True
        self._engine.close()
        if self._lanes is not None:
            self._lanes.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Streaming:
    """What AsyncClient.stream returns: await it, or use it in `async with`."""

    def __init__(self, sent: Any) -> None:
        self._sent = sent
        self._response: AsyncStreamedResponse | None = None

    def __await__(self) -> Any:
        return self._sent.__await__()

    async def __aenter__(self) -> AsyncStreamedResponse:
        response: AsyncStreamedResponse = await self._sent
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


class AsyncClient(Core):
    """Send requests from tasks, on asyncio, uvloop, trio or whatever anyio runs on.

    One client may serve several event loops, one after another or in threads; each has its own
    connections. The arguments are those of Client, but http2 is on by default: on TLS concurrent
    requests share one connection where the server offers HTTP/2.
    """

    _http2 = True
    _awaits_hooks = True

    def _set_engine(self, transport: Engine | None) -> None:
        from curlhttp import _loops

        self._loops = _loops
        self._running_loop = _loops.running_loop
        self._engines: dict[Any, Any] = {}
        self._is_closed = False
        self._given = transport
        now = time.monotonic if transport is None else transport.now
        wall = time.time if transport is None else transport.wall
        self._clock = Clock(now, wall, lambda seconds: self._engine().sleep(seconds))
        self._gate = lambda: self._engine().gate()

    def _exchange(self, request: Request, plan: Any = None) -> Any:
        if request.route is not None or request.body is not None or request.deadline is not None:
            _ready(request, self._clock)
        engine = self._engine()
        if request.stream:
            return _open(engine, request, AsyncStreamedResponse, plan)
        if plan is not None:
            return engine.perform(request, plan)
        return engine.perform(request)

    def _watch(self, body: Body, meter: Meter) -> Body:
        from curlhttp._models.progress import AsyncWatchedBody

        return AsyncWatchedBody(body, meter, self._loops.in_thread_or_leave)

    def _engine(self) -> Engine:
        """Return the engine of the running event loop."""
        loop = self._running_loop()
        engine = self._engines.get(loop)
        if engine is None or engine.is_closed or self._is_closed:
            return self._make_engine(loop)
        return cast(Engine, engine)

    def _make_engine(self, loop: Any) -> Engine:
        if self._is_closed:
            raise client_closed()
        if self._given is not None:
            return self._given
        make_engine = self._loops.make_engine
        return make_engine(self._engines, loop, self._limits, multiplexes=bool(self._http2))

    async def request(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: it could not be sent, or no response came of it.
        """
        built = self.build_request(method, url, **options)
        return await self._send(built)

    async def send(self, request: Request | UserRequest) -> Response:
        """Send a request that build_request made, or a Request with the client's settings.

        Raises:
            RequestException: no response came of it.
        """
        built = self._complete(request)
        return await self._send(built)

    def stream(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> _Streaming:
        """Send a request and return once the head is in; use it in `async with`.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: it could not be sent, or no response came of it.
        """
        options["stream"] = True
        return _Streaming(self.request(method, url, **options))

    async def get(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send GET; see request."""
        built = self._request("GET", url, options)
        return await self._send(built)

    async def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._request("OPTIONS", url, options)
        return await self._send(built)

    async def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. Redirects are not followed unless asked to, as in requests."""
        built = self._request("HEAD", url, _unfollowed(options))
        return await self._send(built)

    async def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._request("POST", url, options)
        return await self._send(built)

    async def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._request("PUT", url, options)
        return await self._send(built)

    async def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._request("PATCH", url, options)
        return await self._send(built)

    async def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._request("DELETE", url, options)
        return await self._send(built)

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
        """Download a file to disk, and return the last response, whose body is in the file.

        The body goes to `<path>.part`, which takes the place of the file when it is complete and
        on disk: until then, and after any error, the old file is as it was. An interrupted download
        goes on where it stopped, with Range and If-Range, if the server's validator is strong:
        within this call as often as the retry policy allows, and in a later call or process from
        `<path>.part` and `<path>.part.json`, which are kept for that. Where the rest does not
        surely belong to what is there, it starts over. It asks for no content coding; one that is
        sent all the same is undone, and then there is no going on later.

        Args:
            url: absolute, or relative to base_url.
            path: the file. Its folder must exist; a symbolic link stays, and its target is
                replaced; an existing file keeps its mode.
            resume: go on where an earlier call stopped, and keep what a later one needs.
            checksum: "sha256:<hex>", or any other algorithm of hashlib.
            progress: called with the bytes that are there and those of the whole file, or None: at
                the beginning, at the end, and 20 times a second between. What it raises ends the
                download. It must be no coroutine function.
            options: those of build_request, without the body's.

        Raises:
            HTTPError: the status is neither 200 nor 206.
            ChecksumMismatch: the file has another checksum, and was removed.
            RequestException: it could not be sent, or the body broke off.
            OSError: the file cannot be written; that another download to it is under way is a
                BlockingIOError.
            ValueError: the checksum has a form that cannot be read; nothing was sent.
        """
        from curlhttp._download.download import download

        downloading = download(
            self,
            url,
            path,
            resume=resume,
            checksum=checksum,
            progress=progress,
            options=options,
            apart=self._loops.in_thread,
            batch=_BATCH,
        )
        return await downloading

    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults:
        """Send many requests, so many at a time; the results are for `async for`.

        Items are taken when there is room for them, so that there may be millions. Requests go on
        in tasks of their own while the consumer is busy, as long as there is room for results.
        Leaving the loop early cancels the rest; to be sure when, use the results in `async with`.

            async for result in client.map(urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)

        Requests that wait for a connection, for a limit or for a retry count as under way. They
        see the context variables of this call.

        Args:
            requests: URLs, which are sent by GET, and requests as send takes them; not streamed.
                What it raises is raised again after the results of all items before. A generator
                is closed when the map ends. A plain iterable must not block.
            concurrency: how many are under way at once. Results ahead of the consumer and
                requests under way are twice as many at most.
            ordered: give the results in the order of the items, not as they come.
            return_exceptions: a request that fails gives its RequestException, whose `request` is
                the item at least; if False it is raised, and the rest cancelled. Other exceptions,
                such as those of a middleware, are always raised.
            options: those of build_request, for items that are URLs, without the body's.

        Raises:
            TypeError: the requests cannot be iterated over.
            ValueError: the concurrency is below one.
            RequestException: the options cannot be sent as they are.
        """
        from curlhttp._map.tasks import AsyncResults
        from curlhttp._map.work import Work

        source = aiter(requests) if isinstance(requests, AsyncIterable) else None
        work = Work(
            self,
            cast("Iterable[Item]", requests),
            queued=source is not None,
            concurrency=concurrency,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        return AsyncResults(self, work, source)

    async def aclose(self) -> None:
        """Close all connections of the running event loop, without blocking it.

        Those of loops that have ended are closed as well. Further requests raise ClientClosed.
        """
        self._is_closed = True
        if self._given is not None:
            self._given.close()
        await self._loops.close_engines(self._engines, self._loops.running_loop())

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await cast(Any, self).aclose()


def _ready(request: Request, clock: Clock) -> None:
    """Fit a request for one more attempt.

    Its URL may have changed since the last, and with it the proxy; its body starts over, since
    one that goes on where it stood would arrive cut.

    Raises:
        DeadlineExceeded: there is no time left for it.
        UnrewindableBodyError: the body was sent, in part at least, and cannot be sent again.
        InvalidProxyURL: the proxy for this URL is none.
    """
    if request.deadline is not None and request.deadline - clock.now() < LEAST:
        raise DeadlineExceeded(
            f"{request}: the total of {request.timeout.total} s ran out",
            request=request,
        )
    if request.route is not None:
        request.transport = request.route(request.url)
    if request.body is not None:
        try:
            request.body.rewind()
        except UnrewindableBodyError as error:
            error.request = request
            raise


async def _open(engine: Engine, request: Request, kind: Any, plan: Any) -> Response:
    """Return a streamed response; of a redirect that is followed, a finished one."""
    incoming = await (engine.open(request) if plan is None else engine.open(request, plan))
    response = kind(request, incoming, engine)
    if not (request.follow_redirects and response.is_redirect):
        return cast(Response, response)
    pieces = []
    while piece := await response._read_raw():
        pieces.append(piece)
    return Response(request, response._head, b"".join(pieces), response.timings)


def _unfollowed(options: RequestOptions) -> RequestOptions:
    if "follow_redirects" not in options and "allow_redirects" not in options:
        options["follow_redirects"] = False
    return options
