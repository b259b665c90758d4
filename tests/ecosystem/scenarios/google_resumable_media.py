"""google-resumable-media: uploads and downloads in chunks, and checksums of coded data."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
from typing import Any

import brotli
import pytest
import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials
from google.resumable_media import DataCorruption, InvalidResponse
from google.resumable_media.requests import (
    ChunkedDownload,
    Download,
    MultipartUpload,
    RawDownload,
    ResumableUpload,
    SimpleUpload,
)

from tests.ecosystem.fakes import Answer, in_turn, json_response, reply_json
from tests.servers import AppConnection, AppServer, Record

CHUNK = 256 * 1024
CONTENT = bytes(range(256)) * 2500  # two chunks and a half


def _session() -> Any:
    credentials: Any = Credentials("token")
    return AuthorizedSession(credentials)


def _hash(content: bytes) -> tuple[str, str]:
    return "X-Goog-Hash", "md5=" + base64.b64encode(hashlib.md5(content).digest()).decode()


def _reply(content: bytes, *headers: tuple[str, str]) -> Answer:
    return lambda record, conn: conn.reply(200, content, headers)


def _serve_uploads(app: AppServer) -> bytearray:
    stored = bytearray()

    def begin(record: Record, conn: AppConnection) -> None:
        assert record.header("x-upload-content-type") == "application/x", record.headers
        conn.reply(200, b"", [("Location", app.url + "/session")])

    def take(record: Record, conn: AppConnection) -> None:
        found = re.fullmatch(
            r"bytes (?:(\d+)-(\d+)|\*)/(\*|\d+)", record.header("content-range") or ""
        )
        assert found, record.headers
        if found[1] is not None:
            assert int(found[1]) == len(stored)
            stored.extend(record.body)
        if found[3] == str(len(stored)):
            return reply_json(conn, {"size": len(stored)})
        held = [("Range", f"bytes=0-{len(stored) - 1}")] if stored else []
        return conn.reply(308, b"", held)

    app.route("/begin", begin)
    app.route("/session", take)
    return stored


def uploads_in_chunks(app: AppServer) -> None:
    stored = _serve_uploads(app)
    with _session() as session:
        upload: Any = ResumableUpload(app.url + "/begin", CHUNK)
        upload.initiate(session, io.BytesIO(CONTENT), {"name": "x"}, "application/x")
        while not upload.finished:
            response = upload.transmit_next_chunk(session)
        assert response.json() == {"size": len(CONTENT)}
    assert stored == CONTENT
    assert {record.header("authorization") for record in app.requests} == {"Bearer token"}
    assert len(app.requests) == 4


def goes_on_after_an_error(app: AppServer) -> None:
    stored = _serve_uploads(app)
    take = app.routes["/session"]
    app.route("/session", in_turn(take, json_response({}, 400), take))
    with _session() as session:
        upload: Any = ResumableUpload(app.url + "/begin", CHUNK)
        upload.initiate(session, io.BytesIO(CONTENT), {}, "application/x")
        upload.transmit_next_chunk(session)
        with pytest.raises(InvalidResponse):
            upload.transmit_next_chunk(session)
        assert upload.invalid
        upload.recover(session)
        while not upload.finished:
            upload.transmit_next_chunk(session)
    assert stored == CONTENT


def uploads_at_once(app: AppServer) -> None:
    session: Any = requests.Session()
    with session:
        SimpleUpload(app.url + "/echo").transmit(session, b"data", "text/plain")
        upload: Any = MultipartUpload(app.url + "/echo", checksum="md5")
        upload.transmit(session, b"data", {"name": "x"}, "text/plain")
    assert app.requests[0].body == b"data"
    assert b"md5Hash" in app.requests[1].body
    assert (app.requests[1].header("content-type") or "").startswith("multipart/related")


def downloads_in_chunks(app: AppServer) -> None:
    def part(record: Record, conn: AppConnection) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", record.header("range") or "")
        assert found, record.headers
        piece = CONTENT[int(found[1]) : int(found[2]) + 1]
        end = int(found[1]) + len(piece) - 1
        conn.reply(206, piece, [("Content-Range", f"bytes {found[1]}-{end}/{len(CONTENT)}")])

    app.route("/object", part)
    file = io.BytesIO()
    with _session() as session:
        download: Any = ChunkedDownload(app.url + "/object", CHUNK, file)
        while not download.finished:
            download.consume_next_chunk(session)
    assert file.getvalue() == CONTENT
    assert len(app.requests) == 3


def checks_what_it_downloads(app: AppServer) -> None:
    app.route("/good", _reply(CONTENT, _hash(CONTENT)))
    app.route("/bad", _reply(CONTENT, _hash(b"another")))
    with _session() as session:
        file = io.BytesIO()
        Download(app.url + "/good", stream=file).consume(session)
        assert file.getvalue() == CONTENT
        assert Download(app.url + "/good").consume(session).content == CONTENT
        with pytest.raises(DataCorruption):
            Download(app.url + "/bad", stream=io.BytesIO()).consume(session)


def checks_a_coded_body_as_it_came(app: AppServer) -> None:
    for coding, coded in (("gzip", gzip.compress(CONTENT)), ("br", brotli.compress(CONTENT))):
        app.route("/coded", _reply(coded, ("Content-Encoding", coding), _hash(coded)))
        with _session() as session:
            file, raw = io.BytesIO(), io.BytesIO()
            Download(app.url + "/coded", stream=file).consume(session)
            RawDownload(app.url + "/coded", stream=raw).consume(session)
        assert file.getvalue() == CONTENT
        assert raw.getvalue() == coded
