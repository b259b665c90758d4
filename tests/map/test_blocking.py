"""Client.map: no thread, no event loop, forks, Ctrl-C, and waits of other requests."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import curlhttp
from curlhttp import Client, ConcurrencyLimit, RateLimit, Timeout
from tests.servers import AppServer, Certs, RawConnection, RawServer, response
from tests.support.internals import (
    assert_engine_is_free,
    assert_nothing_runs,
    engines_of,
    finish_script,
    run_script,
    start_script,
)
from tests.support.pace import assert_in_time, paced


def _engines(client: Client) -> list[Any]:
    return engines_of(client)[1:]


@pytest.mark.slow
def test_a_map_loads_no_event_loop_and_starts_no_thread(app: AppServer) -> None:
    code = """
import sys, threading, curlhttp
with curlhttp.Client(retry=2, rate_limit=curlhttp.RateLimit(1e6, burst=100)) as client:
    urls = [sys.argv[1] + "/bytes/5"] * 100 + [sys.argv[1] + "/status/503"]
    seen = []
    for result in client.map(urls):
        seen.append(threading.active_count())
    assert len(seen) == 101
    assert set(seen) == {1}, seen
print(*sorted({"asyncio", "anyio", "trio", "uvloop", "ssl"} & set(sys.modules)))
"""
    assert run_script(code, app.url) == "\n"


def _map_straight(client: Client, app: AppServer, paths: Iterable[str]) -> tuple[list[Any], int]:
    """Map paths with kept connections; return the results, and how many coroutines ran."""
    list(client.map([app.url] * 4, concurrency=4))
    (engine,) = _engines(client)
    started: list[object] = []
    start = engine.start_job

    def count(job: object, *how: Any) -> None:
        started.append(job)
        start(job, *how)

    engine.start_job = count
    try:
        results = list(client.map([app.url + path for path in paths], concurrency=2, ordered=True))
    finally:
        del engine.start_job
    assert_engine_is_free(engine)
    return results, len(started)


def test_a_plain_url_needs_no_coroutine(app: AppServer) -> None:
    with Client() as client:
        results, coroutines = _map_straight(client, app, ["/bytes/10"] * 20)
        assert [len(result.content) for result in results] == [10] * 20
        assert coroutines == 0
        assert client.stats().attempts == 24


@pytest.mark.parametrize("setting", [{"auth": ("a", "b")}, {"retry": 1}])
def test_a_url_that_a_layer_has_to_see_has_a_coroutine(
    app: AppServer, setting: dict[str, Any]
) -> None:
    with Client(**setting) as client:
        _, coroutines = _map_straight(client, app, ["/bytes/10"] * 5)
    assert coroutines == 5


def test_only_a_response_that_needs_the_flow_gets_a_coroutine(app: AppServer) -> None:
    with Client() as client:
        paths = ["/", "/redirect/2", "/", "/cookies/set?a=b", "/cookies"]
        results, coroutines = _map_straight(client, app, paths)
        assert [result.status_code for result in results] == [200] * 5
        assert [len(result.history) for result in results] == [0, 2, 0, 0, 0]
        assert client.cookies["a"] == "b"
        assert 2 <= coroutines <= 3  # the last one, if the cookie was there when it began


def test_a_plain_url_that_fails_is_a_result(app: AppServer) -> None:
    app.route("/gone", lambda record, conn: conn.reset())
    with Client() as client:
        results, _ = _map_straight(client, app, ["/", "/gone", "/"])
        assert [isinstance(result, curlhttp.Response) for result in results] == [True, False, True]
        assert isinstance(results[1], curlhttp.ConnectionError)
        assert str(results[1].request.url) == app.url + "/gone"


def test_plain_urls_that_run_when_a_map_is_left_are_cancelled(app: AppServer) -> None:
    with Client() as client:
        list(client.map([app.url] * 8, concurrency=8))
        with client.map([app.url, *[app.url + "/stall"] * 7], concurrency=8) as results:
            assert isinstance(next(results), curlhttp.Response)
        (engine,) = _engines(client)
        assert_engine_is_free(engine)
        assert len(list(client.map([app.url] * 8, return_exceptions=False))) == 8


def test_maps_in_threads_have_their_own_engines(app: AppServer) -> None:
    def total(seed: int) -> int:
        urls = (f"{app.url}/bytes/{n}?seed={seed}" for n in range(1, 61))
        results: Iterable[Any] = client.map(urls, concurrency=4)
        return sum(len(result.content) for result in results)

    with Client() as client, ThreadPoolExecutor(4) as threads:
        assert set(threads.map(total, range(12))) == {sum(range(1, 61))}
        assert 1 <= len(_engines(client)) <= 4
        assert_nothing_runs(client)
    assert app.wait_for(lambda: not app.open_connections)


def test_a_limit_is_shared_by_maps_in_threads(app: AppServer) -> None:
    limit = ConcurrencyLimit(3)

    def count(_: int) -> int:
        return len(list(client.map([app.url + "/delay/0.005"] * 30, concurrency=10)))

    with Client(concurrency_limit=limit) as client, ThreadPoolExecutor(4) as threads:
        assert list(threads.map(count, range(4))) == [30] * 4
    assert limit.in_use(app.url) == 0


def test_a_slot_released_by_another_thread_ends_the_wait(app: AppServer) -> None:
    limit = ConcurrencyLimit(1)
    with Client(concurrency_limit=limit) as client:
        held = client.stream("GET", app.url + "/bytes/5")
        timer = threading.Timer(0.1, held.close)
        begun = time.monotonic()
        timer.start()
        (result,) = client.map([app.url])
        assert time.monotonic() - begun >= 0.1
        assert isinstance(result, curlhttp.Response)
        timer.join()


def test_a_rate_is_observed(app: AppServer) -> None:
    with Client(rate_limit=RateLimit(200, burst=1)) as client:
        begun = time.monotonic()
        assert len(list(client.map([app.url] * 21, concurrency=8))) == 21
        assert time.monotonic() - begun >= 20 / 200 - 0.002


@pytest.mark.slow
def test_a_program_may_end_in_the_middle(app: AppServer) -> None:
    code = """
import sys, curlhttp
results = curlhttp.Client().map([sys.argv[1]] + [sys.argv[1] + "/stall"] * 9)
print(next(results).status_code)
"""
    assert run_script(code, app.url) == "200\n"


def test_a_map_is_closed_from_another_thread(app: AppServer) -> None:
    with Client() as client:
        results = client.map([app.url, app.url + "/stall", app.url + "/stall"])
        next(results)
        thread = threading.Thread(target=results.close)
        thread.start()
        thread.join()
        assert list(results) == []
        assert_nothing_runs(client)
    assert app.wait_for(lambda: not app.open_connections)


def test_code_that_runs_in_a_map_cannot_close_it(app: AppServer) -> None:
    async def closes(request: Any, send: Any) -> Any:
        results.close()

    with Client(middleware=[closes]) as client:
        results = client.map([app.url])
        with pytest.raises(RuntimeError, match="closed from code that it runs"):
            next(results)
        assert list(results) == []


def test_a_middleware_that_needs_a_loop_is_an_error(app: AppServer) -> None:
    async def sleeps(request: Any, send: Any) -> Any:
        import asyncio

        await asyncio.sleep(0)

    with Client(middleware=[sleeps]) as client, pytest.raises(RuntimeError, match="AsyncClient"):
        list(client.map([app.url]))


def test_a_middleware_that_waits_when_cancelled_does_not_affect_a_later_map(app: AppServer) -> None:
    async def stubborn(request: Any, send: Any) -> Any:
        try:
            return await send(request)
        except GeneratorExit:
            return await send(request)

    with Client(middleware=[stubborn]) as client:
        results = client.map([app.url, app.url + "/stall"])
        next(results)
        with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
            results.close()
        (result,) = client.map([app.url])
        assert isinstance(result, curlhttp.Response)
    assert app.wait_for(lambda: not app.open_connections)


# --- time that passes between results ---


def test_a_busy_consumer_is_no_silence_of_the_server(app: AppServer) -> None:
    with Client(timeout=Timeout(read=paced(0.3))) as client:
        urls = [app.url, *[app.url + "/delay/0.1"] * 5]
        results = client.map(urls)
        got = [next(results)]
        time.sleep(paced(0.5))
        got += results
    assert [isinstance(result, curlhttp.Response) for result in got] == [True] * 6


def test_requests_are_sent_while_results_are_available(app: AppServer) -> None:
    with Client() as client:
        results = client.map([app.url] * 20, concurrency=4)
        for _ in range(4):
            next(results)
            time.sleep(0.03)  # all sent requests get responses, which the next result takes
        assert app.wait_for(lambda: len(app.requests) >= 8)


def test_a_silent_server_is_noticed(app: AppServer) -> None:
    with Client(timeout=Timeout(read=0.1)) as client:
        (result,) = client.map([app.url + "/stall"])
    assert isinstance(result, curlhttp.ReadTimeout)


def test_a_busy_consumer_does_not_use_up_the_time_to_connect(app: AppServer, certs: Certs) -> None:
    go = threading.Event()

    def late(conn: RawConnection) -> None:
        go.wait(60)
        with suppress(OSError):
            tls = context.wrap_socket(conn.sock, server_side=True)
            tls.recv(65536)
            tls.sendall(response(b"late"))
            tls.close()

    context = certs.server_context()
    client = Client(verify=certs.ca_path, timeout=Timeout(connect=paced(0.8)))
    with RawServer(late) as server, client:
        results = client.map([app.url, server.url.replace("http:", "https:")])
        next(results)
        time.sleep(paced(0.5))
        go.set()
        time.sleep(paced(0.4))  # the time to connect has passed
        (second,) = results
    assert isinstance(second, curlhttp.Response), second


# --- forks ---


@pytest.mark.slow
def test_a_forked_child_maps_on_its_own_connections(app: AppServer) -> None:
    code = """
import os, sys, curlhttp
url = sys.argv[1]
client = curlhttp.Client()

def total():
    return sum(len(r.content) for r in client.map([url + "/bytes/7"] * 20, concurrency=3))

assert total() == 140
child = os.fork()
assert total() == 140
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert total() == 140
    print("parent")
client.close()
"""
    assert run_script(code, app.url) == "parent\n"
    assert app.connections <= 9


@pytest.mark.slow
def test_a_map_does_not_continue_in_a_forked_child(app: AppServer) -> None:
    code = """
import os, sys, curlhttp
url = sys.argv[1]
client = curlhttp.Client()
ended = []

def urls():
    try:
        for n in range(40):
            yield f"{url}/bytes/{n}"
    finally:
        ended.append(True)

results = client.map(urls(), concurrency=4)
sizes = [len(next(results).content) for _ in range(5)]
child = os.fork()
if not child:
    try:
        next(results)
    except curlhttp.ConnectionError as error:
        assert "parent process of this forked process" in str(error)
        assert not ended
    del results
    client.close()
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
sizes += [len(result.content) for result in results]
assert sorted(sizes) == list(range(40)), sizes
client.close()
print("whole")
"""
    assert run_script(code, app.url) == "whole\n"


# --- Ctrl-C ---

_INTERRUPTED = """
import itertools, sys, curlhttp
url, path = sys.argv[1:]
client = curlhttp.Client(timeout=None, rate_limit=curlhttp.RateLimit(5))

def urls():
    yield url
    print("going", flush=True)
    yield from itertools.repeat(url + path)

got = 0
try:
    for result in client.map(urls(), concurrency=5):
        got += 1
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert not client._sender_pool._idle
again = curlhttp.Client()
assert [r.status_code for r in client.map([url])] == [200]
client.close()
again.close()
print("usable")
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/stall", "/drip?n=1000&interval=0.05"])
def test_ctrl_c_ends_a_map_at_once(app: AppServer, path: str) -> None:
    process = start_script(_INTERRUPTED, app.url, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    assert app.wait_for(lambda: len(app.requests) >= 2)
    app.wait_for(lambda: False, timeout=0.1)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert_in_time(time.monotonic() - sent, 0, 1)
    assert finish_script(process) == "usable\n"


# --- no more than the process may open ---


@pytest.mark.slow
def test_few_open_files_are_enough(app: AppServer) -> None:
    code = """
import resource, sys, curlhttp
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with curlhttp.Client(max_connections=1000) as client:
    got = [r for r in client.map([sys.argv[1] + "/bytes/3"] * 500, concurrency=400)]
assert {r.status_code for r in got} == {200}
print(len(got))
"""
    assert run_script(code, app.url) == "500\n"


def test_requests_of_a_slow_iterable_do_not_wait_until_all_places_are_taken(app: AppServer) -> None:
    taken = 0

    def slow() -> Iterable[str]:
        nonlocal taken
        for _ in range(50):
            threading.Event().wait(0.1)
            taken += 1
            yield app.url + "/bytes/1"

    with Client() as client, client.map(slow(), concurrency=100) as results:
        assert isinstance(next(results), curlhttp.Response)
        assert taken < 50
