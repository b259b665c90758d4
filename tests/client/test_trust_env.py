"""Certificates in the environment; proxies and netrc have their own files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from tests.servers import AppServer, Certs, RawServer, refused_port
from tests.servers.proxy import HTTPProxy
from tests.servers.websocket import echo, speaking
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, EVERY_CLIENT_API, make_fetch

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
    with pytest.raises(curlhttp.SSLError, match=f"invalid path: /nowhere .*{VARIABLES[1]}"):
        await make_client(verify=True).get(tls_app.url)


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


# --- folders, and paths that do not exist ---


@EVERY_CLIENT_API
async def test_the_environment_may_name_several_folders(
    make_client: MakeClient,
    api: str,
    session: requests.Session,
    tls_app: AppServer,
    certs: Certs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = certs.make_hashed_folder(tmp_path / "ours")
    other = certs.make_hashed_folder(tmp_path / "other", certs.other_ca_path)
    for folders in ((ours,), (other, ours), (ours, other), ("/nowhere", "", ours)):
        monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join(folders))
        fetch = make_fetch(make_client(verify=True), api, tmp_path, session)
        assert (await fetch(tls_app.url)).ok
        assert curlhttp.get(tls_app.url).ok
    monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join(("/nowhere", other)))
    with pytest.raises(curlhttp.SSLError, match="certificate verify failed"):
        await make_fetch(make_client(verify=True), api, tmp_path, session)(tls_app.url)
    both = os.pathsep.join((other, ours))
    assert (await make_client(verify=both, trust_env=False).get(tls_app.url)).ok


@pytest.mark.parametrize("name", VARIABLES)
@EVERY_CLIENT_API
async def test_a_path_that_does_not_exist_only_matters_to_tls(
    make_client: MakeClient,
    api: str,
    session: requests.Session,
    app: AppServer,
    tls_app: AppServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    path = os.pathsep.join(("/nowhere", "/nowhere/else"))
    monkeypatch.setenv(name, path)
    fetch = make_fetch(make_client(verify=True), api, tmp_path, session)
    assert (await fetch(app.url)).ok
    with pytest.raises(curlhttp.SSLError) as caught:
        await fetch(tls_app.url)
    assert f"invalid path: {path} (the environment variable {name})" in str(caught.value)
    assert not tls_app.requests


@ONE_OF_EACH
async def test_a_redirect_to_tls_needs_the_path(
    make_client: MakeClient, app: AppServer, tls_app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    app.route("/away", lambda record, out: out.reply(302, b"", [("Location", tls_app.url)]))
    with pytest.raises(curlhttp.SSLError, match=r"/nowhere \(the environment variable SSL_CERT_FI"):
        await make_client(verify=True).get(app.url + "/away")


@ONE_OF_EACH
async def test_a_path_may_come_to_exist_after_the_client(
    make_client: MakeClient,
    tls_app: AppServer,
    certs: Certs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    client = make_client(verify=True)
    (tmp_path / "ca.pem").write_bytes(certs.ca_pem)
    assert (await client.get(tls_app.url)).ok


@ONE_OF_EACH
async def test_a_file_without_certificates_is_named_with_its_variable(
    make_client: MakeClient, tls_app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with pytest.raises(curlhttp.SSLError, match=r"could be read from .*variable CURL_CA_BUNDLE"):
        await make_client(verify=True).get(tls_app.url)


@pytest.mark.parametrize("name", VARIABLES)
def test_the_functions_read_the_variables_of_the_clients_and_sessions_those_of_requests(
    tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(certs.ca_path))
    assert curlhttp.get(tls_app.url).ok
    assert curlhttp.request("GET", tls_app.url, verify=True).ok
    with requests.Session() as session:
        for get in (requests.get, session.get):
            if name.startswith("SSL"):
                with pytest.raises(curlhttp.SSLError):
                    get(tls_app.url)
            else:
                assert get(tls_app.url).ok


@pytest.mark.parametrize("name", VARIABLES)
def test_a_path_that_does_not_exist_only_matters_to_tls_in_the_functions(
    app: AppServer, tls_app: AppServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/nowhere")
    functions: list[Any] = [curlhttp.get, *([] if name.startswith("SSL") else [requests.get])]
    with HTTPProxy() as proxy:
        for get in functions:
            assert get(app.url).ok
            assert get(app.url, proxies={"http": proxy.url}).ok
            with pytest.raises(OSError, match=rf"/nowhere \(the environment variable {name}\)"):
                get(tls_app.url)


async def test_a_websocket_without_tls_needs_no_authorities(
    make_client: MakeClient, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    client = make_client(verify=True)
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws", 1)) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
    with RawServer(speaking(echo), certs.server_context()) as server:
        with pytest.raises(curlhttp.SSLError, match=r"/nowhere \(the environment variable SSL_CE"):
            await client.websocket(server.url.replace("http", "ws", 1))
