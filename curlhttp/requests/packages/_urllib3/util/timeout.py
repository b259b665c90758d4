"""urllib3.util.timeout: limits for connecting and for each wait for bytes."""

from __future__ import annotations

import socket
import time
from enum import Enum
from typing import Any

from curlhttp.requests.packages._urllib3.exceptions import TimeoutStateError

__all__ = ["Timeout"]


class _TYPE_DEFAULT(Enum):  # noqa: N801
    token = -1


class Timeout:
    """Hold limits in seconds; None means none.

    Args:
        total: of connecting and the first wait for bytes together.
        connect: of connecting.
        read: of each wait for bytes.

    Raises:
        ValueError: a limit is not a positive number.
    """

    DEFAULT_TIMEOUT = _TYPE_DEFAULT.token

    def __init__(
        self,
        total: Any = None,
        connect: Any = _TYPE_DEFAULT.token,
        read: Any = _TYPE_DEFAULT.token,
    ) -> None:
        self._connect = self._validate_timeout(connect, "connect")
        self._read = self._validate_timeout(read, "read")
        self.total = self._validate_timeout(total, "total")
        self._start_connect: float | None = None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(connect={self._connect!r}, read={self._read!r}, "
            f"total={self.total!r})"
        )

    __str__ = __repr__

    @staticmethod
    def resolve_default_timeout(timeout: Any) -> float | None:
        """Return a limit as a number, the default being the one of sockets."""
        if timeout is _TYPE_DEFAULT.token:
            return socket.getdefaulttimeout()
        return timeout  # type: ignore[no-any-return]

    @classmethod
    def _validate_timeout(cls, value: Any, name: str) -> Any:
        from curlhttp.requests._timeouts import check_seconds

        if value is not _TYPE_DEFAULT.token:
            check_seconds(name, value)
        return value

    @classmethod
    def from_float(cls, timeout: Any) -> Timeout:
        """Return a Timeout with one limit for connecting and for each wait for bytes."""
        return cls(connect=timeout, read=timeout)

    def clone(self) -> Timeout:
        """Return a Timeout of the same limits whose clock has not started."""
        return type(self)(total=self.total, connect=self._connect, read=self._read)

    def start_connect(self) -> float:
        """Start the clock.

        Raises:
            TimeoutStateError: it was started before.
        """
        if self._start_connect is not None:
            raise TimeoutStateError("Timeout timer has already been started.")
        self._start_connect = time.monotonic()
        return self._start_connect

    def get_connect_duration(self) -> float:
        """Return the seconds since start_connect().

        Raises:
            TimeoutStateError: it was not called.
        """
        if self._start_connect is None:
            raise TimeoutStateError("Can't get connect duration for timer that has not started.")
        return time.monotonic() - self._start_connect

    @property
    def connect_timeout(self) -> Any:
        """Return the limit for connecting."""
        if self.total is None:
            return self._connect
        if self._connect is None or self._connect is _TYPE_DEFAULT.token:
            return self.total
        return min(self._connect, self.total)

    @property
    def read_timeout(self) -> float | None:
        """Return the limit for the next wait for bytes.

        Raises:
            TimeoutStateError: there is a total, whose clock has not started.
        """
        has_total = self.total is not None and self.total is not _TYPE_DEFAULT.token
        if not has_total:
            return self.resolve_default_timeout(self._read)
        if self._read is None or self._read is _TYPE_DEFAULT.token:
            return float(max(0, self.total - self.get_connect_duration()))
        if self._start_connect is None:
            return self._read  # type: ignore[no-any-return]
        return float(max(0, min(self.total - self.get_connect_duration(), self._read)))
