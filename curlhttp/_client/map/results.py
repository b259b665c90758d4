"""The results of `Client.map`. Requests make progress while you wait for the next result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, cast

from curlhttp._client.map.scheduler import MapScheduler, Result_co
from curlhttp._curl.engines.stepped import SteppedEngine
from curlhttp._engine.engine import Clock, Send
from curlhttp._engine.race import is_watched
from curlhttp._engine.run import send_sync
from curlhttp._flow.exchange import exchange
from curlhttp._flow.streamed_response import BaseStreamedResponse
from curlhttp._models.errors import Unpicklable, client_closed
from curlhttp._models.exiting import check_running
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp.exceptions import ConnectionError

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient

# --- The senders of a blocking map: each has an engine for concurrent requests, and the flow ---
#
# A sender serves one map at a time. The client keeps it, so that the next map can reuse its
# connections.

Finish: TypeAlias = "Callable[[Response | BaseException], object]"


class Sender(Protocol):
    """Send many requests at once, driven by the thread that waits for their results."""

    @property
    def is_lost(self) -> bool:
        """Return whether it belongs to the parent process, because this process was forked."""

    @property
    def is_interrupted(self) -> bool:
        """Return whether Ctrl-C has interrupted it at any line."""

    def start(self, request: ClientRequest, finish: Finish) -> bool:
        """Start a request.

        Args:
            request: complete.
            finish: called with the response or the exception.

        Returns:
            Whether to start more requests, because this one is running in the background.
        """

    def run_ready(self) -> None:
        """Continue requests that do not have to wait, unless that was done a moment ago."""

    def take_turn(self) -> None:
        """Let the calling thread alone continue requests, until `end_turn`."""

    def end_turn(self) -> None:
        """Let threads that wait continue requests."""

    def is_stepped_here(self) -> bool:
        """Return whether the calling thread runs code of a request, such as a hook."""

    def run_once(self) -> None:
        """Wait until requests can continue, and continue them."""

    def cancel(self, *, waits: bool = True) -> bool:
        """Cancel all running requests.

        Args:
            waits: wait for a thread that continues them right now.

        Returns:
            False if that thread cancels them instead, and closes the connections.
        """

    def close(self) -> None:
        """Close all connections."""


class SenderPool:
    """The idle senders of a client. A map acquires one, and releases it at its end.

    Args:
        client: the client.
        inline: whether to send one request after another through the client's own engine.
    """

    def __init__(self, client: BaseClient, *, inline: bool) -> None:
        self._client = client
        self._kind = SequentialSender if inline else MultiSender
        self._idle: list[Sender] = []

    def acquire(self) -> Sender:
        """Return a sender for the caller alone, until it releases it.

        Raises:
            ClientClosed: the client was closed.
        """
        if self._client.is_closed:
            raise client_closed()
        while self._idle:
            try:
                sender = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not sender.is_lost:
                return sender
        return self._kind(self._client)

    def release(self, sender: Sender) -> None:
        """Keep a sender for the next map."""
        self._idle.append(sender)
        if self._client.is_closed:  # perhaps just now
            self.close()

    def close(self) -> None:
        """Close the idle senders. One in use is closed when it is released."""
        while self._idle:
            try:
                sender = self._idle.pop()
            except IndexError:
                break
            sender.close()


class MultiSender:
    """Send requests concurrently on a separate curl_multi."""

    def __init__(self, client: BaseClient) -> None:
        engine = SteppedEngine(client.limits, multiplexes=client.multiplexes)
        self._engine = engine
        client.add_engine(engine)
        now, wall, sleep, make_waiter, make_race = engine.runtime
        # With retries, because each item may have a policy.
        self._flow = client.chain.build(
            _make_exchange(engine, client),
            Clock(now, wall, sleep),
            make_waiter,
            make_race,
            also=("retry",),
        )
        self.take_turn = engine.take_turn
        self.end_turn = engine.end_turn
        self.is_stepped_here = engine.is_stepped_here
        self.run_ready = engine.run_ready
        self.run_once = engine.run_once
        self.cancel = engine.cancel
        self.close = engine.close

    @property
    def is_lost(self) -> bool:
        return self._engine.is_closed

    @property
    def is_interrupted(self) -> bool:
        return self._engine.is_interrupted

    def start(self, request: ClientRequest, finish: Finish) -> bool:
        self._engine.start(self._flow, request, finish)
        return True


def _make_exchange(engine: SteppedEngine, client: BaseClient) -> Send:
    """Return the last step of a map's flow. A middleware's streams use the client's own engine."""
    now = engine.runtime.now
    own = exchange(engine, now, BaseStreamedResponse)

    def send(request: ClientRequest) -> Awaitable[Response]:
        if request.stream and not is_watched(request):
            return client.exchange(request)
        wrapped = client.wrap(engine)  # the wrappers may change between requests
        last = own if wrapped is engine else exchange(wrapped, now, BaseStreamedResponse)
        return last(request)

    return send


class SequentialSender:
    """Send requests one after another on the user's engine, which never suspends."""

    is_lost = is_interrupted = False

    def __init__(self, client: BaseClient) -> None:
        self._client = client

    def start(self, request: ClientRequest, finish: Finish) -> bool:
        outcome: Response | Exception
        try:
            outcome = send_sync(self._client.flow, request)
        except Exception as error:
            outcome = error
        finish(outcome)
        return False

    def run_ready(self) -> None:
        """Do nothing, because no request is running."""

    run_once = take_turn = end_turn = close = run_ready

    def is_stepped_here(self) -> bool:
        return False

    def cancel(self, *, waits: bool = True) -> bool:
        return True


Self = TypeVar("Self", bound="Results")


class Results(Unpicklable, Generic[Result_co]):
    """Iterate over the results of a map.

    You can iterate once, in one thread at a time. If you stop early, because you close or drop the
    results or leave their `with`, running requests are cancelled and no others are sent.
    """

    _why_not = "its requests are running; pass on its results, which can be pickled"

    def __init__(self, sender_pool: SenderPool, scheduler: MapScheduler) -> None:
        self._sender_pool = sender_pool
        self._scheduler = scheduler
        self._sender: Sender | None = None
        self._is_running = self._is_closed = False

    def __iter__(self: Self) -> Self:
        return self

    def __next__(self) -> Result_co:
        check_running()
        if self._is_closed:
            raise StopIteration
        if self._is_busy():
            raise RuntimeError("another caller is iterating over this map")
        self._is_running = True
        try:
            return self._take_turn()
        except Exception:
            self._end(reusable=True)
            raise
        except BaseException:  # Ctrl-C, which may have interrupted the engine at any line
            self._end(reusable=False)
            raise
        finally:
            self._is_running = False

    def _is_busy(self) -> bool:
        return self._is_running or (self._sender is not None and self._sender.is_stepped_here())

    def _take_turn(self) -> Result_co:
        sender = self._sender
        if sender is None:
            sender = self._sender = self._sender_pool.acquire()
        elif sender.is_lost:
            raise ConnectionError("this map belongs to the parent process of this forked process")
        sender.take_turn()
        try:
            if sender.is_interrupted:
                raise RuntimeError("this map was interrupted while its thread waited")
            return self._advance(sender)
        finally:
            sender.end_turn()

    def _advance(self, sender: Sender) -> Result_co:
        scheduler = self._scheduler
        sender.run_ready()
        while True:
            while (job := scheduler.next()) is not None:
                if (
                    not sender.start(job[1], partial(scheduler.settle, job))
                    and scheduler.has_result
                ):
                    break
            if scheduler.has_result:
                return cast("Result_co", scheduler.take())
            if scheduler.is_done:
                raise scheduler.error or StopIteration
            sender.run_once()

    def close(self) -> None:
        """Cancel running requests, and send no others."""
        if self._is_busy():
            raise RuntimeError("this map cannot be closed from code that it runs, such as a hook")
        self._end(reusable=True)

    def _end(self, *, reusable: bool, waits: bool = True) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        sender, self._sender = self._sender, None
        if sender is not None and sender.is_lost:
            return  # the requests are the parent's
        try:
            self._scheduler.close()
        finally:
            if sender is not None:
                self._release(sender, reusable and not sender.is_interrupted, waits)

    def _release(self, sender: Sender, reusable: bool, waits: bool) -> None:
        try:
            is_free = sender.cancel(waits=waits)
        except BaseException:
            sender.close()
            raise
        if not is_free:
            return
        if reusable:
            self._sender_pool.release(sender)
        else:
            sender.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._end(reusable=True, waits=False)  # the other thread may wait for this one
