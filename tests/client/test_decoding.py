"""Content codings over the wire, buffered and streamed. models/test_decoding tests the decoders."""

from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest

import curlhttp
from curlhttp.exceptions import ContentDecodingError
from tests.servers import (
    AppConnection,
    AppServer,
    RawServer,
    Record,
    payload,
    respond,
    response,
)
from tests.servers.routes import CODERS
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, Fetch
from tests.support.pace import assert_cheap

with curlhttp.Client() as _client:
    ACCEPT_ENCODING = _client.headers["Accept-Encoding"]

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

Make = Callable[..., AnyClient]
ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024


@pytest.fixture(params=[False, True], ids=["buffered", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    """Return whether the body is read from a streamed response."""
    return bool(request.param)


async def body_of(client: AnyClient, url: str, streams: bool, **options: Any) -> bytes:
    """Return the decoded body, read at once or streamed."""
    if not streams:
        content: bytes = (await client.get(url, **options)).content
        return content
    async with await client.stream("GET", url, **options) as stream:
        return b"".join([piece async for piece in stream.iterate("bytes")])


def coded(*bodies: bytes, coding: str = "gzip") -> RawServer:
    """Return a server that responds with the bodies in turn, labelled with a coding."""
    headers = [("Content-Encoding", coding)]
    return RawServer(respond(*(response(body, headers=headers) for body in bodies)))


@pytest.mark.parametrize("coding", sorted(CODERS))
@pytest.mark.parametrize("size", [0, 1, MIB])
async def test_every_coding_is_decoded(
    any_client: AnyClient, server: AppServer, streams: bool, coding: str, size: int
) -> None:
    url = f"{server.url}/{coding}?size={size}"
    assert await body_of(any_client, url, streams) == payload(size)


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_a_coded_body_may_be_chunked(
    client: AnyClient, app: AppServer, streams: bool, coding: str
) -> None:
    body = await body_of(client, f"{app.url}/{coding}-chunked?size=50000", streams)
    assert body == payload(50_000)


async def test_codings_are_decoded_in_reverse(client: AnyClient, streams: bool) -> None:
    body = brotli.compress(zlib.compress(gzip.compress(b"thrice" * 1000)))
    with coded(body, coding="gzip, deflate, br") as raw:
        assert await body_of(client, raw.url, streams) == b"thrice" * 1000


async def test_repeated_fields_are_one_list(client: AnyClient, streams: bool) -> None:
    body = brotli.compress(gzip.compress(b"twice"))
    headers = [("Content-Encoding", "x-gzip"), ("content-encoding", "BR")]
    with RawServer(respond(response(body, headers=headers))) as raw:
        assert await body_of(client, raw.url, streams) == b"twice"


@pytest.mark.parametrize("coding", ["unheard-of", "gzip, unheard-of", "identity", ""])
async def test_an_unknown_coding_is_not_decoded(
    client: AnyClient, streams: bool, coding: str
) -> None:
    with coded(b"as it came", coding=coding) as raw:
        assert await body_of(client, raw.url, streams) == b"as it came"


async def test_more_than_five_codings_are_an_error(client: AnyClient, streams: bool) -> None:
    """More than five codings are refused."""
    with coded(b"x", coding=", ".join(["gzip"] * 6)) as raw:
        with pytest.raises(
            ContentDecodingError, match="6 content codings, but at most 5 are allowed"
        ) as caught:
            await body_of(client, raw.url, streams)
    assert caught.value.request.method == "GET"
    assert caught.value.response.status_code == 200  # type: ignore[union-attr]
    assert caught.value.request_sent


@EVERY_API
async def test_no_api_returns_a_body_with_a_broken_coding(fetch: Fetch) -> None:
    """Too many, cut, corrupt, and no coding at all."""
    whole = gzip.compress(b"some text that is long enough " * 20)
    broken = (whole[:-9], whole[:20], whole[:-8] + bytes(8), b"no gzip at all")
    for body in broken:
        with coded(body) as raw, pytest.raises(ContentDecodingError):
            await fetch(raw.url)
    with coded(b"x", coding=", ".join(["gzip"] * 6)) as raw, pytest.raises(ContentDecodingError):
        await fetch(raw.url)
    with coded(whole) as raw:
        assert (await fetch(raw.url)).ok


async def test_a_coding_is_seen_whole_and_streamed_alike(client: AnyClient, streams: bool) -> None:
    body = gzip.compress(b"hello")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding : gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    with RawServer(respond(head.encode() + body)) as raw:
        assert await body_of(client, raw.url, streams) == b"hello"


async def test_a_hundred_fields_are_an_error(client: AnyClient, streams: bool) -> None:
    """More than five codings are refused."""
    headers = [("Content-Encoding", "gzip")] * 100
    with RawServer(respond(response(b"x", headers=headers))) as raw:
        with pytest.raises(ContentDecodingError, match="100 content codings"):
            await body_of(client, raw.url, streams)


async def test_a_coding_error_is_that_of_one_response(client: AnyClient, streams: bool) -> None:
    with coded(gzip.compress(b"x")[:-1], gzip.compress(b"good")) as raw:
        with pytest.raises(ContentDecodingError):
            await body_of(client, raw.url, streams)
        assert await body_of(client, raw.url, streams) == b"good"


@pytest.mark.parametrize("at", [3, -8, -4])
async def test_a_corrupt_body_is_an_error(client: AnyClient, streams: bool, at: int) -> None:
    """A corrupt coded body is an error."""
    body = bytearray(gzip.compress(payload(2000)))
    body[at] ^= 0xFF
    with coded(bytes(body)) as raw:
        with pytest.raises(ContentDecodingError):
            await body_of(client, raw.url, streams)


async def test_head_and_204_have_nothing_to_decode(client: AnyClient) -> None:
    response = b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n"
    with RawServer(respond(response)) as raw:
        assert (await client.get(raw.url)).content == b""


async def test_the_body_of_an_error_is_decoded(client: AnyClient, streams: bool) -> None:
    """Bounded like any other."""
    headers = [("Content-Encoding", "gzip")]
    found = response(gzip.compress(b"sorry"), status="503 No", headers=headers)
    with RawServer(respond(found)) as raw:
        assert await body_of(client, raw.url, streams) == b"sorry"


async def test_accept_encoding_lists_the_supported_codings(
    any_client: AnyClient, server: AppServer
) -> None:
    await any_client.get(server.url)
    assert server.requests[-1].values("accept-encoding") == [ACCEPT_ENCODING]
    assert "gzip" in ACCEPT_ENCODING
    assert ("zstd" in ACCEPT_ENCODING) == ("zstd" in CODERS)
    await any_client.get(server.url, headers={"Accept-Encoding": None})
    assert server.requests[-1].values("accept-encoding") == []
    await any_client.get(server.url, headers={"accept-encoding": "br"})
    assert server.requests[-1].values("accept-encoding") == ["br"]


async def test_the_headers_are_those_on_the_wire(client: AnyClient, app: AppServer) -> None:
    response = await client.get(app.url + "/gzip?size=9000&zeros=1")
    assert response.headers["content-encoding"] == "gzip"
    assert int(response.headers["content-length"]) < len(response.content)


async def test_a_megabyte_of_empty_members_takes_less_than_a_second(
    client: AnyClient, streams: bool
) -> None:
    """Bodies of empty members are read at once."""
    with coded(gzip.compress(b"", mtime=0) * 52_000) as raw:
        began = time.process_time()
        with contextlib.suppress(ContentDecodingError):
            assert await body_of(client, raw.url, streams) == b""
        assert_cheap(time.process_time() - began, 1)


@pytest.mark.skipif("zstd" not in ACCEPT_ENCODING, reason="no zstd here")
async def test_a_megabyte_of_tiny_frames_is_refused(client: AnyClient, streams: bool) -> None:
    frame = bytes.fromhex("28b52ffd2000010000")  # RFC 8878, section 3.1.1: an empty one
    with coded(frame * 100_000, coding="zstd") as raw:
        with pytest.raises(ContentDecodingError, match="frames in") as caught:
            await body_of(client, raw.url, streams)
    assert caught.value.request is not None


async def test_a_redirects_coded_body_is_never_decoded(client: AnyClient) -> None:
    """Nobody wants it."""
    headers = [("Content-Encoding", "gzip"), ("Location", "/")]
    found = response(b"not gzip at all", status="302 Found", headers=headers)
    with RawServer(respond(found, response(b"there"))) as raw:
        got = await client.get(raw.url)
        assert got.content == b"there"
        assert got.history[0].content == b"not gzip at all"


_DECODE = """
import resource, sys
sys.path.insert(0, {root!r})
import anyio
from tests.support.colours import BACKENDS, AnyClient
from curlhttp.exceptions import ResponseTooLarge

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

async def main():
    colour, url, streams = sys.argv[1:]
    async with AnyClient(colour, max_response_size=1 << 20) as client:
        await client.get(url + "/gzip?size=500000")
        await client.get(url + "/br?size=500000")
        before = peak()
        for path in ("/bomb/br", "/bomb/gzip"):
            try:
                if streams == "1":
                    async with await client.stream("GET", url + path) as stream:
                        await stream.read()
                else:
                    await client.get(url + path)
            except ResponseTooLarge:
                print(peak() - before)

name = BACKENDS[sys.argv[1]]
name, options = name if isinstance(name, tuple) else (name, {{}})
anyio.run(main, backend=name, backend_options=options)
"""


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    """Return a gibibyte of zeros in a kilobyte of brotli, and 64 MiB of them in gzip."""
    squeeze = brotli.Compressor(quality=5)
    block = bytes(64 * MIB)
    parts = [squeeze.process(block) for _ in range(16)]
    brotlied = b"".join([*parts, squeeze.finish()])
    return {"br": brotlied, "gzip": CODERS["gzip"](block)}


@ONE_OF_EACH
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_bomb_takes_little_more_memory_than_the_limit(
    colour: str, app: AppServer, streams: bool, bombs: dict[str, bytes]
) -> None:
    """As the process sees it."""

    def bomb(record: Record, conn: AppConnection) -> None:
        coding = record.args[0]
        conn.reply(200, bombs[coding], [("Content-Encoding", coding)])

    app.route("/bomb", bomb)
    program = _DECODE.format(root=str(ROOT))
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, colour, app.url, f"{streams:d}"],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=ROOT,
        )
    finally:
        del app.routes["/bomb"]
    assert done.returncode == 0, done.stderr
    grown = [int(line) for line in done.stdout.split()]
    assert len(grown) == 2
    assert max(grown) < 11 * MIB
