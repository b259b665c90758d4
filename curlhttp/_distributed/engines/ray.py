"""The engine of Ray: each partition is a task.

Ray runs a task again whose worker is lost, three times unless RAY_TASK_MAX_RETRIES says otherwise.
The dashboard and the scaling of the cluster are Ray's as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from curlhttp._distributed.engines.loop import bring, most_in_flight
from curlhttp._distributed.part import run_partition
from curlhttp._distributed.partition import Partition
from curlhttp._distributed.work import PartResult, PartWork

if TYPE_CHECKING:
    from ray import ObjectRef

__all__ = ["connected", "run", "slots"]


@contextmanager
def connected(engine: str) -> Iterator[None]:
    """Connect to Ray; a program that is connected already stays so.

    Args:
        engine: "ray" for the cluster of RAY_ADDRESS, or else of this machine; "ray://host:port"
            for that of a Ray Client server.

    Raises:
        ImportError: it needs Ray.
        ConnectionError: no server answers there.
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


def slots() -> int:
    """Return how many partitions run at once on the nodes that are there."""
    import ray

    return int(ray.cluster_resources().get("CPU", 0))


def run(work: PartWork, partitions: Iterator[Partition | None]) -> Iterator[PartResult]:
    """Run partitions as tasks of Ray.

    Args:
        work: see run_partition.
        partitions: see the package.

    Raises:
        RuntimeError: a partition's workers were lost, again and again.
        OSError: a part could not be written.
    """
    return bring(_RayWorkers(work), partitions)


class _RayWorkers:
    def __init__(self, work: PartWork) -> None:
        import ray

        self._task = ray.remote(run_partition)
        self._work = work
        self._running: dict[ObjectRef, Partition] = {}

    @property
    def has_room(self) -> bool:
        return len(self._running) < most_in_flight(slots())

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def start(self, partition: Partition) -> None:
        task = self._task.options(name=f"curlhttp partition {partition.number}")
        self._running[task.remote(self._work, partition)] = partition

    def result(self) -> PartResult:
        import ray
        from ray.exceptions import RayError, RayTaskError

        ended, _ = ray.wait(list(self._running), num_returns=1)
        partition = self._running.pop(ended[0])
        try:
            result: PartResult = ray.get(ended[0])
        except RayTaskError:  # an OSError, too, where that was raised
            raise
        except RayError as error:
            raise RuntimeError(f"Ray gave up partition {partition.number}: {error}") from error
        return result

    def stop(self) -> None:
        import ray

        for task in self._running:
            with suppress(Exception):  # the connection is lost, and the tasks with it
                ray.cancel(task)
