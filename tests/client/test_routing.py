"""Routing: Unix sockets, resolved addresses, interfaces, name servers; never another request's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import Client, requests
from tests.servers import (
    AppConnection,
    AppServer,
    Certs,
    DoHServer,
    H2Server,
    HTTPProxy,
    Record,
    UnixDoor,
    refused_port,
)
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, make_fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no 127.0.0.2")


@pytest.fixture
def forwarder(app: AppServer, tmp_path: Path) -> Iterator[UnixDoor]:
    """Return a Unix socket that leads to the application."""
    with UnixDoor(tmp_path / "s", app) as forwarder:
        yield forwarder


@pytest.fixture
def named(certs: Certs) -> Iterator[AppServer]:
    """Return a TLS server whose certificate also names made.up."""
    with AppServer(certs.server_context("made.up")) as server:
        yield server


@pytest.fixture
def names(certs: Certs) -> Iterator[DoHServer]:
    """Return a name server that knows made.up."""
    with DoHServer(certs.server_context(), {"made.up": "127.0.0.1"}) as server:
        yield server


def peers(server: AppServer) -> list[str]:
    """Let a server note where its requests come from."""
    found: list[str] = []

    def respond(record: Any, conn: Any) -> None:
        found.append(conn.sock.getpeername()[0])
        conn.reply(200, b"hello")

    server.route("/from", respond)
    return found


# --- Unix sockets ---


async def test_a_unix_socket_is_connected_to_whatever_the_url(
    make_client: MakeClient, app: AppServer, forwarder: UnixDoor
) -> None:
    client = make_client(uds=forwarder.path)
    for _ in range(2):
        assert (await client.get("http://docker/")).content == b"hello"
    assert app.requests[-1].header("host") == "docker"
    assert forwarder.connections == 1
    other = make_client()
    assert (await other.get("http://docker/", uds=str(forwarder.path))).ok
    with refused_port() as port, pytest.raises(curlhttp.ConnectionError):
        await client.get(f"http://127.0.0.1:{port}/", uds=None)


async def test_a_unix_socket_closed_while_idle_loses_no_request(
    make_client: MakeClient, app: AppServer, forwarder: UnixDoor
) -> None:
    client = make_client(uds=forwarder.path)
    for number in range(1, 4):
        assert (await client.post("http://docker/upload", content=b"abc")).json()["length"] == 3
        assert forwarder.connections == number
        forwarder.close_all()
    assert len(app.requests) == 3


async def test_unsolicited_bytes_on_a_unix_socket_are_no_response(
    make_client: MakeClient, app: AppServer, forwarder: UnixDoor
) -> None:
    client = make_client(uds=forwarder.path)
    for number in range(1, 4):
        assert (await client.get("http://docker/")).content == b"hello"
        assert forwarder.connections == number
        forwarder.say(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")


async def test_many_requests_share_the_connections_of_a_unix_socket(
    make_client: MakeClient, app: AppServer, forwarder: UnixDoor
) -> None:
    client = make_client(uds=forwarder.path)
    urls = [f"http://docker/bytes/{size}" for size in range(1, 101)]
    results = [result async for result in client.map(urls, concurrency=4, ordered=True)]
    assert [len(result.content) for result in results] == list(range(1, 101))
    used = forwarder.connections
    assert used < 100
    for _ in range(5):  # all are idle now
        assert (await client.get("http://docker/")).content == b"hello"
    assert forwarder.connections <= used + 1  # the client's own, where map brings its own


async def test_a_response_with_two_framings_closes_a_unix_socket(
    make_client: MakeClient, app: AppServer, forwarder: UnixDoor
) -> None:
    def respond(record: Record, conn: AppConnection) -> None:
        conn.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nok\r\n0\r\n\r\n"
        )

    app.route("/twice", respond)
    client = make_client(uds=forwarder.path)
    assert (await client.get("http://docker/twice")).content == b"ok"
    for _ in range(2):
        assert (await client.get("http://docker/")).content == b"hello"
        assert forwarder.connections == 2


@EVERY_CLIENT_API
async def test_every_api_uses_the_unix_socket(
    client: AnyClient, api: str, forwarder: UnixDoor, tmp_path: Path
) -> None:
    with requests.Session() as session:
        fetch = make_fetch(client, api, tmp_path, session)
        await fetch("http://docker/", uds=forwarder.path)
        assert forwarder.connections == 1


async def test_tls_works_on_a_unix_socket(
    make_client: MakeClient, named: AppServer, tmp_path: Path
) -> None:
    with UnixDoor(tmp_path / "s", named) as forwarder:
        client = make_client(uds=forwarder.path)
        assert (await client.get("https://made.up/")).ok
        with pytest.raises(curlhttp.SSLError):
            await client.get("https://other.up/")


async def test_a_missing_unix_socket_is_a_connection_error(
    make_client: MakeClient, tmp_path: Path
) -> None:
    with pytest.raises(curlhttp.ConnectionError) as caught:
        await make_client(uds=tmp_path / "none").get("http://docker/")
    assert not caught.value.request_sent


async def test_the_proxies_of_the_environment_are_no_matter_of_a_unix_socket(
    make_client: MakeClient, forwarder: UnixDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused_port() as port:
        monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{port}")
        assert (await make_client(uds=forwarder.path).get("http://docker/")).ok
        assert (await make_client().get("http://docker/", uds=forwarder.path)).ok


# --- other addresses than those of the URL ---


async def test_a_name_is_resolved_to_the_given_address(
    make_client: MakeClient, named: AppServer
) -> None:
    for key in (f"made.up:{named.port}", "made.up", f"MADE.UP:{named.port}"):
        client = make_client(resolve={key: "127.0.0.1"})
        assert (await client.get(named.at("made.up"))).ok
        assert named.handshakes[-1].sni == "made.up"
        assert named.requests[-1].header("host") == f"made.up:{named.port}"


@on_linux
@pytest.mark.parametrize("with_port", [True, False])
async def test_the_next_address_is_tried_if_the_first_refuses(
    make_client: MakeClient, named: AppServer, app: AppServer, with_port: bool
) -> None:
    for server in named, app:
        key = f"made.up:{server.port}" if with_port else "made.up"
        given = {key: ["127.0.0.2", "127.0.0.1", "127.0.0.2"], "other.up": "127.0.0.1"}
        client, before = make_client(resolve=given), server.connections
        for _ in range(2):
            assert (await client.get(server.at("made.up"))).ok
        assert server.requests[-1].header("host") == f"made.up:{server.port}"
        assert (await client.get(server.at("made.up") + "/other")).status_code == 404
        assert server.connections == before + 1
        assert (await client.get(app.at("other.up"))).ok
        with pytest.raises(curlhttp.ConnectionError):
            await client.get(server.at("third.up"))
        with pytest.raises(curlhttp.ConnectionError):
            await client.get("http://made.up:1/")
        if with_port:
            with pytest.raises(curlhttp.ConnectionError):
                await client.get(server.at("made.up"), resolve={key: ["127.0.0.2", "127.0.0.3"]})
        assert (await client.get(server.url)).ok
    assert {shake.sni for shake in named.handshakes} == {"made.up", None}


@on_linux
async def test_many_lists_of_addresses_are_each_their_own_requests(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()
    for number in range(600):
        given = {"made.up": [f"127.0.1.{number % 200 + 1}", f"127.0.{number // 200 + 2}.1"]}
        with pytest.raises(curlhttp.ConnectionError):
            await client.get("http://made.up:1/", resolve=given)
        if number % 50 == 0:
            given["made.up"].append("127.0.0.1")
            assert (await client.get(app.at("made.up"), resolve=given)).ok
            with pytest.raises(curlhttp.ConnectionError):
                await client.get(app.at("made.up"))


@on_linux
async def test_the_target_of_connect_to_may_have_several_addresses(
    make_client: MakeClient, named: AppServer
) -> None:
    client = make_client(
        connect_to={"made.up:443": f"other.up:{named.port}"},
        resolve={"other.up": ["127.0.0.2", "127.0.0.1"]},
    )
    assert (await client.get("https://made.up/")).ok
    assert named.handshakes[-1].sni == "made.up"


async def test_a_given_address_is_used_for_its_host_and_port_only(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(resolve={f"made.up:{app.port}": "127.0.0.1", "other.up": "127.0.0.1"})
    assert (await client.get(app.at("made.up"))).ok
    assert (await client.get(app.at("other.up"))).ok
    with pytest.raises(curlhttp.ConnectionError):
        await client.get("http://made.up:1/")
    with pytest.raises(curlhttp.ConnectionError):
        await client.get(app.at("third.up"))


async def test_a_given_address_is_not_used_for_other_requests(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()
    given = {f"made.up:{app.port}": "127.0.0.1"}
    for _ in range(2):
        assert (await client.get(app.at("made.up"), resolve=given)).ok
        for asked in (client, make_client()):
            with pytest.raises(curlhttp.ConnectionError):
                await asked.get(app.at("made.up"))


@on_linux
async def test_two_addresses_of_a_name_share_no_connection(
    make_client: MakeClient, certs: Certs
) -> None:
    with H2Server(certs.server_context("made.up", alpn=("h2",))) as first:
        with AppServer(certs.server_context("made.up"), host="127.0.0.2") as second:
            second.stop_accepting()
            second.port = first.port
            second.start_accepting()
            client = make_client()
            for _ in range(2):
                for server, body in ((first, b"hello"), (second, b"hello")):
                    before = len(server.requests)
                    response = await client.get(
                        first.at("made.up"), resolve={"made.up": server.host}
                    )
                    assert response.content == body
                    assert len(server.requests) == before + 1


async def test_connect_to_connects_to_another_host(
    make_client: MakeClient, named: AppServer
) -> None:
    client = make_client(connect_to={"made.up:443": f"localhost:{named.port}"})
    assert (await client.get("https://made.up/")).ok
    assert named.handshakes[-1].sni == "made.up"
    assert named.requests[-1].header("host") == "made.up"
    with pytest.raises(curlhttp.ConnectionError):
        await client.get("https://made.up/", connect_to=None)


async def test_connect_to_may_be_for_any_host(make_client: MakeClient, app: AppServer) -> None:
    with refused_port() as refused:
        detours = {"*": f"127.0.0.1:{refused}", "*:80": app.url.removeprefix("http://")}
        client = make_client(connect_to={**detours, "up.made": f"127.0.0.1:{refused}"})
        async with client:
            assert (await client.get("http://made.up/")).text == "hello"
            for url in ("http://made.up:81/", "http://up.made/"):  # one host comes before any
                with pytest.raises(curlhttp.ConnectionError):
                    await client.get(url)


async def test_the_target_of_connect_to_may_be_resolved_by_resolve(
    make_client: MakeClient, named: AppServer
) -> None:
    client = make_client(
        connect_to={"made.up:443": f"other.up:{named.port}"}, resolve={"other.up": "127.0.0.1"}
    )
    assert (await client.get("https://made.up/")).ok


async def test_a_redirect_uses_the_given_addresses_too(
    make_client: MakeClient, app: AppServer
) -> None:
    target = app.at("made.up") + "/"
    app.route("/hop", lambda record, out: out.reply(302, b"", [("Location", target)]))
    client = make_client()
    response = await client.get(app.url + "/hop", resolve={"made.up": "127.0.0.1"})
    assert response.content == b"hello"


# --- the own end ---


@on_linux
async def test_a_connection_starts_from_the_given_address(
    make_client: MakeClient, app: AppServer
) -> None:
    found = peers(app)
    client = make_client(local_address="127.0.0.2")
    assert (await client.get(app.url + "/from")).ok
    assert (await make_client().get(app.url + "/from", local_address="127.0.0.3")).ok
    assert found == ["127.0.0.2", "127.0.0.3"]


@on_linux
async def test_no_connection_is_used_from_another_address(
    make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    found = peers(app)
    client = make_client()
    order: tuple[str | None, ...] = (None, "127.0.0.2", None, "127.0.0.3", "127.0.0.2", None)
    for address in order:
        await client.get(app.url + "/from", local_address=address)
        await client.get(h2_app.url, local_address=address)
    assert found == [address or "127.0.0.1" for address in order]
    assert app.connections == 3  # and each is kept for its own
    assert h2_app.connections == 3


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface has another name")
async def test_a_connection_uses_the_given_interface(
    make_client: MakeClient, app: AppServer
) -> None:
    assert (await make_client(interface="lo").get(app.url)).ok
    found = peers(app)
    client = make_client(interface="lo", local_address="127.0.0.2")
    assert (await client.get(app.url + "/from")).ok
    assert found == ["127.0.0.2"]


_UNUSABLE = {
    "local address 192.0.2.1": {"local_address": "192.0.2.1"},
    "local interface nosuch0": {"interface": "nosuch0"},
    "local address 192.0.2.1 with interface lo": {"local_address": "192.0.2.1", "interface": "lo"},
    "local address 127.0.0.1 with interface nosuch0": {
        "local_address": "127.0.0.1",
        "interface": "nosuch0",
    },
}


@pytest.mark.parametrize("said", _UNUSABLE)
async def test_a_local_end_that_cannot_be_used_is_named_in_a_lasting_connection_error(
    make_client: MakeClient, app: AppServer, said: str
) -> None:
    with pytest.raises(curlhttp.ConnectionError, match=f": the {said} cannot be used ") as caught:
        await make_client(retry=3, **_UNUSABLE[said]).get(app.url)
    with pytest.raises(curlhttp.ConnectionError, match=f": the {said} cannot be used "):
        await make_client().get(app.url, stream=True, **_UNUSABLE[said])
    assert caught.value.is_lasting
    assert not caught.value.request_sent
    assert not app.connections


async def test_one_version_of_ip_alone_is_used(make_client: MakeClient, certs: Certs) -> None:
    with AppServer(host="127.0.0.1") as server:
        for _ in range(2):
            client = make_client()
            with pytest.raises(curlhttp.ConnectionError):
                await client.get(server.at("localhost"), ip_version=6)
            assert (await client.get(server.at("localhost"), ip_version=4)).ok
            with pytest.raises(curlhttp.ConnectionError):
                await client.get(server.at("localhost"), ip_version=6)


async def test_the_time_that_ipv6_has_is_handed_on(make_client: MakeClient, app: AppServer) -> None:
    for seconds in (0, 0.05, 3):
        client = make_client(happy_eyeballs_timeout=seconds)
        assert (await client.get(app.at("localhost"))).ok


# --- name servers ---


async def test_names_are_resolved_by_the_configured_name_server(
    make_client: MakeClient, named: AppServer, names: DoHServer
) -> None:
    client = make_client(doh=names.query_url)
    assert (await client.get(named.at("made.up"))).ok
    assert set(names.asked) == {"made.up"}
    assert (await make_client().get(named.at("made.up"), doh=names.query_url)).ok


async def test_results_of_a_name_server_are_for_its_own_clients(
    make_client: MakeClient, app: AppServer, names: DoHServer
) -> None:
    """A curl_multi has one cache of names, and clients lend each other theirs."""
    client = make_client()
    with AppServer() as other:
        for _ in range(2):
            for server in (app, other):
                with pytest.raises(curlhttp.ConnectionError):
                    await client.get(server.at("made.up"))
                assert (await client.get(server.at("made.up"), doh=names.query_url)).ok
                with pytest.raises(curlhttp.ConnectionError):
                    await make_client().get(server.at("made.up"))


async def test_no_connection_is_reused_across_name_servers(
    make_client: MakeClient, app: AppServer, names: DoHServer, certs: Certs
) -> None:
    client = make_client()
    with DoHServer(certs.server_context(), {}) as empty:
        for _ in range(2):
            assert (await client.get(app.at("made.up"), doh=names.query_url)).ok
            with pytest.raises(curlhttp.ConnectionError):
                await client.get(app.at("made.up"), doh=empty.query_url)
    assert app.connections == 1


async def test_a_name_that_the_name_server_does_not_know_is_a_connection_error(
    make_client: MakeClient, names: DoHServer
) -> None:
    with pytest.raises(curlhttp.ConnectionError) as caught:
        await make_client(doh=names.query_url).get("http://none.up/")
    assert not caught.value.request_sent


async def test_a_name_server_is_trusted_by_its_certificate(
    make_client: MakeClient, app: AppServer, certs: Certs
) -> None:
    with DoHServer(certs.unknown_ca_context(), {"made.up": "127.0.0.1"}) as liar:
        with pytest.raises(curlhttp.ConnectionError):
            await make_client(doh=liar.query_url).get(app.at("made.up"))
        assert not liar.asked
        assert (await make_client(doh=liar.query_url, verify=False).get(app.at("made.up"))).ok


def _reply(body: bytes, record: Any, conn: Any) -> None:
    conn.reply(200, body)


async def test_garbage_of_a_name_server_is_a_connection_error(
    make_client: MakeClient, app: AppServer, names: DoHServer
) -> None:
    for body in (b"", b"\0" * 7, b"\xff" * 512, b"<html>"):
        names.route("/dns-query", partial(_reply, body))
        with pytest.raises(curlhttp.ConnectionError):
            await make_client(doh=names.query_url).get(app.at("made.up"))


async def test_concurrent_requests_resolve_at_a_name_server(
    make_client: MakeClient, app: AppServer, names: DoHServer
) -> None:
    client = make_client(doh=names.query_url, max_connections=2)
    responses = await client.gather(20, "GET", app.at("made.up"))
    assert [response.content for response in responses] == [b"hello"] * 20


# --- invalid settings are refused before anything is sent ---

_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an empty path": ({"uds": ""}, "uds must be a path"),
    "a long path": ({"uds": "/" + "x" * 108}, "uds must be a path of 1 to 107 bytes"),
    "a path with NUL": ({"uds": "/a\0b"}, "uds must be a path"),
    "a name to resolve to": ({"resolve": {"a:1": "b"}}, "resolve must have an IP address"),
    "a name in a list": ({"resolve": {"a:1": ["127.0.0.1", "b"]}}, "an IP address for 'a:1', not"),
    "an empty list": ({"resolve": {"a:1": []}}, "resolve must have an IP address for 'a:1'"),
    "a URL to resolve": ({"resolve": {"http://a": "127.0.0.1"}}, "resolve takes"),
    "a port that is none": ({"resolve": {"a:99999": "127.0.0.1"}}, "resolve takes"),
    "an entry of libcurl's": ({"resolve": {"-a:1": "127.0.0.1", "b c": "::1"}}, "resolve takes"),
    "nothing to connect to": ({"connect_to": {"a": ""}}, "connect_to takes"),
    "credentials": ({"connect_to": {"a": "u:p@b"}}, "connect_to takes"),
    "a part of a name": ({"connect_to": {"*.a": "b"}}, "connect_to takes"),
    "an own name": ({"local_address": "localhost"}, "local_address must be an IP address"),
    "no interface": ({"interface": ""}, "interface must be"),
    "words of libcurl's": ({"interface": "host!127.0.0.1"}, "interface must be"),
    "a name server without TLS": ({"doh": "http://127.0.0.1/"}, "doh must be an https"),
    "a name server's password": ({"doh": "https://u:secret@a/"}, "doh must be an https"),
    "no name server": ({"doh": "a"}, "doh must be the URL"),
    "an odd version": ({"ip_version": 5}, "ip_version must be 4, 6 or None"),
    "a time in the past": ({"happy_eyeballs_timeout": -1}, "happy_eyeballs_timeout must be"),
    "no time": ({"happy_eyeballs_timeout": float("nan")}, "happy_eyeballs_timeout must be"),
    "two ways at once": ({"uds": "/s", "proxies": "http://127.0.0.1:1"}, "leave out uds or"),
}


@ONE_OF_EACH
@pytest.mark.parametrize("what", _REFUSED)
async def test_an_invalid_route_is_refused_before_anything_is_sent(
    make_client: MakeClient, app: AppServer, what: str
) -> None:
    settings, words = _REFUSED[what]
    with pytest.raises(ValueError, match=words) as caught:
        make_client(**settings)
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match=words):
        await make_client().get(app.url, **settings)
    assert not app.connections


@pytest.mark.parametrize("name", ["resolve", "connect_to", "pins"])
def test_settings_by_host_must_be_a_mapping(name: str) -> None:
    wrong: Any = {name: "a:1"}
    with pytest.raises(TypeError, match=f"{name} must be a mapping by host, not str"):
        Client(**wrong)


@ONE_OF_EACH
async def test_an_unknown_keyword_is_a_type_error(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(TypeError, match="no keyword 'colour'"):
        await client.get(app.url, colour="red")
    assert not app.connections


async def test_a_proxy_connects_to_the_resolved_address(
    make_client: MakeClient, named: AppServer
) -> None:
    with HTTPProxy() as proxy:
        client = make_client(proxies=proxy.url, resolve={"made.up": "127.0.0.1"})
        assert (await client.get(named.at("made.up"))).ok
        assert named.handshakes[-1].sni == "made.up"


async def test_a_proxy_connects_to_the_first_resolved_address(
    make_client: MakeClient, named: AppServer, app: AppServer
) -> None:
    with HTTPProxy() as proxy:
        given = {"made.up": ["127.0.0.1", "127.0.0.2"], "other.up": ["127.0.0.1", "127.0.0.3"]}
        client = make_client(proxies=proxy.url, resolve=given)
        assert (await client.get(named.at("made.up"))).ok
        assert named.handshakes[-1].sni == "made.up"
        for name in ("made.up", "other.up"):
            assert (await client.get(app.at(name))).ok
        assert (await client.get(app.url)).ok
        assert proxy.tunnels
