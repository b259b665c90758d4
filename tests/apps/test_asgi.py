"""ASGITransport: an ASGI app instead of the network, on asyncio, uvloop and trio."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import gzip
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ASGITransport, AsyncClient, Timeout
from curlhttp import exceptions as e
from tests.support.pace import PACE
from tests.support.values import slow_but_for

pytestmark = [pytest.mark.anyio, pytest.mark.colours("asyncio", "uvloop", "trio")]
URL = "http://app.test"
SOON = 0.05 * PACE
_START = {"type": "http.response.start", "status": 200}


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """Respond to every request in the same way, without a lifespan."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"b")]})
    await send({"type": "http.response.body", "body": b"hello"})


def answering(*bodies: bytes, status: int = 200, headers: Any = ()) -> Any:
    """Return an app that sends pieces of a body."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})

    return app


@pytest.fixture
def make(colour: str, anyio_backend: Any) -> Callable[..., AsyncClient]:
    """Return a function that makes a client of an app."""

    def client(app: Any, settings: Any = None, **options: Any) -> AsyncClient:
        options.setdefault("lifespan", False)
        return AsyncClient(transport=ASGITransport(app, **options), **(settings or {}))

    return client


Make = Callable[..., AsyncClient]


async def test_the_app_responds_to_a_request(make: Make) -> None:
    async with make(hello) as client:
        found = await client.get(URL)
    assert (found.status_code, found.reason_phrase, found.content) == (200, "OK", b"hello")
    assert found.headers["x-a"] == "b"
    assert found.timings.total >= found.timings.first_byte > 0


async def test_the_scope_describes_the_request_exactly(make: Make) -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        await hello(scope, receive, send)

    async with make(app, client=("10.1.2.3", 4), root_path="/mount") as client:
        await client.post(
            "https://user:pw@Api.test:8443/a%2Fb/%C3%A9?q=a%20b&q=%2B#part",
            headers=[("X-Latin", b"caf\xe9"), ("Host", "other.test")],
            content=b"abc",
        )
    fields = seen.pop("headers")
    assert (b"x-latin", b"caf\xe9") in fields
    assert (b"host", b"other.test") in fields
    assert (b"content-length", b"3") in fields
    assert all(name == name.lower() for name, _ in fields)
    assert len([name for name, _ in fields if name == b"host"]) == 1
    assert seen == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": "/a/b/é",
        "raw_path": b"/a%2Fb/%C3%A9",
        "query_string": b"q=a%20b&q=%2B",
        "root_path": "/mount",
        "client": ("10.1.2.3", 4),
        "server": ("api.test", 8443),
        "extensions": {},
    }


async def test_layers_above_the_network_work_as_usual(make: Make) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        fields = dict(scope["headers"])
        seen.append((scope["path"], fields.get(b"cookie"), fields.get(b"authorization")))
        if scope["path"] == "/login":
            headers = [(b"location", b"/home"), (b"set-cookie", b"id=7")]
            await answering(status=302, headers=headers)(scope, receive, send)
        elif len(seen) == 2:
            await answering(status=503, headers=[(b"retry-after", b"0")])(scope, receive, send)
        else:
            body = gzip.compress(b"home" * 99)
            headers = [(b"content-encoding", b"gzip")]
            await answering(body[:9], body[9:], headers=headers)(scope, receive, send)

    hooked: list[int] = []
    settings = {
        "base_url": URL,
        "auth": ("a", "b"),
        "retry": curlhttp.RetryPolicy(max_retries=1),
        "hooks": {"response": lambda response: hooked.append(response.status_code)},
    }
    async with make(app, settings) as client:
        found = await client.get("/login")
        assert found.text == "home" * 99
        results = [each async for each in client.map(["/x"] * 5)]
        async with client.stream("GET", "/x") as response:
            assert await response.aread() == b"home" * 99
    assert [getattr(each, "status_code", each) for each in results] == [200] * 5
    assert [path for path, *_ in seen[:3]] == ["/login", "/home", "/home"]
    assert seen[2][1] == b"id=7"
    assert str(seen[2][2]).startswith("b'Basic ")
    assert hooked


async def test_the_limit_of_a_response_counts(make: Make) -> None:
    async with make(answering(b"x" * 10, b"x" * 10), {"max_response_size": 15}) as client:
        with pytest.raises(e.ResponseTooLarge):
            await client.get(URL)
        async with client.stream("GET", URL) as response:
            with pytest.raises(e.ResponseTooLarge):
                await response.aread()
    bomb = answering(gzip.compress(b"\0" * 10**6), headers=[(b"content-encoding", b"gzip")])
    async with make(bomb, {"max_response_size": 10_000}) as client:
        with pytest.raises(e.ResponseTooLarge):
            await client.get(URL)


# --- bodies ---


async def test_a_request_body_is_read_as_the_app_receives_it(make: Make) -> None:
    given: list[bytes] = []
    seen: list[tuple[bytes, list[bytes]]] = []

    async def body() -> AsyncIterator[bytes]:
        for piece in (b"one", b"two", b"three"):
            given.append(piece)
            yield piece

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (b"transfer-encoding", b"chunked") in scope["headers"]
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            seen.append((message["body"], given.copy()))
        await hello(scope, receive, send)

    async with make(app) as client:
        await client.post(URL, content=body())
    assert [piece for piece, _ in seen] == [b"one", b"two", b"three", b""]
    assert seen[0][1] == [b"one"]
    assert seen[1][1] == [b"one", b"two"]


async def test_an_app_may_leave_the_body_unread(make: Make) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"never"
        raise AssertionError

    async with make(hello) as client:
        assert (await client.post(URL, content=body())).content == b"hello"
        assert (await client.post(URL, content=iter([b"a", b"b"]))).content == b"hello"


async def test_files_and_forms_arrive_whole(make: Make, tmp_path: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await answering(str(size).encode())(scope, receive, send)

    (tmp_path / "file").write_bytes(b"x" * 300_000)
    async with make(app) as client:
        with (tmp_path / "file").open("rb") as file:
            assert (await client.put(URL, content=file)).text == "300000"
        assert (await client.post(URL, data={"a": "b"})).text == "3"
        assert (await client.get(URL)).text == "0"


async def test_an_exception_of_the_body_is_raised(make: Make) -> None:
    ended: list[Any] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            pass
        ended.append(message)

    async with make(app) as client:
        with pytest.raises(ZeroDivisionError):
            await client.post(URL, content=body())
        await until(lambda: ended)
    assert ended == [{"type": "http.disconnect"}]


async def test_a_stream_yields_chunks_as_the_app_sends_them(make: Make) -> None:
    may_go_on = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await may_go_on.wait()
        await send({"type": "http.response.body", "body": b"two"})

    async with make(app) as client, client.stream("GET", URL) as response:
        pieces = response.aiter_bytes()
        assert await pieces.__anext__() == b"one"
        may_go_on.set()
        assert [piece async for piece in pieces] == [b"two"]


async def test_a_slow_reader_slows_the_app(make: Make) -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 16_384, "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})

    async with make(app) as client, client.stream("GET", URL) as response:
        for _ in range(50):
            await anyio.sleep(0)
        assert sent < 10
        assert len(await response.aread()) == 100 * 16_384
    assert sent == 100


@pytest.mark.parametrize("status", [200, 204, 304])
async def test_a_response_without_a_body_gets_none(make: Make, status: int) -> None:
    headers = [(b"content-length", b"5")] if status == 200 else []
    async with make(answering(b"hello", status=status, headers=headers)) as client:
        method = "HEAD" if status == 200 else "GET"
        assert (await client.request(method, URL)).content == b""


# --- disconnects ---


async def until(is_so: Callable[[], Any]) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.001)


async def test_an_app_gets_a_disconnect_when_a_stream_is_closed_early(make: Make) -> None:
    received: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        received.append(await receive())
        with pytest.raises(OSError, match="disconnected"):
            await send({"type": "http.response.body", "body": b"two"})
        received.append("ended")

    async with make(app) as client:
        async with client.stream("GET", URL) as response:
            async for _ in response.aiter_bytes():
                break
        await until(lambda: len(received) == 2)
        dropped = await client.stream("GET", URL)
        del dropped, response
        gc.collect()
        await until(lambda: len(received) == 4)
    assert received == [{"type": "http.disconnect"}, "ended"] * 2


async def test_an_app_gets_a_disconnect_when_the_caller_is_cancelled(make: Make) -> None:
    received: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.append((await receive())["type"])
        received.append((await receive())["type"])

    async with make(app) as client:
        with anyio.move_on_after(SOON):
            await client.get(URL)
        await until(lambda: len(received) == 2)
    assert received == ["http.request", "http.disconnect"]


async def test_no_app_outlives_the_client(make: Make) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await anyio.sleep(3600)
        finally:
            ended.append("app")

    async with make(app) as client:
        response = await client.stream("GET", URL)
        with anyio.move_on_after(SOON):
            await client.get(URL)
        assert ended == []
    assert ended == ["app", "app"]
    with pytest.raises(e.RequestException):
        await response.aread()
    with pytest.raises(e.ClientClosed):
        await client.get(URL)


async def test_a_running_request_gets_a_disconnect_when_the_client_closes(make: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await anyio.sleep(3600)

    caught: list[type[Exception]] = []
    client = make(app)

    async def ask() -> None:
        try:
            await client.get(URL)
        except e.RequestException as error:
            caught.append(type(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.sleep(SOON)
        await client.aclose()
    assert caught == [e.ClientClosed]


# --- time ---


async def test_silence_of_the_app_runs_into_the_read_timeout(make: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/body":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await anyio.sleep(3600)

    async with make(app) as client:
        for path in ("/", "/body"):
            with pytest.raises(e.ReadTimeout) as caught:
                await client.get(URL + path, timeout=Timeout(read=SOON))
            assert caught.value.request is not None
            assert caught.value.request_sent
            with pytest.raises(e.DeadlineExceeded):
                await client.get(URL + path, timeout=Timeout(total=SOON))
        async with client.stream("GET", URL + "/body", timeout=Timeout(read=SOON)) as response:
            with pytest.raises(e.ReadTimeout):
                await response.aread()


async def test_an_app_that_keeps_sending_is_no_read_timeout(make: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        end = time.monotonic() + SOON * 3
        while time.monotonic() < end:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await anyio.sleep(0)  # no timer: whenever the loop runs, this app is due
        await send({"type": "http.response.body", "body": b"end"})

    async with make(app) as client:
        found = await client.get(URL, timeout=Timeout(read=SOON))
        assert found.content.endswith(b"xend")
        async with client.stream("GET", URL, timeout=Timeout(read=SOON)) as response:
            assert (await response.aread()).endswith(b"xend")


@pytest.mark.parametrize("hedge", [None, curlhttp.Hedge(after=3600)])
async def test_a_loop_that_was_late_itself_is_no_silence_of_the_app(make: Make, hedge: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        for _ in range(10):
            await anyio.sleep(0.001)
            time.sleep(0.02)  # of all that this loop runs
            await anyio.sleep(0)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body"})

    async with make(app, {"hedge": hedge}) as client:
        for _ in range(5):
            found = await client.get(URL, timeout=Timeout(read=0.01))
            assert found.content == b"x" * 11


def endlessly(message: dict[str, Any], begin: dict[str, Any] | None = None) -> Any:
    """Return an app that sends one message again and again, and never waits for anything."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if begin is not None:
            await send(begin)
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            await send(message)
        raise AssertionError("nobody ended it")

    return app


ENDLESS = [
    endlessly({"type": "http.response.body", "body": b"", "more_body": True}, _START),
    endlessly({"type": "http.response.body", "body": b"x", "more_body": True}, _START),
    endlessly({"type": "http.response.body", "body": b"x" * 9999, "more_body": True}, _START),
]


@pytest.mark.parametrize("app", slow_but_for(ENDLESS[1:2], ENDLESS))
async def test_an_app_that_sends_without_end_ends_with_the_total(make: Make, app: Any) -> None:
    async with make(app) as client:
        with pytest.raises(e.DeadlineExceeded):
            await client.get(URL, timeout=Timeout(total=SOON))
        with pytest.raises(e.DeadlineExceeded):
            async with client.stream("GET", URL, timeout=Timeout(total=SOON)) as response:
                async for _ in response.aiter_bytes():
                    pass
        with anyio.move_on_after(SOON) as scope:
            await client.get(URL, timeout=None)
        assert scope.cancelled_caught


async def test_an_app_that_receives_for_ever_ends_with_a_timeout(make: Make) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        limit = time.monotonic() + 30
        while time.monotonic() < limit:  # whatever it receives, a disconnect included
            await receive()
        raise AssertionError("nobody ended it")

    async with make(app) as client:
        with pytest.raises(e.DeadlineExceeded):
            await client.post(URL, content=endless(), timeout=Timeout(total=SOON))
        with pytest.raises(e.ReadTimeout):
            await client.get(URL, timeout=Timeout(read=SOON))


async def test_a_lifespan_that_sends_for_ever_can_be_cancelled(make: Make) -> None:
    app = endlessly({"type": "lifespan.startup.complete"})
    with anyio.move_on_after(SOON) as scope:
        async with make(app, lifespan=True):
            await anyio.sleep(3600)
    assert scope.cancelled_caught


async def test_a_slow_app_is_hedged(make: Make) -> None:
    calls: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append(1)
        if len(calls) % 2:
            await receive()
            await receive()
        else:
            await hello(scope, receive, send)

    async with make(app, {"hedge": curlhttp.Hedge(after=SOON)}) as client:
        assert (await client.get(URL)).content == b"hello"
        async with client.stream("GET", URL) as response:
            assert await response.aread() == b"hello"
    assert len(calls) == 4


# --- apps that fail ---


async def raising(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] != "/":
        await send({"type": "http.response.start", "status": 200})
        more = scope["path"] == "/within"
        await send({"type": "http.response.body", "body": b"one", "more_body": more})
    raise ZeroDivisionError("of the app")


async def test_an_exception_of_the_app_is_raised(make: Make) -> None:
    async with make(raising) as client:
        for path in ("/", "/within", "/after"):
            with pytest.raises(ZeroDivisionError, match="of the app"):
                await client.get(URL + path)
            with pytest.raises(ZeroDivisionError, match="of the app"):
                async with client.stream("GET", URL + path) as response:
                    await response.aread()


async def test_an_exception_in_the_app_becomes_a_response_if_configured(make: Make) -> None:
    async with make(raising, raise_app_exceptions=False) as client:
        found = await client.get(URL)
        assert (found.status_code, found.text) == (500, "Internal Server Error")
        with pytest.raises(e.ChunkedEncodingError):
            await client.get(URL + "/within")
        assert (await client.get(URL + "/after")).content == b"one"


_SHORT = {"type": "http.response.body", "body": b"short"}
BROKEN: list[tuple[list[Any], type[Exception], str]] = [
    ([], e.RemoteProtocolError, "ended without a response"),
    ([_START], e.ChunkedEncodingError, "within the"),
    ([_SHORT], RuntimeError, "sent an unexpected"),
    ([{"type": "nonsense"}], RuntimeError, "sent an unexpected"),
    ([{**_START, "status": 99}], ValueError, "status 99"),
    ([{**_START, "headers": [(b"a", b"b\r\nc: d")]}], ValueError, "header"),
    ([{**_START, "headers": [("a", "b")]}], TypeError, "string"),
    ([{**_START, "headers": [(b"content-length", b"9")]}, _SHORT], e.ChunkedEncodingError, "ann"),
]


@pytest.mark.parametrize(("messages", "kind", "said"), BROKEN)
async def test_an_app_that_breaks_the_protocol_is_an_error(
    make: Make, messages: list[Any], kind: type[Exception], said: str
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async with make(app) as client:
        with pytest.raises(kind, match=said):
            await client.get(URL)


# --- lifespan ---


class Spanned:
    """An app that notes when it starts and stops."""

    def __init__(self, *, fails: str = "") -> None:
        self.events: list[str] = []
        self.fails = fails

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            self.events.append(f"request with {scope['state']}")
            scope["state"]["own"] = 1
            await hello(scope, receive, send)
            return
        for phase in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{phase}"
            self.events.append(phase)
            if self.fails == phase:
                await send({"type": f"lifespan.{phase}.failed", "message": "no\nroom left"})
                return
            scope["state"]["pool"] = "it"
            await send({"type": f"lifespan.{phase}.complete"})


async def test_the_lifespan_is_that_of_the_client(make: Make) -> None:
    app = Spanned()
    async with make(app, lifespan=True) as client:
        assert app.events == ["startup"]
        await client.get(URL)
        await client.get(URL)
    assert app.events == ["startup", *["request with {'pool': 'it'}"] * 2, "shutdown"]


async def test_without_with_the_first_request_starts_the_app(make: Make) -> None:
    app = Spanned()
    client = make(app, lifespan=True)
    assert app.events == []
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(client.get, URL)
    await client.aclose()
    await client.aclose()
    assert app.events == ["startup", *["request with {'pool': 'it'}"] * 5, "shutdown"]


async def test_a_client_that_was_never_used_starts_nothing(make: Make) -> None:
    app = Spanned()
    await make(app, lifespan=True).aclose()
    assert app.events == []


async def test_an_app_that_fails_to_start_is_an_error(make: Make) -> None:
    with pytest.raises(RuntimeError, match="the app failed to start: room left"):
        async with make(Spanned(fails="startup"), lifespan=True):
            raise AssertionError
    client = make(Spanned(fails="startup"), lifespan=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the app failed to start: room left"):
            await client.get(URL)
    await client.aclose()


async def test_an_app_that_fails_to_stop_is_an_error(make: Make) -> None:
    with pytest.raises(RuntimeError, match="the app failed to stop: room left"):
        async with make(Spanned(fails="shutdown"), lifespan=True) as client:
            await client.get(URL)


async def test_an_app_without_a_lifespan_works(make: Make) -> None:
    async with make(hello, lifespan=True) as client:
        assert (await client.get(URL)).content == b"hello"


async def test_a_lifespan_is_cancelled_that_does_not_stop(make: Make) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "lifespan.startup.complete"})
        try:
            await anyio.sleep(3600)
        finally:
            ended.append("lifespan")

    client = make(app, lifespan=True)
    with contextlib.suppress(e.RequestException, AssertionError, RuntimeError, ValueError):
        with anyio.move_on_after(SOON):
            async with client:
                await anyio.sleep(0)
    assert ended == ["lifespan"]


async def test_an_app_that_never_starts_can_be_cancelled(make: Make) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await anyio.sleep(3600)
        finally:
            ended.append("lifespan")

    client = make(app, lifespan=True)
    with anyio.move_on_after(SOON):
        await client.get(URL)
    assert ended == []
    await client.aclose()
    assert ended == ["lifespan"]


async def test_a_client_whose_scope_is_cancelled_leaves_no_task(make: Make) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            if scope["type"] == "lifespan":
                await send({"type": "lifespan.startup.complete"})
            await anyio.sleep(3600)
        finally:
            ended.append(scope["type"])

    with anyio.CancelScope() as scope:
        async with make(app, lifespan=True) as client:
            with anyio.move_on_after(SOON):
                await client.get(URL)
            scope.cancel()
    assert sorted(ended) == ["http", "lifespan"]


@pytest.mark.parametrize("kind", [SystemExit, BaseException])
async def test_an_exception_that_ends_programs_reaches_the_caller_and_not_the_loop(
    make: Make, kind: type[BaseException]
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise kind("of the app")

    client = make(app)
    with pytest.raises(kind, match="of the app"):
        await client.get(URL)
    await client.aclose()
    with pytest.raises(RuntimeError, match="failed to start"):
        await make(app, lifespan=True).get(URL)


async def test_a_body_that_fails_to_close_breaks_nothing(make: Make) -> None:
    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            yield b"two"
        finally:
            raise ZeroDivisionError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await hello(scope, receive, send)

    async with make(app) as client:
        assert (await client.post(URL, content=body())).content == b"hello"


# --- loops, tasks and contexts ---


def test_one_client_serves_several_loops(colour: str) -> None:
    app = Spanned()
    client = AsyncClient(transport=ASGITransport(app))

    async def use() -> bytes:
        return (await client.get(URL)).content

    def run() -> None:
        found.append(anyio.run(use, backend="trio" if colour == "trio" else "asyncio"))

    found: list[bytes] = []
    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    asyncio.run(client.aclose())
    assert found == [b"hello"] * 2
    assert app.events.count("startup") == 2


_var = contextvars.ContextVar("_var", default="unset")


async def test_the_app_sees_the_callers_context_and_keeps_its_own(make: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(_var.get())
        _var.set("of the app")
        await hello(scope, receive, send)

    seen: list[str] = []
    async with make(app) as client:
        _var.set("of the caller")
        await client.get(URL)
    assert (seen, _var.get()) == (["of the caller"], "of the caller")


async def test_a_cancellation_at_any_point_leaves_nothing(make: Make) -> None:
    live = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal live
        live += 1
        chance = random.Random(scope["path"])
        try:
            while (message := await receive()).get("more_body"):
                await anyio.sleep(0)
            if chance.random() < 0.1:
                raise ZeroDivisionError(message["type"])
            await send({"type": "http.response.start", "status": 200})
            for _ in range(chance.randrange(9)):
                body = bytes(chance.randrange(30_000))
                await send({"type": "http.response.body", "body": body, "more_body": True})
                await anyio.sleep(chance.random() * SOON / 10)
        finally:
            live -= 1

    async def body(chance: random.Random) -> AsyncIterator[bytes]:
        for _ in range(chance.randrange(5)):
            await anyio.sleep(chance.random() * SOON / 10)
            yield b"some"

    async def ask(number: int) -> None:
        chance = random.Random(number)
        known = (e.RequestException, ZeroDivisionError)
        with contextlib.suppress(*known), anyio.move_on_after(chance.random() * SOON):
            if number % 2:
                await client.post(f"{URL}/{number}", content=body(chance))
                return
            async with client.stream("GET", f"{URL}/{number}") as response:
                async for _ in response.aiter_bytes():
                    if chance.random() < 0.1:
                        break

    settings = {"hedge": curlhttp.Hedge(after=SOON / 5), "retry": 1}
    async with make(app, settings) as client, anyio.create_task_group() as tasks:
        for number in range(300):
            tasks.start_soon(ask, number)
    assert live == 0


async def test_a_thousand_requests_at_once(make: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await anyio.sleep(0)
        await answering(scope["path"].encode())(scope, receive, send)

    found: dict[int, str] = {}

    async def ask(number: int) -> None:
        found[number] = (await client.get(f"{URL}/{number}")).text

    async with make(app) as client, anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(ask, number)
    assert found == {number: f"/{number}" for number in range(1000)}


# --- the wrong kind ---


def test_the_wrong_app_or_client_says_what_to_use() -> None:
    def wsgi(environ: Any, start_response: Any) -> list[bytes]:
        return []

    with pytest.raises(TypeError, match=r"use Client\(transport=curlhttp.WSGITransport"):
        ASGITransport(wsgi)
    with pytest.raises(TypeError, match="is not"):
        ASGITransport(None)
    with pytest.raises(TypeError, match=r"use AsyncClient\(transport=ASGITransport"):
        curlhttp.Client(transport=ASGITransport(hello))
