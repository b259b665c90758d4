"""Concurrent threads and tasks on one client, few descriptors, and stale connections."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import Client, requests
from curlhttp.exceptions import RequestException, StreamConsumedError
from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    H2Server,
    RawConnection,
    RawServer,
    Record,
    payload,
    respond_and_stall,
    response,
)
from tests.support.colours import AnyClient
from tests.support.internals import (
    assert_nothing_runs,
    driver_of,
    in_thread,
    is_read,
    run_script,
)

ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])


# --- threads ---


def _matches(client: Client, url: str, size: int, salt: int) -> bool:
    content = client.get(f"{url}/bytes/{size}?seed={salt}").content
    return hashlib.sha256(content).digest() == hashlib.sha256(payload(size, salt)).digest()


def _hammer(client: Client, urls: list[str], seed: int, count: int) -> int:
    """Send requests of a random order of one thread; return the number of correct responses."""
    chosen = random.Random(seed)
    return sum(
        _matches(client, urls[number % len(urls)], chosen.randrange(1, 3000), chosen.randrange(16))
        for number in range(count)
    )


def test_sixteen_threads_on_one_client_get_their_own_responses(app: AppServer) -> None:
    wrong: list[Any] = []

    def work(number: int, client: Client) -> None:
        for turn in range(60):
            size, seed = 100 + 37 * turn, number
            body = client.get(f"{app.url}/bytes/{size}?seed={seed}").content
            if body != payload(size, seed):
                wrong.append((number, turn))
            sent = f"{number}-{turn}".encode()
            seen = client.post(app.url + "/echo", content=sent).json()
            if seen["sha256"] != hashlib.sha256(sent).hexdigest():
                wrong.append((number, turn))

    with Client() as client:
        threads = [threading.Thread(target=work, args=(n, client)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert app.connections <= 16
    assert len(app.requests) == 16 * 60 * 2


def test_threads_that_alternate_between_origins_reuse_connections(
    app: AppServer, tls_app: AppServer, certs: Certs
) -> None:
    urls = [app.url, tls_app.url]
    with Client(verify=certs.ca_path) as client, ThreadPoolExecutor(16) as threads:
        right = list(threads.map(lambda n: _hammer(client, urls, n, 40), range(16)))
    assert right == [40] * 16
    assert app.connections <= 16
    assert tls_app.connections <= 16


def test_threads_share_few_connections_to_many_origins(app: AppServer) -> None:
    with AppServer() as second, AppServer() as third:
        urls = [app.url, second.url, third.url]
        with Client(max_connections=4) as client, ThreadPoolExecutor(16) as threads:
            right = list(threads.map(lambda n: _hammer(client, urls, n, 15), range(16)))
            open_now = app.open_connections + second.open_connections + third.open_connections
        assert right == [15] * 16
        assert open_now <= 8  # four, and the servers may see a close late
        assert app.max_open <= 8


def test_threads_stream_at_once(app: AppServer) -> None:
    def stream(number: int) -> bool:
        with client.stream("GET", f"{app.url}/chunked/300000?seed={number}") as streamed:
            return streamed.read() == payload(300000, number)

    with Client(max_connections=5) as client, ThreadPoolExecutor(16) as threads:
        assert all(threads.map(stream, range(32)))


def test_closing_while_threads_work_ends_every_request_cleanly(app: AppServer) -> None:
    def work() -> None:
        try:
            while True:
                assert client.get(app.url + "/bytes/10").content == payload(10)
        except curlhttp.ClientClosed:
            ended.append(True)

    ended: list[bool] = []
    client = Client(max_connections=3)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert app.wait_for(lambda: len(app.requests) > 100)
    client.close()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 8
    assert app.wait_for(lambda: not app.open_connections)


# --- tasks ---

_TASKS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
import anyio, curlhttp
url, backend, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def main():
    right = most = 0

    async def one(number):
        nonlocal right, most
        size = 1 + number % 50
        response = await client.get(f"{url}/bytes/{size}")
        right += len(response.content) == size
        if number % 50 == 0:
            most = max(most, len(os.listdir("/dev/fd")))

    async with curlhttp.AsyncClient(max_connections=1000) as client:
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(one, number)
        (engine,) = client._engines.values()
        assert engine._max_connections == 192, engine._max_connections
        assert engine._pool.slots.used == 0 and len(engine._pool.all) <= 192
        assert not engine._driver.running
    print(right, most)

options = {"use_uvloop": True} if backend == "uvloop" else {}
anyio.run(main, backend="trio" if backend == "trio" else "asyncio", backend_options=options)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "count"), [("asyncio", 10_000), ("uvloop", 2000), ("trio", 2000)]
)
def test_thousands_of_tasks_need_few_descriptors(app: AppServer, backend: str, count: int) -> None:
    right, most = run_script(_TASKS, app.url, backend, str(count)).split()
    assert int(right) == count
    assert int(most) <= 256
    assert app.max_open <= 192


_THREADS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from concurrent.futures import ThreadPoolExecutor
import curlhttp

def one(number):
    size = 1 + number % 50
    if number % 2:
        return len(client.get(f"{sys.argv[1]}/bytes/{size}").content) == size
    return len(client.get(f"{sys.argv[1]}/bytes/{size}", timeout=(5, 0.9)).content) == size

with curlhttp.Client(max_connections=1000) as client, ThreadPoolExecutor(100) as threads:
    right = sum(threads.map(one, range(1000)))
    print(right, client._engine._pool._max_connections, len(os.listdir("/dev/fd")))
"""


@pytest.mark.slow
def test_many_threads_keep_within_the_limit_of_open_files(app: AppServer) -> None:
    right, bound, most = map(int, run_script(_THREADS, app.url).split())
    assert right == 1000
    assert bound == 48
    assert app.max_open <= bound + 8  # the server may see a close late
    assert most < 256


@pytest.mark.anyio
@ONLY_ASYNC
async def test_concurrent_requests_share_one_http2_connection(
    make_client: Callable[..., AnyClient], h2_app: H2Server
) -> None:
    client = make_client()
    responses = await client.gather(50, "GET", h2_app.url + "/bytes/5000?seed=3")
    assert all(found.content == payload(5000, 3) for found in responses)
    assert h2_app.connections == 1


@pytest.mark.anyio
async def test_a_slow_first_response_does_not_hold_up_the_others(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    close_now = threading.Event()

    def wait(record: Record, conn: AppConnection) -> None:
        assert close_now.wait(60)
        conn.reply(200)

    app.route("/wait", wait)
    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(in_thread, client, "GET", app.url + ("/" if number else "/wait"))
        answered = await anyio.to_thread.run_sync(app.wait_for, lambda: len(app.requests) == 4)
        close_now.set()
    assert answered


# --- connections that the server closed meanwhile ---


def _respond_once_and_close_on(close_now: threading.Event) -> Callable[[RawConnection], None]:
    def handler(conn: RawConnection) -> None:
        if conn.index:
            while conn.read_request()[0]:
                conn.send(response(b"later"))
        elif conn.read_request()[0]:
            conn.send(response(b"first"))
            close_now.wait(60)

    return handler


@pytest.mark.anyio
async def test_a_post_right_after_the_server_closed_is_sent_once_and_succeeds(
    make_client: Callable[..., AnyClient],
) -> None:
    close_now = threading.Event()
    client = make_client()
    with RawServer(_respond_once_and_close_on(close_now)) as server:
        assert (await client.get(server.url + "/")).content == b"first"
        close_now.set()
        assert server.wait_for(lambda: not server.open_connections)
        posted = await client.post(server.url + "/", content=b"once")
        assert posted.content == b"later"
        assert [request[:4] for request in server.requests] == [b"GET ", b"POST"]
        # and the new connection is kept
        assert (await client.post(server.url + "/", content=b"two")).status_code == 200
        assert server.connections <= 3
        await client.aclose()


@pytest.mark.anyio
async def test_a_get_right_after_the_server_closed_succeeds(
    make_client: Callable[..., AnyClient],
) -> None:
    close_now = threading.Event()
    client = make_client()
    with RawServer(_respond_once_and_close_on(close_now)) as server:
        await client.get(server.url + "/")
        close_now.set()
        assert server.wait_for(lambda: not server.open_connections)
        assert (await client.get(server.url + "/")).content == b"later"
        await client.aclose()


@pytest.mark.anyio
@ONLY_ASYNC
async def test_an_idle_connection_that_the_server_closed_wakes_the_loop_once(
    make_client: Callable[..., AnyClient],
) -> None:
    close_now = threading.Event()
    client = make_client()
    with RawServer(_respond_once_and_close_on(close_now)) as server, AppServer() as other:
        await client.get(server.url + "/")
        poller = driver_of(client).poller
        polls: list[Any] = []
        poll = poller.poll

        def counted(seconds: float | None) -> Any:
            polls.append(poll(seconds))
            return polls[-1]

        poller.poll = counted
        close_now.set()
        assert server.wait_for(lambda: not server.open_connections)
        await client.get(other.url + "/delay/0.2")
        assert len(polls) < 25, f"{len(polls)} looks at the sockets for one request"
        del poller.poll
        await client.aclose()


# --- connections that libcurl would use although they are broken ---


def _many_hints(record: Any, stream: Any) -> None:
    for number in range(400):
        stream.head(103, [(f"x-{number}-{n}", "v") for n in range(20)])
    stream.reply(200, b"never seen")


@pytest.mark.anyio
async def test_a_connection_with_a_broken_header_state_is_not_used_again(
    make_client: Callable[..., AnyClient], certs: Certs
) -> None:
    client = make_client(http2=True)
    with H2Server(certs.server_context(alpn=("h2",))) as server:
        server.stream_route("/hints-for-ever", _many_hints)
        assert (await client.get(server.url + "/bytes/7")).content == payload(7)
        with pytest.raises(RequestException):
            await client.get(server.url + "/hints-for-ever")
        for _ in range(3):
            assert (await client.get(server.url + "/bytes/7")).content == payload(7)
        assert (await client.post(server.url + "/echo", content=b"x")).json()["method"] == "POST"
        await client.aclose()


# --- a driver that fails ---


@pytest.mark.anyio
@ONLY_ASYNC
async def test_after_a_failed_callback_the_engine_starts_over(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    def fail(descriptor: int, what: int) -> None:
        raise MemoryError("no room in the poller")

    client = make_client()
    await client.get(app.url + "/")
    first = driver_of(client)
    first.poller.watch = fail
    with pytest.raises(MemoryError), anyio.fail_after(30):
        await client.get(app.url + "/delay/0.05")
    for _ in range(2):
        assert (await client.get(app.url + "/")).status_code == 200
    assert driver_of(client) is not first
    assert_nothing_runs(client)
    assert app.wait_for(lambda: app.open_connections == 1)


# --- one thread reads a streamed response, another closes it ---


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"


def until(is_so: Callable[[], object]) -> None:
    """Wait for what another thread brings about."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def ended_read(stream: curlhttp.StreamedResponse) -> BaseException | None:
    """Close a response whose read waits in another thread, and return what that raised."""
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(stream.read)
        until(lambda: is_read(stream))
        stream.close()
        return read.exception(timeout=30)


def is_free(client: curlhttp.Client) -> bool:
    """Return whether no slot is taken."""
    try:
        assert_nothing_runs(client)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("body", [b"", b"piece"], ids=["nothing came", "some came"])
def test_a_read_that_waits_ends(body: bytes) -> None:
    with RawServer(respond_and_stall(HEAD + body)) as server, curlhttp.Client() as client:
        error = ended_read(client.stream("GET", server.url, timeout=30))
        assert isinstance(error, StreamConsumedError)
        assert str(error) == "this response was closed while it was read"
        assert error.request is not None
        assert is_free(client)


def test_a_read_that_waits_ends_on_http2(h2_app: H2Server) -> None:
    with curlhttp.Client(http2=True, verify=False) as client:
        stream = client.stream("GET", h2_app.url + "/stall-after?sent=3&length=9", timeout=30)
        assert isinstance(ended_read(stream), StreamConsumedError)
        assert is_free(client)


def test_a_read_of_the_drop_in_ends() -> None:
    with RawServer(respond_and_stall(HEAD)) as server, requests.Session() as session:
        response = session.get(server.url, stream=True, timeout=30)
        with ThreadPoolExecutor(1) as threads:
            read = threads.submit(lambda: response.content)
            time.sleep(0.05)
            response.close()
            assert isinstance(read.exception(timeout=30), requests.RequestException)


def test_closing_at_any_moment_breaks_no_other_request(app: AppServer) -> None:
    """One thread closes what others read, hundreds of times, while new requests start."""
    chance = random.Random(1)
    delays = [chance.random() * 0.002 for _ in range(200)]
    with curlhttp.Client(max_connections=4, timeout=30) as client, ThreadPoolExecutor(6) as threads:
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                assert len(client.get(app.url + "/bytes/100").content) == 100
                with client.stream("GET", app.url + "/bytes/100") as stream:
                    assert len(stream.read()) == 100

        others = [threads.submit(ask) for _ in range(2)]
        for delay in delays:
            stream = client.stream("GET", app.url + "/bytes/300000")
            read = threads.submit(stream.read)
            time.sleep(delay)
            stream.close()
            error = read.exception(timeout=30)
            assert error is None or isinstance(error, RequestException), error
        is_over.set()
        for other in others:
            other.result(timeout=30)
        assert is_free(client)
