"""The validators of an earlier run, which `since` sends again.

`EarlierRun` keeps them in a temporary database, so that it needs no memory for millions of URLs. It
reads the outputs of `curlhttp fetch`, and the folders of `distributed.fetch`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from curlhttp._features.fetch.conditions import NOT_MODIFIED, VALIDATORS
from curlhttp._features.fetch.formats import MANIFEST, find_kind
from curlhttp._features.fetch.listed_urls import parse_listed
from curlhttp._features.fetch.result_files import read_json
from curlhttp._features.fetch.storage import open_folder, open_input_file
from curlhttp._features.fetch.tables import import_pyarrow

if TYPE_CHECKING:
    from typing import TypedDict

    class _EarlierRecord(TypedDict):
        url: str
        final_url: str | None
        status: int | None
        headers: str | dict[str, list[str]] | list[tuple[str, list[str]]]


_OK = 200
_COLUMNS = ["url", "final_url", "status", "headers"]
_METHOD = "method"  # a column of `curlhttp fetch`
_OF_OTHER_FILES = (ValueError, KeyError, TypeError, AttributeError, EOFError, sqlite3.Error)


class EarlierRun:
    """The ETag and Last-Modified of each URL in the output of an earlier run.

    Args:
        path: the output: a file, a folder, or the fsspec URL of a folder.

    Raises:
        OSError: it cannot be read.
        ImportError: it needs a package that is not installed.
        ValueError: it is no output of a fetch.
    """

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect("")  # a temporary file
        try:
            self._database.execute("CREATE TABLE known (url PRIMARY KEY, fields) WITHOUT ROWID")
            self._database.executemany(
                "INSERT OR REPLACE INTO known VALUES (?, ?)", _read_validators(path)
            )
        except BaseException as error:
            self._database.close()
            if isinstance(error, _OF_OTHER_FILES):
                raise ValueError(f"{path}: not an output of curlhttp fetch") from None
            raise

    def get_validators(self, url: str) -> dict[str, str]:
        """Return the ETag and Last-Modified of a URL, by lower-case names; {} for none.

        Args:
            url: normalized, without user and password.
        """
        query = "SELECT fields FROM known WHERE url = ?"
        found = self._database.execute(query, (url,)).fetchone()
        return json.loads(found[0]) if found else {}

    def find(self, url: str) -> dict[str, str]:
        """Return the validators of a URL as it is in a list."""
        parsed = parse_listed(url)
        return {} if parsed is None else self.get_validators(str(parsed))

    def close(self) -> None:
        """Remove the database."""
        self._database.close()


def _read_validators(path: str) -> Iterator[tuple[str, str]]:
    """Yield each URL that had a usable response, with its validators as JSON."""
    records = _read_parts(path) if open_folder(path).exists(MANIFEST) else _read_records(path)
    for record in records:
        url, status = record["url"], record["status"]
        # The validators of a response after redirects belong to another URL.
        if status not in (_OK, NOT_MODIFIED) or record["final_url"]:
            continue
        headers = record["headers"]
        if isinstance(headers, str):
            headers = json.loads(headers)
        fields = {name: values[-1] for name, values in dict(headers).items() if name in VALIDATORS}
        if fields:
            yield url, json.dumps(fields)


def _read_parts(path: str) -> Iterator[_EarlierRecord]:
    """Yield the rows of distributed.fetch, with URLs as those of `curlhttp fetch`."""
    folder = open_folder(path)
    for name in sorted(folder.names("parts")):
        with open_input_file(folder.path(f"parts/{name}")) as stream:
            for row in _read_file(name, stream):
                parsed = parse_listed(row["url"])
                if parsed is not None:
                    url = str(parsed)
                    final = None if row["final_url"] == url else row["final_url"]
                    yield {**row, "url": url, "final_url": final}


def _read_records(path: str) -> Iterator[_EarlierRecord]:
    """Yield the records of `curlhttp fetch` that are of GET requests."""
    if find_kind(path) == "sqlite":
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        columns = ", ".join(_COLUMNS)
        query = f"SELECT {columns} FROM results WHERE method = 'GET'"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            for values in database.execute(query):
                yield cast("_EarlierRecord", dict(zip(_COLUMNS, values, strict=True)))
        return
    file_path = f"{path}/index.jsonl" if isdir(path) else path
    with open(file_path, "rb") as file:
        for record in _read_file(file_path, file, _METHOD):
            if cast("dict[str, object]", record)[_METHOD] == "GET":
                yield record


def _read_file(name: str, file: BinaryIO, *more: str) -> Iterator[_EarlierRecord]:
    """Yield the records of a file that is no database, or the rows of a part.

    Args:
        name: of the file.
        file: the file.
        more: columns, besides those of all formats.
    """
    format = find_kind(name) or f"jsonl{Path(name).suffix}"
    if format == "parquet":
        _, parquet = import_pyarrow()
        for batch in parquet.ParquetFile(file).iter_batches(columns=[*_COLUMNS, *more]):
            yield from batch.to_pylist()
    else:
        for text, _ in read_json(file, format):
            yield json.loads(text)
