"""How many connections an engine has open, and how many of them are in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from curlhttp._curl.connections import Connections
from curlhttp._curl.transfer import Transfer

__all__ = ["Counts", "count_connections"]

Counts: TypeAlias = "Counter[tuple[str, bool]]"
"""Numbers of connections by their origin, and by whether they are in use."""


def count_connections(known: Iterable[Connections], at_work: Iterable[Transfer]) -> Counts:
    """Return how many connections are open; may be called from any thread.

    Args:
        known: what is known of them.
        at_work: transfers that are not idle.
    """
    used = {id(transfer.connection) for transfer in at_work}
    every = {id(each): each for connections in known for each in connections.open()}
    return Counter((each.origin, number in used) for number, each in every.items())
