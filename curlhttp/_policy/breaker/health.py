"""What a response or an exception says of the health of an origin or a proxy. It counts nothing.

failure   500, 502, 503, 504; not connected, cut off, silent, HTTP broken, TLS handshake failed
success   every other status but 429, which only asks to be slower
ignored   what is not the server's doing: our deadline, a full pool, cancellation, settings,
          decoding, a limit on sizes, the caller's own exceptions, an open breaker
proxy     the proxy could not be reached, or broke: its failure, and nobody else's. What it
          answers to CONNECT is of the origin (502, 503, 504), or ignored (403, 407)
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum
from typing import Protocol

from curlhttp import exceptions as e

__all__ = [
    "FAILURE_STATUSES",
    "OriginJudge",
    "Outcome",
    "OutcomeClassifier",
    "ProxyJudge",
    "judge_error",
    "judge_proxy",
    "judge_status",
]

FAILURE_STATUSES = frozenset({500, 502, 503, 504})
_TOO_MANY_REQUESTS = 429

_UNREACHED = frozenset({502, 503, 504})  # what a proxy says to CONNECT of an origin that is down


class Outcome(Enum):
    """What one call tells."""

    SUCCESS = "success"
    FAILURE = "failure"
    IGNORED = "ignored"
    PROXY_FAILURE = "proxy failure"


_SUCCESS, _IGNORED = Outcome.SUCCESS, Outcome.IGNORED  # a look-up in an Enum costs


def judge_status(status: int, failures: Container[int] = FAILURE_STATUSES) -> Outcome:
    """Return what a response says of its origin.

    Args:
        status: its status code.
        failures: the codes that are failures.
    """
    if status in failures:
        return Outcome.FAILURE
    return _IGNORED if status == _TOO_MANY_REQUESTS else _SUCCESS


def judge_error(
    error: BaseException, *, count_tls: bool = False, via_proxy: bool = False
) -> Outcome:
    """Return what an exception says of the origin, or of the proxy in between.

    Args:
        error: what the attempt raised, of any kind.
        count_tls: a certificate that is not trusted is a failure, too.
        via_proxy: there is a proxy in between.
    """
    if isinstance(error, e.ProxyError):
        return _judge_connect(error.connect_status)
    if isinstance(error, e.ConnectTimeout) and via_proxy and not _connected(error):
        return Outcome.PROXY_FAILURE
    return Outcome.FAILURE if _is_failure(error, count_tls) else Outcome.IGNORED


def judge_proxy(result: object) -> Outcome:
    """Return what a response or an exception says of the proxy that it came through.

    Args:
        result: what the attempt returned or raised.
    """
    if not isinstance(result, BaseException):
        return Outcome.SUCCESS
    if judge_error(result, via_proxy=True) is Outcome.PROXY_FAILURE:
        return Outcome.FAILURE
    return Outcome.IGNORED  # it may have come from anywhere behind the proxy


class OutcomeClassifier(Protocol):
    """How what came of an attempt looks for one of those that took part."""

    @property
    def notable(self) -> Container[int]:
        """Return the status codes that are no success."""

    def of_status(self, status: int) -> Outcome:
        """Return what a response says."""

    def of_error(self, error: BaseException) -> Outcome:
        """Return what an exception says."""


class OriginJudge:
    """For the origin.

    Args:
        failures: the codes that are failures.
        count_tls: see judge_error.
        via_proxy: see judge_error.
    """

    def __init__(self, failures: frozenset[int], *, count_tls: bool, via_proxy: bool) -> None:
        self._failures = failures
        self.notable: frozenset[int] = failures | {_TOO_MANY_REQUESTS}
        self._count_tls = count_tls
        self._via_proxy = via_proxy

    def of_status(self, status: int) -> Outcome:
        """Return what a response says."""
        return judge_status(status, self._failures)

    def of_error(self, error: BaseException) -> Outcome:
        """Return what an exception says."""
        return judge_error(error, count_tls=self._count_tls, via_proxy=self._via_proxy)


class ProxyJudge:
    """For the proxy."""

    notable: Container[int] = frozenset()

    def of_status(self, status: int) -> Outcome:
        """Return what a response says: it was let through."""
        return _SUCCESS

    def of_error(self, error: BaseException) -> Outcome:
        """Return what an exception says."""
        return judge_proxy(error)


def _judge_connect(status: int | None) -> Outcome:
    if status is None:
        return Outcome.PROXY_FAILURE
    # The proxy works, but one origin behind it does not: that must not close the way to all.
    return Outcome.FAILURE if status in _UNREACHED else Outcome.IGNORED


def _is_failure(error: BaseException, count_tls: bool) -> bool:
    if isinstance(error, e.SSLError):
        what = error.tls_failure
        return what == "handshake" or (count_tls and what == "untrusted")
    if isinstance(error, (e.BlockedAddress, e.CircuitBreakerOpen)):
        return False
    if isinstance(error, e.ConnectionError):  # with RemoteProtocolError and ConnectTimeout
        return not error.is_local
    return isinstance(error, (e.ReadTimeout, e.WriteTimeout, e.ChunkedEncodingError))


def _connected(error: e.RequestException) -> bool:
    """Return whether there was a TCP connection, to the proxy that is."""
    return error.timings is not None and error.timings.connect > 0
