"""Invented names that libcurl resolves to scripted addresses, another one each time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pycurl
import pytest

from tests.support.internals import after_prepare


class Names:
    """Set the addresses of names for libcurl (CURLOPT_RESOLVE), for each attempt the next ones.

    Args:
        patch: undoes it.
        addresses: lists of "address[,address...]" by name; the last one stays.
    """

    def __init__(self, patch: pytest.MonkeyPatch, addresses: Mapping[str, list[str]]) -> None:
        self.addresses = {name: list(each) for name, each in addresses.items()}
        self._lock = threading.Lock()

        def resolve(easy: Any, request: Any) -> None:
            url = request.url
            if url.host in self.addresses:
                entry = f"{url.host}:{url.port}:{self._next(url.host)}"
                easy.setopt(pycurl.RESOLVE, [entry])

        after_prepare(patch, resolve)

    def _next(self, name: str) -> str:
        with self._lock:
            left = self.addresses[name]
            return left.pop(0) if len(left) > 1 else left[0]
