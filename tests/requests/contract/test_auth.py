"""Basic, proxy and Digest authentication, and functions in their place."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import threading
from typing import Any

import pytest

from tests.servers import AppServer, RawServer, respond, response
from tests.servers.auth import digest_fields

CHALLENGE = 'Digest realm="r", nonce="n", qop="auth"'


def prepared(requests: Any, url: str = "http://x/p?q", method: str = "GET", **kwargs: Any) -> Any:
    return requests.Request(method, url, **kwargs).prepare()


def basic(pair: bytes) -> str:
    return "Basic " + base64.b64encode(pair).decode()


# -- Basic


@pytest.mark.parametrize(
    ("user", "password", "pair"),
    [
        ("u", "p", b"u:p"),
        (b"u", "p", b"u:p"),
        ("u", b"\xff", b"u:\xff"),
        ("ü", "ö", b"\xfc:\xf6"),
        ("u:x", "", b"u:x:"),
        ("", "", b":"),
    ],
)
def test_basic_credentials_are_latin_1(
    requests: Any, user: Any, password: Any, pair: bytes
) -> None:
    assert requests.auth._basic_auth_str(user, password) == basic(pair)
    for auth in ((user, password), requests.auth.HTTPBasicAuth(user, password)):
        assert prepared(requests, auth=auth).headers == {"Authorization": basic(pair)}


def test_text_beyond_latin_1_is_refused(requests: Any) -> None:
    with pytest.raises(UnicodeEncodeError):
        prepared(requests, auth=("日", "x"))


def test_credentials_that_are_no_text_get_a_warning(requests: Any) -> None:
    text = (
        "Non-string {} will no longer be supported in Requests 3.0.0. Please convert the object"
        " you've passed in ({}) to a string or bytes object in the near future to avoid problems."
    )
    with pytest.warns(DeprecationWarning, match="Non-string") as caught:
        assert requests.auth._basic_auth_str(5, None) == basic(b"5:None")
    assert [str(warning.message) for warning in caught] == [
        text.format("usernames", 5),
        text.format("passwords", "<class 'NoneType'>"),
    ]


def test_proxy_credentials_have_a_header_of_their_own(requests: Any) -> None:
    auth = requests.auth.HTTPProxyAuth("u", "p")
    assert isinstance(auth, requests.auth.HTTPBasicAuth)
    assert prepared(requests, auth=auth).headers == {"Proxy-Authorization": basic(b"u:p")}


def test_auth_objects_are_equal_when_their_credentials_are(requests: Any) -> None:
    for kind in (requests.auth.HTTPBasicAuth, requests.auth.HTTPDigestAuth):
        auth = kind("a", "b")
        assert (auth.username, auth.password) == ("a", "b")
        assert auth == kind("a", "b")
        assert not auth.__ne__(kind("a", "b"))
        assert auth != kind("a", "c")
        assert auth != kind("c", "b")
        assert auth != ("a", "b")
        with pytest.raises(TypeError):
            hash(auth)


def test_module_names_the_content_types(requests: Any) -> None:
    assert requests.auth.CONTENT_TYPE_FORM_URLENCODED == "application/x-www-form-urlencoded"
    assert requests.auth.CONTENT_TYPE_MULTI_PART == "multipart/form-data"


# -- what auth= can be


@pytest.mark.parametrize("auth", [None, (), [], "", 0, False])
def test_nothing_is_no_auth(requests: Any, auth: Any) -> None:
    assert dict(prepared(requests, auth=auth).headers) == {}


@pytest.mark.parametrize("auth", [["u", "p"], ("u",), ("u", "p", "x"), "text", 5])
def test_auth_is_a_pair_or_a_function(requests: Any, auth: Any) -> None:
    with pytest.raises(TypeError, match="object is not callable"):
        prepared(requests, auth=auth)


def test_base_class_has_to_be_overridden(requests: Any) -> None:
    with pytest.raises(NotImplementedError) as caught:
        requests.auth.AuthBase()(None)
    assert str(caught.value) == "Auth hooks must be callable."


def test_function_may_change_the_body(requests: Any) -> None:
    def change(request: Any) -> Any:
        request.body = "longer"
        request.note = "kept"
        return request

    request = prepared(requests, method="POST", data="x", auth=change)
    assert (request.body, request.note) == ("longer", "kept")
    assert request.headers["Content-Length"] == "6"


def test_function_sees_the_finished_request(requests: Any) -> None:
    def look(request: Any) -> Any:
        assert request.method == "POST"
        assert request.url == "http://x/?p=1"
        assert request.body == "a=b"
        assert request.headers["Cookie"] == "c=d"
        assert request.headers["Content-Length"] == "3"
        request.headers["X-Seen"] = "1"
        return request

    request = prepared(
        requests,
        "http://x",
        "POST",
        data={"a": "b"},
        params={"p": 1},
        cookies={"c": "d"},
        auth=look,
    )
    assert request.headers["X-Seen"] == "1"


def test_function_may_return_another_request(requests: Any) -> None:
    def move(request: Any) -> Any:
        other = request.copy()
        other.url = "http://other/"
        other.headers["A"] = "b"
        return other

    request = prepared(requests, auth=move)
    assert request.url == "http://other/"
    assert request.headers == {"A": "b"}


def test_function_has_to_return_a_request(requests: Any) -> None:
    with pytest.raises(AttributeError):
        prepared(requests, auth=lambda request: None)


def test_hooks_of_auth_are_called_before_those_of_the_request(requests: Any) -> None:
    def first(response: Any, **kwargs: Any) -> None: ...
    def second(response: Any, **kwargs: Any) -> None: ...

    def hooked(request: Any) -> Any:
        request.register_hook("response", first)
        return request

    request = prepared(requests, auth=hooked, hooks={"response": second})
    assert request.hooks == {"response": [first, second]}


# -- userinfo


@pytest.mark.parametrize(
    ("userinfo", "pair"),
    [
        ("u:p", b"u:p"),
        ("u%40:p%3A", b"u@:p:"),
        (":p", b":p"),
        ("u:", b"u:"),
        ("%C3%BC:p", b"\xfc:p"),
        ("a@b:c", b"a@b:c"),
        ("u+x:p+y", b"u+x:p+y"),
    ],
)
def test_userinfo_of_the_url_is_basic_auth(requests: Any, userinfo: str, pair: bytes) -> None:
    request = prepared(requests, f"http://{userinfo}@x/", headers={"authorization": "mine"})
    assert request.headers == {"Authorization": basic(pair)}
    assert request.url == f"http://{userinfo.replace('a@b', 'a%40b')}@x/"


@pytest.mark.parametrize("url", ["http://u@x/", "http://:@x/", "http://x/u:p@y", "mailto:u:p@x"])
def test_userinfo_without_a_password_is_none(requests: Any, url: str) -> None:
    assert dict(prepared(requests, url).headers) == {}


def test_argument_wins_over_userinfo(requests: Any) -> None:
    request = prepared(requests, "http://u:p@x/", auth=("a", "b"))
    assert request.headers == {"Authorization": basic(b"a:b")}


@pytest.mark.parametrize("where", ["tuple", "object", "url", "session"])
def test_basic_auth_reaches_the_server(
    requests: Any, session: Any, app: AppServer, where: str
) -> None:
    url = app.url + "/basic?user=u&password=p%C3%BC"
    if where == "url":
        url = url.replace("http://", "http://u:p%C3%BC@")
    if where == "session":
        session.auth = ("u", "pü")
    auth = {"tuple": ("u", "pü"), "object": requests.auth.HTTPBasicAuth("u", "pü")}.get(where)
    response = session.get(url, auth=auth)
    assert app.requests[-1].header("authorization") == basic(b"u:p\xfc")
    assert response.url == url
    assert len(app.requests) == 1


# -- Digest: the answer


def answer(requests: Any, challenge: dict[str, str], **kwargs: Any) -> str | None:
    """Return the header that answers a challenge."""
    auth = requests.auth.HTTPDigestAuth(kwargs.get("user", "u"), kwargs.get("password", "p"))
    auth.init_per_thread_state()
    auth._thread_local.chal = {"realm": "r", "nonce": "n", **challenge}
    made = auth.build_digest_header(kwargs.get("method", "GET"), kwargs.get("url", "http://h/p?q"))
    assert made is None or isinstance(made, str)
    return made


def hashed(name: str, *parts: str) -> str:
    return hashlib.new(name, ":".join(parts).encode()).hexdigest()


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (None, "md5"),
        ("MD5", "md5"),
        ("md5", "md5"),
        ("MD5-sess", "md5"),
        ("SHA", "sha1"),
        ("SHA-256", "sha256"),
        ("sha-256", "sha256"),
        ("SHA-512", "sha512"),
        ("sha-512", "sha512"),
    ],
)
@pytest.mark.parametrize("qop", [None, "auth", "auth,auth-int", "auth-int,auth"])
def test_digest_answer_is_right(
    requests: Any, algorithm: str | None, name: str, qop: str | None
) -> None:
    challenge = {"algorithm": algorithm, "qop": qop}
    header = answer(requests, {key: text for key, text in challenge.items() if text})
    assert header
    fields = digest_fields(header)
    cnonce = fields.get("cnonce", "")
    secret = hashed(name, "u", "r", "p")
    if algorithm == "MD5-sess" and qop is None:
        return  # without the cnonce nobody can check it
    if algorithm == "MD5-sess":
        secret = hashed(name, secret, "n", cnonce)
    use = ("n", "00000001", cnonce, "auth") if qop else ("n",)
    proof = hashed(name, secret, *use, hashed(name, "GET", "/p?q"))
    assert header == (
        f'Digest username="u", realm="r", nonce="n", uri="/p?q", response="{proof}"'
        + (f', algorithm="{algorithm}"' if algorithm else "")
        + (f', qop="auth", nc=00000001, cnonce="{cnonce}"' if qop else "")
    )
    assert bool(re.fullmatch("[0-9a-f]{16}", cnonce)) is (qop is not None)


def test_digest_answer_repeats_what_it_was_sent(requests: Any) -> None:
    header = answer(requests, {"opaque": "o", "domain": "/", "stale": "true"})
    assert header
    assert header.endswith(', opaque="o"')
    assert "domain" not in header
    assert "stale" not in header


@pytest.mark.parametrize("challenge", [{"algorithm": "foo"}, {"qop": "auth-int"}])
def test_digest_that_is_not_known_has_no_answer(requests: Any, challenge: dict[str, str]) -> None:
    assert answer(requests, challenge) is None


def test_digest_hashes_utf_8(requests: Any) -> None:
    header = answer(requests, {}, user="ü", password="日")
    assert header
    proof = hashed("md5", hashed("md5", "ü", "r", "日"), "n", hashed("md5", "GET", "/p?q"))
    assert f'response="{proof}"' in header


@pytest.mark.parametrize(
    ("url", "uri"),
    [("http://h", "/"), ("http://h?q", "/?q"), ("http://h/a?b#c", "/a?b"), ("/a", "/a")],
)
def test_digest_signs_what_the_server_is_asked_for(requests: Any, url: str, uri: str) -> None:
    header = answer(requests, {"qop": "auth"}, url=url)
    assert header
    assert digest_fields(header)["uri"] == uri


def test_uses_of_a_nonce_are_counted(requests: Any) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    auth.init_per_thread_state()

    def count(nonce: str) -> tuple[str, str]:
        auth._thread_local.chal = {"realm": "r", "nonce": nonce, "qop": "auth"}
        fields = digest_fields(auth.build_digest_header("GET", "http://h/"))
        return fields["nc"], fields["cnonce"]

    counts = [count(nonce) for nonce in ("a", "a", "a", "b")]
    assert [nc for nc, _ in counts] == ["00000001", "00000002", "00000003", "00000001"]
    assert len({cnonce for _, cnonce in counts}) == 4


def test_each_thread_has_a_state_of_its_own(requests: Any) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    auth.init_per_thread_state()
    auth._thread_local.last_nonce = "here"
    auth.init_per_thread_state()  # does nothing the second time
    assert auth._thread_local.last_nonce == "here"
    seen = []

    def there() -> None:
        auth.init_per_thread_state()
        state = auth._thread_local
        seen.append((state.last_nonce, state.nonce_count, state.chal, state.pos))

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    assert seen == [("", 0, {}, None)]


# -- Digest: the conversation


class Connection:
    """An adapter that keeps what it is to send."""

    def __init__(self, requests: Any) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []
        self.answer = requests.Response()

    def send(self, request: Any, **kwargs: Any) -> Any:
        self.calls.append((request, kwargs))
        return self.answer


class Raw(io.BytesIO):
    """A body as Response reads it."""

    def release_conn(self) -> None:
        """Do nothing."""


def digest(requests: Any, **kwargs: Any) -> tuple[Any, Any]:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    return auth, prepared(requests, auth=auth, **kwargs)


def refused(requests: Any, request: Any, challenge: str | None = CHALLENGE, **facts: Any) -> Any:
    response = requests.Response()
    response.status_code = facts.get("status", 401)
    response.request = request
    response.connection = Connection(requests)
    response.raw = Raw(b"who are you?")
    if challenge is not None:
        response.headers["WWW-Authenticate"] = challenge
    return response


def test_digest_waits_for_a_challenge(requests: Any) -> None:
    auth, request = digest(requests)
    assert dict(request.headers) == {}
    assert request.hooks == {"response": [auth.handle_401, auth.handle_redirect]}


def test_challenge_is_answered_by_a_copy_of_the_request(requests: Any) -> None:
    auth, request = digest(requests, headers={"A": "b"})
    first = refused(requests, request)
    second = auth.handle_401(first, timeout=3, verify=False)
    ((sent, kwargs),) = first.connection.calls
    assert kwargs == {"timeout": 3, "verify": False}
    assert second is first.connection.answer
    assert second.history == [first]
    assert second.request is sent
    assert sent is not request
    assert list(sent.headers) == ["A", "Authorization"]
    assert digest_fields(sent.headers["Authorization"])["nonce"] == "n"
    assert "Authorization" not in request.headers
    assert sent.hooks is request.hooks
    assert first.content == b"who are you?"


def test_challenge_is_answered_once(requests: Any) -> None:
    auth, request = digest(requests)
    auth.handle_401(refused(requests, request))
    again = refused(requests, request)
    assert auth.handle_401(again) is again
    assert again.connection.calls == []


def test_next_request_is_signed_at_once(requests: Any) -> None:
    auth, request = digest(requests)
    auth.handle_401(refused(requests, request))
    fields = digest_fields(prepared(requests, auth=auth).headers["Authorization"])
    assert (fields["nonce"], fields["nc"]) == ("n", "00000002")


def test_redirect_may_be_challenged_anew(requests: Any) -> None:
    auth, request = digest(requests)
    auth.handle_401(refused(requests, request))
    redirect = refused(requests, request, None, status=302)
    redirect.headers["Location"] = "/"
    auth.handle_redirect(redirect)
    again = refused(requests, request)
    assert auth.handle_401(again) is not again


@pytest.mark.parametrize(
    ("status", "challenge"),
    [
        (200, CHALLENGE),
        (302, CHALLENGE),
        (500, CHALLENGE),
        (401, None),
        (401, ""),
        (401, 'Basic realm="x"'),
    ],
)
def test_anything_else_is_left_alone(requests: Any, status: int, challenge: Any) -> None:
    auth, request = digest(requests)
    response = refused(requests, request, challenge, status=status)
    assert auth.handle_401(response) is response
    assert response.connection.calls == []
    assert response.history == []


@pytest.mark.parametrize(
    "challenge",
    [
        'digest realm="r", nonce="n", qop=auth',
        'DIGEST realm="r",nonce="n",qop="auth"',
        'Digest realm="r", nonce="n", qop="auth", Basic realm="x"',
        'Basic realm="x", Digest realm="r", nonce="n", qop="auth"',
        'Negotiate, Digest realm="r", nonce="n", qop="auth"',
        'Digest realm="r", nonce=n, qop="auth,auth-int", domain=/a/b',
    ],
)
def test_digest_is_found_among_other_challenges(requests: Any, challenge: str) -> None:
    auth, request = digest(requests)
    first = refused(requests, request, challenge)
    auth.handle_401(first)
    fields = digest_fields(first.connection.calls[0][0].headers["Authorization"])
    assert (fields["realm"], fields["nonce"], fields["qop"]) == ("r", "n", "auth")


def test_realm_may_speak_of_digest(requests: Any) -> None:
    auth, request = digest(requests)
    first = refused(requests, request, 'Digest realm="my digest realm", nonce="n"')
    auth.handle_401(first)
    fields = digest_fields(first.connection.calls[0][0].headers["Authorization"])
    assert fields["realm"] == "my digest realm"


def test_body_is_rewound_to_where_it_began(requests: Any) -> None:
    file = io.BytesIO(b"abcdef")
    file.read(2)
    auth, request = digest(requests, method="POST", data=file)
    file.read()
    auth.handle_401(refused(requests, request))
    assert file.tell() == 2
    file.read()
    auth.handle_401(refused(requests, request, None, status=200))
    assert file.tell() == 6


@pytest.mark.parametrize(
    "query", ["", "&algorithm=SHA-256", "&algorithm=MD5-sess", "&qop=", "&qop=auth,auth-int"]
)
def test_server_accepts_the_answer(requests: Any, session: Any, app: AppServer, query: str) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    url = app.url + "/digest?user=u&password=p" + query
    response = session.get(url, auth=auth)
    assert response.status_code == 200
    assert [each.status_code for each in response.history] == [401]
    assert response.history[0].content == b"who are you?"
    assert "Authorization" in response.request.headers
    assert session.get(url, auth=auth).history == []  # the nonce is used again
    assert len(app.requests) == 3


def test_wrong_password_is_tried_once(requests: Any, session: Any, app: AppServer) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "wrong")
    response = session.get(app.url + "/digest?user=u&password=p", auth=auth)
    assert response.status_code == 401
    assert len(app.requests) == 2


def test_body_is_sent_again_with_the_answer(requests: Any, session: Any, app: AppServer) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    file = io.BytesIO(b"skip" + b"x" * 100_000)
    file.seek(4)
    response = session.post(app.url + "/digest?user=u&password=p", data=file, auth=auth)
    assert response.status_code == 200
    assert [each.length for each in app.requests] == [100_000, 100_000]


def test_answer_carries_the_cookies_that_came_with_the_challenge(
    requests: Any, session: Any
) -> None:
    first = response(
        status="401 No",
        headers=[("WWW-Authenticate", CHALLENGE), ("Set-Cookie", "a=b; Path=/")],
    )
    with RawServer(respond(first, response(b"in"))) as server:
        found = session.get(server.url, auth=requests.auth.HTTPDigestAuth("u", "p"))
        assert found.content == b"in"
        assert b"Cookie: a=b\r\n" in server.requests[1]
    assert session.cookies["a"] == "b"


def test_answer_goes_out_on_the_same_connection(
    requests: Any, session: Any, app: AppServer
) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    session.get(app.url + "/digest?user=u&password=p", auth=auth)
    assert len({each.connection for each in app.requests}) == 1
