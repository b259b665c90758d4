"""JSON of responses as the user's types.

This module creates dataclasses, because they need no package. pydantic and msgspec create their own
types; they are imported only if a type is one of theirs.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, Field, InitVar, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

_LONGEST = 300  # characters of a text of the server or another library in a message
_LONGEST_KEY = 50
_MOST_STEPS = 10  # at either end of a path


class Misfit(Exception):
    """Say where a value does not fit a type.

    The path is put together here, of the steps that `enter` collects on the way out. If each value
    knew its path, a long key would need memory for each of its members.

    Args:
        text: what does not fit.
        root: the name of the whole value, or "" if the text says where.
    """

    def __init__(self, text: str, root: str = "the value") -> None:
        super().__init__(_shorten(text, _LONGEST))
        self._root = root
        self._steps: list[str] = []

    def enter(self, step: str) -> None:
        """Put a step in front of the path.

        Args:
            step: from a value to the member that does not fit, such as ".name" or "[0]".
        """
        self._steps.insert(0, step)
        if len(self._steps) > 2 * _MOST_STEPS:
            self._steps[_MOST_STEPS : _MOST_STEPS + 2] = ["..."]

    def __str__(self) -> str:
        path = "".join(self._steps).removeprefix(".") or self._root
        return f"{path}: {self.args[0]}" if path else str(self.args[0])


def _show_key(key: object) -> str:
    return f"[{_shorten(key, _LONGEST_KEY)!r}]" if isinstance(key, str) else f"[{key!r}]"


def _shorten(text: str, longest: int) -> str:
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def _misfit(expected: str, value: object) -> Misfit:
    got = "null" if value is None else type(value).__name__
    return Misfit(f"expected {expected}, not {got}")


def convert(value: object, to: object) -> object:
    """Return a value read from JSON as another type.

    Args:
        value: of dicts, lists, strings, numbers, booleans and None.
        to: a dataclass, a type of pydantic or msgspec, or list[...], dict[str, ...], a union and
            so on of these.

    Raises:
        Misfit: the value does not fit.
        TypeError: values of this type cannot be created.
    """
    library = _find_library(to)
    try:
        if library == "msgspec":
            return _convert_by_msgspec(value, to)
        if library == "pydantic":
            return _convert_by_pydantic(value, to)
        return _make(value, to)
    except RecursionError:
        raise Misfit("nested too deeply") from None


@lru_cache(maxsize=1000)
def _find_library(to: object) -> str | None:
    seen, left = set(), [to]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        left += get_args(each)
        kind = get_origin(each) or each
        if not isinstance(kind, type):
            continue
        for base in kind.__mro__:
            package = base.__module__.partition(".")[0]
            if package == "msgspec":
                return "msgspec"
            if package == "pydantic" or "__pydantic_validator__" in vars(base):
                return "pydantic"
        if is_dataclass(kind):
            left += _read_hints(kind).values()
    return None


def _convert_by_msgspec(value: object, to: object) -> object:
    import msgspec

    try:
        return msgspec.convert(value, to, str_keys=True)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # a lone surrogate
        raise Misfit(str(error), root="") from error
    except TypeError as error:
        msgspec.json.Decoder(to)  # raises if the reason is the type, and not the value
        raise Misfit(str(error)) from error  # Decimal("sNaN") as a key


def _convert_by_pydantic(value: object, to: object) -> object:
    import pydantic

    try:
        return _adapt(to)(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        more = error.error_count() - 1
        misfit = Misfit(f"{first['msg']}; and {more} more" if more else first["msg"])
        for step in reversed(first["loc"]):
            is_name = isinstance(step, str) and step.isidentifier() and len(step) <= _LONGEST_KEY
            misfit.enter(f".{step}" if is_name else _show_key(step))
        raise misfit from error


@lru_cache(maxsize=1000)
def _adapt(to: object) -> Callable[[object], object]:
    import pydantic

    make = cast("Callable[[object], pydantic.TypeAdapter[object]]", pydantic.TypeAdapter)
    return make(to).validate_python


# --- dataclasses, and what their fields may be ---

_MEMBERS = "__dataclass_fields__"  # unlike fields(), with each InitVar
_PARSED: dict[object, tuple[Callable[[str], object], str]] = {
    date: (date.fromisoformat, "an ISO 8601 date"),
    time: (time.fromisoformat, "an ISO 8601 time"),
    UUID: (UUID, "a UUID"),
    Decimal: (Decimal, "a decimal number"),
}
_PLAIN: dict[object, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _make(value: object, to: object) -> object:
    if to is Any or to is object:
        return value
    if to is None:
        to = type(None)
    if to in _PLAIN:
        return _make_plain(value, to)
    if to is datetime or to in _PARSED:
        return _parse(value, to)
    origin = get_origin(to) or to
    if origin is Annotated or hasattr(to, "__supertype__"):  # of a NewType
        return _make(value, getattr(to, "__supertype__", None) or get_args(to)[0])
    if origin is Union or origin is getattr(types, "UnionType", None):
        return _make_one_of(value, get_args(to))
    if origin is Literal:
        # Not by `in`: 1 == True.
        for each in get_args(to):
            if each == value and type(each) is type(value):
                return value
        raise _misfit(f"one of {', '.join(map(repr, get_args(to)))}", value)
    if origin in (list, tuple, set, frozenset):
        return _make_sequence(value, to, cast(type, origin))
    if origin is dict:
        if not isinstance(value, dict):
            raise _misfit("an object", value)
        return _make_dict(value, *(get_args(to) or (str, Any)))
    if isinstance(to, type) and issubclass(to, Enum):
        return _make_member(value, to)
    if isinstance(origin, type) and is_dataclass(origin):
        return _make_dataclass(value, to, origin)
    shown = getattr(to, "__qualname__", to)
    raise TypeError(
        f"JSON cannot be read as {shown}: use dataclasses, list, dict, unions, enumerations, str, "
        "int, float, bool, datetime, date, time, UUID and Decimal, or types of pydantic or msgspec"
    )


def _make_plain(value: object, to: object) -> object:
    if to is float and type(value) in (int, Decimal):  # Decimal by parse_float
        try:
            return float(cast(int, value))
        except (OverflowError, ValueError):
            raise _misfit("a number in the range of float", value) from None
    if isinstance(value, cast(type, to)) and not (isinstance(value, bool) and to is not bool):
        return value
    raise _misfit(_PLAIN[to], value)


def _parse(value: object, to: object) -> object:
    if type(value) is to:  # by an option of json.loads, or by another function
        return value
    parse, expected = _PARSED.get(to, (_parse_datetime, "an ISO 8601 date and time"))
    if to is Decimal:
        if type(value) is int:
            return Decimal(value)
        if isinstance(value, float):
            value = str(value)
    if isinstance(value, str):
        with suppress(ValueError, ArithmeticError):
            return parse(value)
    raise _misfit(expected, value)


def _parse_datetime(text: str) -> datetime:
    if sys.version_info < (3, 11) and text.endswith(("Z", "z")):
        text = text[:-1] + "+00:00"
    return datetime.fromisoformat(text)


def _make_one_of(value: object, kinds: tuple[object, ...]) -> object:
    if type(value) in kinds and not isinstance(value, (str, list, dict)):
        return value  # 1 stays an int in float | int
    misfits = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return _make(value, kind)
            except Misfit as misfit:
                misfits.append(misfit)
    if len(misfits) == 1:  # Optional
        raise misfits[0]
    shown = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise _misfit(shown, value)


def _make_dict(value: dict[str, object], to_key: object, to_value: object) -> object:
    made: dict[object, object] = {}
    try:
        for key, each in value.items():
            new_key, new = _make(key, to_key), _make(each, to_value)
            try:
                made[new_key] = new
            except TypeError:
                raise Misfit("the key cannot be hashed") from None  # Decimal("sNaN")
    except Misfit as misfit:
        misfit.enter(_show_key(key))
        raise
    return made


def _make_sequence(value: object, to: object, origin: Callable[[list[object]], object]) -> object:
    if not isinstance(value, list):
        raise _misfit("an array", value)
    kinds = get_args(to) or (Any,)
    if origin is tuple and not (len(kinds) == 2 and kinds[1] is ...) and get_args(to):
        if len(value) != len(kinds):
            raise _misfit(f"an array of {len(kinds)}", value)
    else:
        kinds = (kinds[0],) * len(value)
    made: list[object] = []
    try:
        for each, kind in zip(value, kinds, strict=True):
            made.append(_make(each, kind))
    except Misfit as misfit:
        misfit.enter(f"[{len(made)}]")
        raise
    try:
        return origin(made)
    except TypeError:  # of a set
        raise _misfit("an array of hashable values", value) from None


def _make_member(value: object, to: type[Enum]) -> Enum:
    with suppress(ValueError, TypeError):  # the latter of flags in Python 3.10
        member = to(value)
        # True == 1 == 1.0
        if not isinstance(value, (bool, float)) or type(member.value) is type(value):
            return member
    raise _misfit(f"one of {', '.join(repr(e.value) for e in to)}", value)


def _make_dataclass(value: object, to: object, kind: type) -> object:
    if not isinstance(value, dict):
        raise _misfit(f"an object for {kind.__name__}", value)
    given = {}
    try:
        for name, (hint, is_required) in _read_arguments(to, kind).items():
            if name in value:
                given[name] = _make(value[name], hint)
            elif is_required:
                raise Misfit("missing, and it has no default")
    except Misfit as misfit:
        misfit.enter(f".{name}")
        raise
    try:
        return kind(**given)
    except ValueError as error:  # of its __post_init__
        raise Misfit(str(error)) from error


@lru_cache(maxsize=1000)
def _read_arguments(to: object, kind: type) -> dict[str, tuple[object, bool]]:
    """Return the type of each argument of a dataclass, and whether it is required."""
    hints, found = _read_hints(kind), {}
    types = dict(zip(getattr(kind, "__parameters__", ()), get_args(to), strict=False))
    members: dict[str, Field[object]] = getattr(kind, _MEMBERS)
    for each in members.values():
        hint = hints[each.name]
        if each.init and ClassVar not in (hint, get_origin(hint)):
            hint = _fill_in(hint.type if isinstance(hint, InitVar) else hint, types)
            is_required = each.default is each.default_factory is MISSING
            found[each.name] = hint, is_required
    return found


def _fill_in(hint: object, types: dict[object, object]) -> object:
    """Return a type with the arguments of a generic class in place of its variables."""
    if isinstance(hint, TypeVar):
        return types.get(hint, hint)
    variables = getattr(hint, "__parameters__", ()) if get_args(hint) else ()
    if not variables:
        return hint
    return cast("dict[object, object]", hint)[tuple(types.get(each, each) for each in variables)]


@lru_cache(maxsize=1000)
def _read_hints(to: type) -> dict[str, object]:
    try:
        return get_type_hints(to)
    except NameError as error:
        raise TypeError(
            f"an annotation of {to.__qualname__} cannot be read: {error}; define it in the module"
        ) from error
