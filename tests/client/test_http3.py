"""HTTP/3 on the wire: connections that end while idle, and unreachable servers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import curlhttp
from curlhttp import requests
from tests.client.test_raw_urls import TARGETS
from tests.servers import Certs
from tests.support.colours import HAS_HTTP3, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, make_fetch

pytest.importorskip("aioquic", reason="aioquic, which the extra `test` has, is not installed")
if not HAS_HTTP3:
    pytest.skip("this libcurl has no HTTP/3", allow_module_level=True)

from tests.servers.http3 import HTTP3Server

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]


@pytest.fixture
def server(tmp_path: Path, certs: Certs) -> Iterator[HTTP3Server]:
    with HTTP3Server(tmp_path, certs) as server:
        yield server


@pytest.fixture
def h3_client(make_client: MakeClient) -> AnyClient:
    return make_client(http3=True)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Give a port of UDP on which nothing listens: it is bound, and another one is its peer."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", 0))
        held.bind(("127.0.0.1", 0))
        held.connect(other.getsockname())
        yield held.getsockname()[1]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_refused_connection_sends_nothing(
    h3_client: AnyClient, closed_port: int, method: str
) -> None:
    with pytest.raises(curlhttp.ConnectionError, match="refused or the host is unre") as caught:
        await h3_client.request(method, f"https://127.0.0.1:{closed_port}/")
    assert not caught.value.request_sent
    assert caught.value.timings is not None
    assert caught.value.timings.connect == 0.0


@pytest.mark.parametrize("content", [None, b"abc"])
async def test_a_connection_that_the_server_closed_is_replaced(
    h3_client: AnyClient, server: HTTP3Server, content: bytes | None
) -> None:
    """libcurl finds out when a request goes out on it, and sends nothing of that."""
    method = "GET" if content is None else "POST"
    for number in range(1, 5):
        response = await h3_client.request(method, server.url, content=content)
        assert (response.content, response.http_version) == (b"ok", "HTTP/3")
        server.end_connections()
        assert server.requests == {method: number}
        assert server.connections == number


async def test_raw_urls_are_sent_byte_for_byte(h3_client: AnyClient, server: HTTP3Server) -> None:
    for target in TARGETS:
        response = await h3_client.get(curlhttp.URL(server.url + target, raw=True))
        assert (response.http_version, response.url) == ("HTTP/3", server.url + target)
    assert server.targets == TARGETS


@EVERY_CLIENT_API
async def test_each_api_uses_a_new_connection(
    make_client: MakeClient, api: str, tmp_path: Path, server: HTTP3Server
) -> None:
    with requests.Session() as session:
        fetch = make_fetch(make_client(http3=True), api, tmp_path, session)
        for number in range(1, 4):
            assert (await fetch(server.url)).status_code == 200
            server.end_connections()
            assert server.requests == {"GET": number}


async def test_many_concurrent_requests_use_new_connections(
    h3_client: AnyClient, server: HTTP3Server
) -> None:
    for number in range(1, 4):
        for response in await h3_client.gather(8, "POST", server.url, content=b"abc"):
            assert response.content == b"ok"
        server.end_connections()
        assert server.requests == {"POST": 8 * number}


async def test_a_connection_that_ends_amid_a_request_is_an_error_that_says_so(
    h3_client: AnyClient, server: HTTP3Server
) -> None:
    server.closes_amid = True
    with pytest.raises(curlhttp.ConnectionError) as caught:
        await h3_client.post(server.url, content=b"abc")
    assert server.requests == {"POST": 1}
    assert caught.value.request_sent
    assert "ngtcp2" not in str(caught.value)
    assert "nghttp3" not in str(caught.value)
