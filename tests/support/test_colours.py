"""The quick run leaves colours out, but no case and no colour."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.colours import take_turns

IN_TURN = ("blocking", "asyncio", "trio")


class Item:
    def __init__(self, test: str, colour: str, *others: str) -> None:
        self.nodeid = f"{test}[{'-'.join([colour, *others])}]"
        self.callspec = SimpleNamespace(id="-".join([colour, *others]), params={"colour": colour})
        self.case = (test, *others)
        self.colour = colour
        self.marks: list[str] = []

    def add_marker(self, name: str) -> None:
        self.marks.append(name)


def kept_of(items: list[Any]) -> list[Item]:
    take_turns(items)
    return [item for item in items if not item.marks]


def test_each_case_keeps_one_colour_and_a_test_all_of_them() -> None:
    values = [str(value) for value in range(7)]
    for name in ("test_a", "test_b", "test_c"):
        kept = kept_of([Item(name, *each) for each in product(IN_TURN, values)])
        assert sorted(item.case for item in kept) == [(name, value) for value in values]
        assert {item.colour for item in kept} == {*IN_TURN}


def test_a_test_with_one_or_two_cases_keeps_blocking_and_a_loop_for_each() -> None:
    names = [f"test_{number}" for number in range(20)]
    kept = kept_of([Item(*each) for each in product(names, IN_TURN)])
    for name in names:
        assert {"blocking"} < {item.colour for item in kept if item.case == (name,)}
    assert len(kept) == 2 * len(names)
    assert {item.colour for item in kept} == {*IN_TURN}
    kept = kept_of([Item("test", *each) for each in product(IN_TURN, ("HTTP/1.1", "HTTP/2"))])
    assert {item.colour for item in kept} == {*IN_TURN}
    assert len(kept) == 4


@pytest.mark.parametrize("colours", [("asyncio", "uvloop", "trio"), ("blocking",), ("uvloop",)])
def test_a_test_that_is_not_both_blocking_and_on_loops_keeps_all(colours: tuple[str, ...]) -> None:
    items = [Item("test", *each) for each in product(colours, "abc")]
    assert kept_of(items) == items
