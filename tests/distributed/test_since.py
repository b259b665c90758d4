"""`since`: workers ask only for what changed since an earlier run."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features.fetch.formats import Format
from tests.cli.test_fetch_since import Pages
from tests.distributed.test_bodies import left_over, read_rows
from tests.distributed.test_driver import counted
from tests.distributed.test_fetch import fetched, rows_of
from tests.distributed.test_formats import FORMATS
from tests.servers import AppServer
from tests.support.cli import FILES, listed, recorded, run
from tests.support.values import slow_but_for

KINDS = ("etag", "date", "none")
WITH_PARQUET: list[Format] = [*FORMATS, *(["parquet"] if find_spec("pyarrow") else [])]  # type: ignore[list-item]


def urls_of(app: AppServer) -> list[str]:
    return [f"{app.url}/{kind}" for kind in KINDS]


def get_unchanged(rows: list[dict[str, Any]]) -> list[bool]:
    return [row["unchanged"] for row in rows]


@pytest.mark.parametrize("format", slow_but_for(["jsonl.gz"], WITH_PARQUET))
def test_workers_fetch_only_what_changed(app: AppServer, tmp_path: Path, format: Format) -> None:
    pages, outs = Pages(app), [tmp_path / str(number) for number in range(4)]
    # Without a scheme and with a user, as the workers of an earlier run got them.
    urls = [url.removeprefix("http://") for url in urls_of(app)] + [
        f"http://me:pw@127.0.0.1:{app.port}/etag"
    ]
    settings: dict[str, Any] = {"format": format, "processes": 1}
    fetched(urls, outs[0], **settings)
    assert get_unchanged(read_rows(outs[0], format)) == [False] * 4
    summary = fetched(urls, outs[1], since=outs[0], **settings)
    assert (summary.unchanged, summary.statuses) == (3, {"304": 3, "200": 1})
    assert summary.as_json()["unchanged"] == 3
    assert "3 unchanged since" in str(summary)
    rows = read_rows(outs[1], format)
    assert get_unchanged(rows) == [True, True, False, True]
    for row in rows[:2]:
        assert (row["status"], row["size"], row["body_file"]) == (304, 0, None)
        assert row["body"] in ({b""} if format.startswith("warc") else {None})
    assert rows[2]["body"] == b"none 1"
    again = fetched(urls, outs[2], since=outs[1], **settings)  # a row of a 304 has validators, too
    assert again.unchanged == 3
    pages.version = 2
    fetched(urls, outs[3], since=str(outs[2]), **settings)
    rows = read_rows(outs[3], format)
    assert get_unchanged(rows) == [False, True, False, False]
    assert rows[0]["body"] == b"etag 2"


@pytest.mark.parametrize("name", slow_but_for(["out.jsonl"], FILES))
def test_the_command_takes_outputs_of_one_process_and_of_workers(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    Pages(app)
    file, single, many = listed(tmp_path, *urls_of(app)), tmp_path / name, tmp_path / "many"
    assert run("fetch", file, "-o", single).status == 0
    workers = ("--processes", 1, "--format", "jsonl", "--summary", "json")
    ended = run("fetch", file, "-o", many, "--since", single, *workers)
    assert (ended.status, json.loads(ended.out)["unchanged"]) == (0, 2), ended.err
    back = tmp_path / "back.jsonl"
    assert run("fetch", file, "-o", back, "--since", many).status == 0
    assert get_unchanged(recorded(back)) == [True, True, False]


def test_validators_are_not_used_for_another_url(app: AppServer, tmp_path: Path) -> None:
    Pages(app)
    moved = False
    app.route(
        "/old",
        lambda _, conn: (
            conn.reply(302, headers=[("Location", "/etag")])
            if moved
            else conn.reply(200, b"old", headers=[("ETag", '"v1"')])
        ),
    )
    file = listed(tmp_path, app.url + "/old")
    first, second, third = (tmp_path / str(number) for number in range(3))
    workers = ("--processes", 1, "--format", "jsonl", "-q")
    assert run("fetch", file, "-o", first, *workers).status == 0
    moved = True
    ended = run("fetch", file, "-o", second, "--since", first, *workers)
    assert (ended.status, get_unchanged(rows_of(second))) == (1, [False])
    assert run("fetch", file, "-o", third, "--since", second, *workers).status == 0
    (row,) = rows_of(third)
    assert (row["status"], row["body"]) == (200, "etag 1")


def test_a_condition_of_the_client_is_its_own(app: AppServer, tmp_path: Path) -> None:
    Pages(app)
    fetched([app.url + "/etag"], tmp_path / "1")
    settings: dict[str, Any] = {"headers": {"If-None-Match": '"other"'}, "processes": 1}
    fetched([app.url + "/etag"], tmp_path / "2", since=tmp_path / "1", **settings)
    assert [row["status"] for row in rows_of(tmp_path / "2")] == [200]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "iterable"])
def test_a_call_with_since_resumes_after_a_kill(app: AppServer, tmp_path: Path, kind: str) -> None:
    from tests.distributed.crash_middleware import Killing

    app.route(
        "/page",
        lambda record, conn: (
            conn.reply(304)
            if record.header("if-none-match") == '"v1"'
            else conn.reply(200, b"page", headers=[("ETag", '"v1"')])
        ),
    )
    urls, out = [f"{app.url}/page?n={n}" for n in range(40)], tmp_path / "out"
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(urls))
    fetched(urls[::2], tmp_path / "1", partition=10)
    killing = Killing("=25", tmp_path / "killed", times=2)
    given, since = file if kind == "file" else urls, tmp_path / "1"
    summary = fetched(given, out, partition=10, since=since, middleware=[killing])
    assert (tmp_path / "killed.1").exists()
    assert (summary.rows, summary.unchanged) == (40, 20)
    assert get_unchanged(rows_of(out)) == [True, False] * 20
    assert counted(out) == dict.fromkeys(range(40), 1)
    (out / "manifest" / "00000002.json").unlink()  # as if killed before that
    app.reset_counts()
    again = fetched(given, out, partition=10, since=since, middleware=[killing])
    assert (again.rows, again.unchanged, len(app.requests)) == (40, 20, 10)
    assert get_unchanged(rows_of(out)) == [True, False] * 20
    assert left_over(out) == []
    with pytest.raises(ValueError, match="other settings: since"):
        fetched(given, out, partition=10, middleware=[killing])
    fetched(urls[1::2], tmp_path / "2", partition=10)
    with pytest.raises(ValueError, match="has changed in partition 0, or the output of `since`"):
        fetched(given, out, partition=10, since=tmp_path / "2", middleware=[killing])


def test_the_output_itself_and_other_folders_are_refused(app: AppServer, tmp_path: Path) -> None:
    fetched([app.url], tmp_path / "out")
    app.reset_counts()
    with pytest.raises(ValueError, match="since must be another output"):
        fetched([app.url], tmp_path / "out", since=tmp_path / "out")
    (tmp_path / "text.jsonl").write_text("text of somebody\n")
    with pytest.raises(ValueError, match="not an output of curlhttp fetch"):
        fetched([app.url], tmp_path / "new", since=tmp_path / "text.jsonl")
    with pytest.raises(FileNotFoundError):
        fetched([app.url], tmp_path / "new", since=tmp_path / "nothing")
    assert app.requests == []
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("limits", [{"per_host": 2}, {"dedup": True}], ids=str)
def test_since_goes_with_host_queues_and_dedup(
    app: AppServer, tmp_path: Path, limits: dict[str, Any]
) -> None:
    Pages(app)
    fetched(urls_of(app), tmp_path / "1", **limits)
    summary = fetched(urls_of(app), tmp_path / "2", since=tmp_path / "1", **limits)
    assert (summary.rows, summary.unchanged) == (3, 2)
