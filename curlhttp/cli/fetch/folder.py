"""Bodies as files of a folder, named by line number, beside an index of records in JSONL.

A body is complete under its name before the index speaks of it: it is written under another one
and renamed. A resume believes the index only as far as the files are there, in their size.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.fetch.jsonl import JSONLines
from curlhttp.cli.fetch.output import Mode, refuse
from curlhttp.cli.fetch.record import FetchRecord

__all__ = ["Folder"]

_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_INDEX = "index.jsonl"
_OURS = re.compile(r"\d{8,}\.body(\.part)?").fullmatch


class Folder(JSONLines):
    """Keep bodies in a folder.

    Args:
        path: of the folder, which is made if need be.
        mode: see open_output.
        keeps_bodies: without them there is the index alone.
    """

    def __init__(self, path: Path, mode: Mode, *, keeps_bodies: bool) -> None:
        self._folder = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if mode == "new" and any(path.iterdir()):
                raise refuse(path)
        except OSError as error:
            raise CommandFailed(f"{path}: {error.strerror}", WRITE_ERROR) from None
        super().__init__(path / _INDEX, mode, keeps_bodies=keeps_bodies)
        for file in path.iterdir():  # now that no other run is here
            if (found := _OURS(file.name)) and (mode == "overwrite" or found[1]):
                file.unlink()

    def _is_kept(self, line: bytes) -> bool:
        try:
            record = json.loads(line)
            name = record["file"]
            return name is None or (self._folder / name).stat().st_size == record["size"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False  # there is no body, or this is no record of a folder's

    def _line(self, record: FetchRecord) -> bytes:
        if record.body is None:
            return record.to_json(file=None)
        return record.to_json(file=f"{record.line:08}.body")

    def add(self, record: FetchRecord) -> None:
        """Write the body, and take the record."""
        if record.body is not None and self.keeps_bodies:
            file = f"{self._folder}{os.sep}{record.line:08}.body"
            try:
                _write(f"{file}.part", record.body)
                os.replace(f"{file}.part", file)
            except OSError as error:
                raise CommandFailed(f"{file}: {error.strerror}", WRITE_ERROR) from None
        super().add(record)


def _write(path: str, content: bytes) -> None:
    """Write a file by system calls alone, which is half of the time that `open` takes."""
    descriptor = os.open(path, _FLAGS, 0o666)
    try:
        written = os.write(descriptor, content)
        while written < len(content):  # Linux takes 2 GiB at once; the last write before a full
            written += os.write(descriptor, memoryview(content)[written:])  # disk is cut
    finally:
        os.close(descriptor)
