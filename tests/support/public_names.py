"""The public names of the package and their signatures, as a text that a test compares.

After a name was added, changed or removed on purpose, write the text again with
`python -m tests.support.public_names`. Members of a class are public if the reference shows them;
in the drop-in, if they have no underscore, because requests describes them. The text is the same on
each version of Python: it has no type, only what curlhttp itself defines, and no default whose text
could differ.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from tests.support.internals import ROOT

PATH = ROOT / "docs" / "reference" / "public-names.txt"
COMMAND = "python -m tests.support.public_names"
MODULES = [
    "curlhttp",
    *(
        f"curlhttp.{name}"
        for name in ("exceptions", "types", "testing", "progress", "httpx", "httpx2")
    ),
    *(f"curlhttp.{name}" for name in ("redis", "otel", "distributed", "requests")),
    *(
        f"curlhttp.requests.{name}"
        for name in (
            *("adapters", "api", "auth", "certs", "compat", "cookies", "exceptions", "help"),
            *("hooks", "models", "packages", "sessions", "status_codes", "structures", "utils"),
        )
    ),
]
# What the reference shows of a name, as mkdocstrings takes it.
_SHOWN = {
    name: options
    for page in sorted(PATH.parent.glob("*.md"))
    for name, options in re.findall(
        r"^::: ([\w.]+)\n((?:    .*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE
    )
}
_CONSTANTS = (type(None), bool, int, float, str, bytes, tuple)


def find_public_names() -> dict[str, str]:
    """Return each public name with what follows it: its parameters, another name, or nothing."""
    found: dict[str, str] = {}
    paths: dict[int, str] = {}
    for name in MODULES:
        found.update(_in_module(name, importlib.import_module(name), paths))
    return found


def to_text(names: dict[str, str]) -> str:
    """Return the lines of the file, wrapped."""
    lines = [
        "\n".join(textwrap.wrap(name + rest, 120, subsequent_indent="    ", break_on_hyphens=False))
        for name, rest in names.items()
    ]
    return "\n".join([f"# {COMMAND}", *lines, ""])


def _in_module(path: str, module: ModuleType, paths: dict[int, str]) -> Iterator[tuple[str, str]]:
    for name in sorted(set(module.__all__) - {"chardet"}):  # which is there if it is installed
        thing = getattr(module, name)
        if isinstance(thing, ModuleType):
            yield f"{path}.{name}", ""
            if thing.__name__ not in MODULES and _is_ours(thing.__name__):
                yield from _in_module(f"{path}.{name}", thing, paths)
            continue
        yield from _describe(f"{path}.{name}", thing, paths)


def _describe(path: str, thing: Any, paths: dict[int, str]) -> Iterator[tuple[str, str]]:
    if not _is_ours(getattr(thing, "__module__", None)):
        yield path, ""  # a constant, or a name of another package
    elif (first := paths.setdefault(id(thing), path)) != path:
        yield path, f" = {first}"
    elif isinstance(thing, type):
        yield path, _parameters(thing) if _has_own_constructor(thing) else ""
        for name in sorted(_members(path, thing)):
            member = inspect.getattr_static(thing, name, None)
            is_method = isinstance(member, (FunctionType, classmethod, staticmethod))
            yield f"{path}.{name}", _parameters(getattr(thing, name)) if is_method else ""
    else:
        yield path, _parameters(thing) if callable(thing) else ""


def _is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] == "curlhttp"


def _has_own_constructor(cls: type) -> bool:
    if issubclass(cls, Enum):  # its signature is that of Python's version
        return False
    owner = next(base for base in cls.__mro__ if {"__init__", "__new__"} & vars(base).keys())
    return _is_ours(owner.__module__)


def _members(path: str, cls: type) -> set[str]:
    ours = [base for base in cls.__mro__ if _is_ours(base.__module__)]
    if cls.__module__.startswith("curlhttp.requests"):
        # Not the names of other libraries, whose errors suggest the right ones.
        names = {name for base in ours for name in vars(base) if hasattr(cls, name)}
        names |= {name for base in ours for name in inspect.get_annotations(base)}
        return {name for name in names if not name.startswith("_")}
    options = _SHOWN.get(path, "")
    if shown := re.search(r"^ +members: \[(.*)\]", options, re.MULTILINE):
        return {name.strip() for name in shown[1].split(",")} - {""}
    names = {name for base in ours for name in vars(base) if _has_docstring(cls, name)}
    if issubclass(cls, tuple) or dataclasses.is_dataclass(cls):
        names |= set(inspect.get_annotations(cls))
    _, _, attributes = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    names |= set(re.findall(r"^    (\w+): ", attributes.partition("\n\n")[0], re.MULTILINE))
    hidden = set(re.findall(r"!\^(\w+)\$", options))
    return {name for name in names - hidden if not name.startswith("_")}


def _has_docstring(cls: type, name: str) -> bool:
    member = inspect.getattr_static(cls, name)
    is_code = isinstance(member, (FunctionType, classmethod, staticmethod, property))
    return is_code and bool(inspect.getdoc(member))


def _parameters(function: Any) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return "(...)"
    plain = [
        each.replace(
            annotation=each.empty,
            default=each.empty if each.default is each.empty else _Default(each.default),
        )
        for each in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


class _Default:
    def __init__(self, value: object) -> None:
        is_ours = _is_ours(type(value).__module__) and " at 0x" not in repr(value)
        self._text = repr(value) if isinstance(value, _CONSTANTS) or is_ours else "..."

    def __repr__(self) -> str:
        return self._text


if __name__ == "__main__":
    PATH.write_text(to_text(find_public_names()), encoding="utf-8")
