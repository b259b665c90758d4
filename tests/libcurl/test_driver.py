"""What a driver asks of the system and of libcurl, and when."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pycurl
import pytest

from curlhttp import Limits
from curlhttp._libcurl.connection_state import OpenConnections, Quarantine
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.poller import PollSockets
from tests.servers import AppServer
from tests.support.colours import AnyClient
from tests.support.internals import get_engine

needs_poller = pytest.mark.skipif(sys.platform == "win32", reason="select forgets idle sockets")


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver(Limits(), 10)
    driver.chosen = OpenConnections(Quarantine()).chosen
    yield driver
    driver.close()


def _watch(driver: Driver, descriptor: int, what: int = pycurl.POLL_IN) -> None:
    """Tell a driver what libcurl wants to know of a socket."""
    driver._on_socket(what, descriptor, None, None)


@needs_poller
@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_the_socket_of_a_kept_connection_is_not_registered_for_each_request(
    client: AnyClient, app: AppServer
) -> None:
    await client.get(app.url)
    driver = get_engine(client)._driver
    (connection,) = get_engine(client)._connections.open()
    registered: list[int] = []
    watch = driver.poller.watch

    def watching(descriptor: int, what: int) -> None:
        registered.append(descriptor)
        watch(descriptor, what)

    driver.poller.watch = watching
    for _ in range(20):
        await client.get(app.url)
    # Seldom once more: for a new connection with this number, or after an event between requests.
    assert registered.count(connection.descriptor) < 5


@needs_poller
def test_another_socket_with_the_number_of_a_closed_one_is_watched(driver: Driver) -> None:
    near, far = socket.socketpair()
    number = near.fileno()
    _watch(driver, number)
    _watch(driver, number, pycurl.POLL_REMOVE)
    other, its_end = socket.socketpair()
    os.dup2(other.fileno(), number)  # closes the first one without notice, as libcurl does
    _watch(driver, number)
    its_end.send(b"x")
    assert driver.poller.poll(30) == [(number, pycurl.CSELECT_IN)]
    for each in (near, far, other, its_end):
        each.close()


@needs_poller
def test_a_socket_that_libcurl_has_just_chosen_is_not_registered_again(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = socket.socketpair()
    _watch(driver, near.fileno())
    _watch(driver, near.fileno(), pycurl.POLL_REMOVE)
    monkeypatch.setattr(driver.poller, "watch", pytest.fail)
    driver.chosen.add(near.fileno())
    _watch(driver, near.fileno())
    assert driver.broken is None
    far.send(b"x")
    assert driver.poller.poll(30) == [(near.fileno(), pycurl.CSELECT_IN)]
    driver._collect()
    assert not driver.chosen  # in the next turn it may be another one
    near.close()
    far.close()


def test_libcurl_looks_again_at_an_http2_connection_once_it_is_quiet(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at each request on the connection, so not while more arrives anyway."""
    looked: list[Any] = []
    monkeypatch.setattr(driver, "_socket_action", lambda *action: looked.append(action))
    driver._last_event = {5: 100.0}
    assert driver._look_again(100.05) == pytest.approx(100.1)
    driver._last_event[5] = 100.06
    next_look = driver._look_again(100.1)
    assert next_look == pytest.approx(100.16)
    assert not looked
    assert driver._look_again(next_look) == float("inf")
    assert looked == [(5, pycurl.CSELECT_IN)]
    driver._look_again(next_look + 1)
    assert len(looked) == 1


# --- its poller ---


@needs_poller
def test_a_poll_is_for_the_current_events_and_not_for_earlier_ones() -> None:
    sockets = PollSockets()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        descriptor = ours.fileno()
        sockets.watch(descriptor, pycurl.POLL_OUT)
        assert sockets.poll(0) == [(descriptor, pycurl.CSELECT_OUT)]
        assert sockets.poll(0) == [(descriptor, pycurl.CSELECT_OUT)]
        sockets.watch(descriptor, pycurl.POLL_IN)
        assert sockets.poll(0) == []
        theirs.send(b"x")
        assert sockets.poll(0) == [(descriptor, pycurl.CSELECT_IN)]
        sockets.forget(descriptor)
        assert sockets.poll(0) == []
        sockets.watch(descriptor, pycurl.POLL_INOUT)
        assert sockets.poll(0) == [(descriptor, pycurl.CSELECT_IN | pycurl.CSELECT_OUT)]


@needs_poller
def test_a_wait_sees_a_new_socket_under_the_number_of_one_that_was_closed() -> None:
    sockets = PollSockets()
    first, peer = socket.socketpair()
    number = first.fileno()
    sockets.watch(number, pycurl.POLL_IN)
    assert sockets.poll(0) == []
    sockets.forget(number)
    first.close()
    peer.close()
    second, other = socket.socketpair()
    with second, other:
        if second.fileno() != number:
            os.dup2(second.fileno(), number)
        sockets.watch(number, pycurl.POLL_IN)
        other.send(b"x")
        assert sockets.poll(0) == [(number, pycurl.CSELECT_IN)]
        if second.fileno() != number:
            os.close(number)
