"""The engine of one machine: processes, through concurrent.futures.

Each process is an executor by itself, so that one that is killed takes no other's partition with
it. All of them watch a pipe that the driver holds open, and end with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection

from curlhttp._distributed.engines.loop import bring
from curlhttp._distributed.part import run_partition
from curlhttp._distributed.partition import Partition
from curlhttp._distributed.work import PartResult, PartWork

__all__ = ["run"]

_MOST_RUNS = 4  # of a partition whose process is killed each time
_spawned = multiprocessing.get_context("spawn")  # fork would copy locks that threads hold


def run(
    work: PartWork, partitions: Iterator[Partition | None], *, processes: int
) -> Iterator[PartResult]:
    """Run partitions in processes.

    Args:
        work: see run_partition.
        partitions: see the package.
        processes: how many.

    Raises:
        RuntimeError: a partition's process was killed, again and again.
        OSError: a part could not be written.
    """
    return bring(_Pool(work, processes), partitions)


class _Pool:
    def __init__(self, work: PartWork, processes: int) -> None:
        self._work = work
        self._heard, self._held = _spawned.Pipe(duplex=False)
        self._executors = [self._executor() for _ in range(processes)]
        self._idle = list(self._executors)
        self._running: dict[Future[PartResult], tuple[ProcessPoolExecutor, Partition, int]] = {}

    def _executor(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1, mp_context=_spawned, initializer=_begin, initargs=(self._heard,)
        )

    @property
    def has_room(self) -> bool:
        return bool(self._idle)

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def start(self, partition: Partition) -> None:
        executor = self._idle.pop()
        try:
            self._submit(executor, partition, runs=1)
        except BrokenProcessPool:  # it was killed while it had nothing to do
            self._submit(self._renewed(executor), partition, runs=1)

    def _submit(self, executor: ProcessPoolExecutor, partition: Partition, runs: int) -> None:
        with _no_ctrl_c():  # which a process that starts would answer with a traceback
            future = executor.submit(run_partition, self._work, partition)
        self._running[future] = executor, partition, runs

    def _renewed(self, broken: ProcessPoolExecutor) -> ProcessPoolExecutor:
        broken.shutdown()
        executor = self._executors[self._executors.index(broken)] = self._executor()
        return executor

    def result(self) -> PartResult:
        """Wait for the next partition that ends."""
        while True:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            future = done.pop()
            executor, partition, runs = self._running.pop(future)
            try:
                result = future.result()
            except BrokenProcessPool:
                self._run_again(executor, partition, runs)
                continue
            self._idle.append(executor)
            return result

    def _run_again(self, broken: ProcessPoolExecutor, partition: Partition, runs: int) -> None:
        executor = self._renewed(broken)
        if runs == _MOST_RUNS:
            raise RuntimeError(
                f"partition {partition.number} ended its process {runs} times: it was killed, "
                "perhaps for lack of memory"
            )
        self._submit(executor, partition, runs + 1)

    def stop(self) -> None:
        """Have all processes end, whatever they do."""
        self._held.close()
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)
        self._heard.close()


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Put off Ctrl-C in this thread; a process that is started meanwhile never hears of it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    was = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, was)


def _begin(pipe: Connection) -> None:
    """Prepare a process: Ctrl-C is the driver's, and its end is this one's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: Connection) -> None:
    pipe.poll(None)
    os._exit(1)
