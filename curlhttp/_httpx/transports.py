"""What the transports of both libraries do, blocking and async: one flow, on the client's engines.

Redirects, cookies, authentication and content codings are httpx's own: this sends what httpx has
built and hands over what came.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from curlhttp._engine.engine import Engine, Incoming
from curlhttp._engine.log import DEBUG, log
from curlhttp._engine.run import send_sync
from curlhttp._httpx.network_stream import NetworkStream, extensions_of, raw_fields
from curlhttp._httpx.request import (
    UpgradeRequest,
    core_request,
    failure_events,
    head_events,
    trace_of,
)
from curlhttp._httpx.response_stream import WireStream, tell, watched
from curlhttp._httpx.settings import Binding, RequestLike, checkpoint_of, limits_of, transport_of
from curlhttp._models.body import rewind
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._curl.address_guard import AddressChecker
    from curlhttp._curl.engines.blocking import BlockingEngine
    from curlhttp._curl.engines.event_loop import EventLoopEngine
    from curlhttp._curl.engines.loops import Loop
    from curlhttp._httpx.settings import CertInput, LimitsLike, ProxyInput, VerifyInput
    from curlhttp._models.config import SocketOption
    from curlhttp._models.request import Request
    from curlhttp._policy.guard import GuardInput

__all__ = ["AsyncTransportBase", "BlockingTransportBase"]

RequestT = TypeVar("RequestT", bound=RequestLike)
ResponseT = TypeVar("ResponseT")

_FIRST_PAUSE = 0.5  # seconds before the second new attempt to connect; the first comes at once


class _TransportBase(Generic[RequestT, ResponseT]):
    """Send the requests of httpx or httpx2 by libcurl.

    Args:
        verify: True for the authorities that the library trusts by default, False to check
            nothing, the path of a file or folder of authorities, or an ssl.SSLContext, of which
            authorities, versions, ciphers and check_hostname are taken over.
        cert: a client certificate: a path, or (certificate, key[, password]).
        trust_env: heed SSL_CERT_FILE and SSL_CERT_DIR. Proxy variables are the client's business,
            which leaves them aside where it is given a transport.
        http1: speak HTTP/1.1; without it and with http2, HTTP/2 is spoken without asking.
        http2: offer HTTP/2 on TLS.
        limits: an httpx.Limits.
        proxy: a URL or an httpx.Proxy.
        uds: the path of a unix socket to connect to.
        local_address: the address to connect from.
        retries: how often to try again to connect.
        socket_options: tuples for socket.setsockopt.
        guard: a curlhttp.PublicOnly, or a function of (host, address, port) that returns whether
            an address may be dialled.

    Raises:
        ValueError: libcurl cannot do what is asked for.
        OSError: verify or cert name no file.
    """

    _binding: ClassVar[Binding]
    _stream_kind: ClassVar[type[WireStream]]
    _trusts_system: ClassVar[bool] = False
    _checkpoint: AddressChecker | None = None

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
        if limits is None:
            limits = self._binding.default_limits()
        self._limits = limits_of(limits)
        self._transport = transport_of(
            verify=verify,
            cert=cert,
            trust_env=trust_env,
            http1=http1,
            http2=http2,
            proxy=proxy,
            uds=uds,
            local_address=local_address,
            socket_options=socket_options,
            trusts_system=self._trusts_system,
        )
        if guard is not None:
            self._checkpoint = checkpoint_of(guard, self._limits)
        self._retries = retries
        self._set_up()

    def _set_up(self) -> None:
        """Make what engines need."""

    @abstractmethod
    def _engine(self) -> Engine:
        """Return the engine, a new one where the last was closed."""

    async def _respond(self, request: RequestT) -> ResponseT:
        """Send a request and return the response, whose body may be on the wire still."""
        binding, kind = self._binding, self._stream_kind
        trace = trace_of(request)
        sent: Request | None = None
        try:
            sent = core_request(binding, request, self._transport, awaits=kind.awaits)
            engine = self._engine()
            if self._checkpoint is not None:
                sent.transport = self._checkpoint.guard_transport(sent.transport)
                engine = self._checkpoint.wrap(engine)
            if log.takes(DEBUG):
                incoming = await watched(sent, engine, self._start)
            else:
                incoming = await self._start(engine, sent)
        except RequestException as error:
            if trace is not None and sent is not None:
                await tell(trace, failure_events(sent, request, error), awaits=kind.awaits)
            raise binding.error_for(error, request) from error
        stream = kind(incoming, engine, self, binding, request)
        head = incoming.head
        assert head is not None
        extensions = extensions_of(head, self._network_stream(incoming, sent))
        fields = raw_fields(head)
        if trace is not None:
            answer = (head.status_code, fields)
            events = head_events(sent, request, extensions, answer)
            await tell(trace, events, awaits=kind.awaits)
            stream.trace(trace, extensions["http_version"])
        response = binding.make_response(
            head.status_code,
            headers=fields,
            stream=stream,
            extensions=extensions,
        )
        return cast(ResponseT, response)

    def _start(self, engine: Engine, sent: Request) -> Awaitable[Incoming]:
        start = engine.open
        if isinstance(sent, UpgradeRequest):
            from curlhttp._httpx.network_stream import open_upgrade

            start = partial(open_upgrade, engine)
        return self._open(engine, sent, start) if self._retries else start(sent)

    def _network_stream(self, incoming: Incoming, sent: Request) -> NetworkStream:
        if not isinstance(sent, UpgradeRequest):
            return NetworkStream(incoming)
        from curlhttp._httpx.network_stream import network_stream

        return network_stream(incoming, self._binding, self, awaits=self._stream_kind.awaits)

    async def _open(
        self, engine: Engine, sent: Request, start: Callable[[Request], Awaitable[Incoming]]
    ) -> Incoming:
        """Open, and try again where no connection could be made."""
        left, pause = self._retries, 0.0
        while True:
            try:
                return await start(sent)
            except RequestException as error:
                if left <= 0 or not self._binding.was_connecting(error) or rewind(sent.body):
                    raise
            left -= 1
            await engine.sleep(pause)
            pause = pause * 2 or _FIRST_PAUSE


class BlockingTransportBase(_TransportBase[RequestT, ResponseT]):
    """Carry out the requests of a Client, in any thread."""

    _running: BlockingEngine | None = None

    def _engine(self) -> Engine:
        return self._running or self._make_engine()

    def _make_engine(self) -> BlockingEngine:
        from curlhttp._curl.engines.blocking import BlockingEngine

        made = BlockingEngine(self._limits)
        # No lock: one that another thread has while the process forks stays locked in the child.
        engine: BlockingEngine = self.__dict__.setdefault("_running", made)
        if engine is not made:
            made.close()
        return engine

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request and return the response, whose body may be on the wire still.

        Args:
            request: complete, as a Client makes it.

        Raises:
            httpx.TransportError: no response was received; the engine's own error is its cause.
        """
        return send_sync(self._respond, request)

    def close(self) -> None:
        """Close the connections; a transport that is used again makes new ones."""
        engine = self.__dict__.pop("_running", None)
        if engine is not None:
            engine.close()

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._running is not None and not _is_finalizing():
            self._running.close_from_finalizer()  # a response keeps its transport


class AsyncTransportBase(_TransportBase[RequestT, ResponseT]):
    """Carry out the requests of an AsyncClient, in each event loop with connections of its own."""

    def _set_up(self) -> None:
        from curlhttp._curl.engines import loops as _loops

        self._loops = _loops
        self._engines: dict[Loop, EventLoopEngine] = {}

    def _engine(self) -> Engine:
        loop = self._loops.running_loop()
        engine = self._engines.get(loop)
        if engine is None or engine.is_closed:
            multiplexes = bool(self._transport.http2)
            make = self._loops.make_engine
            return make(self._engines, loop, self._limits, multiplexes=multiplexes)
        return engine

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request and return the response, whose body may be on the wire still.

        Args:
            request: complete, as an AsyncClient makes it.

        Raises:
            httpx.TransportError: no response was received; the engine's own error is its cause.
        """
        return await self._respond(request)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a new use makes new ones."""
        await self._loops.close_engines(self._engines, self._loops.running_loop())
