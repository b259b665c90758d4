"""What a process holds: descriptors, threads, handles, tasks, objects and memory (Linux)."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pycurl
import uvloop

_M_ARENA_MAX = -8  # of malloc.h

_HANDLES = (pycurl.Curl, pycurl.CurlMulti, pycurl.CurlShare)
_WATCHED = (*_HANDLES, asyncio.Task, BaseException)


class Holdings(NamedTuple):
    """What was held at one moment."""

    files: frozenset[str]
    threads: frozenset[threading.Thread]
    objects: Counter[str]
    resident: int  # bytes

    @classmethod
    def now(cls) -> Holdings:
        """Return the current holdings, after a collection."""
        uvloop.new_event_loop().close()  # libuv opens a pipe with its first loop, for good
        gc.collect()
        return cls(_open_files(), frozenset(threading.enumerate()), _objects(), resident())


def find_leaks(before: Holdings, *, objects: int, memory: int, seconds: float = 5.0) -> list[str]:
    """Describe what is held and was not before; sockets and threads get time to end.

    Args:
        before: what was held.
        objects: how many more of one type may be there: caches grow to their bounds.
        memory: how many more bytes the process may hold.
        seconds: how long to wait for sockets and threads that are ending.
    """
    found = [
        _settled("descriptors", lambda: _open_files() - before.files, seconds),
        _settled("threads", lambda: _own_threads(before), seconds),
        _settled("objects", lambda: _grown(before, objects), seconds),
    ]
    if (more := resident() - before.resident) > memory:
        found.append(f"{more >> 10} KiB more memory")
    return [text for text in found if text]


def _settled(what: str, find: Callable[[], Collection[Any]], seconds: float) -> str:
    end = time.monotonic() + seconds
    while (left := find()) and time.monotonic() < end:
        gc.collect()
        threading.Event().wait(0.05)
    return f"{len(left)} more {what}, for example {list(left)[:5]}" if left else ""


def _own_threads(before: Holdings) -> list[str]:
    threads = frozenset(threading.enumerate()) - before.threads
    return [thread.name for thread in threads if not thread.name.startswith("Trio thread")]


def _grown(before: Holdings, most: int) -> list[str]:
    """Return the types with more objects, of those that are watched even if it is one."""
    grown = _objects() - before.objects
    watched = {_name(kind) for kind in _WATCHED}
    return [
        f"{count} of {name}" for name, count in grown.items() if count > most or name in watched
    ]


def _open_files() -> frozenset[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the one that this reads with
            target = os.readlink(descriptor)
            if target.startswith(("socket:", "pipe:")):
                found.add(target)
            elif target.startswith("anon_inode:"):
                found.add(f"{target} as {descriptor.name}")
    return frozenset(found)


def _objects() -> Counter[str]:
    counts: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if kind is FunctionType and "<locals>" not in thing.__qualname__:
            continue  # of a module that was imported late: only a function in a function can leak
        counts[_name(kind)] += 1
        for watched in _WATCHED:
            if kind is not watched and issubclass(kind, watched):
                counts[_name(watched)] += 1
    return counts


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def use_one_arena() -> None:
    """Let all threads share what memory is free; else each has its own, which looks like a leak."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def resident() -> int:
    """Return the bytes of memory that the process holds, after releasing free memory."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
