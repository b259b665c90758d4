"""requests-toolbelt: its own bodies, adapters that configure the pool, and helpers."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import queue
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import requests
from requests_toolbelt import (
    GuessAuth,
    MultipartDecoder,
    MultipartEncoder,
    MultipartEncoderMonitor,
    SSLAdapter,
    StreamingIterator,
    sessions,
    threaded,
    user_agent,
)
from requests_toolbelt.adapters.fingerprint import FingerprintAdapter
from requests_toolbelt.adapters.host_header_ssl import HostHeaderSSLAdapter
from requests_toolbelt.adapters.socket_options import SocketOptionsAdapter, TCPKeepAliveAdapter
from requests_toolbelt.adapters.source import SourceAddressAdapter
from requests_toolbelt.auth.handler import AuthHandler
from requests_toolbelt.cookies.forgetful import ForgetfulCookieJar
from requests_toolbelt.downloadutils import stream, tee
from requests_toolbelt.utils import dump, formdata

from tests.ecosystem.fakes import parts, tls_app
from tests.servers import AppConnection, AppServer, HTTPProxy, Record

# Libcurl pins keys, not certificates, so urllib3 sends there.
BESIDE_CURLHTTP = {"pins_a_fingerprint"}
CONTENT = bytes(range(256)) * 1000


def streams_a_multipart_body(app: AppServer) -> None:
    Path("file.bin").write_bytes(CONTENT)
    seen: list[int] = []
    with Path("file.bin").open("rb") as file:
        encoder: Any = MultipartEncoder(
            {"field": "valüe", "file": ("näme.bin", file, "text/plain")}, boundary="bound"
        )
        monitor: Any = MultipartEncoderMonitor(encoder, lambda m: seen.append(m.bytes_read))
        length = encoder.len
        response: Any = requests.post(
            app.url + "/upload",
            data=monitor,
            headers={"Content-Type": monitor.content_type},
            timeout=5,
        )
    assert response.json()["length"] == length
    assert app.requests[0].header("content-length") == str(length)
    assert app.requests[0].header("transfer-encoding") is None
    assert seen[-1] == length
    assert len(seen) > 2, "read in one piece"

    encoder = MultipartEncoder({"field": "valüe", "file": ("n", io.BytesIO(b"xyz"))})
    kind = {"Content-Type": encoder.content_type}
    requests.put(app.url + "/echo", data=encoder, headers=kind, timeout=5)
    sent = parts(app.requests[1])
    assert sent["field"].content.decode() == "valüe"
    assert sent["file"] == ("n", None, b"xyz")


def streams_an_iterator_of_known_size(app: AppServer) -> None:
    body: Any = StreamingIterator(len(CONTENT), iter([CONTENT[:1000], CONTENT[1000:]]))
    response: Any = requests.post(app.url + "/upload", data=body, timeout=5)
    assert response.json() == {
        "length": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "chunked": False,
        "expect": None,
    }


def decodes_a_multipart_answer(app: AppServer) -> None:
    def respond(record: Record, conn: AppConnection) -> None:
        kind = record.header("content-type") or ""
        conn.reply(200, record.body, [("Content-Type", kind)])

    app.route("/mirror", respond)
    response = requests.post(app.url + "/mirror", files={"a": ("n", b"content")}, timeout=5)
    decoded: Any = MultipartDecoder.from_response(response)
    assert [part.content for part in decoded.parts] == [b"content"]
    assert b'name="a"' in decoded.parts[0].headers[b"content-disposition"]


def joins_a_base_url(app: AppServer) -> None:
    with sessions.BaseUrlSession(base_url=app.url + "/echo/") as session:
        response: Any = session.get("sub", params={"a": "1"})
        assert response.json()["target"] == "/echo/sub?a=1"
        assert session.post("/json").ok
        prepared = session.prepare_request(requests.Request("GET", "prepared"))
        assert session.send(prepared).json()["target"] == "/echo/prepared"


def binds_a_source_address(app: AppServer) -> None:
    def peer(record: Record, conn: AppConnection) -> None:
        conn.reply(200, conn.sock.getpeername()[0].encode())

    app.route("/peer", peer)
    with requests.Session() as session:
        session.mount("http://", SourceAddressAdapter("127.0.0.2"))
        assert session.get(app.url + "/peer").text == "127.0.0.2"
    with socket.socket() as probe:
        probe.bind(("127.0.0.3", 0))
        port = probe.getsockname()[1]
    with requests.Session() as session:
        session.mount("http://", SourceAddressAdapter(("127.0.0.3", port)))
        assert session.get(app.url + "/peer").text == "127.0.0.3"


def sets_socket_options(app: AppServer) -> None:
    nodelay = (socket.IPPROTO_TCP, socket.TCP_NODELAY)
    alive, interval = (socket.SOL_SOCKET, socket.SO_KEEPALIVE), socket.TCP_KEEPINTVL
    cases: list[tuple[Any, dict[tuple[int, int], int]]] = [
        (SocketOptionsAdapter(socket_options=[(*alive, 1)]), {alive: 1}),
        (SocketOptionsAdapter(), {alive: 0, nodelay: 1}),
        (
            TCPKeepAliveAdapter(idle=120, interval=11),
            {alive: 1, nodelay: 1, (socket.IPPROTO_TCP, interval): 11},
        ),
    ]
    for adapter, expected in cases:
        with requests.Session() as session:
            session.mount("http://", adapter)
            assert session.get(app.url).text == "hello"
            with _socket_to(app.port) as sock:
                for option, value in expected.items():
                    assert bool(sock.getsockopt(*option)) is bool(value), option
                    assert value < 2 or sock.getsockopt(*option) == value, option


def _socket_to(port: int) -> socket.socket:
    """Return a duplicate of this process's one connection to a port."""
    for descriptor in range(3, 256):
        with contextlib.suppress(OSError):
            sock = socket.socket(fileno=os.dup(descriptor))
            with contextlib.suppress(OSError):
                if sock.getpeername()[1] == port:
                    return sock
            sock.close()
    raise AssertionError("there is no connection")


def asks_for_a_tls_version(app: AppServer) -> None:
    with tls_app() as (tls, ca, _):
        for version, expected in (
            (ssl.PROTOCOL_TLSv1_2, "TLSv1.2"),
            (ssl.PROTOCOL_TLS_CLIENT, "TLSv1.3"),
        ):
            adapter: Any = SSLAdapter(version)
            with requests.Session() as session:
                session.mount("https://", adapter)
                assert session.get(tls.url, verify=ca).text == "hello"
            assert tls.handshakes[-1].version == expected


def asks_for_a_tls_version_behind_a_proxy(app: AppServer) -> None:
    with tls_app() as (tls, ca, _), HTTPProxy() as proxy, requests.Session() as session:
        adapter: Any = SSLAdapter(ssl.PROTOCOL_TLSv1_2)
        session.mount("https://", adapter)
        response = session.get(tls.url, verify=ca, proxies={"https": proxy.url})
        assert response.text == "hello"
        assert tls.handshakes[-1].version == "TLSv1.2"


def pins_a_fingerprint(app: AppServer) -> None:
    with tls_app() as (tls, ca, _):
        pem = ssl.get_server_certificate(("127.0.0.1", tls.port))
        right = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
        with requests.Session() as session:
            session.mount("https://", FingerprintAdapter(right))
            assert session.get(tls.url, verify=ca).text == "hello"
        wrong = "00" * 32
        with requests.Session() as session:
            session.mount("https://", FingerprintAdapter(wrong))
            with pytest.raises(requests.exceptions.SSLError):
                session.get(tls.url, verify=ca)


def verifies_the_name_of_the_host_header(app: AppServer) -> None:
    with tls_app("named.example") as (tls, ca, _), requests.Session() as session:
        session.mount("https://", HostHeaderSSLAdapter())
        headers = {"Host": "named.example"}
        assert session.get(tls.url, headers=headers, verify=ca).text == "hello"
        assert tls.requests[0].values("host") == ["named.example"]
    with tls_app() as (tls, ca, _), requests.Session() as session:
        session.mount("https://", HostHeaderSSLAdapter())
        with pytest.raises(requests.exceptions.SSLError):
            session.get(tls.url, headers={"Host": "other.example"}, verify=ca)


def guesses_the_kind_of_auth(app: AppServer) -> None:
    def basic(record: Record, conn: AppConnection) -> None:
        if record.header("authorization") == "Basic dTpw":
            conn.reply(200, b"in")
        else:
            challenge = ("WWW-Authenticate", 'Basic realm="r"')
            conn.reply(401, b"out", [challenge, ("Set-Cookie", "seen=1")])

    app.route("/guess-basic", basic)
    response: Any = requests.get(app.url + "/guess-basic", auth=GuessAuth("u", "p"), timeout=5)
    assert response.text == "in"
    assert [hop.status_code for hop in response.history] == [401]
    assert app.requests[1].header("cookie") == "seen=1"
    assert app.connections == 1
    digest = app.url + "/digest?user=u&password=p"
    assert requests.get(digest, auth=GuessAuth("u", "p"), timeout=5).text == "welcome"
    with requests.Session() as session:
        session.auth = AuthHandler({app.url: ("u", "p")})
        assert session.get(app.url + "/guess-basic").text == "in"


def dumps_what_went_by(app: AppServer) -> None:
    with requests.Session() as session:
        response = session.post(
            app.url + "/redirect/1?status=307", data="body", headers={"X-Kind": "dümp"}
        )
    text = bytes(dump.dump_all(response)).decode()
    host = app.url.removeprefix("http://")
    assert "< POST /redirect/1?status=307 HTTP/1.1\r\n< Host: " + host in text
    assert "< X-Kind: dümp\r\n" in text
    assert "< body\r\n" in text
    assert "> HTTP/1.1 307 Temporary Redirect\r\n" in text
    assert "> Location: /\r\n" in text
    assert "> HTTP/1.1 200 OK\r\n" in text
    assert text.endswith("hello")


def tees_and_stores_streams(app: AppServer) -> None:
    url = app.url + "/bytes/50000"
    body = requests.get(url, timeout=5).content
    store = bytearray()
    response = requests.get(url, stream=True, timeout=5)
    pieces = list(tee.tee_to_bytearray(response, store, chunksize=8192))
    assert b"".join(pieces) == bytes(store) == body
    response = requests.get(app.url + "/gzip?size=50000", stream=True, timeout=5)
    assert b"".join(tee.tee(response, io.BytesIO(), decode_content=True)) == body
    response = requests.get(url, stream=True, timeout=5)
    assert stream.stream_response_to_file(response, path="stored.bin") == "stored.bin"
    assert Path("stored.bin").read_bytes() == body


class _LateQueue(queue.Queue[dict[str, str]]):
    """Jobs that wait until every thread of a pool is made.

    A SessionThread starts its worker before it has the queues for what comes back: a worker that
    is answered faster than that ends with an AttributeError, and its response is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_open = threading.Event()

    def get_nowait(self) -> dict[str, str]:
        assert self.is_open.wait(30)
        return super().get_nowait()


def maps_requests_over_threads(app: AppServer) -> None:
    jobs = _LateQueue()
    for number in range(1, 21):
        jobs.put({"method": "GET", "url": f"{app.url}/bytes/{number}"})
    jobs.put({"method": "GET", "url": "http://127.0.0.1:1/"})
    pool: Any = threaded.pool.Pool(jobs, num_processes=4)
    jobs.is_open.set()
    pool.join_all()
    responses, errors = list(pool.responses()), list(pool.exceptions())
    assert sorted(len(response.content) for response in responses) == list(range(1, 21))
    assert [type(error.exception).__name__ for error in errors] == ["ConnectionError"]


def keeps_no_cookies(app: AppServer) -> None:
    with requests.Session() as session:
        session.cookies = ForgetfulCookieJar()
        session.get(app.url + "/cookies/set?a=1")
        assert session.get(app.url + "/cookies").json() == {"header": None, "cookies": {}}


def writes_nested_forms_and_user_agents(app: AppServer) -> None:
    query = formdata.urlencode({"a": {"b": "1", "c": "2"}})
    headers = {"User-Agent": user_agent("pkg", "1.0")}
    requests.post(app.url + "/echo", data=query, headers=headers, timeout=5)
    assert app.requests[0].body == b"a%5Bb%5D=1&a%5Bc%5D=2"
    assert (app.requests[0].header("user-agent") or "").startswith("pkg/1.0 CPython")


def answers_a_proxy_by_digest(app: AppServer) -> None:
    from requests_toolbelt.auth.http_proxy_digest import HTTPProxyDigestAuth

    def proxy(record: Record, conn: AppConnection) -> None:
        given = record.header("proxy-authorization") or ""
        if given.startswith("Digest username=") and 'nonce="abc"' in given:
            conn.reply(200, record.target.encode())
        else:
            challenge = 'Digest realm="r", nonce="abc", qop="auth", algorithm=MD5'
            conn.reply(407, b"", [("Proxy-Authenticate", challenge)])

    app.route("/behind", proxy)
    auth: Any = HTTPProxyDigestAuth("u", "p")
    response: Any = requests.get(
        "http://origin.test/behind", auth=auth, proxies={"http": app.url}, timeout=5
    )
    assert response.text == "http://origin.test/behind"
    assert [hop.status_code for hop in response.history] == [407]
