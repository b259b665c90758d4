"""Subclasses that are annotated for types-requests pass mypy and pyright on the drop-in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.typing.test_wrong_calls import output_of, with_pyright

SUBCLASSES = Path(__file__).with_name("overrides.py")

pytestmark = pytest.mark.slow


def test_mypy_accepts_overrides_with_the_types_of_requests() -> None:
    told = output_of("mypy", "--strict", f"--cache-dir={os.devnull}", str(SUBCLASSES))
    assert told.startswith("Success"), told


@with_pyright
def test_pyright_accepts_overrides_with_the_types_of_requests() -> None:
    told = json.loads(output_of("pyright", "--outputjson", str(SUBCLASSES)))["generalDiagnostics"]
    assert [each for each in told if each["severity"] == "error"] == []
