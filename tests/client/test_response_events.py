"""The events of an open response: iter_events and aiter_events."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from curlhttp.exceptions import (
    ChunkedEncodingError,
    HTTPError,
    ResponseTooLarge,
    StreamConsumedError,
)
from curlhttp.testing import Answer
from curlhttp.types import ServerSentEvent
from tests.servers import AppServer, RawConnection, RawServer
from tests.support.colours import ONE_OF_EACH, AnyClient, AnyResults, AnyStream
from tests.support.scripted import URL, Scripted

pytestmark = pytest.mark.anyio

KIND = {"Content-Type": "text/event-stream"}
BODY = b"data: 1\n\nid: 2\nretry: 3\n\n"


async def take(stream: AnyStream, **options: Any) -> list[ServerSentEvent]:
    """Return all events of a stream of any colour."""
    return [event async for event in stream.iterate("events", **options)]


def open_events(client: AnyClient, stream: AnyStream) -> AnyResults:
    """Return the iterator of a stream of any colour."""
    real = stream.real
    return AnyResults(client, real.iter_events() if client.is_blocking else real.aiter_events())


@ONE_OF_EACH
@pytest.mark.parametrize("kind", ("text/event-stream", "application/json"))
async def test_a_program_may_take_events_or_json(scripted: Scripted, kind: str) -> None:
    body = b'{"n": 1}' if kind.endswith("json") else b'data: {"n": 1}\n\n'
    client, _ = scripted([Answer(headers={"Content-Type": kind}, content=body)])
    async with await client.stream("POST", URL, json={"ask": 1}) as stream:
        if stream.real.headers["Content-Type"] == "text/event-stream":
            found = [event.json() for event in await take(stream)]
        else:
            found = [json.loads(await stream.read())]
    assert found == [{"n": 1}]


async def test_events_arrive_before_the_next_are_sent(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        conn.send("id: 7\nevent: new\ndata: h\xe9\ndata: b\r\r".encode())
        conn.stall()

    with RawServer(handler) as server:
        async with await client.stream("GET", server.url) as stream:
            event = await stream.iterate("events").__anext__()
    assert event == ServerSentEvent("new", "h\xe9\nb", "7")


@ONE_OF_EACH
@pytest.mark.parametrize("size", (1, 7))
async def test_events_are_utf_8_and_decoded_wherever_they_are_cut(
    scripted: Scripted, size: int
) -> None:
    body = gzip.compress("data: h\xe9\n\ndata: \u20ac\n\ndata: half".encode())
    headers = {"Content-Type": "text/event-stream; charset=latin-1", "Content-Encoding": "gzip"}
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    client, _ = scripted([Answer(headers=headers, content=pieces)])
    async with await client.stream("GET", URL) as stream:
        assert [event.data for event in await take(stream)] == ["h\xe9", "\u20ac"]


@ONE_OF_EACH
@pytest.mark.parametrize("kind", ("application/json", None))
async def test_another_type_is_refused_and_the_body_can_still_be_read(
    scripted: Scripted, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    client, _ = scripted([Answer(400, headers=headers, content=b'{"error": 1}')])
    async with await client.stream("GET", URL) as stream:
        with pytest.raises(HTTPError, match=f"status is 400, .*{kind}") as caught:
            await take(stream)
        assert caught.value.response is stream.real
        assert await stream.read() == b'{"error": 1}'


@ONE_OF_EACH
async def test_an_event_beyond_the_bound_ends_the_stream(scripted: Scripted) -> None:
    content = [b"data: 1\n\n", b"data: " + b"x" * 50 + b"\n\n", b"data: 2\n\n"]
    client, engine = scripted([Answer(headers=KIND, content=content)] * 2)
    found = []
    async with await client.stream("GET", URL) as stream:
        with pytest.raises(ResponseTooLarge, match=f"GET {URL}: .*max_event_size=20") as caught:
            async for event in stream.iterate("events", max_event_size=20):
                found.append(event.data)
    assert found == ["1"]
    assert caught.value.response is stream.real
    assert caught.value.request_sent
    assert engine.aborted == 1
    async with await client.stream("GET", URL) as stream:
        assert len(await take(stream, max_event_size=None)) == 3


@ONE_OF_EACH
@pytest.mark.parametrize("size", ("1", -1, 1.5))
async def test_a_wrong_bound_is_refused(scripted: Scripted, size: Any) -> None:
    client, _ = scripted([Answer(headers=KIND)])
    async with await client.stream("GET", URL) as stream:
        with pytest.raises((TypeError, ValueError), match="max_event_size"):
            await take(stream, max_event_size=size)


@ONE_OF_EACH
async def test_a_broken_stream_yields_the_events_before_the_break(scripted: Scripted) -> None:
    answer = Answer(
        headers=KIND, content=[b"data: 1\n\ndata: 2"], error=ChunkedEncodingError("cut")
    )
    client, _ = scripted([answer])
    found = []
    async with await client.stream("GET", URL) as stream:
        with pytest.raises(ChunkedEncodingError):
            async for event in stream.iterate("events"):
                found.append(event.data)
    assert found == ["1"]


@ONE_OF_EACH
async def test_the_limit_of_the_body_counts(scripted: Scripted) -> None:
    client, _ = scripted([Answer(headers=KIND, content=[b"data: 1\n\n"] * 10)])
    with pytest.raises(ResponseTooLarge, match="max_response_size"):
        async with await client.stream("GET", URL, max_response_size=40) as stream:
            await take(stream)


@ONE_OF_EACH
async def test_events_can_be_read_once(scripted: Scripted) -> None:
    client, _ = scripted([Answer(headers=KIND, content=b"data: 1\n\n")])
    async with await client.stream("GET", URL) as stream:
        assert len(await take(stream)) == 1
        with pytest.raises(StreamConsumedError):
            await take(stream)


@ONE_OF_EACH
async def test_the_iterator_tells_the_id_and_the_wait_that_came_without_an_event(
    scripted: Scripted,
) -> None:
    content = [b"id: 1\ndata: a\n\nid: 2\n", b"retry: 50\n\n", b"data: b\n\n", b"id: 3\n\n"]
    client, _ = scripted([Answer(headers=KIND, content=content)])
    async with await client.stream("GET", URL) as stream:
        events = open_events(client, stream)
        found = [(events.real.last_event_id, events.real.retry)]
        async for event in events:
            found.append((events.real.last_event_id, events.real.retry))
            assert event.id == events.real.last_event_id
        found.append((events.real.last_event_id, events.real.retry))
    assert found == [("", None), ("1", None), ("2", 50), ("3", 50)]


@ONE_OF_EACH
async def test_the_iterator_of_a_broken_stream_tells_how_far_it_came(scripted: Scripted) -> None:
    answer = Answer(headers=KIND, content=[b"id: 7\n\nid: 8"], error=ChunkedEncodingError("cut"))
    client, _ = scripted([answer])
    async with await client.stream("GET", URL) as stream:
        events = open_events(client, stream)
        with pytest.raises(ChunkedEncodingError):
            assert [event async for event in events] == []
    assert events.real.last_event_id == "7"


@ONE_OF_EACH
async def test_a_response_in_memory_has_events_too(scripted: Scripted) -> None:
    client, _ = scripted([Answer(headers=KIND, content=BODY)])
    response = await client.get(URL)
    events, later = response.iter_events(), response.aiter_events()
    assert [event.data for event in events] == ["1"]
    assert [event.data async for event in later] == ["1"]
    assert (events.last_event_id, events.retry) == ("2", 3)
    assert (later.last_event_id, later.retry) == ("2", 3)


@dataclass
class Price:
    """What the events of a test hold."""

    amount: int


def test_the_json_of_an_event_may_be_of_a_type() -> None:
    event = ServerSentEvent(data='{"amount": 3}')
    assert event.json(type=Price) == Price(3)
    assert ServerSentEvent(data='[{"amount": 3}]').json(type=list[Price]) == [Price(3)]
    assert event.json(parse_int=str) == {"amount": "3"}
    with pytest.raises(curlhttp.JSONTypeError, match="does not fit Price"):
        ServerSentEvent(data='{"amount": "x"}').json(type=Price)
    with pytest.raises(curlhttp.JSONDecodeError):
        ServerSentEvent(data="[DONE]").json(type=Price)


@pytest.mark.parametrize("stream", (False, True))
def test_a_response_of_the_drop_in_has_events_too(app: AppServer, stream: bool) -> None:
    app.route("/events", lambda record, out: out.reply(200, BODY, list(KIND.items())))
    with requests.Session() as session:
        response = session.get(app.url + "/events", stream=stream)
        events = response.iter_events()
        assert [event.data for event in events] == ["1"]
        assert (events.last_event_id, events.retry) == ("2", 3)
        with pytest.raises(HTTPError, match="not an event stream"):
            session.get(app.url + "/echo", stream=stream).iter_events()
