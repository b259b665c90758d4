"""One request to an ASGI app: the app's side, in a task of its own, and the client's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import anyio.lowlevel

from curlhttp._client.apps.call import ERROR, AppCall, Changes, RefusedMessage, head_of
from curlhttp._curl.engines.event_loop import next_piece
from curlhttp._curl.engines.loops import BackgroundTasks
from curlhttp._curl.errors import body_differs, too_large
from curlhttp._curl.head import contradicts
from curlhttp._curl.result import decode_body
from curlhttp._engine.engine import Engine
from curlhttp._models.errors import closed_while_reading
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response, has_body
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    RemoteProtocolError,
    RequestException,
)

__all__ = ["AppExchange"]

_ROOM = 64 * 1024  # bytes that a streamed response may be ahead of its reader
_EARLY = 0.002  # seconds that timers of event loops may be
_TURNS = 8  # of the loop, in which an app that was due by now may be heard

_Message = dict[str, Any]  # Any: what a message holds depends on its type


class AppExchange(AppCall):
    """A request to an app and what came of it; also the response, as long as it is on its way.

    Args:
        app: the ASGI app.
        scope: of the request.
        request: complete.
        tasks: for this exchange alone.
        engine: reads the response.
        raises: what the app raises is raised to the caller.

    Attributes:
        done: the app is done with it, or it has failed.
        failed: what it failed with, or None.
        changes: wakes who waits for it.
    """

    def __init__(
        self,
        app: Any,  # Any: an app of the user's
        scope: dict[str, object],
        request: Request,
        tasks: BackgroundTasks,
        engine: Engine,
        *,
        raises: bool,
    ) -> None:
        super().__init__(request, engine, raises=raises)
        self.failed: BaseException | None = None
        self.changes: Changes = Changes(tasks.gate)
        self._app = app
        self._scope = scope
        self._tasks = tasks
        self._pieces: deque[bytes] = deque()
        self._waiting = 0  # bytes in the pieces
        self._size = 0
        self._start: Head | None = None  # until some of the body is in
        self._has_all = False  # of the response
        self._is_gone = False  # the client
        self._is_read = False  # the request's body
        self._is_reading = False
        self._has_ended = False  # the app's task
        self._last_activity = self.begun

    # the app's side

    def start(self, ended: Callable[[AppExchange], object]) -> None:
        """Call the app in a task of its own.

        Args:
            ended: called when that has ended.
        """
        self._tasks.spawn(self._run, ended)

    async def _run(self, ended: Callable[[AppExchange], object]) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
            self._finish()
        except Exception as error:
            self._fail(error)
        except BaseException as error:
            # Neither a cancelled task nor Ctrl-C is the app's answer.
            if isinstance(error, (self._tasks.cancelled, GeneratorExit)):
                self._fail(ConnectionError(f"{self.request}: the app was cancelled"))
                raise
            self._fail(error)
        finally:
            self._has_ended = True
            self._total = monotonic() - self.begun
            ended(self)
            self.changes.tell()
            if self.request.body is not None:
                with suppress(Exception):  # of the caller's generator, which nobody waits for
                    await self.request.body.aclose()

    def _finish(self) -> None:
        """See what the app has left, which has returned."""
        if self._is_gone or self.failed is not None:
            return
        if self._start is None:
            what = f"{self.request}: the app ended without a response"
            self._fail(RemoteProtocolError(what))
        elif not self._has_all:
            self.failed = ChunkedEncodingError(
                f"{self.request}: the app ended within the response body"
            )

    def _fail(self, error: BaseException) -> None:
        if self._is_gone or self.failed is not None:
            return
        if self._raises or not isinstance(error, Exception):
            self.failed = error
        elif self._start is None or self.head is None:
            self._answer(500, ERROR)
        elif not self._has_all:
            self.failed = ChunkedEncodingError(
                f"{self.request}: the app failed within the response body"
            )

    def _answer(self, status: int, body: bytes) -> None:
        fields = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        self._start = head_of({"status": status, "headers": fields})
        self._pieces.clear()
        self._size = self._waiting = 0
        self._take(body, more=False)

    async def _receive(self) -> _Message:
        await self.changes.give_turn()
        if not (self._is_read or self._is_gone):
            return await self._receive_body()
        while not (self._is_gone or self._has_all):
            await self.changes.wait()
        return {"type": "http.disconnect"}

    async def _receive_body(self) -> _Message:
        body = self.request.body
        if body is None or body.data is not None:
            self._is_read = True
            data = b"" if body is None else body.data
            return {"type": "http.request", "body": data, "more_body": False}
        self._is_reading = True
        try:
            piece = await next_piece(body)
        except Exception as error:  # the caller's own
            self.failed, self._is_gone = error, True
            self.changes.tell()
            return {"type": "http.disconnect"}
        finally:
            self._is_reading = False
        self._is_read = not piece
        self._last_activity = monotonic()
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    async def _send(self, message: _Message) -> None:
        await self.changes.give_turn()
        if self._is_gone:
            raise OSError("the client has gone")  # as ASGI 2.4 has it
        kind = message["type"]
        self._last_activity = monotonic()
        if kind == "http.response.start" and self._start is None:
            self._start = head_of(message)
        elif kind == "http.response.body" and self._start is not None and not self._has_all:
            self._take(bytes(message.get("body", b"")), more=bool(message.get("more_body")))
            while self.request.stream and self._waiting >= _ROOM and not self._is_gone:
                await self.changes.wait()
        else:
            raise RefusedMessage(kind)

    def _take(self, piece: bytes, *, more: bool) -> None:
        head, request = self._start, self.request
        assert head is not None
        if piece and has_body(request.method, head.status_code):
            self._pieces.append(piece)
            self._waiting += len(piece)
            self._size += len(piece)
        if self.head is None:
            self.begin_answer(head)
        limit = request.max_response_size
        if limit is not None and self._size > limit:
            self.failed, self._is_gone = too_large(request), True
        elif not more:
            self._has_all = True
            if contradicts(head, request.method, self._size):
                self.failed, self._is_gone = body_differs(request, self._size), True
        self.changes.tell()

    # the client's side

    @property
    def done(self) -> bool:
        """Return whether the app has ended, or the exchange failed."""
        return self._has_ended or self.failed is not None

    async def wait(self, is_over: Callable[[], object]) -> None:
        """Wait for the app.

        Args:
            is_over: what for.

        Raises:
            RequestException: it is silent for too long.
        """
        while not is_over():
            await self.changes.wait(self.patience())
            await self._check_patience(is_over)

    async def _check_patience(self, is_over: Callable[[], object]) -> None:
        """Raise what a timeout ends the wait with, unless the app is heard of first.

        A loop that was late itself wakes both sides at once, in any order: who is late may be this
        process, and not the app.
        """
        for _ in range(_TURNS):
            patience = self.patience()
            if is_over() or patience is None or patience > _EARLY:
                return
            await anyio.lowlevel.checkpoint()
        if not is_over():
            self.check_time(self._last_activity, _EARLY)

    def patience(self) -> float | None:
        """Return for how many seconds the app may be silent from now on, None without end."""
        request, now = self.request, monotonic()
        limits = []
        if request.timeout.read is not None:
            limits.append(self._last_activity + request.timeout.read - now)
        if request.deadline is not None:
            limits.append(request.deadline - now)
        return max(0.0, min(limits)) if limits else None

    async def give_up_late(self, is_over: Callable[[], object]) -> None:
        """Fail if a timeout has run out.

        Args:
            is_over: see wait.
        """
        try:
            await self._check_patience(is_over)
        except RequestException as error:
            self.abort(error)

    def response(self) -> Response:
        """Return the response of an exchange that is done.

        Raises:
            BaseException: what it failed with.
        """
        self.raise_failure()
        assert self.head is not None
        response = Response(self.request, self.head, b"".join(self._pieces), self.timings())
        if self.request.decode and response.content:
            decode_body(response, self.request)
        return response

    def raise_failure(self) -> None:
        """Raise what it failed with, if it did.

        Raises:
            BaseException: of the app, of the request's body, or a RequestException.
        """
        failed = self.failed
        if failed is None:
            return
        try:
            raise self.told(failed)
        finally:
            del failed  # or its traceback would hold it, in a circle

    async def read(self) -> bytes:
        """Return the next piece of the body, b"" at its end.

        Raises:
            BaseException: there is no more, since the exchange failed.
        """
        if not (self._has_all or self.done):  # of an app that always has more, no wait would ask
            self.check_deadline()
        if not self._pieces:
            self._last_activity = monotonic()  # before, the caller did not wait
            await self.wait(lambda: self._pieces or self.done)
        if self._pieces:
            piece = self._pieces.popleft()
            self._waiting -= len(piece)
            self.changes.tell()
            return piece
        self.raise_failure()
        return b""

    def abort(self, error: RequestException | None = None) -> None:
        """Tell the app that the client has gone.

        Args:
            error: what whoever waits for the response gets.
        """
        if self.failed is None and not self._has_ended:
            self.failed = error or closed_while_reading(self.request)
        self._is_gone = True
        self._pieces.clear()
        if self._is_reading:  # of a body that may never come
            self._tasks.cancel()
        self.changes.tell()

    def abort_from_finalizer(self) -> None:
        """Tell the app so from whatever thread a finalizer runs in."""
        with suppress(RuntimeError):  # the loop has ended
            self._tasks.call_soon(self.abort)

    def cancel(self) -> None:
        """Cancel the app's task."""
        self._tasks.cancel()

    async def wait_until_ended(self) -> None:
        """Wait until the app's task has ended."""
        await self._tasks.wait_until_done()
