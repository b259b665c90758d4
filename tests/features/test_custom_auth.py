"""Flows of a custom Auth: what they may yield, where it is sent, and how they end."""

from __future__ import annotations

import json
import pickle
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

import curlhttp
from curlhttp import BasicAuth, RetryPolicy
from curlhttp.testing import Answer, ScriptedEngine, reset
from curlhttp.types import AsyncAuthFlow
from tests.servers import AppServer, RawConnection, RawServer
from tests.servers.unreachable import refused_port
from tests.servers.websocket import accept, echo
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch
from tests.support.scripted import URL, Scripted, moved

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
TOKEN_URL = "http://id.test/token"


class Token(curlhttp.Auth):
    """Ask for a token for each request."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.options = options

    def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
        response = yield curlhttp.requests.Request("POST", self.url, **self.options)
        request.headers["Authorization"] = f"Bearer {response.json()['hello']}"
        yield request


def serve_token(app: AppServer) -> str:
    """Return the URL of a token, on another origin than app.url."""
    app.route("/token", lambda record, out: out.reply(200, b'{"hello": "world"}'))
    return app.at("localhost") + "/token"


@EVERY_CLIENT_API
async def test_a_flow_may_send_its_own_request_with_every_api(fetch: Fetch, app: AppServer) -> None:
    url = serve_token(app)
    found = await fetch(app.url + "/bearer?token=world", auth=Token(url, data={"grant": "x"}))
    assert found.status_code == 200
    assert [record.method for record in app.requests] == ["POST", "GET"]
    assert app.requests[0].body == b"grant=x"
    assert app.requests[0].header("content-type") == "application/x-www-form-urlencoded"
    assert found.history == []


@WITHOUT_UVLOOP
async def test_a_flow_may_send_its_own_request_for_events(
    client: AnyClient, app: AppServer
) -> None:
    def events(record: Any, out: Any) -> None:
        good = record.header("authorization") == "Bearer world"
        out.reply(200 if good else 401, b"data: 1\n\n", [("Content-Type", "text/event-stream")])

    app.route("/events", events)
    async with client.sse(app.url + "/events", auth=Token(serve_token(app))) as stream:
        async for event in stream:
            assert event.data == "1"
            break


@WITHOUT_UVLOOP
async def test_a_flow_may_send_its_own_request_for_a_websocket(
    client: AnyClient, app: AppServer
) -> None:
    heads: list[bytes] = []

    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        heads.append(head)
        conn.send(accept(head))
        echo(conn)

    with RawServer(handler) as server:
        url = f"ws://127.0.0.1:{server.port}/"
        async with await client.websocket(url, auth=Token(serve_token(app))) as socket:
            await socket.send("a")
            assert await socket.recv() == "a"
    assert b"authorization: bearer world\r\n" in heads[0].lower()
    assert [record.path for record in app.requests] == ["/token"]


# --- where credentials go ---


@ONE_OF_EACH
@pytest.mark.parametrize("derives", (False, True))
async def test_nothing_secret_of_the_request_reaches_another_origin(
    scripted: Scripted, derives: bool
) -> None:
    class Elsewhere(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            request.headers["Authorization"] = "Bearer old"
            if derives:
                yield request.derive(url=TOKEN_URL)
            else:
                yield curlhttp.requests.Request("GET", TOKEN_URL, headers={"X-Mine": "1"})
            yield request

    client, engine = scripted(
        [200, 200],
        headers={"X-Api-Key": "k3y", "X-Login": "l0gin", "Cookie": "a=1"},
        sensitive_headers=["X-Login"],
        auth=Elsewhere(),
    )
    await client.get(URL, headers={"X-Secret": "s"}, cookies={"crumb": "c"})
    first, second = engine.sent
    assert first.url == TOKEN_URL
    for name in ("Authorization", "X-Api-Key", "X-Login", "X-Secret", "Cookie"):
        assert name not in first.headers
        assert name in second.headers
    assert first.headers["User-Agent"] == second.headers["User-Agent"]


@ONE_OF_EACH
async def test_no_form_of_a_flow_is_in_the_pickle_of_an_error(scripted: Scripted) -> None:
    class Login(curlhttp.Auth):
        def auth_flow(self, request: Any) -> Any:
            yield curlhttp.requests.Request("POST", "http://id.test/login", data={"pin": "s3cret"})
            yield request

    client, engine = scripted([reset()])
    with pytest.raises(curlhttp.ConnectionError) as caught:
        await client.get(URL, auth=Login())
    assert engine.sent[0].form == {"pin": "s3cret"}
    assert caught.value.request is not None
    assert str(caught.value.request.url) == "http://id.test/login"
    assert b"s3cret" not in pickle.dumps(caught.value)


@ONE_OF_EACH
async def test_headers_set_by_a_flow_are_sent_where_it_sends_them(scripted: Scripted) -> None:
    class Same(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            yield curlhttp.requests.Request("GET", TOKEN_URL, headers=dict(request.headers))
            yield request.derive(url=TOKEN_URL, headers={"Authorization": "Basic other"})
            yield request

    client, engine = scripted([200, 200, 200], auth=Same())
    await client.get(URL, headers={"Authorization": "Basic mine"})
    assert [sent.headers.get("Authorization") for sent in engine.sent] == [
        "Basic mine",
        "Basic other",
        "Basic mine",
    ]


@ONE_OF_EACH
async def test_a_clients_headers_are_sent_to_its_own_origin_unless_a_redirect_removed_them(
    scripted: Scripted,
) -> None:
    class Fetch(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            yield curlhttp.requests.Request("POST", str(request.url.join("/token")))
            yield request

    client, engine = scripted([200, moved("http://b.test/x"), 200], headers={"X-Api-Key": "k"})
    await client.get("http://a.test/", auth=Fetch())
    assert [sent.url for sent in engine.sent] == [
        "http://a.test/token",
        "http://a.test/",
        "http://b.test/x",
    ]
    assert engine.sent[0].headers["X-Api-Key"] == "k"


@ONE_OF_EACH
async def test_an_auth_is_not_applied_to_its_own_requests(scripted: Scripted) -> None:
    made: list[str] = []

    class Inner(curlhttp.Auth):
        outer: curlhttp.Auth

        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            made.append(f"inner {request.url.path}")
            yield curlhttp.requests.Request("GET", TOKEN_URL, auth=self.outer)
            yield request

    class Outer(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            made.append(f"outer {request.url.path}")
            yield curlhttp.requests.Request("POST", "http://id.test/inner", auth=inner)
            yield request.derive(method="POST", url="http://h.test/own")
            yield request

    inner = Inner()
    inner.outer = outer = Outer()
    client, engine = scripted(lambda request: 200, auth=outer)
    await client.get(URL)
    assert made == ["outer /", "inner /inner"]
    assert [sent.url for sent in engine.sent] == [
        TOKEN_URL,
        "http://id.test/inner",
        "http://h.test/own",
        URL,
    ]


@ONE_OF_EACH
@pytest.mark.parametrize("how", ("auth", "userinfo"))
@pytest.mark.parametrize("kind", (curlhttp.ClientRequest, curlhttp.requests.Request))
async def test_a_request_of_a_flow_may_have_its_own_credentials(
    scripted: Scripted, how: str, kind: type[curlhttp.ClientRequest | curlhttp.requests.Request]
) -> None:
    asked = (
        kind("POST", TOKEN_URL, auth=("id", "secret"))
        if how == "auth"
        else kind("POST", "http://id:secret@id.test/token")
    )

    class Fetch(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            yield asked
            yield request

    client, engine = scripted([200, 200], auth=("client", "c"))
    await client.get(URL, auth=Fetch())
    assert [sent.headers.get("Authorization") for sent in engine.sent] == [
        "Basic aWQ6c2VjcmV0",
        None,
    ]


@ONE_OF_EACH
async def test_requests_of_a_flow_go_through_retries_and_middleware(scripted: Scripted) -> None:
    seen: list[str] = []

    async def watch(request: curlhttp.ClientRequest, send: curlhttp.types.Send) -> Any:
        seen.append(request.url.host)
        return await send(request)

    policy = RetryPolicy(1, retry_non_idempotent=True)
    client, engine = scripted(
        [503, Answer(200, content=b'{"hello": "x"}'), 200], retry=policy, middleware=[watch]
    )
    await client.get(URL, auth=Token(TOKEN_URL))
    assert seen == ["id.test", "h.test"]
    assert [sent.url for sent in engine.sent] == [TOKEN_URL, TOKEN_URL, URL]


@ONE_OF_EACH
async def test_the_total_covers_requests_of_a_flow(scripted: Scripted) -> None:
    client, engine = scripted([Answer(200, delay=5.0), 200])
    with pytest.raises(curlhttp.DeadlineExceeded):
        await client.get(URL, auth=Token(TOKEN_URL), timeout=curlhttp.Timeout(total=3.0))
    assert len(engine.sent) == 1


@ONE_OF_EACH
async def test_requests_of_a_flow_are_not_redirected(scripted: Scripted) -> None:
    statuses = []

    class Fetch(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            statuses.append((yield curlhttp.requests.Request("POST", TOKEN_URL)).status_code)
            yield request

    client, engine = scripted([moved("http://evil.test/"), 200])
    await client.get(URL, auth=Fetch())
    assert statuses == [302]
    assert [sent.url for sent in engine.sent] == [TOKEN_URL, URL]


# --- wrong flows ---


class Nothing(curlhttp.Auth):
    def auth_flow(self, request: curlhttp.ClientRequest) -> Any:
        return
        yield


class Number(curlhttp.Auth):
    def auth_flow(self, request: curlhttp.ClientRequest) -> Any:
        yield 1


class NoGenerator(curlhttp.Auth):
    def auth_flow(self, request: curlhttp.ClientRequest) -> Any:
        return request


class Without(curlhttp.Auth):
    pass


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("auth", "message"),
    [
        (Nothing(), "Nothing.auth_flow must yield a request, but yielded nothing"),
        (Number(), "Number.auth_flow must yield requests, not int"),
        (NoGenerator(), "NoGenerator.auth_flow must be a generator"),
        (Without(), "Without has no (sync|async)_auth_flow and no auth_flow"),
    ],
)
async def test_a_wrong_flow_is_named(scripted: Scripted, auth: Any, message: str) -> None:
    client, engine = scripted([])
    with pytest.raises(TypeError, match=message):
        await client.get(URL, auth=auth)
    assert engine.sent == []


@ONE_OF_EACH
async def test_a_request_with_hooks_is_refused(scripted: Scripted) -> None:
    client, _ = scripted([])
    with pytest.raises(ValueError, match="hooks"):
        await client.get(URL, auth=Token(TOKEN_URL, hooks={"response": [print]}))


@ONE_OF_EACH
async def test_an_error_in_a_flow_shows_the_line_that_raised_it(scripted: Scripted) -> None:
    client, _ = scripted([Answer(200, content=b"no json")])
    with pytest.raises(curlhttp.JSONDecodeError) as caught:
        await client.get(URL, auth=Token(TOKEN_URL))
    assert "response.json()['hello']" in "".join(traceback.format_exception(caught.value))
    assert caught.value.response is not None
    assert caught.value.response.url == TOKEN_URL


# --- the end of a flow ---


class Watched(curlhttp.Auth):
    """Note how the flow ends."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
        try:
            yield request
            self.ended.append("sent")
        except GeneratorExit:
            self.ended.append("closed")
            raise


class WatchedInTwo(Watched):
    async def async_auth_flow(self, request: curlhttp.ClientRequest) -> AsyncAuthFlow:
        try:
            yield request
            self.ended.append("sent")
        except GeneratorExit:
            self.ended.append("closed")
            raise


@pytest.mark.parametrize("kind", (Watched, WatchedInTwo))
async def test_a_flow_is_closed_when_its_request_fails(
    scripted: Scripted, kind: type[Watched]
) -> None:
    client, _ = scripted([curlhttp.ConnectionError("broken"), 200])
    auth = kind()
    with pytest.raises(curlhttp.ConnectionError) as caught:
        await client.get(URL, auth=auth)
    assert auth.ended == ["closed"]  # now, while the error is held
    del caught
    await client.get(URL, auth=auth)
    assert auth.ended == ["closed", "sent"]


@pytest.mark.parametrize("colour", ("asyncio", "uvloop", "trio"), indirect=True)
@pytest.mark.parametrize("kind", (Watched, WatchedInTwo))
async def test_a_flow_is_closed_when_its_request_is_cancelled(
    client: AnyClient, app: AppServer, kind: type[Watched]
) -> None:
    auth = kind()
    release = threading.Event()

    def hold(record: Any, out: Any) -> None:
        release.wait(30)
        out.reply(200)

    app.route("/held", hold)

    async def hurry() -> None:
        await client.get(app.url + "/held", auth=auth)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hurry)
        with anyio.fail_after(30):
            while not app.requests:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    release.set()
    assert auth.ended == ["closed"]


# --- bodies ---


class Signed(curlhttp.Auth):
    """Sign the body, and look into that of the response."""

    requires_request_body = True
    requires_response_body = True

    def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
        request.headers["X-Length"] = str(len(request.content))
        response = yield request
        request.headers["X-Answer"] = str(len(response.content))
        yield request


@WITHOUT_UVLOOP
@pytest.mark.parametrize("stream", (False, True))
async def test_a_flow_has_the_bodies_that_it_requires(
    client: AnyClient, app: AppServer, stream: bool
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        yield b"de"

    async def async_pieces() -> AsyncIterator[bytes]:
        yield b"abc"
        yield b"de"

    app.route("/five", lambda record, out: out.reply(200, b"seven77"))
    found = await client.request(
        "POST",
        app.url + "/five",
        content=pieces() if client.is_blocking else async_pieces(),
        auth=Signed(),
        stream=stream,
    )
    body = found.read() if client.is_blocking else await found.aread()
    assert body == b"seven77"
    first, second = app.requests
    assert (first.header("x-length"), first.body) == ("5", b"abcde")
    assert (second.header("x-answer"), second.body) == ("7", b"abcde")


@ONE_OF_EACH
async def test_a_streamed_body_is_read_only_on_request(scripted: Scripted) -> None:
    class Careless(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            request.headers["X-Length"] = str(len(request.content))
            yield request

    client, _ = scripted([])
    with pytest.raises(RuntimeError, match="requires_request_body"):
        await client.post(URL, content=iter([b"a"]), auth=Careless())


# --- two generators ---


async def test_each_client_has_its_own_generator(scripted: Scripted) -> None:
    class InTwo(curlhttp.Auth):
        def sync_auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            request.headers["X-Flow"] = "sync"
            yield request

        async def async_auth_flow(self, request: curlhttp.ClientRequest) -> AsyncAuthFlow:
            await anyio.sleep(0)
            response = yield curlhttp.requests.Request("GET", TOKEN_URL)
            request.headers["X-Flow"] = f"async {response.status_code}"
            yield request

    client, engine = scripted(lambda request: 200, auth=InTwo())
    await client.get(URL)
    expected = "sync" if client.is_blocking else "async 200"
    assert engine.sent[-1].headers["X-Flow"] == expected


@ONE_OF_EACH
async def test_a_flow_for_the_other_client_is_refused(scripted: Scripted) -> None:
    class Sync(curlhttp.Auth):
        def sync_auth_flow(self, request: Any) -> Any:
            yield request

    class Async(curlhttp.Auth):
        async def async_auth_flow(self, request: Any) -> Any:
            yield request

    client, engine = scripted([200])
    good, bad = (Sync(), Async()) if client.is_blocking else (Async(), Sync())
    needed = "AsyncClient" if client.is_blocking else "Client"
    with pytest.raises(TypeError, match=f"needs {needed}"):
        await client.get(URL, auth=bad)
    await client.get(URL, auth=good)
    assert len(engine.sent) == 1


# --- what was written for httpx ---


class OfHttpx(httpx.Auth):
    requires_response_body = True

    def auth_flow(self, request: Any) -> Any:
        response = yield httpx.Request("POST", TOKEN_URL, json={"a": 1}, headers={"X-A": "1"})
        request.headers["Authorization"] = f"Bearer {response.json()['hello']} {request.method}"
        yield request


class Duck:
    def auth_flow(self, request: Any) -> Any:
        request.headers["Authorization"] = "Bearer duck"
        yield request


@ONE_OF_EACH
async def test_an_auth_of_httpx_works(scripted: Scripted) -> None:
    client, engine = scripted([Answer(200, content=b'{"hello": "world"}'), 200])
    await client.get(URL, auth=OfHttpx())
    first, second = engine.sent
    assert (first.method, json.loads(first.body), first.headers["X-A"]) == (
        "POST",
        {"a": 1},
        "1",
    )
    assert "Host" not in first.headers
    assert second.headers["Authorization"] == "Bearer world GET"


@ONE_OF_EACH
async def test_an_auth_class_of_httpx_works(scripted: Scripted) -> None:
    client, engine = scripted([200])
    await client.get(URL, auth=httpx.BasicAuth("u", "p"))
    assert engine.sent[0].headers["Authorization"] == "Basic dTpw"


@ONE_OF_EACH
async def test_a_class_with_an_auth_flow_is_an_auth(scripted: Scripted) -> None:
    client, engine = scripted([200, 200], auth=Duck())
    await client.get(URL)
    await client.get(URL, auth=BasicAuth("u", "p"))
    assert [sent.headers["Authorization"] for sent in engine.sent] == ["Bearer duck", "Basic dTpw"]


@ONE_OF_EACH
async def test_a_derived_request_of_a_stream_has_its_body(
    make_client: MakeClient,
) -> None:
    class Fetch(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            response = yield request.derive(url=TOKEN_URL, method="POST")
            request.headers["X-Token"] = response.text
            yield request

    engine = ScriptedEngine([Answer(200, content=b"t0ken"), Answer(200, content=b"body")])
    client = make_client(transport=engine)
    async with await client.stream("GET", URL, auth=Fetch()) as streamed:
        assert await streamed.read() == b"body"
    assert engine.sent[1].headers["X-Token"] == "t0ken"


# --- a flow whose last request is its own ---


def fresh(url: str) -> Any:
    return curlhttp.ClientRequest("GET", url, {"X-Mine": "1"})


def of_httpx(url: str) -> Any:
    return httpx.Request("GET", url, headers={"X-Mine": "1"})


class Elsewhere(curlhttp.Auth):
    """Fetch a token, and then send a request of its own instead of the caller's."""

    def __init__(self, token_url: str, url: str, make: Callable[[str], Any] = fresh) -> None:
        self.token_url = token_url
        self.url = url
        self.make = make
        self.statuses: list[int] = []

    def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
        response = yield curlhttp.ClientRequest("POST", self.token_url)
        last = request.derive(url=self.url) if self.make is derived else self.make(self.url)
        last.headers["X-Token"] = response.json()["hello"]
        self.statuses.append((yield last).status_code)


def derived(url: str) -> Any:
    """Let Elsewhere derive its request."""


class ElsewhereInTwo(Elsewhere):
    """The same as an async generator."""

    async def async_auth_flow(self, request: curlhttp.ClientRequest) -> AsyncAuthFlow:
        response = yield curlhttp.ClientRequest("POST", self.token_url)
        aread = getattr(response, "aread", None)
        if aread is not None:
            await aread()
        last = request.derive(url=self.url) if self.make is derived else self.make(self.url)
        last.headers["X-Token"] = response.json()["hello"]
        self.statuses.append((yield last).status_code)


def serve_slowly(go_on: threading.Event, head: bytes, chunked_token: bool = False) -> Any:
    """Return the handler of a server that sends a token, and a stream whose end waits."""

    def handler(conn: RawConnection) -> None:
        while True:
            request, _ = conn.read_request()
            if not request:
                return
            if b" /token " in request:
                body = b'{"hello": "t0ken"}'
                if chunked_token:
                    conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    conn.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
                else:
                    conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n" + body)
                continue
            assert b"x-token: t0ken\r\n" in request.lower()
            conn.send(head)
            if not go_on.wait(30):
                return  # nobody reads the first event before the second
            conn.send(b"data: 2\n\n")

    return handler


FLOWS = pytest.mark.parametrize("kind", (Elsewhere, ElsewhereInTwo))
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 18\r\n\r\ndata: 1\n\n"
)


@FLOWS
@pytest.mark.parametrize("make", (fresh, of_httpx, derived))
@pytest.mark.parametrize("api", ("stream", "sse"))
async def test_the_last_request_of_a_flow_is_streamed(
    client: AnyClient, kind: type[Elsewhere], make: Any, api: str
) -> None:
    go_on = threading.Event()
    with RawServer(serve_slowly(go_on, HEAD, chunked_token=True)) as server:
        auth = kind(server.url + "/token", f"http://localhost:{server.port}/events", make)
        found = []
        if api == "sse":
            async with client.sse(server.url, auth=auth, reconnect=False) as events:
                async for event in events:
                    found.append(event.data)
                    go_on.set()
        else:
            async with await client.stream("GET", server.url, auth=auth) as stream:
                async for event in stream.iterate("events"):
                    found.append(event.data)
                    go_on.set()
                assert stream.real.history == []
                assert stream.real.request.headers["X-Token"] == "t0ken"
    assert found == ["1", "2"]
    assert auth.statuses == [200]


@FLOWS
@EVERY_CLIENT_API
async def test_with_every_api_a_flow_may_end_with_its_own_request(
    fetch: Fetch, app: AppServer, tmp_path: Any, kind: type[Elsewhere], api: str
) -> None:
    app.route("/file", lambda record, out: out.reply(200, b"body of " + record.path.encode()))
    found = await fetch(
        app.url + "/first", auth=kind(serve_token(app), app.at("localhost") + "/file")
    )
    assert [record.path for record in app.requests] == ["/token", "/file"]
    assert app.requests[1].header("x-token") == "world"
    if api.startswith("download"):
        assert (tmp_path / "downloaded").read_bytes() == b"body of /file"
    else:
        assert found.content == b"body of /file"


@WITHOUT_UVLOOP
@pytest.mark.parametrize("reads", (False, True))
async def test_a_flow_may_read_its_last_response_too(
    client: AnyClient, app: AppServer, reads: bool
) -> None:
    bodies: list[bytes] = []

    class Reads(curlhttp.Auth):
        requires_response_body = reads

        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            response = yield curlhttp.ClientRequest("GET", app.at("localhost") + "/file")
            bodies.append(response.content)
            bodies.append(response.content)

    app.route("/file", lambda record, out: out.reply(200, b"body"))
    async with await client.stream("GET", app.url, auth=Reads()) as stream:
        assert [piece async for piece in stream.iterate("bytes")] == [b"body"]
    assert bodies == [b"body", b"body"]


@WITHOUT_UVLOOP
async def test_earlier_bodies_can_be_read_later(client: AnyClient, app: AppServer) -> None:
    class Late(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            first = yield curlhttp.ClientRequest("GET", app.at("localhost") + "/file")
            second = yield curlhttp.ClientRequest("GET", app.at("localhost") + "/file")
            request.headers["X-Both"] = (first.content + second.content).decode()
            yield request

    app.route("/file", lambda record, out: out.reply(200, b"body"))
    async with await client.stream("GET", app.url + "/echo", auth=Late()) as stream:
        await stream.read()
    assert app.requests[-1].header("x-both") == "bodybody"


@WITHOUT_UVLOOP
async def test_a_broken_body_is_an_error_in_the_flow_that_reads_it(client: AnyClient) -> None:
    caught: list[Exception] = []

    class Reads(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            response = yield curlhttp.ClientRequest("GET", server.url)
            try:
                response.json()
            except curlhttp.ChunkedEncodingError as error:
                caught.append(error)
                raise

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    with RawServer(handler) as server:
        with pytest.raises(curlhttp.ChunkedEncodingError) as raised:
            await client.stream("GET", server.url, auth=Reads())
    assert caught == [raised.value]


async def test_an_async_flow_awaits_the_body_of_its_last_response(
    scripted: Scripted, colour: str
) -> None:
    if colour == "blocking":
        return

    class Careless(curlhttp.Auth):
        async def async_auth_flow(self, request: curlhttp.ClientRequest) -> AsyncAuthFlow:
            response = yield curlhttp.ClientRequest("GET", TOKEN_URL)
            response.json()

    client, engine = scripted([Answer(200, content=b"{}")])
    with pytest.raises(RuntimeError, match="requires_response_body"):
        await client.stream("GET", URL, auth=Careless())
    assert engine.aborted == 1


@WITHOUT_UVLOOP
@pytest.mark.parametrize("stream", (False, True))
async def test_the_redirect_of_a_last_request_starts_from_that_request(
    client: AnyClient, app: AppServer, stream: bool
) -> None:
    class Post(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            url = app.at("localhost") + "/deep/first"
            yield curlhttp.ClientRequest("POST", url, {"X-Mine": "1"}, content=b"mine")

    app.route("/deep/first", lambda record, out: out.reply(307, b"moved", [("Location", "second")]))
    app.route("/deep/second", lambda record, out: out.reply(200, b"body"))
    headers = {"X-Secret": "s"}
    found = await client.request("GET", app.url, auth=Post(), headers=headers, stream=stream)
    body = (
        (found.read() if client.is_blocking else await found.aread()) if stream else found.content
    )
    assert body == b"body"
    first, second = app.requests
    assert (second.method, second.path, second.body) == ("POST", "/deep/second", b"mine")
    assert second.header("host") == first.header("host")
    assert (second.header("x-mine"), second.header("x-secret")) == ("1", None)
    assert [response.status_code for response in found.history] == [307]
    assert found.history[0].content == b"moved"


@WITHOUT_UVLOOP
@FLOWS
@pytest.mark.parametrize("stream", [False, True])
@WITHOUT_UVLOOP
async def test_a_fallback_replaces_the_failure_of_a_last_request(
    make_client: Any, app: AppServer, kind: type[Elsewhere], stream: bool
) -> None:
    seen: list[Any] = []

    def fallback(request: Any, outcome: Any) -> Any:
        seen.append((str(request.url), getattr(outcome, "status_code", type(outcome).__name__)))
        return request.respond(203, content=b"instead")

    client, other = make_client(fallback=fallback), app.at("localhost")
    with refused_port() as port:
        for url, outcome in (
            (other + "/status/503", 503),
            (f"http://localhost:{port}/", "ConnectionError"),
            (other + "/status/404", None),
        ):
            auth = kind(serve_token(app), url)
            asked = app.url + "/first"
            if stream:
                async with await client.stream("GET", asked, auth=auth) as streamed:
                    await streamed.read()
                    response = streamed.real
            else:
                response = await client.get(asked, auth=auth)
            assert response.status_code == (203 if outcome else 404)
            assert response.is_fallback == bool(outcome)
            if outcome:
                assert response.content == b"instead"
                assert seen.pop() == (app.url + "/first", outcome)
    assert not seen
    # What is no last request has none.
    assert (await client.get(app.url, auth=Optional(app.url + "/status/503"))).status_code == 200
    assert not seen


class Optional(curlhttp.Auth):
    """Ask for something that may be missing, and then send the request."""

    def __init__(self, url: str) -> None:
        self.url = url

    def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
        yield curlhttp.ClientRequest("GET", self.url)
        yield request


async def test_a_last_request_is_retried_and_answers_a_401(
    make_client: MakeClient, app: AppServer
) -> None:
    class Again(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            url = app.at("localhost") + "/file"
            response = yield curlhttp.ClientRequest("GET", url)
            if response.status_code == 401:
                yield curlhttp.ClientRequest("GET", url, {"X-Answer": "yes"})

    def serve(record: Any, out: Any) -> None:
        statuses = {1: 503, 2: 401}
        out.reply(statuses.get(len(app.requests), 200), b"body")

    app.route("/file", serve)
    client = make_client(retry=1)
    async with await client.stream("GET", app.url, auth=Again()) as stream:
        assert await stream.read() == b"body"
    assert [record.header("x-answer") for record in app.requests] == [None, None, "yes"]


@ONE_OF_EACH
async def test_the_size_of_a_last_response_is_limited(scripted: Scripted) -> None:
    class Own(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            yield curlhttp.ClientRequest("GET", TOKEN_URL)

    client, _ = scripted([Answer(200, content=[b"x" * 10] * 5)], max_response_size=20)
    with pytest.raises(curlhttp.ResponseTooLarge):
        async with await client.stream("GET", URL, auth=Own()) as stream:
            await stream.read()


@pytest.mark.parametrize("colour", ("asyncio", "uvloop", "trio"), indirect=True)
async def test_a_cancellation_ends_a_flow_that_waits_for_a_body(client: AnyClient) -> None:
    ended = threading.Event()
    asked = threading.Event()

    class Reads(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            try:
                response = yield curlhttp.ClientRequest("GET", server.url)
                asked.set()
                response.json()
            finally:
                ended.set()

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        conn.stall()

    async def send() -> None:
        await client.stream("GET", server.url, auth=Reads())

    with RawServer(handler) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            assert await anyio.to_thread.run_sync(asked.wait, 30)
            tasks.cancel_scope.cancel()
    assert ended.is_set()


@WITHOUT_UVLOOP
async def test_a_flow_may_open_a_websocket_elsewhere(client: AnyClient, app: AppServer) -> None:
    class Moves(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            response = yield curlhttp.ClientRequest("POST", serve_token(app))
            last = request.derive(url=f"http://localhost:{server.port}/elsewhere")
            last.headers["X-Token"] = response.json()["hello"]
            yield last

    heads: list[bytes] = []

    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        heads.append(head)
        conn.send(accept(head))
        echo(conn)

    with RawServer(handler) as server:
        async with await client.websocket(app.url.replace("http", "ws"), auth=Moves()) as socket:
            await socket.send("a")
            assert await socket.recv() == "a"
    assert heads[0].startswith(b"GET /elsewhere ")
    assert b"x-token: world\r\n" in heads[0].lower()
