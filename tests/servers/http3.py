"""An HTTP/3 server on loopback, by aioquic. It can end its connections on request.

It counts requests. Bodies are read and dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent

from tests.servers.certs import Certs

if TYPE_CHECKING:
    from typing_extensions import Self


_SECONDS = 30.0


class HTTP3Server:
    """A server that responds "ok" to every request.

    Args:
        folder: for the file with its certificate and key.
        certs: who signs its certificate.

    Attributes:
        requests: how often it was asked, by method.
        targets: what was asked for, in order.
        connections: how many there were.
        closes_amid: it closes the connection instead of responding.
    """

    def __init__(self, folder: Path, certs: Certs) -> None:
        self.requests: Counter[str] = Counter()
        self.targets: list[str] = []
        self.connections = 0
        self.closes_amid = False
        self.open: set[_Connection] = set()
        path = folder / "http3.pem"
        path.write_bytes(certs.server_pem())
        self._configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        self._configuration.load_cert_chain(path, path)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(self._serve())
        name = self._server._transport.get_extra_info("sockname")
        self.url = f"https://127.0.0.1:{name[1]}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def end_connections(self) -> None:
        """Close all connections, and return when that was sent."""
        self._run(self._end_connections())

    def _run(self, coroutine: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return done.result(_SECONDS)

    async def _serve(self) -> Any:
        return await serve(
            "127.0.0.1",
            0,
            configuration=self._configuration,
            create_protocol=lambda *given, **more: _Connection(self, *given, **more),
        )

    async def _end_connections(self) -> None:
        while self.open:
            connection = self.open.pop()
            connection.close(error_code=ErrorCode.H3_NO_ERROR)

    async def _stop(self) -> None:
        await self._end_connections()
        self._server.close()
        await asyncio.sleep(0)  # the transport closes its socket at the loop's next turn


class _Connection(QuicConnectionProtocol):
    def __init__(self, server: HTTP3Server, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._server = server
        self._http: H3Connection | None = None
        server.connections += 1
        server.open.add(self)

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(self._quic)
        if self._http is not None:
            for each in self._http.handle_event(event):
                self._hear(self._http, each)

    def _hear(self, http: H3Connection, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            fields = dict(event.headers)
            self._server.requests[fields[b":method"].decode()] += 1
            self._server.targets.append(fields[b":path"].decode("latin-1"))
        if self._server.closes_amid:
            self.close(error_code=ErrorCode.H3_NO_ERROR)
        elif isinstance(event, (HeadersReceived, DataReceived)) and event.stream_ended:
            head = [(b":status", b"200"), (b"content-length", b"2")]
            http.send_headers(event.stream_id, head)
            http.send_data(event.stream_id, b"ok", end_stream=True)
            self.transmit()
