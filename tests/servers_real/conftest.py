"""Fixtures that start servers on request, senders to them, and the ledger of all requests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from curlhttp import requests
from tests.adversary.watchdog import Watchdog
from tests.servers import Certs
from tests.servers_real.ledger import Ledger
from tests.servers_real.matrix import KINDS
from tests.servers_real.program import Backend, Program, Surroundings, make_files
from tests.servers_real.sender import Sender
from tests.support.colours import AnyClient

_HUNG = 200.0  # seconds for a test, each of whose requests has its own limit
_KEY = "servers_real"
_LEDGER = Ledger()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.servers_real)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what a process of pytest-xdist counted to the one that prints it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = {name: dict(counts) for name, counts in _LEDGER.counts.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process counted."""
    _LEDGER.add(getattr(node, "workeroutput", {}).get(_KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was sent, and the outcome."""
    if _LEDGER.counts:
        terminalreporter.section("servers that nobody here wrote")
        terminalreporter.write_line(_LEDGER.table(KINDS.values()))


class Programs:
    """Those that run, each started when it is asked for first."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self._running: dict[str, Program] = {}

    def get(self, name: str) -> Program:
        """Return a program that runs; skip the test if it is not installed."""
        if name not in self._running:
            program = KINDS[name](self.around)
            program.start()
            self._running[name] = program
        return self._running[name]

    def stop(self) -> None:
        """End them all."""
        for program in self._running.values():
            program.stop()


@pytest.fixture(scope="session")
def around(certs: Certs) -> Iterator[Surroundings]:
    """Give what all programs share."""
    with tempfile.TemporaryDirectory(prefix="curlhttp-real-") as made, Backend() as backend:
        folder = Path(made)
        folder.chmod(0o755)
        make_files(folder)
        yield Surroundings(certs, backend, folder)


@pytest.fixture(scope="session")
def programs(around: Surroundings) -> Iterator[Programs]:
    """Give the programs, which end with the session."""
    made = Programs(around)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def watchdog() -> Iterator[Watchdog]:
    """End the process if a test hangs, in a call that blocks, too."""
    with Watchdog(_HUNG) as dog:
        yield dog


@pytest.fixture(autouse=True)
def _nothing_hangs(watchdog: Watchdog, request: pytest.FixtureRequest) -> Iterator[None]:
    with watchdog.watching(request.node.nodeid):
        yield


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """Give what counts; at the end of the test what was sent is compared with what came."""
    yield _LEDGER
    _LEDGER.settle()


@pytest.fixture
def sender_through(
    make_client: Callable[..., AnyClient],
    session: requests.Session,
    programs: Programs,
    ledger: Ledger,
    tmp_path: Path,
) -> Callable[..., Sender]:
    """Return a function that makes a talk with nginx by a proxy: talk_through("squid", "h2")."""

    def make(name: str, endpoint: str, port: str = "plain", credentials: str = "") -> Sender:
        proxy, found = programs.get(name), programs.get("nginx").endpoint(endpoint)
        # Else Dante would be told an address of IPv6, at which nothing listens.
        found = found._replace(url=found.url.replace("localhost", "127.0.0.1"))
        url = proxy.proxy_url(port, credentials)
        session.proxies = {"http": url, "https": url}
        client = make_client(proxies=url, **found.settings)
        return Sender(client, session, proxy, found, ledger, tmp_path)

    return make


@pytest.fixture
def sender_for(
    make_client: Callable[..., AnyClient],
    session: requests.Session,
    programs: Programs,
    ledger: Ledger,
    tmp_path: Path,
) -> Callable[..., Sender]:
    """Return a function that makes a talk: talk_with("nginx", "h2")."""

    def make(name: str, endpoint: str, port: str | None = None, **settings: object) -> Sender:
        program = programs.get(name)
        found = program.endpoint(endpoint, port)
        client = make_client(**{**found.settings, **settings})
        return Sender(client, session, program, found, ledger, tmp_path)

    return make
