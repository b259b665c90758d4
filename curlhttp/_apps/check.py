"""Which kind an app is, as far as it shows, for errors that say what to use."""

from __future__ import annotations

import inspect

__all__ = ["check_asgi", "check_wsgi"]

_ASGI = "it is an ASGI app: use AsyncClient(transport=curlhttp.ASGITransport(app))"
_WSGI = "it is a WSGI app: use Client(transport=curlhttp.WSGITransport(app))"


def check_asgi(app: object) -> None:
    """Look whether an app may be one of ASGI 3.

    Raises:
        TypeError: it is none.
    """
    if not callable(app):
        raise TypeError(f"an ASGI app is called with scope, receive and send: {app!r} is not")
    if _takes(app) == 2 and not _is_async(app):
        raise TypeError(f"{app!r} takes two arguments, environ and start_response: {_WSGI}")


def check_wsgi(app: object) -> None:
    """Look whether an app may be one of WSGI.

    Raises:
        TypeError: it is none.
    """
    if not callable(app):
        raise TypeError(f"a WSGI app is called with environ and start_response: {app!r} is not")
    if _is_async(app) or _takes(app) == 3:
        raise TypeError(f"{app!r} takes scope, receive and send: {_ASGI}")


def _is_async(app: object) -> bool:
    call = getattr(type(app), "__call__", None)  # noqa: B004  # whether that is a coroutine
    return inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(call)


def _takes(app: object) -> int | None:
    """Return how many arguments an app needs, None where that does not show."""
    try:
        found = inspect.signature(app).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in found):
        return None
    return sum(each.default is each.empty and each.kind is not each.KEYWORD_ONLY for each in found)
