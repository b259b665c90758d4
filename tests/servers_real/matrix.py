"""Which tests run with which servers, at which of their endpoints, with which APIs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.servers_real.origins import ORIGINS
from tests.servers_real.program import Program
from tests.servers_real.proxies import FORWARD, REVERSE, Toxiproxy
from tests.support.colours import COLOURS, HAS_HTTP3

SERVERS = {kind.name: kind for kind in (*ORIGINS, *REVERSE)}
KINDS: dict[str, type[Program]] = {
    **SERVERS,
    **{kind.name: kind for kind in FORWARD},
    Toxiproxy.name: Toxiproxy,
}
H1_ENDPOINTS = ("plain", "tls")


def _all_endpoints(able: str | None) -> list[tuple[str, str]]:
    return [
        (name, endpoint)
        for name, kind in SERVERS.items()
        if able is None or able in kind.can
        for endpoint in kind.endpoints
        if endpoint != "h3" or HAS_HTTP3
    ]


def endpoints(able: str | None = None, only: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test with each endpoint, or some, of each server that supports a feature."""
    found = [pair for pair in _all_endpoints(able) if not only or pair[1] in only]
    return pytest.mark.parametrize(("name", "endpoint"), found)


def endpoints_and_apis(
    of_clients: Sequence[str], of_sessions: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Run a test with each endpoint and each API of clients of all colours and of the drop-in."""
    found = [
        (name, endpoint, colour, api)
        for name, endpoint in _all_endpoints(None)
        for colour in COLOURS
        for api in of_clients
    ]
    found += [
        (name, endpoint, "blocking", api)
        for name, endpoint in _all_endpoints(None)
        if endpoint in H1_ENDPOINTS
        for api in of_sessions
    ]
    return pytest.mark.parametrize(
        ("name", "endpoint", "colour", "api"), found, indirect=["colour"]
    )
