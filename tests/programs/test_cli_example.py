"""examples/bulk_fetch.py does what it says, with both clients and from a shell."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.inner import ROOT

pytestmark = pytest.mark.slow


def test_the_bulk_fetch_example_tells_the_same_story_three_times() -> None:
    command = [sys.executable, "-W", "error", "examples/bulk_fetch.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "plain code  1599 x 200, 400 x 404, 1 x ChunkedEncodingError",
        "async code  1599 x 200, 400 x 404, 1 x ChunkedEncodingError",
        "in order    200 200 200 200 404 200 ChunkedEncodingError 200, and the rest is not fetched",
        "the shell   2,000 fetched, none recorded before",
        "the shell   0 fetched, 2,000 recorded before",
    ]
