"""The addresses that a request may be sent to, where its transport has a guard.

libcurl asks for each socket that it opens, with the very address that it is about to dial
(CURLOPT_OPENSOCKETFUNCTION), and says before it sends where the connection leads that it picked
(CURLOPT_PREREQFUNCTION). What is allowed, the guard decides.
"""

from __future__ import annotations

import _socket
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

import pycurl

from curlhttp._curl.errors import raised_in_callback
from curlhttp._curl.sending import Sending
from curlhttp._engine.engine import Gate
from curlhttp._models.fork import register
from curlhttp._models.request import Request
from curlhttp.exceptions import BlockedAddress

__all__ = ["GuardedSending", "Resolver", "blocked", "check_scheme"]


_ABORT, _BAD = int(pycurl.PREREQFUNC_ABORT), int(pycurl.SOCKET_BAD)


class _SocketAddress(NamedTuple):
    """What pycurl tells of a socket that libcurl wants."""

    family: int
    socktype: int
    protocol: int
    addr: Any  # (address, port), (address, port, flow, scope), or the path of a Unix socket


class _CopiedSocket(socket.socket):
    """A socket of which pycurl takes a copy, and drops this one unclosed."""

    # No function in Python: what a signal's handler raises in a finalizer is lost.
    __del__ = _socket.socket.close


class GuardedSending(Sending):
    """Ask the guard of a request's transport where it may go; without one, nothing of this runs.

    Attributes:
        blocked: the first address of this attempt that was refused, None if there is none or
            another one was dialled.
    """

    __slots__ = ("_dials", "blocked")

    def _forget_detours(self) -> None:
        super()._forget_detours()
        self.blocked: BlockedAddress | None = None
        self._dials = False

    # libcurl's callbacks: they do not raise, but keep the error in `failed`

    def _on_open(self, purpose: int, dialled: _SocketAddress) -> socket.socket | int:
        """Give libcurl a socket for an address, or refuse that one; it tries the next then."""
        try:
            return self._opened(dialled)
        except BaseException as error:  # what a guard raised ends the request
            self.failed = raised_in_callback(error)
            return _BAD

    def _opened(self, dialled: _SocketAddress) -> socket.socket | int:
        request = self.request
        if request is None or self.failed is not None:
            return _BAD
        self.handle.is_dirty = True  # so that the next request knows nothing of this one's
        if isinstance(dialled.addr, tuple):
            error = blocked(request, dialled.addr[0], dialled.addr[1])
        else:
            error = blocked(request, os.fsdecode(dialled.addr).rstrip("\0"), 0)
        if error is not None:
            if not self._dials:
                self.blocked = self.blocked or error
            return _BAD
        self._dials, self.blocked = True, None
        try:
            return _CopiedSocket(*dialled[:3])
        except OSError:  # no descriptor, or no such family: as if libcurl itself had failed
            return _BAD

    def _on_guarded_socket(self, descriptor: int, purpose: int) -> int:
        os.set_inheritable(descriptor, False)  # pycurl's copy is, libcurl's own is not
        return self._on_socket(descriptor, purpose)

    def _on_guarded_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Judge the connection that libcurl picked, whoever opened it, before it sends."""
        try:
            request = self.request
            assert request is not None
            # A Unix socket has no address here, and is new: it was judged when it was opened.
            is_new = self._connecting
            error = None if is_new and not route[0] else blocked(request, route[0], route[2])
        except BaseException as failure:
            self.failed = raised_in_callback(failure)
            return _ABORT
        if error is None:
            return self._on_send(*route)
        if is_new:
            self.failed = error
        else:  # the name may have other addresses, which are tried on a connection of its own
            self.route = route
            self.connection = self.connections.find(route)
            self.restarts = True
        return _ABORT


def blocked(request: Request, address: str, port: int) -> BlockedAddress | None:
    """Return the error for a socket or a connection that a request must not use, None if it may.

    Args:
        request: its transport has a guard.
        address: as libcurl tells it, or the path of a Unix socket.
        port: likewise, 0 for a Unix socket.
    """
    transport, url = request.transport, request.url
    guard = transport.guard
    assert guard is not None
    if guard.https_only and url.scheme != "https":
        return _not_https(request)
    if transport.proxy is None:
        return blocked_target(request, address, port)
    # The proxy's own address is the user's choice. What it is to dial was judged before.
    judged = transport.judged
    if guard.trusts_proxies or (judged is not None and judged[:2] == (url.host, url.port)):
        return None
    return _error(request, "", url.port, "a proxy would resolve the name again")


def blocked_target(request: Request, address: str, port: int) -> BlockedAddress | None:
    """Return the error for an address that a request must not be sent to, None if it may.

    Args:
        request: its transport has a guard.
        address: IPv4 or IPv6 in text, or the path of a Unix socket.
        port: of the address, 0 for a Unix socket.
    """
    guard = request.transport.guard
    assert guard is not None
    reason = guard.objection(request.url.host, address, port)
    return None if reason is None else _error(request, address, port, reason)


def check_scheme(request: Request) -> None:
    """Refuse a request that has to be https and is not, before its name is resolved.

    Raises:
        BlockedAddress: it is not.
    """
    guard = request.transport.guard
    if guard is not None and guard.https_only and request.url.scheme != "https":
        raise _not_https(request)


def _not_https(request: Request) -> BlockedAddress:
    return _error(request, "", request.url.port, "https_only, and the URL is not https")


def _error(request: Request, address: str, port: int, reason: str) -> BlockedAddress:
    what = address or "it"
    if address and port:
        what = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    error = BlockedAddress(f"{request}: the guard refuses {what}: {reason}", request=request)
    error.host, error.address, error.port = request.url.host, address, port
    error.reason = reason
    return error


# --- Name look-ups in threads, so that no event loop waits and every wait has an end ---
#
# A proxy resolves names that libcurl does not, so the guard has to. The system's resolver cannot be
# interrupted: a caller that gives up leaves the look-up to its thread.

_THREADS = 16  # at once; each ends when there is nothing left to look up
_MOST = 1000  # names that are remembered

Name = tuple[str, int]
"""A host, and the address family or 0 for any."""


class _Resolution:
    """One name that is being looked up, for all who wait for it."""

    __slots__ = ("addresses", "error", "is_done", "waiting")

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.error: OSError | None = None
        self.is_done = False
        self.waiting: list[Gate] = []


class Resolver:
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
        self._pending: dict[Name, _Resolution] = {}
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

    def _join(self, name: Name, gate: Gate) -> _Resolution:
        lookup = self._pending.get(name)
        if lookup is None:
            if self._threads < _THREADS:
                threading.Thread(target=self._work, name="curlhttp lookup", daemon=True).start()
                self._threads += 1  # not before, because there may be no thread to be had
            lookup = self._pending[name] = _Resolution()
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
