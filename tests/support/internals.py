"""Access to the inside of a client for tests of pools and engines; and scripts in subprocesses."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.support.colours import AnyClient

ROOT = Path(__file__).parents[2]
# This one's own paths too: .ci/windows has the packages there.
_PATHS = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def engines_of(client: Any) -> list[Any]:
    """Return the engines of a client, with those that its maps have used."""
    real = getattr(client, "real", client)
    if not hasattr(real, "_engine"):
        return list(real._engines.values())
    senders = real._sender_pool._idle if real._sender_pool else ()
    return [real._engine, *(sender._engine for sender in senders)]


def get_engine(client: Any) -> Any:
    """Return the engine of a client, not of its maps."""
    return engines_of(client)[0]


def handles_of(client: Any) -> set[Any]:
    """Return the transfers that the engine has handles for, whether they run or not."""
    found: set[Any] = get_engine(client)._pool.all
    return found


def count_idle(client: Any) -> int:
    """Return how many handles have a connection and no request."""
    return len(get_engine(client)._pool.idle())


def count_running(client: Any) -> int:
    """Return how many transfers libcurl drives for an AsyncClient."""
    return len(get_engine(client)._driver.running)


def get_slots(client: Any) -> Any:
    """Return the slots, without those of parked transfers among the taken."""
    pool = get_engine(client)._pool
    if hasattr(pool, "_release_ready"):
        pool._release_ready()
    return pool.slots


def assert_nothing_runs(client: Any) -> None:
    """Fail if a request, a slot or a caller is left in an engine of a client."""
    for engine in engines_of(client):
        assert_engine_is_free(engine)


def assert_engine_is_free(engine: Any) -> None:
    """Fail if a request, a slot or a caller is left in an engine."""
    pool = engine._pool
    if hasattr(pool, "_release_ready"):
        pool._release_ready()
    assert not pool.slots.used
    assert not pool.slots.waiters
    assert all(transfer.request is None and not transfer.attached for transfer in pool.all)
    drivers = [each.driver for each in pool.all if each.driver]
    assert not any(each.running for each in [*drivers, getattr(engine, "_driver", None)] if each)
    for jobs in ("_jobs", "_ready", "_opened", "timers"):
        assert not getattr(engine, jobs, ()), jobs


def count_running_maps() -> int:
    """Return how many maps of blocking clients are under way in this thread."""
    from curlhttp._runtime import running_maps

    return len(running_maps.running)


def skipped_seconds() -> float:
    """Return for how long clients have waited on the clock of mocks alone."""
    from curlhttp._runtime.network import network

    return network.skipped


def is_reading(file: Any) -> bool:
    """Return whether a thread waits for bytes of another protocol, in the drop-in."""
    return bool(file._is_waiting)


def is_receiving(websocket: Any) -> bool:
    """Return whether a caller waits for a message."""
    return bool(websocket._connection._has_receiver)


def count_buffered(websocket: Any) -> int:
    """Return how many bytes a WebSocket holds that nobody has received or sent."""
    connection = websocket._connection
    size: int = connection.inbox.size + connection._received.size + connection._stream.unsent()
    return size


def count_pings(websocket: Any) -> int:
    """Return how many pings a WebSocket waits for the pongs of."""
    return len(websocket._connection._pings)


def add_received(websocket: Any, data: bytes) -> None:
    """Have a WebSocket find bytes at its next look as if they had just arrived."""
    websocket._connection._add_received(data)


def forget_failed_names() -> None:
    """Forget hosts that requests could not connect to, which they look for again for a minute."""
    from curlhttp._libcurl.dns import FAILED

    FAILED.clear()


def drivers_of(client: Any) -> Any:
    """Return the drivers of a blocking client."""
    return client._engine._drivers


def driver_of(client: Any) -> Any:
    """Return the driver of the one engine of an AsyncClient."""
    return get_engine(client)._driver


def runtime_of(client: Any) -> Any:
    """Return the time and the waits of a client."""
    return client._runtime


def lock_of(thing: Any) -> Any:
    """Return the lock of a policy, which a thread may hold at any moment."""
    return thing._lock


def is_read(response: Any) -> bool:
    """Return whether a thread waits for bytes of a streamed response."""
    return response._incoming._transfer.wake is not None


def content_in_memory(response: Any) -> bytes | None:
    """Return the body of a response if it is in memory already."""
    content: bytes | None = response._content
    return content


def decode_as(response: Any, body: bytes) -> str:
    """Return the text of a body as of that of a response."""
    from curlhttp._http.decoding import decode_text

    return decode_text(body, response._charset())


def stream_if_large(request: Any) -> None:
    """Have the response of a request be streamed if its body is large, as `curlhttp fetch` does."""
    from curlhttp._http.request import IF_LARGE

    request.stream = IF_LARGE


def after_prepare(patch: pytest.MonkeyPatch, look: Callable[[Any, Any], None]) -> None:
    """Call a function with the pycurl handle and the request whenever a handle was prepared."""
    from curlhttp._libcurl.handle import Handle

    prepare = Handle.prepare

    def prepared(handle: Handle, request: Any) -> None:
        prepare(handle, request)
        look(handle.easy, request)

    patch.setattr(Handle, "prepare", prepared)


def use_kqueue(patch: pytest.MonkeyPatch, model: ModuleType) -> None:
    """Have drivers that are made from here on use a model of kqueue.

    Args:
        patch: undoes it.
        model: stands in for the module `select`.
    """
    from curlhttp._libcurl import driver, poller

    patch.setattr(poller, "_select", model)
    patch.setattr(driver.Driver, "_make_poller", staticmethod(poller.KqueueSockets))


def start_new_lookups(patch: pytest.MonkeyPatch) -> None:
    """Ask the system for names with new threads from here on."""
    from curlhttp._libcurl import resolver

    patch.setattr(resolver, "_queries", resolver._Queries())


def wrap_stream_handles(patch: pytest.MonkeyPatch, wrap: Callable[[Any], Any]) -> None:
    """Replace the pycurl handle of each stream of another protocol, as on Windows."""
    from curlhttp._libcurl.streams import stream

    begin: Any = stream.Stream.__init__

    def wrapped(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        self._easy = wrap(self._easy)

    patch.setattr(stream, "USES_SCHANNEL", True)
    patch.setattr(stream.Stream, "__init__", wrapped)


def lock_of_pool(client: Any) -> Any:
    """Return the lock that a thread holds while it takes or returns a handle."""
    return client._engine._pool._lock


def close_shared_clients() -> None:
    """Close the connections that the functions of both APIs keep."""
    api: Any = sys.modules.get("curlhttp.requests.api")
    if api is not None:
        api._adapter.close()
    functions: Any = sys.modules.get("curlhttp._api.functions")
    if functions is not None:
        functions.close()


async def wait_until_waiting(client: AnyClient, count: int) -> None:
    """Wait until so many callers wait for a slot."""
    with anyio.fail_after(30):
        while len(get_slots(client).waiters) < count:
            await anyio.sleep(0.001)


async def wait_until_idle(client: AnyClient) -> None:
    """Wait until no slot is taken."""
    with anyio.fail_after(30):
        while get_slots(client).used:
            await anyio.sleep(0.001)


async def in_thread(client: AnyClient, method: str, url: str, **options: Any) -> Any:
    """Send a request in its own thread where the client blocks."""
    if not client.is_blocking:
        return await client.request(method, url, **options)
    limiter = anyio.CapacityLimiter(1)
    send = partial(client.real.request, method, url, **options)
    return await anyio.to_thread.run_sync(send, limiter=limiter)


def run_in_fork(work: Callable[[], object], seconds: int = 60) -> int:
    """Run a function in a forked child; return 0 if it ends in time and raises nothing."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            signal.alarm(seconds)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def interrupt_main_thread() -> None:
    """Do what Ctrl-C does, from another thread."""
    main = threading.main_thread().ident
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)  # any thread's is the main thread's there
    else:
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)


def count_descriptors() -> int:
    """Return how many descriptors this process has open; on Windows, how many sockets."""
    gc.collect()
    if sys.platform == "win32":
        return sum(map(_is_socket, range(4, 16384, 4)))  # the numbers of handles
    return len(os.listdir("/dev/fd"))


def _is_socket(handle: int) -> bool:
    """Return whether a handle of Windows is a socket, which has a type."""
    import ctypes

    windows: Any = ctypes
    kind, size = ctypes.c_int(), ctypes.c_int(4)
    return not windows.windll.ws2_32.getsockopt(
        ctypes.c_void_p(handle), socket.SOL_SOCKET, socket.SO_TYPE, *map(ctypes.byref, (kind, size))
    )


def start_script(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a separate Python program that can import curlhttp and tests."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": _PATHS, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_asleep(process: subprocess.Popen[str]) -> None:
    """Wait until a program sleeps in a system call: its state says so, and it uses no CPU.

    One that has ended is asleep, too, so that the test sees what it printed.

    Python loses a KeyboardInterrupt that comes in a finalizer, for example while it imports.
    """
    seen = [_look(process.pid)]
    while len(seen) < 4 or set(seen[-4:]) != {seen[-1]} or seen[-1][0] not in "SZ?":
        time.sleep(0.05)
        seen.append(_look(process.pid))


def _look(pid: int) -> tuple[str, ...]:
    """Return the state of a process and its ticks of CPU; "?" where nothing says that."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ("?",)
    return fields[0], *fields[11:13]


def finish_script(process: subprocess.Popen[str], seconds: float = 120) -> str:
    """Return what a program printed; it must end well and say nothing on stderr."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the script did not end: {out}\n{err}") from None
    assert process.returncode == 0, f"exit status {process.returncode}: {out}\n{err}"
    assert err == "", err
    return out


def run_script(code: str, *arguments: str, **environment: str) -> str:
    return finish_script(start_script(code, *arguments, **environment))


def waiting_for_token(auth: Any) -> int:
    """Return how many requests wait for a token."""
    return len(auth._cache._queue)


def waiting_for_first_endpoints(endpoints: Any) -> int:
    """Return how many requests wait for the first list of endpoints."""
    return len(endpoints._first_list._queue)


def waiting_for_robots(client: Any) -> int:
    """Return how many requests of a client wait for a robots.txt."""
    store = client._chain.settings["robots"]
    return sum(len(entry._queue) for entry in list(store._entries.values()))


def waiting_for_equal_requests() -> list[int]:
    """Return how many requests wait for each shared transfer."""
    return [len(shared.waiters) for each in shared_transfers() for shared in each.values()]


def shared_transfers() -> list[Any]:
    """Return the transfers that equal requests share, by their keys, for each client."""
    found = [each for each in gc.get_objects() if type(each).__name__ == "Coalescing"]
    return [each._transfers for each in found]
