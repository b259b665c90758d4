"""Engines: what brings partitions to workers, and their results back.

Each is a function run(work, partitions) in a file of its own. It takes a partition when it has room
for one; None among them means that none may start before another has ended. It runs a partition
again whose worker is lost, holds no more than some per worker, and raises what
run_partition raises. Closing it stops what is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from curlhttp._distributed.partition import Partition
from curlhttp._distributed.work import PartResult, PartWork

__all__ = ["PartEngine", "Run", "engine_of"]

Run: TypeAlias = Callable[[PartWork, Iterator[Partition | None]], Iterator[PartResult]]


class PartEngine(NamedTuple):
    """An engine that is ready to run.

    Attributes:
        run: brings partitions to workers.
        slots: how many partitions run at once, as far as is known now.
    """

    run: Run
    slots: int


def engine_of(engine: object, processes: int) -> PartEngine:
    """Return the engine that `engine=` stands for.

    Args:
        engine: its name, an address, or a client of it.
        processes: how many, for the engine of that name.

    Raises:
        ValueError: no engine is called so.
        TypeError: it is no name, and no client that is known.
        ImportError: it needs a package that is not installed.
    """
    if engine == "processes":
        from curlhttp._distributed.engines import processes as pool

        return PartEngine(partial(pool.run, processes=processes), processes)
    if isinstance(engine, str):
        raise ValueError(f"engine must be 'processes', 'dask' or 'ray', not {engine!r}")
    raise TypeError(f"engine must be a name or a client, not {type(engine).__name__}")
