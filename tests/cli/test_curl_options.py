"""Options that hands know from curl, and what they send."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    HTTPProxy,
    Record,
    SOCKSProxy,
    refused_port,
)
from tests.support.cli import echoed, finish, listed, run, start
from tests.support.colours import needs_pem_certificates, needs_posix
from tests.support.internals import ROOT


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (["-d", "a=1", "--data-raw", "@b"], "a=1&@b"),
        (["--data-urlencode", "a=b c&d"], "a=b+c%26d"),
        (["--data-urlencode", "b c", "--data-urlencode", "=é"], "b+c&%C3%A9"),
        (["--url-query", "a=b c"], ""),
    ],
    ids=str,
)
def test_forms(app: AppServer, arguments: list[str], body: str) -> None:
    assert echoed("post", app.url + "/echo", *arguments)["body"] == body


def test_values_are_sent_in_the_order_given(app: AppServer) -> None:
    data = ("-d", "a=1", "--data-urlencode", "b=c d", "--data-raw", "@x", "-d", "z=2")
    assert echoed("post", app.url + "/echo", *data)["body"] == "a=1&b=c+d&@x&z=2"
    form = ("--form-string", "a=@1", "-F", "b=2", "--form-string", "c=3")
    body = echoed("post", app.url + "/echo", *form)["body"]
    assert re.findall('name="(.)"', body) == ["a", "b", "c"]


def test_a_field_has_the_text_of_a_file(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    field = f"a=<{tmp_path / 'text'}"
    body = echoed("post", app.url + "/echo", "-F", field)["body"]
    assert "\r\n\r\nhello\r\n" in body
    assert "filename" not in body
    assert field[2:] in echoed("post", app.url + "/echo", "--form-string", field)["body"]


def test_data_of_a_file_is_encoded(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b&")
    got = echoed("post", app.url + "/echo", "--data-urlencode", f"name@{tmp_path / 'text'}")
    assert got["body"] == "name=a+b%26"


def test_the_query(app: AppServer) -> None:
    run("get", app.url + "/echo?x=1", "--url-query", "a=b c", "--url-query", "d")
    assert app.requests[-1].target == "/echo?x=1&a=b+c&d"
    run("get", app.url + "/echo", "-G", "-d", "a=1", "--data-urlencode", "b=c d")
    assert app.requests[-1].target == "/echo?a=1&b=c+d"
    run("get", app.url + "/echo", "--url-query", "+a b&c=d%20", "--url-query", "e=f g")
    assert app.requests[-1].target == "/echo?a%20b&c=d%20&e=f+g"


def test_a_form_with_literal_values(app: AppServer) -> None:
    body = echoed("post", app.url + "/echo", "--form-string", "a=@b;type=c", "-F", "d=e")["body"]
    assert "@b;type=c" in body
    assert 'name="d"' in body


def test_a_file_is_uploaded_with_put(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    got = echoed("request", app.url + "/echo", "-T", tmp_path / "text")
    assert (got["method"], got["body"]) == ("PUT", "hello")
    assert echoed("post", app.url + "/echo", "-T", tmp_path / "text")["method"] == "POST"
    assert run("get", app.url, "-T", tmp_path / "none").status == 26


# What curl 7.88 sends after 301, 302, 303, 307 and 308.
AS_CURL = {
    "-T FILE": "PUT+body PUT+body GET PUT+body PUT+body",
    "-X POST -T FILE": "POST+body POST+body GET POST+body POST+body",  # curl after 303: POST
    "-d body": "GET GET GET POST+body POST+body",
    "-d body --post301": "POST+body GET GET POST+body POST+body",
    "-d body --post302": "GET POST+body GET POST+body POST+body",
    "-d body --post303": "GET GET POST+body POST+body POST+body",
    "-X DELETE": "DELETE DELETE GET DELETE DELETE",  # curl after 303: DELETE
    "-X PUT -d body": "PUT+body PUT+body GET PUT+body PUT+body",  # curl: PUT without the body
    "-I": "HEAD HEAD HEAD HEAD HEAD",
}
AS_CLIENTS = {
    "-T FILE": "PUT+body GET GET PUT+body PUT+body",
    "-d body": "GET GET GET POST+body POST+body",
    "-d body --post301 --post302 --post303": " ".join(["POST+body"] * 5),
}


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        *(("curl -L", options, expected) for options, expected in AS_CURL.items()),
        *(("request", options, expected) for options, expected in AS_CLIENTS.items()),
        ("post", "-d body --post302", AS_CURL["-d body --post302"]),
    ],
)
def test_what_is_sent_after_a_redirect(
    app: AppServer, tmp_path: Path, command: str, options: str, expected: str
) -> None:
    (tmp_path / "file").write_text("body")
    given = options.replace("FILE", str(tmp_path / "file")).split()
    sent = []
    for status in (301, 302, 303, 307, 308):
        url = f"{app.url}/redirect-to?status={status}&url=/echo"
        assert run(*command.split(), *given, url).status == 0
        last = app.requests[-1]
        sent.append(f"{last.method}+{last.body.decode()}" if last.body else last.method)
        assert (last.header("content-length") is None) is not bool(last.body)
    assert " ".join(sent) == expected


def test_stdin_cannot_be_uploaded_twice(app: AppServer) -> None:
    process = start("curl", "-L", "-T", "-", f"{app.url}/redirect-to?status=301&url=/echo",
                    stdin=subprocess.PIPE)  # fmt: skip
    ended = finish(process, b"body")
    assert ended.status == 65, ended.err
    assert "after the 301, the body must be sent again" in ended.err
    assert [record.body for record in app.requests] == [b"body"]


def test_an_uploaded_file_keeps_its_name_below_a_folder(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("hello")
    for folder, target in (("/up/?q=1", "/up/a%20b?q=1"), ("/up?q=1/", "/up?q=1/")):
        run("request", app.url + folder, "-T", tmp_path / "a b")
        assert app.requests[-1].target == target


@pytest.mark.parametrize("name", ["content-length", "Content-Length"])
def test_the_length_of_a_copied_command_is_checked(app: AppServer, name: str) -> None:
    for length, options in ((0, ()), (3, ("-d", "abc"))):
        got = echoed("curl", "-X", "POST", app.url + "/echo", "-H", f"{name}: {length}", *options)
        assert got["headers"]["content-length"] == str(length)
    ended = run("post", app.url, "-d", "abc", "-H", f"{name}: 5")
    assert "the body has 3 bytes, but 5 were announced" in ended.err
    got = echoed("post", app.url + "/echo", "-d", "abc", "-H", "Transfer-Encoding: chunked")
    assert got["body"] == "abc"


def test_a_download_is_resumed_with_a_dash(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for command in (("-C", "-"), ("curl", "-C", "-"), ("curl", "--continue-at", "-")):
        assert run(*command, "-o", path, app.url + "/bytes/9").status == 0
        assert path.stat().st_size == 9
    ended = run("curl", "-C", "5", "-o", path, app.url + "/bytes/9")
    assert ended.status == 2
    assert "-C takes no offset such as 5" in ended.err


@pytest.mark.parametrize("method", ["POST", "post", "PURGE"])
def test_a_method_may_follow_options(app: AppServer, method: str) -> None:
    got = echoed("-s", method, app.url + "/echo", "a=1")
    assert (got["method"], got["body"]) == (method.upper(), '{"a": "1"}')


def test_a_second_url_is_refused(app: AppServer) -> None:
    for second in ("localhost:8390/b", "a.test:80/", "127.0.0.1:80/", "http://a.test/"):
        ended = run("get", app.url, second)
        assert ended.status == 2
        assert "only one" in ended.err
    assert not app.requests
    assert run("get", app.url, "X-Time:12:30", "Host:a.test:80").status == 0


def test_headers(app: AppServer) -> None:
    run("get", app.url, "-e", "http://from/", "-r", "0-9", "--oauth2-bearer", "token")
    headers = {name.lower(): value for name, value in app.requests[-1].headers}
    assert headers["referer"] == "http://from/"
    assert headers["range"] == "bytes=0-9"
    assert headers["authorization"] == "Bearer token"


def test_options_that_ask_for_the_default_are_taken(app: AppServer) -> None:
    assert run("get", app.url, "--compressed", "-N", "-n", "-sS", "--basic").status == 0


def test_head(app: AppServer) -> None:
    ended = run("get", app.url + "/bytes/9", "-I")
    assert app.requests[-1].method == "HEAD"
    assert b"content-length: 9" in ended.out.lower()


def test_the_head_is_written_to_a_file(app: AppServer, tmp_path: Path) -> None:
    ended = run("get", app.url + "/bytes/3", "-D", tmp_path / "head")
    assert (tmp_path / "head").read_bytes().startswith(b"HTTP/1.1 200 OK\r\n")
    assert len(ended.out) == 3
    assert run("get", app.url + "/bytes/3", "-D", "-").out.startswith(b"HTTP/1.1 200 OK\r\n")
    assert run("get", app.url, "-D", tmp_path / "none" / "head").status == 23


def test_folders_are_created(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    assert run("get", app.url + "/bytes/3", "-o", path).status == 23
    assert run("get", app.url + "/bytes/3", "-o", path, "--create-dirs").status == 0
    assert path.stat().st_size == 3


def test_an_error_status_with_its_body(app: AppServer) -> None:
    ended = run("get", app.url + "/404", "--fail-with-body")
    assert ended.status == 22
    assert ended.out == run("get", app.url + "/404").out != b""


def test_redirects_are_counted(app: AppServer) -> None:
    assert run("get", app.url + "/redirect/3", "--max-redirs", 3).status == 0
    assert run("get", app.url + "/redirect/3", "--max-redirs", 2).status == 47


def test_a_rate(app: AppServer) -> None:
    begun = time.monotonic()
    assert len(run("get", app.url + "/bytes/60000", "--limit-rate", "100k").out) == 60_000
    assert time.monotonic() - begun > 0.2
    assert run("get", app.url, "--limit-rate", "0").status == 0  # no limit, as in curl


def test_where_to_connect(app: AppServer) -> None:
    port = app.port
    for arguments in (
        ["http://example.test/", "--connect-to", f"example.test:80:127.0.0.1:{port}"],
        ["http://example.test/", "--connect-to", f"::127.0.0.1:{port}"],
        ["http://example.test/", "--connect-to", f":80:127.0.0.1:{port}"],
        [f"http://example.test:{port}/", "--connect-to", "example.test::127.0.0.1:"],
        [f"http://localhost:{port}/", "-4"],
        [app.url, "--interface", "127.0.0.1"],
    ):
        assert run("get", *arguments).status == 0, arguments
    assert run("get", app.url, "--connect-to", "a:b").status == 2
    assert run("get", app.url, "--doh-url", "http://a/").status == 2


def test_the_entry_for_a_host_comes_before_the_one_for_any(app: AppServer) -> None:
    with refused_port() as refused:
        detours = ["--connect-to", f"::127.0.0.1:{refused}"]
        assert run("get", "http://example.test/", *detours).status == 7
        detours += ["--connect-to", f"example.test::127.0.0.1:{app.port}"]
        assert run("get", "http://example.test/", *detours).status == 0


def test_versions_of_tls(tls_app: AppServer, certs: Certs) -> None:
    trust = ["--cacert", certs.ca_path]
    for option in (["--tlsv1.2"], ["--tlsv1.3"], ["--tls-max", "1.2"], ["--tlsv1"]):
        assert run("get", tls_app.url, *trust, *option).status == 0, option
        assert run("get", tls_app.url, "-k", *option).status == 0, option
        if option != ["--tlsv1"]:
            assert run("get", tls_app.url, *option).status == 60
    assert run("get", tls_app.url, "-k", "--tlsv1.3", "--tls-max", "1.2").status == 35


@pytest.mark.parametrize(("options", "failed"), [([], 0), (["--tls-max", "1.2"], 1)])
def test_processes_use_the_versions_of_tls(
    tls_app: AppServer, certs: Certs, tmp_path: Path, options: list[str], failed: int
) -> None:
    file = listed(tmp_path, tls_app.url)
    trust = ["--cacert", certs.ca_path, "--tlsv1.3", *options]
    to = ["-o", tmp_path / "out", "--format", "jsonl"]
    ended = run("fetch", file, *to, "--processes", 1, *trust)
    assert ended.status == failed, ended.err
    assert len(tls_app.requests) == 1 - failed


def test_all_errors_are_retried(app: AppServer) -> None:
    def flaky(record: Record, conn: AppConnection) -> None:
        conn.reply(503 if len(app.requests) < 3 else 200, b"done")

    app.route("/flaky", flaky)
    assert run("post", app.url + "/flaky", "-d", "a", "--retry", 2, "-f").status == 22
    app.requests.clear()
    ended = run("post", app.url + "/flaky", "-d", "a", "--retry", 2, "--retry-all-errors")
    assert (ended.out, len(app.requests)) == (b"done", 3)


def test_a_request_is_signed_for_aws(app: AppServer) -> None:
    pytest.importorskip("botocore")
    option = ["--aws-sigv4", "aws:amz:eu-west-1:execute-api"]
    headers = echoed("post", app.url + "/echo", *option, "-u", "KEY:SECRET", "a=1")["headers"]
    assert "/eu-west-1/execute-api/aws4_request" in headers["authorization"]
    assert "Credential=KEY/" in headers["authorization"]
    assert run("get", app.url, "--aws-sigv4", "aws:amz:eu-west-1").status == 2


def test_proxies(app: AppServer) -> None:
    with HTTPProxy() as proxy:
        assert run("get", app.url, "-x", proxy.url, "--proxy-user", "me:p@ss").status == 0
        assert len(proxy.log) == 1
        assert run("get", app.url, "-x", proxy.url, "--noproxy", "127.0.0.1").status == 0
        assert len(proxy.log) == 1
    with SOCKSProxy() as socks:
        host = socks.url.partition("://")[2]
        url = app.url.replace("127.0.0.1", "localhost")
        for option, looked_up in (("--socks5", "127.0.0.1"), ("--socks5-hostname", "localhost")):
            assert run("get", url, "-4", option, host).status == 0
            assert socks.log[-1][0] == looked_up


def test_digest(app: AppServer) -> None:
    assert run("get", app.url, "--digest").status == 2
    url = app.url + "/digest?user=me&password=secret"
    assert run("get", url, "-f", "--digest", "-u", "me:wrong").status == 22
    assert run("get", url, "-f", "--digest", "-u", "me:secret").status == 0


# --- command lines of curl ---


def test_options_mean_the_same_as_for_curl(app: AppServer) -> None:
    assert b"302" in run("curl", app.url + "/redirect/1", "-i").out.splitlines()[0]
    assert run("curl", "-L", app.url + "/redirect/1").out == b"hello"
    for arguments in (["--url", app.url + "/echo"], [app.url + "/echo"]):
        got = echoed("curl", *arguments, "--json", '{"a": 1}')
        assert (got["method"], got["body"]) == ("POST", '{"a": 1}')
        assert got["headers"]["content-type"] == "application/json"
    assert run("curl").status == run("request").status == 2
    assert echoed("request", "--url", app.url + "/echo", "a=1")["body"] == '{"a": "1"}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("copied", "method", "body"),
    [
        pytest.param(
            r"""curl 'URL/echo?a\[0\]=1' \
  -X 'PUT' \
  -H 'accept: */*' \
  -H 'x-empty;' \
  -b 'a=1; b="2"' \
  -H 'priority: u=1, i' \
  --data-raw $'{"a":"it\'s\u0021"}' \
  --insecure""",
            "PUT",
            '{"a":"it\'s!"}',
            id="Chrome",
        ),
        pytest.param(
            r"""curl --globoff 'URL/echo?a[0]=1' --compressed -X POST """
            r"""-H 'Accept: */*' -H 'X-Empty;' -H 'Accept-Encoding: gzip, deflate, br, zstd' """
            r"""-H 'Cookie: a=1; b="2"' -H 'TE: trailers' --data-raw 'a=1&b=%20'""",
            "POST",
            "a=1&b=%20",
            id="Firefox",
        ),
        pytest.param(
            r"""curl 'URL/echo?a\[0\]=1' \
-X 'POST' \
-H 'Accept: */*' \
-H 'X-Empty;' \
-H 'Cookie: a=1; b="2"' \
--data-binary '{"a":1}'""",
            "POST",
            '{"a":1}',
            id="Safari",
        ),
    ],
)
def test_a_command_line_that_a_browser_copied(
    app: AppServer, copied: str, method: str, body: str
) -> None:
    script = 'curlhttp() { "$0" -m curlhttp "$@"; }; curlhttp ' + copied.replace("URL", app.url)
    done = subprocess.run(
        ["bash", "-c", script, sys.executable], capture_output=True, check=True, cwd=ROOT
    )
    got = json.loads(done.stdout)
    assert (got["method"], got["body"]) == (method, body)
    headers = {name.lower(): value for name, value in got["headers"]}
    assert (headers["accept"], headers["x-empty"]) == ("*/*", "")
    assert headers["cookie"] == 'a=1; b="2"'
    assert app.requests[-1].target in ("/echo?a[0]=1", "/echo?a%5B0%5D=1")


# --- of httpie ---


@pytest.mark.parametrize(
    ("items", "body"),
    [
        (["user[name]=ada", "user[year]:=1815"], {"user": {"name": "ada", "year": 1815}}),
        (["a[]=1", "a[]:=2"], {"a": ["1", 2]}),
        (["a[0]=1", "a[1]:=2"], {"a": ["1", 2]}),
        (["a[0][b]=c", "a[0][d]=e", "a[1]:=null"], {"a": [{"b": "c", "d": "e"}, None]}),
        (["a[b][]=c"], {"a": {"b": ["c"]}}),
        ([r"a\[b\]=1", r"c[d\]]=2"], {"a[b]": "1", "c": {"d]": "2"}}),
    ],
    ids=str,
)
def test_items_nest(app: AppServer, items: list[str], body: object) -> None:
    assert json.loads(echoed("post", app.url + "/echo", *items)["body"]) == body


@pytest.mark.parametrize(
    "items", [["a=1", "a[b]=2"], ["a[1]=x"], ["a[b]]=1"], ["a[b=1"], ["a]=1"], ["a[-1]=1"]], ids=str
)
def test_items_that_do_not_nest_are_refused(app: AppServer, items: list[str]) -> None:
    assert run("post", app.url + "/echo", *items).status == 2
    assert not app.requests


def piped(data: bytes, *arguments: object) -> bytes:
    """Run a command with a pipe as stdin, and return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-m", "curlhttp", *map(str, arguments)],
        input=data,
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert ended.stderr == b""
    return ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("data", [b'{"z": 1}', b"text"], ids=["JSON", "text"])
def test_what_is_piped_is_the_body(app: AppServer, data: bytes) -> None:
    for command in (["post"], ["put"], ["patch"], ["request", "-X", "POST"], ["-s", "PUT"]):
        got = json.loads(piped(data, *command, app.url + "/echo"))
        assert got["body"].encode() == data
        headers = {name.lower(): value for name, value in app.requests[-1].headers}
        expected = "application/json" if data == b'{"z": 1}' else None
        assert headers.get("content-type") == expected


@needs_posix
def test_it_says_that_it_waits_for_a_body(app: AppServer) -> None:
    process = start("post", app.url + "/echo", stdin=subprocess.PIPE)
    assert process.stderr is not None
    assert b"waiting for the body on stdin" in process.stderr.readline()
    out, err = process.communicate(b"x")
    assert (json.loads(out)["body"], err) == ("x", b"")


@pytest.mark.slow
def test_nothing_is_read_for_other_methods_or_with_a_body(app: AppServer) -> None:
    assert json.loads(piped(b"x", "get", app.url + "/echo"))["body"] == ""
    assert json.loads(piped(b"x", "post", app.url + "/echo", "-d", "a=1"))["body"] == "a=1"
    assert json.loads(piped(b"x", "post", app.url + "/echo", "--ignore-stdin"))["body"] == ""
    assert json.loads(piped(b"x", "curl", "-X", "POST", app.url + "/echo"))["body"] == ""


def test_fetch_adds_schemes_as_get_does(app: AppServer, tmp_path: Path) -> None:
    urls, out = tmp_path / "urls.txt", tmp_path / "out.jsonl"
    urls.write_text(f"127.0.0.1:{app.port}/bytes/3\nftp://a/\nnope\n")
    run("fetch", urls, "-o", out)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(str(record["status"]) for record in records) == ["200", "None", "None"]
    assert "adapters" not in out.read_text()


def test_a_password_needs_a_terminal(app: AppServer) -> None:
    ended = run("get", app.url, "-u", "me")
    assert ended.status == 2
    assert "-u me has no password, and there is no terminal to ask for it" in ended.err


# --- credentials in URLs, and those that were given ---


def _authorization(app: AppServer) -> str | None:
    headers = {name.lower(): value for name, value in app.requests[-1].headers}
    return headers.get("authorization")


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["-u", "a:b"], "Basic YTpi"),
        (["-u", "a:"], "Basic YTo="),
        (["--oauth2-bearer", "T"], "Bearer T"),
        (["-H", "Authorization: X"], "X"),
        (["-H", "Authorization: X", "-u", "a:b"], "X"),
        (["-H", "Authorization:", "-u", "a:b"], None),
        (["--basic"], "Basic Yzpk"),
    ],
    ids=str,
)
def test_given_credentials_win_over_those_of_the_url(
    app: AppServer, arguments: list[str], value: str | None
) -> None:
    url = app.url.replace("//", "//c:d@")
    for command in ("curl", "get", "sse"):
        run(command, url + "/echo", *arguments, *(["--no-reconnect"] * (command == "sse")))
        assert _authorization(app) == value


def test_given_credentials_win_for_the_lines_of_a_list(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(app.url.replace("//", "//c:d@") + "\n")
    assert run("fetch", tmp_path / "list", "-u", "a:b", "-q", "-o", tmp_path / "out.db").status == 0
    assert _authorization(app) == "Basic YTpi"


def test_digest_takes_the_credentials_of_the_url(app: AppServer) -> None:
    url = app.url.replace("//", "//c:d@")
    run("curl", "--digest", url + "/digest")
    assert (_authorization(app) or "").startswith('Digest username="c"')
    assert run("curl", "--digest", app.url).status == 2


def test_credentials_of_a_url_win_over_a_session(app: AppServer, tmp_path: Path) -> None:
    session = tmp_path / "me.json"
    run("get", app.url, "--session", session, "-u", "a:b")
    run("get", app.url.replace("//", "//c:d@"), "--session", session)
    assert _authorization(app) == "Basic Yzpk"
    run("get", app.url, "--session", session, "-H", "Authorization: X")
    run("get", app.url, "--session", session, "-u", "e:f")
    assert _authorization(app) == "Basic ZTpm"


# --- client certificates ---


@pytest.fixture
def encrypted(certs: Certs, tmp_path: Path) -> Path:
    """Make a client certificate whose key has the password "se:same"."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    pem = certs.client_cert_path().read_bytes()
    key = load_pem_private_key(pem, None)
    start = pem.index(b"-----BEGIN CERTIFICATE")
    path = tmp_path / "my:cert.pem"
    path.write_bytes(
        pem[start:]
        + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"se:same"))
    )
    return path


@needs_pem_certificates
def test_a_certificate_has_its_password_after_a_colon(certs: Certs, encrypted: Path) -> None:
    name = str(encrypted).replace(":", "\\:")
    with AppServer(certs.client_auth_context()) as server:
        for arguments in (
            ("--cert", f"{name}:se:same"),
            ("-E", name, "--pass", "se:same"),
            ("-E", f"{name}:se:same", "--key", str(encrypted)),
        ):
            for command in ("curl", "get"):
                ended = run(command, server.url, "--cacert", certs.ca_path, *arguments)
                assert ended.status == 0, ended.err
        ended = run("get", server.url, "--cacert", certs.ca_path, "-E", f"{name}:sesame")
        assert ended.status not in (0, 1, 2)
        assert "sesame" not in ended.err


@pytest.mark.parametrize("command", ["curl", "get", "fetch", "bench", "sse", "ws"])
@pytest.mark.parametrize("name", ["none.pem", "pkcs11", "C", "no\\:ne"])
def test_an_error_about_a_certificate_shows_no_password(command: str, name: str) -> None:
    ended = run(command, "--cert", f"{name}:sesame", "https://127.0.0.1:9")
    assert ended.status == 2
    assert "sesame" not in ended.err
    assert name == "pkcs11" or f"{name.replace(chr(92), '')!r} is not a file" in ended.err


# --- --noproxy ---


def test_noproxy_replaces_the_variable(app: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPProxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for value, count in (("", 1), ("other.test", 2), ("127.0.0.1", 2), ("*", 2)):
            for command in ("curl", "get"):
                assert run(command, app.url, "--noproxy", value).status == 0
            assert len(proxy.log) == 2 * count
        assert run("get", app.url).status == 0
        assert len(proxy.log) == 4


# --- URLs ---


@pytest.mark.parametrize("start", ["http:/", "HTTP:/", "https:/", "http:", "http:///", "ftp:/"])
def test_a_url_with_a_wrong_number_of_slashes_is_refused(app: AppServer, start: str) -> None:
    for command in ("get", "sse", "bench", "ws"):
        ended = run(command, f"{start}me:sesame@127.0.0.1:{app.port}/x")
        assert ended.status in (1, 3)
        assert "sesame" not in ended.err
    assert app.requests == []


@pytest.mark.parametrize("start", ["http:/", "HTTP:///", "http://"])
def test_a_copied_command_may_have_one_to_three_slashes(app: AppServer, start: str) -> None:
    ended = run("curl", f"{start}127.0.0.1:{app.port}/echo")
    assert ended.status == 0, ended.err
    assert run("curl", f"http:127.0.0.1:{app.port}/").status == 3
    assert run("curl", f"http:////127.0.0.1:{app.port}/").status == 3


@pytest.mark.parametrize(
    ("rest", "target"),
    [
        ("", "/a"),
        ("?q=1", "/a?q=1"),
        ("?q=1/", "/a?q=1/"),
        ("#part", "/a"),
        ("/", "/a"),
        ("/d/?q", "/d/a?q"),
        ("/d?q", "/d?q"),
    ],
)
def test_an_upload_to_a_folder_gets_the_name_of_the_file(
    app: AppServer, tmp_path: Path, rest: str, target: str
) -> None:
    (tmp_path / "a").write_text("hello")
    for url in (app.url + rest, f"127.0.0.1:{app.port}{rest}"):
        for command in ("curl", "put"):
            run(command, "-T", tmp_path / "a", url)
            assert (app.requests[-1].target, app.requests[-1].body) == (target, b"hello")


def test_an_upload_from_stdin_gets_no_name(app: AppServer) -> None:
    for name in ("-", "."):
        run("curl", "-T", name, app.url + "/d/", stdin=b"piped")
        assert (app.requests[-1].target, app.requests[-1].body) == ("/d/", b"piped")


# --- headers ---


@pytest.mark.parametrize(
    ("value", "sent"),
    [("4", "4-"), ("4-", "4-"), ("-5", "-5"), ("0-4", "0-4"), ("0-4,6-8", "0-4,6-8")],
)
def test_a_range_may_be_a_start_alone(app: AppServer, value: str, sent: str) -> None:
    for command in ("curl", "get"):
        run(command, app.url, "-r", value)
        assert ("Range", f"bytes={sent}") in app.requests[-1].headers
    run("curl", app.url, "-r", value, "-H", "Range: bytes=1-2", "-e", "")
    names = [name for name, _ in app.requests[-1].headers]
    assert (names.count("Range"), names.count("Referer")) == (1, 0)


def test_headers_are_removed_emptied_and_read_from_files(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "headers").write_bytes(b"X-A: 1\r\nX-B;\n\nAccept:\n")
    for command in ("curl", "get"):
        run(command, app.url, "-H", f"@{tmp_path / 'headers'}", "-H", "Host:", "-H", "X-C: 1",
            "-H", "X-C:")  # fmt: skip
        headers = dict(app.requests[-1].headers)
        assert (headers["X-A"], headers["X-B"], headers["X-C"]) == ("1", "", "1")
        assert not headers.keys() & {"Host", "Accept"}
    assert b"Host:" not in run("get", app.url, "-H", "Host:", "--offline").out
    assert run("curl", app.url, "-H", "Host: a", "-H", "Host:").status == 0
    assert ("Host", "a") in app.requests[-1].headers
    assert run("curl", app.url, "-H", "@none").status == 26


def test_another_host_of_a_redirect_gets_a_host_header(app: AppServer) -> None:
    url = f"http://localhost:{app.port}/echo"
    run("curl", "-L", "-H", "Host:", app.url + f"/redirect-to?url={url}")
    first, second = ({name for name, _ in each.headers} for each in app.requests[-2:])
    assert ("Host" in first, "Host" in second) == (False, True)
