"""The command line: one request, what is shown of it, and how it ends."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    RawServer,
    Record,
    payload,
    refused_port,
    respond,
    respond_and_close,
    response,
)
from tests.support.cli import finish, on_terminal, run, start
from tests.support.downloads import named_by_a_server

ESCAPE = "\x1b"


# --- what is sent ---


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


def sent_body(app: AppServer, *options: object, stdin: bytes | None = None) -> tuple[str, str]:
    """Return the body that a POST with these options sends, and its type."""
    ended = run("post", app.url + "/echo", *options, stdin=stdin)
    assert ended.status == 0, ended.err
    echoed = json.loads(ended.out)
    types = [value for name, value in echoed["headers"] if name.lower() == "content-type"]
    return echoed["body"], ", ".join(types)


def test_data_is_joined_to_a_form(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "form"
    file.write_text("c=3\r\n\n")
    form = "application/x-www-form-urlencoded"
    assert sent_body(app, "-d", "a=1", "-d", "b=2", "-d", f"@{file}") == ("a=1&b=2&c=3", form)
    assert sent_body(app, "-d", "@-", stdin=b"x=1\n") == ("x=1", form)


def test_binary_data_is_sent_as_it_is(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"a\nb\n")
    assert sent_body(app, "--data-binary", f"@{file}")[0] == "a\nb\n"
    own = sent_body(app, "--data-binary", "x", "-H", "content-type: text/x-own")
    assert own == ("x", "text/x-own")


def test_json_is_checked_and_not_changed(app: AppServer, tmp_path: Path) -> None:
    text = '{"n": 1.10, "n": 12345678901234567890}'
    file = tmp_path / "body.json"
    file.write_text(text)
    for value in (text, f"@{file}"):
        assert sent_body(app, "--json-body", value) == (text, "application/json")
    sent = dict(json.loads(run("post", app.url + "/echo", "--json-body", "1").out)["headers"])
    assert sent["Accept"] == "application/json"


def test_a_form_with_a_file_is_multipart(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "photo.png"
    file.write_bytes(b"pixels")
    body, kind = sent_body(app, "-F", "name=Ada", "-F", f"photo=@{file};type=image/png")
    assert kind.startswith("multipart/form-data; boundary=")
    assert 'name="name"\r\n\r\nAda\r\n' in body
    assert 'name="photo"; filename="photo.png"\r\nContent-Type: image/png\r\n\r\npixels' in body


def test_redirects_are_followed_unless_told_otherwise(app: AppServer) -> None:
    assert run("get", app.url + "/redirect/2").out == b"hello"
    ended = run("get", "-i", "--no-follow", app.url + "/redirect/2")
    assert ended.out.startswith(b"HTTP/1.1 302 Found\r\n")


def test_the_user_is_authenticated(app: AppServer) -> None:
    run("get", app.url + "/echo", "-u", "me:secret:er")
    assert app.requests[0].values("authorization") == ["Basic bWU6c2VjcmV0OmVy"]


def test_what_fails_is_sent_again(app: AppServer) -> None:
    def flaky(record: Record, conn: AppConnection) -> None:
        conn.reply(503 if len(app.requests) < 3 else 200, b"done")

    app.route("/flaky", flaky)
    assert run("get", app.url + "/flaky", "--retry", "2").out == b"done"
    assert len(app.requests) == 3


def test_certificates_are_checked(tls_app: AppServer, certs: Certs) -> None:
    assert run("get", tls_app.url).status == 60
    assert run("get", tls_app.url, "--cacert", certs.ca_path).out == b"hello"
    assert run("get", tls_app.url, "-k").out == b"hello"


# --- a record of it ---


def test_har_has_all_that_happened_without_credentials(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "all.har"
    ended = run("get", "--har", path, "-u", "me:a-secret", app.url + "/redirect/1?token=a-secret")
    assert ended.out == b"hello"
    text = path.read_text()
    assert "a-secret" not in text
    entries = json.loads(text)["log"]["entries"]
    assert [entry["response"]["status"] for entry in entries] == [302, 200]
    assert entries[1]["response"]["content"]["text"] == "hello"


def test_har_tells_of_what_failed(tmp_path: Path) -> None:
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
    assert "there is no such folder" in ended.err
    assert app.requests == []


# --- where the body goes ---


def test_a_pipe_gets_the_bytes_as_they_are(app: AppServer) -> None:
    ended = run("get", app.url + "/bytes/100000")
    assert ended.out == payload(100000)
    assert run("get", app.url + "/json").out == run("get", app.url + "/json", "-o", "-").out


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_quietly(app: AppServer) -> None:
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
def test_a_full_disk_is_told_of_once(app: AppServer) -> None:
    with open("/dev/full", "wb") as full:
        ended = finish(start("get", app.url, stdout=full))
    assert ended.status == 23
    assert ended.err == "curlhttp: No space left on device\n"


def test_output_saves_the_body(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_text("old")
    file.chmod(0o640)
    assert run("get", app.url + "/bytes/1000", "-o", file) == (0, b"", "")
    assert file.read_bytes() == payload(1000)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["saved"]


@pytest.mark.parametrize("continues", [False, True])
def test_output_has_the_name_that_the_user_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continues: bool
) -> None:
    """S92: what the server calls the file is only text."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    for value in named_by_a_server(tmp_path):
        answer = response(b"x", headers=[("Content-Disposition", value), ("ETag", '"1"')])
        with RawServer(respond(answer)) as server:
            for name in (".", "..", f"{tmp_path}/"):  # no file, and none is made up
                assert run("get", server.url, "-o", name).status == 23
            assert run("get", server.url + "/evil", "-o", "mine", *["-C"] * continues).status == 0
            assert run("get", server.url + "/evil").out == b"x"
    assert [path.name for path in tmp_path.rglob("*") if not path.is_dir()] == ["mine"]


def test_a_body_that_is_cut_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_text("old")
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all"
    with RawServer(respond_and_close(cut)) as server:
        ended = run("get", server.url, "-o", file)
    assert ended.status == 18
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["saved"]


def test_a_file_without_a_folder_is_told_before_anything_is_sent(
    app: AppServer, tmp_path: Path
) -> None:
    assert run("get", app.url, "-o", tmp_path / "nowhere" / "file").status == 23
    assert app.connections == 0


def test_a_download_is_continued(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    assert run("get", app.url + "/bytes/1000", "-C", "-o", file) == (0, b"", "")
    assert file.read_bytes() == payload(1000)
    assert run("get", app.url, "-C").status == 2
    assert run("post", app.url, "-C", "-o", file).status == 2


def test_include_shows_the_head_before_the_body(app: AppServer) -> None:
    out = run("get", "-i", app.url).out
    head, _, body = out.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain")
    assert body == b"hello"


# --- how it ends ---


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
    assert says in ended.err


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
def test_a_mistake_is_told_before_anything_is_sent(app: AppServer, arguments: list[str]) -> None:
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


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['rich'] = None; import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'rich' else find(name, *rest)\n"
        "from curlhttp.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "curlhttp: the command line needs: pip install 'curlhttp[cli]'\n"


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = (
        "import sys, curlhttp; curlhttp.Client().close(); print({'click', 'rich'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "set()\n", done.stderr


def test_a_get_into_a_pipe_does_not_load_rich(app: AppServer) -> None:
    code = (
        "import sys, atexit; from curlhttp.cli import main\n"
        "atexit.register(lambda: print('rich.console' in sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", code, "get", app.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("hello", "False\n")


# --- what is shown ---


def test_verbose_shows_every_head_and_no_credential(app: AppServer) -> None:
    url = f"http://you:sesame@127.0.0.1:{app.port}/redirect/1?api_key=sesame&page=2"
    secrets = ("X-Api-Key: sesame", "Cookie: id=sesame", "Authorization: Bearer sesame")
    options = [part for header in secrets for part in ("-H", header)]
    ended = run("get", "-v", url, *options)
    assert ended.out == b"hello"
    lines = ended.err.splitlines()
    assert [line for line in lines if line.startswith("> GET")] == [
        "> GET /redirect/1?api_key=***&page=2 HTTP/1.1",
        "> GET / HTTP/1.1",
    ]
    assert [line for line in lines if line.startswith("< HTTP")] == [
        "< HTTP/1.1 302 Found",
        "< HTTP/1.1 200 OK",
    ]
    assert "> X-Api-Key: [secret]" in lines
    assert "sesame" not in ended.err


def test_verbose_masks_cookies_that_are_set(app: AppServer) -> None:
    ended = run("get", "-v", app.url + "/cookies/set?id=sesame")
    assert "< Set-Cookie: [secret]" in ended.err.splitlines()


def test_verbose_tells_of_retries(app: AppServer) -> None:
    ended = run("get", "-v", "--retry", "1", app.url + "/status/503")
    assert re.search(r"^\* attempt 1: 503; the next one in \d\.\d\d s$", ended.err, re.MULTILINE)


def test_an_error_shows_no_credential(app: AppServer) -> None:
    with refused_port() as port:
        for url, status in ((f"127.0.0.1:{port}", 7), (f"127.0.0.1:{app.port}/stall", 28)):
            ended = run("get", f"http://you:sesame@{url}", "--timeout", "0.2", "-u", "me:sesame")
            assert ended.status == status
            assert "sesame" not in ended.err


def test_timing_shows_where_the_time_went(app: AppServer) -> None:
    ended = run("get", "--timing", app.url + "/bytes/10")
    names = [line.split()[0] for line in ended.err.splitlines()]
    assert names[-3:] == ["wait", "body", "total"]
    assert "connect" in names
    assert all(re.match(r"\w+ +\d+\.\d ms", line) for line in ended.err.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 120])
def test_timing_fits_a_terminal_of_any_width(app: AppServer, columns: int) -> None:
    status, shown = on_terminal("get", "--timing", app.url, columns=columns)
    assert status == 0
    assert "hello\n" in shown
    assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.slow
def test_a_terminal_gets_json_laid_out_in_colours(app: AppServer) -> None:
    _, shown = on_terminal("get", app.url + "/json")
    assert ESCAPE in shown
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert plain.startswith('{\n  "hello": "world",\n  "n": [\n    1,\n    2.5,')
    assert json.loads(plain) == json.loads(run("get", app.url + "/json").out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [([], {"NO_COLOR": "1"}), (["--no-color"], {}), ([], {"TERM": "dumb"})],
)
def test_colours_can_be_switched_off(
    app: AppServer, arguments: list[str], environment: dict[str, str]
) -> None:
    _, shown = on_terminal("get", app.url + "/json", *arguments, columns=80, **environment)
    assert ESCAPE not in shown
    assert shown.startswith('{\n  "hello"')


@pytest.mark.slow
def test_long_lines_are_not_broken_on_a_narrow_terminal(app: AppServer) -> None:
    text = "x" * 100
    app.route("/long", lambda record, conn: conn.reply(
        200, json.dumps({"a": text}).encode(), [("Content-Type", "application/problem+json")]
    ))  # fmt: skip
    _, shown = on_terminal("get", app.url + "/long", columns=40)
    assert text in shown


@pytest.mark.slow
def test_a_terminal_is_spared_binaries(app: AppServer) -> None:
    status, shown = on_terminal("get", app.url + "/bytes/300")
    assert status == 23
    assert shown == (
        "curlhttp: the body is binary (application/octet-stream): "
        "save it with -o FILE, or pipe it\n"
    )


@pytest.mark.slow
def test_a_terminal_gets_no_control_characters_of_a_server(app: AppServer) -> None:
    evil = "\x1b]0;owned\x07 \x9b2J \r\n"
    for kind, body in (("text/plain", evil), ("application/json", json.dumps("\x9b2J"))):
        app.route("/evil", lambda record, conn, kind=kind, body=body: conn.reply(  # type: ignore[misc]
            200, body.encode(), [("Content-Type", f"{kind}; charset=utf-8")]
        ))  # fmt: skip
        _, shown = on_terminal("get", app.url + "/evil", NO_COLOR="1")
        assert not set(shown) & {"\x1b", "\x07", "\x9b", "\r"}, repr(shown)
    assert "owned" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "-v", "--timing", "--print", "HhBbm", "-w", "%{content_type}%{redirect_url}"],
        ["get", "--json"],
        ["get", "-f"],
        ["sse", "--no-reconnect"],
        ["sse", "--no-reconnect", "--json"],
        ["ws"],
        ["fetch", "-q"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("answer", ["302 Found", "400 Bad", "101 Up", "events", "no head"])
def test_nothing_of_a_server_is_a_command_to_the_terminal(
    tmp_path: Path, answer: str, arguments: list[str]
) -> None:
    evil = "\x1b]0;owned\x07\x9b2J"
    fields = [("X-A", evil), ("Content-Type", f"text/plain{evil}"), ("Location", f"x{evil}://y"),
              ("Set-Cookie", f"a{evil}=1"), ("Upgrade", "websocket"), ("Connection", "upgrade"),
              ("Sec-WebSocket-Accept", evil), ("WWW-Authenticate", evil)]  # fmt: skip
    content = response(f"\x9b2J{evil}".encode(), f"{answer} {evil}", fields)
    if answer == "events":
        fields = [("Content-Type", "text/event-stream")]
        content = response(f"event: {evil}\ndata: {evil}\n\n".encode(), "200 OK", fields)
    elif answer == "no head":
        content = f"HTTP/1.1 {evil}\r\n{evil}: {evil}\r\n\r\n".encode()
    with RawServer(respond_and_close(content)) as server:
        url = server.url
        if arguments[0] == "fetch":
            (tmp_path / "list").write_text(f"{url}\nhttp://{evil}\n")
            url = str(tmp_path / "list")
        _, shown = on_terminal(*arguments, url, NO_COLOR="1")
    assert shown
    assert not set(shown) & {"\x07", "\x9b"}, repr(shown)
    assert "\x1b]" not in shown
    assert "Traceback" not in shown


@pytest.mark.slow
def test_json_that_is_too_large_to_be_laid_out_is_shown_whole(app: AppServer) -> None:
    body = b'["begin"]' + b" " * 1_200_000 + b"\r\n" + b'["end"]'
    app.route("/two", lambda record, conn: conn.reply(
        200, body, [("Content-Type", "application/json")]
    ))  # fmt: skip
    _, shown = on_terminal("get", app.url + "/two")
    assert shown == body.decode().replace("\r\n", "\n") + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "base64", "undefined", "nonsense"])
def test_text_of_any_charset_is_shown(app: AppServer, charset: str) -> None:
    kind = ("Content-Type", f"text/plain; charset={charset}")
    body = "héllo".encode(charset if charset in ("latin-1", "utf-16") else "utf-8")
    app.route("/charset", lambda record, conn: conn.reply(200, body, [kind]))
    assert on_terminal("get", app.url + "/charset") == (0, "héllo\n")


@pytest.mark.slow
def test_a_bar_shows_the_progress_of_a_file(app: AppServer, tmp_path: Path) -> None:
    status, shown = on_terminal("get", app.url + "/big?size=3000000", "-o", tmp_path / "f")
    assert status == 0
    assert "3.0/3.0 MB" in shown
    _, shown = on_terminal("get", app.url + "/big?size=3000000", "-s", "-o", tmp_path / "f")
    assert shown == ""


# --- help ---

VERBS = ["get", "head", "options", "post", "put", "patch", "delete", "request"]
COMMANDS = [*VERBS, "ws", "sse", "fetch", "bench", "doctor", "completion"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    shown = run(name, "--help").out.decode()
    assert shown.startswith("Usage: ")
    assert f"\n    curlhttp {name}" in shown.partition("Examples:")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_the_commands_come_in_the_order_of_their_use() -> None:
    listed = run("--help").out.decode().partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == COMMANDS


def test_the_version_names_libcurl() -> None:
    assert re.match(rb"curlhttp \d+\.\d+\.\d+ \(PycURL/.* libcurl/", run("--version").out)
