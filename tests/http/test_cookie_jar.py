"""The jar: who may set a cookie, who gets it, and its dictionary interface."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
import tracemalloc
import urllib.request
from collections.abc import Callable, Sequence
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy, MozillaCookieJar
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import Cookies
from curlhttp._http.cookies.jar import CookieConflictError, cookie_header, store_cookies
from curlhttp._http.cookies.parsing import MAX_COOKIE_SIZE, CookieRequest, SetCookies
from curlhttp._http.url import parse_url
from curlhttp.exceptions import InvalidHeader

FUTURE = "Expires=Wed, 01 Jan 2098 00:00:00 GMT"
PAST = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"


def respond(url: str, *values: str, jar: Cookies | None = None) -> Cookies:
    """Return the jar after a response from the URL with these Set-Cookie values."""
    jar = Cookies() if jar is None else jar
    store_cookies(jar, parse_url(url), values)
    return jar


def sent(jar: CookieJar, url: str) -> str | None:
    return cookie_header(jar, parse_url(url))


@pytest.mark.parametrize(
    "date",
    [
        "Wed, 21 Fed 2027 07:28:00 GMT",
        "Wed, 21 Oct 99999 07:28:00 GMT",
        "21 Oct " + "9" * 5000,
        "9" * 5000 + " Oct 2027",
        "Wed, 21 Oct 0000 99:99:99 GMT",
        "\u00b2",
        "",
    ],
)
def test_an_invalid_date_makes_a_session_cookie(date: str) -> None:
    jar = respond("http://example.com/", f"a=1; Expires={date}", "b=2")
    assert sent(jar, "http://example.com/") == "a=1; b=2"
    assert [cookie.expires for cookie in jar] == [None, None]


@pytest.mark.parametrize(
    ("setter", "value", "getter", "header"),
    [
        # host-only
        ("http://example.com/", "a=1", "http://example.com/", "a=1"),
        ("http://example.com/", "a=1", "http://example.com:8080/", "a=1"),
        ("http://example.com/", "a=1", "http://sub.example.com/", None),
        ("http://sub.example.com/", "a=1", "http://example.com/", None),
        ("http://example.com/", "a=1", "http://example.org/", None),
        ("http://example.com/", "a=1; Domain=", "http://sub.example.com/", None),
        # Domain
        ("http://example.com/", "a=1; Domain=example.com", "http://sub.example.com/", "a=1"),
        ("http://example.com/", "a=1; domain=.EXAMPLE.com", "http://x.y.example.com/", "a=1"),
        ("http://sub.example.com/", "a=1; Domain=example.com", "http://example.com/", "a=1"),
        ("http://example.com/", "a=1; Domain=example.com", "http://notexample.com/", None),
        ("http://a.b.example.com/", "a=1; Domain=example.com", "http://example.com/", "a=1"),
        ("http://example.com/", "a=1; Domain=x; Domain=example.com", "http://example.com/", "a=1"),
        # names without dots and addresses
        ("http://localhost/", "a=1", "http://localhost/", "a=1"),
        ("http://localhost/", "a=1; Domain=localhost", "http://localhost/", "a=1"),
        ("http://localhost/", "a=1; Domain=localhost", "http://sub.localhost/", None),
        ("http://localhost/", "a=1", "http://127.0.0.1/", None),
        ("http://127.0.0.1/", "a=1", "http://127.0.0.1:8000/", "a=1"),
        ("http://127.0.0.1/", "a=1; Domain=127.0.0.1", "http://127.0.0.1/", "a=1"),
        ("http://[::1]/", "a=1", "http://[::1]:8000/", "a=1"),
        ("http://[::1]/", "a=1", "http://[::2]/", None),
        # one scope with and without the root's dot
        ("http://a.example/", "a=1", "http://a.example./", "a=1"),
        ("http://a.example./", "a=1; Domain=a.example.", "http://a.example/", "a=1"),
        ("http://localhost./", "a=1", "http://localhost/", "a=1"),
        # paths
        ("http://h.test/a/b", "a=1", "http://h.test/a/c", "a=1"),
        ("http://h.test/a/b", "a=1", "http://h.test/a", "a=1"),
        ("http://h.test/a/b", "a=1", "http://h.test/ab", None),
        ("http://h.test/a/b", "a=1", "http://h.test/", None),
        ("http://h.test/a/b", "a=1; Path=/", "http://h.test/", "a=1"),
        ("http://h.test/a/b", "a=1; Path=relative", "http://h.test/a/", "a=1"),
        ("http://h.test/", "a=1; Path=/x/", "http://h.test/x/y?q=/", "a=1"),
        ("http://h.test/", "a=1; Path=/x", "http://h.test/y?/x", None),
        # Secure
        ("https://h.test/", "a=1; Secure", "https://h.test/", "a=1"),
        ("https://h.test/", "a=1; Secure", "http://h.test/", None),
        ("https://h.test/", "a=1;\tSecure", "http://h.test/", None),
        ("https://h.test/", "a=1; SECURE=no", "http://h.test/", None),
        ("https://localhost/", "a=1; Secure", "http://localhost/", None),
        ("https://h.test/", "a=1", "http://h.test/", "a=1"),
        # values as they are
        ("http://h.test/", 'a="x y"', "http://h.test/", 'a="x y"'),
        ("http://h.test/", 'a="x\\"y"', "http://h.test/", 'a="x\\"y"'),
        ("http://h.test/", "a=b=c==", "http://h.test/", "a=b=c=="),
        ("http://h.test/", "a=", "http://h.test/", "a="),
        ("http://h.test/", " a = 1 ; x", "http://h.test/", "a=1"),
        ("http://h.test/", "a=\xe9\x85\xa0", "http://h.test/", "a=\xe9\x85\xa0"),
        # expiry
        ("http://h.test/", f"a=1; {FUTURE}", "http://h.test/", "a=1"),
        ("http://h.test/", f"a=1; {PAST}", "http://h.test/", None),
        ("http://h.test/", f"a=1; Max-Age=60; {PAST}", "http://h.test/", "a=1"),
        ("http://h.test/", f"a=1; Max-Age=0; {FUTURE}", "http://h.test/", None),
        ("http://h.test/", "a=1; Max-Age=-5", "http://h.test/", None),
        ("http://h.test/", "a=1; Max-Age=soon", "http://h.test/", "a=1"),
        ("http://h.test/", "a=1; Max-Age=" + "0" * 20 + "60", "http://h.test/", "a=1"),
        ("http://h.test/", "a=1; Max-Age=-" + "0" * 20 + "60", "http://h.test/", None),
        ("http://h.test/", "a=1; Expires=never", "http://h.test/", "a=1"),
        ("http://h.test/", "a=1; Max-Age=" + "9" * 5000, "http://h.test/", "a=1"),
        ("http://h.test/", "a=1; Version=1; Port=81", "http://h.test/", "a=1"),
    ],
)
def test_a_cookie_is_sent_as_in_rfc_6265(
    setter: str, value: str, getter: str, header: str | None
) -> None:
    """A dot at the end of a host is no other host."""
    assert sent(respond(setter, value), getter) == header


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("http://example.com/", "a=1; Domain=other.com"),
        ("http://example.com/", "a=1; Domain=sub.example.com"),
        ("http://example.com/", "a=1; Domain=com"),
        ("http://example.com/", "a=1; Domain=.com"),
        ("http://example.co.uk/", "a=1; Domain=co.uk"),
        ("http://example.com/", "a=1; Domain=ample.com"),
        ("http://localhost/", "a=1; Domain=local"),
        ("http://1.2.3.4/", "a=1; Domain=3.4"),
        ("http://1.2.3.4/", "a=1; Domain=.2.3.4"),
        ("http://[::1]/", "a=1; Domain=1"),
        ("http://h.test/", "a=1; Secure"),
        ("http://h.test/", "__Secure-a=1; Secure"),
        ("https://h.test/", "__Secure-a=1"),
        ("https://h.test/", "__secure-a=1"),
        ("https://h.test/", "__Host-a=1; Path=/"),
        ("https://h.test/", "__Host-a=1; Secure"),
        ("https://h.test/", "__Host-a=1; Secure; Path=/x"),
        ("https://h.test/", "__HOST-a=1; Secure; Path=/; Domain=h.test"),
        ("https://localhost/", "__Host-a=1; Secure; Path=/; Domain=localhost"),
        ("http://h.test/", ""),
        ("http://h.test/", ";"),
        ("http://h.test/", "no-equals-sign"),
        ("http://h.test/", "=value"),
        ("http://h.test/", "a=" + "x" * MAX_COOKIE_SIZE),
        ("http://h.test/", "a=1; Path=/" + "x" * 10_000),
        *[("http://h.test/", f"a=1{chr(code)}2") for code in (*range(32), 127)],
        ("http://h.test/", "a\x00b=1"),
        ("http://h.test/", "a\tb=1"),
        ("http://h.test/", "a=1; Path=/\r\nX: y"),
    ],
)
def test_a_cookie_that_a_server_may_not_set_is_dropped(url: str, value: str) -> None:
    """Of other sites, with control characters, with a prefix that lies."""
    assert list(respond(url, value)) == []


def test_prefixed_cookies_that_keep_their_promise_are_stored() -> None:
    """Prefixed names keep their promise."""
    jar = respond("https://h.test/x/y", "__Secure-a=1; Secure", "__Host-b=2; Secure; Path=/")
    assert sorted(jar.keys()) == ["__Host-b", "__Secure-a"]
    assert sent(jar, "https://h.test/") == "__Host-b=2"


@pytest.mark.parametrize("attack", ["a=evil", f"a=; {PAST}", "a=evil; Domain=example.com"])
def test_a_response_without_tls_does_not_change_a_secure_cookie(attack: str) -> None:
    """A Secure cookie needs TLS."""
    jar = respond("https://example.com/", "a=good; Secure; Path=/")
    respond("http://example.com/", attack, jar=jar)
    assert sent(jar, "https://example.com/") == "a=good"
    respond("http://www.example.com/", "a=evil; Domain=example.com", jar=jar)
    assert sent(jar, "https://example.com/") == "a=good"


@pytest.mark.parametrize(
    ("guarded", "attacker", "attack"),
    [
        ("a=good; Secure; Domain=example.com", "http://www.example.com/", "a=evil"),
        ("a=good; Secure", "http://www.example.com/", "a=evil; Domain=example.com"),
        ("a=good; Secure", "http://www.example.com/", f"a=; Domain=example.com; {PAST}"),
    ],
)
def test_a_secure_cookie_is_not_shadowed_from_a_related_host(
    guarded: str, attacker: str, attack: str
) -> None:
    jar = respond("https://www.example.com/", guarded)
    respond(attacker, attack, jar=jar)
    assert sent(jar, "https://www.example.com/") == "a=good"


def test_a_users_secure_cookie_for_every_host_is_not_shadowed() -> None:
    jar = Cookies()
    jar.set("a", "good", secure=True)
    respond("http://h.test/", "a=evil", jar=jar)
    assert sent(jar, "https://h.test/") == "a=good"


@pytest.mark.parametrize("domain", ["other.test", ".test", "sub.h.test", "h.test.evil.test"])
def test_the_policy_refuses_a_ready_made_cookie_of_another_domain(domain: str) -> None:
    jar, request = Cookies(), cast(Any, CookieRequest(parse_url("https://h.test/")))
    donor = Cookies()
    for name, scope in (("foreign", domain), ("own", "h.test")):
        donor.set(name, "1", domain=scope)
    for cookie in donor:
        jar.set_cookie_if_ok(cookie, request)
    assert jar.keys() == ["own"]


def test_the_policy_refuses_a_ready_made_cookie_of_another_host() -> None:
    jar, request = Cookies(), cast(Any, CookieRequest(parse_url("https://1.2.3.4/")))
    donor = respond("https://4/", "a=1")
    donor.set("b", "2", domain="3.4")
    respond("https://1.2.3.4/", "own=1", jar=donor)
    for cookie in donor:
        jar.set_cookie_if_ok(cookie, request)
    assert jar.keys() == ["own"]


def test_a_response_without_tls_may_set_the_same_name_for_another_path_or_host() -> None:
    jar = respond("https://example.com/", "a=good; Secure; Path=/deep")
    respond("http://example.com/", "a=plain; Path=/", jar=jar)
    respond("http://example.org/", "a=other", jar=jar)
    assert sent(jar, "http://example.com/deep") == "a=plain"
    assert sent(jar, "http://example.org/") == "a=other"


def test_a_cookie_set_again_takes_the_new_value() -> None:
    assert respond("http://h.test/", "a=1", "a=2").items() == [("a", "2")]


def test_longer_paths_are_sent_first() -> None:
    jar = respond("http://h.test/", "a=1; Path=/", "b=2; Path=/x/y", "c=3; Path=/x")
    assert sent(jar, "http://h.test/x/y") == "b=2; c=3; a=1"


def test_a_domain_keeps_its_newest_180_cookies() -> None:
    """Cookies have bounds."""
    jar = Cookies()
    for start in range(0, 250, 50):
        respond("http://h.test/", *[f"n{i}=1" for i in range(start, start + 50)], jar=jar)
    respond("http://other.test/", "n0=1", jar=jar)
    assert jar.get_dict(domain="h.test").keys() == {f"n{i}" for i in range(70, 250)}
    assert jar.get_dict(domain="other.test") == {"n0": "1"}


def test_expiry_is_at_most_400_days_ahead() -> None:
    jar = respond("http://h.test/", "a=1; Max-Age=60", "b=2; Max-Age=99999999999", f"c=3; {FUTURE}")
    expires = {cookie.name: cookie.expires or 0 for cookie in jar}
    assert expires["b"] == expires["c"] == expires["a"] - 60 + 400 * 24 * 3600


def test_other_attributes_are_kept_on_the_cookie() -> None:
    cookie = next(iter(respond("http://h.test/", "a=1; HttpOnly; SameSite=Lax")))
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Lax"


def test_an_expired_cookie_is_not_sent_and_is_removed() -> None:
    jar = respond("http://h.test/", "a=1; Max-Age=60", "b=2")
    for cookie in jar:
        if cookie.name == "a":
            cookie.expires = 1
    assert sent(jar, "http://h.test/") == "b=2"
    assert jar.keys() == ["b"]


def test_control_characters_are_never_sent() -> None:
    """Nor come in by a program."""
    jar = Cookies({"good": "1"})
    for name, value in (("a\r\nb", "1"), ("c", "1\x00"), ("d", "\t")):
        with pytest.raises(InvalidHeader) as caught:
            jar.set(name, value)
        assert "1" not in str(caught.value)
    cookie = next(iter(jar))
    bad = copy.copy(cookie)
    bad.name, bad.value = "bad", "x\r\nSet: y"
    jar.set_cookie(bad)
    assert sent(jar, "http://h.test/") == "good=1"
    request = CookieRequest(parse_url("http://h.test/"))
    jar.add_cookie_header(cast(Any, request))
    assert request.cookie == "good=1"


@given(
    st.lists(st.text(st.characters(max_codepoint=255)), max_size=4),
    st.sampled_from(["http://a.example.com/x", "https://[::1]/", "http://10.0.0.1/", "http://h/"]),
)
def test_no_set_cookie_value_breaks_the_jar_or_the_header(values: list[str], url: str) -> None:
    header = sent(respond(url, *values, *[f"n=1; {v}" for v in values]), url) or ""
    assert not any(char < " " or char == "\x7f" for char in header)


@pytest.mark.parametrize("url", ["http://h.test/", "http://h.test/a/b", "http://localhost:81/"])
def test_our_fast_path_and_the_stdlib_build_the_same_header(url: str) -> None:
    jar = Cookies({"any": "0"})
    jar.set("deep", "1", domain="h.test", path="/a")
    jar.set("tls", "1", domain="h.test", secure=True)
    respond("http://h.test/", "b=2", "c=3; Domain=h.test", jar=jar)
    respond("http://localhost/", "d=4", jar=jar)
    request = CookieRequest(parse_url(url))
    jar.add_cookie_header(cast(Any, request))
    assert request.cookie is not None
    assert set(request.cookie.split("; ")) == set((sent(jar, url) or "").split("; "))


# --- policies and other jars ---


def test_block_and_allow_lists_of_the_policy_count() -> None:
    jar = Cookies({"a": "1"})
    jar.set("b", "2", domain="h.test")
    jar.get_policy().set_blocked_domains(["h.test"])
    assert sent(jar, "http://h.test/") == "a=1"
    assert list(respond("http://h.test/", "c=3", jar=jar)) == list(jar)
    assert "c" not in jar


def test_a_policy_of_the_users_own_decides() -> None:
    class Nothing(DefaultCookiePolicy):
        def set_ok(self, cookie: Cookie, request: Any) -> bool:
            return cookie.name == "allowed"

        def return_ok(self, cookie: Cookie, request: Any) -> bool:
            return False

    jar = Cookies(policy=Nothing())
    respond("http://h.test/", "a=1", "allowed=1", jar=jar)
    assert jar.keys() == ["allowed"]
    assert sent(jar, "http://h.test/") is None
    assert isinstance(jar.copy().get_policy(), Nothing)


def test_a_plain_stdlib_jar_works_with_its_own_rules() -> None:
    jar = CookieJar()
    assert sent(jar, "http://localhost/") is None
    store_cookies(jar, parse_url("http://localhost:8000/"), ["a=1", f"b=2; {FUTURE}"])
    assert sent(jar, "http://localhost:9000/x") == "a=1; b=2"
    assert sent(jar, "http://h.test/") is None


def test_urllib_requests_are_understood() -> None:
    jar = Cookies()
    request = urllib.request.Request("http://LOCALHOST:81/x?y")
    response: Any = SetCookies(["a=1", "b=2; Domain=x.test"])
    jar.extract_cookies(response, request)
    jar.add_cookie_header(request)
    assert request.get_header("Cookie") == "a=1"


def test_cookies_from_a_stdlib_jar_are_sent_to_localhost() -> None:
    jar = CookieJar()
    store_cookies(jar, parse_url("http://localhost/"), ["a=1"])
    assert [cookie.domain for cookie in jar] == ["localhost.local"]
    assert sent(Cookies(jar), "http://localhost/") == "a=1"
    assert sent(Cookies(jar), "http://sub.localhost/") is None


def test_saving_and_loading_keeps_scope_expiry_and_secure(tmp_path: Path) -> None:
    """A jar that was saved has all that it had."""
    file = MozillaCookieJar(tmp_path / "cookies.txt")
    jar = respond("https://h.test/", f"a=1; Secure; {FUTURE}", f"b=2; Domain=h.test; {FUTURE}")
    for cookie in jar:
        file.set_cookie(cookie)
    file.save()
    file.clear()
    file.load()
    loaded = Cookies(file)
    # Up to Python 3.10, the library's jar saves its cookies sorted by domain.
    assert sorted((sent(loaded, "https://h.test/") or "").split("; ")) == ["a=1", "b=2"]
    assert sent(loaded, "http://h.test/") == "b=2"
    assert sent(loaded, "https://sub.h.test/") == "b=2"
    assert [c.expires for c in loaded] == [c.expires for c in jar]


# --- the dictionary ---


@pytest.mark.parametrize(
    "source", [{"a": "1", "b": "2"}, [("a", "1"), ("b", "2")], Cookies({"a": "1", "b": "2"})]
)
def test_a_jar_is_made_from_names_and_values(
    source: dict[str, str] | Sequence[tuple[str, str]] | CookieJar,
) -> None:
    jar = Cookies(source)
    assert jar.items() == [("a", "1"), ("b", "2")]
    assert (jar.keys(), jar.values(), len(jar)) == (["a", "b"], ["1", "2"], 2)
    assert jar == {"a": "1", "b": "2"}
    assert dict(jar.items()) == jar.get_dict() == {"a": "1", "b": "2"}
    assert all(isinstance(cookie, Cookie) for cookie in jar)


def test_names_are_looked_up_set_and_deleted() -> None:
    jar = Cookies()
    jar["a"] = "1"
    jar.update({"b": "2"}, c="3")
    assert (jar["a"], "a" in jar, "z" in jar) == ("1", True, False)
    assert jar.get("z") is None
    assert jar.get("z", "default") == "default"
    assert jar.pop("b") == "2"
    del jar["a"]
    del jar["a"]  # as in requests, no error
    jar.set("c", None)
    assert not jar
    with pytest.raises(KeyError):
        jar["a"]


def test_several_cookies_of_one_name_need_a_domain_or_path() -> None:
    jar = Cookies()
    jar.set("a", "1", domain="x.test")
    jar.set("a", "2", domain="y.test")
    jar.set("a", "3", domain="y.test", path="/deep")
    with pytest.raises(CookieConflictError):
        jar["a"]
    with pytest.raises(CookieConflictError):
        jar.get("a", domain="y.test")
    assert "a" in jar
    assert jar.get("a", domain="x.test") == "1"
    assert jar.get("a", path="/deep") == "3"
    assert jar.get_dict(domain="y.test", path="/") == {"a": "2"}
    jar.delete("a", domain="y.test", path="/deep")
    assert sorted(jar.values()) == ["1", "2"]
    jar.clear(domain="x.test")
    assert jar["a"] == "2"
    jar.clear()
    assert len(jar) == 0


def test_a_cookie_set_by_the_user_is_sent_to_its_domain_and_below() -> None:
    jar = Cookies()
    jar.set("a", "1", domain="Example.com")
    jar.set("b", "2", domain=".example.com", path="/x")
    jar.set("c", "3", domain="localhost", expires=1)
    jar.set("d", "4", domain=".2.3.4")
    jar.set("e", "5", domain="2.3.4")
    jar.set("f", "6", domain="9.2.3.4")
    assert sent(jar, "http://example.com/") == "a=1"
    assert sent(jar, "http://sub.example.com/x") == "b=2; a=1"
    assert sent(jar, "http://notexample.com/") is None
    assert sent(jar, "http://localhost/") is None
    assert sent(jar, "http://1.2.3.4/") is None
    assert sent(jar, "http://9.2.3.4/") == "f=6"


def test_a_jar_may_change_while_it_is_walked() -> None:
    jar = Cookies({"a": "1", "b": "2"})
    for cookie in jar:
        jar.delete(cookie.name)
        jar.set(f"new-{cookie.name}", "3")
    assert jar.keys() == ["new-a", "new-b"]


def test_cookies_without_a_domain_are_sent_everywhere_until_bound() -> None:
    jar = Cookies({"a": "1"})
    jar.set("b", "2", domain="other.test")
    bound = jar.bind(parse_url("http://user:pw@h.test./x"))
    assert sent(jar, "http://x.test/") == "a=1"
    assert sent(bound, "http://h.test/") == "a=1"
    assert sent(bound, "http://sub.h.test/") is None
    assert sent(bound, "http://x.test/") is None
    assert sent(bound, "http://other.test/") == "b=2"


def test_copies_share_nothing() -> None:
    """What is one client's is no other's."""
    jar = Cookies({"a": "1"})
    twins = [jar.copy(), Cookies(jar), copy.copy(jar), copy.deepcopy(jar)]
    twins.append(pickle.loads(pickle.dumps(jar)))
    for twin in twins:
        twin["b"] = "2"
        next(iter(twin.copy())).value = "changed"
        assert sent(twin, "http://h.test/") == "a=1; b=2"
    assert jar.items() == [("a", "1")]


def test_no_repr_shows_a_value() -> None:
    jar = respond("http://h.test/x/", "sid=s3cret")
    assert "s3cret" not in repr(jar) + str(jar)
    assert "sid for h.test/x" in repr(jar)


def test_threads_share_a_jar() -> None:
    jar = Cookies()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(150):
                respond(f"http://h{number}.test/", f"a{i}=1", jar=jar)
                sent(jar, f"http://h{number}.test/")
                list(jar)
        except BaseException as error:  # pragma: no cover - the assertion shows it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(jar) == 4 * 150


def test_importing_the_package_does_not_load_the_jar() -> None:
    code = "import sys, curlhttp; print('http.cookiejar' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- the order in the header (RFC 6265, section 5.4) ---


SITE = "https://a.example.com/"
IN_ORDER = "three=3; one=1; two=2; four=4; five=5; six=6; seven=7"


def fill() -> Cookies:
    jar = respond(SITE, "one=1", "two=2; Domain=example.com", "three=3; Path=/x", "four=4")
    respond("https://b.example.com/", "five=5; Domain=example.com", jar=jar)
    jar.set("six", "6")
    return respond(SITE, "seven=7", jar=jar)


@pytest.mark.parametrize(
    "pass_on",
    [
        lambda jar: jar,
        copy.copy,
        copy.deepcopy,
        Cookies,
        Cookies.copy,
        lambda jar: pickle.loads(pickle.dumps(jar)),
        lambda jar: jar.bind(parse_url(SITE)),
        lambda jar: Cookies(jar, DefaultCookiePolicy(strict_ns_domain=0)),  # not our policy
    ],
)
def test_older_cookies_come_first_whatever_their_domain(
    pass_on: Callable[[Cookies], Cookies],
) -> None:
    jar = pass_on(fill())
    assert sent(jar, SITE + "x") == IN_ORDER
    jar.set("eight", "8", domain="example.com")
    assert sent(jar, SITE + "x") == f"{IN_ORDER}; eight=8"
    assert jar.keys() == ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def test_a_cookie_that_is_set_again_keeps_its_place() -> None:
    jar = fill()
    respond(SITE, "one=new", "two=new; Domain=example.com", jar=jar)
    assert sent(jar, SITE + "x") == IN_ORDER.replace("1", "new").replace("2", "new")


@pytest.mark.parametrize(
    "remove",
    [
        lambda jar: jar.delete("one"),
        lambda jar: jar.clear("a.example.com", "/", "one"),
        lambda jar: respond(SITE, "one=; Max-Age=0", jar=jar),
    ],
)
def test_a_cookie_that_was_removed_comes_last_when_it_is_set_again(
    remove: Callable[[Cookies], object],
) -> None:
    jar = fill()
    remove(jar)
    respond(SITE, "one=1", jar=jar)
    assert sent(jar, SITE + "x") == "three=3; two=2; four=4; five=5; six=6; seven=7; one=1"


def test_the_places_of_removed_cookies_take_no_memory() -> None:
    jar = fill()
    tracemalloc.start()
    try:
        for number in range(5000):
            respond("https://c.test/", f"n{number}=1", f"n{number}=; Max-Age=0", jar=jar)
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("domain", "is_kept"),
    [
        ("home.example.org.", False),
        (".home.example.org.", False),
        ("home.example.org..", False),
        ("home.example.org .", False),
        ("example.org.", False),
        (".org.", False),
        (". home.example.org", False),
        ("home.example.org:80", False),
        ("..home.example.org", False),
        ("home.example.org", True),
        (".Example.org", True),
        ("", True),
        (".", True),
    ],
)
def test_a_domain_with_a_final_dot_is_that_of_another_host(domain: str, is_kept: bool) -> None:
    """As in browsers, and in the tests of http-state."""
    url = "http://home.example.org/"
    assert sent(respond(url, f"a=1; Domain={domain}"), url) == ("a=1" if is_kept else None)


@pytest.mark.parametrize("domain", ["127.0.0.1.", "127.0.0.1"])
def test_the_same_applies_to_addresses(domain: str) -> None:
    jar = respond("http://127.0.0.1/", f"a=1; Domain={domain}")
    assert len(jar) == (not domain.endswith("."))
