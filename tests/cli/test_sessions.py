"""--session: what is kept, for whom, and who may read it."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import AppServer
from tests.support.cli import Ended, run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let sessions be below a folder of the test."""
    monkeypatch.setattr("click.get_app_dir", lambda name: str(tmp_path / "config" / name))
    return tmp_path / "config" / "curlhttp" / "sessions"


def got(ended: Ended) -> dict[str, Any]:
    """Return the headers that a server that echoes got."""
    assert ended.status == 0, ended.err
    return {name.lower(): value for name, value in json.loads(ended.out)["headers"]}


def files_of(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file())


def test_headers_credentials_and_cookies_are_sent_again(app: AppServer) -> None:
    url = f"{app.url}/echo"
    first = ("get", "--session=a", url, "X-Key:1", "X-Other:2", "-u", "me:pa:ss", "-A", "agent")
    sent = got(run(*first))
    assert run("get", "--session=a", f"{app.url}/cookies/set?token=t").status == 0
    again = got(run("get", "--session=a", url, "x-other:3"))
    assert again["x-key"] == "1"
    assert again["x-other"] == "3"
    assert again["user-agent"] == "agent"
    assert again["authorization"] == sent["authorization"]
    assert "cookie" not in again  # it is of another path
    assert run("get", "--session=a", f"{app.url}/cookies/get").status == 0
    assert app.requests[-1].values("cookie") == ["token=t"]
    assert got(run("get", "--session=a", url))["x-other"] == "3"


def test_a_session_of_another_name_or_none_gets_nothing(app: AppServer) -> None:
    url = f"{app.url}/echo"
    got(run("get", "--session=a", url, "X-Key:1"))
    assert "x-key" not in got(run("get", "--session=b", url))
    assert "x-key" not in got(run("get", url))


def test_what_is_of_one_request_is_not_kept(app: AppServer, home: Path) -> None:
    headers = ("Content-Language:en", "If-None-Match:x", "Range:bytes=0-1", "X-Key:1", "Host:x")
    run("post", "--session=a", f"{app.url}/echo", *headers, "a=1", "-b", "b=2")
    kept = json.loads(files_of(home)[1].read_text())
    assert kept["headers"] == [["X-Key", "1"]]
    assert "cookie" not in got(run("get", "--session=a", f"{app.url}/echo"))


def test_a_header_that_is_taken_away_is_forgotten(app: AppServer) -> None:
    url = f"{app.url}/echo"
    got(run("get", "--session=a", url, "X-Key:1"))
    assert "x-key" not in got(run("get", "--session=a", url, "-H", "X-Key:"))
    assert "x-key" not in got(run("get", "--session=a", url))


def test_a_session_that_is_read_only_stays_as_it_was(app: AppServer, home: Path) -> None:
    got(run("get", "--session=a", f"{app.url}/echo", "X-Key:1"))
    before = [path.read_text() for path in files_of(home)]
    sent = got(run("get", "--session-read-only=a", f"{app.url}/echo", "X-More:2"))
    assert (sent["x-key"], sent["x-more"]) == ("1", "2")
    assert run("get", "--session-read-only=a", f"{app.url}/cookies/set?token=t").status == 0
    assert [path.read_text() for path in files_of(home)] == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files")
def test_only_its_owner_may_read_a_session(app: AppServer, home: Path) -> None:
    got(run("get", "--session=a", f"{app.url}/echo", "-u", "me:secret"))
    files = files_of(home)
    assert [path.suffix for path in files] == [".cookies", ".json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


def test_each_origin_has_sessions_of_its_own(app: AppServer, home: Path) -> None:
    with AppServer() as other:
        got(run("get", "--session=a", f"{app.url}/echo", "-u", "me:secret"))
        assert "authorization" not in got(run("get", "--session=a", f"{other.url}/echo"))
    assert len({path.parent for path in files_of(home)}) == 2


def test_a_session_in_a_file_is_of_one_origin(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    got(run("get", "--session", file, f"{app.url}/echo", "-u", "me:secret"))
    assert "authorization" in got(run("get", "--session", file, f"{app.url}/echo"))
    with AppServer() as other:
        before = file.read_text()
        refused = run("get", "--session", file, f"{other.url}/echo")
        assert (refused.status, other.requests) == (2, [])
    assert f"this session is of {app.url}" in refused.err
    assert "secret" not in refused.err
    assert file.read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"origin": 1}', '{"a": "b"', "\x00"])
def test_a_file_that_is_no_session_is_left_alone(app: AppServer, tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)
    ended = run("get", "--session", file, f"{app.url}/echo")
    assert ended.status == 26
    assert f"{file}: this is no session" in ended.err
    assert file.read_text() == text


@pytest.mark.parametrize("name", ["", "..", "a b", "a:b", "é"])
def test_a_name_that_could_be_another_file_is_refused(app: AppServer, name: str) -> None:
    ended = run("get", f"--session={name}", f"{app.url}/echo")
    assert ended.status == 2
    assert "--session" in ended.err


def test_a_session_that_cannot_be_written_is_told(app: AppServer, tmp_path: Path) -> None:
    missing = run("get", "--session", tmp_path / "no" / "a.json", f"{app.url}/echo")
    assert (missing.status, app.requests) == (23, [])
    assert "there is no such folder" in missing.err
    (tmp_path / "config").write_text("no folder")
    ended = run("get", "--session=a", f"{app.url}/echo")
    assert ended.status == 23
    assert str(tmp_path / "config") in ended.err


def test_a_session_is_kept_where_no_answer_was_good(app: AppServer) -> None:
    assert run("get", "-f", "--session=a", f"{app.url}/status/404", "X-Key:1").status == 22
    assert got(run("get", "--session=a", f"{app.url}/echo"))["x-key"] == "1"
