"""What a worker does: fetch a partition, and write its part and its entry in the manifest.

Whoever kills it leaves nothing under the names that count. A partition that runs again replaces
what it wrote before; one that is done already is not fetched anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from curlhttp._distributed.folders import OutFolder, folder_of
from curlhttp._distributed.manifest import entry_name, part_name
from curlhttp._distributed.partition import Partition
from curlhttp._distributed.rows import FetchRow
from curlhttp._distributed.settings import client_of
from curlhttp._distributed.tally import PartTally
from curlhttp._distributed.work import PartResult, PartWork
from curlhttp._distributed.writers import writer_of
from curlhttp._models.cookies import LazyCookies
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._client import Client
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["PartitionCancelled", "run_partition"]

_KEY = "curlhttp.distributed"  # in a request's extensions


class PartitionCancelled(Exception):
    """Nobody wants the partition any more."""


def run_partition(
    work: PartWork, partition: Partition, is_wanted: Callable[[], bool] = lambda: True
) -> PartResult:
    """Fetch a partition, write its part, and return what came of it.

    A function of a module and of two values, so that any engine can send it to a worker.

    Args:
        work: how, and where to.
        partition: which URLs.
        is_wanted: asked at each row; once it returns False, the partition ends without a part. For
            engines that end no thread.

    Raises:
        PartitionCancelled: is_wanted returned False.
        OSError: the part could not be written, or the URLs not be read; what fails of a URL is a
            row and no error.
    """
    folder = folder_of(work.out)
    done = folder.read(entry_name(partition.number))
    if done is not None:
        return PartResult.from_json(done)
    result = _Part(work, partition, folder).fetch(is_wanted)
    with folder.writing(entry_name(partition.number)) as stream:
        stream.write(result.to_json())
    return result


class _Part:
    def __init__(self, work: PartWork, partition: Partition, folder: OutFolder) -> None:
        self._work = work
        self._partition = partition
        self._folder = folder
        self._tally = PartTally()
        self._unsent: list[FetchRow] = []

    def fetch(self, is_wanted: Callable[[], bool]) -> PartResult:
        """Fetch all, and have the part under its name."""
        work, number = self._work, self._partition.number
        begun = time.monotonic()
        with self._folder.writing(part_name(number, work.format)) as stream:
            # The writer is closed first, also after an error: pyarrow would write its footer later.
            writer = writer_of(work.format, stream)
            with client_of(work) as client, closing(writer):
                for row in self._rows(client):
                    if not is_wanted():
                        raise PartitionCancelled(f"partition {number} was cancelled")
                    self._put_body(row)
                    self._tally.add(row)
                    writer.add(row)
        if work.pause and self._tally.rows:
            time.sleep(work.pause)
        return self._tally.result(number, self._partition.digest, seconds=time.monotonic() - begun)

    def _rows(self, client: Client) -> Iterator[FetchRow]:
        requests = self._requests(client)
        with client.map(requests, concurrency=self._work.concurrency) as outcomes:
            for outcome in outcomes:
                yield _row_of(outcome)
                yield from self._take_unsent()
        yield from self._take_unsent()

    def _take_unsent(self) -> Iterator[FetchRow]:
        unsent, self._unsent = self._unsent, []
        yield from unsent

    def _requests(self, client: Client) -> Iterator[Request]:
        for row, url in self._partition.source.read():
            text = url if isinstance(url, str) else url.decode("utf-8", "replace")
            try:
                request = client.build_request("GET", url)
            except (RequestException, ValueError, TypeError) as error:
                self._unsent.append(FetchRow.of_no_request(row, text, error))
                continue
            request.extensions = {_KEY: (row, text, request.url.host)}
            # A jar of its own: cookies of thousands of URLs must not pile up, nor mix.
            request.jar = LazyCookies()
            yield request

    def _put_body(self, row: FetchRow) -> None:
        """Make a file of a body that is too large for its row."""
        body, inline = row.body, self._work.inline
        if body is None:
            return
        if not self._work.bodies:
            row.body = None
        elif inline is not None and len(body) > inline:
            digest = hashlib.sha256(body).hexdigest()
            row.body, row.body_file = None, f"bodies/{digest[:2]}/{digest}"
            if not self._folder.exists(row.body_file):
                with self._folder.writing(row.body_file) as stream:
                    stream.write(body)


def _row_of(outcome: Response | RequestException) -> FetchRow:
    request = outcome.request
    assert request is not None
    assert request.extensions is not None
    row, url, host = request.extensions[_KEY]
    return FetchRow.of(row, url, host, outcome)
