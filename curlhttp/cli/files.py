"""Open the files that options name, and replace files: completely, or not at all.

An error names the file of the option, not the temporary one.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from curlhttp._features.rename import rename_over
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed, reading
from curlhttp.exceptions import RequestException


def open_file(path: str, files: ExitStack) -> BinaryIO:
    """Open a file to read bytes; "-" is stdin.

    Args:
        path: as it was typed.
        files: closes the file.

    Raises:
        CommandFailed: it cannot be opened.
    """
    if path == "-":
        return sys.stdin.buffer
    with reading(path):
        return files.enter_context(Path(path).open("rb"))


def encode_text(text: str) -> bytes:
    """Return the bytes of an argument, even if they are not text in the locale's encoding."""
    return text.encode("utf-8", "surrogateescape")


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn the errors of writing a file into a CommandFailed that names it."""
    try:
        yield
    except (BrokenPipeError, RequestException):  # the reader of a named pipe is gone; the network
        raise
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}", WRITE_ERROR) from None


def replace_file(path: str | Path, content: str | bytes) -> None:
    """Replace a file. If that fails, for example because the disk is full, it is unchanged.

    What is no regular file, such as a pipe or a device, is written to.

    Raises:
        CommandFailed: the file cannot be written.
    """
    _replace([(Path(path), content)], None)


def replace_private_files(*files: tuple[Path, str]) -> None:
    """Replace files with mode 0600, all of them or none.

    Args:
        files: paths and contents.

    Raises:
        CommandFailed: a file cannot be written.
    """
    _replace(files, stat.S_IRUSR | stat.S_IWUSR)


def _replace(
    files: tuple[tuple[Path, str], ...] | list[tuple[Path, str | bytes]], mode: int | None
) -> None:
    written: list[tuple[Path, str, str]] = []
    try:
        for path, content in files:
            data = content if isinstance(content, bytes) else encode_text(content)
            with writing(path):
                real = os.path.realpath(path)
                if os.path.exists(real) and not os.path.isfile(real):
                    with open(real, "wb") as file:
                        file.write(data)
                else:
                    written.append((path, real, _write_beside(real, data, mode)))
        for path, real, temporary in written:
            with writing(path):
                rename_over(temporary, real)
    finally:
        for _, _, temporary in written:
            with suppress(OSError):  # it has replaced its file, or an earlier error matters more
                os.unlink(temporary)


def _write_beside(path: str, data: bytes, mode: int | None) -> str:
    """Write a temporary file with the mode of a file or a new one, and return its path."""
    folder, name = os.path.split(path)
    if mode is None:
        if os.path.exists(path) and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        mode = _get_mode(path)
    # The name is random, because a killed run may have left a temporary file.
    descriptor, temporary = tempfile.mkstemp(".new", f".{name[:50]}.", folder)
    try:
        with open(descriptor, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            file.write(data)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _get_mode(path: str) -> int:
    """Return the mode of a file, or that of a new one."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)  # there is no other way to read it
        os.umask(mask)
        return 0o666 & ~mask
