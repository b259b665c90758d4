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
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from curlhttp._libcurl.slots import Slots
from tests.support.colours import AnyClient

ROOT = Path(__file__).parents[2]
# This one's own paths too: .ci/windows has the packages there.
_PATHS = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def get_engine(client: AnyClient) -> Any:
    """Return the one engine of a client."""
    if client.is_blocking:
        return client.real._engine
    (engine,) = client.real._engines.values()
    return engine


def get_slots(client: AnyClient) -> Slots:
    """Return the slots, without those of parked transfers among the taken."""
    engine = get_engine(client)
    if client.is_blocking:
        engine._pool._release_ready()
    slots: Slots = engine._pool.slots
    return slots


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
