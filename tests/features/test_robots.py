"""robots.txt (RFC 9309): what it allows, its failures, how long it is kept, and its Crawl-delay."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import (
    CircuitBreaker,
    CircuitBreakerOpen,
    Client,
    ConcurrencyLimit,
    DeadlineExceeded,
    RateLimit,
    Robots,
    RobotsDisallowed,
    Timeout,
)
from curlhttp.testing import Answer, ScriptedEngine, refused, reset, unresolved, untrusted
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.internals import waiting_for_robots
from tests.support.scripted import Scripted, moved, steady

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

URL = "http://h.test/"
RULES = """
User-agent: *
Disallow: /

User-agent: my-crawler
Disallow: /private
Allow: /private/open
"""
DAY = 86400.0


def site(robots: Any, page: Any = 200, **more: Any) -> Callable[[Any], Any]:
    """Return a script: robots.txt of every host, or of one host, and its pages."""

    def answer(request: Any) -> Any:
        host = request.url.host.partition(".")[0]
        if request.url.path != "/robots.txt":
            return page
        step = more.get(host, robots)
        return step(request) if callable(step) else step

    return answer


def text(content: str | bytes, **options: Any) -> Answer:
    return Answer(200, content=content, **options)


def asked(engine: ScriptedEngine) -> int:
    """Return how often a robots.txt was requested."""
    return sum(each.url.endswith("/robots.txt") for each in engine.sent)


def pages(engine: ScriptedEngine) -> list[str]:
    return [each.url for each in engine.sent if not each.url.endswith("/robots.txt")]


async def is_allowed(client: AnyClient, url: str, **options: Any) -> bool:
    try:
        await client.get(url, **options)
    except RobotsDisallowed:
        return False
    return True


# --- what it allows ---


@ONE_OF_EACH
async def test_a_url_that_robots_txt_disallows_is_not_requested(scripted: Scripted) -> None:
    client, engine = scripted(site(text(RULES)), robots="my-crawler")
    assert (await client.get(URL + "page")).status_code == 200
    with pytest.raises(RobotsDisallowed) as caught:
        await client.get(URL + "private/page?q=1#end")
    assert str(caught.value) == (
        "GET http://h.test/private/page?q=1: http://h.test/robots.txt disallows it for "
        "'my-crawler'; it was not sent"
    )
    error = caught.value
    assert (error.request_sent, error.is_lasting, error.attempts) == (False, True, ())
    assert error.request.url.path == "/private/page"
    assert await is_allowed(client, URL + "private/open")
    assert pages(engine) == [URL + "page", URL + "private/open"]
    assert asked(engine) == 1
    assert type(pickle.loads(pickle.dumps(error))) is RobotsDisallowed


@pytest.mark.parametrize(
    ("body", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow:\n", "/a", True),
        ("User-agent: *\nDisallow: /\n", "/a", False),
        ("User-agent: *\nDisallow: /\n", "/robots.txt?x", True),
        ("user-agent:MY-Crawler/2.1\ndisallow:/a#all\n", "/ab", False),
        ("User-agent: my\nDisallow: /\n", "/a", True),
        ("User-agent: my-crawler-news\nDisallow: /\n", "/a", True),
        ("User-agent: my-crawler\n\nUser-agent: *\nDisallow: /a\n", "/a", False),
        # Groups of one crawler are combined; one without rules allows everything.
        ("User-agent: my-crawler\nDisallow: /a\nUser-agent: my-crawler\nDisallow: /b", "/b", False),
        ("User-agent: my-crawler\nDisallow:\nUser-agent: *\nDisallow: /\n", "/a", True),
        ("User-agent: x\nUser-agent: my-crawler\nDisallow: /a\n", "/a", False),
        ("User-agent: x\nSitemap: /s\nUser-agent: my-crawler\nDisallow: /a\n", "/a", False),
        ("User-agent: my-crawler\nDisallow: /b\nUser-agent: x\nDisallow: /a\n", "/a", True),
        # The longest match counts, and Allow of two that are equal.
        ("User-agent: *\nDisallow: /a/\nAllow: /a/b\n", "/a/b", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a\n", "/a", True),
        ("User-agent: *\nDisallow: /*.gif$\n", "/a/b.gif", False),
        ("User-agent: *\nDisallow: /*.gif$\n", "/a/b.gif?x", True),
        ("User-agent: *\nDisallow: /ü\n", "/%C3%BC", False),
        ("\ufeffUser-agent: *\rDisallow: /a\r", "/a", False),
        ("Disallow: /\n", "/a", True),
    ],
)
def test_the_rules_are_those_of_rfc_9309(body: str, path: str, allowed: bool) -> None:
    engine = ScriptedEngine(site(text(body)))
    with Client(transport=engine, robots="my-crawler") as client:
        if allowed:
            client.get("http://h.test" + path)
        else:
            with pytest.raises(RobotsDisallowed):
                client.get("http://h.test" + path)


@ONE_OF_EACH
async def test_each_scheme_and_port_has_its_own_robots_txt(scripted: Scripted) -> None:
    client, engine = scripted(site(404), robots="my-crawler")
    for origin in ("http://h.test", "https://h.test", "http://h.test:8080", "http://i.test"):
        for _ in range(2):
            await client.get(origin + "/")
    found = [each.url for each in engine.sent if each.url.endswith("/robots.txt")]
    assert found == [
        "http://h.test/robots.txt",
        "https://h.test/robots.txt",
        "http://h.test:8080/robots.txt",
        "http://i.test/robots.txt",
    ]


@ONE_OF_EACH
async def test_the_robots_txt_itself_is_always_allowed(scripted: Scripted) -> None:
    client, engine = scripted(site(text("User-agent: *\nDisallow: /")), robots="my-crawler")
    assert "Disallow" in (await client.get(URL + "robots.txt")).text
    assert len(engine.sent) == 1


@ONE_OF_EACH
async def test_the_target_of_a_redirect_is_judged(scripted: Scripted) -> None:
    script = site(404, moved("http://i.test/a"), i=text("User-agent: *\nDisallow: /a"))
    client, engine = scripted(script, robots="my-crawler")
    with pytest.raises(RobotsDisallowed, match=r"GET http://i\.test/a: http://i\.test/robots"):
        await client.get(URL)
    assert pages(engine) == [URL]


@ONE_OF_EACH
async def test_a_middleware_that_changes_the_url_is_judged(scripted: Scripted) -> None:
    async def move(request: Any, send: Any) -> Any:
        if request.url.path == "/robots.txt":
            return await send(request)
        return await send(request.derive(url="http://h.test/private/a"))

    client, engine = scripted(site(text(RULES)), robots="my-crawler", middleware=[move])
    assert not await is_allowed(client, URL)
    assert pages(engine) == []


# --- the request for it ---


@ONE_OF_EACH
async def test_it_is_requested_without_credentials_and_hooks(scripted: Scripted) -> None:
    seen: list[str] = []
    client, engine = scripted(
        site(404),
        robots="my-crawler",
        auth=("user", "secret"),
        cookies={"session": "secret"},
        headers={"X-Api-Key": "secret", "User-Agent": "my-crawler/1.0"},
        params={"key": "secret"},
        hooks={
            "request": [lambda request: seen.append(request.url.path)],
            "response": [lambda response: seen.append(response.request.url.path)],
        },
        raise_for_status=True,
    )
    response = await client.post(URL + "page", json={"a": 1}, headers={"X-Own": "secret"})
    first = engine.sent[0]
    assert (first.method, first.url, first.body) == ("GET", URL + "robots.txt", b"")
    assert "secret" not in str(first.headers.multi_items())
    assert "authorization" not in first.headers
    assert first.headers["user-agent"] == "my-crawler/1.0"
    assert seen == ["/page", "/page"]
    assert response.history == []


@ONE_OF_EACH
async def test_the_fetch_of_a_token_is_not_judged(scripted: Scripted) -> None:
    def script(request: Any) -> Any:
        if request.url.host == "login.test":
            return Answer(200, json={"access_token": "t", "token_type": "Bearer"})
        return site(404)(request)

    auth = curlhttp.OAuth2ClientCredentials("https://login.test/token", "id", "secret")
    client, engine = scripted(script, robots="my-crawler", auth=auth)
    await client.get(URL)
    assert "https://login.test/robots.txt" not in [each.url for each in engine.sent]


@ONE_OF_EACH
async def test_its_cookies_and_the_fallback_are_not_used(scripted: Scripted) -> None:
    client, engine = scripted(
        site(Answer(503, headers={"Set-Cookie": "a=b"})),
        robots="my-crawler",
        fallback=lambda request, outcome: request.respond(200),
    )
    with pytest.raises(RobotsDisallowed):
        await client.get(URL)
    assert "a" not in client.real.cookies
    assert asked(engine) == 1


# --- failures ---


@ONE_OF_EACH
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429, 451, 304])
async def test_without_a_robots_txt_everything_is_allowed(scripted: Scripted, status: int) -> None:
    client, engine = scripted(site(Answer(status, content=b"Disallow")), robots="my-crawler")
    for _ in range(2):
        assert await is_allowed(client, URL)
    assert asked(engine) == 1


@ONE_OF_EACH
@pytest.mark.parametrize("status", [500, 502, 503, 599])
async def test_after_an_error_of_the_server_everything_is_disallowed(
    scripted: Scripted, status: int
) -> None:
    client, engine = scripted(site(status), robots="my-crawler")
    for _ in range(2):
        with pytest.raises(RobotsDisallowed, match=rf"robots.txt answered with status {status}"):
            await client.get(URL)
    assert (asked(engine), pages(engine)) == (1, [])


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("step", "name"),
    [
        (refused(), "ConnectionError"),
        (unresolved(), "ConnectionError"),
        (reset(), "ConnectionError"),
        (untrusted(), "SSLError"),
        (Answer(200, delay=math.inf), "DeadlineExceeded"),
        (Answer(200, content=[b"U", b"s"], pace=20.0), "DeadlineExceeded"),
        (
            text("User-agent", error=curlhttp.ChunkedEncodingError("cut off", request_sent=True)),
            "ChunkedEncodingError",
        ),
        (text(b"no gzip", headers={"Content-Encoding": "gzip"}), "ContentDecodingError"),
    ],
)
async def test_where_it_cannot_be_fetched_everything_is_disallowed(
    scripted: Scripted, step: Any, name: str
) -> None:
    client, engine = scripted(site(step), robots="my-crawler")
    for _ in range(2):
        with pytest.raises(RobotsDisallowed, match=rf"could not be fetched \({name}\)") as caught:
            await client.get(URL)
        assert type(caught.value.__cause__).__name__ == name
        assert not caught.value.is_lasting
        assert caught.value.request.url == curlhttp.URL(URL)
    assert (asked(engine), pages(engine)) == (1, [])
    assert engine.now() <= 30.1  # its own limit, although the client has none


@ONE_OF_EACH
async def test_it_is_retried_as_other_requests_are(scripted: Scripted) -> None:
    steps = iter([503, 503, text("User-agent: *\nDisallow: /a")])
    client, engine = scripted(
        site(lambda _: next(steps)), retry=steady(2), robots=Robots("my-crawler")
    )
    assert await is_allowed(client, URL)
    assert asked(engine) == 3


@ONE_OF_EACH
async def test_a_disallowed_url_is_not_retried_and_no_failure(scripted: Scripted) -> None:
    breaker = CircuitBreaker(failure_threshold=1)
    client, engine = scripted(
        site(text(RULES)), retry=steady(3), robots="my-crawler", breaker=breaker
    )
    for _ in range(3):
        with pytest.raises(RobotsDisallowed):
            await client.get(URL + "private")
    assert engine.sleeps == []
    assert (await client.get(URL)).status_code == 200


@ONE_OF_EACH
async def test_an_open_breaker_is_no_failure_of_the_server(scripted: Scripted) -> None:
    breaker = CircuitBreaker(failure_threshold=1)
    client, _ = scripted(site(404), robots="my-crawler", breaker=breaker)
    breaker.force_open("http://h.test")
    with pytest.raises(CircuitBreakerOpen) as caught:
        await client.get(URL + "page")
    assert caught.value.request.url.path == "/page"
    breaker.reset("http://h.test")
    assert (await client.get(URL + "page")).status_code == 200  # nothing was kept


@ONE_OF_EACH
async def test_a_request_waits_no_longer_than_its_own_time(scripted: Scripted) -> None:
    client, engine = scripted(site(Answer(404, delay=20)), robots="my-crawler")
    with pytest.raises(DeadlineExceeded, match=r"GET http://h\.test/page: the total") as caught:
        await client.get(URL + "page", timeout=Timeout(total=5))
    assert not caught.value.request_sent
    assert engine.now() < 6
    assert await is_allowed(client, URL)  # what the first one did not wait for is not kept
    assert asked(engine) == 2


@ONE_OF_EACH
async def test_a_wait_for_a_limit_is_no_failure_of_the_server(scripted: Scripted) -> None:
    limit = RateLimit(1 / 60, per=None)
    client, engine = scripted(site(404), robots="my-crawler", rate_limit=limit)
    await client.get(URL)
    await client.get("http://i.test/")
    assert engine.now() == pytest.approx(180, abs=1)


# --- redirects of robots.txt ---


def chain_of(hops: int, end: Any) -> Callable[[Any], Any]:
    def script(request: Any) -> Any:
        url = str(request.url)
        if "/robots" not in url:
            return 200
        number = int(url.rpartition("-")[2]) if "-" in url else 0
        return end if number == hops else moved(f"http://h{number % 2}.test/robots-{number + 1}")

    return script


@ONE_OF_EACH
@pytest.mark.parametrize(("hops", "allowed"), [(1, False), (5, False), (6, True)])
async def test_five_redirects_of_robots_txt_are_followed(
    scripted: Scripted, hops: int, allowed: bool
) -> None:
    client, engine = scripted(
        chain_of(hops, text("User-agent: *\nDisallow: /")),
        robots="my-crawler",
        follow_redirects=False,
    )
    assert await is_allowed(client, URL) is allowed
    assert await is_allowed(client, URL) is allowed
    assert len(engine.sent) - len(pages(engine)) == 1
    assert sum("/robots-" in each.url for each in engine.sent) == min(hops, 5)


@ONE_OF_EACH
@pytest.mark.parametrize("location", ["ftp://h.test/", "http://[", "", "http://h.test:x/"])
async def test_a_redirect_to_nowhere_is_no_robots_txt(scripted: Scripted, location: str) -> None:
    client, _ = scripted(site(moved(location)), robots="my-crawler")
    assert await is_allowed(client, URL)


# --- how long it is kept ---


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("step", "policy", "seconds"),
    [
        (text(RULES), Robots("my-crawler"), DAY),
        (404, Robots("my-crawler"), DAY),
        (404, Robots("my-crawler", max_age=60), 60),
        (500, Robots("my-crawler"), 300),
        (refused(), Robots("my-crawler", max_age=60), 60),
    ],
)
async def test_it_is_fetched_again_after_its_time(
    scripted: Scripted, step: Any, policy: Robots, seconds: float
) -> None:
    client, engine = scripted(site(step), robots=policy)
    await is_allowed(client, URL)
    engine.advance(seconds - 1)
    await is_allowed(client, URL)
    assert asked(engine) == 1
    engine.advance(2)
    await is_allowed(client, URL)
    assert asked(engine) == 2


@ONE_OF_EACH
async def test_the_least_recently_used_origin_is_dropped(scripted: Scripted) -> None:
    client, engine = scripted(site(404), robots=Robots("my-crawler", max_origins=2))
    for host in "abacab":
        await client.get(f"http://{host}.test/")
    found = [each.url[7] for each in engine.sent if each.url.endswith("/robots.txt")]
    assert found == ["a", "b", "c", "b"]


@ONE_OF_EACH
async def test_the_rules_of_all_origins_together_are_limited(scripted: Scripted) -> None:
    body = "User-agent: *\n" + "Allow:/a\n" * 40_000
    client, engine = scripted(site(text(body)), robots="my-crawler")
    for host in "abca":
        await client.get(f"http://{host}.test/")
    assert asked(engine) == 4  # the third one has dropped the first one


# --- hostile files ---


@ONE_OF_EACH
async def test_the_first_512_kib_are_parsed_and_no_more_is_read(scripted: Scripted) -> None:
    filler = b"#" * 1023 + b"\n"
    head = b"User-agent: *\nDisallow: /a\n"
    within = head + filler * 499 + b"Disallow: /b\n"
    pieces = [within, filler * 20, *[filler * 1000] * 50, b"Disallow: /c\n"]
    client, engine = scripted(site(text(pieces)), robots="my-crawler")  # type: ignore[arg-type]
    found = [await is_allowed(client, URL + path) for path in "abc"]
    assert found == [False, False, True]
    assert engine.aborted == 1


@ONE_OF_EACH
async def test_a_compressed_robots_txt_is_read_to_the_limit_only(scripted: Scripted) -> None:
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(b"User-agent: *\nDisallow: /a\n")
    bomb += b"".join(packer.compress(b"#" * 2**20) for _ in range(64)) + packer.flush()
    step = text(bomb, headers={"Content-Encoding": "gzip"})
    client, _ = scripted(site(step), robots="my-crawler", max_response_size=1000)
    assert not await is_allowed(client, URL + "a")
    assert await is_allowed(client, URL + "b")


# --- Crawl-delay ---


@ONE_OF_EACH
async def test_requests_to_an_origin_keep_its_crawl_delay(scripted: Scripted) -> None:
    client, engine = scripted(
        site(404, h=text("User-agent: *\nCrawl-delay: 5\n")), robots="my-crawler"
    )
    for path in "abc":
        await client.get(URL + path)
        await client.get("http://i.test/" + path)
    times = [each.at for each in engine.sent if "h.test" in each.url]
    assert [round(time) for time in times] == [0, 5, 10, 15]


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("delay", "policy", "seconds"),
    [
        ("1e9", Robots("my-crawler"), 60),
        ("30", Robots("my-crawler", max_crawl_delay=2), 2),
        ("30", Robots("my-crawler", max_crawl_delay=0), 0),
        ("0", Robots("my-crawler"), 0),
        ("-3", Robots("my-crawler"), 0),
        ("1e-320", Robots("my-crawler"), 0),
        ("nan", Robots("my-crawler"), 0),
        ("soon", Robots("my-crawler"), 0),
        ("9" * 5000, Robots("my-crawler"), 0),
    ],
)
async def test_any_crawl_delay_is_a_number_of_seconds(
    scripted: Scripted, delay: str, policy: Robots, seconds: float
) -> None:
    client, engine = scripted(site(text(f"User-agent: *\nCrawl-delay: {delay}")), robots=policy)
    await client.get(URL)
    await client.get(URL)
    assert engine.now() == pytest.approx(2 * seconds, abs=0.1)


@ONE_OF_EACH
async def test_each_attempt_keeps_the_crawl_delay_and_a_new_file_goes_on_with_it(
    scripted: Scripted,
) -> None:
    pages_of = iter([503, 200, 200])

    def script(request: Any) -> Any:
        if request.url.path == "/robots.txt":
            return text("User-agent: *\nCrawl-delay: 10")
        return next(pages_of)

    client, engine = scripted(script, retry=steady(1), robots=Robots("my-crawler", max_age=25))
    await client.get(URL)
    engine.advance(6)
    await client.get(URL)
    assert [round(each.at) for each in engine.sent] == [0, 10, 20, 26, 30]


@ONE_OF_EACH
async def test_a_cache_hit_is_judged_but_not_delayed(scripted: Scripted) -> None:
    page = Answer(200, headers={"Cache-Control": "max-age=1000"}, content=b"page")
    client, engine = scripted(
        site(text("User-agent: *\nCrawl-delay: 9"), page),
        robots="my-crawler",
        cache=curlhttp.Cache(":memory:"),
    )
    for _ in range(3):
        await client.get(URL)
    assert round(engine.now()) == 9


# --- one fetch for all that wait ---


class Gate:
    """A robots.txt that is sent when the test lets it go."""

    def __init__(self, app: AppServer, body: bytes = RULES.encode()) -> None:
        self.app = app
        self.body = body
        self.opened = threading.Event()
        app.route("/robots.txt", self._answer)

    def _answer(self, record: Record, conn: AppConnection) -> None:
        self.opened.wait(30)
        conn.reply(200, self.body)

    @property
    def count(self) -> int:
        return sum(record.path == "/robots.txt" for record in self.app.requests)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.001)


async def test_all_that_wait_share_one_fetch(make_client: MakeClient, app: AppServer) -> None:
    gate = Gate(app)
    client = make_client(robots="my-crawler")
    found: list[Any] = []

    async def gather() -> None:
        found.extend(await client.gather(8, "GET", app.url + "/bytes/5"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gather)
        await until(lambda: waiting_for_robots(client.real) == 8)
        gate.opened.set()
    assert [response.status_code for response in found] == [200] * 8
    assert gate.count == 1


async def test_each_item_of_a_map_gets_its_own_error(
    make_client: MakeClient, app: AppServer
) -> None:
    gate = Gate(app)
    gate.opened.set()
    client = make_client(robots="my-crawler")
    urls = [f"{app.url}/{'private' if number % 2 else 'bytes'}/{number}" for number in range(20)]
    found = {}
    async for result in client.map(urls):
        found[str(result.request.url)] = isinstance(result, RobotsDisallowed)
    assert found == {url: "private" in url for url in urls}
    assert gate.count == 1


@pytest.mark.colours("asyncio", "trio")
async def test_a_cancelled_request_leaves_the_fetch_to_the_next(
    make_client: MakeClient, app: AppServer
) -> None:
    gate = Gate(app)
    client = make_client(robots="my-crawler")
    found: list[int] = []

    async def get() -> None:
        found.append((await client.get(app.url + "/bytes/1")).status_code)

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def get_cancelled() -> None:
            with scope:
                await get()

        tasks.start_soon(get_cancelled)
        await until(lambda: waiting_for_robots(client.real) == 1 and gate.count == 1)
        tasks.start_soon(get)
        await until(lambda: waiting_for_robots(client.real) == 2)
        scope.cancel()
        gate.opened.set()
    assert found == [200]
    assert gate.count == 2


def test_a_get_within_the_loop_of_a_map_does_not_wait_for_it(app: AppServer) -> None:
    Gate(app).opened.set()
    urls = [f"{app.url}/bytes/{number}" for number in range(10)]
    limit = ConcurrencyLimit(1)
    with Client(robots="my-crawler", concurrency_limit=limit) as client:
        for result in client.map(urls):
            assert isinstance(result, curlhttp.Response)
            assert client.get(result.request.url).status_code == 200


# --- on real connections, in each way to send ---


async def test_streams_and_downloads_are_judged(
    make_client: MakeClient, app: AppServer, tmp_path: Any
) -> None:
    Gate(app).opened.set()
    client = make_client(robots="my-crawler")
    async with await client.stream("GET", app.url + "/bytes/5") as stream:
        assert len(await stream.read()) == 5
    with pytest.raises(RobotsDisallowed):
        await client.stream("GET", app.url + "/private")
    path = tmp_path / "file"
    for url, allowed in ((app.url + "/bytes/7", True), (app.url + "/private", False)):
        try:
            response = client.real.download(url, path)
            if not client.is_blocking:
                await response
        except RobotsDisallowed:
            assert not allowed
        else:
            assert allowed
    assert path.stat().st_size == 7
    assert sum(record.path == "/robots.txt" for record in app.requests) == 1
    assert not [record for record in app.requests if "private" in record.path]


async def test_a_first_download_does_not_write_robots_txt_to_the_file(
    make_client: MakeClient, app: AppServer, tmp_path: Any
) -> None:
    Gate(app).opened.set()
    client = make_client(robots="my-crawler")
    response = client.real.download(app.url + "/bytes/7", tmp_path / "file")
    if not client.is_blocking:
        await response
    assert (tmp_path / "file").stat().st_size == 7


async def test_a_websocket_is_judged(make_client: MakeClient, app: AppServer) -> None:
    Gate(app).opened.set()
    client = make_client(robots="my-crawler")
    with pytest.raises(RobotsDisallowed):
        await client.websocket(app.url.replace("http", "ws") + "/private")
    with pytest.raises(curlhttp.WebSocketRefused):  # this server has none
        await client.websocket(app.url.replace("http", "ws") + "/bytes/1")


def test_a_server_that_is_silent_is_given_up(app: AppServer) -> None:
    gate = Gate(app)
    try:
        with Client(robots=Robots("my-crawler", timeout=0.2)) as client:
            for _ in range(2):
                with pytest.raises(RobotsDisallowed, match="could not be fetched"):
                    client.get(app.url + "/bytes/1")
        assert gate.count == 1
    finally:
        gate.opened.set()


# --- the setting ---


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("", ValueError),
        ("my crawler", ValueError),
        ("my-crawler/1.0", ValueError),
        ("*", ValueError),
        (True, TypeError),
        (b"my-crawler", TypeError),
        (Robots, TypeError),
    ],
)
def test_a_token_that_no_file_can_name_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match='product token of your crawler, such as "my-crawler"'):
        Client(robots=value)


@pytest.mark.parametrize(
    "options", [{"max_age": DAY + 1}, {"max_age": 0}, {"timeout": 0}, {"max_origins": 0}]
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Robots("my-crawler", **options)


def test_a_policy_is_a_value() -> None:
    policy = Robots("my-crawler", timeout=5)
    assert pickle.loads(pickle.dumps(policy)) == copy.copy(policy) == policy


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "protego", None)
    with pytest.raises(ImportError, match=r"pip install 'curlhttp\[robots\]'"):
        Client(robots="my-crawler")
