"""Records of responses, and their output formats: JSON lines, a folder, or SQLite.

Records are written in batches. If the process is killed, only whole records remain.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

from curlhttp._flow.file_lock import lock_file
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed, translate
from curlhttp.cli.output import escape_json_controls
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._models.response import Response
    from curlhttp.cli.fetch.input import InputLine

Mode: TypeAlias = Literal["new", "resume", "overwrite"]
Kind: TypeAlias = Literal["jsonl", "folder", "sqlite"]
_SUFFIXES: dict[str, Kind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}

_encode = json.JSONEncoder(ensure_ascii=False).encode


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(kw_only=True, slots=True)
class FetchRecord:
    """The result of one line.

    Attributes:
        line: the number of the line.
        fingerprint: see InputLine.
        ok: a response was received, and its status is below 400.
        id: see InputLine.
        method: the method of the request; None if the line is invalid.
        url: the requested URL without user and password; None if the line is invalid.
        final_url: the URL after redirects, or None if there were none.
        status: the status of the response, or None.
        headers: the headers of the response: lists of values by lower-case name.
        error: the name of the exception's class, "BadLine" if the line is invalid, or None.
        message: the message of the error, or None.
        attempts: the number of attempts; 0 if the line is invalid.
        elapsed: the duration of the last attempt in seconds, or None.
        size: the size of the decoded body in bytes.
        fetched_at: when the record was made, in UTC, ISO 8601.
        body: the body of the response, or None.
    """

    line: int
    fingerprint: int
    ok: bool = False
    id: str | int | None = None
    method: str | None = None
    url: str | None = None
    final_url: str | None = None
    status: int | None = None
    headers: dict[str, list[str]] = field(default_factory=dict)
    error: str | None = None
    message: str | None = None
    attempts: int = 0
    elapsed: float | None = None
    size: int = 0
    fetched_at: str = field(default_factory=_now)
    body: bytes | None = None

    @classmethod
    def from_problem(cls, line: InputLine, problem: str) -> FetchRecord:
        """Return the record of an invalid line.

        Args:
            line: the line.
            problem: why it is invalid.
        """
        return cls(
            line=line.number,
            fingerprint=line.fingerprint,
            id=line.id,
            error="BadLine",
            message=problem,
        )

    @classmethod
    def from_outcome(
        cls, line: InputLine, method: str, url: str, outcome: Response | RequestException
    ) -> FetchRecord:
        """Return the record of a request.

        Args:
            line: the line of the request.
            method: the method of the first request.
            url: the URL of the first request, without user and password.
            outcome: a response with its body, or an error.
        """
        record = cls(
            line=line.number,
            fingerprint=line.fingerprint,
            id=line.id,
            method=method,
            url=url,
            attempts=max(1, len(outcome.attempts)),
        )
        timings = outcome.timings
        record.elapsed = None if timings is None else round(timings.total, 6)
        if isinstance(outcome, RequestException):
            record.error = type(outcome).__name__
            record.message = translate(str(outcome))
        else:
            record._fill(outcome)
        return record

    def _fill(self, response: Response) -> None:
        self.status = response.status_code
        self.ok = response.status_code < 400
        self.final_url = response.url if response.url != self.url else None
        self.body = response.content
        self.size = len(self.body)
        for name, value in response.headers.multi_items():
            self.headers.setdefault(name.lower(), []).append(value)

    def fields(self, **more: object) -> dict[str, object]:
        """Return all fields except the body, in order. Resuming depends on the first three.

        Args:
            more: fields to append.
        """
        values = {name: getattr(self, name) for name in self.__slots__ if name != "body"}
        return {**values, "fingerprint": f"{self.fingerprint:08x}", **more}

    def to_json(self, **more: object) -> bytes:
        """Return the record as a line of JSON.

        Args:
            more: fields to append.
        """
        return _encode(self.fields(**more)).encode("utf-8", "replace") + b"\n"

    def body_as_json(self) -> dict[str, str | None]:
        """Return the body as a field: "body" if it is UTF-8, else "body_base64"."""
        if self.body is None:
            return {"body": None}
        try:
            return {"body": self.body.decode()}
        except UnicodeDecodeError:
            return {"body_base64": base64.b64encode(self.body).decode()}


# --- lines that have a record ---

_State: TypeAlias = Literal["new", "done", "failed", "changed"]
_GROWTH = 1 << 16  # entries
_MAX_GAP = 1 << 26  # lines between two recorded lines: 256 MiB


class RecordedLines:
    """Lines that have a record, in four bytes each: the fingerprint, and whether it failed.

    Attributes:
        done: the number of lines that succeeded.
        failed: the number of lines that failed.
    """

    def __init__(self) -> None:
        # Each entry has 30 bits of fingerprint, 1 bit for "failed", and 1 bit for "recorded".
        self._lines = array("I")
        self.done: int = 0
        self.failed: int = 0

    def add(self, number: int, fingerprint: int, ok: bool) -> None:
        """Add a line, or replace it.

        Args:
            number: the number of the line, starting at 1.
            fingerprint: see InputLine.
            ok: it succeeded.

        Raises:
            ValueError: the number or fingerprint is invalid.
        """
        lines = self._lines
        if not (0 < number < len(lines) + _MAX_GAP and 0 <= fingerprint < 1 << 30):
            raise ValueError("the number or fingerprint is invalid")
        if number >= len(lines):
            lines.frombytes(bytes(lines.itemsize * (number + _GROWTH - len(lines))))
        self.remove(number)
        lines[number] = fingerprint << 2 | (not ok) << 1 | 1
        self._count(lines[number], 1)

    def remove(self, number: int) -> None:
        """Remove a line that is fetched again."""
        if number < len(self._lines):
            self._count(self._lines[number], -1)
            self._lines[number] = 0

    def _count(self, entry: int, change: int) -> None:
        if entry & 2:
            self.failed += change
        elif entry:
            self.done += change

    def state(self, number: int, fingerprint: int) -> _State:
        """Return the state of a line. A failed line that was edited afterwards is new.

        Args:
            number: the number of the line.
            fingerprint: the current fingerprint of the line.
        """
        entry = self._lines[number] if number < len(self._lines) else 0
        same = entry >> 2 == fingerprint
        if not entry or (entry & 2 and not same):
            return "new"
        if entry & 2:
            return "failed"
        return "done" if same else "changed"


# --- outputs ---

# A batch is written when it has this many records or bytes of bodies, or is this many seconds old.
_MAX_RECORDS = 500
_MAX_BYTES = 8 * 1024 * 1024
_MAX_AGE = 1.0


class RecordOutput:
    """Collect records, and write them in batches.

    Args:
        keeps_bodies: write bodies as well.

    Attributes:
        recorded: the lines that have a record from earlier runs.
    """

    def __init__(self, *, keeps_bodies: bool) -> None:
        self.keeps_bodies = keeps_bodies
        self.recorded: RecordedLines = RecordedLines()
        self._batch: list[FetchRecord] = []
        self._bytes = 0
        self._due = 0.0

    def add(self, record: FetchRecord) -> None:
        """Add a record, and write the batch if it is due.

        Args:
            record: the record. Its body is dropped if bodies are not kept.
        """
        now = time.monotonic()
        if not self._batch:
            self._due = now + _MAX_AGE
        if not self.keeps_bodies:
            record.body = None
        self._batch.append(record)
        self._bytes += len(record.body or b"")
        if len(self._batch) >= _MAX_RECORDS or self._bytes >= _MAX_BYTES or now >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write the batch.

        Raises:
            CommandFailed: it cannot be written. Earlier batches are complete.
        """
        batch, self._batch, self._bytes = self._batch, [], 0
        if batch:
            self._write(batch)

    def close(self) -> None:
        """Write the batch, and close the files."""
        try:
            self.flush()
        finally:
            self._close()

    def _write(self, batch: list[FetchRecord]) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


def _make_exists_error(path: Path) -> CommandFailed:
    return CommandFailed(
        f"{path} already exists: use --resume to continue, or --overwrite to replace it", 2
    )


# --- JSON lines ---

_match_record = re.compile(
    rb'\{"line": (\d{1,10}), "fingerprint": "([0-9a-f]{8})", "ok": (true|false), '
).match
_BLOCK_SIZE = 1 << 20  # bytes


class _JSONLines(RecordOutput):
    """Append records to a file as whole lines of JSON.

    A line counts as soon as its line feed is written. An incomplete line, left by a kill or a full
    disk, is removed before anything is appended. The file is synced to disk when it is closed.
    After a power failure the last lines may be missing, and are fetched again.

    Args:
        path: the path of the file, or None for stdout.
        mode: see open_output.
        keeps_bodies: write bodies as well.
    """

    def __init__(self, path: Path | None, mode: Mode, *, keeps_bodies: bool) -> None:
        super().__init__(keeps_bodies=keeps_bodies)
        self._path = path
        self._is_terminal = path is None and sys.stdout.isatty()
        self._file = sys.stdout.fileno() if path is None else _open(path, mode)
        if path is not None:
            try:
                _lock(self._file, path)
                if mode == "overwrite":
                    os.ftruncate(self._file, 0)
                self._read(path)
            except BaseException:
                os.close(self._file)
                raise

    def _read(self, path: Path) -> None:
        """Read which lines have a record, and remove an incomplete line at the end."""
        with path.open("rb") as file:
            end = _find_last_line_end(file)
            for number, line in enumerate(_read_lines(file, end), 1):
                try:
                    self._add_recorded(line)
                except ValueError:
                    raise CommandFailed(
                        f"{path}, line {number}: not a record of curlhttp fetch", 2
                    ) from None
        os.ftruncate(self._file, end)

    def _add_recorded(self, line: bytes) -> None:
        """Add the record in a line of the file.

        Raises:
            ValueError: the line is not a record.
        """
        match = _match_record(line)
        if match is None:
            raise ValueError("not a record")
        if self._is_complete(line):
            self.recorded.add(int(match[1]), int(match[2], 16), match[3] == b"true")

    def _is_complete(self, line: bytes) -> bool:
        """Return whether the files that a record names exist."""
        return True

    def _write(self, batch: list[FetchRecord]) -> None:
        left = memoryview(b"".join(map(self._format, batch)))
        start = os.fstat(self._file).st_size
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            if self._path is not None:
                with suppress(OSError):  # a part of a record would be no JSON
                    os.ftruncate(self._file, start)
            raise CommandFailed(
                f"{self._path or 'stdout'}: {error.strerror}", WRITE_ERROR
            ) from None

    def add(self, record: FetchRecord) -> None:
        """Add a record. It is written to stdout at once."""
        super().add(record)
        if self._path is None:
            self.flush()

    def _format(self, record: FetchRecord) -> bytes:
        line = record.to_json(**record.body_as_json())
        return escape_json_controls(line.decode()).encode() if self._is_terminal else line

    def _close(self) -> None:
        if self._path is not None:
            try:
                os.fsync(self._file)
            finally:
                os.close(self._file)


def _open(path: Path, mode: Mode) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags | (os.O_EXCL if mode == "new" else 0), 0o666)
    except FileExistsError:
        raise _make_exists_error(path) from None
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", WRITE_ERROR) from None


def _lock(file: int, path: Path) -> None:
    """Lock the file if the system can, because two runs would fetch and append everything twice."""
    try:
        lock_file(file)
    except BlockingIOError:
        raise CommandFailed(f"{path}: another run is writing to it", WRITE_ERROR) from None


def _find_last_line_end(file: BinaryIO) -> int:
    """Return the offset after the last complete line."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK_SIZE)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _read_lines(file: BinaryIO, end: int) -> Iterator[bytes]:
    file.seek(0)
    while end > 0 and (line := file.readline()):
        end -= len(line)
        if end >= 0:
            yield line


# --- folders ---

_BODY_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_INDEX = "index.jsonl"
_match_body_file = re.compile(r"\d{8,}\.body(\.part)?").fullmatch


class _Folder(_JSONLines):
    """Write bodies to files named by line number, and records to an index of JSON lines.

    A body is written under a temporary name, and renamed before the index mentions it. When a run
    is resumed, a record counts only if the file of its body exists and has the right size.

    Args:
        path: the path of the folder, which is created if it does not exist.
        mode: see open_output.
        keeps_bodies: False to write the index only.
    """

    def __init__(self, path: Path, mode: Mode, *, keeps_bodies: bool) -> None:
        self._folder = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if mode == "new" and any(path.iterdir()):
                raise _make_exists_error(path)
        except OSError as error:
            raise CommandFailed(f"{path}: {error.strerror}", WRITE_ERROR) from None
        super().__init__(path / _INDEX, mode, keeps_bodies=keeps_bodies)
        for file in path.iterdir():  # the index is locked, so there is no other run
            if (found := _match_body_file(file.name)) and (mode == "overwrite" or found[1]):
                file.unlink()

    def _is_complete(self, line: bytes) -> bool:
        try:
            record = json.loads(line)
            name = record["file"]
            return name is None or (self._folder / name).stat().st_size == record["size"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False  # the body is missing, or the record was not written by this class

    def _format(self, record: FetchRecord) -> bytes:
        if record.body is None:
            return record.to_json(file=None)
        return record.to_json(file=f"{record.line:08}.body")

    def add(self, record: FetchRecord) -> None:
        """Write the body, and add the record."""
        if record.body is not None and self.keeps_bodies:
            file = f"{self._folder}{os.sep}{record.line:08}.body"
            try:
                _write_body(f"{file}.part", record.body)
                os.replace(f"{file}.part", file)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(f"{file}.part")
                raise CommandFailed(f"{file}: {error.strerror}", WRITE_ERROR) from None
        super().add(record)


def _write_body(path: str, content: bytes) -> None:
    """Write a file with system calls, which takes half the time of `open`."""
    descriptor = os.open(path, _BODY_FLAGS, 0o666)
    try:
        written = os.write(descriptor, content)
        while written < len(content):  # Linux writes at most 2 GiB per call, and less when the
            written += os.write(descriptor, memoryview(content)[written:])  # disk is nearly full
    finally:
        os.close(descriptor)


# --- SQLite ---

_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    line INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    ok INTEGER NOT NULL,
    id,
    method TEXT,
    url TEXT,
    final_url TEXT,
    status INTEGER,
    headers TEXT,
    error TEXT,
    message TEXT,
    attempts INTEGER NOT NULL,
    elapsed REAL,
    size INTEGER NOT NULL,
    fetched_at TEXT NOT NULL,
    body BLOB
)
"""
_COLUMNS = FetchRecord.__slots__
_INSERT = (
    f"INSERT OR REPLACE INTO results ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_BUSY_TIMEOUT = 10.0  # seconds to wait for another writer


class _SQLite(RecordOutput):
    """Write records as rows of the table `results`, each batch in one transaction.

    The write-ahead log allows others to read during a run. With synchronous=NORMAL, a power failure
    may lose the last transactions, whose lines are fetched again, but does not damage the file.

    Args:
        path: the path of the file.
        mode: see open_output.
        keeps_bodies: write bodies as well.
    """

    def __init__(self, path: Path, mode: Mode, *, keeps_bodies: bool) -> None:
        super().__init__(keeps_bodies=keeps_bodies)
        self._path = path
        if mode == "new" and path.exists():
            raise _make_exists_error(path)
        if mode == "overwrite":
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        try:
            self._database = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None)
        except sqlite3.Error as error:
            raise self._make_failure(error) from None
        try:
            self._open()
        except BaseException as error:
            self._database.close()
            if isinstance(error, sqlite3.Error):
                raise self._make_failure(error) from None
            raise

    def _open(self) -> None:
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(_TABLE)
        for number, fingerprint, ok in self._database.execute(
            "SELECT line, fingerprint, ok FROM results"
        ):
            try:
                self.recorded.add(number, int(fingerprint, 16), bool(ok))
            except (TypeError, ValueError):
                message = f"{self._path}, line {number}: not a record of curlhttp fetch"
                raise CommandFailed(message, 2) from None

    def _write(self, batch: list[FetchRecord]) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(_INSERT, map(_make_row, batch))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._make_failure(error) from None

    def _close(self) -> None:
        self._database.close()

    def _make_failure(self, error: sqlite3.Error) -> CommandFailed:
        return CommandFailed(f"{self._path}: {error}", WRITE_ERROR)


def _make_row(record: FetchRecord) -> list[object]:
    row = {**record.fields(), "body": record.body}
    row["headers"] = json.dumps(record.headers, ensure_ascii=False)
    return [row[name] for name in _COLUMNS]


# --- which format ---


def _get_kind(path: Path) -> Kind:
    """Return the format of a path.

    Raises:
        CommandFailed: its name does not determine it.
    """
    if path.is_dir() or not path.suffix:
        return "folder"
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise CommandFailed(
            f"{path}: the format is unknown: use --format jsonl, folder or sqlite", 2
        )
    return kind


def open_output(
    path: Path | None, kind: Kind | None, mode: Mode, *, keeps_bodies: bool
) -> RecordOutput:
    """Open an output for records.

    Args:
        path: None for JSON lines on stdout.
        kind: the format; None to determine it from the path.
        mode: whether to refuse, resume or overwrite an existing output.
        keeps_bodies: write bodies as well.

    Raises:
        CommandFailed: it exists in mode "new", has another format, or cannot be written.
    """
    if path is None:
        return _JSONLines(None, mode, keeps_bodies=keeps_bodies)
    kinds = {"jsonl": _JSONLines, "folder": _Folder, "sqlite": _SQLite}
    return kinds[kind or _get_kind(path)](path, mode, keeps_bodies=keeps_bodies)
