"""What a client's cache stores, returns and revalidates, on the clock of a scripted engine."""

from __future__ import annotations

import dataclasses
import itertools
from email.utils import formatdate
from typing import Any

import pytest

from curlhttp import Cache, ClientRequest, ConnectionError, RequestException
from curlhttp.testing import Answer, ScriptedEngine, refused
from tests.support.colours import AnyClient
from tests.support.scripted import Scripted

pytestmark = pytest.mark.anyio

URL = "http://h.test/"
FRESH = {"Cache-Control": "max-age=60"}
TAGGED = {**FRESH, "ETag": '"a"'}


@pytest.fixture
def cached(scripted: Scripted) -> Any:
    """Return a function that makes a client with a cache in memory, on a script."""

    def make(script: Any, *, shared: bool = False, **settings: Any) -> Any:
        cache = Cache(":memory:", shared=shared)
        return scripted(script, cache=cache, **settings)

    return make


def date(engine: ScriptedEngine, seconds: float = 0) -> str:
    return formatdate(engine.wall() + seconds, usegmt=True)


async def bodies(client: AnyClient, count: int, **options: Any) -> list[bytes]:
    return [(await client.get(URL, **options)).content for _ in range(count)]


async def test_a_fresh_response_is_returned_without_the_server(cached: Any) -> None:
    client, engine = cached([Answer(headers=FRESH, content=b"one")])
    first = await client.get(URL)
    assert (first.from_cache, first.cache_status) == (False, "curlhttp; fwd=uri-miss; stored")
    engine.advance(10)
    again = await client.get(URL + "#part")
    assert (again.content, again.from_cache) == (b"one", True)
    assert again.cache_status == "curlhttp; hit; ttl=50"
    assert again.headers["Age"] == "10"
    assert len(engine.sent) == 1


async def test_a_client_without_a_cache_says_nothing_of_one(scripted: Scripted) -> None:
    client, _ = scripted([200])
    response = await client.get(URL)
    assert (response.from_cache, response.cache_status) == (False, None)


async def test_a_stale_response_is_confirmed_by_its_validators(cached: Any) -> None:
    headers = {**TAGGED, "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "X-Old": "kept"}
    client, engine = cached(
        [
            Answer(headers=headers, content=b"one"),
            Answer(304, headers={"Cache-Control": "max-age=100", "X-New": "merged"}),
        ]
    )
    await client.get(URL)
    engine.advance(61)
    confirmed = await client.get(URL)
    assert engine.sent[1].headers["If-None-Match"] == '"a"'
    assert engine.sent[1].headers["If-Modified-Since"] == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert "If-None-Match" not in confirmed.request.headers
    assert (confirmed.status_code, confirmed.content) == (200, b"one")
    assert confirmed.from_cache
    assert confirmed.cache_status == "curlhttp; fwd=stale; fwd-status=304"
    assert (confirmed.headers["X-Old"], confirmed.headers["X-New"]) == ("kept", "merged")
    engine.advance(99)
    assert (await client.get(URL)).cache_status == "curlhttp; hit; ttl=1"


async def test_a_changed_response_replaces_the_stored_one(cached: Any) -> None:
    client, engine = cached(
        [Answer(headers=TAGGED, content=b"one"), Answer(headers=FRESH, content=b"two")]
    )
    await client.get(URL)
    engine.advance(61)
    assert await bodies(client, 2) == [b"two", b"two"]


async def test_a_304_for_another_response_causes_a_full_request(cached: Any) -> None:
    client, engine = cached(
        [
            Answer(headers=TAGGED, content=b"one"),
            Answer(304, headers={"ETag": '"b"'}),
            Answer(headers=FRESH, content=b"two"),
        ]
    )
    await client.get(URL)
    engine.advance(61)
    assert (await client.get(URL)).content == b"two"
    assert "If-None-Match" not in engine.sent[2].headers


async def test_the_age_of_a_cache_before_counts(cached: Any) -> None:
    client, engine = cached([Answer(headers={**FRESH, "Age": "50"}), Answer(headers=FRESH)])
    await client.get(URL)
    engine.advance(9)
    assert (await client.get(URL)).headers["Age"] == "59"
    engine.advance(1)
    assert not (await client.get(URL)).from_cache


@pytest.mark.parametrize("age", [{}, {"Age": "50"}])
async def test_a_response_stored_in_the_future_is_validated_first(
    scripted: Scripted, age: dict[str, str]
) -> None:
    cache = Cache(":memory:")
    first, ahead = scripted([Answer(headers={**TAGGED, **age}, content=b"one")], cache=cache)
    ahead.advance(60)
    await first.get(URL)
    assert (await first.get(URL)).from_cache
    client, engine = scripted([304], cache=cache)  # its clock is behind
    engine.advance(30)
    response = await client.get(URL, headers={"Cache-Control": "max-stale"})
    assert response.cache_status == "curlhttp; fwd=stale; fwd-status=304"
    assert len(engine.sent) == 1
    assert (await client.get(URL)).cache_status.startswith("curlhttp; hit")  # stored now
    last, behind = scripted([304], cache=cache)
    assert (await last.get(URL)).content == b"one"
    assert len(behind.sent) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cache-Control": "no-store, max-age=60"},
        {"Cache-Control": "no-store=yes, max-age=60"},
        {"Cache-Control": "max-age=x"},
        {"Cache-Control": "max-age=-1"},
        {"Cache-Control": "max-age=1.5"},
        {"Cache-Control": "max-age=0"},
        {"Expires": "0"},
        {"Expires": "Thu, 18 Aug 2050 02:01:18"},
        {"Cache-Control": "max-age=60", "Age": "9" * 5000},
        {"Cache-Control": "max-age=60", "Vary": "Accept, *"},
        {"Cache-Control": "max-age=60", "Content-Type": "text/event-stream"},
        {"Cache-Control": 'no-cache, max-age="60"'},
        {"Cache-Control": "max-age=60, " + 'a="\\"' * 20_000},
        {"Cache-Control": '"=,=;,,,' + "a=\"" * 50},
    ],
    ids=lambda headers: repr(headers)[:60],
)  # fmt: skip
async def test_a_stale_response_is_fetched_again(cached: Any, headers: dict[str, str]) -> None:
    client, engine = cached([Answer(headers=headers), Answer(headers=headers)])
    await client.get(URL)
    assert not (await client.get(URL)).from_cache
    assert len(engine.sent) == 2


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({"Cache-Control": "max-age=60, s-maxage=5"}, 60),
        ({"Cache-Control": "MAX-AGE=60"}, 60),
        ({"Cache-Control": 'max-age="60"'}, 60),
        ({"Cache-Control": "private, max-age=60"}, 60),
        ({"Cache-Control": "max-age=" + "9" * 50}, 2**31),
        ({"Expires": 60, "Date": 0}, 60),
        ({"Expires": 60}, 60),
        ({"Expires": 60, "Date": 0, "Age": "20"}, 40),
        ({"Last-Modified": -1000, "Date": 0}, 100),
    ],
    ids=repr,
)
async def test_how_long_a_response_is_fresh(cached: Any, said: Any, seconds: int) -> None:
    headers: dict[str, str] = {}
    client, engine = cached(lambda request: Answer(headers=headers, content=b"x"))
    for name, value in said.items():
        headers[name] = date(engine, value) if isinstance(value, int) else value
    await client.get(URL)
    engine.advance(seconds - 1)
    assert (await client.get(URL)).from_cache
    engine.advance(1)
    assert not (await client.get(URL)).from_cache


async def test_s_maxage_counts_in_a_shared_cache(cached: Any) -> None:
    directives = {"Cache-Control": "max-age=60, s-maxage=5"}
    client, engine = cached([Answer(headers=directives), Answer()], shared=True)
    await client.get(URL)
    engine.advance(5)
    assert not (await client.get(URL)).from_cache


async def test_each_variant_is_stored(cached: Any) -> None:
    def respond(request: ClientRequest) -> Answer:
        language = request.headers.get("Accept-Language", "")
        return Answer(headers={**FRESH, "Vary": "Accept-Language"}, content=language)

    client, engine = cached(respond)
    for _ in range(2):
        for language in ("de, en", "en"):
            response = await client.get(URL, headers={"Accept-Language": language})
            assert response.text == language
    assert (await client.get(URL, headers={"Accept-Language": "de,en"})).from_cache
    assert len(engine.sent) == 2


# the request's own directives


async def test_a_request_may_require_a_validated_young_or_long_fresh_response(
    cached: Any,
) -> None:
    client, engine = cached(lambda request: Answer(headers=FRESH))
    await client.get(URL)
    engine.advance(20)
    for directive, hit in [
        ("max-age=20", True),
        ("max-age=19", False),
        ("max-age=x", True),
        ("min-fresh=59", True),
        ("min-fresh=60", False),
        ("no-cache", False),
    ]:
        response = await client.get(URL, headers={"Cache-Control": directive})
        assert response.from_cache is hit, directive
    assert not (await client.get(URL, headers={"Pragma": "no-cache"})).from_cache


async def test_a_request_may_accept_a_stale_response(cached: Any) -> None:
    client, engine = cached([Answer(headers=FRESH), Answer(headers=FRESH)])
    await client.get(URL)
    engine.advance(70)
    assert (await client.get(URL, headers={"Cache-Control": "max-stale"})).from_cache
    assert (await client.get(URL, headers={"Cache-Control": "max-stale=10"})).from_cache
    assert not (await client.get(URL, headers={"Cache-Control": "max-stale=9"})).from_cache


async def test_must_revalidate_beats_max_stale(cached: Any) -> None:
    directives = {"Cache-Control": "max-age=60, must-revalidate"}
    client, engine = cached([Answer(headers=directives), Answer(headers=directives)])
    await client.get(URL)
    engine.advance(70)
    assert not (await client.get(URL, headers={"Cache-Control": "max-stale"})).from_cache


async def test_only_if_cached_sends_nothing(cached: Any) -> None:
    client, engine = cached([Answer(headers=FRESH)])
    only = {"Cache-Control": "only-if-cached"}
    assert (await client.get(URL, headers=only)).status_code == 504
    await client.get(URL)
    assert (await client.get(URL, headers=only)).from_cache
    engine.advance(60)
    assert (await client.get(URL, headers=only)).status_code == 504
    assert len(engine.sent) == 1


async def test_no_store_in_a_request_bypasses_the_cache(cached: Any) -> None:
    client, engine = cached(lambda request: Answer(headers=FRESH))
    for _ in range(2):
        response = await client.get(URL, headers={"Cache-Control": "no-store"})
        assert response.cache_status == "curlhttp; fwd=request"
    await client.get(URL)
    assert len(engine.sent) == 3


@pytest.mark.parametrize(
    "header",
    [
        {"Range": "bytes=0-1"},
        {"If-Match": '"a"'},
        {"If-Range": '"a"'},
        {"Accept": "text/event-stream"},
        {"Upgrade": "x"},
    ],
    ids=repr,
)
async def test_a_request_that_the_cache_cannot_serve_bypasses_it(
    cached: Any, header: dict[str, str]
) -> None:
    client, engine = cached(lambda request: Answer(206, headers=FRESH, content=b"part"))
    for _ in range(2):
        assert (await client.get(URL, headers=header)).content == b"part"
    assert len(engine.sent) == 2


async def test_a_fresh_response_satisfies_the_callers_condition(cached: Any) -> None:
    since = "Sun, 06 Nov 1994 08:49:37 GMT"
    client, engine = cached(
        [Answer(headers={**TAGGED, "Last-Modified": since}, content=b"one"), Answer(304)]
    )
    await client.get(URL)
    for asked, status, content in [
        ({"If-None-Match": '"b", W/"a"'}, 304, b""),
        ({"If-None-Match": '"b"', "If-Modified-Since": since}, 200, b"one"),
        ({"If-Modified-Since": since}, 304, b""),
        ({"If-Modified-Since": "Sat, 05 Nov 1994 08:49:37 GMT"}, 200, b"one"),
        ({"If-Modified-Since": "yesterday"}, 200, b"one"),
    ]:
        response = await client.get(URL, headers=asked)
        assert (response.status_code, response.content) == (status, content), asked
        assert response.from_cache
        assert response.headers["ETag"] == '"a"'
    engine.advance(60)
    response = await client.get(URL, headers={"If-None-Match": '"b"'})
    assert (response.status_code, response.from_cache) == (304, False)
    assert engine.sent[1].headers["If-None-Match"] == '"b"'


async def test_an_unrequested_206_is_not_stored(cached: Any) -> None:
    client, engine = cached(lambda request: Answer(206, headers=FRESH))
    await bodies(client, 2)
    assert len(engine.sent) == 2


# methods


async def test_head_is_served_from_a_stored_get_and_is_not_stored(cached: Any) -> None:
    client, engine = cached(
        [Answer(headers=FRESH), Answer(headers=FRESH, content=b"one"), Answer(headers=FRESH)]
    )
    await client.request("HEAD", URL)
    assert (await client.get(URL)).content == b"one"
    head = await client.request("HEAD", URL)
    assert (head.from_cache, head.content) == (True, b"")
    assert (await client.get(URL)).content == b"one"
    assert len(engine.sent) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "MOVE"])
async def test_an_unsafe_method_removes_the_stored_response(cached: Any, method: str) -> None:
    def respond(request: ClientRequest) -> Answer:
        if request.method == "GET":
            return Answer(headers=FRESH, content=str(len(engine.sent)))
        return Answer(
            201, headers={"Location": "/made", "Content-Location": "http://other.test/made"}
        )

    client, engine = cached(respond)
    urls = [URL, URL + "made", "http://other.test/made", URL + "else"]
    for url in urls:
        await client.get(url)
    response = await client.request(method, URL)
    assert response.cache_status == "curlhttp; fwd=method"
    assert [(await client.get(url)).from_cache for url in urls] == [False, False, True, True]


@pytest.mark.parametrize(
    ("location", "removed"),
    [(b"/voil\xc3\xa0?50%", "voil%C3%A0?50%25"), (b"/caf\xe9?%41%", "caf%E9?A%25")],
)
async def test_the_url_that_a_change_names_is_read_as_that_of_a_redirect(
    cached: Any, location: bytes, removed: str
) -> None:
    def respond(request: ClientRequest) -> Answer:
        if request.method == "GET":
            return Answer(headers=FRESH)
        return Answer(201, headers={"Content-Location": location})

    client, _ = cached(respond)
    await client.get(URL + removed)
    await client.post(URL)
    assert not (await client.get(URL + removed)).from_cache


async def test_an_unsafe_method_that_failed_changed_nothing(cached: Any) -> None:
    def respond(request: ClientRequest) -> Answer:
        return Answer(200 if request.method == "GET" else 500, headers=FRESH)

    client, _ = cached(respond)
    await client.get(URL)
    await client.post(URL)
    assert (await client.get(URL)).from_cache


async def test_the_response_to_a_post_is_not_stored(cached: Any) -> None:
    client, engine = cached(lambda request: Answer(headers=FRESH))
    await client.post(URL)
    await client.post(URL)
    await client.get(URL)
    assert len(engine.sent) == 3


# when the server fails (RFC 5861)


@pytest.mark.parametrize("fault", [503, refused()], ids=["status", "error"])
@pytest.mark.parametrize("where", ["response", "request"])
async def test_a_stale_response_may_stand_in_for_an_error(
    cached: Any, fault: Any, where: str
) -> None:
    directives = ", stale-if-error=30" if where == "response" else ""
    asked = {"Cache-Control": "stale-if-error=30"} if where == "request" else {}
    first = Answer(headers={"Cache-Control": "max-age=60" + directives}, content=b"one")
    client, engine = cached([first, fault, fault])
    await client.get(URL)
    engine.advance(90)
    response = await client.get(URL, headers=asked)
    assert (response.content, response.from_cache) == (b"one", True)
    assert response.cache_status.endswith("detail=stale-if-error")
    engine.advance(1)
    if fault == 503:
        assert (await client.get(URL, headers=asked)).status_code == 503
    else:
        with pytest.raises(ConnectionError):
            await client.get(URL, headers=asked)


async def test_must_revalidate_beats_stale_if_error(cached: Any) -> None:
    directives = {"Cache-Control": "max-age=60, stale-if-error=60, must-revalidate"}
    client, engine = cached([Answer(headers=directives), 503])
    await client.get(URL)
    engine.advance(61)
    assert (await client.get(URL)).status_code == 503


async def test_a_hit_is_no_attempt(cached: Any) -> None:
    client, engine = cached([refused(), Answer(headers=FRESH)], retry=1)
    assert len((await client.get(URL)).attempts) == 2
    assert (await client.get(URL)).attempts == ()
    assert len(engine.sent) == 2


# whose it is


async def test_a_private_response_is_not_returned_for_other_credentials(cached: Any) -> None:
    def respond(request: ClientRequest) -> Answer:
        names = ("Authorization", "Cookie", "X-Api-Key", "X-Mine")
        return Answer(headers=FRESH, content=repr([request.headers.get(name) for name in names]))

    client, engine = cached(respond, sensitive_headers=["X-Mine"])
    whose = [
        {},
        {"Authorization": "Bearer a"},
        {"Authorization": "Bearer b"},
        {"Cookie": "session=a"},
        {"Cookie": "session=b"},
        {"X-Api-Key": "a"},
        {"X-Mine": "a"},
    ]
    first = [(await client.get(URL, headers=each)).content for each in whose]
    again = [(await client.get(URL, headers=each)).content for each in whose]
    assert first == again
    assert len(engine.sent) == len(set(first)) == len(whose)


async def test_the_same_url_by_another_route_is_another_entry(cached: Any) -> None:
    numbers = itertools.count()
    client, engine = cached(lambda request: Answer(headers=FRESH, content=str(next(numbers))))
    routes: list[dict[str, Any]] = [
        {},
        {"uds": "/run/a.sock"},
        {"uds": "/run/b.sock"},
        {"headers": {"Host": "other.test"}},
    ]
    first = [(await client.get(URL, **route)).content for route in routes]
    assert [(await client.get(URL, **route)).content for route in routes] == first
    assert len(set(first)) == len(engine.sent) == len(routes)


async def test_requests_signed_by_libcurl_bypass_the_cache(cached: Any) -> None:
    async def signed(request: ClientRequest, send: Any) -> Any:
        request.route = dataclasses.replace(request.route, negotiate=True)
        return await send(request)

    # Proxies of the system, as Windows may have them, would choose another transport again.
    settings = {"middleware": [signed], "trust_env": False}
    client, engine = cached(lambda request: Answer(headers=FRESH), **settings)
    for _ in range(2):
        assert (await client.get(URL)).cache_status == "curlhttp; fwd=bypass"
    assert len(engine.sent) == 2


async def test_a_public_response_is_everybodys(cached: Any) -> None:
    client, _ = cached([Answer(headers={"Cache-Control": "public, max-age=60"})])
    await client.get(URL, headers={"Authorization": "Bearer a"})
    assert (await client.get(URL, headers={"Authorization": "Bearer b"})).from_cache
    assert (await client.get(URL)).from_cache


@pytest.mark.parametrize(
    ("request_headers", "response_headers", "is_stored"),
    [
        ({}, {"Cache-Control": "max-age=60"}, True),
        ({}, {"Cache-Control": "private, max-age=60"}, False),
        ({}, {"Cache-Control": 'private="x", max-age=60', "X": "1"}, True),
        ({"Authorization": "Bearer a"}, {"Cache-Control": "max-age=60"}, False),
        ({"Authorization": "Bearer a"}, {"Cache-Control": "public, max-age=60"}, True),
        ({"Authorization": "Bearer a"}, {"Cache-Control": "s-maxage=60"}, True),
        ({}, {"Cache-Control": "max-age=60", "Set-Cookie": "a=b"}, False),
        ({}, {"Cache-Control": "public, max-age=60", "Set-Cookie": "a=b"}, True),
    ],
    ids=repr,
)
async def test_a_shared_cache_stores_nothing_private(
    cached: Any, request_headers: Any, response_headers: Any, is_stored: bool
) -> None:
    client, _ = cached(lambda request: Answer(headers=response_headers), shared=True)
    await client.get(URL, headers=request_headers, cookies={})
    client.real.cookies.clear()
    again = await client.get(URL, headers=request_headers)
    assert again.from_cache is is_stored
    assert "Set-Cookie" not in again.headers or not is_stored


async def test_a_stored_response_sets_no_cookie_again(cached: Any) -> None:
    def respond(request: ClientRequest) -> Answer:
        cookie = f"session={len(engine.sent)}"
        directives = "public, max-age=60"
        return Answer(headers={"Cache-Control": directives, "ETag": '"a"', "Set-Cookie": cookie})

    client, engine = cached(respond)
    await client.get(URL)
    client.real.cookies.set("session", "newer", domain="h.test")
    again = await client.get(URL)
    assert again.from_cache
    assert dict(again.cookies) == {}


async def test_a_304_sets_cookies(cached: Any) -> None:
    directives = {"Cache-Control": "public, max-age=60", "ETag": '"a"'}
    client, engine = cached(
        [
            Answer(headers=directives),
            Answer(304, headers=[*directives.items(), ("Set-Cookie", "b=2")]),
        ]
    )
    await client.get(URL)
    engine.advance(61)
    assert dict((await client.get(URL)).cookies) == {"b": "2"}
    assert dict((await client.get(URL)).cookies) == {}


async def test_each_redirect_is_cached_separately(cached: Any) -> None:
    def respond(request: ClientRequest) -> Answer:
        if request.url.path == "/":
            return Answer(301, headers={**FRESH, "Location": "/there"})
        return Answer(headers={"Cache-Control": "no-store"}, content=b"there")

    client, engine = cached(respond)
    await client.get(URL)
    response = await client.get(URL)
    assert [each.from_cache for each in [*response.history, response]] == [True, False]
    assert [sent.url for sent in engine.sent] == [URL, URL + "there", URL + "there"]


async def test_middleware_is_above_the_cache(cached: Any) -> None:
    seen: list[bool] = []

    async def middleware(request: ClientRequest, send: Any) -> Any:
        response = await send(request)
        seen.append(response.from_cache)
        return response

    client, _ = cached([Answer(headers=FRESH)], middleware=[middleware])
    await bodies(client, 2)
    assert seen == [False, True]


async def test_a_limit_of_the_response_counts_for_a_stored_one_too(cached: Any) -> None:
    client, _ = cached([Answer(headers=FRESH, content=b"x" * 100)])
    await client.get(URL)
    with pytest.raises(RequestException, match="max_response_size"):
        await client.get(URL, max_response_size=99)
