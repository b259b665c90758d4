"""Bodies and files: how long, what name, where they stand. Exposed by utils."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from curlhttp.exceptions import FileModeWarning, UnrewindableBodyError

if TYPE_CHECKING:
    from curlhttp.requests.models import PreparedRequest

__all__ = [
    "atomic_open",
    "extract_zipped_paths",
    "guess_filename",
    "rewind_body",
    "super_len",
]


def super_len(o: Any) -> int:
    """Return how much there is left to read of a body, as far as it can tell; else 0.

    A string counts in UTF-8. Files are asked for their size, other objects for __len__(), len
    or where their end is, less where they stand.
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
        total = _file_size(o)
    if hasattr(o, "tell"):
        try:
            position = o.tell()
        except OSError:  # a pipe: nothing is known to be left of what has a size
            position = total or 0
        else:
            if total is None and hasattr(o, "seek"):
                total = _end(o, position)
    return 0 if total is None else max(0, total - position)


def _file_size(file: Any) -> int | None:
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


def _end(file: Any, position: int) -> int:
    try:
        file.seek(0, os.SEEK_END)
        end = cast(int, file.tell())
        file.seek(position or 0)
    except OSError:
        return 0
    return end


def guess_filename(obj: object) -> str | None:
    """Return the last part of an object's `name`, unless that is one such as <stdin>."""
    name = getattr(obj, "name", None)
    if not name or not isinstance(name, (str, bytes)):
        return None
    marks = ("<", ">") if isinstance(name, str) else (b"<", b">")
    if name[:1] == marks[0] or name[-1:] == marks[1]:
        return None
    return cast(str, os.path.basename(name))


def rewind_body(prepared_request: PreparedRequest) -> None:
    """Put a body where it was before it was sent.

    Raises:
        UnrewindableBodyError: it cannot seek, or where it was is not known.
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


def extract_zipped_paths(path: str) -> str:
    """Return the path of a file that can be opened, for one that may be in a ZIP archive.

    Args:
        path: a path that may lead through an archive, as in "app.zip/certs/ca.pem".

    Returns:
        The path of a temporary copy; `path` itself when it exists or there is no such member.
    """
    if os.path.exists(path):
        return path
    archive, member = os.path.split(path)
    while archive and not os.path.exists(archive):
        archive, prefix = os.path.split(archive)
        if not prefix:
            return path
        member = f"{prefix}/{member}"
    from zipfile import ZipFile, is_zipfile

    if not is_zipfile(archive):
        return path
    with ZipFile(archive) as opened:
        if member not in opened.namelist():
            return path
        content = opened.read(member)
    import tempfile

    descriptor, extracted = tempfile.mkstemp(suffix=os.path.splitext(member)[1])
    with open(descriptor, "wb") as file:
        file.write(content)
    return extracted


@contextlib.contextmanager
def atomic_open(filename: str) -> Iterator[BinaryIO]:
    """Open a file that takes its name once all is written; nothing is left of one that failed."""
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(filename))
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.replace(temporary, filename)
    except BaseException:
        os.remove(temporary)
        raise
