"""Partitions that the driver writes into the folder of the fetch, perhaps by lanes of hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from zlib import crc32

from curlhttp._distributed.folders import OutFolder
from curlhttp._distributed.manifest import spilled_name
from curlhttp._distributed.partition import Pair, Partition, Spilled
from curlhttp._models.url import parse_url
from curlhttp.exceptions import RequestException

__all__ = ["Spiller"]

_WINDOW = 32 << 20  # bytes of URLs that the driver holds while it sorts them by hosts


class Spiller:
    """Write URLs into the folder of a fetch, a partition at a time, perhaps by lanes of hosts.

    Args:
        pairs: rows and URLs.
        folder: the folder.
        partition: URLs in each, at most.
        lanes: all URLs of a host are in partitions of one lane; 0 for none.
        is_done: whether a partition, by its number, need not be written.
    """

    def __init__(
        self,
        pairs: Iterator[Pair],
        folder: OutFolder,
        partition: int,
        lanes: int,
        is_done: Callable[[int], bool],
    ) -> None:
        self._pairs = pairs
        self._folder = folder
        self._partition = partition
        self._lanes = lanes
        self._is_done = is_done
        self._number = 0

    def __iter__(self) -> Iterator[Partition]:
        buffers: dict[int, bytearray] = {}
        counts: dict[int, int] = {}
        held = taken = 0
        window = self._partition * max(1, self._lanes)
        for row, url in self._pairs:
            text = url if isinstance(url, str) else url.decode("utf-8", "replace")
            line = json.dumps([row, text]).encode() + b"\n"
            lane = lane_of(text, self._lanes) if self._lanes else 0
            buffer = buffers.setdefault(lane, bytearray())
            buffer += line
            counts[lane] = counts.get(lane, 0) + 1
            held += len(line)
            taken += 1
            if counts[lane] == self._partition:
                held -= len(buffer)
                counts[lane] = 0
                yield self._spilled(lane, buffers.pop(lane))
            if taken == window or held > _WINDOW:
                for lane in sorted(buffers):
                    yield self._spilled(lane, buffers[lane])
                buffers, counts = {}, {}
                held = taken = 0
        for lane in sorted(buffers):
            yield self._spilled(lane, buffers[lane])

    def _spilled(self, lane: int, lines: bytearray) -> Partition:
        number = self._number
        self._number += 1
        name = spilled_name(number)
        if not self._is_done(number):
            with self._folder.writing(name) as stream:
                stream.write(lines)
        source = Spilled(self._folder.path(name))
        return Partition(number, source, f"{crc32(lines):08x}", lane if self._lanes else None)


def lane_of(url: str, lanes: int) -> int:
    """Return the lane of a URL's host; lane 0 for what is no URL.

    Args:
        url: as it was given.
        lanes: how many there are.
    """
    try:
        host = parse_url(url).host
    except RequestException:
        return 0
    return crc32(host.rstrip(".").encode()) % lanes
