"""huggingface_hub before 1: what a hub has, downloads that continue where they stopped, uploads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import requests

from tests.ecosystem.fakes import json_response, reply_json, sent_json
from tests.servers import AppConnection, AppServer, Record

os.environ["HF_HUB_DISABLE_XET"] = os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

from huggingface_hub import (
    HfApi,
    HfFileSystem,
    InferenceClient,
    configure_http_backend,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
)

CONTENT = bytes(range(256)) * 4000
COMMIT = "c" * 40
_COMMIT_URL = "https://huggingface.co/me/repo/commit/1"  # whatever the endpoint is


def _serve_a_file(app: AppServer, content: bytes = CONTENT, broken: int = 0) -> None:
    """Serve model.bin; the first `broken` responses to GET end in the middle of the body."""
    left = [broken]

    def resolve(record: Record, conn: AppConnection) -> None:
        if not record.path.endswith("/model.bin"):
            return conn.reply(404, b"", [("X-Error-Code", "EntryNotFound")])
        etag = ("ETag", '"' + hashlib.sha256(content).hexdigest() + '"')
        fields = [etag, ("X-Repo-Commit", COMMIT), ("Accept-Ranges", "bytes")]
        found = re.fullmatch(r"bytes=(\d+)-", record.header("range") or "")
        piece = content[int(found[1]) :] if found else content
        if record.method == "GET" and left[0]:
            left[0] -= 1
            conn.begin(200, [*fields, ("Content-Length", str(len(piece)))])
            conn.send(piece[: len(piece) // 2])
            return conn.close()
        return conn.reply(206 if found else 200, piece, fields)

    app.route("/me/repo/resolve/main", resolve)
    app.route(f"/me/repo/resolve/{COMMIT}", resolve)
    for name in ("model.bin", "absent"):
        for revision in ("main", COMMIT):
            app.route(f"/me/repo/resolve/{revision}/{name}", resolve)


def _api(app: AppServer) -> Any:
    return HfApi(endpoint=app.url, token="hf_token")


def asks_what_there_is(app: AppServer) -> None:
    app.route("/api/whoami-v2", json_response({"name": "me", "type": "user"}))
    app.route("/api/models/me/repo", json_response({"id": "me/repo", "sha": COMMIT, "tags": ["x"]}))
    following = f'<{app.url}/api/more>; rel="next"'
    app.route("/api/models", json_response([{"id": "me/a"}], 200, [("Link", following)]))
    app.route("/api/more", json_response([{"id": "me/b"}]))
    api = _api(app)
    assert api.whoami()["name"] == "me"
    assert api.model_info("me/repo").sha == COMMIT
    assert [model.id for model in api.list_models()] == ["me/a", "me/b"]
    assert {record.header("authorization") for record in app.requests} == {"Bearer hf_token"}


def tells_errors(app: AppServer) -> None:
    app.route(
        "/api/models/me/absent",
        json_response({"error": "no"}, 404, [("X-Error-Code", "RepoNotFound")]),
    )
    app.route("/api/models/me/bad", json_response({"error": "bad things"}, 400))
    with pytest.raises(RepositoryNotFoundError):
        _api(app).model_info("me/absent")
    with pytest.raises(HfHubHTTPError, match="bad things") as caught:
        _api(app).model_info("me/bad")
    assert isinstance(caught.value, requests.HTTPError)
    _serve_a_file(app)
    with pytest.raises(EntryNotFoundError):
        hf_hub_download("me/repo", "absent", endpoint=app.url, cache_dir="cache")


def downloads_a_file_once(app: AppServer) -> None:
    _serve_a_file(app)
    settings: Any = {"endpoint": app.url, "cache_dir": "cache"}
    path = hf_hub_download("me/repo", "model.bin", **settings)
    assert Path(path).read_bytes() == CONTENT
    assert hf_hub_download("me/repo", "model.bin", **settings) == path
    assert [record.method for record in app.requests] == ["HEAD", "GET", "HEAD"]


@mock.patch("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)  # requests keeps whole ones
def goes_on_where_a_download_stopped(app: AppServer) -> None:
    _serve_a_file(app, broken=1)
    settings: Any = {"endpoint": app.url, "local_dir": "local"}
    with pytest.raises(requests.exceptions.ChunkedEncodingError, match="IncompleteRead"):
        hf_hub_download("me/repo", "model.bin", **settings)
    path = hf_hub_download("me/repo", "model.bin", **settings)
    assert Path(path).read_bytes() == CONTENT
    assert app.requests[-1].header("range") == f"bytes={len(CONTENT) // 2}-"


def downloads_a_snapshot(app: AppServer) -> None:
    _serve_a_file(app)
    info = {"id": "me/repo", "sha": COMMIT, "siblings": [{"rfilename": "model.bin"}]}
    app.route("/api/models/me/repo/revision/main", json_response(info))
    app.route(
        f"/api/models/me/repo/tree/{COMMIT}",
        json_response([{"type": "file", "path": "model.bin", "size": 1, "oid": "o"}]),
    )
    folder = snapshot_download("me/repo", endpoint=app.url, cache_dir="snapshots")
    assert (Path(folder) / "model.bin").read_bytes() == CONTENT


def uploads_a_file(app: AppServer) -> None:
    def commit(record: Record, conn: AppConnection) -> None:
        lines = [json.loads(line) for line in record.body.splitlines()]
        assert lines[1]["key"] == "file"
        assert base64.b64decode(lines[1]["value"]["content"]) == b"some text"
        reply_json(conn, {"commitUrl": _COMMIT_URL, "commitOid": COMMIT})

    app.route("/api/models/me/repo/preupload/main", _mode("regular"))
    app.route("/api/models/me/repo/commit/main", commit)
    app.route("/api/repos/create", json_response({"url": app.url + "/me/repo"}))
    api = _api(app)
    api.create_repo("me/repo", exist_ok=True)
    done = api.upload_file(path_or_fileobj=b"some text", path_in_repo="a.txt", repo_id="me/repo")
    assert done.oid == COMMIT


def uploads_a_large_file_in_parts(app: AppServer) -> None:
    def batch(record: Record, conn: AppConnection) -> None:
        oid = json.loads(record.body)["objects"][0]["oid"]
        urls = {f"{n + 1:05}": f"{app.url}/part{n}" for n in range(3)}
        upload = {"href": app.url + "/complete", "header": {"chunk_size": "400000", **urls}}
        object_ = {"oid": oid, "size": len(CONTENT), "actions": {"upload": upload}}
        reply_json(conn, {"transfer": "multipart", "objects": [object_]})

    app.route("/me/repo.git/info/lfs/objects/batch", batch)
    app.route("/api/models/me/repo/preupload/main", _mode("lfs"))
    done = {"commitUrl": _COMMIT_URL, "commitOid": COMMIT}
    app.route("/api/models/me/repo/commit/main", json_response(done))
    app.route("/complete", json_response({}))
    for n in range(3):
        app.route(f"/part{n}", lambda record, conn: conn.reply(200, b"", [("ETag", "e")]))
    Path("large.bin").write_bytes(CONTENT)
    _api(app).upload_file(path_or_fileobj="large.bin", path_in_repo="l.bin", repo_id="me/repo")
    sent = {record.path: record.body for record in app.requests if record.path[:5] == "/part"}
    assert b"".join(sent[path] for path in sorted(sent)) == CONTENT


def _mode(mode: str) -> Any:
    def respond(record: Record, conn: AppConnection) -> None:
        (file,) = sent_json(record)["files"]
        uploaded = {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
        reply_json(conn, {"files": [uploaded]})

    return respond


def reads_as_a_file_system(app: AppServer) -> None:
    _serve_a_file(app)
    app.route("/api/models/me/repo", json_response({"id": "me/repo", "sha": COMMIT}))
    file = {"type": "file", "path": "model.bin", "size": len(CONTENT), "oid": "o"}
    app.route("/api/models/me/repo/paths-info/main", json_response([file]))
    app.route("/api/models/me/repo/revision/main", json_response({"id": "me/repo", "sha": COMMIT}))
    files: Any = HfFileSystem(endpoint=app.url, token="hf_token", skip_instance_cache=True)
    with files.open("me/repo/model.bin", "rb", block_size=0) as stream:
        assert stream.read(1000) == CONTENT[:1000]


def takes_a_session_of_the_program(app: AppServer) -> None:
    made = []

    def backend() -> Any:
        session = requests.Session()
        session.headers["X-Mine"] = "yes"
        made.append(session)
        return session

    app.route("/api/whoami-v2", json_response({"name": "me"}))
    configure_http_backend(backend)
    try:
        _api(app).whoami()
    finally:
        configure_http_backend()
    assert app.requests[0].header("x-mine") == "yes"
    assert made


def streams_inference(app: AppServer) -> None:
    def respond(record: Record, conn: AppConnection) -> None:
        assert sent_json(record)["stream"] is True
        conn.begin(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
        for word in ("hello", "world"):
            delta = {"choices": [{"index": 0, "delta": {"content": word}}]}
            conn.chunk(b"data:" + json.dumps(delta).encode() + b"\n\n")
        conn.chunk(b"data: [DONE]\n\n")
        conn.chunk(b"")

    app.route("/v1/chat/completions", respond)
    client: Any = InferenceClient(base_url=app.url + "/v1", token="hf_token")
    chunks = client.chat_completion([{"role": "user", "content": "hi"}], stream=True)
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["hello", "world"]
