"""HTTP/2 (and the option for HTTP/3): negotiation, sharing, refusals and lost connections."""

from __future__ import annotations

import hashlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
)

from curlhttp import AsyncClient, Client, Timeout
from curlhttp import exceptions as e
from tests.servers import AppServer, H2Server, RawConnection, RawServer, Stream
from tests.servers.record import Record, payload
from tests.support.colours import HAS_HTTP3, AnyClient

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]


@pytest.fixture
def h2_client(make_client: MakeClient) -> AnyClient:
    """Return a client that offers HTTP/2."""
    return make_client(http2=True)


@pytest.fixture
def plain_h2() -> Iterator[H2Server]:
    """Return an HTTP/2 server without TLS."""
    with H2Server() as server:
        yield server


# --- how it is chosen ---


async def test_it_is_negotiated_by_alpn(h2_client: AnyClient, h2_app: H2Server) -> None:
    response = await h2_client.get(h2_app.url + "/bytes/1000")
    assert response.http_version == "HTTP/2"
    assert response.content == payload(1000)
    assert response.reason == "OK"
    assert h2_app.handshakes[0].alpn == "h2"
    assert h2_app.requests[0].version == "2"


async def test_it_is_not_offered_when_off(make_client: MakeClient, h2_app: H2Server) -> None:
    response = await make_client(http2=False).get(h2_app.url + "/bytes/1000")
    assert response.http_version == "HTTP/1.1"
    assert h2_app.handshakes[0].alpn != "h2"


async def test_a_server_without_it_gets_http_1(h2_client: AnyClient, tls_app: AppServer) -> None:
    response = await h2_client.get(tls_app.url + "/bytes/1000")
    assert response.http_version == "HTTP/1.1"


async def test_it_is_not_tried_without_tls(h2_client: AnyClient, app: AppServer) -> None:
    response = await h2_client.get(app.url + "/echo")
    assert response.http_version == "HTTP/1.1"
    assert "upgrade" not in {name.lower() for name, _ in app.requests[0].headers}


async def test_prior_knowledge_speaks_it_without_tls(
    make_client: MakeClient, plain_h2: H2Server
) -> None:
    client = make_client(http2="prior-knowledge")
    for _ in range(3):
        response = await client.get(plain_h2.url + "/bytes/1000")
        assert response.http_version == "HTTP/2"
        assert response.content == payload(1000)
    assert plain_h2.connections == 1


async def test_prior_knowledge_fails_on_a_server_of_http_1(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(http2="prior-knowledge")
    with pytest.raises(e.RequestException):
        await client.get(app.url + "/", timeout=30)


def test_the_default_of_each_client_is_the_faster_protocol(h2_app: H2Server, certs: Any) -> None:
    with Client(verify=certs.ca_path) as client:
        assert client.get(h2_app.url).http_version == "HTTP/1.1"

    async def get() -> str:
        async with AsyncClient(verify=certs.ca_path) as client:
            return (await client.get(h2_app.url)).http_version

    assert anyio.run(get) == "HTTP/2"


@pytest.mark.parametrize("value", ["yes", 2, "h2c", None])
def test_an_invalid_value_is_refused(value: Any) -> None:
    if value is None:
        Client(http2=None).close()
        return
    with pytest.raises(ValueError, match="http2"):
        Client(http2=value)


# --- one connection for all ---


async def test_requests_one_after_another_share_a_connection(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    for number in range(5):
        method = ("GET", "POST")[number % 2]
        response = await h2_client.request(method, h2_app.url + "/echo")
        assert response.http_version == "HTTP/2"
    assert h2_app.connections == 1


async def test_concurrent_requests_wait_for_the_one_connection(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    responses = await h2_client.gather(50, "GET", h2_app.url + "/delay/0.1")
    assert [response.content for response in responses] == [b"hello"] * 50
    assert {response.http_version for response in responses} == {"HTTP/2"}
    if h2_client.is_blocking:  # threads never share a connection
        assert h2_app.connections <= 50
    else:
        assert h2_app.connections == 1
        assert h2_app.max_streams >= 40


async def test_concurrent_posts_share_the_one_connection(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    await h2_client.get(h2_app.url)
    responses = await h2_client.gather(20, "POST", h2_app.url + "/echo", data=b"x" * 5000)
    assert all(response.json()["length"] == 5000 for response in responses)
    assert sum(record.method == "POST" for record in h2_app.requests) == 20
    assert h2_client.is_blocking or h2_app.connections == 1


async def test_more_requests_than_the_servers_stream_limit_wait(
    make_client: MakeClient, certs: Any
) -> None:
    client = make_client(http2=True, max_connections_per_host=1)
    with H2Server(certs.server_context(alpn=("h2",)), max_concurrent_streams=5) as server:
        await client.get(server.url)  # libcurl knows the limit when the settings have come
        responses = await client.gather(30, "GET", server.url + "/delay/0.01")
        assert len(responses) == 30
        assert server.max_streams <= 5
        assert server.refused == 0
        assert server.connections == 1


async def test_the_streams_of_one_connection_do_not_mix(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    bodies: dict[int, bytes] = {}

    async def get(seed: int) -> None:
        url = f"{h2_app.url}/bytes/{20_000 + seed * 977}?seed={seed}"
        if client.is_blocking:
            bodies[seed] = (await anyio.to_thread.run_sync(lambda: client.real.get(url))).content
        else:
            bodies[seed] = (await client.get(url)).content

    async with anyio.create_task_group() as tasks:
        for seed in range(20):
            tasks.start_soon(get, seed)
    assert bodies == {seed: payload(20_000 + seed * 977, seed) for seed in range(20)}


async def test_a_stream_that_is_not_read_holds_up_no_other(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    async with await h2_client.stream("GET", h2_app.url + "/big?size=20000000") as stream:
        for _ in range(5):
            assert (await h2_client.get(h2_app.url, timeout=30)).content == b"hello"
        size = 0
        async for piece in stream.iterate("raw"):
            size += len(piece)
    assert size == 20_000_000
    assert h2_app.connections == 1 + h2_client.is_blocking


async def test_a_cancelled_stream_is_reset_and_the_connection_stays_open(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    await h2_client.get(h2_app.url)
    async with await h2_client.stream("GET", h2_app.url + "/big?size=20000000"):
        pass
    assert (await h2_client.get(h2_app.url)).content == b"hello"
    if not h2_client.is_blocking:
        assert h2_app.wait_for(lambda: len(h2_app.resets) >= 1)
        assert h2_app.connections == 1


# --- uploads ---


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
async def test_uploads_arrive_whole(kind: str, h2_client: AnyClient, h2_app: H2Server) -> None:
    body = payload(3_000_000)
    content: Any = body
    if kind == "pieces":
        content = iter([body[at : at + 50_000] for at in range(0, len(body), 50_000)])
    response = await h2_client.request("PUT", h2_app.url + "/upload", content=content)
    seen = response.json()
    assert seen["length"] == len(body)
    assert seen["sha256"] == hashlib.sha256(body).hexdigest()
    assert seen["expect"] is None


async def test_no_field_of_http_1_is_sent(h2_client: AnyClient, h2_app: H2Server) -> None:
    await h2_client.post(h2_app.url + "/echo", content=iter([b"abc"]))
    names = [name for name, _ in h2_app.requests[0].headers]
    assert names == [name.lower() for name in names]
    assert not {"transfer-encoding", "connection", "upgrade", "host", "expect"} & {*names}
    assert h2_app.requests[0].authority == f"127.0.0.1:{h2_app.port}"


async def test_an_early_response_to_an_upload_is_returned(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    for content in (bytes(5_000_000), iter([bytes(1_000_000)] * 5)):
        response = await h2_client.request("POST", h2_app.url + "/early-413", content=content)
        assert response.status_code == 413
    assert (await h2_client.get(h2_app.url)).content == b"hello"


# --- refusals and losses; test_http2_unprocessed has what is sent again ---


@pytest.mark.parametrize("code", [1, 2, 3, 8, 11])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_reset_stream_is_an_error_and_the_connection_stays_open(
    method: str, code: int, h2_client: AnyClient, h2_app: H2Server
) -> None:
    await h2_client.get(h2_app.url)
    with pytest.raises(e.RemoteProtocolError) as caught:
        await h2_client.request(method, f"{h2_app.url}/reset?code={code}")
    assert caught.value.curl_code == 92
    assert caught.value.request_sent
    assert (await h2_client.get(h2_app.url)).content == b"hello"
    assert h2_app.connections == 1 + h2_client.is_blocking  # a failure costs its handle
    assert len(h2_app.requests) == 3


async def test_a_reset_within_a_body_is_an_error(h2_client: AnyClient, h2_app: H2Server) -> None:
    def respond(record: Record, stream: Stream) -> None:
        stream.head(200, [("content-length", "100")])
        stream.send(b"x" * 10)
        stream.reset(2)

    h2_app.stream_route("/reset-within", respond)
    with pytest.raises((e.RemoteProtocolError, e.ChunkedEncodingError)):
        await h2_client.get(h2_app.url + "/reset-within")
    async with await h2_client.stream("GET", h2_app.url + "/reset-within") as stream:
        with pytest.raises((e.RemoteProtocolError, e.ChunkedEncodingError)):
            await stream.read()


async def test_a_body_shorter_than_its_length_is_an_error(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    def respond(record: Record, stream: Stream) -> None:
        stream.stream(200, [b"x" * 10], [("content-length", "100")])

    h2_app.stream_route("/short", respond)
    with pytest.raises(e.RequestException) as caught:
        await h2_client.get(h2_app.url + "/short")
    assert isinstance(caught.value, (e.RemoteProtocolError, e.ChunkedEncodingError))


async def test_after_goaway_a_new_connection_is_used(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    assert (await h2_client.get(h2_app.url + "/goaway")).content == b"hello"
    assert (await h2_client.get(h2_app.url)).content == b"hello"
    assert h2_app.connections == 2
    assert len(h2_app.requests) == 2


async def test_a_server_that_limits_its_connections_is_followed(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    h2_app.goaway_after(4)
    try:
        for _ in range(20):
            assert (await h2_client.get(h2_app.url)).content == b"hello"
        assert h2_app.connections == 5
        assert len(h2_app.requests) == 20
    finally:
        h2_app.goaway_after(0)


async def test_concurrent_gets_survive_goaway(h2_client: AnyClient, h2_app: H2Server) -> None:
    await h2_client.get(h2_app.url)
    h2_app.goaway_after(20)
    try:
        responses = await h2_client.gather(30, "GET", h2_app.url + "/delay/0.02")
    finally:
        h2_app.goaway_after(0)
    assert [response.content for response in responses] == [b"hello"] * 30


async def test_a_server_that_requires_http_1_gets_it(
    h2_client: AnyClient, h2_app: H2Server
) -> None:
    response = await h2_client.get(h2_app.url + "/http11-required")
    assert response.content == b"hello"
    assert response.http_version == "HTTP/1.1"


async def test_a_lost_connection_fails_all_its_streams(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    h2_app.stream_route("/lose", lambda record, stream: stream.close_connection())
    failures = []

    async def get(path: str) -> None:
        with pytest.raises(e.RequestException) as caught:
            await client.get(h2_app.url + path, timeout=30)
        failures.append(caught.value)

    if client.is_blocking:
        await get("/lose")
        assert isinstance(failures[0], e.ConnectionError)
        return
    await client.get(h2_app.url)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(get, "/stall")
        with anyio.fail_after(30):
            while len(h2_app.requests) < 6:
                await anyio.sleep(0.005)
        tasks.start_soon(get, "/lose")
    assert len(failures) == 6
    assert all(failure.request_sent for failure in failures)
    assert (await client.get(h2_app.url)).content == b"hello"


# --- hostile ---


def says(
    *frames: Callable[[int, Any], bytes], ends: bool = False
) -> Callable[[RawConnection], None]:
    """Respond to the first request with frames, made of its stream's number by an HPACK encoder."""

    def handler(conn: RawConnection) -> None:
        state = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        state.initiate_connection()
        conn.send(state.data_to_send())
        while data := conn.sock.recv(65536):
            for event in state.receive_data(data):
                conn.send(state.data_to_send())
                if isinstance(event, RequestReceived):
                    for frame in frames:
                        conn.send(frame(event.stream_id, state.encoder))
                    if not ends:
                        conn.stall()
                    return

    return handler


def head(*fields: tuple[str, str], ends: bool = True, status: str = "200") -> Any:
    def frame(stream: int, encoder: Any) -> bytes:
        made = HeadersFrame(stream, encoder.encode([(":status", status), *fields], huffman=False))
        made.flags.add("END_HEADERS")
        if ends:
            made.flags.add("END_STREAM")
        return made.serialize()

    return frame


def repeated(frame: Callable[[int], Frame], count: int) -> Any:
    return lambda stream, encoder: frame(stream).serialize() * count


def a_continuation(stream: int) -> Frame:
    return ContinuationFrame(stream, b"\x00\x01a\x01b" * 100)


def unfinished(stream: int, encoder: Any) -> bytes:
    return HeadersFrame(stream, encoder.encode([(":status", "200")])).serialize()


def setting(stream: int) -> Frame:
    return SettingsFrame(0, settings={SettingsFrame.MAX_CONCURRENT_STREAMS: 100})


@pytest.mark.parametrize(
    "field",
    [
        ("x-a", "b\r\nx-evil: 1"),
        ("x-a\r\nx-evil", "1"),
        ("x-a", "b\nx-evil: 1"),
        ("x-a", "b\0c"),
        ("X-Upper", "a"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("x a", "b"),
        ("", "b"),
        (":path", "/"),
    ],
)
async def test_an_invalid_field_is_dropped_or_an_error(
    field: tuple[str, str], make_client: MakeClient
) -> None:
    """A field of HTTP/2 that is none goes nowhere."""
    client = make_client(http2="prior-knowledge")
    with RawServer(says(head(("x-fine", "yes"), field))) as server:
        try:
            response = await client.get(server.url, timeout=30)
        except e.RemoteProtocolError:
            return
        assert response.headers["x-fine"] == "yes"
        assert "x-evil" not in response.headers
        assert all(not set("\r\n\0") & {*name, *value} for name, value in response.headers.items())


FLOODS: dict[str, Callable[[RawConnection], None]] = {
    "CONTINUATION": says(unfinished, repeated(a_continuation, 2000)),
    "empty DATA": says(head(ends=False), repeated(lambda stream: DataFrame(stream, b""), 50_000)),
    "SETTINGS": says(repeated(setting, 50_000)),
    "PING": says(repeated(lambda stream: PingFrame(0, b"12345678"), 50_000)),
    "informational heads": says(*[head(("link", "</a>"), ends=False, status="103")] * 6000),
    "huge field": says(head(("x-a", "a" * 400_000))),
    "many fields": says(head(*[(f"x-{number}", "a") for number in range(6000)])),
    "garbage": says(lambda stream, encoder: b"\xff" * 5000),
    "data before a head": says(lambda stream, encoder: DataFrame(stream, b"abc").serialize()),
    "a head without a status": says(
        lambda stream, encoder: HeadersFrame(
            stream, encoder.encode([("x-a", "b")]), flags=["END_HEADERS", "END_STREAM"]
        ).serialize()
    ),
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_ends_with_an_error_or_by_the_timeout(
    flood: str, make_client: MakeClient, plain_h2: H2Server
) -> None:
    """A flood ends."""
    client = make_client(http2="prior-knowledge")
    with RawServer(FLOODS[flood]) as server:
        with anyio.fail_after(30), pytest.raises((e.RemoteProtocolError, e.Timeout)):
            await client.get(server.url, timeout=Timeout(total=0.2))
    assert (await client.get(plain_h2.url)).content == b"hello"


@pytest.mark.parametrize("api", ["get", "stream", "map"])
async def test_a_broken_header_table_is_not_used_again(api: str, make_client: MakeClient) -> None:
    """libcurl keeps the connection after endless 103, its HPACK state being wrong."""
    client = make_client(http2="prior-knowledge")
    many = [head(("x-a", "b"), ("x-c", "d"), ends=False, status="103")] * 6000

    def handler(conn: RawConnection) -> None:
        says(*(many if conn.index == 0 else [head(("x-fine", "yes"))]))(conn)

    async def get() -> Any:
        if api != "map":
            return await client.request("GET", server.url, stream=api == "stream", timeout=30)
        async with client.map([server.url]) as results:
            (found,) = [result async for result in results]
        if isinstance(found, Exception):
            raise found
        return found

    with RawServer(handler) as server:
        with pytest.raises(e.RemoteProtocolError):
            await get()
        response = await get()
        assert response.headers["x-fine"] == "yes"
        assert server.connections == 2
        if api == "stream":
            response.close() if client.is_blocking else await response.aclose()


def block(data: bytes) -> Any:
    """Return a frame of header fields, whatever they are."""
    flags = ["END_HEADERS", "END_STREAM"]
    return lambda stream, encoder: HeadersFrame(stream, data, flags=flags).serialize()


BROKEN: dict[str, tuple[Any, ...]] = {
    "HPACK": (block(b"\xff\xff\xff\x0f"),),
    "HPACK after 103": (head(ends=False, status="103"), block(b"\xff\xff\xff\x0f")),
    "HPACK of trailers": (
        head(ends=False),
        lambda stream, encoder: DataFrame(stream, b"abc").serialize(),
        block(b"\xff\xff\xff\x0f"),
    ),
    "DATA before HEADERS": (lambda stream, encoder: DataFrame(stream, b"abc").serialize(),),
    "DATA on no stream": (lambda stream, encoder: b"\0\0\x03\0\0\0\0\0\0abc",),
    "a frame too large": (lambda stream, encoder: b"\xff\xff\xff\0\0\0\0\0\x01" + bytes(20_000),),
    "HTTP/1.1": (lambda stream, encoder: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("streams", [False, True], ids=["buffered", "streamed"])
async def test_a_server_that_breaks_http_2_is_an_error_at_once(
    kind: str, streams: bool, make_client: MakeClient
) -> None:
    """RFC 9113, section 5.4.1. The transfer that noticed would wait for more, in libcurl."""
    client = make_client(http2="prior-knowledge", timeout=Timeout(read=30))

    def handler(conn: RawConnection) -> None:
        says(*(BROKEN[kind] if conn.index == 0 else [head(("x-fine", "yes"))]))(conn)

    async def send(method: str) -> Any:
        if not streams:
            return await client.request(method, server.url)
        async with await client.stream(method, server.url) as stream:
            await stream.read()
            return stream.real

    with RawServer(handler) as server:
        with pytest.raises(e.RemoteProtocolError) as caught:
            await send("POST")
        assert caught.value.request_sent
        assert not caught.value.refused
        assert (await send("POST")).headers["x-fine"] == "yes"
        assert server.connections == 2


async def test_a_get_is_resent_if_its_http_2_connection_broke_before_the_response(
    make_client: MakeClient,
) -> None:
    client = make_client(http2="prior-knowledge", timeout=Timeout(read=30))

    def handler(conn: RawConnection) -> None:
        says(*(BROKEN["HPACK"] if conn.index != 1 else [head(("x-fine", "yes"))]))(conn)

    with RawServer(handler) as server:
        assert (await client.get(server.url)).headers["x-fine"] == "yes"
        assert server.connections == 2
    with RawServer(lambda conn: says(*BROKEN["HPACK"])(conn)) as server:
        with pytest.raises(e.RemoteProtocolError):
            await client.get(server.url)
        assert server.connections == 2  # and no more


class Breaking:
    """Responds to /fine, leaves /wait without a response, and breaks HTTP/2 at /break.

    Attributes:
        targets: of all requests so far.
    """

    def __init__(self) -> None:
        self.targets: list[str] = []

    def __call__(self, conn: RawConnection) -> None:
        state = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        state.initiate_connection()
        conn.send(state.data_to_send())
        while data := conn.sock.recv(65536):
            for event in state.receive_data(data):
                if isinstance(event, RequestReceived):
                    self._answer(conn, state, event)
            conn.send(state.data_to_send())

    def _answer(self, conn: RawConnection, state: H2Connection, event: RequestReceived) -> None:
        target = dict(event.headers)[b":path"].decode()
        if target == "/break":  # what goes out before that comes in may be processed
            conn.send(block(b"\xff\xff\xff\x0f")(event.stream_id, None))
        self.targets.append(target)
        if target == "/fine":
            state.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
        elif target == "/break":
            conn.stall()  # it does not even close


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_all_streams_of_a_connection_that_broke_http_2_fail_and_the_next_gets_another(
    make_client: MakeClient,
) -> None:
    client = make_client(http2="prior-knowledge", timeout=Timeout(read=30))
    failures: list[e.RequestException] = []

    async def post(url: str) -> None:
        with pytest.raises((e.ConnectionError, e.RemoteProtocolError)) as caught:
            await client.post(url, content=b"pay")
        failures.append(caught.value)

    breaking = Breaking()
    with RawServer(breaking) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(post, server.url + "/wait")
            while len(breaking.targets) < 5:
                await anyio.sleep(0.001)
            tasks.start_soon(post, server.url + "/break")
        assert len(failures) == 6
        assert all(failure.request_sent and not failure.refused for failure in failures)
        assert sum(isinstance(failure, e.RemoteProtocolError) for failure in failures) == 1
        assert sum("may have been processed" in str(failure) for failure in failures) == 5
        assert (await client.post(server.url + "/fine")).status_code == 200
        assert server.connections == 2
        assert Counter(breaking.targets) == {"/wait": 5, "/break": 1, "/fine": 1}


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_request_started_on_a_broken_connection_moves_to_another(
    make_client: MakeClient,
) -> None:
    """Nothing of it was sent: libcurl has sent a GOAWAY, and may send no more requests."""
    client = make_client(http2="prior-knowledge", timeout=Timeout(read=30))
    failed = anyio.Event()

    async def broken() -> None:
        with pytest.raises(e.RemoteProtocolError):
            await client.post(server.url + "/break")
        failed.set()

    breaking, count = Breaking(), 0
    failures: list[e.RequestException] = []
    with RawServer(breaking) as server:
        await client.get(server.url + "/fine")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(broken)
            while "/break" not in breaking.targets:
                await anyio.sleep(0.001)
            while not failed.is_set():
                try:
                    await client.post(server.url + "/fine", content=b"pay", timeout=5)
                    count += 1
                except e.RequestException as error:
                    failures.append(error)
        # One may be on its way when the connection breaks, and may not be sent again.
        assert [error.request_sent for error in failures] in ([], [True])
        fine = breaking.targets.count("/fine")
        assert 1 + count <= fine <= 1 + count + len(failures)
        assert breaking.targets.count("/break") == 1


# --- HTTP/3 ---


async def test_http3_falls_back_to_tcp(
    make_client: MakeClient, h2_app: H2Server, tls_app: AppServer
) -> None:
    if not HAS_HTTP3:
        with pytest.raises(ValueError, match="HTTP/3"):
            make_client(http3=True)
        return
    client = make_client(http3=True)
    response = await client.get(h2_app.url + "/bytes/1000", timeout=30)
    assert response.http_version in ("HTTP/2", "HTTP/1.1")
    assert response.content == payload(1000)
    assert (await client.post(tls_app.url + "/echo", data=b"x", timeout=30)).json()["body"] == "x"


async def test_http3_sends_quic(make_client: MakeClient, certs: Any) -> None:
    """A datagram arrives at a port where only TCP is served."""
    if not HAS_HTTP3:
        return
    with H2Server(certs.server_context(alpn=("h2",))) as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", server.port))
            datagrams.settimeout(30)
            response = await make_client(http3=True).get(server.url, timeout=30)
            assert response.content == b"hello"
            assert len(datagrams.recv(2000)) >= 1200  # RFC 9000, section 14.1


def test_http3_must_be_had() -> None:
    if HAS_HTTP3:
        Client(http3=True).close()
    else:
        with pytest.raises(ValueError, match="HTTP/3"):
            Client(http3=True)


async def test_requests_do_not_queue_behind_a_connection_that_turns_out_to_be_http1(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    client = make_client(http2=True)

    async def stalled() -> None:
        if client.is_blocking:
            return
        with anyio.move_on_after(0.5):
            await client.get(tls_app.url + "/stall")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stalled)
        await anyio.lowlevel.checkpoint()
        responses = await client.gather(10, "GET", tls_app.url, timeout=30)
        tasks.cancel_scope.cancel()
    assert [response.content for response in responses] == [b"hello"] * 10
