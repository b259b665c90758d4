"""`curlhttp fetch` with --processes and --engine."""

from __future__ import annotations

import base64
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

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


def test_workers_record_text_as_utf_8_and_leave_out_duplicates(
    app: AppServer, tmp_path: Path
) -> None:
    html = '<meta charset="latin1">\xe9'.encode("latin-1")
    types = {"html": [("Content-Type", "text/html")], "picture": [("Content-Type", "image/x")]}
    for name, headers in types.items():
        app.route(f"/{name}", lambda _, conn, h=headers: conn.reply(200, html, headers=h))  # type: ignore[misc]
    file, out = tmp_path / "urls.txt", tmp_path / "out"
    file.write_text(f"{app.url}/html\n{app.url}/picture\n{app.url}/./html#top\n")
    command = ("fetch", file, "-o", out, "--processes", 1, "--format", "jsonl", "-q")
    assert run(*command, "--text", "--dedup").status == 0
    text, data = rows_of(out)
    assert (text["body"], text["size"]) == ('<meta charset="latin1">\xe9', len(html) + 1)
    assert (base64.b64decode(data["body_base64"]), data["size"]) == (html, len(html))
    assert len(app.requests) == 2
    ended = run(*command)
    assert ended.status == 2
    assert "was started with other settings: text, dedup, default_encoding" in ended.err


def test_lines_may_be_read_from_stdin(app: AppServer, tmp_path: Path) -> None:
    arguments = ("fetch", "-", "-o", tmp_path / "out", "--processes", 1, "--format", "jsonl", "-q")
    assert run(*arguments, stdin=f"{app.url}\n\n# no\n{app.url}\n".encode()).status == 0
    assert [row["row"] for row in rows_of(tmp_path / "out")] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--processes", 2], "need -o FOLDER"),
        (["--processes", 2, "-o", "out", "--engine", "dask"], "cannot be combined"),
        (["--processes", 2, "-o", "out", "--format", "sqlite"], "--format is one of jsonl"),
        (["--processes", 2, "-o", "out", "--overwrite"], "--overwrite cannot be used with"),
        (["--processes", 2, "-o", "out", "--retry-failed"], "that is done is never written again"),
        (["--processes", 2, "-o", "out", "-X", "POST"], "--method cannot be used with"),
        (["-o", "out.jsonl", "--partition", 3], "--partition needs"),
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


@pytest.mark.parametrize(
    ("how", "whom", "format"),
    [
        pytest.param(signal.SIGINT, "group", "jsonl", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "driver", "parquet", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "group", "jsonl", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "driver", "jsonl", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_keeps_the_rows_of_parts_that_are_not_complete(
    tmp_path: Path, how: int, whom: str, format: str
) -> None:
    """A terminal and a service manager signal all processes, and `kill` only the first one."""
    if format == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is missing")
    counts = range(1, 121)
    with AppServer() as app:
        app.route("/never", never)
        file, out = tmp_path / "urls.txt", tmp_path / "out"
        lines = [f"{app.url}/bytes/{n}?n={n}" for n in counts]
        lines[20] = lines[90] = f"{app.url}/never?n=0"
        file.write_text("\n".join(lines))
        options = ("-o", out, "--processes", 2, "--partition", 60, "--format", format, "-c", 4)
        for _ in range(2):  # a partition may end early more than once
            app.reset_counts()
            process = start("fetch", file, *options, start_new_session=True)
            assert app.wait_for(lambda: count_stalled(app) == 2, timeout=60)
            (os.kill if whom == "driver" else os.killpg)(process.pid, how)
            ended = finish(process)
            assert ended.status == 128 + how, ended.err
            assert "Traceback" not in ended.err
            assert "the same call resumes from there" in ended.err
        kept = {row["row"] for row in read_rows(out)}
        assert kept
        app.reset_counts()
        app.route("/never", lambda _, conn: conn.reply(200))
        again = run("fetch", file, *options, "--summary", "json")
        assert again.status == 0, again.err
        sent = {int(record.query("n")) - 1 for record in app.requests} - {-1}
    assert not kept & sent
    rows = [row["row"] for row in read_rows(out)]
    assert rows == [*range(120)]
    summary = json.loads(again.out)
    assert (summary["rows"], summary["statuses"]) == (120, {"200": 120})
    assert summary["parts"] == len(list((out / "parts").iterdir()))


def count_stalled(app: AppServer) -> int:
    return sum(record.path == "/never" for record in app.requests)


def read_rows(out: Path) -> list[dict[str, Any]]:
    if not list(out.glob("parts/*.parquet")):
        return rows_of(out) if (out / "parts").exists() else []
    from tests.distributed.test_rows import table_of

    return table_of(out)


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


@pytest.mark.parametrize("more", [(), ("--per-host", 1), ("--dedup",)])
def test_lines_of_stdin_that_are_not_utf8_are_rows(
    app: AppServer, tmp_path: Path, more: tuple[object, ...]
) -> None:
    lines = [f"\ufeff{app.url}/bytes/1\r".encode(), f"{app.url}/bytes/3?\xe9".encode("latin-1")]
    lines += [b"\xff\xfe", b"\xff\xfd", f"{app.url}/bytes/2".encode()]
    out = tmp_path / "out"
    command = ("fetch", "-", "-o", out, "--processes", 1, "--format", "jsonl", *more)
    ended = run(*command, stdin=b"\n".join(lines))
    assert ended.status == 1, ended.err
    sizes = [(row["status"], row["size"]) for row in rows_of(out)]
    assert sizes == [(200, 1), (None, 0), (None, 0), (None, 0), (200, 2)]


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
