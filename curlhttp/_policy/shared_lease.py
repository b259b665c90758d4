"""A place among the requests at once of all processes, which ends when its holder dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curlhttp._policy.store import Answer, Held, Question, Store, micros

if TYPE_CHECKING:
    from curlhttp._policy.concurrency import ConcurrencyLimit

__all__ = ["SharedLease", "pause"]

_LASTS = 5.0  # seconds for which a place is held without being renewed
_RENEWED = 1.5  # seconds from one time to the next
_IN_LINE = 2.0  # seconds for which a place in the line is kept without being asked for
_SOONEST, _LATEST = 0.005, 0.25  # seconds until it is asked for again
_PART = 8  # of the time that the line stood still: what the next wait may add to it


def pause(before: int, stood: float) -> float:
    """Return the seconds after which to ask again: later the more stand before, or the longer.

    Args:
        before: how many stand before.
        stood: seconds for which the line has not moved.
    """
    return min(_LATEST, max(_SOONEST * (1 + before), stood / _PART))


class SharedLease:
    """One request's place at a store.

    Args:
        limit: whose place it is.
        store: where it is.
        origin: whom the request goes to.
    """

    __slots__ = ("_held", "_is_given", "_key", "_limit", "_name", "_store")

    def __init__(self, limit: ConcurrencyLimit, store: Store, origin: str) -> None:
        self._limit = limit
        self._store = store
        self._key, self._name = limit.shared_place(origin)
        self._held: Held | None = None
        self._is_given = False

    def taking(self, *, joins: bool) -> Question:
        """Return what asks for it.

        Args:
            joins: it stands in line, if there is no place now.
        """

        def undo(answer: Answer) -> Question:
            return self._question("leave")

        return self._question("take", int(joins))._replace(undo=undo)

    def start(self) -> None:
        """Keep it from now on, since it was granted."""
        self._held = self._store.hold(self._question("keep"), _RENEWED)

    def give(self) -> None:
        """Give it back, or leave the line; a second time is nothing. Safe in finalizers."""
        if not self._is_given:
            self._is_given = True
            if not self._limit.is_own(self._name):
                return  # a forked child's copy: the place is the parent's
            if self._held is not None:
                self._held.end()
            self._store.tell(self._question("leave"))

    def end(self, error: BaseException | None) -> None:
        """Give it back at the end of a body."""
        self.give()

    def __del__(self) -> None:
        self.give()  # the request that had it ended without giving it back

    def _question(self, step: str, joins: int = 0) -> Question:
        times = (micros(_LASTS), micros(_IN_LINE))
        return Question("lease", self._key, (step, self._name, self._limit.limit, *times, joins))
