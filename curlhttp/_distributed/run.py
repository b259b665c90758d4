"""The driver: it cuts the input, lets an engine run the partitions, and counts what they gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import TypeAlias, cast

from curlhttp._distributed.engines import Run
from curlhttp._distributed.folders import OutFolder
from curlhttp._distributed.lanes import Lanes
from curlhttp._distributed.manifest import Manifest, spilled_name
from curlhttp._distributed.partition import Partition
from curlhttp._distributed.summary import FetchSummary
from curlhttp._distributed.work import PartResult, PartWork

__all__ = ["FetchDriver"]

_AHEAD = 4  # partitions per lane that may wait for it

Cut: TypeAlias = Callable[[Callable[[int], bool]], Iterator[Partition]]


class FetchDriver:
    """Have all partitions fetched that are not done yet.

    Args:
        folder: the folder of the fetch.
        manifest: of the fetch.
        lanes: see Terms.
        spills: the URLs of partitions are files of the folder, which go when those are done.
        tell: is called with the summary so far, after each partition.
    """

    def __init__(
        self,
        folder: OutFolder,
        manifest: Manifest,
        *,
        lanes: int,
        spills: bool,
        tell: Callable[[FetchSummary], None],
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._lanes = lanes
        self._spills = spills
        self._tell = tell
        self._done: dict[int, str] = {}  # digests by number, of what earlier calls did
        self.summary: FetchSummary = FetchSummary()

    def go(self, work: PartWork, run: Run, cut: Cut) -> FetchSummary:
        """Fetch what is left, and return what came of all.

        Args:
            work: for the workers.
            run: the engine.
            cut: makes the partitions, given what says which are done.

        Raises:
            ValueError: the input is not what it was when the fetch began.
        """
        begun = time.monotonic()
        for entry in self._manifest.entries():
            self._done[entry.number] = entry.digest
            self._note(entry)
        partitions = cut(self._done.__contains__)
        lanes = Lanes(chain(self._left(partitions), partitions), _AHEAD * max(1, self._lanes))
        results = cast("Generator[PartResult, None, None]", run(work, lanes))
        try:
            with closing(results):
                for result in results:
                    lanes.release(result.number)
                    self._note(result)
                    if self._spills:
                        self._folder.remove(spilled_name(result.number))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{self.summary.parts} parts are complete in {self._folder.path('')}; "
                "the same call goes on from there"
            ) from None
        self.summary.finish(time.monotonic() - begun)
        self._manifest.finish(self.summary.as_json())
        return self.summary

    def _note(self, result: PartResult) -> None:
        self.summary.add(result)
        self._tell(self.summary)

    def _left(self, partitions: Iterator[Partition]) -> list[Partition]:
        """Read on to where earlier calls stopped, and return what they left out."""
        left: list[Partition] = []
        known = len(self._done)
        while known:
            partition = next(partitions, None)
            if partition is None:
                raise ValueError(
                    f"the input is shorter than it was: {known} partitions are done that it has "
                    "not; give the same input, or another folder"
                )
            digest = self._done.get(partition.number)
            if digest is None:
                left.append(partition)
                continue
            known -= 1
            if digest != partition.digest:
                raise ValueError(
                    f"the input has changed in partition {partition.number}; give the same "
                    "input, or another folder"
                )
        return left
