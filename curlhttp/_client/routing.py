"""Choose the NetworkRoute for a URL from the settings of the client and of the request.

Engines compare NetworkRoutes by identity, so equal settings yield the same object.
_libcurl/options.py sets a NetworkRoute on a handle.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from curlhttp._client.chain import Settings
from curlhttp._client.environment import (
    find_ca_bundle,
    find_proxy,
    has_proxies,
    read_environment,
    select_proxy,
)
from curlhttp._client.features import load
from curlhttp._http.config import (
    HTTP2,
    HTTP3,
    TLS,
    NetworkRoute,
    Proxies,
    Proxy,
    derive_route,
    make_proxy_tls,
    make_route,
    make_tls,
    to_proxy_mapping,
)
from curlhttp._http.errors import check_number, validate_path
from curlhttp._http.unset import USE_CLIENT_DEFAULT
from curlhttp._http.url import bracketed, parse_url
from curlhttp._runtime.network import now
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._client.transport import Check, WrapsAttempts
    from curlhttp._http.inputs import (
        AddressMap,
        GuardInput,
        HostMap,
        IPVersion,
        Pins,
        UnixSocket,
    )
    from curlhttp._http.url import URL

# --- Convert address settings to fields of a NetworkRoute ---
#
# All of them are validated here, before anything is sent. No name is looked up.

_Value = TypeVar("_Value")

_LONGEST_SOCKET = 107  # bytes of sockaddr_un.sun_path on Linux, without the NUL at the end


def make_address_fields(
    *,
    uds: UnixSocket = None,
    resolve: AddressMap = None,
    connect_to: HostMap = None,
    local_address: str | None = None,
    interface: str | None = None,
    doh: str | None = None,
    ip_version: IPVersion = None,
    happy_eyeballs_timeout: float | None = None,
    max_send_rate: float | None = None,
    max_receive_rate: float | None = None,
) -> dict[str, object]:
    """Return the fields of a NetworkRoute that differ from its defaults.

    Args:
        uds: the path of a Unix socket to connect to instead of the URL's host.
        resolve: an address, or several, by "host:port", or by "host" for all ports.
        connect_to: "other:port", or "other" for the same port, by "host:port" or "host"; "*" is any
            host.
        local_address: the address to connect from.
        interface: the name of the network interface to connect through.
        doh: the URL of a DNS over HTTPS server (RFC 8484).
        ip_version: 4 or 6, to connect to such addresses only.
        happy_eyeballs_timeout: seconds to try IPv6 before IPv4 is tried as well.
        max_send_rate: the bytes per second that each request may send.
        max_receive_rate: the bytes per second that each request may receive.

    Raises:
        TypeError: resolve or connect_to is not a mapping.
        ValueError: a setting is invalid.
    """
    detours, addresses = _map_hosts(connect_to or {}, resolve or {})
    fields = {
        "unix_socket": None if uds is None else _validate_socket_path(uds),
        "connect_to": detours,
        "addresses": addresses,
        "local_address": None
        if local_address is None
        else (_validate_local_address(local_address), 0),
        "interface": None if interface is None else _validate_interface(interface),
        "doh": None if doh is None else _validate_doh(doh),
        "ip_version": _validate_ip_version(ip_version),
        "happy_eyeballs_ms": _to_milliseconds(happy_eyeballs_timeout),
        "max_send_rate": _validate_byte_rate("max_send_rate", max_send_rate),
        "max_receive_rate": _validate_byte_rate("max_receive_rate", max_receive_rate),
    }
    return {name: value for name, value in fields.items() if value not in (None, ())}


_ADDRESS_OPTIONS = frozenset(make_address_fields.__kwdefaults__ or ())


def _validate_socket_path(path: str | os.PathLike[str]) -> str:
    from curlhttp._libcurl import has_unix_sockets

    text = validate_path("uds", path)
    if not has_unix_sockets():
        raise ValueError("uds cannot be used: this libcurl was built without Unix sockets")
    if not text or "\0" in text or len(os.fsencode(text)) > _LONGEST_SOCKET:
        raise ValueError(f"uds must be a path of 1 to {_LONGEST_SOCKET} bytes, not {text!r}")
    return text


def _validate_local_address(address: str) -> str:
    from ipaddress import ip_address  # slow to load

    try:
        return str(ip_address(str(address)))  # not a number, which may be an address too
    except ValueError:
        raise ValueError(
            f"local_address must be an IP address of this machine, not {address!r}; "
            "to pass the name of a network interface, use interface="
        ) from None


def _validate_interface(name: str) -> str:
    # libcurl reads "host!" and "if!" as prefixes.
    is_name = isinstance(name, str) and name.isprintable()
    if not name or not is_name or "!" in name or " " in name:
        raise ValueError(f"interface must be the name of a network interface, not {name!r}")
    return name


def _validate_doh(text: str) -> str:
    url = _parse_url_for(text, "doh must be the URL of a name server")
    if url.scheme != "https" or url.username is not None:
        raise ValueError("doh must be an https:// URL without credentials")
    return url.wire


def _validate_ip_version(version: IPVersion) -> IPVersion:
    if version not in (None, 4, 6):
        raise ValueError(f"ip_version must be 4, 6 or None, not {version!r}")
    return version


def _validate_byte_rate(name: str, rate: float | None) -> int | None:
    check_number(name, rate, least=1, most=2**62, unit="bytes per second", optional=True)
    return None if rate is None else int(rate)


def _to_milliseconds(seconds: float | None) -> int | None:
    check_number("happy_eyeballs_timeout", seconds, most=3600, unit="seconds", optional=True)
    if seconds is None:
        return None
    return max(1, math.ceil(seconds * 1000))  # 0 would mean libcurl's own default


def _map_hosts(
    connect_to: Mapping[str, str], resolve: Mapping[str, str | Sequence[str]]
) -> tuple[tuple[str, ...], tuple[tuple[str, str, tuple[str, ...]], ...]]:
    """Return NetworkRoute.connect_to and NetworkRoute.addresses for both mappings.

    If each host has one address, those become part of connect_to: entries of CURLOPT_RESOLVE stay
    in libcurl's DNS cache, so requests with them need a separate cache and separate connections.
    """
    for name, given in (("connect_to", connect_to), ("resolve", resolve)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping by host, not {type(given).__name__}")
    named = {
        _parse_host_port(key, "resolve"): _parse_addresses(key, value)
        for key, value in resolve.items()
    }
    has_several = any(len(addresses) > 1 for addresses in named.values())
    found = {} if has_several else {place: (known[0], "") for place, known in named.items()}
    for key, value in connect_to.items():
        place = _parse_place(key)
        host, port = _parse_host_port(value, "connect_to")
        address = None
        if not has_several:
            address = named.get((host, port or place[1])) or named.get((host, ""))
        found[place] = (address[0] if address else host, port)
    detours = tuple(
        f"{bracketed(host)}:{port}:{bracketed(to)}:{to_port}"
        for (host, port), (to, to_port) in _sort_by_port(found)
    )
    several = _sort_by_port(named) if has_several else []
    return detours, tuple((host, port, addresses) for (host, port), addresses in several)


def _sort_by_port(places: Mapping[tuple[str, str], _Value]) -> list[tuple[tuple[str, str], _Value]]:
    """Return entries for one host, and for one port, before others: the first match counts."""
    return sorted(places.items(), key=lambda entry: (not entry[0][0], not entry[0][1]))


def _parse_place(key: str) -> tuple[str, str]:
    """Return host and port of a key of connect_to; the host is "" for "*", as in libcurl."""
    if isinstance(key, str) and (key == "*" or (key.startswith("*:") and key[2:].isdigit())):
        return "", key[2:]
    return _parse_host_port(key, "connect_to")


def _parse_host_port(text: str, setting: str) -> tuple[str, str]:
    """Return canonical host and port of "host:port"; the port is "" if the text has none."""
    wanted = f'{setting} takes "host" or "host:port"'
    if not isinstance(text, str) or not text or set(text) & set("/?#@\\"):
        raise ValueError(f"{wanted}, not {text!r}")
    url = _parse_url_for(f"https://{text}", wanted)
    has_port = text.rpartition("]")[2].rpartition(":")[2].isdigit() and ":" in text
    return url.host.strip("[]"), str(url.port) if has_port else ""


def _parse_addresses(key: str, value: str | Sequence[str]) -> tuple[str, ...]:
    several = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
    if not several:
        raise ValueError(f"resolve must have an IP address for {key!r}")
    return tuple(dict.fromkeys(_parse_address(key, each) for each in several))


def _parse_address(key: str, value: str) -> str:
    from ipaddress import ip_address

    try:
        return str(ip_address(value.strip("[]")))
    except (ValueError, AttributeError):
        raise ValueError(
            f"resolve must have an IP address for {key!r}, not {value!r}; "
            "to connect to another name, use connect_to="
        ) from None


def _parse_url_for(text: str, wanted: str) -> URL:
    try:
        return parse_url(text)
    except RequestException as error:
        raise ValueError(f"{wanted}: {error}") from None


# --- Convert pins= to TLS settings ---

_SHA256 = "sha256//"
_HASH_SIZE = 32  # bytes
_HTTPS = 443


def join_pins(pins: Pins) -> dict[str, str]:
    """Return the values for CURLOPT_PINNEDPUBLICKEY by canonical host.

    Args:
        pins: by host, one or several of "sha256//" and the hash of a public key in base64.

    Raises:
        TypeError: it is not a mapping.
        ValueError: a host or a pin is invalid.
    """
    if pins is not None and not isinstance(pins, Mapping):
        raise TypeError(f"pins must be a mapping by host, not {type(pins).__name__}")
    found = {}
    for host, given in (pins or {}).items():
        each = [given] if isinstance(given, str) else list(given)
        if not each:
            raise ValueError(f"pins has no pin for {host!r}: omit the host")
        for pin in each:
            _validate_pin(pin)
        found[_parse_pinned_host(host)] = ";".join(each)
    return found


def _validate_pin(pin: str) -> None:
    from base64 import b64decode

    try:
        digest = b64decode(pin.removeprefix(_SHA256), validate=True)
    except (ValueError, AttributeError):
        digest = b""
    if len(digest) != _HASH_SIZE or not pin.startswith(_SHA256):
        raise ValueError(
            f"a pin must be {_SHA256!r} and the SHA-256 of a public key in base64 (44 "
            f"characters), not {pin!r}"
        )


def _parse_pinned_host(host: str) -> str:
    url: URL | None
    try:
        url = parse_url(f"https://{host}")
    except RequestException:
        url = None
    if url is None or url.port != _HTTPS or set(host) & set("/?#@\\"):
        raise ValueError(f"the keys of pins must be host names without a port, not {host!r}")
    return to_pinned_host(url)


def to_pinned_host(url: URL) -> str:
    """Return the host name that pins use: as in the certificate, without a final dot."""
    return url.host.rstrip(".")


TransportWrapper: TypeAlias = "Callable[[NetworkRoute], NetworkRoute]"

_ROUTE_OPTIONS = frozenset(  # the keys of RouteOptions
    {
        *("proxies", "verify", "cert", "pins", "uds", "resolve", "connect_to", "local_address"),
        *("interface", "doh", "ip_version", "happy_eyeballs_timeout"),
        *("max_send_rate", "max_receive_rate"),
    }
)
_MAX_CACHED = 64  # Transports per selector
_UDS_OR_PROXY = "a Unix socket cannot be reached through a proxy: leave out uds or proxies"


def choose_route_options(settings: Settings) -> Settings:
    """Return those of some settings that are for routes."""
    return {name: settings[name] for name in _ROUTE_OPTIONS}


class Routing:
    """Validate the route settings of one client, and choose the NetworkRoute for each request.

    Args:
        http2: see NetworkRoute.
        http3: see NetworkRoute; "auto" for origins that advertise it (Alt-Svc).
        trust_env: use the environment's proxies and CA certificates.
        settings: the client's RouteOptions.
        certificates: see NetworkRoute.
        guard: decides which addresses the client may connect to, or None.
        dns_ttl: seconds for which the guard may reuse an address that it looked up for a proxy.

    Attributes:
        environ: the environment variables to use; empty without trust_env.
        direct: the NetworkRoute of requests without a proxy and without route settings.
        route: returns the NetworkRoute for a URL; None if all requests use `direct`.
        alternatives: the origins that advertised HTTP/3, with http3="auto"; else None.
        wrappers: check each attempt against the guard, if there is one.
        check: does the same for what a transport sends; None without a guard.
        with_guard: adds the guard to a NetworkRoute.

    Raises:
        ValueError: a setting is invalid, or this libcurl does not support it.
        OSError: a file is missing.
    """

    def __init__(
        self,
        *,
        http2: HTTP2,
        http3: HTTP3,
        trust_env: bool,
        settings: Settings,
        certificates: bool = False,
        guard: GuardInput = None,
        dns_ttl: float = 0.0,
    ) -> None:
        self.environ: Mapping[str, str] = read_environment() if trust_env else {}
        self.http2 = _validate_http2(http2)
        self.http3 = _validate_http3(http3) is True
        self.alternatives = load("alt_svc.policy").AltSvcCache(now) if http3 == "auto" else None
        self.authorities = find_ca_bundle(self.environ)  # used for verify=True
        self.uses_environ_proxies = trust_env and has_proxies(self.environ)
        self.certificates = certificates
        self._settings = settings
        checker = None if guard is None else load("guard.checker").make_checker(guard, dns_ttl)
        self.wrappers: tuple[WrapsAttempts, ...] = () if checker is None else (checker,)
        self.check: Check | None = None if checker is None else checker.check
        self.with_guard: TransportWrapper = _unchanged if checker is None else checker.guard_route
        self._proxies = settings.get("proxies")
        selector = _RouteSelector(self, settings, (self._proxies,))
        self.direct = selector.direct
        if self._proxies and self.direct.unix_socket is not None:
            raise ValueError(_UDS_OR_PROXY)
        selector.check_proxies()
        self.route: Callable[[URL], NetworkRoute] | None = (
            selector if selector.depends_on_url else None
        )

    def make_route(self, own: Mapping[str, object]) -> Callable[[URL], NetworkRoute]:
        """Return a function from URL to NetworkRoute for one request.

        Args:
            own: the request's own settings, as RouteOptions.

        Raises:
            TypeError: a keyword is unknown.
            ValueError: a setting is invalid.
            OSError: a file is missing.
        """
        if not own.keys() <= _ROUTE_OPTIONS:
            from curlhttp._client.options import RequestOptions
            from curlhttp._http.suggestions import no_keyword

            name = min(own.keys() - _ROUTE_OPTIONS)
            raise no_keyword("request", "a request", name, RequestOptions.__annotations__)
        given: Settings = {
            name: value for name, value in own.items() if value is not USE_CLIENT_DEFAULT
        }
        proxies = (given.get("proxies"), self._proxies)
        return _RouteSelector(self, {**self._settings, **given}, proxies)


class _RouteSelector:
    """Select the NetworkRoute for a URL.

    Args:
        routing: the client's.
        settings: the client's, overridden by the request's.
        proxies: settings of proxies by precedence; the environment comes last.
    """

    __slots__ = (
        "_alternatives",
        "_authorities",
        "_base",
        "_environ",
        "_found",
        "_pins",
        "_proxies",
        "_with_guard",
        "depends_on_url",
        "direct",
    )

    def __init__(self, routing: Routing, settings: Settings, proxies: tuple[Proxies, ...]) -> None:
        self._base = _make_direct_route(routing, settings)
        self._authorities = routing.authorities
        self._with_guard = routing.with_guard
        self.direct = self._with_guard(self._base)
        self._pins = join_pins(settings.get("pins"))
        self._proxies = [to_proxy_mapping(choice) for choice in proxies if choice is not None]
        # The environment's proxies do not apply to a Unix socket.
        uses_environ = routing.uses_environ_proxies and self.direct.unix_socket is None
        self._environ = routing.environ if uses_environ else None
        # Neither a proxy nor a Unix socket can carry QUIC.
        self._alternatives = None if self._base.unix_socket else routing.alternatives
        self.depends_on_url = bool(
            proxies != (None,) or self._pins or uses_environ or self._alternatives
        )
        self._found: dict[tuple[str | Proxy | None, str | None, bool], NetworkRoute] = {}

    def __call__(self, url: URL) -> NetworkRoute:
        proxy = self._find_proxy(url)
        pins = self._pins.get(to_pinned_host(url)) if self._pins else None
        others = self._alternatives
        http3 = others is not None and proxy is None and others.has_http3(url)
        found = self._found.get((proxy, pins, http3))
        if found is None:
            found = self._found[proxy, pins, http3] = self._make_route(proxy, pins, http3)
        return found

    def check_proxies(self) -> None:
        """Raise now if libcurl's TLS library cannot do what a Proxy asks for."""
        for choice in self._proxies:
            for proxy in choice.values():
                if isinstance(proxy, Proxy):
                    self._make_route(proxy, None, False)

    def _find_proxy(self, url: URL) -> str | Proxy | None:
        """Return the proxy of the request, else of the client, else of the environment."""
        for choice in self._proxies:
            proxy = select_proxy(url, choice)
            if proxy is not None:
                return proxy or None
        return None if self._environ is None else find_proxy(url, self._environ)

    def _make_route(self, proxy: str | Proxy | None, pins: str | None, http3: bool) -> NetworkRoute:
        if proxy and self.direct.unix_socket is not None:
            raise ValueError(_UDS_OR_PROXY)
        if len(self._found) >= _MAX_CACHED:  # a program may change the environment's proxies
            self._found.clear()
        route = self._base
        if proxy:
            made = Proxy.parse(proxy) if isinstance(proxy, str) else proxy
            proxy_tls = make_proxy_tls(made, route.tls, self._authorities)
            if proxy_tls is not None:
                from curlhttp._libcurl.options import check_tls

                check_tls(proxy_tls)
            route = derive_route(route, proxy=made, proxy_tls=proxy_tls)
        if http3:
            route = derive_route(route, http3="auto")
        return self._with_guard(route if pins is None else derive_route(route, pins=pins))


def _make_direct_route(routing: Routing, settings: Settings) -> NetworkRoute:
    """Return the NetworkRoute without proxy and pins."""
    verify, cert = settings.get("verify", True), settings.get("cert")
    # Any: each field of a NetworkRoute has its own type.
    where: dict[str, Any] = {
        name: value
        for name, value in settings.items()
        if value is not None and name in _ADDRESS_OPTIONS
    }
    fields = make_address_fields(**where) if where else {}
    if routing.certificates:
        fields["certificates"] = True
    if verify == "system" or hasattr(verify, "get_ca_certs"):
        fields["tls"] = make_tls(verify, cert)
        verify, cert = True, None
    elif verify is True and routing.authorities is not None:
        # Programs that only use http work without this file.
        fields["tls"] = TLS(verify=routing.authorities, cert=cert, must_exist=False)
        cert = None
    try:
        route = make_route(verify, cert, None, routing.http2, routing.http3)
    except TypeError:
        TLS(verify=verify, cert=cert)  # has a better error for a list
        raise
    made = derive_route(route, **fields) if fields else route
    if made.tls != TLS():
        from curlhttp._libcurl.options import check_tls

        check_tls(made.tls)
    return made


def _unchanged(route: NetworkRoute) -> NetworkRoute:
    return route


def _validate_http2(http2: HTTP2) -> HTTP2:
    if http2 not in (True, False, "prior-knowledge"):
        raise ValueError(f"http2 must be True, False or 'prior-knowledge', not {http2!r}")
    return http2


def _validate_http3(http3: HTTP3) -> HTTP3:
    if http3 not in (True, False, "auto"):
        raise ValueError(f"http3 must be True, False or 'auto', not {http3!r}")
    if http3:
        from curlhttp._libcurl import has_http3

        if not has_http3():
            raise ValueError("this libcurl was built without HTTP/3; leave http3 off")
    return http3
