"""The running maps of blocking clients, and the waits of threads that step them.

Between two results, the requests of a map are paused: they make progress only when a thread steps
them. They may hold what another request waits for, such as a slot of a limit, the head of a queue,
or a token that they fetch for all. So a thread that waits steps the maps that nobody steps. Without
a running map, a wait costs one look at an empty dict.
"""

from __future__ import annotations

import os
import sys
from _thread import _count as count_other_threads
from collections.abc import Callable
from time import monotonic
from typing import Protocol
from weakref import ref

from curlhttp._http.named_tuple import NamedTuple
from curlhttp.exceptions import PoolTimeout

_SHORTEST = 500e-6  # seconds between two steps of a map that makes progress
_LONGEST_OWN = 5e-3  # ... of this thread's map that does not
_LONGEST_OTHER = 50e-3  # ... of another thread's
_PATIENCE = 10.0  # seconds of a wait in a map's own code, where other threads may help
_COOPERATIVE = {"gevent.monkey", "eventlet.patcher"}  # with which other greenlets run in a wait
LOOK_AGAIN = 5.0  # seconds of a wait, after which other threads may have ended


class Stepped(NamedTuple):
    """What stepping a map has shown.

    Attributes:
        has_advanced: there was something to do.
        may_advance: its transfers, timers or another thread may give it something to do.
        is_own: the thread iterates over it.
        is_stuck: it cannot be stepped, because the thread waits within its code.
        wait: seconds until its next timer; None for no timer.
    """

    has_advanced: bool = False
    may_advance: bool = False
    is_own: bool = False
    is_stuck: bool = False
    wait: float | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether it may still free what others wait for."""
        return self.has_advanced or self.may_advance


class SteppedMap(Protocol):
    """What sends the requests of one map."""

    def step_for_waiting(self) -> Stepped:
        """Step the requests that can continue, unless a thread does that already; never wait."""


running: dict[int, ref[SteppedMap]] = {}
"""The maps that have begun and not ended, by id. Each change is one step of the interpreter.

Weak, because Ctrl-C may interrupt the end of a map.
"""


def make_reference(stepped_map: SteppedMap) -> ref[SteppedMap]:
    """Return the entry of a map in `running`, which is removed when the map is collected."""
    key = id(stepped_map)
    return ref(stepped_map, lambda _: running.pop(key, None))


def step_others(own: SteppedMap | None = None) -> Stepped:
    """Step all running maps but one, and return what that has shown."""
    found = [
        each.step_for_waiting()
        for reference in running.copy().values()
        if (each := reference()) is not None and each is not own
    ]
    return Stepped(
        any(stepped.has_advanced for stepped in found),
        any(stepped.may_advance for stepped in found),
        any(stepped.is_own for stepped in found),
        any(stepped.is_stuck for stepped in found),
        min((stepped.wait for stepped in found if stepped.wait is not None), default=None),
    )


def is_only_thread() -> bool:
    """Return whether nothing else can end a wait of this thread; False if that is not certain."""
    # The frames are those of Python code in threads that other languages have started.
    return (
        not count_other_threads()
        and len(sys._current_frames()) == 1
        and not _COOPERATIVE & sys.modules.keys()
        and not _has_signal_handler()
        and not _has_native_threads()
    )


def _has_signal_handler() -> bool:
    """Return whether Python code may run in this wait, except when the program is to end."""
    import signal  # here, because it makes enumerations, and few programs come here

    others = signal.valid_signals() - {signal.SIGINT, signal.SIGTERM}
    return any(callable(signal.getsignal(each)) for each in others)


def _has_native_threads() -> bool:
    """Return whether there are threads that may call Python code later; only Linux says it."""
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return False


ENDLESS = (
    "this wait can never end, because this thread holds what it waits for, and no other thread "
    "is running; read or close streamed responses first, or raise the limit"
)
_STUCK = (
    "this wait cannot end: a hook, a middleware or a body of a request of Client.map waits for "
    "what other requests of the same map hold, and those are paused until it returns; use "
    "another client there, without the same limits"
)


class Pace:
    """How long a thread waits between two steps: longer and longer while nothing happens."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = _SHORTEST

    def next(self, stepped: Stepped) -> float:
        """Return the seconds to wait after a step."""
        longest = _LONGEST_OWN if stepped.is_own else _LONGEST_OTHER
        self._seconds = _SHORTEST if stepped.has_advanced else min(2 * self._seconds, longest)
        return self._seconds if stepped.wait is None else min(self._seconds, stepped.wait)


def wait_and_step(wait: Callable[[float], bool | None], seconds: float | None) -> bool:
    """Wait, and step the running maps meanwhile; return whether the wait has ended early.

    Args:
        wait: waits for so many seconds, and returns True if there is no need to wait longer.
        seconds: how long to wait; None for no limit.

    Raises:
        PoolTimeout: the wait has no end.
    """
    begun = monotonic()
    pace, pause = Pace(), 0.0
    while True:
        left = None if seconds is None else max(0.0, begun + seconds - monotonic())
        if left is not None and left <= pause:
            return bool(wait(left))
        if wait(pause):
            return True
        stepped = step_others()
        pause = pace.next(stepped)
        if seconds is not None or stepped.may_advance:
            continue
        if stepped.is_stuck and (is_only_thread() or monotonic() - begun > _PATIENCE):
            raise PoolTimeout(_STUCK)
        if not stepped.can_go_on and is_only_thread():
            raise PoolTimeout(ENDLESS)
