"""The results of `Client.map`. Requests go on while the consumer waits for the next one."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from curlhttp._map.senders import Sender, Senders
from curlhttp._map.work import MapResult, Work
from curlhttp._models.errors import Unpicklable
from curlhttp.exceptions import ConnectionError

__all__ = ["Results"]

Self = TypeVar("Self", bound="Results")


class Results(Unpicklable):
    """The results of a map, one by one; those that are not wanted are not waited for.

    Iterate over it once, in one thread at a time. When that ends early, by `close`, at the end of
    a `with` or when it is dropped, requests under way are cancelled and no others are sent.
    """

    _why_not = "its requests are under way; pass on its results, which can be pickled"

    def __init__(self, senders: Senders, work: Work) -> None:
        self._senders = senders
        self._work = work
        self._sender: Sender | None = None
        self._is_running = self._is_closed = False

    def __iter__(self: Self) -> Self:
        return self

    def __next__(self) -> MapResult:
        if self._is_closed:
            raise StopIteration
        if self._is_running:
            raise RuntimeError("this map is being iterated over already")
        self._is_running = True
        try:
            return self._advance()
        except Exception:
            self._end(reusable=True)
            raise
        except BaseException:  # Ctrl-C, which may have come at any line of the engine
            self._end(reusable=False)
            raise
        finally:
            self._is_running = False

    def _advance(self) -> MapResult:
        work, sender = self._work, self._sender
        if sender is None:
            sender = self._sender = self._senders.take()
        elif sender.is_lost:
            raise ConnectionError("this map belongs to the process that this one was forked from")
        sender.run_ready()
        while True:
            while (job := work.next()) is not None:
                if not sender.start(job[1], partial(work.settle, job)) and work.has_result:
                    break
            if work.has_result:
                return work.take()
            if work.is_done:
                raise work.end() or StopIteration
            sender.run_once()

    def close(self) -> None:
        """Cancel what is under way, and send no more."""
        if self._is_running:
            raise RuntimeError("this map cannot be closed by what it runs itself")
        self._end(reusable=True)

    def _end(self, *, reusable: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        sender, self._sender = self._sender, None
        if sender is not None and sender.is_lost:
            return  # all is the parent's
        try:
            self._work.close()
        finally:
            if sender is not None:
                self._release(sender, reusable)

    def _release(self, sender: Sender, reusable: bool) -> None:
        try:
            sender.cancel()
        except BaseException:
            sender.close()
            raise
        if reusable:
            self._senders.give(sender)
        else:
            sender.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._end(reusable=True)
