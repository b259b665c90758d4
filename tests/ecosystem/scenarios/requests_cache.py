"""requests-cache: mixes into Session.request and send, stores responses, rebuilds them."""

from __future__ import annotations

import pickle
from typing import Any

import requests
import requests_cache

from tests.ecosystem.fakes import json_response
from tests.servers import AppConnection, AppServer, Record


def _with_etag(record: Record, conn: AppConnection) -> None:
    headers = [("ETag", '"v1"'), ("Cache-Control", "max-age=0")]
    if record.header("if-none-match") == '"v1"':
        conn.reply(304, b"", headers)
    else:
        conn.reply(200, b"first", headers)


def caches_in_memory(app: AppServer) -> None:
    with requests_cache.CachedSession(backend="memory") as session:
        first: Any = session.get(app.url + "/json", params={"b": "2", "a": "1"})
        second: Any = session.get(app.url + "/json", params={"a": "1", "b": "2"})
        assert (first.from_cache, second.from_cache) == (False, True)
        assert first.json() == second.json()
        assert second.status_code == 200
        assert second.reason == "OK"
        assert second.headers["content-type"] == "application/json"
        assert second.url == app.url + "/json?a=1&b=2"
        assert second.request.headers["Accept"] == "*/*"
        assert second.elapsed == first.elapsed
        assert len(app.requests) == 1
        assert isinstance(second, requests.Response)


def caches_in_sqlite(app: AppServer) -> None:
    for n in range(2):
        session: Any = requests_cache.CachedSession("cache.sqlite", backend="sqlite")
        with session:
            hidden = session.get(app.url + "/gzip?size=5000")
            assert hidden.from_cache is bool(n)
            assert len(hidden.content) == 5000
            redirected = session.get(app.url + "/redirect/2")
            assert redirected.from_cache is bool(n)
            assert [hop.status_code for hop in redirected.history] == [302, 302]
            assert redirected.text == "hello"
            cookies = session.get(app.url + "/cookies/set?a=1&b=2")
            assert cookies.from_cache is bool(n)
            assert cookies.cookies.get_dict() == {"a": "1", "b": "2"}
    assert len(app.requests) == 1 + 3 + 1


def serializes_to_json_files(app: AppServer) -> None:
    app.route("/value", json_response({"a": "é"}))
    for n in range(2):
        session: Any = requests_cache.CachedSession(
            "files", backend="filesystem", serializer="json", expire_after=60
        )
        with session:
            response = session.get(app.url + "/value")
            assert response.from_cache is bool(n)
            assert response.json() == {"a": "é"}
            assert response.expires is not None


def revalidates_by_etag(app: AppServer) -> None:
    app.route("/tagged", _with_etag)
    with requests_cache.CachedSession(backend="memory", cache_control=True) as session:
        first: Any = session.get(app.url + "/tagged")
        second: Any = session.get(app.url + "/tagged")
        assert first.text == second.text == "first"
        assert second.revalidated
        assert app.requests[1].header("if-none-match") == '"v1"'


def streams_from_the_cache(app: AppServer) -> None:
    with requests_cache.CachedSession(backend="memory") as session:
        bodies = []
        for n in range(2):
            response: Any = session.get(app.url + "/bytes/3000", stream=True)
            assert response.from_cache is bool(n)
            bodies.append(b"".join(response.iter_content(700)))
        assert len(bodies[0]) == 3000
        assert bodies[0] == bodies[1]
        raw: Any = session.get(app.url + "/bytes/3000", stream=True)
        assert raw.raw.read(100) == bodies[0][:100]
        first: Any = session.get(app.url + "/bytes/2000", stream=True)
        assert b"".join(first.raw.stream(300)) == first.content  # also on the first response


def caches_posts_by_their_bodies(app: AppServer) -> None:
    with requests_cache.CachedSession(backend="memory", allowable_methods=["POST"]) as session:
        for body in ({"a": 1}, {"a": 2}, {"a": 1}):
            session.post(app.url + "/echo", json=body)
        assert [record.body for record in app.requests] == [b'{"a": 1}', b'{"a": 2}']
        # requests-cache sets one boundary for all, in urllib3.filepost
        for _ in range(2):
            response: Any = session.post(app.url + "/upload", files={"f": ("n", b"content")})
        assert response.from_cache
        assert len(app.requests) == 3


def serves_stale_answers_on_errors(app: AppServer) -> None:
    session: Any = requests_cache.CachedSession(
        backend="memory", always_revalidate=True, stale_if_error=True
    )
    with session:
        app.route("/flaky", json_response([1]))
        assert session.get(app.url + "/flaky").json() == [1]
        app.route("/flaky", json_response([2], 500))
        again = session.get(app.url + "/flaky")
        assert again.from_cache
        assert again.json() == [1]
        only = session.get(app.url + "/json", only_if_cached=True)
        assert only.status_code == 504


def installs_itself_into_requests(app: AppServer) -> None:
    requests_cache.install_cache(backend="memory")
    try:
        assert requests.Session is not None
        for n in range(2):
            response: Any = requests.get(app.url + "/json", timeout=3)
            assert response.from_cache is bool(n)
        with requests_cache.disabled():
            requests.get(app.url + "/json", timeout=3)
    finally:
        requests_cache.uninstall_cache()
    requests.get(app.url + "/json", timeout=3)
    assert len(app.requests) == 3


def runs_hooks_and_keeps_requests_attributes(app: AppServer) -> None:
    seen: list[tuple[str, bool | None]] = []

    def hook(response: Any, *args: Any, **kwargs: Any) -> None:
        seen.append((response.url, getattr(response, "from_cache", None)))

    with requests_cache.CachedSession(backend="memory") as session:
        session.hooks["response"].append(hook)
        for _ in range(2):
            session.get(app.url + "/json")
        assert (app.url + "/json", True) in seen
        cached: Any = session.get(app.url + "/json")
        assert pickle.loads(pickle.dumps(cached)).json() == cached.json()
