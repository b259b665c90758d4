"""download(segments=): several ranges at once, and one stream where a server cannot."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import exceptions as e
from tests.servers import AppConnection, AppServer, H2Server, Record
from tests.support.colours import ONE_OF_EACH, AnyClient, needs_posix
from tests.support.depot import MIB, Asked, Depot
from tests.support.downloads import OLDER, download, left_in
from tests.support.internals import finish_script, run_script, start_script
from tests.support.scripted import notes_of

pytestmark = pytest.mark.anyio

NOW = curlhttp.RetryPolicy(
    2, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001, factor=1.0), budget=None
)


@pytest.fixture
def depot(app: AppServer) -> Depot:
    return Depot(app)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


class Stop(Exception):
    """Raised by a progress function."""


def stop_at(size: int) -> Callable[[int, int | None], None]:
    """Return a progress function that ends the download after so many bytes."""

    def stop(done: int, _: int | None) -> None:
        if done >= size:
            raise Stop

    return stop


def spans_of(path: Path) -> list[tuple[int, int]]:
    """Return what the state next to a partial file claims."""
    _, _, line = path.with_name(f"{path.name}.part.json").read_bytes().partition(b"\n")
    if not line.strip():
        return [(0, path.with_name(f"{path.name}.part").stat().st_size)]
    return [(start, end) for start, end in json.loads(line.split()[0])]


def check_claims(path: Path, data: bytes) -> int:
    """Compare what the state claims with the file; return how many bytes that is."""
    part = path.with_name(f"{path.name}.part").read_bytes()
    for start, end in spans_of(path):
        assert part[start:end] == data[start:end]
    return sum(end - start for start, end in spans_of(path))


def count_claimed(path: Path) -> int:
    """Return how many bytes the state claims, 0 before there is one."""
    try:
        return sum(end - start for start, end in spans_of(path))
    except (OSError, ValueError):
        return 0


async def interrupt(client: AnyClient, depot: Depot, path: Path, segments: int = 4) -> int:
    """Have a download stop in the middle of each of its segments; return how much is there."""
    size = len(depot.data)
    depot.before = lambda asked, *_: asked.is_range and depot.wait(segments - 1)
    depot.cut = lambda asked: 300_000 + 1000 * asked.number
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, depot.url, path, segments=segments)
    depot.cut, depot.before = lambda _: None, lambda *_: False
    count = check_claims(path, depot.data)
    assert 0 < count < size
    return count


# --- several at once ---


async def test_a_file_comes_in_segments_at_once_over_connections_of_their_own(
    client: AnyClient, depot: Depot, app: AppServer, path: Path
) -> None:
    depot.before = lambda asked, *_: asked.is_range and depot.wait(3)
    response = await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert left_in(path.parent) == ["file"]
    size = len(depot.data)
    assert depot.asked[0] is None
    assert sorted(depot.ranges) == [(size * n // 4, size * (n + 1) // 4) for n in (1, 2, 3)]
    assert len({record.connection for record in app.requests}) == 4
    assert {record.header("accept-encoding") for record in app.requests} == {"identity"}
    assert (response.status_code, response.headers["etag"]) == (200, '"one"')
    assert response.is_closed


async def test_segments_share_no_connection_where_http2_is_offered(
    any_client: AnyClient, h2_app: H2Server, path: Path
) -> None:
    depot = Depot(h2_app)
    depot.before = lambda asked, *_: asked.is_range and depot.wait(3)
    response = await download(any_client, depot.url, path, segments=4)
    assert response.http_version == "HTTP/1.1"
    assert path.read_bytes() == depot.data
    assert len({record.connection for record in h2_app.requests}) == 4


async def test_a_file_that_is_too_small_for_two_segments_comes_as_one_stream(
    client: AnyClient, app: AppServer, path: Path
) -> None:
    depot = Depot(app, 2 * MIB - 1)
    depot.waits_for = 0
    await download(client, depot.url, path, segments=16)
    assert path.read_bytes() == depot.data
    assert depot.asked == [None]


async def test_no_segment_is_smaller_than_a_mebibyte(
    client: AnyClient, app: AppServer, path: Path
) -> None:
    depot = Depot(app, 3 * MIB + 1)
    depot.waits_for = 2
    await download(client, depot.url, path, segments=16)
    assert path.read_bytes() == depot.data
    assert all(end - start >= MIB for start, end in depot.ranges)


async def test_a_date_that_is_a_strong_validator_is_enough(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    depot.etag, depot.modified = None, OLDER
    await download(client, depot.url, path, segments=4, mtime=True)
    assert path.read_bytes() == depot.data
    assert len(depot.ranges) == 3
    assert path.stat().st_mtime == 1704067200


async def test_progress_counts_all_segments(client: AnyClient, depot: Depot, path: Path) -> None:
    size, reports = len(depot.data), []

    def note(done: int, total: int | None) -> None:
        reports.append((done, total))

    await download(client, depot.url, path, segments=4, progress=note)
    assert reports[0] == (0, size)
    assert reports[-1] == (size, size)
    assert reports == sorted(reports)


async def test_the_checksum_is_that_of_the_whole_file(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    good = hashlib.sha256(depot.data).hexdigest()
    await download(client, depot.url, path, segments=4, checksum=f"sha256:{good}")
    assert path.read_bytes() == depot.data
    with pytest.raises(e.ChecksumMismatch):
        await download(client, depot.url, path, segments=4, checksum="md5:" + "0" * 32)
    assert path.read_bytes() == depot.data
    assert left_in(path.parent) == ["file"]


async def test_each_stream_follows_redirects_and_authenticates(
    client: AnyClient, depot: Depot, app: AppServer, path: Path
) -> None:
    url = f"{app.url}/redirect-to?url={depot.url}"
    await download(client, url, path, segments=4, auth=("ada", "secret"))
    assert path.read_bytes() == depot.data
    sent = [record for record in app.requests if record.path == "/file"]
    assert len(sent) == 4
    assert all(record.header("authorization") for record in sent)


async def test_a_slow_segment_is_divided_between_the_streams_that_are_done(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    size = len(depot.data)

    def hold(asked: Asked, _: Record, conn: AppConnection) -> bool:
        if not asked.is_range or asked.end != size or asked.start > size * 3 // 4:
            return False
        depot.send_part(asked, conn, 1000)
        depot.wait(4)
        conn.send(depot.data[asked.start + 1000 : asked.end])
        return True

    depot.data = random.Random(1).randbytes(16 * MIB)
    size = len(depot.data)
    depot.before = hold
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert len(depot.ranges) >= 4


# --- where the server cannot ---


def _no_etag(depot: Depot) -> None:
    depot.etag = None


def _weak_etag(depot: Depot) -> None:
    depot.etag = 'W/"one"'


def _young_date(depot: Depot) -> None:
    depot.etag, depot.modified = None, "Tue, 02 Jan 2024 00:00:00 GMT"


def _refuses_ranges(depot: Depot) -> None:
    depot.fields = [("Accept-Ranges", "none")]


def _coded(depot: Depot) -> None:
    depot.fields = [("Content-Encoding", "gzip")]
    depot.data = gzip.compress(depot.data, 0)


def _no_length(depot: Depot) -> None:
    def before(_: Asked, __: Record, conn: AppConnection) -> bool:
        conn.begin(200, [("ETag", '"one"'), ("Transfer-Encoding", "chunked")])
        conn.chunk(depot.data)
        conn.chunk(b"", is_last=False)
        return True

    depot.before = before


@pytest.mark.parametrize(
    "change", [_no_etag, _weak_etag, _young_date, _refuses_ranges, _coded, _no_length]
)
async def test_a_server_whose_response_allows_no_ranges_sends_one_stream(
    client: AnyClient, depot: Depot, path: Path, change: Any
) -> None:
    plain, depot.waits_for = depot.data, 0
    change(depot)
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == plain
    assert depot.asked == [None]
    assert left_in(path.parent) == ["file"]


async def test_a_server_that_answers_a_range_with_the_file_sends_one_stream(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    depot.knows_ranges = False
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert depot.asked.count(None) == 1


def _edit(name: str, value: str | None) -> Callable[[Asked, list[tuple[str, str]]], None]:
    def change(asked: Asked, fields: list[tuple[str, str]]) -> None:
        if asked.is_range:
            fields[:] = [field for field in fields if field[0] != name]
            if value is not None:
                size = 6 * MIB
                numbers = {"start": asked.start, "last": asked.end - 1, "size": size}
                numbers |= {"shifted": asked.start + 1, "longer": size + 1}
                fields.append((name, value.format(**numbers)))

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Content-Range", None),
        ("Content-Range", "bytes {shifted}-{last}/{size}"),
        ("Content-Range", "bytes {start}-{last}/{longer}"),
        ("Content-Range", "bytes {start}-{last}/*"),
        ("Content-Range", "items {start}-{last}/{size}"),
        ("Content-Range", "bytes 0-99/100"),
        ("Content-Type", "multipart/byteranges; boundary=b"),
        ("Content-Encoding", "gzip"),
        ("ETag", None),
    ],
)
async def test_a_wrong_range_is_never_written(
    client: AnyClient, depot: Depot, path: Path, name: str, value: str | None
) -> None:
    depot.change = _edit(name, value)
    if name == "Content-Type":
        depot.change = _edit("Content-Range", None)
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert depot.asked.count(None) == 1


@pytest.mark.parametrize("status", [403, 404, 416, 429, 500, 503])
async def test_a_server_that_sends_one_response_at_a_time_sends_one_stream(
    client: AnyClient, depot: Depot, path: Path, status: int
) -> None:
    def refuse(asked: Asked, _: Record, conn: AppConnection) -> bool:
        if asked.is_range:
            conn.reply(status, b"one at a time")
        return asked.is_range

    depot.before = refuse
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert depot.asked.count(None) == 1


async def test_a_server_that_closes_further_connections_sends_one_stream(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    def close(asked: Asked, _: Record, conn: AppConnection) -> bool:
        if asked.is_range:
            conn.closing = True
            conn.close()
        return asked.is_range

    depot.before = close
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data


# --- versions ---


@pytest.mark.parametrize("knows_conditions", [True, False])
async def test_a_file_that_changes_meanwhile_is_downloaded_again(
    client: AnyClient, depot: Depot, path: Path, knows_conditions: Any
) -> None:
    depot.knows_conditions = knows_conditions
    new = random.Random("new").randbytes(len(depot.data))

    def change(asked: Asked, _: Record, __: AppConnection) -> None:
        if asked.number == 2:
            depot.data, depot.etag = new, '"two"'

    depot.before = change
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == new
    assert left_in(path.parent) == ["file"]
    assert depot.asked.count(None) == 2


async def test_a_file_that_changes_with_each_request_comes_as_one_stream_in_the_end(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    versions: list[bytes] = []
    depot.waits_for = 0

    def change(asked: Asked, _: Record, conn: AppConnection) -> bool:
        data = random.Random(asked.number).randbytes(8 * MIB)
        versions.append(data)
        conn.begin(200, [("ETag", f'"{asked.number}"'), ("Content-Length", str(len(data)))])
        head = 65536 if asked.number < 6 else len(data)
        try:
            conn.send(data[:head])
            if asked.number < 6:
                conn.wait_closed()
        except OSError:
            conn.closing = True
        return True

    depot.before = change
    await download(client, depot.url, path, segments=2)
    assert path.read_bytes() in versions
    assert len(depot.asked) == 7


# --- limits ---


@pytest.mark.parametrize(
    "limits",
    [
        {"max_connections_per_host": 1},
        {"max_connections_per_host": 2},
        {"max_connections": 1},
        {"concurrency_limit": 1},
        {"concurrency_limit": 2},
    ],
)
async def test_limits_below_the_number_of_segments_are_kept(
    make_client: Any, depot: Depot, path: Path, limits: dict[str, Any]
) -> None:
    most = next(iter(limits.values()))
    if "concurrency_limit" in limits:
        limits = {"concurrency_limit": curlhttp.ConcurrencyLimit(most)}
    depot.waits_for = most - 1
    await download(make_client(**limits), depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert depot.most <= most


@pytest.mark.parametrize("cut", [None, 500_000])
async def test_the_attempts_of_each_segment_are_counted_and_limited(
    make_client: Any, depot: Depot, path: Path, cut: Any
) -> None:
    client = make_client(rate_limit=curlhttp.RateLimit(1000), breaker=curlhttp.CircuitBreaker())
    depot.cut = lambda asked: cut if 1 <= asked.number < 3 else None
    await download(client, depot.url, path, segments=4, retry=NOW)
    assert path.read_bytes() == depot.data
    assert client.real.stats().attempts == len(depot.asked)


async def test_the_total_timeout_is_that_of_the_whole_download(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    def stall(asked: Asked, _: Record, conn: AppConnection) -> bool:
        if not asked.is_range:
            fields = [("ETag", '"one"'), ("Content-Length", str(asked.end))]
            conn.begin(200, fields)
            conn.send(depot.data[:1000])
        conn.stall()
        return True

    depot.before = stall
    timeout = curlhttp.Timeout(total=0.7)
    with pytest.raises(e.DeadlineExceeded) as caught:
        await download(client, depot.url, path, segments=4, timeout=timeout)
    assert notes_of(caught.value)[-1].startswith("1000 bytes are kept")
    assert check_claims(path, depot.data) == 1000


async def test_a_stream_below_the_minimum_speed_leaves_its_segment_to_others(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    def stall(asked: Asked, _: Record, conn: AppConnection) -> bool:
        if asked.number != 2:
            return False
        depot.send_part(asked, conn, 1000)
        conn.stall()
        return True

    depot.before = stall
    timeout = curlhttp.Timeout(min_speed=(1, 0.5))
    await download(client, depot.url, path, segments=4, timeout=timeout)
    assert path.read_bytes() == depot.data


# --- faults, and later calls ---


async def test_each_segment_resumes_for_itself_and_no_byte_is_asked_for_twice(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    size = len(depot.data)
    depot.before = lambda asked, *_: 1 <= asked.number < 4 and depot.wait(3)
    depot.cut = lambda asked: 300_000 + asked.number if 1 <= asked.number < 4 else None
    await download(client, depot.url, path, segments=4, retry=NOW)
    assert path.read_bytes() == depot.data
    starts = dict(depot.ranges[:3])
    later = sorted(depot.ranges[3:])
    for start, end in later[:3]:
        begun = max(each for each in starts if each < start)
        assert 300_000 < start - begun < 300_004
        assert end <= starts[begun] <= size


@pytest.mark.parametrize("segments", [1, 2, 4, 7])
async def test_a_later_call_continues_each_segment_with_any_number_of_them(
    client: AnyClient, depot: Depot, path: Path, segments: int
) -> None:
    count = await interrupt(client, depot, path)
    depot.ranges.clear()
    depot.asked.clear()
    reports: list[tuple[int, int | None]] = []

    def note(done: int, total: int | None) -> None:
        reports.append((done, total))

    await download(client, depot.url, path, segments=segments, progress=note)
    assert path.read_bytes() == depot.data
    assert None not in depot.asked
    if segments == 1:
        assert sum(end - start for start, end in depot.ranges) == len(depot.data) - count
    assert reports[0] == (count, len(depot.data))
    assert left_in(path.parent) == ["file"]


async def test_segments_continue_what_one_stream_has_left(
    client: AnyClient, app: AppServer, path: Path
) -> None:
    depot = Depot(app, 8 * MIB)
    depot.waits_for, depot.cut = 0, lambda _: 3_000_000
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, depot.url, path)
    depot.cut = lambda _: None
    depot.before = lambda *_: depot.wait(4)
    await download(client, depot.url, path, segments=4)
    assert path.read_bytes() == depot.data
    assert min(depot.ranges)[0] == 3_000_000
    assert sum(end - start for start, end in depot.ranges) == len(depot.data) - 3_000_000


async def test_a_later_call_starts_over_if_the_file_has_changed(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    await interrupt(client, depot, path)
    depot.data, depot.etag = random.Random("new").randbytes(5 * MIB), '"two"'
    depot.waits_for = 0
    await download(client, depot.url, path, segments=3)
    assert path.read_bytes() == depot.data


@pytest.mark.parametrize("segments", [1, 4])
async def test_a_later_call_starts_over_if_the_server_knows_no_ranges_any_more(
    client: AnyClient, depot: Depot, path: Path, segments: int
) -> None:
    await interrupt(client, depot, path)
    depot.knows_ranges = False
    depot.waits_for = 0
    await download(client, depot.url, path, segments=segments)
    assert path.read_bytes() == depot.data
    assert left_in(path.parent) == ["file"]


async def test_a_complete_partial_file_is_asked_for_one_byte(
    client: AnyClient, depot: Depot, path: Path, monkeypatch: Any
) -> None:
    sync = os.fsync

    def fail(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == len(depot.data):
            raise OSError(errno.ENOSPC, "the disk is full")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="disk is full"):
            await download(client, depot.url, path, segments=4)
    depot.ranges.clear()
    await download(client, depot.url, path, segments=2)
    assert path.read_bytes() == depot.data
    assert depot.ranges == [(len(depot.data) - 1, len(depot.data))]


@pytest.mark.parametrize("damage", ["cut", "changed", "file"])
async def test_a_damaged_state_is_not_believed(
    client: AnyClient, depot: Depot, path: Path, damage: str
) -> None:
    await interrupt(client, depot, path)
    record = path.with_name("file.part.json")
    whole = record.read_bytes()
    if damage == "cut":
        record.write_bytes(whole[:4110])
    elif damage == "changed":
        record.write_bytes(whole.replace(b"[0,", b"[9,"))
    else:
        os.truncate(path.with_name("file.part"), 1_000_000)
    depot.waits_for = 0
    depot.asked.clear()
    await download(client, depot.url, path, segments=4, resume="any")
    assert path.read_bytes() == depot.data
    assert depot.asked[0] is None


@pytest.mark.skipif(not hasattr(os, "writev"), reason="Windows has no call that can be delayed")
async def test_the_error_says_how_much_is_kept(
    client: AnyClient, depot: Depot, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what threads still write when the error comes."""
    write = os.writev

    def write_slowly(descriptor: int, pieces: Any) -> int:
        time.sleep(0.1)
        return write(descriptor, pieces)

    monkeypatch.setattr(os, "writev", write_slowly)
    with pytest.raises(Stop) as caught:
        await download(client, depot.url, path, segments=4, progress=stop_at(3_000_000))
    count = check_claims(path, depot.data)
    assert notes_of(caught.value) == [
        f"{count} bytes are kept: the same download continues from there"
    ]


async def test_a_cancelled_download_keeps_what_its_segments_have(
    make_client: Any, depot: Depot, path: Path, colour: str
) -> None:
    if colour == "blocking":
        return
    client, part = make_client(), path.with_name("file.part")

    def stall(asked: Asked, _: Record, conn: AppConnection) -> bool:
        if not asked.is_range:
            return False
        depot.send_part(asked, conn, 1_500_000)
        conn.stall()
        conn.closing = True
        return True

    depot.before = stall
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await download(client, depot.url, path, segments=4)

        tasks.start_soon(run)
        with anyio.fail_after(60):
            while not (part.exists() and part.stat().st_size > 4_800_000):
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert check_claims(path, depot.data) >= 1_000_000
    depot.before = lambda *_: False
    await download(client, depot.url, path, segments=3)
    assert path.read_bytes() == depot.data


async def test_no_connection_is_left_in_use_after_a_failure(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    with pytest.raises(Stop):
        await download(client, depot.url, path, segments=4, progress=stop_at(3_000_000))
    assert not any(each.active for each in client.real.stats().connections)


@pytest.mark.parametrize("seed", range(6))
async def test_random_faults_never_make_a_wrong_file(
    client: AnyClient, depot: Depot, path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    lock, left, faults = threading.Lock(), [chance.randrange(4, 14)], {}
    old, new = depot.data, chance.randbytes(len(depot.data) - chance.randrange(2))
    changes_at = chance.choice([None, None, chance.randrange(1, 9)])
    depot.waits_for = 0

    def before(asked: Asked, _: Record, conn: AppConnection) -> bool:
        with lock:
            if asked.number == changes_at:
                depot.data, depot.etag = new, '"two"'
            fault = None
            if left[0] and chance.random() < 0.5:
                left[0] -= 1
                fault = chance.choice(["cut", "close", "reset", "503", "200", "416", "no ETag"])
            faults[asked.number] = fault
        if fault in ("close", "reset"):
            conn.closing = True
            conn.close() if fault == "close" else conn.reset()
        elif fault in ("503", "416") and asked.is_range:
            conn.reply(int(fault))
        elif fault == "200" and asked.is_range:
            conn.reply(200, depot.data, [("ETag", str(depot.etag))])
        else:
            return False
        return True

    def change(asked: Asked, fields: list[tuple[str, str]]) -> None:
        if faults[asked.number] == "no ETag" and asked.is_range:
            fields[:] = [field for field in fields if field[0] != "ETag"]

    depot.before, depot.change = before, change
    depot.cut = lambda asked: chance.randrange(MIB) if faults[asked.number] == "cut" else None
    for _ in range(40):
        segments, stop = chance.choice([1, 2, 3, 4, 8]), chance.randrange(MIB, 20 * MIB)
        try:
            await download(
                client, depot.url, path, segments=segments, retry=NOW, progress=stop_at(stop)
            )
            break
        except (e.RequestException, Stop):
            if path.with_name("file.part.json").exists():
                text = path.with_name("file.part.json").read_text()
                check_claims(path, old if "one" in text else new)
    assert path.read_bytes() in ((old,) if changes_at is None else (old, new))
    assert left_in(path.parent) == ["file"]


# --- arguments ---


@ONE_OF_EACH
@pytest.mark.parametrize("segments", [0, -1, 65, 1.5, "4", None])
async def test_a_number_of_segments_that_cannot_be_is_an_error(
    client: AnyClient, depot: Depot, path: Path, segments: Any
) -> None:
    with pytest.raises((ValueError, TypeError), match="segments"):
        await download(client, depot.url, path, segments=segments)
    assert depot.asked == []


@ONE_OF_EACH
async def test_a_file_object_has_no_segments(client: AnyClient, depot: Depot, path: Path) -> None:
    with path.open("wb") as file, pytest.raises(ValueError, match="need the path"):
        await download(client, depot.url, file, segments=2)


@ONE_OF_EACH
async def test_without_resuming_there_is_one_stream(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    depot.waits_for = 0
    await download(client, depot.url, path, segments=4, resume=False)
    assert path.read_bytes() == depot.data
    assert depot.asked == [None]


@ONE_OF_EACH
async def test_a_closed_client_downloads_nothing(
    client: AnyClient, depot: Depot, path: Path
) -> None:
    await client.aclose()
    with pytest.raises(e.ClientClosed):
        await download(client, depot.url, path, segments=4)


async def test_a_mocked_network_sends_the_file(make_client: Any, path: Path) -> None:
    from curlhttp.testing import mock

    data = random.Random(0).randbytes(4 * MIB)
    with mock() as mocked:
        mocked.get("https://example.org/file").respond(content=data, headers={"ETag": '"1"'})
        await download(make_client(), "https://example.org/file", path, segments=4)
    assert path.read_bytes() == data


# --- kills ---

KILLED = """
import sys
import anyio, curlhttp
url, path, kind, segments = sys.argv[1:]
options = {"segments": int(segments), "progress": lambda *_: print("going", flush=True)}

async def run():
    async with curlhttp.AsyncClient() as client:
        await client.download(url, path, **options)

try:
    if kind == "blocking":
        with curlhttp.Client() as client:
            client.download(url, path, **options)
    else:
        anyio.run(run, backend=kind)
except KeyboardInterrupt:
    print("interrupted")
print("over")
"""


@pytest.mark.slow
@pytest.mark.colours("blocking")
@pytest.mark.parametrize("kind", ["blocking", "asyncio", "trio"])
async def test_a_killed_process_loses_nothing_that_its_segments_had_written(
    app: AppServer, path: Path, kind: str, colour: str
) -> None:
    depot, chance = Depot(app, 16 * MIB), random.Random(kind)
    depot.rate, depot.waits_for = MIB, 0
    kept = 0
    for segments in (4, 3, 8):
        process = start_script(KILLED, depot.url, str(path), kind, str(segments))
        aim, end = kept + chance.randrange(100_000, 3_000_000), time.monotonic() + 60
        while count_claimed(path) < aim:
            assert time.monotonic() < end
            time.sleep(0.005)
        process.kill()
        process.communicate()
        assert not path.exists()
        count = check_claims(path, depot.data)
        assert count >= aim
        kept = count
    asked = len(depot.asked)
    depot.rate = 0
    assert run_script(KILLED, depot.url, str(path), kind, "5").splitlines()[-1] == "over"
    assert path.read_bytes() == depot.data
    assert left_in(path.parent) == ["file"]
    assert None not in depot.asked[asked:]


@needs_posix
@pytest.mark.slow
@pytest.mark.colours("blocking")
@pytest.mark.parametrize("kind", ["blocking", "asyncio", "trio"])
async def test_ctrl_c_keeps_what_the_segments_have(
    app: AppServer, path: Path, kind: str, colour: str
) -> None:
    depot = Depot(app, 16 * MIB)
    depot.rate, depot.waits_for = 4 * MIB, 0
    process = start_script(KILLED, depot.url, str(path), kind, "4")
    assert process.stdout is not None
    for _ in range(4):
        assert process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    assert finish_script(process).splitlines()[-2:] == ["interrupted", "over"]
    assert check_claims(path, depot.data) > 0
    depot.rate = 0
    assert run_script(KILLED, depot.url, str(path), kind, "2").splitlines()[-1] == "over"
    assert path.read_bytes() == depot.data


@pytest.mark.slow
@pytest.mark.colours("blocking")
async def test_a_download_without_segments_does_not_load_them(
    app: AppServer, path: Path, colour: str
) -> None:
    script = """
import sys
import curlhttp
with curlhttp.Client() as client:
    client.download(*sys.argv[1:])
print("curlhttp._features.download.segments" in sys.modules)
"""
    depot = Depot(app, 4 * MIB)
    depot.waits_for = 0
    assert run_script(script, depot.url, str(path)) == "False\n"
