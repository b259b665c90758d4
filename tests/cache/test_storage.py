"""Storage of responses: files shared by clients and processes, Redis, and damaged entries."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import AsyncClient, Cache, Client
from curlhttp.testing import Answer, ScriptedEngine
from tests.support.forced import force
from tests.support.scripted import Scripted

pytestmark = pytest.mark.anyio

URL = "http://h.test/"
FRESH = Answer(headers={"Cache-Control": "max-age=60"}, content=b"one")


def once(cache: Cache, url: str = URL, answer: Answer = FRESH, **options: Any) -> curlhttp.Response:
    """Send a GET by its own client, and return the response."""
    with Client(cache=cache, transport=ScriptedEngine([answer])) as client:
        return client.get(url, **options)


def on_disk(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(path.name + "*"))


async def test_a_file_is_shared_by_clients_of_both_kinds(
    scripted: Scripted, tmp_path: Path
) -> None:
    with Cache(tmp_path / "http.db") as first, Cache(tmp_path / "http.db") as second:
        client, _ = scripted([FRESH], cache=first, verify=True)
        assert not (await client.get(URL)).from_cache
        with Client(cache=second, transport=ScriptedEngine([])) as blocking:
            assert blocking.get(URL).from_cache
        async with AsyncClient(cache=second, transport=ScriptedEngine([])) as other:
            assert (await other.get(URL)).from_cache


def test_stored_responses_outlive_the_client(tmp_path: Path) -> None:
    for hit in (False, True):
        with Cache(tmp_path / "http.db") as cache:
            assert once(cache).from_cache is hit


def test_a_file_is_its_owners_and_holds_no_url_and_no_credential(tmp_path: Path) -> None:
    path = tmp_path / "http.db"
    headers = {"Authorization": "Bearer s3cret", "Cookie": "id=s3cret"}
    response = Answer(
        headers={"Cache-Control": "max-age=60", "Vary": "Cookie", "Set-Cookie": "a=s3cret"}
    )
    with Cache(path) as cache:
        once(cache, URL + "?key=s3cret", response, headers=headers)
        if os.name == "posix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = path.read_bytes()
    assert b"max-age=60" in found
    assert b"s3cret" not in found
    assert b"h.test" not in found


def test_clear_removes_everything(tmp_path: Path) -> None:
    path = tmp_path / "http.db"
    with Cache(path) as cache, Cache(path) as other:
        once(cache, answer=Answer(headers={"Cache-Control": "max-age=60"}, content=bytes(10**6)))
        cache.clear()
        assert not once(other).from_cache
    assert path.stat().st_size < 10**6


def test_with_a_closed_cache_requests_go_to_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(tmp_path / "http.db")
    once(cache)
    cache.close()
    assert not once(cache).from_cache
    assert caplog.records == []


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Return the connections to databases that are opened in the test."""
    found: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def keep(*arguments: Any, **options: Any) -> sqlite3.Connection:
        found.append(connect(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(sqlite3, "connect", keep)
    return found


@pytest.mark.parametrize("where", ["file", "memory"])
def test_a_cache_is_bounded_and_drops_the_least_recently_used(
    tmp_path: Path, where: str, opened: list[sqlite3.Connection]
) -> None:
    path = tmp_path / "http.db"
    response = Answer(headers={"Cache-Control": "max-age=60"}, content=os.urandom(50_000))
    with Cache(path if where == "file" else ":memory:", max_size=1_000_000) as cache:
        for number in range(60):
            # A second goes by, as the storage has it.
            opened[-1].execute("UPDATE entries SET last_accessed_at = last_accessed_at - 2")
            once(cache, f"{URL}{number}", response)
            assert once(cache, URL + "0", response).from_cache
        assert once(cache, URL + "59").from_cache
        assert not once(cache, URL + "1", response).from_cache
    if where == "file":
        assert on_disk(path) <= 1_000_000


def test_a_body_beyond_the_bound_is_returned_and_not_stored() -> None:
    with Cache(":memory:", max_body_size=99) as cache:
        for size, hit in [(100, False), (99, True)]:
            response = Answer(headers={"Cache-Control": "max-age=60"}, content=bytes(size))
            url = f"{URL}{size}"
            assert len(once(cache, url, response).content) == size
            assert once(cache, url, response).from_cache is hit


# faults


def test_the_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="a path"):
        Cache()
    with pytest.raises(ValueError, match="max_size must be a whole number of bytes from 131072 on"):
        Cache(":memory:", max_size=1000)
    with pytest.raises(TypeError, match=r"cache must be a curlhttp\.Cache, not str"):
        Client(cache="http.db")  # type: ignore[arg-type]


def test_a_file_that_is_no_cache_is_refused_and_not_changed(tmp_path: Path) -> None:
    text, other = tmp_path / "a.txt", tmp_path / "b.db"
    text.write_text("no database" * 100)
    with pytest.raises(ValueError, match="is not a cache of responses: file is not a database"):
        Cache(text)
    assert text.read_text() == "no database" * 100
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE entries (mine)")
    connection.close()
    with pytest.raises(ValueError, match="is not a cache of responses"):
        Cache(other)


def test_a_file_that_cannot_be_opened_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be opened"):
        Cache(tmp_path / "missing" / "http.db")
    with pytest.raises(OSError, match="cannot be opened"):
        Cache(tmp_path)


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows lets nobody write to the file meanwhile"
)
async def test_a_file_that_is_damaged_meanwhile_fails_no_request(
    scripted: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "http.db"
    with Cache(path) as cache:
        client, engine = scripted(lambda request: FRESH, cache=cache)
        await client.get(URL)
        for each in tmp_path.iterdir():
            each.write_bytes(b"damaged" * 10_000)
        for number in range(3):
            assert (await client.get(f"{URL}{number}")).content == b"one"
        assert len(engine.sent) == 4
    assert [each.name for each in caplog.records] == ["curlhttp"]
    assert "requests continue without it" in caplog.records[0].getMessage()
    assert {type(value) for value in caplog.records[0].args or ()} == {str}  # none keeps frames
    assert caplog.records[0].exc_info is None


async def test_a_row_that_cannot_be_read_is_fetched_again(
    scripted: Scripted, tmp_path: Path
) -> None:
    with Cache(tmp_path / "http.db") as cache:
        client, engine = scripted(lambda request: FRESH, cache=cache)
        await client.get(URL)
        other = sqlite3.connect(tmp_path / "http.db")
        other.execute("UPDATE entries SET data = x'00'")
        other.commit()
        other.close()
        assert (await client.get(URL)).content == b"one"
        assert len(engine.sent) == 2


async def test_a_file_locked_by_another_process_blocks_no_request(
    scripted: Scripted,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    force(monkeypatch, "seconds without a cache after it failed", 0.0)
    with Cache(tmp_path / "http.db") as cache:
        client, _ = scripted(lambda request: FRESH, cache=cache)
        await client.get(URL)
        other = sqlite3.connect(tmp_path / "http.db")
        other.execute("BEGIN IMMEDIATE")
        assert (await client.get(URL)).from_cache
        assert (await client.get(URL + "new")).content == b"one"
        other.rollback()
        other.close()
        await client.get(URL + "new")
        assert (await client.get(URL + "new")).from_cache
    assert len(caplog.records) == 1


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="cannot be"):
        Cache(tmp_path / "http.db")


def test_a_full_disk_fails_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, opened: list[sqlite3.Connection]
) -> None:
    with Cache(tmp_path / "http.db") as cache:
        opened[-1].execute("PRAGMA max_page_count = 20")  # SQLITE_FULL above that
        response = Answer(headers={"Cache-Control": "max-age=60"}, content=bytes(10**6))
        assert len(once(cache, answer=response).content) == 10**6
        assert not once(cache).from_cache
    assert len(caplog.records) == 1
    assert "full" in caplog.records[0].getMessage()


def test_hishels_own_log_is_anothers_to_read(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("hishel._core._storages._sync_sqlite").error("of another program")
    assert [each.getMessage() for each in caplog.records] == ["of another program"]


# threads and processes


def test_many_threads_use_one_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failed: list[BaseException] = []
    with Cache(tmp_path / "http.db") as cache:
        engine = ScriptedEngine(lambda request: FRESH)
        with Client(cache=cache, transport=engine) as client:

            def work(start: int) -> None:
                try:
                    for number in range(40):
                        response = client.get(f"{URL}{(start + number) % 20}")
                        assert response.content == b"one"
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=work, args=(each,)) for each in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failed == []
            assert client.get(URL + "0").from_cache
    assert caplog.records == []


_PROCESS = """
import sys
from curlhttp import Cache, Client
from curlhttp.testing import Answer, ScriptedEngine
from tests.support.forced import force
answer = Answer(headers={"Cache-Control": "max-age=600"}, content=b"one" * 1000)
with Cache(sys.argv[1]) as cache:
    with Client(cache=cache, transport=ScriptedEngine(lambda request: answer)) as client:
        hits = 0
        for number in range(200):
            response = client.get(f"http://h.test/{number % 50}")
            assert response.content == b"one" * 1000
            hits += response.from_cache
print(hits)
"""


@pytest.mark.slow
def test_several_processes_use_one_file(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", _PROCESS, str(tmp_path / "http.db")]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ended = [process.communicate() for process in running]
    assert [error for _, error in ended] == [""] * 3
    assert all(int(printed) >= 150 for printed, _ in ended)


def _in_child(client: Any, queue: Any) -> None:
    queue.put(client.get(URL).from_cache)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reopens_the_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with Cache(tmp_path / "http.db") as cache:
        with Client(cache=cache, transport=ScriptedEngine([FRESH])) as client:
            client.get(URL)
            child = context.Process(target=_in_child, args=(client, queue))
            child.start()
            assert queue.get(timeout=30)
            child.join()
            assert child.exitcode == 0
            assert client.get(URL).from_cache
    queue.close()
    queue.join_thread()


def test_a_dropped_cache_leaves_nothing_open(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    cache: Cache | None = Cache(tmp_path / "http.db")
    assert cache is not None
    once(cache)
    cache = None
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[-1].execute("SELECT 1")


async def test_a_task_cancelled_in_the_store_breaks_nothing(tmp_path: Path) -> None:
    engine = ScriptedEngine(lambda request: FRESH)
    with Cache(tmp_path / "http.db") as cache:
        async with AsyncClient(cache=cache, transport=engine) as client:
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(client.get, f"{URL}{number}")
                await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert (await client.get(URL)).content == b"one"
            assert (await client.get(URL)).from_cache


test_a_task_cancelled_in_the_store_breaks_nothing = pytest.mark.parametrize(
    "anyio_backend", ["asyncio", "trio"]
)(test_a_task_cancelled_in_the_store_breaks_nothing)


# Redis


@pytest.fixture
def redis_url(tmp_path: Path) -> Any:
    """Start a server of Redis, and give its URL."""
    pytest.importorskip("redis")
    import shutil

    command = shutil.which("redis-server")
    if command is None:
        pytest.skip("there is no redis-server")
    path = tmp_path / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen([command, *options], stdout=subprocess.DEVNULL) as server:
        import redis

        client = redis.Redis(unix_socket_path=str(path))
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert server.poll() is None
        client.close()
        try:
            yield f"unix://{path}"
        finally:
            server.terminate()


async def test_responses_are_stored_in_redis(scripted: Scripted, redis_url: str) -> None:
    import redis

    lent = redis.Redis.from_url(redis_url)
    with Cache(redis=redis_url) as first, Cache(redis=lent) as second:
        client, _ = scripted([FRESH], cache=first)
        await client.get(URL)
        assert once(second).from_cache
        assert all(name.startswith(b"curlhttp:cache:") for name in lent.scan_iter())
        second.clear()
        assert not once(first).from_cache
    assert lent.ping()
    lent.close()


async def test_a_redis_that_does_not_reply_fails_no_request(
    scripted: Scripted, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    pytest.importorskip("redis")
    with Cache(redis=f"unix://{tmp_path}/none?password=s3cret") as cache:
        client, engine = scripted(lambda request: FRESH, cache=cache)
        for _ in range(3):
            assert (await client.get(URL)).content == b"one"
        assert len(engine.sent) == 3
        assert "s3cret" not in repr(cache)
    assert len(caplog.records) == 1
    assert "s3cret" not in caplog.records[0].getMessage()


def test_an_object_that_is_no_redis_client_is_refused() -> None:
    redis = pytest.importorskip("redis")
    with pytest.raises(TypeError, match="AsyncClient takes the same class"):
        Cache(redis=redis.asyncio.Redis())
    with redis.Redis(decode_responses=True) as decoding:
        with pytest.raises(TypeError, match="decode_responses"):
            Cache(redis=decoding)
    with pytest.raises(ValueError, match="maxmemory"):
        Cache(redis="redis://localhost", max_size=10**6)


def test_an_incomplete_stored_response_is_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "http.db"
    response = Answer(headers={"Cache-Control": "max-age=60"}, content=b"whole")
    with Cache(path) as cache:
        once(cache, answer=response)
        once(cache, URL + "other", response)
        connection = sqlite3.connect(path)
        connection.execute("DELETE FROM streams")
        connection.commit()
        connection.close()
        for url in (URL, URL + "other"):
            assert [once(cache, url, response).from_cache for _ in range(2)] == [False, True]
    assert caplog.records == []


LONG = os.urandom(300_000)  # three chunks
EDITS = {
    "one chunk less": "UPDATE entries SET chunk_count = 2",
    "no chunk": "UPDATE entries SET chunk_count = 0",
    "one chunk more": "UPDATE entries SET chunk_count = 4",
    "no count": "UPDATE entries SET chunk_count = 'three'",
    "other bytes": "UPDATE streams SET chunk_data = zeroblob(length(chunk_data))",
    "no bytes": "UPDATE streams SET chunk_data = x'' WHERE chunk_number = 1",
    "text": "UPDATE streams SET chunk_data = 'text' WHERE chunk_number = 1",
    "another's key": "UPDATE entries SET cache_key = (SELECT min(cache_key) FROM entries)",
    "longer fresh": "UPDATE entries SET data = "
    "CAST(replace(CAST(data AS TEXT), 'max-age=60', 'max-age=99') AS BLOB)",
    "no checksum": "UPDATE entries SET data = "
    "CAST(replace(CAST(data AS TEXT), ':seal', ':none') AS BLOB)",
    "no checksum of the body": "UPDATE entries SET data = "
    "CAST(replace(CAST(data AS TEXT), ':body', ':none') AS BLOB)",
}


@pytest.mark.parametrize("edit", EDITS)
async def test_a_damaged_entry_is_removed(
    scripted: Scripted,
    tmp_path: Path,
    edit: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    force(monkeypatch, "seconds without a cache after it failed", 0.0)
    response = Answer(headers={"Cache-Control": "max-age=60"}, content=LONG)
    with Cache(tmp_path / "http.db") as cache:
        client, engine = scripted(lambda request: response, cache=cache)
        for url in (URL, URL + "other"):
            await client.get(url)
            assert (await client.get(url)).from_cache
        connection = sqlite3.connect(tmp_path / "http.db")
        connection.execute(EDITS[edit])
        connection.commit()
        connection.close()
        sent = len(engine.sent)
        for url in (URL, URL + "other"):
            assert (await client.get(url)).content == LONG
        changed = len(engine.sent) - sent
        assert changed == (1 if edit == "another's key" else 2)
        for url in (URL, URL + "other"):
            assert (await client.get(url)).from_cache
    assert [each for each in caplog.records if edit != "no count"] == []


async def test_a_confirmed_response_is_whole_still(scripted: Scripted, tmp_path: Path) -> None:
    headers = {"Cache-Control": "max-age=60", "ETag": '"a"'}
    with Cache(tmp_path / "http.db") as cache:
        client, engine = scripted([Answer(headers=headers, content=LONG), 304], cache=cache)
        await client.get(URL)
        engine.advance(61)
        for _ in range(2):
            assert (await client.get(URL)).content == LONG
        assert (await client.get(URL)).from_cache
        assert len(engine.sent) == 2


async def test_a_damaged_entry_in_redis_is_removed(
    scripted: Scripted, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    force(monkeypatch, "seconds without a cache after it failed", 0.0)

    response = Answer(headers={"Cache-Control": "max-age=60"}, content=LONG)
    with Cache(redis=redis_url) as cache, redis.Redis.from_url(redis_url) as admin:
        client, engine = scripted(lambda request: response, cache=cache)

        def edit(kind: str) -> None:
            for name in admin.scan_iter():
                if kind == "chunks" and admin.type(name) == b"list":
                    admin.lset(name, 0, bytes(10))
                elif kind == "entry" and b"max-age=60" in (text := _text(admin, name)):
                    admin.set(name, text.replace(b"max-age=60", b"max-age=99"))

        for number, kind in enumerate(("chunks", "entry"), 1):
            await client.get(URL)
            edit(kind)
            assert (await client.get(URL)).content == LONG
            assert len(engine.sent) == number + 1
            assert (await client.get(URL)).from_cache


def _text(admin: Any, name: bytes) -> bytes:
    return bytes(admin.get(name)) if admin.type(name) == b"string" else b""


def test_an_unverified_response_is_not_returned_to_clients_that_verify() -> None:
    pins = {"h.test": ["sha256//" + "A" * 43 + "="]}
    with Cache(":memory:") as cache:
        for options in ({"verify": False}, {}, {"pins": pins}):
            assert [once(cache, **options).from_cache for _ in range(2)] == [False, True]
