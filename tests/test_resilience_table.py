"""The table of the statements about resilience: complete, and of tests that there are."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.resilience_table import TABLE

HERE = Path(__file__).parent
LAST = {"R": 24, "B": 7, "A": 8, "D": 8, "G": 5, "C": 21, "H": 7}
STATEMENTS = [f"{kind}{number}" for kind, last in LAST.items() for number in range(1, last + 1)]
POLICY = ("backoff", "breaker_policy", "budget", "hedge_policy", "limits_policy")
SCRIPTED = ("retry", "retry_bodies", "retry_hooks", "retry_layers", "retry_policy", "retry_waits")


@cache
def names_in(module: str) -> set[str]:
    tree = ast.parse((HERE / f"{module}.py").read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_each_statement_has_a_test() -> None:
    assert {statement for statement, _, _ in TABLE} == set(STATEMENTS)


@pytest.mark.parametrize(("statement", "module", "test"), TABLE)
def test_each_test_of_the_table_is_there(statement: str, module: str, test: str) -> None:
    assert test in names_in(module)


@pytest.mark.parametrize("name", [*POLICY, *SCRIPTED, "retry_after", "testing"])
def test_no_test_of_a_policy_sleeps(name: str) -> None:
    """Times are numbers, or those of a script's clock."""
    tree = ast.parse((HERE / f"test_{name}.py").read_text())
    waits = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
    ]
    assert waits == []
