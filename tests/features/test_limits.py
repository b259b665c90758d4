"""Limits in both clients: who waits, who is first, and when waiting is refused."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import (
    AsyncClient,
    CircuitBreaker,
    CircuitBreakerOpen,
    Client,
    ClientRequest,
    ConcurrencyLimit,
    DeadlineExceeded,
    PoolTimeout,
    RateLimit,
    RetryPolicy,
    Timeout,
)
from curlhttp._features.limits.layer import limits
from curlhttp._runtime.loops import make_race
from curlhttp.testing import Answer, ScriptedEngine, reset
from curlhttp.types import Runtime
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient
from tests.support.internals import in_thread, run_script, runtime_of

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

URL = "http://a.test/"
ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.001)


def get_queue_length(limit: ConcurrencyLimit) -> int:
    return sum(waiting for _, _, waiting in limit._states().values())


class Gatekeeper:
    """A route whose responses wait until they are released; it counts the waiting requests."""

    def __init__(self, app: AppServer, path: str = "/gate") -> None:
        self.url = app.url + path
        self.seen: list[str] = []
        self.inside = 0
        self.most = 0
        self._changed = threading.Condition()
        self._may_go = 0
        app.route(path, self._answer)

    def _answer(self, record: Record, conn: AppConnection) -> None:
        with self._changed:
            self.seen.append(record.path.rpartition("/")[2])
            self.inside += 1
            self.most = max(self.most, self.inside)
            self._changed.wait_for(lambda: self._may_go > 0, timeout=10)
            self._may_go -= 1
            self.inside -= 1
        conn.reply()

    def let_go(self, count: int = 1) -> None:
        with self._changed:
            self._may_go += count
            self._changed.notify_all()


# --- at once ---


async def test_no_more_requests_run_than_the_limit(make_client: MakeClient, app: AppServer) -> None:
    limit = ConcurrencyLimit(3)
    blocker = Gatekeeper(app)
    client = make_client(concurrency_limit=limit)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.gather, 10, "GET", blocker.url)
        await until(lambda: blocker.inside == 3 and get_queue_length(limit) == 7)
        blocker.let_go(10)
    assert len(blocker.seen) == 10
    assert blocker.most == 3
    assert limit._states() == {}


async def test_requests_go_in_the_order_in_which_they_came(
    make_client: MakeClient, app: AppServer
) -> None:
    limit = ConcurrencyLimit(1)
    blocker = Gatekeeper(app)
    client = make_client(concurrency_limit=limit)
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(in_thread, client, "GET", f"{blocker.url}/{number}")
            await until(lambda n=number: blocker.inside == 1 and get_queue_length(limit) == n)  # type: ignore[misc]
        blocker.let_go(6)
    assert blocker.seen == list("012345")


@pytest.mark.parametrize(
    "settings",
    [
        lambda: {"concurrency_limit": ConcurrencyLimit(1)},
        lambda: {"max_connections": 1},
        lambda: {"max_connections_per_host": 1},
        lambda: {"concurrency_limit": ConcurrencyLimit(3), "max_connections": 1},
        lambda: {"rate_limit": RateLimit(2000), "max_connections": 1},
        lambda: {"max_connections_per_host": 1, "http2": True},  # which the server has not
    ],
)
async def test_items_of_a_map_are_sent_in_their_order_whatever_they_wait_for(
    make_client: MakeClient, tls_app: AppServer, settings: Callable[[], dict[str, Any]]
) -> None:
    client = make_client(**settings())
    for _ in range(8):  # trio chooses between two orders, again each time it runs tasks
        tls_app.reset_counts()
        urls = [f"{tls_app.url}/bytes/1?seed={number}" for number in range(12)]
        assert len([result async for result in client.map(urls, concurrency=6)]) == 12
        assert [record.query("seed") for record in tls_app.requests] == [str(n) for n in range(12)]


@ONLY_ASYNC
async def test_a_woken_waiter_goes_before_newcomers(make_client: MakeClient) -> None:
    limit = ConcurrencyLimit(2)
    may_end = anyio.Event()
    sent: list[int] = []

    async def send(request: ClientRequest) -> Any:
        sent.append(request.extensions["number"])
        await may_end.wait()
        return Answer()

    waiting = runtime_of(make_client().real).make_waiter
    runtime = VirtualTime().runtime._replace(make_waiter=waiting)
    layered = limits(None, limit, runtime)(send)

    async def ask(number: int) -> None:
        if number == 3:
            await may_end.wait()
        request = ClientRequest("GET", URL)
        request.extensions = {"number": number}
        request.timeout = Timeout(pool=None)
        await layered(request)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
        may_end.set()  # the first that ends lets 2 go; the other one leaves room for 3
    assert sent == [0, 1, 2, 3]
    assert limit._states() == {}


async def opened_together(client: AnyClient) -> list[int]:
    """Wake six tasks in another order, cancel two, and return who continues when."""
    waiters = [runtime_of(client.real).make_waiter() for _ in range(6)]
    scopes = [anyio.CancelScope() for _ in range(6)]
    gone_on: list[int] = []

    async def wait(number: int) -> None:
        with scopes[number]:
            await waiters[number].wait(None)
            gone_on.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(wait, number)
        await anyio.wait_all_tasks_blocked()
        for number in (3, 0, 5, 1, 4, 2):
            waiters[number].wake()
        scopes[5].cancel()
        scopes[3].cancel()
    return gone_on


@ONLY_ASYNC
async def test_tasks_continue_in_the_order_in_which_they_were_woken(
    make_client: MakeClient,
) -> None:
    client = make_client()
    assert [await opened_together(client) for _ in range(8)] == [[0, 1, 4, 2]] * 8


@ONLY_ASYNC
async def test_a_cancelled_waiter_delays_no_other(make_client: MakeClient, app: AppServer) -> None:
    limit = ConcurrencyLimit(1)
    blocker = Gatekeeper(app)
    client = make_client(concurrency_limit=limit)
    scopes = [anyio.CancelScope() for _ in range(4)]

    async def ask(number: int) -> None:
        with scopes[number]:
            await client.get(f"{blocker.url}/{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, number)
            await until(lambda n=number: blocker.inside == 1 and get_queue_length(limit) == n)  # type: ignore[misc]
        scopes[1].cancel()
        await until(lambda: get_queue_length(limit) == 2)
        scopes[0].cancel()  # the one running; the next may go
        await until(lambda: get_queue_length(limit) == 1)
        blocker.let_go(3)
    assert [number for number in blocker.seen if number in "123"] == ["2", "3"]
    assert limit._states() == {}


@ONLY_ASYNC
async def test_everybody_may_be_cancelled_at_once(make_client: MakeClient, app: AppServer) -> None:
    limit = ConcurrencyLimit(2)
    blocker = Gatekeeper(app)
    client = make_client(concurrency_limit=limit)
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(client.get, blocker.url)
        await until(lambda: get_queue_length(limit) == 48)
        tasks.cancel_scope.cancel()
    assert limit._states() == {}
    blocker.let_go(100)
    assert (await client.get(blocker.url)).ok


async def test_one_limit_serves_threads_and_loops(app: AppServer) -> None:
    limit = ConcurrencyLimit(2)
    blocker = Gatekeeper(app)

    def in_a_thread() -> None:
        with Client(concurrency_limit=limit) as client:
            for _ in range(5):
                client.get(blocker.url)

    async def in_a_loop() -> None:
        async with AsyncClient(concurrency_limit=limit) as client:
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(client.get, blocker.url)

    work: list[Callable[[], object]] = [in_a_thread, in_a_thread]
    for backend in ("asyncio", "asyncio", "trio", "trio"):
        work.append(lambda backend=backend: anyio.run(in_a_loop, backend=backend))  # type: ignore[misc]
    threads = [threading.Thread(target=act) for act in work]
    for thread in threads:
        thread.start()
    blocker.let_go(30)
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert len(blocker.seen) == 30
    assert blocker.most <= 2
    assert limit._states() == {}


@pytest.mark.parametrize("end", ["read", "closed", "dropped", "broken"])
async def test_a_streamed_response_holds_its_permit_to_its_end(
    make_client: MakeClient, end: str
) -> None:
    limit = ConcurrencyLimit(1)
    broken = curlhttp.ChunkedEncodingError("broke off")
    body = Answer(content=[b"a", b"b"], error=broken if end == "broken" else None)
    client = make_client(concurrency_limit=limit, transport=ScriptedEngine([body, 200]))
    streamed = await client.stream("GET", URL)
    assert limit.in_use(URL.rstrip("/") + ":80") == 1
    if end in ("read", "broken"):
        with suppress(curlhttp.ChunkedEncodingError):
            await streamed.read()
        assert limit._states() == {}
    if end != "dropped":
        await streamed.aclose()
    del streamed
    gc.collect()
    assert limit._states() == {}
    assert (await client.get(URL)).ok


async def test_a_discarded_attempt_releases_its_permit_before_the_sleep(
    make_client: MakeClient,
) -> None:
    limit = ConcurrencyLimit(1)
    engine = ScriptedEngine([503, reset(), 200])
    client = make_client(concurrency_limit=limit, transport=engine, retry=RetryPolicy(3))
    async with await client.stream("GET", URL) as streamed:
        assert streamed.real.status_code == 200
        assert limit.in_use("http://a.test:80") == 1
    assert limit._states() == {}


@pytest.mark.parametrize(
    ("timeout", "kind", "at"),
    [
        (Timeout(pool=2.0), PoolTimeout, 2.0),
        (Timeout(total=3.0), DeadlineExceeded, 3.0),
        (Timeout(pool=2.0, total=3.0), PoolTimeout, 2.0),
        (Timeout(pool=4.0, total=3.0), DeadlineExceeded, 3.0),
    ],
)
async def test_the_wait_for_a_permit_is_bounded(
    make_client: MakeClient, timeout: Timeout, kind: type[Exception], at: float
) -> None:
    limit = ConcurrencyLimit(1)
    engine = ScriptedEngine([200, 200])
    client = make_client(concurrency_limit=limit, transport=engine)
    async with await client.stream("GET", URL):
        with pytest.raises(kind, match="none of the 1 concurrent requests") as caught:
            await client.get(URL, timeout=timeout)
        assert isinstance(caught.value, curlhttp.RequestException)
        assert caught.value.request is not None
        assert not caught.value.request_sent
    assert engine.now() == at
    assert (await client.get(URL)).ok


async def test_the_real_engines_bound_the_wait_as_well(
    make_client: MakeClient, app: AppServer
) -> None:
    limit = ConcurrencyLimit(1)
    client = make_client(concurrency_limit=limit)
    async with await client.stream("GET", app.url):
        with pytest.raises(PoolTimeout):
            await client.get(app.url, timeout=Timeout(pool=0.01))
    assert limit._states() == {}


_INTERRUPTED = """
import os, signal, threading
from curlhttp import Client, ConcurrencyLimit

at_once = ConcurrencyLimit(1)
origin = "http://127.0.0.1:9"
lease = at_once._try_acquire(origin)
ended = threading.Event()

def interrupt():
    while not at_once._states()[origin][2]:
        pass
    while not ended.wait(0.1):  # one just before the wait does not end it
        os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=interrupt)
thread.start()
try:
    Client(concurrency_limit=at_once).get(origin)
except KeyboardInterrupt:
    ended.set()
    thread.join()
    assert not at_once._states()[origin][2]
    lease.release()
    assert at_once.in_use(origin) == 0
    print("ok")
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_wait_for_a_permit() -> None:
    assert run_script(_INTERRUPTED) == "ok\n"


# --- per second ---


async def test_requests_are_spread_at_the_rate(make_client: MakeClient) -> None:
    engine = ScriptedEngine([200] * 6)
    client = make_client(rate_limit=RateLimit(10, burst=3), transport=engine)
    for _ in range(6):
        assert (await client.get(URL)).ok
    assert [sent.at for sent in engine.sent] == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])
    assert engine.sleeps == pytest.approx([0.1] * 3)


async def test_each_attempt_counts(make_client: MakeClient) -> None:
    engine = ScriptedEngine([503, 503, 200])
    retry = RetryPolicy(2, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001))
    client = make_client(rate_limit=RateLimit(1), transport=engine, retry=retry)
    assert (await client.get(URL)).ok
    assert [sent.at for sent in engine.sent] == pytest.approx([0, 1, 2])


async def test_a_wait_that_does_not_fit_fails_at_once(make_client: MakeClient) -> None:
    engine = ScriptedEngine([200, 200])
    client = make_client(rate_limit=RateLimit(0.5), transport=engine)
    assert (await client.get(URL)).ok
    with pytest.raises(DeadlineExceeded, match=r"in 2 s, .* deadline is in 1\.9 s") as caught:
        await client.get(URL, timeout=Timeout(total=1.9))
    assert caught.value.request is not None
    assert engine.sleeps == []
    assert engine.now() == 0
    assert (await client.get(URL, timeout=Timeout(total=2.1))).ok


async def test_a_request_that_the_breaker_refuses_takes_nothing_from_the_rate(
    make_client: MakeClient,
) -> None:
    engine = ScriptedEngine([200])
    breaker = CircuitBreaker(recovery_timeout=30.0)
    breaker.force_open(URL)
    client = make_client(rate_limit=RateLimit(1), breaker=breaker, transport=engine)
    for _ in range(5):
        with pytest.raises(CircuitBreakerOpen):
            await client.get(URL)
    breaker.reset()
    assert (await client.get(URL)).ok
    assert engine.sleeps == []


async def test_the_rate_holds_after_a_wait_for_a_permit(make_client: MakeClient) -> None:
    """First a permit, then the rate: in the other order they would be sent all at once."""
    engine = ScriptedEngine([200] * 4)
    rate, at_once = RateLimit(1, burst=2), ConcurrencyLimit(1)
    client = make_client(rate_limit=rate, concurrency_limit=at_once, transport=engine)
    async with await client.stream("GET", URL):
        for _ in range(3):
            with pytest.raises(PoolTimeout):
                await client.get(URL, timeout=Timeout(pool=0.01))
    assert (await client.get(URL)).ok
    # For a permit; cancelled requests took nothing of the rate.
    assert engine.sleeps == pytest.approx([0.01] * 3)


LATE = 0.0008  # seconds: what event loops add, whose timers count milliseconds


class LateEngine(ScriptedEngine):
    """An engine whose timers fire late."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + LATE)


def assert_rate(times: list[float], rate: float) -> None:
    """Assert that the rate was kept from the first request on, and almost reached."""
    begun = times[0]
    assert all(number <= rate * (time - begun) + 1e-3 for number, time in enumerate(times))
    assert len(times) - 1 >= 0.95 * rate * (times[-1] - begun)


@pytest.mark.parametrize("rate", [200, 1000])
@pytest.mark.parametrize("how", ["get", "stream", "map"])
async def test_timers_that_fire_late_cost_no_rate(
    make_client: MakeClient, rate: int, how: str
) -> None:
    engine = LateEngine(lambda request: 200)
    client = make_client(rate_limit=RateLimit(rate), transport=engine)
    if how == "map":
        assert len([result async for result in client.map([URL] * 500, concurrency=8)]) == 500
    for _ in range(0 if how == "map" else 500):
        if how == "get":
            await client.get(URL)
        else:
            await (await client.stream("GET", URL)).aclose()
    assert_rate([sent.at for sent in engine.sent], rate)


class VirtualTime:
    """A clock for tasks: `sleep` ends when the test has let so much time pass."""

    def __init__(self) -> None:
        self.time = 0.0
        self.sleeping: list[tuple[float, anyio.Event]] = []
        self.sleeps = 0
        now = partial(getattr, self, "time")
        self.runtime = Runtime(now, now, self.sleep, _EventWaiter, make_race)

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        event = anyio.Event()
        entry = (self.time + seconds, event)
        self.sleeping.append(entry)
        try:
            await event.wait()
        finally:
            self.sleeping.remove(entry)

    async def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer, and the tasks run in between."""
        end = self.time + seconds
        while True:
            await anyio.wait_all_tasks_blocked()
            due = min((entry for entry in self.sleeping), key=lambda e: e[0], default=None)
            if due is None or due[0] > end:
                break
            self.time = due[0]
            due[1].set()
        self.time = end


class _EventWaiter:
    def __init__(self) -> None:
        self._event = anyio.Event()
        self.wake = self._event.set

    async def wait(self, seconds: float | None = None) -> None:
        with anyio.move_on_after(math.inf if seconds is None else seconds):
            await self._event.wait()


def asking(rate: RateLimit, time: VirtualTime, scopes: list[anyio.CancelScope]) -> Any:
    """Return a function that sends one request, and the list of what was sent when."""
    sent: list[tuple[int, float]] = []

    async def send(request: ClientRequest) -> Any:
        sent.append((request.extensions["number"], round(time.time, 3)))

    layered = limits(rate, None, time.runtime)(send)

    async def ask(number: int) -> None:
        request = ClientRequest("GET", URL)
        request.extensions = {"number": number}
        with scopes[number]:
            await layered(request)

    return ask, sent


@ONLY_ASYNC
async def test_tasks_go_in_order_and_only_the_first_sleeps(colour: str) -> None:
    time = VirtualTime()
    scopes = [anyio.CancelScope() for _ in range(6)]
    ask, sent = asking(RateLimit(10), time, scopes)
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
        assert len(time.sleeping) == 1
        await time.advance(0.25)
        assert sent == [(0, 0.0), (1, 0.1), (2, 0.2)]
        await time.advance(1.0)
    assert sent[3:] == [(3, 0.3), (4, 0.4), (5, 0.5)]
    assert time.sleeps == 5  # no polling


@ONLY_ASYNC
async def test_tasks_behind_one_that_is_cancelled_go_sooner(colour: str) -> None:
    time = VirtualTime()
    scopes = [anyio.CancelScope() for _ in range(5)]
    ask, sent = asking(RateLimit(10), time, scopes)
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
        await time.advance(0.05)
        scopes[1].cancel()  # the one that sleeps
        scopes[3].cancel()
        await time.advance(1.0)
    assert sent == [(0, 0.0), (2, 0.1), (4, 0.2)]


@ONLY_ASYNC
async def test_a_whole_queue_may_be_cancelled(colour: str) -> None:
    time = VirtualTime()
    scopes = [anyio.CancelScope() for _ in range(101)]
    rate = RateLimit(10)
    ask, sent = asking(rate, time, scopes)
    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(ask, number)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert [number for number, _ in sent] == [sent[0][0]]
    await time.advance(0.1)
    await ask(100)
    assert sent[-1] == (100, 0.1)


async def test_threads_and_loops_share_a_rate(app: AppServer) -> None:
    rate = RateLimit(2000, burst=1)
    done: list[int] = []

    def in_a_thread() -> None:
        with Client(rate_limit=rate) as client:
            done.extend(client.get(app.url).status_code for _ in range(10))

    async def in_a_loop() -> None:
        async with AsyncClient(rate_limit=rate) as client:

            async def ask() -> None:
                done.append((await client.get(app.url)).status_code)

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(ask)

    work: list[Callable[[], object]] = [in_a_thread, in_a_thread]
    for backend in ("asyncio", "trio"):
        work.append(lambda backend=backend: anyio.run(in_a_loop, backend=backend))  # type: ignore[misc]
    threads = [threading.Thread(target=act) for act in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert done == [200] * 40
