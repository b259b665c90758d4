"""The readiness of many sockets behind one descriptor, by what the platform has for that.

Not CurlMulti.select: select(2) cannot see descriptors above 1023 and spins on them. Knows nothing
of transfers: which sockets there are, and for what to watch them, libcurl tells the driver.
"""

from __future__ import annotations

import select
from contextlib import suppress
from math import ceil
from typing import Any, Protocol

import pycurl

__all__ = ["PollSockets", "SelectorSockets", "make_poller", "make_small_poller"]

_select: Any = select  # Any: no platform has all of it
_IN, _OUT = pycurl.POLL_IN, pycurl.POLL_OUT
_BATCH = 256  # events taken at once


class Poller(Protocol):
    """A set of sockets that can be waited for as one."""

    def fileno(self) -> int:
        """Return the descriptor that gets readable when one of the sockets is ready."""

    def watch(self, descriptor: int, what: int) -> None:
        """Report from now on when a socket is ready for what libcurl wants of it.

        Args:
            descriptor: the socket.
            what: pycurl.POLL_IN, POLL_OUT or both (POLL_INOUT).
        """

    def forget(self, descriptor: int) -> None:
        """Report nothing of a socket any more; it may be closed already."""

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Wait until something is ready, and return what is.

        Args:
            seconds: how long to wait; None for as long as it takes.

        Returns:
            Descriptors with libcurl's CSELECT bits.
        """

    def close(self) -> None:
        """Close the descriptor, not the sockets."""


def _mask(what: int) -> int:
    """Return what libcurl wants as bits of epoll and poll, which have the same for it."""
    # POLL_IN is EPOLLIN and POLLIN; POLL_OUT is 2, EPOLLOUT and POLLOUT are 4
    mask: int = (what & _IN) | ((what & _OUT) << 1)
    return mask


def _ready(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return descriptors with bits of epoll and poll as those with libcurl's CSELECT bits."""
    # Errors and hang-ups go to libcurl as readable: it finds out what happened by reading.
    return [(fd, (1 if mask & ~4 else 0) | (mask & 4) >> 1) for fd, mask in found]


class EpollSockets:
    """The readiness of a set of sockets, as one descriptor (Linux)."""

    def __init__(self) -> None:
        self._epoll = _select.epoll()
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def watch(self, descriptor: int, what: int) -> None:
        """Report from now on when a socket is ready for what libcurl wants of it."""
        mask = _mask(what)
        try:
            self._epoll.modify(descriptor, mask)
        except FileNotFoundError:  # new, or its number is of a socket that was closed meanwhile
            self._epoll.register(descriptor, mask)

    def forget(self, descriptor: int) -> None:
        """Report nothing of a socket any more."""
        with suppress(OSError):  # closed already, which unregisters
            self._epoll.unregister(descriptor)

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return what is ready."""
        return _ready(self._epoll.poll(seconds, _BATCH))


class PollSockets:
    """The readiness of a handful of sockets, for a thread that waits itself (poll).

    A change of what is watched is no call into the system: most are taken back before a wait.
    """

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}
        self._polled: dict[int, int] = {}
        self._poll = _select.poll().poll
        self.watch = self._wanted.__setitem__

    def fileno(self) -> int:
        """Refuse: whoever drives must call `poll` instead of waiting for a descriptor."""
        raise NotImplementedError("poll has no descriptor of its own")

    def forget(self, descriptor: int) -> None:
        """Report nothing of a socket any more."""
        self._wanted.pop(descriptor, None)

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return what is ready."""
        if self._wanted != self._polled:  # one wait is mostly for what the last one was for
            self._polled = self._wanted.copy()
            poller = _select.poll()
            for descriptor, what in self._polled.items():
                poller.register(descriptor, _mask(what))
            self._poll = poller.poll
        return _ready(self._poll(None if seconds is None else ceil(seconds * 1000)))

    def descriptors(self) -> list[int]:
        """Return the sockets, to any thread."""
        return list(self._wanted)

    def close(self) -> None:
        """Hold nothing more: there is no descriptor."""


class KqueueSockets:
    """The readiness of a set of sockets, as one descriptor (macOS and the BSDs)."""

    def __init__(self) -> None:
        self._kqueue = _select.kqueue()
        self.fileno = self._kqueue.fileno
        self.close = self._kqueue.close

    def watch(self, descriptor: int, what: int) -> None:
        """Report from now on when a socket is ready for what libcurl wants of it."""
        self._change(descriptor, what)

    def forget(self, descriptor: int) -> None:
        """Report nothing of a socket any more."""
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
        """Return what is ready."""
        found = self._kqueue.control(None, _BATCH, seconds)
        readable = _select.KQ_FILTER_READ
        return [(event.ident, 1 if event.filter == readable else 2) for event in found]


class SelectorSockets:
    """The readiness of a set of sockets, on platforms where nothing else can wait for it."""

    def __init__(self) -> None:
        import selectors

        self._selector = selectors.DefaultSelector()
        self.close = self._selector.close

    def fileno(self) -> int:
        """Refuse: whoever drives must call `poll` instead of waiting for a descriptor."""
        raise NotImplementedError("this platform has no pollable set of sockets")

    def watch(self, descriptor: int, what: int) -> None:
        """Report from now on when a socket is ready for what libcurl wants of it."""
        self.forget(descriptor)
        self._selector.register(descriptor, what)

    def forget(self, descriptor: int) -> None:
        """Report nothing of a socket any more."""
        with suppress(KeyError):
            self._selector.unregister(descriptor)

    def descriptors(self) -> list[int]:
        """Return the sockets, to any thread."""
        return [key.fd for key in list(self._selector.get_map().values())]

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return what is ready."""
        return [(key.fd, events) for key, events in self._selector.select(seconds)]


def make_poller() -> Poller:
    """Return a new set of sockets, of the best kind that this platform has."""
    if hasattr(select, "epoll"):
        return EpollSockets()
    if hasattr(select, "kqueue"):
        return KqueueSockets()
    return SelectorSockets()


def make_small_poller() -> PollSockets | SelectorSockets:
    """Return a new set for a handful of sockets, of a thread that waits itself."""
    return PollSockets() if hasattr(select, "poll") else SelectorSockets()
