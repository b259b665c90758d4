"""Run a package's own test suite twice, on the original library and on curlhttp, and compare."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.ecosystem.suites.suite import Suite

_CLONE = Path(__file__).parents[3]
_PLUGINS = Path(__file__).with_name("plugins")
_BACKENDS = _CLONE / "examples/backends"
_LOOPBACK = Path(__file__).with_name("loopback.py")
# Of the machine: no suite may depend on them.
_VARIABLES = ("CURL_CA_BUNDLE", "NETRC", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE")

_INTERNET = ("httpbin~=0.10.0", "trustme", "werkzeug")

Outcomes = dict[str, str]  # of a test's id: passed, failed or skipped


def can_isolate() -> bool:
    """Return whether suites can run here: on Linux, and with leave to make a network namespace."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(isolated("true"), stderr=subprocess.DEVNULL).returncode == 0


def isolated(*command: str | Path, names: str = "") -> tuple[str | Path, ...]:
    """Return a command that has no network but loopback, and names of the internet on it.

    Some suites ask servers on the internet: those tests fail in both runs.
    """
    rights = () if os.geteuid() == 0 else ("--map-root-user",)
    return (
        "unshare",
        "--net",
        "--mount",
        *rights,
        sys.executable,
        "-I",
        _LOOPBACK,
        names,
        *command,
    )


@dataclass(frozen=True)
class Comparison:
    """What both runs of a suite gave."""

    suite: Suite
    original: Outcomes
    ours: Outcomes

    @property
    def lost(self) -> list[str]:
        """Return the tests that pass with the original alone."""
        return [
            test
            for test, outcome in self.original.items()
            if outcome == "passed" and self.ours.get(test) != "passed"
        ]

    @property
    def gained(self) -> list[str]:
        """Return the tests that pass with curlhttp alone."""
        return [
            test
            for test, outcome in self.ours.items()
            if outcome == "passed" and self.original.get(test) == "failed"
        ]

    @property
    def unexplained(self) -> list[str]:
        """Return the lost tests for which the suite gives no reason."""
        return [test for test in self.lost if self.reason(test) is None]

    def reason(self, test: str) -> str | None:
        """Return why a test may differ, or None."""
        for pattern, reason in self.suite.differences.items():
            # Brackets are of a test's parameters.
            if fnmatchcase(test, pattern.replace("[", "[[]")):
                return reason
        return None


class SuiteRunner:
    """Install a suite in its own virtual environment, and run it.

    Args:
        name: of the suite.
        suite: what is known of it.
        folder: for virtual environments and sources; what is there is used again.
        keeps_original: use the last outcomes with the original library again, if there are some.
    """

    def __init__(
        self, name: str, suite: Suite, folder: Path, *, keeps_original: bool = False
    ) -> None:
        self._suite = suite
        self._keeps_original = keeps_original
        self._folder = folder.absolute() / name
        self._python = self._folder / "venv/bin/python"

    def compare(self) -> Comparison:
        """Run the suite on both libraries. Tests lost at first run once more on their own."""
        self._install()
        kept = _read(self._outcomes("original")) if self._keeps_original else {}
        original = kept or self._run("original")
        ours = self._run(self._suite.replaces)
        first = Comparison(self._suite, original, ours)
        if 0 < len(first.unexplained) <= 50 and ours:  # a server that was slow once is no news
            again = self._run(self._suite.replaces, first.unexplained)
            ours = {**ours, **again}
        return Comparison(self._suite, original, ours)

    def _install(self) -> None:
        requires = (*self._suite.requires, *(_INTERNET if self._suite.asks else ()))
        wanted = repr((self._suite.sdist, requires, sys.version, str(_CLONE)))
        made_for = self._folder / "made-for"
        if made_for.exists() and made_for.read_text() == wanted:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        (self._folder / "pytest.ini").touch()  # else pytest reads what it finds further up
        _call(sys.executable, "-m", "venv", self._folder / "venv")
        self._unpack()
        requirements = ("pytest", "pytest-timeout", "requests>=2.34", *requires)
        alone = () if self._suite.installs_requirements else ("--no-deps",)
        _call(self._python, "-m", "pip", "install", "-q", *alone, self._suite.sdist)
        _call(self._python, "-m", "pip", "install", "-q", *requirements)
        _call(self._python, "-m", "pip", "install", "-q", "-e", f"{_CLONE}[httpx]")
        if self._suite.prepare is not None:
            self._suite.prepare(self._source)
        made_for.write_text(wanted)

    def _unpack(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            # ":all:" would build what the package is built with from source, too.
            name, _, _ = self._suite.sdist.partition("==")
            download = ("download", "-q", "--no-deps", "--no-binary", name, "-d", directory)
            _call(self._python, "-m", "pip", *download, self._suite.sdist)
            (archive,) = Path(directory).iterdir()
            if archive.suffix == ".zip":
                shutil.unpack_archive(archive, self._folder / "source")
            else:
                with tarfile.open(archive) as file:
                    file.extractall(self._folder / "source", filter="tar")

    @property
    def _source(self) -> Path:
        (source,) = (self._folder / "source").iterdir()
        return source

    def _run(self, library: str, only: list[str] | None = None) -> Outcomes:
        outcomes = self._outcomes(library if only is None else f"{library}-again")
        outcomes.unlink(missing_ok=True)
        tests = self._suite.tests if only is None else only
        pytest = (self._python, "-m", "pytest", *self._options(), *tests)
        with outcomes.with_suffix(".log").open("w") as log:
            subprocess.run(
                isolated(*pytest, names=self._suite.asks),
                cwd=self._source,
                env=self._environment(library, outcomes),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if not outcomes.exists():
            raise RuntimeError(f"pytest did not start: {outcomes.with_suffix('.log')}")
        return _read(outcomes)

    def _options(self) -> list[str]:
        options = ["-q", "-ra", "--timeout=120", "--rootdir=.", "-p", "suite_outcomes"]
        options += ["-p", "no:cacheprovider", "-p", "no:curlhttp"]
        if self._suite.asks:
            options += ["-p", "suite_internet"]
        return [*options, *self._suite.options]

    def _environment(self, library: str, outcomes: Path) -> dict[str, str]:
        paths = [_PLUGINS / "outcomes", self._source]
        if library != "original":
            paths = [_PLUGINS / library, _BACKENDS, *paths]
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in _VARIABLES and not name.lower().endswith("_proxy")
        }
        return {
            **kept,
            "PATH": f"{self._python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "SUITE_ASKS": self._suite.asks,
            "SUITE_OUTCOMES": str(outcomes),
            **self._suite.environment,
        }

    def _outcomes(self, run: str) -> Path:
        return self._folder / f"{run}.jsonl"


def _read(outcomes: Path) -> Outcomes:
    if not outcomes.exists():
        return {}
    return dict(json.loads(line) for line in outcomes.read_text().splitlines())


def _call(*command: str | Path) -> None:
    subprocess.run(command, check=True)
