"""What requests wait for before an attempt, and attempts that are not made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from curlhttp import CircuitBreaker, ConcurrencyLimit, RateLimit, Timeout, requests
from curlhttp import exceptions as e
from tests.otel.conftest import Telemetry
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient
from tests.support.scripted import Scripted, asks, steady

pytest.importorskip("opentelemetry.sdk", reason="the extra otel, or opentelemetry-sdk, is missing")

from opentelemetry.instrumentation.utils import suppress_http_instrumentation
from opentelemetry.trace import SpanKind, StatusCode

from curlhttp.otel import CurlhttpInstrumentor

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
WAITS, REFUSALS = "curlhttp.client.wait.duration", "curlhttp.client.refusals"
DURATION = "http.client.request.duration"
SLOW = 0.1  # seconds of a response
URL = "http://h.test/"


def waits_of(telemetry: Telemetry, reason: str) -> list[float]:
    """Return the seconds that attempts have waited for something, shortest first."""
    return sorted(filter(None, telemetry.values(f"curlhttp.wait.{reason}")))


@pytest.mark.parametrize("reason", ["pool", "limit", "rate"])
async def test_a_span_and_a_metric_have_the_wait(
    make_client: MakeClient, app: AppServer, traced: Telemetry, reason: str
) -> None:
    def respond(record: Record, conn: AppConnection) -> None:
        conn.wait_closed(SLOW)
        conn.reply(200)

    app.route("/slow", respond)
    setting: Any = {
        "pool": {"max_connections": 1},
        "limit": {"concurrency_limit": ConcurrencyLimit(1)},
        "rate": {"rate_limit": RateLimit(1 / SLOW)},
    }[reason]
    await make_client(**setting).gather(3, "GET", app.url + "/slow")
    waits = waits_of(traced, reason)
    assert len(waits) == 2
    assert SLOW / 2 < waits[0] < waits[1]
    (point,) = traced.points(WAITS)
    assert (point.count, point.sum) == (2, pytest.approx(sum(waits)))
    assert dict(point.attributes) == {
        "server.address": "127.0.0.1",
        "server.port": app.port,
        "curlhttp.wait.reason": reason,
    }
    events = [event.name for span in traced.spans for event in span.events]
    assert events.count("pool") == (2 if reason == "pool" else 0)


async def test_waits_before_retries_belong_to_the_next_attempt(
    scripted: Scripted, telemetry: Telemetry
) -> None:
    client, _ = scripted([503, asks(7), 200], retry=steady(2))
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    await client.get(URL)
    assert telemetry.values("curlhttp.wait.backoff") == [None, 1, None]
    first, second, third = telemetry.values("curlhttp.wait.retry_after")
    assert first is second is None
    assert third >= 7


async def test_a_refusal_of_a_breaker_is_a_span_and_a_metric(
    make_client: MakeClient, app: AppServer, traced: Telemetry
) -> None:
    app.route("/broken", lambda record, conn: conn.reply(500))
    client = make_client(breaker=CircuitBreaker(failure_threshold=1))
    await client.get(app.url + "/broken")
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(app.url.replace("//", "//me:password@") + "/?token=secret")
    _, span = traced.spans
    assert (span.name, span.kind) == ("GET", SpanKind.CLIENT)
    assert span.status.status_code == StatusCode.ERROR
    error = "curlhttp.exceptions.CircuitBreakerOpen"
    shared = {
        "http.request.method": "GET",
        "server.address": "127.0.0.1",
        "server.port": app.port,
        "error.type": error,
    }
    full = f"http://REDACTED:REDACTED@127.0.0.1:{app.port}/?token=REDACTED"
    assert dict(span.attributes or {}) == {**shared, "url.full": full}
    assert "secret" not in str(span.status.description)
    (point,) = traced.points(REFUSALS)
    assert (point.value, dict(point.attributes)) == (1, shared)
    assert [each.count for each in traced.points(DURATION)] == [1]


@pytest.mark.parametrize("reason", ["pool", "limit"])
@pytest.mark.parametrize("timeout", [Timeout(pool=SLOW), Timeout(total=SLOW)])
async def test_a_wait_that_times_out_says_what_it_waited_for(
    make_client: MakeClient, app: AppServer, traced: Telemetry, reason: str, timeout: Timeout
) -> None:
    setting: Any = {"max_connections": 1}
    if reason == "limit":
        setting = {"concurrency_limit": ConcurrencyLimit(1)}
    client = make_client(**setting)
    async with await client.stream("GET", app.url + "/bytes/5000000"):
        with pytest.raises(e.Timeout):
            await client.get(app.url, timeout=timeout)
    (wait,) = waits_of(traced, reason)
    assert wait > SLOW / 2
    assert [point.attributes["curlhttp.wait.reason"] for point in traced.points(WAITS)] == [reason]


async def test_one_span_for_a_refusal_if_the_client_is_traced_twice(
    make_client: MakeClient, app: AppServer, traced: Telemetry
) -> None:
    client = make_client(rate_limit=RateLimit(0.01))
    CurlhttpInstrumentor().instrument_client(client.real, **traced.providers)
    await client.get(app.url)
    for _ in range(2):
        with pytest.raises(e.DeadlineExceeded):
            await client.get(app.url, timeout=Timeout(total=SLOW))
        CurlhttpInstrumentor().uninstrument_client(client.real)
    assert len(traced.spans) == 3
    with suppress_http_instrumentation(), pytest.raises(e.DeadlineExceeded):
        await client.get(app.url, timeout=Timeout(total=SLOW))
    assert len(traced.spans) == 3


def test_the_drop_in_has_the_wait_for_its_pool(app: AppServer, traced: Telemetry) -> None:
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=1, pool_block=True))
        with session.get(app.url + "/bytes/5000000", stream=True):
            pass
        session.get(app.url)
    assert waits_of(traced, "pool") == []


async def test_mocks_are_counted_once_while_they_are_traced(
    client: AnyClient, curlhttp_mock: Any, traced: Telemetry
) -> None:
    curlhttp_mock.get(URL).respond(404)
    await client.get(URL)
    stats = client.real.stats()
    assert stats.attempts == 1
    assert stats.origins["http://h.test:80"].responses == {"4xx": 1}
