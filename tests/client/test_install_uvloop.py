"""install_uvloop: asyncio runs on uvloop if it is installed."""

from __future__ import annotations

import pytest

from tests.servers import AppServer
from tests.support.internals import run_script

pytestmark = pytest.mark.slow

_GET = """
import asyncio, sys
if sys.argv[2] == "missing":
    sys.modules["uvloop"] = None  # importing it fails now
from curlhttp import install_uvloop
print(install_uvloop())
import curlhttp

async def main():
    print(type(asyncio.get_running_loop()).__module__.partition(".")[0])
    async with curlhttp.AsyncClient() as client:
        print((await client.get(sys.argv[1])).text)

asyncio.run(main())
"""


def test_it_has_asyncio_run_on_uvloop(app: AppServer) -> None:
    assert run_script(_GET, app.url, "there").split() == ["True", "uvloop", "hello"]


def test_without_uvloop_it_does_nothing(app: AppServer) -> None:
    assert run_script(_GET, app.url, "missing").split() == ["False", "asyncio", "hello"]
