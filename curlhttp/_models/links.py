"""The Link header (RFC 8288), read once a caller asks for it."""

from __future__ import annotations

import re

__all__ = ["parse_links"]

_LINK = re.compile(r"<([^>]*)>((?:\s*;\s*[^,;\"]+(?:\"[^\"]*\")?)*)")
_PARAMETER = re.compile(r";\s*([^\s=;]+)\s*(?:=\s*(?:\"([^\"]*)\"|([^\s;]*)))?")


def parse_links(value: str) -> dict[str, dict[str, str]]:
    """Return the links by their relation, or by their URL where they have none.

    Args:
        value: the value of Link, repeats joined by commas.
    """
    links = {}
    for target, parameters in _LINK.findall(value):
        link = {"url": target}
        for name, quoted, plain in _PARAMETER.findall(parameters):
            link.setdefault(name.lower(), quoted or plain)
        links[link.get("rel") or target] = link
    return links
