"""Shared by the tests of downloads: a file on a server, and everything that can fail with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.colours import AnyClient

OLD = b"the old file"
OLDER, DATE = "Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT"


async def download(client: AnyClient, url: str, path: Any, **options: Any) -> Any:
    """Call download of a client of any colour."""
    response = client.real.download(url, path, **options)
    return response if client.is_blocking else await response


def left_in(folder: Path) -> list[str]:
    """Return the names of all files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def named_by_a_server(folder: Path) -> list[str]:
    """Return values of Content-Disposition that name unwanted files.

    Args:
        folder: an existing one, which must stay empty.
    """
    return [
        "attachment; filename=evil",
        'attachment; filename="../../evil"',
        f'attachment; filename="{folder}/evil"',
        "attachment; filename*=UTF-8''..%2F..%2Fevil",
    ]


class Shelf:
    """One file on a server, at /file; set its attributes to change how it is served.

    Attributes:
        data: the file.
        etag: its ETag, or None.
        modified: its Last-Modified, or None.
        cuts: after how many bytes the next responses break off; None for not at all.
        has_length: responses have a Content-Length; else they end with the connection.
        ranges: "right"; "none" for a server that knows none; "blind" for one that knows no
            If-Range; or what a wrong 206 says.
        asked: the Range of each request.
    """

    def __init__(self, app: AppServer, size: int = 200_000) -> None:
        self.url = app.url + "/file"
        self.data = payload(size)
        self.etag: str | None = '"one"'
        self.modified: str | None = None
        self.cuts: list[int | None] = []
        self.has_length = True
        self.ranges = "right"
        self.extra: list[tuple[str, str]] = []
        self.asked: list[str | None] = []
        self.conditions: list[str | None] = []
        app.route("/file", self.answer)

    def answer(self, record: Record, conn: AppConnection) -> None:
        self.asked.append(record.header("range"))
        self.conditions.append(record.header("if-range"))
        start = self._start(record)
        if start is not None and start >= len(self.data):
            return conn.reply(416, b"", [("Content-Range", f"bytes */{len(self.data)}")])
        body = self.data[start or 0 :]
        fields = [("Date", DATE), *self.extra]
        fields += [("ETag", self.etag)] if self.etag else []
        fields += [("Last-Modified", self.modified)] if self.modified else []
        if start is not None:
            size = len(self.data)
            fields.append(("Content-Range", f"bytes {start}-{size - 1}/{size}"))
            if self.ranges not in ("right", "blind"):
                fields, body = self._wrong(fields, start)
        if self.has_length:
            fields.append(("Content-Length", str(len(body))))
        conn.begin(206 if start is not None else 200, fields)
        cut = self.cuts.pop(0) if self.cuts else None
        conn.send(body[:cut])
        if cut is not None or not self.has_length:
            conn.closing = True
            conn.close()
        return None

    def _start(self, record: Record) -> int | None:
        found = re.fullmatch(r"bytes=(\d+)-", record.header("range") or "")
        condition = record.header("if-range")
        if found is None or self.ranges == "none":
            return None
        if self.ranges == "right" and condition not in (self.etag, self.modified):
            return None
        return int(found[1])

    def _wrong(
        self, fields: list[tuple[str, str]], start: int
    ) -> tuple[list[tuple[str, str]], bytes]:
        size, body = len(self.data), self.data[start:]
        others = [field for field in fields if field[0] != "Content-Range"]
        wrong: dict[str, Any] = {
            "no Content-Range": (others, body),
            "two Content-Ranges": ([*fields, fields[-1]], body),
            "no numbers": ([*others, ("Content-Range", "bytes a-b/c")], body),
            "another unit": (
                [*others, ("Content-Range", f"items {start}-{size - 1}/{size}")],
                body,
            ),
            "another start": (
                [*others, ("Content-Range", f"bytes {start - 1}-{size - 1}/{size}")],
                self.data[start - 1 :],
            ),
            "too short": (
                [*others, ("Content-Range", f"bytes {start}-{size - 2}/{size}")],
                self.data[start:-1],
            ),
            "another total": (
                [*others, ("Content-Range", f"bytes {start}-{size}/{size + 1}")],
                body + b"!",
            ),
            "no total": ([*others, ("Content-Range", f"bytes {start}-{size - 1}/*")], body),
            "another length": (fields, body + b"!"),
            "a coding": ([*fields, ("Content-Encoding", "gzip")], body),
            "another ETag": ([*fields[:1], ("ETag", '"two"'), fields[-1]], body),
            "no ETag": ([fields[0], fields[-1]], body),
            "several parts": (
                [fields[0], fields[1], ("Content-Type", "multipart/byteranges; boundary=b")],
                b"--b\r\n\r\n" + body + b"\r\n--b--",
            ),
        }
        found: tuple[list[tuple[str, str]], bytes] = wrong[self.ranges]
        return found


WRONG = [
    "no Content-Range",
    "two Content-Ranges",
    "no numbers",
    "another unit",
    "another start",
    "too short",
    "another total",
    "no total",
    "another length",
    "a coding",
    "another ETag",
    "no ETag",
    "several parts",
]
