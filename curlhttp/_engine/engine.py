"""Protocols between the flow, which decides the order of things, and the engines, which move bytes.

The code above the engines is written once, as coroutines that suspend only in an engine's methods.
Those of the blocking engine never suspend, so `run_sync` can run the same code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from curlhttp._models.request import Request
from curlhttp._models.response import Response

if TYPE_CHECKING:
    from curlhttp._models.response import Head
    from curlhttp._models.timings import CurlTimings, Timings

MAX_DRAINED = 64 * 1024  # bytes of an unwanted body that are read to keep its connection

AttemptResult: TypeAlias = "Response | Exception | None"
"""The outcome of an attempt: its response without the body, its error, None if it was cancelled."""

# Any: an engine gets what its own `open` returned, whose class other engines need not know.
_Opened: TypeAlias = Any


class Incoming(Protocol):
    """A response whose head is in, and whose body is still on the wire."""

    @property
    def head(self) -> Head | None:
        """Return the head; None until it is in."""

    @property
    def done(self) -> bool:
        """Return whether nothing more will come, so that reading the rest does not wait."""

    def timings(self) -> Timings | CurlTimings:
        """Return where the time went so far."""

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, at least for a new TLS connection; else None."""


class HedgePlan(Protocol):
    """Decisions about the attempts of one request that may run at the same time.

    Attributes:
        after: seconds without a head, after which one more attempt is due; None for never.
        most: attempts after the first.
    """

    after: float | None
    most: int

    async def again(self) -> Request | None:
        """Return the request of one more attempt, or None for no more attempts."""

    def is_good(self, status_code: int) -> bool:
        """Return whether a response wins while other attempts are running."""

    def won(self, request: Request) -> None:
        """Note the attempt whose outcome the engine returns or raises.

        Args:
            request: of the attempt.
        """

    def dropped(
        self, request: Request, result: AttemptResult, elapsed: float, was_sent: bool
    ) -> None:
        """Note an attempt that did not win.

        Args:
            request: of the attempt.
            result: its outcome.
            elapsed: seconds that it took.
            was_sent: the server may have seen it.
        """

    def timed(self, seconds: float) -> None:
        """Note how long the first attempt took to its head, or has taken so far without one."""


class Waiter(Protocol):
    """Lets one caller wait until another one wakes it."""

    def wake(self) -> object:
        """Wake the caller; never blocks, may be called twice.

        Returns:
            False if the event loop of the caller has ended.
        """

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        """Return an awaitable that ends at `wake`, or after so many seconds."""


class Engine(Protocol):
    """Move the bytes of one request at a time."""

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is running; None for never.

        Raises:
            RequestException: no response was received.
        """

    async def open(self, request: Request, plan: HedgePlan | None = None) -> Incoming:
        """Send the request and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: no response was received.
        """

    async def read(self, incoming: _Opened) -> bytes:
        """Return the next piece of the body as it came, b"" at the end.

        Raises:
            RequestException: the body broke off, and the engine has abandoned the response.
        """

    def abort(self, incoming: _Opened) -> None:
        """Abandon a response; never blocks."""

    def abort_from_finalizer(self, incoming: _Opened) -> None:
        """Abandon a response from a finalizer, which may run in any thread."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def now(self) -> float:
        """Return monotonic seconds, as time.monotonic() does."""

    def wall(self) -> float:
        """Return the time of day in seconds since the epoch, as time.time() does."""

    def make_waiter(self) -> Waiter:
        """Return a new waiter for the caller, which any thread may wake."""

    def close(self) -> None:
        """Close all connections."""


class EngineWrapper(Protocol):
    """Wraps the engines that a client makes, and sees what they do."""

    def wrap(self, engine: Engine) -> Engine:
        """Return an engine that replaces another one; called for each request in AsyncClient."""

    def close(self) -> object:
        """Clean up, after the client was closed."""


class ByteStream(Protocol):
    """A connection on which both sides send bytes at any time.

    One caller at a time receives. Any caller may write, in a blocking client from several threads.
    A wait may be cancelled without losing bytes.
    """

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, None if none came in time.

        Args:
            seconds: how long to wait; None for no limit.

        Raises:
            RequestException: the connection broke, or was closed.
        """

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None if it would have to wait."""

    def write(self, data: bytes) -> None:
        """Queue bytes to send, and send what can go out at once; never blocks.

        Raises:
            RequestException: the connection broke, or was closed.
        """

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until everything written is sent; return False if it was not in time.

        Args:
            seconds: how long to wait; None for no limit.

        Raises:
            RequestException: the connection broke, or was closed.
        """

    def unsent(self) -> int:
        """Return how many bytes were written and wait to be sent."""

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection at once, from any thread; never blocks, may be called twice.

        Args:
            error: raised in callers that wait for it or use it later; or None.
        """

    def timings(self) -> Timings:
        """Return where the time went until the connection was established."""


class Connector(Protocol):
    """An engine that also opens connections for protocols other than HTTP."""

    async def connect(self, request: Request) -> ByteStream:
        """Open a separate connection to a request's origin, and send nothing on it.

        The caller writes the head of the request and reads that of the response, as bytes of
        HTTP/1.1. A stream that is dropped unclosed closes its connection in its finalizer.

        Args:
            request: complete; its transport, timeouts and deadline apply.

        Raises:
            RequestException: the connection failed.
        """


def connector(engine: Engine) -> Connector:
    """Return an engine as a Connector.

    Raises:
        TypeError: it opens no connections.
    """
    if not hasattr(engine, "connect"):
        raise TypeError(
            f"{type(engine).__name__} has no connect(): it opens no connection "
            "for another protocol, such as WebSocket"
        )
    return cast("Connector", engine)


def get_reader(incoming: Incoming, engine: Engine) -> Engine:
    """Return the engine that reads a response.

    A replacement of the network reads what it opened, even after it was removed.

    Args:
        incoming: the response.
        engine: was called for it.
    """
    found: Engine = getattr(incoming, "engine", engine)
    return found


def validate_transport(transport: Engine, client: str) -> None:
    """Check that an engine works with a kind of client; most work with both.

    Args:
        transport: the user's; one for a single kind of client names it in `needs_client`.
        client: "Client" or "AsyncClient".

    Raises:
        TypeError: it is for the other kind, or it is no engine, such as a transport of httpx.
    """
    needed = getattr(transport, "needs_client", client)
    name = type(transport).__name__
    if not hasattr(transport, "now"):
        raise TypeError(
            f"{name} is no transport of {client}: it takes such as curlhttp.Record(...), an app in "
            "ASGITransport or WSGITransport, or a ScriptedEngine"
        )
    if needed != client:
        hint = f"use {needed}(transport={name}(...))"
        raise TypeError(f"{name} is for {needed}, not {client}: {hint}")


class Clock(NamedTuple):
    """The engine's time: the machine's for real engines, simulated for a scripted one.

    Attributes:
        now: returns monotonic seconds.
        wall: returns the time of day in seconds since the epoch.
        sleep: waits for seconds; awaited.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


class Exchange(Protocol):
    """The last step of the flow, which passes a request to the engine."""

    def __call__(self, request: Request, plan: HedgePlan | None = None, /) -> Awaitable[Response]:
        """Return an awaitable of the response."""


MakeWaiter: TypeAlias = Callable[[], Waiter]
Send: TypeAlias = Callable[[Request], Awaitable[Response]]
Layer: TypeAlias = Callable[[Send], Send]
Middleware: TypeAlias = Callable[[Request, Send], Awaitable[Response]]
