"""Words that were replaced by common ones must not return."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import curlhttp

PACKAGE = Path(curlhttp.__file__).parent
ROOT = PACKAGE.parent
# Names of modules.
NAMES = (
    "aside|elsewhere|late_jar|taught|habits|lent|suspects|beside|spiller|cutter|tally|hops|lanes"
)
# In docstrings, comments, messages and documentation.
PROSE = r"\b(?:anew|beside|had again|have had again|comes? of it|came of it)\b"
TEXTS = [
    *(ROOT / "README.md", ROOT / "ARCHITECTURE.md"),
    *sorted(PACKAGE.rglob("*.py")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_modules_have_names_of_the_field() -> None:
    old = re.compile(f"_?({NAMES})")
    stems = {path.stem for path in PACKAGE.rglob("*.py")}
    assert sorted(stem for stem in stems if old.fullmatch(stem)) == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_is_plain_english(path: Path) -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(PROSE, line, re.IGNORECASE)
    ]
    assert found == []
