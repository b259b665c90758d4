"""Shared fixtures: servers, certificates, clients of every colour, and a leak check."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from curlhttp import requests
from curlhttp.testing import ScriptedEngine
from tests.servers import HTTP2, AppServer, Certs, H2Server
from tests.support import pace, shards
from tests.support.colours import (
    BACKENDS,
    EACH_COLOUR,
    IS_WINE,
    ONE_OF_EACH,
    QUICK_COLOURS,
    AnyClient,
    is_quick,
    skip_where_impossible,
    take_turns,
)
from tests.support.every_api import Fetch, make_fetch
from tests.support.internals import close_shared_clients
from tests.support.scripted import Scripted

_SETTINGS = ("CURL_CA_BUNDLE", "NETRC", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE")

for _name in list(os.environ):  # the machine's own settings and terminal are not under test
    if _name.lower().endswith("_proxy") or _name in (*_SETTINGS, "COLUMNS", "LINES"):
        del os.environ[_name]


# A deadline is a bound in seconds.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("any machine"), max_examples=25)
settings.load_profile("any machine")

# A shell starts what runs in the background with SIGINT ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options (only this conftest is read in time)."""
    parser.addoption("--module", default="curlhttp.requests", help="what the contract tests")
    parser.addoption("--note-seconds", action="store_true", help="write tests/support/seconds.json")


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run the whole suite in several processes, and named tests in this one."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    if config.option.file_or_dir:
        return 0
    if shards.NOT_SLOW not in config.option.markexpr:
        return shards.PROCESSES_OF_SLOW
    config.pluginmanager.register(shards.Shards(config))
    return shards.PROCESSES


def pytest_configure(config: pytest.Config) -> None:
    """Have the quick run try few examples, and a process of the whole suite send few reports.

    It sends all if their seconds are asked for.
    """
    if _is_whole(config) and is_quick(config):
        settings.load_profile("quick")
    if shards.is_process(config) and not config.option.note_seconds:
        config.pluginmanager.register(shards.FewReports())


def _is_whole(config: pytest.Config) -> bool:
    return not config.option.file_or_dir


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files of other processes alone."""
    return shards.is_of_another(collection_path, config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have cases of the whole suite take turns with colours, and mix the files of a process."""
    if _is_whole(config):
        take_turns([item for item in items if item.get_closest_marker("servers_real") is None])
    if shards.is_process(config):
        shards.mix(items)


def pytest_report_header() -> str | None:
    """Say how slow the machine is, which here is measured before there are workers."""
    return f"pace: {pace.PACE} times as slow as a quiet machine" if pace.PACE > 1 else None


_NOT_IN_WINE = {  # what errors say, and why
    "failed to create certificate chain engine": "wine checks no certificates against a file",
    "WinError 10045": "wine lacks SIO_BSP_HANDLE_SELECT, which trio needs",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Skip a test that fails because of what wine lacks."""
    report = yield
    if IS_WINE and report.failed:
        for text, reason in _NOT_IN_WINE.items():
            if text in str(report.longrepr):
                report.outcome = "skipped"
                report.longrepr = (str(report.fspath), report.location[1], f"Skipped: {reason}")
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the reasons of skipped tests on Windows, where they are too many to be listed."""
    if sys.platform == "win32":
        skipped = terminalreporter.stats.get("skipped", ())
        for reason, count in Counter(report.longrepr[2] for report in skipped).most_common():
            terminalreporter.write_line(f"{count} x {reason}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Measure how slow the machine is, for the times of the test."""
    pace.look()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test in the colours that it or its module names; on a script in two; else in all."""
    marks = list(metafunc.definition.iter_markers("parametrize"))
    if "colour" not in metafunc.fixturenames or any("colour" in mark.args[0] for mark in marks):
        return
    named = metafunc.definition.get_closest_marker("colours")
    if named is None and "scripted" in metafunc.fixturenames:
        named = ONE_OF_EACH.mark
    colours = QUICK_COLOURS if is_quick(metafunc.config) else EACH_COLOUR
    metafunc.parametrize("colour", named.args if named else colours, indirect=True)


@pytest.fixture
def colour(request: pytest.FixtureRequest) -> str:
    """Return the kind of client that the test runs with, in turn."""
    skip_where_impossible(str(request.param))
    return str(request.param)


@pytest.fixture
def anyio_backend(colour: str) -> Any:
    skip_where_impossible(colour)
    return BACKENDS[colour]


@pytest.fixture
async def make_client(
    colour: str, certs: Certs, anyio_backend: Any
) -> AsyncIterator[Callable[..., AnyClient]]:
    """Return a function that makes clients, which are closed at the end of the test.

    They trust the test's own authority.
    """
    made: list[AnyClient] = []

    def make(**settings: Any) -> AnyClient:
        # wine cannot check certificates against a file, so there TLS is only tried without.
        settings.setdefault("verify", not IS_WINE and certs.ca_path)
        client = AnyClient(colour, **settings)
        made.append(client)
        return client

    yield make
    for client in made:
        await client.aclose()


@pytest.fixture
def client(make_client: Callable[..., AnyClient]) -> AnyClient:
    """Return a client with default settings."""
    return make_client()


@pytest.fixture
def session(certs: Certs) -> Iterator[requests.Session]:
    """Return a session of the drop-in that trusts the test's own authority."""
    with requests.Session() as made:
        made.verify = not IS_WINE and str(certs.ca_path)
        yield made


@pytest.fixture
def fetch(client: AnyClient, api: str, tmp_path: Path, session: requests.Session) -> Fetch:
    """Return a function that sends a GET with one of the APIs of EVERY_API."""
    return make_fetch(client, api, tmp_path, session)


@pytest.fixture
def scripted(make_client: Callable[..., AnyClient]) -> Scripted:
    """Return a function that makes a client on a script, and its engine."""

    def make(script: Any, retry: Any = None, **settings: Any) -> tuple[AnyClient, ScriptedEngine]:
        engine = ScriptedEngine(script)
        return make_client(transport=engine, retry=retry, **settings), engine

    return make


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certs:
    return Certs(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="session")
def _app() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


@pytest.fixture
def app(_app: AppServer) -> AppServer:
    """Return an HTTP/1.1 server, its counters at zero."""
    _app.begin_test()
    return _app


@pytest.fixture(scope="session")
def _tls_app(certs: Certs) -> Iterator[AppServer]:
    with AppServer(certs.server_context()) as server:
        yield server


@pytest.fixture
def tls_app(_tls_app: AppServer) -> AppServer:
    """Return an HTTP/1.1 server on TLS, its counters at zero."""
    _tls_app.begin_test()
    return _tls_app


@pytest.fixture(scope="session")
def _h2_app(certs: Certs) -> Iterator[H2Server]:
    with H2Server(certs.server_context(alpn=HTTP2)) as server:
        yield server


@pytest.fixture
def h2_app(_h2_app: H2Server) -> H2Server:
    """Return an HTTP/2 server on TLS, its counters at zero."""
    _h2_app.begin_test()
    return _h2_app


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def server(request: pytest.FixtureRequest) -> AppServer:
    """Return the application on HTTP/1.1 and on HTTP/2, in turn."""
    name = "app" if request.param == "HTTP/1.1" else "h2_app"
    found: AppServer = request.getfixturevalue(name)
    return found


@pytest.fixture
def any_client(make_client: Callable[..., AnyClient]) -> AnyClient:
    """Return a client that speaks HTTP/2 where it is offered."""
    return make_client(http2=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Release the fixtures of the test, because its clients would count as leaks."""
    getattr(item, "funcargs", {}).clear()


@pytest.fixture(scope="session", autouse=True)
def _nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the session if handles, tasks, threads, sockets or pipes are left over."""
    if sys.platform != "win32":
        from multiprocessing import resource_tracker

        import uvloop

        uvloop.new_event_loop().close()  # libuv opens a pipe with its first loop, for good
        resource_tracker.ensure_running()  # the one of spawned processes, with a pipe, for good
    files, threads = _open_files(), set(threading.enumerate())
    yield
    gc.unfreeze()
    if request.session.testsfailed or request.config.getoption("module") == "requests":
        return  # a failure's traceback holds what the test had; the real requests leaves sockets
    close_shared_clients()
    for find in (_handles, _tasks, lambda: _threads(threads), lambda: _open_files() - files):
        left = _what_stays(find)
        assert not left, f"{len(left)} left over, for example {list(left)[:5]}"


@pytest.fixture(scope="module", autouse=True)
def _collecting_is_quick() -> None:
    """Keep thousands of tests and their reports out of each gc.collect(), which many tests call."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _functions_keep_no_connections() -> None:
    """Close the connections that curlhttp.get() kept before, because some tests count them."""
    close_shared_clients()


def _what_stays(find: Callable[[], Collection[Any]], seconds: float = 30.0) -> Collection[Any]:
    """Return what remains after a while: threads and sockets may still be closing."""
    end = time.monotonic() + seconds
    while (left := find()) and time.monotonic() < end:
        del left
        gc.collect()
        threading.Event().wait(0.05)
    return left


def _handles() -> list[str]:
    import pycurl

    kinds = (pycurl.Curl, pycurl.CurlMulti, pycurl.CurlShare)
    return [repr(thing) for thing in gc.get_objects() if isinstance(thing, kinds)]


def _tasks() -> list[str]:
    """Return the asyncio tasks that wait for ever because their loops have ended."""
    tasks = [thing for thing in gc.get_objects() if isinstance(thing, asyncio.Task)]
    return [repr(task) for task in tasks if not task.done()]


def _threads(before: set[threading.Thread]) -> list[str]:
    names = [thread.name for thread in set(threading.enumerate()) - before]
    return [name for name in names if not name.startswith("Trio thread")]  # idle ones are kept


def _open_files() -> set[str]:
    """Return the sockets, pipes and pollers of this process by their kind and inode (Linux)."""
    found = set()
    for descriptor in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the one that this reads with
            target = os.readlink(descriptor)
            if target.startswith(("socket:", "pipe:")):
                found.add(target)
            elif target == "anon_inode:[eventpoll]":
                found.add(f"{target} as {descriptor.name}")
    return found
