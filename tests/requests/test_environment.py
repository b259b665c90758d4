"""What a request of the drop-in asks of the environment."""

from __future__ import annotations

import os

import certifi
import pytest

from curlhttp import requests
from tests.servers import AppServer


def test_plain_http_looks_once_whether_the_ca_file_of_the_environment_exists(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, exists = certifi.where(), os.path.exists
    looked: list[object] = []

    def looking(path: str) -> bool:
        looked.append(path)
        return exists(path)

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", path)
    monkeypatch.setattr(os.path, "exists", looking)
    with requests.Session() as session:
        session.get(app.url)
        looked.clear()
        for _ in range(3):
            assert session.get(app.url).status_code == 200
    assert path not in looked
