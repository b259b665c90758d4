"""Bodies as files of a folder, named by line number, beside an index of records in JSONL.

A body is complete under its name before the index speaks of it: it is written under another one
and renamed. A resume believes the index only as far as the files are there, in their size.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.fetch.jsonl import JSONLines
from curlhttp.cli.fetch.output import Mode, refuse
from curlhttp.cli.fetch.record import FetchRecord

__all__ = ["Folder"]

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
            file = self._folder / f"{record.line:08}.body"
            part = file.with_suffix(".body.part")
            try:
                part.write_bytes(record.body)
                part.replace(file)
            except OSError as error:
                raise CommandFailed(f"{file}: {error.strerror}", WRITE_ERROR) from None
        super().add(record)
