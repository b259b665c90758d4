"""The fuzzer and the storm, a few seconds of each; tests/README.md says how to run them longer.

Each run is a separate process: what hangs ends it, and what it leaves over is counted in it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(module: str, *arguments: object) -> None:
    """Run a module; what it found is what the failure shows."""
    command = [sys.executable, "-W", "error", "-m", module, *map(str, arguments)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
    assert ended.returncode == 0, f"{ended.stderr[-20_000:]}\n{' '.join(command)}"


def test_the_fuzzer_finds_nothing() -> None:
    run("tests.fuzz", "--seed", 12, "--cases", 150)


def test_the_storm_finds_nothing() -> None:
    run("tests.storm", "--seed", 12, "--requests", 120)


@pytest.mark.slow
def test_a_long_fuzzer_run_finds_nothing() -> None:
    run("tests.fuzz", "--seed", 21, "--cases", 10_000)


@pytest.mark.slow
def test_a_long_storm_finds_nothing() -> None:
    run("tests.storm", "--seed", 21, "--requests", 15_000)
