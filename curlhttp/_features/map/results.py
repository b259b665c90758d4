"""The results of `Client.map`. Requests make progress while you wait for the next result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from curlhttp._client.exchange import exchange
from curlhttp._client.features import OWN_SETTINGS
from curlhttp._client.straight import go_on, is_final
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._features.map.backlog import Job
from curlhttp._features.map.engine import SteppedEngine
from curlhttp._features.map.scheduler import MapScheduler, Result_co
from curlhttp._http.errors import Unpicklable, client_closed
from curlhttp._http.exiting import check_running
from curlhttp._http.request import READ_BY_LAYER, ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Runtime, Send
from curlhttp._runtime.run import send_sync

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._client.client import BlockingClient

# --- The senders of a blocking map: each has an engine for concurrent requests, and the flow ---
#
# A sender serves one map at a time. The client keeps it, so that the next map can reuse its
# connections.

_JUST_NOW = 500e-6  # seconds; each turn takes some microseconds
_RECENTLY = 0.05  # seconds; while the consumer has many results, it does not need more at once

Settle: TypeAlias = "Callable[[Job, object], object]"
Fail: TypeAlias = "Callable[[BaseException], object]"


class Sender(Protocol):
    """Send many requests at once, driven by the thread that waits for their results."""

    @property
    def runtime(self) -> Runtime | None:
        """Return that of its engine; None if it sends one request after another."""

    @property
    def is_lost(self) -> bool:
        """Return whether it belongs to the parent process, because this process was forked."""

    @property
    def is_interrupted(self) -> bool:
        """Return whether Ctrl-C has interrupted it at any line."""

    def start(self, job: Job, settle: Settle) -> bool:
        """Start a request.

        Args:
            job: the request, which is complete.
            settle: called with the job, and the result or the exception.

        Returns:
            Whether to start more requests, because this one is running in the background.
        """

    def run_ready(self, seconds: float) -> bool:
        """Continue requests that do not have to wait, unless that was done so recently.

        Returns:
            Whether it was done now.
        """

    def take_turn(self) -> None:
        """Let the calling thread alone continue requests, until `end_turn`.

        Raises:
            ConnectionError: `is_lost` is true.
            RuntimeError: `is_interrupted` is true.
        """

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
        make: makes a sender for the client.
    """

    def __init__(self, client: BaseClient, make: Callable[[BaseClient], Sender]) -> None:
        self._client = client
        self._make = make
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
        return self._make(self._client)

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

    _end_with_client = close


class MultiSender:
    """Send requests concurrently on a separate curl_multi."""

    def __init__(self, client: BaseClient) -> None:
        engine = SteppedEngine(client.limits, multiplexes=client._multiplexes)
        self._engine = engine
        self.runtime = engine.runtime
        client._add_engine(engine)
        # With the layers that one of the items may need.
        self._flow = client._chain.build(
            make_exchange(engine, client, BaseStreamedResponse),
            self.runtime,
            also=OWN_SETTINGS,
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

    def start_task(self, call: Callable[[Runtime], Awaitable[None]], fail: Fail) -> None:
        """Run another coroutine with the requests. The end of the map cancels it.

        Args:
            call: makes the coroutine.
            fail: called with the exception that ends it, if one does.
        """

        def finish(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                fail(outcome)

        self._engine.start(call, self.runtime, finish)

    def start(self, job: Job, settle: Settle) -> bool:
        engine, (_, request, is_straight) = self._engine, job
        if request.place is not None:
            engine.start(partial(request.place.run, self._flow), request, partial(settle, job))
        elif not (is_straight and engine.start_plain(request, self._go_on, (job, settle))):
            engine.start(self._flow, request, partial(settle, job))
        return True

    def _go_on(self, owner: tuple[Job, Settle], outcome: Response | BaseException) -> None:
        """Settle a straight request, unless its response needs the flow."""
        job, settle = owner
        if isinstance(outcome, Response) and not is_final(outcome):
            go_on_with = partial(go_on, self._flow, job[1])
            self._engine.start(go_on_with, outcome, partial(settle, job))
        else:
            settle(job, outcome)


def make_exchange(
    engine: SteppedEngine,
    client: BaseClient,
    kind: type[BaseStreamedResponse],
) -> Send:
    """Return the last step of a map's flow. A middleware's streams use the client's own engine.

    Args:
        engine: of the map.
        client: the client.
        kind: the class of streamed responses.
    """
    now = engine.runtime.now
    own = exchange(engine, now, kind)

    def send(request: ClientRequest) -> Awaitable[Response]:
        if request.stream and READ_BY_LAYER not in (request.extensions or ()):
            return client._exchange(request)
        if not client._wrappers:  # they may change between requests
            return own(request) if request.place is None else request.place.send(own, request)
        from curlhttp._client.around import exchange_wrapped

        last = exchange_wrapped(client._wrappers, lambda: engine, now, kind)
        return last(request)

    return send


class SequentialSender:
    """Send requests one after another on the user's engine, which never suspends.

    Args:
        client: the client.
        receive: in place of the client's flow, which may change; or None.
    """

    is_lost = is_interrupted = False
    runtime = None

    def __init__(
        self,
        client: BaseClient,
        receive: Callable[[ClientRequest], Awaitable[object]] | None = None,
    ) -> None:
        self._client = client
        self._receive = receive

    def start(self, job: Job, settle: Settle) -> bool:
        outcome: object
        try:
            outcome = send_sync(self._receive or self._client._flow, job[1])
        except Exception as error:
            outcome = error
        settle(job, outcome)
        return False

    def run_ready(self, seconds: float = 0.0) -> bool:
        """Do nothing, because no request is running."""
        return False

    def take_turn(self) -> None:
        """Likewise."""

    run_once = end_turn = close = take_turn

    def is_stepped_here(self) -> bool:
        return False

    def cancel(self, *, waits: bool = True) -> bool:
        return True


def choose_sender(client: BlockingClient) -> Callable[[BaseClient], Sender]:
    """Return what makes the senders of a client: one after another if the engine is the user's."""
    return MultiSender if client._given_transport is None else SequentialSender


Self = TypeVar("Self", bound="Results[Any]")


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
        sender = self._sender
        if self._is_running or (sender is not None and sender.is_stepped_here()):
            raise RuntimeError("another caller is iterating over this map")
        self._is_running = True
        try:
            if sender is None:
                sender = self._sender = self._sender_pool.acquire()
                self._scheduler.runtime = sender.runtime
            sender.take_turn()
            try:
                return self._advance(sender)
            finally:
                sender.end_turn()
        except Exception:
            self._end(reusable=True)
            raise
        except BaseException:  # Ctrl-C, which may have interrupted the engine at any line
            self._end(reusable=False)
            raise
        finally:
            self._is_running = False

    def _advance(self, sender: Sender) -> Result_co:
        scheduler = self._scheduler
        sender.run_ready(_RECENTLY if scheduler.has_many_results else _JUST_NOW)
        while True:
            while (job := scheduler.next()) is not None:
                if not sender.start(job, scheduler.settle) and scheduler.has_result:
                    break
                # If the iterable is slow, its requests do not wait until all places are taken.
                if sender.run_ready(_RECENTLY) and scheduler.has_result:
                    break
            result = scheduler.take()
            if result is not None:
                return result  # type: ignore[return-value]  # no call of `cast` for each
            if scheduler.is_done:
                raise scheduler.error or StopIteration
            if scheduler.has_more:
                sender.run_ready(0.0)
            else:
                sender.run_once()

    def close(self) -> None:
        """Cancel running requests, and send no others."""
        sender = self._sender
        if self._is_running or (sender is not None and sender.is_stepped_here()):
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
