"""The server's record of a request, and the payloads of its responses.

Values only; no sockets.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import random
from typing import Any
from urllib.parse import parse_qsl

_BLOCK = 65521  # prime: no buffer size is a multiple of it, so a misplaced piece shows
_LARGE = 65536


class Record:
    """A request as received: names in their original case and order, values as Latin-1.

    `connection` counts from 0. `raw` is the head as sent (b"" on HTTP/2). `length` counts the body
    bytes received, also where a route does not keep them in `body`.
    """

    __slots__ = (
        "_headers",
        "authority",
        "body",
        "chunked",
        "connection",
        "length",
        "method",
        "path",
        "query_string",
        "raw",
        "stream",
        "target",
        "version",
    )

    def __init__(
        self,
        method: str,
        target: str,
        connection: int,
        *,
        raw: bytes = b"",
        headers: list[tuple[str, str]] | None = None,
        version: str = "1.1",
        stream: int = 0,
        authority: str = "",
    ) -> None:
        self.method = method
        self.target = target
        self.connection = connection
        self.raw = raw
        self.version = version
        self.stream = stream
        self.authority = authority
        self.body = b""
        self.length = 0
        self.chunked = False
        self._headers = headers
        path, _, self.query_string = target.partition("?")
        if not path.startswith("/") and "://" in path:  # absolute-form
            path = "/" + path.partition("://")[2].partition("/")[2]
        self.path = path

    @classmethod
    def from_head(cls, head: bytes, connection: int) -> Record:
        """Read a request line; raises ValueError when it is none."""
        method, target, version = head[: head.index(b"\r\n")].decode("latin-1").split(" ")
        if not version.startswith("HTTP/"):
            raise ValueError("not an HTTP request line")
        return cls(method, target, connection, raw=head, version=version[5:])

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The header fields, in order."""
        if self._headers is None:
            self._headers = [
                (name, value.strip(" \t"))
                for name, _, value in (
                    line.partition(":")
                    for line in self.raw.decode("latin-1").split("\r\n")[1:]
                    if line
                )
            ]
        return self._headers

    def header(self, name: str) -> str | None:
        """Return the first value of a field, whatever its case."""
        return next(iter(self.values(name)), None)

    def values(self, name: str) -> list[str]:
        """Return all values of a field, in order."""
        name = name.lower()
        return [value for field, value in self.headers if field.lower() == name]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The decoded query, in order."""
        return parse_qsl(self.query_string, keep_blank_values=True)

    def query(self, name: str, default: str = "") -> str:
        """Return one query parameter."""
        return dict(self.pairs).get(name, default) if self.query_string else default

    @property
    def args(self) -> list[str]:
        """The path segments behind the route: ["7"] for /bytes/7."""
        return self.path.split("/")[2:]

    @property
    def number(self) -> int:
        """The first of `args` as an integer."""
        return int(self.args[0])

    def __repr__(self) -> str:
        return f"<{self.method} {self.target} on connection {self.connection}>"


def payload(size: int, seed: int = 0) -> bytes:
    """Return `size` bytes that do not compress, the same ones every time."""
    if size <= _BLOCK:
        return _block(seed)[:size]
    return (_block(seed) * (size // _BLOCK + 1))[:size]


@functools.lru_cache(maxsize=32)
def _block(seed: int) -> bytes:
    return random.Random(seed).randbytes(_BLOCK)


def to_json(value: Any) -> bytes:
    """Encode JSON as ASCII."""
    return json.dumps(value).encode("ascii")


def echo(record: Record) -> bytes:
    """Return what /echo reports about a request."""
    large = len(record.body) > _LARGE
    body = base64.b64encode(record.body) if large else record.body
    return to_json(
        {
            "method": record.method,
            "target": record.target,
            "headers": record.headers,
            "body": body.decode("latin-1"),
            "base64": large,
            "length": record.length,
            "sha256": hashlib.sha256(record.body).hexdigest(),
        }
    )
