"""A FastAPI service that calls another service, and its test without a network: run it.

One client lives as long as the application and keeps the connections. `pip install fastapi` to run
this file. Pass `app` to a server such as uvicorn. examples/service.py shows a failing upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request

import curlhttp
from curlhttp.testing import mock, refused

# --- the service ---


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    async with curlhttp.AsyncClient(
        base_url="https://names.example.org", retry=2, timeout=curlhttp.Timeout(total=5)
    ) as client:
        yield {"names": client}


app = FastAPI(lifespan=lifespan)


def names(request: Request) -> curlhttp.AsyncClient:
    client: curlhttp.AsyncClient = request.state.names
    return client


Names = Annotated[curlhttp.AsyncClient, Depends(names)]


@app.get("/greet/{number}")
async def greet(number: int, client: Names) -> dict[str, str]:
    try:
        response = await client.get(f"/names/{number}")
    except curlhttp.TimeoutException as error:
        raise HTTPException(504, "the name service is too slow") from error
    except curlhttp.RequestException as error:
        raise HTTPException(502, "the name service is unavailable") from error
    if response.status_code == 404:
        raise HTTPException(404, "there is nobody with this number")
    return {"hello": response.raise_for_status().json()["name"]}


# --- its test: ASGITransport calls the app, and a mock replaces the name service ---


async def main() -> None:
    transport = curlhttp.ASGITransport(app)  # this also runs the lifespan
    with mock("https://names.example.org") as network:
        network.get("/names/1").respond(json={"name": "Ada"})
        network.get("/names/2").respond(404)
        network.get("/names/3").respond([refused()] * 3)
        async with curlhttp.AsyncClient(transport=transport, base_url="http://app") as client:
            for number in (1, 2, 3):
                response = await client.get(f"/greet/{number}")
                print(response.status_code, response.json())


if __name__ == "__main__":
    asyncio.run(main())
