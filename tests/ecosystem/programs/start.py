"""Start a program from PyPI on a library: `python start.py curlhttp http GET ...`.

The second argument is the library, the third the console script; the rest is for the program.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import NoReturn


def refuse(*args: object, **kwargs: object) -> NoReturn:
    """Stand in for what only requests calls."""
    raise AssertionError("a request went through http.client, past curlhttp")


library, name = sys.argv[1:3]
sys.argv = [name, *sys.argv[3:]]
sys.path.pop(0)  # this folder
if library == "curlhttp":
    import http.client

    import curlhttp

    curlhttp.alias_requests()
    http.client.HTTPConnection.putrequest = refuse  # type: ignore[method-assign]
(script,) = entry_points(group="console_scripts", name=name)
sys.exit(script.load()())
