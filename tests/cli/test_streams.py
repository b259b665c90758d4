"""`curlhttp ws` and `curlhttp sse`."""

from __future__ import annotations

import json

import pytest

from tests.servers import AppServer, RawServer, respond_and_close
from tests.servers.websocket import echo, speaking
from tests.support.cli import finish, run, start

EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    b"data: a\ndata: b\n\nevent: price\nid: 2\ndata: 1\n\ndata: last\n\n"
)


def test_lines_from_a_pipe_are_messages_and_replies_are_lines() -> None:
    pytest.importorskip("websockets")
    with RawServer(speaking(echo)) as server:
        place = server.url.removeprefix("http://")
        ended = finish(start("ws", place, stdin=-1), b"one\r\ntwo\nlast")
        assert (ended.status, ended.out) == (0, b"one\ntwo\nlast\n"), ended.err
        ended = finish(start("ws", "--json", place, stdin=-1), b"one\n")
        assert json.loads(ended.out) == {"text": "one"}


def test_a_refused_websocket_is_an_error() -> None:
    pytest.importorskip("websockets")
    response = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    with RawServer(respond_and_close(response)) as server:
        ended = finish(start("ws", server.url, stdin=-1), b"")
    assert ended.status != 0
    assert "403" in ended.err
    assert "Traceback" not in ended.err


def test_each_event_is_a_line() -> None:
    with RawServer(respond_and_close(EVENTS)) as server:
        assert run("sse", "--no-reconnect", server.url).out == b"a\\nb\nprice: 1\nlast\n"
        ended = run("sse", "--json", "-n", "2", server.url)
    assert ended.status == 0
    first, second = map(json.loads, ended.out.splitlines())
    assert (first["data"], second["event"], second["id"]) == ("a\nb", "price", "2")


def test_events_of_a_post(app: AppServer) -> None:
    kind = [("Content-Type", "text/event-stream")]
    app.route("/events", lambda record, conn: conn.reply(200, b"data: a\n\ndata: b\n\n", kind))
    url = app.url + "/events"
    assert run("sse", url, "model=m", "stream:=true", "X-One:1", "q==a b").out == b"a\nb\n"
    (post,) = app.requests  # a POST is not sent again
    assert (post.method, post.target) == ("POST", "/events?q=a+b")
    assert post.body == b'{"model": "m", "stream": true}'
    assert post.values("accept") == ["text/event-stream"]
    assert post.values("content-type") == ["application/json"]
    assert post.values("x-one") == ["1"]
    assert run("sse", url, "-n", 1, "--json-body", '{"a": 1}', "-X", "PUT").out == b"a\n"
    assert app.requests[-1].method == "PUT"
    assert run("sse", url, "-d", "a", "b=1").status == 2
