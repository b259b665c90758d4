"""urllib3.util.response: whether a file-like object is closed."""

from __future__ import annotations

from typing import Any

__all__ = ["is_fp_closed"]


def is_fp_closed(obj: Any) -> bool:
    """Tell whether a file or an http.client response is closed.

    Raises:
        ValueError: it does not say.
    """
    if callable(getattr(obj, "isclosed", None)):
        return bool(obj.isclosed())
    if hasattr(obj, "closed"):
        return bool(obj.closed)
    if hasattr(obj, "fp"):
        return obj.fp is None
    raise ValueError("Unable to determine whether fp is closed.")
