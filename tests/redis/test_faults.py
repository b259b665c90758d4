"""A Redis that is slow, frozen, gone or foreign: requests continue, with bounded waits."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import (
    CircuitBreaker,
    CircuitBreakerOpen,
    Client,
    ConcurrencyLimit,
    DeadlineExceeded,
    RateLimit,
    RetryBudget,
    RetryPolicy,
    StoreError,
    Timeout,
)
from curlhttp._features.shared_store import StoreCommand
from curlhttp.redis import RedisStore
from curlhttp.redis._connection import PendingCommand
from curlhttp.redis._scripts import parse_answer
from tests.redis.conftest import MakeStore
from tests.servers import AppServer
from tests.servers.redis_server import RedisServer
from tests.support.colours import AnyClient
from tests.support.internals import run_script
from tests.support.pace import paced

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
INF = float("inf")


def all_of(store: Any) -> dict[str, Any]:
    """Return all settings of a client that take a store."""
    budget = RetryBudget(store=store)
    return {
        "rate_limit": RateLimit(1000, burst=100, store=store),
        "concurrency_limit": ConcurrencyLimit(50, store=store),
        "breaker": CircuitBreaker(100, 30.0, store=store),
        "retry": RetryPolicy(1, budget=budget),
    }


@contextmanager
def listening(response: bytes = b"", to_script: bytes = b"") -> Iterator[int]:
    """Give the port of a server that says the same to whatever it gets, or nothing.

    Given another response for scripts, it says one thing to each command.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                ends.append(sock)
                threading.Thread(target=talk, args=(sock,), daemon=True).start()

        def talk(sock: socket.socket) -> None:
            try:
                while got := sock.recv(1 << 20):
                    if to_script:
                        for name in re.findall(rb"\*\d+\r\n\$\d+\r\n([A-Z]+)", got):
                            sock.sendall(to_script if name == b"EVALSHA" else response)
                    elif response:
                        sock.sendall(response)
            except OSError:
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for sock in ends:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


async def test_requests_continue_without_redis(
    make_client: MakeClient, app: AppServer, make_store: MakeStore
) -> None:
    store = make_store(f"redis://127.0.0.1:{free_port()}/0")
    client = make_client(**all_of(store))
    for _ in range(3):
        assert (await client.get(app.url)).status_code == 200
    assert (await client.get(app.url + "/status/503")).status_code == 503
    assert len(app.requests) == 5  # the last one was retried


@pytest.mark.parametrize(
    "response",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n", b"*-7\r\n", b"$999999999\r\n"],
)
async def test_requests_continue_whatever_replies_instead_of_redis(
    make_client: MakeClient, app: AppServer, make_store: MakeStore, response: bytes
) -> None:
    with listening(response) as port:
        store = make_store(f"redis://127.0.0.1:{port}/0", timeout=0.1)
        client = make_client(**all_of(store))
        for _ in range(5):
            assert (await client.get(app.url)).status_code == 200
        store.close()


def reply(*parts: int | str) -> bytes:
    """Return a list as Redis sends it."""
    lines = [f":{each}" if isinstance(each, int) else f"${len(each)}\r\n{each}" for each in parts]
    return "\r\n".join([f"*{len(parts)}", *lines, ""]).encode()


CIRCUIT = ("1", -2, 0, "", "", "closed", "1", 0, 0, 0, 0, 0, 0, 0)
NONSENSE = [
    b":1\r\n",
    b"*0\r\n",
    b"*2\r\n:1\r\n$-1\r\n",
    b"*2\r\n:1\r\n:" + 30 * b"9" + b"\r\n",
    b"*14\r\n" + 14 * b"$2\r\n\xc3\xa4\r\n",
    # Valid replies of a script, sent to every command.
    reply(0, 0),
    reply(0, 1),
    reply(0, 10**9),
    reply(0, "0.5"),
    reply(1, 10**15, "1", "1"),
    reply(*CIRCUIT),
    reply(*CIRCUIT[:5], "forced_open", *CIRCUIT[6:]),
]


@pytest.mark.parametrize("response", NONSENSE)
async def test_requests_continue_if_scripts_get_invalid_replies(
    make_client: MakeClient, app: AppServer, make_store: MakeStore, response: bytes
) -> None:
    with listening(b"+OK\r\n", response) as port:
        store = make_store(f"redis://127.0.0.1:{port}/0?protocol=2")
        for name, policy in all_of(store).items():
            store._connection._is_up = True
            client = make_client(**{name: policy}, timeout=Timeout(pool=30, total=30))
            assert (await client.get(app.url + "/status/503")).status_code == 503
        store.close()


@pytest.mark.parametrize("response", NONSENSE)
async def test_an_invalid_reply_is_an_error_if_the_store_is_required(
    make_client: MakeClient, app: AppServer, make_store: MakeStore, response: bytes
) -> None:
    with listening(b"+OK\r\n", response) as port:
        url = f"redis://127.0.0.1:{port}/0?protocol=2"
        store = make_store(url, on_error="refuse")
        for name, policy in all_of(store).items():
            store._connection._is_up = True
            client = make_client(**{name: policy}, timeout=Timeout(pool=30, total=30))
            if name == "retry":
                assert (await client.get(app.url + "/status/503")).budget_exhausted
                continue
            with pytest.raises(StoreError, match="does not respond"):
                await client.get(app.url)
        store.close()
    assert len(app.requests) == 1


HUGE = (1 << 53) - 1
ASKED = {
    "rate": StoreCommand("rate", "key", (1e6, 0.0, 5_000_000, 0)),
    "patient rate": StoreCommand("rate", "key", (1e6, 0.0, -1, 0)),
    "rate_back": StoreCommand("rate_back", "key", (1e6, "1", "1")),
    "budget": StoreCommand("budget", "key", (1, 0, 0, 1)),
    "lease": StoreCommand("lease", "key", ("take", "me", 1, 5_000_000, 2_000_000, 1)),
    "breaker": StoreCommand(
        "breaker", "key", ("admit", 5, -1, -1, 20, 0, 10, 10**7, 10**8, 2, 1, 10**7)
    ),
}
GOOD: dict[str, list[list[Any]]] = {
    "rate": [[1, 0, b"1", b"1"], [1, 5_000_000, b"1.5e15", b"1"], [0, 5_000_001]],
    "patient rate": [[1, 60_000_000, b"1", b"1"]],
    "rate_back": [[1]],
    "budget": [[1, b"0.5"], [0, b"-0.5"]],
    "lease": [[1, 0], [0, 0], [0, 9]],
    "breaker": [
        [b"1", -2, 0, b"", b"", b"closed", b"1", 0, 0, 0, 0, 0, 0, -HUGE],
        [b"1", -2, 1, b"open", b"half_open", b"half_open", b"1", 3, 0, 0, 0, 1, 7, 0],
        [b"1", 10**8, 0, b"", b"", b"open", b"1", 0, 0, 0, 0, 0, 0, 10**8],
        [b"1", -1, 0, b"", b"", b"forced_open", b"1", 0, 0, 0, 0, 0, 0, 0],
    ],
}
BAD: dict[str, list[list[Any]]] = {
    "rate": [
        [2, 0, b"1", b"1"],
        [1, -1, b"1", b"1"],
        [1, 6_000_000, b"1", b"1"],
        [1, 0, b"nan", b"1"],
        [1, 0, b"inf", b"1"],
        [1, 0, b"one", b"1"],
        [1, 0],
        [0, 0],
        [0, HUGE],
    ],
    "patient rate": [[1, HUGE, b"1", b"1"], [0, 60_000_000]],
    "rate_back": [[0], [2], [HUGE]],
    "budget": [[2, b"1"], [-1, b"1"], [1, b"nan"], [1, b"-inf"], [0, b""]],
    "lease": [[2, 0], [-1, 0], [0, -1], [1, 5]],
    "breaker": [
        [b"x", *CIRCUIT[1:]],
        [b"nan", -2, 0, b"", b"", b"closed", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -3, 0, b"", b"", b"closed", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", HUGE, 0, b"", b"", b"open", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -1, 0, b"", b"", b"closed", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", 5, 1, b"", b"", b"half_open", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -2, 2, b"", b"", b"half_open", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -2, 0, b"", b"", b"ajar", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -2, 0, b"open", b"ajar", b"closed", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -2, 0, b"", b"open", b"closed", b"1", 0, 0, 0, 0, 0, 0, 0],
        [b"1", -2, 0, b"", b"", b"closed", b"1", -1, 0, 0, 0, 0, 0, 0],
        [b"1", 5, 0, b"", b"", b"open", b"1", 0, 0, 0, 0, 0, 0, HUGE],
    ],
}


@pytest.mark.parametrize("name", ASKED)
def test_a_reply_must_be_valid_and_belong_to_its_command(name: str) -> None:
    question = ASKED[name]
    for parts in GOOD[name]:
        assert parse_answer([*parts, b"7"], question, "7") == parts
        for marked in ([*parts, b"8"], [*parts, 7], parts, [b"7"], [[*parts, b"7"]]):
            assert parse_answer(marked, question, "7") is None, marked
        for number, part in enumerate(parts):
            for other in (None, HUGE + 1, -HUGE - 1, 0.5, float("nan"), b"\xff", [1]):
                if other != part:
                    changed = [*parts[:number], other, *parts[number + 1 :], b"7"]
                    assert parse_answer(changed, question, "7") is None, changed
    for parts in BAD[name]:
        assert parse_answer([*parts, b"7"], question, "7") is None, parts


@pytest.mark.parametrize(
    ("key", "field", "value"), [("rate", "due", "9e15"), ("rate", "due", "1e300")]
)
async def test_foreign_data_in_a_key_makes_no_request_wait(
    make_client: MakeClient,
    app: AppServer,
    redis: RedisServer,
    make_store: MakeStore,
    key: str,
    field: str,
    value: str,
) -> None:
    client = make_client(**all_of(make_store(redis)))
    await client.get(app.url)
    with redis.client() as admin:
        (name,) = admin.keys(f"curlhttp:1:{key}:*")
        admin.hset(name, field, value)
    with anyio.fail_after(30):
        assert (await client.get(app.url)).status_code == 200


class Delayed:
    """A proxy to a Redis that delays its replies; use it as a context manager.

    Attributes:
        port: to connect to instead.
        seconds: that each piece of a response is held.
        connections: how many came.
        questions: how many scripts were to be run.
    """

    def __init__(self, port: int, seconds: float) -> None:
        self.seconds = seconds
        self.connections = self.questions = 0
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Delayed:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._threads[0].join()
        for sock in self._ends:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for sock in self._ends:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [near, far]
            for source, target in ((near, far), (far, near)):
                thread = threading.Thread(target=self._forward, args=(source, target, near))
                self._threads.append(thread)
                thread.start()

    def _forward(self, source: socket.socket, target: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 20):
                if source is near:
                    self.questions += piece.count(b"EVALSHA")
                else:
                    time.sleep(self.seconds)
                target.sendall(piece)


async def until(is_so: Callable[[], Any]) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.001)


async def test_a_connection_may_take_longer_than_a_reply(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    timeout = paced(0.05)
    with Delayed(redis.port, 1.5 * timeout) as delayed:
        url = f"redis://127.0.0.1:{delayed.port}/0"
        store = make_store(url, timeout=timeout, connect_timeout=100)
        client = make_client(rate_limit=RateLimit(100, store=store))
        # It takes seven replies; on a slow machine a request would not wait for as long as that.
        await until(lambda: store._connection.is_connected)
        await client.get(app.url)
        await until(lambda: delayed.questions)  # the relay's thread may be late
        store.close()


@pytest.mark.parametrize("name", ["rate_limit", "concurrency_limit", "breaker", "retry"])
async def test_a_client_connects_when_it_is_made(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore, name: str
) -> None:
    store = make_store(redis)
    policies = all_of(store)
    assert not store._connection.is_connected
    make_client(**{name: policies[name]})
    await until(lambda: store._connection.is_connected)
    assert len(app.requests) == 0


async def test_making_a_client_does_not_wait_for_redis(
    make_client: MakeClient, app: AppServer, make_store: MakeStore
) -> None:
    with listening() as port:  # it takes connections, and says nothing
        store = make_store(f"redis://127.0.0.1:{port}/0", timeout=30, connect_timeout=30)
        client = make_client(**all_of(store))
        assert store._connection.is_up()  # no effect yet
        begun = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await client.get(app.url, timeout=Timeout(total=paced(0.1)))
        assert time.monotonic() - begun < 15
        assert store._connection.is_up()  # a request without time says nothing of Redis
    store.close()


async def test_a_redis_with_late_replies_is_treated_as_unavailable(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    timeout = paced(0.2)
    with Delayed(redis.port, 0) as delayed:
        store = make_store(f"redis://127.0.0.1:{delayed.port}/0", timeout=timeout)
        client = make_client(rate_limit=RateLimit(10_000, burst=10_000, store=store))
        link = store._connection
        begun: list[Any] = []
        ended: list[Any] = []

        def serve(batch: Any, real: Any = link._serve) -> None:
            begun.append(batch)
            real(batch)
            ended.append(batch)

        link._serve = serve
        await until(lambda: link.is_connected)
        while not delayed.questions:  # what follows a new connection must not be late
            await client.get(app.url)
        await until(lambda: link._inbox.empty() and len(begun) == len(ended))
        app.reset_counts()
        delayed.seconds = 4 * timeout
        before = delayed.questions
        for _ in range(12):
            assert (await client.get(app.url)).status_code == 200
            await until(lambda: link._inbox.empty() and len(begun) == len(ended))
        assert 1 <= delayed.questions - before <= 3
        assert len(app.requests) == 12
        delayed.seconds = 0.0
        question = RateLimit(1)._make_reserve_command("http://b.test", INF)
        await until(lambda: store.ask_here(question) is not None)
        store.close()


async def test_a_frozen_redis_delays_the_first_requests_alone(
    make_client: MakeClient, app: AppServer, own_redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(own_redis, timeout=1.0)
    client = make_client(rate_limit=RateLimit(10_000, burst=10_000, store=store))
    await client.get(app.url)
    own_redis.freeze()
    try:
        begun = time.monotonic()
        await client.gather(8, "GET", app.url)
        first = time.monotonic() - begun
        begun = time.monotonic()
        for _ in range(8):
            await client.get(app.url)
        assert time.monotonic() - begun < first  # no one waits for the timeout any more
    finally:
        own_redis.thaw()
    with anyio.fail_after(60):
        while store.ask_here(RateLimit(1)._make_reserve_command("http://b.test", INF)) is None:
            await anyio.sleep(0.05)


async def test_states_are_joined_again_when_redis_is_back(
    make_client: MakeClient, app: AppServer, own_redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(own_redis)
    client = make_client(**all_of(store))
    await client.get(app.url)
    own_redis.kill()
    for _ in range(5):
        assert (await client.get(app.url)).status_code == 200
    own_redis.start()
    origin = app.url.rstrip("/")
    with own_redis.client() as admin, anyio.fail_after(60):
        while not admin.keys(f"curlhttp:1:rate:*{origin}"):
            assert (await client.get(app.url)).status_code == 200
            await anyio.sleep(0.02)


@pytest.mark.parametrize("name", ["maxmemory", "requirepass", "replicaof"])
def test_requests_continue_if_redis_refuses_writes_and_the_log_is_short(
    app: AppServer,
    own_redis: RedisServer,
    make_store: MakeStore,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    caplog.set_level(logging.INFO, "curlhttp")
    with own_redis.client() as admin:
        if name == "replicaof":
            admin.replicaof("127.0.0.1", free_port())
        else:
            admin.config_set(name, "1")
    with Client(**all_of(make_store(own_redis))) as client:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert client.get(app.url).status_code == 200
    said = [each.getMessage() for each in caplog.records if "store" in each.getMessage()]
    assert (
        "refuses the user name or password" if name == "requirepass" else "refuses commands"
    ) in (said[0])
    given = [value for each in caplog.records for value in each.args or ()]
    assert given
    assert not any(isinstance(value, BaseException) for value in given)  # would keep the client
    # Without memory, commands that change nothing still get replies.
    assert ["responds again" in text for text in said[1:]] in ([], [True])


def test_scripts_are_loaded_again_if_redis_forgot_them(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store, rate = make_store(redis), RateLimit(0.01)
    assert store.ask_here(rate._make_reserve_command("http://a.test", INF))[0] == 1
    with redis.client() as client:
        client.script_flush()
    assert store.ask_here(rate._make_reserve_command("http://a.test", INF))[1] > 90e6


async def test_refuse_raises_an_error_that_names_the_store(
    make_client: MakeClient, app: AppServer, make_store: MakeStore
) -> None:
    port = free_port()
    store = make_store(f"redis://user:secret@127.0.0.1:{port}/0", on_error="refuse")
    for name, setting in all_of(store).items():
        if name == "retry":
            continue
        client = make_client(**{name: setting})
        for _ in range(2):
            with pytest.raises(StoreError, match=f"127.0.0.1:{port}/0 does not respond") as caught:
                await client.get(app.url)
            assert "secret" not in str(caught.value)
            assert caught.value.request is not None
    assert app.requests == []


async def test_a_retry_that_a_silent_store_should_pay_for_is_not_sent(
    make_client: MakeClient, app: AppServer, make_store: MakeStore
) -> None:
    store = make_store(f"redis://127.0.0.1:{free_port()}/0", on_error="refuse")
    client = make_client(retry=RetryPolicy(2, budget=RetryBudget(store=store)))
    response = await client.get(app.url + "/status/503")
    assert response.budget_exhausted
    assert len(app.requests) == 1


async def test_the_log_says_once_that_redis_is_unavailable_and_once_that_it_is_back(
    app: AppServer,
    own_redis: RedisServer,
    make_store: MakeStore,
    caplog: pytest.LogCaptureFixture,
    make_client: MakeClient,
) -> None:
    url = own_redis.url.replace("redis://", "redis://:hunter2@")
    caplog.set_level(logging.INFO, "curlhttp")
    store = make_store(own_redis)
    rate = RateLimit(1000, store=store)
    store.ask_here(rate._make_reserve_command("http://a.test", INF))
    own_redis.kill()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        store.ask_here(rate._make_reserve_command("http://a.test", INF))
        await anyio.sleep(0.01)
    own_redis.start()
    with anyio.fail_after(60):
        while store.ask_here(rate._make_reserve_command("http://a.test", INF)) is None:
            await anyio.sleep(0.01)
        # The thread says so after it has handed over the response.
        while not any("responds again" in record.getMessage() for record in caplog.records):
            await anyio.sleep(0.01)
    said = [record.getMessage() for record in caplog.records if record.name == "curlhttp"]
    said = [text for text in said if "store" in text]
    assert [("does not respond" in text, "responds again" in text) for text in said] == [
        (True, False),
        (False, True),
    ]
    with RedisStore(url) as other:
        assert "hunter2" not in repr(other)


async def test_an_open_circuit_stays_open_without_redis(
    make_client: MakeClient, app: AppServer, own_redis: RedisServer, make_store: MakeStore
) -> None:
    breaker = CircuitBreaker(1, 30.0, store=make_store(own_redis))
    client = make_client(breaker=breaker)
    await client.get(app.url + "/status/503")
    own_redis.kill()
    for _ in range(3):
        with pytest.raises(CircuitBreakerOpen):
            await client.get(app.url)
        await anyio.sleep(0.15)
    assert len(app.requests) == 1


async def test_without_redis_a_process_has_its_own_circuits(
    make_client: MakeClient, app: AppServer, make_store: MakeStore
) -> None:
    breaker = CircuitBreaker(2, 30.0, store=make_store(f"redis://127.0.0.1:{free_port()}/0"))
    client = make_client(breaker=breaker)
    for _ in range(2):
        await client.get(app.url + "/status/503")
    with pytest.raises(CircuitBreakerOpen):
        await client.get(app.url)
    assert breaker.state(app.url) == "open"
    breaker.reset(app.url)
    assert (await client.get(app.url)).status_code == 200


@pytest.mark.parametrize("on_error", ["local", "refuse"])
def test_messages_say_that_the_password_is_wrong_and_what_follows(
    app: AppServer,
    own_redis: RedisServer,
    make_store: MakeStore,
    caplog: pytest.LogCaptureFixture,
    on_error: str,
) -> None:
    with own_redis.client() as admin:
        admin.config_set("requirepass", "right")
    url = own_redis.url.replace("redis://", "redis://:hunter2@")
    store = make_store(url, on_error=on_error)
    with Client(rate_limit=RateLimit(1000, store=store)) as client:
        for _ in range(2):  # the first one finds it out, the second one is not sent to Redis
            if on_error == "local":
                assert client.get(app.url).status_code == 200
                continue
            with pytest.raises(StoreError, match="refuses the user name or password") as caught:
                client.get(app.url)
            assert "hunter2" not in str(caught.value)
    (said,) = [each.getMessage() for each in caplog.records if "the store" in each.getMessage()]
    assert "refuses the user name or password" in said
    assert ("continues without it" in said) == (on_error == "local")
    assert ("requests raise StoreError" in said) == (on_error == "refuse")
    assert "hunter2" not in said


def test_a_closed_store_says_so(app: AppServer, make_store: MakeStore, redis: RedisServer) -> None:
    store = make_store(redis, on_error="refuse")
    store.close()
    with Client(rate_limit=RateLimit(1000, store=store)) as client:
        with pytest.raises(StoreError, match="is closed"):
            client.get(app.url)


# --- replies that come too late ---


async def test_requests_wait_for_a_late_reply_and_use_it(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore
) -> None:
    with Delayed(redis.port, 0) as delayed:
        # Far below what a reply takes, and it is given up far later.
        store = make_store(f"redis://127.0.0.1:{delayed.port}/0", timeout=0.001)
        link = store._connection
        link._late = -1000  # no failure
        client = make_client(rate_limit=RateLimit(10_000, burst=10_000, store=store))
        await until(lambda: link.is_connected)
        delayed.seconds = 0.05
        for _ in range(2):
            assert (await client.get(app.url)).status_code == 200
        assert link._late > -1000
        with redis.client() as admin:
            (name,) = admin.keys("curlhttp:1:rate:*")
            assert admin.hget(name, "due")
        # Neither was undone, which happens to answers that nobody waits for.
        assert not store._connection._inbox.qsize()
        with redis.client() as admin:
            assert not admin.keys("curlhttp:1:rate:*:freed")
        store.close()


async def test_the_third_late_reply_in_a_row_counts_as_a_failure(
    redis: RedisServer, make_store: MakeStore
) -> None:
    question = RateLimit(1000, burst=1000)._make_reserve_command("http://a.test", INF)
    with Delayed(redis.port, 0) as delayed:
        store = make_store(f"redis://127.0.0.1:{delayed.port}/0", timeout=0.01)
        store.ask_here(question)
        link = store._connection
        await until(lambda: link._inbox.empty())
        link._late = 0
        delayed.seconds = 0.1
        assert store.ask_here(question)
        assert store.ask_here(question)
        assert link.is_up()
        assert store.ask_here(question)  # its own answer counts, too
        await until(lambda: not link._is_up)
        store.close()


def test_a_thread_that_wakes_late_does_not_take_redis_to_be_late(
    redis: RedisServer, make_store: MakeStore
) -> None:
    store = make_store(redis, timeout=0.5)
    link = store._connection
    question = RateLimit(1000, burst=1000)._make_reserve_command("http://a.test", INF)
    store.ask_here(question)
    real = link._await_reply

    def starve(connection: Any) -> None:
        time.sleep(1.5)  # the reply is in the socket by then
        real(connection)

    link._await_reply = starve
    for _ in range(2):
        assert store.ask_here(question)
    assert link._late == 0
    assert link.is_up()


def test_a_late_grant_is_released(redis: RedisServer, make_store: MakeStore) -> None:
    store, rate = make_store(redis), RateLimit(0.01)
    link = store._connection
    store.ask_here(rate._make_reserve_command("http://a.test", INF))
    left: list[bool] = []

    class Late(PendingCommand):
        __slots__ = ()

        @property
        def is_claimed(self) -> bool:  # its caller leaves when it has been sent
            left.append(self.claim())
            return False

    late = Late(rate._make_reserve_command("http://a.test", INF), lambda: None)
    link.put(late)
    # Slots are a little further apart than the rate says; see shared-limits.md.
    assert 90e6 < store.ask_here(rate._make_reserve_command("http://a.test", INF))[1] < 201e6
    # The next request gets the reservation that was not used.
    waits = [store.ask_here(rate._make_reserve_command("http://a.test", INF))[1] for _ in range(2)]
    assert left == [True]
    assert min(waits) < 201e6
    assert max(waits) < 301e6


async def test_many_at_once_get_replies(
    make_client: MakeClient, app: AppServer, redis: RedisServer, make_store: MakeStore, colour: str
) -> None:
    if colour == "blocking":
        pytest.skip("that would be hundreds of threads")
    store = make_store(redis)
    client = make_client(**all_of(store), max_connections=50)
    async with anyio.create_task_group() as tasks:
        for _ in range(500):
            tasks.start_soon(client.get, app.url)
    assert len(app.requests) == 500
    store.close()
    with redis.client() as admin:
        assert [admin.zcard(name) for name in admin.keys("*lease*")] == []


# --- settings ---


def test_settings_that_make_no_sense_are_refused() -> None:
    bad: list[dict[str, Any]] = [{"timeout": 0}, {"timeout": INF}, {"on_error": "x"}]
    bad += [{"connect_timeout": 0}, {"connect_timeout": INF}]
    for settings in (*bad, {"prefix": ""}, {"prefix": "half \ud83d"}):
        with pytest.raises(ValueError):
            RedisStore("redis://localhost", **settings)
    with pytest.raises(ValueError, match="not a URL of Redis") as caught:
        RedisStore("redis://:secret/x@localhost:6379/0")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    import redis.asyncio

    with pytest.raises(TypeError, match="also for AsyncClient"):
        RedisStore(redis.asyncio.Redis())  # type: ignore[arg-type]


def test_a_client_of_the_users_lends_its_settings(redis: RedisServer) -> None:
    import redis as library

    given = library.Redis(port=redis.port, decode_responses=True, db=3)
    rate = RateLimit(0.1)
    with RedisStore(given, timeout=20) as store:
        response = store.ask_here(rate._make_reserve_command("http://a.test", INF))
        assert response is not None
        assert response[0] == 1
        assert "/3" in repr(store)
    assert len(given.keys("curlhttp:*")) == 1
    given.close()


def test_missing_permissions_for_keys_are_a_clear_error(redis: RedisServer, app: AppServer) -> None:
    with redis.client() as admin:
        admin.acl_setuser(
            "mallory",
            enabled=True,
            nopass=True,
            keys=["mine:*"],
            categories=["+@all"],
            reset=True,
        )
    url = redis.url.replace("redis://", "redis://mallory:x@")
    with RedisStore(url, timeout=20) as store:
        with Client(rate_limit=RateLimit(5, store=store)) as client:
            with pytest.raises(StoreError, match="may not use keys with prefix 'curlhttp'"):
                client.get(app.url)
    with RedisStore(url, timeout=20, prefix="mine") as store:
        with Client(rate_limit=RateLimit(5, store=store)) as client:
            assert client.get(app.url).status_code == 200


def test_a_closed_or_dropped_store_leaves_nothing(redis: RedisServer) -> None:
    def count() -> int:
        return [each.name for each in threading.enumerate()].count("curlhttp-redis")

    before = count()
    store = RedisStore(redis.url, timeout=20)
    store.ask_here(RateLimit(1)._make_reserve_command("http://a.test", INF))
    assert count() == before + 1
    store.close()
    assert count() == before
    assert store.ask_here(RateLimit(1)._make_reserve_command("http://a.test", INF)) is None
    store = RedisStore(redis.url, timeout=20)
    store.ask_here(RateLimit(1)._make_reserve_command("http://a.test", INF))
    del store
    end = time.monotonic() + 60
    while count() > before:
        assert time.monotonic() < end
        time.sleep(0.01)


_LAZY = """
import sys, curlhttp
curlhttp.Client(rate_limit=curlhttp.RateLimit(5)).close()
print(*[name for name in ("redis", "curlhttp.redis", "curlhttp.redis") if name in sys.modules])
"""


def test_redis_is_imported_on_first_use() -> None:
    assert run_script(_LAZY).strip() == ""
    assert curlhttp.redis.RedisStore is RedisStore
