"""Resolver: names are resolved in threads, and abandoned ones are skipped."""

from __future__ import annotations

import threading

import pytest

from curlhttp._curl import address_guard as lookups
from curlhttp._curl.address_guard import Resolver
from curlhttp._engine.run import ThreadWaiter, run_sync


def test_a_name_that_nobody_waits_for_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    asked: list[str] = []

    def addresses(host: str, family: int) -> list[str]:
        asked.append(host)
        begun.set()
        assert goes_on.wait(30)
        return [host]

    monkeypatch.setattr(lookups, "_THREADS", 1)
    monkeypatch.setattr(lookups, "_addresses", addresses)
    found = Resolver(60)
    first = threading.Thread(
        target=lambda: run_sync(lambda: found.find("slow", 0, ThreadWaiter, 30))
    )
    first.start()
    assert begun.wait(30)
    assert run_sync(lambda: found.find("given up", 0, ThreadWaiter, 0)) is None
    goes_on.set()
    assert run_sync(lambda: found.find("wanted", 0, ThreadWaiter, 30)) == ["wanted"]
    first.join()
    assert asked == ["slow", "wanted"]
