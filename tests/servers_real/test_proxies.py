"""Forward proxies between the clients and nginx, and Toxiproxy, which spoils what they say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import Timeout
from curlhttp import exceptions as e
from tests.servers import payload
from tests.servers_real.conftest import Programs
from tests.servers_real.matrix import H1_DOORS
from tests.servers_real.program import EVENTS, FILE, SECONDS, VERSIONS
from tests.servers_real.proxies import FORWARD, Toxiproxy
from tests.servers_real.sender import OF_SESSIONS, POST_WAYS, WAYS, Talk, pieces
from tests.support.colours import COLOURS, ONE_OF_EACH, WITHOUT_UVLOOP
from tests.support.downloads import download
from tests.support.pace import paced

pytestmark = pytest.mark.anyio
TalkWith = Callable[..., Talk]
_DOORS = ("plain", "tls", "h2")
_NAMES = [kind.name for kind in FORWARD]
forward = pytest.mark.parametrize("name", _NAMES)
each_door = pytest.mark.parametrize("door", _DOORS)


def _ways(of_clients: tuple[str, ...]) -> pytest.MarkDecorator:
    found = [(door, colour, way) for door in _DOORS for colour in COLOURS for way in of_clients]
    found += [(door, "blocking", way) for door in H1_DOORS for way in OF_SESSIONS]
    return pytest.mark.parametrize(("door", "colour", "way"), found, indirect=["colour"])


def _check(found: Any, talk: Talk) -> None:
    """Check an answer; tinyproxy closes connections after it, and does not say so."""
    if isinstance(found, Exception):
        assert talk.program.name == "tinyproxy", found
        assert talk.url("").startswith("http:"), found
        assert isinstance(found, curlhttp.ConnectionError), found
        assert found.request is not None
        assert (found.request.method, found.request_sent) == ("POST", True)


# --- forward proxies ---


@forward
@_ways(WAYS)
async def test_each_api_gets_its_own_response(
    talk_through: TalkWith, name: str, door: str, way: str
) -> None:
    talk = talk_through(name, door)
    found = [await talk.get(way) for _ in range(3)]
    if door != "plain" and way in ("get", "stream", "map"):
        assert {response.http_version for response in found} == {VERSIONS[door]}
        assert any(response.timings.reused for response in found)


@forward
@_ways(POST_WAYS)
async def test_bodies_arrive_as_they_were_sent(
    talk_through: TalkWith, name: str, door: str, way: str
) -> None:
    talk = talk_through(name, door)
    for content in (b"pay", payload(200_000), b"", payload(100_000)):
        given: Any = pieces(content) if len(content) == 100_000 else content
        try:
            await talk.post(way, given, content)
        except curlhttp.ConnectionError as error:
            _check(error, talk)


@forward
@each_door
async def test_concurrent_requests_get_their_own_responses(
    talk_through: TalkWith, name: str, door: str
) -> None:
    talk = talk_through(name, door)

    async def both() -> None:
        for method in ("GET", "POST") * 3:
            _check(await talk.try_stamp(method), talk)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(talk.apart, both)


@forward
@each_door
async def test_files_are_served_whole_and_in_ranges(
    talk_through: TalkWith, name: str, door: str, tmp_path: Path
) -> None:
    talk = talk_through(name, door)
    with talk.counted():
        await download(talk.client, talk.url("/static/file.bin"), tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == FILE
    with talk.counted():
        headers = {"Range": "bytes=1000-1999"}
        response = await talk.client.get(talk.url("/static/file.bin"), headers=headers)
        assert (response.status_code, response.content) == (206, FILE[1000:2000])


@forward
@pytest.mark.parametrize("door", H1_DOORS)
async def test_messages_and_events_pass_through(
    talk_through: TalkWith, name: str, door: str
) -> None:
    talk = talk_through(name, door)
    with talk.counted():
        url = talk.url("/ws").replace("http", "ws", 1)
        async with await talk.client.websocket(url, compression=None) as websocket:
            for text in ("one", "x" * 70_000):
                await websocket.send(text)
                assert await websocket.recv() == text
    with talk.counted():
        async with talk.client.sse(talk.url("/events"), reconnect=False) as events:
            assert [event.data async for event in events] == EVENTS


@each_door
async def test_squid_authenticates_users(talk_through: TalkWith, door: str) -> None:
    for credentials in ("", "user:wrong@"):
        talk = talk_through("squid", door, "asking", credentials)
        for method in ("GET", "POST"):
            with talk.counted(method) as operation:
                url = talk.url("/stamp", operation)
                if door == "plain":
                    response = await talk.client.request(method, url)
                    assert response.status_code == 407
                else:
                    with pytest.raises(curlhttp.exceptions.ProxyError, match="407"):
                        await talk.client.request(method, url)
            assert talk.program.seen()[operation.id] == 0
    talk = talk_through("squid", door, "asking", "user:password@")
    for method in ("GET", "POST"):
        await talk.stamp(method)


@forward
@each_door
@ONE_OF_EACH
async def test_a_proxy_that_is_killed_and_restarted(
    talk_through: TalkWith, name: str, door: str
) -> None:
    talk, found = talk_through(name, door), list[Any]()

    async def ask(method: str) -> None:
        found.append(await talk.try_stamp(method, wait=SECONDS))

    before = talk.program.seen().total()
    async with anyio.create_task_group() as tasks:
        for method in ("GET", "POST"):
            tasks.start_soon(talk.apart, partial(ask, method))
        with anyio.fail_after(SECONDS):
            while talk.program.seen().total() < before + 2:
                await anyio.sleep(0.005)
        await anyio.to_thread.run_sync(talk.program.kill)
    for error in found:
        assert isinstance(error, curlhttp.ConnectionError)
        assert error.request_sent
    for method in ("GET", "POST"):
        error = await talk.try_stamp(method)
        assert isinstance(error, curlhttp.ConnectionError)
        assert not error.request_sent
    await anyio.to_thread.run_sync(talk.program.start)
    for method in ("GET", "POST"):
        _check(await talk.try_stamp(method), talk)


# --- Toxiproxy ---


@pytest.fixture
def toxic_talk(talk_with: TalkWith, programs: Programs) -> Callable[..., Talk]:
    """Return a function that makes a talk with nginx which a toxic spoils."""

    def make(door: str, kind: str, settings: dict[str, Any], **toxic: Any) -> Talk:
        toxiproxy = programs.get("toxiproxy")
        assert isinstance(toxiproxy, Toxiproxy)
        talk = talk_with("nginx", door, **settings)
        port = programs.get("nginx").port("plain" if door == "plain" else "tls")
        led = toxiproxy.lead_to(port)
        toxiproxy.spoil(port, kind, **toxic)
        talk.door = talk.door._replace(url=talk.door.url.replace(str(port), str(led)))
        talk.program = toxiproxy
        return talk

    return make


_AT_ONCE = curlhttp.RetryPolicy(
    9, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001, factor=1.0), budget=None
)
_SLOW: dict[str, dict[str, Any]] = {
    "latency": {"latency": 20, "jitter": 10},
    "bandwidth": {"rate": 5000},
    "slicer": {"average_size": 700, "size_variation": 300, "delay": 10},
}


@each_door
@pytest.mark.parametrize("kind", sorted(_SLOW))
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
async def test_slow_and_sliced_bytes_are_the_same_bytes(
    toxic_talk: TalkWith, door: str, kind: str, stream: str
) -> None:
    talk = toxic_talk(door, kind, {}, stream=stream, **_SLOW[kind])
    await talk.stamp("GET")
    content = payload(50_000)
    await talk.post("post", content, content)
    await talk.post("post", pieces(content), content)
    with talk.counted():
        assert (await talk.client.get(talk.url("/static/file.bin"))).content == FILE


@each_door
@WITHOUT_UVLOOP
async def test_a_body_that_is_cut_is_an_error(toxic_talk: TalkWith, door: str) -> None:
    talk = toxic_talk(door, "limit_data", {}, bytes=100_000)
    for way in ("get", "stream"):
        with pytest.raises(curlhttp.RequestException) as caught, talk.counted():
            url = talk.url("/static/file.bin")
            if way == "get":
                await talk.client.get(url)
            else:
                async with await talk.client.stream("GET", url) as stream:
                    await stream.read()
        assert caught.value.request_sent


@each_door
async def test_a_download_that_is_cut_repeatedly_is_resumed(
    toxic_talk: TalkWith, door: str, tmp_path: Path
) -> None:
    talk = toxic_talk(door, "limit_data", {}, bytes=100_000)
    with talk.counted():
        url, path = talk.url("/static/file.bin"), tmp_path / "file"
        response = await download(talk.client, url, path, retry=_AT_ONCE)
        assert path.read_bytes() == FILE
        assert response.status_code == 206


@each_door
@WITHOUT_UVLOOP
async def test_connections_that_are_reset_or_silent_are_errors(
    toxic_talk: TalkWith, door: str
) -> None:
    limits = Timeout(connect=paced(1.0), read=paced(1.0))
    for kind, attributes in {"reset_peer": {"timeout": 0}, "timeout": {"timeout": 0}}.items():
        talk = toxic_talk(door, kind, {"timeout": limits}, **attributes)
        for method in ("GET", "POST"):
            found = await talk.try_stamp(method)
            kinds = (e.ConnectionError, e.Timeout, e.SSLError)
            assert isinstance(found, kinds), found
            if door == "plain":
                assert found.request_sent or isinstance(found, e.ConnectTimeout), found
