"""Progress of transfers: how often it is reported, and bodies that report how much was sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from curlhttp._http.body import Body

if TYPE_CHECKING:
    from curlhttp._http.inputs import Progress
    from curlhttp._runtime.run import Offload

_EVERY = 0.05  # seconds between two calls
_PIECE = 64 * 1024


class ProgressMeter:
    """Report progress: at the start, at the end, and at most 20 times a second in between.

    Args:
        report: the function to call, or None. Its exceptions are passed on.
        now: the engine's monotonic clock.

    Raises:
        TypeError: it is not a plain function.
    """

    __slots__ = ("_due", "_now", "_report", "_reported", "_total")

    def __init__(self, report: Progress | None, now: Callable[[], float]) -> None:
        if report is not None and (not callable(report) or inspect.iscoroutinefunction(report)):
            raise TypeError(f"progress must be a plain function of (done, total), not {report!r}")
        self._report = report
        self._now = now
        self._reported: tuple[int, int | None] | None = None
        self._total: int | None = None
        self._due = 0.0

    def begin(self, done: int, total: int | None) -> None:
        """Report the start, also when a transfer starts over."""
        self._reported, self._total = None, total
        self._send_report(done)

    def move(self, done: int) -> None:
        """Report the bytes done, if a report is due."""
        if self._report is not None and self._now() >= self._due:
            self._send_report(done)

    def end(self, done: int) -> None:
        """Report the end."""
        self._total = done
        if self._reported != (done, done):
            self._send_report(done)

    def _send_report(self, done: int) -> None:
        if self._report is not None:
            self._reported, self._due = (done, self._total), self._now() + _EVERY
            self._report(done, self._total)


def report_sending(
    body: Body | None, progress: Progress, now: Callable[[], float], in_thread: Offload | None
) -> Body:
    """Return a body that reports how much of it is sent.

    Args:
        body: to send.
        progress: see ProgressMeter.
        now: see ProgressMeter.
        in_thread: calls a function in another thread, for AsyncClient; None for Client.

    Raises:
        TypeError: progress is not a plain function.
        ValueError: there is no body.
    """
    meter = ProgressMeter(progress, now)
    if body is None:
        raise ValueError("progress reports the request body, but the request has none")
    if in_thread is None:
        return ProgressBody(body, meter)
    return AsyncProgressBody(body, meter, in_thread)


class ProgressBody(Body):
    """Wrap a body and report how much of it was passed to libcurl.

    It counts as streamed even if the body is in memory, because libcurl does not report how much
    of such a body it has sent.

    Args:
        body: the body to send.
        meter: gets the reports, starting from 0 each time that the body starts over.
    """

    __slots__ = ("_body", "_done", "_meter")

    def __init__(self, body: Body, meter: ProgressMeter) -> None:
        self.content_type = body.content_type
        self.length = body.length
        self.data = None
        self.replayable = body.replayable
        self._body = body
        self._meter = meter
        self._done = -1  # nothing was reported yet

    def read(self, size: int) -> bytes:
        self._begin()
        return self._count(self._body.read(min(size, _PIECE)))

    def _begin(self) -> None:
        if self._done < 0:
            self._done = 0
            self._meter.begin(0, self.length)

    def _count(self, piece: bytes) -> bytes:
        self._done += len(piece)
        if not piece or self._done == self.length:
            self._meter.end(self._done)
        else:
            self._meter.move(self._done)
        return piece

    def peek(self) -> bytes | None:
        return self._body.peek()

    def replaced_by(self, body: Body) -> Body:
        return ProgressBody(body, self._meter)

    def rewind(self) -> None:
        self._body.rewind()
        self._done = -1

    def close(self) -> None:
        self._body.close()

    def current(self) -> Body:
        return self._body.current()

    async def aclose(self) -> None:
        await self._body.aclose()


class AsyncProgressBody(ProgressBody):
    """A ProgressBody for AsyncClient: it reports in the event loop's thread.

    Args:
        body: the body to send.
        meter: see ProgressBody.
        in_thread: calls a function in another thread.
    """

    __slots__ = ("_in_thread",)
    is_async = True

    def __init__(self, body: Body, meter: ProgressMeter, in_thread: Offload) -> None:
        super().__init__(body, meter)
        self._in_thread = in_thread

    def replaced_by(self, body: Body) -> Body:
        return AsyncProgressBody(body, self._meter, self._in_thread)

    def read(self, size: int) -> bytes:
        raise TypeError("an async body needs AsyncClient")

    async def next(self) -> bytes:
        self._begin()
        body = self._body
        if body.is_async:
            return self._count(await body.next())
        if body.data is not None:
            return self._count(body.read(_PIECE))
        return self._count(await self._in_thread(body.read, _PIECE))
