"""What keeps a request from reaching its server, or from an answer in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from curlhttp.exceptions._base import RequestException

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._models.inputs import ErrorFacts

__all__ = [
    "BlockedAddress",
    "CircuitBreakerOpen",
    "ConnectTimeout",
    "ConnectionError",
    "DeadlineExceeded",
    "PoolTimeout",
    "ProxyError",
    "ReadTimeout",
    "RemoteProtocolError",
    "RetryError",
    "SSLError",
    "StoreError",
    "Timeout",
    "WriteTimeout",
]


class ConnectionError(RequestException):  # requests' name, shadows the builtin on purpose
    """Report that the connection could not be made or broke."""


class ProxyError(ConnectionError):
    """Report that the proxy refused, failed or could not be reached.

    Attributes:
        connect_status: what it answered to CONNECT, or None.
    """

    connect_status: int | None = None


class SSLError(ConnectionError):
    """Report that TLS failed: certificate, host name or handshake.

    Attributes:
        tls_failure: "handshake" when the server broke it off or sent an alert, "untrusted" when
            its certificate or key is not to be trusted, None for anything else.
    """

    tls_failure: Literal["handshake", "untrusted"] | None = None


class RemoteProtocolError(ConnectionError):
    """Report that the server broke HTTP: bad or cut header block, bad framing.

    Attributes:
        broken_part: "head" for a header block that ended early, "content-length" for a length that
            is no number, None for anything else.
    """

    broken_part: Literal["head", "content-length"] | None = None


class BlockedAddress(ConnectionError):
    """Report that a guard refused the address that the host has; nothing was sent to it.

    Attributes:
        host: as the URL names it.
        address: the first one that was refused, "" where the request was refused before.
        port: that of the address.
        reason: what speaks against it.
    """

    host: str = ""
    address: str = ""
    port: int = 0
    reason: str = ""


class CircuitBreakerOpen(ConnectionError):
    """Report that the origin's circuit breaker refused the request; nothing was sent.

    Attributes:
        retry_after: seconds until it may let requests through again; math.inf when it was forced.
    """

    def __init__(
        self, *args: object, retry_after: float = 0.0, **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(*args, **facts)
        self.retry_after = retry_after


class StoreError(RequestException):
    """Report that a store of shared limits gives no answer, or holds what is not curlhttp's."""


class Timeout(RequestException):
    """Report that a time limit was reached.

    requests has this name for an exception, httpx for a setting; here it is both: called with
    limits, as in Timeout(connect=5, total=30) or Timeout(5), it returns the setting.
    """

    # Any: facts of an error, or limits of the setting.
    def __new__(cls, *args: object, **facts: Any) -> Timeout:
        """Return the exception, or the setting when nothing but limits is given."""
        if cls is Timeout and (args or facts) and _LIMITS.issuperset(facts):
            from curlhttp._models.timeout import Timeout as Setting

            if not args:
                return Setting(**facts)  # type: ignore[return-value]  # see above
            if len(args) == 1 and not facts and isinstance(args[0], (int, float)):
                return Setting.of(args[0])  # type: ignore[return-value]
            if len(args) == 1 and isinstance(args[0], (int, float, type(None))):
                limits = {"connect": args[0], "read": args[0], **facts}
                shown = ", ".join(f"{name}={value!r}" for name, value in limits.items())
                raise TypeError(f"give Timeout one number or keywords; write Timeout({shown})")
        elif cls is Timeout and (unknown := facts.keys() - _LIMITS - _FACTS):
            from curlhttp._models.habits import no_keyword

            raise no_keyword("Timeout", "Timeout()", min(unknown), sorted(_LIMITS))
        return super().__new__(cls, *args)


_FACTS = frozenset({"request", "response", "curl_code", "request_sent", "timings"})
_LIMITS = frozenset({"total", "connect", "read", "write", "pool"})


class ConnectTimeout(ConnectionError, Timeout):
    """Report that no connection was made in time; the request was not sent."""


class ReadTimeout(Timeout):
    """Report that the server was silent for longer than the read timeout."""


class WriteTimeout(Timeout):
    """Report that the server took no more of the request's body for longer than the write timeout.

    Part of the request was sent: it may be sent again only if it may be processed twice.
    """


class PoolTimeout(Timeout):
    """Report that no handle of the pool became free in time; nothing was sent."""


class DeadlineExceeded(Timeout):
    """Report that the total time of the request ran out."""


class RetryError(RequestException):
    """Report that a custom retry gave up."""
