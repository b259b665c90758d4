"""Fork: a child never uses, closes or collects its parent's connections, and both continue."""

from __future__ import annotations

import pytest

from tests.servers import AppServer, Certs, H2Server, RawServer, response
from tests.support.internals import run_script

pytestmark = pytest.mark.slow

# Separate scripts: forking the test process would copy its servers.

_START = """
import gc, os, sys, curlhttp
url, ca = sys.argv[1:3]

def ask(client, name, number):
    body = client.post(url + "/echo", content=f"{name} {number}").json()["body"]
    assert body == f"{name} {number}", body

def wait(pid):
    assert os.waitpid(pid, 0)[1] == 0
"""

_BLOCKING = (
    _START
    + """
client = curlhttp.Client(verify=ca, http2=sys.argv[3] == "h2")
ask(client, "warm", 0)
streamed = client.stream("GET", url + "/bytes/100")
children = []
for child in range(2):
    pid = os.fork()
    if pid == 0:
        for number in range(20):
            ask(client, f"child {child}", number)
        client.close()
        if child:
            del client, streamed
            gc.collect()
            sys.exit()  # a normal exit, which frees what is left
        break
    children.append(pid)
else:
    for number in range(20):
        ask(client, "parent", number)
    for pid in children:
        wait(pid)
    for number in range(20):
        ask(client, "parent after", number)
    assert len(streamed.read()) == 100
    client.close()
    print("ok")
"""
)


@pytest.mark.parametrize("kind", ["plain", "tls", "h2"])
def test_parent_and_children_of_a_used_client_get_their_own_responses(
    app: AppServer, tls_app: AppServer, h2_app: H2Server, certs: Certs, kind: str
) -> None:
    """A fork shares no connection."""
    server = {"plain": app, "tls": tls_app, "h2": h2_app}[kind]
    assert run_script(_BLOCKING, server.url, str(certs.ca_path), kind) == "ok\n"
    # the stream took the first one, the parent's posts the next, and each child has its own
    assert server.connections == 4
    by_connection: dict[int, set[str]] = {}
    for record in server.requests:
        who = record.body.decode().rpartition(" ")[0].replace(" after", "")
        by_connection.setdefault(record.connection, set()).add(who or "stream")
    assert sorted(map(sorted, by_connection.values())) == [
        ["child 0"],
        ["child 1"],
        ["parent"],
        ["stream", "warm"],
    ]


_STREAM = (
    _START
    + """
client = curlhttp.Client(verify=ca)
streamed = client.stream("GET", url + "/drip?n=100&interval=0.001")
pieces = streamed.iter_bytes()
got = next(pieces)
pid = os.fork()
if pid == 0:
    try:
        while next(pieces):
            pass
    except curlhttp.ConnectionError as error:
        assert "forked" in str(error), error
    else:
        raise AssertionError("the child read the parent's response")
    ask(client, "child", 0)
    streamed.close()
    del streamed, pieces
    gc.collect()
    ask(client, "child", 1)
    sys.exit()
wait(pid)
assert got + b"".join(pieces) == b"x" * 100
ask(client, "parent", 0)
client.close()
print("ok")
"""
)


@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_a_child_cannot_read_a_response_of_its_parent(
    app: AppServer, tls_app: AppServer, certs: Certs, kind: str
) -> None:
    server = {"plain": app, "tls": tls_app}[kind]
    assert run_script(_STREAM, server.url, str(certs.ca_path)) == "ok\n"


_THREAD = (
    _START
    + """
import threading
client = curlhttp.Client(verify=ca)
thread = threading.Thread(target=lambda: slow.append(client.get(url + "/delay/0.3")))
slow = []
ask(client, "warm", 0)
thread.start()
while client._engine._pool._ready or client._engine._pool.slots.used != 1:
    pass
pid = os.fork()
if pid == 0:
    for number in range(10):
        ask(client, "child", number)
    client._engine._pool._release_ready()
    assert client._engine._pool.slots.used == 0
    client.close()
    sys.exit()
wait(pid)
thread.join()
assert slow[0].text == "hello", slow
ask(client, "parent", 0)
client.close()
print("ok")
"""
)


def test_a_fork_while_another_thread_is_in_a_request(
    app: AppServer, tls_app: AppServer, certs: Certs
) -> None:
    assert run_script(_THREAD, tls_app.url, str(certs.ca_path)) == "ok\n"


_ASYNC = (
    _START
    + """
import asyncio

async def aask(name, number):
    response = await client.post(url + "/echo", content=f"{name} {number}")
    assert response.json()["body"] == f"{name} {number}"

async def work(name):
    await asyncio.gather(*[aask(name, number) for number in range(10)])
    if name == "child":
        await client.aclose()

client = curlhttp.AsyncClient(verify=ca)

if sys.argv[3] == "outside":
    asyncio.run(work("warm"))
    pid = os.fork()
    if pid == 0:
        asyncio.run(work("child"))
        sys.exit()
    asyncio.run(work("parent"))
    wait(pid)
    asyncio.run(work("parent after"))
    asyncio.run(client.aclose())
else:
    loop = asyncio.new_event_loop()
    warm = []

    async def fork():
        await work("warm")
        warm.append(os.fork())

    loop.run_until_complete(fork())
    if warm[0] == 0:
        asyncio.run(work("child"))
        gc.collect()
        os._exit(0)
    loop.run_until_complete(work("parent"))
    wait(warm[0])
    loop.run_until_complete(work("parent after"))
    loop.run_until_complete(client.aclose())
    loop.close()
print("ok")
"""
)


@pytest.mark.parametrize("kind", ["plain", "h2"])
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_parent_and_child_run_their_own_event_loops_on_one_async_client(
    app: AppServer, h2_app: H2Server, certs: Certs, kind: str, where: str
) -> None:
    """Of the async client."""
    server = {"plain": app, "h2": h2_app}[kind]
    assert run_script(_ASYNC, server.url, str(certs.ca_path), where) == "ok\n"


_INHERITED = (
    _START
    + """
import asyncio

async def main():
    client = curlhttp.AsyncClient()
    await client.get(url + "/")
    (engine,) = client._engines.values()
    pid = os.fork()
    if pid == 0:  # in a loop that goes on, and shares its sockets with the parent's
        engine._driver.poller.poll = lambda seconds: os._exit(1)
        engine._driver.run_once()
        os._exit(0)
    wait(pid)
    await client.get(url + "/")
    await client.aclose()

asyncio.run(main())
print("ok")
"""
)


def test_a_child_does_not_touch_the_sockets_in_the_loop_that_it_inherits(app: AppServer) -> None:
    assert run_script(_INHERITED, app.url, "") == "ok\n"


_ZOMBIE = (
    _START
    + """
import asyncio

async def main():
    client = curlhttp.AsyncClient(max_connections=1)
    await client.get(url + "/")
    pid = os.fork()
    if pid == 0:
        sys.stdin.read()  # the child lives, and with it the copies of the parent's sockets
        os._exit(0)
    # Another origin, so that libcurl closes the idle connection; its server closes in turn.
    await client.get(sys.argv[3] + "/")
    (engine,) = client._engines.values()
    poller, poll, polls = engine._driver.poller, engine._driver.poller.poll, []
    poller.poll = lambda seconds: polls.append(1) or poll(seconds)
    print("forked", flush=True)
    await client.get(sys.argv[3] + "/delay/0.3")
    await client.get(sys.argv[3] + "/delay/0.1")
    del poller.poll
    response = await client.post(url + "/", content=b"x")
    assert response.status_code == 200
    await client.aclose()
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    print(len(polls))

asyncio.run(main())
"""
)


def test_a_socket_that_a_child_still_holds_does_not_make_the_parents_loop_spin(
    app: AppServer,
) -> None:
    def close_idle(conn: object) -> None:
        while conn.read_request()[0]:  # type: ignore[attr-defined]
            conn.send(response(b"x"))  # type: ignore[attr-defined]
            if conn.wait_closed(0.15):  # type: ignore[attr-defined]
                return

    with RawServer(close_idle) as server:
        out = run_script(_ZOMBIE, server.url, "", app.url).split()
    assert out[0] == "forked"
    assert int(out[1]) < 60


_POSTS = (
    _START
    + """
import asyncio

async def main():
    client = curlhttp.AsyncClient()
    await client.get(url + "/")
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    wait(pid)
    for number in range(3):
        await asyncio.sleep(0.05)  # the server closes meanwhile
        response = await client.post(url + "/", content=b"x")
        assert response.status_code == 200
    await client.aclose()
    print("ok")

asyncio.run(main())
"""
)


def test_after_a_fork_the_parent_still_notices_that_a_server_closed() -> None:
    def close_idle(conn: object) -> None:
        if conn.read_request()[0]:  # type: ignore[attr-defined]
            conn.send(response(b"x"))  # type: ignore[attr-defined]
            conn.wait_closed(0.02)  # type: ignore[attr-defined]

    with RawServer(close_idle) as server:
        assert run_script(_POSTS, server.url, "") == "ok\n"
        assert [request[:4] for request in server.requests].count(b"POST") == 3


_CLOSED = """
import asyncio, os, sys, curlhttp

async def main():
    client = curlhttp.AsyncClient()
    assert (await client.get(sys.argv[1])).text == "hello"
    (engine,) = client._engines.values()
    await client.aclose()
    return engine

engine = asyncio.run(main())
pid = os.fork()
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("ok")
"""


def test_a_closed_engine_does_nothing_after_a_fork(app: AppServer) -> None:
    assert run_script(_CLOSED, app.url) == "ok\n"


_IMPORTS = """
import os, signal, sys, threading
from importlib import _bootstrap
import curlhttp

def app(environ, start_response):
    to = [("Location", "/target")] if environ["PATH_INFO"] == "/start" else []
    start_response("302 Found" if to else "200 OK", to)
    return [environ["HTTP_AUTHORIZATION"].encode()]

client = curlhttp.Client(transport=curlhttp.WSGITransport(app), auth=curlhttp.BearerAuth("token"))

def ask():
    response = client.post("http://local/start", content=b"sent", progress=lambda *done: None)
    assert response.text == "Bearer token" and len(response.history) == 1, response.text

ask()
loaded = [name for name in sys.modules if name.startswith("curlhttp.")]
locks = [_bootstrap._get_module_lock(name) for name in loaded]
held = threading.Event()

def hold():  # as if it was importing them again
    for lock in locks:
        lock.acquire()
    held.set()
    threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    ask()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("ok")
"""


def test_a_child_does_not_wait_for_a_module_that_is_loaded() -> None:
    """Python 3.10 takes the lock of a module for each import_module(), also if it is loaded."""
    assert run_script(_IMPORTS) == "ok\n"
