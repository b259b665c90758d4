"""Use a cache in one client: call the store where it may block, refresh in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING

from curlhttp._http.fork import register
from curlhttp._runtime.run import Offload, run_here, run_sync
from curlhttp.exceptions import ConnectionError, RequestException

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._client.chain import Host
    from curlhttp._client.streamed_response import BaseStreamedResponse
    from curlhttp._features.cache.policy import CachePolicy
    from curlhttp._features.cache.storage import ResponseStore
    from curlhttp._http.config import NetworkRoute
    from curlhttp._runtime.engine import Send, Totals
    from curlhttp._runtime.loops import BackgroundTasks, Loop

_log = logging.getLogger("curlhttp")

_MAX_REFRESHES = 8  # of one client at once; other responses stay stale


class ClientCaching:
    """Use a cache in one client, and refresh stale responses in the background.

    Args:
        client: sends the refreshes.
        policy: the rules of the cache.
        store: of the responses.
        host: of the client.

    Attributes:
        policy: as given.
        store: as given.
        totals: of the client.
        guard_route: adds the client's address guard to a NetworkRoute, if it has one.
        offload: calls the store.
        streamed: the class of streamed responses.
    """

    def __init__(
        self, client: BaseClient, policy: CachePolicy, store: ResponseStore, host: Host
    ) -> None:
        self._client = client
        self.totals: Totals = client._totals
        self.policy = policy
        self.store = store
        self.guard_route: Callable[[NetworkRoute], NetworkRoute] = client._guard_route
        # A store that never blocks needs no thread.
        self.offload: Offload = run_here if store.never_blocks else host.run_blocking
        self.streamed: type[BaseStreamedResponse] = client._streamed
        self._running: set[object] = set()
        self._threads: set[threading.Thread] = set()
        self._tasks: dict[Loop, BackgroundTasks] = {}
        self._is_async = host.is_async
        register(self)

    def refresh(self, name: object, work: Callable[[Send], Awaitable[object]]) -> None:
        """Run work(send) in the background, unless work of that name is running."""
        client = self._client
        if name in self._running or len(self._running) >= _MAX_REFRESHES or client.is_closed:
            return
        self._running.add(name)
        send = client._chain.build(client._exchange, client._runtime, below="cache")

        async def run() -> None:
            try:
                await work(send)
            except RequestException as error:
                # The response stays stale, so the next request refreshes it.
                _log.debug("a stored response was not refreshed: %s", type(error).__name__)
            except Exception:  # of a user's function; the loop could end with such a task
                _log.exception("a stored response was not refreshed")
            finally:
                self._running.discard(name)

        try:
            if self._is_async:
                self._get_tasks().spawn(run)
            else:
                self._start_thread(run)
        except BaseException as error:
            self._running.discard(name)
            # These mean that no thread could start. The cache hit still succeeds.
            if not isinstance(error, (RuntimeError, ConnectionError)):
                raise

    def _start_thread(self, run: Callable[[], Awaitable[None]]) -> None:
        def target() -> None:
            try:
                run_sync(run)
            finally:
                self._threads.discard(thread)

        # A daemon, so that a program can end without closing its client.
        thread = threading.Thread(target=target, daemon=True, name="curlhttp-cache")
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _get_tasks(self) -> BackgroundTasks:
        """Return the background tasks of the running loop."""
        from curlhttp._runtime.loops import background_tasks, running_loop

        loop = running_loop()
        tasks = self._tasks.get(loop)
        if tasks is None:
            self._tasks.clear()  # the others are mostly of ended loops
            tasks = self._tasks[loop] = background_tasks(loop, Context())
        return tasks

    def _end_with_client(self) -> None:
        """Wait for the refreshes of a blocking client. Their timeouts limit the wait."""
        for thread in tuple(self._threads):
            thread.join()

    async def _aend_with_client(self) -> None:
        """Cancel the refreshes of the running loop."""
        if self._tasks:
            from curlhttp._runtime.loops import running_loop

            tasks = self._tasks.pop(running_loop(), None)
            if tasks is not None:
                tasks.cancel()
                await tasks.wait_until_done()

    def _after_fork_in_child(self) -> None:
        """Forget the refreshes of the parent process."""
        self._running, self._threads, self._tasks = set(), set(), {}
