"""`distributed.fetch` on local processes: its output and its refusals."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from curlhttp.distributed import fetch
from tests.servers import AppServer


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows of all parts, in the order of the input."""
    found = [
        json.loads(line)
        for part in (out / "parts").iterdir()
        for line in part.read_text().splitlines()
    ]
    return sorted(found, key=lambda row: int(row["row"]))


def fetched(urls: Any, out: Path | str, **settings: Any) -> Any:
    settings = {"format": "jsonl", "processes": 2, "progress": False, **settings}
    return fetch(urls, out, **settings)


def test_each_url_has_a_row(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/bytes/{size}" for size in range(50)]
    summary = fetched(urls, tmp_path / "out", partition=10)
    rows = rows_of(tmp_path / "out")
    assert [row["row"] for row in rows] == list(range(50))
    assert [row["url"] for row in rows] == urls
    assert [row["size"] for row in rows] == list(range(50))
    assert (summary.parts, summary.rows, summary.size) == (5, 50, sum(range(50)))
    assert summary.statuses == {"200": 50}


@pytest.mark.parametrize("limits", [{}, {"per_host": 3}], ids=["ranges", "host queues"])
def test_lines_of_a_file_that_are_no_urls_count_but_have_no_row(
    app: AppServer, tmp_path: Path, limits: dict[str, int]
) -> None:
    file = tmp_path / "urls.txt"
    file.write_text(f"\ufeff{app.url}/bytes/1\n\n# a comment\n{app.url}/bytes/2")
    fetched(file, tmp_path / "out", partition=2, **limits)
    assert [(row["row"], row["size"]) for row in rows_of(tmp_path / "out")] == [(0, 1), (3, 2)]


def test_a_second_call_sends_nothing(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/count/once?n={n}" for n in range(5)]
    first = fetched(urls, tmp_path / "out", partition=2)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").iterdir()}
    again = fetched(urls, tmp_path / "out", partition=2)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").iterdir()}
    assert before == after
    assert (again.rows, again.statuses) == (first.rows, first.statuses)


def test_other_files_in_the_folder_are_kept(app: AppServer, tmp_path: Path) -> None:
    others = tmp_path / "out" / ".tmp-mine"
    others.parent.mkdir()
    others.touch()
    fetched([f"{app.url}/bytes/1"], tmp_path / "out")
    assert others.exists()


# --- what is refused before anything is sent ---


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeuot": 3}, "timeuot"),
        ({"partition": 0}, "partition must be an integer of at least 1"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"processes": 0}, "processes must be"),
        ({"per_host": 0}, "limit must be"),
        ({"rate": 0}, "rate must be"),
        ({"format": "csv"}, "format must be one of 'jsonl', 'jsonl.gz', 'jsonl.zst', 'parquet'"),
        ({"engine": "hadoop"}, "engine must be"),
        ({"engine": 3}, "engine must be"),
        ({"rate_limit": None}, "rate_limit cannot be passed: use per_host and rate"),
        ({"column": "url"}, "column can only be used with"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fetched(["http://localhost/"], tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("urls", "kind", "message"),
    [
        ("https://example.org/", ValueError, "one URL"),
        ("missing.txt", FileNotFoundError, "missing.txt"),
        ("urls.tar.gz", ValueError, "is an archive"),
        (b"https://example.org/", TypeError, "not one URL"),
        (3, TypeError, "not iterable"),
        ([3], TypeError, "URLs only, not int"),
    ],
    ids=str,
)
def test_an_unsuitable_input_is_refused(
    tmp_path: Path, urls: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        fetched(urls, tmp_path / "out")


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    with pytest.raises(PermissionError):
        fetched(["http://localhost/"], tmp_path / "out")


def test_a_full_disk_is_an_error_before_anything_is_sent(
    app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=4096))
    before = len(app.requests)
    with pytest.raises(OSError, match="No space left on device") as caught:
        fetched([app.url], tmp_path / "out")
    assert caught.value.errno == errno.ENOSPC
    assert len(app.requests) == before


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(FileExistsError):
        fetched(["http://localhost/"], tmp_path / "out")


def test_parts_of_something_else_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "out" / "parts").mkdir(parents=True)
    (tmp_path / "out" / "parts" / "mine").write_text("")
    with pytest.raises(ValueError, match="has parts, but no manifest"):
        fetched(["http://localhost/"], tmp_path / "out")


def test_a_manifest_that_cannot_be_read_is_an_error(app: AppServer, tmp_path: Path) -> None:
    fetched([app.url], tmp_path / "out")
    (tmp_path / "out" / "manifest" / "00000000.json").write_text('{"number": ')
    with pytest.raises(ValueError, match=r"00000000\.json: "):
        fetched([app.url], tmp_path / "out")
    (tmp_path / "out" / "manifest" / "fetch.json").write_text("[]")
    with pytest.raises(ValueError, match="is not the manifest of a fetch"):
        fetched([app.url], tmp_path / "out")
