"""Which hosts require HTTPS (RFC 6797)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._features.hsts.policy import HSTSStore, parse_field


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("max-age=10", (10, False)),
        ('Max-Age="10" ; includeSubDomains', (10, True)),
        (" includesubdomains;max-age=0;preload ;", (0, True)),
        ("max-age=10; x=y; z", (10, False)),
        ("max-age=99999999999999999999", (10 * 365 * 24 * 3600, False)),
        ("includeSubDomains", None),
        ("max-age", None),
        ("max-age=-1", None),
        ("max-age=1.5", None),
        ("max-age=\u0661", None),
        ("max-age=1; max-age=2", None),
        ("max-age=1 includeSubDomains", None),
        ("max-age=1, max-age=2", None),
        ("", None),
    ],
)
def test_a_field_is_read_as_the_rfc_has_it(value: str, found: tuple[int, bool] | None) -> None:
    assert parse_field(value) == found


@given(st.text())
def test_no_field_is_an_error(value: str) -> None:
    hosts = HSTSStore()
    hosts.note("a.test", value, 0.0)
    hosts.covers("a.test", 0.0)


def test_a_host_is_known_until_its_time_is_over() -> None:
    hosts = HSTSStore()
    assert hosts.note("a.test", "max-age=10", 100.0)
    assert hosts.covers("a.test", 109.9)
    assert hosts.covers("a.test.", 109.9)
    assert not hosts.covers("a.test", 110.0)
    assert not hosts.covers("b.a.test", 100.0)
    assert not hosts.covers("test", 100.0)


def test_include_subdomains_covers_names_below_a_host() -> None:
    hosts = HSTSStore()
    hosts.note("a.test", "max-age=10; includeSubDomains", 0.0)
    hosts.note("b.a.test", "max-age=1", 0.0)
    assert hosts.covers("c.b.a.test", 5.0)
    assert hosts.covers("b.a.test", 5.0)  # its own time is over
    assert not hosts.covers("xa.test", 5.0)


def test_max_age_zero_removes_a_host() -> None:
    hosts = HSTSStore()
    hosts.note("a.test", "max-age=10", 0.0)
    assert hosts.note("a.test", "max-age=0", 1.0)
    assert not hosts.covers("a.test", 1.0)
    assert not hosts.note("a.test", "max-age=0", 1.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_has_no_say(host: str) -> None:
    hosts = HSTSStore()
    assert not hosts.note(host, "max-age=10", 0.0)
    assert not hosts.covers(host, 0.0)


def test_a_repeated_header_is_not_written_each_time() -> None:
    hosts = HSTSStore()
    assert hosts.note("a.test", "max-age=1000", 0.0)
    assert not hosts.note("a.test", "max-age=1000", 50.0)
    assert hosts.covers("a.test", 1049.0)
    assert hosts.note("a.test", "max-age=1000; includeSubDomains", 60.0)


def test_hosts_are_kept_in_a_bounded_number() -> None:
    hosts = HSTSStore()
    for number in range(5100):
        hosts.note(f"h{number}.test", f"max-age={1000 + number}", 0.0)
    assert len(hosts.by_name) == 5000
    assert not hosts.covers("h0.test", 0.0)
    assert hosts.covers("h5099.test", 0.0)
