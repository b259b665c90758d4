"""The pytest plugin: the fixture curlhttp_mock.

It is not in the package, because pytest imports the plugins of all installed packages, and a
project that does not use this one must not wait until libcurl is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from curlhttp.testing import Mock

__all__ = ["curlhttp_mock"]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "curlhttp_mock(base_url='', assert_all_called=True, real_time=False): "
        "settings of the fixture curlhttp_mock",
    )


@pytest.fixture
def curlhttp_mock(request: pytest.FixtureRequest) -> Iterator[Mock]:
    """Replace the network for all clients of curlhttp; see curlhttp.testing.Mock."""
    from curlhttp.testing import mock

    settings = {}
    for mark in reversed(list(request.node.iter_markers("curlhttp_mock"))):
        settings.update(mark.kwargs)
    failed = request.session.testsfailed
    mocked = mock(**settings)
    mocked.start()
    yield mocked
    mocked.stop()
    if request.session.testsfailed == failed:  # otherwise the test itself has failed
        mocked.check()
