"""Shared circuits follow the rules of local ones, on the store's clock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from curlhttp import CircuitBreaker, CircuitBreakerOpen, StoreError
from curlhttp._features.breaker.circuit import BreakerConfig, Circuit
from curlhttp._features.breaker.shared import FRESH, SharedCircuits, StoredCircuit
from curlhttp.redis import _scripts as scripts
from curlhttp.types import BreakerMetrics, Transition
from tests.redis.conftest import MakeStore
from tests.redis.fake_clock import FakeClockStore
from tests.servers import AppServer
from tests.servers.redis_server import RedisServer
from tests.support.colours import AnyClient
from tests.support.internals import run_script
from tests.support.values import slow_but_for

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
ORIGIN = "http://a.test:80"


async def failing(client: AnyClient, app: AppServer, count: int) -> None:
    for _ in range(count):
        await client.get(app.url + "/status/503")


# --- the rules ---

_CHOICES: dict[str, list[Any]] = {
    "failure_threshold": [None, 1, 3],
    "failure_rate": [None, 0.3, 0.5, 1.0],
    "slow_call_rate": [None, 0.4],
    "window": [4, 7],
    "window_seconds": [None, 50],
    "minimum_calls": [1, 3],
    "recovery_timeout": [1, 10, 30],
    "recovery_timeout_max": [5, 10, 100],
    "growth": [1.0, 2.0],
    "half_open_permits": [1, 3],
    "half_open_timeout": [5, 60],
}


def some_rules(chance: random.Random) -> BreakerConfig:
    chosen = {name: chance.choice(values) for name, values in _CHOICES.items()}
    if chosen["failure_threshold"] is None and chosen["failure_rate"] is None:
        chosen["failure_threshold"] = 2
    chosen["slow_call_seconds"] = None if chosen["slow_call_rate"] is None else 1.0
    return BreakerConfig(**chosen)


@pytest.mark.parametrize("seed", slow_but_for(range(20), range(60)))
def test_the_script_steps_as_the_circuits_of_a_process_do(redis: RedisServer, seed: int) -> None:
    chance = random.Random(seed)
    rules, store, circuit = some_rules(chance), FakeClockStore(redis), Circuit()
    shared = SharedCircuits(store, rules)  # type: ignore[arg-type]
    permits: list[tuple[int, str]] = []
    for _ in range(150):
        store.now += chance.choice([0, 1000, 10**6, 3 * 10**6, 12 * 10**6])
        now = store.now / 1e6
        act = chance.choice(["admit", "admit", "record", "record", "record", "release", "force"])
        change: Any = None
        step: tuple[Any, ...]
        if act == "admit":
            step = ("admit",)
            passage = rules.admit(circuit, now)
            change = passage.change
        elif act == "force" and chance.random() < 0.1:
            state: Any = chance.choice(["forced_open", "forced_closed", "closed"])
            step = ("force", state)
            change = rules.force(circuit, now, state)
        elif act == "release" and permits:
            mine, theirs = permits.pop(chance.randrange(len(permits)))
            step = ("release", theirs)
            rules.release(circuit, now, mine)
        elif act == "record" and permits:
            mine, theirs = permits.pop(chance.randrange(len(permits)))
            failed, slow = chance.random() < 0.4, chance.random() < 0.3
            slow = slow and rules.slow_call_rate is not None
            step = ("record", theirs, int(failed), int(slow), -1)
            change = rules.record(circuit, now, (mine, failed, 1.0 if slow else 0.0))
        else:
            continue
        found = StoredCircuit.of(store.ask_here(shared.make_command(ORIGIN, *step)), now)
        assert found.change == change
        assert found.metrics == BreakerMetrics.of(circuit)
        if act == "admit":
            assert found.is_probe == passage.is_probe
            assert found.refused_for == pytest.approx(passage.refused_for, abs=2e-6)
            if passage.refused_for is None:
                permits.append((passage.number, found.permit_number))


def test_an_open_time_is_no_longer_if_the_clock_is_set_back(redis: RedisServer) -> None:
    store = FakeClockStore(redis)
    shared = CircuitBreaker(1, recovery_timeout=10, store=store)._shared  # type: ignore[arg-type]
    assert shared is not None
    response = store.ask_here(shared.make_command(ORIGIN, "record", "0", 1, 0, -1))
    assert StoredCircuit.of(response, 0.0).metrics.state == "open"
    store.now -= 3600 * 10**6
    assert (
        StoredCircuit.of(store.ask_here(shared.make_admit_command(ORIGIN)), 0.0).refused_for == 10
    )


def test_an_unreported_success_resets_consecutive_failures(redis: RedisServer) -> None:
    store = FakeClockStore(redis)
    shared = CircuitBreaker(3, 30.0, store=store)._shared  # type: ignore[arg-type]
    assert shared is not None
    for _ in range(10):
        store.now += 10**6
        # A success, half a second ago.
        response = store.ask_here(shared.make_command(ORIGIN, "record", "0", 1, 0, 500_000))
    assert StoredCircuit.of(response, 0.0).metrics.state == "closed"


# --- clients ---


async def test_a_circuit_that_one_client_opens_is_open_for_all(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    transitions: list[Transition] = []
    mine = CircuitBreaker(3, 30.0, store=make_store(redis))
    theirs = CircuitBreaker(3, 30.0, store=make_store(redis))
    client = make_client(breaker=mine, hooks={"breaker_transition": transitions.append})
    await failing(client, app, 3)
    assert [change.new for change in transitions] == ["open"]
    assert mine.state(app.url) == theirs.state(app.url) == "open"
    other = make_client(breaker=theirs)
    for each in (client, other):
        with pytest.raises(CircuitBreakerOpen) as caught:
            await each.get(app.url)
        assert 25 < caught.value.retry_after <= 30
        assert caught.value.request is not None
    assert len(app.requests) == 3


async def test_failures_of_all_count_together(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    breakers = [CircuitBreaker(4, 30.0, store=make_store(redis)) for _ in range(2)]
    clients = [make_client(breaker=breaker) for breaker in breakers]
    for client in clients:
        await failing(client, app, 2)
    assert [breaker.state(app.url) for breaker in breakers] == ["open", "open"]


async def test_exactly_one_probe_is_sent_by_many_clients(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    settings: dict[str, Any] = {"failure_threshold": 1, "recovery_timeout": 0.3}
    stores = [make_store(redis) for _ in range(4)]
    breakers = [CircuitBreaker(**settings, store=store) for store in stores]
    clients = [make_client(breaker=breaker) for breaker in breakers]
    await failing(clients[0], app, 1)
    await anyio.sleep(0.4)
    app.reset_counts()
    refused: list[CircuitBreakerOpen] = []

    async def ask(client: AnyClient) -> None:
        try:
            await client.gather(1, "GET", app.url + "/delay/0.5")
        except BaseException as error:
            while not isinstance(error, CircuitBreakerOpen):
                error = error.exceptions[0]  # type: ignore[attr-defined]
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(ask, client)
    assert len(app.requests) == 1
    assert len(refused) == 3
    assert {breaker.state(app.url) for breaker in breakers} == {"closed"}


async def test_a_healthy_origin_needs_few_commands(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    client = make_client(breaker=CircuitBreaker(recovery_timeout=30.0, store=make_store(redis)))
    await client.get(app.url)

    def asked() -> int:
        with redis.client() as admin:
            stats = admin.info("commandstats")
        return int(stats["cmdstat_evalsha"]["calls"])

    before, begun = asked(), time.monotonic()
    for _ in range(50):
        await client.get(app.url)
    assert asked() - before <= 1 + (time.monotonic() - begun) / FRESH


async def test_rates_count_the_calls_of_all(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    rules: dict[str, Any] = {"failure_rate": 0.5, "window": 20, "minimum_calls": 8}
    breakers = [CircuitBreaker(**rules, store=make_store(redis)) for _ in range(2)]
    clients = [make_client(breaker=breaker) for breaker in breakers]
    for client in clients:
        await client.get(app.url)
        await client.get(app.url)
    for client in clients:
        await failing(client, app, 1)
    assert breakers[0].metrics(app.url)[:3] == ("closed", 6, 2)
    for client in clients:
        await failing(client, app, 1)
    assert breakers[0].state(app.url) == "open"


async def test_a_cancelled_probe_releases_its_permit(
    make_client: MakeClient,
    app: AppServer,
    redis: RedisServer,
    make_store: MakeStore,
    colour: str,
) -> None:
    if colour == "blocking":
        pytest.skip("nothing cancels a call that blocks")
    breaker = CircuitBreaker(1, recovery_timeout=0.1, store=make_store(redis))
    client = make_client(breaker=breaker)
    await failing(client, app, 1)
    await anyio.sleep(0.2)
    with anyio.move_on_after(0.2):
        await client.get(app.url + "/delay/5")
    with anyio.fail_after(30):
        while breaker.metrics(app.url)[:1] + breaker.metrics(app.url)[5:6] != ("half_open", 0):
            await anyio.sleep(0.01)
    assert (await client.get(app.url)).status_code == 200
    assert breaker.state(app.url) == "closed"


async def test_a_forced_state_holds_for_all_clients(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    mine, theirs = (
        CircuitBreaker(recovery_timeout=30.0, store=make_store(redis)) for _ in range(2)
    )
    mine.force_open(app.url)
    client = make_client(breaker=theirs)
    with pytest.raises(CircuitBreakerOpen):
        await client.get(app.url)
    mine.reset(app.url)
    assert theirs.state(app.url) == "closed"
    await anyio.sleep(FRESH * 1.1)
    assert (await client.get(app.url)).status_code == 200


async def test_other_settings_have_their_own_circuits(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(redis)
    await failing(make_client(breaker=CircuitBreaker(1, 30.0, store=store)), app, 1)
    assert CircuitBreaker(1, 30.0, store=store).state(app.url) == "open"
    assert CircuitBreaker(2, 30.0, store=store).state(app.url) == "closed"


async def test_an_invalid_circuit_is_a_clear_error(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    breaker = CircuitBreaker(1, 30.0, store=make_store(redis))
    assert breaker._shared is not None
    question = breaker._shared.make_admit_command(app.url.rstrip("/"))
    name = scripts.make_keys(question, "curlhttp")[0]
    with redis.client() as client:
        client.hset(name, "mine", "1")
    with pytest.raises(StoreError, match="data that curlhttp did not write"):
        await make_client(breaker=breaker).get(app.url)
    assert app.requests == []


async def test_circuits_expire(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    breaker = CircuitBreaker(recovery_timeout=30.0, failure_rate=0.9, store=make_store(redis))
    await failing(make_client(breaker=breaker), app, 2)
    assert breaker.metrics(app.url).calls == 2
    with redis.client() as client:
        names = client.keys("*")
        assert len(names) == 2
        assert all(3600 <= client.ttl(name) <= 3800 for name in names)


_PROCESSES = """
import os, sys, time, curlhttp
from curlhttp.redis import RedisStore
store = RedisStore({url!r}, timeout=20)
breaker = curlhttp.CircuitBreaker(1, recovery_timeout=0.2, store=store)
with curlhttp.Client(breaker=breaker) as client:
    try:
        print(client.get({target!r}).status_code)
    except curlhttp.CircuitBreakerOpen:
        print("refused")
"""


def test_a_program_sees_the_circuits_of_an_earlier_one(app: AppServer, redis: RedisServer) -> None:
    def run(path: str) -> str:
        return run_script(_PROCESSES.format(url=redis.url, target=app.url + path)).strip()

    assert run("/status/503") == "503"
    assert run("/") in ("refused", "200")  # by how long the next program takes to start
