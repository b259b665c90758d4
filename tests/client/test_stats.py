"""Statistics of a client: counts, connections, waiting requests, policies, and Prometheus."""

from __future__ import annotations

import json
import os
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import AdaptiveLimit, CircuitBreaker, ConcurrencyLimit, Endpoints, Hedge
from curlhttp.exceptions import ConnectionError
from curlhttp.testing import Mock
from curlhttp.types import ClientStats, LimitStats
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient
from tests.support.downloads import download
from tests.support.internals import lock_of_pool
from tests.support.scripted import Scripted, steady

parser = pytest.importorskip("prometheus_client.parser", reason="the extra test")


def samples_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples that the parser of prometheus_client reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_attempts_and_bytes_are_counted(make_client: Any, app: AppServer) -> None:
    client = make_client()
    assert client.real.stats() == ClientStats()
    for _ in range(3):
        await client.get(app.url + "/bytes/100")
    await client.post(app.url + "/echo", content=b"x" * 50)
    async with await client.stream("GET", app.url + "/bytes/100") as stream:
        await stream.read()
    stats = client.real.stats()
    assert stats.attempts == 5
    assert stats.bytes_sent == 50
    assert stats.bytes_received >= 400
    (connections,) = stats.connections
    assert connections.origin == app.url
    assert connections.protocol == "HTTP/1.1"
    assert (connections.open, connections.idle, connections.active) == (1, 1, 0)


async def test_what_is_closed_still_counts(make_client: Any, app: AppServer) -> None:
    client = make_client()
    await client.get(app.url + "/bytes/100")
    await client.aclose()
    stats = client.real.stats()
    assert (stats.attempts, stats.bytes_received, stats.connections) == (1, 100, ())


async def test_maps_and_downloads_count(make_client: Any, app: AppServer, tmp_path: Any) -> None:
    client = make_client()
    results = [result async for result in client.map([app.url + "/bytes/10"] * 20, concurrency=4)]
    assert len(results) == 20
    await download(client, app.url + "/bytes/10", tmp_path / "file")
    stats = client.real.stats()
    assert (stats.attempts, stats.bytes_received) == (21, 210)


async def test_http2_is_named(make_client: Any, h2_app: AppServer) -> None:
    client = make_client(http2=True)
    await client.get(h2_app.url)
    (connections,) = client.real.stats().connections
    assert (connections.protocol, connections.open) == ("HTTP/2", 1)


async def test_retries_hedges_and_fallbacks(scripted: Scripted) -> None:
    client, _ = scripted(
        [503, 503, 200, 503, 503, 503],
        retry=steady(2),
        fallback=lambda request, outcome: request.respond(200),
    )
    await client.get("http://a/")
    await client.get("http://a/")
    stats = client.real.stats()
    assert (stats.attempts, stats.retries, stats.fallbacks) == (6, 4, 1)
    assert stats.budgets["http://a:80"] < 100


async def test_hedges_count(make_client: Any, app: AppServer) -> None:
    first = threading.Event()

    def answer(record: Record, conn: AppConnection) -> None:
        if first.is_set():
            conn.reply(200, b"fast")
        else:
            first.set()
            conn.wait_closed(60)

    app.route("/slow-once", answer)
    client = make_client(hedge=Hedge(after=0.02))
    assert (await client.get(app.url + "/slow-once")).content == b"fast"
    stats = client.real.stats()
    assert (stats.attempts, stats.hedges) == (2, 1)


async def test_the_cache_counts(make_client: Any, app: AppServer) -> None:
    app.route("/kept", lambda record, conn: conn.reply(200, b"x", [("Cache-Control", "max-age=9")]))
    client = make_client(cache=curlhttp.Cache(":memory:"))
    for _ in range(3):
        await client.get(app.url + "/kept")
    stats = client.real.stats()
    assert (stats.attempts, stats.cache_misses, stats.cache_hits) == (1, 1, 2)


async def test_policies_are_shown(scripted: Scripted) -> None:
    breaker = CircuitBreaker(1, 30.0)
    endpoints = Endpoints(["http://a.test", "http://b.test"], choose="round_robin")
    client, _ = scripted(
        [503, 200],
        breaker=breaker,
        base_url=endpoints,
        concurrency_limit=AdaptiveLimit(initial=7),
    )
    for _ in range(2):
        await client.get("/")
    stats = client.real.stats()
    assert dict(stats.breakers) == {"http://a.test:80": "open", "http://b.test:80": "closed"}
    assert stats.limits["http://a.test:80"] == LimitStats(7, 0, 0)
    assert [(each.url, each.failures) for each in stats.endpoints] == [
        ("http://a.test/", 1),
        ("http://b.test/", 0),
    ]


async def test_waiting_requests(make_client: Any, app: AppServer) -> None:
    client = make_client(max_connections=1, concurrency_limit=ConcurrencyLimit(50))
    url = app.url + "/gate"
    opened = threading.Event()

    def wait(record: Record, conn: AppConnection) -> None:
        while not opened.is_set():
            conn.wait_closed(0.005)
        conn.reply(200)

    app.route("/gate", wait)

    async def look() -> ClientStats:
        for _ in range(4000):
            stats: ClientStats = client.real.stats()
            if stats.waiting == 2 and stats.longest_wait and stats.connections:
                opened.set()
                return stats
            await anyio.sleep(0.002)
        raise AssertionError("they do not wait")

    if client.is_blocking:
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(client.real.get, url) for _ in range(3)]
            stats = await look()
            assert all(future.result(60) for future in futures)
    else:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(client.get, url)
            stats = await look()
    (connections,) = stats.connections
    assert (connections.active, connections.idle) == (1, 0)
    assert stats.longest_wait > 0
    (limit,) = stats.limits.values()
    assert (limit.limit, limit.in_use) == (50, 3)
    assert client.real.stats().waiting == 0


def test_any_thread_may_read_them(app: AppServer) -> None:
    with curlhttp.Client() as client, ThreadPoolExecutor(4) as pool:
        done = threading.Event()

        def read() -> int:
            count = 0
            while not done.wait(0.001):
                client.stats().as_prometheus()
                count += 1
            return count

        reader = pool.submit(read)
        senders = [
            pool.submit(lambda: [client.get(app.url + "/bytes/9") for _ in range(200)])
            for _ in range(3)
        ]
        assert all(sender.result(120) for sender in senders)
        done.set()
        assert reader.result(60) > 0
        stats = client.stats()
    assert (stats.attempts, stats.bytes_received) == (600, 5400)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_starts_at_zero(app: AppServer) -> None:
    with curlhttp.Client(retry=1) as client:
        client.get(app.url)
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            os.write(write, repr(client.stats().attempts).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert pipe.read() == "0"
        assert client.stats().attempts == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
async def test_a_child_of_a_running_loop_has_nothing_of_its_parent(
    client: AnyClient, app: AppServer
) -> None:
    """The engine still has transfers and connections there, which belong to the parent."""
    await client.get(app.url + "/bytes/9")
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, repr(client.real.stats()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == repr(ClientStats())
    assert client.real.stats().attempts == 1


def test_a_signal_handler_may_read_them(app: AppServer) -> None:
    """Its thread may hold the lock of the pool at that moment."""
    with curlhttp.Client() as client:
        client.get(app.url)
        with lock_of_pool(client), ThreadPoolExecutor(1) as pool:
            assert pool.submit(client.stats).result(30).attempts == 1


async def test_a_retry_counts_when_it_is_sent(scripted: Scripted) -> None:
    def look(event: Any) -> None:
        seen.append(client.real.stats().retries)

    seen: list[int] = []
    client, _ = scripted([503, 200], retry=steady(2), hooks={"before_sleep": look})
    await client.get("http://a/")
    assert (seen, client.real.stats().retries) == ([0], 1)


async def test_mocks_count_as_attempts(client: AnyClient, curlhttp_mock: Mock) -> None:
    curlhttp_mock.get("http://a.test/").respond(200)
    await client.get("http://a.test/")
    assert client.real.stats().attempts == 1


async def test_errors_count_as_attempts(client: AnyClient) -> None:
    with pytest.raises(ConnectionError):
        await client.get("http://127.0.0.1:1/")
    assert client.real.stats().attempts == 1


# --- Prometheus ---


async def test_prometheus_reads_it(scripted: Scripted) -> None:
    client, _ = scripted([503, 503], breaker=CircuitBreaker(1, 30.0), retry=steady(0))
    await client.get('http://a.test/?token="secret"')
    stats = client.real.stats()
    text = stats.as_prometheus()
    found = samples_of(text)
    assert found["curlhttp_attempts_total", ()] == 1
    origin = ("origin", "http://a.test:80")
    assert found["curlhttp_breaker_state", (origin, ("state", "open"))] == 1
    assert found["curlhttp_breaker_state", (origin, ("state", "closed"))] == 0
    assert found["curlhttp_received_bytes_total", ()] == 0
    assert found["curlhttp_longest_wait_seconds", ()] == 0
    assert "secret" not in text
    names = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in names)


def test_all_fields_are_written() -> None:
    stats = ClientStats(
        connections=(curlhttp.types.ConnectionStats("http://a:80", "HTTP/2", 3, 1, 2),),
        waiting=4,
        longest_wait=0.5,
        bytes_sent=7,
        limits={"": LimitStats(5, 4, 3)},
        budgets={"http://a:80": 9.5},
    )
    found = samples_of(stats.as_prometheus(prefix="own", labels={"client": 'a"\\\nb'}))
    label = ("client", 'a"\\\nb')
    a = ("origin", "http://a:80")
    protocol = ("protocol", "HTTP/2")
    assert found["own_connections", (label, a, protocol, ("state", "active"))] == 2
    assert found["own_limit_waiting", (label, ("origin", ""))] == 3
    assert found["own_retry_budget", (label, a)] == 9.5
    assert found["own_sent_bytes_total", (label,)] == 7
    assert found["own_waiting", (label,)] == 4


def test_they_are_frozen() -> None:
    stats = curlhttp.Client().stats()
    with pytest.raises(FrozenInstanceError):
        stats.attempts = 3  # type: ignore[misc]


async def test_they_can_be_pickled_and_written_as_json(scripted: Scripted) -> None:
    client, _ = scripted([200], breaker=CircuitBreaker(), concurrency_limit=ConcurrencyLimit(3))
    await client.get("http://a/")
    stats = client.real.stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert json.loads(json.dumps(asdict(stats)))["breakers"] == {"http://a:80": "closed"}


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": "my-app"},
        {"prefix": ""},
        {"prefix": "a\n"},
        {"labels": {"my-label": "x"}},
        {"labels": {"é": "x"}},
        {"labels": {"origin": "x"}},
    ],
)
def test_names_that_prometheus_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="letters, digits and '_' only"):
        ClientStats().as_prometheus(**options)
