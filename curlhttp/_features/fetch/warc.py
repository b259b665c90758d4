"""WARC records (ISO 28500:2017, WARC 1.1) of responses, and how to read them back.

Each result is a `response` record, if there is a response, and then a `metadata` record with the
columns of the result as JSON. A result is complete when its metadata record is. Bodies are recorded
as decoded, so the header fields that describe the coded body get the prefix X-Archive-Orig-, as
other archivers do it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import uuid
from base64 import b32encode
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from typing import BinaryIO, Protocol, TypeAlias

from curlhttp._features.fetch.compressed_files import compress_pieces, read_members
from curlhttp._version import __version__

_VERSION = b"WARC/1.1"
_OF_CODED_BODY = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_END = b"\r\n\r\n"
_MAX_HEADER = 1 << 20  # bytes of a line
_is_other = re.compile(rb"\r\nwarc-type:[ \t]*(?!metadata)\w", re.IGNORECASE).search


def _now_as_z(date: str) -> str:
    return date.replace("+00:00", "Z")


def _hash(pieces: Iterable[bytes]) -> str:
    hasher = hashlib.sha1(usedforsecurity=False)
    for piece in pieces:
        hasher.update(piece)
    return f"sha1:{b32encode(hasher.digest()).decode()}"


class BodyOnDisk(Protocol):
    """A body that is not in memory."""

    def __len__(self) -> int: ...

    def pieces(self) -> Iterator[bytes]:
        """Read it from its begin."""


Record: TypeAlias = Iterable[bytes]
"""The pieces of a record, which can be iterated over once."""


def _make_record(
    kind: str,
    content_type: str,
    block: bytes,
    date: str,
    fields: Iterable[tuple[str, str | None]],
    body: BodyOnDisk | None = None,
) -> tuple[str, Record]:
    """Return the ID of a record, and the record.

    Args:
        kind: its WARC-Type.
        content_type: of the block.
        block: its content, or the begin of that.
        date: see make_records.
        fields: of its header.
        body: the rest of the content, or None.
    """
    name = f"<urn:uuid:{uuid.uuid4()}>"
    size, rest = (0, iter(())) if body is None else (len(body), body.pieces())
    all_fields = [
        ("WARC-Type", kind),
        ("WARC-Record-ID", name),
        ("WARC-Date", _now_as_z(date)),
        *fields,
        ("Content-Type", content_type),
        ("WARC-Block-Digest", _hash(chain([block], rest))),
        ("Content-Length", str(len(block) + size)),
    ]
    lines = [f"{key}: {value}" for key, value in all_fields if value is not None]
    head = "\r\n".join(lines).encode("utf-8", "replace")
    begin = b"".join([_VERSION, b"\r\n", head, _END, block])
    if body is None:
        return name, [begin + _END]
    return name, chain([begin], body.pieces(), [_END])


def make_info(date: str) -> Record:
    """Return the record at the begin of a file.

    Args:
        date: ISO 8601, in UTC.
    """
    text = f"software: curlhttp/{__version__}\r\nformat: WARC File Format 1.1\r\n"
    return _make_record("warcinfo", "application/warc-fields", text.encode(), date, [])[1]


def make_records(
    *,
    url: str | None,
    date: str,
    status: int | None,
    fields: Iterable[tuple[str, str]],
    body: bytes | BodyOnDisk | None,
    metadata: bytes,
) -> list[Record]:
    """Return the records of a result.

    Args:
        url: of the response, or of the request; None for none.
        date: when it was fetched, ISO 8601, in UTC.
        status: of the response, None if there is none.
        fields: of the header of the response.
        body: decoded; None if it is not recorded.
        metadata: the columns of the result, as JSON.
    """
    records: list[Record] = []
    target = ("WARC-Target-URI", url)
    name = None
    if status is not None:
        in_memory, stored = (body or b"", None) if isinstance(body, bytes | None) else (b"", body)
        block = _make_head(status, fields, len(body or b"")) + in_memory
        digest = _hash([in_memory] if stored is None else stored.pieces())
        more = [target, ("WARC-Payload-Digest", digest)]
        if body is None:
            more.append(("WARC-Truncated", "unspecified"))
        http = "application/http; msgtype=response"
        name, record = _make_record("response", http, block, date, more, stored)
        records.append(record)
    more = [target, ("WARC-Concurrent-To", name)]
    records.append(_make_record("metadata", "application/json", metadata, date, more)[1])
    return records


def _make_head(status: int, fields: Iterable[tuple[str, str]], size: int) -> bytes:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {status} {reason}"]
    for name, value in fields:
        shown = f"X-Archive-Orig-{name}" if name.lower() in _OF_CODED_BODY else name
        lines.append(f"{shown}: {' '.join(value.splitlines())}")
    lines.append(f"Content-Length: {size}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + _END


def join_records(records: Iterable[Record], *, is_compressed: bool) -> Iterator[bytes]:
    """Yield the bytes of records in a file.

    Args:
        records: in order.
        is_compressed: make each a member of gzip, as readers of WARC expect it (annex D).
    """
    for record in records:
        yield from compress_pieces(record, "gzip") if is_compressed else record


def read_metadata(file: BinaryIO, *, is_compressed: bool) -> Iterator[tuple[bytes, int]]:
    """Yield the JSON of each metadata record, and the offset after the record.

    Args:
        file: the file. A record that is cut at its end is left out.
        is_compressed: whether each record is a member of gzip.

    Raises:
        ValueError: the file is damaged, or no WARC.
    """
    if not is_compressed:
        yield from _read_plain(file)
        return
    pieces: list[bytes] = []
    for piece in read_members(file, "gzip"):
        if isinstance(piece, bytes):
            if not pieces or not _is_other(pieces[0].partition(_END)[0]):  # may be large
                pieces.append(piece)
            continue
        for content, _ in _read_plain(io.BytesIO(b"".join(pieces))):
            yield content, piece
        pieces = []


def _read_plain(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    while (begin := file.tell()) < size:
        line = file.readline(_MAX_HEADER)
        if line.rstrip() != _VERSION:
            if not line.endswith(b"\n") and _VERSION.startswith(line.rstrip(b"\0\r")):
                return  # cut, perhaps with zeros after it
            raise ValueError(f"byte {begin} begins no record of WARC")
        kind, length = b"", -1
        while (line := file.readline(_MAX_HEADER)).rstrip(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"warc-type":
                kind = value.strip()
            elif name.lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
        end = file.tell() + length + len(_END)
        if not line or end > size:
            return  # cut
        content = file.read(length) if kind == b"metadata" else b""
        file.seek(end - len(_END))
        if length < 0 or file.read(len(_END)) != _END:
            file.seek(end)
            if not file.read().strip(b"\0"):
                return  # zeros in place of data
            raise ValueError(f"the record at byte {begin} is damaged")
        if kind == b"metadata":
            yield content, end
