"""Fixtures: the two libraries in turn, and their clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.httpx.clients import AnyHTTPX, Make
from tests.servers import refused_port


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    """Return httpx and httpx2, in turn."""
    name = str(request.param)
    return pytest.importorskip(name, reason=f"{name} is not installed (extra '{name}')")


@pytest.fixture
async def make_httpx(colour: str, library: Any, anyio_backend: Any) -> AsyncIterator[Make]:
    """Return a function that makes clients, which are closed at the end of the test."""
    made: list[AnyHTTPX] = []

    def make(**settings: Any) -> AnyHTTPX:
        made.append(AnyHTTPX(colour, library, **settings))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


@pytest.fixture
def httpx_client(make_httpx: Make) -> AnyHTTPX:
    """Return a client with default settings on our transport."""
    return make_httpx()


@pytest.fixture
def refused() -> Iterator[int]:
    """Return a port of loopback that refuses connections."""
    with refused_port() as port:
        yield port
