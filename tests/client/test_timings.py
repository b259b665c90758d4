"""Timings of responses, streams and failures."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

from curlhttp import Timeout
from curlhttp import exceptions as e
from tests.servers import (
    AppServer,
    BlackHole,
    H2Server,
    RawServer,
    respond_and_close,
    respond_and_stall,
    response,
)
from tests.support.colours import AnyClient
from tests.support.pace import assert_in_time, paced

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]


async def test_the_parts_add_up(client: AnyClient, app: AppServer) -> None:
    start = time.monotonic()
    response_ = await client.get(app.url + "/delay/0.05")
    took = time.monotonic() - start
    timings = response_.timings
    assert timings.total >= timings.first_byte >= 0.05
    assert timings.total <= took
    assert timings.first_byte >= timings.dns + timings.connect + timings.tls
    assert min(timings[:6]) >= 0
    assert timings.peer == ("127.0.0.1", app.port)
    assert response_.elapsed.total_seconds() == pytest.approx(timings.first_byte, abs=1e-5)


async def test_a_new_connection_has_a_connect_time_and_a_reused_one_none(
    client: AnyClient, app: AppServer
) -> None:
    first, second = [await client.get(app.url + "/") for _ in range(2)]
    assert not first.timings.reused
    assert first.timings.connect > 0
    assert first.timings.tls == 0
    assert second.timings.reused
    assert second.timings.dns == second.timings.connect == second.timings.tls == 0
    assert second.timings.first_byte > 0
    assert second.timings.peer == ("127.0.0.1", app.port)


@pytest.mark.parametrize("http2", [False, True])
async def test_tls_has_a_time_on_a_new_connection_only(
    http2: bool, make_client: MakeClient, tls_app: AppServer, h2_app: H2Server
) -> None:
    client = make_client(http2=http2)
    server = h2_app if http2 else tls_app
    first, second = [await client.get(server.url + "/") for _ in range(2)]
    assert first.timings.tls > 0
    assert first.timings.connect > 0
    assert second.timings.reused
    assert second.timings.tls == second.timings.connect == 0


async def test_a_name_has_a_resolution_time(client: AnyClient, app: AppServer) -> None:
    response_ = await client.get(app.at("localhost") + "/")
    assert response_.timings.dns > 0
    assert response_.timings.peer is not None
    assert response_.timings.peer[1] == app.port


async def test_timings_have_the_wait_for_a_handle(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(max_connections=1)
    each = paced(0.1)
    responses = await client.gather(3, "GET", app.url + f"/delay/{each}")
    queues = sorted(response_.timings.queue for response_ in responses)
    assert queues[0] < each / 2 < queues[1] < 2 * each
    assert 1.5 * each < queues[2] < 3 * each
    assert max(response_.timings.total for response_ in responses) < 2 * each  # not counted twice


async def test_a_stream_has_timings_up_to_its_head(client: AnyClient, app: AppServer) -> None:
    async with await client.stream("GET", app.url + f"/drip?n=3&interval={paced(0.05)}") as stream:
        timings = stream.real.timings
        assert 0 < timings.first_byte < paced(0.1)
        assert timings.peer == ("127.0.0.1", app.port)
        assert not timings.reused
        assert await stream.read() == b"xxx"


async def test_each_redirect_has_its_own_timings(client: AnyClient, app: AppServer) -> None:
    response_ = await client.get(app.url + "/redirect/2")
    hops = [*response_.history, response_]
    assert [hop.timings.reused for hop in hops] == [False, True, True]
    assert len({hop.timings.total for hop in hops}) == 3


async def test_a_failure_has_timings_up_to_its_phase(client: AnyClient, app: AppServer) -> None:
    with BlackHole() as hole:
        with pytest.raises(e.ConnectTimeout) as caught:
            await client.get(hole.url, timeout=Timeout(connect=paced(0.1)))
    timings = caught.value.timings
    assert timings is not None
    assert timings.connect == timings.first_byte == timings.tls == 0
    assert not timings.reused
    assert timings.total > paced(0.09)
    assert_in_time(timings.total, paced(0.1), 0.1)

    with RawServer(respond_and_stall(b"")) as server:
        with pytest.raises(e.ReadTimeout) as silent:
            await client.get(server.url, timeout=Timeout(read=0.1))
        timings = silent.value.timings
        assert timings is not None
        assert timings.connect > 0
        assert timings.first_byte == 0
        assert timings.peer == ("127.0.0.1", server.port)
        assert not timings.reused

    with RawServer(respond_and_close(response(b"abc")[:-1])) as server:
        with pytest.raises(e.ChunkedEncodingError) as cut:
            await client.get(server.url)
        timings = cut.value.timings
        assert timings is not None
        assert timings.first_byte > 0
        assert timings.peer == ("127.0.0.1", server.port)


async def test_a_failure_on_a_reused_connection_says_so(client: AnyClient, app: AppServer) -> None:
    timeout = (30, paced(0.2))
    await client.request("GET", app.url + "/", timeout=timeout)
    with pytest.raises(e.ReadTimeout) as caught:
        await client.get(app.url + "/stall", timeout=timeout)
    assert caught.value.timings is not None
    assert caught.value.timings.reused


async def test_an_unsent_request_has_no_timings(client: AnyClient) -> None:
    with pytest.raises(e.InvalidURL) as caught:
        await client.get("http://a b/")
    assert caught.value.timings is None


async def test_timings_of_concurrent_requests_are_apart(client: AnyClient, app: AppServer) -> None:
    slow: list[float] = []
    fast: list[float] = []

    async def get(path: str, results: list[float]) -> None:
        if client.is_blocking:
            response_ = await anyio.to_thread.run_sync(lambda: client.real.get(app.url + path))
        else:
            response_ = await client.get(app.url + path)
        results.append(response_.timings.total)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get, f"/delay/{paced(0.2)}", slow)
        tasks.start_soon(get, "/", fast)
    assert slow[0] > paced(0.19) > paced(0.15) > fast[0]
