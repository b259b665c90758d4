"""JSON laid out for reading, with every token as it came: no number is rounded, no key is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

__all__ = ["STYLES", "pretty_json"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_INDENT = "  "
STYLES = {"key": "bold blue", "string": "green", "literal": "cyan", "mark": ""}


def pretty_json(text: str) -> list[tuple[str, str]] | None:
    """Return JSON as pieces with a key of STYLES each, or None if the text is not JSON.

    Args:
        text: of the response.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return list(_laid_out(_TOKEN.findall(text)))


def _laid_out(tokens: list[str]) -> Iterator[tuple[str, str]]:
    depth = 0
    for at, part in enumerate(tokens):
        before, after = tokens[at - 1 : at], tokens[at + 1 : at + 2]
        if part in "[{":
            depth += 1
            yield part, "mark"
            if after not in (["]"], ["}"]):
                yield "\n" + _INDENT * depth, "mark"
        elif part in "]}":
            depth -= 1
            if before not in (["["], ["{"]):
                yield "\n" + _INDENT * depth, "mark"
            yield part, "mark"
        elif part == ",":
            yield ",\n" + _INDENT * depth, "mark"
        elif part == ":":
            yield ": ", "mark"
        elif part[0] != '"':
            yield part, "literal"
        else:
            yield part, "key" if after == [":"] else "string"
