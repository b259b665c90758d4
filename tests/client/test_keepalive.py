"""TCP keepalive: what the sockets of a client have."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import curlhttp
from tests.servers import AppServer, HTTPProxy, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.colours import AnyClient

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for sockets in /proc"),
]
Make = Callable[..., AnyClient]


def probes(port: int) -> set[tuple[int, int, int]]:
    """Return whether keepalive is on, its idle time and its interval, of sockets to a port."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed by now, no socket of the internet, or without a peer
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.family == socket.AF_INET and sock.getpeername()[1] == port:
                    is_on = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                    times = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
                    idle, interval = (sock.getsockopt(socket.IPPROTO_TCP, each) for each in times)
                    found.add((is_on, idle, interval))
    return found


async def test_connections_have_the_keepalive_of_the_client(
    make_client: Make, server: AppServer
) -> None:
    client = make_client(http2=True, keepalive=7.9)
    assert client.real.limits.keepalive == 7.9
    await client.get(server.url)
    assert probes(server.port) == {(1, 7, 7)}


@pytest.mark.parametrize("settings", [{}, {"keepalive": None}])
async def test_keepalive_is_off_by_default(
    make_client: Make, app: AppServer, settings: dict[str, Any]
) -> None:
    client = make_client(**settings)
    await client.get(app.url)
    assert {is_on for is_on, *_ in probes(app.port)} == {0}


async def test_keepalive_stays_on_after_requests_that_reset_their_handle(
    make_client: Make, app: AppServer
) -> None:
    client = make_client(keepalive=7, max_keepalive_connections=0)
    for _ in range(2):
        async with await client.stream(
            "POST", app.url + "/stall-after", content=iter([b"x"])
        ) as response:
            assert response.real.status_code == 200
            assert (1, 7, 7) in probes(app.port)


async def test_streams_websockets_and_proxies_have_it_too(
    make_client: Make, app: AppServer
) -> None:
    with HTTPProxy() as proxy:
        client = make_client(keepalive=7, proxy=proxy.url)
        await client.get(app.url)
        assert probes(proxy.port) == {(1, 7, 7)}
    client = make_client(limits=curlhttp.Limits(keepalive=7))
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws")) as socket:
            await socket.send("hello")
            assert probes(server.port) == {(1, 7, 7)}


@pytest.mark.parametrize(
    ("keepalive", "error"),
    [(0, ValueError), (-1, ValueError), (1e9, ValueError), ("5", TypeError), (True, TypeError)],
)
def test_a_wrong_keepalive_is_an_error(keepalive: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="keepalive must be"):
        curlhttp.Client(keepalive=keepalive)
