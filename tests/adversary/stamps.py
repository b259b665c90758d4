"""Stamps: bytes in a body that identify its request, and that no damage turns into another's."""

from __future__ import annotations

import re
from zlib import crc32

_STAMP = re.compile(rb"\[\[([\w.-]{1,60})~([0-9a-f]{8})\]\]")
_CUT_STAMP = re.compile(rb"\[\[([\w.-]{1,60})~([0-9a-f]{1,8})\]?$")


def stamp(owner: str) -> bytes:
    """Return the stamp of a request.

    Args:
        owner: what the request is called: letters, digits, dots and dashes.
    """
    name = owner.encode()
    return b"[[%s~%s]]" % (name, _check(name))


def find_owners(data: bytes) -> set[str]:
    """Return whose stamps are in the bytes; damaged ones are ignored."""
    return {name.decode() for name, check in _STAMP.findall(data) if _check(name) == check}


def find_cut_owner(data: bytes) -> set[str]:
    """Return whose stamp the bytes end in, cut after some of its check."""
    found = _CUT_STAMP.findall(data)
    return {name.decode() for name, check in found if _check(name).startswith(check)}


def _check(name: bytes) -> bytes:
    return b"%08x" % crc32(b"stamp" + name)
