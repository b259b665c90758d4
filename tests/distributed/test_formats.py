"""Formats of parts, and compressed lists."""

from __future__ import annotations

import bz2
import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features.fetch.formats import Format
from tests.distributed.test_early_end import LINES, Run
from tests.distributed.test_fetch import fetched, rows_of
from tests.servers import AppServer
from tests.support.codings import zstd
from tests.support.values import slow_but_for

FORMATS: list[Format] = ["jsonl", "jsonl.gz", "jsonl.zst"]
FORMATS += ["warc", "warc.gz"] if find_spec("warcio") else []


def read_parts(out: Path, format: str) -> list[dict[str, Any]]:
    """Return the rows of all parts; of WARC with the text of the body, as warcio reads it."""
    rows = []
    for part in (out / "parts").iterdir():
        assert part.name.endswith(f".{format}")
        if format.startswith("warc"):
            rows += read_warc(part)
            continue
        content = part.read_bytes()
        if format == "jsonl.gz":
            content = gzip.decompress(content)
        elif format == "jsonl.zst":
            content = zstd.decompress(content)
        rows += [json.loads(line) for line in content.splitlines()]
    return sorted(rows, key=lambda row: int(row["row"]))


def read_warc(part: Path) -> list[dict[str, Any]]:
    from warcio.archiveiterator import ArchiveIterator

    body, rows = None, []
    with part.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            if record.rec_type == "response":
                body = record.content_stream().read().decode("utf-8", "replace")
            elif record.rec_type == "metadata":
                rows.append({**json.loads(record.content_stream().read()), "body": body})
                body = None
    return rows


@pytest.mark.parametrize("format", slow_but_for(["jsonl.zst", "warc.gz"], FORMATS))
def test_all_formats_have_the_same_rows(app: AppServer, tmp_path: Path, format: Format) -> None:
    urls = [app.url, f"{app.url}/status/404", "nonsense", f"{app.url}/redirect/1"]
    fetched(urls, tmp_path / "lines", processes=1)
    fetched(urls, tmp_path / "out", format=format, processes=1, inline=3)
    rows, expected = read_parts(tmp_path / "out", format), rows_of(tmp_path / "lines")
    for row, line in zip(rows, expected, strict=True):
        for name in ("row", "url", "final_url", "status", "error", "reason", "size"):
            assert row[name] == line[name], name
        if format.startswith("warc"):
            assert row["body"] == line["body"]  # in the part, whatever its size


@pytest.mark.parametrize("format", slow_but_for(["jsonl.zst", "warc.gz"], FORMATS))
def test_a_part_of_each_format_says_which_rows_it_has(
    app: AppServer, tmp_path: Path, format: Format
) -> None:
    run = Run(app, tmp_path, format)
    early = run.run()
    kept = {row["row"] for row in read_parts(run.out, format)}
    assert early.is_early
    assert kept
    _, sent = run.run_to_the_end()
    assert sent == sorted({*range(LINES)} - kept)
    assert [row["row"] for row in read_parts(run.out, format)] == [*range(LINES)]


@pytest.mark.parametrize("coding", slow_but_for(["zstd"], ["gzip", "zstd", "bzip2"]))
def test_a_compressed_list_is_read_and_resumed(app: AppServer, tmp_path: Path, coding: str) -> None:
    compress = {"gzip": gzip.compress, "zstd": zstd.compress, "bzip2": bz2.compress}[coding]
    file, out = tmp_path / "urls.txt", tmp_path / "out"
    lines = [f"{app.url}/bytes/{n}?n={n}" for n in range(30)]
    file.write_bytes(compress("\n".join(["# a comment", *lines]).encode()))
    fetched(file, out, partition=10)
    assert [(row["row"], row["size"]) for row in rows_of(out)] == [(n + 1, n) for n in range(30)]
    app.reset_counts()
    assert fetched(file, out, partition=10).rows == 30
    assert app.requests == []
    file.write_bytes(compress("\n".join(lines).encode()))
    with pytest.raises(ValueError, match="the input has changed"):
        fetched(file, out, partition=10)


def test_compressed_json_lines_are_refused(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "urls.gz"
    file.write_bytes(gzip.compress(json.dumps({"url": app.url}).encode()))
    with pytest.raises(ValueError, match="the input has JSON lines"):
        fetched(file, tmp_path / "out")


def test_a_compressed_list_that_is_cut_is_an_error(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "urls.gz"
    file.write_bytes(gzip.compress(f"{app.url}\n".encode() * 3)[:-6])
    with pytest.raises(OSError, match="damaged or cut off"):
        fetched(file, tmp_path / "out")
