"""The module under test: curlhttp's drop-in, or with `--module requests` the real one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import AppServer
from tests.support.internals import close_shared_clients

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def requests(pytestconfig: pytest.Config) -> Any:
    """Return the module that `--module` names; its modules are attributes of it."""
    module = importlib.import_module(pytestconfig.getoption("module"))
    if not hasattr(module, "help"):  # the one that the real package does not import by itself
        importlib.import_module(module.__name__ + ".help")
    return module


@pytest.fixture(autouse=True)
def _fresh_pool() -> Iterator[None]:
    """Close what the functions of our module keep open."""
    yield
    close_shared_clients()


@pytest.fixture
def session(requests: Any) -> Iterator[Any]:
    """Return a session with default settings, closed at the end of the test."""
    with requests.Session() as made:
        yield made


@pytest.fixture(scope="session")
def _other_app() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


@pytest.fixture
def other_app(_other_app: AppServer) -> AppServer:
    """Return a second origin, its counters at zero."""
    _other_app.begin_test()
    return _other_app


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the real requests leave its sockets to the garbage collector."""
    if config.getoption("module") != "requests":
        return
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )
