"""What examples/service.py prints: a service whose upstream fails, from its clients' side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("starlette")


def test_the_service_example_answers_for_its_upstream() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "examples/service.py"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "healthy           200 {'hello': 'Ada', 'attempts': 1}",
        "20 at once        20 answers",
        "fails twice       200 {'hello': 'Ada', 'attempts': 3}",
        "too slow          504 {'error': 'the upstream is too slow'}",
        "down              502 {'error': 'the upstream failed'}",
        "still down        503 {'error': 'the upstream is down'}, come back in 1 s",
        "breaker is open   503 {'error': 'the upstream is down'}, come back in 1 s",
        "                  0 requests reached the upstream",
        "healthy again     200 {'hello': 'Ada', 'attempts': 1}",
    ]
