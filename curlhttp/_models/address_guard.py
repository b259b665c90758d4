"""The interface of an address guard for the layers that connect; _policy/guard.py decides."""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["AddressGuard", "CheckedAddress"]


class AddressGuard(Protocol):
    """Decide to which addresses a client may connect."""

    def __hash__(self) -> int:
        """Return the hash of its identity: guards are compared by identity."""

    @property
    def name(self) -> str:
        """Return a name that guards with other rules do not have, also across processes."""

    @property
    def https_only(self) -> bool:
        """Return whether requests without TLS are refused."""

    @property
    def trusts_proxies(self) -> bool:
        """Return whether a proxy may connect to any address."""

    def objection(self, host: str, address: str, port: int) -> str | None:
        """Return the reason not to connect to an address, or None if it is allowed.

        Args:
            host: as the URL names it, in canonical form.
            address: IPv4 or IPv6 as text, perhaps with a zone, or the path of a Unix socket.
            port: of the address, 0 for a Unix socket.
        """


class CheckedAddress(NamedTuple):
    """An address that a guard allows a proxy to connect to, with the host and port of the URL."""

    host: str
    port: int
    address: str
    connect_port: int
