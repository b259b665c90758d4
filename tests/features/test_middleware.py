"""Users' middleware and hooks: the same objects in both clients."""

from __future__ import annotations

import asyncio
import io
import pickle
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ClientRequest, Response
from curlhttp.types import Send
from tests.servers import AppServer, refused_port
from tests.support.colours import WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


class Noted:
    """A middleware that notes what passes through it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def __call__(self, request: ClientRequest, send: Send) -> Response:
        self.log.append(f"{self.name} > {request.url.path}")
        response = await send(request)
        self.log.append(f"{self.name} < {response.status_code}")
        return response


async def test_the_first_middleware_is_the_outermost(
    make_client: MakeClient, app: AppServer
) -> None:
    log: list[str] = []
    client = make_client(middleware=[Noted("a", log), Noted("b", log)])
    await client.get(app.url + "/x")
    assert log == ["a > /x", "b > /x", "b < 404", "a < 404"]


async def test_middleware_sees_each_redirect_and_each_authenticated_request(
    make_client: MakeClient, app: AppServer
) -> None:
    log: list[str] = []
    client = make_client(middleware=[Noted("m", log)])
    app.route(
        "/hop", lambda record, out: out.reply(302, b"", [("Location", "/digest?user=u&password=p")])
    )
    await client.get(app.url + "/hop", auth=curlhttp.DigestAuth("u", "p"))
    assert log == [
        "m > /hop",
        "m < 302",
        "m > /digest",
        "m < 401",
        "m > /digest",
        "m < 200",
    ]


async def test_one_middleware_serves_both_kinds_of_client(app: AppServer, colour: str) -> None:
    log: list[str] = []
    middleware = Noted("m", log)
    with curlhttp.Client(middleware=[middleware]) as client:
        client.get(app.url)
    async with AnyClient(colour, middleware=[middleware]) as other:
        await other.get(app.url)
    assert log == ["m > /", "m < 200"] * 2


async def test_middleware_may_change_headers_and_url(
    make_client: MakeClient, app: AppServer
) -> None:
    async def stamp(request: ClientRequest, send: Send) -> Response:
        request.headers["X-Stamp"] = "1"
        return await send(request.derive(url=app.at("localhost") + "/echo"))

    client = make_client(middleware=[stamp])
    found = await client.get(app.url + "/anything")
    assert found.url == app.at("localhost") + "/echo"
    assert ["X-Stamp", "1"] in found.json()["headers"]
    assert ["Host", f"localhost:{app.port}"] in found.json()["headers"]
    assert "x-stamp" not in client.real.headers


async def test_what_middleware_derives_is_checked(make_client: MakeClient, app: AppServer) -> None:
    """In what a middleware changes."""
    wanted: dict[str, Any] = {}

    async def change(request: ClientRequest, send: Send) -> Response:
        return await send(request.derive(**wanted))

    client = make_client(middleware=[change])
    cases: tuple[tuple[dict[str, Any], type[Exception]], ...] = (
        ({"method": "GET / HTTP/1.1\r\nX: y"}, curlhttp.InvalidMethod),
        ({"url": "http://a b/"}, curlhttp.InvalidURL),
        ({"headers": {"X": "1\r\nY: 2"}}, curlhttp.InvalidHeader),
    )
    for change_to, kind in cases:
        wanted.clear()
        wanted.update(change_to)
        with pytest.raises(kind):
            await client.get(app.url)
    assert not app.requests


async def test_middleware_may_return_its_own_response(
    make_client: MakeClient, app: AppServer
) -> None:
    async def cache(request: ClientRequest, send: Send) -> Response:
        if request.url.path == "/cached":
            return Response.of(request, 203, headers={"X-From": "cache"}, content="héllo")
        if request.url.path == "/moved":
            return Response.of(request, 302, headers={"Location": "/bytes/3"})
        return Response.of(request, 200, headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])

    client = make_client(middleware=[cache])
    found = await client.get(app.url + "/cached")
    assert (found.status_code, found.reason) == (203, "Non-Authoritative Information")
    assert found.headers["x-from"] == "cache"
    assert (found.content, found.text) == ("héllo".encode(), "héllo")
    assert found.url == app.url + "/cached"
    moved = await client.get(app.url + "/moved")
    assert moved.url == app.url + "/bytes/3"
    assert [past.status_code for past in moved.history] == [302]
    assert client.real.cookies.get_dict() == {"a": "1", "b": "2"}
    assert not app.requests


async def test_a_response_made_by_a_middleware_can_be_streamed(
    make_client: MakeClient, app: AppServer
) -> None:
    async def cache(request: ClientRequest, send: Send) -> Response:
        return Response.of(request, content=b"cached")

    client = make_client(middleware=[cache])
    async with await client.stream("GET", app.url) as streamed:
        pieces = [piece async for piece in streamed.iterate("bytes")]
        assert b"".join(pieces) == await streamed.read() == b"cached"


def test_a_made_up_response_cannot_smuggle_a_header() -> None:
    """A middleware's response is checked like a request."""
    request = ClientRequest("GET", "http://h.test/")
    for headers in ({"X": "1\r\nY: 2"}, {"X\r\nY": "2"}, {"": "2"}):
        with pytest.raises(curlhttp.InvalidHeader):
            Response.of(request, headers=headers)
    assert Response.of(request, 599).reason == ""
    with pytest.raises(curlhttp.HTTPError):
        Response.of(request, 404).raise_for_status()


async def test_middleware_may_send_twice(make_client: MakeClient, app: AppServer) -> None:
    async def again(request: ClientRequest, send: Send) -> Response:
        response = await send(request)
        if response.status_code == 404:
            await response.discard()
            response = await send(request)
        return response

    client = make_client(middleware=[again], max_connections=1, timeout=curlhttp.Timeout(pool=30))
    for stream in (False, True):
        found = await client.request("GET", app.url + "/x", stream=stream)
        assert found.status_code == 404
        assert (found.close() if client.is_blocking else await found.aclose()) is None
    assert len(app.requests) == 4


@pytest.mark.parametrize("kind", ("bytes", "file", "form"))
async def test_what_middleware_sends_twice_is_whole_twice(
    make_client: MakeClient, app: AppServer, kind: str
) -> None:
    async def twice(request: ClientRequest, send: Send) -> Response:
        await send(request)
        return await send(request)

    kinds: dict[str, dict[str, Any]] = {
        "bytes": {"content": b"data"},
        "file": {"content": io.BytesIO(b"data")},
        "form": {"files": {"f": io.BytesIO(b"data")}},
    }
    options = kinds[kind]
    await make_client(middleware=[twice]).post(app.url + "/echo", **options)
    first, second = app.requests
    assert first.body == second.body
    assert b"data" in second.body


async def test_a_spent_body_is_not_sent_again_as_nothing(
    make_client: MakeClient, app: AppServer
) -> None:
    async def twice(request: ClientRequest, send: Send) -> Response:
        await send(request)
        return await send(request)

    client = make_client(middleware=[twice])
    with pytest.raises(curlhttp.UnrewindableBodyError) as caught:
        await client.post(app.url + "/echo", content=(piece for piece in [b"a"]))
    assert caught.value.request is not None
    assert [record.body for record in app.requests] == [b"a"]


@pytest.mark.parametrize("keyword", ("middleware", "attempt_middleware"))
@pytest.mark.parametrize("hedge", (None, curlhttp.Hedge(60)))
async def test_a_middleware_that_returns_no_response_is_an_error(
    make_client: MakeClient, app: AppServer, keyword: str, hedge: curlhttp.Hedge | None
) -> None:
    async def forgets(request: ClientRequest, send: Send) -> None:
        await send(request)

    client = make_client(hedge=hedge, **{keyword: [forgets]})
    for stream in (False, True):
        with pytest.raises(TypeError, match=f"{keyword} returned NoneType, not a Response"):
            await client.request("GET", app.url, stream=stream)


async def test_what_middleware_raises_reaches_the_caller(
    make_client: MakeClient, app: AppServer
) -> None:
    async def guard(request: ClientRequest, send: Send) -> Response:
        if request.url.host == "localhost":
            raise PermissionError("not there")
        return await send(request)

    client = make_client(middleware=[guard])
    with pytest.raises(PermissionError, match="not there"):
        await client.get(app.url + f"/redirect-to?url={app.at('localhost')}/secret")
    assert [record.path for record in app.requests] == ["/redirect-to"]
    assert (await client.get(app.url)).ok


async def test_an_error_that_middleware_handles_is_not_raised(make_client: MakeClient) -> None:
    async def offline(request: ClientRequest, send: Send) -> Response:
        try:
            return await send(request)
        except curlhttp.ConnectionError:
            return Response.of(request, 503)

    with refused_port() as port:
        found = await make_client(middleware=[offline]).get(f"http://127.0.0.1:{port}/")
    assert found.status_code == 503


async def test_middleware_can_store_data_in_extensions(
    make_client: MakeClient, app: AppServer
) -> None:
    async def note(request: ClientRequest, send: Send) -> Response:
        request.extensions = {**(request.extensions or {}), "seen": True}
        return await send(request)

    found = await make_client(middleware=[note]).get(app.url)
    assert found.request.extensions == {"seen": True}


async def test_middleware_of_a_task_may_wait(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(middleware=[_sleepy])
    if not client.is_blocking:
        assert (await client.get(app.url)).ok


async def _sleepy(request: ClientRequest, send: Send) -> Response:
    response = await send(request)
    await anyio.sleep(0)
    return response


def test_a_blocking_client_says_so_when_a_middleware_waits(app: AppServer) -> None:
    async def before(request: ClientRequest, send: Send) -> Response:
        await asyncio.sleep(0)
        return await send(request)

    async def after(request: ClientRequest, send: Send) -> Response:
        response = await send(request)
        await asyncio.sleep(0)
        return response

    for middleware in (before, after):
        client = curlhttp.Client(
            middleware=[middleware], max_connections=1, timeout=curlhttp.Timeout(pool=30)
        )
        with client:
            for stream in (False, True):
                for _ in range(2):  # a handle that leaked would make the second wait for it
                    with pytest.raises(RuntimeError, match="needs an event loop; use AsyncClient"):
                        client.get(app.url + "/bytes/300000", stream=stream)


async def test_a_request_made_without_a_client_gets_the_clients_settings(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(cookies={"a": "1"}, auth=("u", "p"))
    own = ClientRequest("POST", app.url.replace("://", "://x:y@") + "/echo", headers={"X-Own": "1"})
    found = await client.send(own)
    assert found.json()["method"] == "POST"
    thawed = pickle.loads(pickle.dumps(client.real.build_request("GET", app.url + "/echo")))
    assert (await client.send(thawed)).ok
    assert [record.header("cookie") for record in app.requests] == ["a=1", "a=1"]
    sent = [record.header("authorization") for record in app.requests]
    assert sent == ["Basic eDp5", "Basic dTpw"]
    assert app.requests[0].header("x-own") == "1"


# --- hooks ---


async def test_hooks_see_the_request_first_and_the_response_last(
    make_client: MakeClient, app: AppServer
) -> None:
    log: list[Any] = []
    hooks: dict[str, Any] = {
        "request": lambda request: log.append(request.url.path),
        "response": [
            lambda response: log.append(response.status_code),
            lambda response: log.append(len(response.history)),
        ],
    }
    await make_client(hooks=hooks).get(app.url + "/redirect/2")
    assert log == ["/redirect/2", 200, 2]


async def test_hooks_may_replace_what_they_see(make_client: MakeClient, app: AppServer) -> None:
    hooks: dict[str, Any] = {
        "request": lambda request: request.derive(url=app.url + "/bytes/7"),
        "response": lambda response: Response.of(response.request, 299, content=response.content),
    }
    found = await make_client(hooks=hooks).get(app.url + "/x")
    assert (found.status_code, len(found.content)) == (299, 7)
    assert [record.path for record in app.requests] == ["/bytes/7"]


@pytest.mark.parametrize(
    ("event", "kind"), [("request", "ClientRequest"), ("response", "Response")]
)
async def test_what_a_hook_returns_by_mistake_is_refused(
    make_client: MakeClient, app: AppServer, event: Any, kind: str
) -> None:
    client = make_client(hooks={event: lambda _: 7}, max_connections=1)
    for _ in range(3):  # each needs the one slot
        with pytest.raises(TypeError, match=f"returned int; return None, or a {kind} that"):
            await client.get(app.url)
        with pytest.raises(TypeError, match="returned int"):
            await client.stream("GET", app.url)


async def test_hooks_may_be_coroutine_functions(make_client: MakeClient, app: AppServer) -> None:
    async def mark(request: ClientRequest) -> None:
        request.headers["X-Mark"] = "1"

    async def check(response: Response) -> None:
        response.raise_for_status()

    client = make_client(hooks={"request": mark, "response": [check]})
    assert (await client.get(app.url)).ok
    with pytest.raises(curlhttp.HTTPError):
        await client.get(app.url + "/status/500")
    assert [record.header("x-mark") for record in app.requests] == ["1", "1"]


def test_an_unknown_hook_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown hook 'respons'"):
        curlhttp.Client(hooks={"respons": print})  # type: ignore[arg-type]
