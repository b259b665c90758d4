"""The rows of parts: bodies, errors, Parquet, and parts in an object store."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features.fetch.tables import TIMINGS
from curlhttp.distributed.rows import FetchRow, make_field
from tests.distributed.test_fetch import fetched, rows_of
from tests.servers import AppServer, payload, refused_port
from tests.support.internals import ROOT

parquet = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is missing")


def table_of(out: Path) -> list[dict[str, Any]]:
    from pyarrow import dataset

    rows: list[dict[str, Any]] = dataset.dataset(out / "parts").to_table().to_pylist()
    return sorted(rows, key=lambda row: int(row["row"]))


def test_small_bodies_are_in_rows_and_large_ones_in_files(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/bytes/100", f"{app.url}/bytes/101", f"{app.url}/bytes/101?again"]
    fetched(urls, tmp_path / "out", inline=100)
    inline, *large = rows_of(tmp_path / "out")
    assert base64.b64decode(inline["body_base64"]) == payload(100)
    assert inline["body_file"] is None
    digest = hashlib.sha256(payload(101)).hexdigest()
    for row in large:
        assert (row["size"], row["body"]) == (101, None)
        assert row["body_file"] == f"bodies/{digest[:2]}/{digest}"
    assert (tmp_path / "out" / large[0]["body_file"]).read_bytes() == payload(101)


def test_bodies_may_be_left_out(app: AppServer, tmp_path: Path) -> None:
    fetched([f"{app.url}/bytes/100"], tmp_path / "out", inline=10, bodies=False)
    (row,) = rows_of(tmp_path / "out")
    assert (row["size"], row["body"], row["body_file"]) == (100, None, None)
    assert not (tmp_path / "out" / "bodies").exists()


def test_errors_are_rows_with_type_attempts_and_timings(app: AppServer, tmp_path: Path) -> None:
    with refused_port() as port:
        refused = f"http://user:s3cret@127.0.0.1:{port}/"
        urls = [
            refused,
            f"{app.url}/status/503",
            "ftp://u:s3cret@example.org",
            "",
            "http://a:s3cret/b@c",
        ]
        summary = fetched(urls, tmp_path / "out", retry=1)
    no_server, busy, scheme, nothing, malformed = rows_of(tmp_path / "out")
    assert (no_server["error"], no_server["status"]) == ("ConnectionError", None)
    assert no_server["attempts"] == 2
    assert no_server["timings"]["total"] >= 0
    assert no_server["url"] == f"http://127.0.0.1:{port}/"
    assert "s3cret" not in json.dumps([no_server, scheme, malformed])
    assert (busy["status"], busy["error"], busy["attempts"]) == (503, None, 2)
    assert (scheme["error"], scheme["attempts"], scheme["timings"]) == ("InvalidSchema", 0, None)
    assert nothing["error"] == "MissingSchema"
    facts = ("reason", "curl_code", "request_sent", "final_url", "last_status")
    assert [no_server[name] for name in facts] == ["refused", 7, False, None, None]
    assert [scheme[name] for name in facts] == ["invalid", None, False, None, None]
    assert [busy[name] for name in facts] == [None, None, True, None, None]
    assert busy["retry_after"] is None
    assert summary.reasons == {"refused": 1, "invalid": 3}
    assert summary.errors == {
        "ConnectionError": 1,
        "InvalidSchema": 1,
        "MissingSchema": 1,
        "InvalidURL": 1,
    }
    assert summary.statuses == {"503": 1}


@parquet
def test_a_part_of_parquet_has_the_columns_of_jsonl(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/bytes/300", f"{app.url}/redirect/1", "nonsense", f"{app.url}/status/404"]
    fetched(urls, tmp_path / "lines")
    fetched(urls, tmp_path / "table", format="parquet")
    lines, table = rows_of(tmp_path / "lines"), table_of(tmp_path / "table")
    assert len(table) == 4
    for line, row in zip(lines, table, strict=True):
        for name in (
            "row",
            "url",
            "final_url",
            "status",
            "error",
            "message",
            "attempts",
            "size",
            "reason",
            "curl_code",
            "request_sent",
            "last_status",
            "retry_after",
            "unchanged",
        ):
            assert row[name] == line[name], name
        assert set(row) == set(line) - {"body_base64"}
        assert dict(row["headers"]) == line["headers"]
    assert table[0]["body"] == payload(300)
    assert table[0]["timings"].keys() == lines[0]["timings"].keys()
    assert table[0]["fetched_at"].tzinfo is not None


@parquet
@pytest.mark.parametrize(
    "limits",
    [{}, pytest.param({"per_host": 3}, marks=pytest.mark.slow)],
    ids=["ranges", "host queues"],
)
def test_a_column_of_parquet_is_read_by_ranges_of_rows(
    app: AppServer, tmp_path: Path, limits: dict[str, int]
) -> None:
    import pyarrow
    from pyarrow import parquet as file

    urls: list[str | None] = [f"{app.url}/bytes/{n}" for n in range(25)]
    urls[7] = None
    table = pyarrow.table({"id": range(25), "link": urls})
    file.write_table(table, tmp_path / "in.parquet", row_group_size=6)
    fetched(tmp_path / "in.parquet", tmp_path / "out", column="link", partition=4, **limits)
    rows = rows_of(tmp_path / "out")
    assert [row["row"] for row in rows] == [n for n in range(25) if n != 7]
    assert all(row["size"] == row["row"] for row in rows)
    for wrong, message in (("id", "has no strings"), ("nope", "no column 'nope'"), (None, "'url'")):
        with pytest.raises(ValueError, match=message):
            fetched(tmp_path / "in.parquet", tmp_path / "other", column=wrong)
    file.write_table(table.slice(1), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="the input has changed"):
        fetched(tmp_path / "in.parquet", tmp_path / "out", column="link", partition=4, **limits)


@pytest.mark.parametrize("body", [b'a "quote"\\ \n\x00\xc3\xbc\xe2\x80\xa8', b"\xff\xfe", None])
def test_a_line_is_what_json_would_write(body: bytes | None) -> None:
    row = FetchRow(
        7,
        'http://a/"\\\ud800',
        "http://\u00fc/",
        200,
        attempts=2,
        timings=(0, 1e-6, 0.25, 0.0, 12.5, 1e6),
        fields=[make_field('x"Y', "1"), make_field("z", "2"), make_field('x"y', "\u2028\n")],
        size=3,
        body=body,
        fetched_at=1_700_000_000_009,
        request_sent=True,
        retry_after=2.5,
    )
    text = body is None or b"\xff" not in body
    expected: dict[str, Any] = {
        "row": 7,
        "url": 'http://a/"\\?',
        "final_url": "http://\u00fc/",
        "status": 200,
        "error": None,
        "message": None,
        "reason": None,
        "curl_code": None,
        "request_sent": True,
        "last_status": None,
        "retry_after": 2.5,
        "unchanged": False,
        "attempts": 2,
        "timings": dict(zip(TIMINGS, row.timings or (), strict=True)),
        "headers": {'x"y': ["1", "\u2028\n"], "z": ["2"]},
        "size": 3,
        "body": body.decode() if text and body is not None else None,
        "body_file": None,
        "fetched_at": "2023-11-14T22:13:20.009+00:00",
    }
    if not text and body is not None:
        expected["body_base64"] = base64.b64encode(body).decode()
    line = row.to_json()
    assert json.loads(line) == expected
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


# --- object stores ---


@parquet
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_urls_are_read_from_an_object_store_and_parts_written_to_it(
    app: AppServer, format: str
) -> None:
    for package in ("moto.server", "s3fs"):
        pytest.importorskip(package, reason=f"{package} is not installed (extra 'ecosystem')")
    # In its own process: fsspec keeps its threads for good.
    program = [sys.executable, "-m", "tests.distributed.object_store", app.url, format]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
