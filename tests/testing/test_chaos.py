"""Chaos: the faults follow from the seed, and look like the server's to everything above."""

from __future__ import annotations

import gc
import logging
import math
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp import Hedge, RetryPolicy
from curlhttp import exceptions as e
from curlhttp.testing import Answer, Chaos, ScriptedEngine, mock
from tests.servers import AppServer, H2Server, RawConnection, RawServer
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.forced import force
from tests.support.internals import run_script
from tests.support.scripted import URL, notes_of, steady

pytestmark = pytest.mark.anyio
Make = Callable[..., AnyClient]
BODY = b"0123456789" * 100


SLOW: dict[float, Any] = {0.01: lambda request: request.stream}


async def read_all(client: AnyClient, response: Any) -> bytes:
    body: bytes = response.read() if client.is_blocking else await response.aread()
    return body


def whole(_: Any = None) -> Answer:
    return Answer(content=BODY, headers={"Content-Length": str(len(BODY))})


def request_of(url: str = URL, method: str = "GET") -> Any:
    with curlhttp.Client(transport=ScriptedEngine(())) as client:
        return client.build_request(method, url)


SPARED = Chaos(when=lambda request: False).pick(request_of())


def fates(chaos: Chaos, urls: list[str]) -> list[Any]:
    return [chaos.pick(request_of(url)) for url in urls]


@pytest.fixture
def make(make_client: Make) -> Callable[..., tuple[AnyClient, ScriptedEngine, Chaos]]:
    """Return a function that makes a client with chaos around a script."""

    def made(script: Any = whole, *, retry: Any = None, **faults: Any) -> Any:
        hooks, hedge = faults.pop("hooks", None), faults.pop("hedge", None)
        engine, chaos = ScriptedEngine(script), Chaos(faults.pop("seed", 1), **faults)
        client = make_client(transport=chaos.wrap(engine), retry=retry, hooks=hooks, hedge=hedge)
        return client, engine, chaos

    return made


# --- what follows from a seed ---

EVERYTHING: dict[str, Any] = {
    "latency": {(0.1, 5): 0.5},
    "refuse": 0.2,
    "reset": 0.2,
    "cut": 0.3,
    "status": {503: 0.2, 429: 0.1},
    "slow": {1000: 0.2, 5000: 0.2},
}


@given(st.integers() | st.text(), st.lists(st.sampled_from(["/a", "/b", "/b?c=d"]), max_size=20))
def test_the_faults_of_a_url_do_not_depend_on_the_other_requests(
    seed: int | str, paths: list[str]
) -> None:
    urls = ["http://h.test" + path for path in paths]
    order = sorted(range(len(urls)), key=lambda place: urls[place])
    first = fates(Chaos(seed, **EVERYTHING), urls)
    second = fates(Chaos(seed, **EVERYTHING), [urls[place] for place in order])
    assert [first[place] for place in order] == second


@given(st.integers(), st.sampled_from(sorted(EVERYTHING)))
def test_turning_one_fault_off_leaves_the_others_as_they_were(seed: int, name: str) -> None:
    others = {key: value for key, value in EVERYTHING.items() if key != name}
    for with_it, without in zip(
        fates(Chaos(seed, **EVERYTHING), [URL] * 5),
        fates(Chaos(seed, **others), [URL] * 5),
        strict=True,
    ):
        for field in ("latency", "cut", "speed", "failure"):
            removed = {"slow": "speed"}.get(name, name)
            if removed == field or (field == "failure" and with_it.failure == name):
                continue
            assert getattr(with_it, field) == getattr(without, field)


def test_another_seed_gives_other_faults_and_no_seed_a_random_one() -> None:
    urls = [URL] * 30
    one, other = Chaos(1, refuse=0.5), Chaos(2, refuse=0.5)
    assert fates(one, urls) != fates(other, urls)
    found = Chaos(refuse=0.5)
    again = Chaos(found.seed, refuse=0.5)
    assert fates(found, urls) == fates(again, urls)
    assert str(found.seed) in repr(found)


def test_the_port_does_not_matter_but_the_method_does() -> None:
    urls = ["http://h.test:1/"] * 30
    moved = ["http://h.test:2/"] * 30
    assert fates(Chaos(1, refuse=0.5), urls) == fates(Chaos(1, refuse=0.5), moved)
    chaos = Chaos(1, refuse=0.5)
    assert [chaos.pick(request_of(method="PUT")) for _ in urls] != fates(Chaos(1, refuse=0.5), urls)


def test_faults_come_as_often_as_their_probability_says() -> None:
    found = fates(Chaos(5, refuse=0.2, status={503: 0.3, 429: 0.1}, slow=10), [URL] * 2000)
    kinds = [fate.failure for fate in found]
    codes = [fate.status_code for fate in found]
    assert 340 < kinds.count("refuse") < 460
    assert 520 < codes.count(503) < 680
    assert 150 < codes.count(429) < 250
    assert {fate.speed for fate in found} == {10}
    assert {fate.cut for fate in found} == {None}


def test_latency_lies_within_its_bounds() -> None:
    found = [fate.latency for fate in fates(Chaos(1, latency=(2, 3)), [URL] * 200)]
    assert 2 <= min(found) < 2.1
    assert 2.9 < max(found) < 3
    assert {fate.latency for fate in fates(Chaos(1, latency=0.5), [URL] * 5)} == {0.5}


def test_a_function_decides_for_which_requests() -> None:
    chaos = Chaos(
        refuse=lambda request: request.url.host == "a.test",
        status={500: lambda request: 1.0 if request.method == "POST" else 0.0},
        when=lambda request: request.url.path != "/health",
    )
    assert chaos.pick(request_of("http://a.test/")).failure == "refuse"
    assert chaos.pick(request_of("http://a.test/health")) == SPARED
    assert chaos.pick(request_of("http://b.test/")).failure == ""
    assert chaos.pick(request_of("http://b.test/", "POST")).status_code == 500


def test_memory_does_not_grow_with_the_number_of_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "requests whose attempts a Chaos counts", 10)
    chaos = Chaos(1)
    urls = [f"http://h.test/{number}" for number in range(50)]
    assert [fate.number for fate in fates(chaos, urls * 2)] == [1] * 100


@pytest.mark.parametrize(
    ("faults", "kind", "text"),
    [
        ({"refuse": 1.5}, ValueError, "refuse is a probability from 0 to 1, not 1.5"),
        ({"reset": -0.1}, ValueError, "reset is a probability"),
        ({"cut": math.nan}, ValueError, "cut is a probability"),
        ({"cut": "0.1"}, TypeError, "cut takes numbers, not '0.1'"),
        ({"latency": -1}, ValueError, "latency is seconds, or"),
        ({"latency": math.inf}, ValueError, "latency is seconds, or"),
        ({"latency": (3, 2)}, ValueError, "latency is seconds, or"),
        ({"latency": (1, 2, 3)}, TypeError, "latency takes numbers"),
        ({"latency": [1, 2]}, TypeError, "latency takes numbers"),
        ({"status": 302}, ValueError, "status is a status code from 400 to 599, not 302"),
        ({"status": "503"}, ValueError, "status is a status code"),
        ({"status": {503: 0.7, 429: 0.7}}, ValueError, "status add up to 1.4"),
        ({"slow": 0}, ValueError, "slow is a positive number of bytes per second, not 0"),
        ({"seed": 1.5}, TypeError, "seed is an int, a str or None, not float"),
        ({"when": True}, TypeError, "when is a function of the request or None"),
    ],
)
def test_a_wrong_setting_is_named(faults: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        Chaos(**faults)


def test_the_environment_is_read_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURLHTTP_CHAOS", "refuse=1 seed=7")
    engine = ScriptedEngine([200])
    with curlhttp.Client(transport=engine) as client:
        assert client.get(URL).status_code == 200
    chaos = Chaos.from_env()
    assert chaos is not None
    assert (chaos.seed, chaos.pick(request_of()).failure) == (7, "refuse")
    monkeypatch.delenv("CURLHTTP_CHAOS")
    assert Chaos.from_env() is None


def test_the_variable_has_all_arguments() -> None:
    text = "seed=a refuse=0.2 reset=0.2 cut=0.3 latency=0.1..5:0.5 status=503:0.2,429:0.1"
    found = Chaos.from_env({"CURLHTTP_CHAOS": f" {text}  slow=1000:0.2,5000:0.2 "})
    assert found is not None
    assert fates(found, [URL] * 50) == fates(Chaos("a", **EVERYTHING), [URL] * 50)
    spared = Chaos.from_env({"CURLHTTP_CHAOS": "refuse=1"}, when=lambda request: False)
    assert spared is not None
    assert spared.pick(request_of()) == SPARED


@pytest.mark.parametrize(
    "text", ["refuse", "refuse=x", "speed=1", "status=503:", "latency=..", "x"]
)
def test_a_wrong_variable_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"CURLHTTP_CHAOS has '.*'; write, for example, seed=7"):
        Chaos.from_env({"CURLHTTP_CHAOS": text})


def test_it_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="make one with the same seed"):
        pickle.dumps(Chaos(1))


# --- what the layers above see ---


@ONE_OF_EACH
async def test_a_refused_request_is_not_sent_and_may_be_retried(make: Any) -> None:
    client, engine, _ = make(refuse=1, retry=steady())
    with pytest.raises(e.ConnectionError, match=r"chaos: the connection was refused") as caught:
        await client.post(URL, content=b"x")
    assert (caught.value.request_sent, caught.value.curl_code) == (False, 7)
    assert len(caught.value.attempts) == 3
    assert engine.sent == []
    assert engine.sleeps != []


@ONE_OF_EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reset_request_was_sent_so_a_post_is_not_repeated(make: Any, stream: bool) -> None:
    client, engine, _ = make(reset=1, retry=steady())
    with pytest.raises(e.ConnectionError, match=r"chaos: the connection broke") as caught:
        await client.post(URL, content=b"x", stream=stream)
    assert caught.value.request_sent
    assert [sent.body for sent in engine.sent] == [b"x"]
    assert engine.aborted == 1
    with pytest.raises(e.ConnectionError):
        await client.get(URL)
    assert len(engine.sent) == 4


@ONE_OF_EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_status_replaces_the_response_and_nothing_is_sent(make: Any, stream: bool) -> None:
    client, engine, _ = make(status={429: lambda request: request.method == "GET"})
    if stream:
        async with await client.stream("GET", URL) as response:
            body = await response.read()
        response = response.real
    else:
        response = await client.get(URL)
        body = response.content
    assert (response.status_code, body) == (429, b"429 from curlhttp.testing.Chaos\n")
    assert engine.sent == []
    head = await client.request("HEAD", URL)
    assert head.status_code == 200


@ONE_OF_EACH
async def test_a_status_in_reply_to_head_has_no_body(make: Any) -> None:
    client, _, _ = make(status=503)
    head = await client.request("HEAD", URL)
    assert (head.status_code, head.content) == (503, b"")


@ONE_OF_EACH
async def test_on_give_up_and_the_log_see_the_faults(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "curlhttp")
    seen: list[Any] = []
    client, _, chaos = make(
        refuse=lambda request: "refuse" in request.url.path,
        status={503: 1},
        retry=steady(1),
        hooks={"on_give_up": seen.append},
    )
    await client.get(URL + "?token=hidden")
    with pytest.raises(e.ConnectionError) as caught:
        await client.get(URL + "refuse")
    assert [(each.status_code, each.error) for each in seen] == [
        (503, None),
        (None, "ConnectionError"),
    ]
    assert "attempts before this one" in notes_of(caught.value)[0]
    assert [(each.fault, each.value, each.number) for each in chaos.injected] == [
        ("status", 503, 1),
        ("status", 503, 2),
        ("refuse", None, 1),
        ("refuse", None, 2),
    ]
    lines = [record.getMessage() for record in caplog.records if "chaos" in record.getMessage()]
    assert lines[0] == f"chaos: GET {chaos.injected[0].url}: status 503 (seed 1, attempt 1)"
    assert lines[3] == f"chaos: GET {URL}refuse: refuse (seed 1, attempt 2)"
    assert "hidden" not in caplog.text + repr(chaos.injected)


@ONE_OF_EACH
async def test_latency_counts_towards_the_timeouts(make: Any) -> None:
    client, engine, _ = make(latency=3)
    assert (await client.get(URL)).content == BODY
    assert engine.now() == 3
    with pytest.raises(e.ReadTimeout) as caught:
        await client.get(URL, timeout=curlhttp.Timeout(read=2))
    assert caught.value.request_sent
    assert engine.now() == 5
    with pytest.raises(e.DeadlineExceeded):
        await client.get(URL, timeout=curlhttp.Timeout(total=1))
    assert engine.now() == 6
    assert len(engine.sent) == 1


@ONE_OF_EACH
async def test_a_slow_body_takes_its_time_in_memory_and_in_a_stream(make: Any) -> None:
    client, engine, chaos = make(slow=100)
    assert (await client.get(URL, timeout=curlhttp.Timeout(read=1))).content == BODY
    assert engine.now() == pytest.approx(10)
    async with await client.stream("GET", URL) as response:
        pieces = [piece async for piece in response.iterate("raw")]
    assert b"".join(pieces) == BODY
    assert set(map(len, pieces)) == {10}
    assert engine.now() == pytest.approx(20)
    assert [each.fault for each in chaos.injected] == ["slow", "slow"]
    with pytest.raises(e.DeadlineExceeded):
        await client.get(URL, timeout=curlhttp.Timeout(total=5))
    assert engine.now() == pytest.approx(25)
    async with await client.stream("GET", URL, timeout=curlhttp.Timeout(total=5)) as response:
        with pytest.raises(e.DeadlineExceeded):
            await response.read()
    assert engine.now() == pytest.approx(30)


@ONE_OF_EACH
async def test_a_body_of_less_than_a_byte_in_the_read_timeout_fails_with_it(make: Any) -> None:
    client, engine, _ = make(slow=0.1)
    for stream in (False, True):
        with pytest.raises(e.ReadTimeout):
            response = await client.get(URL, timeout=curlhttp.Timeout(read=2), stream=stream)
            await read_all(client, response)
    assert engine.now() == 4


@ONE_OF_EACH
@pytest.mark.parametrize("length", [True, False])
async def test_a_cut_body_fails_in_its_midst(make: Any, length: bool) -> None:
    script = whole if length else lambda request: Answer(content=[BODY[:600], BODY[600:]])
    client, engine, chaos = make(script, cut=1, retry=steady())
    with pytest.raises(e.ChunkedEncodingError, match="chaos: the response body ended early"):
        await client.get(URL)
    assert len(engine.sent) == 3  # a body in memory may be asked for again
    got = b""
    async with await client.stream("GET", URL) as response:
        with pytest.raises(e.ChunkedEncodingError) as caught:
            async for piece in response.iterate("raw"):
                got += piece
    assert caught.value.request_sent
    assert chaos.injected[-1][:2] == ("cut", len(got))
    assert BODY.startswith(got)
    assert (len(got) < len(BODY)) == (engine.aborted == 1)


@ONE_OF_EACH
async def test_a_body_that_is_not_there_is_not_cut(make: Any) -> None:
    client, _, chaos = make(lambda request: 204 if request.method == "GET" else whole(), cut=1)
    assert (await client.get(URL)).status_code == 204
    assert (await client.request("HEAD", URL)).status_code == 200
    async with await client.stream("GET", URL) as response:
        assert await response.read() == b""
    assert list(chaos.injected) == []


@ONE_OF_EACH
async def test_a_download_resumes_after_a_cut(make: Any, tmp_path: Path) -> None:
    def part(request: Any) -> Answer:
        asked = request.headers.get("range")
        start = int(asked[6:-1]) if asked else 0
        fields = {"ETag": '"1"', "Content-Length": str(len(BODY) - start)}
        if start:
            fields["Content-Range"] = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        return Answer(206 if start else 200, fields, BODY[start:])

    client, engine, chaos = make(part, seed=8, cut=0.6, retry=steady(20))
    done = client.real.download(URL, tmp_path / "file")
    _ = done if client.is_blocking else await done
    assert (tmp_path / "file").read_bytes() == BODY
    assert len(engine.sent) == len(chaos.injected) + 1 > 1


@ONE_OF_EACH
async def test_a_closed_client_says_so_and_injects_nothing(make_client: Make) -> None:
    chaos = Chaos(1, refuse=1)
    client = make_client(transport=chaos)
    await client.aclose()
    with pytest.raises(e.ClientClosed):
        await client.get(URL)
    assert list(chaos.injected) == []


class Interrupted(ScriptedEngine):
    """An engine whose waits end with Ctrl-C."""

    async def sleep(self, seconds: float) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("faults", [{"latency": 5}, {"slow": 5}])
def test_ctrl_c_ends_a_wait_and_leaves_nothing_open(faults: Any) -> None:
    engine = Interrupted(whole)
    with curlhttp.Client(transport=Chaos(1, **faults).wrap(engine)) as client:
        with pytest.raises(KeyboardInterrupt), client.stream("GET", URL) as response:
            response.read()
    assert engine.aborted == len(engine.sent) == ("slow" in faults)


# --- hedges ---


@ONE_OF_EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_the_second_attempt_wins_while_the_first_is_held_back(
    make: Any, stream: bool
) -> None:
    late = iter([1, 0, 1, 0])
    client, engine, _ = make(
        lambda request: Answer(content=b"ok", delay=0.5),
        latency={9: lambda request: next(late)},
        hedge=Hedge(after=2),
    )
    response = await client.get(URL, stream=stream)
    if stream:
        assert await read_all(client, response) == b"ok"
    assert response.status_code == 200
    assert engine.now() == 2.5
    assert [sent.at for sent in engine.sent] == [2]


@ONE_OF_EACH
async def test_the_first_attempt_goes_on_if_the_second_fails(make: Any) -> None:
    seen = iter([9.0, 0.0])
    refusals = iter([False, True])
    client, engine, _ = make(
        latency={9: lambda request: next(seen)},
        refuse=lambda request: next(refusals),
        hedge=Hedge(after=2),
    )
    assert (await client.get(URL)).content == BODY
    assert engine.now() == 9
    assert [sent.at for sent in engine.sent] == [9]


@ONE_OF_EACH
async def test_a_second_attempt_that_is_held_back_longer_than_the_first_is_not_sent(
    make: Any,
) -> None:
    client, engine, chaos = make(latency=9, hedge=Hedge(after=2))
    assert (await client.get(URL)).content == BODY
    assert [sent.at for sent in engine.sent] == [9]
    assert [each.number for each in chaos.injected] == [1, 2]


@ONE_OF_EACH
async def test_the_read_timeout_counts_from_the_beginning_of_a_latency(make: Any) -> None:
    for after in (2, 4):  # of both attempts
        client, engine, _ = make(latency=9, hedge=Hedge(after=after))
        with pytest.raises(e.ReadTimeout):
            await client.get(URL, timeout=5)
        assert (engine.now(), engine.sent) == (after + 5, [])


@ONE_OF_EACH
async def test_a_second_attempt_with_a_bad_status_loses_and_its_stream_is_closed(
    make: Any,
) -> None:
    late = iter([1, 0])
    statuses = iter([503, 200])
    client, engine, _ = make(
        lambda request: Answer(next(statuses), content=b"ok"),
        latency={9: lambda request: next(late)},
        hedge=Hedge(after=2),
    )
    response = await client.get(URL, stream=True)
    assert await read_all(client, response) == b"ok"
    assert ([sent.at for sent in engine.sent], engine.aborted) == ([2, 9], 1)


@ONE_OF_EACH
async def test_latency_counts_in_the_time_that_a_hedge_measures(make: Any) -> None:
    late = iter([*[1] * 21, 0])
    client, engine, _ = make(
        lambda request: Answer(content=b"ok", delay=0.5),
        latency={3: lambda request: next(late)},
        hedge=Hedge("p50"),
    )
    for _ in range(20):
        await client.get(URL)
    begun = engine.now()
    engine.sent.clear()
    await client.get(URL)
    assert [sent.at - begun for sent in engine.sent] == [3]  # the next was due after 3.5 s


@ONE_OF_EACH
async def test_each_attempt_of_a_hedge_has_its_own_latency(make: Any) -> None:
    steps = iter([Answer(delay=50), Answer(content=b"ok")])
    client, engine, _ = make(lambda request: next(steps), latency=0.5, hedge=Hedge(after=2))
    assert (await client.get(URL)).content == b"ok"
    assert [sent.at for sent in engine.sent] == [0.5, 2.5]


# --- around the real engine, and a mock ---


@pytest.mark.parametrize("http2", [False, True])
async def test_a_stream_of_a_real_server_is_cut_and_the_client_goes_on(
    make_client: Make, app: AppServer, h2_app: H2Server, http2: bool
) -> None:
    server = h2_app if http2 else app
    server.route("/chaos", lambda record, out: out.reply(200, b"x" * 100_000))
    chaos = Chaos(1, cut=lambda request: request.url.path == "/chaos")
    client = make_client(transport=chaos, http2=http2)
    got = 0
    async with await client.stream("GET", server.url + "/chaos") as response:
        with pytest.raises(e.ChunkedEncodingError):
            async for piece in response.iterate("raw"):
                got += len(piece)
    assert got == chaos.injected[0].value
    assert got < 100_000
    with pytest.raises(e.ChunkedEncodingError):
        await client.get(server.url + "/chaos")
    assert (await client.get(server.url)).content == b"hello"


async def test_a_reset_request_reaches_a_real_server_once(
    make_client: Make, app: AppServer
) -> None:
    chaos = Chaos(1, reset=1)
    client = make_client(transport=chaos, retry=RetryPolicy(3))
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(app.url + "/echo", content=b"once")
    assert caught.value.request_sent
    assert [record.path for record in app.requests] == ["/echo"]


async def test_a_cancel_while_an_attempt_is_late_sends_nothing(
    make_client: Make, app: AppServer, colour: str
) -> None:
    client = make_client(transport=Chaos(1, latency=600), max_connections=1)
    if client.is_blocking:
        with pytest.raises(e.DeadlineExceeded):
            await client.get(app.url, timeout=curlhttp.Timeout(total=0.05))
    else:
        with anyio.move_on_after(0.05) as scope:
            await client.get(app.url, timeout=None)
        assert scope.cancelled_caught
    assert app.requests == []


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancel_within_a_slow_body_frees_the_connection(
    make_client: Make, app: AppServer
) -> None:
    is_over = False
    chaos = Chaos(1, slow=SLOW, when=lambda request: not is_over)
    client = make_client(transport=chaos, max_connections=1)
    async with await client.stream("GET", app.url) as response:
        with anyio.move_on_after(0.05) as scope:
            await response.read()
        assert scope.cancelled_caught
    is_over = True
    assert (await client.get(app.url)).content == b"hello"


@WITHOUT_UVLOOP
async def test_a_stream_that_is_dropped_frees_its_connection(
    make_client: Make, app: AppServer
) -> None:
    client = make_client(transport=Chaos(1, slow=1e9, cut=0.0), max_connections=1)
    for _ in range(2):
        response = await client.stream("GET", app.url)
        del response
        gc.collect()
    assert (await client.get(app.url)).content == b"hello"


@WITHOUT_UVLOOP
async def test_a_mock_below_it_responds(make_client: Make) -> None:
    chaos = Chaos(1, slow=10, latency=5)
    client = make_client(transport=chaos)
    with mock("https://api.test") as network:
        network.get("/x").respond(content=b"0123456789")
        assert (await client.get("https://api.test/x")).content == b"0123456789"
        async with await client.stream("GET", "https://api.test/x") as response:
            assert await response.read() == b"0123456789"
        assert sum(network.sleeps) == pytest.approx(12)


@ONE_OF_EACH
async def test_a_recording_has_the_faults(
    make_client: Make, app: AppServer, tmp_path: Path
) -> None:
    client = make_client(transport=Chaos(1, status=503))
    with client.real.har(tmp_path / "log.har"):
        await client.get(app.url)
    assert '"status": 503' in (tmp_path / "log.har").read_text()


@ONE_OF_EACH
async def test_a_map_has_the_faults(make_client: Make, app: AppServer) -> None:
    client = make_client(transport=Chaos(1, refuse=lambda request: request.url.path == "/b"))
    urls = [app.url, app.url + "/b"]
    found = [result async for result in client.map(urls, ordered=True)]
    assert found[0].content == b"hello"
    assert isinstance(found[1], e.ConnectionError)


@pytest.mark.parametrize("fault", ["refuse", "reset"])
@ONE_OF_EACH
async def test_a_connection_of_a_websocket_fails(make_client: Make, fault: str) -> None:
    def serve(conn: RawConnection) -> None:
        conn.wait_closed(30)

    with RawServer(serve) as server:
        faults: dict[str, Any] = {fault: 1}
        chaos = Chaos(1, **faults)
        client = make_client(transport=chaos)
        with pytest.raises(e.ConnectionError, match="chaos"):
            async with await client.websocket(server.url.replace("http", "ws", 1)):
                pass
        assert [each.fault for each in chaos.injected] == [fault]


def test_threads_get_the_same_faults_in_any_order() -> None:
    def run(count: int) -> set[Any]:
        engine, chaos = ScriptedEngine(whole), Chaos(4, refuse=0.3, status={503: 0.3})
        with curlhttp.Client(transport=chaos.wrap(engine)) as client:

            def work() -> None:
                for _ in range(60 // count):
                    with suppress(e.ConnectionError):
                        client.get(URL)

            threads = [threading.Thread(target=work) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return set(chaos.injected)

    assert run(6) == run(1)


def test_an_engine_for_one_kind_of_client_still_says_so() -> None:
    app = curlhttp.WSGITransport(lambda environ, start: [])
    with pytest.raises(TypeError, match="for Client, not AsyncClient"):
        curlhttp.AsyncClient(transport=Chaos(1).wrap(app))


def test_a_client_without_it_does_not_load_it() -> None:
    run_script(
        "import sys, curlhttp\ncurlhttp.Client().close()\n"
        "assert not [name for name in sys.modules if name.startswith('curlhttp.testing')]"
    )
