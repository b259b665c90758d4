"""What is wrong with a response, or with what it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from curlhttp.exceptions._base import RequestException

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._models.inputs import ErrorFacts

__all__ = [
    "BaseHTTPError",
    "ChecksumMismatch",
    "ChunkedEncodingError",
    "ContentDecodingError",
    "HTTPError",
    "InvalidJSONError",
    "JSONDecodeError",
    "OAuth2Error",
    "ResponseTooLarge",
    "StreamConsumedError",
    "TooManyRedirects",
    "WebSocketClosed",
    "WebSocketRefused",
]


class HTTPError(RequestException):
    """Report a 4xx or 5xx status; raised by raise_for_status(), download() and sse()."""


class ChunkedEncodingError(RequestException):
    """Report a response body that ended early or whose framing broke."""


class BaseHTTPError(Exception):
    """Stand in for urllib3.exceptions.HTTPError, of which requests' ContentDecodingError is one."""


class ContentDecodingError(RequestException, BaseHTTPError):
    """Report a response body whose content coding is corrupt, cut or too deep."""


class ResponseTooLarge(RequestException):
    """Report a response body beyond max_response_size, or an event beyond max_event_size."""


class ChecksumMismatch(RequestException):
    """Report a download that is not the file that it should be; the old file is as it was.

    Attributes:
        expected: the checksum that was given, as "algorithm:hex".
        actual: the one that the file had.
    """

    def __init__(
        self, *args: object, expected: str = "", actual: str = "", **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(*args, **facts)
        self.expected = expected
        self.actual = actual


class InvalidJSONError(RequestException):
    """Report a value that JSON cannot express."""


class JSONDecodeError(InvalidJSONError, json.JSONDecodeError):
    """Report a response body that is not JSON."""

    def __init__(self, msg: str, doc: str, pos: int, **facts: Unpack[ErrorFacts]) -> None:
        json.JSONDecodeError.__init__(self, msg, doc, pos)
        InvalidJSONError.__init__(self, *self.args, **facts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_json, (type(self), self.msg, self.doc, self.pos, self._facts())


def _rebuild_json(
    cls: type[JSONDecodeError], msg: str, doc: str, pos: int, state: dict[str, object]
) -> JSONDecodeError:
    error = cls(msg, doc, pos)
    error.__dict__.update(state)
    return error


class OAuth2Error(RequestException):
    """Report that a token server gave no access token, or none that can be used (RFC 6749).

    Attributes:
        error: its code, such as "invalid_client" (section 5.2), or None.
        error_description: what it says of that, or None.
        error_uri: where there is more about it, or None.
        status_code: of its answer.
    """

    def __init__(
        self,
        *args: object,
        error: str | None = None,
        error_description: str | None = None,
        error_uri: str | None = None,
        status_code: int | None = None,
        **facts: Unpack[ErrorFacts],
    ) -> None:
        super().__init__(*args, **facts)
        self.error = error
        self.error_description = error_description
        self.error_uri = error_uri
        self.status_code = status_code


class TooManyRedirects(RequestException):
    """Report more redirects than max_redirects; .response is the last one."""


class StreamConsumedError(RequestException, TypeError):
    """Report a second pass over a streamed body."""


class WebSocketRefused(RequestException):
    """Report that the server did not open a WebSocket; .response is what it answered."""


class WebSocketClosed(RequestException):
    """Report that a WebSocket is closed; .response is that of its handshake.

    Attributes:
        code: the server's close code, else ours, else 1006 (RFC 6455, section 7.4).
        reason: the reason that belongs to it.
    """

    def __init__(
        self, *args: object, code: int = 1006, reason: str = "", **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(*args, **facts)
        self.code = code
        self.reason = reason
