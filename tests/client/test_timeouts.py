"""Each time limit ends what it covers, on time, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import Timeout
from curlhttp import Timeout as Setting
from curlhttp import exceptions as e
from tests.servers import (
    AppServer,
    BlackHole,
    H2Server,
    RawConnection,
    RawServer,
    Stream,
    respond,
    respond_and_stall,
    response,
)
from tests.servers.record import Record
from tests.support.colours import AnyClient
from tests.support.pace import assert_in_time, paced

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

LATE = 0.06  # seconds that a limit may come after its time, on a quiet machine
READS = [0.05, 0.2]
LONG = 1.2  # seconds; a blocking client leaves the loop to libcurl from one second on


def assert_on_time(seconds: float, limit: float, late: float = LATE) -> None:
    assert limit - 0.03 <= seconds, f"{seconds:.4f} s instead of {limit} s"
    assert_in_time(seconds, limit, late)


# Uvloop has asyncio's engine; its timers are tried where it is time that matters most.
EACH_ENGINE = pytest.mark.parametrize("colour", ["blocking", "asyncio", "trio"], indirect=True)


class Said:
    """When a server was about to say its last word."""

    def __init__(self) -> None:
        self.at = 0.0
        self.now = threading.Event()

    def mark(self) -> None:
        self.at = time.monotonic()
        self.now.set()


# --- connecting ---


@pytest.mark.parametrize(("limit", "streams"), [(0.05, False), (0.3, False), (0.05, True)])
async def test_connecting_ends_on_time(limit: float, streams: bool, client: AnyClient) -> None:
    limit = paced(limit)
    with BlackHole() as hole:
        start = time.monotonic()
        with pytest.raises(e.ConnectTimeout) as caught:
            await client.request(
                "GET", hole.url, stream=streams, timeout=Timeout(connect=limit, read=30)
            )
        assert_on_time(time.monotonic() - start, limit, 0.03)
    error = caught.value
    assert isinstance(error, e.Timeout)
    assert isinstance(error, e.ConnectionError)
    assert not error.request_sent
    assert error.curl_code == 28
    assert hole.url in str(error)
    assert f"{limit} s" in str(error)
    assert "connect=" in str(error)


@EACH_ENGINE
async def test_a_tls_handshake_without_a_reply_is_a_connect_timeout(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        conn.stall()

    with RawServer(handler) as server:
        start = time.monotonic()
        with pytest.raises(e.ConnectTimeout) as caught:
            await client.get(f"https://127.0.0.1:{server.port}/", timeout=(paced(0.2), 30))
        assert_on_time(time.monotonic() - start, paced(0.2))
    assert not caught.value.request_sent


@EACH_ENGINE
async def test_a_short_read_limit_does_not_end_connecting(client: AnyClient) -> None:
    with BlackHole() as hole:
        start = time.monotonic()
        with pytest.raises(e.ConnectTimeout):
            await client.get(hole.url, timeout=Timeout(connect=paced(0.15), read=paced(0.05)))
        assert_on_time(time.monotonic() - start, paced(0.15))


# --- silence ---


@pytest.mark.parametrize("limit", READS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_silence_before_the_head_ends_on_time(
    limit: float, method: str, client: AnyClient
) -> None:
    limit = paced(limit)
    with RawServer(respond_and_stall(b"")) as server:
        start = time.monotonic()
        with pytest.raises(e.ReadTimeout) as caught:
            await client.request(method, server.url, timeout=(30, limit))
        assert_on_time(time.monotonic() - start, limit)
        assert len(server.requests) == 1
    error = caught.value
    assert error.request_sent
    assert error.curl_code == 28
    assert error.timings is not None
    assert error.request is not None
    assert server.url in str(error)
    assert f"{limit} s" in str(error)
    assert "read=" in str(error)


def says_in_parts(said: Said, *parts: bytes, pause: float) -> Callable[[RawConnection], None]:
    """Respond in parts with pauses between them, and note when the last is sent."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            for number, part in enumerate(parts):
                if number and conn.wait_closed(pause):
                    return
                said.mark()  # before it can be received
                conn.send(part)
            conn.stall()

    return handler


HEAD_PARTS = (b"HTTP/1.1 200 OK\r\nX-", b"A: b\r\nContent-Le", b"ngth: ")
BODY_PARTS = (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"abc", b"def")
CHUNK_PARTS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"6\r\nabc",
    b"def\r\n6\r\n",
)


@pytest.mark.parametrize("limit", [0.1])
@pytest.mark.parametrize(
    "parts", [HEAD_PARTS, BODY_PARTS, CHUNK_PARTS], ids=["head", "body", "chunks"]
)
async def test_silence_counts_from_the_last_byte(
    limit: float, parts: tuple[bytes, ...], client: AnyClient
) -> None:
    limit = paced(limit)
    said = Said()
    with RawServer(says_in_parts(said, *parts, pause=limit * 0.3)) as server:
        with pytest.raises(e.ReadTimeout) as caught:
            await client.get(server.url, timeout=(30, limit))
        assert_on_time(time.monotonic() - said.at, limit)
    assert caught.value.request_sent


LONG_CASES = {
    "before the head": [b""],
    "within a header line": list(HEAD_PARTS),
    "between header lines": [b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", b"X-B: c\r\n"],
    "within the body": list(BODY_PARTS),
    "within chunks": list(CHUNK_PARTS),
    "within a status line, byte by byte": [bytes([byte]) for byte in b"HTTP/1.1"],
}


def test_the_read_timeout_is_on_time_when_libcurl_runs_the_loop() -> None:
    """All at once, in threads: a long limit takes its time."""

    limit = max(LONG, paced(0.4))

    def silence(parts: list[bytes]) -> float:
        said, pause = Said(), limit / (3 if len(parts) < 4 else 6)
        with RawServer(says_in_parts(said, *parts, pause=pause)) as server:
            with pytest.raises(e.ReadTimeout):
                client.get(server.url, timeout=(30, limit))
            return time.monotonic() - said.at

    with curlhttp.Client() as client, ThreadPoolExecutor(len(LONG_CASES)) as threads:
        for took in threads.map(silence, LONG_CASES.values()):
            assert_on_time(took, limit)


def test_the_total_timeout_is_on_time_when_libcurl_runs_the_loop() -> None:
    with (
        RawServer(respond_and_stall(b"HTTP/1.1 200 OK\r\nX-")) as server,
        curlhttp.Client() as client,
    ):
        start = time.monotonic()
        with pytest.raises(e.DeadlineExceeded):
            client.get(server.url, timeout=Timeout(total=paced(0.15)))
        assert_on_time(time.monotonic() - start, paced(0.15))


@pytest.mark.parametrize("limit", [0.1])
async def test_silence_within_a_streamed_body_ends_on_time(limit: float, client: AnyClient) -> None:
    limit = paced(limit)
    said = Said()
    with RawServer(says_in_parts(said, *BODY_PARTS, pause=limit * 0.3)) as server:
        got = b""
        async with await client.stream("GET", server.url, timeout=(30, limit)) as stream:
            with pytest.raises(e.ReadTimeout) as caught:
                async for piece in stream.iterate("raw"):
                    got += piece
        assert_on_time(time.monotonic() - said.at, limit)
    assert got == b"abcdef"
    assert caught.value.request_sent
    assert caught.value.timings is not None


@pytest.mark.parametrize("limit", [0.05])
async def test_silence_before_a_streamed_head_ends_on_time(limit: float, client: AnyClient) -> None:
    limit = paced(limit)
    said = Said()
    with RawServer(says_in_parts(said, *HEAD_PARTS, pause=limit * 0.3)) as server:
        with pytest.raises(e.ReadTimeout):
            await client.stream("GET", server.url, timeout=(30, limit))
        assert_on_time(time.monotonic() - said.at, limit)


def note_on_stream(said: Said, response: Callable[[Record, Stream], None]) -> Any:
    def route(record: Record, stream: Stream) -> None:
        said.mark()
        response(record, stream)

    return route


@pytest.mark.parametrize("limit", [0.1])
@pytest.mark.parametrize("path", ["/stall", "/stall-after"])
@pytest.mark.parametrize("streams", [False, True])
async def test_silence_on_http2_ends_on_time(
    limit: float, path: str, streams: bool, make_client: MakeClient, h2_app: H2Server
) -> None:
    limit = paced(limit)
    said = Said()
    h2_app.stream_route("/silent", note_on_stream(said, h2_app.stream_routes[path]))
    client = make_client(http2=True)
    await client.get(h2_app.url + "/")
    start = time.monotonic()
    with pytest.raises(e.ReadTimeout) as caught:
        response_ = await client.request(
            "GET", h2_app.url + "/silent", stream=streams, timeout=Timeout(read=limit)
        )
        await (_read(client, response_) if streams else anyio.lowlevel.checkpoint())
    assert time.monotonic() - start >= limit - 0.03
    assert_in_time(time.monotonic() - said.at, limit, LATE)
    assert caught.value.request_sent
    assert (await client.get(h2_app.url + "/")).content == b"hello"


async def _read(client: AnyClient, response_: Any) -> bytes:
    body: bytes = response_.read() if client.is_blocking else await response_.aread()
    return body


async def test_a_silent_stream_ends_while_others_on_its_connection_continue(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    await client.get(h2_app.url + "/")
    limit = paced(0.2)
    took = []

    async def silent() -> None:
        start = time.monotonic()
        with pytest.raises(e.ReadTimeout):
            if client.is_blocking:
                await anyio.to_thread.run_sync(
                    lambda: client.real.get(h2_app.url + "/stall", timeout=(30, limit))
                )
            else:
                await client.get(h2_app.url + "/stall", timeout=(30, limit))
        took.append(time.monotonic() - start)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(silent)
        await client.get(h2_app.url + f"/drip?n=15&interval={limit / 10}", timeout=30)
    assert_on_time(took[0], limit, 0.2 if client.is_blocking else LATE)


@EACH_ENGINE
@pytest.mark.parametrize(("version", "streams"), [(1, False), (1, True), (2, False)])
async def test_a_slow_response_is_no_read_timeout(
    version: int, streams: bool, make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    client = make_client(http2=version == 2)
    url = (h2_app if version == 2 else app).url + f"/drip?n=10&interval={paced(0.02)}"
    start = time.monotonic()
    response_ = await client.request(
        "GET", url, stream=streams, timeout=Timeout(connect=30, read=paced(0.1))
    )
    body = await _read(client, response_) if streams else response_.content
    assert body == b"x" * 10
    assert time.monotonic() - start > paced(0.15)  # longer than the limit


@EACH_ENGINE
@pytest.mark.parametrize("version", [1, 2])
async def test_the_limit_rests_while_the_caller_does_not_read(
    version: int, make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    client = make_client(http2=version == 2)
    url = (h2_app if version == 2 else app).url + "/big?size=3000000"
    size = 0
    async with await client.stream("GET", url, timeout=Timeout(read=paced(0.1))) as stream:
        async for piece in stream.iterate("raw"):
            if size < 600_000 <= size + len(piece):
                await anyio.sleep(paced(0.15))
            size += len(piece)
    assert size == 3_000_000


@EACH_ENGINE
async def test_the_limit_rests_while_a_small_body_is_not_read(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream(
        "GET", app.url + "/bytes/1000", timeout=Timeout(read=paced(0.1))
    ) as stream:
        await anyio.sleep(paced(0.15))
        assert len(await stream.read()) == 1000


@EACH_ENGINE
async def test_a_connection_stays_usable_after_a_slow_caller(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream(
        "GET", app.url + "/drip?n=8", timeout=(30, paced(0.1))
    ) as stream:
        await anyio.sleep(paced(0.15))
        assert await stream.read() == b"x" * 8
    assert app.connections == 1


def slow_pieces(count: int, pause: float) -> Iterator[bytes]:
    for _ in range(count):
        time.sleep(pause)
        yield b"x" * 1000


@EACH_ENGINE
@pytest.mark.parametrize("version", [1, 2])
async def test_a_slow_body_of_the_caller_is_no_silence_of_the_server(
    version: int, make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    client = make_client(http2=version == 2)
    url = (h2_app if version == 2 else app).url + "/upload"
    response_ = await client.post(
        url, content=slow_pieces(2, paced(0.12)), timeout=Timeout(connect=30, read=paced(0.1))
    )
    assert response_.json()["length"] == 2000


def cut(body: bytes) -> Iterator[bytes]:
    return iter([body[at : at + 65536] for at in range(0, len(body), 65536)])


def takes_slowly(pause: float) -> Callable[[RawConnection], None]:
    """Read a body with a pause in each million bytes, then return its length."""

    def handler(conn: RawConnection) -> None:
        head = conn.read_head()
        taken = 0
        for piece in conn.iter_body(head):
            if taken // 1_000_000 != (taken + len(piece)) // 1_000_000:
                conn.server.stopping.wait(pause)
            taken += len(piece)
        conn.send(response(str(taken).encode()))

    return handler


@pytest.mark.slow
@EACH_ENGINE
@pytest.mark.parametrize("kind", ["bytes", "pieces"])
async def test_an_upload_that_moves_is_no_silence(kind: str, client: AnyClient) -> None:
    # What fits the kernel's buffers, some 10 MB, is taken after the last sign of life.
    body = bytes(30_000_000)
    with RawServer(takes_slowly(paced(0.02))) as server:
        start = time.monotonic()
        response_ = await client.post(
            server.url,
            content=body if kind == "bytes" else cut(body),
            timeout=Timeout(connect=30, read=paced(0.45)),
        )
        assert time.monotonic() - start > paced(0.45)
        assert int(response_.content) == len(body)


@pytest.mark.slow
def test_an_active_upload_has_no_read_timeout_when_libcurl_runs_the_loop() -> None:
    body = bytes(40_000_000)
    limit = paced(1.0)
    with RawServer(takes_slowly(paced(0.03))) as server, curlhttp.Client() as client:
        start = time.monotonic()
        response_ = client.post(server.url, content=body, timeout=Timeout(connect=30, read=limit))
        assert time.monotonic() - start > limit
        assert int(response_.content) == len(body)


@EACH_ENGINE
@pytest.mark.parametrize("limit", [0.1])
@pytest.mark.parametrize("kind", ["bytes", "pieces"])
async def test_an_upload_that_is_not_taken_ends_on_time(
    kind: str, limit: float, client: AnyClient
) -> None:
    limit = paced(limit)

    def handler(conn: RawConnection) -> None:
        conn.read_head()
        conn.sock.settimeout(None)
        conn.server.stopping.wait(60)

    body = bytes(30_000_000)
    with RawServer(handler) as server:
        start = time.monotonic()
        with pytest.raises(e.ReadTimeout) as caught:
            await client.post(
                server.url,
                content=body if kind == "bytes" else iter([body]),
                timeout=Timeout(read=limit),
            )
        assert_on_time(time.monotonic() - start, limit, 0.5)  # from when the buffers were full
    assert caught.value.request_sent


# --- the total ---


@pytest.mark.parametrize("limit", READS)
async def test_the_total_ends_a_silence_on_time(limit: float, client: AnyClient) -> None:
    limit = paced(limit)
    with RawServer(respond_and_stall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")) as server:
        start = time.monotonic()
        with pytest.raises(e.DeadlineExceeded) as caught:
            await client.get(server.url, timeout=Timeout(total=limit))
        assert_on_time(time.monotonic() - start, limit)
    assert isinstance(caught.value, e.Timeout)
    assert f"{limit} s" in str(caught.value)
    assert caught.value.timings is not None


async def test_the_total_ends_connecting_on_time(client: AnyClient) -> None:
    with BlackHole() as hole:
        start = time.monotonic()
        with pytest.raises(e.DeadlineExceeded) as caught:
            await client.get(hole.url, timeout=Timeout(total=paced(0.1)))
        assert_on_time(time.monotonic() - start, paced(0.1))
    assert not caught.value.request_sent


@EACH_ENGINE
@pytest.mark.parametrize("version", [1, 2])
async def test_the_total_ends_a_slow_response(
    version: int, make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    client = make_client(http2=version == 2)
    url = (h2_app if version == 2 else app).url
    await client.get(url)
    start = time.monotonic()
    with pytest.raises(e.DeadlineExceeded):
        await client.get(
            url + "/drip?n=1000&interval=0.02",
            timeout=Timeout(total=paced(0.15), read=paced(0.1)),
        )
    assert_on_time(time.monotonic() - start, paced(0.15))


@EACH_ENGINE
async def test_the_total_spans_redirects(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            if conn.wait_closed(paced(0.04)):
                return
            conn.send(response(status="302 Found", headers=[("Location", "/on")]))

    with RawServer(handler) as server:
        start = time.monotonic()
        with pytest.raises(e.DeadlineExceeded):
            await client.get(server.url, timeout=Timeout(total=paced(0.15)))
        assert_on_time(time.monotonic() - start, paced(0.15))
        assert 2 <= len(server.requests) <= 4


@EACH_ENGINE
async def test_the_total_spans_the_reading_of_a_streamed_body(
    client: AnyClient, app: AppServer
) -> None:
    start = time.monotonic()
    async with await client.stream(
        "GET", app.url + "/drip?n=1000&interval=0.02", timeout=Timeout(total=paced(0.15))
    ) as stream:
        with pytest.raises(e.DeadlineExceeded):
            await stream.read()
    assert_on_time(time.monotonic() - start, paced(0.15))


@EACH_ENGINE
async def test_the_total_runs_while_the_caller_does_not_read(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream(
        "GET", app.url + "/big?size=5000000", timeout=Timeout(total=paced(0.1))
    ) as stream:
        await anyio.sleep(paced(0.15))
        with pytest.raises(e.DeadlineExceeded):
            await stream.read()


@EACH_ENGINE
async def test_the_total_ends_an_upload(client: AnyClient) -> None:
    with AppServer() as server:  # its own: it continues reading what is in the buffers
        start = time.monotonic()
        with pytest.raises(e.DeadlineExceeded):
            await client.post(
                server.url + "/slow-upload?rate=100000",
                content=bytes(8_000_000),
                timeout=Timeout(total=paced(0.15)),
            )
        assert_on_time(time.monotonic() - start, paced(0.15), 0.1)


@EACH_ENGINE
async def test_the_total_of_one_request_does_not_bound_the_next(
    client: AnyClient, app: AppServer
) -> None:
    late = app.url + f"/delay/{paced(0.15)}"
    await client.get(app.url + "/", timeout=Timeout(total=paced(0.1)))
    assert (await client.get(late)).content == b"hello"
    await client.get(app.url + "/", timeout=Timeout(read=paced(0.1)))
    assert (await client.get(late)).content == b"hello"


# --- what timeout= may be ---


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (2, Timeout(connect=2, read=2)),
        (0.5, Timeout(connect=0.5, read=0.5)),
        ((1, 2), Timeout(connect=1, read=2)),
        ((None, 2), Timeout(connect=None, read=2)),
        (Timeout(total=3), Timeout(total=3, connect=10, read=60)),
        (None, Timeout(total=None, connect=None, read=None, pool=None)),
    ],
)
async def test_a_timeout_may_be_given_in_many_forms(
    given: Any, expected: Timeout, make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(timeout=given)
    assert client.real.timeout == expected
    response_ = await client.get(app.url + "/")
    assert response_.request.timeout == expected
    assert (await make_client().get(app.url + "/", timeout=given)).request.timeout == expected


def test_the_default_bounds_connecting_and_silence_and_nothing_else() -> None:
    assert Setting() == Timeout(total=None, connect=10.0, read=60.0, pool=None)
    with curlhttp.Client() as client:
        assert client.timeout == Setting()


@pytest.mark.parametrize(
    "given", [0, -1, "5", True, float("nan"), float("inf"), (1,), (1, 2, 3), (0, 1), (1, "2")]
)
async def test_an_invalid_timeout_is_refused(
    given: Any, make_client: MakeClient, app: AppServer
) -> None:
    with pytest.raises(ValueError, match="timeout"):
        make_client(timeout=given)
    with pytest.raises(ValueError, match="timeout"):
        await make_client().get(app.url + "/", timeout=given)
    assert app.connections == 0


@pytest.mark.parametrize("name", ["total", "connect", "read", "pool"])
def test_each_limit_is_checked(name: str) -> None:
    for value in (0, -0.1, float("nan"), float("inf"), "1", False):
        with pytest.raises(ValueError, match=name):
            Timeout(**{name: value})  # type: ignore[arg-type]


async def test_no_timeout_waits(client: AnyClient, app: AppServer) -> None:
    response_ = await client.get(app.url + "/delay/0.05", timeout=None)
    assert response_.content == b"hello"


# --- the pool ---


async def test_the_wait_for_a_handle_ends_on_time(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(max_connections=1)
    async with await client.stream("GET", app.url + "/big"):
        start = time.monotonic()
        with pytest.raises(e.PoolTimeout) as caught:
            await client.get(app.url + "/", timeout=Timeout(pool=paced(0.1)))
        assert_on_time(time.monotonic() - start, paced(0.1))
    assert not caught.value.request_sent
    assert "max_connections" in str(caught.value)
    assert len(app.requests) == 1


async def test_the_total_bounds_the_wait_for_a_handle(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1)
    async with await client.stream("GET", app.url + "/big"):
        start = time.monotonic()
        with pytest.raises(e.Timeout):
            await client.get(app.url + "/", timeout=Timeout(total=paced(0.1)))
        assert_on_time(time.monotonic() - start, paced(0.1))


# --- the end of a timeout ---


async def test_a_late_response_is_not_taken_for_the_next(client: AnyClient) -> None:
    def handler(conn: RawConnection) -> None:
        while head := conn.read_request()[0]:
            if b"/late" in head:
                if conn.wait_closed(paced(0.2)):
                    return
                conn.send(response(b"late"))
            else:
                conn.send(response(b"next"))

    with RawServer(handler) as server:
        with pytest.raises(e.ReadTimeout):
            await client.get(server.url + "/late", timeout=(30, paced(0.1)))
        assert (await client.get(server.url + "/next")).content == b"next"
        assert server.connections == 2


async def test_many_silent_requests_end_together(make_client: MakeClient, app: AppServer) -> None:
    client = make_client()
    limit = paced(0.3)
    start = time.monotonic()
    ended: list[float] = []

    async def one() -> None:
        with pytest.raises(e.ReadTimeout):
            if client.is_blocking:
                await anyio.to_thread.run_sync(
                    lambda: client.real.get(app.url + "/stall", timeout=(30, limit))
                )
            else:
                await client.get(app.url + "/stall", timeout=(30, limit))
        ended.append(time.monotonic() - start)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)
    assert len(ended) == 20
    assert_on_time(min(ended), limit, 0.2)
    assert_on_time(max(ended), limit, 0.4)


async def test_a_late_response_is_not_taken_for_that_of_another_server(client: AnyClient) -> None:
    with RawServer(respond_and_stall(b"")) as silent, RawServer(respond(response(b"ok"))) as fine:
        with pytest.raises(e.ReadTimeout):
            await client.get(silent.url, timeout=(30, 0.05))
        assert (await client.get(fine.url, timeout=30)).content == b"ok"
        assert silent.wait_for(lambda: silent.open_connections == 0)


def test_the_same_numbers_are_the_same_timeout_and_are_checked_each_time() -> None:
    """Engines set no option again for a request whose Timeout is that of the one before."""
    client = curlhttp.Client()
    for given in (7, 7.5, (7, None)):
        first, second = (
            client.build_request("GET", "http://h.test/", timeout=given) for _ in range(2)
        )
        assert first.timeout is second.timeout
    assert repr(Timeout.of((1, 2))) == repr(Timeout(connect=1, read=2))
    assert repr(Timeout.of((1.0, 2))) == repr(Timeout(connect=1.0, read=2))
    for wrong in ((True, 2), ([1], 2), (1, "2")):
        with pytest.raises(ValueError, match="timeout must be a number of seconds or None"):
            Timeout.of(wrong)  # type: ignore[arg-type]
