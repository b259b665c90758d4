"""Decide whether a request may use an address: what a guard must have, and the error of a refusal.

The engines call this module for requests whose route has a guard; `_features/guard` has the guards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from curlhttp.exceptions import BlockedAddress

if TYPE_CHECKING:
    from curlhttp._http.request import ClientRequest


class AddressGuard(Protocol):
    """Decide to which addresses a client may connect."""

    def __hash__(self) -> int:
        """Return the hash of its identity: guards are compared by identity."""

    @property
    def _name(self) -> str:
        """Return a name that is unique for its rules, also across processes."""

    @property
    def https_only(self) -> bool:
        """Return whether requests without TLS are refused."""

    @property
    def _trusts_proxies(self) -> bool:
        """Return whether a proxy may connect to any address."""

    def objection(self, host: str, address: str, port: int) -> str | None:
        """Return the reason not to connect to an address, or None if it is allowed.

        Args:
            host: as the URL names it, in canonical form.
            address: IPv4 or IPv6 as text, perhaps with a zone, or the path of a Unix socket.
            port: of the address, 0 for a Unix socket.
        """


def blocked(request: ClientRequest, address: str, port: int) -> BlockedAddress | None:
    """Return the error for a socket or connection that a request must not use, else None.

    Args:
        request: its route has a guard.
        address: as libcurl reports it, or the path of a Unix socket.
        port: as libcurl reports it, 0 for a Unix socket.
    """
    route, url = request.route, request.url
    guard = route.guard
    assert guard is not None
    if guard.https_only and url.scheme != "https":
        return _not_https(request)
    if route.proxy is None:
        return check_target(request, address, port)
    # The user chose the proxy's own address. Its target was checked before.
    checked = route.checked_address
    if guard._trusts_proxies or (checked is not None and checked[:2] == (url.host, url.port)):
        return None
    return blocked_error(request, "", url.port, "a proxy would resolve the name again")


def check_target(request: ClientRequest, address: str, port: int) -> BlockedAddress | None:
    """Return the error for an address that a request must not be sent to, else None.

    Args:
        request: its route has a guard.
        address: IPv4 or IPv6 in text, or the path of a Unix socket.
        port: of the address, 0 for a Unix socket.
    """
    guard = request.route.guard
    assert guard is not None
    reason = guard.objection(request.url.host, address, port)
    return None if reason is None else blocked_error(request, address, port, reason)


def check_scheme(request: ClientRequest) -> None:
    """Refuse a request that must be https and is not, before its name is resolved.

    Raises:
        BlockedAddress: it is not https.
    """
    guard = request.route.guard
    if guard is not None and guard.https_only and request.url.scheme != "https":
        raise _not_https(request)


def _not_https(request: ClientRequest) -> BlockedAddress:
    return blocked_error(request, "", request.url.port, "https_only, and the URL is not https")


def blocked_error(request: ClientRequest, address: str, port: int, reason: str) -> BlockedAddress:
    """Return the error for a request that a guard refuses.

    Args:
        request: the request.
        address: what it may not be sent to, or "".
        port: of the address, 0 for a Unix socket.
        reason: why.
    """
    what = address or "it"
    if address and port:
        what = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    error = BlockedAddress(f"{request}: the guard refuses {what}: {reason}", request=request)
    error.host, error.address, error.port = request.url.host, address, port
    error.reason = reason
    return error
