"""Types for those who annotate code that calls requests; the modules here do without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["HookType", "HooksInputType", "SupportsItems", "SupportsRead", "is_prepared"]

_T_co = TypeVar("_T_co", covariant=True)
_KT_co = TypeVar("_KT_co", covariant=True)
_VT_co = TypeVar("_VT_co", covariant=True)

HookType = Callable[..., Any]
HooksInputType = Mapping[str, Iterable[HookType] | HookType]


@runtime_checkable
class SupportsRead(Protocol[_T_co]):
    """Anything with a read(), as files have."""

    def read(self, length: int = ..., /) -> _T_co:
        """Return at most `length` bytes or characters."""
        ...


@runtime_checkable
class SupportsItems(Protocol[_KT_co, _VT_co]):
    """Anything with items(), as mappings have."""

    def items(self) -> Iterable[tuple[_KT_co, _VT_co]]:
        """Give keys with values."""
        ...


def is_prepared(request: Any) -> bool:
    """Tell type checkers that a request has been prepared; at run time it is always True."""
    return True
