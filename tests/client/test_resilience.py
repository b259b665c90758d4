"""Scenarios of retries, breakers, limits and hedges together."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from email.utils import formatdate
from typing import Any

import anyio
import pytest

from curlhttp import (
    AsyncClient,
    CircuitBreaker,
    Client,
    ConcurrencyLimit,
    Hedge,
    RateLimit,
    RetryBudget,
    RetryPolicy,
    Timeout,
)
from curlhttp import exceptions as e
from curlhttp.testing import Answer, Fault, refused, reset
from curlhttp.types import Transition
from tests.servers import AppServer, RawConnection, RawServer
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.pace import assert_in_time
from tests.support.scripted import URL, Scripted, steady

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])


# --- limits ---


def test_the_total_ends_the_wait_behind_an_event_loop_that_was_stopped(app: AppServer) -> None:
    limit = RateLimit(5.0)
    loop = asyncio.new_event_loop()
    stopped = AsyncClient(rate_limit=limit)

    async def begin() -> list[asyncio.Task[Any]]:
        tasks = [loop.create_task(stopped.get(app.url)) for _ in range(2)]
        await tasks[0]
        return tasks

    tasks = loop.run_until_complete(begin())  # the second is the first in line, and sleeps
    with Client(rate_limit=limit, timeout=Timeout(total=0.5)) as client:
        begun = time.monotonic()
        with pytest.raises(e.DeadlineExceeded, match=r"GET http://.* it was not sent"):
            client.get(app.url)
        assert time.monotonic() - begun > 0.45
        assert_in_time(time.monotonic() - begun, 0.5, 1.5)
    loop.run_until_complete(tasks[1])  # the cancelled one delayed no other
    loop.run_until_complete(stopped.aclose())
    loop.close()


@pytest.mark.parametrize("number", [0, 1.5, math.nan, math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda number: ConcurrencyLimit(number),
        lambda number: RateLimit(1.0, burst=number),
        lambda number: Hedge(max=number),
        lambda number: CircuitBreaker(number),
        lambda number: CircuitBreaker(failure_rate=0.5, window=number),
        lambda number: CircuitBreaker(half_open_permits=number),
    ],
)
def test_counts_must_be_integers(make: Callable[[Any], object], number: Any) -> None:
    with pytest.raises(ValueError, match=r"1"):
        make(number)


def test_a_rate_has_an_interval() -> None:
    with pytest.raises(ValueError, match="rate must be"):
        RateLimit(1e-320)


# --- retries ---


def test_names_and_numbers_in_a_string_are_no_collection() -> None:
    with pytest.raises(TypeError, match="methods must be"):
        RetryPolicy(methods="GET")
    with pytest.raises(TypeError, match="statuses must be"):
        RetryPolicy(statuses="503")  # type: ignore[arg-type]


async def test_a_policy_set_on_the_request_is_used(scripted: Scripted) -> None:
    client, engine = scripted([503, 200])
    request = client.real.build_request("GET", URL)
    request.retry = steady()
    assert (await client.send(request)).status_code == 200
    assert len(engine.sent) == 2


async def test_a_middleware_may_set_the_policy_of_a_request(scripted: Scripted) -> None:
    async def patient(request: Any, send: Any) -> Any:
        return await send(request.derive(retry=steady()))

    client, engine = scripted([503, 200], middleware=[patient])
    assert (await client.get(URL)).status_code == 200
    assert len(engine.sent) == 2


class Delays:
    """A strategy of the user's."""

    def __init__(self, *delays: float) -> None:
        self._delays = delays

    def delays(self, uniform: object) -> Iterator[float]:
        return iter(self._delays)


async def test_a_strategy_that_ends_ends_the_retries(scripted: Scripted) -> None:
    client, engine = scripted([503, reset()], RetryPolicy(5, backoff_strategy=Delays(1.0)))
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL)
    assert [attempt.delay for attempt in caught.value.attempts] == [1.0, None]
    assert engine.sleeps == [1.0]


@pytest.mark.parametrize("delay", [-1.0, math.nan, math.inf])
async def test_a_strategy_must_yield_seconds(scripted: Scripted, delay: float) -> None:
    client, engine = scripted([503, 200], RetryPolicy(5, backoff_strategy=Delays(delay)))
    with pytest.raises(ValueError, match="backoff_strategy returned"):
        await client.get(URL)
    assert engine.sleeps == []


async def test_discarding_a_response_takes_no_time_beyond_the_total(
    scripted: Scripted,
) -> None:
    slow = Answer(503, content=b"sorry", pace=10.0)
    client, engine = scripted([slow, 200], retry=steady(), timeout=Timeout(total=4.0))
    with pytest.raises(e.DeadlineExceeded, match="before attempt 2") as caught:
        await client.stream("GET", URL)
    assert (engine.now(), engine.sleeps, len(engine.sent)) == (4.0, [], 1)
    assert [attempt.status_code for attempt in caught.value.attempts] == [503]


@pytest.mark.parametrize("name", ["privateKey", "passphrase", "PHPSESSID", "client_assertion"])
@pytest.mark.parametrize("separator", "&;")
async def test_hooks_see_no_secret_of_any_common_name(
    scripted: Scripted, name: str, separator: str
) -> None:
    notified: list[Any] = []
    client, _ = scripted([200], hooks={"before_attempt": notified.append})
    await client.get(f"{URL}?page=1{separator}{name}=s3cret")
    assert notified[0].url == f"{URL}?page=1{separator}{name}=***"


def _date(moment: float) -> str:
    return formatdate(moment, usegmt=True)


def test_a_budget_has_a_fifth_and_ten_a_second_by_default() -> None:
    budget = RetryBudget()
    assert budget.balance(URL, 0.0) == 100.0
    budget._deposit(URL, 0.0)
    assert budget.balance(URL, 0.0) == pytest.approx(100.2)


# --- breakers ---


@pytest.mark.parametrize("end", ["broken", "read", "dropped"])
async def test_hooks_are_notified_of_transitions_at_the_end_of_a_body(
    scripted: Scripted, end: str
) -> None:
    notified: list[Transition] = []
    broken = Answer(content=b"abc", error=e.ChunkedEncodingError("cut", request_sent=True))
    client, _ = scripted(
        [broken if end == "broken" else Answer(503, content=b"abc"), 200],
        breaker=CircuitBreaker(1, 30.0, count_bodies=True),
        hooks={"breaker_transition": notified.append},
    )
    stream = await client.stream("GET", URL)
    if end == "broken":
        with pytest.raises(e.ChunkedEncodingError):
            await stream.read()
    elif end == "read":
        await stream.read()
    del stream
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(URL)
    assert notified == [Transition("http://h.test:80", "closed", "open")]


# --- hedges ---


@ONLY_ASYNC
async def test_the_body_of_a_losing_attempt_breaks_no_other_request(
    make_client: MakeClient,
) -> None:
    """Its handle carries another request by the time that the body would fail."""
    uploads, bodies = itertools.count(), itertools.count()
    post_came = anyio.Event()

    def respond(conn: RawConnection) -> None:
        head = conn.read_head()
        if head.startswith(b"POST"):
            conn.read_body(head)
            time.sleep(0.3)
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        elif next(uploads) == 0:
            conn.read_body(head)
            time.sleep(0.6)
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
        else:  # a bad response before the body is in, whose own body does not come
            conn.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n")
            conn.wait_closed(5)

    def content() -> AsyncIterator[bytes]:
        return pieces(fails=next(bodies) > 0)

    async def pieces(fails: bool) -> AsyncIterator[bytes]:
        yield b"a"
        if fails:
            await post_came.wait()
            raise ValueError("the caller's own")
        yield b"b"

    with RawServer(respond) as server:
        client = make_client(hedge=Hedge(0.05))

        async def put() -> None:
            async with await client.stream("PUT", server.url, content=content) as response:
                assert await response.read() == b"first"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put)
            await anyio.sleep(0.2)
            tasks.start_soon(_set_soon, post_came)
            assert (await client.post(server.url, content=b"x")).content == b"ok"


async def _set_soon(event: anyio.Event) -> None:
    await anyio.sleep(0.05)
    event.set()


async def test_a_call_with_its_own_policy_forgets_no_latencies(scripted: Scripted) -> None:
    responses = [*[Answer(delay=0.1)] * 21, Answer(delay=9.0), Answer(delay=0.1)]
    client, engine = scripted(responses, hedge=Hedge("p95"))
    for _ in range(20):
        await client.get(URL)
    await client.get(URL, retry=1)
    await client.get(URL)
    assert (len(engine.sent), engine.cancelled) == (23, 1)


# --- time ---


# --- scripts ---


async def test_failures_do_not_count_as_latencies(scripted: Scripted) -> None:
    """As with real engines: else p95 would be nothing after a while of refused connections."""
    client, engine = scripted([*[refused()] * 30, Answer(delay=1.0)], hedge=Hedge("p95"))
    for _ in range(30):
        with pytest.raises(e.ConnectionError):
            await client.get(URL)
    assert (await client.get(URL)).ok
    assert len(engine.sent) == 31


async def test_a_scripted_silence_before_a_fault_is_one(scripted: Scripted) -> None:
    late = Fault(e.ConnectionError("cut", curl_code=56, request_sent=True), delay=100.0)
    client, engine = scripted([late], timeout=5)
    with pytest.raises(e.ReadTimeout):
        await client.get(URL)
    assert engine.now() == 5.0


@pytest.mark.parametrize(
    "first",
    [
        Answer(content=b"slow", delay=1.5, pace=50.0),
        Answer(content=b"cut", delay=1.5, error=e.ChunkedEncodingError("cut", request_sent=True)),
    ],
)
async def test_a_scripted_race_ends_with_a_whole_body(scripted: Scripted, first: Answer) -> None:
    """As on the network, where the body that comes first wins unless it is streamed."""
    client, engine = scripted([first, Answer(content=b"fast", delay=1.0)], hedge=Hedge(1.0))
    assert (await client.get(URL)).content == b"fast"
    assert engine.now() == 2.0


async def test_a_scripted_body_that_is_slow_is_not_hedged(scripted: Scripted) -> None:
    slow = Answer(content=[b"s", b"low"], delay=0.5, pace=5.0)
    client, engine = scripted([slow], hedge=Hedge(1.0))
    assert (await client.get(URL)).content == b"slow"
    assert (engine.now(), len(engine.sent)) == (10.5, 1)
