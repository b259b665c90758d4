"""map in all colours: items, results, concurrency, and ending early."""

from __future__ import annotations

import gc
import io
import itertools
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ClientClosed, ClientRequest, RequestException
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.internals import assert_nothing_runs, count_descriptors, engines_of

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., AnyClient]


async def assert_free(client: AnyClient) -> None:
    """Nothing of a map is left but idle connections."""
    with anyio.fail_after(30):  # tasks that were cancelled may be ending
        while client.is_blocking and len(engines_of(client)) < 2:
            await anyio.sleep(0.001)
        while True:
            try:
                return assert_nothing_runs(client)
            except AssertionError:
                await anyio.sleep(0.001)


def number_of(result: Any) -> int:
    return int(str(result.url).rpartition("=")[2])


def urls(app: AppServer, count: int, path: str = "/bytes/10") -> Iterator[str]:
    return (f"{app.url}{path}?seed={number}" for number in range(count))


class Counted:
    """Count the items that were taken from an iterable."""

    def __init__(self, items: Any) -> None:
        self.items = iter(items)
        self.taken = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:
            self.taken += 1
            yield item


# --- results ---


async def test_every_url_yields_one_response(client: AnyClient, app: AppServer) -> None:
    got = [result async for result in client.map(urls(app, 200), concurrency=8)]
    assert sorted(map(number_of, got)) == list(range(200))
    assert {result.status_code for result in got} == {200}
    assert len(app.requests) == 200
    assert app.connections <= 8
    await assert_free(client)


async def test_results_are_yielded_as_they_complete(client: AnyClient, app: AppServer) -> None:
    come = [threading.Event(), threading.Event()]

    def after_another(record: Record, conn: AppConnection) -> None:
        come[int(record.args[0])].wait(30)
        conn.reply(200)

    app.route("/after", after_another)
    items = [app.url + "/after/1", app.url + "/after/0", app.url + "/"]
    got: list[str] = []
    async for result in client.map(items):
        if len(got) < 2:
            come[len(got)].set()
        got.append(str(result.url))
    assert got == items[::-1]


async def test_ordered_results_are_yielded_in_the_order_of_the_items(
    client: AnyClient, app: AppServer
) -> None:
    items = [app.url + path for path in ("/delay/0.1", "/", "/delay/0.05", "/bytes/1", "/404")]
    items.insert(2, "nope")
    got = [result async for result in client.map(items, ordered=True, concurrency=4)]
    assert [str(result.request.url) for result in got] == items
    assert isinstance(got[2], curlhttp.MissingSchema)


async def test_an_empty_iterable_yields_nothing(client: AnyClient) -> None:
    nothing: Any
    for nothing in ([], iter(())):
        assert [result async for result in client.map(nothing)] == []


async def test_after_the_end_nothing_is_yielded(client: AnyClient, app: AppServer) -> None:
    results = client.map([app.url])
    assert [result.status_code async for result in results] == [200]
    assert [result async for result in results] == []
    await results.aclose()


async def test_one_request_at_a_time_is_enough(client: AnyClient, app: AppServer) -> None:
    got = [number_of(r) async for r in client.map(urls(app, 10), concurrency=1, ordered=True)]
    assert got == list(range(10))
    assert app.connections == 1


async def test_every_argument_of_send_is_an_item(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(base_url=app.url, headers={"X-Mine": "1"})
    items = [
        "/bytes/1",
        (app.url + "/bytes/2").encode(),
        curlhttp.URL(app.url + "/bytes/3"),
        client.real.build_request("POST", "/echo", json={"a": 1}),
        curlhttp.requests.Request("PUT", app.url + "/echo", data=b"put"),
        ClientRequest("GET", app.url + "/bytes/4"),
    ]
    got = [result async for result in client.map(items, ordered=True)]
    assert [result.status_code for result in got] == [200] * 6
    assert [record.method for record in app.requests].count("GET") == 4
    assert [record.values("x-mine") for record in app.requests].count(["1"]) == 5
    assert got[3].request is items[3]


async def test_options_are_those_of_the_urls(client: AnyClient, app: AppServer) -> None:
    built = client.real.build_request("GET", app.url + "/echo")
    options: dict[str, Any] = {"headers": {"X-Of": "url"}, "params": {"a": "b"}}
    got = [r async for r in client.map([app.url + "/echo", built], ordered=True, **options)]
    first, second = (result.json() for result in got)
    assert "a=b" in str(first)
    assert "X-Of" in str(first)
    assert "a=b" not in str(second)
    assert "X-Of" not in str(second)


async def test_the_same_url_is_sent_as_often_as_it_is_given(
    client: AnyClient, app: AppServer
) -> None:
    got = [result async for result in client.map([app.url + "/"] * 50, concurrency=10)]
    assert len(got) == len(app.requests) == 50


async def test_the_same_request_is_sent_as_often_as_it_is_given(
    client: AnyClient, app: AppServer
) -> None:
    request = client.real.build_request("POST", app.url + "/echo", json=[1])
    got = [result async for result in client.map([request] * 20, concurrency=10)]
    assert {id(result.request) for result in got} == {id(request)}
    assert [record.body for record in app.requests] == [b"[1]"] * 20


async def test_one_body_is_not_read_by_two_requests_at_once(
    client: AnyClient, app: AppServer
) -> None:
    shared = client.real.build_request("POST", app.url + "/echo", content=io.BytesIO(b"x" * 9000))
    got = [result async for result in client.map([shared] * 2, ordered=True)]
    assert got[0].status_code == 200
    assert isinstance(got[1], curlhttp.UnrewindableBodyError)
    assert [record.body for record in app.requests] == [b"x" * 9000]


async def test_one_body_is_read_by_one_request_after_another(
    client: AnyClient, app: AppServer
) -> None:
    shared = client.real.build_request("POST", app.url + "/echo", content=io.BytesIO(b"x" * 9000))
    got = [result async for result in client.map([shared] * 3, concurrency=1)]
    assert [result.status_code for result in got] == [200] * 3
    assert [record.body for record in app.requests] == [b"x" * 9000] * 3


async def test_bodies_that_have_twins_are_sent_at_once(client: AnyClient, app: AppServer) -> None:
    shared = client.real.build_request("POST", app.url + "/echo", content=[b"a", b"b"])
    got = [result async for result in client.map([shared] * 5)]
    assert [result.status_code for result in got] == [200] * 5
    assert [record.body for record in app.requests] == [b"ab"] * 5


# --- errors as values ---


async def test_errors_are_results_with_their_requests(client: AnyClient, app: AppServer) -> None:
    dead = "http://127.0.0.1:1/"
    items = ["nope", b"", dead, "http://[bad/", app.url + "/"]
    got: list[Any] = [result async for result in client.map(items, ordered=True)]
    assert all(isinstance(result, RequestException) for result in got[:4])
    assert [result.request.url for result in got[:2]] == ["nope", b""]
    assert str(got[2].request.url) == dead
    assert isinstance(got[2], curlhttp.ConnectionError)
    assert got[3].request.url == "http://[bad/"
    assert got[4].status_code == 200


async def test_a_request_that_cannot_be_built_is_the_errors_own(client: AnyClient) -> None:
    wanted = curlhttp.requests.Request("GET", "nope")
    (error,) = [result async for result in client.map([wanted])]
    assert error.request is wanted


async def test_a_kept_error_keeps_no_reference_to_the_map(client: AnyClient) -> None:
    class Items:
        def __iter__(self) -> Iterator[str]:
            return iter(["nope", "http://127.0.0.1:1/"])

    results = client.map(Items())
    inner = weakref.ref(results.real)
    errors = [result async for result in results]
    assert len(errors) == 2
    assert {error.__traceback__ for error in errors} == {None}
    del results
    gc.collect()
    assert inner() is None


async def test_the_first_error_is_raised_if_configured(client: AnyClient, app: AppServer) -> None:
    items = Counted(itertools.chain([app.url + "/", "nope"], urls(app, 1000, "/delay/0.01")))
    got = []
    with pytest.raises(curlhttp.MissingSchema):
        async for result in client.map(items, concurrency=2, ordered=True, return_exceptions=False):
            got.append(result.status_code)
    assert got == [200]
    assert items.taken <= 5
    await assert_free(client)


async def test_an_exception_of_a_middleware_is_raised_and_ends_the_map(
    make_client: MakeClient, app: AppServer
) -> None:
    async def broken(request: Any, send: Any) -> Any:
        if request.url.path == "/bytes/1":
            raise ZeroDivisionError
        return await send(request)

    client = make_client(middleware=[broken])
    items = Counted(itertools.chain([app.url + "/bytes/1"], urls(app, 1000, "/delay/0.01")))
    with pytest.raises(ZeroDivisionError):
        async for _ in client.map(items, concurrency=3):
            pass
    assert items.taken <= 7
    await assert_free(client)


async def test_an_error_of_a_middleware_gets_its_request(
    make_client: MakeClient, app: AppServer
) -> None:
    async def refuses(request: Any, send: Any) -> Any:
        raise RequestException("no")

    client = make_client(middleware=[refuses])
    request = client.real.build_request("GET", app.url)
    (error,) = [result async for result in client.map([request])]
    assert error.request is request


# --- the input ---


async def test_an_invalid_iterable_is_refused_at_once(client: AnyClient) -> None:
    for wrong in ("http://h.test/", b"http://h.test/", curlhttp.URL("http://h.test/"), 5, None):
        with pytest.raises(TypeError):
            client.map(wrong)
    for concurrency in (0, -1, 1.5, "8"):
        with pytest.raises((TypeError, ValueError), match="concurrency must be a whole number"):
            client.map([], concurrency=concurrency)
    with pytest.raises(TypeError, match="colour"):
        client.map([], colour="red")
    with pytest.raises(curlhttp.InvalidHeader):
        client.map([], headers={"X": "a\nb"})


@pytest.mark.parametrize("name", ["stream", "data", "json", "content", "files"])
async def test_options_for_a_single_request_are_refused(client: AnyClient, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        client.map([], **{name: b"x"})


async def test_a_request_to_stream_is_refused(client: AnyClient, app: AppServer) -> None:
    streamed = client.real.build_request("GET", app.url, stream=True)
    got = []
    with pytest.raises(ValueError, match="map cannot stream responses"):
        async for result in client.map([app.url, streamed]):
            got.append(result.status_code)
    assert got == [200]


async def test_nothing_is_taken_before_the_first_result_is_requested(
    client: AnyClient, app: AppServer
) -> None:
    items = Counted(urls(app, 10))
    results = client.map(items)
    await anyio.sleep(0)
    assert items.taken == 0
    await results.aclose()
    assert [result async for result in results] == []


async def test_an_exception_of_the_iterable_follows_the_earlier_results(
    client: AnyClient, app: AppServer
) -> None:
    def items(good: int) -> Iterator[str]:
        yield from urls(app, good, "/delay/0.01")
        raise OSError("the disk is gone")

    for good in (0, 1, 20):
        for ordered in (False, True):
            got = []
            with pytest.raises(OSError, match="the disk is gone"):
                async for result in client.map(items(good), concurrency=4, ordered=ordered):
                    got.append(number_of(result))
            assert sorted(got) == list(range(good))
    await assert_free(client)


async def test_an_item_that_is_no_request_ends_the_map_like_an_unreadable_one(
    client: AnyClient, app: AppServer
) -> None:
    got = []
    with pytest.raises(TypeError, match="map takes URLs and requests, not NoneType"):
        async for result in client.map([app.url, None, app.url]):
            got.append(result.status_code)
    assert got == [200]


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_async_iterables_are_awaited_by_one_task_and_closed_by_it(
    client: AnyClient, app: AppServer
) -> None:
    tasks: set[int] = set()

    async def items() -> AsyncIterator[str]:
        try:
            for url in urls(app, 30):
                tasks.add(anyio.get_current_task().id)
                with anyio.CancelScope():
                    await anyio.sleep(0.0001)
                    yield url
        finally:
            assert tasks == {anyio.get_current_task().id}
            ended.append(True)

    ended: list[bool] = []
    got = [number_of(result) async for result in client.map(items(), concurrency=4, ordered=True)]
    assert got == list(range(30))
    assert len(tasks) == 1
    tasks.clear()
    held = items()  # else it would end when it is dropped
    async with client.map(held, concurrency=4) as results:
        await results.__anext__()
        while len(app.requests) < 30 + 1 + 8:  # until it stands still at a yield
            await anyio.sleep(0.001)
    assert ended == [True, True]


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_an_exception_of_an_async_iterable_follows_the_earlier_results(
    client: AnyClient, app: AppServer
) -> None:
    async def items(good: int) -> AsyncIterator[str]:
        for url in urls(app, good, "/delay/0.01"):
            yield url
        raise OSError("the disk is gone")

    for good in (0, 1, 20):
        got = []
        with pytest.raises(OSError, match="the disk is gone"):
            async for result in client.map(items(good), concurrency=4):
                got.append(number_of(result))
        assert sorted(got) == list(range(good))
    await assert_free(client)


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_a_slow_async_iterable_does_not_hold_back_results(
    client: AnyClient, app: AppServer
) -> None:
    taken = anyio.Event()

    async def items() -> AsyncIterator[str]:
        yield app.url + "/"
        await taken.wait()
        yield app.url + "/bytes/1"

    with anyio.fail_after(30):
        async for _ in client.map(items()):
            taken.set()
    assert len(app.requests) == 2


@pytest.mark.parametrize("colour", ["blocking"])
async def test_an_async_iterable_needs_the_async_client(client: AnyClient) -> None:
    async def items() -> AsyncIterator[str]:
        yield ""  # pragma: no cover

    with pytest.raises(TypeError, match="needs AsyncClient"):
        client.map(items())


# --- how much at once ---


@pytest.mark.parametrize("ordered", [False, True])
async def test_no_more_requests_run_than_the_concurrency(
    client: AnyClient, app: AppServer, ordered: bool
) -> None:
    async for _ in client.map(urls(app, 60, "/delay/0.005"), concurrency=5, ordered=ordered):
        pass
    assert app.connections <= 5
    assert app.max_open <= 5


async def test_more_than_the_connections_wait_for_them(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=3)
    got = [result async for result in client.map(urls(app, 100), concurrency=50)]
    assert {result.status_code for result in got} == {200}
    assert app.connections <= 3
    await assert_free(client)


@pytest.mark.parametrize("ordered", [False, True])
async def test_items_are_taken_only_as_far_as_there_is_room_for_results(
    client: AnyClient, app: AppServer, ordered: bool
) -> None:
    items = Counted(urls(app, 10_000))
    results = client.map(items, concurrency=4, ordered=ordered)
    wanted = 0
    async for _ in results:
        wanted += 1
        assert items.taken <= wanted + 8
        if wanted == 10:
            break
    await anyio.sleep(0.05)
    assert items.taken <= 10 + 8
    assert len(app.requests) <= 10 + 8
    await results.aclose()
    await assert_free(client)


async def test_ordered_results_do_not_run_away_from_a_slow_first_one(
    client: AnyClient, app: AppServer
) -> None:
    items = Counted(itertools.chain([app.url + "/delay/0.3"], urls(app, 1000)))
    results = client.map(items, concurrency=4, ordered=True)
    first = await results.__anext__()
    assert "delay" in str(first.url)
    assert items.taken <= 8 + 1
    await results.aclose()


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_requests_continue_while_the_consumer_is_busy(
    client: AnyClient, app: AppServer
) -> None:
    async with client.map(urls(app, 100), concurrency=4) as results:
        await results.__anext__()
        with anyio.fail_after(30):
            while len(app.requests) < 1 + 8:
                await anyio.sleep(0.001)


@ONE_OF_EACH
async def test_memory_does_not_grow_with_the_number_of_items(
    client: AnyClient, app: AppServer
) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0

    class Seen(curlhttp.requests.Request):
        pass

    def items() -> Iterator[Any]:
        for url in urls(app, 600):
            request = Seen("GET", url)
            alive.add(request)
            yield request

    async for result in client.map(items(), concurrency=8):
        del result
        most = max(most, len(alive), len(_live_responses()) if len(alive) % 50 == 0 else 0)
    assert most <= 2 * 8 + 2


def _live_responses() -> list[Any]:
    return [thing for thing in gc.get_objects() if type(thing) is curlhttp.Response]


# --- the consumer ---


async def test_a_slow_consumer_loses_nothing(client: AnyClient, app: AppServer) -> None:
    got = []
    async for result in client.map(urls(app, 40), concurrency=4):
        await anyio.sleep(0.002)
        got.append(number_of(result))
    assert sorted(got) == list(range(40))


async def test_leaving_the_loop_cancels_the_rest(client: AnyClient, app: AppServer) -> None:
    before = count_descriptors()
    async for _ in client.map(
        itertools.chain([app.url], itertools.repeat(app.url + "/stall")), concurrency=5
    ):
        break
    await assert_free(client)
    assert app.wait_for(lambda: app.open_connections <= 1)
    assert len(app.requests) <= 1 + 2 * 5
    assert count_descriptors() <= before + 8  # those of an event loop's engine, and one connection


async def test_a_consumer_that_fails_cancels_the_rest(client: AnyClient, app: AppServer) -> None:
    items = itertools.chain([app.url], itertools.repeat(app.url + "/stall"))
    with pytest.raises(ZeroDivisionError):
        async with client.map(items, concurrency=5) as results:
            async for _ in results:
                raise ZeroDivisionError
    await assert_free(client)
    assert [result async for result in results] == []
    assert app.wait_for(lambda: app.open_connections <= 1)


async def test_closing_ends_the_generator_of_the_items(client: AnyClient, app: AppServer) -> None:
    ended = []

    def items() -> Iterator[str]:
        try:
            yield from itertools.repeat(app.url)
        finally:
            ended.append(True)

    held = items()  # else it would end when it is dropped
    async for _ in client.map(held):
        break
    await assert_free(client)
    assert ended == [True]
    file = io.StringIO(app.url)
    assert [result.status_code async for result in client.map(file)] == [200]
    assert not file.closed


async def test_two_consumers_at_once_are_refused(make_client: MakeClient, app: AppServer) -> None:
    results: Any = None

    def greedy(request: Any, send: Any) -> Any:
        with pytest.raises(RuntimeError, match="another caller is iterating"):
            next(results.real)
        return send(request)

    async def greedy_async(request: Any, send: Any) -> Any:
        with pytest.raises(RuntimeError, match="another caller is iterating"):
            await results.__anext__()
        return await send(request)

    client = make_client()
    client = make_client(middleware=[greedy if client.is_blocking else greedy_async])
    results = client.map([app.url])
    assert [result.status_code async for result in results] == [200]


async def test_a_map_within_a_map_and_a_get_within_that(client: AnyClient, app: AppServer) -> None:
    seen = []
    async for _ in client.map(urls(app, 5), concurrency=2):
        async for _ in client.map(urls(app, 3), concurrency=2):
            seen.append((await client.get(app.url)).status_code)
    assert seen == [200] * 15


async def test_the_next_map_uses_the_connections_of_the_one_before(
    client: AnyClient, app: AppServer
) -> None:
    for _ in range(5):
        async for _ in client.map(urls(app, 20), concurrency=4):
            pass
    assert app.connections <= 4


async def test_a_closed_client_sends_nothing(make_client: MakeClient, app: AppServer) -> None:
    client = make_client()
    await client.aclose()
    with pytest.raises(ClientClosed):
        async for _ in client.map([app.url]):
            pass
    assert not app.requests


async def test_closing_the_client_ends_an_endless_map(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()
    got = 0
    with pytest.raises(ClientClosed):
        async for result in client.map(itertools.repeat(app.url), concurrency=4):
            got += 1
            if got == 10:
                await client.aclose()
            del result
    assert got <= 10 + 8
    assert app.wait_for(lambda: not app.open_connections)


# --- cancelling: event loops alone ---

ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])


@ONLY_ASYNC
async def test_a_consumer_that_is_cancelled_cancels_the_rest(
    client: AnyClient, app: AppServer
) -> None:
    with anyio.move_on_after(0.05) as scope:
        async for _ in client.map(itertools.repeat(app.url + "/stall"), concurrency=5):
            pass
    assert scope.cancelled_caught
    await assert_free(client)
    assert app.wait_for(lambda: not app.open_connections)


@ONLY_ASYNC
async def test_aclose_waits_until_all_tasks_have_ended(
    make_client: MakeClient, app: AppServer
) -> None:
    left = []

    async def tidies_up(request: Any, send: Any) -> Any:
        try:
            return await send(request)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            left.append(request)

    client = make_client(middleware=[tidies_up])
    results = client.map([app.url, *[app.url + "/stall"] * 4], concurrency=5)
    await results.__anext__()
    await results.aclose()
    assert len(left) == 5
    assert_nothing_runs(client)


@ONLY_ASYNC
async def test_requests_see_the_context_variables_of_the_call(
    make_client: MakeClient, app: AppServer
) -> None:
    variable: ContextVar[str] = ContextVar("variable")
    seen = []

    async def looks(request: Any, send: Any) -> Any:
        seen.append(variable.get("unset"))
        return await send(request)

    client = make_client(middleware=[looks])
    variable.set("mine")
    results = client.map([app.url] * 3)
    variable.set("later")
    async for _ in results:
        pass
    assert seen == ["mine"] * 3


@ONLY_ASYNC
async def test_results_that_were_never_iterated_leave_no_task(
    client: AnyClient, app: AppServer
) -> None:
    results = client.map(urls(app, 10), concurrency=4)
    await results.__anext__()
    del results
    await assert_free(client)


@pytest.mark.parametrize("colour", ["asyncio"])
async def test_a_task_cancelled_from_outside_does_not_hang_the_consumer(
    client: AnyClient, app: AppServer
) -> None:
    import asyncio

    own = asyncio.all_tasks()

    async def cancel() -> None:
        while not app.requests:
            await anyio.sleep(0.001)
        for task in asyncio.all_tasks() - own - {asyncio.current_task()}:
            task.cancel()

    # Python 3.10 does not tell whether a task was cancelled or its code raised CancelledError.
    knows = sys.version_info >= (3, 11)
    expected = RuntimeError if knows else asyncio.CancelledError
    with anyio.fail_after(30):
        canceller = asyncio.create_task(cancel())
        with pytest.raises(expected, match="cancelled, but not by its consumer" if knows else None):
            async for _ in client.map([app.url + "/stall"]):
                pass
        await canceller
    await assert_free(client)
