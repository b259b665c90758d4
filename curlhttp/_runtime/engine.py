"""Protocols between the flow, which orders the layers, and the engines, which move bytes.

The code above the engines is written once, as coroutines that suspend only in an engine's methods.
The methods of the blocking engine never suspend, so `run_sync` can run the same coroutines.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from curlhttp._http.fork import register
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.request import KEEP_CODED, ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.outcomes import Outcomes, Pending
from curlhttp._runtime.race import Race, is_beaten
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._http.response import Head
    from curlhttp._http.timings import CurlTimings, Timings

    T = TypeVar("T", bound="Response | Incoming")  # not at run time, where typing compiles it

MAX_DRAINED = 64 * 1024  # bytes of an unwanted body that are read to keep its connection


class Incoming(Protocol):
    """A response whose head has arrived, and whose body is still on the wire."""

    @property
    def head(self) -> Head | None:
        """Return the head; None until it has arrived."""

    @property
    def done(self) -> bool:
        """Return whether everything has arrived, so that reads do not wait."""

    def timings(self) -> Timings | CurlTimings:
        """Return where the time went so far."""

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM; None without TLS.

        It may also be None if the connection was reused.
        """

    def read(self) -> Awaitable[bytes]:
        """Return the next piece of the body as received, b"" at the end.

        Raises:
            RequestException: the body was incomplete, and this response is aborted.
        """

    def abort(self) -> object:
        """Abandon the rest of the body. Never blocks."""

    def abort_from_finalizer(self) -> object:
        """Abandon the rest of the body from a finalizer, which may run in any thread."""


class ReceivedWhole:
    """An Incoming that was received whole, because it is small; see IF_LARGE.

    Args:
        response: has the body in memory. Whoever takes it need not read.
    """

    __slots__ = ("_is_read", "response")

    done = True

    def __init__(self, response: Response) -> None:
        self.response = response
        self._is_read = False

    @property
    def head(self) -> Head:
        return self.response._head

    def timings(self) -> Timings:
        return self.response.timings

    def certificate(self) -> None:
        """Return None, because the connection may serve another request by now."""

    async def read(self) -> bytes:
        if self._is_read:
            return b""
        self._is_read = True
        return self.response.content

    def abort(self) -> None:
        self._is_read = True

    abort_from_finalizer = abort


class Waiter(Protocol):
    """Let one caller wait until another one wakes it."""

    def wake(self) -> object:
        """Wake the caller. Never blocks, and may be called twice.

        Returns:
            False if the event loop of the caller has ended.
        """

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        """Return an awaitable that completes after `wake`, or after so many seconds."""


class Engine(Protocol):
    """Move the bytes of one request at a time."""

    async def perform(self, request: ClientRequest) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.

        Raises:
            RequestException: no response was received.
        """

    async def open(self, request: ClientRequest) -> Incoming:
        """Send the request and return once the head of the response has arrived.

        Args:
            request: complete.

        Raises:
            RequestException: no response was received.
        """

    @property
    def runtime(self) -> Runtime:
        """Return the time, and waits, of whoever calls this engine."""

    def close(self) -> None:
        """Close all connections."""


class ByteStream(Protocol):
    """A connection on which both sides may send bytes at any time.

    One caller at a time may receive. Any caller may write; in a blocking client, several threads
    may write. Cancelling a wait loses no bytes.
    """

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, or None if none arrived in time.

        Args:
            seconds: how long to wait; None for no limit.

        Raises:
            RequestException: the connection broke, or was closed.
        """

    def receive_now(self) -> bytes | None:
        """Return what `receive` would return, or None if it would have to wait."""

    def write(self, data: bytes) -> bool:
        """Queue bytes, and send as many as possible without blocking.

        Returns:
            Whether some of them, or earlier ones, are not sent yet.

        Raises:
            RequestException: the connection broke, or was closed.
        """

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until everything written is sent; return False if time ran out.

        Args:
            seconds: how long to wait; None for no limit.

        Raises:
            RequestException: the connection broke, or was closed.
        """

    def unsent(self) -> int:
        """Return how many written bytes are not sent yet."""

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection at once, from any thread. Never blocks, and may be called twice.

        Args:
            error: raised in callers that wait for the connection or use it later; or None.
        """

    def timings(self) -> Timings:
        """Return where the time went until the connection was established."""


class Connector(Protocol):
    """An engine that also opens connections for protocols other than HTTP."""

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Open a separate connection to a request's origin, and send nothing on it.

        The caller writes the head of the request and reads the head of the response, as bytes of
        HTTP/1.1. The stream's finalizer closes the connection if the caller does not.

        Args:
            request: complete; its route, timeouts and deadline apply.

        Raises:
            RequestException: the connection failed.
        """


def to_connector(engine: Engine) -> Connector:
    """Return an engine as a Connector.

    Raises:
        TypeError: it has no connect().
    """
    if not hasattr(engine, "connect"):
        raise TypeError(
            f"{type(engine).__name__} has no connect(), so it cannot open connections for other "
            "protocols, such as WebSocket"
        )
    return cast("Connector", engine)


class Runtime(NamedTuple):
    """The time, and waits, of a kind of client: of threads, or of the tasks of event loops.

    Attributes:
        now: returns monotonic seconds; a scripted runtime simulates them.
        wall: returns the time of day in seconds since the epoch.
        sleep: a coroutine function that waits for so many seconds.
        make_waiter: returns a new waiter for the caller, which any thread may wake.
        make_race: returns a new race for the caller.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    make_waiter: Callable[[], Waiter]
    make_race: Callable[[], Race]


MakeRace: TypeAlias = Callable[[], Race]
MakeWaiter: TypeAlias = Callable[[], Waiter]
Send: TypeAlias = Callable[[ClientRequest], Awaitable[Response]]
Layer: TypeAlias = Callable[[Send], Send]
Middleware: TypeAlias = Callable[[ClientRequest, Send], Awaitable[Response]]


# --- What an engine tells of itself, and what a client counts, for statistics ---
#
# Most counts are made where something rare happens. Attempts and bytes are counted by each
# transfer, which one thread uses at a time. Its counts move to the totals in one step, before its
# pool forgets it, so that no reader misses them: counters of Prometheus must not fall.

COUNTED = (
    "attempts",
    "retries",
    "hedges",
    "fallbacks",
    "bytes_sent",
    "bytes_received",
    "cache_hits",
    "cache_misses",
)


class Counted(Protocol):
    """What counts its own attempts and bytes."""

    attempts: int
    bytes_sent: int
    bytes_received: int


class Totals:
    """Counts by name, and the outcomes by origin; any thread may add to them.

    Attributes:
        outcomes: how attempts end.
        pending: those of its attempts that are not added up yet.
        lock: for changes of what belongs to the client, too; the child of a fork has a new one.
    """

    __slots__ = ("__weakref__", "_counts", "lock", "outcomes", "pending")

    def __init__(self) -> None:
        self.outcomes: Outcomes = Outcomes()
        self.pending: Pending = self.outcomes.pending
        self._clear()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Start at zero, because the parent counts what it does itself."""
        self._clear()
        self.outcomes.clear()

    def _clear(self) -> None:
        # Reentrant, because a finalizer may close a transfer while its thread adds something.
        self.lock: threading.RLock = threading.RLock()
        self._counts = dict.fromkeys(COUNTED, 0)

    def add(self, name: str, number: int = 1) -> None:
        """Add to a count.

        Args:
            name: one of COUNTED.
            number: to add.
        """
        with self.lock:
            self._counts[name] += number

    def take(self, counted: Counted) -> None:
        """Move the counts of a transfer here.

        Args:
            counted: starts again at zero.
        """
        with self.lock:
            self._add_all(self._counts, counted)
            counted.attempts = counted.bytes_sent = counted.bytes_received = 0

    def read(self, find: Callable[[], Iterable[Counted]]) -> dict[str, int]:
        """Return a copy of all counts, with those that were not moved here yet.

        Args:
            find: returns the transfers that have them.
        """
        with self.lock:
            counts = dict(self._counts)
            for each in find():
                self._add_all(counts, each)
            return counts

    @staticmethod
    def _add_all(counts: dict[str, int], counted: Counted) -> None:
        counts["attempts"] += counted.attempts
        counts["bytes_sent"] += counted.bytes_sent
        counts["bytes_received"] += counted.bytes_received


class EngineState(NamedTuple):
    """What an engine tells of itself.

    Attributes:
        connections: numbers of open connections by origin, protocol and whether they are active.
        waits: seconds that each waiting request has waited.
    """

    connections: Counter[tuple[str, str, bool]]
    waits: list[float]


class ReportingEngine(Protocol):
    """An engine that reports to statistics; any thread may call it."""

    totals: Totals

    def transfers(self) -> Iterable[Counted]: ...
    def tell_state(self) -> EngineState: ...


async def count_outcome(
    send: Callable[[ClientRequest], Awaitable[T]], request: ClientRequest, totals: Totals
) -> T:
    """Send a request without libcurl, and count the attempt and its outcome.

    Args:
        send: returns a Response or an Incoming.
        request: complete.
        totals: of the client.
    """
    totals.add("attempts")
    outcomes, origin = totals.outcomes, request.url.origin
    try:
        result: T = await send(request)
    except BaseException as error:
        if is_beaten(request, error):
            raise
        times = getattr(error, "timings", None)
        outcomes.add_failure(origin, error, "server", times)
        raise
    found: Response | Incoming = result
    if isinstance(found, Response):
        outcomes.add_response(origin, found.status_code, found.timings)
    elif found.head is not None:
        outcomes.add_response(origin, found.head.status_code, found.timings())
    return result


def decode_body(response: Response, request: ClientRequest) -> None:
    """Decode the body of a response that is in memory.

    Raises:
        RequestException: it is corrupt, or decodes to more than max_response_size.
    """
    if "\ncontent-encoding" not in response._head.lower:  # usual, and seen without parsing
        return
    # Nobody reads the body of a redirect, so a broken coding must not be an error.
    if request.follow_redirects and response._head.redirects:
        return
    assert response._content is not None
    if request.decode == KEEP_CODED:
        response._coded = response._content
    try:
        limit = request.max_response_size
        response._content = response._decode(response._content, limit)
    except RequestException as error:
        error.request, error.response = request, response
        error.request_sent, error.timings = True, response.timings
        raise
