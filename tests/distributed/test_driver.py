"""Killed workers and drivers, Ctrl-C, and what a resumed fetch must not change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.crash_middleware import Killing
from tests.distributed.test_fetch import fetched, rows_of
from tests.servers import AppServer
from tests.support.internals import ROOT

PROGRAM = """
import json, sys
from pathlib import Path
from curlhttp.distributed import fetch
from tests.distributed.crash_middleware import Killing

if __name__ == "__main__":
    urls, out, mark, settings = json.loads(sys.argv[1])
    middleware = [Killing("=30", Path(mark), kills_driver=True)] if mark else []
    try:
        fetch(urls if isinstance(urls, str) else iter(urls), out, format="jsonl", processes=2,
              partition=10, middleware=middleware, **settings)
    except KeyboardInterrupt as stop:
        sys.exit(str(stop))
"""


def started(urls: Any, out: Path, mark: Path | None, **settings: Any) -> subprocess.Popen[str]:
    job = json.dumps([urls, str(out), str(mark) if mark else None, settings])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, job], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )


def counted(out: Path) -> Counter[int]:
    return Counter(row["row"] for row in rows_of(out))


def test_a_partition_runs_again_when_its_process_is_killed(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/bytes/9?n={n}" for n in range(60)]
    killing = Killing("=25", tmp_path / "killed", times=2)
    summary = fetched(urls, tmp_path / "out", partition=10, middleware=[killing])
    assert (tmp_path / "killed.1").exists()
    assert counted(tmp_path / "out") == Counter(range(60))
    assert (summary.rows, summary.statuses) == (60, {"200": 60})


@pytest.mark.slow
def test_a_partition_that_kills_each_process_is_an_error(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/bytes/9?n={n}" for n in range(20)]
    killing = Killing("=15", tmp_path / "killed", times=99)
    with pytest.raises(RuntimeError, match="the process of partition 1 died 4 times"):
        fetched(urls, tmp_path / "out", partition=10, middleware=[killing])


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({"per_host": 5}, marks=pytest.mark.slow)],
    ids=["ranges", "host queues"],
)
@pytest.mark.parametrize("kind", ["file", pytest.param("iterable", marks=pytest.mark.slow)])
def test_a_call_resumes_after_a_driver_was_killed(
    app: AppServer, tmp_path: Path, kind: str, settings: dict[str, Any]
) -> None:
    urls = [f"{app.url}/bytes/9?n={n}" for n in range(100)]
    file, out, killed = tmp_path / "urls.txt", tmp_path / "out", tmp_path / "killed"
    file.write_text("\n".join(urls))
    given = str(file) if kind == "file" else urls
    driver = started(given, out, killed, **settings)
    driver.communicate(timeout=60)
    assert driver.returncode == -signal.SIGKILL
    done = {path.name: path.stat().st_mtime_ns for path in (out / "parts").glob("part-*")}
    entries = {path.stem[-8:] for path in (out / "manifest").glob("0*.json")}
    done = {name: time for name, time in done.items() if name[5:13] in entries}
    assert 0 < len(done) < 10
    again = started(given, out, killed, **settings)  # the mark is there: it kills no more
    assert again.communicate(timeout=60)[1] == ""
    assert counted(out) == Counter(range(100))
    now = {path.name: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}
    assert done.items() <= now.items()  # what was complete was not fetched again
    assert [path.name for path in (out / "input").glob("*")] == []


def test_ctrl_c_keeps_complete_parts_and_says_how_to_resume(tmp_path: Path) -> None:
    with AppServer() as app:
        driver = started([f"{app.url}/slow/60?n={n}" for n in range(40)], tmp_path / "out", None)
        assert driver.stderr is not None
        while len(list((tmp_path / "out").glob("parts/*"))) < 2:  # both processes are running
            assert driver.poll() is None
        driver.send_signal(signal.SIGINT)
        _, job = driver.communicate(timeout=60)
    assert driver.returncode == 1
    names = [path.stem for path in (tmp_path / "out" / "manifest").glob("0*.json")]
    done = sum("-" not in name for name in names)  # mostly none; with "-", those that ended early
    assert f"{done} parts are complete in {tmp_path}/out, and {len(names) - done} have the " in job
    assert "; the same call resumes from there" in job


def test_two_drivers_at_once_are_refused(app: AppServer, tmp_path: Path) -> None:
    import fcntl

    fetched([app.url], tmp_path / "out")
    with open(tmp_path / "out" / "manifest" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="another driver is fetching to"):
            fetched([app.url], tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partition": 3}, "other settings: partition"),
        pytest.param({"timeout": 7}, "other settings: timeout", marks=pytest.mark.slow),
        pytest.param({"headers": {"X-A": "2"}}, "other settings: headers", marks=pytest.mark.slow),
        ({"per_host": 3}, "started without per_host and rate"),
        pytest.param({"inline": None}, "other settings: inline", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_call_with_other_settings_is_refused(
    app: AppServer, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    fetched([app.url] * 9, tmp_path / "out", partition=4, headers={"X-A": "1"})
    with pytest.raises(ValueError, match=message):
        fetched(
            [app.url] * 9, tmp_path / "out", **{"partition": 4, "headers": {"X-A": "1"}, **change}
        )


def test_limits_and_credentials_may_change(app: AppServer, tmp_path: Path) -> None:
    urls = [app.url] * 9
    fetched(urls, tmp_path / "out", partition=4, per_host=3, auth=("a", "s3cret-1"))
    fetched(urls, tmp_path / "out", partition=4, rate=9, concurrency=2, auth=("a", "s3cret-2"))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"s3cret" not in kept


@pytest.mark.parametrize("per_host", [None, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["file", pytest.param("iterable", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "change", ["edited", *(pytest.param(c, marks=pytest.mark.slow) for c in ("shorter", "longer"))]
)
def test_a_call_with_another_input_is_refused(
    app: AppServer, tmp_path: Path, kind: str, change: str, per_host: int | None
) -> None:
    urls = [f"{app.url}/bytes/{n}" for n in range(9)]
    others = {
        "edited": [*urls[:2], urls[3], *urls[3:]],
        "shorter": urls[:4],
        "longer": [*urls, urls[0]],
    }[change]

    def given(listed: list[str]) -> Any:
        file = tmp_path / "urls.txt"
        file.write_text("\n".join(listed) + "\n")
        return file if kind == "file" else listed

    fetched(given(urls), tmp_path / "out", partition=4, per_host=per_host)
    before = rows_of(tmp_path / "out")
    with pytest.raises(ValueError, match=r"the input (has changed|is shorter than before)"):
        fetched(given(others), tmp_path / "out", partition=4, per_host=per_host)
    assert rows_of(tmp_path / "out") == before


def test_incomplete_files_of_workers_are_removed(app: AppServer, tmp_path: Path) -> None:
    urls = [f"{app.url}/bytes/9?n={n}" for n in range(20)]
    killing = Killing("=15", tmp_path / "killed")
    fetched(urls, tmp_path / "out", partition=10, middleware=[killing])
    assert [name for name in os.listdir(tmp_path / "out" / "parts") if "tmp" in name] == []


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be blocked")
def test_ctrl_c_while_processes_start_is_the_drivers_alone(app: AppServer, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys\n"
        "from curlhttp.distributed import fetch\n"
        "if __name__ == '__main__':\n"
        "    fetch([sys.argv[1]], sys.argv[2], format='jsonl', processes=1, progress=False)\n"
        "else:\n"  # a process imports the program before anything else
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    command = [sys.executable, str(program), f"{app.url}/bytes/1", str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert [row["size"] for row in rows_of(tmp_path / "out")] == [1]
