"""download to an open file, files that other programs began, and the time of a file."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import exceptions as e
from tests.download.test_download import NOW
from tests.servers import AppServer
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import DATE, OLDER, Shelf, download, left_in

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

CHANGED = 1704067200.0  # OLDER


class Pipe:
    """Something that can only be written to, a little at a time."""

    def __init__(self, most: int = 10**9) -> None:
        self.most = most
        self.parts: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self.parts.append(data[: self.most])
        return len(self.parts[-1])

    @property
    def written(self) -> bytes:
        return b"".join(self.parts)


@pytest.fixture
def shelf(app: AppServer) -> Shelf:
    return Shelf(app)


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# --- file objects ---


async def test_a_file_object_is_written_from_its_position_on(
    client: AnyClient, shelf: Shelf, tmp_path: Path
) -> None:
    reports: list[Any] = []
    with (tmp_path / "f").open("wb") as file:
        file.write(b"head")
        options = {"checksum": sha256(shelf.data), "progress": lambda *now: reports.append(now)}
        response = await download(client, shelf.url, file, **options)
        file.write(b"tail")
    assert (tmp_path / "f").read_bytes() == b"head" + shelf.data + b"tail"
    assert (response.status_code, reports[-1]) == (200, (200_000, 200_000))
    assert left_in(tmp_path) == ["f"]


@ONE_OF_EACH
async def test_anything_with_write_will_do(client: AnyClient, shelf: Shelf) -> None:
    for target in (io.BytesIO(), Pipe(), Pipe(7000), tempfile.SpooledTemporaryFile()):  # noqa: SIM115
        await download(client, shelf.url, target)
        if isinstance(target, Pipe):
            assert target.written == shelf.data
        else:
            target.seek(0)
            assert target.read() == shelf.data
            target.close()


async def test_an_attempt_continues_after_what_was_written(client: AnyClient, shelf: Shelf) -> None:
    pipe = Pipe()
    shelf.cuts = [50_000, 60_000, None]
    await download(client, shelf.url, pipe, retry=NOW, checksum=sha256(shelf.data))
    assert pipe.written == shelf.data
    assert shelf.asked[0] is None
    assert all(each is not None for each in shelf.asked[1:])


async def test_a_download_that_starts_over_needs_a_file_that_can_seek(
    client: AnyClient, shelf: Shelf
) -> None:
    shelf.ranges = "none"
    file = io.BytesIO(b"head")
    file.seek(4)
    shelf.cuts = [50_000, None]
    await download(client, shelf.url, file, retry=NOW, checksum=sha256(shelf.data))
    assert file.getvalue() == b"head" + shelf.data
    shelf.cuts = [50_000, None]
    with pytest.raises(io.UnsupportedOperation, match="cannot seek; pass a path"):
        await download(client, shelf.url, Pipe(), retry=NOW)


@ONE_OF_EACH
async def test_a_wrong_checksum_is_an_error_of_a_file_object_too(
    client: AnyClient, shelf: Shelf
) -> None:
    with pytest.raises(e.ChecksumMismatch, match="written to the file object"):
        await download(client, shelf.url, Pipe(), checksum=sha256(b"other"))


@ONE_OF_EACH
async def test_a_file_object_that_cannot_be_used_is_refused_before_anything_is_sent(
    client: AnyClient, shelf: Shelf, tmp_path: Path
) -> None:
    class Async:
        async def write(self, data: bytes) -> None: ...

    with pytest.raises(TypeError, match="binary file"):
        await download(client, shelf.url, io.StringIO())
    with open(os.devnull, "rb") as readable, pytest.raises(TypeError, match="to write to"):
        await download(client, shelf.url, readable)
    with pytest.raises(TypeError, match="not an async one"):
        await download(client, shelf.url, Async())
    with pytest.raises(TypeError, match="path of the file"):
        await download(client, shelf.url, 3)
    for options in ({"mtime": True}, {"resume": "any"}):
        with pytest.raises(ValueError, match="need the path"):
            await download(client, shelf.url, io.BytesIO(), **options)
    for wrong in ({"resume": "all"}, {"mtime": "no"}):
        with pytest.raises(TypeError):
            await download(client, shelf.url, tmp_path / "f", **wrong)
    assert shelf.asked == []


async def test_a_coded_body_is_decoded_into_a_file_object(client: AnyClient, shelf: Shelf) -> None:
    plain, shelf.data = shelf.data, gzip.compress(shelf.data)
    shelf.extra = [("Content-Encoding", "gzip")]
    pipe = Pipe()
    await download(client, shelf.url, pipe)
    assert pipe.written == plain


# --- files of other programs ---


@pytest.fixture
def foreign(shelf: Shelf) -> Shelf:
    """Return a shelf that serves ranges without a condition, and says when it was changed."""
    shelf.ranges, shelf.modified = "blind", OLDER
    return shelf


@pytest.mark.parametrize("name", ["file", "file.part"])
@pytest.mark.parametrize("written", [CHANGED, CHANGED + 99])
async def test_a_file_that_is_not_older_than_the_servers_is_continued(
    client: AnyClient, foreign: Shelf, tmp_path: Path, name: str, written: float
) -> None:
    (tmp_path / name).write_bytes(foreign.data[:50_000])
    os.utime(tmp_path / name, (written, written))
    await download(client, foreign.url, tmp_path / "file", resume="any")
    assert foreign.asked == ["bytes=49999-"]
    assert (tmp_path / "file").read_bytes() == foreign.data
    assert left_in(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["file", "file.part"])
async def test_a_file_that_may_be_of_another_version_is_not_continued(
    client: AnyClient, foreign: Shelf, tmp_path: Path, name: str
) -> None:
    for modified, written in ((OLDER, CHANGED - 1), (None, CHANGED)):
        (tmp_path / "file").unlink(missing_ok=True)
        (tmp_path / name).write_bytes(b"x" * 50_000)
        os.utime(tmp_path / name, (written, written))
        foreign.modified = modified
        await download(client, foreign.url, tmp_path / "file", resume="any")
        assert (tmp_path / "file").read_bytes() == foreign.data
        assert left_in(tmp_path) == ["file"]
    assert foreign.asked == ["bytes=49999-", None] * 2


async def test_a_complete_or_longer_file_is_no_reason_for_a_wrong_one(
    client: AnyClient, foreign: Shelf, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    for data in (foreign.data, foreign.data + b"more", b"x"):
        path.write_bytes(data)
        foreign.asked.clear()
        if data == b"x":
            os.utime(path, (1, 1))
        await download(client, foreign.url, path, resume="any")
        assert path.read_bytes() == foreign.data
    assert foreign.asked == ["bytes=0-", None]


@ONE_OF_EACH
async def test_a_checksum_decides_without_a_time(
    client: AnyClient, foreign: Shelf, tmp_path: Path
) -> None:
    foreign.modified = None
    path = tmp_path / "file"
    path.write_bytes(foreign.data[:50_000])
    await download(client, foreign.url, path, resume="any", checksum=sha256(foreign.data))
    assert foreign.asked == ["bytes=49999-"]
    path.write_bytes(b"x" * 50_000)
    with pytest.raises(e.ChecksumMismatch):
        await download(client, foreign.url, path, resume="any", checksum=sha256(foreign.data))
    await download(client, foreign.url, path, resume="any", checksum=sha256(foreign.data))
    assert path.read_bytes() == foreign.data


async def test_a_continued_file_that_breaks_off_has_a_record_from_then_on(
    client: AnyClient, foreign: Shelf, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(foreign.data[:50_000])
    foreign.cuts = [30_000]
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, foreign.url, path, resume="any")
    assert left_in(tmp_path) == ["file.part", "file.part.json"]
    foreign.ranges = "right"
    await download(client, foreign.url, path)
    assert foreign.conditions[-1] == '"one"'
    assert path.read_bytes() == foreign.data


async def test_without_being_asked_no_file_of_others_is_continued(
    client: AnyClient, foreign: Shelf, tmp_path: Path
) -> None:
    for name in ("file", "file.part"):
        (tmp_path / name).write_bytes(foreign.data[:50_000])
    await download(client, foreign.url, tmp_path / "file")
    assert foreign.asked == [None]


@ONE_OF_EACH
async def test_a_failure_leaves_the_file_of_others_as_it_was(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"part")
    with pytest.raises(e.HTTPError):
        await download(client, app.url + "/status/404", tmp_path / "file", resume="any")
    assert (tmp_path / "file").read_bytes() == b"part"
    assert left_in(tmp_path) == ["file"]


# --- the time of a file ---


async def test_a_file_has_the_time_of_last_modified_if_asked(
    client: AnyClient, shelf: Shelf, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    shelf.modified = OLDER
    await download(client, shelf.url, path)
    assert path.stat().st_mtime > CHANGED + 10**6
    await download(client, shelf.url, path, mtime=True)
    assert path.stat().st_mtime == CHANGED
    shelf.cuts = [50_000, None]
    path.unlink()
    await download(client, shelf.url, path, mtime=True, retry=NOW)
    assert path.stat().st_mtime == CHANGED


@pytest.mark.parametrize("modified", [None, "yesterday", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_missing_or_odd_time_is_no_error(
    client: AnyClient, shelf: Shelf, tmp_path: Path, modified: str | None
) -> None:
    shelf.modified = modified
    await download(client, shelf.url, tmp_path / "file", mtime=True)
    assert (tmp_path / "file").read_bytes() == shelf.data


def test_the_functions_of_the_client_say_which_arguments_there_are() -> None:
    with curlhttp.Client() as client, pytest.raises(TypeError, match="modified"):
        client.download("http://h/", "file", modified=DATE)  # type: ignore[call-arg]
