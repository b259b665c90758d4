"""Equal GETs that are under way at the same time share one transfer."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import RetryBudget, Timeout
from curlhttp.exceptions import ConnectionError, DeadlineExceeded
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import needs_fork
from tests.support.internals import run_in_fork, waiting_for_equal_requests
from tests.support.scripted import steady

ASYNC = pytest.mark.colours("asyncio", "uvloop", "trio")
MakeClient = Callable[..., Any]


class Gate:
    """A path whose responses wait until the test lets them go."""

    def __init__(self, app: AppServer) -> None:
        self.app = app
        self.url = app.url + "/gate"
        self.opened = threading.Event()
        self.status = 200
        self.lost = 0
        app.route("/gate", self._answer)

    def _answer(self, record: Record, conn: AppConnection) -> None:
        while not self.opened.is_set():
            if conn.wait_closed(0.005):
                self.lost += 1
                conn.closing = True
                self.app.note()
                return
        conn.reply(self.status, b"body", [("Set-Cookie", "s=1")])

    @property
    def count(self) -> int:
        return sum(record.path == "/gate" for record in self.app.requests)


@pytest.fixture
def gate(app: AppServer) -> Gate:
    return Gate(app)


async def gather(client: Any, url: str, count: int, gate: Gate, **options: Any) -> list[Any]:
    """Send so many equal requests at once, and let the first one go when all of them wait."""
    if client.is_blocking:
        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(client.real.get, url, **options) for _ in range(count)]
            await when_waiting(client, count - 1)
            gate.opened.set()
            return [future.exception() or future.result() for future in futures]
    results: list[Any] = []

    async def send() -> None:
        try:
            results.append(await client.get(url, **options))
        except curlhttp.RequestException as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(send)
        await when_waiting(client, count)
        gate.opened.set()
    return results


async def when_waiting(client: Any, count: int) -> None:
    for _ in range(4000):
        if sum(waiting_for_equal_requests()) >= count:
            return
        await anyio.sleep(0.002)
    raise AssertionError("they do not wait")


async def test_equal_requests_share_one_transfer(make_client: MakeClient, gate: Gate) -> None:
    client = make_client(coalesce=True)
    responses = await gather(client, gate.url, 5, gate)
    assert gate.count == 1
    assert [response.status_code for response in responses] == [200] * 5
    assert len({id(response) for response in responses}) == 5
    responses[0].headers["X-Own"] = "1"
    assert "x-own" not in responses[1].headers
    assert client.real.cookies["s"] == "1"
    assert waiting_for_equal_requests() == []
    assert (await client.get(gate.url)).status_code == 200
    assert gate.count == 2  # nothing is kept


async def test_without_it_nothing_is_shared(make_client: MakeClient, gate: Gate) -> None:
    gate.opened.set()
    client = make_client()
    assert [r.status_code for r in await client.gather(3, "GET", gate.url)] == [200] * 3
    assert gate.count == 3


async def test_an_error_is_shared_and_retried_once(make_client: MakeClient, gate: Gate) -> None:
    gate.status = 503
    client = make_client(coalesce=True, retry=steady(1))
    responses = await gather(client, gate.url, 4, gate)
    assert gate.count == 2
    assert [len(response.attempts) for response in responses] == [2] * 4


async def test_each_gets_its_own_exception(make_client: MakeClient, gate: Gate) -> None:
    def close(record: Record, conn: AppConnection) -> None:
        while not gate.opened.is_set():
            conn.wait_closed(0.005)
        conn.closing = True

    gate.app.route("/gate", close)
    client = make_client(coalesce=True)
    errors = await gather(client, gate.url, 4, gate)
    assert gate.count == 1
    assert all(isinstance(error, ConnectionError) for error in errors)
    assert len({id(error) for error in errors}) == 4
    assert len({str(error) for error in errors}) == 1
    assert all(error.request_sent for error in errors)


@pytest.mark.parametrize(
    "changes",
    [
        [{"headers": {"X-A": "1"}}, {"headers": {"X-A": "2"}}],
        [{"auth": ("a", "b")}, {"auth": ("a", "c")}],
        [{"params": {"a": 1}}, {"params": {"a": 2}}],
        [{"headers": {"Cache-Control": "no-store"}}] * 2,
        [{"timeout": 50}, {"timeout": 51}],
        [{"max_response_size": 50}, {"max_response_size": 51}],
        [{"cookies": {"a": "1"}}, {"cookies": {"a": "2"}}],
        [{"stream": True}] * 2,
    ],
    ids=str,
)
@ASYNC
async def test_others_do_not_share(
    make_client: MakeClient, gate: Gate, changes: list[dict[str, Any]]
) -> None:
    client = make_client(coalesce=True)
    async with anyio.create_task_group() as tasks:
        for options in changes:

            async def send(options: dict[str, Any] = options) -> None:
                response = await client.get(gate.url, **options)
                await response.aread()

            tasks.start_soon(send)
        while gate.count < 2:
            await anyio.sleep(0.002)
        gate.opened.set()
    assert gate.count == 2


@ASYNC
async def test_a_post_is_not_shared(make_client: MakeClient, gate: Gate) -> None:
    gate.opened.set()
    client = make_client(coalesce=True)
    await client.gather(3, "POST", gate.url, content=b"x")
    assert gate.count == 3


@ASYNC
async def test_a_cancelled_request_ends_only_its_wait(make_client: MakeClient, gate: Gate) -> None:
    client = make_client(coalesce=True)
    results: list[Any] = []
    scopes: list[anyio.CancelScope] = []

    async def send() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            results.append(await client.get(gate.url))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(send)
        await when_waiting(client, 3)
        while gate.count < 1:
            await anyio.sleep(0.002)
        scopes[0].cancel()  # the one that began it
        scopes[1].cancel()
        await anyio.sleep(0.05)
        gate.opened.set()
    assert [response.status_code for response in results] == [200]
    assert (gate.count, gate.lost) == (1, 0)


@ASYNC
async def test_the_last_one_ends_the_transfer(make_client: MakeClient, gate: Gate) -> None:
    client = make_client(coalesce=True)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(client.get, gate.url)
        while gate.count < 1:
            await anyio.sleep(0.002)
        tasks.cancel_scope.cancel()
    while gate.lost < 1:
        await anyio.sleep(0.002)
    assert gate.count == 1
    assert waiting_for_equal_requests() == []
    gate.opened.set()
    assert (await client.get(gate.url)).status_code == 200


async def test_a_deadline_ends_only_its_wait(make_client: MakeClient, gate: Gate) -> None:
    """The second request has more time left than the first one, which began the transfer."""
    client = make_client(coalesce=True)
    options = {"timeout": Timeout(total=0.4)}
    results: list[Any] = []

    def send_blocking() -> None:
        try:
            results.append(client.real.get(gate.url, **options))
        except DeadlineExceeded as error:
            results.append(error)

    async def send() -> None:
        try:
            results.append(await client.get(gate.url, **options))
        except DeadlineExceeded as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for delay in (0, 0.2):
            await anyio.sleep(delay)
            if client.is_blocking:
                tasks.start_soon(anyio.to_thread.run_sync, send_blocking)
            else:
                tasks.start_soon(send)
        while not results:
            await anyio.sleep(0.002)
        gate.opened.set()
    first, second = results
    assert isinstance(first, DeadlineExceeded)
    # On a slow machine, the second one's time may be over as well.
    assert isinstance(second, DeadlineExceeded) or second.status_code == 200


async def test_map_shares_too(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(coalesce=True)
    results = [result async for result in client.map([app.url + "/delay/0.2"] * 8, concurrency=8)]
    assert [result.status_code for result in results] == [200] * 8
    assert len(app.requests) == 1


async def test_streams_downloads_and_hooks_work_as_before(
    make_client: MakeClient, app: AppServer
) -> None:
    seen: list[int] = []
    client = make_client(coalesce=True, hooks={"response": lambda r: seen.append(r.status_code)})
    async with await client.stream("GET", app.url + "/bytes/3") as stream:
        assert len(await stream.read()) == 3
    await client.get(app.url + "/redirect/1")
    assert seen == [200, 200]


def test_an_interrupted_thread_leaves_the_request_to_another(app: AppServer) -> None:
    gate = Gate(app)

    class Interrupt(BaseException):
        """Stands for Ctrl-C, which only the main thread gets."""

    first = threading.current_thread()

    async def interrupt(request: Any, send: Any) -> Any:
        if threading.current_thread() is first:
            while sum(waiting_for_equal_requests()) < 1:
                threading.Event().wait(0.002)
            raise Interrupt
        return await send(request)

    with curlhttp.Client(coalesce=True, attempt_middleware=[interrupt]) as client:
        with ThreadPoolExecutor(1) as pool:

            def follow() -> Any:
                while not waiting_for_equal_requests():
                    threading.Event().wait(0.002)
                return client.get(gate.url)

            future = pool.submit(follow)
            gate.opened.set()
            with pytest.raises(Interrupt):
                client.get(gate.url)
            assert future.result(60).status_code == 200
    assert gate.count == 1


@needs_fork
def test_a_forked_child_waits_for_nobody(gate: Gate) -> None:
    with curlhttp.Client(coalesce=True) as client, ThreadPoolExecutor(2) as threads:
        first = threads.submit(client.get, gate.url)
        assert gate.app.wait_for(lambda: gate.count == 1)
        child = threads.submit(run_in_fork, lambda: client.get(gate.url))
        assert gate.app.wait_for(lambda: gate.count == 2)
        gate.opened.set()
        assert (child.result(60), first.result(60).status_code) == (0, 200)


async def test_each_has_its_own_history_and_request(make_client: MakeClient, gate: Gate) -> None:
    """Also in threads, where the first one goes on before the others copy its response."""
    gate.app.route("/moved", lambda record, conn: conn.reply(302, b"", [("Location", "/gate")]))
    client = make_client(coalesce=True)
    responses = await gather(client, gate.url, 3, gate)
    assert [response.history for response in responses] == [[]] * 3
    assert len({id(response.request) for response in responses}) == 3
    for _ in range(10):  # the redirect may be over before the others ask for it
        responses = await client.gather(8, "GET", gate.app.url + "/moved")
        assert [len(response.history) for response in responses] == [1] * 8


@ASYNC
async def test_what_is_not_compared_is_that_of_each_request(
    make_client: MakeClient, gate: Gate
) -> None:
    seen: list[tuple[str, str, Any]] = []
    numbers = iter(range(9))

    async def mark(request: Any, send: Any) -> Any:
        number = next(numbers)
        request = request.derive(extensions={"number": number, number: None})
        response = await send(request)
        own = response.request.extensions
        seen.append((request.url.fragment, response.request.url.fragment, own))
        assert own == {"number": number, number: None, "attempt": 1}
        return response

    async def attempt(request: Any, send: Any) -> Any:
        request.extensions["attempt"] = 1
        return await send(request)

    client = make_client(coalesce=True, middleware=[mark], attempt_middleware=[attempt])
    async with anyio.create_task_group() as tasks:
        for fragment in "abc":
            tasks.start_soon(client.get, f"{gate.url}#{fragment}")
        await when_waiting(client, 3)
        gate.opened.set()
    assert gate.count == 1
    assert sorted(sent for sent, _, _ in seen) == ["a", "b", "c"]
    assert all(sent == received for sent, received, _ in seen)


async def test_an_exhausted_budget_is_seen_by_all(make_client: MakeClient, gate: Gate) -> None:
    gate.status = 503
    retry = steady(1, budget=RetryBudget(0, reserve=0))
    client = make_client(coalesce=True, retry=retry)
    responses = await gather(client, gate.url, 3, gate)
    assert [response.budget_exhausted for response in responses] == [True] * 3


class Failure(BaseException):
    """As that of pytest.fail() in a mock; no Exception, and no cancellation."""


async def test_any_exception_ends_the_transfer(make_client: MakeClient, gate: Gate) -> None:
    sent: list[Any] = []

    async def fail(request: Any, send: Any) -> Any:
        sent.append(request)
        raise Failure("of the test")

    client = make_client(coalesce=True, attempt_middleware=[fail])
    with pytest.raises(Failure, match="of the test"):
        await client.get(gate.url)
    assert len(sent) == 1
    assert waiting_for_equal_requests() == []


@pytest.mark.colours("asyncio", "uvloop")
async def test_a_cancellation_of_its_own_below_is_the_error_of_all_that_wait(
    make_client: MakeClient, gate: Gate
) -> None:
    sent: list[Any] = []
    raised = asyncio.CancelledError("of the middleware")

    async def fail(request: Any, send: Any) -> Any:
        sent.append(request)
        await send(request)
        raise raised

    client = make_client(coalesce=True, attempt_middleware=[fail])
    errors: list[BaseException] = []

    async def send() -> None:
        try:
            await client.get(gate.url)
        except asyncio.CancelledError as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(send)
        await when_waiting(client, 3)
        gate.opened.set()
    assert [str(error) for error in errors] == ["of the middleware"] * 3
    assert (len(sent), gate.count) == (1, 1)
    assert waiting_for_equal_requests() == []


class Strict(Exception):
    """One with required keywords, which copy.copy cannot make again."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Sealed(Exception):
    """One that nobody but its maker can make, such as pydantic's ValidationError."""

    def __new__(cls, *args: object) -> Sealed:
        raise TypeError("No constructor defined")

    @classmethod
    def make(cls) -> Sealed:
        return Exception.__new__(cls)


class Slotted(Exception):
    __slots__ = ("detail",)

    def __init__(self, detail: str) -> None:
        self.detail = detail


class ReadOnly(Exception):
    """One whose text depends on what no attribute tells."""

    def __init__(self) -> None:
        super().__init__()
        _SECRETS[id(self)] = "its own text"

    def __str__(self) -> str:
        return _SECRETS.get(id(self), "lost")


_SECRETS: dict[int, str] = {}


@pytest.mark.parametrize(
    ("make", "is_copied"),
    [
        (lambda: Strict(code=3), True),
        (lambda: Slotted("here"), True),
        (lambda: UnicodeDecodeError("utf-8", b"abc\xff", 3, 4, "invalid start byte"), True),
        (lambda: OSError(2, "No such file", "/x"), True),
        (lambda: ImportError("no", name="n", path="p"), True),
        (lambda: Sealed.make(), False),
        (lambda: ReadOnly(), False),
        (lambda: ConnectionError("refused", curl_code=7), True),
    ],
    ids=["keywords", "slots", "unicode", "os", "import", "sealed", "text", "own"],
)
async def test_an_error_that_cannot_be_copied_is_raised_itself(
    make_client: MakeClient, gate: Gate, make: Callable[[], Exception], is_copied: bool
) -> None:
    error = make()
    error.__dict__["extra"] = 1

    async def fail(request: Any, send: Any) -> Any:
        await send(request)
        raise error

    client = make_client(coalesce=True, attempt_middleware=[fail])
    found: list[Exception] = []

    def keep(call: Callable[[], Any]) -> None:
        with pytest.raises(type(error)) as raised:
            call()
        found.append(raised.value)

    async def send() -> None:
        with pytest.raises(type(error)) as raised:
            await client.get(gate.url)
        found.append(raised.value)

    if client.is_blocking:
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(keep, lambda: client.real.get(gate.url)) for _ in range(3)]
            await when_waiting(client, 2)
            gate.opened.set()
            for future in futures:
                future.result()
    else:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(send)
            await when_waiting(client, 3)
            gate.opened.set()
    assert {str(each) for each in found} == {str(error)}
    assert {each.__dict__["extra"] for each in found} == {1}
    names = ("detail", "code", "start", "object", "errno", "filename", "name", "path", "curl_code")
    for name in names:
        expected = getattr(error, name, None)
        assert all(getattr(each, name, None) == expected for each in found)
    assert (len({id(each) for each in found}) == 3) is is_copied


async def test_errors_say_where_they_come_from(make_client: MakeClient, gate: Gate) -> None:
    async def fail(request: Any, send: Any) -> Any:
        await send(request)
        raise KeyError("of the middleware")

    client = make_client(coalesce=True, attempt_middleware=[fail])
    client_errors: list[BaseException] = []

    async def send() -> None:
        try:
            await client.get(gate.url)
        except KeyError as error:
            client_errors.append(error)

    gate.opened.set()
    await send()
    if not client.is_blocking:
        gate.opened.clear()
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(send)
            await when_waiting(client, 2)
            gate.opened.set()
        assert len({id(error) for error in client_errors}) == 3
    for error in client_errors:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert "fail" in names


@ASYNC
async def test_notes_of_one_error_are_not_in_another(make_client: MakeClient, gate: Gate) -> None:
    async def fail(request: Any, send: Any) -> Any:
        await send(request)
        error = ConnectionError("lost", request=request)
        error.__notes__ = ["shared"]  # type: ignore[attr-defined]  # add_note of Python 3.11
        raise error

    client = make_client(coalesce=True, attempt_middleware=[fail])
    first, second = await gather(client, gate.url, 2, gate)
    first.__notes__.append("of the first")
    assert (first.__notes__[0], second.__notes__) == ("shared", ["shared"])
    assert first.request is not second.request


@ASYNC
async def test_a_request_that_shares_with_nobody_has_the_usual_error(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(coalesce=True)
    with pytest.raises(DeadlineExceeded) as caught:
        await client.get(app.url + "/stall", timeout=Timeout(total=0.05))
    assert "shared" not in str(caught.value)
    assert caught.value.timings is not None


@ASYNC
async def test_a_closed_client_leaves_nobody_waiting(make_client: MakeClient, gate: Gate) -> None:
    client = make_client(coalesce=True)
    results: list[Any] = []

    async def send() -> None:
        try:
            await client.get(gate.url)
        except curlhttp.ClientClosed as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(send)
        await when_waiting(client, 3)
        await client.aclose()
    assert len(results) == 3
    assert waiting_for_equal_requests() == []


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_coalesce_is_a_bool(value: Any) -> None:
    for client in (curlhttp.Client, curlhttp.AsyncClient):
        with pytest.raises(TypeError, match="coalesce must be True or False, not "):
            client(coalesce=value)
