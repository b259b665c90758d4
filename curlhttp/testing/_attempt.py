"""What becomes of the attempts on a script: how long each takes, how it ends, which one wins.

Computed ahead, since nothing but the script has a say; the engine moves its clock accordingly.
"""

from __future__ import annotations

import copy
import math

from curlhttp._engine.engine import AttemptResult, Engine, HedgePlan
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response, has_body
from curlhttp._models.timings import Timings
from curlhttp.exceptions import DeadlineExceeded, ReadTimeout, RequestException, WriteTimeout
from curlhttp.testing._script import Answer, Fault

__all__ = ["Attempted", "ScriptedIncoming", "ScriptedRace", "copy_of", "limited"]


class Attempted:
    """One attempt, up to its head.

    Attributes:
        request: what was asked for.
        step: the step of the script.
        begun: when, on the engine's clock.
        ends: when its head is in, or it fails.
        error: what it fails with, or None.
        over: when a race counts it as ended: with its body, if that is not streamed.
        broken: what its body fails with, or None.
    """

    def __init__(self, request: Request, step: Answer | Fault, begun: float) -> None:
        self.request = request
        self.step = step
        self.begun = begun
        if isinstance(step, Answer):
            seconds, self.error = limited(request, step.delay, begun)
        else:
            delay, was_sent = step.delay, step.error.request_sent
            sends = isinstance(step.error, WriteTimeout) and math.isinf(delay)
            if sends:
                delay = (request.body and request.timeout.write) or math.inf
            elif math.isinf(delay):
                delay = request.timeout.connect or math.inf
            # As long as the write timeout counts, the read timeout does not.
            waits = was_sent and not (sends and delay < math.inf)
            seconds, late = limited(
                request, delay, begun, was_sent=was_sent, waits_for_answer=waits
            )
            self.error = late or copy_of(step.error, request)
        self.ends = self.over = begun + seconds
        self.broken: RequestException | None = None
        if isinstance(step, Answer) and self.error is None and not request.stream:
            self._read(step)

    def _read(self, answer: Answer) -> None:
        self.broken = answer.error
        for _ in _pieces(self.request, answer):
            seconds, late = limited(self.request, answer.pace, self.over)
            self.over += seconds
            if late is not None:
                self.broken = late
                return

    @property
    def outcome(self) -> Response | RequestException:
        """Return its response without the body, or its error."""
        failed = self.error or self.broken
        if failed is not None:
            return failed
        assert isinstance(self.step, Answer)
        answer = self.step
        return Response.of(self.request, answer.status_code, headers=answer.all_headers)

    def take_error(self) -> RequestException:
        """Return the error to raise, and forget it: its traceback will hold this attempt."""
        error, self.error = self.error, None
        assert error is not None
        return error


def limited(
    request: Request,
    seconds: float,
    now: float,
    *,
    was_sent: bool = True,
    waits_for_answer: bool = True,
) -> tuple[float, RequestException | None]:
    """Return how much of a delay its timeouts leave, and what they end it with.

    Args:
        request: whose timeouts.
        seconds: the delay.
        now: when it begins.
        was_sent: what the error says of the request.
        waits_for_answer: the read timeout counts.

    Raises:
        AssertionError: it would never end.
    """
    read = request.timeout.read if waits_for_answer else None
    silence = math.inf if read is None else read
    left = math.inf if request.deadline is None else max(0.0, request.deadline - now)
    limit = min(silence, left)
    if seconds <= limit and not math.isinf(seconds):
        return seconds, None
    if math.isinf(limit):
        raise AssertionError(f"{request} would wait for ever: no timeout")
    kind, what = (DeadlineExceeded, "total") if left <= silence else (ReadTimeout, "read timeout")
    return limit, kind(
        f"{request}: the {what} ran out",
        request=request,
        curl_code=28,
        request_sent=was_sent,
    )


def copy_of(error: RequestException, request: Request, was_sent: bool = False) -> RequestException:
    """Return an error for this attempt alone: it gets attributes and a traceback of its own."""
    twin = copy.copy(error)
    twin.request = request
    twin.request_sent = twin.request_sent or was_sent
    return twin


def _pieces(request: Request, answer: Answer) -> list[bytes]:
    return answer.pieces if has_body(request.method, answer.status_code) else []


class ScriptedIncoming:
    """A response on the wire, as far as there is one.

    Args:
        request: what was asked for.
        answer: the step of the script.
        seconds: what it took up to the head.
        engine: reads it.
    """

    def __init__(self, request: Request, answer: Answer, seconds: float, engine: Engine) -> None:
        made = Response.of(request, answer.status_code, headers=answer.all_headers)
        self.request = request
        self.engine = engine
        self.head: Head = made._head
        self.pieces: list[bytes] = _pieces(request, answer)
        self.error: RequestException | None = answer.error
        self.pace: float = answer.pace
        self.size = 0
        self.done = False  # reading may take time on the engine's clock
        self._seconds = seconds

    def timings(self) -> Timings:
        """Return the time to the head, as the engine's clock has it."""
        return Timings(0.0, 0.0, 0.0, 0.0, self._seconds, self._seconds, False, None)

    def certificate(self) -> None:
        """Return None: there was no TLS."""


class ScriptedRace:
    """The attempts of one hedged request.

    Args:
        first: the first attempt.
        plan: the hedge's, see _flow/hedge.py.
    """

    def __init__(self, first: Attempted, plan: HedgePlan) -> None:
        self._first = first
        self._plan = plan
        self._left = plan.most
        self._running = [first]
        self._latest = first.begun

    @property
    def winner(self) -> Attempted:
        """Return the attempt that surfaces."""
        return min(self._running, key=lambda attempt: attempt.over)

    def due(self) -> float | None:
        """Return when one more attempt is due, after those that end before; None for never."""
        after = self._plan.after
        while True:
            due = self._latest + after if self._left and after is not None else math.inf
            attempt = self.winner
            if due < attempt.over:
                if not any(each.error is None and each.ends <= due for each in self._running):
                    return due
                self._left = 0  # a slow body is no reason
                continue
            if len(self._running) == 1 or self._is_good(attempt):
                return None
            self._running.remove(attempt)
            self._drop(attempt, attempt.outcome, attempt.over)

    def add(self, attempt: Attempted | None) -> None:
        """Take in one more attempt, or hear that there shall be none."""
        if attempt is None:
            self._left = 0
            return
        self._left -= 1
        self._latest = attempt.begun
        self._running.append(attempt)

    def cancel_others(self) -> int:
        """Cancel what runs beside the winner, and return how many attempts that were."""
        first, winner = self._first, self.winner
        self._plan.surfaces(winner.request)
        if first in self._running and (first is not winner or first.error is None):
            self._plan.timed(min(first.ends, winner.over) - first.begun)
        others = [attempt for attempt in self._running if attempt is not winner]
        for attempt in others:
            self._drop(attempt, None, winner.over)
        return len(others)

    def _is_good(self, attempt: Attempted) -> bool:
        outcome = attempt.outcome
        return isinstance(outcome, Response) and self._plan.is_good(outcome.status_code)

    def _drop(self, attempt: Attempted, result: AttemptResult, now: float) -> None:
        was_sent = isinstance(attempt.step, Answer) or attempt.step.error.request_sent
        self._plan.dropped(attempt.request, result, now - attempt.begun, was_sent)
