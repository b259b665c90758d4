"""The benchmarks: each command runs from end to end, on few requests, and says what went wrong."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import async_, cpu, import_time, results, server, sync
from benchmarks.__main__ import main
from benchmarks.clients import ASYNC
from benchmarks.clients.base import Settings
from benchmarks.compare import Case, Group
from benchmarks.crew import Contender, Crew, Failed, Worker
from benchmarks.figures import summaries

pytestmark = pytest.mark.slow

_SMALL = ("--rounds", "1", "--seconds", "0.01", "--server", "asyncio")
_FLOOR = Contender("bare pycurl", "bare.Easy", "none")


def _run(folder: Path, command: str, *arguments: str) -> dict[str, Any]:
    """Run a command with few requests; return its results, with tables that were written."""
    main([command, *_SMALL, "--output", str(folder), *arguments])
    (path,) = folder.glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text().startswith(f"# {found['benchmark']}\n")
    plotted = found["benchmark"] != "import" and importlib.util.find_spec("matplotlib")
    assert path.with_suffix(".svg").exists() == bool(plotted)
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
    found = _run(tmp_path, "million", "--tasks", "200", "--clients", "curlhttp")
    assert [case["concurrency"] for case in found["cases"]] == [64, 200]
    assert found["benchmark"] == "tasks"


def test_import_times_are_those_of_fresh_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_time, "_PEERS", ())
    found = _run(tmp_path, "import")
    assert list(found["rows"]) == list(import_time._STATEMENTS)


def test_cpu_prints_a_table_for_each_way_of_calling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cpu, "_COUNT", 20)
    monkeypatch.setattr(cpu, "cores", lambda: (None, None))  # the tests go on in this process
    main(["cpu", *_SMALL])
    printed = capsys.readouterr().out
    assert printed.count("| curlhttp |") == 3
    assert printed.count("| curlhttp, retry and breaker |") == 3


def test_report_makes_tables_of_results_that_are_there(tmp_path: Path) -> None:
    saved = {"benchmark": "import", "machine": _machine(), "rows": {"import x": [1.0, 0.5, 2.0]}}
    results.save(saved, tmp_path)
    (tmp_path / "import.md").unlink()
    main(["report", "--output", str(tmp_path)])
    assert "| `import x` | 1.0 | 0.5 | 2.0 |" in (tmp_path / "import.md").read_text()


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
    assert (ours.client, ours.ratio) == ("curlhttp", 1.0)
    assert other.ratio == 0.5
    assert (other.rate.median, other.rate.least, other.rate.greatest) == (2.5, 0.5, 5.0)


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


def test_a_worker_that_is_silent_is_given_up() -> None:
    with Worker(_FLOOR, Settings(), None) as worker:
        worker.answer()
        with pytest.raises(Failed, match="no answer within 0 s"):
            worker.answer(0.01)


def test_clients_without_http2_are_named_with_the_reason() -> None:
    aiohttp = Contender("aiohttp", ASYNC["aiohttp"], "asyncio")
    with Crew.of([aiohttp], Settings(http2=True)) as crew:
        assert crew.failed == {aiohttp: "has no HTTP/2"}


def test_a_client_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such client: httq; there are: curlhttp, "):
        main(["sync", "--clients", "httq"])


def test_niquests_is_skipped_unless_an_interpreter_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_, "_GROUPS", ())
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
        assert set(served.urls) == {"http", "https", "h2"}
        for scheme, url in served.urls.items():
            ca = "" if scheme == "http" else served.ca
            with Worker(one, Settings(ca=ca, http2=scheme == "h2"), None) as worker:
                worker.answer()
                figures = worker.ask(url=f"{url}/200", count=20, concurrency=5, size=200)
                assert (figures["requests"], figures["errors"]) == (20, 0)
