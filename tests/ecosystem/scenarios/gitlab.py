"""python-gitlab: one session, pages by Link headers, uploads through MultipartEncoder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gitlab
import pytest

from tests.ecosystem.fakes import in_turn, json_response, naps, parts, reply_json, sent_json
from tests.servers import AppConnection, AppServer, Record

API = "/api/v4"


def follows_pages(app: AppServer) -> None:
    def projects(record: Record, conn: AppConnection) -> None:
        page = int(record.query("page", "1"))
        headers = [("X-Page", str(page)), ("X-Total", "5"), ("X-Per-Page", "2")]
        if page < 3:
            url = f"{app.url}{API}/projects?per_page=2&page={page + 1}"
            headers.append(("Link", f'<{url}>; rel="next"'))
        found = [{"id": n} for n in range(2 * page - 1, min(2 * page, 5) + 1)]
        reply_json(conn, found, headers=headers)

    app.route(API + "/projects", projects)
    with gitlab.Gitlab(app.url, private_token="t0ken") as client:
        found: Any = client.projects.list(iterator=True, per_page=2)
        assert found.total == 5
        assert [project.id for project in found] == [1, 2, 3, 4, 5]
    assert [record.header("private-token") for record in app.requests] == ["t0ken"] * 3
    assert app.connections == 1


def uploads_files(app: AppServer) -> None:
    app.route(API + "/projects/1", json_response({"id": 1}))
    app.route(API + "/projects/1/uploads", json_response({"alt": "a", "url": "u", "markdown": "m"}))
    app.route(API + "/projects/1/packages/generic/p/1.0/f.bin", json_response({"message": "201"}))
    Path("f.bin").write_bytes(b"\x00\xff" * 40000)
    with gitlab.Gitlab(app.url, oauth_token="o4uth") as client:
        project: Any = client.projects.get(1)
        assert project.upload("näme.txt", filedata=b"content")["url"] == "u"
        project.generic_packages.upload("p", "1.0", "f.bin", path="f.bin")
    upload, package = app.requests[1:]
    assert parts(upload)["file"].content == b"content"
    assert upload.header("content-length") == str(len(upload.body))
    assert upload.header("authorization") == "Bearer o4uth"
    assert package.method == "PUT"
    assert package.body == b"\x00\xff" * 40000
    assert package.header("content-length") == "80000"


def streams_downloads(app: AppServer) -> None:
    def archive(record: Record, conn: AppConnection) -> None:
        conn.reply(200, b"0123456789" * 1000, [("Content-Type", "application/zip")])

    app.route(API + "/projects/1", json_response({"id": 1}))
    app.route(API + "/projects/1/repository/archive", archive)
    with gitlab.Gitlab(app.url) as client:
        project: Any = client.projects.get(1)
        pieces: list[bytes] = []
        project.repository_archive(streamed=True, action=pieces.append, chunk_size=1024)
        assert b"".join(pieces) == b"0123456789" * 1000
        assert len(pieces) == 10
        assert b"".join(project.repository_archive(iterator=True)) == b"".join(pieces)


def retries_and_tells_errors(app: AppServer) -> None:
    busy = json_response({}, 429, [("Retry-After", "3")])
    app.route(API + "/user", in_turn(busy, json_response({}, 502), json_response({"id": 9})))
    app.route(API + "/projects", json_response({"message": {"name": ["taken"]}}, 400))
    with gitlab.Gitlab(app.url, retry_transient_errors=True) as client, naps() as slept:
        client.auth()
        assert client.user is not None
        assert len(slept) == 2
        assert slept[0] == 3
        with pytest.raises(gitlab.GitlabCreateError) as caught:
            client.projects.create({"name": "é"})
        error: Any = caught.value
        assert error.response_code == 400
        assert "taken" in str(error)
        assert sent_json(app.requests[-1]) == {"name": "é"}


def refuses_redirected_writes_and_retries_broken_connections(app: AppServer) -> None:
    def leave(record: Record, conn: AppConnection) -> None:
        conn.closing = True
        conn.close()

    def moved(record: Record, conn: AppConnection) -> None:
        conn.reply(301, b"", [("Location", app.url + API + "/end")])

    app.route(API + "/version", in_turn(leave, json_response({"version": "1", "revision": "2"})))
    app.route(API + "/projects", moved)
    app.route(API + "/end", json_response({}))
    with gitlab.Gitlab(app.url, retry_transient_errors=True) as client, naps() as slept:
        assert client.version() == ("1", "2")
        assert len(slept) == 1
        with pytest.raises(gitlab.exceptions.RedirectError) as caught:
            client.http_post("/projects", post_data={"a": 1})
        error: Any = caught.value
        assert re.search("301", json.dumps(str(error)))
