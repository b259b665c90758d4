"""The arguments of HTTPTransport: trust, proxies, sockets, limits; errors for invalid ones."""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.httpx.clients import Make, transports
from tests.servers import (
    AppServer,
    Certs,
    HTTPProxy,
    RawServer,
    SOCKSProxy,
    respond_and_close,
    response,
)
from tests.support.colours import (
    ONE_OF_EACH,
    WITHOUT_UVLOOP,
    needs_authorities,
    needs_pem_certificates,
    needs_posix,
)
from tests.support.forced import force

pytestmark = [pytest.mark.anyio, ONE_OF_EACH]


@pytest.mark.parametrize("kind", ["path", "context", "False", "unchecked context", "environment"])
async def test_verify_chooses_authorities_as_in_httpx(
    library: Any,
    tls_app: AppServer,
    make_httpx: Make,
    certs: Certs,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verify: Any = True
    if kind == "path":
        verify = str(certs.ca_path)
    elif kind == "context":
        verify = ssl.create_default_context(cafile=str(certs.ca_path))
    elif kind == "False":
        verify = False
    elif kind == "unchecked context":
        verify = ssl.create_default_context()
        verify.check_hostname, verify.verify_mode = False, ssl.CERT_NONE
    else:
        monkeypatch.setenv("SSL_CERT_FILE", str(certs.ca_path))
        with pytest.raises(library.ConnectError):
            await make_httpx(transport={"trust_env": False}).get(tls_app.url)
    client = make_httpx(transport={"verify": verify})
    assert (await client.get(tls_app.url)).content == b"hello"


async def test_a_context_of_other_authorities_does_not_trust_the_server(
    library: Any, tls_app: AppServer, make_httpx: Make, tmp_path: Path
) -> None:
    other = Certs(tmp_path)
    context = ssl.create_default_context(cafile=str(other.ca_path))
    with pytest.raises(library.ConnectError):
        await make_httpx(transport={"verify": context}).get(tls_app.url)


async def test_versions_of_tls_are_taken_over_from_a_context(
    library: Any, make_httpx: Make, tls_app: AppServer, certs: Certs
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca_path))
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # distributions differ in what it is
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    client = make_httpx(transport={"verify": context})
    assert (await client.get(tls_app.url)).content == b"hello"
    newer = certs.server_context()
    newer.minimum_version = ssl.TLSVersion.TLSv1_3
    with AppServer(newer) as server, pytest.raises(library.ConnectError):
        await client.get(server.url)


@pytest.fixture
def machine_trusts(monkeypatch: pytest.MonkeyPatch, certs: Certs) -> None:
    """Have the machine trust the authority of the tests."""
    force(monkeypatch, "what the machine trusts, for httpx", lambda: str(certs.ca_path))


@needs_authorities
@pytest.mark.usefixtures("machine_trusts")
async def test_a_context_without_authorities_means_the_machines(
    make_httpx: Make, tls_app: AppServer
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = make_httpx(transport={"verify": context})
    assert (await client.get(tls_app.url)).content == b"hello"


async def test_a_context_that_trusts_one_certificate_alone_is_refused(
    make_httpx: Make, certs: Certs, tmp_path: Path
) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(certs.server_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=path)
    with pytest.raises(ValueError, match="pass the path of their file as verify="):
        make_httpx(transport={"verify": context})
    speaks = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speaks.load_cert_chain(path)
    with RawServer(respond_and_close(response(b"hello")), speaks) as server:
        client = make_httpx(transport={"verify": str(path)})
        assert (await client.get(server.url)).content == b"hello"


@needs_authorities
@pytest.mark.usefixtures("machine_trusts")
def test_httpx2_trusts_the_machine_and_httpx_certifi(library: Any, tls_app: AppServer) -> None:
    with library.Client(transport=transports(library).Transport()) as client:
        if library.__name__ == "httpx2":
            assert client.get(tls_app.url).content == b"hello"
        else:
            with pytest.raises(library.ConnectError):
                client.get(tls_app.url)


@needs_pem_certificates
async def test_a_client_certificate_is_shown(make_httpx: Make, certs: Certs) -> None:
    with AppServer(certs.client_auth_context()) as app:
        pair = tuple(map(str, certs.client_cert_pair()))
        client = make_httpx(transport={"verify": str(certs.ca_path), "cert": pair})
        assert (await client.get(app.url)).content == b"hello"


# --- proxies ---


async def test_requests_go_through_a_proxy(
    library: Any, app: AppServer, tls_app: AppServer, make_httpx: Make, certs: Certs
) -> None:
    with HTTPProxy(("me", "secret")) as proxy:
        where = f"http://127.0.0.1:{proxy.port}"
        given: list[Any] = [
            f"http://me:secret@127.0.0.1:{proxy.port}",
            library.URL(f"http://me:secret@127.0.0.1:{proxy.port}"),
            library.Proxy(where, auth=("me", "secret"), headers={"X-Team": "a"}),
        ]
        for each in given:
            client = make_httpx(transport={"proxy": each, "verify": str(certs.ca_path)})
            assert (await client.get(app.url)).content == b"hello"
            assert (await client.get(tls_app.url)).content == b"hello"
        assert proxy.tunnels >= 3
        assert proxy.log[-1].header("X-Team") == "a"
    for record in (*app.requests, *tls_app.requests):
        assert record.header("proxy-authorization") is None
    assert tls_app.requests[-1].header("x-team") is None


async def test_a_socks_proxy_resolves_names(app: AppServer, make_httpx: Make) -> None:
    with SOCKSProxy(hosts={"only.there.test": ("127.0.0.1", app.port)}) as proxy:
        client = make_httpx(transport={"proxy": f"socks5://127.0.0.1:{proxy.port}"})
        assert (await client.get(f"http://only.there.test:{app.port}/")).content == b"hello"


# --- sockets ---


@contextmanager
def unix_server(path: Path) -> Iterator[list[bytes]]:
    """Respond on a Unix socket; return the requests."""
    seen: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            with conn:
                seen.append(conn.recv(65536))
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlocal")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@needs_posix
@WITHOUT_UVLOOP
async def test_a_unix_socket_is_connected_to(make_httpx: Make, tmp_path: Path) -> None:
    client = make_httpx(transport={"uds": str(tmp_path / "s")})
    with unix_server(tmp_path / "s") as seen:
        for _ in range(3):
            response = await client.get("http://docker/v1/info")
            assert response.content == b"local"
            assert response.extensions["network_stream"].get_extra_info("socket") is None
    assert [request.partition(b"\r\n")[0] for request in seen] == [b"GET /v1/info HTTP/1.1"] * 3
    assert b"Host: docker\r\n" in seen[0]


async def test_an_address_to_connect_from_is_used(app: AppServer, make_httpx: Make) -> None:
    response = await make_httpx(transport={"local_address": "127.0.0.3"}).get(app.url)
    assert response.extensions["network_stream"].get_extra_info("client_addr")[0] == "127.0.0.3"


async def test_socket_options_are_set(library: Any, app: AppServer, make_httpx: Make) -> None:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    assert (await make_httpx(transport={"socket_options": options}).get(app.url)).content
    unfit = [(socket.SOL_SOCKET, 12345, 1)]
    with pytest.raises(library.ConnectError):
        await make_httpx(transport={"socket_options": unfit}).get(app.url)


# --- the rest ---


async def test_without_http1_it_speaks_http2_at_once(library: Any, make_httpx: Make) -> None:
    client = make_httpx(transport={"http1": False, "http2": True})
    with RawServer(respond_and_close(b"")) as server:
        with pytest.raises(library.TransportError):
            await client.get(server.url)
        assert server.requests[0].startswith(b"PRI * HTTP/2.0\r\n")


@pytest.mark.parametrize(
    ("limits", "most", "keep", "expiry"),
    [
        ({}, 10_000, None, 5.0),
        ({"max_connections": 3, "max_keepalive_connections": 2}, 3, 2, 5.0),
        ({"max_keepalive_connections": 0}, 10_000, 0, 5.0),
        ({"keepalive_expiry": None}, 10_000, None, 10**9),
        ({"keepalive_expiry": 0}, 10_000, 0, 0.0),
    ],
)
async def test_limits_are_observed(
    library: Any, make_httpx: Make, limits: dict[str, Any], most: int, keep: int, expiry: float
) -> None:
    found = make_httpx(transport={"limits": library.Limits(**limits)}).transport._limits
    assert found.max_connections == most
    assert found.max_keepalive_connections == keep
    assert found.keepalive_expiry == expiry


async def test_limits_are_those_of_httpxs_own_transport_by_default(make_httpx: Make) -> None:
    found = make_httpx().transport._limits
    assert (found.max_connections, found.max_keepalive_connections) == (100, 20)


@pytest.mark.parametrize("keep", [0, 1])
async def test_keepalive_limits_are_observed(
    library: Any, app: AppServer, make_httpx: Make, keep: int
) -> None:
    client = make_httpx(transport={"limits": library.Limits(max_keepalive_connections=keep)})
    for _ in range(3):
        await client.get(app.url)
    assert app.connections == (1 if keep else 3)


WRONG: dict[str, dict[str, Any]] = {
    "no version of HTTP": {"http1": False, "http2": False},
    "a unix socket behind a proxy": {"uds": "/tmp/s", "proxy": "http://a.test"},
    "a proxy of another kind": {"proxy": "ftp://a.test"},
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_settings_are_refused(library: Any, name: str) -> None:
    for kind in (transports(library).Transport, transports(library).AsyncTransport):
        with pytest.raises(ValueError):
            kind(**WRONG[name])


async def test_a_proxy_may_have_its_own_context(
    library: Any, make_httpx: Make, certs: Certs, app: AppServer
) -> None:
    with HTTPProxy(None, certs.unknown_ca_context()) as proxy:
        context = ssl.create_default_context(cafile=str(certs.other_ca_path))
        given = library.Proxy(proxy.url, ssl_context=context)
        assert (await make_httpx(proxy=given).get(app.url)).content == b"hello"
        with pytest.raises(library.ConnectError):
            await make_httpx(proxy=library.Proxy(proxy.url)).get(app.url)
        assert len(proxy.log) == 1


@pytest.mark.parametrize("name", ["verify", "cert"])
def test_a_missing_file_of_authorities_is_an_error(library: Any, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="invalid path"):
        transports(library).Transport(**{name: "/nowhere/ca.pem"})


async def test_authorities_that_do_not_exist_only_matter_to_tls(
    library: Any,
    make_httpx: Make,
    app: AppServer,
    tls_app: AppServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    client = make_httpx(transport={})
    assert (await client.get(app.url)).content == b"hello"
    with pytest.raises(library.ConnectError, match=r"/nowhere \(the environment variable SSL_CERT"):
        await client.get(tls_app.url)


@pytest.mark.skipif(sys.platform == "win32", reason="Schannel reads no folders of certificates")
async def test_the_environment_may_name_several_folders(
    make_httpx: Make,
    tls_app: AppServer,
    certs: Certs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = ["/nowhere", certs.make_hashed_folder(tmp_path / "ours")]
    monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join(folders))
    assert (await make_httpx(transport={}).get(tls_app.url)).content == b"hello"
