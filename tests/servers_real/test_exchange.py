"""What each server answers, over each version of HTTP, to each way in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

import curlhttp
from tests.servers import payload
from tests.servers_real.matrix import H1_DOORS, doors, doors_and_ways
from tests.servers_real.program import EVENTS, FILE, TEXT, VERSIONS
from tests.servers_real.sender import OF_SESSIONS, POST_WAYS, WAYS, Talk, pieces
from tests.support.downloads import download

pytestmark = pytest.mark.anyio
TalkWith = Callable[..., Talk]


@doors_and_ways(WAYS, OF_SESSIONS)
async def test_each_api_gets_its_own_response(
    talk_with: TalkWith, name: str, door: str, way: str
) -> None:
    talk = talk_with(name, door)
    found = [await talk.get(way) for _ in range(3)]
    if way in ("get", "stream", "map"):
        assert {response.http_version for response in found} == {VERSIONS[door]}
        assert any(response.timings.reused for response in found)


@doors_and_ways(POST_WAYS, OF_SESSIONS)
async def test_bodies_arrive_as_they_were_sent(
    talk_with: TalkWith, name: str, door: str, way: str
) -> None:
    talk = talk_with(name, door)
    for content in (b"pay", payload(200_000), b""):
        await talk.post(way, content, content)
    if door not in talk.program.needs_length:
        for content in (payload(100_000), b"in pieces"):
            await talk.post(way, pieces(content), content)


@doors("expect")
async def test_a_body_waits_for_100_continue(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    content = payload(100_000)
    await talk.post("post", content, content, headers={"Expect": "100-continue"})
    if door in H1_DOORS:  # over the others some send none, which costs a second
        await talk.post("post", pieces(content), content, headers={"Expect": "100-continue"})


@doors()
async def test_head_and_204_have_no_body(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    for method, path, status in [("HEAD", "/stamp", 200), ("GET", "/204", 204)] * 2:
        with talk.counted(method) as operation:
            response = await talk.client.request(method, talk.url(path, operation, n=5))
            assert (response.status_code, response.content) == (status, b"")


@doors()
async def test_redirects_are_followed(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    with talk.counted():
        response = await talk.client.get(talk.url("/redirect/3"))
        assert (response.content, len(response.history)) == (b"hello", 3)


@doors("static")
async def test_a_validator_gets_304(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    url = talk.url("/static/file.bin")
    with talk.counted():
        first = await talk.client.get(url)
        assert first.content == FILE
    fields = {"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"}
    for condition, validator in fields.items():
        if validator in first.headers:
            with talk.counted():
                headers = {condition: first.headers[validator]}
                second = await talk.client.get(url, headers=headers)
                assert (second.status_code, second.content) == (304, b"")
    with talk.counted():
        assert (await talk.client.get(url)).content == FILE


@doors("static")
async def test_ranges_are_the_requested_ones(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    for text, part in {"0-9": FILE[:10], "1000-": FILE[1000:], "-77": FILE[-77:]}.items():
        with talk.counted():
            headers = {"Range": f"bytes={text}", "Accept-Encoding": "identity"}
            response = await talk.client.get(talk.url("/static/file.bin"), headers=headers)
            assert (response.status_code, response.content) == (206, part)


@doors("static")
async def test_a_download_is_resumed(
    talk_with: TalkWith, name: str, door: str, tmp_path: Path
) -> None:
    talk, path = talk_with(name, door), tmp_path / "file"

    def stop_in_the_middle(done: int, total: int | None) -> None:
        if done > 0:
            raise KeyError("enough")

    with talk.counted(), pytest.raises(KeyError, match="enough"):
        url = talk.url("/static/file.bin")
        await download(talk.client, url, path, progress=stop_in_the_middle)
    assert not path.exists()
    with talk.counted():
        checksum = "sha256:" + hashlib.sha256(FILE).hexdigest()
        response = await download(talk.client, url, path, checksum=checksum)
        assert path.read_bytes() == FILE
        assert response.status_code == 206


@doors("gzip")
async def test_codings_are_decoded(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    codings = [coding for coding in ("gzip", "br") if coding in talk.program.can]
    for coding in codings:
        headers = {"Accept-Encoding": coding}
        with talk.counted():
            response = await talk.client.get(talk.url("/static/text.txt"), headers=headers)
            assert response.headers["Content-Encoding"] == coding
            assert response.content == TEXT
        with talk.counted():
            url = talk.url("/static/text.txt")
            async with await talk.client.stream("GET", url, headers=headers) as stream:
                found = [piece async for piece in stream.iterate("bytes", 1000)]
            assert b"".join(found) == TEXT


@doors("trailers")
async def test_trailers_are_returned(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    with talk.counted():
        response = await talk.client.get(talk.url("/trailers"), headers={"TE": "trailers"})
        assert response.content == b"hello"
        checksum = hashlib.sha256(b"hello").hexdigest()
        expected = "of-nginx" if name == "nginx" else checksum
        assert response.trailers["X-Checksum"] == expected


@doors("events")
async def test_events_are_in_order(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    with talk.counted():
        async with talk.client.sse(talk.url("/events"), reconnect=False) as events:
            assert [event.data async for event in events] == EVENTS


@doors("ws", H1_DOORS)
async def test_messages_are_echoed(talk_with: TalkWith, name: str, door: str) -> None:
    talk = talk_with(name, door)
    with talk.counted():
        url = talk.url("/ws").replace("http", "ws", 1)
        async with await talk.client.websocket(url, compression=None) as websocket:
            for text in ("one", "two", "x" * 70_000):
                await websocket.send(text)
                assert await websocket.recv() == text


@doors()
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_map_returns_each_request_its_own_response(
    talk_with: TalkWith, name: str, door: str, method: str
) -> None:
    talk = talk_with(name, door)
    expected: dict[str, bytes] = {}
    asked: list[curlhttp.ClientRequest] = []
    with talk.counted() as all_of_them:
        for _ in range(40):
            with talk.counted(method) as operation:
                url = talk.url("/stamp", operation, n=20)
                expected[url] = operation.id.encode() * 20
                asked.append(curlhttp.ClientRequest(method, url))
        async for found in talk.client.map(asked, concurrency=16):
            assert not isinstance(found, Exception), found
            assert found.content == expected.pop(str(found.request.url))
        assert expected == {}
    assert all_of_them.error is None
