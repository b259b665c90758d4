"""Turn errors into one line on stderr and an exit status, which is curl's if curl has one.

For an unknown option, suggest the option that was probably meant.
"""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from curlhttp import exceptions as e
from curlhttp.cli.terminal import printable

INTERRUPTED = 130  # 128 plus the number of SIGINT, as in shells
_USAGE = 2
READ_ERROR = 26
WRITE_ERROR = 23
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))  # Windows may lack it
# What to write here for an option of curl or httpie.
_INSTEAD = {
    **dict.fromkeys(("-a", "--auth"), "write -u NAME:PASSWORD"),
    **dict.fromkeys(("--auth-type",), "write --digest, --negotiate or --oauth2-bearer TOKEN"),
    **dict.fromkeys(
        ("--next", "-Z", "--parallel"), "a command sends one request; `curlhttp fetch` sends many"
    ),
    **dict.fromkeys(
        ("--retry-delay", "--retry-max-time"), "--max-time limits all attempts and the waits"
    ),
    "--check-status": "write --fail-with-body",
    "--headers": "write -i, or --print h",
    "--meta": "write --print m",
    "--raw": "write --data-raw or --json-body",
    "--verify": "write --cacert FILE, or -k to verify nothing",
    **dict.fromkeys(("-z", "--time-cond"), "write -H 'If-Modified-Since: ...'"),
}
# What the library's messages say about its arguments, and what the command line says instead.
HINTS = {
    "pass the path of a file or folder as verify=": "pass the path of a file with --cacert",
    "pass the path of their file as verify=": "pass the path of their file with --cacert",
    "pass curlhttp.Proxy(url=..., verify=...)": "pass --proxy-cacert, or --proxy-insecure",
    "pass curlhttp.Proxy(url=..., cert=...)": "pass --proxy-cert",
    "pass verify= or cert=": "pass --cacert or --cert, or -k to verify nothing",
    "pass cert=": "pass --cert",
    "(cert=)": "(--cert)",
    "timeout too short: timeout=Timeout(connect=...)": "timeout too short: --connect-timeout",
    "raise timeout=Timeout(read=...)": "raise --timeout",
    "raise timeout=Timeout(attempt=...)": "raise --max-time",
    "change timeout=Timeout(min_speed=...)": "change --speed-limit",
    "raise timeout=Timeout(write=...)": "raise --timeout",
    "max_response_size=": "--max-body ",
    "max_redirects= of the client sets the limit": "--max-redirs sets the limit",
    "doh must be": "--doh-url must be",
    "robots must be": "--robots must be",
    "robots= needs": "--robots needs",
    "local_address must be": "--interface must be",
    "a relative URL needs a client with a base_url, such as "
    "Client(base_url='https://example.com')": "write a whole URL, such as https://example.com",
}
_MIN_SIMILARITY = 0.82  # of a suggested option: one wrong letter of six

# See "EXIT CODES" in curl's manual page. The first match counts: subclasses before their bases.
_STATUSES: tuple[tuple[type[e.RequestException], int], ...] = (
    (e.InvalidProxyURL, 5),
    (e.InvalidSchema, 1),
    (e.InvalidURL, 3),
    (e.MissingSchema, 3),
    (e.URLRequired, 3),
    (e.InvalidHeader, _USAGE),
    (e.InvalidMethod, _USAGE),
    (e.InvalidJSONError, _USAGE),
    (e.HTTPError, 22),
    (e.TooManyRedirects, 47),
    (e.Timeout, 28),
    (e.SSLError, 35),
    (e.ProxyError, 97),
    (e.RemoteProtocolError, 8),
    (e.ConnectionError, 7),
    (e.ChunkedEncodingError, 18),
    (e.ContentDecodingError, 61),
    (e.ResponseTooLarge, 63),
    (e.UnrewindableBodyError, 65),
)


class Terminated(KeyboardInterrupt):
    """Raised for SIGTERM, with which service managers and containers end a program."""


def describe_interrupt(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    """Return what ended the command, and its exit status.

    Args:
        interrupt: raised by a signal handler.
    """
    if isinstance(interrupt, Terminated):
        return "terminated", 128 + signal.SIGTERM
    return "interrupted", INTERRUPTED


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raise Terminated on SIGTERM in this block, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


class CommandFailed(Exception):
    """Raised to end a command with an exit status and, unless it is empty, one line on stderr."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    def show(self) -> None:
        """Print the line on stderr."""
        message = printable(translate(str(self)))
        if message:
            click.echo(f"curlhttp: {message}", err=True)


def _get_exit_status(error: e.RequestException) -> int:
    """Return curl's exit code for an error: its libcurl code if it has one, else by its type."""
    if error.curl_code and not isinstance(error, e.Timeout):
        return error.curl_code
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 1)


def translate(message: str) -> str:
    """Return a message of the library with options instead of names of arguments."""
    for argument, option in HINTS.items():
        message = message.replace(argument, option)
    return message


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn the errors of opening and reading a text file into a CommandFailed that names it."""
    try:
        yield
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
    except ValueError:  # a UnicodeDecodeError, or a NUL in the path
        raise CommandFailed(f"{path}: the file is not UTF-8", READ_ERROR) from None


@contextmanager
def needing_package(prefix: str = "") -> Iterator[None]:
    """Turn the error of a package that is not installed, which names it, into a CommandFailed."""
    try:
        yield
    except ImportError as error:
        raise CommandFailed(f"{prefix}{error}", _USAGE) from None


def to_failure(error: Exception) -> CommandFailed | None:
    """Return the message and exit status for an error, or None if it is a bug in curlhttp."""
    if isinstance(error, CommandFailed):
        return error
    if isinstance(error, e.RequestException):
        return CommandFailed(str(error), _get_exit_status(error))
    if isinstance(error, UnicodeEncodeError):
        text = error.object[error.start : error.end]
        return CommandFailed(f"{text!r} cannot be encoded, so it cannot be sent or written", _USAGE)
    if isinstance(error, BrokenPipeError):  # the reader, such as `head`, closed the pipe
        return CommandFailed("", WRITE_ERROR)
    if isinstance(error, OSError):
        # Who writes a file names it, so a full disk without a name is behind stdout.
        name = error.filename or ("stdout" if error.errno in _FULL else "")
        where = f"{name}: " if name else ""
        return CommandFailed(f"{where}{error.strerror or error}", WRITE_ERROR)
    return None


def improve_suggestions(error: click.ClickException) -> click.ClickException:
    """Suggest what to write for an option of curl or httpie, or one that is spelled almost alike.

    click compares loosely, and includes the dashes: it suggests --retry for curl's --create-dirs.
    """
    if not isinstance(error, click.NoSuchOption):
        return error
    if (instead := _INSTEAD.get(error.option_name)) is not None:
        return click.UsageError(f"No such option {error.option_name!r}: {instead}", ctx=error.ctx)
    from difflib import SequenceMatcher

    compare = SequenceMatcher(b=error.option_name.lstrip("-"))
    similar = []
    for option in error.possibilities or ():
        compare.set_seq1(option.lstrip("-"))
        if compare.ratio() >= _MIN_SIMILARITY:
            similar.append(option)
    return click.NoSuchOption(error.option_name, possibilities=similar, ctx=error.ctx)
