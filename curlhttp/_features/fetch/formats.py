"""The formats of what a fetch writes: of one file, or of the parts of many workers.

A format is named as the end of its files' names. `curlhttp fetch` has two more: a SQLite database,
and a folder of bodies.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Format: TypeAlias = Literal["jsonl", "jsonl.gz", "jsonl.zst", "parquet", "warc", "warc.gz"]
Kind: TypeAlias = Literal[Format, "folder", "sqlite"]
Coding: TypeAlias = Literal["gzip", "zstd"]

FORMATS: tuple[Format, ...] = get_args(Format)
KINDS: tuple[Kind, ...] = get_args(Kind)
MANIFEST = "manifest/fetch.json"
"""A file in the folder of a fetch with workers."""

_CODINGS: dict[str, Coding] = {".gz": "gzip", ".zst": "zstd"}
_SUFFIXES: dict[str, Kind] = {
    **{f".{name}": name for name in FORMATS},
    ".ndjson": "jsonl",
    ".ndjson.gz": "jsonl.gz",
    ".ndjson.zst": "jsonl.zst",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}


def find_kind(name: str) -> Kind | None:
    """Return the format of a file by its name; None if the name does not determine it."""
    lower = name.lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if lower.endswith(suffix)), None)


def find_coding(name: str) -> Coding | None:
    """Return how a file is compressed, by its name or its format; None if it is not."""
    lower = name.lower()
    return next((coding for end, coding in _CODINGS.items() if lower.endswith(end)), None)


def is_warc(format: str) -> bool:
    """Return whether files of a format have WARC records, not lines."""
    return format in ("warc", "warc.gz")
