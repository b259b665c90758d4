"""Which requests of a map are sent, which wait, and which items are in the backlog of their host.

A request that has to wait for a limit, a rate or a retry says so to its MapPlace; see `leave_place`
in _features/waits. While it waits, the map sends other requests. If it waits for its host, the next
items of that host are not even started: they are in the host's backlog. One of them is tried when
nothing of that host waits any more, and the next one as soon as that one is sent.

A request that has waited needs a place only to be sent. Those that have one wait for nothing but
the network, so no request waits in vain for a place, whatever else it holds.

It sends nothing and never waits. One thread uses it, or the tasks of one event loop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, TypeVar

from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._http.errors import deadline_error
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Runtime, Send, Waiter
from curlhttp._runtime.log import INFO, log
from curlhttp._runtime.race import is_extra

Job: TypeAlias = tuple[int, ClientRequest, bool]
"""The number of an item, its request, and whether that is straight: see BaseClient."""

T = TypeVar("T")

AT_ONCE = 250  # items that are put into backlogs before requests that run can continue


class _HostBacklog:
    """A host that requests wait for.

    Args:
        origin: of the host.

    Attributes:
        parked: requests that wait for it.
        jobs: its backlog.
        is_tried: a job of the backlog was started, and is neither sent nor waits yet.
        is_due: another job may be started.
    """

    __slots__ = ("is_due", "is_tried", "jobs", "origin", "parked")

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.parked = 0
        self.jobs: deque[Job] = deque()
        self.is_tried = self.is_due = False


class Backlog:
    """Count the running requests of a map, and those that wait.

    Args:
        concurrency: the maximum number of requests that are sent at the same time.
        backlog: the number of waiting requests and items beyond which no further items are taken.
        ordered: whether what waits counts as ahead of the consumer.

    Attributes:
        running: the number of requests that were started and do not wait.
        waiting: the number of requests that wait, and of items in backlogs.
        has_more: there may be another job, although `next` has returned None to let others go on.
        runtime: of the engine; None if it sends one request after another, so that none can leave
            its place.
        on_room: called when there may be another job to start, but not by `next` or `settle`.
        on_full: called the first time that no further items are taken, because as many wait as may,
            with the words that say until when.
    """

    # Without them, Python reads all attributes more slowly: there are too many.
    __slots__ = (
        *("_ahead", "_comes", "_concurrency", "_due", "_gate", "_has_told", "_hosts", "_is_over"),
        *("_is_turn_of_due", "_most_waiting", "_ordered", "_put", "_reads", "_unsent", "_window"),
        *("has_more", "on_full", "on_room", "running", "runtime", "waiting"),
    )

    def __init__(self, concurrency: int, backlog: int, *, ordered: bool) -> None:
        self.running: int = 0
        self.waiting: int = 0
        self.has_more: bool = False
        self.runtime: Runtime | None = None
        self.on_room: Callable[[], object] = bool
        self.on_full: Callable[[str], object] = _log_full
        self._concurrency = concurrency
        self._window = 2 * concurrency
        self._most_waiting = backlog
        self._ordered = ordered
        self._ahead = 0  # running requests, and results that the consumer has not taken
        self._is_over = False  # there are no more items
        self._reads = True  # items are taken: there are more, and room for those that would wait
        self._unsent = 0  # running requests that are in the flow, but not at the engine
        self._hosts: dict[str, _HostBacklog] = {}  # that requests wait for
        self._due: deque[_HostBacklog] = deque()
        self._is_turn_of_due = False
        self._gate: OrderedDict[_WaitingAttempt, None] = OrderedDict()
        self._comes = False  # one was let through the gate, and its task has not run yet
        self._put = 0  # items that the current call of `next` has put into backlogs
        self._has_told = False

    # the backlogs of hosts

    def _put_back(self, job: Job) -> bool:
        """Put a job into the backlog of its host, if other requests wait for that."""
        host = self._hosts.get(job[1].url.origin)
        if host is None:
            return False
        host.jobs.append(job)
        self._note_left()
        self._put += 1
        return True

    def _take_due(self, *, alternates: bool) -> Job | None:
        """Return the next job of a backlog, in turns of the hosts; None if there is none.

        Args:
            alternates: return None every other time, if an item can be taken instead.
        """
        if self.running >= self._concurrency:
            return None
        if not self._ordered and self._ahead >= self._window:
            return None
        self._is_turn_of_due = not self._is_turn_of_due
        if alternates and self._reads and not self._is_turn_of_due:
            return None
        host = self._due.popleft()
        host.is_due = False
        job = host.jobs.popleft()
        place = job[1].place
        if isinstance(place, MapPlace):
            host.is_tried = True
            place.tried = host
        self._note_back()
        self._note_due(host)
        return job

    def _note_due(self, host: _HostBacklog) -> None:
        """Note whether a job of a host's backlog may be started."""
        if host.parked or host.is_tried or host.is_due:
            return
        if host.jobs:
            host.is_due = True
            self._due.append(host)
        elif self._hosts.get(host.origin) is host:
            del self._hosts[host.origin]

    def _drop_backlogs(self) -> None:
        """Forget the items in backlogs. Their requests may be sent again, without a place."""
        for host in self._hosts.values():
            for _, request, _ in host.jobs:
                request.place = None
            self.waiting -= len(host.jobs)
            host.jobs.clear()
            host.is_due = False
        self._due.clear()

    # counts

    def _note_back(self) -> None:
        """Count a request that no longer waits."""
        self.waiting -= 1
        self.running += 1
        if not self._ordered:
            self._ahead += 1
        self._reads = not self._is_over and self.waiting < self._most_waiting

    def _note_left(self) -> None:
        """Count a running request that waits now."""
        self.running -= 1
        self.waiting += 1
        if not self._ordered:
            self._ahead -= 1
        if self.waiting >= self._most_waiting and self._reads:
            self._reads = False
            if not self._has_told:
                self._has_told = True
                self.on_full(self._describe_full())

    def _describe_full(self) -> str:
        first = max(self._hosts.values(), key=lambda host: len(host.jobs), default=None)
        until = f"until fewer than {self._most_waiting} wait for their hosts"
        if first is None:
            return until
        return f"{until}; {len(first.jobs) + first.parked} of them wait for {first.origin}"

    def end_items(self) -> None:
        """Note that there are no more items."""
        self._is_over = True
        self._reads = False

    # the places at the engine

    @property
    def _is_full(self) -> bool:
        return self.running - self._unsent >= self._concurrency

    def _open_gate(self) -> None:
        """Let the first request that has waited be sent, if there is room."""
        # One at a time, because trio runs woken tasks in any order.
        if self._gate and not self._comes and not self._is_full:
            turn, _ = self._gate.popitem(last=False)
            turn.has_come = self._comes = True
            self._unsent -= 1
            turn.waiter.wake()

    async def _wait_for_turn(self, request: ClientRequest) -> None:
        """Wait until fewer requests are sent; at most until the deadline of the request."""
        assert self.runtime is not None
        turn = _WaitingAttempt(self.runtime.make_waiter())
        self._gate[turn] = None
        left = None
        if request.deadline is not None:
            left = max(0.0, request.deadline - self.runtime.now())
        try:
            await turn.waiter.wait(left)
        except BaseException:
            if turn.has_come:
                self._comes = False
                self._note_unsent()
            raise
        finally:
            self._gate.pop(turn, None)
        if not turn.has_come:
            raise deadline_error(request, was_sent=False)
        self._comes = False
        self._open_gate()

    def _note_unsent(self) -> None:
        """Note that a request is no longer at the engine."""
        self._unsent += 1
        if self._gate:
            self._open_gate()

    def _drop_waiting(self) -> None:
        """Forget all backlogs, and let those that wait for a place go on, to their end."""
        self.end_items()
        self._drop_backlogs()
        self._hosts.clear()
        self._concurrency = self.running + self.waiting + 1
        self._open_gate()


def _log_full(until: str) -> None:
    # No warning, because it is no fault if all items are of one host.
    log.write(
        INFO,
        "map takes no further items %s. If other hosts come later among the items, mix the items "
        "or raise backlog=",
        until,
    )


class _WaitingAttempt:
    """A request that has waited, and waits for a place to be sent."""

    __slots__ = ("has_come", "waiter")

    def __init__(self, waiter: Waiter) -> None:
        self.waiter = waiter
        self.has_come = False


class MapPlace:
    """What a map knows of a request that may have to wait.

    Args:
        backlog: of the map.

    Attributes:
        tried: the host whose backlog it comes from, until it is sent or waits; or None.
    """

    __slots__ = ("_backlog", "_host", "_leaves", "_left_engine", "_sends", "tried")

    holds_streams = False
    """Whether a streamed response keeps the place until its body has ended."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog: Backlog | None = backlog  # None at the end
        self._leaves = 0  # waits that have begun and not ended
        self._sends = 0  # attempts that are at the engine
        self._left_engine = False
        self._host: _HostBacklog | None = None  # that it waits for
        self.tried: _HostBacklog | None = None

    async def run(self, flow: Callable[[ClientRequest], Awaitable[T]], request: ClientRequest) -> T:
        """Send a request through the flow, which calls `send` in the end."""
        backlog = self._backlog
        assert backlog is not None
        backlog._note_unsent()
        try:
            return await flow(request)
        finally:
            backlog._unsent -= 1
            self._end_try()
            self._backlog = request.place = None

    async def send(self, send: Send, request: ClientRequest) -> Response:
        """Pass a request to the engine, as soon as there is a place."""
        backlog = self._backlog
        if backlog is None:  # a transfer that others share, after the end of the map
            return await send(request)
        is_behind = backlog._gate or backlog._comes or backlog._is_full
        if is_behind and not is_extra(request) and not (self.holds_streams and self._sends):
            await backlog._wait_for_turn(request)
        else:
            backlog._unsent -= 1
        self._sends += 1
        try:
            self._end_try()
            response = await send(request)
        except BaseException:
            self._end_send(backlog)
            raise
        if self.holds_streams and isinstance(response, BaseStreamedResponse):
            response._at_end(partial(self._end_send, backlog))
        else:
            self._end_send(backlog)
        return response

    def _end_send(self, backlog: Backlog, _: BaseException | None = None) -> None:
        self._sends -= 1
        backlog._note_unsent()

    def leave(self, origin: str | None) -> None:
        """Leave the place, because the request waits.

        Args:
            origin: of the host that it waits for, as others would; None for a wait of its own.
        """
        self._leaves += 1
        backlog = self._backlog
        if self._leaves > 1 or backlog is None:
            return
        if origin is not None:
            self._host = backlog._hosts.get(origin)
            if self._host is None:
                self._host = backlog._hosts[origin] = _HostBacklog(origin)
            self._host.parked += 1
        self._end_try()
        backlog._note_left()
        self._left_engine = self._sends > 0
        if not self._left_engine:
            backlog._unsent -= 1
        elif backlog._gate:
            backlog._open_gate()
        backlog.on_room()

    def come_back(self) -> None:
        """End the wait."""
        self._leaves -= 1
        backlog = self._backlog
        if self._leaves or backlog is None:
            return
        backlog._note_back()
        if not self._left_engine:
            backlog._unsent += 1
        host, self._host = self._host, None
        if host is not None:
            host.parked -= 1
            backlog._note_due(host)
            backlog.on_room()

    def _end_try(self) -> None:
        host, self.tried = self.tried, None
        if host is not None and self._backlog is not None:
            host.is_tried = False
            self._backlog._note_due(host)
            self._backlog.on_room()
