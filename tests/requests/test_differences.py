"""Intended differences from requests, as listed in docs/migrating/drop-in.md."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import pickle
from collections.abc import Iterator
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import quote

import pytest

import curlhttp
from curlhttp import requests
from curlhttp.requests.adapters import HTTPAdapter
from tests.servers import (
    AppServer,
    BlackHole,
    Certs,
    H2Server,
    HTTPProxy,
    RawConnection,
    RawServer,
    refused_port,
    respond,
    respond_and_close,
    response,
)
from tests.support.internals import close_shared_clients, run_script
from tests.support.pace import paced

Retry: Any = requests.packages.urllib3.util.retry.Retry
Timeout = curlhttp.Timeout


@pytest.fixture(autouse=True)
def _fresh_pool() -> Iterator[None]:
    """Close what the functions of the module keep open."""
    yield
    close_shared_clients()


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


def sent_by(session: requests.Session, url: str, **options: Any) -> Any:
    """Send a request and return it as the engine got it."""
    seen: list[Any] = []

    class Watched(HTTPAdapter):
        def _attempt(self, sent: Any) -> Any:
            seen.append(sent)
            return super()._attempt(sent)

    session.mount("http://", Watched())
    session.get(url, **options)
    return seen[0]


# --- settings ---


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_verify_false_of_a_session_beats_the_environment(
    session: requests.Session, tls_app: AppServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/nowhere.pem")
    session.verify = False
    with pytest.warns(Warning, match="Unverified"):
        assert session.get(tls_app.url).text == "hello"


def test_a_path_in_verify_of_a_session_beats_the_environment(
    session: requests.Session,
    tls_app: AppServer,
    certs: Certs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere.pem")
    session.verify = str(certs.ca_path)
    assert session.get(tls_app.url).text == "hello"


def test_proxies_of_a_session_beat_the_environment(
    session: requests.Session, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with HTTPProxy() as proxy:
        session.proxies = {"http": proxy.url}
        assert session.get(app.url).text == "hello"
        assert len(proxy.log) == 1
        session.proxies = {"http": None}
        assert session.get(app.url).text == "hello"
        assert len(proxy.log) == 1


@pytest.mark.parametrize("verify", [None, 1])
def test_send_verifies_by_default(
    session: requests.Session, tls_app: AppServer, verify: Any
) -> None:
    prepared = session.prepare_request(requests.Request("GET", tls_app.url))
    with pytest.raises(requests.exceptions.SSLError):
        session.send(prepared, verify=verify)


def test_an_empty_path_in_verify_does_not_switch_verification_off(
    session: requests.Session, tls_app: AppServer
) -> None:
    class Pools(HTTPAdapter):
        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            super().cert_verify(conn, url, verify, cert)

    for adapter in (HTTPAdapter(), Pools()):
        session.mount("https://", adapter)
        with pytest.raises(OSError, match="invalid path"):
            session.get(tls_app.url, verify="")
    assert tls_app.connections == 0


# --- time limits ---


def test_there_is_a_time_limit_by_default(session: requests.Session, app: AppServer) -> None:
    limits = sent_by(session, app.url).timeout
    assert (limits.connect, limits.read, limits.total) == (10, 60, None)


def test_a_session_may_have_its_own_time_limit(app: AppServer) -> None:
    with requests.Session(timeout=(3, 4)) as session:
        assert sent_by(session, app.url).timeout == Timeout(connect=3, read=4)
        assert sent_by(session, app.url, timeout=5).timeout == Timeout(connect=5, read=5)
        session.timeout = 7
        assert sent_by(session, app.url).timeout == Timeout(connect=7, read=7)


def test_a_session_may_have_no_time_limit(app: AppServer) -> None:
    with requests.Session(timeout=None) as session:
        limits = sent_by(session, app.url).timeout
    assert (limits.connect, limits.read, limits.total, limits.pool) == (None, None, None, None)


def test_timeout_is_the_exception_and_a_request_takes_the_setting_of_the_clients(
    app: AppServer,
) -> None:
    assert issubclass(requests.ReadTimeout, requests.Timeout)
    assert requests.Timeout is curlhttp.TimeoutException
    assert str(requests.Timeout("too late")) == "too late"
    assert requests.get(app.url, timeout=Timeout(total=30)).text == "hello"


@pytest.mark.parametrize("limit", [math.inf, math.nan, 10**400])
def test_an_invalid_time_limit_is_a_value_error(app: AppServer, limit: Any) -> None:
    for timeout in (limit, (1, limit), (limit, 1)):
        with pytest.raises(ValueError):
            requests.get(app.url, timeout=timeout)
    assert app.connections == 0


def test_a_total_that_ran_out_is_never_retried(session: requests.Session, app: AppServer) -> None:
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=3)))
    with pytest.raises(curlhttp.DeadlineExceeded):
        session.get(app.url + "/stall", timeout=Timeout(total=paced(0.1)))
    assert len(app.requests) == 1


def test_a_wait_for_a_full_pool_is_never_retried(app: AppServer) -> None:
    with requests.Session() as session:
        session.mount(
            "http://", HTTPAdapter(pool_maxsize=1, pool_block=True, max_retries=Retry(total=3))
        )
        with session.get(app.url + "/bytes/1000000", stream=True):
            with pytest.raises(curlhttp.PoolTimeout):
                session.get(app.url, timeout=Timeout(pool=0.02, total=30))
    assert len(app.requests) == 1


# --- connections ---


def test_the_functions_of_the_module_share_connections_and_no_cookies(app: AppServer) -> None:
    requests.get(app.url + "/cookies/set?a=1")
    assert requests.get(app.url + "/cookies").json()["cookies"] == {}
    assert requests.post(app.url + "/echo", data=b"x").status_code == 200
    assert app.connections == 1


def test_the_certificate_is_known_from_when_a_stream_opened_the_connection(
    session: requests.Session, tls_app: AppServer, certs: Certs
) -> None:
    session.verify = str(certs.ca_path)
    with session.get(tls_app.url, stream=True) as response:
        sock = response.raw._connection.sock
        assert sock.getpeercert()["subjectAltName"]
        assert isinstance(sock.getpeercert(True), bytes)
        _ = response.content
    with session.get(tls_app.url, stream=True) as response:
        assert response.timings.reused
        assert response.raw._connection.sock.getpeercert()["subjectAltName"]


def test_the_certificate_of_a_connection_is_unknown_if_it_was_not_requested(
    session: requests.Session, tls_app: AppServer, certs: Certs
) -> None:
    session.verify = str(certs.ca_path)
    session.get(tls_app.url)
    with session.get(tls_app.url, stream=True) as response:
        assert response.timings.reused
        with pytest.raises(ValueError, match="not known"):
            response.raw._connection.sock.getpeercert()


def test_a_source_address_that_cannot_be_used_is_named(
    session: requests.Session, app: AppServer
) -> None:
    class Bound(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, source_address=("192.0.2.1", 0), **kwargs)

    session.mount("http://", Bound())
    with pytest.raises(
        requests.ConnectionError, match=r"local address 192\.0\.2\.1 cannot be used"
    ):
        session.get(app.url)


# --- what goes out ---


def test_the_connection_header_is_sent_last(session: requests.Session, app: AppServer) -> None:
    session.get(app.url, headers={"X": "y"})
    session.post(app.url, data=b"x")
    for record in app.requests:
        assert record.headers[-1] == ("Connection", "keep-alive")


@pytest.mark.parametrize("name", ["User-Agent", "Accept-Encoding"])
def test_a_header_that_is_taken_away_gets_no_substitute(
    session: requests.Session, app: AppServer, name: str
) -> None:
    session.get(app.url, headers={name: None})
    assert app.requests[0].header(name) is None


@pytest.mark.parametrize("headers", [{"X": "a\0b"}, {"X\0": "a"}, {"X": b"\0"}])
def test_nul_in_a_header_is_refused(app: AppServer, headers: Any) -> None:
    with pytest.raises(requests.exceptions.InvalidHeader):
        requests.get(app.url, headers=headers)
    assert app.connections == 0


@pytest.mark.parametrize(
    "file", [("n", b"x", "text/plain\r\nX: y"), ("n", b"x", "text/plain", {"X": "a\r\nb"})]
)
def test_headers_smuggled_into_a_form_are_refused(app: AppServer, file: Any) -> None:
    with pytest.raises(requests.exceptions.InvalidHeader):
        requests.post(app.url, files={"f": file})
    assert app.connections == 0


def test_a_line_break_in_a_name_of_a_form_is_escaped(app: AppServer) -> None:
    body = requests.post(app.url + "/echo", files={"f": ("a\r\nX: y", b"x")}).json()["body"]
    assert 'filename="a%0D%0AX: y"' in body


@pytest.mark.parametrize("host", ["$$$.example", "a!b", "a'b.example"])
def test_a_host_that_no_name_server_knows_is_an_invalid_url(host: str) -> None:
    with pytest.raises(requests.exceptions.InvalidURL, match="malformed host"):
        requests.get(f"http://{host}/")


def test_a_method_that_is_no_token_is_an_error_of_ours(app: AppServer) -> None:
    with pytest.raises(curlhttp.InvalidMethod) as caught:
        requests.request("G ET", app.url)
    assert isinstance(caught.value, requests.RequestException)
    assert isinstance(caught.value, ValueError)


def test_a_body_with_head_is_refused(app: AppServer) -> None:
    with pytest.raises(curlhttp.InvalidMethod):
        requests.head(app.url, data=b"x")
    assert app.connections == 0


@pytest.mark.parametrize("name", ["Content-Length", "Transfer-Encoding"])
def test_the_body_takes_precedence_over_framing_headers(
    session: requests.Session, app: AppServer, name: str
) -> None:
    value = "99" if name == "Content-Length" else "chunked"
    session.get(app.url, headers={name: value})
    session.post(app.url + "/echo", data=b"abc", headers={name: value})
    assert app.requests[0].header(name) is None
    assert app.requests[1].body == b"abc"
    assert not app.requests[1].chunked


def test_the_length_of_text_files_is_that_of_the_sent_bytes(app: AppServer) -> None:
    requests.post(app.url + "/echo", data=io.StringIO("\u20ac"))
    assert app.requests[0].header("content-length") == "3"
    assert app.requests[0].body == "\u20ac".encode()


# --- credentials ---


def to(url: str) -> str:
    return "/redirect-to?url=" + quote(url, safe="")


@pytest.mark.parametrize("url", ["ftp://user:s3cret@host/", "http://user:s3cret@host:99999/"])
def test_errors_hide_passwords(url: str) -> None:
    with pytest.raises(requests.RequestException) as caught:
        requests.get(url)
    assert "s3cret" not in str(caught.value)
    assert "***@host" in str(caught.value)


def test_errors_hide_the_value_of_authorization(app: AppServer) -> None:
    with pytest.raises(requests.exceptions.InvalidHeader) as caught:
        requests.get(app.url, headers={"Authorization": "Bearer s3cret\n"})
    assert "s3cret" not in str(caught.value)
    assert "Authorization" in str(caught.value)


def test_the_message_of_a_status_hides_the_password(app: AppServer) -> None:
    url = app.url.replace("//", "//user:s3cret@") + "/status/404"
    with pytest.raises(requests.HTTPError) as caught:
        requests.get(url).raise_for_status()
    assert str(caught.value) == f"404 Client Error: Not Found for url: {app.url}/status/404"


def test_a_digest_challenge_of_another_origin_is_returned(app: AppServer) -> None:
    auth = requests.auth.HTTPDigestAuth("user", "s3cret")
    with AppServer() as other:
        response = requests.get(
            app.url + to(other.url + "/digest?user=user&password=s3cret"), auth=auth
        )
        assert response.status_code == 401
        assert [record.header("authorization") for record in other.requests] == [None]


def test_proxy_authorization_is_sent_to_no_origin(app: AppServer) -> None:
    requests.get(app.url, headers={"Proxy-Authorization": "Basic s3cret"})
    assert app.requests[0].header("proxy-authorization") is None


def test_a_host_header_is_removed_at_another_host(app: AppServer) -> None:
    requests.get(app.url + to(app.at("localhost") + "/echo"), headers={"Host": "name.example"})
    sent = [record.header("host") for record in app.requests]
    assert sent == ["name.example", f"localhost:{app.port}"]


def jar_of_the_standard_library() -> CookieJar:
    jar = CookieJar()
    jar.set_cookie(requests.cookies.create_cookie("own", "1"))
    return jar


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: {"own": "1"},
        lambda: requests.cookies.cookiejar_from_dict({"own": "1"}),
        jar_of_the_standard_library,
    ],
)
def test_cookies_of_one_request_stay_with_its_host(
    session: requests.Session, app: AppServer, make: Any, stream: bool
) -> None:
    session.cookies["everywhere"] = "1"
    away = app.at("localhost")
    url = app.url + to("/redirect-to?url=" + quote(away + to(app.url + "/echo"), safe=""))
    with session.get(url, cookies=make(), stream=stream) as response:
        assert response.url == app.url + "/echo"
    both = "everywhere=1; own=1"
    sent = [record.header("cookie") for record in app.requests]
    assert sent == [both, both, "everywhere=1", "everywhere=1"]


def test_cookies_of_a_prepared_request_stay_with_its_host(
    session: requests.Session, app: AppServer
) -> None:
    away = app.at("localhost") + "/echo"
    request = requests.Request("GET", app.url + to(away), cookies={"own": "1"}).prepare()
    response = session.send(request, allow_redirects=False)
    assert "Cookie" not in response.next.headers
    session.send(response.next)
    session.send(request)
    assert [record.header("cookie") for record in app.requests] == ["own=1", None, "own=1", None]
    assert request.headers["Cookie"] == "own=1"


@pytest.mark.parametrize("auth", [("user", "s3cret"), "digest", None])
def test_a_pickled_response_or_error_carries_no_credentials(
    session: requests.Session, app: AppServer, auth: Any
) -> None:
    if auth == "digest":
        auth = requests.auth.HTTPDigestAuth("user", "s3cret")
    session.cookies["a"] = "s3cret-1"
    session.headers["Proxy-Authorization"] = "s3cret-2"
    url = app.url.replace("//", "//me:s3cret-3@")
    path = "/digest?user=user&password=pass" if auth else "/redirect-to?url=/status/404"
    response = session.get(url + path, auth=auth, headers={"X": "kept"})
    with pytest.raises(requests.HTTPError) as refused:
        response.raise_for_status()
    with pytest.raises(requests.ReadTimeout) as stalled:
        session.get(url + "/stall", auth=auth, headers={"X": "kept"}, timeout=(30, 0.05))
    secrets = [b"s3cret", base64.b64encode(b"user:s3cret"), base64.b64encode(b"me:s3cret-3")]
    values: list[Any] = [response, refused.value, stalled.value]
    for value in values:
        data = pickle.dumps(value)
        assert not any(secret in data for secret in secrets)
        again: Any = pickle.loads(data)
        assert again.request.headers["X"] == "kept"
        assert not again.request._cookies
        assert "@" not in again.request.url
        assert "Cookie" in value.request.headers  # of what was pickled
    assert response.url.startswith(url)


@pytest.mark.parametrize("stream", [False, True])
def test_a_pickled_error_carries_no_secrets_of_urls(
    session: requests.Session, app: AppServer, stream: bool
) -> None:
    app.route(
        "/elsewhere",
        lambda record, conn: conn.reply(
            302, headers=[("Location", "/status/404?token=s3cret-1"), ("Set-Cookie", "a=s3cret-2")]
        ),
    )
    own = {"Referer": "http://a.test/?token=s3cret-3", "X-Api-Key": "s3cret-4", "X": "kept"}
    url = app.url + "/elsewhere?access_token=s3cret-5"
    response = session.get(url, headers=own, stream=stream)
    with pytest.raises(requests.HTTPError) as refused:
        response.raise_for_status()
    with pytest.raises(requests.ReadTimeout) as stalled:
        session.get(app.url + "/stall?token=s3cret-6", headers=own, timeout=(30, 0.05))
    values: list[Any] = [refused.value, stalled.value]
    for value in values:
        data = pickle.dumps(value)
        assert b"s3cret" not in data
        again: Any = pickle.loads(data)
        assert again.request.headers["X"] == "kept"
        assert again.request.url.endswith("token=***")
    twin: Any = pickle.loads(pickle.dumps(refused.value))
    assert (twin.response.status_code, twin.response.history[0].status_code) == (404, 302)
    assert response.url.endswith("?token=s3cret-1")  # of the one that was pickled
    response.close()


def test_a_pickled_prepared_request_is_complete(session: requests.Session, app: AppServer) -> None:
    """Who pickles a request itself means to send it; requests' own tests do."""
    request = requests.Request("GET", app.url, auth=("u", "p"), cookies={"a": "1"}).prepare()
    session.send(pickle.loads(pickle.dumps(request)))
    assert app.requests[0].header("cookie") == "a=1"
    assert app.requests[0].header("authorization") == "Basic dTpw"


# --- what comes in ---


@pytest.mark.parametrize("charset", ["utf-7", "punycode", "nonsense"])
def test_an_unknown_charset_means_utf_8(session: requests.Session, charset: str) -> None:
    headers = [("Content-Type", f"text/plain; charset={charset}")]
    with RawServer(respond(response("é+AGE-".encode(), headers=headers))) as server:
        found = session.get(server.url)
    assert found.text == "".join(found.iter_content(1, decode_unicode=True)) == "é+AGE-"
    found.encoding = "UTF7"
    assert found.text.endswith("a")


def test_a_head_that_is_cut_is_an_error() -> None:
    with RawServer(respond_and_close(b"HTTP/1.1 200 OK\r\nX: y\r\n")) as server:
        with pytest.raises(curlhttp.RemoteProtocolError) as caught:
            requests.get(server.url)
    assert isinstance(caught.value, requests.exceptions.ChunkedEncodingError)
    assert pickle.loads(pickle.dumps(caught.value)).args


@pytest.mark.parametrize("length", ["x", "-1", "+3", "3x", "3, 4"])
def test_a_length_that_is_no_number_is_an_invalid_header(length: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nabc"
    with RawServer(respond_and_close(head.encode())) as server:
        with pytest.raises(requests.exceptions.InvalidHeader) as caught:
            requests.get(server.url)
    assert isinstance(caught.value, curlhttp.RemoteProtocolError)
    assert caught.value.request_sent


def test_a_location_that_is_not_utf_8_keeps_its_bytes(
    session: requests.Session, app: AppServer
) -> None:
    """In requests, it raises UnicodeDecodeError."""
    app.route("/away", lambda record, conn: conn.reply(302, b"", [("Location", "/echo/caf\xe9")]))
    assert session.get(app.url + "/away").json()["target"] == "/echo/caf%E9"


def test_a_redirect_whose_body_breaks_off_is_followed(session: requests.Session) -> None:
    """As in requests; the difference would be an error."""

    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        cut = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 9\r\n\r\nabc"
        conn.send(response(b"there") if head.startswith(b"GET /next") else cut)

    with RawServer(handler) as server:
        found = session.get(server.url)
    assert found.text == "there"
    assert found.history[0].status_code == 302


@pytest.mark.parametrize("stream", [False, True])
def test_at_most_64_kib_of_the_body_of_a_redirect_are_kept(
    session: requests.Session, app: AppServer, stream: bool
) -> None:
    url = app.url + to(app.url) + "&body=300000"
    seen: list[int] = []
    hooks = {"response": lambda got, **_: seen.append(len(got.content))}
    response = session.get(url, stream=stream)
    assert (len(response.history[0].content), response.content) == (65536, b"hello")
    session.get(url, stream=stream, hooks=hooks)
    assert seen == [65536, 5]


def test_a_streamed_redirect_that_is_not_followed_stays_on_the_wire(
    session: requests.Session, app: AppServer
) -> None:
    url = app.url + to(app.url + "/") + "&body=300000"
    with session.get(url, stream=True, allow_redirects=False) as response:
        assert response.next.url == app.url + "/"
        assert len(response.raw.read()) == 300_000


def test_a_retry_covers_a_body_that_is_read_at_once(session: requests.Session) -> None:
    """In requests the body is read when the retries are over."""

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
        conn.send(response(b"whole") if conn.index else cut)

    with RawServer(handler) as server:
        session.mount("http://", HTTPAdapter(max_retries=Retry(total=1)))
        assert session.get(server.url).content == b"whole"
        assert len(server.requests) == 2


def test_chunks_of_any_size_are_bounded(session: requests.Session) -> None:
    import gzip

    coded = response(gzip.compress(bytes(1_000_000)), headers=[("Content-Encoding", "gzip")])
    with RawServer(respond(coded)) as server:
        with session.get(server.url, stream=True) as found:
            sizes = [len(piece) for piece in found.iter_content(None)]
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= 65536


def test_errors_keep_their_request_when_they_are_pickled(app: AppServer) -> None:
    with BlackHole() as hole, pytest.raises(requests.ConnectTimeout) as caught:
        requests.get(hole.url, timeout=0.02)
    assert pickle.loads(pickle.dumps(caught.value)).request.url == hole.url + "/"


# --- additions ---


def test_content_is_another_name_for_a_body(app: AppServer) -> None:
    assert requests.post(app.url + "/echo", content=b"x").json()["body"] == "x"
    with pytest.raises(TypeError, match="are the same: pass only one"):
        requests.post(app.url, content=b"x", data=b"y")


@pytest.mark.skipif(
    "sha512_256" not in hashlib.algorithms_available, reason="OpenSSL has no SHA-512/256"
)
@pytest.mark.parametrize("algorithm", ["SHA-512-256", "SHA-512-256-sess", "SHA-256-sess"])
def test_digest_has_the_algorithms_of_the_rfc(app: AppServer, algorithm: str) -> None:
    auth = requests.auth.HTTPDigestAuth("u", "p")
    url = f"{app.url}/digest?user=u&password=p&algorithm={algorithm}"
    assert requests.get(url, auth=auth).text == "welcome"


def test_follow_redirects_is_another_name_for_allow_redirects(app: AppServer) -> None:
    assert requests.get(app.url + "/redirect/1", follow_redirects=False).status_code == 302
    assert requests.head(app.url + "/redirect/1", follow_redirects=True).status_code == 200


def test_a_response_has_its_version_and_timings(app: AppServer) -> None:
    response = requests.get(app.url)
    assert response.http_version == "HTTP/1.1"
    assert response.timings.first_byte > 0
    assert response.timings.peer == ("127.0.0.1", app.port)
    assert 0 < response.elapsed.total_seconds() < 30
    assert response.timings is response.timings
    assert requests.Response().timings is None
    response.timings = None  # attributes may be set at will
    assert response.timings is None


def test_the_history_is_an_attribute_as_in_requests(app: AppServer) -> None:
    response = requests.get(app.url + "/redirect/1")
    assert vars(response)["history"] is response.history
    assert vars(requests.Response())["history"] == []


def test_an_adapter_may_offer_http_2(
    session: requests.Session, h2_app: H2Server, certs: Certs
) -> None:
    session.verify = str(certs.ca_path)
    session.mount("https://", HTTPAdapter(http2=True))
    response = session.get(h2_app.url)
    assert (response.http_version, response.raw.version, response.reason) == ("HTTP/2", 20, "OK")
    with session.get(h2_app.url, stream=True) as streamed:
        assert streamed.text == "hello"


_ALIASED = """
import sys
import curlhttp
curlhttp.alias_requests()
import requests
assert requests is curlhttp.requests
own = [finder for finder in sys.meta_path if "curlhttp" in type(finder).__module__]
assert own
assert not any(hasattr(finder, "find_distributions") for finder in own)
print(requests.__version__)
"""


@pytest.mark.slow
def test_the_alias_is_no_installed_distribution() -> None:
    """importlib.metadata.version("requests") speaks of what is installed."""
    assert run_script(_ALIASED) == "2.34.2\n"


@pytest.mark.parametrize(
    ("auth", "value"),
    [
        (curlhttp.BasicAuth("u", "p"), "Basic dTpw"),
        (curlhttp.BearerAuth("t"), "Bearer t"),
    ],
)
def test_an_auth_of_the_clients_with_a_constant_header_is_taken(
    session: requests.Session, app: AppServer, auth: Any, value: str
) -> None:
    session.get(app.url, auth=auth)
    assert app.requests[-1].header("authorization") == value
    session.auth = auth
    session.get(app.url)
    assert app.requests[-1].header("authorization") == value


@pytest.mark.parametrize("auth", [curlhttp.BearerAuth(lambda: "t"), curlhttp.DigestAuth("u", "p")])
def test_other_auths_of_the_clients_say_that_they_are_for_them(
    session: requests.Session, app: AppServer, auth: Any
) -> None:
    with pytest.raises(TypeError, match=f"{type(auth).__name__} is for Client and AsyncClient"):
        session.get(app.url, auth=auth)
    session.auth = auth
    with pytest.raises(TypeError, match="and a Session take"):
        session.get(app.url)
    assert not app.requests


@pytest.mark.parametrize(
    ("auth", "text"),
    [
        ("Bearer t", "'str' object is not callable: auth must be .*BearerAuth"),
        (["u", "p"], "'list' object is not callable: .*write a tuple"),
        (curlhttp.BearerAuth, "^auth must be an object, not a class"),
    ],
)
def test_an_error_says_what_auth_takes(
    session: requests.Session, app: AppServer, auth: Any, text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        session.get(app.url, auth=auth)
    assert not app.requests


def test_a_function_for_auth_that_returns_nothing_says_so(session: requests.Session) -> None:
    auth: Any = lambda request: None  # noqa: E731
    with pytest.raises(AttributeError, match="auth must return the request"):
        session.get("http://127.0.0.1:1/", auth=auth)


def test_no_url_is_proposed_for_a_relative_one(session: requests.Session) -> None:
    with pytest.raises(requests.exceptions.MissingSchema) as caught:
        session.get("/x")
    assert "https:///" not in str(caught.value)
    assert "It is relative" in str(caught.value)


def test_json_of_a_page_names_its_url_and_its_beginning(
    session: requests.Session, app: AppServer
) -> None:
    app.route("/page", lambda record, conn: conn.reply(200, b"<html>Log in"))
    found = session.get(app.url + "/page?token=s3cret")
    with pytest.raises(requests.JSONDecodeError) as caught:
        found.json()
    error = caught.value
    text = str(error)
    assert text.startswith("Expecting value: line 1 column 1 (char 0); GET http://")
    assert "/page?token=*** got 200 and" in text
    assert "<html>Log in" in text
    assert (error.msg, error.doc, error.pos) == ("Expecting value", "<html>Log in", 0)
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_content_is_no_form(session: requests.Session, app: AppServer) -> None:
    form: Any = {"a": "1"}
    with pytest.raises(TypeError, match="data= takes a form"):
        session.post(app.url, content=form)
    assert not app.requests


def test_a_session_counts_what_it_does(app: AppServer) -> None:
    session = requests.Session()
    session.mount(app.url + "/echo", requests.adapters.HTTPAdapter())
    with refused_port() as port:
        for path in ("/", "/echo", "/status/503"):
            session.get(app.url + path)
        with session.get(app.url, stream=True) as response:
            assert response.content
        with pytest.raises(requests.ConnectionError):
            session.get(f"http://127.0.0.1:{port}/")
    stats = session.stats()
    assert stats.attempts == 5
    assert stats.origins[app.url].responses == {"2xx": 3, "5xx": 1}
    assert stats.origins[app.url].durations.count == 4
    assert stats.origins[f"http://127.0.0.1:{port}"].errors == {"ConnectionError": 1}
    assert sum(each.open for each in stats.connections) >= 1
    assert "curlhttp_responses_total" in stats.as_prometheus()
    session.close()
    after = session.stats()
    assert (after.attempts, after.connections) == (5, ())
    assert requests.Session().stats().attempts == 0
    assert pickle.loads(pickle.dumps(session)).stats().attempts == 0


def test_a_class_among_the_bases_of_a_session_may_have_stats_of_its_own() -> None:
    """Such as the client of docker."""

    class Containers:
        def stats(self, container: str, stream: bool = True) -> str:
            return f"{container} {stream}"

    class APIClient(requests.Session, Containers):  # type: ignore[misc]
        pass

    client: Any = APIClient()
    assert client.stats("abc", stream=False) == "abc False"


def test_a_session_has_no_public_method_that_that_of_requests_has_not() -> None:
    """One would hide that of a class which follows Session among the bases of a subclass."""
    theirs = [
        "auth",
        "cert",
        "close",
        "cookies",
        "delete",
        "get",
        "get_adapter",
        "get_redirect_target",
        "head",
        "headers",
        "hooks",
        "max_redirects",
        "merge_environment_settings",
        "mount",
        "options",
        "params",
        "patch",
        "post",
        "prepare_request",
        "proxies",
        "put",
        "rebuild_auth",
        "rebuild_method",
        "rebuild_proxies",
        "request",
        "resolve_redirects",
        "send",
        "should_strip_auth",
        "stream",
        "trust_env",
        "verify",
        "adapters",
    ]
    ours = {name for name in dir(requests.Session) if not name.startswith("_")}
    assert ours - {*theirs} == {"guard", "timeout"}  # settings
    with pytest.raises(AttributeError, match="'Session' object has no attribute 'statistics'"):
        requests.Session().statistics  # noqa: B018


def test_retries_of_a_session_are_counted(app: AppServer) -> None:
    session = requests.Session()
    retry = Retry(total=2, backoff_factor=0.01, status_forcelist=[503], raise_on_status=False)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
    session.get(app.url + "/status/503")
    stats = session.stats()
    assert (stats.attempts, stats.retries) == (3, 2)
    assert stats.origins[app.url].waits["backoff"].count == 2
    session.close()


def test_a_session_without_our_adapters_has_statistics_too() -> None:
    session = requests.Session()
    session.mount("http://", requests.adapters.BaseAdapter())
    assert session.stats().attempts == 0
