"""A retry budget that all processes share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from curlhttp import RetryBudget, RetryPolicy
from tests.redis.conftest import MakeStore
from tests.servers import AppServer
from tests.servers.redis_server import RedisServer
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
ORIGIN = "http://a.test:80"


class NoWait:
    def delays(self, uniform: object) -> object:
        while True:
            yield 0.0


def policy(budget: RetryBudget, most: int = 3) -> RetryPolicy:
    return RetryPolicy(most, backoff_strategy=NoWait(), budget=budget)  # type: ignore[arg-type]


async def test_the_retries_of_all_are_paid_from_one_budget(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    settings = {"ratio": 0.5, "reserve": 0.1, "window": 60.0}  # six without any request
    budgets = [RetryBudget(**settings, store=make_store(redis)) for _ in range(3)]  # type: ignore[arg-type]
    clients = [make_client(retry=policy(budget)) for budget in budgets]
    spent = 0
    for _ in range(4):
        for client in clients:
            response = await client.get(app.url + "/status/503")
            spent += len(response.attempts) - 1
    assert 6 <= spent <= 6 + 12 * 0.5
    assert response.budget_exhausted


def test_deposits_and_withdrawals_are_summed_up(redis: RedisServer, make_store: MakeStore) -> None:
    store = make_store(redis)
    mine, theirs = (RetryBudget(0.5, reserve=0, window=60, store=store) for _ in range(2))
    for budget in (mine, theirs, mine):
        budget._deposit(ORIGIN, 0.0)
    assert (
        store.ask_here(theirs._make_withdraw_command(ORIGIN))[0] == 0
    )  # one deposit came along: a half
    assert mine.balance(ORIGIN, 0.0) == pytest.approx(1.5)
    assert store.ask_here(theirs._make_withdraw_command(ORIGIN))[0] == 1
    assert store.ask_here(mine._make_withdraw_command(ORIGIN))[0] == 0
    store.tell(theirs._make_refund_command(ORIGIN))
    assert theirs.balance(ORIGIN, 0.0) == pytest.approx(1.5)


def test_deposits_are_sent_a_tenth_of_the_window_later(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(redis)
    budget = RetryBudget(1.0, reserve=0, window=10, store=store)
    other = RetryBudget(1.0, reserve=0, window=10, store=store)
    budget._deposit(ORIGIN, 0.0)
    budget._deposit(ORIGIN, 0.5)
    assert other.balance(ORIGIN, 0.0) == 0
    budget._deposit(ORIGIN, 1.0)
    assert other.balance(ORIGIN, 0.0) == 3


def test_deposits_last_for_the_window(redis: RedisServer, make_store: MakeStore) -> None:
    store = make_store(redis)
    budget = RetryBudget(1.0, reserve=0, window=0.5, store=store)
    for _ in range(3):
        budget._deposit(ORIGIN, 0.0)
    assert budget.balance(ORIGIN, 0.0) == 3
    with redis.client() as client:
        (name,) = client.keys("*")
        assert 0 < client.pttl(name) <= 550
    end = time.monotonic() + 60
    while budget.balance(ORIGIN, 0.0) > 0:
        assert time.monotonic() < end
        time.sleep(0.02)
