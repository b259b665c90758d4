"""Negotiate (RFC 4559): Kerberos tickets in place of passwords, by libcurl's GSSAPI.

It is asked of libcurl by the way that a request travels, since the tickets belong to connections.
"""

from __future__ import annotations

from curlhttp._curl import has_negotiate
from curlhttp._models.config import Transport, varied
from curlhttp._models.request import Request
from curlhttp._models.url import URL
from curlhttp._policy.auth import Auth, AuthFlow

__all__ = ["Negotiate"]


class Negotiate(Auth):
    """Sign in with the Kerberos ticket that the user has, as `kinit` gets it (RFC 4559).

    libcurl finds the ticket where the system has it (KRB5CCNAME), asks the KDC for one to
    HTTP/host, and sends it with each request, by HTTP/1.1. In AsyncClient the event loop waits
    while the KDC is asked, which is once for each host and ticket. Without a ticket the request
    goes out without one. WebSockets cannot be opened with it.

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

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request, with libcurl told to negotiate on its way."""
        origin, route, transport = request.url.origin, request.route, request.transport

        def negotiated(url: URL) -> Transport:
            usual = transport if route is None else route(url)
            # A middleware may lead to another server, which is not to have the ticket.
            if url.origin != origin:
                return usual
            return varied(usual, negotiate=True, http2=False, http3=False)

        request.route = negotiated
        yield request
