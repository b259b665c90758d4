"""Stamps: bytes in a body that identify its request, and that no damage turns into another's."""

from __future__ import annotations

import re
from zlib import crc32

_STAMP = re.compile(rb"\[\[([\w.-]{1,60})~([0-9a-f]{8})\]\]")


def stamp(owner: str) -> bytes:
    """Return the stamp of a request.

    Args:
        owner: what the request is called: letters, digits, dots and dashes.
    """
    name = owner.encode()
    return b"[[%s~%08x]]" % (name, crc32(b"stamp" + name))


def find_owners(data: bytes) -> set[str]:
    """Return whose stamps are in the bytes; damaged ones are ignored."""
    found = set()
    for name, check in _STAMP.findall(data):
        if b"%08x" % crc32(b"stamp" + name) == check:
            found.add(name.decode())
    return found
