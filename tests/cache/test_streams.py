"""The cache with streams, content codings, maps and background refreshes, over real sockets."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import (
    AsyncClient,
    BlockedAddress,
    Cache,
    Client,
    ContentDecodingError,
    PublicOnly,
    RequestException,
)
from curlhttp.testing import Answer, ScriptedEngine, refused
from tests.servers import AppServer
from tests.servers.raw import RawServer, respond_and_close
from tests.servers.record import Record
from tests.support.colours import AnyClient
from tests.support.scripted import Scripted

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
URL = "http://h.test/"
KEPT = [("Cache-Control", "max-age=60")]
SOME = [("Cache-Control", "max-age=60, stale-while-revalidate=60")]


def counted(app: AppServer, path: str, body: bytes, headers: Any = KEPT) -> list[str]:
    """Add a route, and return the list of the methods of its requests."""
    asked: list[str] = []

    def respond(record: Record, out: Any) -> None:
        asked.append(record.method)
        out.reply(200, body, headers)

    app.route(path, respond)
    return asked


@pytest.fixture(params=["memory", "file"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    where = ":memory:" if request.param == "memory" else tmp_path / "http.db"
    with Cache(where) as made:
        yield made


async def test_responses_and_streams_are_stored_as_received(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    plain = os.urandom(200_000)
    coded = gzip.compress(plain)
    headers = [*KEPT, ("Content-Encoding", "gzip")]
    for path, streams_first in [("/whole", False), ("/stream", True)]:
        asked = counted(app, path, coded, headers)
        client = make_client(cache=cache)
        for number in range(2):
            if streams_first == (number == 0):
                async with await client.stream("GET", app.url + path) as response:
                    assert b"".join([piece async for piece in response.iterate("bytes")]) == plain
            else:
                response = await client.get(app.url + path)
                assert response.content == plain
        async with await client.stream("GET", app.url + path) as response:
            assert b"".join([piece async for piece in response.iterate("raw")]) == coded
            assert response.real.from_cache
            assert response.real.headers["Content-Encoding"] == "gzip"
        assert asked == ["GET"]


async def test_a_stream_says_that_it_is_stored_once_it_was_read(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    counted(app, "/kept", b"x" * 300_000)
    client = make_client(cache=cache)
    async with await client.stream("GET", app.url + "/kept") as response:
        assert response.real.cache_status == "curlhttp; fwd=uri-miss"
        await response.read()
        assert response.real.cache_status == "curlhttp; fwd=uri-miss; stored"


async def test_a_stream_that_is_left_early_is_not_stored(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    asked = counted(app, "/left", b"x" * 3_000_000)
    client = make_client(cache=cache)
    for _ in range(2):
        async with await client.stream("GET", app.url + "/left") as response:
            async for _piece in response.iterate("bytes"):
                break
    assert not (await client.get(app.url + "/left")).from_cache
    assert len(asked) == 3


async def test_a_body_that_breaks_off_is_not_stored(make_client: MakeClient, cache: Cache) -> None:
    head = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n"
    with RawServer(respond_and_close(head + b"half")) as server:
        client = make_client(cache=cache)
        with pytest.raises(RequestException):
            await client.get(server.url)
        async with await client.stream("GET", server.url) as response:
            with pytest.raises(RequestException):
                await response.read()
        only = {"Cache-Control": "only-if-cached"}
        assert (await client.get(server.url, headers=only)).status_code == 504


CODED = gzip.compress(os.urandom(100_000))


@pytest.mark.parametrize("how", ["bytes", "raw", "left"])
async def test_a_body_with_a_truncated_coding_is_not_stored(
    make_client: MakeClient, app: AppServer, cache: Cache, how: str
) -> None:
    bodies = [CODED[:-9], CODED]  # the length is right: only the coding shows it

    def respond(record: Record, out: Any) -> None:
        out.reply(200, bodies.pop(0), [*KEPT, ("Content-Encoding", "gzip")])

    app.route("/cut", respond)
    client = make_client(cache=cache)
    url = app.url + "/cut"
    async with await client.stream("GET", url) as response:
        with suppress(ContentDecodingError):
            async for _piece in response.iterate("raw" if how == "raw" else "bytes"):
                if how == "left":
                    break
    response = await client.get(url)
    assert (response.content, response.from_cache) == (gzip.decompress(CODED), False)
    assert bodies == []


@pytest.mark.parametrize("how", ["bytes", "raw"])
async def test_a_coded_body_that_was_read_to_its_end_is_stored(
    make_client: MakeClient, app: AppServer, cache: Cache, how: str
) -> None:
    asked = counted(app, "/coded", CODED, [*KEPT, ("Content-Encoding", "gzip")])
    client = make_client(cache=cache)
    async with await client.stream("GET", app.url + "/coded") as response:
        async for _piece in response.iterate(how):
            pass
    response = await client.get(app.url + "/coded")
    assert (response.content, response.from_cache) == (gzip.decompress(CODED), True)
    assert asked == ["GET"]


async def test_a_stream_may_get_a_504_or_a_304_of_the_cache(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    counted(app, "/kept", b"x", [*KEPT, ("ETag", '"1"')])
    client = make_client(cache=cache)
    only = {"Cache-Control": "only-if-cached"}
    async with await client.stream("GET", app.url + "/kept", headers=only) as response:
        assert response.real.status_code == 504
        assert [piece async for piece in response.iterate("raw")] == []
    await client.get(app.url + "/kept")
    async with await client.stream(
        "GET", app.url + "/kept", headers={"If-None-Match": '"1"'}
    ) as response:
        assert (response.real.status_code, await response.read()) == (304, b"")


async def test_a_map_uses_the_cache(make_client: MakeClient, app: AppServer, cache: Cache) -> None:
    asked = counted(app, "/one", b"one")
    client = make_client(cache=cache)
    await client.get(app.url + "/one")
    found = [each async for each in client.map([app.url + "/one"] * 20)]
    assert [each.content for each in found] == [b"one"] * 20
    assert all(each.from_cache for each in found)
    assert len(asked) == 1


async def test_a_download_bypasses_the_cache(
    make_client: MakeClient, app: AppServer, cache: Cache, tmp_path: Path
) -> None:
    asked = counted(app, "/file", b"x" * 1000)
    client = make_client(cache=cache)
    await client.get(app.url + "/file")
    loaded = client.real.download(app.url + "/file", tmp_path / "file")
    response = loaded if client.is_blocking else await loaded
    assert (response.cache_status, len(asked)) == (None, 2)


async def test_two_clients_on_one_file_never_get_each_others_responses(
    make_client: MakeClient, app: AppServer, tmp_path: Path
) -> None:
    app.route(
        "/me", lambda record, out: out.reply(200, (record.header("cookie") or "").encode(), KEPT)
    )
    with Cache(tmp_path / "http.db") as one, Cache(tmp_path / "http.db") as two:
        clients = [
            make_client(cache=one, cookies={"id": "ada"}),
            make_client(cache=two, cookies={"id": "grace"}),
        ]
        for _ in range(2):
            responses = [(await client.get(app.url + "/me")).text for client in clients]
            assert responses == ["id=ada", "id=grace"]


# background refreshes


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.001)


async def test_a_stale_response_is_returned_while_it_is_revalidated(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    asked: list[str] = []
    gate = threading.Event()

    def respond(record: Record, out: Any) -> None:
        asked.append(record.method)
        assert len(asked) == 1 or gate.wait(30)
        age = ("Age", "70" if len(asked) == 1 else "0")
        out.reply(200, str(len(asked)).encode(), [*SOME, age])

    app.route("/stale", respond)
    client = make_client(cache=cache)
    try:
        await client.get(app.url + "/stale")
        for _ in range(3):
            response = await client.get(app.url + "/stale")
            assert response.content == b"1"
            assert response.from_cache
            assert response.cache_status.endswith("detail=stale-while-revalidate")
        await until(lambda: len(asked) > 1)
        assert len(asked) == 2  # one for the three
    finally:
        gate.set()
    with anyio.fail_after(30):
        while (await client.get(app.url + "/stale")).content == b"1":
            await anyio.sleep(0.001)


async def test_a_closed_client_leaves_no_refresh_behind(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    gate = threading.Event()
    asked: list[str] = []

    def respond(record: Record, out: Any) -> None:
        asked.append(record.method)
        if len(asked) > 1:
            threading.Timer(0.05, gate.set).start()
            gate.wait(30)
        out.reply(200, b"x", [*SOME, ("Age", "70")])

    app.route("/stale", respond)
    client = make_client(cache=cache)
    await client.get(app.url + "/stale")
    await client.get(app.url + "/stale")
    await until(lambda: len(asked) == 2)
    await client.aclose()
    assert not any(each.name == "curlhttp-cache" for each in threading.enumerate())
    gate.wait(30)


async def test_a_refresh_that_fails_is_no_matter(scripted: Scripted, cache: Cache) -> None:
    def respond(request: Any) -> Any:
        if engine.sent:
            return refused()
        return Answer(headers=SOME, content=b"one")

    client, engine = scripted(respond, cache=cache)
    await client.get(URL)
    engine.advance(61)
    for sent in (2, 3):
        with anyio.fail_after(30):
            while len(engine.sent) < sent:  # a refresh at a time
                assert (await client.get(URL)).content == b"one"
                await anyio.sleep(0.001)


def test_a_cache_outlives_its_clients_and_event_loops() -> None:
    kept = Cache(":memory:")

    async def ask(backend: str) -> bool:
        engine = ScriptedEngine([Answer(headers=KEPT)])
        async with AsyncClient(cache=kept, transport=engine) as client:
            return bool((await client.get(URL)).from_cache)

    with kept:
        assert [anyio.run(ask, name, backend=name) for name in ("asyncio", "trio")] == [False, True]
        with Client(cache=kept, transport=ScriptedEngine([])) as client:
            assert client.get(URL).from_cache


async def test_a_thousand_at_once(make_client: MakeClient, app: AppServer, cache: Cache) -> None:
    counted(app, "/many", b"one")
    client = make_client(cache=cache, max_connections=20)
    responses = await client.gather(200, "GET", app.url + "/many")
    assert [each.content for each in responses] == [b"one"] * 200
    assert (await client.get(app.url + "/many")).from_cache


def test_without_the_extra_the_error_names_it() -> None:
    import subprocess
    import sys

    code = "import sys; sys.modules['hishel'] = None\nimport curlhttp\ncurlhttp.Cache(':memory:')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'curlhttp[cache]'" in done.stderr


async def test_a_guard_applies_to_responses_stored_by_other_clients(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    asked = counted(app, "/inside", b"secret")
    own = partial(PublicOnly, allow=["127.0.0.0/8"])
    for guard in (None, lambda *where: True, own()):
        client = make_client(cache=cache, guard=guard)
        for is_known in (False, True):
            response = await client.get(app.url + "/inside")
            assert response.from_cache is is_known
    wanted = make_client(guard=own()).real.build_request("GET", app.url + "/inside")
    for guard in (PublicOnly(), own(https_only=True), lambda *where: False):
        client = make_client(cache=cache, guard=guard)
        with pytest.raises(BlockedAddress):
            await client.get(app.url + "/inside")
        with pytest.raises(BlockedAddress):
            await client.send(wanted)
    # Guards that decide alike share entries: they may be those of other processes.
    assert (await make_client(cache=cache, guard=own()).get(app.url + "/inside")).from_cache
    assert len(asked) == 3


@pytest.mark.parametrize(
    "field",
    [("Connection", "content-encoding"), ("Cache-Control", 'no-cache="content-encoding"')],
)
async def test_a_body_whose_content_encoding_must_not_be_stored_is_not_stored(
    make_client: MakeClient, app: AppServer, cache: Cache, field: tuple[str, str]
) -> None:
    headers = [*KEPT, ("Content-Encoding", "gzip"), field]
    counted(app, "/coded", gzip.compress(b"plain"), headers)
    client = make_client(cache=cache)
    for _ in range(2):
        response = await client.get(app.url + "/coded")
        assert (response.content, response.from_cache) == (b"plain", False)


async def test_a_body_that_cannot_be_decoded_is_not_stored(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    asked = counted(app, "/corrupt", b"no gzip", [*KEPT, ("Content-Encoding", "gzip")])
    client = make_client(cache=cache)
    for _ in range(2):
        with pytest.raises(ContentDecodingError) as caught:
            await client.get(app.url + "/corrupt")
        assert caught.value.request is not None
    assert len(asked) == 2


async def test_an_exception_of_a_users_function_in_a_refresh_is_logged(
    make_client: MakeClient, app: AppServer, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    counted(app, "/stale", b"x", [("Cache-Control", "max-age=0, stale-while-revalidate=60")])
    logged = threading.Event()
    caplog.handler.addFilter(lambda record: logged.set() or True)  # type: ignore[func-returns-value]
    seen: list[Any] = []

    def fails_later(request: Any, send: Any) -> Any:
        seen.append(request)
        if len(seen) > 1:
            raise LookupError("mine")
        return send(request)

    client = make_client(cache=cache, attempt_middleware=[fails_later])
    await client.get(app.url + "/stale")
    assert (await client.get(app.url + "/stale")).from_cache
    with anyio.fail_after(30):  # none comes if it was not logged
        while not logged.is_set():
            await anyio.sleep(0.001)
    assert "a stored response was not refreshed" in caplog.text
    assert "LookupError: mine" in caplog.text
    assert (await client.get(app.url + "/stale")).from_cache


def test_a_refresh_without_a_thread_fails_no_hit(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    counted(app, "/stale", b"x", [("Cache-Control", "max-age=0, stale-while-revalidate=60")])
    with Client(cache=Cache(":memory:")) as client:
        client.get(app.url + "/stale")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            assert client.get(app.url + "/stale").from_cache


async def test_layers_below_the_cache_see_decoded_bodies(
    make_client: MakeClient, app: AppServer, cache: Cache
) -> None:
    seen: list[bytes] = []

    async def look(request: Any, send: curlhttp.types.Send) -> curlhttp.Response:
        response = await send(request)
        seen.append(response.content)
        return response

    counted(app, "/coded", gzip.compress(b"plain"), [*KEPT, ("Content-Encoding", "gzip")])
    client = make_client(cache=cache, attempt_middleware=[look])
    for _ in range(2):
        assert (await client.get(app.url + "/coded")).content == b"plain"
    assert seen == [b"plain"]
