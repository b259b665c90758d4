"""URLs: one canonical form, or a refusal that shows no secret.

The expected forms of paths and queries were read off requests 2.34, except that only a "%" that
begins no escape is escaped.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
import time
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import URL
from curlhttp._features.typed_urls import add_scheme
from curlhttp._http.url import decode_reference, encode_params, parse_url
from curlhttp.exceptions import InvalidSchema, InvalidURL, MissingSchema
from curlhttp.types import ParamsInput
from tests.support.pace import assert_cheap

ASCII_VISIBLE = re.compile(r"https?://[!-~]+").fullmatch


NOT_OURS = "Invalid URL "
BEGINS = ": it must begin with http:// or https://"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", "http://h/"),
        ("http://h?q", "http://h/?q"),
        ("http://h#f", "http://h/#f"),
        ("http://h/?", "http://h/"),
        ("http://h/#", "http://h/"),
        ("  http://h/", "http://h/"),
        (" \thttp://h/", "http://h/"),
        ("http://h/ ", "http://h/%20"),
        ("HTTP://H/A", "http://h/A"),
        ("http://h:/", "http://h/"),
        ("http://h:80/", "http://h/"),
        ("http://h:00443/", "http://h:443/"),
        ("https://h:443/", "https://h/"),
        ("http://h/a b?c d", "http://h/a%20b?c%20d"),
        ("http://h/a\tb\r\nc\0d\x7f?x\ty\r\n", "http://h/a%09b%0D%0Ac%00d%7F?x%09y%0D%0A"),
        ("http://h/é?ü=ß", "http://h/%C3%A9?%C3%BC=%C3%9F"),
        ("http://h/\x85\xa0\u2028", "http://h/%C2%85%C2%A0%E2%80%A8"),
        (b"http://h/\xc3\xa9", "http://h/%C3%A9"),
        ("http://h/%20c%zz", "http://h/%20c%25zz"),
        ("http://h/%zz?a=%20", "http://h/%25zz?a=%20"),
        ("http://h/%e2%2f?%zz", "http://h/%E2%2F?%25zz"),
        ("http://h/%E9%zz%41", "http://h/%E9%25zzA"),
        ("http://h/?q=caf%C3%A9&d=50%", "http://h/?q=caf%C3%A9&d=50%25"),
        ("http://h/%%41%4", "http://h/%25A%254"),
        ("http://h/50% é%2F%?50% é%2F%#50% é%2F%",
         "http://h/50%25%20%C3%A9%2F%25?50%25%20%C3%A9%2F%25#50%25%20%C3%A9%2F%25"),
        ("http://h/%2%35", "http://h/%2525"),
        ("http://h/ü%zz", "http://h/%C3%BC%25zz"),
        ("http://h/%e9", "http://h/%E9"),
        ("http://h/%41%7e", "http://h/A~"),
        ("http://h/%2541", "http://h/%2541"),
        ("http://h/a%", "http://h/a%25"),
        ("http://h?a=%", "http://h/?a=%25"),
        ("http://h//a//b", "http://h//a//b"),
        ("http://h/a/../b", "http://h/b"),
        ("http://h/a/./b/", "http://h/a/b/"),
        ("http://h/../..", "http://h/"),
        ("http://h/a/..", "http://h/"),
        ("http://h/..a/b.../.", "http://h/..a/b.../"),
        ("http://h/.well-known/x", "http://h/.well-known/x"),
        ("http://h/a//../b", "http://h/a/b"),
        ("http://h/a/b/..//c", "http://h/a//c"),
        ("http://h//../x", "http://h/x"),
        ("http://h/?a=/../b", "http://h/?a=/../b"),
        ("http://h/%2e%2e/b", "http://h/%2e%2e/b"),
        ("http://h/a/%2E./b", "http://h/a/%2E./b"),
        ("http://h/a;b=1?c;d", "http://h/a;b=1?c;d"),
        ("http://h/a?b?c#d#e", "http://h/a?b?c#d%23e"),
        ("http://h/[]{}|^`\\<>\"'!$&()*+,;=:@~-._", "http://h/%5B%5D%7B%7D%7C%5E%60%5C%3C%3E%22'!$&()*+,;=:@~-._"),
        ("http://h/?[]{}|^`\\<>\"'!$&()*+,;=:@~-._/", "http://h/?%5B%5D%7B%7D%7C%5E%60%5C%3C%3E%22'!$&()*+,;=:@~-._/"),
        ("http://u:p@h/", "http://h/"),
    ],
)  # fmt: skip
def test_a_url_has_the_form_that_requests_sends(url: str | bytes, expected: str) -> None:
    """Kept characters are encoded as requests does."""
    parsed = parse_url(url)
    assert str(parsed) == expected
    assert parsed.wire == expected.partition("#")[0]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("EXAMPLE.com", "example.com"),
        ("a_b.com", "a_b.com"),
        ("x.", "x."),
        ("good%2eevil", "good.evil"),
        ("%65vil", "evil"),
        ("b%C3%BCcher.de", "xn--bcher-kva.de"),
        ("bücher.de", "xn--bcher-kva.de"),
        ("faß.de", "xn--fa-hia.de"),
        ("\uff45xample.com", "example.com"),
        ("日本。jp", "xn--wgv71a.jp"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("127.65535", "127.0.255.255"),
        ("\uff11\uff12\uff17.1", "127.0.0.1"),
        ("%31%32%37.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0xffffffff", "255.255.255.255"),
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4.", "1.2.3.4"),
        ("1.2.3.4.com", "1.2.3.4.com"),
        ("a" * 63 + ".b", "a" * 63 + ".b"),
    ],
)
def test_a_host_has_one_spelling_everywhere(host: str, expected: str) -> None:
    """For connecting and for every decision."""
    url = parse_url(f"https://{host}:8443/")
    assert url.host == expected
    assert url.port == 8443
    assert url.authority == f"{expected}:8443"
    assert url.origin == f"https://{expected}:8443"
    assert url.wire == f"https://{expected}:8443/"


@pytest.mark.parametrize(
    ("host", "host_kept", "authority", "wire"),
    [
        ("[::1]", "::1", "[::1]", "http://[::1]/"),
        ("[0:0::0001]", "::1", "[::1]", "http://[::1]/"),
        ("[FE80::A]:81", "fe80::a", "[fe80::a]:81", "http://[fe80::a]:81/"),
        ("[fe80::1%25eth0]", "fe80::1%eth0", "[fe80::1]", "http://[fe80::1%25eth0]/"),
        ("[fe80::1%Eth0]", "fe80::1%Eth0", "[fe80::1]", "http://[fe80::1%25Eth0]/"),
        ("[::ffff:7f00:1]", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]/"),
    ],
)
def test_an_ipv6_zone_is_for_connecting_only(
    host: str, host_kept: str, authority: str, wire: str
) -> None:
    """A zone is not sent."""
    url = parse_url(f"http://{host}/")
    assert (url.host, url.authority, url.wire) == (host_kept, authority, wire)
    assert url.origin == f"http://[{host_kept}]:{url.port}"
    assert "%" not in str(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://", "http:", "https:x", "http:///x", "http:/x/", "http://?q", "http://:80/", "http://@/",
        "http://*.x/", "http://.x/", "http://./", "http://a..b/", "http://x../",
        "http://good\\@evil/", "http://a\\b/", "http://a@b@c/", "http://a:b@c@d/",
        "http://a b/", "http://a\tb/", "http://a\nb/", "http://a\0b/", "http://a\x7fb/",
        "http://h /",
        "http://u:p q@h/", "http://u:p\r\n@h/", "http://a\u2003b/", "http://a\x85b/",
        "http://h:0/", "http://h:00/", "http://h:65536/", "http://h:999999999999/", "http://h:+80/",
        "http://h:-1/", "http://h:8 0/", "http://h:٨٠/", "http://h:80:80/", "http://h:8a/",
        "http://a%00b/", "http://a%2fb/", "http://a%40b/", "http://a%3a80/", "http://%2565vil/",
        "http://%zz/", "http://%/", "http://%ff/", "http://a%5cb/",
        "http://a,b/", "http://a;b/", "http://a<b/", "http://a|b/", "http://a'b/", "http://a$b/",
        "http://[::1", "http://::1/", "http://[::1]x/", "http://[1:2]/", "http://[v1.a]/", "http://[]/",
        "http://[::1]]/", "http://[[::1]]/", "http://[::1]%20/", "http://[::1%]/", "http://[::1%25]/",
        "http://[fe80::1%25a%20b]/", "http://[127.0.0.1]/", "http://x[::1]/", "http://[::1%25a/b]/",
        "http://256.1.1.1/", "http://1.2.3.4.5/", "http://1.2.3.08/", "http://0x/", "http://4294967296/",
        "http://1.16777216/", "http://1.256.1/", "http://a.1/", "http://a.0x1/", "http://1.2.3.0xg.0x/",
        "http://℀.com/", "http://\u00ad/", "http://\ufffd/", "http://xn--é/",
        "http://" + "a" * 64 + "/", "http://" + "a." * 126 + "ab/", "http://" + "ü" * 64 + "/",
        "http://h/\ud800", "http://h/?\udfff", "http://h/#\ud800", "http://h\ud800/", "http://u\ud800@h/",
        b"http://h/\xff",
    ],
)  # fmt: skip
def test_a_url_that_parsers_read_differently_is_refused(url: str | bytes) -> None:
    """Hosts and ports that other parsers read differently."""
    with pytest.raises(InvalidURL):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("foo", MissingSchema, "Invalid URL 'foo': No scheme supplied. Perhaps you meant https://foo?"),
        ("", MissingSchema, "Invalid URL '': a relative URL needs a client with a base_url, such as Client(base_url='https://example.com')"),
        ("//x/", MissingSchema, "Invalid URL '//x/': No scheme supplied. Perhaps you meant https://x/?"),
        ("x.com", MissingSchema, "Invalid URL 'x.com': No scheme supplied. Perhaps you meant https://x.com?"),
        ("http:///x", InvalidURL, "Invalid URL 'http:///x': No host supplied"),
        ("ftp://x/", InvalidSchema, NOT_OURS + "'ftp://x/'" + BEGINS),
        ("x.com:80", InvalidSchema, NOT_OURS + "'x.com:80'" + BEGINS),
        ("http+unix://x/", InvalidSchema, NOT_OURS + "'http+unix://x/'" + BEGINS),
        ("file:///x", InvalidSchema, NOT_OURS + "'file:///x'" + BEGINS),
    ],
)  # fmt: skip
def test_messages_are_those_of_requests(url: str, error: type[Exception], message: str) -> None:
    """A URL without scheme or host is refused."""
    with pytest.raises(error) as caught:
        parse_url(url)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@/",
        "http://user:hunter2@h:99999/",
        "http://user:hunter2@x@y/",
        "http://user:hun\\hunter2@h/",
        "http://user:hunter2/x@h/",
        "http://user:hunter2?x@h/",
        "http://user:1hunter2#x@h:0/",
        "ftp://user:hunter2@h/",
        "user:hunter2@h",
        "http:user:hunter2@h",
        "httpuser@hunter2@h/",
        "user:hunter2://x@h/",
        b"http://user:hunter2\xff@h/",
    ],
)
def test_no_message_shows_userinfo(url: str | bytes) -> None:
    """No message, repr or log shows a secret."""
    with pytest.raises((InvalidURL, InvalidSchema, MissingSchema)) as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["a" * 10**5, "http://" + "a" * 10**5, "ftp://" + "a" * 10**5])
def test_a_message_stays_short(url: str) -> None:
    with pytest.raises((InvalidURL, InvalidSchema, MissingSchema)) as caught:
        parse_url(url)
    assert len(str(caught.value)) < 600


def test_a_message_has_no_control_characters() -> None:
    with pytest.raises(InvalidURL) as caught:
        parse_url("http://a\r\nb\x1b\ud800/")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "url",
    [
        "http://" + "@" * 10**5,
        "http://h/" + "@" * 10**5,
        "http://h/" + "é" * 50_000,
        "http://h/" + "%41" * 33_000,
        "http://h/" + "%zz" * 33_000,
        "http://h" + "/.." * 33_000,
        "http://" + "a." * 50_000,
        "http://" + "%41" * 33_000,
        "http://" + "ü" * 10**5,
        "http://h:" + "1" * 10**5,
        "http://[" + ":" * 10**5 + "]/",
        "http://" + "1" * 10**5,
        " " * 10**5,
    ],
)
def test_a_huge_url_takes_linear_time(url: str) -> None:
    """A long URL takes linear time."""
    started = time.process_time()
    with contextlib.suppress(InvalidURL, MissingSchema):
        assert ASCII_VISIBLE(parse_url(url).wire)
    # Measured at 1 to 9 ms; anything quadratic takes seconds.
    assert_cheap(time.process_time() - started, 0.25)


@pytest.mark.parametrize(
    ("userinfo", "username", "password"),
    [
        ("u:p@", "u", "p"),
        ("u%40:p%3A%2F@", "u@", "p:/"),
        ("u@", "u", None),
        ("u:@", "u", ""),
        (":p@", "", "p"),
        ("u:p:q@", "u", "p:q"),
        ("u%:50%%40@", "u%", "50%@"),
        ("u:é@", "u", "é"),
        ("@", None, None),
        (":@", None, None),
        ("", None, None),
    ],
)
def test_userinfo_is_read_and_never_shown(
    userinfo: str, username: str | None, password: str | None
) -> None:
    """No message, repr or log shows a secret."""
    url = parse_url(f"http://{userinfo}h/x#f")
    assert (url.username, url.password) == (username, password)
    assert str(url) == "http://h/x#f"
    assert repr(url) == "URL('http://h/x#f')"
    assert url.wire == "http://h/x"
    bare = url.without_userinfo()
    assert (bare.username, bare.password, str(bare)) == (None, None, str(url))


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/x", "http://h:8080/x"),
        ("x", "http://h:8080/a/x"),
        ("x/", "http://h:8080/a/x/"),
        ("../x", "http://h:8080/x"),
        ("./", "http://h:8080/a/"),
        ("..", "http://h:8080/"),
        ("../../../x?y=/../z", "http://h:8080/x?y=/../z"),
        ("?y", "http://h:8080/a/b%20c?y"),
        ("?", "http://h:8080/a/b%20c"),
        ("", "http://h:8080/a/b%20c?q=1"),
        ("#", "http://h:8080/a/b%20c?q=1"),
        ("/x?", "http://h:8080/x"),
        ("//other/x", "http://other/x"),
        ("//other", "http://other/"),
        ("https://other/", "https://other/"),
        ("HTTPS://OTHER", "https://other/"),
        ("x y%zz", "http://h:8080/a/x%20y%25zz"),
        ("50%/%C3%A9?%41%", "http://h:8080/a/50%25/%C3%A9?A%25"),
        ("\xa0/à\x85", "http://h:8080/a/%C2%A0/%C3%A0%C2%85"),
        ("é", "http://h:8080/a/%C3%A9"),
        ("é".encode(), "http://h:8080/a/%C3%A9"),
        (" /x \r\n", "http://h:8080/x"),
        ("/\\evil/", "http://h:8080/%5Cevil/"),
        ("\\\\evil/", "http://h:8080/a/%5C%5Cevil/"),
        ("./a:b", "http://h:8080/a/a:b"),
        ("/a:b", "http://h:8080/a:b"),
        ("x@y", "http://h:8080/a/x@y"),
    ],
)
def test_a_reference_is_resolved(location: str | bytes, expected: str) -> None:
    base = parse_url("http://u:p@h:8080/a/b%20c?q=1")
    joined = base.join(location)
    assert str(joined) == expected
    assert (joined.username, joined.password) == (None, None)


def test_a_reference_may_bring_its_own_userinfo() -> None:
    joined = parse_url("http://h/").join("//u:p@other/")
    assert (joined.username, joined.password, joined.wire) == ("u", "p", "http://other/")
    kept = parse_url("http://h/#f").join_location("http://u:p@other/")
    assert (kept.username, kept.password, kept.fragment) == ("u", "p", "f")


@pytest.mark.parametrize(
    ("location", "fragment"),
    [("/x", "f"), ("/x#", "f"), ("/x#g h", "g%20h"), ("//o/", "f"), ("//o/#g", "g")],
)
def test_a_location_alone_inherits_the_fragment(location: str, fragment: str) -> None:
    base = parse_url("http://h/y#f")
    assert base.join_location(location).fragment == fragment
    assert base.join(location).fragment == ("" if fragment == "f" else fragment)


def test_a_url_loses_its_fragment_alone() -> None:
    url = parse_url("http://u:p@h/y?q#f").without_fragment()
    assert (url.username, url.password, str(url)) == ("u", "p", "http://h/y?q")
    assert url.without_fragment() is url


@pytest.mark.parametrize(
    ("received", "read"),
    [
        (b"/caf%E9?x#y", "/caf%E9?x#y"),
        ("//bücher.test/caf\u00e9".encode(), "//bücher.test/caf\u00e9"),
        (b"/caf\xe9", "/caf%E9"),
        (b"/caf\xc3\xa9/caf\xe9?\xff#%zz \x00", "/caf%C3%A9/caf%E9?%FF#%zz \x00"),
    ],
)
def test_the_url_in_a_field_keeps_its_bytes(received: bytes, read: str) -> None:
    assert decode_reference(received.decode("latin-1")) == read


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("file:///etc/passwd", InvalidSchema),
        ("javascript:alert(1)", InvalidSchema),
        ("ftp://h/", InvalidSchema),
        ("localhost:80/x", InvalidSchema),
        ("http:x", InvalidURL),
        ("http:/x", InvalidURL),
        ("///x", InvalidURL),
        ("//a@b@c/", InvalidURL),
        ("//good\\@evil/", InvalidURL),
        ("/\ud800", InvalidURL),
        (b"/\xff", InvalidURL),
    ],
)
def test_an_invalid_reference_is_refused(location: str | bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_url("http://h/").join(location)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"a": None, "b": [1, 2], "c": True, "d": "x y", "e": "é", "f": 1.5, "g": b"\xff"},
         "b=1&b=2&c=True&d=x+y&e=%C3%A9&f=1.5&g=%FF"),
        ([("a", "1"), ("a", "2")], "a=1&a=2"),
        ((("a", 1), ("b", 2)), "a=1&b=2"),
        (iter([("a", 1)]), "a=1"),
        ({"a": (1, None)}, "a=1"),
        ({"a": iter([1, 2])}, "a=1&a=2"),
        ({"a": []}, ""),
        ({"a": ""}, "a="),
        ({"": "a"}, "=a"),
        ({1: 2}, "1=2"),
        ({b"k": "v"}, "k=v"),
        ({"k": "~*-._/?&=#%+"}, "k=~%2A-._%2F%3F%26%3D%23%25%2B"),
        ({"a\r\nb": "\0"}, "a%0D%0Ab=%00"),
        ("raw=x y&é", "raw=x%20y&%C3%A9"),
        ("raw=%C3%A9&d=50%", "raw=%C3%A9&d=50%25"),
        (b"raw=%zz", "raw=%25zz"),
        ("?a", "?a"),
        ("a#b\r\n", "a%23b%0D%0A"),
        ({}, ""),
        ("", ""),
        (None, ""),
    ],
)  # fmt: skip
def test_params_are_appended_by_the_rules_of_requests(
    params: ParamsInput | None, expected: str
) -> None:
    queries = [params] if hasattr(params, "__next__") else [params, params]
    if isinstance(params, dict) and hasattr(params.get("a"), "__next__"):
        queries = [params]
    bases = ["http://u:p@h/?x=1#f", "http://h/"]
    for base, query in zip(bases, queries, strict=False):
        url = parse_url(base).with_params(query)
        present = [part for part in (parse_url(base).query, expected) if part]
        assert url.target == "/?" + "&".join(present) if present else url.target == "/"
        assert (url.username, url.fragment) == (parse_url(base).username, parse_url(base).fragment)


def test_string_params_are_not_encoded_again() -> None:
    assert encode_params("a b=é") == "a b=é"
    assert encode_params("a=é".encode()) == "a=é"


@pytest.mark.parametrize("params", [{"a": "\ud800"}, {"\ud800": 1}, "\ud800", b"\xff"])
def test_params_that_are_not_unicode_are_refused(params: ParamsInput) -> None:
    with pytest.raises(InvalidURL):
        parse_url("http://h/").with_params(params)


def test_a_url_is_immutable_and_hashable() -> None:
    url = parse_url("http://h/")
    with pytest.raises(AttributeError):
        url.host = "evil"
    with pytest.raises(AttributeError):
        del url.host
    assert not hasattr(url, "__dict__")
    assert {url: 1}[parse_url("HTTP://H:80")] == 1


def test_equality_compares_canonical_form_fragment_and_userinfo() -> None:
    assert parse_url("http://h") == parse_url("HTTP://H:80/a/..")
    assert parse_url("http://h/#a") != parse_url("http://h/#b")
    assert parse_url("http://u@h/") != parse_url("http://h/")
    assert parse_url("http://h/") != "http://h/"


def test_a_url_passes_through_and_the_same_text_is_parsed_once() -> None:
    url = parse_url("http://example.com/once")
    assert parse_url(url) is url
    assert URL("http://example.com/once") is url
    assert parse_url(b"http://example.com/once") is url


def test_path_and_query_are_the_two_parts_of_the_target() -> None:
    url = parse_url("http://h/a/b?c=d?e#f")
    assert (url.target, url.path, url.query) == ("/a/b?c=d?e", "/a/b", "c=d?e")
    assert (parse_url("http://h").path, parse_url("http://h").query) == ("/", "")


def test_copies_and_pickles_are_equal() -> None:
    url = parse_url("http://u:p@h:81/x?y#f")
    for twin in (copy.copy(url), copy.deepcopy(url), pickle.loads(pickle.dumps(url))):
        assert twin == url
        assert (twin.username, twin.password, twin.origin) == ("u", "p", "http://h:81")


@given(st.text(max_size=30), st.sampled_from(["http://", "https://h/", "http://h/?", "http://h/#"]))
def test_whatever_parses_is_ascii_canonical_and_stable(text: str, start: str) -> None:
    try:
        url = parse_url(start + text)
    except InvalidURL:
        return
    assert ASCII_VISIBLE(url.wire)
    assert url.wire.endswith(url.target)
    assert parse_url(url.wire).wire == url.wire
    assert parse_url(str(url)).target == url.target
    assert parse_url(url.wire).origin == url.origin


@given(st.text("%23aF&=é ", max_size=20))
def test_an_escape_means_the_same_whatever_is_beside_it(text: str) -> None:
    url = parse_url(f"http://h/{text}").with_params(f"q={text}")
    assert unquote_to_bytes(url.target) == unquote_to_bytes(f"/{text}?q={text}")


@given(st.text("/.%2eEa?#@:\\ é", max_size=20))
def test_a_relative_reference_never_leaves_its_origin(text: str) -> None:
    base = parse_url("https://h:8443/a/b?c#d")
    try:
        joined = base.join(text)
    except (InvalidURL, InvalidSchema):
        return
    assert text.strip().startswith("//") or joined.origin == base.origin
    assert ASCII_VISIBLE(joined.wire)
    assert "/../" not in joined.path
    assert parse_url(joined.wire).wire == joined.wire


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=4))
def test_params_cannot_leave_the_query(pairs: list[tuple[str, str]]) -> None:
    try:
        url = parse_url("http://h/p").with_params(pairs)
    except InvalidURL:
        return
    assert url.path == "/p"
    assert ASCII_VISIBLE(url.wire)
    assert parse_url(url.wire) == url


@pytest.mark.parametrize("target", ["*", "/a#b", "http://b.test/c"])
def test_a_target_that_is_no_path_is_shown_after_a_hash(target: str) -> None:
    url = parse_url("https://a.test/x?y#z").with_target(target)
    assert (url.target, url.wire) == (target, f"https://a.test/#{target}")


def test_a_path_as_target_is_sent_unchanged() -> None:
    url = parse_url("https://a.test/x").with_target("/a/../b?%7e")
    assert (url.target, url.is_raw) == ("/a/../b?%7e", True)


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("localhost", "http://localhost"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("LOCALHOST?a=https://b", "http://LOCALHOST?a=https://b"),
        ("api.localhost/", "http://api.localhost/"),
        (":8000/x", "http://localhost:8000/x"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("[::1]:1/x", "http://[::1]:1/x"),
        ("192.168.1.1", "http://192.168.1.1"),
        ("printer/status", "http://printer/status"),
        ("printer.local", "http://printer.local"),
        ("localhost:443", "https://localhost:443"),
        ("example.org", "https://example.org"),
        ("me:pw@example.org:8080/x", "https://me:pw@example.org:8080/x"),
        ("me:pw@localhost:8080/x", "http://me:pw@localhost:8080/x"),
        ("8.8.8.8", "https://8.8.8.8"),
        ("//example.org", "https://example.org"),
        ("HTTP://example.org", "HTTP://example.org"),
        ("", ""),
    ],
)
def test_a_url_gets_the_scheme_that_its_host_is_likely_to_speak(typed: str, url: str) -> None:
    assert add_scheme(typed) == url
