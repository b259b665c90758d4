"""A model of kqueue for Linux: what kqueue(2) of macOS says about sockets, made of two epolls.

It stands in for the module `select` in `curlhttp._libcurl.poller`; with `-p tests.support.kqueue`
in all tests. One epoll holds what is watched for reading and one what is watched for writing,
because kqueue keeps an event by its descriptor and filter, and reports each by itself. Like kqueue,
an epoll drops a descriptor that is closed.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from tests.support.internals import use_kqueue

_select: Any = select

poll = _select.poll  # macOS has it, too
KQ_FILTER_READ, KQ_FILTER_WRITE = -1, -2
KQ_EV_ADD, KQ_EV_DELETE, KQ_EV_EOF = 0x1, 0x2, 0x8000


def pytest_configure() -> None:
    """Use the model in all tests."""
    use_kqueue(pytest.MonkeyPatch(), sys.modules[__name__])


class kevent(NamedTuple):  # noqa: N801  # the name in `select`
    """What to change, or what happened."""

    ident: int
    filter: int = KQ_FILTER_READ
    flags: int = KQ_EV_ADD


class kqueue:  # noqa: N801  # the name in `select`
    """A queue of kernel events, of sockets alone."""

    def __init__(self) -> None:
        self._all = _select.epoll()
        self._of: dict[int, Any] = {}
        for filter_ in (KQ_FILTER_READ, KQ_FILTER_WRITE):
            self._of[filter_] = _select.epoll()
            self._all.register(self._of[filter_], select.EPOLLIN)

    def fileno(self) -> int:
        """Return the descriptor, which is readable while an event is waiting."""
        descriptor: int = self._all.fileno()
        return descriptor

    def close(self) -> None:
        """Close the queue, not the sockets."""
        for epoll in (self._all, *self._of.values()):
            epoll.close()

    def control(
        self, changes: Iterable[kevent] | None, most: int, seconds: float | None = None
    ) -> list[kevent]:
        """Apply the changes, and then return at most so many events.

        Raises:
            OSError: a change failed: of a closed descriptor, or one that deletes what is not there.
            ValueError: the queue is closed, or the number of seconds is negative.
        """
        if seconds is not None and seconds < 0:
            raise ValueError("timeout must be positive or None")
        for change in changes or ():
            self._change(change)
        if not most or not self._all.poll(seconds):
            return []
        return [
            kevent(descriptor, filter_, KQ_EV_EOF if mask & ended else 0)
            for filter_, ended in (
                (KQ_FILTER_READ, select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR),
                (KQ_FILTER_WRITE, select.EPOLLHUP | select.EPOLLERR),
            )
            for descriptor, mask in self._of[filter_].poll(0)
        ][:most]

    def _change(self, change: kevent) -> None:
        epoll = self._of[change.filter]
        if change.flags == KQ_EV_DELETE:
            epoll.unregister(change.ident)
            return
        is_read = change.filter == KQ_FILTER_READ
        mask = select.EPOLLIN | select.EPOLLRDHUP if is_read else select.EPOLLOUT
        try:
            epoll.modify(change.ident, mask)
        except FileNotFoundError:
            epoll.register(change.ident, mask)
