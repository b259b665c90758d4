"""The formats of the output of `curlhttp fetch`: which one a path has, and how to open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from curlhttp.cli.errors import CommandFailed
from curlhttp.cli.fetch.records import Folder, JSONLines, Mode, RecordOutput, SQLite

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._features.compressed_files import Coding
    from curlhttp.cli.fetch.records import RecordOptions

Kind: TypeAlias = Literal[
    "jsonl", "jsonl.gz", "jsonl.zst", "folder", "sqlite", "parquet", "warc", "warc.gz"
]
KINDS = "jsonl, jsonl.gz, jsonl.zst, folder, sqlite, parquet, warc or warc.gz"
_SUFFIXES: dict[str, Kind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl.gz",
    ".ndjson.gz": "jsonl.gz",
    ".jsonl.zst": "jsonl.zst",
    ".ndjson.zst": "jsonl.zst",
    ".parquet": "parquet",
    ".warc": "warc",
    ".warc.gz": "warc.gz",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}


def _get_kind(path: Path) -> Kind:
    """Return the format of a path.

    Raises:
        CommandFailed: its name does not determine it.
    """
    if path.is_dir() or not path.suffix:
        return "folder"
    name = path.name.lower()
    kinds = [kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix)]
    if not kinds:
        raise CommandFailed(f"{path}: the format is unknown: use --format {KINDS}", 2)
    return kinds[0]


def open_output(
    path: Path | None, kind: Kind | None, mode: Mode, **options: Unpack[RecordOptions]
) -> RecordOutput:
    """Open an output for records.

    Args:
        path: None for JSON lines on stdout.
        kind: the format; None to determine it from the path.
        mode: whether to refuse, resume or overwrite an existing output.
        options: see RecordOutput.

    Raises:
        CommandFailed: it exists in mode "new", has another format, or cannot be written.
    """
    if path is None:
        return JSONLines(None, mode, **options)
    kind = kind or _get_kind(path)
    if kind == "sqlite":
        return SQLite(path, mode, **options)
    if kind == "folder":
        return Folder(path, mode, **options)
    if kind == "jsonl":
        return JSONLines(path, mode, **options)
    try:
        if kind == "parquet":
            from curlhttp.cli.fetch.parquet import Parquet

            return Parquet(path, mode, **options)
        from curlhttp.cli.fetch.compressed import CompressedJSONLines, Warc

        if kind in ("warc", "warc.gz"):
            return Warc(path, mode, is_compressed=kind == "warc.gz", **options)
        coding: Coding = "gzip" if kind == "jsonl.gz" else "zstd"
        return CompressedJSONLines(path, mode, coding=coding, **options)
    except ImportError as error:
        raise CommandFailed(f"{path}: {error}", 2) from None
