"""Streamed responses: chunks, lines, back-pressure, leaving early, errors with a partial body."""

from __future__ import annotations

import contextlib
import gc
import gzip
import subprocess
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import brotli
import pytest

import curlhttp
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ContentDecodingError,
    HTTPError,
    PoolTimeout,
    ReadTimeout,
    RequestException,
    StreamConsumedError,
)
from tests.servers import (
    AppServer,
    H2Server,
    RawConnection,
    RawServer,
    payload,
    respond,
    respond_and_close,
    respond_and_stall,
    response,
)
from tests.support.colours import ONE_OF_EACH, AnyClient, AnyStream
from tests.support.pace import paced

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
Make = Callable[..., AnyClient]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def narrow(make_client: Make) -> AnyClient:
    """Return a client with one slot, which does not wait for it."""
    return make_client(
        http2=True, max_connections=1, timeout=curlhttp.Timeout(pool=paced(0.2), read=30)
    )


async def collect(stream: AnyStream, kind: str, *arguments: Any) -> list[Any]:
    return [piece async for piece in stream.iterate(kind, *arguments)]


async def until_error(pieces: AsyncIterator[Any]) -> tuple[list[Any], Exception]:
    """Return what came and the error after it."""
    got = []
    try:
        async for piece in pieces:
            got.append(piece)
    except Exception as error:
        return got, error
    raise AssertionError("the body ended without an error")


# --- APIs ---


async def test_client_stream_is_a_context_manager(client: AnyClient, app: AppServer) -> None:
    url = app.url + "/bytes/1000"
    if client.is_blocking:
        with client.real.stream("GET", url) as streamed:
            body = b"".join(streamed.iter_bytes())
    else:
        async with client.real.stream("GET", url) as streamed:
            body = b"".join([piece async for piece in streamed.aiter_bytes()])
    assert body == payload(1000)
    assert streamed.is_closed


async def test_a_verb_with_stream_returns_a_streamed_response(
    client: AnyClient, app: AppServer
) -> None:
    url = app.url + "/bytes/1000"
    if client.is_blocking:
        with client.real.get(url, stream=True) as streamed:
            body = streamed.read()
    else:
        async with await client.real.get(url, stream=True) as streamed:
            body = await streamed.aread()
    assert body == payload(1000)


async def test_the_async_stream_may_be_awaited(client: AnyClient, app: AppServer) -> None:
    streamed = client.real.stream("GET", app.url + "/bytes/10")
    if not client.is_blocking:
        streamed = await streamed
        assert await streamed.aread() == payload(10)
    else:
        assert streamed.read() == payload(10)


async def test_a_streamed_response_iterates_over_its_bytes(
    client: AnyClient, app: AppServer
) -> None:
    stream = await client.stream("GET", app.url + "/bytes/100000")
    async with stream:
        whole = stream.real
        pieces = list(whole) if client.is_blocking else [piece async for piece in whole]
    assert b"".join(pieces) == payload(100_000)


# --- pieces ---


@pytest.mark.parametrize("kind", ["bytes", "raw"])
@pytest.mark.parametrize("size", [None, 1, 1000, 65536, 200_000, 10**9])
async def test_chunks_have_at_most_the_requested_size(
    any_client: AnyClient, server: AppServer, kind: str, size: int | None
) -> None:
    total = 3001 if size == 1 else 300_001
    async with await any_client.stream("GET", f"{server.url}/bytes/{total}") as stream:
        pieces = await collect(stream, kind, size)
    assert b"".join(pieces) == payload(total)
    assert all(pieces)
    assert max(map(len, pieces)) <= (size or total)


@pytest.mark.parametrize("size", [0, -1])
async def test_a_size_below_one_is_refused(client: AnyClient, app: AppServer, size: int) -> None:
    async with await client.stream("GET", app.url + "/bytes/10") as stream:
        with pytest.raises(ValueError, match="chunk_size"):
            await collect(stream, "bytes", size)


@pytest.mark.parametrize("coding", ["gzip", "multi-gzip", "deflate", "raw-deflate", "br", "zstd"])
@pytest.mark.parametrize("size", [None, 1000])
async def test_a_coded_body_is_decoded_while_it_is_streamed(
    any_client: AnyClient, server: AppServer, coding: str, size: int | None
) -> None:
    async with await any_client.stream("GET", f"{server.url}/{coding}?size=200001") as stream:
        pieces = await collect(stream, "bytes", size)
    assert b"".join(pieces) == payload(200_001)
    assert max(map(len, pieces)) <= (size or 64 * 1024)


async def test_raw_pieces_keep_their_coding(any_client: AnyClient, server: AppServer) -> None:
    async with await any_client.stream("GET", server.url + "/gzip?size=5000") as stream:
        pieces = await collect(stream, "raw")
    assert gzip.decompress(b"".join(pieces)) == payload(5000)


async def test_a_decompression_bomb_is_yielded_in_small_chunks(
    client: AnyClient, app: AppServer
) -> None:
    """A bomb that is streamed comes in small pieces."""
    async with await client.stream("GET", app.url + f"/gzip?zeros=1&size={64 * MIB}") as stream:
        total = 0
        async for piece in stream.iterate("bytes"):
            assert len(piece) <= 64 * 1024
            total += len(piece)
    assert total == 64 * MIB


async def test_text_is_decoded_across_pieces(client: AnyClient) -> None:
    text = "häß€😀" * 3
    body = text.encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
    with RawServer(respond(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)) as raw:
        async with await client.stream("GET", raw.url) as stream:
            assert "".join(await collect(stream, "text")) == text


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=latin-1", b"h\xe9", "hé"),
        ("text/plain; charset=utf-16", "hé".encode("utf-16"), "hé"),
        ("text/plain; charset=nonsense", "hé".encode(), "hé"),
        ("text/plain", "hé".encode(), "hé"),
        ("text/plain; charset=utf-8", b"h\xff", "h�"),
        ("text/plain; charset=utf-8", b"h\xc3", "h�"),
        ("text/plain; charset=base64", b"aGk=", "aGk="),
    ],
)
async def test_text_follows_the_charset_or_utf_8(
    client: AnyClient, content_type: str, body: bytes, text: str
) -> None:
    with RawServer(respond(response(body, headers=[("Content-Type", content_type)]))) as raw:
        async with await client.stream("GET", raw.url) as stream:
            assert "".join(await collect(stream, "text")) == text
        assert (await client.get(raw.url)).text == text


async def test_lines_have_no_line_ends(client: AnyClient) -> None:
    body = b"one\ntwo\r\nthree\rfour\n\nsix\r\n\r\n" + "süß".encode()
    with RawServer(respond(response(body))) as raw:
        async with await client.stream("GET", raw.url) as stream:
            lines = await collect(stream, "lines")
    assert lines == ["one", "two", "three", "four", "", "six", "", "süß"]


async def test_a_line_comes_before_the_body_has_ended(client: AnyClient) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst\nsec"
    with RawServer(respond_and_stall(head)) as raw:
        async with await client.stream("GET", raw.url) as stream:
            lines = stream.iterate("lines")
            assert await anext(lines) == "first"


def _flushing(coding: str) -> Callable[[bytes], bytes]:
    """Return a function that encodes one piece, so that the other end can decode all of it."""
    if coding == "br":
        encoder = brotli.Compressor()
        return lambda piece: encoder.process(piece) + encoder.flush()
    if coding == "identity":
        return lambda piece: piece
    deflater = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    return lambda piece: deflater.compress(piece) + deflater.flush(zlib.Z_SYNC_FLUSH)


@contextlib.contextmanager
def slow_stream(coding: str, end: bytes = b"\n") -> Iterator[tuple[str, threading.Semaphore]]:
    """Run a server that sends three bytes, and the next three once the semaphore is released."""
    taken = threading.Semaphore(0)

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        field = b"Content-Encoding: " + coding.encode()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + field + b"\r\n\r\n")
        encode = _flushing(coding)
        for letter in (b"a", b"b", b"c"):
            piece = encode(letter * 2 + end)
            conn.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            if not taken.acquire(timeout=30):
                return

    with RawServer(handler) as server:
        yield server.url, taken


@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate", "br"])
@pytest.mark.parametrize(
    ("kind", "sizes"), [("bytes", (4096,)), ("bytes", ()), ("text", ()), ("lines", ())]
)
async def test_a_live_stream_is_passed_on_as_it_arrives(
    client: AnyClient, coding: str, kind: str, sizes: tuple[int, ...]
) -> None:
    with slow_stream(coding) as (url, taken):
        async with await client.stream("GET", url) as stream:
            pieces = stream.iterate(kind, *sizes)
            for letter in "abc":
                piece = await anext(pieces)
                taken.release()
                assert (piece if kind != "bytes" else piece.decode()).strip() == letter * 2


@pytest.mark.parametrize("sizes", [(4096,), (2,), ()])
async def test_a_size_of_raw_pieces_is_a_maximum(client: AnyClient, sizes: tuple[int, ...]) -> None:
    with slow_stream("identity") as (url, taken):
        async with await client.stream("GET", url) as stream:
            pieces = stream.iterate("raw", *sizes)
            for letter in (b"a", b"b", b"c"):
                if sizes == (2,):
                    assert await anext(pieces) == letter * 2
                    assert await anext(pieces) == b"\n"
                else:
                    assert await anext(pieces) == letter * 2 + b"\n"
                taken.release()


async def test_a_line_that_ends_in_a_carriage_return_does_not_wait(client: AnyClient) -> None:
    with slow_stream("identity", b"\r") as (url, taken):
        async with await client.stream("GET", url) as stream:
            lines = stream.iterate("lines")
            for letter in "abc":
                assert await anext(lines) == letter * 2
                taken.release()


# --- once ---


@pytest.mark.parametrize("kind", ["bytes", "raw", "text", "lines"])
async def test_a_second_pass_is_an_error(client: AnyClient, app: AppServer, kind: str) -> None:
    async with await client.stream("GET", app.url + "/bytes/1000") as stream:
        await collect(stream, "bytes")
        with pytest.raises(StreamConsumedError):
            await collect(stream, kind)
        with pytest.raises(TypeError):  # requests' family
            await stream.read()


async def test_a_closed_response_cannot_be_read(client: AnyClient, app: AppServer) -> None:
    stream = await client.stream("GET", app.url + "/bytes/1000")
    await stream.aclose()
    await stream.aclose()  # twice is fine
    assert stream.real.is_closed
    with pytest.raises(StreamConsumedError, match="closed"):
        await collect(stream, "bytes")


async def test_the_error_for_the_unread_body_of_an_error_says_to_read_it_within_the_block(
    client: AnyClient, app: AppServer
) -> None:
    url = app.url + "/status/404"
    with pytest.raises(HTTPError) as caught:
        async with await client.stream("GET", url) as stream:
            stream.real.raise_for_status()
    response = caught.value.response
    assert response is not None
    call = "call response.read()" if client.is_blocking else "call await response.aread()"
    with pytest.raises(StreamConsumedError, match="closed before it was read") as unread:
        _ = response.text
    assert f"{call} within the `with` block, before raise_for_status()" in str(unread.value)
    assert url in str(unread.value)


@pytest.mark.parametrize("kind", ["bytes", "raw"])
async def test_a_closed_response_does_not_pass_its_part_for_the_body(
    client: AnyClient, app: AppServer, kind: str
) -> None:
    stream = await client.stream("GET", app.url + "/truncated?length=1000&sent=100")
    with pytest.raises(StreamConsumedError, match="closed while it was read"):
        async for _ in stream.iterate(kind):
            await stream.aclose()


async def test_a_read_body_stays_available(client: AnyClient, app: AppServer) -> None:
    async with await client.stream("GET", app.url + "/json") as stream:
        body = await stream.read()
        assert await stream.read() is body
        assert stream.real.content is body
        assert stream.real.text == body.decode()
        assert stream.real.json()["hello"] == "world"
        assert b"".join(await collect(stream, "bytes")) == body
        assert "".join(await collect(stream, "text")) == body.decode()
        with pytest.raises(StreamConsumedError):
            await collect(stream, "raw")
    assert stream.real.content is body  # after close, too


async def test_content_reads_in_the_blocking_client_and_requires_aread_in_the_async_one(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream("GET", app.url + "/bytes/1000") as stream:
        if client.is_blocking:
            assert stream.real.content == payload(1000)
        else:
            with pytest.raises(RuntimeError, match="aread"):
                _ = stream.real.content
            assert await stream.read() == payload(1000)


async def test_content_after_a_part_was_read_is_an_error(client: AnyClient, app: AppServer) -> None:
    async with await client.stream("GET", app.url + "/bytes/1000") as stream:
        pieces = stream.iterate("bytes", 10)
        assert await anext(pieces) == payload(10)
        with pytest.raises(RuntimeError, match="already consumed"):
            _ = stream.real.content
        with pytest.raises(RuntimeError, match="already consumed"):
            _ = stream.real.text
        assert stream.real.is_stream_consumed


# --- connections ---


async def test_a_body_read_to_its_end_keeps_its_connection_open(
    any_client: AnyClient, server: AppServer
) -> None:
    for kind in ("bytes", "raw", "text", "lines"):
        async with await any_client.stream("GET", server.url + "/bytes/100000") as stream:
            await collect(stream, kind)
            assert stream.real.is_closed  # given back before the `with` ends
    assert server.connections == 1


async def test_leaving_a_body_early_closes_its_connection_on_http1(
    narrow: AnyClient, app: AppServer
) -> None:
    before = app.open_connections  # of other tests' clients
    for count in range(1, 4):
        async with await narrow.stream("GET", app.url + "/big") as stream:
            async for piece in stream.iterate("bytes", 1000):
                assert len(piece) == 1000
                break
        assert app.connections == count
        assert app.wait_for(lambda: app.open_connections <= before)
    assert (await narrow.get(app.url)).content == b"hello"


async def test_close_drops_the_rest_without_an_await_in_both_clients(
    narrow: AnyClient, app: AppServer
) -> None:
    """Code that cannot await, such as a callback, must not keep the only slot in the pool."""
    before = app.open_connections
    for _ in range(2):
        stream = await narrow.stream("GET", app.url + "/big")
        stream.real.close()
        assert stream.real.is_closed
        assert app.wait_for(lambda: app.open_connections <= before)
        with pytest.raises(StreamConsumedError):
            await stream.read()
    assert (await narrow.get(app.url)).content == b"hello"


_DONE = b"data: [DONE]\n\n"
_EVENTS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(_DONE), _DONE)


class _Rest:
    """Send a response up to its last piece, and the rest only when the test says so."""

    def __init__(self, rest: bytes, then: Callable[[RawConnection], object] | None = None) -> None:
        self._rest, self._then = rest, then
        self.goes, self.gone = threading.Event(), threading.Event()

    def __call__(self, conn: RawConnection) -> None:
        while conn.read_request()[0]:
            conn.send(_EVENTS)
            self.goes.wait(30)
            conn.send(self._rest)
            if self._then is not None:
                self._then(conn)
            self.gone.set()

    def arrive(self) -> None:
        """Return once the rest is in the client's socket; blocks the loop, so it stays there."""
        self.goes.set()
        assert self.gone.wait(30)


async def _read_done(client: AnyClient, server: RawServer, **options: Any) -> AnyStream:
    stream = await client.stream("GET", server.url, **options)
    async for piece in stream.iterate("bytes"):
        assert piece == _DONE
        break
    return stream


async def test_closing_a_body_whose_end_is_there_keeps_the_connection(
    any_client: AnyClient,
) -> None:
    """As SDKs do at `data: [DONE]`: the last chunk comes with it, or right after it."""
    with RawServer(respond(_EVENTS + b"0\r\n\r\n")) as server:
        for _ in range(3):
            await (await _read_done(any_client, server)).aclose()
        assert server.connections == 1
    rest = _Rest(b"0\r\n\r\n")
    with RawServer(rest) as server:
        for _ in range(3):
            stream = await _read_done(any_client, server)
            rest.arrive()
            await stream.aclose()
            rest.goes.clear()
            rest.gone.clear()
        assert server.connections == 1


async def test_closing_a_body_whose_end_is_not_there_waits_for_nothing(
    any_client: AnyClient,
) -> None:
    rest = _Rest(b"0\r\n\r\n")
    with RawServer(rest) as server:
        await (await _read_done(any_client, server)).aclose()
        rest.goes.set()
        await (await _read_done(any_client, server)).aclose()
        assert server.connections == 2


@pytest.mark.parametrize(
    ("rest", "then"),
    [
        (b"not a chunk\r\n", None),
        (b"5\r\nhe", RawConnection.reset),
        (b"5\r\nhe", RawConnection.close),
        (b"100000\r\n" + b"x" * 0x100000 + b"\r\n", None),
    ],
    ids=["corrupt", "reset", "cut", "long"],
)
async def test_what_is_wrong_with_the_rest_of_a_closed_body_is_no_error(
    make_client: Make, rest: bytes, then: Callable[[RawConnection], object] | None
) -> None:
    client = make_client(max_connections=1, max_response_size=4 * MIB)
    sent = _Rest(rest, then)
    with RawServer(sent) as server:
        stream = await _read_done(client, server)
        sent.goes.set()
        if len(rest) < MIB:  # more does not fit into the socket
            sent.arrive()
        await stream.aclose()
        assert stream.real.is_closed
        await (await client.stream("GET", server.url)).aclose()  # with the one slot
        assert server.connections == 2


async def test_the_rest_of_a_closed_body_is_not_decoded(any_client: AnyClient) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n"
    with RawServer(respond(head + b"x" * 1000)) as server:
        for _ in range(2):
            await (await any_client.stream("GET", server.url)).aclose()
        assert server.connections == 1


async def test_closing_reads_little_of_an_endless_body(make_client: Make) -> None:
    client = make_client(timeout=30)

    def send_forever(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(_EVENTS)
        with contextlib.suppress(OSError):
            while True:
                conn.send(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")

    with RawServer(send_forever) as server:
        stream = await client.stream("GET", server.url)
        async for _ in stream.iterate("bytes"):
            break
        before = client.real.stats().bytes_received
        await stream.aclose()
        assert client.real.stats().bytes_received - before < 4 * 64 * 1024
        assert server.wait_for(lambda: not server.open_connections)


def test_closing_does_not_ask_for_more_of_a_request_body() -> None:
    asked: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(1000):
            asked.append(number)
            yield b"x" * 65536

    def respond_early(conn: RawConnection) -> None:
        conn.read_head()
        conn.send(_EVENTS)
        conn.stall()

    with RawServer(respond_early) as server, curlhttp.Client(timeout=30) as client:
        stream = client.stream("POST", server.url, data=pieces())
        before = len(asked)
        stream.close()
        assert len(asked) == before < 1000
        assert server.wait_for(lambda: not server.open_connections)


async def test_leaving_a_body_early_resets_only_its_stream_on_http2(
    narrow: AnyClient, h2_app: H2Server
) -> None:
    await narrow.get(h2_app.url)
    for count in range(1, 4):
        stream = await narrow.stream("GET", h2_app.url + "/big")
        await stream.aclose()
        assert h2_app.wait_for(lambda count=count: len(h2_app.resets) == count)  # type: ignore[misc]
    assert (await narrow.get(h2_app.url)).content == b"hello"
    assert h2_app.connections == 1


async def test_an_open_response_holds_its_slot(narrow: AnyClient, app: AppServer) -> None:
    async with await narrow.stream("GET", app.url + "/big"):
        with pytest.raises(PoolTimeout, match="close streamed responses"):
            await narrow.get(app.url)
    assert (await narrow.get(app.url)).content == b"hello"


@pytest.mark.parametrize("begun", [False, True])
async def test_a_dropped_response_releases_its_slot(
    narrow: AnyClient, server: AppServer, begun: bool
) -> None:
    for _ in range(3):
        stream = await narrow.stream("GET", server.url + "/big")
        if begun:
            pieces = stream.iterate("bytes", 10)
            await anext(pieces)
            del pieces
        del stream
        gc.collect()
    assert (await narrow.get(server.url)).content == b"hello"


async def test_a_dropped_response_wakes_a_request_that_waits_already(
    make_client: Make, app: AppServer
) -> None:
    client = make_client(max_connections=1, timeout=curlhttp.Timeout(pool=30))
    if client.is_blocking:  # the caller is the only thread; see the one above
        return
    kept = [await client.stream("GET", app.url + "/big")]

    async def drop() -> None:
        await anyio.lowlevel.checkpoint()
        kept.clear()
        gc.collect()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drop)
            response = await client.get(app.url)
    assert response.content == b"hello"


async def test_a_response_that_another_finalizer_keeps_is_abandoned_once(
    make_client: Make, app: AppServer
) -> None:
    kept: list[Any] = []

    class Keeper:
        response: Any

        def __del__(self) -> None:
            kept.append(self.response)

    client = make_client(max_connections=2)
    stream = await client.stream("GET", app.url + "/big")
    keeper: Any = Keeper()
    keeper.response, stream.real.keeper = stream.real, keeper
    del stream, keeper
    gc.collect()
    await anyio.sleep(0.01)  # what the finalizer asked the loop for
    kept.pop().close()

    # Each has a transfer of its own.
    first = await client.stream("GET", app.url + "/bytes/1000000?seed=1")
    second = await client.stream("GET", app.url + "/bytes/1000000?seed=2")
    async with first, second:
        assert await first.read(1_000_000) == payload(1_000_000, 1)
        assert await second.read(1_000_000) == payload(1_000_000, 2)


async def test_two_streams_and_whole_responses_at_once(
    any_client: AnyClient, server: AppServer
) -> None:
    first = await any_client.stream("GET", server.url + "/bytes/1000000?seed=1")
    second = await any_client.stream("GET", server.url + "/bytes/1000000?seed=2")
    async with first, second:
        got: tuple[list[bytes], list[bytes]] = ([], [])
        for _ in range(10):
            got[0].append(await first.read(100_000))
            got[1].append(await second.read(100_000))
            assert (await any_client.get(server.url)).content == b"hello"
        assert await first.read(1) == await second.read(1) == b""
    assert b"".join(got[0]) == payload(1_000_000, 1)
    assert b"".join(got[1]) == payload(1_000_000, 2)


# --- errors while streaming ---


@pytest.mark.parametrize("size", [None, 7, 1000])
async def test_a_truncated_body_yields_a_part_and_then_fails(
    any_client: AnyClient, server: AppServer, size: int | None
) -> None:
    stream = await any_client.stream("GET", server.url + "/truncated?length=1000&sent=100")
    async with stream:
        got, error = await until_error(stream.iterate("bytes", size))
    assert b"".join(got) == payload(100)
    assert isinstance(error, RequestException)
    assert isinstance(error, ChunkedEncodingError) or server.url.startswith("https:")
    assert error.response is stream.real
    assert error.request_sent
    assert (await any_client.get(server.url)).content == b"hello"


async def test_a_cut_line_does_not_pass_for_a_line(client: AnyClient) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b'{"a": 1}\n{"a": 123'
    with RawServer(respond_and_close(cut)) as raw:
        async with await client.stream("GET", raw.url) as stream:
            got, error = await until_error(stream.iterate("lines"))
    assert got == ['{"a": 1}']
    assert isinstance(error, ChunkedEncodingError)


async def test_a_reset_comes_after_what_was_received(client: AnyClient) -> None:
    def resets(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + payload(1000))
        conn.wait_closed(0.05)
        conn.reset()

    with RawServer(resets) as raw:
        async with await client.stream("GET", raw.url) as stream:
            got, error = await until_error(stream.iterate("bytes", 100))
    assert b"".join(got) == payload(1000)
    assert isinstance(error, ChunkedEncodingError)


@pytest.mark.parametrize("end", [b"zz\r\n", b"5\r\nab", b"5\r\nabcdeXX", b""])
async def test_broken_chunks_yield_a_part_and_then_fail(client: AnyClient, end: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with RawServer(respond_and_close(head + b"4\r\ngood\r\n" + end)) as raw:
        async with await client.stream("GET", raw.url) as stream:
            got, error = await until_error(stream.iterate("bytes"))
    assert b"".join(got).startswith(b"good")
    assert isinstance(error, ChunkedEncodingError)


@pytest.mark.parametrize("spoil", ["cut", "corrupt"])
async def test_a_broken_coding_yields_a_part_and_then_fails(narrow: AnyClient, spoil: str) -> None:
    plain = payload(300_000)
    body = bytearray(gzip.compress(plain))
    if spoil == "cut":
        del body[-20:]
    else:
        body[-100:-50] = bytes(50)
    with RawServer(respond(response(bytes(body), headers=[("Content-Encoding", "gzip")]))) as raw:
        async with await narrow.stream("GET", raw.url) as stream:
            got, error = await until_error(stream.iterate("bytes"))
        assert len(got) > 1
        assert plain.startswith(b"".join(got)[:200_000])
        assert isinstance(error, ContentDecodingError)
        assert error.response is stream.real
        with pytest.raises(ContentDecodingError):  # the slot is free
            await narrow.get(raw.url)


@pytest.mark.parametrize("path", ["/stall-after?sent=100&length=1000"])
async def test_a_stall_is_a_read_timeout_after_what_was_received(
    any_client: AnyClient, server: AppServer, path: str
) -> None:
    async with await any_client.stream("GET", server.url + path, timeout=(30, 0.15)) as stream:
        got, error = await until_error(stream.iterate("bytes"))
    assert b"".join(got) == payload(100)
    assert isinstance(error, ReadTimeout)
    assert (await any_client.get(server.url)).content == b"hello"


async def test_after_a_failed_read_the_response_is_consumed(
    client: AnyClient, app: AppServer
) -> None:
    stream = await client.stream("GET", app.url + "/truncated?length=1000&sent=100")
    with pytest.raises(ChunkedEncodingError):
        await stream.read()
    assert stream.real.is_closed
    with pytest.raises(RuntimeError, match="already consumed"):
        _ = stream.real.content


# --- statuses and methods ---


@pytest.mark.parametrize("code", [404, 500, 503])
async def test_an_error_status_is_streamed_like_any_other(
    any_client: AnyClient, server: AppServer, code: int
) -> None:
    async with await any_client.stream("GET", f"{server.url}/status/{code}") as stream:
        assert stream.real.status_code == code
        assert not stream.real
        with pytest.raises(HTTPError) as caught:
            stream.real.raise_for_status()
        assert caught.value.response is stream.real
        assert await stream.read() == b""
    async with await any_client.stream("GET", server.url + "/no-such-route") as stream:
        assert await stream.read() == b"no such route"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/bytes/1000", 200),
        ("HEAD", "/gzip", 200),
        ("GET", "/204", 204),
        ("GET", "/304", 304),
    ],
)
async def test_a_response_without_a_body_streams_nothing(
    narrow: AnyClient, server: AppServer, method: str, path: str, status: int
) -> None:
    async with await narrow.stream(method, server.url + path) as stream:
        assert stream.real.status_code == status
        assert await collect(stream, "bytes") == []
    async with await narrow.stream("GET", server.url) as stream:
        assert await stream.read() == b"hello"
    assert server.connections == 1


async def test_a_redirect_is_followed_before_the_body_is_streamed(
    any_client: AnyClient, server: AppServer
) -> None:
    async with await any_client.stream("GET", server.url + "/redirect/2") as stream:
        assert await stream.read() == b"hello"
        assert [hop.status_code for hop in stream.real.history] == [302, 302]


async def test_a_redirect_that_is_not_followed_is_streamed(
    any_client: AnyClient, server: AppServer
) -> None:
    url = f"{server.url}/redirect-to?url=/&body=200000"
    async with await any_client.stream("GET", url, follow_redirects=False) as stream:
        assert stream.real.is_redirect
        assert await stream.read() == payload(200_000)


async def test_a_redirect_without_location_is_streamed_whole(
    any_client: AnyClient, server: AppServer
) -> None:
    """An empty Location leads nowhere: the body counts, all of it, streamed or not."""
    url = f"{server.url}/redirect-to?url=&body=200000"
    async with await any_client.stream("GET", url) as stream:
        assert b"".join(await collect(stream, "bytes")) == payload(200_000)
    assert (await any_client.get(url)).content == payload(200_000)


async def test_trailers_are_there_at_the_end(any_client: AnyClient, server: AppServer) -> None:
    async with await any_client.stream("GET", server.url + "/trailers") as stream:
        assert "x-checksum" not in stream.real.headers
        assert await stream.read() == b"hello"
        assert stream.real.trailers["x-checksum"]


# --- memory ---

_READ_SLOWLY = """
import sys, resource
colour, url, how = sys.argv[1:]
import curlhttp
sys.path.insert(0, {root!r})
from tests.support.colours import BACKENDS, AnyClient
import anyio
import anyio.lowlevel
import anyio.to_thread

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

async def main():
    async with AnyClient(colour, verify={ca!r}, http2=True) as client:
        await client.get(url + "/bytes/1000")
        async with await client.stream("GET", url + "/bytes/300000") as stream:
            await stream.read()
        before, peak, total = rss(), 0, 0
        async with await client.stream("GET", url + how) as stream:
            async for piece in stream.iterate("bytes"):
                total += len(piece)
                peak = max(peak, rss())
                if total % 5 == 0:
                    await anyio.sleep(0)
        print(total, peak - before)

backend = BACKENDS[colour]
name, options = backend if isinstance(backend, tuple) else (backend, {{}})
anyio.run(main, backend=name, backend_options=options)
"""


@ONE_OF_EACH
@pytest.mark.slow
@pytest.mark.parametrize("coded", [False, True])
def test_a_slow_reader_of_125_mib_holds_less_than_10(
    colour: str, server: AppServer, certs: Any, coded: bool
) -> None:
    if coded and server.url.startswith("https:"):
        return  # the coding does not care
    size = 125 * MIB
    path = f"/gzip?zeros=1&size={size}" if coded else "/big"
    program = _READ_SLOWLY.format(root=str(ROOT), ca=str(certs.ca_path))
    done = subprocess.run(
        [sys.executable, "-c", program, colour, server.url, path],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    total, grown = map(int, done.stdout.split())
    assert total == size
    assert grown < 10 * MIB


async def test_a_reader_that_stops_stops_the_server(any_client: AnyClient) -> None:
    """Back-pressure reaches the peer: what it can send is bounded while nothing reads."""
    sent = [0]

    def floods(conn: Any) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        piece = bytes(64 * 1024)
        while sent[0] < 64 * MIB:
            conn.send(piece)
            sent[0] += len(piece)

    with RawServer(floods) as raw:
        async with await any_client.stream("GET", raw.url, timeout=30) as stream:
            pieces = stream.iterate("bytes")
            await anext(pieces)
            before = -1
            while sent[0] != before:
                before = sent[0]
                await anyio.sleep(0.1)
            assert sent[0] < 32 * MIB


async def test_a_pause_of_the_reader_is_not_silence_of_the_server(
    any_client: AnyClient, server: AppServer
) -> None:
    async with await any_client.stream(
        "GET", server.url + "/bytes/3000000", timeout=(30, paced(0.1))
    ) as stream:
        pieces = stream.iterate("bytes", 1000)
        body = [await anext(pieces)]
        await anyio.sleep(paced(0.25))
        body += [piece async for piece in pieces]
    assert b"".join(body) == payload(3_000_000)
