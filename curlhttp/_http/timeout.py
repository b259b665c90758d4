"""The time limits of a request, as a frozen value that is validated when it is created."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, overload

from curlhttp._http.frozen import dataclass
from curlhttp._http.suggestions import with_suggestions

# Seconds by which timers of event loops may be early; on Windows, the clock has ticks of 16 ms.
EARLY = 0.016 if sys.platform == "win32" else 0.002
# Of a fetch of many URLs, in which no server may hold a place forever.
ATTEMPT_SECONDS, MIN_SPEED = 300.0, (100.0, 30.0)
MIN_ATTEMPT_SECONDS = 0.001  # that must be left of a total timeout to begin an attempt

TimeoutInput: TypeAlias = "Timeout | float | tuple[float | None, float | None] | None"
"""One number or a tuple for connect and read, a Timeout, or None for no limit."""


def _name_limits(numbers: tuple[object, ...], limits: dict[str, object]) -> dict[str, object]:
    """Let Timeout(5) limit connect and read; everything else needs a keyword."""
    if len(numbers) == 1 and not limits and isinstance(numbers[0], (int, float)):
        return {"connect": numbers[0], "read": numbers[0]}
    given = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], tuple) else numbers
    if given and all(isinstance(each, (int, float, type(None))) for each in given):
        named = {"connect": given[0], "read": given[-1], **limits}
        shown = ", ".join(f"{name}={value!r}" for name, value in named.items())
        raise TypeError(f"Timeout takes one number or keywords; write Timeout({shown})")
    raise TypeError(
        "Timeout takes one number, or keywords such as connect=; the exception is "
        "curlhttp.TimeoutException"
    )


@with_suggestions("Timeout", _name_limits)
@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """Set the time limits of a request, each in seconds; None means no limit.

    Timeout(5) is short for Timeout(connect=5, read=5). The exception is TimeoutException.

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
        attempt: one attempt, from its connection to the end of its body. It begins when the attempt
            is sent, so no wait for a limit, a rate, a retry or a free connection counts. The
            exception is ConnectTimeout or ReadTimeout, after which a retry may follow.
        min_speed: bytes per second, and for how many seconds a transfer may be slower. It begins
            with the first byte of the response. The time in which the caller does not read does not
            count. The exception is ReadTimeout.

    Raises:
        ValueError: a limit is not a positive, finite number.
        TypeError: there is no limit of that name, or it needs a keyword.
    """

    total: float | None = None
    connect: float | None = 10.0
    read: float | None = 60.0
    write: float | None = None
    pool: float | None = None
    attempt: float | None = None
    min_speed: tuple[float, float] | None = None

    if TYPE_CHECKING:

        @overload
        def __init__(self, seconds: float, /) -> None: ...
        @overload
        def __init__(
            self,
            *,
            total: float | None = None,
            connect: float | None = 10.0,
            read: float | None = 60.0,
            write: float | None = None,
            pool: float | None = None,
            attempt: float | None = None,
        ) -> None: ...
        @overload  # separate, so that the one above takes **dict[str, float]
        def __init__(
            self,
            *,
            total: float | None = None,
            connect: float | None = 10.0,
            read: float | None = 60.0,
            write: float | None = None,
            pool: float | None = None,
            attempt: float | None = None,
            min_speed: tuple[float, float] | None,
        ) -> None: ...
        def __init__(
            self, *numbers: float, **limits: float | tuple[float, float] | None
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("total", "connect", "read", "write", "pool", "attempt"):
            seconds = getattr(self, name)
            if seconds is not None:
                _check_seconds(name, seconds)
        if self.min_speed is not None:
            _check_speed(self.min_speed)

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
            for name, seconds in zip(("connect", "read"), value, strict=True):
                _check_seconds(name, seconds)
            return _make_timeout(cls, *value)  # type: ignore[arg-type]  # a class has a hash
        if not isinstance(value, (int, float)):
            raise _make_type_error(value)
        return _make_timeout(cls, value, value)  # type: ignore[arg-type]


# Engines set no option again for a request whose Timeout is that of the one before.
@lru_cache(maxsize=256, typed=True)
def _make_timeout(cls: type[Timeout], connect: float | None, read: float | None) -> Timeout:
    return cls(connect=connect, read=read)


def _make_type_error(value: object) -> ValueError:
    kind = type(value)
    shown = f"{kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
    return ValueError(
        "a timeout is a number of seconds, (connect, read), a curlhttp.Timeout or None, "
        f"not {shown}"
    )


_TOO_LONG = 1e12  # seconds; libcurl counts milliseconds in 64 bits


def _check_seconds(name: str, seconds: float | None) -> None:
    """Check a limit.

    Raises:
        ValueError: it is neither None nor a positive number.
    """
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ValueError(f"the {name} timeout must be a number of seconds or None, not {seconds!r}")
    if not 0 < seconds < _TOO_LONG:
        raise ValueError(
            f"the {name} timeout must be a positive, finite number, not {seconds!r}; None means "
            "no limit"
        )


def _check_speed(speed: object) -> None:
    if not isinstance(speed, tuple) or len(speed) != 2 or None in speed:
        raise ValueError(
            "min_speed must be a pair of bytes per second and seconds, such as (100, 30), not "
            f"{speed!r}"
        )
    for name, number in zip(("speed of min_speed", "min_speed"), speed, strict=True):
        _check_seconds(name, number)


_NO_LIMITS = Timeout(total=None, connect=None, read=None, write=None, pool=None)
