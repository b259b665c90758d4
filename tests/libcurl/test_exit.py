"""A finalizer that sends while Python exits gets an exception at once, and Python exits."""

from __future__ import annotations

import pytest

from tests.servers import AppServer
from tests.support.internals import run_script

pytestmark = pytest.mark.slow

# Modules are taken apart while Python exits, so the finalizer holds all that it uses.
_SCRIPT = """
import asyncio, atexit, os, sys, threading, time, curlhttp, curlhttp.requests
url, path, when = sys.argv[1:]
if path.startswith("httpx"):
    import httpx
    from curlhttp.httpx import AsyncTransport, Transport
    failures = (httpx.TransportError, curlhttp.ClientClosed)
    if path == "httpx":
        wrapped = httpx.Client(transport=Transport())
        wrapped.get(url)
else:
    failures = (curlhttp.RequestException,)

backoff = curlhttp.FullJitterBackoff(base=1000, max_backoff=1000)
waits = curlhttp.RetryPolicy(5, backoff_strategy=backoff)
client = curlhttp.Client(retry=waits if path == "retry" else None)
async_client = curlhttp.AsyncClient()

asyncio.run(asyncio.sleep(0))  # which loads what it needs

def hold(limit):
    held = curlhttp.Client(concurrency_limit=limit)
    stream = held.stream("GET", url)
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    return held, stream

def map_all():
    return list(client.map([url, url]))

async def send_async():
    async with curlhttp.AsyncClient() as new:
        return await new.get(url)

async def reuse_async():
    return await async_client.get(url)

async def close_async():
    await async_client.aclose()
    raise curlhttp.ClientClosed("closed")

async def httpx_async():
    async with httpx.AsyncClient(transport=AsyncTransport()) as new:
        return await new.get(url)

if path == "kept":
    client.get(url)
    send = lambda: client.get(url)
elif path == "name":  # which libcurl looks up in a thread
    send = lambda: client.get(url.replace("127.0.0.1", "localhost"))
elif path == "new":
    def send():
        with curlhttp.Client() as new:
            return new.get(url)
elif path == "json":
    send = lambda: client.post(url, json={"a": 1}, files=None)
elif path == "built":
    request = client.build_request("GET", url)
    send = lambda: client.send(request)
elif path == "function":
    send = lambda: curlhttp.get(url)
elif path == "drop-in":
    send = lambda: curlhttp.requests.get(url)
elif path == "session":
    session = curlhttp.requests.Session()
    session.get(url)
    send = lambda: session.get(url)
elif path == "prepared":
    session = curlhttp.requests.Session()
    send = lambda: session.send(session.prepare_request(curlhttp.requests.Request("GET", url)))
elif path == "session's stream":
    session = curlhttp.requests.Session()
    response = session.get(url + "/drip?n=100000&interval=0.01", stream=True)
    send = lambda: response.raw.read(1)
elif path == "stream":
    streamed = client.stream("GET", url + "/drip?n=100000&interval=0.01")
    send = lambda: next(streamed.iter_bytes())
elif path == "dropped":
    held = [client.stream("GET", url + "/drip?n=100000&interval=0.01")]
    def send():
        held.clear()
        return client.get(url)
elif path == "map":
    send = map_all
elif path == "begun map":
    begun = iter(client.map([url] * 100, concurrency=2))
    next(begun)
    send = lambda: list(begun)
elif path == "download":
    send = lambda: client.download(url, os.devnull + ".download")
elif path == "sse":
    send = lambda: next(iter(client.sse(url)))
elif path == "websocket":
    send = lambda: client.websocket(url)
elif path == "retry":
    send = lambda: client.get("http://127.0.0.1:1/")
elif path == "limit":
    limited, streamed = hold(curlhttp.ConcurrencyLimit(1))
    send = lambda: limited.get(url)
elif path == "asyncio":
    send = lambda: asyncio.run(send_async())
elif path == "kept asyncio":
    send = lambda: asyncio.run(reuse_async())
elif path == "closed asyncio":
    asyncio.run(reuse_async())
    send = lambda: asyncio.run(close_async())
elif path == "httpx":
    send = lambda: wrapped.get(url)
elif path == "httpx asyncio":
    send = lambda: asyncio.run(httpx_async())

def report(send, failures, write):
    try:
        send()
    except failures as error:
        write(1, f"{type(error).__name__}: {error}\\n".encode())
    else:
        write(1, b"sent\\n")

class Last:
    def __init__(self):
        self.parts = report, send, failures, os.write

    def __del__(self):
        report, *others = self.parts
        report(*others)

if when == "atexit":
    atexit.register(report, send, failures, os.write)
elif when == "global":
    last = Last()
elif when == "cycle":
    import gc
    gc.disable()  # until the end
    last = Last()
    last.itself = last
    del last
elif when == "fork":
    last = Last()
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        last.parts = report, lambda: None, failures, os.write
"""

_PATHS = [
    "kept",
    "name",
    "new",
    "json",
    "built",
    "function",
    "drop-in",
    "session",
    "prepared",
    "session's stream",
    "stream",
    "dropped",
    "map",
    "begun map",
    "download",
    "sse",
    "websocket",
    "retry",
    "limit",
    "asyncio",
    "kept asyncio",
    "closed asyncio",
    "httpx",
    "httpx asyncio",
]


@pytest.mark.parametrize("path", _PATHS)
def test_a_finalizer_that_sends_while_python_exits_gets_an_error(app: AppServer, path: str) -> None:
    out = run_script(_SCRIPT, app.url, path, "global")
    if path == "closed asyncio":
        assert out == "ClientClosed: closed\n"
    else:
        name = "CloseError" if path == "httpx" else "ClientClosed"
        assert out.startswith(f"{name}: Python is exiting, so no request can be sent")


@pytest.mark.parametrize("when", ["cycle", "fork"])
@pytest.mark.parametrize("path", ["kept", "function", "session"])
def test_it_makes_no_difference_why_the_finalizer_runs(
    app: AppServer, path: str, when: str
) -> None:
    out = run_script(_SCRIPT, app.url, path, when)
    assert out.startswith("ClientClosed: Python is exiting")


@pytest.mark.parametrize("path", [path for path in _PATHS if path not in ("limit", "retry")])
def test_a_function_that_is_registered_with_atexit_may_send(app: AppServer, path: str) -> None:
    out = run_script(_SCRIPT, app.url, path, "atexit")
    expected = {
        "sse": "HTTPError: ",
        "websocket": "WebSocketRefused: ",
        "closed asyncio": "ClientClosed: closed",
    }
    assert out.startswith(expected.get(path, "sent"))
