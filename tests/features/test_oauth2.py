"""OAuth 2.0: token requests, validation of their responses, and caching."""

from __future__ import annotations

import asyncio
import base64
import copy
import gc
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp import OAuth2ClientCredentials, OAuth2Error, OAuth2RefreshToken, RetryPolicy
from curlhttp.testing import Answer, reset
from tests.servers import AppServer, HTTPProxy
from tests.servers.record import Record
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch
from tests.support.internals import waiting_for_token
from tests.support.scripted import URL, Scripted, moved

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
TOKEN_URL = "http://id.test/token"


def credentials(**options: Any) -> OAuth2ClientCredentials:
    return OAuth2ClientCredentials(TOKEN_URL, "me", "s3cret", **options)


def grant(token: str = "t1", **fields: Any) -> Answer:
    return Answer(200, content=json.dumps({"access_token": token, **fields}).encode())


def authorizations(engine: Any) -> list[str | None]:
    return [sent.headers.get("Authorization") for sent in engine.sent if sent.url == URL]


# --- the request for a token ---


@ONE_OF_EACH
async def test_a_token_request_is_a_form_with_basic_auth(scripted: Scripted) -> None:
    auth = credentials(scope=["read", "write"], audience="api", parameters={"resource": "r&s"})
    client, engine = scripted([grant(token_type="Bearer"), 200], headers={"X-Api-Key": "k"})
    await client.get(URL, auth=auth, cookies={"a": "b"})
    asked, sent = engine.sent
    assert (asked.method, asked.url) == ("POST", TOKEN_URL)
    assert asked.form == {
        "grant_type": "client_credentials",
        "scope": "read write",
        "audience": "api",
        "resource": "r&s",
    }
    assert asked.headers["Authorization"] == "Basic " + base64.b64encode(b"me:s3cret").decode()
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert asked.headers["Accept"] == "application/json"
    assert "X-Api-Key" not in asked.headers
    assert "Cookie" not in asked.headers
    assert sent.headers["Authorization"] == "Bearer t1"


@ONE_OF_EACH
async def test_names_and_secrets_are_encoded_before_they_are_joined(scripted: Scripted) -> None:
    """RFC 6749, section 2.3.1: a colon would end the name, and not all is Latin-1."""
    client, engine = scripted([grant(), 200])
    await client.get(URL, auth=OAuth2ClientCredentials(TOKEN_URL, "me:you", "p ä%+"))
    pair = base64.b64decode(engine.sent[0].headers["Authorization"].partition(" ")[2])
    assert pair == b"me%3Ayou:p+%C3%A4%25%2B"


@ONE_OF_EACH
async def test_credentials_may_be_in_the_form(scripted: Scripted) -> None:
    client, engine = scripted([grant(), 200])
    await client.get(URL, auth=credentials(client_auth="post"))
    assert "Authorization" not in engine.sent[0].headers
    assert engine.sent[0].form == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": "s3cret",
    }


@pytest.mark.parametrize(
    "options", [{"client_auth": "none"}, {"leeway": -1}, {"leeway": float("nan")}]
)
def test_wrong_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"client_auth|leeway"):
        credentials(**options)


def test_a_token_url_is_absolute() -> None:
    with pytest.raises(curlhttp.MissingSchema):
        OAuth2ClientCredentials("/token", "me", "s3cret")


# --- how long a token is used ---


@ONE_OF_EACH
async def test_a_token_is_refreshed_before_it_expires(scripted: Scripted) -> None:
    client, engine = scripted(
        [grant("t1", expires_in=3600), 200, 200, grant("t2", expires_in=3600), 200],
        auth=credentials(leeway=60),
    )
    await client.get(URL)
    engine.advance(3539.0)
    await client.get(URL)
    engine.advance(1.0)
    await client.get(URL)
    assert authorizations(engine) == ["Bearer t1", "Bearer t1", "Bearer t2"]


@ONE_OF_EACH
async def test_the_lifetime_of_a_token_begins_with_its_request(scripted: Scripted) -> None:
    slow = Answer(200, content=b'{"access_token": "t1", "expires_in": 100}', delay=50.0)
    client, engine = scripted([slow, 200, grant("t2"), 200], auth=credentials(leeway=0))
    await client.get(URL)
    engine.advance(50.0)
    await client.get(URL)
    assert authorizations(engine) == ["Bearer t1", "Bearer t2"]


@ONE_OF_EACH
async def test_a_short_life_is_used_to_its_half(scripted: Scripted) -> None:
    client, engine = scripted(
        [grant("t1", expires_in=10), 200, 200, grant("t2", expires_in=0), 200, grant("t3"), 200],
        auth=credentials(),
    )
    await client.get(URL)
    engine.advance(4.0)
    await client.get(URL)
    engine.advance(1.0)
    await client.get(URL)  # with one that is good for this request alone
    await client.get(URL)
    assert authorizations(engine) == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t3"]


@pytest.mark.parametrize("digits", [10, 16, 400, 5000])
@ONE_OF_EACH
async def test_a_life_of_any_size_is_a_long_one(scripted: Scripted, digits: int) -> None:
    client, engine = scripted([grant("t1", expires_in="9" * digits), 200, 200], auth=credentials())
    await client.get(URL)
    engine.advance(365 * 86_400)
    await client.get(URL)
    assert authorizations(engine) == ["Bearer t1", "Bearer t1"]


@ONE_OF_EACH
async def test_a_life_may_be_written_as_a_string(scripted: Scripted) -> None:
    """Azure's token servers of version 1 do so."""
    client, engine = scripted(
        [grant("t1", expires_in="100"), 200, 200, grant("t2"), 200], auth=credentials()
    )
    await client.get(URL)
    engine.advance(69)
    await client.get(URL)
    engine.advance(2)
    await client.get(URL)
    assert authorizations(engine) == ["Bearer t1", "Bearer t1", "Bearer t2"]


@ONE_OF_EACH
async def test_a_token_without_an_end_is_used_until_it_is_refused(scripted: Scripted) -> None:
    client, engine = scripted([grant("t1"), 200, 401, grant("t2"), 200], auth=credentials())
    await client.get(URL)
    engine.advance(1e9)
    found = await client.get(URL)
    assert found.status_code == 200
    assert [past.status_code for past in found.history] == [401]
    assert authorizations(engine) == ["Bearer t1", "Bearer t1", "Bearer t2"]


@ONE_OF_EACH
async def test_a_server_that_refuses_every_token_floods_no_token_server(
    scripted: Scripted,
) -> None:
    def refuse(request: Any) -> Answer:
        return grant(f"t{len(engine.sent)}") if str(request.url) == TOKEN_URL else Answer(401)

    def asked() -> tuple[int, int]:
        fetches = sum(sent.url == TOKEN_URL for sent in engine.sent)
        posts = len(engine.sent) - fetches
        engine.sent.clear()
        return fetches, posts

    client, engine = scripted(refuse, auth=credentials())
    for expected in (2, 2), (2, 2), (1, 1):
        assert (await client.post(URL, content=b"x")).status_code == 401
        assert asked() == expected
    for _ in range(20):
        assert (await client.post(URL, content=b"x")).status_code == 401
    assert asked() == (0, 20)  # with the token that was refused last
    engine.advance(1.0)
    for _ in range(20):
        await client.post(URL, content=b"x")
    assert asked() == (1, 21)
    for _ in range(3600):
        engine.advance(1.0)
        await client.post(URL, content=b"x")
    fetches, posts = asked()
    assert 50 < fetches < 70
    assert posts - fetches == 3600


@ONE_OF_EACH
async def test_a_token_that_is_taken_ends_the_rest_after_many_refused_ones(
    scripted: Scripted,
) -> None:
    refusing = True

    def respond(request: Any) -> Answer:
        if str(request.url) == TOKEN_URL:
            return grant(f"t{len(engine.sent)}")
        return Answer(401 if refusing else 200)

    client, engine = scripted(respond, auth=credentials())
    for _ in range(10):
        await client.get(URL)
    refusing = False
    assert (await client.get(URL)).status_code == 200
    refusing, before = True, len(engine.sent)
    await client.get(URL)
    assert len(engine.sent) - before == 3  # refused, another token, refused


@ONE_OF_EACH
async def test_a_token_is_not_sent_to_the_target_of_a_redirect(scripted: Scripted) -> None:
    client, engine = scripted([grant(), moved("http://evil.test/"), 200], auth=credentials())
    await client.get(URL)
    assert engine.sent[2].url == "http://evil.test/"
    assert "Authorization" not in engine.sent[2].headers


# --- with every API, on real engines ---


class TokenServer:
    """Gives tokens that are good at /api, until it says otherwise."""

    def __init__(self, app: AppServer) -> None:
        self.app = app
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()
        self.fields: dict[str, Any] = {"token_type": "bearer", "expires_in": 3600}
        self.fails = 0
        app.route("/token", self.token)
        app.route("/api", self.api)
        self.url = app.at("localhost") + "/token"
        self.good = ""
        self.lock = threading.Lock()

    def token(self, record: Record, out: Any) -> None:
        with self.lock:
            self.asked += 1
            number = self.asked
        assert self.gate.wait(30)
        if self.fails:
            self.fails -= 1
            out.reply(400, b'{"error": "invalid_client", "error_description": "who?"}')
            return
        self.good = f"t{number}"
        out.reply(200, json.dumps({"access_token": self.good, **self.fields}).encode())

    def api(self, record: Record, out: Any) -> None:
        good = record.header("authorization") == f"Bearer {self.good}"
        challenge = [] if good else [("WWW-Authenticate", 'Bearer error="invalid_token"')]
        out.reply(200 if good else 401, b"welcome" if good else b"", challenge)


@pytest.fixture
def tokens(app: AppServer) -> TokenServer:
    return TokenServer(app)


@EVERY_CLIENT_API
async def test_every_api_sends_a_token_and_a_new_one_after_a_401(
    fetch: Fetch, app: AppServer, tokens: TokenServer
) -> None:
    auth = OAuth2ClientCredentials(tokens.url, "me", "s3cret")
    for _ in range(2):
        assert (await fetch(app.url + "/api", auth=auth)).status_code == 200
    assert tokens.asked == 1
    tokens.good = "another"
    assert (await fetch(app.url + "/api", auth=auth)).status_code == 200
    assert tokens.asked == 2


async def test_one_fetch_serves_all_that_wait(
    client: AnyClient, app: AppServer, tokens: TokenServer
) -> None:
    auth = OAuth2ClientCredentials(tokens.url, "me", "s3cret")
    tokens.gate.clear()
    results: list[Any] = []

    async def gather() -> None:
        results.extend(await client.gather(20, "GET", app.url + "/api", auth=auth))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gather)
        with anyio.fail_after(30):
            while waiting_for_token(auth) < 20:
                await anyio.sleep(0.005)
        tokens.gate.set()
    assert [response.status_code for response in results] == [200] * 20
    assert tokens.asked == 1


async def test_a_fetch_in_a_closed_loop_blocks_no_other(
    client: AnyClient, app: AppServer, tokens: TokenServer
) -> None:
    auth = OAuth2ClientCredentials(tokens.url, "me", "s3cret")
    tokens.gate.clear()
    loop = asyncio.new_event_loop()
    other = curlhttp.AsyncClient()
    task = loop.create_task(other.get(app.url + "/api", auth=auth))
    thread = threading.Thread(target=loop.run_until_complete, args=(_until(lambda: tokens.asked),))
    thread.start()
    await anyio.to_thread.run_sync(thread.join)
    results: list[Any] = []

    async def gather() -> None:
        results.extend(await client.gather(3, "GET", app.url + "/api", auth=auth))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gather)
            while waiting_for_token(auth) < 4:
                await anyio.sleep(0.005)
            loop.close()  # and nobody cancels its task
            tokens.gate.set()
    assert [response.status_code for response in results] == [200] * 3
    assert tokens.asked == 2
    assert not task.done()
    await other.aclose()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    gc.collect()  # pytest fails a test in which a finalizer raises


async def _until(done: Callable[[], object]) -> None:
    while not done():
        await asyncio.sleep(0.005)


async def test_a_limit_of_one_request_at_once_holds_up_no_fetch(
    make_client: MakeClient, app: AppServer, tokens: TokenServer
) -> None:
    client = make_client(
        concurrency_limit=curlhttp.ConcurrencyLimit(1, per=None),
        max_connections=1,
        auth=OAuth2ClientCredentials(app.url + "/token", "me", "s3cret"),
        timeout=curlhttp.Timeout(pool=30),
    )
    tokens.good = "x"
    for _ in range(2):
        async with await client.stream("GET", app.url + "/api") as streamed:
            assert await streamed.read() == b"welcome"
        tokens.good = "another"


async def test_the_fetch_goes_through_the_clients_proxy(
    make_client: MakeClient, app: AppServer, tokens: TokenServer
) -> None:
    with HTTPProxy() as proxy:
        client = make_client(proxies=proxy.url)
        auth = OAuth2ClientCredentials(app.url + "/token", "me", "s3cret")
        assert (await client.get(app.url + "/api", auth=auth)).ok
        assert len(proxy.log) == 2


@ONE_OF_EACH
async def test_the_fetch_is_retried_as_the_policy_says(scripted: Scripted) -> None:
    policy = RetryPolicy(1, retry_non_idempotent=True)
    client, engine = scripted([reset(), grant(), 200], retry=policy, auth=credentials())
    await client.get(URL)
    assert [sent.url for sent in engine.sent] == [TOKEN_URL, TOKEN_URL, URL]


# --- what goes wrong ---


@ONE_OF_EACH
async def test_a_refusal_gives_the_reason_and_the_next_request_tries_again(
    scripted: Scripted,
) -> None:
    refusal = Answer(
        401,
        content=json.dumps(
            {
                "error": "invalid_client",
                "error_description": "no s3cret\r\nfor you",
                "error_uri": "https://id.test/why",
            }
        ).encode(),
    )
    client, _ = scripted([refusal, grant(), 200], auth=credentials())
    with pytest.raises(OAuth2Error) as caught:
        await client.get(URL)
    error = caught.value
    assert str(error) == (
        f"POST {TOKEN_URL}: the token server answered 401 invalid_client: no *** for you"
    )
    assert (error.error, error.error_description) == ("invalid_client", "no *** for you")
    assert (error.error_uri, error.status_code) == ("https://id.test/why", 401)
    assert (await client.get(URL)).ok


JUNK: list[tuple[int, bytes, str]] = [
    (200, b"", "has no access_token"),
    (200, b"<html>", "has no access_token"),
    (200, b"[]", "has no access_token"),
    (200, b"null", "has no access_token"),
    (200, b"\xff\xfe", "has no access_token"),
    (200, b"[" * 100_000, "has no access_token"),
    (200, b'{"access_token": null}', "has no access_token"),
    (200, b'{"access_token": 1}', "access_token that cannot be sent"),
    (200, b'{"access_token": ""}', "access_token that cannot be sent"),
    (200, b'{"access_token": "a\\r\\nX: y"}', "access_token that cannot be sent"),
    (200, b'{"access_token": "t", "token_type": "mac"}', "token_type"),
    (200, b'{"access_token": "t", "token_type": 1}', "token_type"),
    (200, b'{"access_token": "t", "expires_in": -1}', "expires_in"),
    (200, b'{"access_token": "t", "expires_in": "1e3"}', "expires_in"),
    (200, b'{"access_token": "t", "expires_in": "-1"}', "expires_in"),
    (200, b'{"access_token": "t", "expires_in": true}', "expires_in"),
    (200, b'{"access_token": "t", "expires_in": NaN}', "expires_in"),
    (200, b'{"access_token": "t", "expires_in": []}', "expires_in"),
    (200, b'{"access_token": "t", "refresh_token": 1}', "refresh_token"),
    (200, b'{"access_token": "t", "error": "slow_down"}', "answered 200 slow_down"),
    (204, b"", "answered 204"),
    (302, b'{"access_token": "t"}', "answered 302"),
    (400, b'{"error": 1, "error_description": {}}', "answered 400"),
    (503, b"<html>", "answered 503"),
]


@ONE_OF_EACH
@pytest.mark.parametrize(("status", "body", "message"), JUNK)
async def test_junk_of_a_token_server_is_an_error_that_says_so(
    scripted: Scripted, status: int, body: bytes, message: str
) -> None:
    client, engine = scripted([Answer(status, content=body)], auth=credentials())
    with pytest.raises(OAuth2Error, match=message):
        await client.get(URL)
    assert len(engine.sent) == 1


@ONE_OF_EACH
@pytest.mark.parametrize("expires_in", ("1e999", "1" + "0" * 4000, "Infinity", "3600.5"))
async def test_any_number_of_seconds_is_accepted(scripted: Scripted, expires_in: str) -> None:
    body = f'{{"access_token": "t", "expires_in": {expires_in}}}'.encode()
    client, _ = scripted([Answer(200, content=body), 200], auth=credentials())
    assert (await client.get(URL)).ok


@ONE_OF_EACH
async def test_a_huge_response_of_a_token_server_is_not_read(scripted: Scripted) -> None:
    body = b'{"access_token": "' + b"t" * 300_000 + b'"}'
    client, _ = scripted([Answer(200, content=body)], auth=credentials())
    with pytest.raises(curlhttp.ResponseTooLarge) as caught:
        await client.get(URL)
    assert caught.value.response is None


async def test_a_timeout_is_raised_only_in_waiters_with_the_same_timeout(
    client: AnyClient, app: AppServer, tokens: TokenServer
) -> None:
    auth = OAuth2ClientCredentials(tokens.url, "me", "s3cret")
    tokens.gate.clear()
    found: dict[float, list[object]] = {0.5: [], 60.0: []}

    async def one(seconds: float) -> None:
        try:
            if client.is_blocking:
                response = await anyio.to_thread.run_sync(
                    lambda: client.real.get(app.url, auth=auth, timeout=seconds)
                )
            else:
                response = await client.get(app.url, auth=auth, timeout=seconds)
            found[seconds].append(response.status_code)
        except curlhttp.TimeoutException as error:
            found[seconds].append(type(error))

    async def until(count: int) -> None:
        with anyio.fail_after(30):
            while tokens.asked < count:
                await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        for seconds in (0.5, 0.5, 60.0, 60.0, 60.0):
            before = waiting_for_token(auth)
            tasks.start_soon(one, seconds)
            with anyio.fail_after(30):
                while waiting_for_token(auth) == before:
                    await anyio.sleep(0.005)
        await until(2)
        tokens.gate.set()
    assert found == {0.5: [curlhttp.ReadTimeout] * 2, 60.0: [200] * 3}
    assert tokens.asked == 2
    assert not waiting_for_token(auth)


async def test_a_failure_is_raised_in_all_waiters(
    client: AnyClient, app: AppServer, tokens: TokenServer
) -> None:
    auth = OAuth2ClientCredentials(tokens.url, "me", "s3cret")
    tokens.gate.clear()
    tokens.fails = 1
    errors: list[Exception] = []

    async def one() -> None:
        try:
            if client.is_blocking:
                await anyio.to_thread.run_sync(lambda: client.real.get(app.url + "/api", auth=auth))
            else:
                await client.get(app.url + "/api", auth=auth)
        except OAuth2Error as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(one)
        with anyio.fail_after(30):
            while waiting_for_token(auth) < 10:
                await anyio.sleep(0.005)
        tokens.gate.set()
    assert [error.error for error in errors if isinstance(error, OAuth2Error)] == [
        "invalid_client"
    ] * 10
    assert tokens.asked == 1
    assert (await client.get(app.url + "/api", auth=auth)).ok


# --- secrets ---


def holds(thing: object, *secrets: str) -> bool:
    shown = f"{thing}{thing!r}{getattr(thing, 'args', '')}".encode()
    data = shown if isinstance(thing, curlhttp.Auth) else shown + pickle.dumps(thing)
    return any(secret.encode() in data for secret in secrets)


@ONE_OF_EACH
@pytest.mark.parametrize("client_auth", ("basic", "post"))
@pytest.mark.parametrize(
    "failure",
    [
        reset(),
        Answer(400, content=b'{"error": "invalid_grant", "error_description": "s3cret r3fresh"}'),
        Answer(200, content=b'{"access_token": "t0ken", "expires_in": -1}'),
        Answer(200, content=b'{"access_token": "t0ken"', headers={"Content-Length": "99"}),
        Answer(200, content=b"t0ken" * 100_000),
    ],
)
async def test_no_secret_is_in_an_error_or_its_pickle(
    scripted: Scripted, client_auth: Any, failure: Any
) -> None:
    auth = OAuth2RefreshToken(TOKEN_URL, "r3fresh", "me", "s3cret", client_auth=client_auth)
    basic = base64.b64encode(b"me:s3cret").decode()
    policy = RetryPolicy(1, retry_non_idempotent=True)
    client, _ = scripted(lambda request: failure, retry=policy, auth=auth)
    with pytest.raises(curlhttp.RequestException) as caught:
        await client.get(URL)
    assert not holds(caught.value, "s3cret", "r3fresh", "t0ken", basic)
    assert caught.value.request is not None
    assert str(caught.value.request.url) == TOKEN_URL
    for attempt in caught.value.attempts:
        assert attempt.error is None or not holds(attempt.error, "s3cret", "r3fresh", basic)


@ONE_OF_EACH
async def test_no_credentials_of_the_token_url_are_in_a_pickle(scripted: Scripted) -> None:
    auth = OAuth2RefreshToken(TOKEN_URL.replace("//", "//me:s3cret@"), "r3fresh")
    client, engine = scripted([401], auth=auth)
    with pytest.raises(OAuth2Error) as caught:
        await client.get(URL)
    assert "Authorization" in engine.sent[0].headers
    assert not holds(caught.value, "s3cret", "r3fresh")


@ONE_OF_EACH
async def test_no_secret_is_in_a_response_or_its_pickle(scripted: Scripted) -> None:
    client, _ = scripted([grant("t0ken"), 401, grant("t0ken"), 200], auth=credentials())
    found = await client.get(URL)
    assert len(found.history) == 1
    assert not holds(found, "s3cret", "t0ken")


@pytest.mark.parametrize("auth", [credentials(), OAuth2RefreshToken(TOKEN_URL, "r3fresh")])
def test_an_auth_shows_nothing_and_cannot_be_pickled(auth: Any) -> None:
    assert not holds(auth, "s3cret", "r3fresh", "me")
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds credentials"):
            function(auth)


# --- refresh tokens ---


@ONE_OF_EACH
async def test_a_refresh_token_is_sent_and_its_successor_saved(scripted: Scripted) -> None:
    saved: list[str] = []
    auth = OAuth2RefreshToken(TOKEN_URL, "r1", "me", "s3cret", scope="read", save=saved.append)
    client, engine = scripted(
        [
            grant("t1", refresh_token="r2"),
            200,
            401,
            grant("t2", refresh_token="r2"),
            200,
            401,
            grant("t3"),
            200,
        ],
        auth=auth,
    )
    for _ in range(3):
        assert (await client.get(URL)).ok
    forms = [sent.form for sent in engine.sent if sent.url == TOKEN_URL]
    assert forms == [
        {"grant_type": "refresh_token", "refresh_token": token, "scope": "read"}
        for token in ("r1", "r2", "r2")
    ]
    assert saved == ["r2"]
    assert "Authorization" in engine.sent[0].headers


@ONE_OF_EACH
async def test_a_public_client_says_its_name_in_the_form(scripted: Scripted) -> None:
    client, engine = scripted([grant(), 200])
    await client.get(URL, auth=OAuth2RefreshToken(TOKEN_URL, "r1", "me"))
    assert "Authorization" not in engine.sent[0].headers
    assert parse_qs(engine.sent[0].text)["client_id"] == ["me"]
    assert "client_secret" not in engine.sent[0].form


async def test_save_may_be_async_in_async_clients(scripted: Scripted) -> None:
    saved: list[str] = []

    async def save(token: str) -> None:
        await anyio.sleep(0)
        saved.append(token)

    client, engine = scripted([grant(refresh_token="r2"), 200])
    auth = OAuth2RefreshToken(TOKEN_URL, "r1", save=save)
    if client.is_blocking:
        with pytest.raises(TypeError, match="OAuth2RefreshToken has an async function"):
            await client.get(URL, auth=auth)
        assert engine.sent == []  # the token was not used up
    else:
        await client.get(URL, auth=auth)
        assert saved == ["r2"]


@ONE_OF_EACH
async def test_what_save_raises_is_raised_and_the_new_token_is_used(scripted: Scripted) -> None:
    def save(token: str) -> None:
        raise OSError("disk full")

    client, engine = scripted(
        [grant(refresh_token="r2"), grant(), 200],
        auth=OAuth2RefreshToken(TOKEN_URL, "r1", save=save),
    )
    with pytest.raises(OSError, match="disk full"):
        await client.get(URL)
    await client.get(URL)
    assert [sent.form["refresh_token"] for sent in engine.sent[:2]] == ["r1", "r2"]
