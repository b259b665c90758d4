"""What requests takes as `timeout=`, in numbers."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from curlhttp._models.timeout import Timeout

if TYPE_CHECKING:
    import urllib3

    from curlhttp._models.timings import Timings
    from curlhttp.requests._types import TimeoutInput

__all__ = ["as_pair", "check_seconds", "what_is_left"]

_NOTHING = 1e-3  # seconds: no limit can be 0


def as_pair(timeout: TimeoutInput) -> tuple[float | None, float | None, float | None]:
    """Return (connect, read, total) in seconds, None for no limit.

    urllib3's total is none of the whole exchange: it bounds the wait for the connection and each
    wait for bytes, so that is what becomes of it here.

    Raises:
        ValueError: it is none of these, or a limit is not positive.
    """
    if timeout is None:
        return None, None, None
    if isinstance(timeout, tuple):
        try:
            connect, read = timeout
            return check_seconds("connect", connect), check_seconds("read", read), None
        except ValueError:
            raise ValueError(
                f"Invalid timeout {timeout}. Pass a (connect, read) timeout tuple, "
                "or a single float to set both timeouts to the same value."
            ) from None
    if isinstance(timeout, Timeout):
        return timeout.connect, timeout.read, timeout.total
    if hasattr(timeout, "_connect"):
        return _of_urllib3(cast("urllib3.Timeout", timeout))
    seconds = check_seconds("connect", timeout)
    return seconds, seconds, None


def what_is_left(timeout: TimeoutInput, spent: Timings | None) -> Callable[[], TimeoutInput]:
    """Return what tells the limits of the next hop: a total is one of all hops together."""
    if not isinstance(timeout, Timeout) or timeout.total is None:
        return lambda: timeout
    end = monotonic() + timeout.total - (0 if spent is None else spent.queue + spent.total)
    return lambda: replace(timeout, total=max(end - monotonic(), _NOTHING))


def check_seconds(name: str, value: Any) -> float | None:
    """Return a limit as a number.

    Raises:
        ValueError: it is not a positive, finite number.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("Timeout cannot be a boolean value. It must be an int, float or None.")
    try:
        seconds = float(value)
        is_positive = value > 0
    except (OverflowError, TypeError, ValueError):
        raise ValueError(
            f"Timeout value {name} was {value}, but it must be an int, float or None."
        ) from None
    if not math.isfinite(seconds):
        raise ValueError(f"Timeout value {name} was {value}, but it must be a finite number.")
    if not is_positive:
        raise ValueError(
            f"Attempted to set {name} timeout to {value}, but the timeout cannot be set to a "
            "value less than or equal to 0."
        )
    return seconds


def _of_urllib3(timeout: urllib3.Timeout) -> tuple[float | None, float | None, None]:
    total = _given(timeout.total)
    connect = _given(timeout._connect)
    read = _given(timeout._read)  # the property read_timeout is for connections that are there
    return _least(connect, total), _least(read, total), None


def _given(value: object) -> float | None:
    if value is None:
        return None
    # An object of its own stands for the default.
    return float(value) if isinstance(value, (int, float)) else socket.getdefaulttimeout()


def _least(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
