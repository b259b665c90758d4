"""Pools of urllib3 with libcurl below: their cost, and which library sends."""

from __future__ import annotations

import gc
import http.client
import ssl
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import urllib3

from curlhttp import BlockedAddress, PublicOnly, requests
from curlhttp.requests.adapters import HTTPAdapter
from tests.servers import AppServer, Certs, H2Server, HTTPProxy, RawConnection, RawServer


@pytest.fixture
def no_sockets_of_urllib3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let http.client connect to nothing."""

    def refuse(self: object) -> None:
        raise AssertionError("http.client connects")

    for kind in (
        http.client.HTTPConnection,
        urllib3.connection.HTTPConnection,
        urllib3.connection.HTTPSConnection,
    ):
        monkeypatch.setattr(kind, "connect", refuse)


def mounted(adapter: HTTPAdapter, **settings: Any) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    for name, value in settings.items():
        setattr(session, name, value)
    return session


@pytest.mark.usefixtures("no_sockets_of_urllib3")
def test_pools_send_by_libcurl(app: AppServer, tls_app: AppServer, certs: Certs) -> None:
    adapter = HTTPAdapter()
    adapter.poolmanager.connection_pool_kw["ca_certs"] = str(certs.ca_path)
    assert adapter.poolmanager.request("GET", tls_app.url).data == b"hello"
    with mounted(adapter, verify=str(certs.ca_path)) as session, HTTPProxy() as proxy:
        assert session.get(app.url).timings is not None
        assert session.get(tls_app.url).text == "hello"
        response = session.get(tls_app.url, proxies={"https": proxy.url})
        assert response.text == "hello"
    assert adapter.proxy_manager[proxy.url].pools is not None


@pytest.mark.usefixtures("no_sockets_of_urllib3")
@pytest.mark.parametrize("how", ["made by hand", "with a context"])
def test_adapters_with_settings_that_libcurl_supports_use_it(
    h2_app: H2Server, certs: Certs, how: str
) -> None:
    context = certs.client_context()

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            if how == "made by hand":
                self.poolmanager = urllib3.PoolManager(*args, ssl_context=context)
            else:
                super().init_poolmanager(*args, ssl_context=context, **kwargs)

    with mounted(Adapter(http2=True)) as session:
        assert session.get(h2_app.url).http_version == "HTTP/2"


def test_a_manager_that_is_forgotten_closes_the_connections(app: AppServer) -> None:
    adapter = HTTPAdapter()
    with mounted(adapter) as session:
        session.get(app.url)
        adapter.poolmanager.clear()
        assert app.wait_for(lambda: app.open_connections == 0)
        assert session.get(app.url).text == "hello"


def test_a_pool_outlives_its_adapter(app: AppServer) -> None:
    pool = HTTPAdapter().poolmanager.connection_from_url(app.url)
    assert pool.urlopen("GET", "/").data == b"hello"
    pool.close()


def test_an_adapter_whose_pools_were_used_directly_is_freed(app: AppServer) -> None:
    adapter = HTTPAdapter()
    pool = adapter.poolmanager.connection_from_url(app.url)
    for _ in range(2):
        assert pool.urlopen("GET", "/").data == b"hello"
    assert pool.num_connections == app.connections == 1
    seen = weakref.ref(adapter)
    del adapter, pool
    gc.collect()
    assert seen() is None
    assert app.wait_for(lambda: app.open_connections == 0)


@pytest.mark.parametrize("release_conn", [None, True])
def test_a_body_is_readable_after_its_adapter_is_dropped(
    app: AppServer, release_conn: bool | None
) -> None:
    adapter = HTTPAdapter()
    manager = adapter.poolmanager
    seen = weakref.ref(adapter)
    response = manager.urlopen(
        "GET", app.url + "/bytes/1000000", preload_content=False, release_conn=release_conn
    )
    del adapter, manager
    gc.collect()
    assert len(response.read()) == 1_000_000
    del response
    gc.collect()
    assert seen() is None


def test_the_connection_of_a_stream_has_urllib3s_attributes(app: AppServer) -> None:
    adapter = HTTPAdapter()
    pool = adapter.poolmanager.connection_from_url(app.url)
    with pool.urlopen("GET", "/bytes/1000000", preload_content=False) as response:
        assert response.connection.default_port == 80
    assert pool.num_connections == 1
    adapter.close()


def test_a_context_that_only_urllib3_supports_is_left_to_it(
    tls_app: AppServer, certs: Certs
) -> None:
    context = certs.client_context()
    context.options |= 0x4  # OP_LEGACY_SERVER_CONNECT
    seen: list[str] = []

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

        def build_response(self, req: Any, resp: Any) -> Any:
            seen.append(type(resp).__name__)
            return super().build_response(req, resp)

    with mounted(Adapter()) as session:
        assert session.get(tls_app.url).text == "hello"
        context.options &= ~0x4
        assert session.get(tls_app.url).text == "hello"
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        assert session.get(tls_app.url).text == "hello"
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    with mounted(Adapter()) as session, pytest.raises(requests.exceptions.SSLError):
        session.get(tls_app.url)
    assert seen == ["HTTPResponse", "RawResponse", "HTTPResponse"]


def test_a_changed_context_applies_to_the_next_request(tls_app: AppServer, certs: Certs) -> None:
    context = ssl.create_default_context(cafile=str(certs.other_ca_path))

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

    with mounted(Adapter()) as session:
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url)
        context.load_verify_locations(str(certs.ca_path))
        assert session.get(tls_app.url).text == "hello"


def test_a_socks_proxy_without_libcurl_is_refused(tls_app: AppServer) -> None:
    class Adapter(HTTPAdapter):
        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            return super().proxy_manager_for(proxy, assert_fingerprint="00" * 32, **kwargs)

    with mounted(Adapter()) as session, pytest.raises(ValueError, match="assert_fingerprint"):
        session.get(tls_app.url, proxies={"https": "socks5://127.0.0.1:1"})


def test_an_https_proxy_of_a_plain_request_is_verified_after_the_pool_manager_was_used(
    app: AppServer, certs: Certs
) -> None:
    adapter = HTTPAdapter()
    assert adapter.poolmanager is not None
    with HTTPProxy(context=certs.server_context()) as proxy, mounted(adapter) as session:
        proxies = {"http": proxy.url}
        with pytest.raises(requests.exceptions.SSLError):
            session.get(app.url, proxies=proxies)
        session.verify = str(certs.ca_path)
        assert session.get(app.url, proxies=proxies).text == "hello"


# --- requests that urllib3 sends instead of libcurl ---


def with_context(context: ssl.SSLContext) -> HTTPAdapter:
    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

    return Adapter()


def pool_of(adapter: HTTPAdapter, url: str) -> Any:
    return adapter.get_connection_with_tls_context(requests.Request("GET", url).prepare(), True)


def test_a_post_that_the_server_has_read_is_not_sent_again(certs: Certs) -> None:
    def read_and_refuse(conn: RawConnection) -> None:
        came, gone = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = certs.server_context().wrap_bio(came, gone, server_side=True)

        def act(action: Callable[[], Any]) -> Any:
            while True:
                try:
                    return action()
                except ssl.SSLWantReadError:
                    conn.send(gone.read())
                    came.write(conn.sock.recv(65536))
                finally:
                    conn.send(gone.read())

        act(tls.do_handshake)
        request = b""
        while not request.endswith(b"pay 100"):
            request += act(lambda: tls.read(65536))
        conn.server.requests.append(request)
        came.write(b"\x17\x03\x03\x00\x20" + bytes(32))  # of which it says bad_record_mac
        with suppress(ssl.SSLError):
            act(lambda: tls.read(1))

    adapter = with_context(certs.client_context())
    with RawServer(read_and_refuse) as server, mounted(adapter) as session:
        url = server.url.replace("http", "https")
        with pytest.raises(requests.exceptions.SSLError, match="bad record mac"):
            session.post(url, data=b"pay 100")
        assert len(server.requests) == 1
        pool = pool_of(adapter, url)
        assert (pool.num_requests, pool.uses_urllib3) == (1, False)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_post_for_which_the_context_has_the_certificate_is_sent_and_counted_once(
    certs: Certs, version: ssl.TLSVersion
) -> None:
    context, of_server = certs.client_context(), certs.client_auth_context()
    context.load_cert_chain(*certs.client_cert_pair())
    of_server.minimum_version = of_server.maximum_version = version
    adapter = with_context(context)
    with AppServer(of_server) as server, mounted(adapter) as session:
        assert session.post(server.url + "/echo", data=b"pay 100").ok
        assert [request.body for request in server.requests] == [b"pay 100"]
        pool = pool_of(adapter, server.url)
        assert (pool.num_requests, pool.uses_urllib3) == (1, True)


def test_a_pool_uses_urllib3_only_after_it_succeeded(certs: Certs) -> None:
    context = certs.client_context()
    adapter = with_context(context)
    of_server = certs.client_auth_context()
    with AppServer(of_server) as server, mounted(adapter) as session:
        with pytest.raises(requests.ConnectionError):
            session.get(server.url)
        assert not pool_of(adapter, server.url).uses_urllib3


# --- guards ---


@pytest.mark.parametrize("how", ["send", "pool", "manager"])
def test_pools_are_on_guard(app: AppServer, how: str) -> None:
    with requests.Session(guard=PublicOnly()) as session:
        adapter: Any = session.get_adapter("http://")
        pool = adapter.poolmanager.connection_from_url(app.url)
        if how == "send":
            with pytest.raises(BlockedAddress):
                session.get(app.url)
        else:
            sender = pool if how == "pool" else adapter.poolmanager
            url = "/" if how == "pool" else app.url
            with pytest.raises(urllib3.exceptions.ProtocolError) as caught:
                sender.urlopen("GET", url, retries=False)
            assert isinstance(caught.value.__cause__, BlockedAddress)
    assert app.connections == 0


def test_a_guard_refuses_connections_of_urllib3(tls_app: AppServer) -> None:
    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, assert_fingerprint="00" * 32, **kwargs)

    with requests.Session(guard=PublicOnly()) as session:
        session.mount("https://", adapter := Adapter())
        with pytest.raises(ValueError, match="guard"):
            session.get(tls_app.url)
        with pytest.raises(ValueError, match="guard"):
            adapter.poolmanager.request("GET", tls_app.url)
    assert tls_app.connections == 0


def manager_of(session: requests.Session) -> Any:
    adapter: Any = session.get_adapter("http://")
    return adapter.poolmanager


class WithItsOwnManager(HTTPAdapter):
    """An adapter with its own pool manager, which a session sees at the first request only."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        self.poolmanager = urllib3.PoolManager()


@pytest.mark.parametrize("sends_first", [False, True])
@pytest.mark.parametrize("has_pools", [False, True])
def test_a_replaced_pool_manager_is_guarded(
    app: AppServer, sends_first: bool, has_pools: bool
) -> None:
    adapter = WithItsOwnManager()
    manager = adapter.poolmanager
    if has_pools:
        assert manager.urlopen("GET", app.url).data == b"hello"
    with requests.Session(guard=PublicOnly()) as session:
        session.mount("http://", adapter)
        if sends_first:
            with pytest.raises(BlockedAddress):
                session.get(app.url)
        with pytest.raises((urllib3.exceptions.ProtocolError, ValueError)):
            manager.urlopen("GET", app.url, retries=False)
        with pytest.raises(urllib3.exceptions.ProtocolError) as caught:
            manager.urlopen("GET", app.url, retries=False)
        assert isinstance(caught.value.__cause__, BlockedAddress)
    assert len(app.requests) == has_pools


def test_a_manager_that_adapters_share_is_forgotten_by_one_of_them(app: AppServer) -> None:
    first, second = WithItsOwnManager(), WithItsOwnManager()
    second.poolmanager = first.poolmanager
    with mounted(first) as session, mounted(second) as other:
        assert session.get(app.url).text == other.get(app.url).text == "hello"
        other.close()
        assert session.get(app.url).text == "hello"
    assert app.connections == 2


@pytest.mark.parametrize("adapter", [HTTPAdapter, WithItsOwnManager])
@pytest.mark.parametrize("how", ["pool", "manager"])
def test_pools_that_outlive_a_guarded_session_do_not_connect(
    app: AppServer, how: str, adapter: type[HTTPAdapter]
) -> None:
    session = requests.Session(guard=PublicOnly())
    session.mount("http://", adapter())
    manager = manager_of(session)
    sender, url = manager, app.url
    if how == "pool":
        sender, url = manager.connection_from_url(app.url), "/"
    del session, manager
    gc.collect()
    with pytest.raises(urllib3.exceptions.ClosedPoolError, match="guard"):
        sender.urlopen("GET", url)
    assert app.connections == 0


def test_a_guard_set_later_checks_open_connections_of_urllib3(app: AppServer) -> None:
    with requests.Session() as session:
        pool = manager_of(session).connection_from_url(app.url)
        pool.uses_urllib3 = True
        assert pool.urlopen("GET", "/").data == b"hello"
        session.guard = PublicOnly()
        for _ in range(2):  # the connection that is there, and a new one
            with pytest.raises(ValueError, match="guard"):
                pool.urlopen("GET", "/")
        session.guard = None
        assert pool.urlopen("GET", "/").data == b"hello"
    assert len(app.requests) == 2


def test_a_socket_of_urllib3s_is_not_to_be_had_on_guard(app: AppServer) -> None:
    with requests.Session(guard=PublicOnly()) as session:
        pool = manager_of(session).connection_from_url(app.url)
        with pytest.raises(ValueError, match="guard"):
            pool._get_conn().connect()
    assert app.connections == 0


def test_a_method_replaced_by_a_test_is_called_for_the_pool(app: AppServer) -> None:
    adapter: Any = HTTPAdapter()
    pool = urllib3.HTTPConnectionPool("127.0.0.1", app.port)
    with (
        mounted(adapter) as session,
        patch.object(adapter, "get_connection_with_tls_context", return_value=pool) as asked,
    ):
        assert session.get("http://host.invalid/").text == "hello"
        asked.assert_called_once()


# --- what it costs ---


@pytest.mark.slow
def test_an_unchanged_adapter_needs_no_urllib3(app: AppServer) -> None:
    program = (
        "import sys, curlhttp; from curlhttp import requests\n"
        "class Adapter(requests.adapters.HTTPAdapter):\n"
        "    def send(self, *args, **kwargs): return super().send(*args, **kwargs)\n"
        "    def add_headers(self, request, **kwargs): pass\n"
        "s = requests.Session(); s.mount('http://', Adapter(pool_maxsize=3))\n"
        f"assert s.get({app.url!r}).text == 'hello'; s.close()\n"
        "assert 'urllib3' not in sys.modules\n"
        "assert 'Pool' in type(s.get_adapter('http://').poolmanager).__name__\n"
        "assert 'urllib3' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.returncode == 0, done.stderr
