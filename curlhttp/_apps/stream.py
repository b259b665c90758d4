"""The client's side of a WebSocket to an app: a connection in memory."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from curlhttp._apps.websocket import AppSocket
from curlhttp._models.timings import Timings
from curlhttp.exceptions import RequestException

__all__ = ["AppStream"]


class AppStream:
    """The client's side: a connection on which the app is the server.

    Args:
        socket: the app's side.
    """

    def __init__(self, socket: AppSocket) -> None:
        self._socket = socket

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end of what the app sends, None for none in time.

        Args:
            seconds: how long to wait; None for as long as it takes.

        Raises:
            RequestException: the connection was given up.
            Exception: the app's own.
        """
        data = self._socket.give_bytes()
        if data is None:
            await self._wait(seconds, self._socket.has_bytes)
            data = self._socket.give_bytes()
        return data

    async def _wait(self, seconds: float | None, is_so: Callable[[], bool]) -> None:
        with anyio.move_on_after(seconds):
            while not is_so():
                await self._socket.changes.wait()

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""
        return self._socket.give_bytes()

    def write(self, data: bytes) -> None:
        """Take bytes for the app; never waits.

        Raises:
            RequestException: the connection was given up.
        """
        if self._socket.is_gone and isinstance(self._socket.failed, RequestException):
            raise self._socket.failed
        self._socket.take_bytes(data)

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until the app has taken most of what was written; False if it has not in time.

        Args:
            seconds: how long to wait; None for as long as it takes.
        """
        await self._wait(seconds, self._socket.has_room)
        return self._socket.has_room()

    def unsent(self) -> int:
        """Return how many bytes wait for the app, 0 if there is room for more."""
        return self._socket.unsent()

    def abort(self, error: Exception | None = None) -> None:
        """End the connection at once, from any thread; never waits, may be called twice.

        Args:
            error: what whoever waits for it gets, and whoever uses it afterwards; or None.
        """
        socket = self._socket
        socket.call_soon(lambda: socket.abort(error))

    def timings(self) -> Timings:
        """Return that no time went by."""
        return Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, None)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.abort()
