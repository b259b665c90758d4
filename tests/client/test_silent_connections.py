"""A shared connection goes silent: requests on it fail once, and the next ones avoid it.

A relay forgets it as a NAT does: it stays open, and nothing gets through.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import Hedge, Timeout
from curlhttp import exceptions as e
from tests.servers import Certs, DatagramRelay, H2Server, Relay
from tests.servers.caddy import Caddy, has_caddy
from tests.support.colours import COLOURS, AnyClient
from tests.support.every_api import EVERY_API, Fetch, make_fetch
from tests.support.forced import force

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
ON_A_LOOP = pytest.mark.colours("asyncio", "uvloop", "trio")
SHORT = Timeout(read=0.5)
AT_ONCE = 8


@pytest.fixture
def relay(h2_app: H2Server) -> Iterator[Relay]:
    """Return a relay before the HTTP/2 server."""
    with Relay(h2_app.port) as relay:
        yield relay


@pytest.fixture
def url(relay: Relay) -> str:
    return f"https://127.0.0.1:{relay.port}"


@pytest.fixture
def h2_client(make_client: MakeClient) -> AnyClient:
    return make_client(http2=True, timeout=Timeout(read=30))


async def lost(fetch: Callable[..., Awaitable[Any]], url: str, **options: Any) -> None:
    """Send a request that waits out a timeout."""
    with pytest.raises(e.Timeout):
        await fetch(url, **options)


async def lose_at_once(client: AnyClient, url: str, count: int = AT_ONCE) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(lambda: lost(client.get, url, timeout=SHORT))


@EVERY_API
async def test_with_every_api_the_next_request_opens_a_connection(
    make_client: MakeClient, certs: Certs, relay: Relay, url: str, api: str, tmp_path: Path
) -> None:
    client = make_client(http2=True)
    with curlhttp.requests.Session() as session:
        session.verify = str(certs.ca_path)
        session.mount("https://", curlhttp.requests.adapters.HTTPAdapter(http2=True))
        fetch: Fetch = make_fetch(client, api, tmp_path, session)
        limit = 0.5 if "session" in api else SHORT
        assert (await fetch(url)).status_code == 200
        relay.forget()
        if api == "map":
            limit = Timeout(read=0.5)
        with pytest.raises((e.Timeout, curlhttp.requests.exceptions.Timeout)):
            await fetch(url, timeout=limit)
        assert (await fetch(url)).status_code == 200
    assert relay.connections == 2


@ON_A_LOOP
async def test_a_silent_connection_fails_each_request_on_it_once(
    h2_client: AnyClient, h2_app: H2Server, relay: Relay, url: str
) -> None:
    await h2_client.get(url)
    relay.forget()
    await lose_at_once(h2_client, url)
    found = await h2_client.gather(AT_ONCE, "GET", url)
    found += await h2_client.gather(AT_ONCE, "POST", url, content=b"pay")
    assert [response.status_code for response in found] == [200] * 2 * AT_ONCE
    assert relay.connections == 2
    assert len(h2_app.requests) == 1 + 2 * AT_ONCE


@ON_A_LOOP
async def test_further_requests_share_another_one_while_others_wait_on_it(
    h2_client: AnyClient, relay: Relay, url: str
) -> None:
    ended = anyio.Event()

    async def wait_long() -> None:
        with suppress(e.RequestException):
            await h2_client.get(url)
        ended.set()

    await h2_client.get(url)
    relay.forget()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_long)
        while not relay.swallowed:
            await anyio.sleep(0.001)
        await lose_at_once(h2_client, url)
        for _ in range(3):
            found = await h2_client.gather(AT_ONCE, "GET", url)
            assert [response.status_code for response in found] == [200] * AT_ONCE
        assert not ended.is_set()  # it ends by its own timeout
        assert relay.connections == 2
        tasks.cancel_scope.cancel()
    assert (await h2_client.get(url)).status_code == 200
    assert relay.connections <= 3  # the other pool went with its last request


@ON_A_LOOP
async def test_a_silent_connection_is_closed_with_the_last_of_many_that_end_at_once(
    h2_client: AnyClient, relay: Relay, url: str
) -> None:
    await h2_client.get(url)
    relay.forget()
    ended = 0

    async def wait() -> None:
        nonlocal ended
        with pytest.raises(e.Timeout):
            await h2_client.get(url, timeout=Timeout(total=0.5))
        ended += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(wait)
    assert ended == 10
    assert (await h2_client.get(url)).status_code == 200
    with anyio.fail_after(30):
        while not relay.ended:
            await anyio.sleep(0.01)
    assert relay.connections == 2


@ON_A_LOOP
async def test_another_origin_keeps_its_connection(
    h2_client: AnyClient, h2_app: H2Server, relay: Relay, url: str
) -> None:
    await h2_client.get(url)
    await h2_client.get(h2_app.url)
    relay.forget()
    await lost(h2_client.get, url, timeout=SHORT)
    await h2_client.get(h2_app.url)
    await h2_client.get(url)
    assert h2_app.connections == 3
    assert relay.connections == 2


@ON_A_LOOP
async def test_a_connection_on_which_another_stream_still_gets_bytes_stays_in_use(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    async with await h2_client.stream("GET", h2_app.url + "/drip?n=1000&interval=0.02") as stream:

        async def read() -> None:
            with suppress(e.RequestException):
                await stream.read()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await lost(h2_client.get, h2_app.url + "/stall", timeout=Timeout(read=1.0))
            for method in ("GET", "POST"):
                assert (await h2_client.request(method, h2_app.url)).status_code == 200
            assert h2_app.connections == 1
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("limit", [Timeout(read=None, total=0.5), Timeout(read=0.5)])
async def test_whichever_timeout_ran_out_the_next_request_opens_another_connection(
    h2_client: AnyClient, relay: Relay, url: str, limit: Timeout
) -> None:
    await h2_client.get(url)
    relay.forget()
    await lost(h2_client.get, url, timeout=limit)
    assert (await h2_client.post(url, content=b"pay")).status_code == 200
    assert relay.connections == 2


async def test_a_stalled_body_marks_the_connection_silent(
    h2_client: AnyClient, relay: Relay, url: str
) -> None:
    async with await h2_client.stream("GET", url + "/big", timeout=SHORT) as stream:
        relay.forget()
        with pytest.raises(e.ReadTimeout):
            await stream.read()
    assert (await h2_client.get(url)).status_code == 200
    assert relay.connections == 2


@pytest.mark.parametrize("settings", [{"retry": 1}, {"retry": 2, "hedge": Hedge(after=0.1)}])
async def test_a_retry_uses_another_connection(
    make_client: MakeClient, relay: Relay, url: str, settings: dict[str, Any]
) -> None:
    client = make_client(http2=True, timeout=Timeout(read=30), **settings)
    await client.get(url)
    relay.forget()
    response = await client.get(url, timeout=SHORT)
    assert response.status_code == 200
    assert len(response.attempts) >= 2


async def test_a_probe_of_a_breaker_uses_another_connection(
    make_client: MakeClient, relay: Relay, url: str
) -> None:
    breaker = curlhttp.CircuitBreaker(failure_threshold=1, recovery_timeout=0.01)
    client = make_client(http2=True, timeout=Timeout(read=30), breaker=breaker)
    await client.get(url)
    relay.forget()
    await lost(client.get, url, timeout=SHORT)
    while True:
        with suppress(e.CircuitBreakerOpen):
            assert (await client.get(url)).status_code == 200
            break
        await anyio.sleep(0.01)


async def test_a_silent_connection_without_tls_is_left_too(make_client: MakeClient) -> None:
    client = make_client(http2="prior-knowledge")
    with H2Server() as server, Relay(server.port) as relay:
        url = f"http://127.0.0.1:{relay.port}/"
        await client.get(url)
        relay.forget()
        with pytest.raises(e.ReadTimeout):
            await client.get(url, timeout=SHORT)
        for _ in range(3):
            assert (await client.get(url, timeout=30)).status_code == 200
        assert relay.connections == 2


@pytest.mark.colours("blocking")
async def test_a_blocking_map_over_http_2_loses_one_round(
    make_client: MakeClient, relay: Relay, url: str
) -> None:
    client = make_client(http2=True)

    async def statuses(count: int, timeout: Timeout) -> list[Any]:
        results = client.map([url] * count, timeout=timeout, concurrency=4)
        return [getattr(one, "status_code", one) async for one in results]

    assert await statuses(4, Timeout(read=30)) == [200] * 4
    opened = relay.connections
    relay.forget()
    assert all(isinstance(one, e.ReadTimeout) for one in await statuses(4, SHORT))
    assert await statuses(40, Timeout(read=30)) == [200] * 40
    assert relay.connections == opened + 1


# --- what was not known to be silent


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long a socket was silent")
@pytest.mark.colours(*COLOURS)
@pytest.mark.parametrize("kept", ["idle", "in use"])
async def test_a_post_does_not_risk_a_connection_that_was_silent_for_long(
    h2_client: AnyClient,
    h2_app: H2Server,
    relay: Relay,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
) -> None:
    async def wait_long() -> None:
        with suppress(e.RequestException):
            await h2_client.get(url + "/stall")

    await h2_client.get(url)
    async with anyio.create_task_group() as tasks:
        if kept == "in use" and not h2_client.is_blocking:
            tasks.start_soon(wait_long)
            assert await anyio.to_thread.run_sync(
                h2_app.wait_for, lambda: len(h2_app.requests) == 2
            )
        relay.forget()
        force(monkeypatch, "seconds without bytes that make a connection unproven", 0.0)
        await anyio.sleep(0.1)  # the system counts milliseconds
        assert (await h2_client.post(url, content=b"pay")).status_code == 200
        assert relay.connections == 2
        assert sum(record.method == "POST" for record in h2_app.requests) == 1
        tasks.cancel_scope.cancel()


async def test_a_post_uses_a_connection_that_received_bytes(
    h2_client: AnyClient, relay: Relay, url: str
) -> None:
    for _ in range(3):
        await h2_client.get(url)
        await h2_client.post(url, content=b"pay")
    assert relay.connections == 1


@ON_A_LOOP
async def test_cancelled_requests_mark_the_connection_silent(
    h2_client: AnyClient, relay: Relay, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller with a time limit around the client never lets a timeout of ours run out."""
    await h2_client.get(url)
    relay.forget()
    force(monkeypatch, "seconds after which a cancelled request was long", 0.2)
    with anyio.move_on_after(0.5):
        await h2_client.get(url)
    assert (await h2_client.get(url)).status_code == 200
    assert relay.connections == 2


# --- HTTP/3


@pytest.fixture
def caddy(tmp_path: Path, certs: Certs) -> Iterator[Caddy]:
    with Caddy(tmp_path, certs) as server:
        yield server


@pytest.mark.skipif(not has_caddy(), reason="caddy is not installed")
@ON_A_LOOP
@pytest.mark.parametrize("how", ["forgotten", "killed"])
async def test_a_silent_connection_of_http_3_fails_each_request_on_it_once(
    make_client: MakeClient, caddy: Caddy, how: str
) -> None:
    client = make_client(http3=True, timeout=Timeout(read=30, connect=30))
    with DatagramRelay(caddy.port) as relay:
        url = f"https://localhost:{relay.port}"
        assert (await client.get(url)).http_version == "HTTP/3"
        before = relay.connections
        if how == "forgotten":
            relay.forget()
        else:
            await anyio.to_thread.run_sync(caddy.kill)
        await lose_at_once(client, url)
        if how == "killed":
            await anyio.to_thread.run_sync(caddy.start)
        found = await client.gather(AT_ONCE, "GET", url)
        found += await client.gather(AT_ONCE, "POST", url, content=b"pay")
        assert {response.http_version for response in found} == {"HTTP/3"}
        assert relay.connections == before + 1
