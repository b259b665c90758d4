"""A task that reads a request body for libcurl, while the caller may read the response.

Reading a body may block or await, which libcurl's callback must not. The task belongs to the
exchange, not to the call that started it: `open` returns once the head of the response is there,
and the body is sent until it ends, until the exchange ends, or until the caller leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from time import monotonic

import anyio

from curlhttp._http.body import Body
from curlhttp._http.errors import add_note
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.transfer import Transfer
from curlhttp._runtime.engine import Waiter
from curlhttp._runtime.log import ERROR, log
from curlhttp._runtime.loops import background_tasks, in_thread, running_loop

_PIECE = 64 * 1024  # bytes of a body that are read at once


class BodyFeed:
    """Read one body for one transfer, a piece whenever libcurl has taken the one before.

    Args:
        transfer: sends the body.
        body: is not in memory.
        driver: moves the transfer.
        make_waiter: returns a new waiter for a task of the loop.
    """

    def __init__(
        self, transfer: Transfer, body: Body, driver: Driver, make_waiter: Callable[[], Waiter]
    ) -> None:
        self._transfer = transfer
        self._body = body
        self._driver = driver
        self._make_waiter = make_waiter
        self._waiter = make_waiter()
        self._piece = b""
        self._has_ended = self._is_stopped = False
        self._closing_error: BaseException | None = None

    def start(self) -> None:
        """Begin to read the body, in a task with the context of the caller."""
        request = self._transfer.request
        assert request is not None
        self._name = str(request)
        # An aborted body may be read again, for another attempt, before this task has ended.
        self._opened = self._body.current()
        self._done = anyio.Event()
        self._scope = anyio.CancelScope()
        if request.deadline is not None:
            self._scope.deadline = anyio.current_time() + request.deadline - monotonic()
        self._tasks = background_tasks(running_loop(), copy_context())
        self._tasks.spawn(self._run)

    def take(self, size: int) -> bytes | None:
        """Return at most size bytes, b"" at the end, None for none yet."""
        piece = self._piece[:size]
        if not piece:
            return b"" if self._has_ended else None
        self._piece = self._piece[size:]
        if not self._piece:
            self._waiter.wake()
        return piece

    # the end

    def stop(self) -> None:
        """Accept no more pieces, because the exchange has ended; a thread ends its read first."""
        if self._is_stopped:
            return
        self._is_stopped = True
        with suppress(RuntimeError):  # the loop has ended, and with it the task
            self._waiter.wake()
            if self._body.is_async and hasattr(self, "_scope"):
                self._scope.cancel()

    async def finish(self) -> None:
        """Stop, and wait until nobody reads the body any more.

        Raises:
            BaseException: raised by the caller's body when it was closed.
        """
        self.stop()
        await self._done.wait()
        if self._closing_error is not None:
            raise self._closing_error

    async def abandon(self) -> None:
        """Stop, and leave a thread that reads; wait until an async body is closed."""
        self.stop()
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._done.wait()
        if self._closing_error is not None:
            log.write(
                ERROR,
                "%s: its body raised when it was closed",
                self._name,
                error=self._closing_error,
            )

    # the task

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._read_all()
            await self._opened.aclose()
        except BaseException as error:
            if self._was_cancelled(error):
                raise
            self._closing_error = error
        finally:
            self._done.set()

    async def _read_all(self) -> None:
        upload = self._transfer.upload
        try:
            while not self._is_stopped:
                piece = await next_piece(self._body)
                if self._is_stopped:
                    break  # type: ignore[unreachable]  # it may have been stopped meanwhile
                self._piece, self._has_ended = piece, not piece
                self._waiter = self._make_waiter()
                if upload is not None and upload.is_starving:
                    self._driver.resume(self._transfer)
                if not piece:
                    break
                await self._waiter.wait()
        # Raised by the caller's body, even if it is a CancelledError. It ends the transfer.
        except BaseException as error:
            if self._was_cancelled(error):
                raise
            if not self._is_stopped:  # otherwise the transfer may be that of another request
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        transfer = self._transfer
        if transfer.head is not None:
            add_note(error, f"raised by the body of {self._name}, after the response had begun")
        self._driver.fail(transfer, error)

    def _was_cancelled(self, error: BaseException) -> bool:
        """Return whether an error means the end of this task, and is not the body's own."""
        if isinstance(error, GeneratorExit) or self._tasks.was_cancelled(error):
            return True
        is_cancellation = isinstance(error, anyio.get_cancelled_exc_class())
        return is_cancellation and anyio.current_effective_deadline() == -math.inf


async def next_piece(body: Body) -> bytes:
    """Return the next piece of a body that is awaited, or read in a thread; b"" at its end."""
    if body.is_async:
        return await body.next()
    # A file or an iterator may block, so a thread reads it. Cancellation and the deadline abandon
    # the thread, because the body is not sent again after them.
    return await in_thread(body.read, _PIECE, abandon_on_cancel=True)
