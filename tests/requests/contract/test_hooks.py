"""default_hooks and dispatch_hook."""

from __future__ import annotations

from typing import Any

import pytest


def test_response_is_the_only_event(requests: Any) -> None:
    assert requests.hooks.HOOKS == ["response"]
    assert requests.hooks.default_hooks() == {"response": []}
    assert requests.hooks.default_hooks() is not requests.hooks.default_hooks()


@pytest.mark.parametrize(
    "hooks", [None, {}, {"response": []}, {"response": None}, {"request": [str]}]
)
def test_without_hooks_the_data_stays_as_it_is(requests: Any, hooks: Any) -> None:
    data = object()
    assert requests.hooks.dispatch_hook("response", hooks, data) is data


@pytest.mark.parametrize("wrap", [list, tuple, iter], ids=lambda wrap: wrap.__name__)
def test_each_hook_sees_what_the_one_before_it_returned(requests: Any, wrap: Any) -> None:
    seen = []

    def add_one(data: int, **kwargs: Any) -> int:
        seen.append((data, kwargs))
        return data + 1

    def look(data: int, **kwargs: Any) -> None:
        seen.append((data, kwargs))

    hooks = {"response": wrap([add_one, look, add_one])}
    assert requests.hooks.dispatch_hook("response", hooks, 1, timeout=2) == 3
    assert seen == [(1, {"timeout": 2}), (2, {"timeout": 2}), (2, {"timeout": 2})]


def test_a_hook_may_stand_by_itself(requests: Any) -> None:
    assert requests.hooks.dispatch_hook("response", {"response": str}, 1) == "1"


def test_a_falsy_value_of_a_hook_replaces_the_data(requests: Any) -> None:
    assert requests.hooks.dispatch_hook("response", {"response": lambda data: 0}, 1) == 0


def test_an_error_of_a_hook_comes_through(requests: Any) -> None:
    def fail(data: Any) -> None:
        raise KeyError(data)

    with pytest.raises(KeyError):
        requests.hooks.dispatch_hook("response", {"response": [fail]}, 1)


def test_what_cannot_be_called_is_no_hook(requests: Any) -> None:
    with pytest.raises(TypeError):
        requests.hooks.dispatch_hook("response", {"response": 5}, 1)
