"""Calls and attributes that do not fit: their errors say what to write. It costs what fits nothing.

The words are in habits.py, which is loaded for an error alone.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TaughtAttributes", "no_name", "taught_call", "teaching"]

_Class = TypeVar("_Class", bound=type)


class TaughtAttributes:
    """Say in the error for an attribute that is not there what there is in its place."""

    if not TYPE_CHECKING:  # a type checker would take any name for one of ours

        def __getattr__(self, name):
            subject = f"{type(self).__name__!r} object"
            if name.startswith("_"):  # Python's protocols ask for what need not be there
                raise AttributeError(f"{subject} has no attribute {name!r}", name=name, obj=self)
            from curlhttp._models.habits import no_attribute

            raise no_attribute("response", subject, self, name)


def teaching(place: str) -> Callable[[_Class], _Class]:
    """Return a decorator of classes: what their constructor does not take is explained.

    Args:
        place: a key of habits.TABLE.
    """

    def decorate(cls: _Class) -> _Class:
        make = vars(cls)["__init__"]

        @wraps(make)
        def taught(self: object, *args: object, **options: object) -> None:
            try:
                make(self, *args, **options)
            except TypeError as error:
                subject = f"{type(self).__name__}()"
                if (better := taught_call(place, subject, error, make)) is error:
                    raise
                raise better from None

        type.__setattr__(cls, "__init__", taught)
        return cls

    return decorate


def taught_call(
    place: str, subject: str, error: TypeError, called: Callable[..., object]
) -> TypeError:
    """Return what to raise for a TypeError: with the words of habits.py if the call did not fit.

    Args:
        place: a key of habits.TABLE.
        subject: what was called, such as "Client()".
        error: caught where it was called.
        called: the function.
    """
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return error  # the call fitted: something in it raised that
    from inspect import signature

    from curlhttp._models.habits import wrong_call

    known = [each for each in signature(called).parameters if each != "self"]
    return wrong_call(place, subject, error, known)


def no_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have.

    Args:
        module: its full name.
        name: what was asked for.
    """
    import sys

    owner, subject = sys.modules[module], f"module {module!r}"
    if name.startswith("_"):
        return AttributeError(f"{subject} has no attribute {name!r}", name=name, obj=owner)
    from curlhttp._models.habits import no_attribute

    return no_attribute("module", subject, owner, name)
