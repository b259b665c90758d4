"""How requests travel: from the settings of a client and of a request to the Transport for a URL.

Engines compare Transports by identity, so equal settings give one and the same. What a Transport
comes to on a handle is in _curl/options.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from curlhttp._addresses import (
    ADDRESSES,
    AddressMap,
    HostMap,
    IPVersion,
    UnixSocket,
    address_fields,
)
from curlhttp._config import HTTP2, HTTP3, Cert, Proxies, Proxy, Transport, transport_for, varied
from curlhttp._network import now
from curlhttp._policy.environment import (
    ca_bundle,
    names_proxies,
    proxy_for,
    read_environment,
    select_proxy,
)
from curlhttp._trust import Pins, VerifyInput, joined_pins, pinned_host, tls_of

if TYPE_CHECKING:
    from curlhttp._curl.engines.guarded import Checkpoint
    from curlhttp._engine import Around
    from curlhttp._models.url import URL
    from curlhttp._policy.alt_svc import Alternatives
    from curlhttp._policy.guard import GuardFunction, GuardInput, PublicOnly

__all__ = ["RouteOptions", "Routing"]


class RouteOptions(TypedDict, total=False):
    """The keywords of a client and a request that say how requests travel.

    What a request leaves out is as its client has it; None takes it off, but for proxies. None
    of it goes over to other requests: connections and names are kept apart.

    Attributes:
        proxies: a proxy URL, or a mapping as in requests.
        verify: see TLS; "system" for the authorities that the machine trusts; an ssl.SSLContext,
            whose authorities, check_hostname, versions and ciphers are taken over.
        cert: see TLS.
        pins: by host, one or several of "sha256//" and the base64 of a public key's SHA-256, one
            of which the server must have (CURLOPT_PINNEDPUBLICKEY). Other hosts have none.
        uds: the path of a Unix socket to connect to, whatever the URL (CURLOPT_UNIX_SOCKET_PATH).
        resolve: an IP address, or a list of them, by "host:port", or by "host" for all its ports:
            names that are not looked up. A proxy is told the first.
        connect_to: "host:port" to connect to, or "host" for the same port, by "host:port" or
            "host" of the URL, whose name stays that of TLS and Host (CURLOPT_CONNECT_TO).
        local_address: the IP address to connect from (CURLOPT_INTERFACE).
        interface: the name of the network interface to connect through (CURLOPT_INTERFACE).
        doh: the https URL of a server that is asked for addresses (RFC 8484, CURLOPT_DOH_URL).
        ip_version: 4 or 6, to connect to such addresses alone (CURLOPT_IPRESOLVE).
        happy_eyeballs_timeout: seconds that IPv6 has before IPv4 is tried as well, 0.2 if not
            set (CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS).
    """

    proxies: Proxies
    verify: VerifyInput
    cert: Cert
    pins: Pins
    uds: UnixSocket
    resolve: AddressMap
    connect_to: HostMap
    local_address: str | None
    interface: str | None
    doh: str | None
    ip_version: IPVersion
    happy_eyeballs_timeout: float | None


Over: TypeAlias = "Callable[[Transport], Transport]"

_KNOWN = frozenset(RouteOptions.__annotations__)
# Those of build_request, for what is close to a keyword that there is not.
_REQUEST = {
    *("params", "data", "json", "content", "files", "headers", "cookies", "auth", "timeout"),
    *("follow_redirects", "allow_redirects", "stream", "max_response_size", "retry", "progress"),
}
_KEPT = 64  # Transports of one way
_UDS_OR_PROXY = "a Unix socket cannot be reached through a proxy: leave out uds or proxies"


class Routing:
    """How the requests of one client travel; checked when it is made.

    Args:
        http2: see Transport.
        http3: the same; "auto" for origins that say that they speak it (Alt-Svc).
        trust_env: heed the environment's proxies and authorities.
        settings: the client's own RouteOptions.
        certificates: see Transport.
        guard: says which addresses may be dialled, or None.
        dns_ttl: seconds that an address is good for that a proxy is told to dial.

    Attributes:
        environ: the variables that count, empty without trust_env.
        direct: the Transport of requests that take no proxy, and say nothing of their own.
        route: gives the Transport for a URL; None where `direct` is good for all.
        alternatives: the origins that speak HTTP/3, with http3="auto"; else None.
        arounds: what stands around each engine because of the guard.
        over: puts the guard over a Transport.

    Raises:
        ValueError: a setting is none, or this libcurl cannot do it.
        OSError: a file is not there.
    """

    def __init__(
        self,
        *,
        http2: HTTP2,
        http3: HTTP3,
        trust_env: bool,
        settings: RouteOptions,
        certificates: bool = False,
        guard: GuardInput = None,
        dns_ttl: float = 0.0,
    ) -> None:
        self.environ: Mapping[str, str] = read_environment() if trust_env else {}
        self.http2 = _checked_http2(http2)
        self.http3 = _checked_http3(http3) is True
        self.alternatives = _alternatives() if http3 == "auto" else None
        self.authorities = ca_bundle(self.environ) or True  # what verify=True comes to
        self.asks_environ = trust_env and names_proxies(self.environ)
        self.certificates = certificates
        self._settings = settings
        checkpoint = None if guard is None else _checkpoint(guard, dns_ttl)
        self.arounds: tuple[Around, ...] = () if checkpoint is None else (checkpoint,)
        self.over: Over = _as_it_is if checkpoint is None else checkpoint.over
        self._proxies = settings.get("proxies")
        way = _Way(self, settings, (self._proxies,))
        self.direct = way.direct
        if self._proxies and self.direct.unix_socket is not None:
            raise ValueError(_UDS_OR_PROXY)
        self.route: Callable[[URL], Transport] | None = way if way.varies else None

    def route_of(self, own: RouteOptions) -> Callable[[URL], Transport]:
        """Return what gives the Transport of a request for a URL.

        Args:
            own: what the request says of its own.

        Raises:
            TypeError: that is no setting.
            ValueError: it is not what it should be.
            OSError: a file is not there.
        """
        if not own.keys() <= _KNOWN:
            name = min(own.keys() - _KNOWN)
            from curlhttp._models.suggestions import no_keyword

            raise no_keyword("request", "a request", name, _REQUEST | _KNOWN)
        return _Way(self, {**self._settings, **own}, (own.get("proxies"), self._proxies))


class _Way:
    """Give the Transport for a URL.

    Args:
        routing: the client's.
        settings: all that is set, by the request or the client.
        proxies: what may name a proxy, in the order of precedence; then comes the environment.
    """

    __slots__ = (
        "_alternatives",
        "_base",
        "_environ",
        "_found",
        "_over",
        "_pins",
        "_proxies",
        "direct",
        "varies",
    )

    def __init__(
        self, routing: Routing, settings: RouteOptions, proxies: tuple[Proxies, ...]
    ) -> None:
        self._base = _direct(routing, settings)
        self._over = routing.over
        self.direct = self._over(self._base)
        self._pins = joined_pins(settings.get("pins"))
        self._proxies = [_by_scheme(choice) for choice in proxies if choice is not None]
        # A Unix socket is no matter of the environment's proxies.
        asks = routing.asks_environ and self.direct.unix_socket is None
        self._environ = routing.environ if asks else None
        # A proxy carries no QUIC, nor does a Unix socket.
        self._alternatives = None if self._base.unix_socket else routing.alternatives
        self.varies = bool(proxies != (None,) or self._pins or asks or self._alternatives)
        self._found: dict[tuple[str | None, str | None, bool], Transport] = {}

    def __call__(self, url: URL) -> Transport:
        proxy = self._proxy_to(url)
        pins = self._pins.get(pinned_host(url)) if self._pins else None
        others = self._alternatives
        http3 = others is not None and proxy is None and others.has_http3(url)
        found = self._found.get((proxy, pins, http3))
        if found is None:
            found = self._found[proxy, pins, http3] = self._through(proxy, pins, http3)
        return found

    def _proxy_to(self, url: URL) -> str | None:
        """Return the proxy: the request's choice, else the client's, else the environment's."""
        for choice in self._proxies:
            proxy = select_proxy(url, choice)
            if proxy is not None:
                return proxy or None
        return None if self._environ is None else proxy_for(url, self._environ)

    def _through(self, proxy: str | None, pins: str | None, http3: bool) -> Transport:
        if proxy and self.direct.unix_socket is not None:
            raise ValueError(_UDS_OR_PROXY)
        if len(self._found) >= _KEPT:  # the environment's proxies are the user's to vary
            self._found.clear()
        transport = self._base
        if proxy:
            transport = varied(transport, proxy=Proxy.parse(proxy))
        if http3:
            transport = varied(transport, http3="auto")
        return self._over(transport if pins is None else varied(transport, pins=pins))


def _by_scheme(proxies: Mapping[str, str | None] | str) -> Mapping[str, str | None]:
    if isinstance(proxies, str):
        return {"all": proxies}
    if not hasattr(proxies, "get"):
        shown = type(proxies).__name__
        raise TypeError(
            f'proxies must be a URL or a mapping by scheme, not {shown}: "http://host:1"'
        )
    return proxies


def _direct(routing: Routing, settings: RouteOptions) -> Transport:
    """Return the Transport that goes through no proxy, and heeds no pins."""
    verify, cert = settings.get("verify", True), settings.get("cert")
    if verify is True:
        verify = routing.authorities
    # Any: each field of a Transport has a type of its own.
    where: dict[str, Any] = {
        name: value for name, value in settings.items() if value is not None and name in ADDRESSES
    }
    fields = address_fields(**where) if where else {}
    if routing.certificates:
        fields["certificates"] = True
    if verify == "system" or hasattr(verify, "get_ca_certs"):
        fields["tls"] = tls_of(verify, cert)
        verify, cert = True, None
    # Any path can be hashed, and so can all of a client's certificate.
    transport = transport_for(verify, cert, None, routing.http2, routing.http3)  # type: ignore[arg-type]
    return varied(transport, **fields) if fields else transport


def _alternatives() -> Alternatives:
    from curlhttp._policy.alt_svc import Alternatives

    return Alternatives(now)


def _as_it_is(transport: Transport) -> Transport:
    return transport


def _checkpoint(guard: PublicOnly | GuardFunction, dns_ttl: float) -> Checkpoint:
    from curlhttp._curl.engines.guarded import Checkpoint
    from curlhttp._policy.guard import guard_of

    return Checkpoint(guard_of(guard), dns_ttl)


def _checked_http2(http2: HTTP2) -> HTTP2:
    if http2 not in (True, False, "prior-knowledge"):
        raise ValueError(f"http2 must be True, False or 'prior-knowledge', not {http2!r}")
    return http2


def _checked_http3(http3: HTTP3) -> HTTP3:
    if http3 not in (True, False, "auto"):
        raise ValueError(f"http3 must be True, False or 'auto', not {http3!r}")
    if http3:
        from curlhttp._curl.version import has_http3

        if not has_http3():
            raise ValueError("this libcurl was built without HTTP/3; leave http3 off")
    return http3
