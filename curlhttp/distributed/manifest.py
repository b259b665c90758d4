"""The manifest: the configuration of a fetch, and the results of the partitions that are done.

manifest/fetch.json is the configuration. manifest/00000000.json is the result of partition 0, which
its worker writes after the part, and manifest/00000000-0.json that of its first part, if it ended
early. Only one driver at a time may use a folder: it holds a lock on manifest/lock. Object stores
have no locks, so the driver refreshes manifest/driver.json there.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from curlhttp._features.fetch.formats import MANIFEST, Format
from curlhttp._features.fetch.storage import OutputFolder
from curlhttp._features.file_lock import lock_file
from curlhttp.distributed.summary import PartResult

_VERSION = 1
_SUMMARY = "manifest/summary.json"
_HEARTBEAT = "manifest/driver.json"
_HEARTBEAT_INTERVAL = 15.0  # seconds
_HEARTBEAT_TIMEOUT = 60.0  # seconds without a heartbeat until a driver counts as dead
_is_result = re.compile(r"(\d{8,})\.json").fullmatch
_is_early_result = re.compile(r"(\d{8,})-(\d+)\.json").fullmatch


def part_name(number: int, format: Format, piece: int = 0) -> str:
    """Return the name of a part of a partition.

    Args:
        number: the number of the partition.
        format: the format of the part.
        piece: how many parts the partition has already, because it ended early.
    """
    return f"parts/part-{number:08}{f'-{piece}' if piece else ''}.{format}"


def early_result_name(number: int, piece: int) -> str:
    """Return the name of the file with the result of a part that ended early.

    Args:
        number: the number of the partition.
        piece: see part_name.
    """
    return f"manifest/{number:08}-{piece}.json"


def result_name(number: int) -> str:
    """Return the name of the file with the result of a partition."""
    return f"manifest/{number:08}.json"


def partition_file_name(number: int) -> str:
    """Return the name of the file with the URLs of a partition."""
    return f"input/{number:08}.jsonl"


@dataclass(frozen=True, slots=True)
class JobConfig:
    """The arguments of fetch() that must be the same when the fetch is resumed.

    Args:
        format: the format of the parts.
        partition: the maximum number of rows in a partition.
        host_queues: the number of host queues, or 0 if URLs are not grouped by host.
        inline: see WorkerConfig.
        bodies: see WorkerConfig.
        settings: descriptions of the other arguments by name, without credentials.
        text: see fetch().
        dedup: see fetch().
        since: whether there is one.
    """

    format: Format
    partition: int
    host_queues: int
    inline: int | None
    bodies: bool
    settings: dict[str, str] = field(default_factory=dict)
    text: bool = False
    dedup: bool = False
    since: bool = False

    def changes(self, earlier: JobConfig) -> list[str]:
        """Return the names of the arguments that differ from those of an earlier call."""
        names = [name for name in ("format", "partition", "inline", "bodies", "text", "dedup",
                              "since")
                 if getattr(self, name) != getattr(earlier, name)]  # fmt: skip
        new, old = self.settings, earlier.settings
        return names + [name for name in sorted(new | old) if new.get(name) != old.get(name)]


class Manifest:
    """Read and write the manifest of a fetch.

    Args:
        folder: the folder of the fetch.
    """

    def __init__(self, folder: OutputFolder) -> None:
        self._folder = folder

    def start(self, config: JobConfig) -> JobConfig:
        """Write the configuration, or return the one that the first call wrote.

        Args:
            config: the configuration of this call.

        Raises:
            ValueError: the arguments differ from those of the first call, or the folder has
                something else.
            OSError: the folder cannot be written to.
        """
        text = self._folder.read(MANIFEST)
        if text is None:
            if any(True for _ in self._folder.names("parts")):
                raise ValueError(f"{self._folder.path('')} has parts, but no manifest of a fetch")
            with self._folder.write(MANIFEST) as stream:
                stream.write(json.dumps({"version": _VERSION, **asdict(config)}, indent=1).encode())
            return config
        earlier = self._parse_config(text)
        changed = config.changes(earlier)
        if changed:
            raise ValueError(
                f"the fetch in {self._folder.path('')} was started with other settings: "
                f"{', '.join(changed)}; pass the same settings, or another folder"
            )
        if config.host_queues and not earlier.host_queues:
            raise ValueError(
                f"the fetch in {self._folder.path('')} was started without per_host and rate, so "
                "its partitions are not grouped by host; pass a store, or another folder"
            )
        return earlier

    def _parse_config(self, text: bytes) -> JobConfig:
        try:
            fields = json.loads(text)
            version = fields.pop("version")
            config = JobConfig(**fields)
        except (ValueError, TypeError, KeyError, AttributeError):
            path = self._folder.path(MANIFEST)
            raise ValueError(f"{path} is not the manifest of a fetch") from None
        if version != _VERSION:
            raise ValueError(
                f"{self._folder.path(MANIFEST)} has version {version}, but only version {_VERSION} "
                "is supported"
            )
        return config

    def results(self) -> Iterator[PartResult]:
        """Yield the results of the partitions that are done.

        Raises:
            ValueError: a result cannot be read.
        """
        names = [name for name in self._folder.names("manifest") if _is_result(name)]
        for name, text in self._folder.read_all("manifest", sorted(names)):
            try:
                yield PartResult.from_json(text)
            except ValueError as error:
                raise ValueError(f"{self._folder.path(f'manifest/{name}')}: {error}") from None

    def count_early_results(self) -> int:
        """Return the number of parts that ended early, in partitions that are not done."""
        names = {*self._folder.names("manifest")}
        early = filter(None, map(_is_early_result, names))
        return sum(1 for match in early if f"{match[1]}.json" not in names)

    def finish(self, summary: dict[str, object]) -> None:
        """Write the summary, and remove the partition files and temporary files.

        Args:
            summary: the summary of the whole fetch.
        """
        with self._folder.write(_SUMMARY) as stream:
            stream.write(json.dumps(summary, indent=1).encode())
        for name in list(self._folder.names("input")):
            self._folder.remove(f"input/{name}")
        self._folder.remove_temporary()


@contextmanager
def lock_folder(folder: OutputFolder) -> Iterator[None]:
    """Lock a folder against other drivers.

    Args:
        folder: the folder of the fetch.

    Raises:
        BlockingIOError: another driver is using the folder.
    """
    if folder.is_remote:
        with _heartbeat(folder):
            yield
        return
    path = Path(folder.path("manifest/lock"))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            lock_file(descriptor)
        except BlockingIOError:
            raise _make_in_use_error(folder, "") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _heartbeat(folder: OutputFolder) -> Iterator[None]:
    age = _get_heartbeat_age(folder)
    if age < _HEARTBEAT_TIMEOUT:
        times = f"{age:.0f} s ago, and it counts as dead after {_HEARTBEAT_TIMEOUT:g} s"
        raise _make_in_use_error(folder, f"; its last heartbeat was {times}")
    stopped = threading.Event()

    def refresh() -> None:
        while not stopped.wait(_HEARTBEAT_INTERVAL):
            with suppress(OSError):  # the next write may succeed
                _write_heartbeat(folder)

    _write_heartbeat(folder)
    thread = threading.Thread(target=refresh, name="curlhttp-driver", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        folder.remove(_HEARTBEAT)


def _write_heartbeat(folder: OutputFolder) -> None:
    with folder.write(_HEARTBEAT) as stream:
        stream.write(json.dumps({"time": time.time()}).encode())


def _get_heartbeat_age(folder: OutputFolder) -> float:
    text = folder.read(_HEARTBEAT)
    try:
        return (
            _HEARTBEAT_TIMEOUT if text is None else max(0.0, time.time() - json.loads(text)["time"])
        )
    except (ValueError, KeyError, TypeError):
        return _HEARTBEAT_TIMEOUT


def _make_in_use_error(folder: OutputFolder, details: str) -> BlockingIOError:
    return BlockingIOError(f"another driver is fetching to {folder.path('')}{details}")
