"""A loop over a map that sends requests itself: the map's requests hold what those wait for."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio

import curlhttp
from curlhttp import AdaptiveLimit, AsyncClient, Client, ConcurrencyLimit, RateLimit
from tests.servers import AppServer
from tests.support.colours import AnyClient
from tests.support.forced import force
from tests.support.internals import count_running_maps, run_script

MakeClient = Callable[..., AnyClient]

SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "rate": lambda: {"rate_limit": RateLimit(200)},
    "rate of all origins": lambda: {"rate_limit": RateLimit(200, per=None)},
    "concurrency": lambda: {"concurrency_limit": ConcurrencyLimit(2)},
    "concurrency of all origins": lambda: {"concurrency_limit": ConcurrencyLimit(2, per=None)},
    "adaptive": lambda: {"concurrency_limit": AdaptiveLimit(2, 1, 2)},
    "both": lambda: {"rate_limit": RateLimit(200), "concurrency_limit": ConcurrencyLimit(2)},
    "coalesce": lambda: {"coalesce": True},
}
each_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


@pytest.fixture(autouse=True)
def no_map_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert not count_running_maps()


def urls(app: AppServer, count: int = 12) -> list[str]:
    return [f"{app.url}/bytes/10?seed={number % 5}" for number in range(count)]


@pytest.mark.anyio
@each_setting
async def test_a_loop_over_a_map_may_send_requests(
    settings: Callable[[], dict[str, Any]], make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(**settings())
    got = []
    async for page in client.map(urls(app), concurrency=6, return_exceptions=False):
        got.append(page.status_code)
        assert (await client.get(urls(app)[0])).status_code == 200
    assert got == [200] * 12


@pytest.mark.anyio
@each_setting
async def test_maps_may_be_nested(
    settings: Callable[[], dict[str, Any]], make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(**settings())
    got = 0
    async for _ in client.map(urls(app, 6), concurrency=4, return_exceptions=False):
        async for _ in client.map(urls(app, 3), concurrency=3, return_exceptions=False):
            got += 1
    assert got == 18


@each_setting
def test_two_maps_may_take_turns(settings: Callable[[], dict[str, Any]], app: AppServer) -> None:
    with Client(**settings()) as client:
        first, second = (client.map(urls(app), concurrency=6) for _ in range(2))
        assert len(list(zip(first, second, strict=True))) == 12


@each_setting
@pytest.mark.parametrize("way", ["break", "raise"])
def test_a_request_is_sent_after_a_loop_that_was_left(
    way: str, settings: Callable[[], dict[str, Any]], app: AppServer
) -> None:
    with Client(**settings()) as client:
        results = client.map(urls(app, 40), concurrency=10)
        try:
            for _ in results:
                if way == "break":
                    break
                raise KeyError
        except KeyError:
            pass
        for url in urls(app, 5):
            assert client.get(url).status_code == 200
        results.close()


@each_setting
def test_the_items_of_a_map_may_come_from_requests(
    settings: Callable[[], dict[str, Any]], app: AppServer
) -> None:
    def items() -> Iterator[str]:
        for url in urls(app):
            client.get(url)
            yield url

    with Client(**settings()) as client:
        assert len(list(client.map(items(), concurrency=6, return_exceptions=False))) == 12


@each_setting
def test_a_loop_may_download_and_stream(
    settings: Callable[[], dict[str, Any]], app: AppServer, tmp_path: Any
) -> None:
    with Client(**settings()) as client:
        for _ in client.map(urls(app, 6), concurrency=4, return_exceptions=False):
            client.download(urls(app)[0], tmp_path / "page")
            with client.stream("GET", urls(app)[1]) as streamed:
                assert len(streamed.read()) == 10


@each_setting
def test_other_threads_send_requests_while_the_loop_waits_for_them(
    settings: Callable[[], dict[str, Any]], app: AppServer
) -> None:
    with Client(**settings()) as client, ThreadPoolExecutor(3) as threads:
        for _ in client.map(urls(app, 6), concurrency=4, return_exceptions=False):
            got = list(threads.map(client.get, urls(app, 3)))
            assert [page.status_code for page in got] == [200] * 3


@each_setting
def test_another_client_may_share_the_limits(
    settings: Callable[[], dict[str, Any]], app: AppServer
) -> None:
    shared = settings()
    with Client(**shared) as client, Client(**shared) as other:
        for _ in client.map(urls(app, 6), concurrency=4, return_exceptions=False):
            assert other.get(urls(app)[0]).status_code == 200


@pytest.mark.parametrize("run", [asyncio.run, trio.run])
@pytest.mark.parametrize(
    "limit", [RateLimit(200), ConcurrencyLimit(1), AdaptiveLimit(1, 1, 1)], ids=repr
)
def test_an_event_loop_in_the_body_may_share_a_limit(
    limit: Any, run: Callable[[Any], Any], app: AppServer
) -> None:
    name = "rate_limit" if isinstance(limit, RateLimit) else "concurrency_limit"

    async def get() -> int:
        async with AsyncClient(**{name: limit}) as other:
            return int((await other.get(app.url)).status_code)

    def start() -> Any:
        return run(get()) if run is asyncio.run else run(get)

    with Client(**{name: limit}) as client:
        for _ in client.map(urls(app, 4), concurrency=4, return_exceptions=False):
            assert start() == 200


def test_a_map_that_another_thread_continues_is_stepped_there(app: AppServer) -> None:
    with Client(concurrency_limit=ConcurrencyLimit(2)) as client, ThreadPoolExecutor(1) as thread:
        results = client.map(urls(app), concurrency=6, return_exceptions=False)
        next(results)

        def take() -> int:
            next(results)
            return client.get(app.url).status_code

        for _ in range(5):
            assert thread.submit(take).result() == 200
            assert client.get(app.url).status_code == 200
        assert len(list(results)) == 6


def test_the_limit_is_kept(app: AppServer) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def count(record: Any, conn: Any) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        conn.begin(200, [("Content-Length", "2")])
        with lock:
            now -= 1
        conn.sock.sendall(b"ok")

    app.route("/counted", count)
    with Client(concurrency_limit=ConcurrencyLimit(2)) as client:
        for _ in client.map([app.url + "/counted"] * 20, concurrency=10):
            client.get(app.url + "/counted")
    assert 1 <= most <= 2


def test_results_of_a_paused_map_stay_in_bounds(app: AppServer) -> None:
    taken = 0

    def items() -> Iterator[str]:
        nonlocal taken
        for url in urls(app, 1000):
            taken += 1
            yield url

    with Client(rate_limit=RateLimit(500)) as client:
        results = client.map(items(), concurrency=3, backlog=10)
        next(results)
        for url in urls(app, 20):
            client.get(url)
        assert taken <= 1 + 2 * 3 + 10
        results.close()


def test_a_hook_of_a_map_may_send_requests(app: AppServer) -> None:
    sent = []

    def ask(request: Any) -> None:
        if "asked" not in str(request.url):
            sent.append(client.get(app.url + "/bytes/10?asked").status_code)

    with Client(concurrency_limit=ConcurrencyLimit(2), hooks={"request": ask}) as client:
        got = list(client.map(urls(app), concurrency=6, return_exceptions=False))
    assert len(got) == 12
    assert sent == [200] * 12


def test_a_hook_that_runs_while_the_loop_waits_cannot_end_or_continue_its_map(
    app: AppServer,
) -> None:
    errors: list[str] = []

    def misuse(response: Any) -> None:
        for call in (results.close, lambda: next(results)):
            try:
                call()
            except RuntimeError as error:
                errors.append(str(error))

    limit = ConcurrencyLimit(1)
    with (
        Client(concurrency_limit=limit, hooks={"response": misuse}) as client,
        Client(concurrency_limit=limit) as other,
    ):
        results: Any = client.map(urls(app, 4), concurrency=4, return_exceptions=False)
        next(results)
        errors.clear()
        other.get(app.url)
        assert len(errors) >= 2
        assert "closed" in errors[0]
        assert "another caller" in errors[1]
        results.close()


def test_context_variables_are_those_of_the_loop_in_any_thread(app: AppServer) -> None:
    variable = contextvars.ContextVar("variable", default="other")
    seen: set[str] = set()

    async def note(request: Any, send: Any) -> Any:
        response = await send(request)
        seen.add(variable.get())
        return response

    limit = ConcurrencyLimit(1)
    with (
        Client(concurrency_limit=limit, middleware=[note]) as client,
        Client(concurrency_limit=limit) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        token = variable.set("loop")
        try:
            for _ in client.map(urls(app, 4), concurrency=4, return_exceptions=False):
                thread.submit(other.get, app.url).result()
        finally:
            variable.reset(token)
    assert seen == {"loop"}


# --- waits that cannot end ---

ENDLESS = """
import sys, curlhttp
url = sys.argv[1] + "/bytes/500000"
def show(call):
    try:
        call()
    except curlhttp.PoolTimeout as error:
        print(error)
    else:
        print("no error")
def nested(client):
    for _ in client.map([url] * 5):
        with client.stream("GET", url):
            client.get(url)
for settings in (
    {"concurrency_limit": curlhttp.ConcurrencyLimit(1)},
    {"concurrency_limit": curlhttp.AdaptiveLimit(1, 1, 1)},
    {"max_connections": 1},
):
    with curlhttp.Client(**settings) as client:
        with client.stream("GET", url):
            show(lambda: client.get(url))
        if "max_connections" not in settings:
            with client.stream("GET", url):
                show(lambda: list(client.map([url])))
            show(lambda: nested(client))
        dropped = [client.stream("GET", url)]
        dropped.append(dropped)  # a cycle
        del dropped
        assert client.get(url).status_code == 200
"""


@pytest.mark.slow
def test_a_wait_that_can_never_end_is_an_error(app: AppServer) -> None:
    lines = run_script(ENDLESS, app.url).splitlines()
    assert len(lines) == 7
    assert all("can never end" in line for line in lines[:6])
    assert "can become free" in lines[6]
    assert f"holds them: GET {app.url}/bytes/500000" in lines[6]


ENDS = """
import signal, sys, curlhttp

signal.signal(signal.SIGALRM, lambda *_: stream.close())
how, setting, url = sys.argv[1:]
if setting == "pool":
    settings = {"limits": curlhttp.Limits(max_connections=1)}
else:
    settings = {"concurrency_limit": curlhttp.ConcurrencyLimit(1)}
with curlhttp.Client(**settings) as client:
    stream = client.stream("GET", url + "/bytes/500000")
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    if how == "map":
        print(next(client.map([url])).status_code)
    else:
        print(client.get(url).status_code)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "setting"), [("get", "limit"), ("get", "pool"), ("map", "limit")])
def test_a_wait_that_a_signal_handler_ends_is_no_error(
    app: AppServer, how: str, setting: str
) -> None:
    assert run_script(ENDS, how, setting, app.url) == "200\n"


NATIVE = """
import ctypes
from curlhttp._runtime.running_maps import is_only_thread

print(is_only_thread())
libc = ctypes.CDLL(None)
made = ctypes.c_ulong()
libc.pthread_create(ctypes.byref(made), None, libc.sleep, ctypes.c_void_p(1000))
print(is_only_thread())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists all threads")
def test_a_thread_of_another_language_may_end_a_wait() -> None:
    assert run_script(NATIVE) == "True\nFalse\n"


ENDED = """
import logging, sys, threading, curlhttp
from curlhttp._libcurl import connection_pool
from curlhttp._features.map import engine
from curlhttp._runtime import run

logging.getLogger("curlhttp").setLevel("ERROR")
run.LOOK_AGAIN = engine.LOOK_AGAIN = connection_pool.WARN_AFTER = 0.1
url = sys.argv[1]
limited = {"concurrency_limit": curlhttp.ConcurrencyLimit(1)}
pooled = {"limits": curlhttp.Limits(max_connections=1)}
for settings, send in (
    (limited, lambda client: client.get(url)),
    (limited, lambda client: next(client.map([url]))),
    (pooled, lambda client: client.get(url)),
):
    with curlhttp.Client(**settings) as client, client.stream("GET", url + "/bytes/500000"):
        threading.Thread(target=threading.Event().wait, args=(0.5,)).start()
        try:
            send(client)
        except curlhttp.PoolTimeout as error:
            print(type(error).__name__)
"""


@pytest.mark.slow
def test_a_wait_is_endless_too_once_the_other_threads_have_ended(app: AppServer) -> None:
    assert run_script(ENDED, app.url) == 3 * "PoolTimeout\n"


def test_a_body_that_waits_for_its_own_map_is_an_error(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds before a wait is looked at", 0.1)

    def body() -> Iterator[bytes]:
        client.get(app.url)
        yield b"x"

    with Client(concurrency_limit=ConcurrencyLimit(1)) as client:
        request = client.build_request("POST", app.url + "/echo", content=body())
        (result,) = client.map([request])
    assert isinstance(result, curlhttp.PoolTimeout)
    assert "this wait cannot end" in str(result)
