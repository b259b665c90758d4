"""Ctrl-C ends a stalled request within about a second, and the client stays usable."""

from __future__ import annotations

import signal
import socket
import sys
import time

import pytest

from tests.servers import AppConnection, AppServer, BlackHole, Record
from tests.support.internals import finish_script, run_script, start_script, wait_until_asleep
from tests.support.pace import assert_in_time

pytestmark = pytest.mark.slow

_BLOCKING = """
import sys, threading, curlhttp
from curlhttp import Timeout
url, hole, path = sys.argv[1:]
client = curlhttp.Client(max_connections=1)
held = client.stream("GET", url + "/stall-after") if path == "pool" else None

def pieces():
    while True:
        yield bytes(100000)

def go():
    if path == "buffered":
        client.get(url + "/stall", timeout=None)
    elif path == "body":
        client.get(url + "/stall-after", timeout=None)
    elif path == "short":
        client.get(url + "/drip?n=1000&interval=0.05", timeout=Timeout(read=0.9))
    elif path == "open":
        client.get(url + "/stall", stream=True)
    elif path == "stream":
        with client.stream("GET", url + "/stall-after") as streamed:
            for piece in streamed.iter_bytes():
                pass
    elif path == "upload":
        client.post(url + "/unread", content=bytes(20_000_000))
    elif path == "pieces":
        client.post(url + "/unread", content=pieces())
    elif path == "connect":
        client.get(hole + "/", timeout=None)
    elif path == "pool":  # with another thread, since a wait of the only one would be an error
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        client.get(url + "/")

print("going", flush=True)
try:
    go()
except KeyboardInterrupt:
    print("interrupted", flush=True)
if held is not None:
    held.close()
engine = client._engine
engine._pool._release_ready()
assert engine._pool.slots.used == 0
assert not engine._pool.slots.waiters
assert client.get(url + "/bytes/3").status_code == 200
assert len(engine._pool.all) == 1
with client.stream("GET", url + "/bytes/3") as streamed:
    assert len(streamed.read()) == 3
client.close()
print("usable")
"""

_PATHS = ["buffered", "body", "short", "open", "stream", "upload", "pieces", "connect", "pool"]


def _never_read(record: Record, conn: AppConnection) -> None:
    while not conn.server.stopping.wait(0.05):
        try:
            conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n", socket.MSG_DONTWAIT)
        except OSError:  # the client has left
            return


def _interrupt(app: AppServer, code: str, hole: str, path: str) -> float:
    """Send SIGINT once the script stalls; return the seconds until it noticed."""
    app.route("/unread", _never_read, read_body=False)
    process = start_script(code, app.url, hole, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    if path not in ("connect", "pool"):
        assert app.wait_for(lambda: bool(app.requests))
    wait_until_asleep(process)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    seconds = time.monotonic() - sent
    assert process.stdout.readline() == "usable\n"  # it may have come with the line before
    assert finish_script(process) == ""
    return seconds


@pytest.mark.parametrize("path", _PATHS)
def test_ctrl_c_ends_a_stalled_request_and_leaves_the_client_usable(
    app: AppServer, path: str
) -> None:
    with BlackHole() as hole:
        assert_in_time(_interrupt(app, _BLOCKING, hole.url, path), 1, 0.4)


@pytest.mark.parametrize("path", ["short", "open", "stream", "pieces", "pool"])
def test_ctrl_c_is_noticed_at_once_in_our_own_loop(app: AppServer, path: str) -> None:
    with BlackHole() as hole:
        assert_in_time(_interrupt(app, _BLOCKING, hole.url, path), 0, 0.5)


_LOOPS = """
import sys, asyncio, curlhttp
url, hole, backend = sys.argv[1:]
client = curlhttp.AsyncClient()

async def stalled():
    print("going", flush=True)
    await client.get(url + "/stall", timeout=None)

async def usable():
    response = await client.get(url + "/bytes/3")
    assert response.status_code == 200
    (engine,) = client._engines.values()
    assert not engine._driver.running or backend == "trio"
    await client.aclose()

if backend == "trio":
    import trio
    run = trio.run
elif backend == "uvloop":
    import uvloop
    run = lambda main: uvloop.run(main())
else:
    run = lambda main: asyncio.run(main())
try:
    run(stalled)
except KeyboardInterrupt:
    print("interrupted", flush=True)
run(usable)
print("usable")
"""


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_ctrl_c_ends_an_event_loop_and_the_next_can_use_the_client(
    app: AppServer, backend: str
) -> None:
    assert_in_time(_interrupt(app, _LOOPS, "", backend), 0, 0.5)


# --- Ctrl-C on entry to what libcurl calls back, where nothing can catch it yet ---

_IN_CALLBACKS = """
import itertools, os, signal, sys, threading, curlhttp

url = sys.argv[1]
NAMES = (
    "_on_socket", "on_socket", "on_send", "on_body", "on_piece", "on_header", "on_progress"
)


def map_many(client):
    for number in range(12):  # those that are cancelled take their sockets along
        paths = itertools.cycle(["/bytes/300000", "/cut", "/bytes/3"])
        urls = (url + path for path in itertools.islice(paths, 8))
        for result in client.map(urls, concurrency=4):
            pass


def get(client):
    for path in ("/bytes/300000", "/bytes/3", "/cut", "/bytes/3"):
        try:
            client.get(url + path)
        except curlhttp.RequestException:
            pass


def stream(client):
    for number in range(4):
        with client.stream("GET", url + "/bytes/300000") as response:
            response.read() if number % 2 else next(response.iter_bytes())


def interrupted(go, name, after):
    left = after

    def trace(frame, event, arg):
        nonlocal left
        module = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == name and module.startswith("curlhttp._libcurl."):
            left -= 1
            if not left:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)

    client = curlhttp.Client(retry=2)
    sys.settrace(trace)
    try:
        go(client)
        return "ended"
    except KeyboardInterrupt:
        return "interrupted"
    except BaseException as error:
        return repr(error)
    finally:
        sys.settrace(None)
        pool = client._engine._pool
        assert pool.slots.used == len(pool._ready), (go, name, after)
        assert client.get(url + "/bytes/3").status_code == 200
        client.close()


counts = {}
before = None
for go in (map_many, get, stream):
    for name in NAMES:
        for after in range(1, 30):
            outcome = interrupted(go, name, after)
            if outcome == "ended":
                break
            assert outcome == "interrupted", (go, name, after, outcome)
            counts[go.__name__, name] = after
            if before is None:
                before = len(os.listdir("/dev/fd"))
assert counts["map_many", "_on_socket"] == 29, counts
assert counts["stream", "_on_socket"] >= 4, counts
assert counts["get", "on_body"] >= 3, counts
assert len(os.listdir("/dev/fd")) <= before, (before, os.listdir("/dev/fd"))
print("interrupted")
"""


def test_ctrl_c_on_entry_to_a_callback_of_libcurl_is_a_keyboard_interrupt(app: AppServer) -> None:
    assert run_script(_IN_CALLBACKS, app.url) == "interrupted\n"


_AT_RANDOM = """
import itertools, os, random, signal, sys, curlhttp

url, go = sys.argv[1:]
uniform = random.Random(1).uniform
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
interrupts = 0
with curlhttp.Client() as client:  # CPython 3.11 replaces what interrupts the import of a dataclass
    list(client.map([url]))
    with client.stream("GET", url) as response:
        response.read()
    client.get(url)
while interrupts < 200:
    with curlhttp.Client() as client:
        try:
            # More than once: Python itself loses what is raised in a finalizer.
            signal.setitimer(signal.ITIMER_REAL, uniform(0.001, 0.006), 1)
            if go == "map":
                for result in client.map(itertools.repeat(url), concurrency=8):
                    assert result.status_code == 200
            while go == "stream":
                with client.stream("GET", url) as response:
                    response.read()
            while True:
                client.get(url)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            interrupts += 1
print("interrupted")
"""


@pytest.mark.parametrize("go", ["map", "get", "stream"])
def test_ctrl_c_at_any_moment_is_a_keyboard_interrupt(app: AppServer, go: str) -> None:
    process = start_script(_AT_RANDOM, app.url + "/bytes/3", go)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "interrupted\n"), err
    # Python 3.10 lets signals in between a call and its await.
    assert "never awaited" not in err or sys.version_info < (3, 11)
