"""What each client of the benchmarks looks like to the worker that runs it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["AsyncPeer", "BlockingPeer", "Peer", "Settings", "WholeRound"]


@dataclass(frozen=True)
class Settings:
    """What a case asks of a client.

    Args:
        ca: path of the PEM file of the authority to trust, for TLS.
        http2: speak HTTP/2, over TLS.
        reuse: keep connections; else each request says `Connection: close`.
        connections: at least so many must be allowed at once.
    """

    ca: str = ""
    http2: bool = False
    reuse: bool = True
    connections: int = 100

    @property
    def headers(self) -> dict[str, str]:
        """Headers that every request must have."""
        return {} if self.reuse else {"Connection": "close"}

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The authority as Python's ssl has it; None without TLS."""
        return ssl.create_default_context(cafile=self.ca) if self.ca else None


class Peer:
    """A client under measurement.

    `modules` are what must be installed, the first being what it is known by on PyPI;
    `configuration` says what differs from the client's defaults.
    """

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    configuration: ClassVar[str] = "defaults"
    loops: ClassVar[tuple[str, ...]]
    http2: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings


class AsyncPeer(Peer):
    """One that works on an event loop; made and closed on it."""

    loops: ClassVar[tuple[str, ...]] = ("asyncio", "uvloop")

    async def get(self, url: str) -> int:
        """Send a GET, read all of the body; return its length."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class BlockingPeer(Peer):
    """One that sends a request after another, on no loop."""

    loops: ClassVar[tuple[str, ...]] = ("none",)

    def get(self, url: str) -> int:
        """Send a GET, read all of the body; return its length."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class WholeRound(Peer):
    """One that drives many requests by itself, without an event loop for users' tasks."""

    loops: ClassVar[tuple[str, ...]] = ("none",)

    def run(
        self, url: str, count: int, concurrency: int, done: Callable[[int | Exception, float], None]
    ) -> None:
        """Send GETs, so many at once; call `done` with length or error, and seconds, for each."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
