"""The time limits of a request, as a frozen value that is validated when it is created."""

from __future__ import annotations

import sys
from typing import TypeAlias

from curlhttp._models.frozen import dataclass

# Seconds by which timers of event loops may be early; on Windows, the clock has ticks of 16 ms.
EARLY = 0.016 if sys.platform == "win32" else 0.002
MIN_ATTEMPT_SECONDS = 0.001  # that must be left of a total timeout to begin an attempt

TimeoutInput: TypeAlias = "Timeout | float | tuple[float | None, float | None] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """Set the time limits of a request, each in seconds; None means no limit.

    Args:
        total: the limit for everything together: waits, redirects, retries and reading the body.
        connect: resolving the name, connecting and the TLS handshake (CURLOPT_CONNECTTIMEOUT_MS).
        read: the longest silence between two bytes. The time in which the caller does not read does
            not count. While the request is sent, bytes in either direction end the silence, unless
            `write` is set.
        write: while a body is sent, the longest time in which no byte of it is sent. Bytes in the
            buffers of libcurl and the operating system count as sent. The time in which the body
            has no data ready does not count. If it is None, `read` applies to sending, too.
        pool: the longest wait for a free connection of the pool.

    Raises:
        ValueError: a limit is not a positive, finite number.
    """

    total: float | None = None
    connect: float | None = 10.0
    read: float | None = 60.0
    write: float | None = None
    pool: float | None = None

    def __post_init__(self) -> None:
        for name in ("total", "connect", "read", "write", "pool"):
            _check_seconds(name, getattr(self, name))

    @classmethod
    def of(cls, value: TimeoutInput) -> Timeout:
        """Return the Timeout for a `timeout=` argument.

        Args:
            value: a Timeout; a number of seconds for both connect and read; requests' pair
                (connect, read); or None for no limit at all.

        Raises:
            ValueError: the value is none of these, or a limit is not positive.
        """
        if isinstance(value, Timeout):
            return value
        if value is None:
            return _NO_LIMITS
        if isinstance(value, tuple):
            if len(value) != 2:
                raise ValueError(
                    f"Invalid timeout {value!r}. Pass a (connect, read) timeout tuple, "
                    "or a single float to set both timeouts to the same value."
                )
            return cls(connect=value[0], read=value[1])
        if not isinstance(value, (int, float)):
            raise _make_type_error(value)
        return cls(connect=value, read=value)


def _make_type_error(value: object) -> ValueError:
    kind = type(value)
    shown = f"{kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
    if isinstance(value, Exception):  # curlhttp.Timeout("5")
        shown += "; Timeout takes one number, or keywords such as connect="
    return ValueError(
        "a timeout is a number of seconds, (connect, read), a curlhttp.Timeout or None, "
        f"not {shown}"
    )


_TOO_LONG = 1e12  # seconds; libcurl counts milliseconds in 64 bits


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f"the {name} timeout must be a number of seconds or None, not {seconds!r}")
    if not 0 < seconds < _TOO_LONG:
        raise ValueError(
            f"the {name} timeout must be a positive, finite number, not {seconds!r}; None means "
            "no limit"
        )


_NO_LIMITS = Timeout(total=None, connect=None, read=None, write=None, pool=None)
