"""A run: lines become requests, what comes of them becomes records, in one thread.

Nothing is held but what is under way: the list is read as places become free.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from curlhttp._models.cookies import LazyCookies
from curlhttp.cli.exits import CommandFailed
from curlhttp.cli.fetch.lines import InputLine, InputLines
from curlhttp.cli.fetch.output import Output
from curlhttp.cli.fetch.progress import Progress
from curlhttp.cli.fetch.record import FetchRecord
from curlhttp.cli.fetch.tally import Tally
from curlhttp.cli.interrupts import Interrupts
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._client import Client
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["FetchRun"]

_KEY = "curlhttp.fetch"  # in a request's extensions


class FetchRun:
    """Fetch what a list asks for and is not recorded yet.

    Args:
        client: sends.
        lines: the list.
        output: keeps records, and knows those that are there.
        method: of lines that name none.
        retry_failed: fetch again what is recorded as failed.
    """

    def __init__(
        self, client: Client, lines: InputLines, output: Output, *, method: str, retry_failed: bool
    ) -> None:
        self.tally: Tally = Tally()
        self.begin: int = 0  # the position in the list when the first request was made
        self._client = client
        self._lines = lines
        self._output = output
        self._method = method
        self._retry_failed = retry_failed
        self._interrupts = Interrupts()
        self._progress: Progress

    @property
    def failed(self) -> int:
        """Return how many lines are recorded as failed, of this run and those before."""
        return self._output.recorded.failed + self.tally.failed

    def go(self, concurrency: int, progress: Progress) -> None:
        """Fetch all, and close the output.

        Args:
            concurrency: requests at once.
            progress: is told of all that is done.

        Raises:
            KeyboardInterrupt: all that was complete is recorded.
            CommandFailed: the output cannot be written, or the list was edited.
        """
        self._progress = progress
        self._interrupts.listen()
        try:
            with progress:
                self._fetch(concurrency)
        finally:
            try:
                with self._interrupts:
                    self._output.close()
            finally:
                self._interrupts.restore()

    def _fetch(self, concurrency: int) -> None:
        with self._client.map(self._requests(), concurrency=concurrency) as outcomes:
            for outcome in outcomes:
                self._keep(_record_of(outcome))

    def _keep(self, record: FetchRecord) -> None:
        with self._interrupts:
            self.tally.add(record)
            self._output.add(record)
        self._progress.tick()

    def _requests(self) -> Iterator[Request]:
        recorded = self._output.recorded
        for line in self._lines:
            state = recorded.state(line.number, line.fingerprint)
            if state == "changed":
                raise CommandFailed(
                    f"line {line.number} is not what is recorded for it: the list was edited. "
                    "Add lines at its end only, or fetch into another output",
                    2,
                )
            if state == "done" or (state == "failed" and not self._retry_failed):
                self.tally.skipped += 1
                continue
            recorded.forget(line.number)
            self.begin = self.begin or self._lines.position
            request = self._request(line)
            if request is not None:
                yield request

    def _request(self, line: InputLine) -> Request | None:
        """Return the request of a line; of a bad one, record that and return None."""
        problem = line.problem
        if not problem:
            try:
                request = self._build(line)
            except (RequestException, ValueError, TypeError) as error:
                problem = str(error)
            else:
                request.extensions = {_KEY: (line, request.method, str(request.url))}
                # A jar of its own: cookies of a million lines must not pile up, nor mix.
                request.jar = LazyCookies()
                return request
        self._progress.tell_bad_line(line.number, problem)
        self._keep(FetchRecord.of_problem(line, problem))
        return None

    def _build(self, line: InputLine) -> Request:
        options: dict[str, Any] = {"method": self._method, **line.options}  # Any: see InputLine
        return self._client.build_request(url=line.url, **options)


def _record_of(outcome: Response | RequestException) -> FetchRecord:
    request: Any = outcome.request  # Any: ours, with what _request put into it
    line, method, url = request.extensions[_KEY]
    return FetchRecord.of(line, method, url, outcome)
