"""urllib3.filepost: a form as multipart/form-data, whole in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from curlhttp.requests.packages._urllib3.fields import RequestField

__all__ = ["choose_boundary", "encode_multipart_formdata", "iter_field_objects"]


def choose_boundary() -> str:
    """Return 32 random hexadecimal digits."""
    return os.urandom(16).hex()


def iter_field_objects(fields: Any) -> Iterable[RequestField]:
    """Give a RequestField for each field.

    Args:
        fields: a mapping, or an iterable of pairs and RequestFields.
    """
    for field in fields.items() if isinstance(fields, Mapping) else fields:
        yield field if isinstance(field, RequestField) else RequestField.from_tuples(*field)


def encode_multipart_formdata(fields: Any, boundary: str | None = None) -> tuple[bytes, str]:
    """Return the body and its content type.

    Args:
        fields: a mapping, or an iterable of pairs and RequestFields; a value is text, bytes, an
            int, (file name, data) or (file name, data, content type).
        boundary: random unless given.
    """
    boundary = choose_boundary() if boundary is None else boundary
    pieces: list[bytes] = []
    for field in iter_field_objects(fields):
        data = str(field.data) if isinstance(field.data, int) else field.data
        head = f"--{boundary}\r\n{field.render_headers()}".encode()
        pieces += [head, data.encode() if isinstance(data, str) else data, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode("latin-1"))
    return b"".join(pieces), f"multipart/form-data; boundary={boundary}"
