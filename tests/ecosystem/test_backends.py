"""The backends in examples/backends: a small program with each library.

tests/ecosystem/suites runs the libraries' own tests on them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp.testing import Mock
from tests.servers import AppServer

pytestmark = pytest.mark.anyio

_FOLDER = Path(__file__).parents[2] / "examples/backends"
_PORTS = sorted(path.stem for path in _FOLDER.glob("*.py"))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a backend, and skips where its library is not installed."""
    monkeypatch.syspath_prepend(str(_FOLDER))

    def load(name: str) -> Any:
        pytest.importorskip(name.removesuffix("_on_curlhttp"))
        return importlib.import_module(name)

    return load


@pytest.mark.colours("asyncio", "trio")
async def test_gidgethub_pages_through_a_client(load: Any, curlhttp_mock: Mock) -> None:
    port = load("gidgethub_on_curlhttp")
    issues = "https://api.github.com/issues"
    limits = {"X-RateLimit-Limit": "9", "X-RateLimit-Remaining": "8", "X-RateLimit-Reset": "1"}
    more = {**limits, "Link": f'<{issues}?page=2>; rel="next"'}
    curlhttp_mock.get(issues, params={"page": "2"}).respond(json=[{"number": 2}], headers=limits)
    curlhttp_mock.get(issues).respond(json=[{"number": 1}], headers=more)
    async with curlhttp.AsyncClient() as client:
        github = port.GitHubAPI(client, "my-name", oauth_token="secret")
        numbers = [issue["number"] async for issue in github.getiter("/issues")]
    assert numbers == [1, 2]
    assert github.rate_limit.remaining == 8


@pytest.mark.colours("asyncio")
async def test_fsspec_reads_files_of_a_server(load: Any, app: AppServer) -> None:
    pytest.importorskip("aiohttp")
    port = load("fsspec_on_curlhttp")
    files = importlib.import_module("fsspec").filesystem(
        "http",
        get_client=port.get_client,
        client_kwargs={"trust_env": False},
        asynchronous=True,  # else it has a thread that does not end
        skip_instance_cache=True,
    )
    session = await files.set_session()
    assert len(await files._cat_file(f"{app.url}/bytes/5000")) == 5000
    assert not await files._exists(f"{app.url}/status/404")
    with pytest.raises(FileNotFoundError):
        await files._cat_file(f"{app.url}/status/404")
    file = await files.open_async(f"{app.url}/bytes/5000")
    assert (len(await file.read(4096)), len(await file.read())) == (4096, 904)
    await file.close()
    with pytest.raises(TypeError, match="compress"):
        await files._cat_file(app.url, compress=True)
    await session.close()


@pytest.mark.colours("asyncio")
async def test_aiobotocore_keeps_the_keys_of_objects(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto.server")
    port = load("aiobotocore_on_curlhttp")
    session = importlib.import_module("aiobotocore.session").get_session()
    config = importlib.import_module("aiobotocore.config").AioConfig(
        http_session_cls=port.CurlSession
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    server = importlib.import_module("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, number = server.get_host_and_port()
    try:
        async with session.create_client(
            "s3", "us-east-1", endpoint_url=f"http://{host}:{number}", config=config
        ) as s3:
            await s3.create_bucket(Bucket="bucket")
            for key in ("a/./b", "a//b", "%7e", "a b"):
                await s3.put_object(Bucket="bucket", Key=key, Body=key.encode())
            for key in ("a/./b", "a//b", "%7e", "a b"):
                found = await s3.get_object(Bucket="bucket", Key=key)
                async with found["Body"] as body:
                    assert await body.read() == key.encode()
    finally:
        server.stop()


@pytest.mark.colours("asyncio", "trio")
async def test_mcp_calls_a_tool(load: Any) -> None:
    port = load("mcp_on_curlhttp")
    mcp = importlib.import_module("mcp")
    server = importlib.import_module("mcp.server").MCPServer("adds")
    server.tool()(_add)
    transport = curlhttp.ASGITransport(server.streamable_http_app())
    async with curlhttp.AsyncClient(transport=transport) as client:
        url = "http://127.0.0.1:8000/mcp"
        with anyio.fail_after(30):
            async with port.streamable_http_client(url, client) as (read, write):
                async with mcp.ClientSession(read, write) as session:
                    await session.initialize()
                    answer = await session.call_tool("_add", {"a": 40, "b": 2})
    assert answer.content[0].text == "42"


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_the_page_of_backends_names_each_file() -> None:
    page = (_FOLDER.parents[1] / "docs/how-to/backends.md").read_text(encoding="utf-8")
    assert _PORTS
    assert [name for name in _PORTS if f"`{name}.py`" not in page] == []
