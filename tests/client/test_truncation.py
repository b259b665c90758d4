"""A response that is cut short or corrupt is an error, wherever it is cut."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest

from curlhttp import exceptions as e
from tests.servers import AppServer, H2Server, RawConnection, RawServer, payload, respond, response
from tests.servers.raw import Handler, respond_and_close, respond_and_reset
from tests.servers.routes import CODERS
from tests.support.colours import WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


HEAD = b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 0\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"


def cuts(before: bytes, head: bytes, least: int = 1) -> Handler:
    """Send one byte more of the head on each connection, then close."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(before + head[: conn.index + least])

    return handler


@pytest.mark.parametrize("streams", [False, True])
async def test_a_head_cut_anywhere_is_no_response(streams: bool, client: AnyClient) -> None:
    with RawServer(cuts(b"", HEAD)) as server:
        for size in range(1, len(HEAD)):
            with pytest.raises(e.ConnectionError) as caught:
                await client.request("GET", server.url, stream=streams)
            assert caught.value.request_sent, HEAD[:size]
            # libcurl does not distinguish between no response and a part of a status line.
            is_silence = size < len(b"HTTP/1.1 200 OK\r\n") and caught.value.curl_code == 52
            assert is_silence or isinstance(caught.value, e.RemoteProtocolError), HEAD[:size]
            assert server.connections == size
        assert (await client.get(server.url)).status_code == 200


@pytest.mark.parametrize("streams", [False, True])
async def test_a_head_cut_after_an_informational_one_is_no_response(
    streams: bool, client: AnyClient
) -> None:
    with RawServer(cuts(HINTS, HEAD, least=0)) as server:
        for size in range(len(HEAD)):
            with pytest.raises(e.ConnectionError) as caught:
                await client.request("GET", server.url, stream=streams)
            assert caught.value.request_sent, HEAD[:size]
            is_silence = size < len(b"HTTP/1.1 200 OK\r\n") and caught.value.curl_code == 52
            assert is_silence or isinstance(caught.value, e.RemoteProtocolError), HEAD[:size]
        response_ = await client.get(server.url)
        assert response_.status_code == 200
        assert "link" not in response_.headers


@pytest.mark.parametrize("method", ["HEAD", "POST"])
async def test_a_cut_head_is_no_response_to_other_methods(method: str, client: AnyClient) -> None:
    with RawServer(cuts(b"", HEAD, least=17)) as server:
        for _ in range(17, len(HEAD)):
            with pytest.raises(e.RemoteProtocolError):
                await client.request(method, server.url)


async def test_a_connection_closed_without_a_byte_is_an_error(client: AnyClient) -> None:
    with RawServer(respond_and_close(b"")) as server:
        with pytest.raises(e.ConnectionError) as caught:
            await client.get(server.url)
        assert caught.value.curl_code == 52


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: a\r\n\r\n"
BODY_AT = CHUNKED.index(b"\r\n\r\n") + 4


async def read(client: AnyClient, url: str, streams: bool, **options: Any) -> bytes:
    if not streams:
        body: bytes = (await client.get(url, **options)).content
        return body
    async with await client.stream("GET", url, **options) as stream:
        return await stream.read()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_chunked_body_cut_anywhere_is_no_response(streams: bool, client: AnyClient) -> None:
    with RawServer(cuts(b"", CHUNKED, least=BODY_AT)) as server:
        for size in range(BODY_AT, len(CHUNKED)):
            with pytest.raises(e.ChunkedEncodingError) as caught:
                await read(client, server.url, streams)
            assert caught.value.request_sent, CHUNKED[BODY_AT:size]
        assert await read(client, server.url, streams) == b"hello"


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("given", [0, 1, 99])
async def test_a_body_shorter_than_its_length_is_no_response(
    given: int, streams: bool, resets: bool, client: AnyClient
) -> None:
    cut = response(bytes(100))[: given - 100]
    with RawServer((respond_and_reset if resets else respond_and_close)(cut)) as server:
        with pytest.raises(e.ChunkedEncodingError) as caught:
            await read(client, server.url, streams)
        assert caught.value.request_sent
        assert caught.value.timings is not None


async def test_a_streamed_body_yields_the_received_part_and_then_the_error(
    client: AnyClient,
) -> None:
    got = b""
    with RawServer(respond_and_close(response(bytes(100))[:-40])) as server:
        async with await client.stream("GET", server.url) as stream:
            with pytest.raises(e.ChunkedEncodingError):
                async for piece in stream.iterate("raw"):
                    got += piece
    assert got == bytes(60)


@pytest.mark.parametrize("path", ["/truncated", "/truncated?cut=1", "/until-close?cut=1"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_body_cut_under_tls_is_no_response(
    path: str, streams: bool, client: AnyClient, tls_app: AppServer
) -> None:
    with pytest.raises(e.ChunkedEncodingError):
        await read(client, tls_app.url + path, streams)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_body_cut_on_http2_is_no_response(
    streams: bool, make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    with pytest.raises((e.ChunkedEncodingError, e.RemoteProtocolError)):
        await read(client, h2_app.url + "/truncated", streams)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw-deflate", "br", "zstd", "multi-gzip"])
async def test_a_coded_body_that_stops_short_is_no_response(
    coding: str, streams: bool, client: AnyClient
) -> None:
    name = {"raw-deflate": "deflate", "multi-gzip": "gzip"}.get(coding, coding)
    body = CODERS[coding](payload(5000))
    cut_at = [1, len(body) // 3, len(body) - 3, len(body) - 1]
    bodies = [*(body[:at] for at in cut_at), body]
    responses = [response(each, headers=[("Content-Encoding", name)]) for each in bodies]
    with RawServer(respond(*responses)) as server:
        for at in cut_at:
            with pytest.raises(e.ContentDecodingError, match="truncated") as caught:
                await read(client, server.url, streams)
            error = caught.value
            assert error.request is not None, at
            assert error.request.method == "GET"
            assert error.request_sent
            assert error.response is not None
            assert error.response.status_code == 200
            assert error.response.timings is not None
            assert error.response.timings.total > 0
        assert await read(client, server.url, streams) == payload(5000)


async def test_a_chunked_coded_body_that_stops_short_is_no_response(client: AnyClient) -> None:
    """Gzip's end is there, the chunks' is not; and the other way round."""
    body = gzip.compress(b"x" * 100)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    whole = head + b"%x\r\n%b\r\n" % (len(body), body)
    short = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 3, body[:-3])
    with RawServer(respond_and_close(whole)) as server, pytest.raises(e.ChunkedEncodingError):
        await client.get(server.url)
    with RawServer(respond_and_close(short)) as server, pytest.raises(e.ContentDecodingError):
        await client.get(server.url)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"x" * 1000, mtime=0)[:-8] + bytes(8)),
        ("deflate", zlib.compress(b"x" * 1000)[:-4] + bytes(4)),
        ("gzip", b"no gzip at all"),
        ("br", brotli.compress(b"x" * 1000)[:3] + b"\xff\xff\xff\xff\xff"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_corrupt_coded_body_is_no_response(
    coding: str, body: bytes, streams: bool, client: AnyClient
) -> None:
    """A wrong checksum, and data in another coding."""
    found = response(body, headers=[("Content-Encoding", coding)])
    with RawServer(respond(found)) as server, pytest.raises(e.ContentDecodingError):
        await read(client, server.url, streams)
