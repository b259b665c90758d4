"""The modules themselves: imported lazily, with a clear error for a missing library."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.httpx.clients import AnyHTTPX
from tests.servers import AppServer
from tests.test_architecture import loaded_after


def test_importing_curlhttp_loads_neither_library() -> None:
    names = "httpx httpx2 curlhttp._httpx curlhttp.httpx curlhttp.httpx2"
    assert loaded_after("import curlhttp; curlhttp.Client().close()", names) == set()


def test_one_library_does_without_the_other() -> None:
    names = "httpx httpx2 httpcore httpcore2"
    assert loaded_after("import curlhttp; curlhttp.httpx.Transport().close()", names) <= {"httpx"}
    assert loaded_after("import curlhttp; curlhttp.httpx2.Transport().close()", names) <= {"httpx2"}


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_a_missing_library_is_an_error_that_names_the_extra(name: str) -> None:
    code = f"import sys; sys.modules[{name!r}] = None; import curlhttp; curlhttp.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert f"pip install 'curlhttp[{name}]'" in done.stderr.splitlines()[-1]
    code = f"import sys; sys.modules[{name!r}] = None; from curlhttp import *; Client().close()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own_connections(library: object, app: AppServer) -> None:
    client = AnyHTTPX("blocking", library)
    assert client.real.get(app.url).content == b"hello"
    child = os.fork()
    if not child:
        try:
            os._exit(0 if client.real.get(f"{app.url}/bytes/7").content[:1] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.real.get(f"{app.url}/bytes/3").num_bytes_downloaded == 3
    assert app.connections == 2
    client.real.close()
