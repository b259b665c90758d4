"""The transports' own `guard`: which addresses they may connect to."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from curlhttp import BlockedAddress, PublicOnly
from tests.httpx.clients import Make
from tests.servers import AppServer, HTTPProxy
from tests.support.colours import WITHOUT_UVLOOP, needs_posix
from tests.support.forced import force

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]


async def test_a_transport_refuses_this_machine(
    library: Any, make_httpx: Make, app: AppServer
) -> None:
    client = make_httpx(transport={"guard": PublicOnly(), "retries": 3})
    with pytest.raises(library.ConnectError, match="loopback") as caught:
        await client.get(app.at("localhost"))
    assert isinstance(caught.value.__cause__, BlockedAddress)
    assert app.connections == 0
    allowing = make_httpx(transport={"guard": lambda host, address, port: True})
    assert (await allowing.get(app.url)).content == b"hello"


@needs_posix
async def test_unix_sockets_are_refused_unless_they_are_allowed(
    library: Any, make_httpx: Make, tmp_path: Any
) -> None:
    path = str(tmp_path / "nobody.sock")
    client = make_httpx(transport={"guard": PublicOnly(), "uds": path})
    with pytest.raises(library.ConnectError, match="a Unix socket"):
        await client.get("http://docker/")
    client = make_httpx(transport={"guard": PublicOnly(allow=[path]), "uds": path})
    with pytest.raises(library.ConnectError) as caught:
        await client.get("http://docker/")  # there is none
    assert not isinstance(caught.value.__cause__, BlockedAddress)


async def test_a_proxy_of_a_transport_gets_the_address(
    library: Any, make_httpx: Make, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[tuple[str, int], list[str]] = {
        ("made.up", socket.AF_INET): ["127.0.0.1"],
        ("intern", socket.AF_INET): ["10.0.0.1"],
    }
    force(monkeypatch, "the addresses that the system knows", lambda *name: known.get(name, []))
    with HTTPProxy() as proxy:
        guard = PublicOnly(allow=["127.0.0.1"])
        client = make_httpx(transport={"guard": guard, "proxy": proxy.url})
        assert (await client.get(f"http://made.up:{app.port}/")).content == b"hello"
        with pytest.raises(library.ConnectError, match="private"):
            await client.get("http://intern/")
        assert [asked.target for asked in proxy.log] == [f"127.0.0.1:{app.port}"]
