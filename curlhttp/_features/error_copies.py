"""Copy an error that several callers get, each with a traceback and notes of its own."""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def copy_error(error: E) -> E:
    """Return a copy of an error, for one more caller that adds to its traceback and its notes.

    Returns:
        the error itself, if its class cannot be copied without a loss.
    """
    try:
        # Without __init__, which may want other arguments than those that the error has.
        made = type(error).__new__(type(error), *error.args)
        made.__dict__.update(error.__dict__)
        for name in _get_fields(type(error)):
            value = getattr(error, name, None)
            if getattr(made, name, None) is not value:
                setattr(made, name, value)
        if type(made) is not type(error) or str(made) != str(error):
            return error
    except Exception:  # raised by the class
        return error
    notes = getattr(error, "__notes__", None)
    if notes is not None:
        vars(made)["__notes__"] = [*notes]
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _get_fields(kind: type) -> list[str]:
    """Return the names of what an error has besides its __dict__, such as `args` or `errno`."""
    return [
        name
        for base in kind.__mro__
        for name, value in vars(base).items()
        if isinstance(value, (GetSetDescriptorType, MemberDescriptorType))
        and not name.startswith("__")
    ]
