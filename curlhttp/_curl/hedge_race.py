"""Run the attempts of a hedged request, and return the one that the plan accepts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from curlhttp._curl.driver import Driver
from curlhttp._curl.result import count_loser, get_head, get_status, raise_failure
from curlhttp._curl.transfer import Transfer
from curlhttp._engine.engine import AttemptResult, HedgePlan
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.timings import make_timings

_EARLY = 0.001  # seconds that a loop's timer may fire early; uvloop's clock counts milliseconds


class HedgeRace:
    """The attempts of one request that run at the same time.

    Args:
        plan: decides when to send another attempt, and which response is accepted.
        first: the first attempt, started.
        drop: called with an attempt to drop and one that continues.

    Attributes:
        running: the remaining attempts, oldest first; never empty.
    """

    __slots__ = ("_begun", "_drop", "_due", "_first", "_left", "_plan", "running")

    def __init__(
        self, plan: HedgePlan, first: Transfer, drop: Callable[[Transfer, Transfer], None]
    ) -> None:
        self._plan = plan
        self._first: Transfer | None = first  # None once it failed
        self._drop = drop
        self._begun = first.last_activity
        self._left = plan.most
        self._due: float | None = None
        self._set_due(first.last_activity)
        self.running = [first]

    def _set_due(self, now: float) -> None:
        after = self._plan.after
        self._due = None if after is None or not self._left else now + after

    async def run(
        self,
        wait: Callable[[float | None], Awaitable[None]],
        join: Callable[[], Awaitable[None]],
    ) -> Transfer:
        """Return the winning attempt, and drop all others.

        Args:
            wait: waits until a running attempt has made progress, or for so many seconds.
            join: sends one more attempt, see `add`, or calls `stop`.
        """
        while (winner := self.winner()) is None:
            await wait(self._wait_seconds())
            # Checked again, because the wait may have ended for an attempt that made progress.
            if self._is_due():
                await join()
        self._finish(winner)
        return winner

    def _wait_seconds(self) -> float | None:
        """Return how long until the next attempt is due, None if there will be none."""
        return None if self._due is None else max(0.0, self._due - monotonic())

    def _is_due(self) -> bool:
        """Return whether it is time for one more attempt."""
        if self._due is None or monotonic() < self._due - _EARLY:
            return False
        # A slow body is no reason for another attempt.
        if any(get_status(transfer) for transfer in self.running):
            self._due = None
        return self._due is not None

    @property
    def request(self) -> ClientRequest:
        """Return the request of an attempt that runs."""
        request = self.running[0].request
        assert request is not None
        return request

    async def next(self) -> ClientRequest | None:
        """Return the request of the attempt that is due, None to send no more."""
        request = await self._plan.again()
        # After one refusal there are no more attempts, because no attempt waits for permission.
        self._left = 0 if request is None else self._left - 1
        self._set_due(monotonic())
        return request

    def add(self, rival: Transfer, driver: Driver) -> None:
        """Add one more attempt, which was started.

        Args:
            rival: the attempt.
            driver: runs it.
        """
        self.running.append(rival)
        # If no attempt was sent yet, their connection is slow, and the rival must not wait for it.
        if rival.handle.multiplexes and not any(transfer.sends for transfer in self.running):
            driver.use_own_connection(rival)

    def stop(self) -> None:
        """Start no further attempts."""
        self._due = None

    def winner(self) -> Transfer | None:
        """Return the winner once there is one: the first accepted attempt, or the last one."""
        # A copy, because dropped attempts leave the list.
        for transfer in tuple(self.running):
            if not _has_ended(transfer):
                continue
            if len(self.running) == 1 or self._is_good(transfer):
                return transfer
            self._drop_failed(transfer)
        return None

    def _finish(self, winner: Transfer) -> None:
        """Drop all attempts but the winner."""
        # Only the first attempt is a fair sample, because the others run when it was slow.
        assert winner.request is not None
        self._plan.won(winner.request)
        first = self._first
        if first is not None and get_status(first):
            self._plan.timed(make_timings(first.timings()).first_byte)
        elif first is not None and first is not winner:
            self._plan.timed(monotonic() - self._begun)
        for transfer in tuple(self.running):
            if transfer is winner:
                continue
            if _has_ended(transfer) and not self._is_good(transfer):
                self._drop_failed(transfer)  # at the same time as the winner
            else:
                self._drop_attempt(transfer, None)

    def abandon(self) -> Transfer:
        """Drop all attempts but one, and return that."""
        # The caller drops the last one, which inherits what the attempts share.
        last = self.running[-1]
        for transfer in self.running[:-1]:
            self._drop_attempt(transfer, None)
        return last

    def _is_good(self, transfer: Transfer) -> bool:
        failed = transfer.failed
        if failed is not None:
            return not isinstance(failed, Exception)  # Ctrl-C ends everything
        if transfer.code and not transfer.is_cut_short:
            return False
        status = get_status(transfer)
        return status > 0 and self._plan.is_good(status)

    def _drop_failed(self, transfer: Transfer) -> None:
        result = _outcome(transfer)
        count_loser(transfer, result)
        self._drop_attempt(transfer, result)

    def _drop_attempt(self, transfer: Transfer, result: AttemptResult) -> None:
        self.running.remove(transfer)
        if transfer is self._first:
            self._first = None
        # This comes first, because a dropped transfer has no timings any more.
        assert transfer.request is not None
        total = make_timings(transfer.timings()).total
        self._plan.dropped(transfer.request, result, total, transfer.was_sent)
        self._drop(transfer, self.running[0])


def _has_ended(transfer: Transfer) -> bool:
    request = transfer.request
    assert request is not None
    # The head decides a race of streams, because a body may take hours.
    return transfer.done or (request.stream and transfer.head is not None)


def _outcome(transfer: Transfer) -> Response | Exception:
    assert transfer.request is not None
    try:
        raise_failure(transfer)
        return Response(transfer.request, get_head(transfer), b"", transfer.timings())
    # Ctrl-C is not an outcome of an attempt; it is raised in the caller.
    except Exception as error:
        return error
