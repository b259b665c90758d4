"""The poller of macOS and the BSDs, on a model of kqueue's rules."""

from __future__ import annotations

import socket
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import anyio
import pycurl
import pytest

from curlhttp import Timeout
from curlhttp._libcurl.poller import KqueueSockets
from curlhttp.exceptions import ConnectionError, ReadTimeout
from tests.servers import AppServer, RawServer
from tests.support import kqueue
from tests.support.colours import AnyClient
from tests.support.internals import use_kqueue

IN, OUT, BOTH = pycurl.POLL_IN, pycurl.POLL_OUT, pycurl.POLL_INOUT

on_each_loop = pytest.mark.colours("asyncio", "uvloop", "trio")
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _on_kqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    use_kqueue(monkeypatch, kqueue)


@pytest.fixture
def sockets() -> Iterator[KqueueSockets]:
    found = KqueueSockets()
    yield found
    found.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


Pair = tuple[socket.socket, socket.socket]


def test_a_socket_is_reported_for_what_is_watched(sockets: KqueueSockets, pair: Pair) -> None:
    ours, theirs = pair
    sockets.watch(ours.fileno(), IN)
    assert sockets.poll(0) == []
    theirs.send(b"x")
    assert sockets.poll(0) == [(ours.fileno(), pycurl.CSELECT_IN)]
    sockets.watch(ours.fileno(), OUT)
    assert sockets.poll(0) == [(ours.fileno(), pycurl.CSELECT_OUT)]


def test_a_socket_that_is_ready_for_both_is_reported_once(
    sockets: KqueueSockets, pair: Pair
) -> None:
    ours, theirs = pair
    theirs.send(b"x")
    sockets.watch(ours.fileno(), BOTH)
    assert sockets.poll(0) == [(ours.fileno(), pycurl.CSELECT_IN | pycurl.CSELECT_OUT)]


def test_watching_again_changes_nothing(sockets: KqueueSockets, pair: Pair) -> None:
    ours, theirs = pair
    theirs.send(b"x")
    for _ in range(2):
        sockets.watch(ours.fileno(), IN)
    assert sockets.poll(0) == [(ours.fileno(), pycurl.CSELECT_IN)]
    for _ in range(2):
        sockets.forget(ours.fileno())
    assert sockets.poll(0) == []


@pytest.mark.parametrize("what", [IN, OUT, BOTH])
def test_the_end_of_a_connection_is_readable(sockets: KqueueSockets, pair: Pair, what: int) -> None:
    """libcurl finds the reason by reading, also while it only sends."""
    ours, theirs = pair
    sockets.watch(ours.fileno(), what)
    theirs.close()
    [(descriptor, bits)] = sockets.poll(0)
    assert descriptor == ours.fileno()
    assert bits & pycurl.CSELECT_IN


def test_a_closed_socket_is_neither_reported_nor_in_the_way(sockets: KqueueSockets) -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    sockets.watch(number, BOTH)
    theirs.close()
    ours.close()
    assert sockets.poll(0) == []
    sockets.forget(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sockets.watch(number, IN)


def test_a_new_socket_with_the_number_of_a_closed_one_is_watched(sockets: KqueueSockets) -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    sockets.watch(number, BOTH)
    ours.close()
    again, other = socket.socketpair()
    with theirs, again, other:
        assert again.fileno() == number
        sockets.watch(number, IN)
        assert sockets.poll(0) == []
        other.send(b"x")
        assert sockets.poll(0) == [(number, pycurl.CSELECT_IN)]


def test_the_descriptor_is_readable_while_a_socket_is_ready(
    sockets: KqueueSockets, pair: Pair
) -> None:
    outer = KqueueSockets()
    outer.watch(sockets.fileno(), IN)
    sockets.watch(pair[0].fileno(), IN)
    assert outer.poll(0) == []
    pair[1].send(b"x")
    assert outer.poll(0) == [(sockets.fileno(), pycurl.CSELECT_IN)]
    outer.close()


@on_each_loop
async def test_requests_run_at_once_on_kept_connections(client: AnyClient, app: AppServer) -> None:
    for _ in range(3):
        responses = await client.gather(50, "GET", app.url + "/bytes/3")
        assert {response.status_code for response in responses} == {200}


@on_each_loop
async def test_large_bodies_go_both_ways(client: AnyClient, app: AppServer) -> None:
    body = b"x" * (1 << 20)
    response = await client.post(app.url + "/echo", content=body)
    assert b64decode(response.json()["body"]) == body
    async with await client.stream("GET", app.url + "/bytes/3000000") as streamed:
        assert len(await streamed.read()) == 3_000_000


@on_each_loop
async def test_failures_are_those_of_other_pollers(make_client: Any, app: AppServer) -> None:
    client = make_client()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionError, match="refused"):
            await client.get(f"http://127.0.0.1:{bound.getsockname()[1]}/")
    with pytest.raises(ReadTimeout):
        await client.get(app.url + "/stall", timeout=Timeout(read=0.05))
    with RawServer(lambda conn: conn.close()) as server, pytest.raises(ConnectionError):
        await client.get(server.url)
    with anyio.move_on_after(0.05):
        await client.get(app.url + "/stall")
    assert (await client.get(app.url + "/bytes/3")).status_code == 200
