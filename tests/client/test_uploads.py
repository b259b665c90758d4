"""Request bodies on the wire: verbs, kinds of bodies, framing, back-pressure, failures."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import itertools
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import curlhttp
import curlhttp.requests
from curlhttp.exceptions import (
    DeadlineExceeded,
    InvalidHeader,
    InvalidMethod,
    RequestException,
    UnrewindableBodyError,
)
from tests.servers import AppServer, H2Server, RawConnection, RawServer, response
from tests.servers import payload as random_bytes
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.pace import assert_in_time

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "REPORT")
Make = Callable[..., AnyClient]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def in_async_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for piece in in_pieces(data, size):
        yield piece


# --- verbs ---


@pytest.mark.parametrize("method", VERBS)
async def test_every_verb_arrives_as_given(
    any_client: AnyClient, server: AppServer, method: str
) -> None:
    response = await any_client.request(method, server.url + "/bytes/3")
    assert response.status_code == 200
    record = server.requests[-1]
    assert record.method == method
    assert record.header("expect") is None
    assert record.header("content-type") is None
    assert record.header("transfer-encoding") is None
    announces = method in ("POST", "PUT", "PATCH")
    assert record.header("content-length") == ("0" if announces else None)
    assert len(response.content) == (0 if method == "HEAD" else 3)


@pytest.mark.parametrize("verb", ["get", "options", "head", "post", "put", "patch", "delete"])
async def test_every_verb_has_a_method(client: AnyClient, app: AppServer, verb: str) -> None:
    sent = getattr(client.real, verb)(app.url + "/bytes/1")
    response = sent if client.is_blocking else await sent
    assert response.status_code == 200
    assert app.requests[-1].method == verb.upper()


async def test_no_verb_or_body_leaves_a_trace_on_the_next_request(
    make_client: Make, app: AppServer
) -> None:
    """One handle sends all ordered pairs; whatever it remembers of the first must not show."""
    client = make_client(max_connections=1)
    shapes: list[tuple[str, Any]] = [
        (method, body)
        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD")
        for body in (None, b"", b"four", "pieces")
        if method != "HEAD" or body is None
    ]
    for pair in itertools.product(shapes, shapes):
        for method, body in pair:
            content = iter([b"pie", b"ces"]) if body == "pieces" else body
            await client.request(method, app.url + "/echo", content=content)
            record = app.requests[-1]
            expected = b"pieces" if body == "pieces" else body or b""
            assert (record.method, record.body) == (method, expected), pair
            assert record.chunked == (body == "pieces"), pair
            assert record.header("content-type") is None, pair
            assert record.header("expect") is None, pair


# --- kinds of body ---


async def test_params_go_into_the_query(any_client: AnyClient, server: AppServer) -> None:
    await any_client.get(server.url + "/echo?a=1", params={"b": [2, 3], "c": "ä &", "d": None})
    assert server.requests[-1].pairs == [("a", "1"), ("b", "2"), ("b", "3"), ("c", "ä &")]


async def test_a_form_is_url_encoded(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.post(server.url + "/echo", data={"a": "1 2", "b": ["x", "ü"]})
    record = server.requests[-1]
    assert record.header("content-type") == "application/x-www-form-urlencoded"
    assert response.json()["body"] == "a=1+2&b=x&b=%C3%BC"


async def test_json_is_sent_with_its_type(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.post(server.url + "/echo", json={"a": [1, None, "ü"]})
    assert server.requests[-1].header("content-type") == "application/json"
    assert response.json()["body"] == '{"a": [1, null, "\\u00fc"]}'


async def test_the_callers_content_type_beats_the_bodys(client: AnyClient, app: AppServer) -> None:
    await client.post(app.url + "/echo", json=1, headers={"content-type": "text/x"})
    assert app.requests[-1].values("content-type") == ["text/x"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", b""),
        ("", b""),
        (b"bytes", b"bytes"),
        ("té€t", "té€t".encode()),
        (bytearray(b"array"), b"array"),
        (memoryview(b"view"), b"view"),
        (b"a\0\r\nb", b"a\0\r\nb"),
    ],
)
async def test_content_in_memory_is_sent_unchanged(
    any_client: AnyClient, server: AppServer, content: Any, expected: bytes
) -> None:
    response = await any_client.post(server.url + "/echo", content=content)
    seen = response.json()
    assert seen["sha256"] == sha256(expected)
    record = server.requests[-1]
    assert record.header("content-type") is None
    assert record.header("content-length") == str(len(expected))


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3 * MIB + 5])
@pytest.mark.parametrize("length", ["known", "unknown"])
async def test_a_generator_of_any_size_arrives_whole(
    any_client: AnyClient, server: AppServer, size: int, length: str
) -> None:
    data = random_bytes(size)
    headers = {"Content-Length": str(size)} if length == "known" else None
    response = await any_client.post(
        server.url + "/upload", content=in_pieces(data, 50_001), headers=headers
    )
    assert response.json()["sha256"] == sha256(data)
    record = server.requests[-1]
    if server.url.startswith("http:"):
        assert record.header("transfer-encoding") == (None if length == "known" else "chunked")
    assert record.header("content-length") == (str(size) if length == "known" else None)
    assert record.header("expect") is None


async def test_pieces_of_any_size_and_type_arrive_in_order(
    any_client: AnyClient, server: AppServer
) -> None:
    pieces: list[Any] = [b"", b"a", bytearray(b"bc"), memoryview(b"d" * 300_000), b"", b"e"]
    response = await any_client.post(server.url + "/upload", content=(p for p in pieces))
    assert response.json()["sha256"] == sha256(b"abc" + b"d" * 300_000 + b"e")


async def test_a_file_is_sent_from_its_position(
    any_client: AnyClient, server: AppServer, tmp_path: Path
) -> None:
    data = random_bytes(2 * MIB)
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        file.seek(1000)
        response = await any_client.request("PUT", server.url + "/upload", content=file)
        assert not file.closed
    assert response.json()["sha256"] == sha256(data[1000:])
    assert server.requests[-1].header("content-length") == str(2 * MIB - 1000)


async def test_a_pipe_is_sent_chunked(client: AnyClient, app: AppServer) -> None:
    reader, writer = os.pipe()
    with open(writer, "wb") as end:
        end.write(b"through the pipe")
    with open(reader, "rb") as pipe:
        response = await client.post(app.url + "/echo", content=pipe)
    assert response.json()["body"] == "through the pipe"
    assert app.requests[-1].chunked


async def test_a_factory_makes_the_body_and_its_file_is_closed(
    any_client: AnyClient, server: AppServer, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"from a factory")
    opened: list[Any] = []

    def open_it() -> Any:
        opened.append(path.open("rb"))
        return opened[-1]

    response = await any_client.post(server.url + "/echo", content=open_it)
    assert response.json()["body"] == "from a factory"
    assert [file.closed for file in opened] == [True]


async def test_an_async_generator_needs_the_async_client(
    any_client: AnyClient, server: AppServer
) -> None:
    data = random_bytes(300_000)
    if any_client.is_blocking:
        with pytest.raises(TypeError, match="AsyncClient"):
            await any_client.post(server.url + "/upload", content=in_async_pieces(data, 1000))
        assert server.connections == 0
        return
    response = await any_client.post(server.url + "/upload", content=in_async_pieces(data, 1000))
    assert response.json()["sha256"] == sha256(data)


async def test_a_factory_of_async_generators_needs_the_async_client(
    client: AnyClient, app: AppServer
) -> None:
    def make() -> AsyncIterator[bytes]:
        return in_async_pieces(b"twice", 2)

    if client.is_blocking:
        with pytest.raises(TypeError, match="AsyncClient"):
            await client.post(app.url + "/echo", content=make)
        assert app.connections == 0
        return
    response = await client.post(app.url + "/redirect-to?status=307&url=/echo", content=make)
    assert response.json()["body"] == "twice"


async def test_a_form_with_files_is_multipart(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.post(
        server.url + "/echo",
        data={"field": "väl"},
        files={"file": ('na"me\r\n.txt', io.BytesIO(b"content"), "text/plain", {"X-A": "b"})},
    )
    kind = server.requests[-1].header("content-type") or ""
    boundary = kind.removeprefix("multipart/form-data; boundary=")
    body = response.json()["body"].encode("latin-1").decode()
    assert body == (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="field"\r\n\r\nväl\r\n'
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="file"; filename="na%22me%0D%0A.txt"\r\n'
        "Content-Type: text/plain\r\nX-A: b\r\n\r\ncontent\r\n"
        f"--{boundary}--\r\n"
    )
    assert server.requests[-1].header("content-length") == str(len(body.encode()))


@pytest.mark.parametrize(
    "spec",
    [
        ("name", b"x", "text/plain\r\nX-Evil: 1"),
        ("name", b"x", "text/plain", {"X-A": "a\r\nX-Evil: 1"}),
        ("name", b"x", "text/plain", {"X-A\r\nX-Evil": "1"}),
        ("na\0me", b"x"),
    ],
)
async def test_a_part_that_would_break_the_message_is_refused_before_connecting(
    client: AnyClient, app: AppServer, spec: Any
) -> None:
    """A name stays within its quotes; no header of a part adds a line."""
    with pytest.raises(ValueError):
        await client.post(app.url + "/echo", files={"file": spec})
    assert app.connections == 0


@ONE_OF_EACH
@pytest.mark.slow
async def test_a_form_of_big_files_is_never_all_in_memory(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(24 * MIB)
    with path.open("rb") as one, path.open("rb") as two:
        tracemalloc.start()
        try:
            response = await client.post(app.url + "/upload", files={"a": one, "b": two})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert response.json()["length"] > 48 * MIB
    assert peak < 4 * MIB


# --- no delay ---


@pytest.mark.parametrize("kind", ["bytes", "generator", "file"])
async def test_two_mebibytes_go_out_without_waiting_for_a_100(
    client: AnyClient, app: AppServer, kind: str
) -> None:
    data = random_bytes(2 * MIB)
    content: Any = {"bytes": data, "generator": in_pieces(data, MIB), "file": io.BytesIO(data)}
    response = await client.post(app.url + "/upload", content=content[kind])
    assert response.json() == {
        "length": 2 * MIB,
        "sha256": sha256(data),
        "chunked": kind == "generator",
        "expect": None,  # libcurl would wait a second for 100 (Continue)
    }


# --- lengths ---


@pytest.mark.parametrize(
    ("content", "length"),
    [
        (b"four", "3"),
        (b"four", "5"),
        (None, "5"),
        (b"four", "-4"),
        (b"four", "+4"),
        (b"four", "4, 4"),
        (b"four", "four"),
        (b"four", "٤"),
        ([b"fo", b"ur"], "four"),
        (b"four", "9" * 5000),
        ([b"fo", b"ur"], "9" * 5000),
    ],
)
async def test_a_wrong_content_length_is_refused_before_connecting(
    make_client: Make, app: AppServer, content: Any, length: str
) -> None:
    """A body has one length, and it is right."""
    headers = {"Content-Length": length}
    with pytest.raises(InvalidHeader):
        await make_client().post(app.url + "/echo", content=content, headers=headers)
    with pytest.raises(InvalidHeader):
        await make_client(headers=headers).post(app.url + "/echo", content=content)
    assert app.connections == 0


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "identity"])
async def test_a_transfer_coding_other_than_chunked_is_refused(
    client: AnyClient, app: AppServer, coding: str
) -> None:
    """A body has one length, and it is right."""
    with pytest.raises(InvalidHeader):
        await client.post(app.url, content=b"x", headers={"Transfer-Encoding": coding})
    assert app.connections == 0


async def test_length_and_transfer_coding_exclude_each_other(
    client: AnyClient, app: AppServer
) -> None:
    """A body has one length, and it is right."""
    headers = {"Content-Length": "1", "Transfer-Encoding": "chunked"}
    with pytest.raises(InvalidHeader):
        await client.post(app.url, content=b"x", headers=headers)
    assert app.connections == 0


async def test_a_right_content_length_is_sent_once(client: AnyClient, app: AppServer) -> None:
    await client.post(app.url + "/echo", content=b"four", headers={"content-length": "4"})
    assert app.requests[-1].values("content-length") == ["4"]


@pytest.mark.parametrize("name", ["Content-Length", "Transfer-Encoding"])
async def test_framing_headers_of_a_client_are_refused(make_client: Make, name: str) -> None:
    with pytest.raises(InvalidHeader, match=name):
        make_client(headers={name: "5"})


@pytest.mark.parametrize(
    "headers", [{"Content-Length": "9"}, {"Transfer-Encoding": "chunked", "X": "y"}]
)
@pytest.mark.parametrize("content", [None, b"four"])
async def test_framing_that_a_middleware_adds_does_not_reach_the_wire(
    make_client: Make, app: AppServer, headers: dict[str, str], content: bytes | None
) -> None:
    """A body has one length, and it is right."""

    async def adds(request: Any, send: Any) -> Any:
        request.headers.update(headers)
        return await send(request)

    client = make_client(middleware=[adds])
    await client.request("DELETE", app.url + "/echo", content=content)
    record = app.requests[-1]
    assert record.values("content-length") == ([] if content is None else ["4"])
    assert record.values("transfer-encoding") == []
    assert record.body == (content or b"")


def wrong_pieces(asynchronous: bool, *pieces: bytes) -> Any:
    async def give() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return give() if asynchronous else iter(pieces)


@pytest.mark.parametrize("pieces", [(b"123",), (b"",), (b"1234", b"5678"), (b"12345678",)])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_body_that_does_not_keep_its_length_is_an_error_and_ends_its_connection(
    client: AnyClient, app: AppServer, pieces: tuple[bytes, ...], asynchronous: bool
) -> None:
    """A body of another length is an error."""
    before = app.open_connections  # of other tests' clients
    if asynchronous and client.is_blocking:
        asynchronous = False
    accepted: list[bytes] = []
    app.route("/exactly-five", lambda record, conn: accepted.append(record.body))
    try:
        with pytest.raises(RequestException, match="but 5 were announced"):
            await client.post(
                app.url + "/exactly-five",
                content=wrong_pieces(asynchronous, *pieces),
                headers={"Content-Length": "5"},
            )
    finally:
        del app.routes["/exactly-five"]
    assert app.wait_for(lambda: app.open_connections <= before)
    assert accepted == []
    assert (await client.get(app.url + "/bytes/5")).status_code == 200


async def test_a_body_that_does_not_keep_its_length_resets_its_stream(
    make_client: Make, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    await client.get(h2_app.url)
    with pytest.raises(RequestException, match="but 5 were announced"):
        await client.post(
            h2_app.url + "/upload", content=iter([b"123"]), headers={"Content-Length": "5"}
        )
    assert (await client.get(h2_app.url)).content == b"hello"


async def test_head_with_a_body_is_refused(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(InvalidMethod, match="HEAD"):
        await client.request("HEAD", app.url, content=b"body")
    assert app.connections == 0


# --- bodies that fail ---


class OwnError(Exception):
    """Something of the caller's."""


def failing(asynchronous: bool, after: int) -> Any:
    async def give() -> AsyncIterator[bytes]:
        for _ in range(after):
            yield b"x" * 1000
        raise OwnError("mine")

    def give_sync() -> Iterator[bytes]:
        for _ in range(after):
            yield b"x" * 1000
        raise OwnError("mine")

    return give() if asynchronous else give_sync()


@pytest.mark.parametrize("after", [0, 1, 300])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("streams", [False, True])
async def test_an_exception_of_a_body_reaches_the_caller_and_nothing_is_left(
    make_client: Make, app: AppServer, after: int, asynchronous: bool, streams: bool
) -> None:
    before = app.open_connections  # of other tests' clients
    client = make_client(max_connections=1)
    asynchronous = asynchronous and not client.is_blocking
    for _ in range(3):  # each needs the one slot
        with pytest.raises(OwnError, match="mine"):
            await client.post(
                app.url + "/upload", content=failing(asynchronous, after), stream=streams
            )
    assert app.wait_for(lambda: app.open_connections <= before)
    assert (await client.get(app.url + "/bytes/1")).status_code == 200


async def test_an_exception_of_a_body_does_not_affect_other_streams(
    make_client: Make, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    await client.get(h2_app.url)
    with pytest.raises(OwnError):
        await client.post(h2_app.url + "/upload", content=failing(False, 10))
    assert (await client.get(h2_app.url)).content == b"hello"


@pytest.mark.parametrize("piece", ["text", 1, None])
async def test_a_piece_that_is_not_bytes_is_a_type_error(
    client: AnyClient, app: AppServer, piece: Any
) -> None:
    with pytest.raises(TypeError, match="not bytes"):
        await client.post(app.url + "/upload", content=iter([piece]))


async def test_a_spent_generator_is_not_sent_again_on_a_redirect(
    client: AnyClient, app: AppServer
) -> None:
    """A body that was read is not sent as nothing."""
    with pytest.raises(UnrewindableBodyError):
        await client.post(app.url + "/redirect-to?status=307&url=/echo", content=iter([b"once"]))
    assert [record.method for record in app.requests] == ["POST"]


async def test_a_file_is_sent_again_on_a_redirect(client: AnyClient, app: AppServer) -> None:
    file = io.BytesIO(b"__" + b"again" * 1000)
    file.seek(2)
    response = await client.post(app.url + "/redirect-to?status=308&url=/echo", content=file)
    assert response.json()["sha256"] == sha256(b"again" * 1000)


async def test_a_factorys_file_is_closed_when_the_upload_fails(
    client: AnyClient, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(8 * MIB))
    opened: list[Any] = []

    def open_it() -> Any:
        opened.append((tmp_path / "file").open("rb"))
        return opened[-1]

    def reads_some(conn: RawConnection) -> None:
        conn.read_exactly(1000)
        conn.reset()

    with RawServer(reads_some) as server, pytest.raises(RequestException):
        await client.post(server.url, content=open_it)
    assert [file.closed for file in opened] == [True]


# --- responses that come early ---


@pytest.mark.parametrize("kind", ["bytes", "generator", "async"])
@pytest.mark.parametrize("streams", [False, True])
async def test_an_early_response_is_returned(
    any_client: AnyClient, server: AppServer, kind: str, streams: bool
) -> None:
    if kind == "async" and not any_client.is_blocking:
        content: Any = in_async_pieces(bytes(16 * MIB), MIB)
    else:
        content = bytes(16 * MIB) if kind == "bytes" else in_pieces(bytes(16 * MIB), MIB)
    async with await any_client.request(
        "POST", server.url + "/early-413", content=content, stream=streams
    ) as response:
        assert response.status_code == 413
        if server.url.startswith("http:"):
            read = response.read() if any_client.is_blocking else await response.aread()
            assert read == b"too large"
    assert (await any_client.get(server.url + "/bytes/1")).status_code == 200


async def test_a_large_response_to_a_streamed_upload_is_streamed(
    any_client: AnyClient, server: AppServer
) -> None:
    async with await any_client.stream(
        "POST", server.url + "/big?size=3000000", content=in_pieces(bytes(300_000), 1000)
    ) as response:
        assert len(await response.read()) == 3_000_000


async def test_a_response_during_the_upload_is_no_deadlock(
    client: AnyClient,
) -> None:
    """The server sends before it reads: more than the pause mark of a streamed response."""
    size = 24 * MIB  # more than the buffers of both kernels take

    def echoes(conn: RawConnection) -> None:
        head = conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for piece in conn.iter_body(head):
            conn.send(piece)

    with RawServer(echoes) as server:
        with anyio.fail_after(60):
            async with await client.stream(
                "POST",
                server.url,
                content=in_pieces(random_bytes(size), MIB),
                headers={"Content-Length": str(size)},
            ) as response:
                body = await response.read()
    assert sha256(body) == sha256(random_bytes(size))


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "unwatching", "trio"])
async def test_a_response_is_not_lost_while_the_body_is_still_sent(client: AnyClient) -> None:
    """libcurl refuses to continue with a transfer that has ended (error 43): that is no failure."""
    began, answered = threading.Event(), threading.Event()

    def handler(conn: RawConnection) -> None:
        while head := conn.read_head():
            if not head.startswith(b"PUT /early "):
                conn.read_body(head)
                conn.send(response(b"other"))
                continue
            began.wait(60)
            conn.send(response(b"too large", "413 Payload Too Large", [("Connection", "close")]))
            conn.sock.shutdown(socket.SHUT_WR)
            answered.set()

    async def pieces(turns: int) -> AsyncIterator[bytes]:
        yield b"first"
        began.set()
        answered.wait(60)  # the loop has not seen the response when the next request looks about
        tasks.start_soon(partial(client.post, server.url, content=b"other"))
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        yield b"second"
        yield b"third"

    with RawServer(handler) as server:
        for turn in range(12):  # tasks continue in whatever order the loop has
            began.clear()
            answered.clear()
            await client.gather(2, "GET", server.url)  # one idle connection for each
            async with anyio.create_task_group() as tasks:
                found = await client.request("PUT", server.url + "/early", content=pieces(turn % 3))
                assert (found.status_code, found.content) == (413, b"too large")


# --- back-pressure ---


def _zeros(total: int, given: list[int], size: int = 64 * 1024) -> Iterator[bytes]:
    piece = bytes(size)
    for _ in range(total // size):
        given[0] += size
        yield piece


@ONE_OF_EACH
@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_upload_of_32_mib_needs_no_memory(
    any_client: AnyClient, server: AppServer, asynchronous: bool
) -> None:
    async def give() -> AsyncIterator[bytes]:
        for piece in _zeros(total, [0], MIB):
            yield piece

    if asynchronous and any_client.is_blocking:
        return  # it takes none
    total = (32 if server.url.startswith("http:") else 16) * MIB
    content = give() if asynchronous else _zeros(total, [0], MIB)
    await any_client.get(server.url)
    gc.collect()
    tracemalloc.start()
    try:
        response = await any_client.request("PUT", server.url + "/upload", content=content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert response.json()["length"] == total
    assert peak < 12 * MIB  # the HTTP/2 server's own buffers are in it


async def test_a_generator_is_not_read_faster_than_the_server_receives(
    client: AnyClient,
) -> None:
    given = [0]
    taken = threading.Event()

    def takes_little(conn: RawConnection) -> None:
        head = conn.read_head()
        body = conn.iter_body(head)
        next(body)
        taken.wait(60)
        for _ in body:
            pass
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def give() -> Iterator[bytes]:
        """Open the sluice once the buffers of both kernels are full."""
        for piece in _zeros(256 * MIB, given):
            if given[0] > 64 * MIB:
                return  # nobody held it back
            yield piece

    async def watch() -> None:
        before = -1
        while given[0] != before or not given[0]:  # until it stands still
            before = given[0]
            await anyio.to_thread.run_sync(taken.wait, 0.15)
        stood_at.append(given[0])
        taken.set()

    stood_at: list[int] = []
    with RawServer(takes_little) as server:
        if client.is_blocking:
            watcher = threading.Thread(target=lambda: anyio.run(watch))
            watcher.start()
            await client.post(server.url, content=give())
            watcher.join()
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                await client.post(server.url, content=give())
    assert stood_at[0] < 16 * MIB


async def test_a_slow_server_gets_the_whole_body(client: AnyClient, app: AppServer) -> None:
    data = random_bytes(50_000)
    response = await client.post(
        app.url + "/slow-upload?rate=1000000", content=in_pieces(data, 7001)
    )
    assert response.json()["sha256"] == sha256(data)


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_a_file_that_blocks_does_not_block_the_loop(app: AppServer, backend: str) -> None:
    release = threading.Event()

    class Slow(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            piece, self.left = self.left, b""
            assert not piece or release.wait(60)
            return piece

        left = b"slowly"

        def seekable(self) -> bool:
            return False

    async def main() -> None:
        async with curlhttp.AsyncClient() as client, anyio.create_task_group() as tasks:
            seen: list[Any] = []

            async def upload() -> None:
                seen.append(await client.post(app.url + "/echo", content=Slow()))

            tasks.start_soon(upload)
            assert app.wait_for(lambda: True)
            for _ in range(5):  # on the same loop, while read() blocks
                assert (await client.get(app.url + "/bytes/1")).status_code == 200
            assert not seen
            release.set()
        assert seen[0].json()["body"] == "slowly"

    run(main, backend)


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_a_body_that_blocks_for_ever_does_not_outlast_total_or_cancellation(
    app: AppServer, backend: str
) -> None:
    release = threading.Event()

    def blocks() -> Iterator[bytes]:
        yield b"first"
        release.wait(60)

    async def main() -> None:
        async with curlhttp.AsyncClient() as client:
            began = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await client.post(
                    app.url + "/upload", content=blocks(), timeout=curlhttp.Timeout(total=0.2)
                )
            with anyio.move_on_after(0.2) as scope:
                await client.post(app.url + "/upload", content=blocks())
            assert scope.cancelled_caught
            assert_in_time(time.monotonic() - began, 0.4, 2.6)
            release.set()
            assert (await client.get(app.url)).content == b"hello"

    try:
        run(main, backend)
    finally:
        release.set()


def run(main: Callable[[], Any], backend: str) -> None:
    if backend == "uvloop":
        anyio.run(main, backend="asyncio", backend_options={"use_uvloop": True})
    else:
        anyio.run(main, backend=backend)


def test_an_async_body_runs_in_the_tasks_own_context(app: AppServer) -> None:
    """What the caller's generator awaits belongs to the caller's loop and is cancelled with it."""
    ended: list[str] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.01)
        finally:
            ended.append("closed")

    async def main() -> None:
        async with curlhttp.AsyncClient() as client:
            with pytest.raises(DeadlineExceeded):
                await client.post(
                    app.url + "/upload", content=endless(), timeout=curlhttp.Timeout(total=0.1)
                )
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert ended == ["closed"]


# --- one request after another on one handle ---


async def test_body_headers_of_a_request_are_not_sent_with_another(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client(max_connections=1)
    secret = {"Authorization": "Bearer secret"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("POST", {"json": 1}),
        ("POST", {"json": 2}),
        ("GET", {}),
        ("POST", {}),
        ("POST", {"content": b"x"}),
        ("PUT", {"content": b"x", "headers": secret}),
        ("PUT", {"content": b"x"}),
        ("GET", {"headers": secret}),
        ("POST", {"data": {"a": "b"}}),
        ("POST", {"json": 1}),
    ]
    for method, options in calls:
        await client.request(method, app.url + "/echo", **options)
    json, form = "application/json", "application/x-www-form-urlencoded"
    names = ("content-type", "content-length", "authorization", "expect")
    said = [tuple(map(record.header, names)) for record in app.requests]
    assert app.connections == 1
    assert said == [
        (json, "1", None, None),
        (json, "1", None, None),
        (None, None, None, None),
        (None, "0", None, None),
        (None, "1", None, None),
        (None, "1", "Bearer secret", None),
        (None, "1", None, None),
        (None, None, "Bearer secret", None),
        (form, "3", None, None),
        (json, "1", None, None),
    ]


# --- data of an empty file, and forms with the caller's boundary ---


@pytest.mark.parametrize("verb", ["POST", "PUT", "GET"])
async def test_a_file_without_bytes_left_is_sent_with_its_length(
    client: AnyClient, app: AppServer, verb: str
) -> None:
    for argument in ("data", "content"):
        await client.request(verb, app.url, **{argument: io.BytesIO()})
        record = app.requests[-1]
        assert record.values("content-length") == ["0"]
        assert record.values("transfer-encoding") == []


@pytest.mark.parametrize("of_client", [False, True])
async def test_a_form_has_the_boundary_of_the_callers_content_type(
    make_client: Make, app: AppServer, of_client: bool
) -> None:
    kind = {"content-TYPE": b'multipart/mixed; boundary="my own"'}
    client = make_client(headers=kind if of_client else {})
    headers = {} if of_client else kind
    files = {"file": io.BytesIO(b"content")}
    await client.post(app.url, headers=headers, files=files, data={"field": "1"})
    record = app.requests[-1]
    assert record.values("content-type") == ['multipart/mixed; boundary="my own"']
    assert record.body.startswith(b"--my own\r\n")
    assert record.body.endswith(b"content\r\n--my own--\r\n")


async def test_a_boundary_that_cannot_be_sent_is_an_error_before_anything_is(
    client: AnyClient, app: AppServer
) -> None:
    with pytest.raises(InvalidHeader, match="Invalid boundary"):
        await client.post(
            app.url,
            headers={"Content-Type": "multipart/form-data; boundary=a@b"},
            files={"file": b"content"},
        )
    assert not app.requests


@pytest.mark.parametrize("name", ["data", "content"])
def test_the_functions_send_an_empty_file_with_a_length(app: AppServer, name: Any) -> None:
    bodies: Any = ({name: file} for file in (io.BytesIO(), io.BytesIO(b"text")))
    for length, body in zip(("0", "4"), bodies, strict=True):
        curlhttp.post(app.url, **body)
        assert app.requests[-1].values("content-length") == [length]
    assert app.requests[-1].body == b"text"
    text: Any = {name: io.StringIO("text")}
    with pytest.raises(TypeError, match="open it in binary mode"):
        curlhttp.post(app.url, **text)


def test_the_functions_send_what_the_clients_do(app: AppServer) -> None:
    kind = "multipart/form-data; boundary=abc"
    curlhttp.post(app.url, headers={"content-type": kind}, files={"f": b"1"}, data={"a": "b"})
    assert app.requests[-1].values("content-type") == [kind]
    assert app.requests[-1].body.startswith(b"--abc\r\n")
    curlhttp.post(
        app.url, headers={"Content-Type": "multipart/form-data"}, files={"f": io.BytesIO(b"1")}
    )
    kind = app.requests[-1].values("content-type")[0]
    boundary = kind.removeprefix("multipart/form-data; boundary=").encode()
    assert app.requests[-1].body.startswith(b"--" + boundary + b"\r\n")
    with pytest.raises(InvalidHeader):
        curlhttp.post(
            app.url,
            headers={"Content-Type": "multipart/form-data; boundary="},
            files={"f": b"1"},
        )


def test_the_drop_in_sends_an_empty_file_in_chunks_as_requests_does(app: AppServer) -> None:
    curlhttp.requests.post(app.url, data=io.BytesIO())
    assert app.requests[-1].values("transfer-encoding") == ["chunked"]
