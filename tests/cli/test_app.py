"""The command group: help, commands, completion, and what is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import (
    AppServer,
)
from tests.support.cli import echoed, finish, on_terminal, run, start
from tests.support.colours import needs_posix


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


VERBS = ["get", "head", "options", "post", "put", "patch", "delete", "request", "curl"]


COMMANDS = [*VERBS, "ws", "sse", "fetch", "bench", "har", "doctor", "completion"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    shown = run(name, "--help").out.decode()
    assert shown.startswith("Usage: ")
    assert f"\n    curlhttp {name}" in shown.partition("Examples:")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_the_commands_come_in_the_order_of_their_use() -> None:
    lines = run("--help").out.decode().splitlines()
    listed = lines[lines.index("Commands:") + 1 :]
    assert [line.split()[0] for line in listed] == COMMANDS


def test_the_version_names_libcurl() -> None:
    assert re.match(rb"curlhttp \d+\.\d+\.\d+ \(PycURL/.* libcurl/", run("--version").out)


def test_a_url_alone_is_requested(app: AppServer) -> None:
    place = f"127.0.0.1:{app.port}/echo"
    assert echoed(place)["method"] == "GET"
    assert echoed(place, "a=1")["method"] == "POST"
    assert echoed("-X", "PURGE", place)["method"] == "PURGE"
    assert echoed("PUT", place)["method"] == "PUT"


def test_a_word_that_is_no_url_is_an_unknown_command() -> None:
    ended = run("git", "x")
    assert (ended.status, ended.out) == (2, b"")
    assert "No such command 'git'" in ended.err


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("--heador", "--header"),
        ("--timout", "--timeout"),
        ("--outptu", "--output"),
        ("--no-folow", "--no-follow"),
    ],
)
def test_an_option_with_a_typo_is_suggested_in_its_right_spelling(
    typed: str, suggested: str
) -> None:
    ended = run("get", typed, "x", "http://localhost/")
    assert (ended.status, ended.out) == (2, b"")
    assert re.search(rf"Did you mean '?{suggested}'?\?", ended.err)


@pytest.mark.parametrize("typed", ["--libcurl", "--remote-time", "-Z"])
def test_an_option_of_curl_that_is_spelled_differently_gets_no_suggestion(typed: str) -> None:
    ended = run("get", typed, "http://localhost/")
    assert ended.status == 2
    assert typed in ended.err
    assert "Did you mean" not in ended.err


def test_the_short_options_of_scripts_are_taken(app: AppServer) -> None:
    assert run("-fsSL", app.url + "/redirect/1") == (0, b"hello", "")
    assert echoed("-A", "me", app.url + "/echo")["headers"]["user-agent"] == "me"


@pytest.mark.slow
def test_characters_that_stdout_cannot_encode_are_escaped(app: AppServer, tmp_path: Path) -> None:
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


@needs_posix
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_installed_by_one_command(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert b"_CURLHTTP_COMPLETE" in run("completion", shell).out
    ended = run("completion", shell, "--install")
    (written,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert str(written) in ended.out.decode()
    assert "_CURLHTTP_COMPLETE" in written.read_text()


def test_the_list_of_commands_has_whole_sentences() -> None:
    lines = run("--help").out.decode().splitlines()
    for name in ("curl", "har"):
        line = next(line for line in lines if line.split()[:1] == [name])
        assert line.endswith(".")
        assert "..." not in line
