"""Look names up in threads, so that no caller waits for an answer that does not come.

The system's resolver (getaddrinfo) cannot be interrupted. If the name server, or a firewall before
it, drops queries of one kind or for some names, it takes 10 s or more. So each address family of a
name is asked for in a thread of its own, which nobody waits for: Python can exit, and a caller gets
the addresses of one family shortly after they are known (RFC 8305, section 3).

There are no locks, because finalizers and libcurl's callbacks come here: each change of a dict, a
set or a list is one step of the interpreter.
"""

from __future__ import annotations

import _socket
import math
import sys
from _queue import Empty, SimpleQueue  # those of gevent, if it is used, are not for real threads
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from curlhttp._http.exiting import start_native_thread
from curlhttp._http.fork import register
from curlhttp.exceptions import ConnectionError

_THREADS = 128  # of each family at most
_IDLE = 1.0  # seconds for which a thread waits for the next query
_GRACE = 0.05  # seconds for the other family, once one is known (RFC 8305, section 3)
_HANGS = 0.5  # seconds after which a query gets no more grace

_FAMILIES = {
    None: (_socket.AF_INET6, _socket.AF_INET),
    4: (_socket.AF_INET,),
    6: (_socket.AF_INET6,),
}
_Name = tuple[str, int]  # a host and an address family
_Wake = Callable[[], object]


class _Query:
    """What is known of one address family of a host.

    Attributes:
        name: the host and the family.
        begun: the monotonic time when it was first asked for.
        answered: the monotonic time of the answer, 0.0 before that.
        addresses: in the system's order; none if there are none.
        error: why there are none.
        waiting: called from a thread once there is an answer.
        is_dropped: nobody waited for it, so it will not be answered.
    """

    __slots__ = ("addresses", "answered", "begun", "error", "is_dropped", "name", "waiting")

    def __init__(self, name: _Name) -> None:
        self.name = name
        self.begun = monotonic()
        self.answered = 0.0
        self.addresses: list[str] = []
        self.error: OSError | None = None
        self.waiting: list[_Wake] = []
        self.is_dropped = False


class _Threads:
    """Answer the queries for one address family, each in a thread that waits for nothing else.

    A thread that has answered one waits for the next: the system's resolver reads its configuration
    in each new thread, which costs three times what a query does.

    Args:
        answer: answers one; raises nothing.
    """

    def __init__(self, answer: Callable[[_Query], object]) -> None:
        self._answer = answer
        self._queue: SimpleQueue[_Query] = SimpleQueue()
        self._all: set[object] = set()
        self._idle: set[object] = set()

    def put(self, query: _Query) -> None:
        """Answer a query as soon as a thread is free.

        Raises:
            ConnectionError: there is no thread, and none could start.
        """
        self._queue.put(query)
        try:
            self._add_thread()
        except ConnectionError:
            if not self._all:
                raise

    def _add_thread(self) -> None:
        """Start a thread if more queries wait than threads."""
        if self._queue.qsize() <= len(self._idle) or len(self._all) >= _THREADS:
            return
        thread = object()
        self._all.add(thread)
        try:
            start_native_thread(lambda: self._work(thread))
        except ConnectionError:
            self._all.discard(thread)
            raise

    def _work(self, thread: object) -> None:
        # After each change of `_idle` and `_all` it looks whether a query came meanwhile, for which
        # `put` has counted on this thread.
        while True:
            self._idle.add(thread)
            try:
                query = self._queue.get(timeout=_IDLE)
            except Empty:
                self._idle.discard(thread)
                self._all.discard(thread)
                if not self._queue.qsize():
                    return
                self._all.add(thread)
                continue
            self._idle.discard(thread)
            with suppress(ConnectionError):
                self._add_thread()
            self._answer(query)


class _Queries:
    """The queries of this process: one at a time for each name, however many callers wait."""

    def __init__(self) -> None:
        self._after_fork_in_child()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Start with an empty state, because a child has none of the threads."""
        self._pending: dict[_Name, _Query] = {}
        self._threads = {
            family: _Threads(self._answer) for family in (_socket.AF_INET, _socket.AF_INET6)
        }

    def join(self, name: _Name, wake: _Wake) -> _Query:
        """Return the query for a name, a new one if none is under way.

        Raises:
            ConnectionError: no thread could start.
        """
        while True:
            new = _Query(name)
            query = self._pending.setdefault(name, new)
            query.waiting.append(wake)
            if query is new:
                try:
                    self._threads[name[1]].put(query)
                except ConnectionError:
                    self._drop(query)
                    raise
            if not query.is_dropped:
                return query

    def _drop(self, query: _Query) -> None:
        query.is_dropped = True
        self._pending.pop(query.name, None)

    def _answer(self, query: _Query) -> None:
        if not query.waiting:  # all callers have given up
            self._drop(query)
            if not query.waiting:  # and none has come since
                return
        try:
            query.addresses = _addresses(*query.name)
        except Exception as failure:  # any error, because a caller waits for it
            query.error = failure if isinstance(failure, OSError) else OSError(str(failure))
        query.answered = monotonic()
        if self._pending.get(query.name) is query:
            del self._pending[query.name]
        with suppress(IndexError):
            while True:
                query.waiting.pop()()


_queries = _Queries()


class Lookup:
    """The addresses of a host, for one caller.

    Args:
        host: a name in ASCII.
        version: 4 or 6 for one address family, None for both.
        wake: called from other threads when the caller should `check`; must not block.
        known: an earlier one of the same host, whose answers are still valid.

    Raises:
        ConnectionError: no thread could start.

    Attributes:
        begun: the monotonic time when it began.
        addresses: of IPv6 first, each family in the system's order.
        error: why there are none.
        is_complete: all families are known.
    """

    __slots__ = ("_queries", "_wake", "addresses", "begun", "error", "is_complete")

    def __init__(
        self, host: str, version: int | None, wake: _Wake, known: Lookup | None = None
    ) -> None:
        self._wake = wake
        self.begun = monotonic()
        self.addresses: list[str] = []
        self.error: OSError | None = None
        self.is_complete = False
        self._queries: list[_Query] = []
        answered = [] if known is None else [query for query in known._queries if query.answered]
        answers = {query.name: query for query in answered}
        try:
            for family in _FAMILIES[version]:
                name = host, family
                self._queries.append(answers.get(name) or _queries.join(name, wake))
        except ConnectionError:
            self.stop()
            raise

    def check(self) -> float | None:
        """Return when to check again, or None once there are addresses or an error.

        The time is monotonic, math.inf to check only when woken.
        """
        pending = [query for query in self._queries if not query.answered]
        self.is_complete = not pending
        if pending:
            found = [query.answered for query in self._queries if query.addresses]
            if not found:
                return math.inf
            due = min(min(found) + _GRACE, min(query.begun for query in pending) + _HANGS)
            if monotonic() < due:
                return due
        self.addresses = [address for query in self._queries for address in query.addresses]
        if not self.addresses:
            self.error = self._queries[-1].error or OSError("the host name has no address")
        return None

    @property
    def has_failed(self) -> bool:
        """Return whether there are no addresses."""
        return all(query.answered and not query.addresses for query in self._queries)

    @property
    def answered(self) -> float:
        """Return the monotonic time of the last answer."""
        return max(query.answered for query in self._queries)

    def stop(self) -> None:
        """Be woken no more; any thread may call this, also more than once."""
        for query in self._queries:
            with suppress(ValueError):
                query.waiting.remove(self._wake)


def _addresses(host: str, family: int) -> list[str]:
    # The one that programs replace, if something has loaded it: that costs as much as a request.
    find = getattr(sys.modules.get("socket"), "getaddrinfo", _socket.getaddrinfo)
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None:  # its own one waits in a greenlet, and this is a thread
        find = gevent.get_original("socket", "getaddrinfo")
    # As bytes, because Python would encode text with IDNA again.
    found = find(host.encode("ascii"), None, family, _socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
