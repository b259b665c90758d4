"""Compressed lists and outputs of `curlhttp fetch`: torn ends, damage, full disks, and WARC."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from curlhttp.cli.errors import CommandFailed
from curlhttp.cli.fetch.records import FetchRecord
from curlhttp.distributed.partition import Partition, TextLines
from curlhttp.distributed.worker import WorkerConfig, pickle_settings, run_partition
from tests.cli.test_files import full_disk
from tests.cli.test_resume import asked, urls, whole
from tests.servers import AppServer
from tests.support.cli import FILES, finish, listed, recorded, run, start
from tests.support.codings import zstd
from tests.support.values import slow_but_for

APPENDED = [name for name in FILES if name not in ("out", "out.db", "out.parquet")]
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": (zstd or zlib).compress,
}


# --- lists ---


@pytest.mark.parametrize("source", ["file", pytest.param("stdin", marks=pytest.mark.slow)])
@pytest.mark.parametrize("coding", CODINGS)
def test_a_compressed_list_is_read(
    app: AppServer, tmp_path: Path, coding: str, source: str
) -> None:
    compress = CODINGS[coding]
    first, *others = urls(app, 30)
    # Of two members, as `cat a.gz b.gz` makes them.
    content = compress(f"{first}\n".encode()) + compress("\n".join(others).encode())
    file, out = tmp_path / "list", tmp_path / "out.jsonl"
    file.write_bytes(content)
    if source == "file":
        assert run("fetch", file, "-o", out).status == 0
    else:
        with file.open("rb") as stdin:
            assert finish(start("fetch", "-", "-o", out, "-q", stdin=stdin)).status == 0
    assert [record["line"] for record in recorded(out)] == [*range(1, 31)]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_compressed_list_that_is_cut_is_an_error_after_its_lines(
    app: AppServer, tmp_path: Path, coding: str
) -> None:
    content = CODINGS[coding]("\n".join(urls(app, 5)).encode())
    file, out = tmp_path / "list", tmp_path / "out.jsonl"
    file.write_bytes(content[: len(content) - 6])
    ended = run("fetch", file, "-o", out)
    assert ended.status == 26
    assert "the compressed list is damaged or cut off" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "line",
    [
        "mailto:ada@example.org",
        "MAILTO:ada@{host}/",
        "javascript:alert(1)",
        "javascript:fetch('http://{host}/')",
        "tel:+1.555.0100",
        "data:text/html,a.b/c",
        "data:a@{host}",
        "about:blank/",
        "urn:isbn:0.1",
        "whatever:b@{host}/",
        '{{"url": "mailto:ada@{host}"}}',
    ],
)
@pytest.mark.parametrize("how", ["fetch", "processes"])
def test_a_link_that_is_no_address_is_not_sent(
    app: AppServer, tmp_path: Path, line: str, how: str
) -> None:
    file = tmp_path / "list"
    file.write_text(line.format(host=f"127.0.0.1:{app.port}"))
    if how == "fetch":
        assert run("fetch", file, "-o", tmp_path / "out.jsonl").status == 1
        (record,) = recorded(tmp_path / "out.jsonl")
        assert (record["error"], record["reason"]) == ("BadLine", "invalid")
    elif not line.startswith("{"):
        config = WorkerConfig(str(tmp_path), "jsonl", 8, None, True, pickle_settings({}))
        source = TextLines(str(file), 0, file.stat().st_size, 0)
        result = run_partition(config, Partition(0, source, "00000000"))
        assert (result.rows, result.statuses) == (1, {})
    assert app.connections == 0


@pytest.mark.parametrize("url", ["mailto:ada@{host}", "javascript:a@{host}", "tel:1@{host}"])
def test_one_request_to_such_a_link_is_refused(app: AppServer, url: str) -> None:
    ended = run("get", url.format(host=f"127.0.0.1:{app.port}"))
    assert ended.status in (1, 3)
    assert app.connections == 0


# --- outputs ---


@pytest.mark.parametrize("name", slow_but_for(["out.jsonl.gz", "out.warc"], APPENDED))
def test_the_union_is_exact_wherever_a_file_was_cut(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    run("fetch", listed(tmp_path, *urls(app, 6)), "-o", out)
    first = out.stat().st_size
    file = listed(tmp_path, *urls(app, 12))
    run("fetch", file, "-o", out, "--resume")
    complete = out.read_bytes()
    chance = random.Random(7)
    cuts = {1, first - 1, first, first + 1, len(complete) - 1}
    cuts |= {chance.randrange(len(complete)) for _ in range(6)}
    for cut in sorted(cuts):
        for tail in (b"", b"\0" * 3000):
            out.write_bytes(complete[:cut] + tail)
            kept = whole(out)
            if cut >= first:
                assert len(kept) >= 6
            app.reset_counts()
            ended = run("fetch", file, "-o", out, "--resume")
            assert ended.status == 0, (cut, ended.err)
            assert sorted(asked(app)) == sorted({*range(1, 13)} - {*kept})
            assert [record["line"] for record in recorded(out)] == [*range(1, 13)]


@pytest.mark.parametrize("name", [name for name in APPENDED if name != "out.jsonl"])
def test_a_file_that_is_damaged_or_of_another_kind_is_not_changed(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    run("fetch", listed(tmp_path, *urls(app, 2)), "-o", out)
    file = listed(tmp_path, *urls(app, 3))
    run("fetch", file, "-o", out, "--resume")
    content = bytearray(out.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 40] = b"\xaa" * 40
    app.reset_counts()
    others = [b"a text of somebody\nelse", gzip.compress(b"x\n")]
    if name != "out.warc":  # whose bodies are not read again
        others.append(bytes(content))
    for other in others:
        out.write_bytes(other)
        ended = run("fetch", file, "-o", out, "--resume")
        assert ended.status == 2, ended.err
        assert out.read_bytes() == other
    assert app.connections == 0


@pytest.mark.parametrize(
    "name", slow_but_for(["out.jsonl.gz", "out.parquet"], [*APPENDED, "out.parquet"])
)
def test_a_full_disk_leaves_whole_records_and_the_run_continues(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    if name not in (*FILES,):
        pytest.skip(reason="pyarrow is missing")
    lines = [f"{app.url}/bytes/9000?n={number}" for number in range(1, 601)]
    file, out = listed(tmp_path, *lines), tmp_path / name
    run("fetch", file, "-o", tmp_path / f"whole-{name}")
    size = (tmp_path / f"whole-{name}").stat().st_size
    # The journal of a table is larger than the table.
    with full_disk(6_700_000 if name == "out.parquet" else size * 9 // 10):
        ended = run("fetch", file, "-o", out)
    assert ended.status == 23, ended.err
    kept = whole(out)
    assert 0 < len(kept) < 600
    app.reset_counts()
    ended = run("fetch", file, "-o", out, "--resume")
    assert ended.status == 0, ended.err
    assert sorted(asked(app)) == sorted({*range(1, 601)} - {*kept})
    records = recorded(out)
    assert [record["line"] for record in records] == [*range(1, 601)]
    assert {len(record["body"]) for record in records} == {9000}
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob("*.journal"))


@pytest.mark.parametrize("name", ["out.warc", "out.warc.gz"])
def test_a_warc_has_responses_that_other_programs_read(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    pytest.importorskip("warcio", reason="warcio is missing")
    from warcio.archiveiterator import ArchiveIterator
    from warcio.checker import Checker

    out = tmp_path / name
    file = listed(tmp_path, app.url + "/gzip", app.url + "/redirect/1", app.url + "/status/404")
    run("fetch", file, "-o", out)
    (plain,) = recorded(out)[:1]
    found = {}
    with out.open("rb") as stream:
        for record in ArchiveIterator(stream):
            if record.rec_type == "response":
                uri = record.rec_headers.get_header("WARC-Target-URI")
                head = record.http_headers
                found[uri] = (head.get_statuscode(), head, record.content_stream().read())
    assert found[app.url + "/"][::2] == ("200", b"hello")
    assert found[app.url + "/status/404"][0] == "404"
    status, head, body = found[app.url + "/gzip"]
    assert body == plain["body"]
    assert (head.get_header("Content-Encoding"), status) == (None, "200")
    assert head.get_header("X-Archive-Orig-Content-Encoding") == "gzip"

    class Arguments:
        inputs = [str(out)]
        verbose = False

    checker = Checker(Arguments)
    checker.process_all()
    assert checker.exit_value == 0


def test_a_parquet_file_has_one_row_for_a_line_that_was_fetched_again(
    app: AppServer, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is missing")
    out = tmp_path / "out.parquet"
    status = 503
    app.route("/changing", lambda _, conn: conn.reply(status))
    file = listed(tmp_path, {"url": app.url + "/changing", "id": 7}, app.url + "/bytes/3", "nope")
    run("fetch", file, "-o", out)
    status = 200
    run("fetch", file, "-o", out, "--resume", "--retry-failed", "5xx")
    first, second, third = recorded(out)
    assert (first["status"], first["id"], len(second["body"])) == (200, "7", 3)
    assert (third["error"], third["request_sent"]) == ("BadLine", False)
    assert (
        json.loads(run("fetch", file, "-o", out, "--resume", "--summary", "json").out)["skipped"]
        == 3
    )


def test_no_other_run_writes_while_the_parquet_file_is_made(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is missing")
    pytest.importorskip("fcntl")
    from curlhttp.cli.fetch.parquet import Parquet

    out, refused = tmp_path / "out.parquet", list[str]()

    class Merging(Parquet):
        def _merge(self) -> None:
            super()._merge()
            with pytest.raises(CommandFailed) as caught:
                Parquet(out, "resume", keeps_bodies=True, retried=None)
            refused.append(str(caught.value))

    output = Merging(out, "new", keeps_bodies=True, retried=None)
    output.add(FetchRecord(line=1, fingerprint=1))
    output.close()
    assert refused == [f"{out}.journal: another run is writing to it"]
    assert [record["line"] for record in recorded(out)] == [1]
    assert list(tmp_path.iterdir()) == [out]
