"""From the head of a response to what httpx makes a Response of: raw fields and extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from curlhttp._models.headers import Headers
from curlhttp._models.timings import Timings, make_timings

if TYPE_CHECKING:
    from curlhttp._engine.engine import Incoming
    from curlhttp._models.response import Head

__all__ = ["NetworkStream", "extensions_of", "raw_fields"]


def raw_fields(head: Head) -> list[tuple[bytes, bytes]]:
    """Return names and values as received: in their order and case, repeats apart."""
    block = head.block
    if b"\n " in block or b"\n\t" in block:  # folded lines, which are rare
        fields = Headers.from_block(block).multi_items()
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    found = []
    for line in block.split(b"\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name.rstrip(b" \t"), value.strip(b" \t\r")))
    return found


def extensions_of(head: Head, network_stream: NetworkStream) -> dict[str, object]:
    """Return the extensions of a response, as httpx's own transport has them."""
    version, _, rest = head.block.partition(b"\n")[0].rstrip(b"\r").partition(b" ")
    found: dict[str, object] = {"http_version": version, "network_stream": network_stream}
    if version.startswith(b"HTTP/1"):
        found["reason_phrase"] = rest[4:].strip()
    return found


class NetworkStream:
    """Tell of the connection of a response; its bytes are libcurl's alone.

    Args:
        incoming: the response, while its connection is known.
    """

    def __init__(self, incoming: Incoming) -> None:
        times = self._times = incoming.timings()
        is_new = isinstance(times, Timings) and not times.reused
        self._certificate = incoming.certificate() if is_new else None

    @property
    def timings(self) -> Timings:
        """Return where the time went up to the head."""
        times = self._times
        return times if isinstance(times, Timings) else make_timings(times)

    def get_extra_info(self, info: str) -> object:
        """Return what is known of the connection, None for what is not.

        Args:
            info: "server_addr" and "client_addr" for (address, port); "certificate" for the
                server's as PEM, of a new connection; "timings" for a Timings. "ssl_object" and
                "socket" are None: TLS and sockets are libcurl's.
        """
        if info == "server_addr":
            return self.timings.peer
        if info == "client_addr":
            return self.timings.local
        if info == "timings":
            return self.timings
        return self._certificate if info == "certificate" else None

    def read(self, max_bytes: int, timeout: float | None = None) -> NoReturn:
        """Refuse to read past HTTP, as all of what would use the connection for itself.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "libcurl keeps the connection for itself: it can be read and written only after a 101 "
            "to a request with the header Upgrade, or a 2xx to CONNECT, and starts no TLS then"
        )

    write = start_tls = read
