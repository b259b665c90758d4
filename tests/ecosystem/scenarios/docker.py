"""docker: over TCP its streams reach into `raw._fp`; on a Unix socket it brings its own pools."""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import docker
import pytest

from tests.ecosystem.fakes import json_answer, sent_json
from tests.servers import AppConnection, AppServer, Record

BESIDE_CURLHTTP = {"talks_over_a_unix_socket"}  # these pools are urllib3's own
API = "/v1.44"
LINES = [{"status": "Pulling"}, {"status": "Dône", "id": "a"}]


def _serve(app: AppServer) -> None:
    def pull(record: Record, conn: AppConnection) -> None:
        if conn.begin(200, [("Content-Type", "application/json"), _CHUNKED]):
            for line in LINES:
                conn.chunk(json.dumps(line).encode() + b"\r\n")
            conn.chunk(b"")

    def logs(record: Record, conn: AppConnection) -> None:
        frames = b"".join(struct.pack(">BxxxL", 1, len(data)) + data for data in (b"a\n", b"b\n"))
        kind = ("Content-Type", "application/vnd.docker.raw-stream")
        if conn.begin(200, [kind, _CHUNKED]):
            conn.chunk(frames)
            conn.chunk(b"")

    app.route("/version", json_answer({"ApiVersion": "1.44", "Version": "27"}))
    app.route(API + "/containers/json", json_answer([{"Id": "c1", "Names": ["/x"]}]))
    app.route(API + "/containers/create", json_answer({"Id": "c2", "Warnings": []}, 201))
    app.route(API + "/containers/c1/json", json_answer({"Id": "c1", "Config": {"Tty": False}}))
    app.route(API + "/containers/c1/logs", logs)
    app.route(API + "/containers/none/json", json_answer({"message": "No such container"}, 404))
    app.route(API + "/images/create", pull)
    app.route(API + "/containers/c1/archive", _archive)


def _archive(record: Record, conn: AppConnection) -> None:
    if record.method == "PUT":
        conn.reply(200, b"")
    else:
        stat = ("X-Docker-Container-Path-Stat", "eyJuYW1lIjoiZiJ9")
        conn.reply(200, b"tar" * 100000, [stat])


_CHUNKED = ("Transfer-Encoding", "chunked")


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
