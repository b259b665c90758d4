"""The package without the modules of POSIX systems, as on Windows."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from curlhttp._features import rename
from curlhttp._features.download.partial_file import PartialFile
from curlhttp._features.file_lock import lock_file
from tests.servers import AppServer, payload
from tests.support.colours import needs_posix
from tests.support.forced import force

# Runs first: no module of POSIX, nor what of `os` Windows lacks.
WITHOUT_POSIX = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "pread"):
    delattr(os, name)
"""
EVERY_MODULE = """
import importlib, pkgutil
import curlhttp
missing = []
for module in pkgutil.walk_packages(curlhttp.__path__, "curlhttp."):
    if module.name.endswith(".__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        missing.append(f"{module.name}: {error}")
print(*missing, sep="\\n")
"""
DOWNLOAD = """
import sys
import curlhttp
url, path = sys.argv[1:]
with curlhttp.Client() as client:
    client.download(url, path)
    client.download(url, path)
print(len(open(path, "rb").read()))
"""


# What Windows lacks besides; asyncio is loaded before, which looks at some of it.
WITHOUT_UNIX = """
import asyncio, select, signal
for name in ("epoll", "poll", "kqueue"):
    if hasattr(select, name):
        delattr(select, name)
for name in ("fork", "register_at_fork", "getuid", "geteuid", "sched_getaffinity", "uname"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGPIPE", "SIGUSR1", "SIGWINCH", "pthread_kill", "setitimer"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
BLOCKING = """
import sys
import curlhttp
from curlhttp import requests
url = sys.argv[1]
with curlhttp.Client() as client:
    print(client.get(url).text)
    with client.stream("GET", url) as response:
        print(response.read().decode())
    print({answer.text for answer in client.map([url] * 50, concurrency=10)})
print(requests.get(url).text)
"""
ASYNC = """
import sys
import curlhttp
async def main():
    async with curlhttp.AsyncClient() as client:
        print((await client.get(sys.argv[1])).text)
asyncio.run(main())
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_POSIX + program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@needs_posix
def test_no_module_needs_posix() -> None:
    """Those of an extra that is not installed are left out."""
    output = run(EVERY_MODULE)
    for name in ("fcntl", "grp", "pwd", "resource", "termios"):
        assert name not in output


@needs_posix
def test_importing_the_package_needs_nothing_that_windows_lacks() -> None:
    assert (
        run(WITHOUT_UNIX + "import curlhttp; curlhttp.Client().close(); print('made')") == "made\n"
    )


@needs_posix
def test_blocking_requests_need_nothing_that_windows_lacks() -> None:
    with AppServer() as server:
        server.route("/hello", lambda record, conn: conn.reply(200, b"hello"))
        output = run(WITHOUT_UNIX + BLOCKING, server.url + "/hello")
    assert output.splitlines() == ["hello", "hello", "{'hello'}", "hello"]


@needs_posix
def test_an_async_client_needs_nothing_that_windows_lacks() -> None:
    with AppServer() as server:
        server.route("/hello", lambda record, conn: conn.reply(200, b"hello"))
        output = run(WITHOUT_UNIX + ASYNC, server.url + "/hello")
    assert output == "hello\n"


@needs_posix
def test_a_download_needs_nothing_that_posix_alone_has(tmp_path: Path) -> None:
    body = payload(300_000)
    with AppServer() as server:
        server.route("/file", lambda record, conn: conn.reply(200, body, [("ETag", '"1"')]))
        path = tmp_path / "file"
        assert run(DOWNLOAD, server.url + "/file", str(path)) == "300000\n"
    assert path.read_bytes() == body
    assert os.listdir(tmp_path) == ["file"]


class _Msvcrt(types.ModuleType):
    """Windows' locks, of which one byte can have one."""

    LK_NBLCK = 2

    def __init__(self, number: int) -> None:
        super().__init__("msvcrt")
        self.number = number  # of the error for a locked byte
        self.locked: set[tuple[int, int]] = set()

    def locking(self, descriptor: int, how: int, size: int) -> None:
        place = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR))
        if place in self.locked:
            raise OSError(self.number, "locked")
        self.locked.add(place)


@pytest.mark.parametrize("number", [errno.EACCES, 0, None], ids=["Windows", "wine", "no locks"])
def test_a_file_is_locked_by_windows_means_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    has_locks = number is not None
    modules: dict[str, Any] = {"fcntl": None, "msvcrt": None if number is None else _Msvcrt(number)}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    path = tmp_path / "file"
    path.write_bytes(b"some")
    with path.open("r+b") as first, path.open("r+b") as second:
        first.seek(2)
        lock_file(first.fileno())
        assert os.lseek(first.fileno(), 0, os.SEEK_CUR) == 2
        if has_locks:
            with pytest.raises(BlockingIOError):
                lock_file(second.fileno())
        else:
            lock_file(second.fileno())


@pytest.mark.parametrize("attempts", [3, 99])
def test_renaming_waits_a_moment_for_a_file_that_a_scanner_has_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    real = os.replace
    pauses: list[float] = []
    calls: list[str] = []

    def replace(path: str, target: str) -> None:
        calls.append(target)
        if len(calls) < attempts:
            raise PermissionError(errno.EACCES, "Access is denied")
        real(path, target)

    force(monkeypatch, "whether renames are those of Windows", True)
    force(monkeypatch, "the wait between two renames", pauses.append)
    monkeypatch.setattr(os, "replace", replace)
    source, target = tmp_path / "file.part", tmp_path / "file"
    source.write_bytes(b"new")
    if attempts == 3:
        rename.rename_over(source, target)
        assert target.read_bytes() == b"new"
        assert len(pauses) == 2
    else:
        with pytest.raises(PermissionError, match="another program has the file open") as caught:
            rename.rename_over(source, target)
        assert caught.value.filename == str(target)
        assert source.exists()


def test_a_complete_file_that_cannot_be_renamed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, target: str) -> None:
        raise PermissionError(errno.EACCES, "Access is denied", path)

    partial = PartialFile(tmp_path / "file", resumes=False)
    try:
        partial.restart(None)
        partial.write([b"all of it"])
        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(PermissionError, match=r"the download stays in .*file\.part"):
            partial.commit()
    finally:
        partial.close()
    assert (tmp_path / "file.part").read_bytes() == b"all of it"


@pytest.mark.skipif(sys.platform != "win32", reason="only Windows keeps open files from renames")
def test_an_open_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "the wait between two renames", lambda seconds: None)
    source, target = tmp_path / "file.part", tmp_path / "file"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    with target.open("rb"), pytest.raises(PermissionError, match="another program has the file"):
        rename.rename_over(source, target)
    rename.rename_over(source, target)
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("most", [2, 1024], ids=["a short write", "any write"])
def test_pieces_are_written_one_after_the_other(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hasattr(os, "writev"):
        write = os.writev
        monkeypatch.setattr(os, "writev", lambda file, pieces: write(file, pieces[:most]))
    pieces = [bytes([number]) * number for number in range(1, 50)]
    path = tmp_path / "file"
    part = PartialFile(path, resumes=False)
    try:
        part.restart(None)
        part.write(pieces)
        part.write([b"more"])
        part.write([b"x"] * 5000)  # more than a system writes at once
        assert part.size == sum(map(len, pieces)) + 4 + 5000
        part.commit()
    finally:
        part.close()
    assert path.read_bytes() == b"".join(pieces) + b"more" + b"x" * 5000
