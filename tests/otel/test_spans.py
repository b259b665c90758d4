"""A span for each attempt, of every client, and the context in each request."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import ExponentialBackoff, Hedge, RetryPolicy, requests
from curlhttp import exceptions as e
from curlhttp.testing import Answer, mock
from tests.otel.conftest import Telemetry
from tests.servers import AppServer, H2Server, RawConnection, RawServer, refused_port
from tests.servers.websocket import echo, speaking
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, make_fetch
from tests.support.scripted import URL, Scripted, moved, steady

pytest.importorskip("opentelemetry.sdk", reason="the extra otel, or opentelemetry-sdk, is missing")

from opentelemetry import propagate
from opentelemetry.instrumentation.utils import (
    suppress_http_instrumentation,
    suppress_instrumentation,
)
from opentelemetry.trace import SpanKind, StatusCode

from curlhttp.otel import CurlhttpInstrumentor

pytestmark = pytest.mark.anyio
DURATION = "http.client.request.duration"

MakeClient = Callable[..., AnyClient]
AT_ONCE = RetryPolicy(2, backoff_strategy=ExponentialBackoff(base=0.001))


def parents_of(app: AppServer) -> list[str | None]:
    """Return the span that each request names as its parent."""
    found = [record.header("traceparent") for record in app.requests]
    return [None if value is None else value.split("-")[2] for value in found]


def ids_of(telemetry: Telemetry) -> list[str]:
    return [f"{span.context.span_id:016x}" for span in telemetry.spans]


# --- what is in a span ---


async def test_a_span_describes_an_attempt_by_the_semantic_conventions(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    app.route("/fine", lambda record, out: out.reply(200, b"fine"))
    url = f"http://user:pass@127.0.0.1:{app.port}/fine?page=2&token=hidden#part"
    await client.get(url)
    (span,) = traced.spans
    assert (span.name, span.kind) == ("GET", SpanKind.CLIENT)
    assert span.status.status_code == StatusCode.UNSET
    attributes = dict(span.attributes or {})
    assert attributes == {
        "http.request.method": "GET",
        "url.full": f"http://REDACTED:REDACTED@127.0.0.1:{app.port}/fine?page=2&token=REDACTED#part",
        "server.address": "127.0.0.1",
        "server.port": app.port,
        "http.response.status_code": 200,
        "network.protocol.version": "1.1",
        "network.peer.address": "127.0.0.1",
        "network.peer.port": app.port,
    }
    assert parents_of(app) == ids_of(traced)


# As OpenTelemetry's conventions name them, at 1.44.0.
NAMES_OF_SECRETS = (
    *("X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "sig", "X-Goog-Signature"),
    *("AWSAccessKeyId", "Signature"),  # of earlier versions
)


@ONE_OF_EACH
@pytest.mark.parametrize("name", NAMES_OF_SECRETS)
async def test_a_secret_parameter_keeps_its_name(
    client: AnyClient, app: AppServer, traced: Telemetry, name: str
) -> None:
    await client.get(f"{app.url}/?color=blue&{name}=s3cret&***=***#{name}=s3cret")
    await client.get(f"{app.url}/?next=https%3A%2F%2Fh.test%2F%3F{name}%3Ds3cret")
    assert traced.values("url.full") == [
        f"{app.url}/?color=blue&{name}=REDACTED&***=***#{name}=REDACTED",
        f"{app.url}/?next=REDACTED",
    ]


@EVERY_API
async def test_credentials_of_a_url_are_redacted_and_its_fragment_is_not(
    make_client: MakeClient,
    app: AppServer,
    traced: Telemetry,
    api: str,
    tmp_path: Path,
    session: requests.Session,
) -> None:
    fetch = make_fetch(make_client(), api, tmp_path, session)
    hosts = [f"{userinfo}127.0.0.1:{app.port}" for userinfo in ("", "u:s3cret@", "s3cret@")]
    for host in hosts:
        assert (await fetch(f"http://{host}/echo#part")).ok
    plain, *redacted = traced.values("url.full")
    assert plain == app.url + "/echo#part"
    assert redacted == [f"http://REDACTED:REDACTED@127.0.0.1:{app.port}/echo#part"] * 2


@ONE_OF_EACH
async def test_the_url_of_a_redirect_has_neither_credentials_nor_fragment_of_the_first(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    app.route("/away", lambda record, out: out.reply(302, b"", [("Location", "/echo#there")]))
    await client.get(f"http://u:s3cret@127.0.0.1:{app.port}/away#part")
    assert traced.values("url.full") == [
        f"http://REDACTED:REDACTED@127.0.0.1:{app.port}/away#part",
        app.url + "/echo#there",
    ]


@ONE_OF_EACH
async def test_the_environment_may_name_the_known_methods(
    client: AnyClient, app: AppServer, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS", "BREW, GET")
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    for method in ("BREW", "GET", "POST"):
        await client.request(method, app.url)
    CurlhttpInstrumentor().uninstrument_client(client.real)
    assert telemetry.values("http.request.method") == ["BREW", "GET", "_OTHER"]
    assert [span.name for span in telemetry.spans] == ["BREW", "GET", "HTTP"]
    assert telemetry.spans[0].instrumentation_scope is not None
    assert str(telemetry.spans[0].instrumentation_scope.schema_url).endswith("/schemas/1.44.0")


async def test_the_phases_are_events_with_their_own_times(
    make_client: MakeClient, tls_app: AppServer, traced: Telemetry
) -> None:
    client = make_client(http2=False)
    await client.get(tls_app.url)
    await client.get(tls_app.url)
    fresh, reused = traced.spans
    assert [event.name for event in fresh.events][-3:] == ["connect", "tls", "first_byte"]
    assert [event.name for event in reused.events] == ["first_byte"]
    for span in (fresh, reused):
        times = [span.start_time, *(event.timestamp for event in span.events), span.end_time]
        assert times == sorted(times, key=lambda time: time or 0)


async def test_http2_has_its_version(
    client: AnyClient, traced: Telemetry, h2_app: H2Server
) -> None:
    if client.is_blocking:
        return
    await client.get(h2_app.url)
    assert traced.values("network.protocol.version") == ["2"]


async def test_a_fallback_has_a_span(
    make_client: MakeClient, app: AppServer, traced: Telemetry
) -> None:
    client = make_client(fallback=lambda request, outcome: request.respond(200))
    await client.get(app.url + "/status/503?token=hidden")
    attempt, fallback = traced.spans
    assert (attempt.name, fallback.name) == ("GET", "fallback")
    assert dict(fallback.attributes or {}) == {
        "url.full": app.url + "/status/503?token=REDACTED",
        "error.type": "503",
    }


@ONE_OF_EACH
async def test_an_address_of_ipv6_has_no_brackets(scripted: Scripted, telemetry: Telemetry) -> None:
    client, _ = scripted([200])
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    await client.get("http://[::1]:8080/x")
    CurlhttpInstrumentor().uninstrument_client(client.real)
    assert telemetry.values("server.address") == ["::1"]
    assert telemetry.values("url.full") == ["http://[::1]:8080/x"]


@pytest.mark.parametrize("status", (404, 503))
async def test_a_status_of_an_error_is_one_of_the_span(
    client: AnyClient, app: AppServer, traced: Telemetry, status: int
) -> None:
    app.route("/bad", lambda record, out: out.reply(status, b""))
    await client.get(app.url + "/bad")
    (span,) = traced.spans
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == str(status)


async def test_an_attempt_without_a_response_has_the_name_of_its_error(
    client: AnyClient, traced: Telemetry
) -> None:
    with refused_port() as port, pytest.raises(e.ConnectionError):
        await client.get(f"http://user:secret@127.0.0.1:{port}/?token=hidden")
    (span,) = traced.spans
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "curlhttp.exceptions.ConnectionError"
    text = span.to_json()
    assert "secret" not in text
    assert "hidden" not in text


@ONE_OF_EACH
async def test_an_unknown_method_does_not_name_a_span(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    await client.request("BREW", app.url)
    (span,) = traced.spans
    assert span.name == "HTTP"
    assert (span.attributes or {})["http.request.method"] == "_OTHER"
    assert (span.attributes or {})["http.request.method_original"] == "BREW"


@WITHOUT_UVLOOP
async def test_a_cancelled_attempt_ends_its_span(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    def silent(record: Any, out: Any) -> None:
        out.wait_closed(30)
        out.closing = True

    app.route("/silent", silent)
    if client.is_blocking:
        with pytest.raises(e.ReadTimeout):
            await client.get(app.url + "/silent", timeout=curlhttp.Timeout(read=0.05))
        assert traced.values("error.type") == ["curlhttp.exceptions.ReadTimeout"]
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, app.url + "/silent")
        await anyio.to_thread.run_sync(app.wait_for, lambda: bool(app.requests))
        tasks.cancel_scope.cancel()
    cancelled = anyio.get_cancelled_exc_class()
    assert traced.values("error.type") == [f"{cancelled.__module__}.{cancelled.__qualname__}"]
    assert traced.spans[0].status.status_code == StatusCode.ERROR


# --- which attempts there are ---


@EVERY_API
async def test_every_api_has_spans(
    make_client: MakeClient,
    app: AppServer,
    traced: Telemetry,
    api: str,
    tmp_path: Path,
    session: requests.Session,
) -> None:
    client = make_client()
    await make_fetch(client, api, tmp_path, session)(app.url + "/redirect/1")
    assert traced.values("http.response.status_code") == [302, 200]
    assert parents_of(app) == ids_of(traced)


async def test_resends_are_counted_over_retries_redirects_and_challenges(
    make_client: MakeClient, app: AppServer, traced: Telemetry
) -> None:
    responses: list[int] = []

    def flaky(record: Any, out: Any) -> None:
        status = responses.pop(0)
        out.reply(status, b"", [("Location", "/digest?user=u&password=p")])

    app.route("/flaky", flaky)
    client = make_client(retry=AT_ONCE, cookies={"a": "1"})
    for _ in range(2):
        responses[:] = [503, 302]
        await client.get(app.url + "/flaky", auth=curlhttp.DigestAuth("u", "p"))
    found = list(
        zip(
            traced.values("http.response.status_code"),
            traced.values("http.request.resend_count"),
            strict=True,
        )
    )
    assert found[:4] == [(503, None), (302, 1), (401, 2), (200, 3)]
    assert found[4][1] is None  # another request
    assert parents_of(app) == ids_of(traced)


@pytest.mark.parametrize("level", (logging.WARNING, logging.INFO, logging.DEBUG))
def test_retries_of_a_session_are_counted(
    app: AppServer, traced: Telemetry, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level, "curlhttp")
    responses = [503, 503, 200]
    app.route("/flaky", lambda record, out: out.reply(responses.pop(0), b""))
    retries = requests.adapters.Retry(3, status_forcelist=[503], backoff_factor=0)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        session.get(app.url + "/flaky")
    assert traced.values("http.request.resend_count") == [None, 1, 2]
    assert parents_of(app) == ids_of(traced)


@pytest.mark.parametrize("stream", (False, True))
def test_redirects_of_a_session_are_counted(
    app: AppServer, traced: Telemetry, stream: bool
) -> None:
    with requests.Session() as session:
        prepared = session.prepare_request(requests.Request("GET", app.url + "/redirect/2"))
        for _ in range(2):
            response = session.send(prepared, stream=stream)
            assert response.content == b"hello"
            response = session.send(response.request, stream=stream)
            assert response.content == b"hello"
    assert traced.values("http.request.resend_count") == [None, 1, 2, None] * 2
    assert parents_of(app) == ids_of(traced)


@ONE_OF_EACH
async def test_a_request_that_is_sent_again_by_the_user_is_no_resend(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    request = client.real.build_request("GET", app.url)
    for _ in range(2):
        await client.send(request)
    assert traced.values("http.request.resend_count") == [None, None]
    assert "traceparent" not in request.headers


async def test_each_attempt_of_a_hedge_has_a_span(
    make_client: MakeClient, app: AppServer, traced: Telemetry
) -> None:
    def respond(record: Any, out: Any) -> None:
        if len(app.requests) == 1:
            out.wait_closed(30)
            out.closing = True
        else:
            out.reply(200, b"second")

    app.route("/slow", respond)
    client = make_client(hedge=Hedge(0.02))
    assert (await client.get(app.url + "/slow")).content == b"second"
    # Which of them the server has first is up to its threads.
    assert traced.values("error.type") == [None, None]
    assert {span.status.status_code for span in traced.spans} == {StatusCode.UNSET}
    names = [event.name for span in traced.spans for event in span.events]
    assert names.count("cancelled") == 1
    assert all("error.type" not in point.attributes for point in traced.points(DURATION))
    assert sorted(traced.values("http.request.resend_count"), key=str) == [1, None]
    assert parents_of(app) == ids_of(traced)


async def test_a_hedged_stream_has_spans_and_can_be_read(
    make_client: MakeClient, app: AppServer, traced: Telemetry
) -> None:
    client = make_client(hedge=Hedge(30))
    async with await client.stream("GET", app.url + "/bytes/100000") as streamed:
        assert len(traced.spans) == 1  # its head is in
        assert len(await streamed.read()) == 100000


async def test_the_handshake_of_a_websocket_is_a_span(client: AnyClient, traced: Telemetry) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(server.url.replace("http", "ws", 1)) as socket:
            assert traced.values("http.response.status_code") == [101]
            await socket.send("hello")
            assert await socket.recv() == "hello"
    assert len(traced.spans) == 1


def test_a_request_of_a_session_for_another_protocol_is_a_span(traced: Telemetry) -> None:
    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 101 x\r\nUpgrade: tcp\r\n\r\n")
        conn.send(conn.read_exactly(3))

    asks = {"Connection": "Upgrade", "Upgrade": "tcp"}
    with RawServer(serve) as server, requests.Session() as session:
        with session.post(server.url, headers=asks, stream=True) as response:
            assert traced.values("http.response.status_code") == [101]
            file = response.raw._fp.fp.raw
            file._sock.sendall(b"one")
            assert file.read(3) == b"one"
    assert len(traced.spans) == 1


@WITHOUT_UVLOOP
async def test_many_at_once_have_a_span_each(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    urls = [f"{app.url}/?n={number}" for number in range(1000)]
    assert len([result async for result in client.map(urls)]) == 1000
    assert len(set(traced.values("url.full"))) == len(traced.spans) == 1000
    assert sorted(map(str, parents_of(app))) == sorted(ids_of(traced))
    gc.collect()
    kept = [each for each in gc.get_objects() if type(each) is curlhttp.ClientRequest]
    assert len(kept) < 10


@WITHOUT_UVLOOP
async def test_an_invalid_response_ends_a_span(client: AnyClient, traced: Telemetry) -> None:
    with RawServer(lambda connection: connection.send(b"\x00\x01 garbage\r\n\r\n")) as server:
        for stream in (False, True):
            with pytest.raises(e.RequestException):
                await client.request("GET", server.url, stream=stream)
    assert all(traced.values("error.type"))
    assert len(traced.spans) == 2


async def test_a_websocket_that_is_refused_ends_its_span(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    for url in (app.url + "/nowhere", "http://127.0.0.1:1/"):
        with pytest.raises(e.RequestException):
            await client.websocket(url.replace("http", "ws", 1))
    assert traced.values("error.type") == ["404", "curlhttp.exceptions.ConnectionError"]
    assert parents_of(app) == ids_of(traced)[:1]


async def test_a_handshake_that_fails_has_the_error_of_its_caller(
    client: AnyClient, traced: Telemetry
) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    with (
        RawServer(lambda connection: connection.send(b"garbage\r\n\r\n")) as server,
        pytest.raises(e.RemoteProtocolError),
    ):
        await client.websocket(server.url.replace("http", "ws", 1))
    assert traced.values("error.type") == ["curlhttp.exceptions.RemoteProtocolError"]


# --- whose attempts ---


def test_transports_for_httpx_are_traced(app: AppServer, traced: Telemetry) -> None:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed (extra 'httpx')")
    from curlhttp.httpx import Transport

    with httpx.Client(transport=Transport()) as client:
        assert client.get(app.url).status_code == 200
    assert traced.values("http.response.status_code") == [200]
    assert parents_of(app) == ids_of(traced)


async def test_clients_from_before_are_traced_until_the_end(
    client: AnyClient, app: AppServer, telemetry: Telemetry
) -> None:
    await client.get(app.url)
    CurlhttpInstrumentor().instrument(**telemetry.providers)
    try:
        await client.get(app.url)
    finally:
        CurlhttpInstrumentor().uninstrument()
    await client.get(app.url)
    assert len(telemetry.spans) == 1
    assert [parent is not None for parent in parents_of(app)] == [False, True, False]


async def test_one_client_may_be_traced_alone(
    make_client: MakeClient, app: AppServer, telemetry: Telemetry
) -> None:
    client, other = make_client(), make_client()
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    await client.get(app.url)
    await other.get(app.url)
    assert [result.status_code async for result in client.map([app.url])] == [200]
    async with await client.stream("GET", app.url) as streamed:
        assert await streamed.read() == b"hello"
    assert len(telemetry.spans) == 3
    CurlhttpInstrumentor().uninstrument_client(client.real)
    CurlhttpInstrumentor().uninstrument_client(client.real)
    await client.get(app.url)
    assert len(telemetry.spans) == 3


async def test_a_client_that_is_traced_twice_has_one_span_for_each_attempt(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    CurlhttpInstrumentor().instrument_client(client.real, **traced.providers)
    await client.get(app.url)
    async with await client.stream("GET", app.url) as streamed:
        await streamed.read()
    CurlhttpInstrumentor().uninstrument_client(client.real)
    assert len(traced.spans) == 2


@ONE_OF_EACH
async def test_a_client_with_its_own_engine_may_be_traced(
    scripted: Scripted, telemetry: Telemetry
) -> None:
    client, _ = scripted([Answer(503), moved("/b"), Answer(200)], retry=steady())
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    await client.get(URL)
    assert telemetry.values("http.response.status_code") == [503, 302, 200]
    assert telemetry.values("http.request.resend_count") == [None, 1, 2]
    CurlhttpInstrumentor().uninstrument_client(client.real)


@ONE_OF_EACH
@pytest.mark.parametrize("is_first", (False, True))
async def test_responses_of_a_mock_are_traced(
    client: AnyClient, telemetry: Telemetry, is_first: bool
) -> None:
    instrumentor = CurlhttpInstrumentor()
    if is_first:
        instrumentor.instrument(**telemetry.providers)
    try:
        with mock() as network:
            if not is_first:
                instrumentor.instrument(**telemetry.providers)
            network.get("http://api.test/x").respond(json={"id": 1})
            assert (await client.get("http://api.test/x")).json() == {"id": 1}
            assert "traceparent" in network.requests[0].headers
    finally:
        instrumentor.uninstrument()
    assert telemetry.values("server.address") == ["api.test"]


def test_a_session_is_traced_by_instrument_alone() -> None:
    with requests.Session() as session:
        with pytest.raises(TypeError, match=r"use instrument\(\)"):
            CurlhttpInstrumentor().instrument_client(session)  # type: ignore[arg-type]


async def test_nothing_is_traced_if_the_context_suppresses_it(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    for suppress in (suppress_instrumentation, suppress_http_instrumentation):
        with suppress():
            await client.get(app.url)
            async with await client.stream("GET", app.url) as streamed:
                await streamed.read()
    assert not traced.spans
    assert not traced.points("http.client.request.duration")
    assert parents_of(app) == [None] * 4


# --- hooks ---


async def test_hooks_may_add_to_spans(
    client: AnyClient, app: AppServer, telemetry: Telemetry
) -> None:
    instrumentor = CurlhttpInstrumentor()
    instrumentor.instrument(
        **telemetry.providers,
        request_hook=lambda span, request: span.set_attribute("asked", request.url.path),
        response_hook=lambda span, request, response: span.set_attribute(
            "type", response.headers["content-length"]
        ),
    )
    try:
        await client.get(app.url)
        async with await client.stream("GET", app.url) as streamed:
            await streamed.read()
    finally:
        instrumentor.uninstrument()
    assert telemetry.values("asked") == ["/", "/"]
    assert telemetry.values("type") == ["5", "5"]


@ONE_OF_EACH
async def test_a_hook_that_raises_is_logged(
    client: AnyClient, app: AppServer, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*what: object) -> None:
        raise KeyError("a bug")

    instrumentor = CurlhttpInstrumentor()
    instrumentor.instrument(**telemetry.providers, request_hook=broken, response_hook=broken)
    try:
        with caplog.at_level(logging.ERROR, "curlhttp"):
            assert (await client.get(app.url)).status_code == 200
    finally:
        instrumentor.uninstrument()
    assert caplog.text.count("called by the instrumentation") == 2


async def test_a_propagator_that_raises_breaks_no_request(
    client: AnyClient,
    app: AppServer,
    traced: Telemetry,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def inject(carrier: Any, context: Any = None, setter: Any = None) -> None:
        carrier["baggage"] = "two\nlines"

    monkeypatch.setattr(propagate.get_global_textmap(), "inject", inject)
    with caplog.at_level(logging.ERROR, "curlhttp"):
        assert (await client.get(app.url)).status_code == 200
    assert "called by the instrumentation" in caplog.text
    assert traced.values("http.response.status_code") == [200]


def test_without_the_packages_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try: import curlhttp.otel\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'curlhttp[otel]'" in finished.stdout


def test_importing_the_package_loads_no_telemetry() -> None:
    code = "import curlhttp, sys; curlhttp.Client(); print('opentelemetry' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.stdout.strip() == "False"


def test_it_is_found_as_a_plugin() -> None:
    (found,) = entry_points(group="opentelemetry_instrumentor", name="curlhttp")
    assert found.load() is CurlhttpInstrumentor
