"""The goals for speed: ratios of two rows of the results, and whether they are reached."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import MEASURES, Ratio, ratio

__all__ = ["GOALS", "Finding", "Goal", "compare_results", "load", "markdown", "selected"]

_MIB = 1 << 20
_OURS, _AIOHTTP = "curlhttp/uvloop", "aiohttp/uvloop"
_TLS_FULL = "pairs/new TLS connections, full handshakes, 1 KiB"
_TLS_RESUMED = "pairs/new TLS connections, resumed, 1 KiB"


@dataclass(frozen=True)
class Goal:
    """A bound on the ratio of two rows.

    Args:
        case: "benchmark/group, case".
        measure: one of figures.MEASURES.
        over: the row of the numerator: "client/loop/concurrency", without missing parts.
        under: the row of the denominator; "" for none: the goal is a plain figure.
        least: minimum of the ratio; or
        most: its maximum.
        label: its row in docs/speed.md; "" for none.
    """

    case: str
    measure: str
    over: str
    under: str = ""
    least: float | None = None
    most: float | None = None
    label: str = ""

    @property
    def bound(self) -> float:
        found = self.most if self.least is None else self.least
        assert found is not None
        return found

    @property
    def title(self) -> str:
        return f"{self.case}: {self.measure} of {self.over}" + (
            f" ÷ {self.under}" if self.under else ""
        )


def _async(name: str, *, aiohttp: float, pyreqwest: float, small: bool) -> list[Goal]:
    case = f"async/HTTP/1.1, {name}"
    more = [
        Goal(case, "rate", _OURS, "wreq/uvloop", least=0.95),
        Goal(case, "cpu", _OURS, "pycurl AsyncCurlMulti/uvloop", most=0.85),
    ]
    return [
        Goal(case, "rate", _OURS, _AIOHTTP, least=aiohttp),
        Goal(case, "rate", _OURS, "pyreqwest/uvloop", least=pyreqwest),
        *(more if small else []),
    ]


def _tasks(number: int, *, few: float, memory: float) -> list[Goal]:
    case, ours = f"tasks/{number:,} tasks, 200 B", f"curlhttp/uvloop/{number}"
    many = f"{number:,} tasks at once"
    return [
        Goal(case, "cpu", ours, "curlhttp/uvloop/64", most=few, label=f"{many}, CPU ÷ 64 tasks"),
        Goal(case, "cpu", ours, f"aiohttp/uvloop/{number}", most=0.5),
        Goal(
            case,
            "memory",
            ours,
            f"aiohttp/uvloop/{number}",
            most=memory,
            label=f"{many}, memory ÷ aiohttp",
        ),
        Goal(case, "errors", ours, most=0),
    ]


_BARE = "bare pycurl"
GOALS = (
    *_async("200 B", aiohttp=2.6, pyreqwest=0.95, small=True),
    *_async("10 KiB", aiohttp=2.6, pyreqwest=0.95, small=True),
    *_async("1 MiB, 32 at once", aiohttp=1.5, pyreqwest=0.97, small=False),
    Goal("async/HTTP/1.1, 200 B", "cpu", "curlhttp/trio", "curlhttp/asyncio", most=1.35),
    Goal(
        "async/HTTP/2 over TLS, 200 B",
        "rate",
        _OURS,
        "wreq/uvloop",
        least=0.85,
        label="HTTP/2 on TLS, 64 at once, rate ÷ wreq",
    ),
    Goal("async/HTTP/2 over TLS, 200 B", "rate", _OURS, "httpx/uvloop", least=20),
    *_tasks(10_000, few=1.25, memory=0.45),
    *_tasks(100_000, few=1.4, memory=0.5),
    Goal("pairs/kept, 1 KiB", "cpu", "curlhttp", "bare pycurl, hears Ctrl-C", most=1.3),
    Goal(
        "pairs/kept, 1 KiB",
        "cpu",
        "curlhttp",
        _BARE,
        most=1.3,
        label="blocking, kept connection, CPU ÷ bare pycurl",
    ),
    Goal("pairs/kept, 1 KiB", "cpu", "curlhttp", f"{_BARE}, no NOSIGNAL", most=1.3),
    Goal("pairs/kept, 1 KiB", "cpu", "requests, defaults", "curlhttp", least=14),
    Goal("pairs/kept, 1 KiB", "cpu", "requests", "curlhttp", least=14),
    Goal(
        "pairs/new connections, 1 KiB",
        "cpu",
        "curlhttp",
        _BARE,
        most=1.4,
        label="blocking, new connection, CPU ÷ bare pycurl",
    ),
    Goal(_TLS_RESUMED, "cpu", "curlhttp", _BARE, most=1.05),
    Goal(_TLS_FULL, "cpu", "curlhttp", _BARE, most=1.05),
    Goal(
        "pairs/first requests to TLS origins, 1 KiB",
        "cpu",
        "curlhttp",
        "bare pycurl, one multi",
        most=1.1,
        label="first requests to 200 TLS origins, CPU ÷ bare pycurl",
    ),
    Goal(
        "pairs/streamed, 1 KiB",
        "cpu",
        "curlhttp, streamed",
        "curlhttp",
        most=1.25,
        label="blocking, streamed, CPU ÷ buffered",
    ),
    Goal(
        "pairs/httpx, 1 KiB",
        "cpu",
        "httpx, curlhttp's transport",
        "httpx",
        most=0.5,
        label="httpx's client on curlhttp's transport, CPU ÷ its own",
    ),
    Goal("pairs/threads, 1 KiB", "cpu", "curlhttp/16", "curlhttp/1", most=1.2),
    Goal(
        "million",
        "wall",
        "curlhttp/uvloop/100",
        "aiohttp/uvloop/100",
        most=0.38,
        label="a million GETs, time ÷ aiohttp",
    ),
    Goal("million", "wall", "curlhttp Client.map/100", "curlhttp/uvloop/100", most=0.8),
    Goal("million", "memory", "curlhttp/uvloop/100", most=60 * _MIB),
    Goal("million", "memory", "curlhttp Client.map/100", most=60 * _MIB),
    Goal("million", "errors", "curlhttp/uvloop/100", most=0),
    Goal("cold/HTTP, 200 B", "cpu", "curlhttp.get", "curlhttp.Client().get", most=1.2),
    Goal(
        "cold/HTTP, 200 B",
        "cpu",
        "curlhttp.get",
        "requests.get",
        most=0.6,
        label="first `curlhttp.get` of a process, CPU ÷ requests",
    ),
    Goal(
        "cold/HTTP, commands, 200 B",
        "cpu",
        "curlhttp get",
        "http (httpie)",
        most=0.3,
        label="`curlhttp get URL`, CPU ÷ httpie",
    ),
    *[
        Goal(
            f"features/WebSocket echo, {messages}",
            "rate",
            "curlhttp",
            "aiohttp",
            least=1.0,
            label=f"WebSocket echo, {messages}, rate ÷ aiohttp",
        )
        for messages in ("64 B", "64 B, 100 at once", "100 kB")
    ],
    Goal(
        "features/download, MiB of 100",
        "rate",
        "curlhttp",
        "curl",
        least=0.95,
        label="download of 100 MiB to a file, rate ÷ curl",
    ),
    Goal(
        "features/upload, MiB of 100",
        "rate",
        "curlhttp",
        "curl",
        least=0.9,
        label="upload of 100 MiB from a file, rate ÷ curl",
    ),
    *[
        Goal(
            f"features/rows, {kind}",
            "cpu",
            "run_partition",
            "Client.map",
            most=1.25,
            label=f"rows of a partition, {kind}, CPU ÷ Client.map",
        )
        for kind in ("JSON Lines", "Parquet")
    ],
)


@dataclass(frozen=True)
class Finding:
    """The result for a goal: the ratio, or the reason why there is none."""

    goal: Goal
    ratio: Ratio | None
    reason: str = ""
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Return "yes" or "no", and whether the spread of the rounds is small enough to say so."""
        if self.ratio is None:
            return self.reason
        value = self.ratio.median
        is_reached = (
            value <= self.goal.bound if self.goal.least is None else value >= self.goal.bound
        )
        word = "yes" if is_reached else "no"
        return (
            f"{word}, but the spread reaches the goal"
            if self.ratio.may_be(self.goal.bound)
            else word
        )


Rows = dict[str, dict[str, dict[str, Any]]]


def load(folder: Path) -> Rows:
    """Return the rows of all results in a folder, by case and by "client/loop/concurrency"."""
    found: Rows = {}
    for path in folder.glob("*.json"):
        results = json.loads(path.read_text())
        if results["benchmark"] == "crawl":  # it has no goals
            continue
        if "cases" in results:
            for case in results["cases"]:
                title = f"{results['benchmark']}/{case['group']}, {case['name']}"
                found[title] = {_label(row): row for row in case["rows"]}
        elif results["benchmark"] == "million":
            rows = [row for row in results["rows"] if "samples" in row]
            found["million"] = {_label(row): row for row in rows}
    return found


def _label(row: dict[str, Any]) -> str:
    number = row.get("concurrency") or row.get("connections")
    loop = "" if row["loop"] == "none" else row["loop"]
    return "/".join(str(part) for part in (row["client"], loop, number) if part)


def find(goal: Goal, rows: Rows) -> Finding:
    """Return what the results say about a goal."""
    if goal.case not in rows:
        return Finding(goal, None, "not measured")
    case, measure = rows[goal.case], MEASURES[goal.measure]
    lacking = [name for name in (goal.over, goal.under) if name and name not in case]
    if lacking:
        return Finding(goal, None, f"not measured: no {' and no '.join(lacking)}")
    remark = ", ".join(
        f"{name} resumed {case[name]['resumed']:.0%}"
        for name in (goal.over, goal.under)
        if name and "resumed" in case[name]
    )
    over = case[goal.over]["samples"]
    if not goal.under:
        return Finding(goal, Ratio.of([measure(sample) for sample in over]))
    under = case[goal.under]["samples"]
    failed = sum(sample["errors"] for sample in [*over, *under])
    remark = ", ".join(filter(None, (remark, failed and f"{failed} errors")))
    return Finding(goal, ratio(over, under, measure), "no figures", remark)


def markdown(folder: Path) -> str:
    """Return the table of goals for the results in a folder."""
    rows = load(folder)
    lines = [
        "# goals",
        "Ratios of two rows, round by round: the median, and the quartiles as their spread. `cpu` "
        "is the client's per request, `memory` its peak with the interpreter's, `rate` requests "
        "per second. The bare loops set NOSIGNAL like curlhttp, unless their name says otherwise; "
        "what else they set is below the tables of `pairs`.",
        "| case | ratio | goal | measured (quartiles) | reached |\n| --- | --- | --: | --: | --- |",
    ]
    lines[-1] += "".join(f"\n{_line(find(goal, rows))}" for goal in GOALS)
    lines += [_machines(folder)]
    return "\n\n".join(line for line in lines if line) + "\n"


def selected(folder: Path) -> str:
    """Return the table of docs/speed.md: the goals that have a label."""
    rows = load(folder)
    lines = ["| ratio | goal | measured (quartiles) | reached |", "| --- | --: | --: | --- |"]
    for goal in GOALS:
        if goal.label:
            finding = find(goal, rows)
            bound, shown = _figures(finding)
            lines.append(f"| {goal.label} | {bound} | {shown} | {finding.verdict} |")
    return "\n".join(lines)


def _figures(finding: Finding) -> tuple[str, str]:
    """Return the bound of a goal and what was measured, as texts."""
    goal, found = finding.goal, finding.ratio
    unit, suffix = (_MIB, " MiB") if goal.measure == "memory" and not goal.under else (1, "")
    sign = "≤" if goal.least is None else "≥"
    shown = ""
    if found is not None:
        low, middle, high = (value / unit for value in (found.low, found.median, found.high))
        shown = f"{middle:.2f}{suffix} ({low:.2f}–{high:.2f})"
    return f"{sign} {goal.bound / unit:g}{suffix}", shown


def _line(finding: Finding) -> str:
    goal = finding.goal
    bound, shown = _figures(finding)
    ratio_of = f"{goal.measure}: {goal.over}" + (f" ÷ {goal.under}" if goal.under else "")
    verdict = finding.verdict + (f" ({finding.remark})" if finding.remark else "")
    return f"| {goal.case} | {ratio_of} | {bound} | {shown} | {verdict} |"


def _machines(folder: Path) -> str:
    lines: list[str] = []
    for path in sorted(folder.glob("*.json")):
        results = json.loads(path.read_text())
        if "scenarios" in results:  # it has no timed results
            continue
        machine = results["machine"]
        load = machine.get("load"), machine.get("load_at_end")
        loads = " to ".join(f"{one[0]:.2f}" for one in load if one) or "unknown"
        lines.append(
            f"* {path.stem}: {machine['date']}, commit {machine['commit']}, "
            f"{results['settings'].get('rounds', '?')} rounds, load average {loads}"
        )
    return "\n".join(lines)


def compare_results(before: Path, now: Path) -> tuple[list[str], int]:
    """Return what got worse by more than its spread, and how many ratios were compared.

    Worse means that the median moved in the wrong direction by more than the sum of both spreads
    (between the quartiles).
    """
    old, new = load(before), load(now)
    worse: list[str] = []
    compared = 0
    for goal in GOALS:
        was, is_now = find(goal, old).ratio, find(goal, new).ratio
        if was is None or is_now is None:
            continue
        compared += 1
        change = is_now.median - was.median
        loss = change if goal.least is None else -change
        if loss > (was.high - was.low) + (is_now.high - is_now.low):
            worse.append(
                f"{goal.title}: was {was.median:.3g} ({was.low:.3g}–{was.high:.3g}), "
                f"is {is_now.median:.3g} ({is_now.low:.3g}–{is_now.high:.3g})"
            )
    return worse, compared
