"""The mock of curlhttp serves clients of httpx, and libraries built on them."""

from __future__ import annotations

from typing import Any

import pytest

import curlhttp
from tests.httpx.clients import AnyHTTPX
from tests.support.colours import WITHOUT_UVLOOP

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]


async def test_a_mock_serves_clients_of_httpx(
    library: Any, httpx_client: AnyHTTPX, curlhttp_mock: Any
) -> None:
    route = curlhttp_mock.post("https://api.test/v1/chat").respond(201, json={"a": 1})
    curlhttp_mock.get("https://api.test/down").raises(curlhttp.ReadTimeout("too slow"))
    curlhttp_mock.get("https://api.test/lines").respond(200, content=b"one\ntwo\n")
    response = await httpx_client.post("https://api.test/v1/chat", json={"ask": "me"})
    assert (response.status_code, response.json()) == (201, {"a": 1})
    assert route.call_count == 1
    with pytest.raises(library.ReadTimeout):
        await httpx_client.get("https://api.test/down")
    async with httpx_client.stream("GET", "https://api.test/lines") as response:
        assert await httpx_client.read(response) == b"one\ntwo\n"
