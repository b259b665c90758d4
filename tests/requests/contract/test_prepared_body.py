"""The body of a prepared request: forms, JSON, text, files and iterators."""

from __future__ import annotations

import collections
import io
import json
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import AppServer

FORM = "application/x-www-form-urlencoded"
LENGTHLESS = {"Transfer-Encoding": "chunked"}


def prepared(requests: Any, data: Any = None, method: str = "POST", **kwargs: Any) -> Any:
    return requests.Request(method, "http://x/", data=data, **kwargs).prepare()


class Pieces:
    """An iterable that is neither an iterator nor a file."""

    def __iter__(self) -> Iterator[bytes]:
        return iter([b"ab", b"c"])


class SizedPieces(Pieces):
    """It says its size by len()."""

    def __len__(self) -> int:
        return 3


class Encoder(Pieces):
    """A file such as requests_toolbelt's MultipartEncoder, which says its size by .len."""

    len = 3

    def __init__(self) -> None:
        self._file = io.BytesIO(b"abc")

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


# -- no body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CUSTOM"])
@pytest.mark.parametrize("data", [None, "", b"", {}, [], (), 0])
def test_empty_body_has_length_0(requests: Any, method: str, data: Any) -> None:
    request = prepared(requests, data, method)
    assert request.body is None
    assert dict(request.headers) == {"Content-Length": "0"}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_get_and_head_have_no_length(requests: Any, method: str) -> None:
    assert dict(prepared(requests, None, method).headers) == {}


def test_length_of_the_caller_is_kept_where_there_is_no_body(requests: Any) -> None:
    request = prepared(requests, headers={"content-length": "99"})
    assert dict(request.headers) == {"content-length": "99"}
    assert prepared(requests, "abc", headers={"content-length": "9"}).headers == {
        "Content-Length": "3"
    }


# -- text


@pytest.mark.parametrize(
    ("data", "length"), [("abc", "3"), ("aü日", "6"), (b"abc", "3"), (b"\xff\0", "2")]
)
def test_text_is_the_body_and_has_no_content_type(requests: Any, data: Any, length: str) -> None:
    request = prepared(requests, data)
    assert request.body is data
    assert dict(request.headers) == {"Content-Length": length}


def test_any_method_can_have_a_body(requests: Any) -> None:
    for method in ("GET", "HEAD"):
        assert prepared(requests, "abc", method).headers == {"Content-Length": "3"}


# -- forms


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": 1, "b": [1, None, "x"], "c": None}, "a=1&b=1&b=x"),
        ({"d e": "f g", "ü": "&=", "n": b"\xff"}, "d+e=f+g&%C3%BC=%26%3D&n=%FF"),
        ([("a", 1), ("a", 2)], "a=1&a=2"),
        ((("a", True),), "a=True"),
        (["ab"], "a=b"),
        (collections.UserDict(a="b"), "a=b"),
        (types.MappingProxyType({"a": 1.5}), "a=1.5"),
    ],
)
def test_mapping_or_pairs_are_a_form(requests: Any, data: Any, expected: str) -> None:
    request = prepared(requests, data)
    assert request.body == expected
    assert list(request.headers.items()) == [
        ("Content-Length", str(len(expected))),
        ("Content-Type", FORM),
    ]


def test_form_of_nothing_but_none_is_empty(requests: Any) -> None:
    request = prepared(requests, {"a": None})
    assert request.body == ""
    assert dict(request.headers) == {"Content-Type": FORM}


def test_form_keeps_the_content_type_of_the_caller(requests: Any) -> None:
    request = prepared(requests, {"a": 1}, headers={"content-type": "x/y"})
    assert list(request.headers.items()) == [("content-type", "x/y"), ("Content-Length", "3")]


def test_list_of_no_pairs_is_refused(requests: Any) -> None:
    with pytest.raises(ValueError):
        prepared(requests, ["abc"])
    with pytest.raises(TypeError):
        prepared(requests, [1])


# -- JSON


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [1, None]}, b'{"b": 1, "a": [1, null]}'),
        ({"a": "ü"}, b'{"a": "\\u00fc"}'),
        ([], b"[]"),
        ({}, b"{}"),
        (0, b"0"),
        (False, b"false"),
        ("", b'""'),
        ((1,), b"[1]"),
    ],
)
def test_json_is_sent_whatever_its_truth(requests: Any, value: Any, expected: bytes) -> None:
    request = prepared(requests, json=value)
    assert request.body == expected
    assert list(request.headers.items()) == [
        ("Content-Length", str(len(expected))),
        ("Content-Type", "application/json"),
    ]


def test_none_is_no_json(requests: Any) -> None:
    assert prepared(requests, json=None).body is None


def test_json_keeps_the_content_type_of_the_caller(requests: Any) -> None:
    assert prepared(requests, json=1, headers={"content-type": "x/y"}).headers == {
        "content-type": "x/y",
        "Content-Length": "1",
    }


@pytest.mark.parametrize("data", ["", {}, [], None])
def test_json_is_sent_when_data_is_empty(requests: Any, data: Any) -> None:
    assert prepared(requests, data, json={"j": 1}).body == b'{"j": 1}'


@pytest.mark.parametrize("data", ["x", {"a": None}, {"a": 1}, io.BytesIO(), iter([])])
def test_json_is_ignored_when_there_is_data(requests: Any, data: Any) -> None:
    request = prepared(requests, data, json={"j": 1})
    assert request.body != b'{"j": 1}'
    assert request.headers.get("Content-Type") in (None, FORM)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_json_has_no_nan(requests: Any, value: Any) -> None:
    request = requests.PreparedRequest()
    with pytest.raises(requests.exceptions.InvalidJSONError) as caught:
        request.prepare("POST", "http://x/", json=value)
    assert str(caught.value).startswith("Out of range float values are not JSON compliant")
    assert caught.value.request is request


def test_json_of_no_use_is_refused(requests: Any) -> None:
    with pytest.raises(TypeError):
        prepared(requests, json=object())
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(requests.exceptions.InvalidJSONError):
        prepared(requests, json=cycle)


# -- streams


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (iter([b"a"]), LENGTHLESS),
        ((piece for piece in [b"a"]), LENGTHLESS),
        (Pieces(), LENGTHLESS),
        (SizedPieces(), {"Content-Length": "3"}),
        (Encoder(), {"Content-Length": "3"}),
        (io.BytesIO(b"abc"), {"Content-Length": "3"}),
        (io.BytesIO(), LENGTHLESS),
        (bytearray(b"abc"), {"Content-Length": "3"}),
        (memoryview(b"abc"), {"Content-Length": "3"}),
    ],
    ids=lambda it: type(it).__name__,
)
def test_stream_is_the_body_and_is_not_read(requests: Any, data: Any, headers: Any) -> None:
    request = prepared(requests, data)
    assert request.body is data
    assert dict(request.headers) == headers


def test_file_is_sent_from_where_it_stands(requests: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    with path.open("rb") as file:
        assert prepared(requests, file)._body_position == 0
        file.seek(2)
        request = prepared(requests, file)
        assert request.headers == {"Content-Length": "3"}
        assert request._body_position == 2
        assert file.tell() == 2


def test_file_in_text_mode_gets_a_warning(requests: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("hello")
    with path.open() as file, pytest.warns(requests.FileModeWarning):
        assert prepared(requests, file).headers == {"Content-Length": "5"}
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("error")
        prepared(requests, file)


def test_position_that_cannot_be_told_is_remembered_as_such(requests: Any) -> None:
    class Pipe(Pieces):
        def tell(self) -> int:
            raise OSError("no")

    request = prepared(requests, Pipe())
    assert request._body_position is not None
    assert not isinstance(request._body_position, int)
    assert prepared(requests, Pieces())._body_position is None


def test_stream_keeps_the_content_type_of_the_caller(requests: Any) -> None:
    request = prepared(requests, iter([b"a"]), headers={"Content-Type": "x/y"})
    assert dict(request.headers) == {"Content-Type": "x/y", **LENGTHLESS}


def test_length_of_the_caller_stays_next_to_chunked(requests: Any) -> None:
    request = prepared(requests, iter([b"a"]), headers={"Content-Length": "1"})
    assert dict(request.headers) == {"Content-Length": "1", **LENGTHLESS}


# -- the parts by themselves


def test_params_and_forms_are_encoded_by_one_function(requests: Any) -> None:
    encode = requests.PreparedRequest._encode_params
    file = io.BytesIO()
    assert encode({"a": [1, None], "b": "c d"}) == "a=1&b=c+d"
    assert encode("s") == "s"
    assert encode(b"s") == b"s"
    assert encode(file) is file
    assert encode(5) == 5


@pytest.mark.parametrize(
    ("body", "expected"),
    [(None, "0"), ("", None), ("aü", "3"), (b"abc", "3"), (io.BytesIO(b"abcd"), "4")],
)
def test_content_length_is_that_of_the_body(requests: Any, body: Any, expected: Any) -> None:
    request = requests.PreparedRequest()
    request.prepare_method("POST")
    request.prepare_headers({})
    request.prepare_content_length(body)
    assert request.headers.get("Content-Length") == expected


# -- on the wire


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("aü", "aü".encode()),
        (b"\xff", b"\xff"),
        ({"a": [1, 2]}, b"a=1&a=2"),
        (SizedPieces(), b"abc"),
        (Encoder(), b"abc"),
        (io.BytesIO(b"abc"), b"abc"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_body_with_a_length_goes_out_with_it(
    session: Any, app: AppServer, data: Any, expected: bytes
) -> None:
    session.post(app.url + "/echo", data=data)
    seen = app.requests[-1]
    assert seen.body == expected
    assert seen.header("content-length") == str(len(expected))
    assert not seen.chunked


@pytest.mark.parametrize("kind", ["iterator", "iterable", "empty file", "empty iterator"])
def test_body_without_a_length_goes_out_in_chunks(session: Any, app: AppServer, kind: str) -> None:
    data, expected = {
        "iterator": (iter([b"ab", b"c"]), b"abc"),
        "iterable": (Pieces(), b"abc"),
        "empty file": (io.BytesIO(), b""),
        "empty iterator": (iter([]), b""),
    }[kind]
    session.post(app.url + "/echo", data=data)
    seen = app.requests[-1]
    assert seen.body == expected
    assert seen.chunked
    assert seen.header("content-length") is None


def test_json_goes_out_as_it_was_prepared(session: Any, app: AppServer) -> None:
    session.post(app.url + "/echo", json={"a": ["ü", 1]})
    seen = app.requests[-1]
    assert json.loads(seen.body) == {"a": ["ü", 1]}
    assert seen.header("content-type") == "application/json"


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_request_without_a_body_says_so(session: Any, app: AppServer, method: str) -> None:
    getattr(session, method)(app.url + "/echo")
    seen = app.requests[-1]
    assert seen.header("content-length") == "0"
    assert seen.header("content-type") is None
    assert not seen.chunked


def test_text_goes_out_without_a_content_type(session: Any, app: AppServer) -> None:
    session.post(app.url + "/echo", data="abc")
    assert app.requests[-1].header("content-type") is None
