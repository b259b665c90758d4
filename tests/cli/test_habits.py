"""What hands know from curl and httpie: options, items, URLs without a scheme, cookies in files."""

from __future__ import annotations

import json
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp.cli.url import completed
from curlhttp.cli.wire import print_request
from curlhttp.cli.write_out import _VARIABLES
from tests.servers import AppServer, RawServer, respond, response
from tests.support.cli import finish, on_terminal, run, start


def echoed(*arguments: object) -> dict[str, Any]:
    """Return what a server that echoes got."""
    ended = run(*arguments)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return {**found, "headers": {name.lower(): value for name, value in found["headers"]}}


# --- URLs ---


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("localhost", "http://localhost"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("LOCALHOST?a=https://b", "http://LOCALHOST?a=https://b"),
        ("api.localhost/", "http://api.localhost/"),
        (":8000/x", "http://localhost:8000/x"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("[::1]:1/x", "http://[::1]:1/x"),
        ("192.168.1.1", "http://192.168.1.1"),
        ("printer/status", "http://printer/status"),
        ("printer.local", "http://printer.local"),
        ("localhost:443", "https://localhost:443"),
        ("example.org", "https://example.org"),
        ("me:pw@example.org:8080/x", "https://me:pw@example.org:8080/x"),
        ("me:pw@localhost:8080/x", "http://me:pw@localhost:8080/x"),
        ("8.8.8.8", "https://8.8.8.8"),
        ("//example.org", "https://example.org"),
        ("HTTP://example.org", "HTTP://example.org"),
        ("", ""),
    ],
)
def test_a_url_gets_the_scheme_that_its_host_is_likely_to_speak(typed: str, url: str) -> None:
    assert completed(typed) == url


def test_the_scheme_that_was_chosen_is_told_with_verbose(app: AppServer) -> None:
    ended = run("get", "-v", f"127.0.0.1:{app.port}/echo")
    assert ended.status == 0
    assert f"* no scheme was given: http://127.0.0.1:{app.port}/echo\n" in ended.err
    assert "no scheme" not in run("get", "-v", app.url).err


def test_a_url_alone_is_requested(app: AppServer) -> None:
    place = f"127.0.0.1:{app.port}/echo"
    assert echoed(place)["method"] == "GET"
    assert echoed(place, "a=1")["method"] == "POST"
    assert echoed("-X", "PURGE", place)["method"] == "PURGE"
    assert echoed("PUT", place)["method"] == "PUT"


def test_a_word_that_is_no_url_is_no_command() -> None:
    ended = run("git", "x")
    assert (ended.status, ended.out) == (2, b"")
    assert "No such command 'git'" in ended.err


# --- items ---


def test_items_make_json_query_and_headers(app: AppServer) -> None:
    got = echoed(
        "post", app.url + "/echo?x=0", "name=Ada", "year:=1815", "a\\=b=c", "q==1", "q==2", "X-A:b",
        "User-Agent:",
    )  # fmt: skip
    assert json.loads(got["body"]) == {"name": "Ada", "year": 1815, "a=b": "c"}
    assert app.requests[0].target == "/echo?x=0&q=1&q=2"
    assert (got["headers"]["content-type"], got["headers"]["x-a"]) == ("application/json", "b")
    assert "user-agent" not in got["headers"]


def test_items_read_files(app: AppServer, tmp_path: Path) -> None:
    text, data = tmp_path / "text", tmp_path / "data.json"
    text.write_text("hé", encoding="utf-8")
    data.write_text("[1]")
    got = echoed("post", app.url + "/echo", f"a=@{text}", f"b:=@{data}")
    assert json.loads(got["body"].encode("latin-1")) == {"a": "hé", "b": [1]}
    form = echoed("post", app.url + "/echo", "name=Ada", f"file@{text}")
    assert form["headers"]["content-type"].startswith("multipart/form-data")
    assert 'name="name"\r\n\r\nAda\r\n' in form["body"]
    assert 'name="file"; filename="text"' in form["body"]


@pytest.mark.parametrize(
    ("items", "status", "says"),
    [
        (["word"], 2, "'word' is no ITEM"),
        (["=x"], 2, "no ITEM"),
        (["https://example.org/"], 2, "one URL at a time"),
        (["a:={"], 2, "is not JSON"),
        (['{"a": 1}'], 2, "--json-body"),
        (["--json", '{"a": 1}'], 2, "--json-body"),
        (["a=1", "-d", "b=2"], 2, "-d and name=value exclude each other"),
        (["-G"], 2, "there is no -d"),
        (["a=@/nowhere/file"], 26, "/nowhere/file"),
        (["a@/nowhere/file"], 26, "/nowhere/file"),
        (["-J"], 2, "-J goes with -O"),
        (["-O"], 2, "use -o FILE"),
        (["--json", "-i"], 2, "--json shows all"),
        (["--print", "x"], 2, "HhBbm"),
        (["-w", "%{http_kode}"], 2, "http_code"),
        (["--resolve", "a:b"], 2, "HOST:PORT:ADDRESS"),
        (["-b", "/nowhere/jar"], 26, "/nowhere/jar"),
        (["-b", __file__], 26, "no cookie file"),
    ],
)
def test_a_mistake_says_what_to_write_and_sends_nothing(
    app: AppServer, items: list[str], status: int, says: str
) -> None:
    ended = run("post", app.url, *items)
    assert (ended.status, ended.out) == (status, b""), ended.err
    assert says in ended.err
    assert app.connections == 0


# --- curl's options ---


def test_g_puts_the_data_into_the_query(app: AppServer) -> None:
    got = echoed("get", app.url + "/echo?a=1#x", "-G", "-d", "b=2", "-d", "c=3")
    assert (app.requests[0].target, got["body"]) == ("/echo?a=1&b=2&c=3", "")


def test_the_short_options_of_scripts_are_taken(app: AppServer) -> None:
    assert run("-fsSL", app.url + "/redirect/1") == (0, b"hello", "")
    assert echoed("-A", "me", app.url + "/echo")["headers"]["user-agent"] == "me"


def test_write_out_fills_in_the_variables_of_curl(app: AppServer) -> None:
    text = r"%{http_code} %{num_redirects} %{size_download} %{content_type} 5%% %{time_total}\n"
    ended = run("-s", "-o", "/dev/null", "-w", text, app.url + "/redirect/1")
    words = ended.out.decode().split(" ")
    assert words[:5] == ["200", "1", "5", "text/plain", "5%"]
    assert float(words[5]) > 0
    assert words[5].endswith("\n")


EVIL = "\x1b]0;owned\x07 \x9b2J"


def answer_of(status: str = "200 OK", *fields: tuple[str, str]) -> bytes:
    return response(b"", status, fields)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/x?token=sesame&a=1", "{url}/x?token=***&a=1"),
        ("/x?v=%7B%22password%22%3A%22sesame%22%7D", "{url}/x?v=***"),
        ("//me:sesame@h.test/?a=b#sesame", "http://h.test/?a=b"),
        ("http://h.test/\xc3\xa4", "http://h.test/%C3%A4"),
        (f"/{EVIL}", "{url}/%1B%5D0;owned%07%20%C2%9B2J"),
        (f"http://me:sesame@h{EVIL}/?token=sesame", "http://***@h?]0;owned? ?2J/?token=***"),
        ("", ""),
    ],
)
def test_write_out_shows_where_it_leads_without_secrets(location: str, shown: str) -> None:
    with RawServer(respond(answer_of("302 Found", ("Location", location)))) as server:
        ended = run("--no-follow", "-w", "%{redirect_url}", f"{server.url}/y")
        assert ended.out.decode() == shown.format(url=server.url)


def test_write_out_shows_the_type_without_secrets() -> None:
    kind = "text/plain; token=sesame; charset=x"
    with RawServer(respond(answer_of("200 OK", ("Content-Type", kind)))) as server:
        out = run("-w", "%{content_type}", server.url).out
    assert out == b"text/plain; token=***; charset=x"


def test_write_out_shows_no_control_characters_of_a_server() -> None:
    every = " ".join(f"%{{{name}}}" for name in _VARIABLES)
    fields = (("Content-Type", EVIL), ("Location", f"x{EVIL}:y"))
    with RawServer(respond(answer_of(f"302 {EVIL}", *fields))) as server:
        shown = run("--no-follow", "-w", every, server.url).out.decode()
    assert r"\x1b]0;owned\x07 \x9b2J" in shown
    assert not set(shown) & set(EVIL) - set("]0;owned 2J")


def test_names_are_resolved_as_told(app: AppServer) -> None:
    url = f"http://nobody.invalid:{app.port}/"
    place = f"nobody.invalid:{app.port}"
    assert run("get", url, "--resolve", f"{place}:127.0.0.1").out == b"hello"
    assert run("get", url, "--resolve", f"{place}:[::1],127.0.0.1").out == b"hello"


def test_a_unix_socket_is_asked(tmp_path: Path) -> None:
    ended = run("get", "--unix-socket", tmp_path / "none", "localhost/x")
    assert ended.status == 7, ended.err
    assert str(tmp_path) in ended.err or "localhost" in ended.err


def test_the_file_has_the_name_in_the_url(
    app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("get", "-O", app.url + "/bytes/7?x=/y") == (0, b"", "")
    assert (tmp_path / "7").stat().st_size == 7


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ('attachment; filename="a b.txt"', "a b.txt"),
        ("attachment; filename=../../evil", "evil"),
        ('attachment; filename="/etc/.passwd"', "passwd"),
        ("attachment; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
        ('attachment; filename="..\\..\\x"', "x"),
        ('attachment; filename=".."', "asked"),
        ("attachment", "asked"),
    ],
)
def test_a_name_of_the_server_stays_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, name: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    answer = response(b"x", headers=[("Content-Disposition", value)])
    with RawServer(respond(answer)) as server:
        assert run("-OJ", server.url + "/asked").status == 0
        assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [name]
        again = run("-OJ", server.url + "/asked")
    if name != "asked":
        assert again.status == 23
        assert "a server's name replaces none" in again.err


# --- cookies ---


def test_cookies_are_kept_in_a_file_that_curl_reads(app: AppServer, tmp_path: Path) -> None:
    jar = tmp_path / "jar"
    assert run("get", "-b", jar, "-c", jar, app.url + "/cookies/set?id=sesame").status == 0
    assert stat.S_IMODE(jar.stat().st_mode) == 0o600
    assert jar.read_text().startswith("# Netscape HTTP Cookie File\n")
    line = jar.read_text().splitlines()[-1].split("\t")
    assert (len(line), line[0], line[4], line[5:]) == (7, "127.0.0.1", "0", ["id", "sesame"])
    run("get", "-b", jar, app.url + "/cookies/get")
    assert app.requests[-1].values("cookie") == ["id=sesame"]


def test_the_jar_of_curl_is_read(app: AppServer, tmp_path: Path) -> None:
    jar = tmp_path / "jar"
    head = "# Netscape HTTP Cookie File\n\n"
    jar.write_text(
        head
        + "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\ta\t1\n"
        + "127.0.0.1\tFALSE\t/\tFALSE\t99999999999\tb\t2\n"
        + "127.0.0.1\tFALSE\t/\tFALSE\t1\told\t3\n"
        + "example.org\tFALSE\t/\tFALSE\t0\tother\t4\n"
    )
    got = echoed("get", "-b", jar, "-c", jar, app.url + "/echo")
    assert sorted(got["headers"]["cookie"].split("; ")) == ["a=1", "b=2"]
    assert "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\ta\t1\n" in jar.read_text()
    assert "old" not in jar.read_text()


def test_cookies_on_the_command_line_go_to_their_host_alone(app: AppServer) -> None:
    assert echoed("get", "-b", "a=1; b=2=3", app.url + "/echo")["headers"]["cookie"] == "a=1; b=2=3"


# --- what is shown ---


def test_json_is_one_line_with_all_of_the_response(app: AppServer) -> None:
    ended = run("get", "--json", app.url + "/redirect/1?token=sesame")
    assert ended.out.count(b"\n") == 1
    found = json.loads(ended.out)
    assert (found["status"], found["redirects"], found["body"], found["size"]) == (
        200, 1, "hello", 5,
    )  # fmt: skip
    assert found["headers"]["content-type"] == ["text/plain"]
    assert (found["url"], found["final_url"]) == (
        app.url + "/redirect/1?token=***",
        app.url + "/",
    )
    assert set(found["timings"]) >= {"dns", "connect", "first_byte", "total"}
    assert "body_base64" in json.loads(run("get", "--json", app.url + "/bytes/300").out)


def test_json_tells_of_what_failed() -> None:
    ended = run("get", "--json", "http://nobody.invalid/")
    assert ended.status == 6
    assert json.loads(ended.out)["error"] == "ConnectionError"
    assert ended.err.startswith("curlhttp: ")


def test_print_shows_the_parts_that_are_asked_for(app: AppServer) -> None:
    options = ("-H", "Authorization: Bearer sesame", "a=1", "--print", "HBhbm")
    shown = run("post", app.url + "/status/200", *options).out.decode().replace("\r", "")
    assert shown.startswith("POST /status/200 HTTP/1.1\nHost: 127.0.0.1:")
    assert "\nAuthorization: [secret]\n" in shown
    assert '\n\n{"a": "1"}\n\nHTTP/1.1 200 OK\n' in shown
    assert "sesame" in run("post", app.url, *options, "--show-secrets").out.decode()
    assert run("get", app.url, "--print", "").out == b""
    assert b" bytes in " in run("get", app.url, "--print", "m").out


def test_print_masks_secrets_of_the_body(app: AppServer) -> None:
    for options in (["password=sesame"], ["-d", "password=sesame"], ["-F", "password=sesame"]):
        shown = run("post", app.url, *options, "--print", "B").out
        assert b"***" in shown
        assert b"sesame" not in shown
        assert b"sesame" in run("post", app.url, *options, "--print", "B", "--show-secrets").out


def test_print_masks_secrets_of_a_body_that_is_coded(
    app: AppServer, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for text, shown in [(b'{"password": "sesame"}', b'{"password": "***"}'), (b'{"a": "b"}', None)]:
        data = zlib.compress(text)
        for coding, expected in (("deflate", shown or data), ("made-up", b"***")):
            headers = {"Content-Type": "application/json", "Content-Encoding": coding}
            with curlhttp.Client() as client:
                response = client.post(app.url, content=data, headers=headers)
            print_request(response, "B", shows_secrets=False)
            assert capfdbinary.readouterr().out == expected + b"\n\n"


def test_print_shows_a_body_to_a_pipe_as_its_bytes(app: AppServer) -> None:
    shown = run("post", app.url, "-d", os.fsdecode(b"a=\xff"), "--print", "B").out
    assert shown == b"a=\xff\n\n"


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are text on Windows")
def test_bytes_that_are_no_text_are_sent_as_they_are(app: AppServer, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff")
    odd = os.fsdecode(b"\xff")
    for options in ([f"a={odd}"], ["-d", odd], ["-d", f"@{tmp_path}/f"], ["--data-binary", odd],
                    ["-F", f"a={odd}"]):  # fmt: skip
        assert run("post", app.url, *options).status == 0
        assert b"\xff" in app.requests[-1].body
    ended = run("post", app.url, 'a:="\\ud800"')
    assert (ended.status, len(app.requests)) == (2, 5)
    assert ended.err == "curlhttp: '\\ud800' is no text that could be sent or written\n"


@pytest.mark.slow
def test_what_stdout_cannot_show_is_escaped(app: AppServer, tmp_path: Path) -> None:
    app.route("/t", lambda record, conn: conn.reply(
        200, "\u20ac".encode(), [("Content-Type", "text/plain; charset=utf-8")]
    ))  # fmt: skip
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for options in (
        ["a=\u20ac", "--print", "HBhbm"],
        ["-w", "\u20ac %{url}"],
        ["-v"],
        ["--json"],
    ):
        ended = finish(start("post", f"{app.url}/t", *options, env=environment))
        assert (ended.status, "Traceback" in ended.err) == (0, False), ended.err
    status, shown = on_terminal("post", f"{app.url}/t", "a=\u20ac", "--print", "HBhb",
                                PYTHONIOENCODING="ascii", NO_COLOR="1")  # fmt: skip
    assert (status, shown.count(r"\u20ac")) == (0, 2), shown


def test_verbose_shows_each_line_that_is_on_the_wire(app: AppServer) -> None:
    ended = run("post", "-v", "-u", "me:sesame", app.url + "/echo", "-d", "a=1")
    lines = ended.err.splitlines()
    sent = [line for line in lines if line.startswith("> ")]
    assert sent[:2] == ["> POST /echo HTTP/1.1", f"> Host: 127.0.0.1:{app.port}"]
    assert "> Authorization: [secret]" in sent
    assert "> Content-Length: 3" in sent
    assert "* 3 bytes of body sent" in lines
    assert any(line.startswith("* a body of ") for line in lines)
    assert len(sent) == len(app.requests[0].headers) + 1  # nothing was left out, nothing is more


def test_verbose_shows_secrets_where_they_are_wanted(app: AppServer) -> None:
    options = ("-u", "me:sesame", app.url + "/redirect/1?token=s3same")
    ended = run("get", "-v", "--show-secrets", *options)
    assert ended.err.count("> Authorization: Basic bWU6c2VzYW1l") == 2
    assert "> GET /redirect/1?token=s3same HTTP/1.1" in ended.err
    after = run("get", "-v", *options).err
    assert "s3same" not in after
    assert "bWU6c2VzYW1l" not in after


def test_verbose_shows_every_attempt(app: AppServer) -> None:
    ended = run("get", "-v", "--retry", "1", app.url + "/status/503")
    assert ended.err.count("> GET /status/503 HTTP/1.1") == 2
    assert ended.err.count("< HTTP/1.1 503 ") == 2


def test_timing_shows_every_redirect_on_one_scale(app: AppServer) -> None:
    ended = run("get", "--timing", app.url + "/redirect/2?token=sesame")
    titles = [line for line in ended.err.splitlines() if line.startswith("GET ")]
    assert titles == [
        f"GET {app.url}/redirect/2?token=***: 302",
        f"GET {app.url}/redirect/1: 302",
        f"GET {app.url}/: 200",
    ]
    assert ended.err.count("\nwait ") == 3
    assert ended.err.splitlines()[-1].startswith("total ")


def test_timing_shows_what_failed() -> None:
    ended = run("get", "--timing", "http://127.0.0.1:1/")
    assert ended.status == 7
    assert "total " in ended.err
