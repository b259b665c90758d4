"""`curlhttp doctor`."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import run


def test_doctor_shows_the_effective_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:sesame@proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "localhost")
    ended = run("doctor", "--json")
    found = json.loads(ended.out)
    assert ended.status == 0
    assert found["libcurl"].count(".") == 2
    assert found["tls"].split()[0] in found["libraries"]
    assert found["proxies"] == {
        "http": None,
        "https": "http://proxy.test:3128 (with credentials)",
    }
    assert found["no_proxy"] == "localhost"
    assert found["ca_bundle"]["from"] == "certifi"
    assert set(found["event_loops"]) - {"uvloop"} == {"asyncio", "trio"}
    assert found["open_files"]["max_connections"] < found["open_files"]["limit"]
    shown = run("doctor").out.decode()
    assert "proxy.test:3128 (with credentials)" in shown
    assert "sesame" not in shown + ended.out.decode()


def test_doctor_warns_of_settings_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    monkeypatch.setenv("http_proxy", "gopher://x")
    ended = run("doctor")
    assert ended.status == 1
    warnings = [line for line in ended.out.decode().splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    missing = "REQUESTS_CA_BUNDLE is /nowhere/ca.pem, which does not exist: https requests fail"
    assert missing in warnings[0]
    assert run("get", "http://127.0.0.1:1/").status == 5
