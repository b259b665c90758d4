"""Bearer tokens from a function: how often it is called, for which request, and its failures."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import BearerAuth
from curlhttp.testing import Answer, ScriptedEngine
from tests.servers import AppServer
from tests.support.colours import ONE_OF_EACH, AnyClient, needs_fork
from tests.support.internals import run_in_fork, waiting_for_token
from tests.support.scripted import URL, Scripted

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]


class Tokens:
    """A function that gives a new token each time."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"t{self.count}"


def sent(engine: Any) -> list[str | None]:
    return [each.headers.get("Authorization") for each in engine.sent]


@ONE_OF_EACH
async def test_a_function_is_called_for_each_request(scripted: Scripted) -> None:
    client, engine = scripted([200, 401, 200], auth=BearerAuth(Tokens()))
    for _ in range(3):
        await client.get(URL)
    assert sent(engine) == ["Bearer t1", "Bearer t2", "Bearer t3"]


@ONE_OF_EACH
async def test_a_token_is_cached_until_it_expires(scripted: Scripted) -> None:
    client, engine = scripted([200] * 3, auth=BearerAuth(Tokens(), expires=60.0))
    await client.get(URL)
    engine.advance(59.0)
    await client.get(URL)
    engine.advance(1.0)
    await client.get(URL)
    assert sent(engine) == ["Bearer t1", "Bearer t1", "Bearer t2"]


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("challenge", "again"),
    [
        (None, True),
        ("Bearer", True),
        ('Bearer realm="a", error="invalid_token"', True),
        ("Bearer error=invalid_token", True),
        ('Bearer error="insufficient_scope"', False),
        ('Bearer error="invalid_request", error_description="invalid_token"', False),
    ],
)
async def test_a_refused_cached_token_is_fetched_again_once(
    scripted: Scripted, challenge: str | None, again: bool
) -> None:
    headers = {} if challenge is None else {"WWW-Authenticate": challenge}
    refusal = Answer(401, headers=headers)
    client, engine = scripted([refusal, refusal], auth=BearerAuth(Tokens(), expires=60.0))
    found = await client.get(URL)
    assert found.status_code == 401
    assert sent(engine) == (["Bearer t1", "Bearer t2"] if again else ["Bearer t1"])
    assert [past.status_code for past in found.history] == ([401] if again else [])


@ONE_OF_EACH
async def test_a_refused_token_with_a_consumed_body_returns_the_401(scripted: Scripted) -> None:
    client, engine = scripted([401, 200], auth=BearerAuth(Tokens(), expires=60.0))
    found = await client.post(URL, content=iter([b"a"]))
    assert found.status_code == 401
    await client.post(URL, content=b"a")
    assert sent(engine) == ["Bearer t1", "Bearer t2"]


async def test_an_async_function_is_for_async_clients(scripted: Scripted) -> None:
    async def fetch() -> str:
        await anyio.sleep(0)
        return "t0ken"

    client, engine = scripted([200, 200])
    for function in (fetch, lambda: fetch()):
        if client.is_blocking:
            with pytest.raises(TypeError, match="BearerAuth has an async function"):
                await client.get(URL, auth=BearerAuth(function))
        else:
            await client.get(URL, auth=BearerAuth(function))
    assert sent(engine) == ([] if client.is_blocking else ["Bearer t0ken"] * 2)


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("token", "error"),
    [(None, TypeError), (b"x", TypeError), ("", ValueError), ("a b", ValueError)],
)
async def test_an_invalid_token_is_not_sent(
    scripted: Scripted, token: Any, error: type[Exception]
) -> None:
    client, engine = scripted([])
    with pytest.raises(error):
        await client.get(URL, auth=BearerAuth(lambda: token))
    assert engine.sent == []


@pytest.mark.parametrize("expires", (0, -1, float("nan")))
def test_wrong_times_are_refused(expires: float) -> None:
    with pytest.raises(ValueError, match="expires"):
        BearerAuth(lambda: "x", expires=expires)
    with pytest.raises(ValueError, match="expires"):
        BearerAuth("x", expires=1.0)


def test_it_cannot_be_pickled_or_copied() -> None:
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds credentials"):
            function(BearerAuth("s3cret"))


# --- many at once, on real engines ---


class Slow:
    """A function that is held until the test lets it go, and fails or returns."""

    def __init__(self, is_async: bool, outcomes: list[Any]) -> None:
        self.is_async = is_async
        self.outcomes = outcomes
        self.calls = 0
        self.begun = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> Any:
        self.calls += 1
        return self._wait() if self.is_async else self._end()

    async def _wait(self) -> str:
        self.begun.set()
        while not self.release.is_set():
            await anyio.sleep(0.005)
        return self._outcome()

    def _end(self) -> str:
        self.begun.set()
        assert self.release.wait(30)
        return self._outcome()

    def _outcome(self) -> str:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)


async def get_many(
    client: AnyClient, url: str, auth: BearerAuth, slow: Slow, count: int
) -> list[Any]:
    """Send requests at once, let the function go when all stand in line; return what came."""
    results: list[Any] = []

    async def one() -> None:
        try:
            if client.is_blocking:
                results.append(
                    await anyio.to_thread.run_sync(
                        lambda: client.real.get(url, auth=auth),
                        limiter=anyio.CapacityLimiter(count),
                    )
                )
            else:
                results.append(await client.real.get(url, auth=auth))
        except Exception as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
        await until(lambda: waiting_for_token(auth) == count)
        slow.release.set()
    return results


async def test_many_requests_wait_for_one_call(client: AnyClient, app: AppServer) -> None:
    slow = Slow(not client.is_blocking, ["t0ken"])
    auth = BearerAuth(slow)
    results = await get_many(client, app.url + "/bearer?token=t0ken", auth, slow, 20)
    assert [result.status_code for result in results] == [200] * 20
    assert slow.calls == 1
    assert waiting_for_token(auth) == 0


async def test_a_failure_is_raised_in_all_waiters_and_the_next_request_tries_again(
    client: AnyClient, app: AppServer
) -> None:
    slow = Slow(not client.is_blocking, [LookupError("no token"), "t0ken"])
    auth = BearerAuth(slow)
    results = await get_many(client, app.url + "/bearer?token=t0ken", auth, slow, 10)
    assert [str(result) for result in results] == ["no token"] * 10
    assert len({id(result) for result in results}) == 10  # each has its own traceback
    assert slow.calls == 1
    assert (await client.get(app.url + "/bearer?token=t0ken", auth=auth)).status_code == 200


@pytest.mark.parametrize("colour", ("asyncio", "uvloop", "trio"), indirect=True)
async def test_the_next_waiter_takes_over_from_a_cancelled_one(
    client: AnyClient, app: AppServer
) -> None:
    slow = Slow(True, ["t0ken"])
    auth = BearerAuth(slow, expires=60.0)
    url = app.url + "/bearer?token=t0ken"
    scopes: list[anyio.CancelScope] = []
    results: list[Any] = []

    async def one() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            results.append(await client.real.get(url, auth=auth))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one)
            await until(lambda number=number: waiting_for_token(auth) == number + 1)  # type: ignore[misc]
        scopes[1].cancel()  # it waits, and is forgotten
        await until(lambda: waiting_for_token(auth) == 4)
        scopes[0].cancel()  # it calls
        await until(lambda: slow.calls == 2)
        scopes[2].cancel()  # it took over
        await until(lambda: slow.calls == 3)
        slow.release.set()
    assert [result.status_code for result in results] == [200, 200]
    assert waiting_for_token(auth) == 0


@pytest.mark.parametrize("colour", ("asyncio", "trio"), indirect=True)
async def test_all_of_a_thousand_may_be_cancelled(client: AnyClient, app: AppServer) -> None:
    slow = Slow(True, ["t0ken"])
    auth = BearerAuth(slow)
    async with anyio.create_task_group() as tasks:
        for _ in range(1000):
            tasks.start_soon(lambda: client.real.get(app.url, auth=auth))
        await until(lambda: waiting_for_token(auth) == 1000)
        tasks.cancel_scope.cancel()
    assert waiting_for_token(auth) == 0
    slow.release.set()
    assert (await client.get(app.url + "/bearer?token=t0ken", auth=auth)).status_code == 200


async def test_one_that_waits_too_long_says_so(client: AnyClient, app: AppServer) -> None:
    slow = Slow(not client.is_blocking, ["t0ken"])
    auth = BearerAuth(slow)
    url = app.url + "/bearer?token=t0ken"
    errors: list[Exception] = []

    def send(timeout: Any) -> Any:
        return client.real.get(url, auth=auth, timeout=timeout)

    async def one(timeout: Any) -> None:
        try:
            await (anyio.to_thread.run_sync(send, timeout) if client.is_blocking else send(timeout))
        except Exception as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, None)
        await until(slow.begun.is_set)
        tasks.start_soon(one, curlhttp.Timeout(total=0.05))
        tasks.start_soon(one, curlhttp.Timeout(pool=0.05))
        await until(lambda: len(errors) == 2)
        slow.release.set()
    assert {type(error) for error in errors} == {curlhttp.DeadlineExceeded, curlhttp.PoolTimeout}
    assert all("was not sent" in str(error) for error in errors)
    assert waiting_for_token(auth) == 0


async def test_clients_of_several_kinds_share_one_call(app: AppServer) -> None:
    """Threads, and event loops in threads, wait for a call in another one."""
    slow = Slow(False, ["t0ken"])
    auth = BearerAuth(slow)
    url = app.url + "/bearer?token=t0ken"
    statuses: list[int] = []

    def block() -> None:
        with curlhttp.Client() as client:
            statuses.append(client.get(url, auth=auth).status_code)

    async def fetch() -> None:
        async with curlhttp.AsyncClient() as client:
            statuses.append((await client.get(url, auth=auth)).status_code)

    threads = [threading.Thread(target=block)]
    threads += [threading.Thread(target=anyio.run, args=(fetch,)) for _ in range(2)]
    threads += [
        threading.Thread(target=anyio.run, args=(fetch,), kwargs={"backend": "trio"})
        for _ in range(2)
    ]
    for number, thread in enumerate(threads):
        thread.start()
        await until(lambda number=number: waiting_for_token(auth) == number + 1)  # type: ignore[misc]
    slow.release.set()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert statuses == [200] * 5
    assert slow.calls == 1


@needs_fork
def test_a_forked_child_does_not_wait_for_a_fetch_of_its_parent() -> None:
    parent, begun, may_end = os.getpid(), threading.Event(), threading.Event()

    def fetch() -> str:
        if os.getpid() == parent:
            begun.set()
            assert may_end.wait(60)
        return "t"

    auth = BearerAuth(fetch)

    def send() -> None:
        engine = ScriptedEngine([200])
        with curlhttp.Client(transport=engine, auth=auth) as client:
            client.get("https://h.test/")
        assert engine.sent[0].headers["Authorization"] == "Bearer t"

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(send)
        assert begun.wait(30)
        try:
            assert run_in_fork(send) == 0
        finally:
            may_end.set()
        first.result(30)
