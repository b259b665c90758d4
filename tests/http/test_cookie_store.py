"""Rules that both jars, Cookies and requests' own, follow: domains and bounds."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from email.message import Message
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy, MozillaCookieJar
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curlhttp import Cookies, requests
from curlhttp._http.cookies import jar as jars
from curlhttp._http.cookies.jar import CookieStore, cookie_header, store_cookies
from curlhttp._http.url import parse_url
from curlhttp.requests.cookies import (
    RequestsCookieJar,
    create_cookie,
    extract_cookies_to_jar,
    get_cookie_header,
)
from tests.http.test_cookie_parsing import forget
from tests.support.values import slow_but_for

FUTURE = "Expires=Wed, 01 Jan 2098 00:00:00 GMT"
PAST = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"


class Side:
    """A jar of the core or of the drop-in, used as its library uses it."""

    def __init__(self, jar: CookieStore) -> None:
        self.jar = jar

    def answer(self, url: str, *values: str) -> Side:
        """Take a response from a URL with these Set-Cookie fields."""
        store_in(self.jar, isinstance(self.jar, Cookies), url, *values)
        return self

    def sent(self, url: str) -> str | None:
        """Return the Cookie header for a URL."""
        if isinstance(self.jar, Cookies):
            return cookie_header(self.jar, parse_url(url))
        return get_cookie_header(self.jar, prepared(url))

    def put(self, name: str, domain: str, secure: bool = False) -> None:
        """Store a cookie as a program does."""
        self.jar.set_cookie(create_cookie(name, "v", domain=domain, secure=secure))

    def names(self) -> list[str]:
        return [cookie.name for cookie in self.jar]


def store_in(jar: CookieJar, of_core: bool, url: str, *values: str) -> None:
    if of_core:
        store_cookies(jar, parse_url(url), values)
        return
    message = Message()
    for value in values:
        message["Set-Cookie"] = value
    raw = SimpleNamespace(_original_response=SimpleNamespace(msg=message))
    extract_cookies_to_jar(jar, prepared(url), raw)


def prepared(url: str) -> requests.PreparedRequest:
    return requests.Request("GET", url).prepare()


@pytest.fixture(params=[Cookies, RequestsCookieJar])
def side(request: pytest.FixtureRequest) -> Side:
    return Side(request.param())


@pytest.fixture(params=["list", "rule"])
def _suffixes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "rule":
        monkeypatch.setitem(sys.modules, "publicsuffixlist", None)
    forget()
    yield
    forget()


# --- whose cookies ---


@pytest.mark.usefixtures("_suffixes")
@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://me.github.io/", "github.io"),
        ("https://shop.or.jp/", "or.jp"),
        ("https://me.vercel.app/", ".vercel.app"),
        ("https://www.example.co.uk/", "CO.UK"),
        ("https://example.com/", "com"),
        ("https://example.com/", "other.com"),
        ("https://example.com/", "sub.example.com"),
        ("https://notexample.com/", "example.com"),
        ("https://1.2.3.4/", "3.4"),
        ("https://1.2.3.4/", ".2.3.4"),
    ],
)
def test_a_domain_that_is_not_the_servers_own_is_refused(side: Side, url: str, domain: str) -> None:
    """A cookie is for its own site."""
    assert side.answer(url, f"a=1; Domain={domain}").names() == []


@pytest.mark.usefixtures("_suffixes")
def test_a_public_suffix_may_have_its_own_cookies(side: Side) -> None:
    side.answer("https://github.io/", "a=1; Domain=github.io; Path=/")
    assert side.sent("https://github.io/") == "a=1"
    assert side.sent("https://me.github.io/") is None


@pytest.mark.parametrize("host", ["example.com", "localhost", "127.0.0.1", "[::1]"])
def test_a_cookie_without_a_domain_is_for_its_host_alone(side: Side, host: str) -> None:
    side.answer(f"http://{host}/", "a=1")
    assert side.sent(f"http://{host}:81/") == "a=1"
    for other in ("sub.example.com", "com", "sub.localhost", "[::2]", "1.127.0.0"):
        assert side.sent(f"http://{other}/") is None


def test_a_cookie_with_a_domain_is_for_the_hosts_below_it(side: Side) -> None:
    side.answer("http://www.example.com/", "a=1; Domain=example.com")
    for host in ("example.com", "www.example.com", "a.b.example.com"):
        assert side.sent(f"http://{host}/") == "a=1"
    for host in ("notexample.com", "com", "example.com.test"):
        assert side.sent(f"http://{host}/") is None


def test_only_a_matching_host_can_expire_a_cookie(side: Side) -> None:
    side.answer("http://victim.test/", "a=1")
    side.answer("http://evil.test/", f"a=; Domain=victim.test; {PAST}", "a=; Max-Age=0")
    assert side.sent("http://victim.test/") == "a=1"
    side.answer("http://victim.test/", f"a=; {PAST}")
    assert side.names() == []


@pytest.mark.parametrize(
    "attack", ["a=evil", f"a=; {PAST}", "a=; Max-Age=0", "a=evil; Domain=example.com"]
)
@pytest.mark.parametrize("attacker", ["http://example.com/", "http://www.example.com/"])
@pytest.mark.parametrize("scope", ["", "; Domain=example.com"])
def test_a_secure_cookie_is_not_touched_without_tls(
    side: Side, attack: str, attacker: str, scope: str
) -> None:
    """A Secure cookie needs TLS."""
    side.answer("https://example.com/", f"a=good; Secure; Path=/{scope}")
    side.answer(attacker, attack)
    assert side.sent("https://example.com/") == "a=good"
    assert side.sent("http://example.com/") is None


def test_a_secure_cookie_of_localhost_is_not_touched_without_tls(side: Side) -> None:
    side.answer("https://localhost/", "a=good; Secure; Path=/")
    side.answer("http://localhost/", "a=evil; Path=/")
    assert side.sent("https://localhost/") == "a=good"


def test_a_removed_secure_cookie_protects_nothing(side: Side) -> None:
    side.answer("https://example.com/", "a=1; Secure; Path=/", "b=1; Secure; Path=/")
    side.answer("https://example.com/", "a=; Max-Age=0; Path=/", "b=2; Path=/")
    side.answer("http://example.com/", "a=3; Path=/", "b=3; Path=/")
    assert side.sent("http://example.com/") in ("a=3; b=3", "b=3; a=3")


@pytest.mark.parametrize(
    "value",
    [
        "__Host-a=1; Path=/",
        "__Host-a=1; Secure",
        "__Host-a=1; Secure; Path=/x",
        "__Host-a=1; Secure; Path=/; Domain=h.test",
        "__Secure-a=1",
        "a\x00b=1",
        "a=1\x7f",
        "a=1\x1f2",
        "a=" + "x" * 5000,
        "a=1; x=" + "x" * 10_000,
    ],
)
def test_a_cookie_that_a_server_may_not_set_is_dropped(side: Side, value: str) -> None:
    """Cookies have bounds; prefixed names keep their promise."""
    assert side.answer("https://h.test/x", value).names() == []


def test_saving_and_loading_keeps_scope_expiry_and_secure(side: Side, tmp_path: Path) -> None:
    """A jar that was saved has all that it had."""
    file = MozillaCookieJar(tmp_path / "cookies.txt")
    side.answer("https://h.test/", f"a=1; Secure; {FUTURE}", f"b=2; Domain=h.test; {FUTURE}")
    for cookie in side.jar:
        file.set_cookie(cookie)
    file.save()
    file.clear()
    file.load()
    loaded = Side(type(side.jar)())
    loaded.jar.update(file)  # type: ignore[attr-defined]
    assert loaded.sent("https://h.test/") in ("a=1; b=2", "b=2; a=1")
    assert loaded.sent("http://h.test/") == loaded.sent("https://sub.h.test/") == "b=2"
    assert {c.expires for c in loaded.jar} == {c.expires for c in side.jar}


# --- any bytes ---


@pytest.mark.parametrize(
    "expires",
    ["Wed, 21 Fed 2027", "Wed, 21 Fed 2027 07:28:00 GMT", "1 Jan 0 0:0:0", "\xb2 Jan 2027 0:0:0"],
)
def test_an_invalid_date_is_ignored(side: Side, expires: str) -> None:
    side.answer("http://h.test/", f"a=1; Expires={expires}", "b=2")
    assert side.names() == ["a", "b"]


_WORDS = """a=1 ;Domain= h.test .test ;Path= /x ;Secure ;Expires= ;Max-Age= ;Version=1 ;Port= ; = ,
Wed, 21 Fed 2027 07:28:00 GMT -9999999999999999 __Host- __Secure- " \\"""
_PIECES = st.one_of(
    st.sampled_from([*_WORDS.split(), " ", "\t", "\x00"]),
    st.text(st.characters(max_codepoint=255), max_size=6),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(_PIECES, max_size=12).map("".join), max_size=4),
    st.sampled_from(["http://h.test/x", "https://[::1]/", "http://10.0.0.1/", "http://h/a/b"]),
)
@pytest.mark.parametrize("kind", [Cookies, RequestsCookieJar])
def test_no_set_cookie_of_any_bytes_raises(kind: Any, values: list[str], url: str) -> None:
    side = Side(kind()).answer(url, *values)
    header = side.sent(url) or ""
    assert not any(char < " " or char == "\x7f" for char in header)


@pytest.mark.parametrize("of_core", [True, False])
def test_a_jar_of_the_standard_library_sees_no_date_that_it_fails_at(of_core: bool) -> None:
    jar = CookieJar()
    values = ["a=1; Expires=Wed, 21 Fed 2027 07:28:00 GMT; Path=/x", "b=2; Domain=co.uk", "c=3"]
    values += ["d=4; expires=Thu, 01 Jan 2099 00:00:00 GMT", f"e=5; {PAST}"]
    store_in(jar, of_core, "http://www.example.co.uk/", *values)
    assert sorted((c.name, c.path, c.expires) for c in jar) == [
        ("a", "/x", None),
        ("c", "/", None),
        ("d", "/", 4070908800),
    ]


# --- how many ---


def test_one_response_sets_at_most_fifty(side: Side) -> None:
    """Cookies have bounds."""
    side.answer("http://h.test/", *[f"n{i}=1" for i in range(1000)])
    assert side.names() == [f"n{i}" for i in range(50)]


def fill(side: Side, url: str, total: int, value: str = "v", rest: str = "") -> None:
    for start in range(0, total, 50):
        side.answer(url, *[f"n{i}={value}{rest}" for i in range(start, min(start + 50, total))])


def test_a_site_keeps_180_whatever_hosts_and_paths_set_them(side: Side) -> None:
    for host in ("a.example.com", "b.example.com", "c.b.example.com"):
        fill(side, f"http://{host}/", 100)
        fill(side, f"http://{host}/", 100, rest="; Domain=example.com; Path=/deep")
    assert len(side.jar) == jars.MAX_COOKIES_PER_SITE
    side.answer("http://other.test/", "a=1")
    assert len(side.jar) == jars.MAX_COOKIES_PER_SITE + 1


def test_a_host_that_sets_too_many_displaces_its_own_oldest(side: Side) -> None:
    side.answer("http://example.com/", "session=1; Domain=example.com")
    fill(side, "http://evil.example.com/", 500)
    assert "session=1" in str(side.sent("http://example.com/"))
    assert side.names()[-1] == "n499"
    assert "n0" not in side.names()


def test_secure_cookies_are_displaced_last(side: Side) -> None:
    side.answer("https://h.test/", "session=1; Secure")
    fill(side, "https://h.test/", 500)
    assert "session" in side.names()


def test_the_jar_keeps_3000_and_drops_the_least_recently_used(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "MAX_COOKIES", 30)
    for host in ("used", "forgotten"):
        side.answer(f"http://{host}.test/", "a=1")
    for number in range(28):
        side.answer(f"http://h{number}.test/", "a=1")
    side.sent("http://used.test/")
    side.answer("http://last.test/", "a=1")
    assert len(side.jar) == 30
    assert side.sent("http://used.test/") == "a=1"
    assert side.sent("http://forgotten.test/") is None


def test_the_bounds_are_those_of_rfc_6265() -> None:
    assert jars.MAX_COOKIES_PER_RESPONSE >= 50
    assert jars.MAX_COOKIES_PER_SITE >= 50
    assert jars.MAX_COOKIES >= 3000
    assert jars.MAX_HEADER >= 50 * 4096


def test_cookies_set_by_a_program_are_not_cleared_by_a_server(side: Side) -> None:
    for number in range(4000):
        side.put(f"n{number}", f"h{number}.test")
    side.put("everywhere", "")
    assert len(side.jar) == 4001
    side.answer("http://other.test/", "a=1")
    side.answer("http://other.test/", "a=2")
    assert len(side.jar) == 4001  # one came, one went
    assert {"a", "everywhere"} <= set(side.names())


def test_the_header_of_one_host_is_bounded(side: Side) -> None:
    """Cookies have bounds."""
    fill(side, "http://h.test/", 180, value="x" * 4000)
    assert len(side.jar) == 180
    header = str(side.sent("http://h.test/"))
    assert jars.MAX_HEADER - 4096 < len(header) <= jars.MAX_HEADER
    assert all(len(pair.partition("=")[2]) == 4000 for pair in header.split("; "))


def test_cookies_that_come_and_go_leave_nothing_behind(side: Side) -> None:
    for number in range(100):
        url = f"http://h{number}.example.com/"
        side.answer(url, f"n{number}=1; Path=/{number}; Domain=example.com", "a=1")
        side.answer(
            url, f"n{number}=; Path=/{number}; Domain=example.com; Max-Age=0", f"a=; {PAST}"
        )
    assert side.jar._cookies == {}
    assert side.jar._sites is not None
    assert (side.jar._sites.sizes, side.jar._sites.totals, side.jar._sites.total) == ({}, {}, 0)


# --- at what price ---


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions, C's among them, a piece of work calls."""
    calls = count()
    sys.setprofile(lambda frame, event, argument: event.endswith("call") and next(calls))
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(calls)


@pytest.mark.parametrize(
    "domain",
    slow_but_for(["h{}.example.com"], ["h{}.test", "h{}.example.com", "example.com"]),
)
def test_the_price_of_a_set_cookie_does_not_grow_with_the_jar(side: Side, domain: str) -> None:
    prices = []
    for size in (4000, 16_000):  # both beyond the bounds
        jar = Side(type(side.jar)())
        for number in range(size):
            jar.put(f"n{number}", domain.format(number), secure=True)
        jar.answer("http://www.example.com/", "a=1; Domain=example.com")
        prices.append(
            calls_of(lambda: jar.answer("http://www.example.com/", "b=1; Domain=example.com"))  # noqa: B023
        )
    assert prices[1] < 1.5 * prices[0]


@pytest.mark.parametrize("domain", ["h{}.test", "h{}.example.com"])
def test_the_price_of_a_cookie_header_does_not_grow_with_the_jar(side: Side, domain: str) -> None:
    prices = []
    for size in (500, 4000):
        jar = Side(type(side.jar)())
        for number in range(size):
            jar.put(f"n{number}", domain.format(number))
        jar.put("a", "example.com")
        jar.sent("http://example.com/")
        prices.append(calls_of(lambda: jar.sent("http://example.com/")))  # noqa: B023
    assert prices[1] < 1.5 * prices[0]


# --- the standard library's methods, which bypass the index ---


def test_changes_of_the_underlying_dictionary_are_noticed(side: Side) -> None:
    side.answer("https://h.test/", "a=1; Secure")
    side.jar._cookies = {}
    side.answer("http://h.test/", "a=2")
    assert side.sent("http://h.test/") == "a=2"
    side.jar.clear()
    side.put("a", "h.test", secure=True)
    side.answer("http://h.test/", "a=3")
    assert side.sent("http://h.test/") is None


def test_clearing_by_path_domain_and_all_counts_right(side: Side) -> None:
    side.answer("http://h.test/", "a=1; Path=/x", "b=1; Path=/y", "c=1; Path=/x")
    side.answer("http://i.test/", "d=1")
    side.jar.clear("h.test", "/x")
    side.answer("http://h.test/", "e=1; Path=/y")
    assert side.jar._get_sites().totals == {"h.test": 2, "i.test": 1}
    side.jar.clear("h.test")
    side.jar.clear_session_cookies()
    assert side.jar._get_sites().total == 0
    with pytest.raises(KeyError):
        side.jar.clear("h.test")


@pytest.mark.parametrize(
    "twin_of",
    [copy.copy, copy.deepcopy, lambda jar: jar.copy(), lambda jar: pickle.loads(pickle.dumps(jar))],
)
def test_a_copy_keeps_its_own_books(side: Side, twin_of: Callable[[Any], Any]) -> None:
    side.answer("https://h.test/", "a=1; Secure; Path=/")
    twin = Side(twin_of(side.jar))
    twin.answer("http://h.test/", "a=2; Path=/", "b=1; Path=/")
    assert twin.sent("https://h.test/") in ("a=1; b=1", "b=1; a=1")
    assert side.names() == ["a"]


def test_a_policy_that_sends_cookies_to_other_hosts_is_applied_to_all(side: Side) -> None:
    class Generous(DefaultCookiePolicy):
        def domain_return_ok(self, domain: str, request: Any) -> bool:
            return True

        def return_ok_domain(self, cookie: Cookie, request: Any) -> bool:
            return True

    side.jar.set_policy(Generous())
    side.put("a", "elsewhere.test")
    assert side.sent("http://h.test/") == "a=v"
