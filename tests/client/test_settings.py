"""default_encoding, rates of bytes and proxy, and messages about mistakes."""

from __future__ import annotations

import importlib.util
import inspect
import re
import time
from typing import Any

import pytest

import curlhttp
from curlhttp import Client
from curlhttp._client.features import FEATURES
from curlhttp._client.routing import choose_route_options
from curlhttp._client.settings import SETTINGS, complete_settings
from curlhttp._http.unset import UNSET
from curlhttp.exceptions import MissingSchema, RequestException, SSLError
from curlhttp.testing import Answer
from curlhttp.types import ClientOptions, RouteOptions
from tests.servers import AppServer, HTTPProxy, RawConnection, RawServer
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import download
from tests.support.internals import run_script
from tests.support.pace import paced
from tests.support.scripted import Scripted

CLIENTS = pytest.mark.parametrize("make", [curlhttp.Client, curlhttp.AsyncClient])


# --- default_encoding ---


async def test_text_without_a_charset(scripted: Scripted) -> None:
    body, plain = "é".encode("latin-1"), {"Content-Type": "text/plain"}
    named = {"Content-Type": "text/plain; charset=utf-8"}
    answers = [
        Answer(200, plain, content=body),
        Answer(200, plain, content=body),
        Answer(200, named, content="é".encode()),
    ]
    for encoding in ("latin-1", lambda content: "latin-1" if content == body else None):
        client, _ = scripted(list(answers), default_encoding=encoding)
        assert (await client.get("http://a/")).text == "é"
        response = await client.get("http://a/")
        response.encoding = "cp1251"
        assert response.text == "й"
        assert (await client.get("http://a/")).text == "é"


async def test_a_function_may_know_no_charset(scripted: Scripted) -> None:
    client, _ = scripted([Answer(200, content="é".encode())], default_encoding=lambda body: None)
    assert (await client.get("http://a/")).text == "é"


@CLIENTS
def test_a_charset_that_python_does_not_know_is_refused(make: Any) -> None:
    with pytest.raises(
        ValueError, match="default_encoding must be a charset that Python knows, not 'x'"
    ):
        make(default_encoding="x")
    with pytest.raises(TypeError, match=r"the name of a charset, or a function .* not int"):
        make(default_encoding=5)


# --- rates ---


@WITHOUT_UVLOOP
@pytest.mark.parametrize("api", ["get", "request option", "stream", "map", "download"])
@pytest.mark.parametrize(("rate", "size"), [(100_000, 60_000), (10_000_000, 6_000_000)])
async def test_receiving_takes_as_long_as_the_rate_says(
    make_client: Any, server: AppServer, api: str, rate: int, size: int, tmp_path: Any
) -> None:
    client = make_client(max_receive_rate=None if api == "request option" else rate, http2=True)
    url, begun = f"{server.url}/bytes/{size}", time.monotonic()
    if api == "stream":
        async with await client.stream("GET", url) as stream:
            received = len(await stream.read())
    elif api == "map":
        (result,) = [result async for result in client.map([url])]
        received = len(result.content)
    elif api == "download":
        await download(client, url, tmp_path / "file")
        received = (tmp_path / "file").stat().st_size
    else:
        own = {"max_receive_rate": rate} if api == "request option" else {}
        received = len((await client.get(url, **own)).content)
    assert received == size
    assert time.monotonic() - begun > 0.3


@WITHOUT_UVLOOP
async def test_a_reader_that_pauses_does_not_raise_the_rate(
    make_client: Any, app: AppServer
) -> None:
    client = make_client(max_receive_rate=4_000_000)
    begun = time.monotonic()
    async with await client.stream("GET", app.url + "/bytes/4000000") as stream:
        async for _ in stream.iterate("bytes"):
            time.sleep(0.001)
    assert time.monotonic() - begun > 0.8


@WITHOUT_UVLOOP
async def test_waiting_for_the_rate_is_no_silence_of_the_server(
    make_client: Any, app: AppServer
) -> None:
    client = make_client(max_receive_rate=2000, timeout=curlhttp.Timeout(read=0.2, total=30))
    assert len((await client.get(app.url + "/bytes/3000")).content) == 3000
    with pytest.raises(curlhttp.DeadlineExceeded):
        await client.get(app.url + "/bytes/300000", timeout=curlhttp.Timeout(total=paced(0.5)))
    assert len((await client.get(app.url + "/bytes/30000", max_receive_rate=None)).content) == 30000


@pytest.mark.colours("blocking", "trio")
async def test_sending_takes_as_long_as_the_rate_says(make_client: Any, app: AppServer) -> None:
    """libcurl lets about a second's worth of bytes through at once."""
    client = make_client(max_send_rate=200_000)
    begun = time.monotonic()
    await client.post(app.url + "/upload", content=b"x" * 300_000)
    assert time.monotonic() - begun > 0.5


@CLIENTS
def test_a_rate_is_a_number_from_1_on(make: Any) -> None:
    for rate in (0, -1, float("nan"), float("inf")):
        for name in ("max_send_rate", "max_receive_rate"):
            with pytest.raises(ValueError, match=f"{name} must be a .*number of bytes per second"):
                make(**{name: rate})


# --- proxies ---


async def test_one_proxy_for_all(make_client: Any, app: AppServer) -> None:
    with HTTPProxy() as proxy:
        client = make_client(proxy=proxy.url)
        assert (await client.get(app.url)).status_code == 200
        assert len(proxy.log) == 1


@CLIENTS
def test_mistakes_with_proxies(make: Any) -> None:
    with pytest.raises(TypeError, match="either proxy or proxies"):
        make(proxy="http://p:1", proxies={"http": "http://p:1"})
    with pytest.raises(TypeError, match="proxy must be one URL or a Proxy, not dict; proxies="):
        make(proxy={"http": "http://p:1"})
    for key in ("htp", "https://", "ftp://a", 5):
        with pytest.raises(ValueError, match=r"proxies has the key .*: use 'http', 'https', 'all'"):
            make(proxies={key: "http://p:1"})
    for key in ("http", "https", "all", "no_proxy", "https://example.com", "all://example.com"):
        make(proxies={key: "http://p:1"})


# --- messages ---


async def test_a_relative_url_needs_a_base_url(client: AnyClient) -> None:
    with pytest.raises(MissingSchema, match=r"'/x': a relative URL needs a client with a base_url"):
        await client.get("/x")


@CLIENTS
@pytest.mark.parametrize("base", ["example.com", "example.com:80/x", "ftp://example.com"])
def test_a_base_url_has_a_scheme(make: Any, base: str) -> None:
    with pytest.raises(RequestException, match="base_url must begin with https:// or http://, not"):
        make(base_url=base)


@CLIENTS
def test_a_token_is_no_auth(make: Any) -> None:
    with pytest.raises(TypeError, match=r"for a token, pass curlhttp\.BearerAuth") as caught:
        make(auth="Bearer secret")
    assert "secret" not in str(caught.value)


async def test_https_on_a_port_for_http(client: AnyClient) -> None:
    def refuse(conn: RawConnection) -> None:
        conn.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with (
        RawServer(refuse) as server,
        pytest.raises(SSLError, match="the server does not speak TLS on this port; maybe"),
    ):
        await client.get(server.url.replace("http:", "https:"))


@CLIENTS
def test_json_goes_together_with_no_other_body(make: Any) -> None:
    for other in ({"data": {"a": "1"}}, {"files": {"f": b"1"}}):
        with pytest.raises(TypeError, match="json cannot be combined with"):
            make().build_request("POST", "http://a/", json=1, **other)


# --- the table of settings ---


def test_each_setting_has_a_type_a_feature_and_a_sentence() -> None:
    in_one = set(ClientOptions.__annotations__) ^ set(SETTINGS)
    assert not in_one, "in only one of ClientOptions (_client/options.py) and SETTINGS"
    assert set(RouteOptions.__annotations__) == set(choose_route_options(complete_settings({}, "")))
    arguments, route = str(Client.__doc__), str(RouteOptions.__doc__)
    for name, (_, feature, _) in SETTINGS.items():
        said = re.search(rf"\b{name}\b", arguments)
        assert said or f"{name}:" in route, f"{name}: the docstring of Client has no sentence on it"
        found = importlib.util.find_spec(f"curlhttp._features.{feature}") if feature else True
        assert found, f"there is no feature {feature!r}"


def test_each_layer_is_switched_on_by_a_setting_of_its_feature() -> None:
    made = {"alternatives", "endpoints", "request_hooks"}  # of http3, base_url and hooks
    of_base_layer = {"max_redirects"}  # which is in every chain
    for feature in FEATURES:
        for name in feature.settings:
            assert name in made | of_base_layer or SETTINGS[name].feature == feature.name


@CLIENTS
def test_a_constructor_shows_its_settings_with_their_defaults(make: Any) -> None:
    shown = inspect.signature(make).parameters
    assert list(shown) == list(SETTINGS)
    for name, (default, _, _) in SETTINGS.items():
        assert shown[name].default == default or default is UNSET


@CLIENTS
def test_a_setting_is_off_with_its_default(make: Any) -> None:
    """A client loads no feature for it."""
    code = f"import sys, curlhttp; curlhttp.{make.__name__}(%s); print(*sorted(sys.modules))"
    given = ", ".join(
        f"{name}={setting.default!r}"
        for name, setting in inspect.signature(make).parameters.items()
        if isinstance(setting.default, (bool, int, type(None)))
    )
    assert run_script(code % given) == run_script(code % "")


@CLIENTS
def test_a_subclass_passes_settings_on(make: Any) -> None:
    class Own(make):  # type: ignore[misc]
        def __init__(self, *, token: str, **options: Any) -> None:
            super().__init__(auth=curlhttp.BearerAuth(token), **options)

    assert Own(token="t", base_url="https://h.test").build_request("GET", "/x").url.host == "h.test"
    with pytest.raises(
        TypeError, match=r"^Own\(\) has no keyword 'timeuot'; did you mean timeout="
    ):
        Own(token="t", timeuot=3)
