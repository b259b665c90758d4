"""What policies ask a store of that processes share, and in which words.

A store carries out one question at a time for each key, by a clock of its own. The policies put
the questions, the flow asks them: where a store has no answer, the process goes on with what it
knows by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from curlhttp._engine.engine import MakeWaiter

__all__ = ["Answer", "Connects", "Store", "StoreCommand", "StoreLease", "micros", "seconds"]

Answer: TypeAlias = "Sequence[int | bytes]"


class StoreCommand(NamedTuple):
    """One step of something shared, which a store takes as a whole.

    Attributes:
        kind: which step, such as "rate"; a store knows them by name.
        key: of what, with the settings that all who share it must have in common.
        arguments: of the step; times are whole microseconds.
        undo: gives what takes the step back, should its answer come to nobody; None for nothing.
    """

    kind: str
    key: str
    arguments: tuple[int | float | str, ...] = ()
    undo: Callable[[Answer], StoreCommand | None] | None = None


class StoreLease(Protocol):
    """What a store keeps for a process until that ends it, or dies."""

    def end(self) -> None:
        """Keep it no longer. Never waits; safe in finalizers."""


class Store(Protocol):
    """Keep what several processes share; for `store=` of limits, budgets and breakers.

    `curlhttp.redis.RedisStore` is one. The clock is the store's own. It says nothing of what it
    cannot do: an answer of None has the process go on by itself.
    """

    async def ask(self, question: StoreCommand, make_waiter: MakeWaiter) -> Answer | None:
        """Return the answer, or None when it is not to be had in time.

        Args:
            question: what to do.
            make_waiter: makes what the caller waits at, in its event loop or thread.

        Raises:
            StoreError: what is kept there is not what it should be, or the store is to be
                obeyed and gives no answer.
        """

    def tell(self, question: StoreCommand) -> None:
        """Have a step taken whose answer nobody waits for. Never waits; safe in finalizers."""

    def hold(self, question: StoreCommand, every: float) -> StoreLease:
        """Have a step taken again and again, until it is ended.

        Args:
            question: what to do.
            every: seconds from one time to the next.
        """

    def ask_here(self, question: StoreCommand) -> Answer | None:
        """Return the answer as ask does, and block for it, no longer than the store's timeout."""


@runtime_checkable
class Connects(Protocol):
    """A store that is told beforehand that there will be questions."""

    def connect(self) -> None:
        """Begin to connect, unless that was done; never waits."""


def micros(duration: float) -> int:
    """Return seconds as whole microseconds."""
    return round(duration * 1e6)


def seconds(microseconds: int | bytes) -> float:
    """Return microseconds of an answer as seconds."""
    return int(microseconds) / 1e6
