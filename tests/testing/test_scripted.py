"""The scripted engine, as users' tests use it: an engine without a network."""

from __future__ import annotations

import errno
import gzip
import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import curlhttp
import curlhttp.testing
from curlhttp import Timeout
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
from curlhttp.types import Engine
from tests.support.colours import COLOURS
from tests.support.scripted import URL, Scripted, moved

pytestmark = [pytest.mark.anyio, pytest.mark.colours(*COLOURS)]


def test_it_is_an_engine_to_the_type_checker_too() -> None:
    engine: Engine = ScriptedEngine([])
    assert engine.runtime.now() == 0.0


def test_the_example_of_the_docstring_works() -> None:
    text = curlhttp.testing.__doc__ or ""
    code = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    space: dict[str, Any] = {}
    exec(code, space)
    space["test_we_survive_a_restart"]()


async def test_steps_are_played_one_per_attempt(scripted: Scripted) -> None:
    script = [204, Answer(200, {"X-A": "b"}, "héllo"), e.ReadTimeout("slow")]
    client, engine = scripted(script)
    assert (await client.get(URL)).status_code == 204
    found = await client.get(URL + "two")
    assert (found.content, found.headers["x-a"], found.url) == ("héllo".encode(), "b", URL + "two")
    with pytest.raises(e.ReadTimeout, match="slow") as caught:
        await client.get(URL)
    assert caught.value.request is not None
    assert str(caught.value.request.url) == URL
    assert len(engine.sent) == 3


async def test_a_script_that_is_too_short_says_so(scripted: Scripted) -> None:
    client, _ = scripted([200])
    await client.get(URL)
    with pytest.raises(AssertionError, match=r"no step left for GET http://h\.test/, after 1 att"):
        await client.get(URL)


async def test_a_script_may_be_endless(scripted: Scripted) -> None:
    client, engine = scripted(itertools.repeat(503))
    for _ in range(50):
        await client.get(URL)
    assert len(engine.sent) == 50


async def test_a_script_may_be_a_function_of_the_request(scripted: Scripted) -> None:
    def respond(request: curlhttp.ClientRequest) -> Any:
        return moved("/new") if request.url.path == "/old" else Answer(content=request.url.path)

    client, _ = scripted(respond)
    found = await client.get(URL + "old")
    assert found.text == "/new"
    assert [past.status_code for past in found.history] == [302]


async def test_sent_requests_can_be_inspected(scripted: Scripted) -> None:
    client, engine = scripted([Answer(delay=2.0), 200], auth=("u", "p"))
    await client.post(URL + "a?b=c", json={"x": 1})
    await client.get(URL)
    first, second = engine.sent
    assert (first.at, first.method, first.url) == (0.0, "POST", URL + "a?b=c")
    assert first.body == b'{"x": 1}'
    assert first.headers["content-type"] == "application/json"
    assert first.headers["authorization"].startswith("Basic ")
    assert (second.at, second.body) == (2.0, b"")


async def test_bodies_are_read_as_an_engine_reads_them(scripted: Scripted) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    client, engine = scripted([200, 200])
    await client.post(URL, content=(piece for piece in (b"x", b"y")))
    if not client.is_blocking:
        await client.post(URL, content=pieces())
    assert [sent.body for sent in engine.sent] == [b"xy", b"ab"][: len(engine.sent)]


async def test_an_unsent_request_did_not_arrive(scripted: Scripted) -> None:
    steps = {
        refused: False,
        unresolved: False,
        unreachable: False,
        untrusted: False,
        reset: True,
        stream_refused: True,
        silent: True,
        unread: True,
    }
    client, engine = scripted([make() for make in steps])
    for make, arrived in steps.items():
        with pytest.raises(e.RequestException) as caught:
            await client.post(URL, data=b"pay")
        assert caught.value.request_sent is arrived, make.__name__
        assert engine.sent[-1].arrived is arrived
        assert engine.sent[-1].body == (b"pay" if arrived else b"")
        assert caught.value.refused is (make is stream_refused)
        assert caught.value.errno == (errno.ECONNREFUSED if make is refused else None)


async def test_an_error_of_the_script_can_be_raised_again_and_again(scripted: Scripted) -> None:
    error = e.ConnectionError("cut", request_sent=True, curl_code=56)
    client, _ = scripted([error] * 3, retry=1)
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL)
    assert caught.value is not error
    assert (caught.value.curl_code, str(caught.value)) == (56, "cut")
    assert error.attempts == ()
    assert error.request is None
    assert not getattr(error, "__notes__", None)


# --- the clock ---


async def test_the_clock_moves_with_the_script_and_the_waits(scripted: Scripted) -> None:
    client, engine = scripted(
        [Answer(503, delay=1.0), Fault(e.ConnectionError(), 2.0), 200], retry=2
    )
    await client.get(URL)
    assert engine.now() == pytest.approx(3.0 + sum(engine.sleeps))
    engine.advance(100)
    assert engine.now() > 100
    assert engine.wall() == pytest.approx(1_750_000_000 + engine.now())


def test_the_clock_may_start_anywhere() -> None:
    engine = ScriptedEngine([], now=500.0, wall=1000.0)
    assert (engine.now(), engine.wall()) == (500.0, 1000.0)
    engine.advance(1.5)
    assert (engine.now(), engine.wall()) == (501.5, 1001.5)


@pytest.mark.parametrize(
    ("timeout", "body", "kind", "seconds"),
    [
        (Timeout(write=7, read=5), b"pay", e.WriteTimeout, 7),
        (Timeout(write=7, read=None), b"pay", e.WriteTimeout, 7),
        (Timeout(write=7, read=5, total=6), b"pay", e.DeadlineExceeded, 6),
        (Timeout(read=5), b"pay", e.ReadTimeout, 5),
        (Timeout(write=7, read=5), None, e.ReadTimeout, 5),
    ],
)
async def test_a_server_that_stops_reading_runs_into_the_write_timeout(
    timeout: Any, body: bytes | None, kind: type[e.Timeout], seconds: float, scripted: Scripted
) -> None:
    client, engine = scripted([unread()])
    with pytest.raises(kind) as caught:
        await client.post(URL, content=body, timeout=timeout)
    assert engine.now() == seconds
    assert caught.value.request_sent


async def test_a_server_that_is_silent_runs_into_the_read_timeout(scripted: Scripted) -> None:
    client, engine = scripted([silent(), Answer(delay=4.9), Answer(delay=5.1)])
    with pytest.raises(e.ReadTimeout, match=r"silent for .* s after the request; it may be slow"):
        await client.get(URL, timeout=5)
    assert (await client.get(URL, timeout=5)).ok
    with pytest.raises(e.ReadTimeout):
        await client.get(URL, timeout=5)
    assert engine.now() == pytest.approx(5.0 + 4.9 + 5.0)


async def test_a_host_that_does_not_react_runs_into_the_connect_timeout(scripted: Scripted) -> None:
    client, engine = scripted([unreachable()])
    with pytest.raises(e.ConnectTimeout):
        await client.get(URL, timeout=Timeout(connect=3, read=1))
    assert engine.now() == 3.0


async def test_the_total_ends_a_slow_request(scripted: Scripted) -> None:
    client, engine = scripted([silent(), unreachable(), Answer(content=[b"a"] * 9, pace=1.0)])
    for end in (2.0, 4.0, 6.0):
        with pytest.raises(e.DeadlineExceeded):
            await client.get(URL, timeout=Timeout(total=2.0))
        assert engine.now() == end


async def test_an_endless_wait_fails_the_test(scripted: Scripted) -> None:
    client, _ = scripted([silent(), unreachable()])
    for _ in range(2):
        with pytest.raises(AssertionError, match="would wait forever: it has no timeout"):
            await client.get(URL, timeout=None)


# --- responses ---


async def test_a_streamed_body_is_yielded_in_its_chunks_at_its_pace(scripted: Scripted) -> None:
    client, engine = scripted([Answer(content=[b"a", b"", b"bc"], delay=1.0, pace=0.5)])
    async with await client.stream("GET", URL) as stream:
        assert engine.now() == 1.0
        assert [piece async for piece in stream.iterate("raw")] == [b"a", b"bc"]
    assert engine.now() == 2.0


async def test_a_body_may_break_off(scripted: Scripted) -> None:
    broken = Answer(content=b"abc", error=e.ChunkedEncodingError("cut"))
    client, _ = scripted([broken, broken])
    with pytest.raises(e.ChunkedEncodingError) as caught:
        await client.get(URL)
    assert caught.value.request_sent
    async with await client.stream("GET", URL) as stream:
        pieces = stream.iterate("raw")
        assert await pieces.__anext__() == b"abc"
        with pytest.raises(e.ChunkedEncodingError):
            await pieces.__anext__()


async def test_a_stream_closed_early_counts_as_aborted(scripted: Scripted) -> None:
    client, engine = scripted([Answer(content=[b"a", b"b"])])
    async with await client.stream("GET", URL):
        assert engine.aborted == 0
    assert engine.aborted == 1


async def test_content_codings_are_decoded(scripted: Scripted) -> None:
    coded = Answer(headers={"Content-Encoding": "gzip"}, content=gzip.compress(b"plain"))
    client, _ = scripted([coded, coded])
    assert (await client.get(URL)).content == b"plain"
    async with await client.stream("GET", URL) as stream:
        assert await stream.read() == b"plain"


async def test_a_body_that_is_too_large_is_refused(scripted: Scripted) -> None:
    client, _ = scripted([Answer(content=bytes(100)), Answer(content=bytes(101))])
    assert len((await client.get(URL, max_response_size=100)).content) == 100
    with pytest.raises(e.ResponseTooLarge):
        await client.get(URL, max_response_size=100)


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_a_response_that_may_have_no_body_has_none(
    scripted: Scripted, method: str, status: int
) -> None:
    client, _ = scripted([Answer(status, content=b"none of it")])
    assert (await client.request(method, URL)).content == b""


async def test_cookies_and_redirects_work_as_usual(scripted: Scripted) -> None:
    client, engine = scripted([Answer(302, {"Location": "/b", "Set-Cookie": "a=1"}), 200])
    assert (await client.get(URL)).url == URL + "b"
    assert engine.sent[1].headers["cookie"] == "a=1"


async def test_timings_are_of_the_engines_clock(scripted: Scripted) -> None:
    client, _ = scripted([Answer(delay=1.5)])
    found = await client.get(URL)
    assert (found.timings.first_byte, found.elapsed.total_seconds()) == (1.5, 1.5)


# --- the client around it ---


async def test_a_closed_client_sends_nothing(scripted: Scripted) -> None:
    client, engine = scripted([200])
    await client.aclose()
    with pytest.raises(e.ClientClosed):
        await client.get(URL)
    assert engine.sent == []


def test_threads_share_one_script() -> None:
    engine = ScriptedEngine([200] * 80)
    ready = threading.Barrier(8)
    with curlhttp.Client(transport=engine) as client:

        def run() -> None:
            ready.wait()
            for _ in range(10):
                client.get(URL)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(engine.sent) == 80


async def test_limits_wait_on_the_engines_clock(scripted: Scripted) -> None:
    client, engine = scripted([200] * 3, rate_limit=curlhttp.RateLimit(0.1, burst=1))
    for _ in range(3):
        await client.get(URL)
    assert [sent.at for sent in engine.sent] == pytest.approx([0.0, 10.0, 20.0])


async def test_a_stream_that_is_never_closed_holds_its_permit(scripted: Scripted) -> None:
    client, _ = scripted(
        [Answer(content=b"a"), 200], concurrency_limit=curlhttp.ConcurrencyLimit(1)
    )
    async with await client.stream("GET", URL):
        with pytest.raises(AssertionError, match="would wait forever"):
            await client.get(URL)
        with pytest.raises(e.PoolTimeout):
            await client.get(URL, timeout=Timeout(pool=3))
    assert (await client.get(URL)).ok


# --- hedges ---


async def test_a_hedge_is_played_on_the_engines_clock(scripted: Scripted) -> None:
    script = [Answer(content=b"slow", delay=9.0), Answer(content=b"fast", delay=0.5)]
    client, engine = scripted(script, hedge=curlhttp.Hedge(after=1.0))
    assert (await client.get(URL)).content == b"fast"
    assert [sent.at for sent in engine.sent] == [0.0, 1.0]
    assert (engine.now(), engine.cancelled) == (1.5, 1)


async def test_the_first_attempt_may_win_after_all(scripted: Scripted) -> None:
    script = [Answer(content=b"first", delay=1.5), Answer(content=b"second", delay=1.0)]
    client, engine = scripted(script, hedge=curlhttp.Hedge(after=1.0))
    assert (await client.get(URL)).content == b"first"
    assert (engine.now(), engine.cancelled, len(engine.sent)) == (1.5, 1, 2)


async def test_a_fast_response_is_not_hedged(scripted: Scripted) -> None:
    client, engine = scripted([Answer(delay=0.9)], hedge=curlhttp.Hedge(after=1.0))
    assert (await client.get(URL)).ok
    assert (len(engine.sent), engine.cancelled) == (1, 0)


async def test_a_failure_does_not_win_while_another_attempt_runs(scripted: Scripted) -> None:
    for bad in (Answer(503, delay=1.2), Fault(e.ConnectionError("cut", request_sent=True), 1.2)):
        client, engine = scripted([bad, Answer(delay=5.0)], hedge=curlhttp.Hedge(after=1.0))
        assert (await client.get(URL)).status_code == 200
        assert (engine.now(), engine.cancelled) == (6.0, 0)


async def test_when_all_attempts_fail_the_last_failure_surfaces(scripted: Scripted) -> None:
    script = [Fault(e.ConnectionError("one"), 3.0), Fault(e.ConnectionError("two"), 1.0)]
    client, engine = scripted([*script, 200], hedge=curlhttp.Hedge(after=1.0))
    with pytest.raises(e.ConnectionError, match="one"):
        await client.get(URL)
    assert engine.now() == 3.0


async def test_a_stream_may_be_hedged(scripted: Scripted) -> None:
    script = [Answer(content=b"slow", delay=9.0), Answer(content=[b"fa", b"st"], delay=0.5)]
    client, _ = scripted(script, hedge=curlhttp.Hedge(after=1.0))
    async with await client.stream("GET", URL) as stream:
        assert await stream.read() == b"fast"


async def test_an_empty_budget_pays_for_no_hedge(scripted: Scripted) -> None:
    budget = curlhttp.RetryBudget(ratio=0.0, reserve=0.0)
    client, engine = scripted([Answer(delay=9.0)], hedge=curlhttp.Hedge(after=1.0, budget=budget))
    assert (await client.get(URL)).ok
    assert (len(engine.sent), engine.now()) == (1, 9.0)
