"""requests' two mappings: one with case-insensitive keys, one that is read by attribute."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeVar, cast

__all__ = ["CaseInsensitiveDict", "LookupDict", "Mapping", "MutableMapping", "OrderedDict"]

_VT = TypeVar("_VT")


class CaseInsensitiveDict(MutableMapping[str, _VT], Generic[_VT]):
    """Map header names to values, case-insensitively.

    Iteration yields each name as it was last set, in the order in which they were first set.

    Args:
        data: a mapping, or pairs of names and values.
        kwargs: more names and values.
    """

    _store: dict[str, tuple[str, _VT]]

    def __init__(
        self, data: Mapping[str, _VT] | Iterable[tuple[str, _VT]] | None = None, **kwargs: _VT
    ) -> None:
        self._store = {}
        if data is not None or kwargs:
            self.update(() if data is None else data, **kwargs)

    def __setitem__(self, key: str, value: _VT) -> None:
        self._store[key.lower()] = (key, value)

    def __getitem__(self, key: str) -> _VT:
        return self._store[key.lower()][1]

    def __delitem__(self, key: str) -> None:
        del self._store[key.lower()]

    def __contains__(self, key: object) -> bool:
        return cast(str, key).lower() in self._store

    def __iter__(self) -> Iterator[str]:
        return iter([key for key, _ in self._store.values()])

    def __len__(self) -> int:
        return len(self._store)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a name, or the default."""
        entry = self._store.get(key.lower())
        return default if entry is None else entry[1]

    def update(self, other: Any = (), /, **kwargs: _VT) -> None:
        """Set names and values from a mapping or pairs, and from keywords."""
        if type(other) is type(self) is CaseInsensitiveDict:
            self._store.update(other._store)
            other = ()
        super().update(other, **kwargs)

    def lower_items(self) -> Iterator[tuple[str, _VT]]:
        """Yield the lower-case names with their values."""
        return ((key, entry[1]) for key, entry in self._store.items())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CaseInsensitiveDict):
            return dict(self.lower_items()) == dict(other.lower_items())
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.lower_items()) == dict(CaseInsensitiveDict(other).lower_items())

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> CaseInsensitiveDict[_VT]:
        """Return a copy that shares the values."""
        twin: CaseInsensitiveDict[_VT] = CaseInsensitiveDict.__new__(CaseInsensitiveDict)
        twin._store = self._store.copy()
        return twin

    def __repr__(self) -> str:
        return repr(dict(self._store.values()))


class LookupDict(dict[str, Any]):
    """Look up attributes as items; a missing item is None.

    Args:
        name: shown by repr().
    """

    name: str | None

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self.name = name

    def __repr__(self) -> str:
        return f"<lookup '{self.name}'>"

    def __getattr__(self, key: str) -> Any:
        # Defined so that type checkers accept any attribute.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")

    def __getitem__(self, key: str) -> Any:
        return self.__dict__.get(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the attribute of a name, or the default."""
        return self.__dict__.get(key, default)
