"""Wait for many sockets through one descriptor, with epoll, kqueue, poll or select.

CurlMulti.select does not work, because select(2) cannot see descriptors above 1023 and spins on
them. A poller knows nothing about transfers: libcurl tells the driver which sockets to watch.
"""

from __future__ import annotations

import math
import select
import sys
from contextlib import suppress
from math import ceil
from threading import current_thread, main_thread
from time import monotonic, sleep
from typing import Any, Protocol

from curlhttp._libcurl import pycurl
from curlhttp._libcurl.errors import report_descriptor_shortage

if sys.platform == "win32":
    from socket import socketpair  # which connects two TCP sockets
else:
    from _socket import socketpair

_select: Any = select  # Any: no platform has all of it
_IN, _OUT = pycurl.POLL_IN, pycurl.POLL_OUT
_BATCH = 256  # events taken at once


class Poller(Protocol):
    """A set of sockets with one descriptor to wait for."""

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when one of the sockets is ready.

        Raises:
            NotImplementedError: there is none.
        """

    def watch(self, descriptor: int, what: int) -> None:
        """Report a socket from now on when it is ready for what libcurl wants to do.

        Args:
            descriptor: the socket.
            what: pycurl.POLL_IN, POLL_OUT or both (POLL_INOUT).
        """

    def forget(self, descriptor: int) -> None:
        """Stop reporting a socket, which may already be closed."""

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Wait until a socket is ready, and return those that are.

        Args:
            seconds: how long to wait; None for no limit.

        Returns:
            Descriptors with libcurl's CSELECT bits.
        """

    def close(self) -> None:
        """Close the descriptor, not the sockets."""


def _mask(what: int) -> int:
    """Return libcurl's POLL bits as bits of epoll and poll, which use the same ones."""
    # POLL_IN is EPOLLIN and POLLIN; POLL_OUT is 2, EPOLLOUT and POLLOUT are 4
    mask: int = (what & _IN) | ((what & _OUT) << 1)
    return mask


def _ready(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return descriptors with bits of epoll or poll as descriptors with CSELECT bits."""
    for _, mask in found:
        if mask != 1:
            break
    else:  # most are only readable
        return found
    # Errors and hang-ups are reported as readable, because libcurl finds the reason by reading.
    return [(fd, (1 if mask & ~4 else 0) | (mask & 4) >> 1) for fd, mask in found]


class EpollSockets:
    """A set of sockets with one descriptor, by epoll (Linux)."""

    def __init__(self) -> None:
        self._epoll = _select.epoll()
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def watch(self, descriptor: int, what: int) -> None:
        """Report a socket from now on when it is ready for what libcurl wants to do."""
        mask = _mask(what)
        try:
            self._epoll.modify(descriptor, mask)
        except FileNotFoundError:  # new, or the earlier socket with this number was closed
            self._epoll.register(descriptor, mask)

    def forget(self, descriptor: int) -> None:
        """Stop reporting a socket."""
        with suppress(OSError):  # it was closed, which unregisters it
            self._epoll.unregister(descriptor)

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the sockets that are ready."""
        return _ready(self._epoll.poll(seconds, _BATCH))


class _FewSockets:
    """Base class of sets without a descriptor, for a thread that waits itself.

    Attributes:
        wanted: what is reported of each socket.
    """

    def __init__(self) -> None:
        self.wanted: dict[int, int] = {}
        self.watch = self.wanted.__setitem__

    def fileno(self) -> int:
        """Raise, because the owner must call `poll` instead of waiting for a descriptor."""
        raise NotImplementedError("it has no descriptor")

    def forget(self, descriptor: int) -> None:
        """Stop reporting a socket."""
        self.wanted.pop(descriptor, None)

    def descriptors(self) -> list[int]:
        """Return the sockets; any thread may call this."""
        return list(self.wanted)

    def close(self) -> None:
        """Do nothing, because there is no descriptor."""


class PollSockets(_FewSockets):
    """A few sockets, by poll.

    Changing what is watched makes no system call, because most changes are undone before a wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self._polled: dict[int, int] = {}
        self._poll = _select.poll().poll

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the sockets that are ready."""
        if self.wanted != self._polled:  # most waits are for the same as the last one
            self._polled = self.wanted.copy()
            poller = _select.poll()
            for descriptor, what in self._polled.items():
                poller.register(descriptor, _mask(what))
            self._poll = poller.poll
        found = self._poll(None if seconds is None else ceil(seconds * 1000))
        return found if len(found) == 1 and found[0][1] == 1 else _ready(found)


class KqueueSockets:
    """A set of sockets with one descriptor, by kqueue (macOS and the BSDs)."""

    def __init__(self) -> None:
        self._kqueue = _select.kqueue()
        self.fileno = self._kqueue.fileno
        self.close = self._kqueue.close

    def watch(self, descriptor: int, what: int) -> None:
        """Report a socket from now on when it is ready for what libcurl wants to do."""
        self._change(descriptor, what)

    def forget(self, descriptor: int) -> None:
        """Stop reporting a socket."""
        self._change(descriptor, 0)

    def _change(self, descriptor: int, what: int) -> None:
        for bit, filter_ in ((_IN, _select.KQ_FILTER_READ), (_OUT, _select.KQ_FILTER_WRITE)):
            flags = _select.KQ_EV_ADD if what & bit else _select.KQ_EV_DELETE
            try:
                self._kqueue.control([_select.kevent(descriptor, filter_, flags)], 0)
            except OSError:
                if what & bit:
                    raise

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the sockets that are ready."""
        ready: dict[int, int] = {}  # kqueue reports reading and writing by themselves
        for event in self._kqueue.control(None, _BATCH, seconds):
            bits = 1 if event.filter == _select.KQ_FILTER_READ else 2
            if event.flags & _select.KQ_EV_EOF:  # readable, as in `_ready`
                bits |= 1
            ready[event.ident] = ready.get(event.ident, 0) | bits
        return list(ready.items())


_SELECTED = 500  # sockets in one select: Windows takes 512, and the thread of a loop adds its own
_ROUND = 0.01  # seconds between two looks at more sockets than that
_SLICE = 0.1  # seconds of one wait: on Windows, Ctrl-C does not end it


class SelectSockets(_FewSockets):
    """A set of sockets by select, for platforms without the others (Windows)."""

    def _get_watched(self) -> list[tuple[int, int]]:
        return list(self.wanted.items())

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the sockets that are ready."""
        end = math.inf if seconds is None else monotonic() + seconds
        wanted = self._get_watched()
        # Beyond what one select takes, each group is looked at in turn.
        groups = [wanted[at : at + _SELECTED] for at in range(0, len(wanted), _SELECTED)]
        if len(groups) > 1:
            longest = _ROUND
        else:
            longest = _SLICE if current_thread() is main_thread() else math.inf
        while True:
            left = max(0.0, min(end - monotonic(), longest))
            if len(groups) == 1:
                ready = _select_ready(wanted, left)
            else:  # Windows refuses a select of no socket
                ready = [found for group in groups for found in _select_ready(group, 0)]
                if not ready:
                    sleep(min(left, _SLICE))
            if ready or monotonic() >= end:
                return ready


class Wakeup:
    """A pair of sockets with which any thread ends the wait of another one.

    Attributes:
        descriptor: is readable from `send` until `receive`.
    """

    def __init__(self) -> None:
        with report_descriptor_shortage():
            self._near, self._far = socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        self.descriptor = self._near.fileno()

    def send(self) -> None:
        """End the wait, or the next one; does nothing after `close`."""
        with suppress(OSError):  # full, or closed
            self._far.send(b"\0")

    def receive(self) -> None:
        """Let the next wait last again."""
        with suppress(OSError):
            self._near.recv(4096)

    def close(self) -> None:
        """Close both sockets; may be called twice."""
        self._near.close()
        self._far.close()

    def __del__(self) -> None:
        if hasattr(self, "_far"):  # no descriptor may have been left
            self.close()


class WakeableSockets(SelectSockets):
    """The same for a thread that another one must wake.

    Windows does not promise that a select ends when a socket is shut down, as a poll does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._wakeup = Wakeup()

    def _get_watched(self) -> list[tuple[int, int]]:
        return [*super()._get_watched(), (self._wakeup.descriptor, _IN)]

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return the sockets that are ready; or none, if the thread was woken."""
        ready = super().poll(seconds)
        own = (self._wakeup.descriptor, _IN)
        if own in ready:
            ready.remove(own)
            self._wakeup.receive()
        return ready

    def wake(self) -> None:
        """End the wait, or the next one; any thread may call this."""
        self._wakeup.send()

    def close(self) -> None:
        """Close the sockets that wake the thread, not the watched ones."""
        self._wakeup.close()


def _select_ready(wanted: list[tuple[int, int]], seconds: float) -> list[tuple[int, int]]:
    """Return the sockets that are ready, as `poll` does."""
    reads = [descriptor for descriptor, what in wanted if what & _IN]
    writes = [descriptor for descriptor, what in wanted if what & _OUT]
    try:
        # Windows reports a failed attempt to connect as an exceptional condition.
        readable, writable, failed = select.select(
            reads, writes, writes, None if seconds == math.inf else seconds
        )
    except (OSError, ValueError):
        if len(wanted) > 1:  # one of them was closed
            return [found for one in wanted for found in _select_ready([one], 0)]
        return [(wanted[0][0], _IN)]  # libcurl finds the reason by reading
    bits = dict.fromkeys([*readable, *failed], _IN)
    for descriptor in writable:
        bits[descriptor] = bits.get(descriptor, 0) | _OUT
    return list(bits.items())


def make_poller() -> Poller:
    """Return a new poller, of the best kind that this platform has."""
    if hasattr(select, "epoll"):
        return EpollSockets()
    if hasattr(select, "kqueue"):
        return KqueueSockets()
    return SelectSockets()


def make_small_poller() -> PollSockets | SelectSockets:
    """Return a new poller for a few sockets, for a thread that waits itself."""
    return PollSockets() if hasattr(select, "poll") else SelectSockets()


def make_wakeable_poller() -> PollSockets | WakeableSockets:
    """Return a new poller for a few sockets, whose thread another one can wake.

    Where there is poll(2), shutting a socket down is enough.
    """
    return PollSockets() if hasattr(select, "poll") else WakeableSockets()
