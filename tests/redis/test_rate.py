"""A rate that processes share: reservations are made at the store, on its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from curlhttp import (
    CircuitBreaker,
    CircuitBreakerOpen,
    DeadlineExceeded,
    RateLimit,
    StoreError,
    Timeout,
)
from tests.redis.conftest import MakeStore
from tests.servers import AppServer
from tests.servers.redis_server import RedisServer
from tests.support.colours import AnyClient
from tests.support.internals import run_script

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
ORIGIN = "http://a.test:80"
INF = float("inf")


def reserve(store: Any, rate: RateLimit, patience: float = INF) -> tuple[float, Any]:
    """Return the seconds to wait for a turn, and the response."""
    response = store.ask_here(rate._make_reserve_command(ORIGIN, patience))
    return response[1] / 1e6, response


async def test_several_limits_on_one_store_are_one(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    clients = [
        make_client(rate_limit=RateLimit(50, burst=2, store=make_store(redis))) for _ in range(3)
    ]
    begun = time.monotonic()
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.gather, 7, "GET", app.url)
    assert time.monotonic() - begun >= 19 / 50  # 21 requests, two of which go at once


async def test_a_map_keeps_the_shared_rate(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    client = make_client(rate_limit=RateLimit(50, store=make_store(redis)))
    begun = time.monotonic()
    results = [result async for result in client.map([app.url] * 11)]
    assert [result.status_code for result in results] == [200] * 11
    assert time.monotonic() - begun >= 10 / 50


def test_reservations_are_an_interval_apart_after_the_burst(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, rate = make_store(redis), RateLimit(0.1, burst=3)
    waits = [reserve(store, rate)[0] for _ in range(6)]
    assert waits[:3] == [0, 0, 0]
    for number, wait in enumerate(waits[3:], 1):
        assert 10 * number - 10 < wait <= 10.1 * number


def test_a_returned_reservation_is_used_by_the_next_request(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, rate = make_store(redis), RateLimit(0.01)
    turns = [reserve(store, rate) for _ in range(4)]
    for number in (1, 2):  # in the middle of the line
        store.tell(rate._make_refund_command(ORIGIN, turns[number][1]))
    assert reserve(store, rate)[1][2:] == turns[1][1][2:]
    assert reserve(store, rate)[1][2:] == turns[2][1][2:]
    store.tell(rate._make_refund_command(ORIGIN, turns[3][1]))  # the last of the queue
    assert reserve(store, rate)[1][3] == turns[3][1][3]
    assert 300 < reserve(store, rate)[0] <= 401


def test_a_returned_reservation_is_used_once(redis: RedisServer, make_store: MakeStore) -> None:
    store, rate = make_store(redis), RateLimit(0.01)
    turns = [reserve(store, rate)[1] for _ in range(10)]
    for turn in turns[3:8]:
        store.tell(rate._make_refund_command(ORIGIN, turn))
    again = [reserve(store, rate)[1] for _ in range(8)]
    marks = [turn[3] for turn in turns[:3] + turns[8:] + again]
    assert len(set(marks)) == len(marks)


def test_a_request_that_would_wait_too_long_reserves_nothing(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, rate = make_store(redis), RateLimit(0.01)
    reserve(store, rate)
    for _ in range(3):
        assert reserve(store, rate, patience=50)[1][0] == 0
    assert 90 < reserve(store, rate)[0] <= 101


def test_a_late_request_lengthens_the_following_intervals(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, rate = make_store(redis), RateLimit(10)
    before = [reserve(store, rate)[1] for _ in range(20)][-1]  # what follows a pause is over
    assert rate._accept_lateness(0.04)
    reserve(store, rate)
    after = [reserve(store, rate)[1] for _ in range(14)][-1]
    seconds = (float(after[2]) - float(before[2])) / 1e6
    assert seconds == pytest.approx(15 * 0.101 + 0.04, abs=0.001)


@pytest.mark.parametrize("rate", [10, 100])
def test_no_second_has_more_than_the_rate_though_the_first_requests_and_timers_are_late(
    redis: RedisServer, make_store: MakeStore, rate: int
) -> None:
    store, limit = make_store(redis), RateLimit(rate)
    turns = [float(reserve(store, limit)[1][2]) / 1e6 for _ in range(3 * rate)]
    # The first request connects for 40 ms; timers fire up to 10 ms late.
    lates = [0.04, *(0.01 if number % 3 else 0.0 for number in range(1, len(turns)))]
    sent = sorted(turn + late for turn, late in zip(turns, lates, strict=True))
    for earlier, later in zip(sent, sent[rate:], strict=False):
        assert later - earlier >= 1 - 1e-6
    assert turns[-1] - turns[0] <= 1.03 * 3  # at little cost


def test_a_burst_is_sent_at_once_after_a_pause(redis: RedisServer, make_store: MakeStore) -> None:
    store, limit = make_store(redis), RateLimit(5, burst=20)
    assert [reserve(store, limit)[0] for _ in range(20)] == [0] * 20
    assert 0 < reserve(store, limit)[0] <= 0.202


def test_a_reservation_missed_by_far_is_not_used() -> None:
    assert not RateLimit(10)._accept_lateness(0.2)


async def test_a_cancelled_request_returns_its_reservation(
    app: AppServer, redis: RedisServer, make_store: MakeStore, make_client: MakeClient, colour: str
) -> None:
    if colour == "blocking":
        pytest.skip("nothing cancels a call that blocks")
    store, rate = make_store(redis), RateLimit(0.02)
    rate._store = store
    client = make_client(rate_limit=rate)
    await client.get(app.url)
    with anyio.move_on_after(0.05):
        await client.get(app.url)
    origin = app.url.rstrip("/")
    assert 0 < store.ask_here(rate._make_reserve_command(origin, INF))[1] / 1e6 <= 50.1


@pytest.mark.parametrize("total", [0.1])
async def test_a_request_with_too_little_time_fails_at_once(
    make_client: MakeClient,
    app: AppServer,
    redis: RedisServer,
    make_store: MakeStore,
    total: float,
) -> None:
    client = make_client(rate_limit=RateLimit(0.01, store=make_store(redis)))
    await client.get(app.url)
    with pytest.raises(DeadlineExceeded, match=r"admits it in \d") as caught:
        await client.get(app.url, timeout=Timeout(total=30))
    assert caught.value.request is not None


async def test_a_request_that_the_breaker_refuses_reserves_nothing(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    breaker = CircuitBreaker(recovery_timeout=30.0)
    breaker.force_open(app.url)
    client = make_client(rate_limit=RateLimit(0.01, store=make_store(redis)), breaker=breaker)
    for _ in range(3):
        with pytest.raises(CircuitBreakerOpen):
            await client.get(app.url)
    breaker.reset(app.url)
    assert (await client.get(app.url, timeout=Timeout(total=30))).status_code == 200


def test_keys_expire_soon_after_the_last_reservation(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, rate = make_store(redis), RateLimit(10)
    for _ in range(10):
        turn = reserve(store, rate)[1]
        store.tell(rate._make_refund_command(ORIGIN, turn))
    reserve(store, rate)
    with redis.client() as client:
        names = client.keys("*")
        assert names
        assert all(0 < client.pttl(name) <= 3500 for name in names)


def test_other_settings_and_prefixes_have_their_own_keys(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(redis)
    for rate in (RateLimit(0.1), RateLimit(0.2), RateLimit(0.1, burst=2), RateLimit(0.1, per=None)):
        assert reserve(store, rate)[0] == 0
    assert reserve(make_store(redis, prefix="mine"), RateLimit(0.1))[0] == 0
    assert reserve(store, RateLimit(0.1))[0] > 0


async def test_a_key_of_another_kind_is_a_clear_error(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    rate = RateLimit(5, store=make_store(redis))
    name = f"curlhttp:1:rate:{rate._shared_key(app.url.rstrip('/'))}"
    with redis.client() as client:
        client.set(name, "mine")
    with pytest.raises(StoreError, match="data that curlhttp did not write") as caught:
        await make_client(rate_limit=rate).get(app.url)
    assert caught.value.request is not None
    assert app.requests == []


_FORK = """
import os, warnings, curlhttp, curlhttp.redis
warnings.simplefilter("ignore", DeprecationWarning)
store = curlhttp.redis.RedisStore({url!r}, timeout=20)
rate = curlhttp.RateLimit(0.01, store=store)
ask = lambda: store.ask_here(rate._make_reserve_command("http://a.test:80", float("inf")))[1] / 1e6
assert ask() == 0
pid = os.fork()
if pid == 0:
    os._exit(0 if 90 < ask() <= 101 and 190 < ask() <= 201 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert 290 < ask() <= 301
print("ok")
"""


@pytest.mark.slow
def test_a_forked_child_shares_the_rate_on_its_own_connection(redis: RedisServer) -> None:
    assert run_script(_FORK.format(url=redis.url)) == "ok\n"
