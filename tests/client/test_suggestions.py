"""Errors for code written for httpx, aiohttp or requests suggest the right name."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import curlhttp
from curlhttp import exceptions as e
from curlhttp._models.suggestions import TABLE
from curlhttp.testing import Answer, ScriptedEngine
from tests.servers import AppServer

URL = "http://scripted.test/"


def a_client(**settings: Any) -> curlhttp.Client:
    return curlhttp.Client(transport=ScriptedEngine([200] * 9), **settings)


def an_async_client() -> curlhttp.AsyncClient:
    return curlhttp.AsyncClient(transport=ScriptedEngine([200] * 9))


def get_message(call: Callable[..., object], *arguments: Any, **keywords: Any) -> str:
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        call(*arguments, **keywords)
    assert "BaseClient" not in str(caught.value)
    return str(caught.value)


CONSTRUCTED = [
    ({"mounts": {}}, "proxies="),
    ({"event_hooks": {}}, "hooks="),
    ({"connector": None}, "limits=curlhttp.Limits(...)"),
    ({"cookie_jar": None}, "cookies="),
    ({"ssl": False}, "verify=False"),
    ({"app": None}, "ASGITransport"),
    ({"heders": {}}, "did you mean headers=?"),
]


@pytest.mark.parametrize(("keywords", "instead"), CONSTRUCTED)
@pytest.mark.parametrize("make", [curlhttp.Client, curlhttp.AsyncClient])
def test_the_error_for_an_unknown_keyword_of_a_client_suggests_one(
    make: Any, keywords: dict[str, Any], instead: str
) -> None:
    message = get_message(make, **keywords)
    assert message.startswith(f"{make.__name__}() has no keyword {next(iter(keywords))!r}")
    assert instead in message


def test_a_subclass_is_called_by_its_name() -> None:
    class Ours(curlhttp.Client):
        pass

    assert get_message(Ours, proxi="x").startswith("Ours() has no keyword 'proxi'")


def test_the_error_says_that_a_client_takes_keywords() -> None:
    make: Any = curlhttp.Client
    assert (
        get_message(make, URL)
        == "Client() takes only keywords, such as base_url=, headers=, params="
    )


def test_a_type_error_from_within_a_constructor_is_unchanged() -> None:
    with pytest.raises(TypeError, match="auth must be"):
        curlhttp.Client(auth=3)  # type: ignore[arg-type]


ASKED = [
    ({"proxy": "http://p:1"}, "proxies="),
    ({"ssl": False}, "verify=False"),
    ({"raise_for_status": True}, "response.raise_for_status()"),
    ({"extensions": {}}, "timeout="),
    ({"hooks": {}}, "for the client"),
    ({"chunked": True}, "sent with chunked coding"),
    ({"read_bufsize": 1}, "leave it out"),
    ({"time_out": 1}, "did you mean timeout=?"),
]


@pytest.mark.parametrize(("keywords", "instead"), ASKED)
def test_the_error_for_an_unknown_keyword_of_a_request_suggests_one(
    keywords: dict[str, Any], instead: str
) -> None:
    client, other = a_client(), an_async_client()
    message = get_message(client.get, URL, **keywords)
    assert message.startswith(f"a request has no keyword {next(iter(keywords))!r}")
    assert instead in message
    assert get_message(client.stream, "GET", URL, **keywords) == message
    assert get_message(lambda: asyncio.run(other.get(URL, **keywords))) == message


def test_the_drop_in_suggests_its_own_names() -> None:
    get: Any = curlhttp.get
    assert "HTTPAdapter(max_retries=3)" in get_message(get, URL, retry=3)
    assert 'proxies={"http": url' in get_message(get, URL, proxy="x")


def test_the_method_comes_first() -> None:
    secret = "http://user:secret@scripted.test/"
    for wrong in (a_client().request, a_client().stream):
        message = get_message(wrong, secret, "GET")
        assert 'request("GET", url)' in message
        assert "secret" not in message


READ = [
    ("status", "response.status_code"),
    ("iter_lines", "response.text.splitlines()"),
    ("iter_content", "response.iter_bytes(chunk_size)"),
    ("aiter_lines", "response.text.splitlines()"),
    ("real_url", "response.url"),
    ("content_type", 'response.headers["Content-Type"]'),
]


@pytest.mark.parametrize(("name", "instead"), READ)
def test_a_response_says_what_it_has(name: str, instead: str) -> None:
    assert f"write {instead}" in get_message(getattr, a_client().get(URL), name)


def test_an_unknown_name_gets_pythons_own_error() -> None:
    response = a_client().get(URL)
    assert get_message(getattr, response, "stauts_code") == (
        "'Response' object has no attribute 'stauts_code'"
    )
    assert not hasattr(response, "__fspath__")
    assert not hasattr(response, "status")


def test_a_stream_says_how_its_own_colour_reads(app: AppServer) -> None:
    async def read() -> str:
        async with curlhttp.AsyncClient() as client, client.stream("GET", app.url) as response:
            return get_message(getattr, response, "iter_lines")

    with curlhttp.Client() as client, client.stream("GET", app.url) as response:
        assert get_message(getattr, response, "aiter_lines").endswith("write response.iter_lines()")
    assert asyncio.run(read()).endswith("write response.aiter_lines()")


def test_with_and_async_with_are_not_mixed_up() -> None:
    async def enter(manager: Any) -> None:
        async with manager:
            pass

    def plain(manager: Any) -> None:
        with manager:
            pass

    assert "AsyncClient" in get_message(lambda: asyncio.run(enter(a_client())))
    assert "async with" in get_message(plain, an_async_client())
    assert "async with" in get_message(plain, an_async_client().stream("GET", URL))
    stream: Any = an_async_client().stream("GET", URL)
    assert "async with client.stream" in get_message(lambda: stream.status_code)
    stream._sent.close()


@pytest.mark.parametrize(
    ("name", "instead"),
    [("ClientSession", "AsyncClient"), ("TimeoutException", "Timeout"), ("aget", "AsyncClient")],
)
def test_the_error_for_a_name_of_another_library_suggests_ours(name: str, instead: str) -> None:
    assert instead in get_message(getattr, curlhttp, name)


def test_so_do_names_of_exceptions() -> None:
    assert "curlhttp.HTTPError" in get_message(getattr, e, "HTTPStatusError")
    assert get_message(getattr, e, "Nonsense").endswith("has no attribute 'Nonsense'")


def test_settings_say_what_they_take() -> None:
    make, limits = (curlhttp.Timeout, curlhttp.Limits)
    assert "write Timeout(connect=1, read=5.0)" in get_message(make, 5.0, connect=1)
    assert "write read=" in get_message(make, sock_read=3)
    assert "max_connections=" in get_message(limits, limit=3)
    assert "only keywords" in get_message(limits, 3)
    assert "a timeout is a number of seconds" in get_message(a_client().get, URL, timeout=object())


def keywords_of(*functions: Callable[..., object]) -> set[str]:
    names = {name for each in functions for name in inspect.signature(each).parameters}
    return names - {"self", "kwargs", "method", "url", "str_or_url"}


def test_each_keyword_of_httpx_is_taken_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    ours = keywords_of(curlhttp.Client)
    assert keywords_of(httpx.Client, httpx.AsyncClient) - ours - set(TABLE["client"]) == set()
    verbs = keywords_of(curlhttp.Client.build_request) | {"proxies", "verify", "cert"}
    assert keywords_of(httpx.Client.request) - verbs - set(TABLE["request"]) == set()


def test_each_keyword_of_aiohttp_is_taken_or_explained() -> None:
    aiohttp = pytest.importorskip("aiohttp", reason="compares with aiohttp")
    ours = keywords_of(curlhttp.Client)
    assert keywords_of(aiohttp.ClientSession) - ours - set(TABLE["client"]) == set()
    verbs = keywords_of(curlhttp.Client.build_request)
    found = keywords_of(aiohttp.ClientSession._request)
    assert found - verbs - set(TABLE["request"]) == set()
    names = {name for name in aiohttp.__all__ if name.endswith(("Error", "Timeout", "Session"))}
    own_servers = {"WSMessageTypeError", "UploadAbortedError", "NonHttpUrlRedirectClientError"}
    own_servers |= {"RedirectClientError", "InvalidUrlRedirectClientError", "NonHttpUrlClientError"}
    assert names - set(curlhttp.__all__) - set(TABLE["module"]) - own_servers == set()


KEYWORDS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (curlhttp.RetryPolicy, {"status_forcelist": [500]}, "write statuses=[502, 503, 504]"),
    (curlhttp.RetryPolicy, {"total": 3}, "write max_retries="),
    (curlhttp.RetryPolicy, {"backoff_factor": 1}, "backoff_strategy=curlhttp.FullJitterBackoff("),
    (curlhttp.RetryPolicy, {"max_retires": 1}, "did you mean max_retries=?"),
    (curlhttp.FullJitterBackoff, {"bas": 1}, "did you mean base=?"),
    (curlhttp.RetryBudget, {"min_retries_per_second": 1}, "write reserve="),
    (curlhttp.Timeout, {"connect_timeout": 1}, "write connect="),
    (curlhttp.Limits, {"max_keepalive": 5}, "write max_keepalive_connections="),
    (curlhttp.CircuitBreaker, {"fail_max": 5}, "write failure_threshold="),
    (curlhttp.CircuitBreaker, {"failure_treshold": 5}, "did you mean failure_threshold=?"),
    (curlhttp.RateLimit, {"max_rate": 5}, "RateLimit(100 / 60) for 100 per minute"),
    (curlhttp.ConcurrencyLimit, {"max_concurrency": 5}, "write limit="),
    (curlhttp.AdaptiveLimit, {"maximun": 5}, "did you mean maximum=?"),
    (curlhttp.Hedge, {"delay": 0.3}, 'write after=0.3 or after="p95"'),
    (curlhttp.Endpoints, {"hosts": []}, "write urls="),
    (curlhttp.PublicOnly, {"alow": []}, "did you mean allow=?"),
    (curlhttp.BasicAuth, {"user": "x", "password": "y"}, "write username="),
    (curlhttp.DigestAuth, {"user": "x", "password": "y"}, "write username="),
    (curlhttp.BearerAuth, {"tokn": "x"}, "did you mean token=?"),
    (curlhttp.OAuth2ClientCredentials, {"clientid": "x"}, "did you mean client_id=?"),
    (curlhttp.Cache, {"expire_after": 5}, "the response headers say how long"),
    (curlhttp.Record, {"mod": "all"}, "did you mean mode=?"),
    (curlhttp.JSON, {"load": len}, "did you mean loads=?"),
    (curlhttp.TLS, {"verfy": True}, "did you mean verify=?"),
    (curlhttp.Proxy, {"auth": ("x", "y")}, "write username= and password="),
    (curlhttp.ASGITransport, {"apps": 1}, "did you mean app=?"),
    (curlhttp.WSGITransport, {"apps": 1}, "did you mean app=?"),
]


@pytest.mark.parametrize(("make", "keywords", "instead"), KEYWORDS)
def test_the_error_for_an_unknown_keyword_of_a_setting_suggests_one(
    make: Any, keywords: dict[str, Any], instead: str
) -> None:
    message = get_message(make, **keywords)
    assert message.startswith(f"{make.__name__}() has no keyword {next(iter(keywords))!r}; ")
    assert instead in message


def test_the_error_for_too_many_or_too_few_arguments_of_a_setting_names_it() -> None:
    policy, limit = (curlhttp.RetryPolicy, curlhttp.RateLimit)
    assert get_message(policy, 3, 0.5) == (
        "RetryPolicy() takes only max_retries without a keyword; the others need keywords, such as "
        "backoff_strategy=, statuses=, methods="
    )
    assert get_message(limit) == "RateLimit() is missing 1 required positional argument: 'rate'"


def test_the_signature_of_a_setting_is_its_own() -> None:
    assert list(inspect.signature(curlhttp.RateLimit).parameters) == [
        *("rate", "burst", "per", "store"),
    ]
    assert inspect.signature(curlhttp.RetryPolicy).parameters["max_retries"].default == 2
    assert pickle.loads(pickle.dumps(curlhttp.Hedge(0.3))) == curlhttp.Hedge(0.3)


METHOD_KEYWORDS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("map", ([URL],), {"max_workers": 3}, "write concurrency="),
    ("map", ([URL],), {"concurency": 3}, "did you mean concurrency=?"),
    ("map", ([URL],), {"time_out": 3}, "did you mean timeout=?"),
    ("download", (URL, "never-written"), {"chunk_size": 3}, "pieces are written as they arrive"),
    ("download", (URL, "never-written"), {"cheksum": "x"}, "did you mean checksum=?"),
    ("sse", (URL,), {"max_retries": 3}, "write reconnect=3"),
    ("sse", (URL,), {"last_event_di": "3"}, "did you mean last_event_id=?"),
    ("sse", (URL,), {"proxy": "http://p:1"}, "write proxies="),
    ("websocket", (URL,), {"heartbeat": 3}, "write ping_interval="),
    ("websocket", (URL,), {"ping_intervall": 3}, "did you mean ping_interval=?"),
]


@pytest.mark.parametrize(("method", "arguments", "keywords", "instead"), METHOD_KEYWORDS)
def test_the_error_for_an_unknown_keyword_of_a_method_suggests_one_of_its_own(
    method: str, arguments: tuple[Any, ...], keywords: dict[str, Any], instead: str
) -> None:
    async def call() -> object:
        async with an_async_client() as client:
            made = getattr(client, method)(*arguments, **keywords)
            return await made if method in ("download", "websocket") else made

    message = get_message(getattr(a_client(), method), *arguments, **keywords)
    assert message.startswith(f"{method}() has no keyword {next(iter(keywords))!r}; ")
    assert instead in message
    assert get_message(lambda: asyncio.run(call())) == message


def test_each_keyword_of_urllib3s_retry_is_taken_or_explained() -> None:
    from urllib3 import Retry

    ours = keywords_of(curlhttp.RetryPolicy)
    unneeded = {"history"}  # internal
    assert keywords_of(Retry) - ours - set(TABLE["RetryPolicy"]) - unneeded == set()


def test_each_keyword_of_the_settings_of_httpx_is_taken_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    limits, proxy = keywords_of(httpx.Limits), keywords_of(httpx.Proxy)
    assert limits - keywords_of(curlhttp.Limits) - set(TABLE["Limits"]) == set()
    assert proxy - keywords_of(curlhttp.Proxy) - set(TABLE["Proxy"]) == set()


def test_each_keyword_of_aiohttps_websocket_is_taken_or_explained() -> None:
    aiohttp = pytest.importorskip("aiohttp", reason="compares with aiohttp")
    ours = keywords_of(curlhttp.Client.websocket) | set(TABLE["websocket"]) | set(TABLE["request"])
    found = keywords_of(aiohttp.ClientSession._ws_connect)
    assert found - ours == set()
    timeouts = {field.name for field in aiohttp.ClientTimeout.__attrs_attrs__}
    limits = {"total", "connect", "read", "write", "pool"}
    assert timeouts - limits - set(TABLE["Timeout"]) == set()


def test_each_attribute_of_a_response_of_httpx_is_there_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    response = a_client().get(URL)
    public = {name for name in dir(httpx.Response) if not name.startswith("_")}
    missing = {name for name in public if not hasattr(response, name)}
    assert missing - set(TABLE["response"]) == set()


def test_each_error_of_httpx_is_there_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    errors = {
        name
        for name in httpx.__all__
        if isinstance(getattr(httpx, name), type) and issubclass(getattr(httpx, name), Exception)
    }
    assert errors - set(curlhttp.__all__) - set(TABLE["module"]) == set()


def test_nothing_in_the_table_is_there_in_truth() -> None:
    ours = keywords_of(curlhttp.Client)
    assert ours & set(TABLE["client"]) == set()
    assert keywords_of(curlhttp.Client.build_request) & set(TABLE["request"]) == set()
    response = a_client().get(URL)
    assert {name for name in TABLE["response"] if hasattr(response, name)} == set()
    assert set(curlhttp.__all__) & set(TABLE["module"]) == set()
    for name in ("map", "download", "sse", "websocket"):
        assert keywords_of(getattr(curlhttp.Client, name)) & set(TABLE[name]) == set()
    settings = {name for name in TABLE if name[0].isupper()} - {"Timeout"}  # not a class of its own
    for name in settings:
        assert keywords_of(getattr(curlhttp, name)) & set(TABLE[name]) == set()


def test_the_words_are_loaded_by_an_error_alone() -> None:
    code = (
        "import sys, curlhttp\n"
        "from curlhttp.testing import Answer, ScriptedEngine\n"
        "with curlhttp.Client(transport=ScriptedEngine([200])) as client:\n"
        "    client.get('http://x/', timeout=3).text\n"
        "assert 'difflib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_headers_as_text_and_limits_of_another_library_are_refused() -> None:
    message = get_message(a_client().get, URL, headers="Authorization: secret")
    assert message.startswith("headers are a mapping or pairs")
    assert "secret" not in message
    assert "curlhttp.Limits" in get_message(a_client, limits=10)


def taken_by(client: curlhttp.Client) -> list[tuple[Callable[..., object], str, str]]:
    def mapped(**options: Any) -> list[object]:
        return list(client.map([URL], **options))

    def downloaded(**options: Any) -> object:
        return client.download(URL, "never-written", **options)

    def connected(**options: Any) -> object:
        return client.websocket(URL, **options)

    return [
        (mapped, "map()", "build_request"),
        (downloaded, "download()", "stream()"),
        (connected, "websocket()", "over the WebSocket"),
    ]


@pytest.mark.parametrize("number", range(3))
def test_the_error_for_json_without_a_body_names_the_right_method(number: int) -> None:
    with a_client() as client:
        call, subject, other = taken_by(client)[number]
        refused = get_message(call, json={})
        assert refused.startswith(f"{subject} takes no json")
        assert other in refused
        assert get_message(call, proxy="http://p:1").startswith(
            f"{subject} has no keyword 'proxy'; wr"
        )
        assert "did you mean timeout=?" in get_message(call, timeuot=1)


def test_the_error_for_a_setting_of_the_client_on_a_request_names_the_client() -> None:
    with a_client() as client:
        for name in ("guard", "hedge", "rate_limit", "max_connections"):
            assert get_message(client.get, URL, **{name: 1}).endswith(
                f"write {name}= of the client"
            )


WRONG = [
    ({"verify": None}, "verify must be True, False, a path"),
    ({"verify": 3}, "not int"),
    ({"cert": 3}, "cert must be a path"),
    ({"params": 3}, "params are a mapping, pairs or text, not int"),
    ({"headers": 3}, "headers are a mapping or pairs"),
    ({"cookies": "secret"}, "cookies are a mapping, pairs or a jar, not str"),
    ({"cookies": 3}, "not int"),
    ({"files": 3}, "files are a mapping or pairs, not int"),
    ({"files": {"a": ()}}, "(name, file[, type[, headers]])"),
    ({"proxies": 3}, "proxies must be a URL or a mapping"),
    ({"timeout": "3"}, "or None, not str"),
    ({"timeout": (1, "3")}, "the read timeout must be a number of seconds or None, not '3'"),
]


@pytest.mark.parametrize(("keywords", "expected"), WRONG)
def test_the_error_for_a_wrong_type_names_the_right_ones(
    keywords: dict[str, Any], expected: str
) -> None:
    with a_client() as client:
        message = get_message(client.post, URL, **keywords)
    assert expected in message
    assert "secret" not in message


def test_clients_say_which_hooks_and_urls_they_take() -> None:
    assert "hooks must be a mapping by event, not int" in get_message(a_client, hooks=3)
    with a_client() as client:
        assert "the URL is None: give text" in get_message(client.get, None)
        assert "it must begin with http://" in get_message(client.get, "localhost:8000/x")


def test_the_error_for_a_redirect_loop_names_the_last_url() -> None:
    away = Answer(302, headers={"Location": "/again"})
    with (
        curlhttp.Client(transport=ScriptedEngine([away] * 3), max_redirects=2) as client,
        pytest.raises(curlhttp.TooManyRedirects) as caught,
    ):
        client.get(URL)
    assert "GET http://scripted.test/again" in str(caught.value)
    assert "max_redirects= of the client" in str(caught.value)


# --- values of the wrong kind ---


WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"breaker": 5}, r"breaker must be a curlhttp\.CircuitBreaker, such as .*, not 5"),
    ({"rate_limit": 5}, r"rate_limit must be a curlhttp\.RateLimit, such as .*\(50\), not 5"),
    ({"concurrency_limit": 5}, r"concurrency_limit must be a curlhttp\.ConcurrencyLimit, such as"),
    ({"hedge": 0.3}, r"hedge must be a curlhttp\.Hedge, such as curlhttp\.Hedge\(after=0\.3\)"),
    ({"breaker": curlhttp.CircuitBreaker}, r"not <class '.*CircuitBreaker'>"),
    ({"middleware": print}, r"middleware must be a list of functions, such as middleware=\[print"),
    ({"attempt_middleware": 5}, "attempt_middleware must be a list of functions"),
    ({"middleware": ["log"]}, "middleware must contain functions, not str"),
    ({"hooks": {"response": 5}}, "the hook 'response' must be a function, or a list"),
    ({"max_response_size": "1M"}, "max_response_size must be a number of bytes, not '1M'"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG_SETTINGS)
@pytest.mark.parametrize("make", [curlhttp.Client, curlhttp.AsyncClient])
def test_the_error_for_a_wrong_setting_shows_a_right_one(
    make: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        make(**settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": ["X-Key: secret"]}, "headers are a mapping or pairs, .* not a str"),
        (
            {"files": [b"a file"]},
            "files are a mapping or pairs of field name and file, not of bytes",
        ),
    ],
)
def test_the_error_for_a_list_without_pairs_shows_what_is_needed(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        a_client().post(URL, **options)
    assert "secret" not in str(caught.value)


def test_the_url_none_is_refused_with_a_base_url_too() -> None:
    with pytest.raises(e.MissingSchema, match="the URL is None"):
        a_client(base_url=URL).get(None)  # type: ignore[arg-type]


def test_a_relative_url_may_be_an_object_of_another_library() -> None:
    class Path:
        def __str__(self) -> str:
            return "/users"

    url: Any = Path()
    assert a_client(base_url=URL).get(url).url == f"{URL}users"


def test_the_error_for_the_url_of_a_websocket_names_the_method() -> None:
    with pytest.raises(e.InvalidSchema, match=r"websocket\(\) opens ws:// and wss://"):
        a_client().get("ws://scripted.test/")


def test_the_error_for_a_middleware_that_is_not_async_says_so() -> None:
    def forgets_to_return(request: Any, send: Any) -> None: ...

    def responds(request: Any, send: Any) -> curlhttp.Response:
        return curlhttp.Response.of(request, content="hello")

    for function in (forgets_to_return, responds):
        with pytest.raises(TypeError, match=f"must be `async def`, but .*{function.__name__}"):
            a_client(middleware=[function]).get(URL)


def test_the_errors_for_blocking_loops_over_async_results_name_async_for() -> None:
    async def ask() -> None:
        async with an_async_client() as client:
            results: Any = client.map([URL])
            with pytest.raises(TypeError, match=r"map\(\) of AsyncClient needs `async for`"):
                list(results)
            events: Any = client.sse(URL)
            with pytest.raises(TypeError, match=r"sse\(\) of AsyncClient needs `async for`"):
                list(events)
            stream: Any = client.stream("GET", URL)
            with pytest.raises(TypeError, match=r"write `async with client\.stream"):
                type(stream).__aiter__(stream)
            async with client.stream("GET", URL) as response:
                with pytest.raises(RuntimeError, match=r"not read yet: await response\.aread\(\)"):
                    response.json()

    asyncio.run(ask())
