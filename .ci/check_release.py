"""Refuse a release whose parts do not say the same: python .ci/check_release.py v0.1.0.

The tag, the version of the package and the newest section of the changelog are one; that section
has a date; what changed is sorted by kind; the addresses in the metadata lead somewhere; there is a
private channel for vulnerabilities; curl's advisories were looked up for this release; and no page
says that nothing has been released.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ADVISORIES_AGE = 14  # days, at most
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")  # Keep a Changelog


def problems(tag: str, root: Path) -> list[str]:
    """Return what is wrong, in words; nothing if the release may go out."""
    found: list[str] = []
    version = re.search(r'"(.+)"', _lines(root / "curlhttp" / "_version.py", "__version__")[0])
    assert version is not None
    if tag != f"v{version[1]}":
        found.append(f"the tag is {tag}, the version of curlhttp/_version.py {version[1]}")
    headings = _lines(root / "CHANGELOG.md", "## ")
    heading = re.fullmatch(
        rf"## {re.escape(version[1])} - (\d{{4}}-\d\d-\d\d)", headings[0] if headings else ""
    )
    if heading:
        found += _stale_advisories(root, heading[1])
    else:
        found.append(f"CHANGELOG.md does not begin with '## {version[1]} - YYYY-MM-DD'")
    for line in _lines(root / "CHANGELOG.md", "### "):
        if line.removeprefix("### ") not in KINDS:
            found.append(f"CHANGELOG.md: {line!r} is none of {', '.join(KINDS)}")
    if ".example" in (root / "pyproject.toml").read_text(encoding="utf-8"):
        found.append("pyproject.toml: the addresses of the project are still placeholders")
    if "no private channel" in (root / "SECURITY.md").read_text(encoding="utf-8"):
        found.append("SECURITY.md: nobody can report a vulnerability in private")
    for page in (root / "README.md", root / "SECURITY.md", *sorted((root / "docs").glob("*.md"))):
        for words in _NOT_RELEASED:
            if words in " ".join(page.read_text(encoding="utf-8").split()):
                found.append(f"{page.relative_to(root).as_posix()} says: {words}")
    return found


_NOT_RELEASED = ("not on PyPI yet", "has been released yet", "until the first release")


def _stale_advisories(root: Path, released: str) -> list[str]:
    line = _lines(root / "curlhttp" / "cli" / "advisories.py", "AS_OF")[0]
    as_of = line.split('"')[1]
    age = datetime.date.fromisoformat(released) - datetime.date.fromisoformat(as_of)
    if age.days <= ADVISORIES_AGE:
        return []
    return [f"curlhttp/cli/advisories.py: curl's advisories were last looked up on {as_of}"]


def _lines(path: Path, start: str) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.startswith(start)]


if __name__ == "__main__":
    if found := problems(sys.argv[1], Path(__file__).parents[1]):
        sys.exit("\n".join(found))
