"""The runner of packages' own test suites, on a suite that is made up: no network, no pip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ecosystem.suites.runner import SuiteRunner, can_isolate, isolated
from tests.ecosystem.suites.suite import Suite, load, names

_LIBRARY = """\
__version__ = "the original"
"""

_CONFTEST = """\
def pytest_addoption(parser):
    parser.addoption("--timeout")  # of pytest-timeout, which is not installed here
"""

_TESTS = """\
import pathlib, socket, pytest, requests

IS_OURS = requests.__version__ != "the original"


def test_both(): pass
def test_lost(): assert not IS_OURS
def test_expected(): assert not IS_OURS
def test_gained(): assert IS_OURS
def test_neither(): assert False


@pytest.mark.parametrize("value", ["a", "b"])
def test_of_values(value): assert not IS_OURS or value == "a"


def test_lost_once():
    if IS_OURS:
        seen = pathlib.Path("seen")
        assert seen.exists(), seen.touch()


@pytest.fixture
def breaks_at_the_end():
    yield
    assert not IS_OURS


def test_lost_at_the_end(breaks_at_the_end): pass


def test_skipped():
    if IS_OURS:
        pytest.skip("not on ours")


def test_loopback_is_all_there_is():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(OSError):
        sock.connect(("192.0.2.1", 9))  # no route
"""


class MadeUp(SuiteRunner):
    """Run a suite that needs no installation: what the tests run with has all of it."""

    def _install(self) -> None:
        source = self._folder / "source/made-up-1.0"
        if source.exists():
            return
        (source / "tests").mkdir(parents=True)
        (source / "requests.py").write_text(_LIBRARY)
        (source / "tests/conftest.py").write_text(_CONFTEST)
        (source / "tests/test_it.py").write_text(_TESTS)
        (self._folder / "venv").symlink_to(sys.prefix)


needs_namespaces = pytest.mark.skipif(
    not can_isolate(), reason="needs Linux, and leave to make a namespace"
)


@pytest.mark.slow
@needs_namespaces
def test_both_runs_of_a_suite_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    suite = Suite(
        "made-up==1.0",
        differences={"*::test_expected": "on purpose"},
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # some plugins import requests
    )
    seen = MadeUp("made_up", suite, tmp_path).compare()
    assert _short(seen.lost) == [
        "test_lost",
        "test_expected",
        "test_of_values[b]",
        "test_lost_at_the_end",
        "test_skipped",
    ]
    assert _short(seen.unexplained) == [name for name in _short(seen.lost) if "exp" not in name]
    assert _short(seen.gained) == ["test_gained"]
    assert seen.original["tests/test_it.py::test_neither"] == "failed"
    assert seen.ours["tests/test_it.py::test_neither"] == "failed"
    for outcomes in (seen.original, seen.ours):
        assert outcomes["tests/test_it.py::test_loopback_is_all_there_is"] == "passed"
    # What was kept is not run again.
    (tmp_path / "made_up/source/made-up-1.0/requests.py").write_text("raise SystemExit")
    again = MadeUp("made_up", suite, tmp_path, keeps_original=True).compare()
    assert again.original == seen.original


@pytest.mark.slow
@needs_namespaces
def test_names_of_the_internet_can_lie_on_loopback() -> None:
    script = "import socket; print(socket.gethostbyname('made-up.example'))"
    command = isolated(sys.executable, "-c", script, names="made-up.example other.example")
    assert subprocess.run(command, capture_output=True, text=True).stdout == "127.0.0.1\n"


def _short(tests: list[str]) -> list[str]:
    return [test.partition("::")[2] for test in tests]


@pytest.mark.parametrize("name", names())
def test_a_suite_of_the_catalog_has_one_version_and_reasons(name: str) -> None:
    suite = load(name)
    assert suite.sdist.count("==") == 1
    assert all(suite.differences.values())
