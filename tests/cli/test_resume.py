"""`curlhttp fetch --resume`: after a kill nothing is lost or recorded twice."""

from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import subprocess
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from curlhttp.cli.fetch.recorded import RecordedLines
from curlhttp.cli.fetch.run import DeferredInterrupts
from tests.servers import AppConnection, AppServer, Record, refused_port
from tests.support.cli import FILES, QUICK, Ended, finish, listed, recorded, run, start
from tests.support.codings import zstd
from tests.support.values import slow_but_for

LINES = 2000


@pytest.fixture(params=slow_but_for(QUICK, FILES))
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a path for each kind of output in turn."""
    return tmp_path / str(request.param)


def urls(app: AppServer, count: int) -> list[str]:
    return [f"{app.url}/bytes/{number % 100}?n={number}" for number in range(1, count + 1)]


def whole(out: Path) -> dict[int, int]:
    """Return how often each line is recorded, as a reader that knows of kills sees it."""
    if out.suffix == ".parquet":
        journal = out.with_name(f"{out.name}.journal")
        rows = recorded(out) if out.exists() else []
        return dict.fromkeys([*(row["line"] for row in rows), *whole(journal)], 1)
    if not out.exists():
        return {}
    if ".warc" in out.name or out.suffix in (".gz", ".zst"):
        return count_members(out)
    if out.suffix == ".db":
        try:
            with closing(sqlite3.connect(out)) as database:
                return Counter(row[0] for row in database.execute("SELECT line FROM results"))
        except sqlite3.OperationalError:  # killed before there was a table
            return {}
    index = out / "index.jsonl" if out.is_dir() else out
    lines = index.read_bytes().split(b"\n")[:-1] if index.exists() else []
    return Counter(json.loads(line)["line"] for line in lines)


def count_members(out: Path) -> dict[int, int]:
    content = out.read_bytes()
    if out.suffix in (".gz", ".zst"):
        content = b"".join(whole_members(content, out.suffix))
    if ".warc" in out.name:
        kind = rb"WARC-Type: metadata\r\n(?:[^\r\n]+\r\n)*\r\n"
        lines = re.findall(kind + rb"(\{[^\r\n]*\})\r\n\r\n", content)
    else:
        lines = content.splitlines()
    return Counter(json.loads(line)["line"] for line in lines)


def whole_members(content: bytes, suffix: str) -> Iterator[bytes]:
    while content:
        decoder = zlib.decompressobj(31) if suffix == ".gz" else zstd.ZstdDecompressor()
        with suppress(zlib.error, zstd.ZstdError):
            text = decoder.decompress(content)
        if not decoder.eof:
            return
        yield text
        content = decoder.unused_data


def asked(app: AppServer) -> list[int]:
    """Return the numbers of the lines that were asked for since the counts were reset."""
    return [number for record in app.requests if (number := int(record.query("n")))]


def fetch_until(app: AppServer, count: int, how: int, *arguments: object) -> Ended:
    """Run fetch, and send it a signal after so many requests."""
    process = start("fetch", *arguments)
    assert app.wait_for(lambda: len(app.requests) >= count, timeout=60)
    process.send_signal(how)
    ended = finish(process)
    # What it sent must not be counted later, even if its connection was not accepted yet: they
    # are in the order in which they came.
    assert run("get", app.url + "/bytes/0?n=0").status == 0
    assert app.wait_for(lambda: not app.open_connections, timeout=60)
    return ended


@pytest.mark.slow
def test_after_kills_at_any_moment_the_union_is_exact(
    app: AppServer, tmp_path: Path, out: Path
) -> None:
    file = listed(tmp_path, *urls(app, LINES))
    chance = random.Random()
    kept: dict[int, int] = {}
    for _ in range(3):
        app.reset_counts()
        left = LINES - len(kept)
        count = chance.randrange(left // 3, left - left // 4)
        ended = fetch_until(app, count, signal.SIGKILL, file, "-o", out, "--resume")
        assert ended.status == -signal.SIGKILL
        assert not set(kept) & set(asked(app))
        kept = whole(out)
    assert kept, "no kill came after a batch"
    app.reset_counts()
    ended = run("fetch", file, "-o", out, "--resume", "--summary", "json")
    assert ended.status == 0, ended.err
    assert sorted(asked(app)) == sorted(set(range(1, LINES + 1)) - set(kept))
    assert json.loads(ended.out)["skipped"] == len(kept)
    assert whole(out) == dict.fromkeys(range(1, LINES + 1), 1)
    records = recorded(out)
    assert [record["size"] for record in records] == [len(record["body"]) for record in records]
    assert [record["size"] for record in records] == [n % 100 for n in range(1, LINES + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "what"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_an_interrupt_records_complete_responses(
    app: AppServer, tmp_path: Path, out: Path, how: int, what: str
) -> None:
    file = listed(tmp_path, *urls(app, LINES))
    ended = fetch_until(app, 700, how, file, "-o", out, "-c", "8")
    assert ended.status == 128 + how
    assert ended.err.endswith(
        f"curlhttp: {what}; complete responses are recorded; continue with --resume\n"
    )
    assert "Traceback" not in ended.err
    kept = whole(out)
    assert set(kept) <= set(asked(app))
    assert len(asked(app)) - len(kept) <= 4 * 8  # running, or complete and not taken yet
    app.reset_counts()
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert not set(kept) & set(asked(app))
    assert whole(out) == dict.fromkeys(range(1, LINES + 1), 1)


@pytest.mark.slow
def test_ctrl_c_ends_a_run_that_waits_for_its_server(app: AppServer, tmp_path: Path) -> None:
    file = listed(tmp_path, app.url + "/bytes/1?n=1", app.url + "/stall?n=2")
    out = tmp_path / "out.jsonl"
    ended = fetch_until(app, 2, signal.SIGINT, file, "-o", out, "-c", "2", "--timeout", "30")
    assert ended.status == 130
    assert set(whole(out)) <= {1}


@pytest.mark.slow
def test_ctrl_c_ends_a_run_that_waits_for_its_list(app: AppServer) -> None:
    process = start("fetch", "-", "-c", "1", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(f"{app.url}/bytes/1?n=1\n".encode())
    process.stdin.flush()
    assert app.wait_for(lambda: bool(app.requests))
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.status == 130
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_a_list_from_stdin_is_resumed_by_its_line_numbers(app: AppServer, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first, second = urls(app, 2)
    for text in (first, f"{first}\n{second}"):
        process = start("fetch", "-", "-o", out, "--resume", "-q", stdin=subprocess.PIPE)
        assert finish(process, text.encode()).status == 0
    assert asked(app) == [1, 2]
    assert whole(out) == {1: 1, 2: 1}


def test_a_torn_line_is_cut_off(app: AppServer, tmp_path: Path) -> None:
    file, out = listed(tmp_path, *urls(app, 3)), tmp_path / "out.jsonl"
    run("fetch", file, "-o", out)
    complete = out.read_bytes()
    lines = complete.splitlines(keepends=True)
    for torn in (complete[:-1], complete[: -len(lines[-1]) + 20], complete + b"\0" * 5000):
        out.write_bytes(torn)
        kept = torn.count(b"\n")
        app.reset_counts()
        assert run("fetch", file, "-o", out, "--resume").status == 0
        assert len(app.requests) == 3 - kept
        assert whole(out) == {1: 1, 2: 1, 3: 1}


def test_a_body_that_is_missing_or_cut_is_fetched_again(app: AppServer, tmp_path: Path) -> None:
    file, out = listed(tmp_path, *urls(app, 3)), tmp_path / "out"
    run("fetch", file, "-o", out)
    (out / "00000001.body").unlink()
    (out / "00000003.body").write_bytes(b"x")
    (out / "00000007.body.part").write_bytes(b"left over")
    app.reset_counts()
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert sorted(asked(app)) == [1, 3]
    assert [(out / f"{number:08}.body").stat().st_size for number in (1, 2, 3)] == [1, 2, 3]
    assert not list(out.glob("*.part"))


def begin(line: int, fingerprint: str = "00000001") -> str:
    """Return how a record begins."""
    return f'{{"line": {line}, "fingerprint": "{fingerprint}", "ok": true, '


@pytest.mark.parametrize(
    "text",
    [
        "not ours\n",
        '{"line": 1}\n',
        "{}\n{}\n",
        "\ud800\n",
        begin(1, "ffffffff") + "}\n",
        begin(0) + "}\n",
        begin(9_999_999_999) + "}\n",
    ],
)
def test_a_file_of_another_kind_is_not_changed(app: AppServer, tmp_path: Path, text: str) -> None:
    file, out = listed(tmp_path, app.url), tmp_path / "out.jsonl"
    out.write_text(text, errors="surrogatepass")
    ended = run("fetch", file, "-o", out, "--resume")
    assert ended.status == 2
    assert "line 1: not a record of curlhttp fetch" in ended.err
    assert out.read_text(errors="surrogatepass") == text
    assert app.connections == 0


@pytest.mark.parametrize("rest", ["}", '"file": []}', '"id": ' + "[" * 100_000, "9" * 5000, "\0"])
def test_a_damaged_line_of_an_index_is_fetched_again(
    app: AppServer, tmp_path: Path, rest: str
) -> None:
    file, out = listed(tmp_path, app.url + "/bytes/3"), tmp_path / "out"
    out.mkdir()
    (out / "index.jsonl").write_text(begin(1) + rest + "\n")
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert (out / "00000001.body").stat().st_size == 3


@pytest.mark.parametrize(
    "row", [(1, "zz", 1), (1, "ffffffff", 1), (0, "1", 1), (2**62, "1", 1), (1, 1.5, 1)]
)
def test_a_database_with_a_foreign_row_is_not_changed(
    app: AppServer, tmp_path: Path, row: tuple[object, ...]
) -> None:
    file, out = listed(tmp_path, app.url), tmp_path / "out.db"
    run("fetch", file, "-o", out)
    app.reset_counts()
    with closing(sqlite3.connect(out)) as database, database:
        database.execute("UPDATE results SET line = ?, fingerprint = ?, ok = ?", row)
    ended = run("fetch", file, "-o", out, "--resume")
    assert ended.status == 2
    assert f"line {row[0]}: not a record of curlhttp fetch" in ended.err
    assert not app.requests


def test_a_database_of_another_kind_is_not_changed(app: AppServer, tmp_path: Path) -> None:
    file, out = listed(tmp_path, app.url), tmp_path / "out.db"
    with closing(sqlite3.connect(out)) as database:
        database.execute("CREATE TABLE results (mine)")
    ended = run("fetch", file, "-o", out, "--resume")
    assert (ended.status, ended.err.count("\n")) == (23, 1)
    out.write_text("no database at all, but long enough to look like something" * 20)
    assert run("fetch", file, "-o", out, "--resume").status == 23
    assert app.connections == 0


def test_failures_stay_recorded_by_default(app: AppServer, tmp_path: Path, out: Path) -> None:
    status = 503

    def changing(record: Record, conn: AppConnection) -> None:
        conn.reply(status)

    app.route("/changing", changing)
    file = listed(tmp_path, app.url + "/changing?n=1", "nope", app.url + "/bytes/1?n=3")
    assert run("fetch", file, "-o", out).status == 1
    status = 200
    app.reset_counts()
    ended = run("fetch", file, "-o", out, "--resume")
    assert (ended.status, asked(app)) == (1, [])
    assert "failed    2 lines; fetch them again with --resume --retry-failed" in ended.err
    assert run("fetch", file, "-o", out, "--resume", "--retry-failed").status == 1
    assert asked(app) == [1]
    last = {record["line"]: record["ok"] for record in recorded(out)}
    assert last == {1: True, 2: False, 3: True}
    app.reset_counts()
    run("fetch", file, "-o", out, "--resume", "--retry-failed")
    assert asked(app) == []


def test_a_corrected_line_is_fetched(app: AppServer, tmp_path: Path, out: Path) -> None:
    assert run("fetch", listed(tmp_path, "nope", '{"ur'), "-o", out).status == 1
    mended = listed(tmp_path, *urls(app, 2))
    assert run("fetch", mended, "-o", out, "--resume").status == 0
    assert sorted(asked(app)) == [1, 2]


def test_an_edited_list_is_refused(app: AppServer, tmp_path: Path, out: Path) -> None:
    first, second, third = urls(app, 3)
    run("fetch", listed(tmp_path, first, second), "-o", out)
    app.reset_counts()
    ended = run("fetch", listed(tmp_path, first, third, second), "-o", out, "--resume")
    assert ended.status == 2
    assert "line 2 differs from its record: the list was edited" in ended.err
    assert asked(app) == []
    assert run("fetch", listed(tmp_path, first, second, third), "-o", out, "--resume").status == 0
    assert asked(app) == [3]


def test_other_credentials_are_no_edit(app: AppServer, tmp_path: Path) -> None:
    out, url = tmp_path / "out.jsonl", app.url + "/bytes/1?n=1&mail=a@b"

    def lines(password: str) -> list[object]:
        named = url.replace("://", f"://me:{password}@")
        return [named, {"url": url, "headers": {"Authorization": password}}]

    run("fetch", listed(tmp_path, *lines("old")), "-o", out)
    assert run("fetch", listed(tmp_path, *lines("new")), "-o", out, "--resume").status == 0
    assert len(app.requests) == 2


@pytest.mark.slow
def test_two_runs_do_not_write_to_one_file(app: AppServer, tmp_path: Path, out: Path) -> None:
    pytest.importorskip("fcntl")
    file = listed(tmp_path, app.url + "/stall?n=1")
    process = start("fetch", file, "-o", out)
    assert app.wait_for(lambda: bool(app.requests))
    others = [run("fetch", file, "-o", out, how) for how in ("--resume", "--overwrite")]
    process.kill()
    finish(process)
    for ended in others:
        assert ended.status == 23
        assert "another run is writing to it" in ended.err


@pytest.mark.slow
def test_a_record_is_written_although_no_other_response_arrives(
    app: AppServer, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    process = start("fetch", listed(tmp_path, *urls(app, 1), app.url + "/stall"), "-o", out)
    is_written = app.wait_for(lambda: out.exists() and out.read_bytes().count(b"\n") == 1)
    process.kill()
    finish(process)
    assert is_written


def test_an_index_that_is_no_folders_is_fetched_again(app: AppServer, tmp_path: Path) -> None:
    out = tmp_path / "pages"
    out.mkdir()
    file = listed(tmp_path, app.url + "/bytes/3")
    assert run("fetch", file, "-o", out / "index.jsonl").status == 0
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert (out / "00000001.body").stat().st_size == 3


def test_a_line_is_new_done_failed_or_changed() -> None:
    recorded = RecordedLines()
    recorded.add(5, 77, True)
    recorded.add(6, 88, False)
    assert [recorded.state(number, 77) for number in (4, 5, 1_000_000)] == ["new", "done", "new"]
    assert recorded.state(5, 78) == "changed"
    assert recorded.state(6, 88) == "failed"
    assert recorded.state(6, 89) == "new"
    assert (recorded.done, recorded.failed) == (1, 1)
    recorded.add(6, 88, True)
    assert (recorded.done, recorded.failed) == (2, 0)
    recorded.remove(6)
    assert (recorded.state(6, 88), recorded.done) == ("new", 1)


def test_lines_are_remembered_in_four_bytes_each() -> None:
    recorded = RecordedLines()
    tracemalloc.start()
    try:
        for number in range(1, 200_001):
            recorded.add(number, number, True)
        assert tracemalloc.get_traced_memory()[0] < 4 * 300_000
    finally:
        tracemalloc.stop()
    assert recorded.state(199_999, 199_999) == "done"


def test_ctrl_c_waits_for_the_end_of_a_write() -> None:
    interrupts, done = DeferredInterrupts(), []
    interrupts.install()
    try:
        with pytest.raises(KeyboardInterrupt), interrupts:
            with interrupts:
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        interrupts.uninstall()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("all", [2, 3, 4, 5]),
        ("refused", [2]),
        ("incomplete,5xx", [3, 4]),
        ("read-timeout, 404", [5]),
        ("timeout", []),
    ],
)
def test_failures_are_fetched_again_by_reason(
    app: AppServer, tmp_path: Path, out: Path, names: str, expected: list[int]
) -> None:
    with refused_port() as port:
        file = listed(
            tmp_path,
            app.url + "/bytes/1?n=1",
            f"http://127.0.0.1:{port}/",
            app.url + "/truncated?n=3",
            app.url + "/status/503?n=4",
            app.url + "/status/404?n=5",
        )
        assert run("fetch", file, "-o", out).status == 1
        reasons = {record["line"]: record["reason"] for record in recorded(out)}
        assert reasons == {1: None, 2: "refused", 3: "incomplete", 4: None, 5: None}
        app.reset_counts()
        again = ("fetch", "--resume", "--retry-failed", names, file, "-o", out)
        ended = run(*again, "--summary", "json")
    assert json.loads(ended.out)["done"] == len(expected)
    assert sorted(asked(app)) == [number for number in expected if number != 2]


def test_an_unknown_reason_is_refused(app: AppServer, tmp_path: Path) -> None:
    file, out = listed(tmp_path, app.url), tmp_path / "out.jsonl"
    ended = run("fetch", file, "-o", out, "--resume", "--retry-failed=dns,nope")
    assert ended.status == 2
    assert "'nope' is neither a status, such as 503 or 5xx, nor a reason: dns" in ended.err
    assert app.connections == 0


def test_the_file_may_follow_retry_failed(app: AppServer, tmp_path: Path) -> None:
    file, out = listed(tmp_path, app.url + "/status/503?n=1"), tmp_path / "out.jsonl"
    run("fetch", file, "-o", out)
    assert run("fetch", "-o", out, "--resume", "--retry-failed", file).status == 1
    assert asked(app) == [1, 1]


def test_a_database_of_an_earlier_version_gets_the_new_columns(
    app: AppServer, tmp_path: Path
) -> None:
    file, out = listed(tmp_path, *urls(app, 2)), tmp_path / "out.db"
    run("fetch", listed(tmp_path, *urls(app, 1)), "-o", out)
    with closing(sqlite3.connect(out)) as database:
        for name in ("reason", "curl_code", "request_sent", "last_status", "retry_after"):
            database.execute(f"ALTER TABLE results DROP COLUMN {name}")
    app.reset_counts()
    file = listed(tmp_path, *urls(app, 2))
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert asked(app) == [2]
    assert [record["request_sent"] for record in recorded(out)] == [0, 1]


def test_a_record_says_where_and_in_what_response_a_line_failed(
    app: AppServer, tmp_path: Path, out: Path
) -> None:
    with refused_port() as port:
        gone = f"http://127.0.0.1:{port}/gone"
        file = listed(
            tmp_path,
            f"{app.url}/redirect-to?url={gone}",
            f"{app.url}/redirect-to?url=/truncated",
            f"{app.url}/headers-as?status=429",
        )
        app.route("/headers-as", lambda _, conn: conn.reply(429, headers=[("Retry-After", "7")]))
        run("fetch", file, "-o", out)
    refused, cut, busy = recorded(out)
    assert (refused["final_url"], refused["last_status"], refused["curl_code"]) == (gone, None, 7)
    assert not refused["request_sent"]
    assert (cut["final_url"], cut["last_status"]) == (app.url + "/truncated", 200)
    assert cut["request_sent"]
    assert (busy["status"], busy["retry_after"], busy["reason"]) == (429, 7.0, None)
