"""The Python of README and docs passes `mypy --strict` and pyright.

For each block of a page, and each cell of a table that has code, there is a program: the block and
those above it whose names it uses, on the lines that they have on the page. From the first block on
that awaits, the program is a function.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import symtable
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from tests.support.snippets import OTHERS, Snippet, has, snippets
from tests.typing.test_wrong_calls import ROOT, output_of, with_pyright

pytestmark = pytest.mark.slow

# The libraries of backends.md leave out types; tests/ecosystem/test_backends.py runs its programs.
UNTYPED = ROOT / "docs" / "how-to" / "backends.md"
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {UNTYPED})]
IN_A_FUNCTION = "async def page() -> None:\n"
MYPY = (
    "--strict",
    "--allow-redefinition",  # a page may have a client of each kind under one name
    "--disable-error-code=import-untyped",  # such as Django
    "--config-file=",
    f"--cache-dir={os.devnull}",
)
KNOWN = {*vars(builtins), "__name__", "__file__"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs, and the settings of pyright."""
    folder = tmp_path_factory.mktemp("snippets")
    for page in PAGES:
        name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
        for number, source in enumerate(programs_of(page.read_text(encoding="utf-8"))):
            (folder / f"{name}_at_{number}.py").write_text(source, encoding="utf-8")
    settings = {"reportPossiblyUnboundVariable": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return folder


def programs_of(text: str) -> Iterator[str]:
    """Yield the program of each block of a page, and of each cell with code."""
    above: list[Block] = []
    for snippet in snippets(text):
        if snippet.kind in ("python", "cell") and snippet.needs not in OTHERS:
            block = Block(snippet)
            needed = [*block.needs(above), block]
            if all(each.can_run for each in needed):
                yield program(needed)
            if snippet.kind == "python":
                above.append(block)


class Block:
    """A block, with the names that it takes from blocks above it and those that it gives."""

    def __init__(self, snippet: Snippet) -> None:
        self.line = snippet.line
        self.awaits = snippet.kind == "cell" or not compiles(snippet.source)
        self.source = snippet.source
        self.can_run = not snippet.needs or has(snippet.needs)
        inside = IN_A_FUNCTION + indent(snippet.source, "    ")
        table = symtable.symtable(inside, "page", "exec").get_children()[0]
        self.gives = {each.get_name() for each in table.get_symbols() if each.is_local()}
        self.takes = set(global_names(table)) - KNOWN

    def needs(self, above: list[Block]) -> list[Block]:
        """Return the blocks above that it needs, in order."""
        missing = set(self.takes)
        found: list[Block] = []
        for block in reversed(above):
            if missing & block.gives:
                missing = missing - block.gives | block.takes
                found.insert(0, block)
        return found


def compiles(source: str) -> bool:
    """Return whether no `await` is outside of functions."""
    try:
        compile(source, "page", "exec")
    except SyntaxError:
        return False
    return True


def global_names(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (each.get_name() for each in table.get_symbols() if each.is_global())
    for child in table.get_children():
        yield from global_names(child)


def program(blocks: list[Block]) -> str:
    """Return the blocks, each on its lines of the page; in a function from the first await on."""
    lines: list[str] = []
    margin = ""
    for block in blocks:
        lines += [""] * (block.line - len(lines))
        if block.awaits and not margin:
            lines[-1], margin = IN_A_FUNCTION.rstrip(), "    "  # in place of the fence
        lines += indent(block.source, margin).splitlines()
    return "\n".join(lines) + "\n"


def test_the_snippets_pass_mypy(programs: Path) -> None:
    told = output_of("mypy", *MYPY, ".", cwd=programs)
    assert told.startswith("Success"), shown(told.splitlines())


@with_pyright
def test_the_snippets_pass_pyright(programs: Path) -> None:
    told = json.loads(output_of("pyright", "--outputjson", cwd=programs))["generalDiagnostics"]
    wrong = [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in told
        if each["severity"] == "error"
    ]
    assert not wrong, shown(wrong)


def shown(errors: list[str]) -> str:
    """Return errors, each once, with the page in place of the programs."""
    return "\n".join(sorted({re.sub(r"^(\w+)_at_\d+\.py", r"\1", error) for error in errors}))
