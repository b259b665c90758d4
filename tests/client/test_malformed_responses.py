"""Responses that are malformed, too large, or unusual but valid."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from curlhttp import Cache, Timeout
from curlhttp import exceptions as e
from tests.servers import (
    AppServer,
    H2Server,
    RawConnection,
    RawServer,
    respond,
    respond_and_close,
    response,
)
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import download

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


APIS = ["get", "stream", "map", "download"]


async def read(client: AnyClient, url: str, streams: bool) -> bytes:
    if not streams:
        body: bytes = (await client.get(url)).content
        return body
    async with await client.stream("GET", url) as stream:
        return await stream.read()


async def fetch(api: str, client: AnyClient, url: str, path: Path) -> bytes:
    """Return the body, received with one of the APIS."""
    if api == "map":
        async with client.map([url]) as results:
            (found,) = [result async for result in results]
        if isinstance(found, Exception):
            raise found
        content: bytes = found.content
        return content
    if api == "download":
        await download(client, url, path, resume=False)
        return path.read_bytes()
    return await read(client, url, api == "stream")


# --- broken ---


def head(*lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode("latin-1")


BROKEN = {
    "NUL in a field": head("X-A: a\0b", "Content-Length: 0"),
    "NUL in a name": head("X\0A: a", "Content-Length: 0"),
    "NUL in the status line": b"HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
    "bare CR": head("X-A: a\rX-B: b", "Content-Length: 0"),
    "line without colon": head("no colon here", "Content-Length: 0"),
    "lengths that differ": head("Content-Length: 2", "Content-Length: 3") + b"abc",
    "list of lengths that differ": head("Content-Length: 2, 3") + b"abc",
    "negative length": head("Content-Length: -1") + b"abc",
    "length with a sign": head("Content-Length: +3") + b"abc",
    "length with letters": head("Content-Length: 3abc") + b"abc",
    "length in hex": head("Content-Length: 0x3") + b"abc",
    "empty length": head("Content-Length:") + b"abc",
    "HTTP/0.9": b"just text\r\n",
    "ICY": b"ICY 200 OK\r\n\r\n",
    "garbage": bytes(range(256)) * 4,
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "TLS alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "status of HTTP/2 that is not final": b"HTTP/2 103\r\n\r\n" + head("Content-Length: 0"),
    "status of letters": b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "line of 200 KB": head("X-A: " + "a" * 200_000, "Content-Length: 0"),
    "head of 400 KB": head(*(f"X-{n}: {'a' * 4000}" for n in range(100)), "Content-Length: 0"),
    "6,000 lines": head(*(f"X-{n}: a" for n in range(6000)), "Content-Length: 0"),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_head_is_a_protocol_error(
    case: str, streams: bool, client: AnyClient, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its bytes, its lengths, its size."""
    with RawServer(respond_and_close(BROKEN[case])) as server:
        with pytest.raises(e.RemoteProtocolError) as caught:
            await read(client, server.url, streams)
        assert caught.value.request_sent
        assert caught.value.request is not None
        assert len(str(caught.value)) < 1000
        assert server.connections == 1
        server.handler = respond(response(b"fine"))
        assert await read(client, server.url, streams) == b"fine"
        assert server.connections == 2
    assert capfd.readouterr().err == ""


OK = "\r\nContent-Length: 2\r\n\r\nok"

ODD_STATUS_LINES = {
    "a tab before the status": f"HTTP/1.1\t200 OK{OK}",
    "a year": f"HTTP/2026 05:00:00{OK}",
    "a version without a status": f"HTTP/3200 x{OK}",
    "one digit": f"HTTP/2 2{OK}",
    "no number in HTTP/2": f"HTTP/2 x{OK}",
    "HTTP/2 where it was not agreed on": f"HTTP/2 200 OK{OK}",
    "four digits": f"HTTP/1.1 2000 OK{OK}",
    "letters after the digits": f"HTTP/1.1 200x OK{OK}",
    "lower case": f"http/1.1 200 OK{OK}",
    "CR LF before it": f"\r\nHTTP/1.1 200 OK{OK}",
    "two CR LF before it": f"\r\n\r\nHTTP/1.1 200 OK{OK}",
    "LF before it": f"\nHTTP/1.1 200 OK{OK}",
    "CR LF after an informational head": f"HTTP/1.1 103 a\r\n\r\n\r\nHTTP/1.1 200 OK{OK}",
    "LF after an informational head": f"HTTP/1.1 100 a\r\n\r\n\nHTTP/1.1 200 OK{OK}",
    "a tab after an informational head": f"HTTP/1.1 100 a\r\n\r\nHTTP/1.1\t200 OK{OK}",
    "HTTP/2 after an informational head": f"HTTP/1.1 100 a\r\n\r\nHTTP/2 200{OK}",
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", ODD_STATUS_LINES)
async def test_an_invalid_status_line_is_an_error_and_ends_its_connection(
    case: str, api: str, client: AnyClient, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Data that is not HTTP is an error."""
    answered: list[int] = []

    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            answered.append(conn.index)
            conn.send(ODD_STATUS_LINES[case].encode() if len(answered) == 1 else response(b"fine"))

    with RawServer(handler) as server:
        with pytest.raises(e.RemoteProtocolError) as caught:
            await fetch(api, client, server.url, tmp_path / "file")
        assert caught.value.request is not None
        assert caught.value.request_sent
        assert caught.value.response is None
        assert caught.value.timings is not None
        assert (await client.post(server.url, data=b"x")).content == b"fine"
        assert await fetch(api, client, server.url, tmp_path / "file") == b"fine"
    assert answered.count(0) == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("line", ["http/1.1 200 OK", "HTTP/1.1\t200 OK", "HTTP/1.1 2000 OK"])
@pytest.mark.parametrize(
    "rest", ["Content-Length: 9\r\n\r\ncut", "Transfer-Encoding: chunked\r\n\r\nno chunk"]
)
async def test_an_invalid_status_line_is_the_error_whatever_follows(
    line: str, rest: str, streams: bool, client: AnyClient
) -> None:
    with RawServer(respond_and_close(f"{line}\r\n{rest}".encode())) as server:
        with pytest.raises(e.RemoteProtocolError) as caught:
            await read(client, server.url, streams)
        assert caught.value.response is None


def cut(*lines: str, version: str = "1.1", status: int = 200) -> bytes:
    return "\r\n".join([f"HTTP/{version} {status} OK", *lines, "", "ok"]).encode()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("digits", [11, 5000])
async def test_numbers_of_any_size_in_fields_are_no_error(
    digits: int, api: str, make_client: MakeClient, tmp_path: Path
) -> None:
    number = "9" * digits
    fields = [
        ("Age", number),
        ("Alt-Svc", f'h3=":443"; ma={number}'),
        ("Cache-Control", f"max-age={number}, stale-while-revalidate={number}"),
        ("Content-Range", f"bytes {number}-{number}/{number}"),
        ("Date", f"Mon, 01 Jan {number} 00:00:00 GMT"),
        ("Expires", f"Mon, 01 Jan {number} 00:00:00 GMT"),
        ("Keep-Alive", f"timeout={number}, max={number}"),
        ("Last-Modified", f"Mon, 01 Jan {number} 00:00:00 GMT"),
        ("Retry-After", number),
        ("Set-Cookie", f"a=b; Max-Age={number}"),
        ("Set-Cookie", f"c=d; Expires=Mon, 01 Jan {number} 00:00:00 GMT; Version={number}"),
        ("Strict-Transport-Security", f"max-age={number}"),
    ]
    client = make_client(retry=1, cache=Cache(":memory:"), hsts=tmp_path / "hsts")
    with RawServer(respond(response(b"fine", headers=fields))) as server:
        for _ in range(2):
            assert await fetch(api, client, server.url, tmp_path / "file") == b"fine"
    with RawServer(respond(response(b"", "503 Busy", headers=fields))) as server:
        assert (await client.get(server.url)).status_code == 503
        assert len(server.requests) == 1


CONTRADICTED = {
    "2^63": cut("Content-Length: 9223372036854775808"),
    "2^64 and what came": cut("Content-Length: 18446744073709551618"),
    "5,000 digits": cut("Content-Length: " + "9" * 5000),
    "a blank before the colon": cut("Content-Length : 3"),
    "a tab before the colon": cut("Content-Length\t: 3"),
    "a shorter one": cut("Content-Length : 1"),
    "several": cut("Content-Length : 2, 3"),
    "a coding that is none": cut("Transfer-Encoding: identity", "Content-Length: 3"),
    "no coding": cut("Transfer-Encoding:", "Content-Length: 3"),
    "chunks that nobody undid": cut("Transfer-Encoding : chunked"),
    "HTTP/1.0 and 2^63": cut("Content-Length: 9223372036854775808", version="1.0"),
    "HTTP/1.0 and a blank": cut("Content-Length : 3", version="1.0"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", CONTRADICTED)
async def test_a_body_that_contradicts_its_head_is_an_error(
    case: str, api: str, client: AnyClient, tmp_path: Path
) -> None:
    """A length that cannot be is an error."""
    with RawServer(respond_and_close(CONTRADICTED[case])) as server:
        with pytest.raises(e.ChunkedEncodingError) as caught:
            await fetch(api, client, server.url, tmp_path / "file")
        error = caught.value
        assert error.request is not None
        assert error.request_sent
        assert error.timings is not None
        if api in ("get", "map"):
            assert error.response is not None
            assert (error.response.status_code, error.response.content) == (200, b"ok")


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "response",
    [
        cut("Content-Length : 2"),
        cut("CONTENT-LENGTH:2"),
        cut("Content-Length: 002"),
        cut("Content-Length: 2", "Content-Length: 2"),
        cut("Content-Length: 2, 2"),
        cut("Content-Length: 2", version="1.0"),
        cut("X-Content-Length: 3"),
        cut("X-A: content-length: 3"),
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nok\r\n0\r\n\r\n",
    ],
)
async def test_a_body_that_matches_its_head_is_read(
    response: bytes, streams: bool, client: AnyClient
) -> None:
    with RawServer(respond_and_close(response)) as server:
        assert await read(client, server.url, streams) == b"ok"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("length", ["3", "9223372036854775808"])
async def test_a_length_without_a_body_is_valid_for_head_and_304(
    length: str, stream: bool, client: AnyClient
) -> None:
    for method, status in (("HEAD", 200), ("GET", 204), ("GET", 304)):
        head = f"HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\n\r\n"
        with RawServer(respond_and_close(head.encode())) as server:
            response = await client.request(method, server.url, stream=stream)
            assert response.status_code == status
            assert response.headers["content-length"] == length
            if stream:
                assert (response.read() if client.is_blocking else await response.aread()) == b""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("coding", ["snappy", "snappy, chunked", "gzip, chunked", "chunked, gzip"])
async def test_an_unknown_transfer_coding_is_an_error(
    coding: str, streams: bool, client: AnyClient
) -> None:
    """A coding of the transfer is chunked or an error."""
    response = head(f"Transfer-Encoding: {coding}") + b"5\r\nhello\r\n0\r\n\r\n"
    with RawServer(respond_and_close(response)) as server:
        with pytest.raises((e.ContentDecodingError, e.RemoteProtocolError)):
            await read(client, server.url, streams)


BROKEN_CHUNKS = {
    "no size": b"hello\r\n0\r\n\r\n",
    "negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "size beyond 64 bits": b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "size in letters": b"xyz\r\nhello\r\n0\r\n\r\n",
    "data longer than its size": b"3\r\nhello\r\n0\r\n\r\n",
    "no last chunk": b"5\r\nhello\r\n",
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("case", BROKEN_CHUNKS)
async def test_broken_chunks_are_a_framing_error(
    case: str, streams: bool, client: AnyClient
) -> None:
    response = head("Transfer-Encoding: chunked") + BROKEN_CHUNKS[case]
    with RawServer(respond_and_close(response)) as server:
        with pytest.raises(e.ChunkedEncodingError):
            await read(client, server.url, streams)
        assert server.connections == 1


@pytest.mark.parametrize("streams", [False, True])
async def test_endless_informational_heads_are_an_error(streams: bool, client: AnyClient) -> None:
    """1xx without end is an error."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            while True:
                conn.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100)

    with RawServer(handler) as server:
        with pytest.raises(e.RemoteProtocolError):
            await read(client, server.url, streams)


async def test_an_endless_head_is_an_error(client: AnyClient) -> None:
    """A head has bounds."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(b"HTTP/1.1 200 OK\r\n")
            while True:
                conn.send(b"X-A: " + b"a" * 1000 + b"\r\n")

    with RawServer(handler) as server:
        with pytest.raises(e.RemoteProtocolError):
            await client.get(server.url)


async def test_endless_trailers_are_an_error(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n")
            while True:
                conn.send(b"X-A: " + b"a" * 1000 + b"\r\n")

    with RawServer(handler) as server:
        with pytest.raises(e.RequestException):
            await client.get(server.url)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("trailer", ["X-A: b\r\n folded", "no colon", "X-A: a\x00b"])
async def test_an_invalid_trailer_is_an_error(
    trailer: str, streams: bool, client: AnyClient
) -> None:
    body = b"5\r\nhello\r\n0\r\n" + trailer.encode() + b"\r\n\r\n"
    response = head("X-B: c", "X-D: e", "Transfer-Encoding: chunked") + body
    with RawServer(respond_and_close(response)) as server:
        with pytest.raises(e.RemoteProtocolError):
            await read(client, server.url, streams)


# --- small chunks ---

_SMALL = 256 * 1024  # chunks of two bytes


@pytest.fixture(scope="module")
def small_chunks() -> bytes:
    return head("Transfer-Encoding: chunked") + b"2\r\nab\r\n" * _SMALL + b"0\r\n\r\n"


@pytest.mark.parametrize("colour", ["blocking", "asyncio"], indirect=True)
@pytest.mark.parametrize("api", [*APIS, "driven"])
async def test_a_body_in_small_chunks_takes_little_more_memory_than_its_bytes(
    api: str, client: AnyClient, tmp_path: Path, small_chunks: bytes
) -> None:
    async def get() -> bytes:
        if api == "driven":  # perform cannot wait so short; a race has a driver as well
            content: bytes = (await client.get(server.url, timeout=Timeout(read=0.9))).content
            return content
        return await fetch(api, client, server.url, tmp_path / "file")

    with RawServer(respond(response(b"warm"), small_chunks)) as server:
        assert await get() == b"warm"  # and all modules are loaded
        tracemalloc.start()
        try:
            body = await get()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert body == b"ab" * _SMALL
    assert peak < 6 * len(body)


class Turns:
    """Counts calls of functions from one turn of the loop to the next."""

    def __init__(self) -> None:
        self._calls = 0
        self.most = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self._calls += 1
            self.most = max(self.most, self._calls)

    async def tick(self) -> None:
        while True:
            self._calls = 0
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"], indirect=True)
@pytest.mark.parametrize("api", ["get", "stream", "map", "download", "post"])
async def test_small_chunks_do_not_block_other_tasks(
    api: str, client: AnyClient, tmp_path: Path, small_chunks: bytes
) -> None:
    turns = Turns()

    async def get() -> None:
        if api == "post":  # while its own task reads the body
            response = await client.post(server.url, data=iter([b"a", b"b"]))
            assert response.content == b"ab" * _SMALL
        else:
            assert await fetch(api, client, server.url, tmp_path / "file") == b"ab" * _SMALL

    with RawServer(respond(small_chunks)) as server:
        sys.setprofile(turns)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turns.tick)
                await get()
                tasks.cancel_scope.cancel()
        finally:
            sys.setprofile(None)
    # A first look is taken after 16 KiB; the rest of what libcurl has read it gives in one.
    assert turns.most < 10_000


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"], indirect=True)
async def test_a_fast_stream_does_not_block_other_tasks(client: AnyClient) -> None:
    size, most, since = 16 * 1024 * 1024, 0, 0
    found = response(bytes(size))

    async def tick() -> None:
        nonlocal since
        while True:
            since = 0
            await anyio.lowlevel.checkpoint()

    with RawServer(respond(found)) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            async with await client.stream("GET", server.url) as stream:
                async for piece in stream.iterate("raw"):
                    since += len(piece)
                    most = max(most, since)
            tasks.cancel_scope.cancel()
    assert most < 1024 * 1024


@pytest.mark.parametrize("size", [1, 4 * 1024 * 1024])
async def test_a_body_after_an_invalid_end_of_head_is_an_error(
    size: int, client: AnyClient
) -> None:
    """libcurl takes a line that only begins with CR for the end of the head."""
    response = b"HTTP/1.1 200 OK\r\nX-A: b\r\n\rmore\r\n" + b"x" * size
    with RawServer(respond_and_close(response)) as server:
        for streams in (False, True):
            with pytest.raises(
                e.RemoteProtocolError, match="ended within its header block"
            ) as info:
                await read(client, server.url, streams)
            assert info.value.broken_part == "head"


# --- odd, and right ---


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X-A: a\x01\x1f\x7fb", "a\x01\x1f\x7fb"),
        ("X-A: caf\xe9", "caf\xe9"),
        ("X-A:", ""),
        ("X-A:   a  ", "a"),
        ("X-A: a\r\n b\r\n\tc", "a b c"),
        ("X-A: a: b, c", "a: b, c"),
    ],
)
async def test_odd_field_values_are_kept(line: str, value: str, client: AnyClient) -> None:
    """Control characters, bytes beyond ASCII, folds."""
    with RawServer(respond(head(line, "Content-Length: 0"))) as server:
        for streams in (False, True):
            response_ = await client.request("GET", server.url, stream=streams)
            assert response_.headers["x-a"] == value
            if streams:
                assert await read(client, server.url, streams) == b""


async def test_a_cookie_with_control_bytes_is_not_sent_back(client: AnyClient) -> None:
    """It is not kept."""
    response = head("Set-Cookie: a=b\x01c", "Set-Cookie: d=e", "Content-Length: 0")
    with RawServer(respond(response)) as server:
        await client.get(server.url)
        await client.get(server.url)
        assert b"\x01" not in server.requests[1]
        assert b"d=e" in server.requests[1]


@pytest.mark.parametrize(
    ("status_line", "code", "reason"),
    [
        (b"HTTP/1.1 200 OK", 200, "OK"),
        (b"HTTP/1.1 200", 200, ""),
        (b"HTTP/1.1 200 ", 200, ""),
        (b"HTTP/1.1 404 Nicht da: \xe4\xf6", 404, "Nicht da: \xe4\xf6"),
        (b"HTTP/1.0 200 Fine", 200, "Fine"),
        (b"HTTP/1.1 299 odd", 299, "odd"),
        (b"HTTP/1.1 600 what", 600, "what"),
        (b"HTTP/1.1 999 LinkedIn", 999, "LinkedIn"),
    ],
)
async def test_the_reason_is_the_servers(
    status_line: bytes, code: int, reason: str, client: AnyClient
) -> None:
    with RawServer(respond_and_close(status_line + b"\r\nContent-Length: 2\r\n\r\nok")) as server:
        response_ = await client.get(server.url)
        assert (response_.status_code, response_.reason) == (code, reason)
        assert response_.content == b"ok"
        assert response_.http_version == status_line[:8].decode()


UNASKED = {
    "websocket": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    "h2c": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "and bytes": b"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 3\r\n\r\nabc",
    "and a response": b"HTTP/1.1 101 Now\r\n\r\n" + response(b"evil"),
    "after another": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Now\r\n\r\n",
    "HTTP/1.0": b"HTTP/1.0 101 Now\r\n\r\n",
}


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "closes"])
@pytest.mark.parametrize("kind", UNASKED)
@pytest.mark.parametrize("api", ["get", "stream", "map"])
async def test_an_unrequested_101_is_an_error_at_once(
    api: str, kind: str, stays: bool, make_client: MakeClient, tmp_path: Path
) -> None:
    """RFC 9110, section 7.8. Libcurl waits for the end of the connection."""
    client = make_client(timeout=Timeout(read=30))
    answered = []

    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            answered.append(conn.index)
            conn.send(UNASKED[kind] if len(answered) == 1 else response(b"fine"))
            if len(answered) == 1 and not stays:
                return

    with RawServer(handler) as server:
        with pytest.raises(e.RemoteProtocolError, match="was not requested") as caught:
            await fetch(api, client, server.url, tmp_path)
        assert caught.value.request_sent
        assert await fetch(api, client, server.url, tmp_path) == b"fine"
    assert answered == [0, 1]


async def test_a_requested_101_is_a_response(client: AnyClient) -> None:
    response = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\n\r\nhello"
    with RawServer(respond_and_close(response)) as server:
        headers = {"Connection": "Upgrade", "Upgrade": "chat"}
        async with await client.stream("GET", server.url, headers=headers) as stream:
            assert stream.real.status_code == 101
            assert await stream.read() == b"hello"


@pytest.mark.parametrize("streams", [False, True])
async def test_length_and_chunks_together_are_read_as_chunks(
    streams: bool, client: AnyClient
) -> None:
    """RFC 9112, section 6.3."""
    found = head("Content-Length: 3", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n"
    with RawServer(respond(found, response(b"next"))) as server:
        assert await read(client, server.url, streams) == b"hello"
        assert await read(client, server.url, streams) == b"next"


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("found", "body"),
    [
        (response(b"body") + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"body"),
        (response(b"body") + b"x", b"body"),
        (response() + b"extra", b""),
        (head("Transfer-Encoding: chunked") + b"4\r\nbody\r\n0\r\n\r\nextra", b"body"),
        (b"HTTP/1.1 204 No Content\r\n\r\nextra", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nextra", b""),
    ],
    ids=["a response", "a byte", "after nothing", "after chunks", "after 204", "after 304"],
)
async def test_bytes_after_the_body_are_no_part_of_anything(
    found: bytes, body: bytes, streams: bool, client: AnyClient
) -> None:
    """What follows a body is no part of it."""
    with RawServer(respond(found, response(b"next"))) as server:
        assert await read(client, server.url, streams) == body
        assert await read(client, server.url, streams) == b"next"
        # Libcurl throws away what it read behind the last chunk, and keeps the connection.
        assert server.connections == 1 + (b"chunked" not in found)


async def test_bytes_on_an_idle_connection_are_not_the_next_response(client: AnyClient) -> None:
    """Bytes received before the request are not its response."""
    spoke = threading.Event()

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(response(b"first"))
            if conn.index == 0:
                asked.wait(60)
                conn.send(response(b"evil"))
                spoke.set()
                conn.read_request()

    asked = threading.Event()
    with RawServer(handler) as server:
        assert (await client.get(server.url)).content == b"first"
        asked.set()
        assert spoke.wait(60)
        # A POST must not be lost on it, and the bytes not be the response to a GET.
        assert (await client.post(server.url, data=b"x")).content == b"first"
        assert (await client.get(server.url)).content == b"first"


async def test_bytes_on_an_idle_connection_are_not_the_response_to_a_get(
    client: AnyClient,
) -> None:
    """Bytes received before the request are not its response."""
    spoke, asked = threading.Event(), threading.Event()

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(response(b"first"))
            if conn.index == 0:
                asked.wait(60)
                conn.send(response(b"evil"))
                spoke.set()
            conn.read_request()

    with RawServer(handler) as server:
        assert (await client.get(server.url)).content == b"first"
        asked.set()
        assert spoke.wait(60)
        await anyio.sleep(0.002)  # a connection just used is not looked at again
        assert (await client.get(server.url)).content == b"first"


@pytest.mark.parametrize("path", ["/204", "/304"])
async def test_a_response_without_a_body_is_empty_and_keeps_its_connection(
    path: str, client: AnyClient, app: AppServer
) -> None:
    for streams in (False, True, False, True):
        assert await read(client, app.url + path, streams) == b""
    assert app.connections == 1


@pytest.mark.parametrize("streams", [False, True])
async def test_head_has_the_fields_and_no_body(
    streams: bool, client: AnyClient, app: AppServer
) -> None:
    for path in ("/bytes/1000", "/chunked/1000", "/gzip?size=1000"):
        response_ = await client.request("HEAD", app.url + path, stream=streams)
        assert response_.status_code == 200
        assert {"content-length", "transfer-encoding"} & {*map(str.lower, response_.headers)}
        body = response_.content if client.is_blocking or not streams else await response_.aread()
        assert body == b""
    assert (await client.get(app.url + "/bytes/10")).headers["content-length"] == "10"
    assert app.connections == 1


async def test_a_body_in_response_to_head_is_discarded(client: AnyClient) -> None:
    with RawServer(respond(response(b"a body"), response(b"next"))) as server:
        assert (await client.request("HEAD", server.url)).content == b""
        assert (await client.get(server.url)).content == b"next"
        assert server.connections == 2


async def test_a_body_without_a_length_ends_with_the_connection(
    client: AnyClient, app: AppServer
) -> None:
    for streams in (False, True):
        assert len(await read(client, app.url + "/until-close?size=70000", streams)) == 70000


async def test_a_body_without_a_length_and_a_reset_is_an_error(
    client: AnyClient, app: AppServer
) -> None:
    for streams in (False, True):
        with pytest.raises(e.ChunkedEncodingError):
            await read(client, app.url + "/until-close?size=7000&reset=1", streams)


async def test_the_end_of_the_body_is_enough_when_the_connection_breaks_then(
    client: AnyClient, app: AppServer
) -> None:
    for streams in (False, True):
        path = "/truncated?length=1000&sent=1000&reset=1"
        assert len(await read(client, app.url + path, streams)) == 1000


async def test_trailers_are_separate_from_headers(client: AnyClient, app: AppServer) -> None:
    response_ = await client.get(app.url + "/trailers")
    assert response_.content == b"hello"
    assert len(response_.trailers["x-checksum"]) == 64
    assert "x-checksum" not in response_.headers
    async with await client.stream("GET", app.url + "/trailers") as stream:
        assert "x-checksum" not in stream.real.headers
        assert await stream.read() == b"hello"
        assert len(stream.real.trailers["x-checksum"]) == 64


async def test_trailers_of_http2_are_separate_from_headers(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    response_ = await client.get(h2_app.url + "/trailers")
    assert response_.trailers["x-checksum"] == "1"
    assert "x-checksum" not in response_.headers


async def test_a_trailer_that_looks_like_a_head_replaces_nothing(client: AnyClient) -> None:
    for trailer in (b"HTTP/1.1 404: Not Found", b"HTTP/1.1 404 Not: Found", b"Location: /evil"):
        response = head("X-A: b", "Transfer-Encoding: chunked")
        response += b"5\r\nhello\r\n0\r\n" + trailer + b"\r\nX-A: c\r\n\r\n"
        with RawServer(respond_and_close(response)) as server:
            try:
                response_ = await client.get(server.url)
            except e.RemoteProtocolError:
                continue
            assert response_.status_code == 200
            assert response_.headers.get_list("x-a") == ["b"]


@pytest.mark.parametrize("version", [1, 2])
async def test_early_hints_are_no_part_of_the_response(
    version: int, make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    client = make_client(http2=version == 2)
    url = (h2_app if version == 2 else app).url + "/hints"
    response_ = await client.get(url)
    assert (response_.status_code, response_.content) == (200, b"hello")
    assert "link" not in response_.headers
    async with await client.stream("GET", url) as stream:
        assert stream.real.status_code == 200
        assert "link" not in stream.real.headers
        assert await stream.read() == b"hello"


async def test_several_informational_heads_are_skipped(client: AnyClient) -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX-A: 1\r\n\r\n"
    with RawServer(respond(hints * 3 + response(b"ok", headers=[("X-A", "2")]))) as server:
        for _ in range(2):
            response_ = await client.get(server.url)
            assert response_.headers.get_list("x-a") == ["2"]
            assert response_.content == b"ok"
        assert server.connections == 1


async def test_bare_line_feeds_end_lines_too(client: AnyClient) -> None:
    with RawServer(respond(b"HTTP/1.1 200 OK\nX-A: b\nContent-Length: 2\n\nok")) as server:
        for streams in (False, True):
            assert await read(client, server.url, streams) == b"ok"
        response_ = await client.get(server.url)
        assert response_.headers["x-a"] == "b"


async def test_mixed_line_ends_make_one_head(client: AnyClient) -> None:
    with RawServer(respond(b"HTTP/1.1 200 OK\nX-A: b\r\nContent-Length: 2\r\n\nok")) as server:
        for streams in (False, True):
            assert await read(client, server.url, streams) == b"ok"


async def test_many_headers_within_bounds_are_fine(client: AnyClient) -> None:
    lines = [f"X-{n}: {'a' * 100}" for n in range(1500)]
    with RawServer(respond(head(*lines, "Content-Length: 0"))) as server:
        response_ = await client.get(server.url)
        assert len(response_.headers) == 1501


async def test_http_1_0_closes_by_default(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            conn.send(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with RawServer(handler) as server:
        for _ in range(2):
            response_: Any = await client.get(server.url)
            assert response_.http_version == "HTTP/1.0"
        assert server.connections == 2


async def test_connection_close_is_observed(client: AnyClient, app: AppServer) -> None:
    for _ in range(3):
        assert (await client.get(app.url + "/close")).content == b"hello"
    assert app.connections == 3
