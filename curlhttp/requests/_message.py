"""Header fields as http.client gives them: what `response.raw` has of email's Message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

__all__ = ["Message"]

_Default = TypeVar("_Default")


class Message:
    """Header fields, in the part of email.message.Message that is in use."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def get_all(self, name: str, failobj: _Default | None = None) -> list[str] | _Default | None:
        """Return all values of a field, or failobj."""
        wanted = name.lower()
        return [value for field, value in self._fields if field.lower() == wanted] or failobj

    getheaders = get_all

    def get(self, name: str, failobj: str | None = None) -> str | None:
        """Return the first value of a field, or failobj."""
        found = self.get_all(name)
        return found[0] if found else failobj

    def __getitem__(self, name: str) -> str | None:
        return self.get(name)

    def __contains__(self, name: str) -> bool:
        return self.get_all(name) is not None

    def items(self) -> list[tuple[str, str]]:
        """Return names and values."""
        return list(self._fields)

    def keys(self) -> list[str]:
        """Return the names."""
        return [name for name, _ in self._fields]

    def values(self) -> list[str]:
        """Return the values."""
        return [value for _, value in self._fields]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._fields)
