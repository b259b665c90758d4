"""What a request to an app has in common, whichever interface the app has. It calls nothing."""

from __future__ import annotations

from time import monotonic

from curlhttp._curl.rejections import silence
from curlhttp._engine import Engine
from curlhttp._models.request import Request
from curlhttp._models.response import Head
from curlhttp._models.timings import Timings
from curlhttp.exceptions import DeadlineExceeded, RequestException

__all__ = ["ERROR", "AppCall"]

ERROR = b"Internal Server Error"  # what a failed app is answered with


class AppCall:
    """One request to an app.

    Args:
        request: complete.
        engine: reads the response.
        raises: what the app raises is raised to the caller.

    Attributes:
        request: see there.
        engine: see there.
        head: of the response, once some of the body is there.
        begun: when, in monotonic seconds.
        first_byte: seconds up to the head.
    """

    def __init__(self, request: Request, engine: Engine, *, raises: bool) -> None:
        self.request = request
        self.engine = engine
        self.head: Head | None = None
        self.begun: float = monotonic()
        self.first_byte: float = 0.0
        self._raises = raises
        self._total = 0.0

    def begin_answer(self, head: Head | None) -> None:
        """Take down the head, and when it was there.

        Args:
            head: of the response.
        """
        self.head = head
        self.first_byte = monotonic() - self.begun

    def check_time(self, since: float, early: float = 0.0) -> None:
        """Raise what a timeout ends the call with, if one has run out.

        Args:
            since: when the app was heard of last, in monotonic seconds.
            early: seconds that a timer may be.

        Raises:
            RequestException: it has.
        """
        self.check_deadline()
        read = self.request.timeout.read
        if read is not None and monotonic() - since > read - early:
            raise silence(self.request, has_head=self.head is not None)

    def check_deadline(self) -> None:
        """Raise what the total ends the call with, if it has run out.

        Raises:
            DeadlineExceeded: it has.
        """
        request = self.request
        if request.is_late(monotonic()):
            raise DeadlineExceeded(f"{request}: the total of {request.timeout.total} s ran out")

    def told(self, error: BaseException) -> BaseException:
        """Return an error that says what it is about."""
        if isinstance(error, RequestException) and error.timings is None:
            error.request, error.request_sent, error.timings = self.request, True, self.timings()
        return error

    def timings(self) -> Timings:
        """Return the times up to the first byte, and to the end."""
        total = self._total or monotonic() - self.begun
        return Timings(0.0, 0.0, 0.0, 0.0, self.first_byte, total, False, None)

    def certificate(self) -> None:
        """Return None: there was no TLS."""
