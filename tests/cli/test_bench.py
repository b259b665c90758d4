"""`curlhttp bench`: its requests, counts and output."""

from __future__ import annotations

import itertools
import json
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.servers import AppServer, refused_port
from tests.support.cli import finish, on_terminal, run, start
from tests.support.colours import needs_posix
from tests.support.pace import assert_in_time


def test_it_sends_and_counts_so_many(app: AppServer) -> None:
    ended = run("bench", app.url + "/bytes/100", "-c", "4", "-n", "200", "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert (found["requests"], found["ok"], found["bytes"]) == (200, 200, 20000)
    assert found["statuses"] == {"200": 200}
    assert found["errors"] == {}
    latency = found["latency"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
    assert found["rate"] == pytest.approx(200 / found["seconds"], rel=0.2)
    assert len(app.requests) == 204  # and the first round
    assert app.max_open <= 4


def test_it_sends_the_configured_request(app: AppServer) -> None:
    run("bench", app.url, "-c", "1", "-n", "1", "-X", "PUT", "-d", "x=1", "-H", "X-A: b")
    for record in app.requests:
        assert (record.method, record.body, record.values("x-a")) == ("PUT", b"x=1", ["b"])


def test_it_ends_after_a_time(app: AppServer) -> None:
    found = json.loads(run("bench", app.url, "-c", "2", "-z", "0.3", "--json").out)
    assert found["seconds"] > 0.25
    assert_in_time(found["seconds"], 0.3, 2.7)
    assert found["requests"] == len(app.requests) - 2


def test_statuses_from_400_on_are_failures(app: AppServer) -> None:
    ended = run("bench", app.url + "/status/503", "-c", "2", "-n", "10")
    assert ended.status == 1
    assert re.search(rb"^statuses +503 10\r?$", ended.out, re.MULTILINE)


def test_an_unreachable_server_is_reported_at_once() -> None:
    with refused_port() as port:
        ended = run("bench", f"http://127.0.0.1:{port}/", "-n", "100000")
    assert (ended.status, ended.out) == (7, b"")
    assert ended.err.count("\n") == 1


@pytest.mark.slow
def test_ctrl_c_ends_it(app: AppServer) -> None:
    process = start("bench", app.url, "-c", "4", "-z", "20")
    assert app.wait_for(lambda: len(app.requests) > 100, timeout=60)
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.status == 130
    assert re.search(rb"^requests  [1-9]", ended.out, re.MULTILINE)
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_ctrl_c_ends_an_open_loop(app: AppServer) -> None:
    process = start("bench", app.url, "--rate", "200", "-z", "60", "--json")
    assert app.wait_for(lambda: len(app.requests) > 100, timeout=60)
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.status == 130, ended.err
    assert json.loads(ended.out)["requests"] > 10
    assert "Traceback" not in ended.err


@needs_posix
@pytest.mark.parametrize(
    "arguments",
    [["-c", "0"], ["--rate", "0"], ["-n", "0"], ["-z", "0"], ["-c", "9999", "-n", "9999"]],
)
def test_silly_figures_are_refused(app: AppServer, arguments: list[str]) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 4096), hard))
    try:
        ended = run("bench", app.url, *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (ended.status, ended.out) == (2, b"")
    assert app.connections == 0


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 120])
def test_the_histogram_fits_a_terminal(app: AppServer, columns: int) -> None:
    status, shown = on_terminal("bench", app.url, "-c", "2", "-n", "300", columns=columns)
    assert status == 0
    rows = [line for line in shown.splitlines() if line.startswith("≤")]
    assert 2 <= len(rows) <= 10
    assert max(map(len, rows)) <= columns
    assert sum(int(row.split()[3].replace(",", "")) for row in rows) == 300


def test_fewer_requests_than_at_once_are_all_at_once(app: AppServer) -> None:
    ended = run("bench", app.url, "-c", "10", "-n", "3", "--json")
    assert json.loads(ended.out)["requests"] == 3
    assert app.max_open <= 3


def test_two_urls_alternate(app: AppServer) -> None:
    first, second = app.url + "/bytes/10", app.url + "/bytes/20"
    ended = run("bench", first, second, "-c", "2", "-n", "25", "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert [each["url"] for each in found] == [first, second]
    assert [each["bytes"] for each in found] == [250, 500]
    paths = [record.target for record in app.requests[4:]]
    turns = sum(one != other for one, other in itertools.pairwise(paths))
    assert turns == 19
    shown = run("bench", first, second, "-n", "5").out.decode()
    assert "latency of the second relative to the first: p50 " in shown


def test_three_urls_are_refused(app: AppServer) -> None:
    assert run("bench", app.url, app.url, app.url).status == 2


def test_a_rate_is_observed(app: AppServer) -> None:
    found = json.loads(run("bench", app.url, "--rate", "100", "-n", "50", "--json").out)
    assert (found["requests"], found["ok"]) == (50, 50)
    assert found["seconds"] > 0.45


def test_failures_count_at_a_rate_too(app: AppServer) -> None:
    ended = run("bench", app.url + "/status/500", "--rate", "200", "-n", "20")
    assert ended.status == 1
    assert re.search(rb"^statuses +500 20\r?$", ended.out, re.MULTILINE)
    with refused_port() as port:
        gone = run("bench", f"http://127.0.0.1:{port}/", "--rate", "9", "-n", "100000")
    assert (gone.status, gone.out) == (7, b"")


def stall_once(app: AppServer, at: int) -> None:
    """Let the server do nothing at all for a second, at one of its requests."""
    turn, seen = threading.Lock(), itertools.count()

    def respond(record: Any, conn: Any) -> None:
        with turn:
            if next(seen) == at:
                time.sleep(1)
        conn.reply(200, b"ok", [])

    app.route("/stalls", respond)


def test_an_open_loop_shows_a_stall_that_a_closed_one_hides(app: AppServer) -> None:
    stall_once(app, at=150)
    closed = json.loads(run("bench", app.url + "/stalls", "-c", "1", "-n", "300", "--json").out)
    stall_once(app, at=150)
    opened = run("bench", app.url + "/stalls", "--rate", "100", "-c", "8", "-n", "300", "--json")
    latency = json.loads(opened.out)["latency"]
    assert closed["latency"]["max"] > 0.9
    assert closed["latency"]["p99"] < latency["p90"]
    assert latency["p90"] > 0.4
    assert latency["max"] > 0.9


def test_a_picture_is_drawn(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "latencies.svg"
    assert run("bench", app.url, app.url + "/?a&b", "-n", "20", "--plot", path).status == 0
    root = ElementTree.parse(path).getroot()
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    assert all(len(line.attrib["points"].split()) == 9 for line in lines)
    assert app.url + "/?a&b" in "".join(root.itertext())


def test_a_url_without_a_scheme_is_completed(app: AppServer) -> None:
    ended = run("bench", f"127.0.0.1:{app.port}/", "-c", "1", "-n", "1", "--json")
    assert json.loads(ended.out)["url"] == f"http://127.0.0.1:{app.port}/"
