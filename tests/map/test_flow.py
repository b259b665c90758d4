"""The layers between a map and the sockets, for many requests at once."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import CircuitBreaker, ConcurrencyLimit, Hedge, RetryPolicy, Timeout
from curlhttp.testing import Answer
from tests.servers import AppConnection, AppServer, H2Server, Record
from tests.support.colours import AnyClient
from tests.support.pace import assert_in_time, paced
from tests.support.scripted import URL, Scripted, steady

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., AnyClient]


async def results_of(client: AnyClient, items: Any, **options: Any) -> list[Any]:
    return [result async for result in client.map(items, ordered=True, **options)]


def fails_once(app: AppServer) -> None:
    seen: set[str] = set()

    def respond(record: Record, conn: AppConnection) -> None:
        known = record.path in seen
        seen.add(record.path)
        conn.reply(200 if known else 503)

    app.route("/once", respond)


# --- order ---


@pytest.mark.parametrize("ordered", [False, True])
async def test_items_are_sent_in_the_order_in_which_they_are_given(
    scripted: Scripted, ordered: bool
) -> None:
    client, engine = scripted(lambda request: 200)
    urls = [f"{URL}{number}" for number in range(9)]

    async def awaited() -> AsyncIterator[str]:
        for url in urls:
            yield url

    sources = [lambda: urls] if client.is_blocking else [lambda: urls, awaited]
    for source in sources * 8:  # trio chooses between two orders, again each time it runs tasks
        engine.sent.clear()
        assert len([1 async for _ in client.map(source(), ordered=ordered, concurrency=4)]) == 9
        assert [sent.url for sent in engine.sent] == urls


# --- what is repeated, limited and refused ---


async def test_each_request_of_a_map_has_its_retries(
    make_client: MakeClient, app: AppServer
) -> None:
    fails_once(app)
    quick = curlhttp.ExponentialBackoff(base=0.01)
    client = make_client(retry=RetryPolicy(2, backoff_strategy=quick, budget=None))
    got = await results_of(client, [f"{app.url}/once/{n}" for n in range(20)], concurrency=5)
    assert [result.status_code for result in got] == [200] * 20
    assert {len(result.attempts) for result in got} == {2}


async def test_waits_for_retries_overlap(make_client: MakeClient, app: AppServer) -> None:
    fails_once(app)
    steadily = curlhttp.ExponentialBackoff(base=0.3)
    client = make_client(retry=RetryPolicy(2, backoff_strategy=steadily, budget=None))
    begun = time.monotonic()
    got = await results_of(client, [f"{app.url}/once/{n}" for n in range(10)], concurrency=10)
    assert [result.status_code for result in got] == [200] * 10
    assert time.monotonic() - begun >= 0.3
    assert_in_time(time.monotonic() - begun, 0.3, 1.2)


async def test_a_policy_of_a_map_is_used(client: AnyClient, app: AppServer) -> None:
    assert (await results_of(client, [app.url]))[0].status_code == 200  # without one
    fails_once(app)
    got = await results_of(client, [f"{app.url}/once/{n}" for n in range(3)], retry=1)
    assert [len(result.attempts) for result in got] == [2] * 3


async def test_a_concurrency_limit_holds_in_a_map(make_client: MakeClient, app: AppServer) -> None:
    limit = ConcurrencyLimit(3)
    client = make_client(concurrency_limit=limit)
    got = await results_of(client, [app.url + "/delay/0.005"] * 30, concurrency=20)
    assert [result.status_code for result in got] == [200] * 30
    assert app.connections <= 3
    assert limit.in_use(app.url) == 0


async def test_permits_are_released_when_a_map_is_cancelled(
    make_client: MakeClient, app: AppServer
) -> None:
    limit, breaker = ConcurrencyLimit(3), CircuitBreaker()
    client = make_client(concurrency_limit=limit, breaker=breaker)
    async with client.map([app.url, *[app.url + "/stall"] * 20], concurrency=10) as results:
        await results.__anext__()
    assert limit.in_use(app.url) == 0
    assert (await client.get(app.url)).status_code == 200


async def test_a_breaker_opens_within_a_map(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(breaker=CircuitBreaker(5, 30.0))
    got = await results_of(client, [app.url + "/status/503"] * 50, concurrency=2)
    refused = [result for result in got if isinstance(result, curlhttp.CircuitBreakerOpen)]
    assert len(refused) >= 50 - 5 - 1
    assert len(app.requests) <= 6
    assert {str(error.request.url) for error in refused if error.request} == {
        app.url + "/status/503"
    }


async def test_a_slow_request_of_a_map_is_hedged(make_client: MakeClient, app: AppServer) -> None:
    first: list[bool] = []

    def slow_first(record: Record, conn: AppConnection) -> None:
        if not first:
            first.append(True)
            conn.stall()
        else:
            conn.reply(200, b"second")

    app.route("/slow-first", slow_first)
    client = make_client(hedge=Hedge(after=0.05))
    got = await results_of(client, [app.url + "/slow-first", app.url])
    assert [result.content for result in got] == [b"second", b"hello"]
    assert app.wait_for(lambda: app.open_connections <= 2)


async def test_maps_and_single_requests_hedge_by_the_same_times(
    make_client: MakeClient, app: AppServer
) -> None:
    def slow_at_last(record: Record, conn: AppConnection) -> None:
        if len(app.requests) == 31:
            conn.stall()
        else:
            conn.reply(200, b"fast")

    app.route("/times", slow_at_last)
    client = make_client(hedge=Hedge(after="p95"), timeout=Timeout(total=30))
    await results_of(client, [app.url + "/times"] * 30)
    assert (await client.get(app.url + "/times")).content == b"fast"
    assert len(app.requests) == 32


async def test_the_pool_timeout_is_that_of_each_request(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1, timeout=Timeout(pool=paced(0.1)))
    got = await results_of(client, [app.url + f"/delay/{paced(0.4)}"] * 4, concurrency=4)
    kinds = sorted(type(result).__name__ for result in got)
    assert kinds == ["PoolTimeout"] * 3 + ["Response"]


async def test_the_total_timeout_is_that_of_each_request(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()
    items = [app.url + "/stall", app.url, app.url + "/stall"]
    got = await results_of(client, items, timeout=Timeout(total=paced(0.2)))
    assert isinstance(got[0], curlhttp.DeadlineExceeded)
    assert got[1].status_code == 200
    assert isinstance(got[2], curlhttp.DeadlineExceeded)


# --- redirects, cookies, authentication, middleware ---


async def test_redirects_are_followed(client: AnyClient, app: AppServer) -> None:
    got = await results_of(client, [app.url + "/redirect/3"] * 10, concurrency=4)
    assert [(result.content, len(result.history)) for result in got] == [(b"hello", 3)] * 10
    got = await results_of(client, [app.url + "/redirect/3"], follow_redirects=False)
    assert [result.status_code for result in got] == [302]


async def test_cookies_are_the_clients(client: AnyClient, app: AppServer) -> None:
    await results_of(client, [app.url + "/cookies/set?a=1", app.url + "/cookies/set?b=2"])
    assert (await client.get(app.url + "/cookies")).json()["cookies"] == {"a": "1", "b": "2"}
    got = await results_of(client, [app.url + "/cookies"] * 3)
    assert [result.json()["cookies"] for result in got] == [{"a": "1", "b": "2"}] * 3


async def test_middleware_and_hooks_see_each_request(
    make_client: MakeClient, app: AppServer
) -> None:
    seen = []

    async def notes(request: Any, send: Any) -> Any:
        response = await send(request)
        seen.append(response.status_code)
        return response

    responses: list[Any] = []
    client = make_client(middleware=[notes], hooks={"response": responses.append})
    await results_of(client, [app.url] * 9)
    assert seen == [200] * 9
    assert len(responses) == 9


async def test_a_middleware_may_stream_on_its_own(make_client: MakeClient, app: AppServer) -> None:
    async def streams(request: Any, send: Any) -> Any:
        response = await send(request.derive(stream=True))
        await response.discard()
        return await send(request)

    client = make_client(middleware=[streams])
    got = await results_of(client, [app.url] * 3)
    assert [result.content for result in got] == [b"hello"] * 3


# --- uploads ---


async def test_bodies_of_all_kinds_are_sent(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    big = bytes(range(256)) * 2000
    (tmp_path / "big").write_bytes(big)

    def pieces() -> Iterator[bytes]:
        yield from (b"a" * 70_000, b"b" * 70_000)

    with (tmp_path / "big").open("rb") as file:
        build = client.real.build_request
        items = [
            build("POST", app.url + "/echo", content=big),
            build("PUT", app.url + "/echo", content=file),
            build("PUT", app.url + "/echo", content=pieces()),
            build("PUT", app.url + "/echo", content=pieces),
            build("POST", app.url + "/echo", data={"a": "b"}),
            build("POST", app.url + "/echo", files={"f": io.BytesIO(big)}),
        ]
        got = await results_of(client, items)
    assert [result.status_code for result in got] == [200] * 6
    bodies = {record.body for record in app.requests}
    assert bodies >= {big, b"a" * 70_000 + b"b" * 70_000, b"a=b"}
    assert any(big in body and body != big for body in bodies)


async def test_an_exception_of_a_body_ends_the_map(client: AnyClient, app: AppServer) -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    request = client.real.build_request("PUT", app.url + "/echo", content=broken())
    with pytest.raises(ZeroDivisionError):
        await results_of(client, [request])


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_async_bodies_are_sent(client: AnyClient, app: AppServer) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    items = [client.real.build_request("PUT", app.url + "/echo", content=pieces())] * 1
    assert (await results_of(client, items))[0].status_code == 200
    assert app.requests[0].body == b"onetwo"


# --- HTTP/2 ---


async def test_many_requests_share_a_connection_of_http2(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    got = await results_of(client, [h2_app.url + "/bytes/100"] * 200, concurrency=50)
    assert {(result.status_code, result.http_version) for result in got} == {(200, "HTTP/2")}
    assert h2_app.connections == 1


# --- a scripted network ---


async def test_a_map_runs_on_a_script(scripted: Scripted) -> None:
    client, engine = scripted(lambda request: Answer(200, content=request.url.path.encode()))
    got = await results_of(client, [f"{URL}{n}" for n in range(100)], concurrency=8)
    assert [result.content for result in got] == [b"/%d" % n for n in range(100)]
    assert len(engine.sent) == 100


async def test_the_clock_of_a_script_is_that_of_the_map(scripted: Scripted) -> None:
    client, engine = scripted([503, 503, 200], retry=steady())
    (result,) = await results_of(client, [URL])
    assert result.status_code == 200
    assert engine.sleeps == [1.0, 2.0]


async def test_a_map_left_early_sends_few_requests(scripted: Scripted) -> None:
    client, engine = scripted(lambda request: 200)
    async with client.map((f"{URL}{n}" for n in range(10_000)), concurrency=4) as results:
        await results.__anext__()
    assert len(engine.sent) <= (1 if client.is_blocking else 1 + 8)
