"""Watch the sockets of an event loop in a thread, for loops that cannot watch them.

asyncio's ProactorEventLoop, the default on Windows, has no `add_reader`, and Windows has no
descriptor that represents many sockets. The thread waits until a socket is ready, lets the loop
handle it, and waits again after that. It starts with the first socket and ends with its engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from curlhttp._http.exiting import start_thread
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.poller import Wakeup, make_small_poller

_IN, _OUT = int(pycurl.POLL_IN), int(pycurl.POLL_OUT)
_Call: TypeAlias = Callable[[], object]


class SocketThread:
    """A poller whose sockets a thread watches; all other methods run in the loop's thread.

    Args:
        call_soon: calls a function in the loop, from any thread; RuntimeError if the loop has
            ended.
        run: called in the loop when sockets of the driver are ready.
    """

    def __init__(self, call_soon: Callable[[_Call], object], run: _Call) -> None:
        self._call_soon = call_soon
        self._run_driver = run
        self._sockets = make_small_poller()  # the driver's
        self._wanted: dict[int, int] = {}  # those of the driver and of streams
        self._callbacks: dict[tuple[int, int], _Call] = {}  # of streams, by socket and bit
        self._wakeup: Wakeup | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        # The thread will look at `_wanted` before it waits, so it need not be woken for a change.
        self._will_look = False
        self._handled = threading.Lock()  # released when the loop has handled what was ready

    def fileno(self) -> int:
        """Raise, because the thread waits."""
        raise NotImplementedError("a thread watches the sockets")

    def watch(self, descriptor: int, what: int) -> None:
        """Report a socket from now on when it is ready for what libcurl wants to do."""
        self._sockets.watch(descriptor, what)
        self._wanted[descriptor] = what
        self._change()

    def forget(self, descriptor: int) -> None:
        """Stop reporting a socket."""
        self._sockets.forget(descriptor)
        if self._wanted.pop(descriptor, None) is not None:
            self._change()

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the sockets of the driver that are ready."""
        return self._sockets.poll(seconds)

    # sockets of streams, with the methods of an asyncio loop

    # Any: the arguments are those of the function.
    def add_reader(self, descriptor: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function whenever a socket is readable."""
        self._add(descriptor, _IN, lambda: call(*arguments))

    def add_writer(self, descriptor: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function whenever a socket is writable."""
        self._add(descriptor, _OUT, lambda: call(*arguments))

    def remove_reader(self, descriptor: int) -> None:
        """Stop calling the function of `add_reader`, if there is one."""
        self._remove(descriptor, _IN)

    def remove_writer(self, descriptor: int) -> None:
        """Stop calling the function of `add_writer`, if there is one."""
        self._remove(descriptor, _OUT)

    def _add(self, descriptor: int, bit: int, call: _Call) -> None:
        self._callbacks[descriptor, bit] = call
        self._wanted[descriptor] = self._wanted.get(descriptor, 0) | bit
        self._change()

    def _remove(self, descriptor: int, bit: int) -> None:
        if self._callbacks.pop((descriptor, bit), None) is None:
            return
        left = self._wanted[descriptor] & ~bit
        if left:
            self._wanted[descriptor] = left
        else:
            del self._wanted[descriptor]
        self._change()

    # the thread

    def _change(self) -> None:
        """Make the thread look at the sockets again; the first time, start it."""
        if self._will_look or self._is_closed:
            return
        self._will_look = True
        if self._wakeup is not None:
            self._wakeup.send()
            return
        self._wakeup = Wakeup()
        self._thread = start_thread(self._run, "curlhttp: sockets")

    def _run(self) -> None:
        assert self._wakeup is not None
        while not self._is_closed:
            self._will_look = False  # first, so that no change is lost
            ready = self._wait(self._wakeup)
            if ready and not self._hand_over(ready):
                break
        self._wakeup.close()

    def _hand_over(self, ready: list[tuple[int, int]]) -> bool:
        """Let the loop handle sockets, and wait until it has; return False if it has ended."""
        self._will_look = True
        self._handled.acquire()
        if not self._is_closed:
            try:
                self._call_soon(partial(self._handle, ready))
            except RuntimeError:
                return False
            self._handled.acquire()
        self._release()
        return True

    def _wait(self, wakeup: Wakeup) -> list[tuple[int, int]]:
        """Wait until the loop has something to do or has changed the sockets."""
        sockets = make_small_poller()
        for descriptor, what in self._wanted.copy().items():
            sockets.watch(descriptor, what)
        sockets.watch(wakeup.descriptor, _IN)
        ready = sockets.poll(None)
        wakeup.receive()
        return [found for found in ready if found[0] != wakeup.descriptor]

    def _handle(self, ready: list[tuple[int, int]]) -> None:
        """Handle sockets that are ready, in the loop."""
        try:
            if self._is_closed:
                return
            calls = [self._callbacks.get((descriptor, bit)) for descriptor, bit in _split(ready)]
            if None in calls:
                self._run_driver()
            for call in calls:
                if call is not None:
                    call()
        finally:
            self._release()

    def _release(self) -> None:
        with suppress(RuntimeError):  # the thread does not wait
            self._handled.release()

    # the end

    def close(self) -> None:
        """End the thread, without waiting for it; may be called twice, and in any thread."""
        self._is_closed = True
        if self._wakeup is not None:
            self._wakeup.send()
        self._release()

    def join(self) -> None:
        """Wait until the thread has ended, after `close`."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _split(ready: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sockets and their bits, each with one bit."""
    return [(found, bit) for found, bits in ready for bit in (_IN, _OUT) if bits & bit]
