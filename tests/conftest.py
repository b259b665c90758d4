"""What all tests share: servers, certificates, clients of every colour, and a leak check."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.colours import BACKENDS, COLOURS, AnyClient
from tests.servers import HTTP2, AppServer, Certs, H2Server

for _name in list(os.environ):  # the machine's own settings are not under test
    if _name.lower().endswith("_proxy") or _name in ("NETRC", "SSL_CERT_FILE"):
        del os.environ[_name]


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> str:
    """Return the kind of client that the test runs with, in turn."""
    return str(request.param)


@pytest.fixture
def anyio_backend(colour: str) -> Any:
    return BACKENDS[colour]


@pytest.fixture
async def make_client(
    colour: str, certs: Certs, anyio_backend: Any
) -> AsyncIterator[Callable[..., AnyClient]]:
    """Return a function that makes clients, which are closed at the end of the test.

    They trust the test's own authority.
    """
    made: list[AnyClient] = []

    def make(**settings: Any) -> AnyClient:
        settings.setdefault("verify", certs.ca_path)
        client = AnyClient(colour, **settings)
        made.append(client)
        return client

    yield make
    for client in made:
        await client.aclose()


@pytest.fixture
def client(make_client: Callable[..., AnyClient]) -> AnyClient:
    """Return a client with default settings."""
    return make_client()


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certs:
    return Certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="session")
def _app() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


@pytest.fixture
def app(_app: AppServer) -> AppServer:
    """Return an HTTP/1.1 server, its counters at zero."""
    _app.reset_counts()
    return _app


@pytest.fixture(scope="session")
def _tls_app(certs: Certs) -> Iterator[AppServer]:
    with AppServer(certs.server_context()) as server:
        yield server


@pytest.fixture
def tls_app(_tls_app: AppServer) -> AppServer:
    """Return an HTTP/1.1 server on TLS, its counters at zero."""
    _tls_app.reset_counts()
    return _tls_app


@pytest.fixture(scope="session")
def _h2_app(certs: Certs) -> Iterator[H2Server]:
    with H2Server(certs.server_context(alpn=HTTP2)) as server:
        yield server


@pytest.fixture
def h2_app(_h2_app: H2Server) -> H2Server:
    """Return an HTTP/2 server on TLS, its counters at zero."""
    _h2_app.reset_counts()
    return _h2_app


@pytest.fixture(scope="session", autouse=True)
def _nothing_leaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the session if descriptors, threads or pycurl handles are left over."""
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir())) if folder.exists() else None
    threads = threading.active_count()
    yield
    gc.collect()
    left = _handles()
    assert not left, f"{len(left)} pycurl handles were not freed: {left[:5]}"
    assert threading.active_count() <= threads + _SERVER_THREADS, threading.enumerate()
    if before is not None:
        after = len(list(folder.iterdir()))
        assert after <= before + _SERVER_FILES, f"{after - before} descriptors more than before"


_SERVER_THREADS = 64  # the session's servers may still have connection threads that end now
_SERVER_FILES = 64


def _handles() -> list[Any]:
    import pycurl

    kinds = (pycurl.Curl, pycurl.CurlMulti)
    return [thing for thing in gc.get_objects() if isinstance(thing, kinds)]
