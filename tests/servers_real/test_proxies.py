"""Forward proxies between the clients and nginx, and faults from Toxiproxy."""

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
from tests.servers_real.matrix import H1_ENDPOINTS
from tests.servers_real.program import EVENTS, FILE, SECONDS, VERSIONS
from tests.servers_real.proxies import FORWARD, Toxiproxy
from tests.servers_real.sender import APIS, OF_SESSIONS, POST_APIS, Sender, pieces
from tests.support.colours import COLOURS, ONE_OF_EACH, WITHOUT_UVLOOP
from tests.support.downloads import download
from tests.support.pace import paced

pytestmark = pytest.mark.anyio
MakeSender = Callable[..., Sender]
_ENDPOINTS = ("plain", "tls", "h2")
_NAMES = [kind.name for kind in FORWARD]
forward = pytest.mark.parametrize("name", _NAMES)
each_endpoint = pytest.mark.parametrize("endpoint", _ENDPOINTS)


def _ways(of_clients: tuple[str, ...]) -> pytest.MarkDecorator:
    found = [
        (endpoint, colour, api)
        for endpoint in _ENDPOINTS
        for colour in COLOURS
        for api in of_clients
    ]
    found += [(endpoint, "blocking", api) for endpoint in H1_ENDPOINTS for api in OF_SESSIONS]
    return pytest.mark.parametrize(("endpoint", "colour", "api"), found, indirect=["colour"])


def _check(found: Any, sender: Sender) -> None:
    """Check a response; tinyproxy closes connections after it, and does not say so."""
    if isinstance(found, Exception):
        assert sender.program.name == "tinyproxy", found
        assert sender.url("").startswith("http:"), found
        assert isinstance(found, curlhttp.ConnectionError), found
        assert found.request is not None
        assert (found.request.method, found.request_sent) == ("POST", True)


# --- forward proxies ---


@forward
@_ways(APIS)
async def test_each_api_gets_its_own_response(
    sender_through: MakeSender, name: str, endpoint: str, api: str
) -> None:
    sender = sender_through(name, endpoint)
    found = [await sender.get(api) for _ in range(3)]
    if endpoint != "plain" and api in ("get", "stream", "map"):
        assert {response.http_version for response in found} == {VERSIONS[endpoint]}
        assert any(response.timings.reused for response in found)


@forward
@_ways(POST_APIS)
async def test_bodies_arrive_as_they_were_sent(
    sender_through: MakeSender, name: str, endpoint: str, api: str
) -> None:
    sender = sender_through(name, endpoint)
    for content in (b"pay", payload(200_000), b"", payload(100_000)):
        given: Any = pieces(content) if len(content) == 100_000 else content
        try:
            await sender.post(api, given, content)
        except curlhttp.ConnectionError as error:
            _check(error, sender)


@forward
@each_endpoint
async def test_concurrent_requests_get_their_own_responses(
    sender_through: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_through(name, endpoint)

    async def both() -> None:
        for method in ("GET", "POST") * 3:
            _check(await sender.try_stamp(method), sender)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(sender.in_thread, both)


@forward
@each_endpoint
async def test_files_are_served_whole_and_in_ranges(
    sender_through: MakeSender, name: str, endpoint: str, tmp_path: Path
) -> None:
    sender = sender_through(name, endpoint)
    with sender.counted():
        await download(sender.client, sender.url("/static/file.bin"), tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == FILE
    with sender.counted():
        headers = {"Range": "bytes=1000-1999"}
        response = await sender.client.get(sender.url("/static/file.bin"), headers=headers)
        assert (response.status_code, response.content) == (206, FILE[1000:2000])


@forward
@pytest.mark.parametrize("endpoint", H1_ENDPOINTS)
async def test_messages_and_events_pass_through(
    sender_through: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_through(name, endpoint)
    with sender.counted():
        url = sender.url("/ws").replace("http", "ws", 1)
        async with await sender.client.websocket(url, compression=None) as websocket:
            for text in ("one", "x" * 70_000):
                await websocket.send(text)
                assert await websocket.recv() == text
    with sender.counted():
        async with sender.client.sse(sender.url("/events"), reconnect=False) as events:
            assert [event.data async for event in events] == EVENTS


@each_endpoint
async def test_squid_authenticates_users(sender_through: MakeSender, endpoint: str) -> None:
    for credentials in ("", "user:wrong@"):
        sender = sender_through("squid", endpoint, "asking", credentials)
        for method in ("GET", "POST"):
            with sender.counted(method) as operation:
                url = sender.url("/stamp", operation)
                if endpoint == "plain":
                    response = await sender.client.request(method, url)
                    assert response.status_code == 407
                else:
                    with pytest.raises(curlhttp.exceptions.ProxyError, match="407"):
                        await sender.client.request(method, url)
            assert sender.program.seen()[operation.id] == 0
    sender = sender_through("squid", endpoint, "asking", "user:password@")
    for method in ("GET", "POST"):
        await sender.stamp(method)


@forward
@each_endpoint
@ONE_OF_EACH
async def test_a_proxy_that_is_killed_and_restarted(
    sender_through: MakeSender, name: str, endpoint: str
) -> None:
    sender, found = sender_through(name, endpoint), list[Any]()

    async def ask(method: str) -> None:
        found.append(await sender.try_stamp(method, wait=SECONDS))

    before = sender.program.seen().total()
    async with anyio.create_task_group() as tasks:
        for method in ("GET", "POST"):
            tasks.start_soon(sender.in_thread, partial(ask, method))
        with anyio.fail_after(SECONDS):
            while sender.program.seen().total() < before + 2:
                await anyio.sleep(0.005)
        await anyio.to_thread.run_sync(sender.program.kill)
    for error in found:
        assert isinstance(error, curlhttp.ConnectionError)
        assert error.request_sent
    for method in ("GET", "POST"):
        error = await sender.try_stamp(method)
        assert isinstance(error, curlhttp.ConnectionError)
        assert not error.request_sent
    await anyio.to_thread.run_sync(sender.program.start)
    for method in ("GET", "POST"):
        _check(await sender.try_stamp(method), sender)


# --- Toxiproxy ---


@pytest.fixture
def toxic_sender(sender_for: MakeSender, programs: Programs) -> Callable[..., Sender]:
    """Return a function that makes a sender to nginx through a toxic."""

    def make(endpoint: str, kind: str, settings: dict[str, Any], **toxic: Any) -> Sender:
        toxiproxy = programs.get("toxiproxy")
        assert isinstance(toxiproxy, Toxiproxy)
        sender = sender_for("nginx", endpoint, **settings)
        port = programs.get("nginx").port("plain" if endpoint == "plain" else "tls")
        led = toxiproxy.lead_to(port)
        toxiproxy.spoil(port, kind, **toxic)
        sender.endpoint = sender.endpoint._replace(
            url=sender.endpoint.url.replace(str(port), str(led))
        )
        sender.program = toxiproxy
        return sender

    return make


_AT_ONCE = curlhttp.RetryPolicy(
    9, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001, factor=1.0), budget=None
)
_SLOW: dict[str, dict[str, Any]] = {
    "latency": {"latency": 20, "jitter": 10},
    "bandwidth": {"rate": 5000},
    "slicer": {"average_size": 700, "size_variation": 300, "delay": 10},
}


@each_endpoint
@pytest.mark.parametrize("kind", sorted(_SLOW))
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
async def test_slow_and_sliced_bytes_are_the_same_bytes(
    toxic_sender: MakeSender, endpoint: str, kind: str, stream: str
) -> None:
    sender = toxic_sender(endpoint, kind, {}, stream=stream, **_SLOW[kind])
    await sender.stamp("GET")
    content = payload(50_000)
    await sender.post("post", content, content)
    await sender.post("post", pieces(content), content)
    with sender.counted():
        assert (await sender.client.get(sender.url("/static/file.bin"))).content == FILE


@each_endpoint
@WITHOUT_UVLOOP
async def test_a_body_that_is_cut_is_an_error(toxic_sender: MakeSender, endpoint: str) -> None:
    sender = toxic_sender(endpoint, "limit_data", {}, bytes=100_000)
    for api in ("get", "stream"):
        with pytest.raises(curlhttp.RequestException) as caught, sender.counted():
            url = sender.url("/static/file.bin")
            if api == "get":
                await sender.client.get(url)
            else:
                async with await sender.client.stream("GET", url) as stream:
                    await stream.read()
        assert caught.value.request_sent


@each_endpoint
async def test_a_download_that_is_cut_repeatedly_is_resumed(
    toxic_sender: MakeSender, endpoint: str, tmp_path: Path
) -> None:
    sender = toxic_sender(endpoint, "limit_data", {}, bytes=100_000)
    with sender.counted():
        url, path = sender.url("/static/file.bin"), tmp_path / "file"
        response = await download(sender.client, url, path, retry=_AT_ONCE)
        assert path.read_bytes() == FILE
        assert response.status_code == 206


@each_endpoint
@WITHOUT_UVLOOP
async def test_connections_that_are_reset_or_silent_are_errors(
    toxic_sender: MakeSender, endpoint: str
) -> None:
    limits = Timeout(connect=paced(1.0), read=paced(1.0))
    for kind, attributes in {"reset_peer": {"timeout": 0}, "timeout": {"timeout": 0}}.items():
        sender = toxic_sender(endpoint, kind, {"timeout": limits}, **attributes)
        for method in ("GET", "POST"):
            found = await sender.try_stamp(method)
            kinds = (e.ConnectionError, e.Timeout, e.SSLError)
            assert isinstance(found, kinds), found
            if endpoint == "plain":
                assert found.request_sent or isinstance(found, e.ConnectTimeout), found
