"""Invented names that libcurl resolves to scripted addresses, another one each time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pycurl
import pytest

from curlhttp._curl.handle import Handle


class Names:
    """Tell libcurl the addresses of names (CURLOPT_RESOLVE), for each attempt the next response.

    Args:
        patch: undoes it.
        answers: lists of "address[,address...]" by name; the last one stays.
    """

    def __init__(self, patch: pytest.MonkeyPatch, responses: Mapping[str, list[str]]) -> None:
        self.answers = {name: list(each) for name, each in responses.items()}
        self._lock = threading.Lock()
        prepare = Handle.prepare

        def prepared(handle: Handle, request: Any) -> None:
            prepare(handle, request)
            url = request.url
            if url.host in self.answers:
                entry = f"{url.host}:{url.port}:{self._next(url.host)}"
                handle.easy.setopt(pycurl.RESOLVE, [entry])

        patch.setattr(Handle, "prepare", prepared)

    def _next(self, name: str) -> str:
        with self._lock:
            responses = self.answers[name]
            return responses.pop(0) if len(responses) > 1 else responses[0]
