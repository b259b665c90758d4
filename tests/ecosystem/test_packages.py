"""Packages from PyPI that are made for requests do their work on the drop-in.

Each runs in its own process, because `import requests` must mean curlhttp from the start. By
hand: `python -m tests.ecosystem.run github`; `--module requests` compares with real requests.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
TOGETHER = 2
SCENARIOS = sorted(
    path.stem for path in Path(__file__).with_name("scenarios").glob("[!_]*.py") if path.stem
)
MODULES = {
    "azure_core": "azure.core",
    "google_auth": "google.auth.transport.requests",
    "google_resumable_media": "google.resumable_media.requests",
    "opentelemetry_requests": "opentelemetry.instrumentation.requests",
}

Finished = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def finished(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Finished]]:
    """Start the scenarios of all selected tests, a few at a time; return what waits for one."""
    module = request.config.getoption("--module", default="curlhttp.requests")

    def run(name: str) -> Finished:
        command = [sys.executable, "-m", "tests.ecosystem.run", name, "--module", module]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)

    runs: dict[str, Future[Finished]] = {}
    with ThreadPoolExecutor(TOGETHER) as pool:
        for item in request.session.items:
            call: Any = getattr(item, "callspec", None)
            if item.path == Path(__file__) and call and is_installed(call.params["package"]):
                name = call.params["package"]
                runs[name] = pool.submit(run, name)
        yield lambda name: runs[name].result()
        for future in runs.values():
            future.cancel()


def is_installed(name: str) -> bool:
    """Return whether the package of a scenario can be imported."""
    module = MODULES.get(name, name)
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a parent package
        return False


@pytest.mark.parametrize("package", SCENARIOS)
def test_a_package_does_its_work(package: str, finished: Callable[[str], Finished]) -> None:
    if not is_installed(package):
        pytest.skip(f"{MODULES.get(package, package)} is not installed (group 'ecosystem')")
    result = finished(package)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("OK\n")


def test_a_failed_scenario_is_reported_by_name() -> None:
    command = [sys.executable, "-c", _FAILING]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.endswith("1 failed: goes_wrong\n")
    assert "past curlhttp" in result.stdout


_FAILING = """
import http.client, sys, types
from tests.ecosystem import run

name = "tests.ecosystem.scenarios.made_up"
scenario = sys.modules[name] = types.ModuleType(name)

def goes_wrong(app):
    http.client.HTTPConnection("127.0.0.1", app.port).request("GET", "/")

def goes_well(app):
    pass

for check in (goes_wrong, goes_well):
    check.__module__ = name
    setattr(scenario, check.__name__, check)
run._use_curlhttp = lambda: None
sys.argv = ["run", "made_up"]
sys.exit(run.main())
"""
