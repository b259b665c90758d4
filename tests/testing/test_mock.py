"""The mock: routes instead of the network, for clients that it never saw."""

from __future__ import annotations

import gzip
import io
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import anyio
import pytest

import curlhttp
from curlhttp import exceptions as e
from curlhttp import requests
from curlhttp.testing import Answer, Mock, Route, Sent, mock, refused, reset, silent, unreachable
from tests.servers import AppServer
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.downloads import download
from tests.support.internals import skipped_seconds
from tests.support.pace import PACE

pytestmark = [pytest.mark.anyio]
API = "https://api.test"


# --- who is served ---


async def test_clients_are_served_that_were_made_before_and_within(client: AnyClient) -> None:
    with mock() as network:
        route = network.get(f"{API}/users/*").respond(json={"id": 7})
        assert (await client.get(f"{API}/users/7")).json() == {"id": 7}
        async with AnyClient(client.colour) as other:
            found = await other.get(f"{API}/users/8", params={"page": 2})
    assert found.headers["content-type"] == "application/json"
    assert [call.url for call in route.calls] == [f"{API}/users/7", f"{API}/users/8?page=2"]
    assert (route.called, route.call_count) == (True, 2)
    assert network.requests == route.calls
    assert route.calls[1].params == {"page": "2"}


async def test_the_network_is_restored_afterwards(client: AnyClient, app: AppServer) -> None:
    with mock() as network:
        network.get(app.url).respond(418)
        assert (await client.get(app.url)).status_code == 418
    assert (await client.get(app.url)).content == b"hello"


async def test_streams_maps_and_downloads_are_served(client: AnyClient, tmp_path: Path) -> None:
    with mock(API) as network:
        network.get("/file").respond(content=[b"one ", b"two"])
        async with await client.stream("GET", f"{API}/file") as response:
            pieces = [piece async for piece in response.iterate("bytes")]
        assert pieces == [b"one ", b"two"]
        assert [found.text async for found in client.map([f"{API}/file"] * 3)] == ["one two"] * 3
        done = client.real.download(f"{API}/file", tmp_path / "file")
        assert (done if client.is_blocking else await done).status_code == 200
        assert (tmp_path / "file").read_bytes() == b"one two"


def test_the_drop_in_is_served() -> None:
    with mock() as network:
        network.post(f"{API}/orders", json={"what": "tea"}).respond(201, json={"id": 1})
        network.get(f"{API}/page").respond(302, headers={"Location": "/there", "Set-Cookie": "a=b"})
        network.get(f"{API}/there", headers={"Cookie": "a=b"}).respond(content="thére")
        network.get(f"{API}/down").raises(refused())
        assert requests.post(f"{API}/orders", json={"what": "tea"}).json() == {"id": 1}
        with curlhttp.Session() as session:
            assert session.get(f"{API}/page").content == "thére".encode()
            with pytest.raises(requests.exceptions.ConnectionError):
                session.get(f"{API}/down", timeout=5)
            with session.get(f"{API}/there", stream=True) as response:
                assert b"".join(response.iter_content(2)) == "thére".encode()


def test_threads_of_the_code_under_test_are_served() -> None:
    found: list[object] = []
    client = curlhttp.Client()

    def work() -> None:
        found.extend(client.get(f"{API}/{number}").json() for number in range(50))

    with mock() as network, client:
        route = network.get(f"{API}/*").respond(lambda sent: Answer(json=sent.url[-1]))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == route.call_count == len(network.requests) == 400


async def test_hosts_that_are_allowed_are_reached(client: AnyClient, app: AppServer) -> None:
    with mock() as network:
        network.allow(app.url.partition("//")[2].rstrip("/"), "*.internal")
        assert (await client.get(app.url)).content == b"hello"
        with pytest.raises(AssertionError, match="it has no routes"):
            await client.get(API)
        network.unmatched.clear()
    assert [sent.url for sent in network.requests] == [API + "/"]


async def test_a_mock_opens_no_connection_for_other_protocols(client: AnyClient) -> None:
    with mock(API):
        with pytest.raises(AssertionError, match="the mock has no WebSockets"):
            await client.websocket(API.replace("http", "ws", 1))


async def test_a_closed_client_stays_closed(client: AnyClient) -> None:
    with mock() as network:
        network.get(API)
        await client.get(API)
        await client.aclose()
        with pytest.raises(e.ClientClosed):
            await client.get(API)


async def test_a_mock_within_another_replaces_it(client: AnyClient) -> None:
    with mock() as outer:
        outer.get(API).respond(201)
        with mock() as inner:
            inner.get(API).respond(202)
            assert (await client.get(API)).status_code == 202
        assert (await client.get(API)).status_code == 201


async def test_an_open_stream_outlives_the_mock(client: AnyClient) -> None:
    with mock() as network:
        network.get(API).respond(content=[b"a", b"b"])
        response = await client.stream("GET", API)
        await client.stream("GET", API)  # dropped unread
    assert await response.read() == b"ab"


async def test_time_does_not_pass_after_the_end(client: AnyClient) -> None:
    with mock(API) as network:
        network.get("/").respond(content=[b"a", b"b"], pace=5)
        response = await client.stream("GET", API)
    before = skipped_seconds()
    assert await response.read() == b"ab"
    network.advance(100)
    assert skipped_seconds() == before


# --- responses ---


@ONE_OF_EACH
async def test_layers_above_the_mock_work_as_usual(client: AnyClient) -> None:
    body = gzip.compress(b"plain" * 100)
    with mock(API) as network:
        network.get("/old").respond(301, headers={"Location": "/new"})
        coded = Answer(200, {"Content-Encoding": "gzip"}, body)
        new = network.get("/new").respond([503, reset(), coded])
        found = await client.get(f"{API}/old", retry=3, auth=("user", "secret"))
    assert found.text == "plain" * 100
    assert len(found.history) == 1
    assert new.call_count == 3
    assert new.calls[0].headers["authorization"].startswith("Basic ")
    assert len(network.sleeps) == 2


@ONE_OF_EACH
async def test_a_list_of_responses_is_used_in_order_and_then_exhausted(client: AnyClient) -> None:
    with mock(API) as network:
        network.get("/").respond([201, Answer(202), refused()])
        rest = network.get("/").respond(203)
        assert (await client.get(API)).status_code == 201
        assert (await client.get(API)).status_code == 202
        with pytest.raises(e.ConnectionError, match="refused"):
            await client.get(API)
        assert (await client.get(API)).status_code == 203
    assert rest.call_count == 1


@ONE_OF_EACH
async def test_a_function_makes_a_response_from_the_request(client: AnyClient) -> None:
    def respond(sent: Sent) -> Answer | int:
        return Answer(json={"got": sent.json()}) if sent.json() else 400

    with mock(API) as network:
        network.post("/echo").respond(respond)
        assert (await client.post(f"{API}/echo", json=[1])).json() == {"got": [1]}
        assert (await client.post(f"{API}/echo", json=[])).status_code == 400


@pytest.mark.colours("asyncio", "trio")
async def test_a_coroutine_function_serves_an_async_client(client: AnyClient) -> None:
    async def respond(sent: Sent) -> int:
        await anyio.sleep(0)
        return 204

    with mock(API) as network:
        route = network.get("/").respond(respond)
        assert (await client.get(API)).status_code == 204
    assert route.called


@ONE_OF_EACH
async def test_errors_are_raised(client: AnyClient) -> None:
    with mock(API) as network:
        network.get("/a").raises(e.ConnectTimeout)
        network.get("/b").raises(e.ReadTimeout("it is slow"))
        network.get("/c").raises(unreachable())
        network.get("/d").respond(content=b"half", error=e.ChunkedEncodingError("cut"))
        network.get("/e").respond(silent())
        with pytest.raises(e.ConnectTimeout):
            await client.get(f"{API}/a")
        with pytest.raises(e.ReadTimeout, match="it is slow") as caught:
            await client.get(f"{API}/b")
        assert caught.value.request is not None
        with pytest.raises(e.ConnectTimeout):
            await client.get(f"{API}/c")
        with pytest.raises(e.ChunkedEncodingError):
            await client.get(f"{API}/d")
        with pytest.raises(e.ReadTimeout):
            await client.get(f"{API}/e")


@pytest.mark.parametrize("wrong", [ValueError("x"), ValueError, "x", None])
def test_only_exceptions_of_clients_can_be_raised(wrong: object) -> None:
    with pytest.raises(TypeError, match="RequestException"):
        Mock().get(API).raises(wrong)  # type: ignore[arg-type]


def test_a_complete_response_takes_no_other_options() -> None:
    with pytest.raises(TypeError, match=r"Answer\(\.\.\.\)"):
        Mock().get(API).respond(Answer(), headers={"A": "b"})
    with pytest.raises(TypeError, match="cannot be combined"):
        Mock().get(API).respond(json=1, content=b"1")


@ONE_OF_EACH
async def test_bodies_are_read_only_by_attempts_that_arrive(client: AnyClient) -> None:
    given = []

    def body() -> object:
        for piece in (b"one ", b"two"):
            given.append(piece)
            yield piece

    with mock(API) as network:
        route = network.put("/").respond([refused(), 200])
        with pytest.raises(e.ConnectionError):
            await client.request("PUT", API, content=body())
        assert given == []
        assert not route.calls[0].arrived
        await client.request("PUT", API, content=body())
    assert route.calls[1].body == b"one two"
    assert route.calls[1].arrived


# --- which requests are meant ---

HIT = [
    ("GET", "/users/7", {}, {"url": "/users/7"}),
    ("GET", "/users/7", {}, {"url": "/users/*"}),
    ("GET", "/a/b/c", {}, {"url": "/**"}),
    ("GET", "/a%20b", {}, {"url": "/a b"}),
    ("GET", "/x", {}, {"url": "https://*.test/x"}),
    ("GET", "/x", {}, {"url": "HTTPS://API.test:443/x"}),
    ("GET", "/x?b=2&a=1", {}, {"url": "/x?a=1&b=2"}),
    ("GET", "/x?b=2", {}, {"url": "/x"}),
    ("GET", "/x?a=1&b=b/c", {}, {"url": "/x?b=**&a=*"}),
    ("GET", "/x?a=", {}, {"url": "/x?a=*"}),
    ("GET", "/x?a=one%20two", {}, {"url": "/x?a=o*e t*"}),
    ("GET", "/x?a=*", {}, {"url": "/x?a=%2A"}),
    ("GET", "/x?a=1&a=2", {}, {"url": "/x?a=*&a=2"}),
    ("GET", "/x?f[a]=1&f[b]=2", {}, {"url": "/x?f[*]=*"}),
    ("GET", "/x?a=1&b=2&c=3", {}, {"url": "/x?a=1&*"}),
    ("GET", "/x?a=1", {}, {"url": "/x?a=1&*"}),
    ("GET", "/x", {"params": {"a": 1, "b": [1, 2]}}, {"params": {"b": ["1", 2], "a": "1"}}),
    ("GET", "/x?at=17", {}, {"params": {"at": ANY}}),
    ("GET", "/x?at=17", {}, {"params": {"at": re.compile(r"^\d+$"), "none": None}}),
    ("GET", "/x?v=1", {}, {"url": re.compile(r"/x\?v=\d")}),
    ("GET", "/x", {}, {"url": lambda sent: sent.url.endswith("x")}),
    ("GET", "/x", {}, {"url": None}),
    ("GET", "/x", {"headers": {"X-A": "b"}}, {"headers": {"x-a": "b", "X-B": None}}),
    ("GET", "/x", {"headers": {"X-A": "b"}}, {"headers": {"x-a": re.compile("b|c")}}),
    ("POST", "/x", {"json": {"a": [1, {"b": None}]}}, {"json": {"a": [1, {"b": ANY}]}}),
    ("POST", "/x", {"content": "né"}, {"content": "né"}),
    ("POST", "/x", {"data": {"a": ["1", "2"], "b": "é"}}, {"data": {"b": "é", "a": [1, 2]}}),
]


@ONE_OF_EACH
@pytest.mark.parametrize(("method", "path", "options", "wanted"), HIT)
async def test_a_route_serves_matching_requests(
    client: AnyClient, method: str, path: str, options: dict[str, object], wanted: dict[str, object]
) -> None:
    with mock(API) as network:
        network.route(None, **wanted).respond(204)  # type: ignore[arg-type]
        assert (await client.request(method, API + path, **options)).status_code == 204


MISSED = [
    ("/users/7/x", {}, {"url": "/users/*"}, "url: https://api.test/users/7/x, not https://api.test/users/*"),
    ("/x", {}, {"url": "https://other.test/x"}, "url: https://api.test/x, not https://other.test/x"),
    ("/x", {}, {"url": re.compile("y$")}, "url: y$ was not found in it"),
    ("/x?a=2&c=3", {}, {"params": {"a": 1, "b": 2}},
     "params: a=2, not a=1\n  params: there is no b\n  params: there is c=3"),
    ("/x?a=1/2", {}, {"url": "/x?a=*"}, "params: a=1/2, not a=*"),
    ("/x?a=1", {}, {"url": "/x?a=%2A"}, "params: a=1, not a=*"),
    ("/x?f[a]=1&g=2", {}, {"url": "/x?f[*]=2&h*=3"},
     "params: f[a]=1, not f[*]=2\n  params: there is no h*\n  params: there is g=2"),
    ("/x?a=2&b=3", {}, {"url": "/x?a=1&*"}, "params: a=2, not a=1"),
    ("/x", {}, {"url": "https://*.other.test/**"},
     "url: https://api.test/x, not https://*.other.test/**"),
    ("/x?token=one", {}, {"params": {"token": "two"}}, "params: token=***, not token=***"),
    ("/x", {}, {"headers": {"X-A": "1"}}, "headers: there is no X-A"),
    ("/x", {"headers": {"X-A": "1"}}, {"headers": {"X-A": "2"}}, "headers: X-A is '1', not '2'"),
    ("/x", {"headers": {"X-A": "1"}}, {"headers": {"X-A": None}}, "headers: there is X-A"),
    ("/x", {"headers": {"Authorization": "s3cret"}}, {"headers": {"Authorization": "k3y"}},
     "headers: Authorization differs"),
    ("/x", {"json": {"a": [1, 2], "b": 3}}, {"json": {"a": [1, 3], "c": 4}},
     "json: there is no $.c\n  json: there is $.b\n  json: $.a[1] is 2, not 3"),
    ("/x", {"json": {"password": "s3cret"}}, {"json": {"password": "k3y"}},
     "json: $.password differs"),
    ("/x", {"content": b"no"}, {"json": 1}, "json: the body is not JSON: b'no'"),
    ("/x", {"content": b"a"}, {"content": b"b"}, "content: b'a', not b'b'"),
    ("/x", {"data": {"a": 1}}, {"data": {"a": 2}}, "data: a=1, not a=2"),
]  # fmt: skip


@pytest.mark.colours("blocking")
@pytest.mark.parametrize(("path", "options", "wanted", "said"), MISSED)
async def test_the_error_for_an_unmatched_request_says_why(
    client: AnyClient, path: str, options: dict[str, object], wanted: dict[str, object], said: str
) -> None:
    with mock(API, assert_all_called=False) as network:
        network.route("POST", **wanted)  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="the mock has no route for POST") as caught:
            await client.post(API + path, **options)
        network.unmatched.clear()
    assert str(caught.value).partition("\n  ")[2] == said
    assert "s3cret" not in str(caught.value)
    assert "k3y" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["*/users", "https://*.test:80x/", "https://**:99999/", "https://a*b c/"]
)
def test_the_error_for_an_invalid_pattern_shows_the_pattern(url: str) -> None:
    with pytest.raises(e.RequestException) as caught:
        mock().get(url)
    assert repr(url) in str(caught.value)
    assert "curlhttp" not in str(caught.value)


def _pieces() -> Iterator[bytes]:
    yield b"one "
    yield b"two"


@pytest.mark.parametrize(
    "make",
    [
        _pieces,
        lambda: iter([b"one ", b"", b"two"]),
        lambda: map(bytes, [b"one ", b"two"]),
        lambda: [b"one ", b"two"],
        lambda: ["one ", "two"],
        lambda: (bytearray(b"one "), memoryview(b"two")),
        lambda: bytearray(b"one two"),
        lambda: io.BytesIO(b"one two"),
        lambda: io.StringIO("one two"),
    ],
)
async def test_each_request_gets_all_of_a_body(
    client: AnyClient, make: Callable[[], Any], tmp_path: Path
) -> None:
    """Buffered, streamed, mapped, downloaded or by the drop-in; the first time and again."""
    with mock(API) as network:
        network.get("/").respond(content=make(), headers=iter([("X-A", "b")]))
        network.get("/again").respond([Answer(content=make()), 503])
        for _ in range(2):
            found = await client.get(API)
            assert (found.content, found.headers["x-a"]) == (b"one two", "b")
            async with await client.stream("GET", API) as stream:
                assert await stream.read() == b"one two"
            (mapped,) = [each async for each in client.map([API])]
            assert mapped.content == b"one two"
            await download(client, f"{API}/", tmp_path / "file")
            assert (tmp_path / "file").read_bytes() == b"one two"
            assert requests.get(API).content == b"one two"
        assert (await client.get(f"{API}/again")).content == b"one two"


async def _async_pieces() -> AsyncIterator[bytes]:
    yield b"one"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (1, "content must be bytes, str, a file or an iterable of bytes, not int"),
        ({"a": 1}, "not dict"),
        (_async_pieces(), "not async_generator"),
        ([1], "the pieces of content must be bytes, not int"),
    ],
)
def test_a_body_that_is_none_is_refused(content: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        mock(API).get("/").respond(content=content)
    with pytest.raises(TypeError, match=said):
        Answer(content=content)


def test_the_nearest_route_is_named_first() -> None:
    with mock(API, assert_all_called=False) as network, curlhttp.Client() as client:
        network.get("/users")
        network.post("/users/7")
        network.get("/users/7", headers={"X-A": "b"}).respond([])
        network.get("/orders")
        with pytest.raises(AssertionError) as caught:
            client.get(f"{API}/users/7")
        with pytest.raises(AssertionError, match="no step left, after 0 requests"):
            client.get(f"{API}/users/7", headers={"X-A": "b"})
        network.unmatched.clear()
    assert str(caught.value).splitlines() == [
        "the mock has no route for GET https://api.test/users/7",
        "nearest: GET https://api.test/users/7",
        "  headers: there is no X-A",
        "other: POST https://api.test/users/7",
        "other: GET https://api.test/users",
        "other: GET https://api.test/orders",
    ]


@pytest.mark.parametrize("wrong", ["/users", "users", "ftp://api.test/", ""])
def test_a_route_without_a_whole_url_is_refused(wrong: str) -> None:
    with pytest.raises((e.InvalidURL, e.InvalidSchema, e.MissingSchema)):
        Mock().get(wrong)


# --- the end ---


def test_an_unmatched_request_fails_the_end_even_if_the_code_caught_the_error() -> None:
    with pytest.raises(AssertionError, match=r"no route for GET https://api.test/"):
        with mock(), curlhttp.Client() as client:
            with suppress(Exception):
                client.get(API)


def test_a_route_with_an_unknown_condition_is_refused() -> None:
    with pytest.raises(TypeError, match="header"):
        Mock().get("https://api.test/", header={"X": "1"})  # type: ignore[call-arg]


def test_a_route_that_was_not_called_fails_the_end() -> None:
    with pytest.raises(AssertionError, match=r"not called: GET https://api.test/a"):
        with mock(API) as network:
            network.get("/a")
    with mock(API, assert_all_called=False) as network:
        network.get("/a")


def test_an_error_of_the_test_itself_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        with mock(API) as network:
            network.get("/a")
            raise ZeroDivisionError


def test_a_mock_can_be_reset() -> None:
    with mock(API) as network, curlhttp.Client() as client:
        network.get("/")
        client.get(API)
        network.reset()
        assert (network.requests, network.routes) == ([], [])
        assert isinstance(network.get("/"), Route)
        client.get(API)


# --- time ---


@ONE_OF_EACH
async def test_delays_take_no_time_but_count(client: AnyClient) -> None:
    with mock(API) as network:
        network.get("/slow").respond(delay=50)
        assert (await client.get(f"{API}/slow")).elapsed.total_seconds() == pytest.approx(50, abs=5)
        with pytest.raises(e.ReadTimeout):
            await client.get(f"{API}/slow", timeout=curlhttp.Timeout(read=49))
        with pytest.raises(e.DeadlineExceeded):
            await client.get(f"{API}/slow", timeout=curlhttp.Timeout(total=49))
        assert (await client.get(f"{API}/slow", timeout=curlhttp.Timeout(total=60))).ok


@ONE_OF_EACH
async def test_time_that_is_skipped_counts_for_breakers_and_deadlines(colour: str) -> None:
    breaker = curlhttp.CircuitBreaker(failure_threshold=1, recovery_timeout=3600)
    async with AnyClient(colour, breaker=breaker) as client:
        with mock(API) as network:
            network.get("/").respond([500, 200])
            await client.get(API)
            with pytest.raises(e.CircuitBreakerOpen):
                await client.get(API)
            network.advance(3600)
            assert (await client.get(API)).status_code == 200
            network.get("/busy").respond(503, headers={"Retry-After": "20"})
            with pytest.raises(e.RequestException):
                await client.get(f"{API}/busy", retry=10, timeout=curlhttp.Timeout(total=50))


async def test_in_real_time_delays_are_waited_for(client: AnyClient) -> None:
    seconds = 0.05 * PACE
    with mock(API, real_time=True) as network:
        network.get("/").respond(delay=seconds)
        network.get("/silent").respond(silent())
        assert (await client.get(API)).elapsed.total_seconds() >= seconds * 0.9
        with pytest.raises(e.ReadTimeout):
            await client.get(f"{API}/silent", timeout=curlhttp.Timeout(read=seconds))
    assert network.sleeps == []


@pytest.mark.colours("asyncio", "trio")
async def test_a_real_delay_can_be_cancelled(client: AnyClient) -> None:
    with mock(API, real_time=True) as network:
        network.get("/").respond(delay=30)
        with anyio.move_on_after(0.01) as scope:
            await client.get(API)
    assert scope.cancelled_caught


@ONE_OF_EACH
async def test_a_slow_response_is_hedged(colour: str) -> None:
    async with AnyClient(colour, hedge=curlhttp.Hedge(after=1)) as client:
        with mock(API) as network:
            route = network.get("/").respond([Answer(201, delay=10), Answer(202, delay=0.5)])
            assert (await client.get(API)).status_code == 202
    assert route.call_count == 2
