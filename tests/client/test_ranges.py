"""Ranges: requested without content codings, and parts of coded bodies as received."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import curlhttp
import curlhttp.requests
from curlhttp.exceptions import ContentDecodingError
from curlhttp.testing import mock
from tests.servers import AppServer, RawServer, respond
from tests.support.colours import WITHOUT_UVLOOP, AnyClient

with curlhttp.Client() as _client:
    ACCEPT_ENCODING = _client.headers["Accept-Encoding"]

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

Make = Callable[..., AnyClient]
CONTENT = b"".join(b"%d," % number for number in range(5000))
CODED = gzip.compress(CONTENT)
RANGE = {"Range": "bytes=0-99"}
PARTS = {
    "the start": (CODED[:200], "gzip", "bytes 0-199/*"),
    "the middle": (CODED[100:200], "gzip", f"bytes 100-199/{len(CODED)}"),
    "the end": (CODED[-50:], "gzip", f"bytes {len(CODED) - 50}-{len(CODED) - 1}/{len(CODED)}"),
    "deflate": (zlib.compress(CONTENT)[:200], "deflate", "bytes 0-199/*"),
    "two codings": (gzip.compress(CODED)[:200], "gzip, gzip", "bytes 0-199/*"),
}


def serve(body: bytes, coding: str, content_range: str, status: str = "206 Partial") -> RawServer:
    head = f"Content-Encoding: {coding}\r\nContent-Range: {content_range}\r\n"
    head += f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return RawServer(respond(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body))


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> tuple[bytes, str, str]:
    """Return a part of a coded body, its coding and its Content-Range."""
    return PARTS[request.param]


# --- the request


@pytest.mark.parametrize("name", ["Range", "rAnGe", b"range"])
async def test_a_range_asks_for_identity(client: AnyClient, app: AppServer, name: Any) -> None:
    response = await client.get(app.url, headers={name: "bytes=0-1", "If-Range": '"v"'})
    assert app.requests[-1].values("accept-encoding") == ["identity"]
    assert response.request.headers["Accept-Encoding"] == "identity"
    async with await client.stream("GET", app.url, headers={name: "bytes=0-1"}):
        assert app.requests[-1].values("accept-encoding") == ["identity"]
    await client.get(app.url)
    assert app.requests[-1].values("accept-encoding") == [ACCEPT_ENCODING]


async def test_codings_that_the_caller_chose_are_kept(make_client: Make, app: AppServer) -> None:
    client = make_client(headers={"Accept-Encoding": "br"})
    await client.get(app.url, headers=RANGE)
    assert app.requests[-1].values("accept-encoding") == ["br"]
    for chosen in ("gzip", "".join(list(ACCEPT_ENCODING))):
        await client.get(app.url, headers={**RANGE, "accept-encoding": chosen})
        assert app.requests[-1].values("accept-encoding") == [chosen]
    await client.get(app.url, headers={**RANGE, "Accept-Encoding": None})
    assert app.requests[-1].values("accept-encoding") == []


async def test_a_range_of_the_client_a_middleware_or_a_redirect_asks_for_identity(
    make_client: Make, app: AppServer
) -> None:
    client = make_client(headers=RANGE)
    await client.get(app.url + "/redirect-to?url=/hello")
    assert [each.values("accept-encoding") for each in app.requests] == [["identity"]] * 2

    def add_range(request: Any, send: Any) -> Any:
        request.headers["Range"] = "bytes=0-1"
        return send(request)

    async def add_range_async(request: Any, send: Any) -> Any:
        return await add_range(request, send)

    plain = make_client()
    middleware = add_range if plain.is_blocking else add_range_async
    await make_client(middleware=[middleware]).get(app.url)
    assert app.requests[-1].values("accept-encoding") == ["identity"]


def test_a_mock_sees_identity_too() -> None:
    with mock() as mocked, curlhttp.Client(headers=RANGE) as client:
        route = mocked.get("https://api.example.org/").respond(200)
        client.get("https://api.example.org/")
    assert route.calls[0].headers["Accept-Encoding"] == "identity"


def test_the_functions_ask_for_identity_and_the_drop_in_for_what_requests_does(
    app: AppServer,
) -> None:
    for headers, accepted in ((RANGE, "identity"), ({**RANGE, "accept-encoding": "br"}, "br")):
        curlhttp.get(app.url, headers=headers)
        assert app.requests[-1].values("accept-encoding") == [accepted]
    curlhttp.requests.get(app.url, headers=RANGE)
    assert app.requests[-1].values("accept-encoding") == [ACCEPT_ENCODING]


# --- the response


async def test_a_part_of_a_coded_body_is_as_received(
    client: AnyClient, part: tuple[bytes, str, str]
) -> None:
    body = part[0]
    with serve(*part) as server:
        response = await client.get(server.url, headers=RANGE)
        assert response.content == body
        assert response.headers["Content-Encoding"] == part[1]
        for read in (lambda: response.text, response.json):
            with pytest.raises(ContentDecodingError, match="Accept-Encoding: identity") as caught:
                read()
            assert caught.value.response is response
        async with await client.stream("GET", server.url) as stream:
            assert await stream.read() == body
        async with await client.stream("GET", server.url) as stream:
            assert b"".join([piece async for piece in stream.iterate("raw")]) == body
        for kind in ("bytes", "text", "lines"):
            async with await client.stream("GET", server.url) as stream:
                with pytest.raises(ContentDecodingError, match="a part of one that is coded"):
                    [piece async for piece in stream.iterate(kind)]


@pytest.mark.parametrize("content_range", [f"bytes 0-{len(CODED) - 1}/{len(CODED)}", "bytes 5-9/*"])
async def test_a_206_that_decodes_is_decoded(client: AnyClient, content_range: str) -> None:
    """Some servers code a range of the content."""
    with serve(CODED, "gzip", content_range) as server:
        response = await client.get(server.url, headers=RANGE)
        assert (response.content, response.text) == (CONTENT, CONTENT.decode())
        async with await client.stream("GET", server.url) as stream:
            assert await stream.read() == CONTENT


async def test_a_whole_body_that_is_truncated_stays_an_error(client: AnyClient) -> None:
    with serve(CODED[:200], "gzip", "", "200 OK") as server:
        with pytest.raises(ContentDecodingError, match="truncated"):
            await client.get(server.url, headers=RANGE)


def test_the_functions_return_a_part_as_received(part: tuple[bytes, str, str]) -> None:
    with serve(*part) as server:
        response = curlhttp.get(server.url, headers=RANGE)
        assert response.content == part[0]
        with pytest.raises(ContentDecodingError, match="a part of one that is coded"):
            _ = response.text
        with curlhttp.stream("GET", server.url, headers=RANGE) as streamed:
            assert streamed.read() == part[0]
        with curlhttp.stream("GET", server.url, headers=RANGE) as streamed:
            with pytest.raises(ContentDecodingError, match="a part of one that is coded"):
                list(streamed.iter_bytes(100))


def test_the_drop_in_decodes_the_start_of_a_body_as_requests_does() -> None:
    with serve(*PARTS["the start"]) as server:
        assert CONTENT.startswith(curlhttp.requests.get(server.url, headers=RANGE).content)
    with serve(*PARTS["the middle"]) as server, pytest.raises(ContentDecodingError):
        curlhttp.requests.get(server.url, headers=RANGE)
