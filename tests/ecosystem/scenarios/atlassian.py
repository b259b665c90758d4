"""atlassian-python-api: one session for Jira and Confluence, its own retries, uploads of files."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pytest
import requests
from atlassian import Confluence, Jira

from tests.ecosystem.fakes import in_turn, json_response, naps, parts, reply_json
from tests.servers import AppConnection, AppServer, Record

logging.disable(logging.CRITICAL)


def searches_and_reads(app: AppServer) -> None:
    app.route("/rest/api/2/search", json_response({"issues": [{"key": "P-1"}], "total": 1}))
    app.route("/rest/api/2/issue/P-1", json_response({"key": "P-1", "fields": {"summary": "é"}}))
    with Jira(url=app.url, username="u", password="p", cloud=False) as client:
        jira: Any = client
        assert jira.jql("project = P & é")["issues"][0]["key"] == "P-1"
        assert jira.issue("P-1")["fields"]["summary"] == "é"
    assert app.requests[0].query("jql") == "project = P & é"
    assert app.requests[0].header("authorization") == "Basic dTpw"
    assert app.connections == 1


def retries_an_upload_from_its_start(app: AppServer) -> None:
    busy = json_response({}, 503)
    app.route("/rest/api/2/issue/P-1/attachments", in_turn(busy, json_response([{"id": "1"}])))
    Path("n.txt").write_bytes(b"content")
    jira: Any = Jira(url=app.url, token="t0ken", backoff_and_retry=True, max_backoff_retries=2)
    with naps():
        assert jira.add_attachment("P-1", "n.txt")
    assert len(app.requests) == 2
    for record in app.requests:
        assert parts(record)["file"] == ("n.txt", None, b"content")
        assert record.header("x-atlassian-token") == "no-check"
        assert record.header("authorization") == "Bearer t0ken"


def reads_and_writes_pages(app: AppServer) -> None:
    def content(record: Record, conn: AppConnection) -> None:
        if record.method == "POST":
            return reply_json(conn, {"id": "7", "sent": record.body.decode()})
        return reply_json(conn, {"results": [{"id": "7", "title": record.query("title")}]})

    app.route("/rest/api/content", content)
    app.route("/rest/api/content/7/child/attachment", json_response({"results": [{"id": "a"}]}))
    confluence: Any = Confluence(url=app.url, cookies={"s": "1"}, cloud=False)
    assert confluence.get_page_by_title("S", "é")["results"][0]["title"] == "é"
    assert '"title": "\\u00e9"' in confluence.create_page("S", "é", "<p/>")["sent"]
    confluence.attach_content(io.BytesIO(b"data"), "d.bin", "application/x-kind", page_id="7")
    upload = next(record for record in reversed(app.requests) if record.method == "POST")
    assert parts(upload)["file"].content == b"data"
    assert {record.header("cookie") for record in app.requests} == {"s=1"}


def tells_errors(app: AppServer) -> None:
    error = {"errorMessages": ["no such issue"], "errors": {"f": "bad"}}
    app.route("/rest/api/2/issue/P-9", json_response(error, 404))
    jira: Any = Jira(url=app.url, username="u", password="p")
    with pytest.raises(requests.HTTPError) as caught:
        jira.issue("P-9")
    failed: Any = caught.value
    assert "no such issue" in str(failed)
    assert failed.response.status_code == 404
    raw = jira.get("rest/api/2/issue/P-9", advanced_mode=True)
    assert isinstance(raw, requests.Response)
    assert raw.status_code == 404
