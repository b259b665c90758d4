"""Output of requests and responses: on a terminal, in a pipe, -v, --print, --json, -w."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curlhttp
from curlhttp.cli.output import indent_json, print_request
from tests.servers import (
    AppServer,
    RawServer,
    respond,
    respond_and_close,
    response,
)
from tests.support.cli import on_terminal, run
from tests.support.colours import needs_posix

ESCAPE = "\x1b"


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


def test_verbose_shows_retries(app: AppServer) -> None:
    ended = run("get", "-v", "--retry", "1", app.url + "/status/503")
    assert re.search(r"^\* attempt 1: 503; retrying in \d\.\d\d s$", ended.err, re.MULTILINE)


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
        "curlhttp: the body is binary (application/octet-stream); "
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
@pytest.mark.parametrize("found", ["302 Found", "400 Bad", "101 Up", "events", "no head"])
def test_nothing_of_a_server_is_a_command_to_the_terminal(
    tmp_path: Path, found: str, arguments: list[str]
) -> None:
    evil = "\x1b]0;owned\x07\x9b2J"
    fields = [("X-A", evil), ("Content-Type", f"text/plain{evil}"), ("Location", f"x{evil}://y"),
              ("Set-Cookie", f"a{evil}=1"), ("Upgrade", "websocket"), ("Connection", "upgrade"),
              ("Sec-WebSocket-Accept", evil), ("WWW-Authenticate", evil)]  # fmt: skip
    content = response(f"\x9b2J{evil}".encode(), f"{found} {evil}", fields)
    if found == "events":
        fields = [("Content-Type", "text/event-stream")]
        content = response(f"event: {evil}\ndata: {evil}\n\n".encode(), "200 OK", fields)
    elif found == "no head":
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


def test_write_out_fills_in_the_variables_of_curl(app: AppServer) -> None:
    text = r"%{http_code} %{num_redirects} %{size_download} %{content_type} 5%% %{time_total}\n"
    ended = run("-s", "-o", "/dev/null", "-w", text, app.url + "/redirect/1")
    words = ended.out.decode().split(" ")
    assert words[:5] == ["200", "1", "5", "text/plain", "5%"]
    assert float(words[5]) > 0
    assert words[5].endswith("\n")


def test_write_out_reads_its_format_from_a_file(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "format"
    path.write_text("%{http_code}\n", encoding="utf-8")
    assert run("-s", "-o", "/dev/null", "-w", f"@{path}", app.url).out.strip() == b"200"


def test_write_out_shows_a_header_without_secrets() -> None:
    fields = (("X-Rate-Left", "7"), ("Set-Cookie", "id=sesame"))
    with RawServer(respond(answer_of("200 OK", *fields))) as server:
        text = "%header{x-rate-left} %header{none} %header{set-cookie}"
        assert run("-w", text, server.url).out == b"7  [secret]"


EVIL = "\x1b]0;owned\x07 \x9b2J"


def answer_of(status: str = "200 OK", *fields: tuple[str, str]) -> bytes:
    return response(b"", status, fields)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/x?token=sesame&a=1", "{url}/x?token=***&a=1"),
        ("/x?v=%7B%22password%22%3A%22sesame%22%7D", "{url}/x?v=***"),
        ("//me:sesame@h.test/?a=b#sesame", "http://h.test/?a=b"),
        ("http://h.test/\xc3\xa4\xc3\xa0", "http://h.test/%C3%A4%C3%A0"),
        ("/\xe4?50%\xc3\xa4%41", "{url}/%E4?50%25%C3%A4A"),
        (f"/{EVIL}", "{url}/%1B%5D0;owned%07%20%9B2J"),
        (f"http://me:sesame@h{EVIL}/?token=sesame", "http://***@h?]0;owned? ?2J/?token=***"),
        ("", ""),
    ],
)
def test_write_out_shows_the_url_without_secrets(location: str, shown: str) -> None:
    with RawServer(respond(answer_of("302 Found", ("Location", location)))) as server:
        ended = run("--no-follow", "-w", "%{redirect_url}", f"{server.url}/y")
        assert ended.out.decode() == shown.format(url=server.url)


def test_write_out_shows_the_type_without_secrets() -> None:
    kind = "text/plain; token=sesame; charset=x"
    with RawServer(respond(answer_of("200 OK", ("Content-Type", kind)))) as server:
        out = run("-w", "%{content_type}", server.url).out
    assert out == b"text/plain; token=***; charset=x"


def test_write_out_shows_no_control_characters_of_a_server() -> None:
    said = " ".join(run("-w", "%{nonsense}", "http://a.test/").err.split())
    names = said.partition("the variables are ")[2].split(", ")
    assert len(names) > 10
    every = " ".join(f"%{{{name}}}" for name in names)
    fields = (("Content-Type", EVIL), ("Location", f"x{EVIL}:y"))
    with RawServer(respond(answer_of(f"302 {EVIL}", *fields))) as server:
        shown = run("--no-follow", "-w", every, server.url).out.decode()
    assert r"\x1b]0;owned\x07 \x9b2J" in shown
    assert not set(shown) & set(EVIL) - set("]0;owned 2J")


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


def test_json_describes_a_failure() -> None:
    ended = run("get", "--json", "http://nobody.invalid/")
    assert ended.status == 6
    assert json.loads(ended.out)["error"] == "ConnectionError"
    assert ended.err.startswith("curlhttp: ")


def test_print_shows_the_chosen_parts(app: AppServer) -> None:
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
            print_request(response.request, "HTTP/1.1", "B", shows_secrets=False)
            assert capfdbinary.readouterr().out == expected + b"\n\n"


@needs_posix
def test_print_shows_a_body_to_a_pipe_as_its_bytes(app: AppServer) -> None:
    shown = run("post", app.url, "-d", os.fsdecode(b"a=\xff"), "--print", "B").out
    assert shown == b"a=\xff\n\n"


def test_verbose_shows_each_line_on_the_wire(app: AppServer) -> None:
    ended = run("post", "-v", "-u", "me:sesame", app.url + "/echo", "-d", "a=1")
    lines = ended.err.splitlines()
    sent = [line for line in lines if line.startswith("> ")]
    assert sent[:2] == ["> POST /echo HTTP/1.1", f"> Host: 127.0.0.1:{app.port}"]
    assert "> Authorization: [secret]" in sent
    assert "> Content-Length: 3" in sent
    assert "* 3 bytes of body sent" in lines
    assert any(line.startswith("* a body of ") for line in lines)
    assert len(sent) == len(app.requests[0].headers) + 1  # nothing was left out, nothing is more


def test_verbose_shows_secrets_on_request(app: AppServer) -> None:
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


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=settings().max_examples // 2)
@given(_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_pretty_json_means_the_same(value: object, indent: int | str | None, ascii_: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    pieces = indent_json(text)
    assert pieces is not None
    laid_out = "".join(piece for piece, _ in pieces)
    assert json.loads(laid_out) == value
    if ascii_:
        assert laid_out == json.dumps(value, indent=2)


def test_pretty_json_keeps_every_token() -> None:
    text = '{"a":1.10,"a":1E400,"b":[],"c":{},"d":"\\u00e9 : {","e":-0}'
    pieces = indent_json(text)
    assert pieces is not None
    assert "".join(piece for piece, _ in pieces) == (
        '{\n  "a": 1.10,\n  "a": 1E400,\n  "b": [],\n  "c": {},\n  "d": "\\u00e9 : {",'
        '\n  "e": -0\n}'
    )
    assert [piece for piece, kind in pieces if kind == "key"] == [
        '"a"',
        '"a"',
        *map('"{}"'.format, "bcde"),
    ]


@pytest.mark.parametrize("text", ["", "{", "[1,]", "hello", "[" * 100_000])
def test_invalid_json_is_not_formatted(text: str) -> None:
    assert indent_json(text) is None


# --- --timing ---


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


@pytest.mark.slow
@pytest.mark.parametrize(("status", "color"), [(401, 33), (500, 31)])
def test_a_terminal_shows_the_head_of_an_error_without_a_body(
    app: AppServer, status: int, color: int
) -> None:
    app.route("/none", lambda record, conn: conn.reply(status, b"", [("X-One", "\x1b[2J")]))
    ended, shown = on_terminal("get", app.url + "/none", "--fail-with-body")
    assert shown.startswith(f"\x1b[{color}m\x1b[1mHTTP/1.1 {status} ")
    assert "\x1b[36mX-One\x1b[0m: \\x1b[2J\n" in shown
    assert ended == 22
    ended, shown = on_terminal("get", app.url + "/none", NO_COLOR="1")
    assert shown.startswith(f"HTTP/1.1 {status} ")
    assert "\x1b" not in shown
    assert ended == 0


def test_a_part_of_a_coded_body_is_written_as_received() -> None:
    head = b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-3/9\r\nContent-Encoding: gzip\r\n"
    with RawServer(respond_and_close(head + b"Content-Length: 4\r\n\r\npart")) as server:
        ended = run("curl", "-s", "-r", "0-3", server.url)
    assert (ended.status, ended.out) == (0, b"part")
