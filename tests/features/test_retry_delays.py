"""Delays: backoff, Retry-After and the deadline, on the clock of a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from curlhttp import RetryPolicy, Timeout
from curlhttp import exceptions as e
from curlhttp.testing import (
    Answer,
    Fault,
    ScriptedEngine,
    reset,
    silent,
)
from tests.support.colours import AnyClient
from tests.support.pace import assert_cheap, assert_in_time
from tests.support.scripted import URL, Scripted, asks, notes_of, steady

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

# --- Retry-After ---


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_may_lengthen_the_wait(scripted: Scripted, status: int) -> None:
    client, engine = scripted([asks(30, status), 200], retry=steady())
    await client.get(URL)
    assert 30.0 <= engine.sleeps[0] <= 33.0


async def test_retry_after_may_be_a_date(scripted: Scripted) -> None:
    client, engine = scripted([asks("Sun, 15 Jun 2025 15:07:10 GMT"), 200], retry=steady())
    assert engine.wall() == 1_750_000_000.0  # 30 s before that
    await client.get(URL)
    assert 30.0 <= engine.sleeps[0] <= 33.0


async def test_a_shorter_wait_than_the_backoff_does_not_count(scripted: Scripted) -> None:
    client, engine = scripted([asks(0), 200], retry=steady())
    await client.get(URL)
    assert engine.sleeps == [1.0]


@pytest.mark.parametrize("value", ["soon", "-5", "1.5"])
async def test_an_invalid_retry_after_is_ignored(scripted: Scripted, value: str) -> None:
    client, engine = scripted([asks(value), 200], retry=steady())
    assert (await client.get(URL)).status_code == 200
    assert engine.sleeps == [1.0]


async def test_a_wait_above_the_limit_returns_the_response(scripted: Scripted) -> None:
    client, engine = scripted([asks(61), 200], retry=2)
    found = await client.get(URL)
    assert (found.status_code, len(found.attempts)) == (503, 1)
    assert engine.sleeps == []


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    "value", ["9" * 10, "9" * 11, "9" * 40, "9" * 5000, "Sat, 01 Jan 10000 00:00:00 GMT"]
)
async def test_a_wait_of_any_size_is_a_wait_above_the_limit(
    scripted: Scripted, value: str, status: int
) -> None:
    client, engine = scripted([asks(value, status), 200], retry=2)
    found = await client.get(URL)
    assert (found.status_code, len(found.attempts), engine.sleeps) == (status, 1, [])
    client, engine = scripted(
        [asks(value, status), 200], retry=RetryPolicy(2, retry_after_max=1e12)
    )
    assert (await client.get(URL)).status_code == 200
    assert 1e9 <= engine.sleeps[0] < 2e9


async def test_the_limit_of_waits_is_a_setting(scripted: Scripted) -> None:
    client, engine = scripted([asks(300), asks(301), 200], retry=steady(retry_after_max=300.0))
    assert (await client.get(URL)).status_code == 503
    assert len(engine.sent) == 2


@pytest.mark.parametrize("status", [408, 425, 502, 504, 500])
async def test_retry_after_counts_with_some_statuses_only(scripted: Scripted, status: int) -> None:
    policy = steady(statuses=[408, 425, 500, 502, 504])
    client, engine = scripted([asks(100, status), 200], retry=policy)
    await client.get(URL)
    assert engine.sleeps == [1.0]


async def test_retry_after_counts_with_413_if_that_is_tried_again(scripted: Scripted) -> None:
    client, engine = scripted([asks(20, 413), 200], retry=steady(statuses=[413]))
    await client.get(URL)
    assert 20.0 <= engine.sleeps[0] <= 22.0


async def test_retry_after_never_counts_with_a_redirect(scripted: Scripted) -> None:
    moved = Answer(302, headers={"Retry-After": "20", "Location": "/there"})
    client, engine = scripted([moved, 200], retry=steady())
    assert (await client.get(URL)).url == URL + "there"
    assert engine.sleeps == []


async def test_a_retry_after_beyond_the_deadline_is_not_waited_for(scripted: Scripted) -> None:
    client, engine = scripted([asks(30), 200], retry=steady())
    found = await client.get(URL, timeout=Timeout(total=20))
    assert found.status_code == 503
    assert (engine.sleeps, engine.now()) == ([], 0.0)


# --- the deadline ---


async def test_a_backoff_beyond_the_deadline_is_not_waited_for(scripted: Scripted) -> None:
    client, engine = scripted([reset(), reset(), 200], retry=steady())
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL, timeout=Timeout(total=2.5))
    assert engine.sleeps == [1.0]
    assert "not sent again: the wait would pass the deadline" in notes_of(caught.value)


async def test_all_attempts_together_keep_the_total(scripted: Scripted) -> None:
    slow = Fault(e.ConnectionError("slow", request_sent=True), delay=0.7)
    client, engine = scripted([slow] * 3 + [Answer(delay=9.0)], retry=steady(5))
    with pytest.raises(e.DeadlineExceeded) as caught:
        await client.get(URL, timeout=Timeout(total=10.0))
    assert engine.now() <= 10.05
    assert len(caught.value.attempts) == 4
    assert isinstance(caught.value.__cause__, e.ConnectionError)


async def test_the_remaining_total_bounds_each_attempt(scripted: Scripted) -> None:
    """The read timeout is 60 s, the total 4 s."""
    client, engine = scripted([503, silent()], retry=steady())
    with pytest.raises(e.DeadlineExceeded):
        await client.get(URL, timeout=Timeout(total=4.0, read=60.0))
    assert engine.now() == 4.0


class Oversleeping(ScriptedEngine):
    """An engine whose waits take a little longer, as real ones do."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.advance(0.01)


@pytest.mark.parametrize("failure", [reset(), 503])
async def test_no_attempt_begins_without_time_for_it(make_client: MakeClient, failure: Any) -> None:
    engine = Oversleeping([failure, 200])
    client = make_client(transport=engine, retry=steady())
    with pytest.raises(e.DeadlineExceeded) as caught:
        await client.get(URL, timeout=Timeout(total=1.005))
    assert len(engine.sent) == len(caught.value.attempts) == 1
    assert caught.value.request_sent
    if failure == 503:
        assert caught.value.response is not None
        assert caught.value.response.status_code == 503
    else:
        assert isinstance(caught.value.__cause__, e.ConnectionError)


async def test_no_redirect_begins_without_time_for_it_either(scripted: Scripted) -> None:
    slow = Answer(302, headers={"Location": "/next"}, delay=1.9995)
    client, engine = scripted([slow, 200])
    with pytest.raises(e.DeadlineExceeded):
        await client.get(URL, timeout=Timeout(total=2.0))
    assert len(engine.sent) == 1


# --- time ---


async def test_a_jump_of_the_wall_clock_changes_no_timer(make_client: MakeClient) -> None:
    class Jumping(ScriptedEngine):
        def wall(self) -> float:
            return super().wall() + 3600 * len(self.sent)

    engine = Jumping([asks(30), asks(30), Answer(delay=1.0)])
    client = make_client(transport=engine, retry=steady())
    assert (await client.get(URL, timeout=Timeout(total=70))).status_code == 200
    assert all(30.0 <= seconds <= 33.0 for seconds in engine.sleeps)


async def test_a_hundred_retries_take_no_time(scripted: Scripted) -> None:
    client, engine = scripted([503] * 100 + [200], retry=RetryPolicy(100, budget=None))
    begun, started = time.thread_time(), time.monotonic()
    assert len((await client.get(URL)).attempts) == 101
    assert_cheap(time.thread_time() - begun, 0.05)
    assert_in_time(time.monotonic() - started, 0, 1)  # what sleeps uses no CPU
    assert len(engine.sleeps) == 100


async def test_no_wait_is_negative_or_above_the_cap(scripted: Scripted) -> None:
    client, engine = scripted([503] * 200 + [200], retry=RetryPolicy(200, budget=None))
    await client.get(URL)
    assert all(0 <= seconds <= 10.0 for seconds in engine.sleeps)
