"""Words that were replaced by common ones must not return."""

from __future__ import annotations

import re
from pathlib import Path

import curlhttp

PACKAGE = Path(curlhttp.__file__).parent
ROOT = PACKAGE.parent
# Names of modules.
NAMES = (
    "aside|elsewhere|late_jar|taught|habits|lent|suspects|beside|spiller|cutter|tally|hops|lanes"
)
# In docstrings, comments, messages and documentation.
PROSE = re.compile(
    r"\b(?:anew|beside|had again|have had again|comes? of it|came of it)\b", re.IGNORECASE
)
TEXTS = [
    *(ROOT / "README.md", ROOT / "ARCHITECTURE.md"),
    *sorted(PACKAGE.rglob("*.py")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_modules_have_names_of_the_field() -> None:
    old = re.compile(f"_?({NAMES})")
    stems = {path.stem for path in PACKAGE.rglob("*.py")}
    assert sorted(stem for stem in stems if old.fullmatch(stem)) == []


def test_texts_are_plain_english() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PROSE.search(line)
    ] == []
