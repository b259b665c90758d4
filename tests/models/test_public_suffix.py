"""Whose domain is it: nobody's (a public suffix), or somebody's; with the list and without it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from curlhttp._models.cookies import public_suffix
from curlhttp._models.cookies.public_suffix import is_public_suffix, site_of


def forget() -> None:
    for function in (public_suffix._list, is_public_suffix, site_of):
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
    """S70: a cookie is for its own site."""
    assert is_public_suffix(domain)


@pytest.mark.parametrize(
    "domain",
    [
        *("example.com", "h.test", "github.com", "t.co", "web.de", "id.me", "go.com"),
        *("bbc.co.uk", "city.or.jp", "me.github.io", "b.s3.amazonaws.com", "amazonaws.com"),
        *("com.example.org", "xn--e1afmkfd.xn--p1ai"),
    ],
)
def test_what_somebody_registered_is_theirs(source: str, domain: str) -> None:
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
    assert site_of(domain) == site


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
        *public_suffix._PLATFORMS,
        *(
            f"{name}.{top}"
            for top, names in public_suffix._OF_COUNTRIES.items()
            for name in names.split()
        ),
    ]
    forget()
    assert [domain for domain in named if not is_public_suffix(domain)] == []
