"""--session: what is saved, for which host, and who may read the file."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curlhttp import Client, Cookies
from curlhttp.cli.sessions import load_cookies, save_cookies
from curlhttp.testing import ScriptedEngine
from tests.servers import AppConnection, AppServer, Record
from tests.support.cli import Ended, echoed, run
from tests.support.colours import needs_posix


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


def test_a_session_keeps_the_order_of_its_cookies(tmp_path: Path) -> None:
    jar = Cookies()
    for name, domain in [("a", ".h.test"), ("b", "h.test"), ("c", ".h.test"), ("d", "h.test")]:
        jar.set(name, "1", domain)
    save_cookies(tmp_path / "jar", jar)
    loaded = load_cookies(tmp_path / "jar")
    engine = ScriptedEngine([200])
    with Client(transport=engine, cookies=loaded) as client:
        client.get("http://h.test/")
    assert engine.sent[0].headers["Cookie"] == "a=1; b=1; c=1; d=1"


def test_a_session_of_another_name_or_none_gets_nothing(app: AppServer) -> None:
    url = f"{app.url}/echo"
    got(run("get", "--session=a", url, "X-Key:1"))
    assert "x-key" not in got(run("get", "--session=b", url))
    assert "x-key" not in got(run("get", url))


def test_settings_of_one_request_are_not_saved(app: AppServer, home: Path) -> None:
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


def test_a_read_only_session_is_not_changed(app: AppServer, home: Path) -> None:
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


def test_each_origin_has_its_own_sessions(app: AppServer, home: Path) -> None:
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
    assert f"this session belongs to {app.url}" in refused.err
    assert "secret" not in refused.err
    assert file.read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"origin": 1}', '{"a": "b"', "\x00"])
def test_a_file_that_is_no_session_is_not_changed(
    app: AppServer, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)
    ended = run("get", "--session", file, f"{app.url}/echo")
    assert ended.status == 26
    assert f"{file}: not a session" in ended.err
    assert file.read_text() == text


@pytest.mark.parametrize("name", ["", "..", "a b", "a:b", "é"])
def test_a_name_that_could_be_another_file_is_refused(app: AppServer, name: str) -> None:
    ended = run("get", f"--session={name}", f"{app.url}/echo")
    assert ended.status == 2
    assert "--session" in ended.err


def test_a_session_that_cannot_be_written_is_reported(app: AppServer, tmp_path: Path) -> None:
    missing = run("get", "--session", tmp_path / "no" / "a.json", f"{app.url}/echo")
    assert (missing.status, app.requests) == (23, [])
    assert "the folder does not exist" in missing.err
    (tmp_path / "config").write_text("no folder")
    ended = run("get", "--session=a", f"{app.url}/echo")
    assert ended.status == 23
    assert str(tmp_path / "config") in ended.err


def test_a_session_is_saved_even_if_all_responses_are_errors(app: AppServer) -> None:
    assert run("get", "-f", "--session=a", f"{app.url}/status/404", "X-Key:1").status == 22
    assert got(run("get", "--session=a", f"{app.url}/echo"))["x-key"] == "1"


# --- what a session keeps belongs to its origin ---


def setting(record: Record, conn: AppConnection) -> None:
    """Set a cookie for the whole host, and redirect if requested."""
    target = record.query("to", "")
    fields = [("Set-Cookie", f"{record.query('name')}={record.query('value')}; Path=/")]
    conn.reply(302 if target else 200, b"", [*fields, *([("Location", target)] if target else [])])


@pytest.fixture
def other() -> Iterator[AppServer]:
    with AppServer() as server:
        server.route("/set", setting)
        yield server


def lower(record: Record) -> dict[str, str]:
    return {name.lower(): value for name, value in record.headers}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("extra", [(), ("-b", "given=1"), ("Cookie:given=1",), ("-C", "-o", "x")])
def test_a_redirect_to_another_origin_gets_nothing_of_the_session(
    app: AppServer,
    other: AppServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    extra: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    app.route("/set", setting)
    there = other.url.replace("127.0.0.1", host)
    first = run("get", "--session=a", f"{app.url}/set?name=id&value=t", "X-Api-Key:k", "Accept:a/b")
    assert first.status == 0
    ended = run("get", "--session=a", f"{app.url}/redirect-to?url={there}/echo", *extra)
    assert ended.status == 0, ended.err
    asked = lower(app.requests[-1])
    assert (asked["x-api-key"], asked["accept"]) == ("k", "a/b")
    assert "id=t" in asked["cookie"] or extra[:1] == ("Cookie:given=1",)
    sent = lower(other.requests[-1])
    assert "x-api-key" not in sent
    assert "cookie" not in sent
    assert sent["accept"] == "*/*"
    assert sent["user-agent"].startswith("curlhttp/")
    back = run("get", "--session=a", f"{there}/redirect-to?url={app.url}/echo", "X-Api-Key:there")
    assert "x-api-key" not in got(back), "the session of the other origin"


def test_cookies_of_another_origin_are_sent_to_it_and_not_saved(
    app: AppServer, other: AppServer, home: Path
) -> None:
    app.route("/set", setting)
    run("get", "--session=a", f"{app.url}/set?name=id&value=mine")
    # Of one host and another port: of one name, and of one that only the other one has.
    target = f"{other.url}/set?name=id%26value=theirs%26to={other.url}/redirect-to"
    ended = run("get", "--session=a", f"{app.url}/redirect-to?url={target}?url={app.url}/echo")
    assert ended.status == 0, ended.err
    assert [lower(record).get("cookie") for record in other.requests] == [None, "id=theirs"]
    assert got(ended)["cookie"] == "id=mine"
    (kept,) = home.rglob("*.cookies")
    assert "theirs" not in kept.read_text()
    assert "mine" in kept.read_text()


def test_cookies_of_a_file_are_sent_to_their_hosts_only(
    app: AppServer, other: AppServer, tmp_path: Path, home: Path
) -> None:
    jar = tmp_path / "jar"
    jar.write_text(
        "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tours\t1\n"
        "localhost\tFALSE\t/\tFALSE\t0\ttheirs\t2\n"
    )
    there = other.url.replace("127.0.0.1", "localhost")
    target = f"{app.url}/redirect-to?url={there}/echo"
    assert run("get", "--session=a", "-b", jar, "-c", jar, target).status == 0
    assert lower(app.requests[-1])["cookie"] == "ours=1"
    assert lower(other.requests[-1])["cookie"] == "theirs=2"
    (kept,) = home.rglob("*.cookies")
    assert ("ours" in kept.read_text(), "theirs" in kept.read_text()) == (True, False)
    assert {"ours", "theirs"} <= set(jar.read_text().split())


# --- files of other programs ---

ORIGIN = "http://127.0.0.1:1"


def session_text(**fields: str) -> str:
    found = {"origin": f'"{ORIGIN}"', "user": "null", "headers": "[]", **fields}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in found.items()) + "}"


HOSTILE = {
    "nested": "[" * 100_000,
    "nested within": session_text(headers="[" * 100_000 + "]" * 100_000),
    "a nested origin": session_text(origin="[" * 900 + "]" * 900),
    "a nested value": session_text(headers='[["a", ' + "[" * 900 + "]" * 900 + "]]"),
    "a huge number": session_text(user="9" * 6000),
    "an infinite one": session_text(user="1e999"),
    "no list of headers": session_text(headers='{"ab": "c"}'),
    "a word for a header": session_text(headers='["ab"]'),
    "a header of three": session_text(headers='[["a", "b", "c"]]'),
    "a name with a blank": session_text(headers='[["a b", "c"]]'),
    "a value of two lines": session_text(headers='[["a", "b\\r\\nc: d"]]'),
    "half a letter": session_text(headers='[["a", "\\ud800"]]'),
    "half a letter of a name": session_text(user='"\\ud800:a"'),
    "binary": "\xff\xfe\0",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_session_is_an_error_and_not_changed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text, encoding="latin-1")
    ended = run("get", "--session", file, f"{ORIGIN}/echo")
    assert (ended.status, ended.err) == (26, f"curlhttp: {file}: not a session\n")
    assert file.read_text(encoding="latin-1") == text
    assert os.listdir(tmp_path) == ["mine.json"]


def cookie_line(expires: str = "0", domain: str = "127.0.0.1") -> str:
    return f"# Netscape HTTP Cookie File\n{domain}\tFALSE\t/\tFALSE\t{expires}\ta\t1\n"


@pytest.mark.parametrize("option", ["-b", "--session"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\xff\xfe\0",
        "[" * 100_000,
        cookie_line("9" * 6000),
        cookie_line("inf"),
        cookie_line("nan"),
        cookie_line("1e400"),
        cookie_line(domain=""),
        "# Netscape HTTP Cookie File\n127.0.0.1\n",
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_hostile_cookie_file_is_an_error_and_not_changed(
    tmp_path: Path, text: str, option: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.cookies"
    file.write_text(text, encoding="latin-1")
    ended = run("get", option, file.with_suffix(".json") if option != "-b" else file, ORIGIN)
    assert ended.status == 26
    assert ended.err.startswith(f"curlhttp: {file}")
    assert ended.err.count("\n") == 1
    assert file.read_text(encoding="latin-1") == text
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["mine.cookies", "mine.json"])
def test_a_file_without_an_end_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with file.open("wb") as huge:
        huge.write(cookie_line().encode())
        huge.truncate(16 * 1024 * 1024 + 1)
    ended = run("get", "-b" if name == "mine.cookies" else "--session", file, ORIGIN)
    assert (ended.status, ended.err) == (
        26, f"curlhttp: {file}: the file has more than 16,777,216 bytes\n")  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither FIFOs nor these links")
@pytest.mark.parametrize("suffix", [".json", ".cookies"])
@pytest.mark.parametrize("kind", ["fifo", "loop", "folder", "device"])
def test_a_path_that_is_no_file_is_no_session(tmp_path: Path, suffix: str, kind: str) -> None:
    place = tmp_path / f"mine{suffix}"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(place if kind == "loop" else "/dev/zero")
    before = place.lstat()
    ended = run("get", "--session", tmp_path / "mine.json", f"{ORIGIN}/echo")
    assert ended.status == 26
    assert ended.err.startswith(f"curlhttp: {place}: ")
    assert place.lstat()[:3] == before[:3]
    assert os.listdir(tmp_path) == [place.name]


@needs_posix
def test_a_symbolic_link_to_a_session_is_kept(app: AppServer, tmp_path: Path) -> None:
    link, file = tmp_path / "link.json", tmp_path / "real.json"
    link.symlink_to(file)
    for _ in range(2):
        assert "x-key" in got(run("get", "--session", link, f"{app.url}/echo", "X-Key:1"))
    assert link.is_symlink()
    assert json.loads(file.read_text())["headers"] == [["X-Key", "1"]]


def test_files_of_a_killed_run_block_no_other(app: AppServer, tmp_path: Path) -> None:
    for name in ("mine.json", "mine.cookies", "jar"):
        (tmp_path / f".{name}.{os.getpid()}.new").write_text("torn")
    file, jar = tmp_path / "mine.json", tmp_path / "jar"
    assert run("get", "--session", file, "-c", jar, f"{app.url}/echo", "X-Key:1").status == 0
    assert got(run("get", "--session", file, f"{app.url}/echo"))["x-key"] == "1"
    assert jar.exists()


def test_cookies_are_saved_in_a_file_that_curl_reads(app: AppServer, tmp_path: Path) -> None:
    jar = tmp_path / "jar"
    assert run("get", "-b", jar, "-c", jar, app.url + "/cookies/set?id=sesame").status == 0
    if os.name == "posix":
        assert stat.S_IMODE(jar.stat().st_mode) == 0o600
    assert jar.read_text().startswith("# Netscape HTTP Cookie File\n")
    line = jar.read_text().splitlines()[-1].split("\t")
    assert (len(line), line[0], line[4], line[5:]) == (7, "127.0.0.1", "0", ["id", "sesame"])
    run("get", "-b", jar, app.url + "/cookies/get")
    assert app.requests[-1].values("cookie") == ["id=sesame"]


def test_the_jar_of_curl_is_read(app: AppServer, tmp_path: Path) -> None:
    jar = tmp_path / "jar"
    head = "# Netscape HTTP Cookie File\n\n"
    jar.write_text(
        head
        + "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\ta\t1\n"
        + "127.0.0.1\tFALSE\t/\tFALSE\t99999999999\tb\t2\n"
        + "127.0.0.1\tFALSE\t/\tFALSE\t1\told\t3\n"
        + "example.org\tFALSE\t/\tFALSE\t0\tother\t4\n"
    )
    got = echoed("get", "-b", jar, "-c", jar, app.url + "/echo")
    assert sorted(got["headers"]["cookie"].split("; ")) == ["a=1", "b=2"]
    assert "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\ta\t1\n" in jar.read_text()
    assert "old" not in jar.read_text()


def test_cookies_on_the_command_line_are_sent_to_their_host_only(app: AppServer) -> None:
    assert echoed("get", "-b", "a=1; b=2=3", app.url + "/echo")["headers"]["cookie"] == "a=1; b=2=3"
