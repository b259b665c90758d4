"""Markdown tables of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks.figures import Ratio, Spread, Summary, summaries

__all__ = ["chosen", "cores", "markdown", "million", "of_redis", "overview", "simulated"]

_MIB = 1 << 20


def markdown(results: dict[str, Any]) -> str:
    """Return the content of a results file, as tables."""
    makers: dict[str, Callable[[dict[str, Any]], list[str]]] = {
        "async": _comparison,
        "tasks": _comparison,
        "pairs": _comparison,
        "cold": _comparison,
        "features": _comparison,
        "sync": _curves,
        "million": lambda results: [million(results)],
        "import": _imports,
        "simulate": _simulations,
        "redis": lambda results: [of_redis(results)],
        "crawl": _crawls,
    }
    parts = [f"# {results['benchmark']}", *makers[results["benchmark"]](results), _notes(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """Return a table whose first columns are text and the others figures."""
    rule = ["---"] * words + ["--:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def _notes(results: dict[str, Any]) -> str:
    machine, lines = results["machine"], []
    if results["benchmark"] not in ("import", "simulate", "redis", "crawl"):
        lines.append(
            "× curlhttp is the median over the rounds, which the clients take in turns; with ≈ the "
            "quartiles of the rounds reach 1.00: the difference is smaller than the spread."
        )
    lines.append(
        f"{machine['date']}, commit {machine['commit']}; {machine['cpu']}, {machine['cores']} "
        f"cores; {machine['system']}; {machine['python']}; {machine['libcurl']}."
    )
    if "load" in machine:
        ends = [machine["load"], machine.get("load_at_end", machine["load"])]
        begun, ended = (" ".join(f"{value:.2f}" for value in load) for load in ends)
        lines.append(f"Load average over 1, 5 and 15 minutes: {begun}; at the end: {ended}.")
    if results.get("server"):
        lines.append(f"Server: {results['server']}. Settings: {_listed(results['settings'])}.")
    elif results["benchmark"] == "simulate":
        lines.append(f"Settings: {_listed(results['settings'])}; the same seed gives the same.")
    for title, name in (
        ("Versions", "versions"),
        ("Set-up", "configurations"),
        ("Left out", "skipped"),
    ):
        if results.get(name):
            lines.append(f"{title}: {_listed(results[name])}.")
    return "\n\n".join(lines)


def _listed(values: dict[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in values.items())


def _loop(loop: str) -> str:
    return "" if loop == "none" else loop


def _spread(spread: Spread) -> str:
    return f"{spread.median:,.0f} ({spread.least:,.0f}–{spread.greatest:,.0f})"


def _ratio(ratio: Ratio | None, *, spread: bool = False) -> str:
    if ratio is None:
        return ""
    about = "≈" if ratio.may_be(1.0) else ""
    around = f" ({ratio.low:.2f}–{ratio.high:.2f})" if spread else ""
    return f"{about}{ratio.median:.2f}{around}"


# --- async, tasks ---


def _comparison(results: dict[str, Any]) -> list[str]:
    parts = [overview(results["cases"])] if results["benchmark"] == "async" else []
    for case in results["cases"]:
        missing = ", ".join(f"{name}: {why}" for name, why in case["missing"].items())
        at_once = f", {case['concurrency']} at once" if case.get("concurrency", 1) > 1 else ""
        at_once = at_once if at_once not in case["name"] else ""
        parts += [
            f"## {case['group']}, {case['name']}{at_once}",
            _case(case),
            missing and f"n/a: {missing}.",
        ]
    return parts


def overview(cases: list[dict[str, Any]], chosen: Sequence[str] = ()) -> str:
    """Return requests per second of all clients in all cases.

    Args:
        cases: of the results.
        chosen: "client/loop" of the rows, in order; default: all, the fastest first.
    """
    columns = [
        {(summary.client, summary.loop): summary for summary in summaries(case)} for case in cases
    ]
    names = list(dict.fromkeys(name for column in columns for name in column))
    if chosen:
        pairs = [(one.rpartition("/")[0], one.rpartition("/")[2]) for one in chosen]
        names = [pair for pair in pairs if pair in names]
    has_loops = any(loop != "none" for _, loop in names)
    rows = [
        [
            client,
            *([_loop(loop)] if has_loops else []),
            *[_cell(column.get((client, loop))) for column in columns],
        ]
        for client, loop in names
    ]
    groups = {case["group"] for case in cases}
    titles = [f"{c['group']}, {c['name']}" if len(groups) > 1 else c["name"] for c in cases]
    head = ["requests/s (× curlhttp)", *(["loop"] if has_loops else []), *titles]
    return _table(head, rows, words=1 + has_loops)


def chosen(columns: Sequence[tuple[str, str, dict[str, Any]]], clients: Sequence[str]) -> str:
    """Return requests per second of some clients in some cases.

    Args:
        columns: the title of each, its loop, and the case of the results.
        clients: the rows, in order.
    """
    found = [
        {row.client: row for row in summaries(case) if row.loop == loop}
        for _, loop, case in columns
    ]
    head = ["requests/s (× curlhttp)", *[title for title, _, _ in columns]]
    return _table(head, [[name, *[_cell(one.get(name)) for one in found]] for name in clients])


def _cell(summary: Summary | None) -> str:
    if summary is None:
        return "n/a"
    failed = ", errors!" if summary.errors else ""
    ratio = "" if summary.ratio is None else f" ({_ratio(summary.ratio)}{failed})"
    return f"{summary.rate.median:,.0f}{ratio}"


def _case(case: dict[str, Any]) -> str:
    head = ["client", "loop", "requests/s (slowest–fastest round)", "× curlhttp (quartiles)"]
    head += [
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "CPU µs/request",
        "peak RSS MiB",
        "server busy",
        "errors",
    ]
    return _table(
        head,
        [
            [
                _name(summary.row),
                _loop(summary.loop),
                _spread(summary.rate),
                _ratio(summary.ratio, spread=True),
                *[_milliseconds(summary.row.get(name)) for name in ("p50", "p95", "p99")],
                f"{summary.cpu.median:.1f}",
                _mebibytes(summary.row),
                "" if summary.server is None else f"{summary.server:.0%}",
                str(summary.errors),
            ]
            for summary in summaries(case)
        ],
        words=2,
    )


def _name(row: dict[str, Any]) -> str:
    at_once = f", {row['concurrency']:,} at once" if "concurrency" in row else ""
    resumed = f", {row['resumed']:.0%} resumed" if "resumed" in row else ""
    return f"{row['client']}{at_once}{resumed}"


def _mebibytes(row: dict[str, Any]) -> str:
    return f"{row['peak_rss'] / _MIB:.0f}" if "peak_rss" in row else ""


def _milliseconds(microseconds: int | None) -> str:
    return "" if microseconds is None else f"{microseconds / 1000:.2f}"


# --- sync ---


def _curves(results: dict[str, Any]) -> list[str]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in results["cases"]:
        groups.setdefault(case["group"], []).append(case)
    parts: list[str] = []
    for name, cases in groups.items():
        columns = [{summary.client: summary for summary in summaries(case)} for case in cases]
        clients = list(columns[0])
        sizes = [case["name"] for case in cases]
        parts += [
            f"## {name}",
            _table(
                ["requests/s (× curlhttp)", *sizes],
                [[one, *[_cell(column.get(one)) for column in columns]] for one in clients],
            ),
            _table(
                ["CPU s per 10,000 requests", *sizes],
                [[one, *[_seconds(column.get(one)) for column in columns]] for one in clients],
            ),
        ]
    return parts


def _seconds(summary: Summary | None) -> str:
    return "n/a" if summary is None else f"{summary.cpu.median / 100:.2f}"


# --- million ---


def million(results: dict[str, Any], *, narrow: bool = False) -> str:
    """Return the table of a million GETs; `narrow` leaves out the numbers of connections."""
    head = ["client", "loop", "connections allowed", "wall s", "requests/s", "CPU s"]
    head += ["RSS MiB, first–last", "peak RSS MiB", "most sockets", "errors"]
    rows = [
        [
            row["client"],
            _loop(row["loop"]),
            str(row["connections"]),
            f"{row['wall']:.1f}",
            f"{row['requests'] / row['wall']:,.0f}",
            f"{row['cpu']:.1f}",
            f"{row['looks'][0][1] / _MIB:.0f}–{row['looks'][-1][1] / _MIB:.0f}",
            f"{row['peak_rss'] / _MIB:.0f}",
            str(max(look[2] for look in row["looks"])),
            str(row["errors"]) + (f" ({row['error']})" if row["errors"] else ""),
        ]
        for row in results["rows"]
    ]
    if narrow:
        counts = [head.index(name) for name in ("connections allowed", "most sockets")]
        head, *rows = ([c for n, c in enumerate(r) if n not in counts] for r in (head, *rows))
    return _table(head, rows, words=2)


# --- import ---


def _imports(results: dict[str, Any]) -> list[str]:
    rows = [
        [f"`{name}`", *[f"{value:.1f}" for value in spread]]
        for name, spread in results["rows"].items()
    ]
    return [_table(["statement", "ms, median", "fastest", "slowest"], rows)]


# --- simulate ---


def _simulations(results: dict[str, Any]) -> list[str]:
    parts = []
    for case in results["scenarios"]:
        about = f"{case['about']} Processes, each with a client: {case['clients']:,}."
        parts += [f"## {case['name']}", about, simulated(results, [case["name"]])]
    return parts


def simulated(results: dict[str, Any], names: Sequence[str]) -> str:
    """Return the figures of some cases of the simulation that have the same columns.

    Args:
        results: of the simulation.
        names: of the cases.
    """
    cases = [case for case in results["scenarios"] if case["name"] in names]
    rows = [
        [
            f"{case['name']}: {row['name']}" if len(cases) > 1 else row["name"],
            *[_figure(value) for value in row["figures"].values()],
        ]
        for case in cases
        for row in case["rows"]
    ]
    return _table(["clients", *cases[0]["rows"][0]["figures"]], rows)


def _figure(value: float | None) -> str:
    return "never" if value is None else f"{value:,}"


# --- redis ---


def of_redis(results: dict[str, Any]) -> str:
    """Return the table of what Redis did for each request."""
    head = ["policy", "concurrent requests", "scripts per request"]
    head += ["commands of Redis per request", "CPU s of Redis per 1,000 scripts"]
    head += ["CPU s of Redis per 1,000 requests", "bytes per request", "keys", "errors"]
    rows = [
        [
            row["policy"],
            str(row["at_once"]),
            f"{row['scripts'] / row['requests']:.3f}",
            f"{row['commands'] / row['requests']:.2f}",
            f"{1000 * row['cpu'] / row['scripts']:.3f}" if row["scripts"] > 1000 else "",
            f"{1000 * row['cpu'] / row['requests']:.3f}",
            f"{row['bytes'] / row['requests']:,.0f}",
            str(row["keys"]),
            str(row["errors"]),
        ]
        for row in results["scenarios"]
    ]
    return _table(head, rows)


# --- crawl ---

_SEEN = {  # by the origins
    "slow answers before 95% of the fast": "slow_before",
    "most at once at an origin": "most_at_once",
    "most in 1 s at an origin": "most_in_a_second",
    "sent during a Retry-After": "too_early",
    "of robots.txt's disallowed": "private",
}


def _crawls(results: dict[str, Any]) -> list[str]:
    parts = ["What the origins saw is the greatest of all rounds; the rest is the median."]
    for case in results["cases"]:
        parts += [f"## {case['name']}", case["about"], _crawl(case)]
    return parts


def _crawl(case: dict[str, Any]) -> str:
    head = ["crawler", "s", "CPU µs/URL", "peak RSS MiB", "succeeded", "failed", *_SEEN]
    rows = []
    for row in case["rows"]:
        middle = {
            name: median(sample[name] for sample in row["samples"])
            for name in ("wall", "cpu", "peak", "ok", "failed")
        }
        seen = [[sample[name] for sample in row["samples"]] for name in _SEEN.values()]
        rows.append(
            [
                row["client"],
                f"{middle['wall']:.1f}",
                f"{1e6 * middle['cpu']:,.0f}",
                f"{middle['peak'] / _MIB:.0f}",
                f"{middle['ok']:,.0f}",
                f"{middle['failed']:,.0f}",
                *["" if None in found else f"{max(found):,}" for found in seen],
            ]
        )
    return _table(head, rows)


_RATES = (10, 1_000, 100_000)  # requests per second


def cores(redis: dict[str, Any], million: dict[str, Any]) -> str:
    """Return the cores that some rates need, and the CPU hours of a billion requests.

    Args:
        redis: results of the load on Redis.
        million: results of a million requests.
    """
    seconds = {
        f"client: {row['client']} {_loop(row['loop'])}".strip(): row["cpu"] / row["requests"]
        for row in million["rows"]
        if row["client"].startswith("curlhttp")
    } | {
        f"Redis: {row['policy']}, {row['at_once']} at once": row["cpu"] / row["requests"]
        for row in redis["scenarios"]
    }
    head = ["cores", *[f"{rate:,} requests/s" for rate in _RATES], "CPU hours for a billion"]
    rows = [
        [name, *[f"{each * rate:.4f}" for rate in _RATES], f"{each * 1e9 / 3600:.1f}"]
        for name, each in seconds.items()
    ]
    return _table(head, rows)
