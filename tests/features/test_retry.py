"""Retries of both clients on a script and its clock; nothing here waits."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import curlhttp
from curlhttp import RetryBudget, RetryPolicy
from curlhttp import exceptions as e
from curlhttp.testing import (
    Answer,
    Fault,
    ScriptedEngine,
    refused,
    reset,
    silent,
    stream_refused,
    unreachable,
    unread,
    unresolved,
    untrusted,
)
from curlhttp.types import Attempt
from tests.support.colours import AnyClient
from tests.support.scripted import URL, Scripted, notes_of, steady

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

# --- how many ---


async def test_retries_are_off_by_default(scripted: Scripted) -> None:
    client, engine = scripted([503, refused()])
    found = await client.get(URL)
    assert (found.status_code, found.attempts) == (503, ())
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL)
    assert caught.value.attempts == ()
    assert len(engine.sent) == 2


def test_the_drop_in_does_not_retry() -> None:
    from tests.servers import RawServer, close_at_once

    with RawServer(close_at_once) as server, curlhttp.Session() as session:
        with pytest.raises(curlhttp.ConnectionError):
            session.get(server.url)
        assert server.connections == 1


async def test_retry_true_means_three_attempts(scripted: Scripted) -> None:
    client, engine = scripted([503] * 9, retry=True)
    assert (await client.get(URL)).status_code == 503
    assert len(engine.sent) == 3


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_a_number_sets_the_retries(scripted: Scripted, count: int) -> None:
    client, engine = scripted([503] * 9, retry=count)
    await client.get(URL)
    assert len(engine.sent) == 1 + count


async def test_a_request_may_have_its_own_policy(scripted: Scripted) -> None:
    client, engine = scripted([503] * 20)
    for retry, count in ((None, 1), (3, 4), (RetryPolicy(1), 2), (True, 3), (0, 1), (False, 1)):
        before = len(engine.sent)
        await client.get(URL, retry=retry)
        assert len(engine.sent) - before == count


async def test_a_request_may_do_without_the_clients_policy(scripted: Scripted) -> None:
    client, engine = scripted([503] * 20, retry=4)
    await client.get(URL, retry=None)
    assert len(engine.sent) == 1
    await client.get(URL, retry=1)
    assert len(engine.sent) == 3


async def test_numbers_of_requests_share_the_clients_budget(scripted: Scripted) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.3)
    client, engine = scripted([503] * 20, retry=steady(budget=budget))
    await client.get(URL, retry=2)
    await client.get(URL, retry=2)
    assert len(engine.sent) == 2 + 3  # three retries in ten seconds


async def test_a_request_made_without_a_client_gets_the_clients_policy(scripted: Scripted) -> None:
    client, engine = scripted([503, 200], retry=1)
    assert (await client.send(curlhttp.ClientRequest("GET", URL))).status_code == 200
    assert len(engine.sent) == 2


async def test_a_success_ends_it(scripted: Scripted) -> None:
    client, engine = scripted([refused(), reset(), Answer(content=b"ok"), 503], retry=9)
    assert (await client.get(URL)).content == b"ok"
    assert len(engine.sent) == 3


# --- which failures ---


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504])
async def test_some_statuses_are_worth_another_attempt(scripted: Scripted, status: int) -> None:
    client, engine = scripted([status, 200], retry=1)
    assert (await client.get(URL)).status_code == 200
    assert len(engine.sent) == 2


@pytest.mark.parametrize("status", [200, 204, 304, 400, 401, 404, 413, 500, 501, 505])
async def test_other_statuses_are_final(scripted: Scripted, status: int) -> None:
    client, _ = scripted([status, 200], retry=1)
    found = await client.get(URL)
    assert found.status_code == status
    assert [attempt.number for attempt in found.attempts] == [1]


async def test_which_statuses_is_a_setting(scripted: Scripted) -> None:
    client, engine = scripted([500, 503], retry=RetryPolicy(3, statuses=[500]))
    assert (await client.get(URL)).status_code == 503
    assert len(engine.sent) == 2


@pytest.mark.parametrize("fault", [refused, unresolved, unreachable, stream_refused])
async def test_a_post_that_was_not_processed_is_sent_again(
    scripted: Scripted, fault: Callable[[], Fault]
) -> None:
    client, engine = scripted([fault(), fault(), 201], retry=2)
    assert (await client.post(URL, data=b"pay")).status_code == 201
    assert len(engine.sent) == 3


@pytest.mark.parametrize(
    "step", [reset(), silent(), unread(), Answer(content=b"x", error=e.ReadTimeout())]
)
async def test_a_post_that_may_have_been_processed_is_not(scripted: Scripted, step: Any) -> None:
    client, engine = scripted([step, 200], retry=2, timeout=curlhttp.Timeout(write=5))
    with pytest.raises(e.RequestException) as caught:
        await client.post(URL, data=b"pay")
    assert caught.value.request_sent
    assert len(engine.sent) == len(caught.value.attempts) == 1


async def test_a_put_that_was_sent_in_part_is_sent_again(scripted: Scripted) -> None:
    timeout = curlhttp.Timeout(write=5)
    client, engine = scripted([unread(), 200], retry=2, timeout=timeout)
    response = await client.request("PUT", URL, data=b"whole")
    assert type(response.attempts[0].error) is e.WriteTimeout
    assert [sent.body for sent in engine.sent] == [b"whole"] * 2


async def test_a_post_that_got_a_response_is_not_sent_again(scripted: Scripted) -> None:
    client, engine = scripted([503, 200], retry=2)
    assert (await client.post(URL, data=b"pay")).status_code == 503
    assert len(engine.sent) == 1


@pytest.mark.parametrize("how", ["setting", "header"])
async def test_a_post_is_sent_again_if_the_caller_says_so(scripted: Scripted, how: str) -> None:
    policy = RetryPolicy(2, retry_non_idempotent=how == "setting")
    headers = {"Idempotency-Key": "1"} if how == "header" else {}
    client, engine = scripted([reset(), 503, 201], retry=policy)
    assert (await client.post(URL, data=b"pay", headers=headers)).status_code == 201
    assert [sent.body for sent in engine.sent] == [b"pay"] * 3


async def test_certificates_that_do_not_hold_are_not_tried_again(scripted: Scripted) -> None:
    client, engine = scripted([untrusted(), 200], retry=2)
    with pytest.raises(e.SSLError) as caught:
        await client.get(URL)
    assert len(engine.sent) == len(caught.value.attempts) == 1


async def test_an_invalid_request_makes_no_attempt(scripted: Scripted) -> None:
    client, engine = scripted([], retry=2)
    wrong: tuple[tuple[Any, ...], ...] = (
        ("GET", "http://a b/", {}),
        ("G T", URL, {}),
        ("GET", URL, {"X": "a\nb"}),
    )
    for method, url, headers in wrong:
        with pytest.raises((e.InvalidURL, e.InvalidMethod, e.InvalidHeader)) as caught:
            await client.request(method, url, headers=headers)
        assert caught.value.attempts == ()
    assert engine.sent == []


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt,
        SystemExit,
        GeneratorExit,
        asyncio.CancelledError,
        AssertionError,
        ValueError,
    ],
)
async def test_an_error_that_is_not_the_requests_ends_it_at_once(
    scripted: Scripted, error: type[BaseException]
) -> None:
    calls: list[Any] = []

    def script(request: Any) -> Any:
        calls.append(request)
        raise error

    client, engine = scripted(script, retry=5)
    with pytest.raises(error):
        await client.get(URL)
    assert len(calls) == 1
    assert engine.sleeps == []


# --- streams ---


async def test_a_streamed_response_is_tried_again_up_to_its_head(scripted: Scripted) -> None:
    client, _ = scripted([503, refused(), Answer(content=[b"a", b"b"])], retry=2)
    async with await client.stream("GET", URL) as stream:
        assert stream.real.status_code == 200
        assert len(stream.real.attempts) == 3
        assert await stream.read() == b"ab"


async def test_nothing_is_tried_again_once_the_caller_has_the_response(scripted: Scripted) -> None:
    broken = Answer(content=[b"a"], error=e.ChunkedEncodingError("cut"))
    client, engine = scripted([broken, 200], retry=5)
    async with await client.stream("GET", URL) as stream:
        with pytest.raises(e.ChunkedEncodingError):
            await stream.read()
    assert len(engine.sent) == 1


async def test_a_body_that_broke_in_memory_is_fetched_again(scripted: Scripted) -> None:
    broken = Answer(content=b"half", error=e.ChunkedEncodingError("cut"))
    client, _ = scripted([broken, Answer(content=b"whole")], retry=1)
    assert (await client.get(URL)).content == b"whole"


async def test_a_post_whose_response_broke_is_not_sent_again(scripted: Scripted) -> None:
    broken = Answer(content=b"half", error=e.ChunkedEncodingError("cut"))
    client, engine = scripted([broken, 200], retry=1)
    with pytest.raises(e.ChunkedEncodingError):
        await client.post(URL, data=b"pay")
    assert len(engine.sent) == 1


@pytest.mark.parametrize(("size", "aborted"), [(1000, 0), (64 * 1024 + 1, 1)])
async def test_a_discarded_stream_is_released_before_the_wait(
    make_client: MakeClient, size: int, aborted: int
) -> None:
    """Read to its end if that is near, to keep the connection; else the connection is closed."""
    left: list[tuple[int, int]] = []

    class Watched(ScriptedEngine):
        incoming: Any = None

        async def open(self, request: Any, plan: Any = None) -> Any:
            self.incoming = await super().open(request)
            return self.incoming

        async def sleep(self, seconds: float) -> None:
            left.append((len(self.incoming.pieces), self.aborted))

    pieces = [bytes(1024)] * (size // 1024) + [bytes(size % 1024)] * 3
    engine = Watched([Answer(503, content=pieces), 200])
    client = make_client(transport=engine, retry=1)
    async with await client.stream("GET", URL):
        pass
    assert left == [(0, aborted)]


async def test_a_discarded_stream_that_breaks_off_is_ignored(scripted: Scripted) -> None:
    broken = Answer(503, content=[b"a"], error=e.ChunkedEncodingError("cut"))
    client, _ = scripted([broken, 200], retry=1)
    async with await client.stream("GET", URL) as stream:
        assert stream.real.status_code == 200


# --- what the caller gets ---


async def test_after_the_last_attempt_the_response_is_returned(scripted: Scripted) -> None:
    client, _ = scripted([refused(), 502, Answer(503, content=b"sorry")], retry=2)
    found = await client.get(URL)
    assert (found.status_code, found.content) == (503, b"sorry")
    assert len(found.attempts) == 3


async def test_after_the_last_attempt_the_last_error_is_raised(scripted: Scripted) -> None:
    client, _ = scripted([502, reset(), refused()], retry=2)
    with pytest.raises(e.ConnectionError, match="refused") as caught:
        await client.get(URL)
    statuses = [attempt.status_code for attempt in caught.value.attempts]
    assert statuses == [502, None, None]
    assert caught.value.attempts[-1].error is caught.value
    assert notes_of(caught.value) == ["attempts before this one: 502, ConnectionError"]


async def test_attempts_have_the_outcome_and_time_of_each(scripted: Scripted) -> None:
    script = [
        Answer(503, delay=0.5),
        Fault(e.ConnectTimeout("slow"), delay=3.0),
        Answer(delay=0.25),
    ]
    client, engine = scripted(script, retry=steady())
    first, second, third = (await client.get(URL)).attempts
    assert first == Attempt(1, 503, None, 0.5, 1.0)
    assert second[:2] == (2, None)
    assert isinstance(second.error, e.ConnectTimeout)
    assert second[3:] == (3.0, 2.0)
    assert third == Attempt(3, 200, None, 0.25, None)
    assert [sent.at for sent in engine.sent] == [0.0, 1.5, 6.5]


async def test_an_error_does_not_hide_that_an_earlier_attempt_may_have_arrived(
    scripted: Scripted,
) -> None:
    client, _ = scripted([reset(), refused(), refused(), refused(), refused()], retry=1)
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL)
    assert caught.value.request_sent
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL)
    assert not caught.value.request_sent


async def test_a_refused_stream_does_not_count_as_arrived(scripted: Scripted) -> None:
    client, _ = scripted([stream_refused(), refused(), stream_refused(), stream_refused()], retry=1)
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(URL)
    assert (caught.value.request_sent, caught.value.refused) == (False, False)
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(URL)
    assert (caught.value.request_sent, caught.value.refused) == (True, True)


async def test_an_error_with_its_attempts_can_be_pickled(scripted: Scripted) -> None:
    client, _ = scripted([503, refused()], retry=1)
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL)
    thawed = pickle.loads(pickle.dumps(caught.value))
    assert [attempt.status_code for attempt in thawed.attempts] == [503, None]
    assert thawed.attempts[-1].error is thawed


async def test_an_error_and_its_attempts_make_no_circle(scripted: Scripted) -> None:
    """Else what its frames hold would stay until the garbage collector comes by."""
    client, _ = scripted([reset(), reset()] * 2, retry=1, hooks={"after_attempt": len})
    gc.collect()
    gc.disable()
    try:
        try:
            await client.get(URL)
        except e.ConnectionError as error:
            watch = weakref.ref(error.attempts[0].error)
            last = weakref.ref(error)
        died = watch() is None and last() is None
    finally:
        gc.enable()
    assert died
