"""From the statistics alone: which upstream is slow, in which phase, and why."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import CircuitBreaker, ConcurrencyLimit, Hedge, RateLimit, Timeout
from curlhttp import exceptions as e
from curlhttp.testing import Answer, Mock
from curlhttp.types import OriginStats
from tests.servers import (
    AppConnection,
    AppServer,
    BlackHole,
    Certs,
    DoHServer,
    RawConnection,
    RawServer,
    Record,
    refused_port,
    respond_and_stall,
    stall_at_once,
)
from tests.servers.websocket import echo, speaking
from tests.support.colours import AnyClient
from tests.support.downloads import download
from tests.support.forced import force
from tests.support.pace import paced
from tests.support.scripted import Scripted, asks, moved, steady

parser = pytest.importorskip("prometheus_client.parser", reason="the extra test")
pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
SLOW = 0.2  # seconds that something slow takes


class Scrape:
    """What Prometheus would know of a client: nothing but the text."""

    def __init__(self, client: AnyClient) -> None:
        text = client.real.stats().as_prometheus()
        self.samples = [
            sample
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def values(self, name: str, label: str, origin: str) -> dict[str, float]:
        """Return a metric of one origin, by another label."""
        return {
            sample.labels[label]: sample.value
            for sample in self.samples
            if sample.name == f"curlhttp_{name}" and sample.labels["origin"] == origin
        }

    def slowest(self) -> tuple[str, str]:
        """Return the origin whose attempts or waits took most time, and on what."""
        spent = {
            (sample.labels["origin"], sample.labels.get("phase") or sample.labels["reason"]): (
                sample.value
            )
            for sample in self.samples
            if sample.name in ("curlhttp_phase_seconds_sum", "curlhttp_wait_seconds_sum")
        }
        return max(spent, key=lambda key: spent[key])

    def timeouts(self, origin: str) -> dict[str, float]:
        return self.values("timeouts_total", "phase", origin)

    def errors(self, origin: str) -> dict[str, float]:
        return self.values("errors_total", "error", origin)


def slow_at(app: AppServer, path: str, *, body: bool = False) -> None:
    """Let a path respond late, or send the end of its body late."""

    def respond(record: Record, conn: AppConnection) -> None:
        if body:
            conn.begin(200, [("Transfer-Encoding", "chunked")])
            conn.chunk(b"x")
            conn.wait_closed(SLOW)
            conn.chunk(b"y", is_last=True)
        else:
            conn.wait_closed(SLOW)
            conn.reply(200)

    app.route(path, respond)


def _send_part(conn: RawConnection) -> None:
    conn.read_request()
    conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")


def _stall(record: Record, conn: AppConnection) -> None:
    conn.wait_closed(60)


# --- which upstream is slow, and in which phase ---


@pytest.mark.parametrize("phase", ["server", "body"])
async def test_a_slow_upstream_is_found(client: AnyClient, app: AppServer, phase: str) -> None:
    slow_at(app, "/slow", body=phase == "body")
    with AppServer() as fast:
        for _ in range(3):
            await client.get(fast.url)
        await client.get(app.url + "/slow")
        await client.get(app.url)
    found = Scrape(client)
    assert found.slowest() == (app.url, phase)
    buckets = found.values("attempt_duration_seconds_bucket", "le", app.url)
    assert (buckets["0.1"], buckets["+Inf"]) == (1, 2)
    assert found.values("responses_total", "status", fast.url) == {"2xx": 3}


async def test_a_slow_look_up_is_found(make_client: MakeClient, certs: Certs) -> None:
    with DoHServer(certs.server_context(), {"made.up": "127.0.0.1"}) as names, AppServer() as app:
        resolve = names.resolve

        def late(record: Record, conn: AppConnection) -> None:
            conn.wait_closed(SLOW)
            resolve(record, conn)

        names.route("/dns-query", late)
        client = make_client(doh=names.query_url)
        await client.get(app.at("made.up"))
        assert Scrape(client).slowest() == (f"http://made.up:{app.port}", "dns")


async def test_a_slow_handshake_is_found(
    make_client: MakeClient, certs: Certs, app: AppServer
) -> None:
    class Late(AppServer):
        def wrap(self, *arguments: Any) -> Any:
            threading.Event().wait(SLOW)
            return super().wrap(*arguments)

    with Late(certs.server_context()) as server:
        client = make_client()
        await client.get(server.url)
        await client.get(app.url)
        assert Scrape(client).slowest() == (server.url, "tls")


# --- and why: what requests waited for ---


async def test_a_rate_that_makes_wait_does_not_look_like_a_slow_server(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(rate_limit=RateLimit(1 / paced(1)))
    await client.get(app.url)  # its time is part of the wait
    response = await client.get(app.url)
    assert 0 < response.timings.total < response.timings.rate
    found = Scrape(client)
    assert found.slowest() == (app.url, "rate")
    assert found.values("wait_seconds_count", "reason", app.url) == {"rate": 1}
    assert found.values("attempt_duration_seconds_bucket", "le", app.url)["60"] == 2


@pytest.mark.parametrize("reason", ["limit", "pool"])
async def test_a_full_limit_or_pool_does_not_look_like_a_slow_server(
    make_client: MakeClient, app: AppServer, reason: str
) -> None:
    setting: Any = {"max_connections": 1}
    if reason == "limit":
        setting = {"concurrency_limit": ConcurrencyLimit(1)}
    client = make_client(**setting)
    slow_at(app, "/slow")
    responses = await client.gather(4, "GET", app.url + "/slow")
    waits = sorted(
        each.timings.limit if reason == "limit" else each.timings.queue for each in responses
    )
    assert waits[0] == 0 < SLOW / 2 < waits[1] < waits[2] < waits[3]
    found = Scrape(client)
    assert found.slowest() == (app.url, reason)
    assert found.values("wait_seconds_count", "reason", app.url) == {reason: 3}
    assert found.values("wait_seconds_sum", "reason", app.url)[reason] == pytest.approx(sum(waits))


async def test_waits_before_retries_are_told_apart(scripted: Scripted) -> None:
    client, _ = scripted([503, asks(7), 200, 200], retry=steady(2))
    response = await client.get("http://a/")
    asked = response.timings.backoff
    assert 7 <= asked < 8.5  # with jitter
    assert (await client.get("http://a/")).timings.backoff == 0
    found = Scrape(client)
    assert found.values("wait_seconds_sum", "reason", "http://a:80") == {
        "backoff": 1,
        "retry_after": asked,
    }
    assert found.values("responses_total", "status", "http://a:80") == {"5xx": 2, "2xx": 2}


async def test_an_open_breaker_is_counted(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(breaker=CircuitBreaker(failure_threshold=1))
    app.route("/broken", lambda record, conn: conn.reply(500))
    await client.get(app.url + "/broken")
    for _ in range(2):
        with pytest.raises(e.CircuitBreakerOpen):
            await client.get(app.url)
    stats: OriginStats = client.real.stats().origins[app.url]
    assert (stats.openings, stats.refusals) == (1, 2)
    assert stats.errors == {"CircuitBreakerOpen": 2}
    text = client.real.stats().as_prometheus()
    assert f'curlhttp_breaker_refusals_total{{origin="{app.url}"}} 2\n' in text
    assert f'curlhttp_breaker_openings_total{{origin="{app.url}"}} 1\n' in text


async def test_a_circuit_that_a_broken_stream_opens_is_counted_at_once(
    make_client: MakeClient,
) -> None:
    client = make_client(breaker=CircuitBreaker(failure_threshold=1, count_bodies=True))
    with RawServer(_send_part) as server:
        async with await client.stream("GET", server.url) as stream:
            with pytest.raises(e.RequestException):
                await stream.read()
        stats = client.real.stats().origins[server.url]
    assert (stats.openings, stats.responses) == (1, {"2xx": 1})
    assert sum(stats.errors.values()) == 1


# --- timeouts of each phase ---


async def test_a_look_up_that_times_out(make_client: MakeClient, certs: Certs) -> None:
    with DoHServer(certs.server_context(), {}) as names:
        names.route("/dns-query", _stall)
        client = make_client(doh=names.query_url)
        with pytest.raises(e.ConnectTimeout):
            await client.get("http://made.up/", timeout=Timeout(connect=SLOW))
    assert Scrape(client).timeouts("http://made.up:80") == {"dns": 1}


@pytest.mark.skipif(os.name == "nt", reason="Windows refuses what does not fit the backlog")
async def test_a_connection_that_times_out(client: AnyClient) -> None:
    with BlackHole() as hole, pytest.raises(e.ConnectTimeout):
        await client.get(hole.url, timeout=Timeout(connect=SLOW))
    found = Scrape(client)
    assert found.timeouts(hole.url) == {"connect": 1}
    assert found.errors(hole.url) == {"ConnectTimeout": 1}
    assert found.slowest() == (hole.url, "connect")


async def test_a_handshake_that_times_out(client: AnyClient) -> None:
    with RawServer(stall_at_once) as server, pytest.raises(e.ConnectTimeout):
        await client.get(server.url.replace("http:", "https:"), timeout=Timeout(connect=SLOW))
    origin = server.url.replace("http:", "https:")
    assert Scrape(client).timeouts(origin) == {"tls": 1}
    assert Scrape(client).slowest() == (origin, "tls")


@pytest.mark.parametrize("timeout", [Timeout(read=SLOW), Timeout(total=SLOW)])
@pytest.mark.parametrize(
    ("payload", "phase"),
    [(b"", "server"), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "body")],
)
async def test_a_response_that_times_out(
    client: AnyClient, payload: bytes, phase: str, timeout: Timeout
) -> None:
    with RawServer(respond_and_stall(payload)) as server, pytest.raises(e.Timeout):
        await client.get(server.url, timeout=timeout)
    found = Scrape(client)
    assert found.timeouts(server.url) == {phase: 1}
    assert found.slowest() == (server.url, phase)
    assert found.values("attempt_duration_seconds_bucket", "le", server.url)["0.1"] == 0


async def test_an_upload_that_times_out(client: AnyClient) -> None:
    over = threading.Event()

    def stop_reading(conn: RawConnection) -> None:
        conn.read_head()
        over.wait()

    with RawServer(stop_reading) as server:
        with pytest.raises(e.WriteTimeout):
            timeout = Timeout(write=SLOW, read=30)
            await client.post(server.url, content=b"x" * 50_000_000, timeout=timeout)
        over.set()
    assert Scrape(client).timeouts(server.url) == {"send": 1}


@pytest.mark.parametrize("timeout", [Timeout(pool=SLOW), Timeout(total=SLOW)])
@pytest.mark.parametrize("reason", ["pool", "limit"])
async def test_a_wait_that_times_out(
    make_client: MakeClient, app: AppServer, reason: str, timeout: Timeout
) -> None:
    setting: Any = {"max_connections": 1}
    if reason == "limit":
        setting = {"concurrency_limit": ConcurrencyLimit(1)}
    client = make_client(**setting)
    async with await client.stream("GET", app.url + "/bytes/5000000"):
        with pytest.raises((e.PoolTimeout, e.DeadlineExceeded)):
            await client.get(app.url, timeout=timeout)
    found = Scrape(client)
    assert found.timeouts(app.url) == {reason: 1}
    assert found.slowest() == (app.url, reason)
    assert client.real.stats().attempts == 1


async def test_a_rate_that_comes_too_late(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(rate_limit=RateLimit(0.01))
    await client.get(app.url)
    with pytest.raises(e.DeadlineExceeded):
        await client.get(app.url, timeout=Timeout(total=SLOW))
    assert Scrape(client).timeouts(app.url) == {"rate": 1}


# --- each API, and what else happens to attempts ---


async def test_every_api_counts(client: AnyClient, app: AppServer, tmp_path: Path) -> None:
    await client.get(app.url)
    async with await client.stream("GET", app.url + "/bytes/9") as stream:
        await stream.read()
    assert [result.status_code async for result in client.map([app.url] * 3)] == [200] * 3
    await download(client, app.url + "/bytes/9", tmp_path / "file")
    events = [("Content-Type", "text/event-stream")]
    app.route("/events", lambda record, conn: conn.reply(200, b"data: x\n\n", events))
    async with client.sse(app.url + "/events", reconnect=False) as found:
        assert [event.data async for event in found] == ["x"]
    with pytest.raises(e.WebSocketRefused):
        await client.websocket(app.url.replace("http", "ws") + "/nowhere")
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws")):
            pass
        assert client.real.stats().origins[server.url].responses == {"1xx": 1}
    stats = client.real.stats()
    assert stats.origins[app.url].responses == {"2xx": 7, "4xx": 1}
    assert stats.attempts == sum(sum(each.responses.values()) for each in stats.origins.values())


async def test_connections_that_are_refused_are_errors(client: AnyClient) -> None:
    with refused_port() as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(e.ConnectionError):
            await client.get(url)
        with pytest.raises(e.ConnectionError):
            await client.stream("GET", url)
        with pytest.raises(e.ConnectionError):
            await client.websocket(url.replace("http", "ws"))
        (failed,) = [result async for result in client.map([url])]
        assert isinstance(failed, e.ConnectionError)
    stats = client.real.stats().origins[url]
    assert (stats.errors, stats.timeouts) == ({"ConnectionError": 4}, {})


async def test_the_loser_of_a_hedge_is_no_error(make_client: MakeClient, app: AppServer) -> None:
    first = threading.Event()

    def answer(record: Record, conn: AppConnection) -> None:
        if first.is_set():
            conn.reply(200)
        else:
            first.set()
            conn.wait_closed(60)

    app.route("/slow-once", answer)
    client = make_client(hedge=Hedge(after=0.02))
    await client.get(app.url + "/slow-once")
    stats = client.real.stats()
    assert (stats.attempts, stats.hedges) == (2, 1)
    assert (stats.origins[app.url].responses, stats.origins[app.url].errors) == ({"2xx": 1}, {})


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_request_that_its_caller_gives_up_is_counted(
    client: AnyClient, app: AppServer
) -> None:
    with anyio.move_on_after(SLOW):
        await client.get(app.url + "/stall")
    found = Scrape(client)
    assert found.errors(app.url) == {"Cancelled": 1}
    assert found.slowest() == (app.url, "server")


async def test_mocks_count(client: AnyClient, curlhttp_mock: Mock) -> None:
    curlhttp_mock.get("http://a.test/").respond(404)
    curlhttp_mock.get("http://b.test/").raises(e.ReadTimeout("late"))
    await client.get("http://a.test/")
    with pytest.raises(e.ReadTimeout):
        await client.get("http://b.test/")
    stats = client.real.stats()
    assert stats.attempts == 2
    assert stats.origins["http://a.test:80"].responses == {"4xx": 1}
    assert stats.origins["http://b.test:80"].timeouts == {"server": 1}


# --- the numbers ---


async def test_origins_are_bounded_and_no_secret_is_in_a_label(scripted: Scripted) -> None:
    client, _ = scripted([200] * (100 + 3))
    for number in range(100 + 3):
        await client.get(f"http://me:password@h{number}.test/?token=password")
    origins = client.real.stats().origins
    assert len(origins) == 100 + 1
    assert origins["other"].responses == {"2xx": 3}
    assert "password" not in client.real.stats().as_prometheus()


def test_sums_are_right_while_threads_send_and_read(app: AppServer) -> None:
    each, threads = 300, 4  # the sums are added up from 512 on
    with curlhttp.Client() as client, ThreadPoolExecutor(threads + 1) as pool:
        done = threading.Event()

        def read() -> list[int]:
            seen = [0]
            while not done.wait(0.001):
                origins = client.stats().origins
                seen += [found.responses["2xx"] for found in origins.values() if found.responses]
            return seen

        reader = pool.submit(read)
        senders = [
            pool.submit(lambda: [client.get(app.url) for _ in range(each)]) for _ in range(threads)
        ]
        assert all(sender.result(120) for sender in senders)
        done.set()
        seen = reader.result(60)
        found = client.stats().origins[app.url]
    assert seen == sorted(seen)
    total = each * threads
    assert found.responses == {"2xx": total}
    assert found.durations.count == total == found.buckets[60] == found.phases["server"].count
    spent = sum(phase.seconds for phase in found.phases.values())
    assert spent == pytest.approx(found.durations.seconds)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_counts_for_itself(app: AppServer) -> None:
    with curlhttp.Client() as client:
        for _ in range(2):
            client.get(app.url)
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            client.get(app.url)
            os.write(write, repr(client.stats().origins[app.url].responses).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert pipe.read() == "{'2xx': 1}"
        assert client.stats().origins[app.url].responses == {"2xx": 2}


async def test_what_a_program_raises_adds_no_names(scripted: Scripted) -> None:
    class Own(e.ReadTimeout):
        pass

    errors = [Own("x"), KeyError("x"), KeyboardInterrupt(), GeneratorExit()]
    left = iter(errors)

    def fail(request: object) -> Any:
        raise next(left)

    client, _ = scripted(fail)
    for error in errors:
        with pytest.raises(type(error)):
            await client.get("http://h/")
    assert client.real.stats().origins["http://h:80"].errors == {"ReadTimeout": 1, "other": 1}


_LINE = re.compile(
    r"# (HELP [a-z_]+ \S.*|TYPE [a-z_]+ (counter|gauge|histogram|summary))"
    r'|[a-z_]+(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\})? [0-9.e+-]+'
)


async def test_each_line_is_valid_text_for_prometheus(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(rate_limit=RateLimit(100, burst=1), breaker=CircuitBreaker())
    for path in ("/", "/nowhere", "/"):
        await client.get(app.url + path)
    text = client.real.stats().as_prometheus(labels={"client": 'a"\\\nb'})
    assert [line for line in text.splitlines() if not _LINE.fullmatch(line)] == []
    buckets = [line for line in text.splitlines() if line.startswith("curlhttp_attempt_duration")]
    counts = [float(line.rpartition(" ")[2]) for line in buckets if "_bucket{" in line]
    assert counts == sorted(counts)
    assert 'le="+Inf"' in buckets[-3]
    with pytest.raises(ValueError, match="be none of"):
        client.real.stats().as_prometheus(labels={"le": "1"})


# --- requests that wait for a slot that unread streams hold ---


class Lines(logging.Handler):
    """Collect what is logged, and call a function with the first line."""

    def __init__(self, at_first: Callable[[], object]) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._at_first = at_first

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if len(self.lines) == 1:
            self._at_first()


async def test_a_wait_for_a_slot_that_an_unread_stream_holds_is_logged_once_in_a_while(
    make_client: MakeClient, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds before a wait for a slot is logged", 0.05)
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    url = app.url + "/bytes/5000000?token=password"
    closed = threading.Event()
    lines = Lines(closed.set)
    logging.getLogger("curlhttp").addHandler(lines)
    try:
        async with anyio.create_task_group() as tasks:
            async with await client.stream("GET", url):
                tasks.start_soon(client.gather, 3, "GET", app.url)
                with anyio.move_on_after(60):
                    while not closed.is_set():
                        await anyio.sleep(0.01)
    finally:
        logging.getLogger("curlhttp").removeHandler(lines)
    (line,) = lines.lines
    assert re.match(rf"GET {app.url}/? has waited 0\.\d s for one of the 1 slots of a conc", line)
    assert f"1 of them are held by streamed responses that have not ended: GET {app.url}/" in line
    assert "password" not in line


async def test_a_pool_timeout_ends_a_wait_of_several_parts(
    make_client: MakeClient, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds before a wait for a slot is logged", 0.05)
    client = make_client(concurrency_limit=ConcurrencyLimit(1))
    async with await client.stream("GET", app.url + "/bytes/5000000"):
        with anyio.fail_after(30), pytest.raises(e.PoolTimeout):
            await client.get(app.url, timeout=Timeout(pool=SLOW))


# --- waits between connections and for other requests, losers, and other ways to send ---


async def test_a_wait_for_the_transfer_of_an_equal_request_is_counted(
    make_client: MakeClient, app: AppServer
) -> None:
    slow_at(app, "/slow")
    client = make_client(coalesce=True)
    responses = await client.gather(3, "GET", app.url + "/slow")
    assert len(app.requests) == 1
    found = Scrape(client)
    assert found.values("wait_seconds_count", "reason", app.url) == {"coalesce": 2}
    assert found.values("responses_total", "status", app.url) == {"2xx": 1}
    waits = sorted(response.timings.coalesce for response in responses)
    assert waits[0] == 0 < waits[1]
    spent = found.values("wait_seconds_sum", "reason", app.url)["coalesce"]
    assert spent == pytest.approx(sum(waits))


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_wait_for_an_equal_request_that_is_cancelled_is_counted(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(coalesce=True)
    url = app.url + "/stalls"
    app.route("/stalls", _stall)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, url)
        while not app.requests:
            await anyio.sleep(0.002)
        with anyio.move_on_after(SLOW):
            await client.get(url)
        tasks.cancel_scope.cancel()
    found = Scrape(client)
    assert found.values("wait_seconds_count", "reason", app.url) == {"coalesce": 1}
    assert found.errors(app.url)["Cancelled"] >= 1


async def test_waits_before_sse_connects_again_are_counted(scripted: Scripted) -> None:
    events = Answer(
        headers={"Content-Type": "text/event-stream"}, content=b"retry: 30000\ndata: a\n\n"
    )
    client, engine = scripted([events, events, 204])
    async with client.sse("http://a/") as stream:
        assert [event.data async for event in stream] == ["a", "a"]
    found = Scrape(client)
    spent = found.values("wait_seconds_sum", "reason", "http://a:80")
    assert spent == {"reconnect": pytest.approx(sum(engine.sleeps))}


async def test_the_hop_after_a_wait_has_not_waited_itself(scripted: Scripted) -> None:
    events = Answer(headers={"Content-Type": "text/event-stream"}, content=b"data: a\n\n")
    client, _ = scripted([events, moved("http://b/"), events, 204])
    async with client.sse("http://a/") as stream:
        times = []
        async for _ in stream:
            response = stream.real.response
            times.append([each.timings.backoff for each in (*response.history, response)])
    (first,), (redirect, last) = times
    assert (first, last) == (0, 0)
    assert redirect > 0


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancelled_wait_before_a_retry_is_counted(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(retry=steady(1000))
    with refused_port() as port, anyio.move_on_after(SLOW):
        await client.get(f"http://127.0.0.1:{port}/")
    (stats,) = client.real.stats().origins.values()
    assert 0 < stats.waits["backoff"].seconds < 1000


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fault", ["503", "reset"])
async def test_the_loser_of_a_hedge_that_failed_is_counted(
    make_client: MakeClient, app: AppServer, fault: str, streams: bool
) -> None:
    second = threading.Event()
    lost = threading.Event()

    def answer(record: Record, conn: AppConnection) -> None:
        if not second.is_set():
            second.set()
            lost.wait(30)
            conn.reply(200)
        else:
            if fault == "503":
                conn.reply(503)
            else:
                conn.reset()
            lost.set()

    app.route("/fails-then", answer)
    client = make_client(hedge=Hedge(after=0.02))
    if streams:
        async with await client.stream("GET", app.url + "/fails-then") as response:
            assert response.real.status_code == 200
            await response.read()
    else:
        assert (await client.get(app.url + "/fails-then")).status_code == 200
    stats = client.real.stats().origins[app.url]
    if fault == "503":
        assert (stats.responses, stats.errors) == ({"2xx": 1, "5xx": 1}, {})
    else:
        assert stats.responses == {"2xx": 1}
        assert list(stats.errors.values()) == [1]
    assert stats.durations.count == 2
