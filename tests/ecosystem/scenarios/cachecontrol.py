"""CacheControl: an adapter that tees what is read from `raw._fp` into a cache."""

from __future__ import annotations

import gzip
from email.utils import formatdate
from typing import Any

import requests
from cachecontrol import CacheControl, CacheControlAdapter
from cachecontrol.caches import FileCache, SeparateBodyFileCache
from cachecontrol.heuristics import ExpiresAfter

from tests.servers import AppConnection, AppServer, Record

_PLAIN = b"0123456789" * 4000


def _headers() -> list[tuple[str, str]]:
    return [("Date", formatdate(usegmt=True)), ("Cache-Control", "max-age=60")]


def _fresh(record: Record, conn: AppConnection) -> None:
    conn.reply(200, b"fresh", [*_headers(), ("Content-Type", "text/plain")])


def _coded(record: Record, conn: AppConnection) -> None:
    conn.reply(200, gzip.compress(_PLAIN), [*_headers(), ("Content-Encoding", "gzip")])


def _long(record: Record, conn: AppConnection) -> None:
    conn.reply(200, _PLAIN, [("Date", formatdate(usegmt=True))])


def _tagged(record: Record, conn: AppConnection) -> None:
    if record.header("if-none-match") == '"v1"':
        conn.reply(304, b"", [("ETag", '"v1"'), ("X-Seen", "again")])
    else:
        conn.reply(200, b"tagged", [("ETag", '"v1"')])


def _chunks(record: Record, conn: AppConnection) -> None:
    if conn.begin(200, [*_headers(), ("Transfer-Encoding", "chunked")]):
        for piece in (b"one ", b"two ", b"three", b""):
            conn.chunk(piece)


def keeps_what_is_fresh(app: AppServer) -> None:
    app.route("/fresh", _fresh)
    session: Any = CacheControl(requests.Session())
    first = session.get(app.url + "/fresh")
    second = session.get(app.url + "/fresh")
    assert (first.from_cache, second.from_cache) == (False, True)
    assert (first.text, second.text) == ("fresh", "fresh")
    assert (second.status_code, second.reason) == (200, "OK")
    assert second.headers["content-type"] == "text/plain"
    assert len(app.requests) == 1


def revalidates_by_etag(app: AppServer) -> None:
    app.route("/tagged", _tagged)
    session: Any = CacheControl(requests.Session())
    first = session.get(app.url + "/tagged")
    second = session.get(app.url + "/tagged")
    assert (first.from_cache, second.from_cache) == (False, True)
    assert (first.text, second.text) == ("tagged", "tagged")
    assert second.status_code == 200
    assert second.headers["x-seen"] == "again"
    assert app.requests[1].header("if-none-match") == '"v1"'
    assert app.connections == 1  # the 304 gave its connection back


def keeps_chunked_answers(app: AppServer) -> None:
    app.route("/chunks", _chunks)
    session: Any = CacheControl(requests.Session())
    assert [session.get(app.url + "/chunks").text for _ in range(2)] == ["one two three"] * 2
    assert len(app.requests) == 1


def keeps_compressed_answers(app: AppServer) -> None:
    app.route("/coded", _coded)
    session: Any = CacheControl(requests.Session())
    assert [session.get(app.url + "/coded").content for _ in range(2)] == [_PLAIN] * 2
    assert len(app.requests) == 1


def keeps_files(app: AppServer) -> None:
    app.route("/fresh", _fresh)
    for kind in (FileCache, SeparateBodyFileCache):
        app.requests.clear()
        for n in range(2):
            session: Any = CacheControl(requests.Session(), kind(f"cache-{kind.__name__}"))
            response = session.get(app.url + "/fresh")
            assert response.from_cache is bool(n)
            assert response.text == "fresh"
        assert len(app.requests) == 1


def keeps_streams_once_they_are_read(app: AppServer) -> None:
    session: Any = CacheControl(requests.Session(), heuristic=ExpiresAfter(hours=1))
    app.route("/long", _long)
    url = app.url + "/long"
    unread = session.get(url, stream=True)
    assert len(unread.raw.read(10)) == 10
    unread.close()
    first = session.get(url, stream=True)
    assert not first.from_cache  # the one before was not read to its end
    body = b"".join(first.iter_content(1024))
    second = session.get(url, stream=True)
    assert second.from_cache
    assert second.raw.read() == body == _PLAIN


def forgets_on_put_and_obeys_no_store(app: AppServer) -> None:
    app.route("/fresh", _fresh)
    session: Any = CacheControl(requests.Session())
    session.get(app.url + "/fresh")
    session.put(app.url + "/fresh", data=b"new")
    assert not session.get(app.url + "/fresh").from_cache
    assert not session.get(app.url + "/fresh", headers={"Cache-Control": "no-cache"}).from_cache
    assert len(app.requests) == 4


def caches_permanent_redirects(app: AppServer) -> None:
    session: Any = requests.Session()
    session.mount("http://", CacheControlAdapter())
    for _ in range(2):
        assert session.get(app.url + "/redirect/1?status=301").text == "hello"
    assert [record.path for record in app.requests].count("/redirect/1") == 1
