"""JSON of responses as the user's types, and functions that a client uses instead of json's.

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
from decimal import Decimal, InvalidOperation
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

from curlhttp._models.suggestions import with_suggestions

T = TypeVar("T")

EXTENSION = "curlhttp.json"  # of requests whose client has a JSON


@with_suggestions("JSON")
class JSON:
    """Choose the functions with which a client writes and reads JSON, such as those of orjson.

        client = curlhttp.Client(json=curlhttp.JSON(loads=orjson.loads, dumps=orjson.dumps))

    `dumps` creates the body for `json=`, and `loads` the value of `response.json()`.

    Args:
        loads: returns the value of a body, which it gets as bytes, or as str if you have set
            `response.encoding` or if the body is in no Unicode encoding. It also gets the keyword
            arguments of `response.json()`.
        dumps: returns the JSON of a value as bytes, or as str, which is sent as UTF-8.

    Raises:
        TypeError: one of them is not a function.
    """

    # Any: as of json.loads.
    def __init__(
        self,
        *,
        loads: Callable[..., Any] | None = None,
        dumps: Callable[[object], bytes | str] | None = None,
    ) -> None:
        for name, function in (("loads", loads), ("dumps", dumps)):
            if not (function is None or callable(cast(object, function))):
                kind = type(function).__name__
                raise TypeError(f"{name} must be a function, such as json.{name}, not {kind}")
        self.loads = loads
        self.dumps = dumps

    def encode(self, value: object) -> bytes:
        """Return the body for a value.

        Raises:
            ValueError: JSON cannot express the value.
            TypeError: JSON cannot express the value, or `dumps` returned neither bytes nor str.
        """
        assert self.dumps is not None
        found = self.dumps(value)
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, (bytes, bytearray, memoryview)):
            return bytes(found)
        raise TypeError(f"dumps returned {type(found).__name__}, not bytes or str")

    def __repr__(self) -> str:
        return f"JSON(loads={self.loads!r}, dumps={self.dumps!r})"


class Misfit(Exception):
    """Say where a value does not fit a type."""


def _misfit(path: str, expected: str, value: object) -> Misfit:
    got = "null" if value is None else type(value).__name__
    return Misfit(f"{path or 'the value'}: expected {expected}, not {got}")


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
    if library == "msgspec":
        return _convert_by_msgspec(value, to)
    if library == "pydantic":
        return _convert_by_pydantic(value, to)
    try:
        return _make(value, to, "")
    except RecursionError:
        raise Misfit("the value: nested too deeply") from None


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
        raise Misfit(str(error)) from error


def _convert_by_pydantic(value: object, to: object) -> object:
    import pydantic

    try:
        return _adapt(to)(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        more = error.error_count() - 1
        path = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]
        )
        text = f"{path.lstrip('.') or 'the value'}: {first['msg']}"
        raise Misfit(f"{text}; and {more} more" if more else text) from error


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


def _make(value: object, to: object, path: str) -> object:
    if to is Any or to is object:
        return value
    if to is None:
        to = type(None)
    if to in _PLAIN:
        return _make_plain(value, to, path)
    if to is datetime or to in _PARSED:
        return _parse(value, to, path)
    origin = get_origin(to) or to
    if origin is Annotated or hasattr(to, "__supertype__"):  # of a NewType
        return _make(value, getattr(to, "__supertype__", None) or get_args(to)[0], path)
    if origin is Union or origin is getattr(types, "UnionType", None):
        return _make_one_of(value, get_args(to), path)
    if origin is Literal:
        # Not by `in`: 1 == True.
        for each in get_args(to):
            if each == value and type(each) is type(value):
                return value
        raise _misfit(path, f"one of {', '.join(map(repr, get_args(to)))}", value)
    if origin in (list, tuple, set, frozenset):
        return _make_sequence(value, to, cast(type, origin), path)
    if origin is dict:
        if not isinstance(value, dict):
            raise _misfit(path, "an object", value)
        to_key, to_value = get_args(to) or (str, Any)
        below = {key: f"{path}[{key!r}]" for key in value}
        return {
            _make(key, to_key, below[key]): _make(each, to_value, below[key])
            for key, each in value.items()
        }
    if isinstance(to, type) and issubclass(to, Enum):
        return _make_member(value, to, path)
    if isinstance(origin, type) and is_dataclass(origin):
        return _make_dataclass(value, to, origin, path)
    shown = getattr(to, "__qualname__", to)
    raise TypeError(
        f"JSON cannot be read as {shown}: use dataclasses, list, dict, unions, enumerations, str, "
        "int, float, bool, datetime, date, time, UUID and Decimal, or types of pydantic or msgspec"
    )


def _make_plain(value: object, to: object, path: str) -> object:
    if to is float and type(value) in (int, Decimal):  # Decimal by parse_float
        try:
            return float(cast(int, value))
        except OverflowError:
            raise _misfit(path, "a number in the range of float", value) from None
    if isinstance(value, cast(type, to)) and not (isinstance(value, bool) and to is not bool):
        return value
    raise _misfit(path, _PLAIN[to], value)


def _parse(value: object, to: object, path: str) -> object:
    if type(value) is to:  # by an option of json.loads, or by another function
        return value
    parse, expected = _PARSED.get(to, (_parse_datetime, "an ISO 8601 date and time"))
    if to is Decimal and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        try:
            return parse(value)
        except (ValueError, InvalidOperation):
            pass
    raise _misfit(path, expected, value)


def _parse_datetime(text: str) -> datetime:
    if sys.version_info < (3, 11) and text.endswith(("Z", "z")):
        text = text[:-1] + "+00:00"
    return datetime.fromisoformat(text)


def _make_one_of(value: object, kinds: tuple[object, ...], path: str) -> object:
    if type(value) in kinds and not isinstance(value, (str, list, dict)):
        return value  # 1 stays an int in float | int
    misfits = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return _make(value, kind, path)
            except Misfit as misfit:
                misfits.append(misfit)
    if len(misfits) == 1:  # Optional
        raise misfits[0]
    shown = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise _misfit(path, shown, value)


def _make_sequence(
    value: object, to: object, origin: Callable[[list[object]], object], path: str
) -> object:
    if not isinstance(value, list):
        raise _misfit(path, "an array", value)
    kinds = get_args(to) or (Any,)
    if origin is tuple and not (len(kinds) == 2 and kinds[1] is ...) and get_args(to):
        if len(value) != len(kinds):
            raise _misfit(path, f"an array of {len(kinds)}", value)
    else:
        kinds = (kinds[0],) * len(value)
    pairs = enumerate(zip(value, kinds, strict=True))
    made = [_make(each, kind, f"{path}[{i}]") for i, (each, kind) in pairs]
    try:
        return origin(made)
    except TypeError:  # of a set
        raise _misfit(path, "an array of hashable values", value) from None


def _make_member(value: object, to: type[Enum], path: str) -> Enum:
    with suppress(ValueError):
        member = to(value)
        # True == 1 == 1.0
        if not isinstance(value, (bool, float)) or type(member.value) is type(value):
            return member
    raise _misfit(path, f"one of {', '.join(repr(e.value) for e in to)}", value)


def _make_dataclass(value: object, to: object, kind: type, path: str) -> object:
    if not isinstance(value, dict):
        raise _misfit(path, f"an object for {kind.__name__}", value)
    given = {}
    for name, (hint, is_required) in _read_arguments(to, kind).items():
        below = f"{path}.{name}" if path else name
        if name in value:
            given[name] = _make(value[name], hint, below)
        elif is_required:
            raise Misfit(f"{below}: missing, and it has no default")
    try:
        return kind(**given)
    except ValueError as error:  # of its __post_init__
        raise Misfit(f"{path or 'the value'}: {error}") from error


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
