"""What circuits are called, and what a call hears that one refuses."""

from __future__ import annotations

import math

from curlhttp._models.url import parse_url
from curlhttp.exceptions import CircuitBreakerOpen

__all__ = ["key_of", "proxy_key", "refusal"]

_PROXY = "proxy "


def proxy_key(url: str) -> str:
    """Return the key of a proxy, whose circuit is not that of a site on the same host and port.

    Args:
        url: Proxy.url, "scheme://host:port".
    """
    return _PROXY + url


def key_of(origin: str) -> str:
    """Return the key for what a user calls an origin: any URL of it, or the key of a proxy."""
    return origin if origin.startswith(_PROXY) else parse_url(origin).origin


def refusal(origin: str, seconds: float) -> CircuitBreakerOpen:
    """Return the error for a call that a circuit refuses.

    Args:
        origin: key of the circuit.
        seconds: for how long; inf until it is reset.
    """
    until = "until it is reset" if seconds == math.inf else f"for {max(0.0, seconds):.3g} s"
    return CircuitBreakerOpen(
        f"the circuit breaker of {origin} is open {until}; nothing was sent", retry_after=seconds
    )
