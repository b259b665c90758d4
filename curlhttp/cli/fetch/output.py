"""The outputs of `curlhttp fetch`: which format a path has, and how to open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._features.fetch.formats import KINDS, Kind, find_kind, is_warc
from curlhttp._features.fetch.result_files import check_installed
from curlhttp.cli.errors import CommandFailed, needing_package
from curlhttp.cli.fetch.records import Folder, JSONLines, Mode, RecordOutput

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.cli.fetch.records import RecordOptions


def _get_kind(path: Path) -> Kind:
    """Return the format of a path.

    Raises:
        CommandFailed: its name does not determine it.
    """
    if path.is_dir() or not path.suffix:
        return "folder"
    kind = find_kind(path.name)
    if kind is None:
        known = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise CommandFailed(f"{path}: the format is unknown: use --format {known}", 2)
    return kind


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
    with needing_package(f"{path}: "):
        check_installed(kind)
    if kind == "sqlite":
        from curlhttp.cli.fetch.sqlite import SQLite

        return SQLite(path, mode, **options)
    if kind == "folder":
        return Folder(path, mode, **options)
    if kind == "parquet":
        from curlhttp.cli.fetch.parquet import Parquet

        return Parquet(path, mode, **options)
    if is_warc(kind):
        from curlhttp.cli.fetch.warc import Warc

        return Warc(path, mode, kind, **options)
    return JSONLines(path, mode, kind, **options)
