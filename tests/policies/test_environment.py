"""Settings in the environment: proxies and their exceptions, CA bundles, netrc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from curlhttp._client.environment import (
    bypasses_proxy,
    find_ca_bundle,
    find_netrc_credentials,
    find_proxy,
    select_proxy,
)
from curlhttp._http.url import parse_url

P, Q = "http://p:1", "http://q:2"


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://h.test/", {}, None),
        ("http://h.test/", {"http_proxy": P}, P),
        ("https://h.test/", {"http_proxy": P}, None),
        ("https://h.test/", {"https_proxy": P}, P),
        ("http://h.test/", {"HTTP_PROXY": P}, P),
        ("https://h.test/", {"HTTPS_PROXY": P}, P),
        ("http://h.test/", {"all_proxy": P}, P),
        ("https://h.test/", {"ALL_PROXY": "socks5://p"}, "socks5://p"),
        ("http://h.test/", {"all_proxy": P, "http_proxy": Q}, Q),
        ("http://h.test/", {"HTTP_PROXY": P, "http_proxy": Q}, Q),
        ("http://h.test/", {"HTTP_PROXY": P, "http_proxy": ""}, None),
        ("http://h.test/", {"ALL_PROXY": P, "http_proxy": ""}, P),
        ("http://h.test/", {"http_proxy": "user:pw@p:1"}, "http://user:pw@p:1"),
        # a CGI process gets a client's "Proxy:" header as HTTP_PROXY
        ("http://h.test/", {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None),
        ("http://h.test/", {"http_proxy": P, "REQUEST_METHOD": "GET"}, P),
        ("https://h.test/", {"HTTPS_PROXY": P, "REQUEST_METHOD": "GET"}, P),
        ("http://h.test/", {"HTTP_PROXY": P, "ALL_PROXY": Q, "REQUEST_METHOD": "GET"}, Q),
        # exceptions
        ("http://h.test/", {"http_proxy": P, "no_proxy": "h.test"}, None),
        ("http://h.test/", {"http_proxy": P, "NO_PROXY": "h.test"}, None),
        ("http://h.test/", {"http_proxy": P, "NO_PROXY": "h.test", "no_proxy": ""}, P),
        ("http://h.test/", {"http_proxy": P, "no_proxy": "other.test"}, P),
    ],
)
def test_the_environment_names_the_proxy(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    """And what does not, in a CGI process."""
    assert find_proxy(parse_url(url), environ) == proxy


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_change_of_the_process_environment_takes_effect_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for other in list(os.environ):
        if other.lower().endswith("_proxy") or other == "REQUEST_METHOD":
            monkeypatch.delenv(other)
    url = parse_url("http://h.test/")
    assert find_proxy(url) is None
    monkeypatch.setenv(name, P)
    assert find_proxy(url) == P
    monkeypatch.setenv("no_proxy", "h.test")
    assert find_proxy(url) is None


@pytest.mark.parametrize(
    ("url", "no_proxy", "bypassed"),
    [
        ("http://example.com/", "", False),
        ("http://example.com/", " , ", False),
        ("http://example.com/", "*", True),
        ("http://1.2.3.4/", "a.test, *", True),
        # names
        ("http://example.com/", "example.com", True),
        ("http://EXAMPLE.com/", "Example.COM", True),
        ("http://example.com./", "example.com", True),
        ("http://example.com/", "example.com.", True),
        ("http://www.example.com/", "example.com", True),
        ("http://notexample.com/", "example.com", False),
        ("http://example.com/", "www.example.com", False),
        ("http://example.com.evil.test/", "example.com", False),
        ("http://example.com/", ".example.com", True),
        ("http://a.b.example.com/", ".example.com", True),
        ("http://notexample.com/", ".example.com", False),
        ("http://example.com/", "com", True),
        ("http://example.com/", ".", False),
        ("http://example.com/", "a.test,example.com", True),
        ("http://example.com/", "a.test , example.com ,b.test", True),
        ("http://example.com/", "a.test example.com", True),
        ("http://localhost:8000/", "localhost", True),
        ("http://localhost/", "127.0.0.1", False),
        # ports
        ("http://example.com:8080/", "example.com:8080", True),
        ("http://example.com/", "example.com:8080", False),
        ("http://example.com/", "example.com:80", True),
        ("https://example.com/", "example.com:80", False),
        ("http://www.example.com:8080/", ".example.com:8080", True),
        ("http://example.com/", "example.com:x", False),
        ("http://127.0.0.1:81/", "127.0.0.1:81", True),
        ("http://127.0.0.1:82/", "127.0.0.1:81", False),
        # IPv4
        ("http://127.0.0.1:8080/", "127.0.0.1", True),
        ("http://127.0.0.1/", "0.0.1", False),
        ("http://10.1.2.3/", "10.0.0.0/8", True),
        ("http://11.1.2.3/", "10.0.0.0/8", False),
        ("http://10.1.2.3/", "10.9.9.9/8", True),
        ("http://10.1.2.3/", "10.1.2.3/32", True),
        ("http://10.1.2.3/", "10.0.0.0/33", False),
        ("http://10.1.2.3/", "10", False),
        ("http://0x7f.1/", "127.0.0.0/8", True),
        ("http://10.example.com/", "10.0.0.0/8", False),
        # IPv6
        ("http://[::1]/", "::1", True),
        ("http://[::1]:8080/", "[::1]", True),
        ("http://[::1]:8080/", "[::1]:8080", True),
        ("http://[::1]/", "[::1]:8080", False),
        ("http://[0:0::1]/", "::1", True),
        ("http://[::2]/", "::1", False),
        ("http://[fe80::7]/", "fe80::/10", True),
        ("http://[fd00::7]/", "fe80::/10", False),
        ("http://[fe80::7%25eth0]/", "fe80::/10", True),
        ("http://10.1.2.3/", "::/0", False),
        ("http://[::1]/", "0.0.0.0/0", False),
    ],
)
def test_no_proxy_covers_the_same_hosts_as_in_requests(
    url: str, no_proxy: str, bypassed: bool
) -> None:
    """NO_PROXY is read as in requests."""
    assert bypasses_proxy(parse_url(url), no_proxy) is bypassed


@pytest.mark.parametrize(
    ("proxies", "proxy"),
    [
        ({}, None),
        ({"https": P}, None),
        ({"http": P}, P),
        ({"all": P}, P),
        ({"all": P, "http": Q}, Q),
        ({"all://h.test": P, "all": Q}, P),
        ({"http": P, "all://h.test": Q}, P),
        ({"http://h.test": P, "http": Q}, P),
        ({"http://other.test": P, "http": Q}, Q),
        ({"http": "p:1"}, P),
        # an explicit nothing is not the same as no word on it
        ({"http": None}, ""),
        ({"http": ""}, ""),
        ({"http": None, "all": P}, ""),
        ({"http": P, "no_proxy": "h.test"}, ""),
        ({"no_proxy": "h.test"}, ""),
        ({"no_proxy": "other.test"}, None),
        ({"http": P, "no_proxy": "other.test"}, P),
        ({"http": P, "no_proxy": None}, P),
    ],
)
def test_the_users_mapping_names_the_proxy(
    proxies: dict[str, str | None], proxy: str | None
) -> None:
    assert select_proxy(parse_url("http://h.test:8080/"), proxies) == proxy


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({}, None),
        ({"REQUESTS_CA_BUNDLE": "/r", "CURL_CA_BUNDLE": "/c"}, "/r"),
        ({"SSL_CERT_FILE": "/s", "CURL_CA_BUNDLE": "/c"}, "/c"),
        ({"SSL_CERT_FILE": "/s", "SSL_CERT_DIR": "/d"}, "/s"),
        ({"SSL_CERT_DIR": "/d"}, "/d"),
        ({"REQUESTS_CA_BUNDLE": "", "SSL_CERT_FILE": "/s"}, "/s"),
    ],
)
def test_the_first_ca_variable_that_is_set_counts(
    environ: dict[str, str], path: str | None
) -> None:
    assert find_ca_bundle(environ) == path


NETRC = "machine h.test login user password s3cret\n"


def test_netrc_is_searched_in_the_same_places_as_in_requests(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_netrc_credentials("h.test", home) is None
    (tmp_path / "_netrc").write_text(NETRC)
    assert find_netrc_credentials("h.test", home) == ("user", "s3cret")
    (tmp_path / ".netrc").write_text(NETRC.replace("user", "first"))
    assert find_netrc_credentials("h.test", home) == ("first", "s3cret")
    (tmp_path / "named").write_text(NETRC.replace("user", "named"))
    named = {**home, "NETRC": str(tmp_path / "named")}
    assert find_netrc_credentials("h.test", named) == ("named", "s3cret")
    assert find_netrc_credentials("h.test", {**home, "NETRC": str(tmp_path / "absent")}) is None
    assert find_netrc_credentials("h.test", {**home, "NETRC": ""}) is None


@pytest.mark.parametrize(
    ("text", "credentials"),
    [
        ("machine h.test login u password p", ("u", "p")),
        ("machine h.test account a password p", ("a", "p")),
        ("machine other.test login u password p", None),
        ("machine sub.h.test login u password p", None),
        ("machine other.test login x password y\ndefault login u password p", ("u", "p")),
        ("machine h.test password p", ("", "p")),
        ("", None),
        ("machine", None),
        ("nonsense h.test", None),
        ("machine h.test login u password p\nbroken", None),
    ],
)
def test_a_netrc_entry_is_read_and_a_broken_file_is_ignored(
    tmp_path: Path, text: str, credentials: tuple[str, str] | None
) -> None:
    file = tmp_path / "netrc"
    file.write_text(text)
    assert find_netrc_credentials("h.test", {"NETRC": str(file)}) == credentials


def test_an_unreadable_netrc_is_no_netrc(tmp_path: Path) -> None:
    assert find_netrc_credentials("h.test", {"NETRC": str(tmp_path)}) is None
    (tmp_path / "binary").write_bytes(b"machine \xff\xfe\x80 login \xff")
    assert find_netrc_credentials("h.test", {"NETRC": str(tmp_path / "binary")}) is None


def test_a_changed_netrc_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "netrc"
    environ = {"NETRC": str(file)}
    file.write_text(NETRC)
    os.utime(file, ns=(1000, 1000))  # Windows' clock has steps of 100
    assert find_netrc_credentials("h.test", environ) == ("user", "s3cret")
    file.write_text(NETRC.replace("user", "resu"))
    os.utime(file, ns=(2000, 2000))
    assert find_netrc_credentials("h.test", environ) == ("resu", "s3cret")
    file.unlink()
    assert find_netrc_credentials("h.test", environ) is None


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="these have system settings")
def test_reading_the_environment_does_not_load_urllib_request() -> None:
    code = (
        "import sys; from curlhttp._http.url import parse_url;"
        "from curlhttp._client import environment as e; u = parse_url('http://h.test/');"
        "e.find_proxy(u), e.find_netrc_credentials('h.test'), e.find_ca_bundle();"
        "e.find_proxy(u, {'http_proxy': 'p', 'no_proxy': '10.0.0.0/8'});"
        "print([m for m in ('urllib.request', 'netrc', 'http.cookiejar') if m in sys.modules])"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout.strip() == "[]"
