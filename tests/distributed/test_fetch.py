"""`distributed.fetch` on the processes of this machine: what is written, and going on."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("lanes", [{}, {"per_host": 3}], ids=["ranges", "lanes"])
def test_lines_of_a_file_that_are_no_urls_count_but_have_no_row(
    app: AppServer, tmp_path: Path, lanes: dict[str, int]
) -> None:
    file = tmp_path / "urls.txt"
    file.write_text(f"\ufeff{app.url}/bytes/1\n\n# a comment\n{app.url}/bytes/2")
    fetched(file, tmp_path / "out", partition=2, **lanes)
    assert [(row["row"], row["size"]) for row in rows_of(tmp_path / "out")] == [(0, 1), (3, 2)]


def test_a_second_call_sends_nothing(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/count/once?n={n}" for n in range(5)]
    first = fetched(urls, tmp_path / "out", partition=2)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").iterdir()}
    again = fetched(urls, tmp_path / "out", partition=2)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").iterdir()}
    assert before == after
    assert (again.rows, again.statuses) == (first.rows, first.statuses)


def test_files_of_others_in_the_folder_stay(app: AppServer, tmp_path: Path) -> None:
    others = tmp_path / "out" / ".tmp-mine"
    others.parent.mkdir()
    others.touch()
    fetched([f"{app.url}/bytes/1"], tmp_path / "out")
    assert others.exists()
