"""One request: what is sent, where the body is written, and the exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    Record,
    payload,
    refused_port,
)
from tests.support.cli import finish, run, start


@pytest.mark.parametrize("verb", ["get", "options", "post", "put", "patch", "delete"])
def test_a_verb_sends_its_method(app: AppServer, verb: str) -> None:
    ended = run(verb, app.url + "/echo")
    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["method"] == verb.upper()
    assert ended.err == ""


def test_head_shows_the_head(app: AppServer) -> None:
    ended = run("head", app.url + "/bytes/5")
    assert ended.out.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 5\r\n" in ended.out
    assert ended.out.endswith(b"\r\n\r\n")
    assert app.requests[0].method == "HEAD"


def test_headers_are_sent_replaced_emptied_and_left_out(app: AppServer) -> None:
    headers = ("X-One: 1", "User-Agent: me", "X-Empty;", "Accept-Encoding:")
    options = [part for header in headers for part in ("-H", header)]
    sent = dict(json.loads(run("get", app.url + "/echo", *options).out)["headers"])
    assert (sent["X-One"], sent["User-Agent"], sent["X-Empty"]) == ("1", "me", "")
    assert "Accept-Encoding" not in sent


def test_redirects_are_followed_by_default(app: AppServer) -> None:
    assert run("get", app.url + "/redirect/2").out == b"hello"
    ended = run("get", "-i", "--no-follow", app.url + "/redirect/2")
    assert ended.out.startswith(b"HTTP/1.1 302 Found\r\n")


def test_the_user_is_authenticated(app: AppServer) -> None:
    run("get", app.url + "/echo", "-u", "me:secret:er")
    assert app.requests[0].values("authorization") == ["Basic bWU6c2VjcmV0OmVy"]


def test_a_failed_request_is_retried(app: AppServer) -> None:
    def flaky(record: Record, conn: AppConnection) -> None:
        conn.reply(503 if len(app.requests) < 3 else 200, b"done")

    app.route("/flaky", flaky)
    assert run("get", app.url + "/flaky", "--retry", "2").out == b"done"
    assert len(app.requests) == 3


def test_certificates_are_checked(tls_app: AppServer, certs: Certs) -> None:
    assert run("get", tls_app.url).status == 60
    assert run("get", tls_app.url, "--cacert", certs.ca_path).out == b"hello"
    assert run("get", tls_app.url, "-k").out == b"hello"


def test_har_has_all_that_happened_without_credentials(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "all.har"
    ended = run("get", "--har", path, "-u", "me:a-secret", app.url + "/redirect/1?token=a-secret")
    assert ended.out == b"hello"
    text = path.read_text()
    assert "a-secret" not in text
    entries = json.loads(text)["log"]["entries"]
    assert [entry["response"]["status"] for entry in entries] == [302, 200]
    assert entries[1]["response"]["content"]["text"] == "hello"


def test_har_records_failures(tmp_path: Path) -> None:
    path = tmp_path / "all.har"
    assert run("get", "--har", path, "http://127.0.0.1:1/").status == 7
    (entry,) = json.loads(path.read_text())["log"]["entries"]
    assert (entry["response"]["status"], entry["_error"][:15]) == (0, "ConnectionError")


def test_har_has_downloads_too(app: AppServer, tmp_path: Path) -> None:
    path, target = tmp_path / "all.har", tmp_path / "body"
    assert run("get", "--har", path, "-o", target, app.url + "/bytes/1000").status == 0
    (entry,) = json.loads(path.read_text())["log"]["entries"]
    assert entry["response"]["content"]["size"] == target.stat().st_size == 1000


def test_har_needs_a_folder(app: AppServer, tmp_path: Path) -> None:
    ended = run("get", "--har", tmp_path / "none" / "all.har", app.url)
    assert ended.status == 23
    assert "the folder does not exist" in ended.err
    assert app.requests == []


def test_a_pipe_gets_the_bytes_as_they_are(app: AppServer) -> None:
    ended = run("get", app.url + "/bytes/100000")
    assert ended.out == payload(100000)
    assert run("get", app.url + "/json").out == run("get", app.url + "/json", "-o", "-").out


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly(app: AppServer) -> None:
    process = start("get", app.url + "/big")
    assert process.stdout is not None
    assert process.stdout.read(10) == bytes(10)
    process.stdout.close()
    assert process.wait(60) == 23
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported_once(app: AppServer) -> None:
    with open("/dev/full", "wb") as full:
        ended = finish(start("get", app.url, stdout=full))
    assert ended.status == 23
    assert ended.err == "curlhttp: stdout: No space left on device\n"


def test_a_missing_folder_is_reported_before_anything_is_sent(
    app: AppServer, tmp_path: Path
) -> None:
    assert run("get", app.url, "-o", tmp_path / "nowhere" / "file").status == 23
    assert app.connections == 0


def test_include_shows_the_head_before_the_body(app: AppServer) -> None:
    out = run("get", "-i", app.url).out
    head, _, body = out.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain")
    assert body == b"hello"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["ftp://x/"], 1, "ftp"),
        (["://nope"], 3, "nope"),
        (["http://a b/"], 3, "Invalid"),
        (["http://nobody.invalid/"], 6, "nobody.invalid"),
        (["{refused}"], 7, "refused"),
        (["{url}/stall", "--timeout", "0.2"], 28, "silent"),
        (["{url}/stall", "--max-time", "0.2"], 28, "total"),
        (["{url}/status/404", "-f"], 22, "404"),
        (["{url}/redirect/31"], 47, "redirect"),
        (["{url}", "-x", "gopher://x"], 5, "proxy"),
        (["{url}", "-x", "{refused}"], 7, "proxy"),
        (["{url}", "-o", "/nowhere/file"], 23, "/nowhere/file"),
        (["{url}", "-d", "@/nowhere/file"], 26, "/nowhere/file"),
        (["{url}", "-H", "X: a\rb"], 2, "X"),
    ],
)
def test_it_ends_with_the_number_of_curl(
    app: AppServer, arguments: list[str], status: int, says: str
) -> None:
    with refused_port() as port:
        places = {"url": app.url, "refused": f"http://127.0.0.1:{port}"}
        ended = run("get", *(part.format(**places) for part in arguments))
    assert (ended.status, ended.out) == (status, b""), ended.err
    assert re.fullmatch(r"curlhttp: .*\n", ended.err)
    assert says in ended.err.replace(os.sep, "/")


@pytest.mark.parametrize(
    "arguments",
    [
        ["post", "{url}", "--json-body", '{"a":'],
        ["post", "{url}", "--json-body", "1", "-d", "a"],
        ["post", "{url}", "-F", "nothing"],
        ["get", "{url}", "-H", "no header"],
        ["get", "{url}", "--timeout", "0"],
        ["get", "{url}", "--timeout", "soon"],
        ["get", "{url}", "--retry", "-1"],
        ["get", "{url}", "--key", __file__],
        ["get"],
        ["git", "{url}"],
    ],
)
def test_a_usage_error_is_reported_before_anything_is_sent(
    app: AppServer, arguments: list[str]
) -> None:
    ended = run(*(part.replace("{url}", app.url) for part in arguments))
    assert (ended.status, ended.out) == (2, b"")
    assert "Error: " in ended.err
    assert app.connections == 0


@pytest.mark.slow
def test_ctrl_c_ends_with_130(app: AppServer) -> None:
    import signal

    process = start("get", app.url + "/stall", "--timeout", "30")
    assert app.wait_for(lambda: bool(app.requests))
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.status == 130
    assert "Traceback" not in ended.err


def test_a_get_into_a_pipe_does_not_load_rich(app: AppServer) -> None:
    code = (
        "import sys, atexit; from curlhttp.cli import main\n"
        "atexit.register(lambda: print('rich.console' in sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", code, "get", app.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("hello", "False\n")


def test_an_error_shows_no_credential(app: AppServer) -> None:
    with refused_port() as port:
        for url, status in ((f"127.0.0.1:{port}", 7), (f"127.0.0.1:{app.port}/stall", 28)):
            ended = run("get", f"http://you:sesame@{url}", "--timeout", "0.2", "-u", "me:sesame")
            assert ended.status == status
            assert "sesame" not in ended.err


# --- --offline ---


def test_offline_prints_the_request_and_sends_nothing(app: AppServer, tmp_path: Path) -> None:
    files = ["--har", tmp_path / "har", "-c", tmp_path / "jar"]
    ended = run("post", app.url + "/x?token=sesame", "--offline", "-u", "me:sesame", "a=é",
                "X-One:1", "-b", "b=2", *files)  # fmt: skip
    assert (ended.status, app.connections, list(tmp_path.iterdir())) == (0, 0, [])
    head, _, body = ended.out.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x?token=*** HTTP/1.1\r\nHost: ")
    assert b"\r\nX-One: 1\r\n" in head
    assert b"\r\nAuthorization: [secret]\r\n" in head
    assert b"\r\nCookie: " in head
    assert body == '{"a": "é"}'.encode()
    shown = run("get", app.url + "/x?token=sesame", "--offline", "-u", "a:b", "--show-secrets").out
    assert b"/x?token=sesame " in shown
    assert b"Authorization: Basic YTpi\r\n" in shown


def test_offline_prints_whole_bodies(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 1000)
    option = ["--offline", "--print", "B"]
    assert run("put", app.url, "-T", tmp_path / "file", *option).out == bytes(range(256)) * 1000
    form = run("post", app.url, "-F", f"a=@{tmp_path / 'file'}", *option).out
    assert bytes(range(256)) * 1000 in form
    assert app.connections == 0
    assert run("get", app.url, "--offline", "--json").status == 2


def test_offline_uses_a_session_and_does_not_change_it(app: AppServer, tmp_path: Path) -> None:
    session = tmp_path / "me.json"
    run("get", app.url, "--session", session, "X-One:1")
    before = session.read_bytes()
    shown = run("get", app.url, "--offline", "--session", session, "X-Two:2").out
    assert b"X-One: 1" in shown
    assert b"X-Two: 2" in shown
    assert session.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "method"),
    [(["-v", "POST"], "POST"), (["-s", "post"], "POST"), (["-s", "PURGE"], "PURGE"),
     (["PURGE"], "PURGE"), (["-m", "20", "Put"], "PUT")],
)  # fmt: skip
def test_a_method_after_options_is_not_a_host(
    app: AppServer, words: list[str], method: str
) -> None:
    ended = run(*words, app.url + "/x", "a=1", "--offline")
    assert ended.status == 0, ended.err
    assert ended.out.decode().startswith(f"{method} /x HTTP/")
    assert b'{"a": "1"}' in ended.out


def test_a_host_may_be_a_word() -> None:
    assert b"Host: intranet" in run("--offline", "intranet", "X-Trace:1").out


@pytest.mark.parametrize(
    "second", ["localhost:8390/b", "localhost:8390", "example.org:80/b", "127.0.0.1:80/"]
)
def test_a_second_url_is_refused(second: str) -> None:
    ended = run("get", "--offline", "localhost:8390/a", second)
    assert ended.status == 2
    assert "looks like a second URL" in ended.err


@pytest.mark.parametrize("item", ["X-Trace:1", "Date:8390/b", "X.Version:2"])
def test_headers_are_not_second_urls(item: str) -> None:
    ended = run("get", "--offline", "localhost:8390/a", item)
    assert ended.status == 0, ended.err
    assert item.partition(":")[2] in ended.out.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="Schannel reads no folders of certificates")
def test_the_environment_may_name_a_file_that_does_not_exist_or_several_folders(
    app: AppServer,
    tls_app: AppServer,
    certs: Certs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    for command in ("get", "curl"):
        assert run(command, app.url).out == b"hello"
        ended = run(command, tls_app.url)
        assert ended.status == 77
        assert "/nowhere (the environment variable SSL_CERT_DIR)" in ended.err
    assert "(the environment variable SSL" in run("get", tls_app.url, "--tlsv1.2").err
    folders = ["/nowhere", certs.make_hashed_folder(tmp_path / "ours")]
    monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join(folders))
    for command in ("get", "curl"):
        assert run(command, tls_app.url).out == b"hello"
    assert "need a file as --cacert" in run("get", tls_app.url, "--tlsv1.2").err
