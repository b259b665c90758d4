"""client.sse: events of both clients, with reconnection."""

from __future__ import annotations

import gc
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import Timeout
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ClientClosed,
    ConnectionError,
    DeadlineExceeded,
    HTTPError,
    ReadTimeout,
    ResponseTooLarge,
    StreamConsumedError,
    UnrewindableBodyError,
)
from curlhttp.testing import Answer, refused, reset
from curlhttp.types import ServerSentEvent
from tests.servers import AppServer, H2Server, RawConnection, RawServer
from tests.servers.record import Record
from tests.servers.routes import Out
from tests.support.colours import ONE_OF_EACH, AnyClient, AnyEvents
from tests.support.pace import paced
from tests.support.scripted import URL, Scripted, moved, steady

pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]
KIND = {"Content-Type": "text/event-stream"}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def stream(*pieces: str, error: Any = None, **settings: Any) -> Answer:
    """Return a response with events; its pieces come as they are."""
    content = [piece.encode() for piece in pieces]
    return Answer(headers=KIND, content=content, error=error, **settings)


async def take(events: AnyEvents, count: int = -1) -> list[Any]:
    """Return the data of the next events, or of all."""
    found: list[Any] = []
    if count == 0:
        return found
    async for event in events:
        found.append(event.data)
        if len(found) == count:
            break
    return found


# --- one connection ---


async def test_events_are_parsed(scripted: Scripted) -> None:
    client, engine = scripted([stream("event: a\ndata: 1\nid: x\nre", "try: 9\n\nda", "ta: 2\n\n")])
    async with client.sse(URL, reconnect=False) as events:
        assert events.real.response.status_code == 200
        assert events.real.last_event_id == ""
        assert [event async for event in events] == [
            ServerSentEvent("a", "1", "x", 9),
            ServerSentEvent("message", "2", "x", None),
        ]
        assert events.real.last_event_id == "x"
    (sent,) = engine.sent
    assert sent.headers["Accept"] == "text/event-stream"
    assert sent.headers["Cache-Control"] == "no-cache"
    assert "Last-Event-ID" not in sent.headers


async def test_events_need_no_with(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: 1\n\n")])
    events = client.sse(URL, reconnect=False)
    assert engine.sent == []
    assert await take(events) == ["1"]
    assert await take(events) == []


async def test_options_are_those_of_every_verb(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: [DONE]\n\n")], headers={"Accept": "application/json"})
    given = {"Cache-Control": "max-age=0", "X-One": "1"}
    options = {"json": {"stream": True}, "headers": given, "params": {"a": "b"}}
    async with client.sse(URL, method="POST", **options) as events:
        assert await take(events) == ["[DONE]"]
    (sent,) = engine.sent
    assert (sent.method, sent.url, sent.body) == ("POST", URL + "?a=b", b'{"stream": true}')
    assert sent.headers["Accept"] == "text/event-stream"
    assert sent.headers["Cache-Control"] == "max-age=0"
    assert sent.headers["X-One"] == "1"


async def test_the_callers_accept_is_kept(scripted: Scripted) -> None:
    client, engine = scripted([stream()])
    async with client.sse(URL, headers={"accept": "a/b"}, reconnect=False) as events:
        assert await take(events) == []
    assert engine.sent[0].headers.get_list("Accept") == ["a/b"]


async def test_redirects_are_followed_each_time(scripted: Scripted) -> None:
    script = [moved("/there"), stream("data: 1\n\n"), moved("/elsewhere"), stream("data: 2\n\n")]
    client, engine = scripted(script)
    async with client.sse(URL) as events:
        assert await take(events, 2) == ["1", "2"]
        assert events.real.response.url == URL + "elsewhere"
    assert [sent.url for sent in engine.sent] == [URL, URL + "there", URL, URL + "elsewhere"]


async def test_middleware_may_return_its_own_response(scripted: Scripted) -> None:
    async def respond(request: Any, send: Any) -> Any:
        return curlhttp._http.response.Response.of(request, headers=KIND, content="data: 1\n\n")

    client, _ = scripted([], middleware=[respond])
    async with client.sse(URL, reconnect=False) as events:
        assert await take(events) == ["1"]


@pytest.mark.parametrize(
    "kind", ["text/event-stream;charset=utf-8", "TEXT/Event-Stream ; a=b", "text/event-stream"]
)
async def test_the_media_type_may_have_parameters(scripted: Scripted, kind: str) -> None:
    client, _ = scripted([Answer(headers={"Content-Type": kind}, content="data: 1\n\n")])
    assert await take(client.sse(URL, reconnect=False)) == ["1"]


@pytest.mark.parametrize("kind", ["text/html", "text/event-streams", "application/json", None])
async def test_another_media_type_is_an_error(scripted: Scripted, kind: str | None) -> None:
    headers = {"Content-Length": "2"} | ({} if kind is None else {"Content-Type": kind})
    client, engine = scripted([Answer(headers=headers, content="{}")])
    with pytest.raises(HTTPError, match=f"GET {URL}: .*Content-Type is {kind and repr(kind)}") as c:
        await take(client.sse(URL))
    assert c.value.response is not None
    assert c.value.response.content == b"{}"
    assert engine.sleeps == []


@pytest.mark.parametrize("status", [201, 206, 301, 304, 400, 401, 500, 503])
async def test_another_status_is_an_error_with_the_response(
    scripted: Scripted, status: int
) -> None:
    client, _ = scripted([Answer(status, headers=KIND, content='{"error": "é"}')])
    events = client.sse(URL)
    with pytest.raises(HTTPError, match=f"{status} ") as caught:
        await events.__aenter__()
    response = caught.value.response
    assert response is not None
    assert response.status_code == status
    if status >= 400:
        assert response.json() == {"error": "é"}
    with pytest.raises(StreamConsumedError):
        await take(events)


async def test_of_the_body_of_an_error_one_mebibyte_is_read(scripted: Scripted) -> None:
    pieces = [bytes(100_000)] * 12
    client, engine = scripted([Answer(500, content=pieces)])
    with pytest.raises(HTTPError) as caught:
        await take(client.sse(URL))
    assert caught.value.response is not None
    assert len(caught.value.response.content) == 1024 * 1024
    assert engine.aborted == 1


@ONE_OF_EACH
@pytest.mark.parametrize("coding", (None, "gzip"))
async def test_an_error_has_its_whole_body(scripted: Scripted, coding: str | None) -> None:
    text = "é" * 300_000
    body = text.encode()
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    if coding is not None:
        body, headers["Content-Encoding"] = gzip.compress(body), coding
    pieces = [body[at : at + 7000] for at in range(0, len(body), 7000)]
    client, _ = scripted([Answer(429, headers=headers, content=pieces)])
    with pytest.raises(HTTPError) as caught:
        await take(client.sse(URL))
    assert caught.value.response is not None
    assert caught.value.response.text == text


@ONE_OF_EACH
async def test_json_in_the_place_of_events_is_in_the_error(scripted: Scripted) -> None:
    kind = {"Content-Type": "application/json; charset=utf-8"}
    client, _ = scripted([Answer(headers=kind, content=[b'{"a"', b": 1}"])])
    with pytest.raises(HTTPError, match="not an event stream") as caught:
        await take(client.sse(URL, method="POST", json={}))
    assert caught.value.response is not None
    assert caught.value.response.json() == {"a": 1}


async def test_a_body_that_breaks_off_hides_no_error(scripted: Scripted) -> None:
    broken = ChunkedEncodingError("x")
    client, _ = scripted([Answer(500, content=b"half", error=broken)])
    with pytest.raises(HTTPError, match="500") as caught:
        await take(client.sse(URL))
    assert caught.value.response is not None
    assert caught.value.response.content == b"half"


async def test_an_endless_body_of_another_type_is_not_waited_for(
    client: AnyClient,
) -> None:
    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        conn.stall()

    with RawServer(handler) as server:
        with pytest.raises(HTTPError, match="text/html") as caught:
            await take(client.sse(server.url))
    assert caught.value.response is not None
    assert caught.value.response.content == b""


async def test_a_compressed_stream_is_decoded_incrementally(scripted: Scripted) -> None:
    body = gzip.compress(b"data: 1\n\ndata: 2\n\n")
    headers = {**KIND, "Content-Encoding": "gzip"}
    client, _ = scripted([Answer(headers=headers, content=[body[:15], body[15:]])])
    assert await take(client.sse(URL, reconnect=False)) == ["1", "2"]


# --- reconnection ---


async def test_a_stream_that_ends_is_reconnected_with_the_last_id(scripted: Scripted) -> None:
    script = [
        stream("id: 1\ndata: a\n\nid: 2\n\nid: 3\ndata: never complete"),
        stream("data: b\n\n"),
        stream("id\ndata: c\n\n"),
        stream("data: d\n\n"),
    ]
    client, engine = scripted(script)
    async with client.sse(URL, retry=steady()) as events:
        found = []
        async for event in events:
            found.append((event.data, event.id))
            if event.data == "d":
                break
    assert found == [("a", "1"), ("b", "2"), ("c", ""), ("d", "")]
    assert [sent.headers.get("last-event-id") for sent in engine.sent] == [None, "2", "2", None]
    assert engine.sleeps == [1, 1, 1]


async def test_a_stream_that_breaks_is_reconnected(scripted: Scripted) -> None:
    script = [
        stream("id: 1\ndata: a\n\n", error=ChunkedEncodingError("cut", request_sent=True)),
        refused(),
        reset(),
        stream("data: b\n\n", "data: c\n\n"),
        stream("data: d\n\n"),
    ]
    client, engine = scripted(script)
    policy = steady(0)
    async with client.sse(URL, retry=policy) as events:
        assert await take(events, 4) == ["a", "b", "c", "d"]
    assert engine.sleeps == [1, 2, 4, 1]


async def test_silence_beyond_the_read_timeout_is_a_break(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n", "data: b\n\n", pace=6), stream("data: c\n\n")])
    async with client.sse(URL, timeout=Timeout(read=10), retry=steady()) as events:
        assert await take(events, 1) == ["a"]
    client, engine = scripted([stream("data: a\n\n", pace=11), stream("data: c\n\n")])
    async with client.sse(URL, timeout=Timeout(read=10), retry=steady()) as events:
        assert await take(events, 1) == ["c"]
    assert engine.now() == 11


async def test_the_server_says_how_long_to_wait_for_all_that_follows(scripted: Scripted) -> None:
    script = [stream("retry: 30000\n\n"), stream("data: a\n\n"), stream("data: b\n\n")]
    client, engine = scripted(script)
    async with client.sse(URL) as events:
        assert await take(events, 2) == ["a", "b"]
    assert all(30 <= sleep <= 33 for sleep in engine.sleeps)
    assert len(engine.sleeps) == 2


async def test_a_204_ends_the_stream(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n"), 204])
    assert await take(client.sse(URL)) == ["a"]
    assert len(engine.sent) == 2
    client, engine = scripted([204])
    async with client.sse(URL) as events:
        assert await take(events) == []


@pytest.mark.parametrize("response", [503, 404, Answer(headers={"Content-Type": "text/html"})])
async def test_a_reconnect_that_gets_no_event_stream_is_an_error(
    scripted: Scripted, response: Any
) -> None:
    client, _ = scripted([stream("data: a\n\n"), response])
    events = client.sse(URL)
    assert await take(events, 1) == ["a"]
    with pytest.raises(HTTPError):
        await take(events)


async def test_statuses_of_the_policy_are_waited_out(scripted: Scripted) -> None:
    busy = Answer(503, headers={"Retry-After": "20"})
    client, engine = scripted([stream("data: a\n\n"), busy, busy, stream("data: b\n\n")])
    async with client.sse(URL, retry=steady(0, statuses={503})) as events:
        assert await take(events, 2) == ["a", "b"]
    assert engine.sleeps[0] == 1
    assert all(20 <= sleep <= 22 for sleep in engine.sleeps[1:])


async def test_the_first_connection_is_made_as_the_policy_says(scripted: Scripted) -> None:
    client, engine = scripted([refused(), 503, stream("data: a\n\n")])
    async with client.sse(URL, retry=steady(2)) as events:
        assert await take(events, 1) == ["a"]
    client, engine = scripted([refused()])
    with pytest.raises(ConnectionError):
        await take(client.sse(URL))
    assert engine.sleeps == []


async def test_reconnections_are_counted(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n"), stream(), stream(), stream()])
    assert await take(client.sse(URL, reconnect=2)) == ["a"]
    assert len(engine.sent) == 3
    client, engine = scripted([stream("data: a\n\n"), *[refused()] * 3])
    events = client.sse(URL, reconnect=3)
    assert await take(events, 1) == ["a"]
    with pytest.raises(ConnectionError, match="refused"):
        await take(events)
    assert len(engine.sent) == 4


async def test_without_reconnection_the_error_of_the_stream_is_raised(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n", error=ChunkedEncodingError("cut"))])
    events = client.sse(URL, reconnect=False)
    assert await take(events, 1) == ["a"]
    with pytest.raises(ChunkedEncodingError, match="cut") as caught:
        await take(events)
    assert caught.value.response is events.real.response
    assert engine.sleeps == []


@pytest.mark.parametrize("error", [None, ChunkedEncodingError("cut", request_sent=True)])
async def test_a_post_is_not_sent_twice(scripted: Scripted, error: Any) -> None:
    client, engine = scripted([stream("data: a\n\n", error=error)])
    events = client.sse(URL, method="POST", json={})
    assert await take(events, 1) == ["a"]
    if error is None:
        assert await take(events) == []
    else:
        with pytest.raises(ChunkedEncodingError):
            await take(events)
    assert len(engine.sent) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Idempotency-Key": "1"}},
        {"retry": steady(retry_non_idempotent=True)},
    ],
)
async def test_a_post_that_may_be_sent_twice_is(scripted: Scripted, options: Any) -> None:
    cut = stream("id: 1\ndata: a\n\n", error=ChunkedEncodingError("cut"))
    client, engine = scripted([cut, stream("data: b\n\n"), stream("data: again\n\n")])
    async with client.sse(URL, method="POST", json={"a": 1}, **options) as events:
        assert await take(events) == ["a", "b"]  # and no more after the end of the body
    assert [sent.body for sent in engine.sent] == [b'{"a": 1}'] * 2
    assert engine.sent[1].headers["Last-Event-ID"] == "1"


async def test_a_body_that_cannot_be_sent_again_is_a_clear_error(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n", error=ChunkedEncodingError("cut"))])
    policy = steady(retry_non_idempotent=True)
    events = client.sse(URL, method="POST", content=iter([b"x"]), retry=policy)
    assert await take(events, 1) == ["a"]
    with pytest.raises(UnrewindableBodyError) as caught:
        await take(events)
    assert isinstance(caught.value.__cause__, ChunkedEncodingError)
    assert caught.value.request is not None
    assert engine.sleeps == []


async def test_the_total_covers_all_connections(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n", "data: b\n\n", pace=4)] * 9)
    events = client.sse(URL, timeout=Timeout(total=20), retry=steady())
    with pytest.raises(DeadlineExceeded):
        await take(events)
    assert engine.now() <= 20
    assert len(engine.sent) == 3


async def test_hooks_are_notified_of_the_wait(scripted: Scripted) -> None:
    events_seen: list[Any] = []
    client, _ = scripted(
        [stream("data: a\n\n"), refused(), stream("data: b\n\n")],
        hooks={"before_sleep": events_seen.append},
    )
    async with client.sse(URL + "?token=secret") as events:
        assert await take(events, 2) == ["a", "b"]
    assert [(event.number, event.error) for event in events_seen] == [
        (1, None),
        (2, "ConnectionError"),
    ]
    assert all(event.delay > 0 for event in events_seen)
    assert "secret" not in str(events_seen)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("é€", "é€".encode()),
        (" a ", b"a"),
        ("a\tb", b"a\tb"),
        ("\x01", None),
        ("a\x7f", None),
    ],
)
async def test_the_id_is_sent_as_it_can_be(
    scripted: Scripted, given: str, sent: bytes | None
) -> None:
    client, engine = scripted([stream(f"id: {given}\ndata: a\n\n"), stream("data: b\n\n")])
    async with client.sse(URL) as events:
        assert await take(events, 2) == ["a", "b"]
    value = engine.sent[1].headers.get("Last-Event-ID")
    assert (None if value is None else value.encode("latin-1")) == sent


async def test_a_stream_continues_an_earlier_one(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n")])
    events = client.sse(URL, last_event_id="7", reconnect=False)
    assert [event.id async for event in events] == ["7"]
    assert engine.sent[0].headers["Last-Event-ID"] == "7"


@pytest.mark.parametrize("value", ["a\nb", "a\r", "\0", "\ud800"])
async def test_an_invalid_last_event_id_is_refused(scripted: Scripted, value: str) -> None:
    client, _ = scripted([])
    with pytest.raises(ValueError, match="last_event_id"):
        client.sse(URL, last_event_id=value)


async def test_wrong_arguments_are_refused_at_once(scripted: Scripted) -> None:
    client, _ = scripted([])
    with pytest.raises(ValueError, match="max_event_size"):
        client.sse(URL, max_event_size=-1)
    with pytest.raises(ValueError, match="reconnect"):
        client.sse(URL, reconnect=-1)
    with pytest.raises(curlhttp.MissingSchema):
        client.sse("h.test/")


# --- bounds ---


async def test_an_event_beyond_the_bound_is_an_error(scripted: Scripted) -> None:
    client, engine = scripted([stream("data: a\n\n", "data: " + "x" * 100)])
    events = client.sse(URL, max_event_size=100)
    assert await take(events, 1) == ["a"]
    with pytest.raises(
        ResponseTooLarge, match=r"^GET \S+: an event .* max_event_size=100"
    ) as caught:
        await take(events)
    assert caught.value.response is not None
    assert engine.aborted == 1


async def test_a_stream_may_be_longer_than_a_body_may(scripted: Scripted) -> None:
    client, _ = scripted([stream("data: a\n\n" * 10)], max_response_size=20)
    assert len(await take(client.sse(URL, reconnect=False))) == 10


async def test_a_slow_consumer_slows_the_server(client: AnyClient) -> None:
    sent, is_stuck = 0, threading.Event()

    def handler(conn: RawConnection) -> None:
        nonlocal sent
        conn.read_request()
        conn.send(HEAD)
        conn.sock.settimeout(1.0)
        block = b"data: " + bytes(65_000) + b"\n\n"
        try:
            while sent < 64 << 20:
                conn.sock.sendall(block)
                sent += len(block)
        except TimeoutError:
            is_stuck.set()

    with RawServer(handler) as server:
        async with client.sse(server.url) as events:
            assert len(await take(events, 3)) == 3
            assert await anyio.to_thread.run_sync(is_stuck.wait, 30)


# --- ends, real sockets ---


@contextmanager
def ticking(*bodies: bytes) -> Iterator[RawServer]:
    """Serve bodies, one a connection, each of which then stays silent; the last again and again."""
    left = list(bodies)

    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            conn.send(HEAD + (left.pop(0) if len(left) > 1 else left[0]))
            conn.stall()

    with RawServer(handler) as server:
        yield server


async def test_real_events_arrive_before_the_next_are_sent(client: AnyClient) -> None:
    with ticking(b"data: a\n\ndata: b\r\r") as server:
        async with client.sse(server.url) as events:
            assert await take(events, 2) == ["a", "b"]


async def test_a_cut_connection_is_reconnected(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            body = b"retry: 1\nid: %d\ndata: x\n\ndata: half" % len(server.requests)
            cut = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000\r\n\r\n")
            conn.send((cut if len(server.requests) % 2 else HEAD) + body)

    with RawServer(handler) as server:
        async with client.sse(server.url) as events:
            assert await take(events, 6) == ["x"] * 6
        asked = [request.partition(b"Last-Event-ID: ")[2][:1] for request in server.requests]
    assert asked[:6] == [b"", b"1", b"2", b"3", b"4", b"5"]


async def test_silence_is_noticed_on_a_real_socket(client: AnyClient) -> None:
    with ticking(b"retry: 1\ndata: a\n\n", b"data: b\n\n") as server:
        async with client.sse(server.url, timeout=Timeout(read=paced(0.3))) as events:
            assert await take(events, 2) == ["a", "b"]
        with pytest.raises(ReadTimeout):
            events = client.sse(
                server.url, timeout=Timeout(read=paced(0.3)), method="POST", content=b""
            )
            await take(events)


async def test_events_over_http2(any_client: AnyClient, h2_app: H2Server) -> None:
    def events(record: Record, out: Out) -> None:
        out.reply(200, b"data: a\n\ndata: b\n\n", [*KIND.items()])

    h2_app.stream_route("/events", events)
    async with any_client.sse(h2_app.url + "/events", reconnect=False) as found:
        assert await take(found) == ["a", "b"]
        assert found.real.response.http_version == "HTTP/2"


async def test_closing_in_the_middle_ends_the_loop(client: AnyClient) -> None:
    with ticking(b"data: a\n\ndata: b\n\n") as server:
        events = client.sse(server.url)
        found = []
        async for event in events:
            found.append(event.data)
            await events.aclose()
        assert found == ["a"]
        assert events.real.response.is_closed


async def rest_of(client: AnyClient, events: AnyEvents) -> list[str]:
    """Return the data of the rest of the events, in its own thread if that waits."""
    if client.is_blocking:
        return await anyio.to_thread.run_sync(lambda: [event.data for event in events.real])
    return await take(events)


async def test_closing_while_it_is_waited_for_ends_the_loop(client: AnyClient) -> None:
    with ticking(b"data: a\n\n") as server:  # and then the server is silent
        events = client.sse(server.url)
        assert await take(events, 1) == ["a"]

        async def read() -> None:
            assert await rest_of(client, events) == []

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.sleep(0.05)
            await events.aclose()
        assert events.real.response.is_closed


async def test_closing_the_client_ends_a_wait_for_events(make_client: Make) -> None:
    client = make_client()
    with ticking(b"data: a\n\n") as server:
        events = client.sse(server.url)
        assert await take(events, 1) == ["a"]

        async def read() -> None:
            with pytest.raises(ClientClosed) as caught:
                await rest_of(client, events)
            assert caught.value.request is not None

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.sleep(0.05)
            await client.aclose()
        assert events.real.response.is_closed


@contextmanager
def between_connections(make_client: Make) -> Iterator[Any]:
    """Give a client, its events, and an event that is set when they are to be waited for."""
    waits = threading.Event()
    hooks = {"before_sleep": [lambda event: waits.set()]}
    with ending(b"retry: 60000\ndata: a\n\n") as server:
        client = make_client(hooks=hooks)
        yield client, client.sse(server.url), waits
        assert len(server.requests) == 1


@contextmanager
def ending(body: bytes) -> Iterator[RawServer]:
    """Serve a body, on connections that end with it."""

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(HEAD + body)

    with RawServer(handler) as server:
        yield server


async def test_closing_ends_the_wait_between_two_connections(make_client: Make) -> None:
    begun = time.monotonic()
    with between_connections(make_client) as (client, events, waits):
        found: list[str] = []

        async def read() -> None:
            found.extend(await rest_of(client, events))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            assert await anyio.to_thread.run_sync(waits.wait, 30)
            await events.aclose()
        assert found == ["a"]
    assert time.monotonic() - begun < 30


async def test_closing_the_client_ends_the_wait_between_two_connections(make_client: Make) -> None:
    begun = time.monotonic()
    with between_connections(make_client) as (client, events, waits):

        async def read() -> None:
            with pytest.raises(ClientClosed) as caught:
                await rest_of(client, events)
            assert caught.value.request is not None

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            assert await anyio.to_thread.run_sync(waits.wait, 30)
            await client.aclose()
    assert time.monotonic() - begun < 30


async def test_a_stream_that_is_closed_right_before_it_waits_does_not_wait(
    scripted: Scripted, colour: str
) -> None:
    opened: list[AnyEvents] = []

    async def close(event: object) -> None:
        await opened[0].aclose()

    is_blocking = colour == "blocking"
    hooks = {
        "before_sleep": [lambda event: opened[0].real.close() if is_blocking else close(event)]
    }
    client, engine = scripted([stream("data: a\n\n")], hooks=hooks)
    opened.append(client.sse(URL))
    assert await take(opened[0]) == ["a"]
    assert engine.sleeps == []


async def test_another_loop_ends_the_wait_between_two_connections(make_client: Make) -> None:
    """An AsyncClient may serve several; a blocking one is closed by any thread."""
    begun = time.monotonic()
    with between_connections(make_client) as (client, events, waits):

        def close() -> None:
            assert waits.wait(30)
            anyio.run(client.aclose)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, close)
            with pytest.raises(ClientClosed):
                await rest_of(client, events)
    assert time.monotonic() - begun < 30


async def test_a_cancelled_wait_breaks_the_stream_off(make_client: Make, colour: str) -> None:
    if colour == "blocking":
        pytest.skip("nothing cancels a blocking call")
    client = make_client()
    with ticking(b"id: 4\ndata: a\n\n") as server:
        events = client.sse(server.url)
        assert await take(events, 1) == ["a"]
        with anyio.move_on_after(0.05) as scope:
            await take(events)
        assert scope.cancelled_caught
        assert events.real.response.is_closed
        with pytest.raises(StreamConsumedError, match="last_event_id"):
            await take(events)
        async with client.sse(server.url, last_event_id=events.real.last_event_id) as more:
            assert await take(more, 1) == ["a"]
        assert b"Last-Event-ID: 4" in server.requests[1]


async def test_ctrl_c_breaks_the_stream_off(scripted: Scripted) -> None:
    def respond(request: Any) -> Any:
        if engine.sent:
            raise KeyboardInterrupt
        return stream("data: a\n\n")

    client, engine = scripted(respond, hooks={"response": [lambda r: None]})
    events = client.sse(URL)
    assert await take(events, 1) == ["a"]
    with pytest.raises(KeyboardInterrupt):
        await take(events)
    with pytest.raises(StreamConsumedError):
        await take(events)


async def test_a_closed_client_has_no_events(make_client: Make) -> None:
    client = make_client()
    with ticking(b"data: a\n\n") as server:
        events = client.sse(server.url)
        await client.aclose()
        with pytest.raises(ClientClosed):
            await take(events)


async def test_dropped_events_release_their_connection(make_client: Make) -> None:
    client = make_client(max_connections=1, timeout=Timeout(pool=30, read=30))
    with ticking(b"data: a\n\n") as server:
        for _ in range(3):
            assert await take(client.sse(server.url), 1) == ["a"]
            gc.collect()
            await anyio.sleep(0)


async def test_many_streams_at_once(make_client: Make) -> None:
    client = make_client(max_connections=100)
    with ticking(b"data: a\n\n") as server:

        async def one() -> None:
            if client.is_blocking:

                def read() -> None:
                    with client.real.sse(server.url) as events:
                        assert next(events).data == "a"

                await anyio.to_thread.run_sync(read, limiter=anyio.CapacityLimiter(50))
            else:
                async with client.sse(server.url) as events:
                    assert await take(events, 1) == ["a"]

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(one)


async def test_cookies_and_auth_are_sent_with_each_connection(
    client: AnyClient, app: AppServer
) -> None:
    def handler(record: Record, out: Out) -> None:
        headers = [*KIND.items(), ("Set-Cookie", "a=b")]
        body = f"retry: 1\ndata: {record.header('authorization')} {record.header('cookie')}\n\n"
        out.reply(200, body.encode(), headers)

    app.route("/private-events", handler)
    async with client.sse(app.url + "/private-events", auth=("me", "pw")) as events:
        assert await take(events, 2) == ["Basic bWU6cHc= None", "Basic bWU6cHc= a=b"]
