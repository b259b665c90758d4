"""One thread that talks to Redis for all requests of a process.

Those in event loops must not block, and those in threads must not wait for longer than they are
asked to, not for a name server either. So each waits with a waiter of its engine, and the thread
sends what has come meanwhile in one piece: a thousand requests at once are a few round trips.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from weakref import WeakSet

from curlhttp._policy.store import Answer, StoreCommand
from curlhttp.exceptions import StoreError
from curlhttp.redis._scripts import answer_in, keys_of, script

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline
    from redis.connection import AbstractConnection

__all__ = ["PendingCommand", "RedisConnection", "address_of"]


# --- Clients of Redis as the link needs them: bounded waits, no second try, bytes as they came ---

# Any: each setting has a type of its own, and so has each class of connections.
_Settings: TypeAlias = "dict[str, Any]"

# What a link has its own of, or what belongs to one client.
_OURS = ("retry", "retry_on_timeout", "retry_on_error", "decode_responses")


class Address(NamedTuple):
    """How to connect to one Redis.

    Attributes:
        kind: redis-py's class of a connection.
        settings: its arguments.
        where: Redis, without credentials.
    """

    kind: type[AbstractConnection]
    settings: _Settings
    where: str

    def client(self, connect_timeout: float, timeout: float) -> Redis:
        """Connect, and return a client with connections of its own.

        Args:
            connect_timeout: seconds for which it waits for a connection.
            timeout: seconds for which it waits for an answer.
        """
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        settings = {name: value for name, value in self.settings.items() if name not in _OURS}
        settings |= {"socket_timeout": timeout, "socket_connect_timeout": connect_timeout}
        # What is asked twice may be done twice, and a request waits for it meanwhile.
        settings["retry"] = Retry(NoBackoff(), 0)
        pool = redis.ConnectionPool(connection_class=self.kind, **settings)
        client = redis.Redis(connection_pool=pool)
        try:
            with suppress(redis.ResponseError):  # not all users may ask for a PONG
                client.ping()
        except BaseException:
            pool.disconnect()
            raise
        return client

    def lasting(self, prefix: str, error: Exception) -> StoreError | None:
        """Return an error for what Redis says and will say again, None for what may mend itself.

        Args:
            prefix: what the names of keys begin with.
            error: of redis-py.
        """
        said = str(error)
        if "WRONGTYPE" in said or "CURLHTTP" in said:
            what = f"a key of prefix {prefix!r} holds what curlhttp did not put there"
        elif "NOPERM" in said or type(error).__name__ == "NoPermissionError":
            what = f"its user may not use keys of prefix {prefix!r}, or not run scripts"
        else:
            return None
        return StoreError(f"the store {self.where}: {what} ({said}); nothing was sent")


def address_of(given: str | Redis) -> Address:
    """Return how to connect to what a user gave.

    Args:
        given: a URL, or a client of redis-py.

    Raises:
        ImportError: redis-py is not installed.
        ValueError: the URL is none.
        TypeError: it is no client of one Redis.
    """
    try:
        import redis
    except ImportError as error:
        raise ImportError("RedisStore needs redis-py: pip install 'curlhttp[redis]'") from error
    if isinstance(given, str):
        try:
            pool = redis.ConnectionPool.from_url(given)
        except ValueError:  # its text may have a piece of a password
            raise ValueError(
                'this is no URL of Redis: they look like "redis://localhost:6379/0", '
                '"rediss://:password@host:6380/0" or "unix:///run/redis.sock"'
            ) from None
    elif type(given) is redis.Redis or isinstance(given, redis.Redis):
        pool = given.connection_pool
        if type(pool) not in (redis.ConnectionPool, redis.BlockingConnectionPool):
            raise TypeError(
                f"RedisStore knows no {type(pool).__name__}: give the URL of one server of Redis"
            )
    else:
        raise TypeError(
            f"RedisStore takes a URL or a redis.Redis, not {type(given).__module__}."
            f"{type(given).__name__}: clients of every kind share one connection in a thread"
        )
    settings = dict(pool.connection_kwargs)
    return Address(pool.connection_class, settings, _where(settings))


def _where(settings: _Settings) -> str:
    database = settings.get("db") or 0
    if "path" in settings:
        return f"unix://{settings['path']}?db={database}"
    host = settings.get("host", "localhost")
    return f"redis://{host}:{settings.get('port', 6379)}/{database}"


_MOST = 256  # questions that are sent in one piece
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds for which Redis is left alone after a failure
_SAID_EVERY = 60.0  # seconds
_LATE_ANSWERS = 1.0  # seconds, at least: what comes after the timeout is taken back
_MANY_LATE = 3  # answers in a row, after which Redis is left alone as if there were none
_LAST_WAIT = 1.0  # seconds that the end of a program may take longer for what was not sent yet
_TICK = 0.5  # seconds after which the thread looks at what is to be asked again

_log = logging.getLogger("curlhttp")
_numbers = count()


class PendingCommand:
    """A question under way; its answer comes to its caller, or is taken back.

    Args:
        question: what is asked; None to see whether Redis answers at all.
        wake: called when it is done.

    Attributes:
        answer: of Redis, or None.
        error: what it said instead, which no later call will mend; or None.
        mark: comes back with the answer, and with no other one of this process.
    """

    __slots__ = ("_claims", "answer", "error", "mark", "question", "wake")

    def __init__(self, question: StoreCommand | None, wake: Callable[[], object]) -> None:
        self.question = question
        self.wake: Callable[[], object] = wake
        self.answer: Answer | None = None
        self.error: Exception | None = None
        self.mark = str(next(_numbers))
        self._claims = [True]

    def claim(self) -> bool:
        """Return whether this is the first claim: either it is done, or nobody waits for it."""
        try:
            self._claims.pop()
        except IndexError:
            return False
        return True

    @property
    def is_claimed(self) -> bool:
        """Return whether it is done, or nobody waits for it any more."""
        return not self._claims

    def taken_back(self) -> StoreCommand | None:
        """Return what takes back the step that was taken, or None."""
        question, answer = self.question, self.answer
        if question is None or question.undo is None or answer is None:
            return None
        return question.undo(answer)


class LeaseRenewal:
    """A question that is asked again and again.

    Args:
        question: what is asked.
        every: seconds from one time to the next.
        among: those of the link, of which this is one up to its end.
    """

    __slots__ = ("_among", "due", "every", "question")

    def __init__(
        self, question: StoreCommand, every: float, among: dict[int, LeaseRenewal]
    ) -> None:
        self.question = question
        self.every = every
        self.due: float = time.monotonic() + every
        self._among = among
        among[id(self)] = self

    def end(self) -> None:
        """Ask it no more. Safe in finalizers."""
        self._among.pop(id(self), None)


class RedisConnection:
    """The way to one Redis.

    Args:
        address: of Redis.
        prefix: what the names of keys begin with.
        timeout: seconds after which an answer is late.
        connect_timeout: seconds for which the thread waits for a connection.
    """

    def __init__(
        self, address: Address, prefix: str, timeout: float, connect_timeout: float
    ) -> None:
        self._address = address
        self._prefix = prefix
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._said_at = -_SAID_EVERY
        self._has_said = False
        self._begin()

    def _begin(self) -> None:
        self._inbox: SimpleQueue[PendingCommand | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._client: Redis | None = None
        self._loaded: set[str] = set()  # kinds of questions that Redis knows the scripts for
        self._holdings: dict[int, LeaseRenewal] = {}
        self._has_held = False
        self._is_up = True
        self._is_closed = False
        self._trial_at = 0.0
        self._is_trying = False
        self._pause = _FIRST_PAUSE
        self._late = 0  # answers in a row

    def after_fork_in_child(self) -> None:
        """Leave the connection to the parent, and start again."""
        was_closed = self._is_closed
        _with_threads.discard(self)
        self._begin()
        self._is_closed = was_closed

    # from any thread

    def is_up(self) -> bool:
        """Return whether to ask; while Redis is gone, have it looked at again from time to time."""
        if self._is_closed:
            return False
        if not self._is_up and not self._is_trying and time.monotonic() >= self._trial_at:
            self._is_trying = True
            self.put(_of_nobody(None))
        return self._is_up

    @property
    def is_connected(self) -> bool:
        """Return whether there was a connection: a question is sent at once then."""
        return self._client is not None

    def connect(self) -> None:
        """Have a connection made, unless there is one. Never waits."""
        if self._is_up and not (self.is_connected or self._is_closed):
            self.put(_of_nobody(None))

    def put(self, call: PendingCommand) -> None:
        """Have a question sent. Never waits; safe in finalizers."""
        self._inbox.put(call)
        if self._thread is None and self._starting.acquire(blocking=False):
            try:
                if self._thread is None and not self._is_closed:
                    thread = threading.Thread(
                        target=self._run, args=(self._inbox,), daemon=True, name="curlhttp-redis"
                    )
                    thread.start()
                    self._thread = thread
                    _with_threads.add(self)
            except RuntimeError as error:  # there are no more threads
                self.note_failure(error)
            finally:
                self._starting.release()

    def hold(self, question: StoreCommand, every: float) -> LeaseRenewal:
        """Have a question asked again and again, until it is ended."""
        held = LeaseRenewal(question, every, self._holdings)
        if not self._has_held:
            self._has_held = True  # from now on the thread looks at them from time to time
            self.put(_of_nobody(None))
        return held

    def note_failure(self, error: BaseException) -> None:
        """Leave Redis alone for a while, and say so."""
        now = time.monotonic()
        if self._is_up or self._is_trying:
            self._trial_at = now + self._pause
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause)
        self._is_up = self._is_trying = False
        if now - self._said_at >= _SAID_EVERY and not self._is_closed:
            self._said_at, self._has_said = now, True
            _log.warning(
                "the store %s gives no answer, this process goes on by itself: %s: %s",
                self._address.where,
                type(error).__name__,
                str(error),  # a handler may keep what it is given, and an error keeps its frames
            )

    def close(self) -> None:
        """Send what has come up to now, and close the connection."""
        with self._starting:
            self._is_closed = True
            thread = self._thread
        self._inbox.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def drop(self) -> None:
        """Close it from a finalizer: nobody asks any more, and nothing is waited for."""
        self._is_closed = True
        self._inbox.put(None)

    def end_with_program(self) -> None:
        """Send what has come up to now, such as places that are given back; not for long."""
        self.drop()
        if self._thread is not None:
            self._thread.join(_LAST_WAIT)

    # in the thread

    def _run(self, inbox: SimpleQueue[PendingCommand | None]) -> None:
        while True:
            batch, is_last = _next_of(inbox, _TICK if self._has_held else None)
            self._serve(batch + self._due())
            if is_last:
                break
        client, self._client = self._client, None
        if client is not None:
            client.connection_pool.disconnect()

    def _due(self) -> list[PendingCommand]:
        """Return what is to be asked again now."""
        # Nobody else may ask whether Redis is back, and places that are held would end meanwhile.
        if not self._holdings or not self.is_up():
            return []
        now, due = time.monotonic(), []
        for held in self._holdings.copy().values():
            if now >= held.due:
                held.due = now + held.every
                due.append(_of_nobody(held.question))
        return due

    def _serve(self, batch: list[PendingCommand]) -> None:
        wanted = [call for call in batch if not call.is_claimed]
        if not wanted:
            return
        is_trial = any(call.question is None for call in wanted)
        if not (self._is_up or is_trial):
            _finish(wanted)  # it failed since they came
            return
        try:
            seconds = self._exchange(wanted)
        except Exception as error:  # whatever it is, the requests go on
            self._loaded.clear()
            self.note_failure(error)
            _finish(wanted)
            return
        # Not after a mere PING: it may answer that in time, and nothing else.
        says_enough = any(call.question is not None for call in wanted)
        if seconds > self._timeout:
            self._late += 1
        elif says_enough:
            self._late = 0
        if self._late >= _MANY_LATE and seconds > self._timeout:
            # Else each request would wait for what always comes too late.
            self.note_failure(TimeoutError(f"an answer took {seconds:.3g} s"))
            return
        self._is_up, self._is_trying = True, False
        if says_enough:
            self._pause = _FIRST_PAUSE
            if self._has_said:
                self._has_said = False
                _log.info("the store %s answers again", self._address.where)

    def _exchange(self, calls: list[PendingCommand]) -> float:
        """Give calls their answers; return the seconds that Redis took, but for connecting."""
        if self._client is None:
            # Greetings are answers, too.
            waits = max(self._timeout, self._connect_timeout, _LATE_ANSWERS)
            self._client = self._address.client(self._connect_timeout, waits)
        begun = time.monotonic()
        self._ask_for(calls)
        return time.monotonic() - begun

    def _ask_for(self, calls: list[PendingCommand]) -> None:
        assert self._client is not None
        sent = [call for call in calls if call.question is not None]
        if not sent:
            self._client.ping()
            _finish(calls)
            return
        unknown = [
            each for each, reply in self._replies(sent, by_sha=True) if not self._take(each, reply)
        ]
        # Redis was restarted, or has never seen them: now it will know them.
        for each, reply in self._replies(unknown, by_sha=False):
            self._take(each, reply)
        _finish(calls)

    def _replies(
        self, sent: list[PendingCommand], *, by_sha: bool
    ) -> Iterator[tuple[PendingCommand, object]]:
        if not sent:
            return
        assert self._client is not None
        pipe = self._client.pipeline(transaction=False)
        new = {cast(StoreCommand, call.question).kind for call in sent} - self._loaded
        # In the same piece and before: what came first is done first.
        for kind in new:
            _add(pipe, "SCRIPT LOAD", script(kind).text)
        for call in sent:
            question = cast(StoreCommand, call.question)
            found, keys = script(question.kind), keys_of(question, self._prefix)
            name, text = ("EVALSHA", found.sha) if by_sha else ("EVAL", found.text)
            _add(pipe, name, text, len(keys), *keys, *question.arguments, call.mark)
        replies = pipe.execute(raise_on_error=False)
        self._loaded |= new
        yield from zip(sent, replies[len(new) :], strict=True)

    def _take(self, call: PendingCommand, reply: object) -> bool:
        """Give a call its answer; return False where Redis does not know the script."""
        if isinstance(reply, Exception):
            if type(reply).__name__ == "NoScriptError":
                return False
            call.error = self._address.lasting(self._prefix, reply)
            if call.error is None:
                raise reply
        else:
            call.answer = answer_in(reply, cast(StoreCommand, call.question), call.mark)
            if call.answer is None:
                raise ValueError("what answers there is no Redis, or its keys are damaged")
        if call.claim():
            call.wake()
        elif (undo := call.taken_back()) is not None:
            # Its caller was gone before the answer came.
            self._inbox.put(_of_nobody(undo))
        return True


_with_threads: WeakSet[RedisConnection] = WeakSet()


@atexit.register
def _end_with_program() -> None:
    for each in list(_with_threads):
        each.end_with_program()


def _next_of(
    inbox: SimpleQueue[PendingCommand | None], seconds: float | None
) -> tuple[list[PendingCommand], bool]:
    """Wait for calls, or so long; return those that are there, and whether no more will be."""
    batch: list[PendingCommand] = []
    try:
        call = inbox.get(timeout=seconds)
    except Empty:
        return batch, False
    while call is not None:
        batch.append(call)
        if len(batch) >= _MOST:
            return batch, False
        try:
            call = inbox.get_nowait()
        except Empty:
            return batch, False
    return batch, True


def _add(pipe: Pipeline, *command: str | float) -> None:
    pipe.execute_command(*command)  # type: ignore[no-untyped-call]  # of redis-py


def _finish(calls: list[PendingCommand]) -> None:
    for call in calls:
        if call.claim():
            call.wake()


def _of_nobody(question: StoreCommand | None) -> PendingCommand:
    return PendingCommand(question, _nothing)


def _nothing() -> None:
    """Wake nobody."""
