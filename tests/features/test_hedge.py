"""Hedging in every colour: which attempt wins, and what becomes of the one that loses.

The servers count: what was sent, which connection was closed, which stream was reset.
"""

from __future__ import annotations

import gzip
import io
import itertools
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import (
    CircuitBreaker,
    ClientRequest,
    ConcurrencyLimit,
    Hedge,
    RateLimit,
    Response,
    RetryBudget,
    RetryPolicy,
)
from curlhttp import exceptions as e
from curlhttp.testing import Answer
from curlhttp.types import Send
from tests.servers import (
    HTTP2,
    AppConnection,
    AppServer,
    Certs,
    H2Server,
    Listener,
    RawConnection,
    RawServer,
    Record,
    response,
)
from tests.servers.websocket import echo, speaking
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.internals import (
    assert_nothing_runs,
    count_descriptors,
    finish_script,
    get_slots,
    handles_of,
    start_script,
    wait_until_idle,
)
from tests.support.pace import paced
from tests.support.scripted import URL, Scripted

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
SOON = 0.02  # seconds until a second attempt, on a quiet machine
LATE = 60.0  # longer than any test
_numbers = itertools.count()
_variable: ContextVar[str] = ContextVar("_variable", default="nobody's")


class Course:
    """A path of a server whose responses depend on the number of earlier requests."""

    def __init__(self, server: AppServer) -> None:
        self.server = server
        self.path = f"/course-{next(_numbers)}"
        self.url = server.url + self.path
        self.stalled: list[Record] = []
        self.lost: list[int] = []  # connections of HTTP/1.1 that the client closed meanwhile

    def answer(self, *responses: Callable[[Record, Any], None]) -> Course:
        """Give each request the next response, and all further ones the last."""
        counter = itertools.count()
        self.asked_before = len(self.requests)

        def route(record: Record, out: Any) -> None:
            responses[min(next(counter), len(responses) - 1)](record, out)

        self.server.route(self.path, route)
        if isinstance(self.server, H2Server):
            self.server.stream_route(self.path, route)
        return self

    def with_rival(self, response: Callable[[Record, Any], None]) -> Callable[[Record, Any], None]:
        """Return what gives a response as soon as there is another attempt."""

        def is_there() -> bool:
            return len(self.requests) >= self.asked_before + 2

        def in_time(record: Record, out: Any) -> None:
            if isinstance(out, AppConnection):
                assert self.server.wait_for(is_there)
                response(record, out)
            elif is_there():
                response(record, out)
            else:
                out.later(0.001, lambda: in_time(record, out))

        return in_time

    def stall(self, record: Record, out: Any) -> None:
        """Say nothing until the client leaves."""
        self.stalled.append(record)
        self.server.note()
        if isinstance(out, AppConnection):
            if out.wait_closed(LATE):
                self.lost.append(record.connection)
                self.server.note()
            out.closing = True

    def by_fate(self) -> tuple[Record, Record]:
        """Return the attempt that stalled and the other, whichever was read first."""
        assert self.server.wait_for(lambda: bool(self.stalled))
        (lost,) = self.stalled
        (winner,) = [record for record in self.requests if record is not lost]
        return lost, winner

    def answer_with(self, expected: bytes) -> None:
        """Respond b"second" at once and b"first" late; never, if the second is expected."""
        late = after(4 * SOON, says(b"first"))
        self.answer(self.stall if expected == b"second" else late, says(b"second"))

    @property
    def requests(self) -> list[Record]:
        return [record for record in self.server.requests if record.path == self.path]

    def was_cancelled(self, record: Record) -> bool:
        """Tell, after a while, whether the client gave this attempt up for good."""

        def is_seen() -> bool:
            if isinstance(self.server, H2Server):
                ends = {(reset.connection, reset.stream) for reset in self.server.resets}
                return (record.connection, record.stream) in ends
            return record.connection in self.lost

        return self.server.wait_for(is_seen)


@pytest.fixture(autouse=True)
def _soon_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOON", paced(0.02))


@pytest.fixture
def course(server: AppServer) -> Course:
    """Return a path on HTTP/1.1 and on HTTP/2, in turn."""
    return Course(server)


@pytest.fixture
def plain(app: AppServer) -> Course:
    """Return a path on HTTP/1.1."""
    return Course(app)


@pytest.fixture
def hedging(make_client: MakeClient) -> Callable[..., AnyClient]:
    """Return a function that makes clients that hedge, by default soon."""

    def make(hedge: Hedge | None = None, **settings: Any) -> AnyClient:
        return make_client(hedge=hedge or Hedge(SOON), http2=True, **settings)

    return make


class _Stuck(Listener[Any]):
    """A server one of whose connections gets no further than TCP for a while, and is closed."""

    stuck = 1  # counted from 1
    seconds = LATE

    def wrap(self, sock: socket.socket, context: Any) -> Any:
        if self.connections == self.stuck:
            self.stopping.wait(self.seconds)
            raise OSError("this one never gets through")
        return super().wrap(sock, context)


class _StuckServer(_Stuck, RawServer):
    pass


class _StuckH2Server(_Stuck, H2Server):
    pass


def says(text: bytes, status: int = 200) -> Callable[[Record, Any], None]:
    def respond(record: Record, out: Any) -> None:
        out.reply(status, text)

    return respond


def after(seconds: float, response: Callable[[Record, Any], None]) -> Callable[[Record, Any], None]:
    def later(record: Record, out: Any) -> None:
        if isinstance(out, AppConnection):
            if out.wait_closed(seconds):
                out.closing = True
            else:
                response(record, out)
        else:
            out.later(seconds, lambda: response(record, out))

    return later


def breaks(record: Record, out: Any) -> None:
    """End an attempt without a response."""
    if isinstance(out, AppConnection):
        out.closing = True
    else:
        out.reset(2)


def assert_free(client: AnyClient) -> None:
    """Nothing runs, and no handle remembers a request."""
    assert_nothing_runs(client)
    if client.is_blocking:  # threads must not share connections
        shares = [id(transfer.shares) for transfer in handles_of(client)]
        assert len(shares) == len({*shares})


async def connect(client: AnyClient, course: Course) -> None:
    """Have the one connection of HTTP/2 before a race: both attempts may be early for it."""
    if isinstance(course.server, H2Server):
        await client.get(course.server.url + "/")


# --- who wins ---


async def test_the_second_attempt_wins_when_the_first_is_silent(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(course.stall, says(b"second"))
    client = hedging()
    await connect(client, course)
    connections = course.server.connections
    response = await client.get(course.url)
    assert response.content == b"second"
    first, second = course.by_fate()
    assert course.was_cancelled(first)
    if isinstance(course.server, H2Server):
        assert course.server.connections == connections  # kept: one stream was reset
        assert [reset.stream for reset in course.server.resets] == [first.stream]
    else:
        assert course.server.wait_for(lambda: course.server.open_connections == 1)
    assert_free(client)
    assert (await client.get(course.url)).content == b"second"
    assert course.requests[-1].connection == second.connection  # that of the winner continues


async def test_the_first_attempt_wins_when_it_responds_first(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(course.with_rival(says(b"first")), course.stall)
    client = hedging()
    await connect(client, course)
    assert (await client.get(course.url)).content == b"first"
    second, first = course.by_fate()
    assert course.was_cancelled(second)
    assert_free(client)
    course.answer(says(b"third"))
    assert (await client.get(course.url)).content == b"third"
    assert course.requests[-1].connection == first.connection


async def test_nothing_is_sent_twice_when_the_first_responds_in_time(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(says(b"hello"))
    client = hedging(Hedge(LATE))
    for _ in range(20):
        assert (await client.get(course.url)).content == b"hello"
    responses = await client.gather(10, "GET", course.url)
    assert [response.content for response in responses] == [b"hello"] * 10
    assert len(course.requests) == 30
    assert_free(client)


async def test_a_slow_body_is_no_reason_to_send_again(hedging: MakeClient, course: Course) -> None:
    limit = paced(0.3)

    def slow_body(record: Record, out: Any) -> None:
        if isinstance(out, AppConnection):
            out.begin(200, [("Content-Length", "2")])
            out.send(b"o")
            out.wait_closed(1.5 * limit)
            out.send(b"k")
        else:
            out.head(200, [("content-length", "2")])
            out.send(b"o")
            out.later(1.5 * limit, lambda: (out.send(b"k"), out.session.h2.end_stream(out.id)))

    course.answer(slow_body, says(b"second"))
    assert (await hedging(Hedge(limit)).get(course.url)).content == b"ok"
    assert len(course.requests) == 1


async def test_an_early_hint_is_no_response(hedging: MakeClient, plain: Course) -> None:
    def hint(record: Record, out: Any) -> None:
        out.reply(103, b"", [("Link", "</style.css>; rel=preload")])
        plain.stall(record, out)

    plain.answer(hint, says(b"second"))
    client = hedging()
    assert (await client.get(plain.url)).content == b"second"
    plain.answer(hint, says(b"second"))
    async with await client.stream("GET", plain.url) as streamed:
        assert await streamed.read() == b"second"
    assert_free(client)


async def test_attempts_may_be_sent_at_once(hedging: MakeClient, course: Course) -> None:
    course.answer(course.stall, says(b"second"))
    client = hedging(Hedge(0))
    assert (await client.get(course.url)).content == b"second"
    assert len(course.requests) == 2
    assert_free(client)


async def test_max_bounds_the_attempts_after_the_first(hedging: MakeClient, course: Course) -> None:
    course.answer(course.stall, course.stall, after(2 * SOON, says(b"third")), says(b"fourth"))
    client = hedging(Hedge(SOON, max=2))
    assert (await client.get(course.url)).content == b"third"
    assert len(course.requests) == 3
    assert len(course.stalled) == 2
    assert all(map(course.was_cancelled, course.stalled))
    assert_free(client)


# --- failures ---


async def test_a_failure_does_not_end_the_race_while_another_attempt_runs(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(course.with_rival(breaks), after(3 * SOON, says(b"second")))
    client = hedging()
    assert (await client.get(course.url)).content == b"second"
    course.answer(course.with_rival(after(2 * SOON, says(b"first"))), breaks)
    assert (await client.get(course.url)).content == b"first"
    assert len(course.requests) == 4
    assert_free(client)


async def test_an_error_status_does_not_end_the_race_while_another_attempt_runs(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(course.with_rival(says(b"", 503)), after(3 * SOON, says(b"second")))
    client = hedging()
    assert (await client.get(course.url)).content == b"second"
    course.answer(course.with_rival(after(2 * SOON, says(b"first"))), says(b"", 502))
    async with await client.stream("GET", course.url) as streamed:
        assert await streamed.read() == b"first"
    assert_free(client)


async def test_a_failed_attempt_with_an_open_body_leaves_its_driver_to_the_winner(
    hedging: MakeClient, course: Course
) -> None:
    def busy(record: Record, out: Any) -> None:
        if isinstance(out, AppConnection):
            out.begin(503, [("Content-Length", "60")])
            out.send(b"busy")
            out.wait_closed(LATE)
        else:
            out.head(503, [("content-length", "60")])
            out.send(b"busy")

    client = hedging()
    await connect(client, course)
    for _ in range(3):
        course.answer(course.with_rival(busy), after(3 * SOON, says(b"second")))
        async with await client.stream("GET", course.url) as streamed:
            assert await streamed.read() == b"second"
        assert_free(client)


async def test_the_last_failure_surfaces(hedging: MakeClient, course: Course) -> None:
    course.answer(course.with_rival(breaks), after(3 * SOON, says(b"last", 503)))
    client = hedging()
    response = await client.get(course.url)
    assert (response.status_code, response.content) == (503, b"last")
    course.answer(course.with_rival(says(b"", 503)), after(3 * SOON, breaks))
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(course.url)
    assert caught.value.request_sent
    assert len(course.requests) == 4
    assert_free(client)


async def test_a_failure_before_the_second_attempt_surfaces_at_once(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(breaks, says(b"second"))
    client = hedging(Hedge(LATE))
    if isinstance(course.server, H2Server):
        with pytest.raises(e.RemoteProtocolError):
            await client.get(course.url)
    else:
        with pytest.raises(e.ConnectionError):
            await client.get(course.url)
    assert len(course.requests) == 1
    course.answer(says(b"busy", 503))
    assert (await client.get(course.url)).status_code == 503
    assert len(course.requests) == 2
    assert_free(client)


async def test_a_refused_second_attempt_does_not_affect_the_first(
    hedging: MakeClient,
) -> None:
    def respond(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.server.stop_accepting()
            conn.wait_closed(4 * SOON)
            conn.send(response(b"first"))

    with RawServer(respond) as server:
        client = hedging()
        assert (await client.get(server.url)).content == b"first"
        assert_free(client)


async def test_an_error_says_that_the_other_attempt_was_sent(
    hedging: MakeClient, certs: Certs
) -> None:
    def respond(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.server.wait_for(lambda: conn.server.connections == 2)

    with _StuckServer(respond, certs.server_context()) as server:
        server.stuck, server.seconds = 2, 3 * SOON
        client = hedging()
        with pytest.raises(e.ConnectionError) as caught:
            await client.get(server.url)
        assert len(server.requests) == 1
        assert server.connections == 2
        assert caught.value.timings is not None
        assert caught.value.timings.tls == 0  # those of the second
        assert caught.value.request_sent
        assert_free(client)


# --- what is never sent twice ---


async def test_a_post_never_is(hedging: MakeClient, course: Course) -> None:
    course.answer(after(4 * SOON, says(b"first")), says(b"second"))
    client = hedging(Hedge(SOON, idempotency_key=True))
    for method in ("POST", "PATCH"):
        course.answer(after(4 * SOON, says(b"first")), says(b"second"))
        assert (await client.request(method, course.url, data=b"x")).content == b"first"
    assert [record.method for record in course.requests] == ["POST", "PATCH"]


async def test_an_idempotency_key_counts_only_if_the_policy_says_so(
    hedging: MakeClient, course: Course
) -> None:
    keyed = Hedge(SOON, idempotency_key=True)
    for policy, expected in ((Hedge(SOON), b"first"), (keyed, b"second")):
        course.answer_with(expected)
        headers = {"Idempotency-Key": "abc"}
        response = await hedging(policy).post(course.url, data=b"paid", headers=headers)
        assert response.content == expected
    assert [record.body for record in course.requests] == [b"paid"] * 3
    assert {record.header("idempotency-key") for record in course.requests} == {"abc"}


@pytest.mark.parametrize("kind", ["bytes", "list", "factory", "file", "form"])
async def test_both_attempts_send_the_whole_body(
    hedging: MakeClient, course: Course, kind: str
) -> None:
    body = b"abc" * 50_000
    kinds: dict[str, dict[str, Any]] = {
        "bytes": {"content": body},
        "list": {"content": [body[:7], body[7:]]},
        "factory": {"content": lambda: iter([body[:70_000], body[70_000:]])},
        "file": {"content": io.BytesIO(b"not this" + body)},
        "form": {"files": {"it": ("it.bin", body)}},
    }
    content = kinds[kind]
    if kind == "file":
        content["content"].seek(8)
    course.answer(course.stall, says(b"second"))
    # A file is read to its end before another attempt may read it.
    client = hedging(Hedge(6 * SOON if kind in ("file", "form") else SOON))
    assert (await client.request("PUT", course.url, **content)).content == b"second"
    first, second = course.requests
    if kind == "form":
        assert body in first.body
    else:
        assert first.body == body
    assert second.body == first.body
    assert_free(client)


async def test_a_body_that_can_be_read_once_is_sent_once(
    hedging: MakeClient, course: Course
) -> None:
    course.answer(after(4 * SOON, says(b"first")), says(b"second"))
    client = hedging()
    assert (await client.request("PUT", course.url, content=iter([b"a", b"b"]))).content == b"first"
    assert [record.body for record in course.requests] == [b"ab"]


async def test_a_factory_that_fails_the_second_time_does_not_affect_the_first_attempt(
    hedging: MakeClient, course: Course
) -> None:
    calls = itertools.count()

    def make() -> Iterator[bytes]:
        if next(calls):
            raise ValueError("there is but one")
        return iter([b"body"])

    course.answer(after(4 * SOON, says(b"first")), says(b"second"))
    assert (await hedging().request("PUT", course.url, content=make)).content == b"first"
    assert len(course.requests) == 1


# --- streams ---


async def test_a_stream_races_up_to_the_head(hedging: MakeClient, course: Course) -> None:
    def slow_body(record: Record, out: Any) -> None:
        if isinstance(out, AppConnection):
            out.begin(200, [("Content-Length", "6")])
            out.wait_closed(4 * SOON)
            out.send(b"second")
        else:
            out.head(200, [("content-length", "6")])
            out.later(4 * SOON, lambda: (out.send(b"second"), out.session.h2.end_stream(out.id)))

    course.answer(course.stall, slow_body)
    client = hedging()
    async with await client.stream("GET", course.url) as streamed:
        first, _ = course.by_fate()
        assert course.was_cancelled(first)  # before the body is there
        assert await streamed.read() == b"second"
    assert_free(client)
    course.answer(says(b"third"))
    assert (await client.get(course.url)).content == b"third"


async def test_a_stream_closed_after_a_race_leaves_nothing(
    hedging: MakeClient, course: Course
) -> None:
    def endless(record: Record, out: Any) -> None:
        if isinstance(out, AppConnection):
            out.begin(200, [("Content-Length", "60")])
            out.send(b"start")
            course.stall(record, out)
        else:
            out.head(200, [("content-length", "60")])
            out.send(b"start")

    course.answer(course.stall, endless)
    client = hedging()
    async with await client.stream("GET", course.url) as streamed:
        async for piece in streamed.iterate("bytes"):
            assert piece == b"start"
            break
    assert all(map(course.was_cancelled, course.requests))
    assert_free(client)
    course.answer(course.stall, endless)
    orphan = await client.stream("GET", course.url)
    del orphan
    await wait_until_idle(client)  # finalizers leave it to the loop
    assert all(map(course.was_cancelled, course.requests))
    assert_free(client)


# --- time limits and cancellation ---


async def test_the_deadline_ends_both_attempts(hedging: MakeClient, course: Course) -> None:
    course.answer(course.stall)
    limit = ConcurrencyLimit(2)
    client = hedging(concurrency_limit=limit)
    for stream in (False, True):
        with pytest.raises(e.DeadlineExceeded):
            await client.get(course.url, timeout=curlhttp.Timeout(total=10 * SOON), stream=stream)
    assert len(course.requests) == 4
    assert all(map(course.was_cancelled, course.requests))
    assert_free(client)
    assert limit.in_use(course.server.url) == 0


async def test_the_read_timeout_is_that_of_each_attempt(
    hedging: MakeClient, course: Course
) -> None:
    # The first is silent for too long while the second, which began later, is in time.
    limit = paced(0.4)
    course.answer(course.stall, after(limit / 2, says(b"second")))
    client = hedging(Hedge(limit * 2 / 3))
    response = await client.get(course.url, timeout=curlhttp.Timeout(read=limit))
    assert response.content == b"second"
    course.answer(course.stall)
    with pytest.raises(e.ReadTimeout):
        await client.get(course.url, timeout=curlhttp.Timeout(read=limit))
    assert len(course.stalled) == 3
    assert all(map(course.was_cancelled, course.stalled))
    assert_free(client)


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_ends_both_attempts(
    hedging: MakeClient, course: Course, stream: bool
) -> None:
    course.answer(course.stall)
    limit = ConcurrencyLimit(2)
    client = hedging(concurrency_limit=limit)
    ends: list[str] = []

    async def one() -> None:
        try:
            await client.get(course.url, stream=stream)
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            while len(course.stalled) < 2:
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    assert ends[0] in ("CancelledError", "Cancelled")
    assert_free(client)
    assert limit.in_use(course.server.url) == 0
    course.answer(says(b"next"))
    assert (await client.get(course.url)).content == b"next"
    assert all(map(course.was_cancelled, course.requests[:2]))


_RACE = """
import sys, curlhttp
client = curlhttp.Client(hedge=curlhttp.Hedge(0.02))
print("going", flush=True)
try:
    client.get(sys.argv[1], timeout=None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
engine = client._engine
assert engine._pool.slots.used == 0
assert not engine._pool.all
client.close()
print("usable")
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_race_of_the_blocking_client(app: AppServer) -> None:
    import signal

    process = start_script(_RACE, app.url + "/stall")
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    assert app.wait_for(lambda: len(app.requests) == 2)
    process.send_signal(signal.SIGINT)
    assert finish_script(process) == "interrupted\nusable\n"
    assert app.wait_for(lambda: not app.open_connections)


async def test_closing_the_client_ends_a_race(hedging: MakeClient, plain: Course) -> None:
    plain.answer(after(4 * SOON, says(b"first")), plain.stall)
    client = hedging()
    errors: list[str] = []

    async def one() -> None:
        if client.is_blocking:
            await anyio.to_thread.run_sync(client.real.get, plain.url)
        else:
            try:
                await client.get(plain.url)
            except e.ClientClosed as error:
                errors.append(type(error).__name__)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        while len(plain.requests) < 2:
            await anyio.sleep(0.001)
        handles = handles_of(client)
        await client.aclose()
    assert errors == ([] if client.is_blocking else ["ClientClosed"])  # threads run on
    assert not handles
    assert plain.server.wait_for(lambda: not plain.server.open_connections)


# --- the pool, the budget, the percentile ---


async def test_a_second_attempt_never_waits_for_the_pool(
    hedging: MakeClient, plain: Course
) -> None:
    plain.answer(after(4 * SOON, says(b"first")), says(b"second"))
    client = hedging(max_connections=1)
    assert (await client.get(plain.url)).content == b"first"
    assert len(plain.requests) == 1
    assert_free(client)


async def test_a_second_attempt_respects_the_bound_per_host(
    hedging: MakeClient, plain: Course
) -> None:
    plain.answer(after(4 * SOON, says(b"first")), says(b"second"))
    client = hedging(max_connections_per_host=1)
    assert (await client.get(plain.url)).content == b"first"
    assert len(plain.requests) == 1
    assert_free(client)


async def test_each_second_attempt_is_taken_from_the_budget(
    hedging: MakeClient, plain: Course
) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.2, window=10.0)  # two, and no more for this test
    client = hedging(Hedge(SOON, budget=budget))
    for expected in (b"second", b"second", b"first", b"first"):
        plain.answer_with(expected)
        assert (await client.get(plain.url)).content == expected
    assert len(plain.requests) == 6
    assert_free(client)


async def test_requests_deposit_what_further_attempts_withdraw(
    hedging: MakeClient, plain: Course
) -> None:
    client = hedging(Hedge(SOON, budget=RetryBudget(ratio=0.5, reserve=0.0)))
    for expected in (b"first", b"second"):
        plain.answer_with(expected)
        assert (await client.get(plain.url)).content == expected


async def test_the_budget_is_that_of_the_retries(hedging: MakeClient, plain: Course) -> None:
    budget = RetryBudget(ratio=0.5, reserve=0.0)
    client = hedging(retry=RetryPolicy(budget=budget))
    for expected in (b"first", b"second", b"first"):
        plain.answer_with(expected)
        assert (await client.get(plain.url)).content == expected
    assert len(plain.requests) == 4


async def test_attempts_that_were_not_needed_cost_nothing(
    hedging: MakeClient, plain: Course
) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1, window=10.0)
    client = hedging(Hedge(4 * SOON, budget=budget))
    plain.answer(says(b"first"))
    for _ in range(5):
        await client.get(plain.url)
    plain.answer(plain.stall, says(b"second"))
    assert (await client.get(plain.url)).content == b"second"


async def test_an_attempt_that_loses_by_failing_counts_at_the_breaker(
    hedging: MakeClient, plain: Course
) -> None:
    plain.answer(plain.with_rival(breaks), after(3 * SOON, says(b"second")))
    events: list[Any] = []
    breaker = CircuitBreaker(1, 30.0)
    client = hedging(breaker=breaker, hooks={"breaker_transition": events.append})
    assert (await client.get(plain.url)).content == b"second"
    assert breaker.state(plain.server.url) == "open"
    assert [(change.old, change.new) for change in events] == [("closed", "open")]
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(plain.url)


async def test_a_cancelled_attempt_is_not_counted(hedging: MakeClient, course: Course) -> None:
    course.answer(course.stall, says(b"second"))
    breaker = CircuitBreaker(recovery_timeout=30.0, failure_rate=0.5)
    client = hedging(breaker=breaker)
    assert (await client.get(course.url)).content == b"second"
    counted = breaker.metrics(course.server.url)
    assert (counted.calls, counted.failures) == (1, 0)


async def test_a_half_open_breaker_admits_no_second_attempt(
    hedging: MakeClient, plain: Course
) -> None:
    breaker = CircuitBreaker(failure_threshold=1, recovery_timeout=SOON)
    client = hedging(breaker=breaker)
    plain.answer(says(b"", 503))
    await client.get(plain.url)
    before = len(plain.requests)  # one, or two where the response was late
    await anyio.sleep(2 * SOON)
    plain.answer(after(3 * SOON, says(b"probe")), says(b"second"))
    assert (await client.get(plain.url)).content == b"probe"
    assert len(plain.requests) == before + 1
    assert breaker.state(plain.server.url) == "closed"


@pytest.mark.parametrize("room", [1, 2])
async def test_each_attempt_needs_its_own_permit_of_the_limits(
    hedging: MakeClient, plain: Course, room: int
) -> None:
    concurrency = ConcurrencyLimit(room)
    for limits in ({"concurrency_limit": concurrency}, {"rate_limit": RateLimit(0.01, burst=room)}):
        expected = b"second" if room == 2 else b"first"
        plain.answer_with(expected)
        assert (await hedging(**limits).get(plain.url)).content == expected
    assert len(plain.requests) == 2 * room
    assert concurrency.in_use(plain.server.url) == 0


async def test_p95_hedges_requests_slower_than_earlier_ones(
    hedging: MakeClient, plain: Course
) -> None:
    client = hedging(Hedge("p95"))
    plain.answer(after(4 * SOON, says(b"slow")), says(b"second"))
    assert (await client.get(plain.url)).content == b"slow"  # nothing is known yet
    plain.answer(says(b"fast"))
    for _ in range(40):
        assert (await client.get(plain.url)).content == b"fast"
    await anyio.sleep(SOON)  # until what lost a race has come in
    count = len(plain.requests)
    plain.answer(plain.stall, says(b"second"))
    assert (await client.get(plain.url)).content == b"second"
    assert len(plain.requests) == count + 2


async def test_an_attempt_that_lost_counts_with_the_time_it_had(
    hedging: MakeClient, plain: Course
) -> None:
    # Otherwise only fast latencies would be known, and more requests would be hedged each time.
    client = hedging(Hedge("p50", max=1))
    plain.answer(says(b"fast"))
    for _ in range(20):
        await client.get(plain.url)
    for _ in range(24):
        plain.answer(plain.stall, after(SOON, says(b"second")))
        assert (await client.get(plain.url)).content == b"second"
    # More than half of the known times are those of the losers now: 40 ms and more.
    plain.answer(after(SOON / 2, says(b"first")), says(b"second"))
    assert (await client.get(plain.url)).content == b"first"


# --- what admits an extra attempt, and what it leaves behind if something refuses it ---


def origin_of(url: str) -> str:
    return curlhttp.URL(url).origin


@ONE_OF_EACH
@pytest.mark.parametrize("who", ["rate", "limit", "breaker", "budget"])
async def test_a_refused_attempt_costs_nothing_elsewhere(scripted: Scripted, who: str) -> None:
    rate = RateLimit(0.01, burst=1 if who == "rate" else 2)
    limit = ConcurrencyLimit(1 if who == "limit" else 2)
    breaker = CircuitBreaker(1, 5.0)
    budget = RetryBudget(ratio=0.0, reserve=0.0 if who == "budget" else 0.1, window=10.0)
    client, engine = scripted(
        [Answer(content=b"first", delay=9.0)],
        hedge=Hedge(1.0, budget=budget),
        rate_limit=rate,
        concurrency_limit=limit,
        breaker=breaker,
    )
    if who == "breaker":  # half open, so the first attempt has the only permit
        breaker._admit(origin_of(URL), -9.0).fail(-9.0)
    assert (await client.get(URL)).content == b"first"
    assert len(engine.sent) == 1
    assert limit.in_use(origin_of(URL)) == 0
    assert breaker.state(origin_of(URL)) == "closed"
    assert rate._try_acquire(origin_of(URL), engine.now()) == (who != "rate")
    assert budget._withdraw(origin_of(URL), 0.0) == (who != "budget")
    stats = client.real.stats()
    assert (stats.hedges, stats.attempts) == (0, 1)
    assert not any(each.errors or each.refusals for each in stats.origins.values())


@ONE_OF_EACH
async def test_a_cancelled_attempt_gives_back_what_it_held(scripted: Scripted) -> None:
    limit, breaker = ConcurrencyLimit(2), CircuitBreaker(failure_rate=1.0)
    client, engine = scripted(
        [Answer(delay=9.0), Answer(content=b"second", delay=1.0)],
        hedge=Hedge(1.0),
        concurrency_limit=limit,
        breaker=breaker,
    )
    assert (await client.get(URL)).content == b"second"
    assert (engine.now(), engine.cancelled) == (2.0, 1)
    assert limit.in_use(origin_of(URL)) == 0
    counted = breaker.metrics(origin_of(URL))
    assert (counted.calls, counted.failures) == (1, 0)
    stats = client.real.stats()
    assert (stats.hedges, stats.attempts) == (1, 2)


@ONE_OF_EACH
async def test_an_attempt_that_waits_for_a_limit_is_not_slow(scripted: Scripted) -> None:
    """The time until the next attempt counts from when the first was admitted."""
    rate = RateLimit(0.1, burst=1)
    assert rate._try_acquire(origin_of(URL), 0.0)
    client, engine = scripted(
        [Answer(content=b"first", delay=0.5)], hedge=Hedge(1.0), rate_limit=rate
    )
    assert (await client.get(URL)).content == b"first"
    assert [sent.at for sent in engine.sent] == [10.0]


@ONE_OF_EACH
async def test_a_failure_of_the_first_surfaces_when_the_second_is_refused(
    scripted: Scripted,
) -> None:
    for stream in (False, True):
        client, engine = scripted(
            [Answer(503, content=b"busy", delay=2.0)],
            hedge=Hedge(1.0, budget=RetryBudget(ratio=0.0, reserve=0.0)),
        )
        response = await client.get(URL, stream=stream)
        assert response.status_code == 503
        assert len(engine.sent) == 1
        if stream:
            body = response.read() if client.is_blocking else await response.aread()
            assert body == b"busy"


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_attempts_see_the_context_variables_of_the_caller(
    hedging: MakeClient, plain: Course
) -> None:
    seen: list[str] = []

    async def look(request: ClientRequest, send: Send) -> Response:
        seen.append(_variable.get())
        return await send(request)

    plain.answer(plain.stall, says(b"second"))
    client = hedging(attempt_middleware=[look])
    token = _variable.set("mine")
    try:
        assert (await client.get(plain.url)).content == b"second"
    finally:
        _variable.reset(token)
    assert seen == ["mine", "mine"]


async def test_a_whole_response_looks_as_without_a_hedge(
    make_client: MakeClient, plain: Course
) -> None:
    def coded(record: Record, out: Any) -> None:
        body = gzip.compress(b"hello" * 1000)
        out.reply(200, body, [("Content-Encoding", "gzip")])

    plain.answer(coded)
    for hedge in (None, Hedge(30)):
        response = await make_client(hedge=hedge).get(plain.url)
        assert response.content == b"hello" * 1000
        assert type(response).__name__ == "Response"  # as engines make them
        assert response.timings.total >= response.timings.first_byte > 0
        assert not response.request.stream
        assert not response.request.extensions

    def cut(record: Record, out: Any) -> None:
        out.begin(200, [("Content-Length", "6")])
        out.send(b"abc")
        out.closing = True

    plain.answer(cut)
    for hedge in (None, Hedge(30)):
        with pytest.raises(e.ChunkedEncodingError) as caught:
            await make_client(hedge=hedge).get(plain.url)
        assert caught.value.request_sent
        assert isinstance(caught.value.response, Response)
        assert caught.value.response.content == b"abc"


async def test_a_handshake_is_not_hedged(make_client: MakeClient) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")

    def slow(conn: RawConnection) -> None:
        conn.wait_closed(4 * SOON)
        speaking(echo)(conn)

    with RawServer(slow) as server:
        client = make_client(hedge=Hedge(SOON))
        async with await client.websocket(server.url.replace("http", "ws", 1)) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
        assert server.connections == 1


# --- connections ---


async def test_a_second_attempt_does_not_wait_for_the_connection_that_the_first_waits_for(
    hedging: MakeClient, certs: Certs
) -> None:
    with _StuckH2Server(certs.server_context(alpn=HTTP2)) as server:
        client = hedging()
        response = await client.get(server.url + "/", timeout=curlhttp.Timeout(total=30))
        assert response.http_version == "HTTP/2"
        assert server.connections == 2
        assert len(server.requests) == 1
        assert_free(client)


async def test_races_leave_no_descriptors(hedging: MakeClient, course: Course) -> None:
    client = hedging(Hedge(0.001))
    one = course.answer(after(0.01, says(b"slow")))
    for _ in range(3):
        await client.get(one.url)
    before = count_descriptors()
    for _ in range(10):
        await client.get(one.url)
        with pytest.raises(e.DeadlineExceeded):
            await client.get(one.url, timeout=curlhttp.Timeout(total=0.005))
    assert_free(client)
    assert course.server.wait_for(lambda: course.server.open_connections <= 2)
    assert count_descriptors() <= before + 2  # of both sides of a connection more
    assert len(course.requests) > 20


@contextmanager
def no_new_threads(server: AppServer) -> Iterator[Callable[[], None]]:
    """Give a function that finds threads that are neither the server's nor there before."""
    before = {*threading.enumerate()}
    found: set[threading.Thread] = set()

    def look() -> None:
        found.update({*threading.enumerate()} - before - {*server.threads})

    yield look
    assert not found


@pytest.mark.parametrize("colour", ["blocking"])
async def test_the_blocking_client_races_in_the_calling_thread(
    hedging: MakeClient, course: Course
) -> None:
    with no_new_threads(course.server) as look:

        def second(record: Record, out: Any) -> None:
            look()
            out.reply(200, b"second")

        course.answer(course.stall, second)
        assert (await hedging().get(course.url)).content == b"second"


async def test_concurrent_requests_race_each_for_itself(
    hedging: MakeClient, course: Course
) -> None:
    lock = threading.Lock()
    firsts: dict[str, Record] = {}

    def first_stalls(record: Record, out: Any) -> None:
        with lock:
            is_first = firsts.setdefault(record.query_string, record) is record
        if is_first:
            course.stall(record, out)
        else:
            out.reply(200, record.query_string.encode())

    course.answer(first_stalls)
    client = hedging()
    bodies: set[bytes] = set()

    async def one(number: int) -> None:
        url = f"{course.url}?{number}"
        if client.is_blocking:
            bodies.add((await anyio.to_thread.run_sync(client.real.get, url)).content)
        else:
            bodies.add((await client.get(url)).content)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)
    assert bodies == {b"%d" % number for number in range(20)}
    assert len(course.requests) == 40
    assert all(map(course.was_cancelled, firsts.values()))
    assert_free(client)
    assert get_slots(client).used == 0
