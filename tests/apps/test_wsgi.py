"""WSGITransport: a WSGI app instead of the network, checked by wsgiref's validator."""

from __future__ import annotations

import contextvars
import gc
import gzip
import io
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

import pytest

import curlhttp
from curlhttp import Client, Timeout, WSGITransport
from curlhttp import exceptions as e
from tests.support.pace import PACE

URL = "http://app.test"
SOON = 0.02 * PACE

Start = Any
Environ = dict[str, Any]


def hello(environ: Environ, start_response: Start) -> Iterable[bytes]:
    start_response("200 Very OK", [("Content-Type", "text/plain"), ("X-Latin", "caf\xe9")])
    return [b"hello"]


def client_of(app: Any, settings: Any = None, **options: Any) -> Client:
    return Client(transport=WSGITransport(app, **options), **(settings or {}))


def test_the_app_responds_to_a_request() -> None:
    with client_of(validator(hello)) as client:
        found = client.get(URL)
    assert (found.status_code, found.reason_phrase, found.content) == (200, "Very OK", b"hello")
    assert found.headers["x-latin"] == "café"
    assert found.timings.total >= found.timings.first_byte > 0
    with pytest.raises(e.ClientClosed):
        client.get(URL)


def test_the_environ_describes_the_request_exactly() -> None:
    seen: Environ = {}

    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        seen.update(environ)
        return hello(environ, start_response)

    with client_of(app, client=("10.1.2.3", 4), root_path="/mount/") as client:
        client.post(
            "https://user:pw@Api.test:8443/mount/a%2Fb/%C3%A9?q=a%20b&q=%2B#part",
            headers=[("X-Latin", b"caf\xe9"), ("Content-Type", "text/x"), ("X-Two", "1, 2")],
            content=b"abc",
        )
    assert seen.pop("wsgi.input").read() == b"abc"
    assert seen.pop("wsgi.errors") is sys.stderr
    for name in ("HTTP_USER_AGENT", "HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING"):
        del seen[name]
    assert seen.pop("HTTP_AUTHORIZATION").startswith("Basic ")
    assert seen == {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "/mount",
        "PATH_INFO": "/a/b/\xc3\xa9",
        "QUERY_STRING": "q=a%20b&q=%2B",
        "REQUEST_URI": "/mount/a%2Fb/%C3%A9?q=a%20b&q=%2B",
        "RAW_URI": "/mount/a%2Fb/%C3%A9?q=a%20b&q=%2B",
        "SERVER_NAME": "api.test",
        "SERVER_PORT": "8443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "10.1.2.3",
        "REMOTE_PORT": "4",
        "CONTENT_TYPE": "text/x",
        "CONTENT_LENGTH": "3",
        "HTTP_HOST": "api.test:8443",
        "HTTP_X_LATIN": "caf\xe9",
        "HTTP_X_TWO": "1, 2",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https",
        "wsgi.input_terminated": True,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


@pytest.mark.parametrize(
    ("path", "script", "info"),
    [("/m", "/m", ""), ("/m/x", "/m", "/x"), ("/m/", "/m", "/"), ("/mx", "", "/mx")],
)
def test_the_mount_is_taken_off_the_paths_below_it(path: str, script: str, info: str) -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == (script, info)
        return hello(environ, start_response)

    with client_of(validator(app), root_path="/m") as client:
        assert client.get(URL + path).content == b"hello"


def test_layers_above_the_network_work_as_usual(tmp_path: Path) -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/login":
            start_response("302 Found", [("Location", "/home"), ("Set-Cookie", "id=7")])
            return []
        if environ.get("HTTP_COOKIE") != "id=7":
            start_response("401 Unauthorized", [("Content-Type", "text/plain")])
            return [b"no"]
        body = gzip.compress(b"home" * 99)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")])
        return [body[:9], b"", body[9:]]

    hooked: list[int] = []
    settings = {
        "base_url": URL,
        "hooks": {"response": lambda response: hooked.append(response.status_code)},
        "hedge": curlhttp.Hedge(after=5),
    }
    with client_of(app, settings) as client:
        assert client.get("/login").text == "home" * 99
        assert [getattr(found, "status_code", 0) for found in client.map(["/x"] * 3)] == [200] * 3
        with client.stream("GET", "/x") as response:
            assert b"".join(response) == b"home" * 99
        client.download("/x", tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == b"home" * 99
    assert hooked
    with client_of(app, {"base_url": URL, "max_response_size": 50}) as client:
        client.cookies.set("id", "7")
        with pytest.raises(e.ResponseTooLarge):
            client.get("/x")


# --- bodies ---


def test_a_request_body_is_read_as_the_app_receives_it() -> None:
    given: list[bytes] = []

    def body() -> Iterator[bytes]:
        for piece in (b"one\n", b"two\n", b"three"):
            given.append(piece)
            yield piece

    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        assert "CONTENT_LENGTH" not in environ
        assert environ["HTTP_TRANSFER_ENCODING"] == "chunked"
        file = environ["wsgi.input"]
        seen.append((file.readline(), given.copy()))
        seen.append((file.read(2), given.copy()))
        seen.append((file.read(-1), given.copy()))
        assert file.read(5) == b""
        return hello(environ, start_response)

    seen: list[tuple[bytes, list[bytes]]] = []
    with client_of(validator(app)) as client:
        client.post(URL, content=body())
    assert [piece for piece, _ in seen] == [b"one\n", b"tw", b"o\nthree"]
    assert seen[0][1] == [b"one\n"]
    assert seen[1][1] == [b"one\n", b"two\n"]


def test_files_and_forms_arrive_whole(tmp_path: Path) -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        body = b"".join(environ["wsgi.input"])
        assert environ.get("CONTENT_LENGTH", "0") == str(len(body))
        return [str(len(body)).encode()]

    with client_of(validator(app)) as client:
        assert client.put(URL, content=io.BytesIO(b"x\n" * 150_000)).text == "300000"
        assert client.post(URL, data={"a": "b"}).text == "3"
        assert client.post(URL).text == "0"


def test_an_exception_of_the_body_is_raised_even_if_the_app_handles_it() -> None:
    def body() -> Iterator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        try:
            environ["wsgi.input"].read(-1)
        except ZeroDivisionError:
            start_response("400 Bad Request", [])
        return []

    for raises in (True, False):
        with client_of(app, raise_app_exceptions=raises) as client:
            with pytest.raises(ZeroDivisionError):
                client.post(URL, content=body())


class Closing:
    """A body that notes when it is closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = iter(pieces)
        self.given = 0
        self.closed = 0

    def __iter__(self) -> Closing:
        return self

    def __next__(self) -> bytes:
        piece = next(self.pieces)
        self.given += 1
        return piece

    def close(self) -> None:
        self.closed += 1


def returning(body: Any, *headers: tuple[str, str], status: str = "200 OK") -> Any:
    def app(environ: Environ, start_response: Start) -> Any:
        start_response(status, list(headers))
        return body

    return app


def test_a_stream_yields_chunks_as_the_app_does_and_closes_once() -> None:
    body = Closing(b"", b"one", b"", b"two", b"three")
    with client_of(returning(body)) as client:
        with client.stream("GET", URL) as response:
            assert body.given == 2  # up to the first that has anything in it
            pieces = response.iter_bytes()
            assert next(pieces) == b"one"
            assert next(pieces) == b"two"
            assert body.given == 4
            assert body.closed == 0
        assert body.closed == 1
    whole = Closing(b"one", b"two")
    with client_of(returning(whole)) as client:
        assert client.get(URL).content == b"onetwo"
    assert whole.closed == 1


def test_a_stream_that_is_dropped_is_closed_by_the_next_request() -> None:
    body = Closing(b"one", b"two")
    with client_of(returning(body)) as client:
        response = client.stream("GET", URL)
        del response
        gc.collect()
        assert body.closed == 0  # a finalizer runs in any thread, amid anything
        client.get(URL)
        assert body.closed == 2  # of both


def test_written_data_precedes_the_returned_iterable() -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"one ")
        write(b"two ")

        def rest() -> Iterator[bytes]:
            write(b"three ")
            yield b"four"

        return rest()

    with client_of(app) as client:
        assert client.get(URL).text == "one two three four"


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
def test_a_response_without_a_body_gets_none(status: str) -> None:
    body = Closing(b"hello", b"there")
    with client_of(returning(body, ("Content-Length", "10"), status=status)) as client:
        assert client.request("HEAD" if status[0] == "2" else "GET", URL).content == b""
    assert (body.given, body.closed) == (2, 1)


# --- apps that fail ---


def test_start_response_may_be_called_again_until_the_body_begins() -> None:
    def app(environ: Environ, start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        if environ["PATH_INFO"] == "/late":
            yield b"one"
        try:
            raise ZeroDivisionError("of the app")
        except ZeroDivisionError:
            start_response("500 Oh", [("Content-Type", "text/plain")], sys.exc_info())
        yield b"sorry"

    with client_of(validator(app)) as client:
        found = client.get(URL)
        assert (found.status_code, found.text) == (500, "sorry")
        with pytest.raises(ZeroDivisionError, match="of the app"):
            client.get(URL + "/late")


def test_an_exception_of_the_app_is_raised_or_a_response() -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/within":
            start_response("200 OK", [])
            return within()
        raise ZeroDivisionError("of the app")

    def within() -> Iterator[bytes]:
        yield b"one"
        raise ZeroDivisionError("of the app")

    with client_of(app) as client:
        for path in ("/", "/within"):
            with pytest.raises(ZeroDivisionError, match="of the app"):
                client.get(URL + path)
            with pytest.raises(ZeroDivisionError, match="of the app"):
                with client.stream("GET", URL + path) as response:
                    response.read()
    with client_of(app, raise_app_exceptions=False) as client:
        found = client.get(URL)
        assert (found.status_code, found.text) == (500, "Internal Server Error")
        with pytest.raises(e.ChunkedEncodingError, match="failed within"):
            client.get(URL + "/within")


def twice(environ: Environ, start_response: Start) -> Iterable[bytes]:
    start_response("200 OK", [])
    start_response("200 OK", [])
    return []


BROKEN: list[tuple[Any, type[Exception], str]] = [
    (lambda environ, start_response: [], e.RemoteProtocolError, "without a response"),
    (lambda environ, start_response: [b"x"], e.RemoteProtocolError, "before a head"),
    (twice, RuntimeError, "twice"),
    (returning(["text"]), TypeError, "returned str"),
    (returning(b"bytes"), TypeError, "returned int"),
    (returning(None), TypeError, "not iterable"),
    (returning([], status="99 What"), ValueError, "invalid status"),
    (returning([], status="OK"), ValueError, "invalid status"),
    (returning([], ("A", "b\r\nC: d")), ValueError, "invalid status or header"),
    (returning([b"short"], ("Content-Length", "9")), e.ChunkedEncodingError, "announces"),
    (returning([b"long", b"er"], ("Content-Length", "4")), e.ChunkedEncodingError, "announces"),
]


@pytest.mark.parametrize(("app", "kind", "said"), BROKEN)
def test_an_app_that_breaks_the_protocol_is_an_error(
    app: Any, kind: type[Exception], said: str
) -> None:
    with client_of(app) as client, pytest.raises(kind, match=said):
        client.get(URL)


# --- time and threads ---


def test_a_slow_app_is_an_error_once_it_yields() -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/head":
            time.sleep(SOON * 2)
        return slowly()

    def slowly() -> Iterator[bytes]:
        yield b"one"
        time.sleep(SOON * 2)
        yield b"two"

    with client_of(app) as client:
        for path in ("/head", "/body"):
            with pytest.raises(e.ReadTimeout) as caught:
                client.get(URL + path, timeout=Timeout(read=SOON))
            assert caught.value.request is not None
            with pytest.raises(e.DeadlineExceeded):
                client.get(URL + path, timeout=Timeout(total=SOON))


_var = contextvars.ContextVar("_var", default="unset")


def test_the_app_runs_in_the_callers_thread_with_its_own_context() -> None:
    seen: list[Any] = []

    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        seen.append((threading.current_thread(), _var.get()))
        _var.set("of the app")
        return hello(environ, start_response)

    _var.set("of the caller")
    with client_of(app) as client:
        client.get(URL)
    assert seen == [(threading.current_thread(), "of the caller")]
    assert _var.get() == "of the caller"


def test_many_threads_may_use_it_at_once() -> None:
    def app(environ: Environ, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["PATH_INFO"].encode()]

    with client_of(validator(app)) as client, ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda number: client.get(f"{URL}/{number}").text, range(400))
        assert list(found) == [f"/{number}" for number in range(400)]


def test_the_wrong_app_or_client_says_what_to_use() -> None:
    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match=r"use AsyncClient\(transport=curlhttp.ASGITransport"):
        WSGITransport(asgi)
    with pytest.raises(TypeError, match="is not"):
        WSGITransport("app:app")
    with pytest.raises(TypeError, match=r"use Client\(transport=WSGITransport"):
        curlhttp.AsyncClient(transport=WSGITransport(hello))
    app: Any = hello  # as who forgot WSGITransport gives it
    for client in (curlhttp.Client, curlhttp.AsyncClient):
        with pytest.raises(
            TypeError, match=rf"^function is not a transport for {client.__name__}: "
        ):
            client(transport=app)


# --- frameworks ---


def test_an_app_of_flask_is_served() -> None:
    flask = pytest.importorskip("flask", reason="the extra test is missing")
    app = flask.Flask(__name__)

    def echo(name: str) -> Any:
        request = flask.request
        return {"name": name, "q": request.args["q"], "json": request.get_json(silent=True)}

    def upload() -> Any:
        return str(len(flask.request.get_data()))

    def numbers() -> Any:
        return flask.Response(f"{number}\n" for number in range(100))

    def broken() -> Any:
        raise ZeroDivisionError

    app.add_url_rule("/echo/<name>", view_func=echo, methods=["POST"])
    app.add_url_rule("/upload", view_func=upload, methods=["PUT"])
    app.add_url_rule("/numbers", view_func=numbers)
    app.add_url_rule("/broken", view_func=broken)
    with client_of(app, {"base_url": URL}) as client:
        found = client.post("/echo/é", params={"q": "ü"}, json={"a": 1}).json()
        assert found == {"name": "é", "q": "ü", "json": {"a": 1}}
        assert client.put("/upload", content=iter([b"x" * 1000] * 100)).text == "100000"
        assert client.get("/numbers").text.split() == [str(number) for number in range(100)]
        assert client.get("/broken").status_code == 500
        app.testing = True
        with pytest.raises(ZeroDivisionError):
            client.get("/broken")
    with pytest.raises(TypeError, match=r"use Client\(transport=curlhttp.WSGITransport"):
        curlhttp.ASGITransport(app)


@pytest.mark.parametrize("closes", ["stream", "client"])
def test_events_that_another_thread_closes_end_with_the_next_bytes(closes: str) -> None:
    is_asked, goes_on, is_closed = threading.Event(), threading.Event(), threading.Event()

    def app(environ: Environ, start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        try:
            yield b"data: a\n\n"
            is_asked.set()
            goes_on.wait(30)
            yield b"data: b\n\n"
        finally:
            is_closed.set()

    with client_of(app) as client, ThreadPoolExecutor(1) as threads:
        events = client.sse(URL, reconnect=False)
        assert next(events).data == "a"
        rest = threads.submit(lambda: [event.data for event in events])
        assert is_asked.wait(30)
        (events if closes == "stream" else client).close()
        goes_on.set()
        if closes == "stream":
            assert rest.result(timeout=30) == []
        else:
            assert isinstance(rest.exception(timeout=30), e.ClientClosed)
        assert is_closed.wait(30)
