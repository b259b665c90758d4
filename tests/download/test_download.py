"""client.download: the file is complete and of one version, or the old file is kept."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import random
import re
import socket
import stat
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import Response
from curlhttp import exceptions as e
from curlhttp.testing import Answer
from tests.servers import AppConnection, AppServer, H2Server, Record, payload
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient, needs_posix
from tests.support.downloads import DATE, OLD, OLDER, WRONG, Shelf, download, left_in
from tests.support.scripted import Scripted, notes_of, steady

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

NOW = curlhttp.RetryPolicy(
    3, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001, factor=1.0), budget=None
)


@pytest.fixture
def shelf(app: AppServer) -> Shelf:
    return Shelf(app)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the old file is."""
    (tmp_path / "file").write_bytes(OLD)
    return tmp_path / "file"


async def begin(client: AnyClient, shelf: Shelf, path: Path, cut: int = 50_000) -> None:
    """Have a first download break off."""
    shelf.cuts.append(cut)
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, shelf.url, path)


class Mirror(curlhttp.Auth):
    """Send a request of its own, to where the file is, in place of the caller's."""

    def __init__(self, url: str) -> None:
        self.url = url

    def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
        yield curlhttp.ClientRequest("GET", self.url)


@pytest.mark.parametrize("ranges", ["right", "none"])
async def test_the_last_request_of_a_flow_resumes(
    client: AnyClient, shelf: Shelf, app: AppServer, path: Path, ranges: Any
) -> None:
    auth, asked = Mirror(shelf.url.replace("127.0.0.1", "localhost")), app.url + "/elsewhere"
    shelf.cuts.append(50_000)
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, asked, path, auth=auth)
    assert path.read_bytes() == OLD
    shelf.ranges = ranges
    response = await download(client, asked, path, auth=auth)
    assert path.read_bytes() == shelf.data
    assert left_in(path.parent) == ["file"]
    assert shelf.asked == [None, None, "bytes=50000-"]
    assert response.status_code == (206 if ranges == "right" else 200)
    await download(client, asked, path, auth=auth)
    assert shelf.asked[3:] == [None]  # nothing is left to resume


async def test_a_response_of_a_middleware_is_not_asked_for_again(
    make_client: Any, shelf: Shelf, path: Path
) -> None:
    async def own(request: Any, send: Any) -> Any:
        return request.respond(200, content=b"own")

    await begin(make_client(), shelf, path)
    await download(make_client(middleware=[own]), shelf.url, path)
    assert path.read_bytes() == b"own"
    assert len(shelf.asked) == 1


# --- whole files ---


async def test_a_file_arrives_whole_and_alone(client: AnyClient, shelf: Shelf, path: Path) -> None:
    response = await download(client, shelf.url, path)
    assert (response.status_code, response.headers["etag"]) == (200, '"one"')
    assert path.read_bytes() == shelf.data
    assert left_in(path.parent) == ["file"]


async def test_the_response_has_no_body(client: AnyClient, shelf: Shelf, path: Path) -> None:
    response = await download(client, shelf.url, path)
    assert response.is_closed
    with pytest.raises(RuntimeError, match="already consumed"):
        _ = response.content


async def test_an_empty_file_is_a_file(client: AnyClient, shelf: Shelf, path: Path) -> None:
    shelf.data = b""
    reports: list[Any] = []
    await download(client, shelf.url, path, progress=lambda *figures: reports.append(figures))
    assert path.read_bytes() == b""
    assert left_in(path.parent) == ["file"]
    assert reports == [(0, 0)]


async def test_a_body_that_ends_with_the_connection_is_a_file(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    shelf.has_length = False
    await download(client, shelf.url, path)
    assert path.read_bytes() == shelf.data


async def test_chunks_are_a_file(client: AnyClient, app: AppServer, tmp_path: Path) -> None:
    await download(client, app.url + "/chunked/300000", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == payload(300_000)


async def test_a_download_over_http2_works(
    any_client: AnyClient, h2_app: H2Server, tmp_path: Path
) -> None:
    response = await download(any_client, h2_app.url + "/bytes/3000000", tmp_path / "file")
    assert response.http_version == "HTTP/2"
    assert (tmp_path / "file").read_bytes() == payload(3_000_000)


async def test_no_content_coding_is_requested(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    await download(client, app.url, tmp_path / "file", headers={"Accept-Encoding": "br"})
    assert app.requests[0].header("accept-encoding") == "identity"


async def test_a_coded_body_is_saved_decoded_without_a_record(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    plain = shelf.data
    shelf.data = gzip.compress(plain)
    shelf.extra = [("Content-Encoding", "gzip")]
    reports: list[Any] = []
    await download(client, shelf.url, path, progress=lambda *figures: reports.append(figures))
    assert path.read_bytes() == plain
    assert reports[0] == (0, None)
    assert reports[-1] == (len(plain), len(plain))
    path.write_bytes(OLD)
    await begin(client, shelf, path)
    assert left_in(path.parent) == ["file"]


async def test_ten_mebibytes_are_never_in_memory(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    size = 10 << 20
    await download(client, app.url, tmp_path / "small")
    tracemalloc.start()
    try:
        await download(client, f"{app.url}/big?size={size}", tmp_path / "file")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "file").stat().st_size == size
    assert peak < 5 << 20


async def test_redirects_are_followed(
    client: AnyClient, shelf: Shelf, path: Path, app: AppServer
) -> None:
    response = await download(client, f"{app.url}/redirect-to?url={shelf.url}", path)
    assert [hop.status_code for hop in response.history] == [302]
    assert path.read_bytes() == shelf.data


async def test_a_middleware_may_return_its_own_response(
    make_client: Any, shelf: Shelf, path: Path
) -> None:
    async def cached(request: Any, send: Any) -> Response:
        return Response.of(request, content=b"from the cache")

    await download(make_client(middleware=[cached]), shelf.url, path)
    assert path.read_bytes() == b"from the cache"
    assert shelf.asked == []


# --- responses without a file ---


@pytest.mark.parametrize("status", [204, 304, 404, 416, 500])
async def test_another_status_is_an_error_and_writes_nothing(
    client: AnyClient, app: AppServer, path: Path, status: int
) -> None:
    with pytest.raises(e.HTTPError, match=str(status)) as caught:
        await download(client, f"{app.url}/status/{status}", path)
    assert caught.value.response is not None
    assert path.read_bytes() == OLD
    assert left_in(path.parent) == ["file"]
    await client.get(app.url)
    assert app.connections == 1  # it went back to the pool


async def test_an_error_status_keeps_the_old_file(
    client: AnyClient, shelf: Shelf, app: AppServer, path: Path
) -> None:
    await begin(client, shelf, path)
    app.route("/file", lambda record, conn: conn.reply(503))
    with pytest.raises(e.HTTPError):
        await download(client, shelf.url, path)
    assert (path.parent / "file.part").stat().st_size == 50_000


async def test_an_unrequested_part_is_an_error(
    client: AnyClient, app: AppServer, path: Path
) -> None:
    fields = [("Content-Range", "bytes 0-3/4")]
    app.route("/part", lambda record, conn: conn.reply(206, b"body", fields))
    with pytest.raises(e.RemoteProtocolError, match="although the request was for all of it"):
        await download(client, app.url + "/part", path)
    assert path.read_bytes() == OLD


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"checksum": "9f86"}, ValueError, "form 'sha256:"),
        ({"checksum": "sha256:9f86"}, ValueError, "64 hex digits"),
        ({"checksum": "sha256:" + "x" * 64}, ValueError, "64 hex digits"),
        ({"checksum": "sha257:9f86"}, ValueError, "no checksum 'sha257'"),
        ({"checksum": "shake_128:9f86"}, ValueError, "no fixed length"),
        ({"checksum": b"sha256:"}, TypeError, "must be a str"),
        ({"headers": {"Range": "bytes=1-"}}, ValueError, "header Range"),
        ({"headers": {"if-range": "x"}}, ValueError, "header If-Range"),
        ({"progress": 3}, TypeError, "plain function"),
        ({"content": b"x"}, TypeError, "takes no content"),
        ({"stream": True}, TypeError, "takes no stream"),
    ],
)
async def test_a_bad_argument_is_an_error_before_anything_is_sent(
    client: AnyClient, shelf: Shelf, path: Path, options: Any, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        await download(client, shelf.url, path, **options)
    assert shelf.asked == []
    assert left_in(path.parent) == ["file"]


async def test_a_coroutine_function_is_no_progress(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    async def report(done: int, total: int | None) -> None: ...

    with pytest.raises(TypeError, match="plain function"):
        await download(client, shelf.url, path, progress=report)
    assert shelf.asked == []


# --- going on ---


async def test_a_download_is_resumed_by_another_client(
    make_client: Any, shelf: Shelf, path: Path
) -> None:
    shelf.cuts = [50_000]
    with pytest.raises(e.ChunkedEncodingError) as caught:
        await download(make_client(), shelf.url, path)
    assert notes_of(caught.value) == [
        "50000 bytes are kept: the same download continues from there"
    ]
    assert path.read_bytes() == OLD
    assert left_in(path.parent) == ["file", "file.part", "file.part.json"]
    response = await download(make_client(), shelf.url, path)
    assert response.status_code == 206
    assert shelf.asked == [None, "bytes=50000-"]
    assert shelf.conditions == [None, '"one"']
    assert path.read_bytes() == shelf.data
    assert left_in(path.parent) == ["file"]


async def test_a_download_is_resumed_within_a_call_as_often_as_the_policy_allows(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    shelf.cuts = [50_000, 10_000, 5]
    response = await download(client, shelf.url, path, retry=NOW)
    assert shelf.asked == [None, "bytes=50000-", "bytes=60000-", "bytes=60005-"]
    assert path.read_bytes() == shelf.data
    assert [attempt.status_code for attempt in response.attempts] == [None, None, None, 206]


async def test_the_policy_decides_whether_to_resume(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    shelf.cuts = [50_000] * 9
    shelf.data = payload(500_000)
    with pytest.raises(e.ChunkedEncodingError) as caught:
        await download(client, shelf.url, path, retry=NOW)
    assert len(shelf.asked) == 4 == len(caught.value.attempts)
    assert (path.parent / "file.part").read_bytes() == shelf.data[:200_000]


async def test_waits_follow_the_policy_and_hooks_get_each_attempt(
    scripted: Scripted, tmp_path: Path
) -> None:
    events: list[Any] = []
    fields = {"ETag": '"1"', "Content-Length": "6"}
    rest = {"ETag": '"1"', "Content-Range": "bytes 3-5/6"}
    broken = Answer(200, fields, b"abc", error=e.ChunkedEncodingError("cut"))
    hooks = {"after_attempt": events.append, "before_sleep": events.append}
    client, engine = scripted([503, broken, Answer(206, rest, b"def")], hooks=hooks)
    await download(client, "http://h.test/", tmp_path / "file", retry=steady(3))
    assert (tmp_path / "file").read_bytes() == b"abcdef"
    assert engine.sleeps == [1.0, 2.0]
    assert [(event.event, event.number) for event in events] == [
        ("after_attempt", 1),
        ("before_sleep", 1),
        ("after_attempt", 2),
        ("before_sleep", 2),
        ("after_attempt", 3),
    ]


async def test_a_hedge_that_wins_is_the_one_that_is_written(
    scripted: Scripted, tmp_path: Path
) -> None:
    script = [Answer(content=b"slow", delay=9), Answer(content=b"fast", delay=0.1)]
    client, engine = scripted(script, hedge=curlhttp.Hedge(after=1))
    await download(client, "http://h.test/", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"fast"
    assert engine.cancelled == 1


async def test_the_total_timeout_bounds_all_attempts_together(
    scripted: Scripted, tmp_path: Path
) -> None:
    broken = Answer(200, {"ETag": '"1"'}, b"abc", error=e.ChunkedEncodingError("cut"))
    client, engine = scripted([broken] * 9)
    options: Any = {"retry": steady(9), "timeout": curlhttp.Timeout(total=10)}
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, "http://h.test/", tmp_path / "file", **options)
    assert engine.sleeps == [1.0, 2.0, 4.0]


async def test_a_changed_file_starts_over(client: AnyClient, shelf: Shelf, path: Path) -> None:
    await begin(client, shelf, path)
    shelf.data, shelf.etag = payload(150_000, 1), '"two"'
    response = await download(client, shelf.url, path)
    assert response.status_code == 200
    assert shelf.conditions == [None, '"one"']
    assert path.read_bytes() == shelf.data


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_response_to_a_range_starts_over(
    client: AnyClient, shelf: Shelf, path: Path, wrong: str
) -> None:
    await begin(client, shelf, path)
    shelf.ranges = wrong
    assert (await download(client, shelf.url, path)).status_code == 200
    assert shelf.asked == [None, "bytes=50000-", None]
    assert path.read_bytes() == shelf.data


async def test_a_server_without_ranges_starts_over(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    shelf.ranges = "none"
    assert (await download(client, shelf.url, path)).status_code == 200
    assert shelf.asked == [None, "bytes=50000-"]
    assert path.read_bytes() == shelf.data


async def test_a_server_that_knows_no_if_range_is_found_out_by_its_etag(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    shelf.ranges, shelf.data, shelf.etag = "blind", payload(200_000, 1), '"two"'
    await download(client, shelf.url, path)
    assert path.read_bytes() == shelf.data


async def test_a_range_that_cannot_be_had_starts_over(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    shelf.ranges, shelf.data = "blind", payload(100, 1)
    await download(client, shelf.url, path)
    assert shelf.asked == [None, "bytes=50000-", None]
    assert path.read_bytes() == shelf.data


async def test_starting_over_keeps_the_part_until_there_is_something_better(
    client: AnyClient, shelf: Shelf, app: AppServer, path: Path
) -> None:
    await begin(client, shelf, path)

    def broken(record: Record, conn: AppConnection) -> None:
        conn.reply(416 if record.header("range") else 500)

    app.route("/file", broken)
    with pytest.raises(e.HTTPError, match="500"):
        await download(client, shelf.url, path)
    assert (path.parent / "file.part").stat().st_size == 50_000


async def test_a_complete_part_is_checked_by_its_last_byte(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    (path.parent / "file.part").write_bytes(shelf.data)
    response = await download(client, shelf.url, path)
    assert shelf.asked == [None, "bytes=199999-"]
    assert response.status_code == 206
    assert path.read_bytes() == shelf.data


async def test_a_part_that_is_too_long_starts_over(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    (path.parent / "file.part").write_bytes(shelf.data + b"!")
    await download(client, shelf.url, path)
    assert shelf.asked == [None, None]
    assert path.read_bytes() == shelf.data


@pytest.mark.parametrize(
    ("etag", "modified"),
    [
        ('W/"one"', None),
        ('W/"one"', OLDER),  # a date must not stand in for a tag
        (None, None),
        (None, DATE),  # it may have changed again within the second
        (None, "yesterday"),
        ("one", OLDER),
    ],
)
async def test_without_a_strong_validator_no_part_is_kept(
    client: AnyClient, shelf: Shelf, path: Path, etag: str | None, modified: str | None
) -> None:
    shelf.etag, shelf.modified = etag, modified
    shelf.cuts = [50_000]
    with pytest.raises(e.ChunkedEncodingError) as caught:
        await download(client, shelf.url, path)
    assert notes_of(caught.value) == []
    assert left_in(path.parent) == ["file"]
    shelf.cuts = [50_000]
    await download(client, shelf.url, path, retry=NOW)
    assert shelf.asked == [None, None, None]
    assert path.read_bytes() == shelf.data


async def test_an_old_date_is_a_strong_validator(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    shelf.etag, shelf.modified = None, OLDER
    await begin(client, shelf, path)
    assert (await download(client, shelf.url, path)).status_code == 206
    assert shelf.conditions == [None, OLDER]
    assert path.read_bytes() == shelf.data


async def test_resume_false_starts_over_and_keeps_nothing(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    shelf.cuts = [60_000]
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, shelf.url, path, resume=False)
    assert shelf.asked == [None, None]
    assert left_in(path.parent) == ["file"]


async def test_another_url_starts_over(client: AnyClient, shelf: Shelf, path: Path) -> None:
    await begin(client, shelf, path)
    await download(client, shelf.url + "?version=2", path)
    assert shelf.asked == [None, None]


async def test_another_language_starts_over(client: AnyClient, shelf: Shelf, path: Path) -> None:
    await begin(client, shelf, path)
    await download(client, shelf.url, path, headers={"Accept-Language": "fr"})
    assert shelf.asked == [None, None]


async def test_a_range_is_requested_only_from_the_server_that_sent_the_file(
    client: AnyClient, shelf: Shelf, path: Path, app: AppServer
) -> None:
    signature = iter(range(9))

    def mirror(record: Record, conn: AppConnection) -> None:
        assert record.header("range") is None
        conn.reply(302, b"", [("Location", f"/file?signature={next(signature)}")])

    app.route("/mirror", mirror)
    shelf.cuts = [50_000]
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, app.url + "/mirror", path)
    await download(client, app.url + "/mirror", path)
    assert shelf.asked == [None, "bytes=50000-"]  # though the signature is another
    path.unlink()
    await begin(client, shelf, path)
    app.route("/other", lambda record, conn: shelf.answer(record, conn))
    await download(client, app.url + "/other", path)
    assert shelf.asked[2:] == [None, None]


DAMAGED = {
    "empty": b"",
    "torn": b"{",
    "list": b"[]",
    "null": b"null",
    "other": b'{"url": 1}',
    "bytes": b"\xff",
    "UTF-16": '{"url": "a"}'.encode("utf-16"),
    "NULs": bytes(5000),
    "deep list": b"[" * 60_000,
    "deep object": b'{"url":' * 9_000,
    "huge number": b'{"total": %s}' % (b"9" * 60_000),
    "too long": b'{"url": "%s"}' % (b"u" * 100_000),
}


TWO_COLOURS = pytest.mark.parametrize("colour", ["blocking", "trio"])  # records know no loop


@TWO_COLOURS
@pytest.mark.parametrize("record", DAMAGED.values(), ids=DAMAGED)
async def test_an_unreadable_record_starts_over(
    client: AnyClient, shelf: Shelf, path: Path, record: bytes
) -> None:
    await begin(client, shelf, path)
    (path.parent / "file.part.json").write_bytes(record)
    await download(client, shelf.url, path)
    assert shelf.asked == [None, None]
    assert path.read_bytes() == shelf.data


STRANGE: dict[str, list[Any]] = {
    "url": [1, None, {}],
    "asked": [1, None, {}, "\ud800"],
    "source": [1, None, {}, "\ud800"],
    "validator": ['"a\r\nb"', '"\u20ac"', '"\ud800"', ' "a"', "a ", "", 'W/"a"', [], None],
    "total": ["1", 1.5, True, -1, 10**30, []],
}
STRANGE["validator"] += [f"{OLDER} ", f'"{"a" * 60_000}"']


@TWO_COLOURS
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in STRANGE.items() for value in values]
)
async def test_a_record_with_an_invalid_value_starts_over(
    client: AnyClient, shelf: Shelf, path: Path, name: str, value: Any
) -> None:
    await begin(client, shelf, path)
    record = path.parent / "file.part.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), name: value}))
    await download(client, shelf.url, path)
    assert {*shelf.conditions} <= {None, '"one"'}  # what else is in the record is not sent
    assert shelf.asked[-1] is None
    assert path.read_bytes() == shelf.data


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "file").touch()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


IN_ITS_PLACE: dict[str, Callable[[Path], object]] = {
    **({"pipe": os.mkfifo} if hasattr(os, "mkfifo") else {}),
    "directory": _directory,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to(path.parent / "missing"),
    "link through a file": lambda path: path.symlink_to("file.part/record"),
    "link to what cannot be read": lambda path: path.symlink_to("/proc/self/mem"),
    **({"socket": _socket} if hasattr(socket, "AF_UNIX") else {}),
}


@TWO_COLOURS
@pytest.mark.parametrize("put", IN_ITS_PLACE.values(), ids=IN_ITS_PLACE)
async def test_a_record_that_is_not_a_file_is_ignored(
    client: AnyClient, shelf: Shelf, path: Path, put: Callable[[Path], object]
) -> None:
    await begin(client, shelf, path)
    record = path.parent / "file.part.json"
    record.unlink()
    put(record)
    shelf.cuts = [60_000]
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, shelf.url, path)
    assert path.read_bytes() == OLD
    await download(client, shelf.url, path)
    assert path.read_bytes() == shelf.data
    is_stuck = record.is_dir()  # what a folder has may be somebody's: nothing is kept instead
    assert shelf.asked == [None, None, None if is_stuck else "bytes=60000-"]


async def test_no_credential_is_written_down(client: AnyClient, shelf: Shelf, path: Path) -> None:
    url = shelf.url.replace("://", "://me:hush1@") + "?token=hush2&page=3"
    shelf.cuts = [50_000]
    headers = {"X-Api-Key": "hush3", "Cookie": "hush4"}
    with pytest.raises(e.ChunkedEncodingError) as caught:
        await download(client, url, path, headers=headers)
    record = path.parent / "file.part.json"
    text = record.read_text()
    assert "hush" not in text
    assert not {"hush1", "hush3", "hush4"} & set(re.findall(r"hush\d", repr(caught.value)))
    assert json.loads(text)["url"].endswith("/file?token=***&page=3")
    if os.name == "posix":
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
    await download(client, url, path, headers=headers)
    assert shelf.asked == [None, "bytes=50000-"]


async def test_a_206_that_brings_less_than_it_says_is_an_error(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    shelf.has_length, shelf.cuts = False, [10]
    with pytest.raises(e.ChunkedEncodingError, match="200000 bytes, but 50010 arrived"):
        await download(client, shelf.url, path)
    assert path.read_bytes() == OLD
    await download(client, shelf.url, path)
    assert path.read_bytes() == shelf.data


async def test_a_206_longer_than_its_range_is_an_error_and_not_kept(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    shelf.has_length, shelf.ranges = False, "another length"
    with pytest.raises(e.ChunkedEncodingError, match="200000 bytes, but 200001 arrived"):
        await download(client, shelf.url, path)
    assert left_in(path.parent) == ["file"]


@ONE_OF_EACH
@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 20))]
)
async def test_two_versions_are_never_mixed(
    client: AnyClient, shelf: Shelf, path: Path, seed: int
) -> None:
    """A server that cuts wherever it likes, and changes the file whenever it likes."""
    chance = random.Random(seed)
    versions = [payload(chance.randint(1, 400), number) for number in range(4)]
    shelf.ranges = chance.choice(["right", "right", "blind", "none", chance.choice(WRONG)])

    def change() -> None:
        number = chance.randrange(4)
        shelf.data, shelf.etag = versions[number], f'"{number}"'

    for _ in range(25):
        change()
        shelf.cuts = [chance.randint(0, len(shelf.data)) for _ in range(chance.randrange(3))]
        try:
            await download(client, shelf.url, path, retry=chance.choice([None, NOW]))
        except e.RequestException:
            assert path.read_bytes() in (OLD, *versions)
        else:
            assert path.read_bytes() == shelf.data


async def test_every_cut_is_mended(client: AnyClient, shelf: Shelf, tmp_path: Path) -> None:
    shelf.data = payload(40)
    for cut in range(40):
        path = tmp_path / f"{cut}"
        shelf.cuts = [cut]
        await download(client, shelf.url, path, retry=NOW)
        assert path.read_bytes() == shelf.data
        assert shelf.asked[-1] == (f"bytes={cut}-" if cut else None)


# --- the checksum ---


@pytest.mark.parametrize("algorithm", ["sha256", "SHA512", "sha1", "md5", "blake2b"])
async def test_the_right_checksum_accepts_the_file(
    client: AnyClient, shelf: Shelf, path: Path, algorithm: str
) -> None:
    await begin(client, shelf, path)
    digest = hashlib.new(algorithm.lower(), shelf.data).hexdigest().upper()
    await download(client, shelf.url, path, checksum=f"{algorithm}:{digest}")
    assert path.read_bytes() == shelf.data


async def test_a_wrong_checksum_keeps_the_old_file_and_removes_the_new_one(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    actual = "sha256:" + hashlib.sha256(shelf.data).hexdigest()
    wrong = "sha256:" + "0" * 64
    with pytest.raises(e.ChecksumMismatch, match=f"{actual}, not {wrong}") as caught:
        await download(client, shelf.url, path, checksum=wrong, retry=NOW)
    assert (caught.value.expected, caught.value.actual) == (wrong, actual)
    assert path.read_bytes() == OLD
    assert left_in(path.parent) == ["file"]
    assert len(shelf.asked) == 2


# --- the disk ---


@needs_posix
async def test_the_mode_is_as_open_would_have_it(
    client: AnyClient, shelf: Shelf, tmp_path: Path
) -> None:
    plain, secret = tmp_path / "plain", tmp_path / "secret"
    umask = os.umask(0o027)
    try:
        secret.touch(0o600)
        await download(client, shelf.url, plain)
        await begin(client, shelf, secret)
        assert stat.S_IMODE((tmp_path / "secret.part").stat().st_mode) == 0o600
        await download(client, shelf.url, secret)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(plain.stat().st_mode) == 0o640
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@needs_posix
async def test_a_symbolic_link_is_kept_and_its_target_replaced(
    client: AnyClient, shelf: Shelf, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    link, dangling = tmp_path / "links" / "link", tmp_path / "links" / "dangling"
    link.symlink_to(path)
    dangling.symlink_to(tmp_path / "new")
    await download(client, shelf.url, link)
    await download(client, shelf.url, dangling)
    assert link.is_symlink()
    assert path.read_bytes() == (tmp_path / "new").read_bytes() == shelf.data
    assert left_in(link.parent) == ["dangling", "link"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (".", IsADirectoryError),
        ("", IsADirectoryError),
        ("new/", IsADirectoryError),
        ("missing/file", FileNotFoundError),
        ("file/file", FileNotFoundError),
        # never a real device: as root, a bug would replace it
        pytest.param("pipe", OSError, marks=needs_posix),
        pytest.param("x" * 250, OSError, marks=needs_posix),
        pytest.param("planted", OSError, marks=needs_posix),
        ("linked", OSError),
    ],
)
async def test_a_path_where_no_file_can_be_is_an_error_before_anything_is_sent(
    client: AnyClient, shelf: Shelf, path: Path, name: str, error: type[OSError]
) -> None:
    os.link(path, path.parent / "linked.part")
    if os.name == "posix":
        (path.parent / "planted.part").symlink_to(path)
        os.mkfifo(path.parent / "pipe")
    with pytest.raises(error) as caught:
        await download(client, shelf.url, os.path.join(path.parent, name))
    assert caught.value.filename is not None
    assert not isinstance(caught.value, e.RequestException)
    assert shelf.asked == []
    assert path.read_bytes() == OLD


async def test_two_downloads_to_one_path_do_not_meet(
    client: AnyClient, app: AppServer, shelf: Shelf, path: Path
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hold(record: Record, conn: AppConnection) -> None:
        begun.set()
        may_end.wait(30)
        conn.reply(404)

    app.route("/held", hold)
    with curlhttp.Client() as other, ThreadPoolExecutor(1) as threads:
        first = threads.submit(other.download, app.url + "/held", path)
        assert begun.wait(30)
        try:
            with pytest.raises(BlockingIOError, match=r"another download.*file\.part"):
                await download(client, shelf.url, path)
        finally:
            may_end.set()
        assert isinstance(first.exception(), e.HTTPError)
    assert shelf.asked == []
    await download(client, shelf.url, path)
    assert path.read_bytes() == shelf.data


async def test_a_size_limit_includes_the_partial_file(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    await begin(client, shelf, path)
    with pytest.raises(e.ResponseTooLarge, match="199999 bytes"):
        await download(client, shelf.url, path, max_response_size=199_999)
    assert path.read_bytes() == OLD
    await download(client, shelf.url, path, max_response_size=200_000)
    assert shelf.asked == [None, "bytes=50000-", "bytes=50000-"]


# --- progress ---


async def test_progress_starts_at_the_size_of_the_partial_file(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    reports: list[tuple[int, int | None]] = []
    await begin(client, shelf, path)
    await download(client, shelf.url, path, progress=lambda *figures: reports.append(figures))
    assert reports[0] == (50_000, 200_000)
    assert reports[-1] == (200_000, 200_000)
    assert reports == sorted(set(reports))


async def test_progress_is_reported_twenty_times_a_second(
    scripted: Scripted, tmp_path: Path
) -> None:
    reports: list[Any] = []
    pieces = [b"1234567890"] * 100
    fields = {"Content-Length": "1000"}
    client, _ = scripted([Answer(200, fields, pieces, pace=0.011)])
    path = tmp_path / "file"
    await download(
        client, "http://h.test/", path, progress=lambda *figures: reports.append(figures)
    )
    assert reports == [(0, 1000), *((50 * n, 1000) for n in range(1, 21))]


async def test_an_exception_of_progress_ends_the_download(
    client: AnyClient, shelf: Shelf, path: Path
) -> None:
    def report(done: int, total: int | None) -> None:
        if done:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        await download(client, shelf.url, path, progress=report)
    assert path.read_bytes() == OLD
    part = path.parent / "file.part"
    assert shelf.data.startswith(part.read_bytes())
    await download(client, shelf.url, path)
    assert path.read_bytes() == shelf.data


# --- retries that progress renews ---


@pytest.mark.parametrize("has_budget", [False, True])
async def test_an_attempt_that_gets_a_mebibyte_further_renews_the_retries(
    client: AnyClient, app: AppServer, path: Path, has_budget: Any
) -> None:
    shelf = Shelf(app, 12_000_000)
    shelf.cuts = [1_100_000] * 10
    budget = curlhttp.RetryBudget(ratio=0.1, reserve=0.1) if has_budget else None
    policy = dataclasses.replace(NOW, max_retries=1, budget=budget)
    await download(client, shelf.url, path, retry=policy)
    assert path.read_bytes() == shelf.data
    assert len(shelf.asked) == 11


@pytest.mark.parametrize("ranges", ["right", "none"])
async def test_attempts_that_get_no_further_use_up_the_retries(
    client: AnyClient, app: AppServer, path: Path, ranges: Any
) -> None:
    shelf = Shelf(app, 12_000_000)
    shelf.ranges = ranges
    shelf.cuts = [2_000_000 if ranges == "none" else 100_000] * 100
    with pytest.raises(e.ChunkedEncodingError):
        await download(client, shelf.url, path, retry=NOW)
    assert len(shelf.asked) == 4
    assert path.read_bytes() == OLD
