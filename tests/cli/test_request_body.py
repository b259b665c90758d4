"""Request bodies: items as in httpie, and the options of curl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import (
    AppServer,
)
from tests.support.cli import echoed, finish, run, start
from tests.support.values import slow_but_for


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


def test_binary_data_is_sent_unchanged(app: AppServer, tmp_path: Path) -> None:
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
        (["word"], 2, "'word' is not an ITEM"),
        (["=x"], 2, "not an ITEM"),
        (["https://example.org/"], 2, "a command sends only one URL"),
        (["a:={"], 2, "is not JSON"),
        (['{"a": 1}'], 2, "--json-body"),
        (["--json", '{"a": 1}'], 2, "--json-body"),
        (["a=1", "-d", "b=2"], 2, "-d and name=value cannot be combined"),
        (["-G"], 2, "-G needs -d"),
        (["a=@/nowhere/file"], 26, "/nowhere/file"),
        (["a@/nowhere/file"], 26, "/nowhere/file"),
        (["-J"], 2, "-J needs -O"),
        (["-O"], 2, "use -o FILE"),
        (["--json", "-i"], 2, "--json prints everything"),
        (["--print", "x"], 2, "HhBbm"),
        (["-w", "%{http_kode}"], 2, "http_code"),
        (["-w", "%output{x}"], 2, "%output{} is not supported"),
        (["-w", "@/nowhere/format"], 26, "/nowhere/format"),
        (["--auth", "me:secret"], 2, "write -u NAME:PASSWORD"),
        (["--retry-delay", "1"], 2, "--max-time limits all attempts"),
        (["-Z"], 2, "`curlhttp fetch` sends many"),
        (["--resolve", "a:b"], 2, "HOST:PORT:ADDRESS"),
        (["-b", "/nowhere/jar"], 26, "/nowhere/jar"),
        (["-b", __file__], 26, "not a cookie file"),
    ],
)
def test_a_usage_error_says_what_to_write_and_sends_nothing(
    app: AppServer, items: list[str], status: int, says: str
) -> None:
    ended = run("post", app.url, *items)
    assert (ended.status, ended.out) == (status, b""), ended.err
    assert says in ended.err.replace(os.sep, "/")
    assert app.connections == 0


def test_g_puts_the_data_into_the_query(app: AppServer) -> None:
    got = echoed("get", app.url + "/echo?a=1#x", "-G", "-d", "b=2", "-d", "c=3")
    assert (app.requests[0].target, got["body"]) == ("/echo?a=1&b=2&c=3", "")


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
    assert ended.err == "curlhttp: '\\ud800' cannot be encoded, so it cannot be sent or written\n"


def test_json_where_the_url_belongs_is_answered_with_the_option_for_json() -> None:
    ended = run("--json", '{"a": 1}', "http://localhost/")
    assert ended.status == 2
    assert "is JSON, not a URL. Use --json-body to send JSON" in ended.err


@pytest.mark.parametrize("command", [(), ("curl", "--globoff"), ("get",)])
def test_path_as_is_sends_the_path_as_it_was_typed(
    app: AppServer, command: tuple[str, ...]
) -> None:
    for target in ("/a/../b", "/a/./b%7e%2f%?%7e", "/.."):
        run(*command, "--path-as-is", app.url + target)
        assert app.requests[-1].target == target
    ended = run(*command, "--path-as-is", app.url + "/a b")
    assert (ended.status, len(app.requests)) == (3, 3)
    assert "write ' ' as %20" in ended.err


def test_without_path_as_is_dot_segments_are_resolved(app: AppServer) -> None:
    run(app.url + "/a/../b%7e")
    assert app.requests[-1].target == "/b~"


def test_path_as_is_also_holds_for_redirects_and_downloads(app: AppServer, tmp_path: Path) -> None:
    app.route("/from", lambda record, conn: conn.reply(302, b"", [("Location", "/x/./%7e")]))
    run("-L", "--path-as-is", "-C", "-o", tmp_path / "f", app.url + "/from")
    assert app.requests[-1].target == "/x/./%7e"


def piped(*arguments: object) -> None:
    """Run a command in its own process, with JSON piped to it."""
    finish(start(*arguments, stdin=subprocess.PIPE), b'{"z":1}')


@pytest.mark.parametrize(
    "words",
    slow_but_for(
        [("-X", "POST")],
        [
            ("-X", "POST"),
            ("request", "-X", "put"),
            ("-s", "PATCH"),
            ("sse", "-X", "POST", "-n", "1"),
        ],
    ),
    ids=str,
)
def test_a_piped_body_goes_with_any_way_to_choose_the_method(
    app: AppServer, words: tuple[str, ...]
) -> None:
    piped(*words, app.url + "/echo")
    assert app.requests[-1].body == b'{"z":1}'


@pytest.mark.parametrize(
    "words",
    slow_but_for(
        [("post", "--ignore-stdin"), ("curl", "-X", "POST")],
        [("post", "--ignore-stdin"), ("-X", "PUT", "--ignore-stdin"), ("curl", "-X", "POST")],
    ),
    ids=str,
)
def test_ignored_stdin_is_not_sent(app: AppServer, words: tuple[str, ...]) -> None:
    piped(*words, app.url + "/echo")
    assert [request.body for request in app.requests] == [b""]


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        (r"a\[b\]=1", {"a[b]": "1"}),
        (r"a[b\]]=1", {"a": {"b]": "1"}}),
        (r"a\[b\][c]=1", {"a[b]": {"c": "1"}}),
    ],
)
def test_brackets_can_be_escaped(app: AppServer, item: str, sent: object) -> None:
    assert json.loads(sent_body(app, item)[0]) == sent


def test_a_negative_index_is_refused() -> None:
    ended = run("post", "--offline", "localhost", "a[-1]=1")
    assert ended.status == 2
    assert "'a[-1]' is not a name" in ended.err
