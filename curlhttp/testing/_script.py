"""What a script is made of: answers, and the ways in which there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._models.headers import Headers
from curlhttp._models.request import Request
from curlhttp.exceptions import (
    ConnectionError,
    ConnectTimeout,
    RequestException,
    SSLError,
    WriteTimeout,
)

if TYPE_CHECKING:
    from curlhttp._models.inputs import JSON, HeadersInput

__all__ = [
    "Answer",
    "Fault",
    "Script",
    "Step",
    "as_step",
    "refused",
    "reset",
    "silent",
    "stream_refused",
    "unreachable",
    "unread",
    "unresolved",
    "untrusted",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request.

    What takes longer than the request's timeouts ends as they end it, on the engine's clock.

    Args:
        status_code: of three digits.
        headers: a mapping or pairs.
        content: the body, or its pieces as a streamed response gives them; str is sent as UTF-8.
        json: the body as JSON, in place of content; None is no body.
        delay: seconds until the head is in; math.inf for a server that never answers.
        pace: seconds before each piece of the body.
        error: what breaks the body off after the content.
    """

    status_code: int = 200
    headers: HeadersInput | None = None
    content: bytes | str | Sequence[bytes] = b""
    delay: float = 0.0
    pace: float = 0.0
    error: RequestException | None = None
    json: JSON = None

    def __post_init__(self) -> None:
        if self.json is not None and self.content:
            raise TypeError("content cannot go together with json")

    @property
    def all_headers(self) -> Headers:
        """Return the headers; with a Content-Type where the body is JSON and they have none."""
        headers = Headers(self.headers)
        if self.json is not None:
            headers.setdefault("Content-Type", "application/json")
        return headers

    @property
    def pieces(self) -> list[bytes]:
        """Return the body's pieces, none of them empty."""
        if self.json is not None:
            return [dumps(self.json).encode()]
        content = self.content.encode() if isinstance(self.content, str) else self.content
        return [piece for piece in ([content] if isinstance(content, bytes) else content) if piece]


@dataclass(frozen=True, slots=True)
class Fault:
    """Fail a request.

    Args:
        error: what is raised: a copy of it, with the request filled in. Its request_sent says
            whether the request left this machine: without that it is not among those that arrived.
        delay: seconds until then; math.inf for the time that it may take to connect or, with a
            WriteTimeout, to send.
    """

    error: RequestException
    delay: float = 0.0


Step: TypeAlias = "Answer | Fault | RequestException | int"
"""One step of a script; a number is the status of an answer without a body."""

Script: TypeAlias = "Iterable[Step] | Callable[[Request], Step]"


def as_step(step: Step) -> Answer | Fault:
    """Return the step that a number or an exception stands for.

    Raises:
        TypeError: it is no step.
    """
    if isinstance(step, int):
        return Answer(step)
    if isinstance(step, RequestException):
        return Fault(step)
    if not isinstance(step, (Answer, Fault)):
        raise TypeError(f"a step is an Answer, a Fault, a RequestException or a status: {step!r}")
    return step


def refused() -> Fault:
    """Return a connection that is refused: the request is not sent."""
    return Fault(ConnectionError("the connection was refused", curl_code=7))


def unresolved() -> Fault:
    """Return a host name that leads nowhere: the request is not sent."""
    return Fault(ConnectionError("the host name could not be resolved", curl_code=6))


def unreachable() -> Fault:
    """Return a host that does not react, until the connect timeout: the request is not sent."""
    return Fault(ConnectTimeout("no connection in time", curl_code=28), delay=math.inf)


def reset() -> Fault:
    """Return a connection that breaks before the answer: the request may have been processed."""
    broken = ConnectionError(
        "the connection broke before the answer was complete", curl_code=56, request_sent=True
    )
    return Fault(broken)


def stream_refused() -> Fault:
    """Return HTTP/2's REFUSED_STREAM: the request was sent, and not processed."""
    error = ConnectionError(
        "the server refused the request unprocessed", curl_code=42, request_sent=True
    )
    error.refused = True
    return Fault(error)


def untrusted() -> Fault:
    """Return a certificate that does not hold: the request is not sent."""
    error = SSLError("TLS failed; check the certificate", curl_code=60)
    error.tls_failure = "untrusted"
    return Fault(error)


def silent() -> Answer:
    """Return a server that takes the request and never answers, until the read timeout."""
    return Answer(delay=math.inf)


def unread() -> Fault:
    """Return a server that stops reading the body, until the write timeout.

    Where the request has no body or no write timeout, it is silent until the read timeout.
    """
    error = WriteTimeout("no byte of the body went out in time", curl_code=28, request_sent=True)
    return Fault(error, delay=math.inf)
