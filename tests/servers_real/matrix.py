"""Which tests run with which servers, through which of their doors, by which ways in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from curlhttp._curl import has_http3
from tests.servers_real.origins import ORIGINS
from tests.servers_real.program import Program
from tests.servers_real.proxies import FORWARD, REVERSE, Toxiproxy
from tests.support.colours import COLOURS

SERVERS = {kind.name: kind for kind in (*ORIGINS, *REVERSE)}
KINDS: dict[str, type[Program]] = {
    **SERVERS,
    **{kind.name: kind for kind in FORWARD},
    Toxiproxy.name: Toxiproxy,
}
H1_DOORS = ("plain", "tls")


def _all_doors(able: str | None) -> list[tuple[str, str]]:
    return [
        (name, door)
        for name, kind in SERVERS.items()
        if able is None or able in kind.can
        for door in kind.doors
        if door != "h3" or has_http3()
    ]


def doors(able: str | None = None, only: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test with each door of each server that can do something, or with some doors."""
    found = [pair for pair in _all_doors(able) if not only or pair[1] in only]
    return pytest.mark.parametrize(("name", "door"), found)


def doors_and_ways(
    of_clients: Sequence[str], of_sessions: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Run a test with each door, by each way in of clients of all colours, and of the drop-in."""
    found = [
        (name, door, colour, way)
        for name, door in _all_doors(None)
        for colour in COLOURS
        for way in of_clients
    ]
    found += [
        (name, door, "blocking", way)
        for name, door in _all_doors(None)
        if door in H1_DOORS
        for way in of_sessions
    ]
    return pytest.mark.parametrize(("name", "door", "colour", "way"), found, indirect=["colour"])
