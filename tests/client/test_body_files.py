"""A streamed response is a file: exact sizes, lines, and the libraries that read binary files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import pickle
import shutil
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, cast
from xml.etree import ElementTree

import pytest

import curlhttp
from curlhttp import StreamedResponse
from curlhttp.exceptions import ChunkedEncodingError, StreamConsumedError
from tests.servers import AppServer, RawServer, payload, respond, response
from tests.support.colours import AnyClient, AnyStream

pytestmark = pytest.mark.anyio

BODY = b"".join(b"line %d\n" % number for number in range(20_000)) + b"end"


def in_pieces(body: bytes, size: int, coding: str = "identity") -> bytes:
    """Return a chunked response."""
    if coding == "gzip":
        body = gzip.compress(body)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    field = f"Content-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return b"HTTP/1.1 200 OK\r\n" + field + chunks + b"0\r\n\r\n"


@pytest.fixture(params=["identity", "gzip"])
def server(request: pytest.FixtureRequest) -> Iterator[RawServer]:
    """Return a server that sends BODY in many pieces."""
    with RawServer(respond(in_pieces(BODY, 1000, request.param))) as server:
        yield server


async def call(stream: AnyStream, name: str, *arguments: Any) -> Any:
    """Call a method of a file."""
    result = getattr(stream.real, name)(*arguments)
    return result if stream.is_blocking else await result


@pytest.mark.parametrize("size", [1, 7, 1000, 64 * 1024, 10**6])
async def test_a_size_is_exact_except_at_the_end(
    client: AnyClient, server: RawServer, size: int
) -> None:
    async with await client.stream("GET", server.url) as stream:
        at = 0
        while piece := await call(stream, "read", size):
            assert piece == BODY[at : at + size]
            at += len(piece)
            if size < 1000 and at > 5000:
                break
        else:
            assert at == len(BODY)
            assert await call(stream, "read", size) == b""
            assert await call(stream, "read") == b""


async def test_the_ways_to_read_share_one_position(client: AnyClient, server: RawServer) -> None:
    async with await client.stream("GET", server.url) as stream:
        parts = [await call(stream, "read", 3), await call(stream, "readline")]
        assert parts == [b"lin", b"e 0\n"]
        assert await call(stream, "readline", 4) == b"line"
        assert 0 < len(await call(stream, "read1", 2)) <= 2
        buffer = bytearray(3)
        assert await call(stream, "readinto", memoryview(buffer)) == 3
        rest = b"".join([piece async for piece in stream.iterate("bytes", 100)])
        assert BODY.endswith(bytes(buffer) + rest)
        assert len(rest) == len(BODY) - 16
    async with await client.stream("GET", server.url) as stream:
        assert await call(stream, "read", 10) == BODY[:10]
        assert await call(stream, "read") == BODY[10:]
        with pytest.raises(RuntimeError):
            _ = stream.real.content


async def test_an_iterator_that_is_left_takes_no_more_than_it_yielded(
    client: AnyClient, server: RawServer
) -> None:
    async with await client.stream("GET", server.url) as stream:
        got = await call(stream, "read", 3)
        for size in (5, 1, 700):
            got += await anext(stream.iterate("bytes", size))
        assert 3 < len(got) <= 709
        got += await call(stream, "readline")
        assert got + await call(stream, "read") == BODY


async def test_read_without_a_size_still_keeps_the_content(
    client: AnyClient, server: RawServer
) -> None:
    async with await client.stream("GET", server.url) as stream:
        assert await call(stream, "read") == BODY
        assert stream.real.content == BODY
        assert await call(stream, "read", 10) == BODY[:10]  # a hook may have read it
        assert await call(stream, "read") == BODY[10:]


async def test_lines_are_those_of_a_file(client: AnyClient, server: RawServer) -> None:
    async with await client.stream("GET", server.url) as stream:
        lines = []
        while line := await call(stream, "readline"):
            lines.append(line)
    assert lines == BODY.splitlines(keepends=True)


def test_what_a_file_cannot_do_is_an_unsupported_operation(app: AppServer) -> None:
    with curlhttp.Client() as client, client.stream("GET", app.url) as file:
        assert file.readable()
        assert [file.writable(), file.seekable(), file.isatty()] == [False] * 3
        assert file.name == f"{app.url}/"
        file.flush()
        for refused in (
            file.fileno, file.tell, file.truncate, lambda: file.seek(0), lambda: file.write(b""),
        ):  # fmt: skip
            with pytest.raises(io.UnsupportedOperation):
                refused()
        assert not file.closed
    assert file.closed


async def test_a_closed_file_and_one_that_was_iterated_over_cannot_be_read(
    client: AnyClient, server: RawServer
) -> None:
    async with await client.stream("GET", server.url) as stream:
        await call(stream, "read", 5)
    with pytest.raises(StreamConsumedError, match="closed"):
        await call(stream, "read", 5)
    async with await client.stream("GET", server.url) as stream:
        await anext(stream.iterate("bytes"))
        with pytest.raises(StreamConsumedError):
            await call(stream, "read", 5)


async def test_a_body_that_breaks_off_is_an_error_of_read(client: AnyClient) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello"

    def handler(conn: Any) -> None:
        conn.read_request()
        conn.send(cut)

    with RawServer(handler) as server:
        async with await client.stream("GET", server.url) as stream:
            assert await call(stream, "read", 5) == b"hello"
            with pytest.raises(ChunkedEncodingError):
                await call(stream, "read", 5)


# --- libraries, which read files in the calling thread ---


def _csv(file: StreamedResponse) -> object:
    return list(csv.reader(io.TextIOWrapper(file, "utf-8", newline="")))


def _tar(file: StreamedResponse) -> object:
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        return [(each.name, cast(Any, archive.extractfile(each)).read()) for each in archive]


def _copy(file: StreamedResponse) -> object:
    target = io.BytesIO()
    shutil.copyfileobj(file, target, 10)
    return target.getvalue()


def _digest(file: StreamedResponse) -> object:
    digest = getattr(hashlib, "file_digest", None)  # of Python 3.11
    if digest is None:
        return hashlib.sha256(file.read()).hexdigest()
    return digest(file, "sha256").hexdigest()


def _arrow(file: StreamedResponse) -> object:
    pytest.importorskip("pyarrow").enable_signal_handlers(False)  # they open a pipe for good
    table: Any = pytest.importorskip("pyarrow.csv").read_csv(file)
    return table.to_pydict()


def _pandas(file: StreamedResponse) -> object:
    pandas: Any = pytest.importorskip("pandas", reason="reads with pandas")
    return pandas.read_csv(file).to_dict("list")


def _pandas_lines(file: StreamedResponse) -> object:
    pandas: Any = pytest.importorskip("pandas", reason="reads with pandas")
    with pandas.read_json(file, lines=True, chunksize=1) as chunks:
        return [chunk["a"].item() for chunk in chunks]


def _ijson(file: StreamedResponse) -> object:
    ijson: Any = pytest.importorskip("ijson", reason="reads with ijson")
    return list(ijson.items(file, "rows.item"))


def _make_tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in ("a", "b"):
            member = tarfile.TarInfo(name)
            member.size = 50_000
            archive.addfile(member, io.BytesIO(payload(50_000)))
    return made.getvalue()


READERS: list[tuple[str, Callable[[StreamedResponse], object], bytes, object]] = [
    ("csv", _csv, "a,ü\r\n1,\"x\ny\"\r\n".encode(), [["a", "ü"], ["1", "x\ny"]]),
    ("tarfile", _tar, _make_tar(), [("a", payload(50_000)), ("b", payload(50_000))]),
    ("gzip", lambda file: gzip.GzipFile(fileobj=cast(Any, file)).read(), gzip.compress(BODY), BODY),
    ("json", json.load, b'{"a": [1, 2]}', {"a": [1, 2]}),
    ("pickle", pickle.load, pickle.dumps([BODY, 1]), [BODY, 1]),
    ("shutil", _copy, BODY, BODY),
    ("hashlib", _digest, BODY, hashlib.sha256(BODY).hexdigest()),
    ("xml", lambda file: cast(Any, ElementTree.parse(file)).getroot().tag, b"<a><b/></a>", "a"),
    ("pyarrow", _arrow, b"a,b\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
    ("pandas", _pandas, b"a,b\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
    ("pandas lines", _pandas_lines, b'{"a": 1}\n{"a": 2}\n', [1, 2]),
    ("ijson", _ijson, b'{"rows": [{"a": 1}, "x", 2]}', [{"a": 1}, "x", 2]),
    ("text", lambda file: list(io.TextIOWrapper(file)), BODY,
     BODY.decode().splitlines(keepends=True)),
    ("BufferedReader", lambda file: io.BufferedReader(cast(Any, file)).read(), BODY, BODY),
]  # fmt: skip


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize(
    ("name", "read", "body", "expected"), READERS, ids=[each[0] for each in READERS]
)
def test_libraries_read_a_streamed_response(
    name: str,
    read: Callable[[StreamedResponse], object],
    body: bytes,
    expected: object,
    coding: str,
) -> None:
    with RawServer(respond(in_pieces(body, 100, coding))) as server, curlhttp.Client() as client:
        with client.stream("GET", server.url) as streamed:
            assert isinstance(streamed, io.BufferedIOBase)
            assert read(streamed) == expected


async def test_a_streamed_response_is_the_body_of_another_request(
    client: AnyClient, app: AppServer
) -> None:
    with RawServer(respond(response(BODY))) as source:
        async with await client.stream("GET", source.url) as stream:
            await client.post(app.url + "/echo", content=stream.real)
    assert app.requests[-1].body == BODY
