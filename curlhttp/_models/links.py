"""The Link header (RFC 8288), read once a caller asks for it, in a time that grows as it does."""

from __future__ import annotations

import re

__all__ = ["parse_links"]

# What follows a target, one by one: a name, a value in quotes or without, and junk up to the next.
_PARAMETER = re.compile(
    r"""\s*;\s*([^\s=;,<"]*)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,<"]*)))?[^;,<]*""", re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)


def parse_links(value: str) -> dict[str, dict[str, str]]:
    """Return the links by their relation, or by their URL where they have none.

    Args:
        value: the value of Link, repeats joined by commas.
    """
    links = {}
    position = 0
    while (begin := value.find("<", position)) >= 0 and (end := value.find(">", begin)) >= 0:
        link = {"url": value[begin + 1 : end]}
        position = end + 1
        while (found := _PARAMETER.match(value, position)) is not None:
            position = found.end()
            name, quoted, plain = found.groups("")
            if name:
                link.setdefault(name.lower(), _QUOTED_PAIR.sub(r"\1", quoted) or plain)
        links[link.get("rel") or link["url"]] = link
    return links
