"""HTTP/3 by Alt-Svc. A UDP socket stands in for an HTTP/3 server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.servers import AppServer, Certs, HTTPProxy
from tests.support.colours import HAS_HTTP3, ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.forced import force

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]
needs_http3 = pytest.mark.skipif(not HAS_HTTP3, reason="this libcurl has no HTTP/3")

MakeClient = Callable[..., AnyClient]


@pytest.fixture
def server(certs: Certs) -> Iterator[AppServer]:
    """Return a TLS server that says on /quic that it speaks HTTP/3 too, and on /no that not."""
    with AppServer(certs.server_context("made.up")) as server:
        offer = f'h2=":1", h3=":{server.port}"; ma=60'
        server.route("/quic", lambda record, out: out.reply(200, b"", [("Alt-Svc", offer)]))
        server.route("/no", lambda record, out: out.reply(200, b"", [("Alt-Svc", "clear")]))
        yield server


@pytest.fixture
def datagrams(server: AppServer) -> Iterator[socket.socket]:
    """Return a socket for UDP at the server's port; nothing replies there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", server.port))
        datagrams.setblocking(False)
        yield datagrams


def asked_for_quic(datagrams: socket.socket) -> bool:
    found = False
    while True:
        try:
            found = len(datagrams.recv(2000)) >= 1200 or found  # RFC 9000, section 14.1
        except BlockingIOError:
            return found


@needs_http3
async def test_an_origin_with_alt_svc_is_tried_over_http3_and_falls_back(
    make_client: MakeClient, server: AppServer, datagrams: socket.socket
) -> None:
    client = make_client(http3="auto")
    assert (await client.get(server.url)).content == b"hello"
    await client.get(server.url + "/quic")
    assert not asked_for_quic(datagrams)
    assert (await client.get(server.url)).content == b"hello"
    assert asked_for_quic(datagrams)
    await client.get(server.url + "/no")
    asked_for_quic(datagrams)
    fresh = server.connections
    assert (await client.get(server.url)).content == b"hello"
    assert not asked_for_quic(datagrams)
    assert server.connections <= fresh + 1


@needs_http3
async def test_another_client_and_another_host_do_not_use_http3(
    make_client: MakeClient, server: AppServer, datagrams: socket.socket
) -> None:
    await make_client(http3="auto").get(server.url + "/quic")
    for client in (make_client(http3="auto"), make_client()):
        await client.get(server.url)
        await client.get(server.at("localhost"))
    assert not asked_for_quic(datagrams)


@needs_http3
async def test_nothing_bypasses_a_proxy(
    make_client: MakeClient, server: AppServer, datagrams: socket.socket
) -> None:
    with HTTPProxy() as proxy:
        client = make_client(http3="auto", proxies=proxy.url)
        await client.get(server.url + "/quic")
        assert (await client.get(server.url)).ok
        assert proxy.connections
    assert not asked_for_quic(datagrams)


@ONE_OF_EACH
async def test_an_invalid_value_is_refused(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd: Any = "always"
    with pytest.raises(ValueError, match="http3 must be True, False or 'auto'"):
        make_client(http3=odd)
    force(monkeypatch, "whether libcurl has HTTP/3", lambda: False)
    with pytest.raises(ValueError, match="built without HTTP/3"):
        make_client(http3="auto")
