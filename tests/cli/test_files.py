"""Files that are replaced: completely or not at all, even if the disk is full."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from curlhttp.cli.errors import CommandFailed
from curlhttp.cli.files import replace_file, replace_private_files
from tests.servers import AppServer
from tests.support.cli import run
from tests.support.values import slow_but_for

resource = pytest.importorskip("resource", reason="this system cannot limit the size of files")
_FULL = Path("/dev/full")


@contextmanager
def full_disk(size: int = 40) -> Iterator[None]:
    """Let a file have at most so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        # Python before 3.14 keeps what fits of a module's bytecode, which no process can load.
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    "option", ["-o", "-D", "-c", "--timing-html", "--har", "--session", "-C -o"]
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_full_disk_names_the_file_and_leaves_no_part_of_it(
    app: AppServer, tmp_path: Path, option: str, exists: bool
) -> None:
    path = tmp_path / "saved.json"
    words: tuple[str, ...] = (
        "get",
        app.url + "/cookies/set?abc=" + "d" * 60,
        "X-A:1",
        "--no-follow",
    )
    if option in ("-o", "-C -o"):
        words = ("get", app.url + "/bytes/900")
    if exists and option == "--session":
        run(*words, option, path)
    elif exists:
        text = "# Netscape HTTP Cookie File\n" if option == "-c" else "{}"
        path.write_text(text)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with full_disk():
        ended = run(*words, *option.split(), path)
    assert ended.status == 23
    assert ended.err == f"curlhttp: {path}: File too large\n"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["out.jsonl", "folder"])
def test_a_full_disk_leaves_no_part_of_a_record(app: AppServer, tmp_path: Path, name: str) -> None:
    (tmp_path / "list").write_text(app.url + "/bytes/900\n")
    with full_disk():
        ended = run("fetch", tmp_path / "list", "-o", tmp_path / name, "-q")
    assert ended.status == 23
    assert f"curlhttp: {tmp_path / name}" in ended.err
    left = [tmp_path / name, *(tmp_path / name).rglob("*")]
    assert [file for file in left if file.is_file() and file.stat().st_size] == []


def test_a_full_disk_leaves_no_part_of_a_page_or_of_statistics(
    app: AppServer, tmp_path: Path
) -> None:
    run("get", app.url, "--har", tmp_path / "a.har")
    for words in (
        ("har", "view", tmp_path / "a.har", "-o", tmp_path / "page"),
        ("bench", app.url, "-n", "2", "-c", "1", "--plot", tmp_path / "page"),
        ("bench", app.url, "-n", "2", "-c", "1", "--stats", tmp_path / "page"),
    ):
        with full_disk():
            ended = run(*words)
        assert ended.status == 23
        assert f"curlhttp: {tmp_path / 'page'}: File too large" in ended.err
        assert [file.name for file in tmp_path.iterdir()] == ["a.har"]


@pytest.mark.skipif(not _FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("option", ["-o", "-D", "-c", "--timing-html", "--har"])
def test_a_full_device_is_named_and_not_replaced(app: AppServer, option: str) -> None:
    ended = run("get", app.url, option, _FULL)
    assert ended.status == 23
    assert ended.err == "curlhttp: /dev/full: No space left on device\n"
    assert not _FULL.is_file()


@pytest.mark.skipif(not _FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words", slow_but_for([["get"]], [["get"], ["get", "-i"], ["curl"], ["fetch", "-"]])
)
def test_a_full_disk_behind_stdout_is_named(app: AppServer, words: list[str]) -> None:
    command = [sys.executable, "-m", "curlhttp", *words, *([app.url] if "-" not in words else [])]
    with _FULL.open("w") as full:
        ended = subprocess.run(
            command, input=app.url, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert ended.returncode == 23
    assert ended.stderr.splitlines()[-1] == "curlhttp: stdout: No space left on device"


def test_files_keep_their_mode_and_private_ones_are_private(tmp_path: Path) -> None:
    path, link, private = tmp_path / "a", tmp_path / "link", tmp_path / "private"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    replace_file(link, "new")
    assert (path.read_text(), link.is_symlink()) == ("new", True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    replace_private_files((private, "secret"), (path, "secret"))
    assert {stat.S_IMODE(each.stat().st_mode) for each in (private, path)} == {0o600}


def test_private_files_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(CommandFailed, match="none"):
        replace_private_files((path, "new"), (tmp_path / "none" / "b", "new"))
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["a"])


def test_a_session_that_was_not_saved_completely_is_the_old_one(
    app: AppServer, tmp_path: Path
) -> None:
    session = tmp_path / "me.json"
    run("get", app.url, "--session", session, "X-A:1")
    (tmp_path / "me.cookies").unlink()
    (tmp_path / "me.cookies").mkdir()
    ended = run("get", app.url, "--session-read-only", session, "X-A:2")
    assert json.loads(session.read_text())["headers"] == [["X-A", "1"]]
    assert ended.status == 26
