"""Objects that users hold show documented names only: members have an underscore, or the reference.

A member is documented if the reference shows it, of the class or of a public class that it derives
from, or if it is an argument of their constructors, which the docstrings describe.
"""

from __future__ import annotations

import ast
import inspect
import textwrap

import curlhttp
import curlhttp.types
from tests.support.public_names import find_public_names

CLASSES = {
    f"{module.__name__}.{name}": kind
    for module in (curlhttp, curlhttp.types)
    for name in module.__all__
    if inspect.isclass(kind := getattr(module, name))
    and kind.__module__.startswith("curlhttp.")
    and not kind.__module__.startswith("curlhttp.requests")
    and not hasattr(kind, "__total__")  # a TypedDict has keys
    and not getattr(kind, "_is_protocol", False)  # what others have
    and kind is not curlhttp.types.UseClientDefault  # an Enum
}
NAMES = find_public_names()


def members_of(kind: type) -> set[str]:
    """Return the public names of a class and of its instances."""
    found: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("curlhttp."):
            found |= {name for name in vars(base) if hasattr(base, name)}  # without suggestions
            found |= inspect.get_annotations(base).keys()
            found |= attributes_set_by(base)
    return {name for name in found if not name.startswith("_")}


def attributes_set_by(kind: type) -> set[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except OSError:  # made by a function, such as a NamedTuple
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def documented(kind: type) -> set[str]:
    found: set[str] = set()
    for path, other in CLASSES.items():
        if other in kind.__mro__:
            found |= arguments_of(other)
            found |= {
                name.removeprefix(f"{path}.") for name in NAMES if name.startswith(f"{path}.")
            }
    return found


def arguments_of(kind: type) -> set[str]:
    try:
        return set(inspect.signature(kind).parameters)
    except ValueError:  # written in C
        return set()


def test_what_users_hold_shows_documented_names_only() -> None:
    undocumented = {path: members_of(kind) - documented(kind) for path, kind in CLASSES.items()}
    assert {path: names for path, names in undocumented.items() if names} == {}
