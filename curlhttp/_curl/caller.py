"""Who waits for one request on a curl_multi: in line for its turn, then for its end."""

from __future__ import annotations

from typing import TypeAlias

from curlhttp._curl.slots import SlotWaiter
from curlhttp._curl.transfer import Transfer
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["Caller", "Waited"]


class Caller(SlotWaiter):
    """One request that found no free slot.

    Whoever gives a slot back starts the transfer of the first in line, and a transfer that ended
    well goes on to the next as soon as its response is made: the task is woken once, at the end.

    Args:
        request: complete.
        origin: that of its slot.
        came: the monotonic time.
        keeps: its task deals with the transfer from the start, to feed it or to read from it.

    Attributes:
        wake: wakes the task that waits, if one does; set anew for each wait.
        transfer: carries the request, from its turn until it is given back.
        response: of a transfer that ended well, and was given back.
        error: why there is no transfer.
        is_over: its task has to do the rest: there is something to return, to raise or to keep.
    """

    __slots__ = ("came", "error", "is_over", "keeps", "request", "response", "transfer")

    def __init__(self, request: Request, origin: str, came: float, *, keeps: bool) -> None:
        super().__init__(origin, None)
        self.request = request
        self.came = came
        self.keeps = keeps
        self.transfer: Transfer | None = None
        self.response: Response | None = None
        self.error: BaseException | None = None
        self.is_over = False

    def go_on(self) -> None:
        """Let its task do the rest."""
        self.is_over = True
        if self.wake is not None:
            self.wake()

    def take_transfer(self) -> Transfer:
        """Return the transfer, which is the task's from now on, or raise why there is none."""
        if self.error is not None:
            raise self.error
        assert self.transfer is not None
        return self.transfer


Waited: TypeAlias = "Caller | Transfer"
"""What a task may wait for: it has a `wake`."""
