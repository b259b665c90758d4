"""The target of a redirect, and which parts of the request are kept."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import BasicAuth, ClientRequest, Headers
from curlhttp._features.redirects import (
    build_redirect,
    get_location,
    get_redirect_method,
)
from curlhttp._http.body import open_body
from curlhttp._http.headers import SENSITIVE
from curlhttp._http.response import REDIRECT_STATUSES
from curlhttp._http.url import may_keep_credentials, parse_url
from curlhttp.exceptions import InvalidSchema, InvalidURL, UnrewindableBodyError


def follow(
    location: str, status: int = 302, sensitive: frozenset[str] = SENSITIVE, **request: Any
) -> ClientRequest:
    asked = ClientRequest(
        request.pop("method", "GET"), request.pop("url", "http://h.test/a/b?q#f"), **request
    )
    return build_redirect(asked, status, location, sensitive)


# --- method and body ---


@pytest.mark.parametrize(
    ("status", "get", "post", "put", "delete", "head"),
    [
        (301, "GET", "GET", "PUT", "DELETE", "HEAD"),
        (302, "GET", "GET", "GET", "GET", "HEAD"),
        (303, "GET", "GET", "GET", "GET", "HEAD"),
        (307, "GET", "POST", "PUT", "DELETE", "HEAD"),
        (308, "GET", "POST", "PUT", "DELETE", "HEAD"),
    ],
)
def test_the_method_follows_requests_matrix(
    status: int, get: str, post: str, put: str, delete: str, head: str
) -> None:
    methods = ("GET", "POST", "PUT", "DELETE", "HEAD")
    assert [get_redirect_method(method, status) for method in methods] == [
        get,
        post,
        put,
        delete,
        head,
    ]
    assert follow("/", status, method="POST").method == post


BODY_HEADERS = {
    "Content-Length": "4",
    "content-type": "text/plain",
    "Transfer-Encoding": "chunked",
    "Content-Encoding": "gzip",
    "Content-Language": "en",
    "Expect": "100-continue",
    "CONTENT-MD5": "jXd/OF09/siBXSD3SWAm3A==",
    "content-digest": "sha-256=:x:",
    "Repr-Digest": "sha-256=:x:",
    "Unencoded-Digest": "sha-256=:x:",
    "Digest": "sha-256=x",
    "Content-Location": "/x",
    "Content-Disposition": "attachment",
    "Content-Range": "bytes 0-3/4",
    "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
    "Trailer": "X-Sum",
}
CHANGES = [(301, "POST")] + [
    (status, method)
    for status in (302, 303)
    for method in ("POST", "PUT", "PATCH", "DELETE", "PROPFIND", "QUERY", "OPTIONS", "X-OWN")
]
STAYS = [
    *((301, method) for method in ("PUT", "PATCH", "DELETE", "PROPFIND", "QUERY", "X-OWN")),
    *((status, "GET") for status in (301, 302, 303)),
    *((status, "HEAD") for status in (301, 302, 303)),
    *((status, method) for status in (307, 308) for method in ("GET", "POST", "PUT", "QUERY")),
]


@pytest.mark.parametrize(("status", "method"), CHANGES)
def test_if_the_method_changes_the_body_and_its_headers_are_dropped(
    status: int, method: str
) -> None:
    headers = Headers({**BODY_HEADERS, "Accept": "x", "Want-Content-Digest": "sha-256=1"})
    request = follow("/", status, method=method, headers=headers, body=open_body(b"data"))
    assert request.method == "GET"
    assert request.body is None
    assert request.headers == {"Accept": "x", "Want-Content-Digest": "sha-256=1"}


@pytest.mark.parametrize(("status", "method"), STAYS)
def test_if_the_method_stays_the_body_is_sent_again_from_its_start(
    status: int, method: str
) -> None:
    body = open_body(io.BytesIO(b"data"))
    body.read(3)
    request = follow("/", status, method=method, headers=Headers(BODY_HEADERS), body=body)
    assert request.method == method
    assert request.body is body
    assert body.read(10) == b"data"
    assert request.headers == BODY_HEADERS


def test_a_consumed_body_is_an_error() -> None:
    body = open_body(iter([b"data"]))
    body.read(10)
    for status, method in STAYS:
        with pytest.raises(UnrewindableBodyError, match=f"{method} http://h.test/.*{status}"):
            follow("/", status, method=method, body=body)
    assert follow("/", 303, method="POST", body=body).body is None


# --- where it leads ---


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("c", "http://h.test/a/c#f"),
        ("/c", "http://h.test/c#f"),
        ("../c", "http://h.test/c#f"),
        ("?p", "http://h.test/a/b?p#f"),
        ("//other.test/c", "http://other.test/c#f"),
        ("https://other.test", "https://other.test/#f"),
        ("HTTPS://OTHER.test/", "https://other.test/#f"),
        ("/c#g", "http://h.test/c#g"),
        ("#g", "http://h.test/a/b?q#g"),
        ("/sp ace", "http://h.test/sp%20ace#f"),
        ("/\xc3\xbc", "http://h.test/%C3%BC#f"),  # UTF-8 as Latin-1 shows it
        ("/\xfc", "http://h.test/%FC#f"),  # a byte of no UTF-8 stays as it is
        ("/\xc3\xbc/\xfc?\xfc", "http://h.test/%C3%BC/%FC?%FC#f"),
        ("/50%?q=\xfc%C3%BC", "http://h.test/50%25?q=%FC%C3%BC#f"),
        ("/voil\xc3\xa0", "http://h.test/voil%C3%A0#f"),
        ("//b\xc3\xbccher.test/", "http://xn--bcher-kva.test/#f"),
        ("/%7Euser/%c3%bc", "http://h.test/~user/%C3%BC#f"),
    ],
)
def test_the_location_is_resolved(location: str, url: str) -> None:
    assert str(follow(location).url) == url


@pytest.mark.parametrize(
    "location",
    [
        *("file:///etc/passwd", "ftp://h.test/", "gopher://h.test/", "dict://h.test/", "scp://h/"),
        *("ws://h.test/", "data:,x", "javascript:alert(1)", "FILE:///x"),
    ],
)
def test_only_http_and_https_are_followed(location: str) -> None:
    with pytest.raises(InvalidSchema):
        follow(location)


@pytest.mark.parametrize(
    "location",
    ["http://", "http://u:s3cret@h.test:99999/", "http://u:s3cret@a b/", "//u:s3cret@*/"],
)
def test_a_bad_location_is_reported_without_credentials(location: str) -> None:
    with pytest.raises(InvalidURL) as caught:
        follow(location)
    assert "s3cret" not in str(caught.value) + repr(caught.value)


@given(st.text(st.characters(max_codepoint=255)))
def test_no_location_gets_control_characters_into_a_url(location: str) -> None:
    """Any Location is followed, refused or none."""
    try:
        url = follow(location).url
    except (InvalidURL, InvalidSchema):
        return
    assert all("!" <= char <= "~" for char in url.wire)
    assert url.scheme in ("http", "https")


@pytest.mark.parametrize(
    ("status", "values", "location"),
    [
        *((status, ["/x"], "/x") for status in sorted(REDIRECT_STATUSES)),
        *((status, ["/x"], None) for status in (200, 201, 300, 304, 305, 306, 309, 401)),
        (302, [], None),
        (302, [""], None),
        (302, ["", "/x"], "/x"),
        (302, ["/x", "/y"], "/x"),
    ],
)
def test_only_a_redirect_with_a_location_redirects(
    status: int, values: list[str], location: str | None
) -> None:
    assert get_location(status, Headers([("LOCATION", value) for value in values])) == location


def test_a_blank_location_does_not_redirect() -> None:
    assert get_location(302, Headers.from_block(b"Location:  \r\n\r\n")) is None


# --- credentials ---


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("http://h.test/", "http://h.test/x", True),
        ("http://h.test/", "http://h.test:80/", True),
        ("https://h.test:443/", "https://H.test/", True),
        ("http://h.test/", "https://h.test/", True),
        ("http://h.test:80/", "https://h.test:443/", True),
        ("https://h.test/", "http://h.test/", False),
        ("http://h.test:8080/", "https://h.test/", False),
        ("http://h.test/", "https://h.test:8443/", False),
        ("http://h.test/", "http://h.test:8080/", False),
        ("http://h.test/", "https://other.test/", False),
        ("http://h.test/", "http://sub.h.test/", False),
        ("http://h.test/", "http://test/", False),
        ("http://localhost/", "http://127.0.0.1/", False),
    ],
)
def test_credentials_stay_with_the_origin_or_its_upgrade(old: str, new: str, kept: bool) -> None:
    assert may_keep_credentials(parse_url(old), parse_url(new)) is kept
    headers = Headers([("AUTHORIZATION", "a"), ("authorization", "b"), ("x-api-key", "c")])
    auth = BasicAuth("u", "p")
    request = follow(new, url=old, headers=headers, auth=auth, sensitive=frozenset({"X-Api-Key"}))
    assert request.headers.get_list("authorization") == (["a", "b"] if kept else [])
    assert request.headers.get("x-api-key") == ("c" if kept else None)
    assert request.auth is (auth if kept else None)


@pytest.mark.parametrize("location", ["/same", "https://h.test/", "http://other.test/"])
def test_cookie_and_proxy_credentials_are_never_copied(location: str) -> None:
    headers = Headers(
        [("Cookie", "a=1"), ("cOOKIE", "b=2"), ("Proxy-Authorization", "x"), ("X-Other", "y")]
    )
    assert follow(location, headers=headers, sensitive=frozenset()).headers == {"X-Other": "y"}


def test_authorization_is_stripped_even_when_no_name_is_called_sensitive() -> None:
    """Authorization stays with its origin."""
    headers = Headers({"Authorization": "a", "X-Other": "y"})
    request = follow("//other.test/", headers=headers, sensitive=frozenset())
    assert request.headers == {"X-Other": "y"}


def test_credentials_are_not_restored_with_the_origin() -> None:
    """Credentials do not come back with the origin."""
    away = follow(
        "http://other.test/", headers=Headers({"Authorization": "a"}), auth=BasicAuth("u", "p")
    )
    back = build_redirect(away, 302, "http://h.test/", SENSITIVE)
    assert back.auth is None
    assert back.headers == {}


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("/x", "virtual.test"),
        ("http://h.test:80/", "virtual.test"),
        ("https://h.test/", None),
        ("http://other.test/", None),
    ],
)
def test_a_host_header_stays_with_its_origin(location: str, host: str | None) -> None:
    headers = Headers({"hOST": "virtual.test"})
    assert follow(location, headers=headers).headers.get("Host") == host


def test_userinfo_in_the_location_is_for_that_redirect_only() -> None:
    """Userinfo of a Location is for that redirect only, and never shown."""
    headers = Headers({"Authorization": "old"})
    hop = follow("http://us%40er:s3cret@h.test/x", headers=headers, auth=BasicAuth("u", "p"))
    assert hop.auth == BasicAuth("us@er", "s3cret")
    assert hop.url.username is None
    assert hop.url.password is None
    assert "s3cret" not in str(hop.url) + repr(hop.auth)
    assert "authorization" not in hop.headers
    hop.headers["Authorization"] = "as the auth flow sets it"
    after = build_redirect(hop, 302, "/y", SENSITIVE)
    assert after.auth is None
    assert "authorization" not in after.headers


def test_userinfo_without_a_password_will_do() -> None:
    assert follow("http://token@h.test/").auth == BasicAuth("token", "")


def test_userinfo_of_the_first_url_does_not_reach_the_next() -> None:
    request = follow("/x", url="http://u:s3cret@h.test/")
    assert request.url.username is None
    assert request.auth is None


def test_the_redirected_request_is_not_changed() -> None:
    request = ClientRequest("POST", "http://h.test/", headers={"Cookie": "a=1", "X": "y"})
    after = build_redirect(request, 302, "/x", SENSITIVE)
    assert after.headers == {"X": "y"}
    assert (request.method, str(request.url)) == ("POST", "http://h.test/")
    assert request.headers == {"Cookie": "a=1", "X": "y"}
