"""Negotiate (RFC 4559): authenticate with Kerberos tickets, through libcurl's GSSAPI support.

It is a setting of the NetworkRoute, because it authenticates connections.
"""

from __future__ import annotations

from curlhttp._http.auth import Auth, AuthFlow
from curlhttp._http.config import NetworkRoute, derive_route
from curlhttp._http.request import ClientRequest
from curlhttp._http.url import URL
from curlhttp._libcurl import has_negotiate


class Negotiate(Auth):
    """Authenticate with the Kerberos ticket of the user, from `kinit` (RFC 4559).

    libcurl finds the ticket in the system's cache (KRB5CCNAME), requests a service ticket for
    HTTP/host from the KDC, and sends it with each request, over HTTP/1.1. In AsyncClient, the event
    loop blocks during the request to the KDC, once for each host and ticket. If the user has no
    ticket, the request is sent without one. WebSockets do not support it.

    Raises:
        ValueError: this libcurl was built without GSSAPI.

    Source: CURLOPT_HTTPAUTH, CURLAUTH_NEGOTIATE.
    """

    __slots__ = ()

    def __init__(self) -> None:
        if not has_negotiate():
            raise ValueError(
                "this libcurl was built without GSSAPI, which Negotiate needs; pycurl's wheels for "
                "Linux have it"
            )

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request, with a NetworkRoute that negotiates."""
        origin, choose, route = request.url.origin, request.choose_route, request.route

        def negotiated(url: URL) -> NetworkRoute:
            usual = route if choose is None else choose(url)
            # A middleware may have changed the server, and another one must not get the ticket.
            if url.origin != origin:
                return usual
            return derive_route(usual, negotiate=True, http2=False, http3=False)

        request.choose_route = negotiated
        yield request
