"""The module-level functions: verbs on a shared client, and nothing else that is shared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import curlhttp
from curlhttp.exceptions import InvalidURL, MissingSchema
from curlhttp.requests import api
from tests.servers import AppServer, payload


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Close the shared connections after each test."""
    yield
    api._adapter.close()


@pytest.mark.parametrize("verb", ["get", "options", "head", "post", "put", "patch", "delete"])
def test_every_verb_is_there(app: AppServer, verb: str) -> None:
    response = getattr(curlhttp, verb)(app.url + "/bytes/3")
    assert response.status_code == 200
    assert app.requests[-1].method == verb.upper()
    assert response.content == (b"" if verb == "head" else payload(3))


def test_request_takes_any_method_and_the_keywords(app: AppServer) -> None:
    response = curlhttp.request("REPORT", app.url + "/echo", json=[1], headers={"X-A": "b"})
    assert response.json()["method"] == "REPORT"
    assert response.json()["body"] == "[1]"
    assert app.requests[-1].header("x-a") == "b"


def test_stream_returns_a_streamed_response(app: AppServer) -> None:
    with curlhttp.stream("GET", app.url + "/bytes/100000") as response:
        assert b"".join(response.iter_bytes(1000)) == payload(100_000)


def test_head_follows_redirects_only_on_request(app: AppServer) -> None:
    assert curlhttp.head(app.url + "/redirect/1").status_code == 302
    assert curlhttp.head(app.url + "/redirect/1", allow_redirects=True).status_code == 200
    assert curlhttp.head(app.url + "/redirect/1", follow_redirects=True).status_code == 200
    assert curlhttp.get(app.url + "/redirect/1").status_code == 200
    assert curlhttp.options(app.url + "/redirect/1").status_code == 200


def test_connections_are_reused(app: AppServer) -> None:
    for _ in range(5):
        curlhttp.get(app.url)
    assert app.connections == 1


def test_cookies_live_as_long_as_one_call(app: AppServer) -> None:
    response = curlhttp.get(app.url + "/cookies/set?a=1&redirect=/cookies")
    assert response.json()["cookies"] == {"a": "1"}  # sent on the redirect
    assert curlhttp.get(app.url + "/cookies").json()["cookies"] == {}
    assert curlhttp.get(app.url + "/cookies", cookies={"b": "2"}).json()["cookies"] == {"b": "2"}
    assert curlhttp.get(app.url + "/cookies").json()["cookies"] == {}


def test_headers_and_auth_live_as_long_as_one_call(app: AppServer) -> None:
    curlhttp.get(app.url, headers={"X-A": "1"}, auth=("user", "secret"))
    curlhttp.get(app.url)
    assert app.requests[-1].header("x-a") is None
    assert app.requests[-1].header("authorization") is None


@pytest.mark.parametrize(("url", "error"), [("x.com", MissingSchema), ("http://", InvalidURL)])
def test_a_bad_url_is_an_error(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        curlhttp.get(url)


def test_threads_that_begin_at_once_share_one_pool(app: AppServer) -> None:
    barrier = threading.Barrier(8)
    seen: list[Any] = []

    def work() -> None:
        barrier.wait()
        seen.append((curlhttp.get(app.url).content, api._adapter._engine))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {content for content, _ in seen} == {b"hello"}
    assert len({id(engine) for _, engine in seen}) == 1


def test_an_unknown_keyword_is_a_type_error(app: AppServer) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        curlhttp.get(app.url, no_such_option=1)  # type: ignore[call-arg]
    assert app.connections == 0
