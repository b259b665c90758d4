"""The adaptive limit in both clients: what it learns from attempts, and who waits for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import (
    AdaptiveLimit,
    CircuitBreaker,
    ClientRequest,
    Hedge,
    PoolTimeout,
    RateLimit,
    RetryPolicy,
    Timeout,
)
from curlhttp.testing import Answer, Fault, ScriptedEngine, refused, reset, silent, unreachable
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

URL, ORIGIN = "http://a.test/", "http://a.test:80"
ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
WINDOW = 20


async def send(client: AnyClient, count: int = WINDOW, **options: Any) -> None:
    for _ in range(count):
        with suppress(curlhttp.RequestException):
            await client.get(URL, **options)


def scripted(
    make_client: MakeClient, step: Any, limit: AdaptiveLimit, **settings: Any
) -> AnyClient:
    engine = ScriptedEngine(lambda request: step)
    return make_client(concurrency_limit=limit, transport=engine, **settings)


# --- what it learns ---


async def test_one_request_after_another_lets_a_limit_of_one_grow(make_client: MakeClient) -> None:
    limit = AdaptiveLimit(1)
    client = scripted(make_client, Answer(delay=0.1), limit)
    await send(client)
    assert limit.current(ORIGIN) == 2
    assert limit.in_use(ORIGIN) == 0


async def test_what_the_origin_did_not_answer_has_no_latency(make_client: MakeClient) -> None:
    own = 0

    async def middleware(request: Any, send: Any) -> Any:
        return request.respond(200) if own else await send(request)

    limit = AdaptiveLimit(16)
    client = scripted(make_client, Answer(delay=0.5), limit, attempt_middleware=[middleware])
    own = 1
    await send(client, 2 * WINDOW)
    own = 0
    await send(client, 2 * WINDOW)
    assert limit.current(ORIGIN) == 16


async def test_a_handshake_takes_until_its_response(make_client: MakeClient) -> None:
    learned: list[float] = []

    class Limit(AdaptiveLimit):
        def _note_response(
            self, origin: str, status_code: int, latency: Any, *times: float
        ) -> None:
            learned.append(latency)

    def answer_late(record: Record, conn: AppConnection) -> None:
        conn.wait_closed(0.05)
        conn.reply(403)

    client = make_client(concurrency_limit=Limit())
    with AppServer() as server:
        server.route("/x", answer_late)
        with pytest.raises(curlhttp.WebSocketRefused):
            await client.websocket(server.url + "/x")
    assert learned[0] >= 0.05


@pytest.mark.parametrize("step", [429, 503, 504, silent(), unreachable()])
async def test_rejections_and_timeouts_shrink_it(make_client: MakeClient, step: Any) -> None:
    limit = AdaptiveLimit(16)
    client = scripted(make_client, step, limit, timeout=Timeout(connect=1, read=1))
    await send(client)
    assert limit.current(ORIGIN) == 8


@pytest.mark.parametrize("step", [500, refused(), reset(), Fault(curlhttp.InvalidURL("bad"))])
async def test_other_failures_do_not_change_it(make_client: MakeClient, step: Any) -> None:
    limit = AdaptiveLimit(16)
    client = scripted(make_client, step, limit)
    await send(client, 3 * WINDOW)
    assert limit.current(ORIGIN) == 16
    assert limit.in_use(ORIGIN) == 0


async def test_the_total_timeout_is_a_latency(make_client: MakeClient) -> None:
    limit = AdaptiveLimit(16)
    delay = [0.1]
    engine = ScriptedEngine(lambda request: Answer(delay=delay[0]))
    client = make_client(concurrency_limit=limit, transport=engine, timeout=Timeout(total=2))
    await send(client)
    assert limit.current(ORIGIN) == 16  # it was not reached
    delay[0] = 60.0
    await send(client)
    assert limit.current(ORIGIN) == 8


async def test_each_attempt_counts(make_client: MakeClient) -> None:
    limit = AdaptiveLimit(16)
    client = scripted(make_client, 503, limit, retry=RetryPolicy(3, budget=None))
    await send(client, WINDOW // 4)
    assert limit.current(ORIGIN) == 8


async def test_what_the_breaker_refuses_says_nothing(make_client: MakeClient) -> None:
    limit = AdaptiveLimit(16)
    client = scripted(make_client, 503, limit, breaker=CircuitBreaker(5, 30.0))
    await send(client, 3 * WINDOW)
    assert limit.current(ORIGIN) == 16


async def test_the_wait_for_the_rate_limit_is_no_latency(make_client: MakeClient) -> None:
    limit = AdaptiveLimit(16)
    delay, rate = [0.1], RateLimit(1)
    engine = ScriptedEngine(lambda request: Answer(delay=delay[0]))
    client = make_client(
        concurrency_limit=limit, rate_limit=rate, transport=engine, timeout=Timeout(total=5)
    )
    await send(client)
    assert engine.now() > WINDOW - 2
    assert limit.current(ORIGIN) >= 16


async def test_a_streamed_response_counts_at_its_head_and_holds_its_place(
    make_client: MakeClient,
) -> None:
    limit = AdaptiveLimit(1)
    client = scripted(make_client, Answer(content=[b"a", b"b"], delay=0.1, pace=50.0), limit)
    for _ in range(WINDOW):
        async with await client.stream("GET", URL) as streamed:
            assert limit.in_use(ORIGIN) == 1
            await streamed.read()
        assert limit.in_use(ORIGIN) == 0
    assert limit.current(ORIGIN) == 2


async def test_an_origin_has_its_own_limit_on_each_hop(make_client: MakeClient) -> None:
    limit = AdaptiveLimit(16)

    def answer(request: ClientRequest) -> Any:
        if request.url.host == "b.test":
            return 503
        return Answer(302, {"Location": "http://b.test/"}, delay=0.1)

    client = make_client(concurrency_limit=limit, transport=ScriptedEngine(answer))
    await send(client)
    assert limit.current(ORIGIN) == 16
    assert limit.current("http://b.test:80") == 8


async def test_a_hedge_that_loses_counts_and_gives_its_place_back(
    make_client: MakeClient,
) -> None:
    limit = AdaptiveLimit(16)
    steps = iter([Answer(delay=1.0), Answer(503, delay=0.2)] * WINDOW)
    engine = ScriptedEngine(lambda request: next(steps))
    client = make_client(
        concurrency_limit=limit,
        transport=engine,
        hedge=Hedge(after=0.1, budget=curlhttp.RetryBudget(reserve=1000)),
    )
    await send(client, WINDOW // 2)
    assert len(engine.sent) == WINDOW
    assert limit.current(ORIGIN) == 8  # half of the attempts were rejected
    assert limit.in_use(ORIGIN) == 0


# --- who waits ---


async def test_a_place_that_does_not_become_free_is_a_pool_timeout(
    make_client: MakeClient,
) -> None:
    client = scripted(make_client, 200, AdaptiveLimit(1))
    async with await client.stream("GET", URL):
        with pytest.raises(PoolTimeout, match="none of the 1 concurrent requests that the origin"):
            await client.get(URL, timeout=Timeout(pool=2.0))
        with pytest.raises(curlhttp.DeadlineExceeded, match="none of the 1 concurrent requests"):
            await client.get(URL, timeout=Timeout(total=2.0))
    assert (await client.get(URL)).ok


@ONLY_ASYNC
async def test_cancelled_requests_give_their_places_back(
    make_client: MakeClient, app: AppServer
) -> None:
    limit = AdaptiveLimit(2)
    client = make_client(concurrency_limit=limit)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(client.get, f"{app.url}/stall")
        with anyio.fail_after(30):
            while sum(waiting for _, _, waiting in limit._states().values()) < 18:
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert [state[1:] for state in limit._states().values()] == [(0, 0)]
    assert (await client.get(f"{app.url}/bytes/1")).ok


async def test_real_requests_are_answered_and_give_their_places_back(
    make_client: MakeClient, app: AppServer
) -> None:
    limit = AdaptiveLimit(2, maximum=8)
    client = make_client(concurrency_limit=limit)
    responses = await client.gather(60, "GET", f"{app.url}/bytes/1")
    assert all(response.status_code == 200 for response in responses)
    ((current, used, waiting),) = limit._states().values()
    assert (used, waiting) == (0, 0)
    assert 1 <= current <= 8


async def test_a_map_stays_within_it(make_client: MakeClient, app: AppServer) -> None:
    limit = AdaptiveLimit(1, maximum=1)
    client = make_client(concurrency_limit=limit)
    urls = [f"{app.url}/bytes/1?seed={number}" for number in range(30)]
    results = [result async for result in client.map(urls, concurrency=6)]
    assert [result.status_code for result in results] == [200] * 30
    assert [record.query("seed") for record in app.requests] == [str(n) for n in range(30)]
    assert app.connections == 1


def test_a_client_without_it_does_not_load_its_modules() -> None:
    script = (
        "import sys, curlhttp\n"
        "from curlhttp.testing import ScriptedEngine\n"
        "limit = curlhttp.ConcurrencyLimit(3)\n"
        "client = curlhttp.Client(concurrency_limit=limit, transport=ScriptedEngine([200]))\n"
        "client.get('http://a.test/')\n"
        "print([name for name in sys.modules if 'adaptive' in name])\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize(
    ("latency", "timeout", "wait", "error"),
    [
        (None, {"total": 2.0}, 2.0, curlhttp.DeadlineExceeded),
        (0.4, {"total": 2.0}, 1.6, curlhttp.DeadlineExceeded),
        (1.5, {"total": 2.0}, 1.0, curlhttp.DeadlineExceeded),  # half of the time at most
        (0.4, {"total": 2.0, "pool": 1.0}, 1.0, PoolTimeout),
        (0.4, {"pool": 3.0}, 3.0, PoolTimeout),
    ],
)
async def test_a_request_waits_only_as_long_as_leaves_it_time_for_its_response(
    make_client: MakeClient,
    latency: float | None,
    timeout: dict[str, float],
    wait: float,
    error: type[curlhttp.RequestException],
) -> None:
    limit = AdaptiveLimit(1, maximum=1)
    engine = ScriptedEngine(lambda request: Answer(delay=latency or 0.0))
    client = make_client(concurrency_limit=limit, transport=engine)
    await send(client, 0 if latency is None else WINDOW)
    sent = len(engine.sent)
    lease = limit._try_acquire(ORIGIN)
    assert lease is not None
    with pytest.raises(error) as caught:
        await client.get(URL, timeout=Timeout(**timeout))
    assert engine.sleeps == pytest.approx([wait])
    assert len(engine.sent) == sent
    assert not caught.value.request_sent
    lease.release()
    assert (await client.get(URL, timeout=Timeout(**timeout))).status_code == 200
