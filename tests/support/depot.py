"""A server of one file that knows ranges of both ends, and every way to get them wrong."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tests.servers import AppConnection, AppServer, Record

DATE = "Tue, 02 Jan 2024 00:00:00 GMT"
MIB = 1024 * 1024
_PATIENCE = 30.0  # seconds until a test hangs no longer


class Asked(NamedTuple):
    """A request for a range.

    Attributes:
        number: of the request, from 0 on.
        start: the first byte that is sent.
        end: the position after the last one.
        is_range: the response is a 206.
    """

    number: int
    start: int
    end: int
    is_range: bool


class Depot:
    """One file on a server, at /file; set its attributes to change how it is served.

    Half of one of four segments is smaller than the least one, so none is divided again.

    Attributes:
        data: the file.
        etag: its ETag, or None.
        modified: its Last-Modified, or None.
        knows_ranges: otherwise each response is the whole file.
        knows_conditions: otherwise If-Range is ignored.
        waits_for: how many ranges must be asked for before a whole file continues.
        cut: returns after how many bytes a response breaks off; None for not at all.
        before: called with each request, and may answer it: then it returns True.
        fields: of each response, in addition.
        asked: the Range of each request.
        ranges: those that were sent.
        sent: bytes of bodies.
        most: the greatest number of responses at once.
        rate: bytes per second of each connection; 0 for no limit.
    """

    def __init__(self, app: AppServer, size: int = 6 * MIB) -> None:
        self.url = app.url + "/file"
        self.data = random.Random(size).randbytes(size)
        self.etag: str | None = '"one"'
        self.modified: str | None = None
        self.knows_ranges = self.knows_conditions = True
        self.waits_for = 3
        self.cut: Callable[[Asked], int | None] = lambda _: None
        self.before: Callable[[Asked, Record, AppConnection], object] = lambda *_: False
        self.change: Callable[[Asked, list[tuple[str, str]]], None] = lambda *_: None
        self.fields: list[tuple[str, str]] = []
        self.asked: list[str | None] = []
        self.ranges: list[tuple[int, int]] = []
        self.rate = 0
        self.sent = self.most = self._now = 0
        self._changed = threading.Condition()
        app.route("/file", self.answer)

    def answer(self, record: Record, conn: AppConnection) -> None:
        data = self.data
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", record.header("range") or "")
        condition = record.header("if-range")
        is_same = condition in (None, self.etag, self.modified) or not self.knows_conditions
        is_range = found is not None and self.knows_ranges and is_same
        start, end = 0, len(data)
        if found is not None and is_range:
            start, end = int(found[1]), min(end, int(found[2] or end) + 1)
        with self._changed:
            asked = Asked(len(self.asked), start, end, is_range)
            self.asked.append(record.header("range"))
            self._now += 1
            self.most = max(self.most, self._now)
            if found is not None:
                self.ranges.append((start, end))
            self._changed.notify_all()
        try:
            if not self.before(asked, record, conn):
                self._send(asked, data, conn)
        finally:
            with self._changed:
                self._now -= 1

    def _send(self, asked: Asked, data: bytes, conn: AppConnection) -> None:
        _, start, end, is_range = asked
        fields = [("Date", DATE), ("Content-Length", str(end - start)), *self.fields]
        fields += [("ETag", self.etag)] if self.etag else []
        fields += [("Last-Modified", self.modified)] if self.modified else []
        if is_range:
            fields.append(("Content-Range", f"bytes {start}-{end - 1}/{len(data)}"))
        self.change(asked, fields)
        conn.begin(206 if is_range else 200, fields)
        cut = self.cut(asked)
        body = data[start:end][:cut]
        head, rest = (body, b"") if is_range or not self.waits_for else (body[:65536], body[65536:])
        with suppress(OSError):  # the client may have enough
            self._push(conn, head)
            if rest:
                self.wait(self.waits_for)
                self._push(conn, rest)
        if cut is not None:
            conn.closing = True
            conn.close()

    def send_part(self, asked: Asked, conn: AppConnection, count: int) -> None:
        """Send the head of a range and its first bytes."""
        _, start, end, _ = asked
        fields = [("ETag", str(self.etag)), ("Content-Length", str(end - start))]
        fields.append(("Content-Range", f"bytes {start}-{end - 1}/{len(self.data)}"))
        conn.begin(206, fields)
        conn.send(self.data[start : min(end, start + count)])

    def _push(self, conn: AppConnection, body: bytes) -> None:
        step = 16384 if self.rate else 65536
        for at in range(0, len(body), step):
            conn.sock.sendall(body[at : at + step])
            with self._changed:
                self.sent += len(body[at : at + step])
            if self.rate:
                time.sleep(step / self.rate)

    def wait(self, ranges: int) -> bool:
        """Wait until so many ranges were asked for; return False, for `before`."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.ranges) >= ranges, _PATIENCE)
        return False
