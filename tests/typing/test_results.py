"""What a client returns has the right type for mypy and pyright."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.typing.test_wrong_calls import output_of, with_pyright

RESULTS = Path(__file__).with_name("results.py")

pytestmark = pytest.mark.slow


def test_mypy_sees_the_types_of_results() -> None:
    told = output_of("mypy", "--strict", f"--cache-dir={os.devnull}", str(RESULTS))
    assert told.startswith("Success"), told


@with_pyright
def test_pyright_sees_the_types_of_results() -> None:
    told = json.loads(output_of("pyright", "--outputjson", str(RESULTS)))["generalDiagnostics"]
    assert [each for each in told if each["severity"] == "error"] == []
