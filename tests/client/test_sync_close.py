"""AsyncClient.close(), for code without an event loop; and clients that nobody closes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import pytest

import curlhttp
from curlhttp.exceptions import ClientClosed
from tests.servers import AppServer
from tests.support.colours import skip_where_impossible

BACKENDS = pytest.mark.parametrize(
    "backend", ["asyncio", pytest.param("uvloop", marks=pytest.mark.uvloop), "trio"]
)


def run(main: Callable[[], Any], backend: str) -> Any:
    if backend == "uvloop":
        return anyio.run(main, backend="asyncio", backend_options={"use_uvloop": True})
    return anyio.run(main, backend=backend)


@BACKENDS
def test_after_its_loop_a_client_is_closed_without_one(app: AppServer, backend: str) -> None:
    before = app.open_connections
    client = curlhttp.AsyncClient()

    async def main() -> None:
        assert (await client.get(app.url)).content == b"hello"

    run(main, backend)
    client.close()
    assert client.is_closed
    assert app.wait_for(lambda: app.open_connections <= before)
    with pytest.raises(ClientClosed):
        run(main, backend)
    client.close()  # again, without an effect


def test_a_client_of_a_loop_that_pauses_is_closed(app: AppServer) -> None:
    before = app.open_connections
    client, loop = curlhttp.AsyncClient(), asyncio.new_event_loop()
    assert loop.run_until_complete(client.get(app.url)).content == b"hello"
    client.close()
    assert app.wait_for(lambda: app.open_connections <= before)
    loop.close()


@BACKENDS
def test_close_tells_a_program_in_a_loop_to_await_aclose(app: AppServer, backend: str) -> None:
    async def main() -> None:
        async with curlhttp.AsyncClient() as client:
            with pytest.raises(RuntimeError, match=r"await client\.aclose\(\)"):
                client.close()
            assert (await client.get(app.url)).content == b"hello"

    run(main, backend)


@BACKENDS
def test_close_says_what_a_loop_of_another_thread_has_to_end(app: AppServer, backend: str) -> None:
    skip_where_impossible(backend)
    before = app.open_connections
    client = curlhttp.AsyncClient()
    ended: list[type[BaseException]] = []
    closed = threading.Event()

    async def main() -> None:
        with pytest.raises(ClientClosed) as caught:
            await client.get(app.url + "/stall")
        ended.append(type(caught.value))
        await anyio.to_thread.run_sync(closed.wait, 60)

    thread = threading.Thread(target=run, args=(main, backend))
    thread.start()
    try:
        assert app.wait_for(lambda: any(each.path == "/stall" for each in app.requests))
        with pytest.warns(RuntimeWarning, match="could not end 1 request and the connections"):
            client.close()
        assert app.wait_for(lambda: bool(ended) and app.open_connections <= before)
    finally:
        closed.set()
        thread.join(60)
    assert ended == [ClientClosed]


def test_close_says_that_a_transport_needs_a_loop() -> None:
    class Transport(curlhttp.AsyncTransport):
        async def send(self, request: curlhttp.ClientRequest) -> curlhttp.Response:
            return request.respond(200)

    client = curlhttp.AsyncClient(transport=Transport())
    with pytest.warns(RuntimeWarning, match="the transport, whose aclose"):
        client.close()
    assert client.is_closed


LEAVES = """
import anyio, sys, curlhttp

async def waits():
    yield b"first"
    await anyio.sleep_forever()

async def main():
    global client, response
    client = curlhttp.AsyncClient()
    response = await client.post({url!r}, content=waits(), stream=True)
    assert response.status_code == 200
    if {drops!r}:
        client = response = None

anyio.run(main, backend={backend!r}, backend_options={options!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
@pytest.mark.parametrize("drops", [False, True])
def test_a_program_that_closes_nothing_ends_without_a_traceback(
    app: AppServer, backend: str, drops: bool
) -> None:
    options = {"use_uvloop": True} if backend == "uvloop" else {}
    program = LEAVES.format(
        url=app.url + "/echo-stream",
        backend=backend.replace("uvloop", "asyncio"),
        options=options,
        drops=drops,
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stderr) == (0, "")
