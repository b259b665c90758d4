"""How many retries an origin may get: a share of the requests that it gets anyway.

A server that fails wholly would else see each request as many times as the policy allows, just
when it has no room for them. Pure: the time comes in as an argument.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

from curlhttp._models.fork import register
from curlhttp._policy.store import Answer, Store, StoreCommand, micros

__all__ = ["RetryBudget"]

_SLICES = 10  # a window moves on in steps of a tenth of it
_ROUNDING = 1e-9  # five deposits of 0.2 are a little less than one


class RetryBudget:
    """Allow retries in proportion to requests, for each origin by itself; thread-safe.

    Each first attempt deposits `ratio`, each retry takes one. Deposits and withdrawals are
    forgotten after `window` seconds. Share one budget among clients to bound them together.

    Args:
        ratio: retries per request.
        reserve: retries per second that are always allowed, for clients with little to do; those
            of a whole window may go at once.
        window: seconds that a deposit is good for.
        max_origins: budgets that are kept; the one unused for longest is forgotten first, to a
            tenth of the window.
        store: what all processes of the same settings share it by, or None for this process
            alone. Deposits come there with the next retry, or a tenth of the window later.

    Raises:
        ValueError: a number is negative or not finite, the window is nothing, or max_origins is
            below one.

    Source: Finagle's RetryBudget.
    """

    def __init__(
        self,
        ratio: float = 0.2,
        reserve: float = 10.0,
        window: float = 10.0,
        max_origins: int = 1000,
        *,
        store: Store | None = None,
    ) -> None:
        for name, value in (("ratio", ratio), ("reserve", reserve), ("window", window)):
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must not be negative, as {value!r} is")
        if window == 0 or max_origins < 1:
            raise ValueError("window must be above zero, and max_origins at least 1")
        self.ratio = ratio
        self.reserve = reserve
        self.window = window
        self.max_origins = max_origins
        self.store = store
        self._clear()
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget what the parent counted, whose lock may be held by a thread of its own."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._unpaid: dict[str, tuple[int, float]] = {}  # at no store yet, and since when

    def deposit(self, origin: str, now: float) -> None:
        """Count a first attempt.

        Args:
            origin: whom it goes to.
            now: monotonic seconds.
        """
        account = self._accounts.get(origin)
        if account is None or now >= account.until:
            with self._lock:
                account = self._account(origin)
                account.move_to(now)
        # Without the lock, since every request comes by here. Where threads may lose one to each
        # other there is a retry less, never one more.
        account.deposits += 1
        if self.store is not None:
            self._pay_later(self.store, origin, now)

    def withdraw(self, origin: str, now: float) -> bool:
        """Take what one retry costs, and return whether there was enough.

        Args:
            origin: whom it would go to.
            now: monotonic seconds.
        """
        with self._lock:
            account = self._account(origin)
            if account.sum(now) + self.reserve * self.window < 1 - _ROUNDING:
                return False
            account.add(-1.0, now)
            return True

    def refund(self, origin: str, now: float) -> None:
        """Give back what a retry took that was not sent, such as one that a breaker refused.

        Args:
            origin: whom it would have gone to.
            now: monotonic seconds.
        """
        with self._lock:
            self._account(origin).add(1.0, now)

    def balance(self, origin: str, now: float) -> float:
        """Return how many retries the origin may get at once now.

        Args:
            origin: whom they would go to.
            now: monotonic seconds.
        """
        if self.store is not None:
            answer = self.store.ask_here(self._asking(origin, 0))
            if answer is not None:
                return float(answer[1])
        with self._lock:
            account = self._accounts.get(origin)
            earned = 0.0 if account is None else account.sum(now)
            return earned + self.reserve * self.window

    # what processes share

    def withdrawing(self, origin: str) -> StoreCommand:
        """Return what takes the cost of one retry at a store, whose answer is whether it could.

        Args:
            origin: whom it would go to.
        """

        def undo(answer: Answer) -> StoreCommand | None:
            return self.refunding(origin) if answer[0] else None

        return self._asking(origin, 1)._replace(undo=undo)

    def refunding(self, origin: str) -> StoreCommand:
        """Return what gives that back."""
        return self._asking(origin, -1)

    def _pay_later(self, store: Store, origin: str, now: float) -> None:
        with self._lock:
            count, since = self._unpaid.get(origin, (0, now))
            self._unpaid[origin] = count + 1, since
            due = [origin] if now - since >= self.window / _SLICES else []
            if len(self._unpaid) > self.max_origins:
                due = list(self._unpaid)
        for each in due:
            store.tell(self._asking(each, 0))

    def _asking(self, origin: str, cost: int) -> StoreCommand:
        with self._lock:
            count, _ = self._unpaid.pop(origin, (0, 0.0))
        tenth = micros(self.window / _SLICES)
        numbers = (tenth, count * self.ratio, self.reserve * self.window, cost)
        settings = f"{self.ratio:g}/{self.reserve:g}/{self.window:g}"
        return StoreCommand("budget", f"{settings}:{origin}", numbers)

    def _account(self, origin: str) -> _Account:
        accounts = self._accounts
        account = accounts.get(origin)
        if account is None:
            account = accounts[origin] = _Account(self.window / _SLICES, self.ratio)
            if len(accounts) > self.max_origins:
                accounts.popitem(last=False)
        else:
            accounts.move_to_end(origin)
        return account

    def __repr__(self) -> str:
        return f"RetryBudget(ratio={self.ratio}, reserve={self.reserve}, window={self.window})"


class _Account:
    """The deposits less the withdrawals of one origin, by slices of the window.

    Attributes:
        deposits: how many there were in the slice that is filled now.
        until: when that slice ends.
    """

    __slots__ = ("_latest", "_ratio", "_slice", "_sums", "deposits", "until")

    def __init__(self, slice_seconds: float, ratio: float) -> None:
        self._slice = slice_seconds
        self._ratio = ratio
        self._latest = 0  # the number of the slice that is filled now
        self._sums = [0.0] * _SLICES
        self.deposits = 0
        self.until = -math.inf

    def add(self, amount: float, now: float) -> None:
        self.move_to(now)
        self._sums[self._latest % _SLICES] += amount

    def sum(self, now: float) -> float:
        self.move_to(now)
        return math.fsum(self._sums) + self._ratio * self.deposits

    def move_to(self, now: float) -> None:
        # Threads may come with times in another order than theirs: the newest counts.
        if now < self.until:
            return
        self._sums[self._latest % _SLICES] += self._ratio * self.deposits
        self.deposits = 0
        latest = int(now // self._slice)
        for step in range(1, min(latest - self._latest, _SLICES) + 1):
            self._sums[(self._latest + step) % _SLICES] = 0.0
        self._latest = latest
        self.until = (latest + 1) * self._slice
