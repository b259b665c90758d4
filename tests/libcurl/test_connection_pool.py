"""The pool: bounds on concurrent exchanges, the queue, and idle handles."""

from __future__ import annotations

import gc
import resource
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import (
    Client,
    ClientClosed,
    ClientRequest,
    DeadlineExceeded,
    Limits,
    PoolTimeout,
    Timeout,
)
from curlhttp._libcurl.connection_pool import ConnectionPool, IdleTransfers
from curlhttp._libcurl.slots import Slots, SlotWaiter, limit_by_open_files
from curlhttp._libcurl.transfer import Transfer
from tests.servers import AppServer, Certs, H2Server, payload
from tests.support.colours import AnyClient
from tests.support.internals import (
    count_descriptors,
    drivers_of,
    get_slots,
    handles_of,
    in_thread,
    wait_until_idle,
    wait_until_waiting,
)

ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])

# --- slots ---


class Queue:
    """Slots with the waiters that were granted one, in order."""

    def __init__(self, total: int, per_origin: int | None = None) -> None:
        self.slots = Slots(total, per_origin)
        self.granted: list[SlotWaiter] = []

    def wait(self, origin: str = "a") -> SlotWaiter:
        waiter = SlotWaiter(origin, lambda: self.granted.append(waiter))
        self.slots.wait(waiter)
        return waiter


def test_slots_are_granted_in_the_order_of_asking() -> None:
    queue = Queue(1)
    assert queue.slots.acquire("a")
    first, second, third = queue.wait("a"), queue.wait("b"), queue.wait("a")
    for _ in range(3):
        queue.slots.release("a")
    assert queue.granted == [first, second, third]


def test_a_new_request_does_not_overtake_waiters() -> None:
    queue = Queue(1)
    assert queue.slots.acquire("a")
    waiter = queue.wait()
    assert not queue.slots.acquire("a")
    queue.slots.release("a")
    assert waiter.granted
    assert not queue.slots.acquire("a")


def test_a_waiter_for_a_busy_origin_blocks_no_other() -> None:
    queue = Queue(10, per_origin=1)
    assert queue.slots.acquire("a")
    queue.wait("a")
    assert not queue.slots.acquire("a")
    assert queue.slots.acquire("b")


def test_the_empty_origin_has_no_separate_bound() -> None:
    slots = Slots(3, per_origin=1)
    assert [slots.acquire("") for _ in range(4)] == [True, True, True, False]
    for _ in range(3):
        slots.release("")
    assert slots.used == 0


def test_a_slot_freed_by_another_origin_goes_to_the_first_that_may_have_it() -> None:
    queue = Queue(2, per_origin=1)
    assert queue.slots.acquire("a")
    assert queue.slots.acquire("b")
    held_up, next_one = queue.wait("a"), queue.wait("b")
    queue.slots.release("b")
    assert queue.granted == [next_one]
    queue.slots.release("a")
    assert queue.granted == [next_one, held_up]


def test_a_waiter_that_leaves_after_the_grant_passes_the_slot_on() -> None:
    queue = Queue(1)
    assert queue.slots.acquire("a")
    gone, next_one = queue.wait(), queue.wait()
    queue.slots.release("a")
    assert gone.granted
    queue.slots.leave(gone)
    assert next_one.granted
    assert queue.slots.used == 1


def test_a_waiter_that_left_is_never_granted_a_slot() -> None:
    queue = Queue(1)
    assert queue.slots.acquire("a")
    gone, next_one = queue.wait(), queue.wait()
    queue.slots.leave(gone)
    queue.slots.release("a")
    assert queue.granted == [next_one]


def test_unused_unlimited_origins_are_forgotten() -> None:
    """Of origins that were found to carry many requests on a connection."""
    slots = Slots(10, per_origin=1)
    assert slots.acquire("in use")
    for origin in ("in use", *map(str, range(5000))):
        slots.lift_origin_limit(origin)
    assert slots.acquire("in use")
    assert len(slots._unlimited) <= 1000


def test_lifting_the_bound_admits_all_waiters() -> None:
    queue = Queue(1, per_origin=1)
    assert queue.slots.acquire("a")
    waiters = [queue.wait("a"), queue.wait("b")]
    queue.slots.lift_limits()
    assert queue.granted == waiters
    assert queue.slots.acquire("a")


@given(
    total=st.integers(1, 4),
    per_origin=st.none() | st.integers(1, 3),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ask", "give", "leave", "go on"]),
            st.sampled_from("abc"),
            st.integers(0),
        ),
        max_size=60,
    ),
)
def test_slots_never_exceed_their_bounds_and_never_idle_while_someone_may_go(
    total: int, per_origin: int | None, steps: list[tuple[str, str, int]]
) -> None:
    queue = Queue(total, per_origin)
    taken: list[str] = []
    waiting: list[SlotWaiter] = []
    woken: list[SlotWaiter] = []
    for what, origin, number in steps:
        if what == "ask":
            if queue.slots.acquire(origin):
                taken.append(origin)
            else:
                waiting.append(queue.wait(origin))
        elif what == "give" and taken:
            queue.slots.release(taken.pop(number % len(taken)))
        elif what == "leave" and waiting:
            queue.slots.leave(waiting.pop(number % len(waiting)))
        elif what == "leave" and woken:
            queue.slots.leave(woken.pop(number % len(woken)))
        elif what == "go on" and woken:
            taken.append(woken.pop(0).origin)
        woken += [waiter for waiter in waiting if waiter.granted]
        waiting = [waiter for waiter in waiting if not waiter.granted]
        used = Counter(taken + [waiter.origin for waiter in woken])
        assert queue.slots.used == used.total() <= total
        assert per_origin is None or all(count <= per_origin for count in used.values())
        for waiter in waiting:
            assert used.total() == total or used[waiter.origin] == per_origin


class Thing:
    """Stands for a transfer."""

    def __init__(self, find_all: Callable[[], set[Any]]) -> None:
        self.is_closed = False
        self.find_all = find_all

    def count(self) -> None:
        # Statistics look for it there, until the totals have its counts.
        assert self in self.find_all()

    def close(self) -> None:
        self.is_closed = True


def things(keep: int, limit: int = 9) -> Any:
    make: Any = lambda: Thing(lambda: pool.all)  # noqa: E731
    pool = IdleTransfers(make, limit, keep)
    return pool


# --- leases ---


def _one_transfer() -> Any:
    """Return a pool of one transfer, for any request."""

    make: Any = lambda: Thing(lambda: pool.all)  # noqa: E731
    pool: Any = ConnectionPool(Limits(max_connections=1), make)
    return pool


def test_a_lease_is_empty_as_soon_as_the_pool_has_the_transfer() -> None:
    pool, request = _one_transfer(), ClientRequest("GET", "http://a.test/")
    first = pool.acquire(request)
    transfer = first.transfer
    pool.release(first)
    assert first.transfer is None
    second = pool.acquire(request)
    assert second.transfer is transfer
    pool.drop(first)  # Ctrl-C came right after the release, and another thread was faster
    assert (pool.all, pool.slots.used) == ({transfer}, 1)


def test_a_lease_that_is_dropped_twice_releases_one_slot() -> None:
    pool, request = _one_transfer(), ClientRequest("GET", "http://a.test/")
    lease = pool.acquire(request)
    transfer = lease.transfer
    pool.drop(lease)
    lease.transfer = transfer  # Ctrl-C came at the end of that call
    pool.drop(lease)
    assert (pool.all, pool.slots.used) == (set(), 0)


def test_a_replaced_transfer_passes_its_slot_on_in_its_lease() -> None:
    pool = _one_transfer()
    lease = pool.acquire(ClientRequest("GET", "http://a.test/"))
    made = Thing(lambda: pool.all)
    assert pool.replace(lease, lambda old: made)
    assert (lease.transfer, pool.all, pool.slots.used) == (made, {made}, 1)
    assert not pool.replace(lease, lambda old: None)
    assert (lease.transfer, pool.all, pool.slots.used) == (None, set(), 0)


# --- handles ---


def test_the_handle_used_last_is_used_next() -> None:
    handles = things(9)
    first, second = handles.pop("a"), handles.pop("a")
    handles.push(first)
    handles.push(second)
    assert handles.pop("a") is second
    assert handles.pop("a") is first


def test_handles_of_another_key_are_not_used() -> None:
    handles = things(9)
    handles.push(first := handles.pop("a"))
    assert handles.pop("b") is not first


def test_at_the_bound_the_handle_idle_for_longest_is_closed() -> None:
    handles = things(9, limit=2)
    old, older = handles.pop("a"), handles.pop("b")
    handles.push(older)
    handles.push(old)
    new = handles.pop("c")
    assert (older.is_closed, old.is_closed) == (True, False)
    assert handles.all == {old, new}


def test_beyond_the_bound_the_handle_idle_for_longest_is_closed() -> None:
    handles = things(1)
    first, second = handles.pop("a"), handles.pop("b")
    handles.push(first)
    handles.push(second)
    assert (first.is_closed, second.is_closed) == (True, False)
    assert handles.pop("b") is second


def test_with_a_bound_of_zero_a_handle_is_closed_at_once() -> None:
    handles = things(0)
    handles.push(first := handles.pop("a"))
    assert first.is_closed
    assert not handles.all


def test_handles_that_come_back_after_the_end_are_closed() -> None:
    handles = things(9)
    idle, in_use = handles.pop("a"), handles.pop("a")
    handles.push(idle)
    handles.close()
    assert (idle.is_closed, in_use.is_closed) == (True, False)
    handles.push(in_use)
    assert in_use.is_closed
    assert not handles.all


@pytest.mark.parametrize(
    ("soft", "each", "bound"), [(1024, 1, 960), (256, 1, 192), (256, 4, 48), (80, 1, 40)]
)
def test_the_bound_leaves_descriptors_for_other_parts_of_the_process(
    soft: int, each: int, bound: int
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
    try:
        assert limit_by_open_files(5000, each) == bound
        assert limit_by_open_files(7, each) == 7
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# --- bounds, as a server sees them ---


@pytest.mark.anyio
async def test_no_more_connections_are_open_than_max_connections(
    make_client: Callable[..., AnyClient],
) -> None:
    client = make_client(max_connections=3)
    with AppServer() as app:  # a new one: connections to others may be closing still
        responses = await client.gather(12, "GET", app.url + "/delay/0.02")
        assert [response.status_code for response in responses] == [200] * 12
        assert app.max_open == 3
        await client.aclose()


@pytest.mark.anyio
async def test_max_connections_holds_over_several_origins(
    make_client: Callable[..., AnyClient], app: AppServer, tls_app: AppServer
) -> None:
    client = make_client(max_connections=2)
    for _ in range(3):
        await client.gather(4, "GET", app.url + "/")
        await client.gather(4, "GET", tls_app.url + "/")
        app.wait_for(lambda: app.open_connections + tls_app.open_connections <= 2)
        assert app.open_connections + tls_app.open_connections <= 2


@pytest.mark.anyio
async def test_no_more_connections_per_host_than_max_connections_per_host(
    make_client: Callable[..., AnyClient],
) -> None:
    client = make_client(max_connections_per_host=2)
    with AppServer() as app, AppServer() as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.gather, 6, "GET", app.url + "/delay/0.02")
            tasks.start_soon(client.gather, 6, "GET", other.url + "/delay/0.02")
        assert (app.max_open, other.max_open) == (2, 2)
        await client.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("http2", [False, True])
async def test_the_wait_for_a_connection_to_a_host_is_no_connect_timeout(
    make_client: Callable[..., AnyClient], app: AppServer, tls_app: AppServer, http2: bool
) -> None:
    """libcurl would count it as one where an HTTP/1.1 server might have had HTTP/2."""
    client = make_client(max_connections_per_host=1, http2=http2)
    app = tls_app if http2 else app
    async with await client.stream("GET", app.url + "/stall-after"):
        with pytest.raises(PoolTimeout):
            await client.get(app.url + "/", timeout=Timeout(connect=0.02, pool=0.1))
    assert len(app.requests) == 1


@pytest.mark.anyio
@ONLY_ASYNC
async def test_max_connections_per_host_does_not_bound_requests_on_one_http2_connection(
    make_client: Callable[..., AnyClient], h2_app: H2Server
) -> None:
    client = make_client(max_connections_per_host=1)
    await client.get(h2_app.url + "/")
    await client.gather(5, "GET", h2_app.url + "/delay/0.05")
    assert h2_app.connections == 1
    assert h2_app.max_streams == 5


@pytest.mark.anyio
@ONLY_ASYNC
async def test_requests_that_wait_for_the_first_connection_to_a_host_share_it_if_it_is_http2(
    make_client: Callable[..., AnyClient], h2_app: H2Server
) -> None:
    client = make_client(max_connections_per_host=1, http2=True)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(client.get, h2_app.url + "/stall")
        with anyio.fail_after(30):
            while h2_app.max_streams < 5:
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert h2_app.connections == 1
    assert get_slots(client).used == 0


@pytest.mark.anyio
async def test_callers_are_served_in_order(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    held = await client.stream("GET", app.url + "/stall-after")
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(client.gather, 1, "GET", f"{app.url}/bytes/1?seed={number}")
            await wait_until_waiting(client, number + 1)
        await held.aclose()
    assert [record.query("seed") for record in app.requests[1:]] == [str(n) for n in range(8)]


# --- waiting ---


@pytest.mark.anyio
async def test_the_pool_timeout_bounds_the_wait_and_nothing_is_sent(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    held = await client.stream("GET", app.url + "/stall-after")
    with pytest.raises(PoolTimeout) as caught:
        await client.get(app.url + "/", timeout=Timeout(pool=0.03))
    assert not caught.value.request_sent
    assert len(app.requests) == 1
    await held.aclose()
    assert (await client.get(app.url + "/", timeout=Timeout(pool=30))).status_code == 200
    assert get_slots(client).used == 0


@pytest.mark.anyio
async def test_the_total_timeout_bounds_the_wait_for_the_pool(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    async with await client.stream("GET", app.url + "/stall-after"):
        with pytest.raises(DeadlineExceeded) as caught:
            await client.get(app.url + "/", timeout=Timeout(total=0.03, pool=30))
    assert not caught.value.request_sent
    assert len(app.requests) == 1


@pytest.mark.anyio
async def test_the_wait_for_the_pool_is_in_the_timings(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    first, second = await client.gather(2, "GET", app.url + "/delay/0.05")
    assert first.timings.queue < 0.04 <= second.timings.queue


# --- what is kept ---


@pytest.mark.anyio
@pytest.mark.parametrize("keep", [0, 1, 3])
async def test_no_more_idle_connections_are_kept_than_max_keepalive_connections(
    make_client: Callable[..., AnyClient], app: AppServer, keep: int
) -> None:
    """Of connections."""
    client = make_client(max_keepalive_connections=keep)
    app.wait_for(lambda: not app.open_connections)
    await client.gather(5, "GET", app.url + "/delay/0.02")
    assert app.wait_for(lambda: app.open_connections == keep), app.open_connections
    before = app.connections
    await client.get(app.url + "/")
    assert app.connections == before + (keep == 0)


@pytest.mark.anyio
async def test_a_handle_is_kept_even_if_its_connection_is_not(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    """A new handle parses the authorities again, which takes longer than a handshake."""
    client = make_client(max_keepalive_connections=0)
    await client.get(app.url + "/")
    made = set(handles_of(client))
    for _ in range(3):
        await client.get(app.url + "/")
    assert set(handles_of(client)) == made
    assert len(made) == 1
    assert app.connections == 4


@pytest.mark.anyio
async def test_an_idle_connection_of_another_origin_does_not_block_new_ones(
    make_client: Callable[..., AnyClient], app: AppServer, tls_app: AppServer
) -> None:
    client = make_client(max_keepalive_connections=1)
    await client.get(tls_app.url + "/")
    for _ in range(3):
        await client.get(app.url + "/")
    assert app.connections == 1


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("colour", ["blocking", "asyncio"])  # libcurl looks at the clock
async def test_old_and_idle_connections_are_not_used_again(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    kept, idle, old = (
        make_client(),
        make_client(keepalive_expiry=1),
        make_client(max_connection_lifetime=1),
    )
    for client in (kept, idle, old):
        await client.get(app.url + "/")
    assert app.connections == 3
    await anyio.sleep(2.1)
    await kept.get(app.url + "/")
    assert app.connections == 3
    await idle.get(app.url + "/")
    assert app.connections == 4
    await old.get(app.url + "/")
    assert app.connections == 5


# --- the end ---


@pytest.mark.anyio
async def test_requests_after_close_raise_client_closed(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    await client.get(app.url + "/")
    await client.aclose()
    for _ in range(2):
        with pytest.raises(ClientClosed):
            await client.get(app.url + "/")
    await client.aclose()
    assert app.wait_for(lambda: not app.open_connections)
    assert len(app.requests) == 1


@pytest.mark.anyio
async def test_a_client_that_was_never_used_can_be_closed(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    await client.aclose()
    with pytest.raises(ClientClosed):
        await client.get(app.url + "/")
    assert not app.requests


@pytest.mark.anyio
async def test_closing_wakes_those_that_wait_for_the_pool(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    held = await client.stream("GET", app.url + "/stall-after")
    outcomes: list[BaseException] = []

    async def wait() -> None:
        with pytest.raises(ClientClosed) as caught:
            await in_thread(client, "GET", app.url + "/")
        outcomes.append(caught.value)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)
            await wait_until_waiting(client, 3)
            await client.aclose()
    assert len(outcomes) == 3
    assert len(app.requests) == 1
    await held.aclose()


# --- responses that are never closed ---


@pytest.mark.anyio
async def test_a_dropped_streamed_response_releases_its_slot(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    for _ in range(3):
        held = await client.stream("GET", app.url + "/stall-after")
        del held
        gc.collect()
        assert (await client.get(app.url + "/", timeout=Timeout(pool=30))).status_code == 200
    await wait_until_idle(client)


@pytest.mark.anyio
async def test_a_dropped_response_admits_the_waiters(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    held = await client.stream("GET", app.url + "/stall-after")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.gather, 1, "GET", app.url + "/")
            await wait_until_waiting(client, 1)
            del held
            gc.collect()
    assert len(app.requests) == 2


@pytest.mark.anyio
async def test_many_dropped_responses_are_released_together(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=20)
    held = [await client.stream("GET", app.url + "/stall-after") for _ in range(20)]
    assert app.open_connections == 20
    held.clear()
    gc.collect()
    assert (await client.get(app.url + "/", timeout=Timeout(pool=30))).status_code == 200
    await wait_until_idle(client)
    assert app.wait_for(lambda: app.open_connections <= 1)
    assert len(handles_of(client)) <= 20


def test_a_connection_that_is_dropped_is_closed_before_another_may_be_opened(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    with Client(max_connections=1) as client:
        slots = get_slots(client)
        close = Transfer.close

        def observe(transfer: Transfer) -> None:
            used.append(slots.used)
            close(transfer)

        monkeypatch.setattr(Transfer, "close", observe)
        client.stream("GET", app.url + "/big").close()
        assert used == [1]
        assert slots.used == 0


# --- the drivers that blocking calls borrow ---


def test_one_thread_needs_one_driver_for_many_origins(certs: Certs) -> None:
    """libcurl parses the authorities once for each curl_multi, which takes milliseconds."""
    with ExitStack() as stack, Client(verify=certs.ca_path) as client:
        servers = [stack.enter_context(AppServer(certs.server_context())) for _ in range(3)]
        for server in servers * 2:
            assert client.get(server.url + "/").status_code == 200
            assert client.stream("GET", server.url + "/").read() == b"hello"
        assert [server.connections for server in servers] == [1, 1, 1]
        assert len(drivers_of(client).all) == 1


@pytest.mark.parametrize("kind", ["plain", "tls", "h2"])
def test_a_connection_moves_from_one_driver_to_another(
    app: AppServer, tls_app: AppServer, h2_app: H2Server, certs: Certs, kind: str
) -> None:
    server = {"plain": app, "tls": tls_app, "h2": h2_app}[kind]
    url = server.url + "/bytes/1000"
    with Client(verify=certs.ca_path, http2=kind == "h2") as client:
        first, second = client.stream("GET", url), client.stream("GET", url)
        for stream in (first, second):  # what was on the driver lent first is idle first
            assert stream.read() == payload(1000)
        # Each connection comes back on the driver of the other.
        for _ in range(5):
            first, second = client.stream("GET", url), client.stream("GET", url)
            assert (second.read(), first.read()) == (payload(1000), payload(1000))
            assert client.get(url).content == payload(1000)
        assert len(drivers_of(client).all) == 2
    assert server.connections == 2


def test_a_driver_whose_callback_failed_is_not_reused(app: AppServer) -> None:
    class Full(dict[int, int]):
        def __setitem__(self, descriptor: int, what: int) -> None:
            raise MemoryError("no room in the poller")

    with Client() as client:
        client.get(app.url + "/")
        (driver,) = drivers_of(client).all
        driver.poller.wanted = Full()
        with pytest.raises(MemoryError):
            client.get(app.url + "/delay/0.05")
        assert client.get(app.url + "/").status_code == 200
        assert driver not in drivers_of(client).all


def test_a_closed_client_keeps_no_driver(app: AppServer) -> None:
    client = Client()
    assert app.wait_for(lambda: not app.open_connections)  # of tests before
    before = count_descriptors()
    held = client.stream("GET", app.url + "/bytes/1000")
    client.get(app.url + "/")
    client.close()
    assert held.read() == payload(1000)
    assert not drivers_of(client).all
    assert app.wait_for(lambda: not app.open_connections)
    assert count_descriptors() == before
