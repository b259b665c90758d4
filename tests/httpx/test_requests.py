"""Requests are sent and responses returned as on httpx's own transport."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.httpx.clients import AnyHTTPX, Make
from tests.servers import AppServer, Certs, RawServer, Relay, payload, respond, respond_and_close
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

REQUESTS: dict[str, Callable[[], dict[str, Any]]] = {
    "a plain GET": dict,
    "parameters": lambda: {"params": {"a": "1 2", "b": ["x", "y"]}},
    "JSON": lambda: {"method": "POST", "json": {"model": "gpt", "n": [1, None]}},
    "a form": lambda: {"method": "POST", "data": {"a": "é", "b": "2"}},
    "bytes": lambda: {"method": "PUT", "content": b"\x00\xff" * 100},
    "an empty POST": lambda: {"method": "POST"},
    "an empty PATCH": lambda: {"method": "PATCH", "content": b""},
    "a DELETE with a body": lambda: {"method": "DELETE", "content": b"gone"},
    "a GET with a body": lambda: {"content": b"query"},
    "a method of one's own": lambda: {"method": "PURGE"},
    "a multipart form": lambda: {
        "method": "POST",
        "files": {"file": ("a.txt", io.BytesIO(b"hello" * 1000), "text/plain")},
        "data": {"purpose": "batch"},
        "headers": {"Content-Type": "multipart/form-data; boundary=abc"},
    },
    "a length of one's own": lambda: {
        "method": "POST", "headers": {"Content-Length": "3"}, "content": b"abc",
    },
    "headers more than once, in their case": lambda: {
        "headers": [("X-One", "1"), ("x-two", "2"), ("X-ONE", "3"), ("X-Empty", "")],
    },
    "bytes in headers": lambda: {"headers": {b"X-Raw": "é".encode("latin-1")}},
    "a Host of one's own": lambda: {"headers": {"Host": "api.example.org"}},
    "none of the usual headers": lambda: {
        "headers": {"Accept": "", "User-Agent": "", "Accept-Encoding": "", "Connection": "close"},
    },
    "credentials": lambda: {"auth": ("me", "secret")},
    "cookies": lambda: {"headers": {"Cookie": "a=b"}},
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_is_sent_as_on_httpxs_own_transport(
    app: AppServer, make_httpx: Make, name: str
) -> None:
    for own in (True, False):
        options = REQUESTS[name]()
        method = options.pop("method", "GET")
        response = await make_httpx(own=own).request(method, f"{app.url}/echo", **options)
        assert response.status_code == 200
    theirs, ours = app.requests
    assert ours.method == theirs.method
    assert ours.target == theirs.target
    # libcurl writes Connection last, wherever it stood.
    last = [field for field in theirs.headers if field[0].lower() == "connection"]
    assert ours.headers == [field for field in theirs.headers if field not in last] + last
    assert ours.body == theirs.body


@pytest.mark.parametrize(
    "path", ["/echo/%7E/%2F/é", "/echo//a/../b", "/echo?", "/echo?a=%20+&b=[]|", "/echo/;a=1,2"]
)
async def test_a_target_is_sent_as_on_httpxs_own_transport(
    app: AppServer, make_httpx: Make, path: str
) -> None:
    for own in (True, False):
        await make_httpx(own=own).get(app.url + path)
    theirs, ours = app.requests
    assert ours.target == theirs.target


@pytest.mark.parametrize("target", [b"*", b"/a#b", b"http://elsewhere.test/x"])
async def test_a_custom_target_is_sent_unchanged(
    app: AppServer, httpx_client: AnyHTTPX, target: bytes
) -> None:
    with RawServer(respond(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as server:
        for extensions in ({"target": target}, {}):
            await httpx_client.request("OPTIONS", server.url, extensions=extensions)
        lines = [request.partition(b"\r\n")[0] for request in server.requests]
    assert lines == [b"OPTIONS %b HTTP/1.1" % target, b"OPTIONS / HTTP/1.1"]


def make_pieces(blocking: bool, pieces: list[bytes]) -> Any:
    def some() -> Iterator[bytes]:
        yield from pieces

    async def some_async() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return some() if blocking else some_async()


async def test_a_body_of_pieces_is_sent_in_chunks(app: AppServer, httpx_client: AnyHTTPX) -> None:
    pieces = [payload(100_000), b"", payload(5)]
    content = make_pieces(httpx_client.is_blocking, pieces)
    response = await httpx_client.post(f"{app.url}/echo", content=content)
    assert response.json()["length"] == 100_005
    assert app.requests[0].values("transfer-encoding") == ["chunked"]
    assert app.requests[0].values("content-length") == []


async def test_a_body_of_pieces_keeps_its_given_length(
    app: AppServer, httpx_client: AnyHTTPX
) -> None:
    content = make_pieces(httpx_client.is_blocking, [b"abc", b"de"])
    headers = {"Content-Length": "5"}
    response = await httpx_client.post(f"{app.url}/echo", content=content, headers=headers)
    assert response.json()["body"] == "abcde"
    assert app.requests[0].values("content-length") == ["5"]
    assert app.requests[0].values("transfer-encoding") == []


HEADS = {
    "repeats, in their case": b"Set-Cookie: a=1\r\nX-A: 1\r\nset-cookie: b=2\r\nX-A: 2\r\n",
    "bytes beyond ASCII": b"X-A: \xe9\xff\r\nContent-Length: 0\r\n",
    "blanks around": b"X-A:   1 \t\r\nX-B:\r\nContent-Length: 0\r\n",
    "a colon in a value": b"Location: http://a.test:80/\r\nContent-Length: 0\r\n",
    "no length": b"Connection: close\r\n",
    "folded lines": b"X-A: one\r\n  two\r\nContent-Length: 0\r\n",
}


@pytest.mark.parametrize("name", HEADS)
async def test_a_head_is_returned_as_on_httpxs_own_transport(make_httpx: Make, name: str) -> None:
    response = b"HTTP/1.1 203 Quite: So\r\n" + HEADS[name] + b"\r\n"
    with RawServer(respond_and_close(response)) as server:
        theirs = await make_httpx(own=True).get(server.url)
        ours = await make_httpx().get(server.url)
    assert ours.headers.raw == theirs.headers.raw
    assert (ours.status_code, ours.reason_phrase, ours.http_version) == (
        203,
        "Quite: So",
        "HTTP/1.1",
    )
    assert ours.extensions["reason_phrase"] == theirs.extensions["reason_phrase"]
    assert ours.extensions["http_version"] == theirs.extensions["http_version"]


@pytest.mark.parametrize("path", ["/gzip", "/br", "/deflate", "/304", "/204", "/json", "/bytes/0"])
async def test_a_body_is_returned_as_on_httpxs_own_transport(
    app: AppServer, make_httpx: Make, path: str
) -> None:
    theirs = await make_httpx(own=True).get(app.url + path)
    ours = await make_httpx().get(app.url + path)
    assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
    assert ours.headers.raw == theirs.headers.raw


async def test_a_head_request_has_no_body(app: AppServer, httpx_client: AnyHTTPX) -> None:
    response = await httpx_client.request("HEAD", app.url)
    assert response.headers["content-length"] == "5"
    assert response.content == b""
    assert (await httpx_client.get(app.url)).content == b"hello"
    assert app.connections == 1


async def test_redirects_cookies_and_authentication_are_httpxs_own(
    app: AppServer, make_httpx: Make, library: Any
) -> None:
    client = make_httpx(follow_redirects=True)
    response = await client.get(f"{app.url}/redirect/2")
    assert [each.status_code for each in response.history] == [302, 302]
    assert response.content == b"hello"
    await client.get(f"{app.url}/cookies/set?a=1")
    assert (await client.get(f"{app.url}/cookies")).json()["cookies"] == {"a": "1"}


@ONE_OF_EACH
async def test_http2_is_used_if_configured(
    h2_app: AppServer, make_httpx: Make, certs: Certs
) -> None:
    trust = str(certs.ca_path)
    response = await make_httpx(transport={"http2": True, "verify": trust}).get(h2_app.url)
    assert (response.http_version, response.content) == ("HTTP/2", b"hello")
    assert "reason_phrase" not in response.extensions
    sent = await make_httpx(transport={"http2": True, "verify": trust}).post(
        f"{h2_app.url}/echo", json={"a": 1}
    )
    assert sent.json()["body"] == '{"a":1}'


@WITHOUT_UVLOOP
async def test_a_connection_that_went_silent_fails_one_request(
    h2_app: AppServer, make_httpx: Make, certs: Certs, library: Any
) -> None:
    client = make_httpx(transport={"http2": True, "verify": str(certs.ca_path)})
    with Relay(h2_app.port) as relay:
        url = f"https://127.0.0.1:{relay.port}"
        assert (await client.get(url)).status_code == 200
        relay.forget()
        with pytest.raises(library.ReadTimeout):
            await client.get(url, timeout=0.5)
        assert (await client.get(url)).status_code == 200
        assert (await client.post(url, content=b"pay")).status_code == 200
        assert relay.connections == 2


async def test_the_connection_of_a_response_is_known(
    app: AppServer, httpx_client: AnyHTTPX
) -> None:
    for is_first in (True, False):
        response = await httpx_client.get(app.url)
        stream = response.extensions["network_stream"]
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", app.port)
        address, port = stream.get_extra_info("client_addr")
        assert address == "127.0.0.1"
        assert port > 0
        assert stream.get_extra_info("timings").reused is not is_first
        assert stream.get_extra_info("ssl_object") is None
        with pytest.raises(NotImplementedError, match="libcurl owns the connection"):
            stream.read(1)


@ONE_OF_EACH
async def test_the_certificate_of_a_new_connection_is_known(
    tls_app: AppServer, make_httpx: Make, certs: Certs
) -> None:
    client = make_httpx(transport={"verify": str(certs.ca_path)})
    stream = (await client.get(tls_app.url)).extensions["network_stream"]
    assert stream.get_extra_info("certificate").startswith("-----BEGIN CERTIFICATE-----")


@ONE_OF_EACH
async def test_the_sni_hostname_is_sent_and_checked(
    tls_app: AppServer, make_httpx: Make, certs: Certs
) -> None:
    client = make_httpx(transport={"verify": str(certs.ca_path)})
    url = f"https://127.0.0.1:{tls_app.port}/echo"
    response = await client.get(url, extensions={"sni_hostname": "localhost"})
    assert dict(response.json()["headers"])["Host"] == f"127.0.0.1:{tls_app.port}"
    with pytest.raises(Exception, match="certificate") as caught:
        await client.get(url, extensions={"sni_hostname": "elsewhere.test"})
    assert type(caught.value).__name__ == "ConnectError"


async def test_a_transport_counts_what_it_does(
    make_httpx: Make, app: AppServer, refused: int, library: Any
) -> None:
    client = make_httpx(transport={"retries": 2})
    for path in ("/", "/status/503"):
        await client.get(app.url + path)
    async with client.stream("GET", app.url) as response:
        await response.aread() if not client.is_blocking else response.read()
    with pytest.raises(library.ConnectError):
        await client.get(f"http://127.0.0.1:{refused}/")
    stats = client.transport.stats()
    assert (stats.attempts, stats.retries) == (6, 2)
    assert stats.origins[app.url].responses == {"2xx": 2, "5xx": 1}
    found = stats.origins[f"http://127.0.0.1:{refused}"]
    assert (found.errors, found.waits["backoff"].seconds) == ({"ConnectionError": 3}, 0.5)
    assert [each.origin for each in stats.connections] == [app.url]
    assert "curlhttp_errors_total" in stats.as_prometheus()
    await client.aclose()
    after = client.transport.stats()
    assert (after.attempts, after.connections) == (6, ())
