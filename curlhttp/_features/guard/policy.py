"""Decide which addresses a client may connect to: public ones, or what a function allows.

This module resolves no names and opens no sockets. Code that connects calls it for each address.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args
from uuid import uuid4

from curlhttp._http.errors import check_flags
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import parse_origin

if TYPE_CHECKING:
    from curlhttp._http.address_guard import AddressGuard
    from curlhttp._http.inputs import GuardFunction

# --- Special-purpose addresses, which are not on the public Internet ---
#
# Python's `is_global` differs between releases, and ignores IPv4 addresses within IPv6. The list is
# that of IANA's special-purpose registries (RFC 6890), plus addresses that only look public.

Address: TypeAlias = "IPv4Address | IPv6Address"
Network: TypeAlias = "IPv4Network | IPv6Network"

_IPV4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),  # RFC 791; Linux connects to this machine
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
        ("168.63.129.16/32", "metadata"),  # of Azure; looks public, but is inside
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_IPV6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "reserved"),  # RFC 2928: Teredo, benchmarks, ORCHID
        ("2001:db8::/32", "documentation"),  # RFC 3849
        ("2002::/16", "6to4"),  # RFC 3056: contains an IPv4 address; obsolete
        ("3fff::/20", "documentation"),  # RFC 9637
        # Outside of 2000::/3, these have names.
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
def expand_address(address: str) -> tuple[Address, ...]:
    """Return an address without its zone, followed by the IPv4 address that it maps to, if any.

    ::ffff:a.b.c.d is connected to over IPv4, and 64:ff9b::a.b.c.d is translated to IPv4 on the way.
    The other addresses that contain an IPv4 address (6to4, Teredo) are not public themselves.

    Args:
        address: IPv4 or IPv6 in text.

    Raises:
        ValueError: it is not an address.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return (found,)
    if found in _NAT64:
        return found, IPv4Address(int(found) & 0xFFFFFFFF)
    return (found,) if found.ipv4_mapped is None else (found, found.ipv4_mapped)


def expand_network(network: Network) -> tuple[Network, ...]:
    """Return a network, followed by the IPv4 network that it maps to; see expand_address().

    Args:
        network: IPv4 or IPv6.
    """
    if isinstance(network, IPv4Network):
        return (network,)
    if not (network.subnet_of(_NAT64) or network.subnet_of(_MAPPED)):
        return (network,)
    return network, IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))


@lru_cache(maxsize=1024)
def get_special_purpose(address: Address) -> str | None:
    """Return what kind of address it is, such as "private", None for a public one.

    Args:
        address: the last one that expand_address() returned.
    """
    if isinstance(address, IPv4Address):
        return next((what for network, what in _IPV4 if address in network), None)
    what = next((what for network, what in _IPV6 if address in network), None)
    return what or (None if address in _GLOBAL_UNICAST else "reserved")


Entry: TypeAlias = str | IPv4Address | IPv6Address | IPv4Network | IPv6Network

_LOOKS_LIKE_AN_ADDRESS = re.compile(r"[\[:/]|(?:^|\.)(?:0[xX][0-9a-fA-F]*|[0-9]+)\.?$").search


class _Entries(NamedTuple):
    """A parsed `allow` or `deny` list."""

    networks: tuple[Network, ...]
    hosts: frozenset[str]
    paths: frozenset[str]

    def find(self, host: str, path: str | None, found: tuple[Address, ...]) -> str | None:
        """Return the entry that matches an address, or None."""
        if path is not None and path in self.paths:
            return path
        if host in self.hosts:
            return host
        if not self.networks:
            return None
        return next((str(net) for net in self.networks for each in found if each in net), None)


@with_suggestions("PublicOnly")
class PublicOnly:
    """Allow connections to public addresses only: protection against SSRF.

    The client checks each address before it connects, on each redirect and in each attempt, and
    also the address of a connection that it reuses. So it does not matter how the URL spells an
    address, what a name resolves to the second time, or where a redirect leads. It refuses
    addresses that are not on the public Internet: private, loopback, link-local (where clouds serve
    credentials), shared, multicast, reserved, documentation and benchmark networks; IPv6 addresses
    that contain such an IPv4 address; and Unix sockets.

    With a proxy, the client resolves the name, and passes an address that it has checked to the
    proxy; http then uses a tunnel. The address of the proxy itself is not checked.

    Args:
        allow: what to allow in addition: networks ("10.1.0.0/16"), addresses, host names (with any
            address that they resolve to; no wildcards), and paths of Unix sockets.
        deny: what to refuse even if it is public or allowed.
        https_only: refuse requests without TLS, on each redirect.
        proxies: "judge" as described above, or "trust" to let proxies resolve names and connect to
            any address.

    Raises:
        ValueError: an entry or the value of `proxies` is invalid.
    """

    __slots__ = ("_allow", "_deny", "_name", "_trusts_proxies", "https_only")

    def __init__(
        self,
        *,
        allow: Iterable[Entry] = (),
        deny: Iterable[Entry] = (),
        https_only: bool = False,
        proxies: Literal["judge", "trust"] = "judge",
    ) -> None:
        if proxies not in ("judge", "trust"):
            raise ValueError(f'proxies must be "judge" or "trust", not {proxies!r}')
        self._allow = _parse_entries(allow, "allow")
        self._deny = _parse_entries(deny, "deny")
        check_flags(https_only=https_only)
        self.https_only: bool = https_only
        self._trusts_proxies: bool = proxies == "trust"
        lists = [
            sorted(str(one) for part in each for one in part) for each in (self._allow, self._deny)
        ]
        self._name: str = repr((*lists, self.https_only, self._trusts_proxies))

    def __call__(self, host: str, address: str, port: int) -> bool:
        """Return whether the client may connect to an address. Your own guard can call this.

        Args:
            host: of the URL.
            address: IPv4 or IPv6 in text, or the path of a Unix socket.
            port: not used.
        """
        return self.objection(host, address, port) is None

    def objection(self, host: str, address: str, port: int) -> str | None:
        """Return why an address is refused, None if it is allowed; see __call__."""
        name = host.rstrip(".").lower()
        path: str | None = None
        try:
            found = expand_address(address)
        except ValueError:  # the path of a Unix socket, which may be relative
            path, found = address, ()
        denied = self._deny.find(name, path, found)
        if denied is not None:
            return f"denied by {denied}"
        what = get_special_purpose(found[-1]) if found else "a Unix socket"
        if what is None or self._allow.find(name, path, found) is not None:
            return None
        return f"not public: {what}"


def _parse_entries(entries: Iterable[Entry], which: str) -> _Entries:
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
        raise ValueError(f"{which} must be a list of networks and names, not {entries!r:.100}")
    networks: list[Network] = []
    hosts: set[str] = set()
    paths: set[str] = set()
    for entry in entries:
        if not isinstance(entry, get_args(Entry)):
            raise ValueError(f"{which} has an entry that is neither text nor network: {entry!r}")
        text = str(entry)
        try:
            if text.startswith("/"):
                paths.add(text)
            elif _LOOKS_LIKE_AN_ADDRESS(text):
                networks.extend(expand_network(ip_network(text)))
            else:
                hosts.add(parse_origin(f"http://{text}").host.rstrip("."))
        except ValueError:  # an InvalidURL, too
            shown = "one with @" if "@" in text else repr(text)
            raise ValueError(
                f"{which} has an entry that is not a network, address, host name or path: {shown}"
            ) from None
    return _Entries(tuple(networks), frozenset(hosts), frozenset(paths))


class _FunctionGuard:
    """A guard that calls the user's function."""

    __slots__ = ("_function", "_name")

    https_only = False
    _trusts_proxies = False

    def __init__(self, function: GuardFunction) -> None:
        self._function = function
        self._name = uuid4().hex  # because no two functions can be compared

    def objection(self, host: str, address: str, port: int) -> str | None:
        """Return why an address is refused, None if it is allowed."""
        allowed: object = self._function(host, address, port)
        if inspect.iscoroutine(allowed):
            allowed.close()  # otherwise Python warns that it was never awaited
            raise TypeError("a guard must return at once: it cannot be async")
        return None if allowed else "refused by the guard"


def to_address_guard(guard: PublicOnly | GuardFunction) -> AddressGuard:
    """Return the AddressGuard for a `guard=` argument.

    Args:
        guard: a PublicOnly, or a function of (host, address, port).

    Raises:
        TypeError: the guard is neither, or async.
    """
    if isinstance(guard, PublicOnly):
        return guard
    if isinstance(guard, type) or not callable(guard):
        raise TypeError(
            f"guard must be a PublicOnly() or a function of (host, address, port), not {guard!r}"
        )
    if inspect.iscoroutinefunction(guard) or inspect.iscoroutinefunction(type(guard).__call__):
        raise TypeError("a guard must return at once: it cannot be async")
    return _FunctionGuard(guard)
