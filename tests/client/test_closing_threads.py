"""A streamed response that one thread reads and another one closes, in the blocking client."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from curlhttp.exceptions import RequestException, StreamConsumedError
from tests.servers import AppServer, H2Server, RawServer, respond_and_stall

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"


def until(is_so: Callable[[], object]) -> None:
    """Wait for what another thread brings about."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def ended_read(stream: curlhttp.StreamedResponse) -> BaseException | None:
    """Close a response whose read waits in another thread, and return what that raised."""
    incoming: Any = stream._incoming
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(stream.read)
        until(lambda: incoming.wake is not None)
        stream.close()
        return read.exception(timeout=30)


def is_free(client: curlhttp.Client) -> bool:
    """Return whether no slot is taken."""
    engine: Any = client._engine
    engine._pool._release_ready()
    return not engine._pool.slots.used and not engine._opened


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


def test_closing_at_any_moment_harms_no_other_request(app: AppServer) -> None:
    """Hundreds of times one thread closes what others read, and still others take its place."""
    chance = random.Random(1)
    delays = [chance.random() * 0.002 for _ in range(400)]
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
