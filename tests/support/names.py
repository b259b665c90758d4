"""What the system's resolver answers in a test, and which queries it leaves unanswered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable


class Names:
    """Stand for the function that asks the system; queries that hang end after `release`.

    Args:
        known: the addresses of each name, by address family.
        seconds: for which a query that hangs waits at most.

    Attributes:
        asked: the names and families that were asked for, in their order.
        hangs: whether a query hangs.
    """

    def __init__(self, known: dict[int, list[str]], *, seconds: float) -> None:
        self.asked: list[tuple[str, int]] = []
        self.known = known
        self.hangs: Callable[[str, int], bool] = lambda host, family: False
        self._seconds = seconds
        self._goes_on = threading.Event()
        self.release = self._goes_on.set

    def __call__(self, host: str, family: int) -> list[str]:
        self.asked.append((host, family))
        if self.hangs(host, family):
            assert self._goes_on.wait(self._seconds)
        if host.startswith("unknown") or not self.known[family]:
            raise OSError(-2, "Name or service not known")
        return self.known[family]

    def count(self, host: str) -> int:
        """Return how often IPv4 addresses of a host were asked for."""
        return self.asked.count((host, socket.AF_INET))
