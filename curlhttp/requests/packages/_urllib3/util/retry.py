"""urllib3.util.retry: how often to try again, after what, and how long to wait before."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import Any, ClassVar, NamedTuple

from curlhttp import exceptions as ours
from curlhttp.requests.packages._urllib3 import exceptions as theirs

__all__ = ["RequestHistory", "Retry"]


class RequestHistory(NamedTuple):
    """Say what became of one attempt."""

    method: str | None
    url: str | None
    error: Exception | None
    status: int | None
    redirect_location: str | None


class Retry:
    """Count attempts, each kind on its own; every new attempt gives a new Retry.

    A count of None leaves the kind to the total; False raises its errors as they are.

    Args:
        total: attempts of all kinds together, beyond the first.
        connect: after connections that could not be made; nothing was sent then.
        read: after the request was sent.
        redirect: redirects.
        status: after a status of status_forcelist.
        other: after any other error.
        allowed_methods: those to send again once they were sent; None for any.
        status_forcelist: statuses that call for another attempt.
        backoff_factor: the wait before attempt n is this times 2 ** (n - 1), none before the first.
        backoff_max: no wait is longer, in seconds.
        raise_on_redirect: raise when there are too many redirects, or return the last.
        raise_on_status: raise when there are too many bad statuses, or return the last.
        history: the attempts so far.
        respect_retry_after_header: wait as long as Retry-After says.
        remove_headers_on_redirect: not to send to another host.
        backoff_jitter: a random addition to each wait, up to this.
        retry_after_max: the longest Retry-After to follow, in seconds.
    """

    DEFAULT_ALLOWED_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})
    RETRY_AFTER_STATUS_CODES = frozenset({413, 429, 503})
    DEFAULT_REMOVE_HEADERS_ON_REDIRECT = frozenset(
        {"Cookie", "Authorization", "Proxy-Authorization"}
    )
    DEFAULT_BACKOFF_MAX = 120
    DEFAULT_RETRY_AFTER_MAX = 21600
    DEFAULT: ClassVar[Retry]

    def __init__(
        self,
        total: bool | int | None = 10,
        connect: int | None = None,
        read: int | None = None,
        redirect: bool | int | None = None,
        status: int | None = None,
        other: int | None = None,
        allowed_methods: Collection[str] | None = DEFAULT_ALLOWED_METHODS,
        status_forcelist: Collection[int] | None = None,
        backoff_factor: float = 0,
        backoff_max: float = DEFAULT_BACKOFF_MAX,
        raise_on_redirect: bool = True,
        raise_on_status: bool = True,
        history: tuple[RequestHistory, ...] | None = None,
        respect_retry_after_header: bool = True,
        remove_headers_on_redirect: Collection[str] = DEFAULT_REMOVE_HEADERS_ON_REDIRECT,
        backoff_jitter: float = 0.0,
        retry_after_max: int = DEFAULT_RETRY_AFTER_MAX,
    ) -> None:
        if redirect is False or total is False:
            redirect, raise_on_redirect = 0, False
        self.total = total
        self.connect = connect
        self.read = read
        self.status = status
        self.other = other
        self.redirect = redirect
        self.status_forcelist = status_forcelist or set()
        self.allowed_methods = allowed_methods
        self.backoff_factor = backoff_factor
        self.backoff_max = backoff_max
        self.retry_after_max = retry_after_max
        self.raise_on_redirect = raise_on_redirect
        self.raise_on_status = raise_on_status
        self.history = history or ()
        self.respect_retry_after_header = respect_retry_after_header
        self.remove_headers_on_redirect = frozenset(
            name.lower() for name in remove_headers_on_redirect
        )
        self.backoff_jitter = backoff_jitter

    def new(self, **kw: Any) -> Any:
        """Return a Retry like this one, but for some of the arguments."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return type(self)(**{**settings, **kw})

    @classmethod
    def from_int(
        cls, retries: Any, redirect: bool | int | None = True, default: Any = None
    ) -> Retry:
        """Return the Retry that a number, a Retry or None stands for.

        Args:
            retries: a Retry is returned as it is.
            redirect: False to leave redirects alone.
            default: what None stands for.
        """
        if retries is None:
            retries = cls.DEFAULT if default is None else default
        if isinstance(retries, Retry):
            return retries
        return cls(retries, redirect=None if redirect else False)

    # --- how long to wait ---

    def get_backoff_time(self) -> float:
        """Return how many seconds to wait for the number of attempts so far."""
        failures = 0
        for attempt in reversed(self.history):
            if attempt.redirect_location is not None:
                break
            failures += 1
        if failures <= 1:
            return 0
        seconds: float = self.backoff_factor * 2 ** (failures - 1)
        if self.backoff_jitter:
            import random

            seconds += random.random() * self.backoff_jitter
        return float(max(0, min(self.backoff_max, seconds)))

    def parse_retry_after(self, retry_after: str) -> float:
        """Return how many seconds a Retry-After asks for, within retry_after_max.

        Raises:
            InvalidHeader: it is neither a number of seconds nor a date.
        """
        seconds: float
        if re.fullmatch(r"\s*[0-9]+\s*", retry_after):
            seconds = int(retry_after)
        else:
            from email.utils import mktime_tz, parsedate_tz

            date = parsedate_tz(retry_after)
            if date is None:
                raise theirs.InvalidHeader(f"Invalid Retry-After header: {retry_after}")
            seconds = mktime_tz(date) - time.time()
        return max(0, min(seconds, self.retry_after_max))

    def get_retry_after(self, response: Any) -> float | None:
        """Return how many seconds a response asks to wait, or None."""
        retry_after = response.headers.get("Retry-After")
        return None if retry_after is None else self.parse_retry_after(retry_after)

    def sleep_for_retry(self, response: Any) -> bool:
        """Wait as long as a response asks for, and tell whether it did."""
        seconds = self.get_retry_after(response)
        if seconds:
            time.sleep(seconds)
        return bool(seconds)

    def _sleep_backoff(self) -> None:
        seconds = self.get_backoff_time()
        if seconds > 0:
            time.sleep(seconds)

    def sleep(self, response: Any = None) -> None:
        """Wait before the next attempt.

        Args:
            response: the answer to the last one; its Retry-After comes first.
        """
        if self.respect_retry_after_header and response and self.sleep_for_retry(response):
            return
        self._sleep_backoff()

    # --- whether to try again ---

    def _is_connection_error(self, err: Exception) -> bool:
        if isinstance(err, theirs.ProxyError):
            err = err.original_error
        if isinstance(err, ours.ConnectionError):
            return not err.request_sent and not isinstance(err, _HOPELESS)
        return isinstance(err, theirs.ConnectTimeoutError)

    def _is_read_error(self, err: Exception) -> bool:
        if isinstance(err, ours.ConnectionError):
            return err.request_sent and not isinstance(err, (*_HOPELESS, ours.ProxyError))
        return isinstance(
            err,
            (
                theirs.ReadTimeoutError,
                theirs.ProtocolError,
                ours.ReadTimeout,
                ours.ChunkedEncodingError,
            ),
        )

    def _is_method_retryable(self, method: str) -> bool:
        return not self.allowed_methods or method.upper() in self.allowed_methods

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Tell whether an answer calls for another attempt.

        Args:
            method: of the request.
            status_code: of the response.
            has_retry_after: the response has that field.
        """
        if not self._is_method_retryable(method):
            return False
        if status_code in self.status_forcelist:
            return True
        return bool(
            self.total
            and self.respect_retry_after_header
            and has_retry_after
            and status_code in self.RETRY_AFTER_STATUS_CODES
        )

    def is_exhausted(self) -> bool:
        """Tell whether any count is below zero."""
        counts = (self.total, self.connect, self.read, self.redirect, self.status, self.other)
        return any(count is not None and count < 0 for count in counts)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: Any = None,
    ) -> Any:
        """Return the Retry for the next attempt.

        Args:
            method: of the request.
            url: of the request.
            response: the answer, if there was one.
            error: why there was none.

        Raises:
            MaxRetryError: there are no attempts left.
            Exception: the error itself, where errors of its kind are not to be tried again.
        """
        if error is not None and self.total is False:
            raise error.with_traceback(_stacktrace or error.__traceback__)
        cause, status, location = "unknown", None, None
        if error is not None:
            kind = self._kind_of(error)
            is_final = {
                "connect": self.connect is False,
                "read": self.read is False
                or method is None
                or not self._is_method_retryable(method),
            }
            if is_final.get(kind):
                raise error.with_traceback(_stacktrace or error.__traceback__)
        elif response and (location := response.get_redirect_location() or None):
            kind, cause, status = "redirect", "too many redirects", response.status
        else:
            kind, cause = "status", theirs.ResponseError.GENERIC_ERROR
            if response and response.status:
                status = response.status
                cause = theirs.ResponseError.SPECIFIC_ERROR.format(status_code=status)
            else:
                kind = ""
        fewer = {
            name: count - 1
            for name in ("total", kind)
            if name and (count := getattr(self, name)) is not None
        }
        attempt = RequestHistory(method, url, error, status, location)
        following = self.new(**fewer, history=(*self.history, attempt))
        if following.is_exhausted():
            reason = error or theirs.ResponseError(cause)
            raise theirs.MaxRetryError(_pool, url, reason) from reason
        return following

    def _kind_of(self, error: Exception) -> str:
        if self._is_connection_error(error):
            return "connect"
        return "read" if self._is_read_error(error) else "other"

    def __repr__(self) -> str:
        counts = ("total", "connect", "read", "redirect", "status")
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in counts)
        return f"{type(self).__name__}({shown})"


_SETTINGS = (
    "total", "connect", "read", "redirect", "status", "other", "allowed_methods",
    "status_forcelist", "backoff_factor", "backoff_max", "raise_on_redirect", "raise_on_status",
    "history", "remove_headers_on_redirect", "respect_retry_after_header", "backoff_jitter",
    "retry_after_max",
)  # fmt: skip

# Neither is about the network: trying again gives the same.
_HOPELESS = (ours.SSLError, ours.BlockedAddress, ours.CircuitBreakerOpen)

Retry.DEFAULT = Retry(3)
