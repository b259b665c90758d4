"""A host that answers late holds up no other one: in a worker, in `fetch`, and between workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curlhttp.distributed.partition import Partition, TextLines
from curlhttp.distributed.worker import WorkerConfig, pickle_settings, run_partition
from tests.distributed.test_engines import dask, end_of, start
from tests.distributed.test_fetch import fetched
from tests.servers import AppConnection, AppServer, Record
from tests.support.cli import run
from tests.support.forced import force

FAST, SLOW = 200, 20


class Hosts:
    """A slow host, which answers when 95% of the URLs of fast hosts are done.

    Attributes:
        urls: those of the slow host come first.
        answered: by the slow host before that.
    """

    def __init__(self, server: AppServer) -> None:
        self.urls = [f"{server.at('lazy.localhost')}/slow?{number}" for number in range(SLOW)]
        self.urls += [
            f"{server.at(f'fast{number % 10}.localhost')}/fast?{number}" for number in range(FAST)
        ]
        self.answered = 0
        self._fast = 0
        self._lock = threading.Lock()
        self._may_answer = threading.Event()
        server.route("/slow", self._answer_late)
        server.route("/fast", self._answer)

    def _answer(self, record: Record, conn: AppConnection) -> None:
        conn.reply()
        with self._lock:
            self._fast += 1
            if self._fast >= 0.95 * FAST:
                self._may_answer.set()

    def _answer_late(self, record: Record, conn: AppConnection) -> None:
        if not self._may_answer.wait(60):
            self.answered += 1
            self._may_answer.set()  # the test has failed, and shall end
        conn.reply()

    def list(self, folder: Path) -> Path:
        file = folder / "urls.txt"
        file.write_text("".join(f"{url}\n" for url in self.urls))
        return file


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with AppServer() as server:
        yield Hosts(server)


def test_a_slow_host_holds_up_no_other_in_a_fetch(hosts: Hosts, tmp_path: Path) -> None:
    file = hosts.list(tmp_path)
    ended = run("fetch", file, "-o", tmp_path / "out.jsonl", "--per-host", "2", "-c", "8")
    assert (ended.status, hosts.answered) == (0, 0)


@pytest.mark.parametrize("options", [[], ["-q"]], ids=["said", "quiet"])
def test_a_fetch_reads_no_further_if_too_many_lines_wait_and_says_so(
    app: AppServer, tmp_path: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "requests of a fetch that may wait for their hosts", 20)
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{app.url}/bytes/1?{number}\n" for number in range(100)))
    ended = run("fetch", file, "-o", tmp_path / "out.jsonl", "--per-host", "1", *options)
    assert ended.status == 0
    said = "no further lines are read until fewer than 20 wait for their hosts; 20 of them wait for"
    assert ended.err.count(f"{said} {app.url}") == (not options)


def test_a_slow_host_holds_up_no_other_in_a_partition(hosts: Hosts, tmp_path: Path) -> None:
    file = hosts.list(tmp_path)
    settings = pickle_settings({})
    config = WorkerConfig(str(tmp_path / "out"), "jsonl", 8, None, True, settings, per_host=2)
    source = TextLines(str(file), 0, file.stat().st_size, 0)
    result = run_partition(config, Partition(0, source, "00000000"))
    assert (result.rows, hosts.answered) == (FAST + SLOW, 0)


# One worker, whose first partition has the slow host.
ONE_WORKER: dict[str, Any] = {"processes": 1, "concurrency": 8, "per_host": 2, "partition": FAST}


def test_a_partition_that_waits_for_a_slow_host_holds_up_no_other_partition(
    hosts: Hosts, tmp_path: Path
) -> None:
    summary = fetched(hosts.urls, tmp_path / "out", **ONE_WORKER)
    assert (summary.statuses, hosts.answered) == ({"200": FAST + SLOW}, 0)


@dask
@pytest.mark.slow
def test_a_worker_of_dask_runs_another_partition_meanwhile(hosts: Hosts, tmp_path: Path) -> None:
    driver = start(hosts.urls, tmp_path / "out", "dask", **ONE_WORKER)
    assert (end_of(driver), hosts.answered) == (f"{FAST + SLOW} {FAST + SLOW}", 0)
