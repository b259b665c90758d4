"""Forms with files: the bytes that requests makes of files= and data=."""

from __future__ import annotations

import collections
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.servers import AppServer


def encoded(requests: Any, files: Any, data: Any = None, **kwargs: Any) -> tuple[bytes, Any]:
    """Return the body with "B" for its boundary, and the request."""
    request = requests.Request("POST", "http://x/", files=files, data=data, **kwargs).prepare()
    assert type(request.body) is bytes
    match = re.fullmatch(r"--([0-9a-f]{32})", request.body.split(b"\r\n")[0].decode().rstrip("-"))
    assert match
    return request.body.replace(match[1].encode(), b"B"), request


def part(head: str, content: bytes) -> bytes:
    return (
        b"--B\r\nContent-Disposition: form-data; "
        + head.encode()
        + b"\r\n\r\n"
        + content
        + (b"\r\n")
    )


def named(name: Any, content: bytes = b"x") -> io.BytesIO:
    file = io.BytesIO(content)
    file.name = name
    return file


END = b"--B--\r\n"


def test_content_type_names_the_boundary_of_the_body(requests: Any) -> None:
    request = requests.Request("POST", "http://x/", files={"f": b"x"}).prepare()
    boundary = re.fullmatch(
        "multipart/form-data; boundary=([0-9a-f]{32})", request.headers["Content-Type"]
    )
    assert boundary
    assert request.body.startswith(f"--{boundary[1]}\r\n".encode())
    assert request.body.endswith(f"--{boundary[1]}--\r\n".encode())
    assert request.headers["Content-Length"] == str(len(request.body))
    assert list(request.headers) == ["Content-Length", "Content-Type"]


def test_content_type_of_the_caller_is_kept(requests: Any) -> None:
    _, request = encoded(requests, {"f": b"x"}, headers={"content-type": "multipart/x"})
    assert request.headers["Content-Type"] == "multipart/x"


@pytest.mark.parametrize(
    ("spec", "head", "content"),
    [
        (io.BytesIO(b"data"), 'name="f"; filename="f"', b"data"),
        (b"data", 'name="f"; filename="f"', b"data"),
        (bytearray(b"data"), 'name="f"; filename="f"', b"data"),
        ("dätä", 'name="f"; filename="f"', "dätä".encode()),
        ("", 'name="f"; filename="f"', b""),
        (io.StringIO("text"), 'name="f"; filename="f"', b"text"),
        (named("/a/b/ünï.txt"), 'name="f"; filename="ünï.txt"', b"x"),
        (named(b"/a/x.txt"), 'name="f"; filename="x.txt"', b"x"),
        (named(5), 'name="f"; filename="f"', b"x"),
        (named("<stdin>"), 'name="f"; filename="f"', b"x"),
        (("n.txt", b"x"), 'name="f"; filename="n.txt"', b"x"),
        (["n.txt", b"x"], 'name="f"; filename="n.txt"', b"x"),
        ((None, b"x"), 'name="f"', b"x"),
        (("", b"x"), 'name="f"; filename=""', b"x"),
        (("n", 5), 'name="f"; filename="n"', b"5"),
        (('a"b\r\nc\\', b"x"), 'name="f"; filename="a%22b%0D%0Ac\\"', b"x"),
        (("n", b"x", "a/b"), 'name="f"; filename="n"\r\nContent-Type: a/b', b"x"),
        (("n", b"x", ""), 'name="f"; filename="n"', b"x"),
        (
            ("n", b"x", "a/b", {"X-A": "b", "Expires": "0"}),
            'name="f"; filename="n"\r\nContent-Type: a/b\r\nX-A: b\r\nExpires: 0',
            b"x",
        ),
        (("n", b"x", None, {"X-A": "b"}), 'name="f"; filename="n"\r\nX-A: b', b"x"),
        (("n", b"x", None, {"Content-Type": "a/b"}), 'name="f"; filename="n"', b"x"),
    ],
)
def test_file_is_an_object_or_a_name_with_one(
    requests: Any, spec: Any, head: str, content: bytes
) -> None:
    assert encoded(requests, {"f": spec})[0] == part(head, content) + END


@pytest.mark.parametrize("spec", [None, ("n", None)])
def test_file_of_none_is_left_out(requests: Any, spec: Any) -> None:
    assert encoded(requests, {"f": spec})[0] == END


def test_fields_of_data_go_before_the_files(requests: Any) -> None:
    data = {"a": 1, "b": ["x", None, "y"], "c": None, "ü": "ü", "e": b"\xff", "g": True, "h": 1.5}
    body, _ = encoded(requests, [("f", ("1", b"1")), ("f", ("2", b"2"))], data)
    assert body == b"".join(
        [
            part('name="a"', b"1"),
            part('name="b"', b"x"),
            part('name="b"', b"y"),
            part('name="ü"', "ü".encode()),
            part('name="e"', b"\xff"),
            part('name="g"', b"True"),
            part('name="h"', b"1.5"),
            part('name="f"; filename="1"', b"1"),
            part('name="f"; filename="2"', b"2"),
            END,
        ]
    )


@pytest.mark.parametrize(
    "data", [{"a": "1"}, [("a", "1")], (("a", "1"),), collections.UserDict(a="1"), {b"a": b"1"}]
)
def test_data_is_a_mapping_or_pairs(requests: Any, data: Any) -> None:
    assert encoded(requests, {"f": "x"}, data)[0] == (
        part('name="a"', b"1") + part('name="f"; filename="f"', b"x") + END
    )


def test_large_files_are_in_the_body_too(requests: Any) -> None:
    one, two = b"1" * 300_000, b"2" * 70_000
    assert encoded(requests, {"f": ("n", one), "g": (None, io.BytesIO(two))})[0] == (
        part('name="f"; filename="n"', one) + part('name="g"', two) + END
    )


def test_file_is_read_from_where_it_stands(requests: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"hello")
    with path.open("rb") as file:
        file.read(2)
        body, _ = encoded(requests, {"f": file})
        assert body == part('name="f"; filename="file.bin"', b"llo") + END


def test_json_next_to_files_is_ignored(requests: Any) -> None:
    body, _ = encoded(requests, {"f": "x"}, json={"a": 1})
    assert body == part('name="f"; filename="f"', b"x") + END


@pytest.mark.parametrize("files", [None, {}, []])
def test_no_files_are_no_multipart(requests: Any, files: Any) -> None:
    request = requests.Request("POST", "http://x/", files=files, data={"a": 1}).prepare()
    assert request.body == "a=1"


@pytest.mark.parametrize("data", ["a=b", b"a=b", ""])
def test_data_next_to_files_is_no_text(requests: Any, data: Any) -> None:
    with pytest.raises(ValueError) as caught:
        encoded(requests, {"f": "x"}, data)
    assert str(caught.value) == "Data must not be a string."


@pytest.mark.parametrize("data", [iter([("a", "b")]), io.BytesIO(b"x")])
def test_data_next_to_files_is_no_stream(requests: Any, data: Any) -> None:
    with pytest.raises(NotImplementedError) as caught:
        encoded(requests, {"f": "x"}, data)
    assert str(caught.value) == "Streamed bodies and files are mutually exclusive."


@pytest.mark.parametrize("files", [5, "abc", {"f": ("n",)}, {"f": (1, 2, 3, 4, 5)}])
def test_files_that_are_no_pairs_are_refused(requests: Any, files: Any) -> None:
    with pytest.raises(ValueError):
        encoded(requests, files)


def test_file_that_is_no_text_is_refused(requests: Any) -> None:
    with pytest.raises(TypeError):
        encoded(requests, {"f": ("n", iter([b"x"]))})


def test_files_are_encoded_by_a_function_of_its_own(requests: Any) -> None:
    encode = requests.PreparedRequest._encode_files
    body, content_type = encode({"f": "x"}, {"a": "b"})
    assert content_type.partition("=")[0] == "multipart/form-data; boundary"
    assert body.count(content_type.partition("=")[2].encode()) == 3
    with pytest.raises(ValueError) as caught:
        encode({}, {"a": 1})
    assert str(caught.value) == "Files must be provided."
    assert isinstance(requests.models.RequestEncodingMixin.__dict__["_encode_files"], staticmethod)


def test_form_arrives_as_it_was_prepared(session: Any, app: AppServer) -> None:
    response = session.post(app.url + "/echo", files={"f": ("n", b"\0\xff" * 1000)}, data={"a": 1})
    seen = app.requests[-1]
    assert seen.body == response.request.body
    assert seen.header("content-type") == response.request.headers["Content-Type"]
    assert seen.header("content-length") == str(len(seen.body))
    assert not seen.chunked
