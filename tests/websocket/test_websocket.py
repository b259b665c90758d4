"""WebSockets of both clients: messages, closing, bounds, keepalive, and protocol errors."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp.exceptions import (
    ClientClosed,
    ConnectionError,
    ConnectTimeout,
    InvalidSchema,
    InvalidURL,
    MissingSchema,
    PoolTimeout,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
    SSLError,
    WebSocketClosed,
    WebSocketRefused,
)
from tests.servers import (
    BlackHole,
    Certs,
    HTTPProxy,
    RawConnection,
    RawServer,
    SOCKSProxy,
    respond_and_close,
    respond_and_reset,
    response,
)
from tests.servers.websocket import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    accept,
    close_frame,
    echo,
    frame,
    read_frame,
    speaking,
)
from tests.support.colours import AnyClient
from tests.support.internals import count_buffered, interrupt_main_thread, is_receiving
from tests.support.pace import paced

pytest.importorskip("websockets", reason="the extra ws is not installed")
pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]
Talk = Callable[[RawConnection], object]


@pytest.fixture(scope="module")
def echo_server() -> Iterator[RawServer]:
    with RawServer(speaking(echo)) as server:
        yield server


def url_of(server: RawServer, path: str = "/") -> str:
    return server.url.replace("http", "ws", 1) + path


# --- messages ---


async def test_text_and_bytes_are_echoed_unchanged(
    client: AnyClient, echo_server: RawServer
) -> None:
    messages = ["", "grüße 🙂", b"", b"\x00\xff", "x" * 70_000, bytes(200_000), bytearray(b"ab")]
    async with await client.websocket(url_of(echo_server)) as ws:
        for message in messages:
            await ws.send(message)
            assert await ws.recv() == message
        assert ws.real.response.status_code == 101
        assert ws.real.subprotocol is None
        before = ws.real.close_code
    assert before is None
    assert (ws.real.close_code, ws.real.close_reason) == (1000, "")


async def test_statistics_count_its_connection(client: AnyClient, echo_server: RawServer) -> None:
    async with await client.websocket(url_of(echo_server)) as ws:
        await ws.send("x")
        assert await ws.recv() == "x"
        (found,) = client.real.stats().connections
        assert (found.origin, found.open, found.active) == (echo_server.url, 1, 1)
    assert client.real.stats().connections == ()


async def test_a_message_in_pieces_is_put_together(client: AnyClient) -> None:
    text = "grüße".encode()

    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, text[:3], fin=False) + frame(PING, b"now"))
        conn.send(frame(CONT, text[3:4], fin=False) + frame(CONT, text[4:]))
        conn.send(frame(BINARY, b"a", fin=False) + frame(CONT) + frame(TEXT, b"end"))
        assert read_frame(conn) == (PONG, b"now")
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert [await ws.recv() for _ in range(3)] == ["grüße", b"a", "end"]


async def test_messages_received_with_the_handshake_are_not_lost(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        conn.send(accept(head) + frame(TEXT, b"at once"))
        echo(conn)

    with RawServer(handler) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert await ws.recv() == "at once"


async def test_compression_is_offered_and_used(client: AnyClient) -> None:
    def talk(conn: RawConnection) -> None:
        coder = zlib.compressobj(wbits=-15)
        data = (coder.compress(b"z" * 9000) + coder.flush(zlib.Z_SYNC_FLUSH))[:-4]
        conn.send(frame(TEXT, data, rsv1=True))
        opcode, sent = read_frame(conn)
        assert (opcode, len(sent) < 100) == (TEXT, True)
        echo(conn)

    with RawServer(speaking(talk, "Sec-WebSocket-Extensions: permessage-deflate")) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert await ws.recv() == "z" * 9000
            await ws.send("z" * 9000)
        assert b"Sec-WebSocket-Extensions: permessage-deflate" in server.requests[0]


async def test_without_compression_no_extension_is_offered(
    client: AnyClient, echo_server: RawServer
) -> None:
    echo_server.reset_counts()
    async with await client.websocket(url_of(echo_server), compression=None):
        assert b"sec-websocket-extensions" not in echo_server.requests[0].lower()


async def test_iterating_ends_after_a_normal_close(client: AnyClient) -> None:
    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"1") + frame(TEXT, b"2") + close_frame(1001, "bye"))
        assert read_frame(conn)[0] == CLOSE

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert [message async for message in ws] == ["1", "2"]
            assert (ws.real.close_code, ws.real.close_reason) == (1001, "bye")
            with pytest.raises(WebSocketClosed) as caught:
                await ws.send("more")
            assert (caught.value.code, caught.value.reason) == (1001, "bye")


async def test_iterating_raises_after_an_abnormal_close(client: AnyClient) -> None:
    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"1") + close_frame(4000, "no"))
        read_frame(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            messages = []
            with pytest.raises(WebSocketClosed, match="4000") as caught:
                async for message in ws:
                    messages.append(message)  # up to the error
            assert messages == ["1"]
            assert (caught.value.code, caught.value.reason) == (4000, "no")
            assert isinstance(caught.value, RequestException)


async def test_a_timeout_of_recv_loses_nothing(client: AnyClient) -> None:
    go = threading.Event()

    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"whole")[:4])
        go.wait(30)
        conn.send(frame(TEXT, b"whole")[4:])
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            with pytest.raises(ReadTimeout):
                await ws.recv(paced(0.05))
            with pytest.raises(ReadTimeout):
                await ws.recv(0)
            go.set()
            assert await ws.recv() == "whole"


@pytest.mark.colours("asyncio", "uvloop", "trio", "unwatching")
async def test_tasks_that_send_more_than_fits_at_once_do_not_wait_for_each_other(
    client: AnyClient,
) -> None:
    sizes: list[int] = []

    def talk(conn: RawConnection) -> None:
        while (frame := read_frame(conn))[0] == BINARY:
            sizes.append(len(frame[1]))

    async def send(ws: Any) -> None:
        for _ in range(2):
            await ws.send(bytes(9_000_000))

    with RawServer(speaking(talk)) as server:
        ws = await client.websocket(url_of(server), compression=None, close_timeout=30)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(send, ws)
        await ws.aclose()
    assert sizes == [9_000_000] * 4


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_cancelling_recv_loses_nothing(client: AnyClient, echo_server: RawServer) -> None:
    async with await client.websocket(url_of(echo_server)) as ws:
        got = []
        for number in range(200):
            await ws.send(str(number))
            # At ever other moments: before, while and after the response comes in.
            with anyio.move_on_after(number * 0.00001):
                got.append(await ws.recv())
        while len(got) < 200:
            got.append(await ws.recv())
        assert got == [str(number) for number in range(200)]


# --- the handshake ---


async def test_it_goes_through_the_layers_of_the_client(make_client: Make) -> None:
    seen: list[Any] = []

    async def middleware(request: Any, send: Any) -> Any:
        request.headers["X-Middle"] = "ware"
        found = await send(request)
        seen.append(found.status_code)
        return found

    client = make_client(
        middleware=[middleware], cookies={"a": "b"}, auth=("me", "secret"), headers={"X-Mine": "1"}
    )
    with RawServer(speaking(echo, "Set-Cookie: session=1; Path=/")) as server:
        url = url_of(server, "/chat?room=1")
        async with await client.websocket(url, params={"n": "2"}) as ws:
            await ws.send("x")
            assert await ws.recv() == "x"
        head = server.requests[0].decode()
    assert head.startswith("GET /chat?room=1&n=2 HTTP/1.1\r\nHost: 127.0.0.1:")
    for line in (
        "X-Middle: ware",
        "X-Mine: 1",
        "Cookie: a=b",
        "Authorization: Basic bWU6c2VjcmV0",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
    ):
        assert f"\r\n{line}\r\n" in head
    assert seen == [101]
    assert dict(client.real.cookies)["session"] == "1"


async def test_digest_uses_a_new_websocket_key(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        if b"\r\nAuthorization: Digest" in head:
            conn.send(accept(head))
            echo(conn)
        else:
            challenge = ("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')
            conn.send(response(b"who?", "401 Unauthorized", [challenge]))

    with RawServer(handler) as server:
        auth = curlhttp.DigestAuth("me", "secret")
        async with await client.websocket(url_of(server), auth=auth):
            first, second = (
                next(line for line in head.split(b"\r\n") if b"-Key" in line)
                for head in server.requests
            )
    assert first != second


async def test_a_retry_opens_it_after_a_failure(make_client: Make) -> None:
    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        if conn.index:
            conn.send(accept(head))
            echo(conn)
        else:
            conn.send(response(b"", "503 Service Unavailable"))

    policy = curlhttp.RetryPolicy(
        max_retries=1, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001)
    )
    client = make_client(retry=policy)
    with RawServer(handler) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert len(ws.real.response.attempts) == 2


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "200 OK", "404 Not Found"])
async def test_another_status_is_an_error_with_the_response(client: AnyClient, status: str) -> None:
    with RawServer(respond_and_close(response(b"the reason", status))) as server:
        with pytest.raises(WebSocketRefused, match=status) as caught:
            await client.websocket(url_of(server))
    assert caught.value.response is not None
    assert caught.value.response.status_code == int(status[:3])
    assert caught.value.response.content == b"the reason"


@pytest.mark.parametrize("is_bytes", [False, True])
async def test_the_url_is_escaped_as_any_other(client: AnyClient, is_bytes: bool) -> None:
    with RawServer(respond_and_close(response(b"", "404 Not Found"))) as server:
        url: Any = f"{url_of(server)}caf%C3%A9/é?q=50%"
        with pytest.raises(WebSocketRefused):
            await client.websocket(url.encode() if is_bytes else url)
        assert server.requests[0].startswith(b"GET /caf%C3%A9/%C3%A9?q=50%25 HTTP/1.1")


async def test_redirects_are_not_followed_and_the_error_says_where_they_point(
    client: AnyClient,
) -> None:
    location = ("Location", "https://user:secret@other.test/x")
    with RawServer(respond_and_close(response(b"", "302 Found", [location]))) as server:
        with pytest.raises(WebSocketRefused, match=r"https://.*other\.test/x") as caught:
            await client.websocket(url_of(server))
        assert len(server.requests) == 1
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="redirects"):
        await client.websocket("ws://a.test", follow_redirects=True)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 101 x\r\n\r\n",
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: AAAA\r\n\r\n",
        b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: \x1b\r\n\r\n",
        b"HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: ,,;;\r\n\r\n",
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgr",
        b"\x00\xff" * 100,
    ],
)
async def test_an_invalid_handshake_response_is_an_error(
    client: AnyClient, response: bytes
) -> None:
    with RawServer(respond_and_close(response)) as server, pytest.raises(RemoteProtocolError):
        await client.websocket(url_of(server))


@pytest.mark.parametrize(
    "field",
    [
        "Sec-WebSocket-Protocol: other",
        "Sec-WebSocket-Protocol: a, b",
        "Sec-WebSocket-Extensions: x-mux",
        "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=99",
    ],
)
async def test_a_server_that_selects_an_unoffered_option_is_an_error(
    client: AnyClient, field: str
) -> None:
    with RawServer(speaking(echo, field)) as server, pytest.raises(RemoteProtocolError):
        await client.websocket(url_of(server), subprotocols=["a", "b"])


async def test_a_subprotocol_is_agreed_upon(client: AnyClient) -> None:
    with RawServer(speaking(echo, "Sec-WebSocket-Protocol: b")) as server:
        async with await client.websocket(url_of(server), subprotocols=["a", "b"]) as ws:
            assert ws.real.subprotocol == "b"
        assert b"\r\nSec-WebSocket-Protocol: a, b\r\n" in server.requests[0]


@pytest.mark.parametrize("url", ["ftp://a.test/", "wss:", "nothing", "ws://a.test/#part"])
async def test_an_invalid_url_of_a_websocket_is_refused(client: AnyClient, url: str) -> None:
    with pytest.raises((InvalidSchema, InvalidURL, MissingSchema)):
        await client.websocket(url)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"subprotocols": "chat"}, TypeError),
        ({"subprotocols": ["a b"]}, ValueError),
        ({"subprotocols": ["a", "a"]}, ValueError),
        ({"subprotocols": [""]}, ValueError),
        ({"compression": "gzip"}, ValueError),
        ({"max_size": 0}, ValueError),
        ({"max_size": 1.5}, ValueError),
        ({"ping_interval": 0}, ValueError),
        ({"close_timeout": -1}, ValueError),
        ({"json": {}}, TypeError),
        ({"headers": {"Sec-WebSocket-Key": "x"}}, ValueError),
        ({"headers": {"Upgrade": "x"}}, ValueError),
    ],
)
async def test_bad_arguments_are_refused_before_anything_is_sent(
    client: AnyClient, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await client.websocket("ws://127.0.0.1:1/", **options)


async def test_other_messages_than_text_and_bytes_are_refused(
    client: AnyClient, echo_server: RawServer
) -> None:
    async with await client.websocket(url_of(echo_server)) as ws:
        for wrong in (None, 5, ["x"]):
            with pytest.raises(TypeError, match="str or bytes"):
                await ws.send(wrong)
        for code in (999, 1004, 1005, 1006, 1015, 2999, 5000):
            with pytest.raises(ValueError, match="close code"):
                await ws.close(code)
        with pytest.raises(ValueError, match="123 bytes"):
            await ws.close(1000, "x" * 124)
        with pytest.raises(ValueError, match="125 bytes"):
            await ws.ping(bytes(126))
        await ws.send("still open")
        assert await ws.recv() == "still open"
        await ws.close(4999, "done")
        assert (ws.real.close_code, ws.real.close_reason) == (4999, "done")


@pytest.mark.colours("blocking", "asyncio")
async def test_a_missing_package_is_named(
    client: AnyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "websockets.client", None)
    with pytest.raises(ImportError, match=r"pip install 'curlhttp\[ws\]'"):
        await client.websocket("ws://127.0.0.1:1/")


# --- routes to the server ---


async def test_tls_is_checked_as_for_any_request(make_client: Make, certs: Certs) -> None:
    with RawServer(speaking(echo), certs.server_context()) as server:
        url = url_of(server)
        assert url.startswith("wss://")
        client = make_client(http2=True)
        async with await client.websocket(url) as ws:
            for size in (1, 16_384, 70_000, 400_000):
                await ws.send(bytes(size))
                assert await ws.recv() == bytes(size)
        with pytest.raises(SSLError):
            await client.websocket(url, verify=True)


@pytest.mark.parametrize("kind", ["http", "socks5h"])
@pytest.mark.parametrize("is_tls", [False, True])
async def test_it_works_through_proxies(
    client: AnyClient, certs: Certs, kind: str, is_tls: bool
) -> None:
    proxies = HTTPProxy() if kind == "http" else SOCKSProxy()
    with RawServer(speaking(echo), certs.server_context() if is_tls else None) as server:
        with proxies as proxy:
            through = f"{kind}://127.0.0.1:{proxy.port}"
            async with await client.websocket(url_of(server), proxies=through) as ws:
                await ws.send("x")
                assert await ws.recv() == "x"
            assert proxy.connections == 1


async def test_a_server_that_is_silent_is_an_error(client: AnyClient) -> None:
    timeout = curlhttp.Timeout(connect=paced(0.1), read=paced(0.1))
    with RawServer(lambda conn: conn.stall()) as server, pytest.raises(ReadTimeout):
        await client.websocket(url_of(server), timeout=timeout)
    with BlackHole() as hole, pytest.raises(ConnectTimeout):
        await client.websocket(f"ws://127.0.0.1:{hole.port}/", timeout=timeout)


async def test_a_server_that_breaks_off_the_handshake_is_named(client: AnyClient) -> None:
    with RawServer(respond_and_reset(b"")) as server:
        with pytest.raises(ConnectionError, match=r"^GET ws://[^ ]+: ") as caught:
            await client.websocket(url_of(server, "/?token=secret"))
    assert "secret" not in str(caught.value)


async def test_messages_show_the_scheme_of_websockets(client: AnyClient) -> None:
    """Whatever the part that they come from."""
    with pytest.raises(ConnectionError, match=r"^GET ws://127\.0\.0\.1:9/\?token=\*") as refused:
        await client.websocket("ws://127.0.0.1:9/?token=secret")
    with RawServer(respond_and_close(response(b"", "403 No"))) as server:
        with pytest.raises(WebSocketRefused, match=r"^GET ws://127\.0\.0\.1:\d+/: ") as answered:
            await client.websocket(url_of(server), auth=("user", "secret"))
    for caught in (refused, answered):
        assert str(caught.value.request).startswith("GET ws://")
        assert str(pickle.loads(pickle.dumps(caught.value)).request).startswith("GET ws://")


# --- bounds ---


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("pieces", [1, 4])
async def test_a_message_that_is_too_large_ends_it(
    client: AnyClient, is_compressed: bool, pieces: int
) -> None:
    codes = []

    def talk(conn: RawConnection) -> None:
        data = bytes(2000)
        if is_compressed:
            coder = zlib.compressobj(wbits=-15)
            data = (coder.compress(data) + coder.flush(zlib.Z_SYNC_FLUSH))[:-4]
        step = -(-len(data) // pieces)
        parts = [data[at : at + step] for at in range(0, len(data), step)]
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            opcode = CONT if number else BINARY
            conn.send(frame(opcode, part, fin=is_last, rsv1=is_compressed and not number))
        codes.append(read_frame(conn))

    fields = ["Sec-WebSocket-Extensions: permessage-deflate"] if is_compressed else []
    with RawServer(speaking(talk, *fields)) as server:
        async with await client.websocket(url_of(server), max_size=1999) as ws:
            with pytest.raises(WebSocketClosed, match="1009") as caught:
                await ws.recv()
            assert caught.value.code == 1009
    assert codes[0][0] == CLOSE
    assert codes[0][1][:2] == (1009).to_bytes(2, "big")


async def test_a_slow_reader_slows_the_server(client: AnyClient) -> None:
    sent = 0
    stopped = threading.Event()

    def talk(conn: RawConnection) -> None:
        nonlocal sent
        conn.sock.settimeout(paced(0.5))
        try:
            while sent < 10_000:
                conn.send(frame(BINARY, bytes(64 * 1024)))
                sent += 1
        except TimeoutError:
            stopped.set()
        conn.sock.settimeout(None)
        conn.stall()

    with RawServer(speaking(talk)) as server:
        ws = await client.websocket(url_of(server), ping_interval=paced(0.05), close_timeout=0.1)
        assert await ws.recv() == bytes(64 * 1024)
        assert await anyio.to_thread.run_sync(stopped.wait, 30)
        assert sent < 1000  # of 640 MB
        assert count_buffered(ws.real) <= 8 * 65 * 1024
        await ws.aclose()


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_server_that_does_not_read_slows_the_sender(client: AnyClient) -> None:
    go = threading.Event()
    received = 0

    def talk(conn: RawConnection) -> None:
        nonlocal received
        go.wait(30)
        while read_frame(conn)[0] == BINARY:
            received += 1

    with RawServer(speaking(talk)) as server:
        ws = await client.websocket(url_of(server), compression=None, close_timeout=30)
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(100):
                await ws.send(bytes(200_000))
                sent += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while True:
                before = sent
                await anyio.sleep(paced(0.1))
                if before == sent:
                    break
            assert sent < 100
            tasks.start_soon(send)  # a second sender waits with the first
            await anyio.sleep(paced(0.02))
            go.set()
        await ws.aclose()
    assert received == 200


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancelled_sender_does_not_break_the_frames(client: AnyClient) -> None:
    go = threading.Event()
    frames = []

    def talk(conn: RawConnection) -> None:
        go.wait(30)
        while True:
            opcode, data = read_frame(conn)
            frames.append((opcode, len(data)))
            if opcode == CLOSE:
                conn.send(frame(CLOSE, data))
                return

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server), compression=None, max_size=None) as ws:
            with anyio.move_on_after(paced(0.1)) as scope:
                await ws.send(bytes(30_000_000))
            assert scope.cancelled_caught
            go.set()
            await ws.send(b"next")
    assert frames[:2] == [(BINARY, 30_000_000), (BINARY, 4)]


# --- ends ---


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\xc3", fin=False) + frame(CONT, b"\xff"), 1007),
        (frame(TEXT, b"\xc3"), 1007),
        (frame(3), 1002),
        (frame(CONT), 1002),
        (frame(TEXT, b"x", rsv1=True), 1002),
        (frame(PING, bytes(126)), 1002),
        (frame(TEXT, b"x", fin=False) + frame(TEXT, b"x"), 1002),
        (b"\x81\x80abcd", 1002),  # masked
        (frame(CLOSE, b"\x00"), 1002),
        (close_frame(1005), 1002),
        (b"\xff" * 1000, 1002),
    ],
)
async def test_a_server_that_breaks_the_protocol_gets_a_close_code(
    client: AnyClient, data: bytes, code: int
) -> None:
    got = []

    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"fine") + data)
        got.append(read_frame(conn))

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert await ws.recv() == "fine"
            with pytest.raises(WebSocketClosed):
                await ws.recv()
            with pytest.raises(WebSocketClosed):
                await ws.send("x")
    assert got[0][0] == CLOSE
    assert int.from_bytes(got[0][1][:2], "big") == code


async def test_a_server_may_close_between_the_pieces_of_a_message(client: AnyClient) -> None:
    got = []

    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"half", fin=False) + close_frame(1000) + frame(CONT, b"late"))
        got.append(read_frame(conn))

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert [message async for message in ws] == []
    assert got == [(CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize("before", [b"", frame(TEXT, b"cut")[:3]])
async def test_a_connection_that_breaks_is_1006(
    client: AnyClient, ending: str, before: bytes
) -> None:
    def talk(conn: RawConnection) -> None:
        conn.send(before)
        read_frame(conn)
        getattr(conn, ending)()

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            await ws.send("x")
            with pytest.raises(WebSocketClosed) as caught:
                await ws.recv()
            assert caught.value.code == 1006
            with pytest.raises(WebSocketClosed):
                for _ in range(3):
                    await ws.send("x")
        assert ws.real.close_code == 1006


async def test_a_reset_right_after_a_message_is_noticed(client: AnyClient) -> None:
    """libuv, below uvloop, stops to watch a socket that gets both at once."""

    def talk(conn: RawConnection) -> None:
        read_frame(conn)
        conn.send(frame(TEXT, b"last"))
        conn.reset()

    with RawServer(speaking(talk)) as server, anyio.fail_after(60):
        for _ in range(5):
            async with await client.websocket(url_of(server), ping_interval=None) as ws:
                await ws.send("x")
                with pytest.raises(WebSocketClosed) as caught:
                    while await ws.recv() == "last":
                        pass
                assert caught.value.code == 1006


async def test_close_amid_a_message_is_clean(client: AnyClient) -> None:
    got = []

    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"half", fin=False))
        got.append(read_frame(conn))
        conn.send(close_frame(1000))

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            with pytest.raises(ReadTimeout):
                await ws.recv(paced(0.02))
        assert ws.real.close_code == 1000
    assert got == [(CLOSE, b"\x03\xe8")]


async def test_a_server_that_never_confirms_the_close_is_disconnected(client: AnyClient) -> None:
    with RawServer(speaking(lambda conn: conn.stall())) as server:
        ws = await client.websocket(url_of(server), close_timeout=paced(0.05))
        await ws.close(1001)
        assert ws.real.close_code == 1001
        await ws.close()
        with pytest.raises(WebSocketClosed):
            await ws.recv()


async def test_a_closed_client_ends_its_websockets(
    make_client: Make, echo_server: RawServer
) -> None:
    client = make_client()
    ws = await client.websocket(url_of(echo_server))
    await client.aclose()
    with pytest.raises(ClientClosed):
        await ws.recv()
    with pytest.raises(ClientClosed):
        await ws.send("x")
    await ws.aclose()


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_closing_the_client_wakes_recv(make_client: Make, echo_server: RawServer) -> None:
    client = make_client()
    ws = await client.websocket(url_of(echo_server))
    errors = []

    async def receive() -> None:
        with pytest.raises(ClientClosed) as caught:
            await ws.recv(None)
        errors.append(caught.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await anyio.sleep(paced(0.02))
        await client.aclose()
    assert errors


@pytest.mark.colours("blocking")
async def test_closing_the_client_wakes_a_thread_that_receives(
    make_client: Make, echo_server: RawServer
) -> None:
    client = make_client()
    ws = client.real.websocket(url_of(echo_server))
    errors = []

    def receive() -> None:
        try:
            ws.recv()
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    while not is_receiving(ws):
        await anyio.sleep(0.001)
    client.real.close()
    await anyio.to_thread.run_sync(thread.join, 30)
    assert errors


async def test_its_slot_is_released_at_its_end(make_client: Make, echo_server: RawServer) -> None:
    client = make_client(
        max_connections=1,
        timeout=curlhttp.Timeout(pool=paced(0.05)),
        concurrency_limit=curlhttp.ConcurrencyLimit(1),
    )
    for _ in range(3):
        async with await client.websocket(url_of(echo_server)):
            with pytest.raises(PoolTimeout):
                await client.websocket(url_of(echo_server))


async def test_a_dropped_websocket_is_released(make_client: Make, echo_server: RawServer) -> None:
    client = make_client(max_connections=1, timeout=curlhttp.Timeout(pool=30))
    for _ in range(3):
        ws = await client.websocket(url_of(echo_server))
        await ws.send("x")
        await ws.recv()
        del ws
        gc.collect()
        await anyio.sleep(0)


async def test_a_second_recv_at_once_is_an_error(client: AnyClient, echo_server: RawServer) -> None:
    async with await client.websocket(url_of(echo_server)) as ws:
        async with anyio.create_task_group() as tasks:
            if client.is_blocking:
                tasks.start_soon(anyio.to_thread.run_sync, ws.real.recv)
            else:
                tasks.start_soon(ws.real.recv)
            while not is_receiving(ws.real):
                await anyio.sleep(0.001)
            with pytest.raises(RuntimeError, match="is receiving"):
                await ws.recv()
            await ws.send("for the first")


# --- keepalive ---


async def test_pings_get_pongs_without_recv(client: AnyClient) -> None:
    answered = threading.Event()

    def talk(conn: RawConnection) -> None:
        conn.send(frame(PING, b"there?"))
        while read_frame(conn) != (PONG, b"there?"):
            pass
        answered.set()
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)):
            assert await anyio.to_thread.run_sync(answered.wait, 30)


async def test_its_own_pings_measure_the_latency(client: AnyClient) -> None:
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(url_of(server), ping_interval=0.02) as ws:
            with anyio.fail_after(30):
                while ws.real.latency is None:
                    await anyio.sleep(0.01)
            assert ws.real.latency >= 0


@pytest.mark.parametrize("receives", [True, False])
async def test_a_server_without_a_pong_is_disconnected(client: AnyClient, receives: bool) -> None:
    with RawServer(speaking(lambda conn: conn.stall())) as server:
        ws = await client.websocket(
            url_of(server), ping_interval=paced(0.05), ping_timeout=paced(0.1)
        )
        if not receives:
            with anyio.fail_after(30):
                while ws.real.close_code is None:
                    await anyio.sleep(0.01)
        with pytest.raises(WebSocketClosed, match="no pong") as caught:
            await ws.recv()
        assert caught.value.code == 1011
        await ws.aclose()


async def test_a_ping_is_sent_on_demand(client: AnyClient) -> None:
    got = threading.Event()

    def talk(conn: RawConnection) -> None:
        assert read_frame(conn) == (PING, b"hi")
        got.set()
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            await ws.ping(b"hi")
            assert await anyio.to_thread.run_sync(got.wait, 30)


# --- many at once ---


async def test_many_are_open_at_once(client: AnyClient, echo_server: RawServer) -> None:
    opened = [await client.websocket(url_of(echo_server)) for _ in range(50)]
    for number, ws in enumerate(opened):
        await ws.send(str(number))
    assert [await ws.recv() for ws in opened] == [str(number) for number in range(50)]
    for ws in opened:
        await ws.aclose()


@pytest.mark.colours("blocking")
async def test_threads_send_while_one_receives(client: AnyClient, echo_server: RawServer) -> None:
    with client.real.websocket(url_of(echo_server)) as ws:

        def send(number: int) -> None:
            for count in range(100):
                ws.send(f"{number} {count} " + "x" * 1000)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        got = [ws.recv(30)[:5] for _ in range(400)]
        for thread in threads:
            thread.join()
    assert len(set(got)) == 400


async def test_read_ahead_is_bounded_by_the_decompressed_size(client: AnyClient) -> None:
    coder = zlib.compressobj(wbits=-15)
    data = coder.compress(bytes(1 << 20)) + coder.flush(zlib.Z_SYNC_FLUSH)
    bomb = frame(BINARY, data[:-4], rsv1=True)
    fields = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover"
    sent = threading.Event()

    def talk(conn: RawConnection) -> None:
        conn.send(bomb * 100)  # 100 KB, and 100 MiB
        sent.set()
        echo(conn)

    with RawServer(speaking(talk, fields)) as server:
        ws = await client.websocket(url_of(server), ping_interval=0.02, close_timeout=0.1)
        assert await anyio.to_thread.run_sync(sent.wait, 30)
        assert await ws.recv() == bytes(1 << 20)
        await anyio.sleep(paced(0.1))
        assert count_buffered(ws.real) < 40 << 20
        for _ in range(99):
            assert await ws.recv() == bytes(1 << 20)
        await ws.aclose()


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
async def test_a_message_goes_on_after_fragments_without_data(
    client: AnyClient, opcode: int
) -> None:
    def talk(conn: RawConnection) -> None:
        conn.send(frame(opcode, fin=False) + frame(CONT, fin=False) * 1000 + frame(PING))
        assert read_frame(conn)[0] == PONG  # it has read all of that
        read_frame(conn)
        conn.send(frame(CONT, b"end"))
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            with pytest.raises(ReadTimeout):
                await ws.recv(timeout=paced(0.3))
            await ws.send("go on")
            assert await ws.recv() == ("end" if opcode == TEXT else b"end")


# --- forks, interrupts ---


@pytest.mark.colours("blocking")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
async def test_a_forked_child_does_not_use_it(client: AnyClient, echo_server: RawServer) -> None:
    with client.real.websocket(url_of(echo_server)) as ws:
        child = os.fork()
        if not child:
            code = 1
            try:
                ws.send("from the child")
            except RequestException:
                ws.close()
                with client.real.websocket(url_of(echo_server)) as own:
                    own.send("x")
                    code = 0 if own.recv(30) == "x" else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        ws.send("still here")
        assert ws.recv(30) == "still here"


@pytest.mark.colours("blocking")
async def test_ctrl_c_ends_a_wait_and_changes_nothing_else(
    client: AnyClient, echo_server: RawServer
) -> None:
    with client.real.websocket(url_of(echo_server)) as ws:
        timer = threading.Timer(0.1, interrupt_main_thread)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ws.recv(30)
        timer.join()
        ws.send("still here")
        assert ws.recv(30) == "still here"
