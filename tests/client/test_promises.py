"""What must never happen: a request sent twice, a cut answer taken for a whole one, an injected
line on the wire, a callback's traceback on stderr."""

from __future__ import annotations

import gzip
import io
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import brotli
import pytest

import curlhttp
from curlhttp import exceptions as e
from tests.servers import AppServer, H2Server, RawConnection, RawServer, respond, response
from tests.servers.raw import Handler, respond_and_close, respond_and_reset
from tests.servers.routes import CODERS
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.pace import paced

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

# --- a request is not sent twice ---


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

ENDINGS: dict[str, tuple[bytes, bool]] = {  # what is still said, and whether RST ends it
    "FIN": (b"", False),
    "RST": (b"", True),
    "half a status line": (b"HTTP/1.1 2", False),
    "half a status line and RST": (b"HTTP/1.1 2", True),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Le", False),
}


def ends_its_second_request(said: bytes, resets: bool, last: int = 0) -> Handler:
    """Answer one request, then say `said` and end; connections after number `last` are fine."""

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
async def test_a_post_whose_answer_is_streamed_is_not_sent_again(
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
async def test_a_post_that_is_not_answered_is_not_sent_again(
    reused: bool, client: AnyClient
) -> None:
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
    """A restarted server: libcurl by itself would try one dead connection after the other."""
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


async def test_a_post_after_the_server_closed_an_idle_connection_goes_out_once(
    client: AnyClient,
) -> None:
    """Libcurl would not notice for a second, and our guard would then fail the POST."""

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


async def test_a_streamed_post_after_an_idle_close_goes_out_once(client: AnyClient) -> None:
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


# --- a cut answer is not a success ---

HEAD = b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 0\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"


def cuts(before: bytes, head: bytes, least: int = 1) -> Handler:
    """Answer on each connection with one byte more of the head, then close."""

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
            # Libcurl tells no difference between no answer and a part of a status line.
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


async def test_a_streamed_body_gives_what_came_and_then_the_error(client: AnyClient) -> None:
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
    """S49: of each coding, whole and streamed."""
    name = {"raw-deflate": "deflate", "multi-gzip": "gzip"}.get(coding, coding)
    body = CODERS[coding](b"some text that is long enough " * 20)
    cut_at = [1, len(body) // 3, len(body) - 1]
    answers = [response(body[:at], headers=[("Content-Encoding", name)]) for at in cut_at]
    with RawServer(
        respond(*answers, response(body, headers=[("Content-Encoding", name)]))
    ) as server:
        for at in cut_at:
            with pytest.raises(e.ContentDecodingError) as caught:
                await read(client, server.url, streams)
            assert caught.value.request is not None, at
            assert caught.value.response is not None
        assert await read(client, server.url, streams) == b"some text that is long enough " * 20


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
    """S50: a wrong check sum, and what is no such coding."""
    answer = response(body, headers=[("Content-Encoding", coding)])
    with RawServer(respond(answer)) as server, pytest.raises(e.ContentDecodingError):
        await read(client, server.url, streams)


# --- nothing that the caller did not mean reaches the wire ---

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
async def test_what_would_break_the_message_is_refused_before_anything_is_sent(
    method: str, options: dict[str, Any], client: AnyClient
) -> None:
    """S1, S2, S4, S5, S78, S79: wherever the caller's text may get to."""
    with RawServer(respond(response(b"ok"))) as server:
        with pytest.raises(ValueError):
            await client.request(method, server.url, **options)
        assert server.connections == 0


@pytest.mark.parametrize("settings", [{"headers": {"X-A": v}} for v in EVIL])
async def test_a_client_cannot_be_made_with_headers_that_break_the_message(
    settings: dict[str, Any], make_client: MakeClient
) -> None:
    """S1: in a client's own headers."""
    with pytest.raises(e.InvalidHeader):
        make_client(**settings)


@pytest.mark.parametrize("char", ["\r\n", "\n", "\r", "\x00", "\x7f", " ", "\t"])
async def test_a_url_cannot_end_the_request_line(char: str, client: AnyClient) -> None:
    """S6: it is refused or encoded: in the path, in the query, and in params."""
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
    """S77: a name stays within its quotes."""
    with RawServer(respond(response(b"ok"))) as server:
        await client.post(server.url, files={'f"\r\nX-Evil: 1': ('n"\r\nX-Evil: 1', b"x")})
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert b"\nX-Evil" not in head + body
        assert b"%0D%0A" in body


async def test_a_location_with_line_ends_injects_nothing(client: AnyClient) -> None:
    """S31: bytes that a server puts into Location do not become lines of the next request."""
    hop = b"HTTP/1.1 302 Found\r\nLocation: /a\x0bX-Evil:1\tb c\xe9\r\nContent-Length: 0\r\n\r\n"
    with RawServer(respond(hop, response(b"ok"))) as server:
        try:
            await client.get(server.url)
        except e.RequestException:
            assert len(server.requests) == 1
        else:
            assert server.requests[1].split(b"\r\n")[0].count(b" ") == 2


# --- no traceback on stderr ---


class Boom(Exception):
    """What the caller's own code raises."""


class Deadly(BaseException):
    """What is not an Exception, as KeyboardInterrupt is not."""


def broken(error: BaseException, after: int) -> Iterator[bytes]:
    for _ in range(after):
        yield b"x" * 1000
    raise error


async def broken_async(error: BaseException, after: int) -> AsyncIterator[bytes]:
    for part in broken(error, after):
        yield part


class BrokenFile(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        raise Boom("the file")


class NoBytes(io.BytesIO):
    def read(self, size: int | None = -1) -> Any:
        return "text"


@pytest.mark.parametrize("after", [0, 1, 100])
async def test_what_a_body_raises_reaches_the_caller_as_it_is(
    after: int, client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    boom = Boom("the iterator")
    with pytest.raises(Boom) as caught:
        await client.post(app.url + "/upload", content=broken(boom, after))
    assert caught.value is boom
    with pytest.raises(Boom):
        await client.stream("PUT", app.url + "/upload", content=broken(Boom(), after))
    assert (await client.get(app.url + "/")).content == b"hello"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("after", [0, 1, 100])
async def test_what_an_async_body_raises_reaches_the_caller_as_it_is(
    after: int, client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    boom = Boom("the iterator")
    expected: type[Exception] = TypeError if client.is_blocking else Boom
    with pytest.raises(expected) as caught:
        await client.post(app.url + "/upload", content=broken_async(boom, after))
    assert client.is_blocking or caught.value is boom
    assert (await client.get(app.url + "/")).content == b"hello"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (BrokenFile, Boom),
        (NoBytes, TypeError),
        (lambda: iter(["text"]), TypeError),
        (lambda: iter([b"a", None]), TypeError),
        (lambda: pieces, Boom),
    ],
    ids=["file", "file of text", "iterator of text", "iterator of None", "factory"],
)
async def test_a_broken_body_is_an_error_and_no_traceback(
    make: Callable[[], Any],
    expected: type[Exception],
    client: AnyClient,
    app: AppServer,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def factory() -> Any:
        raise Boom("the factory")

    content = make()
    with pytest.raises(expected):
        await client.post(app.url + "/upload", content=factory if content is pieces else content)
    assert (await client.get(app.url + "/")).content == b"hello"
    assert capfd.readouterr().err == ""


async def test_a_body_may_raise_what_is_no_exception(
    app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """A KeyboardInterrupt between two pieces, say."""
    with curlhttp.Client() as client:
        with pytest.raises(Deadly):
            client.post(app.url + "/upload", content=broken(Deadly(), 1))
        assert client.get(app.url + "/").content == b"hello"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("length", [3, 10])
async def test_a_body_of_another_length_than_announced_is_an_error(
    length: int, client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """S80: a body of another length is an error."""
    with pytest.raises(e.RequestException, match="its length is"):
        await client.post(
            app.url + "/upload",
            content=pieces(b"abc", b"de"),
            headers={"Content-Length": str(length)},
        )
    assert (await client.get(app.url + "/")).content == b"hello"
    assert app.connections == 2
    assert capfd.readouterr().err == ""


async def test_a_hook_that_raises_reaches_the_caller(
    make_client: MakeClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    def hook(subject: Any) -> None:
        raise Boom("the hook")

    for event in ("request", "response"):
        client = make_client(hooks={event: hook})
        with pytest.raises(Boom):
            await client.get(app.url + "/")
    assert capfd.readouterr().err == ""


async def test_an_answer_too_large_is_an_error_and_no_traceback(
    client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for streams in (False, True):
        with pytest.raises(e.ResponseTooLarge):
            await read(client, app.url + "/bytes/5000", streams, max_response_size=4999)
        assert (
            len(await read(client, app.url + "/bytes/5000", streams, max_response_size=5000))
            == 5000
        )
    assert capfd.readouterr().err == ""


# --- nothing is left behind in files ---


async def test_no_file_is_written(
    make_client: MakeClient,
    tls_app: AppServer,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S89, S92: Alt-Svc and HSTS are off; a file name in the answer is only text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def answer(record: Any, conn: Any) -> None:
        conn.reply(
            200,
            b"ok",
            [
                ("Alt-Svc", 'h2="other:1"; ma=86400'),
                ("Strict-Transport-Security", "max-age=86400"),
                ("Content-Disposition", "attachment; filename=../../x"),
            ],
        )

    tls_app.route("/state", answer)
    client = make_client()
    assert (await client.get(tls_app.url + "/state")).content == b"ok"
    assert (await client.get(tls_app.url + "/state")).content == b"ok"
    assert len(tls_app.requests) == 2
    await client.aclose()
    assert list(tmp_path.iterdir()) == []
