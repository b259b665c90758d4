"""What requests wait for before they are sent: count it, and let others be sent meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from curlhttp._http.request import ClientRequest
from curlhttp._http.timings import note_wait
from curlhttp._runtime.network import report_refusal
from curlhttp._runtime.outcomes import Outcomes
from curlhttp._runtime.race import AttemptRefused
from curlhttp.exceptions import RequestException


@contextmanager
def leave_place(request: ClientRequest, origin: str | None) -> Iterator[None]:
    """Let a map send other requests in place of one that waits in this `with` block.

    Args:
        request: that waits.
        origin: what it waits for, as all requests to this origin would; "" if requests to all
            origins would, so that there are none to send; None for a wait of this request alone.
    """
    place = request.place
    if place is None or origin == "":
        yield
        return
    place.leave(origin)
    try:
        yield
    finally:
        place.come_back()


class Waits:
    """Count the waits of a client's requests.

    Args:
        now: returns monotonic seconds.
        outcomes: of the client.
    """

    def __init__(self, now: Callable[[], float], outcomes: Outcomes) -> None:
        self.now = now
        self._outcomes = outcomes

    @contextmanager
    def watch(self, request: ClientRequest, reason: str) -> Iterator[float]:
        """Yield when the wait in this `with` block began; count it only if it fails."""
        begun = self.now()
        try:
            yield begun
        except BaseException as error:
            self.fail(request, reason, begun, error)
            raise

    def end(self, request: ClientRequest, reason: str, begun: float) -> ClientRequest:
        """Return a request that has waited, with the time that it took."""
        return note_wait(request, reason, self.count(request, reason, begun))

    def count(self, request: ClientRequest, reason: str, begun: float) -> float:
        """Count a wait, and return its seconds."""
        seconds = self.now() - begun
        self._outcomes.add_wait(request.url.origin, reason, seconds)
        return seconds

    def fail(self, request: ClientRequest, reason: str, begun: float, error: BaseException) -> None:
        """Count a wait that ended without a permission, and so an attempt that was not made."""
        # In a finalizer, or an extra attempt that nobody misses.
        if isinstance(error, (GeneratorExit, AttemptRefused)):
            return
        seconds = self.count(request, reason, begun)
        self._outcomes.add_failure(request.url.origin, error, reason, None)
        if isinstance(error, RequestException):
            error._waited = reason, seconds
            report_refusal(self._outcomes, request, error)
