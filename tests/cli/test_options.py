"""Options that commands share: numbers, URLs without a scheme, addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from curlhttp.cli.options import integer, parse_rate, parse_seconds, parse_size
from tests.servers import AppServer
from tests.support.cli import listed, run


def test_verbose_shows_the_chosen_scheme(app: AppServer) -> None:
    ended = run("get", "-v", f"127.0.0.1:{app.port}/echo")
    assert ended.status == 0
    assert f"* no scheme was given: http://127.0.0.1:{app.port}/echo\n" in ended.err
    assert "no scheme" not in run("get", "-v", app.url).err


def test_resolve_sets_the_address_of_a_name(app: AppServer) -> None:
    url = f"http://nobody.invalid:{app.port}/"
    place = f"nobody.invalid:{app.port}"
    assert run("get", url, "--resolve", f"{place}:127.0.0.1").out == b"hello"
    assert run("get", url, "--resolve", f"{place}:[::1],127.0.0.1").out == b"hello"


def test_unix_socket_sends_through_the_socket(tmp_path: Path) -> None:
    ended = run("get", "--unix-socket", tmp_path / "none", "localhost/x")
    assert ended.status == 7, ended.err
    assert str(tmp_path) in ended.err or "localhost" in ended.err


@pytest.mark.parametrize(
    ("read", "text", "number"),
    [
        (parse_rate, "50", 50),
        (parse_rate, "2.5/s", 2.5),
        (parse_rate, "600/m", 10),
        (parse_rate, "3600/h", 1),
        (parse_size, "0", 0),
        (parse_size, "10", 10),
        (parse_size, "64k", 65536),
        (parse_size, "2M", 2 << 20),
        (parse_size, "1g", 1 << 30),
        (parse_seconds, "0.5", 0.5),
        (integer(), "7", 7),
        (integer(0, 1), "0", 0),
    ],
)
def test_a_number_is_read(read: Callable[[str], float], text: str, number: float) -> None:
    assert read(text) == number


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_rate, "0"),
        (parse_rate, "-1"),
        (parse_rate, "5/d"),
        (parse_rate, "nan"),
        (parse_rate, ""),
        (parse_rate, "\u0665"),
        (parse_size, "-1"),
        (parse_size, "1.5k"),
        (parse_size, "1t"),
        (parse_size, ""),
        (parse_seconds, "0"),
        (parse_seconds, "-1"),
        (parse_seconds, "nan"),
        (parse_seconds, "inf"),
        (parse_seconds, "x"),
        (integer(), "0"),
        (integer(), "x"),
        (integer(0, 1), "2"),
        (integer(), "1.0"),
    ],
)
def test_an_invalid_number_is_reported(read: Callable[[str], float], text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a"):
        read(text)


RAW = "/a/../b/./%7e%2f%?%7e"


@pytest.mark.parametrize(
    "command",
    [
        ("fetch",),
        ("bench", "-n", "1", "-c", "1"),
        ("bench", "-n", "1", "-c", "1", "--rate", "1000"),
        ("sse", "--no-reconnect"),
        ("ws",),
    ],
    ids=" ".join,
)
def test_path_as_is_holds_for_each_command(
    app: AppServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for options, target in (((), "/b/~%2F%25?~"), (("--path-as-is",), RAW)):
        url = app.url + RAW
        if command[0] == "fetch":
            run(*command, listed(tmp_path, url), "-o", tmp_path / f"{len(options)}.jsonl", *options)
        else:
            run(*command, *options, url, stdin=b"")
        assert app.requests[-1].target == target
    if command[0] == "fetch":
        file, out = listed(tmp_path, app.url), tmp_path / "out"
        refused = run(*command, file, "--processes", "2", "-o", out, "--path-as-is")
        assert (refused.status, refused.err.count("--path-as-is cannot be used with")) == (2, 1)


def test_fetch_sends_no_host_if_it_is_removed(app: AppServer, tmp_path: Path) -> None:
    run("fetch", listed(tmp_path, app.url), "-o", tmp_path / "out.jsonl", "-H", "Host:")
    assert app.requests[-1].header("host") is None
