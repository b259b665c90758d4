"""What the environment says: proxies, certificates, credentials."""

from __future__ import annotations

import base64
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import AppServer, Certs, HTTPProxy, RawServer

HOST = "host.example"


@pytest.fixture
def proxy(app: AppServer) -> Iterator[HTTPProxy]:
    """Return a proxy that knows the application as host.example."""
    with HTTPProxy(hosts={HOST: ("127.0.0.1", app.port)}) as server:
        yield server


@pytest.fixture
def other_proxy(app: AppServer) -> Iterator[HTTPProxy]:
    """Return a second proxy that knows the application as host.example."""
    with HTTPProxy(hosts={HOST: ("127.0.0.1", app.port)}) as server:
        yield server


@pytest.fixture
def url(app: AppServer) -> str:
    """Return a URL that only the proxies can reach."""
    return f"http://{HOST}/echo"


def unreachable(requests: Any, send: Any, url: str, **kwargs: Any) -> None:
    """Check that the request does not take the proxy: nobody else knows the host."""
    with pytest.raises(requests.ConnectionError) as caught:
        send(url, **kwargs)
    assert not isinstance(caught.value, requests.exceptions.ProxyError)


# -- proxies


def test_a_proxy_of_the_request_is_used(
    requests: Any, proxy: HTTPProxy, url: str, app: AppServer
) -> None:
    assert requests.get(url, proxies={"http": proxy.url}).status_code == 200
    assert proxy.log[0].target == url
    assert app.requests[0].header("host") == HOST


def test_a_proxy_of_the_session_is_used(session: Any, proxy: HTTPProxy, url: str) -> None:
    session.proxies["http"] = proxy.url
    session.get(url)
    session.proxies = {"http": proxy.url, "https": proxy.url}
    session.get(url)
    assert len(proxy.log) == 2


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy", "ALL_PROXY", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_used(
    requests: Any, proxy: HTTPProxy, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, proxy.url)
    assert requests.get(url).status_code == 200
    assert len(proxy.log) == 1


def test_the_environment_is_read_at_each_call(
    requests: Any,
    session: Any,
    proxy: HTTPProxy,
    other_proxy: HTTPProxy,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    session.get(url)
    monkeypatch.setenv("http_proxy", other_proxy.url)
    session.get(url)
    assert (len(proxy.log), len(other_proxy.log)) == (1, 1)
    monkeypatch.delenv("http_proxy")
    unreachable(requests, session.get, url)


def test_a_proxy_of_the_request_beats_session_and_environment(
    session: Any,
    proxy: HTTPProxy,
    other_proxy: HTTPProxy,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", other_proxy.url)
    session.proxies["http"] = other_proxy.url
    session.get(url, proxies={"http": proxy.url})
    assert (len(proxy.log), len(other_proxy.log)) == (1, 0)


def test_the_session_fills_what_the_request_leaves_open(
    session: Any, proxy: HTTPProxy, url: str
) -> None:
    session.proxies["http"] = proxy.url
    session.get(url, proxies={"https": "http://127.0.0.1:1"})
    assert len(proxy.log) == 1


def test_the_environment_fills_what_the_request_leaves_open(
    requests: Any, proxy: HTTPProxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    requests.get(url, proxies={"https": "http://127.0.0.1:1"})
    assert len(proxy.log) == 1


@pytest.mark.parametrize(
    "proxies",
    [
        {"http": None, "https": None},
        {"http": "", "https": ""},
        {"no_proxy": HOST},
        {"no_proxy": "other.example, .example"},
    ],
)
def test_the_request_can_switch_the_proxy_of_the_environment_off(
    requests: Any,
    proxy: HTTPProxy,
    url: str,
    proxies: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    unreachable(requests, requests.get, url, proxies=proxies)
    assert proxy.log == []


def test_trust_env_false_leaves_the_environment_alone(
    requests: Any, session: Any, proxy: HTTPProxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    session.trust_env = False
    unreachable(requests, session.get, url)
    prepared = requests.Request("GET", url).prepare()
    unreachable(requests, lambda _: session.send(prepared), url)
    assert proxy.log == []


@pytest.mark.parametrize(
    ("no_proxy", "through"),
    [
        (HOST, False),
        ("example", False),
        (".example", False),
        ("*", False),
        ("other.test,host.example", False),
        ("other.test, host.example", False),
        ("host.example:80", True),  # the URL has no port
        ("host.example:81", True),
        ("st.example", True),
        ("other.test", True),
        ("", True),
    ],
)
def test_no_proxy_names_hosts(
    requests: Any,
    proxy: HTTPProxy,
    url: str,
    no_proxy: str,
    through: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", no_proxy)
    if through:
        requests.get(url)
    else:
        unreachable(requests, requests.get, url)
    assert len(proxy.log) == through


@pytest.mark.parametrize("no_proxy", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1/32"])
def test_no_proxy_names_addresses(
    requests: Any,
    app: AppServer,
    proxy: HTTPProxy,
    no_proxy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    requests.get(app.url)
    assert len(proxy.log) == 1
    monkeypatch.setenv("NO_PROXY", no_proxy)
    requests.get(app.url)
    assert len(proxy.log) == 1


def test_no_proxy_names_a_host_with_its_port(
    requests: Any, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", f"{HOST}:8888")
    unreachable(requests, requests.get, f"http://{HOST}:8888/")
    assert proxy.log == []


def test_send_reads_the_environment_itself(
    requests: Any, session: Any, proxy: HTTPProxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    session.send(requests.Request("GET", url).prepare())
    assert len(proxy.log) == 1


@pytest.mark.parametrize("key", ["http", "all", f"http://{HOST}", f"all://{HOST}"])
def test_a_proxy_is_chosen_by_scheme_and_host(
    requests: Any, proxy: HTTPProxy, url: str, key: str
) -> None:
    assert requests.get(url, proxies={key: proxy.url}).status_code == 200
    assert len(proxy.log) == 1


def test_the_closest_key_wins(
    requests: Any, proxy: HTTPProxy, other_proxy: HTTPProxy, url: str
) -> None:
    requests.get(url, proxies={"http": other_proxy.url, f"http://{HOST}": proxy.url})
    requests.get(url, proxies={"all": other_proxy.url, "http": proxy.url})
    assert (len(proxy.log), len(other_proxy.log)) == (2, 0)


def test_a_proxy_without_scheme_speaks_http(requests: Any, proxy: HTTPProxy, url: str) -> None:
    requests.get(url, proxies={"http": f"127.0.0.1:{proxy.port}"})
    assert len(proxy.log) == 1


def test_credentials_of_the_proxy_url_are_sent(
    requests: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPProxy(("us:er", "p@ss"), hosts={HOST: ("127.0.0.1", app.port)}) as proxy:
        proxied = proxy.url.replace("//", "//us%3Aer:p%40ss@")
        assert requests.get(f"http://{HOST}/", proxies={"http": proxied}).text == "hello"
        monkeypatch.setenv("http_proxy", proxied)
        assert requests.get(f"http://{HOST}/").text == "hello"
    assert app.requests[0].header("proxy-authorization") is None


def test_https_goes_through_a_tunnel(
    requests: Any, proxy: HTTPProxy, tls_app: AppServer, certs: Certs
) -> None:
    answer = requests.get(
        tls_app.url + "/echo", proxies={"https": proxy.url}, verify=str(certs.ca_path)
    )
    assert answer.status_code == 200
    assert [(entry.method, entry.target) for entry in proxy.log] == [
        ("CONNECT", f"127.0.0.1:{tls_app.port}")
    ]
    assert tls_app.requests[0].target == "/echo"


def test_credentials_for_a_tunnel_stay_with_the_proxy(
    requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    with HTTPProxy(("u", "p")) as proxy:
        proxied = proxy.url.replace("//", "//u:p@")
        answer = requests.get(
            tls_app.url + "/echo", proxies={"https": proxied}, verify=str(certs.ca_path)
        )
    expected = "Basic " + base64.b64encode(b"u:p").decode()
    assert answer.status_code == 200
    assert proxy.log[0].header("proxy-authorization") == expected
    assert tls_app.requests[0].header("proxy-authorization") is None


def test_a_redirect_chooses_the_proxy_again(
    requests: Any, app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert requests.get(app.url + f"/redirect-to?url=http://{HOST}/echo").status_code == 200
    assert [entry.target for entry in proxy.log] == [f"http://{HOST}/echo"]


def test_merge_environment_settings_tells_what_a_request_will_use(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://env:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/env/bundle")
    session.cert = "/session/cert"
    merged = session.merge_environment_settings("http://h/", {}, None, None, None)
    assert set(merged) == {"proxies", "stream", "verify", "cert"}
    assert merged["proxies"]["http"] == "http://env:1"
    assert merged["verify"] == "/env/bundle"
    assert merged["stream"] is False
    assert merged["cert"] == "/session/cert"
    merged = session.merge_environment_settings(
        "http://h/", {"http": "http://mine:1"}, True, "/my/bundle", "/my/cert"
    )
    assert merged["proxies"]["http"] == "http://mine:1"
    assert (merged["stream"], merged["verify"], merged["cert"]) == (True, "/my/bundle", "/my/cert")
    session.trust_env = False
    merged = session.merge_environment_settings("http://h/", {}, None, None, None)
    assert "http" not in merged["proxies"]
    assert merged["verify"] is True


# -- certificates


def test_an_unknown_authority_is_refused(requests: Any, tls_app: AppServer) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(tls_app.url)
    assert tls_app.requests == []


@pytest.mark.parametrize("where", ["request", "session", "path"])
def test_verify_may_be_a_file(
    requests: Any, session: Any, tls_app: AppServer, certs: Certs, where: str
) -> None:
    if where == "session":
        session.verify = str(certs.ca_path)
        assert session.get(tls_app.url).text == "hello"
    else:
        path = certs.ca_path if where == "path" else str(certs.ca_path)
        assert session.get(tls_app.url, verify=path).text == "hello"


def test_verify_may_be_a_directory(
    requests: Any, tls_app: AppServer, certs: Certs, tmp_path: Path
) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(tls_app.url, verify=str(tmp_path))  # there, and empty
    folder = certs.make_hashed_folder(tmp_path / "ours")
    assert requests.get(tls_app.url, verify=folder).text == "hello"


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_bundle_of_the_environment_is_used(
    requests: Any,
    tls_app: AppServer,
    certs: Certs,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, str(certs.ca_path))
    assert requests.get(tls_app.url).text == "hello"
    assert requests.get(tls_app.url, verify=True).text == "hello"
    monkeypatch.setenv(name, str(certs.other_ca_path))
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(tls_app.url)


def test_requests_ca_bundle_beats_curl_ca_bundle(
    requests: Any, tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certs.ca_path))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(certs.other_ca_path))
    assert requests.get(tls_app.url).text == "hello"


@pytest.mark.parametrize(
    ("environ", "verify"),
    [
        ({}, True),
        ({"REQUESTS_CA_BUNDLE": "/no/such/a"}, "/no/such/a"),
        ({"CURL_CA_BUNDLE": "/no/such/b"}, "/no/such/b"),
        ({"REQUESTS_CA_BUNDLE": "/no/such/a", "CURL_CA_BUNDLE": "/no/such/b"}, "/no/such/a"),
        ({"REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": "/no/such/b"}, "/no/such/b"),
        ({"REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": ""}, True),
    ],
)
@pytest.mark.parametrize("is_replaced", [True, False])
def test_the_environment_may_be_replaced_or_changed(
    session: Any,
    environ: dict[str, str],
    verify: Any,
    is_replaced: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_replaced:
        monkeypatch.setattr(os, "environ", environ)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settings = session.merge_environment_settings("https://host/", {}, False, True, None)
    assert settings["verify"] == verify


def test_a_replaced_environment_may_name_proxies_and_a_netrc(
    session: Any,
    proxy: HTTPProxy,
    url: str,
    app: AppServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    netrc = write_netrc(tmp_path / "netrc", f"machine {HOST} login a password b\n")
    monkeypatch.setattr(os, "environ", {"http_proxy": proxy.url, "NETRC": netrc})
    assert session.get(url).status_code == 200
    assert len(proxy.log) == 1
    assert app.requests[0].header("authorization") == "Basic YTpi"
    monkeypatch.undo()
    session.get(app.url)
    assert app.requests[1].header("authorization") is None


def test_verify_of_the_request_beats_the_environment(
    requests: Any, tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certs.other_ca_path))
    assert requests.get(tls_app.url, verify=str(certs.ca_path)).text == "hello"


def test_the_bundle_is_not_used_when_the_environment_is_not_trusted(
    requests: Any,
    session: Any,
    tls_app: AppServer,
    certs: Certs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certs.ca_path))
    session.trust_env = False
    with pytest.raises(requests.exceptions.SSLError):
        session.get(tls_app.url)


def test_without_verification_there_is_a_warning_and_an_answer(
    requests: Any, tls_app: AppServer
) -> None:
    category = requests.packages.urllib3.exceptions.InsecureRequestWarning
    with pytest.warns(category, match="[Uu]nverified HTTPS request"):
        assert requests.get(tls_app.url, verify=False).text == "hello"


def test_the_warning_can_be_switched_off(requests: Any, tls_app: AppServer) -> None:
    with warnings.catch_warnings():
        requests.packages.urllib3.disable_warnings()
        assert requests.get(tls_app.url, verify=False).text == "hello"
    with warnings.catch_warnings():
        category = requests.packages.urllib3.exceptions.InsecureRequestWarning
        requests.packages.urllib3.disable_warnings(category)
        assert requests.get(tls_app.url, verify=False).text == "hello"


def test_the_session_may_switch_verification_off(
    requests: Any, session: Any, tls_app: AppServer
) -> None:
    session.verify = False
    with warnings.catch_warnings():
        requests.packages.urllib3.disable_warnings()
        assert session.get(tls_app.url).text == "hello"


def test_one_request_without_verification_does_not_spoil_the_next(
    requests: Any, session: Any, tls_app: AppServer
) -> None:
    with warnings.catch_warnings():
        requests.packages.urllib3.disable_warnings()
        session.get(tls_app.url, verify=False)
    with pytest.raises(requests.exceptions.SSLError):
        session.get(tls_app.url)


def test_the_name_is_checked(requests: Any, certs: Certs) -> None:
    with AppServer(certs.wrong_host_context()) as server:
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(server.url, verify=str(certs.ca_path))


@pytest.mark.parametrize("name", ["/no/such/bundle.pem", "missing"])
def test_a_missing_bundle_is_an_oserror(requests: Any, tls_app: AppServer, name: str) -> None:
    with pytest.raises(OSError) as caught:
        requests.get(tls_app.url, verify=name)
    assert str(caught.value) == (
        f"Could not find a suitable TLS CA certificate bundle, invalid path: {name}"
    )


def test_a_missing_bundle_does_not_matter_to_http(requests: Any, app: AppServer) -> None:
    assert requests.get(app.url, verify="/no/such/bundle.pem").text == "hello"


@pytest.mark.parametrize("cert", ["/no/such/cert", ("/no/such/cert", "/no/such/key")])
def test_a_missing_client_certificate_is_an_oserror(
    requests: Any, tls_app: AppServer, certs: Certs, cert: Any
) -> None:
    with pytest.raises(OSError, match="Could not find the TLS certificate file") as caught:
        requests.get(tls_app.url, verify=str(certs.ca_path), cert=cert)
    assert "/no/such/cert" in str(caught.value)


def test_a_missing_client_key_is_an_oserror(
    requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    cert = (str(certs.client_cert_path()), "/no/such/key")
    with pytest.raises(OSError, match=r"Could not find the TLS key file, .*: /no/such/key"):
        requests.get(tls_app.url, verify=str(certs.ca_path), cert=cert)


@pytest.mark.parametrize("where", ["request", "session"])
@pytest.mark.parametrize("pair", [True, False])
def test_a_client_certificate_is_shown(session: Any, certs: Certs, where: str, pair: bool) -> None:
    names = tuple(map(str, certs.client_cert_pair("A")))
    cert: Any = names if pair else str(certs.client_cert_path("A"))
    with AppServer(certs.client_auth_context()) as server:
        session.verify = str(certs.ca_path)
        if where == "session":
            session.cert = cert
            session.get(server.url)
        else:
            session.get(server.url, cert=cert)
        assert server.handshakes[0].peer == "client A"


# -- netrc


def write_netrc(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_the_file_of_the_netrc_variable_is_read_at_each_call(
    session: Any, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "credentials"
    monkeypatch.setenv("NETRC", write_netrc(path, "machine 127.0.0.1 login a password b\n"))
    session.get(app.url)
    write_netrc(path, "machine 127.0.0.1 login c password d\n")
    session.get(app.url)
    sent = [record.header("authorization") for record in app.requests]
    assert sent == ["Basic " + base64.b64encode(pair).decode() for pair in (b"a:b", b"c:d")]


@pytest.mark.parametrize(
    "text", ["", "machine other.example login a password b\n", "nonsense {", "machine 127.0.0.1"]
)
def test_a_netrc_that_does_not_help_is_ignored(
    requests: Any, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("NETRC", write_netrc(tmp_path / "netrc", text))
    assert requests.get(app.url).status_code == 200
    assert app.requests[0].header("authorization") is None


def test_a_missing_netrc_is_ignored(
    requests: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETRC", "/no/such/netrc")
    assert requests.get(app.url).status_code == 200


@pytest.mark.parametrize("name", [".netrc", "_netrc"])
def test_the_netrc_of_the_home_directory_is_read(
    requests: Any, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    write_netrc(path, "machine 127.0.0.1 login a password b\n")
    os.chmod(path, 0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    requests.get(app.url)
    assert app.requests[0].header("authorization") == "Basic YTpi"


def test_what_reads_the_netrc_may_be_replaced(
    requests: Any, session: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests.sessions, "get_netrc_auth", lambda url: ("a", "b"))
    session.get(app.url + "/redirect/1")
    session.get(app.url, auth=("c", "d"))
    session.trust_env = False
    session.get(app.url)
    sent = [record.header("authorization") for record in app.requests]
    assert sent == ["Basic YTpi", "Basic YTpi", "Basic Yzpk", None]


# -- the wire through a proxy


def test_a_request_through_a_proxy_has_the_whole_url_in_its_first_line(requests: Any) -> None:
    def handler(conn: Any) -> None:
        if conn.read_request()[0]:
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with RawServer(handler) as proxy:
        answer = requests.get("http://u:p@host.example/a?b#c", proxies={"http": proxy.url})
        assert answer.text == "ok"
    assert proxy.requests[0].startswith(b"GET http://host.example/a?b HTTP/1.1\r\n")
