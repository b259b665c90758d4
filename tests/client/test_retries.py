"""Retries against real sockets that break at every point; a server counts the requests."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ExponentialBackoff, RetryPolicy, Timeout
from curlhttp import exceptions as e
from tests.servers import (
    AppServer,
    Certs,
    H2Server,
    RawConnection,
    RawServer,
    refused_port,
    response,
)
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.internals import get_slots, interrupt_main_thread
from tests.support.pace import assert_in_time, paced

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
AT_ONCE = ExponentialBackoff(base=0.0)
SAFE = RetryPolicy(2, backoff_strategy=AT_ONCE)
WILLING = RetryPolicy(2, backoff_strategy=AT_ONCE, retry_non_idempotent=True)
BODY = b"pay" * 100

# --- a POST is seen as often as it is allowed ---

Ending = Callable[[RawConnection], None]


def fin(conn: RawConnection) -> None:
    conn.close()


def rst(conn: RawConnection) -> None:
    conn.reset()


ENDINGS: dict[str, Ending] = {"FIN": fin, "RST": rst}

# The last bytes that are sent after the whole request was read.
SAID: dict[str, bytes] = {
    "nothing": b"",
    "half a status line": b"HTTP/1.1 2",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
}


def seen(server: RawServer, method: str = "POST") -> int:
    return sum(request.startswith(method.encode()) for request in server.requests)


def fails(fault: Ending, reused: bool) -> Callable[[RawConnection], None]:
    """Fail every POST; on the first connection, if asked to, after one GET that works."""

    def handler(conn: RawConnection) -> None:
        if reused and conn.index == 0:
            conn.read_request()
            conn.send(response(b"first"))
        fault(conn)

    return handler


async def fail(client: AnyClient, server: RawServer, reused: bool) -> e.RequestException:
    """Return what a POST that always fails raises."""
    if reused:
        assert (await client.get(server.url)).content == b"first"
    with pytest.raises(e.RequestException) as caught:
        await client.post(server.url, data=BODY)
    return caught.value


def nothing_followed_what_may_have_arrived(error: e.RequestException) -> bool:
    errors = [each.error for each in error.attempts[:-1]]
    return all(each is not None and not each.request_sent for each in errors)


@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("said", SAID)
async def test_a_post_that_was_read_is_seen_once_or_as_often_as_is_allowed(
    make_client: MakeClient, said: str, ending: str, reused: bool
) -> None:
    def fault(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(SAID[said])
            ENDINGS[ending](conn)

    for policy, allowed in ((SAFE, 1), (WILLING, 3)):
        client = make_client(retry=policy)
        with RawServer(fails(fault, reused)) as server:
            error = await fail(client, server, reused)
            assert len(error.attempts) == allowed
            assert seen(server) == allowed
            await client.aclose()  # a POST that is still on its way would arrive now
            assert server.wait_for(lambda: server.open_connections == 0)
            assert seen(server) == allowed


@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("moment", ["at once", "in the head", "after the head", "in the body"])
async def test_a_post_that_was_not_read_whole_is_not_seen_again(
    make_client: MakeClient, moment: str, ending: str, reused: bool
) -> None:
    begun: list[int] = []

    def fault(conn: RawConnection) -> None:
        if moment == "in the head":
            begun.append(len(conn.read_exactly(10)))
        elif moment != "at once" and conn.read_head():  # b"": it was connected to, no more
            begun.append(conn.index)
            if moment == "in the body":
                conn.read_exactly(20)
        ENDINGS[ending](conn)

    client = make_client(retry=SAFE)
    with RawServer(fails(fault, reused)) as server:
        error = await fail(client, server, reused)
        assert nothing_followed_what_may_have_arrived(error)
        assert error.request_sent or not begun  # a RST may come before anything has left
        assert len(begun) == (moment != "at once")


async def test_a_post_whose_connection_is_refused_is_retried_until_one_opens(
    make_client: MakeClient,
) -> None:
    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            conn.send(response(b"paid"))

    with RawServer(handler) as server:
        server.stop_accepting()

        def reopen(event: Any) -> None:
            if event.number == 2:
                server.start_accepting()

        client = make_client(retry=SAFE, hooks={"before_sleep": reopen})
        found = await client.post(server.url, data=BODY)
        assert found.content == b"paid"
        assert len(found.attempts) == 3
        assert seen(server) == 1


async def test_a_post_that_is_always_refused_is_never_seen(make_client: MakeClient) -> None:
    client = make_client(retry=SAFE)
    with refused_port() as port:
        with pytest.raises(e.ConnectionError) as caught:
            await client.post(f"http://127.0.0.1:{port}/", data=BODY)
    assert len(caught.value.attempts) == 3
    assert not caught.value.request_sent


class CutsHandshakes(AppServer):
    """A server that ends its first two connections within the TLS handshake."""

    resets = False

    def wrap(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        if self.connections > 2:
            return super().wrap(sock, context)
        sock.recv(100)
        if self.resets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise OSError("cut")


@pytest.mark.parametrize("resets", [False, True], ids=["FIN", "RST"])
async def test_a_post_whose_handshake_is_cut_is_sent_once_it_succeeds(
    make_client: MakeClient, certs: Certs, resets: bool
) -> None:
    """It has not left the machine, so any method may be tried again."""
    client = make_client(retry=SAFE, http2=False)
    with CutsHandshakes(certs.server_context()) as server:
        server.resets = resets
        found = await client.post(server.url + "/echo", data=BODY)
        assert [attempt.status_code for attempt in found.attempts] == [None, None, 200]
        assert [record.body for record in server.requests] == [BODY]


async def test_an_unresolved_name_is_retried_with_any_method(
    make_client: MakeClient,
) -> None:
    client = make_client(retry=SAFE)
    with pytest.raises(e.ConnectionError) as caught:
        await client.post("http://nowhere.invalid/", data=BODY)
    assert len(caught.value.attempts) == 3


@pytest.mark.parametrize(("status", "count"), [(502, 3), (503, 3), (504, 3), (403, 1), (407, 1)])
async def test_the_response_to_connect_decides(
    make_client: MakeClient, status: int, count: int
) -> None:
    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(response(b"", f"{status} No"))

    with RawServer(handler) as proxy:
        client = make_client(retry=SAFE, proxies=proxy.url)
        with pytest.raises(e.ProxyError) as caught:
            await client.post("https://h.test/", data=BODY)
        assert caught.value.connect_status == status
        assert len(caught.value.attempts) == seen(proxy, "CONNECT") == count


async def test_an_unreachable_proxy_is_retried(make_client: MakeClient) -> None:
    with refused_port() as port:
        client = make_client(retry=SAFE, proxies=f"http://127.0.0.1:{port}")
        with pytest.raises(e.ProxyError) as caught:
            await client.post("https://h.test/", data=BODY)
    assert caught.value.connect_status is None
    assert len(caught.value.attempts) == 3


async def test_a_certificate_that_does_not_hold_is_tried_once(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    client = make_client(retry=SAFE, verify=True)
    with pytest.raises(e.SSLError) as caught:
        await client.get(tls_app.url)
    assert len(caught.value.attempts) == 1
    assert tls_app.connections == 1


async def test_a_request_that_http_2_refuses_repeatedly_is_resent_by_the_policy(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    """REFUSED_STREAM, which is sent again twice without a policy: RFC 9113, section 8.7."""
    slept: list[Any] = []
    client = make_client(http2=True, retry=SAFE, hooks={"before_sleep": slept.append})
    h2_app.memory.counts.clear()
    found = await client.post(h2_app.url + "/refuse?times=7", data=BODY)
    assert (found.content, len(found.attempts), len(slept)) == (b"hello", 3, 2)
    assert found.attempts[0].error.refused
    assert len(h2_app.requests) == 8


async def test_a_post_that_http_2_always_refuses_is_sent_as_often_as_allowed(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True, retry=SAFE)
    h2_app.memory.counts.clear()
    with pytest.raises(e.ConnectionError, match="refused the request before") as caught:
        await client.post(h2_app.url + "/refuse?times=100", data=BODY)
    assert len(caught.value.attempts) == 3
    # Once more if it first went out on the kept connection of the attempt before.
    assert 3 * 3 <= len(h2_app.requests) <= 3 + 2 * 4
    assert caught.value.refused


async def test_a_streamed_post_that_http_2_refuses_is_sent_again_whole(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    """libcurl could not even rewind it: CURLE_SEND_FAIL_REWIND."""
    client = make_client(http2=True, retry=SAFE)
    await client.get(h2_app.url)
    h2_app.memory.counts.clear()
    url = h2_app.url + "/refuse?times=8"
    found = await client.post(url, content=lambda: iter([BODY, BODY]))
    assert (found.content, len(found.attempts)) == (b"hello", 2)
    bodies = [record.body for record in h2_app.requests if record.method == "POST"]
    assert bodies == [BODY + BODY] * 9


@pytest.mark.parametrize("ending", ["cut", "reset", "close"])
@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
async def test_a_post_that_http_2_loses_is_seen_once(
    make_client: MakeClient, h2_app: H2Server, ending: str, reused: bool
) -> None:
    """Where a reused connection breaks, libcurl sends again as it does what was refused."""
    h2_app.stream_route("/lose", lambda record, stream: getattr(stream.session.conn, ending)())
    client = make_client(http2=True, retry=SAFE)
    if reused:
        await client.get(h2_app.url)
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(h2_app.url + "/lose", data=BODY)
    assert caught.value.request_sent
    assert not caught.value.refused
    assert len(caught.value.attempts) == 1
    assert sum(record.method == "POST" for record in h2_app.requests) == 1


async def test_a_header_cannot_pretend_that_the_server_refused(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    """What libcurl logs of the request itself must not be taken for the server's word."""
    h2_app.stream_route("/lose", lambda record, stream: stream.session.conn.reset())
    client = make_client(http2=True, retry=SAFE)
    await client.get(h2_app.url)
    headers = {"X-Fake": "HTTP/2 stream 3 refused by server, try again"}
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(h2_app.url + "/lose", data=BODY, headers=headers)
    assert not caught.value.refused
    assert sum(record.method == "POST" for record in h2_app.requests) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
async def test_the_fallback_to_http_1_is_part_of_the_attempt(
    make_client: MakeClient, h2_app: H2Server, method: str, reused: bool
) -> None:
    client = make_client(http2=True, retry=SAFE)
    if reused:
        await client.get(h2_app.url)
    found = await client.request(method, h2_app.url + "/http11-required")
    assert (found.content, found.http_version) == (b"hello", "HTTP/1.1")
    assert len(found.attempts) == 1


async def test_an_idempotent_request_may_be_sent_again_once_unseen(make_client: MakeClient) -> None:
    """On a connection that was kept alive and is dead; not on a new one."""

    def fault(conn: RawConnection) -> None:
        conn.read_request()

    for reused, count in ((False, 3), (True, 4)):
        client = make_client(retry=SAFE)
        with RawServer(fails(fault, reused)) as server:
            if reused:
                await client.get(server.url)
                server.requests.clear()
            with pytest.raises(e.ConnectionError) as caught:
                await client.get(server.url)
            assert len(caught.value.attempts) == 3
            assert seen(server, "GET") == count


# --- while it waits ---

FOR_LONG = RetryPolicy(2, backoff_strategy=ExponentialBackoff(base=60.0, max_backoff=60.0))


@pytest.mark.parametrize(("size", "left"), [(100, 1), (1_000_000, 0)])
async def test_no_connection_is_held_while_it_waits(
    make_client: MakeClient, app: AppServer, size: int, left: int
) -> None:
    """That of a small response goes back to the pool, that of a big one is closed."""
    held: list[Any] = []

    def look(event: Any) -> None:
        app.wait_for(lambda: app.open_connections == left)
        held.append((get_slots(client).used, app.open_connections))

    app.route("/busy", lambda record, out: out.reply(503, bytes(size)))
    client = make_client(
        retry=RetryPolicy(1, backoff_strategy=AT_ONCE), hooks={"before_sleep": look}
    )
    async with await client.stream("GET", app.url + "/busy") as stream:
        assert len(stream.real.attempts) == 2
    assert held == [(0, left)]


async def test_a_task_that_is_cancelled_while_it_waits_ends_at_once(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()
    if client.is_blocking:
        return
    waits = anyio.Event()

    async def notify(event: Any) -> None:
        waits.set()

    client = make_client(retry=FOR_LONG, hooks={"before_sleep": notify})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, app.url + "/status/503")
        with anyio.fail_after(30):
            await waits.wait()
        begun = time.perf_counter()
        tasks.cancel_scope.cancel()
    assert time.perf_counter() - begun < 30  # of sixty
    assert get_slots(client).used == 0
    assert len(app.requests) == 1


def test_ctrl_c_ends_the_wait_of_a_blocking_client(app: AppServer) -> None:
    def interrupt(event: Any) -> None:
        threading.Timer(0.05, interrupt_main_thread).start()

    with curlhttp.Client(retry=FOR_LONG, hooks={"before_sleep": interrupt}) as client:
        begun = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            client.get(app.url + "/status/503")
        assert time.perf_counter() - begun < 30  # of sixty
        assert client.get(app.url, retry=None).ok
    assert len(app.requests) == 2


async def test_a_client_that_is_closed_while_a_request_waits_sends_nothing_more(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()

    def close(event: Any) -> None:
        client.real.close() if client.is_blocking else setattr(client.real, "is_closed", True)

    client = make_client(
        retry=RetryPolicy(2, backoff_strategy=AT_ONCE), hooks={"before_sleep": close}
    )
    with pytest.raises(e.ClientClosed):
        await client.get(app.url + "/status/503")
    assert len(app.requests) == 1


async def test_all_attempts_together_keep_the_total(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(retry=RetryPolicy(9, backoff_strategy=AT_ONCE))
    total = paced(0.55)
    begun = time.perf_counter()
    with pytest.raises(e.DeadlineExceeded) as caught:
        await client.get(app.url + "/stall", timeout=Timeout(read=paced(0.2), total=total))
    assert time.perf_counter() - begun > total - 0.01
    assert_in_time(time.perf_counter() - begun, total, 0.3)
    assert len(caught.value.attempts) == 3
    assert isinstance(caught.value.__cause__, e.ReadTimeout)


# --- what users of the async clients know ---


async def test_the_snippets_work(app: AppServer, anyio_backend: Any, colour: str) -> None:
    if colour == "blocking":
        return
    client = curlhttp.AsyncClient(
        retry=curlhttp.RetryPolicy(
            max_retries=3,
            backoff_strategy=curlhttp.DecorrelatedJitterBackoff(base=0.1, max_backoff=10.0),
        ),
        breaker=curlhttp.CircuitBreaker(failure_threshold=5, recovery_timeout=30.0),
        max_connections=200,
        max_keepalive_connections=32,
        keepalive_expiry=120.0,
    )
    pieces = []
    async with await client.get(app.url + "/bytes/100000", stream=True) as response:
        async for chunk in response.aiter_bytes():
            pieces.append(chunk)
    assert len(b"".join(pieces)) == 100_000
    response = await client.get(app.url)
    assert await response.aread() == b"hello"
    for _ in range(5):
        await client.get(app.url + "/status/500")
    with pytest.raises(curlhttp.CircuitBreakerOpen):
        await client.get(app.url)
    await client.aclose()
