"""Requests that ask for another protocol (Upgrade, CONNECT): the response and its connection.

They use a separate connection of the engine instead of libcurl's HTTP: the caller, such as
httpx-ws, reads and writes on it in that protocol.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from curlhttp._engine.engine import Engine, Incoming, connector
from curlhttp._engine.run import run_sync
from curlhttp._flow.upgrade import Reply, ask
from curlhttp._models.headers import Headers
from curlhttp._models.timings import Timings, make_timings
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._httpx.settings import Binding
    from curlhttp._models.request import Request
    from curlhttp._models.response import Head

__all__ = ["NetworkStream", "extensions_of", "network_stream", "open_upgrade", "raw_fields"]


# --- From the head of a response to what httpx makes a Response of: raw fields and extensions ---


def raw_fields(head: Head) -> list[tuple[bytes, bytes]]:
    """Return names and values as received: in their order and case, repeats apart."""
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


def extensions_of(head: Head, network_stream: NetworkStream) -> dict[str, object]:
    """Return the extensions of a response, as httpx's own transport has them."""
    version, _, rest = head.block.partition(b"\n")[0].rstrip(b"\r").partition(b" ")
    found: dict[str, object] = {"http_version": version, "network_stream": network_stream}
    if version.startswith(b"HTTP/1"):
        found["reason_phrase"] = rest[4:].strip()
    return found


class NetworkStream:
    """Tell of the connection of a response; its bytes are libcurl's alone.

    Args:
        incoming: the response, while its connection is known.
    """

    def __init__(self, incoming: Incoming) -> None:
        times = self._times = incoming.timings()
        reused = times.reused if isinstance(times, Timings) else times[4] is None
        self._certificate = None if reused else incoming.certificate()

    @property
    def timings(self) -> Timings:
        """Return where the time went up to the head."""
        times = self._times
        return times if isinstance(times, Timings) else make_timings(times)

    def get_extra_info(self, info: str) -> object:
        """Return what is known of the connection, None for what is not.

        Args:
            info: "server_addr" and "client_addr" for (address, port); "certificate" for the
                server's as PEM, of a new connection; "timings" for a Timings. "ssl_object" and
                "socket" are None: TLS and sockets are libcurl's.
        """
        if info == "server_addr":
            return self.timings.peer
        if info == "client_addr":
            return self.timings.local
        if info == "timings":
            return self.timings
        return self._certificate if info == "certificate" else None

    def read(self, max_bytes: int, timeout: float | None = None) -> NoReturn:
        """Refuse to read past HTTP, as all of what would use the connection for itself.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "libcurl keeps the connection for itself: it can be read and written only after a 101 "
            "to a request with the header Upgrade, or a 2xx to CONNECT, and starts no TLS then"
        )

    write = start_tls = read


async def open_upgrade(engine: Engine, sent: Request) -> Incoming:
    """Return the answer to a request for another protocol."""
    return UpgradeAnswer(await ask(connector(engine), sent, engine.now))


class UpgradeAnswer:
    """An answer with its connection, for those that read responses: its own engine and incoming.

    Args:
        reply: whose head is in.
    """

    done = False  # its connection is of no use for another request

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.head: Head | None = reply.head

    @property
    def engine(self) -> UpgradeAnswer:
        """Return what reads the body."""
        return self

    def timings(self) -> Timings:
        """Return where the time went until the connection was there."""
        return self.reply.stream.timings()

    def certificate(self) -> None:
        """Return that the certificate is not known."""

    async def read(self, incoming: object) -> bytes:
        """Return the next piece of a refusal's body, b"" at the end, which closes the connection.

        Raises:
            RequestException: the body broke off, or does not come in time.
        """
        try:
            piece = await self.reply.read()
        except BaseException:
            self.abort(incoming)
            raise
        if not piece:
            self.abort(incoming)
        return piece

    def abort(self, incoming: object) -> None:
        """Close the connection."""
        self.reply.stream.abort()

    def abort_from_finalizer(self, incoming: object) -> None:
        """Leave the connection to its own finalizer: its network stream may be in use still."""


class UpgradedStream(NetworkStream):
    """The connection after a switch, with the methods that a NetworkStream of httpcore has.

    Args:
        answer: changed the protocol.
        binding: says whose errors to raise.
        owner: is kept as long as this, so that its engine is not closed before.
    """

    def __init__(self, answer: UpgradeAnswer, binding: Binding, owner: object) -> None:
        super().__init__(answer)
        self._stream = answer.reply.stream
        self._received = answer.reply.rest
        self._errors = binding.core_errors()
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
            has_gone = await self._stream.drain(timeout)
        except RequestException as error:
            raise self._errors.WriteError(str(error)) from error
        if not has_gone:
            raise self._errors.WriteTimeout("the peer did not take it in time")


class BlockingUpgradedStream(UpgradedStream):
    """Such a connection for threads: one reads at a time, any may write or close."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # type: ignore[override]
        """Return what has come, b"" at the end of what the peer sends.

        Args:
            max_bytes: that are returned at most.
            timeout: seconds to wait; None for as long as it takes.

        Raises:
            httpcore.ReadTimeout: nothing came in time.
            httpcore.ReadError: the connection broke, or was closed.
        """
        return run_sync(partial(self._read, max_bytes, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # type: ignore[override]
        """Send bytes, and return when they are with the system.

        Args:
            buffer: the bytes.
            timeout: seconds to wait; None for as long as it takes.

        Raises:
            httpcore.WriteTimeout: they did not go out in time.
            httpcore.WriteError: the connection broke, or was closed.
        """
        run_sync(partial(self._write, buffer, timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.abort()


class AsyncUpgradedStream(UpgradedStream):
    """Such a connection for tasks: one reads at a time, any may write or close."""

    async def read(  # type: ignore[override]
        self, max_bytes: int, timeout: float | None = None
    ) -> bytes:
        """Return what has come; see BlockingUpgradedStream."""
        return await self._read(max_bytes, timeout)

    async def write(  # type: ignore[override]
        self, buffer: bytes, timeout: float | None = None
    ) -> None:
        """Send bytes; see BlockingUpgradedStream."""
        await self._write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        self._stream.abort()


def network_stream(
    incoming: Incoming, binding: Binding, owner: object, *, awaits: bool
) -> NetworkStream:
    """Return what tells of the connection of an answer, and is it where that has switched.

    Args:
        incoming: what open_upgrade gave.
        binding: says whose errors to raise.
        owner: is kept as long as the stream, so that its engine is not closed before.
        awaits: for tasks.
    """
    if not isinstance(incoming, UpgradeAnswer) or not incoming.reply.has_switched:
        return NetworkStream(incoming)
    kind = AsyncUpgradedStream if awaits else BlockingUpgradedStream
    return kind(incoming, binding, owner)
