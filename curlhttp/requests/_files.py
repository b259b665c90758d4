"""A body's length, file name and position. `utils` exposes these functions."""

from __future__ import annotations

import io
import os
import warnings
from typing import TYPE_CHECKING, Any, cast

from curlhttp.exceptions import FileModeWarning, UnrewindableBodyError

if TYPE_CHECKING:
    from curlhttp.requests.models import PreparedRequest


def super_len(o: Any) -> int:
    """Return how many bytes of a body are left to read, or 0 if that is unknown.

    A string counts as UTF-8. For other objects, it is the first of len(), `.len`, the file size and
    the position of the end that they have, minus the current position.
    """
    total: int | None = None
    position = 0
    if isinstance(o, str):
        o = o.encode()
    if hasattr(o, "__len__"):
        total = len(o)
    elif hasattr(o, "len"):
        total = o.len
    elif hasattr(o, "fileno"):
        total = _get_file_size(o)
    if hasattr(o, "tell"):
        try:
            position = o.tell()
        except OSError:  # a pipe: what is left is unknown
            position = total or 0
        else:
            if total is None and hasattr(o, "seek"):
                total = _get_end(o, position)
    return 0 if total is None else max(0, total - position)


def _get_file_size(file: Any) -> int | None:
    try:
        descriptor = file.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return None
    size = os.fstat(descriptor).st_size
    if "b" not in file.mode:
        warnings.warn(
            "The file is open in text mode, and its length in bytes may not be that of its text. "
            "Open it in binary mode.",
            FileModeWarning,
            stacklevel=3,
        )
    return size


def _get_end(file: Any, position: int) -> int:
    try:
        file.seek(0, os.SEEK_END)
        end = cast(int, file.tell())
        file.seek(position or 0)
    except OSError:
        return 0
    return end


def guess_filename(obj: object) -> str | None:
    """Return the last part of an object's `name`, unless it is a placeholder such as <stdin>."""
    name = getattr(obj, "name", None)
    if not name or not isinstance(name, (str, bytes)):
        return None
    marks = ("<", ">") if isinstance(name, str) else (b"<", b">")
    if name[:1] == marks[0] or name[-1:] == marks[1]:
        return None
    return cast(str, os.path.basename(name))


def rewind_body(prepared_request: PreparedRequest) -> None:
    """Seek a body back to its position before it was sent.

    Raises:
        UnrewindableBodyError: it cannot seek, or that position is unknown.
    """
    seek = getattr(prepared_request.body, "seek", None)
    position = prepared_request._body_position
    if seek is None or not isinstance(position, int):
        raise UnrewindableBodyError("Unable to rewind request body for redirect.")
    try:
        seek(position)
    except OSError as error:
        raise UnrewindableBodyError(
            "An error occurred when rewinding request body for redirect."
        ) from error
