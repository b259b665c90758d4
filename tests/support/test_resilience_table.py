"""The table of statements about resilience is complete, and its tests exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.resilience_table import TABLE

TESTS = Path(__file__).parents[1]
LAST = {"R": 24, "B": 7, "A": 8, "D": 8, "G": 5, "C": 21, "H": 7}
STATEMENTS = [f"{kind}{number}" for kind, last in LAST.items() for number in range(1, last + 1)]
POLICY = ["backoff", "breaker", "budget", "hedge", "limits", "retry", "retry_after"]
FLOW = ["chain", "hooks", "retry", "retry_bodies", "retry_delays"]
TIMELESS = [
    *(f"policies/test_{name}" for name in POLICY),
    *(f"features/test_{name}" for name in FLOW),
]


@cache
def names_in(module: str) -> set[str]:
    tree = ast.parse((TESTS / f"{module}.py").read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_each_statement_has_a_test() -> None:
    assert {statement for statement, _, _ in TABLE} == set(STATEMENTS)


def test_each_test_of_the_table_is_there() -> None:
    assert [row for row in TABLE if row[2] not in names_in(row[1])] == []


@pytest.mark.parametrize("name", [*TIMELESS, "testing/test_scripted"])
def test_no_test_of_a_policy_sleeps(name: str) -> None:
    """Times are numbers, or those of a script's clock."""
    tree = ast.parse((TESTS / f"{name}.py").read_text())
    waits = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
    ]
    assert waits == []
