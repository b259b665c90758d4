"""The interface of a store that processes share, such as RedisStore.

A store executes one command at a time for each key, and uses its own clock. Policies create
commands, and the flow sends them. If the store does not answer, the process uses its own limits and
circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from curlhttp._http.errors import check_object

if TYPE_CHECKING:
    from curlhttp._runtime.engine import MakeWaiter

Answer: TypeAlias = "Sequence[int | bytes]"


class StoreCommand(NamedTuple):
    """A command that a store executes atomically.

    Attributes:
        kind: the name of the command, such as "rate".
        key: what it applies to, including the settings that all processes must have in common.
        arguments: of the command; times are whole microseconds.
        undo: returns the command that undoes this one, for an answer that nobody waits for any
            more; None if there is nothing to undo.
    """

    kind: str
    key: str
    arguments: tuple[int | float | str, ...] = ()
    undo: Callable[[Answer], StoreCommand | None] | None = None


class StoreLease(Protocol):
    """A command that a store repeats until the process ends it, or dies."""

    def end(self) -> None:
        """Stop. Never waits; safe in finalizers."""


class Store(Protocol):
    """Share limits, budgets and breakers between processes: the interface of `store=`.

    `curlhttp.redis.RedisStore` implements it. A store has its own clock. If it fails, it returns
    None, and the process uses its own limits, budgets and breakers.
    """

    async def ask(self, question: StoreCommand, make_waiter: MakeWaiter) -> Answer | None:
        """Execute a command; return its answer, or None if there is none in time.

        Args:
            question: the command.
            make_waiter: makes an object on which the caller waits, in its event loop or thread.

        Raises:
            StoreError: the store contains invalid data; or it does not answer, and is configured to
                raise then.
        """

    def tell(self, question: StoreCommand) -> None:
        """Execute a command without an answer. Never waits; safe in finalizers."""

    def hold(self, question: StoreCommand, every: float) -> StoreLease:
        """Execute a command repeatedly until the lease is ended.

        Args:
            question: the command.
            every: seconds between two executions.
        """

    def ask_here(self, question: StoreCommand) -> Answer | None:
        """Execute a command like ask(), but block, at most for the store's timeout."""


def check_store(store: object) -> None:
    """Check the value of `store=`.

    Raises:
        TypeError: it is neither a Store nor None, such as the URL of a server.
    """
    check_object("store", store, "ask_here", 'curlhttp.redis.RedisStore("redis://localhost")')


def connect(store: object) -> None:
    """Let a store begin to connect, if it can, so that the first request does not wait.

    Args:
        store: of a policy, or None.
    """
    begin = getattr(store, "connect", None)
    if begin is not None:
        begin()


def micros(duration: float) -> int:
    """Convert seconds to whole microseconds."""
    return round(duration * 1e6)


def seconds(microseconds: int | bytes) -> float:
    """Convert microseconds of an answer to seconds."""
    return int(microseconds) / 1e6
