"""A response whose body is on the wire, as an engine returns it from `open`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Protocol, TypeVar

from curlhttp._libcurl.result import read_piece, read_pieces

if TYPE_CHECKING:
    from curlhttp._http.response import Head
    from curlhttp._http.timings import CurlTimings, Timings
    from curlhttp._libcurl.transfer import Transfer


Taken = TypeVar("Taken", bytes, list[bytes])


class TransferReader(Protocol):
    """An engine that reads what its transfers receive."""

    def read(
        self, transfer: Transfer, take: Callable[[Transfer], Taken]
    ) -> Coroutine[object, object, Taken]: ...

    def abort(self, transfer: Transfer) -> None: ...

    def abort_from_finalizer(self, transfer: Transfer) -> None: ...


class OpenTransfer:
    """A transfer whose head has arrived, and the engine that reads the rest; see Incoming.

    No engine keeps it, so a response that nobody refers to any more can be finalized.
    """

    __slots__ = ("_engine", "_head", "_transfer", "_upload")

    def __init__(self, engine: TransferReader, transfer: Transfer) -> None:
        self._engine = engine
        self._transfer = transfer
        self._head = transfer.head
        self._upload = transfer.upload

    @property
    def _has_transfer(self) -> bool:
        """Return whether the transfer is still that of this response, by the head it received.

        A task that reads gives it back at the end, before it waits until the caller's body is
        closed. Meanwhile another request may have it, and another task may close the response.
        """
        return self._transfer.head is self._head

    @property
    def head(self) -> Head | None:
        """Return the head."""
        return self._head

    @property
    def done(self) -> bool:
        """Return whether everything has arrived."""
        return self._transfer.done or not self._has_transfer

    def timings(self) -> Timings | CurlTimings:
        """Return where the time went so far."""
        return self._transfer.timings()

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM."""
        return self._transfer.certificate()

    def read(self) -> Coroutine[object, object, bytes]:
        """Return the next piece of the body as received, b"" at the end."""
        return self._engine.read(self._transfer, read_piece)

    def read_pieces(self) -> Coroutine[object, object, list[bytes]]:
        """Return the next pieces of the body without joining them, [] at the end."""
        return self._engine.read(self._transfer, read_pieces)

    def abort(self) -> None:
        """Abandon the rest of the body."""
        if self._has_transfer:
            self._engine.abort(self._transfer)

    @property
    def is_sending(self) -> bool:
        """Return whether the body of the request is still being sent."""
        upload, request = self._upload, self._transfer.request
        if upload is None or request is None or request.body is None or self.done:
            return False
        length = request.body.length  # libcurl does not ask whether there is more than that
        return not upload.is_read_out and (length is None or upload.fed < length)

    async def aclose(self) -> None:
        """Abandon the rest of both bodies, and wait until that of the request is closed."""
        self.abort()
        if self._upload is not None:
            await self._upload.abandon()

    def abort_from_finalizer(self) -> None:
        """Abandon the rest of the body, from a finalizer."""
        if self._has_transfer:
            self._engine.abort_from_finalizer(self._transfer)

    def set_read_timeout(self, seconds: float | None) -> None:
        """Change how long the server may be silent while the rest is read; None for no limit."""
        if self._has_transfer:
            self._transfer.set_read_timeout(seconds)
