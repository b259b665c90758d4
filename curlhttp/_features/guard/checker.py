"""Check the addresses that requests are sent to, if their route has a guard.

libcurl calls back for each socket that it opens, with the address that it is about to connect to
(CURLOPT_OPENSOCKETFUNCTION). Before it sends, it reports the addresses of the connection that it
chose (CURLOPT_PREREQFUNCTION). `Transfer` asks `_http/address_guard` in both callbacks.

A proxy connects on its own, so libcurl never sees the target's address. `AddressChecker` resolves
and checks the target first, and passes its address to the proxy.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from curlhttp._http.address_guard import blocked_error, check_scheme, check_target
from curlhttp._http.config import CheckedAddress, NetworkRoute
from curlhttp._http.errors import deadline_error
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl.dns import has_failed
from curlhttp._libcurl.options import get_addresses, get_connect_target
from curlhttp._libcurl.resolver import Lookup
from curlhttp._runtime.engine import Runtime, Send, Waiter
from curlhttp._runtime.network import network
from curlhttp.exceptions import BlockedAddress, ConnectionError, ConnectTimeout

if TYPE_CHECKING:
    from curlhttp._features.guard.policy import PublicOnly
    from curlhttp._http.address_guard import AddressGuard
    from curlhttp._http.inputs import GuardFunction


class AddressChecker:
    """Apply a guard to the requests of a client (an AttemptWrapper). Threads may share it.

    Args:
        guard: decides which addresses may be connected to.
        seconds: how long a resolved address is valid, as in libcurl's cache (`dns_ttl`).

    Attributes:
        guard: as given.
    """

    def __init__(self, guard: AddressGuard, seconds: float) -> None:
        self.guard = guard
        # One cache for each client, because it keeps the guard and what that holds alive.
        self._with_guard = lru_cache(maxsize=256)(partial(_with, guard=guard))
        self._with_target = lru_cache(maxsize=256)(_with)
        self._resolver = Resolver(seconds)

    def guard_route(self, route: NetworkRoute) -> NetworkRoute:
        """Return a NetworkRoute with this guard; the same result for equal routes."""
        return route if route.guard is self.guard else self._with_guard(route)

    async def around(self, request: ClientRequest, send: Send, runtime: Runtime) -> Response:
        """Check a request, and send it.

        Raises:
            BlockedAddress: the guard refuses it.
            RequestException: no response was received.
        """
        await self.check(runtime, request)
        return await send(request)

    async def check(self, runtime: Runtime, request: ClientRequest) -> None:
        """Check a request, and set a route that says which address a proxy may connect to.

        Args:
            runtime: of the caller.
            request: complete.

        Raises:
            BlockedAddress: the guard refuses it.
            RequestException: no address was found in time.
        """
        if self._needs_target(request):
            request.route = await self._resolve_target(request, runtime)

    def _needs_target(self, request: ClientRequest) -> bool:
        """Return whether a proxy needs the address to connect to.

        Raises:
            BlockedAddress: the request must be https and is not.
        """
        guard = self.guard
        route = request.route
        if route.guard is not guard:  # another client built it, whose guard may allow more
            route = request.route = self.guard_route(route)
        check_scheme(request)
        if route.unix_socket is not None and _SEES_NO_UNIX_SOCKETS:
            path = route.unix_socket
            raise check_target(request, path, 0) or blocked_error(request, path, 0, _UNSEEN)
        # A mock connects to nothing. If it leaves a request to the engine, the engine refuses that,
        # because there is no checked address.
        return route.proxy is not None and not guard._trusts_proxies and network.mocked is None

    async def _resolve_target(self, request: ClientRequest, runtime: Runtime) -> NetworkRoute:
        """Return a NetworkRoute whose proxy gets an address that was checked."""
        route, url = request.route, request.url
        host, port = get_connect_target(route, url.host, url.port)
        version: int | None = route.ip_version
        assert route.proxy is not None
        if route.proxy.url.startswith("socks4"):
            version = 4  # SOCKS4 has no other
        addresses = list(get_addresses(route, host, port))
        if not addresses:
            addresses = await self._addresses(request, host, version, runtime)
        # Checked for each request, as connections are.
        address = _find_allowed(request, addresses, port)
        return self._with_target(
            route, checked_address=CheckedAddress(url.host, url.port, address, port)
        )

    async def _addresses(
        self, request: ClientRequest, host: str, version: int | None, runtime: Runtime
    ) -> list[str]:
        seconds, now = request.timeout.connect, runtime.now()
        if request.deadline is not None:
            left = max(0.0, request.deadline - now)
            seconds = left if seconds is None else min(seconds, left)
        try:
            is_moved = has_failed(request)
            find, waiting = self._resolver.find, runtime.make_waiter
            found = await find(host, version, waiting, seconds, is_fresh=is_moved)
        except OSError as error:
            raise _not_resolved(
                request,
                "the host name could not be resolved, which is needed because a guard "
                f"checks what the proxy connects to: {error.strerror or error}",
            ) from None
        if found is not None:
            return found
        if request.is_late(runtime.now()):
            raise deadline_error(request, was_sent=False)
        raise ConnectTimeout(
            f"{request}: the host name was not resolved within {request.timeout.connect} s",
            request=request,
        )


def _find_allowed(request: ClientRequest, addresses: list[str], port: int) -> str:
    first: BlockedAddress | None = None
    for address in addresses:
        error = check_target(request, address, port)
        if error is None:
            return address
        first = first or error
    if first is None:
        raise _not_resolved(request, "the host name has no address")
    raise first


def _not_resolved(request: ClientRequest, what: str) -> ConnectionError:
    error = ConnectionError(f"{request}: {what}", request=request)
    error._reason = "dns"
    return error


# Any: each field has another type.
def _with(route: NetworkRoute, **fields: Any) -> NetworkRoute:
    return replace(route, **fields)


# On Windows, pycurl knows no address of a Unix socket, so no callback could check it.
_SEES_NO_UNIX_SOCKETS = not hasattr(socket, "AF_UNIX")
_UNSEEN = "on Windows, a client with a guard cannot use Unix sockets"


# --- Look names up, so that no event loop blocks and waits can time out ---
#
# With a proxy, libcurl does not resolve the target, so the guard has to.

_MAX_NAMES = 1000  # in the cache
_LOOK_AGAIN = 5.0  # seconds


class Resolver:
    """Look names up, and remember them. Threads may share it.

    Args:
        ttl: seconds for which a result is valid.
    """

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._known: dict[tuple[str, int | None], tuple[float, Lookup]] = {}

    async def find(
        self,
        host: str,
        version: int | None,
        make_waiter: Callable[[], Waiter],
        seconds: float | None,
        *,
        is_fresh: bool = False,
    ) -> list[str] | None:
        """Return the addresses of a host in the order to try them, None if that took too long.

        Args:
            host: a name in ASCII, or an address.
            version: 4 or 6 for one address family, None for both.
            make_waiter: makes a waiter of the engine.
            seconds: how long to wait; None for no limit.
            is_fresh: ignore what is known.

        Raises:
            OSError: there is no such name, or the resolver did not answer.
            ConnectionError: no thread could start.
        """
        name = host, version
        until, known = self._known.get(name, (0.0, None))
        now = monotonic()
        if known is not None and (is_fresh or now >= until or known.has_failed):
            known = None
        waiter = make_waiter()
        lookup = Lookup(host, version, waiter.wake, known)
        if len(self._known) >= _MAX_NAMES:
            self._known.clear()
        self._known[name] = (now + self._ttl if known is None else until), lookup
        end = math.inf if seconds is None else now + seconds
        try:
            while (due := lookup.check()) is not None:
                now = monotonic()
                if end <= now:
                    return None
                # Never without an end: Python does not count the threads that may wake it.
                await waiter.wait(min(max(0.0, min(due, end) - now), _LOOK_AGAIN))
        finally:
            lookup.stop()
        if lookup.error is not None:
            raise lookup.error
        return _sort(lookup.addresses)


def _sort(addresses: list[str]) -> list[str]:
    """Return addresses in the order of the system: those without a route last."""
    return sorted(addresses, key=_lacks_route) if len(addresses) > 1 else addresses


def _lacks_route(address: str) -> bool:
    """Return whether this machine has no route to an address (RFC 6724, section 6, rule 1)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as udp:
            udp.connect((address, 1))  # sends nothing
    except OSError:
        return True
    return False


def make_checker(guard: PublicOnly | GuardFunction, dns_ttl: float) -> AddressChecker:
    """Return what checks the requests of a client, a transport or an adapter that has a guard.

    Raises:
        TypeError: it is none.
    """
    from curlhttp._features.guard.policy import to_address_guard

    return AddressChecker(to_address_guard(guard), dns_ttl)
