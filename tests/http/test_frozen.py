"""The frozen dataclasses and named tuples that are made faster behave as the usual ones do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from curlhttp import Limits, Proxy, Timeout
from curlhttp._http.config import TLS
from curlhttp._http.frozen import dataclass
from curlhttp._http.named_tuple import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Fast:
    """A value."""

    name: str
    size: int | None = 1

    def __post_init__(self) -> None:
        if self.size == 0:
            raise ValueError("no size")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A value."""

    name: str
    size: int | None = 1

    def __post_init__(self) -> None:
        if self.size == 0:
            raise ValueError("no size")


def _result(act: Callable[[Any], object], kind: Any) -> str:
    try:
        found = act(kind)
    except Exception as error:
        found = repr(error)
    return str(found).replace("Slow", "Fast")


@pytest.mark.parametrize(
    "act",
    [
        lambda kind: kind(name="a"),
        lambda kind: kind(),
        lambda kind: kind("a"),
        lambda kind: kind(name="a", siez=2),
        lambda kind: kind(name="a", size=0),
        lambda kind: kind(name="a") == kind(name="a", size=1),
        lambda kind: kind(name="a") == kind(name="b"),
        lambda kind: kind(name="a") == ("a", 1),
        lambda kind: hash(kind(name="a")) == hash(("a", 1)),
        lambda kind: setattr(kind(name="a"), "size", 2),
        lambda kind: delattr(kind(name="a"), "size"),
        lambda kind: dataclasses.replace(kind(name="a"), size=None),
        lambda kind: dataclasses.replace(kind(name="a"), size=0),
        lambda kind: dataclasses.asdict(kind(name="a")),
        lambda kind: [(each.name, each.type, each.kw_only) for each in dataclasses.fields(kind)],
        lambda kind: pickle.loads(pickle.dumps(kind(name="a", size=5))),
        lambda kind: copy.deepcopy(kind(name="a", size=5)),
        lambda kind: (inspect.signature(kind), kind.__init__.__annotations__),
        lambda kind: (kind.__init__.__qualname__, kind.__init__.__module__),
        lambda kind: (kind.__match_args__, kind.__slots__, hasattr(kind(name="a"), "__dict__")),
    ],
)
def test_it_does_what_a_dataclass_does(act: Callable[[Any], object]) -> None:
    assert _result(act, Fast) == _result(act, Slow)


class FastPair(NamedTuple):
    """A pair."""

    name: str
    size: int | None = 1

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.size}"


class SlowPair(typing.NamedTuple):
    """A pair."""

    name: str
    size: int | None = 1

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.size}"


@pytest.mark.parametrize(
    "act",
    [
        lambda kind: kind("a"),
        lambda kind: kind(),
        lambda kind: kind("a", 2).shown,
        lambda kind: kind("a")._replace(size=None),
        lambda kind: (kind._fields, kind._field_defaults, kind.__doc__, kind.__module__),
        lambda kind: (kind.__qualname__, kind.__mro__, list(inspect.signature(kind).parameters)),
        lambda kind: typing.get_type_hints(kind),
        lambda kind: pickle.loads(pickle.dumps(kind("a", 2))),
        lambda kind: setattr(kind("a"), "size", 2),
    ],
)
def test_it_does_what_a_named_tuple_does(act: Callable[[Any], object]) -> None:
    assert _result(act, FastPair) == _result(act, SlowPair)


def test_a_dataclass_that_derives_from_it_is_pickled_with_its_own_fields() -> None:
    more = pickle.loads(pickle.dumps(Derived(read=3, why="x")))
    assert (more, more.why) == (Derived(read=3, why="x"), "x")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derived(Timeout):
    why: str = ""


def test_a_dataclass_may_derive_from_it() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(Timeout):
        why: str = ""

    more = More(read=3, why="x")
    assert (more.read, more.why) == (3, "x")
    assert more != More(read=3)
    with pytest.raises(FrozenInstanceError):
        more.why = "y"  # type: ignore[misc]


def test_a_plain_class_may_add_attributes_to_it() -> None:
    class Named(Timeout):
        label: str

    named = Named(read=3)
    named.label = "x"
    assert named.label == "x"
    with pytest.raises(FrozenInstanceError):
        named.read = 4  # type: ignore[misc]
    del named.label
    assert not hasattr(named, "label")


@pytest.mark.parametrize("value", [Timeout(read=3), Limits(), TLS(), Proxy(url="http://a:1")])
def test_settings_of_users_are_equal_after_a_copy(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value == copy.copy(value)
    assert dataclasses.is_dataclass(value)


def test_settings_of_tls_show_no_secret() -> None:
    assert "secret" not in repr(TLS(verify=b"secret", cert=(b"secret", b"secret", "secret")))
