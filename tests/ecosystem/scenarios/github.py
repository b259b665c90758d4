"""PyGithub: its own session class on mounted adapters, and a Retry subclass of real urllib3."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pytest
from github import Auth, Github, GithubRetry, UnknownObjectException

from tests.ecosystem.fakes import in_turn, json_response, naps, reply_json, sent_json
from tests.servers import AppConnection, AppServer, Record

logging.disable(logging.CRITICAL)


def _github(app: AppServer, **settings: Any) -> Any:
    settings.setdefault("retry", None)
    return Github(
        base_url=app.url + "/api/v3",
        auth=Auth.Token("t0ken"),
        seconds_between_requests=None,
        seconds_between_writes=None,
        **settings,
    )


def _repo(app: AppServer) -> dict[str, Any]:
    return {"full_name": "o/r", "name": "r", "url": app.url + "/api/v3/repos/o/r"}


def follows_pages(app: AppServer) -> None:
    def issues(record: Record, conn: AppConnection) -> None:
        page = int(record.query("page", "1"))
        found = [{"number": 10 * page + n, "title": f"t{n}"} for n in range(2)]
        base = app.url + "/api/v3/repos/o/r/issues?per_page=2&page="
        links = [f'<{base}{page + 1}>; rel="next"'] if page < 3 else []
        headers = [("Link", ", ".join([*links, f'<{base}3>; rel="last"']))]
        reply_json(conn, found, headers=headers)

    app.route("/api/v3/repos/o/r", json_response(_repo(app)))
    app.route("/api/v3/repos/o/r/issues", issues)
    with _github(app, per_page=2) as github:
        found = github.get_repo("o/r").get_issues()
        assert [issue.number for issue in found] == [10, 11, 20, 21, 30, 31]
        assert found.totalCount in {3, 6}
    assert app.requests[0].header("authorization") == "token t0ken"
    assert app.connections == 1


def creates_and_tells_errors(app: AppServer) -> None:
    app.route("/api/v3/repos/o/r", json_response(_repo(app)))
    app.route("/api/v3/repos/o/r/issues", json_response({"number": 7, "title": "é"}, 201))
    app.route("/api/v3/repos/o/none", json_response({"message": "Not Found"}, 404))
    with _github(app) as github:
        assert github.get_repo("o/r").create_issue("é", body="b").number == 7
        assert sent_json(app.requests[1]) == {"title": "é", "body": "b"}
        with pytest.raises(UnknownObjectException) as caught:
            github.get_repo("o/none")
        error: Any = caught.value
        assert error.status == 404
        assert error.data == {"message": "Not Found"}


def retries_by_its_own_retry(app: AppServer) -> None:
    limited = {"message": "You have exceeded a secondary rate limit. Wait."}
    responses = in_turn(
        json_response({"message": "oops"}, 502),
        json_response(limited, 403),
        json_response({"message": "wait"}, 403, [("Retry-After", "7")]),
        json_response(_repo(app)),
    )
    app.route("/api/v3/repos/o/r", responses)
    with naps() as slept:
        retry = GithubRetry(total=5, backoff_factor=0, secondary_rate_wait=30)
        with _github(app, retry=retry) as github:
            assert github.get_repo("o/r").full_name == "o/r"
    assert len(app.requests) == 4
    assert slept == [30, 7]


def gives_up_retrying(app: AppServer) -> None:
    app.route("/api/v3/repos/o/r", json_response({"message": "oops"}, 503))
    app.route("/api/v3/repos/o/p", json_response({"message": "Must have admin rights"}, 403))
    retry = GithubRetry(total=2, backoff_factor=0)
    with naps(), _github(app, retry=retry) as github:
        for name, requests in (("o/r", 3), ("o/p", 1)):
            app.requests.clear()
            with pytest.raises(Exception) as caught:
                github.get_repo(name)
            error: Any = caught.value
            assert type(error).__name__ in {"RetryError", "GithubException"}, repr(error)
            assert len(app.requests) == requests, name


def uploads_an_asset(app: AppServer) -> None:
    release = {
        "id": 1,
        "tag_name": "v1",
        "url": app.url + "/api/v3/repos/o/r/releases/1",
        "upload_url": app.url + "/api/uploads/assets{?name,label}",
    }
    app.route("/api/v3/repos/o/r", json_response(_repo(app)))
    app.route("/api/v3/repos/o/r/releases/1", json_response(release))
    app.route("/api/uploads/assets", json_response({"name": "a.bin"}, 201))
    Path("a.bin").write_bytes(b"\x00\x01" * 5000)
    with _github(app) as github:
        found = github.get_repo("o/r").get_release(1)
        assert found.upload_asset("a.bin", label="é").name == "a.bin"
        found.upload_asset_from_memory(io.BytesIO(b"memory"), 6, "m.bin", "text/x-kind")
    file, memory = app.requests[-2:]
    assert file.body == b"\x00\x01" * 5000
    assert file.header("content-length") == "10000"
    assert file.header("transfer-encoding") is None
    assert file.query("label") == "é"
    assert (memory.body, memory.header("content-type")) == (b"memory", "text/x-kind")
