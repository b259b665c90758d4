"""Smoke tests of the loopback servers, with the standard library, h2 and pycurl as clients.

curlhttp is not imported: a broken server must not look like a broken client.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import io
import json
import socket
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import brotli
import pycurl
import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import StreamReset

from tests.servers import (
    HTTP2,
    AppConnection,
    AppServer,
    BlackHole,
    Certs,
    H2Server,
    HTTPProxy,
    RawConnection,
    RawServer,
    Record,
    SOCKSProxy,
    close_at_once,
    payload,
    refused_port,
    reset_at_once,
    respond,
    respond_and_close,
    respond_and_reset,
    response,
)


class Answer(NamedTuple):
    status: int
    body: bytes
    head: list[str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        found = [line.partition(": ")[2] for line in self.head if line.lower().startswith(name)]
        return found[-1] if found else None


class Browser:
    """A curl handle that keeps its connections."""

    def __init__(self) -> None:
        self.curl = pycurl.Curl()

    def get(self, url: str, **options: Any) -> Answer:
        body, head = io.BytesIO(), io.BytesIO()
        self.curl.reset()
        options = {"timeout_ms": 10_000, "proxy": "", "httpheader": [], **options}
        for name, value in options.items():
            self.curl.setopt(getattr(pycurl, name.upper()), value)
        self.curl.setopt(pycurl.URL, url)
        self.curl.setopt(pycurl.WRITEDATA, body)
        self.curl.setopt(pycurl.HEADERFUNCTION, head.write)
        self.curl.perform()
        lines = head.getvalue().decode("latin-1").split("\r\n")
        return Answer(self.curl.getinfo(pycurl.RESPONSE_CODE), body.getvalue(), lines)

    def error(self, url: str, **options: Any) -> int:
        with pytest.raises(pycurl.error) as caught:
            self.get(url, **options)
        return int(caught.value.args[0])


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certs:
    return Certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.curl.close()


@pytest.fixture
def app() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


@pytest.fixture
def h2() -> Iterator[H2Server]:
    with H2Server() as server:
        yield server


PRIOR = {"http_version": pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE}


# -- certificates


def test_a_good_context_is_trusted_with_the_ca_and_reports_the_handshake(
    certs: Certs, browser: Browser
) -> None:
    with AppServer(certs.server_context()) as server:
        ca = str(certs.ca_path)
        assert browser.get(server.url + "/", cainfo=ca).body == b"hello"
        assert browser.get(server.at("localhost") + "/", cainfo=ca).body == b"hello"
        assert [shake.sni for shake in server.handshakes] == [None, "localhost"]
        assert server.handshakes[0].version == "TLSv1.3"


@pytest.mark.parametrize("name", ["wrong_host", "expired", "not_yet_valid", "unknown_ca"])
def test_a_bad_certificate_is_refused(certs: Certs, browser: Browser, name: str) -> None:
    with AppServer(getattr(certs, name + "_context")()) as server:
        assert browser.error(server.url, cainfo=str(certs.ca_path)) == 60
        assert server.requests == []


def test_the_old_version_of_tls_can_be_chosen(certs: Certs, browser: Browser) -> None:
    with AppServer(certs.tls12_context()) as server:
        browser.get(server.url, cainfo=str(certs.ca_path))
        assert server.handshakes[0].version == "TLSv1.2"


def test_a_client_certificate_is_required_and_reported(certs: Certs, browser: Browser) -> None:
    with AppServer(certs.client_auth_context()) as server:
        ca = str(certs.ca_path)
        browser.error(server.url, cainfo=ca)
        assert server.requests == []
        for name in "AB":
            path = str(certs.client_cert_path(name))
            assert browser.get(server.url, cainfo=ca, sslcert=path).status == 200
        assert [shake.peer for shake in server.handshakes] == ["client A", "client B"]
        assert server.wait_for(lambda: len(server.failed_handshakes) == 1)


def test_tls_may_end_with_or_without_its_goodbye(certs: Certs, browser: Browser) -> None:
    with AppServer(certs.server_context()) as server:
        ca, url = str(certs.ca_path), server.url + "/until-close?size=9"
        assert browser.get(url, cainfo=ca).body == payload(9)
        assert browser.error(url + "&cut=1", cainfo=ca) == 56


# -- the raw server


def test_scripted_responses_come_in_order_and_the_last_repeats() -> None:
    with RawServer(respond(response(b"one"), response(b"two"))) as server:
        client = http.client.HTTPConnection(server.host, server.port)
        bodies = []
        for _ in range(3):
            client.request("POST", "/x", body=iter([b"ab", b"c"]), encode_chunked=True)
            bodies.append(client.getresponse().read())
        client.close()
        assert bodies == [b"one", b"two", b"two"]
        assert server.connections == 1
        assert all(seen.startswith(b"POST /x HTTP/1.1\r\n") for seen in server.requests)
        assert [seen[-7:] for seen in server.requests] == [b"\r\n\r\nabc"] * 3


def test_a_handler_may_close_reset_or_stall(browser: Browser) -> None:
    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.stall()

    with RawServer(close_at_once) as server:
        assert browser.error(server.url) in {52, 56}
    with RawServer(reset_at_once) as server:
        assert browser.error(server.url) in {7, 52, 55, 56}  # 7: before libcurl saw it connected
    with RawServer(handler) as server:
        assert browser.error(server.url, timeout_ms=50) == 28
        browser.curl.close()
        assert server.wait_for(lambda: server.open_connections == 0)


def test_a_response_may_be_followed_by_fin_or_rst() -> None:
    with RawServer(respond_and_close(b"bye")) as server, _connect(server) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert _read_all(sock) == b"bye"
    with RawServer(respond_and_reset(b"")) as server, _connect(server) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_a_request_cut_off_in_its_body_counts_as_seen() -> None:
    with RawServer(respond(b"")) as server:
        with _connect(server) as sock:
            sock.sendall(b"PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")
        assert server.wait_for(lambda: bool(server.requests))
        assert server.requests[0].endswith(b"\r\n\r\nabc")


def test_a_failure_in_a_handler_fails_the_test() -> None:
    def handler(conn: RawConnection) -> None:
        raise ValueError("seen by the test")

    with pytest.raises(ValueError, match="seen by the test"), RawServer(handler) as server:
        sock = _connect(server)
        assert sock.recv(1) == b""
        sock.close()


def test_a_server_may_refuse_for_a_while(app: AppServer, browser: Browser) -> None:
    app.stop_accepting()
    assert browser.error(app.url) == 7
    app.start_accepting()
    assert browser.get(app.url).status == 200


def test_dead_addresses_refuse_or_hang(browser: Browser) -> None:
    with refused_port() as port:
        assert browser.error(f"http://127.0.0.1:{port}") == 7
    with BlackHole() as hole:
        assert browser.error(hole.url, connecttimeout_ms=100) == 28


# -- the application


def test_simple_routes_respond_and_are_recorded(app: AppServer, browser: Browser) -> None:
    assert browser.get(app.url).body == b"hello"
    assert browser.get(app.url + "/bytes/70000?seed=3").body == payload(70000, 3)
    assert browser.get(app.url + "/chunked/70000").body == payload(70000)
    assert browser.get(app.url + "/status/503?retry_after=7").header("retry-after") == "7"
    assert browser.get(app.url + "/nowhere").status == 404
    assert [record.path for record in app.requests][:2] == ["/", "/bytes/70000"]
    assert (app.connections, app.max_open, app.open_connections) == (1, 1, 1)
    app.reset_counts()
    assert (app.connections, app.requests) == (0, [])


def test_echo_shows_the_headers_as_sent(app: AppServer, browser: Browser) -> None:
    sent = ["X-Odd-CASE: 1", "x-odd-case:  2 "]
    seen = browser.get(app.url + "/echo?q=1", httpheader=sent, postfields="a=b").json
    assert seen["method"] == "POST"
    assert seen["target"] == "/echo?q=1"
    assert [pair for pair in seen["headers"] if pair[0].lower() == "x-odd-case"] == [
        ["X-Odd-CASE", "1"],
        ["x-odd-case", "2"],
    ]
    assert (seen["body"], seen["length"]) == ("a=b", 3)
    assert app.requests[0].body == b"a=b"


def test_redirects_lead_home(app: AppServer, browser: Browser) -> None:
    assert browser.get(app.url + "/redirect/3", followlocation=1).body == b"hello"
    assert [record.target for record in app.requests] == [
        "/redirect/3",
        "/redirect/2",
        "/redirect/1",
        "/",
    ]
    there = browser.get(app.url + "/redirect-to?url=%2Fecho&status=307&body=9")
    assert (there.status, there.header("location"), len(there.body)) == (307, "/echo", 9)


def test_cookies_are_set_and_reported(app: AppServer, browser: Browser) -> None:
    url = app.url + "/cookies/set?a=1&b=2%3B%20Path%3D%2Fecho&redirect=/cookies"
    response = browser.get(url, followlocation=1, cookiefile="")
    assert response.json == {"header": "a=1", "cookies": {"a": "1"}}


def test_coded_bodies_match_their_coding(app: AppServer, browser: Browser) -> None:
    def body(path: str) -> bytes:
        return browser.get(f"{app.url}{path}?size=5000").body

    plain = payload(5000)
    assert gzip.decompress(body("/gzip")) == plain
    assert gzip.decompress(body("/gzip-chunked")) == plain
    assert gzip.decompress(body("/multi-gzip")) == plain
    assert zlib.decompress(body("/deflate")) == plain
    assert zlib.decompress(body("/raw-deflate"), -15) == plain
    assert brotli.decompress(body("/br")) == plain
    if "/zstd" in app.routes:
        assert body("/zstd").startswith(b"\x28\xb5\x2f\xfd")
    assert len(browser.get(app.url + "/gzip?size=1000000&zeros=1").body) < 2000


def test_broken_responses_break_as_described(app: AppServer, browser: Browser) -> None:
    assert browser.error(app.url + "/truncated?length=9&sent=3") == 18
    assert browser.error(app.url + "/truncated?length=9&sent=0&reset=1") in {18, 56}
    assert browser.get(app.url + "/until-close?size=9").body == payload(9)
    for path in ("/stall", "/stall-after?sent=3&length=9", "/stall-in-head", "/delay/60"):
        assert browser.error(app.url + path, timeout_ms=50) == 28
    assert app.wait_for(lambda: app.open_connections == 0)
    assert browser.get(app.url + "/close").header("connection") == "close"


def test_slow_responses_arrive(app: AppServer, browser: Browser) -> None:
    assert browser.get(app.url + "/drip?n=4&interval=0.001").body == b"xxxx"
    assert browser.get(app.url + "/delay/0.01").body == b"hello"
    assert len(browser.get(app.url + "/big?size=3000000").body) == 3_000_000


def test_credentials_are_checked(app: AppServer, browser: Browser) -> None:
    url = app.url + "/basic?user=u&password=p"
    assert browser.get(url).header("www-authenticate") == 'Basic realm="test"'
    assert browser.get(url, userpwd="u:p").status == 200
    assert browser.get(url, userpwd="u:q").status == 401
    token = ["Authorization: Bearer t"]
    assert browser.get(app.url + "/bearer?token=t", httpheader=token).status == 200
    assert browser.get(app.url + "/bearer?token=x", httpheader=token).status == 401


@pytest.mark.parametrize(
    ("algorithm", "qop"),
    [
        ("MD5", "auth"),
        ("MD5", ""),
        ("MD5-sess", "auth"),
        ("SHA-256", "auth"),
        ("SHA-256", ""),
        ("SHA-256-sess", "auth"),
    ],
)
def test_digest_is_verified(app: AppServer, browser: Browser, algorithm: str, qop: str) -> None:
    url = f"{app.url}/digest?user=u&password=p&algorithm={algorithm}&qop={qop}"
    digest = {"httpauth": pycurl.HTTPAUTH_DIGEST}
    assert browser.get(url, userpwd="u:p", **digest).status == 200
    assert browser.get(url, userpwd="u:wrong", **digest).status == 401


def test_a_single_use_nonce_is_stale_the_second_time(app: AppServer) -> None:
    target = "/digest?user=u&password=p&stale=1"
    client = http.client.HTTPConnection(app.host, app.port)
    fields = _challenge(client, target, {})
    good = {"Authorization": _digest(fields["nonce"], target)}
    assert _status(client, target, good) == 200
    assert _challenge(client, target, good)["stale"] == "true"
    client.close()


def test_a_replayed_count_is_refused(app: AppServer) -> None:
    target = "/digest?user=u&password=p"
    client = http.client.HTTPConnection(app.host, app.port)
    good = {"Authorization": _digest(_challenge(client, target, {})["nonce"], target)}
    assert [_status(client, target, good) for _ in range(2)] == [200, 401]
    client.close()


def test_uploads_are_counted(app: AppServer, browser: Browser) -> None:
    body = payload(300_000)
    for path in ("/upload", "/slow-upload?rate=100000000"):
        options = {"post": 1, "readdata": io.BytesIO(body), "http_version": 2}
        chunked = ["Transfer-Encoding: chunked", "Expect: 100-continue"]
        seen = browser.get(app.url + path, httpheader=chunked, **options).json
        assert seen == {
            "length": 300_000,
            "sha256": hashlib.sha256(body).hexdigest(),
            "chunked": True,
            "expect": "100-continue",
        }


def test_an_early_413_arrives(app: AppServer, browser: Browser) -> None:
    response = browser.get(
        app.url + "/early-413", postfields=bytes(3_000_000), httpheader=["Expect:"]
    )
    assert (response.status, response.body) == (413, b"too large")


def test_head_has_no_body_anywhere(app: AppServer, browser: Browser) -> None:
    paths = ["/", "/bytes/9", "/chunked/9", "/big?size=9", "/trailers", "/echo", "/gzip", "/drip"]
    for path in paths:
        assert browser.get(app.url + path, nobody=1).body == b""
    assert browser.get(app.url + "/").body == b"hello"
    assert app.connections == 1


def test_bodiless_statuses_hints_and_trailers_keep_the_connection(
    app: AppServer, browser: Browser
) -> None:
    assert browser.get(app.url + "/204").status == 204
    assert browser.get(app.url + "/304").status == 304
    hints = browser.get(app.url + "/hints")
    assert (hints.head[0], hints.body) == ("HTTP/1.1 103 Early Hints", b"hello")
    assert len(browser.get(app.url + "/trailers").header("x-checksum") or "") == 64
    assert app.connections == 1


def test_text_in_a_charset_links_and_made_up_headers(app: AppServer, browser: Browser) -> None:
    text = browser.get(app.url + "/text?charset=iso-8859-1&text=%C3%A9")
    assert (text.body, text.header("content-type")) == (b"\xe9", "text/plain; charset=iso-8859-1")
    assert "next" in (browser.get(app.url + "/links").header("link") or "")
    assert browser.get(app.url + "/headers?n=50").header("x-header-49") == "value 49"
    assert browser.get(app.url + "/set-header?name=ETag&value=x").header("etag") == "x"
    assert browser.get(app.url + "/json").json["hello"] == "world"


def test_a_test_may_add_a_route(app: AppServer, browser: Browser) -> None:
    def teapot(record: Record, conn: AppConnection) -> None:
        conn.reply(418, record.args[0].encode("ascii"))

    app.route("/tea", teapot)
    assert browser.get(app.url + "/tea/green").body == b"green"


def test_garbage_gets_a_400(app: AppServer) -> None:
    with _connect(app) as sock:
        sock.sendall(b"garbage\r\n\r\n")
        assert _read_all(sock).startswith(b"HTTP/1.1 400 ")


def test_a_thousand_connections_are_open_at_once(app: AppServer) -> None:
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(_connect(app)) for _ in range(1000)]
        for sock in socks:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert all(sock.recv(500).endswith(b"hello") for sock in socks)
        assert app.max_open == app.open_connections == 1000
    assert app.wait_for(lambda: app.open_connections == 0)


def test_a_server_stops_with_clients_still_there(certs: Certs) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as clients, AppServer(certs.server_context()) as server:
        half = clients.enter_context(_connect(server))  # never says hello
        raw = clients.enter_context(_connect(server))
        context = certs.client_context()
        tls = clients.enter_context(context.wrap_socket(raw, server_hostname="localhost"))
        tls.sendall(b"GET /stall HTTP/1.1\r\n\r\n")
        assert server.wait_for(lambda: len(server.requests) == 1)
        server.stop()
        assert half.recv(1) == b""
        assert server.open_connections == 0
        assert threading.active_count() <= before  # an earlier test's may have ended


# -- HTTP/2


def test_the_same_routes_are_there_over_http2(certs: Certs, browser: Browser) -> None:
    with H2Server(certs.server_context(alpn=HTTP2)) as server:
        tls = {"cainfo": str(certs.ca_path)}
        response = browser.get(server.url, **tls)
        assert (response.head[0], response.body) == ("HTTP/2 200 ", b"hello")
        assert browser.get(server.url + "/bytes/200000", **tls).body == payload(200_000)
        seen = browser.get(server.url + "/echo", postfields="a=b", **tls).json
        assert (seen["method"], seen["body"]) == ("POST", "a=b")
        assert browser.get(server.url + "/redirect/2", followlocation=1, **tls).body == b"hello"
        assert browser.get(server.url + "/big?size=3000000", **tls).body == bytes(3_000_000)
        assert browser.get(server.url + "/nowhere", **tls).status == 404
        assert (server.connections, server.handshakes[0].alpn) == (1, "h2")
        assert {record.version for record in server.requests} == {"2"}


def test_a_client_of_http1_is_served_too(h2: H2Server, browser: Browser) -> None:
    assert browser.get(h2.url).head[0] == "HTTP/1.1 200 OK"
    assert browser.get(h2.url, **PRIOR).head[0] == "HTTP/2 200 "
    assert [record.version for record in h2.requests] == ["1.1", "2"]


def test_an_upload_over_http2_passes_the_window(h2: H2Server, browser: Browser) -> None:
    body = payload(3_000_000)
    seen = browser.get(h2.url + "/upload", postfields=body, **PRIOR).json
    assert (seen["length"], seen["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
    early = browser.get(h2.url + "/early-413", postfields=body, **PRIOR)
    assert early.status == 413


def test_delays_do_not_block_other_streams(h2: H2Server) -> None:
    paths = ["/delay/0.9", *["/bytes/100"] * 5, "/delay/0.6", "/delay/0.3"]
    order = _multiplex(h2, paths)
    assert order[-3:] == ["/delay/0.3", "/delay/0.6", "/delay/0.9"]
    assert h2.connections == 1
    assert 3 <= h2.max_streams <= 8


def test_the_stream_limit_is_observed(certs: Certs) -> None:
    with H2Server(max_concurrent_streams=2) as server:
        assert sorted(_multiplex(server, ["/delay/0.01"] * 6)) == ["/delay/0.01"] * 6
        assert server.max_streams <= 2


def test_streams_too_many_for_an_eager_client_are_refused() -> None:
    with H2Server(max_concurrent_streams=2) as server, _connect(server) as sock:
        client = H2Connection()
        client.initiate_connection()
        for stream in (1, 3, 5):
            fields = [(":method", "GET"), (":path", "/stall"), (":scheme", "http")]
            client.send_headers(stream, [*fields, (":authority", "x")], end_stream=True)
        sock.sendall(client.data_to_send())
        resets: list[StreamReset] = []
        while not resets:
            events = client.receive_data(sock.recv(65536))
            resets += [event for event in events if isinstance(event, StreamReset)]
        assert [(reset.stream_id, reset.error_code) for reset in resets] == [
            (5, ErrorCodes.REFUSED_STREAM)
        ]
        assert (server.refused, len(server.requests), server.max_streams) == (1, 2, 2)


def test_a_cancelled_stream_is_recorded(h2: H2Server) -> None:
    multi = pycurl.CurlMulti()
    kept, cancelled = (_easy(h2.url + path) for path in ("/stall?kept", "/stall?cancelled"))
    for curl in (kept, cancelled):
        curl.setopt(pycurl.HTTP_VERSION, PRIOR["http_version"])
        curl.setopt(pycurl.PIPEWAIT, 1)
        multi.add_handle(curl)
    _spin(multi, lambda: len(h2.requests) == 2)
    multi.remove_handle(cancelled)
    _spin(multi, lambda: len(h2.resets) == 1)
    (stream,) = [r.stream for r in h2.requests if r.query_string == "cancelled"]
    assert h2.resets[0].stream == stream  # libcurl gives it the code STREAM_CLOSED
    assert (h2.connections, h2.open_connections) == (1, 1)
    multi.remove_handle(kept)
    for handle in (kept, cancelled, multi):
        handle.close()
    assert h2.wait_for(lambda: h2.open_connections == 0)


def test_http2_refusals(h2: H2Server, browser: Browser) -> None:
    assert browser.error(h2.url + "/reset?code=2", **PRIOR) == 92
    assert browser.get(h2.url + "/refuse?times=1", **PRIOR).body == b"hello"
    assert [r.path for r in h2.requests].count("/refuse") == 2
    again = browser.get(h2.url + "/http11-required", **PRIOR)
    assert (again.head[0], again.body) == ("HTTP/1.1 200 OK", b"hello")
    assert browser.get(h2.url + "/trailers", **PRIOR).header("x-checksum") == "1"
    assert browser.get(h2.url + "/hints", **PRIOR).head[0] == "HTTP/2 103 "
    assert browser.error(h2.url + "/truncated", **PRIOR) in {16, 18, 56, 92}


def test_http11_required_causes_http11_over_tls(certs: Certs, browser: Browser) -> None:
    with H2Server(certs.server_context(alpn=HTTP2)) as server:
        response = browser.get(server.url + "/http11-required", cainfo=str(certs.ca_path))
        assert response.body == b"hello"
        assert [shake.alpn for shake in server.handshakes] == ["h2", "http/1.1"]


def test_goaway_serves_or_refuses_its_request(h2: H2Server, browser: Browser) -> None:
    assert browser.get(h2.url + "/goaway", **PRIOR).body == b"hello"
    assert h2.wait_for(lambda: h2.open_connections == 0)
    assert browser.get(h2.url + "/goaway?processed=0", **PRIOR).body == b"hello"
    assert [record.connection for record in h2.requests] == [0, 1, 2]


def test_goaway_after_some_requests_moves_on(h2: H2Server, browser: Browser) -> None:
    h2.goaway_after(2)
    for _ in range(5):
        assert browser.get(h2.url, **PRIOR).body == b"hello"
        seen = len(h2.requests)
        assert seen % 2 or h2.wait_for(lambda: h2.open_connections == 0)
    assert (h2.connections, len(h2.requests)) == (3, 5)


def test_head_and_stalls_over_http2(h2: H2Server, browser: Browser) -> None:
    assert browser.get(h2.url + "/bytes/9", nobody=1, **PRIOR).body == b""
    assert browser.get(h2.url + "/drip?n=3&interval=0.001", **PRIOR).body == b"xxx"
    assert browser.error(h2.url + "/stall-after", timeout_ms=50, **PRIOR) == 28


# -- proxies


def test_the_proxy_forwards_and_logs(app: AppServer, browser: Browser) -> None:
    with HTTPProxy(hosts={"made.up": (app.host, app.port)}) as proxy:
        response = browser.get("http://made.up/echo?x=1", proxy=proxy.url, postfields="abc")
        assert (response.json["target"], response.json["body"]) == ("/echo?x=1", "abc")
        assert browser.get("http://made.up/chunked/9", proxy=proxy.url).body == payload(9)
        assert browser.get("http://made.up/", proxy=proxy.url, nobody=1).status == 200
        assert browser.get("http://example.com/", proxy=proxy.url).status == 502
        assert proxy.log[0][:2] == ("POST", "http://made.up/echo?x=1")
        assert proxy.connections == 1


@pytest.mark.parametrize("secure", [False, True])
def test_the_proxy_tunnels_tls(certs: Certs, browser: Browser, secure: bool) -> None:
    context = certs.server_context() if secure else None
    with AppServer(certs.server_context("made.up")) as app, HTTPProxy(("u", "p"), context) as proxy:
        proxy.hosts["made.up"] = (app.host, app.port)
        ca = str(certs.ca_path)
        options: dict[str, Any] = {"proxy": proxy.url, "cainfo": ca, "proxy_cainfo": ca}
        response = browser.get("https://made.up/big?size=2000000", proxyuserpwd="u:p", **options)
        assert len(response.body) == 2_000_000
        assert (proxy.tunnels, proxy.log[0].target) == (1, "made.up:443")
        assert browser.error("https://made.up/", proxyuserpwd="u:q", **options) in {7, 56}
        proxy.connect_status = 503
        options["fresh_connect"] = 1
        assert browser.error("https://made.up/", proxyuserpwd="u:p", **options) in {7, 56}
        assert (proxy.tunnels, app.connections) == (1, 1)


def test_the_proxy_may_hang_up_on_connect(certs: Certs, browser: Browser) -> None:
    with HTTPProxy() as proxy:
        proxy.close_on_connect = True
        assert browser.error("https://made.up/", proxy=proxy.url) in {52, 56}


def test_wrong_proxy_credentials_get_a_407(app: AppServer, browser: Browser) -> None:
    with HTTPProxy(("u", "p")) as proxy:
        assert browser.get(app.url, proxy=proxy.url).status == 407
        after_asking = {"proxyauth": pycurl.HTTPAUTH_ANY, "proxyuserpwd": "u:p"}
        assert browser.get(app.url, proxy=proxy.url, **after_asking).status == 200
        assert (len(app.requests), len(proxy.log), proxy.connections) == (1, 3, 2)
        assert app.requests[0].header("proxy-authorization") is None


@pytest.mark.parametrize(
    ("scheme", "logged"), [("socks5h", "made.up"), ("socks4a", "made.up"), ("socks5", "127.0.0.1")]
)
def test_socks_proxies_connect(app: AppServer, browser: Browser, scheme: str, logged: str) -> None:
    with SOCKSProxy(hosts={"made.up": (app.host, app.port)}) as proxy:
        name = "made.up" if logged == "made.up" else app.host
        url = proxy.url.replace("socks5h", scheme)
        assert browser.get(f"http://{name}:{app.port}/", proxy=url).body == b"hello"
        assert proxy.log == [(logged, app.port)]


def test_socks_reaches_ipv6(browser: Browser) -> None:
    with AppServer(host="::1") as app, SOCKSProxy() as proxy:
        assert browser.get(app.url, proxy=proxy.url).body == b"hello"
        assert proxy.log == [("::1", app.port)]


def test_socks_credentials_are_checked_and_failures_reported(
    app: AppServer, browser: Browser
) -> None:
    with SOCKSProxy(("u", "p")) as proxy:
        assert browser.get(app.url, proxy=proxy.url, proxyuserpwd="u:p").status == 200
        assert browser.error(app.url, proxy=proxy.url, proxyuserpwd="u:q") == 97
        assert browser.error("http://example.com", proxy=proxy.url, proxyuserpwd="u:p") == 97
        proxy.fail_with = 5
        fresh = {"fresh_connect": 1}
        assert browser.error(app.url, proxy=proxy.url, proxyuserpwd="u:p", **fresh) == 97
        assert (proxy.tunnels, proxy.failed_logins) == (1, 1)


# -- what the tests are made with


def _connect(server: AppServer | RawServer) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=10)


def _read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


def _status(client: http.client.HTTPConnection, target: str, headers: dict[str, str]) -> int:
    client.request("GET", target, headers=headers)
    response = client.getresponse()
    response.read()
    return response.status


def _challenge(
    client: http.client.HTTPConnection, target: str, headers: dict[str, str]
) -> dict[str, str]:
    client.request("GET", target, headers=headers)
    response = client.getresponse()
    response.read()
    fields = (response.getheader("WWW-Authenticate") or "").removeprefix("Digest ")
    return urllib.request.parse_keqv_list(urllib.request.parse_http_list(fields))


def _digest(nonce: str, target: str) -> str:
    first = hashlib.md5(b"u:test:p").hexdigest()
    second = hashlib.md5(f"GET:{target}".encode()).hexdigest()
    response = hashlib.md5(f"{first}:{nonce}:00000001:c:auth:{second}".encode()).hexdigest()
    return (
        f'Digest username="u", realm="test", nonce="{nonce}", uri="{target}", opaque="o", '
        f'qop=auth, nc=00000001, cnonce="c", response="{response}"'
    )


def _easy(url: str) -> pycurl.Curl:
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.WRITEFUNCTION, len)
    curl.setopt(pycurl.TIMEOUT_MS, 10_000)
    return curl


def _multiplex(server: H2Server, paths: list[str]) -> list[str]:
    """Ask for all at once on one connection; return the paths in the order of completion."""
    multi = pycurl.CurlMulti()
    warm = _easy(server.url)
    warm.setopt(pycurl.HTTP_VERSION, PRIOR["http_version"])
    multi.add_handle(warm)
    _drive(multi, 1)
    names = {}
    for path in paths:
        curl = _easy(server.url + path)
        curl.setopt(pycurl.HTTP_VERSION, PRIOR["http_version"])
        curl.setopt(pycurl.PIPEWAIT, 1)
        names[curl] = path
        multi.add_handle(curl)
    order = [names[curl] for curl in _drive(multi, len(paths))]
    for curl in (warm, *names):
        multi.remove_handle(curl)
        curl.close()
    multi.close()
    return order


def _spin(multi: pycurl.CurlMulti, done: Callable[[], bool]) -> None:
    """Run the transfers until `done()`, for ten seconds at most."""
    for _ in range(1000):
        multi.perform()
        if done():
            return
        multi.select(0.01)
    raise AssertionError("it did not happen")


def _drive(multi: pycurl.CurlMulti, count: int) -> list[pycurl.Curl]:
    done: list[pycurl.Curl] = []
    while len(done) < count:
        multi.perform()
        _, good, bad = multi.info_read()
        assert bad == []
        done += good
        multi.select(0.05)
    return done
