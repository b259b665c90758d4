"""download_many: a map whose bodies go to files, each complete and with its own name."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import exceptions as e
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import OLD, Shelf, left_in
from tests.support.internals import run_script, start_script
from tests.support.scripted import notes_of

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

NOW = curlhttp.RetryPolicy(
    3, backoff_strategy=curlhttp.ExponentialBackoff(base=0.001, factor=1.0), budget=None
)


async def collect(client: AnyClient, pairs: Any, **options: Any) -> list[Any]:
    return [result async for result in client.download_many(pairs, **options)]


def names(results: list[Any], folder: Path) -> dict[str, str]:
    """Return the names of files in a folder by the paths of their URLs."""
    found = {}
    for result in results:
        assert not isinstance(result, Exception), repr(result)
        assert result.path.parent == folder
        found[result.response.request.url.target] = result.path.name
    return found


def serve_targets(app: AppServer, path: str) -> None:
    """Let a body be the target of its request, so that files cannot be confused."""
    app.route(path, lambda record, conn: conn.reply(200, record.target.encode()))


# --- files and their results ---


async def test_each_file_arrives_whole(client: AnyClient, app: AppServer, tmp_path: Path) -> None:
    pairs = [(f"{app.url}/bytes/{size}", tmp_path / f"{size}.bin") for size in (0, 1, 300_000)]
    results = await collect(client, iter(pairs), concurrency=2)
    assert {result.path: result.size for result in results} == {
        path: int(path.stem) for _, path in pairs
    }
    assert left_in(tmp_path) == ["0.bin", "1.bin", "300000.bin"]
    assert all(path.stat().st_size == int(path.stem) for _, path in pairs)
    assert (tmp_path / "300000.bin").read_bytes() == payload(300_000)
    with pytest.raises(RuntimeError, match="already consumed"):
        _ = results[0].response.content


async def test_results_come_as_downloads_complete(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    released = threading.Event()

    def slow(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", "4")])
        conn.send(b"sl")
        released.wait(30)
        conn.send(b"ow")

    app.route("/slow", slow)
    got = []
    pairs = [(app.url + "/slow", tmp_path / "slow"), (app.url + "/bytes/5", tmp_path / "fast")]
    async for result in client.download_many(pairs):
        got.append(result.path.name)
        released.set()
    assert got == ["fast", "slow"]
    released.clear()
    released.set()
    ordered = await collect(client, pairs, ordered=True)
    assert [result.path.name for result in ordered] == ["slow", "fast"]


async def test_a_failed_download_is_a_result_or_raised(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    (tmp_path / "old").write_bytes(OLD)
    right = "sha256:" + hashlib.sha256(payload(9)).hexdigest()
    pairs: list[Any] = [
        (app.url + "/404", tmp_path / "old"),
        ("nope", tmp_path / "b"),
        (app.url + "/bytes/9", tmp_path / "c", "sha256:" + "0" * 64),
        (app.url + "/bytes/9", tmp_path / "d", right),
        (app.url + "/bytes/9", tmp_path / "e", None),
    ]
    status, schema, checksum, right_one, plain = await collect(client, pairs, ordered=True)
    assert (type(status), status.request.url.path) == (e.HTTPError, "/404")
    assert notes_of(status) == [f"it was to be downloaded to {tmp_path / 'old'}"]
    assert (type(schema), schema.request.url) == (e.MissingSchema, "nope")
    assert (type(checksum), checksum.expected) == (e.ChecksumMismatch, "sha256:" + "0" * 64)
    assert (right_one.size, plain.size) == (9, 9)
    assert left_in(tmp_path) == ["d", "e", "old"]
    assert (tmp_path / "old").read_bytes() == OLD
    with pytest.raises(e.HTTPError):
        await collect(client, pairs[:1], return_exceptions=False)


async def test_a_file_that_cannot_be_written_ends_the_downloads(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    pairs = [(app.url + "/bytes/9", tmp_path / "none" / "a"), (app.url + "/", tmp_path / "b")]
    with pytest.raises(FileNotFoundError) as caught:
        await collect(client, pairs, concurrency=1)
    assert notes_of(caught.value) == [f"it was to be downloaded to {pairs[0][1]}"]
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("retries", [0, 3])
async def test_an_interrupted_download_continues(
    client: AnyClient, app: AppServer, tmp_path: Path, retries: int
) -> None:
    shelf = Shelf(app)
    shelf.cuts.append(50_000)
    options: Any = {"retry": NOW} if retries else {}
    pairs = [(shelf.url, str(tmp_path) + os.sep)]
    (result,) = await collect(client, pairs, **options)
    if not retries:
        assert isinstance(result, e.ChunkedEncodingError)
        assert left_in(tmp_path) == ["file.part", "file.part.json"]
        (result,) = await collect(client, pairs)
    assert result.size == len(shelf.data)
    assert (tmp_path / "file").read_bytes() == shelf.data
    assert left_in(tmp_path) == ["file"]
    assert shelf.asked == [None, "bytes=50000-"]


async def test_a_request_keeps_its_headers_and_is_not_changed(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    request = client.real.build_request(
        "GET", app.url + "/bytes/7", headers={"X-Key": "1"}, retry=NOW
    )
    headers = list(request.headers.items())
    (result,) = await collect(client, [(request, tmp_path / "a")])
    assert (result.size, app.requests[0].header("x-key")) == (7, "1")
    assert app.requests[0].header("accept-encoding") == "identity"
    assert (request.stream, list(request.headers.items())) == (False, headers)
    assert len((await client.send(request)).content) == 7


async def test_progress_tells_the_file(client: AnyClient, app: AppServer, tmp_path: Path) -> None:
    told: list[tuple[Path, int, int | None]] = []
    pairs = [(f"{app.url}/bytes/{size}", f"{tmp_path}/{size}") for size in (10, 20)]
    await collect(client, pairs, progress=lambda *each: told.append(each), mtime=True)
    for size in (10, 20):
        mine = [each[1:] for each in told if each[0] == tmp_path / str(size)]
        assert (mine[0], mine[-1]) == ((0, size), (size, size))


async def test_responses_of_a_middleware_and_of_an_own_transport_are_downloaded(
    make_client: Any, tmp_path: Path
) -> None:
    async def own(request: Any, send: Any) -> Any:
        return request.respond(200, content=request.url.path.encode())

    (result,) = await collect(
        make_client(middleware=[own]), [("http://a.test/own", tmp_path / "a")]
    )
    assert (result.size, (tmp_path / "a").read_bytes()) == (4, b"/own")


# --- names and targets ---


async def test_urls_with_the_same_last_segment_have_their_own_files_in_each_run(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    serve_targets(app, "/a")
    targets = ["/a/x/report.tar.gz", "/a/y/report.tar.gz", "/a/x/Report.TAR.gz?v=2", "/a/", "/a/z/"]
    folder = tmp_path / "new" / "folder"
    runs = []
    for _ in range(2):
        results = await collect(
            client, ((app.url + target, f"{folder}/") for target in targets), concurrency=2
        )
        runs.append(names(results, folder))
        assert sorted(runs[-1].values()) == left_in(folder)
        for target, name in runs[-1].items():
            assert (folder / name).read_bytes() == target.encode()
    assert runs[0] == runs[1]
    assert runs[0][targets[0]] == "report.tar.gz"
    assert runs[0][targets[3]] == "index"
    assert len({name.casefold() for name in runs[0].values()}) == 5
    assert runs[0][targets[1]].startswith("report-")
    assert runs[0][targets[1]].endswith(".tar.gz")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/a/..%2f..%2fetc%2fpasswd", "%2F..%2Fetc%2Fpasswd"),
        ("/a/.htaccess", "htaccess"),
        ("/a/con.txt", "_con.txt"),
        ("/a/a:b*c", "a_b_c"),
        ("/a/name.part", "name.part.bin"),
        ("/a/name.part.json", "name.part.json.bin"),
        ("/a/a%00b%1b", "a%00b%1B"),
        ("/a/" + "n" * 300 + ".txt", "n" * 196 + ".txt"),
        ("/a/name..", "name"),
        ("/a/...", "index"),
    ],
)
@ONE_OF_EACH
async def test_a_name_is_safe_on_each_system(
    client: AnyClient, app: AppServer, tmp_path: Path, target: str, name: str
) -> None:
    app.route("/a", lambda _, conn: conn.reply(200, b"body"))
    (result,) = await collect(client, [(app.url + target, f"{tmp_path}/files/")])
    assert result.path == tmp_path / "files" / name
    assert left_in(tmp_path) == ["files"]
    assert left_in(tmp_path / "files") == [name]


@pytest.mark.parametrize("kind", [list, iter])
@pytest.mark.parametrize("where", ["file", "same url", "other way", "part"])
async def test_two_pairs_with_the_same_file_are_an_error(
    client: AnyClient, app: AppServer, tmp_path: Path, kind: Any, where: str
) -> None:
    first, second = {
        "file": (tmp_path / "a", tmp_path / "a"),
        "same url": (f"{tmp_path}/", f"{tmp_path}/"),
        "other way": (tmp_path / "a", tmp_path / "b" / ".." / "a"),
        "part": (tmp_path / "a", tmp_path / "a.part"),
    }[where]
    (tmp_path / "b").mkdir()
    other = "/bytes/1" if where == "same url" else "/bytes/2"
    pairs = [(app.url + "/bytes/1", first), (app.url + other, second), (app.url, tmp_path / "c")]
    results = []
    with pytest.raises(ValueError, match="two downloads"):
        async for result in client.download_many(kind(pairs), concurrency=1):
            results.append(result.size)
    is_early = kind is list and where in ("file", "same url")
    assert results == ([] if is_early else [1])
    assert len(app.requests) == len(results)
    assert not (tmp_path / "c").exists()


@ONE_OF_EACH
async def test_what_is_no_pair_is_an_error_that_says_so(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    post = client.real.build_request("POST", app.url, content=b"x")
    ranged = client.real.build_request("GET", app.url, headers={"Range": "bytes=0-"})
    wrong: list[tuple[Any, type[Exception], str]] = [
        (app.url, TypeError, "not one URL"),
        (None, TypeError, "download_many takes an iterable of pairs"),
        ([app.url], TypeError, r"pairs such as \(url, 'folder/'\)"),
        (iter([app.url]), TypeError, "pairs such as"),
        ([("a", "b", None, 4)], TypeError, "pairs such as"),
        ([(tmp_path / "a", app.url)], TypeError, "pairs such as"),
        ([(app.url, app.url)], TypeError, "needs a path, not a URL"),
        ([(app.url, 3)], TypeError, "needs a path, not int"),
        ([(post, tmp_path / "a")], ValueError, "sends only GET"),
        ([(ranged, tmp_path / "a")], ValueError, r"download_many\(\) sets the header Range"),
        ([(app.url, tmp_path / "a", "md5:1")], ValueError, "32 hex digits"),
    ]
    for pairs, kind, message in wrong:
        with pytest.raises(kind, match=message):
            await collect(client, pairs)
    bad: list[dict[str, Any]] = [{"progress": 3}, {"resume": 1}, {"concurrency": 0}, {"json": {}}]
    for options in bad:
        with pytest.raises((TypeError, ValueError)):
            await collect(client, [], **options)
    assert app.connections == 0
    assert left_in(tmp_path) == []


# --- many at once ---


async def test_pairs_are_taken_as_there_is_room(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    taken = 0

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal taken
        for number in range(100_000):
            taken += 1
            yield f"{app.url}/bytes/10?n={number}", f"{tmp_path}/{number}"

    results = client.download_many(pairs(), concurrency=4)
    async with results:
        for _ in range(10):
            assert (await results.__anext__()).size == 10
    assert taken <= 10 + 2 * 4 + 1
    assert not [name for name in left_in(tmp_path) if ".part" in name]


async def test_leaving_early_keeps_what_a_later_call_continues(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    shelf, sent, released = Shelf(app), threading.Event(), threading.Event()

    def stuck(record: Record, conn: AppConnection) -> None:
        if record.header("range"):
            return shelf.answer(record, conn)
        conn.begin(200, [("Content-Length", str(len(shelf.data))), ("ETag", '"one"')])
        conn.send(shelf.data[:90_000])
        sent.set()
        released.wait(30)
        return conn.close()

    app.route("/stuck", stuck)
    after = 0

    def others() -> Iterator[tuple[str, Path]]:
        yield app.url + "/stuck", tmp_path / "stuck"
        for number in range(1_000_000):
            yield f"{app.url}/bytes/10?n={number}", tmp_path / str(number)

    async with client.download_many(others(), concurrency=2) as results:
        async for _ in results:
            after += sent.is_set()
            if after == 20:
                break
    released.set()
    kept = (tmp_path / "stuck.part").stat().st_size
    assert 0 < kept <= 90_000
    (result,) = await collect(client, [(app.url + "/stuck", tmp_path / "stuck")])
    assert result.path.read_bytes() == shelf.data
    assert shelf.asked == [f"bytes={kept}-"]


async def test_a_host_that_is_waited_for_holds_up_no_other(
    make_client: Any, app: AppServer, tmp_path: Path
) -> None:
    released = threading.Event()

    def slow(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", "2")])
        released.wait(30)
        conn.send(b"ok")

    app.route("/slow", slow)
    client = make_client(concurrency_limit=curlhttp.ConcurrencyLimit(1))
    one, other = app.url, app.url.replace("127.0.0.1", "localhost")
    pairs = [(f"{one}/slow?n={number}", tmp_path / f"s{number}") for number in range(10)]
    pairs += [(f"{other}/bytes/3?n={number}", tmp_path / f"f{number}") for number in range(10)]
    got = []
    async for result in client.download_many(pairs, concurrency=2):
        got.append(result.path.name[0])
        if len(got) == 10:
            released.set()
    assert "".join(got) == "f" * 10 + "s" * 10


async def test_a_download_that_has_waited_has_its_place_until_the_end_of_the_body(
    make_client: Any, app: AppServer, tmp_path: Path
) -> None:
    lock, third, seen = threading.Lock(), threading.Event(), set[str]()
    running = most = 0

    def answer(record: Record, conn: AppConnection) -> None:
        nonlocal running, most
        with lock:
            is_first = record.target not in seen
            seen.add(record.target)
            if not is_first:
                running += 1
                most = max(most, running)
                if running > 2:
                    third.set()
        if is_first:
            return conn.reply(503, b"later")
        conn.begin(200, [("Content-Length", "2")])
        third.wait(0.2)  # for one that must not come
        with lock:
            running -= 1
        return conn.send(b"ok")

    app.route("/busy", answer)
    pairs = [(f"{app.url}/busy?n={number}", tmp_path / str(number)) for number in range(8)]
    policy = curlhttp.RetryPolicy(
        2, backoff_strategy=curlhttp.ExponentialBackoff(base=0.05, factor=1.0), budget=None
    )
    results = await collect(make_client(retry=policy), pairs, concurrency=2)
    assert [result.size for result in results] == [2] * 8
    assert most <= 2


async def test_an_async_iterable_of_pairs_needs_the_async_client(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    async def pairs() -> AsyncIterator[Any]:
        for number in range(5):
            yield f"{app.url}/bytes/{number}", f"{tmp_path}/new/"

    if client.is_blocking:
        with pytest.raises(TypeError, match="needs AsyncClient"):
            await collect(client, pairs())
        return
    assert sorted(result.size for result in await collect(client, pairs())) == [*range(5)]
    assert left_in(tmp_path / "new") == ["0", "1", "2", "3", "4"]


# --- interrupted processes ---

MANY = """
import sys
import anyio, curlhttp
url, folder, kind = sys.argv[1:]
pairs = [(f"{url}/{number}", folder) for number in range(6)]

def show(path, done, total):
    if done > 1_500_000:
        print("on disk", flush=True)

async def run():
    async with curlhttp.AsyncClient() as client:
        async for result in client.download_many(pairs, concurrency=3, progress=show):
            print(result if isinstance(result, Exception) else result.size, flush=True)

if kind == "blocking":
    with curlhttp.Client() as client:
        for result in client.download_many(pairs, concurrency=3, progress=show):
            print(result if isinstance(result, Exception) else result.size, flush=True)
else:
    anyio.run(run, backend=kind)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocking", "asyncio", "trio"])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_after_a_signal_the_same_call_completes_each_file(
    app: AppServer, tmp_path: Path, kind: str, name: str
) -> None:
    import signal

    data, released = payload(3_000_000), threading.Event()

    def answer(record: Record, conn: AppConnection) -> None:
        start = int((record.header("range") or "bytes=0-")[6:-1])
        etag = [("ETag", f'"{record.target}"')]
        size = [("Content-Length", str(len(data) - start))]
        if not start:
            conn.begin(200, [*etag, *size])
        else:
            span = f"bytes {start}-{len(data) - 1}/{len(data)}"
            conn.begin(206, [*etag, *size, ("Content-Range", span)])
        at = start or 2_000_000
        conn.send(data[start:at])
        while at < 2_900_000 and not released.wait(0.02):  # so that progress is reported
            conn.send(data[at : at + 100])
            at += 100
        conn.send(data[at:])

    app.route("/part", answer)
    folder = f"{tmp_path}/files/"
    process = start_script(MANY, app.url + "/part", folder, kind)
    assert process.stdout is not None
    assert process.stdout.readline() == "on disk\n"
    process.send_signal(getattr(signal, name))
    process.communicate()
    assert [each for each in left_in(Path(folder)) if each.endswith(".part")]
    released.set()
    before = len(app.requests)
    out = run_script(MANY, app.url + "/part", folder, kind)
    assert out.split().count("3000000") == 6
    assert left_in(Path(folder)) == ["0", "1", "2", "3", "4", "5"]
    assert {path.read_bytes() for path in Path(folder).iterdir()} == {data}
    assert any(record.header("range") for record in app.requests[before:])
