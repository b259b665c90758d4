"""The seam at which a mock replaces the network for every engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import curlhttp
from curlhttp import ClientRequest, requests
from curlhttp._runtime.network import network, now, wall
from curlhttp.testing import Answer, ScriptedEngine
from curlhttp.types import Engine
from tests.servers import AppServer
from tests.support.colours import AnyClient, AnyStream
from tests.support.forced import force

pytestmark = pytest.mark.anyio
URL = "http://nowhere.test/"


class _Stand:
    """Respond to everything but what goes to this machine."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine(lambda request: Answer(content=[b"stood ", b"in"]))

    def engine_for(self, request: ClientRequest, engine: object) -> Engine | None:
        return None if request.url.host == "127.0.0.1" else self.engine

    def skip(self, seconds: float) -> bool:
        network.skipped += seconds
        return True

    def make_race(self) -> None:
        """Race in real time."""


@pytest.fixture
def begin() -> Iterator[Callable[[], _Stand]]:
    """Return a function that replaces the network."""

    def put() -> _Stand:
        network.mock(stand := _Stand())
        return stand

    yield put
    network.mock(None)
    network.skipped = 0.0


async def test_a_client_that_was_made_before_is_served(
    client: AnyClient, app: AppServer, begin: Callable[[], _Stand]
) -> None:
    assert (await client.get(app.url)).content == b"hello"
    begin()
    assert (await client.get(URL)).content == b"stood in"
    assert (await client.get(app.url)).content == b"hello"
    network.mock(None)
    assert (await client.get(app.url)).content == b"hello"


async def test_streams_maps_and_downloads_are_served(
    client: AnyClient, begin: Callable[[], _Stand], tmp_path: Path
) -> None:
    begin()
    async with await client.stream("GET", URL) as response:
        assert await response.read() == b"stood in"
    assert [found.content async for found in client.map([URL, URL])] == [b"stood in"] * 2
    found = client.real.download(URL, tmp_path / "file")
    await found if not client.is_blocking else None
    assert (tmp_path / "file").read_bytes() == b"stood in"


async def test_a_stream_outlives_the_stand_in(
    client: AnyClient, begin: Callable[[], _Stand]
) -> None:
    stand = begin()
    response = await client.stream("GET", URL)
    unread = await client.stream("GET", URL)
    network.mock(None)
    assert await response.read() == b"stood in"
    await unread.aclose()
    assert stand.engine.aborted == 1


async def test_waits_take_no_time(client: AnyClient, begin: Callable[[], _Stand]) -> None:
    stand = begin()
    responses = iter([503, 503, 200])
    stand.engine = ScriptedEngine(lambda request: Answer(next(responses), {"Retry-After": "20"}))
    policy = curlhttp.RetryPolicy(max_retries=2)
    assert (await client.get(URL, retry=policy)).status_code == 200
    assert 40 <= network.skipped < 60


def test_the_drop_in_is_served_in_threads_too(begin: Callable[[], _Stand]) -> None:
    begin()
    found: list[bytes] = []

    def ask() -> None:
        found.append(requests.get(URL).content)
        with requests.Session() as session, session.get(URL, stream=True) as streamed:
            found.append(b"".join(streamed.iter_content(3)))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [b"stood in"] * 2


class _Fleeting:
    """A network whose stand-in another thread ends between two looks."""

    skipped = 0.0
    mocked = None

    def __init__(self) -> None:
        self.looks = 0
        self.stand = _Stand()

    @property
    def override(self) -> _Stand | None:
        self.looks += 1
        return self.stand if self.looks == 1 else None


async def test_a_stand_in_may_end_while_it_is_looked_at(
    client: AnyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (False, True):
        for home in ("blocking", "multi"):
            monkeypatch.setattr(f"curlhttp._libcurl.engines.{home}.network", _Fleeting())
        response = await client.request("GET", URL, stream=stream)
        assert response.status_code == 200
        if stream:
            assert await AnyStream(client, response).read() == b"stood in"


def test_the_clock_of_real_engines_is_monotonic(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the wall clock shows is for dates in headers alone."""
    before = time.monotonic()
    assert before <= now() <= time.monotonic()
    force(monkeypatch, "the time of day", lambda: 0.0)  # somebody set it back
    assert wall() == 0.0
    assert now() >= before
