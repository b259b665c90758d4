"""Type checkers refuse wrong calls, and know the type of all that is public."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import curlhttp

ROOT = Path(curlhttp.__file__).parent.parent
CALLS = Path(__file__).with_name("wrong_calls.py")
REFUSED = {
    number
    for number, line in enumerate(CALLS.read_text().splitlines(), 1)
    if line.endswith("# refused")
}

pytestmark = pytest.mark.slow
with_pyright = pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright")


def output_of(*command: str, cwd: Path = ROOT) -> str:
    """Return what a tool of this Python's prints; it finds the modules that this Python finds."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, "PATH": path},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.stdout, ran.stderr
    return ran.stdout


def test_mypy_refuses_the_wrong_calls_and_no_other() -> None:
    told = output_of("mypy", "--strict", f"--cache-dir={os.devnull}", str(CALLS))
    lines = {int(number) for number in re.findall(r"wrong_calls\.py:(\d+): error", told)}
    assert lines == REFUSED, told


@with_pyright
def test_pyright_refuses_the_wrong_calls_and_no_other() -> None:
    told = json.loads(output_of("pyright", "--outputjson", str(CALLS)))["generalDiagnostics"]
    errors = [each for each in told if each["severity"] == "error"]
    assert {each["range"]["start"]["line"] + 1 for each in errors} == REFUSED, errors


@with_pyright
def test_all_that_is_public_has_a_type() -> None:
    told = output_of("pyright", "--verifytypes", "curlhttp", "--ignoreexternal", "--outputjson")
    report = json.loads(told)["typeCompleteness"]
    unknown = [
        each["name"] for each in report["symbols"] if not each["isTypeKnown"] and each["isExported"]
    ]
    assert (report["completenessScore"], unknown) == (1, [])
