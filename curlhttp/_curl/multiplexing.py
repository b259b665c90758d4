"""Remember which origins speak HTTP/2, and let requests wait to share a connection.

A transfer can wait for a connection that another one is opening (CURLOPT_PIPEWAIT). Where the
server then speaks HTTP/1.1 alone, libcurl (8.23) would leave it waiting until the first response
is complete: so what the server speaks is read in libcurl's log, as soon as it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from curlhttp._curl.connections import Connection
from curlhttp._curl.transfer import Transfer

__all__ = ["Multiplexing"]

_ORIGINS = 1000  # whose protocol is remembered
_GENERATIONS = 8  # see Handle.set_generation


class Multiplexing:
    """What one driver knows of the protocols of origins.

    Attributes:
        found: what origins speak that were just heard of, for `take_found`.
        has_http2: there may be connections of HTTP/2.
        on_shared: called with an origin whose connections carry many requests at once, as soon as
            that is known; or None.
    """

    __slots__ = ("_by_origin", "_generations", "found", "has_http2", "on_shared")

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}
        self.has_http2 = False
        self.on_shared: Callable[[str], object] | None = None
        self._by_origin: dict[str, bool] = {}  # on TLS: do its connections multiplex
        self._generations: dict[str, int] = {}  # of connections, by origins that left one

    def decide_pipewait(self, transfer: Transfer, origin: str) -> None:
        """Let a transfer wait for another's connection unless the origin speaks HTTP/1.1 alone.

        Args:
            transfer: prepared; its connection may be shared.
            origin: where it goes.
        """
        assert transfer.request is not None
        if self._generations:
            transfer.handle.set_generation(self._generations.get(origin, 0))
        knows = transfer.request.transport.http2 == "prior-knowledge"
        shares = knows or self._by_origin.get(origin)
        transfer.handle.wait_to_share(shares is not False)
        # What is not known yet costs the log of one request; of HTTP/2 the log tells also what the
        # server refused, for requests that must not go out twice.
        if shares is None:
            transfer.read_log(self._on_alpn)
        elif shares:
            self.has_http2 = True
            if transfer.sends_once:
                transfer.read_log()

    def leave(self, connection: Connection) -> None:
        """Keep further requests off a quarantined connection that still carries some."""
        if not connection.is_left:
            connection.is_left = True
            if len(self._generations) >= _ORIGINS:
                self._generations.clear()
            last = self._generations.get(connection.origin, 0)
            self._generations[connection.origin] = (last + 1) % _GENERATIONS

    def _on_alpn(self, origin: str, shares: bool) -> None:
        if len(self._by_origin) >= _ORIGINS:  # forgetting costs the log of one more request each
            self._by_origin.clear()
        self._by_origin[origin] = self.found[origin] = shares
        self.has_http2 = self.has_http2 or shares

    def take_found(self, transfers: Iterable[Transfer]) -> list[Transfer]:
        """Tell of the origins that were heard of; return who waits in vain to share a connection.

        Not in libcurl's callback: whoever is told may start further transfers.

        Args:
            transfers: all that run.
        """
        news, self.found = self.found, {}
        for origin, shares in news.items():
            if shares and self.on_shared is not None:
                self.on_shared(origin)
        found = []
        for transfer in transfers if False in news.values() else ():
            assert transfer.request is not None
            if transfer.is_waiting and self._by_origin.get(transfer.request.url.origin) is False:
                found.append(transfer)
        return found
