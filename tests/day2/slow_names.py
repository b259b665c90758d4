"""Send requests to names whose name server does not answer all queries; writes the results as JSON.

Runs in namespaces of its own, in which it may bring up a network and write /etc/resolv.conf:

    unshare --net --mount python -m tests.day2.slow_names FOLDER

Each way to send a request runs in a process, for each kind of name. The result is what that wrote,
or "hangs" if it did not end: its lookups would take minutes.

    python -m tests.day2.slow_names FOLDER WAY NAME    (one of these processes)
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import curlhttp
from tests.day2.name_server import PORT, NameServer, WebServer, enter_namespace

KINDS = ("drops-aaaa", "drops-a", "drops", "late", "late-aaaa", "unknown")
ODD_KINDS = (
    *("v4", "v6", "servfail", "notimp", "garbage", "cut", "truncated", "many", "odd", "loop"),
)
SOME_WAYS = ("Client", "map", "asyncio", "trio", "Session", "httpx", "curl")
_TIMEOUT = curlhttp.Timeout(connect=3)
_LONG = curlhttp.Timeout(connect=100)
_GUARD = 60  # seconds
_AT_ONCE = 8  # processes
_HERE = ("127.0.0.1", "::1")


def _client(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT) as client:
        return client.get(url).text


def _unclosed(url: str) -> str:
    client = curlhttp.Client(timeout=_TIMEOUT)
    globals()["client"] = client  # so that the interpreter finds it at its end
    return client.get(url).text


def _in_thread(url: str) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_attempt(_unclosed, url)))
    thread.start()
    thread.join()
    return found[0]


def _stream(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT) as client, client.stream("GET", url) as response:
        return response.read().decode()


def _map(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT) as client:
        found: Any = next(iter(client.map([url])))
        return found.text if isinstance(found, curlhttp.Response) else type(found).__name__


def _download(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT) as client:
        file = Path(f"download-{os.getpid()}")
        client.download(url, file, resume=False)
        return file.read_text()


def _sse(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT) as client, client.sse(url + "events") as events:
        return next(iter(events)).data


def _websocket(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT) as client:
        with client.websocket(url.replace("http:", "ws:")) as connection:
            return str(connection.recv())


def _hedged(url: str) -> str:
    with curlhttp.Client(timeout=_TIMEOUT, hedge=curlhttp.Hedge(after=0.2)) as client:
        return client.get(url).text


def _guarded(url: str) -> str:
    guard = curlhttp.PublicOnly(allow=["127.0.0.1", "127.0.0.9", "::1"])
    with curlhttp.Client(timeout=_TIMEOUT, guard=guard) as client:
        return client.get(url).text


async def _get(url: str) -> str:
    async with curlhttp.AsyncClient(timeout=_TIMEOUT) as client:
        return (await client.get(url)).text


def _asyncio(url: str) -> str:
    return asyncio.run(_get(url))


def _trio(url: str) -> str:
    import trio

    return trio.run(_get, url)


def _unclosed_loop(url: str) -> str:
    async def get() -> str:
        return (await curlhttp.AsyncClient(timeout=_TIMEOUT).get(url)).text

    return asyncio.run(get())


def _httpx(url: str) -> str:
    import httpx

    import curlhttp.httpx

    with httpx.Client(transport=curlhttp.httpx.Transport(), timeout=3) as client:
        return client.get(url).text


def _async_httpx(url: str) -> str:
    import httpx

    import curlhttp.httpx

    async def get() -> str:
        transport = curlhttp.httpx.AsyncTransport()
        async with httpx.AsyncClient(transport=transport, timeout=3) as client:
            return (await client.get(url)).text

    return asyncio.run(get())


def _session(url: str) -> str:
    from curlhttp import requests

    with requests.Session() as session:
        return session.get(url, timeout=3).text


def _requests_get(url: str) -> str:
    from curlhttp import requests

    return requests.get(url, timeout=3).text


WAYS: dict[str, Callable[[str], str]] = {
    "Client": _client,
    "unclosed": _unclosed,
    "thread": _in_thread,
    "stream": _stream,
    "map": _map,
    "download": _download,
    "sse": _sse,
    "websocket": _websocket,
    "hedged": _hedged,
    "guarded": _guarded,
    "asyncio": _asyncio,
    "trio": _trio,
    "unclosed loop": _unclosed_loop,
    "get": lambda url: curlhttp.get(url, timeout=_TIMEOUT).text,
    "Session": _session,
    "requests.get": _requests_get,
    "httpx": _httpx,
    "async httpx": _async_httpx,
}


# --- what happens while a lookup hangs ---


def _interrupted(url: str) -> str:
    with curlhttp.Client(timeout=_LONG) as client:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            return client.get(url).text
        except KeyboardInterrupt:
            return "interrupted"


def _exited(url: str) -> str:
    client = curlhttp.Client(timeout=_LONG)
    threading.Thread(target=client.get, args=(url,), daemon=True).start()
    threading.Event().wait(0.5)
    return "exits"


def _descriptors() -> set[int]:
    """Return the descriptors that are open, without those by which the system asks for a name."""
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the one of the folder itself is closed by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as duplicate:
                    if duplicate.type == socket.SOCK_DGRAM:
                        continue
            found.add(number)
    return found


def _cancelled(url: str) -> str:
    async def get() -> str:
        before = _descriptors()
        async with curlhttp.AsyncClient(timeout=_LONG) as client:
            with_limit = asyncio.wait_for(client.get(url), 0.5)
            try:
                return (await with_limit).text
            except asyncio.TimeoutError:  # another class before Python 3.11
                pass
        left = len(_descriptors() - before)
        return f"cancelled, {left} descriptors left, {len(asyncio.all_tasks())} task"

    return asyncio.run(get())


def _closed_loop(url: str) -> str:
    loop = asyncio.new_event_loop()
    client = curlhttp.AsyncClient(timeout=_LONG)
    task = loop.create_task(client.get(url))
    loop.run_until_complete(asyncio.sleep(0.5))
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()
    return "closed"


def _forked(url: str) -> str:
    client = curlhttp.Client(timeout=_LONG)
    threading.Thread(target=client.get, args=(url,), daemon=True).start()
    threading.Event().wait(0.5)
    child = os.fork()
    if not child:
        os._exit(0 if client.get(f"http://fine.test:{PORT}/").text in _HERE else 1)
    return f"the child returned {os.waitpid(child, 0)[1]}"


def _many(url: str) -> str:
    """Get 100 names at once; return how many had a response while the others still hang."""
    kind = url.split("/")[2].partition(".")[0]

    async def get_all() -> str:
        async with curlhttp.AsyncClient(timeout=_LONG) as client:
            names = [f"{'fine' if n % 2 else kind}{n}.test" for n in range(100)]
            tasks = [asyncio.create_task(client.get(f"http://{name}:{PORT}/")) for name in names]
            expected = tasks[1::2] if kind == "drops" else tasks
            found = await asyncio.gather(*expected)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            return f"{len(found)} responses"

    return asyncio.run(get_all())


def _many_mapped(url: str) -> str:
    kind = url.split("/")[2].partition(".")[0]
    names = [f"{'fine' if n % 2 else kind}{n}.test" for n in range(100)]
    most = 50 if kind == "drops" else 100
    count = 0
    with curlhttp.Client(timeout=_LONG) as client:
        for found in client.map([f"http://{name}:{PORT}/" for name in names], concurrency=100):
            count += isinstance(found, curlhttp.Response)
            if count == most:
                break
    return f"{count} responses"


HANGING: dict[str, Callable[[str], str]] = {
    "interrupted": _interrupted,
    "exited": _exited,
    "cancelled": _cancelled,
    "closed loop": _closed_loop,
    "forked": _forked,
    "many": _many,
    "many mapped": _many_mapped,
}


def _attempt(get: Callable[[str], str], url: str) -> str:
    try:
        return get(url)
    except Exception as error:
        return type(error).__name__


def _run(way: str, kind: str, folder: str) -> str:
    url = f"http://{kind}.test:{PORT}/"
    if way == "command line":
        command = ["-m", "curlhttp", "--connect-timeout", "3", "GET", url]
    elif way == "curl":
        command = ["-m", "curlhttp", "curl", "-s", "--connect-timeout", "3", url]
    else:
        command = ["-m", "tests.day2.slow_names", folder, way, url]
    try:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=_GUARD, check=False
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    return done.stdout.strip() or f"status {done.returncode}"


def _run_all(folder: str) -> dict[str, str]:
    cases = [(way, kind) for way in (*WAYS, "curl", "command line") for kind in KINDS]
    cases += [(way, kind) for way in SOME_WAYS for kind in ODD_KINDS]
    cases += [(way, "drops") for way in HANGING]
    cases += [("many", "drops-aaaa"), ("many mapped", "drops-aaaa")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda case: _run(case[0], case[1], folder), cases)
        return {f"{way} {kind}": text for (way, kind), text in zip(cases, found, strict=True)}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.stdout.write(_attempt({**WAYS, **HANGING}[sys.argv[2]], sys.argv[3]))
    else:
        enter_namespace(Path(sys.argv[1]))
        servers = NameServer(), WebServer()
        sys.stdout.write(json.dumps(_run_all(sys.argv[1]), indent=1))
