"""The HTTP cache (RFC 9111), and how a client uses it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING, Protocol, cast

from curlhttp._client.stream import AsyncStreamedResponse, StreamedResponse
from curlhttp._http import fork as _fork
from curlhttp._http.errors import check_flags, check_number, validate_path
from curlhttp._http.suggestions import with_suggestions
from curlhttp._runtime.run import Offload, run_here, run_sync
from curlhttp.exceptions import ConnectionError, RequestException

if TYPE_CHECKING:
    from redis import Redis

    from curlhttp._client.base import EndsWithClient
    from curlhttp._client.chain import Chain, Host, LayerContext, Settings
    from curlhttp._client.streamed_response import BaseStreamedResponse
    from curlhttp._features.cache.policy import CachePolicy
    from curlhttp._features.cache.storage import ResponseStore
    from curlhttp._http.config import NetworkRoute
    from curlhttp._runtime.engine import Layer, Runtime, Send, Totals
    from curlhttp._runtime.loops import BackgroundTasks, Loop

_MAX_SIZE = 256 * 2**20
_LEAST_SIZE = 2**17  # below that, SQLite's own pages leave no room
_MAX_BODY = 32 * 2**20


@with_suggestions("Cache")
class Cache:
    """Store responses as defined in RFC 9111, for one or several clients; needs the extra `cache`.

        client = curlhttp.Client(cache=curlhttp.Cache("http.db"))

    Several blocking and async clients, threads and processes may share one file. It contains the
    bodies and header fields of responses, so only its owner may read it. It contains URLs and
    credentials of requests only as digests.

    Args:
        path: a file, or ":memory:".
        redis: a URL or a redis.Redis, instead of a path. The server limits the size with its own
            setting maxmemory. Entries expire after 30 days.
        shared: the cache serves several users, like that of a proxy: it stores nothing private,
            and applies s-maxage and proxy-revalidate.
        max_size: the maximum size in bytes, 256 MiB by default. The least recently used responses
            are removed first.
        max_body_size: the maximum size of a stored body in bytes, at most an eighth of max_size.

    Raises:
        ImportError: the extra is not installed.
        ValueError: the file is not a cache, or an argument is out of range.
        OSError: the file cannot be opened or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        redis: str | Redis | None = None,
        shared: bool = False,
        max_size: int | None = None,
        max_body_size: int = _MAX_BODY,
    ) -> None:
        if (path is None) == (redis is None):
            raise ValueError('a Cache needs a path, such as "http.db" or ":memory:", or redis=')
        if redis is not None and max_size is not None:
            raise ValueError("max_size is for files; for Redis, use its own setting maxmemory")
        size = _MAX_SIZE if max_size is None else max_size
        check_number("max_size", size, least=_LEAST_SIZE, whole=True, unit="bytes")
        check_number("max_body_size", max_body_size, least=1, whole=True, unit="bytes")
        check_flags(shared=shared)
        try:
            from curlhttp._features.cache.policy import CachePolicy
            from curlhttp._features.cache.storage import ResponseStore
        except ImportError as error:
            raise ImportError("Cache needs hishel: pip install 'curlhttp[cache]'") from error
        self._shared = shared
        self.policy: CachePolicy = CachePolicy(shared)
        if redis is not None:
            from curlhttp._features.cache.storage import make_redis_backend

            backend, body = make_redis_backend(redis, max_body_size), max_body_size
        else:
            from curlhttp._features.cache.storage import make_sqlite_backend

            body = min(max_body_size, size // 8)
            name = validate_path("path", path)
            backend = make_sqlite_backend(name, size - body)
        self.store: ResponseStore = ResponseStore(backend, body)

    def clear(self) -> None:
        """Remove all responses, including those of other clients and processes."""
        self.store.clear_all()

    def close(self) -> None:
        """Close the file or the connections. Clients that use it continue without a cache."""
        self.store.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<curlhttp.Cache{' shared' if self._shared else ''} in {self.store.label}>"


# --- Use a cache in one client: call the store where it may block, refresh in the background ---

_log = logging.getLogger("curlhttp")

_MAX_REFRESHES = 8  # of one client at once; other responses stay stale


class CachingClient(Protocol):
    """What ClientCaching needs of a client, so that this module does not import clients."""

    is_closed: bool
    _chain: Chain
    _exchange: Send
    _runtime: Runtime
    _totals: Totals

    @property
    def _guard_route(self) -> Callable[[NetworkRoute], NetworkRoute]: ...
    def _attach(self, other: EndsWithClient) -> None: ...


class ClientCaching:
    """Use a cache in one client, and refresh stale responses in the background.

    Args:
        client: sends the refreshes.
        cache: from the user.
        run_blocking: runs blocking calls for the client.
        is_async: the client is an AsyncClient.

    Raises:
        TypeError: `cache` is not a Cache.
    """

    def __init__(
        self, client: CachingClient, cache: Cache, *, run_blocking: Offload, is_async: bool
    ) -> None:
        if not isinstance(cache, Cache):
            raise TypeError(
                f"cache must be a curlhttp.Cache, not {type(cache).__name__}: "
                'Client(cache=curlhttp.Cache("http.db"))'
            )
        self._client = client
        self.totals = client._totals
        self.policy = cache.policy
        self.store = cache.store
        self.guard_route = client._guard_route
        # A store that never blocks needs no thread.
        self.offload: Offload = run_here if self.store.never_blocks else run_blocking
        self.streamed: type[BaseStreamedResponse] = StreamedResponse
        self._running: set[object] = set()
        self._threads: set[threading.Thread] = set()
        self._tasks: dict[Loop, BackgroundTasks] = {}
        self._is_async = is_async
        if is_async:
            self.streamed = AsyncStreamedResponse
        _fork.register(self)

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


def start(settings: Settings, host: Host) -> None:
    """Use the cache in a client, until it closes.

    Raises:
        TypeError: this is not a Cache.
    """
    client = cast(CachingClient, host.client)
    caching = ClientCaching(
        client, settings["cache"], run_blocking=host.run_blocking, is_async=host.is_async
    )
    settings["cache"] = caching
    client._attach(caching)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that answers requests from the cache."""
    from curlhttp._features.cache import layer  # it needs the extra

    return layer.make_layer(context)
