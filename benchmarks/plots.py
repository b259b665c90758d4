"""SVG plots of results, on white, so that you can read them in light and in dark mode.

They are as narrow as the screen of a phone and have one panel below the other. There the browser
shows text of 10 points as about 10 pixels; with panels next to each other, text was too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.figures import Summary, summaries

__all__ = ["draw", "draw_speed"]

Case = dict[str, Any]  # of the results, with its rows
_OURS, _FLOOR = "#d1495b", "#8d99ae"
_OTHERS = ("#00798c", "#edae49", "#30638e", "#6a994e", "#7b2cbf", "#bc6c25", "#118ab2", "#495057")
_SHADES = {"asyncio": 0.55, "uvloop": 1.0, "trio": 0.3, "none": 1.0}
_MIB = 1 << 20
_WIDTH = 4.5  # inches
_BAR, _CURVE = 0.23, 2.7  # inches for a bar, and for a panel of curves
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "curlhttp",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the plot for the results; a simulation has one for each situation.

    Import times and empty results have none.
    """
    kind = {"async": _bars, "tasks": _bars, "sync": _curves, "million": _memory}
    if results["benchmark"] == "simulate":
        for case in results["scenarios"]:
            if len(case["rows"][0]["series"]["good"]) > 10:
                name = f"simulate-{case['name'].replace(' ', '-')}.svg"
                _save(_simulation, case, path.with_name(name))
    elif results["benchmark"] in kind and any(results.get(name) for name in ("cases", "rows")):
        _save(kind[results["benchmark"]], results, path)


def draw_speed(columns: Sequence[tuple[str, str, Case]], names: Sequence[str], path: Path) -> None:
    """Write the plot of the README: a few clients in a few cases, as in its table.

    Args:
        columns: the title of each panel, its loop, and the case of the results.
        names: of the clients.
        path: of the plot.
    """

    cases = [
        {**case, "rows": [row for row in case["rows"] if (row["loop"], row["client"]) in shown]}
        for _, loop, case in columns
        for shown in [{(loop, name) for name in names}]
    ]
    _save(partial(_bar_panels, [title for title, _, _ in columns]), cases, path)


def _save(draw: Callable[[Any], Any], results: Any, path: Path) -> None:
    with pyplot.rc_context(_STYLE):
        figure = draw(results)
        figure.savefig(path, facecolor="white", metadata={"Date": None})
        pyplot.close(figure)


def _panels(heights: Sequence[float], below: float = 0.0) -> tuple[Any, list[Any]]:
    """Return a figure, and its panels of these heights in inches, one below the other.

    Args:
        heights: of the panels, with their titles.
        below: inches for a legend below them.
    """
    figure, grid = pyplot.subplots(
        len(heights),
        figsize=(_WIDTH, sum(heights) + below),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    return figure, [line[0] for line in grid]


def _entitle(panel: Any, title: str) -> None:
    """Write a title that begins at the edge of the figure, where long ones have room."""
    panel.set_title(" ")  # keeps its place free
    edge = ("figure fraction", "axes fraction")
    panel.annotate(
        title, (0.01, 1.0), xycoords=edge, xytext=(0, 6), textcoords="offset points", weight="bold"
    ).set_in_layout(False)


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
    if len(cases) > 3:  # bodies of 10 KiB look like those of 200 B
        cases = [case for case in cases if case["name"] != "10 KiB"]
    titles = [f"{case['group']}, {case['name']}: requests/s" for case in cases]
    return _bar_panels(titles, cases)


def _bar_panels(titles: Sequence[str], cases: Sequence[Case]) -> Any:
    figure, panels = _panels([0.4 + _BAR * len(case["rows"]) for case in cases])
    for panel, title, case in zip(panels, titles, cases, strict=True):
        _bar_panel(panel, title, case)
    return figure


def _bar_panel(panel: Any, title: str, case: Case) -> None:
    found = summaries(case)[::-1]
    several = len({summary.loop for summary in found}) > 1
    for place, summary in enumerate(found):
        rate = summary.rate
        shade = _SHADES[summary.loop]
        panel.barh(place, rate.median, color=_bar_colour(summary), alpha=shade)
        panel.plot([rate.least, rate.greatest], [place, place], color="black", linewidth=0.8)
        panel.text(max(rate.greatest, rate.median), place, f"  {rate.median:,.0f}", va="center")
    panel.set_yticks(range(len(found)), [_title(summary, several) for summary in found])
    _entitle(panel, title)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(length=0)
    panel.margins(x=0.3, y=0.02)


def _bar_colour(summary: Summary) -> str:
    if summary.client == "curlhttp":
        return _OURS
    return _FLOOR if "pycurl" in summary.client else _OTHERS[0]


def _title(summary: Summary, with_loop: bool) -> str:
    at_once = summary.row.get("concurrency")
    # Clients other than ours are measured on uvloop.
    parts = [summary.client, summary.loop if with_loop and summary.client == "curlhttp" else ""]
    parts.append(f"{at_once:,} at once" if at_once else "")
    return ", ".join(part for part in parts if part)


# --- sync ---


def _curves(results: dict[str, Any]) -> Any:
    groups: dict[str, list[Case]] = {}
    for case in results["cases"]:
        groups.setdefault(case["group"], []).append(case)
    clients = list(
        dict.fromkeys(row["client"] for case in results["cases"] for row in case["rows"])
    )
    colours = _colours(clients)
    groups = {name: cases for name, cases in groups.items() if len(cases) > 1}  # no curve of one
    figure, panels = _panels([_CURVE] * len(groups))
    for panel, (name, cases) in zip(panels, groups.items(), strict=True):
        _curve_panel(panel, f"{name}: requests/s", cases, colours)
    return figure


def _curve_panel(panel: Any, title: str, cases: list[Case], colours: dict[str, str]) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    for case in cases:
        for summary in summaries(case):
            lines.setdefault(summary.client, []).append((case["size"], summary.rate.median))
    for client, points in lines.items():
        style = {"linewidth": 2.4} if client == "curlhttp" else {"linewidth": 1.2}
        if client == "curlhttp.Session":
            style["linestyle"] = "--"  # type: ignore[assignment]
        panel.plot(*zip(*points, strict=True), color=colours[client], **style)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    named = cases[::2]
    panel.set_xticks([case["size"] for case in named], [case["name"] for case in named])
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,.10g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    _entitle(panel, title)
    _label(panel, {client: points[-1] for client, points in lines.items()}, colours)


def _label(panel: Any, ends: dict[str, tuple[float, float]], colours: dict[str, str]) -> None:
    """Write names next to the ends of lines, moved apart if they would overlap."""
    panel.figure.canvas.draw()
    to_share = panel.transData + panel.transAxes.inverted()
    names = sorted(ends, key=lambda client: ends[client][1])
    step = 15 / panel.bbox.height
    places, least, most = [], 0.0, 1.0 - 0.5 * step  # above the panel is its title
    for client in names:
        places.append(max(least, to_share.transform(ends[client])[1]))
        least = places[-1] + step
    for number in reversed(range(len(names))):
        places[number] = min(places[number], most)
        most = places[number] - step
    for client, place in zip(names, places, strict=True):
        panel.annotate(
            client,
            xy=(1.0, place),
            xycoords="axes fraction",
            xytext=(4, 0),
            textcoords="offset points",
            color=colours[client],
            va="center",
            fontsize=9,
        )


# --- million ---


def _memory(results: dict[str, Any]) -> Any:
    figure, (memory, sockets) = _panels([_CURVE, 0.7 * _CURVE])
    colours = {"curlhttp": _OURS, "curlhttp Client.map": _OTHERS[1], "aiohttp": _OTHERS[0]}
    styles = {"asyncio": "--", "uvloop": "-", "none": "-"}
    for panel, place, unit, title in (
        (memory, 1, _MIB, "resident memory over time: MiB"),
        (sockets, 2, 1, "open sockets over time"),
    ):
        for row in results["rows"]:
            looks = row["looks"]
            points = [(look[0], look[place] / unit) for look in looks]
            panel.plot(
                *zip(*points, strict=True),
                color=colours[row["client"]],
                linestyle=styles[row["loop"]],
                linewidth=1.0 if row["connections"] == 100 else 2.0,
                label=_run_title(row),
            )
        panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
        _entitle(panel, title)
    memory.legend(loc="lower right", frameon=False)
    sockets.set_xlabel("seconds")
    return figure


def _run_title(row: dict[str, Any]) -> str:
    loop = "" if row["loop"] == "none" else f", {row['loop']}"
    more = "" if row["connections"] == 100 else f", {row['connections']} connections"
    return f"{row['client']}{loop}{more}"


# --- simulate ---


def _simulation(case: dict[str, Any]) -> Any:
    """Draw requests at the server and good responses per second, and the server's capacity."""
    names = [row["name"] for row in case["rows"]]
    colours = dict(zip(names, (_FLOOR, *_OTHERS), strict=False)) | {names[-1]: _OURS}
    figure, (attempts, good) = _panels([1.8, 1.8], below=0.3 + 0.2 * len(names))
    for panel, series, title in (
        (attempts, "attempts", "requests/s at the server"),
        (good, "good", "good answers/s"),
    ):
        since, capacity = zip(*case["capacity"], (case["seconds"], 0), strict=True)
        panel.fill_between(since, capacity, step="post", color="#e9ecef", linewidth=0)
        for number, row in enumerate(case["rows"]):  # each is thinner, because some coincide
            width = max(0.8, 3.0 - 0.7 * number)
            panel.plot(row["series"][series], color=colours[row["name"]], linewidth=width)
        panel.set_ylim(0, min(panel.get_ylim()[1], 6.0 * max(capacity)))
        panel.set_xlim(0, case["seconds"])
        _entitle(panel, title)
    good.set_xlabel("seconds; grey: what the server can do")
    figure.legend(attempts.get_lines(), names, loc="outside lower left", frameon=False)
    return figure
