"""Look up the names that the transfers of one driver need, in place of libcurl.

libcurl (8.23) looks names up in 20 threads of each curl_multi. It connects as soon as it knows an
address, but it waits for all of the threads when the curl_multi is closed, and queries that are not
answered keep them from other names. So a transfer whose name is not in libcurl's cache is ended
(CURLOPT_RESOLVER_START_FUNCTION), and starts again with the addresses (CURLOPT_RESOLVE).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Protocol, cast

from curlhttp._http.url import bracketed
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.dns import CachedNames, Name, get_names
from curlhttp._libcurl.poller import Poller, Wakeup
from curlhttp._libcurl.resolver import Lookup
from curlhttp._libcurl.transfer import Transfer
from curlhttp.exceptions import ConnectionError

_MOST_ROUNDS = 3  # of one attempt, because addresses may expire while it waits for a connection
_LATE = 0.5  # seconds for the other family, if no address of the first one can be connected to
_UNRESOLVED = (pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY)


class NameLookup:
    """The names that one attempt needs.

    Args:
        transfer: the attempt.
        names: those of its host, of its proxy, or of its DoH server.
        wake: called from other threads with this object when an answer has come.

    Raises:
        ConnectionError: no thread could start.

    Attributes:
        transfer: as given.
        begun: the monotonic time when it began.
        expires: the monotonic time when the attempt fails.
        used: how many addresses libcurl has got.
        failure: libcurl's code and text, if it could not connect to any of them.
    """

    __slots__ = ("_lookups", "_names", "begun", "expires", "failure", "transfer", "used")

    def __init__(
        self, transfer: Transfer, names: list[Name], wake: Callable[[NameLookup], object]
    ) -> None:
        request = transfer.request
        assert request is not None
        self.transfer = transfer
        self.begun = monotonic()
        connect, deadline = request.timeout.connect, request.deadline
        self.expires = min(
            math.inf if connect is None else self.begun + connect,
            math.inf if deadline is None else deadline,
        )
        self.used = 0
        self.failure: tuple[int, str] | None = None
        self._names = names
        self._lookups: list[Lookup] = []
        call = partial(wake, self)
        try:
            for name in names:
                self._lookups.append(Lookup(name.host, request.route.ip_version, call))
        except ConnectionError:
            self.stop()
            raise

    def check(self) -> float | None:
        """Return when to check again; None once all names have addresses, or one has none."""
        dues = [lookup.check() for lookup in self._lookups]
        if self.error is not None:
            return None
        return max((due for due in dues if due is not None), default=None)

    @property
    def error(self) -> tuple[int, str] | None:
        """Return libcurl's code and a text, if a name has no address."""
        for name, lookup in zip(self._names, self._lookups, strict=True):
            if lookup.error is not None:
                what, code = "proxy" if name.is_proxy else "host", _UNRESOLVED[name.is_proxy]
                why = lookup.error.strerror or lookup.error
                return code, f"Could not resolve {what}: {name.host}: {why}"
        return None

    @property
    def is_complete(self) -> bool:
        """Return whether no answer is missing."""
        return all(lookup.is_complete for lookup in self._lookups)

    @property
    def has_more(self) -> bool:
        """Return whether there are more addresses than libcurl has got."""
        return self._count() > self.used

    def _count(self) -> int:
        return sum(len(lookup.addresses) for lookup in self._lookups)

    @property
    def seconds(self) -> float:
        """Return how long the answers took."""
        return max(0.0, max(lookup.answered for lookup in self._lookups) - self.begun)

    def use(self, *, is_kept: bool) -> list[str]:
        """Return the addresses as values of CURLOPT_RESOLVE.

        Args:
            is_kept: libcurl keeps them for `dns_ttl`; otherwise until they are removed.
        """
        self.used = self._count()
        entries = []
        for name, lookup in zip(self._names, self._lookups, strict=True):
            # libcurl does not parse the address of an interface. If there is no other address, it
            # finds none, and looks the name up itself after some rounds.
            plain = [bracketed(address) for address in lookup.addresses if "%" not in address]
            if plain:
                entries.append(f"{'+' * is_kept}{name.key}:{','.join(plain)}")
        return entries

    def stop(self) -> None:
        """Be woken no more."""
        for lookup in self._lookups:
            lookup.stop()


def _get_lookup(transfer: Transfer) -> NameLookup | None:
    return cast("NameLookup | None", transfer.lookup)


def _depends_on_cache(transfer: Transfer, code: int) -> bool:
    """Return whether a transfer, for which nothing was looked up, may succeed if that is done."""
    if code in _UNRESOLVED:  # the cache has addresses of one family, and it needs the other one
        return True
    # The name may have moved.
    is_refused = code == pycurl.E_COULDNT_CONNECT and transfer.failed is None
    return is_refused and not transfer.attempt.is_out and not transfer.asks_libcurl


class _RunsLookups(Protocol):
    @property
    def poller(self) -> Poller: ...
    def continue_soon(self, lookup: NameLookup) -> None: ...
    def resume_at(self, transfer: Transfer, due: float, reason: NameLookup) -> None: ...
    def restart(self, transfer: Transfer) -> None: ...
    def end(self, transfer: Transfer, code: int, message: str) -> None: ...


class Lookups:
    """The names that the transfers of one driver wait for.

    Args:
        driver: runs the transfers.
        names: what is in the cache of its curl_multi.
    """

    __slots__ = ("_driver", "_names", "_running", "_wakeup")

    def __init__(self, driver: _RunsLookups, names: CachedNames) -> None:
        self._driver = driver
        self._names = names
        self._running: set[NameLookup] = set()
        # While there are some. Nobody closes it, because another thread may be about to use it.
        self._wakeup: Wakeup | None = None

    def begin(self, transfer: Transfer) -> bool:
        """Begin to look up the names of a transfer; return False to leave that to libcurl.

        libcurl's callbacks may call this.
        """
        lookup = _get_lookup(transfer)
        if lookup is not None and not lookup.used:
            return True  # the transfer was restarted meanwhile
        assert transfer.request is not None
        names = get_names(transfer.request)
        if not names:
            return False
        self.stop(transfer)
        transfer.handle.is_dirty = True  # so that its next request knows nothing of this
        try:
            if transfer.lookups >= _MOST_ROUNDS:
                unresolved = ConnectionError("libcurl does not find the addresses under this name")
                unresolved._reason = "dns"
                raise unresolved
            if self._wakeup is None:
                self._wakeup = wakeup = Wakeup()
                self._driver.poller.watch(wakeup.descriptor, pycurl.POLL_IN)
            transfer.lookup = lookup = NameLookup(transfer, names, self._on_answer)
        except ConnectionError:  # mostly because no thread starts while Python exits
            transfer.asks_libcurl = True
            self._close_if_idle()
            return False
        transfer.lookups += 1
        self._running.add(lookup)
        return True

    def _on_answer(self, lookup: NameLookup) -> None:
        self._driver.continue_soon(lookup)
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup.send()

    def hold(self, transfer: Transfer) -> None:
        """Let a transfer wait, which libcurl has ended."""
        lookup = _get_lookup(transfer)
        assert lookup is not None
        transfer.done = False
        transfer.code, transfer.message = 0, ""
        self.step(lookup)

    def needs_more(self, transfer: Transfer, code: int, message: str) -> bool:
        """Return whether a transfer that failed has to wait for more addresses."""
        lookup = _get_lookup(transfer)
        if not transfer.lookups and _depends_on_cache(transfer, code):
            return self.begin(transfer)
        if lookup is None or code != pycurl.E_COULDNT_CONNECT or transfer.failed is not None:
            return False
        lookup.failure = code, message
        return True

    def step(self, lookup: NameLookup) -> None:
        """Start a transfer again if its addresses are known, or end it if that took too long."""
        if self._wakeup is not None:
            self._wakeup.receive()
        due, now = lookup.check(), monotonic()
        if lookup.used:
            self._step_late(lookup, now)
        elif due is None:
            if lookup.error is None:
                self._use(lookup)
            else:
                self._end(lookup, *lookup.error)
        elif now < lookup.expires:
            self._driver.resume_at(lookup.transfer, min(due, lookup.expires), lookup)
        else:
            waited = f"Resolving timed out after {int((now - lookup.begun) * 1000)} milliseconds"
            self._end(lookup, pycurl.E_OPERATION_TIMEDOUT, waited)

    def _step_late(self, lookup: NameLookup, now: float) -> None:
        """Use addresses of the other family that came after the transfer began to connect."""
        transfer, failure = lookup.transfer, lookup.failure
        ends = min(lookup.begun + _LATE, lookup.expires)
        is_connected = not failure and transfer.easy.getinfo(pycurl.CONNECT_TIME_T) > 0
        if lookup.has_more and not is_connected and not transfer.attempt.is_out:
            self._use(lookup)
        elif failure and (lookup.is_complete or now >= ends):
            self._end(lookup, *failure)
        elif failure:
            self._driver.resume_at(transfer, ends, lookup)
        elif lookup.is_complete:
            self.stop(transfer)

    def _use(self, lookup: NameLookup) -> None:
        transfer, names = lookup.transfer, self._names
        request = transfer.request
        assert request is not None
        lookup.failure = None
        transfer.looked_up = int((monotonic() - lookup.begun) * 1e6)
        # Its connect timeout does not run while its loop, or the iteration over its map, is away.
        transfer.handle.set_time_left(request, lookup.seconds)
        names.set_addresses(transfer.easy, request, lookup)
        self._driver.restart(transfer)
        if lookup.is_complete:
            self.stop(transfer)

    def _end(self, lookup: NameLookup, code: int, message: str) -> None:
        transfer = lookup.transfer
        transfer.looked_up = int((monotonic() - lookup.begun) * 1e6)
        self.stop(transfer)
        self._driver.end(transfer, code, message)

    def stop(self, transfer: Transfer) -> None:
        """Look up nothing more for a transfer."""
        lookup = _get_lookup(transfer)
        transfer.lookup = None
        if lookup is not None:
            lookup.stop()
            self._running.discard(lookup)
            self._close_if_idle()

    def _close_if_idle(self) -> None:
        if not self._running and self._wakeup is not None:
            self._driver.poller.forget(self._wakeup.descriptor)
            self._wakeup = None

    def close(self) -> None:
        """Stop all of them."""
        for lookup in self._running:
            lookup.stop()
        self._running.clear()
        self._close_if_idle()
