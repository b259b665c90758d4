"""Headers of a prepared request: which are refused, how the others go out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import AppServer


def prepared(requests: Any, headers: Any) -> Any:
    return requests.Request("GET", "http://x/", headers=headers).prepare().headers


def test_headers_keep_their_order_and_case(requests: Any) -> None:
    headers = prepared(requests, {"b-X": "1", "A": "2", "c": ""})
    assert list(headers.items()) == [("b-X", "1"), ("A", "2"), ("c", "")]
    assert type(headers) is requests.structures.CaseInsensitiveDict
    assert headers["B-x"] == "1"


def test_headers_are_a_copy(requests: Any) -> None:
    for given in ({"A": "b"}, requests.structures.CaseInsensitiveDict({"A": "b"})):
        for _ in range(2):
            headers = prepared(requests, given)
            headers["A"] = "c"
            assert given["A"] == "b"


def test_no_headers_are_an_empty_mapping(requests: Any) -> None:
    request = requests.PreparedRequest()
    request.prepare_headers(None)
    assert type(request.headers) is requests.structures.CaseInsensitiveDict
    assert dict(request.headers) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({b"A": b"b"}, {"A": b"b"}),
        ({"A": b"\xff"}, {"A": b"\xff"}),
        ({"a b": "c"}, {"a b": "c"}),
        ({"a": "b "}, {"a": "b "}),
        ({"a": "x\ty\x0b\x7f\xe9"}, {"a": "x\ty\x0b\x7f\xe9"}),
        ({"a": b""}, {"a": b""}),
        ({b"A": "1", "a": "2"}, {"a": "2"}),
    ],
)
def test_odd_headers_are_accepted(requests: Any, given: Any, expected: Any) -> None:
    assert dict(prepared(requests, given)) == expected


@pytest.mark.parametrize(
    ("name", "value", "ending"),
    [
        ("a", " b", repr(" b")),
        ("a", "\tb", repr("\tb")),
        ("a", "\u2003b", repr("\u2003b")),
        ("a", "\x0b", repr("\x0b")),
        ("a", "b\r\nc: d", repr("b\r\nc: d")),
        ("a", "b\r\n c", repr("b\r\n c")),
        ("a", "b\n", repr("b\n")),
        ("a", "b\rc", repr("b\rc")),
        ("a", b" b", repr(b" b")),
        ("a", b"b\nc", repr(b"b\nc")),
        ("", "b", repr("")),
        (b"", "b", repr(b"")),
        (" a", "b", repr(" a")),
        ("a:", "b", repr("a:")),
        ("a\r\nb", "c", repr("a\r\nb")),
        ("a\n", "b", repr("a\n")),
        (b"a\n", "b", repr(b"a\n")),
        ("a", 1, "Header part (1) from ('a', 1) must be of type str or bytes, not <class 'int'>"),
        (1, "a", "Header part (1) from (1, 'a') must be of type str or bytes, not <class 'int'>"),
        (
            "a",
            None,
            "Header part (None) from ('a', None) must be of type str or bytes, not"
            " <class 'NoneType'>",
        ),
        (
            "a",
            ["b"],
            "Header part (['b']) from ('a', ['b']) must be of type str or bytes, not"
            " <class 'list'>",
        ),
    ],
)
def test_headers_that_break_the_message_are_refused(
    requests: Any, name: Any, value: Any, ending: str
) -> None:
    request = requests.PreparedRequest()
    for _ in range(2):  # a bad header is not remembered as a good one
        with pytest.raises(requests.exceptions.InvalidHeader) as caught:
            request.prepare_headers({"ok": "ok", name: value})
        assert str(caught.value).endswith(ending)
        assert isinstance(caught.value, ValueError)


def test_bad_value_in_a_case_insensitive_dict_is_refused_too(requests: Any) -> None:
    for value in (1, ["b"], "b\nc", " b"):
        headers = requests.structures.CaseInsensitiveDict({"ok": "ok"})
        headers["a"] = value
        with pytest.raises(requests.exceptions.InvalidHeader):
            prepared(requests, headers)


def test_true_does_not_pass_for_the_text_of_a_good_header(requests: Any) -> None:
    prepared(requests, {"a": "1"})
    with pytest.raises(requests.exceptions.InvalidHeader):
        prepared(requests, requests.structures.CaseInsensitiveDict({"a": 1}))


def test_pairs_are_no_headers(requests: Any) -> None:
    with pytest.raises(AttributeError):
        prepared(requests, [("a", "b")])


# -- on the wire


def test_default_headers_go_out_first_and_in_order(session: Any, app: AppServer) -> None:
    session.get(app.url + "/", headers={"X-b": "1", "x-A": "2"})
    names = [name for name, _ in app.requests[-1].headers]
    # The place of these two is up to what sends them.
    names.remove("Host")
    names.remove("Connection")
    assert names == ["User-Agent", "Accept-Encoding", "Accept", "X-b", "x-A"]
    assert app.requests[-1].header("connection") == "keep-alive"


def test_header_of_the_request_takes_the_place_of_the_session_header(
    session: Any, app: AppServer
) -> None:
    session.get(app.url + "/", headers={"user-AGENT": "me", "accept": None})
    headers = [pair for pair in app.requests[-1].headers if pair[0].lower() != "host"]
    assert headers[0] == ("user-AGENT", "me")
    assert [name for name, _ in headers] == ["user-AGENT", "Accept-Encoding", "Connection"]


def test_values_go_out_as_latin_1_and_bytes_as_they_are(session: Any, app: AppServer) -> None:
    session.get(app.url + "/", headers={"X-Text": "é", "X-Bytes": "é".encode(), "X-Empty": ""})
    raw = app.requests[-1].raw
    assert b"X-Text: \xe9\r\n" in raw
    assert b"X-Bytes: \xc3\xa9\r\n" in raw
    assert b"X-Empty: \r\n" in raw or b"X-Empty:\r\n" in raw


def test_explicit_host_header_is_sent_instead_of_the_url_host(session: Any, app: AppServer) -> None:
    session.get(app.url + "/", headers={"Host": "other.test"})
    hosts = [value for name, value in app.requests[-1].headers if name.lower() == "host"]
    assert hosts == ["other.test"]
