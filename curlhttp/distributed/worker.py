"""The worker: fetch a partition, write its part, and then write its result to the manifest.

A killed worker leaves no incomplete file under a final name. A partition that runs again overwrites
its files, and a partition that is done is not fetched again.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from hashlib import sha256
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from curlhttp._models.cookies import LazyCookieJar
from curlhttp._models.redaction import is_secret_header, redact_text, strip_userinfo
from curlhttp._models.response import Response
from curlhttp._models.url import complete_url
from curlhttp.distributed.manifest import Format, part_name, result_name
from curlhttp.distributed.partition import Partition
from curlhttp.distributed.rows import FetchRow
from curlhttp.distributed.storage import OutputFolder, open_folder
from curlhttp.distributed.summary import PartCounters, PartResult
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._client.client import Client
    from curlhttp._models.request import ClientRequest

_KEY = "curlhttp.distributed"  # in a request's extensions
_MAX_ROWS = 64  # in a batch
_MAX_BYTES = 4 << 20  # of bodies in a batch, approximately
_MAX_RESPONSE_SIZE = 100 * 1024 * 1024  # bytes, unless max_response_size is given
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


class PartitionCancelled(Exception):
    """The partition was cancelled."""


@contextmanager
def open_client(config: WorkerConfig) -> Iterator[Client]:
    """Open a client with the settings of a fetch. A store shares its limits among workers.

    Args:
        config: the configuration of the worker.
    """
    from curlhttp._client.client import Client
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit

    settings = {
        "max_connections": config.concurrency,
        "max_response_size": _MAX_RESPONSE_SIZE,
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
    config: WorkerConfig, partition: Partition, is_wanted: Callable[[], bool] = lambda: True
) -> PartResult:
    """Fetch a partition, write its part, and return the result.

    This is a module-level function with picklable arguments, so that any engine can run it.

    Args:
        config: the configuration of the worker.
        partition: the partition.
        is_wanted: is called for each result and before rows are written, for engines that cannot
            stop a thread. If it returns False, the partition ends without a part.

    Raises:
        PartitionCancelled: is_wanted() returned False.
        OSError: the part cannot be written, or the URLs cannot be read. A URL that fails raises
            nothing: its row has the error.
    """
    folder = open_folder(config.out)
    earlier = folder.read(result_name(partition.number))
    if earlier is not None:
        return PartResult.from_json(earlier)
    result = _Part(config, partition, folder, is_wanted).fetch()
    with folder.write(result_name(partition.number)) as stream:
        stream.write(result.to_json())
    return result


class _Part:
    def __init__(
        self,
        config: WorkerConfig,
        partition: Partition,
        folder: OutputFolder,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._config = config
        self._partition = partition
        self._folder = folder
        self._is_wanted = is_wanted
        self._counters = PartCounters()
        self._invalid: list[FetchRow] = []

    def fetch(self) -> PartResult:
        """Fetch all URLs and write the part."""
        config, number = self._config, self._partition.number
        started = time.monotonic()
        with self._folder.write(part_name(number, config.format)) as stream:
            # Close the writer before the stream even after an error, because it writes a footer.
            writer = _open_writer(config.format, stream)
            with open_client(config) as client, closing(writer):
                for outcomes in self._fetch_batches(client):
                    self._check_wanted()  # also if all URLs are invalid
                    self._write(writer, outcomes)
        if config.pause and self._counters.rows:
            time.sleep(config.pause)
        seconds = time.monotonic() - started
        return self._counters.result(number, self._partition.digest, seconds)

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise PartitionCancelled(f"partition {self._partition.number} was cancelled")

    def _fetch_batches(self, client: Client) -> Iterator[list[_Outcome]]:
        """Yield outcomes in batches, because writing rows in a tight loop takes half the time."""
        batch: list[_Outcome] = []
        size = 0
        requests = self._build_requests(client)
        with client.map(requests, concurrency=self._config.concurrency) as outcomes:
            for outcome in outcomes:
                self._check_wanted()
                batch.append((outcome, time.time_ns()))
                if isinstance(outcome, Response):
                    size += len(outcome.content)
                if len(batch) >= _MAX_ROWS or size >= _MAX_BYTES:
                    yield batch
                    batch, size = [], 0
        yield batch

    def _write(self, writer: _RowWriter, outcomes: list[_Outcome]) -> None:
        rows = [_make_row(outcome, at // 1_000_000) for outcome, at in outcomes]
        rows += self._invalid
        self._invalid.clear()
        for row in rows:
            self._store_body(row)
        self._counters.add(rows)
        writer.add(rows)

    def _build_requests(self, client: Client) -> Iterator[ClientRequest]:
        for row, url in self._partition.source.read():
            text = url if isinstance(url, str) else url.decode("utf-8", "replace")
            try:
                request = client.build_request("GET", _complete(url, text))
            except (RequestException, ValueError, TypeError) as error:
                self._invalid.append(FetchRow.from_error(row, text, error))
                continue
            request.extensions = {_KEY: (row, text, request.url.host)}
            # A separate cookie jar for each request, so that cookies of thousands of URLs neither
            # mix nor pile up.
            request.jar = LazyCookieJar()
            yield request

    def _store_body(self, row: FetchRow) -> None:
        """Write a body to a file if it is too large for its row."""
        body, inline = row.body, self._config.inline
        if body is None:
            return
        if not self._config.bodies:
            row.body = None
        elif inline is not None and len(body) > inline:
            digest = sha256(body).hexdigest()
            row.body, row.body_file = None, f"bodies/{digest[:2]}/{digest}"
            if not self._folder.exists(row.body_file):
                with self._folder.write(row.body_file) as stream:
                    stream.write(body)


def _complete(url: str | bytes, text: str) -> str | bytes:
    """Return a URL with a scheme. Invalid UTF-8 stays as it is, because it is an error."""
    return url if "://" in text or "\ufffd" in text else complete_url(text)


def _make_row(outcome: Response | RequestException, at: int) -> FetchRow:
    request = outcome.request
    assert request is not None
    assert request.extensions is not None
    row, url, host = request.extensions[_KEY]
    return FetchRow.from_outcome(row, url, host, outcome, at)


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
    return _LineWriter(stream)


class _LineWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, rows: list[FetchRow]) -> None:
        self._stream.write(b"".join([row.to_json() for row in rows]))

    def close(self) -> None:
        pass


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
        from curlhttp._policy.breaker.breaker import CircuitBreaker
        from curlhttp._policy.retry import RetryBudget

        if isinstance(value, (CircuitBreaker, RetryBudget)):
            create: Callable[..., object] = type(value)
            return partial(create, **_get_arguments(value)), ()
        return NotImplemented


def _get_arguments(policy: object) -> dict[str, object]:
    """Return the arguments that a policy was created with."""
    from curlhttp._policy.breaker.breaker import MemoryStore

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
