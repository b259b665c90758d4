"""Large bodies as strings of JSON, in pieces."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._features.map.bodies import BodyFile


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
