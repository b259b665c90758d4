"""Which addresses are on the public Internet, by our own list of those that are not.

Python's `is_global` differs from one release to the next, and says nothing of IPv4 within IPv6.
The list is that of IANA's special-purpose registries (RFC 6890), and of what only looks public.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

__all__ = ["Address", "Network", "forms", "network_forms", "why_not_public"]

Address: TypeAlias = "IPv4Address | IPv6Address"
Network: TypeAlias = "IPv4Network | IPv6Network"

_IPV4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),  # RFC 791; Linux dials this machine
        ("10.0.0.0/8", "private"),  # RFC 1918
        ("100.64.0.0/10", "shared"),  # RFC 6598, carrier-grade NAT; 100.100.100.200 of Alibaba
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),  # RFC 3927, with 169.254.169.254 of most clouds
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),  # RFC 6890; 192.0.0.192 of Oracle
        ("192.0.2.0/24", "documentation"),  # RFC 5737
        ("192.88.99.0/24", "reserved"),  # RFC 7526, relays of 6to4
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),  # RFC 2544
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),  # with 255.255.255.255
        ("168.63.129.16/32", "metadata"),  # of Azure, which looks public and is inside
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_IPV6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "reserved"),  # RFC 2928: Teredo, benchmarks, ORCHID
        ("2001:db8::/32", "documentation"),  # RFC 3849
        ("2002::/16", "6to4"),  # RFC 3056: holds an IPv4 address, and nobody needs it any more
        ("3fff::/20", "documentation"),  # RFC 9637
        # Of what lies outside of 2000::/3, these have names.
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),  # RFC 4291, section 2.5.5.1
        ("64:ff9b:1::/48", "NAT64 of a local network"),  # RFC 8215
        ("fc00::/7", "private"),  # RFC 4193; fd00:ec2::254 of AWS
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),  # RFC 3879, site-local
        ("ff00::/8", "multicast"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052
_MAPPED = IPv6Network("::ffff:0:0/96")


@lru_cache(maxsize=1024)
def forms(address: str) -> tuple[Address, ...]:
    """Return an address without its zone, and the IPv4 address that it comes to, if it is IPv6.

    ::ffff:a.b.c.d is dialled over IPv4, and what is sent to 64:ff9b::a.b.c.d is translated on
    its way. All other addresses that hold one (6to4, Teredo) are not public themselves.

    Args:
        address: IPv4 or IPv6 in text.

    Raises:
        ValueError: it is none.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return (found,)
    if found in _NAT64:
        return found, IPv4Address(int(found) & 0xFFFFFFFF)
    return (found,) if found.ipv4_mapped is None else (found, found.ipv4_mapped)


def network_forms(network: Network) -> tuple[Network, ...]:
    """Return a network, and the IPv4 network that its addresses come to, as forms() has them.

    Args:
        network: of either version.
    """
    if isinstance(network, IPv4Network):
        return (network,)
    if not (network.subnet_of(_NAT64) or network.subnet_of(_MAPPED)):
        return (network,)
    return network, IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))


@lru_cache(maxsize=1024)
def why_not_public(address: Address) -> str | None:
    """Return what an address is that is not on the public Internet, None if it is there.

    Args:
        address: the last of its forms.
    """
    if isinstance(address, IPv4Address):
        return next((what for network, what in _IPV4 if address in network), None)
    what = next((what for network, what in _IPV6 if address in network), None)
    return what or (None if address in _GLOBAL_UNICAST else "reserved")
