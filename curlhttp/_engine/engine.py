"""The seam between the flow, which decides in what order, and the engines, which move bytes.

Everything above is written once, as coroutines that suspend in an engine's methods only. The
blocking engine's never suspend, so that `run_sync` can drive the same code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from curlhttp._models.request import Request
from curlhttp._models.response import Response

if TYPE_CHECKING:
    from curlhttp._models.response import Head
    from curlhttp._models.timings import CurlTimings, Timings

__all__ = [
    "MAX_DRAINED",
    "AttemptResult",
    "ByteStream",
    "Clock",
    "Connector",
    "Engine",
    "EngineWrapper",
    "Exchange",
    "Gate",
    "HedgePlan",
    "Incoming",
    "Layer",
    "MakeGate",
    "Middleware",
    "Send",
    "connector",
    "get_reader",
    "validate_transport",
]

MAX_DRAINED = 64 * 1024  # bytes of an unwanted body that are worth keeping its connection for

AttemptResult: TypeAlias = "Response | Exception | None"
"""The outcome of an attempt: its response without the body, its error, None if it was cancelled."""

# Any: an engine gets back what its own `open` returned, whose class other engines need not know.
_Opened: TypeAlias = Any


class Incoming(Protocol):
    """A response whose head is in and whose body is on the wire still."""

    @property
    def head(self) -> Head | None:
        """Return the head; None until it is in."""

    @property
    def done(self) -> bool:
        """Return whether all of it has come, or will never: reading the rest does not wait."""

    def timings(self) -> Timings | CurlTimings:
        """Return where the time went up to now."""

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, of a new TLS connection at least; else None."""


class HedgePlan(Protocol):
    """What an engine asks about the attempts of one request that may run at once.

    Attributes:
        after: seconds without a head, after which one more attempt is due; None for never.
        most: attempts after the first.
    """

    after: float | None
    most: int

    async def again(self) -> Request | None:
        """Return one more attempt's request, or None when there shall be none, now or later."""

    def is_good(self, status_code: int) -> bool:
        """Return whether an answer wins while other attempts are under way."""

    def surfaces(self, request: Request) -> None:
        """Hear which attempt's outcome is what the engine returns or raises.

        Args:
            request: of the attempt.
        """

    def dropped(
        self, request: Request, result: AttemptResult, elapsed: float, was_sent: bool
    ) -> None:
        """Count an attempt that does not surface.

        Args:
            request: of the attempt.
            result: its outcome.
            elapsed: seconds that it took.
            was_sent: the server may have seen it.
        """

    def timed(self, seconds: float) -> None:
        """Learn how long the first attempt took to its head, or has taken without one."""


class Gate(Protocol):
    """Something that one caller waits at until another one opens it."""

    def open(self) -> object:
        """Let the caller go on; never waits, may be called twice.

        Returns:
            False if the event loop has ended in which it would go on.
        """

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        """Return what ends when the gate is open, or after so many seconds."""


class Engine(Protocol):
    """Move the bytes of one request at a time."""

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is under way; None for never.

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
            RequestException: the body broke off; the engine has let go of the response.
        """

    def abort(self, incoming: _Opened) -> None:
        """Let go of a response; never waits."""

    def abort_from_finalizer(self, incoming: _Opened) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def now(self) -> float:
        """Return monotonic seconds, as time.monotonic() does."""

    def wall(self) -> float:
        """Return the time of day in seconds since the epoch, as time.time() does."""

    def gate(self) -> Gate:
        """Return a closed gate, for a caller to wait at; it may be opened from any thread."""

    def close(self) -> None:
        """Close all connections."""


class EngineWrapper(Protocol):
    """What stands around the engines that a client makes, and sees what they do."""

    def around(self, engine: Engine) -> Engine:
        """Return what takes the place of an engine; made again for each request, in AsyncClient."""

    def close(self) -> object:
        """Hear that the client was closed."""


class ByteStream(Protocol):
    """A connection on which both sides send bytes when they like.

    One caller at a time receives; any may write, in a blocking client from several threads.
    Whatever waits may be cancelled, and nothing is lost by that.
    """

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end of what the peer sends, None for none in time.

        Args:
            seconds: how long to wait; None for as long as it takes.

        Raises:
            RequestException: the connection broke, or was given up.
        """

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""

    def write(self, data: bytes) -> None:
        """Take bytes, to be sent after those before, and send what goes out at once; never waits.

        Raises:
            RequestException: the connection broke, or was given up.
        """

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until all that was written is sent; return False if it was not in time.

        Args:
            seconds: how long to wait; None for as long as it takes.

        Raises:
            RequestException: the connection broke, or was given up.
        """

    def unsent(self) -> int:
        """Return how many bytes were written and wait to be sent."""

    def abort(self, error: Exception | None = None) -> None:
        """End the connection at once, from any thread; never waits, may be called twice.

        Args:
            error: what whoever waits for it gets, and whoever uses it afterwards; or None.
        """

    def timings(self) -> Timings:
        """Return where the time went until the connection was there."""


class Connector(Protocol):
    """An engine that also opens connections for other protocols than HTTP."""

    async def connect(self, request: Request) -> ByteStream:
        """Open a connection of its own to a request's origin, and send nothing on it.

        The caller writes the head of the request on it and reads the response's, as bytes of
        HTTP/1.1. A stream that is dropped unclosed closes its connection in its finalizer.

        Args:
            request: complete; its transport, timeouts and deadline count.

        Raises:
            RequestException: the connection failed.
        """


def connector(engine: Engine) -> Connector:
    """Return an engine as one that opens connections.

    Raises:
        TypeError: it does not.
    """
    if not hasattr(engine, "connect"):
        raise TypeError(
            f"{type(engine).__name__} has no connect(): it opens no connection "
            "for another protocol, such as WebSocket"
        )
    return cast("Connector", engine)


def get_reader(incoming: Incoming, engine: Engine) -> Engine:
    """Return the engine that reads a response.

    What a stand-in for the network opened is read by it, even after its time.

    Args:
        incoming: the response.
        engine: was asked for it.
    """
    found: Engine = getattr(incoming, "engine", engine)
    return found


def validate_transport(transport: Engine, client: str) -> None:
    """Look whether an engine is for a kind of client; most are for both.

    Args:
        transport: the user's; one that is for one kind alone names it in `needs_client`.
        client: "Client" or "AsyncClient".

    Raises:
        TypeError: it is for the other kind, or no engine, such as a transport of httpx.
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
    """The time as the engine has it; real engines have the machine's, a scripted one its own.

    Attributes:
        now: gives monotonic seconds.
        wall: gives the time of day in seconds since the epoch.
        sleep: waits for seconds; to be awaited.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


class Exchange(Protocol):
    """The last step of the flow, which hands a request to the engine."""

    def __call__(self, request: Request, plan: HedgePlan | None = None, /) -> Awaitable[Response]:
        """Return what gives the response."""


MakeGate: TypeAlias = Callable[[], Gate]
Send: TypeAlias = Callable[[Request], Awaitable[Response]]
Layer: TypeAlias = Callable[[Send], Send]
Middleware: TypeAlias = Callable[[Request, Send], Awaitable[Response]]
