"""One test of each thing that the package does, which says in seconds whether it works."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from curlhttp.exceptions import ConnectionError, HTTPError, ReadTimeout
from curlhttp.testing import Mock
from tests.servers import AppServer, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.cli import run
from tests.support.colours import COLOURS, AnyClient
from tests.support.every_api import EVERY_API, Fetch

pytestmark = pytest.mark.colours(*COLOURS)


@EVERY_API
async def test_every_api_gets_a_response(app: AppServer, fetch: Fetch) -> None:
    response = await fetch(app.url + "/bytes/3")
    assert response.status_code == 200


@EVERY_API
async def test_every_api_says_that_nobody_listens(fetch: Fetch) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises((ConnectionError, requests.ConnectionError), match="refused"):
            await fetch(f"http://127.0.0.1:{bound.getsockname()[1]}/")


async def test_a_json_body_arrives(client: AnyClient, app: AppServer) -> None:
    response = await client.post(app.url + "/echo", json={"hello": ["world", 1]})
    assert json.loads(response.json()["body"]) == {"hello": ["world", 1]}


async def test_redirects_are_followed(client: AnyClient, app: AppServer) -> None:
    response = await client.get(app.url + "/redirect/2")
    assert [each.status_code for each in (*response.history, response)] == [302, 302, 200]


async def test_an_error_status_raises_where_asked(client: AnyClient, app: AppServer) -> None:
    response = await client.get(app.url + "/status/404")
    with pytest.raises(HTTPError, match="404"):
        response.raise_for_status()


async def test_a_silent_server_is_a_timeout(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(ReadTimeout, match="silent"):
        await client.get(app.url + "/stall", timeout=curlhttp.Timeout(read=0.05))


async def test_http2_on_tls(make_client: Any, h2_app: AppServer) -> None:
    response = await make_client(http2=True).get(h2_app.url + "/")
    assert (response.status_code, response.http_version) == (200, "HTTP/2")


async def test_failures_are_retried(scripted: Any) -> None:
    client, engine = scripted([503, 200], retry=2)
    assert (await client.get("http://a/")).status_code == 200
    assert len(engine.sent) == 2


async def test_a_websocket_echoes(client: AnyClient) -> None:
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws")) as websocket:
            await websocket.send("hello")
            assert await websocket.recv() == "hello"


async def test_a_mock_answers(client: AnyClient, curlhttp_mock: Mock) -> None:
    curlhttp_mock.get("https://pypi.org/*").respond(json={"name": "curlhttp"})
    response = await client.get("https://pypi.org/pypi")
    assert response.json() == {"name": "curlhttp"}


def test_the_command_line(app: AppServer, tmp_path: Path) -> None:
    ended = run("get", app.url + "/json", "-o", tmp_path / "page")
    assert ended.status == 0, ended.err
    assert (tmp_path / "page").read_bytes().startswith(b"{")
