"""Give each process of the whole suite its own files, because collecting a file twice costs much.

pytest-xdist has each process collect all files, which took a quarter of the time of the suite.
Which process gets a file depends on how long its tests take (seconds.json, which
`pytest --note-seconds` writes), so that all processes end together.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import EachScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

PROCESSES = 8  # on two cores, because much of it waits
PROCESSES_OF_SLOW = 6  # which wait less
NOT_SLOW = "not slow"  # other tests have other times

_TESTS = Path(__file__).parents[1]
_SECONDS = Path(__file__).with_name("seconds.json")
_UNLISTED = 0.1  # seconds


class Shards:
    """A plugin of the controlling process: it gives out the files and tells what happens.

    Args:
        config: of the session.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shards = split(list(_seconds_by_file().items()), PROCESSES)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        config.option.maxworkerrestart = "0"  # another process would not know whose files it has

    def pytest_sessionstart(self) -> None:
        """Say what happens before there is something to see."""
        minutes = ceil(sum(_seconds_by_file().values()) / PROCESSES / 60)  # they start, too
        self.write(
            f"{PROCESSES} processes import {sum(map(len, self._shards))} files of tests, and run "
            f"them for about {minutes} minutes on two quiet cores; `tests/test_smoke.py` "
            "has a few"
        )

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a process its files."""
        node.workerinput["files"] = self._shards[int(node.gateway.id[2:])]

    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> _OwnFiles:
        """Return a scheduler for processes with different tests."""
        return _OwnFiles(config, self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add to the seconds of a file."""
        self._seconds[report.nodeid.split("::")[0].removeprefix("tests/")] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write how long the files took, if that is asked for."""
        if self._config.getoption("note_seconds"):
            seconds = {name: round(each, 1) for name, each in sorted(self._seconds.items())}
            listed = {name: each for name, each in seconds.items() if each > _UNLISTED}
            _SECONDS.write_text(json.dumps(listed, indent=0) + "\n")

    def write(self, text: str) -> None:
        """Show a line, also with -q."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(text)


class _OwnFiles(EachScheduling):  # type: ignore[misc]  # xdist has no types
    """Have each process run all that it has collected."""

    def __init__(self, config: pytest.Config, shards: Shards) -> None:
        super().__init__(config)
        self._shards = shards
        self._session = config.pluginmanager.get_plugin("session")

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Note what a process has collected; the sum is what percentages are of."""
        super().add_node_collection(node, collection)
        tests = sum(map(len, self.node2collection.values()))
        assert self._session is not None
        self._session.testscollected = tests
        if self.collection_is_completed:
            self._shards.write(f"{tests:,} tests")


class FewReports:
    """A plugin of a process: of a test that passes it sends one report, not five messages.

    Sending and receiving those of 20,000 tests took a tenth of the time of the suite.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, and report its call and what did not pass."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def mix(items: list[pytest.Item]) -> None:
    """Put the files of a process in another order than that of their names.

    All processes run through the folders side by side otherwise, and while they are in one whose
    tests wait, no core has work.
    """
    items.sort(key=lambda item: crc32(item.nodeid.partition("::")[0].encode()))


def is_process(config: pytest.Config) -> bool:
    """Return whether this is a process of the whole suite, with files of its own."""
    return _files(config) is not None


def is_of_another(path: Path, config: pytest.Config) -> bool | None:
    """Return True for a file of tests that another process runs, else None."""
    files = _files(config)
    if files is None or path.suffix != ".py" or not path.name.startswith("test_"):
        return None
    return True if _name(path) not in files else None


def _files(config: pytest.Config) -> list[str] | None:
    files: list[str] | None = getattr(config, "workerinput", {}).get("files")
    return files


def split(seconds: list[tuple[str, float]], processes: int) -> list[list[str]]:
    """Return the files of each process: the longest first, each to the one with the least."""
    files: list[list[str]] = [[] for _ in range(processes)]
    sums = [0.0] * processes
    for name, each in sorted(seconds, key=lambda file: (-file[1], file[0])):
        least = sums.index(min(sums))
        files[least].append(name)
        sums[least] += each
    return files


def _seconds_by_file() -> dict[str, float]:
    known = json.loads(_SECONDS.read_text())
    return {name: known.get(name, _UNLISTED) for name in map(_name, _TESTS.rglob("test_*.py"))}


def _name(path: Path) -> str:
    return path.relative_to(_TESTS).as_posix()
