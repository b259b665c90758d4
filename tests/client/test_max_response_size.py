"""max_response_size: exact to the byte, on the wire and decoded, buffered and streamed."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from curlhttp.exceptions import ChunkedEncodingError, RequestException, ResponseTooLarge
from tests.servers import (
    AppServer,
    Certs,
    H2Server,
    RawConnection,
    RawServer,
    payload,
    respond,
    response,
)
from tests.servers.routes import CODERS
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

Make = Callable[..., AnyClient]


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def server(request: pytest.FixtureRequest) -> AppServer:
    """Return the application on HTTP/1.1 and on HTTP/2, in turn."""
    name = "app" if request.param == "HTTP/1.1" else "h2_app"
    found: AppServer = request.getfixturevalue(name)
    return found


@pytest.fixture(params=["buffered", "streamed", "read"])
def api(request: pytest.FixtureRequest) -> str:
    """Return how the body is read."""
    return str(request.param)


@pytest.fixture(params=["of the client", "of the request"])
def get(request: pytest.FixtureRequest, make_client: Make, api: str) -> Any:
    """Return a function that gets a body with a limit, set on the client or the request."""

    async def fetch(url: str, limit: int | None) -> bytes:
        of_client = request.param == "of the client"
        client = make_client(http2=True, **({"max_response_size": limit} if of_client else {}))
        options = {} if of_client else {"max_response_size": limit}
        if api == "buffered":
            content: bytes = (await client.get(url, **options)).content
            return content
        async with await client.stream("GET", url, **options) as stream:
            if api == "read":
                return await stream.read()
            return b"".join([piece async for piece in stream.iterate("bytes")])

    return fetch


@EVERY_CLIENT_API
async def test_the_limit_holds_for_every_api(fetch: Fetch, app: AppServer, tmp_path: Path) -> None:
    """On the wire, and decoded; a download leaves nothing behind."""
    for path in ("/bytes/300000", "/chunked/300000", "/gzip?zeros=1&size=9000000"):
        with pytest.raises(ResponseTooLarge):
            await fetch(app.url + path, max_response_size=200_000)
        assert not list(tmp_path.iterdir())
    assert (await fetch(app.url + "/bytes/200000", max_response_size=200_000)).ok


@pytest.mark.parametrize("size", [1, 1000, 300_000])
async def test_a_plain_body_is_bounded_to_the_byte(get: Any, server: AppServer, size: int) -> None:
    url = f"{server.url}/bytes/{size}"
    assert await get(url, size) == payload(size)
    with pytest.raises(ResponseTooLarge, match=f"max_response_size={size - 1} bytes") as caught:
        await get(url, size - 1)
    assert caught.value.request is not None
    assert caught.value.request_sent


async def test_a_chunked_body_is_bounded_to_the_byte(get: Any, app: AppServer) -> None:
    url = f"{app.url}/chunked/50000"
    assert await get(url, 50_000) == payload(50_000)
    with pytest.raises(ResponseTooLarge):
        await get(url, 49_999)


@pytest.mark.parametrize("coding", sorted(CODERS))
async def test_a_decoded_body_is_bounded_to_the_byte(get: Any, app: AppServer, coding: str) -> None:
    """A bomb costs no more than the limit."""
    url = f"{app.url}/{coding}?zeros=1&size=100000"
    assert await get(url, 100_000) == bytes(100_000)
    with pytest.raises(ResponseTooLarge, match="99999 bytes") as caught:
        await get(url, 99_999)
    assert caught.value.response.status_code == 200  # type: ignore[union-attr]


async def test_the_size_on_the_wire_counts_if_coding_makes_a_body_larger(
    get: Any, app: AppServer
) -> None:
    size = 1000
    wire = len(gzip.compress(payload(size), mtime=0))
    assert wire > size
    url = f"{app.url}/gzip?size={size}"
    assert await get(url, wire) == payload(size)
    with pytest.raises(ResponseTooLarge):
        await get(url, wire - 1)


async def test_zero_allows_the_empty_body_alone(get: Any, server: AppServer) -> None:
    assert await get(server.url + "/bytes/0", 0) == b""
    assert await get(server.url + "/204", 0) == b""
    with pytest.raises(ResponseTooLarge):
        await get(server.url + "/bytes/1", 0)


async def test_a_request_may_lift_the_clients_limit(make_client: Make, app: AppServer) -> None:
    client = make_client(max_response_size=10)
    with pytest.raises(ResponseTooLarge):
        await client.get(app.url + "/bytes/11")
    response = await client.get(app.url + "/bytes/11", max_response_size=None)
    assert len(response.content) == 11
    with pytest.raises(ResponseTooLarge):  # the limit of one request is not that of the next
        await client.get(app.url + "/bytes/11")


async def test_an_error_status_is_bounded_too(get: Any) -> None:
    """Every body is bounded."""
    with RawServer(respond(response(payload(1000), status="500 Sorry"))) as raw:
        with pytest.raises(ResponseTooLarge):
            await get(raw.url, 999)


async def test_a_head_request_has_no_body_to_bound(make_client: Make, app: AppServer) -> None:
    client = make_client(max_response_size=10)
    response = await client.request("HEAD", app.url + "/bytes/1000")
    assert response.headers["content-length"] == "1000"


async def test_raw_pieces_are_bounded_by_the_wire(make_client: Make, app: AppServer) -> None:
    client = make_client(max_response_size=5000)
    url = f"{app.url}/gzip?zeros=1&size=1000000"
    async with await client.stream("GET", url) as stream:
        raw = b"".join([piece async for piece in stream.iterate("raw")])
    assert len(gzip.decompress(raw)) == 1_000_000


async def test_bytes_within_the_limit_precede_the_error(make_client: Make, app: AppServer) -> None:
    client = make_client(max_response_size=100_000)
    async with await client.stream("GET", f"{app.url}/gzip?zeros=1&size=1000000") as stream:
        got = 0
        with pytest.raises(ResponseTooLarge):
            async for piece in stream.iterate("bytes", 1000):
                got += len(piece)
        assert 90_000 < got <= 100_000


async def test_an_endless_body_ends_at_the_limit_and_closes_the_connection(get: Any) -> None:
    """An abort closes the socket."""
    closed: list[bool] = []

    def endless(conn: RawConnection) -> None:
        conn.read_request()
        try:
            conn.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                conn.send(bytes(65536))
        except OSError:
            closed.append(True)

    with RawServer(endless) as raw:
        with pytest.raises(ResponseTooLarge):
            await get(raw.url, 1_000_000)
        assert raw.wait_for(lambda: raw.open_connections == 0)
    assert closed == [True]


async def test_a_body_that_was_cut_short_excuses_no_later_failure(make_client: Make) -> None:
    """The handle that stopped reading the body of a redirect sends the next request."""

    def answer(conn: RawConnection) -> None:
        while head := conn.read_request()[0]:
            if head.startswith(b"GET / "):
                conn.send(response(bytes(300_000), "302 Found", [("Location", "/end")]))
            else:
                conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
                return

    with RawServer(answer) as raw:
        with pytest.raises(ChunkedEncodingError):
            await make_client(follow_redirects=True).get(raw.url)


async def test_too_large_a_body_does_not_affect_other_streams(
    make_client: Make, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    await client.get(h2_app.url)
    with pytest.raises(ResponseTooLarge):
        await client.get(h2_app.url + "/big", max_response_size=1000)
    assert (await client.get(h2_app.url)).content == b"hello"
    if not client.is_blocking:
        assert h2_app.connections == 1
        assert len(h2_app.resets) == 1


@pytest.mark.parametrize("limit", [-1, -(10**9)])
async def test_a_negative_limit_is_refused(make_client: Make, limit: int) -> None:
    with pytest.raises(ValueError, match="max_response_size"):
        make_client(max_response_size=limit)
    with pytest.raises(ValueError, match="max_response_size"):
        await make_client().get("http://127.0.0.1:1", max_response_size=limit)


# --- what frames a body, which libcurl drops without a limit ---

_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_MOVED = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nTransfer-Encoding: chunked\r\n\r\n"
_ENDLESS_FRAMING = {
    "extension": (b"5;", 64 * 1024 * b"x"),
    "extension after data": (b"5\r\nhello\r\n5;", 64 * 1024 * b"x"),
    "blanks": (b"5", 64 * 1024 * b" "),
    "extensions": (b"", b"1;" + 60_000 * b"x" + b"\r\na\r\n"),
    "short extensions": (b"", 100 * (b"1;" + 500 * b"x" + b"\r\na\r\n")),
    "trailers": (b"0\r\n", 5000 * b"a: b\r\n"),
    "zeros": (b"", 64 * 1024 * b"0"),
}


def _send_endlessly(head: bytes, begin: bytes, piece: bytes) -> Callable[[RawConnection], None]:
    def send(connection: RawConnection) -> None:
        if b"/next" in connection.read_request()[0]:
            connection.send(response(b"next"))
            return
        connection.send(head + begin)
        while True:  # until the client closes the connection
            connection.send(piece)

    return send


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a socket")
@pytest.mark.parametrize("kind", _ENDLESS_FRAMING)
async def test_endless_framing_of_chunks_ends_the_request(
    make_client: Make, api: str, kind: str
) -> None:
    is_limited_by_libcurl = kind in ("trailers", "zeros")
    expected = RequestException if is_limited_by_libcurl else ResponseTooLarge
    with RawServer(_send_endlessly(_CHUNKED, *_ENDLESS_FRAMING[kind])) as server:
        client = make_client(max_response_size=1000)
        with pytest.raises(expected) as caught:
            if api == "buffered":
                await client.get(server.url)
            async with await client.stream("GET", server.url) as stream:
                async for _ in stream.iterate("bytes"):
                    pass
        if not is_limited_by_libcurl:
            assert "max_response_size=1000 bytes" in str(caught.value)
            assert caught.value.request_sent


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a socket")
@EVERY_CLIENT_API
async def test_an_endless_extension_ends_every_api(fetch: Fetch) -> None:
    with RawServer(_send_endlessly(_CHUNKED, *_ENDLESS_FRAMING["extension"])) as server:
        with pytest.raises(ResponseTooLarge):
            await fetch(server.url, max_response_size=1000)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a socket")
async def test_endless_framing_of_a_redirects_body_is_not_read(client: AnyClient) -> None:
    with RawServer(_send_endlessly(_MOVED, *_ENDLESS_FRAMING["extension"])) as server:
        assert (await client.get(server.url)).content == b"next"


@pytest.mark.parametrize("tls", [False, True])
async def test_a_body_in_chunks_of_one_byte_may_be_as_large_as_the_limit(
    make_client: Make, certs: Certs, tls: bool
) -> None:
    """On a kept connection too, after larger responses."""
    body = 20_000 * b"1\r\na\r\n"
    context = certs.server_context() if tls else None
    large = response(3_000_000 * b"x")
    with RawServer(respond(large, _CHUNKED + body + b"0\r\n\r\n"), context) as server:
        client = make_client()
        await client.get(server.url)
        found = await client.get(server.url, max_response_size=20_000)
        assert found.content == 20_000 * b"a"
