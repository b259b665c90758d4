"""The last step of requests for another protocol, on a scripted connection."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import Client, ClientRequest, Response, Timeout
from curlhttp._features.upgrade import Upgraded, _ChunkedDecoder, upgrade
from curlhttp._features.upgrade import send_upgrade as ask_engine
from curlhttp._runtime.run import run_sync, send_sync
from curlhttp.exceptions import (
    ConnectionError,
    DeadlineExceeded,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
    WriteTimeout,
)
from curlhttp.testing import ScriptedEngine
from curlhttp.types import Timings

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"


class ScriptedStream:
    """What the server says, piece by piece; None is its silence until the time is up."""

    def __init__(self, *pieces: bytes | None, clock: list[float]) -> None:
        self.pieces = list(pieces)
        self.written = b""
        self.aborted = 0
        self.error: Exception | None = None
        self.clock = clock
        self.drains: list[bool] = []  # their results, until all is sent

    async def receive(self, seconds: float | None = None) -> bytes | None:
        piece = self.pieces.pop(0) if self.pieces else b""
        if piece is None and seconds != 0:
            assert seconds is not None
            self.clock[0] += seconds
        return piece

    def receive_now(self) -> bytes | None:
        return None

    def write(self, data: bytes) -> bool:
        self.written += data
        return False

    async def drain(self, seconds: float | None = None) -> bool:
        if not self.drains or self.drains.pop(0):
            return True
        assert seconds is not None
        self.clock[0] += seconds
        return False

    def unsent(self) -> int:
        return 0

    def abort(self, error: Exception | None = None) -> None:
        self.aborted += 1
        self.error = error

    def timings(self) -> Timings:
        return Timings(0, 0, 0, 0, 0, 0, False, None)


class Connecting(ScriptedEngine):
    """A scripted engine that opens scripted connections."""

    def __init__(self, *pieces: bytes | None) -> None:
        super().__init__([])
        self.clock = [0.0]
        self.stream = ScriptedStream(*pieces, clock=self.clock)

    async def connect(self, request: ClientRequest) -> ScriptedStream:
        return self.stream


def ask(
    *pieces: bytes | None, build: Callable[[Client], ClientRequest] | None = None
) -> tuple[Response, ScriptedStream]:
    engine = Connecting(*pieces)
    client = Client(transport=engine, headers={"User-Agent": None, "Accept-Encoding": None})
    request = build(client) if build else client.build_request("GET", "http://a.test/x?y=1")
    send = upgrade(lambda: engine, lambda: engine.clock[0])
    try:
        return send_sync(send, request), engine.stream
    except RequestException as error:
        facts = engine.stream.aborted, error.request is request, error.request_sent
        if facts != (1, True, True):
            raise AssertionError(facts) from error
        raise


def test_the_head_is_sent_as_http_11_and_bytes_after_the_response_are_kept() -> None:
    def build(client: Client) -> ClientRequest:
        headers = {"Upgrade": "x", "X-Empty": "", "Proxy-Authorization": "Basic c2VjcmV0"}
        return client.build_request("GET", "http://a.test:81/x?y=1", headers=headers)

    response, stream = ask(SWITCHED[:10], SWITCHED[10:] + b"\x81\x00", build=build)
    assert isinstance(response, Upgraded)
    assert response.stream is stream
    assert response.rest == b"\x81\x00"
    assert response.headers["upgrade"] == "x"
    assert not stream.aborted
    lines = stream.written.split(b"\r\n")
    assert lines[:2] == [b"GET /x?y=1 HTTP/1.1", b"Host: a.test:81"]
    assert lines[2:] == [b"Accept: */*", b"Upgrade: x", b"X-Empty:", b"", b""]


def test_heads_that_only_inform_are_passed_over() -> None:
    response, _ = ask(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + SWITCHED)
    assert response.status_code == 101
    assert "link" not in response.headers


@pytest.mark.parametrize(
    ("head", "pieces", "body"),
    [
        (b"Content-Length: 4\r\n", [b"no", b"pe, and more"], b"nope"),
        (b"Content-Length: 9\r\n", [b"nope"], b"nope"),
        (b"Content-Length: 9\r\n", [b"nope", None], b"nope"),
        (b"Content-Length: 0000000000004\r\n", [b"nope, and more"], b"nope"),
        (b"Content-Length: 4, 4\r\n", [b"nope, and more"], b"nope"),
        (b"Content-Length: four\r\n", [b"nope", b""], b"nope"),
        (b"", [b"nope", b""], b"nope"),
        (b"Transfer-Encoding: chunked\r\n", [b"2\r", b"\nno\r\n2;x\r\npe\r\n0\r\n\r\n"], b"nope"),
        (b"Transfer-Encoding: chunked\r\n", [b"4\r\nnope\r\nXYZ", b""], b"nope"),
        (b"Content-Encoding: gzip\r\n", [gzip.compress(b"nope")], b"nope"),
        (b"Content-Encoding: gzip\r\n", [b"nope"], b"nope"),
        (b"Content-Length: 99999999\r\n", [b"x" * 60_000] * 9, b"x" * 65_536),
    ],
)
def test_a_refusal_is_a_finished_response(
    head: bytes, pieces: list[bytes | None], body: bytes
) -> None:
    response, stream = ask(b"HTTP/1.1 403 Forbidden\r\n" + head + b"\r\n", *pieces)
    assert not isinstance(response, Upgraded)
    assert (response.status_code, response.content) == (403, body)
    assert stream.aborted == 1


@pytest.mark.parametrize("length", [b"four", b"-4", b"4, 5", b"", b"9" * 19, b"9" * 5_000])
def test_a_refusal_with_an_invalid_length_is_an_error_on_read(length: bytes) -> None:
    engine = Connecting(b"HTTP/1.1 403 x\r\nContent-Length: " + length + b"\r\n\r\nnope")
    request = Client(transport=engine).build_request("GET", "http://a.test/")
    reply = run_sync(partial(ask_engine, engine, request, engine.now))
    with pytest.raises(RemoteProtocolError, match="Content-Length is not a number") as caught:
        run_sync(reply.read)
    assert caught.value.broken_part == "content-length"
    assert caught.value.request is request
    assert caught.value.request_sent


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_a_refusal_without_a_body_is_not_waited_for(status: bytes) -> None:
    response, stream = ask(b"HTTP/1.1 " + status + b"\r\n\r\n", None)
    assert response.content == b""
    assert stream.pieces == [None]


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/2 101 \r\n\r\n",
        b"HTTP/1.1 1000 x\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade",
        b"HTTP/1.1 101 x\r\n" + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 100 x\r\n\r\n" * 5_000,
    ],
)
def test_an_invalid_response_is_an_error(response: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        ask(response)


def ask_slowly(drains: list[bool], *pieces: bytes | None) -> Connecting:
    """Ask where the connection takes the request by and by."""
    engine = Connecting(*pieces)
    engine.stream.drains = drains
    request = Client(transport=engine).build_request("POST", "http://a.test/", timeout=3.0)
    run_sync(partial(ask_engine, engine, request, lambda: engine.clock[0]))
    return engine


def test_the_response_may_arrive_while_the_request_is_sent() -> None:
    refusal = b"HTTP/1.1 413 Content Too Large\r\n\r\n"
    engine = ask_slowly([False] * 9, None, refusal[:9], refusal[9:])
    assert engine.stream.drains == [False] * 6
    assert engine.clock[0] < 1


def test_the_request_is_sent_before_another_protocol_starts() -> None:
    engine = ask_slowly([False, True], SWITCHED)
    assert engine.stream.drains == []


def test_a_server_that_stops_reading_the_request_is_an_error() -> None:
    with pytest.raises(WriteTimeout, match=r"in 3\.0 s"):
        ask_slowly([False] * 99, *[None] * 99)
    with pytest.raises(WriteTimeout, match=r"in 3\.0 s"):
        ask_slowly([False] * 99, SWITCHED)
    with pytest.raises(ConnectionError, match="without a response"):
        ask_slowly([False] * 99, b"")


def test_a_server_that_hangs_up_or_is_silent_is_an_error() -> None:
    with pytest.raises(ConnectionError, match="without a response"):
        ask()
    with pytest.raises(ReadTimeout, match=r"silent for 3\.0 s"):
        ask(None, build=lambda client: client.build_request("GET", "http://a.test", timeout=3.0))

    def late(client: Client) -> ClientRequest:
        request = client.build_request("GET", "http://a.test", timeout=Timeout(total=2.0))
        request.deadline = 2.0
        return request

    with pytest.raises(DeadlineExceeded):
        ask(b"HTTP/1.1", None, build=late)


def test_its_end_is_notified_once_even_if_it_is_dropped() -> None:
    ends: list[BaseException | None] = []
    response, stream = ask(SWITCHED)
    response._at_end(ends.append)
    assert ends == []
    response.close()
    response.close()
    assert ends == [None]
    assert stream.aborted

    response, _ = ask(SWITCHED)
    response._at_end(ends.append)
    del response  # a stream that is no script closes in its own finalizer
    assert ends == [None, None]


def test_an_engine_that_opens_no_connections_says_so() -> None:
    engine = ScriptedEngine([])
    request = Client(transport=engine).build_request("GET", "http://a.test")
    with pytest.raises(TypeError, match="ScriptedEngine has no connect"):
        upgrade(lambda: engine, engine.now)(request)


# -- bodies in chunks


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(1, 30), min_size=1))
def test_a_chunked_body_is_parsed_however_it_is_split(
    chunks: list[bytes], splits: list[int]
) -> None:
    raw = b"".join(b"%x;x\r\n%s\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
    unchunked, found, at, turn = _ChunkedDecoder(), b"", 0, 0
    while at < len(raw):
        size = splits[turn % len(splits)]
        found += unchunked.feed(raw[at : at + size])
        at, turn = at + size, turn + 1
    assert found == b"".join(chunks)
    assert unchunked.has_ended
    assert not unchunked.is_broken


def test_many_small_chunks_take_linear_time() -> None:
    def seconds(count: int) -> float:
        raw, start = b"1\r\nx\r\n" * count, thread_time()
        assert _ChunkedDecoder().feed(raw) == b"x" * count
        return thread_time() - start

    few, many = (min(seconds(count) for _ in range(4)) for count in (3_000, 48_000))
    assert many < 48 * few  # 16 times as many; the square would be 256
