"""Request bodies: the arguments that make them, their chunks, length and rewinding."""

from __future__ import annotations

import asyncio
import gzip
import io
import json as jsonlib
import os
import re
import sys
import tempfile
import time
import tracemalloc
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._http.body import (
    AsyncIterBody,
    Body,
    BytesBody,
    FactoryBody,
    FileBody,
    IterBody,
    open_body,
)
from curlhttp._http.body_arguments import encode_body
from curlhttp.exceptions import (
    InvalidHeader,
    InvalidJSONError,
    RequestException,
    UnrewindableBodyError,
)
from tests.support.pace import assert_cheap

MIB = 1024 * 1024


def made(**arguments: Any) -> Body:
    body = encode_body(**arguments)
    assert body is not None
    return body


def read_all(body: Body, size: int = 1000) -> bytes:
    pieces = []
    while piece := body.read(size):
        assert 0 < len(piece) <= size
        pieces.append(piece)
    return b"".join(pieces)


def await_all(body: Body) -> bytes:
    async def run() -> bytes:
        pieces = []
        while piece := await body.next():
            pieces.append(piece)
        return b"".join(pieces)

    return asyncio.run(run())


class OneWay(io.RawIOBase):
    """A file that cannot seek, such as a pipe."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._inner.readinto(buffer)


class Sized:
    """A file-like that knows its length and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.len = len(data)
        self._inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)


# --- nothing, content --------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [{}, {"data": None}, {"data": {}}, {"data": []}, {"data": ""}, {"data": b""}, {"files": {}}],
)
def test_no_arguments_make_no_body(arguments: dict[str, Any]) -> None:
    assert encode_body(**arguments) is None


@pytest.mark.parametrize("argument", ["content", "data"])
@pytest.mark.parametrize("value", ["né", "né".encode(), bytearray(b"n\xc3\xa9")])
def test_strings_are_sent_as_they_are_without_a_content_type(argument: str, value: Any) -> None:
    body = made(**{argument: value})
    assert (body.data, body.length, body.content_type) == (b"n\xc3\xa9", 3, None)
    assert body.replayable
    assert not body.is_async


def test_a_memoryview_is_sent_as_its_bytes() -> None:
    assert made(content=memoryview(b"abcdef")[::2]).data == b"ace"


def test_empty_content_is_an_empty_body() -> None:
    body = made(content=b"")
    assert (body.length, body.read(10)) == (0, b"")


def test_bytes_are_read_in_pieces_and_again() -> None:
    body = made(content=b"0123456789")
    assert [body.read(4), body.read(4), body.read(4), body.read(4)] == [
        b"0123",
        b"4567",
        b"89",
        b"",
    ]
    body.rewind()
    assert body.read(100) == b"0123456789"
    body.seek(8)
    assert body.read(100) == b"89"


@pytest.mark.parametrize("value", [5, 1.5, object(), {"a": 1}, Path("x")])
def test_an_invalid_body_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=f"not {type(value).__name__}"):
        made(content=value)


@pytest.mark.parametrize("other", [{"data": "a"}, {"json": 0}, {"files": {"f": b""}}])
def test_content_excludes_other_body_arguments(other: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="content cannot be combined"):
        made(content=b"a", **other)


def test_content_next_to_empty_arguments_is_content() -> None:
    assert made(content=b"a", data={}, files=[], json=None).data == b"a"


def test_a_wrong_length_for_bytes_is_a_value_error() -> None:
    """A body has one length, and it is right."""
    assert made(content=b"abc", length=3).length == 3
    with pytest.raises(ValueError, match="has 3 bytes, but 4 were announced"):
        made(content=b"abc", length=4)
    with pytest.raises(ValueError, match="cannot have -1"):
        made(content=iter([]), length=-1)


# --- json, forms -------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[], {}, 0, False, "", "né", {"a": [1, None, 1.5]}])
def test_every_json_value_is_sent_even_a_falsy_one(value: Any) -> None:
    body = made(json=value)
    assert body.data == jsonlib.dumps(value).encode()
    assert body.content_type == "application/json"


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}])
def test_values_that_json_cannot_represent_are_refused(value: Any) -> None:
    with pytest.raises(InvalidJSONError):
        made(json=value)
    with pytest.raises(TypeError):
        made(json={"a": object()})


def test_a_json_value_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidJSONError):
        made(json=loop)


def test_json_goes_together_with_no_other_body() -> None:
    for other in ({"data": {"a": 1}}, {"data": "a"}, {"files": {"f": b""}}):
        with pytest.raises(TypeError, match=f"json cannot be combined with {next(iter(other))}"):
            made(json={"b": 1}, **other)
    assert made(data={}, json={"b": 1}).data == b'{"b": 1}'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": "1", "b": "x y&z"}, b"a=1&b=x+y%26z"),
        ({"a": [1, 2], "b": None, "c": ("x",)}, b"a=1&a=2&c=x"),
        ({"a": [1, None]}, b"a=1"),
        ({"a": "é", "é": b"\xff"}, b"a=%C3%A9&%C3%A9=%FF"),
        ({"a": True, "b": 1.5}, b"a=True&b=1.5"),
        ([("a", "1"), ("b", "2"), ("a", "3")], b"a=1&b=2&a=3"),
        ((("a", "b"),), b"a=b"),
        ({"a": None}, b""),
        ({"a": []}, b""),
        ({"a": ""}, b"a="),
        ({"a": bytearray(b"x y")}, b"a=x+y"),
    ],
)
def test_a_mapping_or_pairs_are_sent_as_a_form(data: Any, expected: bytes) -> None:
    body = made(data=data)
    assert body.data == expected
    assert body.content_type == "application/x-www-form-urlencoded"


def test_data_that_is_no_form_is_streamed() -> None:
    for stream in (io.BytesIO(b"abc"), iter([b"ab", b"c"]), lambda: b"abc"):
        body = made(data=stream)
        assert (body.content_type, body.data) == (None, None)
        assert read_all(body) == b"abc"


def test_a_file_without_bytes_left_has_the_length_0_as_data_and_as_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with path.open("rb") as read, open(os.devnull, "rb") as null:
        read.read()
        for empty in (io.BytesIO(), read, null):
            assert made(data=empty).length == made(content=empty).length == 0
    assert made(data=iter(())).length is None


# --- the boundary of a form, chosen by the caller ---

PARTS: Any = {"field": b"content"}


def make_form(content_type: str, files: Any = PARTS, **fields: Any) -> Any:
    return made(files=files, content_type=content_type, **fields)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ("Multipart/Mixed; charset=utf-8; BOUNDARY=abc", "abc"),
        ("multipart/form-data;boundary = abc ; charset=utf-8", "abc"),
        ('multipart/form-data; boundary="a b:c"; x=y', "a b:c"),
        ('multipart/related; type="a; boundary=x"; boundary=z', "z"),
        ("multipart/form-data; boundary=a==", "a=="),
        ("multipart/form-data; boundary=" + 70 * "x", 70 * "x"),
    ],
)
def test_a_form_has_the_boundary_that_the_caller_chose(content_type: str, boundary: str) -> None:
    body = make_form(content_type)
    assert body.content_type == content_type
    sent = read_all(body)
    assert sent.startswith(f"--{boundary}\r\n".encode())
    assert sent.endswith(f"\r\n--{boundary}--\r\n".encode())


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/mixed; charset=utf-8;"])
def test_a_boundary_is_added_to_a_type_without_one(content_type: str) -> None:
    body = make_form(content_type)
    kind, _, boundary = str(body.content_type).partition("; boundary=")
    assert kind == content_type.rstrip(";")
    assert read_all(body).startswith(f"--{boundary}\r\n".encode())


@pytest.mark.parametrize(
    "boundary",
    ["", '""', "a b", '"a "', 71 * "x", "\xe9", "a; boundary=b", '"a\\"', "a@b", '"abc'],
)
def test_an_invalid_boundary_is_refused(boundary: str) -> None:
    with pytest.raises(InvalidHeader, match="Invalid boundary in Content-Type"):
        make_form(f"multipart/form-data; boundary={boundary}")


@pytest.mark.parametrize("content", [b"--abc", b"x\r\n--abc--\r\n", b"x\n--abcd"])
def test_a_part_in_memory_with_the_callers_boundary_is_refused(content: bytes) -> None:
    for fields in ({"files": {"a": content}}, {"data": {"a": content}}):
        with pytest.raises(ValueError, match="contains the boundary"):
            make_form("multipart/form-data; boundary=abc", **fields)


@pytest.mark.parametrize("pieces", [[b"--abc"], [b"x\r", b"\n-", b"-", b"abc"], [b"x\n--abcd"]])
def test_a_streamed_part_with_the_callers_boundary_is_not_sent(pieces: list[bytes]) -> None:
    body = make_form("multipart/form-data; boundary=abc", {"a": ("name", pieces)})
    for _ in range(2):
        with pytest.raises(RequestException, match="contains the boundary"):
            read_all(body)
        body.rewind()


def test_a_streamed_part_may_almost_contain_the_callers_boundary() -> None:
    content = b"a--abc\r\n--ab\r\n-abc" * 5000
    body = make_form("multipart/form-data; boundary=abc", {"a": io.BytesIO(content)})
    assert content in read_all(body)


# --- files -------------------------------------------------------------------------------


def test_a_file_starts_at_its_position_and_rewinds_to_it() -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(4)
    body = FileBody(file)
    assert (body.length, body.replayable) == (6, True)
    assert body.read(3) == b"456"
    body.rewind()
    assert read_all(body, 4) == b"456789"
    body.seek(5)
    assert read_all(body) == b"9"


def test_a_file_on_disk_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 200_000)
    for buffering in (0, -1):
        with open(path, "rb", buffering=buffering) as file:
            file.read(7)
            body = FileBody(file)
            assert body.length == 199_993
            assert len(read_all(body, 65536)) == 199_993
    with tempfile.NamedTemporaryFile() as file, tempfile.SpooledTemporaryFile() as spooled:
        for each in (file, spooled):
            each.write(b"abc")
            each.seek(0)
            assert FileBody(each).length == 3


def test_a_file_that_cannot_seek_is_sent_once() -> None:
    body = FileBody(OneWay(b"abc"))
    assert (body.length, body.replayable) == (None, False)
    body.rewind()
    assert body.read(2) == b"ab"
    with pytest.raises(UnrewindableBodyError, match="cannot seek"):
        body.rewind()


def test_a_file_like_without_tell_is_sent_once() -> None:
    class Lost(io.BytesIO):
        def tell(self) -> int:
            raise OSError("lost")

    assert (FileBody(Lost(b"abc")).length, FileBody(Lost(b"abc")).replayable) == (None, False)


def test_a_pipe_has_no_length() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    with open(reader, "rb") as file:
        body = made(content=file)
        assert (body.length, body.replayable) == (None, False)
        assert read_all(body) == b"abc"


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc")
def test_a_file_of_no_size_with_content_has_no_length() -> None:
    with open("/proc/self/status", "rb") as file:
        body = FileBody(file)
        assert body.length is None
        assert b"Pid:" in read_all(body)


def test_a_file_like_may_have_its_own_length() -> None:
    body = FileBody(Sized(b"abc"))
    assert (body.length, body.replayable) == (3, False)
    assert read_all(body, 2) == b"abc"


def test_a_decompressing_file_is_not_measured_by_its_descriptor(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "f.gz", "wb") as out:
        out.write(b"x" * 10_000)
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.writestr("f", b"x" * 10_000)
    with gzip.open(tmp_path / "f.gz") as unzipped:
        body = FileBody(unzipped)
        assert body.length is None
        assert len(read_all(body)) == 10_000
    with zipfile.ZipFile(tmp_path / "f.zip") as archive, archive.open("f") as member:
        assert len(read_all(FileBody(member))) == 10_000


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'rb'"):
        FileBody(io.StringIO("text"))
    with open(tmp_path / "f", "w+") as file, pytest.raises(TypeError, match="'rb'"):
        made(data=file)
    with tempfile.NamedTemporaryFile("w+") as wrapped:
        wrapped.write("text")
        wrapped.seek(0)
        body = FileBody(wrapped)
        with pytest.raises(TypeError, match="returned str, not bytes"):
            body.read(10)


def test_an_exception_of_a_file_is_raised() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise LookupError("disk on fire")

    with pytest.raises(LookupError, match="disk on fire"):
        FileBody(Broken(b"abc")).read(10)


def test_a_file_that_ignores_the_size_is_cut() -> None:
    class Whole:
        def __init__(self) -> None:
            self.left = b"0123456789"

        def read(self, size: int = -1) -> bytes:
            data, self.left = self.left, b""
            return data

    assert read_all(FileBody(Whole()), 3) == b"0123456789"


def test_a_file_closed_meanwhile_cannot_be_rewound() -> None:
    file = io.BytesIO(b"abc")
    body = FileBody(file)
    body.read(1)
    file.close()
    with pytest.raises(UnrewindableBodyError, match="closed file"):
        body.rewind()


# --- lengths -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: io.BytesIO(b"0123456789"), lambda: iter([b"01234", b"56789"])]
)
def test_a_body_shorter_than_its_length_is_reported(make: Callable[[], Any]) -> None:
    """A body of another length is an error."""
    for content in (make(), make):
        body = made(content=content, length=12)
        assert body.length == 12
        assert body.read(5) + body.read(5) == b"0123456789"
        with pytest.raises(RequestException, match="only 10 bytes, but 12 were announced"):
            read_all(body)


@pytest.mark.parametrize(
    "make", [lambda: io.BytesIO(b"0123456789"), lambda: iter([b"01234", b"56789"])]
)
def test_a_body_longer_than_its_length_is_an_error(
    make: Callable[[], Any],
) -> None:
    """A body of another length is an error."""
    for content in (make(), make):
        body = made(content=content, length=8)
        assert body.read(5) == b"01234"
        with pytest.raises(RequestException, match="at least 10 bytes, but 8 were announced"):
            body.read(5)


def test_a_file_that_grows_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10)
    with open(path, "rb") as file:
        body = FileBody(file)
        with open(path, "ab") as log:
            log.write(b"y")
        with pytest.raises(RequestException, match="at least 11 bytes, but 10 were announced"):
            read_all(body)


# --- iterables, factories ----------------------------------------------------------------


def test_an_iterable_is_cut_to_size_and_its_empty_pieces_are_skipped() -> None:
    pieces = [b"", b"abc", bytearray(b"defg"), b"", memoryview(b"hi"), b""]
    body = made(content=iter(pieces))
    assert (body.length, body.data, body.replayable) == (None, None, False)
    read = [body.read(2) for _ in range(7)]
    assert read == [b"ab", b"c", b"de", b"fg", b"hi", b"", b""]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 25))
def test_no_read_size_changes_the_bytes_of_an_iterable(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces)
    assert read_all(made(content=iter(pieces), length=len(whole)), size) == whole


def test_one_huge_piece_is_not_copied_for_every_read() -> None:
    body = made(content=iter([bytes(64 * MIB)]))
    start = time.process_time()
    assert len(read_all(body, 16384)) == 64 * MIB
    assert_cheap(time.process_time() - start, 2)


@pytest.mark.parametrize("piece", ["text", 7, None])
def test_a_piece_that_is_not_bytes_is_a_type_error(piece: Any) -> None:
    with pytest.raises(TypeError, match=f"returned {type(piece).__name__}, not bytes"):
        made(content=iter([piece])).read(10)


def test_a_generator_is_sent_once() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"

    body = IterBody(pieces())
    body.rewind()
    assert read_all(body) == b"abc"
    with pytest.raises(UnrewindableBodyError, match="callable"):
        body.rewind()


def test_a_generator_that_failed_at_once_is_not_sent_empty() -> None:
    def pieces() -> Iterator[bytes]:
        yield Path("no pieces").read_bytes()

    body = IterBody(pieces())
    with pytest.raises(FileNotFoundError, match="no pieces"):
        body.read(10)
    with pytest.raises(UnrewindableBodyError):
        body.rewind()


def test_a_list_of_bytes_as_content_is_sent_again() -> None:
    body = made(content=[b"abc", b"def"])
    assert body.replayable
    assert body.read(2) == b"ab"
    body.rewind()
    assert read_all(body) == b"abcdef"


def test_a_factory_is_called_for_every_pass() -> None:
    calls = []

    def pieces() -> Iterator[bytes]:
        calls.append(1)
        return iter([b"abc", b"def"])

    body = made(content=pieces)
    assert isinstance(body, FactoryBody)
    assert (body.replayable, body.is_async, body.length) == (True, False, None)
    body.rewind()
    assert len(calls) == 1
    assert body.read(2) == b"ab"
    body.rewind()
    assert read_all(body) == b"abcdef"
    assert len(calls) == 2


def test_a_factory_has_the_length_of_its_body() -> None:
    assert made(content=lambda: b"abc").length == 3
    assert made(content=lambda: io.BytesIO(b"abcd")).length == 4
    assert read_all(made(content=io.BytesIO)) == b""


def test_a_factorys_file_is_closed_at_its_end_and_on_rewind(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    opened = []

    def make() -> Any:
        opened.append(path.open("rb"))
        return opened[-1]

    body = made(content=make)
    assert body.read(1) == b"a"
    body.rewind()
    assert [file.closed for file in opened] == [True, False]
    assert read_all(body) == b"abc"
    assert body.read(1) == b""
    assert [file.closed for file in opened] == [True, True]
    body.rewind()
    body.close()
    assert [file.closed for file in opened] == [True, True, True]


def test_a_factory_of_factories_is_refused() -> None:
    with pytest.raises(TypeError, match="not function"):
        made(content=lambda: lambda: b"")


def test_a_factory_that_changes_its_mind_is_reported() -> None:
    responses = [b"abc", b"abcd"]
    body = made(content=lambda: responses.pop(0))
    assert read_all(body) == b"abc"
    body.rewind()
    with pytest.raises(RequestException, match="at least 4 bytes, but 3 were announced"):
        read_all(body)


async def letters() -> AsyncIterator[bytes]:
    for piece in (b"", b"abc", b"", b"def"):
        yield piece


def test_an_async_iterable_is_read_with_next() -> None:
    body = made(content=letters())
    assert isinstance(body, AsyncIterBody)
    assert (body.is_async, body.length, body.replayable) == (True, None, False)
    with pytest.raises(TypeError, match="AsyncClient"):
        body.read(10)
    body.rewind()
    assert await_all(body) == b"abcdef"
    with pytest.raises(UnrewindableBodyError):
        body.rewind()


@pytest.mark.parametrize("content", [letters, lambda: letters()])
def test_an_async_factory_is_sent_again(content: Any) -> None:
    body = made(content=content)
    assert (body.is_async, body.replayable) == (True, True)
    assert await_all(body) == b"abcdef"
    body.rewind()
    assert await_all(body) == b"abcdef"


@pytest.mark.parametrize("content", [letters, lambda: letters().__aiter__()])
def test_an_async_body_is_held_to_its_length(content: Any) -> None:
    assert await_all(made(content=content, length=6)) == b"abcdef"
    with pytest.raises(RequestException, match="only 6 bytes, but 7 were announced"):
        await_all(made(content=content, length=7))
    with pytest.raises(RequestException, match="at least 6 bytes, but 5 were announced"):
        await_all(made(content=content(), length=5))


def test_text_from_an_async_iterable_is_a_type_error() -> None:
    async def words() -> AsyncIterator[str]:
        yield "text"

    with pytest.raises(TypeError, match="returned str, not bytes"):
        await_all(made(content=words()))


# --- multipart ---------------------------------------------------------------------------


def parts_of(body: Body, size: int = 1000) -> list[Message]:
    """Read a form as a server does."""
    wire = read_all(body, size)
    assert body.length in (None, len(wire))
    assert body.data in (None, wire)
    head = f"Content-Type: {body.content_type}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + wire)
    assert not message.defects
    return list(message.iter_parts())


def summary(body: Body) -> list[tuple[Any, Any, Any]]:
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_payload(decode=True),
        )
        for part in parts_of(body)
    ]


def test_fields_come_first_and_then_files() -> None:
    body = made(
        data={"a": [1, 2], "none": None, "t": "é", "raw": b"\xff"},
        files={"f": b"x", "g": ("g.txt", "text", "text/plain", {"X-A": "b"})},
    )
    assert summary(body) == [
        ("a", None, b"1"),
        ("a", None, b"2"),
        ("t", None, "é".encode()),
        ("raw", None, b"\xff"),
        ("f", "f", b"x"),
        ("g", "g.txt", b"text"),
    ]
    body.rewind()
    *_, plain, typed = parts_of(body)
    assert "Content-Type" not in plain
    assert (typed["Content-Type"], typed["X-A"]) == ("text/plain", "b")


def test_a_field_beside_files_may_be_a_bytearray() -> None:
    body = made(data={"a": bytearray(b"x y")}, files={"f": b"z"})
    assert b'name="a"\r\n\r\nx y\r\n' in read_all(body)


def test_the_wire_format_is_exact() -> None:
    body = made(data=[("a", "1")], files=[("f", ("n", b"x", "t/x"))])
    match = re.fullmatch(r"multipart/form-data; boundary=([0-9a-f]{32})", str(body.content_type))
    assert match is not None
    assert (
        body.data
        == (
            f'--{match[1]}\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
            f'--{match[1]}\r\nContent-Disposition: form-data; name="f"; filename="n"\r\n'
            f"Content-Type: t/x\r\n\r\nx\r\n--{match[1]}--\r\n"
        ).encode()
    )


def test_every_form_has_its_own_boundary() -> None:
    assert made(files={"f": b""}).content_type != made(files={"f": b""}).content_type


def test_a_file_part_is_streamed_from_the_files_position(tmp_path: Path) -> None:
    path = tmp_path / "photo é.jpg"
    path.write_bytes(b"skipped" + b"x" * 100_000)
    with open(path, "rb") as file:
        file.seek(7)
        body = made(data={"a": "b"}, files={"f": file})
        assert (body.data, body.replayable) == (None, True)
        expected = [("a", None, b"b"), ("f", "photo é.jpg", b"x" * 100_000)]
        assert summary(body) == expected
        body.rewind()
        assert body.read(300)
        body.rewind()
        assert summary(body) == expected


def test_one_file_may_be_two_parts() -> None:
    file = io.BytesIO(b"-abc")
    file.seek(1)
    body = made(files=[("f", file), ("g", ("again", file))])
    assert summary(body) == [("f", "f", b"abc"), ("g", "again", b"abc")]


def test_an_empty_file_part_keeps_the_length_known() -> None:
    body = made(files={"f": io.BytesIO()})
    assert body.length is not None
    assert summary(body) == [("f", "f", b"")]


def test_a_part_of_unknown_length_makes_the_form_chunked_and_sent_once() -> None:
    body = made(files={"a": b"x", "f": OneWay(b"abc")})
    assert (body.length, body.replayable) == (None, False)
    assert summary(body) == [("a", "a", b"x"), ("f", "f", b"abc")]
    with pytest.raises(UnrewindableBodyError):
        body.rewind()


def test_a_factory_part_is_sent_again() -> None:
    body = made(files={"f": ("n", lambda: iter([b"abc", b"def"]))})
    for _ in range(2):
        assert summary(body) == [("f", "n", b"abcdef")]
        body.rewind()


def test_a_part_that_shrank_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 1000)
    with open(path, "rb", buffering=0) as file:
        body = made(files={"f": file})
        os.truncate(path, 10)
        with pytest.raises(RequestException, match="only 10 bytes, but 1000 were announced"):
            read_all(body)


@pytest.mark.parametrize(
    ("spec", "filename"),
    [
        (("n", b"x"), "n"),
        ((None, b"x"), None),
        (("", b"x"), ""),
        (["n", b"x", None], "n"),
        ((b"n", b"x", None, None), "n"),
        ("x", "f"),
    ],
)
def test_a_file_may_be_given_with_its_name(spec: Any, filename: str | None) -> None:
    assert summary(made(files={"f": spec})) == [("f", filename, b"x")]


@pytest.mark.parametrize(
    ("name", "filename"),
    [("/a/b.txt", "b.txt"), (b"/a/b.txt", "b.txt"), ("<stdin>", "f"), (7, "f"), ("", "f")],
)
def test_the_file_name_is_that_of_the_file_on_disk(name: Any, filename: str) -> None:
    class Named(io.BytesIO):
        pass

    file: Any = Named(b"x")
    file.name = name
    assert summary(made(files={"f": file})) == [("f", filename, b"x")]


def test_a_form_closes_only_the_files_of_its_factories() -> None:
    mine, theirs = io.BytesIO(b"mine"), io.BytesIO(b"theirs")
    body = made(files={"mine": mine, "theirs": lambda: theirs})
    body.close()
    assert (mine.closed, theirs.closed) == (False, True)


@pytest.mark.parametrize("spec", [(5, b""), ("n", b"", 5), ("n", b"", None, {"X-A": 5})])
def test_a_name_or_header_of_a_part_is_text(spec: Any) -> None:
    with pytest.raises(TypeError, match="not int"):
        made(files={"f": spec})


def test_files_of_none_are_left_out() -> None:
    assert summary(made(files={"a": None, "b": ("n", None), "c": b"x"})) == [("c", "c", b"x")]


@pytest.mark.parametrize("spec", [(), ("n",), ("n", b"", None, {}, 5)])
def test_a_file_of_too_few_or_many_values_is_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match=f"not {len(spec)}"):
        made(files={"f": spec})


@pytest.mark.parametrize("spec", [5, {"a": 1}, ("n", object())])
def test_a_file_that_cannot_be_sent_is_refused(spec: Any) -> None:
    with pytest.raises(TypeError):
        made(files={"f": spec})


def test_an_async_iterable_is_no_part() -> None:
    with pytest.raises(TypeError, match="async"):
        made(files={"f": ("n", letters)})


@pytest.mark.parametrize("data", ["a", b"a", ""])
def test_a_string_cannot_go_with_files(data: Any) -> None:
    with pytest.raises(ValueError, match="must not be a string"):
        made(data=data, files={"f": b""})


def test_a_stream_cannot_go_with_files() -> None:
    with pytest.raises(NotImplementedError, match="exclusive"):
        made(data=iter([b"a"]), files={"f": b""})


def test_names_cannot_break_out_of_their_quotes() -> None:
    """A name stays within its quotes."""
    evil = 'a"; x="\r\nX-Evil: 1\r\n\r\n'
    body = made(data={evil: "v"}, files={evil: (evil, b"x")})
    wire = read_all(body)
    escaped = b"a%22; x=%22%0D%0AX-Evil: 1%0D%0A%0D%0A"
    assert wire.count(b'name="' + escaped + b'"') == 3
    assert b"\r\nX-Evil" not in wire


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": {"a\0": "v"}, "files": {"f": b""}},
        {"files": {"f\0": b""}},
        {"files": {"f": ("n\0", b"")}},
    ],
)
def test_a_name_with_nul_is_refused(arguments: dict[str, Any]) -> None:
    """A name stays within its quotes."""
    with pytest.raises(ValueError, match="NUL"):
        made(**arguments)


@pytest.mark.parametrize("bad", ["a\rb", "a\nb", "a\r\nX-Evil: 1", "a\0b"])
def test_a_part_header_that_would_break_the_message_is_refused(bad: str) -> None:
    """No header of a part adds a line."""
    with pytest.raises(InvalidHeader):
        made(files={"f": ("n", b"", bad)})
    with pytest.raises(InvalidHeader):
        made(files={"f": ("n", b"", bad.encode())})
    with pytest.raises(InvalidHeader):
        made(files={"f": ("n", b"", None, {"X-A": bad})})
    with pytest.raises(InvalidHeader):
        made(files={"f": ("n", b"", None, {bad: "v"})})


@pytest.mark.parametrize("name", ["", "a b", "a:", "é"])
def test_a_part_header_name_is_a_token(name: str) -> None:
    with pytest.raises(InvalidHeader):
        made(files={"f": ("n", b"", None, {name: "v"})})


def test_the_content_type_overrides_that_of_the_headers_and_the_disposition_is_kept() -> None:
    headers = {"content-type": "a/b", "content-disposition": "evil", "X-None": None}
    (part,) = parts_of(made(files={"f": ("n", b"x", "c/d", headers)}))
    assert part.items() == [
        ("Content-Disposition", 'form-data; name="f"; filename="n"'),
        ("Content-Type", "c/d"),
    ]
    (part,) = parts_of(made(files={"f": ("n", b"x", None, headers)}))
    assert part["Content-Type"] == "a/b"


@pytest.mark.skipif(sys.platform == "win32", reason="file names are text on Windows")
def test_a_file_name_that_is_not_utf_8_keeps_its_bytes() -> None:
    wire = made(files={"f": (os.fsdecode(b"\xff.txt"), b"x")}).data
    assert wire is not None
    assert b'filename="\xff.txt"' in wire


def test_a_large_value_in_memory_is_not_copied() -> None:
    value = bytes(10 * MIB)
    tracemalloc.start()
    try:
        body = made(files={"f": value})
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert summary(body) == [("f", "f", value)]


def test_a_large_file_is_never_all_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with open(path, "wb") as out:
        out.truncate(50 * MIB)
    with open(path, "rb") as file:
        tracemalloc.start()
        try:
            body = made(data={"a": "b"}, files={"f": file})
            total = 0
            while piece := body.read(65536):
                total += len(piece)
            assert tracemalloc.get_traced_memory()[1] < MIB
        finally:
            tracemalloc.stop()
    assert total == body.length
    assert total > 50 * MIB


@given(
    st.lists(st.tuples(st.text('ab"\r\né;', max_size=5), st.binary(max_size=30)), max_size=5),
    st.lists(st.binary(max_size=200), min_size=1, max_size=4),
    st.integers(1, 400),
)
def test_any_form_has_the_length_it_says_at_any_size(
    fields: list[tuple[str, bytes]], files: list[bytes], size: int
) -> None:
    specs = [(f"f{i}", (f"n{i}", io.BytesIO(data))) for i, data in enumerate(files)]
    body = made(data=fields, files=specs)
    wire = read_all(body, size)
    assert len(wire) == body.length
    body.rewind()
    assert read_all(body) == wire
    assert wire.count(b"Content-Disposition: form-data;") == len(fields) + len(files)


def test_a_body_shows_none_of_its_content() -> None:
    for body in (BytesBody(b"secret"), made(content=["secret"]), made(files={"f": b"secret"})):
        assert "secret" not in repr(body)


def test_open_body_passes_its_length_on() -> None:
    assert open_body(OneWay(b"abc"), 3).length == 3


@pytest.mark.anyio
async def test_who_closes_what_was_read_leaves_what_is_read_after_a_rewind() -> None:
    ended: list[int] = []

    async def pieces() -> AsyncIterator[bytes]:
        number = len(ended)
        try:
            yield b"one"
            yield b"two"
        finally:
            ended.append(number)

    body = open_body(lambda: pieces())
    before = body.current()
    assert await body.next() == b"one"
    body.rewind()
    assert await body.next() == b"one"
    await before.aclose()
    assert await body.next() == b"two"
    await body.aclose()
    assert ended == [0, 0]
