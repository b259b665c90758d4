"""Fetch more URLs than one process should: on the cores of a machine, on Dask, or on Ray.

    from curlhttp import distributed

    if __name__ == "__main__":
        print(distributed.fetch("urls.txt", "pages", engine="processes"))

Each partition of the URLs is fetched by `Client.map` in a worker, which writes a part. What is done
stands in a manifest beside the parts: the same call goes on where another one was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from curlhttp._distributed.engines import open_engine
from curlhttp._distributed.folders import folder_of
from curlhttp._distributed.inputs import Cutter, input_of
from curlhttp._distributed.lock import only_driver
from curlhttp._distributed.manifest import Manifest, Terms
from curlhttp._distributed.run import FetchDriver
from curlhttp._distributed.settings import client_of, described, pickled
from curlhttp._distributed.shown import showing
from curlhttp._distributed.summary import FetchSummary
from curlhttp._distributed.work import Format, PartWork

if TYPE_CHECKING:
    from curlhttp._models.url import URL
    from curlhttp._policy.retry import RetryInput
    from curlhttp._policy.store import Store

__all__ = ["FetchSummary", "fetch"]

_OURS = {"rate_limit", "concurrency_limit"}


def fetch(
    urls: str | os.PathLike[str] | Iterable[str | bytes | URL],
    out: str | os.PathLike[str],
    *,
    column: str | None = None,
    engine: object = "processes",
    processes: int | None = None,
    concurrency: int = 64,
    per_host: int | None = None,
    rate: float | None = None,
    store: Store | None = None,
    retry: RetryInput = None,
    format: Format = "parquet",
    partition: int = 10_000,
    inline: int | None = 65_536,
    bodies: bool = True,
    progress: bool = True,
    **client_settings: Any,  # Any: of each keyword of Client its own type
) -> FetchSummary:
    """Fetch URLs in many workers, and write what comes of each as a row of a part.

    Args:
        urls: an iterable, which is read lazily, or the path or fsspec URL of a text file with one
            URL a line, or of a Parquet file (.parquet, or any with `column`).
        column: of the Parquet file; without it, the only one, or the one that is called "url".
        out: the folder for parts, bodies and the manifest, or its fsspec URL.
        engine: "processes" of this machine; "dask" for a cluster on this machine,
            "dask://host:8786" for that of a scheduler, or a Client of dask.distributed; "ray" for
            the cluster to which `ray.init()` connects, or "ray://host:10001".
        processes: how many, for "processes" and "dask"; None for one per core.
        concurrency: requests at once in each partition.
        per_host: requests at once to one origin, over all workers. Without a store that holds for
            the hosts of `urls`: those of one host are fetched by one worker at a time. Hosts to
            which redirects lead may get as many from each worker.
        rate: requests a second to one origin, likewise.
        store: a RedisStore, by which per_host and rate hold for all that is sent, and workers
            need not be told apart by hosts.
        retry: see Client.
        format: of the parts.
        partition: URLs in each, at most.
        inline: bytes of the largest body that stands in its row; larger ones are files, named by
            their SHA-256. None for no limit.
        bodies: False to keep none.
        progress: show how it goes, on stderr.
        client_settings: of the Client in each worker; max_response_size is 100 MiB unless given.

    Returns:
        What came of all partitions, those of earlier calls too.

    Raises:
        ValueError: the input or the settings differ from those of the call that began this fetch.
        TypeError: a setting cannot travel to workers, or an item is no URL.
        OSError: the input cannot be read, the folder not be written, or the engine not be reached;
            a BlockingIOError if another call is fetching to the folder.
        RuntimeError: the workers of a partition were lost, again and again.
        KeyboardInterrupt: what was complete is kept.
        ImportError: the engine, the format or a path needs a package that is not installed.
    """
    settings = {**client_settings, "retry": retry}
    _check(settings, format, concurrency=concurrency, partition=partition, processes=processes)
    found = input_of(urls, column)
    folder = folder_of(os.fspath(out))
    work = PartWork(
        folder.path("").rstrip("/"),
        format,
        concurrency,
        inline,
        bodies,
        pickled(settings if store is None else {**settings, "store": store}),
        per_host,
        rate,
        pause=1 / rate if rate and store is None else 0.0,
    )
    with client_of(work):  # which raises now, if it must
        pass
    with open_engine(engine, processes or os.cpu_count() or 1) as chosen:
        lanes = 4 * max(4, chosen.slots) if (per_host or rate) and store is None else 0
        terms = Terms(format, partition, lanes, inline, bodies, described(settings))
        folder.make()
        with only_driver(folder), showing(found.rows, quiet=not progress) as tell:
            manifest = Manifest(folder)
            lanes = manifest.agree(terms).lanes
            cutter = Cutter(found, folder, partition, lanes)
            driver = FetchDriver(folder, manifest, lanes=lanes, spills=cutter.spills, tell=tell)
            return driver.go(work, chosen.run, cutter.cut)


def _check(settings: Iterable[str], format: str, **numbers: int | None) -> None:
    wrong = _OURS.intersection(settings)
    if wrong:
        raise TypeError(f"{min(wrong)} is told by per_host and rate, which hold over all workers")
    if format not in ("parquet", "jsonl"):
        raise ValueError(f"format must be 'parquet' or 'jsonl', not {format!r}")
    for name, number in numbers.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} must be a number from 1 on, not {number!r}")
    if format == "parquet":
        from curlhttp._distributed.parquet import load

        load()
