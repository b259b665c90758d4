"""The calls of libcurl and of the system that a blocking request makes while it waits."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pycurl
import pytest

from curlhttp import Client
from tests.servers import AppServer
from tests.support.internals import drivers_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no poll")


def _record(client: Client) -> list[Any]:
    """Return a list that gets what the client's only driver does from now on."""
    (driver,) = drivers_of(client).all
    done: list[Any] = []
    act, poll = driver._act, driver.poller.poll

    def acting(descriptor: int, bits: int) -> Any:
        done.append((descriptor, bits))
        return act(descriptor, bits)

    def polling(seconds: float | None) -> Any:
        done.append("poll")
        return poll(seconds)

    driver._act, driver.poller.poll = acting, polling
    return done


def test_a_new_connection_is_driven_before_polling(app: AppServer) -> None:
    """On one machine it is there at once."""
    with Client(headers={"Connection": "close"}) as client:
        client.get(app.url + "/")
        done = _record(client)
        client.get(app.url + "/")
        assert done[0] == (pycurl.SOCKET_TIMEOUT, 0)
        assert done[1] != "poll"
        assert done[1][1] == pycurl.CSELECT_OUT


def test_a_reused_connection_is_driven_once_before_polling(app: AppServer) -> None:
    with Client() as client:
        client.get(app.url + "/")
        done = _record(client)
        client.get(app.url + "/delay/0.05")
        assert done[:2] == [(pycurl.SOCKET_TIMEOUT, 0), "poll"]


def test_a_wait_is_not_ended_by_the_check_of_an_earlier_request(app: AppServer) -> None:
    """A tenth of a second after data arrives, the driver looks whether a response is stuck."""
    with Client() as client:
        client.get(app.url + "/delay/0.05")
        done = _record(client)
        client.get(app.url + "/delay/0.25")
        assert done.count("poll") == 1


def test_a_driver_that_waits_for_the_resolver_is_closed_in_a_real_thread_under_gevent(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gevent makes a greenlet of each thread: all others would wait for it."""
    begun: list[Any] = []
    originals = {("_thread", "start_new_thread"): lambda close, _: begun.append(close)}
    gevent = SimpleNamespace(get_original=lambda *name: originals[name])
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    with Client() as client:
        client.get(app.url + "/")
        drivers = drivers_of(client)
        driver = drivers.acquire()
        driver.is_resolving = True
        drivers.release(driver)
        assert begun == [driver.close]
        driver.close()
