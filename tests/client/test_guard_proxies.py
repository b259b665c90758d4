"""With a proxy, a guard checks the address that the proxy is asked to connect to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import BlockedAddress, PublicOnly, Timeout
from tests.servers import AppServer, Certs, HTTPProxy, SOCKSProxy
from tests.support.colours import WITHOUT_UVLOOP, AnyClient, needs_authorities
from tests.support.every_api import EVERY_API, make_fetch
from tests.support.forced import force

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

HERE = PublicOnly(allow=["127.0.0.1"])  # 127.0.0.2 is as private as before
SOCKS = ("socks4", "socks4a", "socks5", "socks5h")


class Resolver:
    """Knows the addresses of invented names; every other one does not exist."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {"made.up": ["127.0.0.1"]}
        self.asked: list[str] = []  # for addresses of IPv4
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, host: str, family: int) -> list[str]:
        if family == socket.AF_INET:
            self.asked.append(host)
        self.goes_on.wait(30.0)
        found = [
            address
            for address in self.known.get(host, ())
            if (":" in address) == (family == socket.AF_INET6)
        ]
        if not found:
            raise OSError(-2, "Name or service not known")
        return found


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    found = Resolver()
    force(monkeypatch, "the addresses that the system knows", found)
    yield found
    found.goes_on.set()


@pytest.fixture
def proxy() -> Iterator[HTTPProxy]:
    with HTTPProxy() as server:  # which knows no name but loopback's
        yield server


@pytest.fixture
def socks() -> Iterator[SOCKSProxy]:
    with SOCKSProxy() as server:
        yield server


@pytest.fixture(scope="module")
def tls_made_up(certs: Certs) -> Iterator[AppServer]:
    with AppServer(certs.server_context("made.up")) as server:
        yield server


async def test_http_goes_through_a_tunnel_to_the_address(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    client = make_client(guard=HERE, proxies=proxy.url)
    for _ in range(3):
        found = await client.get(f"http://made.up:{app.port}/echo")
    assert ["Host", f"made.up:{app.port}"] in found.json()["headers"]
    assert [(asked.method, asked.target) for asked in proxy.log] == [
        ("CONNECT", f"127.0.0.1:{app.port}")
    ]
    assert (proxy.tunnels, len(resolver.asked)) == (1, 1)


@needs_authorities
async def test_tls_is_with_the_name_and_the_tunnel_to_the_address(
    make_client: MakeClient, tls_made_up: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    client = make_client(guard=HERE, proxies=proxy.url)
    port = tls_made_up.port
    assert (await client.get(f"https://made.up:{port}/")).content == b"hello"
    resolver.known["else.where"] = ["127.0.0.1"]
    with pytest.raises(curlhttp.SSLError):  # the certificate is not for that name
        await client.get(f"https://else.where:{port}/")
    assert {asked.target for asked in proxy.log} == {f"127.0.0.1:{port}"}


@pytest.mark.parametrize("scheme", SOCKS)
async def test_socks_proxies_get_the_address(
    make_client: MakeClient, app: AppServer, socks: SOCKSProxy, resolver: Resolver, scheme: str
) -> None:
    resolver.known["made.up"] = ["127.0.0.2", "127.0.0.1"]
    client = make_client(guard=HERE, proxies=f"{scheme}://127.0.0.1:{socks.port}")
    assert (await client.get(f"http://made.up:{app.port}/")).content == b"hello"
    assert socks.log == [("127.0.0.1", app.port)]


@pytest.mark.parametrize("scheme", ("http", *SOCKS))
@pytest.mark.parametrize("host", ("made.up", "127.0.0.2", "2130706434", "[::ffff:127.0.0.2]"))
async def test_no_proxy_is_asked_to_connect_to_a_refused_address(
    make_client: MakeClient, socks: SOCKSProxy, monkeypatch: Any, scheme: str, host: str
) -> None:
    if host == "made.up":
        found = {socket.AF_INET: ["127.0.0.2", "10.0.0.1"], socket.AF_INET6: []}
        force(
            monkeypatch, "the addresses that the system knows", lambda host, family: found[family]
        )
    client = make_client(guard=HERE, proxies=f"{scheme}://127.0.0.1:{socks.port}", retry=3)
    for tls in ("http", "https"):
        with pytest.raises((BlockedAddress, curlhttp.ConnectionError)) as caught:
            await client.get(f"{tls}://{host}:81/")
        if not (scheme.startswith("socks4") and host.startswith("[")):  # no address of IPv4
            error = caught.value
            assert isinstance(error, BlockedAddress)
            assert (error.address.removeprefix("::ffff:"), error.port) == ("127.0.0.2", 81)
            assert len(error.attempts) <= 1
    assert socks.connections == 0


@pytest.mark.parametrize("scheme", ("http", "socks4a", "socks5h"))
async def test_a_proxy_that_is_trusted_gets_the_name(
    make_client: MakeClient, app: AppServer, resolver: Resolver, scheme: str
) -> None:
    hosts = {"intern": (app.host, app.port)}
    kind = HTTPProxy if scheme == "http" else SOCKSProxy
    with kind(hosts=hosts) as server:
        client = make_client(
            guard=PublicOnly(proxies="trust"), proxies=f"{scheme}://127.0.0.1:{server.port}"
        )
        assert (await client.get("http://intern/")).content == b"hello"
    assert resolver.asked == []
    with pytest.raises(BlockedAddress):  # without a proxy all is as before
        await client.get(app.url, proxies={"http": ""})


async def test_a_name_that_changes_makes_no_difference_to_a_proxy(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    # No time to live: the name is looked up and checked for each request.
    client = make_client(guard=HERE, proxies=proxy.url, dns_ttl=0)
    url = f"http://made.up:{app.port}/"
    proxy.hosts["made.up"] = ("127.0.0.2", 81)  # what the proxy would find
    assert (await client.get(url)).content == b"hello"
    resolver.known["made.up"] = ["127.0.0.2"]
    with pytest.raises(BlockedAddress):
        await client.get(url)
    assert [asked.target for asked in proxy.log] == [f"127.0.0.1:{app.port}"]


async def test_a_redirect_behind_a_proxy_is_checked(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    client = make_client(guard=HERE, proxies=proxy.url)
    url = f"http://made.up:{app.port}/redirect-to"
    for target in ("http://127.0.0.2:81/", "http://localhost./", "http://[::1]/"):
        resolver.known["localhost."] = ["::1"]
        resolver.known["127.0.0.2"], resolver.known["::1"] = ["127.0.0.2"], ["::1"]
        with pytest.raises(BlockedAddress):
            await client.get(url, params={"url": target})
    resolver.known["127.0.0.1"] = ["127.0.0.1"]
    response = await client.get(url, params={"url": app.url})
    assert (response.content, len(response.history)) == (b"hello", 1)
    assert {asked.target for asked in proxy.log} == {
        f"127.0.0.1:{app.port}",
        f"http://127.0.0.1:{app.port}/",  # an address in the URL needs no tunnel
    }


@EVERY_API
async def test_every_api_is_checked_behind_a_proxy(
    make_client: MakeClient, api: str, tmp_path: Any, app: AppServer, proxy: HTTPProxy,
    resolver: Resolver,
) -> None:  # fmt: skip
    with curlhttp.requests.Session(guard=HERE) as session:
        fetch = make_fetch(make_client(guard=HERE), api, tmp_path, session)
        proxies = {"http": proxy.url}
        response = await fetch(f"http://made.up:{app.port}/", proxies=proxies)
        assert response is None or api == "download" or response.status_code == 200
        resolver.known["intern"] = ["10.0.0.1"]
        with pytest.raises(BlockedAddress):
            await fetch("http://intern/", proxies=proxies)
    assert {asked.target for asked in proxy.log} == {f"127.0.0.1:{app.port}"}


async def test_websockets_are_checked_behind_a_proxy(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    pytest.importorskip("websockets", reason="WebSockets need the package websockets")
    client = make_client(guard=HERE, proxies=proxy.url)
    with pytest.raises(curlhttp.WebSocketRefused):
        await client.websocket(f"ws://made.up:{app.port}/")
    resolver.known["intern"] = ["10.0.0.1"]
    with pytest.raises(BlockedAddress):
        await client.websocket("ws://intern/")
    assert [asked.target for asked in proxy.log] == [f"127.0.0.1:{app.port}"]


async def test_a_tunnel_of_a_request_without_the_guard_is_not_used(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    proxy.hosts["made.up"] = (app.host, app.port)  # to which the proxy itself resolves it
    client = make_client(proxies=proxy.url)
    url = f"http://made.up:{app.port}/"
    await client.get(url)
    wanted = client.real.build_request("GET", url)
    guarded = replace(wanted.route, guard=HERE)
    wanted.route, wanted.choose_route = guarded, None
    with pytest.raises(BlockedAddress, match="resolve the name"):  # nobody has checked its target
        await client.send(wanted)
    assert len(app.requests) == 1


async def test_an_unknown_name_is_a_connection_error(
    make_client: MakeClient, proxy: HTTPProxy, resolver: Resolver
) -> None:
    client = make_client(guard=HERE, proxies=proxy.url)
    with pytest.raises(curlhttp.ConnectionError, match="could not be resolved") as caught:
        await client.get("http://u:s3cret@nowhere.up/")
    assert type(caught.value) is curlhttp.ConnectionError
    assert "s3cret" not in str(caught.value)
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (Timeout(connect=0.05), curlhttp.ConnectTimeout),
        (Timeout(total=0.05), curlhttp.DeadlineExceeded),
    ],
)
async def test_a_slow_resolver_breaks_no_timeout_and_blocks_no_other_request(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver, timeout: Any,
    error: type[Exception],
) -> None:  # fmt: skip
    resolver.goes_on.clear()
    client = make_client(guard=HERE)
    url = f"http://made.up:{app.port}/"
    with pytest.raises(error):
        await client.get(url, proxies=proxy.url, timeout=timeout)
    if not client.is_blocking:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.get(url, proxies=proxy.url))
            assert (await client.get(app.url)).content == b"hello"
            resolver.goes_on.set()
    assert len(resolver.asked) == 1  # the second one waited for the response of the first


async def test_concurrent_requests_share_one_name_resolution(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    client = make_client(guard=HERE, proxies=proxy.url)
    found = await client.gather(50, "GET", f"http://made.up:{app.port}/")
    assert {response.status_code for response in found} == {200}
    # More than once only if the thread that asks for IPv6 gets no CPU for so long that the request
    # goes on with what there is, which is not kept.
    assert len(resolver.asked) < 5


async def test_many_names_at_once_need_few_threads(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()

    def addresses(host: str, family: int) -> list[str]:
        seen.add(threading.get_ident())
        if family == socket.AF_INET6:
            return []
        return ["127.0.0.1" if host.endswith("0.up") else "10.0.0.1"]

    force(monkeypatch, "the addresses that the system knows", addresses)
    client = make_client(guard=HERE, proxies=proxy.url)
    wanted = [f"http://n{number}.up:{app.port}/" for number in range(300)]
    found = [result async for result in client.map(wanted)]
    assert sum(isinstance(each, BlockedAddress) for each in found) == 270
    assert sum(getattr(each, "status_code", 0) == 200 for each in found) == 30
    assert len(seen) <= 128 * 8  # numbers of ended threads are used again, or not


async def test_a_request_cancelled_during_name_resolution_leaves_nothing(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    client = make_client(guard=HERE, proxies=proxy.url)
    if client.is_blocking:
        return
    url = f"http://made.up:{app.port}/"
    resolver.goes_on.clear()
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(client.get, url)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    resolver.goes_on.set()
    assert (await client.get(url)).content == b"hello"


async def test_the_target_of_connect_to_is_checked(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    resolver.known["other.up"] = resolver.known["127.0.0.1"] = ["127.0.0.1"]
    resolver.known["10.0.0.1"] = ["10.0.0.1"]
    client = make_client(guard=HERE, proxies=proxy.url)
    url = "http://made.up/"
    await client.get(url, connect_to={"made.up": f"other.up:{app.port}"})
    await client.get(f"http://made.up:{app.port}/", resolve={"made.up": "127.0.0.1"})
    with pytest.raises(BlockedAddress, match=r"10\.0\.0\.1"):
        await client.get(url, resolve={"made.up": "10.0.0.1"})
    assert {asked.target for asked in proxy.log} == {f"127.0.0.1:{app.port}"}
    assert resolver.asked[0] == "other.up"


async def test_a_mock_needs_no_address(make_client: MakeClient, resolver: Resolver) -> None:
    client = make_client(guard=PublicOnly(https_only=True), proxies="http://127.0.0.1:1")
    with curlhttp.testing.mock() as mocked:
        mocked.get("https://made.up/").respond(204)
        assert (await client.get("https://made.up/")).status_code == 204
        with pytest.raises(BlockedAddress, match="not https"):
            await client.get("http://made.up/")
    assert resolver.asked == []


async def test_traced_attempts_are_checked(
    make_client: MakeClient, app: AppServer, proxy: HTTPProxy, resolver: Resolver
) -> None:
    otel = pytest.importorskip("curlhttp.otel", reason="the extra 'otel' is not installed")
    instrumentor = otel.CurlhttpInstrumentor()
    instrumentor.instrument()
    try:
        client = make_client(guard=HERE, proxies=proxy.url)
        assert (await client.get(f"http://made.up:{app.port}/")).content == b"hello"
        resolver.known["intern"] = ["10.0.0.1"]
        with pytest.raises(BlockedAddress, match="private"):
            await client.get("http://intern/")
    finally:
        instrumentor.uninstrument()
    assert [asked.target for asked in proxy.log] == [f"127.0.0.1:{app.port}"]
