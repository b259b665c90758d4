"""A response: status, headers, text, JSON, links, timings; and that it is a value."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import ClientRequest, Response
from curlhttp.exceptions import HTTPError, InvalidJSONError, JSONDecodeError, RequestException
from curlhttp.types import Timings
from tests.servers import AppServer, RawServer, respond, response
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import named_by_a_server
from tests.support.every_api import EVERY_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

Make = Callable[..., AnyClient]


async def fetch(client: AnyClient, body: bytes, content_type: str | None) -> Response:
    headers = [] if content_type is None else [("Content-Type", content_type)]
    with RawServer(respond(response(body, headers=headers))) as raw:
        found: Response = await client.get(raw.url)
        return found


# --- the head ---


async def test_the_status_line_is_there(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.get(server.url + "/status/404")
    assert response.status_code == 404
    assert response.reason == response.reason_phrase == "Not Found"
    assert response.http_version == ("HTTP/1.1" if server.url.startswith("http:") else "HTTP/2")


@pytest.mark.parametrize(
    ("line", "reason"),
    [("200 Fine, thanks", "Fine, thanks"), ("200", ""), ("200 ", ""), ("299 x y", "x y")],
)
async def test_the_reason_is_the_servers(client: AnyClient, line: str, reason: str) -> None:
    with RawServer(respond(response(status=line))) as raw:
        found = await client.get(raw.url)
        assert found.status_code == int(line[:3])
        assert found.reason == reason


async def test_http_1_0_has_its_own_version(client: AnyClient) -> None:
    with RawServer(respond(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")) as raw:
        response = await client.get(raw.url)
    assert response.http_version == "HTTP/1.0"
    assert response.text == "hi"


async def test_headers_keep_order_case_and_repeats(client: AnyClient) -> None:
    fields = [("X-B", "1"), ("x-a", "two"), ("X-b", "3"), ("Set-Cookie", "a=1; Path=/")]
    with RawServer(respond(response(b"", headers=fields))) as raw:
        headers = (await client.get(raw.url)).headers
    assert headers.multi_items() == [("Content-Length", "0"), *fields]
    assert headers["x-B"] == "1, 3"
    assert headers.get_list("X-B") == ["1", "3"]


@pytest.mark.parametrize(
    ("code", "ok", "success", "error"),
    [
        (200, True, True, False),
        (204, True, True, False),
        (304, True, False, False),
        (399, True, False, False),
        (400, False, False, True),
        (599, False, False, True),
        (600, True, False, False),
    ],
)
async def test_a_response_is_true_unless_its_status_is_an_error(
    client: AnyClient, app: AppServer, code: int, ok: bool, success: bool, error: bool
) -> None:
    response = await client.get(f"{app.url}/status/{code}")
    assert response.ok is bool(response) is ok
    assert (response.is_success, response.is_error) == (success, error)
    assert repr(response) == f"<Response [{code}]>"
    if error:
        with pytest.raises(HTTPError):
            response.raise_for_status()
    else:
        assert response.raise_for_status() is response


@pytest.mark.parametrize(("code", "side"), [(404, "Client"), (503, "Server")])
async def test_raise_for_status_names_status_and_url(
    any_client: AnyClient, server: AppServer, code: int, side: str
) -> None:
    url = f"{server.url}/status/{code}?a=1"
    response = await any_client.get(url)
    with pytest.raises(HTTPError) as caught:
        response.raise_for_status()
    assert str(caught.value) == f"{code} {side} Error: {response.reason} for url: {url}"
    assert caught.value.request is response.request
    assert caught.value.response is response
    assert isinstance(caught.value, RequestException)


async def test_the_url_is_the_last_one_of_the_history(
    any_client: AnyClient, server: AppServer
) -> None:
    response = await any_client.get(server.url + "/redirect/2")
    assert response.url == server.url + "/"
    assert [(hop.status_code, hop.url) for hop in response.history] == [
        (302, server.url + "/redirect/2"),
        (302, server.url + "/redirect/1"),
    ]
    assert response.history[0].is_redirect
    assert not response.is_redirect


async def test_the_url_shows_no_credentials_and_no_fragment_on_the_wire(
    client: AnyClient, app: AppServer
) -> None:
    url = app.url.replace("//", "//user:hidden@") + "/bytes/1?q=1#part"
    response = await client.get(url)
    assert "hidden" not in response.url
    assert "hidden" not in repr(response.request)
    assert app.requests[-1].target == "/bytes/1?q=1"


async def test_cookies_of_a_response_are_its_own(client: AnyClient, app: AppServer) -> None:
    first = await client.get(app.url + "/cookies/set?a=1&b=2")
    assert dict(first.cookies.items()) == {"a": "1", "b": "2"}
    second = await client.get(app.url)
    assert list(second.cookies) == []
    assert first.cookies is first.cookies


async def test_links_are_read(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.get(server.url + "/links")
    assert response.links == {
        "next": {"url": "/page/2", "rel": "next"},
        "last": {"url": "/page/9", "rel": "last", "title": "the, end"},
    }
    assert (await any_client.get(server.url)).links == {}


@pytest.mark.parametrize(
    ("target", "url"), [("/voilà".encode(), "/voil%C3%A0"), (b"/caf\xe9?50%", "/caf%E9?50%25")]
)
def test_the_url_of_a_link_keeps_its_bytes(target: bytes, url: str) -> None:
    request = ClientRequest("GET", "http://h/")
    response = Response.of(request, headers={"Link": b"<" + target + b'>; rel="next"'})
    assert request.url.join(response.links["next"]["url"]).target == url


async def test_a_response_has_times_and_peer(any_client: AnyClient, server: AppServer) -> None:
    first = await any_client.get(server.url)
    second = await any_client.get(server.url + "/bytes/1000")
    for found in (first, second):
        timings = found.timings
        assert isinstance(timings, Timings)
        assert 0 < timings.first_byte <= timings.total < 5
        assert timings.peer == ("127.0.0.1", server.port)
        assert found.elapsed == timedelta(seconds=timings.first_byte)
    assert not first.timings.reused
    assert first.timings.connect > 0
    assert (first.timings.tls > 0) == server.url.startswith("https:")
    assert second.timings.reused
    assert second.timings.connect == second.timings.tls == 0


async def test_trailers_are_separate(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.get(server.url + "/trailers")
    assert response.content == b"hello"
    assert response.trailers["X-Checksum"]
    assert "x-checksum" not in response.headers


async def test_early_hints_are_not_the_response(any_client: AnyClient, server: AppServer) -> None:
    response = await any_client.get(server.url + "/hints")
    assert response.status_code == 200
    assert response.content == b"hello"
    assert "link" not in response.headers


# --- text ---


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        (None, None),
        ("text/plain", None),
        ("text/plain; charset=latin-1", "latin-1"),
        ('text/plain; charset="UTF-8"', "utf-8"),
        ("text/plain; x=y; CHARSET= utf-16 ", "utf-16"),
        ("text/plain; charset=", None),
        ("application/json", "utf-8"),
        ("application/json; charset=latin-1", "latin-1"),
    ],
)
async def test_the_encoding_is_that_of_the_content_type(
    client: AnyClient, content_type: str | None, encoding: str | None
) -> None:
    assert (await fetch(client, b"x", content_type)).encoding == encoding


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("latin-1", b"h\xe9", "hé"),
        ("utf-16", "hé".encode("utf-16"), "hé"),
        ("shift_jis", "日本".encode("shift_jis"), "日本"),
        ("nonsense", "hé".encode(), "hé"),
        ("base64", b"aGk=", "aGk="),
        ("utf-8", b"h\xff", "h�"),
        ("", b"\xef\xbb\xbfhi", "\ufeffhi"),
    ],
)
async def test_text_never_fails(client: AnyClient, charset: str, body: bytes, text: str) -> None:
    assert (await fetch(client, body, f"text/plain; charset={charset}")).text == text


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("utf-16", "hé\n".encode("utf-16-le"), "hé\n"),
        ("utf-32", "hé\n".encode("utf-32-le"), "hé\n"),
        ("utf-16", b"\n", "\ufffd"),
        ("punycode", b"h-\n", "h-\n"),
        ("idna", b"xn--\xff..\n", "xn--\ufffd..\n"),
        ("undefined", "hé\n".encode(), "hé\n"),
        ("utf-7", b"+ADw-script+AD4-\n", "+ADw-script+AD4-\n"),
        ("unicode_escape", b"\\u0041\n", "\\u0041\n"),
        ("iso-2022-jp", b"\x1b(\x1b0123456789\n", None),
        ("x" * 20_000, "hé\n".encode(), "hé\n"),
    ],
)
async def test_text_is_the_same_whole_and_in_pieces_whatever_its_charset_is_called(
    client: AnyClient, charset: str, body: bytes, text: str | None
) -> None:
    headers = [("Content-Type", f"text/plain; charset={charset}")]
    with RawServer(respond(response(body, headers=headers))) as raw:
        found = await client.get(raw.url)
        assert found.encoding == charset
        if text is not None:
            assert found.text == text
        for kind in ("text", "lines"):
            async with await client.stream("GET", raw.url) as stream:
                pieces = [piece async for piece in stream.iterate(kind)]
            if text is not None:
                assert "".join(pieces) == text.replace("\n", "" if kind == "lines" else "\n")
    assert isinstance(found.text, str)


async def test_an_encoding_that_was_set_may_be_any_codec_for_text(client: AnyClient) -> None:
    response = await fetch(client, b"\\u0041", "text/plain; charset=unicode_escape")
    response.encoding = "unicode_escape"
    assert response.text == "A"
    response.encoding = "punycode"
    assert response.text == "\\u0041"


async def test_an_encoding_may_be_set(client: AnyClient) -> None:
    response = await fetch(client, b"h\xe9", "text/plain; charset=utf-8")
    assert response.text == "h�"
    response.encoding = "latin-1"
    assert response.text == "hé"
    response.encoding = None
    assert response.text == "h�"


# --- JSON ---


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
async def test_json_detects_its_unicode_encoding(client: AnyClient, encoding: str) -> None:
    body = json.dumps({"ä": [1, "€"]}, ensure_ascii=False).encode(encoding)
    assert (await fetch(client, body, "application/json")).json() == {"ä": [1, "€"]}


CHARSETS = [
    ("iso-8859-1", "é"),
    ("windows-1252", "€"),
    ("koi8-r", "привет"),
    ("shift_jis", "ソ表"),  # its second bytes are backslashes
    ("gbk", "中文"),
    ("euc-kr", "한국"),
    ("iso-2022-jp", "日本"),  # all its bytes are ASCII, too
]


@pytest.mark.parametrize(("charset", "value"), CHARSETS)
@pytest.mark.parametrize("kind", ["application/json; charset={}", 'text/x; a=b; Charset="{}"'])
async def test_json_in_no_unicode_encoding_has_the_charset_of_content_type(
    client: AnyClient, charset: str, value: str, kind: str
) -> None:
    body = json.dumps({value: [value]}, ensure_ascii=False).encode(charset)
    found = await fetch(client, body, kind.format(charset.upper()))
    assert found.json() == found.json(type=dict[str, list[str]]) == {value: [value]}
    headers = [("Content-Type", kind.format(charset))]
    with RawServer(respond(response(body, headers=headers))) as raw:
        async with await client.stream("GET", raw.url) as stream:
            await stream.read()
            assert stream.real.json() == {value: [value]}


@pytest.mark.parametrize("charset", ["iso-8859-1", "shift_jis", "utf-16", "no-charset"])
async def test_json_in_utf_8_is_read_whatever_its_charset_is_said_to_be(
    client: AnyClient, charset: str
) -> None:
    response = await fetch(client, '"é"'.encode(), f"application/json; charset={charset}")
    assert response.json() == "é"


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        (b'"\xe9"', "utf-8"),
        (b'"\xe9"', "utf-7"),
        (b'"\xe9"', "no-charset"),
        (b'"\x81"', "windows-1252"),
        (b'"\xff\xfe"', "shift_jis"),
        (b'"\xe9', "iso-8859-1"),
        (b"\x1b$B" * 50_000, "iso-2022-jp"),
    ],
)
async def test_json_that_no_charset_fits_is_an_error(
    client: AnyClient, body: bytes, charset: str
) -> None:
    response = await fetch(client, body, f"application/json; charset={charset}")
    with pytest.raises(JSONDecodeError, match=charset) as caught:
        response.json()
    assert caught.value.response is response


async def test_json_without_a_charset_has_that_of_the_client(make_client: Make) -> None:
    client = make_client(default_encoding="cp1252")
    assert (await fetch(client, b'"\x80"', "text/plain")).json() == "€"
    assert (await fetch(client, '"é"'.encode(), "text/plain")).json() == "é"


async def test_json_takes_the_options_of_the_standard_library(client: AnyClient) -> None:
    response = await fetch(client, b'{"a": 1.5}', None)
    assert response.json(parse_float=str) == {"a": "1.5"}


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b'{"a": 1} x', b"\xff\xff\xff", b"\xc3"])
async def test_invalid_json_is_an_error_of_every_family(client: AnyClient, body: bytes) -> None:
    response = await fetch(client, body, "application/json")
    with pytest.raises(JSONDecodeError) as caught:
        response.json()
    assert isinstance(caught.value, json.JSONDecodeError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, InvalidJSONError)
    assert caught.value.response is response
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.msg, again.pos) == (caught.value.msg, caught.value.pos)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"1" * 5000, "5000 digits"),
        (b'{"a": [-%b]}' % (b"1" * 5000), "5000 digits"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"parse_float": str}])
async def test_json_that_python_cannot_parse_is_an_error(
    client: AnyClient, body: bytes, what: str, options: dict[str, Any]
) -> None:
    response = await fetch(client, body, "application/json")
    with pytest.raises(JSONDecodeError, match=what) as caught:
        response.json(**options)
    assert caught.value.response is response
    assert caught.value.request is response.request


async def test_an_error_of_a_function_for_json_is_the_callers_own(client: AnyClient) -> None:
    class OwnError(ValueError):
        pass

    def refuse(found: Any) -> Any:
        raise OwnError

    response = await fetch(client, b"{}", "application/json")
    with pytest.raises(OwnError):
        response.json(object_hook=refuse)


async def test_json_obeys_an_encoding_that_was_set(client: AnyClient) -> None:
    response = await fetch(client, b'"h\xe9"', "application/json")
    response.encoding = "latin-1"
    assert response.json() == "hé"


# --- a value ---


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
async def test_a_response_survives_pickling(
    client: AnyClient, app: AppServer, protocol: int
) -> None:
    response = await client.get(
        app.url + "/redirect-to?url=/json", headers={"X-A": "b"}, auth=("user", "secret")
    )
    data = pickle.dumps(response, protocol)
    assert b"secret" not in data
    again = pickle.loads(data)
    assert again.status_code == 200
    assert again.content == response.content
    assert again.json() == response.json()
    assert again.headers == response.headers
    assert again.url == response.url
    assert again.timings == response.timings
    assert [hop.status_code for hop in again.history] == [302]
    assert again.request.headers["x-a"] == "b"
    assert again.request.method == "GET"


async def test_a_request_survives_pickling_and_can_be_sent(
    client: AnyClient, app: AppServer
) -> None:
    request = client.real.build_request("PUT", app.url + "/echo", json={"a": 1}, timeout=3)
    again = pickle.loads(pickle.dumps(request))
    assert repr(again) == repr(request)
    assert again.body.data == b'{"a": 1}'
    assert again.timeout == request.timeout
    assert again.headers == request.headers


async def test_a_streamed_response_that_was_read_survives_pickling(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream("GET", app.url + "/json") as stream:
        body = await stream.read()
        again = pickle.loads(pickle.dumps(stream.real))
    assert again.content == body
    assert again.is_closed


async def test_a_response_can_be_copied(client: AnyClient, app: AppServer) -> None:
    response = await client.get(app.url + "/json")
    twin = copy.copy(response)
    assert twin.content is response.content
    assert copy.deepcopy(response).json() == response.json()


async def test_a_whole_response_has_the_verbs_of_a_streamed_one(
    client: AnyClient, app: AppServer
) -> None:
    response = await client.get(app.url + "/bytes/1000")
    with response:
        assert response.read() == response.content
    async with response:
        assert await response.aread() == response.content
    assert b"".join(response.iter_bytes(7)) == response.content
    assert [len(piece) for piece in response.iter_bytes(400)] == [400, 400, 200]
    assert list(response.iter_bytes()) == [response.content]


@EVERY_API
async def test_a_filename_of_the_server_writes_no_file(
    fetch: Fetch, api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only file is the one that the caller of a download names."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    for value in named_by_a_server(tmp_path):
        with RawServer(respond(response(b"x", headers=[("Content-Disposition", value)]))) as raw:
            await fetch(raw.url + "/..%2f..%2fevil")
    files = [path.name for path in tmp_path.rglob("*") if not path.is_dir()]
    assert files == (["downloaded"] if api.startswith("download") else [])


def test_the_history_is_built_on_first_use_and_cached() -> None:
    request = ClientRequest("GET", "http://h.test/")
    first, second = Response.of(request, 302), Response.of(request)
    assert "_history" not in vars(second)
    second.history.append(first)
    assert second.history == [first]
    assert first.history == []
    assert second.history is not first.history
    second.history = [first, first]
    assert pickle.loads(pickle.dumps(second)).history[1].status_code == 302


# --- the Link header: what is read of it, and in what time ---


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("", {}),
        ("no link", {}),
        ("<a>", {"a": {"url": "a"}}),
        ("<a", {}),
        ("<a>; rel=next", {"next": {"url": "a", "rel": "next"}}),
        ("<a> ; REL = next", {"next": {"url": "a", "rel": "next"}}),
        (
            '</2>; rel="next", </9>; rel="last"; title="the, end"',
            {
                "next": {"url": "/2", "rel": "next"},
                "last": {"url": "/9", "rel": "last", "title": "the, end"},
            },
        ),
        ("<a>;rel=1,,<b>;rel=2", {"1": {"url": "a", "rel": "1"}, "2": {"url": "b", "rel": "2"}}),
        ("<a>;rel=first;rel=second", {"first": {"url": "a", "rel": "first"}}),
        ("<a>;rel", {"a": {"url": "a", "rel": ""}}),
        ("<a>;;;rel=x", {"x": {"url": "a", "rel": "x"}}),
        (
            '<a>; title="say \\"hi\\"; <b>"; rel=x',
            {"x": {"url": "a", "title": 'say "hi"; <b>', "rel": "x"}},
        ),
        ("<a>; rel=x junk; title=y", {"x": {"url": "a", "rel": "x", "title": "y"}}),
        (
            '<a>; title="no end, <b>; rel=x',
            {"a": {"url": "a", "title": ""}, "x": {"url": "b", "rel": "x"}},
        ),
        ("<a><b>;rel=x", {"a": {"url": "a"}, "x": {"url": "b", "rel": "x"}}),
        ("< a b >", {" a b ": {"url": " a b "}}),
    ],
)
def test_links_are_read_as_far_as_they_are_some(
    value: str, links: dict[str, dict[str, str]]
) -> None:
    assert links_of(value) == links


@given(st.text(alphabet='<>;,="\\ \tab', max_size=40))
def test_no_value_breaks_the_parser(value: str) -> None:
    for name, link in links_of(value).items():
        assert name in (link["url"], link.get("rel"))


def links_of(value: str) -> dict[str, dict[str, str]]:
    headers = {"Link": value.strip()}
    return ClientRequest("GET", "http://h/").respond(headers=headers).links


PIECES = [
    "<",
    "<a",
    "<a>",
    "<a>;",
    ";",
    '"',
    "=",
    ",",
    '<a>;x="',
    '<a>;x=\\"',
    '<a>;x="\\',
    ";a=b",
    ';a="b"c',
]


@pytest.mark.parametrize("piece", [*PIECES, " ", "\t", "; ", "<a>; ", "<a>;x ", "<a>;x =", ", <"])
def test_a_value_as_long_as_a_head_may_be_is_parsed_at_once(piece: str) -> None:
    # Quadratic parsing would take hours here.
    links_of("<a>" + piece * (300_000 // len(piece)))
