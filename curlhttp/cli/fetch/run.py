"""Run a fetch: send the requests of a list, record and count the results, and show progress.

The list is read while requests end, so only running requests are in memory.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from curlhttp._features.fetch.conditions import NOT_MODIFIED, add_conditions
from curlhttp._features.fetch.listed_urls import DuplicateURLs
from curlhttp._features.map.bodies import BodyReceiver, get_body_file, receive_bodies
from curlhttp._features.map.receiving import set_receiver
from curlhttp._features.map.results import Results
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.request import IF_LARGE
from curlhttp.cli.errors import CommandFailed, Terminated
from curlhttp.cli.fetch.input import InputLine, InputLines
from curlhttp.cli.fetch.records import MAX_AGE, FetchRecord, RecordOutput
from curlhttp.cli.histogram import LatencyHistogram
from curlhttp.cli.terminal import (
    console,
    format_bytes,
    format_counts,
    format_duration,
    format_seconds,
    printable,
)
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from curlhttp._api.client import Client
    from curlhttp._features.fetch.earlier import EarlierRun
    from curlhttp._features.stats import ClientStats
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._runtime.engine import Runtime

_KEY = "curlhttp.fetch"  # in a request's extensions
_BACKLOG = 10_000  # requests that may wait for their hosts; the default of map
_REFRESHES = 4  # per second
_WINDOW = 20  # refreshes over which the rate is averaged
_PERIOD = 10.0  # seconds between two lines of progress if stderr is not a terminal
_MAX_INVALID_LINES = 10  # that are reported


class FetchRun:
    """Fetch the lines of a list that have no record yet.

    Args:
        client: sends the requests.
        lines: the list.
        output: writes records, and knows the records of earlier runs.
        method: the HTTP method for lines that have none.
        as_text: see FetchRecord.from_outcome.
        duplicates: finds lines to leave out, among those that are URLs alone; or None.
        earlier: the run whose responses are not sent again if they are unchanged, or None.
    """

    def __init__(
        self,
        client: Client,
        lines: InputLines,
        output: RecordOutput,
        *,
        method: str,
        as_text: bool = False,
        duplicates: DuplicateURLs | None = None,
        earlier: EarlierRun | None = None,
    ) -> None:
        self.counters: FetchCounters = FetchCounters()
        self.begin: int = 0  # the position in the list at the first request
        self._client = client
        self._lines = lines
        self._output = output
        self._method = method
        self._as_text = as_text
        self._duplicates = duplicates
        self._earlier = earlier
        self._interrupts = DeferredInterrupts()
        self._progress: FetchProgress

    @property
    def failed(self) -> int:
        """Return the number of lines whose record is a failure, from this run or an earlier one."""
        return self._output.recorded.failed + self.counters.failed

    def stats(self) -> ClientStats:
        """Return the statistics of the client."""
        return self._client.stats()

    def run(self, concurrency: int, progress: FetchProgress) -> None:
        """Fetch all lines, and close the output.

        Args:
            concurrency: the number of concurrent requests.
            progress: shows the progress.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM, when all complete responses are recorded.
            CommandFailed: the output cannot be written, or the list was edited.
            OSError: the file of a large body cannot be written.
        """
        self._progress = progress
        self._interrupts.install()
        try:
            with progress, self._send(concurrency) as outcomes:
                for outcome in outcomes:
                    self._record(self._make_record(outcome))
        finally:
            try:
                with self._interrupts:
                    self._output.close()
            finally:
                self._interrupts.uninstall()

    def _send(self, concurrency: int) -> Results:
        """Send the requests as map does it, with the files of large bodies."""
        return receive_bodies(
            self._client,
            self._build_requests(),
            concurrency=concurrency,
            backlog=_BACKLOG,
            on_full=self._progress.print_full,
            task=self._write_in_time,
        )

    async def _write_in_time(self, runtime: Runtime) -> None:
        """Write records that are due, also while no others arrive."""
        while True:
            await runtime.sleep(MAX_AGE)
            with self._interrupts:
                self._output.flush_if_due()
            self._progress.tick()

    def _make_record(self, outcome: Response | RequestException) -> FetchRecord:
        request: Any = outcome.request  # Any: _build_or_record has set the extensions
        line, method, url, validators = request.extensions[_KEY]
        file = get_body_file(outcome)
        as_text = self._as_text and (file is None or self._output.keeps_bodies)
        record = FetchRecord.from_outcome(line, method, url, outcome, file=file, as_text=as_text)
        if validators and record.status == NOT_MODIFIED:
            record.set_unchanged(validators)
        return record

    def _record(self, record: FetchRecord) -> None:
        with self._interrupts:
            self.counters.add(record)
            self._output.add(record)
        self._progress.tick()

    def _build_requests(self) -> Iterator[ClientRequest]:
        recorded = self._output.recorded
        for line in self._lines:
            if self._duplicates is not None and line.is_url and self._duplicates.has(line.url):
                self.counters.duplicates += 1
                continue
            state = recorded.state(line.number, line.fingerprint)
            if state == "changed":
                raise CommandFailed(
                    f"line {line.number} differs from its record: the list was edited. Only add "
                    "lines at the end, or use another output",
                    2,
                )
            if state in ("done", "failed"):
                self.counters.skipped += 1
                continue
            recorded.remove(line.number)
            self.begin = self.begin or self._lines.position
            request = self._build_or_record(line)
            if request is not None:
                yield request

    def _build_or_record(self, line: InputLine) -> ClientRequest | None:
        """Return the request of a line, or record that the line is invalid and return None."""
        problem = line.problem
        if not problem:
            try:
                request = self._build(line)
            except (RequestException, ValueError, TypeError) as error:
                problem = str(error)
            else:
                key = (line, request.method, str(request.url), self._add_validators(request))
                request._extend(_KEY, key)
                make_file = partial(self._output.make_body_file, line.number)
                set_receiver(request, BodyReceiver(make_file), stream=IF_LARGE)
                # A separate cookie jar for each request, so that cookies of a million lines neither
                # mix nor pile up.
                request.jar = LazyCookieJar()
                return request
        self._progress.print_invalid_line(line.number, problem)
        self._record(FetchRecord.from_problem(line, problem))
        return None

    def _add_validators(self, request: ClientRequest) -> dict[str, str]:
        """Make a request conditional, and return the validators that it has now."""
        if self._earlier is None or request.method != "GET":
            return {}  # without a copy of the headers, so that they stay those of the client
        validators = self._earlier.get_validators(str(request.url))
        return validators if add_conditions(request, validators) else {}

    def _build(self, line: InputLine) -> ClientRequest:
        options: dict[str, Any] = {"method": self._method, **line.options}  # Any: see InputLine
        built: ClientRequest = self._client.build_request(url=line.url, **options)
        return built


class DeferredInterrupts:
    """Raise KeyboardInterrupt on SIGINT or SIGTERM, but not before the end of a `with` block.

    Blocks may be nested. Outside the main thread, which receives the signals, this does nothing.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending = 0  # a signal
        self._previous: dict[int, signal._HANDLER] = {}

    def install(self) -> None:
        """Install the signal handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)

    def uninstall(self) -> None:
        """Restore the previous signal handlers."""
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._pending = number
        if not self._depth:
            self._raise()

    def _raise(self) -> NoReturn:
        number, self._pending = self._pending, 0
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: object, *_: object) -> None:
        self._depth -= 1
        if self._pending and not self._depth and kind is None:
            self._raise()


class FetchCounters:
    """Count the records of a run.

    Attributes:
        done: records of this run.
        ok: how many of them succeeded.
        unchanged: how many of them are the same as in an earlier run.
        duplicates: lines that are left out, because a line before them has the same URL.
        skipped: lines that are not fetched, because they have a record from an earlier run.
        statuses: counts by class, such as "2xx".
        errors: counts by type, such as "ReadTimeout".
        reasons: counts by reason, such as "dns"; see failure_reason().
        size: the total size of the bodies in bytes.
        latencies: latencies of the last attempt of each request.
    """

    def __init__(self) -> None:
        self.done: int = 0
        self.ok: int = 0
        self.skipped: int = 0
        self.unchanged: int = 0
        self.duplicates: int = 0
        self.size: int = 0
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.latencies: LatencyHistogram = LatencyHistogram()
        self._started = time.monotonic()

    def add(self, record: FetchRecord) -> None:
        """Count a record."""
        self.done += 1
        self.ok += record.ok
        self.unchanged += record.unchanged
        self.size += record.size
        if record.error is not None:
            self.errors[record.error] += 1
            self.reasons[record.reason or "other"] += 1
        elif record.status is not None:
            self.statuses[f"{record.status // 100}xx"] += 1
            if record.elapsed is not None:
                self.latencies.add(record.elapsed)

    @property
    def failed(self) -> int:
        """Return the number of records that are failures."""
        return self.done - self.ok

    @property
    def seconds(self) -> float:
        """Return how long the run has taken so far, in seconds."""
        return time.monotonic() - self._started

    def summary(self) -> dict[str, object]:
        """Return the summary for --summary json, in seconds and bytes."""
        seconds = self.seconds
        return {
            "done": self.done,
            "ok": self.ok,
            "failed": self.failed,
            "skipped": self.skipped,
            "unchanged": self.unchanged,
            "duplicates": self.duplicates,
            "statuses": dict(sorted(self.statuses.items())),
            "errors": dict(self.errors.most_common()),
            "reasons": dict(self.reasons.most_common()),
            "bytes": self.size,
            "seconds": round(seconds, 3),
            "rate": round(self.done / seconds, 1) if seconds else 0.0,
            "p50": round(self.latencies.percentile(50), 6),
            "p95": round(self.latencies.percentile(95), 6),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of the text summary, each with a label and a text."""
        seconds = self.seconds
        rate = self.done / seconds if seconds else 0.0
        size = format_bytes(self.size)
        rows = [
            ("fetched", f"{self.done:,} in {seconds:.1f} s, {rate:,.0f}/s, {size}"),
            ("statuses", format_counts(self.statuses)),
            ("errors", format_counts(self.errors)),
        ]
        if self.latencies.count:
            p50, p95 = (format_seconds(self.latencies.percentile(part)) for part in (50, 95))
            rows.append(("latency", f"p50 {p50}, p95 {p95}"))
        if self.skipped:
            rows.append(("skipped", f"{self.skipped:,} recorded before"))
        if self.unchanged:
            rows.append(("same", f"{self.unchanged:,} unchanged since the earlier run"))
        if self.duplicates:
            rows.append(("left out", f"{self.duplicates:,} duplicates"))
        return rows


class FetchProgress:
    """Show progress on stderr: a live line on a terminal, otherwise a line at intervals.

    Args:
        counters: the counters of the run.
        fraction: returns the fraction of the input that has been read, or None if it is unknown.
        quiet: report invalid lines only.
    """

    def __init__(
        self, counters: FetchCounters, fraction: Callable[[], float | None], *, quiet: bool
    ) -> None:
        self._counters = counters
        self._fraction = fraction
        self._quiet = quiet
        self._samples: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=_WINDOW)
        self._console: Console = console(stderr=True)
        self._live: Live | None = None
        self._next = time.monotonic() + _PERIOD
        self._invalid_lines = 0

    def __enter__(self) -> FetchProgress:
        if not self._quiet and sys.stderr.isatty():
            from rich.live import Live

            self._live = Live(
                get_renderable=self._text,
                console=self._console,
                refresh_per_second=_REFRESHES,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Print a line of progress if one is due and there is no live line."""
        if self._live is None and not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD
            self._print(self.line())

    def print_invalid_line(self, number: int, problem: str) -> None:
        """Report that a line is invalid, for a limited number of lines.

        Args:
            number: the number of the line.
            problem: why it is invalid.
        """
        self._invalid_lines += 1
        if self._invalid_lines <= _MAX_INVALID_LINES:
            self._print(f"curlhttp: line {number}: {printable(problem)}")
        if self._invalid_lines == _MAX_INVALID_LINES:
            self._print("curlhttp: further invalid lines are recorded, but not reported")

    def print_full(self, until: str) -> None:
        """Say that no further lines are read, unless quiet.

        Args:
            until: when they are read again.
        """
        if not self._quiet:
            self._print(
                f"curlhttp: no further lines are read {until}. If other hosts come later in the "
                "list, mix it, such as with `shuf`"
            )

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def line(self) -> str:
        """Return the current line of progress, with the most important parts first."""
        counters, seconds = self._counters, self._counters.seconds
        since, done = self._samples[0]
        self._samples.append((seconds, counters.done))
        rate = (counters.done - done) / (seconds - since) if seconds > since else 0.0
        parts = [f"{counters.done:,} done", f"{rate:,.0f}/s"]
        fraction = self._fraction()
        if fraction:
            left = seconds * (1 - fraction) / fraction
            parts += [f"{fraction:.0%}", f"ETA {format_duration(left)}"]
        if counters.errors:
            errors = format_counts(counters.errors, 3)
            parts.append(f"{counters.errors.total():,} errors ({errors})")
        failed = {kind: count for kind, count in counters.statuses.items() if kind > "4"}
        parts += [f"{kind} {count:,}" for kind, count in sorted(failed.items())]
        return "  ".join(parts)

    def _text(self) -> Text:
        from rich.text import Text

        return Text(self.line(), no_wrap=True, overflow="ellipsis")
