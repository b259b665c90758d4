"""All features at once, with names that are looked up well, badly or not at all."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.day2.all_features import PROGRAMS
from tests.day2.test_names import may_mount, unshare


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("features")
    if not may_mount(folder, "--net"):
        pytest.skip("needs a network and a mount namespace, for a name server of its own")
    program = [sys.executable, "-m", "tests.day2.all_features", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*unshare, "--net", *program], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_features_at_once_end_in_responses_or_clear_errors(
    written: dict[str, str], program: str
) -> None:
    if program == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    assert written[program] == ""
