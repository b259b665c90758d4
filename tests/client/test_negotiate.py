"""Negotiate by libcurl, with tickets of a KDC on loopback."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from curlhttp import Negotiate
from tests.servers import AppServer, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.colours import HAS_NEGOTIATE, ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch
from tests.support.forced import force

SBIN = "/usr/sbin:/usr/local/sbin:/usr/lib/heimdal-servers"
TOOLS = {name: shutil.which(name) or shutil.which(name, path=SBIN) for name in
         ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")}  # fmt: skip
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not HAS_NEGOTIATE, reason="this libcurl was built without GSSAPI"),
    pytest.mark.skipif(
        None in TOOLS.values(), reason="needs MIT's KDC: apt install krb5-kdc krb5-admin-server"
    ),
]
SPNEGO = bytes.fromhex("06062b0601050502")  # its object identifier (RFC 4178)


def run(tool: str, *arguments: str, env: dict[str, str], text: str = "") -> None:
    subprocess.run(
        [str(TOOLS[tool]), *arguments], env=env, input=text, text=True, check=True,
        capture_output=True, timeout=60,
    )  # fmt: skip


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a KDC that knows me and HTTP/localhost; return the environment of who has a ticket."""
    home = tmp_path_factory.mktemp("realm")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (home / "krb5.conf").write_text(
        "[libdefaults]\n default_realm = TEST.LOCAL\n dns_lookup_kdc = false\n rdns = false\n"
        " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
        f"[realms]\n TEST.LOCAL = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        "[domain_realm]\n localhost = TEST.LOCAL\n"
    )
    (home / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n TEST.LOCAL = {{\n  database_name = {home}/principal\n"
        f"  key_stash_file = {home}/stash\n  acl_file = {home}/acl\n }}\n"
    )
    env = {
        "PATH": "/usr/bin:/bin",
        "KRB5_CONFIG": f"{home}/krb5.conf",
        "KRB5_KDC_PROFILE": f"{home}/kdc.conf",
        "KRB5CCNAME": f"FILE:{home}/tickets",
    }
    run("kdb5_util", "-r", "TEST.LOCAL", "create", "-s", "-P", "master", env=env)
    run("kadmin.local", "-r", "TEST.LOCAL", "addprinc", "-pw", "secret", "me", env=env)
    run("kadmin.local", "-r", "TEST.LOCAL", "addprinc", "-randkey", "HTTP/localhost", env=env)
    command = [str(TOOLS["krb5kdc"]), "-n", "-r", "TEST.LOCAL", "-P", f"{home}/pid"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as kdc:
        try:
            _wait_for(port)
            run("kinit", "me", env=env, text="secret\n")
            yield env
        finally:
            kdc.kill()


def _wait_for(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError("the KDC does not listen")


@pytest.fixture
def ticket(realm: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KRB5_CONFIG", "KRB5CCNAME"):
        monkeypatch.setenv(name, realm[name])


def tokens(app: AppServer) -> list[bytes]:
    """Return what was sent to negotiate with."""
    values = [record.header("authorization") for record in app.requests]
    assert all(value is None or value.startswith("Negotiate ") for value in values)
    return [b"" if value is None else base64.b64decode(value[10:]) for value in values]


@EVERY_CLIENT_API
@pytest.mark.usefixtures("ticket")
async def test_every_api_sends_a_ticket(fetch: Fetch, app: AppServer) -> None:
    for _ in range(2):
        assert (await fetch(app.at("localhost") + "/bytes/1", auth=Negotiate())).status_code == 200
    assert [SPNEGO in token[:32] for token in tokens(app)] == [True, True]


@WITHOUT_UVLOOP
@pytest.mark.usefixtures("ticket")
async def test_connections_with_a_ticket_are_for_such_requests_alone(
    client: AnyClient, app: AppServer
) -> None:
    url = app.at("localhost")
    for auth in (None, Negotiate(), None, Negotiate()):
        await client.get(url, auth=auth)
    assert [bool(token) for token in tokens(app)] == [False, True, False, True]
    first, second, third, fourth = (record.connection for record in app.requests)
    assert {first, third}.isdisjoint({second, fourth})


@WITHOUT_UVLOOP
@pytest.mark.usefixtures("ticket")
async def test_a_ticket_is_not_sent_to_the_target_of_a_redirect(
    client: AnyClient, app: AppServer
) -> None:
    target = f"/redirect-to?url={app.at('127.0.0.1')}/echo"
    await client.get(app.at("localhost") + target, auth=Negotiate())
    assert [bool(token) for token in tokens(app)] == [True, False]


@WITHOUT_UVLOOP
@pytest.mark.usefixtures("ticket")
@pytest.mark.parametrize("challenge", ("Negotiate", "Negotiate AAAA", "Negotiate !!", "Basic"))
async def test_a_server_that_refuses_a_ticket_is_believed(
    client: AnyClient, app: AppServer, challenge: str
) -> None:
    fields = [("WWW-Authenticate", challenge)]
    app.route("/refused", lambda record, out: out.reply(401, b"no", fields))
    url = app.at("localhost") + "/refused"
    for content in (None, b"body"):
        found = await client.request("POST", url, auth=Negotiate(), content=content)
        assert (found.status_code, found.content) == (401, b"no")
    assert len(app.requests) == 2  # libcurl sent nothing again on its own
    assert (await client.get(app.at("localhost"))).ok


@WITHOUT_UVLOOP
async def test_without_a_ticket_the_request_is_sent_without_credentials(
    client: AnyClient, app: AppServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    await client.get(app.at("localhost"), auth=Negotiate())
    assert tokens(app) == [b""]


@ONE_OF_EACH
@pytest.mark.usefixtures("ticket")
async def test_no_websocket_is_opened_with_it(client: AnyClient) -> None:
    with RawServer(speaking(echo)) as server:
        with pytest.raises(ValueError, match="Negotiate"):
            await client.websocket(f"ws://localhost:{server.port}/", auth=Negotiate())


def test_a_libcurl_without_gssapi_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "whether libcurl has GSSAPI", lambda: False)
    with pytest.raises(ValueError, match="built without GSSAPI"):
        Negotiate()
