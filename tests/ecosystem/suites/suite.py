"""What is known of the test suite of one package: where it is, how it runs, what may differ."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.ecosystem.suites import catalog


@dataclass(frozen=True)
class Suite:
    """The test suite of a package, from its sdist.

    Attributes:
        sdist: name and version on PyPI, "docker==7.1.0".
        requires: what pip installs besides the package and pytest.
        installs_requirements: whether pip installs what the package requires; if not, what it needs
            is in `requires`.
        tests: files and folders for pytest, relative to the sdist's folder.
        options: more arguments for pytest, such as "--deselect=...".
        asks: the tests send requests to this name of the internet, which is on loopback for them:
            httpbin.org or api.github.com.
        replaces: the library that curlhttp stands in for, or the package that a port in
            examples/backends gives a backend: a folder in plugins/.
        environment: variables for both runs.
        prepare: is called once with the unpacked folder, before the first run.
        differences: tests that pass with the original library and not with curlhttp: a pattern of
            fnmatch for the test's id, and the reason.
        is_in_ci: `.ci/run` runs it.
    """

    sdist: str
    requires: tuple[str, ...] = ()
    installs_requirements: bool = True
    tests: tuple[str, ...] = ("tests",)
    options: tuple[str, ...] = ()
    asks: str = ""
    replaces: str = "requests"
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None
    differences: Mapping[str, str] = field(default_factory=dict)
    is_in_ci: bool = False


def names() -> list[str]:
    """Return the names of all suites."""
    return sorted(module.name for module in pkgutil.iter_modules(catalog.__path__))


def load(name: str) -> Suite:
    """Return the suite of a module in the catalog."""
    suite = importlib.import_module(f"{catalog.__name__}.{name}").SUITE
    assert isinstance(suite, Suite)
    return suite
