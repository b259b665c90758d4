"""internetarchive: subclasses of Session, Request and PreparedRequest; uploads; resumed downloads.

Its host is fixed, so the fake service is reached as a proxy.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import internetarchive
import requests

from tests.ecosystem.fakes import in_turn, json_response, naps, reply_json
from tests.servers import AppConnection, AppServer, Record

logging.disable(logging.CRITICAL)
CONTENT = bytes(range(256)) * 400


def _session(app: AppServer) -> Any:
    config = {"general": {"secure": False}, "s3": {"access": "key", "secret": "s3cret"}}
    session: Any = internetarchive.get_session(config=config)
    session.proxies = {"http": app.url}
    return session


def _serve_item(app: AppServer) -> None:
    files = [
        {
            "name": "a.bin",
            "size": str(len(CONTENT)),
            "md5": hashlib.md5(CONTENT, usedforsecurity=False).hexdigest(),
            "mtime": "1700000000",
            "format": "Data",
            "source": "original",
        }
    ]
    metadata = {"identifier": "item", "title": "é", "mediatype": "data"}
    item = {"metadata": metadata, "files": files, "server": "s", "dir": "/d", "created": 1}

    def respond(record: Record, conn: AppConnection) -> None:
        if record.method == "POST":
            reply_json(conn, {"success": True, "task_id": 1})
        else:
            reply_json(conn, item)

    app.route("/metadata/item", respond)


def reads_and_modifies_metadata(app: AppServer) -> None:
    _serve_item(app)
    session = _session(app)
    item = session.get_item("item")
    assert item.metadata["title"] == "é"
    assert app.requests[0].target == "http://archive.org/metadata/item"
    assert app.requests[0].header("authorization") == "LOW key:s3cret"
    assert (app.requests[0].header("user-agent") or "").startswith("internetarchive/")
    response = item.modify_metadata({"title": "ü"})
    assert response.status_code == 200
    post = next(record for record in app.requests if record.method == "POST")
    assert b"-patch=" in post.body
    assert b"access=key" in post.body
    assert isinstance(response.request, requests.PreparedRequest)


def uploads(app: AppServer) -> None:
    def store(record: Record, conn: AppConnection) -> None:
        conn.reply(200, b"")

    def slow_down(record: Record, conn: AppConnection) -> None:
        conn.reply(503, b"<Error>SlowDown</Error>")

    _serve_item(app)
    app.route("/item/ä b.bin", store)
    app.route("/item", in_turn(slow_down, store))
    app.route("/", json_response({"over_limit": 0}))
    Path("a.bin").write_bytes(CONTENT)
    item = _session(app).get_item("item")
    with naps("internetarchive.item.sleep") as slept:
        metadata = {"title": "é", "subject": ["a", "b"]}
        response = item.upload_file(
            "a.bin", key="new.bin", metadata=metadata, verify=True, retries=2, retries_sleep=7
        )
    assert response.status_code == 200
    assert slept == [7]
    puts = [record for record in app.requests if record.method == "PUT"]
    assert len(puts) == 2
    for put in puts:
        assert put.target == "http://s3.us.archive.org/item/new.bin"
        assert put.body == CONTENT
        assert put.header("content-length") == str(len(CONTENT))
        assert put.header("transfer-encoding") is None
        assert put.header("x-archive-meta00-title") == "uri(%C3%A9)"
        assert put.header("x-archive-meta01-subject") == "b"
        assert put.header("authorization") == "LOW key:s3cret"
    Path("empty.bin").write_bytes(b"")
    item.upload_file("empty.bin", key="empty.bin")
    empty = app.requests[-1]
    assert (empty.body, empty.header("content-length")) == (b"", "0")
    assert empty.header("transfer-encoding") is None


def downloads_and_resumes(app: AppServer) -> None:
    def download(record: Record, conn: AppConnection) -> None:
        wanted = record.header("range")
        headers = [("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"), ("ETag", '"1"')]
        if wanted:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            span = ("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
            conn.reply(206, CONTENT[start:], [*headers, span])
        else:
            conn.reply(200, CONTENT, headers)

    _serve_item(app)
    app.route("/download/item/a.bin", download)
    item = _session(app).get_item("item")
    file = item.get_file("a.bin")
    assert file.download(destdir="out")
    path = Path("out/a.bin")
    assert path.read_bytes() == CONTENT
    path.write_bytes(CONTENT[:1000])
    assert file.download(destdir="out")
    assert path.read_bytes() == CONTENT
    assert app.requests[-1].header("range") in {"bytes=1000-", None}
    response = file.download(return_responses=True)
    assert b"".join(response.iter_content(1000)) == CONTENT


def searches_by_cursor(app: AppServer) -> None:
    def scrape(record: Record, conn: AppConnection) -> None:
        first = not record.query("cursor")
        found: dict[str, Any] = {"items": [{"identifier": "a" if first else "b"}], "total": 2}
        if first:
            found["cursor"] = "next"
        if record.query("total_only"):
            found = {"items": [], "total": 2}
        reply_json(conn, found)

    app.route("/services/search/v1/scrape", scrape)
    search = _session(app).search_items("title:é")
    assert [found["identifier"] for found in search] == ["a", "b"]
    assert search.num_found == 2
    assert json.dumps(app.requests[0].pairs).count("title:") == 1
    assert all(record.target.startswith("http://archive.org/") for record in app.requests)


def retries_on_status(app: AppServer) -> None:
    _serve_item(app)
    good = app.routes["/metadata/item"]
    app.route("/metadata/item", in_turn(json_response({}, 503, [("Retry-After", "2")]), good))
    with naps() as slept:
        assert _session(app).get_item("item").exists
    assert slept == [2]
    assert len(app.requests) == 2
