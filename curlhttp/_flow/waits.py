"""Count what requests wait for before they are sent, and note it in the requests."""

from __future__ import annotations

from collections.abc import Callable

from curlhttp._engine.network import report_refusal
from curlhttp._engine.outcomes import Outcomes
from curlhttp._engine.race import AttemptRefused
from curlhttp._models.request import ClientRequest
from curlhttp._models.timings import note_wait
from curlhttp.exceptions import RequestException


class Waits:
    """Count the waits of a client's requests.

    Args:
        now: returns monotonic seconds.
        outcomes: of the client.
    """

    def __init__(self, now: Callable[[], float], outcomes: Outcomes) -> None:
        self.now = now
        self._outcomes = outcomes

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
