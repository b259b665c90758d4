"""Of many values of a parameter, have a few in the quick run and the others in the slow one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but_for(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return values for `parametrize` or `params`: all but the quick ones have the mark `slow`."""
    kept = list(quick)
    return [
        value if value in kept else pytest.param(value, marks=pytest.mark.slow) for value in values
    ]
