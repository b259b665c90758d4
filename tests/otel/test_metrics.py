"""Durations of attempts, and open connections of the engines."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from tests.otel.conftest import Telemetry
from tests.servers import AppServer
from tests.support.colours import AnyClient

pytest.importorskip("opentelemetry.sdk", reason="the extra otel, or opentelemetry-sdk, is missing")

from curlhttp.otel import CurlhttpInstrumentor

pytestmark = pytest.mark.anyio

DURATION = "http.client.request.duration"
CONNECTIONS = "http.client.open_connections"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def open_connections(telemetry: Telemetry, app: AppServer) -> dict[str, int]:
    return {
        point.attributes["http.connection.state"]: point.value
        for point in telemetry.points(CONNECTIONS)
        if point.attributes["server.port"] == app.port and point.value
    }


async def test_durations_have_the_buckets_and_attributes_of_the_convention(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    for path in ("/", "/", "/nowhere"):
        await client.get(app.url + path)
    points = {
        point.attributes["http.response.status_code"]: point for point in traced.points(DURATION)
    }
    assert {status: point.count for status, point in points.items()} == {200: 2, 404: 1}
    assert points[200].explicit_bounds == BUCKETS
    assert dict(points[404].attributes) == {
        "http.request.method": "GET",
        "server.address": "127.0.0.1",
        "server.port": app.port,
        "http.response.status_code": 404,
        "error.type": "404",
        "network.protocol.version": "1.1",
    }
    for span in traced.spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time > span.start_time
    spent = sum((span.end_time or 0) - (span.start_time or 0) for span in traced.spans) / 1e9
    assert sum(point.sum for point in points.values()) == pytest.approx(spent, abs=1e-6)


async def test_open_connections_are_those_of_the_engines(
    make_client: Callable[..., AnyClient], app: AppServer, traced: Telemetry
) -> None:
    client = make_client()
    await client.get(app.url)
    assert open_connections(traced, app) == {"idle": 1}
    async with await client.stream("GET", app.url + "/bytes/5000000") as streamed:
        assert open_connections(traced, app) == {"active": 1}
        await client.get(app.url)
        assert open_connections(traced, app) == {"active": 1, "idle": 1}
        await streamed.read()
    assert open_connections(traced, app) == {"idle": 2}
    if client.is_blocking:
        client.real.close()
    else:
        await client.real.aclose()
    assert open_connections(traced, app) == {}


async def test_a_connection_that_the_server_has_closed_is_not_open(
    client: AnyClient, app: AppServer, traced: Telemetry
) -> None:
    def last(record: Any, out: Any) -> None:
        out.reply(200, b"", [("Connection", "close")])
        out.closing = True

    app.route("/last", last)
    await client.get(app.url + "/last")
    assert app.wait_for(lambda: app.open_connections == 0)
    assert open_connections(traced, app) == {}


def test_connections_of_the_drop_in_are_counted(app: AppServer, traced: Telemetry) -> None:
    with requests.Session() as session:
        session.get(app.url)
        assert open_connections(traced, app) == {"idle": 1}
    assert open_connections(traced, app) == {}


async def test_connections_of_one_client_are_counted_while_it_is_traced(
    make_client: Callable[..., AnyClient], app: AppServer, telemetry: Telemetry
) -> None:
    client, other = make_client(), make_client()
    await other.get(app.url)
    CurlhttpInstrumentor().instrument_client(client.real, **telemetry.providers)
    await client.get(app.url)
    assert open_connections(telemetry, app) == {"idle": 1}
    CurlhttpInstrumentor().uninstrument_client(client.real)
    assert open_connections(telemetry, app) == {}


async def test_connections_of_several_clients_are_counted_by_one_meter(
    make_client: Callable[..., AnyClient], app: AppServer, telemetry: Telemetry
) -> None:
    clients = [make_client(), make_client()]
    instrumentor = CurlhttpInstrumentor()
    for client in clients:
        instrumentor.instrument_client(client.real, **telemetry.providers)
        await client.get(app.url)
    assert open_connections(telemetry, app) == {"idle": 2}
    for number in (2, 1):  # a client that is traced twice counts once
        instrumentor.instrument(**telemetry.providers)
        assert open_connections(telemetry, app) == {"idle": 2}
        instrumentor.uninstrument()
        assert open_connections(telemetry, app) == {"idle": number}
        instrumentor.uninstrument_client(clients.pop().real)
    assert open_connections(telemetry, app) == {}


def test_a_client_that_is_dropped_is_traced_no_more(app: AppServer, telemetry: Telemetry) -> None:
    client = curlhttp.Client()
    CurlhttpInstrumentor().instrument_client(client, **telemetry.providers)
    client.get(app.url)
    del client
    gc.collect()
    assert open_connections(telemetry, app) == {}
