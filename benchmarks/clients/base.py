"""The interface between a client of the benchmarks and the worker that runs it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["AsyncPeer", "BlockingPeer", "Peer", "Settings", "WholeRound"]


@dataclass(frozen=True)
class Settings:
    """The settings of a case for a client.

    Args:
        ca: path of the PEM file of the CA to trust, for TLS.
        http2: speak HTTP/2, over TLS.
        reuse: keep connections; otherwise each request has `Connection: close`.
        connections: the number of connections to allow, at least.
    """

    ca: str = ""
    http2: bool = False
    reuse: bool = True
    connections: int = 100

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that every request must have."""
        return {} if self.reuse else {"Connection": "close"}

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """Return an ssl context that trusts the CA; None without TLS."""
        return ssl.create_default_context(cafile=self.ca) if self.ca else None


class Peer:
    """A client under measurement.

    `modules` must be installed; the first has the client's name on PyPI. `configuration` says what
    differs from the client's defaults.
    """

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    configuration: ClassVar[str] = "defaults"
    loops: ClassVar[tuple[str, ...]]
    http2: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings


class AsyncPeer(Peer):
    """A client that runs on an event loop, where it is created and closed."""

    loops: ClassVar[tuple[str, ...]] = ("asyncio", "uvloop")

    async def get(self, url: str) -> int:
        """Send a GET, read all of the body; return its length."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class BlockingPeer(Peer):
    """A client that sends one request after another, without an event loop."""

    loops: ClassVar[tuple[str, ...]] = ("none",)

    def get(self, url: str) -> int:
        """Send a GET, read all of the body; return its length."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class WholeRound(Peer):
    """A client that runs many requests on its own, without an event loop for users' tasks."""

    loops: ClassVar[tuple[str, ...]] = ("none",)

    def run(
        self, url: str, count: int, concurrency: int, done: Callable[[int | Exception, float], None]
    ) -> None:
        """Send GETs concurrently; call `done` for each, with length or error, and seconds."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
