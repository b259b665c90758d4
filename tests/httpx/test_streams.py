"""Bodies on the wire: streamed, left early, never read, cancelled; nothing leaks."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from tests.httpx.clients import AnyHTTPX, Make
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.colours import WITHOUT_UVLOOP

pytestmark = [
    pytest.mark.anyio,
    # httpx leaves its generators to the collector, of which trio warns.
    pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning"),
]

EVENTS = [b'data: {"n": %d}\n\n' % number for number in range(5)]


class Reports:
    """A route that sends one event, and the next when the reader has it."""

    def __init__(self) -> None:
        self.next = threading.Semaphore(1)

    def __call__(self, record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
        for event in EVENTS:
            self.next.acquire(timeout=30)
            conn.chunk(event)
        conn.chunk(b"")


async def test_each_event_arrives_when_it_was_sent(app: AppServer, httpx_client: AnyHTTPX) -> None:
    reports = Reports()
    app.route("/events", reports)
    seen = []
    async with httpx_client.stream("POST", f"{app.url}/events", json={"stream": True}) as response:
        async for piece in httpx_client.pieces(response):
            seen.append(piece)
            reports.next.release()  # the server had waited for this
    assert seen == EVENTS
    assert app.connections == 1
    await httpx_client.get(app.url)
    assert app.connections == 1


async def test_each_piece_is_sent_after_the_echo_of_the_one_before(
    app: AppServer, httpx_client: AnyHTTPX
) -> None:
    if httpx_client.is_blocking:
        pytest.skip("a blocking client reads its iterator and the response in one thread")
    to_send, pieces = anyio.create_memory_object_stream[bytes](5)

    async def body() -> AsyncIterator[bytes]:
        async with pieces:
            async for piece in pieces:
                yield piece

    url = f"{app.url}/echo-stream"
    async with to_send, httpx_client.stream("POST", url, content=body()) as response:
        echoes = httpx_client.pieces(response)
        for number in range(5):
            await to_send.send(b"%d" % number)
            assert await anext(echoes) == b"%d" % number
        to_send.close()
        assert [piece async for piece in echoes] == []


async def test_a_head_arrives_before_the_body(app: AppServer, httpx_client: AnyHTTPX) -> None:
    goes_on = threading.Event()

    def respond(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", "3")])
        goes_on.wait(30)
        conn.send(b"abc")

    app.route("/late", respond)
    async with httpx_client.stream("GET", f"{app.url}/late") as response:
        assert response.status_code == 200
        goes_on.set()
        assert await httpx_client.read(response) == b"abc"


async def test_a_large_body_is_complete(app: AppServer, httpx_client: AnyHTTPX) -> None:
    response = await httpx_client.get(f"{app.url}/bytes/3000000")
    assert response.content == payload(3_000_000)


async def test_a_response_left_early_leaves_nothing(app: AppServer, httpx_client: AnyHTTPX) -> None:
    async with httpx_client.stream("GET", f"{app.url}/big") as response:
        async with aclosing(httpx_client.pieces(response)) as pieces:
            await anext(pieces)
    assert response.is_closed
    assert (await httpx_client.get(app.url)).content == b"hello"
    assert app.connections == 2  # the rest of the body was not worth the connection


async def test_an_unread_complete_response_releases_its_connection(
    app: AppServer, httpx_client: AnyHTTPX
) -> None:
    for _ in range(3):
        async with httpx_client.stream("GET", f"{app.url}/204") as response:
            assert response.status_code == 204
    assert app.connections == 1


async def test_a_dropped_response_releases_its_connection(
    library: Any, app: AppServer, make_httpx: Make
) -> None:
    limits = library.Limits(max_connections=1)
    client = make_httpx(transport={"limits": limits}, timeout=library.Timeout(30))
    transport = client.transport
    for _ in range(3):
        request = library.Request("GET", f"{app.url}/big")
        if client.is_blocking:
            response = transport.handle_request(request)
        else:
            response = await transport.handle_async_request(request)
        assert response.status_code == 200
        del response
        gc.collect()
    assert (await client.get(app.url)).content == b"hello"


async def test_a_body_that_another_finalizer_keeps_is_abandoned_once(
    library: Any, app: AppServer, make_httpx: Make
) -> None:
    kept: list[Any] = []

    class Keeper:
        stream: Any

        def __del__(self) -> None:
            kept.append(self.stream)

    client = make_httpx(timeout=library.Timeout(30))
    request = library.Request("GET", f"{app.url}/big")
    if client.is_blocking:
        response = client.transport.handle_request(request)
    else:
        response = await client.transport.handle_async_request(request)
    keeper: Any = Keeper()
    keeper.stream, response.stream.keeper = response.stream, keeper
    del request, response, keeper
    gc.collect()
    await anyio.sleep(0.01)  # what the finalizer asked the loop for
    if client.is_blocking:
        kept.pop().close()
    else:
        await kept.pop().aclose()
    assert (await client.get(app.url)).content == b"hello"


async def test_a_body_is_read_once(library: Any, app: AppServer, httpx_client: AnyHTTPX) -> None:
    async with httpx_client.stream("GET", app.url) as response:
        assert b"".join([piece async for piece in httpx_client.pieces(response)]) == b"hello"
        with pytest.raises(library.StreamConsumed):
            async for _ in httpx_client.pieces(response):
                pass


@WITHOUT_UVLOOP
async def test_a_stream_that_was_closed_is_not_read_on(
    library: Any, app: AppServer, httpx_client: AnyHTTPX
) -> None:
    async with httpx_client.stream("GET", f"{app.url}/big") as response:
        async with aclosing(httpx_client.pieces(response)) as pieces:
            await anext(pieces)
        await httpx_client.close(response)
        with pytest.raises((library.StreamClosed, StopAsyncIteration)):
            stream = response.stream
            if httpx_client.is_blocking:
                next(iter(stream))
            else:
                await anext(aiter(stream))


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancelled_request_leaves_nothing(app: AppServer, httpx_client: AnyHTTPX) -> None:
    for path in ("stall", "stall-after"):
        with anyio.move_on_after(0.05) as scope:
            await httpx_client.get(f"{app.url}/{path}", timeout=None)
        assert scope.cancelled_caught
    assert (await httpx_client.get(app.url)).content == b"hello"


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_closing_amid_another_tasks_read_ends_that(
    library: Any, app: AppServer, httpx_client: AnyHTTPX
) -> None:
    request = library.Request("GET", f"{app.url}/stall-after")
    response = await httpx_client.transport.handle_async_request(request)
    ended: list[bool] = []

    async def read() -> None:
        with pytest.raises(library.ReadError):
            async for _ in response.stream:
                reading.set()
        ended.append(True)

    reading = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await reading.wait()
        await anyio.wait_all_tasks_blocked()
        await response.aclose()
    assert ended == [True]


async def test_many_at_once_share_few_connections(
    library: Any, app: AppServer, make_httpx: Make
) -> None:
    client = make_httpx(transport={"limits": library.Limits(max_connections=5)}, timeout=60)
    seen = []

    async def one(number: int) -> None:
        url = f"{app.url}/bytes/{number}"
        if client.is_blocking:
            response = await anyio.to_thread.run_sync(client.real.get, url)
        else:
            response = await client.get(url)
        seen.append(len(response.content) == number)

    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(one, number)
    assert seen == [True] * 200
    assert app.connections <= 5


# --- the life of a transport ---


async def test_a_closed_transport_opens_new_connections(
    app: AppServer, httpx_client: AnyHTTPX, library: Any
) -> None:
    transport = httpx_client.transport
    for _ in range(2):
        request = library.Request("GET", app.url)
        if httpx_client.is_blocking:
            assert transport.handle_request(request).read() == b"hello"
            transport.close()
        else:
            response = await transport.handle_async_request(request)
            assert await response.aread() == b"hello"
            await transport.aclose()
    assert app.connections == 2


@pytest.mark.colours("asyncio", "trio")
async def test_closing_ends_running_requests(
    library: Any, app: AppServer, httpx_client: AnyHTTPX
) -> None:
    async def ask() -> None:
        with pytest.raises(library.CloseError):
            await httpx_client.get(f"{app.url}/stall", timeout=None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(app.wait_for, lambda: bool(app.requests))
        await httpx_client.transport.aclose()


@pytest.mark.colours("blocking")  # an async one needs its loop to close
async def test_a_response_keeps_its_transport_which_closes_its_connections_at_its_end(
    colour: str, library: Any, app: AppServer, anyio_backend: Any
) -> None:
    client = AnyHTTPX(colour, library)
    response = client.real.send(client.real.build_request("GET", app.url), stream=True)
    del client
    gc.collect()
    assert response.read() == b"hello"
    response.stream = None
    del response
    gc.collect()
    assert await anyio.to_thread.run_sync(app.wait_for, lambda: not app.open_connections)


def test_one_async_transport_serves_several_loops(library: Any, app: AppServer) -> None:
    import asyncio

    import trio

    from tests.httpx.clients import transports

    transport = transports(library).AsyncTransport()

    async def ask() -> bytes:
        response = await transport.handle_async_request(library.Request("GET", app.url))
        body: bytes = await response.aread()
        return body

    assert asyncio.run(ask()) == trio.run(ask) == asyncio.run(ask()) == b"hello"

    async def close() -> None:
        await ask()
        await transport.aclose()

    asyncio.run(close())
