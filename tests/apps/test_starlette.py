"""ASGITransport with typical apps of Starlette and FastAPI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from curlhttp import ASGITransport, AsyncClient

pytestmark = [pytest.mark.anyio, pytest.mark.colours("asyncio", "uvloop", "trio")]

events: list[str] = []


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, object]]:
    events.append("up")
    yield {"db": "open"}
    events.append("down")


async def echo(request: Request) -> Response:
    body = (await request.body()).decode()
    return JSONResponse({"url": str(request.url), "db": request.state.db, "body": body})


async def numbers(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(200):
            yield b"%d\n" % number
            await anyio.sleep(0)

    return StreamingResponse(pieces())


async def later(request: Request) -> Response:
    async def work() -> None:
        await anyio.sleep(0)
        events.append("worked")

    return PlainTextResponse("soon", background=BackgroundTask(work))


async def broken(request: Request) -> Response:
    raise ZeroDivisionError


ROUTES: list[Any] = [
    Route("/echo", echo, methods=["GET", "POST"]),
    Route("/numbers", numbers),
    Route("/later", later),
    Route("/broken", broken),
]


def client_of(app: Any, **options: Any) -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app, **options), base_url="http://app.test")


async def test_an_app_of_starlette_is_served(colour: str, anyio_backend: Any) -> None:
    events.clear()
    middleware = [Middleware(GZipMiddleware)]
    app = Starlette(routes=ROUTES, lifespan=lifespan, middleware=middleware)
    async with client_of(app) as client:
        found = (await client.post("/echo?a=b", content=b"abc")).json()
        assert found == {"url": "http://app.test/echo?a=b", "db": "open", "body": "abc"}
        response = await client.get("/numbers")
        assert response.headers["content-encoding"] == "gzip"
        assert response.text.split() == [str(number) for number in range(200)]
        async with client.stream("GET", "/numbers") as stream:
            lines = [line async for line in stream.aiter_lines()]
        assert len(lines) == 200
        await client.get("/later")
        assert events == ["up", "worked"]
        with pytest.raises(ZeroDivisionError):
            await client.get("/broken")
        assert (await client.get("/none")).status_code == 404
    assert events == ["up", "worked", "down"]
    async with client_of(app, raise_app_exceptions=False) as client:
        assert (await client.get("/broken")).status_code == 500


async def test_a_mounted_app_finds_its_routes(colour: str, anyio_backend: Any) -> None:
    app = Starlette(routes=[Mount("/api", routes=ROUTES)], lifespan=lifespan)
    async with client_of(app) as client:
        assert (await client.get("/api/echo")).json()["url"] == "http://app.test/api/echo"


async def test_an_app_of_fastapi_is_served(colour: str, anyio_backend: Any) -> None:
    fastapi = pytest.importorskip("fastapi", reason="the extra ecosystem is missing")
    app = fastapi.FastAPI()

    async def item(number: int, q: str = "") -> dict[str, object]:
        return {"number": number, "q": q}

    def add(item: dict[str, int]) -> dict[str, int]:  # in a thread
        return item

    app.get("/items/{number}")(item)
    app.post("/items")(add)
    async with client_of(app) as client:
        assert (await client.get("/items/7", params={"q": "é"})).json() == {"number": 7, "q": "é"}
        assert (await client.get("/items/x")).status_code == 422
        assert (await client.post("/items", json={"a": 1})).json() == {"a": 1}
