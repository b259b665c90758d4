"""Hosts of a map: what waits for one host does not hold up the others, in all colours."""

from __future__ import annotations

import itertools
import logging
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ClientRequest, ConcurrencyLimit, RateLimit, RetryPolicy
from curlhttp._features.map.backlog import Backlog, MapPlace
from curlhttp.types import Runtime
from tests.map.test_map import Counted, assert_free
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., AnyClient]


class SlowHost:
    """A server whose responses wait until they are released."""

    def __init__(self, server: AppServer) -> None:
        self.url = server.url
        self.seen = 0
        self._may_answer = threading.Event()
        self._server = server
        self.route("/slow")

    def route(self, path: str) -> None:
        self._server.route(path, self._answer)

    def _answer(self, record: Record, conn: AppConnection) -> None:
        self.seen += 1
        self._may_answer.wait(30)
        conn.reply()

    def urls(self, count: int) -> list[str]:
        return [f"{self.url}/slow/{number}" for number in range(count)]

    def answer(self) -> None:
        self._may_answer.set()


@pytest.fixture
def slow() -> Iterator[SlowHost]:
    with AppServer() as server:
        host = SlowHost(server)
        yield host
        host.answer()


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Return the URLs of some origins."""
    with ExitStack() as stack:
        yield [stack.enter_context(AppServer()).url for _ in range(6)]


class Constant:
    """Wait for the same time before each retry."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def delays(self, uniform: Any) -> Iterator[float]:
        return itertools.repeat(self._seconds)


def is_slow(result: Any) -> bool:
    return "/slow" in str(result.request.url)


LIMITS = [
    lambda: {"concurrency_limit": ConcurrencyLimit(2)},
    lambda: {"concurrency_limit": curlhttp.AdaptiveLimit(initial=2, maximum=2)},
    lambda: {"max_connections_per_host": 2},
]


@pytest.mark.parametrize("settings", LIMITS, ids=["limit", "adaptive", "connections"])
async def test_a_slow_host_holds_up_no_other(
    make_client: MakeClient, app: AppServer, slow: SlowHost, settings: Callable[[], Any]
) -> None:
    client = make_client(**settings())
    fast = [f"{app.url}/bytes/1?{number}" for number in range(60)]
    order = []
    async for result in client.map([*slow.urls(30), *fast], concurrency=4):
        order.append(is_slow(result))
        if len(order) == len(fast):
            assert slow.seen <= 2
            slow.answer()
    assert order == [False] * 60 + [True] * 30
    await assert_free(client)


async def test_what_waits_for_a_rate_holds_up_no_other_host(
    make_client: MakeClient, app: AppServer, hosts: list[str]
) -> None:
    client = make_client(rate_limit=RateLimit(1 / 3600))
    items = [app.url] * 20 + [url + "/bytes/1" for url in hosts]
    got = []
    results = client.map(items, concurrency=2)
    async for result in results:
        got.append(result.url)
        if len(got) == 1 + len(hosts):
            break
    await results.aclose()
    assert sorted(got) == sorted({app.url + "/", *items[20:]})
    assert len(app.requests) == 1
    await assert_free(client)


async def test_a_robots_txt_that_takes_long_holds_up_no_other_host(
    make_client: MakeClient, app: AppServer, slow: SlowHost
) -> None:
    slow.route("/robots.txt")
    client = make_client(robots="my-crawler")
    fast = [f"{app.url}/bytes/1?{number}" for number in range(60)]
    order = []
    async for result in client.map([*slow.urls(30), *fast], concurrency=2):
        order.append(is_slow(result))
        if len(order) == len(fast):
            assert slow.seen <= 1
            slow.answer()
    assert order == [False] * 60 + [True] * 30
    await assert_free(client)


async def test_a_map_fetches_the_robots_txt_of_several_hosts_at_once(
    make_client: MakeClient, app: AppServer
) -> None:
    all_there = threading.Barrier(3)

    def answer(record: Record, conn: AppConnection) -> None:
        all_there.wait(30)
        conn.reply(404)

    app.route("/robots.txt", answer)
    client = make_client(robots="my-crawler")
    items = [app.at(f"host{number}.localhost") + "/bytes/1" for number in range(3)]
    got = [result.status_code async for result in client.map(items, concurrency=3)]
    assert got == [200] * 3


async def test_what_waits_for_a_crawl_delay_holds_up_no_other_host(
    make_client: MakeClient, app: AppServer, hosts: list[str]
) -> None:
    rules = b"User-agent: *\nCrawl-delay: 60\n"
    app.route("/robots.txt", lambda record, conn: conn.reply(200, rules))
    client = make_client(robots="my-crawler")
    items = [app.url] * 20 + [url + "/bytes/1" for url in hosts]
    results = client.map(items, concurrency=2)
    got = [str((await anext(results)).url) for _ in hosts]
    await results.aclose()
    assert sorted(got) == sorted(items[20:])
    assert [record.path for record in app.requests] == ["/robots.txt"]
    await assert_free(client)


async def test_a_map_with_certificates_sends_several_requests_at_once(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    all_there = threading.Barrier(3)

    def answer(record: Record, conn: AppConnection) -> None:
        all_there.wait(30)
        conn.reply(200, b"hello")

    tls_app.route("/together", answer)
    client = make_client(certificates=True)
    got = [result async for result in client.map([tls_app.url + "/together"] * 3, concurrency=3)]
    assert [(result.content, bool(result.certificate)) for result in got] == [(b"hello", True)] * 3


class HandWaiter:
    """A waiter whose coroutine runs on when the test says so, however early it was woken."""

    def wake(self) -> None:
        pass

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        return one_step()


@types.coroutine
def one_step() -> Iterator[None]:
    yield


def test_one_that_was_let_through_goes_before_newcomers_although_its_task_has_not_run() -> None:
    backlog = Backlog(2, 10, ordered=False)
    backlog.runtime = Runtime(float, float, None, HandWaiter, None)  # type: ignore[arg-type]
    sent = []

    async def engine(request: ClientRequest) -> Any:
        sent.append(request.url.path)
        await one_step()

    def start(path: str) -> Any:
        request = ClientRequest("GET", f"http://a.test{path}")
        request.place = place = MapPlace(backlog)
        backlog.running += 1

        async def flow(request: ClientRequest) -> Any:
            return await place.send(engine, request)

        task = place.run(flow, request)
        task.send(None)
        return task

    def end(task: Any) -> None:
        with pytest.raises(StopIteration):
            task.send(None)
        backlog.running -= 1

    first, second, third = start("/1"), start("/2"), start("/3")
    end(first)  # and so lets the third one through
    end(second)  # so that there is room for the fourth as well
    fourth = start("/4")
    assert sent == ["/1", "/2"]
    third.send(None)
    fourth.send(None)
    assert sent == ["/1", "/2", "/3", "/4"]
    end(third)
    end(fourth)
    assert (backlog.running, backlog.waiting) == (0, 0)


@pytest.mark.parametrize("headers", [[], [("Retry-After", "3600")]], ids=["backoff", "retry-after"])
async def test_what_waits_for_a_retry_holds_up_no_other(
    make_client: MakeClient, app: AppServer, hosts: list[str], headers: Any
) -> None:
    app.route("/busy", lambda record, conn: conn.reply(503, headers=headers))
    policy = RetryPolicy(
        max_retries=1,
        statuses={503},
        retry_after_max=7200,
        backoff_strategy=Constant(3600),
    )
    client = make_client(retry=policy)
    items = [app.url + "/busy"] * 10 + [url + "/bytes/1" for url in hosts]
    results = client.map(items, concurrency=2)
    got = [str((await anext(results)).url) for _ in hosts]
    await results.aclose()
    assert sorted(got) == sorted(items[10:])
    assert len(app.requests) == 10
    await assert_free(client)


async def test_a_retry_of_one_item_lets_others_go_too(client: AnyClient, app: AppServer) -> None:
    app.route("/busy", lambda record, conn: conn.reply(503, headers=[("Retry-After", "50")]))
    busy = client.real.build_request("GET", app.url + "/busy", retry=1)
    results = client.map([busy, app.url, busy, app.url + "/bytes/1"], concurrency=1)
    got = [str((await anext(results)).url) for _ in range(2)]
    await results.aclose()
    assert got == [app.url + "/", app.url + "/bytes/1"]
    await assert_free(client)


async def test_no_more_requests_are_sent_than_the_concurrency(
    make_client: MakeClient, hosts: list[str], app: AppServer
) -> None:
    """Requests of all hosts wait for the same time to be sent again."""
    inside = most = 0
    lock = threading.Lock()
    tries: dict[str, int] = {}

    def count(record: Record, conn: AppConnection) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            tries[record.path] = tries.get(record.path, 0) + 1
        status = 503 if tries[record.path] == 1 else 200
        with lock:
            inside -= 1
        conn.reply(status)

    app.route("/count", count)
    policy = RetryPolicy(max_retries=1, statuses={503}, backoff_strategy=Constant(0.05))
    client = make_client(retry=policy, concurrency_limit=ConcurrencyLimit(20))
    items = [f"{app.url}/count/{number}" for number in range(100)]
    got = [result.status_code async for result in client.map(items, concurrency=3)]
    assert got == [200] * 100
    assert most <= 3
    assert app.connections <= 3
    await assert_free(client)


async def test_ordered_results_keep_their_order(
    make_client: MakeClient, app: AppServer, slow: SlowHost
) -> None:
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    slow.answer()
    items = [*slow.urls(20), *(f"{app.url}/bytes/1?{number}" for number in range(40))]
    results = client.map(Counted(items), concurrency=4, ordered=True)
    assert [str(result.url) async for result in results] == items


async def test_an_ordered_map_sends_other_hosts_within_its_window(
    make_client: MakeClient, app: AppServer, slow: SlowHost
) -> None:
    """Not further, because no result can be returned before the first."""
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    fast = [f"{app.url}/within/{number}" for number in range(100)]
    all_sent = threading.Event()
    app.route("/within", lambda record, conn: _reply_and_count(conn, app, all_sent, 3))
    counted = Counted([*slow.urls(5), *fast])

    def answer() -> None:
        all_sent.wait(30)
        slow.answer()

    thread = threading.Thread(target=answer)
    thread.start()
    results = client.map(counted, concurrency=4, ordered=True)
    first = await anext(results)
    thread.join()
    assert all_sent.is_set()
    assert is_slow(first)
    assert counted.taken <= 1 + 8
    await results.aclose()


def _reply_and_count(
    conn: AppConnection, app: AppServer, event: threading.Event, enough: int
) -> None:
    if len(app.requests) >= enough:
        event.set()
    conn.reply()


async def test_a_host_with_all_of_the_first_items_stops_the_reading_and_the_map_says_so(
    make_client: MakeClient,
    app: AppServer,
    slow: SlowHost,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = make_client(concurrency_limit=ConcurrencyLimit(2))
    millions = (f"{slow.url}/slow/{number}" for number in range(5_000_000))
    items = Counted(itertools.chain([app.url], millions))
    results = client.map(items, concurrency=4, backlog=1000)
    with caplog.at_level(logging.INFO, logger="curlhttp"):
        await anext(results)
        slow.answer()
        for _ in range(20):
            await anext(results)
    assert items.taken <= 1000 + 4 + 8 + 21
    (message,) = [each for each in caplog.messages if "takes no further" in each]
    assert "items until fewer than 1000 wait" in message
    assert f"wait for {slow.url}" in message
    await results.aclose()
    await assert_free(client)


async def test_without_a_backlog_what_waits_keeps_its_place(
    make_client: MakeClient, app: AppServer, slow: SlowHost
) -> None:
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    items = Counted([*slow.urls(8), app.url])
    results = client.map(items, concurrency=4, backlog=0)
    slow.answer()
    await anext(results)
    assert items.taken <= 8
    assert sorted([is_slow(result) async for result in results]) == [False] + [True] * 7


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_a_lock_of_a_middleware_is_no_dead_end(
    make_client: MakeClient, app: AppServer
) -> None:
    """The request that holds the lock waits for the rate, and others for the lock."""
    lock = anyio.Lock()

    async def one_at_a_time(request: ClientRequest, send: Any) -> Any:
        async with lock:
            return await send(request)

    client = make_client(middleware=[one_at_a_time], rate_limit=RateLimit(200))
    got = [result async for result in client.map([app.url] * 20, concurrency=1)]
    assert len(got) == 20


async def test_equal_requests_that_share_a_transfer_are_no_dead_end(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(coalesce=True, rate_limit=RateLimit(200))
    items = [f"{app.url}/bytes/1?{number // 4}" for number in range(40)]
    for concurrency in (1, 3):
        got = [result async for result in client.map(items, concurrency=concurrency)]
        assert len(got) == 40


async def test_the_same_request_may_wait_several_times(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    request = client.real.build_request("GET", app.url)
    got = [result.status_code async for result in client.map([request] * 10, concurrency=4)]
    assert got == [200] * 10
    assert request.place is None


async def test_a_hedged_request_waits_for_its_host(
    make_client: MakeClient, app: AppServer, slow: SlowHost
) -> None:
    client = make_client(
        hedge=curlhttp.Hedge(after=30), concurrency_limit=ConcurrencyLimit(1), retry=1
    )
    order = []
    async for result in client.map([*slow.urls(4), *[app.url] * 9], concurrency=2):
        order.append(is_slow(result))
        if len(order) == 9:
            slow.answer()
    assert order == [False] * 9 + [True] * 4
    await assert_free(client)


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_awaited_items_of_other_hosts_are_sent_too(
    make_client: MakeClient, app: AppServer, slow: SlowHost
) -> None:
    async def items() -> AsyncIterator[str]:
        for url in [*slow.urls(600), *[app.url] * 20]:
            yield url

    client = make_client(concurrency_limit=ConcurrencyLimit(2))
    order = []
    async for result in client.real.map(items(), concurrency=4):
        order.append(is_slow(result))
        if len(order) == 20:
            slow.answer()
    assert order == [False] * 20 + [True] * 600


async def test_an_error_of_the_iterable_is_raised_after_what_waits(
    make_client: MakeClient, slow: SlowHost
) -> None:
    def items() -> Iterator[str]:
        yield from slow.urls(10)
        raise ValueError("mine")

    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    slow.answer()
    got = []
    with pytest.raises(ValueError, match="mine"):
        async for result in client.map(items(), concurrency=4):
            got.append(result)
    assert len(got) == 10


@pytest.mark.parametrize("ordered", [False, True])
async def test_closing_the_client_sends_nothing_of_a_backlog(
    make_client: MakeClient, app: AppServer, ordered: bool
) -> None:
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    items = [f"{app.url}/bytes/1?{number}" for number in range(200)]
    results = client.map(items, concurrency=4, ordered=ordered, return_exceptions=True)
    await anext(results)
    await client.aclose()
    with pytest.raises(curlhttp.ClientClosed, match="before all requests were sent"):
        while True:
            await anext(results)
    assert len(app.requests) < 20


async def test_requests_of_a_backlog_leave_a_map_that_ends_early(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    requests = [client.real.build_request("GET", app.url + "/bytes/1") for _ in range(50)]
    results = client.map(requests, concurrency=4)
    await anext(results)
    await results.aclose()
    assert [request.place for request in requests] == [None] * 50  # which would keep the map
    await assert_free(client)
