"""Fetch a list of URLs with many processes: on this machine, on Dask, or on Ray.

    from curlhttp import distributed

    if __name__ == "__main__":
        print(distributed.fetch("urls.txt", "pages", engine="processes"))

The URLs are split into partitions. For each partition, a worker fetches the URLs with `Client.map`
and writes a part. A manifest next to the parts lists the partitions that are done, so the same call
resumes an interrupted one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Any

from curlhttp._features.fetch.formats import FORMATS, Format
from curlhttp._features.fetch.listed_urls import DuplicateURLs
from curlhttp._features.fetch.result_files import check_installed
from curlhttp._features.fetch.storage import open_folder
from curlhttp.distributed.driver import FetchDriver, show_progress
from curlhttp.distributed.engines import open_engine
from curlhttp.distributed.manifest import JobConfig, Manifest, lock_folder
from curlhttp.distributed.partition import Splitter, parse_input
from curlhttp.distributed.summary import FetchSummary
from curlhttp.distributed.worker import (
    WorkerConfig,
    describe_settings,
    open_client,
    pickle_settings,
)

if TYPE_CHECKING:
    from curlhttp._features.fetch.earlier import EarlierRun
    from curlhttp._features.shared_store import Store
    from curlhttp._http.inputs import RetryInput
    from curlhttp._http.url import URL

__all__ = ["FetchSummary", "fetch"]

_RESERVED_SETTINGS = {"rate_limit", "concurrency_limit"}


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
    text: bool = False,
    dedup: bool = False,
    since: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **client_settings: Any,  # Any: each keyword of Client has its own type
) -> FetchSummary:
    """Fetch URLs with many workers, and write the result of each URL as a row of a part.

    Args:
        urls: the URLs, as an iterable, which is read lazily, or as the path or fsspec URL of a text
            file with one URL per line, which may be compressed, or of a Parquet file (.parquet, or
            any file if `column` is passed). A URL without a scheme means http for local hosts, and
            https for others.
        column: the column of the Parquet file that has the URLs. The default is its only column, or
            the one named "url".
        out: the folder for parts, bodies and the manifest, or its fsspec URL.
        engine: "processes" for processes on this machine; "dask" for a Dask cluster on this
            machine, "dask://host:8786" for the cluster of a scheduler, or a Client of
            dask.distributed; "ray" for the cluster that `ray.init()` connects to, or
            "ray://host:10001".
        processes: the number of processes, for "processes" and "dask". None for one per core. While
            some of them wait for slow hosts, "processes" uses up to three further ones for each.
        concurrency: the number of concurrent requests in each partition.
        per_host: the number of concurrent requests to one origin, by all workers together. Without
            a store, this applies to the hosts in `urls`, because only one worker at a time fetches
            the URLs of a host. It does not apply to hosts that redirects lead to: there, each
            worker may send as many requests.
        rate: the requests per second to one origin, by all workers together; see per_host.
        store: a RedisStore through which the workers share per_host and rate, so that both apply
            to every request, and several workers may fetch the URLs of one host.
        retry: see Client.
        format: the format of the parts: Parquet, JSON lines, or WARC, which holds bodies of any
            size.
        partition: the maximum number of URLs in a partition.
        inline: the maximum size in bytes of a body stored in its row. Larger bodies are written to
            files named by their SHA-256. None for no limit.
        bodies: False to store no bodies.
        text: store the bodies of texts as UTF-8, whatever charset Content-Type, a byte order mark
            or the document itself names; size is that of the text.
        dedup: leave out a URL if one before it is the same, after normalization; it has no row. The
            driver reads the whole input, and remembers about 100 bytes of each URL.
        since: the output of an earlier run: the folder of this function, or its fsspec URL, or an
            output of `curlhttp fetch`. Its ETag and Last-Modified are sent, and a 304 is stored as
            an unchanged row without a body. The driver reads it first, and then the whole input.
        progress: show progress on stderr.
        client_settings: arguments of the Client in each worker. The default of max_response_size
            is 100 MiB, that of timeout is Timeout(attempt=300, min_speed=(100, 30)), and that of
            retry_after is "origin". With `robots`, only one worker at a time fetches the URLs of a
            host, so that its Crawl-delay applies to all workers together.

    Returns:
        The summary of all partitions, including those that earlier calls have fetched.

    Raises:
        ValueError: the input or the settings differ from those of the call that started this fetch,
            or `since` is no output.
        TypeError: a setting cannot be sent to workers, or an item is not a URL.
        OSError: the input cannot be read, the folder cannot be written, or the engine cannot be
            reached. It is a BlockingIOError if another call is fetching to the folder.
        RuntimeError: the workers of a partition were lost repeatedly.
        KeyboardInterrupt: after Ctrl-C. Complete parts are kept, and also the rows of the others.
        ImportError: the engine, the format or a path needs a package that is not installed.
    """
    settings = {**client_settings, "retry": retry}
    if text:
        settings.setdefault("default_encoding", "html")
    _validate(settings, format, concurrency=concurrency, partition=partition, processes=processes)
    url_input = parse_input(urls, column)
    folder = open_folder(os.fspath(out))
    if since is not None and open_folder(os.fspath(since)).path("") == folder.path(""):
        raise ValueError("since must be another output than out, which changes")
    config = WorkerConfig(
        folder.path("").rstrip("/"),
        format,
        concurrency,
        inline,
        bodies,
        pickle_settings(settings if store is None else {**settings, "store": store}),
        per_host,
        rate,
        pause=1 / rate if rate and store is None else 0.0,
        as_text=text,
    )
    with open_client(config):  # raises here, not in the workers, if a setting is invalid
        pass
    with (
        _open_earlier_run(since) as earlier,
        open_engine(engine, processes or os.cpu_count() or 1) as opened,
    ):
        # No store shares a Crawl-delay.
        is_divided = settings.get("robots") is not None or ((per_host or rate) and store is None)
        queues = 4 * max(4, opened.slots) if is_divided else 0
        described = describe_settings(settings)
        job = JobConfig(
            format, partition, queues, inline, bodies, described, text, dedup, since is not None
        )
        folder.create()
        with lock_folder(folder), show_progress(url_input.rows, quiet=not progress) as notify:
            manifest = Manifest(folder)
            host_queues = manifest.start(job).host_queues
            duplicates = DuplicateURLs() if dedup else None
            splitter = Splitter(url_input, folder, partition, host_queues, duplicates, earlier)
            return FetchDriver(folder, manifest, splitter, notify).run(opened, config)


def _open_earlier_run(
    path: str | os.PathLike[str] | None,
) -> AbstractContextManager[EarlierRun | None]:
    if path is None:
        return nullcontext()
    from curlhttp._features.fetch.earlier import EarlierRun

    return closing(EarlierRun(os.fspath(path)))


def _validate(settings: Iterable[str], format: str, **numbers: int | None) -> None:
    reserved = _RESERVED_SETTINGS.intersection(settings)
    if reserved:
        raise TypeError(
            f"{min(reserved)} cannot be passed: use per_host and rate, which apply to all workers"
        )
    if format not in FORMATS:
        formats = ", ".join(map(repr, FORMATS))
        raise ValueError(f"format must be one of {formats}, not {format!r}")
    for name, number in numbers.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} must be an integer of at least 1, not {number!r}")
    check_installed(format)
