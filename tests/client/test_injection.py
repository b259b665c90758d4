"""Header and request-line injection: no input adds a line to the request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import curlhttp
from curlhttp import exceptions as e
from tests.servers import RawServer, respond, response
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


EVIL = ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1", "a\x00b"]


def injections() -> Iterator[Any]:
    for value in EVIL:
        yield "header value", "GET", {"headers": {"X-A": value}}
        yield "header value in bytes", "GET", {"headers": {"X-A": value.encode()}}
        yield "header name", "GET", {"headers": {value: "a"}}
        yield "header name in bytes", "GET", {"headers": {value.encode(): b"a"}}
        yield "Cookie header", "GET", {"headers": {"Cookie": value}}
        yield "User-Agent", "GET", {"headers": {"User-Agent": value}}
        yield "Referer", "GET", {"headers": {"Referer": value}}
        yield "Range", "GET", {"headers": {"Range": value}}
        yield "Accept-Encoding", "GET", {"headers": {"Accept-Encoding": value}}
        yield "Content-Type", "POST", {"headers": {"Content-Type": value}, "data": b"x"}
        yield "Host", "GET", {"headers": {"Host": value}}
        yield "method", value, {}
        yield "cookie value", "GET", {"cookies": {"a": value}}
        yield "cookie name", "GET", {"cookies": {value: "a"}}
        yield "type of a part", "POST", {"files": {"f": ("name", b"x", value)}}
        yield "header of a part", "POST", {"files": {"f": ("name", b"x", "a/b", {"X-A": value})}}
        yield "header name of a part", "POST", {"files": {"f": ("n", b"x", "a/b", {value: "a"})}}
        yield "bearer token", "GET", {"auth": curlhttp.BearerAuth(partial(str, value))}
    for name in ("", "a b", "a:b", "a\tb", "ä", "a(b"):
        yield "header name", "GET", {"headers": {name: "a"}}
    for method in ("", "G ET", "GÉT", "GET / HTTP/1.1\r\nX: y"):
        yield "method", method, {}
    yield "header value beyond Latin-1", "GET", {"headers": {"X-A": "\u20ac"}}
    yield "blank before a header value", "GET", {"headers": {"X-A": "\r\n b"}}
    yield (
        "length and chunks",
        "POST",
        {
            "headers": {"Content-Length": "3", "Transfer-Encoding": "chunked"},
            "data": b"abc",
        },
    )
    yield "a wrong length", "POST", {"headers": {"Content-Length": "5"}, "data": b"abc"}
    yield "a length of no number", "POST", {"headers": {"Content-Length": "5x"}, "data": b"abc"}


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("method", "options"),
    [pytest.param(*case[1:], id=case[0]) for case in injections()],
)
async def test_a_value_that_would_break_the_message_is_refused_before_anything_is_sent(
    method: str, options: dict[str, Any], client: AnyClient
) -> None:
    """Wherever the caller's text may get to."""
    with RawServer(respond(response(b"ok"))) as server:
        with pytest.raises(ValueError):
            await client.request(method, server.url, **options)
        assert server.connections == 0


@pytest.mark.parametrize("settings", [{"headers": {"X-A": v}} for v in EVIL])
async def test_a_client_cannot_be_made_with_headers_that_break_the_message(
    settings: dict[str, Any], make_client: MakeClient
) -> None:
    """In a client's own headers."""
    with pytest.raises(e.InvalidHeader):
        make_client(**settings)


@pytest.mark.parametrize("char", ["\r\n", "\n", "\r", "\x00", "\x7f", " ", "\t"])
async def test_a_url_cannot_end_the_request_line(char: str, client: AnyClient) -> None:
    """It is refused or encoded: in the path, in the query, and in params."""
    with RawServer(respond(response(b"ok"))) as server:
        for url in (f"/a{char}X-Evil:1", f"/a?b{char}X-Evil:1"):
            try:
                await client.get(server.url + url)
            except e.InvalidURL:
                continue
        await client.get(server.url, params={"a": f"b{char}X-Evil:1"})
        assert server.wait_for(lambda: bool(server.requests))
        for request in server.requests:
            line, _, fields = request.partition(b"\r\n")
            assert line.count(b" ") == 2
            assert b"\x00" not in line
            assert b"evil" not in fields.lower()


async def test_names_of_fields_and_files_cannot_add_lines_to_a_part(client: AnyClient) -> None:
    """A name stays within its quotes."""
    with RawServer(respond(response(b"ok"))) as server:
        await client.post(server.url, files={'f"\r\nX-Evil: 1': ('n"\r\nX-Evil: 1', b"x")})
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert b"\nX-Evil" not in head + body
        assert b"%0D%0A" in body


async def test_a_location_with_line_ends_injects_nothing(client: AnyClient) -> None:
    """Bytes that a server puts into Location do not become lines of the next request."""
    hop = b"HTTP/1.1 302 Found\r\nLocation: /a\x0bX-Evil:1\tb c\xe9\r\nContent-Length: 0\r\n\r\n"
    with RawServer(respond(hop, response(b"ok"))) as server:
        try:
            await client.get(server.url)
        except e.RequestException:
            assert len(server.requests) == 1
        else:
            assert server.requests[1].split(b"\r\n")[0].count(b" ") == 2
