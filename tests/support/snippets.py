"""Run a page's snippets, in order and in one namespace: python -m tests.support.snippets PAGE.

* ```python blocks are executed; one that awaits runs on an event loop that the page keeps.
* `print(x)  # 5` must print what the comment says, unless that begins with "such as". `…` stands
  for anything; what is printed more than once is joined by commas.
* ```console blocks are commands behind `$`, and what they must print. In ```sh blocks the
  commands that are ours are run.
* In a table whose first column is named like another library, the code in its cells and in those
  below "curlhttp" is run.

A block behind the comment `<!-- needs: httpx -->` is of another library, as the cells of its column
are: they run with --others alone. One that needs any other package runs where that is installed.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import CodeType
from typing import Any, NamedTuple

OTHERS = ("requests", "httpx", "aiohttp", "hyperhttp", "niquests", "pycurl")
_FENCE = re.compile(r"^( *)```(\w*)")
_KINDS = ("python", "console", "sh", "text")
_NEEDS = re.compile(r"^ *<!-- needs: (\w+) -->$")
_SAID = re.compile(r"^.*\bprint\(.*\)  # (?!such as)(.+)$")
_CODE = re.compile(r"`` ?(.+?) ?``|`(.+?)`")


class Snippet(NamedTuple):
    """A piece of a page that runs: its kind is the language of a block, or "cell"."""

    kind: str
    source: str
    line: int  # of the page, in front of the source
    needs: str = ""  # the other library, if it is of one


def snippets(text: str) -> Iterator[Snippet]:
    """Find the snippets of a page, in order."""
    lines = text.splitlines()
    needs = ""
    columns: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if comment := _NEEDS.match(line):
            needs = comment[1]
        elif fence := _FENCE.match(line):
            end = lines.index(f"{fence[1]}```", number)
            if fence[2] not in _KINDS:
                raise ValueError(f"line {number}: a block is one of {', '.join(_KINDS)}")
            source = dedent("\n".join(lines[number:end]))
            yield Snippet(fence[2], source, number, needs)
            needs, number = "", end + 1
        elif not line.startswith("|"):
            columns = []
        elif not columns:
            columns = _cells(line)
        elif columns[0] in OTHERS:
            yield from _codes(columns, _cells(line), number - 1)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _codes(columns: list[str], cells: list[str], line: int) -> Iterator[Snippet]:
    for column, cell in zip(columns, cells, strict=True):
        if column in (*OTHERS, "curlhttp"):
            needs = "" if column == "curlhttp" else column
            for long, short in _CODE.findall(cell):
                yield Snippet("cell", long or short, line, needs)


def has(package: str) -> bool:
    """Return whether a package is installed."""
    return importlib.util.find_spec(package) is not None


class Page:
    """A page that is run.

    Args:
        path: of the Markdown file.
        before: a Python program that prepares the namespace.
        shares: the blocks continue with what those before them have left.
    """

    def __init__(self, path: Path, before: str = "", *, shares: bool = True) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self._before = before
        self._shares = shares
        self._loop = asyncio.new_event_loop()
        self._printed: dict[int, list[str]] = defaultdict(list)
        self._ran: set[int] = set()
        self._fresh()

    def run(self, *, others: bool) -> None:
        """Run its snippets; with others, those of other libraries as well."""
        for snippet in snippets(self.text):
            if snippet.needs and not (others if snippet.needs in OTHERS else has(snippet.needs)):
                continue
            if not self._shares:
                self._fresh()
            if snippet.kind == "python":
                self._execute(snippet)
                self._ran |= {*range(snippet.line, snippet.line + snippet.source.count("\n") + 2)}
            elif snippet.kind == "cell":
                self._loop.run_until_complete(self._cell(snippet))
            elif snippet.kind in ("console", "sh"):
                self._command(snippet)
        self._compare()

    def close(self) -> None:
        """End what the event loop still does."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _fresh(self) -> None:
        self._namespace: dict[str, Any] = {"__name__": "__main__", "print": self._print}
        exec(self._before, self._namespace)

    def _execute(self, snippet: Snippet) -> None:
        waiting = eval(self._compiled(snippet), self._namespace)
        if waiting is not None:
            self._loop.run_until_complete(waiting)

    async def _cell(self, snippet: Snippet) -> None:
        # In a running loop, which what it makes may want; what it names is its own.
        waiting = eval(self._compiled(snippet), dict(self._namespace))
        if waiting is not None:
            await waiting

    def _compiled(self, snippet: Snippet) -> CodeType:
        # Blank lines in front, so that a traceback points into the page.
        source = "\n" * snippet.line + snippet.source
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(source, str(self.path), "exec", flags, dont_inherit=True)
        return code

    def _print(self, *values: Any, **options: Any) -> None:
        at = sys._getframe(1)
        text = str(options.get("sep", " ")).join(map(str, values))
        self._printed[at.f_lineno].append(text)

    def _compare(self) -> None:
        """Check what was printed against what the page says.

        Raises:
            AssertionError: it is something else.
        """
        for number, line in enumerate(self.text.splitlines(), 1):
            said = _SAID.match(line)
            if said and number in self._ran:
                assert number in self._printed, f"{self.path}:{number}: nothing was printed here"
                self._same(said[1], ", ".join(self._printed[number]), number)

    def _command(self, snippet: Snippet) -> None:
        for command, output in _commands(snippet):
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=600,
            )
            where = f"{self.path}:{snippet.line}: {command}"
            assert done.returncode == 0, f"{where}\n{done.stdout}"
            if output:
                self._same(output, done.stdout, snippet.line)

    def _same(self, said: str, printed: str, line: int) -> None:
        pattern = "(?s:.*)".join(map(re.escape, said.strip().split("…")))
        shown = f"{self.path}:{line}: the page says\n{said}\nbut it is\n{printed}"
        assert re.fullmatch(pattern, printed.strip()), shown


def _commands(snippet: Snippet) -> Iterator[tuple[str, str]]:
    """Give commands, each with what it must print, or ""."""
    if snippet.kind == "sh":
        for line in snippet.source.replace("\\\n", " ").splitlines():
            if line.startswith("curlhttp "):
                yield line, ""
        return
    for part in re.split(r"^\$ ", snippet.source, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def main() -> None:
    """Run one page; the exit code is the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--others", action="store_true", help="run other libraries' snippets too")
    parser.add_argument("--before", default="", help="a Python program that prepares the names")
    parser.add_argument("--apart", action="store_true", help="each block has names of its own")
    chosen = parser.parse_args()
    page = Page(chosen.page, chosen.before, shares=not chosen.apart)
    try:
        page.run(others=chosen.others)
    finally:
        page.close()


if __name__ == "__main__":
    main()
