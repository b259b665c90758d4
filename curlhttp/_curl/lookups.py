"""Look names up in threads, so that no event loop waits and every wait has an end.

Needed where libcurl does not resolve by itself: behind a proxy, which would. The system's resolver
cannot be interrupted: who gives up leaves it to its thread.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

from curlhttp._engine import Gate
from curlhttp._fork import register

__all__ = ["Lookups"]

_THREADS = 16  # at once; each ends when there is nothing left to look up
_MOST = 1000  # names that are remembered

Name = tuple[str, int]
"""A host, and the address family or 0 for any."""


class _Lookup:
    """One name that is being looked up, for all who wait for it."""

    __slots__ = ("addresses", "error", "is_done", "waiting")

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.error: OSError | None = None
        self.is_done = False
        self.waiting: list[Gate] = []


class Lookups:
    """Look names up, each once for all who ask for it at the same time; threads may share it.

    Args:
        ttl: seconds that what was found is good for.
    """

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self.after_fork_in_child()
        register(self)

    def after_fork_in_child(self) -> None:
        """Start afresh: a child has none of the threads."""
        self._lock = threading.Lock()
        self._pending: dict[Name, _Lookup] = {}
        self._known: dict[Name, tuple[float, list[str]]] = {}
        self._line: deque[Name] = deque()
        self._threads = 0

    async def find(
        self, host: str, family: int, make_gate: Callable[[], Gate], seconds: float | None
    ) -> list[str] | None:
        """Return the addresses of a host in the system's order, None if that took too long.

        Args:
            host: a name in ASCII, or an address.
            family: socket.AF_INET, AF_INET6 or 0 for both.
            make_gate: makes a gate of the engine, to wait at.
            seconds: how long to wait; None for as long as it takes.

        Raises:
            OSError: there is no such name, or no answer of a resolver.
        """
        name = host, family
        with self._lock:
            until, known = self._known.get(name, (0.0, []))
            if monotonic() < until:
                return known
            gate = make_gate()
            lookup = self._join(name, gate)
        end = None if seconds is None else monotonic() + seconds
        try:
            while not lookup.is_done:
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    return None
                await gate.wait(left)
        finally:
            with self._lock:
                if gate in lookup.waiting:
                    lookup.waiting.remove(gate)
        if lookup.error is not None:
            raise lookup.error
        return lookup.addresses

    def _join(self, name: Name, gate: Gate) -> _Lookup:
        lookup = self._pending.get(name)
        if lookup is None:
            if self._threads < _THREADS:
                threading.Thread(target=self._work, name="curlhttp lookup", daemon=True).start()
                self._threads += 1  # not before, since there may be no thread to be had
            lookup = self._pending[name] = _Lookup()
            self._line.append(name)
        lookup.waiting.append(gate)
        return lookup

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._line:
                    self._threads -= 1
                    return
                name = self._line.popleft()
                if not self._pending[name].waiting:  # all have given up: others' names are next
                    del self._pending[name]
                    continue
            addresses: list[str] = []
            error: OSError | None = None
            try:
                addresses = _addresses(*name)
            except Exception as failure:  # whatever it is, somebody waits for it
                error = failure if isinstance(failure, OSError) else OSError(str(failure))
            with self._lock:
                lookup = self._pending.pop(name)
                lookup.addresses, lookup.error, lookup.is_done = addresses, error, True
                if error is None:
                    self._keep(name, addresses)
                waiting = lookup.waiting.copy()
            for gate in waiting:
                gate.open()

    def _keep(self, name: Name, addresses: list[str]) -> None:
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[name] = monotonic() + self._ttl, addresses


def _addresses(host: str, family: int) -> list[str]:
    # As bytes: text would go through Python's own IDNA, which the URL has been through.
    found = socket.getaddrinfo(host.encode("ascii"), None, family, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
