"""Streams whose body may be in memory instead, if it is small: what a fetch of many URLs sends."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from curlhttp.exceptions import ChunkedEncodingError, ResponseTooLarge
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.colours import AnyClient, AnyStream
from tests.support.internals import content_in_memory, stream_if_large

pytestmark = pytest.mark.anyio

SIZES = [0, 1, 20_000, 1 << 18, 300_000, 3_000_000]


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def server(request: pytest.FixtureRequest) -> AppServer:
    """Return the application on HTTP/1.1 and on HTTP/2, in turn."""
    found: AppServer = request.getfixturevalue("app" if request.param == "HTTP/1.1" else "h2_app")
    return found


async def get(client: AnyClient, url: str, **options: Any) -> Any:
    request = client.real.build_request("GET", url, **options)
    stream_if_large(request)
    return await client.send(request)


async def read(client: AnyClient, response: Any) -> bytes:
    """Return the body, whether it is in memory or not."""
    content = content_in_memory(response)
    return await AnyStream(client, response).read() if content is None else content


@pytest.mark.parametrize("size", SIZES)
async def test_a_body_of_any_size_is_whole(make_client: Any, server: AppServer, size: int) -> None:
    client = make_client(http2=True)
    for _ in range(2):  # the second time on the same handle
        response = await get(client, f"{server.url}/bytes/{size}?seed=1")
        assert await read(client, response) == payload(size, 1)
        assert (await client.get(f"{server.url}/bytes/{size}?seed=2")).content == payload(size, 2)
        async with await client.stream("GET", f"{server.url}/bytes/{size}?seed=3") as stream:
            assert await stream.read() == payload(size, 3)
    assert server.connections == 1


async def test_a_coded_body_is_decoded_as_it_is_read(make_client: Any, app: AppServer) -> None:
    client, body = make_client(), bytes(1 << 20)
    coded = gzip.compress(body)
    fields = [("Content-Encoding", "gzip")]
    app.route("/coded", lambda _, conn: conn.reply(200, coded, fields))
    response = await get(client, app.url + "/coded")
    assert content_in_memory(response) is None  # so that it need not all be in memory
    assert await read(client, response) == body
    response = await get(client, app.url + "/coded", max_response_size=100_000)
    with pytest.raises(ResponseTooLarge):
        await read(client, response)


@pytest.mark.parametrize("sent", [100, 300_000, 1_000_000])
async def test_a_body_that_breaks_off_is_an_error(
    make_client: Any, app: AppServer, sent: int
) -> None:
    def answer(_: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", "3000000")])
        conn.send(bytes(sent))
        conn.closing = True
        conn.close()

    app.route("/cut", answer)
    client = make_client()
    with pytest.raises(ChunkedEncodingError) as caught:
        await read(client, await get(client, app.url + "/cut"))
    assert caught.value.response is not None
    assert caught.value.response.status_code == 200
    assert (await client.get(app.url + "/bytes/3")).content == payload(3)


async def test_a_redirect_is_followed_whatever_its_body(make_client: Any, app: AppServer) -> None:
    client, bodies = make_client(), [bytes(10), bytes(60_000), bytes(3_000_000)]
    fields = [("Location", app.url + "/bytes/400000")]
    app.route("/moved", lambda _, conn: conn.reply(302, bodies.pop(), fields))
    while bodies:
        response = await get(client, app.url + "/moved")
        assert len(await read(client, response)) == 400_000
        assert [hop.status_code for hop in response.history] == [302]
    assert client.real.stats().bytes_received < 3_000_000  # nobody reads the rest


class _Through:
    def wrap(self, inner: Any) -> _Through:
        self.inner = inner
        return self

    def send(self, request: Any) -> Any:
        return self.inner.send(request)


class _AsyncThrough(_Through):
    async def send(self, request: Any) -> Any:
        return await self.inner.send(request)


@pytest.mark.parametrize("size", SIZES)
async def test_a_transport_that_wraps_the_engine_may_pass_it_on(
    make_client: Any, colour: str, app: AppServer, size: int
) -> None:
    client = make_client(transport=_Through() if colour == "blocking" else _AsyncThrough())
    response = await get(client, f"{app.url}/bytes/{size}?seed=1")
    assert await read(client, response) == payload(size, 1)
