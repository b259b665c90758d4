"""The worker: fetch a partition, write its part, and then write its result to the manifest.

A killed worker leaves no incomplete file under a final name. A partition that runs again overwrites
its files, and a partition that is done is not fetched again.

A partition that is asked to stop ends with a part of the rows that it has. When it runs again, it
writes the others to a further part. An early result is written right before its part appears, so it
counts only if there is the part; the result of the whole partition is written after its last part.
"""

from __future__ import annotations

import io
import pickle
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from hashlib import sha256
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from curlhttp._features.fetch.compressed_files import compress_member, compress_pieces, decompress
from curlhttp._features.fetch.conditions import NOT_MODIFIED, add_conditions
from curlhttp._features.fetch.formats import Coding, Format, find_coding, is_warc
from curlhttp._features.fetch.result_files import read_json
from curlhttp._features.fetch.storage import OutputFolder, open_folder, open_input_file
from curlhttp._features.fetch.warc import Record, join_records, make_info, make_records
from curlhttp._features.map.bodies import (
    MAX_IN_MEMORY,
    BodyFile,
    BodyReceiver,
    discard_large_body,
    get_body_file,
    receive_bodies,
)
from curlhttp._features.map.receiving import set_receiver
from curlhttp._features.typed_urls import complete_url
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.redaction import is_secret_header, redact_text, strip_userinfo
from curlhttp._http.request import IF_LARGE
from curlhttp._http.response import Response
from curlhttp._http.timeout import ATTEMPT_SECONDS, MIN_SPEED, Timeout
from curlhttp.distributed.manifest import early_result_name, part_name, result_name
from curlhttp.distributed.partition import Partition
from curlhttp.distributed.rows import FetchRow, format_time
from curlhttp.distributed.summary import PartResult
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._api.client import Client
    from curlhttp._features.map.scheduler import MapScheduler
    from curlhttp._http.request import ClientRequest

_KEY = "curlhttp.distributed"  # in a request's extensions
_MAX_ROWS = 64  # in a batch
_POLL = 1.0  # seconds
_MAX_BYTES = 4 << 20  # of bodies in a batch, approximately
_MAX_RESPONSE_SIZE = 100 * 1024 * 1024  # bytes, unless max_response_size is given
# Settings whose layers need bodies in memory: they share them, or see attempts.
_WITH_BODIES = {"attempt_middleware", "cache", "coalesce"}
# Settings that may differ between calls, and must not be written to a file.
_CREDENTIALS = {"auth", "cookies", "cert"}

_Outcome: TypeAlias = "tuple[Response | RequestException, int]"
"""The outcome of a URL, and when it arrived, in nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How workers fetch partitions, and where they write parts.

    Args:
        out: the folder, as an absolute path or an fsspec URL.
        format: the format of the parts.
        concurrency: the number of concurrent requests in each partition.
        inline: the maximum size in bytes of a body stored in its row, or None for no limit. Larger
            bodies are written to files.
        bodies: False to store no bodies.
        settings: the arguments of Client, pickled.
        per_host: the number of concurrent requests to one origin, or None for no limit.
        rate: requests per second to one origin, or None for no limit.
        pause: seconds to wait after a partition, so that the next partition of its host queue
            respects the rate.
        as_text: store the bodies of texts as UTF-8, whatever their charset is.
    """

    out: str
    format: Format
    concurrency: int
    inline: int | None
    bodies: bool
    settings: bytes
    per_host: int | None = None
    rate: float | None = None
    pause: float = 0.0
    as_text: bool = False


class PartitionCancelled(Exception):
    """The partition was cancelled."""


class _NoRows(Exception):
    """The partition was stopped before it had a row."""


class StopRequest:
    """A request to end the partition early, from a signal handler of this thread.

    Attributes:
        is_set: the partition shall end.
    """

    def __init__(self) -> None:
        self.is_set: bool = False
        self._is_waiting = False

    def set(self) -> None:
        """Ask the partition to end.

        Raises:
            KeyboardInterrupt: it waits for a response, which it shall not do any longer.
        """
        self.is_set = True
        if self._is_waiting:
            self._is_waiting = False
            raise KeyboardInterrupt

    def next_outcome(
        self, outcomes: Iterator[Response | RequestException]
    ) -> Response | RequestException | None:
        """Return the next outcome, or None if there is none or the partition shall end."""
        try:
            self._is_waiting = True
            return None if self.is_set else next(outcomes, None)
        except KeyboardInterrupt:
            if not self.is_set:
                raise
            return None
        finally:
            self._is_waiting = False


class PolledStop(StopRequest):
    """A request to end the partition early that somebody on another machine makes.

    Args:
        ask: returns whether the partition shall end. It is called between outcomes, at most once a
            second, and may raise an Exception if nobody can tell.
    """

    def __init__(self, ask: Callable[[], bool]) -> None:
        super().__init__()
        self._ask = ask
        self._next = 0.0

    def next_outcome(
        self, outcomes: Iterator[Response | RequestException]
    ) -> Response | RequestException | None:
        """Return the next outcome, or None if there is none or the partition shall end."""
        if not self.is_set and time.monotonic() >= self._next:
            with suppress(Exception):
                if self._ask():
                    self.set()
            self._next = time.monotonic() + _POLL
        return super().next_outcome(outcomes)


@contextmanager
def open_client(config: WorkerConfig) -> Iterator[Client]:
    """Open a client with the settings of a fetch. A store shares its limits among workers.

    Args:
        config: the configuration of the worker.
    """
    from curlhttp._api.client import Client
    from curlhttp._features.limits.policy import ConcurrencyLimit, RateLimit

    settings = {
        "max_connections": config.concurrency,
        "max_response_size": _MAX_RESPONSE_SIZE,
        "timeout": Timeout(attempt=ATTEMPT_SECONDS, min_speed=MIN_SPEED),
        "retry_after": "origin",
        **pickle.loads(config.settings),
    }
    store = settings.pop("store", None)
    shared = {} if store is None else {"store": store}
    if config.per_host is not None:
        settings["concurrency_limit"] = ConcurrencyLimit(config.per_host, **shared)
    if config.rate is not None:
        settings["rate_limit"] = RateLimit(config.rate, **shared)
    try:
        with Client(**settings) as client:
            yield client
    finally:
        if store is not None:
            store.close()


def run_partition(
    config: WorkerConfig,
    partition: Partition,
    is_wanted: Callable[[], bool] = lambda: True,
    stop: StopRequest | None = None,
    on_lull: Callable[[], object] = bool,
) -> PartResult:
    """Fetch a partition, write its part, and return the result.

    This is a module-level function with picklable arguments, so that any engine can run it.

    Args:
        config: the configuration of the worker.
        partition: the partition.
        is_wanted: is called for each result and before rows are written, for engines that cannot
            stop a thread. If it returns False, the partition ends without a part.
        stop: ends the partition early, with the rows that it has; then the result says so.
        on_lull: is called once when most places are free, because the other URLs wait for slow
            hosts, so that the engine may run another partition meanwhile.

    Raises:
        PartitionCancelled: is_wanted() returned False.
        OSError: the part cannot be written, or the URLs cannot be read. A URL that fails raises
            nothing: its row has the error.
    """
    folder = open_folder(config.out)
    earlier = folder.read(result_name(partition.number))
    if earlier is not None:
        return PartResult.from_json(earlier)
    pieces = _find_pieces(folder, partition.number, config.format)
    part = _Part(config, partition, folder, is_wanted, stop or StopRequest(), on_lull, pieces)
    result = part.fetch()
    if not result.is_early:
        with folder.write(result_name(partition.number)) as stream:
            stream.write(result.to_json())
    return result


def _find_pieces(folder: OutputFolder, number: int, format: Format) -> list[PartResult]:
    """Return the results of the parts of a partition that ended early."""
    found: list[PartResult] = []
    while (text := folder.read(early_result_name(number, len(found)))) is not None:
        if not folder.exists(part_name(number, format, len(found))):
            folder.remove(early_result_name(number, len(found)))  # killed before the part appeared
            break
        found.append(PartResult.from_json(text))
    return found


class _Part:
    def __init__(
        self,
        config: WorkerConfig,
        partition: Partition,
        folder: OutputFolder,
        is_wanted: Callable[[], bool],
        stop: StopRequest,
        on_lull: Callable[[], object],
        pieces: list[PartResult],
    ) -> None:
        self._stop = stop
        self._on_lull = on_lull
        self._has_lull = False
        self._scheduler: MapScheduler
        self._pieces = pieces
        self._config = config
        self._partition = partition
        self._folder = folder
        self._is_wanted = is_wanted
        self._result = PartResult(number=partition.number, digest=partition.digest)
        self._invalid: list[FetchRow] = []
        self._streams = False

    def fetch(self) -> PartResult:
        """Fetch all URLs that no earlier part has, and write the part."""
        config, number = self._config, self._partition.number
        started, piece = time.monotonic(), len(self._pieces)
        try:
            with self._folder.write(part_name(number, config.format, piece)) as stream:
                # Close the writer before the stream even after an error: it writes a footer.
                writer = _open_writer(config.format, stream)
                with open_client(config) as client, closing(writer):
                    for outcomes in self._fetch_batches(client):
                        self._check_wanted()  # also if all URLs are invalid
                        self._write(writer, outcomes)
                if self._stop.is_set:
                    result = self._make_result(started)
                    if not result.rows:
                        raise _NoRows
                    with self._folder.write(early_result_name(number, piece)) as early:
                        early.write(result.to_json())
        except _NoRows:
            return self._make_result(started)
        result = self._make_result(started)
        if result.is_early:
            return result
        if config.pause and self._result.rows:
            time.sleep(config.pause)
            result = self._make_result(started)
        return result.merge(self._pieces)

    def _make_result(self, started: float) -> PartResult:
        return self._result.end(time.monotonic() - started, is_early=self._stop.is_set)

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise PartitionCancelled(f"partition {self._partition.number} was cancelled")

    def _fetch_batches(self, client: Client) -> Iterator[list[_Outcome]]:
        """Yield outcomes in batches, because writing rows in a tight loop takes half the time."""
        batch: list[_Outcome] = []
        size = 0
        self._streams = _WITH_BODIES.isdisjoint(client._chain.settings)
        send = partial(receive_bodies, client) if self._streams else client.map
        requests = self._build_requests(client)
        with send(requests, concurrency=self._config.concurrency) as outcomes:
            self._scheduler = outcomes._scheduler
            while (outcome := self._stop.next_outcome(outcomes)) is not None:
                self._check_wanted()
                self._note_lull()
                batch.append((outcome, time.time_ns()))
                if isinstance(outcome, Response):
                    size += len(
                        outcome.content if (file := get_body_file(outcome)) is None else file
                    )
                if len(batch) >= _MAX_ROWS or size >= _MAX_BYTES:
                    yield batch
                    batch, size = [], 0
        yield batch

    def _note_lull(self) -> None:
        if not self._has_lull and self._scheduler.has_lull:
            self._has_lull = True
            self._on_lull()

    def _write(self, writer: _RowWriter, outcomes: list[_Outcome]) -> None:
        rows = [self._make_row(outcome, at // 1_000_000) for outcome, at in outcomes]
        rows += self._invalid
        self._invalid.clear()
        files = [row.body for row in rows if isinstance(row.body, BodyFile)]
        try:
            for row in rows:
                self._store_body(row)
            self._result.add(rows)
            writer.add(rows)
        finally:
            for file in files:
                file.close()

    def _make_row(self, outcome: Response | RequestException, at: int) -> FetchRow:
        request = outcome.request
        assert request is not None
        assert request.extensions is not None
        number, url, host, known = request.extensions[_KEY]
        file = get_body_file(outcome)
        # A large body that is not stored is not there.
        as_text = self._config.as_text and (file is None or self._config.bodies)
        row = FetchRow.from_outcome(number, url, host, outcome, at, as_text=as_text, file=file)
        if known is not None and row.status == NOT_MODIFIED:
            validators, requested = known
            if (row.final_url or requested) == requested:  # otherwise they are of another URL
                row.set_unchanged(validators)
        return row

    def _build_requests(self, client: Client) -> Iterator[ClientRequest]:
        done = self._read_done_rows()
        for row, url, *known in self._partition.source.read():
            if row in done:
                continue
            text = url if isinstance(url, str) else url.decode("utf-8", "replace")
            try:
                request = client.build_request("GET", _complete(url, text))
            except (RequestException, ValueError, TypeError) as error:
                self._invalid.append(FetchRow.from_error(row, text, error))
                continue
            is_conditional = known and add_conditions(request, known[0])
            condition = (known[0], str(request.url)) if is_conditional else None
            request._extend(_KEY, (row, text, request.url.host, condition))
            if self._streams:
                set_receiver(request, BodyReceiver(self._make_body_file), stream=IF_LARGE)
            # A separate cookie jar for each request, so that cookies of thousands of URLs neither
            # mix nor pile up.
            request.jar = LazyCookieJar()
            yield request
        self._note_lull()  # of slow hosts alone, whose first outcome may take long

    def _read_done_rows(self) -> set[int]:
        """Return the rows that earlier parts have."""
        number, format = self._partition.number, self._config.format
        done: set[int] = set()
        for piece in range(len(self._pieces)):
            with open_input_file(self._folder.path(part_name(number, format, piece))) as stream:
                done.update(read_row_numbers(stream, format))
        return done

    @property
    def _inline(self) -> int | None:
        """Return the maximum size of a body in its row, or None for no limit."""
        return None if is_warc(self._config.format) else self._config.inline

    def _make_body_file(self) -> BodyFile:
        if not self._config.bodies:
            return discard_large_body()
        return self._folder.make_body_file(is_stored=self._inline is not None)

    def _store_body(self, row: FetchRow) -> None:
        """Write a body to a file if it is too large for its row."""
        body, inline = row.body, self._inline
        if body is None:
            return
        if not self._config.bodies:
            row.body = None
        elif inline is not None and len(body) > inline:
            digest = body.hexdigest() if isinstance(body, BodyFile) else sha256(body).hexdigest()
            row.body, row.body_file = None, f"bodies/{digest[:2]}/{digest}"
            if self._folder.exists(row.body_file):
                return
            if isinstance(body, BodyFile):
                self._folder.store(body, row.body_file)
            else:
                with self._folder.write(row.body_file) as stream:
                    stream.write(body)
        elif isinstance(body, BodyFile) and len(body) <= MAX_IN_MEMORY:  # as text
            row.body = body.read()


def _complete(url: str | bytes, text: str) -> str | bytes:
    """Return a URL with a scheme. Invalid UTF-8 stays as it is, because it is an error."""
    return url if "://" in text or "\ufffd" in text else complete_url(text)


class _RowWriter(Protocol):
    def add(self, rows: list[FetchRow]) -> None: ...

    def close(self) -> None: ...


def _open_writer(format: Format, stream: BinaryIO) -> _RowWriter:
    """Return a writer of rows. Closing it leaves the stream open.

    Raises:
        ImportError: the format needs pyarrow.
    """
    if format == "parquet":
        from curlhttp.distributed.parquet import ParquetWriter

        return ParquetWriter(stream)
    if is_warc(format):
        return _WarcWriter(stream, is_compressed=find_coding(format) is not None)
    return _LineWriter(stream, find_coding(format))


_MEMBER = 1 << 20  # bytes of lines that are written at once, compressed ones as a member
_BEGIN = 100  # bytes of a line, which have the number of the row
_BLOCK_SIZE = 1 << 18  # bytes of the rest


class _LineWriter:
    """Write lines of JSON, compressed ones in members of gzip or frames of zstd."""

    def __init__(self, stream: BinaryIO, coding: Coding | None) -> None:
        self._stream = stream
        self._coding = coding
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, rows: list[FetchRow]) -> None:
        for row in rows:
            if isinstance(row.body, BodyFile):
                self._stream.writelines(compress_pieces(row.json_pieces(), self._coding))
                continue
            self._lines.append(row.to_json())
            self._size += len(self._lines[-1])
        if self._size >= _MEMBER:
            self.close()

    def close(self) -> None:
        self._stream.write(compress_member(b"".join(self._lines), self._coding))
        self._lines, self._size = [], 0


class _WarcWriter:
    """Write WARC records: of each response, and of the columns of each row."""

    def __init__(self, stream: BinaryIO, *, is_compressed: bool) -> None:
        self._stream = stream
        self._is_compressed = is_compressed
        self._write([make_info(format_time(time.time_ns() // 1_000_000))])

    def _write(self, records: list[Record]) -> None:
        self._stream.writelines(join_records(records, is_compressed=self._is_compressed))

    def add(self, rows: list[FetchRow]) -> None:
        for row in rows:
            body, row.body = row.body, None
            self._write(
                make_records(
                    url=row.final_url or row.url,
                    date=format_time(row.fetched_at),
                    status=row.status,
                    fields=[(name, value) for name, value, _ in row.fields],
                    body=body,
                    metadata=row.to_json().rstrip(),
                )
            )

    def close(self) -> None:
        pass


_match_row = re.compile(rb'\{"row": (\d+), ').match


def read_row_numbers(stream: BinaryIO, format: Format) -> Iterator[int]:
    """Yield the numbers of the rows in a part.

    Args:
        stream: the part, which is complete.
        format: of the part.
    """
    if format == "parquet":
        from curlhttp.distributed.parquet import read_row_column

        yield from read_row_column(stream)
        return
    for text in _read_begins(stream, format):
        match = _match_row(text)
        assert match is not None
        yield int(match[1])


def _read_begins(stream: BinaryIO, format: Format) -> Iterator[bytes]:
    """Yield the columns of each row as JSON, or the begin of that."""
    if is_warc(format):
        yield from (text for text, _ in read_json(stream, format))
        return
    lines = decompress(stream) or stream
    while line := lines.readline(_BEGIN):
        yield line
        while line and not line.endswith(b"\n"):
            line = lines.readline(_BLOCK_SIZE)


# --- the arguments of Client ---


def pickle_settings(settings: Mapping[str, object]) -> bytes:
    """Pickle the arguments of Client for workers.

    A circuit breaker or retry budget is pickled as its arguments, so each worker counts separately.

    Raises:
        TypeError: an argument cannot be sent to another process.
    """
    try:
        return _dump(dict(settings))
    except Exception:
        for name, value in settings.items():
            try:
                _dump(value)
            except Exception as error:
                raise TypeError(
                    f"{name} cannot be sent to workers ({error}): functions must be defined at the "
                    "top level of a module, and objects must be picklable"
                ) from None
        raise


def _dump(value: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # Any: as in the base class
        """Pickle a policy that has a lock as a call of its class."""
        from curlhttp._features.breaker.breaker import CircuitBreaker
        from curlhttp._features.retry.policy import RetryBudget

        if isinstance(value, (CircuitBreaker, RetryBudget)):
            create: Callable[..., object] = type(value)
            return partial(create, **_get_arguments(value)), ()
        return NotImplemented


def _get_arguments(policy: object) -> dict[str, object]:
    """Return the arguments that a policy was created with."""
    from curlhttp._features.breaker.breaker import MemoryStore

    rules, store = getattr(policy, "_config", None), getattr(policy, "_store", None)
    arguments = {
        name: getattr(holder, name)
        for name in signature(type(policy)).parameters
        for holder in (policy, rules)
        if hasattr(holder, name)
    }
    if isinstance(store, MemoryStore):
        arguments["max_origins"] = store.max_origins
    elif store is not None:
        arguments["store"] = store
    return arguments


def describe_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Describe the arguments for the manifest, which detects changes. Credentials are left out."""
    return {
        name: _describe(value, name)
        for name, value in sorted(settings.items())
        if name not in _CREDENTIALS
    }


def _describe(value: object, name: str = "") -> str:
    if name and is_secret_header(name):
        return "[secret]"
    if isinstance(value, str):
        return repr(redact_text(strip_userinfo(value)))
    if isinstance(value, bytes):
        return f"bytes {sha256(value).hexdigest()[:16]}"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = [f"{key}: {_describe(item, str(key))}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_describe, value))) + "}"
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], str):  # this may be a header
            return f"({value[0]!r}, {_describe(value[1], value[0])})"
        return "[" + ", ".join(map(_describe, value)) + "]"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return _describe_object(value)


def _describe_object(value: object) -> str:
    kind = type(value).__qualname__
    if is_dataclass(value):
        pairs = [
            f"{item.name}={_describe(getattr(value, item.name), item.name)}"
            for item in fields(value)
        ]
        return f"{kind}({', '.join(pairs)})"
    text = repr(value)
    return kind if " at 0x" in text else text
