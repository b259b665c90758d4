"""RequestsCookieJar, and the functions that fill it and read it."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import MutableMapping
from email.message import Message
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from http.cookies import Morsel, SimpleCookie
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def cookies(requests: Any) -> Any:
    return requests.cookies


@pytest.fixture
def jar(cookies: Any) -> Any:
    """Return a jar with a, and with b for two hosts."""
    made = cookies.RequestsCookieJar()
    made.set("a", "1")
    made.set("b", "2", domain="x.test", path="/p")
    made.set("b", "3", domain="y.test")
    return made


@pytest.fixture
def prepare(requests: Any) -> Any:
    def prepared(url: str = "http://a.test/p/q?x=1", **arguments: Any) -> Any:
        return requests.Request("GET", url, **arguments).prepare()

    return prepared


def answer(*set_cookies: str) -> Any:
    """Return what an adapter calls raw, with Set-Cookie fields."""
    message = Message()
    for value in set_cookies:
        message["Set-Cookie"] = value
    return SimpleNamespace(_original_response=SimpleNamespace(msg=message))


# -- a dictionary of names and values


def test_a_jar_is_a_cookie_jar_and_a_mapping(cookies: Any) -> None:
    assert issubclass(cookies.RequestsCookieJar, CookieJar)
    assert issubclass(cookies.RequestsCookieJar, MutableMapping)
    assert not cookies.RequestsCookieJar()
    assert issubclass(cookies.CookieConflictError, RuntimeError)


def test_a_value_is_found_by_its_name(jar: Any) -> None:
    assert jar["a"] == jar.get("a") == "1"
    assert "a" in jar
    assert "z" not in jar
    assert 3 not in jar
    assert jar.get("z") is None
    assert jar.get("z", "d") == "d"
    with pytest.raises(KeyError, match="name='z'"):
        jar["z"]


def test_namesakes_need_a_domain_or_a_path(cookies: Any, jar: Any) -> None:
    for ask in (jar.__getitem__, jar.get, jar.pop, lambda name: jar.setdefault(name, "x")):
        with pytest.raises(cookies.CookieConflictError, match="multiple cookies with name, 'b'"):
            ask("b")
    assert "b" in jar
    assert jar.get("b", domain="x.test") == "2"
    assert jar.get("b", path="/") == "3"
    assert jar.get("b", domain="z.test") is None
    with pytest.raises(cookies.CookieConflictError):
        dict(jar)


def test_names_values_and_items_come_as_lists(jar: Any) -> None:
    assert jar.keys() == list(jar.iterkeys()) == ["a", "b", "b"]
    assert jar.values() == list(jar.itervalues()) == ["1", "2", "3"]
    assert jar.items() == list(jar.iteritems()) == [("a", "1"), ("b", "2"), ("b", "3")]
    assert len(jar) == 3


def test_iterating_gives_cookie_objects(jar: Any) -> None:
    assert [type(cookie) for cookie in jar] == [Cookie] * 3


def test_domains_and_paths_are_listed_once(jar: Any) -> None:
    assert jar.list_domains() == ["", "x.test", "y.test"]
    assert jar.list_paths() == ["/", "/p"]


def test_multiple_domains_means_that_one_domain_has_several_cookies(cookies: Any, jar: Any) -> None:
    assert jar.multiple_domains() is False
    jar.set("c", "4", domain="x.test")
    assert jar.multiple_domains() is True


def test_get_dict_may_be_confined_to_a_domain_and_a_path(jar: Any) -> None:
    assert jar.get_dict() == {"a": "1", "b": "3"}
    assert jar.get_dict("x.test") == {"b": "2"}
    assert jar.get_dict(path="/") == {"a": "1", "b": "3"}
    assert jar.get_dict("x.test", "/") == {}


def test_setting_a_name_replaces_its_value(cookies: Any) -> None:
    jar = cookies.RequestsCookieJar()
    jar["a"] = "1"
    made = jar.set("a", "2")
    assert (made.name, made.value, made.domain, made.path) == ("a", "2", "", "/")
    assert jar.items() == [("a", "2")]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({}, []),
        ({"domain": "y.test"}, [("b", "2")]),
        ({"domain": "x.test", "path": "/p"}, [("b", "3")]),
        ({"path": "/q"}, [("b", "2"), ("b", "3")]),
    ],
)
def test_setting_none_removes(jar: Any, where: Any, left: Any) -> None:
    del jar["a"]
    assert jar.set("b", None, **where) is None
    assert jar.items() == left


def test_deleting_removes_all_namesakes_and_never_fails(jar: Any) -> None:
    del jar["b"]
    del jar["nothing"]
    assert jar.items() == [("a", "1")]
    assert jar.pop("a") == "1"
    assert jar.pop("a", "d") == "d"
    with pytest.raises(KeyError):
        jar.pop("a")
    assert jar.setdefault("a", "2") == jar["a"] == "2"


@pytest.mark.parametrize(
    ("value", "kept"),
    [('"a\\"b"', '"ab"'), ('"x', '"x'), ('x\\"y', 'x\\"y'), ('"a b"', '"a b"')],
)
def test_a_quoted_value_loses_its_escaped_quotes(cookies: Any, value: str, kept: str) -> None:
    jar = cookies.RequestsCookieJar()
    jar["q"] = value
    assert jar["q"] == kept


def test_a_morsel_brings_its_own_name_and_attributes(cookies: Any) -> None:
    jar = cookies.RequestsCookieJar()
    jar["ignored"] = SimpleCookie("a=b; domain=x.test; path=/p")["a"]
    assert [(c.name, c.value, c.domain, c.path) for c in jar] == [("a", "b", "x.test", "/p")]


def test_a_jar_is_updated_from_a_mapping_or_pairs(cookies: Any, jar: Any) -> None:
    jar.update({"a": "9", "c": "8"})
    assert (jar["a"], jar["c"]) == ("9", "8")
    with pytest.raises(TypeError):
        jar.update(None)
    with pytest.raises(TypeError):
        jar.update()


def test_a_jar_is_updated_from_another_with_copies(cookies: Any, jar: Any) -> None:
    other = cookies.RequestsCookieJar()
    other.update(jar)
    assert other == jar
    assert other.items() == jar.items()
    assert not {id(cookie) for cookie in jar} & {id(cookie) for cookie in other}


def test_jars_are_compared_by_names_and_values_and_not_hashed(cookies: Any) -> None:
    one, other = cookies.RequestsCookieJar(), cookies.RequestsCookieJar()
    one.set("a", "1", domain="x.test")
    other.set("a", "1", domain="y.test")
    assert one == other == {"a": "1"}
    assert one != cookies.RequestsCookieJar()
    with pytest.raises(TypeError):
        hash(one)


def test_it_shows_its_cookies(cookies: Any) -> None:
    jar = cookies.RequestsCookieJar()
    jar.set("a", "1", domain="x.test")
    assert str(jar) == "<RequestsCookieJar[<Cookie a=1 for x.test/>]>"
    assert repr(jar).startswith("<RequestsCookieJar[Cookie(version=0, name='a', value='1', ")


def test_clear_may_be_confined_to_a_domain(jar: Any) -> None:
    jar.clear("y.test")
    assert jar.items() == [("a", "1"), ("b", "2")]
    jar.clear()
    assert jar.items() == []


# -- copies


def test_a_copy_has_copies_of_the_cookies_and_the_policy(cookies: Any) -> None:
    policy = DefaultCookiePolicy()
    jar = cookies.RequestsCookieJar(policy)
    jar.set("a", "1", domain="x.test", rest={"HttpOnly": ""})
    twin = jar.copy()
    assert type(twin) is cookies.RequestsCookieJar
    assert twin.get_policy() is jar.get_policy() is policy
    next(iter(twin)).value = "2"
    twin["b"] = "3"
    assert jar.items() == [("a", "1")]
    assert next(iter(twin)).has_nonstandard_attr("HttpOnly")


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda jar: pickle.loads(pickle.dumps(jar))], ids=["deep", "pickle"]
)
def test_it_survives_pickling(cookies: Any, jar: Any, twin_of: Any) -> None:
    twin = twin_of(jar)
    assert type(twin) is cookies.RequestsCookieJar
    assert twin.items() == jar.items()
    assert type(twin.get_policy()) is DefaultCookiePolicy
    twin["c"] = "4"
    assert "c" not in jar


# -- single cookies


def test_create_cookie_has_the_attributes_of_a_session_cookie(cookies: Any) -> None:
    assert vars(cookies.create_cookie("n", "v")) == {
        "version": 0,
        "name": "n",
        "value": "v",
        "port": None,
        "port_specified": False,
        "domain": "",
        "domain_specified": False,
        "domain_initial_dot": False,
        "path": "/",
        "path_specified": True,
        "secure": False,
        "expires": None,
        "discard": True,
        "comment": None,
        "comment_url": None,
        "rfc2109": False,
        "_rest": {"HttpOnly": None},
    }


def test_create_cookie_tells_what_was_specified(cookies: Any) -> None:
    made = cookies.create_cookie(
        "n", "v", domain=".a.test", port="80", path="", expires=5, rest={"x": 1}, secure=True
    )
    assert (made.domain_specified, made.domain_initial_dot, made.port_specified) == (True,) * 3
    assert (made.path_specified, made.expires, made.secure, made._rest) == (
        False,
        5,
        True,
        {"x": 1},
    )


def test_create_cookie_refuses_other_keywords(cookies: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword arguments"):
        cookies.create_cookie("n", "v", foo=1, bar=2)


def morsel(text: str, **attributes: Any) -> Morsel[str]:
    made = SimpleCookie(text)["a"]
    for name, value in attributes.items():
        made[name.replace("_", "-")] = value
    return made


def test_a_morsel_becomes_a_cookie(cookies: Any) -> None:
    made = cookies.morsel_to_cookie(
        morsel(
            "a=b; path=/x; domain=d.test; secure; httponly; comment=hi; version=1; "
            "expires=Thu, 01-Jan-1970 00:00:10 GMT"
        )
    )
    assert (made.name, made.value, made.path, made.domain) == ("a", "b", "/x", "d.test")
    assert (made.version, made.expires, made.secure, made.discard) == (1, 10, True, False)
    assert (made.comment, made.comment_url, made._rest) == ("hi", True, {"HttpOnly": True})


def test_a_bare_morsel_becomes_a_cookie_without_an_end(cookies: Any) -> None:
    made = cookies.morsel_to_cookie(morsel("a=b"))
    assert (made.expires, made.path, made.domain, made.version) == (None, "", "", 0)
    assert made._rest == {"HttpOnly": ""}


def test_max_age_counts_from_now_and_beats_expires(cookies: Any) -> None:
    before = int(time.time())
    made = cookies.morsel_to_cookie(
        morsel("a=b", max_age="100", expires="Thu, 01-Jan-1970 00:00:10 GMT")
    )
    assert before + 100 <= made.expires <= time.time() + 100
    assert isinstance(made.expires, int)


def test_a_morsel_with_a_bad_date_or_age_is_refused(cookies: Any) -> None:
    with pytest.raises(TypeError, match="max-age: soon must be integer"):
        cookies.morsel_to_cookie(morsel("a=b", max_age="soon"))
    with pytest.raises(ValueError):
        cookies.morsel_to_cookie(morsel("a=b", expires="Thu, 01 Jan 1970 00:00:10 GMT"))


def test_remove_cookie_by_name_may_be_confined(cookies: Any, jar: Any) -> None:
    jar.set("b", "4", domain="y.test", path="/p")
    cookies.remove_cookie_by_name(jar, "b", domain="y.test", path="/p")
    assert jar.items() == [("a", "1"), ("b", "2"), ("b", "3")]
    cookies.remove_cookie_by_name(jar, "b")
    cookies.remove_cookie_by_name(jar, "nothing")
    assert jar.items() == [("a", "1")]


# -- dictionaries into jars


def test_a_dictionary_becomes_a_jar(cookies: Any) -> None:
    jar = cookies.cookiejar_from_dict({"a": "1", "b": "2"})
    assert type(jar) is cookies.RequestsCookieJar
    assert jar.items() == [("a", "1"), ("b", "2")]
    assert cookies.cookiejar_from_dict(None).items() == []


def test_a_dictionary_goes_into_a_jar_over_or_beside_what_is_there(cookies: Any) -> None:
    jar = cookies.cookiejar_from_dict({"a": "0"})
    assert cookies.cookiejar_from_dict({"a": "1", "b": "2"}, jar, overwrite=False) is jar
    assert jar.items() == [("a", "0"), ("b", "2")]
    assert cookies.cookiejar_from_dict({"a": "1"}, cookiejar=jar) is jar
    assert jar["a"] == "1"


def test_a_dictionary_goes_into_an_empty_jar_of_the_standard_library(cookies: Any) -> None:
    jar = CookieJar()
    assert cookies.cookiejar_from_dict({"a": "1"}, jar) is jar
    assert [(cookie.name, cookie.value) for cookie in jar] == [("a", "1")]


def test_merging_a_dictionary_keeps_what_is_there(cookies: Any) -> None:
    jar = cookies.cookiejar_from_dict({"a": "0"})
    assert cookies.merge_cookies(jar, {"a": "1", "b": "2"}) is jar
    assert jar.items() == [("a", "0"), ("b", "2")]


@pytest.mark.parametrize("make", ["RequestsCookieJar", "CookieJar"])
def test_merging_a_jar_replaces_what_is_there(cookies: Any, make: str) -> None:
    jar = cookies.RequestsCookieJar() if make == "RequestsCookieJar" else CookieJar()
    jar.set_cookie(cookies.create_cookie("a", "0"))
    other = cookies.cookiejar_from_dict({"a": "1", "b": "2"})
    assert cookies.merge_cookies(jar, other) is jar
    assert [(cookie.name, cookie.value) for cookie in jar] == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("nothing", [None, {}, [("a", "b")], 5])
def test_merging_anything_else_does_nothing(cookies: Any, nothing: Any) -> None:
    assert cookies.merge_cookies(cookies.RequestsCookieJar(), nothing).items() == []


def test_cookies_merge_into_jars_only(cookies: Any) -> None:
    with pytest.raises(ValueError, match="You can only merge into CookieJar"):
        cookies.merge_cookies({}, {"a": "1"})


@pytest.mark.parametrize("make", ["RequestsCookieJar", "CookieJar"])
def test_any_jar_can_be_copied(cookies: Any, make: str) -> None:
    jar = cookies.RequestsCookieJar() if make == "RequestsCookieJar" else CookieJar()
    jar.set_cookie(cookies.create_cookie("a", "1"))
    twin = cookies._copy_cookie_jar(jar)
    assert type(twin) is type(jar)
    next(iter(twin)).value = "2"
    twin.set_cookie(cookies.create_cookie("b", "2"))
    assert [(cookie.name, cookie.value) for cookie in jar] == [("a", "1")]
    assert cookies._copy_cookie_jar(None) is None


# -- what is received and sent


def test_set_cookie_fields_go_into_the_jar(cookies: Any, prepare: Any) -> None:
    jar = cookies.RequestsCookieJar()
    raw = answer(
        "a=1; Path=/p",
        "b=2; Domain=other.test",
        'c="q w"; Secure',
        "d=4; Max-Age=0",
        "e=5; HttpOnly",
    )
    assert cookies.extract_cookies_to_jar(jar, prepare(), raw) is None
    assert sorted(jar.items()) == [("a", "1"), ("c", '"q w"'), ("e", "5")]
    assert [(c.domain, c.path, c.secure) for c in jar] == [
        ("a.test", "/p", False),
        ("a.test", "/p", True),
        ("a.test", "/p", False),
    ]
    assert [c.has_nonstandard_attr("HttpOnly") for c in jar] == [False, False, True]


def test_a_jar_of_the_standard_library_takes_them_too(cookies: Any, prepare: Any) -> None:
    jar = CookieJar()
    cookies.extract_cookies_to_jar(jar, prepare(), answer("a=1"))
    assert [cookie.name for cookie in jar] == ["a"]


def test_a_domain_attribute_is_for_the_host_and_what_is_below_it(
    cookies: Any, prepare: Any
) -> None:
    jar = cookies.RequestsCookieJar()
    request = prepare("http://www.a.test/")
    cookies.extract_cookies_to_jar(jar, request, answer("a=1; Domain=a.test", "b=2; Domain=x.test"))
    assert jar.list_domains() == [".a.test"]
    assert cookies.get_cookie_header(jar, prepare("http://b.a.test/")) == "a=1"
    assert cookies.get_cookie_header(jar, prepare("http://ba.test/")) is None


def test_what_expires_goes_away(cookies: Any, prepare: Any) -> None:
    jar = cookies.RequestsCookieJar()
    cookies.extract_cookies_to_jar(jar, prepare(), answer("a=1", "b=2"))
    cookies.extract_cookies_to_jar(jar, prepare(), answer("a=1; Max-Age=0"))
    assert jar.items() == [("b", "2")]


def test_the_host_header_is_the_host_that_cookies_are_for(cookies: Any, prepare: Any) -> None:
    jar = cookies.RequestsCookieJar()
    request = prepare(headers={"Host": "b.test:99"})
    cookies.extract_cookies_to_jar(jar, request, answer("a=1"))
    assert jar.list_domains() == ["b.test"]
    assert cookies.get_cookie_header(jar, request) == "a=1"
    assert cookies.get_cookie_header(jar, prepare()) is None


@pytest.mark.parametrize("raw", [SimpleNamespace(), SimpleNamespace(_original_response=None)])
def test_a_response_without_its_original_sets_nothing(cookies: Any, prepare: Any, raw: Any) -> None:
    jar = cookies.RequestsCookieJar()
    cookies.extract_cookies_to_jar(jar, prepare(), raw)
    cookies.extract_cookies_to_jar(jar, prepare(), answer())
    assert len(jar) == 0


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("http://a.test/p/q", "a=1; e=5"),
        ("http://a.test/", "e=5"),
        ("https://a.test/p", "a=1; c=3; e=5"),
        ("http://b.test/p/q", None),
        ("http://a.test:8080/", "e=5"),
    ],
)
def test_the_cookie_header_has_what_the_url_may_get(
    cookies: Any, prepare: Any, url: str, header: str | None
) -> None:
    jar = cookies.RequestsCookieJar()
    raw = answer("a=1; Path=/p", "c=3; Secure; Path=/", "e=5; Path=/")
    cookies.extract_cookies_to_jar(jar, prepare(), raw)
    found = cookies.get_cookie_header(jar, prepare(url))
    assert found == header or sorted(found.split("; ")) == sorted((header or "").split("; "))


def test_a_cookie_without_a_domain_goes_everywhere(cookies: Any, prepare: Any) -> None:
    jar = cookies.cookiejar_from_dict({"a": "1"})
    for url in ("http://a.test/", "http://localhost:8080/", "http://127.0.0.1/"):
        assert cookies.get_cookie_header(jar, prepare(url)) == "a=1"


def test_there_is_no_cookie_header_when_there_is_one_or_no_cookie(
    cookies: Any, prepare: Any
) -> None:
    jar = cookies.cookiejar_from_dict({"a": "1"})
    assert cookies.get_cookie_header(jar, prepare(headers={"cookie": "z=1"})) is None
    assert cookies.get_cookie_header(cookies.RequestsCookieJar(), prepare()) is None
    assert cookies.get_cookie_header(CookieJar(), prepare()) is None


def test_expired_cookies_are_not_sent(cookies: Any, prepare: Any) -> None:
    jar = cookies.RequestsCookieJar()
    jar.set("a", "1", expires=int(time.time()) - 10)
    jar.set("b", "2", expires=int(time.time()) + 1000)
    assert cookies.get_cookie_header(jar, prepare()) == "b=2"
    assert jar.keys() == ["b"]


def test_a_jar_with_a_mind_of_its_own_is_asked(cookies: Any, prepare: Any) -> None:
    class Own(cookies.RequestsCookieJar):  # type: ignore[misc]
        def add_cookie_header(self, request: Any) -> None:
            request.add_unredirected_header("Cookie", "own=1")

    assert cookies.get_cookie_header(Own(), prepare()) == "own=1"


# -- what http.cookiejar talks to


def test_a_mock_request_answers_for_the_prepared_one(cookies: Any, prepare: Any) -> None:
    mock = cookies.MockRequest(prepare(headers={"X": "1"}))
    assert mock.type == mock.get_type() == "http"
    assert mock.host == mock.get_host() == "a.test"
    assert mock.origin_req_host == mock.get_origin_req_host() == "a.test"
    assert mock.get_full_url() == "http://a.test/p/q?x=1"
    assert mock.unverifiable is mock.is_unverifiable() is True
    assert mock.has_header("x")
    assert mock.get_header("x") == "1"
    assert mock.get_header("y") is None
    assert mock.get_header("y", "d") == "d"


@pytest.mark.parametrize("host", ["b.test:99", b"b.test:99"])
def test_a_mock_request_puts_the_host_header_into_the_url(
    cookies: Any, prepare: Any, host: Any
) -> None:
    mock = cookies.MockRequest(prepare("https://a.test:8443/p;z?x=1#f", headers={"Host": host}))
    assert mock.get_full_url() == "https://b.test:99/p;z?x=1#f"
    assert mock.get_host() == "a.test:8443"


def test_a_mock_request_keeps_new_headers_apart(cookies: Any, prepare: Any) -> None:
    request = prepare()
    mock = cookies.MockRequest(request)
    mock.add_unredirected_header("Cookie", "a=1")
    assert mock.get_new_headers() == {"Cookie": "a=1"}
    assert mock.has_header("Cookie")
    assert mock.get_header("Cookie") == "a=1"
    assert "Cookie" not in request.headers
    with pytest.raises(NotImplementedError):
        mock.add_header("Cookie", "a=1")


def test_a_mock_response_hands_out_the_headers(cookies: Any) -> None:
    headers = Message()
    assert cookies.MockResponse(headers).info() is headers
