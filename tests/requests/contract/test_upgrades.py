"""Streamed requests that ask for another protocol: the caller has the socket below."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Certs, RawConnection, RawServer, UnixDoor
from tests.support import pace

ASKS = {"Connection": "Upgrade", "Upgrade": "tcp"}
SWITCHED = (
    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
    b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)


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


@pytest.fixture
def echoing(context: Any) -> Iterator[RawServer]:
    with RawServer(echo, context) as server:
        yield server


@pytest.fixture
def ask(session: Any, certs: Certs) -> Any:
    session.verify = str(certs.ca_path)

    def send(server: RawServer, **arguments: Any) -> Any:
        arguments = {"headers": ASKS, "stream": True, **arguments}
        return session.post(server.url + "/attach?a=b", **arguments)

    return send


def test_the_request_goes_out_as_any_other(ask: Any, echoing: RawServer) -> None:
    with ask(echoing, json={"Tty": False}, headers={**ASKS, "X-A": "1"}) as answer:
        assert answer.status_code == answer.raw.status == 101
        assert answer.reason == "UPGRADED"
        assert answer.headers["upgrade"] == "tcp"
        assert answer.raw.headers["Content-Type"] == "application/vnd.docker.raw-stream"
    head, _, body = echoing.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /attach?a=b HTTP/1.1"
    assert {"Upgrade: tcp", "Connection: Upgrade", "X-A: 1"} <= set(lines)
    assert {f"Host: 127.0.0.1:{echoing.port}", f"Content-Length: {len(body)}"} <= set(lines)
    assert json.loads(body) == {"Tty": False}


def test_both_sides_talk_on_the_socket(ask: Any, echoing: RawServer) -> None:
    with ask(echoing) as answer:
        file = answer.raw._fp.fp.raw
        sock = file._sock
        sock.sendall(b"one")
        assert file.read(100) == b"<one>"
        assert sock.send(b"two") == 3
        assert sock.recv(2) == b"<t"
        assert sock.recv(100) == b"wo>"
        assert sock is answer.raw._original_response.fp.raw._sock


def test_the_connection_of_the_response_is_that_socket(ask: Any, echoing: RawServer) -> None:
    with ask(echoing) as answer:
        sock = answer.raw._connection.sock
        sock.sendall(b"one")
        assert sock.recv(100) == b"<one>"
        assert sock.getpeername() == ("127.0.0.1", echoing.port)
        assert sock.getsockname()[0] == "127.0.0.1"


def test_the_body_of_the_response_is_empty(ask: Any, echoing: RawServer) -> None:
    with ask(echoing) as answer:
        assert not answer.raw.closed
        assert answer.content == b""
        assert answer.raw.closed


def test_the_socket_can_be_waited_for(ask: Any, echoing: RawServer) -> None:
    with ask(echoing) as answer:
        file = answer.raw._fp.fp.raw
        assert select.select([file], [], [], 0) == ([], [], [])
        file._sock.sendall(b"one")
        poll = select.poll()
        poll.register(file, select.POLLIN)
        assert poll.poll()
        assert file.read(100) == b"<one>"


def test_much_goes_both_ways_at_once(ask: Any, echoing: RawServer) -> None:
    much = b"x" * 3_000_000
    received = 0
    with ask(echoing) as answer:
        sock = answer.raw._fp.fp.raw._sock
        writer = threading.Thread(target=sock.sendall, args=(much,))
        writer.start()
        while received < len(much):
            received += sock.recv(65536).count(b"x")
        writer.join()


def test_the_server_ends_the_stream(ask: Any, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.sock.recv(1)
        conn.send(b"last words")

    with RawServer(serve, context) as server, ask(server) as answer:
        file = answer.raw._fp.fp.raw
        file._sock.sendall(b"x")
        assert b"".join(iter(lambda: file.read(4), b"")) == b"last words"


def test_this_side_ends_its_own_direction_alone(ask: Any) -> None:
    with RawServer(echo) as server, ask(server) as answer:
        sock = answer.raw._fp.fp.raw._sock
        sock.sendall(b"one")
        assert sock.recv(100) == b"<one>"
        sock.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b"bye"


def test_the_read_timeout_is_the_sockets(ask: Any, echoing: RawServer) -> None:
    with ask(echoing, timeout=20) as answer:
        sock = answer.raw._fp.fp.raw._sock
        assert sock.gettimeout() == 20
        sock.settimeout(0.01)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(None)
        sock.sendall(b"one")
        assert sock.recv(100) == b"<one>"


def test_closing_the_response_closes_the_connection(ask: Any, context: Any) -> None:
    closed = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        conn.stall()
        closed.set()

    with RawServer(serve, context) as server:
        answer = ask(server)
        answer.close()
        assert closed.wait(30)
        assert answer.raw.closed


def test_another_answer_is_read_as_a_body(ask: Any, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\n\r\n" + b'{"message":"x"}')
        conn.stall()

    with RawServer(serve, context) as server, ask(server) as answer:
        assert answer.status_code == 404
        assert answer.json() == {"message": "x"}
        assert answer.raw.closed


def test_a_chunked_answer_comes_as_it_is_sent(ask: Any, context: Any) -> None:
    goes_on = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        goes_on.wait(30)
        conn.send(b"3\r\ntwo\r\n0\r\n\r\n")

    with RawServer(serve, context) as server, ask(server) as answer:
        pieces = answer.iter_content(None)
        assert next(pieces) == b"one"
        goes_on.set()
        assert list(pieces) == [b"two"]


def test_a_stream_without_a_length_is_read_below_the_response(ask: Any, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED.replace(b"101 UPGRADED", b"200 OK"))
        conn.sock.recv(1)
        conn.send(b"frames")

    with RawServer(serve, context) as server, ask(server) as answer:
        assert answer.status_code == 200
        file = answer.raw._fp.fp.raw
        file._sock.sendall(b"x")
        assert b"".join(iter(lambda: file.read(4), b"")) == b"frames"
    with RawServer(serve, context) as server, ask(server) as answer:
        answer.raw._fp.fp.raw._sock.sendall(b"x")
        assert answer.raw.read(3) == b"fra"
        assert answer.content == b"mes"


def test_an_answer_that_breaks_off_is_an_error(ask: Any, requests: Any, context: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    with (
        RawServer(serve, context) as server,
        ask(server) as answer,
        pytest.raises(requests.exceptions.ChunkedEncodingError),
    ):
        _ = answer.content


def test_a_silent_answer_is_too_late(ask: Any, requests: Any, context: Any) -> None:
    def half(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        conn.stall()

    def silent(conn: RawConnection) -> None:
        conn.read_request()
        conn.stall()

    with (
        RawServer(half, context) as server,
        ask(server, timeout=(20, pace.paced(0.2))) as answer,
        pytest.raises(requests.exceptions.ConnectionError),
    ):
        _ = answer.content
    with RawServer(silent, context) as server, pytest.raises(requests.exceptions.ReadTimeout):
        ask(server, timeout=(20, pace.paced(0.2)))


def test_no_answer_is_an_error(ask: Any, requests: Any, context: Any) -> None:
    with (
        RawServer(lambda conn: conn.read_request() and None, context) as server,
        pytest.raises(requests.exceptions.ConnectionError),
    ):
        ask(server)


def test_a_redirect_is_followed(ask: Any, echoing: RawServer, session: Any) -> None:
    def away(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(f"HTTP/1.1 307 x\r\nLocation: {echoing.url}/x\r\n\r\n".encode())

    with RawServer(away) as server, ask(server, data=b"body") as answer:
        assert [each.status_code for each in answer.history] == [307]
        answer.raw._fp.fp.raw._sock.sendall(b"one")
        assert answer.raw._fp.fp.raw.read(100) == b"<one>"
    assert echoing.requests[0].endswith(b"\r\n\r\nbody")


def test_an_adapter_for_unix_sockets_has_its_own(
    requests: Any, session: Any, tmp_path: Path
) -> None:
    import urllib3

    class Connection(urllib3.connection.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(tmp_path / "door"))

    class Pool(urllib3.HTTPConnectionPool):
        ConnectionCls = Connection

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def get_connection_with_tls_context(self, *args: object, **kwargs: object) -> Any:
            return Pool("localhost")

    session.mount("http+unix://", Adapter())
    with RawServer(echo) as server, UnixDoor(tmp_path / "door", server):
        with session.post("http+unix://x/a", headers=ASKS, stream=True) as answer:
            file = answer.raw._fp.fp.raw
            file._sock.sendall(b"one")
            assert file.read(100) == b"<one>"


# -- the socket below any other stream


def test_a_stream_may_be_waited_for_without_end(session: Any) -> None:
    limit = pace.paced(0.2)

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        conn.wait_closed(3 * limit)
        conn.send(b"late")

    with RawServer(serve) as server, session.get(server.url, stream=True, timeout=limit) as answer:
        sock = answer.raw._fp.fp.raw._sock
        assert sock.gettimeout() == limit
        sock.settimeout(None)
        assert sock.gettimeout() is None
        assert answer.content == b"late"


def test_a_stream_may_be_given_less_time(session: Any, requests: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        conn.stall()

    with RawServer(serve) as server, session.get(server.url, stream=True, timeout=90) as answer:
        answer.raw._fp.fp.raw._sock.settimeout(0.01)
        with pytest.raises(requests.exceptions.ConnectionError):
            _ = answer.content


def test_a_stream_is_ended_by_its_socket(session: Any) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        conn.stall()

    with RawServer(serve) as server, session.get(server.url, stream=True) as answer:
        pieces = answer.iter_content(None)
        assert next(pieces) == b"one"
        sock = answer.raw._fp.fp.raw._sock
        ends = threading.Thread(target=lambda: (sock.shutdown(socket.SHUT_RDWR), sock.close()))
        ends.start()
        with suppress(OSError):  # the thread is in time, or is not
            assert list(pieces) == []
        ends.join()
