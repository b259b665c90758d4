"""Queued requests: a transfer that ends starts the next one without waking its task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

import anyio
import pytest

from curlhttp import ClientRequest
from curlhttp.exceptions import ContentDecodingError
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient
from tests.support.internals import (
    after_prepare,
    assert_nothing_runs,
    driver_of,
    wait_until_waiting,
)

MakeClient = Callable[..., AnyClient]

ASYNC = (
    pytest.mark.anyio,
    pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"]),
)


def asynchronous(test: Any) -> Any:
    for mark in ASYNC:
        test = mark(test)
    return test


@asynchronous
async def test_the_next_request_has_started_when_a_response_is_returned(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1)
    under_way: list[set[str | None]] = []

    async def get(name: str) -> None:
        await client.get(f"{app.url}/bytes/1?seed={name}")
        running = driver_of(client).running.values()
        ended = {record.query("seed") for record in app.requests}
        under_way.append(ended | {transfer.request.url.query[5:] for transfer in running})

    async with anyio.create_task_group() as tasks:
        async with await client.stream("GET", app.url + "/stall-after"):
            for number in range(3):
                tasks.start_soon(get, str(number))
                await wait_until_waiting(client, number + 1)
    assert under_way[0] >= {"0", "1"}
    assert under_way[1] >= {"0", "1", "2"}
    assert [record.query("seed") for record in app.requests[1:]] == ["0", "1", "2"]
    assert_nothing_runs(client)


@asynchronous
async def test_the_task_of_a_queued_request_is_woken_once(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1)
    waits: list[int] = []
    async with anyio.create_task_group() as tasks:
        async with await client.stream("GET", app.url + "/stall-after"):
            for _ in range(20):
                tasks.start_soon(_count_waits, client.get(app.url + "/bytes/1"), waits)
            await wait_until_waiting(client, 20)
    assert waits == [1] * 20


async def _count_waits(awaitable: Awaitable[Any], waits: list[int]) -> None:
    class Counted:
        def __await__(self) -> Generator[Any, Any, None]:
            steps: Any = awaitable.__await__()
            count, response = 0, None
            with suppress(StopIteration):
                while True:
                    wanted = steps.send(response)
                    count += 1
                    response = yield wanted
            waits.append(count)

    await Counted()


@asynchronous
async def test_a_cancelled_request_from_the_queue_is_aborted_and_the_next_one_starts(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1)
    statuses: list[int] = []

    async def get() -> None:
        statuses.append((await client.get(app.url + "/bytes/1")).status_code)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            held = await client.stream("GET", app.url + "/stall-after")
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(client.get, app.url + "/stall")
                    await wait_until_waiting(client, 1)
                    tasks.start_soon(get)
                    await wait_until_waiting(client, 2)
                    await held.aclose()
                    while len(app.requests) < 2:  # the first in line was sent
                        await anyio.sleep(0.001)
                    scope.cancel()
    assert statuses == [200]
    assert_nothing_runs(client)


@asynchronous
async def test_a_request_that_fails_to_start_raises_in_its_own_caller(
    make_client: MakeClient, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(max_connections=1)

    def refuse(easy: object, request: ClientRequest) -> None:
        if request.url.path == "/refused":
            raise LookupError("not this one")

    after_prepare(monkeypatch, refuse)
    ends: list[str] = []

    async def get(path: str) -> None:
        try:
            await client.get(app.url + path)
        except LookupError as error:
            ends.append(str(error))
        else:
            ends.append(path)

    async with anyio.create_task_group() as tasks:
        async with await client.stream("GET", app.url + "/stall-after"):
            # More than fit on a stack, if each that fails started the next one at once.
            paths = ["/", *["/refused"] * 2000, "/bytes/1"]
            for path in paths:
                tasks.start_soon(get, path)
            await wait_until_waiting(client, len(paths))
    assert sorted(ends) == ["/", "/bytes/1", *["not this one"] * 2000]
    assert_nothing_runs(client)


def _broken(record: Record, conn: AppConnection) -> None:
    conn.reply(200, b"no gzip", [("Content-Encoding", "gzip")])


@asynchronous
async def test_a_decoding_error_is_raised_in_its_own_caller(
    make_client: MakeClient, app: AppServer
) -> None:
    app.route("/broken", _broken)
    client = make_client(max_connections=1)
    ends: list[str] = []

    async def get(path: str) -> None:
        try:
            await client.get(app.url + path)
        except ContentDecodingError as error:
            ends.append(f"{error.request} failed")
        else:
            ends.append(path)

    async with anyio.create_task_group() as tasks:
        async with await client.stream("GET", app.url + "/stall-after"):
            for number, path in enumerate(["/", "/broken", "/bytes/1"]):
                tasks.start_soon(get, path)
                await wait_until_waiting(client, number + 1)
    assert ends == ["/", f"GET {app.url}/broken failed", "/bytes/1"]
    assert_nothing_runs(client)
    del app.routes["/broken"]
