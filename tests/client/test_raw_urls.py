"""Raw URLs: path and query reach the server byte for byte, in every way that sends a request."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import URL, requests
from curlhttp.testing import Answer, ScriptedEngine, mock
from tests.client.test_to_curl import needs_curl
from tests.servers import AppServer, H2Server, HTTPProxy, RawServer
from tests.servers.raw import respond, response
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "#?")
TARGETS = [
    "/a/./b", "/a/../b", "/..", "/team/../admin/key", "/%7E", "/%7e", "/%2f%2F%41", "/%", "/%zz%4",
    "/%2e%2e/x", "/?%7e%2f%", "/?", "/x??", "//a//b", "/a\\b", "/a%00b%0d%0a", "/?a=/../b",
    f"/{VISIBLE}?{VISIBLE}?",
]  # fmt: skip


def targets(server: RawServer) -> list[str]:
    """Return the targets of the request lines, as they were on the wire."""
    return [each.split(b"\r\n")[0].decode("latin-1").split(" ")[1] for each in server.requests]


@EVERY_CLIENT_API
async def test_the_target_is_sent_byte_for_byte(fetch: Fetch) -> None:
    with RawServer(respond(response(b"hello"))) as server:
        for target in TARGETS:
            received = await fetch(URL(server.url + target, raw=True))
            assert received.url == server.url + target
        assert targets(server) == TARGETS


async def test_a_target_on_http2_is_sent_byte_for_byte(
    make_client: MakeClient, h2_app: H2Server
) -> None:
    client = make_client(http2=True)
    for target in TARGETS:
        await client.get(URL(h2_app.url + target, raw=True))
    assert [record.target for record in h2_app.requests] == TARGETS
    assert h2_app.connections == 1


@pytest.mark.parametrize(
    "char", ["\r\n", "\r", "\n", "\0", " ", "\t", "\x7f", "\x85", "é", "\ud800"]
)
@pytest.mark.parametrize("start", ["/a", "/?a", "/#a"])
def test_what_could_end_the_request_line_is_refused(start: str, char: str) -> None:
    with pytest.raises(curlhttp.InvalidURL, match="a raw URL is sent as it is, so write"):
        URL(f"http://h{start}{char}GET", raw=True)


@pytest.mark.parametrize(
    "url", ["http://good\\@evil/", "http://a@b@c/", "http:///x", "http://h x/", "/x", "ftp://h/"]
)
def test_a_host_is_judged_as_that_of_any_url(url: str) -> None:
    errors = (curlhttp.InvalidURL, curlhttp.MissingSchema, curlhttp.InvalidSchema)
    with pytest.raises(errors) as any_url:
        URL(url)
    with pytest.raises(type(any_url.value), match=re.escape(str(any_url.value))):
        URL(url, raw=True)


def test_the_host_of_a_raw_url_is_canonical() -> None:
    url = URL("HTTP://me@EXAMPLE.com:80?%7e", raw=True)
    assert (url.origin, url.target) == ("http://example.com:80", "/?%7e")
    assert (url.authority, url.username) == ("example.com", "me")


@pytest.mark.colours("blocking")
@pytest.mark.parametrize(
    ("base", "reference", "joined"),
    [
        ("http://h/k/./p?q", "../z/./w%7e", "http://h/k/z/./w%7e"),
        ("http://h/a/b/c", "../../../x", "http://h/x"),
        ("http://h/a/b/c", "./..", "http://h/a/"),
        ("http://h/a/./b?%7e", "", "http://h/a/./b?%7e"),
        ("http://h/a/./b?", "#x", "http://h/a/./b?#x"),
        ("http://h/a/./b?q", "?%7e", "http://h/a/./b?%7e"),
        ("http://h/a", "/b/../%7e", "http://h/b/../%7e"),
        ("http://h/a", "//i/b/../%7e", "http://i/b/../%7e"),
        ("http://h/a", "https://i/b/../%7e", "https://i/b/../%7e"),
    ],
)
def test_a_reference_is_joined_to_a_raw_url_as_it_is(
    base: str, reference: str, joined: str
) -> None:
    found = URL(base, raw=True).join(reference)
    assert (str(found), found.is_raw) == (joined, True)


@EVERY_CLIENT_API
async def test_a_location_is_followed_byte_for_byte(fetch: Fetch) -> None:
    locations = ["/a/../%7e%2f", "b/./%", "?%zz", "/\xc3\xa9 \xe4"]
    answers = [response(status="302 Found", headers=[("Location", each)]) for each in locations]
    with RawServer(respond(*answers, response(b"done"))) as server:
        assert (await fetch(URL(server.url + "/./start", raw=True))).status_code == 200
        assert targets(server) == ["/./start", "/a/../%7e%2f", "/a/../b/./%", "/a/../b/./%?%zz",
                                   "/%C3%A9%20%E4"]  # fmt: skip


async def test_a_raw_base_url_makes_relative_urls_raw(make_client: MakeClient) -> None:
    with RawServer(respond(response())) as server:
        client = make_client(base_url=URL(server.url + "/bucket/", raw=True), params={"v": "~"})
        for key in ("a/./b%7e", "../admin", "k/a:b", "x?at=12:30%2f", "", "/"):
            await client.get(key)
        await client.get("x?", params="%7e")
        assert targets(server) == [
            "/bucket/a/./b%7e?v=~", "/bucket/../admin?v=~", "/bucket/k/a:b?v=~",
            "/bucket/x?at=12:30%2f&v=~", "/bucket/?v=~", "/bucket/?v=~", "/bucket/x?v=~&%7e",
        ]  # fmt: skip


@ONE_OF_EACH
async def test_a_relative_url_may_have_a_colon_after_its_first_segment(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(base_url=app.url + "//v")
    for key in ("k/a:b", "/a:b", "x?at=12:30"):
        await client.get(key)
    assert [record.target for record in app.requests] == ["//v/k/a:b", "//v/a:b", "//v/x?at=12:30"]
    with pytest.raises(curlhttp.InvalidSchema):
        await client.get("localhost:8000/x")


async def test_a_proxy_gets_the_target_in_absolute_form(make_client: MakeClient) -> None:
    with RawServer(respond(response())) as proxy:
        client = make_client(proxies=proxy.url)
        for target in TARGETS:
            await client.get(URL("http://made.up" + target, raw=True))
        assert targets(proxy) == ["http://made.up" + target for target in TARGETS]
        assert all(b"\r\nHost: made.up\r\n" in each for each in proxy.requests)


async def test_a_tunnel_is_for_the_host_and_gets_no_target(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    with HTTPProxy() as proxy:
        client = make_client(proxies=proxy.url)
        await client.get(URL(tls_app.url + "/a/./%7e", raw=True))
        assert tls_app.requests[-1].target == "/a/./%7e"
        assert proxy.tunnels == 1


@ONE_OF_EACH
async def test_a_target_does_not_stay_on_the_handle(client: AnyClient) -> None:
    with RawServer(respond(response())) as server:
        for target in ("/%7e", "/plain", "/%7e"):
            await client.get(URL(server.url + target, raw=True))
        await client.get(server.url)
        assert targets(server) == ["/%7e", "/plain", "/%7e", "/"]
        assert server.connections == 1


async def test_a_websocket_and_events_go_to_the_raw_target(client: AnyClient) -> None:
    events = response(b"data: 1\n\n", headers=[("Content-Type", "text/event-stream")])
    with RawServer(respond(events)) as server:
        url = URL(server.url + "/a/../%7e", raw=True)
        async with client.sse(url, reconnect=False) as stream:
            assert [event.data async for event in stream] == ["1"]
        with pytest.raises(curlhttp.WebSocketRefused):
            async with await client.websocket(url):
                raise AssertionError
        assert targets(server) == ["/a/../%7e"] * 2


async def test_retries_and_challenges_have_the_same_target(make_client: MakeClient) -> None:
    challenge = response(
        status="401 Unauthorized",
        headers=[("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')],
    )
    busy = response(status="503 Busy", headers=[("Retry-After", "0")])
    with RawServer(respond(busy, challenge, response())) as server:
        client = make_client(retry=1, auth=curlhttp.DigestAuth("me", "secret"))
        assert (await client.get(URL(server.url + "/./%7e", raw=True))).status_code == 200
        assert targets(server) == ["/./%7e"] * 3
        assert b'uri="/./%7e"' in server.requests[-1]


@ONE_OF_EACH
async def test_a_guard_and_no_proxy_judge_the_host(make_client: MakeClient) -> None:
    guarded = make_client(guard=curlhttp.PublicOnly(), trust_env=False)
    with pytest.raises(curlhttp.RequestException, match=r"127\.0\.0\.1"):
        await guarded.get(URL("http://127.1/a/../%7e", raw=True))
    with RawServer(respond(response())) as server:
        client = make_client(proxies={"all": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"})
        await client.get(URL(server.url + "//made.up/%7e", raw=True))
        assert targets(server) == ["//made.up/%7e"]


@ONE_OF_EACH
async def test_hsts_and_endpoints_change_the_origin_only(scripted: Any, tmp_path: Path) -> None:
    policy = {"Strict-Transport-Security": "max-age=99"}
    client, engine = scripted(lambda request: Answer(headers=policy), hsts=tmp_path / "hsts")
    for scheme in ("https", "http"):
        await client.get(URL(f"{scheme}://made.up/a/../%7e#f", raw=True))
    assert [sent.url for sent in engine.sent] == ["https://made.up/a/../%7e#f"] * 2
    endpoints = curlhttp.Endpoints([URL("http://a/v/", raw=True), URL("http://b/v/", raw=True)])
    client, engine = scripted([200], base_url=endpoints)
    await client.get("x/../%7e")
    assert engine.sent[0].url in ("http://a/v/x/../%7e", "http://b/v/x/../%7e")


@ONE_OF_EACH
async def test_the_cache_tells_raw_urls_apart(make_client: MakeClient, tmp_path: Path) -> None:
    fresh = response(b"x", headers=[("Cache-Control", "max-age=99")])
    with RawServer(respond(fresh)) as server:
        client = make_client(cache=curlhttp.Cache(tmp_path / "cache"))
        for target in ("/~", "/%7E", "/%7e", "/./~"):
            for _ in range(2):
                await client.get(URL(server.url + target, raw=True))
        assert targets(server) == ["/~", "/%7E", "/%7e", "/./~"]


def test_a_signature_of_aws_covers_what_is_sent() -> None:
    pytest.importorskip("botocore")
    auth = curlhttp.AWSSigV4("us-east-1", "s3", ("a", "b"))
    sent = []
    for url in (URL("http://h/a/./%7e?%7e", raw=True), URL("http://h/a/~?~=", raw=True)):
        engine = ScriptedEngine([200])
        with curlhttp.Client(transport=engine, auth=auth) as client:
            client.get(url)
        sent += engine.sent
    assert sent[0].url == "http://h/a/./%7e?%7e"
    assert sent[0].headers["authorization"] != sent[1].headers["authorization"]


def test_a_raw_url_stays_raw_in_copies_and_pickles() -> None:
    for target in TARGETS:
        url = URL(f"https://me:secret@h:8443{target}#%7e", raw=True)
        for made in (copy.copy(url), copy.deepcopy(url), pickle.loads(pickle.dumps(url)), URL(url)):
            assert made == url
            assert hash(made) == hash(url)
            assert (made.target, made.fragment, made.is_raw) == (target, "%7e", True)
        bare = url.without_userinfo()
        assert (bare.is_raw, bare.target) == (True, target)
    assert repr(URL("http://h/%7e", raw=True)) == "URL('http://h/%7e', raw=True)"
    assert URL("http://h/%7E", raw=True) != URL("http://h/%7E") == URL("http://h/~", raw=True)
    assert URL(URL("http://h/a/b"), raw=True).join("./%7e").target == "/a/%7e"
    url = URL("http://h/a/./b").with_target("*")
    assert pickle.loads(pickle.dumps(url)).target == "*"


@needs_curl
@pytest.mark.parametrize("secrets", [False, True])
def test_curl_sends_the_same_target(secrets: bool) -> None:
    with RawServer(respond(response())) as server, curlhttp.Client() as client:
        for target in TARGETS:
            request = client.build_request("GET", URL(server.url + target, raw=True))
            command = request.to_curl(secrets=secrets)
            subprocess.run(command, shell=True, check=True, capture_output=True, timeout=60)
        assert targets(server) == TARGETS


def test_recordings_and_mocks_know_raw_urls(tmp_path: Path) -> None:
    file = tmp_path / "tape.har"
    with RawServer(respond(response(b"one"), response(b"two"))) as server:
        urls = [URL(server.url + target, raw=True) for target in ("/%7e", "/a/./~")]
        for _ in range(2):
            with curlhttp.Client(transport=curlhttp.Record(file)) as client:
                assert [client.get(url).text for url in urls] == ["one", "two"]
        assert len(server.requests) == 2
    with mock() as routes, curlhttp.Client() as client:
        routes.get(URL("http://h/%7e?b", raw=True)).respond(json=1)
        assert client.get(URL("http://h/%7e?b", raw=True)).json() == 1


def test_the_drop_in_refuses_a_raw_url_instead_of_changing_it() -> None:
    with pytest.raises(requests.exceptions.InvalidURL, match=r"needs curlhttp\.Client"):
        requests.get(URL("http://h/%7e", raw=True))


def test_the_functions_send_a_raw_url_as_it_is() -> None:
    with RawServer(respond(response())) as server:
        curlhttp.get(URL(server.url + "/a/./%7e", raw=True))
        assert targets(server) == ["/a/./%7e"]


def test_the_transport_for_httpx_sends_lower_case_escapes_as_they_are() -> None:
    httpx = pytest.importorskip("httpx")
    from curlhttp.httpx import Transport

    with RawServer(respond(response())) as server, httpx.Client(transport=Transport()) as client:
        client.get(server.url + "/%2f")
        client.get(server.url, extensions={"target": b"/a/./%7e?"})
        assert targets(server) == ["/%2f", "/a/./%7e?"]
