"""The connection of a response, which httpx calls its network stream.

After an Upgrade or CONNECT, the caller, such as httpx-ws, reads and writes on it in the other
protocol. Such a request uses a separate connection of the engine instead of libcurl's HTTP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from curlhttp._features.upgrade import Reply, send_upgrade
from curlhttp._http.headers import Headers
from curlhttp._http.timings import Timings, make_timings
from curlhttp._runtime.engine import Engine, Incoming, to_connector
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Head
    from curlhttp._httpx.settings import Library

# --- The head of a response, in the form that httpx.Response expects ---


def parse_raw_headers(head: Head) -> list[tuple[bytes, bytes]]:
    """Return names and values as received, in their order and case, with repeats."""
    block = head.block
    if b"\n " in block or b"\n\t" in block:  # folded lines, which are rare
        fields = Headers.from_block(block).multi_items()
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    found = []
    for line in block.split(b"\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name.rstrip(b" \t"), value.strip(b" \t\r")))
    return found


def make_extensions(head: Head, network_stream: NetworkStream) -> dict[str, object]:
    """Return the extensions of a response, as httpx's own transport sets them."""
    version, _, rest = head.block.partition(b"\n")[0].rstrip(b"\r").partition(b" ")
    found: dict[str, object] = {"http_version": version, "network_stream": network_stream}
    if version.startswith(b"HTTP/1"):
        found["reason_phrase"] = rest[4:].strip()
    return found


class NetworkStream:
    """Describe the connection of a response; only libcurl reads and writes on it.

    Args:
        incoming: the response, while the engine knows its connection.
    """

    def __init__(self, incoming: Incoming) -> None:
        times = self._times = incoming.timings()
        reused = times.reused if isinstance(times, Timings) else times[4] is None
        self._certificate = None if reused else incoming.certificate()

    @property
    def timings(self) -> Timings:
        """Return how long each phase took, up to the head."""
        times = self._times
        return times if isinstance(times, Timings) else make_timings(times)

    def get_extra_info(self, info: str) -> object:
        """Return information about the connection, None if it is unknown.

        Args:
            info: "server_addr" or "client_addr" for (address, port); "certificate" for the server's
                certificate as PEM, if the connection is new; "timings" for a Timings. "ssl_object"
                and "socket" are None, because libcurl owns them.
        """
        if info == "server_addr":
            return self.timings.peer
        if info == "client_addr":
            return self.timings.local
        if info == "timings":
            return self.timings
        return self._certificate if info == "certificate" else None

    def read(self, max_bytes: int, timeout: float | None = None) -> NoReturn:
        """Refuse to use the connection for anything but HTTP.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "libcurl owns the connection: you can read and write on it only after status 101 for a "
            "request with an Upgrade header, or 2xx for CONNECT, and it cannot start TLS"
        )

    write = start_tls = read


async def open_upgrade(engine: Engine, sent: ClientRequest) -> Incoming:
    """Return the response to a request for another protocol."""
    return UpgradeResponse(await send_upgrade(to_connector(engine), sent, engine.runtime.now))


class UpgradeResponse:
    """A response with its connection.

    Args:
        reply: its head was received.
    """

    done = False  # the connection cannot be used for another request

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.head: Head | None = reply.head

    def timings(self) -> Timings:
        """Return how long each phase took, until the connection was made."""
        return self.reply.stream.timings()

    def certificate(self) -> None:
        """Return None: the certificate is unknown."""

    async def read(self) -> bytes:
        """Return the next piece of the body of a refusal; b"" at the end, and close the connection.

        Raises:
            RequestException: the body broke off, or was not received in time.
        """
        try:
            piece = await self.reply.read()
        except BaseException:
            self.abort()
            raise
        if not piece:
            self.abort()
        return piece

    def abort(self) -> None:
        """Close the connection."""
        self.reply.stream.abort()

    def abort_from_finalizer(self) -> None:
        """Do nothing: the network stream may still be in use, and has a finalizer."""


class UpgradedStream(NetworkStream):
    """The connection after a switch of protocol, with the methods of httpcore's NetworkStream.

    Args:
        response: it switched the protocol.
        library: its errors are raised.
        owner: the transport, kept alive so that its engine stays open.
    """

    def __init__(self, response: UpgradeResponse, library: Library, owner: object) -> None:
        super().__init__(response)
        self._stream = response.reply.stream
        self._received = response.reply.rest
        self._errors = library.get_core_module()
        self._owner = owner

    async def _read(self, max_bytes: int, timeout: float | None) -> bytes:
        data = self._received
        if not data:
            try:
                received = await self._stream.receive(timeout)
            except RequestException as error:
                raise self._errors.ReadError(str(error)) from error
            if received is None:
                raise self._errors.ReadTimeout("nothing was received in time")
            data = received
        self._received = data[max_bytes:]
        return data[:max_bytes]

    async def _write(self, buffer: bytes, timeout: float | None) -> None:
        try:
            self._stream.write(buffer)
            is_sent = await self._stream.drain(timeout)
        except RequestException as error:
            raise self._errors.WriteError(str(error)) from error
        if not is_sent:
            raise self._errors.WriteTimeout("not all bytes were sent in time")


class BlockingUpgradedStream(UpgradedStream):
    """An upgraded connection for threads: one reads at a time, any may write or close."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # type: ignore[override]
        """Return received bytes, b"" after the peer has sent everything.

        Args:
            max_bytes: the most bytes to return.
            timeout: seconds to wait; None for no limit.

        Raises:
            httpcore.ReadTimeout: nothing was received in time.
            httpcore.ReadError: the connection broke or was closed.
        """
        return run_sync(partial(self._read, max_bytes, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # type: ignore[override]
        """Send bytes, and return when the system has accepted them.

        Args:
            buffer: the bytes.
            timeout: seconds to wait; None for no limit.

        Raises:
            httpcore.WriteTimeout: they were not sent in time.
            httpcore.WriteError: the connection broke or was closed.
        """
        run_sync(partial(self._write, buffer, timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.abort()


class AsyncUpgradedStream(UpgradedStream):
    """An upgraded connection for tasks: one reads at a time, any may write or close."""

    async def read(  # type: ignore[override]
        self, max_bytes: int, timeout: float | None = None
    ) -> bytes:
        """Return received bytes; see BlockingUpgradedStream."""
        return await self._read(max_bytes, timeout)

    async def write(  # type: ignore[override]
        self, buffer: bytes, timeout: float | None = None
    ) -> None:
        """Send bytes; see BlockingUpgradedStream."""
        await self._write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        self._stream.abort()


def make_network_stream(
    incoming: Incoming, library: Library, owner: object, *, is_async: bool
) -> NetworkStream:
    """Return the network stream of a response; if it switched the protocol, you can use it.

    Args:
        incoming: from open_upgrade.
        library: its errors are raised.
        owner: the transport, kept alive so that its engine stays open.
        is_async: whether tasks use the stream, instead of threads.
    """
    if not isinstance(incoming, UpgradeResponse) or not incoming.reply.has_switched:
        return NetworkStream(incoming)
    kind = AsyncUpgradedStream if is_async else BlockingUpgradedStream
    return kind(incoming, library, owner)
