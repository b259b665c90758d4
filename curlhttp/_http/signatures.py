"""Signatures for help() and notebooks, with every keyword, computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspect import Parameter, Signature


class DescribedDefault:
    """A default value whose repr is a text that describes it.

    Args:
        text: the repr.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


if not TYPE_CHECKING:  # a type checker sees only that it is a Signature

    class LazySignature:
        """A signature that is computed when it is first read, by `_make`.

        It is an instance of inspect.Signature for all who ask. That module is slow to import, and
        most programs look at no signature.
        """

        __slots__ = ("_made", "_make")

        def __new__(cls, *parameters, **options):
            """Return a plain signature, which the methods of Signature make with type(self)()."""
            from inspect import Signature

            return Signature(*parameters, **options)

        @property
        def __class__(self):
            from inspect import Signature

            return Signature

        def _real(self):
            if self._made is None:
                self._made = self._make()
            return self._made

        def __getattr__(self, name):
            return getattr(self._real(), name)

        def __eq__(self, other):
            return self._real() == other

        def __hash__(self):
            return hash(self._real())

        def __repr__(self):
            return repr(self._real())

        def __str__(self):
            return str(self._real())

        def __reduce__(self):
            return self._real().__reduce__()


def set_signature(function: object, make: Callable[[FunctionType], Signature]) -> None:
    """Set a function's signature, which is computed when it is first read.

    Args:
        function: a Python function.
        make: called with the function, which still has its original signature; returns the other.
    """
    assert isinstance(function, FunctionType)
    if not TYPE_CHECKING:
        lazy = object.__new__(LazySignature)
        lazy._made, lazy._make = None, lambda: make(function)
        function.__signature__ = lazy


def with_keywords(
    function: Callable[..., object],
    keywords: Iterable[Parameter],
    defaults: Mapping[str, object],
) -> Signature:
    """Return a function's own signature, with keywords instead of its **options.

    Args:
        function: with **options or without.
        keywords: the parameters that **options stand for.
        defaults: replace the defaults of parameters, by name.
    """
    from inspect import Parameter, Signature

    collected = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    own = Signature.from_callable(_bare(function))
    found = {name: each for name, each in own.parameters.items() if each.kind not in collected}
    for each in keywords:
        if each.name not in found and each.kind not in collected:
            found[each.name] = each.replace(kind=Parameter.KEYWORD_ONLY)
    shown = [
        each.replace(default=defaults[each.name]) if each.name in defaults else each
        for each in found.values()
    ]
    return own.replace(parameters=sorted(shown, key=lambda each: each.kind))


def _bare(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function with the same arguments that shows its own signature."""
    inner = getattr(function, "__wrapped__", function)
    copied = FunctionType(inner.__code__, {}, inner.__name__, inner.__defaults__)
    copied.__kwdefaults__ = inner.__kwdefaults__
    copied.__annotations__ = inner.__annotations__
    return copied
