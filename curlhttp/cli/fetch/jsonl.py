"""Records as lines of JSON, appended to a file by whole lines.

A line counts from its line feed on: one that a kill or a full disk left torn is cut off before
anything is appended. The file is synced to the disk when it is closed; after a power cut the
last lines may be missing, and are fetched again.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from curlhttp.cli.as_json import escape_controls
from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.fetch.output import Mode, Output, refuse
from curlhttp.cli.fetch.record import FetchRecord

__all__ = ["JSONLines"]

_BEGIN = re.compile(rb'\{"line": (\d{1,10}), "fingerprint": "([0-9a-f]{8})", "ok": (true|false), ')
_PIECE = 1 << 20


class JSONLines(Output):
    """Append records to a file.

    Args:
        path: of the file, or None for stdout.
        mode: see open_output.
        keeps_bodies: bodies are kept as well.
    """

    def __init__(self, path: Path | None, mode: Mode, *, keeps_bodies: bool) -> None:
        super().__init__(keeps_bodies=keeps_bodies)
        self._path = path
        self._is_terminal = path is None and sys.stdout.isatty()
        self._file = sys.stdout.fileno() if path is None else _opened(path, mode)
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
        """Learn what is recorded, and cut off a torn line."""
        with path.open("rb") as file:
            end = _end_of_lines(file)
            for number, line in enumerate(_lines(file, end), 1):
                try:
                    self._learn(line)
                except ValueError:
                    raise CommandFailed(
                        f"{path}, line {number}: this was not written by curlhttp fetch", 2
                    ) from None
        os.ftruncate(self._file, end)

    def _learn(self, line: bytes) -> None:
        """Remember what a line of the file speaks of.

        Raises:
            ValueError: it is none of ours.
        """
        found = _BEGIN.match(line)
        if found is None:
            raise ValueError("no record")
        if self._is_kept(line):
            self.recorded.add(int(found[1]), int(found[2], 16), found[3] == b"true")

    def _is_kept(self, line: bytes) -> bool:
        """Return whether all that a recorded line speaks of is there."""
        return True

    def _keep(self, batch: list[FetchRecord]) -> None:
        left = memoryview(b"".join(map(self._line, batch)))
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandFailed(
                f"{self._path or 'stdout'}: {error.strerror}", WRITE_ERROR
            ) from None

    def add(self, record: FetchRecord) -> None:
        """Take a record; who reads a pipe gets it at once."""
        super().add(record)
        if self._path is None:
            self.flush()

    def _line(self, record: FetchRecord) -> bytes:
        line = record.to_json(**record.body_as_json())
        return escape_controls(line.decode()).encode() if self._is_terminal else line

    def _close(self) -> None:
        if self._path is not None:
            try:
                os.fsync(self._file)
            finally:
                os.close(self._file)


def _opened(path: Path, mode: Mode) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags | (os.O_EXCL if mode == "new" else 0), 0o666)
    except FileExistsError:
        raise refuse(path) from None
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", WRITE_ERROR) from None


def _lock(file: int, path: Path) -> None:
    """Keep a second run out, where the system can: two that append would fetch all twice."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return
    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise CommandFailed(f"{path}: another run is writing to it", WRITE_ERROR) from None
    except OSError:  # not every file system has locks
        return


def _end_of_lines(file: BinaryIO) -> int:
    """Return where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - _PIECE)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def _lines(file: BinaryIO, end: int) -> Iterator[bytes]:
    file.seek(0)
    while end > 0 and (line := file.readline()):
        end -= len(line)
        if end >= 0:
            yield line
