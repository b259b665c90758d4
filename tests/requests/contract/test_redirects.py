"""Redirects: which are followed, with what method, body, headers, cookies and credentials."""

from __future__ import annotations

import base64
import gzip
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    RawConnection,
    RawServer,
    Record,
    respond,
    response,
)

BODY = "a=1"
GZIP = (("Content-Encoding", "gzip"),)


def to(url: str, status: int = 302) -> str:
    return f"/redirect-to?url={quote(url, safe='')}&status={status}"


def sends(app: AppServer, location: str, status: int = 302) -> str:
    """Serve a redirect to a Location that is sent as it is; return its URL."""

    def route(record: Record, conn: AppConnection) -> None:
        conn.reply(status, b"", [("Location", location)])

    app.route("/away", route)
    return app.url + "/away"


# -- methods and bodies

TABLE = {
    301: {"POST": "GET"},
    302: dict.fromkeys(["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"], "GET"),
    303: dict.fromkeys(["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"], "GET"),
    307: {},
    308: {},
}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", TABLE)
def test_the_method_after_a_redirect(
    session: Any, app: AppServer, status: int, method: str
) -> None:
    """S26: in the drop-in."""
    body = None if method in {"GET", "HEAD"} else BODY
    headers = {"Content-Type": "x/y"} if body else {}
    answer = session.request(
        method, app.url + to("/echo", status), data=body, headers=headers, allow_redirects=True
    )
    first, second = app.requests
    assert first.body == (body or "").encode()
    assert second.method == TABLE[status].get(method, method)
    assert answer.request.method == second.method
    if body and status in {307, 308}:
        assert second.body == BODY.encode()
        assert second.header("content-length") == "3"
        assert second.header("content-type") == "x/y"
    else:
        assert second.body == b""
        assert second.header("content-length") in {None, "0"}
        assert second.header("content-type") is None
        assert second.header("transfer-encoding") is None
        assert answer.request.body is None
        assert "Content-Type" not in answer.request.headers


@pytest.mark.parametrize("status", [300, 304, 305, 306])
def test_another_status_with_a_location_is_not_followed(
    session: Any, app: AppServer, status: int
) -> None:
    """S28: in the drop-in."""
    response = session.get(app.url + to("/echo", status))
    assert response.status_code == status
    assert response.history == []
    assert not response.is_redirect


def test_a_redirect_without_location_is_an_answer(session: Any) -> None:
    with RawServer(respond(response(b"here", "302 Found"))) as server:
        answer = session.get(server.url)
    assert (answer.status_code, answer.content, answer.is_redirect) == (302, b"here", False)


def test_an_empty_location_is_an_answer(session: Any, app: AppServer) -> None:
    answer = session.get(sends(app, ""))
    assert (answer.status_code, answer.history) == (302, [])


def test_the_body_goes_where_the_redirects_end(session: Any, app: AppServer) -> None:
    url = app.url + to(to("/echo", 308), 307)
    answer = session.post(url, json={"a": 1}).json()
    assert answer["body"] == '{"a": 1}'
    assert dict(answer["headers"])["Content-Type"] == "application/json"


def test_files_are_sent_again(session: Any, app: AppServer) -> None:
    answer = session.post(app.url + to("/echo", 307), files={"f": ("n", b"content")}).json()
    assert "content" in answer["body"]
    assert app.requests[0].body == app.requests[1].body


def test_a_file_is_rewound(session: Any, app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with path.open("rb") as file:
        answer = session.post(app.url + to("/echo", 307), data=file).json()
    assert answer["body"] == "content"
    assert [record.body for record in app.requests] == [b"content", b"content"]


def test_a_file_is_rewound_to_where_it_was(session: Any, app: AppServer) -> None:
    file = io.BytesIO(b"skipped, sent")
    file.seek(9)
    assert session.post(app.url + to("/echo", 308), data=file).json()["body"] == "sent"


def test_an_iterable_is_iterated_again(session: Any, app: AppServer) -> None:
    class Body:
        def __iter__(self) -> Any:
            return iter([b"a", b"b"])

    assert session.post(app.url + to("/echo", 307), data=Body()).json()["body"] == "ab"


def test_a_generator_is_dropped_when_the_method_becomes_get(session: Any, app: AppServer) -> None:
    answer = session.post(app.url + to("/echo", 303), data=(x for x in [b"a", b"b"])).json()
    assert (answer["method"], answer["body"]) == ("GET", "")
    assert app.requests[0].body == b"ab"
    assert app.requests[1].header("transfer-encoding") is None


@pytest.mark.parametrize("broken", ["seek", "tell"])
def test_a_body_that_cannot_be_rewound_is_an_error(
    requests: Any, session: Any, app: AppServer, broken: str
) -> None:
    """S27: in the drop-in."""

    def fail(*args: Any) -> Any:
        raise OSError("not for this file")

    file = type("File", (io.BytesIO,), {broken: fail})(b"content")
    with pytest.raises(requests.exceptions.UnrewindableBodyError):
        session.post(app.url + to("/echo", 307), data=file)


def test_a_body_that_cannot_be_rewound_does_no_harm_after_303(session: Any, app: AppServer) -> None:
    def fail(*args: Any) -> Any:
        raise OSError("not for this file")

    file = type("File", (io.BytesIO,), {"tell": fail})(b"content")
    assert session.post(app.url + to("/echo", 303), data=file).json()["method"] == "GET"


# -- headers


def test_other_headers_are_forwarded_even_to_another_origin(
    session: Any, app: AppServer, other_app: AppServer
) -> None:
    session.get(app.url + to(other_app.url + "/echo"), headers={"X-Api-Key": "k"})
    assert other_app.requests[0].header("x-api-key") == "k"
    assert other_app.requests[0].header("host") == f"127.0.0.1:{other_app.port}"


def test_a_host_header_of_the_caller_is_forwarded(session: Any, app: AppServer) -> None:
    session.get(app.url + to("/echo"), headers={"Host": "name.example"})
    assert app.requests[0].header("host") == "name.example"


STRIP = [
    ("http://a/", "http://a/x", False),
    ("http://A/", "http://a/", False),
    ("http://a/", "https://a/", False),
    ("http://a:80/", "http://a/", False),
    ("http://a/", "http://a:80/", False),
    ("http://a:80/", "https://a:443/", False),
    ("https://a:443/", "https://a/", False),
    ("http://u:p@a/", "http://a/", False),
    ("http://a:8080/", "http://a:8080/", False),
    ("https://a/", "http://a/", True),
    ("https://a:443/", "http://a:80/", True),
    ("http://a:8080/", "https://a:443/", True),
    ("http://a:8080/", "https://a:8080/", True),
    ("http://a:80/", "https://a:8443/", True),
    ("http://a:1/", "http://a:2/", True),
    ("http://a/", "http://b/", True),
    ("http://sub.a/", "http://a/", True),
    ("http://a/", "http://sub.a/", True),
    ("https://a/", "https://b/", True),
]


@pytest.mark.parametrize(("old", "new", "expected"), STRIP)
def test_should_strip_auth(session: Any, old: str, new: str, expected: bool) -> None:
    assert session.should_strip_auth(old, new) is expected


def test_authorization_stays_on_its_origin(session: Any, app: AppServer) -> None:
    session.get(app.url + to("/echo"), auth=("u", "p"))
    first, second = app.requests
    assert first.header("authorization") == second.header("authorization") is not None


@pytest.mark.parametrize("how", ["auth", "header", "session"])
def test_authorization_does_not_go_to_another_origin(
    session: Any, app: AppServer, other_app: AppServer, how: str
) -> None:
    kwargs: dict[str, Any] = {}
    if how == "auth":
        kwargs["auth"] = ("u", "p")
    elif how == "header":
        kwargs["headers"] = {"authorization": "Bearer x"}
    else:
        session.auth = ("u", "p")
    response = session.get(app.url + to(other_app.url + "/echo"), **kwargs)
    assert app.requests[0].header("authorization") is not None
    assert other_app.requests[0].header("authorization") is None
    assert "Authorization" not in response.request.headers
    assert "Authorization" in response.history[0].request.headers


def test_authorization_does_not_go_to_another_name_of_the_host(
    session: Any, app: AppServer
) -> None:
    session.get(app.url + to(app.at("localhost") + "/echo"), auth=("u", "p"))
    assert app.requests[1].header("authorization") is None


def test_netrc_is_looked_up_for_the_next_host(
    session: Any, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S22: in the drop-in."""
    path = tmp_path / "netrc"
    path.write_text("machine localhost login net password rc\n")
    monkeypatch.setenv("NETRC", str(path))
    session.get(app.url + to(app.at("localhost") + "/echo"), headers={"Authorization": "mine"})
    expected = "Basic " + base64.b64encode(b"net:rc").decode()
    assert [record.header("authorization") for record in app.requests] == ["mine", expected]


# -- cookies


def test_cookies_of_a_redirect_are_sent_and_kept(session: Any, app: AppServer) -> None:
    response = session.get(app.url + "/cookies/set?a=1&redirect=/cookies/of/it")
    assert response.json()["cookies"] == {"a": "1"}
    assert session.cookies.get_dict() == {"a": "1"}
    assert response.cookies.get_dict() == {}
    assert response.history[0].cookies.get_dict() == {"a": "1"}


def test_a_cookie_header_of_the_caller_is_lost_on_the_first_hop(
    session: Any, app: AppServer
) -> None:
    session.get(app.url + to("/echo"), headers={"Cookie": "mine=1"})
    assert [record.header("cookie") for record in app.requests] == ["mine=1", None]


def test_cookies_of_the_request_are_sent_on_each_hop_and_not_kept(
    session: Any, app: AppServer
) -> None:
    session.get(app.url + to("/echo"), cookies={"a": "1"})
    assert [record.header("cookie") for record in app.requests] == ["a=1", "a=1"]
    assert not session.cookies


def test_a_cookie_deleted_by_a_redirect_is_not_sent_on(session: Any, app: AppServer) -> None:
    def forget(record: Record, conn: AppConnection) -> None:
        gone = "a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        conn.reply(302, b"", [("Set-Cookie", gone), ("Location", "/cookies")])

    app.route("/forget", forget)
    session.cookies.set("a", "1", domain="127.0.0.1", path="/")
    assert session.get(app.url + "/forget").json()["header"] is None
    assert app.requests[0].header("cookie") == "a=1"


def test_cookies_of_another_host_are_not_sent_there(session: Any, app: AppServer) -> None:
    """S18, S73: in the drop-in."""
    session.get(app.url + "/cookies/set?a=1&redirect=" + quote(app.at("localhost") + "/cookies"))
    assert app.requests[1].header("cookie") is None
    assert session.cookies["a"] == "1"


# -- Location


@pytest.mark.parametrize(
    ("location", "path", "target"),
    [
        ("/echo?x=1", "/away", "/echo?x=1"),
        ("echo", "/away", "/echo"),
        ("../echo", "/away", "/echo"),
        ("./echo/./a/../b", "/away", "/echo/b"),
        ("?x=1", "/away?y=2&once=1", "/away?x=1"),
        ("/echo/a b", "/away", "/echo/a%20b"),
        ("/echo/%7Euser", "/away", "/echo/~user"),
        ("/echo/%7Ea%zz", "/away", "/echo/%257Ea%25zz"),
        ("/echo/é".encode().decode("latin-1"), "/away", "/echo/%C3%A9"),
        ("/echo/à".encode().decode("latin-1"), "/away", "/echo/%C3%A0"),
        ("/echo//a", "/away", "/echo//a"),
    ],
)
def test_a_location_is_resolved(
    session: Any, app: AppServer, location: str, path: str, target: str
) -> None:
    def route(record: Record, conn: AppConnection) -> None:
        if record.target == target:
            conn.reply(200)
        else:
            conn.reply(302, b"", [("Location", location)])

    app.route("/away", route)
    response = session.get(app.url + path)
    assert app.requests[-1].target == target
    assert response.url == app.url + target
    assert len(response.history) == 1


def test_a_location_without_scheme_keeps_that_of_the_request(
    session: Any, app: AppServer, other_app: AppServer
) -> None:
    response = session.get(sends(app, f"//127.0.0.1:{other_app.port}/echo"))
    assert response.url == other_app.url + "/echo"


def test_a_scheme_in_capitals_is_followed(session: Any, app: AppServer) -> None:
    assert session.get(sends(app, app.url.upper() + "/echo")).status_code == 200


def test_a_fragment_is_inherited_and_not_sent(session: Any, app: AppServer) -> None:
    assert session.get(app.url + to("/echo") + "#part").url == app.url + "/echo#part"
    assert [record.target for record in app.requests] == [to("/echo"), "/echo"]


def test_a_fragment_of_the_location_wins_and_is_inherited_by_the_next_hop(
    session: Any, app: AppServer
) -> None:
    response = session.get(app.url + to(to("/echo") + "#new") + "#part")
    assert response.url == app.url + "/echo#new"


def test_a_location_of_another_scheme_is_an_error(
    requests: Any, session: Any, app: AppServer
) -> None:
    with pytest.raises(requests.exceptions.InvalidSchema, match="ftp://host/"):
        session.get(sends(app, "ftp://host/"))


def test_a_location_that_is_no_url_is_a_value_error(session: Any, app: AppServer) -> None:
    with pytest.raises(ValueError):
        session.get(sends(app, "http://[::1"))


# -- history, next, limits


def test_history_has_the_hops_in_order_with_their_bodies(session: Any, app: AppServer) -> None:
    last = app.url + "/redirect-to?url=%2Fecho&body=20"
    response = session.get(app.url + to(last) + "&body=10")
    assert [hop.url for hop in response.history] == [app.url + to(last) + "&body=10", last]
    assert [len(hop.content) for hop in response.history] == [10, 20]
    assert [hop.status_code for hop in response.history] == [302, 302]
    assert response.url == app.url + "/echo"
    assert response.request.url == response.url


def test_each_hop_of_the_history_has_the_hops_before_it(session: Any, app: AppServer) -> None:
    first, second = session.get(app.url + "/redirect/2").history
    assert first.history == []
    assert second.history == [first]


def test_history_of_a_stream_is_read(session: Any, app: AppServer) -> None:
    with session.get(app.url + to("/bytes/50") + "&body=10", stream=True) as response:
        assert len(response.history[0].content) == 10
        assert response._content_consumed is False
        assert len(response.content) == 50


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Encoding: gzip\r\n"
        b"Connection: close\r\nContent-Length: 4\r\n\r\nnone",
    ],
)
def test_a_redirect_with_a_broken_body_is_followed(session: Any, answer: bytes) -> None:
    left = [answer, response(b"here")]

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(left.pop(0))

    with RawServer(handler) as server:
        assert session.get(server.url).text == "here"
    assert server.requests[1].startswith(b"GET /next ")


MOVED = gzip.compress(b"moved, to where it says")


def redirecting(*bodies: bytes, fields: tuple[tuple[str, str], ...] = GZIP) -> Any:
    """Answer with redirects that have these bodies, then with another answer."""
    to = ("Location", "/next")
    return respond(*[response(body, "302 Found", [to, *fields]) for body in bodies], response(b"x"))


@pytest.mark.parametrize("stream", [False, True])
def test_the_bodies_of_redirects_can_be_looked_at(session: Any, stream: bool) -> None:
    with RawServer(redirecting(MOVED, MOVED)) as server:
        with session.get(server.url, stream=stream) as answer:
            assert answer.content == b"x"
    for hop in (*answer.history, *pickle.loads(pickle.dumps(answer)).history):
        assert hop.content == b"moved, to where it says"
        assert hop.text == "moved, to where it says"
        assert b"".join(hop.iter_content(3)) == hop.content
        assert next(hop.iter_lines()) == hop.content
    assert len(answer.history) == 2
    assert answer.history[0].raw.read() == b""


@pytest.mark.parametrize("stream", [False, True])
def test_the_body_of_a_redirect_is_there_without_being_looked_at(
    session: Any, stream: bool
) -> None:
    with RawServer(redirecting(MOVED)) as server:
        with session.get(server.url, stream=stream) as answer:
            hop = pickle.loads(pickle.dumps(answer.history[0]))
    assert hop.content == b"moved, to where it says"


@pytest.mark.parametrize("stream", [False, True])
def test_a_hook_may_read_the_body_of_a_redirect(session: Any, stream: bool) -> None:
    seen: list[bytes] = []
    hooks = {"response": lambda got, **_: seen.append(got.content)}
    with RawServer(redirecting(MOVED, MOVED)) as server:
        answer = session.get(server.url, stream=stream, hooks=hooks)
        assert seen == [b"moved, to where it says"] * 2 + [b"x"]
        assert answer.history[1].content == seen[1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_hook_notices_that_the_body_of_a_redirect_is_broken(
    requests: Any, session: Any, stream: bool
) -> None:
    def read(got: Any, **_: Any) -> None:
        _ = got.content

    with RawServer(redirecting(b"this is not gzip")) as server:
        with pytest.raises(requests.exceptions.ContentDecodingError):
            session.get(server.url, stream=stream, hooks={"response": read})


@pytest.mark.parametrize("stream", [False, True])
def test_the_body_of_too_many_redirects_can_be_looked_at(
    requests: Any, session: Any, stream: bool
) -> None:
    session.max_redirects = 1
    with RawServer(redirecting(MOVED, MOVED)) as server:
        with pytest.raises(requests.TooManyRedirects) as caught:
            session.get(server.url, stream=stream)
    assert caught.value.response.content == b"moved, to where it says"


@pytest.mark.parametrize("stream", [False, True])
def test_a_redirect_that_is_not_followed_has_its_whole_body(
    session: Any, app: AppServer, stream: bool
) -> None:
    url = app.url + to("/echo") + "&body=300000"
    with session.get(url, allow_redirects=False, stream=stream) as answer:
        assert answer.next.url == app.url + "/echo"
        assert len(answer.content) == 300_000


def test_a_redirect_that_is_not_followed_may_have_a_broken_body(session: Any) -> None:
    with RawServer(redirecting(b"this is not gzip")) as server:
        answer = session.get(server.url, allow_redirects=False)
        assert answer.next.url == server.url + "/next"
        assert answer.content == b""


def test_a_redirect_that_a_subclass_stays_at_has_its_body(requests: Any) -> None:
    class Session(requests.Session):  # type: ignore[misc]
        def get_redirect_target(self, resp: Any) -> None:
            return None

    body = gzip.compress(bytes(200_000))
    with RawServer(redirecting(body)) as server, Session() as session:
        for stream in (False, True):
            with session.get(server.url, stream=stream) as answer:
                if answer.status_code == 302:
                    assert answer.content == bytes(200_000)
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", ["file", "urllib3"])
def test_bodies_of_an_adapter_of_ones_own_can_be_looked_at(
    requests: Any, session: Any, kind: str
) -> None:
    class Adapter(requests.adapters.BaseAdapter):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            is_first = request.url.endswith("/first")
            answer = requests.Response()
            answer.status_code = 302 if is_first else 200
            answer.headers["Location"] = "/second"
            answer.url, answer.request = request.url, request
            if kind == "file":
                answer.raw = io.BytesIO(b"moved" if is_first else b"x")
            else:
                answer.headers["Content-Encoding"] = "gzip"
                answer.raw = requests.packages.urllib3.HTTPResponse(
                    body=io.BytesIO(gzip.compress(b"moved" if is_first else b"x")),
                    headers=dict(answer.headers),
                    preload_content=False,
                )
            return answer

        def close(self) -> None:
            pass

    session.mount("http://own/", Adapter())
    answer = session.get("http://own/first")
    assert answer.content == b"x"
    assert [hop.content for hop in answer.history] == [b"moved"]


def test_redirects_reuse_the_connection(session: Any, app: AppServer) -> None:
    session.get(app.url + "/redirect/5")
    assert app.connections == 1


def test_without_following_next_is_the_request_to_send(
    requests: Any, session: Any, app: AppServer
) -> None:
    response = session.post(app.url + to("/echo", 303), data=BODY, allow_redirects=False)
    assert response.status_code == 303
    assert response.is_redirect
    assert not response.is_permanent_redirect
    assert response.history == []
    assert isinstance(response.next, requests.PreparedRequest)
    assert (response.next.method, response.next.url) == ("GET", app.url + "/echo")
    assert len(app.requests) == 1
    assert session.send(response.next).status_code == 200


def test_without_a_redirect_there_is_no_next(session: Any, app: AppServer) -> None:
    assert session.get(app.url, allow_redirects=False).next is None
    assert session.get(app.url).next is None
    assert session.get(app.url + "/redirect/1").next is None


@pytest.mark.parametrize("status", [301, 308])
def test_permanent_redirects_say_so(session: Any, app: AppServer, status: int) -> None:
    response = session.get(app.url + to("/echo", status), allow_redirects=False)
    assert response.is_redirect
    assert response.is_permanent_redirect


def test_too_many_redirects_is_an_error_with_the_last_response(
    requests: Any, session: Any, app: AppServer
) -> None:
    """S29: in the drop-in."""
    session.max_redirects = 3
    with pytest.raises(requests.TooManyRedirects) as caught:
        session.get(app.url + "/redirect/9")
    assert str(caught.value) == "Exceeded 3 redirects."
    assert caught.value.response.status_code == 302
    assert caught.value.response.url == app.url + "/redirect/6"
    assert len(caught.value.response.history) == 3
    assert caught.value.request.url == caught.value.response.url
    assert len(app.requests) == 4


def test_as_many_redirects_as_allowed_are_followed(session: Any, app: AppServer) -> None:
    session.max_redirects = 3
    assert session.get(app.url + "/redirect/3").status_code == 200


def test_thirty_redirects_are_allowed_by_default(
    requests: Any, session: Any, app: AppServer
) -> None:
    assert len(session.get(app.url + "/redirect/30").history) == 30
    with pytest.raises(requests.TooManyRedirects, match=r"^Exceeded 30 redirects\.$"):
        session.get(app.url + "/redirect/31")


def test_a_loop_ends(requests: Any, session: Any, app: AppServer) -> None:
    session.max_redirects = 2
    with pytest.raises(requests.TooManyRedirects):
        session.get(sends(app, "/away"))


# -- the methods that code overrides or calls


def test_get_redirect_target_reads_the_location(requests: Any, session: Any) -> None:
    response = requests.Response()
    response.status_code = 302
    assert session.get_redirect_target(response) is None
    response.headers["Location"] = "/é".encode().decode("latin-1")
    assert session.get_redirect_target(response) == "/é"
    response.status_code = 200
    assert session.get_redirect_target(response) is None


def test_get_redirect_target_can_be_overridden(requests: Any, app: AppServer) -> None:
    class Session(requests.Session):  # type: ignore[misc]
        def get_redirect_target(self, resp: Any) -> Any:
            return None if "stay" in resp.url else super().get_redirect_target(resp)

    with Session() as session:
        assert session.get(app.url + to("/echo")).status_code == 200
        assert session.get(app.url + to("/echo?stay")).status_code == 302


def test_rebuild_auth_can_be_overridden(
    requests: Any, app: AppServer, other_app: AppServer
) -> None:
    seen = []

    class Session(requests.Session):  # type: ignore[misc]
        def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
            seen.append((prepared_request.url, response.url))

    with Session() as session:
        url = app.url + to(other_app.url + "/echo")
        session.get(url, headers={"Authorization": "keep"})
    assert other_app.requests[0].header("authorization") == "keep"
    assert seen == [(other_app.url + "/echo", url)]


def test_should_strip_auth_can_be_overridden(
    requests: Any, app: AppServer, other_app: AppServer
) -> None:
    class Session(requests.Session):  # type: ignore[misc]
        def should_strip_auth(self, old_url: str, new_url: str) -> bool:
            return False

    with Session() as session:
        session.get(app.url + to(other_app.url + "/echo"), auth=("u", "p"))
    assert other_app.requests[0].header("authorization") is not None


def test_rebuild_method_can_be_overridden(requests: Any, app: AppServer) -> None:
    class Session(requests.Session):  # type: ignore[misc]
        def rebuild_method(self, prepared_request: Any, response: Any) -> None:
            prepared_request.method = "PUT"

    with Session() as session:
        session.post(app.url + to("/echo", 302), data=BODY)
    assert [record.method for record in app.requests] == ["POST", "PUT"]


def test_rebuild_proxies_can_be_overridden(requests: Any, app: AppServer) -> None:
    seen = []

    class Session(requests.Session):  # type: ignore[misc]
        def rebuild_proxies(self, prepared_request: Any, proxies: Any) -> Any:
            seen.append(prepared_request.url)
            return super().rebuild_proxies(prepared_request, proxies)

    with Session() as session:
        session.get(app.url + "/redirect/1")
    assert seen == [app.url + "/"]


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [(303, "HEAD", "HEAD"), (303, "PUT", "GET"), (302, "PUT", "GET"), (301, "PUT", "PUT")],
)
def test_rebuild_method_changes_the_request_in_place(
    requests: Any, session: Any, status: int, method: str, expected: str
) -> None:
    prepared = requests.Request(method, "http://host/").prepare()
    response = requests.Response()
    response.status_code = status
    session.rebuild_method(prepared, response)
    assert prepared.method == expected


def test_rebuild_auth_strips_in_place(requests: Any, session: Any) -> None:
    prepared = requests.Request("GET", "http://b/", headers={"Authorization": "x"}).prepare()
    response = requests.Response()
    response.request = requests.Request("GET", "http://a/").prepare()
    session.rebuild_auth(prepared, response)
    assert "Authorization" not in prepared.headers


def test_rebuild_proxies_sets_the_header_for_http_and_removes_it_for_https(
    requests: Any, session: Any
) -> None:
    proxies = {"http": "http://u:p@proxy:1", "https": "http://u:p@proxy:1"}
    header = "Proxy-Authorization"
    prepared = requests.Request("GET", "http://b/", headers={header: "old"}).prepare()
    assert session.rebuild_proxies(prepared, proxies)["http"] == proxies["http"]
    assert prepared.headers[header] == "Basic " + base64.b64encode(b"u:p").decode()
    prepared = requests.Request("GET", "https://b/", headers={header: "old"}).prepare()
    session.rebuild_proxies(prepared, proxies)
    assert header not in prepared.headers


def test_resolve_redirects_yields_each_response(
    requests: Any, session: Any, app: AppServer
) -> None:
    request = requests.Request("GET", app.url + "/redirect/3").prepare()
    first = session.send(request, allow_redirects=False)
    rest = list(session.resolve_redirects(first, request))
    assert [hop.url for hop in rest] == [app.url + p for p in ("/redirect/2", "/redirect/1", "/")]
    assert [hop.status_code for hop in rest] == [302, 302, 200]


def test_resolve_redirects_can_yield_requests_without_sending(
    requests: Any, session: Any, app: AppServer
) -> None:
    request = requests.Request("GET", app.url + "/redirect/3").prepare()
    first = session.send(request, allow_redirects=False)
    following = next(session.resolve_redirects(first, request, yield_requests=True))
    assert isinstance(following, requests.PreparedRequest)
    assert following.url == app.url + "/redirect/2"
    assert following is not request
    assert len(app.requests) == 1


def test_each_hop_goes_through_send_and_the_adapter_of_its_url(
    requests: Any, app: AppServer, other_app: AppServer
) -> None:
    seen: list[tuple[str, str]] = []

    def adapter(name: str) -> Any:
        class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
            def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
                seen.append((name, request.url))
                return super().send(request, *args, **kwargs)

        return Adapter()

    class Session(requests.Session):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            seen.append(("send", request.url))
            return super().send(request, **kwargs)

    with Session() as session:
        session.mount(app.url, adapter("one"))
        session.mount(other_app.url, adapter("two"))
        session.get(app.url + to(other_app.url + "/echo"))
    here, there = app.url + to(other_app.url + "/echo"), other_app.url + "/echo"
    assert seen == [("send", here), ("one", here), ("send", there), ("two", there)]


def test_settings_of_the_call_hold_on_each_hop(requests: Any, app: AppServer) -> None:
    seen = []

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return super().send(request, **kwargs)

    with requests.Session() as session:
        session.mount("http://", Adapter())
        session.get(app.url + "/redirect/2", timeout=9, verify=False).close()
    assert [(kw["timeout"], kw["verify"]) for kw in seen] == [(9, False)] * 3


@pytest.mark.parametrize("make", [lambda: io.BytesIO(b"abc"), lambda: b"abc", lambda: "abc"])
def test_next_keeps_the_body_for_307(session: Any, app: AppServer, make: Callable[[], Any]) -> None:
    response = session.post(app.url + to("/echo", 307), data=make(), allow_redirects=False)
    assert session.send(response.next).json()["body"] == "abc"
