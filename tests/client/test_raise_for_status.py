"""raise_for_status of a client, and of one request."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import curlhttp
from curlhttp import Response
from curlhttp.exceptions import HTTPError
from curlhttp.testing import Answer
from tests.servers import AppServer
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import download
from tests.support.scripted import URL, Scripted, steady

pytestmark = pytest.mark.anyio

PACKAGE = Path(curlhttp.__file__).parent
FLOW = {PACKAGE / "_client", PACKAGE / "_features", PACKAGE / "_features/retry"}
EVENTS = {"Accept": "text/event-stream"}


# --- of the client ---


async def test_a_client_can_raise_for_every_status(make_client: Any, app: AppServer) -> None:
    client = make_client(raise_for_status=True)
    assert (await client.get(app.url + "/redirect/1")).status_code == 200
    with pytest.raises(HTTPError, match="404") as caught:
        await client.get(app.url + "/status/404")
    assert caught.value.response is not None
    with pytest.raises(HTTPError, match="503") as caught:
        await client.stream("GET", app.url + "/status/503")
    assert caught.value.response.content == b""
    assert (await client.get(app.url)).status_code == 200
    assert app.connections == 1  # the stream has released its connection


async def test_a_map_gets_the_exceptions(make_client: Any, app: AppServer) -> None:
    client = make_client(raise_for_status=True)
    results = [result async for result in client.map([app.url + "/status/500"])]
    assert [type(result) for result in results] == [HTTPError]


async def test_it_is_raised_after_retries_fallbacks_and_hooks(scripted: Scripted) -> None:
    seen: list[int] = []
    client, engine = scripted(
        [503, 200, 503, 503, 404],
        retry=steady(1),
        raise_for_status=True,
        hooks={"response": lambda response: seen.append(response.status_code)},
        fallback=lambda request, outcome: request.respond(203),
    )
    for _ in range(2):
        await client.get("http://a/")
    with pytest.raises(HTTPError, match="404"):
        await client.get("http://a/")
    assert seen == [200, 203, 404]
    assert len(engine.sent) == 5


async def test_without_it_a_status_is_no_exception(client: AnyClient, app: AppServer) -> None:
    assert (await client.get(app.url + "/status/500")).status_code == 500


@ONE_OF_EACH
async def test_it_is_raised_for_a_request_that_asks_for_events(scripted: Scripted) -> None:
    client, _ = scripted([500], raise_for_status=True)
    with pytest.raises(HTTPError):
        await client.stream("GET", URL, headers=EVENTS)


# --- of one request ---


async def test_one_request_can_raise(client: AnyClient, app: AppServer) -> None:
    for method in ("GET", "POST"):
        assert (await client.request(method, app.url + "/status/500")).status_code == 500
        with pytest.raises(HTTPError, match="500 "):
            await client.request(method, app.url + "/status/500", raise_for_status=True)
        assert (await client.request(method, app.url, raise_for_status=True)).status_code == 200
        assert (await client.request(method, app.url + "/status/500")).status_code == 500
    with pytest.raises(HTTPError, match="404") as caught:
        await client.stream("GET", app.url + "/status/404", raise_for_status=True)
    assert caught.value.response.content == b""
    assert app.connections == 1


async def test_one_request_can_do_without(make_client: Any, app: AppServer) -> None:
    client = make_client(raise_for_status=True)
    response = await client.get(app.url + "/status/404", raise_for_status=False)
    assert response.status_code == 404
    async with await client.stream(
        "GET", app.url + "/status/404", raise_for_status=False
    ) as stream:
        assert stream.real.status_code == 404
    with pytest.raises(HTTPError):
        await client.get(app.url + "/status/404")
    default = curlhttp.types.USE_CLIENT_DEFAULT
    with pytest.raises(HTTPError):
        await client.get(app.url + "/status/404", raise_for_status=default)


@WITHOUT_UVLOOP
@pytest.mark.parametrize("others", [False, True], ids=["of one request", "of the client"])
async def test_a_request_that_was_built_has_it(
    make_client: Any, app: AppServer, others: bool
) -> None:
    client, builder = make_client(raise_for_status=others), curlhttp.Client()
    url = app.url + "/status/404"
    assert (await client.get(app.url)).status_code == 200
    for maker in (builder, client.real):  # first one whose client has no such layer yet
        raising = maker.build_request("GET", url, raise_for_status=True)
        other = maker.build_request("GET", url, raise_for_status=False)
        for request in (raising, raising.copy(), raising.derive(headers={"A": "b"})):
            with pytest.raises(HTTPError, match="404"):
                await client.send(request)
        for request in (other, other.copy(), other.derive(headers={"A": "b"})):
            assert (await client.send(request)).status_code == 404
    builder.close()


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
async def test_a_map_and_its_items_can_have_it(
    client: AnyClient, app: AppServer, first: bool
) -> None:
    bad = app.url + "/status/500"

    async def kinds(requests: Any, **options: Any) -> list[str]:
        results = client.map(requests, ordered=True, **options)
        return [type(each).__name__ async for each in results]

    if first:  # the map makes what sends its requests before it knows the items
        assert await kinds([bad]) == ["Response"]
    own = client.real.build_request
    items = (own("GET", bad, raise_for_status=each) for each in (True, False))
    assert await kinds(items) == ["HTTPError", "Response"]
    assert await kinds([bad, app.url], raise_for_status=True) == ["HTTPError", "Response"]
    assert await kinds([bad, app.url + "/redirect/1"]) == ["Response", "Response"]


@WITHOUT_UVLOOP
async def test_it_goes_with_a_retry_of_one_request(scripted: Scripted) -> None:
    client, engine = scripted([503, 404, 503, 503, 503, 200])
    policy = steady(1)
    with pytest.raises(HTTPError, match="404"):
        await client.get(URL, retry=policy, raise_for_status=True)
    with pytest.raises(HTTPError, match="503"):
        await client.get(URL, retry=policy, raise_for_status=True)
    assert (await client.get(URL)).status_code == 503
    assert (await client.get(URL, raise_for_status=True)).status_code == 200
    assert len(engine.sent) == 6


async def test_a_plain_get_of_the_same_client_still_goes_straight(
    make_client: Any, app: AppServer
) -> None:
    client, url = make_client(http2=False), app.url + "/bytes/10"
    await client.get(url)  # which makes what later ones use
    before = await calls_of_flow(client, url)
    await client.get(url, raise_for_status=True, retry=1)
    assert await calls_of_flow(client, url) <= before
    assert await calls_of_flow(client, app.url + "/redirect/2") > before
    assert (await client.get(app.url + "/redirect/2")).status_code == 200  # and goes on in the flow


async def calls_of_flow(client: AnyClient, url: str) -> int:
    """Return how many functions of the flow a GET calls, also those of features."""
    found: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename).parent in FLOW:
            found.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        assert (await client.get(url)).status_code == 200
    finally:
        sys.setprofile(None)
    return len(found)


async def test_downloads_events_and_websockets_raise_in_any_case(
    make_client: Any, app: AppServer, tmp_path: Path
) -> None:
    for own in (True, False):
        client = make_client(raise_for_status=own)
        with pytest.raises(HTTPError, match="404"):
            await download(client, app.url + "/status/404", tmp_path / "a", raise_for_status=True)
        with pytest.raises(HTTPError, match="404"):
            async with client.sse(app.url + "/status/404", raise_for_status=True):
                pass
        with pytest.raises(curlhttp.WebSocketRefused):
            await client.websocket(app.url + "/status/404", raise_for_status=True)


@ONE_OF_EACH
async def test_what_raises_in_any_case_refuses_to_do_without(
    scripted: Scripted, tmp_path: Path
) -> None:
    client, engine = scripted([200])
    calls: Any = {
        "download": lambda: download(client, URL, tmp_path / "a", raise_for_status=False),
        "websocket": lambda: client.websocket(URL, raise_for_status=False),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{name}\(\) raises for any status .* use stream"):
            await call()
    with pytest.raises(ValueError, match=r"^sse\(\) raises for any status"):
        client.sse(URL, raise_for_status=False)
    for wrong in (None, 1, print, "yes"):
        with pytest.raises(TypeError, match="raise_for_status must be True or False, not"):
            await client.get(URL, raise_for_status=wrong)
        with pytest.raises(TypeError, match="raise_for_status must be True or False, not"):
            client.sse(URL, raise_for_status=wrong)
    assert not engine.sent


@ONE_OF_EACH
async def test_the_requests_of_an_auth_are_not_judged(scripted: Scripted) -> None:
    class Token(curlhttp.Auth):
        def auth_flow(self, request: Any) -> Any:
            token: Response = yield curlhttp.ClientRequest("GET", "http://a/token")
            request.headers["X-Token"] = str(token.status_code)
            yield request

    client, engine = scripted([Answer(404), Answer(200)])
    response = await client.get(URL, auth=Token(), raise_for_status=True)
    assert response.status_code == 200
    assert engine.sent[1].headers["X-Token"] == "404"


@pytest.mark.parametrize("name", ["get", "post", "put", "patch", "delete", "options", "head"])
def test_the_functions_take_it(app: AppServer, name: str) -> None:
    call: Any = getattr(curlhttp, name)
    with pytest.raises(HTTPError):
        call(app.url + "/status/404", raise_for_status=True)
    assert call(app.url + "/status/404", raise_for_status=False).status_code == 404


def test_the_stream_function_takes_it(app: AppServer) -> None:
    with pytest.raises(HTTPError):
        curlhttp.stream("GET", app.url + "/status/404", raise_for_status=True)
    with pytest.raises(HTTPError):
        curlhttp.request("GET", app.url + "/status/404", raise_for_status=True)


async def test_a_subclass_that_builds_requests_gets_it(app: AppServer) -> None:
    given: list[Any] = []

    class Ours(curlhttp.Client):
        def build_request(self, method: str, url: Any, **options: Any) -> Any:
            given.append(options)
            return super().build_request(method, url, **options)

    with Ours() as client, pytest.raises(HTTPError):
        client.get(app.url + "/status/404", raise_for_status=True)
    assert given == [{"raise_for_status": True}]
