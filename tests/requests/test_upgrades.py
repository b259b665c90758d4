"""The socket of an upgraded connection, where requests has none or loses bytes."""

from __future__ import annotations

import gc
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

import curlhttp
from curlhttp import PublicOnly, Timeout
from curlhttp.requests import Session
from curlhttp.requests.exceptions import ChunkedEncodingError, InvalidHeader
from curlhttp.testing import mock
from tests.servers import (
    Certs,
    HTTPProxy,
    RawConnection,
    RawServer,
    respond_and_close,
)
from tests.support import pace
from tests.support.colours import needs_fork
from tests.support.internals import is_reading, lock_of_pool, run_in_fork

ASKS = {"Connection": "Upgrade", "Upgrade": "tcp"}
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def echo(conn: RawConnection) -> None:
    """Switch protocols, echo each piece, and say goodbye at the end."""
    conn.read_request()
    conn.send(SWITCHED)
    while piece := conn.sock.recv(65536):
        conn.send(b"<" + piece + b">")
    conn.send(b"bye")


@pytest.fixture(params=["plain", "TLS"])
def context(request: pytest.FixtureRequest, certs: Certs) -> Any:
    return certs.server_context() if request.param == "TLS" else None


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    """Wait for the threads that carry bytes: they end when their socket is closed."""
    yield
    for thread in threading.enumerate():
        if thread.name == "curlhttp-upgraded":
            thread.join(30)
            assert not thread.is_alive()


def upgrade(session: Session, server: RawServer, **arguments: Any) -> Any:
    return session.post(server.url, headers=ASKS, stream=True, **arguments)


def socket_of(response: Any) -> Any:
    return response.raw._fp.fp.raw._sock


def read_when_ready(sock: Any, count: int) -> bytes:
    """Read as docker does: wait for the socket first, each time."""
    found = b""
    while len(found) < count:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        assert poll.poll(30_000)
        piece = sock.recv(count - len(found))
        assert piece
        found += piece
    return found


def test_bytes_received_with_the_head_are_read_first(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED + b"with the head")
        assert conn.read_exactly(1) == b"x"
        conn.send(b", and after it")

    with RawServer(serve, context) as server, upgrade(session, server) as response:
        sock = socket_of(response)
        assert read_when_ready(sock, 13) == b"with the head"
        sock.sendall(b"x")
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b", and after it"


def test_frames_received_together_are_read_one_by_one(session: Session, context: Any) -> None:
    frames = [b"one", b"two", b"three" * 1000]

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        for _ in range(2):
            conn.send(b"".join(struct.pack(">BxxxL", 1, len(each)) + each for each in frames))
        conn.stall()

    with RawServer(serve, context) as server, upgrade(session, server) as response:
        sock = socket_of(response)
        for frame in (*frames, *frames):
            size = struct.unpack(">BxxxL", read_when_ready(sock, 8))[1]
            assert read_when_ready(sock, size) == frame


def test_the_server_sees_the_end_of_the_sending_direction(session: Session, context: Any) -> None:
    ended = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        assert conn.read_exactly(3) == b"one"
        assert conn.sock.recv(1) == b""
        ended.set()

    with RawServer(serve, context) as server, upgrade(session, server) as response:
        socket_of(response).sendall(b"one")
        socket_of(response).shutdown(socket.SHUT_WR)
        assert ended.wait(30)


def test_the_server_may_end_its_direction_first(session: Session) -> None:
    received = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.sock.shutdown(socket.SHUT_WR)
        if conn.read_exactly(4) == b"late":
            received.set()

    with RawServer(serve) as server, upgrade(session, server) as response:
        assert socket_of(response).recv(100) == b""
        socket_of(response).sendall(b"late")
        assert received.wait(30)


def test_data_written_before_the_close_arrives(session: Session, context: Any) -> None:
    much, received = b"x" * 1_000_000, threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        if conn.read_exactly(len(much)) == much:
            received.set()

    with RawServer(serve, context) as server:
        with upgrade(session, server) as response:
            socket_of(response).sendall(much)
        assert received.wait(30)


def test_a_connection_that_breaks_is_no_end_of_a_stream(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.read_exactly(1)
        conn.reset()

    with RawServer(serve, context) as server, upgrade(session, server) as response:
        file = response.raw._fp.fp.raw
        file._sock.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            file.read(1)
        with pytest.raises(OSError, match=r"reset|pipe"):
            for _ in range(1000):
                file._sock.sendall(b"x" * 65536)


def test_a_socket_outlives_its_session(certs: Certs, context: Any) -> None:
    with RawServer(echo, context) as server:
        with Session() as session:
            session.verify = str(certs.ca_path)
            response = upgrade(session, server)
        sock = socket_of(response)
        sock.sendall(b"one")
        assert sock.recv(100) == b"<one>"
        response.close()


def test_a_response_that_is_dropped_closes_its_connection(session: Session, context: Any) -> None:
    closed = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.stall()
        closed.set()

    with RawServer(serve, context) as server:
        response = upgrade(session, server)
        file = response.raw._fp.fp.raw
        file._response = response  # as docker does
        del response, file
        gc.collect()
        assert closed.wait(30)


def test_a_response_may_be_collected_while_connections_are_taken(
    session: Session, context: Any
) -> None:
    with RawServer(echo, context) as server:
        response = upgrade(session, server)
        adapter: Any = session.get_adapter(server.url)
        with lock_of_pool(adapter):  # the collector may come at any line
            response.raw._fp.fp.raw._response = response
            del response
            gc.collect()


def test_a_session_and_its_response_may_be_collected_together(
    certs: Certs, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, failures = threading.Event(), list[Any]()
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: failures.append(failure.exc_value))

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.stall()
        closed.set()

    with RawServer(serve, context) as server:
        session: Any = Session()
        session.verify = str(certs.ca_path)
        session.itself, session.answer = session, upgrade(session, server)
        del session
        gc.collect()
        assert closed.wait(30)
    assert not failures


def test_a_body_that_was_read_closes_its_connection(session: Session, context: Any) -> None:
    closed = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy")
        conn.stall()
        closed.set()

    with RawServer(serve, context) as server:
        response = upgrade(session, server)
        assert response.content == b"busy"
        assert closed.wait(30)


def test_an_informational_response_is_skipped(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + SWITCHED + b"x")

    with RawServer(serve, context) as server, upgrade(session, server) as response:
        assert response.status_code == 101
        assert "link" not in response.headers
        assert socket_of(response).recv(1) == b"x"


def test_an_unrequested_protocol_is_an_error(session: Session) -> None:
    with (
        RawServer(echo) as server,
        pytest.raises(curlhttp.RemoteProtocolError, match="was not requested"),
    ):
        session.post(server.url, stream=True)


def test_a_socket_is_reached_through_a_proxy(session: Session, context: Any) -> None:
    with RawServer(echo, context) as server, HTTPProxy() as proxy:
        proxies = {"http": proxy.url, "https": proxy.url}
        with upgrade(session, server, proxies=proxies) as response:
            socket_of(response).sendall(b"one")
            assert socket_of(response).recv(100) == b"<one>"


def test_a_guard_checks_the_connected_address() -> None:
    with RawServer(echo) as server, Session(guard=PublicOnly()) as session:
        with pytest.raises(curlhttp.BlockedAddress):
            upgrade(session, server)
        assert server.connections == 0
        session.guard = PublicOnly(allow=["127.0.0.1"])
        with upgrade(session, server) as response:
            socket_of(response).sendall(b"one")
            assert socket_of(response).recv(100) == b"<one>"


def test_a_mock_responds_instead_of_a_server(session: Session) -> None:
    with mock() as mocked:
        mocked.post("http://host.example/").respond(content=b"mocked")
        with session.post("http://host.example/", headers=ASKS, stream=True) as response:
            assert response.content == b"mocked"


def test_the_head_is_shown_in_the_timings(session: Session, context: Any) -> None:
    with RawServer(echo, context) as server, upgrade(session, server) as response:
        assert response.http_version == "HTTP/1.1"
        assert response.timings.peer == ("127.0.0.1", server.port)
        assert response.elapsed.total_seconds() > 0


def refuse(fields: bytes, body: bytes = b"") -> Callable[[RawConnection], None]:
    """Respond to each request in HTTP, and close the connection (a handler)."""
    return respond_and_close(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n" + body)


READERS: list[Callable[[Any], Any]] = [
    lambda response: response.raw.read(),
    lambda response: response.raw.read(5),
    lambda response: response.raw._fp.read(-1),
    lambda response: response.raw._fp.read1(),
    lambda response: response.content,
]


@pytest.mark.parametrize("length", [b"-1", b"+5", b"five", b"5, 6", b"9" * 30, b"9" * 5_000])
def test_a_length_that_is_no_number_is_an_error(session: Session, length: bytes) -> None:
    with (
        RawServer(refuse(b"Content-Length: " + length, b"abcde")) as server,
        pytest.raises(InvalidHeader, match="Content-Length is not a number") as caught,
    ):
        upgrade(session, server)
    assert isinstance(caught.value, curlhttp.RemoteProtocolError)
    assert caught.value.request_sent


@pytest.mark.parametrize("length", [b"5", b"5, 5", b"0" * 20 + b"5", b"0" * 5_000 + b"5"])
def test_a_content_length_is_parsed_in_any_spelling(session: Session, length: bytes) -> None:
    with RawServer(refuse(b"Content-Length: " + length, b"abcde, and more")) as server:
        for read in READERS:
            with upgrade(session, server) as response:
                assert read(response) == b"abcde"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (b"Transfer-Encoding: chunked", b"-5\r\nhello\r\n0\r\n\r\n"),
        (b"Transfer-Encoding: chunked", b"-1\r\nhello\r\n0\r\n\r\n"),
        (b"Transfer-Encoding: chunked", b"five\r\nhello\r\n0\r\n\r\n"),
        (b"Transfer-Encoding: chunked", b"f" * 15 + b"\r\n"),
        (b"Content-Length: " + b"9" * 14, b""),
        (b"Content-Length: " + b"9" * 18, b""),
    ],
)
def test_a_body_that_contradicts_its_head_is_an_error(
    session: Session, fields: bytes, body: bytes, read: Callable[[Any], object]
) -> None:
    with (
        RawServer(refuse(fields, body)) as server,
        upgrade(session, server) as response,
        pytest.raises((ProtocolError, ChunkedEncodingError)),
    ):
        read(response)


def test_the_whole_body_may_be_read_by_and_by(session: Session, context: Any) -> None:
    much = bytes(range(256)) * 1000
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (much, b"x", much))
    for handler, whole in (
        (refuse(b"Content-Length: %d" % len(much), much), much),
        (refuse(b"Connection: close", much), much),
        (refuse(b"Transfer-Encoding: chunked", chunks + b"0\r\n\r\n"), much + b"x" + much),
    ):
        with RawServer(handler, context) as server:
            with upgrade(session, server) as response:
                assert response.raw.read() == whole
            with upgrade(session, server) as response:
                assert response.raw.read(100_000) == whole[:100_000]
                assert response.raw.read(10) == whole[100_000:100_010]
                assert response.raw.read() == whole[100_010:]


@pytest.mark.parametrize(
    ("fields", "piece"), [(b"Content-Length: 40", b"x"), (b"Transfer-Encoding: chunked", b"0")]
)
def test_the_total_time_limit_holds_for_the_body(
    session: Session, context: Any, fields: bytes, piece: bytes
) -> None:
    limit = pace.paced(0.5)

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n")
        for _ in range(40):
            conn.wait_closed(limit / 10)
            conn.send(piece)

    with (
        RawServer(serve, context) as server,
        upgrade(session, server, timeout=Timeout(total=limit)) as response,
    ):
        response.raw._connection.sock.settimeout(30)
        with pytest.raises(curlhttp.DeadlineExceeded, match="ran out"):
            _ = response.content
        assert response.raw._connection.sock.gettimeout() == 30


def test_a_body_that_is_in_time_keeps_the_sockets_limit(session: Session) -> None:
    with (
        RawServer(refuse(b"Content-Length: 5", b"abcde")) as server,
        upgrade(session, server, timeout=Timeout(total=30, read=60)) as response,
    ):
        sock = response.raw._connection.sock
        assert response.raw.read(3) == b"abc"
        assert sock.gettimeout() == 60
        assert response.content == b"de"


def test_another_protocol_runs_beyond_the_total_time_limit(session: Session) -> None:
    limit = pace.paced(0.3)

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.wait_closed(2 * limit)
        conn.send(b"late")

    with (
        RawServer(serve) as server,
        upgrade(session, server, timeout=Timeout(total=limit, read=30)) as response,
    ):
        assert response.raw._fp.fp.raw.read(4) == b"late"


def test_closing_wakes_the_thread_that_reads(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\n\r\n")
        conn.stall()

    def read() -> None:
        try:
            response.raw.read(10)
        except Exception as error:
            errors.append(str(error))

    errors: list[str] = []
    with RawServer(serve, context) as server:
        response = upgrade(session, server, timeout=30)
        reader = threading.Thread(target=read)
        reader.start()
        assert server.wait_for(lambda: is_reading(response.raw._fp.fp.raw))
        response.close()
        reader.join()
    assert ["closed while it was read" in error for error in errors] == [True]


@needs_fork
def test_a_forked_child_does_not_close_the_connection_of_its_parent(
    session: Session, context: Any
) -> None:
    with RawServer(echo, context) as server:
        response = upgrade(session, server)
        file = response.raw._fp.fp.raw
        with ThreadPoolExecutor(1) as threads:
            read = threads.submit(file.read, 3)
            assert server.wait_for(lambda: is_reading(file))
            assert run_in_fork(response.close) == 0
            file._sock.sendall(b"one")
            assert read.result(30) == b"<on"


def test_a_kept_error_keeps_no_connection(session: Session, context: Any) -> None:
    closed = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        fields = b"".join(b"X-%d: x\r\n" % number for number in range(150))
        conn.send(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\nand some of the body")
        conn.stall()
        closed.set()

    with RawServer(serve, context) as server:
        with pytest.raises(curlhttp.RemoteProtocolError, match="100 headers") as kept:
            upgrade(session, server)
        assert closed.wait(30)
        for thread in threading.enumerate():
            if thread.name == "curlhttp-upgraded":
                thread.join(30)
                assert not thread.is_alive()
    assert kept.value


def test_a_large_body_may_be_refused_unread(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.sock.recv(1000)
        conn.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        conn.stall()

    with (
        RawServer(serve, context) as server,
        upgrade(session, server, data=b"x" * 20_000_000, timeout=30) as response,
    ):
        assert (response.status_code, response.content) == (413, b"no")
