"""The functions of `curlhttp`: connections are shared, the defaults are those of the clients."""

from __future__ import annotations

import gc
import gzip
import io
import json
import pickle
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from curlhttp.exceptions import InvalidURL, MissingSchema
from curlhttp.types import USE_CLIENT_DEFAULT
from tests.servers import (
    AppConnection,
    AppServer,
    HTTPProxy,
    RawConnection,
    RawServer,
    Record,
    payload,
    refused_port,
    respond_and_close,
)
from tests.support.internals import close_shared_clients
from tests.support.pace import paced


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Close the shared connections after each test."""
    yield
    close_shared_clients()


@pytest.mark.parametrize("verb", ["get", "options", "head", "post", "put", "patch", "delete"])
def test_every_verb_is_there(app: AppServer, verb: str) -> None:
    response = getattr(curlhttp, verb)(app.url + "/bytes/3")
    assert response.status_code == 200
    assert app.requests[-1].method == verb.upper()
    assert response.content == (b"" if verb == "head" else payload(3))


def test_request_takes_any_method_and_the_keywords(app: AppServer) -> None:
    response = curlhttp.request("REPORT", app.url + "/echo", json=[1], headers={"X-A": "b"})
    assert response.json()["method"] == "REPORT"
    assert response.json()["body"] == "[1]"
    assert app.requests[-1].header("x-a") == "b"


def test_stream_returns_a_streamed_response(app: AppServer) -> None:
    with curlhttp.stream("GET", app.url + "/bytes/100000") as response:
        assert b"".join(response.iter_bytes(1000)) == payload(100_000)


def test_head_follows_redirects_only_on_request(app: AppServer) -> None:
    assert curlhttp.head(app.url + "/redirect/1").status_code == 302
    assert curlhttp.head(app.url + "/redirect/1", allow_redirects=True).status_code == 200
    assert curlhttp.head(app.url + "/redirect/1", follow_redirects=True).status_code == 200
    assert curlhttp.get(app.url + "/redirect/1").status_code == 200
    assert curlhttp.options(app.url + "/redirect/1").status_code == 200


def test_connections_are_reused(app: AppServer) -> None:
    for _ in range(5):
        curlhttp.get(app.url)
    assert app.connections == 1


def test_cookies_live_as_long_as_one_call(app: AppServer) -> None:
    response = curlhttp.get(app.url + "/cookies/set?a=1&redirect=/cookies")
    assert response.json()["cookies"] == {"a": "1"}  # sent on the redirect
    assert curlhttp.get(app.url + "/cookies").json()["cookies"] == {}
    assert curlhttp.get(app.url + "/cookies", cookies={"b": "2"}).json()["cookies"] == {"b": "2"}
    assert curlhttp.get(app.url + "/cookies").json()["cookies"] == {}


def test_headers_and_auth_live_as_long_as_one_call(app: AppServer) -> None:
    curlhttp.get(app.url, headers={"X-A": "1"}, auth=("user", "secret"))
    curlhttp.get(app.url)
    assert app.requests[-1].header("x-a") is None
    assert app.requests[-1].header("authorization") is None


@pytest.mark.parametrize(("url", "error"), [("x.com", MissingSchema), ("http://", InvalidURL)])
def test_a_bad_url_is_an_error(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        curlhttp.get(url)


def test_threads_that_begin_at_once_share_one_pool(app: AppServer) -> None:
    begin, all_there = threading.Barrier(8), threading.Barrier(8)

    def respond(record: Record, conn: AppConnection) -> None:
        all_there.wait(30)
        conn.reply()

    def work(_: int) -> int:
        begin.wait(30)
        return curlhttp.get(app.url + "/together").status_code

    app.route("/together", respond)
    with ThreadPoolExecutor(8) as threads:
        for _ in range(2):
            assert set(threads.map(work, range(8))) == {200}
    assert app.connections == 8


def test_an_unknown_keyword_is_a_type_error(app: AppServer) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        curlhttp.get(app.url, no_such_option=1)  # type: ignore[call-arg]
    assert app.connections == 0


# --- the rules of the clients ---

PAGE = "/page-without-charset"
NAME = {"name": "Zoë"}


@pytest.fixture
def page(app: AppServer) -> str:
    """Return the URL of JSON in UTF-8 that is sent as HTML, without a charset."""
    body = json.dumps(NAME, ensure_ascii=False).encode()
    app.route(PAGE, lambda record, conn: conn.reply(200, body, [("Content-Type", "text/html")]))
    return app.url + PAGE


def fields_of(app: AppServer) -> dict[str, str]:
    """Return the fields of the last request, which libcurl sends in any order."""
    return {name.lower(): value for name, value in app.requests[-1].headers}


@pytest.mark.parametrize("options", [{}, {"json": {"a": 1}}, {"headers": {"user-agent": "mine"}}])
def test_the_headers_are_those_of_the_clients(app: AppServer, options: dict[str, Any]) -> None:
    curlhttp.post(app.url, **options)
    sent = fields_of(app)
    with curlhttp.Client() as client:
        client.post(app.url, **options)
    assert sent == fields_of(app)
    requests.post(app.url, **options)
    assert fields_of(app)["connection"] == "keep-alive"


def test_only_the_drop_in_says_that_it_is_requests(app: AppServer) -> None:
    curlhttp.get(app.url)
    assert app.requests[-1].header("user-agent") == f"curlhttp/{curlhttp.__version__}"
    for get in (requests.get, curlhttp.Session().get):
        get(app.url)
        assert str(app.requests[-1].header("user-agent")).startswith("python-requests/")


def test_the_text_is_that_of_the_clients(page: str) -> None:
    response = curlhttp.get(page)
    with curlhttp.Client() as client:
        received = client.get(page)
    assert (response.text, response.encoding) == (received.text, received.encoding)
    assert response.json() == received.json() == NAME
    assert requests.get(page).text != received.text
    response.encoding = "latin-1"
    assert response.text == requests.get(page).text


def test_json_takes_a_type(page: str) -> None:
    assert curlhttp.get(page).json(type=dict[str, str]) == NAME
    with pytest.raises(curlhttp.JSONTypeError):
        curlhttp.get(page).json(type=list[int])


def test_pieces_of_text_are_decoded_like_the_text(page: str) -> None:
    text = curlhttp.get(page).text
    with curlhttp.stream("GET", page) as response:
        assert "".join(response.iter_text()) == text
    with curlhttp.stream("GET", page) as response:
        assert list(response.iter_lines()) == [text]
    with curlhttp.stream("GET", page) as response:
        assert b"".join(response.iter_bytes(1)) == text.encode()


def test_a_response_is_that_of_the_clients_and_only_that(app: AppServer, page: str) -> None:
    response = curlhttp.get(app.url + "/redirect-to?url=" + PAGE)
    for each in (response, *response.history, pickle.loads(pickle.dumps(response))):
        assert type(each) is curlhttp.Response
        assert not isinstance(each, requests.Response)
    assert isinstance(curlhttp.stream("GET", page), curlhttp.Response)
    with pytest.raises(AttributeError, match="iter_bytes"):
        response.iter_content  # type: ignore[attr-defined]  # noqa: B018
    assert type(requests.get(page)) is requests.Response


def test_raise_for_status_returns_the_response(app: AppServer, page: str) -> None:
    assert curlhttp.get(page).raise_for_status().json() == NAME
    with pytest.raises(curlhttp.HTTPError):
        curlhttp.get(app.url + "/status/500").raise_for_status()


def test_a_session_that_a_program_has_replaced_is_for_the_drop_in(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(requests.Session):
        def __init__(self) -> None:
            super().__init__()
            self.headers["User-Agent"] = "mine"

    monkeypatch.setattr(requests.sessions, "Session", Mine)
    requests.get(app.url)
    assert app.requests[-1].header("user-agent") == "mine"
    curlhttp.get(app.url)
    assert str(app.requests[-1].header("user-agent")).startswith("curlhttp/")


def test_arguments_by_position_are_those_of_requests(app: AppServer) -> None:
    url = app.url + "/echo"
    assert curlhttp.get(url, {"a": 1}).json()["target"] == "/echo?a=1"
    assert curlhttp.post(url, {"a": 1}).json()["body"] == "a=1"
    assert curlhttp.post(url, None, {"a": 1}).json()["body"] == '{"a": 1}'
    assert curlhttp.put(url, "x").json()["body"] == "x"
    assert curlhttp.patch(url, b"y").json()["body"] == "y"
    assert curlhttp.get(url=url, params={"a": 1}).json()["target"] == "/echo?a=1"


def test_a_changed_environment_counts_from_the_next_call_on(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AppServer() as first, HTTPProxy() as proxy:
        assert curlhttp.get(first.url).ok
        monkeypatch.setenv("http_proxy", proxy.url)
        assert curlhttp.get(app.url).ok
        gc.collect()  # the client of the environment before
        assert first.wait_for(lambda: first.open_connections == 0)
        assert curlhttp.get(app.url + "/redirect/1").ok
        assert len(proxy.log) == 3
        monkeypatch.delenv("http_proxy")
        assert curlhttp.get(app.url).ok
        assert len(proxy.log) == 3


def test_the_clients_default_may_be_passed_on(app: AppServer) -> None:
    """As a program does that wraps a function or a client."""
    same: Any = USE_CLIENT_DEFAULT
    for name in ("auth", "timeout", "retry", "max_response_size", "verify", "proxies", "pins"):
        assert curlhttp.get(app.url, **{name: same}).ok
    assert curlhttp.get(app.url + "/redirect/1", allow_redirects=same).ok
    assert curlhttp.head(app.url + "/redirect/1", follow_redirects=same).status_code == 302


# --- the messages of the clients ---

URL = "http://127.0.0.1:1/"
WRONG: list[tuple[Any, dict[str, Any]]] = [
    ("/x", {}),
    ("", {}),
    ("//host/x", {}),
    ("http//host", {}),
    ("localhost:8000/x", {}),
    ("ftp://user:s3cret@host/", {}),
    ("http://host:99999/", {}),
    ("http://a b/", {}),
    (None, {}),
    (5, {}),
    (["http://host/"], {}),
    (URL, {"auth": "Bearer s3cret"}),
    (URL, {"auth": ["user", "s3cret"]}),
    (URL, {"auth": curlhttp.BearerAuth}),
    (URL, {"headers": "Accept: text/html"}),
    (URL, {"headers": {"X": 5}}),
    (URL, {"headers": {5: "x"}}),
    (URL, {"headers": {"Authorization": "s3cret\n"}}),
    (URL, {"params": 5}),
    (URL, {"params": [1, 2]}),
    (URL, {"params": {"a": {"b": 1}}}),
    (URL, {"data": {"a": {"b": 1}}}),
    (URL, {"data": {"a": io.BytesIO(b"1")}}),
    (URL, {"data": 5}),
    (URL, {"data": [1]}),
    (URL, {"json": {1, 2}}),
    (URL, {"json": 1, "data": {"a": 1}}),
    (URL, {"json": 1, "files": {"a": b"1"}}),
    (URL, {"json": 1, "content": b"1"}),
    (URL, {"content": 5}),
    (URL, {"content": object()}),
    (URL, {"files": "a.txt"}),
    (URL, {"files": {"a": ("name",)}}),
    (URL, {"files": {"a": {}}}),
    (URL, {"files": {"a": b"1"}, "data": "text"}),
    (URL, {"cookies": "a=1"}),
    (URL, {"timeout": "5"}),
    (URL, {"timeout": 0}),
    (URL, {"timeout": True}),
    (URL, {"timeout": [1, 2]}),
    (URL, {"timeout": ("1", 2)}),
    (URL, {"proxies": {"htps": "http://user:s3cret@proxy"}}),
    (URL, {"proxies": {"http://": "http://proxy"}}),
    (URL, {"proxies": {"http": 5}}),
    (URL, {"proxies": ["http://proxy"]}),
    (URL, {"proxies": {"http": "http://"}}),
    ("https://127.0.0.1:1/", {"verify": []}),
    ("https://127.0.0.1:1/", {"verify": "/no/such/file"}),
    ("https://127.0.0.1:1/", {"cert": "/no/such/file"}),
    ("https://127.0.0.1:1/", {"cert": {"a": "b"}}),
    ("http://no-such-host.invalid/?token=s3cret", {}),
]


def error_of(call: Any, *args: Any, **options: Any) -> Exception:
    """Return the error of a call; no message shows a secret."""
    with pytest.raises(Exception) as caught:
        call(*args, **options)
    assert "s3cret" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(("url", "options"), WRONG)
def test_an_error_says_what_that_of_a_client_says(url: Any, options: dict[str, Any]) -> None:
    with curlhttp.Client() as client:
        expected = error_of(client.post, url, **options)
    found = error_of(curlhttp.post, url, **options)
    assert str(found) == str(expected)
    assert type(found) is type(expected)


@pytest.mark.parametrize("method", [None, 5, "", "A B"])
def test_a_wrong_method_is_an_error_as_in_a_client(method: Any) -> None:
    with curlhttp.Client() as client:
        expected = error_of(client.request, method, URL)
    assert str(error_of(curlhttp.request, method, URL)) == str(expected)
    assert "comes first" in str(error_of(curlhttp.request, URL, "GET"))


def test_the_functions_take_what_the_clients_take(app: AppServer) -> None:
    with HTTPProxy() as proxy:
        response = curlhttp.get(
            app.url + "/echo",
            headers=[("X-A", "b")],
            cookies=[("a", "b")],
            proxies={"http": curlhttp.Proxy(url=proxy.url)},
            retry=1,
        )
        assert len(proxy.log) == 1
    assert response.ok
    assert app.requests[-1].header("x-a") == "b"
    assert app.requests[-1].header("cookie") == "a=b"


def test_hooks_are_for_a_client_or_a_session(app: AppServer) -> None:
    hooks: Any = {"hooks": {"response": print}}
    with pytest.raises(TypeError, match="has no keyword 'hooks'"):
        curlhttp.get(app.url, **hooks)
    assert app.connections == 0


def test_an_error_of_the_callers_function_is_passed_on(app: AppServer) -> None:
    def fail(request: curlhttp.ClientRequest) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        curlhttp.get(app.url, auth=fail)
    assert app.requests == []


def test_a_network_error_is_that_of_the_clients() -> None:
    with refused_port() as port:
        url = f"http://127.0.0.1:{port}/"
        with curlhttp.Client() as client:
            expected = without_times(error_of(client.get, url))
        found: Any = error_of(curlhttp.get, url)
        theirs: Any = error_of(requests.get, url)
    assert without_times(found) == expected
    assert without_times(theirs) != expected
    assert isinstance(theirs.args[0].reason, requests.packages.urllib3.exceptions.HTTPError)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def without_times(error: BaseException) -> str:
    return re.sub(r"after \d+ ms", "after some ms", str(error))


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_a_missing_path_of_the_environment_is_an_error_of_tls_as_in_the_clients(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "/missing/x")
    reason = f"invalid path: /missing/x (the environment variable {name})"
    with RawServer(respond_and_close(b"")) as server, curlhttp.Client() as client:
        url = server.url.replace("http:", "https:") + "/?token=1"
        for get in (client.get, curlhttp.get):
            error = error_of(get, url)
            assert isinstance(error, curlhttp.SSLError)
            assert reason in str(error)
            assert str(error).startswith(f"GET {url.replace('token=1', 'token=***')}: ")
        with pytest.raises(FileNotFoundError, match="invalid path: /missing/y"):
            curlhttp.get(url, verify="/missing/y")


def test_http_where_tls_is_expected_says_so() -> None:
    def handler(conn: RawConnection) -> None:
        conn.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        conn.finish_and_close()

    with RawServer(handler) as server:
        text = str(error_of(curlhttp.get, server.url.replace("http:", "https:")))
    assert text.startswith("GET https://")
    assert "maybe the URL must begin with http://" in text


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("path", "read"), [("/truncated", 30), ("/stall-after", 0.05)])
def test_an_error_within_a_body_has_the_text_of_the_clients(
    app: AppServer, path: str, read: float, streamed: bool
) -> None:
    def fetch() -> None:
        options: Any = {"timeout": (30, paced(read))}
        if streamed:
            with curlhttp.stream("GET", app.url + path, **options) as response:
                response.read()
        else:
            curlhttp.get(app.url + path, **options)

    assert str(error_of(fetch)).startswith(f"GET {app.url}{path}: the ")


def test_too_many_redirects_name_the_last_url(app: AppServer) -> None:
    url = f"{app.url}/redirect/40"
    text = str(error_of(curlhttp.get, url))
    assert text.startswith(f"Exceeded 30 redirects. The response to GET {app.url}/redirect/10 is")
    assert "max_redirects= of the client" in text
    assert str(error_of(requests.get, url)) == "Exceeded 30 redirects."


def test_proxies_may_be_one_url(app: AppServer) -> None:
    with HTTPProxy() as proxy:
        assert curlhttp.get(app.url, proxies=proxy.url).text == "hello"
        assert len(proxy.log) == 1


def test_json_of_a_page_names_its_url(app: AppServer) -> None:
    app.route("/html", lambda record, conn: conn.reply(200, b"<html>Log in"))
    with curlhttp.Client() as client:
        expected = error_of(client.get(app.url + "/html").json)
    found = error_of(curlhttp.get(app.url + "/html").json)
    assert str(found) == str(expected)
    assert f"GET {app.url}/html got 200" in str(found)


@pytest.mark.parametrize("convert", [str, str.encode])
def test_only_a_bare_percent_sign_is_escaped(app: AppServer, convert: Any) -> None:
    url, params = convert(f"{app.url}/echo/caf%C3%A9?d=50%"), convert("e=%C3%A9%")
    assert curlhttp.get(url, params=params).json()["target"] == (
        "/echo/caf%C3%A9?d=50%25&e=%C3%A9%25"
    )


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/echo/%C3%A9?d=50%", "/echo/%C3%A9?d=50%25"),
        ("/echo/caf\xe9", "/echo/caf%E9"),
        ("/echo/voil\xc3\xa0", "/echo/voil%C3%A0"),
    ],
)
def test_a_location_is_read_as_in_the_clients(app: AppServer, location: str, target: str) -> None:
    app.route("/away", lambda record, conn: conn.reply(302, b"", [("Location", location)]))
    assert curlhttp.get(app.url + "/away").json()["target"] == target


def test_json_in_no_unicode_encoding_has_the_charset_of_content_type(app: AppServer) -> None:
    query = 'charset=shift_jis&text="%E8%A1%A8"'
    response = curlhttp.get(f"{app.url}/text?{query}")
    assert response.content == '"表"'.encode("shift_jis")
    assert response.json() == response.json(type=str) == "表"


# --- redirects: the body stays with its method, as in the clients ---


def to(status: int) -> str:
    return f"/redirect-to?url=/echo&status={status}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "method"),
    [(301, "PUT"), (301, "PATCH"), (301, "DELETE"), (301, "QUERY"), (302, "GET"), (303, "GET")],
)
def test_a_body_is_sent_again_if_the_method_stays(
    app: AppServer, status: int, method: str, stream: bool
) -> None:
    file = io.BytesIO(b"skipped, sent")
    file.seek(9)
    headers = {"content-type": "x/y", "Content-MD5": "a"}
    response = curlhttp.request(
        method, app.url + to(status), data=file, headers=headers, stream=stream
    )
    assert (response.json()["method"], response.json()["body"]) == (method, "sent")
    assert [record.body for record in app.requests] == [b"sent", b"sent"]
    assert app.requests[1].header("content-type") == "x/y"
    assert app.requests[1].header("content-md5") == "a"


def test_the_drop_in_drops_the_body_as_requests_does(app: AppServer) -> None:
    assert requests.put(app.url + to(301), data=b"four").json()["body"] == ""
    with requests.Session() as session:
        assert session.put(app.url + to(301), data=b"four").json()["body"] == ""


@pytest.mark.parametrize("status", [301, 302, 303])
def test_if_the_method_changes_no_field_of_the_body_is_sent(app: AppServer, status: int) -> None:
    headers = {"content-type": "x/y", "Content-MD5": "a", "digest": "b", "X-Own": "c"}
    response = curlhttp.post(app.url + to(status), data=b"four", headers=headers)
    assert (response.json()["method"], response.json()["body"]) == ("GET", "")
    sent = {name.lower() for name, _ in app.requests[1].headers}
    assert sent.isdisjoint({"content-type", "content-md5", "digest", "content-length"})
    assert "x-own" in sent


class Once:
    """A file without tell()."""

    def __init__(self) -> None:
        self.read = io.BytesIO(b"ab").read


@pytest.mark.parametrize("make", [lambda: iter([b"a", b"b"]), Once])
@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_body_that_can_be_read_once_is_an_error_if_the_method_stays(
    app: AppServer, status: int, make: Any
) -> None:
    with pytest.raises(curlhttp.UnrewindableBodyError) as caught:
        curlhttp.put(app.url + to(status), data=make())
    assert [record.body for record in app.requests] == [b"ab"]
    assert f"PUT {app.url}" in str(caught.value)
    error: Any = caught.value
    assert error.response.status_code == status
    assert curlhttp.put(app.url + to(status), data=make(), allow_redirects=False).is_redirect
    assert curlhttp.put(app.url + to(303), data=make()).json()["body"] == ""


# --- bodies of redirects that are not followed ---

CODED = gzip.compress(b"hello" * 100)
BROKEN = {
    "short": (b"Content-Length: 9\r\n\r\nabc", curlhttp.ChunkedEncodingError),
    "nothing of it": (b"Content-Length: 9\r\n\r\n", curlhttp.ChunkedEncodingError),
    "chunk": (b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", curlhttp.ChunkedEncodingError),
    "last chunk": (
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        curlhttp.ChunkedEncodingError,
    ),
    "framing": (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", curlhttp.ChunkedEncodingError),
    "coded and short": (
        b"Content-Encoding: gzip\r\nContent-Length: 999\r\n\r\n" + CODED,
        curlhttp.ChunkedEncodingError,
    ),
    "truncated coding": (
        b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (len(CODED) - 9) + CODED[:-9],
        curlhttp.ContentDecodingError,
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("api", ["function", "session", "drop-in", "client"])
def test_the_body_of_a_redirect_that_is_not_followed_may_not_break_off_silently(
    api: str, kind: str, stream: bool
) -> None:
    rest, expected = BROKEN[kind]
    head = b"HTTP/1.1 302 Found\r\nLocation: /next\r\n"
    with (
        RawServer(respond_and_close(head + rest)) as server,
        curlhttp.Client() as client,
        requests.Session() as session,
    ):
        with pytest.raises(expected) as caught:
            if api == "client" and stream:
                with client.stream("GET", server.url, follow_redirects=False) as streamed:
                    streamed.read()
            elif api == "client":
                client.get(server.url, follow_redirects=False)
            else:
                get: Any = {
                    "function": curlhttp.get,
                    "session": session.get,
                    "drop-in": requests.get,
                }[api]
                response = get(server.url, allow_redirects=False, stream=stream)
                assert stream  # else it has raised
                _ = response.read() if api == "function" else response.content
    error: Any = caught.value
    assert error.response.status_code == 302
    assert error.response.headers["location"] == "/next"


def test_a_redirect_with_a_corrupt_coding_is_an_error_as_in_the_clients() -> None:
    """The drop-in, like requests, returns an empty body."""
    rest = b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone"
    with RawServer(respond_and_close(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n" + rest)) as server:
        with pytest.raises(curlhttp.ContentDecodingError):
            curlhttp.get(server.url, allow_redirects=False)
        assert requests.get(server.url, allow_redirects=False).content == b""
