"""What adapters in use do with urllib3's pool managers and pools below requests."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    HTTPProxy,
    Record,
    SOCKSProxy,
    refused_port,
)
from tests.support.pace import paced

NAME = "pinned.test"


@pytest.fixture
def urllib3(requests: Any) -> Any:
    """Return urllib3 as requests has it."""
    return requests.packages.urllib3


@pytest.fixture
def pinned_app(certs: Certs) -> Any:
    """Return a server with a certificate for NAME alone."""
    with AppServer(certs.server_context(NAME)) as server:
        yield server


def mounted(requests: Any, adapter: Any) -> Any:
    """Return a session with this adapter."""
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def own_classes(urllib3: Any) -> tuple[dict[str, type], list[tuple[str, int]]]:
    """Return pools with classes of connections of one's own, and where those were to connect."""
    dialled: list[tuple[str, int]] = []

    class Noting:
        def _new_conn(self) -> Any:
            dialled.append((self.host, self.port))  # type: ignore[attr-defined]
            return super()._new_conn()  # type: ignore[misc]

    plain = type("Plain", (Noting, urllib3.connection.HTTPConnection), {})
    secure = type("Secure", (Noting, urllib3.connection.HTTPSConnection), {})
    return {
        "http": type("Pool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("TLSPool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }, dialled


# --- what a manager is ---


def test_the_manager_is_urllib3s(requests: Any, urllib3: Any) -> None:
    adapter = requests.adapters.HTTPAdapter(pool_connections=2, pool_maxsize=3, pool_block=True)
    manager = adapter.poolmanager
    assert isinstance(manager, urllib3.PoolManager)
    assert adapter.poolmanager is manager
    assert {"maxsize": 3, "block": True}.items() <= manager.connection_pool_kw.items()
    assert set(manager.pool_classes_by_scheme) == set(manager.key_fn_by_scheme) == {"http", "https"}
    pool = manager.connection_from_url("https://host.test/path")
    assert isinstance(pool, urllib3.HTTPSConnectionPool)
    assert pool.ConnectionCls is urllib3.connection.HTTPSConnection
    assert (pool.scheme, pool.host, pool.port, pool.block) == ("https", "host.test", 443, True)
    assert pool.pool.qsize() == 3
    assert manager.connection_from_host("host.test", 443, "https") is pool
    context = {"scheme": "https", "host": "HOST.test", "port": 443, **manager.connection_pool_kw}
    assert manager.connection_from_context(dict(context)) is pool
    key = manager.key_fn_by_scheme["https"](dict(context))
    assert isinstance(key, urllib3.poolmanager.PoolKey)
    assert manager.connection_from_pool_key(key, dict(context)) is pool
    assert manager.connection_from_host("host.test", 443, "https", {"timeout": 3}) is not pool
    assert len(manager.pools) == 2
    manager.connection_from_url("http://other.test")
    assert len(manager.pools) == 2  # no more than pool_connections
    assert isinstance(adapter.proxy_manager_for("http://proxy.test:3128"), urllib3.ProxyManager)
    options = urllib3.connection.HTTPConnection.default_socket_options
    assert pool._new_conn().socket_options == options
    adapter.close()
    assert len(manager.pools) == 0


def test_the_manager_has_a_pool_for_what_was_asked_before_anybody_looked(
    requests: Any, app: AppServer, other_app: AppServer
) -> None:
    adapter = requests.adapters.HTTPAdapter(pool_connections=2)
    with mounted(requests, adapter) as session:
        answer = session.get(app.url)
        assert answer.connection.poolmanager.pools
        session.get(other_app.url)
        session.get(app.url)
        assert len(adapter.poolmanager.pools) == 2


def test_a_manager_may_be_put_in_place_and_taken_away(
    requests: Any, urllib3: Any, app: AppServer
) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with mounted(requests, adapter) as session, urllib3.PoolManager() as manager:
        adapter.poolmanager = manager
        assert session.get(app.url).text == "hello"
        assert len(manager.pools) == 1
        adapter.init_poolmanager(1, 2, block=True)
        assert adapter.poolmanager is not manager
        assert adapter.poolmanager.connection_pool_kw["maxsize"] == 2
        assert session.get(app.url).text == "hello"


def test_pools_count_and_are_closed(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with mounted(requests, adapter) as session:
        pool = adapter.poolmanager.connection_from_url(app.url)
        # Those that send() gets have a key of their own: TLS counts.
        assert pool.num_requests == pool.num_connections == 0
        prepared = requests.Request("GET", app.url).prepare()
        pool = adapter.get_connection_with_tls_context(prepared, True)
        session.get(app.url)
        session.get(app.url)
        assert (pool.num_requests, pool.num_connections) == (2, 1)
        adapter.poolmanager.clear()
        assert session.get(app.url).text == "hello"
        assert app.connections == 2


@pytest.mark.parametrize("url", ["http:///path", "http://:80/"])
def test_a_url_without_a_host_is_invalid(requests: Any, url: str) -> None:
    adapter = requests.adapters.HTTPAdapter()
    assert len(adapter.poolmanager.pools) == 0
    prepared = requests.Request("GET", "http://host.test/").prepare()
    prepared.url = url
    with pytest.raises(requests.exceptions.InvalidURL):
        adapter.send(prepared)


# --- pools by themselves ---


def test_a_pool_sends_without_an_adapter(requests: Any, urllib3: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    pool = adapter.poolmanager.connection_from_url(app.url)
    answer = pool.urlopen("POST", "/echo?a=b", body="\xe4", headers={"X-A": "1"})
    assert isinstance(answer, urllib3.HTTPResponse)
    assert answer.status == 200
    seen = answer.json()
    assert (seen["method"], seen["target"]) == ("POST", "/echo?a=b")
    assert app.requests[0].body == "\xe4".encode()
    assert app.requests[0].header("x-a") == "1"
    assert app.requests[0].header("accept-encoding") == "identity"
    assert app.requests[0].header("user-agent") == f"python-urllib3/{urllib3.__version__}"
    skip = {"User-Agent": urllib3.util.SKIP_HEADER, "Accept-Encoding": "gzip"}
    assert (
        pool.request("GET", "/bytes/10", headers=skip).data == pool.urlopen("GET", "/bytes/10").data
    )
    assert app.requests[1].header("user-agent") is None
    assert app.requests[1].header("accept-encoding") == "gzip"
    assert (pool.num_requests, pool.num_connections) == (3, 1)
    assert app.connections == 1
    adapter.close()


def test_a_pool_streams(requests: Any, app: AppServer) -> None:
    def chunks(record: Record, conn: AppConnection) -> None:
        conn.begin(headers=[("Transfer-Encoding", "chunked")])
        conn.chunk(b"one")
        conn.chunk(b"two")
        conn.chunk(b"")

    app.route("/chunks", chunks)
    adapter = requests.adapters.HTTPAdapter()
    pool = adapter.poolmanager.connection_from_url(app.url)
    answer = pool.urlopen("GET", "/bytes/100000", preload_content=False)
    assert (answer.headers["content-length"], answer.version_string) == ("100000", "HTTP/1.1")
    assert len(answer.read(10)) == 10
    assert sum(map(len, answer.stream(1000))) == 99990
    answer.release_conn()
    with pool.urlopen("GET", "/chunks", preload_content=False) as answer:
        assert b"".join(answer.stream()) == b"onetwo"
    assert pool.urlopen("GET", "/chunks").data == b"onetwo"
    assert pool.urlopen("GET", "/gzip").data == pool.urlopen("GET", "/gzip").data != b""
    assert pool.urlopen("HEAD", "/bytes/10").data == b""
    adapter.close()


def test_a_manager_sends_and_follows(requests: Any, urllib3: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    answer = adapter.poolmanager.request("GET", app.url + "/redirect/2")
    assert answer.status == 200
    assert len(answer.retries.history) == 2
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        adapter.poolmanager.urlopen("GET", app.url + "/redirect/2", retries=1)
    answer = adapter.poolmanager.request("GET", app.url + "/redirect/2", redirect=False)
    assert answer.status == 302
    adapter.close()


def test_a_pool_raises_urllib3s_errors(requests: Any, urllib3: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with refused_port() as port, pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        adapter.poolmanager.connection_from_host("127.0.0.1", port).urlopen("GET", "/", retries=0)
    assert isinstance(caught.value.reason, urllib3.exceptions.NewConnectionError)
    pool = adapter.poolmanager.connection_from_url(app.url)
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        pool.urlopen("GET", "/stall", timeout=paced(0.1), retries=False)
    pool.close()
    with pytest.raises(urllib3.exceptions.ClosedPoolError):
        pool.urlopen("GET", "/")
    adapter.close()


def test_a_pool_has_the_settings_of_its_manager(
    requests: Any, urllib3: Any, tls_app: AppServer, certs: Certs
) -> None:
    adapter = requests.adapters.HTTPAdapter()
    adapter.poolmanager.connection_pool_kw["ca_certs"] = str(certs.ca_path)
    assert adapter.poolmanager.request("GET", tls_app.url).data == b"hello"
    adapter.poolmanager.connection_pool_kw["ca_certs"] = str(certs.other_ca_path)
    with pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        adapter.poolmanager.request("GET", tls_app.url, retries=0)
    assert isinstance(caught.value.reason, urllib3.exceptions.SSLError)
    adapter.close()


def test_a_proxys_pools_send(
    requests: Any, app: AppServer, tls_app: AppServer, certs: Certs
) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with HTTPProxy(("u", "p")) as proxy:
        manager = adapter.proxy_manager_for(
            proxy.url.replace("//", "//u:p@"), ca_certs=str(certs.ca_path)
        )
        assert manager.request("GET", app.url).data == b"hello"
        assert manager.request("GET", tls_app.url).data == b"hello"
        assert [entry.method for entry in proxy.log] == ["GET", "CONNECT"]
        adapter.close()
    assert app.requests[0].header("proxy-authorization") is None


# --- other classes of pools and connections ---


@pytest.mark.parametrize("how", ["item", "dict"])
def test_other_classes_of_pools_are_used(
    requests: Any, urllib3: Any, app: AppServer, tls_app: AppServer, certs: Certs, how: str
) -> None:
    classes, dialled = own_classes(urllib3)

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            if how == "item":
                kept = dict(self.poolmanager.pool_classes_by_scheme)
                self.poolmanager.pool_classes_by_scheme = {**kept, "https": classes["https"]}
            else:
                self.poolmanager.pool_classes_by_scheme = classes

    with mounted(requests, Adapter()) as session:
        session.verify = str(certs.ca_path)
        assert session.get(tls_app.url).text == "hello"
        assert session.get(app.url).text == "hello"
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url, verify=True)
    secure, plain = ("127.0.0.1", tls_app.port), ("127.0.0.1", app.port)
    assert dialled == [secure, *([plain] if how == "dict" else []), secure]


def test_a_manager_of_ones_own_is_used(requests: Any, urllib3: Any, app: AppServer) -> None:
    classes, dialled = own_classes(urllib3)

    class Manager(urllib3.PoolManager):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.pool_classes_by_scheme = classes

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(
            self, connections: int, maxsize: int, block: bool = False, **kwargs: Any
        ) -> None:
            self.poolmanager = Manager(
                num_pools=connections, maxsize=maxsize, block=block, **kwargs
            )

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            raise PermissionError("no proxies here")

    with mounted(requests, Adapter()) as session:
        assert session.get(app.url + "/redirect/1").status_code == 200
        assert session.get(app.url + "/bytes/100000", stream=True).raw.read(5)
        with pytest.raises(PermissionError):
            session.get(app.url, proxies={"http": "http://proxy.test:1"})
    assert dialled == [("127.0.0.1", app.port)]


def test_a_class_of_connections_may_be_put_on_a_pool(
    requests: Any, urllib3: Any, app: AppServer
) -> None:
    classes, dialled = own_classes(urllib3)

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
            pool = super().get_connection_with_tls_context(*args, **kwargs)
            pool.ConnectionCls = classes["http"].ConnectionCls  # type: ignore[attr-defined]
            return pool

    with mounted(requests, Adapter()) as session:
        assert session.get(app.url).text == "hello"
    assert dialled == [("127.0.0.1", app.port)]


def test_a_manager_and_its_pools_can_be_patched(
    requests: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = requests.adapters.HTTPAdapter()
    manager = adapter.poolmanager
    seen: list[Any] = []
    from_host = manager.connection_from_host

    def look(*args: Any, **kwargs: Any) -> Any:
        pool = from_host(*args, **kwargs)
        seen.append((kwargs["scheme"], kwargs["host"], kwargs["port"]))
        urlopen = pool.urlopen

        def look_again(**kw: Any) -> Any:
            seen.append(kw["url"])
            return urlopen(**kw)

        monkeypatch.setattr(pool, "urlopen", look_again)
        return pool

    monkeypatch.setattr(manager, "connection_from_host", look)
    with mounted(requests, adapter) as session:
        assert session.get(app.url + "/echo").json()["target"] == "/echo"
    assert seen == [("http", "127.0.0.1", app.port), "/echo"]


# --- addresses that adapters choose ---


@pytest.mark.parametrize("way", ["connection", "attributes", "cert_verify"])
def test_an_adapter_may_choose_the_address(
    requests: Any, pinned_app: AppServer, certs: Certs, way: str
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def _pin(self, host: Any, tls: Any) -> Any:
            return {**host, "host": "127.0.0.1"}, {
                **tls,
                "server_hostname": host["host"],
                "assert_hostname": host["host"],
            }

        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
            found = super().build_connection_pool_key_attributes(*args, **kwargs)
            if way == "attributes":
                return self._pin(*found)
            if way == "cert_verify":
                return {**found[0], "host": "127.0.0.1"}, found[1]
            return found

        def get_connection_with_tls_context(
            self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
        ) -> Any:
            request.headers["Host"] = f"{NAME}:{pinned_app.port}"
            if way != "connection":
                return super().get_connection_with_tls_context(request, verify, proxies, cert)
            found = self.build_connection_pool_key_attributes(request, verify, cert)
            host, tls = self._pin(*found)
            return self.poolmanager.connection_from_host(**host, pool_kwargs=tls)

        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            super().cert_verify(conn, url, verify, cert)
            if way == "cert_verify":
                conn.assert_hostname = conn.conn_kw["server_hostname"] = NAME

    with mounted(requests, Adapter()) as session:
        session.verify = str(certs.ca_path)
        answer = session.get(f"https://{NAME}:{pinned_app.port}/echo")
        assert answer.json()["target"] == "/echo"
        assert answer.url == f"https://{NAME}:{pinned_app.port}/echo"
        with pytest.raises(requests.exceptions.SSLError):
            session.get(f"https://{NAME}:{pinned_app.port}/echo", verify=True)
    assert pinned_app.requests[0].header("host") == f"{NAME}:{pinned_app.port}"
    assert pinned_app.handshakes[0].sni == NAME


def test_the_chosen_address_has_to_have_the_certificate_unless_a_name_is_given(
    requests: Any, certs: Certs
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        name: str | None = None

        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
            host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
            if self.name:
                tls["server_hostname"] = self.name
            return {**host, "host": "127.0.0.1"}, tls

    adapter = Adapter()
    with AppServer(certs.wrong_host_context()) as server, mounted(requests, adapter) as session:
        session.verify = str(certs.ca_path)
        url = f"https://wrong.example:{server.port}/"
        with pytest.raises(requests.exceptions.SSLError):
            session.get(url)
        adapter.name = "wrong.example"
        assert session.get(url).text == "hello"
        adapter.name = "right.example"
        with pytest.raises(requests.exceptions.SSLError):
            session.get(url)


def test_an_address_without_tls_may_be_chosen(requests: Any, app: AppServer) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
            host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
            return {**host, "host": "127.0.0.1", "port": app.port}, tls

    with mounted(requests, Adapter()) as session:
        assert session.get("http://nowhere.invalid/echo?a").json()["target"] == "/echo?a"
        named = session.get("http://nowhere.invalid/", headers={"Host": "nowhere.invalid"})
        assert named.text == "hello"
    hosts = [record.header("host") for record in app.requests]
    assert hosts == [f"127.0.0.1:{app.port}", "nowhere.invalid"]


def test_an_adapter_may_rewrite_the_url_and_name_the_host_in_the_settings(
    requests: Any, pinned_app: AppServer, certs: Certs
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            settings = self.poolmanager.connection_pool_kw
            settings["server_hostname"] = settings["assert_hostname"] = NAME
            request.headers["Host"] = NAME
            request.url = request.url.replace(NAME, "127.0.0.1")
            return super().send(request, *args, **kwargs)

    with mounted(requests, Adapter()) as session:
        session.verify = str(certs.ca_path)
        assert session.get(f"https://{NAME}:{pinned_app.port}").text == "hello"
    assert pinned_app.requests[0].header("host") == NAME


def test_a_source_address_may_be_set_later(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with mounted(requests, adapter) as session:
        assert session.get(app.url).text == "hello"
        adapter.poolmanager.connection_pool_kw.update(source_address=("127.0.0.5", 0))
        with session.get(app.url + "/bytes/9", stream=True) as answer:
            assert answer.raw._connection.sock.getsockname()[0] == "127.0.0.5"
        adapter.poolmanager.connection_pool_kw.pop("source_address")
        assert session.get(app.url).text == "hello"


# --- TLS ---


def test_an_adapter_may_leave_all_to_its_context(
    requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    context = certs.client_context()

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs, ssl_context=context)

        def cert_verify(self, *args: Any, **kwargs: Any) -> None:
            pass

        def get_connection_with_tls_context(self, request: Any, *args: Any, **kw: Any) -> Any:
            return self.poolmanager.connection_from_url(request.url)

    with mounted(requests, Adapter()) as session:
        assert session.get(tls_app.url).text == "hello"
    context = ssl.create_default_context(cafile=str(certs.other_ca_path))
    with mounted(requests, Adapter()) as session, pytest.raises(requests.exceptions.SSLError):
        session.get(tls_app.url)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with mounted(requests, Adapter()) as session, pytest.warns(Warning, match="Unverified"):
        assert session.get(tls_app.url).text == "hello"


def test_a_context_does_not_switch_off_what_the_request_asks_for(
    requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

    with mounted(requests, Adapter()) as session:
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url)
        with pytest.warns(Warning, match="Unverified"):
            assert session.get(tls_app.url, verify=False).text == "hello"
    with mounted(requests, Adapter()) as session, AppServer(certs.wrong_host_context()) as wrong:
        session.verify = str(certs.ca_path)
        assert session.get(tls_app.url).text == "hello"
        with pytest.raises(requests.exceptions.SSLError):
            session.get(wrong.url)


def test_cert_verify_decides_whom_to_trust(requests: Any, tls_app: AppServer, certs: Certs) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        trusts: Any = False

        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            super().cert_verify(conn=conn, url=url, verify=self.trusts, cert=cert)

    adapter = Adapter()
    with mounted(requests, adapter) as session:
        with pytest.warns(Warning, match="Unverified"):
            assert session.get(tls_app.url).text == "hello"
        adapter.close()
        adapter.trusts = str(certs.ca_path)
        assert session.get(tls_app.url).text == "hello"
        adapter.close()
        adapter.trusts = str(certs.other_ca_path)
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url)


def test_cert_verify_may_give_the_password_of_a_key(
    requests: Any, certs: Certs, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization as s

    certificate, key = certs.client_cert_pair()
    loaded = s.load_pem_private_key(key.read_bytes(), None)
    coded = loaded.private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret")
    )
    (tmp_path / "key.pem").write_bytes(coded)

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            conn.key_password = "secret"
            super().cert_verify(conn, url, verify, cert)

    with AppServer(certs.client_auth_context()) as server, mounted(requests, Adapter()) as session:
        session.verify = str(certs.ca_path)
        session.cert = (str(certificate), str(tmp_path / "key.pem"))
        assert session.get(server.url).text == "hello"


def test_a_fingerprint_is_checked(requests: Any, tls_app: AppServer, certs: Certs) -> None:
    der = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", tls_app.port)))
    right = hashlib.sha256(der).hexdigest()

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def __init__(self, fingerprint: str) -> None:
            self.fingerprint = fingerprint
            super().__init__()

        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, assert_fingerprint=self.fingerprint, **kwargs)

    for fingerprint in (right, "00" * 32):
        with mounted(requests, Adapter(fingerprint)) as session:
            session.verify = str(certs.ca_path)
            if fingerprint == right:
                assert session.get(tls_app.url).text == "hello"
            else:
                with pytest.raises(requests.exceptions.SSLError):
                    session.get(tls_app.url)


def test_a_context_of_another_class_is_used_as_it_is(requests: Any, certs: Certs) -> None:
    class Context(ssl.SSLContext):
        pass

    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(certs.ca_path))
    context.load_cert_chain(*map(str, certs.client_cert_pair()))

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
            host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
            return host, {**tls, "ssl_context": context}

    with AppServer(certs.client_auth_context()) as server, mounted(requests, Adapter()) as session:
        assert session.get(server.url).text == "hello"


def test_the_ciphers_are_those_of_the_context(requests: Any, certs: Certs) -> None:
    context = certs.client_context()
    context.set_ciphers("ECDHE+AESGCM")
    server_context = certs.tls12_context()
    server_context.set_ciphers("ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

    with AppServer(server_context) as server:
        with mounted(requests, Adapter()) as session:
            with pytest.raises(requests.exceptions.SSLError):
                session.get(server.url)
        context = certs.client_context()
        context.set_ciphers("ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA")
        with mounted(requests, Adapter()) as session:
            assert session.get(server.url).text == "hello"


def test_a_client_certificate_may_be_in_the_context(requests: Any, certs: Certs) -> None:
    context = certs.client_context()
    context.load_cert_chain(*map(str, certs.client_cert_pair()))

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

    with AppServer(certs.client_auth_context()) as server, mounted(requests, Adapter()) as session:
        for _ in range(2):
            assert session.post(server.url + "/echo", data="x").json()["body"] == "x"
        assert len(server.requests) == 2
        assert server.handshakes[-1].peer == "client A"
    context = certs.client_context()
    with AppServer(certs.client_auth_context()) as server, mounted(requests, Adapter()) as session:
        with pytest.raises(requests.ConnectionError):
            session.get(server.url)


# --- proxies ---


def test_proxies_have_settings_of_their_own(
    requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    context = certs.client_context()

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
            kwargs["ssl_context"] = kwargs["proxy_ssl_context"] = context
            return super().proxy_manager_for(*args, **kwargs)

    adapter = Adapter()
    with HTTPProxy() as proxy, mounted(requests, adapter) as session:
        assert session.get(tls_app.url, proxies={"https": proxy.url}).text == "hello"
        assert adapter.proxy_manager[proxy.url].connection_pool_kw["ssl_context"] is context
        assert [entry.method for entry in proxy.log] == ["CONNECT"]
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url)


def test_an_adapter_may_bring_the_proxys_manager(
    requests: Any, urllib3: Any, app: AppServer
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            if proxy not in self.proxy_manager:
                self.proxy_manager[proxy] = urllib3.ProxyManager(
                    proxy, proxy_headers={"X-Mine": "1"}, **kwargs
                )
            return self.proxy_manager[proxy]

    with HTTPProxy() as proxy, mounted(requests, Adapter()) as session:
        assert session.get(app.url, proxies={"http": proxy.url}).text == "hello"
        assert proxy.log[0].header("x-mine") == "1"
        assert proxy.log[0].target == app.url + "/"


@pytest.mark.parametrize("scheme", ["socks5h", "socks4"])
def test_a_manager_for_socks_proxies(
    requests: Any, app: AppServer, tls_app: AppServer, certs: Certs, scheme: str
) -> None:
    pytest.importorskip("curlhttp" if "curlhttp" in requests.__name__ else "socks")

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            return super().proxy_manager_for(proxy, ca_certs=str(certs.ca_path), **kwargs)

    with SOCKSProxy() as proxy, mounted(requests, Adapter()) as session:
        proxies = dict.fromkeys(("http", "https"), f"{scheme}://127.0.0.1:{proxy.port}")
        session.verify = str(certs.ca_path)
        assert session.get(app.url, proxies=proxies).text == "hello"
        assert session.get(tls_app.url, proxies=proxies).text == "hello"
        assert proxy.connections == 2


# --- names of requests.adapters that programs replace ---


def test_what_makes_managers_can_be_replaced(
    requests: Any, urllib3: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make(kind: str, manager: Any) -> Any:
        def make_one(*args: Any, **kwargs: Any) -> Any:
            made.append((kind, args, sorted(kwargs)))
            return manager

        return make_one

    session = requests.Session()
    session.trust_env = False
    with urllib3.PoolManager() as manager, session:
        names = ("PoolManager", "proxy_from_url", "SOCKSProxyManager")
        for name in names:
            monkeypatch.setattr(requests.adapters, name, make(name, manager))
        adapter = requests.adapters.HTTPAdapter()
        assert adapter.poolmanager is manager
        assert adapter.proxy_manager_for("http://proxy:1", a=1) is manager
        assert adapter.proxy_manager_for("socks5://u:p@proxy:1", a=1) is manager
        session.mount("http://", adapter)
        for proxy in ("http://proxy:1", "socks5://u:p@proxy:1"):
            assert session.get(app.url, proxies={"http": proxy}).text == "hello"
    sizes = ["block", "maxsize", "num_pools"]
    assert made == [
        ("PoolManager", (), sizes),
        ("proxy_from_url", ("http://proxy:1",), ["a", *sizes, "proxy_headers"]),
        (
            "SOCKSProxyManager",
            ("socks5://u:p@proxy:1",),
            ["a", *sizes[:2], "num_pools", "password", "username"],
        ),
    ]


def test_urllib3s_proxy_manager_can_be_replaced(
    requests: Any, urllib3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make_one(proxy_url: str, **kwargs: Any) -> str:
        made.append((proxy_url, kwargs["ssl_version"]))
        return "a manager"

    adapter = requests.adapters.HTTPAdapter()
    monkeypatch.setattr(urllib3.poolmanager, "ProxyManager", make_one)
    assert adapter.proxy_manager_for("http://proxy:1", ssl_version="TLS") == "a manager"
    assert made == [("http://proxy:1", "TLS")]


def test_what_selects_the_proxy_can_be_replaced(
    requests: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPProxy() as proxy, mounted(requests, requests.adapters.HTTPAdapter()) as session:
        monkeypatch.setattr(
            requests.adapters, "select_proxy", lambda url, proxies: proxies and proxies["mine"]
        )
        assert session.get(app.url, proxies={"mine": proxy.url}).text == "hello"
        assert proxy.log[0].target == app.url + "/"
