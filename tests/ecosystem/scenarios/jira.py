"""jira: a Session subclass with its own retries and hooks, cookie auth, attachments."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from jira import JIRA, JIRAError

from tests.ecosystem.fakes import in_turn, json_response, naps, parts, reply_json, sent_json
from tests.servers import AppConnection, AppServer, Record

logging.disable(logging.CRITICAL)
API = "/rest/api/2"


def _serve(app: AppServer) -> None:
    info = {"baseUrl": app.url, "versionNumbers": [9, 12, 0], "deploymentType": "Server"}
    app.route(API + "/serverInfo", json_response(info))
    app.route(
        API + "/field", json_response([{"id": "summary", "name": "Summary", "custom": False}])
    )


def searches_in_pages(app: AppServer) -> None:
    def search(record: Record, conn: AppConnection) -> None:
        start = int(record.query("startAt", "0"))
        keys = [f"P-{n}" for n in range(start, min(start + 2, 5))]
        issues = [{"id": key, "key": key, "fields": {"summary": "é"}} for key in keys]
        found = {"startAt": start, "maxResults": 2, "total": 5, "issues": issues}
        reply_json(conn, found)

    _serve(app)
    app.route(API + "/search", search)
    client: Any = JIRA(app.url, basic_auth=("u", "p"))
    issues = client.search_issues("project = P", maxResults=False)
    assert [issue.key for issue in issues] == ["P-0", "P-1", "P-2", "P-3", "P-4"]
    assert issues[0].fields.summary == "é"
    assert {record.header("authorization") for record in app.requests} == {"Basic dTpw"}
    client.close()


def creates_and_attaches(app: AppServer) -> None:
    _serve(app)
    issue = {"id": "1", "key": "P-1", "self": app.url + API + "/issue/1", "fields": {}}
    app.route(API + "/project/P", json_response({"id": "10", "key": "P"}))
    app.route(API + "/issue", json_response(issue, 201))
    app.route(API + "/issue/P-1", json_response(issue))
    attached = [{"id": "2", "filename": "n.bin", "size": 6, "self": app.url + "/a/2"}]
    busy = json_response({}, 503, [("Retry-After", "1")])
    app.route(API + "/issue/P-1/attachments", in_turn(busy, json_response(attached)))
    Path("n.bin").write_bytes(b"123456")
    client: Any = JIRA(app.url, token_auth="t0ken")
    created = client.create_issue(project="P", summary="é", issuetype={"name": "Bug"})
    assert created.key == "P-1"
    sent = next(record for record in app.requests if record.path == API + "/issue")
    assert sent_json(sent)["fields"]["summary"] == "é"
    with naps() as slept, Path("n.bin").open("rb") as file:
        assert client.add_attachment("P-1", file).filename == "n.bin"
    assert len(slept) == 1
    posts = [record for record in app.requests if record.path.endswith("/attachments")]
    assert len(posts) == 2
    for record in posts:
        part = parts(record)["file"]
        assert part == ("n.bin", "application/octet-stream", b"123456")
        assert record.header("content-length") == str(len(record.body))
        assert record.header("x-atlassian-token") == "no-check"
        assert record.header("authorization") == "Bearer t0ken"
    client.close()


def renews_its_cookie_on_401(app: AppServer) -> None:
    _serve(app)
    logins: list[Any] = []

    def login(record: Record, conn: AppConnection) -> None:
        if record.method == "GET":
            return reply_json(conn, {"name": "me", "self": app.url + "/me"})
        logins.append(json.loads(record.body))
        cookie = f"JSESSIONID=s{len(logins)}; Path=/"
        return reply_json(conn, {"session": {}}, headers=[("Set-Cookie", cookie)])

    def guarded(record: Record, conn: AppConnection) -> None:
        fresh = record.header("cookie") == f"JSESSIONID=s{max(len(logins), 2)}"
        reply_json(conn, {"name": "me"} if fresh else {}, 200 if fresh else 401)

    app.route("/rest/auth/1/session", login)
    app.route(API + "/myself", guarded)
    client: Any = JIRA(app.url, auth=("u", "p"), get_server_info=False)
    assert client.myself() == {"name": "me"}
    assert logins == [{"username": "u", "password": "p"}] * 2
    client.close()


def tells_errors(app: AppServer) -> None:
    _serve(app)
    app.route(API + "/issue/P-9", json_response({"errorMessages": ["no such issue"]}, 404))
    client: Any = JIRA(app.url, max_retries=0)
    with pytest.raises(JIRAError) as caught:
        client.issue("P-9")
    error: Any = caught.value
    assert error.status_code == 404
    assert "no such issue" in str(error)
    assert error.response.headers["Content-Type"] == "application/json"
    client.close()
