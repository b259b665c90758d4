"""Errors for code written for httpx, aiohttp or requests suggest the right name."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import io
import math
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable
from configparser import ConfigParser, ExtendedInterpolation
from http.cookiejar import MozillaCookieJar
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import curlhttp
from curlhttp import exceptions as e
from curlhttp.testing import Answer, ScriptedEngine
from tests.servers import AppServer
from tests.support.colours import AnyClient

URL = "http://scripted.test/"
TABLES = ConfigParser(delimiters=("=",), interpolation=ExtendedInterpolation())
TABLES.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are
TABLES.read(Path(curlhttp.__file__).parent.rglob("suggestions.ini"), "utf-8")


def get_table(context: str) -> dict[str, str]:
    """Return what to write here for names of other libraries."""
    if context not in TABLES:
        return {}
    section = dict(TABLES[context])
    found = get_table(section.pop("include")) if "include" in section else {}
    for names, instead in section.items():
        found.update(dict.fromkeys(names.split(", "), instead))
    return found


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
    ({"max_retries": 2}, "write retry=3"),
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
    ({"extensions": {}}, "timeout="),
    ({"max_retries": 2}, "write retry=3"),
    ({"hooks": {}}, "for the client"),
    ({"robots": "my-crawler"}, "write robots= of the client"),
    ({"chunked": True}, "sent with chunked coding"),
    ({"read_bufsize": 1}, "leave it out"),
    ({"time_out": 1}, "did you mean timeout=?"),
    ({"raise_for_statuses": True}, "did you mean raise_for_status=?"),
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
    get: Any = curlhttp.requests.get
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


STREAMS = [curlhttp.StreamedResponse, curlhttp.AsyncStreamedResponse]
OF_AN_INSTANCE = {"status_code", "request", "default_encoding"}
OF_ONE_COLOUR = {
    *("read", "aread", "close", "aclose"),
    *(f"{a}iter_{kind}" for a in ("", "a") for kind in ("bytes", "raw", "text", "lines")),
}


def test_the_hints_of_a_stream_name_what_streams_have(app: AppServer) -> None:
    with curlhttp.Client() as client, client.stream("GET", app.url) as response:
        hints = {
            name: get_message(getattr, response, name)
            for name in get_table("streamed_response")
            if not hasattr(response, name)
        }
        read = "response.iter_raw(), or response.aiter_raw() with an AsyncClient"
        assert hints["raw"].endswith(f"write {read}")
        assert hints["num_bytes_downloaded"].endswith(f"len(piece) in a loop over {read}")
    for name, hint in hints.items():
        assert "client.stream" not in hint, name
        for each in set(re.findall(r"response\.(\w+)", hint)) - OF_AN_INSTANCE:
            assert any(hasattr(kind, each) for kind in STREAMS), (name, each)


@pytest.mark.parametrize("kind", STREAMS)
def test_each_attribute_of_a_stream_of_httpx_is_there_or_explained(kind: type) -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    public = {name for name in dir(httpx.Response) if not name.startswith("_")}
    missing = {name for name in public if not hasattr(kind, name)}
    missing -= OF_ONE_COLOUR | OF_AN_INSTANCE
    assert missing - set(get_table("streamed_response")) == set()


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
    [
        ("ClientSession", "AsyncClient"),
        ("TimeoutError", "TimeoutException"),
        ("aget", "AsyncClient"),
    ],
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
    assert keywords_of(httpx.Client, httpx.AsyncClient) - ours - set(get_table("client")) == set()
    verbs = keywords_of(curlhttp.Client.build_request) | {"proxies", "verify", "cert"}
    assert keywords_of(httpx.Client.request) - verbs - set(get_table("request")) == set()


def test_each_keyword_of_aiohttp_is_taken_or_explained() -> None:
    aiohttp = pytest.importorskip("aiohttp", reason="compares with aiohttp")
    ours = keywords_of(curlhttp.Client)
    assert keywords_of(aiohttp.ClientSession) - ours - set(get_table("client")) == set()
    verbs = keywords_of(curlhttp.Client.build_request)
    found = keywords_of(aiohttp.ClientSession._request)
    assert found - verbs - set(get_table("request")) == set()
    names = {name for name in aiohttp.__all__ if name.endswith(("Error", "Timeout", "Session"))}
    own_servers = {"UploadAbortedError"}
    assert names - set(curlhttp.__all__) - set(get_table("module")) - own_servers == set()


def public(kind: object) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_each_attribute_of_a_client_of_httpx_is_there_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    for ours, theirs in (
        (a_client(), httpx.Client),
        (an_async_client(), httpx.AsyncClient),
    ):
        assert public(theirs) - public(ours) - set(get_table("client_object")) == set()


def test_each_attribute_of_aiohttps_classes_is_there_or_explained() -> None:
    aiohttp = pytest.importorskip("aiohttp", reason="compares with aiohttp")
    found = public(aiohttp.ClientSession) - public(an_async_client()) - {"ATTRS"}
    assert found - set(get_table("client_object")) == set()
    found = public(aiohttp.ClientResponse) - public(a_client().get(URL)) - {"ATTRS"}
    assert found - set(get_table("response")) == set()
    theirs = public(aiohttp.ClientWebSocketResponse) - {"client_notakeover"}
    found = theirs - public(curlhttp.types.AsyncWebSocket)
    assert found - set(get_table("websocket_object")) == set()


ATTRIBUTES = [
    ("client_object", curlhttp.Client),
    ("client_object", curlhttp.AsyncClient),
    ("websocket_object", curlhttp.types.WebSocket),
    ("websocket_object", curlhttp.types.AsyncWebSocket),
    ("cookies", curlhttp.Cookies),
    ("headers", curlhttp.Headers),
    ("response", curlhttp.Response),
]


@pytest.mark.parametrize(("section", "kind"), ATTRIBUTES)
def test_the_error_for_an_attribute_suggests_one(section: str, kind: Any) -> None:
    table = get_table(section)
    hidden = {
        name
        for name in dir(kind)
        if type(inspect.getattr_static(kind, name)).__name__ == "_NotHere"
    }
    assert hidden == set(table)
    instance = kind.__new__(kind)
    for name in table:
        message = get_message(getattr, instance, name)
        assert message.startswith(f"{kind.__name__!r} object has no attribute {name!r}; ")
        assert re.search(r"; (write|you need none here|leave it out)", message)
        assert get_message(getattr, kind, name) == message  # of the class, too
        assert not hasattr(instance, name)
        assert getattr(instance, name, 3) == 3
    assert public(instance).isdisjoint(table)


def test_dir_shows_what_a_subclass_has_and_computes_nothing() -> None:
    response = curlhttp.requests.Response()
    assert {"raw", "iter_content", "apparent_encoding"} <= set(dir(response))
    assert response.raw is None  # apparent_encoding, which reads the body, was not computed
    assert set(dir(response)).isdisjoint({"body", "aiter_lines", "readline"})


def test_a_subclass_may_have_such_an_attribute() -> None:
    class Ours(curlhttp.Client):
        closed = False

        def __init__(self) -> None:
            super().__init__()
            self.loop = "mine"

    with Ours() as client:
        assert (client.closed, client.loop) == (False, "mine")
        assert {"closed", "loop"} <= public(client)
        assert "ws_connect" not in public(client)


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
    (curlhttp.RateLimit, {"max_rate": 5}, "RateLimit(10 / 60, burst=10) for 10 per minute"),
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
    assert get_message(limit, 10, 60) == (
        "RateLimit() takes only rate without a keyword; the others need keywords, such as burst=, "
        "per=, store=: RateLimit(10 / 60, burst=10) for 10 per minute"
    )
    assert get_message(curlhttp.ConcurrencyLimit, 10, 60) == (
        "ConcurrencyLimit() takes only limit without a keyword; the others need keywords, such as "
        "per=, store="
    )
    assert get_message(curlhttp.RetryBudget, 0.2, 10).startswith(
        "RetryBudget() takes only ratio without a keyword; the others need keywords, such as "
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
    assert keywords_of(Retry) - ours - set(get_table("RetryPolicy")) - unneeded == set()


def test_each_keyword_of_the_settings_of_httpx_is_taken_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    limits, proxy = keywords_of(httpx.Limits), keywords_of(httpx.Proxy)
    assert limits - keywords_of(curlhttp.Limits) - set(get_table("Limits")) == set()
    assert proxy - keywords_of(curlhttp.Proxy) - set(get_table("Proxy")) == set()


def test_each_keyword_of_aiohttps_websocket_is_taken_or_explained() -> None:
    aiohttp = pytest.importorskip("aiohttp", reason="compares with aiohttp")
    ours = (
        keywords_of(curlhttp.Client.websocket)
        | set(get_table("websocket"))
        | set(get_table("request"))
    )
    found = keywords_of(aiohttp.ClientSession._ws_connect)
    assert found - ours == set()
    timeouts = {field.name for field in aiohttp.ClientTimeout.__attrs_attrs__}
    limits = {"total", "connect", "read", "write", "pool"}
    assert timeouts - limits - set(get_table("Timeout")) == set()


def test_each_attribute_of_a_response_of_httpx_is_there_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    response = a_client().get(URL)
    public = {name for name in dir(httpx.Response) if not name.startswith("_")}
    missing = {name for name in public if not hasattr(response, name)}
    assert missing - set(get_table("response")) == set()


def test_each_error_of_httpx_is_there_or_explained() -> None:
    httpx = pytest.importorskip("httpx", reason="compares with httpx")
    errors = {
        name
        for name in httpx.__all__
        if isinstance(getattr(httpx, name), type) and issubclass(getattr(httpx, name), Exception)
    }
    assert errors - set(curlhttp.__all__) - set(get_table("module")) == set()


def test_nothing_in_the_table_is_there_in_truth() -> None:
    ours = keywords_of(curlhttp.Client)
    assert ours & set(get_table("client")) == set()
    assert keywords_of(curlhttp.Client.build_request) & set(get_table("request")) == set()
    response = a_client().get(URL)
    assert {name for name in get_table("response") if hasattr(response, name)} == set()
    assert set(curlhttp.__all__) & set(get_table("module")) == set()
    for name in ("map", "download", "sse", "websocket"):
        assert keywords_of(getattr(curlhttp.Client, name)) & set(get_table(name)) == set()
    settings = {name for name in TABLES.sections() if name[0].isupper()} - {
        "Timeout"
    }  # not a class of its own
    for name in settings:
        assert keywords_of(getattr(curlhttp, name)) & set(get_table(name)) == set()


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
    ({"proxies": 3}, "proxies must be a URL, a Proxy or a mapping"),
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
    ({"proxies": {"http": 5}}, r"proxies\['http'\] must be a URL, a Proxy or None, not int"),
    ({"cookies": ["a"]}, "cookies are a mapping, pairs or a jar, such as"),
    ({"hsts": 5}, "hsts must be a str or an os.PathLike, not 5"),
    (
        {"verify": ["ca.pem"]},
        "verify must be True, False, a path, PEM bytes .*not list",
    ),
    ({"cert": ["a.pem", "b.pem"]}, r"cert must be a path, PEM bytes, or \(cert, key.*, not list"),
    ({"hooks": {"response": [print, 5]}}, "the hook 'response' must be functions, not int"),
    ({"limits": curlhttp.Limits}, r"limits must be a curlhttp\.Limits, such as"),
    ({"limits": 10}, r"such as curlhttp\.Limits\(max_connections=10\), not 10"),
    ({"hedge": curlhttp.RetryPolicy()}, r"hedge must be a curlhttp\.Hedge"),
    ({"retry": curlhttp.RetryPolicy}, r"retry must be a number of retries, a curlhttp\.RetryPol"),
    ({"retry": "3"}, "retry must be a number of retries"),
    ({"retry": {}}, "retry must be a number of retries"),
    ({"auth": curlhttp.BearerAuth}, r"auth must be an object, not a class: write auth=BearerAuth"),
    ({"auth": ["user", "secret"]}, r"write a tuple: auth=\(user, password\)"),
    ({"transport": ScriptedEngine}, r"not a class: write transport=ScriptedEngine\(\.\.\.\)"),
    ({"base_url": ["http://a.test", "http://b.test"]}, r"write base_url=curlhttp\.Endpoints\(\["),
    ({"base_url": curlhttp.Endpoints}, r"write base_url=curlhttp\.Endpoints\(\["),
    ({"max_redirects": "x"}, "max_redirects must be a whole number from 0 on, not 'x'"),
    ({"max_redirects": None}, "max_redirects must be a whole number from 0 on, not None"),
    ({"follow_redirects": "no"}, "follow_redirects must be True or False, not 'no'"),
    ({"trust_env": "false"}, "trust_env must be True or False, not 'false'"),
    ({"certificates": 1}, "certificates must be True or False, not 1"),
    ({"raise_for_status": print}, "raise_for_status must be True or False, not <built-in"),
    ({"max_connections": "5"}, "max_connections must be a whole number from 1 on, not '5'"),
    ({"max_connections": None}, "max_connections must be a whole number from 1 on, not None"),
    ({"keepalive_expiry": "5"}, "keepalive_expiry must be a number of seconds from 0 on, not '5'"),
    ({"happy_eyeballs_timeout": "1"}, "must be a number of seconds from 0 to 3600, or None"),
    ({"max_send_rate": "1M"}, "max_send_rate must be a number of bytes per second from 1 on"),
    ({"sensitive_headers": "X-Key"}, r"must be a list of names, such as \[\"X-Key\"\]"),
    ({"sensitive_headers": [1]}, "sensitive_headers must be a list of names"),
    ({"uds": 5}, "uds must be a str or an os.PathLike, not 5"),
    ({"params": 5}, "params are a mapping, pairs or text, not int"),
    ({"params": {"a": {"b": 1}}}, r"params\['a'\] contains a dict"),
    ({"breaker": 5}, r"breaker must be a curlhttp\.CircuitBreaker, such as .*, not 5"),
    ({"rate_limit": 5}, r"rate_limit must be a curlhttp\.RateLimit, such as .*\(50\), not 5"),
    ({"concurrency_limit": 5}, r"concurrency_limit must be a curlhttp\.ConcurrencyLimit, such as"),
    ({"hedge": 0.3}, r"hedge must be a curlhttp\.Hedge, such as curlhttp\.Hedge\(after=0\.3\)"),
    ({"breaker": curlhttp.CircuitBreaker}, r"not <class '.*CircuitBreaker'>"),
    ({"middleware": print}, r"middleware must be a list of functions, such as middleware=\[print"),
    ({"attempt_middleware": 5}, "attempt_middleware must be a list of functions"),
    ({"middleware": ["log"]}, "middleware must contain functions, not str"),
    ({"hooks": {"response": 5}}, "the hook 'response' must be a function, or a list"),
    ({"max_response_size": "1M"}, "max_response_size must be a whole number of bytes .*, not '1M'"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG_SETTINGS)
@pytest.mark.parametrize("make", [curlhttp.Client, curlhttp.AsyncClient])
def test_the_error_for_a_wrong_setting_shows_a_right_one(
    make: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        make(**settings)
    assert "secret" not in str(caught.value)


WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"base_url": "https://a.test/?key=secret"}, r"base_url cannot have a query, pass params=: 'h"),
    ({"timeout": 1e30}, r"must be a positive, finite number, not 1e\+30; None means no limit"),
    ({"proxy": "ftp://user:secret@p:1"}, "a proxy URL must start with one of http, https, socks4"),
    ({"proxies": {"https": "http://p:x"}}, "the proxy URL has a bad host or port"),
    ({"max_redirects": -1}, "max_redirects must be a whole number from 0 on, not -1"),
    ({"max_connections": 0}, "max_connections must be a whole number from 1 on, not 0"),
    ({"max_connections": 1.5}, "max_connections must be a whole number from 1 on, not 1.5"),
    ({"keepalive_expiry": math.inf}, "must be a finite number of seconds from 0 on, not inf"),
    ({"dns_ttl": 1e30}, "dns_ttl must be a number of seconds from 0 on, not 1e[+]30"),
    ({"interface": 5}, "interface must be the name of a network interface, not 5"),
    ({"local_address": 5}, "local_address must be an IP address of this machine, not 5"),
    ({"retry": -1}, "max_retries must be a whole number from 0 on, not -1"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG_VALUES)
@pytest.mark.parametrize("make", [curlhttp.Client, curlhttp.AsyncClient])
def test_a_setting_out_of_range_is_refused_at_once(
    make: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(**settings)
    assert "secret" not in str(caught.value)


def make_rate_limit(rate: Any = 5, **options: Any) -> curlhttp.RateLimit:
    return curlhttp.RateLimit(rate, **options)


WRONG_POLICIES: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (curlhttp.RetryPolicy, {"backoff_strategy": 0.5}, r"FullJitterBackoff\(base=0.5\), not 0.5"),
    (curlhttp.RetryPolicy, {"backoff_strategy": curlhttp.FullJitterBackoff}, "an object with a me"),
    (curlhttp.RetryPolicy, {"backoff_strategy": None}, "must be an object with a method delays"),
    (curlhttp.RetryPolicy, {"budget": 0.2}, r"budget must be a curlhttp.RetryBudget"),
    (curlhttp.RetryPolicy, {"budget": curlhttp.RetryBudget}, r"budget must be a curlhttp.Retry"),
    (curlhttp.RetryPolicy, {"random": 5}, r"random must be a random.Random"),
    (
        curlhttp.RetryPolicy,
        {"statuses": 503},
        r"statuses must be a list of status codes, .*not 503",
    ),
    (
        curlhttp.RetryPolicy,
        {"statuses": ["503"]},
        "statuses must be a list of status codes.* of str",
    ),
    (curlhttp.RetryPolicy, {"methods": "GET"}, r"methods must be a list of names, .* not 'GET'"),
    (curlhttp.RetryPolicy, {"methods": [b"GET"]}, "methods must be a list of names"),
    (
        curlhttp.RetryPolicy,
        {"retry_after_max": "60"},
        "retry_after_max must be a number of seconds",
    ),
    (curlhttp.RetryPolicy, {"retry_non_idempotent": "no"}, "must be True or False, not 'no'"),
    (curlhttp.FullJitterBackoff, {"base": "1"}, "base must be a number of seconds from 0 on"),
    (curlhttp.ExponentialBackoff, {"factor": True}, "factor must be a number from 1 on, not True"),
    (curlhttp.DecorrelatedJitterBackoff, {"max_backoff": None}, "max_backoff must be a number of"),
    (curlhttp.RetryBudget, {"ratio": "20%"}, "ratio must be a number from 0 on, not '20%'"),
    (curlhttp.RetryBudget, {"store": "redis://localhost"}, r"store must be a curlhttp.redis.Redis"),
    (
        curlhttp.CircuitBreaker,
        {"recovery_timeout": "30"},
        "must be a number of seconds above 0, not",
    ),
    (curlhttp.CircuitBreaker, {"recovery_timeout": True}, "recovery_timeout must be a number of s"),
    (
        curlhttp.CircuitBreaker,
        {"failure_rate": "50%"},
        "a number above 0 and at most 1, or None, no",
    ),
    (curlhttp.CircuitBreaker, {"failure_threshold": "5"}, "must be a whole number from 1 on, or N"),
    (
        curlhttp.CircuitBreaker,
        {"minimum_calls": "5"},
        "minimum_calls must be a whole number from 1",
    ),
    (curlhttp.CircuitBreaker, {"failure_statuses": 500}, "must be a list of status codes"),
    (curlhttp.CircuitBreaker, {"on_transition": "log"}, "on_transition must be a function"),
    (curlhttp.CircuitBreaker, {"count_tls": "no"}, "count_tls must be True or False"),
    (curlhttp.CircuitBreaker, {"max_origins": "9"}, "max_origins must be a whole number from 1 on"),
    (make_rate_limit, {"rate": "5/s"}, r"requests per second: RateLimit\(5\), or .* not '5/s'"),
    (make_rate_limit, {"rate": (5, 60)}, r"RateLimit\(10 / 60, burst=10\) for 10 per minute"),
    (make_rate_limit, {"burst": "5"}, "burst must be a whole number from 1 on, not '5'"),
    (make_rate_limit, {"store": "redis://localhost"}, r"such as curlhttp.redis.RedisStore"),
    (curlhttp.ConcurrencyLimit, {"limit": "5"}, "limit must be a whole number from 1 on, not '5'"),
    (curlhttp.Hedge, {"after": None}, "after must be a number of seconds from 0 on, not None"),
    (curlhttp.Hedge, {"max": "1"}, "max must be a whole number from 1 on, not '1'"),
    (curlhttp.Hedge, {"budget": 5}, r"budget must be a curlhttp.RetryBudget"),
    (curlhttp.Endpoints, {"urls": 5}, r"takes a list of URLs, or a function, not int: Endpoints"),
    (
        curlhttp.Endpoints,
        {"urls": ["http://a.test"], "eject_for": "5"},
        "eject_for must be a number",
    ),
    (curlhttp.PublicOnly, {"https_only": "no"}, "https_only must be True or False, not 'no'"),
    (curlhttp.BearerAuth, {"token": len, "expires": "60"}, "expires must be a number of seconds"),
    (curlhttp.Cache, {"path": 5}, "path must be a str or an os.PathLike, not 5"),
    (curlhttp.Record, {"path": 5}, "path must be a str or an os.PathLike, not 5"),
    (curlhttp.DigestAuth, {"username": "x", "password": 5}, "a user name or password must be str"),
]


@pytest.mark.parametrize(("make", "settings", "message"), WRONG_POLICIES)
def test_the_error_for_a_wrong_value_in_a_policy_says_what_is_right(
    make: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        make(**settings)


def test_the_error_for_a_rate_per_minute_says_how_to_write_it() -> None:
    per: Any = "minute"
    with pytest.raises(ValueError, match=r"not 'minute'; the rate is per second: Ra"):
        curlhttp.RateLimit(100, per=per)


def test_numbers_of_numpy_are_numbers() -> None:
    class Integer:  # what numpy's have
        def __init__(self, value: int) -> None:
            self.value = value

        def __index__(self) -> int:
            return self.value

        def __lt__(self, other: float) -> bool:
            return self.value < other

        def __le__(self, other: float) -> bool:
            return self.value <= other

    number: Any = Integer(3)
    assert curlhttp.RetryPolicy(number).max_retries is number


def a_file() -> io.BytesIO:
    return io.BytesIO(b"text")


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"params": {"a": {"b": 1}}}, r"params\['a'\] contains a dict: write a name for each value"),
    ({"params": {"a": [{"b": 1}]}}, r"params\['a'\] contains a dict"),
    ({"params": {"a": [[1, 2]]}}, r"params\['a'\] contains a list"),
    ({"params": {"a": object()}}, r"params\['a'\] has no text, because its type is object$"),
    ({"params": {"a": time.time}}, "because its type is builtin_function_or_method; call it"),
    ({"params": {"a": a_file()}}, r"params\['a'\] is a file: pass it in files="),
    ({"params": ["ab"]}, "params are a mapping or pairs of name and value, not a list of str"),
    ({"params": [("a", 1, 2)]}, "params are a mapping or pairs of name and value"),
    ({"params": [1]}, "not a list of int"),
    ({"data": {"a": {"b": 1}}}, r"data\['a'\] contains a dict: to send JSON, pass json= instead"),
    ({"data": {"a": a_file()}}, r"data\['a'\] is a file: pass it in files="),
    ({"data": {"a": {"b": 1}}, "files": {"f": b""}}, r"data\['a'\] contains a dict"),
    ({"data": {"a": a_file}}, r"data\['a'\] has no text, because its type is function; call"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_FIELDS)
def test_a_value_that_a_query_or_form_cannot_express_is_refused(
    options: dict[str, Any], message: str
) -> None:
    client, other = a_client(), an_async_client()
    with pytest.raises(TypeError, match=message):
        client.post(URL, **options)
    with pytest.raises(TypeError, match=message):
        asyncio.run(other.post(URL, **options))


def test_values_that_a_query_can_express_are_sent() -> None:
    params = {
        "a": [1, None, "x"],
        "b": (True, 2.5),
        "c": b"y",
        "d": None,
        "e": UUID(int=5),
        "f": [],
    }
    request = a_client().build_request("GET", URL, params=params)
    uuid = "00000000-0000-0000-0000-000000000005"
    assert request.url.query == f"a=1&a=x&b=True&b=2.5&c=y&e={uuid}"


def test_the_drop_in_sends_nested_values_as_requests_does() -> None:
    request = curlhttp.requests.Request(
        "POST", URL, params={"a": {"b": 1}}, data={"c": {"d": 1}}
    ).prepare()
    assert request.url == f"{URL}?a=b"
    assert request.body == "c=d"


def test_params_of_a_client_may_be_an_iterator() -> None:
    with a_client(params=iter([("key", "1")])) as client:
        assert [client.get(URL).url, client.get(URL).url] == [f"{URL}?key=1"] * 2


def test_a_redirect_setting_that_is_text_is_refused() -> None:
    message = get_message(a_client().get, URL, allow_redirects="no")
    assert message == "follow_redirects must be True or False, not 'no'"


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


def test_swapped_arguments_of_a_download_are_refused() -> None:
    def download(*arguments: Any) -> str:
        message = get_message(a_client().download, *arguments)
        other: Any = an_async_client()
        assert get_message(lambda: asyncio.run(other.download(*arguments))) == message
        return message

    for url in (URL, curlhttp.URL(URL)):
        swapped = download("report.pdf", url)
        assert swapped == "the URL comes first, then the path: download(url, path)"
    for wrong in (None, 5):
        assert "needs the path of the file, such as 'file.zip', not" in download(URL, wrong)


async def test_the_errors_for_items_of_a_map_name_what_to_pass(client: AnyClient) -> None:
    for wrong in (None, 5):
        with pytest.raises(
            TypeError, match=r"an iterable of URLs and requests, not (NoneType|int)"
        ):
            client.map(wrong)
    with pytest.raises(TypeError, match="ordered must be True or False, not 'yes'"):
        client.map([URL], ordered="yes")
    with pytest.raises(TypeError, match=r"not tuple; client.build_request\(method, url\) makes"):
        [result async for result in client.map([("GET", URL)])]


async def test_the_id_of_an_event_is_text(client: AnyClient) -> None:
    with pytest.raises(TypeError, match="last_event_id must be a str, not int"):
        client.sse(URL, last_event_id=5)


def test_the_cookies_of_a_client_are_a_dictionary_or_your_own_jar() -> None:
    with a_client(cookies={"a": "1"}) as client:
        assert client.cookies["a"] == "1"
    with a_client(cookies=MozillaCookieJar()) as client:
        with pytest.raises(TypeError, match="uses the MozillaCookieJar that you passed: use it"):
            _ = client.cookies
        client.cookies = {"b": "2"}
        assert client.cookies["b"] == "2"


@pytest.mark.parametrize("make", [a_client, an_async_client])
def test_a_setting_cannot_be_changed_after_the_client_was_created(make: Any) -> None:
    client = make()
    kind = type(client).__name__
    for name in ("verify", "auth", "proxies", "params", "timeout", "max_redirects"):
        message = get_message(setattr, client, name, None)
        assert message == f"{name} cannot be changed: create a client with {kind}({name}=...)"
    message = get_message(setattr, client, "event_hooks", {})
    assert message.startswith("event_hooks cannot be changed: create a client with ")
    assert f"{kind}(hooks={{" in message
    client.headers, client.cookies = {"X-Key": "1"}, {"a": "1"}
    assert client.cookies["a"] == client.headers["X-Key"] == "1"


def test_a_subclass_may_have_an_attribute_of_that_name() -> None:
    class Ours(curlhttp.Client):
        auth = "none"

    client = Ours(transport=ScriptedEngine([200]))
    client.auth = "mine"
    assert client.auth == "mine"


@pytest.mark.parametrize("name", sorted(keywords_of(curlhttp.Client) - {"headers", "cookies"}))
def test_a_setting_of_a_client_cannot_be_changed(name: str) -> None:
    assert f"{name} cannot be changed" in get_message(setattr, a_client(), name, None)


def test_a_request_says_which_settings_are_those_of_a_client() -> None:
    ours = keywords_of(curlhttp.Client) - keywords_of(curlhttp.Client.get)
    assert ours - get_table("request").keys() == set()


def test_headers_say_what_they_have() -> None:
    headers = a_client().headers
    assert "write headers.get_list(name)" in get_message(getattr, headers, "getall")
    assert not hasattr(headers, "nonsense")
    for wrong in ("_x", "nonsense"):
        message = get_message(getattr, headers, wrong)
        assert message == f"'Headers' object has no attribute '{wrong}'"
    assert not {*dir(headers)} & set(get_table("headers"))


@pytest.mark.parametrize("base_url", ["", URL])
@pytest.mark.parametrize("url", [5, ["/a"], {"url": URL}, (URL,), len])
def test_what_cannot_be_a_url_is_refused(base_url: str, url: Any) -> None:
    kind = type(url).__name__
    with pytest.raises(e.InvalidURL, match=f"the URL must be text, .*, not {kind}"):
        a_client(base_url=base_url).get(url)


def test_the_suggestion_for_a_url_repeats_no_scheme() -> None:
    for wrong in ("https//example.org/x", "http//example.org/x", "//example.org/x"):
        with pytest.raises(e.MissingSchema, match=r"you meant https://example\.org/x\?$"):
            a_client().get(wrong)


WRONG_BODIES: list[tuple[dict[str, Any], str]] = [
    (
        {"json": {"at": datetime.date(2026, 1, 1)}},
        r"^json: .*date is not JSON.*JSON\(dumps=\.\.\.\)",
    ),
    ({"content": {"a": 1}}, "not dict; data= takes a form, and json= any JSON"),
    ({"data": 5}, "a callable that returns one of these, not int$"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_BODIES)
def test_the_error_for_a_value_that_is_no_body_names_another_keyword(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        a_client().post(URL, **options)


def test_the_error_for_a_body_that_was_not_awaited_says_so() -> None:
    async def make_body() -> bytes:
        return b""

    body: Any = make_body()
    with pytest.raises(TypeError, match=r"not coroutine; await it$"):
        a_client().post(URL, content=body)
    body.close()


def test_the_error_for_sending_a_url_says_what_makes_a_request() -> None:
    message = get_message(a_client().send, URL)
    assert message.endswith("not str; client.build_request(method, url) makes one")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("stream", "build_request(method, url, stream=True), or client.stream(method, url)"),
        ("auth", "build_request(method, url, auth=...)"),
        ("verify", "build_request(method, url, verify=...)"),
        ("follow", "send() has no keyword 'follow'; write follow_redirects="),
    ],
)
def test_the_error_for_a_keyword_of_send_says_where_to_pass_it(option: str, text: str) -> None:
    client, other = a_client(), an_async_client()
    wrong: dict[str, Any] = {option: True}
    request = client.build_request("GET", URL)
    assert get_message(client.send, request, **wrong).endswith(text)
    assert get_message(lambda: asyncio.run(other.send(request, **wrong))).endswith(text)


def test_limits_of_a_timeout_without_keywords_are_refused() -> None:
    make: Any = curlhttp.Timeout
    for wrong in ((3, 5), ((3, 5),)):
        assert get_message(make, *wrong).endswith("write Timeout(connect=3, read=5)")
    for given in ("5", "it took too long", None, [3]):
        assert "Timeout takes one number" in get_message(make, given)
    assert get_message(make, "it took too long").endswith("exception is curlhttp.TimeoutException")


def test_the_error_for_a_whole_header_as_a_token_says_what_to_leave_out() -> None:
    with pytest.raises(e.InvalidHeader, match="leave out 'Bearer'") as caught:
        curlhttp.BearerAuth("Bearer secret")
    assert "secret" not in str(caught.value)


def test_with_and_the_events_of_an_async_client_are_not_mixed_up() -> None:
    def enter(manager: Any) -> None:
        with manager:
            pass

    assert "needs `async with`" in get_message(enter, an_async_client().sse(URL))


def test_the_error_for_a_method_as_a_keyword_names_request() -> None:
    message = "get() sends GET: write request(method, url)"
    assert get_message(a_client().get, URL, method="POST") == message
    other: Any = an_async_client()
    assert get_message(lambda: asyncio.run(other.get(URL, method="POST"))) == message
