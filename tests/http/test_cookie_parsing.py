"""Dates of cookies, and public suffixes with and without the Public Suffix List."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._http.cookies import parsing
from curlhttp._http.cookies.parsing import get_site, is_public_suffix, parse_cookie_date

# --- dates ---


def seconds(*date: int) -> int:
    return int(datetime(*date, tzinfo=timezone.utc).timestamp())  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Wed, 21 Oct 2026 07:28:00 GMT", (2026, 10, 21, 7, 28, 0)),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", (2026, 10, 21, 7, 28, 0)),
        ("Wed Oct 21 07:28:00 2026", (2026, 10, 21, 7, 28, 0)),
        ('"21/October/2026 7:8:9"', (2026, 10, 21, 7, 8, 9)),
        ("21st oct 2026 07:28:00+0200", (2026, 10, 21, 7, 28, 0)),
        ("01 Jan 70 00:00:00", (1970, 1, 1)),
        ("01 Jan 99 00:00:00", (1999, 1, 1)),
        ("01 Jan 69 00:00:00", (2069, 1, 1)),
        ("01 Jan 1601 00:00:00", (1601, 1, 1)),
        ("31 Dec 9999 23:59:59", (9999, 12, 31, 23, 59, 59)),
        ("29 Feb 2028 00:00:00", (2028, 2, 29)),
    ],
)
def test_a_date_is_found_in_any_order(text: str, date: tuple[int, ...]) -> None:
    assert parse_cookie_date(text) == seconds(*date)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "never",
        "Wed, 21 Fed 2027",
        "Wed, 21 Fed 2027 07:28:00 GMT",
        "Wed, 31 Feb 2027 07:28:00 GMT",
        "Wed, 00 Oct 2026 07:28:00 GMT",
        "Wed, 32 Oct 2026 07:28:00 GMT",
        "Wed, 21 Oct 2026",
        "21 Oct 1600 00:00:00",
        "21 Oct 0100 00:00:00",
        "21 Oct 20260 00:00:00",
        "21 Oct 2026 24:00:00",
        "21 Oct 2026 00:60:00",
        "21 Oct 2026 00:00:60",
        "٢١ Oct 2026 07:28:00",
        "9" * 10_000,
    ],
)
def test_an_invalid_date_is_none(text: str) -> None:
    assert parse_cookie_date(text) is None


_WORDS = st.one_of(
    st.sampled_from(["Wed,", "Oct", "Feb", "Fed", "GMT", "07:28:00", "99:99:99", "2026", "31"]),
    st.integers(-(10**30), 10**30).map(str),
    st.text(st.characters(max_codepoint=255), max_size=8),
)


@given(st.lists(_WORDS, max_size=8).map(" ".join))
def test_no_text_raises(text: str) -> None:
    found = parse_cookie_date(text)
    assert found is None or seconds(1601, 1, 1) <= found <= seconds(9999, 12, 31, 23, 59, 59)


# --- public suffixes ---


def forget() -> None:
    for function in (parsing._load_suffix_list, is_public_suffix, get_site):
        function.cache_clear()


@pytest.fixture(params=["list", "rule"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a test with the extra `psl` and without it."""
    if request.param == "rule":
        monkeypatch.setitem(sys.modules, "publicsuffixlist", None)
    forget()
    yield request.param
    forget()


@pytest.mark.parametrize(
    "domain",
    [
        *("com", "test", "de", "xn--p1ai"),
        *("co.uk", "or.jp", "com.au", "gob.mx", "ac.at", "gov.uk"),
        *("github.io", "vercel.app", "netlify.app", "herokuapp.com", "pages.dev"),
        *("s3.amazonaws.com", "a.run.app"),
    ],
)
def test_a_public_suffix_is_nobodys(source: str, domain: str) -> None:
    """A cookie is for its own site."""
    assert is_public_suffix(domain)


@pytest.mark.parametrize(
    "domain",
    [
        *("example.com", "h.test", "github.com", "t.co", "web.de", "id.me", "go.com"),
        *("bbc.co.uk", "city.or.jp", "me.github.io", "b.s3.amazonaws.com", "amazonaws.com"),
        *("com.example.org", "xn--e1afmkfd.xn--p1ai"),
    ],
)
def test_a_registered_domain_is_no_public_suffix(source: str, domain: str) -> None:
    assert not is_public_suffix(domain)


@pytest.mark.parametrize(
    ("domain", "site"),
    [
        ("a.b.example.com", "example.com"),
        (".example.com", "example.com"),
        ("example.com", "example.com"),
        ("www.bbc.co.uk", "bbc.co.uk"),
        ("a.me.github.io", "me.github.io"),
        ("github.io", "github.io"),
        ("localhost", "localhost"),
        ("localhost.local", "localhost.local"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_a_site_is_the_name_below_the_suffix(source: str, domain: str, site: str) -> None:
    assert get_site(domain) == site


@pytest.mark.parametrize("source", ["list"], indirect=True)
@pytest.mark.parametrize(
    ("domain", "is_public"),
    [
        ("kobe.jp", True),
        ("x.kobe.jp", True),  # by a wildcard
        ("city.kobe.jp", False),  # but for this
        ("xn--55qx5d.cn", True),
        ("xn--55qx5d.xn--j6w193g", True),
        ("xn--a.cn", False),  # no A-label
    ],
)
def test_the_list_knows_wildcards_and_names_in_other_scripts(
    source: str, domain: str, is_public: bool
) -> None:
    assert is_public_suffix(domain) is is_public


def test_the_rule_of_thumb_names_nothing_that_the_list_does_not() -> None:
    named = [
        *parsing._PLATFORMS,
        *(
            f"{name}.{top}"
            for top, names in parsing._COUNTRY_SUFFIXES.items()
            for name in names.split()
        ),
    ]
    forget()
    assert [domain for domain in named if not is_public_suffix(domain)] == []
