"""What a guard of addresses is for those below, whoever decides; see _policy/guard.py."""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["AddressGuard", "JudgedTarget"]


class AddressGuard(Protocol):
    """Say which addresses may be dialled."""

    def __hash__(self) -> int:
        """Return what tells it from others: it is compared by identity."""

    @property
    def name(self) -> str:
        """Return what tells it from guards that judge otherwise, in other processes, too."""

    @property
    def https_only(self) -> bool:
        """Return whether requests without TLS are refused."""

    @property
    def trusts_proxies(self) -> bool:
        """Return whether what a proxy dials is the proxy's business."""

    def objection(self, host: str, address: str, port: int) -> str | None:
        """Return what speaks against dialling an address, None for nothing.

        Args:
            host: as the URL names it, in canonical form.
            address: IPv4 or IPv6 in text, maybe with a zone, or the path of a Unix socket.
            port: of the address, 0 for a Unix socket.
        """


class JudgedTarget(NamedTuple):
    """What a guard lets a proxy dial, and the host and port of the URL that it stands for."""

    host: str
    port: int
    address: str
    dialled_port: int
