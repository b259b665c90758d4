"""What is said where descriptors are lacking: libcurl and pycurl have no word for it.

A connection takes a socket, the look-up of its name some files, TLS that of the authorities.
libcurl reports the failure of each as if the host, its name or the file were to blame.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pycurl

from curlhttp.exceptions import ConnectionError, RequestException, SSLError

if TYPE_CHECKING:
    from curlhttp._models.request import Request

__all__ = ["named_lack", "naming_lack"]

_LACKS = (errno.EMFILE, errno.ENFILE)
_TAKES = 4  # files that a request may have had open when it failed, and has closed by now
_OF_FILES = frozenset({pycurl.E_SSL_CERTPROBLEM, pycurl.E_SSL_CACERT_BADFILE})
# What libcurl makes of a socket, a thread, a name or a file that it did not get.
_SUSPICIOUS = _OF_FILES | {
    pycurl.E_FAILED_INIT,
    pycurl.E_COULDNT_RESOLVE_PROXY,
    pycurl.E_COULDNT_RESOLVE_HOST,
    pycurl.E_COULDNT_CONNECT,
    pycurl.E_OUT_OF_MEMORY,
}


def _lack() -> str:
    """Return why no more files can be opened, "" where they can."""
    opened: list[int] = []
    try:
        while len(opened) < _TAKES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno in _LACKS:
            return _in_words(error.errno, len(opened))
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return ""


def _in_words(number: int | None, left: int) -> str:
    words = f"{left or 'no'} file descriptor{'' if left == 1 else 's'} left: "
    if number == errno.ENFILE:
        return f"{words}the system has too many open files"
    try:
        import resource
    except ImportError:
        return f"{words}the process has too many open files"
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"{words}the process has too many open files, and may have {limit} (ulimit -n)"


def named_lack(
    request: Request, code: int, message: str, os_errno: int
) -> ConnectionError | SSLError | None:
    """Return the exception for an attempt that failed for lack of descriptors, None for others.

    Args:
        request: what was to be sent.
        code: libcurl's; the attempt has just ended.
        message: libcurl's words for it.
        os_errno: what the system said of connecting, 0 where no socket was there for it.
    """
    was_refused = code == pycurl.E_COULDNT_CONNECT and os_errno not in (0, *_LACKS)
    if code not in _SUSPICIOUS or was_refused:
        return None
    lack = _lack()
    if not lack:
        return None
    error = (SSLError if code in _OF_FILES else ConnectionError)(
        f"{request}: the connection could not be made, with {lack} (curl error {code}: {message})",
        curl_code=code,
    )
    error.is_local = True
    return error


@contextmanager
def naming_lack() -> Iterator[None]:
    """Turn what is raised where something of the system could not be had into our exception.

    Raises:
        ConnectionError: names the lack, if there is one.
    """
    try:
        yield
    except RequestException:
        raise
    except (OSError, pycurl.error) as error:
        lacking = ConnectionError(f"no connection can be made: {_lack() or error}")
        lacking.is_local = True
        raise lacking from error
