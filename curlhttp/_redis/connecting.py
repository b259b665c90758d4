"""Clients of Redis as the link needs them: bounded waits, no second try, bytes as they came."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from curlhttp.exceptions import StoreError

if TYPE_CHECKING:
    from redis import Redis
    from redis.connection import AbstractConnection

__all__ = ["Address", "address_of"]

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
