"""The responses of each server, over each version of HTTP, with each API."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

import curlhttp
from tests.servers import payload
from tests.servers_real.matrix import H1_ENDPOINTS, endpoints, endpoints_and_apis
from tests.servers_real.program import EVENTS, FILE, TEXT, VERSIONS
from tests.servers_real.sender import APIS, OF_SESSIONS, POST_APIS, Sender, pieces
from tests.support.downloads import download

pytestmark = pytest.mark.anyio
MakeSender = Callable[..., Sender]


@endpoints_and_apis(APIS, OF_SESSIONS)
async def test_each_api_gets_its_own_response(
    sender_for: MakeSender, name: str, endpoint: str, api: str
) -> None:
    sender = sender_for(name, endpoint)
    found = [await sender.get(api) for _ in range(3)]
    if api in ("get", "stream", "map"):
        assert {response.http_version for response in found} == {VERSIONS[endpoint]}
        assert any(response.timings.reused for response in found)


@endpoints_and_apis(POST_APIS, OF_SESSIONS)
async def test_bodies_arrive_as_they_were_sent(
    sender_for: MakeSender, name: str, endpoint: str, api: str
) -> None:
    sender = sender_for(name, endpoint)
    for content in (b"pay", payload(200_000), b""):
        await sender.post(api, content, content)
    if endpoint not in sender.program.needs_length:
        for content in (payload(100_000), b"in pieces"):
            await sender.post(api, pieces(content), content)


@endpoints("expect")
async def test_a_body_waits_for_100_continue(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_for(name, endpoint)
    content = payload(100_000)
    await sender.post("post", content, content, headers={"Expect": "100-continue"})
    if endpoint in H1_ENDPOINTS:  # over the others some send none, which costs a second
        await sender.post("post", pieces(content), content, headers={"Expect": "100-continue"})


@endpoints()
async def test_head_and_204_have_no_body(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    for method, path, status in [("HEAD", "/stamp", 200), ("GET", "/204", 204)] * 2:
        with sender.counted(method) as operation:
            response = await sender.client.request(method, sender.url(path, operation, n=5))
            assert (response.status_code, response.content) == (status, b"")


@endpoints()
async def test_redirects_are_followed(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    with sender.counted():
        response = await sender.client.get(sender.url("/redirect/3"))
        assert (response.content, len(response.history)) == (b"hello", 3)


@endpoints("static")
async def test_a_validator_gets_304(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    url = sender.url("/static/file.bin")
    with sender.counted():
        first = await sender.client.get(url)
        assert first.content == FILE
    fields = {"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"}
    for condition, validator in fields.items():
        if validator in first.headers:
            with sender.counted():
                headers = {condition: first.headers[validator]}
                second = await sender.client.get(url, headers=headers)
                assert (second.status_code, second.content) == (304, b"")
    with sender.counted():
        assert (await sender.client.get(url)).content == FILE


@endpoints("static")
async def test_ranges_are_the_requested_ones(
    sender_for: MakeSender, name: str, endpoint: str
) -> None:
    sender = sender_for(name, endpoint)
    for text, part in {"0-9": FILE[:10], "1000-": FILE[1000:], "-77": FILE[-77:]}.items():
        with sender.counted():
            headers = {"Range": f"bytes={text}", "Accept-Encoding": "identity"}
            response = await sender.client.get(sender.url("/static/file.bin"), headers=headers)
            assert (response.status_code, response.content) == (206, part)


@endpoints("static")
async def test_a_download_is_resumed(
    sender_for: MakeSender, name: str, endpoint: str, tmp_path: Path
) -> None:
    sender, path = sender_for(name, endpoint), tmp_path / "file"

    def stop_in_the_middle(done: int, total: int | None) -> None:
        if done > 0:
            raise KeyError("enough")

    with sender.counted(), pytest.raises(KeyError, match="enough"):
        url = sender.url("/static/file.bin")
        await download(sender.client, url, path, progress=stop_in_the_middle)
    assert not path.exists()
    with sender.counted():
        checksum = "sha256:" + hashlib.sha256(FILE).hexdigest()
        response = await download(sender.client, url, path, checksum=checksum)
        assert path.read_bytes() == FILE
        assert response.status_code == 206


@endpoints("gzip")
async def test_codings_are_decoded(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    codings = [coding for coding in ("gzip", "br") if coding in sender.program.can]
    for coding in codings:
        headers = {"Accept-Encoding": coding}
        with sender.counted():
            response = await sender.client.get(sender.url("/static/text.txt"), headers=headers)
            assert response.headers["Content-Encoding"] == coding
            assert response.content == TEXT
        with sender.counted():
            url = sender.url("/static/text.txt")
            async with await sender.client.stream("GET", url, headers=headers) as stream:
                found = [piece async for piece in stream.iterate("bytes", 1000)]
            assert b"".join(found) == TEXT


@endpoints("trailers")
async def test_trailers_are_returned(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    with sender.counted():
        response = await sender.client.get(sender.url("/trailers"), headers={"TE": "trailers"})
        assert response.content == b"hello"
        checksum = hashlib.sha256(b"hello").hexdigest()
        expected = "of-nginx" if name == "nginx" else checksum
        assert response.trailers["X-Checksum"] == expected


@endpoints("events")
async def test_events_are_in_order(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    with sender.counted():
        async with sender.client.sse(sender.url("/events"), reconnect=False) as events:
            assert [event.data async for event in events] == EVENTS


@endpoints("ws", H1_ENDPOINTS)
async def test_messages_are_echoed(sender_for: MakeSender, name: str, endpoint: str) -> None:
    sender = sender_for(name, endpoint)
    with sender.counted():
        url = sender.url("/ws").replace("http", "ws", 1)
        async with await sender.client.websocket(url, compression=None) as websocket:
            for text in ("one", "two", "x" * 70_000):
                await websocket.send(text)
                assert await websocket.recv() == text


@endpoints()
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_map_returns_each_request_its_own_response(
    sender_for: MakeSender, name: str, endpoint: str, method: str
) -> None:
    sender = sender_for(name, endpoint)
    expected: dict[str, bytes] = {}
    asked: list[curlhttp.ClientRequest] = []
    with sender.counted() as all_of_them:
        for _ in range(40):
            with sender.counted(method) as operation:
                url = sender.url("/stamp", operation, n=20)
                expected[url] = operation.id.encode() * 20
                asked.append(curlhttp.ClientRequest(method, url))
        async for found in sender.client.map(asked, concurrency=16):
            assert not isinstance(found, Exception), found
            assert found.content == expected.pop(str(found.request.url))
        assert expected == {}
    assert all_of_them.error is None
