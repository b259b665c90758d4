"""Signatures for help() and notebooks, with every keyword, computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from types import FunctionType

_COLLECTED = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)


class DescribedDefault:
    """A default value whose repr is a text that describes it.

    Args:
        text: the repr.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class LazySignature(Signature):
    """A signature that is computed when it is first read.

    Args:
        make: returns the signature.
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Signature]) -> None:
        self._make = make
        self._made: Signature | None = None

    def _real(self) -> Signature:
        if self._made is None:
            self._made = self._make()
        return self._made

    # The methods of Signature read these names, which are slots there.
    _parameters = property(lambda self: self._real().parameters)
    _return_annotation = property(lambda self: self._real().return_annotation)

    def replace(self, **changes: object) -> Signature:  # type: ignore[override]
        """Return a plain signature with other parameters, or another annotation."""
        return self._real().replace(**changes)  # type: ignore[arg-type]

    __replace__ = replace  # type: ignore[assignment]


def set_signature(function: object, make: Callable[[FunctionType], Signature]) -> None:
    """Set a function's signature, which is computed when it is first read.

    Args:
        function: a Python function.
        make: called with the function, which still has its original signature; returns the other.
    """
    assert isinstance(function, FunctionType)
    lazy = LazySignature(lambda: make(function))
    function.__signature__ = lazy  # type: ignore[attr-defined]


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
    own = Signature.from_callable(_bare(function))
    found = {name: each for name, each in own.parameters.items() if each.kind not in _COLLECTED}
    for each in keywords:
        if each.name not in found and each.kind not in _COLLECTED:
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
