"""The connection to Redis: one thread sends the commands of all requests of a process.

Requests in event loops must not block, and requests in threads must not wait beyond their timeout,
not even for a name server. So each request waits with a waiter of its engine, and the thread sends
all commands that have arrived in one pipeline: a thousand requests at once take a few round trips.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from weakref import WeakSet

from curlhttp._features.shared_store import Answer, StoreCommand
from curlhttp._http.exiting import start_thread
from curlhttp.exceptions import RequestException, StoreError
from curlhttp.redis._scripts import load_script, make_keys, parse_answer

if TYPE_CHECKING:
    from redis import Redis
    from redis.connection import AbstractConnection

# --- Connections of redis-py with bounded waits, without retries, whose replies are bytes ---

# Any: settings have different types, which depend on the class of connections.
_Settings: TypeAlias = "dict[str, Any]"
_Words: TypeAlias = "tuple[str | float, ...]"  # of a command

# Settings of the user's client that are replaced.
_OVERRIDDEN = ("retry", "retry_on_timeout", "retry_on_error", "decode_responses")


class Address(NamedTuple):
    """How to connect to one server.

    Attributes:
        kind: redis-py's class of connections.
        settings: its arguments.
        where: the URL without credentials, for messages.
    """

    kind: type[AbstractConnection]
    settings: _Settings
    where: str

    def connect(self, connect_timeout: float, timeout: float) -> AbstractConnection:
        """Return a new connection.

        Args:
            connect_timeout: seconds to wait for a connection.
            timeout: seconds to wait for a reply.
        """
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        settings = {name: value for name, value in self.settings.items() if name not in _OVERRIDDEN}
        settings |= {"socket_timeout": timeout, "socket_connect_timeout": connect_timeout}
        # A retried command may be executed twice, and a request would wait for the retry.
        settings["retry"] = Retry(NoBackoff(), 0)
        pool = redis.ConnectionPool(connection_class=self.kind, **settings)
        link = cast("AbstractConnection", pool.make_connection())
        try:
            _send(link, [("PING",)])
            _read_reply(link)  # an error too is a reply: some users may not send PING
        except BaseException:
            link.disconnect()  # type: ignore[no-untyped-call]  # of redis-py
            raise
        return link

    def to_store_error(self, prefix: str, error: Exception) -> StoreError | None:
        """Return a StoreError for a lasting error, None for one that may not occur again.

        Args:
            prefix: start of the names of all keys.
            error: from redis-py.
        """
        text = str(error)
        if "WRONGTYPE" in text or "CURLHTTP" in text:
            what = f"a key with prefix {prefix!r} holds data that curlhttp did not write"
        elif "NOPERM" in text or type(error).__name__ == "NoPermissionError":
            what = f"its user may not use keys with prefix {prefix!r}, or may not run scripts"
        else:
            return None
        return StoreError(f"the store {self.where}: {what} ({text}); nothing was sent")


def describe_problem(error: BaseException) -> str:
    """Return what is wrong with a server, for "the store ...".

    Args:
        error: from redis-py, or of this module.
    """
    import redis

    if isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError)):
        what = "refuses the user name or password"
    elif isinstance(error, (redis.ResponseError, redis.BusyLoadingError)):
        what = "refuses commands"
    else:
        what = "does not respond"
    return f"{what} ({type(error).__name__}: {error})"


def _send(link: AbstractConnection, commands: list[_Words]) -> None:
    link.send_packed_command(link.pack_commands(commands))  # type: ignore[no-untyped-call]  # of redis-py


def _read_reply(link: AbstractConnection) -> object:
    """Return the next reply, which may be an error."""
    import redis

    try:
        return link.read_response()
    except redis.ResponseError as error:
        return error


def _is_stale(link: AbstractConnection) -> bool:
    """Return whether the server closed a connection, or sent what was not asked for."""
    try:
        return link.can_read(0)
    except Exception:  # of redis-py or the socket
        return True


def parse_address(given: str | Redis) -> Address:
    """Return how to connect to the server that a user named.

    Args:
        given: a URL, or a client of redis-py.

    Raises:
        ImportError: redis-py is not installed.
        ValueError: it is not a URL of Redis.
        TypeError: it is not a client of one server.
    """
    try:
        import redis
    except ImportError as error:
        raise ImportError("RedisStore needs redis-py: pip install 'curlhttp[redis]'") from error
    if isinstance(given, str):
        try:
            pool = redis.ConnectionPool.from_url(given)
        except ValueError:  # its text may contain a part of a password
            raise ValueError(
                'this is not a URL of Redis, such as "redis://localhost:6379/0", '
                '"rediss://:password@host:6380/0" or "unix:///run/redis.sock"'
            ) from None
    elif type(given) is redis.Redis or isinstance(given, redis.Redis):
        pool = given.connection_pool
        if type(pool) not in (redis.ConnectionPool, redis.BlockingConnectionPool):
            raise TypeError(
                f"RedisStore does not support {type(pool).__name__}: pass the URL of one server"
            )
    else:
        raise TypeError(
            f"RedisStore takes a URL or a redis.Redis, not {type(given).__module__}."
            f"{type(given).__name__}, also for AsyncClient"
        )
    settings = dict(pool.connection_kwargs)
    return Address(pool.connection_class, settings, _format_address(settings))


def _format_address(settings: _Settings) -> str:
    database = settings.get("db") or 0
    if "path" in settings:
        return f"unix://{settings['path']}?db={database}"
    host = settings.get("host", "localhost")
    return f"redis://{host}:{settings.get('port', 6379)}/{database}"


_MAX_BATCH = 256  # commands in one pipeline
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds without commands after a failure
_WARN_EVERY = 60.0  # seconds
_GIVE_UP_AFTER = 1.0  # seconds, at least, to wait for a reply that is late
_MAX_LATE = 3  # late replies in a row, which count as a failure
_EXIT_TIMEOUT = 1.0  # seconds to wait at the end of the program until all commands are sent
_TICK = 0.5  # seconds after which the thread looks for leases to renew

_log = logging.getLogger("curlhttp")
_numbers = count()


class PendingCommand:
    """A command that was queued. Its caller gets the answer; if the caller has left, it is undone.

    Args:
        command: the command; None to see whether Redis responds at all.
        wake: called when it is done.

    Attributes:
        answer: the answer, or None.
        error: a lasting error instead, or None.
        correlation_id: unique in this process; Redis returns it with the answer.
    """

    __slots__ = ("_claims", "answer", "command", "correlation_id", "error", "wake")

    def __init__(self, command: StoreCommand | None, wake: Callable[[], object]) -> None:
        self.command = command
        self.wake: Callable[[], object] = wake
        self.answer: Answer | None = None
        self.error: Exception | None = None
        self.correlation_id = str(next(_numbers))
        self._claims = [True]

    def claim(self) -> bool:
        """Claim the command to answer it, or to leave; return whether this was the first claim."""
        try:
            self._claims.pop()
        except IndexError:
            return False
        return True

    @property
    def is_claimed(self) -> bool:
        """Return whether it is done, or its caller has left."""
        return not self._claims

    def make_undo(self) -> StoreCommand | None:
        """Return the command that undoes this one, None if there is nothing to undo."""
        command, answer = self.command, self.answer
        if command is None or command.undo is None or answer is None:
            return None
        return command.undo(answer)


class LeaseRenewal:
    """A lease that is renewed until it ends.

    Args:
        command: renews it.
        every: seconds between two renewals.
        renewals: all of the connection; this one adds and removes itself.
    """

    __slots__ = ("_renewals", "command", "due", "every")

    def __init__(
        self, command: StoreCommand, every: float, renewals: dict[int, LeaseRenewal]
    ) -> None:
        self.command = command
        self.every = every
        self.due: float = time.monotonic() + every
        self._renewals = renewals
        renewals[id(self)] = self

    def end(self) -> None:
        """Stop the renewal. Safe in finalizers."""
        self._renewals.pop(id(self), None)


class RedisConnection:
    """The connection to one server, and the thread that uses it.

    Args:
        address: how to connect.
        prefix: start of the names of all keys.
        timeout: seconds after which a reply is late.
        connect_timeout: seconds for which the thread waits for a connection.
        consequence: of a failure, for the log.

    Attributes:
        problem: the latest failure, for "the store ...".
    """

    def __init__(
        self,
        address: Address,
        prefix: str,
        timeout: float,
        connect_timeout: float,
        consequence: str,
    ) -> None:
        self._address = address
        self._prefix = prefix
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._consequence = consequence
        self.problem = "does not respond"
        self._warned_at = -_WARN_EVERY
        self._has_warned = False
        self._reset()

    def _reset(self) -> None:
        self._inbox: SimpleQueue[PendingCommand | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._link: AbstractConnection | None = None
        self._connecting_since: float | None = None
        self._loaded: set[str] = set()  # kinds of commands whose scripts Redis has
        self._renewals: dict[int, LeaseRenewal] = {}
        self._has_renewals = False
        self._is_up = True
        self._is_closed = False
        self._retry_at = 0.0
        self._is_retrying = False
        self._pause = _FIRST_PAUSE
        self._late = 0  # replies in a row
        self._was_late = False  # the latest reply

    def _after_fork_in_child(self) -> None:
        """Leave the connection to the parent, and start again."""
        was_closed = self._is_closed
        _with_thread.discard(self)
        self._reset()
        self._is_closed = was_closed

    # from any thread

    def is_up(self) -> bool:
        """Return whether Redis responds; after a failure, send a PING from time to time."""
        if self._is_closed:
            return False
        if not self._is_up and not self._is_retrying and time.monotonic() >= self._retry_at:
            self._is_retrying = True
            self.put(make_unawaited(None))
        return self._is_up

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection, so that a command is sent immediately."""
        return self._link is not None

    def is_stuck(self) -> bool:
        """Return whether connecting takes too long, because a look-up of a name has no timeout."""
        since = self._connecting_since
        return since is not None and time.monotonic() - since >= self._connect_timeout

    def connect(self) -> None:
        """Make the thread connect, unless it is connected. Never waits."""
        if self._is_up and not (self.is_connected or self._is_closed):
            self.put(make_unawaited(None))

    def put(self, pending: PendingCommand) -> None:
        """Queue a command, and start the thread if needed. Never waits; safe in finalizers."""
        self._inbox.put(pending)
        if self._thread is None and self._starting.acquire(blocking=False):
            try:
                if self._thread is None and not self._is_closed:
                    work = partial(self._run, self._inbox)
                    self._thread = start_thread(work, "curlhttp-redis")
                    _with_thread.add(self)
            except RequestException as error:
                self.note_failure(error)
            finally:
                self._starting.release()

    def hold(self, command: StoreCommand, every: float) -> LeaseRenewal:
        """Renew a lease until it is ended."""
        renewal = LeaseRenewal(command, every, self._renewals)
        if not self._has_renewals:
            self._has_renewals = True  # from now on the thread looks for them
            self.put(make_unawaited(None))
        return renewal

    def note_failure(self, error: BaseException) -> None:
        """Send no commands for a while, and log a warning."""
        now = time.monotonic()
        if self._is_up or self._is_retrying:
            self._retry_at = now + self._pause
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause)
        self._is_up = self._is_retrying = False
        # As text, because a handler may keep its arguments, and an error refers to its frames.
        self.problem = describe_problem(error)
        if now - self._warned_at >= _WARN_EVERY and not self._is_closed:
            self._warned_at, self._has_warned = now, True
            _log.warning(
                "the store %s %s, so %s", self._address.where, self.problem, self._consequence
            )

    def close(self) -> None:
        """Send the commands in the queue, and close the connection."""
        with self._starting:
            self._is_closed = True
            self.problem = "is closed"
            thread = self._thread
        self._inbox.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def drop(self) -> None:
        """Close the connection from a finalizer. Never waits."""
        self._is_closed = True
        self._inbox.put(None)

    def close_at_exit(self) -> None:
        """Send the commands in the queue, such as released leases, within a time limit."""
        self.drop()
        if self._thread is not None:
            self._thread.join(_EXIT_TIMEOUT)

    # in the thread

    def _run(self, inbox: SimpleQueue[PendingCommand | None]) -> None:
        while True:
            batch, is_last = _next_batch(inbox, _TICK if self._has_renewals else None)
            self._serve(batch + self._get_due_renewals())
            if is_last:
                break
        self._disconnect()

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        self._loaded.clear()
        if link is not None:
            link.disconnect()  # type: ignore[no-untyped-call]  # of redis-py

    def _get_due_renewals(self) -> list[PendingCommand]:
        """Return the renewals that are due."""
        # is_up() also sends a PING if Redis was gone: without requests, nothing else calls it.
        if not self._renewals or not self.is_up():
            return []
        now, due = time.monotonic(), []
        for renewal in self._renewals.copy().values():
            if now >= renewal.due:
                renewal.due = now + renewal.every
                due.append(make_unawaited(renewal.command))
        return due

    def _serve(self, batch: list[PendingCommand]) -> None:
        wanted = [pending for pending in batch if not pending.is_claimed]
        if not wanted:
            return
        is_ping = any(pending.command is None for pending in wanted)
        if not (self._is_up or is_ping):
            _wake_all(wanted)  # Redis failed after they were queued
            return
        self._was_late = False
        try:
            self._exchange(wanted)
        except Exception as error:  # any error: the requests must continue
            self._disconnect()  # a reply that comes later belongs to no command
            self.note_failure(error)
            _wake_all(wanted)
            return
        # A PING proves nothing, because Redis may reply in time to PING alone.
        ran_script = any(pending.command is not None for pending in wanted)
        if self._was_late:
            self._late += 1
            if self._late >= _MAX_LATE:
                # Otherwise each request would wait for a reply that always is too late.
                text = f"{self._late} replies in a row took longer than {self._timeout:g} s"
                self.note_failure(TimeoutError(text))
                return
        elif ran_script:
            self._late = 0
        self._is_up, self._is_retrying = True, False
        if ran_script:
            self._pause = _FIRST_PAUSE
            if self._has_warned:
                self._has_warned = False
                _log.info("the store %s responds again", self._address.where)

    def _exchange(self, batch: list[PendingCommand]) -> None:
        """Send commands and deliver the replies."""
        link = self._get_link()
        sent = [pending for pending in batch if pending.command is not None]
        if not sent:
            _send(link, [("PING",)])
            self._await_reply(link)
            _read_reply(link)
            _wake_all(batch)
            return
        unknown = [
            each
            for each, reply in self._fetch_replies(link, sent, by_sha=True)
            if not self._deliver(each, reply)
        ]
        # Redis was restarted and has lost the scripts.
        for each, reply in self._fetch_replies(link, unknown, by_sha=False):
            self._deliver(each, reply)
        _wake_all(batch)

    def _get_link(self) -> AbstractConnection:
        """Return a connection; connect if there is none, or the server closed it."""
        if self._link is not None and _is_stale(self._link):
            self._disconnect()
        if self._link is None:
            # This also applies to the replies to AUTH and SELECT.
            waits = max(self._timeout, self._connect_timeout, _GIVE_UP_AFTER)
            self._connecting_since = time.monotonic()
            try:
                self._link = self._address.connect(self._connect_timeout, waits)
            finally:
                self._connecting_since = None
        return self._link

    def _await_reply(self, link: AbstractConnection) -> None:
        """Wait for the first reply, and note whether it is late.

        No clock of this process decides this: if the thread wakes late, the kernel finds the reply
        in the socket, although the timeout is over.

        Raises:
            TimeoutError: there is none.
        """
        if link.can_read(self._timeout):
            return
        self._was_late = True
        longest = max(self._timeout, _GIVE_UP_AFTER)
        if not link.can_read(longest - self._timeout):
            raise TimeoutError(f"no reply in {longest:g} s")

    def _fetch_replies(
        self, link: AbstractConnection, sent: list[PendingCommand], *, by_sha: bool
    ) -> Iterator[tuple[PendingCommand, object]]:
        if not sent:
            return
        new = {cast(StoreCommand, pending.command).kind for pending in sent} - self._loaded
        # First in the same batch, because Redis runs commands in their order.
        words: list[_Words] = [("SCRIPT LOAD", load_script(kind).text) for kind in new]
        for pending in sent:
            command = cast(StoreCommand, pending.command)
            found, keys = load_script(command.kind), make_keys(command, self._prefix)
            name, text = ("EVALSHA", found.sha) if by_sha else ("EVAL", found.text)
            words.append((name, text, len(keys), *keys, *command.arguments, pending.correlation_id))
        _send(link, words)
        self._await_reply(link)
        replies = [_read_reply(link) for _ in words]
        self._loaded |= new
        yield from zip(sent, replies[len(new) :], strict=True)

    def _deliver(self, pending: PendingCommand, reply: object) -> bool:
        """Deliver a reply to a caller; return False if Redis does not have the script."""
        if isinstance(reply, Exception):
            if type(reply).__name__ == "NoScriptError":
                return False
            pending.error = self._address.to_store_error(self._prefix, reply)
            if pending.error is None:
                raise reply
        else:
            command = cast(StoreCommand, pending.command)
            pending.answer = parse_answer(reply, command, pending.correlation_id)
            if pending.answer is None:
                raise ValueError("the server is not Redis, or its keys are damaged")
        if pending.claim():
            pending.wake()
        elif (undo := pending.make_undo()) is not None:
            # Its caller left before the reply was received.
            self._inbox.put(make_unawaited(undo))
        return True


_with_thread: WeakSet[RedisConnection] = WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for each in list(_with_thread):
        each.close_at_exit()


def _next_batch(
    inbox: SimpleQueue[PendingCommand | None], seconds: float | None
) -> tuple[list[PendingCommand], bool]:
    """Return all commands in the queue, and whether they are the last.

    Args:
        inbox: the queue.
        seconds: how long to wait for the first command; None for no limit.
    """
    batch: list[PendingCommand] = []
    try:
        pending = inbox.get(timeout=seconds)
    except Empty:
        return batch, False
    while pending is not None:
        batch.append(pending)
        if len(batch) >= _MAX_BATCH:
            return batch, False
        try:
            pending = inbox.get_nowait()
        except Empty:
            return batch, False
    return batch, True


def _wake_all(batch: list[PendingCommand]) -> None:
    for pending in batch:
        if pending.claim():
            pending.wake()


def make_unawaited(command: StoreCommand | None) -> PendingCommand:
    return PendingCommand(command, _do_nothing)


def _do_nothing() -> None:
    """Wake nobody."""
