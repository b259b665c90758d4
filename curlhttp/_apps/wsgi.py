"""A WSGI app in place of the network: an engine for Client, in the calling thread (PEP 3333)."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Any

from curlhttp._apps.check import check_wsgi
from curlhttp._apps.environ import environ_of
from curlhttp._apps.wsgi_call import WSGICall
from curlhttp._curl.result import decode_body
from curlhttp._curl.thread_gate import ThreadGate
from curlhttp._engine import HedgePlan
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["WSGITransport"]


class WSGITransport:
    """Send a Client's requests to a WSGI app: `Client(transport=WSGITransport(app))`.

    All that is above the network works as ever. The app runs in the thread that sends the request,
    where what it keeps by thread, such as a database's connection, is the test's as well. So
    nothing can interrupt it: a timeout is looked at when it gives something, and no hedge is sent.

    Args:
        app: of WSGI.
        client: address and port that the app sees, or None.
        root_path: where the app is mounted: SCRIPT_NAME.
        raise_app_exceptions: what the app raises is raised by the client; else it is a response of
            500, or a body that breaks off.

    Raises:
        TypeError: the app is none of WSGI.
    """

    needs_client = "Client"

    def __init__(
        self,
        app: Any,  # Any: the frameworks do not agree on its type
        *,
        client: tuple[str, int] | None = ("127.0.0.1", 123),
        root_path: str = "",
        raise_app_exceptions: bool = True,
    ) -> None:
        check_wsgi(app)
        self._app = app
        self._client = client
        self._root_path = root_path
        self._raises = raise_app_exceptions
        self._is_closed = False
        self._dropped: deque[WSGICall] = deque()  # by finalizers, which must not run an app

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Call the app and return the response with its body in memory.

        Args:
            request: complete.
            plan: is told how long it took.

        Raises:
            RequestException: no response came of it.
            Exception: the app's own.
        """
        call = await self.open(request, plan)
        pieces = []
        while piece := call.read():
            pieces.append(piece)
        assert call.head is not None
        response = Response(request, call.head, b"".join(pieces), call.timings())
        if request.decode and response.content:
            decode_body(response, request)
        return response

    async def open(self, request: Request, plan: HedgePlan | None = None) -> WSGICall:
        """Call the app and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: no response came of it.
            Exception: the app's own.
        """
        self._release_dropped()
        if self._is_closed:
            raise client_closed(request)
        call = WSGICall(request, self, raises=self._raises)
        environ = environ_of(
            request, client=self._client, root_path=self._root_path, failed=call.body_failed
        )
        call.start(self._app, environ)
        if plan is not None:
            plan.timed(call.first_byte)
        return call

    async def read(self, incoming: WSGICall) -> bytes:
        """Return the next piece of the body as it came, b"" at the end.

        Raises:
            RequestException: the body broke off.
            Exception: the app's own.
        """
        return incoming.read()

    def abort(self, incoming: WSGICall) -> None:
        """Let go of a response, and close what the app returned."""
        incoming.give_up()

    def abort_from_finalizer(self, incoming: WSGICall) -> None:
        """Let go of a response from a finalizer: what the app returned is closed later."""
        self._dropped.append(incoming)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251  # there is no loop to block

    @staticmethod
    def now() -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    @staticmethod
    def wall() -> float:
        """Return the time of day in seconds since the epoch."""
        return time.time()

    def gate(self) -> ThreadGate:
        """Return a closed gate, for a caller to wait at."""
        return ThreadGate()

    def close(self) -> None:
        """Send no more requests."""
        self._is_closed = True
        self._release_dropped()

    def _release_dropped(self) -> None:
        while self._dropped:
            with suppress(IndexError):  # another thread was faster
                self._dropped.popleft().close()
