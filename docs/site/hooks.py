"""Tables that fit a phone, and a search that puts how-to pages first: hooks of mkdocs.

Each cell is told the heading of its column, which is shown where cells are below each other; and
code in cells may break behind punctuation, so that it need not within a name. extra.css does it.
"""

from __future__ import annotations

import re
from typing import Any

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<td([^>]*)>(.*?)</td>", re.DOTALL)
_CODE = re.compile(r"(<code[^>]*>)(.*?)(</code>)", re.DOTALL)
_LINE = re.compile(r'(<span id="__span-[\d-]+")>((?:<a [^>]*></a>)?(?:<span class="w">)?)( *)')
# Where lines of code may break: in long paths, behind parentheses and "=", and before ".".
_STRING = re.compile(r'(?<=<span class="s[12]">)[^<]{30,}(?=</span>)')
_OPENING = re.compile(r'<span class="(?:p|o)">[(=]</span>')
# Behind punctuation, not within a tag or an entity; an underscore is part of a name.
_BREAK = re.compile(r"(&\w+;|<[^>]+>)|([./(,=:|\[{-]+)(?=[^\s./(,=:|\[{-])")
# How far the titles of a folder count in the search; those of how-to pages count 1.
_BOOSTS = {"decisions": 0.1, "reference": 0.2, "migrating": 0.5, "comparison.md": 0.5}


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Leave the page as it is, and let the search find other pages behind what people do."""
    boost = _BOOSTS.get(page.file.src_uri.partition("/")[0])
    if boost is not None:
        page.meta["search"] = {"boost": boost}
    return markdown


def on_page_content(html: str, **_: object) -> str:
    """Return the page with its tables prepared, and its lines of code told their indentation."""
    html = _LINE.sub(
        lambda line: f'{line[1]} style="--in: {len(line[3])}ch">{line[2]}{line[3]}', html
    )
    html = _STRING.sub(lambda string: string[0].replace("/", "/<wbr>"), html)
    html = _OPENING.sub(r"\g<0><wbr>", html)
    html = html.replace('<span class="o">.</span>', '<wbr><span class="o">.</span>')
    return _TABLE.sub(lambda table: _prepared(table[0]), html)


def _prepared(table: str) -> str:
    columns = [re.sub(r"<[^>]+>", "", each) for each in re.findall(r"<th[^>]*>(.*?)</th>", table)]

    def row(match: re.Match[str]) -> str:
        left = iter(columns)
        return _CELL.sub(lambda cell: _cell(cell[1], cell[2], next(left, "")), match[0])

    return re.sub(r"<tr>.*?</tr>", row, table, flags=re.DOTALL)


def _cell(attributes: str, content: str, column: str) -> str:
    label = f' data-column="{column}"' if column.strip() else ""
    content = _CODE.sub(lambda code: f"{code[1]}{_breakable(code[2])}{code[3]}", content)
    return f"<td{attributes}{label}>{content}</td>"


def _breakable(code: str) -> str:
    return _BREAK.sub(lambda match: match[1] or f"{match[2]}<wbr>", code)
