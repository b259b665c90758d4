"""A Retry-After lets all requests to its origin wait, in all colours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import curlhttp
from curlhttp import AdaptiveLimit, ConcurrencyLimit, RateLimit, Timeout
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio
MakeClient = Callable[..., AnyClient]


def busy_once(app: AppServer, seconds: str, status: int = 429) -> None:
    """Let the first response ask to wait."""

    def respond(record: Record, conn: AppConnection) -> None:
        if len(app.requests) == 1:
            conn.reply(status, headers=[("Retry-After", seconds)])
        else:
            conn.reply()

    app.route("/busy", respond)


@pytest.mark.parametrize("status", [429, 503])
async def test_further_requests_wait(make_client: MakeClient, app: AppServer, status: int) -> None:
    busy_once(app, "1", status)
    client = make_client(retry_after="origin")
    assert (await client.get(app.url + "/busy")).status_code == status
    begun = time.monotonic()
    assert (await client.get(app.url + "/bytes/1")).status_code == 200
    assert time.monotonic() - begun > 0.9


async def test_requests_of_a_map_wait_and_those_to_other_origins_do_not(
    make_client: MakeClient, app: AppServer, tls_app: AppServer
) -> None:
    busy_once(app, "50")
    client = make_client(retry_after="origin", verify=False)
    assert (await client.get(app.url + "/busy")).status_code == 429
    results = client.map([app.url] * 10 + [tls_app.url] * 6, concurrency=2)
    got = [(await anext(results)).url for _ in range(6)]
    await results.aclose()
    assert got == [tls_app.url + "/"] * 6
    assert len(app.requests) == 1


async def test_a_request_that_has_no_time_to_wait_fails(
    make_client: MakeClient, app: AppServer
) -> None:
    busy_once(app, "50")
    client = make_client(retry_after="origin")
    await client.get(app.url + "/busy")
    with pytest.raises(curlhttp.DeadlineExceeded, match="its origin has asked to wait") as caught:
        await client.get(app.url, timeout=Timeout(total=5))
    assert not caught.value.request_sent
    assert len(app.requests) == 1


@pytest.mark.parametrize(
    "limits",
    [
        {"concurrency_limit": ConcurrencyLimit(1)},
        {"concurrency_limit": AdaptiveLimit(1, maximum=1)},
        {"rate_limit": RateLimit(2)},
    ],
)
async def test_requests_that_already_wait_for_a_limit_wait_too(
    make_client: MakeClient, app: AppServer, limits: dict[str, Any]
) -> None:
    times: list[float] = []

    def respond(record: Record, conn: AppConnection) -> None:
        times.append(time.monotonic())
        conn.reply(429 if len(times) == 1 else 200, headers=[("Retry-After", "1")])

    app.route("/busy", respond)
    client = make_client(retry_after="origin", **limits)
    results = client.map([app.url + "/busy"] * 4, concurrency=4)
    got = [await anext(results) for _ in range(4)]
    await results.aclose()
    assert [result.status_code for result in got] == [429, 200, 200, 200]
    assert times[1] - times[0] > 0.9


async def test_by_default_others_do_not_wait(client: AnyClient, app: AppServer) -> None:
    busy_once(app, "50")
    await client.get(app.url + "/busy")
    assert (await client.get(app.url)).status_code == 200


def test_the_setting_is_checked() -> None:
    given: Any = "host"
    with pytest.raises(ValueError, match="retry_after must be 'request' or 'origin'"):
        curlhttp.Client(retry_after=given)
