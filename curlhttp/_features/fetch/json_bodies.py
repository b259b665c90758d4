"""Bodies and header fields as JSON; large bodies in pieces."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._features.map.bodies import BodyFile
    from curlhttp._http.response import Response


def group_fields(response: Response) -> dict[str, list[str]]:
    """Return the values of each header field of a response, by lower-case names."""
    fields: dict[str, list[str]] = {}
    for name, value in response.headers.multi_items():
        fields.setdefault(name.lower(), []).append(value)
    return fields


def body_as_json(body: bytes | BodyFile | None) -> dict[str, str | None]:
    """Return a body in memory as a field: "body" if it is UTF-8, else "body_base64"."""
    if body is None:
        return {"body": None}
    assert isinstance(body, bytes)
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def is_utf8(body: BodyFile) -> bool:
    """Return whether a body is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in body.pieces():
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def encode_utf8(body: BodyFile) -> Iterator[str]:
    """Yield the pieces of the string, without its quotes."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    for piece in body.pieces():
        yield encode_basestring(decode(piece))[1:-1]


def encode_base64(body: BodyFile) -> Iterator[str]:
    """Likewise, of the body in base64."""
    for piece in body.pieces():
        yield base64.b64encode(piece).decode()
