"""A plain GET on a kept connection goes straight to the engine; everything else leaves this path.

Each test sends a first request, because only the further ones are on the straight path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import testing
from tests.servers import AppServer, Certs, H2Server
from tests.support.colours import AnyClient
from tests.support.internals import count_idle, handles_of, wait_until_idle

ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]


@pytest.fixture(params=[False, True], ids=["own connections", "shared connections"])
def plain(request: pytest.FixtureRequest, make_client: Make) -> AnyClient:
    """Return a client without layers."""
    return make_client(http2=request.param)


async def test_a_redirect_is_followed(plain: AnyClient, app: AppServer) -> None:
    await plain.get(app.url + "/bytes/10")
    response = await plain.get(app.url + "/redirect/3")
    assert (response.status_code, len(response.history)) == (200, 3)
    assert [hop.status_code for hop in response.history] == [302, 302, 302]
    with pytest.raises(curlhttp.TooManyRedirects):
        await plain.get(app.url + "/redirect/40")


async def test_cookies_are_stored_and_sent(plain: AnyClient, app: AppServer) -> None:
    await plain.get(app.url + "/bytes/10")
    await plain.get(app.url + "/cookies/set?a=1")
    assert (await plain.get(app.url + "/cookies")).json()["cookies"] == {"a": "1"}
    await plain.get(app.url + "/cookies/set?b=2&redirect=/cookies")
    assert (await plain.get(app.url + "/cookies")).json()["cookies"] == {"a": "1", "b": "2"}


async def test_a_cookie_that_comes_with_a_redirect_is_sent_to_its_target(
    plain: AnyClient, app: AppServer
) -> None:
    await plain.get(app.url + "/bytes/10")
    response = await plain.get(app.url + "/cookies/set?b=2&redirect=/cookies")
    assert response.json()["cookies"] == {"b": "2"}


async def test_credentials_in_the_url_are_sent(plain: AnyClient, app: AppServer) -> None:
    await plain.get(app.url + "/echo")
    url = app.url.replace("://", "://user:password@")
    sent = (await plain.get(url + "/echo")).json()["headers"]
    assert "Basic dXNlcjpwYXNzd29yZA==" in str(sent)


async def test_headers_of_the_client_may_change(plain: AnyClient, app: AppServer) -> None:
    await plain.get(app.url + "/echo")
    plain.real.headers["X-One"] = "1"
    assert "X-One" in (await plain.get(app.url + "/echo")).text
    plain.real.headers = {"X-Two": "2"}
    text = (await plain.get(app.url + "/echo")).text
    assert "X-Two" in text
    assert "X-One" not in text


@pytest.mark.parametrize("path", ["/gzip?size=3000", "/chunked/5", "/bytes/70000", "/204"])
async def test_other_bodies_are_read(plain: AnyClient, app: AppServer, path: str) -> None:
    await plain.get(app.url + "/bytes/10")
    first = await plain.get(app.url + path)
    second = await plain.get(app.url + path)
    assert first.content == second.content
    assert (await plain.get(app.url + "/bytes/10")).content == (
        await plain.get(app.url + "/bytes/10")
    ).content


async def test_a_retry_policy_of_one_request_applies_to_it_alone(
    plain: AnyClient, app: AppServer
) -> None:
    await plain.get(app.url + "/bytes/10")
    response = await plain.get(app.url + "/bytes/10", retry=2)
    assert len(response.attempts) == 1
    assert (await plain.get(app.url + "/bytes/10")).status_code == 200


async def test_a_mock_replaces_the_network_of_a_client_that_has_sent(
    plain: AnyClient, app: AppServer
) -> None:
    await plain.get(app.url + "/bytes/10")
    with testing.mock() as mocked:
        mocked.get(app.url + "/bytes/10").respond(204)
        assert (await plain.get(app.url + "/bytes/10")).status_code == 204
    assert (await plain.get(app.url + "/bytes/10")).status_code == 200


async def test_a_log_level_that_is_set_later_applies(
    plain: AnyClient, app: AppServer, caplog: pytest.LogCaptureFixture
) -> None:
    await plain.get(app.url + "/bytes/10")
    await plain.get(app.url + "/bytes/10")
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="curlhttp"):
        await plain.get(app.url + "/bytes/10")
    assert caplog.records


async def test_what_a_client_records_has_each_request(
    plain: AnyClient, app: AppServer, tmp_path: Any
) -> None:
    await plain.get(app.url + "/bytes/10")
    with plain.real.har(tmp_path / "log.har"):
        await plain.get(app.url + "/bytes/11")
    assert "/bytes/11" in (tmp_path / "log.har").read_text()


async def test_all_requests_are_counted(plain: AnyClient, app: AppServer) -> None:
    for _ in range(5):
        await plain.get(app.url + "/bytes/10")
    stats = plain.real.stats()
    assert stats.attempts == 5
    assert sum(origin.responses.get("2xx", 0) for origin in stats.origins.values()) == 5


async def test_a_closed_client_names_the_request(plain: AnyClient, app: AppServer) -> None:
    await plain.get(app.url + "/bytes/10")
    await plain.get(app.url + "/bytes/10")
    await plain.aclose()
    with pytest.raises(curlhttp.ClientClosed) as caught:
        await plain.get(app.url + "/bytes/10")
    assert caught.value.request is not None


async def test_a_read_timeout_ends_a_silent_request(make_client: Make, app: AppServer) -> None:
    client = make_client(timeout=curlhttp.Timeout(read=0.1))
    await client.get(app.url + "/bytes/10")
    with pytest.raises(curlhttp.ReadTimeout):
        await client.get(app.url + "/delay/30")
    assert (await client.get(app.url + "/bytes/10")).status_code == 200


@ONLY_ASYNC
async def test_a_cancelled_request_leaves_its_transfer_to_others(
    plain: AnyClient, app: AppServer
) -> None:
    await plain.get(app.url + "/bytes/10")
    with anyio.move_on_after(0.05):
        await plain.get(app.url + "/delay/30")
    await wait_until_idle(plain)
    for size in range(1, 20):
        assert len((await plain.get(f"{app.url}/bytes/{size}")).content) == size


@ONLY_ASYNC
async def test_requests_that_are_cancelled_at_any_time_mix_up_no_responses(
    plain: AnyClient, app: AppServer
) -> None:
    await plain.gather(8, "GET", app.url + "/bytes/10")

    async def cancelled(turn: int) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                for size in range(1, 9):
                    tasks.start_soon(check, size)
                for _ in range(turn):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

    async def check(size: int) -> None:
        assert len((await plain.get(f"{app.url}/bytes/{size}")).content) == size

    for turn in range(60):
        await cancelled(turn)
    await wait_until_idle(plain)
    for size in range(1, 20):
        await check(size)


async def test_responses_on_http2_are_whole(
    make_client: Make, certs: Certs, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    await client.get(h2_app.url + "/bytes/10")
    for size in (1, 200, 100_000):
        response = await client.get(f"{h2_app.url}/bytes/{size}")
        assert (response.http_version, len(response.content)) == ("HTTP/2", size)


# --- connections, where none is shared ---


@ONLY_ASYNC
async def test_a_connection_is_found_by_its_origin(make_client: Make) -> None:
    client = make_client(http2=False)
    with AppServer() as one, AppServer() as two:
        for _ in range(5):
            await client.get(one.url + "/bytes/10")
            await client.get(two.url + "/bytes/10")
        assert (one.connections, two.connections) == (1, 1)


@ONLY_ASYNC
async def test_there_are_no_more_connections_than_the_limit(make_client: Make) -> None:
    client = make_client(http2=False, max_connections=3)
    with ExitStack() as stack:
        servers = [stack.enter_context(AppServer()) for _ in range(6)]
        for server in [*servers, *servers]:
            await client.gather(5, "GET", server.url + "/bytes/10")
            open_now = client.real.stats().connections
            assert sum(each.open for each in open_now) <= 3
        assert len(handles_of(client)) == 3


@ONLY_ASYNC
async def test_no_more_connections_are_idle_than_the_limit(
    make_client: Make, app: AppServer
) -> None:
    client = make_client(http2=False, max_keepalive_connections=2)
    await client.gather(8, "GET", app.url + "/delay/0.05")
    assert count_idle(client) <= 2
    assert (await client.get(app.url + "/bytes/10")).status_code == 200
