"""User names and passwords over the wire: their charset, and the counts of Digest."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import curlhttp
import curlhttp.requests
from tests.servers import AppServer, HTTPProxy, RawConnection, RawServer
from tests.servers.raw import response
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


def decode(value: str | None) -> bytes:
    assert value is not None
    scheme, _, text = value.partition(" ")
    assert scheme == "Basic"
    return base64.b64decode(text)


def pair_of(server: AppServer) -> bytes:
    return decode(server.requests[-1].header("authorization"))


# --- one charset for the pair ---

# (user, password), and what is sent.
PAIRS = [
    (("\u20ac", "p\xe9"), "\u20ac:p\xe9".encode()),
    (("J\xe4", "p\xe9"), "J\xe4:p\xe9".encode()),
    ((b"J\xe4", "\u20ac"), b"J\xe4:\xe2\x82\xac"),
]
# The userinfo of a URL, and what is sent.
USERINFO = [
    ("\u20ac:p\xe9", "\u20ac:p\xe9".encode()),
    ("%E2%82%AC:p%C3%A9", "\u20ac:p\xe9".encode()),
    ("%E2%82%AC:p%E9", b"\xe2\x82\xac:p\xe9"),
    ("J%E4:p\xe9", b"J\xe4:p\xc3\xa9"),
]


@pytest.mark.parametrize(("auth", "sent"), PAIRS)
@EVERY_CLIENT_API
async def test_user_and_password_are_sent_as_utf8(
    fetch: Fetch, app: AppServer, auth: Any, sent: bytes
) -> None:
    await fetch(app.url + "/", auth=auth)
    assert pair_of(app) == sent
    await fetch(app.url + "/", auth=curlhttp.BasicAuth(*auth))
    assert pair_of(app) == sent


@pytest.mark.parametrize(("userinfo", "sent"), USERINFO)
@EVERY_CLIENT_API
async def test_escapes_of_a_url_that_are_not_utf8_stay_bytes(
    fetch: Fetch, app: AppServer, userinfo: str, sent: bytes
) -> None:
    await fetch(app.url.replace("://", f"://{userinfo}@") + "/")
    assert pair_of(app) == sent


async def test_a_redirect_with_credentials_is_no_exception(
    client: AnyClient, app: AppServer
) -> None:
    target = app.url.replace("://", "://%E2%82%AC:p%E9@") + "/"

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(response(status="302 Found", headers=[("Location", target)]))

    with RawServer(handler) as server:
        await client.get(server.url)
    assert pair_of(app) == b"\xe2\x82\xac:p\xe9"


_reads_netrc = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 reads only ASCII in netrc files"
)


@_reads_netrc
async def test_netrc_is_sent_as_utf8(
    make_client: MakeClient, app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "netrc"
    file.write_bytes("machine 127.0.0.1 login \u20ac password p\xe9\n".encode())
    monkeypatch.setenv("NETRC", str(file))
    await make_client().get(app.url)
    assert pair_of(app) == "\u20ac:p\xe9".encode()


@pytest.mark.parametrize(("userinfo", "sent"), USERINFO)
@EVERY_CLIENT_API
async def test_proxies_get_the_same_bytes(
    fetch: Fetch, app: AppServer, tls_app: AppServer, userinfo: str, sent: bytes
) -> None:
    with HTTPProxy() as proxy:
        url = proxy.url.replace("://", f"://{userinfo}@")
        await fetch(app.url + "/", proxies=url)
        await fetch(tls_app.url + "/", proxies=url, verify=False)
        assert [decode(asked.header("proxy-authorization")) for asked in proxy.log] == [sent] * 2


async def test_a_proxy_object_sends_utf8(client: AnyClient, app: AppServer) -> None:
    with HTTPProxy() as proxy:
        for password, sent in (("p\xe9", b"p\xc3\xa9"), ("p\udce9", b"p\xe9")):
            setting = curlhttp.Proxy(url=proxy.url, username="\u20ac", password=password)
            await client.get(app.url, proxies=setting)
            found = decode(proxy.log[-1].header("proxy-authorization"))
            assert found == b"\xe2\x82\xac:" + sent
    with pytest.raises(ValueError, match="lone surrogate"):
        curlhttp.Proxy(url=proxy.url, username="u", password="\ud800")


# --- the functions, the drop-in, and the command line ---


@pytest.mark.parametrize(("auth", "sent"), PAIRS)
def test_the_functions_are_like_the_clients(app: AppServer, auth: Any, sent: bytes) -> None:
    curlhttp.get(app.url, auth=auth)
    assert pair_of(app) == sent
    curlhttp.get(app.url + "/redirect/1", auth=auth)
    assert pair_of(app) == sent


@pytest.mark.parametrize(("userinfo", "sent"), USERINFO)
def test_the_functions_read_urls_like_the_clients(
    app: AppServer, userinfo: str, sent: bytes
) -> None:
    curlhttp.get(app.url.replace("://", f"://{userinfo}@"))
    assert pair_of(app) == sent
    with HTTPProxy() as proxy:
        url = proxy.url.replace("://", f"://{userinfo}@")
        curlhttp.get(app.url + "/redirect/1", proxies={"http": url})
        assert [decode(asked.header("proxy-authorization")) for asked in proxy.log] == [sent] * 2


@_reads_netrc
def test_the_functions_read_netrc_like_the_clients(
    app: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "netrc"
    file.write_bytes("machine 127.0.0.1 login \u20ac password p\xe9\n".encode())
    monkeypatch.setenv("NETRC", str(file))
    curlhttp.get(app.url + "/redirect/1")
    assert pair_of(app) == "\u20ac:p\xe9".encode()


@pytest.mark.parametrize("userinfo", ["J\xe4:p\xe9", "J%C3%A4:p%C3%A9"])
def test_the_drop_in_sends_latin1_as_requests_does(app: AppServer, userinfo: str) -> None:
    get = curlhttp.requests.get
    get(app.url, auth=("J\xe4", "p\xe9"))
    assert pair_of(app) == b"J\xe4:p\xe9"
    get(app.url.replace("://", f"://{userinfo}@"))
    assert pair_of(app) == b"J\xe4:p\xe9"
    with HTTPProxy() as proxy:
        url = proxy.url.replace("://", f"://{userinfo}@")
        get(app.url + "/redirect/1", proxies={"http": url})
        found = [decode(asked.header("proxy-authorization")) for asked in proxy.log]
        assert found == [b"J\xe4:p\xe9"] * 2
        url = proxy.url.replace("://", "://%E2%82%AC:p@")
        with pytest.raises(UnicodeEncodeError):
            get(app.url, proxies={"http": url})
    with pytest.raises(UnicodeEncodeError):
        get(app.url, auth=("\u20ac", "p"))


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes on Windows")
@pytest.mark.parametrize("sent", ["\u20ac:p\xe9".encode(), b"J\xe4:p\xe9"])
def test_the_command_line_sends_the_bytes_of_its_arguments(app: AppServer, sent: bytes) -> None:
    def run(*options: str | bytes) -> None:
        command = [sys.executable, "-X", "utf8", "-m", "curlhttp", "get", app.url, *options]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    run("-u", sent)
    assert pair_of(app) == sent
    with HTTPProxy() as proxy:
        run("--proxy", proxy.url, "--proxy-user", sent)
        assert decode(proxy.log[-1].header("proxy-authorization")) == sent


# --- Digest ---


class CountingServer:
    """Challenges all requests with one nonce, and accepts each of its counts once.

    Args:
        first: so many requests wait for each other before they are challenged.
        in_order: refuse a count after a higher one, as stale.
        fails: respond with 503 to so many accepted requests.
        is_slow: respond to the first count when the second one has come.
    """

    def __init__(
        self, first: int, in_order: bool = False, *, fails: int = 0, is_slow: bool = False
    ) -> None:
        self._fails = fails
        self._second = threading.Event()
        self._is_slow = is_slow
        self._gate = threading.Barrier(first)
        self._in_order = in_order
        self._lock = threading.Lock()
        self.counts: list[int] = []
        self.refused = 0

    def _accepts(self, head: bytes) -> bool:
        match = re.search(rb"nc=([0-9a-f]{8})", head)
        assert match is not None
        count = int(match[1], 16)
        with self._lock:
            if count in self.counts or (self._in_order and count < max(self.counts, default=0)):
                self.refused += 1
                return False
            self.counts.append(count)
            return True

    def __call__(self, conn: RawConnection) -> None:
        while head := conn.read_request()[0]:
            challenge = 'Digest realm="r", nonce="n", qop="auth"'
            if b"authorization:" not in head.lower():
                self._gate.wait(30)
            elif self._accepts(head):
                if self._is_slow and len(self.counts) == 1:
                    self._second.wait(30)
                self._second.set()
                fails = len(self.counts) <= self._fails
                conn.send(response(b"ok", "503 Unavailable" if fails else "200 OK"))
                continue
            else:
                challenge += ", stale=true"
            status = "401 Unauthorized"
            conn.send(response(status=status, headers=[("WWW-Authenticate", challenge)]))


async def test_requests_at_the_same_time_use_each_count_of_a_nonce_once(
    make_client: MakeClient,
) -> None:
    counting = CountingServer(8)
    with RawServer(counting) as server:
        client = make_client(auth=curlhttp.DigestAuth("u", "p"))
        found = await client.gather(8, "GET", server.url)
        found += await client.gather(8, "GET", server.url)
    assert [each.status_code for each in found] == [200] * 16
    assert counting.refused == 0
    assert sorted(counting.counts) == list(range(1, 17))


async def test_a_server_that_wants_counts_in_order_gets_higher_ones(
    make_client: MakeClient,
) -> None:
    counting = CountingServer(8, in_order=True)
    with RawServer(counting) as server:
        client = make_client(auth=curlhttp.DigestAuth("u", "p"))
        found = await client.gather(8, "GET", server.url)
    assert [each.status_code for each in found] == [200] * 8
    assert counting.counts == sorted(counting.counts)


async def test_each_attempt_of_a_request_has_a_count_of_its_own(make_client: MakeClient) -> None:
    """A server that checks for replays refuses the copy of a request that is still under way."""
    for counting, policy in (
        (CountingServer(1, fails=2), {"retry": 2}),
        (CountingServer(1, is_slow=True), {"hedge": curlhttp.Hedge(after=0.05)}),
    ):
        with RawServer(counting) as server:
            client = make_client(auth=curlhttp.DigestAuth("u", "p"), **policy)
            assert (await client.get(server.url)).content == b"ok"
        assert counting.refused == 0
        assert sorted(counting.counts)[:2] == [1, 2]


async def test_clients_that_share_a_digest_count_together(make_client: MakeClient) -> None:
    counting, auth = CountingServer(1), curlhttp.DigestAuth("u", "p")
    with RawServer(counting) as server:
        for _ in range(3):
            assert (await make_client(auth=auth).get(server.url)).status_code == 200
    assert counting.counts == [1, 2, 3]
