"""The socket of an upgraded connection where requests has none, or bytes get lost there."""

from __future__ import annotations

import gc
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import curlhttp
from curlhttp import PublicOnly
from curlhttp.requests import Session
from curlhttp.testing import mock
from tests.servers import Certs, HTTPProxy, RawConnection, RawServer

ASKS = {"Connection": "Upgrade", "Upgrade": "tcp"}
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def echo(conn: RawConnection) -> None:
    """Switch, and answer each piece; at the end of what comes say goodbye."""
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


def socket_of(answer: Any) -> Any:
    return answer.raw._fp.fp.raw._sock


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


def test_what_comes_with_the_head_is_read_first(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED + b"with the head")
        assert conn.read_exactly(1) == b"x"
        conn.send(b", and after it")

    with RawServer(serve, context) as server, upgrade(session, server) as answer:
        sock = socket_of(answer)
        assert read_when_ready(sock, 13) == b"with the head"
        sock.sendall(b"x")
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b", and after it"


def test_frames_that_came_together_are_waited_for_one_by_one(
    session: Session, context: Any
) -> None:
    frames = [b"one", b"two", b"three" * 1000]

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        for _ in range(2):
            conn.send(b"".join(struct.pack(">BxxxL", 1, len(each)) + each for each in frames))
        conn.stall()

    with RawServer(serve, context) as server, upgrade(session, server) as answer:
        sock = socket_of(answer)
        for frame in (*frames, *frames):
            size = struct.unpack(">BxxxL", read_when_ready(sock, 8))[1]
            assert read_when_ready(sock, size) == frame


def test_the_server_hears_of_the_end_of_this_direction(session: Session, context: Any) -> None:
    ended = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        assert conn.read_exactly(3) == b"one"
        assert conn.sock.recv(1) == b""
        ended.set()

    with RawServer(serve, context) as server, upgrade(session, server) as answer:
        socket_of(answer).sendall(b"one")
        socket_of(answer).shutdown(socket.SHUT_WR)
        assert ended.wait(30)


def test_the_server_may_end_its_direction_first(session: Session) -> None:
    received = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.sock.shutdown(socket.SHUT_WR)
        if conn.read_exactly(4) == b"late":
            received.set()

    with RawServer(serve) as server, upgrade(session, server) as answer:
        assert socket_of(answer).recv(100) == b""
        socket_of(answer).sendall(b"late")
        assert received.wait(30)


def test_what_was_written_before_the_close_arrives(session: Session, context: Any) -> None:
    much, received = b"x" * 1_000_000, threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        if conn.read_exactly(len(much)) == much:
            received.set()

    with RawServer(serve, context) as server:
        with upgrade(session, server) as answer:
            socket_of(answer).sendall(much)
        assert received.wait(30)


def test_a_connection_that_breaks_is_no_end_of_a_stream(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.read_exactly(1)
        conn.reset()

    with RawServer(serve, context) as server, upgrade(session, server) as answer:
        file = answer.raw._fp.fp.raw
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
            answer = upgrade(session, server)
        sock = socket_of(answer)
        sock.sendall(b"one")
        assert sock.recv(100) == b"<one>"
        answer.close()


def test_a_response_that_is_dropped_closes_its_connection(session: Session, context: Any) -> None:
    closed = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.stall()
        closed.set()

    with RawServer(serve, context) as server:
        answer = upgrade(session, server)
        file = answer.raw._fp.fp.raw
        file._response = answer  # as docker does
        del answer, file
        gc.collect()
        assert closed.wait(30)


def test_a_response_may_be_collected_while_connections_are_taken(
    session: Session, context: Any
) -> None:
    with RawServer(echo, context) as server:
        answer = upgrade(session, server)
        adapter: Any = session.get_adapter(server.url)
        with adapter._engine._pool._lock:  # the collector may come at any line
            answer.raw._fp.fp.raw._response = answer
            del answer
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
        answer = upgrade(session, server)
        assert answer.content == b"busy"
        assert closed.wait(30)


def test_an_informational_answer_is_passed_over(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + SWITCHED + b"x")

    with RawServer(serve, context) as server, upgrade(session, server) as answer:
        assert answer.status_code == 101
        assert "link" not in answer.headers
        assert socket_of(answer).recv(1) == b"x"


def test_a_protocol_that_nobody_asked_for_is_an_error(session: Session) -> None:
    with (
        RawServer(echo) as server,
        pytest.raises(curlhttp.RemoteProtocolError, match="nobody asked for"),
    ):
        session.post(server.url, stream=True)


def test_a_proxy_leads_to_the_socket(session: Session, context: Any) -> None:
    with RawServer(echo, context) as server, HTTPProxy() as proxy:
        proxies = {"http": proxy.url, "https": proxy.url}
        with upgrade(session, server, proxies=proxies) as answer:
            socket_of(answer).sendall(b"one")
            assert socket_of(answer).recv(100) == b"<one>"


def test_a_guard_judges_where_the_connection_leads() -> None:
    with RawServer(echo) as server, Session(guard=PublicOnly()) as session:
        with pytest.raises(curlhttp.BlockedAddress):
            upgrade(session, server)
        assert server.connections == 0
        session.guard = PublicOnly(allow=["127.0.0.1"])
        with upgrade(session, server) as answer:
            socket_of(answer).sendall(b"one")
            assert socket_of(answer).recv(100) == b"<one>"


def test_a_mock_answers_in_place_of_a_server(session: Session) -> None:
    with mock() as mocked:
        mocked.post("http://host.example/").respond(content=b"mocked")
        with session.post("http://host.example/", headers=ASKS, stream=True) as answer:
            assert answer.content == b"mocked"


def test_the_head_is_shown_in_the_timings(session: Session, context: Any) -> None:
    with RawServer(echo, context) as server, upgrade(session, server) as answer:
        assert answer.http_version == "HTTP/1.1"
        assert answer.timings.peer == ("127.0.0.1", server.port)
        assert answer.elapsed.total_seconds() > 0


def test_a_large_body_may_be_refused_unread(session: Session, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.sock.recv(1000)
        conn.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        conn.stall()

    with (
        RawServer(serve, context) as server,
        upgrade(session, server, data=b"x" * 20_000_000, timeout=30) as answer,
    ):
        assert (answer.status_code, answer.content) == (413, b"no")
