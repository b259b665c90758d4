"""Without free descriptors, every error says so, and no slot is lost."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import pycurl
import pytest

import curlhttp
from curlhttp.exceptions import ConnectionError, SSLError
from tests.servers import AppServer, Certs, RawServer, refused_port, respond_and_stall
from tests.servers.websocket import echo, speaking
from tests.support.curl_errors import find_shortage
from tests.support.internals import run_script

resource = pytest.importorskip("resource", reason="this system has no limit of open files")

_BEGIN = """
import json, os, resource, sys, anyio, curlhttp
from curlhttp.exceptions import RequestException
from tests.libcurl.test_open_files import Descriptors
url, ws_url, ca, way, colour = sys.argv[1:]
names = Descriptors()
settings = dict(verify=ca, timeout=20, max_connections=2)
"""

_BLOCKING = (
    _BEGIN
    + """
import httpx, curlhttp.httpx, curlhttp.requests

def stream(client):
    with client.stream("GET", url) as response:
        response.read()

def events(client):
    with client.sse(url, reconnect=False) as found:
        list(found)

def session(_):
    with curlhttp.Session() as session:
        session.verify = ca
        session.get(url)

def transport(_):
    with httpx.Client(transport=curlhttp.httpx.Transport(verify=ca)) as client:
        client.get(url)

ways = {
    "get": lambda client: client.get(url),
    "guard": lambda client: client.get(url),
    "map": lambda client: [names.see(each) for each in client.map([url] * 3, concurrency=2)],
    "stream": stream,
    "download": lambda client: client.download(url, ca + ".got"),
    "websocket": lambda client: client.websocket(ws_url).close(),
    "sse": events,
    "session": session,
    "httpx": transport,
}
if way == "guard":
    settings["guard"] = curlhttp.PublicOnly(allow=["127.0.0.0/8", "::1"])
for left in (None, 0, 1, 2, 3, 4, 5, 6):
    with curlhttp.Client(**settings) as client, names.left(left):
        for _ in range(2):
            names.call(lambda: ways[way](client))
        names.free()
        names.check(client.get(url))  # no slot is lost
names.print()
"""
)

_ASYNC = (
    _BEGIN
    + """
async def stream(client):
    async with client.stream("GET", url) as response:
        await response.aread()

async def events(client):
    async with client.sse(url, reconnect=False) as found:
        async for _ in found:
            pass

async def mapped(client):
    async with client.map([url] * 3, concurrency=2) as found:
        async for each in found:
            names.see(each)

async def websocket(client):
    await (await client.websocket(ws_url)).close()

ways = {
    "get": lambda client: client.get(url),
    "guard": lambda client: client.get(url),
    "map": mapped,
    "stream": stream,
    "download": lambda client: client.download(url, ca + ".got"),
    "websocket": websocket,
    "sse": events,
}
if way == "guard":
    settings["guard"] = curlhttp.PublicOnly(allow=["127.0.0.0/8", "::1"])

async def main():
    for left in (None, 0, 1, 2, 3, 4, 5, 6):
        async with curlhttp.AsyncClient(**settings) as client:
            with names.left(left):
                for _ in range(2):
                    with names.calling():
                        await ways[way](client)
                names.free()
                names.check(await client.get(url))

options = {"use_uvloop": True} if colour == "uvloop" else {}
anyio.run(main, backend="trio" if colour == "trio" else "asyncio", backend_options=options)
names.print()
"""
)


class Descriptors:
    """Takes all but some descriptors of a process, and collects the resulting errors."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._left: int | None = None
        self.failed: list[str] = []
        self.odd: list[str] = []
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))

    def left(self, count: int | None) -> Descriptors:
        self._left = count
        return self

    def __enter__(self) -> None:
        if self._left is None:  # the first time: all modules are loaded
            return
        try:
            while True:
                self._held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(self._left):
            os.close(self._held.pop())

    def __exit__(self, *_: object) -> None:
        self.free()

    def free(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def call(self, do: Any) -> None:
        with self.calling():
            do()

    def calling(self) -> _Calling:
        return _Calling(self)

    def see(self, outcome: object) -> None:
        if not isinstance(outcome, BaseException):
            return
        text = f"{type(outcome).__name__}: {outcome}"
        is_known = isinstance(outcome, OSError) or "ConnectError" in text  # the latter is httpx's
        is_named = self._left is not None and "too many open files" in text.lower()
        (self.failed if is_known and is_named else self.odd).append(text)

    def check(self, response: Any) -> None:
        if response.status_code != 200:
            self.odd.append(str(response))

    def print(self) -> None:
        sys.stdout.write("\n".join([str(len(self.failed)), *self.odd]))


class _Calling:
    def __init__(self, names: Descriptors) -> None:
        self._names = names

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        self._names.see(error)
        return isinstance(error, Exception)


def _lacks(code: str, way: str, colour: str, app: AppServer, certs: Certs) -> None:
    url = app.url + ("/sse" if way == "sse" else "/bytes/10")
    with RawServer(speaking(echo)) as server:
        ws_url = server.url.replace("http", "ws", 1)
        out = run_script(code, url, ws_url, str(certs.ca_path), way, colour)
    failed, *odd = out.splitlines()
    assert odd == []
    assert int(failed) > 4


def _events(record: Any, conn: Any) -> None:
    conn.reply(200, b"data: x\n\n", [("Content-Type", "text/event-stream")])


@pytest.mark.slow
@pytest.mark.parametrize("way", [
    "get", "guard", "map", "stream", "download", "websocket", "sse", "session", "httpx",
])  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_lack_of_descriptors_is_named_in_every_error(
    app: AppServer, tls_app: AppServer, certs: Certs, way: str, scheme: str
) -> None:
    server = app if scheme == "http" else tls_app
    server.route("/sse", _events)
    _lacks(_BLOCKING, way, "blocking", server, certs)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["get", "guard", "map", "stream", "download", "websocket", "sse"])
@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
def test_a_lack_of_descriptors_is_named_in_every_event_loop(
    tls_app: AppServer, certs: Certs, way: str, colour: str
) -> None:
    if colour == "uvloop":
        pytest.importorskip("uvloop")
    tls_app.route("/sse", _events)
    _lacks(_ASYNC, way, colour, tls_app, certs)


_THREADS = """
import resource, sys, threading, curlhttp
resource.setrlimit(resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with curlhttp.Client() as client:
    together = threading.Barrier(80)
    def get():
        together.wait()
        client.get(sys.argv[1])
    threads = [threading.Thread(target=get) for _ in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = list(client.map([sys.argv[1]] * 200))
failed = [each for each in every if isinstance(each, curlhttp.RequestException)]
print(len(failed), {"(ulimit -n)" in str(error) for error in failed}, {e.is_local for e in failed})
"""


@pytest.mark.slow
def test_a_map_after_many_threads_names_the_lack_of_descriptors(app: AppServer) -> None:
    count, _, sets = run_script(_THREADS, app.url).partition(" ")
    assert int(count) > 0
    assert sets == "{True} {True}\n"


_ENDED = """
import sys, threading, curlhttp
from tests.libcurl.test_open_files import Descriptors
names = Descriptors()
with curlhttp.Client(timeout=200) as client:
    response = client.stream("GET", sys.argv[1]).__enter__()
    pieces = response.iter_bytes()
    assert next(pieces) == b"begun"
    def read():
        try:
            next(pieces)
        except curlhttp.RequestException as error:
            print(type(error).__name__)
    reader = threading.Thread(target=read)
    poller, waits = response._incoming._transfer.driver.poller, threading.Event()
    really = poller.poll
    poller.poll = lambda seconds: (seconds > 1 and waits.set()) or really(seconds)
    with names.left(0):
        reader.start()
        waits.wait()
        response.close()
        reader.join()
"""


@pytest.mark.slow
def test_a_read_can_be_ended_without_descriptors() -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun"
    with RawServer(respond_and_stall(begun)) as server:
        assert run_script(_ENDED, server.url) == "StreamConsumedError\n"


# --- other errors ---


def _full(monkeypatch: pytest.MonkeyPatch, number: int, left: int = 0) -> None:
    """Let no file be opened any more, after so many."""
    opened: list[object] = []
    really = os.open

    def refuse(*arguments: Any) -> int:
        if len(opened) >= left:
            raise OSError(number, os.strerror(number))
        opened.append(arguments)
        return really(*arguments)

    monkeypatch.setattr(os, "open", refuse)


def _named(code: int, os_errno: int = 0) -> str:
    return str(find_shortage(code, os_errno) or "")


def test_a_lack_of_descriptors_is_distinguished_from_other_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _named(pycurl.E_COULDNT_CONNECT) == ""
    _full(monkeypatch, errno.EMFILE)
    assert "no file descriptors left" in _named(pycurl.E_COULDNT_CONNECT)
    assert "no file descriptors left" in _named(pycurl.E_COULDNT_CONNECT, errno.EMFILE)
    assert _named(pycurl.E_COULDNT_CONNECT, errno.ECONNREFUSED) == ""
    assert _named(pycurl.E_RECV_ERROR) == ""
    monkeypatch.undo()
    _full(monkeypatch, errno.EMFILE, 1)
    assert "1 file descriptor left: the process has" in _named(pycurl.E_COULDNT_RESOLVE_HOST)
    monkeypatch.undo()
    _full(monkeypatch, errno.ENFILE, 2)
    assert "2 file descriptors left: the system has" in _named(pycurl.E_OUT_OF_MEMORY)
    monkeypatch.undo()
    _full(monkeypatch, errno.EACCES)
    assert _named(pycurl.E_COULDNT_CONNECT) == ""


def test_a_refused_connection_is_named_despite_a_lack_of_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with curlhttp.Client() as client, refused_port() as port:
        _full(monkeypatch, errno.EMFILE)
        with pytest.raises(ConnectionError, match="the connection was refused"):
            client.get(f"http://127.0.0.1:{port}/")


def test_an_unreadable_tls_file_is_a_tls_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _full(monkeypatch, errno.EMFILE, 1)
    error = find_shortage(pycurl.E_SSL_CACERT_BADFILE)
    assert isinstance(error, SSLError)
    assert error.is_local
