"""Conditional requests: ask for a body only if it has changed since an earlier response."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._http.request import ClientRequest

VALIDATORS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
NOT_MODIFIED = 304
_CONDITIONS = {"if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range"}


def add_conditions(request: ClientRequest, validators: dict[str, str]) -> bool:
    """Make a request conditional (RFC 9110, section 13.1), unless it has conditions of its own.

    Args:
        request: it is changed.
        validators: of an earlier response, by lower-case names of VALIDATORS.

    Returns:
        Whether a 304 confirms the validators.
    """
    if not validators or not _CONDITIONS.isdisjoint(map(str.lower, request.headers)):
        return False
    request.headers.update({VALIDATORS[name]: value for name, value in validators.items()})
    return True
