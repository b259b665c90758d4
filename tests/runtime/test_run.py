"""Run the shared flow without an event loop."""

from __future__ import annotations

import threading
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from curlhttp import Client, Limits
from curlhttp._runtime.engine import Totals
from curlhttp._runtime.run import ThreadWaiter
from tests.servers import AppServer
from tests.support.forced import force
from tests.support.internals import interrupt_main_thread


@pytest.fixture(params=["one piece", "slices"])
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as elsewhere, and in slices, as on Windows."""
    if request.param == "slices":
        force(monkeypatch, "seconds of a slice of a wait", 0.001)


pytestmark = pytest.mark.usefixtures("_slices")


def test_a_wait_ends_when_another_thread_wakes_it() -> None:
    waiter = ThreadWaiter()
    threading.Timer(0.01, waiter.wake).start()
    assert waiter.wait_blocking(30)
    waiter.wake()
    assert waiter.wait_blocking(30)  # woken before it waits


@pytest.mark.parametrize("seconds", [0, 0.0005, 0.02])
def test_a_wait_that_nothing_ends_lasts_as_long_as_it_may(seconds: float) -> None:
    begun = monotonic()
    assert not ThreadWaiter().wait_blocking(seconds)
    assert monotonic() - begun >= seconds * 0.9  # clocks have steps


def test_ctrl_c_ends_the_wait_for_a_connection(app: AppServer) -> None:
    """Python on Windows waits for a lock to its end."""
    with Client(limits=Limits(max_connections=1), timeout=60) as client:
        with client.stream("GET", app.url + "/bytes/300000"):
            threading.Timer(0.1, interrupt_main_thread).start()
            begun = monotonic()
            with pytest.raises(KeyboardInterrupt):
                client.get(app.url)
            assert monotonic() - begun < 45  # of sixty
        assert client.get(app.url + "/bytes/3").status_code == 200


def test_counts_that_move_to_the_totals_are_read_once() -> None:
    totals = Totals()
    counted = SimpleNamespace(attempts=2, bytes_sent=3, bytes_received=4)

    def find() -> list[Any]:
        mover = threading.Thread(target=totals.take, args=(counted,))
        mover.start()
        movers.append(mover)
        return [counted]

    movers: list[threading.Thread] = []
    for _ in range(3):
        found = totals.read(find)
        assert (found["attempts"], found["bytes_sent"], found["bytes_received"]) == (2, 3, 4)
    for mover in movers:
        mover.join()
