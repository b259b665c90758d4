"""Transports of users: what `transport=` takes instead of libcurl, and how the flow uses it.

A transport has `send`, which returns a response whose body may still be on its way, and `close`.
Nothing here knows libcurl. The flow sees an engine that adapts the transport.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from curlhttp._client.stream import AsyncStreamedResponse, StreamedResponse
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._http.errors import client_closed, deadline_error, read_timeout_error
from curlhttp._http.headers import Headers
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, Response, has_body
from curlhttp._http.timings import Timings, add_waits
from curlhttp._libcurl.errors import body_length_error, too_large_error
from curlhttp._libcurl.head import contradicts_length
from curlhttp._runtime.engine import (
    ByteStream,
    Engine,
    Incoming,
    Runtime,
    Send,
    decode_body,
    to_connector,
)
from curlhttp._runtime.run import send_sync
from curlhttp._runtime.thread import REAL_TIME_THREAD
from curlhttp.exceptions import ConnectTimeout, RequestException

if TYPE_CHECKING:
    from curlhttp._runtime.loops import BackgroundTasks

T = TypeVar("T")
Check: TypeAlias = "Callable[[Runtime, ClientRequest], Awaitable[None]]"
"""Checks the addresses of a request, and raises if it must not be sent."""

_SMALL = 64 * 1024  # bytes of a request's body that no read timeout has to wait for


class Transport:
    """Base class of transports for Client: answer requests without libcurl, or wrap libcurl.

        class FromDict(curlhttp.Transport):
            def __init__(self, pages):
                self.pages = pages

            def send(self, request):
                page = self.pages.get(request.url.path)
                if page is None:
                    return request.respond(404)
                return request.respond(200, content=page)

        client = curlhttp.Client(transport=FromDict({"/": "hello"}))

    Everything above the network works as usual: redirects, cookies, retries, limits, the cache,
    streams, downloads and maps. Any object with a suitable `send` will do; the class only says what
    is expected. AsyncClient takes an AsyncTransport.
    """

    def send(self, request: ClientRequest) -> Response:
        """Return the response to one attempt; its body may still have to be read.

        Return `request.respond(200, content=b"...")` for a body in memory, or
        `StreamedResponse.of(request, 200, content=iterable)` for one that is read in pieces. Both
        are as on the wire: with a Content-Encoding, the client decodes them.

        Args:
            request: complete, with its URL, headers and body (`request.content`). Do not change it:
                copy it.

        Raises:
            RequestException: there is no response. The attempt counts as sent, unless this is a
                ConnectTimeout, so a retry policy repeats only idempotent requests. Exceptions of
                other classes are bugs of the transport, and reach the caller unchanged.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what the transport holds; the client calls it once, when it closes."""


class AsyncTransport:
    """Base class of transports for AsyncClient: a Transport whose methods are coroutines."""

    async def send(self, request: ClientRequest) -> Response:
        """Return the response to one attempt; its body may still have to be read.

        See Transport.send. A body that is awaited is an `AsyncStreamedResponse.of(request, 200,
        content=async_iterable)`. Timeouts cancel this coroutine, and so does a hedge that another
        attempt has won.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """Release what the transport holds; the client calls it once, when it closes."""


class WrapsTransport(Protocol):
    """What `transport=` takes to wrap libcurl."""

    def wrap(self, inner: Any, /) -> object:  # Any: Transport or AsyncTransport
        """Return the transport to use. It may send requests with `inner`, which is libcurl."""


class AttemptWrapper:
    """Base class of what wraps each attempt to send a request, in both clients.

        class Slow(curlhttp.AttemptWrapper):
            async def around(self, request, send, runtime):
                await runtime.sleep(0.3)
                return await send(request)

        client = curlhttp.Client(transport=Slow())
        client = curlhttp.AsyncClient(transport=Slow())

    Record and Chaos are made with this. Any object with `around` will do.
    """

    async def around(self, request: ClientRequest, send: Send, runtime: Runtime) -> Response:
        """Send a request with `send`, or answer it, and return the response.

        This is an attempt middleware that is innermost, right above libcurl, and that may wait. If
        `request.stream` is True, `send` returns a streamed response. You may also return one that
        you make, with `request.respond(...)` or `StreamedResponse.of(...)`, as in a Transport.

        Args:
            request: complete. It may be the handshake of a WebSocket. Do not change it: copy it.
                Its proxy is chosen, so do not send it to another host.
            send: sends a request; you may call it several times, or not at all.
            runtime: of the caller. `runtime.now()`, `runtime.wall()` and `await runtime.sleep(1)`
                work in both clients. `AsyncClient` may await anything, `Client` only this and
                `send`.

        Raises:
            RequestException: there is no response.
        """
        raise NotImplementedError

    def wrap(self, transport: object) -> WrappedTransport:
        """Return a transport whose attempts this wraps: pass it to a client instead of this.

        Args:
            transport: a ScriptedEngine, an ASGITransport or WSGITransport, or your own.
        """
        return WrappedTransport(transport, self)

    def close(self) -> None:
        """Release what this holds; the client calls it once, when it closes."""


class WrapsAttempts(Protocol):
    """What `transport=` takes to wrap each attempt."""

    async def around(self, request: ClientRequest, send: Send, runtime: Runtime) -> Response:
        """Send a request, or answer it; see AttemptWrapper."""


class WrappedTransport(NamedTuple):
    """A transport and what wraps its attempts: another value for `transport=`.

    Attributes:
        transport: another value for `transport=`.
        wrapper: wraps the attempts.
    """

    transport: object
    wrapper: WrapsAttempts


AnyTransport: TypeAlias = (
    "Transport | AsyncTransport | WrapsTransport | WrapsAttempts | WrappedTransport | Engine"
)


def split_transport(transport: object) -> tuple[tuple[WrapsAttempts, ...], object]:
    """Return what wraps the attempts of a transport, innermost first, and the transport.

    Args:
        transport: what a user passes to a client. If it is only a wrapper, libcurl sends, so the
            transport that is returned is None.
    """
    if isinstance(transport, WrappedTransport):
        wrappers, inner = split_transport(transport.transport)
        return (*wrappers, transport.wrapper), inner
    if hasattr(transport, "around"):
        return (cast("WrapsAttempts", transport),), None
    return (), transport


# --- Which kind of transport an object is ---


def _is_async(transport: object) -> bool:
    """Return whether a transport is for AsyncClient; otherwise it is for Client."""
    if isinstance(transport, AsyncTransport):
        return True
    return inspect.iscoroutinefunction(getattr(transport, "send", None))


def to_engine(transport: object, client: str) -> Engine:
    """Return the engine with which the flow uses a transport.

    Args:
        transport: of the user, or of this library.
        client: "Client" or "AsyncClient", which uses it.

    Raises:
        TypeError: it is no transport, or one for the other client.
    """
    if hasattr(transport, "perform"):
        return cast("Engine", transport)
    name = type(transport).__name__
    if not callable(getattr(transport, "send", None)):
        raise TypeError(
            f"{name} is not a transport for {client}: pass an object with send(request), such as a "
            "curlhttp.Transport or curlhttp.AsyncTransport; an app in ASGITransport or "
            "WSGITransport; curlhttp.Record(...); or a ScriptedEngine"
        )
    is_async = _is_async(transport)
    if is_async and isinstance(transport, Transport):
        raise TypeError(
            f"{name}.send is a coroutine function: a Transport has plain methods, so derive {name} "
            "from curlhttp.AsyncTransport and use AsyncClient"
        )
    needed = "AsyncClient" if is_async else "Client"
    if client != needed:
        kind = "a" if is_async else "no"
        because = "" if _is_ours(transport) else f"its send() is {kind} coroutine function; "
        raise TypeError(
            f"{name} is for {needed}, not {client}: {because}use {needed}(transport={name}(...))"
        )
    return AsyncTransportEngine(transport) if is_async else TransportEngine(transport)


def _is_ours(transport: object) -> bool:
    return type(transport).__module__.startswith("curlhttp.")


# --- libcurl, and other engines, as what `wrap` gets ---


class EngineTransport(Transport):
    """An engine as a Transport, to be wrapped.

    Args:
        engine: sends the requests.
        check: is called for each of them; None for no guard.
    """

    def __init__(self, engine: Engine, check: Check | None) -> None:
        self._engine = engine
        self._check = None if check is None else partial(check, engine.runtime)

    def send(self, request: ClientRequest) -> Response:
        """Send a request and return its response, whose body is not read yet."""
        _rewind(request)
        if self._check is not None:
            send_sync(self._check, request)
        return StreamedResponse(request, send_sync(self._engine.open, request))

    def connect(self, request: ClientRequest) -> ByteStream:
        """Open a connection for another protocol, such as WebSocket."""
        if self._check is not None:
            send_sync(self._check, request)
        return send_sync(to_connector(self._engine).connect, request)


class AsyncEngineTransport(AsyncTransport):
    """Engines of event loops as an AsyncTransport, to be wrapped.

    Args:
        choose: returns the engine of the running loop.
        check: is called for each request; None for no guard.
    """

    def __init__(self, choose: Callable[[], Engine], check: Check | None) -> None:
        self._choose = choose
        self._check = check

    async def send(self, request: ClientRequest) -> Response:
        """Send a request and return its response, whose body is not read yet."""
        _rewind(request)
        engine = self._choose()
        if self._check is not None:
            await self._check(engine.runtime, request)
        return AsyncStreamedResponse(request, await engine.open(request))

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Open a connection for another protocol, such as WebSocket."""
        engine = self._choose()
        if self._check is not None:
            await self._check(engine.runtime, request)
        return await to_connector(engine).connect(request)


def _rewind(request: ClientRequest) -> None:
    """Rewind the body: a transport may send a request several times."""
    if request.body is not None:
        request.body.rewind()


# --- A transport as an engine ---


class TransportAttempt:
    """One request to a transport, or to a wrapper, which makes its response.

    Args:
        request: complete.
        transport: gets it.
        is_async: whether tasks read the body, instead of threads.
        now: returns monotonic seconds; of the engine, if the transport is one that wraps it.

    Attributes:
        request: as given.
        now: as given.
        begun: when it was sent, in monotonic seconds.
        first_byte: seconds until `send` returned; 0 before.
    """

    __slots__ = ("begun", "first_byte", "is_async", "now", "request", "transport")

    def __init__(
        self,
        request: ClientRequest,
        transport: object,
        *,
        is_async: bool,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.is_async = is_async
        self.request = request
        self.transport = transport
        self.now = now
        self.begun = now()
        self.first_byte = 0.0

    def open(self, response: object) -> _Received:
        """Return what `send` returned as an Incoming.

        Raises:
            TypeError: it returned something else than a response.
            StreamConsumedError: it returned a response that was closed.
        """
        self.first_byte = self.now() - self.begun
        if not isinstance(response, Response):
            if inspect.iscoroutine(response):
                response.close()
            name, kind = type(self.transport).__name__, type(response).__name__
            raise TypeError(
                f"{name}.send must return a curlhttp response, such as "
                f'request.respond(200, content=b"..."), not {kind}'
            )
        return _Received(self, response)

    def add_context(self, error: BaseException) -> BaseException:
        """Return an error of the transport, with request and timings if it has none."""
        if isinstance(error, RequestException):
            if error.request is None:
                error.request = self.request
                if not isinstance(error, ConnectTimeout):
                    error.request_sent = True
            if error.timings is None:
                error.timings = self.timings()
        return error

    def timings(self) -> Timings:
        """Return the time until the head, and until now."""
        total = self.now() - self.begun
        first_byte = self.first_byte or total
        return add_waits(Timings(0.0, 0.0, 0.0, 0.0, first_byte, total, False, None), self.request)

    def check_time(self, silent_since: float, *, has_head: bool) -> None:
        """Raise if the deadline or the read timeout has expired.

        Args:
            silent_since: when the transport did something, in monotonic seconds.
            has_head: whether `send` has returned.
        """
        request, now = self.request, self.now()
        if request.is_late(now):
            raise deadline_error(request, was_sent=True)
        read = request.timeout.read
        if read is not None and now - silent_since > read and (has_head or self._is_small):
            raise read_timeout_error(request, has_head=has_head)

    @property
    def _is_small(self) -> bool:
        """Return whether sending the request takes no time: nobody says how far a body is."""
        body = self.request.body
        return body is None or (body.data is not None and len(body.data) <= _SMALL)

    async def wait(self, call: Callable[[], Awaitable[T]], *, has_head: bool) -> T:
        """Await what a function returns, up to the timeouts of the request.

        Args:
            call: makes the awaitable.
            has_head: whether `send` has returned.
        """
        request = self.request
        read = request.timeout.read if has_head or self._is_small else None
        left = None if request.deadline is None else max(0.0, request.deadline - self.now())
        limits = [each for each in (read, left) if each is not None]
        if not limits:
            return await call()
        from anyio import move_on_after  # late: Client needs no event loop

        with move_on_after(min(limits)) as scope:
            return await call()
        assert scope.cancelled_caught
        if left is not None and (read is None or left <= read):
            raise deadline_error(request, was_sent=True)
        raise read_timeout_error(request, has_head=has_head)


def _tasks_of_the_loop() -> BackgroundTasks:
    from curlhttp._runtime.loops import background_tasks, running_loop

    return background_tasks(running_loop(), copy_context())


class _Received:
    """The response of a transport, whose body is read through here.

    It keeps the response, because those who listen to its end, such as limits of another client,
    must hear of it.
    """

    def __init__(self, attempt: TransportAttempt, response: Response) -> None:
        self._attempt = attempt
        self._response: Response | None = response
        self._stream = response if isinstance(response, BaseStreamedResponse) else None
        self._is_async = attempt.is_async
        self.request: ClientRequest = attempt.request
        self.head: Head = _read_head(response)
        self.size = 0
        self._source: Incoming | None = None
        self._tail = b""
        stream = self._stream
        self.is_made = response._is_made
        if stream is None:
            self.is_decoded = not response._is_made
            self._tail = response.content
        elif stream._content is not None:  # the transport has read it
            self.is_decoded = True
            self._tail, self._stream = stream._content, None
        else:
            self.is_decoded = False
            stream._begin()  # raises if it was closed
            self._source = stream._incoming
        if self.is_decoded and self.head.may_have_codings:
            self.head = _drop_coding(response)
        self._has_body = has_body(self.request.method, self.head.status_code)
        self._times = response.timings

    @property
    def done(self) -> bool:
        """Return whether reading the rest does not wait."""
        return self._stream is None or self._source is None or self._source.done

    def timings(self) -> Timings:
        """Return where the time went so far."""
        if self.is_made:
            return self._attempt.timings()
        return self._times._replace(total=self._attempt.now() - self._attempt.begun)

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM."""
        return None if self._response is None else self._response.certificate

    async def read(self) -> bytes:
        """Return the next piece of the body, b"" at the end.

        Raises:
            RequestException: the body is incomplete or too large, or a timeout expired.
        """
        try:
            while piece := await self._read():
                if self._has_body:
                    self._count(len(piece))
                    return piece
            if contradicts_length(self.head, self.request.method, self.size) and self.is_made:
                raise body_length_error(self.request, self.size)
        except BaseException as error:
            self.abort()
            self._attempt.add_context(error)
            raise
        return b""

    async def _read(self) -> bytes:
        stream = self._stream
        if stream is None:
            tail, self._tail = self._tail, b""
            return tail
        if not self.is_made:  # it has its own timeouts
            return await stream._read_raw()
        if self._is_async:
            return await self._attempt.wait(stream._read_raw, has_head=True)
        begun = self._attempt.now()
        piece = await stream._read_raw()
        self._attempt.check_time(begun, has_head=True)
        return piece

    def _count(self, size: int) -> None:
        self.size += size
        limit = self.request.max_response_size
        if limit is not None and self.size > limit:
            raise too_large_error(self.request)

    def abort(self) -> None:
        """Abandon the rest of the body."""
        self._tail = b""
        if self._stream is not None:
            self._stream.abort()
            close = getattr(self._source, "aclose", None)
            if close is not None and getattr(self._source, "is_open", False):
                _tasks_of_the_loop().spawn(_close_quietly, close)

    async def aclose(self) -> None:
        """Abandon the rest of the body, and wait until a generator is closed."""
        self._tail = b""
        if isinstance(self._stream, AsyncStreamedResponse):
            await self._stream.aclose()
        else:
            self.abort()

    def abort_from_finalizer(self) -> None:
        """Abandon the rest of the body; its own finalizer does the rest."""
        self._tail, self._stream, self._response = b"", None, None

    async def to_response(self) -> Response:
        """Read the body, and return a response with its body in memory.

        Raises:
            RequestException: see read.
        """
        request = self.request
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        made = Response(request, self.head, b"".join(pieces), self.timings())
        found = self._response
        if found is not None and found._certificate is not None:
            made._certificate = found._certificate
        if not self.is_decoded and request.decode and made.content:
            decode_body(made, request)
        return made


def _read_head(response: Response) -> Head:
    """Return the head of a response, with what the transport changed in it."""
    head = response._head
    fields = None if response._headers is None else response._headers.multi_items()
    if response.status_code == head.status_code and (
        fields is None or fields == Headers.from_block(head.block).multi_items()
    ):
        return head
    return _make_head(response, response.headers)


def _make_head(response: Response, headers: Headers) -> Head:
    made = Response.of(response.request, response.status_code, headers=headers.multi_items())
    return made._head


def _drop_coding(response: Response) -> Head:
    """Return the head of a body that was decoded before."""
    headers = response.headers.copy()
    for name in ("Content-Encoding", "Content-Length"):
        headers.pop(name, None)
    return _make_head(response, headers)


async def _close_quietly(close: Callable[[], Awaitable[None]]) -> None:
    """Close the body of a response that nobody reads any more, in a task of its own."""
    with suppress(Exception):  # nobody would get it
        await close()


class _TransportEngine:
    """Base class of both engines."""

    is_async = False
    runtime: Runtime

    def __init__(self, transport: object) -> None:
        self.transport: Any = transport  # Any: of the user
        self.is_closed = False

    def begin(self, request: ClientRequest) -> TransportAttempt:
        """Return an attempt, which begins now.

        Raises:
            ClientClosed: the client was closed.
        """
        if self.is_closed:
            raise client_closed(request)
        return TransportAttempt(request, self.transport, is_async=self.is_async)

    def _find_connect(self) -> Callable[[ClientRequest], object]:
        connect = getattr(self.transport, "connect", None)
        if connect is None:
            name = type(self.transport).__name__
            raise TypeError(
                f"{name} has no connect(), so it cannot open connections for other protocols, "
                "such as WebSocket"
            )
        return cast("Callable[[ClientRequest], object]", connect)


class TransportEngine(_TransportEngine):
    """The engine of a Transport: everything happens in the calling thread.

    Nothing can interrupt the transport, so timeouts are checked when it returns, and hedges are
    not sent.
    """

    runtime = REAL_TIME_THREAD

    async def perform(self, request: ClientRequest) -> Response:
        """Send the request and return the response with its body in memory; see Engine."""
        return await self._open(request).to_response()

    async def open(self, request: ClientRequest) -> Incoming:
        """Send the request and return once `send` has returned; see Engine."""
        return self._open(request)

    def _open(self, request: ClientRequest) -> _Received:
        attempt = self.begin(request)
        try:
            received = attempt.open(self.transport.send(request))
            try:
                if received.is_made:
                    attempt.check_time(attempt.begun, has_head=False)
            except BaseException:
                received.abort()
                raise
        except BaseException as error:
            attempt.add_context(error)
            raise
        return received

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Open a connection for another protocol; see Connector."""
        return cast("ByteStream", self._find_connect()(request))

    def close(self) -> None:
        """Close the transport, once."""
        if self.is_closed:
            return
        self.is_closed = True
        close = getattr(self.transport, "close", None)
        if close is not None:
            close()


class AsyncTransportEngine(_TransportEngine):
    """The engine of an AsyncTransport."""

    is_async = True

    def __init__(self, transport: object) -> None:
        from curlhttp._runtime.loops import REAL_TIME_LOOP

        super().__init__(transport)
        self.runtime: Runtime = REAL_TIME_LOOP

    async def perform(self, request: ClientRequest) -> Response:
        """Send the request and return the response with its body in memory; see Engine."""
        return await (await self._open(self.begin(request))).to_response()

    async def open(self, request: ClientRequest) -> Incoming:
        """Send the request and return once `send` has returned; see Engine."""
        return await self._open(self.begin(request))

    async def _open(self, attempt: TransportAttempt) -> _Received:
        try:
            if _is_ours(self.transport):  # it has its own timeouts
                return attempt.open(await self._send(attempt))
            return attempt.open(await attempt.wait(partial(self._send, attempt), has_head=False))
        except BaseException as error:
            attempt.add_context(error)
            raise

    async def _send(self, attempt: TransportAttempt) -> object:
        sent = self.transport.send(attempt.request)
        return await sent if inspect.isawaitable(sent) else sent

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Open a connection for another protocol; see Connector."""
        connected = cast("Awaitable[ByteStream]", self._find_connect()(request))
        return await connected

    async def astart(self) -> None:
        """Start what the transport needs, such as an app."""
        start = getattr(self.transport, "astart", None)
        if start is not None:
            await start()

    def close(self) -> None:
        """Send nothing more."""
        self.is_closed = True

    async def aclose(self) -> None:
        """Close the transport, once."""
        if self.is_closed and not _is_ours(self.transport):  # ours are in several loops
            return
        self.is_closed = True
        close = getattr(self.transport, "aclose", None)
        if close is not None:
            await close()
