"""Base classes of the transports of httpx and httpx2, blocking and async, on our engines.

httpx itself does redirects, cookies, authentication and content codings. A transport sends a
request exactly as httpx built it, and returns the response as it was received.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from curlhttp._http.body import rewind
from curlhttp._http.config import NetworkRoute, make_proxy_tls
from curlhttp._http.exiting import check_running
from curlhttp._httpx.network_stream import (
    make_extensions,
    make_network_stream,
    open_upgrade,
    parse_raw_headers,
)
from curlhttp._httpx.request import (
    UpgradeRequest,
    get_trace,
    make_core_request,
    make_error_events,
    make_head_events,
)
from curlhttp._httpx.response_stream import ResponseStream, send_events
from curlhttp._httpx.settings import (
    Library,
    RequestLike,
    make_proxy,
    make_tls,
    to_limits,
)
from curlhttp._libcurl import has_unix_sockets
from curlhttp._libcurl.options import check_tls
from curlhttp._runtime.engine import Engine, Incoming, ReportingEngine, Totals
from curlhttp._runtime.log import DEBUG, RequestLog, log
from curlhttp._runtime.run import send_sync
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._features.guard.checker import AddressChecker
    from curlhttp._features.stats import ClientStats
    from curlhttp._http.config import SocketOption
    from curlhttp._http.inputs import GuardInput
    from curlhttp._http.request import ClientRequest
    from curlhttp._httpx.settings import CertInput, LimitsLike, ProxyInput, VerifyInput
    from curlhttp._libcurl.engines.blocking import BlockingEngine
    from curlhttp._libcurl.engines.event_loop import EventLoopEngine
    from curlhttp._runtime.loops import Loop

RequestT = TypeVar("RequestT", bound=RequestLike)
ResponseT = TypeVar("ResponseT")

_FIRST_PAUSE = 0.5  # seconds before the second retry of a connection; the first is immediate


class _TransportBase(Generic[RequestT, ResponseT]):
    """Send the requests of httpx or httpx2 with libcurl.

    Args:
        verify: True for the CA certificates that the library trusts by default, False to verify
            nothing, the path of a file or directory of CA certificates, or an ssl.SSLContext, of
            which the CA certificates, versions, ciphers and check_hostname are copied.
        cert: a client certificate: a path, or (certificate, key[, password]).
        trust_env: use SSL_CERT_FILE and SSL_CERT_DIR. The variables for proxies belong to the
            client, which ignores them if you pass it a transport.
        http1: allow HTTP/1.1; if it is False and http2 is True, use HTTP/2 with prior knowledge.
        http2: offer HTTP/2 on TLS.
        limits: an httpx.Limits; None for the defaults of the library's own transport.
        proxy: a URL or an httpx.Proxy.
        uds: the path of a Unix socket to connect to.
        local_address: the address to connect from.
        retries: how often to retry a failed connection.
        socket_options: tuples for socket.setsockopt.
        guard: a curlhttp.PublicOnly, or a function of (host, address, port) that returns whether
            the transport may connect to this address.

    Raises:
        ValueError: libcurl has no such option.
        OSError: a file of verify or cert does not exist.
    """

    _library: ClassVar[Library]
    _stream_class: ClassVar[type[ResponseStream]]
    _trusts_system: ClassVar[bool] = False
    _address_checker: AddressChecker | None = None

    def __init__(
        self,
        verify: VerifyInput = True,
        cert: CertInput = None,
        trust_env: bool = True,
        http1: bool = True,
        http2: bool = False,
        limits: LimitsLike | None = None,
        proxy: ProxyInput = None,
        uds: str | None = None,
        local_address: str | None = None,
        retries: int = 0,
        socket_options: Iterable[SocketOption] | None = None,
        *,
        guard: GuardInput = None,
    ) -> None:
        check_running()
        self._limits = to_limits(self._library.default_limits() if limits is None else limits)
        if not (http1 or http2):
            raise ValueError("http1 and http2 cannot both be off")
        if uds is not None and proxy is not None:
            raise ValueError(
                "a Unix socket cannot be reached through a proxy: leave out uds or proxy"
            )
        if uds is not None and not has_unix_sockets():
            raise ValueError("uds cannot be used: this libcurl was built without Unix sockets")
        tls = make_tls(verify, cert, trust_env, self._trusts_system)
        check_tls(tls)
        made = None if proxy is None else make_proxy(proxy)
        self._route = NetworkRoute(
            tls=tls,
            proxy=made,
            proxy_tls=None if made is None else make_proxy_tls(made, tls),
            http2="prior-knowledge" if not http1 else bool(http2),
            local_address=None if local_address is None else (local_address, 0),
            socket_options=tuple(tuple(option) for option in socket_options or ()),  # type: ignore[misc]
            unix_socket=uds,
        )
        if guard is not None:
            from curlhttp._features.guard.checker import make_checker

            self._address_checker = make_checker(guard, self._limits.dns_ttl)
        self._retries = retries
        self._totals = Totals()
        self._set_up()

    def _set_up(self) -> None:
        """Prepare for engines, in subclasses."""

    @abstractmethod
    def _engine(self) -> Engine:
        """Return the engine, a new one if the last was closed."""

    @abstractmethod
    def _get_engines(self) -> list[ReportingEngine]:
        """Return the engines that are open."""

    def stats(self) -> ClientStats:
        """Return what is open and waiting right now, and what the transport has done.

        See Client.stats. httpx sends redirects and retries of its authentication as requests of
        their own.
        """
        from curlhttp._features.stats import Sources, collect

        return collect(Sources(self._totals, self._get_engines()))

    async def _respond(self, request: RequestT) -> ResponseT:
        """Send a request and return the response, whose body is read later."""
        library, kind = self._library, self._stream_class
        trace = get_trace(request)
        sent: ClientRequest | None = None
        try:
            check_running()
            sent = make_core_request(library, request, self._route, is_async=kind.is_async)
            engine = self._engine()
            if self._address_checker is not None:
                sent.route = self._address_checker.guard_route(sent.route)
            if log.is_enabled_for(DEBUG):  # httpx itself logs requests at INFO
                with RequestLog(sent):
                    incoming = await self._begin_exchange(engine, sent)
            else:
                incoming = await self._begin_exchange(engine, sent)
        except RequestException as error:
            if trace is not None and sent is not None:
                await send_events(
                    trace, make_error_events(sent, request, error), is_async=kind.is_async
                )
            raise library.make_error(error, request) from error
        stream = kind(incoming, self, library, request)
        head = incoming.head
        assert head is not None
        connection = make_network_stream(incoming, library, self, is_async=kind.is_async)
        extensions = make_extensions(head, connection)
        fields = parse_raw_headers(head)
        if trace is not None:
            events = make_head_events(sent, request, extensions, (head.status_code, fields))
            await send_events(trace, events, is_async=kind.is_async)
            stream.trace(trace, extensions["http_version"])
        response = library.make_response(
            head.status_code,
            headers=fields,
            stream=stream,
            extensions=extensions,
        )
        return cast(ResponseT, response)

    def _begin_exchange(self, engine: Engine, sent: ClientRequest) -> Awaitable[Incoming]:
        start = engine.open
        if isinstance(sent, UpgradeRequest):
            start = partial(open_upgrade, engine)
        if self._address_checker is not None:
            start = partial(
                _open_checked, start, partial(self._address_checker.check, engine.runtime)
            )
        return self._open_with_retries(engine, sent, start) if self._retries else start(sent)

    async def _open_with_retries(
        self,
        engine: Engine,
        sent: ClientRequest,
        start: Callable[[ClientRequest], Awaitable[Incoming]],
    ) -> Incoming:
        """Send a request up to the head, and retry if no connection could be made."""
        left, pause = self._retries, 0.0
        while True:
            try:
                return await start(sent)
            except RequestException as error:
                if left <= 0 or not self._library.failed_to_connect(error) or rewind(sent.body):
                    raise
            left -= 1
            await engine.runtime.sleep(pause)
            if pause:
                self._totals.outcomes.add_wait(sent.url.origin, "backoff", pause)
            self._totals.add("retries")
            pause = pause * 2 or _FIRST_PAUSE


async def _open_checked(
    start: Callable[[ClientRequest], Awaitable[Incoming]],
    check: Callable[[ClientRequest], Awaitable[None]],
    sent: ClientRequest,
) -> Incoming:
    await check(sent)
    return await start(sent)


class BlockingTransportBase(_TransportBase[RequestT, ResponseT]):
    """Send the requests of a Client, in any thread."""

    _running: BlockingEngine | None = None

    def _engine(self) -> Engine:
        return self._running or self._make_engine()

    def _make_engine(self) -> BlockingEngine:
        from curlhttp._libcurl.engines.blocking import BlockingEngine

        made = BlockingEngine(self._limits)
        made.totals = self._totals
        # Without a lock: one that another thread holds during a fork stays locked in the child.
        engine: BlockingEngine = self.__dict__.setdefault("_running", made)
        if engine is not made:
            made.close()
        return engine

    def _get_engines(self) -> list[ReportingEngine]:
        return [] if self._running is None else [self._running]

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request and return the response, whose body is read later.

        Args:
            request: complete, as a Client builds it.

        Raises:
            httpx.TransportError: no response was received; its cause is curlhttp's error.
        """
        return send_sync(self._respond, request)

    def close(self) -> None:
        """Close all connections; if you use the transport again, it opens new ones."""
        engine = self.__dict__.pop("_running", None)
        if engine is not None:
            engine.close()

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._running is not None and not _is_finalizing():
            self._running.close_from_finalizer()  # each response keeps its transport alive


class AsyncTransportBase(_TransportBase[RequestT, ResponseT]):
    """Send the requests of an AsyncClient; each event loop has separate connections."""

    def _set_up(self) -> None:
        from curlhttp._libcurl.engines import loops as _loops
        from curlhttp._runtime.loops import running_loop

        self._loops = _loops
        self._running_loop = running_loop
        self._engines: dict[Loop, EventLoopEngine] = {}

    def _engine(self) -> Engine:
        loop = self._running_loop()
        engine = self._engines.get(loop)
        if engine is None or engine.is_closed:
            multiplexes = bool(self._route.http2 or self._route.http3)
            make = self._loops.make_engine
            engine = make(self._engines, loop, self._limits, multiplexes=multiplexes)
            engine.totals = self._totals
        return engine

    def _get_engines(self) -> list[ReportingEngine]:
        return list(self._engines.copy().values())

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request and return the response, whose body is read later.

        Args:
            request: complete, as an AsyncClient builds it.

        Raises:
            httpx.TransportError: no response was received; its cause is curlhttp's error.
        """
        return await self._respond(request)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later request opens new ones."""
        await self._loops.close_engines(self._engines, self._running_loop())
