"""The store in Redis for limits, budgets and breakers that several processes share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from curlhttp._features.shared_store import Answer, StoreCommand, StoreLease
from curlhttp._http import fork as _fork
from curlhttp._http.errors import check_number
from curlhttp._http.timeout import EARLY
from curlhttp._runtime.run import ThreadWaiter, run_sync
from curlhttp.exceptions import StoreError
from curlhttp.redis._connection import (
    PendingCommand,
    RedisConnection,
    make_unawaited,
    parse_address,
)
from curlhttp.redis._scripts import load_scripts

if TYPE_CHECKING:
    from redis import Redis

    from curlhttp._runtime.engine import MakeWaiter


class RedisStore:
    """Share limits, budgets and breakers among processes; needs the extra `redis`.

        store = RedisStore("redis://localhost:6379/0")
        client = curlhttp.Client(rate_limit=curlhttp.RateLimit(100, store=store))

    One store is enough for all policies and clients of a process, in threads and event loops. It
    has one connection, which one background thread uses. A forked child opens a new connection.

    Args:
        redis: a URL for redis-py (redis, rediss, unix), or a redis.Redis, whose settings are
            copied; the store neither uses nor closes that client.
        prefix: the beginning of the names of all keys. Policies share state if they have the same
            prefix and the same settings.
        timeout: seconds after which a reply is late. Redis counts as down after three late replies
            in a row, or if it has not replied after a second (or the timeout, if that is longer).
            Until then, a request waits for the reply as long as its own timeouts allow.
        connect_timeout: seconds that a connection may take. The store starts to connect when you
            create a client with it; creating the client does not wait for the connection.
        on_error: what requests do if Redis is down: "local" to continue with the limits of this
            process alone, "refuse" to raise StoreError.

    Raises:
        ImportError: the extra is not installed.
        FileNotFoundError: the program was packaged without curlhttp's data files.
        ValueError: the URL is not one of Redis, or an argument is out of range.
        TypeError: the client is not for a single server.
    """

    def __init__(
        self,
        redis: str | Redis,
        *,
        prefix: str = "curlhttp",
        timeout: float = 0.05,
        connect_timeout: float = 1.0,
        on_error: Literal["local", "refuse"] = "local",
    ) -> None:
        for name, value in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            check_number(name, value, above=0, most=3600, unit="seconds")
        if on_error not in ("local", "refuse"):
            raise ValueError(f"on_error must be 'local' or 'refuse', not {on_error!r}")
        if not (isinstance(prefix, str) and prefix):
            raise ValueError(f"prefix must be text that is not empty, not {prefix!r}")
        load_scripts()  # now, because the thread could only do without Redis
        prefix.encode()  # raises a UnicodeEncodeError, which is a ValueError, for a lone surrogate
        self._given = redis
        self.prefix = prefix
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self.on_error = on_error
        address = parse_address(redis)
        self._where = address.where
        # A separate object, so that the thread does not keep the store alive.
        consequence = {
            "local": "this process continues without it",
            "refuse": "requests raise StoreError",
        }[on_error]
        self._connection = RedisConnection(address, prefix, timeout, connect_timeout, consequence)
        _fork.register(self._connection)

    def connect(self) -> None:
        """Start to connect, unless it is connected. Never waits."""
        self._connection.connect()

    async def ask(self, question: StoreCommand, make_waiter: MakeWaiter) -> Answer | None:
        """Return the answer to a command, None if Redis does not respond in time; see Store.

        Args:
            question: the command.
            make_waiter: makes the waiter with which the caller waits.

        Raises:
            StoreError: Redis does not respond and on_error is "refuse", or the error is lasting.
        """
        connection = self._connection
        if not connection.is_up():
            self._handle_no_answer(connection.problem)
            return None
        waiter = make_waiter()
        pending = PendingCommand(question, waiter.wake)
        patience = self.connect_timeout + self.timeout
        try:
            connection.put(pending)
            # The thread decides whether Redis is late, because this request may only wake late.
            while True:
                started = time.monotonic()
                await waiter.wait(patience)
                # A request whose timeout is shorter proves nothing about Redis.
                has_waited = time.monotonic() - started > patience - EARLY
                if not has_waited:
                    break
                if connection.is_stuck():
                    connection.note_failure(TimeoutError(f"no connection in {patience:g} s"))
                    break
                waiter = make_waiter()
                pending.wake = waiter.wake
                if pending.is_claimed:  # before it had this waiter
                    break
        except BaseException:
            self._abandon(pending)
            raise
        return self._get_answer(pending)

    def ask_here(self, question: StoreCommand) -> Answer | None:
        """Return the answer as ask() does; block this thread."""
        return run_sync(lambda: self.ask(question, ThreadWaiter))

    def tell(self, question: StoreCommand) -> None:
        """Send a command without waiting for its answer. Never waits; safe in finalizers."""
        if self._connection.is_up():
            self._connection.put(make_unawaited(question))

    def hold(self, question: StoreCommand, every: float) -> StoreLease:
        """Send a command repeatedly, until you call end() on the result.

        Args:
            question: the command.
            every: the seconds between two executions.
        """
        return self._connection.hold(question, every)

    def close(self) -> None:
        """Close the connection. Later requests continue as if Redis did not respond."""
        self._connection.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the settings: the copy opens another connection."""
        settings = (self.prefix, self.timeout, self.connect_timeout, self.on_error)
        return _rebuild, (self._given, *settings)

    def _get_answer(self, pending: PendingCommand) -> Answer | None:
        problem = self._connection.problem
        if pending.claim():  # it is not done
            if self._connection.is_up():
                problem = "does not respond within the timeout of the request"
        elif pending.error is not None:
            raise pending.error
        elif pending.answer is not None:
            return pending.answer
        self._handle_no_answer(problem)
        return None

    def _abandon(self, pending: PendingCommand) -> None:
        """Undo a command whose caller has left."""
        if not pending.claim() and (undo := pending.make_undo()) is not None:
            self._connection.put(make_unawaited(undo))

    def _handle_no_answer(self, problem: str) -> None:
        if self.on_error == "refuse":
            raise StoreError(f"the store {self._where} {problem}; nothing was sent")

    def __enter__(self) -> RedisStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if "_connection" in self.__dict__:  # else __init__ raised
            self._connection.drop()

    def __repr__(self) -> str:
        return f"<curlhttp.redis.RedisStore {self._where} prefix={self.prefix!r}>"


def _rebuild(
    redis: str | Redis,
    prefix: str,
    timeout: float,
    connect_timeout: float,
    on_error: Literal["local", "refuse"],
) -> RedisStore:
    return RedisStore(
        redis, prefix=prefix, timeout=timeout, connect_timeout=connect_timeout, on_error=on_error
    )
