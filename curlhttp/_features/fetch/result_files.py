"""The files of results: what their formats need, and how to read all but tables and databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from curlhttp._features.fetch.compressed_files import load_zstd, read_lines
from curlhttp._features.fetch.formats import find_coding, is_warc
from curlhttp._features.fetch.tables import import_pyarrow
from curlhttp._features.fetch.warc import read_metadata


def check_installed(format: str) -> None:
    """Check that the package which a format needs is installed.

    Raises:
        ImportError: it is not.
    """
    if format == "parquet":
        import_pyarrow()
    elif find_coding(format) == "zstd":
        load_zstd()


def read_json(file: BinaryIO, format: str) -> Iterator[tuple[bytes, int]]:
    """Yield the JSON of each result, and the offset up to which the file is whole then.

    Args:
        file: the file. What is cut at its end is left out.
        format: of the file.

    Raises:
        ImportError: the module for zstd is not installed.
        ValueError: the file is damaged, or has another format.
    """
    coding = find_coding(format)
    if is_warc(format):
        return read_metadata(file, is_compressed=coding is not None)
    return read_lines(file, coding)
