"""Transports of users: what replaces libcurl or wraps it, in all ways to send a request."""

from __future__ import annotations

import gzip
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import exceptions as e
from curlhttp.testing import Answer, Chaos, ScriptedEngine, mock
from tests.servers import AppServer, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.colours import AnyClient
from tests.support.every_api import EVERY_CLIENT_API, make_fetch
from tests.support.pace import paced

Respond = Callable[[Any], Any]
URL = "http://pages.test"
AT_ONCE = curlhttp.ExponentialBackoff(base=1e-6)
MakeClient = Callable[..., AnyClient]


class _Plain(curlhttp.Transport):
    """Answers with a function, in Client."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.sent: list[str] = []
        self.closed = 0

    def send(self, request: Any) -> Any:
        self.sent.append(request.url.path)
        return self.respond(request)

    def close(self) -> None:
        self.closed += 1


class _Async(curlhttp.AsyncTransport):
    """Answers with a function, which may be a coroutine function, in AsyncClient."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.sent: list[str] = []
        self.closed = 0

    async def send(self, request: Any) -> Any:
        self.sent.append(request.url.path)
        made = self.respond(request)
        return await made if inspect.isawaitable(made) else made

    async def aclose(self) -> None:
        self.closed += 1


class _WrapsPlain(_Plain):
    def wrap(self, inner: Any) -> _WrapsPlain:
        self.inner = inner
        return self

    def send(self, request: Any) -> Any:
        self.sent.append(request.url.path)
        return self.respond(self.inner.send(request))

    def connect(self, request: Any) -> Any:
        self.sent.append("connect")
        return self.inner.connect(request)


class _WrapsAsync(_Async):
    def wrap(self, inner: Any) -> _WrapsAsync:
        self.inner = inner
        return self

    async def send(self, request: Any) -> Any:
        self.sent.append(request.url.path)
        return self.respond(await self.inner.send(request))

    async def connect(self, request: Any) -> Any:
        self.sent.append("connect")
        return await self.inner.connect(request)


@pytest.fixture
def pages(make_client: MakeClient, colour: str) -> Callable[..., Any]:
    """Return a function that makes a client and its transport, which answers with a function."""

    def make(respond: Respond, **settings: Any) -> tuple[AnyClient, Any]:
        transport = (_Plain if colour == "blocking" else _Async)(respond)
        return make_client(transport=transport, base_url=URL, **settings), transport

    return make


@pytest.fixture
def wrapped(make_client: MakeClient, colour: str) -> Callable[..., Any]:
    """Return a function that makes a client whose transport wraps libcurl."""

    def make(change: Respond = lambda response: response, **settings: Any) -> Any:
        transport = (_WrapsPlain if colour == "blocking" else _WrapsAsync)(change)
        return make_client(transport=transport, **settings), transport

    return make


class Body:
    """Makes bodies of pieces, and notes how often they were closed."""

    def __init__(
        self, *pieces: Any, is_async: bool = False, error: Exception | None = None
    ) -> None:
        self.pieces = pieces
        self.is_async = is_async
        self.error = error
        self.closed = 0

    def __call__(self, request: Any, **options: Any) -> Any:
        if self.is_async:
            return curlhttp.AsyncStreamedResponse.of(request, content=self._awaited(), **options)
        kind = curlhttp.StreamedResponse
        return kind.of(request, content=self._iterated(), **options)

    def _iterated(self) -> Iterator[Any]:
        try:
            yield from self.pieces
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1

    async def _awaited(self) -> AsyncIterator[Any]:
        try:
            for piece in self.pieces:
                await anyio.lowlevel.checkpoint()
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1


@pytest.fixture(params=["iterable", "async iterable"])
def make_body(request: pytest.FixtureRequest, colour: str) -> Callable[..., Body]:
    is_async = request.param == "async iterable"
    if is_async and colour == "blocking":
        pytest.skip("Client takes no async iterable")
    return lambda *pieces, **options: Body(*pieces, is_async=is_async, **options)


# --- responses ---


async def test_a_body_in_memory_and_all_of_its_head_arrive(pages: Any) -> None:
    client, _ = pages(lambda request: request.respond(201, headers={"X-A": "1"}, json={"a": 1}))
    response = await client.post("/new", json={})
    assert response.json() == {"a": 1}
    assert (response.status_code, response.headers["x-a"]) == (201, "1")
    assert response.request.url.path == "/new"
    assert response.timings.total >= response.timings.first_byte > 0
    async with await client.stream("GET", "/new") as stream:
        assert json.loads(await stream.read()) == {"a": 1}


async def test_a_body_in_pieces_is_read_to_its_end(pages: Any, make_body: Any) -> None:
    body = make_body(b"one ", b"", bytearray(b"two"))
    client, _ = pages(body)
    assert (await client.get("/")).content == b"one two"
    assert body.closed == 1
    async with await client.stream("GET", "/") as stream:
        assert [piece async for piece in stream.iterate("bytes")] == [b"one ", b"two"]
    assert body.closed == 2


async def test_a_stream_that_is_closed_early_closes_its_generator(
    pages: Any, make_body: Any
) -> None:
    body = make_body(b"one ", b"two")
    client, _ = pages(body)
    async with await client.stream("GET", "/") as stream:
        async for _ in stream.iterate("bytes"):
            break
        assert body.closed == 0
    assert body.closed == 1


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_coded_body_is_decoded_as_from_a_server(pages: Any, in_pieces: bool) -> None:
    coded = gzip.compress(b"hello" * 100)
    headers = {"Content-Encoding": "gzip", "Content-Length": str(len(coded))}

    def respond(request: Any) -> Any:
        if in_pieces:
            return Body(coded[:9], coded[9:])(request, headers=headers)
        return request.respond(headers=headers, content=coded)

    client, _ = pages(respond)
    assert (await client.get("/")).content == b"hello" * 100
    async with await client.stream("GET", "/") as stream:
        assert await stream.read() == b"hello" * 100
    async with await client.stream("GET", "/") as stream:
        assert b"".join([piece async for piece in stream.iterate("raw")]) == coded


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_body_must_have_the_length_that_its_head_announces(
    pages: Any, in_pieces: bool
) -> None:
    def respond(request: Any) -> Any:
        headers = {"Content-Length": "9"}
        if in_pieces:
            return Body(b"short")(request, headers=headers)
        return request.respond(headers=headers, content=b"short")

    client, _ = pages(respond)
    with pytest.raises(e.ChunkedEncodingError, match="ended after 5 bytes"):
        await client.get("/")
    async with await client.stream("GET", "/") as stream:
        with pytest.raises(e.ChunkedEncodingError, match="ended after 5 bytes"):
            await stream.read()


async def test_a_response_without_a_body_drops_one(pages: Any) -> None:
    client, _ = pages(lambda request: request.respond(204, content=b"ignored"))
    assert (await client.get("/")).content == b""
    client, _ = pages(lambda request: request.respond(200, content=b"ignored"))
    assert (await client.request("HEAD", "/")).content == b""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_that_is_too_large_is_closed(pages: Any, make_body: Any, stream: bool) -> None:
    body = make_body(b"x" * 100, b"x" * 100, b"x" * 100)
    client, _ = pages(body, max_response_size=150)
    with pytest.raises(e.ResponseTooLarge) as caught:
        if stream:
            await (await client.stream("GET", "/")).read()
        else:
            await client.get("/")
    assert caught.value.request.url.path == "/"
    await client.aclose()
    with anyio.fail_after(30):
        while not body.closed:  # an async generator is closed in a task
            await anyio.lowlevel.checkpoint()


# --- errors ---


async def test_what_is_not_a_response_is_a_clear_error(pages: Any) -> None:
    for wrong in (None, 200, b"hello", object()):
        client, _ = pages(lambda request, wrong=wrong: wrong)
        with pytest.raises(TypeError, match=r"send must return a curlhttp response.*not "):
            await client.get("/")
        with pytest.raises(TypeError, match=r"send must return a curlhttp response"):
            await client.stream("GET", "/")


async def test_a_response_that_was_closed_is_a_clear_error(pages: Any) -> None:
    def respond(request: Any) -> Any:
        response = Body(b"x")(request)
        response.close()
        return response

    client, _ = pages(respond)
    with pytest.raises(e.StreamConsumedError, match="closed before it was read"):
        await client.get("/")


async def test_pieces_that_are_no_bytes_are_an_error(pages: Any, make_body: Any) -> None:
    client, _ = pages(make_body(b"x", "text"))
    with pytest.raises(TypeError, match="pieces of content must be bytes, not str"):
        await client.get("/")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_exception_that_is_a_bug_reaches_the_caller_unchanged(
    pages: Any, stream: bool
) -> None:
    error = KeyError("a bug")

    def respond(request: Any) -> Any:
        raise error

    client, transport = pages(respond, retry=5)
    with pytest.raises(KeyError) as caught:
        await client.request("GET", "/", stream=stream)
    assert caught.value is error
    assert len(transport.sent) == 1


async def test_an_error_gets_its_request_and_counts_as_sent(pages: Any) -> None:
    def respond(request: Any) -> Any:
        raise e.ConnectionError("the pipe broke")

    client, transport = pages(respond, retry=curlhttp.RetryPolicy(2, backoff_strategy=AT_ONCE))
    with pytest.raises(e.ConnectionError, match="the pipe broke") as caught:
        await client.post("/pay")
    assert caught.value.request.url.path == "/pay"
    assert caught.value.request_sent
    assert len(transport.sent) == 1  # a POST is not repeated
    with suppress(e.RequestException):
        await client.get("/")
    assert len(transport.sent) == 4


async def test_an_error_before_anything_was_sent_says_so(pages: Any) -> None:
    def respond(request: Any) -> Any:
        raise e.ConnectTimeout("no connection")

    client, transport = pages(respond, retry=curlhttp.RetryPolicy(1, backoff_strategy=AT_ONCE))
    with pytest.raises(e.ConnectTimeout) as caught:
        await client.post("/pay")
    assert not caught.value.request_sent
    assert len(transport.sent) == 2


@pytest.mark.parametrize("error", [e.ChunkedEncodingError("cut"), OSError("a bug")])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_that_raises_midway_raises_that(
    pages: Any, make_body: Any, error: Exception, stream: bool
) -> None:
    body = make_body(b"one", error=error)
    client, _ = pages(body)
    with pytest.raises(type(error)) as caught:
        if stream:
            await (await client.stream("GET", "/")).read()
        else:
            await client.get("/")
    assert caught.value is error
    if isinstance(error, e.RequestException):
        assert error.request.url.path == "/"
    assert body.closed == 1
    error.__traceback__ = None


async def test_a_closed_client_sends_nothing_and_closes_the_transport_once(pages: Any) -> None:
    client, transport = pages(lambda request: request.respond())
    await client.get("/")
    for _ in range(2):
        await client.aclose()
    with pytest.raises(e.ClientClosed):
        await client.get("/")
    assert (transport.closed, len(transport.sent)) == (1, 1)


# --- timeouts and cancellation ---


def test_a_transport_of_threads_that_was_too_slow_times_out() -> None:
    def slow(request: Any) -> Any:
        threading.Event().wait(paced(0.2))
        return request.respond()

    for timeout, expected in (
        (curlhttp.Timeout(read=paced(0.1)), e.ReadTimeout),
        (curlhttp.Timeout(total=paced(0.1)), e.DeadlineExceeded),
    ):
        with curlhttp.Client(transport=_Plain(slow), timeout=timeout) as client:
            with pytest.raises(expected) as caught:
                client.get(URL)
            assert caught.value.request is not None
            assert caught.value.request_sent
            assert caught.value.timings is not None


@pytest.mark.parametrize("colour", ["asyncio", "trio"])
@pytest.mark.parametrize("where", ["send", "body"])
@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        ({"read": 0.01}, e.ReadTimeout),
        ({"total": 0.1}, e.DeadlineExceeded),
    ],
)
async def test_a_timeout_cancels_a_slow_transport(
    pages: Any, where: str, timeout: dict[str, float], expected: type[e.RequestException]
) -> None:
    ended = []

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await anyio.sleep_forever()
        finally:
            ended.append("body")

    async def respond(request: Any) -> Any:
        if where == "body":
            return curlhttp.AsyncStreamedResponse.of(request, content=pieces())
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("send")

    limits = {name: paced(seconds) for name, seconds in timeout.items()}
    client, _ = pages(respond, timeout=curlhttp.Timeout(**limits))
    with pytest.raises(expected) as caught:
        await client.get("/")
    assert ended == [where]
    assert caught.value.request_sent
    assert caught.value.timings is not None


@pytest.mark.parametrize("colour", ["asyncio", "trio"])
@pytest.mark.parametrize("where", ["send", "body"])
async def test_a_cancelled_request_cancels_the_transport(pages: Any, where: str) -> None:
    ended, begun = [], anyio.Event()

    async def wait() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            ended.append(where)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await wait()

    async def respond(request: Any) -> Any:
        if where == "body":
            return curlhttp.AsyncStreamedResponse.of(request, content=pieces())
        return await wait()

    client, _ = pages(respond)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, "/")
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ended == [where]


# --- the layers above ---


async def test_redirects_cookies_and_retries_work_as_usual(pages: Any) -> None:
    def respond(request: Any) -> Any:
        if request.url.path == "/old":
            return request.respond(302, headers={"Location": "/new", "Set-Cookie": "a=1"})
        if len(transport.sent) < 4:
            return request.respond(503)
        return request.respond(content=request.headers.get("Cookie", ""))

    client, transport = pages(respond, retry=curlhttp.RetryPolicy(3, backoff_strategy=AT_ONCE))
    response = await client.get("/old")
    assert (response.text, transport.sent) == ("a=1", ["/old", "/new", "/new", "/new"])
    assert client.real.stats().attempts == 4


async def test_a_map_sends_all_and_a_download_resumes(
    pages: Any, make_body: Any, tmp_path: Path
) -> None:
    client, _ = pages(make_body(b"one ", b"two"))
    found = [result.content async for result in client.map([f"/{n}" for n in range(20)])]
    assert found == [b"one two"] * 20
    path = tmp_path / "file"
    done = client.real.download("/file", path)
    if not client.is_blocking:
        await done
    assert path.read_bytes() == b"one two"


async def test_events_arrive_from_a_body_in_pieces(pages: Any, make_body: Any) -> None:
    body = make_body(b"data: one\n", b"\ndata: two\n\n")
    client, _ = pages(lambda request: body(request, headers={"Content-Type": "text/event-stream"}))
    async with client.sse("/events", reconnect=False) as events:
        assert [event.data async for event in events] == ["one", "two"]
    assert body.closed == 1


async def test_the_cache_stores_what_a_transport_answers(
    pages: Any, make_body: Any, make_client: MakeClient
) -> None:
    pytest.importorskip("hishel", reason="the extra 'cache' is not installed")
    body = make_body(b"one ", b"two")
    headers = {"Cache-Control": "max-age=100"}
    cache = curlhttp.Cache(":memory:")
    client, transport = pages(lambda request: body(request, headers=headers), cache=cache)
    async with await client.stream("GET", "/") as stream:
        assert await stream.read() == b"one two"
    assert (await client.get("/")).content == b"one two"
    assert len(transport.sent) == 1


@pytest.mark.parametrize("colour", ["asyncio", "trio"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_attempt_of_a_hedge_that_loses_is_cancelled(pages: Any, stream: bool) -> None:
    cancelled: list[Any] = []

    async def respond(request: Any) -> Any:
        if len(transport.sent) == 1:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(request)
        return request.respond(content=b"second")

    client, transport = pages(respond, hedge=curlhttp.Hedge(after=0.01))
    response = await client.request("GET", "/", stream=stream)
    assert (await response.aread()) == b"second"
    assert len(transport.sent) == 2
    with anyio.fail_after(30):
        while not cancelled:
            await anyio.lowlevel.checkpoint()


def test_a_blocking_transport_gets_no_hedge() -> None:
    transport = _Plain(lambda request: request.respond(content=b"one"))
    hedge = curlhttp.Hedge(after=0)
    with curlhttp.Client(transport=transport, hedge=hedge) as client:
        assert client.get(URL).content == b"one"
    assert len(transport.sent) == 1


async def test_faults_and_recordings_wrap_a_transport(
    make_client: MakeClient, colour: str, tmp_path: Path
) -> None:
    kind = _Plain if colour == "blocking" else _Async
    transport = kind(Body(b"one ", b"two"))
    client = make_client(transport=Chaos(1, cut=0.5).wrap(transport), base_url=URL)
    with pytest.raises(e.ChunkedEncodingError, match="chaos"):
        for _ in range(30):
            await client.get("/")
    client = make_client(transport=kind(Body(b"one ", b"two")), base_url=URL)
    with client.real.har(tmp_path / "all.har"):
        assert (await client.get("/")).content == b"one two"
    (entry,) = json.loads((tmp_path / "all.har").read_text())["log"]["entries"]
    assert entry["response"]["content"]["text"] == "one two"


# --- wrapping ---


@pytest.mark.parametrize("stream", [False, True])
async def test_a_transport_that_wraps_libcurl_changes_a_response(
    wrapped: Any, app: AppServer, stream: bool
) -> None:
    def change(response: Any) -> Any:
        response.headers["X-Seen"] = "yes"
        response.status_code = 203
        return response

    client, transport = wrapped(change)
    response = await client.request("GET", app.url + "/", stream=stream)
    body = response.read() if client.is_blocking else await response.aread()
    assert body == b"hello"
    assert (response.status_code, response.headers["x-seen"]) == (203, "yes")
    assert response.headers["Content-Length"] == "5"
    assert transport.sent == ["/"]
    assert client.real.stats().attempts == 1


async def test_a_transport_may_read_the_body_before_it_passes_it_on(
    make_client: MakeClient, colour: str
) -> None:
    coded = gzip.compress(b"hello")
    engine = ScriptedEngine([Answer(headers={"Content-Encoding": "gzip"}, content=coded)] * 2)

    class Reads(curlhttp.Transport):
        def __init__(self) -> None:
            self.client = curlhttp.Client(transport=engine)

        def send(self, request: Any) -> Any:
            response = self.client.send(request)
            assert response.read() == b"hello"
            return response

    if colour != "blocking":
        pytest.skip("the same in both clients")
    client = make_client(transport=Reads())
    assert (await client.get(URL)).content == b"hello"
    async with await client.stream("GET", URL) as stream:
        assert await stream.read() == b"hello"


async def test_a_map_passes_a_transport_that_wraps_libcurl(wrapped: Any, app: AppServer) -> None:
    client, transport = wrapped()
    found = [each.content async for each in client.map([app.url + "/"] * 5)]
    assert found == [b"hello"] * 5
    assert len(transport.sent) == 5


async def test_a_body_left_early_is_dropped_through_the_wrapper(
    wrapped: Any, app: AppServer
) -> None:
    client, _ = wrapped(max_connections=1, timeout=30)
    async with await client.stream("GET", app.url + "/big") as stream:
        async for _ in stream.iterate("bytes"):
            break
    assert (await client.get(app.url + "/")).content == b"hello"


async def test_a_websocket_passes_the_wrapper_and_needs_connect(
    make_client: MakeClient, wrapped: Any, pages: Any, app: AppServer
) -> None:
    pytest.importorskip("wsproto", reason="the extra 'ws' is not installed")
    client, transport = wrapped()
    with pytest.raises(e.WebSocketRefused):
        await client.websocket(app.url.replace("http", "ws") + "/")
    assert transport.sent == ["connect"]
    client, _ = pages(lambda request: request.respond())
    with pytest.raises(TypeError, match=r"has no connect\(\)"):
        await client.websocket("/ws")


def test_a_mock_answers_what_a_wrapper_sends() -> None:
    transport = _WrapsPlain(lambda response: response)
    with mock(URL) as network, curlhttp.Client(transport=transport, retry=1) as client:
        network.get("/").respond([503, 200])
        assert client.get(URL + "/").status_code == 200
    assert transport.sent == ["/", "/"]


def test_a_guard_also_guards_what_a_wrapper_sends(app: AppServer) -> None:
    with curlhttp.Client(
        transport=_WrapsPlain(lambda response: response), guard=curlhttp.PublicOnly()
    ) as client:
        with pytest.raises(e.BlockedAddress):
            client.get(app.url)


# --- wrapping attempts ---


class _Around(curlhttp.AttemptWrapper):
    """Wraps attempts with a function of what `around` gets."""

    def __init__(self, act: Callable[..., Any] | None = None) -> None:
        self.act = act
        self.seen: list[str] = []
        self.closed = 0

    async def around(
        self,
        request: curlhttp.ClientRequest,
        send: curlhttp.types.Send,
        runtime: curlhttp.types.Runtime,
    ) -> curlhttp.Response:
        self.seen.append(request.url.path)
        found = send(request) if self.act is None else self.act(request, send, runtime)
        return await found if inspect.isawaitable(found) else found

    def close(self) -> None:
        self.closed += 1


@EVERY_CLIENT_API
async def test_a_wrapper_sees_each_attempt_and_sends_what_it_is_told_to(
    make_client: MakeClient, app: AppServer, tmp_path: Path, api: str
) -> None:
    statuses = iter([503, 302, 200])

    def reply(record: Any, out: Any) -> None:
        assert dict(record.headers)["X-Around"] == "1"
        status = next(statuses)
        out.reply(status, b"hello", [("Location", "/next")] if status == 302 else [])

    for path in ("/first", "/next"):
        app.route(path, reply)

    async def mark(request: Any, send: Any, runtime: Any) -> Any:
        request = request.copy()
        request.headers["X-Around"] = "1"
        return await send(request)

    around = _Around(mark)
    client = make_client(transport=around, retry=curlhttp.RetryPolicy(2, backoff_strategy=AT_ONCE))
    response = await make_fetch(client, api, tmp_path, None)(app.url + "/first")  # type: ignore[arg-type]
    body = (
        (tmp_path / "downloaded").read_bytes() if api.startswith("download") else response.content
    )
    assert body == b"hello"
    assert around.seen == ["/first", "/first", "/next"]
    assert client.real.stats().attempts == 3


@EVERY_CLIENT_API
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_wrapper_may_answer_as_a_server_would(
    make_client: MakeClient, tmp_path: Path, api: str, in_pieces: bool
) -> None:
    coded = gzip.compress(b"hello" * 100)
    headers = {"Content-Encoding": "gzip", "Content-Length": str(len(coded))}

    def answer(request: Any, send: Any, runtime: Any) -> Any:
        if in_pieces:
            return Body(coded[:9], coded[9:])(request, headers=headers)
        return request.respond(headers=headers, content=coded)

    client = make_client(transport=_Around(answer))
    response = await make_fetch(client, api, tmp_path, None)(URL + "/")  # type: ignore[arg-type]
    body = (
        (tmp_path / "downloaded").read_bytes() if api.startswith("download") else response.content
    )
    assert body == b"hello" * 100


async def test_the_body_of_an_answer_must_have_the_announced_length(
    make_client: MakeClient,
) -> None:
    around = _Around(
        lambda request, *_: request.respond(headers={"Content-Length": "9"}, content=b"short")
    )
    client = make_client(transport=around)
    with pytest.raises(e.ChunkedEncodingError, match="ended after 5 bytes") as caught:
        await client.get(URL)
    assert caught.value.request.url.host == "pages.test"
    async with await client.stream("GET", URL) as stream:
        with pytest.raises(e.ChunkedEncodingError, match="ended after 5 bytes"):
            await stream.read()


async def test_an_error_of_a_wrapper_gets_its_request_and_counts_as_sent(
    make_client: MakeClient,
) -> None:
    def fail(*_: Any) -> Any:
        raise e.ConnectionError("the pipe broke")

    around = _Around(fail)
    client = make_client(transport=around, retry=curlhttp.RetryPolicy(1, backoff_strategy=AT_ONCE))
    with pytest.raises(e.ConnectionError, match="the pipe broke") as caught:
        await client.post(URL + "/pay")
    assert caught.value.request.url.path == "/pay"
    assert (caught.value.request_sent, around.seen) == (True, ["/pay"])


async def test_redirects_of_an_answer_are_followed(make_client: MakeClient) -> None:
    def answer(request: Any, send: Any, runtime: Any) -> Any:
        if request.url.path == "/old":
            return Body(b"moved")(request, status_code=302, headers={"Location": "/new"})
        return Body(b"here")(request)

    client = make_client(transport=_Around(answer))
    assert (await client.get(URL + "/old")).content == b"here"
    async with await client.stream("GET", URL + "/old") as stream:
        assert await stream.read() == b"here"
        assert [each.content for each in stream.real.history] == [b"moved"]


async def test_a_wrapper_may_send_a_request_again_with_its_body(
    make_client: MakeClient, app: AppServer
) -> None:
    async def twice(request: Any, send: Any, runtime: Any) -> Any:
        await send(request)
        return await send(request)

    client = make_client(transport=_Around(twice))
    await client.post(app.url + "/echo", content=[b"pay", b"load"])
    assert [record.body for record in app.requests] == [b"payload", b"payload"]
    with pytest.raises(e.UnrewindableBodyError) as caught:
        await client.post(app.url + "/echo", content=iter([b"once"]))
    assert caught.value.request.url.path == "/echo"


async def test_a_wrapper_waits_on_the_clock_of_the_client(make_client: MakeClient) -> None:
    async def late(request: Any, send: Any, runtime: Any) -> Any:
        begun = runtime.now(), runtime.wall()
        await runtime.sleep(60)
        assert (runtime.now(), runtime.wall()) == (begun[0] + 60, begun[1] + 60)
        return await send(request)

    engine = ScriptedEngine([Answer(content=b"one")])
    client = make_client(transport=_Around(late).wrap(engine))
    assert (await client.get(URL)).content == b"one"
    assert (engine.now(), [sent.at for sent in engine.sent]) == (60, [60])


async def test_the_timeout_of_an_answer_in_pieces_is_measured_on_the_clock_of_the_client(
    make_client: MakeClient, make_body: Any
) -> None:
    body = make_body(b"one ", b"two")

    async def late(request: Any, send: Any, runtime: Any) -> Any:
        await runtime.sleep(60)
        return body(request)

    around, timeout = _Around(late), curlhttp.Timeout(total=300)
    client = make_client(transport=around.wrap(ScriptedEngine([])), timeout=timeout)
    response = await client.get(URL)
    assert response.content == b"one two"
    assert response.timings.total == 60


@pytest.mark.colours("asyncio", "trio")
async def test_the_next_attempt_wins_while_a_wrapper_waits(
    make_client: MakeClient, app: AppServer
) -> None:
    waits = iter([3600, 0])

    async def late(request: Any, send: Any, runtime: Any) -> Any:
        await runtime.sleep(next(waits))
        return await send(request)

    client = make_client(transport=_Around(late), hedge=curlhttp.Hedge(after=0.01))
    assert (await client.get(app.url)).content == b"hello"
    assert len(app.requests) == 1


async def test_a_wrapper_reads_pieces_as_the_caller_reads_them(
    make_client: MakeClient, app: AppServer
) -> None:
    sizes: list[int] = []

    class Counted:
        def __init__(self, incoming: Any) -> None:
            self.incoming = incoming

        def __getattr__(self, name: str) -> Any:
            return getattr(self.incoming, name)

        async def read(self) -> bytes:
            piece: bytes = await self.incoming.read()
            sizes.append(len(piece))
            return piece

    async def count(request: Any, send: Any, runtime: Any) -> Any:
        response = await send(request)
        response.wrap_incoming(Counted)
        return response

    client = make_client(transport=_Around(count))
    async with await client.stream("GET", app.url + "/bytes/100000") as stream:
        assert sizes == []
        assert len(await stream.read()) == 100_000
    assert sum(sizes) == 100_000


async def test_the_client_closes_a_wrapper_once(make_client: MakeClient) -> None:
    around = _Around()
    client = make_client(transport=around)
    await client.aclose()
    with pytest.raises(e.ClientClosed):
        await client.get(URL)
    assert (around.closed, around.seen) == (1, [])


async def test_what_a_wrapper_returns_that_is_no_response_is_a_clear_error(
    make_client: MakeClient,
) -> None:
    client = make_client(transport=_Around(lambda *_: None))
    with pytest.raises(TypeError, match=r"_Around\.around returned NoneType, not a Response"):
        await client.get(URL)


async def test_any_object_with_around_will_do(make_client: MakeClient) -> None:
    class Duck:
        async def around(self, request: Any, send: Any, runtime: Any) -> Any:
            return request.respond(content=b"quack")

    client = make_client(transport=Duck())
    assert (await client.get(URL)).content == b"quack"
    await client.aclose()


async def test_wrappers_nest_around_any_transport(
    make_client: MakeClient, colour: str, app: AppServer
) -> None:
    order: list[str] = []

    def note(name: str) -> Any:
        async def act(request: Any, send: Any, runtime: Any) -> Any:
            order.append(name)
            return await send(request)

        return _Around(act)

    transport = (_WrapsPlain if colour == "blocking" else _WrapsAsync)(lambda response: response)
    client = make_client(transport=note("outer").wrap(note("inner").wrap(transport)))
    assert (await client.get(app.url)).content == b"hello"
    assert (order, transport.sent) == (["outer", "inner"], ["/"])
    client = make_client(transport=note("outer").wrap(note("inner")))
    assert (await client.get(app.url)).content == b"hello"
    assert order == ["outer", "inner"] * 2
    with pytest.raises(TypeError, match="is not a transport"):
        make_client(transport=note("outer").wrap(object()))


async def test_a_wrapper_sees_the_handshake_of_a_websocket_and_may_refuse_it(
    make_client: MakeClient,
) -> None:
    pytest.importorskip("websockets", reason="the extra 'ws' is not installed")
    around = _Around()
    client = make_client(transport=around)
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws") + "/chat") as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
        assert around.seen == ["/chat"]
        around.act = lambda request, *_: request.respond(403)
        with pytest.raises(e.WebSocketRefused):
            await client.websocket(server.url.replace("http", "ws"))


def test_a_guard_is_below_a_wrapper(app: AppServer) -> None:
    around = _Around()
    with curlhttp.Client(transport=around, guard=curlhttp.PublicOnly()) as client:
        with pytest.raises(e.BlockedAddress):
            client.get(app.url)
    assert around.seen == ["/"]


# --- the wrong kind ---


def test_a_transport_of_the_other_client_is_refused_when_the_client_is_made() -> None:
    plain, coroutines = _Plain(print), _Async(print)
    with pytest.raises(TypeError, match=r"_Async is for AsyncClient, not Client: its send"):
        curlhttp.Client(transport=coroutines)
    with pytest.raises(TypeError, match=r"_Plain is for Client, not AsyncClient: its"):
        curlhttp.AsyncClient(transport=plain)

    class Mixed(curlhttp.Transport):
        async def send(self, request: Any) -> Any:  # type: ignore[override]
            """Return nothing."""

    for client in (curlhttp.Client, curlhttp.AsyncClient):
        with pytest.raises(TypeError, match=r"derive Mixed from curlhttp\.AsyncTransport"):
            client(transport=Mixed())
        with pytest.raises(TypeError, match="is not a transport"):
            client(transport=object())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"write transport=_Plain\(\.\.\.\)"):
            client(transport=_Plain)  # type: ignore[arg-type]


def test_any_object_with_the_methods_will_do() -> None:
    class Duck:
        def send(self, request: Any) -> Any:
            return request.respond(content=b"quack")

    duck: Any = Duck()
    with curlhttp.Client(transport=duck) as client:
        assert client.get(URL).content == b"quack"


def test_an_async_body_is_refused_in_a_blocking_response() -> None:
    request = curlhttp.Client().build_request("GET", URL)
    body = Body(is_async=True)
    with pytest.raises(TypeError, match="AsyncStreamedResponse"):
        curlhttp.StreamedResponse.of(request, content=body._awaited())
    for wrong in ("text", {"a": 1}, 7, None):
        with pytest.raises(TypeError, match="content must be bytes or an iterable of bytes"):
            curlhttp.StreamedResponse.of(request, content=wrong)  # type: ignore[arg-type]
