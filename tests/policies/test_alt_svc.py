"""Which origins speak HTTP/3 (RFC 7838)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._features.alt_svc.policy import AltSvcCache, parse_http3_age
from curlhttp._http.url import parse_url

URL = parse_url("https://a.test/")
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("value", "age"),
    [
        ('h3=":443"', DAY),
        ('h3=":443"; ma=60', 60),
        ('h3=":443"; ma="60"; persist=1', 60),
        ('h2=":443"; ma=9, h3-29=":443", h3="a.test:443" ;ma=60', 60),
        ('h3=":443"; ma=9999999999', 30 * DAY),
        ('h3=":443"; ma=99999999999', 30 * DAY),
        (f'h3=":443"; ma={"9" * 4000}', 30 * DAY),
        ('h3=":443"; ma="00000000000060"', 60),
        ('h3=":443"; ma=0', 0),
        ('h3=":8443"; ma=60', 0),
        ('h3="b.test:443"; ma=60', 0),
        ('h3=":8443", h3=":443"; ma=5', 5),
        ('h2=":443"', 0),
        ('x="h3=\\":443\\""', 0),
        ("h3=:443", 0),
        ("clear", 0),
        ("", 0),
    ],
)
def test_a_field_is_read_as_the_rfc_has_it(value: str, age: int) -> None:
    assert parse_http3_age(value, URL) == age


@given(st.text(alphabet='h3=":,; ma0123456789\\x'))
def test_no_field_is_an_error(value: str) -> None:
    assert 0 <= parse_http3_age(value, URL) <= 30 * DAY


def test_a_long_field_takes_linear_time() -> None:
    for part in ('h3=":1";', ";a=", ", ", 'h3=":1";a=b', "=", '"'):
        assert parse_http3_age(part * 20_000, URL) == 0


def test_an_origin_is_known_until_it_expires_or_is_cleared() -> None:
    now = [100.0]
    known = AltSvcCache(lambda: now[0])
    assert not known.has_http3(URL)
    known.note(URL, 'h3=":443"; ma=10')
    assert known.has_http3(parse_url("https://a.test/path"))
    assert not known.has_http3(parse_url("https://a.test:8443/"))
    assert not known.has_http3(parse_url("http://a.test:443/"))
    now[0] = 110.0
    assert not known.has_http3(URL)
    known.note(URL, 'h3=":443"; ma=10')
    known.note(URL, "clear")
    assert not known.has_http3(URL)


def test_origins_are_kept_in_a_bounded_number() -> None:
    known = AltSvcCache(lambda: 0.0)
    urls = [parse_url(f"https://h{number}.test/") for number in range(2500)]
    for url in urls:
        known.note(url, 'h3=":443"')
    assert sum(map(known.has_http3, urls)) <= 1000
    assert known.has_http3(urls[-1])
