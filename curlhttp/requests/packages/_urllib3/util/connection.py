"""urllib3.util.connection: the switch for IPv6, which programs turn off to force IPv4."""

from __future__ import annotations

import socket

__all__ = ["HAS_IPV6", "allowed_gai_family"]

HAS_IPV6 = socket.has_ipv6


def allowed_gai_family() -> socket.AddressFamily:
    """Return AF_UNSPEC where IPv6 may be used, else AF_INET."""
    return socket.AF_UNSPEC if HAS_IPV6 else socket.AF_INET
