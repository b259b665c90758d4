"""HTTPAdapter: what it takes, what code overrides, and how it retries."""

from __future__ import annotations

import io
import pickle
import ssl
import time
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote, urlsplit

import pytest

from tests.servers import (
    AppConnection,
    AppServer,
    BlackHole,
    Certs,
    HTTPProxy,
    RawServer,
    Record,
    refused_port,
    respond_and_close,
    response,
)
from tests.support.pace import paced


def retry(requests: Any, *args: Any, **kwargs: Any) -> Any:
    kwargs.setdefault("backoff_factor", 0)
    return requests.packages.urllib3.util.retry.Retry(*args, **kwargs)


def mounted(requests: Any, **kwargs: Any) -> Any:
    """Return a session whose adapter for http has these settings."""
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(**kwargs))
    return session


def fails_first(app: AppServer, times: int, status: int = 503, **headers: str) -> str:
    """Serve errors, then an answer; return the URL."""

    def route(record: Record, conn: AppConnection) -> None:
        if len(app.requests) <= times:
            fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
            conn.reply(status, b"not yet", fields)
        else:
            conn.reply(200, b"at last")

    app.route("/flaky", route)
    return app.url + "/flaky"


# -- attributes


def test_attributes_of_an_adapter_have_their_defaults(requests: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    assert adapter.max_retries.total == 0
    assert adapter.max_retries.read is False
    assert adapter.config == {}
    assert adapter.proxy_manager == {}
    assert adapter.poolmanager is not None
    assert isinstance(adapter, requests.adapters.BaseAdapter)
    assert requests.adapters.HTTPAdapter.__attrs__[:2] == ["max_retries", "config"]
    assert (adapter._pool_connections, adapter._pool_maxsize, adapter._pool_block) == (
        10,
        10,
        False,
    )
    adapter.close()


def test_max_retries_becomes_a_retry(requests: Any) -> None:
    kind = requests.packages.urllib3.util.retry.Retry
    adapter = requests.adapters.HTTPAdapter(max_retries=3)
    assert isinstance(adapter.max_retries, kind)
    assert adapter.max_retries.total == 3
    own = retry(requests, total=5, status_forcelist=[500])
    assert requests.adapters.HTTPAdapter(max_retries=own).max_retries is own


def test_max_retries_can_be_changed_later(requests: Any, app: AppServer) -> None:
    with requests.Session() as session:
        for adapter in session.adapters.values():
            adapter.max_retries = retry(requests, total=2, status_forcelist=[503])
        assert session.get(fails_first(app, 2)).text == "at last"


def test_pool_sizes_are_kept(requests: Any) -> None:
    adapter = requests.adapters.HTTPAdapter(4, 5, 6, True)
    assert (adapter._pool_connections, adapter._pool_maxsize, adapter._pool_block) == (4, 5, True)
    assert adapter.max_retries.total == 6


def test_an_adapter_can_be_pickled(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter(pool_maxsize=3, max_retries=2)
    copy = pickle.loads(pickle.dumps(adapter))
    assert copy.max_retries.total == 2
    assert copy._pool_maxsize == 3
    assert copy.poolmanager is not None
    assert copy.config == {}
    with requests.Session() as session:
        session.mount("http://", copy)
        assert session.get(app.url).text == "hello"


def test_a_patched_get_connection_is_called(requests: Any, app: AppServer) -> None:
    patched = mock.patch.object(
        requests.adapters.HTTPAdapter,
        "get_connection_with_tls_context",
        side_effect=ZeroDivisionError,
    )
    with patched, pytest.raises(ZeroDivisionError):
        requests.get(app.url)
    assert requests.get(app.url).text == "hello"


def test_close_ends_the_connections_and_the_adapter_works_again(
    requests: Any, app: AppServer
) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with requests.Session() as session:
        session.mount("http://", adapter)
        session.get(app.url)
        assert app.open_connections == 1
        adapter.close()
        assert app.wait_for(lambda: app.open_connections == 0)
        adapter.close()
        assert session.get(app.url).text == "hello"


def test_an_adapter_can_be_mounted_twice(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with requests.Session() as session:
        session.mount("http://", adapter)
        session.mount(app.at("localhost"), adapter)
        assert session.get(app.url).connection is adapter
        assert session.get(app.at("localhost")).connection is adapter


# -- send


def test_an_adapter_sends_alone(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    prepared = requests.Request("POST", app.url + "/echo", data="body").prepare()
    answer = adapter.send(prepared)
    assert answer.json()["body"] == "body"
    assert answer.request is prepared
    assert answer.connection is adapter
    assert answer.url == prepared.url
    assert adapter.send(prepared, True, 5, True, None, {}).json()["method"] == "POST"
    adapter.close()


def test_an_adapter_does_not_follow_and_runs_no_hooks(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    prepared = requests.Request(
        "GET", app.url + "/redirect/1", hooks={"response": lambda *_: 1 / 0}
    ).prepare()
    assert adapter.send(prepared).status_code == 302
    adapter.close()


def test_send_of_an_adapter_does_not_read_the_body(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    prepared = requests.Request("GET", app.url + "/bytes/10").prepare()
    answer = adapter.send(prepared, stream=True)
    assert answer._content is False
    assert len(answer.content) == 10
    adapter.close()


def test_the_connection_of_a_response_can_send_again(requests: Any, session: Any, app: Any) -> None:
    answer = session.get(app.url + "/echo")
    again = answer.connection.send(answer.request.copy())
    assert again.json()["target"] == "/echo"


def test_send_can_be_overridden(requests: Any, app: AppServer) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.timeout = kwargs.pop("timeout", None)
            super().__init__(*args, **kwargs)

        def send(self, request: Any, **kwargs: Any) -> Any:
            if kwargs.get("timeout") is None:
                kwargs["timeout"] = self.timeout
            return super().send(request, **kwargs)

    with requests.Session() as session:
        session.mount("http://", Adapter(timeout=paced(0.1), max_retries=0))
        with pytest.raises(requests.ReadTimeout):
            session.get(app.url + "/stall")
        assert session.get(app.url).text == "hello"


def test_send_of_the_class_can_be_patched(
    requests: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        answer = requests.Response()
        answer.status_code = 299
        answer._content = b"patched"
        answer.request = request
        return answer

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    assert session.get("http://nowhere.invalid/").text == "patched"
    assert requests.get("https://nowhere.invalid/").status_code == 299


# -- build_response


def test_build_response_can_be_overridden(requests: Any, app: AppServer) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def build_response(self, req: Any, resp: Any) -> Any:
            built = super().build_response(req, resp)
            built.note = (req.url, resp.status)
            return built

    with requests.Session() as session:
        session.mount("http://", Adapter())
        assert session.get(app.url).note == (app.url + "/", 200)


def test_build_response_takes_any_raw_response(requests: Any) -> None:
    kind = requests.packages.urllib3.response.HTTPResponse
    raw = kind(
        body=io.BytesIO(b"hello"),
        status=201,
        reason="Made",
        headers={"Content-Type": "text/plain; charset=utf-8", "X-A": "1"},
        preload_content=False,
    )
    adapter = requests.adapters.HTTPAdapter()
    prepared = requests.Request("GET", "http://host/path").prepare()
    built = adapter.build_response(prepared, raw)
    assert (built.status_code, built.reason, built.encoding) == (201, "Made", "utf-8")
    assert built.headers["x-a"] == "1"
    assert built.text == "hello"
    assert (built.url, built.request, built.raw) == ("http://host/path", prepared, raw)
    assert built.connection is adapter


# -- other methods that code overrides


def test_the_pools_are_those_of_the_origins_and_their_tls(
    requests: Any, app: AppServer, other_app: AppServer, tls_app: AppServer, certs: Certs
) -> None:
    with requests.Session() as session:
        adapter = requests.adapters.HTTPAdapter(pool_connections=3)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        assert len(adapter.poolmanager.pools) == 0
        for url in (app.url, app.url + "/bytes/1", other_app.url, app.url):
            session.get(url)
        assert len(adapter.poolmanager.pools) == 2
        adapter.poolmanager.clear()
        session.get(tls_app.url, verify=str(certs.ca_path))
        session.get(tls_app.url, verify=str(certs.ca_path))
        assert len(adapter.poolmanager.pools) == 1
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url)
        assert len(adapter.poolmanager.pools) == 2
        for url in (app.url, other_app.url):
            session.get(url)
        assert len(adapter.poolmanager.pools) == 3
    assert len(adapter.poolmanager.pools) == 0


def test_init_poolmanager_is_called_with_the_settings(requests: Any) -> None:
    seen = []

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            seen.append((args, kwargs))
            super().init_poolmanager(*args, **kwargs)

    adapter = Adapter(pool_connections=3, pool_maxsize=4, pool_block=True)
    assert seen == [((3, 4), {"block": True})]
    adapter.close()
    copy = pickle.loads(pickle.dumps(requests.adapters.HTTPAdapter(3, 4)))
    assert copy._pool_connections == 3


def test_a_context_given_to_the_pool_manager_is_used(
    requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca_path))

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            kwargs["ssl_context"] = context
            super().init_poolmanager(*args, **kwargs)

    with requests.Session() as session:
        adapter = Adapter()
        session.mount("https://", adapter)
        assert adapter.poolmanager.connection_pool_kw["ssl_context"] is context
        assert session.get(tls_app.url, verify=str(certs.ca_path)).text == "hello"


def test_another_name_for_the_certificate_needs_another_connection(
    session: Any, requests: Any, tls_app: AppServer, certs: Certs
) -> None:
    """S55: the name that is checked may change from request to request."""
    session.verify = str(certs.ca_path)
    settings = session.get_adapter("https://").poolmanager.connection_pool_kw
    for name in (None, "localhost", "localhost", None):
        settings["assert_hostname"] = name
        assert session.get(tls_app.url).text == "hello"
        settings["assert_hostname"] = "wrong.example"
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls_app.url)
    assert [record.connection for record in tls_app.requests] == [0, 2, 2, 0]
    assert tls_app.requests[1].header("host") == tls_app.url.removeprefix("https://")


def test_a_pool_manager_can_be_made_by_hand(requests: Any, app: AppServer) -> None:
    manager = requests.packages.urllib3.poolmanager.PoolManager

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, connections: int, maxsize: int, block: bool = False) -> None:
            self.poolmanager = manager(num_pools=connections, maxsize=maxsize, block=block)

    with requests.Session() as session:
        session.mount("http://", Adapter())
        assert session.get(app.url).text == "hello"


def test_add_headers_can_add_headers(requests: Any, app: AppServer) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def add_headers(self, request: Any, **kwargs: Any) -> None:
            assert set(kwargs) == {"stream", "timeout", "verify", "cert", "proxies"}
            request.headers["X-Added"] = "1"

    with requests.Session() as session:
        session.mount("http://", Adapter())
        session.get(app.url)
    assert app.requests[0].header("x-added") == "1"


def test_request_url_is_what_is_asked_for(requests: Any, app: AppServer) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def request_url(self, request: Any, proxies: Any) -> str:
            return str(super().request_url(request, proxies)) + "?added=1"

    with requests.Session() as session:
        session.mount("http://", Adapter())
        session.get(app.url + "/echo")
    assert app.requests[0].target == "/echo?added=1"


def test_request_url_is_a_path_or_for_a_proxy_the_whole(requests: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    plain = requests.Request("GET", "http://u:p@host/a?b#c").prepare()
    secure = requests.Request("GET", "https://host/a?b#c").prepare()
    proxies = {"http": "http://proxy", "https": "http://proxy"}
    assert adapter.request_url(plain, None) == "/a?b"
    assert adapter.request_url(plain, {}) == "/a?b"
    assert adapter.request_url(plain, proxies) == "http://host/a?b"
    assert adapter.request_url(secure, proxies) == "/a?b"


def test_cert_verify_is_called_and_may_refuse(requests: Any, app: AppServer) -> None:
    seen = []

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            seen.append((url, verify, cert))
            super().cert_verify(conn, url, verify, cert)

    with requests.Session() as session:
        session.mount("http://", Adapter())
        session.get(app.url + "/echo", verify="/no/such/file")
    assert seen == [(app.url + "/echo", "/no/such/file", None)]


def test_proxy_headers_have_the_credentials(requests: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    assert adapter.proxy_headers("http://host:1") == {}
    assert adapter.proxy_headers("http://u:p@host:1") == {"Proxy-Authorization": "Basic dTpw"}


def test_proxy_headers_can_be_overridden(requests: Any, tls_app: AppServer, certs: Certs) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def proxy_headers(self, proxy: str) -> Any:
            headers = super().proxy_headers(proxy)
            headers["X-Proxy"] = "1"
            return headers

    with HTTPProxy() as proxy, requests.Session() as session:
        session.mount("https://", Adapter())
        session.get(tls_app.url, proxies={"https": proxy.url}, verify=str(certs.ca_path))
        assert proxy.log[0].header("x-proxy") == "1"
    assert tls_app.requests[0].header("x-proxy") is None


def test_proxy_manager_for_is_kept_for_each_proxy(requests: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    first = adapter.proxy_manager_for("http://proxy:1")
    assert adapter.proxy_manager_for("http://proxy:1") is first
    assert adapter.proxy_manager_for("http://proxy:2") is not first
    assert adapter.proxy_manager["http://proxy:1"] is first
    adapter.close()


def test_cookies_and_facts_of_a_response_are_those_of_the_adapter(
    requests: Any, app: AppServer
) -> None:
    adapter = requests.adapters.HTTPAdapter()
    prepared = requests.Request("GET", app.url + "/cookies/set?a=1").prepare()
    answer = adapter.send(prepared)
    assert answer.cookies.get_dict() == {"a": "1"}
    assert (answer.status_code, answer.reason, answer.history) == (200, "OK", [])
    adapter.close()


def test_build_connection_pool_key_attributes_tells_what_a_connection_needs(requests: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    prepared = requests.Request("GET", "https://host:8443/").prepare()
    host, pool = adapter.build_connection_pool_key_attributes(prepared, True, ("c", "k"))
    assert host == {"scheme": "https", "host": "host", "port": 8443}
    assert pool["cert_reqs"] == "CERT_REQUIRED"
    assert (pool["cert_file"], pool["key_file"]) == ("c", "k")
    _, pool = adapter.build_connection_pool_key_attributes(prepared, False)
    assert pool["cert_reqs"] == "CERT_NONE"


def test_the_connection_of_a_request_can_be_looked_at(requests: Any, app: AppServer) -> None:
    seen = []

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def get_connection_with_tls_context(
            self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
        ) -> Any:
            conn = super().get_connection_with_tls_context(request, verify, proxies, cert)
            seen.append((conn.host, conn.port, conn.scheme, verify))
            return conn

    with requests.Session() as session:
        session.mount("http://", Adapter())
        session.get(app.url)
    assert seen == [("127.0.0.1", app.port, "http", True)]


def test_get_connection_warns(requests: Any, app: AppServer) -> None:
    adapter = requests.adapters.HTTPAdapter()
    with pytest.warns(DeprecationWarning, match="get_connection_with_tls_context"):
        conn = adapter.get_connection(app.url)
    assert (conn.host, conn.port) == ("127.0.0.1", app.port)
    adapter.close()


# -- BaseAdapter


def test_a_base_adapter_has_to_be_filled(requests: Any) -> None:
    adapter = requests.adapters.BaseAdapter()
    with pytest.raises(NotImplementedError):
        adapter.send(None)
    with pytest.raises(NotImplementedError):
        adapter.close()


def test_an_adapter_for_files(requests: Any, session: Any, tmp_path: Path) -> None:
    (tmp_path / "a file.txt").write_text("in a file")

    class FileAdapter(requests.adapters.BaseAdapter):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            answer = requests.Response()
            answer.request = request
            answer.url = request.url
            answer.connection = self
            try:
                answer.raw = io.FileIO(unquote(urlsplit(request.url).path))
                answer.status_code = 200
            except FileNotFoundError:
                answer.status_code = 404
                answer.reason = "File not found"
                answer._content = b""
            return answer

        def close(self) -> None:
            pass

    session.mount("file://", FileAdapter())
    with session.get(f"file://{tmp_path}/a file.txt") as answer:
        assert answer.text == "in a file"
        answer.raw.close()
    assert session.get(f"file://{tmp_path}/missing").status_code == 404
    with session.get(f"file://{tmp_path}/a file.txt", stream=True) as answer:
        assert b"".join(answer.iter_content(4)) == b"in a file"
        answer.raw.close()


# -- retries


def test_a_status_of_the_forcelist_is_tried_again(requests: Any, app: AppServer) -> None:
    retries = retry(requests, total=3, status_forcelist=[502, 503])
    with mounted(requests, max_retries=retries) as session:
        answer = session.get(fails_first(app, 2))
    assert (answer.status_code, answer.text) == (200, "at last")
    assert len(app.requests) == 3
    assert app.connections == 1
    assert [entry.status for entry in answer.raw.retries.history] == [503, 503]
    assert answer.history == []


def test_retries_that_run_out_are_a_retry_error(requests: Any, app: AppServer) -> None:
    retries = retry(requests, total=2, status_forcelist=[500])
    with mounted(requests, max_retries=retries) as session:
        with pytest.raises(requests.exceptions.RetryError) as caught:
            session.get(app.url + "/status/500")
    assert len(app.requests) == 3
    assert "too many 500 error responses" in str(caught.value)
    errors = requests.packages.urllib3.exceptions
    assert isinstance(caught.value.args[0], errors.MaxRetryError)
    assert isinstance(caught.value.args[0].reason, errors.ResponseError)
    assert caught.value.request.url == app.url + "/status/500"


def test_without_raise_on_status_the_last_answer_is_returned(requests: Any, app: AppServer) -> None:
    retries = retry(requests, total=2, status_forcelist=[500], raise_on_status=False)
    with mounted(requests, max_retries=retries) as session:
        answer = session.get(app.url + "/status/500")
    assert answer.status_code == 500
    assert len(app.requests) == 3
    assert [entry.status for entry in answer.raw.retries.history] == [500, 500]


def test_another_status_is_not_tried_again(requests: Any, app: AppServer) -> None:
    retries = retry(requests, total=3, status_forcelist=[503])
    with mounted(requests, max_retries=retries) as session:
        assert session.get(app.url + "/status/500").status_code == 500
    assert len(app.requests) == 1


@pytest.mark.parametrize(
    ("method", "times"),
    [("GET", 3), ("HEAD", 3), ("PUT", 3), ("DELETE", 3), ("OPTIONS", 3), ("POST", 1), ("PATCH", 1)],
)
def test_only_methods_that_do_no_harm_are_tried_again(
    requests: Any, app: AppServer, method: str, times: int
) -> None:
    retries = retry(requests, total=2, status_forcelist=[500], raise_on_status=False)
    with mounted(requests, max_retries=retries) as session:
        assert session.request(method, app.url + "/status/500").status_code == 500
    assert len(app.requests) == times


@pytest.mark.parametrize("allowed", [["POST"], None])
def test_allowed_methods_can_be_named(requests: Any, app: AppServer, allowed: Any) -> None:
    retries = retry(requests, total=2, status_forcelist=[503], allowed_methods=allowed)
    with mounted(requests, max_retries=retries) as session:
        assert session.post(fails_first(app, 2), data="body").text == "at last"
    assert [record.body for record in app.requests] == [b"body"] * 3


def test_retry_after_is_honoured_for_its_statuses(requests: Any, app: AppServer) -> None:
    with mounted(requests, max_retries=retry(requests, total=2)) as session:
        assert session.get(fails_first(app, 1, Retry_After="0")).text == "at last"
        app.requests.clear()
        assert session.get(fails_first(app, 1)).text == "not yet"


def test_a_session_counts_retries_for_each_request_anew(requests: Any, app: AppServer) -> None:
    retries = retry(requests, total=1, status_forcelist=[503])
    with mounted(requests, max_retries=retries) as session:
        for _ in range(3):
            app.requests.clear()
            assert session.get(fails_first(app, 1)).text == "at last"
    assert retries.total == 1
    assert retries.history == ()


def test_connecting_is_tried_again(requests: Any) -> None:
    errors = requests.packages.urllib3.exceptions
    seen = []

    class Counting(requests.packages.urllib3.util.retry.Retry):  # type: ignore[misc]
        def increment(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(kwargs["error"])
            return super().increment(*args, **kwargs)

    with refused_port() as port:
        with mounted(requests, max_retries=Counting(connect=2, total=None)) as session:
            with pytest.raises(requests.ConnectionError) as caught:
                session.get(f"http://127.0.0.1:{port}/")
    assert len(seen) == 3
    assert all(isinstance(error, errors.NewConnectionError) for error in seen)
    assert isinstance(caught.value.args[0], errors.MaxRetryError)
    assert not isinstance(caught.value, requests.exceptions.RetryError)


def test_max_retries_as_a_number_connects_again(requests: Any) -> None:
    start = time.monotonic()
    with BlackHole() as hole:
        with mounted(requests, max_retries=2) as session:
            with pytest.raises(requests.exceptions.ConnectTimeout):
                session.get(hole.url, timeout=0.06)
    assert time.monotonic() - start >= 3 * 0.06


def test_max_retries_as_a_number_is_not_for_answers(requests: Any, app: AppServer) -> None:
    with mounted(requests, max_retries=3) as session:
        assert session.get(app.url + "/status/503").status_code == 503
    assert len(app.requests) == 1


def test_max_retries_as_a_number_reads_again(requests: Any) -> None:
    with RawServer(respond_and_close(b"")) as server:
        with mounted(requests, max_retries=3) as session:
            with pytest.raises(requests.ConnectionError):
                session.get(server.url)
            with pytest.raises(requests.ConnectionError):
                session.post(server.url)
        assert [request[:5] for request in server.requests] == [b"GET /"] * 4 + [b"POST "]


def test_reading_is_tried_again_when_the_retry_says_so(requests: Any) -> None:
    left = [b"", b"", response(b"hello")]

    def handler(conn: Any) -> None:
        if conn.read_request()[0]:
            conn.send(left.pop(0))

    with RawServer(handler) as server:
        with mounted(requests, max_retries=retry(requests, read=2, total=5)) as session:
            assert session.get(server.url).text == "hello"
        assert len(server.requests) == 3


def test_a_read_timeout_is_tried_again_and_ends_in_an_error(requests: Any, app: AppServer) -> None:
    with mounted(requests, max_retries=retry(requests, read=1, total=5)) as session:
        with pytest.raises(requests.ConnectionError):
            session.get(app.url + "/stall", timeout=(30, paced(0.05)))
    assert len(app.requests) == 2


def test_each_hop_has_its_own_retries(requests: Any, app: AppServer) -> None:
    retries = retry(requests, total=1, status_forcelist=[503])
    url = fails_first(app, 3)

    def away(record: Record, conn: AppConnection) -> None:
        if len(app.requests) == 1:
            conn.reply(503)
        else:
            conn.reply(302, b"", [("Location", "/flaky")])

    app.route("/away", away)
    with mounted(requests, max_retries=retries) as session:
        assert session.get(url.replace("flaky", "away")).text == "at last"
    assert [record.path for record in app.requests] == ["/away", "/away", "/flaky", "/flaky"]


def test_redirects_are_followed_by_the_session_not_by_the_retry(
    requests: Any, app: AppServer
) -> None:
    with mounted(requests, max_retries=retry(requests, total=5)) as session:
        answer = session.get(app.url + "/redirect/2")
    assert len(answer.history) == 2


# --- pools of one's own ---


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (lambda x: x.MaxRetryError(None, "/", x.NewConnectionError(None, "")), "ConnectionError"),
        (lambda x: x.MaxRetryError(None, "/", x.ConnectTimeoutError()), "ConnectTimeout"),
        (lambda x: x.MaxRetryError(None, "/", x.ResponseError()), "RetryError"),
        (lambda x: x.MaxRetryError(None, "/", x.ProxyError("", OSError())), "ProxyError"),
        (lambda x: x.MaxRetryError(None, "/", x.SSLError()), "SSLError"),
        (lambda x: x.MaxRetryError(None, "/", x.ReadTimeoutError(None, "", "")), "ConnectionError"),
        (lambda x: x.ReadTimeoutError(None, "/", ""), "ReadTimeout"),
        (lambda x: x.ProtocolError(), "ConnectionError"),
        (lambda x: OSError(), "ConnectionError"),
    ],
)
def test_what_a_pool_of_ones_own_raises_is_an_exception_of_requests(
    requests: Any, raised: Any, expected: str
) -> None:
    error = raised(requests.packages.urllib3.exceptions)

    class Pool:
        def urlopen(self, **kwargs: Any) -> Any:
            raise error

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
            return Pool()

    with requests.Session() as session, pytest.raises(requests.RequestException) as caught:
        session.mount("http://", Adapter())
        session.get("http://host.test/")
    assert type(caught.value).__name__ == expected
    assert caught.value.args == (error,)
