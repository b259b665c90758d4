"""Run the command line: in this process, in a subprocess, and on a terminal."""

from __future__ import annotations

import base64
import gzip
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from curlhttp.cli.app import app as _app
from tests.support.codings import zstd
from tests.support.internals import ROOT

os.environ["CURLHTTP_CONFIG"] = ""  # without the defaults of whoever runs the tests


class Ended(NamedTuple):
    """How a command ended, and what it wrote."""

    status: int
    out: bytes
    err: str


def run(*arguments: object, stdin: bytes | None = None) -> Ended:
    """Run a command in this process, where nothing is a terminal."""
    result = CliRunner().invoke(_app, list(map(str, arguments)), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout_bytes, result.stderr)


def echoed(*arguments: object) -> dict[str, Any]:
    """Return what a server that echoes got."""
    ended = run(*arguments)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return {**found, "headers": {name.lower(): value for name, value in found["headers"]}}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "curlhttp", *map(str, arguments)]


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in its own process; its output is piped by default."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command(*arguments), cwd=ROOT, **options)


def finish(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Ended:
    try:
        out, err = process.communicate(stdin, timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Ended(process.returncode, out, err.decode())


def on_terminal(*arguments: object, columns: int = 80, **environment: str) -> tuple[int, str]:
    """Run a command on a terminal; return its status and all that the terminal got."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment = {**kept, "TERM": "xterm-256color", **environment}
        process = subprocess.Popen(
            command(*arguments), cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs,
            env=environment, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux: the other side is closed
        pass
    finally:
        os.close(ours)
    return process.wait(120), shown.decode().replace("\r\n", "\n")


# --- fetch ---


def listed(tmp_path: Path, *lines: object) -> Path:
    """Write a list to fetch; what is no string becomes JSON."""
    file = tmp_path / "list"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


def _read_table(out: Path) -> list[dict[str, Any]]:
    from pyarrow import parquet

    rows: list[dict[str, Any]] = parquet.read_table(out).to_pylist()
    for row in rows:
        row["headers"] = dict(row["headers"])
        row["fetched_at"] = row["fetched_at"].isoformat(timespec="milliseconds")
    return sorted(rows, key=lambda row: int(row["line"]))


def _read_warc(out: Path) -> list[dict[str, Any]]:
    """Return the records of a file with the bodies of its responses, as warcio reads and checks."""
    from warcio.archiveiterator import ArchiveIterator

    bodies, found = {}, []
    with out.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            name = record.rec_headers.get_header("WARC-Record-ID")
            if record.rec_type == "response":
                body = record.content_stream().read()
                is_kept = record.rec_headers.get_header("WARC-Truncated") is None
                bodies[name] = body if is_kept else None
            elif record.rec_type == "metadata":
                fields = json.loads(record.content_stream().read())
                response = record.rec_headers.get_header("WARC-Concurrent-To")
                found.append({**fields, "body": bodies.pop(response, None)})
    assert not bodies
    return sorted(found, key=lambda row: int(row["line"]))


FILES = ["out.jsonl", "out", "out.db", "out.jsonl.gz", "out.jsonl.zst"]
FILES += ["out.parquet"] if find_spec("pyarrow") else []
FILES += ["out.warc", "out.warc.gz"] if find_spec("warcio") else []
QUICK = ["out.jsonl", "out", "out.parquet"]  # in the quick run


def recorded(out: Path) -> list[dict[str, Any]]:
    """Return the records of an output, with the body as bytes, in the order of lines."""
    if out.suffix == ".db":
        with closing(sqlite3.connect(out)) as database:
            database.row_factory = sqlite3.Row
            rows = [dict(row) for row in database.execute("SELECT * FROM results ORDER BY line")]
        for row in rows:
            row["headers"] = json.loads(row["headers"])
        return rows
    if out.suffix == ".parquet":
        return _read_table(out)
    if ".warc" in out.name:
        return _read_warc(out)
    index = out / "index.jsonl" if out.is_dir() else out
    content = index.read_bytes()
    if out.suffix == ".gz":
        content = gzip.decompress(content)
    elif out.suffix == ".zst":
        content = zstd.decompress(content)
    records = [json.loads(line) for line in content.decode().split("\n")[:-1]]
    for record in records:
        if "file" in record:
            name = record.pop("file")
            record["body"] = None if name is None else (out / name).read_bytes()
        elif "body_base64" in record:
            record["body"] = base64.b64decode(record.pop("body_base64"))
        elif record["body"] is not None:
            record["body"] = record["body"].encode()
    return sorted(records, key=lambda record: int(record["line"]))
