from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers import AppServer, H2Server
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio


async def test_get_returns_the_body(client: AnyClient, app: AppServer) -> None:
    response = await client.get(app.url + "/bytes/1000")
    assert response.status_code == 200
    assert len(response.content) == 1000


async def test_http2_is_spoken_where_it_is_offered(
    make_client: Callable[..., AnyClient], h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    response = await client.get(h2_app.url + "/bytes/1000")
    assert response.http_version == "HTTP/2"
    assert len(response.content) == 1000


async def test_stream(client: AnyClient, app: AppServer) -> None:
    async with await client.stream("GET", app.url + "/bytes/1000000") as response:
        size = 0
        async for piece in response.iterate("bytes"):
            size += len(piece)
    assert size == 1000000
