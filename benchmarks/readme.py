"""The tables of the README, made of the results: between marks, so that they cannot disagree."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks import tables

__all__ = ["ASYNC", "MILLION", "README", "SYNC", "with_tables"]

README = Path(__file__).parent.parent / "README.md"
_BLOCK = re.compile(r"(<!-- benchmarks: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

ASYNC = (
    "curlhttp/uvloop",
    "curlhttp/asyncio",
    "curlhttp/trio",
    "wreq/uvloop",
    "pyreqwest/uvloop",
    "pycurl AsyncCurlMulti/uvloop",
    "aiohttp/uvloop",
    "hyperhttp/uvloop",
    "httpx/uvloop",
    "bare pycurl multi loop/none",
)
SYNC = (
    "curlhttp",
    "curlhttp.Session",
    "bare pycurl",
    "wreq",
    "pyreqwest",
    "primp",
    "urllib3",
    "requests",
    "httpx",
)
MILLION = ("curlhttp/uvloop", "aiohttp/uvloop", "curlhttp Client.map")


def with_tables(text: str, folder: Path) -> str:
    """Return the README's text with the tables that the results in a folder make."""

    def block(match: re.Match[str]) -> str:
        begin, name, _, end = match.groups()
        results = json.loads((folder / f"{name}.json").read_text())
        machine = results["machine"]
        table = {
            "async": lambda: tables.overview(results["cases"], ASYNC),
            "sync": lambda: tables.overview(
                [case for case in results["cases"] if case["group"] == "HTTP, connections kept"],
                [f"{client}/none" for client in SYNC],
            ),
            "million": lambda: tables.million(results),
        }[name]()
        date = f"Measured at {machine['date']}, commit {machine['commit']}."
        return f"{begin}\n{table}\n\n{date}\n\n{end}"

    return _BLOCK.sub(block, text)
