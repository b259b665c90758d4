"""What an engine of tests was asked for, for assertions."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from curlhttp._models.headers import Headers

__all__ = ["Sent", "fields_of"]


class Sent(NamedTuple):
    """One attempt, as the engine got it.

    Attributes:
        at: the time on the engine's clock.
        method: such as "GET".
        url: without userinfo.
        headers: a copy of them.
        body: what of it was read, b"" when there is none.
        arrived: any byte of it left this machine, as far as the script says.
    """

    at: float
    method: str
    url: str
    headers: Headers
    body: bytes
    arrived: bool

    @property
    def text(self) -> str:
        """Return the body as UTF-8."""
        return self.body.decode()

    @property
    def params(self) -> dict[str, str | list[str]]:
        """Return the query; of a name that comes more than once, a list."""
        return fields_of(self.url.partition("#")[0].partition("?")[2])

    @property
    def form(self) -> dict[str, str | list[str]]:
        """Return the body of a form (application/x-www-form-urlencoded) likewise."""
        return fields_of(self.text)

    def json(self) -> Any:  # Any: what JSON holds
        """Return what the body holds as JSON.

        Raises:
            ValueError: it is no JSON.
        """
        return json.loads(self.body)


def fields_of(text: str) -> dict[str, str | list[str]]:
    """Return the fields of a query or form; of a name that comes more than once, a list."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
