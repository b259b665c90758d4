"""A request that may have been processed is sent once, even if its connection dies."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from curlhttp import exceptions as e
from tests.servers import H2Server, RawConnection, RawServer, response
from tests.servers.raw import Handler, respond_and_close, respond_and_reset
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.pace import paced

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


def pieces(*parts: bytes) -> Iterator[bytes]:
    yield from parts


ONCE: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "POST": ("POST", lambda: {"data": b"pay"}),
    "empty POST": ("POST", dict),
    "streamed POST": ("POST", lambda: {"content": pieces(b"pay", b"ment")}),
    "file POST": ("POST", lambda: {"content": io.BytesIO(b"payment")}),
    "PATCH": ("PATCH", lambda: {"json": {"a": 1}}),
    "unknown method": ("FROB", dict),
    "streamed PUT": ("PUT", lambda: {"content": pieces(b"pay", b"ment")}),
}

ENDINGS: dict[str, tuple[bytes, bool]] = {  # last bytes sent, and whether RST follows
    "FIN": (b"", False),
    "RST": (b"", True),
    "half a status line": (b"HTTP/1.1 2", False),
    "half a status line and RST": (b"HTTP/1.1 2", True),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Le", False),
}


def ends_its_second_request(said: bytes, resets: bool, last: int = 0) -> Handler:
    """Respond to one request, then say `said` and end; connections after number `last` are fine."""

    def handler(conn: RawConnection) -> None:
        if conn.index > last:
            while head := conn.read_request()[0]:
                conn.send(response(b"" if head.startswith(b"HEAD") else b"again"))
        elif head := conn.read_request()[0]:
            conn.send(response(b"" if head.startswith(b"HEAD") else b"first"))
            if conn.read_request()[0]:
                conn.send(said)
                if resets:
                    conn.reset()

    return handler


def sent(server: RawServer, method: str) -> int:
    return sum(request.startswith(method.encode() + b" ") for request in server.requests)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ONCE)
async def test_it_is_not_sent_again_when_a_reused_connection_dies(
    kind: str, ending: str, client: AnyClient
) -> None:
    method, options = ONCE[kind]
    with RawServer(ends_its_second_request(*ENDINGS[ending])) as server:
        assert (await client.request(method, server.url, **options())).content == b"first"
        with pytest.raises(e.ConnectionError) as caught:
            await client.request(method, server.url, **options())
        assert caught.value.request_sent
        assert server.wait_for(lambda: sent(server, method) == 2)
        assert (await client.get(server.url)).content == b"again"
        assert sent(server, method) == 2


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_post_whose_response_is_streamed_is_not_sent_again(
    ending: str, client: AnyClient
) -> None:
    with RawServer(ends_its_second_request(*ENDINGS[ending])) as server:
        async with await client.stream("GET", server.url) as stream:
            assert await stream.read() == b"first"
        with pytest.raises(e.ConnectionError):
            await client.stream("POST", server.url, data=b"pay")
        assert (await client.get(server.url)).content == b"again"
        assert sent(server, "POST") == 1


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["POST", "streamed PUT"])
async def test_it_is_not_sent_again_when_a_fresh_connection_dies(
    kind: str, ending: str, client: AnyClient
) -> None:
    method, options = ONCE[kind]
    said, resets = ENDINGS[ending]
    handler = respond_and_reset(said) if resets else respond_and_close(said)
    with RawServer(handler) as server:
        with pytest.raises(e.ConnectionError):
            await client.request(method, server.url, **options())
        assert sent(server, method) == 1


@pytest.mark.parametrize("reused", [False, True])
async def test_a_post_without_a_response_is_not_sent_again(reused: bool, client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        while (head := conn.read_request()[0]).startswith(b"GET"):
            conn.send(response(b"first"))
        if head:
            conn.stall()

    with RawServer(handler) as server:
        if reused:
            await client.get(server.url)
        with pytest.raises(e.ReadTimeout):
            await client.post(server.url, data=b"pay", timeout=(30, paced(0.1)))
        assert sent(server, "POST") == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "PUT"])
async def test_an_idempotent_request_is_sent_again_on_a_dead_connection(
    method: str, client: AnyClient
) -> None:
    with RawServer(ends_its_second_request(b"", resets=False)) as server:
        await client.request(method, server.url)
        assert (await client.request(method, server.url)).status_code == 200
        assert sent(server, method) == 3


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_idempotent_request_is_sent_twice_at_most(
    method: str, make_client: MakeClient
) -> None:
    """Also when there are more dead connections than that in the pool."""
    together = threading.Barrier(4)

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            if conn.index < 4:
                together.wait(60)
            conn.send(response(b"first"))
            conn.read_request()

    client = make_client(http2=False)
    with RawServer(handler) as server:
        await client.gather(4, "OPTIONS", server.url)
        assert server.connections == 4
        assert (await client.request(method, server.url)).content == b"first"
        assert sent(server, method) == 2


async def test_a_get_survives_that_all_idle_connections_were_closed(
    make_client: MakeClient,
) -> None:
    """A restarted server: libcurl on its own would try one dead connection after the other."""
    together = threading.Barrier(4)

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            if conn.index < 4:
                together.wait(60)
            conn.send(response(b"ok"))

    client = make_client(http2=False)
    with RawServer(handler) as server:
        await client.gather(4, "GET", server.url)
        assert server.wait_for(lambda: server.open_connections == 0)
        assert (await client.get(server.url)).content == b"ok"
        assert len(server.requests) == 5


async def test_a_post_after_the_server_closed_an_idle_connection_is_sent_once(
    client: AnyClient,
) -> None:
    """libcurl would not notice for a second, and our guard would then fail the POST."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(response(b"ok"))

    with RawServer(handler) as server:
        for number in range(3):
            assert (await client.get(server.url)).content == b"ok"
            assert server.wait_for(lambda: server.open_connections == 0)
            assert (await client.post(server.url, data=b"pay")).content == b"ok"
            assert sent(server, "POST") == number + 1
            assert server.wait_for(lambda: server.open_connections == 0)


async def test_a_streamed_post_after_an_idle_close_is_sent_once(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(response(b"ok"))

    with RawServer(handler) as server:
        await client.get(server.url)
        assert server.wait_for(lambda: server.open_connections == 0)
        response_ = await client.post(server.url, content=pieces(b"pay", b"ment"))
        assert response_.content == b"ok"
        assert sent(server, "POST") == 1


async def test_a_post_that_http2_loses_is_not_sent_again(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    h2_app.stream_route("/lose", lambda record, stream: stream.close_connection())
    client = make_client(http2=True)
    await client.get(h2_app.url + "/")
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(h2_app.url + "/lose", data=b"pay")
    assert caught.value.request_sent
    assert [record.method for record in h2_app.requests] == ["GET", "POST"]
