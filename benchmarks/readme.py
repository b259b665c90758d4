"""The tables of the README and of docs/, generated from the results, so that they always match.

They are between markers. The pictures of the pages are copies of those next to the results.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import goals, tables

__all__ = ["ASYNC", "MILLION", "PAGES", "PICTURES", "SHORT", "SYNC", "with_tables", "write"]

_ROOT = Path(__file__).parent.parent
PAGES = (_ROOT / "README.md", *(_ROOT / "docs" / name for name in ("speed.md", "scale.md")))
PICTURES = _ROOT / "docs" / "images"  # for the pages in docs, which cannot show files outside of it
_SIMULATED = {  # names of markers, and of the cases of the simulation
    "storm": ("retry storm",),
    "outage": ("outage",),
    "flapping": ("flapping",),
    "herd": ("thundering herd",),
    "halved": ("half the capacity",),
    "fairness": ("two clients",),
    "endpoint_down": ("one of three endpoints is down",),
    "endpoint_slow": ("one of three endpoints is slow",),
    "popular": ("equal requests",),
    "sizes": ("10 calls/s", "1,000 calls/s", "100,000 calls/s"),
}
_SIZES = ("4 B", "1 KiB", "32 KiB", "1 MiB")  # as many columns as fit on a page
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
SHORT = ("curlhttp", "wreq", "aiohttp", "httpx", "requests")


def write(folder: Path) -> None:
    """Generate the tables of the pages from the results in a folder, and copy its pictures."""
    for page in PAGES:
        text = with_tables(page.read_text(encoding="utf-8"), folder)
        page.write_text(text, encoding="utf-8")
    if importlib.util.find_spec("matplotlib"):
        from benchmarks import plots

        columns = _short_columns(_read(folder, "async"), _read(folder, "sync"))
        plots.draw_speed(columns, SHORT, folder / "speed.svg")
    for picture in folder.glob("*.svg"):
        if picture.name != "tasks.svg":  # no page shows it
            (PICTURES / picture.name).write_bytes(picture.read_bytes())


def with_tables(text: str, folder: Path) -> str:
    """Return the text of a page with tables generated from the results in a folder."""

    def block(match: re.Match[str]) -> str:
        begin, name, _, end = match.groups()
        of = {
            "short": "async",
            "goals": "async",
            "cores": "redis",
            **dict.fromkeys(_SIMULATED, "simulate"),
        }.get(name, name)
        results = _read(folder, of)
        machine = results["machine"]
        makers: dict[str, Callable[[], str]] = {
            "async": lambda: tables.overview(results["cases"], ASYNC),
            "sync": lambda: tables.overview(
                [case for case in _kept(results) if case["name"] in _SIZES],
                [f"{client}/none" for client in SYNC],
            ),
            "million": lambda: tables.million(results, narrow=True),
            "short": lambda: _short(results, _read(folder, "sync")),
            "goals": lambda: goals.selected(folder),
            "redis": lambda: tables.of_redis(results),
            "cores": lambda: tables.cores(results, _read(folder, "million")),
            **{one: partial(tables.simulated, results, cases) for one, cases in _SIMULATED.items()},
        }
        table = makers[name]()
        date = f"Measured at {machine['date']}, commit {machine['commit']}."
        return f"{begin}\n{table}\n\n{date}\n\n{end}"

    return _BLOCK.sub(block, text)


def _read(folder: Path, name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return results


def _kept(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cases of the blocking clients with kept connections, without TLS."""
    return [case for case in results["cases"] if case["group"] == "HTTP, connections kept"]


def _short(asynchronous: dict[str, Any], blocking: dict[str, Any]) -> str:
    """Return the figures of the README: small responses, with the best-known clients."""
    return tables.chosen(_short_columns(asynchronous, blocking), SHORT)


def _short_columns(
    asynchronous: dict[str, Any], blocking: dict[str, Any]
) -> list[tuple[str, str, dict[str, Any]]]:
    small = [case for case in asynchronous["cases"] if case["name"] == "200 B"]
    one = [case for case in _kept(blocking) if case["name"] == "1 KiB"]
    return [
        *[(f"async, {case['group']}, 64 at once", "uvloop", case) for case in small],
        *[("blocking, HTTP/1.1, one after the other", "none", case) for case in one],
    ]
