"""Large bodies: workers write them to files as they come, and into each format whole."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features.fetch.formats import Format
from curlhttp.distributed.partition import Partition, TextLines
from curlhttp.distributed.summary import PartResult
from curlhttp.distributed.worker import StopRequest, WorkerConfig, pickle_settings, run_partition
from tests.cli.test_fetch_bodies import BODIES, LARGE, TEXT, serve
from tests.cli.test_files import full_disk
from tests.distributed.test_fetch import fetched
from tests.distributed.test_formats import FORMATS, read_parts
from tests.distributed.test_rows import table_of
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.cli import finish, run, start
from tests.support.internals import run_script
from tests.support.values import slow_but_for

WITH_PARQUET: list[Format] = [*FORMATS, *(["parquet"] if find_spec("pyarrow") else [])]  # type: ignore[list-item]
DATA = BODIES["binary"]


def partition_of(tmp_path: Path, *lines: str) -> Partition:
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(lines))
    return Partition(0, TextLines(str(file), 0, file.stat().st_size, 0), "00000000")


def run_one(
    tmp_path: Path,
    *lines: str,
    out: str = "",
    format: Format = "jsonl",
    inline: int | None = None,
    bodies: bool = True,
    text: bool = False,
    stop: StopRequest | None = None,
    **settings: Any,
) -> PartResult:
    """Fetch lines in this process, as a worker does it."""
    pickled = pickle_settings(settings)
    path = out or str(tmp_path / "out")
    config = WorkerConfig(path, format, 4, inline, bodies, pickled, as_text=text)
    return run_partition(config, partition_of(tmp_path, *lines), stop=stop)


def read_rows(out: Path, format: Format) -> list[dict[str, Any]]:
    """Return the rows of all parts, each with its body as bytes."""
    if format == "parquet":
        return table_of(out)
    if format.startswith("warc"):
        return read_warc(out)
    rows = read_parts(out, format)
    for row in rows:
        if row["body"] is not None:
            row["body"] = row["body"].encode()
        elif "body_base64" in row:
            row["body"] = base64.b64decode(row.pop("body_base64"))
    return rows


def read_warc(out: Path) -> list[dict[str, Any]]:
    from warcio.archiveiterator import ArchiveIterator

    body, rows = None, []
    for part in (out / "parts").iterdir():
        with part.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                if record.rec_type == "response":
                    body = record.content_stream().read()
                elif record.rec_type == "metadata":
                    rows.append({**json.loads(record.content_stream().read()), "body": body})
                    body = None
    return sorted(rows, key=lambda row: int(row["row"]))


def left_over(out: Path) -> list[str]:
    """Return the names of temporary files."""
    return [path.name for path in out.rglob("*") if "tmp" in path.name]


@pytest.mark.parametrize("format", slow_but_for(["jsonl.gz", "parquet"], WITH_PARQUET))
def test_a_body_of_any_size_is_in_its_row(app: AppServer, tmp_path: Path, format: Format) -> None:
    result = run_one(tmp_path, *serve(app), app.url + "/nothing-here", "nope", format=format)
    rows = read_rows(tmp_path / "out", format)
    assert [row["row"] for row in rows] == [*range(len(BODIES) + 2)]
    for row, (name, body) in zip(rows, BODIES.items(), strict=False):
        assert row["body"] == body, name
        assert (row["size"], row["body_file"], row["status"]) == (len(body), None, 200)
    assert result.size == sum(row["size"] for row in rows)
    assert left_over(tmp_path / "out") == []


@pytest.mark.parametrize("inline", slow_but_for([1 << 20], [10, 1 << 20, LARGE]))
@pytest.mark.parametrize("format", ["jsonl", "warc"])
def test_a_body_above_inline_is_in_a_file_with_its_digest(
    app: AppServer, tmp_path: Path, format: Format, inline: int
) -> None:
    if format not in FORMATS:
        pytest.skip("warcio is missing")
    urls, out = serve(app), tmp_path / "out"
    run_one(tmp_path, *urls, *(url + "?again" for url in urls), format=format, inline=inline)
    names = set()
    for row, body in zip(read_rows(out, format), [*BODIES.values()] * 2, strict=True):
        if format == "warc" or len(body) <= inline:
            assert (row["body"], row["body_file"]) == (body, None)
        else:
            digest = hashlib.sha256(body).hexdigest()
            assert (row["body"], row["body_file"]) == (None, f"bodies/{digest[:2]}/{digest}")
            assert (out / row["body_file"]).read_bytes() == body
            names.add(digest)
    assert {path.name for path in out.rglob("bodies/*/*")} == names
    assert left_over(out) == []


@pytest.mark.parametrize("inline", slow_but_for([100], [None, 100]))
def test_a_remote_folder_gets_large_bodies(app: AppServer, inline: int | None) -> None:
    pytest.importorskip("fsspec", reason="fsspec is missing")
    urls = serve(app)[:4]
    shown = run_script(REMOTE, json.dumps(urls), json.dumps(inline))
    found = json.loads(shown)
    assert found == [hashlib.sha256(body).hexdigest() for body in [*BODIES.values()][:4]]


REMOTE = """
import base64, hashlib, json, pathlib, sys, tempfile
import fsspec
from tests.distributed.test_bodies import run_one

urls, inline = map(json.loads, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    run_one(pathlib.Path(folder), *urls, out="memory://out", inline=inline)
files, found = fsspec.filesystem("memory"), {}
for line in files.cat("/out/parts/part-00000000.jsonl").splitlines():
    row = json.loads(line)
    if row["body_file"]:
        body = files.cat("/out/" + row["body_file"])
    else:
        coded = row.get("body_base64")
        body = row["body"].encode() if coded is None else base64.b64decode(coded)
    found[row["row"]] = hashlib.sha256(body).hexdigest()
print(json.dumps([found[row] for row in sorted(found)]))
"""


def test_large_bodies_are_decoded_limited_and_left_out(app: AppServer, tmp_path: Path) -> None:
    coded, latin = gzip.compress(TEXT), ("é" * LARGE).encode("latin-1")
    of_coded = [("Content-Encoding", "gzip"), ("Content-Type", "text/plain")]
    of_latin = [("Content-Type", "text/plain; charset=latin-1")]
    wide = ("a" * (1 << 20)).encode("utf-16")  # as UTF-8, it is small
    of_wide = [("Content-Type", "text/plain; charset=utf-16")]
    app.route("/coded", lambda _, conn: conn.reply(200, coded, of_coded))
    app.route("/latin", lambda _, conn: conn.reply(200, latin, of_latin))
    app.route("/wide", lambda _, conn: conn.reply(200, wide, of_wide))
    lines = [f"{app.url}/{name}" for name in ("coded", "latin", "wide")]
    run_one(tmp_path, *lines, out=str(tmp_path / "text"), text=True)
    first, second, third = read_rows(tmp_path / "text", "jsonl")
    assert first["body"] == TEXT
    assert (second["body"] == latin.decode("latin-1").encode(), second["size"]) == (True, 2 * LARGE)
    assert (third["body"] == b"a" * (1 << 20), third["size"]) == (True, 1 << 20)
    run_one(tmp_path, *lines, out=str(tmp_path / "limited"), max_response_size=1 << 20)
    rows = read_rows(tmp_path / "limited", "jsonl")
    assert [row["reason"] for row in rows] == ["too_large"] * 3
    run_one(tmp_path, *lines, out=str(tmp_path / "without"), bodies=False, text=True, inline=10)
    first, second, third = read_rows(tmp_path / "without", "jsonl")
    assert (first["body"], first["body_file"], first["size"]) == (None, None, len(TEXT))
    assert second["size"] == LARGE
    assert not list(tmp_path.rglob("bodies/*"))


def test_what_breaks_off_is_sent_again_and_is_there_once(app: AppServer, tmp_path: Path) -> None:
    cuts = [2_000_000, 100]

    def answer(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", str(len(DATA)))])
        cut = cuts.pop() if cuts else None
        conn.send(DATA[:cut])
        if cut is not None:
            conn.closing = True
            conn.close()

    app.route("/cut", answer)
    run_one(tmp_path, app.url + "/cut", out=str(tmp_path / "1"), retry=2, inline=10)
    (row,) = read_rows(tmp_path / "1", "jsonl")
    assert (tmp_path / "1" / row["body_file"]).read_bytes() == DATA
    assert row["attempts"] == 3
    cuts.append(2_000_000)
    run_one(tmp_path, app.url + "/cut", out=str(tmp_path / "2"), inline=10)
    (row,) = read_rows(tmp_path / "2", "jsonl")
    assert (row["error"], row["last_status"], row["size"]) == ("ChunkedEncodingError", 200, 0)
    assert [path.name for path in tmp_path.rglob("bodies/*/*")] == [
        hashlib.sha256(DATA).hexdigest()
    ]
    assert left_over(tmp_path) == []


def tell_size(response: Any) -> None:
    response.headers["X-Size"] = str(len(response.content))


def test_a_hook_sees_a_large_body(app: AppServer, tmp_path: Path) -> None:
    run_one(tmp_path, *serve(app), hooks={"response": [tell_size]}, inline=10)
    rows = read_rows(tmp_path / "out", "jsonl")
    assert [int(row["headers"]["x-size"][0]) for row in rows] == [row["size"] for row in rows]


async def check_size(request: Any, send: Any) -> Any:
    response = await send(request)
    assert len(response.content) == int(response.headers["content-length"])
    return response


def test_an_attempt_middleware_sees_a_large_body(app: AppServer, tmp_path: Path) -> None:
    run_one(tmp_path, *serve(app), attempt_middleware=[check_size])
    assert [row["body"] for row in read_rows(tmp_path / "out", "jsonl")] == [*BODIES.values()]


def test_coalesced_requests_share_a_large_body(app: AppServer, tmp_path: Path) -> None:
    app.route("/shared", lambda _, conn: conn.reply(200, DATA))
    run_one(tmp_path, *[app.url + "/shared"] * 3, coalesce=True)
    assert [row["body"] == DATA for row in read_rows(tmp_path / "out", "jsonl")] == [True] * 3
    assert len(app.requests) == 1


@pytest.mark.parametrize("format", slow_but_for(["jsonl.gz", "parquet"], WITH_PARQUET))
def test_a_part_that_ends_early_says_which_large_rows_it_has(
    app: AppServer, tmp_path: Path, format: Format
) -> None:
    stop, urls = StopRequest(), serve(app)
    first = app.url + "/stop"

    def answer(record: Record, conn: AppConnection) -> None:
        if app.wait_for(lambda: len(app.requests) >= 4):
            stop.is_set = True
        conn.reply(200, DATA)

    app.route("/stop", answer)
    lines = [*urls[:2], first, *urls[2:] * 2]
    early = run_one(tmp_path, *lines, format=format, stop=stop)
    assert early.is_early
    kept = [row["row"] for row in read_rows(tmp_path / "out", format)] if early.rows else []
    app.route("/stop", lambda _, conn: conn.reply(200, DATA))
    app.reset_counts()
    assert run_one(tmp_path, *lines, format=format).rows == len(lines)
    rows = read_rows(tmp_path / "out", format)
    assert [row["row"] for row in rows] == [*range(len(lines))]
    assert len(app.requests) == len(lines) - len(kept)
    assert rows[2]["body"] == DATA


class Stalling:
    """Serve a large body, and stall in its middle until it is released."""

    def __init__(self, app: AppServer) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        app.route("/slow", self._answer)
        self.urls = [f"{app.url}/slow/{number}" for number in range(4)]

    def _answer(self, record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", str(len(DATA)))])
        if record.args[0] != "0" and not self.released.is_set():
            conn.send(DATA[: LARGE // 2])
            self.begun.set()
            self.released.wait(60)
        else:
            conn.send(DATA)


def assert_each_body_once(out: Path, format: Format, inline: int | None) -> None:
    rows = read_rows(out, format)
    assert [row["row"] for row in rows] == [*range(4)]
    if inline is None or format.startswith("warc"):
        assert [row["body"] == DATA for row in rows] == [True] * 4
    else:
        assert {(out / row["body_file"]).read_bytes() == DATA for row in rows} == {True}
        assert len(list(out.rglob("bodies/*/*"))) == 1
    assert left_over(out) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("format", slow_but_for(["jsonl.gz", "parquet"], WITH_PARQUET))
@pytest.mark.parametrize("inline", [None, 100])
def test_a_worker_killed_within_a_large_body_leaves_nothing(
    app: AppServer, tmp_path: Path, format: Format, inline: int | None
) -> None:
    stalling, summaries = Stalling(app), list[Any]()

    def fetch() -> None:
        settings = {"format": format, "inline": inline, "processes": 1}
        summaries.append(fetched(stalling.urls, tmp_path / "out", **settings))

    thread = threading.Thread(target=fetch)
    thread.start()
    try:
        assert stalling.begun.wait(60)
        (process,) = multiprocessing.active_children()
        process.kill()
    finally:
        stalling.released.set()
        thread.join(60)
    assert (summaries[0].rows, summaries[0].statuses) == (4, {"200": 4})
    assert_each_body_once(tmp_path / "out", format, inline)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("format", ["warc", "jsonl"])
def test_after_a_signal_each_large_body_is_there_once_and_whole(
    app: AppServer, tmp_path: Path, format: Format, how: int
) -> None:
    if format not in FORMATS:
        pytest.skip("warcio is missing")
    stalling, file, out = Stalling(app), tmp_path / "urls.txt", tmp_path / "out"
    file.write_text("\n".join(stalling.urls))
    command = ("fetch", file, "-o", out, "--processes", 1, "--format", format, "-q")
    process = start(*command, start_new_session=True)
    assert stalling.begun.wait(60)
    os.killpg(process.pid, how)
    ended = finish(process)
    assert "Traceback" not in ended.err
    stalling.released.set()
    ended = run(*command)
    assert ended.status == 0, ended.err
    assert_each_body_once(out, format, 65_536)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for files")
def test_a_full_disk_names_the_file_and_leaves_no_part_of_it(
    app: AppServer, tmp_path: Path
) -> None:
    file, out = tmp_path / "urls.txt", tmp_path / "out"
    file.write_text(f"{app.url}/bytes/10\n{app.url}/bytes/{LARGE}?seed=1")
    command = ("fetch", file, "-o", out, "--processes", 1, "--format", "jsonl", "-q")
    with full_disk(2_000_000):
        ended = run(*command)
    assert ended.status == 23, ended.err
    assert f"{out}/bodies/" in ended.err
    assert "Traceback" not in ended.err
    assert left_over(out) == []
    assert run(*command).status == 0
    small, large = read_rows(out, "jsonl")
    assert (small["body"], (out / large["body_file"]).read_bytes()) == (
        payload(10),
        payload(LARGE, 1),
    )


MEMORY = """
import pathlib, re, sys
from curlhttp.distributed.worker import read_row_numbers
from tests.distributed.test_bodies import run_one

def read_peak():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s*(\\d+) kB", file.read())[1]) // 1024

url, format, inline, path = sys.argv[1:]
if format == "parquet":
    import pyarrow.parquet
before = read_peak()
lines = [f"{url}/{number}" for number in range(8)]
folder = pathlib.Path(path)
result = run_one(folder, *lines, format=format, inline=int(inline) or None)
assert (result.rows, result.size) == (8, 8 * 60 << 20), result
with open(folder / "out" / "parts" / f"part-00000000.{format}", "rb") as part:
    assert sorted(read_row_numbers(part, format)) == [*range(8)]
print(read_peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize("inline", [0, 65_536])
@pytest.mark.parametrize("format", slow_but_for(["jsonl.gz", "parquet"], WITH_PARQUET))
def test_many_large_bodies_do_not_take_the_memory_of_one(
    app: AppServer, tmp_path: Path, format: Format, inline: int
) -> None:
    """Of a table, a row group is in memory, and Arrow copies it. It is that of one body."""
    block = b"x" * (1 << 20)

    def answer(record: Record, conn: AppConnection) -> None:
        status = 200 if record.args[0] == "0" else 206  # which nobody has asked for
        conn.begin(status, [("Content-Length", str(60 << 20))])
        for _ in range(60):
            conn.send(block)

    app.route("/huge", answer)
    peak = int(run_script(MEMORY, app.url + "/huge", format, str(inline), str(tmp_path)))
    assert peak < (6 * 60 if format == "parquet" and not inline else 60)  # MiB
