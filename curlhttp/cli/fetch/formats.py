"""Which kind of output a path means; its opening."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from curlhttp.cli.exits import CommandFailed
from curlhttp.cli.fetch.folder import Folder
from curlhttp.cli.fetch.jsonl import JSONLines
from curlhttp.cli.fetch.output import Mode, Output
from curlhttp.cli.fetch.sqlite import SQLite

__all__ = ["Kind", "kind_of", "open_output"]

Kind: TypeAlias = Literal["jsonl", "folder", "sqlite"]
_SUFFIXES: dict[str, Kind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}


def kind_of(path: Path) -> Kind:
    """Return the kind of output that a path means.

    Raises:
        CommandFailed: its name says nothing.
    """
    if path.is_dir() or not path.suffix:
        return "folder"
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise CommandFailed(f"{path}: say what it is with --format jsonl, folder or sqlite", 2)
    return kind


def open_output(path: Path | None, kind: Kind | None, mode: Mode, *, keeps_bodies: bool) -> Output:
    """Return an output that is ready for records.

    Args:
        path: None for JSONL on stdout.
        kind: None to find it out from the path.
        mode: what to do with what is there already: refuse, go on, or replace it.
        keeps_bodies: bodies are kept as well.

    Raises:
        CommandFailed: it is there and must not be, is something else, or cannot be written.
    """
    if path is None:
        return JSONLines(None, mode, keeps_bodies=keeps_bodies)
    kinds = {"jsonl": JSONLines, "folder": Folder, "sqlite": SQLite}
    return kinds[kind or kind_of(path)](path, mode, keeps_bodies=keeps_bodies)
