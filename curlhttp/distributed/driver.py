"""The driver: run the partitions of a fetch on an engine, and count their results."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from typing import TypeAlias

from curlhttp._features.fetch.storage import OutputFolder
from curlhttp._runtime.log import log
from curlhttp.distributed.engines import PartitionEngine, run_partitions
from curlhttp.distributed.manifest import Manifest, partition_file_name
from curlhttp.distributed.partition import Partition, Splitter
from curlhttp.distributed.summary import FetchSummary, PartResult
from curlhttp.distributed.worker import WorkerConfig

_READ_AHEAD = 4  # partitions per host queue
_PERIOD = 10.0  # seconds between two lines of progress

Notify: TypeAlias = Callable[[FetchSummary], None]


class HostQueues:
    """Yield partitions so that two of the same host queue never run at the same time.

    All URLs of a host are in one queue, so a partition may use the whole of per_host and rate, and
    both limits apply to all workers together.

    Args:
        partitions: partitions in the order of their numbers. Those without a queue may start at any
            time.
        ahead: how many partitions to read ahead while their queues are busy.
    """

    def __init__(self, partitions: Iterator[Partition], ahead: int) -> None:
        self._partitions = partitions
        self._ahead = ahead
        self._waiting: deque[Partition] = deque()
        self._has_told = False
        self._running: dict[int, int] = {}  # the queue of each running partition, by its number

    def __iter__(self) -> Iterator[Partition | None]:
        return self

    def __next__(self) -> Partition | None:
        """Return the next partition, or None if none may start before another one ends."""
        busy = set(self._running.values())
        for index, partition in enumerate(self._waiting):
            if partition.host_queue not in busy:
                del self._waiting[index]
                return self._start(partition)
        while len(self._waiting) < self._ahead:
            following = next(self._partitions, None)
            if following is None:
                break
            if following.host_queue not in busy:
                return self._start(following)
            self._waiting.append(following)
        if not self._waiting:
            raise StopIteration
        if len(self._waiting) == self._ahead and not self._has_told:
            self._has_told = True
            log.warn(
                "no further URLs are read until a partition has ended: %d others wait because they "
                "have the same hosts. If other hosts come later in the list, mix it",
                self._ahead,
            )
        return None

    def _start(self, partition: Partition) -> Partition:
        if partition.host_queue is not None:
            self._running[partition.number] = partition.host_queue
        return partition

    def release(self, number: int) -> None:
        """Release the queue of a partition that has ended.

        Args:
            number: the number of the partition.
        """
        self._running.pop(number, None)


class FetchDriver:
    """Fetch the partitions that are not done yet.

    Args:
        folder: the folder of the fetch.
        manifest: the manifest in that folder.
        splitter: splits the input into partitions.
        notify: is called with the current summary after each partition.
    """

    def __init__(
        self, folder: OutputFolder, manifest: Manifest, splitter: Splitter, notify: Notify
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._splitter = splitter
        self._notify = notify
        self._done: dict[int, str] = {}  # digests of partitions of earlier calls, by number
        self._summary = FetchSummary()

    def run(self, engine: PartitionEngine, config: WorkerConfig) -> FetchSummary:
        """Fetch the remaining partitions, and return the summary of all partitions.

        Args:
            engine: the engine that runs the partitions.
            config: the configuration of its workers.

        Raises:
            ValueError: the input has changed since the fetch was started.
        """
        started = time.monotonic()
        for result in self._manifest.results():
            self._done[result.number] = result.digest
            self._add(result)
        partitions = self._splitter.split(self._done.__contains__)
        ahead = _READ_AHEAD * max(1, self._splitter.host_queues)
        queues = HostQueues(chain(self._read_remaining(partitions), partitions), ahead)
        workers = engine.start_workers(config)
        try:
            with closing(run_partitions(workers, queues)) as results:
                for result in results:
                    queues.release(result.number)
                    self._add(result)
                    if self._splitter.writes_files:
                        self._folder.remove(partition_file_name(result.number))
        except KeyboardInterrupt as interrupt:
            # A worker may have completed one whose result nobody received.
            complete = sum(1 for _ in self._manifest.results())
            early = self._manifest.count_early_results()
            raise type(interrupt)(
                f"{complete} parts are complete in {self._folder.path('')}, and {early} have the "
                "rows that were fetched; the same call resumes from there"
            ) from None
        self._summary.finish(time.monotonic() - started)
        self._manifest.finish(self._summary.as_json())
        return self._summary

    def _add(self, result: PartResult) -> None:
        self._summary.add(result)
        self._notify(self._summary)

    def _read_remaining(self, partitions: Iterator[Partition]) -> list[Partition]:
        """Read up to the last partition that is done, and return those before it that are not."""
        remaining: list[Partition] = []
        expected = len(self._done)
        while expected:
            partition = next(partitions, None)
            if partition is None:
                raise ValueError(
                    f"the input is shorter than before: it lacks {expected} of the partitions that "
                    "are done; pass the same input, or another folder"
                )
            digest = self._done.get(partition.number)
            if digest is None:
                remaining.append(partition)
                continue
            expected -= 1
            if digest != partition.digest:
                raise ValueError(
                    f"the input has changed in partition {partition.number}"
                    f"{self._splitter.or_earlier}; pass the same input, or another folder"
                )
        return remaining


@contextmanager
def show_progress(total: int | None, *, quiet: bool) -> Iterator[Notify]:
    """Show progress on stderr: a bar on a terminal if rich is installed, or else regular lines.

    Args:
        total: the number of rows in the input, or None if it is unknown.
        quiet: show nothing.

    Yields:
        The function to call with the current summary.
    """
    if quiet:
        yield lambda summary: None
        return
    if sys.stderr.isatty():
        try:
            import rich.progress as rich
            from rich.console import Console
        except ImportError:
            pass
        else:
            columns = (
                rich.BarColumn(),
                rich.TextColumn("{task.fields[line]}", markup=False),
                rich.TimeElapsedColumn(),
                rich.TimeRemainingColumn(),
            )
            with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("", total=total, line="")
                yield lambda summary: bar.update(
                    task, completed=summary.rows, line=_format_progress(summary, total)
                )
            return
    due = time.monotonic() + _PERIOD

    def notify(summary: FetchSummary) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _PERIOD
            sys.stderr.write(f"{_format_progress(summary, total)}\n")

    yield notify


def _format_progress(summary: FetchSummary, total: int | None) -> str:
    rows = f"{summary.rows:,}" if total is None else f"{summary.rows:,} of {total:,}"
    errors = summary.errors.total()
    failed = f", {errors:,} errors" if errors else ""
    return f"{rows} rows in {summary.parts:,} parts{failed}"
