"""`distributed.fetch` on Dask and Ray: workers and drivers that are killed, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.test_fetch import fetched, rows_of
from tests.servers import AppServer
from tests.support.inner import ROOT

DRIVER = """
import json, sys
from pathlib import Path
from curlhttp.distributed import fetch
from tests.distributed.going_on import Killing

if __name__ == "__main__":
    urls, out, engine, marks = json.loads(sys.argv[1])
    killing = [Killing(ending, Path(mark)) for ending, mark in marks.items()]
    summary = fetch(iter(urls), out, format="jsonl", processes=2, partition=10, engine=engine,
                    middleware=killing, progress=False)
    print(summary.rows, summary.statuses["200"])
"""
# A cluster of Dask that ends with its standard input.
CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
SECONDS = 120  # a limit that is not reached

dask = pytest.mark.skipif(not importlib.util.find_spec("distributed"), reason="Dask is missing")
ray = pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is missing")
ENGINES = [pytest.param("dask", marks=dask), pytest.param("ray", marks=ray)]


def run_program(text: str, *told: Any) -> subprocess.Popen[str]:
    # Workers import the tests' middleware, from wherever they are started.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "5"
    environment.pop("RAY_ADDRESS", None)
    return subprocess.Popen(
        [sys.executable, "-c", text, json.dumps(told)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start(
    urls: list[str], out: Path, engine: str, marks: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    return run_program(DRIVER, urls, str(out), engine, marks or {})


def end_of(driver: subprocess.Popen[str]) -> str:
    told, errors = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, errors
    return told.splitlines()[-1]  # Ray prints what it sees


@contextmanager
def cluster() -> Iterator[str]:
    """Start a cluster of Dask, and give its address."""
    program = run_program(CLUSTER)
    assert program.stdout is not None
    try:
        yield program.stdout.readline().strip().replace("tcp://", "dask://")
    finally:
        program.communicate(timeout=SECONDS)


def counted(out: Path) -> Counter[int]:
    return Counter(row["row"] for row in rows_of(out))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_partition_runs_again_when_its_worker_is_killed(
    engine: str, app: AppServer, tmp_path: Path
) -> None:
    urls = [f"{app.url}/bytes/9?n={n}" for n in range(60)]
    mark = tmp_path / "killed"
    told = end_of(start(urls, tmp_path / "out", engine, {"=25": str(mark)}))
    assert told == "60 60"
    assert mark.with_suffix(".0").exists()
    assert counted(tmp_path / "out") == Counter(range(60))


@pytest.mark.slow
@dask
def test_a_killed_driver_leaves_nothing_under_way_on_a_cluster_and_the_next_goes_on(
    tmp_path: Path,
) -> None:
    with AppServer() as app, cluster() as address:
        # Of each partition all answers but one come at once, so that parts grow but never end.
        urls = [f"{app.url}/bytes/9?n={n}" for n in range(100)]
        out = tmp_path / "out"
        stuck = [*urls[:25], f"{app.url}/slow/60", *urls[25:]]
        driver = start(stuck, out, address)
        while len(list(out.glob("manifest/0*.json"))) < 2:
            assert driver.poll() is None, driver.communicate()
        driver.kill()
        driver.communicate()
        done = {path: path.stat().st_mtime_ns for path in out.glob("manifest/0*.json")}
        assert 0 < len(done) < 11
        assert end_of(start(stuck, out, address)) == "101 101"
        assert counted(out) == Counter(range(101))
        assert {path: path.stat().st_mtime_ns for path in done} == done


@pytest.mark.parametrize(
    ("engine", "module", "extra"),
    [
        ("dask", "distributed", "dask"),
        ("dask://127.0.0.1:1", "distributed", "dask"),
        ("ray", "ray", "ray"),
        ("ray://127.0.0.1:1", "ray", "ray"),
    ],
)
def test_an_engine_that_is_not_installed_names_its_extra(
    engine: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'curlhttp\[{extra}\]'"):
        fetched(["http://127.0.0.1/"], tmp_path, engine=engine)


@pytest.mark.parametrize("engine", ["spark", "dask://", "ray://", ""])
def test_an_engine_that_is_not_known_is_refused(engine: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="engine must be 'processes', 'dask'"):
        fetched(["http://127.0.0.1/"], tmp_path, engine=engine)


def test_an_engine_that_is_neither_a_name_nor_a_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a Client of Dask, not object"):
        fetched(["http://127.0.0.1/"], tmp_path, engine=object())


@pytest.mark.slow
@dask
def test_a_scheduler_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    driver = start(["http://127.0.0.1/"], tmp_path, "dask://127.0.0.1:1")
    _, errors = driver.communicate(timeout=SECONDS)
    assert "OSError: Timed out trying to connect to tcp://127.0.0.1:1" in errors
