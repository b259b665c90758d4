"""Python imports this at its start: httpx's clients send through libcurl by default.

So do those of httpx2, where that is installed.
"""

from contextlib import suppress
from importlib import import_module

for _name in ("httpx", "httpx2"):
    with suppress(ImportError):
        _ours = import_module(f"curlhttp.{_name}")
        for _part in ("", "._client", "._transports.default"):
            _module = import_module(f"{_name}{_part}")
            _module.HTTPTransport = _ours.Transport  # type: ignore[attr-defined]
            _module.AsyncHTTPTransport = _ours.AsyncTransport  # type: ignore[attr-defined]
