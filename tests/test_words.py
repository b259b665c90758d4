"""Words that were replaced by those of the field, or by plain English, and shall not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import curlhttp

PACKAGE = Path(curlhttp.__file__).parent
ROOT = PACKAGE.parent
# In names of modules, classes, functions and variables.
NAMES = [
    r"aside",
    r"elsewhere",
    r"foreign_",
    r"late_jar",
    r"taught",
    r"habits",
    r"lent",
    r"lender",
    r"suspects",
    r"stand_?in_",
    r"keeper",
    r"obtain(?:ed|ing)?_",
    r"beside",
    r"passage",
    r"spiller",
    r"cutter",
    r"tally",
    r"tape_",
    r"hops",
    r"lanes_",
]
# In docstrings, comments, messages and documentation.
PROSE = r"\b(?:anew|beside|had again|have had again|comes? of it|came of it)\b"
TEXTS = sorted(
    [
        *PACKAGE.rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
    ]
)


def test_modules_have_names_of_the_field() -> None:
    old = re.compile("|".join(rf"_?{name}" for name in NAMES))
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
