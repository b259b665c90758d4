"""The statistics of a command's client: a line of them, and a file for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from curlhttp.cli.files import replace_file
from curlhttp.cli.terminal import format_bytes

if TYPE_CHECKING:
    from curlhttp._api.client import Client
    from curlhttp._features.stats import ClientStats

_EVERY = 5.0  # seconds


def describe_stats(stats: ClientStats) -> str:
    """Return a line about what a client did, and has open."""
    parts = [f"{stats.attempts:,} attempts"]
    for name in ("retries", "hedges"):
        if number := getattr(stats, name):
            parts.append(f"{number:,} {name}")
    parts.append(f"{format_bytes(stats.bytes_received)} received")
    for protocol in sorted({each.protocol for each in stats.connections}):
        number = sum(each.open for each in stats.connections if each.protocol == protocol)
        parts.append(f"{number:,} connections of {protocol}")
    return ", ".join(parts)


def write_stats(stats: ClientStats, path: str) -> None:
    """Write statistics as text for Prometheus; a reader never sees a part of them.

    Raises:
        CommandFailed: the file cannot be written.
    """
    replace_file(path, stats.as_prometheus())


@contextmanager
def keep_writing_stats(client: Client, path: str | None) -> Iterator[None]:
    """Write statistics every few seconds, and at the end.

    Args:
        client: whose statistics.
        path: of the file, or None for none.
    """
    if path is None:
        yield
        return
    write_stats(client.stats(), path)  # fails now if it cannot be written
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(_EVERY):
            write_stats(client.stats(), path)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        write_stats(client.stats(), path)
