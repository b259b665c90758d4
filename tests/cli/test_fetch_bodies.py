"""Large bodies of `curlhttp fetch`: they go to a file as they come, and into each output whole."""

from __future__ import annotations

import gzip
import hashlib
import json
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.test_files import full_disk
from tests.cli.test_resume import whole
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.cli import FILES, QUICK, finish, listed, recorded, run, start
from tests.support.internals import run_script
from tests.support.values import slow_but_for

LARGE = 3_000_001
# Characters of each length, quotes and controls, at any place of a block.
TEXT = ('"\\\n\x00\x7fé€😀</' * (LARGE // 15)).encode()
BODIES = {
    "text": TEXT,
    "binary": payload(LARGE),
    "nearly text": TEXT + b"\xe2\x82",
    "small": b"small",
    "empty": b"",
    "in one go": payload(1 << 18),
    "just streamed": payload(300_000),
    "at the limit": b"x" * (1 << 20),
    "above it": b"x" * ((1 << 20) + 1),
}


@pytest.fixture(params=slow_but_for(QUICK, FILES))
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def serve(app: AppServer) -> list[str]:
    """Serve each of the bodies, and return their URLs."""
    bodies = [*BODIES.values()]
    app.route("/body", lambda record, conn: conn.reply(200, bodies[int(record.args[0])]))
    return [f"{app.url}/body/{number}" for number in range(len(bodies))]


def left_beside(out: Path) -> list[str]:
    """Return the files that are neither the list nor the output, nor files of its bodies."""
    files = {path.name for path in out.parent.rglob("*") if path.is_file()}
    bodies = {f"{number:08}.body" for number in range(1, 100)}
    return sorted(files - bodies - {"list", out.name, "index.jsonl"})


def test_a_body_of_any_size_is_recorded_whole(app: AppServer, tmp_path: Path, out: Path) -> None:
    file = listed(tmp_path, *serve(app))
    assert run("fetch", file, "-o", out, "-c", "3").status == 0
    records = recorded(out)
    assert [record["body"] == body for record, body in zip(records, BODIES.values(), strict=True)]
    assert {record["line"] for record in records if record["body"] not in BODIES.values()} == set()
    assert [record["size"] for record in records] == [len(body) for body in BODIES.values()]
    assert left_beside(out) == []
    app.reset_counts()
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert not app.requests


def test_stdout_gets_large_bodies_too(app: AppServer, tmp_path: Path) -> None:
    ended = finish(start("fetch", listed(tmp_path, *serve(app)), "-c", "1", "-q"))
    records = [json.loads(line) for line in ended.out.decode().split("\n")[:-1]]
    assert records[0]["body"].encode() == TEXT
    assert len(records[1]["body_base64"]) == (LARGE + 2) // 3 * 4


def test_a_record_of_a_folder_names_its_file_and_its_digest(app: AppServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("fetch", listed(tmp_path, *serve(app), app.url + "/nothing-here", "nope"), "-o", out)
    records = [json.loads(line) for line in (out / "index.jsonl").read_text().splitlines()]
    records.sort(key=lambda record: int(record["line"]))
    for record, body in zip(records, BODIES.values(), strict=False):
        assert record["file"] == f"{record['line']:08}.body"
        assert record["sha256"] == hashlib.sha256(body).hexdigest()
        assert (out / record["file"]).read_bytes() == body
    assert (records[-1]["file"], records[-1]["sha256"]) == (None, None)


def test_what_breaks_off_is_sent_again_and_recorded_once(
    app: AppServer, tmp_path: Path, out: Path
) -> None:
    data, cuts = BODIES["binary"], [2_000_000, 300_000, 100]

    def answer(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", str(len(data)))])
        cut = cuts.pop() if cuts else None
        conn.send(data[:cut])
        if cut is not None:
            conn.closing = True
            conn.close()

    app.route("/cut", answer)
    file = listed(tmp_path, app.url + "/cut")
    assert run("fetch", file, "-o", out, "--retry", "3").status == 0
    (record,) = recorded(out)
    assert (record["body"] == data, record["attempts"]) == (True, 4)
    for cut in (2_000_000, 300_000, 100):
        cuts.append(cut)
        assert run("fetch", file, "-o", out, "--overwrite").status == 1
        (record,) = recorded(out)
        assert (record["error"], record["status"]) == ("ChunkedEncodingError", None)
        assert (record["last_status"], record["size"]) == (200, 0)
    assert left_beside(out) == []


def test_a_large_body_is_decoded_limited_and_left_out(app: AppServer, tmp_path: Path) -> None:
    coded = gzip.compress(TEXT)
    fields = [("Content-Encoding", "gzip"), ("Content-Type", "text/plain")]
    app.route("/coded", lambda _, conn: conn.reply(200, coded, fields))
    latin = ("é" * LARGE).encode("latin-1")
    of_latin = [("Content-Type", "text/plain; charset=latin-1")]
    app.route("/latin", lambda _, conn: conn.reply(200, latin, of_latin))
    file, out = listed(tmp_path, app.url + "/coded", app.url + "/latin"), tmp_path / "out.jsonl"
    run("fetch", file, "-o", out, "--text")
    first, second = recorded(out)
    assert first["body"] == TEXT
    assert (second["body"] == latin.decode("latin-1").encode(), second["size"]) == (True, 2 * LARGE)
    run("fetch", file, "-o", out, "--overwrite", "--max-body", "2M")
    assert {record["reason"] for record in recorded(out)} == {"too_large"}
    run("fetch", file, "-o", out, "--overwrite", "--no-body", "--text")
    first, second = recorded(out)
    assert (first["body"], first["size"], second["size"]) == (None, len(TEXT), LARGE)


def test_a_large_body_comes_at_the_rate_of_the_limit(app: AppServer, tmp_path: Path) -> None:
    file, out = listed(tmp_path, f"{app.url}/bytes/{LARGE}?seed=1"), tmp_path / "out.jsonl"
    assert run("fetch", file, "-o", out, "--limit-rate", "5M").status == 0
    (record,) = recorded(out)
    assert record["body"] == payload(LARGE, 1)
    assert record["elapsed"] > 0.4


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for files")
def test_a_full_disk_leaves_no_part_of_a_large_body(
    app: AppServer, tmp_path: Path, out: Path
) -> None:
    # Of a table, only the journal may be too large here.
    lines = [app.url + "/bytes/10", f"{app.url}/bytes/{LARGE}?seed=1"]
    file = listed(tmp_path, *lines)
    with full_disk(2_000_000):
        ended = run("fetch", file, "-o", out, "-c", "1")
    assert ended.status == 23, ended.err
    assert "Traceback" not in ended.err
    assert [*whole(out)] == [1]
    ended = run("fetch", file, "-o", out, "--resume")
    assert ended.status == 0, ended.err
    assert [len(record["body"]) for record in recorded(out)] == [10, LARGE]
    assert left_beside(out) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_each_body_is_there_once_and_whole(
    app: AppServer, tmp_path: Path, out: Path, how: int
) -> None:
    data, begun, released = payload(LARGE), threading.Event(), threading.Event()

    def answer(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", str(len(data)))])
        if record.args[0] != "0" and not released.is_set():
            conn.send(data[: LARGE // 2])
            begun.set()
            released.wait(60)
        else:
            conn.send(data)

    app.route("/slow", answer)
    file = listed(tmp_path, *(f"{app.url}/slow/{number}" for number in range(4)))
    process = start("fetch", file, "-o", out, "-c", "3", "-q")
    assert begun.wait(60)
    process.send_signal(how)
    ended = finish(process)
    assert "Traceback" not in ended.err
    released.set()
    assert run("fetch", file, "-o", out, "--resume").status == 0
    assert [record["body"] == data for record in recorded(out)] == [True] * 4
    assert whole(out) == dict.fromkeys(range(1, 5), 1)
    assert left_beside(out) == []


MEMORY = """
import re, sys
from curlhttp.cli import main
sys.argv[1:1] = ["fetch"]
try:
    main()
except SystemExit as exit:
    assert not exit.code
with open("/proc/self/status") as file:
    status = file.read()
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize("name", ["out.jsonl", "out", "out.jsonl.gz", "coded"])
def test_many_large_bodies_do_not_take_the_memory_of_one(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    block = b"x" * (1 << 20)
    coded = gzip.compress(block * 60)
    assert len(coded) < 1 << 17

    def answer(record: Record, conn: AppConnection) -> None:
        if name == "coded":
            conn.reply(200, coded, [("Content-Encoding", "gzip")])
            return
        conn.begin(200, [("Content-Length", str(60 << 20))])
        for _ in range(60):
            conn.send(block)

    app.route("/huge", answer)
    file = listed(tmp_path, *(f"{app.url}/huge/{number}" for number in range(4)))
    out = tmp_path / name
    peak = int(run_script(MEMORY, str(file), "-o", str(out), "-q"))
    assert peak < 60 + 60  # MiB; what is imported takes up to 60
    assert len(whole(out)) == 4
