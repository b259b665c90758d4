"""Shared by the fake services of the scenarios: JSON responses, form parsing, a server on TLS."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from urllib.parse import parse_qsl

import requests

from tests.servers import AppConnection, AppServer, Certs, Record

Answer = Callable[[Record, AppConnection], None]
Fields = Iterable[tuple[str, str]]
JSON = ("Content-Type", "application/json")
ON_CURLHTTP = requests.Session.__module__.startswith("curlhttp.")


def reply_json(conn: AppConnection, value: Any, status: int = 200, headers: Fields = ()) -> None:
    """Respond with a value as JSON."""
    conn.reply(status, json.dumps(value).encode(), [JSON, *headers])


def json_response(value: Any, status: int = 200, headers: Fields = ()) -> Answer:
    """Return a route that always responds with the same value."""

    def respond(record: Record, conn: AppConnection) -> None:
        reply_json(conn, value, status, headers)

    return respond


def in_turn(*responses: Answer) -> Answer:
    """Return a route that responds to each request with the next value, and repeats the last."""
    left = list(responses)

    def respond(record: Record, conn: AppConnection) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(record, conn)

    return respond


def form(record: Record) -> dict[str, str]:
    """Return the fields of a form that was sent."""
    assert record.header("content-type") == "application/x-www-form-urlencoded", record.headers
    return dict(parse_qsl(record.body.decode("ascii"), keep_blank_values=True))


def sent_json(record: Record) -> Any:
    """Return the JSON that was sent."""
    assert (record.header("content-type") or "").startswith("application/json"), record.headers
    return json.loads(record.body)


class Part(NamedTuple):
    """One part of a multipart/form-data body."""

    filename: str | None
    content_type: str | None
    content: bytes


def parts(record: Record) -> dict[str, Part]:
    """Return the parts of a multipart body by their names."""
    kind = record.header("content-type") or ""
    found = re.fullmatch(r'multipart/form-data; boundary="?([^"]+)"?', kind)
    assert found, kind
    boundary = b"--" + found[1].encode()
    pieces = record.body.split(boundary)
    assert pieces[0] == b"", pieces[0]
    assert pieces[-1] == b"--\r\n", pieces[-1]
    result = {}
    for piece in pieces[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = re.search(rb'; name="([^"]*)"', head)
        filename = re.search(rb'; filename="([^"]*)"', head)
        content_type = re.search(rb"(?i)content-type: (.*)", head)
        assert name, head
        result[name[1].decode()] = Part(
            filename[1].decode() if filename else None,
            content_type[1].strip().decode() if content_type else None,
            content.removesuffix(b"\r\n"),
        )
    return result


class TLSApp(NamedTuple):
    """A server on TLS, with the path of the authority that signed for it."""

    app: AppServer
    ca: str
    certs: Certs


@contextmanager
def tls_app(*names: str) -> Iterator[TLSApp]:
    """Serve on TLS, with a certificate for loopback and the extra `names`."""
    directory = Path("certs")
    directory.mkdir(exist_ok=True)
    certs = Certs(directory)
    with AppServer(certs.server_context(*names)) as app:
        yield TLSApp(app, str(certs.ca_path.resolve()), certs)


@contextmanager
def naps(name: str = "time.sleep") -> Iterator[list[float]]:
    """Let sleeping return at once; yields how long was asked for.

    Args:
        name: another one for modules that import `sleep` by name.
    """
    asked: list[float] = []
    with mock.patch(name, asked.append):
        yield asked
