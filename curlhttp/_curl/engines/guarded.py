"""An engine around another one, for requests whose transport has a guard of addresses.

The sockets are judged below, as they are opened. But a proxy dials for itself: so its target is
resolved and judged here, and the proxy is handed the address.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from curlhttp._curl.address_guard import Resolver, blocked_target, check_scheme
from curlhttp._curl.options import addresses_of, dialled
from curlhttp._engine.engine import ByteStream, Engine, HedgePlan, Incoming, connector
from curlhttp._engine.network import network
from curlhttp._models.config import CheckedAddress, Transport
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import BlockedAddress, ConnectionError, ConnectTimeout, DeadlineExceeded

if TYPE_CHECKING:
    from curlhttp._engine.engine import Gate
    from curlhttp._models.config import AddressGuard

__all__ = ["AddressChecker"]

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6, None: 0}


class AddressChecker:
    """A guard at work: what it has let proxies dial, too. Threads may share it.

    Args:
        guard: says which addresses may be dialled.
        seconds: how long an address is good for, as libcurl keeps names (`dns_ttl`).

    Attributes:
        guard: as given.
    """

    def __init__(self, guard: AddressGuard, seconds: float) -> None:
        self.guard = guard
        # Not for all clients: the guard may hold whatever its owner likes, and goes with that.
        self._over = lru_cache(maxsize=256)(partial(_with, guard=guard))
        self._told = lru_cache(maxsize=256)(_with)
        self._lookups = Resolver(seconds)

    def over(self, transport: Transport) -> Transport:
        """Return a Transport with this guard and no other, the same one for the same one."""
        return transport if transport.guard is self.guard else self._over(transport)

    def around(self, engine: Engine) -> GuardedEngine:
        """Return an engine around another one that judges before it sends."""
        return GuardedEngine(engine, self)

    def close(self) -> None:
        """Forget all."""
        self._over.cache_clear()
        self._told.cache_clear()

    async def settle(self, request: Request, engine: Engine) -> Transport:
        """Return how a request travels whose proxy is to dial an address that was judged.

        Args:
            request: has a proxy and a guard that does not trust it.
            engine: has a gate to wait at.

        Raises:
            RequestException: no address is left, or none was found in time.
        """
        transport, url = request.transport, request.url
        host, port = dialled(transport, url.host, url.port)
        family = _FAMILIES[transport.ip_version]
        assert transport.proxy is not None
        if transport.proxy.url.startswith("socks4"):
            family = socket.AF_INET  # it knows no other
        addresses = list(addresses_of(transport, host, port))
        if not addresses:
            addresses = await self._addresses(request, host, family, engine)
        # Again for each request, as of connections.
        address = _first_judged(request, addresses, port)
        return self._told(transport, judged=CheckedAddress(url.host, url.port, address, port))

    async def _addresses(
        self, request: Request, host: str, family: int, engine: Engine
    ) -> list[str]:
        seconds, now = request.timeout.connect, engine.now()
        if request.deadline is not None:
            left = max(0.0, request.deadline - now)
            seconds = left if seconds is None else min(seconds, left)
        try:
            found = await self._lookups.find(host, family, engine.gate, seconds)
        except OSError as error:
            raise ConnectionError(
                f"{request}: the host name could not be resolved, which is done here since a guard "
                f"judges what the proxy dials: {error.strerror or error}",
                request=request,
            ) from None
        if found is not None:
            return found
        if request.is_late(engine.now()):
            raise DeadlineExceeded(
                f"{request}: the total of {request.timeout.total} s ran out", request=request
            )
        raise ConnectTimeout(
            f"{request}: the host name was not resolved within {request.timeout.connect} s",
            request=request,
        )


def _first_judged(request: Request, addresses: list[str], port: int) -> str:
    first: BlockedAddress | None = None
    for address in addresses:
        error = blocked_target(request, address, port)
        if error is None:
            return address
        first = first or error
    if first is None:
        raise ConnectionError(f"{request}: the host name has no address", request=request)
    raise first


# Any: each field has a type of its own.
def _with(transport: Transport, **fields: Any) -> Transport:
    return replace(transport, **fields)


class GuardedEngine:
    """An engine around another one.

    Args:
        engine: carries out what may be sent.
        checkpoint: tells what proxies may dial.
    """

    def __init__(self, engine: Engine, checkpoint: AddressChecker) -> None:
        self._engine = engine
        self._checkpoint = checkpoint
        self.read = engine.read
        self.abort = engine.abort
        self.abort_from_finalizer = engine.abort_from_finalizer
        self.sleep = engine.sleep
        self.now = engine.now
        self.wall = engine.wall
        self.gate: Callable[[], Gate] = engine.gate
        self.close = engine.close
        self.set_read_timeout = getattr(engine, "set_read_timeout", None)

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request, if it may be, and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is under way, or None for never.

        Raises:
            BlockedAddress: it may not.
            RequestException: no response was received.
        """
        if self._needs_target(request):
            request.transport = await self._checkpoint.settle(request, self._engine)
        return await self._engine.perform(request, plan)

    async def open(self, request: Request, plan: HedgePlan | None = None) -> Incoming:
        """Send the request, if it may be, and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            BlockedAddress: it may not.
            RequestException: no response was received.
        """
        if self._needs_target(request):
            request.transport = await self._checkpoint.settle(request, self._engine)
        return await self._engine.open(request, plan)

    async def connect(self, request: Request) -> ByteStream:
        """Open a connection for another protocol, if that may be.

        Raises:
            BlockedAddress: it may not.
            RequestException: the connection failed.
        """
        if self._needs_target(request):
            request.transport = await self._checkpoint.settle(request, self._engine)
        return await connector(self._engine).connect(request)

    def _needs_target(self, request: Request) -> bool:
        """Return whether a proxy must be told what to dial.

        Raises:
            BlockedAddress: the request must be https, and is not.
        """
        transport = request.transport
        guard = self._checkpoint.guard
        if transport.guard is not guard:  # another client built it, which may allow more
            transport = request.transport = self._checkpoint.over(transport)
        check_scheme(request)
        # Where a mock stands in for the network nothing is dialled; what it leaves to the engine
        # is refused there, for want of a target.
        return transport.proxy is not None and not guard.trusts_proxies and network.mocked is None
