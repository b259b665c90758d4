"""What requests to ASGI and to WSGI apps have in common. Nothing here calls an app."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from time import monotonic
from typing import Any
from urllib.parse import unquote

import anyio.lowlevel

from curlhttp._http.errors import deadline_error, read_timeout_error
from curlhttp._http.headers import ANNOUNCES_NO_BODY
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, get_reason_phrase
from curlhttp._http.timings import Timings, add_waits
from curlhttp._runtime.engine import Waiter
from curlhttp.exceptions import RequestException

ERROR = b"Internal Server Error"  # the body of the response if the app raised an exception


class AppCall:
    """One request to an app.

    Args:
        request: complete.
        raises: whether the app's exceptions are raised to the caller.

    Attributes:
        request: see there.
        head: the head of the response, set when the body begins; None before.
        begun: the time of the call in monotonic seconds.
        first_byte: seconds until the head was set.
    """

    def __init__(self, request: ClientRequest, *, raises: bool) -> None:
        self.request = request
        self.head: Head | None = None
        self.begun: float = monotonic()
        self.first_byte: float = 0.0
        self._raises = raises
        self._total = 0.0

    def set_head(self, head: Head | None) -> None:
        """Set the head and its time.

        Args:
            head: of the response.
        """
        self.head = head
        self.first_byte = monotonic() - self.begun

    def check_time(self, since: float, early: float = 0.0) -> None:
        """Raise if the deadline or the read timeout has expired.

        Args:
            since: the time of the app's last activity in monotonic seconds.
            early: seconds by which a timer may fire too early.

        Raises:
            RequestException: one has expired.
        """
        self.check_deadline()
        read = self.request.timeout.read
        if read is not None and monotonic() - since > read - early:
            raise read_timeout_error(self.request, has_head=self.head is not None)

    def check_deadline(self) -> None:
        """Raise if the deadline has expired.

        Raises:
            DeadlineExceeded: it has.
        """
        if self.request.is_late(monotonic()):
            raise deadline_error(self.request, was_sent=True)

    def add_context(self, error: BaseException) -> BaseException:
        """Return an error with request and timings, if it is a RequestException without them."""
        if isinstance(error, RequestException) and error.timings is None:
            error.request, error.request_sent, error.timings = self.request, True, self.timings()
        return error

    def timings(self) -> Timings:
        """Return the times until the first byte, and until the end."""
        total = self._total or monotonic() - self.begun
        times = Timings(0.0, 0.0, 0.0, 0.0, self.first_byte, total, False, None)
        return add_waits(times, self.request)

    def certificate(self) -> None:
        """Return None: there was no TLS."""


# --- Parse the head that an app sends ---

_BREAKS = re.compile(rb"[\r\n\0]").search


class UnexpectedMessage(RuntimeError):
    """An app sent a message of a wrong type, or in the wrong order."""

    def __init__(self, kind: object) -> None:
        super().__init__(f"the app sent an unexpected {kind!r}")


def parse_asgi_head(
    message: dict[str, Any],
) -> Head:  # Any: what a message holds depends on its type
    """Return the head in the message http.response.start.

    Raises:
        ValueError: the status or a header is invalid.
    """
    status = int(message["status"])
    if not 200 <= status <= 999:
        raise ValueError(f"the app sent status {status}")
    lines = [f"HTTP/1.1 {status} {get_reason_phrase(status)}".encode("latin-1")]
    for name, value in message.get("headers", ()):
        line = bytes(name) + b": " + bytes(value).strip(b" \t")
        if _BREAKS(line) or not name:
            raise ValueError(f"the app sent an invalid header: {line!r}")
        lines.append(line)
    return Head(b"\r\n".join([*lines, b"", b""]))


def parse_wsgi_head(status: str, headers: list[tuple[str, str]]) -> Head:
    """Return the head from the arguments of start_response.

    Raises:
        ValueError: the status or a header is invalid.
    """
    lines = [f"HTTP/1.1 {status}".encode("latin-1")]
    for name, value in headers:
        lines.append(f"{name}: {value.strip(' ')}".encode("latin-1"))
        if not name:
            raise ValueError(f"the app sent a header without a name: {value!r}")
    head = Head(b"\r\n".join([*lines, b"", b""]))
    if head.status_code < 200 or any(map(_BREAKS, lines)):
        raise ValueError(f"the app sent an invalid status or header: {lines!r}")
    return head


# --- Detect apps of the other interface, for errors that name the right transport ---

_ASGI = "it is an ASGI app: use AsyncClient(transport=curlhttp.ASGITransport(app))"
_WSGI = "it is a WSGI app: use Client(transport=curlhttp.WSGITransport(app))"


def check_asgi(app: object) -> None:
    """Check that an object may be an ASGI 3 app.

    Raises:
        TypeError: it is not.
    """
    if not callable(app):
        raise TypeError(f"an ASGI app is called with scope, receive and send: {app!r} is not")
    if _count_parameters(app) == 2 and not _is_async(app):
        raise TypeError(f"{app!r} takes two arguments, environ and start_response: {_WSGI}")


def check_wsgi(app: object) -> None:
    """Check that an object may be a WSGI app.

    Raises:
        TypeError: it is not.
    """
    if not callable(app):
        raise TypeError(f"a WSGI app is called with environ and start_response: {app!r} is not")
    if _is_async(app) or _count_parameters(app) == 3:
        raise TypeError(f"{app!r} takes scope, receive and send: {_ASGI}")


def _is_async(app: object) -> bool:
    call = getattr(type(app), "__call__", None)  # noqa: B004  # it may be a coroutine function
    return inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(call)


def _count_parameters(app: object) -> int | None:
    """Return how many arguments an app needs; None if its signature does not say."""
    try:
        found = inspect.signature(app).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in found):
        return None
    return sum(each.default is each.empty and each.kind is not each.KEYWORD_ONLY for each in found)


# --- Make the header fields and the scope for an app ---


def get_request_fields(request: ClientRequest) -> list[tuple[str, str]]:
    """Return all header fields of a request, including those that libcurl would add."""
    request.request_identity_of_range()
    fields = request.headers.multi_items()
    names = {name.lower() for name, _ in fields}
    if "host" not in names:
        fields.insert(0, ("Host", request.url.authority))
    body = request.body
    if body is None:
        if request.method in ANNOUNCES_NO_BODY and "content-length" not in names:
            fields.append(("Content-Length", "0"))
    elif body.length is None:
        fields.append(("Transfer-Encoding", "chunked"))
    else:
        fields.append(("Content-Length", str(body.length)))
    return fields


def make_scope(
    kind: str,
    request: ClientRequest,
    *,
    client: tuple[str, int] | None,
    root_path: str,
    state: dict[str, object] | None,
) -> dict[str, object]:
    """Return the scope of a request, of spec version 2.4.

    Args:
        kind: "http" or "websocket".
        request: complete.
        client: the address and port of the client, or None.
        root_path: the path where the app is mounted.
        state: the state that the app's lifespan set, or None without a lifespan.
    """
    url = request.url
    scheme = url.scheme if kind == "http" else {"http": "ws", "https": "wss"}[url.scheme]
    scope: dict[str, object] = {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": scheme,
        "path": unquote(url.path),
        "raw_path": url.path.encode("ascii"),
        "query_string": url.query.encode("ascii"),
        "root_path": root_path,
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in get_request_fields(request)
        ],
        "client": None if client is None else tuple(client),
        "server": (url.host, url.port),
        "extensions": {},
    }
    if kind == "http":
        scope["method"] = request.method
    if state is not None:
        scope["state"] = state.copy()
    return scope


# --- Let the client's task and the app's tasks wait for each other ---

_TURN = 0.005  # seconds that an app may run without letting others run


class Condition:
    """Notify all waiting tasks of one event loop that something may have changed.

    Args:
        make_waiter: makes a waiter of the loop.
    """

    def __init__(self, make_waiter: Callable[[], Waiter]) -> None:
        self._make_waiter = make_waiter
        self._waiting: set[Waiter] = set()
        self._turn_due = monotonic() + _TURN

    def notify_all(self) -> None:
        """Wake all waiting tasks."""
        for waiter in self._waiting:
            waiter.wake()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a notification.

        Args:
            seconds: how long to wait; None for no limit.
        """
        waiter = self._make_waiter()
        self._waiting.add(waiter)
        try:
            await waiter.wait(seconds)
        finally:
            self._waiting.discard(waiter)

    async def checkpoint(self) -> None:
        """Let other tasks run if the last time was too long ago.

        An app that sends and receives without waiting would block the loop: no timeout could end
        its request, and nobody could cancel it. Doing this for each message would cost more than
        most messages do.
        """
        if monotonic() >= self._turn_due:
            for _ in range(2):  # anyio on asyncio cancels no task that was woken in this turn
                await anyio.lowlevel.checkpoint()
            self._turn_due = monotonic() + _TURN
