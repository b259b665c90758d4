"""What an app sends, made into what a client reads."""

from __future__ import annotations

import re
from typing import Any

from curlhttp._models.response import Head, get_reason_phrase

__all__ = ["RefusedMessage", "head_of", "head_of_wsgi"]

_BREAKS = re.compile(rb"[\r\n\0]").search


class RefusedMessage(RuntimeError):
    """An app sends what it must not, or not now."""

    def __init__(self, kind: object) -> None:
        super().__init__(f"the app sent {kind!r}, which has no place here")


def head_of(message: dict[str, Any]) -> Head:  # Any: what a message holds depends on its type
    """Return the head that http.response.start asks for.

    Raises:
        ValueError: it cannot be sent.
    """
    status = int(message["status"])
    if not 200 <= status <= 999:
        raise ValueError(f"the app answers with status {status}")
    lines = [f"HTTP/1.1 {status} {get_reason_phrase(status)}".encode("latin-1")]
    for name, value in message.get("headers", ()):
        line = bytes(name) + b": " + bytes(value).strip(b" \t")
        if _BREAKS(line) or not name:
            raise ValueError(f"the app sends a header that is none: {line!r}")
        lines.append(line)
    return Head(b"\r\n".join([*lines, b"", b""]))


def head_of_wsgi(status: str, headers: list[tuple[str, str]]) -> Head:
    """Return the head that start_response asks for.

    Raises:
        ValueError: it cannot be sent.
    """
    lines = [f"HTTP/1.1 {status}".encode("latin-1")]
    for name, value in headers:
        lines.append(f"{name}: {value.strip(' ')}".encode("latin-1"))
        if not name:
            raise ValueError(f"the app sends a header without a name: {value!r}")
    head = Head(b"\r\n".join([*lines, b"", b""]))
    if head.status_code < 200 or any(map(_BREAKS, lines)):
        raise ValueError(f"the app answers with what is no status or header: {lines!r}")
    return head
