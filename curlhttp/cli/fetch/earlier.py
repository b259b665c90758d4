"""What `curlhttp fetch` knows of URLs before it sends them: duplicates, and an earlier run.

`EarlierRun` keeps the validators of an earlier output in a temporary database, so that it needs no
memory for millions of URLs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from curlhttp._features.compressed_files import Coding, load_zstd, read_lines
from curlhttp._features.duplicate_urls import DuplicateURLs
from curlhttp._features.warc import read_metadata
from curlhttp.cli.errors import READ_ERROR, CommandFailed
from curlhttp.cli.fetch.input import InputLine

_VALIDATORS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
_UNCHANGED = 304


class DuplicateLines:
    """Find lines whose canonical URL a line before them had; see DuplicateURLs.

    Lines with a method, headers, a body or credentials are requests of their own.
    """

    def __init__(self) -> None:
        self._urls = DuplicateURLs()

    def has(self, line: InputLine) -> bool:
        """Return whether a line before this one had its URL, and remember it."""
        options = line.options
        if line.problem or options.keys() - {"headers"} or options.get("headers"):
            return False
        return self._urls.has(line.url)


class EarlierRun:
    """The ETag and Last-Modified of each URL in the output of an earlier run.

    Args:
        path: the output.

    Raises:
        CommandFailed: it cannot be read, or is no output of fetch.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect("")  # a temporary file
        self._database.execute("CREATE TABLE known (url PRIMARY KEY, fields) WITHOUT ROWID")
        try:
            self._database.executemany(
                "INSERT OR REPLACE INTO known VALUES (?, ?)", _read_validators(path)
            )
        except OSError as error:
            raise CommandFailed(f"{path}: {error.strerror or error}", READ_ERROR) from None
        except ImportError as error:
            raise CommandFailed(f"{path}: {error}", 2) from None
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, sqlite3.Error):
            raise CommandFailed(f"{path}: not an output of curlhttp fetch", 2) from None

    def get_validators(self, url: str) -> dict[str, str]:
        """Return the ETag and Last-Modified of a URL, by lower-case names; {} for none."""
        query = "SELECT fields FROM known WHERE url = ?"
        found = self._database.execute(query, (url,)).fetchone()
        return json.loads(found[0]) if found else {}

    def close(self) -> None:
        """Remove the database."""
        self._database.close()


def make_conditional_headers(validators: dict[str, str]) -> dict[str, str]:
    """Return the header fields that ask for a body only if it has changed (RFC 9110, 13.1)."""
    return {_VALIDATORS[name]: value for name, value in validators.items()}


def _read_validators(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each URL that had a usable response, with its validators as JSON."""
    for record in _read_records(path):
        url, status = record["url"], record["status"]
        # The validators of a response after redirects belong to another URL.
        if record["method"] != "GET" or status not in (200, _UNCHANGED) or record["final_url"]:
            continue
        headers = record["headers"]
        if isinstance(headers, str):
            headers = json.loads(headers)
        fields = {name: values[-1] for name, values in dict(headers).items() if name in _VALIDATORS}
        if fields:
            yield url, json.dumps(fields)


def _read_records(path: Path) -> Iterator[dict[str, Any]]:  # Any: JSON
    name = path.name.lower()
    columns = ["method", "url", "final_url", "status", "headers"]
    if name.endswith(".parquet"):
        from curlhttp.distributed.parquet import import_pyarrow

        _, parquet = import_pyarrow()
        for batch in parquet.ParquetFile(path).iter_batches(columns=columns):
            yield from batch.to_pylist()
        return
    if name.endswith((".db", ".sqlite", ".sqlite3")):
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            for row in database.execute(f"SELECT {', '.join(columns)} FROM results"):
                yield dict(zip(columns, row, strict=True))
        return
    with (path / "index.jsonl" if path.is_dir() else path).open("rb") as file:
        if name.endswith((".warc", ".warc.gz")):
            for content, _ in read_metadata(file, is_compressed=name.endswith(".gz")):
                yield json.loads(content)
            return
        for line in _open_lines(name, file):
            yield json.loads(line)


def _open_lines(name: str, file: BinaryIO) -> Iterable[bytes]:
    coding: Coding | None = (
        "gzip" if name.endswith(".gz") else "zstd" if name.endswith(".zst") else None
    )
    if coding is None:
        return (line for line in file if line.endswith(b"\n"))  # others are cut
    if coding == "zstd":
        load_zstd()
    return (line for lines, _ in read_lines(file, coding) for line in lines)
