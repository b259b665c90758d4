"""Records of responses, and their output formats: JSON lines, or a folder.

Records are written in batches. If the process is killed, only whole records remain. `warc`,
`parquet` and `sqlite` have further formats.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias, TypedDict

from curlhttp._features.fetch.compressed_files import compress_pieces
from curlhttp._features.fetch.formats import find_coding
from curlhttp._features.fetch.json_bodies import (
    body_as_json,
    encode_base64,
    encode_utf8,
    group_fields,
    is_utf8,
)
from curlhttp._features.fetch.outcome_facts import get_body, get_facts
from curlhttp._features.fetch.result_files import read_json
from curlhttp._features.file_lock import lock_file
from curlhttp._features.map.bodies import (
    BodyFile,
    discard_large_body,
    open_body_file,
    open_temporary_body,
)
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed, translate
from curlhttp.cli.fetch.recorded import RecordedLines, RetriedFailures
from curlhttp.cli.files import writing
from curlhttp.cli.output import escape_json_controls
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._http.response import Response
    from curlhttp.cli.fetch.input import InputLine

Mode: TypeAlias = Literal["new", "resume", "overwrite"]

_encode = json.JSONEncoder(ensure_ascii=False).encode


def now() -> str:
    """Return the time in UTC, ISO 8601."""
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
        final_url: the URL after redirects, or None if there were none. After an error, the URL of
            the hop that failed.
        status: the status of the response, or None.
        headers: the headers of the response: lists of values by lower-case name.
        error: the name of the exception's class, "BadLine" if the line is invalid, or None.
        message: the message of the error, or None.
        reason: why there is no complete response, in a word of failure_reason(); or None.
        curl_code: libcurl's code for the error, or None.
        request_sent: a byte of the request may have left this machine.
        last_status: the status of the response that failed, such as one whose body ended early.
        retry_after: seconds that the last response asks to wait, or None.
        unchanged: the body is the same as in the earlier run of --since, and not recorded again.
        attempts: the number of attempts; 0 if the line is invalid.
        elapsed: the duration of the last attempt in seconds, or None.
        size: the size of the decoded body in bytes.
        fetched_at: when the record was made, in UTC, ISO 8601.
        body: the body of the response, also in a file if it is large; or None.
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
    reason: str | None = None
    curl_code: int | None = None
    request_sent: bool = False
    last_status: int | None = None
    retry_after: float | None = None
    unchanged: bool = False
    attempts: int = 0
    elapsed: float | None = None
    size: int = 0
    fetched_at: str = field(default_factory=now)
    body: bytes | BodyFile | None = None

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
            reason="invalid",
        )

    @classmethod
    def from_outcome(
        cls,
        line: InputLine,
        method: str,
        url: str,
        outcome: Response | RequestException,
        *,
        file: BodyFile | None = None,
        as_text: bool = False,
    ) -> FetchRecord:
        """Return the record of a request.

        Args:
            line: the line of the request.
            method: the method of the first request.
            url: the URL of the first request, without user and password.
            outcome: a response with its body, or an error.
            file: has the body of the response if it is large.
            as_text: record the body of a text as UTF-8, whatever its charset is.
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
        facts = get_facts(outcome, time.time())
        record.reason, record.curl_code = facts.reason, facts.curl_code
        record.request_sent, record.last_status = facts.request_sent, facts.last_status
        record.final_url = facts.last_url if facts.last_url != url else None
        record.retry_after = facts.retry_after
        if isinstance(outcome, RequestException):
            record.error = type(outcome).__name__
            record.message = translate(str(outcome))
        else:
            record._fill(outcome, file, as_text)
        return record

    def _fill(self, response: Response, file: BodyFile | None, as_text: bool) -> None:
        self.status = response.status_code
        self.ok = response.status_code < 400
        self.body = get_body(response, file, as_text=as_text)
        self.size = len(self.body)
        self.headers = group_fields(response)

    def set_unchanged(self, validators: dict[str, str]) -> None:
        """Note that the server confirmed the validators of an earlier run with a 304.

        Args:
            validators: by lower-case names. They are recorded, so that the next run knows them.
        """
        self.unchanged = self.final_url is None
        self.ok = self.unchanged  # otherwise they are those of another URL
        self.body = None
        for name, value in validators.items():
            self.headers.setdefault(name, [value])

    def fields(self, **more: object) -> dict[str, object]:
        """Return all fields except the body, in order. Resuming depends on the first three.

        Args:
            more: fields to append.
        """
        values = dict(zip(_FIELDS, _get_fields(self), strict=True))
        return {**values, "fingerprint": f"{self.fingerprint:08x}", **more}

    def to_json(self, **more: object) -> bytes:
        """Return the record as a line of JSON.

        Args:
            more: fields to append.
        """
        return _encode(self.fields(**more)).encode("utf-8", "replace") + b"\n"


_FIELDS = tuple(name for name in FetchRecord.__slots__ if name != "body")
_get_fields = attrgetter(*_FIELDS)


def _encode_large(record: FetchRecord, body: BodyFile) -> Iterator[str]:
    """Yield the pieces of a record with a large body, as a line of JSON."""
    yield record.to_json().decode().removesuffix("}\n")
    is_text = is_utf8(body)
    yield ', "body": "' if is_text else ', "body_base64": "'
    yield from encode_utf8(body) if is_text else encode_base64(body)
    yield '"}\n'


# --- outputs ---

# A batch is written when it has this many records or bytes of bodies, or is this many seconds old.
_MAX_RECORDS = 500
_MAX_BYTES = 8 * 1024 * 1024
MAX_AGE = 1.0


class RecordOptions(TypedDict):
    """The arguments of each output."""

    keeps_bodies: bool
    retried: RetriedFailures | None


class RecordOutput:
    """Collect records, and write them in batches.

    Args:
        keeps_bodies: write bodies as well.
        retried: the failures of earlier runs that are fetched again; None for none.

    Attributes:
        recorded: the lines that have a record from earlier runs.
    """

    def __init__(self, *, keeps_bodies: bool, retried: RetriedFailures | None) -> None:
        self.keeps_bodies = keeps_bodies
        self._folder: Path | None = None  # of the output
        self._retried = retried
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
            self._due = now + MAX_AGE
        if not self.keeps_bodies:
            if isinstance(record.body, BodyFile):
                record.body.close()
            record.body = None
        self._batch.append(record)
        self._bytes += len(record.body or b"")
        if len(self._batch) >= _MAX_RECORDS or self._bytes >= _MAX_BYTES or now >= self._due:
            self.flush()

    def flush_if_due(self) -> None:
        """Write the batch if it is old enough.

        Raises:
            CommandFailed: see flush.
        """
        if self._batch and time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write the batch.

        Raises:
            CommandFailed: it cannot be written. Earlier batches are complete.
        """
        batch, self._batch, self._bytes = self._batch, [], 0
        try:
            if batch:
                self._write(batch)
        finally:
            for record in batch:
                if isinstance(record.body, BodyFile):
                    record.body.close()

    def close(self) -> None:
        """Write the batch, and close the files."""
        try:
            self.flush()
        finally:
            self._close()

    def make_body_file(self, line: int) -> BodyFile:
        """Return a file for a large body.

        Args:
            line: of the record.

        Raises:
            OSError: it cannot be created.
        """
        if not self.keeps_bodies:
            return discard_large_body()
        # Next to the output, because the folder of temporary files may be in memory.
        return open_temporary_body(self._folder)

    def _note_recorded(
        self, line: int, fingerprint: str, ok: bool, reason: str | None, status: int | None
    ) -> None:
        """Note a record of an earlier run, from its columns.

        Raises:
            TypeError, ValueError: a column is not valid.
        """
        is_retried = not ok and self._retried is not None and self._retried.include(reason, status)
        self.recorded.add(line, int(fingerprint, 16), bool(ok), is_retried)

    def _write(self, batch: list[FetchRecord]) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


def make_exists_error(path: Path) -> CommandFailed:
    """Return the error for an output that exists already."""
    return CommandFailed(
        f"{path} already exists: use --resume to continue, or --overwrite to replace it", 2
    )


# --- JSON lines ---

_match_record = re.compile(
    rb'\{"line": (\d{1,10}), "fingerprint": "([0-9a-f]{8})", "ok": (true|false), '
).match
_BLOCK_SIZE = 1 << 20  # bytes


class JSONLines(RecordOutput):
    """Append records to a file as whole lines of JSON.

    A line counts as soon as its line feed is written. An incomplete line, left by a kill or a full
    disk, is removed before anything is appended. The file is synced to disk when it is closed.
    After a power failure the last lines may be missing, and are fetched again.

    Args:
        path: the path of the file, or None for stdout.
        mode: see open_output.
        format: of the file. In a compressed one, each batch is a member of gzip or a frame of zstd.
        options: see RecordOutput.
    """

    def __init__(
        self,
        path: Path | None,
        mode: Mode,
        format: str = "jsonl",
        **options: Unpack[RecordOptions],
    ) -> None:
        super().__init__(**options)
        self._path = path
        self._format, self._coding = format, find_coding(format)
        self._folder = None if path is None else path.parent
        self._is_terminal = path is None and sys.stdout.isatty()
        self._file = sys.stdout.fileno() if path is None else open_to_append(path, mode)
        if path is not None:
            try:
                lock_output(self._file, path)
                if mode == "overwrite":
                    os.ftruncate(self._file, 0)
                self._read(path)
            except BaseException:
                os.close(self._file)
                raise

    def _read(self, path: Path) -> None:
        """Read which lines have a record, and remove an incomplete line at the end."""
        with path.open("rb") as file:
            end = self._read_file(file)
        os.ftruncate(self._file, end)

    def _read_file(self, file: BinaryIO) -> int:
        """Read which lines have a record, and return where the last complete record ends."""
        end = 0
        try:
            for number, (line, after) in enumerate(read_json(file, self._format), 1):
                self._read_line(number, line)
                end = after
        except ValueError as error:
            raise CommandFailed(f"{self._path}: {error}", 2) from None
        return end

    def _read_line(self, number: int, line: bytes) -> None:
        """Add the record in a line.

        Args:
            number: of the line or record in the file.
            line: the record as JSON.

        Raises:
            CommandFailed: the line is not a record.
        """
        try:
            self._add_recorded(line)
        except ValueError:
            raise CommandFailed(
                f"{self._path}, line {number}: not a record of curlhttp fetch", 2
            ) from None

    def _add_recorded(self, line: bytes) -> None:
        """Add the record in a line of the file.

        Raises:
            ValueError: the line is not a record.
        """
        match = _match_record(line)
        if match is None:
            raise ValueError("not a record")
        if self._is_complete(line):
            ok = match[3] == b"true"
            is_retried = not ok and self._retried is not None and self._is_retried(line)
            self.recorded.add(int(match[1]), int(match[2], 16), ok, is_retried)

    def _is_retried(self, line: bytes) -> bool:
        """Return whether the failure in a line is fetched again."""
        assert self._retried is not None
        if self._retried.are_all:
            return True
        try:
            record = json.loads(line)
            return self._retried.include(record.get("reason"), record["status"])
        except (ValueError, KeyError, AttributeError, RecursionError):
            return False

    def _is_complete(self, line: bytes) -> bool:
        """Return whether the files that a record names exist."""
        return True

    def _write(self, batch: list[FetchRecord]) -> None:
        self._append(self._encode(batch))

    def _encode(self, batch: list[FetchRecord]) -> Iterable[bytes]:
        """Return the bytes to append for a batch, in pieces."""
        lines = chain.from_iterable(map(self._format_record, batch))
        return compress_pieces(lines, self._coding)

    def _append(self, pieces: Iterable[bytes]) -> None:
        start = os.fstat(self._file).st_size
        try:
            for block in _join(pieces):
                left = memoryview(block)
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

    def _format_record(self, record: FetchRecord) -> Iterable[bytes]:
        if not isinstance(record.body, BodyFile):
            line = record.to_json(**body_as_json(record.body))
            return [escape_json_controls(line.decode()).encode() if self._is_terminal else line]
        pieces = _encode_large(record, record.body)
        return (
            (escape_json_controls(piece) if self._is_terminal else piece).encode()
            for piece in pieces
        )

    def _close(self) -> None:
        if self._path is not None:
            try:
                os.fsync(self._file)
            finally:
                os.close(self._file)


def _join(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces to blocks, so that fewer system calls write them."""
    block, size = list[bytes](), 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK_SIZE:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)


def open_to_append(path: Path, mode: Mode) -> int:
    """Open the file of an output as the mode has it, and return its descriptor."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with writing(path):
        try:
            return os.open(path, flags | (os.O_EXCL if mode == "new" else 0), 0o666)
        except FileExistsError:
            raise make_exists_error(path) from None


def lock_output(file: int, path: Path) -> None:
    """Lock the file if the system can, because two runs would fetch and append everything twice."""
    try:
        lock_file(file)
        is_locked = os.path.samestat(os.fstat(file), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        is_locked = False  # or another run has deleted it meanwhile, as it does with a journal
    if not is_locked:
        raise CommandFailed(f"{path}: another run is writing to it", WRITE_ERROR)


# --- folders ---

_BODY_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_INDEX = "index.jsonl"
_match_body_file = re.compile(r"\d{8,}\.body(\.part)?").fullmatch


class Folder(JSONLines):
    """Write bodies to files named by line number, and records to an index of JSON lines.

    A body is written under a temporary name, a large one as it comes, and renamed before the index
    mentions it. When a run is resumed, a record counts only if the file of its body exists and has
    the right size.

    Args:
        path: the path of the folder, which is created if it does not exist.
        mode: see open_output.
        options: see RecordOutput. Without bodies, only the index is written.
    """

    def __init__(self, path: Path, mode: Mode, **options: Unpack[RecordOptions]) -> None:
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            if mode == "new" and any(path.iterdir()):
                raise make_exists_error(path)
        super().__init__(path / _INDEX, mode, **options)
        for file in path.iterdir():  # the index is locked, so there is no other run
            if (found := _match_body_file(file.name)) and (mode == "overwrite" or found[1]):
                file.unlink()

    def _is_complete(self, line: bytes) -> bool:
        try:
            record = json.loads(line)
            name = record["file"]
            assert self._folder is not None
            return name is None or (self._folder / name).stat().st_size == record["size"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False  # the body is missing, or the record was not written by this class

    def _format_record(self, record: FetchRecord) -> list[bytes]:
        body = record.body
        if body is None:
            return [record.to_json(file=None, sha256=None)]
        digest = body.hexdigest() if isinstance(body, BodyFile) else sha256(body).hexdigest()
        return [record.to_json(file=f"{record.line:08}.body", sha256=digest)]

    def make_body_file(self, line: int) -> BodyFile:
        """Return the file of a body, which gets its final name when it is complete."""
        if not self.keeps_bodies:
            return super().make_body_file(line)
        return open_body_file(Path(f"{self._folder}{os.sep}{line:08}.body.part"))

    def add(self, record: FetchRecord) -> None:
        """Write the body, and add the record."""
        body = record.body
        if body is not None and self.keeps_bodies:
            file = f"{self._folder}{os.sep}{record.line:08}.body"
            try:
                with writing(file):
                    if isinstance(body, BodyFile):
                        body.move(file)
                    else:
                        _write_body(f"{file}.part", body)
                        os.replace(f"{file}.part", file)
            except CommandFailed:
                with suppress(OSError):
                    os.unlink(f"{file}.part")
                raise
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
