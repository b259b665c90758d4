"""Options in files: the defaults of all commands, and -K."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers import AppServer
from tests.support.cli import echoed, listed, recorded, run


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CURLHTTP_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("click.get_app_dir", lambda name: str(tmp_path / name))
    (tmp_path / "curlhttp").mkdir()
    return tmp_path / "curlhttp" / "config"


def test_a_file_of_options(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "options"
    file.write_text(
        "\ufeff# as for curl\n\n"
        f'url = "{app.url}/echo?x=1"\n'
        '-H "X-One: \\"a\\"\\tb"\n'
        "header: X-Two: c\n"
        "user-agent = me and you\n"
        "--data = a=b c\n"
        "silent\n"
        'cookie = "a=1" # of the last visit\n'
    )
    got = echoed("-K", file)
    assert (got["method"], got["body"]) == ("POST", "a=b c")
    assert app.requests[-1].target == "/echo?x=1"
    sent = {name: got["headers"][name] for name in ("x-one", "x-two", "user-agent", "cookie")}
    assert sent == {"x-one": '"a"\tb', "x-two": "c", "user-agent": "me and you", "cookie": "a=1"}


def test_the_command_line_takes_precedence(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "options"
    file.write_text("user-agent = me\nheader = X-One: a\nheader = X-Two: b\n-L\n")
    url = app.url + "/echo"
    for header in (["-H", "x-one: c"], ["X-One:c"]):
        got = echoed("get", url, "-sK", file, "-A", "you", *header)["headers"]
        assert (got["user-agent"], got["x-one"], got["x-two"]) == ("you", "c", "b")
        assert len(app.requests[-1].values("x-one")) == 1


def test_a_file_of_options_from_stdin(app: AppServer) -> None:
    ended = run("get", app.url + "/echo", "-K", "-", stdin=b"user-agent = me")
    assert dict(json.loads(ended.out)["headers"])["User-Agent"] == "me"


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("timeout = soon", 2, "'soon' is not a number"),
        ("nope = 1", 2, "No such option"),
        ("config = other", 2, "--config cannot be used"),
        ("silent = yes", 2, "--silent takes no value"),
        ("output", 2, "requires an argument"),
        ('header = "a', 26, "the quotation mark is not closed"),
        ("%", 26, "the line is not OPTION"),
        ("[nope]", 26, "[nope] is not one of [request], [fetch]"),
        ("header = secret", 2, "a header must look like"),
    ],
    ids=str,
)
def test_errors_name_the_file_and_the_line(
    app: AppServer, tmp_path: Path, line: str, status: int, says: str
) -> None:
    file = tmp_path / "options"
    file.write_text(f"# one\n\n{line}\n")
    ended = run("get", app.url, "-K", file)
    assert (ended.status, app.requests) == (status, [])
    assert ended.err.startswith(f"curlhttp: {file}:3: ")
    assert says in ended.err
    assert "secret" not in ended.err


def test_a_file_that_cannot_be_read(app: AppServer, tmp_path: Path) -> None:
    assert run("get", app.url, "-K", tmp_path / "none").status == 26
    (tmp_path / "latin").write_bytes(b"user-agent = \xe9\n")
    ended = run("get", app.url, "--config", tmp_path / "latin")
    assert (ended.status, "not UTF-8" in ended.err) == (26, True)


def test_defaults_are_for_all_commands(app: AppServer, defaults: Path, tmp_path: Path) -> None:
    defaults.write_text("header = X-Team: a\n[fetch]\nno-body\n[request]\ninclude\n")
    assert run("get", app.url).out.startswith(b"HTTP/1.1 200")
    assert app.requests[-1].values("x-team") == ["a"]
    run("fetch", listed(tmp_path, app.url), "-o", tmp_path / "out.jsonl")
    assert app.requests[-1].values("x-team") == ["a"]
    assert recorded(tmp_path / "out.jsonl")[0]["body"] is None
    assert echoed("get", app.url + "/echo", "--print", "b", "X-Team:b")["headers"]["x-team"] == "b"


def test_the_variable_names_another_file_or_none(
    app: AppServer, defaults: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults.write_text("user-agent = me\n")
    (tmp_path / "other").write_text("user-agent = you\n")
    for value, agent in (("", "curlhttp"), (str(tmp_path / "other"), "you")):
        monkeypatch.setenv("CURLHTTP_CONFIG", value)
        assert echoed("get", app.url + "/echo")["headers"]["user-agent"].startswith(agent)
    monkeypatch.setenv("CURLHTTP_CONFIG", str(tmp_path / "none"))
    assert run("get", app.url).status == 26
    assert run("doctor").status in (0, 1)  # sends nothing, and reads no defaults


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("user = me:sesame", "~/.netrc"),
        ("oauth2-bearer = sesame", "~/.netrc"),
        ('header = "Authorization: sesame"', "~/.netrc"),
        ("cookie = a=sesame", "~/.netrc"),
        ("output = file", "put it below [request]"),
        ("url = http://sesame/", "--url cannot be used"),
    ],
    ids=str,
)
def test_what_defaults_may_not_hold(app: AppServer, defaults: Path, line: str, says: str) -> None:
    defaults.write_text(line)
    ended = run("get", app.url)
    assert (ended.status, app.requests) == (2, [])
    assert ended.err.startswith(f"curlhttp: {defaults}:1: ")
    assert says in ended.err
    assert "sesame" not in ended.err


def test_an_unknown_option_is_named_with_a_similar_one(defaults: Path) -> None:
    defaults.write_text("pproxy = http://a\n")
    ended = run("get", "http://127.0.0.1:9/")
    assert ended.status == 2
    assert ended.err.startswith(f"curlhttp: {defaults}:1: No such option")
    assert "--proxy" in ended.err.replace("--pproxy", "")


def test_a_wrong_proxy_is_named_with_its_line(defaults: Path) -> None:
    defaults.write_text("proxy = nonsense://x\n")
    ended = run("get", "http://127.0.0.1:9/")
    assert ended.status == 2
    assert ended.err.startswith(f"curlhttp: {defaults}:1: ")
    assert "nonsense" in ended.err
