"""`distributed.fetch` on Dask and Ray: killed workers and drivers, and refused settings."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features.fetch.formats import Format
from curlhttp.distributed import engines
from curlhttp.distributed.partition import Partition, TextLines
from curlhttp.distributed.worker import PartitionCancelled, WorkerConfig, run_partition
from tests.distributed.test_fetch import fetched, rows_of
from tests.distributed.test_rows import parquet
from tests.servers import AppServer
from tests.support.internals import ROOT

DRIVER = """
import json, sys
from pathlib import Path
from curlhttp.distributed import fetch
from tests.distributed.crash_middleware import Killing

if __name__ == "__main__":
    urls, out, engine, marks, settings = json.loads(sys.argv[1])
    killing = [Killing(ending, Path(mark)) for ending, mark in marks.items()]
    settings = {"format": "jsonl", "processes": 2, "partition": 10, "progress": False, **settings}
    given = urls if isinstance(urls, str) else iter(urls)
    summary = fetch(given, out, engine=engine, middleware=killing, **settings)
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
SECONDS = 300  # a limit that is not reached

dask = pytest.mark.skipif(not importlib.util.find_spec("distributed"), reason="Dask is missing")
ray = pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is missing")
ENGINES = [pytest.param("dask", marks=dask), pytest.param("ray", marks=ray)]


def run_program(text: str, *told: Any) -> subprocess.Popen[str]:
    # Workers import the tests' middleware, from wherever they are started.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "5"
    # A new cluster: another program may have left the address of one.
    environment |= {"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"}
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
    urls: list[str] | str,
    out: Path,
    engine: str,
    marks: dict[str, str] | None = None,
    **settings: Any,
) -> subprocess.Popen[str]:
    return run_program(DRIVER, urls, str(out), engine, marks or {}, settings)


def end_of(driver: subprocess.Popen[str]) -> str:
    try:
        told, errors = driver.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        driver.kill()
        raise AssertionError("".join(driver.communicate())) from None
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


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def counted(out: Path) -> Counter[int]:
    return Counter(row["row"] for row in rows_of(out))


def test_waits_for_processes_are_short_so_that_ctrl_c_ends_them(
    tmp_path: Path, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, Ctrl-C does not end a wait for a lock."""
    waits: list[float | None] = []
    real = engines.wait  # type: ignore[attr-defined]

    def note(running: Any, seconds: float | None = None, **options: Any) -> Any:
        waits.append(seconds)
        return real(running, 0.001, **options)

    monkeypatch.setattr(engines, "wait", note)
    fetched([app.url], tmp_path / "out", processes=1)
    assert len(waits) > 1
    assert None not in waits


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
def test_a_call_resumes_after_a_driver_of_a_cluster_was_killed(tmp_path: Path) -> None:
    out, held = tmp_path / "out", threading.Event()

    def respond(record: Any, conn: Any) -> None:
        held.wait(SECONDS)
        conn.reply(200, b"x")

    with AppServer() as app, cluster() as address:
        app.route("/held", respond)
        urls = [f"{app.url}/bytes/9?n={n}" for n in range(100)]
        urls[55] = f"{app.url}/held"
        driver = start(urls, out, address)
        while len(list(out.glob("manifest/0*.json"))) < 5:
            assert driver.poll() is None, driver.communicate()
        driver.kill()
        driver.communicate()
        done = {path: path.stat().st_mtime_ns for path in out.glob("manifest/0*.json")}
        held.set()
        assert end_of(start(urls, out, address)) == "100 100"
        assert counted(out) == Counter(range(100))
        assert {path: path.stat().st_mtime_ns for path in done} == done


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_driver_that_is_interrupted_keeps_the_rows_of_its_partitions(
    engine: str, tmp_path: Path
) -> None:
    out, asked, released = tmp_path / "out", threading.Semaphore(0), threading.Event()

    def held(record: Any, conn: Any) -> None:
        asked.release()
        released.wait(0.1)
        conn.reply(200, b"x")

    with AppServer() as app:
        app.route("/held", held)
        # More than workers end in any time of this test, if they did not have to stop.
        count = 2000
        urls = tmp_path / "urls.txt"
        urls.write_text("\n".join(f"{app.url}/held?n={n}" for n in range(count)))
        settings: Any = {"partition": count // 2, "concurrency": 2}
        driver = start(str(urls), out, engine, **settings)
        for _ in range(20):
            assert asked.acquire(timeout=SECONDS)
        driver.send_signal(signal.SIGINT)
        _, errors = driver.communicate(timeout=SECONDS)
        assert re.search("0 parts are complete in .*, and [12] have the rows", errors), errors
        kept = counted(out)
        assert 10 <= kept.total() < count
        released.set()
        app.reset_counts()
        assert end_of(start(str(urls), out, engine, **settings)) == f"{count} {count}"
        assert counted(out) == Counter(range(count))
        assert len(app.requests) == count - kept.total()


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
def test_an_unreachable_scheduler_is_an_os_error(tmp_path: Path) -> None:
    driver = start(["http://127.0.0.1/"], tmp_path, "dask://127.0.0.1:1")
    _, errors = driver.communicate(timeout=SECONDS)
    assert "OSError: Timed out trying to connect to tcp://127.0.0.1:1" in errors


@pytest.mark.parametrize("format", [pytest.param("parquet", marks=parquet), "jsonl"])
def test_a_cancelled_partition_leaves_no_files(
    format: Format, app: AppServer, tmp_path: Path
) -> None:
    source = tmp_path / "urls.txt"
    source.write_text(f"{app.url}/bytes/1\n" * 9)
    out = tmp_path / "out"
    config = WorkerConfig(str(out), format, 2, None, True, pickle.dumps({}))
    partition = Partition(0, TextLines(str(source), 0, source.stat().st_size, 0), "digest")
    wanted = iter([True, True, True])
    with pytest.raises(PartitionCancelled, match="partition 0 was cancelled"):
        run_partition(config, partition, lambda: next(wanted, False))
    gc.collect()  # pyarrow's writer complains here, if it was not closed
    assert [path for path in out.rglob("*") if path.is_file()] == []
    assert run_partition(config, partition).rows == 9


def test_a_cancelled_partition_of_invalid_urls_ends_too(tmp_path: Path) -> None:
    source = tmp_path / "urls.txt"
    source.write_text("ftp://example.org\n" * 9)
    out = tmp_path / "out"
    config = WorkerConfig(str(out), "jsonl", 2, None, True, pickle.dumps({}))
    partition = Partition(0, TextLines(str(source), 0, source.stat().st_size, 0), "digest")
    with pytest.raises(PartitionCancelled, match="partition 0 was cancelled"):
        run_partition(config, partition, lambda: False)
    assert [path for path in out.rglob("*") if path.is_file()] == []
    assert run_partition(config, partition).errors == {"InvalidSchema": 9}
