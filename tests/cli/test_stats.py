"""--stats of bench and fetch, and what they say about their client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.test_stats import samples_of
from tests.servers import AppServer
from tests.support.cli import run


@pytest.mark.parametrize("rate", [(), ("--rate", "200")], ids=["closed", "open"])
def test_bench_writes_statistics(app: AppServer, tmp_path: Path, rate: tuple[str, ...]) -> None:
    file = tmp_path / "stats.prom"
    ended = run("bench", app.url + "/bytes/9", "-n", 20, "-c", 4, "--stats", file, *rate)
    assert ended.status == 0, ended.err
    found = samples_of(file.read_text())
    assert found["curlhttp_attempts_total", ()] == 24  # with those that open the connections
    assert b"client    24 attempts, 216 B received" in ended.out
    assert [path.name for path in tmp_path.iterdir()] == ["stats.prom"]


def test_fetch_writes_statistics(app: AppServer, tmp_path: Path) -> None:
    urls, file = tmp_path / "urls.txt", tmp_path / "stats.prom"
    urls.write_text(f"{app.url}/bytes/9\n" * 5)
    ended = run("fetch", urls, "-o", tmp_path / "out.jsonl", "--stats", file)
    assert ended.status == 0, ended.err
    assert samples_of(file.read_text())["curlhttp_received_bytes_total", ()] == 45
    assert "client    5 attempts, 45 B received" in ended.err


def test_a_file_that_cannot_be_written_is_found_first(app: AppServer, tmp_path: Path) -> None:
    urls = tmp_path / "urls.txt"
    urls.write_text(f"{app.url}/bytes/9\n")
    ended = run(
        "fetch", urls, "-o", tmp_path / "out.jsonl", "--stats", tmp_path / "none" / "stats.prom"
    )
    assert ended.status != 0
    assert "stats.prom: No such file or directory" in ended.err
    assert not app.requests


def test_workers_have_no_statistics(tmp_path: Path) -> None:
    ended = run("fetch", "-", "--processes", 1, "-o", tmp_path / "out", "--stats", "x", stdin=b"")
    assert ended.status == 2
    assert "--stats cannot be used with" in ended.err
