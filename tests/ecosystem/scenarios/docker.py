"""docker: over TCP its streams reach into `raw._fp`; on a Unix socket it brings its own pools.

The daemon responds to `attach` and `exec` with 101; frames follow in both directions.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.ecosystem.fakes import json_response, reply_json, sent_json
from tests.servers import AppConnection, AppServer, Certs, Record

# These pools are urllib3's own.
BESIDE_CURLHTTP = {"talks_over_a_unix_socket", "attaches_and_runs_over_a_unix_socket"}
API = "/v1.44"
LINES = [{"status": "Pulling"}, {"status": "Dône", "id": "a"}]


def _serve(app: AppServer) -> None:
    def pull(record: Record, conn: AppConnection) -> None:
        if conn.begin(200, [("Content-Type", "application/json"), _CHUNKED]):
            for line in LINES:
                conn.chunk(json.dumps(line).encode() + b"\r\n")
            conn.chunk(b"")

    def logs(record: Record, conn: AppConnection) -> None:
        if conn.begin(200, [_RAW, _CHUNKED]):
            conn.chunk(_frame(1, b"a\n"))
            if record.query("follow") in ("1", "True"):
                conn.wait_closed(_MOMENT)
            conn.chunk(_frame(1, b"b\n"))
            conn.chunk(b"")

    app.route("/version", json_response({"ApiVersion": "1.44", "Version": "27"}))
    app.route(API + "/containers/json", json_response([{"Id": "c1", "Names": ["/x"]}]))
    app.route(API + "/containers/create", json_response({"Id": "c2", "Warnings": []}, 201))
    for name in ("c1", "tty"):
        app.route(f"{API}/containers/{name}/json", json_response(_inspected(name)))
        app.route(f"{API}/containers/{name}/attach", _attach)
        app.route(f"{API}/containers/{name}/exec", _create_exec)
        app.route(f"{API}/exec/{name}/start", _run)
        app.route(f"{API}/exec/{name}/json", json_response({"ExitCode": 7}))
    app.route(API + "/containers/c1/logs", logs)
    app.route(API + "/containers/tty/logs", _tty_logs)
    app.route(API + "/containers/none/json", json_response({"message": "No such container"}, 404))
    app.route(API + "/images/create", pull)
    app.route(API + "/containers/c1/archive", _archive)
    app.route(API + "/events", _events)


def _inspected(name: str) -> Any:
    return {"Id": name, "Config": {"Tty": name == "tty"}, "State": {"Status": "running"}}


def _frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


def _switch(record: Record, conn: AppConnection) -> None:
    assert record.header("upgrade") == "tcp"
    assert record.header("connection") == "Upgrade"
    conn.begin(101, [_RAW, ("Connection", "Upgrade"), ("Upgrade", "tcp")])
    conn.closing = True
    # What came with the head would be lost on http.client, which has read it by then.
    conn.wait_closed(_MOMENT)


def _attach(record: Record, conn: AppConnection) -> None:
    """Send something on both streams; echo input, if allowed, until its end."""
    is_tty = "/tty/" in record.path
    _switch(record, conn)
    if is_tty:
        return conn.send(b"$ raw")
    conn.send(_frame(1, b"out") + _frame(2, b"err"))
    if record.query("stdin") == "1":
        while piece := conn.take_buffered() or conn.sock.recv(65536):
            conn.send(_frame(1, b"<" + piece + b">"))
        conn.send(_frame(1, b"bye"))
    return None


def _create_exec(record: Record, conn: AppConnection) -> None:
    wanted = sent_json(record)
    assert wanted["Cmd"] == ["ls", "-l"]
    reply_json(conn, {"Id": "tty" if wanted["Tty"] else "c1"}, 201)


def _run(record: Record, conn: AppConnection) -> None:
    wanted = sent_json(record)
    if wanted["Detach"]:
        return conn.reply(200, b"")
    _switch(record, conn)
    if wanted["Tty"]:
        return conn.send(b"both of them")
    if conn.take_buffered() == b"quit":
        return conn.send(_frame(1, b"quits"))
    return conn.send(_frame(1, b"out") + _frame(2, b"err") + _frame(1, b"x" * 100000))


def _tty_logs(record: Record, conn: AppConnection) -> None:
    conn.begin(200, [_RAW, ("Connection", "close")])
    conn.closing = True
    conn.send(b"one ")
    conn.wait_closed(_MOMENT)
    conn.send(b"two")


def _events(record: Record, conn: AppConnection) -> None:
    conn.begin(200, [("Content-Type", "application/json"), _CHUNKED])
    conn.chunk(b'{"status": "start"}\r\n')
    conn.stall()


def _archive(record: Record, conn: AppConnection) -> None:
    if record.method == "PUT":
        conn.reply(200, b"")
    else:
        stat = ("X-Docker-Container-Path-Stat", "eyJuYW1lIjoiZiJ9")
        conn.reply(200, b"tar" * 100000, [stat])


_CHUNKED = ("Transfer-Encoding", "chunked")
_RAW = ("Content-Type", "application/vnd.docker.raw-stream")
_MOMENT = 0.2  # seconds


def _works(client: Any, app: AppServer) -> None:
    assert client.containers()[0]["Id"] == "c1"
    assert client.create_container("image", "true", name="x")["Id"] == "c2"
    create = next(record for record in app.requests if record.path.endswith("/create"))
    assert sent_json(create)["Image"] == "image"
    with pytest.raises(docker.errors.NotFound) as caught:
        client.inspect_container("none")
    error: Any = caught.value
    assert "No such container" in str(error)
    assert error.response.status_code == 404
    assert client.logs("c1") == b"a\nb\n"
    client.put_archive("c1", "/", b"tar data")
    assert app.requests[-1].body == b"tar data"
    pieces, stat = client.get_archive("c1", "/f")
    assert b"".join(pieces) == b"tar" * 100000
    assert stat == {"name": "f"}


def talks_over_tcp(app: AppServer) -> None:
    _serve(app)
    client: Any = docker.APIClient(base_url=app.url.replace("http:", "tcp:"), version="auto")
    _works(client, app)
    client.close()


def streams_json_over_tcp(app: AppServer) -> None:
    _serve(app)
    client: Any = docker.APIClient(base_url=app.url.replace("http:", "tcp:"), version="1.44")
    assert list(client.pull("image", tag="1", stream=True, decode=True)) == LINES
    client.close()


def streams_logs_over_tcp(app: AppServer) -> None:
    _serve(app)
    client: Any = docker.APIClient(base_url=app.url.replace("http:", "tcp:"), version="1.44")
    assert list(client.logs("c1", stream=True)) == [b"a\n", b"b\n"]
    client.close()


def talks_over_a_unix_socket(app: AppServer) -> None:
    _serve(app)
    with _unix_socket(app) as path:
        client: Any = docker.APIClient(base_url=f"unix://{path}", version="auto")
        _works(client, app)
        assert list(client.pull("image", tag="1", stream=True, decode=True)) == LINES
        assert list(client.logs("c1", stream=True)) == [b"a\n", b"b\n"]
        client.close()


def attaches_and_runs_over_tcp(app: AppServer) -> None:
    _serve(app)
    with _client(app.url.replace("http:", "tcp:")) as client:
        _attaches(client)
        _runs(client)
        _follows(client)


def attaches_and_runs_over_tls(app: AppServer) -> None:
    directory = Path("certs")
    directory.mkdir(exist_ok=True)
    certs = Certs(directory)
    cert = str(certs.client_cert_path().resolve())
    tls = docker.tls.TLSConfig((cert, cert), ca_cert=str(certs.ca_path.resolve()), verify=True)
    with AppServer(certs.client_auth_context()) as server:
        _serve(server)
        with _client(server.url.replace("https:", "tcp:"), tls=tls) as client:
            _attaches(client, ends_writing=False)
            _runs(client)
            _follows(client)
        assert {handshake.peer for handshake in server.handshakes} == {"client A"}


def attaches_and_runs_over_a_unix_socket(app: AppServer) -> None:
    _serve(app)
    with _unix_socket(app) as path, _client(f"unix://{path}") as client:
        _attaches(client)
        _runs(client)
        _follows(client)


@contextmanager
def _client(url: str, **settings: Any) -> Iterator[Any]:
    client: Any = docker.DockerClient(base_url=url, version="1.44", **settings)
    yield client
    client.close()


def _attaches(client: Any, *, ends_writing: bool = True) -> None:
    container, with_tty = client.containers.get("c1"), client.containers.get("tty")
    assert container.attach() == b"outerr"
    assert container.attach(demux=True) == (b"out", b"err")
    assert list(container.attach(stream=True)) == [b"out", b"err"]
    assert list(with_tty.attach(stream=True, demux=True)) == [(b"$ raw", None)]

    stream = container.attach_socket(params={"stdin": 1, "stdout": 1, "stream": 1})
    sock = getattr(stream, "_sock", stream)
    frames = _frames(sock)
    assert [next(frames), next(frames)] == [(1, b"out"), (2, b"err")]
    sock.sendall(b"hello")
    assert next(frames) == (1, b"<hello>")
    assert sock.send(b"again") == 5
    assert next(frames) == (1, b"<again>")
    if ends_writing:  # Python's TLS cannot end one direction alone
        sock.shutdown(socket.SHUT_WR)
        assert list(frames) == [(1, b"bye")]
    stream._response.close()


def _frames(sock: Any) -> Iterator[tuple[int, bytes]]:
    """Read frames, without a wait for the socket before: Python's TLS holds back what came."""
    while header := _exactly(sock, 8):
        stream, size = struct.unpack(">BxxxL", header)
        yield stream, _exactly(sock, size)


def _exactly(sock: Any, size: int) -> bytes:
    found = b""
    while len(found) < size and (piece := sock.recv(size - len(found))):
        found += piece
    return found


def _runs(client: Any) -> None:
    container = client.containers.get("c1")
    much = b"x" * 100000
    assert container.exec_run(["ls", "-l"]) == (7, b"outerr" + much)
    assert container.exec_run("ls -l", demux=True) == (7, (b"out" + much, b"err"))
    assert container.exec_run("ls -l", tty=True) == (7, b"both of them")
    assert container.exec_run("ls -l", detach=True) == (7, "")
    streamed = container.exec_run("ls -l", stream=True).output
    assert b"".join(streamed) == b"outerr" + much
    demuxed = list(container.exec_run("ls -l", stream=True, demux=True).output)
    assert demuxed[:2] == [(b"out", None), (None, b"err")]
    assert b"".join(piece for piece, _ in demuxed[2:]) == much
    streamed = container.exec_run("ls -l", stream=True).output
    assert next(streamed) == b"out"
    streamed.close()

    stream = container.exec_run("ls -l", stdin=True, socket=True).output
    sock = getattr(stream, "_sock", stream)
    sock.sendall(b"quit")
    assert list(_frames(sock)) == [(1, b"quits")]
    stream._response.close()


def _follows(client: Any) -> None:
    container, with_tty = client.containers.get("c1"), client.containers.get("tty")
    assert list(container.logs(stream=True, follow=True)) == [b"a\n", b"b\n"]
    assert b"".join(with_tty.logs(stream=True, follow=True)) == b"one two"
    client.api.timeout = _MOMENT / 2  # which a stream may exceed
    assert list(container.logs(stream=True, follow=True)) == [b"a\n", b"b\n"]
    client.api.timeout = 60
    events = client.events(decode=True)
    assert next(events) == {"status": "start"}
    closing = threading.Timer(_MOMENT, events.close)
    closing.start()
    assert list(events) == []
    closing.join()


@contextmanager
def _unix_socket(app: AppServer) -> Iterator[str]:
    """Yield the path of a socket whose connections lead to the server's port."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listening:
        path = os.path.join(directory, "docker.sock")
        listening.bind(path)
        listening.listen()
        threading.Thread(target=_accept, args=(listening, app.port), daemon=True).start()
        yield path
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            near = listening.accept()[0]
            far = socket.create_connection(("127.0.0.1", port))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
