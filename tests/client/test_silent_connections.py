"""A multiplexed connection that a NAT or a load balancer forgets: one round of requests is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from curlhttp import Timeout
from curlhttp import exceptions as e
from curlhttp.httpx import AsyncTransport
from tests.servers import Certs, H2Server, Relay
from tests.support.colours import AnyClient
from tests.support.pace import PACE
from tests.support.ways import EVERY_WAY_OF_CLIENTS, Ask

SOON = 0.3 * PACE  # seconds


@pytest.fixture
def relay(h2_app: H2Server) -> Iterator[Relay]:
    with Relay(h2_app.port) as relay:
        yield relay


def url_of(relay: Relay, path: str = "/") -> str:
    return f"https://127.0.0.1:{relay.port}{path}"


@EVERY_WAY_OF_CLIENTS
@pytest.mark.parametrize("limit", ["read", "total"])
async def test_one_request_is_lost_to_a_silent_connection(
    ask: Ask, relay: Relay, limit: str
) -> None:
    timeout = Timeout(**{limit: SOON})
    await ask(url_of(relay), timeout=Timeout(read=30))
    assert relay.freeze() == 1
    with pytest.raises(e.Timeout):
        await ask(url_of(relay), timeout=timeout)
    for _ in range(3):
        assert (await ask(url_of(relay), timeout=Timeout(read=30))).status_code == 200
    assert relay.connections == 2


async def is_asked(server: H2Server, path: str) -> None:
    """Wait until a request for the path has come in."""
    with anyio.fail_after(30):
        while path not in [record.path for record in server.requests]:
            await anyio.sleep(0.005)


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_those_under_way_end_by_their_own_timeouts_and_others_share_a_new_connection(
    client: AnyClient, relay: Relay, h2_app: H2Server
) -> None:
    ends: list[str] = []

    async def wait(name: str, timeout: Timeout) -> None:
        with pytest.raises(e.Timeout):
            await client.get(url_of(relay, "/stall"), timeout=timeout)
        ends.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "patient", Timeout(read=30, total=4 * SOON))
        await is_asked(h2_app, "/stall")
        relay.freeze()
        await wait("hasty", Timeout(read=SOON))
        for _ in range(3):
            responses = await client.gather(5, "GET", url_of(relay))
            assert [response.status_code for response in responses] == [200] * 5
        assert ends == ["hasty"]
        assert relay.connections == 2
    assert ends == ["hasty", "patient"]


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_silent_connection_is_closed_with_the_last_of_many_that_end_at_once(
    client: AnyClient, relay: Relay
) -> None:
    await client.get(url_of(relay))
    relay.freeze()
    ended = 0

    async def wait() -> None:
        nonlocal ended
        with pytest.raises(e.Timeout):
            await client.get(url_of(relay), timeout=Timeout(total=SOON))
        ended += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(wait)
    assert ended == 10
    assert (await client.get(url_of(relay))).status_code == 200
    with anyio.fail_after(30):
        while not relay.are_frozen_closed():
            await anyio.sleep(0.01)
    assert relay.connections == 2


@pytest.mark.colours("asyncio", "trio")
async def test_a_slow_server_that_answers_others_keeps_its_connection(
    client: AnyClient, relay: Relay, h2_app: H2Server
) -> None:

    async def wait() -> None:
        with pytest.raises(e.ReadTimeout):
            await client.get(url_of(relay, "/stall"), timeout=Timeout(read=SOON))
        ended.set()

    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await is_asked(h2_app, "/stall")
        while not ended.is_set():
            assert (await client.get(url_of(relay))).status_code == 200
            await anyio.sleep(SOON / 20)
    await client.get(url_of(relay))
    assert relay.connections == 1


@pytest.mark.colours("asyncio", "trio")
async def test_a_caller_that_gives_up_first_leaves_a_silent_connection_too(
    client: AnyClient, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curlhttp._curl.driver._LONG", SOON / 2)
    await client.get(url_of(relay))
    relay.freeze()
    with anyio.move_on_after(SOON) as scope:
        await client.get(url_of(relay))
    assert scope.cancelled_caught
    assert (await client.get(url_of(relay), timeout=30)).status_code == 200
    assert relay.connections == 2


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_retry_goes_to_a_new_connection(client: AnyClient, relay: Relay) -> None:
    await client.get(url_of(relay))
    relay.freeze()
    response = await client.get(url_of(relay), timeout=Timeout(read=SOON), retry=1)
    assert (response.status_code, relay.connections) == (200, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long a socket was silent")
@pytest.mark.colours("asyncio", "trio")
async def test_a_post_goes_out_on_no_connection_that_was_silent_for_long(
    client: AnyClient, relay: Relay, h2_app: H2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curlhttp._curl.connections._UNPROVEN", SOON / 2)
    await client.get(url_of(relay))
    await anyio.sleep(SOON)
    relay.freeze()
    response = await client.post(url_of(relay, "/echo"), content=b"once", timeout=30)
    assert (response.status_code, relay.connections) == (200, 2)
    assert [record.method for record in h2_app.requests] == ["GET", "POST"]


async def test_a_silent_connection_without_tls_is_left_too(make_client: Any) -> None:
    client = make_client(http2="prior-knowledge")
    with H2Server() as server, Relay(server.port) as relay:
        url = f"http://127.0.0.1:{relay.port}/"
        await client.get(url)
        relay.freeze()
        with pytest.raises(e.ReadTimeout):
            await client.get(url, timeout=Timeout(read=SOON))
        for _ in range(3):
            assert (await client.get(url, timeout=30)).status_code == 200
        assert relay.connections == 2


@pytest.mark.colours("blocking")
async def test_a_blocking_map_over_http_2_loses_one_round(make_client: Any, relay: Relay) -> None:
    client = make_client(http2=True)
    url = url_of(relay)

    async def statuses(count: int, timeout: Timeout) -> list[Any]:
        results = client.map([url] * count, timeout=timeout, concurrency=4)
        return [getattr(one, "status_code", one) async for one in results]

    assert await statuses(4, Timeout(read=30)) == [200] * 4
    opened = relay.connections
    relay.freeze()
    assert all(isinstance(one, e.ReadTimeout) for one in await statuses(4, Timeout(read=SOON)))
    assert await statuses(40, Timeout(read=30)) == [200] * 40
    assert relay.connections == opened + 1


@pytest.mark.parametrize("colour", ["asyncio", "trio"], indirect=True)
async def test_a_transport_for_httpx_loses_one_request(
    relay: Relay, certs: Certs, anyio_backend: Any
) -> None:
    httpx = pytest.importorskip("httpx")
    transport = AsyncTransport(verify=certs.ca_path, http2=True)
    async with httpx.AsyncClient(transport=transport, timeout=30) as client:
        await client.get(url_of(relay))
        relay.freeze()
        with pytest.raises(httpx.ReadTimeout):
            await client.get(url_of(relay), timeout=httpx.Timeout(30, read=SOON))
        for _ in range(3):
            assert (await client.get(url_of(relay))).status_code == 200
    assert relay.connections == 2
