"""Progress of transfers: how often it is told, and bodies that tell how far they were sent."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from curlhttp._models.body.body import Body

__all__ = ["AsyncWatchedBody", "Meter", "Progress", "WatchedBody"]

Progress: TypeAlias = "Callable[[int, int | None], object]"
"""Called with the bytes done and the bytes in total, None while that is not known."""

_EVERY = 0.05  # seconds between two calls
_PIECE = 64 * 1024


class Meter:
    """Report progress: at the beginning, at the end, and 20 times a second between.

    Args:
        tell: the function, or None to tell nobody. What it raises goes through.
        now: the engine's monotonic clock.

    Raises:
        TypeError: it is no function that can be called between two pieces.
    """

    __slots__ = ("_due", "_now", "_tell", "_told", "_total")

    def __init__(self, tell: Progress | None, now: Callable[[], float]) -> None:
        if tell is not None and (not callable(tell) or inspect.iscoroutinefunction(tell)):
            raise TypeError(f"progress must be a plain function of (done, total), not {tell!r}")
        self._tell = tell
        self._now = now
        self._told: tuple[int, int | None] | None = None
        self._total: int | None = None
        self._due = 0.0

    def begin(self, done: int, total: int | None) -> None:
        """Report the beginning, for the first time or anew."""
        self._told, self._total = None, total
        self._call(done)

    def move(self, done: int) -> None:
        """Report how far it is, if it is time."""
        if self._tell is not None and self._now() >= self._due:
            self._call(done)

    def end(self, done: int) -> None:
        """Report the end."""
        self._total = done
        if self._told != (done, done):
            self._call(done)

    def _call(self, done: int) -> None:
        if self._tell is not None:
            self._told, self._due = (done, self._total), self._now() + _EVERY
            self._tell(done, self._total)


class WatchedBody(Body):
    """A body that tells a meter how much of it was handed on.

    It counts as streamed, whatever it wraps: nothing tells how far libcurl is with a body that
    it has as a whole.

    Args:
        body: what is sent.
        meter: is told, from 0 again each time that the body starts over.
    """

    __slots__ = ("_body", "_done", "_meter")

    def __init__(self, body: Body, meter: Meter) -> None:
        self.content_type = body.content_type
        self.length = body.length
        self.data = None
        self.replayable = body.replayable
        self._body = body
        self._meter = meter
        self._done = -1  # nothing was told yet

    def read(self, size: int) -> bytes:
        self._begin()
        return self._counted(self._body.read(min(size, _PIECE)))

    def _begin(self) -> None:
        if self._done < 0:
            self._done = 0
            self._meter.begin(0, self.length)

    def _counted(self, piece: bytes) -> bytes:
        self._done += len(piece)
        if not piece or self._done == self.length:
            self._meter.end(self._done)
        else:
            self._meter.move(self._done)
        return piece

    def rewind(self) -> None:
        self._body.rewind()
        self._done = -1

    def close(self) -> None:
        self._body.close()

    async def aclose(self) -> None:
        await self._body.aclose()


class AsyncWatchedBody(WatchedBody):
    """A WatchedBody for AsyncClient: its meter is told in the loop's thread.

    Args:
        body: what is sent.
        meter: see WatchedBody.
        apart: calls body.read(size) in another thread.
    """

    __slots__ = ("_apart",)
    is_async = True

    def __init__(
        self,
        body: Body,
        meter: Meter,
        apart: Callable[[Callable[[int], bytes], int], Awaitable[bytes]],
    ) -> None:
        super().__init__(body, meter)
        self._apart = apart

    def read(self, size: int) -> bytes:
        raise TypeError("an async body needs AsyncClient")

    async def next(self) -> bytes:
        self._begin()
        body = self._body
        if body.is_async:
            return self._counted(await body.next())
        if body.data is not None:
            return self._counted(body.read(_PIECE))
        return self._counted(await self._apart(body.read, _PIECE))
