"""`-o`, `-O`, `-J` and `-C`: file names, and resuming an interrupted download."""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import ClientRequest
from curlhttp.cli.download import choose_name
from tests.servers import (
    AppConnection,
    AppServer,
    RawServer,
    Record,
    payload,
    respond,
    respond_and_close,
    response,
)
from tests.support.cli import finish, on_terminal, run, start
from tests.support.depot import Depot
from tests.support.downloads import named_by_a_server

BODY = payload(1000)
CUT = b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: "1"\r\n\r\n' + BODY[:600]


def ranged(record: Record, conn: AppConnection) -> None:
    """Return 1000 bytes, or the requested range from an offset on; stop after 600 at first."""
    wanted = record.header("range")
    if wanted is None:
        conn.send(CUT)
        conn.stall()
        return
    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    fields = [("ETag", '"1"'), ("Content-Range", f"bytes {start}-999/1000")]
    conn.reply(206, BODY[start:], fields)


def test_a_partial_download_is_kept_and_the_shown_command_completes_it(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    with RawServer(respond_and_close(CUT)) as server:
        ended = run("get", server.url, "-o", file)
        assert ended.status == 18
        assert (tmp_path / "saved.part").read_bytes() == BODY[:600]
        assert not file.exists()
        first, _ = ended.err.splitlines()
        said, _, command = first.partition("; to resume: ")
        assert said == f"curlhttp: kept 600 bytes in {file}.part"
        assert shlex.split(command) == ["curlhttp", "get", "-C", server.url, "-o", str(file)]
        rest = response(
            BODY[600:],
            "206 Partial",
            headers=[("ETag", '"1"'), ("Content-Range", "bytes 600-999/1000")],
        )
        server.handler = respond_and_close(rest)
        assert run(*shlex.split(command)[1:]).status == 0
        assert b"\r\nRange: bytes=600-\r\n" in server.requests[-1]
    assert file.read_bytes() == BODY
    assert os.listdir(tmp_path) == ["saved"]


@pytest.mark.parametrize("option", ["--segments", "--split"])
@pytest.mark.parametrize("command", [["get"], []])
def test_segments_come_at_once(
    app: AppServer, tmp_path: Path, option: str, command: list[str]
) -> None:
    depot = Depot(app)
    depot.before = lambda asked, *_: asked.is_range and depot.wait(3)
    ended = run(*command, depot.url, option, "4", "-o", tmp_path / "saved")
    assert (ended.status, ended.out) == (0, b"")
    assert (tmp_path / "saved").read_bytes() == depot.data
    assert len(depot.ranges) == 3


def test_segments_that_break_off_are_counted_and_continue(app: AppServer, tmp_path: Path) -> None:
    depot = Depot(app)
    depot.before = lambda asked, *_: asked.is_range and depot.wait(3)
    depot.cut = lambda _: 500_000
    file = tmp_path / "saved"
    ended = run("get", "--segments", "4", depot.url, "-o", file)
    assert ended.status == 18
    said, _, command = ended.err.splitlines()[0].partition("; to resume: ")
    assert said == f"curlhttp: kept 2,000,000 bytes in {file}.part"
    depot.cut, depot.asked = lambda _: None, []
    assert run(*shlex.split(command)[1:]).status == 0
    assert file.read_bytes() == depot.data
    assert None not in depot.asked


@pytest.mark.parametrize(
    "options", [["-d", "x=1", "-o", "file"], [], ["-OJ"], ["-X", "POST", "-o", "file"]]
)
def test_segments_need_a_file_and_a_get(options: list[str]) -> None:
    ended = run("curl", "http://127.0.0.1:9/file", "--segments", "2", *options)
    assert ended.status == 2
    assert "--segments needs -o FILE or -O, a GET request, no body and no -J" in ended.err


def test_continue_shows_the_range_with_verbose(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    with RawServer(respond_and_close(CUT)) as server:
        run("get", server.url, "-o", file)
        ended = run("get", "-v", "-C", server.url, "-o", file)
    assert "> Range: bytes=600-\n" in ended.err
    assert '> If-Range: "1"\n' in ended.err


@pytest.mark.parametrize(
    "options",
    [
        ["-u", "me:sesame"],
        ["-sume:sesame"],
        ["-H", "X-Api-Key: sesame"],
        ["-HX-Api-Key: sesame"],
        ["-sH", "X-Api-Key: sesame"],
        ["--header=X-Api-Key: sesame"],
        ["X-Api-Key:sesame"],
        ["token==sesame"],
        ['variables=={"password":"sesame"}'],
        ['X-Context:{"password":"sesame"}'],
        ["-G", "-d", "token=sesame"],
        ["-b", "id=sesame"],
    ],
)
def test_the_command_to_resume_shows_no_credential(tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "saved"
    with RawServer(respond_and_close(CUT)) as server:
        ended = run("get", server.url, "-o", file, *options)
        assert "the same command with -C -o" in ended.err
        within = run("get", server.url + "/?token=sesame", "-o", file)
        plain = run("get", f"{server.url[7:]}/?token=sesame", "-o", file)
        named = run("get", f"me:sesame@{server.url[7:]}/", "-o", file)
    assert "sesame" not in ended.err + within.err + plain.err + named.err


def test_the_command_to_resume_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    with RawServer(respond_and_close(CUT)) as server:
        options = ["-o", str(file), "-H", "Accept: text/csv", "page==2", "X-Page:1"]
        typed = ["get", server.url, *options]
        command = run(*typed).err.splitlines()[0].partition("; to resume: ")[2]
    assert shlex.split(command) == ["curlhttp", "get", "-C", *typed[1:]]


@pytest.mark.parametrize("flags", [["-OJ"], ["-JO"], ["-O", "--remote-header-name"]])
def test_a_name_of_the_server_is_not_in_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cut = CUT.replace(b"\r\n\r\n", b"\r\nContent-Disposition: x; filename=theirs\r\n\r\n")
    with RawServer(respond_and_close(cut)) as server:
        ended = run("get", *flags, f"{server.url}/x")
    assert "to resume: the same command with -C -o theirs\n" in ended.err


@pytest.mark.parametrize("taken", ["mine.part", "mine.part.json"])
@pytest.mark.parametrize("response", [CUT, CUT.replace(b"ETag", b"X")])
def test_a_name_of_the_server_touches_no_file_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str, response: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(taken).write_text("of the user")
    response = response.replace(b"\r\n\r\n", b"\r\nContent-Disposition: x; filename=mine\r\n\r\n")
    with RawServer(respond_and_close(response)) as server:
        ended = run("get", "-OJ", f"{server.url}/x")
    assert (ended.status, os.listdir(tmp_path)) == (23, [taken])
    assert f"{taken}: the file exists" in ended.err
    assert Path(taken).read_text() == "of the user"


@pytest.mark.parametrize("name", ["f.part", "f.part.json", "F.PART"])
def test_a_server_cannot_leave_a_part_for_another_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = response(b"evil", headers=[("Content-Disposition", f"x; filename={name}")])
    with RawServer(respond_and_close(found)) as server:
        ended = run("get", "-OJ", f"{server.url}/x")
    assert (ended.status, os.listdir(tmp_path)) == (23, [])
    assert "use -o FILE" in ended.err


def test_a_part_that_cannot_be_resumed_is_not_kept(tmp_path: Path) -> None:
    with RawServer(respond_and_close(CUT.replace(b'"1"', b'W/"1"'))) as server:
        ended = run("get", server.url, "-o", tmp_path / "saved")
    assert ended.status == 18
    assert f"nothing of {tmp_path / 'saved'} was kept" in ended.err
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["-C"]])
def test_ctrl_c_keeps_the_received_part(app: AppServer, tmp_path: Path, option: list[str]) -> None:
    file = tmp_path / "saved"
    app.route("/ranged", ranged)
    process = start("get", app.url + "/ranged", "-o", file, *option)
    part = tmp_path / "saved.part"
    assert app.wait_for(lambda: part.exists() and part.stat().st_size == 600, timeout=60)
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert (ended.status, ended.out) == (130, b""), ended.err
    assert ended.err.startswith(f"curlhttp: kept 600 bytes in {part}; to resume: curlhttp get ")
    assert "Traceback" not in ended.err
    assert run("get", app.url + "/ranged", "-o", file, "-C").status == 0
    assert file.read_bytes() == BODY


@pytest.mark.slow
@pytest.mark.parametrize("columns", [50, 80, 200])
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_nothing_is_wider_than_the_terminal(
    app: AppServer, tmp_path: Path, columns: int, environment: dict[str, str]
) -> None:
    url = app.url + "/redirect/2"
    status, shown = on_terminal("get", "--timing", url, columns=columns, **environment)
    assert status == 0
    assert max(map(len, shown.splitlines())) <= columns
    big = app.url + "/big?size=3000000"
    status, shown = on_terminal("get", "-o", tmp_path / "f", big, columns=columns, **environment)
    assert status == 0
    assert not (environment and "\x1b[3" in shown), "a colour"


def test_output_saves_the_body(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_text("old")
    file.chmod(0o640)
    assert run("get", app.url + "/bytes/1000", "-o", file) == (0, b"", "")
    assert file.read_bytes() == payload(1000)
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["saved"]


@pytest.mark.parametrize("continues", [False, True])
def test_output_has_the_name_that_the_user_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continues: bool
) -> None:
    """What the server calls the file is only text."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    for value in named_by_a_server(tmp_path):
        found = response(b"x", headers=[("Content-Disposition", value), ("ETag", '"1"')])
        with RawServer(respond(found)) as server:
            for name in (".", "..", f"{tmp_path}/"):  # no file, and none is made up
                assert run("get", server.url, "-o", name).status == 23
            assert run("get", server.url + "/evil", "-o", "mine", *["-C"] * continues).status == 0
            assert run("get", server.url + "/evil").out == b"x"
    assert [path.name for path in tmp_path.rglob("*") if not path.is_dir()] == ["mine"]


def test_a_truncated_body_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "saved"
    file.write_text("old")
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all"
    with RawServer(respond_and_close(cut)) as server:
        ended = run("get", server.url, "-o", file)
    assert ended.status == 18
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["saved"]


def test_a_download_is_continued(app: AppServer, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    assert run("get", app.url + "/bytes/1000", "-C", "-o", file) == (0, b"", "")
    assert file.read_bytes() == payload(1000)
    assert run("get", app.url, "-C").status == 2
    assert run("post", app.url, "-C", "-o", file).status == 2


@pytest.mark.slow
def test_a_bar_shows_the_progress_of_a_file(app: AppServer, tmp_path: Path) -> None:
    status, shown = on_terminal("get", app.url + "/big?size=3000000", "-o", tmp_path / "f")
    assert status == 0
    assert "3.0/3.0 MB" in shown
    _, shown = on_terminal("get", app.url + "/big?size=3000000", "-s", "-o", tmp_path / "f")
    assert shown == ""


def test_the_file_has_the_name_in_the_url(
    app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("get", "-O", app.url + "/bytes/7?x=/y") == (0, b"", "")
    assert (tmp_path / "7").stat().st_size == 7


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ('attachment; filename="a b.txt"', "a b.txt"),
        ("attachment; filename=../../evil", "evil"),
        ('attachment; filename="/etc/.passwd"', "passwd"),
        ("attachment; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
        ("attachment; filename*=iso-8859-1'en'%a3.txt", "£.txt"),
        ('attachment; filename="caf\xc3\xa9.txt"', "café.txt"),  # UTF-8, read as Latin-1
        ('attachment; filename="caf\xe9.txt"', "café.txt"),
        ('attachment; filename="..\\..\\x"', "x"),
        ('attachment; filename=".."', "asked"),
        ("attachment", "asked"),
    ],
)
def test_a_filename_of_the_server_stays_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, name: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    found = response(b"x", headers=[("Content-Disposition", value)])
    with RawServer(respond(found)) as server:
        assert run("-OJ", server.url + "/asked").status == 0
        assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [name]
        again = run("-OJ", server.url + "/asked")
    if name != "asked":
        assert again.status == 23
        assert "a name from the server never replaces a file" in again.err


# --- --download ---


@pytest.mark.parametrize(
    ("target", "headers", "name"),
    [
        ("/new/b.txt?x=1", [], "b.txt"),
        ("/new/b.txt", [("Content-Disposition", 'attachment; filename="c.pdf"')], "c.pdf"),
        ("/new/b.txt", [("Content-Disposition", 'attachment; filename="../../c"')], "c"),
        ("/new/", [("Content-Type", "application/json; charset=utf-8")], "index.json"),
        ("/new/", [("Content-Type", "nobody/knows")], "index"),
        ("/new/a.part", [], "a.part.bin"),
        ("/new/a.tar.gz", [], "a.tar.gz"),
    ],
)
def test_a_download_gets_a_new_file(
    app: AppServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    headers: list[tuple[str, str]],
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    app.route(target.partition("?")[0], lambda record, conn: conn.reply(200, b"new", headers))
    stem, suffix = ("a", ".tar.gz") if ".tar" in name else os.path.splitext(name)
    for expected in (name, f"{stem}-1{suffix}", f"{stem}-2{suffix}"):
        ended = run("get", app.url + target, "--download")
        assert (ended.status, ended.out, ended.err) == (0, b"", f"saved 3 bytes in {expected}\n")
        assert (tmp_path / expected).read_bytes() == b"new"


def test_a_download_of_an_error_saves_nothing(
    app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("get", app.url + "/404", "--download").status == 22
    assert list(tmp_path.iterdir()) == []
    assert run("get", app.url, "--download", "-O").status == 2


def test_a_download_to_a_given_file(app: AppServer, tmp_path: Path) -> None:
    ended = run("get", app.url + "/bytes/9", "--download", "-s", "-o", tmp_path / "file")
    assert (ended.status, ended.err) == (0, "")
    assert (tmp_path / "file").stat().st_size == 9


# --- names that no server can break ---

PIECES = st.sampled_from(
    ["attachment; filename=", "; filename*=UTF-8''", '"', "%2F", "..", "/", "\\", "%00", "é", ".gz"]
)


def named(disposition: str, path: str = "/", kind: str = "text/plain") -> Path:
    """Return the name that is chosen for a response."""
    fields = {"Content-Disposition": disposition, "Content-Type": kind}
    headers = {
        name: re.sub(rb"[\x00-\x1f\x7f]", b"", value.encode("utf-8", "replace")).strip()
        for name, value in fields.items()
    }
    response = ClientRequest("GET", "http://a.test/").respond(headers=headers)
    return choose_name(response, f"http://a.test{path}")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("\u20ac" * 300 + ".txt", ".txt"),
        ("\u20ac" * 300 + ".tar.gz", ".tar.gz"),
        ("a" * 300, ""),
        ("a." + "\u20ac" * 300, ""),
    ],
)
def test_a_long_name_is_cut_at_bytes_and_keeps_its_suffix(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    header = "attachment; filename*=UTF-8''" + quote(name)
    chosen = str(named(header))
    assert chosen.endswith(suffix)
    assert name.startswith(chosen.removesuffix(suffix))
    assert 190 < len(chosen.encode()) <= 200
    Path(chosen + ".part.json").touch()
    assert str(named(header)) not in (chosen, "")
    assert "-1" in str(named(header))


@given(
    st.one_of(st.text(max_size=400), st.lists(PIECES | st.text(max_size=90)).map("".join)),
    st.text(st.characters(exclude_characters="[]"), max_size=400),
    st.text(max_size=40),
)
def test_a_server_cannot_choose_a_name_that_is_no_file_here(
    disposition: str, path: str, kind: str
) -> None:
    chosen = str(named(disposition, f"/{path}", kind))
    assert chosen
    assert "/" not in chosen
    assert not chosen.startswith(".")
    assert len(chosen.encode()) <= 255 - len(".part.json")
    assert not os.path.lexists(chosen)
