"""The thread that watches sockets for event loops that cannot."""

from __future__ import annotations

import asyncio
import gc
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trio

from curlhttp import AsyncClient, Client, Limits, Timeout
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.driver_pool import PooledDriver
from curlhttp._libcurl.poller import SelectSockets, WakeableSockets
from curlhttp._libcurl.socket_thread import SocketThread
from curlhttp.exceptions import ClientClosed, ConnectionError, ReadTimeout, StreamConsumedError
from tests.servers import AppServer, RawServer, respond_and_stall
from tests.servers.websocket import echo, speaking
from tests.support.colours import IS_WINE, UnwatchingLoop
from tests.support.forced import force
from tests.support.internals import count_descriptors, is_read, is_receiving

Main = Callable[[], Any]
_NAME = "curlhttp: sockets"


def run(main: Main) -> Any:
    """Run a coroutine on a new loop that watches no sockets, and close the loop."""
    loop: asyncio.AbstractEventLoop
    loop = asyncio.new_event_loop() if sys.platform == "win32" else UnwatchingLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == _NAME]


@pytest.fixture(params=["poll", "select"])
def pollers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the drivers and their threads use select, as on Windows, or what is best here."""
    if request.param == "select":
        monkeypatch.setattr(Driver, "_make_poller", staticmethod(SelectSockets))
        monkeypatch.setattr(PooledDriver, "_make_poller", staticmethod(WakeableSockets))
        monkeypatch.setattr("curlhttp._libcurl.socket_thread.make_small_poller", SelectSockets)
    return str(request.param)


pytestmark = pytest.mark.usefixtures("pollers")


def test_the_thread_starts_with_the_first_request_and_ends_with_the_client(app: AppServer) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            assert not threads()
            for _ in range(3):
                assert (await client.get(app.url)).status_code == 200
            assert threads() == [_NAME]
        assert not threads()

    run(main)


def test_three_hundred_requests_at_once(app: AppServer) -> None:
    async def main() -> None:
        async with AsyncClient(limits=Limits(max_connections=300), timeout=60) as client:
            found = await asyncio.gather(*(client.get(app.url) for _ in range(300)))
            assert {response.status_code for response in found} == {200}

    run(main)
    assert not threads()


def test_a_loop_after_another_with_the_same_client_leaves_one_thread(app: AppServer) -> None:
    client = AsyncClient()

    async def main() -> None:
        assert (await client.get(app.url)).status_code == 200

    for _ in range(5):
        run(main)
        assert len(threads()) == 1
    run(client.aclose)
    assert not threads()


def test_a_forgotten_client_leaves_no_thread_and_no_socket(app: AppServer) -> None:
    async def main() -> None:
        assert (await AsyncClient().get(app.url)).status_code == 200

    def once() -> int:
        run(main)
        gc.collect()
        assert app.wait_for(lambda: not threads() and not app.open_connections)
        return count_descriptors()

    before = once()
    assert max(once() for _ in range(5)) <= before


def test_a_cancelled_request_leaves_the_client_usable(app: AppServer) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            for _ in range(5):
                before = len(app.requests)
                task = asyncio.ensure_future(client.get(app.url + "/stall"))
                while len(app.requests) == before:
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await client.get(app.url)).status_code == 200

    run(main)
    assert not threads()


def test_a_closed_server_and_a_silent_one_are_noticed(app: AppServer) -> None:
    async def main() -> None:
        async with AsyncClient(timeout=Timeout(connect=30, read=0.2)) as client:
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                with pytest.raises(ConnectionError, match=r"[Rr]efused"):
                    await client.get(f"http://127.0.0.1:{closed.getsockname()[1]}/")
            with pytest.raises(ReadTimeout):
                await client.get(app.url + "/stall")

    run(main)


@pytest.mark.skipif(IS_WINE, reason="wine lacks SIO_BSP_HANDLE_SELECT, which trio needs")
def test_trio_uses_the_thread_if_the_poller_has_no_descriptor(app: AppServer, pollers: str) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            for _ in range(3):
                assert (await client.get(app.url)).status_code == 200
            assert threads() == ([_NAME] if pollers == "select" else [])

    trio.run(main)
    assert not threads()


def test_a_map_works_on_every_poller(app: AppServer) -> None:
    with Client() as client:
        found = client.map([app.url] * 40, concurrency=10)
        assert {response.status_code for response in found} == {200}  # type: ignore[union-attr]


# --- the poller by select ---


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(5)]
    yield made
    for near, far in made:
        near.close()
        far.close()


def test_select_waits_for_no_socket() -> None:
    assert SelectSockets().poll(0) == []
    assert SelectSockets().poll(0.001) == []


def test_select_reports_what_is_wanted(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    sockets = SelectSockets()
    for near, _ in pairs:
        sockets.watch(near.fileno(), 1)
    assert sockets.poll(0) == []
    pairs[2][1].send(b"x")
    assert sockets.poll(None) == [(pairs[2][0].fileno(), 1)]
    sockets.watch(pairs[2][0].fileno(), 3)
    assert sockets.poll(None) == [(pairs[2][0].fileno(), 3)]
    sockets.forget(pairs[2][0].fileno())
    assert sockets.poll(0) == []


def test_select_takes_more_sockets_than_one_call_can(
    pairs: list[tuple[socket.socket, socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 2
    real = select.select

    def limited(*lists: Any) -> Any:
        assert all(len(each) <= most for each in lists[:3])
        return real(*lists)

    monkeypatch.setattr(select, "select", limited)
    force(monkeypatch, "sockets that select takes", most)
    sockets = SelectSockets()
    for near, _ in pairs:
        sockets.watch(near.fileno(), 1)
    assert sockets.poll(0.001) == []
    pairs[0][1].send(b"x")
    pairs[4][1].send(b"x")
    assert sorted(sockets.poll(None)) == sorted((pairs[n][0].fileno(), 1) for n in (0, 4))


def test_select_reports_a_closed_socket_and_still_the_others(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    sockets = SelectSockets()
    number = pairs[0][0].fileno()
    for near, _ in pairs:
        sockets.watch(near.fileno(), 1)
    pairs[0][0].close()
    pairs[1][1].send(b"x")
    assert sorted(sockets.poll(None)) == sorted([(number, 1), (pairs[1][0].fileno(), 1)])


def test_select_takes_more_sockets_than_one_call_of_windows_can() -> None:
    made = [socket.socketpair() for _ in range(260)]  # one call takes 512
    ends = [end for pair in made for end in pair]
    sockets = SelectSockets()
    for end in ends:
        sockets.watch(end.fileno(), 1)
    assert sockets.poll(0.01) == []
    ends[0].send(b"x")
    ends[-1].send(b"x")
    assert sorted(sockets.poll(None)) == sorted((end.fileno(), 1) for end in (ends[1], ends[-2]))
    for end in ends:
        end.close()


# --- threads that another one wakes, where shutting a socket down may not end a select ---


@pytest.fixture
def only_select(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll", raising=False)
    force(monkeypatch, "the events of a socket that can be read", 0)
    for module in ("driver_pool", "streams.blocking"):
        monkeypatch.setattr(f"curlhttp._libcurl.{module}.shut_down", lambda *arguments: None)


def test_a_wait_ends_once_for_each_wake() -> None:
    sockets = WakeableSockets()
    assert sockets.poll(0) == []
    with ThreadPoolExecutor(1) as threads:
        woken = threads.submit(sockets.poll, None)
        sockets.wake()
        sockets.wake()
        assert woken.result(timeout=30) == []
    sockets.poll(0)
    assert sockets.descriptors() == []
    near, far = socket.socketpair()
    with near, far:
        sockets.watch(near.fileno(), 1)
        sockets.wake()
        far.send(b"x")
        while not (found := sockets.poll(None)):
            pass
        assert found == [(near.fileno(), 1)]
        assert sockets.descriptors() == [near.fileno()]
    sockets.close()
    sockets.wake()


@pytest.mark.usefixtures("only_select")
def test_closing_a_response_ends_the_read_of_another_thread() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    with RawServer(respond_and_stall(head)) as server, Client(timeout=60) as client:
        for _ in range(3):
            stream = client.stream("GET", server.url)
            with ThreadPoolExecutor(1) as threads:
                read = threads.submit(stream.read)
                while not is_read(stream):
                    assert not read.done()
                stream.close()
                assert isinstance(read.exception(timeout=30), StreamConsumedError)


@pytest.mark.usefixtures("only_select")
def test_closing_a_client_ends_the_wait_of_another_thread_for_a_message() -> None:
    with RawServer(speaking(echo)) as server:
        client = Client(timeout=60)
        websocket = client.websocket(server.url)
        with ThreadPoolExecutor(1) as threads:
            received = threads.submit(websocket.recv, 60)
            while not is_receiving(websocket):
                assert not received.done()
            client.close()
            assert isinstance(received.exception(timeout=30), ClientClosed)


# --- the thread by itself ---


def test_a_change_is_seen_while_the_thread_waits(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    calls: list[str] = []
    seen = threading.Event()
    thread = SocketThread(lambda call: call(), lambda: None)

    def on_readable(name: str, near: socket.socket) -> None:
        calls.append(name)
        near.recv(10)
        seen.set()

    for number, (near, far) in enumerate(pairs):
        thread.add_reader(near.fileno(), on_readable, str(number), near)
        far.send(b"x")
        assert seen.wait(30)
        seen.clear()
    thread.remove_reader(pairs[0][0].fileno())
    pairs[0][1].send(b"x")
    pairs[1][1].send(b"x")
    assert seen.wait(30)
    assert calls == ["0", "1", "2", "3", "4", "1"]
    thread.close()
    thread.join()


def test_the_thread_ends_when_its_loop_has(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    def ended(call: object) -> None:
        raise RuntimeError("Event loop is closed")

    thread = SocketThread(ended, lambda: None)
    near, far = pairs[0]
    thread.watch(near.fileno(), 1)
    far.send(b"x")
    thread.join()
    thread.watch(near.fileno(), 3)  # nobody listens any more
    thread.close()
    thread.close()
