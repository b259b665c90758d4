"""The transfers of an engine whose transfers share their connections, so that any is as good."""

from __future__ import annotations

from collections.abc import Callable

from curlhttp._curl.slots import Slots
from curlhttp._curl.transfer import Transfer

__all__ = ["TransferPool"]


class TransferPool:
    """Keep the transfers of one event loop, or of one thread.

    Args:
        make: makes a transfer.
        slots: one of them is taken by whoever uses a transfer.

    Attributes:
        slots: how many transfers may be in use.
        all: every transfer, in use or idle.
        idle: the last used at the end.
    """

    __slots__ = ("_make", "all", "idle", "slots")

    def __init__(self, make: Callable[[], Transfer], slots: Slots) -> None:
        self._make = make
        self.slots = slots
        self.all: set[Transfer] = set()
        self.idle: list[Transfer] = []

    def make(self) -> Transfer:
        """Return a new transfer; the caller holds a slot."""
        transfer = self._make()
        self.all.add(transfer)
        return transfer

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer for good."""
        self.all.discard(transfer)
        transfer.close()

    def close(self) -> None:
        """Close the idle transfers."""
        while self.idle:
            self.drop(self.idle.pop())
