"""Attempts of one request that run at the same time: what engines and layers know of each.

A layer that races attempts marks the request of each one. The layers and engines below it read the
mark, and treat the attempt as any other one otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

from curlhttp.exceptions import CircuitBreakerOpen, RequestException, StoreError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Unpack

    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response

A = TypeVar("A")

_KEY = "curlhttp.race"

ExcInfo: TypeAlias = "tuple[type[BaseException] | None, BaseException | None, TracebackType | None]"

Result: TypeAlias = 'Literal["alone", "won", "lost"]'


class Race(Protocol):
    """Run coroutines of one caller at the same time: tasks of a loop, or stepped in a thread.

    Leaving its `async with` cancels those that have not ended, and waits until they have.
    """

    async def __aenter__(self) -> object: ...

    async def __aexit__(self, *exc: Unpack[ExcInfo]) -> bool | None: ...

    def start(self, call: Callable[[A], Awaitable[None]], argument: A) -> None:
        """Start a coroutine, which raises nothing but its cancellation.

        Args:
            call: makes the coroutine.
            argument: of the call.
        """

    async def wait(self, seconds: float | None) -> None:
        """Wait until `wake` is called, or for so many seconds; continue the coroutines meanwhile.

        Args:
            seconds: None for no limit.
        """

    def wake(self) -> None:
        """End the wait of the caller, or the next one. Only coroutines of this race call it."""


class AttemptRefused(RequestException):
    """Raised where an extra attempt would have to wait for permission. It was not sent."""


class RacingAttempt:
    """One of the attempts of a request.

    Args:
        race: runs the attempts.
        is_extra: the first attempt of the request is under way, so this one never waits for
            permission: it is refused instead.

    Attributes:
        race: see above; None once the attempt has ended or the race is decided.
        is_extra: see above.
        begun: when it was admitted, in monotonic seconds; None before.
        head_at: when the head of its response arrived, or None.
        response: its response, or None.
        error: what it raised, or None.
        is_done: it has ended.
    """

    __slots__ = (
        "_listeners",
        "begun",
        "error",
        "head_at",
        "is_done",
        "is_extra",
        "race",
        "response",
        "result",
    )

    def __init__(self, race: Race, *, is_extra: bool) -> None:
        self.race: Race | None = race
        self.is_extra = is_extra
        self.begun: float | None = None
        self.head_at: float | None = None
        self.response: Response | None = None
        self.error: BaseException | None = None
        self.is_done = False
        self.result: Result | None = None
        self._listeners: list[Callable[[Result], object]] = []

    def begin(self, now: float | None) -> None:
        """Note that it was admitted at a time, or that it waits again (None)."""
        self.begun = now
        if self.race is not None:
            self.race.wake()

    def decide(self, result: Result) -> None:
        """Note how the race ended for this attempt."""
        self.result = result
        self.race = None
        listeners, self._listeners = self._listeners, []
        for notify in listeners:
            notify(result)

    def when_decided(self, notify: Callable[[Result], object]) -> None:
        """Call a function with the result, now or later; never if all attempts are cancelled."""
        if self.result is None:
            self._listeners.append(notify)
        else:
            notify(self.result)


def mark(request: ClientRequest, attempt: RacingAttempt) -> ClientRequest:
    """Return a copy of a request that belongs to an attempt."""
    made = request.copy()
    made._extend(_KEY, attempt)
    return made


def unmark(request: ClientRequest) -> None:
    """Remove the mark."""
    if request.extensions is not None and request.extensions.pop(_KEY, None) is not None:
        request.extensions = request.extensions or None


def get_attempt(request: ClientRequest) -> RacingAttempt | None:
    """Return the attempt that a request belongs to, None if it does not race."""
    extensions = request.extensions
    return None if extensions is None else extensions.get(_KEY)


def is_extra(request: ClientRequest) -> bool:
    """Return whether a request is an extra attempt, which must not wait for permission."""
    attempt = get_attempt(request)
    return attempt is not None and attempt.is_extra


def refuse_to_wait(request: ClientRequest, reason: str) -> None:
    """Do nothing, unless the request is an extra attempt.

    Args:
        request: that would have to wait now.
        reason: for what.

    Raises:
        AttemptRefused: it is an extra attempt.
    """
    if is_extra(request):
        raise AttemptRefused(
            f"{request}: an extra attempt does not wait for {reason}; it was not sent",
            request=request,
        )


def is_refusal(error: BaseException | None) -> bool:
    """Return whether an extra attempt was not sent, because something did not admit it at once."""
    return isinstance(error, (AttemptRefused, CircuitBreakerOpen, StoreError))


def is_beaten(request: ClientRequest, error: BaseException) -> bool:
    """Return whether an attempt was cancelled because another one has won.

    Args:
        request: of the attempt.
        error: that ended it.
    """
    if isinstance(error, Exception):
        return isinstance(error, AttemptRefused)
    attempt = get_attempt(request)
    return attempt is not None and attempt.result == "lost"
