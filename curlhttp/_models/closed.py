"""The exceptions for the use of what was closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curlhttp.exceptions import ClientClosed, StreamConsumedError

if TYPE_CHECKING:
    from curlhttp._models.request import Request

__all__ = ["client_closed", "closed_amid", "closed_with_client"]


def client_closed(request: Request | None = None) -> ClientClosed:
    """Return the exception for the use of a client after close().

    Args:
        request: what was asked of it, if that is known.
    """
    return ClientClosed("this client was closed; make a new one", request=request)


def closed_with_client() -> ClientClosed:
    """Return the exception for the use of a connection whose client was closed."""
    return ClientClosed("the client was closed, and this connection with it")


def closed_amid(request: Request | None) -> StreamConsumedError:
    """Return the exception for a body that was closed while it was being read.

    Args:
        request: what the response answers.
    """
    return StreamConsumedError("this response was closed while it was read", request=request)
