"""Proxies over the wire: which one is used for which URL, and who gets its credentials."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import curlhttp
from tests.servers import (
    AppServer,
    Certs,
    HTTPProxy,
    RawConnection,
    RawServer,
    SOCKSProxy,
    refused_port,
    respond_and_close,
)
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def with_credentials(url: str, user: str = "us%40er", password: str = "s3cret") -> str:
    return url.replace("://", f"://{user}:{password}@")


@pytest.fixture
def proxy(app: AppServer) -> Iterator[HTTPProxy]:
    with HTTPProxy(hosts={"made.up": (app.host, app.port)}) as server:
        yield server


@pytest.fixture(scope="module")
def _tls_made_up(certs: Certs) -> Iterator[AppServer]:
    with AppServer(certs.server_context("made.up")) as server:
        yield server


@pytest.fixture
def tls_made_up(_tls_made_up: AppServer) -> AppServer:
    """Return a TLS server whose certificate also names made.up."""
    _tls_made_up.reset_counts()
    return _tls_made_up


# --- kinds of proxies ---


async def test_http_uses_a_proxy_in_absolute_form(
    client: AnyClient, app: AppServer, proxy: HTTPProxy
) -> None:
    found = await client.post("http://made.up/echo?x=1", content=b"abc", proxies=proxy.url)
    assert found.json()["body"] == "abc"
    assert proxy.log[0][:2] == ("POST", "http://made.up/echo?x=1")
    assert found.timings.peer == ("127.0.0.1", proxy.port)


async def test_https_uses_a_tunnel(
    client: AnyClient, tls_made_up: AppServer, proxy: HTTPProxy
) -> None:
    """Nothing of the request is in CONNECT, nothing of its response in the response."""
    proxy.hosts["made.up"] = (tls_made_up.host, tls_made_up.port)
    proxy.connect_headers = [("X-Proxy", "1"), ("Set-Cookie", "proxy=1")]
    headers = {"X-Mine": "1", "Authorization": "Bearer mine", "Cookie": "a=1"}
    for _ in range(2):
        found = await client.get("https://made.up/echo", proxies=proxy.url, headers=headers)
    assert [(asked.method, asked.target) for asked in proxy.log] == [("CONNECT", "made.up:443")]
    names = {name.lower() for name, _ in proxy.log[0].headers}
    assert names.isdisjoint({"x-mine", "authorization", "cookie", "proxy-authorization"})
    assert "x-proxy" not in found.headers
    assert not client.real.cookies.get_dict()
    assert ["Authorization", "Bearer mine"] in found.json()["headers"]


async def test_a_proxy_may_use_tls(
    client: AnyClient, certs: Certs, app: AppServer, tls_made_up: AppServer
) -> None:
    with HTTPProxy(("u", "p"), certs.server_context()) as proxy:
        proxy.hosts["made.up"] = (tls_made_up.host, tls_made_up.port)
        proxies = with_credentials(proxy.url, "u", "p")
        assert (await client.get(app.url, proxies=proxies)).content == b"hello"
        assert (await client.get("https://made.up/", proxies=proxies)).content == b"hello"
        assert len(proxy.log) == 2


@pytest.mark.parametrize("kind", ("unknown_ca_context", "expired_context", "wrong_host_context"))
async def test_a_proxy_with_a_bad_certificate_gets_nothing(
    client: AnyClient, certs: Certs, app: AppServer, kind: str
) -> None:
    """A proxy that cannot be trusted gets nothing."""
    with HTTPProxy(None, getattr(certs, kind)()) as proxy:
        with pytest.raises((curlhttp.ProxyError, curlhttp.SSLError)):
            await client.get(app.url, proxies=with_credentials(proxy.url))
        assert not proxy.log
        found = await client.get(app.url, proxies=proxy.url, verify=False)
        assert found.content == b"hello"


@pytest.mark.parametrize(
    ("scheme", "host"),
    [
        ("socks4", "127.0.0.1"),
        ("socks4a", "made.up"),
        ("socks5", "127.0.0.1"),
        ("socks5h", "made.up"),
    ],
)
async def test_socks_proxies(client: AnyClient, app: AppServer, scheme: str, host: str) -> None:
    with SOCKSProxy(hosts={"made.up": (app.host, app.port)}) as proxy:
        url = f"{scheme}://127.0.0.1:{proxy.port}"
        found = await client.get(app.at(host) + "/echo", proxies=url)
        assert found.json()["target"] == "/echo"
        assert proxy.log == [(host, app.port)]


async def test_https_through_socks(client: AnyClient, tls_made_up: AppServer) -> None:
    with SOCKSProxy(hosts={"made.up": (tls_made_up.host, tls_made_up.port)}) as proxy:
        assert (await client.get("https://made.up/", proxies=proxy.url)).content == b"hello"


async def test_socks_credentials(client: AnyClient, app: AppServer) -> None:
    with SOCKSProxy(("us@er", "s3cret")) as proxy:
        found = await client.get(app.url, proxies=with_credentials(proxy.url))
        assert found.content == b"hello"
        with pytest.raises(curlhttp.ProxyError) as caught:
            await client.get(app.url, proxies=with_credentials(proxy.url, "u", "wr0ng"))
        assert "wr0ng" not in str(caught.value)
        with pytest.raises(curlhttp.ProxyError):
            await client.get(app.url, proxies=proxy.url)
        assert (len(proxy.log), proxy.failed_logins) == (1, 1)


# --- credentials ---


async def test_credentials_are_sent_to_the_proxy_only(
    client: AnyClient, app: AppServer, tls_made_up: AppServer
) -> None:
    """Credentials of a proxy go to no origin."""
    with HTTPProxy(("us@er", "s3cret")) as proxy:
        proxy.hosts["made.up"] = (tls_made_up.host, tls_made_up.port)
        url = with_credentials(proxy.url)
        for target in (app.url + "/", "https://made.up/", app.url + "/redirect/1"):
            assert (await client.get(target, proxies=url)).content == b"hello"
        expected = basic("us@er", "s3cret")
        assert {asked.header("proxy-authorization") for asked in proxy.log} == {expected}
    for server in (app, tls_made_up):
        assert all(record.header("proxy-authorization") is None for record in server.requests)


async def test_a_direct_request_after_a_proxied_one_has_no_credentials(
    client: AnyClient, app: AppServer
) -> None:
    """Credentials of a proxy go to no other one."""
    with HTTPProxy() as proxy, HTTPProxy() as second:
        await client.get(app.url, proxies=with_credentials(proxy.url))
        await client.get(app.url, proxies=second.url)
        await client.get(app.url)
        assert proxy.log[0].header("proxy-authorization") == basic("us@er", "s3cret")
        assert second.log[0].header("proxy-authorization") is None
    assert app.requests[-1].header("proxy-authorization") is None


async def test_other_credentials_never_use_the_same_tunnel(
    client: AnyClient, tls_made_up: AppServer
) -> None:
    """A tunnel belongs to its credentials."""
    with HTTPProxy(("u", "p"), hosts={"made.up": (tls_made_up.host, tls_made_up.port)}) as proxy:
        good = with_credentials(proxy.url, "u", "p")
        assert (await client.get("https://made.up/", proxies=good)).ok
        for bad in (with_credentials(proxy.url, "u", "wr0ng"), proxy.url):
            with pytest.raises(curlhttp.ProxyError):
                await client.get("https://made.up/", proxies=bad)
        assert (await client.get("https://made.up/", proxies=good)).ok
        assert proxy.tunnels <= 2
        given = [asked.header("proxy-authorization") for asked in proxy.log]
        assert given[:3] == [basic("u", "p"), basic("u", "wr0ng"), None]


async def test_two_users_have_two_tunnels(client: AnyClient, tls_made_up: AppServer) -> None:
    """A tunnel belongs to its credentials."""
    with HTTPProxy(hosts={"made.up": (tls_made_up.host, tls_made_up.port)}) as proxy:
        for user in ("a", "b", "a"):
            await client.get("https://made.up/", proxies=with_credentials(proxy.url, user, "p"))
        assert proxy.tunnels >= 2
        given = [asked.header("proxy-authorization") for asked in proxy.log]
        assert given[:2] == [basic("a", "p"), basic("b", "p")]


async def test_credentials_are_in_no_message_and_no_repr(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy
) -> None:
    """No message, repr or log shows a secret."""
    with refused_port() as port:
        client = make_client(proxies=f"http://user:s3cret@127.0.0.1:{port}")
        with pytest.raises(curlhttp.ProxyError) as caught:
            await client.get(app.url)
    error = caught.value
    assert error.request is not None
    shown = [str(error), repr(error), repr(error.request), repr(error.request.route)]
    assert "s3cret" not in " ".join([*shown, repr(client.real)])
    for bad in ("ftp://user:s3cret@h", "http://user:s3cret@h:99999", "http://user:s3cret@ h"):
        with pytest.raises(curlhttp.InvalidProxyURL) as refused:
            await client.get(app.url, proxies=bad)
        assert "s3cret" not in f"{refused.value}{refused.value!r}"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("proxy.test", "http://proxy.test:80"),
        ("https://u:p@proxy.test", "https://proxy.test:443"),
        ("socks5h://proxy.test", "socks5h://proxy.test:1080"),
        ("http://[::1]:3128/", "http://[::1]:3128"),
    ],
)
def test_a_proxy_has_the_port_that_requests_would_take(given: str, url: str) -> None:
    assert curlhttp.Proxy.parse(given).url == url


async def test_a_proxy_object_has_any_password_and_headers_of_its_own(
    make_client: MakeClient, app: AppServer, tls_made_up: AppServer
) -> None:
    with HTTPProxy(("us@er", "a#b/c?d e")) as proxy:
        proxy.hosts["made.up"] = (tls_made_up.host, tls_made_up.port)
        made = curlhttp.Proxy(
            url=f"127.0.0.1:{proxy.port}",
            username="us@er",
            password="a#b/c?d e",
            headers={"X-Team": "a"},
        )
        proxied = [
            (make_client(proxy=made), {}),
            (make_client(proxies={"all": made}), {}),
            (make_client(), {"proxies": made}),
        ]
        for client, options in proxied:
            for target in (app.url, "https://made.up/"):
                assert (await client.get(target, **options)).content == b"hello"
        assert {asked.header("x-team") for asked in proxy.log} == {"a"}
        assert len(proxy.log) >= 6
    assert all(record.header("x-team") is None for record in tls_made_up.requests)


def test_a_proxy_object_is_complete_and_refuses_what_contradicts_itself() -> None:
    made = curlhttp.Proxy(url="http://us%40er:a%23b@proxy.test", headers={"X-Team": "a"})
    assert (made.url, made.username, made.password) == ("http://proxy.test:80", "us@er", "a#b")
    assert hash(made) == hash(
        curlhttp.Proxy(url=made.url, username="us@er", password="a#b", headers=(("X-Team", "a"),))
    )
    token = curlhttp.Proxy(url="http://proxy.test", password="token")
    assert token == curlhttp.Proxy.parse("http://:token@proxy.test")
    with pytest.raises(ValueError, match="in its URL or as arguments"):
        curlhttp.Proxy(url="http://u:p@proxy.test", password="secret")
    with pytest.raises(ValueError, match="NUL"):
        curlhttp.Proxy(url="http://proxy.test", username="u", password="a\0b")
    with pytest.raises(TypeError, match="password must be a str, not bytes"):
        curlhttp.Proxy(url="http://proxy.test", username="u", password=b"p")  # type: ignore[arg-type]
    with pytest.raises(curlhttp.InvalidHeader):
        curlhttp.Proxy(url="http://proxy.test", headers={"X-Team": "a\r\nb"})
    with pytest.raises(TypeError, match="a list of hosts, not a Proxy"):
        curlhttp.Client(proxies={"no_proxy": made})


@pytest.mark.parametrize("password", ["a#b", "a/b", "a?b", "a b"])
def test_a_password_that_is_not_encoded_is_explained(password: str) -> None:
    with pytest.raises(curlhttp.InvalidProxyURL, match="must be percent-encoded") as caught:
        curlhttp.Client(proxy=f"http://me:{password}@proxy.test:3128")
    assert password not in str(caught.value)


async def test_nul_in_a_proxys_credentials_is_refused(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(curlhttp.InvalidProxyURL):
        await client.get(app.url, proxies="http://u:p%00q@127.0.0.1:1")


# --- with every API ---


@EVERY_API
async def test_no_api_mixes_credentials_of_proxy_and_origin(
    fetch: Fetch, app: AppServer, tls_made_up: AppServer
) -> None:
    """In either direction."""
    with HTTPProxy(("us@er", "s3cret")) as proxy:
        proxy.hosts["made.up"] = (tls_made_up.host, tls_made_up.port)
        proxy.connect_headers = [("X-Proxy", "1"), ("Set-Cookie", "proxy=1")]
        url = with_credentials(proxy.url)
        headers = {"X-Mine": "1", "Authorization": "Bearer mine", "Cookie": "a=1"}
        for target in (app.url + "/echo", "https://made.up/echo", "https://made.up/redirect/1"):
            proxies = {"http": url, "https": url}
            found = await fetch(target, proxies=proxies, headers=headers)
            assert "x-proxy" not in found.headers
            assert not dict(found.cookies)
        given = {asked.header("proxy-authorization") for asked in proxy.log}
        assert given == {basic("us@er", "s3cret")}
        for asked in proxy.log:
            if asked.method == "CONNECT":
                assert asked.header("x-mine") is asked.header("authorization") is None
                assert asked.header("cookie") is None
    for record in (*app.requests, *tls_made_up.requests):
        assert record.header("proxy-authorization") is None
        assert record.header("x-mine") == "1"


@EVERY_API
async def test_no_api_sends_a_proxy_the_credentials_for_another(
    fetch: Fetch, app: AppServer, tls_made_up: AppServer
) -> None:
    """Another proxy, none, or the same one as another user."""
    hosts = {"made.up": (tls_made_up.host, tls_made_up.port)}
    with HTTPProxy(hosts=hosts) as proxy, HTTPProxy(hosts=hosts) as second:
        for target in (app.url, "https://made.up/"):
            for url in (with_credentials(proxy.url), second.url, None):
                if url is None:
                    await fetch(app.url)
                else:
                    await fetch(target, proxies={"http": url, "https": url})
        assert {asked.header("proxy-authorization") for asked in second.log} == {None}
        for user in ("a", "b", "a"):
            url = with_credentials(proxy.url, user, "p")
            await fetch("https://made.up/", proxies={"https": url})
        given = [asked.header("proxy-authorization") for asked in proxy.log]
        assert given[:2] == [basic("us@er", "s3cret")] * 2
        assert given[2:4] == [basic("a", "p"), basic("b", "p")]
    assert all(record.header("proxy-authorization") is None for record in app.requests)


@EVERY_API
@pytest.mark.parametrize(
    "framing",
    [
        pytest.param("Content-Length: 99999999999", marks=pytest.mark.slow),
        "Transfer-Encoding: chunked",
    ],
)
async def test_a_refusal_without_end_ends_the_request(fetch: Fetch, framing: str) -> None:
    """libcurl reads it in one call, in which no timeout of ours or its own counts."""

    def refuse(conn: RawConnection) -> None:
        conn.read_head()
        conn.send(f"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n{framing}\r\n\r\n".encode())
        while True:  # until the client hangs up
            conn.send(b"1000\r\n" + 4096 * b"x" + b"\r\n")

    with RawServer(refuse) as proxy:
        with pytest.raises(curlhttp.ProxyError, match="407") as caught:
            await fetch("https://made.up/", proxies={"https": proxy.url})
        assert not caught.value.request_sent


@EVERY_API
async def test_no_api_returns_a_refusal_of_a_proxy_as_the_response(
    fetch: Fetch, app: AppServer, tls_made_up: AppServer, certs: Certs, proxy: HTTPProxy
) -> None:
    """A tunnel that is refused, and a proxy on TLS that cannot be trusted."""
    for status in (407, 403, 502):
        proxy.connect_status = status
        with pytest.raises(curlhttp.ProxyError, match=str(status)) as caught:
            await fetch("https://made.up/", proxies={"https": proxy.url})
        assert "the proxy says no" not in str(caught.value)
        assert caught.value.response is None
    for kind in ("unknown_ca", "expired", "wrong_host"):
        with HTTPProxy(None, getattr(certs, f"{kind}_context")()) as bad:
            with pytest.raises((curlhttp.ProxyError, curlhttp.SSLError)):
                await fetch(app.url, proxies={"http": with_credentials(bad.url)})
            assert not bad.log
    assert not tls_made_up.requests
    assert not app.requests


# --- refusals ---


@pytest.mark.parametrize("status", (407, 403, 502))
async def test_a_refused_tunnel_is_a_proxy_error_with_its_status(
    client: AnyClient, tls_made_up: AppServer, proxy: HTTPProxy, status: int
) -> None:
    """A proxy's refusal of a tunnel is not the response."""
    proxy.connect_status = status
    with pytest.raises(curlhttp.ProxyError, match=str(status)) as caught:
        await client.get("https://made.up/", proxies=proxy.url)
    assert "the proxy says no" not in str(caught.value)
    assert caught.value.response is None
    assert not caught.value.request_sent


NO_ANSWERS = {
    "bytes": bytes(range(256)),
    "text": b"hello\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "HTTP/0.9": b"<html>\r\n",
    "a tab before the status": b"HTTP/1.1\t200 OK\r\n\r\n",
    "a year": b"HTTP/2026 05:00:00\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status 0": b"HTTP/1.1 000 OK\r\n\r\n",
    "no final status": b"HTTP/1.1 103 Early\r\n\r\n" * 3,
    "empty line": b"\r\nHTTP/1.1 200 OK\r\n\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nX-A: b",
    "line without colon": b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "NUL": b"HTTP/1.1 200 OK\r\nX-A: \0\r\n\r\n",
    "length that is none": b"HTTP/1.1 502 No\r\nContent-Length: -1\r\n\r\n",
    "line of 500 KB": b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 500_000 + b"\r\n\r\n",
    "8,000 lines": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 8000 + b"\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("case", NO_ANSWERS)
async def test_an_invalid_response_to_connect_is_a_proxy_error(
    make_client: MakeClient, case: str, streams: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    breaker = curlhttp.CircuitBreaker(1, 30.0)
    client = make_client(breaker=breaker)
    with RawServer(respond_and_close(NO_ANSWERS[case])) as proxy:
        with pytest.raises(curlhttp.ProxyError) as caught:
            await client.request(
                "GET", "https://made.up/", proxies=with_credentials(proxy.url), stream=streams
            )
        assert breaker.state(f"proxy {proxy.url}") == "open"
        assert proxy.connections == 1
    assert breaker.state("https://made.up") == "closed"
    assert caught.value.connect_status is None
    assert caught.value.response is None
    assert caught.value.request is not None
    assert not caught.value.request_sent
    assert "s3cret" not in str(caught.value)
    assert capfd.readouterr().err == ""


async def test_a_proxy_that_breaks_http_in_a_response_breaks_that_of_the_origin(
    make_client: MakeClient,
) -> None:
    breaker = curlhttp.CircuitBreaker(1, 30.0)
    client = make_client(breaker=breaker)
    with RawServer(respond_and_close(b"garbage")) as proxy:
        with pytest.raises(curlhttp.RemoteProtocolError) as caught:
            await client.get("http://made.up/", proxies=proxy.url)
        assert breaker.state(f"proxy {proxy.url}") == "closed"
    assert caught.value.request_sent


async def test_wrong_credentials_are_a_proxy_error(
    client: AnyClient, tls_made_up: AppServer
) -> None:
    with HTTPProxy(("u", "p")) as proxy:
        with pytest.raises(curlhttp.ProxyError, match="407"):
            await client.get("https://made.up/", proxies=proxy.url)
    assert not tls_made_up.requests


async def test_a_proxy_that_hangs_up_is_a_proxy_error(client: AnyClient, proxy: HTTPProxy) -> None:
    proxy.close_on_connect = True
    with pytest.raises(curlhttp.ProxyError):
        await client.get("https://made.up/", proxies=proxy.url)


async def test_an_unreachable_proxy_is_a_proxy_error(client: AnyClient, app: AppServer) -> None:
    with refused_port() as port:
        for target in (app.url, "https://127.0.0.1:1/"):
            with pytest.raises(curlhttp.ProxyError):
                await client.get(target, proxies=f"http://127.0.0.1:{port}")
    assert not app.requests


# --- which proxy ---


@pytest.mark.parametrize(
    ("proxies", "is_proxied"),
    [
        ({"http": "{proxy}"}, True),
        ({"all": "{proxy}"}, True),
        ({"http://127.0.0.1": "{proxy}"}, True),
        ({"http": "", "all://127.0.0.1": "{proxy}"}, False),
        ({"http://other.test": "{proxy}"}, False),
        ({"https": "{proxy}"}, False),
        ({"http": None, "all": "{proxy}"}, False),
        ({"http": "", "all": "{proxy}"}, False),
        ({"all": "{proxy}", "no_proxy": "127.0.0.0/8"}, False),
        ({"all": "{proxy}", "no_proxy": "128.0.0.0/8,example.com"}, True),
        ({}, False),
        ("{proxy}", True),
        ("", False),
    ],
)
async def test_proxies_in_every_form(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, proxies: Any, is_proxied: bool
) -> None:
    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(text) for key, text in value.items()}
        return value and value.replace("{proxy}", f"127.0.0.1:{proxy.port}")

    chosen = filled(proxies)
    await make_client().get(app.url, proxies=chosen)
    await make_client(proxies=chosen).get(app.url)
    assert [len(proxy.log), len(app.requests)] == [2 * is_proxied, 2]


async def test_the_requests_proxy_beats_the_clients(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy
) -> None:
    with HTTPProxy() as other:
        client = make_client(proxies=proxy.url)
        await client.get(app.url, proxies=other.url)
        await client.get(app.url, proxies={"http": None})
        assert (len(proxy.log), len(other.log), len(app.requests)) == (0, 1, 2)
        await client.get(app.url, proxies={"https": other.url})  # says nothing of http
        assert (len(proxy.log), len(other.log)) == (1, 1)


# --- a proxy per redirect ---


async def test_a_redirect_to_https_uses_the_proxy_for_https(
    make_client: MakeClient, app: AppServer, tls_made_up: AppServer, proxy: HTTPProxy
) -> None:
    proxy.hosts["made.up"] = (tls_made_up.host, tls_made_up.port)
    target = app.url + "/redirect-to?url=https://made.up/echo"
    for per_client in (True, False):
        proxy.reset_counts()
        proxies = {"https": proxy.url}
        client = make_client(proxies=proxies) if per_client else make_client()
        found = await client.get(target, **({} if per_client else {"proxies": proxies}))
        assert found.json()["target"] == "/echo"
        assert [asked.method for asked in proxy.log] == ["CONNECT"]


async def test_a_redirect_to_a_host_without_proxy_connects_directly(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", with_credentials(proxy.url))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    target = f"http://made.up/redirect-to?url={app.url}/echo"
    found = await make_client().get(target)
    assert found.url == app.url + "/echo"
    assert [asked.target for asked in proxy.log] == [target]
    names = {name.lower() for name, _ in found.json()["headers"]}
    assert "proxy-authorization" not in names
    assert found.history[0].timings.peer != found.timings.peer


async def test_a_redirect_from_a_host_without_proxy_uses_the_proxy(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy
) -> None:
    client = make_client(proxies={"http": proxy.url, "no_proxy": "127.0.0.1"})
    found = await client.get(app.url + "/redirect-to?url=http://made.up/echo")
    assert found.json()["target"] == "/echo"
    assert [asked.target for asked in proxy.log] == ["http://made.up/echo"]


async def test_the_proxy_of_a_request_is_used_for_its_redirects(
    client: AnyClient, app: AppServer, proxy: HTTPProxy
) -> None:
    await client.get("http://made.up/redirect/2", proxies=proxy.url)
    assert len(proxy.log) == 3


async def test_a_url_changed_by_a_middleware_uses_its_own_proxy(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy
) -> None:
    async def detour(
        request: curlhttp.ClientRequest, send: curlhttp.types.Send
    ) -> curlhttp.Response:
        return await send(request.derive(url="http://made.up/echo"))

    client = make_client(proxies={"http://made.up": proxy.url}, middleware=[detour])
    assert (await client.get(app.url)).json()["target"] == "/echo"
    assert len(proxy.log) == 1


# --- the environment ---


@pytest.mark.parametrize("name", ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"))
async def test_the_environment_is_read_when_the_client_is_made(
    make_client: MakeClient,
    app: AppServer,
    proxy: HTTPProxy,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    before = make_client()
    monkeypatch.setenv(name, proxy.url)
    after = make_client()
    await before.get(app.url)
    assert len(proxy.log) == 0
    await after.get(app.url)
    assert len(proxy.log) == 1
    monkeypatch.setenv("no_proxy", "*")
    await after.get(app.url)
    assert len(proxy.log) == 2
    monkeypatch.delenv(name)
    await after.get(app.url)
    assert len(proxy.log) == 3


async def test_without_trust_env_the_environment_is_not_read(
    make_client: MakeClient, app: AppServer, tls_app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without trust_env the environment says nothing."""
    with refused_port() as port:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://user:s3cret@127.0.0.1:{port}")
        client = make_client(trust_env=False)
        assert (await client.get(app.url)).ok
        assert (await client.get(tls_app.url)).ok
        with pytest.raises(curlhttp.ProxyError):
            await make_client().get(app.url)


async def test_libcurl_does_not_read_no_proxy_on_its_own(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    await make_client(proxies=proxy.url).get(app.url)
    assert len(proxy.log) == 1


@pytest.mark.parametrize(
    ("no_proxy", "is_proxied"),
    [
        ("*", False),
        ("127.0.0.1", False),
        ("127.0.0.0/8", False),
        ("127.0.0.1:{port}", False),
        ("127.0.0.1:1", True),
        ("10.0.0.0/8, localhost", True),
        ("", True),
    ],
)
async def test_no_proxy(
    make_client: MakeClient,
    app: AppServer,
    proxy: HTTPProxy,
    monkeypatch: pytest.MonkeyPatch,
    no_proxy: str,
    is_proxied: bool,
) -> None:
    """NO_PROXY is read as in requests."""
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("NO_PROXY", no_proxy.format(port=app.port))
    await make_client().get(app.url)
    assert [len(proxy.log), len(app.requests)] == [is_proxied, 1]


async def test_http_proxy_of_a_cgi_process_is_ignored(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header of a CGI request names no proxy."""
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    await make_client().get(app.url)
    assert not proxy.log
    monkeypatch.setenv("http_proxy", proxy.url)  # no header becomes this one
    await make_client().get(app.url)
    assert len(proxy.log) == 1


async def test_arguments_take_precedence_over_the_environment(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused_port() as port:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await make_client(proxies=proxy.url).get(app.url)
        await make_client().get(app.url, proxies=proxy.url)
        assert len(proxy.log) == 2
        monkeypatch.delenv("no_proxy")
        await make_client(proxies={"http": ""}).get(app.url)
        await make_client().get(app.url, proxies={"http": None})
        assert (len(proxy.log), len(app.requests)) == (2, 4)
