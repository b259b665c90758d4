"""The limits of one attempt: its time, from when it is sent, and its minimum speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import RateLimit, Timeout
from tests.servers import AppConnection, AppServer, Record
from tests.support.cli import run
from tests.support.colours import AnyClient
from tests.support.pace import paced

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., AnyClient]


async def test_the_wait_for_a_rate_is_not_part_of_an_attempt(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(rate_limit=RateLimit(1 / paced(0.5)), timeout=Timeout(attempt=paced(0.45)))
    got = [result async for result in client.map([app.url] * 4)]
    assert [getattr(result, "status_code", result) for result in got] == [200] * 4


async def test_the_wait_for_a_connection_is_not_part_of_an_attempt(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1, timeout=Timeout(attempt=paced(0.8)))
    items = [f"{app.url}/delay/{paced(0.3)}"] * 4
    got = [result async for result in client.map(items)]
    assert [getattr(result, "status_code", result) for result in got] == [200] * 4


@pytest.mark.parametrize("path", ["/drip?n=1000&interval=0.02", "/delay/5"])
async def test_an_attempt_ends_although_bytes_arrive(
    client: AnyClient, app: AppServer, path: str
) -> None:
    limit = paced(0.2)
    with pytest.raises(curlhttp.ReadTimeout, match=f"attempt took longer than {limit} s") as caught:
        await client.get(app.url + path, timeout=Timeout(attempt=limit))
    assert caught.value.request_sent


async def test_another_request_on_the_same_connection_has_no_such_limit(
    client: AnyClient, app: AppServer
) -> None:
    await client.get(app.url, timeout=Timeout(attempt=paced(0.2)))
    response = await client.get(f"{app.url}/delay/{paced(0.4)}")
    assert response.status_code == 200
    assert app.connections == 1


async def test_the_lesser_of_attempt_and_total_ends_a_request(
    client: AnyClient, app: AppServer
) -> None:
    limits = Timeout(attempt=30, total=paced(0.2))
    with pytest.raises(curlhttp.DeadlineExceeded):
        await client.get(app.url + "/delay/5", timeout=limits)
    limits = Timeout(attempt=paced(0.2), total=30)
    with pytest.raises(curlhttp.ReadTimeout):
        await client.get(app.url + "/delay/5", timeout=limits)


async def test_an_attempt_that_took_too_long_is_made_again(
    make_client: MakeClient, app: AppServer
) -> None:
    def late_once(record: Record, conn: AppConnection) -> None:
        if len(app.requests) == 1:
            conn.begin(200, [("Content-Length", "1")])  # and no body
        else:
            conn.reply(200, b"x")

    app.route("/late", late_once)
    client = make_client(retry=1, timeout=Timeout(attempt=paced(0.3)))
    response = await client.get(app.url + "/late")
    assert response.content == b"x"
    assert len(response.attempts) == 2


@pytest.mark.parametrize("read", [None, 30])
async def test_a_response_that_is_too_slow_ends(
    client: AnyClient, app: AppServer, read: float | None
) -> None:
    limits = Timeout(read=read, min_speed=(10_000, paced(0.1)))
    with pytest.raises(curlhttp.ReadTimeout, match="less than 10000 bytes per second"):
        await client.get(app.url + "/drip?n=1000&interval=0.02", timeout=limits)


async def test_a_map_leaves_a_slow_response(client: AnyClient, app: AppServer) -> None:
    limits = Timeout(min_speed=(10_000, paced(0.1)))
    items = [app.url + "/drip?n=1000&interval=0.02", app.url]
    got = [type(result).__name__ async for result in client.map(items, timeout=limits)]
    assert got == ["Response", "ReadTimeout"]


async def test_a_response_that_is_fast_enough_is_complete(
    client: AnyClient, app: AppServer
) -> None:
    limits = Timeout(min_speed=(1, paced(0.2)))
    response = await client.get(app.url + f"/drip?n=30&interval={paced(0.02)}", timeout=limits)
    assert len(response.content) == 30


async def test_a_slow_stream_ends(client: AnyClient, app: AppServer) -> None:
    limits = Timeout(min_speed=(10_000, paced(0.1)))
    with pytest.raises(curlhttp.ReadTimeout, match="bytes per second"):
        async with await client.stream(
            "GET", app.url + "/drip?n=1000&interval=0.02", timeout=limits
        ) as stream:
            await stream.read()


async def test_a_stream_that_nobody_reads_is_not_slow(client: AnyClient, app: AppServer) -> None:
    size = 2 << 20
    limits = Timeout(min_speed=(10_000, paced(0.1)))
    async with await client.stream("GET", f"{app.url}/bytes/{size}", timeout=limits) as response:
        got = 0
        async for piece in response.iterate("bytes", 1 << 20):
            got += len(piece)
            await anyio.sleep(paced(0.3))
    assert got == size


@pytest.mark.parametrize(
    "limits",
    [
        {"attempt": 0},
        {"attempt": "5"},
        {"min_speed": 5},
        {"min_speed": (5,)},
        {"min_speed": (0, 5)},
        {"min_speed": (5, None)},
    ],
)
def test_a_limit_that_is_none_is_refused(limits: dict[str, Any]) -> None:
    (name,) = limits
    with pytest.raises((ValueError, TypeError), match=name):
        Timeout(**limits)


def test_the_commands_of_curl_have_these_limits(app: AppServer) -> None:
    limits = Timeout(attempt=5, min_speed=(100, 30))
    request = curlhttp.Client().build_request("GET", app.url, timeout=limits)
    shown = request.to_curl()
    assert "--max-time 5" in shown
    assert "--speed-limit 100 --speed-time 30" in shown


def test_the_command_line_ends_a_slow_response(app: AppServer) -> None:
    ended = run("get", "-Y", "10000", "-y", "0.2", app.url + "/drip?n=1000&interval=0.02")
    assert ended.status == 28
    assert "less than 10000 bytes per second" in ended.err
    assert "--speed-limit" in ended.err
