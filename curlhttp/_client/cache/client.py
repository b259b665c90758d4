"""How one client uses a cache: where the store may block, and what runs beside its requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING

from curlhttp._client.cache.cache import Cache
from curlhttp._client.stream import AsyncStreamedResponse, StreamedResponse
from curlhttp._engine.run import Offload, run_here, run_sync
from curlhttp._models import fork as _fork
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._client.base import Core
    from curlhttp._curl.engines.loops import BackgroundTasks, Loop
    from curlhttp._engine.engine import Send
    from curlhttp._flow.streamed_response import Streamed

__all__ = ["ClientCaching"]

_log = logging.getLogger("curlhttp")

_MOST = 8  # refreshes of one client at once; a response whose turn it is not stays stale


class ClientCaching:
    """A client's use of a cache.

    Args:
        core: the client.
        cache: the user's.
        is_async: it is an AsyncClient.

    Raises:
        TypeError: it is no Cache.
    """

    def __init__(self, core: Core, cache: Cache, *, is_async: bool) -> None:
        if not isinstance(cache, Cache):
            raise TypeError(
                f"cache must be a curlhttp.Cache, not {type(cache).__name__}: "
                'Client(cache=curlhttp.Cache("http.db"))'
            )
        self._core = core
        self.policy = cache.policy
        self.store = cache.store
        self.over = core._routing.over
        # What never waits is not worth the way to a thread.
        self.offload: Offload = run_here if self.store.is_quick else core._run_blocking
        self.streamed: type[Streamed] = StreamedResponse
        self._running: set[object] = set()
        self._threads: set[threading.Thread] = set()
        self._tasks: dict[Loop, BackgroundTasks] = {}
        self._is_async = is_async
        if is_async:
            self.streamed = AsyncStreamedResponse
        _fork.register(self)

    def refresh(self, name: object, work: Callable[[Send], Awaitable[object]]) -> None:
        """Run work(send) beside the caller, unless work of that name is under way."""
        core = self._core
        if name in self._running or len(self._running) >= _MOST or core.is_closed:
            return
        self._running.add(name)
        send = core.chain.below_cache(core.exchange, core.clock, core.gate)

        async def run() -> None:
            try:
                await work(send)
            except RequestException as error:
                # What was given is stale still: the next request asks again.
                _log.debug("a stored response was not refreshed: %s", type(error).__name__)
            except Exception:  # a user's function raised: trio would end with such a task
                _log.exception("a stored response was not refreshed")
            finally:
                self._running.discard(name)

        try:
            if self._is_async:
                self._own_tasks().spawn(run)
            else:
                self._in_thread(run)
        except BaseException as error:
            self._running.discard(name)
            if not isinstance(error, RuntimeError):  # no thread is to be had: that fails no hit
                raise

    def _in_thread(self, run: Callable[[], Awaitable[None]]) -> None:
        def target() -> None:
            try:
                run_sync(run)
            finally:
                self._threads.discard(thread)

        # A daemon: a program that does not close its client shall end all the same.
        thread = threading.Thread(target=target, daemon=True, name="curlhttp-cache")
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _own_tasks(self) -> BackgroundTasks:
        """Return what starts tasks in the running loop."""
        from curlhttp._curl.engines.loops import background_tasks, running_loop

        loop = running_loop()
        tasks = self._tasks.get(loop)
        if tasks is None:
            self._tasks.clear()  # those of loops that have ended, most of the time
            tasks = self._tasks[loop] = background_tasks(loop, Context())
        return tasks

    def close(self) -> None:
        """Wait for the refreshes of a blocking client: their requests end by their timeouts."""
        for thread in tuple(self._threads):
            thread.join()

    async def aclose(self) -> None:
        """Cancel the refreshes of the running loop."""
        if self._tasks:
            from curlhttp._curl.engines.loops import running_loop

            tasks = self._tasks.pop(running_loop(), None)
            if tasks is not None:
                tasks.cancel()
                await tasks.wait_until_done()

    def after_fork_in_child(self) -> None:
        """Forget what ran beside the parent's requests."""
        self._running, self._threads, self._tasks = set(), set(), {}
