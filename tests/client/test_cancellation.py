"""Cancelling a request at any point frees its handle at once and disturbs no other request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from curlhttp import Hedge
from curlhttp.exceptions import StreamConsumedError
from tests.servers import (
    AppConnection,
    AppServer,
    BlackHole,
    H2Server,
    RawConnection,
    RawServer,
    Record,
    respond,
    respond_and_stall,
    response,
)
from tests.support.colours import AnyClient, AnyStream
from tests.support.internals import (
    assert_nothing_runs,
    count_descriptors,
    count_running,
    get_slots,
    handles_of,
    wait_until_waiting,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"]),
]


@pytest.mark.parametrize("way", ["request", "stream", "hedge", "map"])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_body_that_raises_cancelled_error_ends_its_request(
    make_client: Callable[..., AnyClient], app: AppServer, way: str, is_async: bool
) -> None:
    raised = asyncio.CancelledError("of the body")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"piece"
        raise raised

    def blocking_pieces() -> Iterator[bytes]:
        yield b"piece"
        raise raised

    client = make_client(hedge=Hedge(after=30) if way == "hedge" else None)
    body = pieces() if is_async else blocking_pieces()
    with anyio.fail_after(30), pytest.raises(asyncio.CancelledError, match="of the body"):
        if way == "stream":
            await client.stream("POST", app.url + "/echo", content=body)
        elif way == "map":
            request = client.real.build_request("POST", app.url + "/echo", content=body)
            async for _ in client.real.map([request]):
                pass
        else:
            await client.real.put(app.url + "/echo", content=body)
    assert_nothing_runs(client)


_BEGUN = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npiece"


async def cancel_once(
    ready: Callable[[], Any], work: Callable[[], Awaitable[Any]], count: int = 1
) -> None:
    """Start work in tasks, and cancel them once ready() holds."""
    ends: list[str] = []

    async def one() -> None:
        try:
            await work()
        except BaseException as error:
            ends.append(type(error).__name__)
            raise
        ends.append("finished")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(one)
            while not ready():
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    assert ends
    assert set(ends) <= {"CancelledError", "Cancelled"}


async def test_a_request_cancelled_after_a_redirect_frees_its_handle(
    client: AnyClient, app: AppServer
) -> None:
    app.route("/to", lambda record, out: out.reply(302, b"", [("Location", "/stall")]))
    await cancel_once(lambda: len(app.requests) == 2, lambda: client.get(app.url + "/to"))
    assert_nothing_runs(client)
    assert (await client.get(app.url)).content == b"hello"


async def test_a_request_cancelled_while_it_waits_for_the_pool_leaves_the_queue(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    async with await client.stream("GET", app.url + "/stall-after"):
        waiting = get_slots(client).waiters
        await cancel_once(
            lambda: len(waiting) == 3, lambda: client.get(app.url + "/cancelled"), count=3
        )
        assert not waiting
    assert_nothing_runs(client)
    assert (await client.get(app.url + "/")).status_code == 200
    assert len(app.requests) == 2


async def test_a_slot_granted_to_a_request_that_is_cancelled_goes_to_the_next(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    held = await client.stream("GET", app.url + "/stall-after")
    statuses: list[int] = []

    async def get() -> None:
        statuses.append((await client.get(app.url + "/")).status_code)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(get)
                    await wait_until_waiting(client, 1)
                    tasks.start_soon(get)
                    await wait_until_waiting(client, 2)
                    await held.aclose()  # grants the first
                    scope.cancel()
    assert statuses == [200]
    assert_nothing_runs(client)


async def test_a_request_cancelled_while_connecting_closes_its_socket(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    await client.get(app.url + "/")
    before = count_descriptors()
    with BlackHole() as hole:
        await cancel_once(
            lambda: count_running(client) == 5,
            lambda: client.get(hole.url + "/"),
            count=5,
        )
        assert_nothing_runs(client)
    assert count_descriptors() <= before + 1  # the five may have made one more wake-up descriptor


@pytest.mark.parametrize("path", ["/stall", "/stall-in-head", "/stall-after"])
async def test_a_request_cancelled_while_it_waits_closes_its_connection(
    make_client: Callable[..., AnyClient], app: AppServer, path: str
) -> None:
    client = make_client()
    await cancel_once(lambda: app.requests, lambda: client.get(app.url + path))
    assert_nothing_runs(client)
    assert app.wait_for(lambda: not app.open_connections)


async def test_other_requests_continue_when_one_is_cancelled(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    bodies: list[bytes] = []

    async def drip() -> None:
        bodies.append((await client.get(app.url + "/drip?n=20&interval=0.01")).content)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(drip)
        await cancel_once(
            lambda: len(app.requests) >= 9, lambda: client.get(app.url + "/stall"), count=5
        )
    assert bodies == [b"x" * 20] * 4
    assert_nothing_runs(client)


async def test_the_task_that_polls_the_sockets_may_be_cancelled_first(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    # On trio the first to wait does so for all: the others must not sleep on without it.
    client = make_client()
    done: list[int] = []
    scopes = [anyio.CancelScope() for _ in range(4)]

    async def one(number: int) -> None:
        with scopes[number]:
            await client.get(app.url + ("/delay/0.1" if number == 3 else "/stall"))
            done.append(number)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(one, number)
                while len(app.requests) <= number:
                    await anyio.sleep(0.001)
            for scope in scopes[:3]:
                scope.cancel()
    assert done == [3]
    assert_nothing_runs(client)


async def test_cancelling_all_but_the_last_at_once_hands_over(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as cancelled:
                    for _ in range(10):
                        cancelled.start_soon(client.get, app.url + "/stall")
                    while len(app.requests) < 10:
                        await anyio.sleep(0.001)
                    tasks.start_soon(client.get, app.url + "/delay/0.05")
                    while len(app.requests) < 11:
                        await anyio.sleep(0.001)
                    scope.cancel()
    assert_nothing_runs(client)


async def test_cancelling_the_reading_of_a_stream_closes_it(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    streamed = await client.stream("GET", app.url + "/stall-after")
    pieces: list[bytes] = []

    async def read() -> None:
        async for piece in streamed.iterate("bytes"):
            pieces.append(piece)

    await cancel_once(lambda: pieces, read)
    assert_nothing_runs(client)
    assert app.wait_for(lambda: not app.open_connections)
    assert streamed.real.is_closed
    await streamed.aclose()
    assert get_slots(client).used == 0


async def test_cancelling_an_upload_from_an_async_iterator_ends_the_iterator(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    asked = anyio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        asked.set()
        await anyio.sleep_forever()

    await cancel_once(
        lambda: asked.is_set() and app.requests,
        lambda: client.post(app.url + "/upload", content=body()),
    )
    assert_nothing_runs(client)
    assert app.wait_for(lambda: not app.open_connections)
    assert (await client.get(app.url + "/")).status_code == 200


async def test_cancelling_an_upload_that_the_server_does_not_read_frees_the_handle(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    notified = threading.Event()

    def never_read(record: Record, conn: AppConnection) -> None:
        notified.wait(60)
        conn.closing = True

    app.route("/unread", never_read, read_body=False)
    await cancel_once(
        lambda: app.requests,
        lambda: client.post(app.url + "/unread", content=bytes(8 << 20)),
    )
    notified.set()
    assert_nothing_runs(client)
    assert app.wait_for(lambda: not app.open_connections)


async def test_cancelling_on_http2_resets_the_stream_and_keeps_the_connection(
    make_client: Callable[..., AnyClient], h2_app: H2Server
) -> None:
    client = make_client()
    await client.get(h2_app.url + "/")
    await cancel_once(
        lambda: len(h2_app.requests) == 4, lambda: client.get(h2_app.url + "/stall"), count=3
    )
    assert_nothing_runs(client)
    # libcurl sends the RST_STREAM when it next has something to do for the connection
    assert (await client.get(h2_app.url + "/")).status_code == 200
    assert h2_app.wait_for(lambda: len(h2_app.resets) == 3)
    assert h2_app.connections == 1


async def test_a_timeout_of_the_callers_own_cancels(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    with anyio.move_on_after(0.05) as scope:
        await client.get(app.url + "/stall")
    assert scope.cancelled_caught
    assert_nothing_runs(client)


async def test_a_request_in_a_cancelled_scope_sends_nothing_more(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    await client.get(app.url + "/")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.get(app.url + "/stall")
    assert scope.cancelled_caught
    assert_nothing_runs(client)


async def test_a_thousand_cancels_leave_nothing_behind(
    make_client: Callable[..., AnyClient], app: AppServer, h2_app: H2Server, colour: str
) -> None:
    client = make_client(max_connections=60)
    await client.gather(50, "GET", app.url + "/delay/0.02")
    await client.get(h2_app.url + "/")
    tasks = None if colour == "trio" else asyncio.all_tasks()
    before = count_descriptors()
    with BlackHole() as hole:
        urls = [app.url + "/stall", h2_app.url + "/stall", hole.url + "/", app.url + "/stall-after"]

        def ready() -> bool:
            return count_running(client) >= 50

        for number in range(20):
            url = urls[number % 4]
            await cancel_once(ready, lambda url=url: client.get(url), count=50)  # type: ignore[misc]
    assert_nothing_runs(client)
    assert len(handles_of(client)) <= 60
    if tasks is not None:
        assert asyncio.all_tasks() == tasks
    assert app.wait_for(lambda: not app.open_connections)
    assert count_descriptors() <= before
    assert (await client.get(app.url + "/")).status_code == 200


@pytest.mark.parametrize("reads_all", [False, True])
async def test_closing_a_response_ends_the_read_of_another_task(
    client: AnyClient, reads_all: bool
) -> None:
    """The reader must not wait for ever, nor get what the next request on its handle is sent."""
    ends: list[Exception] = []
    responses = respond_and_stall(_BEGUN), respond(response(b"next"))

    def handler(conn: RawConnection) -> None:
        responses[min(conn.index, 1)](conn)

    async def read(stream: AnyStream) -> None:
        try:
            if reads_all:
                await stream.read()
            async for _ in stream.iterate("bytes"):
                pass
        except Exception as error:
            ends.append(error)

    with RawServer(handler) as server, anyio.fail_after(30):
        stream = await client.stream("GET", server.url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, stream)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
            assert (await client.get(server.url)).content == b"next"
    assert [str(error) for error in ends] == ["this response was closed while it was read"]
    assert isinstance(ends[0], StreamConsumedError)
    assert_nothing_runs(client)
