"""A guard checks the address that is connected to: per redirect, attempt and reused connection."""

from __future__ import annotations

import gc
import os
import pickle
import stat
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import curlhttp
from curlhttp import BlockedAddress, PublicOnly
from tests.servers import AppServer, Certs, H2Server, RawServer, refused_port
from tests.support.colours import AnyClient, needs_posix
from tests.support.dns import Names
from tests.support.every_api import EVERY_API, make_fetch
from tests.support.forced import force

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

# Whatever an address of this machine is written as, libcurl or the system would find it.
OURS = (
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "2130706433",
    "0",
    "0.0.0.0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "%6c%6fcalhost",
    "①②⑦.⓪.⓪.①",
    "\uff11\uff12\uff17\uff0e\uff10\uff0e\uff10\uff0e\uff11",  # full width
    "127。0。0。1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::80ff:fffe]",
    "[fe80::1%25lo]",
    "[::1%25lo]",
)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Names]:
    """Return a function that invents names."""
    return lambda **answers: Names(
        monkeypatch, {f"{name}.test": each for name, each in answers.items()}
    )


@pytest.mark.parametrize("host", OURS)
async def test_this_machine_is_refused_however_it_is_written(
    make_client: MakeClient, app: AppServer, host: str
) -> None:
    client = make_client(guard=PublicOnly())
    for _ in range(2):
        with pytest.raises(BlockedAddress) as caught:
            await client.get(f"http://{host}:{app.port}/")
    assert not caught.value.request_sent
    assert caught.value.reason.startswith("not public: ")
    assert caught.value.address in str(caught.value)
    assert app.connections == 0


@pytest.mark.parametrize("kind", ("allow", "function"))
async def test_an_allowed_address_is_reached(
    make_client: MakeClient, app: AppServer, kind: str
) -> None:
    asked: list[tuple[str, str, int]] = []

    def judge(host: str, address: str, port: int) -> bool:
        asked.append((host, address, port))
        return address == "127.0.0.1"

    client = make_client(guard=PublicOnly(allow=["127.0.0.0/8"]) if kind == "allow" else judge)
    for _ in range(2):
        assert (await client.get(app.at("localhost"))).content == b"hello"
    assert app.connections == 1
    if kind == "function":
        assert ("localhost", "127.0.0.1", app.port) in asked
        assert {port for _, _, port in asked} == {app.port}


@EVERY_API
async def test_every_api_is_guarded(
    make_client: MakeClient, api: str, tmp_path: Any, certs: Certs, app: AppServer
) -> None:
    with curlhttp.requests.Session(guard=PublicOnly()) as session:
        fetch = make_fetch(make_client(guard=PublicOnly()), api, tmp_path, session)
        with pytest.raises(BlockedAddress, match="loopback"):
            await fetch(app.at("localhost"))
    assert app.connections == 0
    assert not (tmp_path / "downloaded").exists()


async def test_events_are_guarded_and_not_reconnected(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(guard=PublicOnly())
    with pytest.raises(BlockedAddress):
        async with client.sse(app.url) as events:
            [event async for event in events]
    assert app.connections == 0


async def test_websockets_are_guarded(make_client: MakeClient, app: AppServer) -> None:
    pytest.importorskip("websockets", reason="WebSockets need the package websockets")
    client = make_client(guard=PublicOnly())
    with pytest.raises(BlockedAddress):
        await client.websocket(f"ws://localhost:{app.port}/")
    assert app.connections == 0


# --- names


async def test_public_addresses_of_a_name_are_tried_and_private_ones_are_not(
    make_client: MakeClient, app: AppServer, names: Callable[..., Names]
) -> None:
    names(mixed=["10.1.2.3,::1,127.0.0.1,169.254.169.254"])
    client = make_client(guard=PublicOnly(allow=["127.0.0.1"]))
    found = await client.get(app.at("mixed.test"))
    assert found.timings.peer == ("127.0.0.1", app.port)


async def test_a_name_with_nothing_but_private_addresses_is_refused(
    make_client: MakeClient, app: AppServer, names: Callable[..., Names]
) -> None:
    names(inner=["127.0.0.1,10.1.2.3"])
    with pytest.raises(BlockedAddress) as caught:
        await make_client(guard=PublicOnly()).get(f"http://u:s3cret@inner.test:{app.port}/")
    error = caught.value
    assert (error.host, error.address, error.port) == ("inner.test", "127.0.0.1", app.port)
    assert error.reason == "not public: loopback"
    assert f"127.0.0.1:{app.port}" in str(error)
    assert "s3cret" not in f"{error!s}{error!r}{error.__dict__}"
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.address, twin.reason) == (error.address, error.reason)
    assert app.connections == 0


async def test_a_public_address_that_does_not_respond_is_not_blocked(
    make_client: MakeClient, names: Callable[..., Names]
) -> None:
    names(down=["10.1.2.3,127.0.0.1"])
    client = make_client(guard=PublicOnly(allow=["127.0.0.1"]))
    with refused_port() as port, pytest.raises(curlhttp.ConnectionError) as caught:
        await client.get(f"http://down.test:{port}/")
    assert type(caught.value) is curlhttp.ConnectionError


async def test_a_name_that_changes_between_attempts_is_checked_again(
    make_client: MakeClient, names: Callable[..., Names]
) -> None:
    resolved = names(rebinding=["127.0.0.1", "127.0.0.2"])
    with RawServer(lambda conn: conn.close()) as server:
        client = make_client(guard=PublicOnly(allow=["127.0.0.1"]), retry=3)
        with pytest.raises(BlockedAddress) as caught:
            await client.get(f"http://rebinding.test:{server.port}/")
        assert caught.value.address == "127.0.0.2"
        assert len(caught.value.attempts) == 2  # a refusal is not retried
        assert server.connections == 1
    assert resolved.addresses["rebinding.test"] == ["127.0.0.2"]


async def test_a_redirect_to_this_machine_is_refused(
    make_client: MakeClient, app: AppServer, names: Callable[..., Names]
) -> None:
    names(public=["127.0.0.1"])
    client = make_client(guard=PublicOnly(allow=["public.test"]))
    for target in (f"http://127.0.0.1:{app.port}/", f"http://2130706433:{app.port}/json"):
        with pytest.raises(BlockedAddress):
            await client.get(f"http://public.test:{app.port}/redirect-to", params={"url": target})
    assert [record.path for record in app.requests] == ["/redirect-to"] * 2


# --- kept connections


@pytest.mark.parametrize("server", ("app", "h2_app"))
async def test_a_reused_connection_of_another_request_is_checked(
    make_client: MakeClient, server: str, request: pytest.FixtureRequest
) -> None:
    app: AppServer = request.getfixturevalue(server)
    # Proxies of the system, as Windows may have them, would choose another transport again.
    client = make_client(http2=True, trust_env=False)
    assert (await client.get(app.url)).status_code == 200
    sent = app.connections
    for guard in (PublicOnly(), PublicOnly(deny=["127.0.0.1"])):
        wanted = client.real.build_request("GET", app.url)
        wanted.route = replace(wanted.route, guard=guard)
        with pytest.raises(BlockedAddress):
            await client.send(wanted)
    assert len(app.requests) == 1
    assert app.connections == sent
    assert (await client.get(app.url)).status_code == 200  # without a guard all is as before


async def test_a_guard_that_changes_its_decision_ends_a_reused_connection(
    make_client: MakeClient, app: AppServer
) -> None:
    allowed = {"127.0.0.1"}
    client = make_client(guard=lambda host, address, port: address in allowed)
    assert (await client.get(app.url)).status_code == 200
    allowed.clear()
    with pytest.raises(BlockedAddress, match="refused by the guard"):
        await client.get(app.url)
    assert len(app.requests) == 1


# --- what a refusal affects


async def test_a_refusal_is_not_retried_hedged_or_counted(
    make_client: MakeClient, app: AppServer
) -> None:
    breaker = curlhttp.CircuitBreaker(1, 30.0, minimum_calls=1)
    client = make_client(
        guard=PublicOnly(), retry=3, breaker=breaker, hedge=curlhttp.Hedge(after=0.001)
    )
    for _ in range(5):
        with pytest.raises(BlockedAddress) as caught:
            await client.get(app.url)
        assert len(caught.value.attempts) <= 1
    assert app.connections == 0


async def test_a_guard_that_raises_ends_the_request_with_that(
    make_client: MakeClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    class Own(Exception):
        pass

    mood: list[BaseException | None] = [Own("first")]

    def judge(host: str, address: str, port: int) -> bool:
        if mood[0] is not None:
            raise mood[0]
        return True

    client = make_client(guard=judge)
    with pytest.raises(Own, match="first"):
        await client.get(app.at("localhost"))
    assert app.connections == 0
    mood[0] = None
    assert (await client.get(app.url)).status_code == 200
    mood[0] = Own("second")  # of the kept connection
    with pytest.raises(Own, match="second"):
        await client.get(app.url)
    assert len(app.requests) == 1
    assert capfd.readouterr().err == ""


async def test_a_refusal_does_not_affect_the_next_request(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(guard=PublicOnly(allow=["127.0.0.1"]))
    with refused_port() as port:
        for _ in range(2):
            with pytest.raises(BlockedAddress):
                await client.get(f"http://127.0.0.2:{app.port}/")
            assert (await client.get(app.url)).status_code == 200
            with pytest.raises(curlhttp.ConnectionError) as caught:
                await client.get(f"http://127.0.0.1:{port}/")
            assert not isinstance(caught.value, BlockedAddress)


async def test_many_refusals_at_once(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(guard=PublicOnly())
    wanted = [f"http://localhost:{app.port}/{number}" for number in range(300)]
    found = [result async for result in client.map(wanted)]
    assert {type(each) for each in found} == {BlockedAddress}
    assert app.connections == 0


async def test_https_only_refuses_each_redirect_without_tls(
    make_client: MakeClient, app: AppServer, tls_app: AppServer
) -> None:
    client = make_client(guard=PublicOnly(allow=["127.0.0.0/8"], https_only=True))
    assert (await client.get(tls_app.url)).status_code == 200
    # Nothing is resolved, either: this name has no address.
    with pytest.raises(BlockedAddress, match="not https"):
        await client.get("http://nowhere.invalid/")
    with pytest.raises(BlockedAddress, match="not https"):
        await client.get(tls_app.url + "/redirect-to", params={"url": app.url})
    assert app.connections == 0


@needs_posix
async def test_sockets_of_a_guarded_client_are_not_inherited(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(guard=PublicOnly(allow=["127.0.0.1"]))
    before = inheritable_sockets()
    await client.get(app.url)
    assert app.open_connections == 1
    assert inheritable_sockets() <= before


def inheritable_sockets() -> set[str]:
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the one that this reads with
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode) and os.get_inheritable(int(name)):
                found.add(name)
    return found


async def test_http2_connections_are_guarded(make_client: MakeClient, h2_app: H2Server) -> None:
    allowing = make_client(guard=PublicOnly(allow=["127.0.0.1"]), http2=True)
    assert (await allowing.get(h2_app.url)).http_version == "HTTP/2"
    with pytest.raises(BlockedAddress):
        await make_client(guard=PublicOnly(), http2=True).get(h2_app.url)


async def test_a_request_built_by_another_client_is_checked(
    make_client: MakeClient, app: AppServer
) -> None:
    for theirs in (None, PublicOnly(allow=["127.0.0.0/8"]), lambda *where: True):
        wanted = make_client(guard=theirs).real.build_request("GET", app.url)
        with pytest.raises(BlockedAddress):
            await make_client(guard=PublicOnly()).send(wanted)
    assert app.connections == 0


async def test_a_unix_socket_of_a_relative_path_is_refused(make_client: MakeClient) -> None:
    client = make_client(guard=PublicOnly())
    for path in ("relative.sock", "@name", "8.8.8.8.sock"):
        with pytest.raises(BlockedAddress, match="a Unix socket"):
            await client.get("http://h.test/", uds=path)


async def test_a_guard_refuses_unix_sockets_where_it_cannot_see_them(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "whether the system hides paths of Unix sockets", True)
    client = make_client(guard=PublicOnly(allow=["/run/docker.sock"]))
    for path, reason in (("/run/docker.sock", "on Windows"), ("/run/other.sock", "a Unix socket")):
        with pytest.raises(BlockedAddress, match=reason):
            await client.get("http://h.test/", uds=path)


def test_a_guard_applies_to_its_client(app: AppServer) -> None:
    class Judge:
        def __call__(self, host: str, address: str, port: int) -> bool:
            return True

    judge = Judge()
    gone = weakref.ref(judge)
    with curlhttp.Client(guard=judge) as client:
        client.get(app.url)
    del client, judge
    gc.collect()
    assert gone() is None


def test_an_invalid_guard_is_an_error_at_once() -> None:
    for wrong in ("10.0.0.0/8", PublicOnly, ["10.0.0.0/8"]):
        with pytest.raises(TypeError, match="guard must be"):
            curlhttp.Client(guard=wrong)  # type: ignore[arg-type]
