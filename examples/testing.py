"""Test a service and the requests that it sends, without a network: run it, or use pytest.

The service is a Starlette application that looks up names in another service. ASGITransport calls
it, and the mock answers its requests. With pytest, the mock is the fixture curlhttp_mock.
"""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import curlhttp
from curlhttp.testing import Mock, mock, refused

# --- the service: it creates its own client ---


async def greet(request: Request) -> Response:
    async with curlhttp.AsyncClient(retry=2) as client:
        try:
            found = await client.get(f"https://names.test/{request.path_params['number']}")
        except curlhttp.RequestException as error:
            return JSONResponse({"error": type(error).__name__}, status_code=502)
    return JSONResponse({"hello": found.json()["name"]})


app = Starlette(routes=[Route("/greet/{number}", greet)])


# --- its tests ---


async def ask(path: str) -> curlhttp.Response:
    transport = curlhttp.ASGITransport(app)
    async with curlhttp.AsyncClient(transport=transport, base_url="http://app.test") as client:
        return await client.get(path)


def test_it_greets_by_name(curlhttp_mock: Mock) -> None:
    names = curlhttp_mock.get("https://names.test/*").respond(json={"name": "Ada"})
    assert asyncio.run(ask("/greet/7")).json() == {"hello": "Ada"}
    assert names.calls[0].url == "https://names.test/7"


def test_it_survives_a_restart_of_the_other_service(curlhttp_mock: Mock) -> None:
    names = curlhttp_mock.get("https://names.test/*")
    names.respond([refused(), 503, curlhttp.testing.Answer(json={"name": "Ada"})])
    assert asyncio.run(ask("/greet/7")).json() == {"hello": "Ada"}
    assert len(curlhttp_mock.sleeps) == 2  # this took no real time


def test_it_says_so_when_the_other_service_is_down(curlhttp_mock: Mock) -> None:
    curlhttp_mock.get("https://names.test/*").raises(curlhttp.ConnectTimeout)
    found = asyncio.run(ask("/greet/7"))
    assert (found.status_code, found.json()) == (502, {"error": "ConnectTimeout"})


def main() -> None:
    tests = (
        test_it_greets_by_name,
        test_it_survives_a_restart_of_the_other_service,
        test_it_says_so_when_the_other_service_is_down,
    )
    for test in tests:
        with mock() as network:  # the fixture does the same
            test(network)
        print("passed", test.__name__)


if __name__ == "__main__":
    main()
