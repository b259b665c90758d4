"""httpie's commands: its adapters, sessions and downloads are made of requests' classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.ecosystem.programs.compare import Both, Finished, needs
from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    HTTPProxy,
    RawConnection,
    RawServer,
    Record,
    SOCKSProxy,
    close_at_once,
    payload,
    refused_port,
    respond_and_close,
)

pytestmark = [pytest.mark.slow, needs("httpie", "requests")]

_WITHOUT_UPDATES = json.dumps({"disable_update_warnings": True}).encode()
# Durations, sizes per second, and the port of a server.
_VARIABLE = re.compile(r"\d+\.\d+s|\d+:\d+\.\d+|\([\d.]+ \w+/s\)")
Handler = Callable[[RawConnection], None]
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"
EVERYTHING = "--print=HBhb"


def _plain(text: str) -> str:
    return _VARIABLE.sub("#", text)


@pytest.fixture
def http(tmp_path: Path, app: AppServer, tls_app: AppServer) -> Both:
    """Return `http`, which looks for no updates."""
    made = Both("http", tmp_path, [app, tls_app], _plain)
    made.write(".config/httpie/config.json", _WITHOUT_UPDATES)
    return made


def ask(http: Both, *arguments: str, variables: Mapping[str, str] | None = None) -> Finished:
    """Run it as a script would."""
    return http("--ignore-stdin", *arguments, variables=variables)


# --- what is sent ---


@pytest.mark.parametrize("options", [(), ("--pretty=all",), ("--style=monokai", "--pretty=format")])
def test_a_get(http: Both, app: AppServer, options: tuple[str, ...]) -> None:
    done = ask(http, EVERYTHING, *options, f"{app.url}/json", "q==a b", "X-One:1", "X-Empty;")
    assert (done.status, done.errors) == (0, "")
    assert "hello" in done.output
    (sent,) = done.sent
    assert sent.target == "/json?q=a+b"
    assert (sent.header("x-one"), sent.header("x-empty")) == ("1", "")


@pytest.mark.parametrize(
    ("items", "kind", "body"),
    [
        (("a=1", "b:=[2, null]", "c[d]=é"), "application/json", b'{"a": "1", "b": [2, null], '),
        (("--form", "a=1", "b=x y"), "application/x-www-form-urlencoded; charset=utf-8", b"a=1&b="),
        (("--raw=just text",), "application/json", b"just text"),
        (("--multipart", "a=1"), "multipart/form-data; boundary=BOUNDARY", b"--BOUNDARY\r\n"),
        (("--form", "f@f.bin", "a=1"), "multipart/form-data; boundary=BOUNDARY", b"--BOUNDARY"),
        (("--form", "f@f.bin;type=image/png"), "multipart/form-data; boundary=BOUNDARY", b"--BOUN"),
        (("@f.bin",), "application/octet-stream", payload(200_000)),
        (("--boundary=own", "--multipart", "a=1"), "multipart/form-data; boundary=BOUNDARY", b"--"),
    ],
)
def test_a_body(http: Both, app: AppServer, items: tuple[str, ...], kind: str, body: bytes) -> None:
    http.write("f.bin", payload(200_000))
    options = [item for item in items if item.startswith("--")]
    rest = items[len(options) :]
    done = ask(http, "--print=hb", *options, "PUT", f"{app.url}/json", *rest)
    (sent,) = done.sent
    assert (done.status, sent.method) == (0, "PUT")
    assert sent.header("content-type") == kind
    assert sent.body.startswith(body)
    assert "HTTP/1.1 200 OK" in done.output


@pytest.mark.parametrize("options", [(), ("--chunked",), ("--compress",), ("-xx",)])
def test_a_body_from_stdin(http: Both, app: AppServer, options: tuple[str, ...]) -> None:
    done = http(*options, EVERYTHING, "POST", f"{app.url}/json", stdin=b"hello " * 5000)
    (sent,) = done.sent
    assert (done.status, sent.method) == (0, "POST")
    assert sent.header("transfer-encoding") == ("chunked" if "--chunked" in options else None)
    is_coded = options in {("--compress",), ("-xx",)}
    assert sent.header("content-encoding") == ("deflate" if is_coded else None)
    assert (len(sent.body) < 1000) == is_coded


def test_a_multipart_body_in_chunks(http: Both, app: AppServer) -> None:
    http.write("f.bin", payload(300_000))
    done = ask(http, "--chunked", "--form", f"{app.url}/json", "f@f.bin", "a=1")
    (sent,) = done.sent
    assert sent.header("transfer-encoding") == "chunked"
    assert sent.header("content-length") is None
    assert payload(300_000) in sent.body


def test_a_request_that_is_only_shown(http: Both, app: AppServer) -> None:
    done = ask(http, "--offline", "--chunked", f"{app.url}/json", "a=1")
    assert "Transfer-Encoding: chunked" in done.output
    assert done.sent == []


def test_a_header_twice_and_a_header_taken_away(http: Both, app: AppServer) -> None:
    done = ask(http, "--print=H", f"{app.url}/json", "X-Two:1", "X-Two:2", "Accept-Encoding:")
    assert [value for name, value in done.sent[0].headers if name == "x-two"] == ["1", "2"]
    assert done.sent[0].header("accept-encoding") is None


def test_path_as_is(http: Both, app: AppServer) -> None:
    done = ask(http, "--path-as-is", EVERYTHING, f"{app.url}/json/../x")
    assert done.sent[0].target == "/json/../x"


# --- what is shown ---


@pytest.mark.parametrize(
    "path",
    [
        "/gzip?size=2000&zeros=1",
        "/chunked/5000",
        "/text?charset=iso-8859-1",
        "/headers?n=5",
        "/204",
        "/trailers",
        "/until-close",
        "/set-header?name=X-A&value=b",
        "/links",
    ],
)
def test_a_response(http: Both, app: AppServer, path: str) -> None:
    done = ask(http, EVERYTHING, "--pretty=all", app.url + path)
    assert (done.status, len(done.sent)) == (0, 1)


def test_a_head_with_equal_names(http: Both, app: AppServer) -> None:
    done = ask(http, "--print=h", f"{app.url}/cookies/set", "a==1", "b==2")
    assert done.output.count("Set-Cookie: ") == 2


def test_a_response_line_by_line(http: Both, app: AppServer) -> None:
    def lines(record: Record, conn: AppConnection) -> None:
        kind = ("Content-Type", "application/json")
        conn.begin(200, [kind, ("Transfer-Encoding", "chunked")])
        for number in range(3):
            conn.chunk(json.dumps({"n": number}).encode() + b"\n")
        conn.chunk(b"")

    app.route("/lines", lines)
    done = ask(http, "--stream", "--pretty=all", f"{app.url}/lines")
    assert done.output.count('"n"') == 3


def test_the_metadata_of_a_response(http: Both, app: AppServer) -> None:
    done = ask(http, "--meta", f"{app.url}/json")
    assert done.output.startswith("Elapsed time: #")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/status/404", 4), ("/status/500?reason=Oh%20no", 5), ("/redirect/1", 3), ("/", 0)],
)
def test_the_exit_status_reports_errors(http: Both, app: AppServer, path: str, status: int) -> None:
    done = ask(http, "--check-status", "--print=h", app.url + path)
    assert done.status == status
    assert done.errors.startswith("\nhttp: warning: HTTP " if status else "")


@pytest.mark.parametrize(("options", "status"), [(("--max-headers=20",), 0), ((), 0)])
def test_max_headers_bounds_the_head(
    http: Both, app: AppServer, options: tuple[str, ...], status: int
) -> None:
    assert ask(http, *options, "--print=h", f"{app.url}/headers?n=10").status == status


# --- redirects ---


def test_redirects_are_followed_on_request(http: Both, app: AppServer) -> None:
    assert ask(http, f"{app.url}/redirect/3").sent[-1].target == "/redirect/3"
    done = ask(http, "--follow", "--all", EVERYTHING, f"{app.url}/redirect/3")
    assert (done.status, len(done.sent)) == (0, 4)
    assert done.output.count("HTTP/1.1 302 Found") == 3


def test_too_many_redirects(http: Both, app: AppServer) -> None:
    done = ask(http, "--follow", "--max-redirects=2", f"{app.url}/redirect/5")
    assert (done.status, len(done.sent)) == (6, 2)
    assert "Too many redirects" in done.errors


@pytest.mark.parametrize("status", ["303", "307"])
def test_a_post_that_is_redirected(http: Both, app: AppServer, status: str) -> None:
    url = f"{app.url}/redirect-to?status={status}&url=/json"
    done = ask(http, "--follow", "--print=Hhb", url, "a=1")
    assert [sent.method for sent in done.sent] == ["POST", "GET" if status == "303" else "POST"]


# --- credentials and sessions ---


@pytest.mark.parametrize(
    ("kind", "credentials", "query"),
    [
        ("basic", "ada:secret", "user=ada&password=secret"),
        ("bearer", "t0ken", "token=t0ken"),
    ],
)
def test_credentials(http: Both, app: AppServer, kind: str, credentials: str, query: str) -> None:
    url = f"{app.url}/{kind}?{query}"
    assert ask(http, f"--auth-type={kind}", "-a", credentials, EVERYTHING, url).status == 0
    refused = ask(http, "--check-status", f"--auth-type={kind}", "-a", "who:what", EVERYTHING, url)
    assert refused.status == 4


def test_a_digest_challenge_is_met(http: Both, app: AppServer) -> None:
    url = f"{app.url}/digest?user=ada&password=secret"
    for done in http.each("--ignore-stdin", "-A", "digest", "-a", "ada:secret", "--print=hb", url):
        assert (done.status, len(done.sent)) == (0, 2)
        assert done.output.endswith("welcome")


def test_credentials_of_a_netrc_file(http: Both, app: AppServer) -> None:
    http.write(".netrc", b"machine 127.0.0.1\nlogin ada\npassword secret\n")
    done = ask(http, "--check-status", f"{app.url}/basic?user=ada&password=secret")
    assert done.status == 0


def test_a_session_keeps_cookies_headers_and_credentials(http: Both, app: AppServer) -> None:
    first = ("--session=one", "-a", "ada:secret", f"{app.url}/cookies/set?a=1&b=2", "X-Own:yes")
    assert ask(http, *first).status == 0
    done = ask(http, "--session=one", EVERYTHING, f"{app.url}/cookies")
    (sent,) = done.sent
    assert (sent.header("cookie"), sent.header("x-own")) == ("a=1; b=2", "yes")
    assert sent.header("authorization") == "Basic YWRhOnNlY3JldA=="
    (path,) = (
        path.relative_to(home)
        for home in [next(iter(http.homes.values()))]
        for path in home.glob(".config/httpie/sessions/*/one.json")
    )
    kept = json.loads(http.read(str(path)))
    assert [cookie["name"] for cookie in kept["cookies"]] == ["a", "b"]


def test_a_session_that_is_only_read(http: Both, app: AppServer) -> None:
    ask(http, "--session=./s.json", f"{app.url}/cookies/set?a=1")
    before = http.read("s.json")
    done = ask(http, "--session-read-only=./s.json", "--follow", f"{app.url}/cookies/set?a=2")
    assert done.sent[0].header("cookie") == "a=1"
    assert http.read("s.json") == before


# --- downloads ---


def _serve_ranges(app: AppServer, content: bytes) -> str:
    def file(record: Record, conn: AppConnection) -> None:
        kind = ("Content-Type", "application/octet-stream")
        start = re.fullmatch(r"bytes=(\d+)-", record.header("range") or "")
        if not start:
            return conn.reply(200, content, [kind, ("Accept-Ranges", "bytes")])
        first = int(start[1])
        span = ("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        return conn.reply(206, content[first:], [kind, span])

    app.route("/files", file)
    return f"{app.url}/files/data.bin"


def test_a_download(http: Both, app: AppServer) -> None:
    done = ask(http, "--download", "-o", "own.bin", _serve_ranges(app, payload(500_000)))
    assert (done.status, done.output) == (0, "")
    assert http.read("own.bin") == payload(500_000)
    assert done.sent[0].header("accept-encoding") == "identity"


def test_a_download_is_resumed(http: Both, app: AppServer) -> None:
    http.write("part.bin", payload(500_000)[:123_456])
    done = ask(http, "-d", "-c", "-o", "part.bin", _serve_ranges(app, payload(500_000)))
    assert done.status == 0
    assert done.sent[0].header("range") == "bytes=123456-"
    assert http.read("part.bin") == payload(500_000)


def test_a_download_that_is_cut(http: Both, app: AppServer) -> None:
    for done in http.each("--ignore-stdin", "-d", "-o", "cut.bin", f"{app.url}/truncated"):
        assert done.status == 1


# --- TLS and proxies ---


def test_a_private_authority(http: Both, tls_app: AppServer, certs: Certs) -> None:
    assert ask(http, f"--verify={certs.ca_path}", EVERYTHING, f"{tls_app.url}/json").status == 0
    done = ask(http, f"{tls_app.url}/json", variables={"REQUESTS_CA_BUNDLE": str(certs.ca_path)})
    assert done.status == 0
    assert ask(http, "--verify=no", EVERYTHING, f"{tls_app.url}/json").status == 0


def test_an_untrusted_authority(http: Both, tls_app: AppServer) -> None:
    for done in http.each("--ignore-stdin", f"{tls_app.url}/json"):
        assert (done.status, done.output, done.sent) == (1, "", [])
        assert "http: error: SSLError: HTTPSConnectionPool(" in done.errors
        assert "CERTIFICATE_VERIFY_FAILED" in done.errors


@pytest.mark.parametrize("files", ["one", "two"])
def test_a_client_certificate(http: Both, certs: Certs, files: str) -> None:
    with AppServer(certs.client_auth_context()) as server:
        certificate, key = map(str, certs.client_cert_pair())
        given = [f"--cert={certificate}", f"--cert-key={key}"]
        if files == "one":
            given = [f"--cert={certs.client_cert_path()}"]
        done = ask(http, f"--verify={certs.ca_path}", *given, EVERYTHING, f"{server.url}/json")
        assert done.status == 0, done.errors
        assert [handshake.peer for handshake in server.handshakes] == ["client A"] * 2


def test_a_version_and_ciphers_of_tls(http: Both, certs: Certs) -> None:
    with AppServer(certs.server_context()) as server:
        verify = f"--verify={certs.ca_path}"
        url = f"{server.url}/json"
        chosen = (
            "--ssl=tls1.2",
            "--ciphers=ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384",
        )
        assert ask(http, verify, *chosen, url).status == 0
        assert [handshake.version for handshake in server.handshakes] == ["TLSv1.2"] * 2


@pytest.mark.parametrize("is_named_by", ["option", "environment"])
def test_a_proxy(
    http: Both, app: AppServer, tls_app: AppServer, certs: Certs, is_named_by: str
) -> None:
    with HTTPProxy(("pia", "secret")) as proxy:
        address = f"http://pia:secret@127.0.0.1:{proxy.port}"
        options: tuple[str, ...] = ()
        variables = {"http_proxy": address, "https_proxy": address}
        if is_named_by == "option":
            options, variables = (f"--proxy=http:{address}", f"--proxy=https:{address}"), {}
        for url in (f"{app.url}/json", f"{tls_app.url}/json"):
            done = ask(
                http, *options, f"--verify={certs.ca_path}", EVERYTHING, url, variables=variables
            )
            assert (done.status, len(done.sent)) == (0, 1), done.errors
        assert [request.method for request in proxy.log] == ["GET", "GET", "CONNECT", "CONNECT"]


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_socks_proxy(
    http: Both, app: AppServer, tls_app: AppServer, certs: Certs, scheme: str
) -> None:
    with SOCKSProxy(("pia", "secret")) as proxy:
        address = f"{scheme}://pia:secret@127.0.0.1:{proxy.port}"
        options = (f"--proxy=http:{address}", f"--proxy=https:{address}")
        for url in (f"{app.url}/json", f"{tls_app.url}/json"):
            done = ask(http, *options, f"--verify={certs.ca_path}", EVERYTHING, url)
            assert (done.status, len(done.sent)) == (0, 1), done.errors
        assert [port for _, port in proxy.log] == [app.port, app.port, tls_app.port, tls_app.port]


# --- what fails ---


def test_a_server_that_is_silent(http: Both, app: AppServer) -> None:
    done = ask(http, "--timeout=0.5", f"{app.url}/stall")
    assert done.status == 2
    assert "Request timed out" in done.errors


def test_a_server_that_is_not_there(http: Both) -> None:
    with refused_port() as port:
        for done in http.each("--ignore-stdin", f"http://127.0.0.1:{port}/"):
            assert (done.status, done.output) == (1, "")
            assert "http: error: ConnectionError: " in done.errors


def test_a_host_without_an_address(http: Both) -> None:
    for done in http.each("--ignore-stdin", "http://no-such-host.invalid/"):
        assert done.status == 1
        assert "resolve the given hostname. Please check the URL and try again." in done.errors


@pytest.mark.parametrize("handler", [close_at_once, respond_and_close(CUT)])
def test_a_response_that_is_cut(http: Both, handler: Handler) -> None:
    with RawServer(handler) as server:
        found = http.each("--ignore-stdin", server.url)
    for done in found:
        assert done.status == 1
        assert "http: error: " in done.errors
