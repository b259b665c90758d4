"""Engines: run partitions in processes on this machine, on Dask, or on Ray.

An engine runs a partition again if its worker is lost. Dask and Ray have this built in, and their
dashboards and cluster scaling work as usual.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_pipes
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import uuid4

from curlhttp.distributed.partition import Partition
from curlhttp.distributed.summary import PartResult
from curlhttp.distributed.worker import PolledStop, StopRequest, WorkerConfig, run_partition

if TYPE_CHECKING:
    import distributed
    import ray

_PER_SLOT = 2  # partitions per slot: one runs, and one waits, so that a cluster scales up
_MIN_SUBMITTED = 4  # partitions, even if the cluster has no worker yet
_SLICE = 0.5  # seconds of one wait for a process: on Windows, Ctrl-C does not end it
_GRACE = 60.0  # seconds for processes to write the rows that they have
_MAX_RUNS = 4  # of a partition whose process is killed each time
_LULL = 1.0  # seconds that a lull of a partition lasts until another process runs the next one
_MOST = 4  # processes for each one that was asked for, while partitions have lulls
_spawn = multiprocessing.get_context("spawn")  # because fork copies locks that threads hold


class Workers(Protocol):
    """The workers of an engine."""

    @property
    def has_capacity(self) -> bool:
        """Return whether another partition may be submitted."""

    @property
    def is_busy(self) -> bool:
        """Return whether a submitted partition has not ended yet."""

    def submit(self, partition: Partition) -> None:
        """Run a partition as soon as possible."""

    def next_result(self) -> PartResult | None:
        """Wait until a partition ends, and return its result; None if there may be capacity.

        Raises:
            RuntimeError: the workers of a partition were lost repeatedly.
            OSError: a part cannot be written.
        """

    def stop(self) -> None:
        """Stop all running partitions."""


class PartitionEngine(NamedTuple):
    """An engine that is ready to start workers.

    Attributes:
        start_workers: starts the workers.
        slots: the number of partitions that run concurrently, as far as it is known.
    """

    start_workers: Callable[[WorkerConfig], Workers]
    slots: int


def run_partitions(
    workers: Workers, partitions: Iterator[Partition | None]
) -> Generator[PartResult, None, None]:
    """Run partitions, and yield results as they arrive. Closing the generator stops the workers.

    Args:
        workers: the workers of an engine.
        partitions: the partitions. None means that none may start before another one ends.
    """
    try:
        exhausted = False
        while True:
            while not exhausted and workers.has_capacity:
                try:
                    partition = next(partitions)
                except StopIteration:
                    exhausted = True
                    break
                if partition is None:
                    break
                workers.submit(partition)
            if not workers.is_busy:
                return
            result = workers.next_result()
            if result is not None:
                yield result
    finally:
        workers.stop()


@contextmanager
def open_engine(engine: object, processes: int) -> Iterator[PartitionEngine]:
    """Connect to the engine that fetch(engine=) describes, and disconnect at the end.

    Args:
        engine: a name, an address, or a Client of Dask.
        processes: the number of processes to start, if the engine is started for this fetch.

    Raises:
        ValueError: there is no such engine.
        TypeError: `engine` is neither a string nor a Client of Dask.
        ImportError: the engine needs a package that is not installed.
        OSError: there is no cluster at the address.
    """
    if engine == "processes":
        yield PartitionEngine(partial(_ProcessWorkers, processes=processes), processes)
    elif engine == "dask" or _is_address(engine, "dask://") or _is_dask_client(engine):
        with _connect_dask(engine, processes) as client:
            yield PartitionEngine(partial(_DaskWorkers, client=client), _count_dask_slots(client))
    elif engine == "ray" or _is_address(engine, "ray://"):
        with _connect_ray(str(engine)):
            yield PartitionEngine(_RayWorkers, _count_ray_slots())
    elif isinstance(engine, str):
        raise ValueError(
            "engine must be 'processes', 'dask', 'dask://host:port', 'ray' or "
            f"'ray://host:port', not {engine!r}"
        )
    else:
        raise TypeError(
            f"engine must be a name, an address or a Client of Dask, not {type(engine).__name__}"
        )


def _is_address(engine: object, scheme: str) -> bool:
    return isinstance(engine, str) and engine.startswith(scheme) and engine != scheme


def _has_capacity(submitted: int, slots: int) -> bool:
    """Return whether another partition may be submitted to a cluster."""
    return submitted < max(_MIN_SUBMITTED, _PER_SLOT * slots)


# --- processes ---


class _ProcessWorkers:
    """Processes on this machine, each in a separate executor.

    A killed process breaks its executor. With a single executor, it would break the partitions of
    all other processes. Each process watches two pipes that the driver holds open: when the first
    one closes, it ends its partition early; when the second one closes, it exits. To a third pipe
    it writes the number of a partition that has a lull: another process runs the next one then.
    """

    def __init__(self, config: WorkerConfig, processes: int) -> None:
        self._config = config
        self._stop_pipe, self._held_stop_pipe = _spawn.Pipe(duplex=False)
        self._exit_pipe, self._held_exit_pipe = _spawn.Pipe(duplex=False)
        self._lull_pipe, self._held_lull_pipe = _spawn.Pipe(duplex=False)
        self._lulls: dict[int, float] = {}  # since when partitions have one, by their numbers
        self._processes = processes
        self._executors = [self._new_executor() for _ in range(processes)]
        self._idle = list(self._executors)
        self._running: dict[Future[PartResult], tuple[ProcessPoolExecutor, Partition, int]] = {}

    def _new_executor(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1,
            mp_context=_spawn,
            initializer=_start_process,
            initargs=(self._stop_pipe, self._exit_pipe, self._held_lull_pipe),
        )

    @property
    def has_capacity(self) -> bool:
        longest = time.monotonic() - _LULL
        busy = [
            partition
            for _, partition, _ in self._running.values()
            if self._lulls.get(partition.number, longest) >= longest
        ]
        return len(busy) < self._processes and len(self._running) < _MOST * self._processes

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def submit(self, partition: Partition) -> None:
        if not self._idle:
            self._idle.append(self._new_executor())
            self._executors += self._idle
        executor = self._idle.pop()
        try:
            self._run(executor, partition, runs=1)
        except BrokenProcessPool:  # the process was killed while it was idle
            self._run(self._replace(executor), partition, runs=1)

    def _run(self, executor: ProcessPoolExecutor, partition: Partition, runs: int) -> None:
        # Otherwise a process would print a traceback if Ctrl-C arrives while it starts.
        with _deferred_signals():
            future = executor.submit(_run_until_stopped, self._config, partition)
        self._running[future] = executor, partition, runs

    def _replace(self, broken: ProcessPoolExecutor) -> ProcessPoolExecutor:
        broken.shutdown()
        executor = self._executors[self._executors.index(broken)] = self._new_executor()
        return executor

    def next_result(self) -> PartResult | None:
        while True:
            done, _ = wait(self._running, _SLICE, return_when=FIRST_COMPLETED)
            while self._lull_pipe.poll():
                self._lulls[int(self._lull_pipe.recv_bytes())] = time.monotonic()
            if not done:
                return None
            future = done.pop()
            executor, partition, runs = self._running.pop(future)
            self._lulls.pop(partition.number, None)
            try:
                result = future.result()
            except BrokenProcessPool:
                self._run_again(executor, partition, runs)
                continue
            if result.is_early:  # somebody sent the process a SIGTERM
                self._run(executor, partition, runs)
                continue
            self._idle.append(executor)
            return result

    def _run_again(self, broken: ProcessPoolExecutor, partition: Partition, runs: int) -> None:
        executor = self._replace(broken)
        if runs == _MAX_RUNS:
            raise RuntimeError(
                f"the process of partition {partition.number} died {runs} times: it was killed, "
                "possibly because memory ran out"
            )
        self._run(executor, partition, runs + 1)

    def stop(self) -> None:
        self._held_stop_pipe.close()  # all partitions end early
        try:
            deadline = time.monotonic() + _GRACE
            while self._running and time.monotonic() < deadline:  # in slices because of Windows
                done, _ = wait(self._running, _SLICE, return_when=FIRST_COMPLETED)
                for future in done:
                    del self._running[future]
        finally:
            self._held_exit_pipe.close()  # all processes exit, even while they run a partition
            for executor in self._executors:
                executor.shutdown(cancel_futures=True)
            for pipe in (self._stop_pipe, self._exit_pipe, self._lull_pipe, self._held_lull_pipe):
                pipe.close()


_HAS_MASKS = hasattr(signal, "pthread_sigmask")  # not on Windows
_DEFERRED = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Block signals in this thread. A process that is started meanwhile inherits the mask."""
    if not _HAS_MASKS:
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_stop = StopRequest()  # of the partition that this process runs
_lull_pipe: Connection | None = None  # of this process


def _start_process(stop_pipe: Connection, exit_pipe: Connection, lull_pipe: Connection) -> None:
    """Initialize a process. The driver alone reacts to Ctrl-C.

    A service manager sends SIGTERM to all processes of a service, so it ends a partition early.
    """
    global _lull_pipe
    _lull_pipe = lull_pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: _stop.set())
    if _HAS_MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_watch_driver, args=(stop_pipe, exit_pipe), daemon=True).start()


def _watch_driver(stop_pipe: Connection, exit_pipe: Connection) -> None:
    pipes = [stop_pipe, exit_pipe]
    while exit_pipe not in (closed := wait_for_pipes(pipes)):
        if stop_pipe in closed:
            pipes.remove(stop_pipe)
            if _HAS_MASKS:  # a signal also ends a wait
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            else:
                _stop.is_set = True
    os._exit(1)


def _run_until_stopped(config: WorkerConfig, partition: Partition) -> PartResult:
    def note_lull() -> None:
        assert _lull_pipe is not None
        _lull_pipe.send_bytes(b"%d" % partition.number)  # few bytes, so that none come in between

    result = run_partition(config, partition, stop=_stop, on_lull=note_lull)
    _stop.is_set = False
    return result


# --- Dask ---


def _is_dask_client(engine: object) -> bool:
    """Return whether this is a Client of Dask, without importing Dask."""
    module = sys.modules.get("distributed")
    return module is not None and isinstance(engine, module.Client)


@contextmanager
def _connect_dask(engine: object, processes: int) -> Iterator[distributed.Client]:
    """Open a Client of Dask. If `engine` is one, it stays open.

    Raises:
        ImportError: dask.distributed is not installed.
        OSError: there is no scheduler at the address.
        ValueError: the client is asynchronous.
    """
    if _is_dask_client(engine):
        if engine.asynchronous:  # type: ignore[attr-defined]
            raise ValueError("the Client of Dask is asynchronous; pass a synchronous one")
        yield engine
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            f"engine={engine!r} needs dask.distributed: pip install 'curlhttp[dask]'"
        ) from error
    with ExitStack() as stack:
        if engine == "dask":
            # Any free port for the dashboard: Dask warns if another cluster has the usual one.
            cluster = LocalCluster(
                n_workers=processes, threads_per_worker=1, dashboard_address=":0"
            )
            stack.enter_context(cluster)
        else:
            cluster = "tcp://" + str(engine).removeprefix("dask://")
        yield stack.enter_context(Client(cluster, set_as_default=False))


def _count_dask_slots(client: distributed.Client) -> int:
    return sum(client.nthreads().values())


class _DaskWorkers:
    """Run each partition as a future of dask.distributed.

    Dask runs a partition again if its worker is lost, up to
    `distributed.scheduler.allowed-failures` times. `dask.annotate` applies.
    """

    def __init__(self, config: WorkerConfig, client: distributed.Client) -> None:
        from distributed import Event, as_completed

        self._config = config
        self._client = client
        self._stop = Event(f"curlhttp-stop-{uuid4().hex}", client)
        self._completed = as_completed(loop=client.loop)
        self._running: dict[distributed.Future, Partition] = {}

    @property
    def has_capacity(self) -> bool:
        return _has_capacity(len(self._running), _count_dask_slots(self._client))

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def submit(self, partition: Partition) -> None:
        # The key is unique, because a killed driver may have left a future running.
        key = f"curlhttp-partition-{partition.number}-{uuid4().hex}"
        future = self._client.submit(
            _run_until_cancelled, self._config, partition, self._stop.name, key=key
        )
        self._running[future] = partition
        self._completed.add(future)

    def next_result(self) -> PartResult:
        from distributed import KilledWorker

        future = next(self._completed)
        partition = self._running.pop(future)
        try:
            result: PartResult = future.result()
        except KilledWorker as error:
            raise RuntimeError(
                f"partition {partition.number} lost its worker repeatedly: each one was killed, "
                "possibly because memory ran out"
            ) from error
        except CancelledError as error:
            raise RuntimeError(
                f"Dask lost partition {partition.number}: its scheduler has stopped, or the "
                "partition was cancelled there; the same call resumes"
            ) from error
        return result

    def stop(self) -> None:
        from distributed import wait

        running = list(self._running)
        try:
            # The time is over, or the connection is lost.
            with suppress(Exception), self._client.as_current():
                self._stop.set()  # all partitions end early
                wait(running, _GRACE)
        finally:
            self._client.cancel(running)


def _run_until_cancelled(config: WorkerConfig, partition: Partition, stop: str) -> PartResult:
    """Run a partition until it is cancelled, because Dask cannot stop the thread of a task.

    Args:
        config: of the worker.
        partition: the partition.
        stop: the name of the event that ends all partitions early.
    """
    from distributed import Event, get_worker, secede

    worker = get_worker()
    tasks, key = worker.state.tasks, worker.get_current_task()

    def is_wanted() -> bool:
        task = tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    return run_partition(config, partition, is_wanted, PolledStop(Event(stop).is_set), secede)


# --- Ray ---


@contextmanager
def _connect_ray(engine: str) -> Iterator[None]:
    """Connect to Ray. If the program is already connected, it stays connected.

    Args:
        engine: "ray" for the cluster at RAY_ADDRESS, or else one on this machine;
            "ray://host:port" for the cluster of a Ray Client server.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no server at the address.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(f"engine={engine!r} needs Ray: pip install 'curlhttp[ray]'") from error
    if ray.is_initialized():
        yield
        return
    ray.init(None if engine == "ray" else engine)
    try:
        yield
    finally:
        ray.shutdown()


def _count_ray_slots() -> int:
    import ray

    return int(ray.cluster_resources().get("CPU", 0))


class _RayWorkers:
    """Run each partition as a task of Ray.

    Ray runs a task again if its worker is lost, up to three or RAY_TASK_MAX_RETRIES times.
    """

    def __init__(self, config: WorkerConfig) -> None:
        import ray

        self._task = ray.remote(_run_until_flagged)
        # It needs no CPU, of which a cluster may have none left.
        self._flag = ray.remote(num_cpus=0)(_Flag).remote()
        self._config = config
        self._running: dict[ray.ObjectRef, Partition] = {}

    @property
    def has_capacity(self) -> bool:
        return _has_capacity(len(self._running), _count_ray_slots())

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def submit(self, partition: Partition) -> None:
        task = self._task.options(name=f"curlhttp partition {partition.number}")
        self._running[task.remote(self._config, partition, self._flag)] = partition

    def next_result(self) -> PartResult:
        import ray
        from ray.exceptions import RayError, RayTaskError

        done, _ = ray.wait(list(self._running), num_returns=1)
        partition = self._running.pop(done[0])
        try:
            result: PartResult = ray.get(done[0])
        except RayTaskError:  # is also an OSError, if the worker raised one
            raise
        except RayError as error:
            raise RuntimeError(f"Ray gave up on partition {partition.number}: {error}") from error
        return result

    def stop(self) -> None:
        import ray

        with suppress(Exception):  # the connection is lost, and the tasks with it
            try:
                if self._running:
                    ray.get(self._flag.set.remote(), timeout=_GRACE)  # all partitions end early
                    tasks = list(self._running)
                    _, running = ray.wait(tasks, num_returns=len(tasks), timeout=_GRACE)
                    for task in running:
                        ray.cancel(task)
            finally:
                ray.kill(self._flag)


class _Flag:
    """An actor of Ray that says whether all partitions shall end early."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Have them end."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether they shall end."""
        return self._is_set


def _run_until_flagged(
    config: WorkerConfig, partition: Partition, flag: ray.actor.ActorHandle
) -> PartResult:
    """Run a partition.

    Args:
        config: of the worker.
        partition: the partition.
        flag: a _Flag.
    """
    import ray

    asked = [flag.is_set.remote()]

    def ask() -> bool:
        done, _ = ray.wait(asked, timeout=0)  # a task that waits would give up its CPU
        if not done:
            return False
        asked[:] = [flag.is_set.remote()]
        is_set: bool = ray.get(done[0])  # raises if the actor is lost
        return is_set

    return run_partition(config, partition, stop=PolledStop(ask))
