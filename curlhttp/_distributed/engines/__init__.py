"""Engines: what brings partitions to workers, and their results back.

Each is a function run(work, partitions) in a file of its own. It takes a partition when it has room
for one; None among them means that none may start before another has ended. It runs a partition
again whose worker is lost, holds no more than some per worker, and raises what
run_partition raises. Closing it stops what is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

from curlhttp._distributed.engines import dask, ray
from curlhttp._distributed.engines import processes as pool
from curlhttp._distributed.partition import Partition
from curlhttp._distributed.work import PartResult, PartWork

__all__ = ["PartEngine", "Run", "open_engine"]

Run: TypeAlias = Callable[[PartWork, Iterator[Partition | None]], Iterator[PartResult]]


class PartEngine(NamedTuple):
    """An engine that is ready to run.

    Attributes:
        run: brings partitions to workers.
        slots: how many partitions run at once, as far as is known now.
    """

    run: Run
    slots: int


@contextmanager
def open_engine(engine: object, processes: int) -> Iterator[PartEngine]:
    """Open the engine that `engine=` stands for, and close what was opened for it.

    Args:
        engine: its name, an address, or a client of it.
        processes: how many, where they are started for this fetch.

    Raises:
        ValueError: no engine is called so.
        TypeError: it is no name, and no client that is known.
        ImportError: it needs a package that is not installed.
        OSError: nothing answers at the address.
    """
    if engine == "processes":
        yield PartEngine(partial(pool.run, processes=processes), processes)
    elif engine == "dask" or _is_at(engine, "dask://") or dask.is_client(engine):
        with dask.client_of(engine, processes) as client:
            yield PartEngine(partial(dask.run, client=client), dask.slots_of(client))
    elif engine == "ray" or _is_at(engine, "ray://"):
        with ray.connected(str(engine)):
            yield PartEngine(ray.run, ray.slots())
    elif isinstance(engine, str):
        raise ValueError(
            "engine must be 'processes', 'dask', 'dask://host:port', 'ray' or "
            f"'ray://host:port', not {engine!r}"
        )
    else:
        raise TypeError(
            f"engine must be a name, an address or a Client of Dask, not {type(engine).__name__}"
        )


def _is_at(engine: object, scheme: str) -> bool:
    return isinstance(engine, str) and engine.startswith(scheme) and engine != scheme
