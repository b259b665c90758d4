"""What limits, budgets and breakers of several processes share, in one Redis."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from curlhttp._engine.run import ThreadWaiter, run_sync
from curlhttp._models import fork as _fork
from curlhttp._policy.store import Answer, StoreCommand, StoreLease
from curlhttp.exceptions import StoreError
from curlhttp.redis._connection import PendingCommand, RedisConnection, address_of

if TYPE_CHECKING:
    from redis import Redis

    from curlhttp._engine.engine import MakeWaiter

__all__ = ["RedisStore"]

_EARLY = 0.002  # seconds that timers of event loops may be


class RedisStore:
    """Share limits, budgets and breakers among processes; needs the extra `redis`.

        store = RedisStore("redis://localhost:6379/0")
        client = curlhttp.Client(rate_limit=curlhttp.RateLimit(100, store=store))

    One may serve all policies and clients of a process, in threads and event loops; it has one
    connection, in a thread of its own. A forked child makes its own.

    Args:
        redis: a URL as redis-py takes it (redis, rediss, unix), or a redis.Redis, whose settings
            are taken; it stays its owner's.
        prefix: what the names of all keys begin with: those with the same one, and the same
            settings of a policy, share it.
        timeout: seconds for which a request waits for an answer, at most.
        connect_timeout: seconds that the first connection may take on top of that. It is begun
            when a client is made with the store, which does not wait for it.
        on_error: "local" for requests to go on by what the process knows itself when there is no
            answer, "refuse" to raise StoreError.

    Raises:
        ImportError: the extra is not installed.
        ValueError: the URL is none, or an argument is out of range.
        TypeError: it is no client of one Redis.
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
            if not 0 < value < 3600:
                raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")
        if on_error not in ("local", "refuse"):
            raise ValueError(f"on_error must be 'local' or 'refuse', not {on_error!r}")
        if not (isinstance(prefix, str) and prefix):
            raise ValueError(f"prefix must be text that is not empty, not {prefix!r}")
        prefix.encode()  # a UnicodeEncodeError, which is a ValueError, for half a character
        self._given = redis
        self.prefix = prefix
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self.on_error = on_error
        address = address_of(redis)
        self._where = address.where
        # No method of this object: the thread must not keep it alive.
        self._link = RedisConnection(address, prefix, timeout, connect_timeout)
        _fork.register(self._link)

    def connect(self) -> None:
        """Begin to connect, unless that was done; never waits."""
        self._link.connect()

    async def ask(self, question: StoreCommand, make_waiter: MakeWaiter) -> Answer | None:
        """Return the answer, or None when there is none in time; see Store."""
        if not self._link.is_up():
            self._without_answer()
            return None
        opened = make_waiter()
        call = PendingCommand(question, opened.wake)
        patience = self.timeout + (0.0 if self._link.is_connected else self.connect_timeout)
        begun = time.monotonic()
        try:
            self._link.put(call)
            await opened.wait(patience)
        except BaseException:
            self._leave(call)
            raise
        # A request that had less time itself says nothing of Redis.
        return self._answer(call, has_waited=time.monotonic() - begun > patience - _EARLY)

    def ask_here(self, question: StoreCommand) -> Answer | None:
        """Return the answer, and block for it no longer than the timeout."""
        return run_sync(lambda: self.ask(question, ThreadWaiter))

    def tell(self, question: StoreCommand) -> None:
        """Have a step taken whose answer nobody waits for. Never waits; safe in finalizers."""
        if self._link.is_up():
            self._link.put(PendingCommand(question, _nothing))

    def hold(self, question: StoreCommand, every: float) -> StoreLease:
        """Have a step taken again and again, until it is ended."""
        return self._link.hold(question, every)

    def close(self) -> None:
        """Close the connection; requests that ask from now on go on by themselves."""
        self._link.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Return what makes the same store in another process, with a connection of its own."""
        settings = (self.prefix, self.timeout, self.connect_timeout, self.on_error)
        return _remade, (self._given, *settings)

    def _answer(self, call: PendingCommand, *, has_waited: bool) -> Answer | None:
        if call.claim():  # not done
            if has_waited:
                self._link.note_failure(TimeoutError(f"no answer in {self.timeout:g} s"))
        elif call.error is not None:
            raise call.error
        elif call.answer is not None:
            return call.answer
        self._without_answer()
        return None

    def _leave(self, call: PendingCommand) -> None:
        """Take back what nobody waits for any more."""
        if not call.claim() and (undo := call.taken_back()) is not None:
            self._link.put(PendingCommand(undo, _nothing))

    def _without_answer(self) -> None:
        if self.on_error == "refuse":
            raise StoreError(f"the store {self._where} gives no answer; nothing was sent")

    def __enter__(self) -> RedisStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        link: RedisConnection | None = self.__dict__.get("_link")  # not there if making it failed
        if link is not None:
            link.drop()

    def __repr__(self) -> str:
        return f"<curlhttp.redis.RedisStore {self._where} prefix={self.prefix!r}>"


def _nothing() -> None:
    """Wake nobody."""


def _remade(
    redis: str | Redis,
    prefix: str,
    timeout: float,
    connect_timeout: float,
    on_error: Literal["local", "refuse"],
) -> RedisStore:
    return RedisStore(
        redis, prefix=prefix, timeout=timeout, connect_timeout=connect_timeout, on_error=on_error
    )
