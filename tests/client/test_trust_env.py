"""Certificates in the environment; proxies and netrc have their own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import curlhttp
from curlhttp import requests
from tests.servers import AppServer, Certs, refused_port
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, make_fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:  # the machine's own are not under test
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", VARIABLES[:3])
async def test_authorities_of_the_environment(
    make_client: MakeClient,
    tls_app: AppServer,
    certs: Certs,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    before = make_client(verify=True)
    monkeypatch.setenv(name, str(certs.ca_path))
    client = make_client(verify=True)
    monkeypatch.delenv(name)
    assert (await client.get(tls_app.url)).ok
    assert (await client.get(tls_app.url, verify=True)).ok
    with pytest.raises(curlhttp.SSLError):
        await before.get(tls_app.url)


async def test_the_first_variable_counts(
    make_client: MakeClient, tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv(VARIABLES[0], str(certs.ca_path))
    assert (await make_client(verify=True).get(tls_app.url)).ok
    monkeypatch.delenv(VARIABLES[0])
    with pytest.raises(OSError, match="invalid path: /nowhere"):
        make_client(verify=True)


async def test_arguments_take_precedence_over_the_environment(
    make_client: MakeClient, tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certs.other_ca_path))
    for verify in (certs.ca_path, certs.ca_pem, False):
        assert (await make_client(verify=verify).get(tls_app.url)).ok
        assert (await make_client(verify=True).get(tls_app.url, verify=verify)).ok
    with pytest.raises(curlhttp.SSLError):
        await make_client(verify=True).get(tls_app.url)


async def test_without_trust_the_environment_is_not_read(
    make_client: MakeClient, tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Authorities."""
    for name in VARIABLES:
        monkeypatch.setenv(name, str(certs.ca_path))
    client = make_client(verify=True, trust_env=False)
    with pytest.raises(curlhttp.SSLError):
        await client.get(tls_app.url)
    for name in VARIABLES:
        monkeypatch.setenv(name, "/nowhere")
    assert (await make_client(verify=certs.ca_path, trust_env=False).get(tls_app.url)).ok


@EVERY_API
async def test_without_trust_env_no_api_reads_the_environment(
    make_client: MakeClient,
    api: str,
    session: requests.Session,
    app: AppServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither proxies nor netrc; libcurl on its own would read all of these."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login u password p\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    with refused_port() as port:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        session.trust_env = False
        fetch = make_fetch(make_client(trust_env=False), api, tmp_path, session)
        assert (await fetch(app.url)).ok
        assert app.requests[0].header("authorization") is None
        session.trust_env = True
        with pytest.raises(curlhttp.ProxyError):
            await make_fetch(make_client(), api, tmp_path, session)(app.url)
    assert len(app.requests) == 1


async def test_libcurl_reads_no_netrc_on_its_own(
    make_client: MakeClient, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without trust_env the environment says nothing."""
    home = tmp_path / ".netrc"
    home.write_text("machine 127.0.0.1 login u password p\n")
    home.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    await make_client(trust_env=False).get(app.url)
    await make_client().get(app.url)
    assert [record.header("authorization") for record in app.requests] == [None, "Basic dTpw"]


async def test_an_unreadable_netrc_is_ignored(
    make_client: MakeClient, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "netrc"
    broken.write_text("machine 127.0.0.1 nonsense s3cret\n")
    monkeypatch.setenv("NETRC", str(broken))
    await make_client().get(app.url)
    assert app.requests[0].header("authorization") is None


@pytest.mark.parametrize(
    "url",
    [
        "http+unix://%2Ftmp%2Fsocket/",
        "unix:/tmp/socket",
        "file:///etc/passwd",
    ],
)
async def test_no_url_opens_a_socket_or_a_file(client: AnyClient, url: str) -> None:
    """No URL leads past HTTP."""
    with pytest.raises((curlhttp.InvalidSchema, curlhttp.InvalidURL)):
        await client.get(url)
