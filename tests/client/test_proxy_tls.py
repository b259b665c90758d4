"""TLS to an https proxy: its own certificates to trust, and its own client certificate."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from tests.servers import AppServer, Certs, HTTPProxy, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.cli import run
from tests.support.colours import ONE_OF_EACH, AnyClient, needs_authorities, needs_pem_certificates

pytestmark = pytest.mark.anyio
Make = Callable[..., AnyClient]


@pytest.fixture
def tls_made_up(certs: Certs) -> Iterator[AppServer]:
    with AppServer(certs.server_context("made.up")) as server:
        yield server


@pytest.fixture
def proxy(certs: Certs, tls_made_up: AppServer) -> Iterator[HTTPProxy]:
    """Return a proxy whose certificate is of another authority than those of the servers."""
    hosts = {"made.up": (tls_made_up.host, tls_made_up.port)}
    with HTTPProxy(None, certs.unknown_ca_context(), hosts=hosts) as server:
        yield server


@pytest.fixture
def asking(certs: Certs, tls_made_up: AppServer) -> Iterator[HTTPProxy]:
    """Return a proxy that requires a client certificate."""
    hosts = {"made.up": (tls_made_up.host, tls_made_up.port)}
    with HTTPProxy(None, certs.client_auth_context(), hosts=hosts) as server:
        yield server


def context_of(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(path))


TRUST: dict[str, Callable[[Path], Any]] = {
    "a path": lambda path: path,
    "text": str,
    "bytes": Path.read_bytes,
    "a context": context_of,
    "nothing": lambda path: False,
}


@pytest.mark.parametrize("kind", TRUST)
async def test_a_proxy_has_its_own_authorities(
    any_client: AnyClient, certs: Certs, app: AppServer, proxy: HTTPProxy, kind: str
) -> None:
    given = curlhttp.Proxy(url=proxy.url, verify=TRUST[kind](certs.other_ca_path))
    assert (await any_client.get(app.url, proxies=given)).content == b"hello"
    assert (await any_client.get("https://made.up/", proxies=given)).content == b"hello"
    assert len(proxy.log) == 2


async def test_what_is_trusted_for_the_proxy_is_not_trusted_for_the_server(
    client: AnyClient, certs: Certs, proxy: HTTPProxy
) -> None:
    given = curlhttp.Proxy(url=proxy.url, verify=False)
    with pytest.raises(curlhttp.SSLError, match="pass verify="):
        await client.get("https://made.up/", proxies=given, verify=certs.other_ca_path)


async def test_the_verify_of_the_client_is_not_for_a_proxy_with_its_own(
    client: AnyClient, certs: Certs, app: AppServer, proxy: HTTPProxy
) -> None:
    for url in (app.url, "https://made.up/"):
        given = curlhttp.Proxy(url=proxy.url, verify=certs.ca_path)
        with pytest.raises(curlhttp.SSLError, match=r"certificate of the proxy.*Proxy"):
            await client.get(url, proxies=given, verify=False)
    assert not proxy.log


@needs_pem_certificates
@pytest.mark.parametrize("kind", ["a file", "a pair", "bytes"])
async def test_a_proxy_gets_its_own_client_certificate(
    any_client: AnyClient, certs: Certs, app: AppServer, asking: HTTPProxy, kind: str
) -> None:
    cert: Any = {
        "a file": certs.client_cert_path("A"),
        "a pair": certs.client_cert_pair("A"),
        "bytes": certs.client_cert_path("A").read_bytes(),
    }[kind]
    given = curlhttp.Proxy(url=asking.url, cert=cert)
    assert (await any_client.get(app.url, proxies=given)).content == b"hello"
    assert (await any_client.get("https://made.up/", proxies=given)).content == b"hello"
    assert [each.peer for each in asking.handshakes] == ["client A"] * len(asking.handshakes)


@needs_pem_certificates
async def test_the_client_certificate_of_the_client_is_not_for_the_proxy(
    client: AnyClient, certs: Certs, asking: HTTPProxy
) -> None:
    with pytest.raises(curlhttp.RequestException):
        await client.get("https://made.up/", proxies=asking.url, cert=certs.client_cert_path("A"))
    assert not asking.log


async def test_connections_with_other_tls_to_the_proxy_are_never_shared(
    make_client: Make, certs: Certs, app: AppServer, proxy: HTTPProxy
) -> None:
    client = make_client(http2=True)
    trusting = curlhttp.Proxy(url=proxy.url, verify=False)
    strict = curlhttp.Proxy(url=proxy.url, verify=certs.ca_path)
    for url in (app.url, "https://made.up/"):
        for _ in range(2):
            assert (await client.get(url, proxies=trusting)).content == b"hello"
            with pytest.raises(curlhttp.SSLError):
                await client.get(url, proxies=strict)


@needs_pem_certificates
async def test_connections_with_other_client_certificates_for_the_proxy_are_never_shared(
    make_client: Make, certs: Certs, app: AppServer, asking: HTTPProxy
) -> None:
    client = make_client()
    for url in (app.url, "https://made.up/"):
        asking.handshakes.clear()
        for name in "ABAB":
            given = curlhttp.Proxy(url=asking.url, cert=certs.client_cert_path(name))
            assert (await client.get(url, proxies=given)).content == b"hello"
        with pytest.raises(curlhttp.RequestException):
            await client.get(url, proxies=asking.url)
        assert {"client A", "client B"} <= {each.peer for each in asking.handshakes}


async def test_settings_of_a_proxy_apply_to_all_that_a_client_does(
    make_client: Make, certs: Certs, app: AppServer, proxy: HTTPProxy, tmp_path: Path
) -> None:
    client = make_client(proxy=curlhttp.Proxy(url=proxy.url, verify=certs.other_ca_path))
    assert (await client.get(app.url)).content == b"hello"
    async with await client.stream("GET", app.url) as response:
        assert await response.read() == b"hello"
    mapped = [each async for each in client.map([app.url])]
    assert [each.content for each in mapped] == [b"hello"]
    download = client.real.download(app.url + "/bytes/3", tmp_path / "file")
    if not client.is_blocking:
        await download
    assert (tmp_path / "file").stat().st_size == 3
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws")) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
    assert proxy.tunnels == 1


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"verify": "/nowhere.pem"}, OSError),
        ({"verify": b""}, ValueError),
        ({"verify": 5}, TypeError),
        ({"cert": "/nowhere.pem"}, OSError),
        ({"cert": ()}, ValueError),
        ({"cert": ("a", 5)}, (OSError, TypeError)),
    ],
)
async def test_wrong_tls_of_a_proxy_is_an_error_before_anything_is_sent(
    settings: dict[str, Any], error: Any
) -> None:
    with pytest.raises(error):
        curlhttp.Proxy(url="https://proxy.test", **settings)


def test_a_proxy_shows_no_secrets_and_can_be_pickled(certs: Certs) -> None:
    cert = certs.client_cert_path("A")
    made = curlhttp.Proxy(url="https://proxy.test", verify=certs.ca_pem, cert=cert)
    assert repr(made) == "Proxy(url='https://proxy.test:443', verify=<PEM bytes>, cert=<set>)"
    assert pickle.loads(pickle.dumps(made)) == made
    assert made != curlhttp.Proxy(url="https://proxy.test", cert=cert)


@needs_pem_certificates
def test_a_command_shows_the_tls_of_the_proxy(certs: Certs) -> None:
    cert = certs.client_cert_pair("A")
    made = curlhttp.Proxy(url="https://proxy.test", verify=certs.ca_path, cert=(*cert, "secret"))
    with curlhttp.Client(proxy=made) as client:
        request = client.build_request("GET", "http://a.test/")
        shown = request.to_curl()
    assert f"--proxy-cacert {certs.ca_path} --proxy-cert {cert[0]}" in shown
    assert f"--proxy-key {cert[1]} --proxy-pass" in shown
    assert "secret" not in shown


@needs_authorities
def test_the_command_line_has_options_for_the_authorities_of_the_proxy(
    certs: Certs, app: AppServer, proxy: HTTPProxy
) -> None:
    options = ["--proxy-cacert", certs.other_ca_path]
    assert run("get", app.url, "-x", proxy.url, *options).out == b"hello"
    failed = run("get", app.url, "-x", proxy.url)
    assert failed.status == 60
    assert "--proxy-cacert" in failed.err


@needs_pem_certificates
def test_the_command_line_has_options_for_a_client_certificate_to_the_proxy(
    certs: Certs, app: AppServer, asking: HTTPProxy
) -> None:
    certificate, key = certs.client_cert_pair("A")
    options = ["--proxy-cert", certificate, "--proxy-key", key, "--proxy-cacert", certs.ca_path]
    assert run("get", app.url, "-x", asking.url, *options).out == b"hello"
    assert "--proxy-key needs --proxy-cert" in run("get", app.url, "--proxy-key", key).err


def test_the_command_line_has_an_option_for_any_certificate_of_the_proxy(
    app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("get", app.url, "-x", proxy.url, "--proxy-insecure").out == b"hello"
    monkeypatch.setenv("http_proxy", proxy.url)
    assert run("get", app.url, "--proxy-insecure").out == b"hello"
    asked = len(proxy.log)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert run("get", app.url, "--proxy-insecure").out == b"hello"
    assert len(proxy.log) == asked
