"""`curlhttp fetch` with --processes and --engine."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.distributed.test_fetch import rows_of
from tests.servers import AppConnection, AppServer, Record
from tests.support.cli import finish, run, start


@pytest.fixture
def urls(app: AppServer, tmp_path: Path) -> Path:
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{app.url}/bytes/{n}\n" for n in range(30)))
    return file


def test_processes_write_parts_and_a_second_command_resumes(urls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("fetch", urls, "-o", out, "--processes", 2, "--format", "jsonl", "--partition", 10)
    ended = run(*command)
    assert (ended.status, ended.out) == (0, b""), ended.err
    assert [row["size"] for row in rows_of(out)] == list(range(30))
    assert "30 in 3 parts" in ended.err
    assert f"{out}/parts" in ended.err
    again = run(*command, "--summary", "json")
    assert json.loads(again.out)["statuses"] == {"200": 30}


def test_options_reach_the_workers(app: AppServer, tmp_path: Path) -> None:
    file, out = tmp_path / "urls.txt", tmp_path / "out"
    file.write_text(f"{app.url}/headers\n{app.url}/redirect/1\n{app.url}/bytes/50\n")
    arguments = (
        "-H",
        "X-Mine: yes",
        "--no-follow",
        "--max-body",
        40,
        "--per-host",
        3,
        "--breaker",
        9,
    )
    ended = run(
        "fetch",
        file,
        "-o",
        out,
        "--engine",
        "processes",
        "--format",
        "jsonl",
        "-q",
        "--retry",
        1,
        *arguments,
    )
    assert (ended.status, ended.err) == (1, "")
    headers, redirect, large = rows_of(out)
    assert headers["status"] == 200
    assert ("X-Mine", "yes") in app.requests[-1].headers
    assert redirect["status"] == 302
    assert large["error"] == "ResponseTooLarge"


def test_lines_may_be_read_from_stdin(app: AppServer, tmp_path: Path) -> None:
    arguments = ("fetch", "-", "-o", tmp_path / "out", "--processes", 1, "--format", "jsonl", "-q")
    assert run(*arguments, stdin=f"{app.url}\n\n# no\n{app.url}\n".encode()).status == 0
    assert [row["row"] for row in rows_of(tmp_path / "out")] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--processes", 2], "need -o FOLDER"),
        (["--processes", 2, "-o", "out", "--engine", "dask"], "cannot be combined"),
        (["--processes", 2, "-o", "out", "--format", "sqlite"], "parquet or jsonl"),
        (["--processes", 2, "-o", "out", "--overwrite"], "--overwrite cannot be used with"),
        (["--processes", 2, "-o", "out", "-X", "POST"], "--method cannot be used with"),
        (["-o", "out.jsonl", "--partition", 3], "--partition needs"),
        (["-o", "out", "--format", "parquet"], "--format parquet needs"),
        (["-o", "out", "--engine", "hadoop", "--format", "jsonl"], "engine must be"),
    ],
    ids=str,
)
def test_incompatible_options_are_refused(
    urls: Path, arguments: list[object], message: str
) -> None:
    ended = run("fetch", urls, *arguments)
    assert ended.status == 2
    assert message in ended.err


def never(record: Record, conn: AppConnection) -> None:
    conn.read_exactly(1)


def test_ctrl_c_says_how_to_resume(tmp_path: Path) -> None:
    with AppServer() as app:
        app.route("/never", never)
        file = tmp_path / "urls.txt"
        file.write_text(f"{app.url}/never\n")
        options = ("--processes", 1, "--format", "jsonl")
        process = start("fetch", file, "-o", tmp_path / "out", *options)
        assert app.wait_for(lambda: len(app.requests) == 1)
        os.kill(process.pid, signal.SIGINT)
        ended = finish(process)
    assert ended.status == 130
    assert "the same call resumes from there" in ended.err


@pytest.mark.parametrize("kind", ["busy", "idle"])
def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path, kind: str) -> None:
    with AppServer() as app:
        app.route("/never", never)
        file = tmp_path / "urls.txt"
        ready = "/bytes/1" if kind == "idle" else "/never"
        file.write_text(f"{app.url}{ready}\n{app.url}/never\n")
        out = tmp_path / "out"
        options = ("--processes", 2, "--partition", 1, "--format", "jsonl", "--timeout", 600)
        process = start("fetch", file, "-o", out, "-q", *options, start_new_session=True)
        try:
            assert app.wait_for(lambda: len(app.requests) == 2)
            assert app.wait_for(lambda: kind == "busy" or any(out.glob("manifest/0*.json")))
            process.kill()
            # Each worker has the other end of the pipe as well: it ends when they have.
            _, err = process.communicate(timeout=30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, err) == (-signal.SIGKILL, b"")


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_json_lines_are_refused_before_anything_is_sent(
    source: str, app: AppServer, tmp_path: Path
) -> None:
    file, out = tmp_path / "requests.jsonl", tmp_path / "out"
    file.write_text(json.dumps({"url": f"{app.url}/bytes/1"}) + "\n")
    given = (file, None) if source == "file" else ("-", file.read_bytes())
    options = ("--processes", 1, "--format", "jsonl")
    ended = run("fetch", given[0], "-o", out, *options, stdin=given[1])
    assert ended.status == 2
    assert "JSON lines" in ended.err
    assert not list(out.glob("parts/*"))


def test_lines_of_stdin_that_are_not_utf8_are_rows(app: AppServer, tmp_path: Path) -> None:
    lines = f"\ufeff{app.url}/bytes/1\r\n".encode() + b"\xff\xfe\n" + f"{app.url}/bytes/2".encode()
    out = tmp_path / "out"
    ended = run("fetch", "-", "-o", out, "--processes", 1, "--format", "jsonl", stdin=lines)
    assert ended.status == 1, ended.err
    assert [(row["status"], row["size"]) for row in rows_of(out)] == [(200, 1), (None, 0), (200, 2)]


def test_urls_without_a_scheme_get_one_as_for_one_request(app: AppServer, tmp_path: Path) -> None:
    lines = [f"localhost:{app.port}/bytes/1", f":{app.port}/bytes/2", "nope"]
    (tmp_path / "urls.txt").write_text("\n".join(lines))
    out = tmp_path / "out"
    arguments = [tmp_path / "urls.txt", "-o", out, "--processes", 1, "--format", "jsonl"]
    assert run("fetch", *arguments).status == 1
    rows = rows_of(out)
    assert [(row["url"], row["status"]) for row in rows] == [
        (lines[0], 200),
        (lines[1], 200),
        ("nope", None),
    ]
    assert rows[0]["final_url"] == f"http://localhost:{app.port}/bytes/1"
