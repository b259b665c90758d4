"""Errors that several modules raise, for use after close() and for pickling; notes on errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from curlhttp.exceptions import ClientClosed, StreamConsumedError

if TYPE_CHECKING:
    from curlhttp._models.request import ClientRequest


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
