"""Outputs of which each batch is a whole member: compressed JSON lines, and WARC."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from curlhttp._features.compressed_files import Coding, compress_pieces, load_zstd, read_lines
from curlhttp._features.warc import Record, join_records, make_info, make_records, read_metadata
from curlhttp.cli.errors import CommandFailed
from curlhttp.cli.fetch.records import FetchRecord, JSONLines, Mode, now

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.cli.fetch.records import RecordOptions


class CompressedJSONLines(JSONLines):
    """Append records as lines of JSON, each batch as a member of gzip or a frame of zstd.

    Args:
        path: the path of the file.
        mode: see open_output.
        coding: of the file.
        options: see RecordOutput.

    Raises:
        ImportError: the module for zstd is not installed.
    """

    def __init__(
        self, path: Path, mode: Mode, *, coding: Coding, **options: Unpack[RecordOptions]
    ) -> None:
        if coding == "zstd":
            load_zstd()
        self._coding = coding
        super().__init__(path, mode, **options)

    def _encode(self, batch: list[FetchRecord]) -> Iterable[bytes]:
        return compress_pieces(super()._encode(batch), self._coding)

    def _read_file(self, file: BinaryIO) -> int:
        end = number = 0
        try:
            for lines, after in read_lines(file, self._coding):
                for line in lines:
                    number += 1
                    self._read_line(number, line)
                end = after
        except ValueError as error:
            raise CommandFailed(f"{self._path}: {error}", 2) from None
        return end


class Warc(JSONLines):
    """Append records to a WARC file: of each response, and of the fields of each record.

    Args:
        path: the path of the file.
        mode: see open_output.
        is_compressed: whether each record is a member of gzip.
        options: see RecordOutput.
    """

    def __init__(
        self, path: Path, mode: Mode, *, is_compressed: bool, **options: Unpack[RecordOptions]
    ) -> None:
        self._is_compressed = is_compressed
        super().__init__(path, mode, **options)
        if os.fstat(self._file).st_size == 0:
            self._append(self._join([make_info(now())]))

    def _encode(self, batch: list[FetchRecord]) -> Iterable[bytes]:
        return self._join(each for record in batch for each in _make_records(record))

    def _join(self, records: Iterable[Record]) -> Iterable[bytes]:
        return join_records(records, is_compressed=self._is_compressed)

    def _read_file(self, file: BinaryIO) -> int:
        end = 0
        try:
            found = read_metadata(file, is_compressed=self._is_compressed)
            for number, (content, after) in enumerate(found, 1):
                self._read_line(number, content)
                end = after
        except ValueError as error:
            raise CommandFailed(f"{self._path}: {error}", 2) from None
        return end


def _make_records(record: FetchRecord) -> list[Record]:
    fields = [(name, value) for name, values in record.headers.items() for value in values]
    return make_records(
        url=record.final_url or record.url,
        date=record.fetched_at,
        status=record.status,
        fields=fields,
        body=record.body,
        metadata=json.dumps(record.fields(), ensure_ascii=False).encode("utf-8", "replace"),
    )
