"""The logger "curlhttp": collect the lines of a request, and log them when it ends.

They are logged in the caller's thread or task, because handlers are the user's code: they may
block, raise, or send requests, which libcurl's callbacks must not do. Requests that a handler sends
are not logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from itertools import count
from sys import modules
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from curlhttp._http.redaction import display_url, escape_bytes
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head
from curlhttp._http.timings import Timings
from curlhttp._runtime.race import is_beaten

if TYPE_CHECKING:
    from logging import Logger

ERROR, WARNING, INFO, DEBUG = 40, 30, 20, 10  # as in `logging`
WARN_AFTER, WARN_AGAIN = 5.0, 60.0  # seconds in which no slot became free
_KEY = "curlhttp.log"  # in the extensions of a request
_is_logging: ContextVar[bool] = ContextVar("curlhttp_is_logging", default=False)
_numbers = count(1)


class Source(Protocol):
    """Collects lines about one attempt."""

    def take(self) -> Iterable[str]:
        """Return the lines so far, and stop collecting."""


class Log:
    """The logger, looked up once `logging` is imported: before that, nobody has set a level.

    Attributes:
        is_enabled_for: returns whether lines of a level are logged. It is called for each request,
            because levels may change at any time. The logger's own method replaces it, which saves
            a call.
        masks: whether credentials are masked; only the command line's --show-secrets turns it off.
    """

    logger: Logger
    masks = True

    def __init__(self) -> None:
        self.is_enabled_for: Callable[[int], bool] = self._find_logger

    def _find_logger(self, level: int) -> bool:
        if "logging" not in modules:
            return False
        import logging

        self.logger = logging.getLogger("curlhttp")
        self.is_enabled_for = self.logger.isEnabledFor
        return self.is_enabled_for(level)

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning; see `write`."""
        self.write(WARNING, message, *arguments)

    def write(
        self, level: int, message: str, *arguments: object, error: BaseException | None = None
    ) -> None:
        """Log a line that is not one of a request; what handlers raise is printed.

        A warning is logged even if the program has not loaded `logging`, which then prints it.

        Args:
            level: as in `logging`.
            message: with placeholders.
            arguments: for them.
            error: whose traceback is logged as well.
        """
        if level >= WARNING:
            import logging
        if _is_logging.get() or not self.is_enabled_for(level):
            return
        import logging

        token = _is_logging.set(True)
        try:
            self.logger.log(level, message, *arguments, exc_info=error)
        except Exception:  # of a handler or a filter
            if logging.raiseExceptions:
                import traceback

                traceback.print_exc()
        finally:
            _is_logging.reset(token)


log = Log()


def get_request_log(request: ClientRequest) -> RequestLog | None:
    """Return the RequestLog that collects the DEBUG lines of a request, or None."""
    extensions = request.extensions
    found = None if extensions is None else extensions.get(_KEY)
    return found if isinstance(found, RequestLog) else None


class RequestLog:
    """Collect the lines of one request, and log them at the end of the `with` block.

    Args:
        request: sent within that block.
    """

    def __init__(self, request: ClientRequest) -> None:
        self._request = request
        self._sources: list[Source] = []
        self._response: tuple[Head, Timings] | None = None
        self._is_silent = _is_logging.get()
        self._is_debug = not self._is_silent and log.is_enabled_for(DEBUG)

    def __enter__(self) -> RequestLog:
        request = self._request
        self._had_extensions = request.extensions is not None
        if self._is_debug:
            if request.extensions is None:
                request.extensions = {}
            request.extensions[_KEY] = self
        return self

    def add(self, source: Source) -> None:
        """Also log the lines of a source, after those of earlier ones."""
        self._sources.append(source)

    def set_response(self, head: Head, timings: Timings, request: ClientRequest) -> None:
        """Set the response to log.

        Args:
            head: the head of the response.
            timings: the timings of the attempt that received it.
            request: the request of that attempt; with a hedge it is a copy.
        """
        self._response = head, timings
        _detach(request)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        _detach(self._request)
        if not self._had_extensions:
            # They may have other entries by now.
            self._request.extensions = self._request.extensions or None
        # A dropped coroutine ends in a finalizer, which must not call handlers: they take locks.
        if self._is_silent:
            return
        if isinstance(error, GeneratorExit) and not is_beaten(self._request, error):
            return
        token = _is_logging.set(True)
        try:
            self._log(error)
        except Exception:  # of a handler or a filter
            if modules["logging"].raiseExceptions:
                import traceback  # takes a millisecond to load

                traceback.print_exc()
        finally:
            _is_logging.reset(token)

    def _log(self, error: BaseException | None) -> None:
        logger, request = log.logger, self._request
        method, url = request.method, display_url(request.url)
        if self._is_debug:
            number = next(_numbers)
            logger.debug("#%d %s %s", number, method, url)
            for source in self._sources:
                for line in source.take():
                    logger.debug("#%d %s", number, line)
            if error is not None:
                # As text, because a handler that keeps records would keep the error's frames alive.
                logger.debug("#%d failed: %s: %s", number, type(error).__name__, str(error))
            elif self._response is not None:
                logger.debug("#%d times: %s", number, _format_timings(self._response[1]))
        if self._response is not None:
            head = self._response[0]
            reason = escape_bytes(head.reason_phrase.encode("latin-1", "replace"))
            logger.info(
                'HTTP Request: %s %s "%s %d%s"',
                method,
                url,
                head.http_version,
                head.status_code,
                reason and f" {reason}",
            )


def _detach(request: ClientRequest) -> None:
    if request.extensions is not None:
        request.extensions.pop(_KEY, None)


def _format_timings(timings: Timings) -> str:
    """Return the time of each phase as text, in seconds."""
    waits = [
        f"{name} {seconds:.6f} s, "
        for name in ("backoff", "limit", "rate")
        if (seconds := getattr(timings, name))
    ]
    first = f"{''.join(waits)}queue {timings.queue:.6f} s"
    if not timings.reused:
        first += f", dns {timings.dns:.6f} s, connect {timings.connect:.6f} s"
        first += f", tls {timings.tls:.6f} s"
    last = f"first byte after {timings.first_byte:.6f} s, total {timings.total:.6f} s"
    return f"{first}, {last}; {'reused' if timings.reused else 'new'} connection"
