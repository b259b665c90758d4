"""Response: text, JSON, status, headers, iteration, and objects made by hand."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tests.servers import AppConnection, AppServer, RawServer, Record, payload, respond, response

Make = Callable[..., Any]


@pytest.fixture
def make(requests: Any) -> Make:
    """Return a function that makes a response by hand, as tests in the wild do."""

    def made(content: Any = b"", kind: str | None = None, **attributes: Any) -> Any:
        result = requests.Response()
        result.status_code = 200
        result._content = content
        result._content_consumed = True
        if kind is not None:
            result.headers["Content-Type"] = kind
        for name, value in attributes.items():
            setattr(result, name, value)
        return result

    return made


def replies(app: AppServer, body: bytes, *headers: tuple[str, str], status: int = 200) -> str:
    """Serve one answer; return its URL."""

    def route(record: Record, conn: AppConnection) -> None:
        conn.reply(status, body, headers)

    app.route("/answer", route)
    return app.url + "/answer"


# -- made by hand


def test_a_new_response_is_empty(requests: Any) -> None:
    new = requests.Response()
    assert new._content is False
    assert new._content_consumed is False
    assert new._next is None
    assert new.status_code is None
    assert new.headers == {}
    assert isinstance(new.headers, requests.structures.CaseInsensitiveDict)
    assert (new.raw, new.url, new.encoding, new.reason, new.request) == (None,) * 5
    assert new.history == []
    assert isinstance(new.cookies, requests.cookies.RequestsCookieJar)
    assert new.elapsed == datetime.timedelta(0)
    assert new.links == {}
    assert new.is_redirect is False
    assert new.is_permanent_redirect is False
    assert new.next is None
    assert new.content is None
    assert new.text == ""
    assert not hasattr(new, "connection")


def test_a_response_made_by_hand_answers_like_one_from_the_network(make: Make) -> None:
    made = make(b'{"a": 1}', status_code=201, reason="Created", url="http://x/")
    assert made.json() == {"a": 1}
    assert made.content == b'{"a": 1}'
    assert made.text == '{"a": 1}'
    assert made.ok
    assert repr(made) == "<Response [201]>"
    made.encoding = "utf-16"
    assert made.encoding == "utf-16"


def test_a_response_without_status_is_not_there_yet(requests: Any) -> None:
    with pytest.raises(TypeError):
        requests.Response().raise_for_status()


def test_raw_may_be_any_file(requests: Any) -> None:
    made = requests.Response()
    made.status_code = 200
    made.raw = io.BytesIO(b"hello")
    assert list(made.iter_content(2)) == [b"he", b"ll", b"o"]
    made = requests.Response()
    made.status_code = 200
    made.raw = io.BytesIO(b"hello")
    assert made.content == b"hello"
    assert made._content_consumed
    assert made.content == b"hello"


def test_a_response_with_status_0_has_no_content(requests: Any) -> None:
    made = requests.Response()
    made.status_code = 0
    made.raw = io.BytesIO(b"hello")
    assert made.content is None


def test_attributes_can_be_set(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url)
    answer.status_code = 500
    answer.reason = "Changed"
    answer.url = "http://x/"
    answer.headers["X-New"] = "1"
    answer._content = b"changed"
    answer.note = "mine"
    assert (answer.text, answer.ok, answer.headers["x-new"]) == ("changed", False, "1")
    with pytest.raises(requests.HTTPError, match="500 Server Error: Changed for url: http://x/"):
        answer.raise_for_status()


# -- status


@pytest.mark.parametrize(
    ("status", "good"),
    [
        *((status, True) for status in (100, 200, 204, 304, 399, 600, 999)),
        *((status, False) for status in (400, 404, 499, 500, 599)),
    ],
)
def test_a_response_is_true_unless_it_is_an_error(make: Make, status: int, good: bool) -> None:
    made = make(status_code=status)
    assert bool(made) is made.ok is made.__nonzero__() is good


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (400, "Bad", "400 Client Error: Bad for url: http://x/"),
        (404, "Not Found", "404 Client Error: Not Found for url: http://x/"),
        (499, "", "499 Client Error:  for url: http://x/"),
        (500, b"Caf\xc3\xa9", "500 Server Error: Café for url: http://x/"),
        (500, b"Caf\xe9", "500 Server Error: Café for url: http://x/"),
        (599, "Late", "599 Server Error: Late for url: http://x/"),
    ],
)
def test_raise_for_status_tells_what_happened(
    requests: Any, make: Make, status: int, reason: Any, text: str
) -> None:
    made = make(status_code=status, reason=reason, url="http://x/")
    made.request = requests.Request("GET", "http://x/").prepare()
    with pytest.raises(requests.HTTPError) as caught:
        made.raise_for_status()
    assert str(caught.value) == text
    assert caught.value.args == (text,)
    assert caught.value.response is made
    assert caught.value.request is made.request


@pytest.mark.parametrize("status", [200, 302, 399, 600])
def test_raise_for_status_returns_nothing_for_other_statuses(make: Make, status: int) -> None:
    assert make(status_code=status, reason="x").raise_for_status() is None


def test_raise_for_status_of_a_real_response(requests: Any, app: AppServer) -> None:
    url = app.url + "/status/404"
    answer = requests.get(url)
    with pytest.raises(requests.HTTPError) as caught:
        answer.raise_for_status()
    assert str(caught.value) == f"404 Client Error: Not Found for url: {url}"
    assert caught.value.response.status_code == 404


def test_the_reason_is_the_one_that_was_sent(requests: Any, app: AppServer) -> None:
    assert requests.get(app.url + "/status/418?reason=Short and stout").reason == "Short and stout"
    assert requests.get(app.url).reason == "OK"


def test_a_reason_may_be_missing(requests: Any) -> None:
    with RawServer(respond(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n")) as server:
        assert requests.get(server.url).reason == ""


def test_repr_has_the_status(requests: Any, app: AppServer) -> None:
    assert repr(requests.get(app.url)) == "<Response [200]>"
    assert repr(requests.get(app.url + "/status/404")) == "<Response [404]>"


def test_facts_of_a_response(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url + "/echo?a=b#c")
    assert type(answer) is requests.Response
    assert answer.status_code == 200
    assert type(answer.status_code) is int
    assert answer.url == app.url + "/echo?a=b#c"
    assert answer.history == []
    assert answer.request.url == answer.url
    assert isinstance(answer.request, requests.PreparedRequest)
    assert isinstance(answer.connection, requests.adapters.HTTPAdapter)
    assert answer.status_code == requests.codes.ok


@pytest.mark.parametrize(
    ("status", "location", "redirect", "permanent"),
    [
        (301, True, True, True),
        (302, True, True, False),
        (303, True, True, False),
        (307, True, True, False),
        (308, True, True, True),
        (300, True, False, False),
        (304, True, False, False),
        (200, True, False, False),
        (301, False, False, False),
        (308, False, False, False),
    ],
)
def test_is_redirect_needs_a_status_and_a_location(
    make: Make, status: int, location: bool, redirect: bool, permanent: bool
) -> None:
    made = make(status_code=status)
    if location:
        made.headers["LOCATION"] = "/"
    assert made.is_redirect is redirect
    assert made.is_permanent_redirect is permanent


def test_next_is_what_was_left_there(make: Make) -> None:
    assert make(_next="something").next == "something"


# -- headers, cookies, links


def test_headers_can_be_read_in_any_case(requests: Any, app: AppServer) -> None:
    headers = requests.get(replies(app, b"", ("X-One", "1"), ("Content-Type", "a/b"))).headers
    assert isinstance(headers, requests.structures.CaseInsensitiveDict)
    assert headers["x-one"] == headers["X-ONE"] == headers.get("X-One") == "1"
    assert "content-TYPE" in headers
    assert headers.get("missing") is None
    assert list(headers) == ["X-One", "Content-Type", "Content-Length"]


def test_repeated_headers_are_joined_and_raw_has_them_apart(requests: Any, app: AppServer) -> None:
    url = replies(app, b"", ("X-A", "1"), ("x-a", "2"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b"))
    answer = requests.get(url)
    assert answer.headers["X-A"] == "1, 2"
    assert answer.headers["Set-Cookie"] == "a=1, b"
    assert answer.raw.headers.getlist("x-a") == ["1", "2"]
    assert answer.raw.headers.getlist("Set-Cookie") == ["a=1", "b"]


def test_header_values_are_latin_1(requests: Any, app: AppServer) -> None:
    assert requests.get(replies(app, b"", ("X-A", "\xe9"))).headers["x-a"] == "\xe9"


def test_cookies_of_a_response(requests: Any, app: AppServer) -> None:
    cookies = requests.get(app.url + "/cookies/set?a=1&b=2").cookies
    assert isinstance(cookies, requests.cookies.RequestsCookieJar)
    assert cookies["a"] == cookies.get("a") == "1"
    assert dict(cookies) == {"a": "1", "b": "2"}
    assert {cookie.domain for cookie in cookies} == {"127.0.0.1"}


def test_links_are_found_by_rel(requests: Any, app: AppServer) -> None:
    links = requests.get(app.url + "/links").links
    assert links["next"] == {"url": "/page/2", "rel": "next"}
    assert links["last"]["url"] == "/page/9"


def test_a_link_without_rel_is_found_by_url(make: Make) -> None:
    made = make()
    made.headers["Link"] = "<http://a/>; title=x"
    assert made.links == {"http://a/": {"url": "http://a/", "title": "x"}}


# -- encoding and text


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("text/html", "ISO-8859-1"),
        ("text/plain; charset=utf-8", "utf-8"),
        ('text/html; charset="UTF-8"', "UTF-8"),
        ("text/html; charset='x'", "x"),
        ("text/html; Charset=abc", "abc"),
        ("text/html; charset", "ISO-8859-1"),
        ("text/html; a=b; charset=koi8-r; c=d", "koi8-r"),
        ("application/json", "utf-8"),
        ("application/json; charset=latin-1", "latin-1"),
        ("application/problem+json", None),
        ("application/xhtml+xml", None),
        ("image/png", None),
    ],
)
def test_encoding_comes_from_the_content_type(
    requests: Any, app: AppServer, kind: str, encoding: str | None
) -> None:
    assert requests.get(replies(app, b"x", ("Content-Type", kind))).encoding == encoding


def test_without_content_type_there_is_no_encoding(requests: Any, app: AppServer) -> None:
    assert requests.get(replies(app, b"x")).encoding is None


@pytest.mark.parametrize(
    ("content", "encoding", "text"),
    [
        (b"", None, ""),
        (b"", "utf-8", ""),
        (None, "utf-8", ""),
        ("é".encode(), "utf-8", "é"),
        (b"\xe9", "ISO-8859-1", "é"),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        ("é".encode(), "no-such-codec", "é"),
        ("é".encode("utf-16"), "utf-16", "é"),
        (b"plain", None, "plain"),
        ("Grüße aus Köln".encode(), None, "Grüße aus Köln"),
    ],
)
def test_text_is_decoded_with_the_encoding(
    make: Make, content: Any, encoding: str | None, text: str
) -> None:
    assert make(content, encoding=encoding).text == text


def test_encoding_can_be_changed_and_changes_text(requests: Any, app: AppServer) -> None:
    answer = requests.get(replies(app, "é".encode(), ("Content-Type", "text/html")))
    assert answer.text == "Ã©"
    answer.encoding = "utf-8"
    assert answer.text == "é"
    answer.encoding = answer.apparent_encoding
    assert isinstance(answer.text, str)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"only ascii here", {"ascii", "utf-8"}),
        ("Grüße aus Köln, schöne Wörter für alle".encode(), {"utf-8"}),
    ],
)
def test_apparent_encoding_is_guessed_from_the_content(
    make: Make, content: bytes, expected: set[str]
) -> None:
    assert make(content).apparent_encoding.lower() in expected


# -- json


@pytest.mark.parametrize(
    "codec",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"],
)
def test_json_finds_the_unicode_encoding(make: Make, codec: str) -> None:
    assert make('{"é": [1]}'.encode(codec)).json() == {"é": [1]}


def test_json_uses_the_encoding_that_is_set(make: Make) -> None:
    assert make('{"a": "é"}'.encode("latin-1"), encoding="latin-1").json() == {"a": "é"}
    assert make('{"a": "é"}'.encode(), encoding="latin-1").json() == {"a": "Ã©"}


def test_json_of_a_response_without_content_type_is_utf_8(requests: Any, app: AppServer) -> None:
    assert requests.get(replies(app, '{"a": "é"}'.encode())).json() == {"a": "é"}


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("[]", []), ("null", None), ('"x"', "x")])
def test_json_may_be_short(make: Make, text: str, value: Any) -> None:
    assert make(text.encode()).json() == value


def test_json_in_another_encoding_is_read_as_text(make: Make) -> None:
    assert list(make('{"a": "é"}'.encode("latin-1")).json()) == ["a"]


def test_json_passes_its_arguments_on(make: Make) -> None:
    assert make(b'{"a": 1.5}').json(parse_float=str) == {"a": "1.5"}
    assert make(b'{"a": 1}').json(object_pairs_hook=list) == [("a", 1)]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [(b"", None), (None, None), (b"<html>", "utf-8"), (b'{"a"', None), (b"\xff\xfe\xff", None)],
)
def test_json_that_is_none_is_an_error(
    requests: Any, make: Make, content: Any, encoding: str | None
) -> None:
    made = make(content, encoding=encoding)
    with pytest.raises(requests.JSONDecodeError) as caught:
        made.json()
    assert isinstance(caught.value, json.JSONDecodeError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, requests.RequestException)
    assert caught.value.doc == made.text
    assert isinstance(caught.value.pos, int)


def test_an_error_of_json_says_where(requests: Any, make: Make) -> None:
    with pytest.raises(requests.exceptions.InvalidJSONError, match=r"line 1 column 1 \(char 0\)"):
        make(b"<html>").json()


# -- iteration over content that is there


@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (1, [b"h", b"e", b"l", b"l", b"o"]),
        (2, [b"he", b"ll", b"o"]),
        (5, [b"hello"]),
        (99, [b"hello"]),
        (None, [b"hello"]),
        (0, [b"hello"]),
        (True, [b"h", b"e", b"l", b"l", b"o"]),
    ],
)
def test_iter_content_cuts_the_content_that_is_there(
    make: Make, size: Any, pieces: list[bytes]
) -> None:
    made = make(b"hello")
    assert list(made.iter_content(size)) == pieces
    assert list(made.iter_content(chunk_size=size)) == pieces


def test_iter_content_yields_single_bytes_by_default(make: Make) -> None:
    assert list(make(b"abc").iter_content()) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("size", ["1", 1.0, b"1", [1]])
def test_iter_content_refuses_a_size_that_is_no_int_at_once(make: Make, size: Any) -> None:
    with pytest.raises(TypeError, match="chunk_size must be an int"):
        make(b"hello").iter_content(size)


def test_iter_content_decodes_characters_across_pieces(make: Make) -> None:
    made = make("hé€".encode(), encoding="utf-8")
    pieces = list(made.iter_content(1, decode_unicode=True))
    assert "".join(pieces) == "hé€"
    assert all(isinstance(piece, str) for piece in pieces)


def test_iter_content_replaces_what_cannot_be_decoded(make: Make) -> None:
    made = make(b"a\xff", encoding="utf-8")
    assert "".join(made.iter_content(1, decode_unicode=True)) == "a\ufffd"
    made = make(b"a\xc3", encoding="utf-8")
    assert "".join(made.iter_content(1, decode_unicode=True)) == "a\ufffd"


def test_iter_content_yields_bytes_without_an_encoding(make: Make) -> None:
    assert list(make("é".encode()).iter_content(2, decode_unicode=True)) == ["é".encode()]


def test_iterating_a_response_yields_pieces_of_128_bytes(make: Make) -> None:
    assert [len(piece) for piece in make(bytes(300))] == [128, 128, 44]


def test_iterating_a_buffered_response_from_the_network(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url + "/bytes/300")
    assert b"".join(answer) == payload(300)
    assert [len(piece) for piece in answer.iter_content(100)] == [100, 100, 100]
    assert b"".join(answer.iter_content()) == payload(300)


LINES = [
    (b"", 512, []),
    (b"\n", 512, [b""]),
    (b"a\nb", 512, [b"a", b"b"]),
    (b"a\nb\n", 512, [b"a", b"b"]),
    (b"a\r\nb\r\n", 512, [b"a", b"b"]),
    (b"a\rb", 512, [b"a", b"b"]),
    (b"a\n\nb", 512, [b"a", b"", b"b"]),
    (b"a\x0bb\x0cc", 512, [b"a\x0bb\x0cc"]),
    (b"long\nlines\nhere", 1, [b"long", b"lines", b"here"]),
    (b"long\nlines\nhere", 2, [b"long", b"lines", b"here"]),
    (b"long\nlines\nhere", 5, [b"long", b"lines", b"here"]),
    (b"a\n\nb", 1, [b"a", b"", b"b"]),
    # A line end of two bytes that falls apart counts twice.
    (b"a\r\nb\r\n", 1, [b"a", b"", b"b", b""]),
    (b"a\r\nb\r\n", 2, [b"a", b"", b"b"]),
    (b"a\r\nb\r\n", 3, [b"a", b"b"]),
]


@pytest.mark.parametrize(("content", "size", "lines"), LINES)
def test_iter_lines(make: Make, content: bytes, size: int, lines: list[bytes]) -> None:
    assert list(make(content).iter_lines(size)) == lines


@pytest.mark.parametrize(
    ("content", "size", "delimiter", "lines"),
    [
        (b"a|b||c", 512, b"|", [b"a", b"b", b"", b"c"]),
        (b"a|b||c|", 512, b"|", [b"a", b"b", b"", b"c", b""]),
        (b"a||b||", 512, b"||", [b"a", b"b", b""]),
        (b"a\nb|c", 512, b"|", [b"a\nb", b"c"]),
        (b"one|two", 3, b"|", [b"one", b"two"]),
        # A piece that ends with the delimiter leaves an empty line behind.
        (b"one|two", 2, b"|", [b"one", b"", b"two"]),
        (b"a", 1, b"|", [b"a"]),
    ],
)
def test_iter_lines_with_a_delimiter(
    make: Make, content: bytes, size: int, delimiter: bytes, lines: list[bytes]
) -> None:
    assert list(make(content).iter_lines(size, delimiter=delimiter)) == lines


def test_iter_lines_decodes(make: Make) -> None:
    made = make("é\nb".encode(), encoding="utf-8")
    assert list(made.iter_lines(decode_unicode=True)) == ["é", "b"]
    assert list(made.iter_lines(decode_unicode=True, delimiter="\n")) == ["é", "b"]
    assert list(made.iter_lines(1, True)) == ["é", "b"]


def test_decoded_lines_end_where_text_lines_end(make: Make) -> None:
    made = make("a\u2028b\x85c".encode(), encoding="utf-8")
    assert list(made.iter_lines(decode_unicode=True)) == ["a", "b", "c"]


# -- streams


def test_a_stream_is_read_when_asked(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/100000", stream=True) as answer:
        assert answer._content is False
        assert not answer._content_consumed
        assert answer.content == payload(100000)
        assert answer._content_consumed
        assert answer.content is answer.content


def test_a_response_that_is_no_stream_is_read_at_once(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url + "/bytes/100")
    assert answer._content == payload(100)
    assert answer._content_consumed


@pytest.mark.parametrize("path", ["/bytes/10000", "/chunked/10000", "/until-close?size=10000"])
@pytest.mark.parametrize("size", [1, 999, 10000, 99999])
def test_iter_content_of_a_stream_yields_pieces_of_the_size(
    requests: Any, app: AppServer, path: str, size: int
) -> None:
    with requests.get(app.url + path, stream=True) as answer:
        pieces = list(answer.iter_content(size))
    assert b"".join(pieces) == payload(10000)
    assert all(len(piece) <= size for piece in pieces)
    if "chunked" not in path:
        assert all(len(piece) == size for piece in pieces[:-1])


def test_iter_content_of_a_stream_with_none_yields_what_arrives(
    requests: Any, app: AppServer
) -> None:
    with requests.get(app.url + "/chunked/7000", stream=True) as answer:
        pieces = list(answer.iter_content(None))
    assert b"".join(pieces) == payload(7000)
    assert all(pieces)


def test_a_coded_stream_is_decoded(requests: Any, app: AppServer) -> None:
    for path in ("/gzip", "/deflate", "/gzip-chunked", "/br"):
        with requests.get(app.url + path + "?size=5000", stream=True) as answer:
            assert b"".join(answer.iter_content(700)) == payload(5000)
            assert "content-encoding" in answer.headers


def test_iter_lines_of_a_stream(requests: Any, app: AppServer) -> None:
    text = b"\n".join(b"line %d" % n for n in range(500))
    with requests.get(replies(app, text), stream=True) as answer:
        assert list(answer.iter_lines()) == text.split(b"\n")


def test_iter_lines_yields_a_line_when_it_has_come(requests: Any, app: AppServer) -> None:
    def route(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Transfer-Encoding", "chunked")])
        conn.chunk(b"one\ntwo")
        conn.stall()
        conn.closing = True

    app.route("/lines", route)
    with requests.get(app.url + "/lines", stream=True) as answer:
        assert next(answer.iter_lines()) == b"one"


def test_iter_content_decodes_a_stream(requests: Any, app: AppServer) -> None:
    url = replies(app, "é€".encode() * 100, ("Content-Type", "text/plain; charset=utf-8"))
    with requests.get(url, stream=True) as answer:
        pieces = list(answer.iter_content(3, decode_unicode=True))
    assert "".join(pieces) == "é€" * 100


def test_a_second_pass_over_a_stream_is_an_error(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/10", stream=True) as answer:
        assert b"".join(answer.iter_content(3)) == payload(10)
        with pytest.raises(requests.exceptions.StreamConsumedError):
            answer.iter_content(3)
        with pytest.raises(TypeError):
            answer.iter_content(3)


def test_content_after_the_stream_was_read_is_an_error(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/10", stream=True) as answer:
        list(answer.iter_content(3))
        text = "The content for this response was already consumed"
        with pytest.raises(RuntimeError, match=text):
            _ = answer.content
        with pytest.raises(RuntimeError, match=text):
            _ = answer.text


def test_what_is_left_of_a_stream_can_be_read(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/10", stream=True) as answer:
        pieces = answer.iter_content(4)
        assert next(pieces) == payload(10)[:4]
        assert answer.content == payload(10)[4:]


def test_iter_content_after_content_cuts_the_content(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/10", stream=True) as answer:
        assert answer.content == payload(10)
        for _ in range(2):
            assert list(answer.iter_content(6)) == [payload(10)[:6], payload(10)[6:]]


def test_an_empty_stream_yields_nothing(requests: Any, app: AppServer) -> None:
    for path in ("/204", "/304", "/bytes/0", "/chunked/0"):
        with requests.get(app.url + path, stream=True) as answer:
            assert list(answer.iter_content(10)) == []
    with requests.head(app.url + "/bytes/10", stream=True) as answer:
        assert answer.content == b""


def test_a_head_response_keeps_the_length_of_the_body(requests: Any, app: AppServer) -> None:
    answer = requests.head(app.url + "/bytes/10")
    assert (answer.headers["content-length"], answer.content) == ("10", b"")


# -- connections of streams


def test_a_stream_read_to_its_end_gives_its_connection_back(session: Any, app: AppServer) -> None:
    for _ in range(3):
        assert session.get(app.url + "/bytes/5000", stream=True).content == payload(5000)
    for _ in range(3):
        list(session.get(app.url + "/bytes/5000", stream=True).iter_content(100))
    assert app.connections == 1


def test_a_stream_that_is_closed_frees_its_connection(session: Any, app: AppServer) -> None:
    with session.get(app.url + "/stall-after", stream=True) as answer:
        assert app.open_connections == 1
    assert app.wait_for(lambda: app.open_connections == 0)
    answer.close()
    assert session.get(app.url).status_code == 200


def test_a_response_is_a_context_manager(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url + "/bytes/10", stream=True)
    with answer as same:
        assert same is answer
        assert same.content == payload(10)


def test_closing_a_buffered_response_keeps_its_content(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url)
    answer.close()
    answer.close()
    assert answer.text == "hello"


def test_two_streams_of_a_session_can_be_read_in_turn(session: Any, app: AppServer) -> None:
    one = session.get(app.url + "/bytes/50000?seed=1", stream=True)
    two = session.get(app.url + "/bytes/50000?seed=2", stream=True)
    first, second = one.iter_content(1000), two.iter_content(1000)
    read = list(zip(first, second, strict=True))
    assert b"".join(a for a, _ in read) == payload(50000, 1)
    assert b"".join(b for _, b in read) == payload(50000, 2)


# -- pickling


def test_a_response_can_be_pickled(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url + "/cookies/set?a=1&redirect=/text")
    copy = pickle.loads(pickle.dumps(answer))
    assert copy.status_code == 200
    assert copy.url == answer.url
    assert copy.headers == answer.headers
    assert copy.text == answer.text
    assert copy.encoding == answer.encoding
    assert copy.reason == "OK"
    assert copy.elapsed == answer.elapsed
    assert copy.history[0].status_code == 302
    assert copy.history[0].cookies.get_dict() == {"a": "1"}
    assert copy.request.url == answer.request.url
    assert copy.request.headers == answer.request.headers
    assert copy.raw is None
    assert copy._content_consumed is True
    assert not hasattr(copy, "connection")


def test_pickling_reads_a_stream(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/500", stream=True) as answer:
        copy = pickle.loads(pickle.dumps(answer))
    assert copy.content == payload(500)
    assert list(copy.iter_content(300)) == [payload(500)[:300], payload(500)[300:]]


def test_attrs_names_what_is_pickled(requests: Any, make: Make) -> None:
    names = {
        "_content",
        "status_code",
        "headers",
        "url",
        "history",
        "encoding",
        "reason",
        "cookies",
        "elapsed",
        "request",
    }
    assert set(requests.Response.__attrs__) >= names
    assert set(make().__getstate__()) >= names


def test_a_subclass_can_be_made_from_the_state_of_a_response(requests: Any, app: AppServer) -> None:
    class Mine(requests.Response):  # type: ignore[misc]
        pass

    answer = requests.get(app.url)
    mine = Mine()
    mine.__setstate__(answer.__getstate__())
    assert mine.text == "hello"
    other = Mine()
    other.__dict__.update(answer.__dict__)
    assert (other.text, other.status_code) == ("hello", 200)


def test_unusual_but_valid_answers(requests: Any) -> None:
    texts = {
        "lower": b"HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello",
        "spaces": b"HTTP/1.1 200 OK\r\nContent-Length:   5  \r\n\r\nhello",
        "1.0": b"HTTP/1.0 200 OK\r\n\r\nhello",
        "chunk extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5;x=y\r\nhello\r\n0\r\n\r\n",
        "100 first": b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"hello"),
    }
    for text in texts.values():
        with RawServer(lambda conn, text=text: _answer_once(conn, text)) as server:  # type: ignore[misc]
            assert requests.get(server.url).text == "hello"


def _answer_once(conn: Any, text: bytes) -> None:
    if conn.read_request()[0]:
        conn.send(text)
