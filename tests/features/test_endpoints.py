"""Several endpoints in both clients: retries, hedges, redirects, cookies, credentials."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import CircuitBreaker, ConcurrencyLimit, Endpoints, Hedge
from curlhttp.exceptions import ConnectionError, ConnectTimeout
from curlhttp.testing import Answer
from tests.servers import AppConnection, AppServer, RawServer, Record
from tests.servers.websocket import echo, speaking
from tests.support.downloads import download
from tests.support.internals import waiting_for_first_endpoints
from tests.support.scripted import Scripted, asks, moved, steady

A, B, C = (f"http://{name}.test" for name in "abc")


def hosts(engine: Any) -> list[str]:
    return [curlhttp.URL(sent.url).host[0] for sent in engine.sent]


def pending(endpoints: Endpoints) -> int:
    return sum(state.pending for state in endpoints.states(0.0))


async def test_requests_are_spread(scripted: Scripted) -> None:
    endpoints = Endpoints([A, B])
    client, engine = scripted([200] * 10, base_url=endpoints)
    responses = [await client.get(f"/users/{number}") for number in range(10)]
    assert Counter(hosts(engine)) == {"a": 5, "b": 5}
    assert [response.url for response in responses] == [sent.url for sent in engine.sent]
    assert pending(endpoints) == 0


async def test_a_retry_goes_to_another_endpoint(scripted: Scripted) -> None:
    for failure in (503, ConnectTimeout("slow")):
        endpoints = Endpoints([A, B, C])
        client, engine = scripted([failure] * 2 + [200], base_url=endpoints, retry=steady(2))
        response = await client.get("/x")
        assert sorted(hosts(engine)) == ["a", "b", "c"]
        assert response.url == engine.sent[-1].url
        assert [each.number for each in response.attempts] == [1, 2, 3]
        assert pending(endpoints) == 0


async def test_one_that_asks_to_wait_does_not_delay_another(scripted: Scripted) -> None:
    client, engine = scripted(
        [asks(30), asks(30), 200], base_url=Endpoints([A, B]), retry=steady(2)
    )
    await client.get("/")
    first, second = engine.sleeps
    assert first == 1.0
    assert second >= 30.0  # both have asked when the third attempt begins


async def test_an_open_circuit_leads_to_another_endpoint(scripted: Scripted) -> None:
    def answer(request: Any) -> Any:
        return ConnectTimeout("slow") if request.url.host == "a.test" else 200

    breaker = CircuitBreaker(1, 30.0)
    client, engine = scripted(answer, base_url=Endpoints([A, B]), retry=steady(2), breaker=breaker)
    for _ in range(6):
        assert (await client.get("/")).status_code == 200
    assert Counter(hosts(engine))["a"] == 1
    assert breaker.state(A) == "open"
    assert breaker.state(B) == "closed"
    assert sum(engine.sleeps) < 10


async def test_failing_endpoints_are_ejected(scripted: Scripted) -> None:
    def answer(request: Any) -> Any:
        return 500 if request.url.host == "a.test" else 200

    endpoints = Endpoints([A, B], eject_after=2, choose="round_robin")
    client, _ = scripted(answer, base_url=endpoints)
    statuses = Counter([(await client.get("/")).status_code for _ in range(20)])
    assert statuses == {500: 2, 200: 18}


async def test_cookies_and_credentials_are_for_all_of_them(scripted: Scripted) -> None:
    client, engine = scripted(
        [Answer(200, headers={"Set-Cookie": "s=1"})] + [200] * 4,
        base_url=Endpoints([A, B]),
        auth=("user", "pass"),
    )
    for _ in range(4):
        await client.get("/")
    await client.get("http://c.test/")
    *members, other = engine.sent
    assert {curlhttp.URL(sent.url).host for sent in members} == {"a.test", "b.test"}
    assert all("authorization" in sent.headers for sent in members)
    assert [sent.headers.get("cookie") for sent in members] == [None, "s=1", "s=1", "s=1"]
    assert other.url == "http://c.test/"
    assert "cookie" not in other.headers


async def test_redirects_to_members_keep_credentials_and_others_do_not(
    scripted: Scripted,
) -> None:
    for target, keeps in ((f"{B}/y", True), ("/y", True), (f"{C}/y", False)):
        client, engine = scripted(
            [moved(target), 200], base_url=Endpoints([A, B]), auth=("user", "pass")
        )
        response = await client.get("/x")
        assert ("authorization" in engine.sent[1].headers) == keeps
        assert response.url.endswith("/y")
        assert len(response.history) == 1


async def test_limits_are_those_of_an_origin(scripted: Scripted) -> None:
    limit = ConcurrencyLimit(1)
    endpoints = Endpoints([A, B])
    client, _ = scripted([200, 200], base_url=endpoints, concurrency_limit=limit)
    first = await client.stream("GET", "/")
    second = await client.stream("GET", "/")
    assert [limit.in_use(f"{each}:80") for each in (A, B)] == [1, 1]
    assert pending(endpoints) == 2  # until the bodies are read
    for stream in (first, second):
        async with stream:
            await stream.read()
    assert pending(endpoints) == 0


async def test_a_list_is_read_again(scripted: Scripted) -> None:
    lists: list[Any] = [[A], OSError("no answer"), [B], [C]]

    def list_urls() -> list[str]:
        found = lists.pop(0)
        if isinstance(found, Exception):
            raise found
        return list(found)

    endpoints = Endpoints(list_urls, refresh=10)
    client, engine = scripted([503, 200] * 5, base_url=endpoints, retry=steady(1))
    for number in range(5):
        await client.get(f"/{number}")  # a second later
        engine.advance(5)
    # Read at the start; 12 s later it failed, and 12 s later it was read.
    assert hosts(engine) == ["a"] * 8 + ["b"] * 2
    assert lists == [[C]]


async def test_the_first_list_must_come(scripted: Scripted) -> None:
    def broken() -> list[str]:
        raise OSError("no answer")

    client, engine = scripted([200], base_url=Endpoints(broken))
    with pytest.raises(ConnectionError, match="the function that lists the endpoints failed"):
        await client.get("/")
    assert not engine.sent


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_an_async_function_lists_them(make_client: Any, app: AppServer) -> None:
    async def list_urls() -> list[str]:
        await anyio.sleep(0)
        return [app.url]

    client = make_client(base_url=Endpoints(list_urls))
    assert (await client.get("/bytes/3")).url == app.url + "/bytes/3"


def of(url: str) -> str:
    return curlhttp.URL(url).host


async def test_the_clients_credentials_are_for_the_endpoints_alone(scripted: Scripted) -> None:
    jar = curlhttp.Cookies({"everywhere": "1"})
    jar.set("own", "2", domain="c.test")
    client, engine = scripted(
        [200] * 20,
        base_url=Endpoints([A, B]),
        auth=("user", "pass"),
        headers={"X-Key": "secret", "X-Team": "blue", "Cookie": None},
        sensitive_headers=["X-Key"],
        cookies=jar,
    )
    for number in range(2):
        await client.get(f"/{number}")
    for url, options in (
        (f"{C}/1", {}),
        (f"{C}/2", {"headers": {"X-More": "1"}}),
        (f"{C}/3", {"headers": {"Authorization": "mine", "X-Key": "mine"}}),
        (f"{C}/4", {"auth": ("me", "mine"), "cookies": {"mine": "3"}}),
        ("http://me:mine@c.test/5", {}),
        (f"{C}/6", {"stream": True}),
    ):
        await client.get(url, **options)
    await client.send(client.real.build_request("GET", f"{C}/7"))
    await client.send(curlhttp.ClientRequest("GET", f"{C}/8"))
    sent = [each.headers for each in engine.sent]
    for headers in sent[:2]:
        assert {"authorization", "x-key", "x-team"} <= {name.lower() for name in headers}
        assert headers["cookie"] == "everywhere=1"
    others = sent[2:]
    assert [headers.get("authorization") is not None for headers in others] == [
        *(False, False, True, True, True, False, False, False)
    ]
    assert [headers.get("x-key") for headers in others] == [None, None, "mine"] + [None] * 5
    assert all(headers["x-team"] == "blue" for headers in others[:-1])
    assert [headers["cookie"] for headers in others] == (
        ["own=2"] * 3 + ["own=2; mine=3"] + ["own=2"] * 4
    )


async def test_a_header_of_the_client_is_for_the_endpoints_alone(scripted: Scripted) -> None:
    client, engine = scripted(
        [200, 200, moved(f"{C}/y"), 200, 200],
        base_url=Endpoints([A, B]),
        headers={"Authorization": "Bearer secret"},
        cookies={"session": "secret"},
    )
    await client.get("/")
    await client.get(f"{C}/")
    await client.get("/x")  # redirected
    client.real.headers = {"Authorization": "Bearer other"}
    await client.get(f"{C}/")
    seen = [
        (of(each.url) == "c.test", each.headers.get("authorization"), each.headers.get("cookie"))
        for each in engine.sent
    ]
    member, other = (False, "Bearer secret", "session=secret"), (True, None, None)
    assert seen == [member, other, member, other, other]


async def test_services_that_share_a_cache_do_not_share_responses(scripted: Scripted) -> None:
    cache = curlhttp.Cache(":memory:")
    for name in ("a", "b"):
        kept = Answer(200, content=name.encode(), headers={"Cache-Control": "max-age=60"})
        endpoints = Endpoints(partial(list, [f"http://{name}.test"]))
        client, engine = scripted([kept], base_url=endpoints, cache=cache)
        for _ in range(2):
            assert (await client.get("/x")).content == name.encode()
        assert len(engine.sent) == 1


@pytest.mark.parametrize("listed", [False, True])
async def test_the_endpoints_share_each_cookie(scripted: Scripted, listed: bool) -> None:
    urls = ["https://a.one.test/api", "https://b.two.test/v1"]

    def answer(request: Any) -> Any:
        host, path = of(request.url), curlhttp.URL(request.url).path
        site, base = ("one", "/api") if host.startswith("a.") else ("two", "/v1")
        lines = {
            "/domain": f"s=1; Domain={site}.test",
            "/path": f"s=1; Path={base}",
            "/deep": f"s=1; path={base}/see",
            "/secure": "s=1; Secure; Path=/",
            "/plain": "s=1; Path=/",
        }
        line = lines.get(path.removeprefix(base))
        if path.endswith("/forget"):
            line = f"s=; Path={base}; Max-Age=0"
        return Answer(200, headers={} if line is None else {"Set-Cookie": line})

    for path in ("/domain", "/path", "/deep", "/secure", "/plain"):
        for skipped in (0, 1):  # both of them set it
            endpoints = Endpoints((lambda: urls) if listed else urls)
            client, engine = scripted(answer, base_url=endpoints)
            for _ in range(skipped):
                await client.get("/")
            await client.get(path)
            assert client.real.cookies["s"] == "1"  # and there is only one
            for _ in range(2):
                await client.get("/see/it")
            seen = engine.sent[-2:]
            assert [each.headers.get("cookie") for each in seen] == ["s=1"] * 2
            assert {of(each.url) for each in seen} == {"a.one.test", "b.two.test"}
            if path == "/path":
                await client.get("/forget")
                assert not client.real.cookies
    await client.get("https://a.two.test/other")
    assert "cookie" not in engine.sent[-1].headers


async def test_another_site_cannot_set_a_cookie_of_the_endpoints(scripted: Scripted) -> None:
    client, _ = scripted(
        [Answer(200, headers={"Set-Cookie": "s=1; Domain=other.test"})] * 2,
        base_url=Endpoints([A, B]),
    )
    for _ in range(2):
        await client.get("/")
    assert not client.real.cookies


@pytest.mark.parametrize("listed", [False, True])
async def test_digest_answers_the_one_that_asked(scripted: Scripted, listed: bool) -> None:
    def answer(request: Any) -> Any:
        nonce = f'nonce="{of(request.url)}"'
        if nonce in (request.headers.get("authorization") or ""):
            return 200
        challenge = f'Digest realm="r", {nonce}, qop="auth"'
        return Answer(401, headers={"WWW-Authenticate": challenge})

    secure = ["https://a.test", "https://b.test"]
    endpoints = Endpoints((lambda: secure) if listed else [A, B])
    client, engine = scripted(answer, base_url=endpoints, auth=curlhttp.DigestAuth("me", "mine"))
    for _ in range(4):
        assert (await client.get("/")).status_code == 200
    assert hosts(engine)[::2] == hosts(engine)[1::2] == ["a", "b", "a", "b"]
    assert pending(endpoints) == 0


async def test_a_redirect_is_relative_to_the_one_that_answered(scripted: Scripted) -> None:
    urls = ["http://a.test/api", "http://b.test/v1"]

    def answer(request: Any) -> Any:
        url = curlhttp.URL(request.url)
        base = "/" + url.path.split("/")[1]
        return moved(f"{base}/new?x=1#there") if url.path == f"{base}/old" else 200

    client, engine = scripted(answer, base_url=Endpoints(urls), auth=("me", "mine"))
    for path in ("/old", "/", "/old"):
        assert (await client.get(path)).status_code == 200
    assert {each.url.removesuffix("#there") for each in engine.sent} <= {
        f"{url}{path}" for url in urls for path in ("/old", "/new?x=1", "/")
    }
    assert len(engine.sent) == 5
    assert all("authorization" in each.headers for each in engine.sent)


async def test_the_list_may_come_through_the_same_client(scripted: Scripted) -> None:
    def list_urls() -> list[str]:
        registry = curlhttp.Client(transport=engine, base_url=endpoints)
        registry.get(f"{C}/registry")
        return [A]

    endpoints = Endpoints(list_urls)
    client, engine = scripted([200, 200], base_url=endpoints)
    await client.get("/")
    assert hosts(engine) == ["c", "a"]


async def test_retry_after_counts_if_there_is_no_other_endpoint(scripted: Scripted) -> None:
    endpoints = Endpoints([A, B], eject_after=1, eject_for=1000)
    client, engine = scripted([500, asks(20), 200], base_url=endpoints, retry=steady(1))
    await client.get("/")
    await client.get("/")  # the other one is ejected
    assert hosts(engine) == ["a", "b", "b"]
    assert engine.sleeps[0] >= 20.0


async def test_endpoints_keep_their_scheme(scripted: Scripted) -> None:
    lists = [[A], ["https://a.test"], [B]]
    client, engine = scripted([200] * 3, base_url=Endpoints(lambda: lists.pop(0), refresh=5))
    for _ in range(3):
        await client.get("/")
        engine.advance(10)
    assert [each.url for each in engine.sent] == [f"{A}/", f"{A}/", f"{B}/"]


def test_a_blocking_client_awaits_no_list() -> None:
    async def list_urls() -> list[str]:
        return [A]

    with pytest.raises(TypeError, match="lists the endpoints needs AsyncClient"):
        curlhttp.Client(base_url=Endpoints(list_urls))


# --- one call of the function for many requests ---


class Lister:
    """A function that waits until all requests wait for it, and returns a list or fails."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls = 0
        self.error: BaseException | None = None
        self.all_wait = threading.Event()

    def __call__(self) -> list[str]:
        self.calls += 1
        assert self.all_wait.wait(30)
        if self.error is not None:
            raise self.error
        return [self.url]

    async def list_async(self) -> list[str]:
        self.calls += 1
        while not self.all_wait.is_set():
            await anyio.sleep(0.002)
        if self.error is not None:
            raise self.error
        return [self.url]


async def send_together(client: Any, lister: Lister, endpoints: Endpoints, count: int) -> list[Any]:
    """Send so many requests, and let the function go on when all of them wait for it."""

    async def let_go() -> None:
        while waiting_for_first_endpoints(endpoints) < count:
            await anyio.sleep(0.002)
        lister.all_wait.set()

    if client.is_blocking:
        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(client.real.get, "/bytes/3") for _ in range(count)]
            await let_go()
            return [future.exception() or future.result() for future in futures]
    results: list[Any] = []

    async def send() -> None:
        try:
            results.append(await client.get("/bytes/3"))
        except curlhttp.RequestException as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(send)
        await let_go()
    return results


async def test_one_request_lists_them_for_all_that_wait(
    make_client: Any, app: AppServer, colour: str
) -> None:
    lister = Lister(app.url)
    endpoints = Endpoints(lister.list_async if colour == "trio" else lister)
    client = make_client(base_url=endpoints)
    results = await send_together(client, lister, endpoints, 20)
    assert [response.status_code for response in results] == [200] * 20
    assert lister.calls == 1


async def test_a_failure_is_for_all_that_wait_and_the_next_one_calls_again(
    make_client: Any, app: AppServer
) -> None:
    lister = Lister(app.url)
    lister.error = OSError("no answer")
    endpoints = Endpoints(lister)
    client = make_client(base_url=endpoints)
    results = await send_together(client, lister, endpoints, 20)
    assert {type(error) for error in results} == {ConnectionError}
    assert len({id(error) for error in results}) == 20
    assert all(error.__cause__ is lister.error and error.request for error in results)
    assert lister.calls == 1
    lister.error = None
    assert (await client.get("/bytes/3")).status_code == 200
    assert lister.calls == 2


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancelled_request_leaves_the_first_list_to_the_next_one(
    make_client: Any, app: AppServer
) -> None:
    lister = Lister(app.url)
    endpoints = Endpoints(lister.list_async)
    client = make_client(base_url=endpoints)
    results: list[Any] = []

    async def send(scope: anyio.CancelScope) -> None:
        with scope:
            results.append(await client.get("/bytes/3"))

    async with anyio.create_task_group() as tasks:
        first = anyio.CancelScope()
        tasks.start_soon(send, first)
        while lister.calls < 1:
            await anyio.sleep(0.002)
        tasks.start_soon(send, anyio.CancelScope())
        while waiting_for_first_endpoints(endpoints) < 2:
            await anyio.sleep(0.002)
        first.cancel()
        while lister.calls < 2:
            await anyio.sleep(0.002)
        lister.all_wait.set()
    assert [response.status_code for response in results] == [200]
    assert lister.calls == 2


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_a_cancelled_refresh_is_left_to_the_next_request(
    make_client: Any, app: AppServer
) -> None:
    calls: list[str] = []

    async def list_urls() -> list[str]:
        calls.append("begun")
        if len(calls) == 2:
            await anyio.sleep_forever()
        return [app.url]

    endpoints = Endpoints(list_urls, refresh=0.05)
    client = make_client(base_url=endpoints)
    await client.get("/bytes/3")
    await anyio.sleep(0.06)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, "/bytes/3")
        while len(calls) < 2:
            await anyio.sleep(0.002)
        await client.get("/bytes/3")  # with the old list
        assert len(calls) == 2
        tasks.cancel_scope.cancel()
    await client.get("/bytes/3")
    await client.get("/bytes/3")
    assert len(calls) == 3


async def test_a_function_that_needs_its_own_list_is_told_so(
    make_client: Any, app: AppServer
) -> None:
    def list_urls() -> list[str]:
        with curlhttp.Client(base_url=endpoints) as other:
            other.get("/list")
        return []

    endpoints = Endpoints(list_urls)
    with pytest.raises(ConnectionError, match="wait for the list forever"):
        await make_client(base_url=endpoints).get("/")


# --- on sockets ---


async def test_every_api_finds_a_server_that_works(
    make_client: Any, app: AppServer, tmp_path: Any
) -> None:
    endpoints = Endpoints(["http://127.0.0.1:1", app.url], eject_after=1000)
    client = make_client(base_url=endpoints, retry=2)
    for _ in range(3):
        assert (await client.get("/bytes/3")).content
        async with await client.stream("GET", "/bytes/3") as stream:
            assert await stream.read()
        results = [result async for result in client.map(["/bytes/3"] * 3)]
        assert [result.url for result in results] == [app.url + "/bytes/3"] * 3
        await download(client, "/bytes/3", tmp_path / "file")
    assert pending(endpoints) == 0


def stall(record: Record, conn: AppConnection) -> None:
    conn.wait_closed(60)


def answer_late(record: Record, conn: AppConnection) -> None:
    conn.wait_closed(0.2)
    conn.reply(200, b"slow")


def ask_late_to_wait(record: Record, conn: AppConnection) -> None:
    conn.wait_closed(0.2)
    conn.reply(503, b"slow", [("Retry-After", "3600")])


async def test_a_hedge_goes_to_another_endpoint(make_client: Any) -> None:
    with AppServer() as slow, AppServer() as fast:
        slow.route("/x", stall)
        fast.route("/x", lambda record, conn: conn.reply(200, b"fast"))
        endpoints = Endpoints([slow.url, fast.url], choose="round_robin")
        breaker = CircuitBreaker(1, 30.0)
        limit = ConcurrencyLimit(1)
        client = make_client(
            base_url=endpoints, hedge=Hedge(after=0.02), breaker=breaker, concurrency_limit=limit
        )
        for _ in range(6):
            response = await client.get("/x")
            assert (response.content, response.url) == (b"fast", fast.url + "/x")
        assert slow.requests  # three, unless a hedge was faster than the connection
        assert pending(endpoints) == 0
        assert {breaker.state(url) for url in (slow.url, fast.url)} == {"closed"}
        assert [limit.in_use(curlhttp.URL(each.url).origin) for each in (slow, fast)] == [0, 0]


async def test_a_limit_learns_from_a_hedge_about_its_own_endpoint(make_client: Any) -> None:
    learned: list[tuple[str, Any]] = []

    class Limit(curlhttp.AdaptiveLimit):
        def _note_response(self, origin: str, *observed: Any) -> None:
            learned.append((origin, observed[0]))

        def _note_failure(self, origin: str, error: BaseException, *observed: Any) -> None:
            learned.append((origin, isinstance(error, Exception)))

    with AppServer() as slow, AppServer() as fast:
        slow.route("/x", stall)
        fast.route("/x", lambda record, conn: conn.reply(200, b"fast"))
        endpoints = Endpoints([slow.url, fast.url], choose="round_robin")
        client = make_client(base_url=endpoints, hedge=Hedge(after=0.02), concurrency_limit=Limit())
        await client.get("/x")
        assert sorted(learned) == sorted([(slow.url, False), (fast.url, 200)])


async def test_a_hedge_counts_for_its_own_endpoint(make_client: Any) -> None:
    with AppServer() as slow, AppServer() as broken:
        slow.route("/x", answer_late)
        broken.route("/x", lambda record, conn: conn.reply(503))
        endpoints = Endpoints([slow.url, broken.url], choose="round_robin", eject_after=1)
        breaker = CircuitBreaker(1, 30.0)
        client = make_client(base_url=endpoints, hedge=Hedge(after=0.02), breaker=breaker)
        response = await client.get("/x")
        assert response.content == b"slow"
        assert (breaker.state(slow.url), breaker.state(broken.url)) == ("closed", "open")
        ejected = [state.url for state in endpoints.states(0.0) if state.ejected_for]
        assert ejected == [broken.url + "/"]


async def test_a_hedge_that_is_not_sent_uses_up_no_endpoint(make_client: Any) -> None:
    with AppServer() as slow, AppServer() as other:
        slow.route("/x", ask_late_to_wait)
        other.route("/x", lambda record, conn: conn.reply(200, b"other"))
        endpoints = Endpoints([slow.url, other.url], choose="round_robin")
        budget = curlhttp.RetryBudget(reserve=0, ratio=0)
        client = make_client(
            base_url=endpoints,
            hedge=Hedge(after=0.02, budget=budget),
            retry=curlhttp.RetryPolicy(1, budget=None),
        )
        response = await client.get("/x")
        assert (response.content, len(response.attempts)) == (b"other", 2)
        assert pending(endpoints) == 0


async def test_a_websocket_goes_to_one_that_works(make_client: Any) -> None:
    with RawServer(speaking(echo)) as server:
        endpoints = Endpoints(["http://127.0.0.1:1", server.url])
        client = make_client(base_url=endpoints, retry=2)
        for _ in range(2):
            async with await client.websocket("/") as websocket:
                await websocket.send("hello")
                assert await websocket.recv() == "hello"
        assert pending(endpoints) == 0


@pytest.mark.colours("asyncio", "uvloop", "trio")
async def test_cancelled_requests_are_not_pending(make_client: Any, app: AppServer) -> None:
    endpoints = Endpoints([app.url])
    client = make_client(base_url=endpoints)
    for _ in range(4):
        with anyio.move_on_after(0.03):
            await client.get("/stall")
    assert pending(endpoints) == 0
