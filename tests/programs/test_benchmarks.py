"""The benchmarks: each command runs from end to end on few requests and reports errors."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    async_,
    cpu,
    features,
    goals,
    import_time,
    instructions,
    pairs,
    readme,
    results,
    server,
    sync,
    tables,
)
from benchmarks.__main__ import _COMMANDS, main
from benchmarks.clients import ASYNC, BLOCKING
from benchmarks.clients.base import Settings
from benchmarks.compare import Case, Group
from benchmarks.crew import Contender, Crew, Failed, Options, Worker
from benchmarks.figures import Ratio, summaries
from benchmarks.simulation.clock import ScriptedNetwork, run
from benchmarks.simulation.scenarios import SCENARIOS, Scenario
from benchmarks.simulation.world import Tally
from curlhttp import AsyncClient
from curlhttp.testing import Answer

pytestmark = pytest.mark.slow

_SMALL = ("--rounds", "1", "--seconds", "0.01", "--server", "asyncio")
_FLOOR = Contender("bare pycurl", "bare.Easy", "none")


def _run(folder: Path, command: str, *arguments: str) -> dict[str, Any]:
    """Run a command with few requests; return its results, with tables that were written."""
    main([command, *_SMALL, "--output", str(folder), *arguments])
    (path,) = folder.glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text().startswith(f"# {found['benchmark']}\n")
    plotted = found["benchmark"] not in ("import", "pairs", "cold", "features", "crawl")
    plotted = plotted and importlib.util.find_spec("matplotlib") is not None
    assert path.with_suffix(".svg").exists() == plotted
    assert found["machine"].keys() >= {"load", "load_at_end", "commit", "date"}
    return found


def _clients(case: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["client"], row["loop"]) for row in case["rows"]]


def test_async_measures_each_client_on_each_of_its_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_, "_GROUPS", (Group("HTTP/1.1", (Case("200 B", 200, 8),)),))
    found = _run(tmp_path, "async", "--clients", "curlhttp,bare pycurl multi loop")
    (case,) = found["cases"]
    loops = [("curlhttp", loop) for loop in ("asyncio", "uvloop", "trio")]
    assert _clients(case) == [*loops, ("bare pycurl multi loop", "none")]
    for row in case["rows"]:
        (sample,) = row["samples"]
        assert (sample["errors"], sample["requests"] >= 8) == (0, True)
        assert 0 < row["p50"] <= row["p95"] <= row["p99"]
        assert row["peak_rss"] > 1 << 20
    assert set(found["versions"]) == {"curlhttp", "pycurl"}
    assert found["server"].startswith("asyncio (for tests")


def test_sync_measures_blocking_clients_with_and_without_reuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = (Case("4 B", 4), Case("1 KiB", 1024))
    kept = Group("kept", cases)
    fresh = Group("fresh, TLS", cases[:1], scheme="https", reuse=False)
    monkeypatch.setattr(sync, "_GROUPS", (kept, fresh))
    names = ("curlhttp", "curlhttp.Session", "bare pycurl")
    found = _run(tmp_path, "sync", "--clients", ",".join(names))
    assert [(case["group"], case["size"]) for case in found["cases"]] == [
        ("kept", 4),
        ("kept", 1024),
        ("fresh, TLS", 4),
    ]
    for case in found["cases"]:
        assert _clients(case) == [(name, "none") for name in names]
        assert not any(row["samples"][0]["errors"] for row in case["rows"])


def test_million_watches_memory_and_sockets(tmp_path: Path) -> None:
    arguments = ("--requests", "300", "--concurrency", "120", "--clients", "curlhttp")
    found = _run(tmp_path, "million", *arguments)
    rows = [(row["loop"], row["connections"]) for row in found["rows"]]
    assert rows == [("asyncio", 100), ("uvloop", 100), ("uvloop", 120)]
    for row in found["rows"]:
        assert (row["requests"], row["errors"]) == (300, 0)
        assert all(rss > 1 << 20 for _, rss, _ in row["looks"])
        assert 50 < max(sockets for _, _, sockets in row["looks"]) <= row["connections"] + 5


def test_many_tasks_are_compared_with_64(tmp_path: Path) -> None:
    found = _run(tmp_path, "tasks", "--tasks", "200", "--clients", "curlhttp")
    (case,) = found["cases"]
    assert [row["concurrency"] for row in case["rows"]] == [64, 200]
    assert [row["samples"][0]["errors"] for row in case["rows"]] == [0, 0]
    # Each task sends one at least: more where 200 take less than a round.
    assert case["rows"][1]["samples"][0]["requests"] >= 200


def test_the_server_has_ports_outside_the_ephemeral_range() -> None:
    """With many clients, another port could be taken before the server binds it."""
    lowest = 49_152
    with suppress(OSError):
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with server.serve([4], kind="asyncio", origins=3) as running:
        urls = [*running.urls.values(), *running.origins]
        assert all(int(url.rpartition(":")[2]) < lowest for url in urls)


def test_pairs_measures_each_chosen_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"streamed", "httpx", "threads", "kept", "first requests to TLS origins"}
    few = [group for group in pairs._GROUPS if group.name in chosen]
    few[-1] = replace(few[-1], origins=3)
    monkeypatch.setattr(pairs, "_GROUPS", few)
    found = _run(tmp_path, "pairs")
    rows = {case["group"]: case["rows"] for case in found["cases"]}
    assert rows.keys() == chosen
    assert not [row for some in rows.values() for row in some if row["samples"][0]["errors"]]
    assert [row["concurrency"] for row in rows["threads"]] == [1, 16]
    counts = [row["samples"][0]["requests"] for row in rows["first requests to TLS origins"]]
    assert counts == [3, 3]


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_the_handshakes_of_new_connections_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [group for group in pairs._GROUPS if group.scheme != "http" and not group.reuse]
    monkeypatch.setattr(pairs, "_GROUPS", some)
    found = _run(tmp_path, "pairs", "--server", "nginx")
    resumed = [[row["resumed"] for row in case["rows"]] for case in found["cases"]]
    assert resumed == [[1, 1, 1], [0, 0, 0]]


def test_benchmarks_that_the_server_cannot_run_are_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [group for group in pairs._GROUPS if group.scheme == "https, full handshakes"]
    monkeypatch.setattr(pairs, "_GROUPS", few)
    found = _run(tmp_path, "pairs")
    assert found["cases"] == []
    assert "cannot do that" in found["skipped"][few[0].name]


def test_first_requests_are_measured_in_fresh_interpreters(tmp_path: Path) -> None:
    found = _run(tmp_path, "cold")
    names = [
        ["interpreter", "curlhttp.get", "curlhttp.Client().get", "requests.get"],
        ["curlhttp get", "http (httpie)", "curl"],
    ]
    for case, expected in zip(found["cases"], names, strict=True):
        assert [row["client"] for row in case["rows"]] == [
            name for name in expected if name not in case["missing"]
        ]
        # Without the interpreter's start, which a busy machine may have made the longer one.
        assert all(row["samples"][0]["wall"] != 0 for row in case["rows"])


@pytest.mark.skipif(not importlib.util.find_spec("picows"), reason="extra 'bench'")
def test_features_are_measured_next_to_their_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "_FILE", 70_000)
    monkeypatch.setattr(features, "_URLS", 20)
    monkeypatch.setattr(features, "_MESSAGES", {"64 B": (64, 20, 10)})
    found = _run(tmp_path, "features")
    clients = {
        (case["group"], case["name"]): [row["client"] for row in case["rows"]]
        for case in found["cases"]
        if not case["missing"].keys() - {"curl"}
    }
    assert clients.keys() == {
        *(("download", "MiB of 100"), ("upload", "MiB of 100"), ("WebSocket echo", "64 B")),
        *(("rows", "JSON Lines"), ("rows", "Parquet")),
    }
    assert clients["WebSocket echo", "64 B"] == ["curlhttp", "aiohttp"]
    assert clients["rows", "Parquet"] == ["run_partition", "Client.map"]
    assert not [
        row
        for case in found["cases"]
        for row in case["rows"]
        for sample in row["samples"]
        if sample["errors"]
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.0/8 and /proc")
def test_crawls_are_measured_by_the_crawler_and_by_the_origins(tmp_path: Path) -> None:
    ours = ["Client.map", "curlhttp fetch"]
    arguments = ("--origins", "20", "--urls", "200", "--clients", ",".join(ours))
    found = _run(tmp_path, "crawl", *arguments)
    assert [case["name"] for case in found["cases"]] == ["a slow host first", "the mix", "a rate"]
    for case in found["cases"]:
        assert [row["client"] for row in case["rows"]] == ours
        for row in case["rows"]:
            (sample,) = row["samples"]
            assert sample["ok"] + sample["failed"] == case["urls"]
            assert sample["peak"] > 1 << 20
    for row in found["cases"][0]["rows"]:
        (sample,) = row["samples"]
        assert (sample["failed"], sample["pages"]) == (0, {"fast": 200, "slow": 100})
        assert sample["most_at_once"] <= 2
        assert sample["slow_before"] is not None


def test_import_times_are_those_of_fresh_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_time, "_PEERS", ())
    found = _run(tmp_path, "import")
    assert list(found["rows"]) == list(import_time._STATEMENTS)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_instructions_counts_those_of_a_request_and_of_a_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = "from urllib.request import urlopen\nfor _ in range(count):\n    urlopen(url).read()"
    row = replace(instructions._ROWS[1], code=slow, few=1, many=9)
    monkeypatch.setattr(instructions, "_ROWS", (row,))
    monkeypatch.setattr(instructions, "_FIRST", replace(instructions._FIRST, code=slow))
    main(["instructions", *_SMALL])
    counts = dict(re.findall(r"^\| (.+) \| ([\d,]+) \|$", capsys.readouterr().out, re.MULTILINE))
    request, process = (int(count.replace(",", "")) for count in counts.values())
    assert 0 < request < process


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_instructions_leaves_out_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "large.py").write_text("".join(f"a{n} = lambda: {n}\n" for n in range(5_000)))
    code = f"import sys\nsys.path.append({str(tmp_path)!r})\nimport large"
    monkeypatch.setattr(instructions, "_ROWS", ())
    monkeypatch.setattr(instructions, "_FIRST", replace(instructions._FIRST, code=code))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    main(["instructions", *_SMALL])
    assert "not measured" not in capsys.readouterr().out
    assert (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ((100_000, 200_000, 300_000), "2"),
        ((500_000, 200_000, 300_000), "not measured: -6, then 2; run it again"),
        ((100_000, 200_000, 200_000), "not measured: 2, then 0; run it again"),
        ((500_000, 400_000, 300_000), "not measured: -2, then -2; run it again"),
    ],
)
def test_instructions_shows_no_figure_if_two_measurements_disagree(
    counts: tuple[int, ...], shown: str
) -> None:
    left = iter(counts)
    row = replace(instructions._ROWS[0], few=50, many=150)
    assert instructions._show(*instructions._measure(row, lambda count: next(left))) == shown


def test_instructions_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="apt install valgrind"):
        main(["instructions", *_SMALL])


def test_cpu_prints_a_table_for_each_api(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cpu, "_COUNT", 20)
    monkeypatch.setattr(cpu, "cores", lambda: (None, None))  # the tests continue in this process
    main(["cpu", *_SMALL])
    printed = capsys.readouterr().out
    assert printed.count("| curlhttp |") == 3
    assert printed.count("| curlhttp, retry and breaker |") == 3


def test_report_makes_tables_of_results_that_are_there(tmp_path: Path) -> None:
    rows = {"import x": [1.0, 0.5, 2.0]}
    saved = {"benchmark": "import", "machine": _machine(), "settings": {"rounds": 1}, "rows": rows}
    results.save(saved, tmp_path)
    (tmp_path / "import.md").unlink()
    main(["report", "--output", str(tmp_path)])
    assert "| `import x` | 1.0 | 0.5 | 2.0 |" in (tmp_path / "import.md").read_text()
    assert (tmp_path / "goals.md").read_text().count("| not measured |") == len(goals.GOALS)


def test_all_measures_clients_that_there_are() -> None:
    for name, registry in {"async": ASYNC, "sync": BLOCKING}.items():
        chosen = {client.partition("/")[0] for client in _COMMANDS[name].in_all}
        assert chosen
        assert chosen <= set(registry)


def test_the_tables_of_the_pages_and_of_the_folder_are_those_of_the_results() -> None:
    tables_of = {}
    texts = [(readme.PICTURES.parent / "index.md").read_text(encoding="utf-8")]
    for page in readme.PAGES:
        text = page.read_text(encoding="utf-8")
        texts.append(text)
        assert readme.with_tables(text, results.FOLDER) == text, "python -m benchmarks report"
        tables_of[page.name] = text.count("<!-- benchmarks: ")
    assert tables_of == {"README.md": 1, "speed.md": 4, "scale.md": 12}
    shown = set(re.findall(r"\((?:images|benchmarks/results)/([\w-]+\.svg)\)", "".join(texts)))
    assert shown == {picture.name for picture in readme.PICTURES.glob("*.svg")}
    for picture in readme.PICTURES.glob("*.svg"):
        assert picture.read_bytes() == (results.FOLDER / picture.name).read_bytes()
    for path in results.FOLDER.glob("*.json"):
        made = tables.markdown(json.loads(path.read_text()))
        assert path.with_suffix(".md").read_text() == made, "python -m benchmarks report"
    assert (results.FOLDER / "goals.md").read_text() == goals.markdown(results.FOLDER)


@pytest.mark.parametrize("picture", sorted(readme.PICTURES.glob("*.svg")), ids=lambda one: one.stem)
def test_the_text_of_a_plot_can_be_read_on_a_phone(picture: Path) -> None:
    """A page has 328 pixels on a screen of 360, and text is read from 9 pixels on."""
    text = picture.read_text(encoding="utf-8")
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) ', text)
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)]
    assert sizes
    assert min(sizes) * 328 / float(width) >= 9


# --- the simulation ---


def test_a_simulation_makes_tables_and_a_plot_and_is_the_same_for_the_same_seed(
    tmp_path: Path,
) -> None:
    found = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        main(["simulate", "--share", "0.005", "--seed", "7", "--output", str(folder)])
        found.append(json.loads((folder / "simulate.json").read_text()))
        assert (folder / "simulate.md").read_text().count("\n## ") == len(SCENARIOS)
        has_plots = importlib.util.find_spec("matplotlib") is not None
        assert (folder / "simulate-retry-storm.svg").exists() == has_plots
    assert found[0]["scenarios"] == found[1]["scenarios"]


def _play(scenario: Scenario, name: str) -> Tally:
    (variant,) = (each for each in scenario.variants if each.name.startswith(name))
    return scenario.play(variant, seed=7)


def test_in_a_simulation_clients_share_their_policies() -> None:
    outage = SCENARIOS[1].of_size(0.1)
    begin, end = outage.trouble
    own, one = _play(outage, "a breaker"), _play(outage, "one breaker for all")
    assert own.sum("open", begin, end) > outage.clients
    # It opens once, and each probe, 5 s apart, opens it again.
    assert one.sum("open", begin, end) == one.sum("half_open", begin, end) + 1 <= 12
    assert one.sum("attempts", begin, end) < own.sum("attempts", begin, end) / 20


def test_a_simulated_server_has_a_bounded_capacity() -> None:
    flapping = SCENARIOS[2].of_size(0.1)
    seen = _play(flapping, "50 at once over all")
    answered = seen.series("good", flapping.seconds)
    assert max(answered[21:80]) <= 20 < max(answered)
    assert sum(answered[21:80]) > 0.9 * 59 * 20
    assert seen.sum("calls") == sum(seen.sum(name) for name in ("good", "failed", "refused"))


def test_an_adaptive_limit_is_nearly_as_good_as_the_best_fixed_one() -> None:
    (halved,) = (each for each in SCENARIOS if each.name == "half the capacity")
    begin, end = halved.trouble
    seen = {variant.name: halved.play(variant, seed=7) for variant in halved.variants[1:5]}
    adaptive = _play(halved, "AdaptiveLimit")

    def answered(tally: Tally) -> int:
        return tally.sum("good", 5)

    most = max(map(answered, seen.values()))
    full = [tally for tally in seen.values() if answered(tally) >= 0.99 * most]
    best = min(full, key=lambda tally: tally.percentile("attempt", 99, 5))
    for since, until in ((5, begin), (begin, end), (end, halved.seconds)):
        assert adaptive.sum("good", since, until) >= 0.9 * best.sum("good", since, until)
        fixed = best.percentile("attempt", 99, since, until)
        assert adaptive.percentile("attempt", 99, since, until) <= 2 * fixed


def test_two_adaptive_limits_share_a_server_fairly() -> None:
    (two,) = (each for each in SCENARIOS if each.name == "two clients")
    figures = two.figures(two, _play(two, "AdaptiveLimit"))
    fairness, used = figures["fairness (Jain)"], figures["of the capacity, %"]
    assert fairness is not None
    assert fairness >= 0.9
    assert used is not None
    assert used >= 90


def test_endpoints_keep_calls_away_from_a_server_that_is_down() -> None:
    (down,) = (each for each in SCENARIOS if each.name == "one of three endpoints is down")
    figures = {
        variant.name: down.figures(down, down.play(variant, seed=7)) for variant in down.variants
    }
    at_bad = {name: found["attempts at the failing server"] for name, found in figures.items()}
    for choose in ("round_robin", "least_pending", "p2c"):
        found = at_bad[choose]
        assert found is not None
        assert found < 100
        good = figures[choose]["good, %"]
        assert good is not None
        assert good > 99
        share = figures[choose]["its share 10 s later, %"]
        assert share is not None
        assert 30 < share < 36
    assert (at_bad["least_pending, nothing ejected"] or 0) > 5000


def test_after_an_overload_clients_recover_unless_only_the_total_time_is_limited() -> None:
    (overload,) = (each for each in SCENARIOS if each.name == "overload")
    figures = {
        variant.name: overload.figures(overload, overload.play(variant, seed=7))
        for variant in overload.variants
    }

    def get(name: str, what: str) -> float:
        return figures[name][what] or 0.0

    assert get("the defaults", "most calls in progress") > 1500
    assert get("total=2", "good, after, %") < 10
    assert get("pool=1", "good, after, %") > 95
    assert get("pool=1", "p50 of a call, after, s") < 1
    assert get("read=0.8, a breaker that opens for 30 s", "good, after, %") < 75
    assert get("read=0.8, CircuitBreaker()", "good, after, %") > 95
    assert get("read=0.8, CircuitBreaker()", "good/s, halved") > 0.4 * 110
    assert get("pool=1, AdaptiveLimit()", "good/s, halved") > 0.75 * 110
    assert get("total=2, AdaptiveLimit()", "good/s, halved") > 0.5 * 110
    assert get("total=2, AdaptiveLimit()", "good, after, %") > 90


def test_equal_requests_share_transfers_in_a_simulation() -> None:
    (popular,) = (each for each in SCENARIOS if each.name == "equal requests")
    figures = popular.figures(popular, _play(popular, "coalesce=True"))
    assert figures["good, %"] == 100.0
    assert (figures["attempts"] or 0) < 400


def test_requests_of_a_simulation_wait_concurrently_on_its_clock() -> None:
    async def main() -> float:
        network = ScriptedNetwork(lambda request: Answer(delay=3600))
        clients = [AsyncClient(transport=network, timeout=None) for _ in range(3)]
        await asyncio.gather(*[client.get("http://a.test/") for client in clients])
        return network.now()

    assert run(main()) == 3600


def test_a_simulation_in_which_nothing_can_happen_any_more_ends() -> None:
    with pytest.raises(RuntimeError, match="no timer is left"):
        run(asyncio.Event().wait())


# --- Redis ---


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
@pytest.mark.skipif(not importlib.util.find_spec("redis"), reason="the extra redis is missing")
def test_redis_commands_per_request_are_counted(tmp_path: Path) -> None:
    main(["redis", "--requests", "200", "--server", "asyncio", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "redis.json").read_text())
    per_request = {
        (row["policy"], row["at_once"]): row["scripts"] / row["requests"]
        for row in found["scenarios"]
    }
    assert per_request["rate", 64] == 1  # a round trip for each decision
    assert per_request["breaker", 64] < 1  # a circuit is believed for a moment
    assert not any(row["errors"] for row in found["scenarios"])
    assert "| rate | 64 |" in (tmp_path / "redis.md").read_text()


# --- goals, check ---


_GOAL = next(goal for goal in goals.GOALS if goal.under == "aiohttp/uvloop")  # a least ratio


def _write(folder: Path, ours: list[float], theirs: list[float] | None = None) -> Path:
    """Write results of the goal's case, with the rates of the rounds."""

    def row(title: str, rates: list[float]) -> dict[str, Any]:
        client, loop = title.split("/")
        one = {"requests": 1, "cpu": 1.0, "errors": 0, "server_cpu": 0.0, "peak_rss": 1}
        return {
            "client": client,
            "loop": loop,
            "samples": [{**one, "wall": 1 / rate} for rate in rates],
        }

    benchmark, _, case = _GOAL.case.partition("/")
    group, _, name = case.rpartition(", ")
    rows = [row(_GOAL.over, ours), row(_GOAL.under, theirs or [1.0] * len(ours))]
    cases = [{"group": group, "name": name, "rows": rows, "missing": {}}]
    saved = {"benchmark": benchmark, "machine": _machine(), "settings": {}, "cases": cases}
    folder.mkdir(exist_ok=True)
    (folder / f"{benchmark}.json").write_text(json.dumps(saved))
    return folder


@pytest.mark.parametrize(
    ("ours", "shown", "verdict"),
    [
        ([3, 3, 3.2], "3.00 (3.00\u20133.10)", "yes"),
        ([2, 2, 2.2], "2.00 (2.00\u20132.10)", "no"),
        ([2, 2.7, 3.2], "2.70 (2.35\u20132.95)", "yes, but the spread reaches the goal"),
        ([2, 2.5, 3.2], "2.50 (2.25\u20132.85)", "no, but the spread reaches the goal"),
    ],
)
def test_a_goal_is_reached_by_the_median_and_the_spread_is_said(
    tmp_path: Path, ours: list[float], shown: str, verdict: str
) -> None:
    (line,) = [
        line
        for line in goals.markdown(_write(tmp_path, ours)).splitlines()
        if _GOAL.under in line and "not measured" not in line
    ]
    assert line.endswith(f"| ≥ 2.6 | {shown} | {verdict} |")


def test_check_names_results_that_got_worse_by_more_than_their_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _write(tmp_path / "before", [3.0, 3.1, 3.2])
    arguments = ["check", "--against", str(before)]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, str(_write(tmp_path / "worse", [2.0, 2.1, 2.2]))])
    assert ended.value.code == 1
    assert (
        f"worse: {_GOAL.title}: was 3.1 (3.05\u20133.15), is 2.1 (2.05\u20132.15)"
        in capsys.readouterr().out
    )
    main([*arguments, str(_write(tmp_path / "within", [2.0, 3.0, 4.0]))])
    main([*arguments, str(_write(tmp_path / "better", [4.0, 4.1, 4.2]))])
    assert capsys.readouterr().out.count("1 ratios compared, 0 worse") == 2


def test_check_refuses_results_that_have_nothing_in_common(tmp_path: Path) -> None:
    before = _write(tmp_path / "before", [3.0])
    with pytest.raises(SystemExit, match="nothing to compare"):
        main(["check", "--against", str(before), str(tmp_path)])


def test_check_measures_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [group for group in pairs._GROUPS if group.name == "streamed"]
    monkeypatch.setattr(pairs, "_GROUPS", kept)
    main(["pairs", *_SMALL, "--output", str(tmp_path)])
    # One round has no spread: what matters is that the ratio was found again.
    with suppress(SystemExit):
        main(["check", *_SMALL, "--only", "pairs", "--against", str(tmp_path)])
    assert "1 ratios compared" in capsys.readouterr().out


def test_all_continues_after_a_failed_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(options: Options) -> dict[str, Any]:
        raise RuntimeError("the server is gone")

    monkeypatch.setattr(async_, "measure", fail)
    monkeypatch.setattr(import_time, "_PEERS", ())
    main(["all", *_SMALL, "--only", "async,import", "--output", str(tmp_path)])
    printed = capsys.readouterr()
    assert "async: left out, RuntimeError: the server is gone" in printed.err
    assert printed.out.startswith("# goals\n")
    assert {path.name for path in tmp_path.iterdir()} >= {"goals.md", "import.json", "import.md"}


def _machine() -> dict[str, Any]:
    names = ("date", "commit", "cpu", "cores", "system", "python", "libcurl")
    return dict.fromkeys(names, "?")


def test_ratios_are_medians_over_pairs_of_a_round() -> None:
    def row(client: str, *walls: float) -> dict[str, Any]:
        one = {"requests": 10, "cpu": 1.0, "errors": 0, "server_cpu": 0.0}
        samples = [{**one, "wall": wall} for wall in walls]
        return {"client": client, "loop": "asyncio", "samples": samples}

    case = {"rows": [row("curlhttp", 1, 10, 1), row("other", 2, 20, 4)]}
    ours, other = summaries(case)
    assert (ours.client, ours.ratio) == ("curlhttp", Ratio(1.0, 1.0, 1.0))
    assert other.ratio == Ratio(0.5, 0.375, 0.5)
    assert (other.rate.median, other.rate.least, other.rate.greatest) == (2.5, 0.5, 5.0)


def test_a_ratio_whose_spread_reaches_1_is_marked() -> None:
    def row(client: str, *walls: float) -> dict[str, Any]:
        one = {"requests": 10, "cpu": 1.0, "errors": 0}
        samples = [{**one, "wall": wall} for wall in walls]
        return {"client": client, "loop": "asyncio", "samples": samples}

    rows = [row("curlhttp", 1, 1, 1), row("near", 0.5, 1.1, 1.2), row("far", 3, 2, 2)]
    table = tables.overview([{"group": "", "name": "", "rows": rows}])
    assert "| near | asyncio | 9 (≈0.91) |" in table
    assert "| far | asyncio | 5 (0.50) |" in table


def test_a_body_of_another_length_is_an_error() -> None:
    with server.serve([4], kind="asyncio") as served, Worker(_FLOOR, Settings(), None) as worker:
        worker.answer()
        figures = worker.ask(url=f"{served.urls['http']}/4", count=3, concurrency=1, size=5)
    assert (figures["requests"], figures["errors"]) == (3, 3)
    assert figures["error"] == "4, not 5 bytes"


def test_a_client_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    absent = Contender("absent", "bare.Nothing", "none")
    with Crew.of([absent, _FLOOR], Settings()) as crew:
        assert crew.living() == [_FLOOR]
        assert "Nothing" in crew.failed[absent]


def test_a_silent_worker_is_abandoned() -> None:
    with Worker(_FLOOR, Settings(), None) as worker:
        worker.answer()
        with pytest.raises(Failed, match="no answer within 0 s"):
            worker.answer(0.01)


def test_clients_without_http2_are_named_with_the_reason() -> None:
    aiohttp = Contender("aiohttp", ASYNC["aiohttp"], "asyncio")
    with Crew.of([aiohttp], Settings(http2=True)) as crew:
        assert crew.failed == {aiohttp: "has no HTTP/2"}


def test_an_unknown_client_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such client: httq; there are: curlhttp, "):
        main(["sync", "--clients", "httq"])


def test_niquests_is_skipped_unless_an_interpreter_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_, "_GROUPS", (Group("HTTP/1.1", (Case("4 B", 4),)),))
    main(["async", *_SMALL, "--output", str(tmp_path), "--clients", "niquests"])
    found = json.loads((tmp_path / "async.json").read_text())
    assert "--python-niquests" in found["skipped"]["niquests"]


def test_without_a_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"install nginx, or granian .*curlhttp\[bench\]"):
        server.serve([4]).__enter__()


@pytest.mark.parametrize("kind", ["nginx", "granian"])
def test_the_servers_speak_all_three_protocols(kind: str) -> None:
    there = shutil.which("nginx") if kind == "nginx" else importlib.util.find_spec("granian")
    if not there:
        pytest.skip(f"{kind} is not installed")
    one = Contender("curlhttp", ASYNC["curlhttp"], "asyncio", sys.executable)
    with server.serve([200], kind=kind) as served:
        assert set(served.urls) >= {"http", "https", "h2"}
        for scheme, url in served.urls.items():
            ca = "" if scheme == "http" else served.ca
            with Worker(one, Settings(ca=ca, http2=scheme == "h2"), None) as worker:
                worker.answer()
                figures = worker.ask(url=f"{url}/200", count=20, concurrency=5, size=200)
                assert (figures["requests"], figures["errors"]) == (20, 0)


def test_no_name_of_a_line_lies_over_the_title_of_its_panel() -> None:
    plots = pytest.importorskip("benchmarks.plots", exc_type=ImportError)
    figure, [panel] = plots._panels([4.0])
    ends = {f"client {number}": (1.0, 0.99) for number in range(8)}
    plots._label(panel, ends, dict.fromkeys(ends, "black"))
    places = [each.xy[1] for each in panel.texts]
    plots.pyplot.close(figure)
    gaps = [high - low for low, high in pairwise(places)]
    assert max(places) < 1.0 - 0.4 * gaps[0]
    assert gaps == pytest.approx([gaps[0]] * 7)
