"""Run the scenario of one package: `python -m tests.ecosystem.run github [--module requests]`.

Says what `import requests` means before the package is imported; runs every check of the scenario
against its own server; prints a line for each, and ends with a count.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any
from unittest import mock

from tests.servers import AppServer

_SETTINGS = ("CURL_CA_BUNDLE", "NETRC", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", help="the name of a module in tests/ecosystem/scenarios")
    parser.add_argument("check", nargs="*", help="names of checks; all of them without")
    parser.add_argument("--module", default="curlhttp.requests", help="or: requests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        _leave_the_machine_aside(directory)
        if options.module != "requests":
            _use_curlhttp()
        scenario = importlib.import_module(f"tests.ecosystem.scenarios.{options.package}")
        beside = getattr(scenario, "BESIDE_CURLHTTP", ()) if options.module != "requests" else None
        failed = [
            name
            for name, check in _checks(scenario)
            if (not options.check or name in options.check)
            and not _passes(name, check, beside is None or name in beside)
        ]
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "OK")  # noqa: T201
    return 1 if failed else 0


def _leave_the_machine_aside(directory: str) -> None:
    """Work in an empty directory, as a user who has nothing configured."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in _SETTINGS:
            del os.environ[name]
    os.environ["HOME"] = directory
    os.chdir(directory)


def _use_curlhttp() -> None:
    import curlhttp

    curlhttp.alias_requests()
    requests: Any = importlib.import_module("requests")
    assert requests.Session.__module__.startswith("curlhttp."), requests.Session


def _checks(scenario: ModuleType) -> Iterator[tuple[str, Callable[[AppServer], None]]]:
    for name, value in list(vars(scenario).items()):
        here = getattr(value, "__module__", None) == scenario.__name__
        if here and not name.startswith("_") and not isinstance(value, type):
            yield name, value


def _passes(name: str, check: Callable[[AppServer], None], may_use_http_client: bool) -> bool:
    guard = nullcontext() if may_use_http_client else _no_http_client()
    try:
        with AppServer() as app, guard:
            check(app)
    except Exception:
        print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)  # noqa: T201
        return False
    print(f"ok {name}", flush=True)  # noqa: T201
    return True


def _no_http_client() -> AbstractContextManager[Any]:
    """Let every request fail that does not go through curlhttp."""
    error = AssertionError("a request went through http.client, past curlhttp")
    return mock.patch("http.client.HTTPConnection.putrequest", side_effect=error)


if __name__ == "__main__":
    sys.exit(main())
