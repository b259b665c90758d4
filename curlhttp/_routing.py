"""How requests travel: from the settings of a client and of a request to the Transport for a URL.

Engines compare Transports by identity, so equal settings give one and the same. What a Transport
comes to on a handle is in _curl/options.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from curlhttp._config import HTTP2, Cert, Proxies, Transport, Verify, transport_for
from curlhttp._policy.environment import (
    ca_bundle,
    names_proxies,
    proxy_for,
    read_environment,
    select_proxy,
)

if TYPE_CHECKING:
    from curlhttp._models.url.url import URL

__all__ = ["RouteOptions", "Routing"]


class RouteOptions(TypedDict, total=False):
    """The keywords of a request that say how it travels; what is left out is the client's."""

    proxies: Proxies
    verify: Verify
    cert: Cert


_KNOWN = RouteOptions.__optional_keys__
_NOTHING_OWN: RouteOptions = {}


class Routing:
    """How the requests of one client travel; checked when it is made.

    Args:
        http2: see Transport.
        http3: the same.
        verify: see TLS; True for what the environment names, else for certifi's.
        cert: see TLS.
        proxies: a proxy URL, or a mapping as in requests.
        trust_env: heed the environment's proxies and authorities.

    Attributes:
        environ: the variables that count, empty without trust_env.
        direct: the Transport of requests that take no proxy, and say nothing of their own.
        route: gives the Transport for a URL; None where `direct` is good for all.

    Raises:
        ValueError: a setting is none, or this libcurl cannot do it.
        OSError: a file is not there.
    """

    def __init__(
        self,
        *,
        http2: HTTP2,
        http3: bool,
        verify: Verify,
        cert: Cert,
        proxies: Proxies,
        trust_env: bool,
    ) -> None:
        self.environ: Mapping[str, str] = read_environment() if trust_env else {}
        self._http2 = _checked_http2(http2)
        self._http3 = _checked_http3(http3)
        self._authorities = ca_bundle(self.environ) or True  # what verify=True comes to
        self._verify = verify
        self._cert = cert
        self._proxies = proxies
        self._asks_environ = trust_env and names_proxies(self.environ)
        self.direct = self._transport(_NOTHING_OWN, None)
        self.route: Callable[[URL], Transport] | None = None
        if proxies is not None or self._asks_environ:
            self.route = self.route_of(_NOTHING_OWN)

    def route_of(self, own: RouteOptions) -> Callable[[URL], Transport]:
        """Return what gives the Transport of a request for a URL.

        Args:
            own: what the request says of its own.

        Raises:
            TypeError: that is no setting.
        """
        if not own.keys() <= _KNOWN:
            name = min(own.keys() - _KNOWN)
            raise TypeError(f"build_request() got an unexpected keyword argument {name!r}")
        return partial(self._transport_to, own)

    def _transport_to(self, own: RouteOptions, url: URL) -> Transport:
        return self._transport(own, self._proxy_to(url, own.get("proxies")))

    def _transport(self, own: RouteOptions, proxy: str | None) -> Transport:
        verify = own.get("verify", self._verify)
        return transport_for(
            self._authorities if verify is True else verify,  # type: ignore[arg-type]  # any path can be hashed
            own.get("cert", self._cert),  # type: ignore[arg-type]
            proxy,
            self._http2,
            self._http3,
        )

    def _proxy_to(self, url: URL, proxies: Proxies) -> str | None:
        """Return the proxy: the request's choice, else the client's, else the environment's."""
        for choice in (proxies, self._proxies):
            if choice is not None:
                mapping = {"all": choice} if isinstance(choice, str) else choice
                proxy = select_proxy(url, mapping)
                if proxy is not None:
                    return proxy or None
        return proxy_for(url, self.environ) if self._asks_environ else None


def _checked_http2(http2: HTTP2) -> HTTP2:
    if http2 not in (True, False, "prior-knowledge"):
        raise ValueError(f"http2 must be True, False or 'prior-knowledge', not {http2!r}")
    return http2


def _checked_http3(http3: bool) -> bool:
    if http3:
        from curlhttp._curl.version import has_http3

        if not has_http3():
            raise ValueError("this libcurl was built without HTTP/3; leave http3 off")
    return http3
