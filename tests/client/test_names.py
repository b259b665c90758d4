"""Names are looked up in threads: a lookup that hangs holds up only requests that need it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator

import anyio
import pytest

import curlhttp
from curlhttp import Limits, Timeout
from tests.servers import AppServer, HTTPProxy
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.forced import force
from tests.support.names import Names

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
_V4, _V6 = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    found = Names({_V4: ["127.0.0.1"], _V6: []}, seconds=60)
    force(monkeypatch, "the addresses that the system knows", found)
    yield found
    found.release()


@pytest.mark.parametrize("hanging", [_V4, _V6])
async def test_a_family_that_is_not_answered_holds_up_no_request_and_no_close(
    client: AnyClient, app: AppServer, names: Names, hanging: int
) -> None:
    names.known = {_V4: ["127.0.0.1"], _V6: ["::ffff:127.0.0.1"]}
    names.hangs = lambda host, family: family == hanging
    response = await client.get(f"http://half{hanging}.made.up:{app.port}/")
    assert response.content == b"hello"
    await client.aclose()  # before the lookup ends


async def test_a_name_is_looked_up_once_for_many_connections(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    await client.get(f"http://many.made.up:{app.port}/")
    found = await client.gather(30, "GET", f"http://many.made.up:{app.port}/")
    assert {response.status_code for response in found} == {200}
    if not client.is_blocking:  # each thread that sends has a cache of its own
        assert names.count("many.made.up") == 1


async def test_without_dns_ttl_each_connection_needs_a_lookup(
    make_client: MakeClient, app: AppServer, names: Names
) -> None:
    client = make_client(limits=Limits(dns_ttl=0, max_keepalive_connections=0))
    for _ in range(3):
        assert (await client.get(f"http://fresh.made.up:{app.port}/")).content == b"hello"
    assert names.count("fresh.made.up") == 3


async def test_an_unknown_name_is_an_error_with_the_words_of_the_system(
    client: AnyClient, names: Names
) -> None:
    for _ in range(2):
        with pytest.raises(curlhttp.ConnectionError, match="Name or service not known") as caught:
            await client.get("http://u:s3cret@unknown.made.up/")
        assert caught.value.curl_code == 6
        assert not caught.value.request_sent
        assert "s3cret" not in str(caught.value)
    assert names.count("unknown.made.up") == 2  # it may exist by then


async def test_the_proxy_is_looked_up_and_its_target_is_not(
    make_client: MakeClient, app: AppServer, names: Names
) -> None:
    with HTTPProxy() as proxy:
        client = make_client(proxies=f"http://proxy.made.up:{proxy.port}")
        assert (await client.get(app.url)).content == b"hello"
        proxy.hosts["target.made.up"] = (app.host, app.port)
        await client.get(f"http://target.made.up:{app.port}/")
    assert {host for host, _ in names.asked} == {"proxy.made.up"}


async def test_an_unknown_proxy_is_a_proxy_error(make_client: MakeClient, names: Names) -> None:
    client = make_client(proxies="http://unknown.made.up:3128")
    with pytest.raises(curlhttp.ProxyError, match="the proxy's name could not be resolved"):
        await client.get("http://target.made.up/")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "x.localhost"])
async def test_addresses_and_localhost_are_not_looked_up(
    client: AnyClient, app: AppServer, names: Names, host: str
) -> None:
    assert (await client.get(f"http://{host}:{app.port}/")).content == b"hello"
    assert names.asked == []


async def test_configured_addresses_are_not_looked_up(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    url = f"http://configured.made.up:{app.port}/"
    for addresses in ("127.0.0.1", ["127.0.0.1", "127.0.0.9"]):
        assert (await client.get(url, resolve={"configured.made.up": addresses})).ok
    assert names.asked == []


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (Timeout(connect=0.1), curlhttp.ConnectTimeout),
        (Timeout(total=0.1), curlhttp.DeadlineExceeded),
    ],
)
async def test_a_lookup_that_hangs_breaks_no_timeout(
    client: AnyClient, app: AppServer, names: Names, timeout: Timeout, error: type[Exception]
) -> None:
    names.hangs = lambda host, family: host.startswith("hangs")
    with pytest.raises(error, match="Resolving timed out"):
        await client.get("http://hangs.made.up/", timeout=timeout)
    assert (await client.get(app.url)).content == b"hello"


async def test_the_time_of_the_lookup_counts_as_dns_and_in_total(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    names.hangs = lambda host, family: True
    threading.Timer(0.2, names.release).start()
    timings = (await client.get(f"http://slow.made.up:{app.port}/")).timings
    assert timings.dns > 0.15
    assert timings.total >= timings.first_byte >= timings.dns
    timings = (await client.get(f"http://slow.made.up:{app.port}/")).timings
    assert timings.reused
    assert timings.dns == 0


async def test_names_that_hang_do_not_hold_up_others(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    names.hangs = lambda host, family: host.startswith("hangs")
    if client.is_blocking:
        return  # one request at a time
    async with anyio.create_task_group() as tasks:
        for n in range(50):
            tasks.start_soon(client.get, f"http://hangs{n}.made.up:{app.port}/")
        await anyio.sleep(0)
        found = [await client.get(f"http://fine{n}.made.up:{app.port}/") for n in range(50)]
        tasks.cancel_scope.cancel()
    assert {response.status_code for response in found} == {200}


async def test_addresses_that_come_later_are_tried_after_the_first_ones_refused(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    names.known = {_V4: ["127.0.0.1"], _V6: ["::ffff:127.0.0.9"]}  # where nothing listens
    names.hangs = lambda host, family: family == _V4
    threading.Timer(0.2, names.release).start()
    assert (await client.get(f"http://later.made.up:{app.port}/")).content == b"hello"


async def test_addresses_of_an_interface_are_left_out(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    names.known[_V6] = ["fe80::1%lo"]
    assert (await client.get(f"http://scoped.made.up:{app.port}/")).content == b"hello"


async def test_one_address_family_is_asked_for_alone(
    client: AnyClient, app: AppServer, names: Names
) -> None:
    url = f"http://one.made.up:{app.port}/"
    assert (await client.get(url, ip_version=4)).content == b"hello"
    assert names.asked == [("one.made.up", _V4)]
    names.known[_V6] = ["::ffff:127.0.0.1"]
    assert (await client.get(url, ip_version=6)).content == b"hello"  # not in libcurl's cache


async def test_the_log_shows_the_attempt_without_the_lookup_in_between(
    client: AnyClient, app: AppServer, names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "curlhttp"):
        await client.get(f"http://logged.made.up:{app.port}/")
    assert "logged.made.up" in caplog.text
    assert "Could not resolve" not in caplog.text
