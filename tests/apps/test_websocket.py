"""WebSockets to ASGI apps: the package websockets is the client, on bytes in memory."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from curlhttp import ASGITransport, AsyncClient
from curlhttp import exceptions as e
from tests.support.pace import PACE

pytest.importorskip("websockets", reason="the extra ws is missing")

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.uri import parse_uri

pytestmark = [pytest.mark.anyio, pytest.mark.colours("asyncio", "uvloop", "trio")]
SOON = 0.05 * PACE


class Peer:
    """The client's side of the protocol on a stream of bytes."""

    def __init__(self, stream: Any, **settings: Any) -> None:
        self.stream = stream
        self.protocol = ClientProtocol(parse_uri("ws://app.test/chat?a=b"), **settings)
        self.events: list[Any] = []
        self.has_ended = False

    def flush(self) -> None:
        for data in self.protocol.data_to_send():
            if data:
                self.stream.write(data)

    async def next(self) -> Any:
        while not self.events:
            data = await self.stream.receive(30)
            assert data is not None
            if not data:
                self.has_ended = True
                return None
            self.protocol.receive_data(data)
            self.events += self.protocol.events_received()
            self.flush()
        return self.events.pop(0)

    async def shake_hands(self) -> Any:
        request = self.protocol.connect()
        request.headers["X-Mine"] = "some"
        self.protocol.send_request(request)
        self.flush()
        return await self.next()

    async def say(self, data: str | bytes) -> None:
        if isinstance(data, str):
            self.protocol.send_text(data.encode())
        else:
            self.protocol.send_binary(data)
        self.flush()

    async def read_message(self) -> Any:
        frame = await self.next()
        return None if frame is None else (frame.opcode.name, bytes(frame.data))


@pytest.fixture
def meet(colour: str, anyio_backend: Any) -> Callable[..., Any]:
    """Return a context manager of a Peer of an app, and of its client."""

    @asynccontextmanager
    async def peer(app: Any, *, raises: bool = True, **settings: Any) -> AsyncIterator[Peer]:
        transport = ASGITransport(app, raise_app_exceptions=raises, lifespan=False)
        async with AsyncClient(transport=transport) as client:
            request = client.build_request("GET", "http://app.test/chat?a=b")
            yield Peer(await transport.connect(request), **settings)

    return peer


Meet = Callable[..., Any]


def app_of(endpoint: Any) -> Starlette:
    return Starlette(routes=[WebSocketRoute("/chat", endpoint)])


async def echo(websocket: WebSocket) -> None:
    await websocket.accept(headers=[(b"x-app", b"mine")])
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        await websocket.send({**message, "type": "websocket.send"})


async def test_messages_go_both_ways(meet: Meet) -> None:
    async with meet(app_of(echo)) as peer:
        reply = await peer.shake_hands()
        assert (reply.status_code, reply.headers["x-app"]) == (101, "mine")
        await peer.say("héllo")
        assert await peer.read_message() == ("TEXT", "héllo".encode())
        await peer.say(b"\0\xff")
        assert await peer.read_message() == ("BINARY", b"\0\xff")
        peer.protocol.send_text(b"in ", fin=False)
        peer.protocol.send_continuation(b"parts", fin=True)
        peer.protocol.send_ping(b"alive?")
        peer.flush()
        assert await peer.read_message() == ("PONG", b"alive?")  # at once, whatever the app does
        assert await peer.read_message() == ("TEXT", b"in parts")
        peer.protocol.send_close(1001, "bye")
        peer.flush()
        assert (await peer.read_message())[0] == "CLOSE"
        assert await peer.read_message() is None


@pytest.mark.parametrize("data", [b"", b"x" * 99])
async def test_an_app_that_sends_for_ever_does_not_block_the_loop(meet: Meet, data: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            await send({"type": "websocket.send", "bytes": data})
        raise AssertionError("nobody ended it")

    async with meet(app) as peer:
        await peer.shake_hands()
        with anyio.move_on_after(SOON) as scope:
            while True:
                assert await peer.read_message() == ("BINARY", data)
        assert scope.cancelled_caught


@pytest.mark.parametrize("kind", ["websocket.receive", "websocket.http.response.body"])
async def test_an_app_that_never_responds_nor_waits_can_be_cancelled(meet: Meet, kind: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        limit = time.monotonic() + 30
        if kind != "websocket.receive":
            await send({"type": "websocket.http.response.start", "status": 403})
        while time.monotonic() < limit:
            if kind == "websocket.receive":
                await receive()  # a disconnect, again and again
            else:
                await send({"type": kind, "body": b"", "more_body": True})
        raise AssertionError("nobody ended it")

    async with meet(app) as peer:
        with anyio.move_on_after(SOON) as scope:
            peer.flush()
            if kind == "websocket.receive":
                peer.protocol.connect()
            await peer.shake_hands()
        assert scope.cancelled_caught


async def test_the_scope_describes_the_request(meet: Meet) -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        assert await receive() == {"type": "websocket.connect"}
        await send({"type": "websocket.accept", "subprotocol": "two"})

    async with meet(app, subprotocols=["one", "two"]) as peer:
        reply = await peer.shake_hands()
        assert reply.headers["sec-websocket-protocol"] == "two"
        assert peer.protocol.subprotocol == "two"
        assert await peer.read_message() == ("CLOSE", b"\x03\xe8")  # the app has ended: 1000
    fields = dict(seen.pop("headers"))
    assert fields[b"host"] == b"app.test"
    assert fields[b"x-mine"] == b"some"
    assert seen == {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": "/chat",
        "raw_path": b"/chat",
        "query_string": b"a=b",
        "root_path": "",
        "client": ("127.0.0.1", 123),
        "server": ("app.test", 80),
        "subprotocols": ["one", "two"],
        "extensions": {"websocket.http.response": {}},
    }


async def test_messages_are_compressed_if_the_client_offers_it(meet: Meet) -> None:
    async with meet(app_of(echo), extensions=[ClientPerMessageDeflateFactory()]) as peer:
        reply = await peer.shake_hands()
        assert "permessage-deflate" in reply.headers["sec-websocket-extensions"]
        await peer.say("x" * 100_000)
        assert await peer.read_message() == ("TEXT", b"x" * 100_000)


async def test_an_app_closes_with_a_code(meet: Meet) -> None:
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close(4001, "enough")

    async with meet(app_of(endpoint)) as peer:
        await peer.shake_hands()
        assert await peer.read_message() == ("CLOSE", b"\x0f\xa1enough")
        assert await peer.read_message() is None


async def test_an_app_gets_the_close_code_of_the_client(meet: Meet) -> None:
    received: list[tuple[int, str]] = []

    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        try:
            await websocket.receive_text()
        except WebSocketDisconnect as error:
            received.append((error.code, error.reason))

    for leave in ("close", "silently", "drop"):
        async with meet(app_of(endpoint)) as peer:
            await peer.shake_hands()
            if leave == "close":
                peer.protocol.send_close(4000, "bye")
                peer.flush()
                await peer.read_message()
            elif leave == "silently":
                peer.stream.abort()
            else:
                del peer.stream
                gc.collect()
            with anyio.fail_after(30):
                while not received:
                    await anyio.sleep(0.001)
        assert received.pop() == ((4000, "bye") if leave == "close" else (1006, ""))


async def test_an_app_that_does_not_accept_responds_403(meet: Meet) -> None:
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.close()

    async with meet(app_of(endpoint)) as peer:
        reply = await peer.shake_hands()
        assert (reply.status_code, reply.reason_phrase) == (403, "Forbidden")
        assert await peer.read_message() is None


async def test_an_app_may_refuse_with_its_own_response(meet: Meet) -> None:
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.send_denial_response(PlainTextResponse("pay first", status_code=402))

    async with meet(app_of(endpoint)) as peer:
        reply = await peer.shake_hands()
        assert (reply.status_code, bytes(reply.body)) == (402, b"pay first")
        assert reply.headers["content-type"].startswith("text/plain")
        assert reply.headers["content-length"] == "9"


async def broken(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    if scope["query_string"] == b"a=b":
        raise ZeroDivisionError("of the app")


async def test_an_exception_of_the_app_is_raised_or_a_refusal(meet: Meet) -> None:
    async with meet(broken) as peer:
        with pytest.raises(ZeroDivisionError, match="of the app"):
            await peer.shake_hands()
    async with meet(broken, raises=False) as peer:
        assert (await peer.shake_hands()).status_code == 500


async def test_an_app_that_fails_later_closes_with_1011(meet: Meet) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "one"})
        raise ZeroDivisionError("of the app")

    async with meet(app, raises=False) as peer:
        await peer.shake_hands()
        assert await peer.read_message() == ("TEXT", b"one")
        assert await peer.read_message() == ("CLOSE", b"\x03\xf3")
    async with meet(app) as peer:
        await peer.shake_hands()
        with pytest.raises(ZeroDivisionError):
            while True:
                await peer.read_message()


WRONG: list[tuple[list[dict[str, Any]], type[Exception]]] = [
    ([], e.RemoteProtocolError),
    ([{"type": "websocket.send", "text": "early"}], RuntimeError),
    ([{"type": "http.response.start", "status": 200}], RuntimeError),
    ([{"type": "websocket.accept"}, {"type": "websocket.accept"}], RuntimeError),
    ([{"type": "websocket.http.response.body", "body": b""}], RuntimeError),
]


@pytest.mark.parametrize(("messages", "kind"), WRONG)
async def test_an_app_that_breaks_the_protocol_is_an_error(
    meet: Meet, messages: list[Any], kind: type[Exception]
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async with meet(app) as peer:
        with pytest.raises(kind):
            await peer.shake_hands()
            await peer.read_message()


@pytest.mark.parametrize("garbage", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 99])
async def test_garbage_for_a_handshake_is_refused(meet: Meet, garbage: bytes) -> None:
    async with meet(app_of(echo)) as peer:
        peer.stream.write(garbage + b"\r\n\r\n")
        response = b""
        while piece := await peer.stream.receive(30):
            response += piece
        assert b"101" not in response[:20]


async def test_garbage_for_frames_ends_the_connection(meet: Meet) -> None:
    async with meet(app_of(echo)) as peer:
        await peer.shake_hands()
        peer.stream.write(b"\xff" * 100)
        assert (await peer.read_message())[0] == "CLOSE"
        assert await peer.read_message() is None
        peer.stream.write(b"more")


async def test_text_that_is_no_utf8_closes_with_1007(meet: Meet) -> None:
    async with meet(app_of(echo)) as peer:
        await peer.shake_hands()
        peer.protocol.send_text(b"\xff\xfe")
        peer.flush()
        assert (await peer.read_message())[1][:2] == b"\x03\xef"


async def test_both_sides_wait_for_a_slow_one(meet: Meet) -> None:
    sent = 0
    may_read = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await receive()
        await send({"type": "websocket.accept"})
        for _ in range(50):
            await send({"type": "websocket.send", "bytes": b"x" * 16_384})
            sent += 1
        await may_read.wait()
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async with meet(app) as peer:
        await peer.shake_hands()
        for _ in range(20):
            await anyio.sleep(0)
        assert sent < 10
        for _ in range(50):
            await peer.read_message()
        for _ in range(8):
            await peer.say(b"y" * 16_384)
        assert not await peer.stream.drain(0)
        may_read.set()
        assert await peer.stream.drain(30)


async def test_no_app_outlives_the_client(meet: Meet) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "websocket.accept"})
            await anyio.sleep(3600)
        finally:
            ended.append("app")

    async with meet(app) as peer:
        await peer.shake_hands()
    assert ended == ["app"]
    with pytest.raises(e.ClientClosed):
        await peer.stream.receive()


async def test_a_cancelled_receive_loses_nothing(meet: Meet) -> None:
    async with meet(app_of(echo)) as peer:
        await peer.shake_hands()
        assert await peer.stream.receive(0) is None
        assert peer.stream.receive_now() is None
        with anyio.move_on_after(0.001):
            await peer.stream.receive()
        await peer.say("still there")
        assert await peer.read_message() == ("TEXT", b"still there")


# --- as users have it ---


async def test_the_clients_own_websocket_reaches_the_app(colour: str, anyio_backend: Any) -> None:
    async def endpoint(websocket: WebSocket) -> None:
        if websocket.cookies.get("id") != "7":
            await websocket.close()
            return
        await websocket.accept(subprotocol="chat")
        async for text in websocket.iter_text():
            await websocket.send_text(text.upper())

    transport = ASGITransport(app_of(endpoint))
    async with AsyncClient(transport=transport, cookies={"id": "7"}) as client:
        async with client.websocket("ws://app.test/chat", subprotocols=["chat"]) as socket:
            assert socket.subprotocol == "chat"
            await socket.send("héllo")
            assert await socket.recv() == "HÉLLO"
            with pytest.raises(e.ReadTimeout):
                await socket.recv(timeout=0)
        assert socket.close_code == 1000
    async with AsyncClient(transport=ASGITransport(app_of(endpoint))) as client:
        with pytest.raises(e.RequestException) as caught:
            async with client.websocket("ws://app.test/chat"):
                raise AssertionError
        assert caught.value.response is not None
        assert caught.value.response.status_code == 403
