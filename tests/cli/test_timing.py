"""--timing."""

from __future__ import annotations

import re

import pytest

from tests.servers import (
    AppServer,
)
from tests.support.cli import on_terminal, run


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
