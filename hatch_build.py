"""The README as a package index shows it: what it links to and draws lies in the repository.

Hatchling calls this for each build. The address is that of `project.urls` in pyproject.toml, the
tag that of the version.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


class ReadmeHook(MetadataHookInterface):
    """Give the README, with links and pictures that are absolute."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`, which pyproject.toml calls dynamic."""
        root = Path(self.root)
        found = _VERSION.search((root / "curlhttp" / "_version.py").read_text(encoding="utf-8"))
        assert found is not None
        text = (root / "README.md").read_text(encoding="utf-8")
        shown = absolute(text, metadata["urls"]["Repository"], f"v{found[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def absolute(text: str, repository: str, tag: str) -> str:
    """Return Markdown whose relative links lead to files of the repository.

    Args:
        text: the Markdown.
        repository: its address, without a slash at the end; its files are found as on GitHub,
            below `blob` as pages and below `raw` as they are.
        tag: of the version.
    """

    def link(match: re.Match[str]) -> str:
        mark, title, path = match.groups()
        return f"{mark}[{title}]({repository}/{'raw' if mark else 'blob'}/{tag}/{path})"

    return _LINK.sub(link, text)
