"""curlhttp.requests under attack: faults, threads, forks, leaks and secrets."""

from __future__ import annotations

import contextlib
import email.policy
import gc
import gzip
import io
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp import requests
from curlhttp.requests.adapters import HTTPAdapter
from curlhttp.requests.auth import HTTPDigestAuth, HTTPProxyAuth
from tests.servers import (
    AppConnection,
    AppServer,
    BlackHole,
    HTTPProxy,
    RawConnection,
    RawServer,
    Record,
    close_at_once,
    reset_at_once,
    respond,
    respond_and_close,
    respond_and_reset,
    response,
)
from tests.support.internals import (
    close_shared_clients,
    count_descriptors,
    finish_script,
    run_script,
    start_script,
    wait_until_asleep,
)
from tests.support.pace import assert_in_time, paced

Retry: Any = requests.packages.urllib3.util.retry.Retry
HEAD = b"HTTP/1.1 200 OK\r\n"
STREAMED = pytest.mark.parametrize("streamed", [False, True])
SECRET = "s3cret"


@pytest.fixture(autouse=True)
def _fresh_pool() -> Iterator[None]:
    """Close what the functions of the module keep open."""
    yield
    close_shared_clients()


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


@pytest.fixture(scope="module")
def _second_app() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


@pytest.fixture
def other(_second_app: AppServer) -> AppServer:
    """Return a second origin, its counters at zero."""
    _second_app.reset_counts()
    return _second_app


def to(url: str) -> str:
    return "/redirect-to?url=" + quote(url, safe="")


# --- threads ---


def in_threads(count: int, work: Callable[[int], None]) -> list[BaseException]:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("shared", ["session", "module"])
def test_each_of_sixteen_threads_gets_its_own_responses(
    session: requests.Session, app: AppServer, shared: str
) -> None:
    """In the drop-in."""
    send = session.post if shared == "session" else requests.post

    def work(number: int) -> None:
        for turn in range(15):
            text = f"{number} {turn}"
            streamed = turn % 3 == 0
            with send(f"{app.url}/echo?{number}", data=text, stream=streamed) as response:
                assert response.json()["body"] == text
                assert response.json()["target"] == f"/echo?{number}"

    assert in_threads(16, work) == []


def test_cookies_of_many_threads_all_arrive(session: requests.Session, app: AppServer) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            session.get(f"{app.url}/cookies/set?c{number}x{turn}=v")

    assert in_threads(16, work) == []
    assert len(session.cookies) == 80


def test_a_session_may_be_closed_while_others_use_it(app: AppServer) -> None:
    session = requests.Session()

    def work(number: int) -> None:
        for _ in range(10):
            if number:
                with contextlib.suppress(curlhttp.ClientClosed):
                    assert session.get(app.url).text == "hello"
            else:
                session.close()

    assert in_threads(6, work) == []
    session.close()


def test_a_module_that_another_thread_is_importing_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = requests.Session()
    monkeypatch.setitem(sys.modules, "urllib3.filepost", ModuleType("empty as yet"))
    prepared = session.prepare_request(requests.Request("POST", "http://a/", files={"a": b"b"}))
    assert prepared.body
    monkeypatch.setitem(sys.modules, "curlhttp.requests.utils", ModuleType("empty as yet"))
    assert requests.Session().headers == session.headers


# --- fork, Ctrl-C ---

_FORK = """
import os, sys
from curlhttp import requests
url = sys.argv[1]
session = requests.Session()

def ask(name, number):
    for send in (session.post, requests.post):
        text = f"{name} {number}"
        assert send(url + "/echo", data=text).json()["body"] == text

ask("warm", 0)
held = session.get(url + "/bytes/100000", stream=True)
pid = os.fork()
name = "parent" if pid else "child"
for number in range(10):
    ask(name, number)
if not pid:
    try:
        held.content
    except requests.RequestException:
        sys.exit()
    sys.exit("the child read its parent's response")
assert os.waitpid(pid, 0)[1] == 0
assert len(held.content) == 100000
ask("after", 0)
session.close()
print("ok")
"""


@pytest.mark.slow
def test_parent_and_child_continue_with_a_session_and_the_shared_pool(app: AppServer) -> None:
    """In the drop-in."""
    assert run_script(_FORK, app.url) == "ok\n"
    owners: dict[int, set[str]] = {}
    for record in app.requests:
        owners.setdefault(record.connection, set()).add(record.body.decode().partition(" ")[0])
    assert all("child" not in names or names == {"child"} for names in owners.values())


_STALL = """
import sys
from curlhttp import requests
url, path = sys.argv[1:]
session = requests.Session(timeout=None)
print("going", flush=True)
try:
    if path == "session":
        session.get(url + "/stall")
    elif path == "module":
        requests.get(url + "/stall", timeout=(None, None))
    elif path == "stream":
        session.get(url + "/stall-after", stream=True).content
    elif path == "retry":
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=3))
        session.get(url + "/stall")
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert session.get(url).text == requests.get(url).text == "hello"
session.close()
print("usable")
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", ["session", "module", "stream", "retry"])
def test_ctrl_c_ends_a_stalled_request_once_and_for_all(app: AppServer, path: str) -> None:
    process = start_script(_STALL, app.url, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    assert app.wait_for(lambda: bool(app.requests))
    wait_until_asleep(process)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert_in_time(time.monotonic() - begun, 1, 0.4)
    assert finish_script(process) == "usable\n"
    assert [record.path for record in app.requests[1:]] == ["/", "/"]


# --- leaks ---


@contextlib.contextmanager
def nothing_left_open(server: AppServer) -> Iterator[None]:
    """Check that the descriptors are the same in the end, without help of the collector."""
    before = count_descriptors()
    gc.disable()
    try:
        yield
        # The server's ends of the connections are in this process, too.
        assert server.wait_for(lambda: len(os.listdir("/dev/fd")) <= before)
    finally:
        gc.enable()


def _drop(got: Any) -> None:
    """Do nothing with it."""


@pytest.mark.parametrize(
    "use",
    [
        _drop,
        lambda got: next(got.iter_content(10)),
        lambda got: next(got.iter_lines()),
        lambda got: got.raw.read(10),
        lambda got: got.raw.headers,
        lambda got: got.raw._connection.sock.getpeername(),
        lambda got: got.close(),
    ],
)
def test_streams_dropped_unread_and_unclosed_leave_nothing(
    session: requests.Session, app: AppServer, use: Callable[[Any], Any]
) -> None:
    url = app.url + "/bytes/1000000"
    session.get(url, stream=True).close()
    with nothing_left_open(app):
        for _ in range(10):
            use(session.get(url, stream=True))


@pytest.mark.parametrize(
    "send",
    [
        lambda session, url: session.get(url + "/truncated"),
        lambda session, url: session.get(url + "/truncated", stream=True).content,
        lambda session, url: session.get(url + "/stall", timeout=0.005),
        lambda session, url: session.get(url + "/stall-after", stream=True, timeout=0.005).text,
        lambda session, url: session.get("http://127.0.0.1:1/"),
        lambda session, url: session.get(url + "/status/404", stream=True).raise_for_status(),
        lambda session, url: session.get(url + "/bytes/10", stream=True).json(),
        lambda session, url: session.get(url + "/redirect/99"),
    ],
)
def test_errors_leave_nothing(
    session: requests.Session, app: AppServer, send: Callable[[Any, str], Any]
) -> None:
    def fail() -> None:
        with pytest.raises(requests.RequestException):
            send(session, app.url)

    fail()
    with nothing_left_open(app):
        for _ in range(5):
            fail()


def test_sessions_dropped_without_close_leave_nothing(app: AppServer) -> None:
    with nothing_left_open(app):
        for _ in range(20):
            requests.Session().get(app.url)
            requests.Session().get(app.url + "/bytes/1000000", stream=True)


def test_a_stream_outlives_its_session(app: AppServer) -> None:
    raw = requests.Session().get(app.url + "/bytes/300000", stream=True).raw
    gc.collect()
    assert len(raw.read()) == 300000


def test_thousands_of_calls_open_one_connection(app: AppServer) -> None:
    requests.get(app.url)
    before = count_descriptors()
    for _ in range(2000):
        requests.get(app.url)
    assert count_descriptors() == before
    assert app.connections == 1


# --- a POST is never sent twice on its own ---

_FAULTS: dict[str, Any] = {
    "close": respond_and_close(b""),
    "reset": respond_and_reset(b""),
    "continue": respond_and_close(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "half a head": respond_and_close(HEAD + b"X"),
    "half a body": respond_and_close(HEAD + b"Content-Length: 9\r\n\r\nabc"),
    "reset in the body": respond_and_reset(HEAD + b"Content-Length: 9\r\n\r\nabc"),
    "close at once": close_at_once,
    "reset at once": reset_at_once,
    "retry after": respond(response(b"", "503 Busy", [("Retry-After", "0")])),
}


@STREAMED
@pytest.mark.parametrize("retries", [0, 3, Retry(total=3, status_forcelist=[503])])
@pytest.mark.parametrize("fault", _FAULTS)
def test_a_post_is_sent_once_whatever_the_server_does(
    fault: str, retries: Any, streamed: bool
) -> None:
    with RawServer(_FAULTS[fault]) as server, requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        try:
            response = session.post(server.url, data=b"once", stream=streamed, timeout=30)
            _ = response.content
        except requests.RequestException:
            assert fault != "retry after"
        else:
            assert fault == "retry after"
            assert response.status_code == 503
        assert len(server.requests) <= 1
        if "at once" not in fault:  # else a connection may be lost before anything is sent
            assert server.connections == 1


@pytest.mark.parametrize("warm", ["closes on the next request", "has closed"])
def test_a_post_on_a_reused_connection_is_sent_once(warm: str) -> None:
    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(response(b"x"))
        if warm == "closes on the next request" and conn.index == 0:
            conn.read_request()

    with RawServer(handler) as server, requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=Retry(total=3)))
        session.get(server.url)
        if warm == "has closed":
            assert server.wait_for(lambda: server.open_connections == 0)
            assert session.post(server.url, data=b"once").content == b"x"
        else:
            with pytest.raises(requests.ConnectionError):
                session.post(server.url, data=b"once")
        posts = [request for request in server.requests if request.startswith(b"POST")]
        assert len(posts) == 1


def test_a_post_is_repeated_if_the_program_allows_it() -> None:
    allowed = Retry(total=3, allowed_methods=None)
    with RawServer(respond_and_close(b"")) as server, requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=allowed))
        with pytest.raises(requests.ConnectionError):
            session.post(server.url, data=b"again")
        assert len(server.requests) == 4


def test_an_unsent_post_is_retried() -> None:
    tries: list[Any] = []

    class Counting(Retry):  # type: ignore[misc]
        def increment(self, *args: Any, **kwargs: Any) -> Any:
            tries.append(kwargs["error"])
            return super().increment(*args, **kwargs)

    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=Counting(total=2)))
        with pytest.raises(requests.ConnectionError):
            session.post("http://127.0.0.1:1/", data=b"x")
    assert len(tries) == 3


# --- bodies and heads that are cut ---


@STREAMED
@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 9\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 999\r\n\r\n"
        + gzip.compress(b"x", mtime=0)[:12],
        b"Content-Length: 9223372036854775808\r\n\r\nabc",
        b"Content-Length : 9\r\n\r\nabc",
    ],
)
def test_a_body_that_is_cut_is_an_error(rest: bytes, streamed: bool) -> None:
    with RawServer(respond_and_close(HEAD + rest)) as server:
        with pytest.raises(requests.exceptions.ChunkedEncodingError) as caught:
            _ = requests.get(server.url, stream=streamed).content
    error: Any = caught.value
    assert error.request.url == server.url + "/"
    assert error.response.status_code == 200


def test_a_coded_body_that_is_cut_where_the_length_says_is_an_error() -> None:
    """In the drop-in."""
    cut = gzip.compress(b"hello" * 100)[:-6]
    coded = [("Content-Encoding", "gzip")]
    with RawServer(respond_and_close(response(cut, headers=coded))) as server:
        with pytest.raises(requests.exceptions.ContentDecodingError):
            _ = requests.get(server.url).content


def test_hooks_see_a_response_whose_body_then_breaks_off(session: requests.Session) -> None:
    seen: list[int] = []
    rest = b"Set-Cookie: a=1\r\nContent-Length: 9\r\n\r\nabc"
    with RawServer(respond_and_close(HEAD + rest)) as server:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            session.get(
                server.url, hooks={"response": lambda got, **_: seen.append(got.status_code)}
            )
    assert seen == [200]
    assert session.cookies["a"] == "1"


@STREAMED
@pytest.mark.parametrize("end", [b"HTTP/1.1 200 OK", HEAD, HEAD + b"X: y\r\n", HEAD + b"Content-"])
def test_a_head_that_is_cut_is_an_error(end: bytes, streamed: bool) -> None:
    with RawServer(respond_and_close(end)) as server, pytest.raises(requests.ConnectionError):
        requests.get(server.url, stream=streamed)


@STREAMED
@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1\t200 OK",
        b"HTTP/2026 05:00:00",
        b"HTTP/3200 x",
        b"HTTP/2 2",
        b"HTTP/1.1 2000 OK",
        b"\r\nHTTP/1.1 200 OK",
        b"HTTP/1.1 103 Early\r\n\r\n\nHTTP/1.1 200 OK",
    ],
)
def test_an_invalid_status_line_is_an_error_and_ends_its_connection(
    session: requests.Session, line: bytes, streamed: bool
) -> None:
    odd = line + b"\r\nContent-Length: 2\r\n\r\nok"
    with RawServer(respond(odd, response(b"fine"))) as server:
        with pytest.raises(requests.ConnectionError) as caught:
            session.get(server.url, stream=streamed)
        assert caught.value.request.url == server.url + "/"
        assert session.post(server.url, data=b"x", stream=streamed).content == b"fine"
        assert server.connections == 2


# --- heads and bodies that are odd ---


def get(fields: dict[str, str], body: bytes = b"x", **options: Any) -> requests.Response:
    """Return the response of a server that sends these fields."""
    with RawServer(respond(response(body, headers=fields.items()))) as server:
        found = requests.get(server.url, **options)
        _ = found.content
        return found


CHARSETS = ["punycode", "idna", "undefined", "utf-7", "base64", "nonsense", "a" * 1000]


@STREAMED
@pytest.mark.parametrize("charset", CHARSETS)
def test_an_unknown_charset_means_utf_8(charset: str, streamed: bool) -> None:
    body = "h\xe9-+ADw-\n".encode()
    fields = {"Content-Type": f"text/plain; charset={charset}"}
    with RawServer(respond(response(body, headers=fields.items()))) as server:
        found = requests.get(server.url)
        assert found.encoding == charset
        assert found.text == body.decode()
        assert pickle.loads(pickle.dumps(found)).text == body.decode()
        assert "".join(found.iter_content(1, decode_unicode=True)) == body.decode()
        with requests.get(server.url, stream=streamed) as streamed_answer:
            assert list(streamed_answer.iter_lines(decode_unicode=True)) == [body.decode().strip()]


@pytest.mark.parametrize("charset", ["utf-16", "utf-32"])
def test_a_charset_without_a_byte_order_mark_is_read(charset: str) -> None:
    response = get(
        {"Content-Type": f"text/plain; charset={charset}"}, "h\xe9".encode(charset + "-le")
    )
    assert response.text == "".join(response.iter_content(1, decode_unicode=True)) == "h\xe9"


def test_an_encoding_that_a_program_sets_may_be_any_codec_for_text() -> None:
    response = get({"Content-Type": "text/plain"}, b"\\u0041")
    response.encoding = "unicode_escape"
    assert response.text == "".join(response.iter_content(1, decode_unicode=True)) == "A"


@pytest.mark.parametrize("body", [b"[" * 200_000, b"1" * 5000])
@pytest.mark.parametrize("raw", [False, True])
def test_json_that_python_cannot_parse_is_an_error(body: bytes, raw: bool) -> None:
    with RawServer(respond(response(body))) as server:
        with requests.get(server.url, stream=True) as found:
            with pytest.raises(requests.JSONDecodeError):
                (found.raw if raw else found).json()


@pytest.mark.parametrize("date", ["Wed, 21 Fed 2027 07:28:00 GMT", "21 Oct " + "9" * 5000])
def test_an_invalid_date_loses_no_cookie(session: requests.Session, date: str) -> None:
    fields = [("Set-Cookie", f"a=1; Expires={date}"), ("Set-Cookie", "b=2")]
    with RawServer(respond(response(headers=fields))) as server:
        found = session.get(server.url)
    assert found.cookies.get_dict() == session.cookies.get_dict() == {"a": "1", "b": "2"}


@STREAMED
def test_too_many_codings_are_an_error_that_names_its_request(streamed: bool) -> None:
    """In the drop-in."""
    fields = {"Content-Encoding": ", ".join(["gzip"] * 6)}
    with RawServer(respond(response(b"x", headers=fields.items()))) as server:
        with pytest.raises(requests.exceptions.ContentDecodingError) as caught:
            _ = requests.get(server.url, stream=streamed).content
        assert caught.value.request.url == server.url + "/"
        with requests.get(server.url, stream=True) as found:
            with pytest.raises(requests.exceptions.ContentDecodingError) as caught:
                found.raw.read(decode_content=True)
            assert caught.value.request is not None


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000])
def test_an_invalid_length_is_none(length: str) -> None:
    head = HEAD + f"Content-Length : {length}\r\n\r\n".encode("latin-1")
    with RawServer(respond_and_close(head)) as server:
        with requests.get(server.url, stream=True) as response:
            assert response.raw.length_remaining is None


@STREAMED
@pytest.mark.parametrize(
    "response", [b"garbage", b"HTTP/2026 05:00\r\n\r\n", HEAD + b"X: y", b"\r\n\r\n"]
)
def test_an_invalid_response_to_connect_is_a_proxy_error(response: bytes, streamed: bool) -> None:
    with RawServer(respond_and_close(response)) as proxy:
        with pytest.raises(requests.exceptions.ProxyError) as caught:
            requests.get("https://made.up/", proxies={"https": proxy.url}, stream=streamed)
    assert caught.value.request.url == "https://made.up/"


# --- lines ---


def lines_of(pieces: list[Any], delimiter: Any) -> Iterator[Any]:
    """Give what requests makes of the pieces, each joined with all of the line before it."""
    pending = None
    for piece in pieces:
        text = piece if pending is None else pending + piece
        lines = text.split(delimiter) if delimiter else text.splitlines()
        goes_on = lines and lines[-1] and lines[-1][-1] == text[-1]
        pending = lines.pop() if goes_on else None
        yield from lines
    if pending is not None:
        yield pending


class Given(requests.Response):
    """A response whose body comes in these pieces."""

    def __init__(self, pieces: Any) -> None:
        super().__init__()
        self.pieces = pieces

    def iter_content(self, *arguments: Any, **options: Any) -> Any:
        return iter(self.pieces)


TEXTS = st.lists(st.text(alphabet="ab\r\n\x0b\x85\u2028", max_size=5), max_size=9)


@given(TEXTS, st.sampled_from([None, "a", "ab", "aba", "\r\n"]), st.booleans())
def test_lines_are_those_of_requests(
    texts: list[str], delimiter: str | None, are_bytes: bool
) -> None:
    pieces: list[Any] = [text.encode() for text in texts] if are_bytes else texts
    wanted: Any = delimiter.encode() if delimiter and are_bytes else delimiter
    assert list(Given(pieces).iter_lines(delimiter=wanted)) == list(lines_of(pieces, wanted))


@pytest.mark.parametrize("delimiter", [None, b"\n", b"abc"])
def test_a_long_line_in_small_parts_is_joined_once(delimiter: bytes | None) -> None:
    class Piece(bytes):
        """One whose sums are counted: they are what takes the time."""

        copied = 0

        def __radd__(self, other: Any) -> bytes:
            Piece.copied += len(other)
            return bytes(other) + bytes(self)

        def __add__(self, other: Any) -> bytes:
            Piece.copied += len(other)
            return bytes(self) + bytes(other)

    tracemalloc.start()
    try:
        (line,) = Given(Piece(b"ab") for _ in range(20_000)).iter_lines(delimiter=delimiter)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert line == b"ab" * 20_000
    assert Piece.copied < 10 * len(line)
    assert peak < 6 * len(line)


_REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: /next\r\n"


@STREAMED
@pytest.mark.parametrize("retries", [0, Retry(total=3)])
@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 9\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_a_redirect_is_followed_even_if_its_body_fails(
    rest: bytes, retries: Any, streamed: bool
) -> None:
    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        conn.send(response(b"there") if head.startswith(b"GET /next") else _REDIRECT + rest)

    with RawServer(handler) as server, requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        found = session.get(server.url, stream=streamed)
        assert found.text == "there"
        assert [hop.status_code for hop in found.history] == [302]
        assert len(server.requests) == 2


# --- injection ---


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X": "a\nb"}},
        {"headers": {"X": "a\rb"}},
        {"headers": {"X": "a\0b"}},
        {"headers": {"X": b"a\r\nY: b"}},
        {"headers": {"X\r\nY": "a"}},
        {"headers": {"X\0": "a"}},
        {"headers": {"X:": "a"}},
        {"headers": {b"X\n": "a"}},
        {"headers": {"": "a"}},
        {"headers": {"Host": "a\r\nX: b"}},
        {"cookies": {"a": "b\r\nX: y"}},
        {"cookies": {"a\nX": "b"}},
        {"cookies": {"a": "b\0"}},
        {"files": {"f": ("n\0", b"x")}},
        {"files": {"f": ("n", b"x", "text/plain\r\nX: y")}},
        {"files": {"f": ("n", b"x", "text/plain", {"X": "a\nb"})}},
        {"files": {"f": ("n", b"x", "text/plain", {"X\r\n": "a"})}},
        {"method": "GET / HTTP/1.1\r\nX:"},
        {"method": "GET\n"},
        {"method": "G ET"},
        {"method": ""},
        {"method": "GET\0"},
        {"data": iter([b"x"]), "headers": {"Content-Length": "1\r\nX: y"}},
        {"data": iter([b"x"]), "headers": {"Content-Length": "-1"}},
        {"data": iter([b"x"]), "headers": {"Content-Length": "one"}},
    ],
)
def test_a_value_that_would_break_the_message_is_refused_before_anything_is_sent(
    app: AppServer, options: dict[str, Any]
) -> None:
    """In the drop-in."""
    with pytest.raises(ValueError):
        requests.request(url=app.url, **{"method": "POST", **options})
    assert app.connections == 0


@pytest.mark.parametrize(
    "change",
    [
        {"method": "GET / HTTP/1.1\r\nX:"},
        {"headers": {"X": "a\r\nb"}},
        {"headers": {"X\r\nY": "b"}},
        {"headers": {"X": 1}},
    ],
)
def test_a_prepared_request_is_checked_again_when_it_is_sent(
    session: requests.Session, app: AppServer, change: dict[str, Any]
) -> None:
    """What a program changes afterwards."""
    prepared = session.prepare_request(requests.Request("GET", app.url))
    vars(prepared).update(change)
    with pytest.raises(ValueError):
        session.send(prepared)
    assert app.connections == 0


@pytest.mark.parametrize("path", ["/a\r\nX: y", "/a b\tc\0d\x7f", "/?a=\r\nX: y", "/\u2028\n"])
def test_a_url_cannot_end_the_request_line(
    session: requests.Session, app: AppServer, path: str
) -> None:
    """In the drop-in."""
    session.get(app.url + path)
    prepared = session.prepare_request(requests.Request("GET", app.url))
    prepared.url = app.url + path
    session.send(prepared)
    for record in app.requests:
        assert record.raw.split(b"\r\n")[0].count(b" ") == 2
        assert record.header("x") is None


@pytest.mark.parametrize("where", ["field", "file"])
def test_a_name_in_a_form_cannot_end_its_header(app: AppServer, where: str) -> None:
    """In the drop-in."""
    name = 'a"\r\nX: y'
    files = {name: ("f", b"1")} if where == "field" else {"f": (name, b"1")}
    body = requests.post(app.url + "/echo", data={name: "v"}, files=files).json()["body"]
    assert "\r\nX:" not in body
    assert body.count("a%22%0D%0AX: y") == 2


# --- secrets ---


def text_of_error(error: BaseException) -> str:
    """Return all that a log could show of an error."""
    seen: list[BaseException] = []

    def shown(found: Any) -> str:
        if not isinstance(found, BaseException) or found in seen:
            return ""
        seen.append(found)
        below = (*found.args, found.__cause__, getattr(found, "reason", None))
        return f"{found} {found!r} {found.args}" + "".join(map(shown, below))

    lines = traceback.TracebackException.from_exception(error).format()
    # The lines of source are the tests' own.
    return shown(error) + "".join([line for line in lines if not line.startswith("  File")])


@pytest.mark.parametrize(
    "url",
    [
        "http://user:s3cret@127.0.0.1:1/",
        "http://user:s3cret@no-such-host.invalid/",
        "http://user:s3cret@host:99999/",
        "http://user:s3cret@ho st/",
        "http://user:s3cret@[::1/",
        "http://user:s3cret@*host/",
        "http://user:s3cret@/",
        "http://user:s3cret/more@host/",
        "http://user:s3cret#more@host/",
        "http:user:s3cret@host",
        "ftp://user:s3cret@host/",
        "httpx://user:s3cret@host/",
        "user:s3cret@host/path",
        "//user:s3cret@host/",
    ],
)
def test_a_password_in_a_url_is_in_no_error(session: requests.Session, url: str) -> None:
    """In the drop-in."""
    with pytest.raises(requests.RequestException) as caught:
        session.get(url, timeout=1)
    assert SECRET not in text_of_error(caught.value)


@pytest.mark.parametrize("path", ["/stall", "/truncated", "/status/404", "/redirect/9", "/bytes/9"])
@STREAMED
def test_a_password_in_a_url_is_in_no_error_of_an_exchange(
    session: requests.Session, app: AppServer, path: str, streamed: bool
) -> None:
    """In the drop-in, whatever goes wrong."""
    session.max_redirects = 3
    url = app.url.replace("//", "//user:s3cret@")
    with pytest.raises(requests.RequestException) as caught:
        response = session.get(url + path, timeout=0.05, stream=streamed)
        response.raise_for_status()
        response.json()
    assert SECRET not in text_of_error(caught.value)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://user:s3cret@127.0.0.1:1",
        "https://user:s3cret@127.0.0.1:1",
        "socks5://user:s3cret@127.0.0.1:1",
        "http://user:s3cret@no-such-host.invalid",
        "http://user:s3cret@",
        "http://user:s3cret@host:x",
        "gopher://user:s3cret@host",
        "user:s3cret@127.0.0.1:1",
    ],
)
@pytest.mark.parametrize("retries", [0, 1])
def test_the_password_of_a_proxy_is_in_no_error(
    session: requests.Session, app: AppServer, proxy: str, retries: int
) -> None:
    """In the drop-in."""
    for scheme in ("http", "https"):
        session.mount(f"{scheme}://", HTTPAdapter(max_retries=retries))
        with pytest.raises(requests.RequestException) as caught:
            session.get(f"{scheme}://127.0.0.1:1/", proxies={scheme: proxy}, timeout=1)
        assert SECRET not in text_of_error(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Authorization": "Bearer s3cret\n"}},
        {"headers": {"Authorization": b"Bearer s3cret\n"}},
        {"headers": {"authorization": " Bearer s3cret"}},
        {"headers": {"Authorization": "Bearer s3cret\0"}},
        {"headers": {"Authorization": "Bearer s3cret\u20ac"}},
        {"headers": {"Authorization": ["Bearer s3cret"]}},
        {"headers": {"Authorization: Bearer s3cret": "x"}},
        {"headers": {"Proxy-Authorization": "Basic s3cret\n"}},
        {"headers": {"Cookie": "a=s3cret\n"}},
        {"cookies": {"a": "s3cret\n"}},
        {"cookies": {"a": "s3cret\u20ac"}},
    ],
)
def test_a_header_with_credentials_is_in_no_error(app: AppServer, options: dict[str, Any]) -> None:
    """In the drop-in."""
    with pytest.raises(requests.exceptions.InvalidHeader) as caught:
        requests.get(app.url, **options)
    assert SECRET not in text_of_error(caught.value)


def test_reprs_show_no_credentials(app: AppServer) -> None:
    """In the drop-in."""
    session = requests.Session()
    session.auth = ("user", SECRET)
    url = app.url.replace("//", "//user:s3cret@")
    response = session.get(url, auth=HTTPDigestAuth("user", SECRET))
    shown = (
        session,
        session.adapters,
        response,
        response.request,
        response.raw,
        response.connection,
    )
    assert SECRET not in "".join(map(repr, (*shown, HTTPProxyAuth("user", SECRET))))
    session.close()


@pytest.mark.parametrize("source", ["header", "argument", "session", "url", "digest", "hook first"])
@pytest.mark.parametrize("status", [302, 307])
def test_credentials_do_not_follow_to_another_origin(
    session: requests.Session, app: AppServer, other: AppServer, source: str, status: int
) -> None:
    """In the drop-in, however they were given."""
    path = to(other.at("localhost") + "/digest?user=user&password=s3cret") + f"&status={status}"
    url, options = app.url + path, dict[str, Any]()
    if source == "header":
        options["headers"] = {"AUTHORIZATION": SECRET}
    elif source == "argument":
        options["auth"] = ("user", SECRET)
    elif source == "session":
        session.auth = ("user", SECRET)
    elif source == "url":
        url = url.replace("//", "//user:s3cret@", 1)
    else:
        session.auth = HTTPDigestAuth("user", SECRET)
    if source == "hook first":
        options["hooks"] = {"response": lambda got, **_: got}
    response = session.get(url, **options)
    assert response.status_code == 401
    assert len(other.requests) == 1
    assert other.requests[0].header("authorization") is None


def test_credentials_for_a_challenge_stay_with_its_origin(
    session: requests.Session, app: AppServer, other: AppServer
) -> None:
    """In the drop-in."""
    session.auth = HTTPDigestAuth("user", SECRET)
    protected = "/digest?user=user&password=s3cret"
    assert session.get(app.url + protected).status_code == 200
    assert session.get(app.url + to(other.url + protected)).status_code == 401
    assert [record.header("authorization") for record in other.requests] == [None]
    assert session.get(app.url + to(protected)).status_code == 200  # at its own origin it is met


def test_other_hooks_continue_at_another_origin(
    session: requests.Session, app: AppServer, other: AppServer
) -> None:
    seen: list[str] = []
    hooks = {"response": lambda got, **_: seen.append(got.url)}
    auth = HTTPDigestAuth("user", SECRET)
    prepared = session.prepare_request(
        requests.Request("GET", app.url + to(other.url + "/"), auth=auth, hooks=hooks)
    )
    session.send(prepared)
    assert seen == [prepared.url, other.url + "/"]
    assert len(prepared.hooks["response"]) == 3  # the caller's request stays as it was


def test_back_at_the_first_origin_there_are_no_credentials(
    session: requests.Session, app: AppServer, other: AppServer
) -> None:
    """In the drop-in."""
    session.get(app.url + to(other.url + to(app.url + "/echo")), auth=("user", SECRET))
    sent = [record.header("authorization") for record in app.requests]
    assert sent[0] is not None
    assert sent[1] is None


@pytest.mark.parametrize("source", ["header", "auth"])
def test_credentials_of_a_proxy_reach_no_origin(
    session: requests.Session, app: AppServer, tls_app: AppServer, certs: Any, source: str
) -> None:
    """In the drop-in."""
    options: dict[str, Any] = {"auth": HTTPProxyAuth("user", SECRET)}
    if source == "header":
        options = {"headers": {"Proxy-Authorization": "Basic s3cret"}}
    with HTTPProxy() as proxy:
        proxies = {"http": proxy.url, "https": proxy.url}
        session.get(app.url, **options)
        session.get(app.url, proxies=proxies, **options)
        session.get(tls_app.url, verify=str(certs.ca_path), **options)
        session.get(tls_app.url, verify=str(certs.ca_path), proxies=proxies, **options)
    for record in (*app.requests, *tls_app.requests):
        assert record.header("proxy-authorization") is None
    assert len(app.requests) == len(tls_app.requests) == 2


def test_a_host_header_does_not_send_cookies_to_another_host(
    session: requests.Session, app: AppServer, other: AppServer
) -> None:
    session.cookies.set("sid", SECRET, domain="inner.example", path="/")
    url = app.url + to(other.at("localhost") + "/echo")
    session.get(url, headers={"Host": "inner.example"})
    assert app.requests[0].header("cookie") == "sid=s3cret"
    assert other.requests[0].header("cookie") is None
    assert other.requests[0].header("host") == f"localhost:{other.port}"


# --- URLs ---


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://good\\@evil/", "good"),
        ("http://a@b@c/", "c"),
        ("http://good%2eevil/", "good.evil"),
        ("http://%65vil/", "evil"),
        ("http://good#@evil/", "good"),
        ("http://good?@evil/", "good"),
        ("http://bücher.de/", "xn--bcher-kva.de"),
        ("http://faß.de/", "xn--fa-hia.de"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://0177.0.0.1/", "127.0.0.1"),
        ("http://[fe80::1%25eth0]/", "fe80::1%eth0"),
        *((f"http://{bad}/", None) for bad in ("", "℀.com", "\uff45xample.com", "[v1.a]", "[::1")),
        *((f"http://h:{port}/", None) for port in ("65536", "+80", "8 0", "٨٠", "80:80")),
        *((f"http://{long}/", None) for long in ("a" * 64, "a." * 127 + "b")),
        ("http:/x/", None),
        ("//x/", None),
        ("x.com", None),
    ],
)
def test_a_url_has_one_host_or_is_refused(
    session: requests.Session, url: str, host: str | None
) -> None:
    """In the drop-in, which reads URLs as requests does."""
    asked: list[str] = []

    class Adapter(HTTPAdapter):
        def _attempt(self, sent: Any) -> Any:
            asked.append(sent.url.host)
            assert sent.url.wire.isascii()
            raise requests.ConnectionError("far enough")

    session.mount("http://", Adapter())
    with pytest.raises(requests.ConnectionError if host else ValueError):
        session.get(url)
    assert asked == ([] if host is None else [host])


@pytest.mark.parametrize("path", ["/a/%2e%2e/b", "/a/.%2E/b?x=/../y#/../z", "/%2e/b", "/a/../b"])
def test_the_response_url_is_the_requested_one(
    session: requests.Session, app: AppServer, path: str
) -> None:
    responses = [session.get(app.url + path), session.get(app.url + to(app.url + path))]
    prepared = session.prepare_request(requests.Request("GET", app.url))
    prepared.url = app.url + path.replace("%2e", ".").replace("%2E", ".")
    responses.append(session.send(prepared))
    for found in responses:
        target = str(found.url).removeprefix(app.url).partition("#")[0]
        assert found.request.path_url == target
        assert target in [record.target for record in app.requests]
    assert app.requests[-1].target == prepared.path_url


# --- redirects ---


def test_a_loop_of_redirects_ends(session: requests.Session, app: AppServer) -> None:
    """In the drop-in."""
    app.route("/loop", lambda record, conn: conn.reply(302, b"", [("Location", "/loop")]))
    with pytest.raises(requests.TooManyRedirects) as caught:
        session.get(app.url + "/loop")
    assert len(app.requests) == 31
    error: Any = caught.value
    assert error.response.status_code == 302
    assert app.connections == 1


def test_many_redirects_are_followed_if_configured(
    session: requests.Session, app: AppServer
) -> None:
    session.max_redirects = 500
    assert len(session.get(app.url + "/redirect/400").history) == 400


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://h/", "javascript:x", "data:,x", "gopher://h/", "unix:///x", "x:"],
)
def test_a_redirect_to_another_scheme_opens_nothing(
    session: requests.Session, app: AppServer, location: str
) -> None:
    """In the drop-in."""
    with pytest.raises(requests.exceptions.InvalidSchema):
        session.get(app.url + to(location))
    assert len(app.requests) == 1


@pytest.mark.parametrize("location", ["http://h:99999/", "http://[::1/", "//[", "http://a b/"])
def test_a_redirect_to_no_url_is_an_error_of_ours(
    session: requests.Session, app: AppServer, location: str
) -> None:
    """In the drop-in."""
    with pytest.raises(requests.exceptions.InvalidURL):
        session.get(app.url + to(location))


# --- bodies ---


def test_a_body_in_response_to_head_is_no_part_of_the_next_response() -> None:
    fake = response(b"evil")

    def handler(conn: RawConnection) -> None:
        while head := conn.read_request()[0]:
            conn.send(response(fake) if head.startswith(b"HEAD") else response(b"good"))

    with RawServer(handler) as server, requests.Session() as session:
        found = session.head(server.url)
        assert found.headers["Content-Length"] == str(len(fake))
        assert found.content == b""
        assert session.get(server.url).content == b"good"
        with session.request("HEAD", server.url, stream=True) as streamed:
            assert streamed.raw.read() == b""
        assert session.get(server.url).content == b"good"


@pytest.mark.parametrize("kind", ["StringIO", "file", "str", "pieces", "rest"])
def test_the_length_of_text_is_that_of_its_utf_8(
    session: requests.Session, app: AppServer, tmp_path: Path, kind: str
) -> None:
    text = "größer\u20ac"
    path = tmp_path / "latin"
    path.write_text("größer\r\n", encoding="latin-1", newline="")
    expected = text.encode()
    body: Any = text
    if kind == "StringIO":
        body = io.StringIO(text)
    elif kind == "rest":
        body = io.StringIO("äö" + text)
        body.seek(2)
    elif kind == "file":
        expected = "größer\n".encode()  # as Python reads it
    elif kind == "pieces":
        body = iter(["grö", "ßer\u20ac"])
    if kind == "file":
        with (
            path.open(encoding="latin-1") as file,
            pytest.warns(curlhttp.exceptions.FileModeWarning),
        ):
            session.post(app.url + to("/echo") + "&status=307", data=file)
    else:
        session.post(app.url + "/echo", data=body, auth=lambda prepared: prepared)
    record = app.requests[-1]
    assert record.body == expected
    assert record.header("content-length") == (None if kind == "pieces" else str(len(expected)))


@pytest.mark.parametrize("length", [None, "9"])
def test_a_body_that_raises_ends_the_request_and_nothing_else(
    session: requests.Session, app: AppServer, length: str | None
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        raise KeyError("mine")

    whole: list[Record] = []
    app.route("/kept", lambda record, conn: whole.append(record) or conn.reply())  # type: ignore[func-returns-value]
    headers = {} if length is None else {"Content-Length": length}
    with pytest.raises(KeyError, match="mine"):
        session.post(app.url + "/kept", data=pieces(), headers=headers)
    assert session.get(app.url).text == "hello"
    assert whole == []


@pytest.mark.parametrize("given", ["Content-Length", "Transfer-Encoding"])
@pytest.mark.parametrize("data", [None, b"hello", "pieces"])
def test_the_framing_is_that_of_the_body_whatever_the_headers_say(
    session: requests.Session, app: AppServer, given: str, data: Any
) -> None:
    """In the drop-in, where the body decides."""
    value = "5" if given == "Content-Length" else "chunked"
    body = iter([b"he", b"llo"]) if data == "pieces" else data
    method = "GET" if data is None else "POST"
    session.request(method, app.url + "/echo", data=body, headers={given: value})
    session.get(app.url + "/echo")
    first, second = app.requests
    assert first.body == (b"" if data is None else b"hello")
    assert len(first.values("content-length") + first.values("transfer-encoding")) <= 1
    assert second.connection in (0, 1)
    assert second.path == "/echo"


_BOMB = gzip.compress(bytes(30_000_000))


@pytest.fixture(scope="module")
def bomb() -> Iterator[RawServer]:
    chunked = HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(_BOMB), _BOMB)
    plain = response(_BOMB, headers=[("Content-Encoding", "gzip")])

    def handler(conn: RawConnection) -> None:
        while head := conn.read_request()[0]:
            conn.send(chunked + chunk if b"chunked" in head else plain)

    with RawServer(handler) as server:
        yield server


def peak(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", ["/plain", "/chunked"])
@pytest.mark.parametrize("size", [1024, None])
def test_a_streamed_bomb_is_yielded_in_small_chunks(
    session: requests.Session, bomb: RawServer, path: str, size: int | None
) -> None:
    """In the drop-in."""

    def read() -> None:
        total = 0
        with session.get(bomb.url + path, stream=True) as response:
            for piece in response.iter_content(size):
                assert len(piece) <= (size or 65536)
                total += len(piece)
                if total > 3_000_000:
                    break

    read()
    assert peak(read) < 1_000_000


def test_a_bomb_that_is_read_raw_returns_the_requested_size(
    session: requests.Session, bomb: RawServer
) -> None:
    """In the drop-in, by its raw file."""

    def read() -> None:
        with session.get(bomb.url, stream=True) as response:
            assert response.raw.read(10, decode_content=True) == bytes(10)

    read()
    assert peak(read) < 1_000_000


def test_a_bomb_read_whole_takes_no_more_memory_than_its_chunks(
    session: requests.Session, bomb: RawServer
) -> None:
    """In the drop-in."""
    assert peak(lambda: session.get(bomb.url).content) < 75_000_000


@pytest.mark.parametrize("size", [0, -1])
def test_an_invalid_chunk_size_loses_no_bytes(
    session: requests.Session, app: AppServer, size: int
) -> None:
    for streamed in (False, True):
        with session.get(app.url + "/bytes/10", stream=streamed) as response:
            assert len(b"".join(response.iter_content(size))) == 10


# --- time limits ---

Timeout = curlhttp.Timeout


@STREAMED
@pytest.mark.parametrize(
    ("path", "timeout", "kind"),
    [
        ("/stall", 0.05, requests.ReadTimeout),
        ("/stall", (30, 0.05), requests.ReadTimeout),
        ("/stall", Timeout(read=0.05), requests.ReadTimeout),
        ("/stall", Timeout(total=0.05), curlhttp.DeadlineExceeded),
        ("/stall-after", (30, 0.5), requests.ConnectionError),  # its head may be late, too
        ("/stall-after", Timeout(total=0.05), curlhttp.DeadlineExceeded),
        ("/drip?n=100&interval=0.01", Timeout(total=0.1), curlhttp.DeadlineExceeded),
        ("/stall-in-head", 0.05, requests.ReadTimeout),
    ],
)
@pytest.mark.parametrize("where", ["request", "session"])
def test_each_limit_ends_the_request(
    app: AppServer, path: str, timeout: Any, kind: Any, streamed: bool, where: str
) -> None:
    if isinstance(timeout, float):  # it bounds connecting, too
        timeout = paced(timeout)
    if where == "session":
        made, options = requests.Session(timeout=timeout), {}
    else:
        made, options = requests.Session(timeout=None), {"timeout": timeout}
    begun = time.monotonic()
    with made, pytest.raises(kind) as caught:
        _ = made.get(app.url + path, stream=streamed, **options).content
    assert_in_time(time.monotonic() - begun, paced(0.1), 0.9)
    assert isinstance(caught.value, requests.RequestException)


@STREAMED
@pytest.mark.parametrize("timeout", [0.05, (0.05, 9), Timeout(connect=0.05), Timeout(total=0.05)])
def test_each_limit_ends_the_attempt_to_connect(timeout: Any, streamed: bool) -> None:
    kind: Any = requests.ConnectTimeout
    if getattr(timeout, "total", None):
        kind = curlhttp.DeadlineExceeded
    with BlackHole() as hole, pytest.raises(kind):
        requests.get(hole.url, timeout=timeout, stream=streamed)


def test_the_total_is_one_of_all_redirects_together(
    session: requests.Session, app: AppServer
) -> None:
    def slow(record: Record, conn: AppConnection) -> None:
        conn.wait_closed(paced(0.08))
        conn.reply(302, b"", [("Location", "/slow")])

    app.route("/slow", slow)
    begun = time.monotonic()
    with pytest.raises(curlhttp.DeadlineExceeded):
        session.get(app.url + "/slow", timeout=Timeout(total=paced(0.2)))
    assert_in_time(time.monotonic() - begun, paced(0.2), 0.3)
    assert len(app.requests) <= 3


def test_a_full_pool_is_waited_for_no_longer_than_said(app: AppServer) -> None:
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(pool_maxsize=1, pool_block=True))
        with session.get(app.url + "/bytes/1000000", stream=True):
            with pytest.raises(curlhttp.PoolTimeout):
                session.get(app.url, timeout=Timeout(pool=0.05, total=30))
        assert session.get(app.url).text == "hello"


# --- TLS ---


@pytest.mark.parametrize("verify", [False, None, "/nowhere", [], ["a"], {"a": 1}])
def test_plain_http_ignores_verify(verify: Any, app: AppServer) -> None:
    with requests.Session() as session:
        assert session.get(app.url).ok
        assert session.get(app.url, verify=verify).ok
    assert app.connections == 1


def test_a_request_without_verification_does_not_trust_for_the_next(
    session: requests.Session, tls_app: AppServer
) -> None:
    """In the drop-in."""
    for streamed in (False, True):
        with pytest.warns(Warning, match="Unverified"):
            _ = session.get(tls_app.url, verify=False, stream=streamed).content
        for verify in (True, None):
            with pytest.raises(requests.exceptions.SSLError):
                session.get(tls_app.url, verify=verify, stream=streamed)
        prepared = session.prepare_request(requests.Request("GET", tls_app.url))
        with pytest.raises(requests.exceptions.SSLError):
            session.send(prepared, stream=streamed)


# --- pickling ---


def test_a_pickled_session_continues(session: requests.Session, app: AppServer) -> None:
    session.auth, session.timeout = ("user", SECRET), 3
    session.get(app.url + "/cookies/set?a=1")
    twin = pickle.loads(pickle.dumps(session))
    with twin:
        response = twin.get(app.url + "/cookies")
    assert response.json()["cookies"] == {"a": "1"}
    assert app.requests[-1].header("authorization") is not None
    assert twin.timeout == 3
    assert app.connections == 2  # connections do not travel


@STREAMED
def test_a_pickled_response_has_its_body(
    session: requests.Session, app: AppServer, streamed: bool
) -> None:
    response = session.get(app.url + "/redirect/2", stream=streamed)
    twin = pickle.loads(pickle.dumps(response))
    assert twin.text == "hello"
    assert [hop.status_code for hop in twin.history] == [302, 302]
    assert twin.request.url == app.url + "/"
    assert twin.raw is None
    assert twin.http_version == "HTTP/1.1"
    assert twin.timings == response.timings


def test_a_pickled_adapter_has_its_settings() -> None:
    adapter = HTTPAdapter(3, 4, max_retries=2, pool_block=True, http2=True)
    twin = pickle.loads(pickle.dumps(adapter))
    for name in ("_pool_connections", "_pool_maxsize", "_pool_block", "_http2"):
        assert getattr(twin, name) == getattr(adapter, name)
    assert twin.max_retries.total == 2


class Around:
    """Stand around a request, as the one that requests-mock hands out."""

    def __init__(self, request: requests.PreparedRequest) -> None:
        self.request = request

    def __getattr__(self, name: str) -> Any:
        if name == "__setstate__":
            raise AttributeError(name)
        return getattr(self.request, name)


def test_objects_around_a_request_are_pickled_without_credentials(
    session: requests.Session, app: AppServer
) -> None:
    response = session.get(app.url, auth=("user", SECRET), headers={"X-A": "1"})
    response.request = around = Around(response.request)
    twin = pickle.loads(pickle.dumps(response))
    assert type(twin.request) is Around
    assert twin.request.headers["X-A"] == "1"
    assert "Authorization" not in twin.request.headers
    assert "Authorization" in around.request.headers


@pytest.mark.parametrize(
    ("path", "status"), [("/truncated", 200), ("/stall", None), ("/status/500", 500)]
)
def test_a_pickled_error_says_the_same(
    session: requests.Session, app: AppServer, path: str, status: int | None
) -> None:
    with pytest.raises(requests.RequestException) as caught:
        session.get(app.url + path, timeout=paced(0.3)).raise_for_status()
    twin: Any = pickle.loads(pickle.dumps(caught.value))
    assert type(twin).__name__ == type(caught.value).__name__
    # The names of urllib3's pools do not travel, nor do they with urllib3.
    assert str(twin)[-60:] == str(caught.value)[-60:]
    assert twin.request.url == app.url + path
    assert getattr(twin.response, "status_code", None) == status


def test_a_field_may_have_a_name_that_email_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """http.client itself drops such a field, and all that follow."""

    def refuse(policy: Any, name: str, value: str) -> None:  # as CPython 3.14 does
        raise ValueError(name)

    monkeypatch.setattr(email.policy.Compat32, "header_store_parse", refuse)
    head = b"HTTP/1.1 200 OK\r\nX\xc4: 1\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    with (
        RawServer(respond_and_close(head)) as server,
        requests.get(server.url, stream=True) as answer,
    ):
        assert answer.raw._original_response.msg["x\xc4"] == "1"
        assert answer.cookies.get_dict() == {"a": "b"}
