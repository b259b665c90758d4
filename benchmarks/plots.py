"""SVG plots of results, on white, so that you can read them in light and in dark mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.figures import Summary, summaries

__all__ = ["draw"]

_OURS, _FLOOR = "#d1495b", "#8d99ae"
_OTHERS = ("#00798c", "#edae49", "#30638e", "#6a994e", "#7b2cbf", "#bc6c25", "#118ab2", "#495057")
_SHADES = {"asyncio": 0.55, "uvloop": 1.0, "trio": 0.3, "none": 1.0}
_MIB = 1 << 20


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the plot for the results; import times and empty results have none."""
    kind = {
        "async": _bars,
        "tasks": _bars,
        "sync": _curves,
        "million": _memory,
        "simulate": _simulations,
    }
    is_empty = not any(results.get(name) for name in ("cases", "rows", "scenarios"))
    if results["benchmark"] not in kind or is_empty:
        return
    settings = {"svg.fonttype": "none", "svg.hashsalt": "curlhttp", "font.size": 9}
    with pyplot.rc_context({**settings, "axes.spines.top": False, "axes.spines.right": False}):
        figure = kind[results["benchmark"]](results)
        figure.savefig(path, facecolor="white", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)


def _colours(clients: list[str]) -> dict[str, str]:
    """Return a colour for each client, the same in all panels."""
    others = [name for name in clients if "curlhttp" not in name and "pycurl" not in name]
    colours = {name: _OTHERS[number % len(_OTHERS)] for number, name in enumerate(others)}
    for name in clients:
        if name not in colours:
            colours[name] = _OURS if "curlhttp" in name else _FLOOR
    return colours


# --- async ---


def _bars(results: dict[str, Any]) -> Any:
    cases = results["cases"]
    columns = min(3, len(cases))
    lines = -(-len(cases) // columns)
    highest = max(len(case["rows"]) for case in cases)
    figure, grid = pyplot.subplots(
        lines, columns, figsize=(4.6 * columns, lines * (0.9 + 0.2 * highest)), squeeze=False
    )
    panels = [panel for line in grid for panel in line]
    for panel in panels[len(cases) :]:
        panel.set_axis_off()
    for panel, case in zip(panels, cases, strict=False):
        _bar_panel(panel, case)
    figure.tight_layout()
    return figure


def _bar_panel(panel: Any, case: dict[str, Any]) -> None:
    found = summaries(case)[::-1]
    for place, summary in enumerate(found):
        rate = summary.rate
        panel.barh(place, rate.median, color=_bar_colour(summary), alpha=_SHADES[summary.loop])
        panel.plot([rate.least, rate.greatest], [place, place], color="black", linewidth=0.8)
        panel.text(max(rate.greatest, rate.median), place, f"  {rate.median:,.0f}", va="center")
    panel.set_yticks(range(len(found)), [_title(summary) for summary in found])
    panel.set_title(f"{case['group']}, {case['name']}: requests/s", loc="left", fontweight="bold")
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(length=0)
    panel.margins(x=0.2, y=0.02)


def _bar_colour(summary: Summary) -> str:
    if summary.client == "curlhttp":
        return _OURS
    return _FLOOR if "pycurl" in summary.client else _OTHERS[0]


def _title(summary: Summary) -> str:
    at_once = summary.row.get("concurrency")
    parts = [summary.client, "" if summary.loop == "none" else summary.loop]
    parts.append(f"{at_once:,} at once" if at_once else "")
    return ", ".join(part for part in parts if part)


# --- sync ---


def _curves(results: dict[str, Any]) -> Any:
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in results["cases"]:
        groups.setdefault(case["group"], []).append(case)
    clients = list(
        dict.fromkeys(row["client"] for case in results["cases"] for row in case["rows"])
    )
    colours = _colours(clients)
    figure, grid = pyplot.subplots(
        len(groups), 2, figsize=(12, 4.2 * len(groups)), squeeze=False, sharex=True
    )
    for line, (name, cases) in zip(grid, groups.items(), strict=True):
        _curve_panel(line[0], f"{name}: requests/s", cases, colours, lambda one: one.rate.median)
        _curve_panel(
            line[1],
            f"{name}: CPU s per 10,000 requests",
            cases,
            colours,
            lambda one: one.cpu.median / 100,
        )
    figure.tight_layout()
    return figure


def _curve_panel(
    panel: Any, title: str, cases: list[dict[str, Any]], colours: dict[str, str], measure: Any
) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    for case in cases:
        for summary in summaries(case):
            lines.setdefault(summary.client, []).append((case["size"], measure(summary)))
    for client, points in lines.items():
        style = {"linewidth": 2.4} if client == "curlhttp" else {"linewidth": 1.2}
        if client == "curlhttp.Session":
            style["linestyle"] = "--"  # type: ignore[assignment]
        panel.plot(*zip(*points, strict=True), color=colours[client], **style)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks([case["size"] for case in cases], [case["name"] for case in cases])
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,.10g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_title(title, loc="left", fontweight="bold")
    _label(panel, {client: points[-1] for client, points in lines.items()}, colours)


def _label(panel: Any, ends: dict[str, tuple[float, float]], colours: dict[str, str]) -> None:
    """Write names next to the ends of lines, moved apart if they would overlap."""
    panel.figure.canvas.draw()
    height, least = panel.bbox.height, 0.0
    for client, (x, y) in sorted(ends.items(), key=lambda end: end[1][1]):
        share = panel.transAxes.inverted().transform(panel.transData.transform((x, y)))[1]
        least = max(least, share)
        panel.annotate(
            client,
            xy=(1.0, least),
            xycoords="axes fraction",
            xytext=(4, 0),
            textcoords="offset points",
            color=colours[client],
            va="center",
            fontsize=8,
        )
        least += 15 / height


# --- million ---


def _memory(results: dict[str, Any]) -> Any:
    figure, (memory, sockets) = pyplot.subplots(1, 2, figsize=(13, 4))
    colours = {"curlhttp": _OURS, "curlhttp Client.map": _OTHERS[1], "aiohttp": _OTHERS[0]}
    styles = {"asyncio": "--", "uvloop": "-", "none": "-"}
    for panel, place, unit, title in (
        (memory, 1, _MIB, "resident memory over time: MiB"),
        (sockets, 2, 1, "open sockets over time"),
    ):
        ends: dict[str, tuple[float, float]] = {}
        for row in results["rows"]:
            looks = row["looks"]
            points = [(look[0], look[place] / unit) for look in looks]
            panel.plot(
                *zip(*points, strict=True),
                color=colours[row["client"]],
                linestyle=styles[row["loop"]],
                linewidth=1.0 if row["connections"] == 100 else 2.0,
            )
            ends[_run_title(row)] = points[-1]
        panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
        panel.set_xlabel("seconds")
        panel.set_title(title, loc="left", fontweight="bold")
        by_title = {_run_title(row): colours[row["client"]] for row in results["rows"]}
        _label(panel, ends, by_title)
    figure.tight_layout()
    return figure


def _run_title(row: dict[str, Any]) -> str:
    loop = "" if row["loop"] == "none" else f", {row['loop']}"
    more = "" if row["connections"] == 100 else f", {row['connections']} connections"
    return f"{row['client']}{loop}{more}"


# --- simulate ---


def _simulations(results: dict[str, Any]) -> Any:
    """Draw requests at the server and good responses per second, and the server's capacity."""
    cases = [case for case in results["scenarios"] if len(case["rows"][0]["series"]["good"]) > 10]
    figure, grid = pyplot.subplots(len(cases), 2, figsize=(12, 3.4 * len(cases)), squeeze=False)
    for line, case in zip(grid, cases, strict=True):
        names = [row["name"] for row in case["rows"]]
        colours = dict(zip(names, (_FLOOR, *_OTHERS), strict=False)) | {names[-1]: _OURS}
        for panel, series, title in (
            (line[0], "attempts", "requests/s at the server"),
            (line[1], "good", "good answers/s"),
        ):
            since, capacity = zip(*case["capacity"], (case["seconds"], 0), strict=True)
            panel.fill_between(since, capacity, step="post", color="#e9ecef", linewidth=0)
            for number, row in enumerate(case["rows"]):  # each is thinner, because some coincide
                width = max(0.8, 3.0 - 0.7 * number)
                panel.plot(row["series"][series], color=colours[row["name"]], linewidth=width)
            panel.set_ylim(0, min(panel.get_ylim()[1], 6.0 * max(capacity)))
            panel.set_xlim(0, case["seconds"])
            panel.set_title(f"{case['name']}: {title}", loc="left", fontweight="bold")
        lines = line[0].get_lines()
        line[1].legend(lines, names, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        line[0].set_xlabel("seconds; grey: what the server can do")
        line[1].set_xlabel("seconds")
    figure.tight_layout()
    return figure
