"""The response is there as soon as its head is, while the request's body is still being sent."""

from __future__ import annotations

import gc
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp.exceptions import ConnectionError as CurlConnectionError
from curlhttp.exceptions import ReadTimeout, RequestException
from tests.servers import AppConnection, AppServer, RawConnection, RawServer, Record
from tests.servers import payload as random_bytes
from tests.support.colours import AnyClient
from tests.support.pace import paced

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("guarded")]
ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "unwatching", "trio"])
MIB = 1024 * 1024
Make = Callable[..., AnyClient]


@pytest.fixture
async def guarded() -> Any:
    with anyio.fail_after(60):
        yield


class Talk:
    """A body that goes on when it is told to, and what became of it."""

    def __init__(self) -> None:
        self.pieces, self._pieces = anyio.create_memory_object_stream[bytes](100)
        self.events: list[str] = []
        self.closed = anyio.Event()

    async def body(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces:
                self.events.append("sent " + piece.decode())
                yield piece
        finally:
            self._pieces.close()
            self.pieces.close()
            self.events.append("closed")
            self.closed.set()

    async def say(self, piece: bytes) -> None:
        await self.pieces.send(piece)

    def end(self) -> None:
        self.pieces.close()


class Tap:
    """What wraps the body of a response, with the members that the documentation names."""

    names = "read", "head", "done", "timings", "certificate", "abort", "abort_from_finalizer"

    def __init__(self, incoming: Any) -> None:
        self._incoming = incoming

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            raise AttributeError(name)
        return getattr(self._incoming, name)


class Tapping(curlhttp.AttemptWrapper):
    async def around(
        self,
        request: curlhttp.ClientRequest,
        send: curlhttp.types.Send,
        runtime: curlhttp.types.Runtime,
    ) -> curlhttp.Response:
        response = await send(request)
        if isinstance(response, curlhttp.AsyncStreamedResponse):
            response.wrap_incoming(Tap)
        return response


@ASYNC
async def test_each_piece_is_sent_after_the_echo_of_the_one_before(
    any_client: AnyClient, server: AppServer
) -> None:
    talk = Talk()
    async with any_client.real.stream(
        "POST", server.url + "/echo-stream", content=talk.body()
    ) as response:
        assert response.status_code == 200
        echoes = response.aiter_bytes()
        for number in range(20):
            piece = b"piece %d" % number
            await talk.say(piece)
            assert await anext(echoes) == piece
        talk.end()
        assert [piece async for piece in echoes] == []
    assert server.requests[-1].length == len(b"piece 0") * 10 + len(b"piece 10") * 10
    assert (await any_client.get(server.url + "/bytes/3")).content == random_bytes(3)
    assert server.connections == 1


async def test_the_response_is_returned_before_the_body_was_sent(
    any_client: AnyClient, server: AppServer
) -> None:
    size, given = 24 * MIB, [0]  # more than the buffers of both kernels take

    def pieces() -> Iterator[bytes]:
        data = random_bytes(size)
        for at in range(0, size, MIB):
            given[0] += MIB
            yield data[at : at + MIB]

    async with await any_client.stream(
        "POST", server.url + "/echo-stream", content=pieces()
    ) as response:
        assert response.real.status_code == 200
        assert given[0] < size
        assert await response.read() == random_bytes(size)
    assert given[0] == size


async def test_a_buffered_response_is_returned_after_both_bodies(
    any_client: AnyClient, server: AppServer
) -> None:
    def pieces() -> Iterator[bytes]:
        for number in range(100):
            yield b"%d," % number

    response = await any_client.post(server.url + "/echo-stream", content=pieces())
    assert response.content == b"".join(b"%d," % number for number in range(100))


# --- the end of the upload ---


@ASYNC
async def test_leaving_the_response_ends_the_upload(
    any_client: AnyClient, server: AppServer
) -> None:
    talk = Talk()
    open_before = server.open_connections
    async with any_client.real.stream(
        "POST", server.url + "/echo-stream", content=talk.body()
    ) as response:
        await talk.say(b"first")
        assert await anext(response.aiter_bytes()) == b"first"
    assert talk.events == ["sent first", "closed"]
    if server.url.startswith("http:"):
        assert server.wait_for(lambda: server.open_connections <= open_before)
    else:
        assert server.wait_for(lambda: len(server.resets) > 0)  # type: ignore[attr-defined]
    assert (await any_client.get(server.url + "/bytes/3")).content == random_bytes(3)


@ASYNC
async def test_leaving_a_response_that_is_wrapped_waits_until_the_body_is_closed(
    make_client: Make, server: AppServer
) -> None:
    closed: list[bool] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            closed.append(True)

    client = make_client(transport=Tapping())
    url = server.url + "/echo-stream"
    async with client.real.stream("POST", url, content=body()) as response:
        assert await anext(response.aiter_bytes()) == b"first"
    assert closed == [True]


@ASYNC
async def test_dropping_the_response_ends_the_upload(
    any_client: AnyClient, server: AppServer
) -> None:
    talk = Talk()
    response = await any_client.real.request(
        "POST", server.url + "/echo-stream", content=talk.body(), stream=True
    )
    assert response.status_code == 200
    del response
    gc.collect()
    await talk.closed.wait()
    assert talk.events == ["closed"]


@ASYNC
async def test_cancelling_the_reader_ends_the_upload(
    any_client: AnyClient, server: AppServer
) -> None:
    talk = Talk()

    async def read() -> None:
        async with any_client.real.stream(
            "POST", server.url + "/echo-stream", content=talk.body()
        ) as response:
            begun.set()
            await response.aread()

    begun = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert talk.events == ["closed"]


@ASYNC
async def test_closing_a_response_whose_body_is_being_closed_ends_no_other_request(
    make_client: Make, app: AppServer
) -> None:
    """A reader has given back its transfer, and waits for the end of the body of the request."""
    may_cut, is_closing, may_close = threading.Event(), anyio.Event(), anyio.Event()
    inside, may_answer = threading.Event(), threading.Event()

    def cuts(conn: RawConnection) -> None:
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        may_cut.wait(30)

    def waits(record: Record, conn: AppConnection) -> None:
        inside.set()
        may_answer.wait(30)
        conn.reply(200, b"whole")

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await anyio.sleep_forever()
        finally:
            is_closing.set()
            with anyio.CancelScope(shield=True):
                await may_close.wait()

    async def read(response: Any) -> None:
        with pytest.raises(curlhttp.exceptions.ChunkedEncodingError):
            await response.aread()

    async def get() -> None:
        assert (await client.get(app.url + "/wait")).content == b"whole"

    app.route("/wait", waits)
    client = make_client(max_connections=1)
    with RawServer(cuts) as server:
        response = await client.real.request("POST", server.url, content=body(), stream=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, response)
            may_cut.set()
            await is_closing.wait()
            tasks.start_soon(get)
            await anyio.to_thread.run_sync(inside.wait, 30)
            tasks.start_soon(response.aclose)
            await anyio.wait_all_tasks_blocked()
            may_answer.set()
            may_close.set()


@ASYNC
async def test_closing_the_client_ends_the_upload(make_client: Make, server: AppServer) -> None:
    client, talk = make_client(http2=True), Talk()
    async with client.real.stream(
        "POST", server.url + "/echo-stream", content=talk.body()
    ) as response:
        await client.aclose()
        await talk.closed.wait()
        with pytest.raises(RequestException):
            await response.aread()


@ASYNC
@pytest.mark.parametrize("streams", [False, True])
async def test_an_early_final_response_ends_a_body_that_waits(
    any_client: AnyClient, server: AppServer, streams: bool
) -> None:
    """The server refuses the body, or closes, while the generator has nothing to send."""
    talk = Talk()
    await talk.say(b"first")
    response = await any_client.real.request(
        "POST", server.url + "/early-413", content=talk.body(), stream=streams
    )
    content = await response.aread() if streams else response.content
    assert response.status_code == 413
    assert content == (b"too large" if server.url.startswith("http:") else b"")
    await talk.closed.wait()
    assert (await any_client.get(server.url + "/bytes/1")).status_code == 200


@ASYNC
async def test_a_body_that_goes_on_after_the_whole_response_is_sent_whole(
    client: AnyClient,
) -> None:
    received = []

    def answers_first(conn: RawConnection) -> None:
        head = conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        received.append(conn.read_body(head))

    talk = Talk()
    with RawServer(answers_first) as server:
        async with client.real.stream("POST", server.url, content=talk.body()) as response:
            assert response.status_code == 200
            await talk.say(b"first")
            await talk.say(b"last")
            talk.end()
            assert await response.aread() == b"ok"
        assert server.wait_for(lambda: received == [b"firstlast"])


# --- errors ---


@ASYNC
async def test_an_exception_of_the_body_reaches_the_reader_and_nothing_is_retried(
    make_client: Make, server: AppServer
) -> None:
    client = make_client(http2=True, retry=curlhttp.RetryPolicy(retry_non_idempotent=True))
    goes_on = anyio.Event()

    def make() -> AsyncIterator[bytes]:
        return fails()

    async def fails() -> AsyncIterator[bytes]:
        yield b"first"
        await goes_on.wait()
        raise CurlConnectionError("of the body")

    async with client.real.stream("POST", server.url + "/echo-stream", content=make) as response:
        echoes = response.aiter_bytes()
        assert await anext(echoes) == b"first"
        goes_on.set()
        with pytest.raises(CurlConnectionError, match="of the body") as caught:
            await anext(echoes)
    (note,) = vars(caught.value)["__notes__"]
    assert note == (
        f"raised by the body of POST {server.url}/echo-stream, after the response had begun"
    )
    assert caught.value.request_sent
    assert len(server.requests) == 1
    assert (await client.get(server.url + "/bytes/3")).content == random_bytes(3)


# --- timeouts and limits ---


@ASYNC
@pytest.mark.parametrize("write", [None, 30])
async def test_a_server_that_stays_silent_ends_with_the_read_timeout(
    any_client: AnyClient, server: AppServer, write: float | None
) -> None:
    """The body waits for the server, which says nothing more."""
    talk = Talk()
    timeout = curlhttp.Timeout(read=0.2, write=write)
    async with any_client.real.stream(
        "POST", server.url + "/echo-stream", content=talk.body(), timeout=timeout
    ) as response:
        with pytest.raises(ReadTimeout) as caught:
            await response.aread()
        assert caught.value.request_sent
        await talk.closed.wait()


@ASYNC
async def test_a_body_may_take_its_time_while_nobody_reads(
    any_client: AnyClient, server: AppServer
) -> None:
    talk, silence = Talk(), paced(0.2)
    timeout = curlhttp.Timeout(read=silence)
    async with any_client.real.stream(
        "POST", server.url + "/echo-stream", content=talk.body(), timeout=timeout
    ) as response:
        await anyio.sleep(2 * silence)
        await talk.say(b"late")
        talk.end()
        assert await response.aread() == b"late"


@ASYNC
async def test_the_total_timeout_ends_the_upload(any_client: AnyClient, server: AppServer) -> None:
    talk = Talk()
    timeout = curlhttp.Timeout(total=0.3)
    async with any_client.real.stream(
        "POST", server.url + "/echo-stream", content=talk.body(), timeout=timeout
    ) as response:
        with pytest.raises(curlhttp.DeadlineExceeded) as caught:
            await response.aread()
        assert caught.value.request_sent
        await talk.closed.wait()


@ASYNC
async def test_a_limit_counts_the_exchange_until_both_bodies_have_ended(
    make_client: Make, server: AppServer
) -> None:
    client, talk = make_client(http2=True, max_connections=1), Talk()
    order: list[str] = []

    async def get() -> None:
        await client.get(server.url + "/bytes/3")
        order.append("second")

    async with anyio.create_task_group() as tasks:
        async with client.real.stream(
            "POST", server.url + "/echo-stream", content=talk.body()
        ) as response:
            if server.url.startswith("http:"):
                tasks.start_soon(get)
            await talk.say(b"x")
            assert await anext(response.aiter_bytes()) == b"x"
            order.append("first")
    assert order == ["first", "second"][: len(order)]


# --- layers ---


@ASYNC
async def test_a_retry_after_a_status_sends_the_whole_body_again(client: AnyClient) -> None:
    bodies: list[bytes] = []

    def refuses_once(conn: RawConnection) -> None:
        head = conn.read_head()
        if not bodies:
            bodies.append(b"")
            conn.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
            conn.wait_closed(30)
            return
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        bodies.append(conn.read_body(head))
        conn.send(b"0\r\n\r\n")

    made: list[str] = []

    async def pieces() -> AsyncIterator[bytes]:
        made.append("begun")
        try:
            yield b"one,"
            if len(made) == 1:
                await anyio.sleep_forever()
            yield b"two"
        finally:
            made.append("closed")

    with RawServer(refuses_once) as server:
        async with client.real.stream(
            "PUT",
            server.url,
            content=pieces,
            retry=curlhttp.RetryPolicy(backoff_strategy=curlhttp.FullJitterBackoff(base=0.001)),
        ) as response:
            await response.aread()
            assert response.status_code == 200
    assert bodies == [b"", b"one,two"]
    assert made == ["begun", "closed", "begun", "closed"]


@ASYNC
async def test_the_attempt_of_a_hedge_that_wins_goes_on_with_its_upload(
    make_client: Make, server: AppServer
) -> None:
    client = make_client(http2=True, hedge=curlhttp.Hedge(after=30))
    goes_on = anyio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await goes_on.wait()
        yield b"last"

    async with client.real.stream("PUT", server.url + "/echo-stream", content=pieces) as response:
        echoes = response.aiter_bytes()
        assert await anext(echoes) == b"first"
        goes_on.set()
        assert [piece async for piece in echoes] == [b"last"]


@ASYNC
async def test_an_app_answers_while_the_body_is_sent(make_client: Make) -> None:
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await send({"type": "http.response.body", "body": message["body"], "more_body": more})

    client, talk = make_client(transport=curlhttp.ASGITransport(echo)), Talk()
    async with client.real.stream("POST", "http://app.test/", content=talk.body()) as response:
        echoes = response.aiter_bytes()
        for piece in (b"one", b"two"):
            await talk.say(piece)
            assert await anext(echoes) == piece
        talk.end()
        assert [piece async for piece in echoes] == []


async def test_a_file_that_was_sent_whole_leaves_its_connection_to_the_next_attempt(
    make_client: Make, app: AppServer
) -> None:
    """A challenge is read to its end, because nothing of the request is left to be sent."""
    has_head = threading.Event()

    async def tells(request: Any, send: Any) -> Any:
        response = await send(request)
        has_head.set()
        return response

    auth = curlhttp.DigestAuth("user", "secret")
    client = make_client(auth=auth, attempt_middleware=[tells])

    def challenges(record: Any, conn: Any) -> None:
        if record.header("authorization") is None:
            headers = [("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')]
            conn.begin(401, [*headers, ("Content-Length", "1000")])
            assert has_head.wait(60)
            conn.send(random_bytes(1000))
        else:
            conn.reply(200, record.body)

    app.route("/challenges", challenges)
    async with await client.stream(
        "PUT", app.url + "/challenges", content=io.BytesIO(b"whole")
    ) as response:
        assert await response.read() == b"whole"
    assert app.connections == 1
