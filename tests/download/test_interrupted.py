"""Interrupted downloads: a full disk, cancellation, Ctrl-C, SIGKILL."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.colours import AnyClient
from tests.support.downloads import OLD, Shelf, download, left_in
from tests.support.internals import (
    count_descriptors,
    finish_script,
    get_slots,
    run_script,
    start_script,
)
from tests.support.scripted import notes_of

FULL = """
import errno, resource, signal, sys
import anyio, curlhttp
url, path, kind, limit = sys.argv[1:]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # the limit may cut it off
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))

async def run():
    async with curlhttp.AsyncClient() as client:
        await client.download(url, path, retry=3)

try:
    if kind == "blocking":
        with curlhttp.Client() as client:
            client.download(url, path, retry=3)
    else:
        anyio.run(run, backend=kind)
except OSError as error:
    print(type(error).__name__, errno.errorcode[error.errno], error.filename)
    print(*error.__notes__ if hasattr(error, "__notes__") else ())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocking", "asyncio", "trio"])
def test_a_full_disk_keeps_the_old_file_and_the_received_part(
    app: AppServer, tmp_path: Path, kind: str
) -> None:
    shelf, path = Shelf(app, 3_000_000), tmp_path / "file"
    path.write_bytes(OLD)
    first, second = run_script(FULL, shelf.url, str(path), kind, "2000001").splitlines()
    assert first == f"OSError EFBIG {path}.part"  # what ENOSPC is without a limit
    assert second == "2000001 bytes are kept: the same download continues from there"
    assert path.read_bytes() == OLD
    assert run_script(FULL, shelf.url, str(path), kind, "9000000") == ""
    assert shelf.asked == [None, "bytes=2000001-"]
    assert path.read_bytes() == shelf.data


@pytest.mark.slow
def test_a_disk_without_room_for_the_record_is_an_error(app: AppServer, tmp_path: Path) -> None:
    shelf = Shelf(app, 100)
    out = run_script(FULL, shelf.url, str(tmp_path / "file"), "blocking", "20")
    assert out.startswith(f"OSError EFBIG {tmp_path}/file.part")
    assert left_in(tmp_path) == []


READ_ONLY = """
import os, sys
import curlhttp
with curlhttp.Client() as client:
    client.download(*sys.argv[1:3])  # imports what nobody else may read
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
    for path in sys.argv[3:]:
        try:
            client.download(sys.argv[1], path)
        except OSError as error:
            print(type(error).__name__, os.path.basename(error.filename))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can become somebody else"
)
def test_an_unwritable_file_is_an_error_before_anything_is_sent(
    app: AppServer, tmp_path: Path
) -> None:
    shelf = Shelf(app)
    closed, opened = tmp_path / "closed", tmp_path / "open"
    for folder, mode in ((closed, 0o755), (opened, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o005:  # pytest's own
            folder.chmod(0o755)
    (opened / "file").write_bytes(OLD)
    (opened / "file").chmod(0o444)
    paths = (tmp_path / "first", closed / "file", opened / "file")
    out = run_script(READ_ONLY, shelf.url, *map(str, paths))
    assert out.splitlines() == ["PermissionError file.part", "PermissionError file"]
    assert len(shelf.asked) == 1
    assert (opened / "file").read_bytes() == OLD


@pytest.mark.anyio
async def test_no_descriptor_and_no_slot_is_left_after_a_failure(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    shelf = Shelf(app)
    await download(client, shelf.url, tmp_path / "file")
    before = count_descriptors()
    for _ in range(3):
        shelf.cuts = [1000]
        with pytest.raises(curlhttp.ChunkedEncodingError):
            await download(client, shelf.url, tmp_path / "other")
        with pytest.raises(curlhttp.ChecksumMismatch):
            await download(client, shelf.url, tmp_path / "file", checksum="md5:" + "0" * 32)
    assert get_slots(client).used == 0
    assert count_descriptors() <= before


@pytest.mark.anyio
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_an_error_of_the_disk_ends_the_request(
    client: AnyClient, app: AppServer, tmp_path: Path, monkeypatch: Any, number: int
) -> None:
    """What RLIMIT_FSIZE cannot do: the disk is full at the very end."""

    sync = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == len(shelf.data):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    shelf = Shelf(app)
    (tmp_path / "file").write_bytes(OLD)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            await download(client, shelf.url, tmp_path / "file", retry=3)
    assert notes_of(caught.value) == [
        "200000 bytes are kept: the same download continues from there"
    ]
    assert (tmp_path / "file").read_bytes() == OLD
    await download(client, shelf.url, tmp_path / "file")
    assert shelf.asked == [None, "bytes=199999-"]
    assert (tmp_path / "file").read_bytes() == shelf.data


# --- cancellation ---


class Slow:
    """A file of which half comes, and then nothing."""

    def __init__(self, app: AppServer) -> None:
        self.url = app.url + "/slow"
        self.data = payload(3_000_000)
        self.asked: list[str | None] = []
        self.stalls = True
        app.route("/slow", self.answer)

    def answer(self, record: Record, conn: AppConnection) -> None:
        asked = record.header("range")
        self.asked.append(asked)
        start = int(asked[6:-1]) if asked else 0
        size = len(self.data)
        fields = [("ETag", '"1"'), ("Content-Length", str(size - start))]
        if asked:
            fields.append(("Content-Range", f"bytes {start}-{size - 1}/{size}"))
        conn.begin(206 if asked else 200, fields)
        if not self.stalls:
            return conn.send(self.data[start:])
        conn.send(self.data[:1_500_000])
        conn.stall()
        conn.closing = True
        return None


@pytest.mark.anyio
@pytest.mark.parametrize("by", ["scope", "task"])
async def test_the_part_received_before_a_cancellation_is_kept(
    make_client: Any, app: AppServer, tmp_path: Path, colour: str, by: str
) -> None:
    if colour == "blocking" or (by == "task" and colour == "trio"):
        return
    slow, path, client = Slow(app), tmp_path / "file", make_client()
    part = tmp_path / "file.part"

    async def until_half_is_there() -> None:
        with anyio.fail_after(30):
            while not part.exists() or part.stat().st_size < 1_000_000:
                await anyio.sleep(0.005)

    if by == "task":
        task = asyncio.get_running_loop().create_task(download(client, slow.url, path))
        await until_half_is_there()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(download, client, slow.url, path)
            await until_half_is_there()
            tasks.cancel_scope.cancel()
    kept = part.read_bytes()
    assert len(kept) >= 1_000_000
    assert slow.data.startswith(kept)
    slow.stalls = False
    await download(client, slow.url, path)
    assert slow.asked == [None, f"bytes={len(kept)}-"]
    assert path.read_bytes() == slow.data


@pytest.mark.skipif(not hasattr(os, "writev"), reason="Windows has no call that can be delayed")
@pytest.mark.anyio
async def test_a_thread_that_is_still_writing_when_its_task_is_cancelled_finishes_first(
    make_client: Any, app: AppServer, tmp_path: Path, colour: str, monkeypatch: Any
) -> None:
    if colour not in ("asyncio", "uvloop"):
        return
    shelf, path = Shelf(app, 3_000_000), tmp_path / "file"
    writes, goes_on = threading.Event(), threading.Event()
    write = os.writev

    def slowly(descriptor: int, pieces: Any) -> int:
        writes.set()
        goes_on.wait(60)
        return write(descriptor, pieces)

    monkeypatch.setattr(os, "writev", slowly)
    task = asyncio.get_running_loop().create_task(make_client().real.download(shelf.url, path))
    await anyio.to_thread.run_sync(writes.wait)
    task.cancel()
    threading.Timer(0.05, goes_on.set).start()
    with pytest.raises(asyncio.CancelledError):
        await task
    kept = (tmp_path / "file.part").read_bytes() if (tmp_path / "file.part").exists() else b""
    assert shelf.data.startswith(kept)


KILLED = """
import sys
import anyio, curlhttp
url, path, kind = sys.argv[1:]

def tell(done, total):
    if done != total:
        print("going", flush=True)

async def run():
    async with curlhttp.AsyncClient() as client:
        await client.download(url, path, progress=tell)

try:
    if kind == "blocking":
        with curlhttp.Client() as client:
            client.download(url, path, progress=tell)
    else:
        anyio.run(run, backend=kind)
except KeyboardInterrupt:
    print("interrupted")
print("over")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocking", "asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, getattr(signal, "SIGKILL", signal.SIGTERM)])
def test_another_process_resumes_after_a_kill(
    app: AppServer, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    slow, path = Slow(app), tmp_path / "file"
    path.write_bytes(OLD)
    process = start_script(KILLED, slow.url, str(path), kind)
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    part = tmp_path / "file.part"
    end = time.monotonic() + 60
    while part.stat().st_size < 1_000_000:
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(number)
    if number == signal.SIGINT:
        assert finish_script(process).splitlines()[-2:] == ["interrupted", "over"]
    else:
        process.communicate()
    assert path.read_bytes() == OLD
    kept = part.read_bytes()
    assert slow.data.startswith(kept)
    slow.stalls = False
    assert run_script(KILLED, slow.url, str(path), kind).splitlines()[-1] == "over"
    assert slow.asked == [None, f"bytes={len(kept)}-"]
    assert path.read_bytes() == slow.data
    assert left_in(tmp_path) == ["file"]


@pytest.mark.anyio
async def test_two_tasks_cannot_download_to_one_path(
    make_client: Any, app: AppServer, tmp_path: Path, colour: str
) -> None:
    if colour == "blocking":
        return
    shelf, client, results = Shelf(app), make_client(), []

    async def one() -> None:
        try:
            results.append(await client.real.download(shelf.url, tmp_path / "file"))
        except BlockingIOError as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert sorted(type(result).__name__ for result in results) == [
        "AsyncStreamedResponse",
        "BlockingIOError",
        "BlockingIOError",
    ]
    assert (tmp_path / "file").read_bytes() == shelf.data
