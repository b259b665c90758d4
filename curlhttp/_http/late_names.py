"""Names of a module that are loaded when they are first used, and where those went that moved."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from sys import is_finalizing
from types import ModuleType
from typing import NoReturn, cast

from curlhttp._http.exiting import exit_error


def load(name: str, package: Mapping[str, object]) -> ModuleType:
    """Import a module of the package. While Python exits, return it if it was loaded before.

    Args:
        name: its full name.
        package: the names of curlhttp itself.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if not is_finalizing():
            raise
        _, first, *others = name.split(".")
        found = package.get(first)
        for each in others:
            found = getattr(found, each, None)
        if found is None:
            raise exit_error() from error
        return cast("ModuleType", found)


def refuse(module: str, name: str) -> NoReturn:
    """Raise the error for a name that a module does not have, or that moved to another one.

    Args:
        module: its full name.
        name: the missing name.

    Raises:
        AttributeError: it is looked up as an attribute.
        ImportError: it is imported by `from module import name`, which would hide what an
            AttributeError says.
    """
    from curlhttp._http.suggestions import get_table, no_name

    error = no_name(module, name)
    importer = sys._getframe(2).f_code.co_name
    if importer == "_handle_fromlist" and name in get_table("module"):
        raise ImportError(f"cannot import name {name!r}: {error}", name=module)
    raise error
