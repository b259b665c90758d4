"""The output format WARC: records of each response, and of the fields of each record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._features.fetch.warc import Record, join_records, make_info, make_records
from curlhttp.cli.fetch.records import FetchRecord, JSONLines, Mode, now

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.cli.fetch.records import RecordOptions


class Warc(JSONLines):
    """Append records to a WARC file: of each response, and of the fields of each record.

    Args:
        path: the path of the file.
        mode: see open_output.
        format: of the file.
        options: see RecordOutput.
    """

    def __init__(
        self, path: Path, mode: Mode, format: str, **options: Unpack[RecordOptions]
    ) -> None:
        super().__init__(path, mode, format, **options)
        if os.fstat(self._file).st_size == 0:
            self._append(self._join([make_info(now())]))

    def _encode(self, batch: list[FetchRecord]) -> Iterable[bytes]:
        return self._join(each for record in batch for each in _make_records(record))

    def _join(self, records: Iterable[Record]) -> Iterable[bytes]:
        return join_records(records, is_compressed=self._coding is not None)


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
