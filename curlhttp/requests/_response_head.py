"""The head of a response in the terms of http.client, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

from curlhttp._models.response import Response

__all__ = ["Head", "Message"]

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


_VERSIONS = {"HTTP/1.0": 10, "HTTP/1.1": 11, "HTTP/2": 20, "HTTP/3": 30}


class Head:
    """What http.client's response and urllib3's have in common.

    Args:
        received: the response that the engine gave.
    """

    def __init__(self, received: Response) -> None:
        self.received = received

    @cached_property
    def status(self) -> int:
        """Return the status code."""
        return self.received.status_code

    @cached_property
    def reason(self) -> str:
        """Return the reason phrase."""
        return self.received.reason

    @cached_property
    def version(self) -> int:
        """Return 10, 11, 20 or 30."""
        return _VERSIONS.get(self.received.http_version, 11)

    @cached_property
    def msg(self) -> Message:
        """Return the header fields as http.client gives them."""
        return Message(self.received.headers.multi_items())

    @cached_property
    def chunked(self) -> bool:
        """Return whether the body comes in chunks."""
        return "chunked" in self.received.headers.get("transfer-encoding", "").lower()
