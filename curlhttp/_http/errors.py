"""Errors that several modules raise: wrong settings, timeouts, closed clients, pickling; notes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, NoReturn, cast

from curlhttp.exceptions import (
    ClientClosed,
    DeadlineExceeded,
    ReadTimeout,
    StreamConsumedError,
    UnrewindableBodyError,
)

if TYPE_CHECKING:
    from curlhttp._http.request import ClientRequest

_HUGE = 2**31 - 1  # bounds from here on are libcurl's, and not shown


def check_number(
    name: str,
    value: object,
    *,
    least: float = 0,
    above: float | None = None,
    most: float = math.inf,
    whole: bool = False,
    unit: str = "",
    optional: bool = False,
) -> None:
    """Check the value of a setting that is a finite number.

    Args:
        name: of the setting.
        value: its value.
        least: the least allowed value.
        above: allow only greater values than this, instead of `least`.
        most: the greatest allowed value.
        whole: allow only whole numbers.
        unit: of the number, in the plural.
        optional: allow None.

    Raises:
        TypeError: it is not a number.
        ValueError: it is out of range, infinite or NaN.
    """
    if value is None and optional:
        return
    is_whole = _is_whole(value)
    is_number = is_whole or isinstance(value, float)
    if is_whole or (is_number and not whole):
        number = cast(float, value)
        is_low = number < least if above is None else number <= above
        if not is_low and number <= most and number < math.inf:  # NaN is not
            return
    shown = f"a {'whole ' if whole else 'finite ' if value == math.inf else ''}number"
    shown += f" of {unit}" if unit else ""
    has_most = most < _HUGE
    if above is not None:
        shown += f" above {above}{f' and at most {most}' if has_most else ''}"
    else:
        shown += f" from {least} {f'to {most}' if has_most else 'on'}"
    error = ValueError if is_number else TypeError
    raise error(f"{name} must be {shown}{', or None' * optional}, not {value!r:.100}")


def _is_whole(value: object) -> bool:
    kind = type(value)  # of numpy, perhaps
    return kind is int or (kind is not bool and hasattr(kind, "__index__"))


def check_flags(**flags: object) -> None:
    """Check settings that are True or False, by name.

    Raises:
        TypeError: one of them is something else, such as a text.
    """
    for name, value in flags.items():
        if value is not True and value is not False:
            raise TypeError(f"{name} must be True or False, not {value!r:.100}")


def validate_path(name: str, path: object) -> str:
    """Return the path of a file.

    Raises:
        TypeError: it is neither a str nor an os.PathLike.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or an os.PathLike, not {path!r:.100}")
    return os.fspath(path)


def validate_statuses(name: str, statuses: object) -> frozenset[int]:
    """Return the status codes of a setting.

    Raises:
        TypeError: it is not a collection of whole numbers.
        ValueError: a number is not a status code.
    """
    example = f"{name} must be a list of status codes, such as [502, 503]"
    # Not a text, of which each letter would count as one.
    if isinstance(statuses, (str, bytes)) or not isinstance(statuses, Iterable):
        raise TypeError(f"{example}, not {statuses!r:.100}")
    found = tuple(statuses)
    for status in found:
        if not _is_whole(status):
            raise TypeError(f"{example}, not of {type(status).__name__}")
        if not 100 <= cast(int, status) <= 999:
            raise ValueError(f"{example}, but {status!r} is none")
    return frozenset(found)


def check_object(name: str, value: object, attribute: str, example: str) -> None:
    """Check that the value of a setting is an object of the right kind, or None.

    Args:
        name: of the setting.
        value: its value.
        attribute: what all such objects have.
        example: an expression for one.

    Raises:
        TypeError: it is something else, such as a number, or the class instead of an instance.
    """
    if value is not None and (isinstance(value, type) or not hasattr(value, attribute)):
        kind = example.partition("(")[0]
        raise TypeError(f"{name} must be a {kind}, such as {example}, not {value!r:.100}")


def read_timeout_error(request: ClientRequest, *, has_head: bool) -> ReadTimeout:
    """Return the exception for a server that was silent for longer than the read timeout.

    Args:
        request: sent to the server.
        has_head: the head of the response has arrived.
    """
    what = "within the response body" if has_head else "after the request"
    return ReadTimeout(
        f"{request}: the server was silent for "
        f"{request.timeout.read} s {what}; it may be slow, or raise timeout=Timeout(read=...)",
        request=request,
        curl_code=28,  # CURLE_OPERATION_TIMEDOUT
        request_sent=True,
    )


def unrewindable_error(
    request: ClientRequest, error: UnrewindableBodyError
) -> UnrewindableBodyError:
    """Return the exception for a request whose body cannot be sent again, with its name."""
    return UnrewindableBodyError(f"{request}: {error}", request=request)


def deadline_error(request: ClientRequest, *, was_sent: bool) -> DeadlineExceeded:
    """Return the exception for a request whose total timeout has run out.

    Args:
        request: see there.
        was_sent: whatever answers it may have received it.
    """
    return DeadlineExceeded(
        f"{request}: the total timeout of {request.timeout.total} s ran out",
        request=request,
        request_sent=was_sent,
    )


def client_closed(request: ClientRequest | None = None) -> ClientClosed:
    """Return the error for using a client after close().

    Args:
        request: the request that it was used for, if known.
    """
    return ClientClosed("this client was closed; make a new one", request=request)


def closed_with_client() -> ClientClosed:
    """Return the error for using a connection whose client was closed."""
    return ClientClosed("the client was closed, and this connection with it")


def closed_while_reading(request: ClientRequest | None) -> StreamConsumedError:
    """Return the error for a response that was closed while its body was being read.

    Args:
        request: the request of that response.
    """
    return StreamConsumedError("this response was closed while it was read", request=request)


class Unpicklable:
    """Refuse to be pickled or copied, with an error that says why and what to do."""

    __slots__ = ()

    _why_not: ClassVar[str] = "it holds connections; make a new one where it is needed"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied: {self._why_not}")


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, as BaseException.add_note does, on Python 3.10 too.

    Args:
        error: its traceback shows the note.
        note: the text.
    """
    error.__dict__.setdefault("__notes__", []).append(note)


# --- Describe error numbers of the system ---

# Windows gives sockets numbers of their own (winsock2.h), which strerror does not know. Their texts
# are here because Windows has them in its own language.
_WINDOWS_ERRORS = {
    10004: "Interrupted function call (WSAEINTR)",
    10013: "Permission denied (WSAEACCES)",
    10022: "Invalid argument (WSAEINVAL)",
    10024: "Too many open sockets (WSAEMFILE)",
    10035: "The operation would block (WSAEWOULDBLOCK)",
    10047: "Address family not supported (WSAEAFNOSUPPORT)",
    10048: "Address already in use (WSAEADDRINUSE)",
    10049: "Cannot assign requested address (WSAEADDRNOTAVAIL)",
    10050: "Network is down (WSAENETDOWN)",
    10051: "Network is unreachable (WSAENETUNREACH)",
    10052: "Network dropped connection on reset (WSAENETRESET)",
    10053: "Software caused connection abort (WSAECONNABORTED)",
    10054: "Connection reset by peer (WSAECONNRESET)",
    10055: "No buffer space available (WSAENOBUFS)",
    10057: "Socket is not connected (WSAENOTCONN)",
    10060: "Connection timed out (WSAETIMEDOUT)",
    10061: "Connection refused (WSAECONNREFUSED)",
    10064: "Host is down (WSAEHOSTDOWN)",
    10065: "No route to host (WSAEHOSTUNREACH)",
}


def describe_errno(number: int) -> str:
    """Return the text for an error number of the system, such as errno.ECONNREFUSED."""
    if number >= 10000:  # of Windows
        return _WINDOWS_ERRORS.get(number, f"Windows socket error {number}")
    return os.strerror(number)
