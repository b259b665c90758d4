"""The URL of a prepared request: what requests makes of what it is given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import AppServer

MISSING, INVALID = "MissingSchema", "InvalidURL"


def prepared(requests: Any, url: Any, params: Any = None) -> str:
    return str(requests.Request("GET", url, params=params).prepare().url)


# -- text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://x", "http://x/"),
        ("http://x/", "http://x/"),
        ("http://x?a=b", "http://x/?a=b"),
        ("http://x#f", "http://x/#f"),
        ("http://x/a?", "http://x/a"),
        ("http://x/#", "http://x/"),
        ("http://x/a;p?q#f", "http://x/a;p?q#f"),
        ("HTTP://X.com/Y", "http://x.com/Y"),
        ("  http://x/", "http://x/"),
        ("http://x/ ", "http://x/%20"),
        ("http://x//a//b", "http://x//a//b"),
        ("http://x/:80", "http://x/:80"),
        (b"http://x/", "http://x/"),
        ("http://x/é".encode(), "http://x/%C3%A9"),
        ("http://x/?a=1&&b=2&", "http://x/?a=1&&b=2&"),
        ("http://x/?a?b#c#d", "http://x/?a?b#c%23d"),
    ],
)
def test_url_is_normalised(requests: Any, given: Any, expected: str) -> None:
    assert prepared(requests, given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/a b?q=ü#fr ag", "/a%20b?q=%C3%BC#fr%20ag"),
        ('/<>"{}|\\^`[]', "/%3C%3E%22%7B%7D%7C%5C%5E%60%5B%5D"),
        ("/!$&'()*+,;=:@", "/!$&'()*+,;=:@"),
        ("/a\r\nb\tc", "/a%0D%0Ab%09c"),
        ("/\x00\x7f", "/%00%7F"),
        ("/%7Euser%2f%41", "/~user%2FA"),
        ("/a?b=c%26d&e=f+g", "/a?b=c%26d&e=f+g"),
        ("/%e9%C3%a9", "/%E9%C3%A9"),
        ("/%20c%zz", "/%2520c%25zz"),
        ("/a%", "/a%25"),
        ("/%2f?%zz", "/%2F?%25zz"),
        ("/x\\y", "/x%5Cy"),
    ],
)
def test_path_and_query_are_percent_encoded_once(requests: Any, given: str, expected: str) -> None:
    assert prepared(requests, "http://x" + given) == "http://x" + expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/../a/./b/..", "/a/"),
        ("/a/../../b", "/b"),
        ("/.", "/"),
        ("/a//../b", "/a/b"),
        ("/.a/..b/...", "/.a/..b/..."),
        ("/a?b/../c#d/../e", "/a?b/../c#d/../e"),
        ("/../..//y", "/y"),
    ],
)
def test_dot_segments_are_removed_from_the_path_alone(
    requests: Any, given: str, expected: str
) -> None:
    assert prepared(requests, "http://x" + given) == "http://x" + expected


def test_any_object_is_taken_by_its_text(requests: Any) -> None:
    class Link:
        def __str__(self) -> str:
            return " http://x/a b"

    assert prepared(requests, Link()) == "http://x/a%20b"


def test_long_url_is_prepared_like_any_other(requests: Any) -> None:
    assert prepared(requests, "HTTP://x/" + "é" * 5000) == "http://x/" + "%C3%A9" * 5000


# -- userinfo and host


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://u:p@h/", "http://u:p@h/"),
        ("http://u@h:8/x", "http://u@h:8/x"),
        ("http://u%40:p%3a@h/", "http://u%40:p%3A@h/"),
        ("http://ü:p w@h/", "http://%C3%BC:p%20w@h/"),
        ("http://a@b@c/", "http://a%40b@c/"),
        ("http://@x/", "http://x/"),
        ("http://u/p@h/", "http://u/p@h/"),
    ],
)
def test_userinfo_stays_in_the_url(requests: Any, given: str, expected: str) -> None:
    request = requests.PreparedRequest()
    request.prepare_url(given, None)
    assert request.url == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x:0080", "x:80"),
        ("x:", "x"),
        ("x:0", "x"),
        ("x:65535", "x:65535"),
        ("ü.de:80", "xn--tda.de:80"),
        ("日本.JP", "xn--wgv71a.jp"),
        ("faß.de", "xn--fa-hia.de"),
        ("xn--fiqs8s", "xn--fiqs8s"),
        ("x_y", "x_y"),
        ("a..b.", "a..b."),
        ("[::1]:8", "[::1]:8"),
        ("[FE80::A%25eth0]", "[fe80::a%25eth0]"),
        ("A%2eB%2Fc", "a.b%2Fc"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_host_and_port_are_normalised(requests: Any, given: str, expected: str) -> None:
    assert prepared(requests, f"http://{given}/") == f"http://{expected}/"


@pytest.mark.parametrize(
    ("url", "name", "text"),
    [
        ("foo", MISSING, "Invalid URL 'foo': No scheme supplied. Perhaps you meant https://foo?"),
        ("", MISSING, "Invalid URL '': No scheme supplied. Perhaps you meant https://?"),
        (None, MISSING, "Invalid URL 'None': No scheme supplied. Perhaps you meant https://None?"),
        ("//x", MISSING, "Invalid URL '//x': No scheme supplied. Perhaps you meant https:////x?"),
        ("http.a:80/b", MISSING, None),
        ("http://", INVALID, "Invalid URL 'http://': No host supplied"),
        ("http:///x", INVALID, "Invalid URL 'http:///x': No host supplied"),
        ("http:x", INVALID, "Invalid URL 'http:x': No host supplied"),
        ("http://:80/", INVALID, "Invalid URL 'http://:80/': No host supplied"),
        ("http://*.x/", INVALID, "URL has an invalid label."),
        ("http://.x/", INVALID, "URL has an invalid label."),
        ("http://☃.net/", INVALID, "Failed to parse: Name '☃' is not a valid IDNA label"),
        ("http://x:99999/", INVALID, "Failed to parse: http://x:99999/"),
        ("http://x:abc/", INVALID, "Failed to parse: 'x:abc' is not a valid host or port"),
        ("http://[::g]/", INVALID, "Failed to parse: '[::g]' is not a valid host or port"),
        ("http://x%zz/", INVALID, "Failed to parse: 'x%zz' is not a valid host or port"),
        ("http://a b/", INVALID, "Failed to parse: Host 'a b' contains invalid character ' '"),
        ("http://a\nb/", INVALID, r"Failed to parse: Host 'a\nb' contains invalid character '\n'"),
        ("http://a%0Ab/", INVALID, None),
    ],
)
def test_url_that_cannot_be_requested_is_refused(
    requests: Any, url: Any, name: str, text: str | None
) -> None:
    for _ in range(2):  # an error is not remembered as a success
        with pytest.raises(getattr(requests.exceptions, name)) as caught:
            prepared(requests, url)
        assert isinstance(caught.value, ValueError)
        assert text in (None, str(caught.value))


def test_bytes_that_are_no_utf_8_are_refused(requests: Any) -> None:
    with pytest.raises(UnicodeDecodeError):
        prepared(requests, b"http://x/\xff")


# -- other schemes


@pytest.mark.parametrize(
    "url", ["mailto:a b@c", "ftp://x/ y", "data:,a b", "custom://X Y/z", "localhost:80/ x"]
)
def test_other_schemes_are_left_alone(requests: Any, url: str) -> None:
    assert prepared(requests, " " + url, params={"a": "b"}) == url


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http+unix://%2FVar%2Frun/x y", "http+unix://%2FVar%2Frun/x%20y"),
        ("HTTPX://X:080/../é", "httpx://X:80/../%C3%A9"),
        ("httpx://é/", "httpx://xn--9ca/"),
    ],
)
def test_schemes_like_http_are_quoted_but_not_normalised(
    requests: Any, given: str, expected: str
) -> None:
    assert prepared(requests, given) == expected


# -- params


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (None, ""),
        ({}, ""),
        ("", ""),
        ({"a": None}, ""),
        ({"a": []}, ""),
        ({"a": 1, "b": [1, None, 2], "c": True, "d": 1.5}, "a=1&b=1&b=2&c=True&d=1.5"),
        ({"d e": "x y", "e": "ü", "f": b"\xff", b"g": b"h"}, "d+e=x+y&e=%C3%BC&f=%FF&g=h"),
        ({"a": "%zz#&="}, "a=%25zz%23%26%3D"),
        ({"a": "", "": "b"}, "a=&=b"),
        ({"a": ("x", "y"), "b": range(2)}, "a=x&a=y&b=0&b=1"),
        ({"a": [[1, 2], ("x",)]}, "a=1&a=2&a=x"),
        ({1: 2, None: 3}, "1=2&None=3"),
        ([("a", 1), ("a", 2)], "a=1&a=2"),
        ((("a", 1),), "a=1"),
        ("a=b", "a=b"),
        (b"a=b", "a=b"),
        ("a b&ü", "a%20b&%C3%BC"),
        ("&[~]", "&[~]"),
        (iter([("a", 1)]), "a=1"),
    ],
)
def test_params_are_appended_to_the_query(requests: Any, params: Any, expected: str) -> None:
    params = list(params) if hasattr(params, "__next__") else params
    assert prepared(requests, "http://x/p", params) == "http://x/p" + ("?" * bool(expected)) + (
        expected
    )
    assert prepared(requests, "http://x/p?q=1#f", params) == "http://x/p?q=1" + (
        "&" * bool(expected)
    ) + (expected + "#f")


def test_bad_escape_in_text_params_makes_every_percent_sign_literal(requests: Any) -> None:
    assert prepared(requests, "http://x/%20", "a=%zz") == "http://x/%2520?a=%25zz"


def test_params_that_are_no_pairs_are_refused(requests: Any) -> None:
    with pytest.raises(TypeError):
        prepared(requests, "http://x/", [1])
    with pytest.raises(ValueError):
        prepared(requests, "http://x/", ["abc"])


# -- path_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://x", "/"),
        ("http://x/a;b?c#d", "/a;b?c"),
        ("http://x?c", "/?c"),
        ("http://u:p@x/a?", "/a"),
        (None, "/"),
    ],
)
def test_path_url_is_what_the_server_is_asked_for(
    requests: Any, url: str | None, expected: str
) -> None:
    request = requests.PreparedRequest()
    request.url = url
    assert request.path_url == expected


# -- on the wire


def test_fragment_stays_in_the_url_and_is_not_sent(requests: Any, app: AppServer) -> None:
    response = requests.get(app.url + "/echo?a=b#frag", params={"c": "d e"})
    assert response.url == app.url + "/echo?a=b&c=d+e#frag"
    assert app.requests[-1].target == "/echo?a=b&c=d+e"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/echo/caf%C3%A9?d=50%", "/echo/caf%C3%A9?d=50%25"),
        ("/echo/caf%C3%A9%?d=%41%", "/echo/caf%25C3%25A9%25?d=%2541%25"),
        ("/echo/./%20%", "/echo/./%2520%25"),
    ],
)
def test_a_bare_percent_sign_makes_those_of_its_part_literal_on_the_wire(
    requests: Any, app: AppServer, path: str, target: str
) -> None:
    request = requests.Request("GET", app.url).prepare()
    request.url = app.url + path
    with requests.Session() as session:
        session.send(request)
    assert app.requests[-1].target == target


def test_escapes_go_out_as_the_url_shows_them(requests: Any, app: AppServer) -> None:
    response = requests.get(app.url + "/echo/%7Ea%2fb//c%20c%C3%A9[1]")
    target = "/echo/~a%2Fb//c%20c%C3%A9%5B1%5D"
    assert response.url == app.url + target
    assert app.requests[-1].target == target


def test_unknown_scheme_has_no_adapter(requests: Any) -> None:
    with pytest.raises(requests.exceptions.InvalidSchema) as caught:
        requests.get("ftp://x/")
    assert str(caught.value) == "No connection adapters were found for 'ftp://x/'"
