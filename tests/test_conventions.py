"""Conventions of the code: few types are Any, class names are unique, docstrings are direct."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import curlhttp

ROOT = Path(curlhttp.__file__).parent
MODULES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
FACADE = ROOT / "requests"
# pyarrow, fsspec, Dask and Ray, which a distributed fetch works with, have no types.
# Programs override methods of the facade with types of their own (requests/_types.py).
ANYS = {"core": 112, "facade": 265}
# curlhttp.Timeout is the setting, curlhttp.exceptions.Timeout the exception, as in requests.
# Transports carry requests: those of our clients, and one each for httpx and httpx2.
TWICE = {"AsyncTransport", "Timeout", "Transport"}


def is_facade(path: Path) -> bool:
    return FACADE in path.parents


@pytest.mark.parametrize("part", sorted(ANYS))
def test_few_types_are_any(part: str) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in MODULES.items()
        if is_facade(path) == (part == "facade")
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert len(found) < ANYS[part], found


def test_no_class_of_the_core_has_the_name_of_another() -> None:
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, tree in MODULES.items():
        if not is_facade(path):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    homes[node.name.lstrip("_")].add(path)
    assert {name for name, paths in homes.items() if len(paths) > 1} == TWICE


def test_docstrings_of_predicates_say_what_is_returned() -> None:
    told = [
        f"{path}:{node.lineno}"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if (ast.get_docstring(node) or "").startswith("Tell whether")
    ]
    assert told == []
