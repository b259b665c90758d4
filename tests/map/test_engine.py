"""The engine that steps coroutines without an event loop."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from curlhttp import Limits
from curlhttp._features.map.engine import SteppedEngine
from curlhttp._runtime import running_maps
from tests.support.internals import assert_engine_is_free


def test_requests_continue_in_the_order_in_which_they_were_woken() -> None:
    engine = SteppedEngine(Limits(), multiplexes=False)
    waiters: list[Any] = []
    gone_on: list[str] = []

    async def waits(name: str) -> None:
        waiters.append(waiter := engine.runtime.make_waiter())
        if name == "newcomer":  # starts when another one was woken, and may continue at once
            waiters[0].wake()
            waiter.wake()
        await waiter.wait(None)
        gone_on.append(name)

    async def sleeps(seconds: float) -> None:
        await engine.runtime.sleep(seconds)
        gone_on.append(f"{seconds} s")

    for name in ("first", "newcomer"):
        engine.start(waits, name, lambda result: None)
    for seconds in (2e-3, 1e-3):
        engine.start(sleeps, seconds, lambda result: None)
    time.sleep(0.01)  # both timers are late, and looked at together
    while len(gone_on) < 4:
        engine.run_once()
    engine.close()
    assert gone_on == ["first", "newcomer", "0.001 s", "0.002 s"]


def test_an_interrupted_map_says_so() -> None:
    engine = SteppedEngine(Limits(), multiplexes=False)
    waiters: list[Any] = []

    async def interrupted(_: None) -> None:
        waiters.append(waiter := engine.runtime.make_waiter())
        await waiter.wait()
        raise KeyboardInterrupt

    engine.take_turn()
    engine.start(interrupted, None, lambda result: None)
    engine.end_turn()
    waiters[0].wake()
    with pytest.raises(KeyboardInterrupt):
        running_maps.step_others()
    assert engine.is_interrupted
    assert engine.cancel()
    engine.close()


def test_a_finalizer_leaves_the_end_of_a_map_to_the_thread_that_steps_it() -> None:
    engine = SteppedEngine(Limits(), multiplexes=False)
    waiters: list[Any] = []
    ended: list[bool] = []

    async def dropped(_: None) -> None:
        waiters.append(waiter := engine.runtime.make_waiter())
        await waiter.wait()
        with ThreadPoolExecutor(1) as thread:
            ended.append(thread.submit(lambda: engine.cancel(waits=False)).result())
        await engine.runtime.make_waiter().wait()

    engine.take_turn()
    engine.start(dropped, None, lambda result: None)
    engine.end_turn()
    waiters[0].wake()
    running_maps.step_others()
    assert ended == [False]
    assert engine.is_closed
    assert_engine_is_free(engine)
