"""The engine of Dask: each partition is a future of dask.distributed.

Dask runs a partition again whose worker is lost, up to `distributed.scheduler.allowed-failures`
times. The dashboard, adaptive scaling, and what `dask.annotate` says are Dask's as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from curlhttp._distributed.engines.loop import bring, most_in_flight
from curlhttp._distributed.part import run_partition
from curlhttp._distributed.partition import Partition
from curlhttp._distributed.work import PartResult, PartWork

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["client_of", "is_client", "run", "slots_of"]


def is_client(engine: object) -> bool:
    """Return whether this is a client of Dask, without importing it."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(engine, distributed.Client)


@contextmanager
def client_of(engine: object, processes: int) -> Iterator[Client]:
    """Open the client that `engine=` stands for; one that is given stays open.

    Args:
        engine: "dask" for a cluster on this machine, "dask://host:port", or a Client.
        processes: of the cluster on this machine.

    Raises:
        ImportError: it needs dask.distributed.
        OSError: no scheduler answers there.
        ValueError: the client is asynchronous.
    """
    if is_client(engine):
        if engine.asynchronous:  # type: ignore[attr-defined]
            raise ValueError("the Client of Dask is asynchronous; give one that blocks")
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
            where = LocalCluster(n_workers=processes, threads_per_worker=1)
            stack.enter_context(where)
        else:
            where = "tcp://" + str(engine).removeprefix("dask://")
        yield stack.enter_context(Client(where, set_as_default=False))


def slots_of(client: Client) -> int:
    """Return how many partitions run at once on the workers that are there."""
    return sum(client.nthreads().values())


def run(
    work: PartWork, partitions: Iterator[Partition | None], *, client: Client
) -> Iterator[PartResult]:
    """Run partitions on the workers of Dask.

    Args:
        work: see run_partition.
        partitions: see the package.
        client: that is connected.

    Raises:
        RuntimeError: a partition's workers were lost, again and again, or the scheduler was.
        OSError: a part could not be written.
    """
    return bring(_DaskWorkers(work, client), partitions)


class _DaskWorkers:
    def __init__(self, work: PartWork, client: Client) -> None:
        from distributed import as_completed

        self._work = work
        self._client = client
        self._ended = as_completed(loop=client.loop)
        self._running: dict[Future, Partition] = {}

    @property
    def has_room(self) -> bool:
        return len(self._running) < most_in_flight(slots_of(self._client))

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def start(self, partition: Partition) -> None:
        # A key of its own: what a killed driver left running under another is not this one's.
        key = f"curlhttp-partition-{partition.number}-{uuid4().hex}"
        future = self._client.submit(_run_while_wanted, self._work, partition, key=key)
        self._running[future] = partition
        self._ended.add(future)

    def result(self) -> PartResult:
        from distributed import KilledWorker

        future = next(self._ended)
        partition = self._running.pop(future)
        try:
            result: PartResult = future.result()
        except KilledWorker as error:
            raise RuntimeError(
                f"partition {partition.number} lost its worker again and again: each was killed, "
                "perhaps for lack of memory"
            ) from error
        except CancelledError as error:
            raise RuntimeError(
                f"Dask has lost partition {partition.number}: its scheduler has ended, or it "
                "was cancelled there; the same call goes on"
            ) from error
        return result

    def stop(self) -> None:
        self._client.cancel(list(self._running))


def _run_while_wanted(work: PartWork, partition: Partition) -> PartResult:
    """Run a partition in a worker; end early if it is cancelled, since Dask ends no thread."""
    from distributed import get_worker

    worker = get_worker()
    tasks, key = worker.state.tasks, worker.get_current_task()

    def is_wanted() -> bool:
        task = tasks.get(key)
        return task is not None and task.state == "executing"

    return run_partition(work, partition, is_wanted)
