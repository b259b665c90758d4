"""The circuit breaker in both clients: which real and scripted exchanges it counts."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import (
    AsyncClient,
    CircuitBreaker,
    CircuitBreakerOpen,
    Client,
    DeadlineExceeded,
    Timeout,
)
from curlhttp.testing import Answer, ScriptedEngine, refused, reset, silent, untrusted
from curlhttp.types import Transition
from tests.servers import (
    AppConnection,
    AppServer,
    BlackHole,
    HTTPProxy,
    Record,
    refused_port,
)
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.internals import handles_of, in_thread

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

URL = "http://a.test/"
ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])


class Scripted:
    """A client with a breaker, on a script; its clock is the script's."""

    def __init__(self, make_client: MakeClient, script: Any, **settings: Any) -> None:
        breaker = {k: settings.pop(k) for k in list(settings) if k in _OF_THE_BREAKER}
        self.breaker = CircuitBreaker(**breaker)
        self.engine = ScriptedEngine(script)
        self.client = make_client(breaker=self.breaker, transport=self.engine, **settings)

    async def ask(self, times: int = 1, url: str = URL, **options: Any) -> list[Any]:
        """Return statuses, or the classes of what was raised."""
        found: list[Any] = []
        for _ in range(times):
            try:
                found.append((await self.client.get(url, **options)).status_code)
            except curlhttp.RequestException as error:
                found.append(type(error))
        return found


_OF_THE_BREAKER = set(CircuitBreaker.__init__.__annotations__)


async def test_it_opens_half_opens_and_closes(make_client: MakeClient) -> None:
    script = [503, reset(), 500, refused(), silent(), 503, 200, 404]
    scripted = Scripted(make_client, script, recovery_timeout=30.0)
    await scripted.ask(5)
    assert scripted.breaker.state(URL) == "open"
    assert await scripted.ask(2) == [CircuitBreakerOpen] * 2
    scripted.engine.advance(30)
    assert await scripted.ask(2) == [503, CircuitBreakerOpen]
    scripted.engine.advance(30)
    assert await scripted.ask(2) == [200, 404]
    assert scripted.breaker.state(URL) == "closed"
    assert len(scripted.engine.sent) == 8


async def test_a_server_that_stops_reading_counts_as_failed(make_client: MakeClient) -> None:
    late = curlhttp.WriteTimeout("late", request_sent=True)
    scripted = Scripted(make_client, [late], failure_threshold=1, recovery_timeout=30.0)
    await scripted.ask()
    assert scripted.breaker.state(URL) == "open"


async def test_a_refusal_says_why_and_sends_nothing(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [503], failure_threshold=1, recovery_timeout=30.0)
    await scripted.ask()
    with pytest.raises(CircuitBreakerOpen, match=r"http://a\.test:80 is open for 30 s") as caught:
        await scripted.client.post(URL + "x?secret=1", content=b"body")
    error = caught.value
    assert error.retry_after == 30.0
    assert error.request is not None
    assert error.request.method == "POST"
    assert (error.request_sent, error.response) == (False, None)
    assert "secret" not in str(error)
    assert len(scripted.engine.sent) == 1


async def test_a_request_that_opened_the_circuit_says_what_failed(make_client: MakeClient) -> None:
    script = [503, reset()]
    scripted = Scripted(make_client, script, failure_threshold=1, recovery_timeout=5.0, retry=2)
    with pytest.raises(CircuitBreakerOpen) as caught:
        await scripted.client.get(URL)
    assert caught.value.response is not None
    assert (caught.value.response.status_code, caught.value.request_sent) == (503, True)
    scripted.engine.advance(5)
    with pytest.raises(CircuitBreakerOpen) as caught:
        await scripted.client.get(URL)
    assert isinstance(caught.value.__cause__, curlhttp.ConnectionError)


async def test_a_refusal_touches_no_network(make_client: MakeClient, app: AppServer) -> None:
    breaker = CircuitBreaker(recovery_timeout=30.0)
    client = make_client(breaker=breaker)
    breaker.force_open(app.url)
    with pytest.raises(CircuitBreakerOpen):
        await client.get(app.url)
    assert app.connections == 0
    if client.is_blocking:
        assert handles_of(client) == set()  # no handle was made: no name looked up


async def test_an_invalid_request_does_not_change_the_circuit(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [], failure_threshold=1)
    cases: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"url": "http://a b/"}, curlhttp.InvalidURL),
        ({"url": URL, "headers": {"X": "1\r\n2"}}, curlhttp.InvalidHeader),
        ({"url": URL, "method": "G T"}, curlhttp.InvalidMethod),
    ]
    for case, kind in cases:
        with pytest.raises(kind):
            await scripted.client.request(**{"method": "GET", **case})
    assert scripted.breaker._states() == {}


@pytest.mark.parametrize(
    ("step", "options"),
    [
        (404, {}),
        (429, {}),
        (untrusted(), {}),
        (Answer(content=b"x" * 100), {"max_response_size": 10}),
        (Answer(headers={"Content-Encoding": "gzip"}, content=b"no gzip"), {}),
        (silent(), {"timeout": Timeout(total=1.0, read=60)}),
    ],
    ids=["404", "429", "untrusted", "too large", "corrupt", "our deadline"],
)
async def test_failures_that_the_server_did_not_cause_do_not_open_the_circuit(
    make_client: MakeClient, step: Any, options: dict[str, Any]
) -> None:
    scripted = Scripted(make_client, [step] * 3, failure_threshold=1)
    await scripted.ask(3, **options)
    assert scripted.breaker.state(URL) == "closed"


async def test_certificate_errors_count_if_configured(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [untrusted()], failure_threshold=1, count_tls=True)
    await scripted.ask()
    assert scripted.breaker.state(URL) == "open"


async def test_failure_statuses_can_be_chosen(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [503, 429], failure_threshold=1, failure_statuses=[429])
    await scripted.ask()
    assert scripted.breaker.state(URL) == "closed"
    await scripted.ask()
    assert scripted.breaker.state(URL) == "open"


async def test_a_too_many_requests_does_not_end_a_row_of_failures(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [503, 429, 503], failure_threshold=2)
    await scripted.ask(3)
    assert scripted.breaker.state(URL) == "open"


async def test_slow_heads_open_it_and_slow_bodies_do_not(make_client: MakeClient) -> None:
    slow_body = Answer(content=[b"a", b"b", b"c"], pace=5.0)
    script = [slow_body, Answer(delay=1.99), Answer(delay=2.0), Answer(delay=2.0)]
    scripted = Scripted(
        make_client, script, slow_call_rate=0.5, slow_call_seconds=2.0, window=4, minimum_calls=2
    )
    assert await scripted.ask(4) == [200] * 4
    assert scripted.breaker.state(URL) == "open"


async def test_slow_failures_are_slow(make_client: MakeClient) -> None:
    scripted = Scripted(
        make_client, [silent()] * 2, slow_call_rate=1.0, slow_call_seconds=2.0, minimum_calls=2
    )
    await scripted.ask(2, timeout=3.0)
    assert scripted.breaker.state(URL) == "open"


# --- redirects, retries, proxies ---


async def test_each_redirect_uses_the_circuit_of_its_own_origin(make_client: MakeClient) -> None:
    def respond(request: Any) -> Any:
        if request.url.host == "a.test":
            return Answer(302, headers={"Location": "http://b.test/"})
        return 503

    scripted = Scripted(make_client, respond, failure_threshold=2)
    assert await scripted.ask(3) == [503, 503, CircuitBreakerOpen]
    assert scripted.breaker.state("http://a.test") == "closed"
    assert scripted.breaker.state("http://b.test") == "open"
    assert [str(sent.url) for sent in scripted.engine.sent[-2:]] == [
        "http://b.test/",
        "http://a.test/",
    ]


async def test_each_attempt_is_a_call_and_a_refusal_ends_the_retries(
    make_client: MakeClient,
) -> None:
    retry = curlhttp.RetryPolicy(max_retries=9)
    scripted = Scripted(
        make_client, [503] * 10, failure_threshold=3, recovery_timeout=30.0, retry=retry
    )
    total = Timeout(total=100.0)  # long enough to wait for a probe
    assert await scripted.ask(timeout=total) == [CircuitBreakerOpen]
    refused_at = scripted.engine.now()
    assert await scripted.ask(timeout=total) == [CircuitBreakerOpen]
    assert scripted.engine.now() == refused_at
    assert len(scripted.engine.sent) == 3


async def test_a_dead_proxy_opens_its_own_circuit_alone(
    make_client: MakeClient, app: AppServer
) -> None:
    breaker = CircuitBreaker(1, 30.0)
    with refused_port() as port:
        proxy = f"http://user:password@127.0.0.1:{port}"
        client = make_client(breaker=breaker, proxies=proxy)
        with pytest.raises(curlhttp.ProxyError):
            await client.get(app.url)
        with pytest.raises(CircuitBreakerOpen, match=f"proxy http://127.0.0.1:{port}") as caught:
            await client.get("http://elsewhere.test/")
        assert "password" not in str(caught.value)
        assert breaker.state(f"proxy http://127.0.0.1:{port}") == "open"
        assert breaker.state(app.url) == breaker.state(f"http://127.0.0.1:{port}") == "closed"
        assert (await client.get(app.url, proxies={"all": ""})).ok  # straight


async def test_the_circuit_is_of_the_proxy_for_the_sent_url(
    make_client: MakeClient, app: AppServer
) -> None:
    async def elsewhere(request: Any, send: Any) -> Any:
        return await send(request.derive(url=app.at("localhost")))

    breaker = CircuitBreaker(1, 30.0)
    with refused_port() as port:
        proxies = {"http://localhost": f"http://127.0.0.1:{port}"}
        client = make_client(breaker=breaker, proxies=proxies, middleware=[elsewhere])
        with pytest.raises(curlhttp.ProxyError):
            await client.get(app.url)
        assert breaker.state(f"proxy http://127.0.0.1:{port}") == "open"
        assert breaker.state(app.at("localhost")) == "closed"


async def test_a_failing_origin_behind_a_proxy_does_not_close_the_proxy(
    make_client: MakeClient, app: AppServer, tls_app: AppServer
) -> None:
    breaker = CircuitBreaker(1, 30.0)
    app.route("/503", lambda record, conn: conn.reply(503))
    with HTTPProxy() as proxy, refused_port() as port:
        client = make_client(breaker=breaker, proxies=proxy.url)
        assert (await client.get(app.url + "/503")).status_code == 503
        with pytest.raises(CircuitBreakerOpen, match=app.url.removeprefix("http://")):
            await client.get(app.url)
        with suppress(curlhttp.RequestException):
            await client.get(f"https://127.0.0.1:{port}/")  # what CONNECT cannot reach
        assert breaker.state(f"proxy {proxy.url}") == "closed"
        assert (await client.get(tls_app.url)).ok


async def test_one_address_of_two_is_enough(make_client: MakeClient) -> None:
    breaker = CircuitBreaker(1, 30.0)
    with AppServer() as server:  # on 127.0.0.1 only, where localhost may be ::1 as well
        found = await make_client(breaker=breaker).get(server.at("localhost"))
        assert found.ok
        assert breaker.state(server.at("localhost")) == "closed"
        assert list(breaker._states()) == [f"http://localhost:{server.port}"]


# --- permits come back ---


def half_open(url: str) -> CircuitBreaker:
    """Return a breaker whose open time is over at once, for clocks that cannot be moved."""
    breaker = CircuitBreaker(1, recovery_timeout=1e-9)
    breaker._admit(curlhttp.URL(url).origin, 0.0).fail(0.0)
    assert breaker.state(url) == "open"
    return breaker


@ONLY_ASYNC
async def test_cancellation_releases_the_permit(make_client: MakeClient) -> None:
    with BlackHole() as hole:
        breaker = half_open(hole.url)
        client = make_client(breaker=breaker)
        for _ in range(3):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.get, hole.url)
                    await _until(lambda: breaker.metrics(hole.url).probes == 1)
                    with pytest.raises(CircuitBreakerOpen):
                        await client.get(hole.url)
                    scope.cancel()
            assert breaker.metrics(hole.url)[:1] == ("half_open",)
            assert breaker.metrics(hole.url).probes == 0


@ONLY_ASYNC
async def test_a_cancelled_task_is_not_counted(make_client: MakeClient, app: AppServer) -> None:
    breaker = CircuitBreaker(1, 30.0)
    client = make_client(breaker=breaker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, app.url + "/delay/30")
        await _until(lambda: len(app.requests) == 1)
        tasks.cancel_scope.cancel()
    assert breaker.state(app.url) == "closed"


async def _until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.001)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
@pytest.mark.parametrize("colour", ["blocking"])
async def test_any_exception_releases_the_permit(
    make_client: MakeClient, error: type[BaseException]
) -> None:
    broken = False

    def respond(request: Any) -> Any:
        if broken:
            raise error
        return 503

    scripted = Scripted(make_client, respond, failure_threshold=1, recovery_timeout=30.0)
    await scripted.ask()
    scripted.engine.advance(30.0)
    broken = True
    for _ in range(3):
        with pytest.raises(error):
            scripted.client.real.get(URL)
        assert scripted.breaker.metrics(URL)[:1] == ("half_open",)
        assert scripted.breaker.metrics(URL).probes == 0


async def test_a_request_that_middleware_never_sends_takes_no_permit(
    make_client: MakeClient,
) -> None:
    async def offline(request: Any, send: Any) -> Any:
        return curlhttp.Response.of(request, 503)

    scripted = Scripted(make_client, [], failure_threshold=1, middleware=[offline])
    assert await scripted.ask(3) == [503] * 3
    assert scripted.breaker._states() == {}


# --- streamed responses ---


BROKEN = curlhttp.ChunkedEncodingError("the connection broke", curl_code=18)
CUT = Answer(content=b"half", error=BROKEN)


async def test_a_streamed_response_counts_at_its_head(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [CUT, 503], failure_threshold=1)
    async with await scripted.client.stream("GET", URL) as streamed:
        with pytest.raises(curlhttp.ChunkedEncodingError):
            await streamed.read()
    assert scripted.breaker.state(URL) == "closed"
    async with await scripted.client.stream("GET", URL):
        assert scripted.breaker.state(URL) == "open"


async def test_a_streamed_response_may_count_at_its_end(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [CUT], failure_threshold=1, count_bodies=True)
    async with await scripted.client.stream("GET", URL) as streamed:
        assert scripted.breaker.state(URL) == "closed"
        with pytest.raises(curlhttp.ChunkedEncodingError):
            await streamed.read()
        assert scripted.breaker.state(URL) == "open"


@pytest.mark.parametrize("end", ["read", "closed", "dropped"])
async def test_a_probe_that_streams_counts_once_however_it_ends(
    make_client: MakeClient, end: str
) -> None:
    script = [503, Answer(content=[b"a", b"b"]), 200]
    settings: dict[str, Any] = {"failure_threshold": 1, "recovery_timeout": 30.0}
    scripted = Scripted(make_client, script, count_bodies=True, half_open_permits=2, **settings)
    await scripted.ask()
    scripted.engine.advance(30.0)
    streamed = await scripted.client.stream("GET", URL)
    assert scripted.breaker.metrics(URL).probes == 1
    if end == "read":
        assert await streamed.read() == b"ab"
    if end != "dropped":
        await streamed.aclose()
    del streamed
    gc.collect()
    assert scripted.breaker.metrics(URL).probes == 0
    assert scripted.breaker.state(URL) == "half_open"  # one of two
    assert await scripted.ask() == [200]
    assert scripted.breaker.state(URL) == "closed"


async def test_a_streamed_throttling_response_releases_the_permit(make_client: MakeClient) -> None:
    script = [503, 429]
    settings: dict[str, Any] = {"failure_threshold": 1, "recovery_timeout": 30.0}
    scripted = Scripted(make_client, script, count_bodies=True, **settings)
    await scripted.ask()
    scripted.engine.advance(30.0)
    async with await scripted.client.stream("GET", URL):
        pass
    metrics = scripted.breaker.metrics(URL)
    assert (metrics.state, metrics.probes) == ("half_open", 0)


async def test_a_probe_whose_body_never_ends_loses_its_permit(make_client: MakeClient) -> None:
    settings: dict[str, Any] = {"failure_threshold": 1, "recovery_timeout": 30.0}
    scripted = Scripted(make_client, [503, 200, 200], count_bodies=True, **settings)
    await scripted.ask()
    scripted.engine.advance(30.0)
    async with await scripted.client.stream("GET", URL):
        assert await scripted.ask() == [CircuitBreakerOpen]
        scripted.engine.advance(60.0)
        assert await scripted.ask() == [200]
    assert scripted.breaker.state(URL) == "closed"


# --- sharing ---


async def test_one_breaker_serves_clients_threads_and_loops(app: AppServer) -> None:
    app.route("/503", lambda record, conn: conn.reply(503))
    transitions: list[Transition] = []
    breaker = CircuitBreaker(12, 30.0, on_transition=transitions.append)

    def in_a_thread() -> None:
        with Client(breaker=breaker) as client:
            for _ in range(3):
                client.get(app.url + "/503")

    async def in_a_loop() -> None:
        async with AsyncClient(breaker=breaker) as client:
            for _ in range(3):
                await client.get(app.url + "/503")

    def run(backend: str) -> None:
        anyio.run(in_a_loop, backend=backend)

    work = [in_a_thread, in_a_thread, lambda: run("asyncio"), lambda: run("trio")]
    threads = [threading.Thread(target=act) for act in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert breaker.state(app.url) == "open"
    assert [change.new for change in transitions] == ["open"]
    assert len(app.requests) == 12


async def test_64_calls_at_once_get_one_permit(make_client: MakeClient, app: AppServer) -> None:
    breaker = half_open(app.url)
    arrived, go_on = threading.Event(), threading.Event()

    def respond(record: Record, conn: AppConnection) -> None:
        arrived.set()
        go_on.wait(60)
        conn.reply()

    app.route("/slow", respond)
    client = make_client(breaker=breaker, max_connections=64)
    found: list[Any] = []

    async def ask() -> None:
        try:
            found.append(await in_thread(client, "GET", app.url + "/slow"))
        except CircuitBreakerOpen:
            found.append(None)

    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(ask)
        await anyio.to_thread.run_sync(arrived.wait, 10)
        await _until(lambda: len(found) == 63)
        go_on.set()
    assert found[:63] == [None] * 63
    assert len(app.requests) == 1
    assert breaker.state(app.url) == "closed"


# --- hooks ---


async def test_hooks_are_notified_of_transitions_of_their_clients_requests(
    make_client: MakeClient,
) -> None:
    transitions: list[Transition] = []
    scripted = Scripted(
        make_client,
        [503, 503, 200],
        failure_threshold=1,
        recovery_timeout=30.0,
        hooks={"breaker_transition": transitions.append},
    )
    await scripted.ask()
    scripted.engine.advance(30.0)
    await scripted.ask()
    scripted.breaker.reset()  # not by a request
    await scripted.ask()
    assert transitions == [
        Transition("http://a.test:80", "closed", "open"),
        Transition("http://a.test:80", "open", "half_open"),
        Transition("http://a.test:80", "half_open", "open"),
    ]


@ONLY_ASYNC
async def test_hooks_of_an_async_client_may_wait(make_client: MakeClient) -> None:
    transitions: list[str] = []

    async def hook(change: Transition) -> None:
        await anyio.sleep(0)
        transitions.append(change.new)

    scripted = Scripted(
        make_client, [reset()], failure_threshold=1, hooks={"breaker_transition": hook}
    )
    await scripted.ask()
    assert transitions == ["open"]


async def test_our_own_deadline_releases_a_probe(make_client: MakeClient) -> None:
    scripted = Scripted(make_client, [503, silent()], failure_threshold=1, recovery_timeout=30.0)
    await scripted.ask()
    scripted.engine.advance(30.0)
    assert await scripted.ask(timeout=Timeout(total=1.0)) == [DeadlineExceeded]
    metrics = scripted.breaker.metrics(URL)
    assert (metrics.state, metrics.probes) == ("half_open", 0)
