"""Know which names libcurl has to look up, hand it their addresses, and make it forget names.

It has to forget those that could not be connected to, and those of too many hosts.

libcurl keeps each name that it looked up, and each literal address, in the cache of its curl_multi
for `dns_ttl`. It keeps a failed look-up for half of that time, and an address that refuses
connections until the end. At the start of each transfer it walks the whole cache. An entry
"-host:port" of CURLOPT_RESOLVE removes one name, before the transfer that has the option starts.
"""

from __future__ import annotations

import math
from contextlib import suppress
from time import monotonic
from typing import Protocol, cast

from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.request import ClientRequest
from curlhttp._http.url import bracketed
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.options import address_options, get_addresses, get_connect_target

_MOST_NAMES = 400  # in the cache of one curl_multi; walking them takes a tenth of a small request
_MOST_FAILED = 1000
_PROXY_PORTS = {"http": 80, "https": 443}  # SOCKS: 1080
_RESOLVING_PROXIES = ("socks4:", "socks5:")  # libcurl looks the target up for them
_KNOWN = ("localhost", "onion")  # the one is loopback, the other has no addresses (RFC 7686)

_NEVER: tuple[float, list[str]] = (-math.inf, [])
FAILED: dict[str, tuple[float, list[str]]] = {}
"""For each route whose connection failed: until when it matters, and the entries to remove.

All caches of the process may have the name, so each transfer removes it until all have expired.
"""


def _name_route(request: ClientRequest) -> str:
    """Return what names are kept for: the proxy, else the origin."""
    proxy = request.route.proxy
    return request.url.origin if proxy is None else proxy.url


class Name(NamedTuple):
    """A name that has to be looked up.

    Attributes:
        host: in ASCII, lower case.
        port: as in libcurl's cache.
        is_proxy: it is the name of a proxy.
    """

    host: str
    port: int
    is_proxy: bool = False

    @property
    def key(self) -> str:
        """Return what libcurl's cache knows it by."""
        return f"{bracketed(self.host)}:{self.port}"


def _parse_name(url: str, *, is_proxy: bool = False) -> Name:
    from urllib.parse import urlsplit  # slow to load

    parts = urlsplit(url)
    port = parts.port or _PROXY_PORTS.get(parts.scheme, 1080)
    return Name(parts.hostname or "", port, is_proxy)


def get_names(request: ClientRequest) -> list[Name]:
    """Return the names that the system has to look up for a request, in libcurl's order."""
    route, url = request.route, request.url
    proxy = route.proxy
    if route.unix_socket is not None:
        return []
    if route.doh is not None:  # which looks up the others
        names = [_parse_name(route.doh)]
    else:
        names = [] if proxy is None else [_parse_name(proxy.url, is_proxy=True)]
        if proxy is None or proxy.url.startswith(_RESOLVING_PROXIES):
            host, port = get_connect_target(route, url.host, url.port)
            if route.checked_address is None and not get_addresses(route, host, port):
                names.append(Name(host.lower(), port))
    return [name for name in names if _is_looked_up(name.host)]


def _is_looked_up(host: str) -> bool:
    """Return whether libcurl would ask the system for a host: not for addresses and localhost."""
    last = host.rstrip(".").rpartition(".")[2]
    return bool(last) and ":" not in host and not last.isdigit() and last not in _KNOWN


class _Addresses(Protocol):
    def use(self, *, is_kept: bool) -> list[str]: ...


def _get_removals(request: ClientRequest) -> list[str]:
    """Return the values of CURLOPT_RESOLVE that remove the names that a request looks up."""
    route, url = request.route, request.url
    names = []
    target = get_connect_target(route, url.host, url.port)
    if not get_addresses(route, *target):
        names.append(Name(*target))
    others = (None if route.proxy is None else route.proxy.url, route.doh)
    names += map(_parse_name, filter(None, others))
    return [f"-{name.key}" for name in names]


def has_failed(request: ClientRequest) -> bool:
    """Return whether a connection for such a request failed within the last dns_ttl seconds."""
    until, _ = FAILED.get(_name_route(request), _NEVER)
    return until > monotonic()


def _pop_oldest(now: float) -> None:
    """Remove the oldest failure, if it has expired."""
    with suppress(StopIteration, RuntimeError):  # another thread has changed them
        route, (until, _) = next(iter(FAILED.items()))
        if until <= now:
            FAILED.pop(route, None)


class CachedNames:
    """The names that are in the cache of one curl_multi.

    Args:
        ttl: the seconds for which libcurl keeps a name (`dns_ttl`).

    Attributes:
        surplus: values of CURLOPT_RESOLVE that remove the oldest ones.
    """

    __slots__ = ("_by_route", "_ttl", "surplus")

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._by_route: dict[str, list[str]] = {}
        self.surplus: list[str] = []

    def add(self, request: ClientRequest) -> None:
        """Note that libcurl has looked up the names of a request."""
        if request.route.share_key is not None:
            return  # they are in the cache of a pycurl.CurlShare
        route = _name_route(request)
        if route not in self._by_route:
            self._by_route[route] = _get_removals(request)
            if len(self._by_route) > _MOST_NAMES:
                self.surplus += self._by_route.pop(next(iter(self._by_route)))

    def forget(self, request: ClientRequest) -> None:
        """Let the next transfers look up the names of a request for which no connection was made.

        A name may have moved. Transfers on other curl_multis look it up again too.
        """
        self.add(request)
        if self._ttl < 1:  # libcurl keeps none
            return
        route = _name_route(request)
        FAILED.pop(route, None)  # so that the oldest is first
        if len(FAILED) >= _MOST_FAILED:
            _pop_oldest(math.inf)
        FAILED[route] = monotonic() + self._ttl, _get_removals(request)

    def set_removals(self, easy: pycurl.Curl, request: ClientRequest) -> None:
        """Make a transfer remove names from the cache when it starts, if there are some to remove.

        Args:
            easy: about to be added to the curl_multi; libcurl reads the option once, at its start.
            request: that it sends.
        """
        removals, self.surplus = self.surplus, []
        route = _name_route(request)
        until, names = FAILED.get(route, _NEVER)
        now = monotonic()
        if until > now:
            removals += names
        else:
            _pop_oldest(now)  # so that requests do nothing here once all have expired
        if removals:
            easy.setopt(pycurl.RESOLVE, removals + _get_configured(request))

    def set_addresses(
        self, easy: pycurl.Curl, request: ClientRequest, addresses: _Addresses
    ) -> None:
        """Make a transfer put addresses into the cache when it starts.

        Args:
            easy: about to be added to the curl_multi again.
            request: that it sends.
            addresses: of its names.
        """
        # Without dns_ttl, libcurl would not even use them once; the next transfer removes them.
        is_kept = self._ttl >= 1 or request.route.share_key is not None
        if not is_kept:
            self.surplus += _get_removals(request)
        entries = addresses.use(is_kept=is_kept)
        easy.setopt(pycurl.RESOLVE, entries + _get_configured(request))


def _get_configured(request: ClientRequest) -> list[str]:
    """Return the value of CURLOPT_RESOLVE that the request itself needs."""
    route = request.route
    if not route.addresses or route.checked_address is not None:
        return []
    options = dict(address_options(route, request.url))
    return cast("list[str]", options.get(pycurl.RESOLVE, []))
