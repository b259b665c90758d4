"""Middleware around each attempt: redirects, challenges, retries and hedges, with every API."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ClientRequest, Hedge, Response, RetryPolicy, Timeout
from curlhttp import exceptions as e
from curlhttp.testing import Answer, Fault, ScriptedEngine, refused
from curlhttp.types import Send
from tests.servers import AppServer, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.downloads import download
from tests.support.every_api import EVERY_CLIENT_API, make_fetch
from tests.support.scripted import URL, Scripted, moved, steady

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]


class Attempts:
    """A middleware that numbers the attempts, and notes the outcome of each."""

    def __init__(self) -> None:
        self.begun: list[ClientRequest] = []
        self.ends: list[tuple[int, int | str]] = []

    async def __call__(self, request: ClientRequest, send: Send) -> Response:
        self.begun.append(request)
        number = len(self.begun)
        assert "X-Attempt" not in request.headers  # what another attempt has got
        request.headers["X-Attempt"] = str(number)
        try:
            response = await send(request)
        except BaseException as error:
            self.ends.append((number, type(error).__name__))
            raise
        self.ends.append((number, response.status_code))
        return response


def numbers(engine: ScriptedEngine) -> list[str | None]:
    return [sent.headers.get("X-Attempt") for sent in engine.sent]


# --- what is an attempt ---


@ONE_OF_EACH
async def test_each_retry_is_an_attempt(scripted: Scripted) -> None:
    attempts, notified = Attempts(), []
    client, engine = scripted(
        [refused(), Answer(503), Answer(200)],
        retry=steady(),
        attempt_middleware=[attempts],
        hooks={"before_attempt": lambda event: notified.append(event.number)},
    )
    response = await client.get(URL)
    assert response.status_code == 200
    assert attempts.ends == [(1, "ConnectionError"), (2, 503), (3, 200)]
    assert numbers(engine) == ["1", "2", "3"]
    assert notified == [1, 2, 3]


async def test_redirects_and_authenticated_requests_are_attempts(
    make_client: MakeClient, app: AppServer
) -> None:
    attempts = Attempts()
    client = make_client(attempt_middleware=[attempts])
    app.route(
        "/hop", lambda record, out: out.reply(302, b"", [("Location", "/digest?user=u&password=p")])
    )
    response = await client.get(app.url + "/hop", auth=curlhttp.DigestAuth("u", "p"))
    assert response.status_code == 200
    assert attempts.ends == [(1, 302), (2, 401), (3, 200)]
    sent = [record.header("x-attempt") for record in app.requests]
    assert sent == [str(number) for number, _ in attempts.ends]


@ONE_OF_EACH
async def test_changes_for_one_attempt_are_not_seen_by_others(scripted: Scripted) -> None:
    above: list[ClientRequest] = []

    async def outer(request: ClientRequest, send: Send) -> Response:
        above.append(request)
        return await send(request)

    client, engine = scripted(
        [Answer(503), moved("http://other.test/"), Answer(200)],
        retry=steady(),
        middleware=[outer],
        attempt_middleware=[Attempts()],
    )
    response = await client.get(URL)
    assert numbers(engine) == ["1", "2", "3"]
    assert [request.headers.get("X-Attempt") for request in above] == [None, None]
    assert response.request.headers["X-Attempt"] == "3"  # what was sent
    assert "X-Attempt" not in client.real.headers


@ONE_OF_EACH
async def test_the_first_attempt_middleware_is_the_outermost(scripted: Scripted) -> None:
    log: list[str] = []

    def noted(name: str) -> Any:
        async def middleware(request: ClientRequest, send: Send) -> Response:
            log.append(f"{name} >")
            response = await send(request)
            log.append(f"{name} <")
            return response

        return middleware

    client, _ = scripted(
        [Answer(503), Answer(200)],
        retry=steady(),
        middleware=[noted("m")],
        attempt_middleware=[noted("a"), noted("b")],
    )
    await client.get(URL)
    assert log == ["m >", *(["a >", "b >", "b <", "a <"] * 2), "m <"]


@ONE_OF_EACH
async def test_an_attempt_middleware_may_return_or_raise_without_sending(
    scripted: Scripted,
) -> None:
    outcomes: list[Any] = [e.ConnectTimeout("made up"), 503, None]

    async def faults(request: ClientRequest, send: Send) -> Response:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return await send(request) if outcome is None else Response.of(request, outcome)

    client, engine = scripted([Answer(200)], retry=steady(), attempt_middleware=[faults])
    response = await client.get(URL)
    assert [(past.status_code, type(past.error).__name__) for past in response.attempts] == [
        (None, "ConnectTimeout"),
        (503, "NoneType"),
        (200, "NoneType"),
    ]
    assert len(engine.sent) == 1


@ONE_OF_EACH
async def test_a_refusal_of_the_breaker_is_no_attempt(scripted: Scripted) -> None:
    attempts = Attempts()
    client, _ = scripted(
        [refused()] * 9,
        breaker=curlhttp.CircuitBreaker(2, 30.0),
        attempt_middleware=[attempts],
    )
    for _ in range(2):
        with pytest.raises(e.ConnectionError):
            await client.get(URL)
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(URL)
    assert len(attempts.begun) == 2


@EVERY_CLIENT_API
async def test_every_api_goes_through_attempt_middleware(
    make_client: MakeClient, app: AppServer, api: str, tmp_path: Path, session: Any
) -> None:
    attempts = Attempts()
    client = make_client(attempt_middleware=[attempts], retry=2)
    await make_fetch(client, api, tmp_path, session)(app.url + "/redirect/1")
    assert attempts.ends == [(1, 302), (2, 200)]
    assert [record.header("x-attempt") for record in app.requests] == ["1", "2"]


async def test_each_part_of_a_resumed_download_is_an_attempt(
    make_client: MakeClient, app: AppServer, tmp_path: Path
) -> None:
    attempts = Attempts()
    asked: list[str | None] = []

    def cut(record: Any, out: Any) -> None:
        asked.append(record.header("range"))
        tag = ("ETag", '"1"')
        if len(asked) == 1:
            out.begin(200, [tag, ("Content-Length", "6")])
            out.send(b"abc")
            out.closing = True
        else:
            out.reply(206, b"def", [tag, ("Content-Range", "bytes 3-5/6")])

    app.route("/cut", cut)
    at_once = RetryPolicy(2, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001))
    client = make_client(attempt_middleware=[attempts], retry=at_once)
    await download(client, app.url + "/cut", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"abcdef"
    assert attempts.ends == [(1, 200), (2, 206)]
    assert asked == [None, "bytes=3-"]


async def test_each_connection_of_a_stream_of_events_is_an_attempt(
    make_client: MakeClient, app: AppServer
) -> None:
    attempts = Attempts()
    responses = [b"retry: 1\nid: 1\ndata: a\n\n", b"id: 2\ndata: b\n\n"]

    def events(record: Any, out: Any) -> None:
        if responses:
            out.reply(200, responses.pop(0), [("Content-Type", "text/event-stream")])
        else:
            out.reply(204, b"")

    app.route("/events", events)
    client = make_client(attempt_middleware=[attempts])
    async with client.sse(app.url + "/events") as stream:
        assert [event.data async for event in stream] == ["a", "b"]
    assert attempts.ends == [(1, 200), (2, 200), (3, 204)]


async def test_the_handshake_of_a_websocket_is_an_attempt(
    make_client: MakeClient,
) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    attempts = Attempts()
    client = make_client(attempt_middleware=[attempts], hedge=Hedge(30))
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws")) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
    assert attempts.ends == [(1, 101)]


# --- hedges ---


@ONE_OF_EACH
@pytest.mark.parametrize("stream", (False, True))
async def test_each_hedged_attempt_goes_through_attempt_middleware(
    scripted: Scripted, stream: bool
) -> None:
    attempts = Attempts()
    client, engine = scripted(
        [Answer(200, delay=9), Answer(201, delay=1)],
        hedge=Hedge(1),
        attempt_middleware=[attempts],
    )
    response = await client.request("GET", URL, stream=stream)
    assert response.status_code == 201
    assert response.request.headers["X-Attempt"] == "2"  # the one with the response
    assert numbers(engine) == ["1", "2"]
    assert attempts.ends == [(2, 201), (1, "GeneratorExit")]
    assert engine.cancelled == 1
    if stream:
        assert (response.close() if client.is_blocking else await response.aclose()) is None


@ONE_OF_EACH
@pytest.mark.parametrize("hedge", (None, Hedge(1)))
async def test_errors_before_anything_is_sent_are_seen_too(
    scripted: Scripted, hedge: Hedge | None
) -> None:
    attempts = Attempts()

    async def dawdles(request: ClientRequest, send: Send) -> Response:
        engine.advance(5)
        return await send(request)

    client, engine = scripted(
        [200],
        hedge=hedge,
        attempt_middleware=[attempts, dawdles],
        timeout=curlhttp.Timeout(total=3),
    )
    with pytest.raises(e.DeadlineExceeded):
        await client.get(URL)
    assert attempts.ends == [(1, "DeadlineExceeded")]
    assert not engine.sent


@ONE_OF_EACH
async def test_each_attempt_of_a_hedge_gets_its_own_outcome(scripted: Scripted) -> None:
    attempts = Attempts()
    client, _ = scripted(
        [Answer(200, delay=9), Answer(503, delay=1), Fault(e.ConnectionError("broken"), delay=1)],
        hedge=Hedge(1, max=2),
        attempt_middleware=[attempts],
    )
    assert (await client.get(URL)).status_code == 200
    assert attempts.ends == [(2, 503), (3, "ConnectionError"), (1, 200)]


@ONE_OF_EACH
async def test_a_middleware_may_replace_or_repeat_a_hedged_attempt(scripted: Scripted) -> None:
    """A middleware may send twice, around hedges too."""

    async def twice(request: ClientRequest, send: Send) -> Response:
        response = await send(request)
        if response.status_code == 401:
            request.headers["Authorization"] = "Bearer new"
            response = await send(request)
        return response

    client, engine = scripted(
        [Answer(401, delay=9), Answer(401, delay=1), Answer(200)],
        hedge=Hedge(1),
        attempt_middleware=[twice],
    )
    assert (await client.get(URL)).status_code == 200
    assert [sent.headers.get("Authorization") for sent in engine.sent] == [
        None,
        None,
        "Bearer new",
    ]


@ONE_OF_EACH
async def test_an_error_of_an_attempt_middleware_in_a_hedge_does_not_affect_the_first_attempt(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[ClientRequest] = []

    async def fails_later(request: ClientRequest, send: Send) -> Response:
        calls.append(request)
        if len(calls) > 1:
            raise KeyError("a bug")
        return await send(request)

    limit = curlhttp.ConcurrencyLimit(9)
    client, engine = scripted(
        [Answer(200, delay=9)],
        hedge=Hedge(1),
        attempt_middleware=[fails_later],
        concurrency_limit=limit,
    )
    with caplog.at_level(logging.ERROR, "curlhttp"):
        assert (await client.get(URL)).status_code == 200
    assert len(engine.sent) == 1
    assert len(calls) == 2
    assert limit.in_use(curlhttp.URL(URL).origin) == 0
    assert "a bug" in caplog.text


@ONE_OF_EACH
async def test_a_losing_attempt_that_swallows_its_cancellation_changes_nothing(
    scripted: Scripted,
) -> None:
    async def stubborn(request: ClientRequest, send: Send) -> Response:
        while True:
            try:
                return await send(request)
            except GeneratorExit:
                if (request.extensions or {}).setdefault("seen", 0) == 2:
                    return Response.of(request, 299)
                request.extensions = {"seen": (request.extensions or {}).get("seen", 0) + 1}

    client, engine = scripted(
        [Answer(200, delay=9), Answer(201, delay=1)],
        hedge=Hedge(1),
        attempt_middleware=[stubborn],
    )
    assert (await client.get(URL)).status_code == 201
    assert len(engine.sent) == 2


async def test_attempt_middleware_may_wait_around_a_hedge(
    make_client: MakeClient, app: AppServer
) -> None:
    begun: list[str] = []
    ends: list[str] = []

    def respond(record: Any, out: Any) -> None:
        if record.header("x-number") == "1":
            out.wait_closed(30)
            out.closing = True
        else:
            out.reply(200, b"second")

    app.route("/slow", respond)

    async def waits(request: ClientRequest, send: Send) -> Response:
        number = request.headers["X-Number"] = str(len(begun) + 1)
        begun.append(number)
        if client.is_blocking:
            return await send(request)
        try:
            with anyio.fail_after(30):
                await anyio.sleep(0)
                response = await send(request)
                await anyio.sleep(0)
            return response
        finally:
            ends.append(number)
            await anyio.sleep(0)

    client = make_client(hedge=Hedge(0), attempt_middleware=[waits])
    for _ in range(3):
        begun.clear()
        assert (await client.get(app.url + "/slow")).content == b"second"
    if not client.is_blocking:
        assert ends == ["2", "1"] * 3


async def test_a_middleware_that_awaits_a_loop_in_a_blocking_client_is_an_error() -> None:
    async def waits(request: ClientRequest, send: Send) -> Response:
        await anyio.sleep(0)
        return await send(request)

    for hedge in (None, Hedge(1)):
        engine = ScriptedEngine([Answer(200)])
        client = curlhttp.Client(transport=engine, hedge=hedge, attempt_middleware=[waits])
        with client, pytest.raises(RuntimeError, match="needs an event loop"):
            client.get(URL)
        assert not engine.sent


@pytest.mark.colours("asyncio", "uvloop")
async def test_a_middleware_may_send_in_another_task_around_hedges(
    make_client: MakeClient, app: AppServer
) -> None:
    async def elsewhere(request: ClientRequest, send: Send) -> Response:
        async def sending() -> Response:
            return await send(request)

        return await asyncio.ensure_future(sending())

    client = make_client(hedge=Hedge(9), attempt_middleware=[elsewhere])
    assert (await client.get(app.url)).content == b"hello"


async def test_a_cancelled_race_is_cancelled_for_each_middleware(
    make_client: MakeClient, app: AppServer
) -> None:
    attempts = Attempts()

    def silent(record: Any, out: Any) -> None:
        out.wait_closed(30)
        out.closing = True

    app.route("/silent", silent)
    client = make_client(hedge=Hedge(0), attempt_middleware=[attempts], timeout=None)
    if client.is_blocking:
        with pytest.raises(e.ReadTimeout):
            await client.get(app.url + "/silent", timeout=curlhttp.Timeout(read=0.1))
        assert len(attempts.ends) == 2
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, app.url + "/silent")
        await anyio.to_thread.run_sync(app.wait_for, lambda: len(app.requests) == 2)
        tasks.cancel_scope.cancel()
    cancelled = anyio.get_cancelled_exc_class().__name__
    assert sorted(attempts.ends) == [(1, cancelled), (2, cancelled)]
    app.route("/fine", lambda record, out: out.reply(200, b"fine"))
    assert (await client.get(app.url + "/fine")).content == b"fine"


@pytest.mark.colours("asyncio", "uvloop", "trio")
@pytest.mark.parametrize("impatient", (1, 2))
async def test_a_timeout_of_one_attempt_leaves_the_other_to_itself(
    make_client: MakeClient, app: AppServer, impatient: int
) -> None:
    is_over = threading.Event()

    def late(record: Any, out: Any) -> None:
        is_over.wait(30)
        out.reply(200, b"late")

    app.route("/late", late)
    begun: list[int] = []

    async def patient(request: ClientRequest, send: Send) -> Response:
        number = len(begun) + 1
        begun.append(number)
        try:
            with anyio.fail_after(0.3 if number == impatient else 30):
                return await send(request)
        except TimeoutError:
            is_over.set()
            raise

    client = make_client(hedge=Hedge(0), attempt_middleware=[patient])
    assert (await client.get(app.url + "/late")).content == b"late"
    assert begun == [1, 2]
    await anyio.sleep(0)  # this task is not cancelled


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_timeout_of_all_attempts_is_raised_as_it_is(
    make_client: MakeClient, app: AppServer
) -> None:
    def silent(record: Any, out: Any) -> None:
        out.wait_closed(30)
        out.closing = True

    async def impatient(request: ClientRequest, send: Send) -> Response:
        with anyio.fail_after(0.3):
            return await send(request)

    app.route("/silent", silent)
    client = make_client(hedge=Hedge(0), attempt_middleware=[impatient])
    with pytest.raises(TimeoutError):
        await client.get(app.url + "/silent")


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_an_attempt_whose_time_is_up_may_be_sent_again(
    make_client: MakeClient, app: AppServer
) -> None:
    def respond(record: Any, out: Any) -> None:
        if record.header("x-again"):
            out.reply(200, b"third")
        else:
            out.wait_closed(30)
            out.closing = True

    app.route("/slow", respond)

    async def again(request: ClientRequest, send: Send) -> Response:
        with anyio.move_on_after(0.2):
            return await send(request)
        request.headers["X-Again"] = "1"
        return await send(request)

    client = make_client(hedge=Hedge(0), attempt_middleware=[again])
    assert (await client.get(app.url + "/slow")).content == b"third"
    assert len(app.requests) in (3, 4)  # each of both may be sent again


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_middleware_that_waits_for_a_hedge_may_be_cancelled(
    make_client: MakeClient, app: AppServer
) -> None:
    waiting = anyio.Event()
    ended: list[int] = []

    def silent(record: Any, out: Any) -> None:
        out.wait_closed(30)
        out.closing = True

    async def waits(request: ClientRequest, send: Send) -> Response:
        number = len(ended) if waiting.is_set() else 0
        try:
            if app.requests:
                waiting.set()
                await anyio.sleep_forever()
            return await send(request)
        finally:
            ended.append(number)

    app.route("/silent", silent)
    limit = curlhttp.ConcurrencyLimit(5)
    client = make_client(hedge=Hedge(0.05), attempt_middleware=[waits], concurrency_limit=limit)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, app.url + "/silent")
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert len(ended) == 2
    assert limit.in_use(curlhttp.URL(app.url).origin) == 0


async def test_a_hedge_whose_middleware_waits_too_long_is_not_sent(
    make_client: MakeClient, app: AppServer
) -> None:
    answered: list[bool] = []

    def respond(record: Any, out: Any) -> None:
        app.wait_for(lambda: bool(answered))
        out.reply(200, b"first")

    async def waits(request: ClientRequest, send: Send) -> Response:
        if app.requests and not client.is_blocking:
            answered.append(True)
            # Until the first attempt has a response, which does not end this wait.
            await anyio.sleep(0.3)
        answered.append(True)
        return await send(request)

    app.route("/slow", respond)
    client = make_client(hedge=Hedge(0.1), attempt_middleware=[waits])
    assert (await client.get(app.url + "/slow")).content == b"first"
    assert len(app.requests) == 1 or client.is_blocking


async def test_a_stream_that_a_middleware_drops_frees_its_slot(
    make_client: MakeClient, app: AppServer
) -> None:
    async def twice(request: ClientRequest, send: Send) -> Response:
        await send(request)
        return await send(request)

    limits = curlhttp.Limits(max_connections=1)
    client = make_client(
        hedge=Hedge(after=60), attempt_middleware=[twice], limits=limits, timeout=Timeout(pool=10)
    )
    async with await client.stream("GET", app.url) as response:
        assert await response.read() == b"hello"
    assert len(app.requests) == 2


async def test_many_races_at_once_end_each_attempt(make_client: MakeClient, app: AppServer) -> None:
    attempts = Attempts()
    limit = curlhttp.ConcurrencyLimit(60)
    client = make_client(
        hedge=Hedge(0), attempt_middleware=[attempts], concurrency_limit=limit, http2=False
    )
    results = [result async for result in client.map([app.url] * 300, concurrency=30)]
    assert [result.content for result in results] == [b"hello"] * 300
    assert len(attempts.ends) == len(attempts.begun) > 300
    assert limit.in_use(curlhttp.URL(app.url).origin) == 0


@ONE_OF_EACH
async def test_races_leave_nothing_for_the_garbage_collector(scripted: Scripted) -> None:
    attempts = Attempts()
    script = [Fault(e.ReadTimeout("late"), delay=9), Answer(503, delay=1)] * 20
    client, _ = scripted(script, hedge=Hedge(1), attempt_middleware=[attempts])
    failing, _ = scripted(
        [Fault(e.ReadTimeout("late"), delay=9)] * 40, hedge=Hedge(1), attempt_middleware=[attempts]
    )

    async def fetch() -> None:
        for _ in range(10):
            try:
                await client.get(URL)
                await failing.get(URL)
            except e.RequestException:
                pass
        attempts.begun.clear()

    await fetch()
    gc.collect()
    gc.disable()
    try:
        await fetch()
        assert gc.collect() < 10
    finally:
        gc.enable()
