"""Requests that wait for a connection while none becomes free: who holds them is logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
import trio

import curlhttp
from curlhttp import AsyncClient, Client
from tests.servers import AppServer
from tests.support.forced import force

BIG = "/bytes/500000"


class Warnings(logging.Handler):
    """Collect warnings, and call a function at the second one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.at_second: Callable[[], object] = int

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if len(self.messages) == 2:
            self.at_second()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Warnings]:
    for engine in ("thread", "loop"):
        force(monkeypatch, f"seconds before a {engine} logs its wait for a connection", 0.05)
        force(monkeypatch, f"seconds before a {engine} logs that wait again", 0.05)
    force(monkeypatch, "seconds in which no slot moves before a wait is logged", 0.05)
    handler = Warnings()
    logging.getLogger("curlhttp").addHandler(handler)
    yield handler
    logging.getLogger("curlhttp").removeHandler(handler)


def check(messages: list[str], app: AppServer) -> None:
    for message in messages[:2]:
        assert message.startswith(f"GET {app.url}/bytes/5 waits for one of 1 connections")
        assert f"held by GET {app.url}{BIG}?token=*** (silent for " in message
        assert "Timeout(pool=...)" in message
        assert "password" not in message


def test_a_thread_that_waits_logs_who_holds_the_connections(
    app: AppServer, warnings: Warnings
) -> None:
    with Client(max_connections=1) as client, ThreadPoolExecutor(1) as thread:
        held = client.stream("GET", app.url + BIG + "?token=password", auth=("me", "password"))
        warnings.at_second = held.close  # without a lock held
        assert thread.submit(client.get, app.url + "/bytes/5").result().status_code == 200
    check(warnings.messages, app)


@pytest.mark.parametrize("run", [asyncio.run, trio.run])
def test_an_event_loop_logs_who_holds_the_connections(
    run: Any, app: AppServer, warnings: Warnings
) -> None:
    async def scenario() -> None:
        was_logged = anyio.Event()
        warnings.at_second = was_logged.set
        async with (
            AsyncClient(max_connections=1) as client,
            anyio.create_task_group() as tasks,
        ):
            url = app.url + BIG + "?token=password"
            async with client.stream("GET", url, auth=("me", "password")):
                tasks.start_soon(client.get, app.url + "/bytes/5")
                with anyio.fail_after(30):
                    await was_logged.wait()

    run(scenario()) if run is asyncio.run else run(scenario)
    check(warnings.messages, app)


def test_a_queue_that_moves_is_no_reason_for_a_warning(app: AppServer, warnings: Warnings) -> None:
    with Client(max_connections=1) as client, ThreadPoolExecutor(4) as threads:
        got = list(threads.map(client.get, [app.url + "/delay/0.01"] * 40))
    assert len(got) == 40
    assert not warnings.messages


def test_a_pool_timeout_ends_the_wait_between_two_warnings(
    app: AppServer, warnings: Warnings
) -> None:
    timeout = curlhttp.Timeout(pool=0.12)
    with Client(max_connections=1) as client, client.stream("GET", app.url + BIG):
        with pytest.raises(curlhttp.PoolTimeout, match="became free in time"):
            client.get(app.url, timeout=timeout)
    assert 1 <= len(warnings.messages) <= 2


def test_a_handler_that_raises_does_not_end_the_request(
    app: AppServer, warnings: Warnings, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        held.close()
        raise KeyError("broken handler")

    with Client(max_connections=1) as client, ThreadPoolExecutor(1) as thread:
        held = client.stream("GET", app.url + BIG)
        warnings.at_second = broken
        assert thread.submit(client.get, app.url).result().status_code == 200
    assert "broken handler" in capsys.readouterr().err


def test_several_threads_wait_and_all_are_served(app: AppServer, warnings: Warnings) -> None:
    with Client(max_connections=2) as client, ThreadPoolExecutor(4) as threads:
        held = [client.stream("GET", app.url + BIG) for _ in range(2)]
        is_logged = threading.Event()
        warnings.at_second = is_logged.set
        waiting = [threads.submit(client.get, app.url) for _ in range(4)]
        assert is_logged.wait(30)
        for stream in held:
            stream.close()
        assert [each.result().status_code for each in waiting] == [200] * 4
    assert "one of 2 connections" in warnings.messages[0]
