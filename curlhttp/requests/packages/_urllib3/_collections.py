"""urllib3._collections: HTTPHeaderDict, which keeps repeated fields apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["HTTPHeaderDict", "RecentlyUsedContainer"]

_MISSING: Any = object()


def _text(name: Any) -> str:
    return name.decode("latin-1") if isinstance(name, bytes) else name


class HTTPHeaderDict(MutableMapping[str, str]):
    """Map names to values, whatever the case; repeated fields read as joined by ", ".

    Args:
        headers: a mapping or pairs; fields of the same name are all kept.
        kwargs: more fields.
    """

    _fields: dict[str, list[str]]  # lower-case name -> the name as it came, then its values

    def __init__(self, headers: Any = None, **kwargs: str) -> None:
        self._fields = {}
        if isinstance(headers, HTTPHeaderDict):
            self._take(headers)
        elif headers is not None:
            self.extend(headers)
        if kwargs:
            self.extend(kwargs)

    def _take(self, other: HTTPHeaderDict) -> None:
        self._fields = {lower: field.copy() for lower, field in other._fields.items()}

    def __setitem__(self, key: str, val: str) -> None:
        name = _text(key)
        self._fields[name.lower()] = [name, val]

    def __getitem__(self, key: str) -> str:
        field = self._fields.get(_text(key).lower())
        if field is None:
            raise KeyError(key)
        return field[1] if len(field) == 2 and isinstance(field[1], str) else ", ".join(field[1:])

    def __delitem__(self, key: str) -> None:
        lower = _text(key).lower()
        if lower not in self._fields:
            raise KeyError(key)
        del self._fields[lower]

    def __contains__(self, key: object) -> bool:
        name = _text(key)
        return isinstance(name, str) and name.lower() in self._fields

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[str]:
        for field in self._fields.values():
            yield field[0]

    def __eq__(self, other: object) -> bool:
        source = _source(other)
        if source is None:
            return False
        twin = other if isinstance(other, HTTPHeaderDict) else type(self)(source)
        return self._joined() == twin._joined()

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def _joined(self) -> dict[str, str]:
        return {lower: self[lower] for lower in self._fields}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.itermerged())})"

    def add(self, key: str, val: str, *, combine: bool = False) -> None:
        """Add a field, keeping those of the same name.

        Args:
            key: its name.
            val: its value.
            combine: join the value to the last one of that name.
        """
        name = _text(key)
        field = self._fields.get(name.lower())
        if field is None:
            self._fields[name.lower()] = [name, val]
        elif combine:
            field[-1] = f"{field[-1]}, {val}"
        else:
            field.append(val)

    def extend(self, *args: Any, **kwargs: str) -> None:
        """Add fields, keeping those of the same names.

        Args:
            args: at most one mapping, or pairs.
            kwargs: more fields.
        """
        if len(args) > 1:
            raise TypeError(f"extend() takes at most 1 positional arguments ({len(args)} given)")
        other = args[0] if args else ()
        if isinstance(other, HTTPHeaderDict):
            other = other.iteritems()
        elif isinstance(other, Mapping):
            other = other.items()
        elif hasattr(other, "keys") and hasattr(other, "__getitem__"):
            other = [(key, other[key]) for key in other.keys()]  # noqa: SIM118
        if isinstance(other, Iterable):
            for key, value in other:
                self.add(key, value)
        for key, value in kwargs.items():
            self.add(key, value)

    def getlist(self, key: str, default: Any = _MISSING) -> Any:
        """Return the values of a field, one for each time it is there.

        Args:
            key: its name.
            default: what to return when there is none; an empty list unless given.
        """
        field = self._fields.get(_text(key).lower())
        if field is None:
            return [] if default is _MISSING else default
        return field[1:]

    getheaders = getallmatchingheaders = iget = get_all = getlist

    def setdefault(self, key: str, default: str = "") -> str:
        """Return the value of a field, after setting it to the default if there is none."""
        return super().setdefault(key, default)

    def discard(self, key: str) -> None:
        """Remove a field if there is one."""
        self._fields.pop(_text(key).lower(), None)

    def copy(self) -> HTTPHeaderDict:
        """Return headers that change on their own."""
        twin = type(self)()
        twin._take(self)
        return twin

    def iteritems(self) -> Iterator[tuple[str, str]]:
        """Give the fields, repeated ones one by one."""
        for name, *values in self._fields.values():
            for value in values:
                yield name, value

    def itermerged(self) -> Iterator[tuple[str, str]]:
        """Give the fields, repeated ones joined."""
        for field in self._fields.values():
            yield field[0], ", ".join(field[1:])

    def items(self) -> HTTPHeaderDictItemView:  # type: ignore[override]
        """Return a view of the fields, repeated ones one by one."""
        return HTTPHeaderDictItemView(self)

    def _has_value_for_header(self, header_name: str, potential_value: str) -> bool:
        return potential_value in self.getlist(header_name)

    def _prepare_for_method_change(self) -> HTTPHeaderDict:
        """Remove what speaks of a body, for a redirect that sends none."""
        for name in _OF_A_BODY:
            self.discard(name)
        return self

    def __ior__(self, other: object) -> HTTPHeaderDict:
        source = _source(other)
        if source is None:
            return NotImplemented
        self.extend(source)
        return self

    def __or__(self, other: object) -> HTTPHeaderDict:
        source = _source(other)
        if source is None:
            return NotImplemented
        result = self.copy()
        result.extend(source)
        return result

    def __ror__(self, other: object) -> HTTPHeaderDict:
        source = _source(other)
        if source is None:
            return NotImplemented
        result = type(self)(source)
        result.extend(self)
        return result


_OF_A_BODY = (
    "Content-Encoding",
    "Content-Language",
    "Content-Location",
    "Content-Type",
    "Content-Length",
    "Digest",
    "Last-Modified",
)


def _source(other: object) -> Any:
    """Return what headers can be made of, or None for anything else."""
    if isinstance(other, (HTTPHeaderDict, Mapping)):
        return other
    if isinstance(other, Iterable) and not isinstance(other, (str, bytes)):
        return list(other)
    return other if hasattr(other, "keys") and hasattr(other, "__getitem__") else None


class HTTPHeaderDictItemView(set[tuple[str, str]]):
    """Show the fields of an HTTPHeaderDict, repeated ones one by one."""

    def __init__(self, headers: HTTPHeaderDict) -> None:
        super().__init__()
        self._headers = headers

    def __len__(self) -> int:
        return len(list(self._headers.iteritems()))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self._headers.iteritems()

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], str):
            return False
        return self._headers._has_value_for_header(*item)


class RecentlyUsedContainer(MutableMapping[Any, Any]):
    """Keep the entries that were used last.

    Args:
        maxsize: how many.
        dispose_func: called with each value that is let go.
    """

    def __init__(
        self, maxsize: int = 10, dispose_func: Callable[[Any], None] | None = None
    ) -> None:
        from threading import RLock

        self._maxsize = maxsize
        self.dispose_func = dispose_func
        self._entries: dict[Any, Any] = {}  # the one used last at the end
        self.lock = RLock()

    def __getitem__(self, key: Any) -> Any:
        with self.lock:
            value = self._entries[key] = self._entries.pop(key)
            return value

    def __setitem__(self, key: Any, value: Any) -> None:
        with self.lock:
            gone = [self._entries.pop(key)] if key in self._entries else []
            self._entries[key] = value
            if len(self._entries) > self._maxsize:
                gone.append(self._entries.pop(next(iter(self._entries))))
        self._dispose(gone)

    def __delitem__(self, key: Any) -> None:
        with self.lock:
            value = self._entries.pop(key)
        self._dispose([value])

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("another thread may change the entries meanwhile; use keys()")

    def clear(self) -> None:
        """Let go of all entries."""
        with self.lock:
            gone = list(self._entries.values())
            self._entries.clear()
        self._dispose(gone)

    def keys(self) -> set[Any]:  # type: ignore[override]
        """Return the keys as they are now."""
        with self.lock:
            return set(self._entries)

    def _dispose(self, values: list[Any]) -> None:
        if self.dispose_func:
            for value in values:
                self.dispose_func(value)
