"""Remember which origins speak HTTP/2, and let requests wait to share a connection.

A transfer can wait for a connection that another one is opening (CURLOPT_PIPEWAIT). If the server
then only speaks HTTP/1.1, libcurl (8.23) leaves it waiting until the first response is complete. So
the protocol is read from libcurl's log as soon as it is negotiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from curlhttp._libcurl.attempt import WAITING
from curlhttp._libcurl.connection_state import Connection
from curlhttp._libcurl.transfer import Transfer

_ORIGINS = 1000  # remembered
_GENERATIONS = 8  # see Handle.set_generation


class Multiplexing:
    """What one driver knows about the protocols of origins.

    Attributes:
        learned: whether the connections of an origin multiplex, until `report_learned`.
        known: another object after each change of what set_pipewait depends on.
        has_http2: there may be HTTP/2 connections.
        on_shared: called with an origin as soon as its connections are known to carry many
            requests at once; or None.
    """

    __slots__ = ("_by_origin", "_generations", "has_http2", "known", "learned", "on_shared")

    def __init__(self) -> None:
        self.learned: dict[str, bool] = {}
        self.has_http2 = False
        self.known = object()
        self.on_shared: Callable[[str], object] | None = None
        self._by_origin: dict[str, bool] = {}  # on TLS: whether its connections multiplex
        self._generations: dict[str, int] = {}  # of connections, by origins with a draining one

    def set_pipewait(self, transfer: Transfer, origin: str) -> None:
        """Let a transfer wait for another's connection unless the origin only speaks HTTP/1.1.

        Args:
            transfer: prepared; its connection may be shared.
            origin: of its request.
        """
        assert transfer.request is not None
        if self._generations:
            transfer.handle.set_generation(self._generations.get(origin, 0))
        knows = transfer.request.route.http2 == "prior-knowledge"
        shares = knows or self._by_origin.get(origin)
        transfer.handle.wait_to_share(shares is not False)
        # An unknown protocol costs the log of one request. On HTTP/2 the log also reports what the
        # server refused, which matters for requests that must not go out twice.
        if shares is None:
            transfer.read_log(self._on_alpn)
            return
        if shares:
            self.has_http2 = True
            if transfer.attempt.once:
                transfer.read_log()
                return
        if not self._generations:  # the same is set for the next request, if it is like this one
            transfer.shares_as = self.known

    def drain(self, connection: Connection) -> None:
        """Keep further requests off a retired connection that still carries some."""
        if not connection.is_draining:
            self.known = object()
            connection.is_draining = True
            if len(self._generations) >= _ORIGINS:
                self._generations.clear()
            last = self._generations.get(connection.origin, 0)
            self._generations[connection.origin] = (last + 1) % _GENERATIONS

    def _on_alpn(self, origin: str, shares: bool) -> None:
        if len(self._by_origin) >= _ORIGINS:  # each one costs the log of one more request then
            self._by_origin.clear()
        self.known = object()
        self._by_origin[origin] = self.learned[origin] = shares
        self.has_http2 = self.has_http2 or shares

    def report_learned(self, transfers: Iterable[Transfer]) -> list[Transfer]:
        """Report origins whose protocol was learned; return transfers that wait but cannot share.

        Not in libcurl's callback, because `on_shared` may start further transfers.

        Args:
            transfers: all running ones.
        """
        learned, self.learned = self.learned, {}
        for origin, shares in learned.items():
            if shares and self.on_shared is not None:
                self.on_shared(origin)
        found = []
        for transfer in transfers if False in learned.values() else ():
            assert transfer.request is not None
            if (
                transfer.attempt.state == WAITING
                and self._by_origin.get(transfer.request.url.origin) is False
            ):
                found.append(transfer)
        return found
