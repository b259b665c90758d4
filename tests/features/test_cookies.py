"""Cookies over the wire: which jar, which requests, and the cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import ClientRequest, requests
from curlhttp.testing import Answer
from tests.servers import AppServer, RawServer, respond, response
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.scripted import Scripted

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


def sent(app: AppServer) -> list[str | None]:
    return [record.header("cookie") for record in app.requests]


async def test_cookies_set_by_a_response_are_sent_with_the_next_request(
    client: AnyClient, app: AppServer
) -> None:
    await client.get(app.url + "/cookies/set?a=1&b=2")
    found = await client.get(app.url + "/cookies")
    assert found.json()["cookies"] == {"a": "1", "b": "2"}
    assert client.real.cookies.get_dict() == {"a": "1", "b": "2"}


async def test_a_clients_cookies_are_sent_with_every_request(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(cookies={"a": "1"})
    client.real.cookies["b"] = "2"
    await client.get(app.url)
    client.real.cookies = {"c": "3"}
    await client.get(app.url)
    client.real.cookies.clear()
    await client.get(app.url)
    assert sent(app) == ["a=1; b=2", "c=3", None]


async def test_a_jar_of_the_standard_library_is_used_itself(
    make_client: MakeClient, app: AppServer
) -> None:
    jar = CookieJar()
    client = make_client(cookies=jar)
    await client.get(app.url + "/cookies/set?a=1")
    assert [cookie.name for cookie in jar] == ["a"]
    await client.get(app.url + "/cookies")
    assert sent(app)[-1] == "a=1"


async def test_a_requests_cookies_are_sent_and_not_stored(
    make_client: MakeClient, app: AppServer
) -> None:
    """A request's own go no further."""
    client = make_client(cookies={"a": "client", "b": "client"})
    await client.get(app.url + "/redirect/1", cookies={"a": "own", "c": "own"})
    await client.get(app.url)
    both = {"a=own", "b=client", "c=own"}
    assert [set(str(value).split("; ")) for value in sent(app)] == [
        both,
        both,
        {"a=client", "b=client"},
    ]


async def test_a_requests_cookies_are_not_sent_in_the_clear_after_a_redirect(
    scripted: Scripted,
) -> None:
    start, target = "https://one.test/start", "http://one.test/"
    seen: dict[str, str | None] = {}

    def answer(request: curlhttp.ClientRequest) -> Answer:
        seen[str(request.url)] = request.headers.get("cookie")
        moved = str(request.url) == start
        return Answer(302, headers={"Location": target}) if moved else Answer()

    client, _ = scripted(answer)
    await client.get(start, cookies={"a": "secret"})
    assert seen == {start: "a=secret", target: None}
    await client.get(target, cookies={"a": "b"})
    assert seen[target] == "a=b"


async def test_a_cookie_header_of_the_caller_wins(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(cookies={"a": "jar"})
    await client.get(app.url, headers={"cookie": "mine=1"}, cookies={"b": "own"})
    assert sent(app) == ["mine=1"]


async def test_a_cookie_header_of_the_caller_is_lost_on_a_redirect(
    make_client: MakeClient, app: AppServer
) -> None:
    """A Cookie header does not follow."""
    client = make_client(cookies={"a": "jar"})
    await client.get(app.url + "/redirect/1", headers={"Cookie": "mine=1"})
    assert sent(app) == ["mine=1", "a=jar"]


async def test_cookies_of_a_redirect_are_sent_to_its_target_and_stored(
    client: AnyClient, app: AppServer
) -> None:
    await client.get(app.url + "/cookies/set?a=1&redirect=/cookies/set?a=2%26redirect=/cookies")
    await client.get(app.url + "/cookies")
    assert sent(app) == [None, "a=1", "a=2", "a=2"]


async def test_older_cookies_are_sent_first_whatever_their_domain(scripted: Scripted) -> None:
    def respond_once(request: ClientRequest) -> Answer:
        fields = [("Set-Cookie", f"{name}=1; {rest}".rstrip()) for name, rest in once.pop(0)]
        return Answer(headers=fields)

    wide = "Domain=example.com"
    once: list[list[tuple[str, str]]] = [
        [("a", ""), ("b", wide), ("c", ""), ("x", "Domain=a.example.com.")],
        [("d", wide), ("a", ""), ("e", "")],
        [],
    ]
    client, engine = scripted(respond_once)
    for _ in range(3):
        await client.get("https://a.example.com/")
    assert [request.headers.get("Cookie") for request in engine.sent] == [
        None, "a=1; b=1; c=1", "a=1; b=1; c=1; d=1; e=1",
    ]  # fmt: skip


async def test_cookies_of_a_401_are_stored(client: AnyClient, app: AppServer) -> None:
    app.route("/no", lambda record, out: out.reply(401, b"", [("Set-Cookie", "a=1")]))
    await client.get(app.url + "/no")
    await client.get(app.url)
    assert sent(app) == [None, "a=1"]


async def test_cookies_are_not_sent_to_another_host(client: AnyClient, app: AppServer) -> None:
    """A cookie does not go to another host."""
    target = f"{app.at('localhost')}/echo"
    await client.get(app.url + f"/cookies/set?a=1&redirect={target}", cookies={"own": "1"})
    await client.get(app.url + "/cookies")
    assert sent(app) == ["own=1", None, "a=1"]


async def test_a_secure_cookie_needs_tls(
    client: AnyClient, app: AppServer, tls_app: AppServer
) -> None:
    """A Secure cookie needs TLS."""
    for server in (app, tls_app):
        server.route(
            "/secure", lambda record, out: out.reply(200, b"", [("Set-Cookie", "s=1; \tSecure")])
        )
    await client.get(app.url + "/secure")
    await client.get(tls_app.url)
    await client.get(tls_app.url + "/secure")
    await client.get(tls_app.url)
    await client.get(app.url)
    assert sent(tls_app) == [None, None, "s=1"]
    assert sent(app) == [None, None]


async def test_cookies_of_a_streamed_response_are_stored_with_its_head(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream("GET", app.url + "/cookies/set?a=1"):
        assert client.real.cookies["a"] == "1"


async def test_response_cookies_are_those_of_the_last_response(
    client: AnyClient, app: AppServer
) -> None:
    found = await client.get(app.url + "/cookies/set?a=1&redirect=/cookies/set?b=2")
    assert found.cookies.get_dict() == {"b": "2"}
    assert found.history[0].cookies.get_dict() == {"a": "1"}
    assert client.real.cookies.get_dict() == {"a": "1", "b": "2"}


async def test_a_request_that_is_sent_again_has_the_cookies_of_then(
    client: AnyClient, app: AppServer
) -> None:
    request = client.real.build_request("GET", app.url + "/")
    client.real.cookies["a"] = "1"
    await client.send(request)
    client.real.cookies["a"] = "2"
    await client.send(request)
    assert sent(app) == ["a=1", "a=2"]
    assert "cookie" not in request.headers


async def test_hostile_cookies_are_dropped_and_never_sent(
    client: AnyClient, app: AppServer
) -> None:
    """What a server may not set is not kept."""
    values = [
        "ctl=a\x01b",
        "del=a\x7fb",
        "big=" + "x" * 10_000,
        "ok=1",
        "other=1; Domain=evil.test",
    ]
    values += ["suffix=1; Domain=com", "__Host-h=1", "__Secure-s=1"]
    values += [f"n{number}=1" for number in range(1000)]
    fields = [("Set-Cookie", value) for value in values]
    with RawServer(respond(response(b"", headers=fields))) as server:
        await client.get(server.url)
        await client.get(server.url)
        sent_line = next(
            line for line in server.requests[1].split(b"\r\n") if line.startswith(b"Cookie")
        )
    names = {pair.split(b"=")[0].strip() for pair in sent_line.removeprefix(b"Cookie:").split(b";")}
    assert b"ok" in names
    assert names.isdisjoint(
        {b"ctl", b"del", b"big", b"other", b"suffix", b"__Host-h", b"__Secure-s"}
    )
    assert len(names) <= 50


HOSTILE = b"".join(
    b"Set-Cookie: " + value + b"\r\n"
    for value in (
        b"a=1; Expires=Wed, 21 Fed 2027 07:28:00 GMT",
        b"b=1; Expires=\xd9\xa2 Jan 99999999999 \xb2\xb3:99:99",
        b"c=1; Max-Age=" + b"9" * 5000,
        b"d\xff=\x80; Domain=\xff.\xfe; Path=\xfd",
        b"=;=;==",
        b"__Host-",
        b"e=1; Domain=[::1; Path=/%zz; Version=x; Port=y",
        b"f=1; Domain=xn--a.xn--" + b"z" * 300,
        b"last=1",
    )
)


async def test_no_set_cookie_ends_a_request(client: AnyClient, tmp_path: Path) -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + HOSTILE + b"\r\nhi"
    with RawServer(respond(response)) as server:
        found = await client.get(server.url)
        assert {"a", "b", "c", "e", "last"} >= set(found.cookies.keys()) >= {"a", "b", "last"}
        async with await client.stream("GET", server.url) as stream:
            assert await stream.read() == b"hi"
        assert [result.content async for result in client.map([server.url])] == [b"hi"]
        done = client.real.download(server.url, tmp_path / "file")
        assert (done if client.is_blocking else await done).status_code == 200
        for stream_it in (False, True):
            with requests.Session() as session:
                with session.get(server.url, stream=stream_it) as answered:
                    assert answered.content == b"hi"
                assert session.cookies.keys() == answered.cookies.keys() == found.cookies.keys()


async def test_a_cookie_cannot_inject_a_header(client: AnyClient, app: AppServer) -> None:
    for cookies in ({"a": "1\r\nX-Evil: 1"}, {"a\n": "1"}, {"a": "1\0"}):
        with pytest.raises(curlhttp.InvalidHeader):
            await client.get(app.url, cookies=cookies)
    assert not app.requests


# --- one-off calls ---


def test_one_off_calls_share_no_cookies_but_redirects_of_one_do(app: AppServer) -> None:
    curlhttp.get(app.url + "/cookies/set?a=1&redirect=/cookies", cookies={"own": "1"})
    curlhttp.get(app.url + "/cookies")
    hop = sorted(str(sent(app)[1]).split("; "))
    assert (sent(app)[0], hop, sent(app)[2]) == ("own=1", ["a=1", "own=1"], None)


# --- what cookies cost those who have none ---


def run_python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "curlhttp.Client().get(url)",
        "asyncio.run(curlhttp.AsyncClient().get(url))",
    ],
)
def test_without_cookies_their_machinery_is_not_even_loaded(app: AppServer, call: str) -> None:
    code = f"""
import asyncio, sys, warnings, curlhttp
url = sys.argv[1]
assert {call}.status_code == 200
print("http.cookiejar" in sys.modules, "curlhttp._http.cookies.jar" in sys.modules)
"""
    assert run_python(code, app.url + "/redirect/1") == "False False"


@pytest.mark.slow
def test_the_machinery_is_loaded_by_the_first_cookie(app: AppServer) -> None:
    code = """
import sys, curlhttp
curlhttp.Client().get(sys.argv[1])
print("http.cookiejar" in sys.modules)
"""
    assert run_python(code, app.url + "/cookies/set?a=1") == "True"


async def test_cookies_are_in_no_repr(client: AnyClient, app: AppServer) -> None:
    found: Any = await client.get(app.url + "/cookies/set?a=s3cret")
    again = await client.get(app.url, cookies={"b": "s3cret"})
    for shown in (client.real.cookies, found.cookies, found.headers, again.request.headers):
        assert "s3cret" not in repr(shown)
        assert "s3cret" not in str(shown)
