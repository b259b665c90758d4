"""Requests that HTTP/2 reports as unprocessed are resent at once, and no others.

RFC 9113, section 8.7: REFUSED_STREAM, and GOAWAY with the number of an earlier stream.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp.requests
from curlhttp import Hedge
from curlhttp import exceptions as e
from tests.servers import (
    Certs,
    H2Server,
    Nginx,
    RawConnection,
    RawServer,
    Stream,
    has_nginx,
)
from tests.servers.record import Record
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import download

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
Way = Callable[[AnyClient, str, Path], Awaitable[bytes]]

LEFT_OUT = ["/refuse", "/goaway?processed=0", "/goaway?processed=0&code=1"]
FOR_EVER = 10**6
needs_nginx = pytest.mark.skipif(not has_nginx(), reason="nginx is not installed")


@pytest.fixture
def h2_client(make_client: MakeClient) -> AnyClient:
    """Return a client that offers HTTP/2."""
    return make_client(http2=True)


async def by_get(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.get(url)).content)


async def by_post(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.post(url, content=b"pay")).content)


async def by_empty_post(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.post(url)).content)


async def by_stream(client: AnyClient, url: str, folder: Path) -> bytes:
    async with await client.stream("POST", url, content=b"pay") as stream:
        return await stream.read()


async def by_factory(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.post(url, content=lambda: iter([b"p", b"ay"]))).content)


async def by_file(client: AnyClient, url: str, folder: Path) -> bytes:
    path = folder / "body"
    path.write_bytes(b"pay")
    with path.open("rb") as file:
        return bytes((await client.post(url, content=file)).content)


async def by_map(client: AnyClient, url: str, folder: Path) -> bytes:
    request = client.real.build_request("POST", url, content=b"pay")
    async with client.map([request]) as results:
        async for result in results:
            if isinstance(result, Exception):
                raise result
            return bytes(result.content)
    raise AssertionError("a map without a result")


async def by_map_of_files(client: AnyClient, url: str, folder: Path) -> bytes:
    request = client.real.build_request("POST", url, content=lambda: iter([b"p", b"ay"]))
    async with client.map([request]) as results:
        async for result in results:
            if isinstance(result, Exception):
                raise result
            return bytes(result.content)
    raise AssertionError("a map without a result")


async def by_download(client: AnyClient, url: str, folder: Path) -> bytes:
    path = folder / "file"
    await download(client, url, path)
    return path.read_bytes()


APIS: dict[str, Way] = {
    "get": by_get,
    "post": by_post,
    "empty post": by_empty_post,
    "stream": by_stream,
    "factory": by_factory,
    "file": by_file,
    "map": by_map,
    "map of bodies in pieces": by_map_of_files,
    "download": by_download,
}


def seen(server: H2Server, path: str) -> list[Record]:
    return [record for record in server.requests if record.target == path]


@pytest.mark.parametrize("api", APIS)
async def test_every_api_resends_an_unprocessed_request(
    h2_client: AnyClient, h2_app: H2Server, tmp_path: Path, api: str
) -> None:
    await h2_client.get(h2_app.url)
    await assert_sent_again(h2_client, h2_app, tmp_path, api, "/refuse")


@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("path", LEFT_OUT)
@pytest.mark.parametrize("api", ["get", "post", "factory"])
async def test_it_is_sent_again_however_the_server_says_so(
    h2_client: AnyClient, h2_app: H2Server, tmp_path: Path, api: str, path: str, reused: bool
) -> None:
    if reused:
        await h2_client.get(h2_app.url)
    await assert_sent_again(h2_client, h2_app, tmp_path, api, path)


async def assert_sent_again(
    client: AnyClient, h2_app: H2Server, folder: Path, api: str, path: str
) -> None:
    h2_app.memory.counts.clear()
    assert await APIS[api](client, h2_app.url + path, folder) == b"hello"
    first, second = seen(h2_app, path)
    assert first.connection != second.connection
    assert first.body == second.body


@pytest.mark.colours("blocking")
@pytest.mark.parametrize("path", LEFT_OUT)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_drop_in_resends_it_over_http_2(
    h2_app: H2Server, certs: Certs, method: str, path: str
) -> None:
    h2_app.memory.counts.clear()
    with curlhttp.requests.Session() as session:
        session.mount("https://", curlhttp.requests.adapters.HTTPAdapter(http2=True))
        found = session.request(method, h2_app.url + path, verify=str(certs.ca_path))
    assert found.content == b"hello"
    assert len(seen(h2_app, path)) == 2


async def test_a_post_that_is_always_refused_fails_and_says_that_nothing_was_processed(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    with pytest.raises(
        e.ConnectionError, match="refused the request before it processed"
    ) as caught:
        await h2_client.post(f"{h2_app.url}/refuse?times={FOR_EVER}", data=b"pay")
    assert caught.value.refused
    assert len(h2_app.requests) == len({record.connection for record in h2_app.requests}) == 3


async def test_a_get_that_is_always_refused_on_a_kept_connection_says_so(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    """The first refusal may not be known: to listen costs too much where it may go twice."""
    await h2_client.get(h2_app.url)
    with pytest.raises(e.ConnectionError, match="server refused the request before") as caught:
        await h2_client.get(f"{h2_app.url}/refuse?times={FOR_EVER}")
    assert caught.value.request_sent
    assert "may have been processed" not in str(caught.value)
    assert len(h2_app.requests) == 1 + 1 + 3
    assert h2_app.connections <= 1 + 3 + 1


@pytest.mark.parametrize("prior", [False, True], ids=["tls", "h2c"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_server_that_refuses_each_stream_gets_few_connections_and_the_truth_is_told(
    make_client: MakeClient, certs: Certs, method: str, prior: bool
) -> None:
    with H2Server(None if prior else certs.server_context(alpn=("h2",))) as server:
        server.stream_route("/always", _reset)
        client = make_client(http2="prior-knowledge" if prior else True)
        content = b"pay" if method == "POST" else None
        with pytest.raises(e.ConnectionError, match="refused the request before it proc") as caught:
            await client.request(method, server.url + "/always", content=content)
        assert caught.value.refused
        assert len(server.requests) == 3
        assert server.connections <= 4  # libcurl opens one more, on which nothing is sent


def _refuse_and_break_off(connection: RawConnection) -> None:
    """Respond on the first connection; then refuse requests, and respond in broken HTTP/2."""
    connection.read_exactly(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    connection.send(b"\0\0\0\x04\0\0\0\0\0")
    awaited = {(1, 0), (4, 1)}  # the head of the request; our SETTINGS, acknowledged
    while awaited:  # unread bytes would reset the connection when it is closed
        frame = connection.read_exactly(9)
        connection.read_exactly(int.from_bytes(frame[:3], "big"))
        awaited.discard((frame[3], frame[4] & 1 if frame[3] == 4 else 0))
    if not connection.index:
        connection.send(b"\0\0\x01\x01\x05\0\0\0\x01\x88")  # 200, without a body
        return
    goaway = b"\0\0\x08\x07\0\0\0\0\0" + b"\0\0\0\0" + b"\0\0\0\x01"
    head = b"\x10\x07:status\x03200" + b"\x10\x02x\x00\x01\x00"  # a name with a NUL
    connection.send(goaway + len(head).to_bytes(3, "big") + b"\x01\x04\0\0\0\x01" + head)
    connection.wait_closed(1.0)


async def test_a_server_that_refuses_and_breaks_http_2_is_an_error(
    make_client: MakeClient,
) -> None:
    """Each alone had an end; both together went round for as long as the server liked."""
    with RawServer(_refuse_and_break_off) as server:
        client = make_client(http2="prior-knowledge")
        assert (await client.get(server.url)).ok
        while server.open_connections:
            await anyio.to_thread.run_sync(time.sleep, 0.01)
        with pytest.raises(e.RequestException):
            await client.get(server.url)
        assert 2 < server.connections < 20


@pytest.mark.parametrize("path", [f"/refuse?times={FOR_EVER}", "/goaway?processed=0"])
async def test_a_body_that_cannot_be_replayed_is_not_sent_again(
    h2_client: AnyClient, h2_app: H2Server, path: str
) -> None:
    h2_app.memory.counts.clear()
    with pytest.raises(
        e.ConnectionError, match="refused the request before it processed"
    ) as caught:
        await h2_client.post(h2_app.url + path, content=iter([b"pay", b"ment"]))
    assert caught.value.refused
    assert len(seen(h2_app, path)) == 1


async def test_a_body_that_fails_to_rewind_raises_its_own_exception(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    bodies = iter([[b"p", b"ay"]])

    def make() -> Any:
        for body in bodies:
            return iter(body)
        raise KeyError("there was one body")

    with pytest.raises(KeyError, match="one body"):
        await h2_client.post(f"{h2_app.url}/refuse?times={FOR_EVER}", content=make)


async def test_a_response_to_a_partial_request_is_not_a_refusal(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    """Who has sent a head has processed something, whatever it says afterwards."""

    def respond(record: Record, stream: Stream) -> None:
        stream.head(103, [("link", "</a>")])
        stream.reset(7)  # REFUSED_STREAM

    h2_app.stream_route("/half", respond)
    with pytest.raises(e.RequestException) as caught:
        await h2_client.post(h2_app.url + "/half", data=b"pay")
    assert not caught.value.refused
    assert len(h2_app.requests) == 1


async def test_streams_that_goaway_covers_are_not_sent_again(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    """The server names requests that it may have processed, and breaks before the responses."""
    client = make_client(http2=True)
    if client.is_blocking:
        return  # one request a connection
    failures: list[e.RequestException] = []

    def break_off(record: Record, stream: Stream) -> None:
        stream.goaway(0)
        stream.later(0.0, stream.close_connection)

    h2_app.stream_route("/break-off", break_off)
    await client.get(h2_app.url)

    async def post(path: str) -> None:
        with pytest.raises(e.RequestException) as caught:
            await client.post(h2_app.url + path, data=b"pay")
        failures.append(caught.value)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(post, "/stall")
        while len(h2_app.requests) < 6:
            await anyio.sleep(0.001)
        tasks.start_soon(post, "/break-off")
    assert len(failures) == 6
    assert all(failure.request_sent and not failure.refused for failure in failures)
    assert sum(record.method == "POST" for record in h2_app.requests) == 6


@pytest.mark.parametrize("api", APIS)
async def test_a_connection_that_ends_without_a_response_fails_no_get_and_doubles_no_post(
    h2_client: AnyClient, h2_app: H2Server, tmp_path: Path, api: str
) -> None:
    """As Apache ends it, whose GOAWAY leaves nothing out."""
    h2_app.memory.counts.clear()

    def end_once(record: Record, stream: Stream) -> None:
        stream.memory.counts[record.target] += 1
        if stream.memory.counts[record.target] > 1:
            stream.reply(200, b"hello")
        else:
            stream.close_connection()

    h2_app.stream_route("/end-once", end_once)
    await h2_client.get(h2_app.url)
    if api in ("get", "download"):
        assert await APIS[api](h2_client, h2_app.url + "/end-once", tmp_path) == b"hello"
        assert len(seen(h2_app, "/end-once")) == 2
    else:
        with pytest.raises(e.ConnectionError, match="may have been processed") as caught:
            await APIS[api](h2_client, h2_app.url + "/end-once", tmp_path)
        assert caught.value.request_sent
        assert len(seen(h2_app, "/end-once")) == 1


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_post_that_goaway_excluded_is_sent_again_even_if_a_get_read_the_goaway(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    """libcurl logs a GOAWAY for one request, and a GET is not listened to."""
    h2_app.memory.counts.clear()

    def stall_once(record: Record, stream: Stream) -> None:
        stream.memory.counts[record.target] += 1
        if stream.memory.counts[record.target] > 1:
            stream.reply(200, b"hello")

    def leave_out(record: Record, stream: Stream) -> None:
        if not stream.memory.counts["left out"]:
            stream.memory.counts["left out"] = 1
            stream.session.goaway(1, 0xFFFFFC7A)  # as Apache 2.4 does
        else:
            stream.reply(200, b"hello")

    h2_app.stream_route("/stall-once", stall_once)
    h2_app.stream_route("/leave-out", leave_out)
    found: list[Any] = []

    async def send(method: str, path: str) -> None:
        found.append(await h2_client.request(method, h2_app.url + path))

    await h2_client.get(h2_app.url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, "GET", "/stall-once?a")
        while len(h2_app.requests) < 2:
            await anyio.sleep(0.001)
        tasks.start_soon(send, "POST", "/stall-once?b")
        while len(h2_app.requests) < 3:
            await anyio.sleep(0.001)
        tasks.start_soon(send, "GET", "/leave-out")
    assert [response.content for response in found] == [b"hello"] * 3
    assert len(seen(h2_app, "/stall-once?b")) == 2


# --- many at once


async def send_many(
    client: AnyClient, url: str, method: str, count: int, at_once: int
) -> list[Exception]:
    """Send requests with ids from 0 on, so many at a time, and return what failed."""
    left, failures = iter(range(count)), list[Exception]()
    content = None if method == "GET" else b"pay"

    async def lane() -> None:
        for number in left:
            try:
                response = await client.request(method, f"{url}?id={number}", content=content)
                assert response.content == b"hello"
            except Exception as error:
                failures.append(error)

    def blocking_lane() -> None:
        for number in left:
            try:
                response = client.real.request(method, f"{url}?id={number}", content=content)
                assert response.content == b"hello"
            except Exception as error:
                failures.append(error)

    limiter = anyio.CapacityLimiter(at_once)
    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            if client.is_blocking:
                tasks.start_soon(lambda: anyio.to_thread.run_sync(blocking_lane, limiter=limiter))
            else:
                tasks.start_soon(lane)
    return failures


@pytest.fixture
def limited(certs: Certs) -> Any:
    """Return a server that ends a connection with its tenth request."""
    with H2Server(certs.server_context(alpn=("h2",))) as server:
        server.goaway_after(10)
        yield server


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_request_is_lost_or_doubled_when_connections_carry_few(
    h2_client: AnyClient, limited: H2Server, method: str
) -> None:
    assert await send_many(h2_client, limited.url, method, 120, 30) == []
    times = Counter(record.query("id") for record in limited.requests)
    assert times == {str(number): 1 for number in range(120)}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_streams_excluded_by_goaway_share_one_new_connection(
    make_client: MakeClient, h2_app: H2Server, method: str
) -> None:
    client = make_client(http2=True)
    if client.is_blocking:
        return  # one request a connection
    await client.get(h2_app.url)
    h2_app.goaway_after(10)
    try:
        responses = await client.gather(18, method, h2_app.url + "/delay/0.01")
    finally:
        h2_app.goaway_after(0)
    assert [response.content for response in responses] == [b"hello"] * 18
    assert h2_app.connections == 2


async def test_requests_beyond_the_servers_stream_limit_are_not_lost(
    h2_client: AnyClient, certs: Certs
) -> None:
    """They are sent before its settings come, which say how many it takes."""
    with H2Server(certs.server_context(alpn=("h2",)), max_concurrent_streams=5) as server:
        assert await send_many(h2_client, server.url, "POST", 60, 60) == []
        times = Counter(record.query("id") for record in server.requests)
        assert times == {str(number): 1 for number in range(60)}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_one_new_connection_follows_one_that_was_closed_while_idle(
    make_client: MakeClient, certs: Certs, method: str
) -> None:
    """libcurl would offer the dead one to every request of the next second."""
    client = make_client(http2=True)
    if client.is_blocking:
        return  # one request a connection
    with H2Server(certs.server_context(alpn=("h2",))) as server:

        def answer_and_close(record: Record, stream: Stream) -> None:
            stream.reply(200, b"hello")
            stream.close_connection()

        server.stream_route("/close", answer_and_close)
        assert (await client.get(server.url + "/close")).content == b"hello"
        assert server.wait_for(lambda: not server.open_connections)
        responses = await client.gather(30, method, server.url)
        assert [response.content for response in responses] == [b"hello"] * 30
        assert server.connections == 2
        assert len(server.requests) == 31


async def test_a_hedged_request_that_was_not_processed_is_sent_again(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True, hedge=Hedge(after=30.0))
    assert (await client.get(h2_app.url + "/refuse?hedged")).content == b"hello"
    assert len(h2_app.requests) == 2


@pytest.mark.slow
@needs_nginx
@ONE_OF_EACH
@pytest.mark.parametrize("http2", [True, "prior-knowledge"], ids=["tls", "h2c"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("keepalive_requests", "count"), [(10, 300), (100, 1000)])
async def test_nginx_with_a_connection_limit_fails_no_request(
    make_client: MakeClient,
    certs: Certs,
    tmp_path: Path,
    http2: Any,
    method: str,
    keepalive_requests: int,
    count: int,
) -> None:
    client = make_client(http2=http2)
    with Nginx(tmp_path, certs, keepalive_requests=keepalive_requests) as nginx:
        assert await send_many(client, nginx.urls[http2], method, count, 100) == []
        await client.aclose()
        nginx.stop()
        assert nginx.processed() == {str(number): 1 for number in range(count)}


@pytest.mark.slow
@needs_nginx
@ONE_OF_EACH
@pytest.mark.parametrize("http2", [True, "prior-knowledge"], ids=["tls", "h2c"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_reload_of_nginx_fails_no_request(
    make_client: MakeClient, certs: Certs, tmp_path: Path, http2: Any, method: str
) -> None:
    client = make_client(http2=http2)
    with Nginx(tmp_path, certs) as nginx:
        failures: list[Exception] = []
        for part in range(5):
            url = f"{nginx.urls[http2]}/{part}"
            async with anyio.create_task_group() as tasks:

                async def send(url: str = url) -> None:
                    failures.extend(await send_many(client, url, method, 200, 50))

                tasks.start_soon(send)
                nginx.reload()
        assert failures == []
        await client.aclose()
        nginx.stop()
        assert nginx.processed() == {str(number): 5 for number in range(200)}


# --- a server that refuses always ---


def _reset(record: Record, stream: Stream) -> None:
    stream.reset(7)  # REFUSED_STREAM


def _go_away(record: Record, stream: Stream) -> None:
    stream.goaway(processed=False)


def _go_away_and_close(record: Record, stream: Stream) -> None:
    stream.goaway(processed=False)
    stream.close_connection()


@pytest.mark.parametrize("refuse", [_reset, _go_away, _go_away_and_close])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_server_that_refuses_always_sees_a_request_on_three_new_connections(
    make_client: Callable[..., AnyClient], h2_app: H2Server, refuse: Any, method: str, is_kept: bool
) -> None:
    client = make_client(http2=True)
    content = b"pay" if method == "POST" else None
    h2_app.stream_route("/always", refuse)
    if is_kept:
        await client.get(h2_app.url)
    with pytest.raises(e.ConnectionError):
        await client.request(method, h2_app.url + "/always", content=content, timeout=30)
    assert [record.path for record in h2_app.requests].count("/always") == 3 + is_kept
    assert h2_app.connections <= 3 + is_kept + 1
