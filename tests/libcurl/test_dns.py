"""Names that libcurl has cached: those that failed are looked up again."""

from __future__ import annotations

import time

import pycurl
import pytest

from curlhttp import Client
from curlhttp._libcurl import dns


class _Easy:
    """Keeps what is set on it."""

    def __init__(self) -> None:
        self.options: dict[int, list[str]] = {}

    def setopt(self, option: int, value: list[str]) -> None:
        self.options[option] = value


def test_the_cache_of_a_driver_keeps_the_names_of_a_bounded_number_of_hosts() -> None:
    names, easy = dns.CachedNames(60), _Easy()
    with Client() as client:
        every = [
            client.build_request("GET", f"http://10.0.{n >> 8}.{n & 255}/") for n in range(900)
        ]
    for request in (*every, *every[-100:]):
        names.add(request)
    names.set_removals(easy, every[0])
    removed = easy.options[pycurl.RESOLVE]
    assert removed == [f"-10.0.{n >> 8}.{n & 255}:80" for n in range(500)]
    assert names.surplus == []


def test_ipv6_addresses_and_proxies_are_removed_too() -> None:
    names, easy = dns.CachedNames(60), _Easy()
    with Client(proxy="http://proxy.test:3128") as client:
        request = client.build_request("GET", "https://[::1]:8443/")
    names.forget(request)
    assert dns.has_failed(request)
    names.set_removals(easy, request)
    assert easy.options[pycurl.RESOLVE] == ["-[::1]:8443", "-proxy.test:3128"]


def test_names_that_failed_long_ago_are_not_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, easy = dns.CachedNames(60), _Easy()
    with Client() as client:
        request = client.build_request("GET", "http://long-ago.test/")
    monkeypatch.setattr(dns, "FAILED", {})
    names.forget(request)
    later = time.monotonic() + 61
    monkeypatch.setattr(dns, "monotonic", lambda: later)
    names.set_removals(easy, request)
    assert easy.options == {}
    assert not dns.has_failed(request)
    assert not dns.FAILED  # so that further requests need not look


def test_without_dns_ttl_nothing_is_remembered() -> None:
    with Client() as client:
        request = client.build_request("GET", "http://no-ttl.test/")
    dns.CachedNames(0).forget(request)
    assert not dns.has_failed(request)
