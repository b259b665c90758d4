"""Tables that fit a phone, and a search that puts how-to pages first and takes whole sentences.

Each cell is told the heading of its column, which is shown where cells are below each other; and
code in cells may break behind punctuation, so that it need not within a name. extra.css does it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
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
# The search looks for each word of a text, also at the start of longer words: "a" finds "async" and
# "auth" in the tags, which count most. So it leaves these words out.
_LITTLE_WORDS = (
    "a an and any are as at be by can could do does for from how i if in into is it its my not of "
    "on only or should so some that the their them there this to want we what when where which "
    "will with would you your"
)
# Runs in the worker of the search, before its own function gets the text that was typed.
_LEAVE_OUT = """(little => addEventListener("message", ({data: message}) => {
    if (message.type !== 2) return;
    const words = message.data.replace(/[?!.,]+(?=\\s|$)/g, "").split(/\\s+/).filter(Boolean);
    const kept = words.filter(word => !little.has(word.toLowerCase()));
    if (kept.length < 2) message.data = kept[0] || message.data;
    // "connecting" is found as "connect", which is also the start of "connection".
    else message.data = kept.map(word => word.replace(/(\\w{4,})ing$/, "$1")).join(" ");
}))(new Set(LITTLE.split(" ")));
"""


def on_post_build(config: Any, **_: object) -> None:
    """Let the search find for a whole sentence what it finds for its nouns."""
    scripts = Path(config["site_dir"], "assets", "javascripts", "workers")
    for worker in scripts.glob("search.*.js"):
        first = _LEAVE_OUT.replace("LITTLE", json.dumps(_LITTLE_WORDS))
        worker.write_text(first + worker.read_text(encoding="utf-8"), encoding="utf-8")


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
