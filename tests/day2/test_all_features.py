"""All features at once, with names that are looked up well, badly or not at all."""

from __future__ import annotations

import importlib.util

import pytest

from tests.day2.all_features import PROGRAMS
from tests.day2.namespaces import run_in_namespaces


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("features")
    found: dict[str, str] = run_in_namespaces("tests.day2.all_features", folder, "--net")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_features_at_once_end_in_responses_or_clear_errors(
    written: dict[str, str], program: str
) -> None:
    if program == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    assert written[program] == ""
