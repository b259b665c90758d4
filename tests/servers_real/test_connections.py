"""Connections of each server: it closes, reloads, restarts, refuses, or goes silent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import Timeout
from tests.servers import Certs, DatagramRelay, Relay
from tests.servers_real.matrix import H1_ENDPOINTS, endpoints
from tests.servers_real.program import SECONDS, Program
from tests.servers_real.sender import Sender
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP
from tests.support.pace import paced

pytestmark = pytest.mark.anyio
MakeSender = Callable[..., Sender]
_METHODS = ("GET", "POST")
# They say by GOAWAY what they did not process, and so lose nothing; others just close or reset.
_POLITE = {("nginx", "h2"), ("haproxy", "h2")}


async def _until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.005)


async def _in_lanes(
    sender: Sender, lanes: int, rounds: int, on_progress: Callable[[int], None] = lambda done: None
) -> list[Exception]:
    """Send GETs and POSTs in so many lanes at once, and return what failed."""
    failures: list[Exception] = []
    done: list[None] = []

    async def lane() -> None:
        for number in range(rounds):
            found = await sender.try_stamp(_METHODS[number % 2])
            if isinstance(found, Exception):
                failures.append(found)
            done.append(None)
            count = len(done)
            if sender.client.is_blocking:
                on_progress(count)
            else:
                await anyio.to_thread.run_sync(on_progress, count)

    async with anyio.create_task_group() as tasks:
        for _ in range(lanes):
            tasks.start_soon(sender.in_thread, lane)
    return failures


# --- connections that end after two requests ---


@endpoints("short", ("plain",))
async def test_connections_that_end_after_two_requests_fail_none(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_for(name, endpoint, "short")
    found = [await sender.stamp(method) for method in _METHODS * 3]
    assert len({response.timings.local for response in found}) > 1  # some end after the third
    assert await _in_lanes(sender, 8, 10) == []


@pytest.mark.parametrize("name", ["nginx", "envoy"])
async def test_goaway_after_two_requests_fails_none(sender_for: MakeSender, name: str) -> None:
    sender = sender_for(name, "h2", "short tls")
    found = [await sender.stamp(method) for method in _METHODS * 3]
    assert {response.http_version for response in found} == {"HTTP/2"}
    assert len({response.timings.local for response in found}) > 1
    assert await _in_lanes(sender, 8, 10) == []


# --- reload ---


@endpoints("reload")
async def test_a_reload_under_load_loses_at_most_posts_that_may_have_been_processed(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_for(name, endpoint)
    due, reloads = [80, 50, 20], list[int]()

    def reload(done: int) -> None:
        with suppress(IndexError):  # a thread that was quicker took the last
            if due and done >= due[-1]:
                reloads.append(due.pop())
                sender.program.reload()

    failures = await _in_lanes(sender, 6, 20, reload)
    assert reloads
    if (name, endpoint) in _POLITE:
        assert failures == []
    for failure in failures:
        assert isinstance(failure, curlhttp.RequestException)
        assert failure.request is not None
        kinds: list[type[curlhttp.RequestException]] = [curlhttp.ConnectionError, curlhttp.SSLError]
        if endpoint in H1_ENDPOINTS:
            # A POST may have been processed; a handshake may be cut, and then nothing was sent. A
            # GET is sent again if a kept connection breaks; a new one may have waited in the
            # backlog of the process that ends.
            if failure.request.method != "POST" and failure.request_sent:
                assert failure.timings is not None
                assert not failure.timings.reused, failure
        else:
            # A connection that is reset takes along what had arrived and was not read.
            kinds += [curlhttp.exceptions.RemoteProtocolError, curlhttp.ChunkedEncodingError]
        assert isinstance(failure, tuple(kinds)), failure


# --- restart ---


@endpoints(only=("plain", "h2", "h3"))
@ONE_OF_EACH
async def test_a_restart_while_connections_are_idle_fails_no_request(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    """HTTP/3 has nobody who says that the server is another one: there it may cost a request."""
    sender = sender_for(
        name, endpoint, timeout=Timeout(read=paced(2.0) if endpoint == "h3" else SECONDS)
    )
    for method, end in (("GET", Program.stop), ("POST", Program.kill)):
        for before in _METHODS:
            await sender.stamp(before)
        await anyio.to_thread.run_sync(end, sender.program)
        await anyio.to_thread.run_sync(sender.program.start)
        found = await sender.try_stamp(method)
        if isinstance(found, Exception):
            assert endpoint == "h3", found
            await sender.stamp(method)


@endpoints(only=("plain", "h2", "h3"))
@ONE_OF_EACH
async def test_a_request_running_when_the_server_is_killed_counts_as_sent(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    timeout = Timeout(read=paced(2.0) if endpoint == "h3" else 2 * SECONDS)
    with_idle, without = sender_for(name, endpoint, timeout=timeout), sender_for(name, endpoint)
    program, found = without.program, list[Any]()
    await with_idle.stamp("GET")

    async def ask(sender: Sender, method: str) -> None:
        found.append(await sender.try_stamp(method, wait=SECONDS))

    before = program.seen().total()
    async with anyio.create_task_group() as tasks:
        for sender in (with_idle, without) if endpoint != "h3" else (with_idle,):
            for method in _METHODS:
                tasks.start_soon(sender.in_thread, partial(ask, sender, method))
        count = 4 if endpoint != "h3" else 2
        await _until(lambda: program.seen().total() >= before + count)
        await anyio.to_thread.run_sync(program.kill)
    await anyio.to_thread.run_sync(program.start)
    assert len(found) == count
    for error in found:
        assert isinstance(error, (curlhttp.ConnectionError, curlhttp.exceptions.ReadTimeout))
        assert error.request_sent
    for method in _METHODS:
        await without.stamp(method)


# --- client certificates ---


@endpoints("mtls", ("tls", "h2"))
async def test_a_client_certificate_that_is_demanded(
    sender_for: MakeSender, name: str, endpoint: str, certs: Certs, tmp_path: Path
) -> None:
    stranger = Certs(tmp_path).client_cert_path()
    for cert in (None, stranger):
        sender = sender_for(name, endpoint, "mtls", cert=cert)
        for method in _METHODS * 2:
            with sender.counted(method) as operation:
                url = sender.url("/stamp", operation)
                with suppress(curlhttp.SSLError, curlhttp.ConnectionError):
                    response = await sender.client.request(method, url)
                    assert response.status_code == 400  # nginx says so within HTTP
            assert sender.program.seen()[operation.id] == 0
    sender = sender_for(name, endpoint, "mtls", cert=certs.client_cert_path())
    for method in _METHODS * 2:
        await sender.stamp(method)


# --- connections that fall silent ---


@endpoints(only=("plain", "h2", "h3"))
@WITHOUT_UVLOOP
async def test_a_silent_connection_fails_only_its_own_requests(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_for(name, endpoint, timeout=Timeout(connect=SECONDS, read=paced(0.3)))
    port = sender.program.port("plain" if endpoint == "plain" else "tls")
    relays: dict[str, Any] = {"h3": DatagramRelay}
    with relays.get(endpoint, Relay)(port) as relay:
        sender.endpoint = sender.endpoint._replace(
            url=sender.endpoint.url.replace(str(port), str(relay.port))
        )
        for method in _METHODS:
            await sender.stamp("GET")
            connections = relay.connections
            relay.forget()
            error = await sender.try_stamp(method)
            assert isinstance(error, curlhttp.exceptions.ReadTimeout)
            assert error.request_sent
            await sender.stamp("GET")
            await sender.stamp("POST")
            assert relay.connections == connections + 1
