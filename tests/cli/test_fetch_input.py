"""The input of `curlhttp fetch`."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp.cli.fetch.input import InputLine, InputLines
from tests.support.cli import run
from tests.support.forced import force


def lines(*texts: bytes) -> list[InputLine]:
    return list(InputLines(BytesIO(b"".join(text.removesuffix(b"\n") + b"\n" for text in texts))))


def test_an_endless_line_is_bad_and_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "bytes of a line of a fetch", 20)
    found = lines(b"http://h/123456789a", b"x" * 21, b"x" * 1000, b"http://h/b")
    assert [bool(line.problem) for line in found] == [False, True, True, False]
    assert [line.number for line in found] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", [2**63, -(2**63) - 1, "\ud800", 1.5, []])
def test_a_line_whose_id_cannot_be_recorded_is_bad(name: object) -> None:
    (line,) = lines(json.dumps({"url": "http://h/", "id": name}).encode())
    assert "id must be" in line.problem


@given(st.binary(max_size=200).filter(lambda raw: b"\n" not in raw))
def test_no_line_stops_the_reader(raw: bytes) -> None:
    first, *_ = [*lines(raw, b"http://h/"), None]
    assert first is not None
    assert [line.number for line in lines(raw, b"http://h/")][-1] == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"http://h/a", b"http://h/b"),
        (b"http://h/?m=a@b", b"http://h/?m=c@b"),
        (b'{"url": "http://h/"}', b'{"url": "http://h/", "method": "PUT"}'),
        (b'{"url": "http://h/", "body": "a"}', b'{"url": "http://h/", "body": "b"}'),
    ],
)
def test_another_request_has_another_fingerprint(one: bytes, other: bytes) -> None:
    first, second = lines(one, other)
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"http://h/a", b"http://u:p@h/a"),
        (b'{"url": "http://h/"}', b'{"url": "http://u:p@h/", "headers": {"X": "y"}}'),
        (b'{"url": "http://h/", "body": "a"}', b'{"body": "a",   "url": "http://h/"}'),
    ],
)
def test_credentials_headers_and_layout_do_not_change_the_fingerprint(
    one: bytes, other: bytes
) -> None:
    first, second = lines(one, other)
    assert first.fingerprint == second.fingerprint


def test_a_url_in_place_of_a_file_is_explained() -> None:
    ended = run("fetch", "http://me:sesame@127.0.0.1:1/x")
    assert ended.status == 2
    assert "to fetch one URL, use `curlhttp get`" in ended.err
    assert "sesame" not in ended.err
