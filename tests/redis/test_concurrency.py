"""A limit on concurrent requests of all processes: leases expire when their holders die."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from curlhttp import (
    ClientRequest,
    ConcurrencyLimit,
    Hedge,
    PoolTimeout,
    RateLimit,
    ReadTimeout,
    StoreError,
    Timeout,
)
from curlhttp._features.limits import layer as shared_limits
from curlhttp._features.limits.policy import SharedLease, get_poll_interval
from curlhttp._runtime.run import ThreadWaiter, run_sync
from tests.redis.conftest import MakeStore
from tests.redis.fake_clock import FakeClockStore
from tests.servers import AppServer
from tests.servers.redis_server import RedisServer
from tests.support.colours import AnyClient
from tests.support.forced import force
from tests.support.internals import run_script

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
ORIGIN = "http://a.test:80"


class AtOnce:
    """A route that notes how many requests are in it at once."""

    def __init__(self, app: AppServer, seconds: float) -> None:
        self.url = app.url + "/at-once"
        self.inside: list[None] = []
        self.most = 0
        self.seconds = seconds
        app.route("/at-once", self._answer)

    def _answer(self, record: Any, conn: Any) -> None:
        self.inside.append(None)
        self.most = max(self.most, len(self.inside))
        time.sleep(self.seconds)
        self.inside.pop()
        conn.reply()


def in_redis(redis: RedisServer, end: str = "") -> int:
    with redis.client() as client:
        return sum(client.zcard(name) for name in client.keys(f"curlhttp:1:lease:*{end}"))


def take(store: Any, limit: ConcurrencyLimit, joins: bool = True) -> tuple[SharedLease, Any]:
    lease = SharedLease(limit, store, ORIGIN)
    return lease, store.ask_here(lease.make_acquire_command(joins=joins))


async def test_no_more_requests_run_in_total_than_the_limit(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    route = AtOnce(app, 0.02)
    stores = [make_store(redis) for _ in range(3)]
    clients = [make_client(concurrency_limit=ConcurrencyLimit(2, store=s)) for s in stores]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.gather, 5, "GET", route.url)
    assert route.most == 2
    for store in stores:
        store.close()  # which sends pending commands
    assert in_redis(redis) == 0


def test_slots_that_threads_name_at_the_same_time_are_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = iter(range(100))

    def slow_name(size: int) -> str:
        time.sleep(0.02)
        return str(next(names)).zfill(2 * size)

    monkeypatch.setattr("secrets.token_hex", slow_name)
    limit = ConcurrencyLimit(1)
    with ThreadPoolExecutor(8) as threads:
        places = list(threads.map(limit._name_shared_slot, [ORIGIN] * 8))
    assert [limit._is_own(name) for _, name in places] == [True] * 8
    assert len({name for _, name in places}) == 8


async def test_a_stream_holds_its_lease_to_its_end(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    stores = [make_store(redis) for _ in range(2)]
    mine, theirs = (make_client(concurrency_limit=ConcurrencyLimit(1, store=s)) for s in stores)
    async with await mine.stream("GET", app.url) as response:
        with pytest.raises(PoolTimeout, match="1 concurrent requests"):
            await theirs.get(app.url, timeout=Timeout(pool=0.1))
        await response.read()
    assert (await theirs.get(app.url)).status_code == 200


async def test_a_request_that_fails_or_is_cancelled_releases_its_lease(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(redis)
    client = make_client(concurrency_limit=ConcurrencyLimit(1, store=store))
    with pytest.raises(ReadTimeout):
        await client.get(app.url + "/stall", timeout=Timeout(read=0.1))
    if not client.is_blocking:
        with anyio.move_on_after(0.1):
            await client.get(app.url + "/stall")
    assert (await client.get(app.url)).status_code == 200
    store.close()  # which sends pending commands
    assert in_redis(redis) == 0


def test_leases_are_granted_in_the_order_of_the_queue(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, limit = make_store(redis), ConcurrencyLimit(1)
    first, response = take(store, limit)
    assert response == [1, 0]
    second, response = take(store, limit)
    assert response == [0, 0]
    third, response = take(store, limit)
    assert response == [0, 1]
    assert take(store, limit, joins=False)[1][0] == 0
    first.release()
    assert store.ask_here(third.make_acquire_command(joins=True)) == [0, 0]
    assert take(store, limit, joins=False)[1][0] == 0  # a newcomer does not overtake
    assert store.ask_here(second.make_acquire_command(joins=True)) == [1, 0]
    second.release()
    assert store.ask_here(third.make_acquire_command(joins=True)) == [1, 0]
    third.release()


def test_leaving_the_queue_delays_no_other(redis: RedisServer, make_store: MakeStore) -> None:
    store, limit = make_store(redis), ConcurrencyLimit(1)
    first, _ = take(store, limit)
    second, _ = take(store, limit)
    third, _ = take(store, limit)
    del second
    first.release()
    assert store.ask_here(third.make_acquire_command(joins=True)) == [1, 0]
    third.release()


def test_leases_of_dead_processes_expire(
    redis: RedisServer, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds of a lease in Redis", 0.3)
    force(monkeypatch, "seconds of a place in a queue in Redis", 0.3)
    store, limit = make_store(redis), ConcurrencyLimit(1)
    dead, _ = take(store, limit)
    waited, _ = take(store, limit)
    begun = time.monotonic()
    late, response = take(store, limit)
    while not response[0]:
        time.sleep(0.01)
        response = store.ask_here(late.make_acquire_command(joins=True))
    assert time.monotonic() - begun >= 0.2
    for lease in (dead, waited, late):
        lease.release()


def test_a_lease_is_renewed_as_long_as_it_is_held(
    redis: RedisServer, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds of a lease in Redis", 1.0)
    force(monkeypatch, "seconds between renewals of a lease", 0.1)
    force(monkeypatch, "seconds of a tick of a connection to Redis", 0.02)
    store, limit = make_store(redis), ConcurrencyLimit(1)
    held, _ = take(store, limit)
    held.start()
    other, _ = take(store, limit)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert store.ask_here(other.make_acquire_command(joins=True))[0] == 0
        time.sleep(0.01)
    held.release()
    assert store.ask_here(other.make_acquire_command(joins=True))[0] == 1
    other.release()


def test_leases_do_not_end_later_if_the_clock_is_set_back(redis: RedisServer) -> None:
    store, limit = FakeClockStore(redis), ConcurrencyLimit(1)
    held, response = take(store, limit)
    assert response == [1, 0]
    queued, response = take(store, limit)
    assert response == [0, 0]
    store.now -= 3600 * 10**6
    late, response = take(store, limit)
    assert response[0] == 0  # the lease is held, for as long as one is
    store.now += 6 * 10**6
    # Neither the lease nor the one in the queue was renewed.
    assert store.ask_here(late.make_acquire_command(joins=True)) == [1, 0]
    for lease in (held, queued, late):
        lease.release()


def test_a_lease_is_renewed_even_if_no_request_checks_that_redis_is_back(
    own_redis: RedisServer, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds between renewals of a lease", 0.1)
    force(monkeypatch, "seconds of a tick of a connection to Redis", 0.02)
    store, limit = make_store(own_redis), ConcurrencyLimit(1)
    held, _ = take(store, limit)
    held.start()
    store.ask_here(held._command("keep"))  # with a reply, so that no trial is running
    store._connection.note_failure(TimeoutError("once"))
    with own_redis.client() as admin:
        admin.flushall()
    end = time.monotonic() + 60
    while not in_redis(own_redis):
        assert time.monotonic() < end, "the place was not renewed"
        time.sleep(0.01)
    held.release()


_HOLDER = """
import sys, curlhttp
from curlhttp.redis import RedisStore
limit = curlhttp.ConcurrencyLimit(1, store=RedisStore({redis!r}, timeout=20))
client = curlhttp.Client(concurrency_limit=limit)
client.get({url!r})
"""


async def test_the_lease_of_a_killed_process_expires_in_time_and_no_sooner(
    app: AppServer, redis: RedisServer, make_store: MakeStore, make_client: MakeClient, colour: str
) -> None:
    if colour != "asyncio":
        pytest.skip("once is enough")
    script = _HOLDER.format(redis=redis.url, url=app.url + "/stall")
    holder = subprocess.Popen([sys.executable, "-c", script])
    with anyio.fail_after(60):
        while not app.requests:
            await anyio.sleep(0.01)
    client = make_client(concurrency_limit=ConcurrencyLimit(1, store=make_store(redis)))
    with pytest.raises(PoolTimeout):
        await client.get(app.url, timeout=Timeout(pool=0.2))
    holder.send_signal(signal.SIGKILL)
    holder.wait(60)
    assert (await client.get(app.url, timeout=Timeout(pool=60))).status_code == 200


def test_a_waiter_polls_seldom() -> None:
    waited, asked = 0.0, 0
    while waited < 60:
        waited += get_poll_interval(0, waited)
        asked += 1
    assert asked < 300  # four times a second at last
    assert get_poll_interval(10, 0.0) > get_poll_interval(1, 0.0)
    assert get_poll_interval(0, 0.0) == 0.005


class Line:
    """A store that gives one response after another, and a clock that notes each sleep."""

    def __init__(self, *responses: tuple[int, int]) -> None:
        self.answers = list(responses)
        self.time = 0.0
        self.slept: list[float] = []

    async def ask(self, question: Any, make_waiter: Any) -> Any:
        return self.answers.pop(0)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.slept.append(seconds)

    def now(self) -> float:
        return self.time

    make_waiter = ThreadWaiter

    def tell(self, question: Any) -> None:
        """Accept the release of a lease."""

    def hold(self, question: Any, every: float) -> Any:
        return self

    def end(self) -> None:
        """Hold it no longer."""


def test_a_waiter_that_moves_up_polls_soon_however_long_it_waited() -> None:
    line: Any = Line(*[(0, 1)] * 60, (0, 0), (1, 0))
    limit = ConcurrencyLimit(1)
    lease = SharedLease(limit, line, ORIGIN)
    request: Any = ClientRequest("GET", "http://h.test/")
    request.timeout = Timeout()
    waits: Any = type("Waits", (), {"warn": lambda self, limit, request, seconds: None})()
    acquire = shared_limits._acquire_shared
    run_sync(lambda: acquire(lease, limit, line, request, line, waits))
    assert line.slept[-2] == 0.25
    assert line.slept[-1] == 0.005
    lease.release()


async def test_a_hedge_asks_the_store_without_waiting_in_the_queue(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(redis)
    limit, rate = ConcurrencyLimit(2, store=store), RateLimit(1000, burst=50, store=store)
    client = make_client(concurrency_limit=limit, rate_limit=rate, hedge=Hedge(after=0.02))
    assert (await client.get(app.url + "/delay/0.2")).status_code == 200
    assert len(app.requests) == 2
    other = make_client(concurrency_limit=ConcurrencyLimit(1, store=store), hedge=Hedge(after=0.02))
    assert (await other.get(app.url + "/delay/0.2")).status_code == 200
    assert len(app.requests) == 3
    store.close()
    assert in_redis(redis) == 0


async def test_leases_of_the_wrong_type_are_a_clear_error(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    limit = ConcurrencyLimit(7, store=make_store(redis))
    with redis.client() as client:
        client.set(f"curlhttp:1:lease:{limit._name_shared_slot(app.url.rstrip('/'))[0]}", "mine")
    with pytest.raises(StoreError, match="data that curlhttp did not write"):
        await make_client(concurrency_limit=limit).get(app.url)
    assert limit.in_use(app.url.rstrip("/")) == 0


_FORKED = """
import os, warnings, curlhttp
from curlhttp._features.limits.policy import SharedLease
from curlhttp.redis import RedisStore
warnings.simplefilter("ignore", DeprecationWarning)
store = RedisStore({url!r}, timeout=20)
limit = curlhttp.ConcurrencyLimit(1, store=store)
breaker = curlhttp.CircuitBreaker(1, recovery_timeout=0.001, half_open_timeout=300, store=store)
client = curlhttp.Client(breaker=breaker)
client.get({app!r} + "/status/503")

def take(limit):
    lease = SharedLease(limit, store, "http://a.test:80")
    return lease, store.ask_here(lease.make_acquire_command(joins=False))[0]

def hook(event):
    # Here the parent holds a place, and its request is the probe of the circuit.
    global pid
    pid = os.fork()
    if pid == 0:
        raise ValueError("ends the request in the child")

lease, granted = take(limit)
assert granted
import time
time.sleep(0.01)
pid = None
async def middleware(request, send):
    hook(None)
    return await send(request)
probing = curlhttp.Client(breaker=breaker, attempt_middleware=[middleware])
try:
    response = probing.get({app!r} + "/delay/0.5")
except ValueError:
    del lease
    assert take(limit)[1] == 0
    assert breaker.metrics({app!r}).probes == 1
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert response.status_code == 200
print("ok")
"""


def test_a_forked_child_releases_no_lease_of_its_parent(app: AppServer, redis: RedisServer) -> None:
    assert run_script(_FORKED.format(url=redis.url, app=app.url)) == "ok\n"


@pytest.mark.slow
def test_a_program_releases_its_leases_before_it_ends(app: AppServer, redis: RedisServer) -> None:
    for _ in range(3):
        run_script(_HOLDER.format(redis=redis.url, url=app.url))
        assert in_redis(redis) == 0
