"""`curlhttp fetch`: input, records, output, concurrency and rate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    RawConnection,
    RawServer,
    Record,
    payload,
    refused_port,
    respond,
    response,
)
from tests.support.cli import FILES, QUICK, finish, listed, on_terminal, recorded, run, start
from tests.support.downloads import named_by_a_server
from tests.support.internals import ROOT
from tests.support.pace import assert_in_time
from tests.support.values import slow_but_for


@pytest.fixture(params=slow_but_for(QUICK, FILES))
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a path for each kind of output in turn."""
    return tmp_path / str(request.param)


# --- what is recorded ---


def test_the_outcome_of_each_line_is_recorded(app: AppServer, tmp_path: Path, out: Path) -> None:
    file = listed(
        tmp_path,
        app.url + "/bytes/300?n=1",
        {"url": app.url + "/echo", "method": "PUT", "json": {"a": [1]}, "id": "mine"},
        "",
        "# a comment",
        app.url + "/redirect/1",
        app.url + "/status/404",
    )
    ended = run("fetch", file, "-o", out)
    assert (ended.status, ended.out) == (1, b"")  # of the 404
    first, second, third, fourth = recorded(out)
    assert (first["line"], first["method"], first["status"], first["ok"]) == (1, "GET", 200, True)
    assert first["url"] == app.url + "/bytes/300?n=1"
    assert first["body"] == payload(300)
    assert first["headers"]["content-type"] == ["application/octet-stream"]
    assert (first["size"], first["attempts"], first["error"]) == (300, 1, None)
    assert 0 < first["elapsed"] < 30
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$", first["fetched_at"])
    assert (second["id"], second["method"]) == ("mine", "PUT")
    echoed = json.loads(second["body"])
    assert echoed["body"] == '{"a": [1]}'
    assert ["Content-Type", "application/json"] in echoed["headers"]
    assert (third["line"], third["final_url"], third["body"]) == (5, app.url + "/", b"hello")
    assert (fourth["status"], fourth["ok"]) == (404, False)


def test_files_of_a_folder_are_named_by_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the server's name for a file nor its URL names one here."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    values = named_by_a_server(tmp_path)
    responses = [response(b"x", headers=[("Content-Disposition", value)]) for value in values]
    with RawServer(respond(*responses)) as server:
        lines = [
            {"url": f"{server.url}/..%2f..%2fevil{n}", "id": "../../evil"}
            for n in range(len(responses))
        ]
        file = listed(tmp_path, *lines)
        assert run("fetch", file, "-o", "pages", "-c", "1").status == 0
    files = {path for path in tmp_path.rglob("*") if not path.is_dir()}
    names = ["index.jsonl", *(f"{number:08}.body" for number in range(1, len(values) + 1))]
    assert files == {file, *(tmp_path / "a" / "b" / "pages" / name for name in names)}


def test_errors_are_recorded_with_their_kind(tmp_path: Path, out: Path) -> None:
    with refused_port() as port:
        file = listed(tmp_path, f"http://127.0.0.1:{port}/")
        assert run("fetch", file, "-o", out).status == 1
    (record,) = recorded(out)
    assert (record["error"], record["status"], record["ok"]) == ("ConnectionError", None, False)
    assert "refused" in record["message"]
    assert record["body"] is None


def test_no_response_ends_the_run(tmp_path: Path, out: Path) -> None:
    responses = [
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/2026 05:00:00\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/3200 x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\n",
    ]
    by_path = {f"/{number}": response for number, response in enumerate(responses)}

    def handler(conn: RawConnection) -> None:
        if head := conn.read_request()[0]:
            conn.send(by_path.get(head.split()[1].decode(), response(b"fine")))

    with RawServer(handler) as server:
        file = listed(tmp_path, *(server.url + path for path in [*by_path, "/last"]))
        ended = run("fetch", file, "-o", out)
    assert (ended.status, ended.err.count("Traceback")) == (1, 0)
    kinds = [record["error"] for record in recorded(out)]
    assert kinds == ["RemoteProtocolError"] * 4 + ["ChunkedEncodingError", None]


def test_a_bad_line_is_reported_and_recorded_and_does_not_stop_the_run(
    app: AppServer, tmp_path: Path, out: Path
) -> None:
    file = listed(
        tmp_path,
        app.url,
        "nope",
        '{"url": ',
        {"url": app.url, "boddy": 1},
        {"method": "GET"},
        {"url": app.url, "body": "a", "json": 1},
        {"url": app.url, "body_base64": "?"},
        {"url": app.url, "headers": ["X"]},
        {"url": app.url, "headers": {"X": "a\nb"}},
        {"url": app.url, "method": "G T"},
        {"url": app.url, "id": [1]},
        app.url + "/bytes/1",
    )
    ended = run("fetch", file, "-o", out)
    assert ended.status == 1
    numbers = re.findall(r"^curlhttp: line (\d+): .+$", ended.err, re.MULTILINE)
    assert numbers == [str(number) for number in range(2, 12)]
    records = recorded(out)
    assert [record["line"] for record in records] == list(range(1, 13))
    assert [record["error"] for record in records] == [None, *["BadLine"] * 10, None]
    assert all(record["message"] for record in records[1:-1])
    assert len(app.requests) == 2


def test_a_line_that_is_not_utf8_is_a_bad_line(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"\xef\xbb\xbf" + app.url.encode() + b"\r\n\xff\r\n" + app.url.encode())
    ended = run("fetch", file, "-o", tmp_path / "out.jsonl")
    assert "line 2: not UTF-8" in ended.err
    assert [record["ok"] for record in recorded(tmp_path / "out.jsonl")] == [True, False, True]


def test_thousands_of_bad_lines_do_not_flood_the_terminal(tmp_path: Path) -> None:
    ended = run("fetch", listed(tmp_path, *["nope"] * 3000), "-o", tmp_path / "out.jsonl")
    assert len(ended.err.splitlines()) < 20
    assert len(recorded(tmp_path / "out.jsonl")) == 3000


def test_no_credential_is_recorded_or_shown(app: AppServer, tmp_path: Path, out: Path) -> None:
    file = listed(
        tmp_path,
        app.url.replace("://", "://you:sesame@") + "/bytes/1",
        {"url": app.url + "/bytes/2", "headers": {"Authorization": "Bearer sesame"}},
        f"http://you:sesame@127.0.0.1:{app.port}:1/",
        "http://you:sesame@nobody.invalid/",
    )
    ended = run("fetch", file, "-o", out, "-u", "me:sesame")
    assert [request.values("authorization") for request in app.requests].count([]) == 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert kept
    assert not [path for path in kept if b"sesame" in path.read_bytes()]
    assert "sesame" not in ended.err


def test_bodies_are_left_out_on_request(app: AppServer, tmp_path: Path, out: Path) -> None:
    run("fetch", listed(tmp_path, app.url), "-o", out, "--no-body")
    (record,) = recorded(out)
    assert (record["body"], record["size"], record["status"]) == (None, 5, 200)


def test_a_body_that_is_too_large_is_an_error(app: AppServer, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run("fetch", listed(tmp_path, app.url + "/bytes/2000"), "-o", out, "--max-body", "1k")
    assert recorded(out)[0]["error"] == "ResponseTooLarge"


def test_cookies_of_one_line_are_not_sent_with_another(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, app.url + "/cookies/set?a=1&redirect=/cookies", app.url + "/cookies")
    run("fetch", file, "-o", tmp_path / "out.jsonl", "-c", "1")
    first, second = recorded(tmp_path / "out.jsonl")
    assert json.loads(first["body"])["cookies"] == {"a": "1"}
    assert json.loads(second["body"])["cookies"] == {}


@pytest.mark.slow
def test_without_an_output_the_records_go_to_stdout(app: AppServer, tmp_path: Path) -> None:
    ended = run_apart("fetch", listed(tmp_path, app.url), "-q")
    assert json.loads(ended.out)["body"] == "hello"
    assert ended.err == ""


@pytest.mark.slow
def test_a_list_may_come_from_stdin(app: AppServer) -> None:
    ended = run_apart("fetch", "-", "-q", stdin=f"{app.url}\n{app.url}/bytes/1".encode())
    assert sorted(json.loads(line)["line"] for line in ended.out.splitlines()) == [1, 2]


@pytest.mark.slow
def test_records_are_flushed_at_once(app: AppServer) -> None:
    process = start("fetch", "-", "-c", "1", "-q", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{app.url}\n{app.url}/stall\n".encode())
    process.stdin.close()
    process.stdin = None
    assert json.loads(process.stdout.readline())["line"] == 1
    process.kill()
    finish(process)


@pytest.mark.slow
def test_a_closed_pipe_of_records_ends_the_run_quietly(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, *[app.url + "/bytes/3000"] * 3000)
    process = start("fetch", file)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 23
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""


def run_apart(*arguments: object, stdin: bytes | None = None) -> Any:
    return finish(start(*arguments, stdin=subprocess.PIPE), stdin)


# --- what it does not do ---


def test_an_output_is_not_overwritten_by_default(app: AppServer, tmp_path: Path, out: Path) -> None:
    file = listed(tmp_path, app.url)
    run("fetch", file, "-o", out)
    before = recorded(out)
    ended = run("fetch", file, "-o", out)
    assert ended.status == 2
    assert "--resume" in ended.err
    assert "--overwrite" in ended.err
    assert recorded(out) == before
    assert len(app.requests) == 1
    run("fetch", listed(tmp_path, app.url + "/bytes/1"), "-o", out, "--overwrite")
    assert [record["size"] for record in recorded(out)] == [1]


def test_the_list_itself_is_not_overwritten(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, app.url).rename(tmp_path / "list.jsonl")
    assert run("fetch", file, "-o", file, "--overwrite").status == 2
    assert file.read_text() == app.url + "\n"


def test_a_folder_of_other_files_is_not_changed(app: AppServer, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter").write_text("dear")
    file = listed(tmp_path, app.url)
    assert run("fetch", file, "-o", folder).status == 2
    assert run("fetch", file, "-o", folder, "--overwrite").status == 0
    assert (folder / "letter").read_text() == "dear"


@pytest.mark.parametrize(
    "arguments",
    [
        ["/nowhere/list"],
        ["{list}", "-o", "{out}.csv"],
        ["{list}", "--resume"],
        ["{list}", "--retry-failed", "-o", "{out}"],
        ["{list}", "--resume", "--overwrite", "-o", "{out}"],
        ["{list}", "-c", "0"],
        ["{list}", "--rate", "fast"],
        ["{list}", "--rate", "0/s"],
        ["{list}", "--max-body", "-1"],
    ],
)
def test_a_usage_error_is_reported_before_anything_is_sent(
    app: AppServer, tmp_path: Path, arguments: list[str]
) -> None:
    places = {"list": listed(tmp_path, app.url), "out": tmp_path / "out"}
    ended = run("fetch", *(part.format(**places) for part in arguments))
    assert ended.status == 2
    assert ended.err
    assert app.connections == 0


def test_an_output_that_cannot_be_written_is_reported(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, app.url)
    for name in ("out.jsonl", "out.db"):
        ended = run("fetch", file, "-o", tmp_path / "nowhere" / name)
        assert ended.status == 23
        assert re.fullmatch(r"curlhttp: .*nowhere.*\n", ended.err)
    assert app.connections == 0


# --- how fast ---


def test_concurrency_bounds_the_requests_at_once(app: AppServer, tmp_path: Path) -> None:
    most = watch_most(app, 8)
    run("fetch", listed(tmp_path, *[app.url + "/busy"] * 40), "-c", "8", "-o", tmp_path / "o.db")
    assert most() == 8


def test_per_host_bounds_the_requests_to_a_host(app: AppServer, tmp_path: Path) -> None:
    most = watch_most(app, 3)
    file = listed(tmp_path, *[app.url + "/busy"] * 40)
    run("fetch", file, "-c", "8", "--per-host", "3", "-o", tmp_path / "o.db")
    assert most() == 3


def watch_most(app: AppServer, expected: int) -> Any:
    """Serve /busy; return a function that returns the most requests at once.

    The first ones wait until there are as many as expected, however busy the machine is.
    """
    lock, now, most, reached = threading.Lock(), [0], [0], threading.Event()

    def busy(record: Record, conn: AppConnection) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] >= expected:
                reached.set()
        reached.wait(30)
        conn.server.stopping.wait(0.01)
        with lock:
            now[0] -= 1
        conn.reply(200)

    app.route("/busy", busy)
    return lambda: most[0]


def test_the_rate_is_observed(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, *[app.url] * 6)
    ended = run("fetch", file, "-o", tmp_path / "o.db", "--rate", "600/m", "--summary", "json")
    seconds = json.loads(ended.out)["seconds"]
    assert seconds >= 0.5
    assert_in_time(seconds, 0.5, 1.5)


def test_a_failing_origin_is_not_contacted(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, *[app.url + "/status/503"] * 20)
    run("fetch", file, "-o", tmp_path / "o.db", "--breaker", "3", "-c", "1")
    kinds = Counter(record["error"] for record in recorded(tmp_path / "o.db"))
    assert kinds == {None: 3, "CircuitBreakerOpen": 17}
    assert len(app.requests) == 3


def test_a_line_that_robots_txt_disallows_is_recorded_and_not_fetched(
    app: AppServer, tmp_path: Path, out: Path
) -> None:
    rules = b"User-agent: my-crawler\nDisallow: /private\n\nUser-agent: *\nDisallow: /\n"
    app.route("/robots.txt", lambda record, conn: conn.reply(200, rules))
    lines = [f"{app.url}/{'private' if number % 2 else 'bytes'}/{number}" for number in range(8)]
    ended = run("fetch", listed(tmp_path, *lines), "-o", out, "--robots", "my-crawler")
    assert ended.status == 1
    found = {record["url"]: record for record in recorded(out)}
    assert {url: record["error"] for url, record in found.items()} == {
        url: "RobotsDisallowed" if "private" in url else None for url in lines
    }
    assert f"{app.url}/robots.txt disallows it for 'my-crawler'" in found[lines[1]]["message"]
    paths = Counter(record.path for record in app.requests)
    assert paths["/robots.txt"] == 1
    assert not [path for path in paths if "private" in path]


def test_a_token_that_robots_txt_cannot_name_is_an_error(app: AppServer, tmp_path: Path) -> None:
    ended = run("fetch", listed(tmp_path, app.url), "--robots", "my crawler")
    assert ended.status == 2
    assert "--robots must be the product token" in ended.err
    assert app.requests == []


def test_without_the_extra_for_robots_txt_the_error_names_it(
    app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "protego", None)
    ended = run("fetch", listed(tmp_path, app.url), "--robots", "my-crawler")
    assert (ended.status, app.requests) == (2, [])
    assert ended.err == "curlhttp: --robots needs protego: pip install 'curlhttp[robots]'\n"


def test_a_failed_request_is_retried(app: AppServer, tmp_path: Path) -> None:
    app.route("/flaky", lambda record, conn: conn.reply(503 if len(app.requests) < 3 else 200))
    run("fetch", listed(tmp_path, app.url + "/flaky"), "-o", tmp_path / "o.db", "--retry", "3")
    (record,) = recorded(tmp_path / "o.db")
    assert (record["status"], record["attempts"]) == (200, 3)


_PEAK = """
import sys
from curlhttp.cli import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_bodies(app: AppServer, tmp_path: Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("there is no /proc")
    # Not getrusage(): it begins with what the process that forked had.
    file = listed(tmp_path, *[app.url + "/big?size=1000000"] * 150)
    ended = subprocess.run(
        [sys.executable, "-c", _PEAK, "fetch", file, "-o", tmp_path / "o.db", "-c", "4", "-q"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ended.stdout) < 110 * 1024  # KiB


# --- what is shown ---


def test_the_summary_counts_outcomes(app: AppServer, tmp_path: Path) -> None:
    with refused_port() as port:
        lines = [app.url, app.url, app.url + "/status/404", f"http://127.0.0.1:{port}/", "nope"]
        ended = run("fetch", listed(tmp_path, *lines), "-o", tmp_path / "out.jsonl")
    shown = ended.err.splitlines()
    assert shown[1].startswith("fetched   5 in ")
    assert shown[2] == "statuses  2xx 2, 4xx 1"
    assert shown[3] == "errors    BadLine 1, ConnectionError 1"
    assert shown[4].startswith("latency   p50 ")
    assert shown[5].startswith("client    ")
    assert shown[6].startswith("failed    3 lines; ")
    assert shown[7] == "reasons   invalid 1, refused 1"


def test_the_summary_can_be_read_by_programs(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, app.url, app.url + "/status/404")
    ended = run("fetch", file, "-o", tmp_path / "out.jsonl", "--summary", "json")
    summary = json.loads(ended.out)
    assert (summary["done"], summary["ok"], summary["failed"]) == (2, 1, 1)
    assert summary["statuses"] == {"2xx": 1, "4xx": 1}
    assert ended.err == ""


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 120])
def test_a_terminal_gets_one_line_of_progress(app: AppServer, tmp_path: Path, columns: int) -> None:
    def slow(record: Record, conn: AppConnection) -> None:
        conn.server.stopping.wait(0.02)
        conn.reply(int(record.query("status")))

    app.route("/slow", slow)
    lines = [f"{app.url}/slow?status={200 if n % 5 else 500}" for n in range(100)]
    file = listed(tmp_path, "nope", *lines)
    status, shown = on_terminal("fetch", file, "-c", "2", "-o", tmp_path / "o.db", columns=columns)
    assert status == 1
    progress = re.findall(r"\d+ done  \d+/s  \d+%  ETA [^\r\n\x1b]*", shown)
    assert len(progress) >= 2
    assert max(map(len, progress)) <= columns
    if columns == 120:
        assert "1 errors (BadLine 1)  5xx " in progress[-1]
    else:
        assert progress[-1].endswith("…")  # cut, not broken into two lines
    summary = shown.rpartition("\x1b[2K")[2]  # the live line is gone
    assert summary.startswith("fetched   101 in ")


@pytest.mark.slow
def test_quiet_shows_bad_lines_alone(app: AppServer, tmp_path: Path) -> None:
    _, shown = on_terminal("fetch", listed(tmp_path, app.url, "nope"), "-q", "-o", tmp_path / "o")
    assert re.fullmatch(r"curlhttp: line 2: .*\n", shown)


# --- streams that are closed ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["get {url} >&-", "fetch {file} >&-", "doctor >&-", "fetch - <&-"]
)
def test_a_standard_stream_that_is_closed_is_an_error_of_one_line(
    app: AppServer, tmp_path: Path, command: str
) -> None:
    url = app.url + "/bytes/3"
    command = command.format(url=url, file=listed(tmp_path, url))
    ended = subprocess.run(
        ["sh", "-c", f"{sys.executable} -W error -m curlhttp {command}"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 23
    assert ended.stderr.splitlines()[-1].endswith("Bad file descriptor"), ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_closed_messages_do_not_end_a_run(app: AppServer, tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    file = listed(tmp_path, app.url + "/bytes/3", "nope")
    command = f"{sys.executable} -m curlhttp fetch {file} -o {out} 2>&-"
    assert subprocess.run(["sh", "-c", command], cwd=ROOT, timeout=120).returncode == 1
    assert len(recorded(out)) == 2


def test_fetch_refuses_addresses_that_are_not_public(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, app.url + "/1", f"http://2130706433:{app.port}/2")
    ended = run("fetch", file, "-o", tmp_path / "out.jsonl", "--public-only")
    assert ended.status == 1
    for record in recorded(tmp_path / "out.jsonl"):
        assert record["error"] == "BlockedAddress", record
    assert app.connections == 0
    ended = run("get", app.url, "--public-only")
    assert (ended.status, ended.out) == (7, b"")  # as curl, when it cannot connect
    assert "not public: loopback" in ended.err


def test_texts_are_recorded_as_utf8_on_request(app: AppServer, tmp_path: Path, out: Path) -> None:
    page, image = "<meta charset=koi8-r>Привет".encode("koi8-r"), b"\xff\xd8<meta charset=koi8-r>"
    of_page, of_image = [("Content-Type", "text/html")], [("Content-Type", "image/jpeg")]
    app.route("/page", lambda _, conn: conn.reply(200, page, headers=of_page))
    app.route("/image", lambda _, conn: conn.reply(200, image, headers=of_image))
    file = listed(tmp_path, app.url + "/page", app.url + "/image")
    assert run("fetch", file, "-o", out, "--text").status == 0
    text, binary = recorded(out)
    assert text["body"].decode() == "<meta charset=koi8-r>Привет"
    assert text["size"] == len(text["body"])
    assert binary["body"] == image
