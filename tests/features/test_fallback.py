"""Fallbacks: which failures they get, what they may return, and where that can be seen."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import CircuitBreaker, OAuth2ClientCredentials, OAuth2Error, Timeout
from curlhttp.exceptions import (
    CircuitBreakerOpen,
    ConnectionError,
    ConnectTimeout,
    DeadlineExceeded,
    HTTPError,
    InvalidHeader,
)
from curlhttp.testing import Answer
from tests.servers import AppServer
from tests.support.colours import AnyClient
from tests.support.downloads import download
from tests.support.scripted import Scripted, steady

NOBODY = "http://127.0.0.1:1/"  # which needs root to listen on


def cached(request: Any, outcome: Any) -> Any:
    return request.respond(200, json={"from": type(outcome).__name__})


async def test_a_response_replaces_an_error(scripted: Scripted) -> None:
    client, engine = scripted([ConnectTimeout("slow")], fallback=cached)
    response = await client.get("http://a/x")
    assert (response.status_code, response.json()) == (200, {"from": "ConnectTimeout"})
    assert response.headers["Content-Type"] == "application/json"
    assert response.is_fallback
    assert response.url == "http://a/x"
    assert len(engine.sent) == 1


async def test_a_response_replaces_a_status_that_would_be_retried(scripted: Scripted) -> None:
    client, engine = scripted([503, 503, 503], retry=steady(2), fallback=cached)
    response = await client.get("http://a/")
    assert response.json() == {"from": "Response"}
    assert len(engine.sent) == 3
    assert [attempt.status_code for attempt in response.attempts] == [503] * 3


async def test_other_statuses_are_left_as_they_are(scripted: Scripted) -> None:
    client, _ = scripted([200, 404, 500], fallback=cached)
    for status in (200, 404, 500):
        response = await client.get("http://a/")
        assert response.status_code == status
        assert not response.is_fallback


async def test_the_policy_names_the_statuses(scripted: Scripted) -> None:
    policy = steady(0, statuses=(418,))
    client, _ = scripted([503, 418], retry=policy, fallback=cached)
    assert (await client.get("http://a/")).status_code == 503
    assert (await client.get("http://a/")).is_fallback


@pytest.mark.parametrize("answer", [ConnectTimeout("slow"), 503])
async def test_none_leaves_the_failure_as_it_is(scripted: Scripted, answer: Any) -> None:
    client, _ = scripted([answer], fallback=lambda request, outcome: None)
    if answer == 503:
        response = await client.get("http://a/")
        assert (response.status_code, response.is_fallback) == (503, False)
    else:
        with pytest.raises(ConnectTimeout):
            await client.get("http://a/")


async def test_the_outcome_returned_is_no_fallback(scripted: Scripted) -> None:
    client, _ = scripted([503], fallback=lambda request, outcome: outcome)
    response = await client.get("http://a/")
    assert (response.status_code, response.is_fallback) == (503, False)


async def test_a_circuit_that_is_open_and_a_deadline_are_failures(scripted: Scripted) -> None:
    seen = []

    def note(request: Any, outcome: Any) -> Any:
        seen.append(type(outcome))
        return request.respond(content=b"stale")

    client, _ = scripted(
        [ConnectTimeout("slow")] * 3, breaker=CircuitBreaker(1, 30.0), fallback=note
    )
    for _ in range(2):
        assert (await client.get("http://a/")).content == b"stale"
    assert seen == [ConnectTimeout, CircuitBreakerOpen]
    client, engine = scripted([503, 200], retry=steady(2), fallback=note)
    response = await client.get("http://a/", timeout=Timeout(total=0.5))
    assert (response.content, len(engine.sent)) == (b"stale", 1)


async def test_its_own_error_is_raised_with_the_failure_as_context(scripted: Scripted) -> None:
    def broken(request: Any, outcome: Any) -> Any:
        raise KeyError("no copy")

    client, _ = scripted([ConnectTimeout("slow")], fallback=broken)
    with pytest.raises(KeyError, match="no copy") as caught:
        await client.get("http://a/")
    assert isinstance(caught.value.__context__, ConnectTimeout)


async def test_anything_but_a_response_is_refused(scripted: Scripted) -> None:
    client, _ = scripted([ConnectTimeout("slow")], fallback=lambda request, outcome: "text")
    with pytest.raises(TypeError, match="the fallback returned str, not a Response"):
        await client.get("http://a/")


async def test_hooks_and_middleware_see_it(scripted: Scripted) -> None:
    events: list[Any] = []
    seen: list[bool] = []

    async def watch(request: Any, send: Any) -> Any:
        response = await send(request)
        seen.append(response.is_fallback)
        return response

    client, _ = scripted(
        [503, 200],
        fallback=cached,
        middleware=[watch],
        hooks={"on_fallback": events.append, "response": lambda r: seen.append(r.is_fallback)},
    )
    for _ in range(2):
        await client.get("http://a/?token=secret")
    assert seen == [True, True, False, False]
    (event,) = events
    assert (event.event, event.status_code, event.error, event.number) == (
        "on_fallback",
        503,
        None,
        1,
    )
    assert "secret" not in event.url


async def test_raise_for_status_looks_at_the_replacement(scripted: Scripted) -> None:
    client, _ = scripted([503], fallback=lambda request, outcome: request.respond(404))
    with pytest.raises(HTTPError, match="404"):
        (await client.get("http://a/")).raise_for_status()


async def test_it_is_not_stored_by_the_cache(make_client: Any, app: AppServer) -> None:
    asked = 0

    def copy(request: Any, outcome: Any) -> Any:
        nonlocal asked
        asked += 1
        return request.respond(headers={"Cache-Control": "max-age=60"})

    client = make_client(fallback=copy, cache=curlhttp.Cache(":memory:"))
    url = NOBODY
    for _ in range(2):
        assert (await client.get(url)).is_fallback
    assert asked == 2


async def test_a_stream_gets_a_stream(make_client: Any, app: AppServer) -> None:
    client = make_client(fallback=lambda request, _: request.respond(content="a\nb\n"))
    url = NOBODY
    async with await client.stream("GET", url) as stream:
        assert stream.real.is_fallback
        assert await stream.read() == b"a\nb\n"
    async with await client.stream("GET", app.url + "/status/503") as stream:
        assert stream.real.is_fallback
        assert await stream.read() == b"a\nb\n"
    assert (await client.get(app.url + "/bytes/3")).status_code == 200
    assert app.connections == 1  # the stream that was replaced has released its connection


async def test_map_uses_it(make_client: Any) -> None:
    client = make_client(fallback=cached)
    url = NOBODY
    results = [result async for result in client.map([url] * 3)]
    assert [result.is_fallback for result in results] == [True] * 3


async def test_downloads_do_not_use_it(make_client: Any, tmp_path: Any) -> None:
    client: AnyClient = make_client(fallback=cached)
    url = NOBODY
    with pytest.raises(ConnectionError):
        await download(client, url, tmp_path / "file")


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_an_async_function_is_awaited(make_client: Any) -> None:
    async def look_up(request: Any, outcome: Any) -> Any:
        await anyio.sleep(0)
        return request.respond(json=[1])

    client = make_client(fallback=look_up)
    response = await client.get(NOBODY)
    assert response.json() == [1]


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancelled_request_stays_cancelled(make_client: Any, app: AppServer) -> None:
    called = []
    client = make_client(fallback=lambda *arguments: called.append(arguments))
    with anyio.move_on_after(0.05) as scope:
        await client.get(app.url + "/stall")
    assert scope.cancelled_caught
    assert not called


async def test_a_closed_client_is_no_failure(make_client: Any) -> None:
    client = make_client(fallback=cached)
    await client.aclose()
    with pytest.raises(curlhttp.ClientClosed):
        await client.get(NOBODY)


def test_bad_functions_are_refused() -> None:
    async def look_up(request: Any, outcome: Any) -> None:
        await asyncio.sleep(0)

    class LookUp:
        async def __call__(self, request: Any, outcome: Any) -> None:
            await asyncio.sleep(0)

    for function in (look_up, LookUp()):
        with pytest.raises(TypeError, match="an async fallback needs AsyncClient"):
            curlhttp.Client(fallback=function)
    with (
        curlhttp.Client(fallback=lambda *arguments: look_up(*arguments)) as client_of_lambda,
        pytest.raises(TypeError, match="an async fallback needs AsyncClient") as caught,
    ):
        client_of_lambda.get(NOBODY)
    assert isinstance(caught.value.__context__, ConnectionError)
    for client in (curlhttp.Client, curlhttp.AsyncClient):
        with pytest.raises(TypeError, match=r"fallback must be a function of .* not str"):
            client(fallback="cached")  # type: ignore[arg-type]


def test_respond_takes_one_kind_of_body() -> None:
    request = curlhttp.Client().build_request("GET", "http://a/")
    with pytest.raises(TypeError, match="either content or json"):
        request.respond(content=b"a", json=1)
    response = request.respond(202, content="é", headers={"X-A": "b"})
    assert (response.status_code, response.text, response.headers["X-A"]) == (202, "é", "b")
    assert (
        request.respond(json={"a": 1}, headers={"Content-Type": "x/y"}).headers["content-type"]
        == "x/y"
    )
    assert response.request is request


async def test_answers_of_scripts_keep_their_headers(scripted: Scripted) -> None:
    """A fallback may look at the response that it replaces."""
    client, _ = scripted(
        [Answer(429, headers={"Retry-After": "9"})],
        fallback=lambda request, outcome: request.respond(content=outcome.headers["Retry-After"]),
    )
    assert (await client.get("http://a/")).text == "9"


async def test_the_deadline_is_a_failure(make_client: Any, app: AppServer) -> None:
    seen = []

    def note(request: Any, outcome: Any) -> Any:
        seen.append(type(outcome))

    client = make_client(fallback=note)
    with pytest.raises(DeadlineExceeded):
        await client.get(app.url + "/stall", timeout=Timeout(total=0.05))
    assert seen == [DeadlineExceeded]


async def test_requests_of_an_auth_have_none(make_client: Any, app: AppServer) -> None:
    """The user's response is no token, and its function is not for the request with the secret."""
    seen: list[str] = []

    def note(request: Any, outcome: Any) -> Any:
        seen.append(request.url.path)
        return request.respond(json={"users": []})

    auth = OAuth2ClientCredentials(app.url + "/status/503", "id", "secret")
    client = make_client(fallback=note, auth=auth)
    with pytest.raises(OAuth2Error, match="the token server answered 503"):
        await client.get(app.url + "/bytes/3")
    assert seen == []
    auth = OAuth2ClientCredentials(app.url + "/token", "id", "secret")
    app.route(
        "/token",
        lambda record, conn: conn.reply(200, b'{"access_token": "t", "token_type": "bearer"}'),
    )
    client = make_client(fallback=note, auth=auth)
    assert (await client.get(app.url + "/bytes/3")).content != b""
    assert (await client.get(app.url + "/status/503")).json() == {"users": []}
    assert seen == ["/status/503"]


@pytest.mark.parametrize(
    ("status_code", "options", "error"),
    [
        (99, {}, ValueError),
        (1000, {}, ValueError),
        ("200", {}, TypeError),
        (True, {}, TypeError),
        (200, {"content": 5}, TypeError),
        (200, {"headers": {"X-A": "b\r\nX-B: c"}}, InvalidHeader),
    ],
)
def test_respond_refuses_what_is_no_response(
    status_code: Any, options: Any, error: type[Exception]
) -> None:
    request = curlhttp.Client().build_request("GET", "http://a/")
    with pytest.raises(error):
        request.respond(status_code, **options)
